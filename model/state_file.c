/* state_file.c - see state_file.h. */
#include "model/state_file.h"

#include "model/store.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "hayateST"
enum { FORMAT = 2, HEAD_BYTES = 80, PIECE_BYTES = 1 << 18 };

/* ---- what a state follows from ---- */

/* This program, to the byte: a kernel that was changed, or compiled otherwise, may compute other bits. */
static status hash_program(struct state_files *f, struct err *e)
{
    static const char self[] = "/proc/self/exe";
    ssize_t n = -1;
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    XXH3_64bits_reset(f->hash);
    while (fd >= 0 && ((n = read(fd, f->piece, PIECE_BYTES)) > 0 || (n < 0 && errno == EINTR)))
        XXH3_64bits_update(f->hash, f->piece, (size_t)MAX(n, 0));
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return fail(e, ERR_IO, "cannot read %s, expected to know this program by its bytes: %s", self, strerror(why));
    const char *libc = gnu_get_libc_version(); /* expf and its like */
    XXH3_64bits_update(f->hash, libc, strlen(libc));
    f->program = XXH3_64bits_digest(f->hash);
    return OK;
}

status state_files_open(struct state_files *f, struct err *e)
{
    *f = (struct state_files){ .hash = XXH3_createState(), .piece = malloc(PIECE_BYTES) };
    status st = f->hash && f->piece ? hash_program(f, e) : fail(e, ERR_NOMEM, "a buffer of %d bytes", PIECE_BYTES);
    if (st != OK)
        state_files_close(f);
    return st;
}

void state_files_close(struct state_files *f)
{
    XXH3_freeState(f->hash);
    free(f->piece);
    *f = (struct state_files){ 0 };
}

void state_files_bind(struct state_files *f, const model *m, const struct session_params *p)
{
    char text[1024];
    struct stat st;
    int n = snprintf(text, sizeof text, "kv %s precise %d raw %d %s %s", kv_type_name(p), p->precise, p->no_pooled_cache || p->pooled_max_tokens, model_backend(m),
                     model_arithmetic(m));
    f->options = XXH3_64bits(text, (size_t)n);
    uint64_t identity = model_identity(m);
    XXH3_64bits_reset(f->hash);
    XXH3_64bits_update(f->hash, &identity, sizeof identity);
    /* the identity samples the weights; the time of the files also notices those that were edited in between */
    for (size_t i = 0; !model_is_demo(m) && i < gguf_n_shards(model_gguf(m)); i++) {
        memset(&st, 0, sizeof st);
        stat(gguf_shard_path(model_gguf(m), i), &st);
        n = snprintf(text, sizeof text, "; %lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        XXH3_64bits_update(f->hash, text, (size_t)n);
    }
    f->model = XXH3_64bits_digest(f->hash);
}

uint64_t state_file_key(const struct state_files *f, const int32_t *ids, size_t n)
{
    uint64_t of[] = { FORMAT, f->program, f->model, f->options, XXH3_64bits(ids, n * sizeof *ids), n };
    return XXH3_64bits(of, sizeof of);
}

uint64_t state_file_bytes(session *s, size_t n) { return HEAD_BYTES + (uint64_t)session_state_bytes(s, n); }

/* ---- the head of a file ---- */

/* In the order of the file */
enum field { PROGRAM, MODEL, OPTIONS, TOKENS, POSITIONS, BYTES, HASH, CHECK, N_FIELD };
struct head {
    uint64_t field[N_FIELD];
};

static void put_le(uint8_t *p, uint64_t x, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        p[k] = (uint8_t)(x >> 8 * k);
}

static uint64_t get_le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (unsigned k = 0; k < 8; k++)
        x |= (uint64_t)p[k] << 8 * k;
    return x;
}

static void head_write(struct head *h, uint8_t p[HEAD_BYTES])
{
    memcpy(p, MAGIC, 8);
    put_le(p + 8, FORMAT, 4);
    put_le(p + 12, HEAD_BYTES, 4);
    for (int i = 0; i < CHECK; i++)
        put_le(p + 16 + 8 * i, h->field[i], 8);
    h->field[CHECK] = XXH3_64bits(p, HEAD_BYTES - 8);
    put_le(p + HEAD_BYTES - 8, h->field[CHECK], 8);
}

static struct head head_of(const struct state_files *f, session *s, const int32_t *ids, size_t n)
{
    return (struct head){ { [PROGRAM] = f->program, [MODEL] = f->model, [OPTIONS] = f->options, [TOKENS] = XXH3_64bits(ids, n * sizeof *ids),
                            [POSITIONS] = n, [BYTES] = session_state_bytes(s, n) } };
}

