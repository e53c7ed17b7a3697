/* direct.c - aligned reads with O_DIRECT, and without where that is refused. */
#define _GNU_SOURCE /* O_DIRECT */
#include "model/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What every disk takes as offset, length and address; most would take 512 bytes. The cache keeps up to 2 MiB as one piece, which
 * is dropped whole or not at all. */
enum { PAGE = 4096, FOLIO = 2 << 20 };

struct source {
    struct gguf_file file;
    int fd, fd_direct;   /* -1: none */
    atomic_bool refused; /* O_DIRECT was taken by open, but not by a read */
};

struct direct {
    struct source *source; /* [n] */
    size_t n;
    uint8_t **buffer; /* [n_readers], page aligned */
    uint32_t n_readers;
    size_t max_bytes;
};

static status same_file(const struct source *s, struct err *e)
{
    struct stat st;
    const struct gguf_file *f = &s->file;
    if (fstat(s->fd, &st))
        return fail(e, ERR_IO, "%s: cannot read its size: %s", f->path, strerror(errno));
    if ((size_t)st.st_size != f->bytes)
        return fail(e, ERR_IO, "%s: changed while it was loaded: found %zu bytes, expected %zu", f->path, (size_t)st.st_size,
                    f->bytes);
    if (st.st_dev != f->device || st.st_ino != f->inode || st.st_mtim.tv_sec != f->written.tv_sec ||
        st.st_mtim.tv_nsec != f->written.tv_nsec)
        return fail(e, ERR_IO, "%s: changed while it was loaded: found %s, expected the file as it was opened", f->path,
                    st.st_dev == f->device && st.st_ino == f->inode ? "a later time of writing" : "another file of this name");
    return OK;
}

static status open_source(struct source *s, enum load how, struct err *e)
{
    s->fd = open(s->file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (s->fd < 0)
        return fail(e, ERR_IO, "%s: cannot open it again: %s", s->file.path, strerror(errno));
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM); /* nothing is to be read ahead of us into the cache */
    if (how != LOAD_PLAIN)
        s->fd_direct = open(s->file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_DIRECT);
    return same_file(s, e);
}

status direct_open(direct **out, const gguf *g, uint32_t n_readers, size_t max_bytes, enum load how, struct err *e)
{
    status s = OK;
    direct *d = calloc(1, sizeof *d);
    if (!d)
        return fail(e, ERR_NOMEM, "reader of the weights");
    *d = (direct){ .n_readers = n_readers, .max_bytes = max_bytes };
    size_t n = g && how != LOAD_MMAP ? gguf_n_shards(g) : 0;
    d->source = calloc(n + 1, sizeof *d->source);
    d->buffer = calloc(n_readers, sizeof *d->buffer);
    bool room = d->source && d->buffer;
    for (size_t i = 0; room && i < n; i++)
        if (gguf_file_of(g, i, &d->source[d->n].file)) {
            d->source[d->n] = (struct source){ .file = d->source[d->n].file, .fd = -1, .fd_direct = -1 };
            d->n++;
        }
    for (uint32_t i = 0; room && d->n && i < n_readers; i++) /* both ends of a read may lie inside a page */
        room = (d->buffer[i] = aligned_alloc(PAGE, size_up(max_bytes, PAGE) + PAGE)) != NULL;
    if (!room)
        s = fail(e, ERR_NOMEM, "%u buffers of %zu bytes to read the weights", n_readers, max_bytes);
    for (size_t i = 0; s == OK && i < d->n; i++)
        s = open_source(&d->source[i], how, e);
    if (s == OK)
        *out = d;
    else
        direct_close(d);
    return s;
}

void direct_close(direct *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++) {
        if (d->source[i].fd >= 0)
            close(d->source[i].fd);
        if (d->source[i].fd_direct >= 0)
            close(d->source[i].fd_direct);
    }
    for (uint32_t i = 0; d->buffer && i < d->n_readers; i++)
        free(d->buffer[i]);
    free(d->buffer);
    free(d->source);
    free(d);
}

/* Fills buf from `from` on, both aligned, until it holds `want` bytes; the last page may be longer. */
static status read_pages(struct source *s, uint8_t *buf, uint64_t from, size_t want, struct err *e)
{
    for (size_t got = 0; got < want;) {
        bool plain = s->fd_direct < 0 || atomic_load(&s->refused);
        ssize_t n = pread(plain ? s->fd : s->fd_direct, buf + got, size_up(want, PAGE) - got, (off_t)(from + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && !plain) {
            atomic_store(&s->refused, true);
            continue;
        }
        if (n < 0)
            return fail(e, ERR_IO, "%s: cannot read %zu bytes at offset %" PRIu64 ": %s", s->file.path, want - got, from + got,
                        strerror(errno));
        size_t all = got + (size_t)n;
        if (all < want && !plain) /* the next read begins at a page again */
            all -= all % PAGE;
        if (all == got)
            return fail(e, ERR_IO,
                        "%s: the file got shorter while it was loaded: found the end at byte %" PRIu64 ", expected %" PRIu64,
                        s->file.path, from + got + (size_t)n, from + want);
        got = all;
    }
    uint64_t first = from - MIN(from, (uint64_t)FOLIO);
    posix_fadvise(s->fd, (off_t)first, (off_t)(from + want + FOLIO - first), POSIX_FADV_DONTNEED);
    return OK;
}

status direct_read(direct *d, uint32_t reader, const void *p, size_t n, const uint8_t **out, struct err *e)
{
    const uint8_t *at = p;
    *out = at;
    for (size_t i = 0; i < d->n; i++) {
        const struct gguf_file *f = &d->source[i].file;
        if (at < f->map || at >= f->map + f->bytes)
            continue;
        uint64_t offset = (uint64_t)(at - f->map);
        if (n > d->max_bytes || n > f->bytes - offset)
            return fail(e, ERR_IO, "%s: %zu bytes at offset %" PRIu64 ", expected at most %zu", f->path, n, offset,
                        MIN(d->max_bytes, f->bytes - offset));
        size_t skip = offset % PAGE;
        *out = d->buffer[reader] + skip;
        return read_pages(&d->source[i], d->buffer[reader], offset - skip, skip + n, e);
    }
    return OK;
}

status direct_unchanged(const direct *d, struct err *e)
{
    for (size_t i = 0; i < d->n; i++)
        TRY(same_file(&d->source[i], e));
    return OK;
}
