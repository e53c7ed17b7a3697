/* gguf.h - a GGUF v2/v3 model, one file or a set of shards, mapped and bounds-checked.
 *
 * Owns the mappings; everything handed out points into them and lives until gguf_close(). Nothing beyond the
 * headers is read at open. Every count, length, offset and product is checked against the file before it is used;
 * format: spec page "gguf", sections 1 and 6. */
#ifndef HAYATE_MODEL_GGUF_H
#define HAYATE_MODEL_GGUF_H

#include "gpu/base.h"
#include "gpu/quant.h"

#include <sys/types.h>
#include <time.h>

enum gguf_type {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STR, GGUF_ARR, GGUF_U64, GGUF_I64, GGUF_F64,
};

struct gguf_kv {
    struct str key;
    uint32_t type;       /* enum gguf_type */
    uint32_t elem_type;  /* of an array, else = type */
    uint64_t n;          /* elements; 1 for a scalar */
    const uint8_t *data; /* the first element, packed, unaligned; strings are u64 length + bytes */
    size_t data_bytes;
};

struct gguf_tensor {
    struct str name;
    const struct quant_type *type;
    uint32_t n_dims;
    uint64_t dim[4];      /* ggml order: dim[0] is contiguous; missing ones are 1 */
    size_t row_bytes;
    size_t bytes;
    const uint8_t *data;  /* in the mapping; not necessarily aligned */
    uint32_t shard;       /* index of the file it came from */
    uint64_t file_offset; /* of data in that file */
};

typedef struct gguf gguf;

/* Opens path and, when it belongs to a set (-00001-of-0000N), all its shards beside it (beside the link, for a symlink).
 * Giving a later shard opens the set as well. Errors: ERR_IO (cannot open or map, missing shard by name),
 * ERR_FORMAT (damaged, truncated, lying, other byte order), ERR_UNSUPPORTED (version, foreign tensor type). */
status gguf_open(gguf **out, const char *path, struct err *e);
/* The same for bytes in memory (the built-in model, fuzzing): one file, kept by the caller until gguf_close. name is for messages. */
status gguf_open_memory(gguf **out, const void *bytes, size_t n, const char *name, struct err *e);
void gguf_close(gguf *g); /* accepts NULL */

const char *gguf_name(const gguf *g);                     /* the path or name given */
size_t gguf_n_shards(const gguf *g);
const char *gguf_shard_path(const gguf *g, size_t shard);
size_t gguf_file_bytes(const gguf *g);                    /* sum over shards */

/* One file of the set as it was when it was mapped: whoever opens it again can see whether it still is. */
struct gguf_file {
    const char *path;
    const uint8_t *map;
    size_t bytes;
    dev_t device;
    ino_t inode;
    struct timespec written;
};
bool gguf_file_of(const gguf *g, size_t shard, struct gguf_file *out); /* false: bytes in memory, which belong to no file */
uint32_t gguf_version(const gguf *g);
size_t gguf_alignment(const gguf *g);                     /* of the first shard's data */

size_t gguf_n_kv(const gguf *g);
const struct gguf_kv *gguf_kv_at(const gguf *g, size_t i);
const struct gguf_kv *gguf_find(const gguf *g, const char *key); /* NULL when absent */
size_t gguf_n_tensors(const gguf *g);
const struct gguf_tensor *gguf_tensor_at(const gguf *g, size_t i); /* shard by shard, in file order */
const struct gguf_tensor *gguf_find_tensor(const gguf *g, const char *name); /* NULL when absent; hashed */

/* Typed access. "req" forms fail when the key is absent; "opt" forms then return def. Any integer width is accepted and
 * range-checked ("FILE: key K is 7, expected 1..4"); a wrong type is ERR_FORMAT in both forms. */
status gguf_req_uint(const gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *out, struct err *e);
status gguf_opt_uint(const gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t def, uint64_t *out, struct err *e);
status gguf_req_f32(const gguf *g, const char *key, float *out, struct err *e);
status gguf_opt_f32(const gguf *g, const char *key, float def, float *out, struct err *e);
status gguf_opt_bool(const gguf *g, const char *key, bool def, bool *out, struct err *e);
status gguf_opt_str(const gguf *g, const char *key, struct str def, struct str *out, struct err *e);
/* Array of integers (or one scalar, taken as an array of one) into out[cap]; *n = its length. Absent: *n = 0 and OK.
 * Longer than cap or an element outside lo..hi: ERR_FORMAT. Booleans read as 0/1. */
status gguf_opt_ints(const gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out, size_t cap, size_t *n, struct err *e);
/* The same for values up to 2^64-1 (hash multipliers). */
status gguf_opt_u64s(const gguf *g, const char *key, uint64_t *out, size_t cap, size_t *n, struct err *e);

/* fail() with "FILE: " of that shard in front; e may be NULL. For whoever finds fault with the contents later. */
status gguf_fail(const gguf *g, size_t shard, struct err *e, status code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Walks an array of strings: at = NULL-initialised cursor state. False at the end. */
struct gguf_strs {
    const uint8_t *p;
    uint64_t left;
};
/* kv must be an array of strings (checked at open to lie inside the file). */
struct gguf_strs gguf_strs(const struct gguf_kv *kv);
bool gguf_next_str(struct gguf_strs *it, struct str *s);

#endif