/* Takes the hash of the state from a head that is otherwise `want`. */
static status head_read(struct head *want, const uint8_t p[HEAD_BYTES], struct err *e)
{
    uint64_t found[N_FIELD], format = get_le64(p + 8);
    if (memcmp(p, MAGIC, 8) != 0)
        return fail(e, ERR_FORMAT, "its head is not that of a saved state");
    for (int i = 0; i < N_FIELD; i++)
        found[i] = get_le64(p + 16 + 8 * i);
    if (format != (FORMAT | (uint64_t)HEAD_BYTES << 32))
        return fail(e, ERR_FORMAT, "its head is of format %u with %u bytes, expected %d with %d", (unsigned)format, (unsigned)(format >> 32), FORMAT, HEAD_BYTES);
    if (found[CHECK] != XXH3_64bits(p, HEAD_BYTES - 8))
        return fail(e, ERR_FORMAT, "its head is damaged");
    if (found[PROGRAM] != want->field[PROGRAM])
        return fail(e, ERR_FORMAT, "found the state of another build of this program (%016" PRIx64 "), expected %016" PRIx64, found[PROGRAM], want->field[PROGRAM]);
    if (found[MODEL] != want->field[MODEL])
        return fail(e, ERR_FORMAT, "found the state of another model (%016" PRIx64 "), expected %016" PRIx64, found[MODEL], want->field[MODEL]);
    if (found[OPTIONS] != want->field[OPTIONS])
        return fail(e, ERR_FORMAT, "found a state of another K/V type, --precise, --no-pooled-cache, backend or device, expected that of this command");
    if (found[TOKENS] != want->field[TOKENS] || found[POSITIONS] != want->field[POSITIONS])
        return fail(e, ERR_FORMAT, "found the state of another prompt, of %" PRIu64 " tokens, expected this one of %" PRIu64, found[POSITIONS], want->field[POSITIONS]);
    want->field[HASH] = found[HASH];
    return OK;
}

/* ---- reading ---- */

/* A file whose bytes go through the hash. */
struct hashed {
    struct state_files *f;
    int fd;
};

static status read_whole(int fd, void *p, size_t n, struct err *e)
{
    uint8_t *at = p;
    while (n) {
        ssize_t k = read(fd, at, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail(e, ERR_IO, "%s", k ? strerror(errno) : "it ends early");
        at += k;
        n -= (size_t)k;
    }
    return OK;
}

static status get(void *ctx, void *p, size_t n, struct err *e)
{
    struct hashed *h = ctx;
    TRY(read_whole(h->fd, p, n, e));
    XXH3_64bits_update(h->f->hash, p, n);
    return OK;
}

/* Reads the file to its end. OK: it is whole, and the descriptor is behind its head. */
static status check_file(struct state_files *f, int fd, struct head *h, struct err *e)
{
    struct stat st;
    uint8_t head[HEAD_BYTES];
    uint64_t size = HEAD_BYTES + h->field[BYTES];
    if (fstat(fd, &st) != 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(e, ERR_FORMAT, "not a regular file");
    if (st.st_size >= HEAD_BYTES) {
        TRY(read_whole(fd, head, sizeof head, e));
        TRY(head_read(h, head, e));
    }
    if ((uint64_t)st.st_size != size)
        return fail(e, ERR_FORMAT, "%lld bytes, expected %" PRIu64, (long long)st.st_size, size);
    XXH3_64bits_reset(f->hash);
    for (uint64_t left = h->field[BYTES], k; left; left -= k) {
        k = MIN(left, (uint64_t)PIECE_BYTES);
        TRY(get(&(struct hashed){ f, fd }, f->piece, (size_t)k, e));
    }
    if (XXH3_64bits_digest(f->hash) != h->field[HASH])
        return fail(e, ERR_FORMAT, "damaged: its hash is another one");
    return lseek(fd, HEAD_BYTES, SEEK_SET) == HEAD_BYTES ? OK : fail(e, ERR_IO, "%s", strerror(errno));
}

/* A file is read twice, so that no byte that is not trusted reaches a session; the second time it comes from memory. */
status state_file_load(struct state_files *f, int fd, session *s, const int32_t *ids, size_t n, struct err *e)
{
    struct head h = head_of(f, s, ids, n);
    TRY(check_file(f, fd, &h, e));
    XXH3_64bits_reset(f->hash);
    TRY(session_load(s, n, get, &(struct hashed){ f, fd }, e));
    return XXH3_64bits_digest(f->hash) == h.field[HASH] ? OK : fail(e, ERR_FORMAT, "it changed while it was read");
}

/* ---- writing ---- */

static status put(void *ctx, const void *p, size_t n, struct err *e)
{
    struct hashed *h = ctx;
    int failed = write_all(h->fd, p, n);
    XXH3_64bits_update(h->f->hash, p, n);
    return failed ? fail(e, ERR_IO, "%s", strerror(failed)) : OK;
}

/* The head is written last: without it the rest is nothing. */
static status write_file(struct state_files *f, int fd, session *s, struct head *h, struct err *e)
{
    uint8_t head[HEAD_BYTES] = { 0 };
    int failed = write_all(fd, (const char *)head, sizeof head);
    if (failed)
        return fail(e, ERR_IO, "%s", strerror(failed));
    XXH3_64bits_reset(f->hash);
    TRY(session_save(s, put, &(struct hashed){ f, fd }, e));
    h->field[HASH] = XXH3_64bits_digest(f->hash);
    head_write(h, head);
    if (pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head || fsync(fd) != 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    return OK;
}

status state_file_save(struct state_files *f, int dir, const char *name, const char *temporary, session *s, const int32_t *ids, size_t n, struct err *e)
{
    struct head h = head_of(f, s, ids, n);
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    status st = write_file(f, fd, s, &h, e);
    if (close(fd) != 0 && st == OK)
        st = fail(e, ERR_IO, "%s", strerror(errno));
    if (st == OK && renameat(dir, temporary, dir, name) != 0)
        st = fail(e, ERR_IO, "%s", strerror(errno));
    if (st != OK)
        unlinkat(dir, temporary, 0);
    return st;
}

void state_file_temporary(char *out, size_t cap, const char *prefix)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* two machines may share a folder, and a pid */
    snprintf(out, cap, "%s%ld-%ld", prefix, (long)getpid(), t.tv_nsec);
}
