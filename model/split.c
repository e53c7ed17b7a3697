/* split.c - rewrites a model so that its joined n-gram table becomes one tensor per head (PLE16; spec page "gguf", section 4).
 *
 * Every key but split.* and every weight byte is copied as it is; the padding rows behind the last head are dropped. The file appears
 * under its name only when it is complete; whatever goes wrong before leaves nothing behind. */
#define _GNU_SOURCE /* asprintf */
#include "model/gguf.h"
#include "model/guard.h"
#include "model/options.h"
#include "model/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOINED "per_layer_token_embd.weight"

enum { PIECE_BYTES = 8 << 20 };

/* ---- a file being written ---- */

struct out {
    int fd;
    char *path;   /* the temporary name */
    const char *from;
    uint8_t *buf; /* [PIECE_BYTES] */
    size_t n;     /* in buf */
    uint64_t pos; /* bytes put so far */
};

static status write_all(struct out *o, const uint8_t *p, size_t n, struct err *e)
{
    while (n) {
        ssize_t k = write(o->fd, p, MIN(n, PIECE_BYTES));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EFAULT) /* what a read of the mapping would end in */
            return fail(e, ERR_IO, "%s: the file got shorter while it was in use", o->from);
        if (k <= 0)
            return fail(e, ERR_IO, "%s: cannot write after %llu bytes: %s", o->path, (unsigned long long)o->pos,
                        k ? strerror(errno) : "no progress");
        p += k;
        n -= (size_t)k;
        o->pos += (size_t)k;
    }
    return OK;
}

static status flush(struct out *o, struct err *e)
{
    size_t n = o->n;
    o->n = 0;
    return write_all(o, o->buf, n, e);
}

/* Small pieces are gathered, large ones go straight from the mapping. */
static status put(struct out *o, const void *p, size_t n, struct err *e)
{
    if (n > PIECE_BYTES - o->n)
        TRY(flush(o, e));
    if (n > PIECE_BYTES)
        return write_all(o, p, n, e);
    memcpy(o->buf + o->n, p, n);
    o->n += n;
    return OK;
}

static status put_u32(struct out *o, uint32_t v, struct err *e) { return put(o, &v, sizeof v, e); }
static status put_u64(struct out *o, uint64_t v, struct err *e) { return put(o, &v, sizeof v, e); }

static status put_padding(struct out *o, size_t align, struct err *e)
{
    static const uint8_t zero[64];
    uint64_t at = o->pos + o->n;
    for (size_t left = (size_t)(-at & (align - 1)); left;) {
        size_t n = MIN(left, sizeof zero);
        TRY(put(o, zero, n, e));
        left -= n;
    }
    return OK;
}

/* ---- what is written ---- */

/* A tensor of the new file. */
struct item {
    struct str name;
    const struct quant_type *type;
    uint32_t n_dims;
    uint64_t dim[4];
    const uint8_t *data;
    size_t bytes;
};

struct items {
    struct item *v; /* [n], owned */
    size_t n;
    char head_name[MAX_PLE_HEADS][40];
};

static status check_table(const gguf *g, const struct shape *s, const struct gguf_tensor *t, struct err *e)
{
    uint64_t rows = 0;
    for (uint32_t h = 0; h < s->ple_head; h++)
        rows = MAX(rows, s->ple_offset[h] + s->ple_size[h]);
    if (t->dim[0] != s->ple_row || t->dim[1] < rows || t->dim[2] != 1 || t->dim[3] != 1)
        return gguf_fail(g, t->shard, e, ERR_FORMAT, "tensor " JOINED " is [%llu, %llu, %llu, %llu], expected [%u, %llu or more]",
                         (unsigned long long)t->dim[0], (unsigned long long)t->dim[1], (unsigned long long)t->dim[2],
                         (unsigned long long)t->dim[3], s->ple_row, (unsigned long long)rows);
    return OK;
}

/* The tensors in the order they were read, the heads at the place of the joined table. */
static status list_items(struct items *l, const gguf *g, const struct shape *s, const struct gguf_tensor *joined, struct err *e)
{
    l->v = calloc(gguf_n_tensors(g) + s->ple_head, sizeof *l->v);
    if (!l->v)
        return gguf_fail(g, 0, e, ERR_NOMEM, "out of memory for the tensor list");
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (t != joined) {
            struct item *x = &l->v[l->n++];
            *x = (struct item){ .name = t->name, .type = t->type, .n_dims = t->n_dims, .data = t->data, .bytes = t->bytes };
            memcpy(x->dim, t->dim, sizeof x->dim);
            continue;
        }
        for (uint32_t h = 0; h < s->ple_head; h++) {
            size_t n = (size_t)snprintf(l->head_name[h], sizeof l->head_name[h], "ple_ngram_embd.%u.weight", h);
            l->v[l->n++] = (struct item){
                .name = { l->head_name[h], n }, .type = t->type, .n_dims = 2, .dim = { s->ple_row, s->ple_size[h], 1, 1 },
                .data = t->data + s->ple_offset[h] * t->row_bytes, .bytes = s->ple_size[h] * t->row_bytes,
            };
        }
    }
    return OK;
}

