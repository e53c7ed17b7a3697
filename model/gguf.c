/* gguf.c - map a GGUF file or a set of shards, check every count, length and offset, index keys and tensors by name.
 *
 * Refuses what is not GGUF v2/v3 little-endian, what is truncated, and what contradicts itself. Tensor data is never read here.
 *
 *   header   magic "GGUF" | version u32 | n_tensors u64 | n_kv u64                                  24 bytes
 *   kv       key: length u64, bytes | type u32 | value; an array is element type u32, n u64, elements; nothing is aligned
 *   info     name: length u64, bytes | n_dims u32 | n_dims x u64 | type u32 | offset u64, from the start of the data
 *   padding to general.alignment (32), then the data
 */
#include "model/gguf.h"

#include "model/guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    HEADER_BYTES = 24,
    KV_MIN_BYTES = 8 + 1 + 4 + 1,       /* a one-byte key with a u8 */
    INFO_MIN_BYTES = 8 + 1 + 4 + 4 + 8, /* a one-byte name without dimensions */
    NAME_LIMIT = 64,                    /* tensor names are shorter */
    ALIGN_DEFAULT = 32,
    ALIGN_LIMIT = 1 << 20,
    HEADER_COUNT_LIMIT = 1 << 24, /* keys, tensors: far above any real file, small enough to allocate */
};
#define COUNT_LIMIT (1ull << 30) /* bytes of a string, elements of an array: the limit of the reference reader */

