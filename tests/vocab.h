/* vocab.h - vocabularies for tests: a small GGUF built in memory, key by key, so that a test can also leave a key out or
 * get it wrong. */
#ifndef HAYATE_TESTS_VOCAB_H
#define HAYATE_TESTS_VOCAB_H

#include "model/gguf.h"
#include "model/tokenizer.h"

#include <assert.h>
#include <string.h>

struct blob {
    struct text b;
    uint64_t n_kv;
};

static inline void blob_bytes(struct blob *o, const void *p, size_t n)
{
    status s = text_add(&o->b, p, n, NULL);
    assert(s == OK);
}
static inline void blob_u32(struct blob *o, uint32_t x) { blob_bytes(o, &x, 4); }
static inline void blob_u64(struct blob *o, uint64_t x) { blob_bytes(o, &x, 8); }
static inline void blob_str(struct blob *o, const char *s, size_t n)
{
    blob_u64(o, n);
    blob_bytes(o, s, n);
}

static inline void blob_begin(struct blob *o)
{
    blob_bytes(o, "GGUF", 4);
    blob_u32(o, 3);
    blob_u64(o, 0); /* tensors */
    blob_u64(o, 0); /* keys, set by blob_open */
}
static inline void blob_key(struct blob *o, const char *key, uint32_t type)
{
    blob_str(o, key, strlen(key));
    blob_u32(o, type);
    o->n_kv++;
}
static inline void blob_key_str(struct blob *o, const char *key, const char *value)
{
    blob_key(o, key, GGUF_STR);
    blob_str(o, value, strlen(value));
}
static inline void blob_key_u32(struct blob *o, const char *key, uint32_t value)
{
    blob_key(o, key, GGUF_U32);
    blob_u32(o, value);
}
static inline void blob_key_array(struct blob *o, const char *key, uint32_t elem_type, uint64_t n)
{
    blob_key(o, key, GGUF_ARR);
    blob_u32(o, elem_type);
    blob_u64(o, n);
}

/* A byte in the printable alphabet of token texts; returns its length. */
static inline size_t alphabet_letter(uint8_t b, char out[2])
{
    uint32_t c = b;
    if (b <= 0x20)
        c = 0x100u + b;
    else if (b >= 0x7F && b <= 0xA0)
        c = 0x121u + (b - 0x7Fu);
    else if (b == 0xAD)
        c = 0x143;
    if (c < 0x80)
        return out[0] = (char)c, 1;
    out[0] = (char)(0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

/* Tokens 0..255 are the single bytes, then the extra ones of the test. */
struct extra_token {
    const char *text;
    int32_t type;
};
static inline void blob_tokens(struct blob *o, const struct extra_token *extra, size_t n_extra)
{
    blob_key_array(o, "tokenizer.ggml.tokens", GGUF_STR, 256 + n_extra);
    for (unsigned b = 0; b < 256; b++) {
        char c[2];
        blob_str(o, c, alphabet_letter((uint8_t)b, c));
    }
    for (size_t i = 0; i < n_extra; i++)
        blob_str(o, extra[i].text, strlen(extra[i].text));
}
static inline void blob_types(struct blob *o, const struct extra_token *extra, size_t n_extra)
{
    blob_key_array(o, "tokenizer.ggml.token_type", GGUF_I32, 256 + n_extra);
    for (size_t i = 0; i < 256 + n_extra; i++)
        blob_u32(o, i < 256 ? 1 : (uint32_t)extra[i - 256].type);
}
static inline void blob_merges(struct blob *o, const char *const *merge, size_t n)
{
    blob_key_array(o, "tokenizer.ggml.merges", GGUF_STR, n);
    for (size_t i = 0; i < n; i++)
        blob_str(o, merge[i], strlen(merge[i]));
}

/* Opens what was built; the blob must stay. */
static inline status blob_open(struct blob *o, gguf **g, tokenizer **t, struct err *e)
{
    memcpy(o->b.p + 16, &o->n_kv, 8);
    *g = NULL;
    *t = NULL;
    TRY(gguf_open_memory(g, o->b.p, o->b.n, "test.gguf", e));
    return tokenizer_open(t, *g, e);
}

#endif