static bool is_split_key(const struct gguf_kv *kv) { return kv->key.n > 6 && !memcmp(kv->key.p, "split.", 6); }

static status put_model(struct out *o, const gguf *g, const struct items *l, struct err *e)
{
    size_t align = gguf_alignment(g);
    uint64_t n_kv = 0, offset = 0;
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        n_kv += !is_split_key(gguf_kv_at(g, i));
    TRY(put(o, "GGUF", 4, e));
    TRY(put_u32(o, 3, e));
    TRY(put_u64(o, l->n, e));
    TRY(put_u64(o, n_kv, e));
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        const uint8_t *begin = (const uint8_t *)kv->key.p - 8; /* the length of the key */
        if (!is_split_key(kv))
            TRY(put(o, begin, (size_t)(kv->data + kv->data_bytes - begin), e));
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct item *x = &l->v[i];
        TRY(put_u64(o, x->name.n, e));
        TRY(put(o, x->name.p, x->name.n, e));
        TRY(put_u32(o, x->n_dims, e));
        TRY(put(o, x->dim, x->n_dims * sizeof x->dim[0], e));
        TRY(put_u32(o, x->type->id, e));
        TRY(put_u64(o, offset, e));
        offset = size_up(offset + x->bytes, align);
    }
    for (size_t i = 0; i < l->n; i++) {
        TRY(put_padding(o, align, e));
        TRY(put(o, l->v[i].data, l->v[i].bytes, e));
    }
    TRY(put_padding(o, align, e));
    return flush(o, e);
}

/* ---- in and out ---- */

/* Refuses a target that is the input or that a rename would destroy without being a file. */
static status check_target(const gguf *g, const char *path, struct err *e)
{
    struct stat out, in;
    if (lstat(path, &out)) {
        if (errno == ENOENT)
            return OK;
        return fail(e, ERR_IO, "%s: cannot write there: %s", path, strerror(errno));
    }
    if (!S_ISREG(out.st_mode))
        return fail(e, ERR_USAGE, "%s: exists and is %s, expected a new name or a regular file", path,
                    S_ISDIR(out.st_mode) ? "a directory" : S_ISLNK(out.st_mode) ? "a symbolic link" : "a device or pipe");
    for (size_t i = 0; i < gguf_n_shards(g); i++)
        if (!stat(gguf_shard_path(g, i), &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return fail(e, ERR_USAGE, "%s: is the input itself, expected another name", path);
    return OK;
}

/* Makes a rename last; a file system that cannot sync a directory loses nothing but speed of recovery. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

static status write_file(const char *path, const gguf *g, const struct items *l, struct err *e)
{
    status s = OK;
    struct out o = { .fd = -1, .buf = malloc(PIECE_BYTES), .from = gguf_name(g) };
    if (asprintf(&o.path, "%s.tmp.%ld", path, (long)getpid()) < 0)
        o.path = NULL;
    if (!o.buf || !o.path) {
        s = fail(e, ERR_NOMEM, "%s: out of memory", path);
        goto out;
    }
    o.fd = open(o.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o.fd < 0) {
        s = fail(e, ERR_IO, "%s: cannot create: %s", o.path, strerror(errno));
        goto out;
    }
    guard_temporary(o.path);
    s = put_model(&o, g, l, e);
    if (s == OK && fsync(o.fd))
        s = fail(e, ERR_IO, "%s: cannot write to the device: %s", o.path, strerror(errno));
    if (close(o.fd) && s == OK)
        s = fail(e, ERR_IO, "%s: cannot finish: %s", o.path, strerror(errno));
    if (s == OK && rename(o.path, path))
        s = fail(e, ERR_IO, "%s: cannot rename to %s: %s", o.path, path, strerror(errno));
    if (s != OK)
        unlink(o.path);
    else
        sync_directory(path);
out:
    guard_temporary(NULL);
    free(o.path);
    free(o.buf);
    return s;
}

status split_ple16(const char *in_path, const char *out_path, struct err *e)
{
    status s;
    gguf *g = NULL;
    struct shape shape;
    struct items items = { 0 };
    TRY(gguf_open(&g, in_path, e));
    TRY_OR(out, s, shape_read(&shape, g, e));
    const struct gguf_tensor *joined = gguf_find_tensor(g, JOINED);
    if (!joined) {
        s = gguf_find_tensor(g, "ple_ngram_embd.0.weight")
                ? gguf_fail(g, 0, e, ERR_USAGE, "the n-gram table is split by head already (PLE16), expected a joined one")
                : gguf_fail(g, 0, e, ERR_UNSUPPORTED, "no n-gram table found, expected tensor " JOINED);
        goto out;
    }
    if (shape.ple_layer < 0) {
        s = gguf_fail(g, 0, e, ERR_FORMAT, "tensor " JOINED " found, but no key qwen4exp.ple.layers");
        goto out;
    }
    TRY_OR(out, s, check_table(g, &shape, joined, e));
    TRY_OR(out, s, check_target(g, out_path, e));
    TRY_OR(out, s, list_items(&items, g, &shape, joined, e));
    s = write_file(out_path, g, &items, e);
out:
    free(items.v);
    gguf_close(g);
    return s;
}