static const uint8_t TYPE_BYTES[] = {
    [GGUF_U8] = 1, [GGUF_I8] = 1, [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4,
    [GGUF_BOOL] = 1, [GGUF_STR] = 0, [GGUF_ARR] = 0, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};
static const char *const TYPE_NAME[] = {
    [GGUF_U8] = "u8", [GGUF_I8] = "i8", [GGUF_U16] = "u16", [GGUF_I16] = "i16", [GGUF_U32] = "u32", [GGUF_I32] = "i32",
    [GGUF_F32] = "f32", [GGUF_BOOL] = "bool", [GGUF_STR] = "string", [GGUF_ARR] = "array", [GGUF_U64] = "u64",
    [GGUF_I64] = "i64", [GGUF_F64] = "f64",
};

/* Open addressing over item number + 1; 0 is free. n_slots is a power of two, at least twice the items. */
struct index {
    uint32_t *slot;
    size_t n_slots;
};

/* One file of the set. */
struct shard {
    char *path; /* owned */
    const uint8_t *map;
    size_t bytes;
    bool mapped; /* else the caller's memory */
    dev_t device;
    ino_t inode;
    struct timespec written;
    uint32_t version;
    size_t align;
    struct gguf_kv *kv; /* [n_kv], owned */
    size_t n_kv;
    struct index kv_index;
    size_t n_tensors, first_tensor; /* its part of gguf.tensor */
};

struct gguf {
    char *name;
    struct shard *shard;
    size_t n_shards;
    struct gguf_tensor *tensor; /* [n_tensors], shard by shard */
    size_t n_tensors;
    struct index tensor_index;
};

static status vbad(const char *path, struct err *e, status code, const char *fmt, va_list ap)
{
    if (!e)
        return code;
    char text[sizeof e->msg], tail[200]; /* of a long path the end tells more */
    size_t n = strlen(path);
    bool cut = n >= sizeof tail;
    vsnprintf(text, sizeof text, fmt, ap);
    snprintf(tail, sizeof tail, "%s%s", cut ? "..." : "", cut ? path + n - (sizeof tail - 4) : path);
    fail(e, code, "%s", text);
    return fail_in(e, tail);
}

/* "FILE: message" */
static status bad(const struct shard *f, struct err *e, status code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static status bad(const struct shard *f, struct err *e, status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vbad(f->path, e, code, fmt, ap);
    va_end(ap);
    return code;
}

static status no_memory(const struct shard *f, struct err *e) { return bad(f, e, ERR_NOMEM, "out of memory while reading the header"); }

/* ---- names to numbers ---- */

static size_t hash_of(struct str s) { return (size_t)XXH3_64bits(s.p, s.n); }

static bool index_alloc(struct index *x, size_t n_items)
{
    x->n_slots = 16;
    while (x->n_slots < 2 * n_items)
        x->n_slots *= 2;
    x->slot = calloc(x->n_slots, sizeof *x->slot);
    return x->slot != NULL;
}

/* Name of item i of an index. */
typedef struct str (*name_fn)(const void *items, size_t i);
static struct str kv_name(const void *items, size_t i) { return ((const struct gguf_kv *)items)[i].key; }
static struct str tensor_name(const void *items, size_t i) { return ((const struct gguf_tensor *)items)[i].name; }

/* The slot that holds key, or the free one where it belongs. */
static uint32_t *index_slot(const struct index *x, name_fn name, const void *items, struct str key)
{
    for (size_t i = hash_of(key);; i++) {
        uint32_t *s = &x->slot[i & (x->n_slots - 1)];
        if (*s == 0 || str_eq(name(items, *s - 1), key))
            return s;
    }
}

static const struct gguf_kv *shard_find(const struct shard *f, struct str key)
{
    uint32_t i = f->kv_index.slot ? *index_slot(&f->kv_index, kv_name, f->kv, key) : 0;
    return i ? &f->kv[i - 1] : NULL;
}

/* ---- reading ---- */

/* What is left of a file. */
struct reader {
    const uint8_t *p;
    size_t left;
};

static const uint8_t *take(struct reader *r, uint64_t n)
{
    if (n > r->left)
        return NULL;
    const uint8_t *p = r->p;
    r->p += n;
    r->left -= n;
    return p;
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t u64_at(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool take_u32(struct reader *r, uint32_t *v)
{
    const uint8_t *p = take(r, 4);
    if (p)
        *v = u32_at(p);
    return p != NULL;
}

static bool take_u64(struct reader *r, uint64_t *v)
{
    const uint8_t *p = take(r, 8);
    if (p)
        *v = u64_at(p);
    return p != NULL;
}

static size_t where(const struct shard *f, const struct reader *r) { return f->bytes - r->left; }

static status truncated(const struct shard *f, const struct reader *r, struct err *e, const char *what)
{
    return bad(f, e, ERR_FORMAT, "truncated in %s: found %zu bytes, expected more after byte %zu", what, f->bytes, where(f, r));
}

static status take_str(const struct shard *f, struct reader *r, struct str *s, const char *what, struct err *e)
{
    uint64_t n;
    if (!take_u64(r, &n))
        return truncated(f, r, e, what);
    if (n > COUNT_LIMIT)
        return bad(f, e, ERR_FORMAT, "damaged: length of %s at byte %zu is %llu, expected at most %llu", what, where(f, r) - 8,
                   (unsigned long long)n, COUNT_LIMIT);
    if (n > r->left)
        return bad(f, e, ERR_FORMAT, "truncated or damaged: length of %s at byte %zu is %llu, but only %zu bytes are left", what,
                   where(f, r) - 8, (unsigned long long)n, r->left);
    *s = (struct str){ (const char *)take(r, n), (size_t)n };
    return OK;
}

/* Text that may stand in a message and be compared with a C string. */
static bool printable(struct str s, bool ascii)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7f || (ascii && c > 0x7f))
            return false;
    }
    return true;
}

static status read_value(const struct shard *f, struct reader *r, struct gguf_kv *kv, struct err *e)
{
    kv->n = 1;
    kv->elem_type = kv->type;
    if (kv->type == GGUF_ARR) {
        if (!take_u32(r, &kv->elem_type) || !take_u64(r, &kv->n))
            return truncated(f, r, e, "an array");
        if (kv->elem_type == GGUF_ARR)
            return bad(f, e, ERR_UNSUPPORTED, "key %.*s is an array of arrays, expected no nesting", STR_FMT(kv->key));
        if (kv->n > COUNT_LIMIT)
            return bad(f, e, ERR_FORMAT, "damaged: array %.*s has %llu elements, expected at most %llu", STR_FMT(kv->key),
                       (unsigned long long)kv->n, COUNT_LIMIT);
    }
    if (kv->elem_type >= COUNT_OF(TYPE_BYTES))
        return bad(f, e, ERR_FORMAT, "damaged: key %.*s has value type %u, expected 0..%zu", STR_FMT(kv->key), kv->elem_type,
                   COUNT_OF(TYPE_BYTES) - 1);
    kv->data = r->p;
    if (kv->elem_type == GGUF_STR) {
        for (uint64_t i = 0; i < kv->n; i++) {
            struct str s;
            TRY(take_str(f, r, &s, "a string value", e));
        }
    } else if (!take(r, kv->n * TYPE_BYTES[kv->elem_type])) { /* at most 2^30 * 8 */
        return bad(f, e, ERR_FORMAT, "truncated or damaged: key %.*s has %llu x %s at byte %zu, but only %zu bytes are left",
                   STR_FMT(kv->key), (unsigned long long)kv->n, TYPE_NAME[kv->elem_type], where(f, r), r->left);
    }
    kv->data_bytes = (size_t)(r->p - kv->data);
    return OK;
}

static status read_kvs(struct shard *f, struct reader *r, uint64_t n, struct err *e)
{
    f->kv = calloc(n ? n : 1, sizeof *f->kv);
    if (!f->kv || !index_alloc(&f->kv_index, n))
        return no_memory(f, e);
    for (uint64_t i = 0; i < n; i++) {
        struct gguf_kv *kv = &f->kv[i];
        TRY(take_str(f, r, &kv->key, "a key", e));
        if (kv->key.n == 0 || !printable(kv->key, true))
            return bad(f, e, ERR_FORMAT, "damaged: name of key %llu is %s, expected printable ASCII", (unsigned long long)i,
                       kv->key.n ? "not printable" : "empty");
        if (!take_u32(r, &kv->type))
            return truncated(f, r, e, "a key");
        TRY(read_value(f, r, kv, e));
        uint32_t *slot = index_slot(&f->kv_index, kv_name, f->kv, kv->key);
        if (*slot)
            return bad(f, e, ERR_FORMAT, "key %.*s found twice, expected once", STR_FMT(kv->key));
        *slot = (uint32_t)(i + 1);
        f->n_kv++;
    }
    return OK;
}

/* Any integer: the value modulo 2^64, and whether it is below zero. */
struct integer {
    uint64_t v;
    bool neg;
};

static bool int_elem(const struct gguf_kv *kv, uint64_t i, struct integer *out)
{
    const uint8_t *p = kv->data + i * TYPE_BYTES[kv->elem_type];
    int64_t v = 0;
    switch (kv->elem_type) {
    case GGUF_U8: v = *p; break;
    case GGUF_BOOL: v = *p != 0; break;
    case GGUF_I8: v = (int8_t)*p; break;
    case GGUF_U16: { uint16_t x; memcpy(&x, p, 2); v = x; break; }
    case GGUF_I16: { int16_t x; memcpy(&x, p, 2); v = x; break; }
    case GGUF_U32: v = u32_at(p); break;
    case GGUF_I32: v = (int32_t)u32_at(p); break;
    case GGUF_I64: v = (int64_t)u64_at(p); break;
    case GGUF_U64: *out = (struct integer){ u64_at(p), false }; return true;
    default: return false;
    }
    *out = (struct integer){ (uint64_t)v, v < 0 };
    return true;
}

static const char *kv_type_name(const struct gguf_kv *kv) { return TYPE_NAME[kv->type]; }

static status uint_of(const struct shard *f, const struct gguf_kv *kv, uint64_t lo, uint64_t hi, uint64_t *out, struct err *e)
{
    struct integer x;
    if (kv->type == GGUF_ARR || kv->type == GGUF_BOOL || !int_elem(kv, 0, &x))
        return bad(f, e, ERR_FORMAT, "key %.*s is of type %s, expected an integer", STR_FMT(kv->key), kv_type_name(kv));
    if (x.neg)
        return bad(f, e, ERR_FORMAT, "key %.*s is %lld, expected %llu..%llu", STR_FMT(kv->key), (long long)x.v, (unsigned long long)lo,
                   (unsigned long long)hi);
    if (x.v < lo || x.v > hi)
        return bad(f, e, ERR_FORMAT, "key %.*s is %llu, expected %llu..%llu", STR_FMT(kv->key), (unsigned long long)x.v,
                   (unsigned long long)lo, (unsigned long long)hi);
    *out = x.v;
    return OK;
}

static status shard_uint(const struct shard *f, const char *key, uint64_t hi, uint64_t def, uint64_t *out, struct err *e)
{
    const struct gguf_kv *kv = shard_find(f, (struct str){ key, strlen(key) });
    *out = def;
    return kv ? uint_of(f, kv, 0, hi, out, e) : OK;
}

/* One tensor info; its data pointer is still the offset. */
static status read_info(const struct shard *f, struct reader *r, struct gguf_tensor *t, uint64_t *offset, struct err *e)
{
    uint32_t type_id;
    uint64_t elems = 1;
    TRY(take_str(f, r, &t->name, "a tensor name", e));
    if (t->name.n == 0 || t->name.n >= NAME_LIMIT)
        return bad(f, e, ERR_FORMAT, "damaged: a tensor name of %zu bytes ends at byte %zu, expected 1..%d", t->name.n, where(f, r),
                   NAME_LIMIT - 1);
    if (!printable(t->name, false))
        return bad(f, e, ERR_FORMAT, "damaged: tensor name %.*s has control characters", STR_FMT(t->name));
    if (!take_u32(r, &t->n_dims))
        return truncated(f, r, e, "the tensor list");
    if (t->n_dims > 4)
        return bad(f, e, ERR_FORMAT, "tensor %.*s has %u dimensions, expected 0..4", STR_FMT(t->name), t->n_dims);
    for (uint32_t d = 0; d < 4; d++) {
        t->dim[d] = 1;
        if (d < t->n_dims && !take_u64(r, &t->dim[d]))
            return truncated(f, r, e, "the tensor list");
        if (t->dim[d] == 0)
            return bad(f, e, ERR_FORMAT, "dimension %u of tensor %.*s is 0, expected at least 1", d, STR_FMT(t->name));
        if (__builtin_mul_overflow(elems, t->dim[d], &elems) || elems > INT64_MAX)
            return bad(f, e, ERR_FORMAT, "tensor %.*s has 2^63 or more elements", STR_FMT(t->name));
    }
    if (!take_u32(r, &type_id) || !take_u64(r, offset))
        return truncated(f, r, e, "the tensor list");
    t->type = quant_type(type_id);
    if (!t->type)
        return bad(f, e, ERR_UNSUPPORTED, "tensor %.*s has type %u (%s), expected a standard GGUF type", STR_FMT(t->name), type_id,
                   quant_foreign_name(type_id));
    if (t->dim[0] % t->type->block_len)
        return bad(f, e, ERR_FORMAT, "tensor %.*s has rows of %llu, expected a multiple of %u for %s", STR_FMT(t->name),
                   (unsigned long long)t->dim[0], t->type->block_len, t->type->name);
    if (*offset % f->align)
        return bad(f, e, ERR_FORMAT, "data of tensor %.*s starts at offset %llu, expected a multiple of %zu", STR_FMT(t->name),
                   (unsigned long long)*offset, f->align);
    if (!size_mul(t->dim[0] / t->type->block_len, t->type->block_bytes, &t->row_bytes) ||
        !size_mul(t->row_bytes, elems / t->dim[0], &t->bytes))
        return bad(f, e, ERR_FORMAT, "tensor %.*s is larger than 2^64 bytes", STR_FMT(t->name));
    return OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a, *y = *(const struct gguf_tensor *const *)b;
    return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

/* No two tensors of a shard may share bytes: no writer does that, and a file that lies must not alias. */
static status check_overlap(const gguf *g, const struct shard *f, struct err *e)
{
    size_t n = f->n_tensors;
    const struct gguf_tensor **t = malloc((n ? n : 1) * sizeof *t);
    status s = OK;
    if (!t)
        return no_memory(f, e);
    for (size_t i = 0; i < n; i++)
        t[i] = &g->tensor[f->first_tensor + i];
    qsort(t, n, sizeof *t, by_offset);
    for (size_t i = 1; i < n && s == OK; i++)
        if (t[i]->file_offset - t[i - 1]->file_offset < t[i - 1]->bytes)
            s = bad(f, e, ERR_FORMAT, "data of tensors %.*s and %.*s overlap at byte %llu", STR_FMT(t[i - 1]->name),
                    STR_FMT(t[i]->name), (unsigned long long)t[i]->file_offset);
    free(t);
    return s;
}

static status read_infos(gguf *g, struct shard *f, struct reader *r, uint64_t n, struct err *e)
{
    f->first_tensor = g->n_tensors;
    if (n == 0)
        return OK; /* the file may end here, without padding */
    struct gguf_tensor *grown = realloc(g->tensor, (g->n_tensors + n) * sizeof *grown);
    if (!grown)
        return no_memory(f, e);
    g->tensor = grown;
    for (uint64_t i = 0; i < n; i++) {
        struct gguf_tensor *t = &g->tensor[g->n_tensors];
        memset(t, 0, sizeof *t);
        t->shard = (uint32_t)(f - g->shard);
        TRY(read_info(f, r, t, &t->file_offset, e));
        g->n_tensors++;
        f->n_tensors++;
    }
    size_t data_start = size_up(where(f, r), f->align);
    for (size_t i = f->first_tensor; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensor[i];
        size_t begin, end;
        if (!size_add(data_start, t->file_offset, &begin) || !size_add(begin, t->bytes, &end))
            return bad(f, e, ERR_FORMAT, "damaged: data of tensor %.*s ends after byte 2^64", STR_FMT(t->name));
        if (end > f->bytes)
            return bad(f, e, ERR_FORMAT, "truncated or damaged: data of tensor %.*s is bytes %zu..%zu, but the file has %zu",
                       STR_FMT(t->name), begin, end, f->bytes);
        t->file_offset = begin;
        t->data = f->map + begin;
    }
    return check_overlap(g, f, e);
}

/* What a file without the magic looks like. */
static const char *looks_like(const uint8_t *p, size_t n)
{
    static const struct { const char *magic; size_t n; const char *name; } KNOWN[] = {
        { "PK\3\4", 4, "a zip archive (a PyTorch checkpoint?); convert it to GGUF" },
        { "FUGG", 4, "a GGUF with reversed byte order" },
        { "lmgg", 4, "an old GGML file" }, { "tjgg", 4, "an old GGJT file" }, { "fmgg", 4, "an old GGMF file" },
        { "version https://git-lfs", 23, "a Git LFS pointer; the model itself was not downloaded" },
        { "\x1f\x8b", 2, "gzip-compressed data" }, { "\x28\xb5\x2f\xfd", 4, "zstd-compressed data" },
        { "\xfd" "7zXZ", 5, "xz-compressed data" }, { "\x7f" "ELF", 4, "an ELF binary" }, { "\x89HDF", 4, "an HDF5 file" },
        { "%PDF", 4, "a PDF document" },
    };
    for (size_t i = 0; i < COUNT_OF(KNOWN); i++)
        if (n >= KNOWN[i].n && !memcmp(p, KNOWN[i].magic, KNOWN[i].n))
            return KNOWN[i].name;
    if (n > 9 && u64_at(p) <= n - 8 && p[8] == '{')
        return "a safetensors file; convert it to GGUF";
    if (n >= 4096 && !memcmp(p + 4000, "CIRUPLE1", 8)) /* trailer of its 4 KB pages */
        return "an external CIRUPLE1 n-gram table, not a model";
    size_t i = 0, head = MIN(n, 256);
    while (i < head && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t'))
        i++;
    if (i < head && p[i] == '<')
        return "an HTML or XML page; did the download fail?";
    for (i = 0; i < head; i++)
        if (p[i] == 0x7f || (p[i] < 0x20 && !(p[i] >= '\t' && p[i] <= '\r')))
            return "unknown data";
    return "a text file";
}

static status read_header(struct shard *f, struct reader *r, uint64_t *n_tensors, uint64_t *n_kv, struct err *e)
{
    if (f->bytes == 0)
        return bad(f, e, ERR_FORMAT, "not a GGUF file: found an empty file");
    if (f->bytes < 4 || memcmp(f->map, "GGUF", 4))
        return bad(f, e, ERR_FORMAT, "not a GGUF file: found %s", looks_like(f->map, f->bytes));
    if (f->bytes < HEADER_BYTES)
        return bad(f, e, ERR_FORMAT, "truncated: found %zu bytes, expected a header of %d", f->bytes, HEADER_BYTES);
    f->version = u32_at(f->map + 4);
    if (f->version && !(f->version & 0xffff))
        return bad(f, e, ERR_FORMAT, "byte order: found a big-endian GGUF, expected little-endian");
    if (f->version == 1)
        return bad(f, e, ERR_UNSUPPORTED, "GGUF version 1 found, which is obsolete; expected 2 or 3");
    if (f->version != 2 && f->version != 3)
        return bad(f, e, ERR_UNSUPPORTED, "GGUF version %u found, expected 2 or 3", f->version);
    *n_tensors = u64_at(f->map + 8);
    *n_kv = u64_at(f->map + 16);
    take(r, HEADER_BYTES);
    if (*n_kv > r->left / KV_MIN_BYTES || *n_kv > HEADER_COUNT_LIMIT)
        return bad(f, e, ERR_FORMAT, "truncated or damaged: header says %llu keys, but only %zu bytes follow",
                   (unsigned long long)*n_kv, r->left);
    if (*n_tensors > r->left / INFO_MIN_BYTES || *n_tensors > HEADER_COUNT_LIMIT)
        return bad(f, e, ERR_FORMAT, "truncated or damaged: header says %llu tensors, but only %zu bytes follow",
                   (unsigned long long)*n_tensors, r->left);
    return OK;
}

/* Reads the headers of a mapped file and appends its tensors to g. */
static status read_shard(gguf *g, struct shard *f, struct err *e)
{
    struct reader r = { f->map, f->bytes };
    uint64_t n_tensors = 0, n_kv = 0, align;
    TRY(read_header(f, &r, &n_tensors, &n_kv, e));
    TRY(read_kvs(f, &r, n_kv, e));
    TRY(shard_uint(f, "general.alignment", ALIGN_LIMIT, ALIGN_DEFAULT, &align, e));
    if (align == 0 || (align & (align - 1)))
        return bad(f, e, ERR_FORMAT, "key general.alignment is %llu, expected a power of two", (unsigned long long)align);
    f->align = (size_t)align;
    if (n_tensors > r.left / INFO_MIN_BYTES)
        return bad(f, e, ERR_FORMAT, "truncated or damaged: %llu tensors expected, but only %zu bytes follow the keys",
                   (unsigned long long)n_tensors, r.left);
    return read_infos(g, f, &r, n_tensors, e);
}

/* ---- files ---- */

static const char *file_kind(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory (a checkpoint folder? convert it)" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* A pipe must not block the open, hence O_NONBLOCK. */
static status map_file(struct shard *f, struct err *e)
{
    status s = OK;
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return bad(f, e, ERR_IO, "cannot open: %s", strerror(errno));
    if (fstat(fd, &st))
        s = bad(f, e, ERR_IO, "cannot read its size: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        s = bad(f, e, ERR_IO, "found %s, expected a GGUF file", file_kind(st.st_mode));
    else if (st.st_size > 0) { /* an empty file is reported with the header */
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            s = bad(f, e, ERR_IO, "cannot map: %s", strerror(errno));
        else {
            f->map = p;
            f->bytes = (size_t)st.st_size;
            f->mapped = true;
            f->device = st.st_dev;
            f->inode = st.st_ino;
            f->written = st.st_mtim;
            guard_add(p, f->bytes, f->path);
        }
    }
    close(fd);
    return s;
}

static void shard_free(struct shard *f)
{
    if (f->mapped) {
        guard_remove(f->map);
        munmap((void *)f->map, f->bytes);
    }
    free(f->kv);
    free(f->kv_index.slot);
    free(f->path);
    *f = (struct shard){ 0 };
}

void gguf_close(gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_shards; i++)
        shard_free(&g->shard[i]);
    free(g->shard);
    free(g->tensor);
    free(g->tensor_index.slot);
    free(g->name);
    free(g);
}

/* Room for n shards with names; the first keeps what it has. */
static status shards_alloc(gguf *g, size_t n, struct err *e)
{
    struct shard *grown = realloc(g->shard, n * sizeof *grown);
    if (!grown)
        return fail(e, ERR_NOMEM, "out of memory for %zu shards", n);
    memset(grown + g->n_shards, 0, (n - g->n_shards) * sizeof *grown);
    g->shard = grown;
    g->n_shards = n;
    return OK;
}

/* ---- sets of shards ---- */

enum { SUFFIX_CHARS = 20 }; /* "-00001-of-00003.gguf" */
enum { SPLIT_LIMIT = 65535 }; /* the keys are u16 */

/* Numbers in a name that ends like a shard's; false for other names. */
static bool shard_suffix(const char *path, unsigned *no, unsigned *count)
{
    size_t n = strlen(path);
    if (n < SUFFIX_CHARS)
        return false;
    const char *s = path + n - SUFFIX_CHARS;
    for (size_t i = 0; i < SUFFIX_CHARS; i++) {
        bool digit = s[i] >= '0' && s[i] <= '9';
        if (("-ddddd-of-ddddd.gguf"[i] == 'd' && i != SUFFIX_CHARS - 1) ? !digit : s[i] != "-ddddd-of-ddddd.gguf"[i])
            return false;
    }
    *no = (unsigned)strtoul(s + 1, NULL, 10);
    *count = (unsigned)strtoul(s + 10, NULL, 10);
    return true;
}

static char *shard_path(const char *any, unsigned no, unsigned count)
{
    size_t n = strlen(any) + 1; /* the suffix has the same length for every number up to 99999 */
    char *p = malloc(n);
    if (p) {
        memcpy(p, any, n);
        snprintf(p + n - 1 - SUFFIX_CHARS, SUFFIX_CHARS + 1, "-%05u-of-%05u.gguf", no % 100000, count % 100000);
    }
    return p;
}

/* Key of a shard that must be there and have this value. */
static status check_split_key(const struct shard *f, const char *key, uint64_t want, struct err *e)
{
    uint64_t v;
    if (!shard_find(f, (struct str){ key, strlen(key) }))
        return bad(f, e, ERR_FORMAT, "key %s missing, expected %llu (a shard of another set?)", key, (unsigned long long)want);
    TRY(shard_uint(f, key, UINT64_MAX, 0, &v, e));
    if (v != want)
        return bad(f, e, ERR_FORMAT, "key %s is %llu, expected %llu (a shard of another set?)", key, (unsigned long long)v,
                   (unsigned long long)want);
    return OK;
}

static status check_architecture(const struct shard *first, const struct shard *f, struct err *e)
{
    const struct gguf_kv *a = shard_find(first, STR("general.architecture")), *b = shard_find(f, STR("general.architecture"));
    if (a && b && (a->type != b->type || a->data_bytes != b->data_bytes || memcmp(a->data, b->data, a->data_bytes)))
        return bad(f, e, ERR_FORMAT, "key general.architecture differs from the first shard's (a shard of another set?)");
    return OK;
}

/* shard[0] is read and says it belongs to count files; opens the set it belongs to. */
static status open_set(gguf *g, uint64_t count, struct err *e)
{
    struct shard *f = &g->shard[0];
    unsigned name_no, name_count;
    uint64_t no, total = 0, sum = 0;
    TRY(shard_uint(f, "split.no", UINT64_MAX, 0, &no, e));
    if (count > SPLIT_LIMIT)
        return bad(f, e, ERR_FORMAT, "key split.count is %llu, expected at most %d", (unsigned long long)count, SPLIT_LIMIT);
    if (no >= count)
        return bad(f, e, ERR_FORMAT, "key split.no is %llu, expected less than split.count, %llu", (unsigned long long)no,
                   (unsigned long long)count);
    if (!f->mapped)
        return bad(f, e, ERR_UNSUPPORTED, "found shard %llu of %llu in memory, expected a whole model", (unsigned long long)no + 1,
                   (unsigned long long)count);
    if (!shard_suffix(f->path, &name_no, &name_count))
        return bad(f, e, ERR_FORMAT, "is shard %llu of %llu, expected a name that ends in -%05llu-of-%05llu.gguf",
                   (unsigned long long)no + 1, (unsigned long long)count, (unsigned long long)no + 1, (unsigned long long)count);
    if (name_count != count || name_no != no + 1)
        return bad(f, e, ERR_FORMAT, "the name says shard %u of %u, but its keys split.no and split.count say %llu of %llu", name_no,
                   name_count, (unsigned long long)no + 1, (unsigned long long)count);

    /* From here on in order, so that tensors are listed shard by shard; a later shard given first is read again. */
    char *any = f->path;
    if (no == 0)
        any = strdup(f->path);
    else {
        f->path = NULL;
        shard_free(f);
        g->n_tensors = 0;
    }
    if (!any)
        return fail(e, ERR_NOMEM, "out of memory");
    status s = shards_alloc(g, (size_t)count, e);
    for (size_t i = 0; i < count && s == OK; i++) {
        f = &g->shard[i];
        if (!f->path && !(f->path = shard_path(any, (unsigned)i + 1, (unsigned)count))) {
            s = fail(e, ERR_NOMEM, "out of memory");
            break;
        }
        if (!f->map) {
            TRY_OR(out, s, map_file(f, e));
            TRY_OR(out, s, read_shard(g, f, e));
        }
        TRY_OR(out, s, check_split_key(f, "split.no", i, e));
        TRY_OR(out, s, check_split_key(f, "split.count", count, e));
        if (i == 0)
            TRY_OR(out, s, shard_uint(f, "split.tensors.count", UINT64_MAX, f->n_tensors, &total, e));
        TRY_OR(out, s, check_split_key(f, "split.tensors.count", total, e));
        TRY_OR(out, s, check_architecture(&g->shard[0], f, e));
        sum += f->n_tensors;
    }
    if (s == OK && sum != total)
        s = bad(&g->shard[0], e, ERR_FORMAT, "key split.tensors.count is %llu, but the %llu shards have %llu tensors together",
                (unsigned long long)total, (unsigned long long)count, (unsigned long long)sum);
out:
    free(any);
    return s;
}

static status index_tensors(gguf *g, struct err *e)
{
    if (!index_alloc(&g->tensor_index, g->n_tensors))
        return fail(e, ERR_NOMEM, "out of memory for %zu tensor names", g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensor[i];
        uint32_t *slot = index_slot(&g->tensor_index, tensor_name, g->tensor, t->name);
        if (*slot)
            return bad(&g->shard[t->shard], e, ERR_FORMAT, "tensor %.*s found twice%s, expected once", STR_FMT(t->name),
                       g->tensor[*slot - 1].shard == t->shard ? "" : " (also in an earlier shard)");
        *slot = (uint32_t)(i + 1);
    }
    return OK;
}

static status open_any(gguf **out, const char *name, const void *bytes, size_t n, struct err *e)
{
    status s = ERR_NOMEM;
    uint64_t count;
    *out = NULL;
    gguf *g = calloc(1, sizeof *g);
    if (!g || !(g->name = strdup(name)) || shards_alloc(g, 1, e) != OK || !(g->shard[0].path = strdup(name))) {
        fail(e, ERR_NOMEM, "%s: out of memory", name);
        goto out;
    }
    struct shard *f = &g->shard[0];
    if (bytes) {
        f->map = bytes;
        f->bytes = n;
    } else {
        TRY_OR(out, s, map_file(f, e));
    }
    TRY_OR(out, s, read_shard(g, f, e));
    TRY_OR(out, s, shard_uint(f, "split.count", UINT64_MAX, 0, &count, e));
    if (count > 1)
        TRY_OR(out, s, open_set(g, count, e));
    TRY_OR(out, s, index_tensors(g, e));
    *out = g;
    return OK;
out:
    gguf_close(g);
    return s;
}

status gguf_open(gguf **out, const char *path, struct err *e) { return open_any(out, path, NULL, 0, e); }

status gguf_open_memory(gguf **out, const void *bytes, size_t n, const char *name, struct err *e)
{
    return open_any(out, name, bytes ? bytes : "", bytes ? n : 0, e);
}

/* ---- what was found ---- */

const char *gguf_name(const gguf *g) { return g->name; }
size_t gguf_n_shards(const gguf *g) { return g->n_shards; }

const char *gguf_shard_path(const gguf *g, size_t shard)
{
    assert(shard < g->n_shards);
    return g->shard[shard].path;
}

size_t gguf_file_bytes(const gguf *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->n_shards; i++)
        sum += g->shard[i].bytes;
    return sum;
}

bool gguf_file_of(const gguf *g, size_t shard, struct gguf_file *out)
{
    const struct shard *f = &g->shard[shard];
    *out = (struct gguf_file){ f->path, f->map, f->bytes, f->device, f->inode, f->written };
    return f->mapped;
}

uint32_t gguf_version(const gguf *g) { return g->shard[0].version; }
size_t gguf_alignment(const gguf *g) { return g->shard[0].align; }
size_t gguf_n_kv(const gguf *g) { return g->shard[0].n_kv; }

const struct gguf_kv *gguf_kv_at(const gguf *g, size_t i)
{
    assert(i < g->shard[0].n_kv);
    return &g->shard[0].kv[i];
}

const struct gguf_kv *gguf_find(const gguf *g, const char *key) { return shard_find(&g->shard[0], (struct str){ key, strlen(key) }); }
size_t gguf_n_tensors(const gguf *g) { return g->n_tensors; }

const struct gguf_tensor *gguf_tensor_at(const gguf *g, size_t i)
{
    assert(i < g->n_tensors);
    return &g->tensor[i];
}

const struct gguf_tensor *gguf_find_tensor(const gguf *g, const char *name)
{
    uint32_t i = *index_slot(&g->tensor_index, tensor_name, g->tensor, (struct str){ name, strlen(name) });
    return i ? &g->tensor[i - 1] : NULL;
}

status gguf_fail(const gguf *g, size_t shard, struct err *e, status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vbad(gguf_shard_path(g, shard), e, code, fmt, ap);
    va_end(ap);
    return code;
}

static status missing(const gguf *g, const char *key, struct err *e)
{
    return bad(&g->shard[0], e, ERR_FORMAT, "key %s missing", key);
}

static status wrong_type(const gguf *g, const struct gguf_kv *kv, const char *want, struct err *e)
{
    return bad(&g->shard[0], e, ERR_FORMAT, "key %.*s is %s%s, expected %s", STR_FMT(kv->key),
               kv->type == GGUF_ARR ? "an array of " : "of type ", TYPE_NAME[kv->elem_type], want);
}

status gguf_opt_uint(const gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t def, uint64_t *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    *out = def;
    return kv ? uint_of(&g->shard[0], kv, lo, hi, out, e) : OK;
}

status gguf_req_uint(const gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *out, struct err *e)
{
    if (!gguf_find(g, key))
        return missing(g, key, e);
    return gguf_opt_uint(g, key, lo, hi, 0, out, e);
}

status gguf_opt_f32(const gguf *g, const char *key, float def, float *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    *out = def;
    if (!kv)
        return OK;
    if (kv->type == GGUF_F32) {
        memcpy(out, kv->data, sizeof *out);
    } else if (kv->type == GGUF_F64) {
        double d;
        memcpy(&d, kv->data, sizeof d);
        *out = (float)d;
    } else {
        return wrong_type(g, kv, "f32", e);
    }
    return OK;
}

status gguf_req_f32(const gguf *g, const char *key, float *out, struct err *e)
{
    if (!gguf_find(g, key))
        return missing(g, key, e);
    return gguf_opt_f32(g, key, 0, out, e);
}

status gguf_opt_bool(const gguf *g, const char *key, bool def, bool *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    struct integer x;
    *out = def;
    if (!kv)
        return OK;
    if (kv->type == GGUF_ARR || !int_elem(kv, 0, &x))
        return wrong_type(g, kv, "bool", e);
    *out = x.v != 0;
    return OK;
}

status gguf_opt_str(const gguf *g, const char *key, struct str def, struct str *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    *out = def;
    if (!kv)
        return OK;
    if (kv->type != GGUF_STR)
        return wrong_type(g, kv, "string", e);
    *out = (struct str){ (const char *)kv->data + 8, kv->data_bytes - 8 };
    return OK;
}

/* Integer elements of key, at most cap; *kv = NULL when it is absent. */
static status ints_begin(const gguf *g, const char *key, size_t cap, const struct gguf_kv **kv, size_t *n, struct err *e)
{
    struct integer x;
    *n = 0;
    *kv = gguf_find(g, key);
    if (!*kv || ((*kv)->type == GGUF_ARR && (*kv)->n == 0))
        return OK; /* an empty array may be of any type */
    if (!int_elem(*kv, 0, &x))
        return wrong_type(g, *kv, "an array of integers", e);
    if ((*kv)->n > cap)
        return bad(&g->shard[0], e, ERR_FORMAT, "array %s has %llu elements, expected at most %zu", key, (unsigned long long)(*kv)->n,
                   cap);
    *n = (size_t)(*kv)->n;
    return OK;
}

status gguf_opt_ints(const gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out, size_t cap, size_t *n, struct err *e)
{
    const struct gguf_kv *kv;
    TRY(ints_begin(g, key, cap, &kv, n, e));
    for (size_t i = 0; i < *n; i++) {
        struct integer x = { 0, false };
        int_elem(kv, i, &x);
        if (!x.neg && x.v > INT64_MAX)
            return bad(&g->shard[0], e, ERR_FORMAT, "element %zu of %s is %llu, expected %lld..%lld", i, key, (unsigned long long)x.v,
                       (long long)lo, (long long)hi);
        out[i] = (int64_t)x.v;
        if (out[i] < lo || out[i] > hi)
            return bad(&g->shard[0], e, ERR_FORMAT, "element %zu of %s is %lld, expected %lld..%lld", i, key, (long long)out[i],
                       (long long)lo, (long long)hi);
    }
    return OK;
}

status gguf_opt_u64s(const gguf *g, const char *key, uint64_t *out, size_t cap, size_t *n, struct err *e)
{
    const struct gguf_kv *kv;
    TRY(ints_begin(g, key, cap, &kv, n, e));
    for (size_t i = 0; i < *n; i++) {
        struct integer x = { 0, false };
        int_elem(kv, i, &x);
        if (x.neg)
            return bad(&g->shard[0], e, ERR_FORMAT, "element %zu of %s is %lld, expected 0 or more", i, key, (long long)x.v);
        out[i] = x.v;
    }
    return OK;
}

struct gguf_strs gguf_strs(const struct gguf_kv *kv)
{
    assert(kv->elem_type == GGUF_STR);
    return (struct gguf_strs){ kv->data, kv->n };
}

bool gguf_next_str(struct gguf_strs *it, struct str *s)
{
    if (it->left == 0)
        return false;
    size_t n = (size_t)u64_at(it->p);
    *s = (struct str){ (const char *)it->p + 8, n };
    it->p += 8 + n;
    it->left--;
    return true;
}
