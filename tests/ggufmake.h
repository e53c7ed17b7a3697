/* ggufmake.h - builds small GGUF files in memory for tests, honest ones and lying ones. Standard C only; out of memory ends the test.
 *
 *     struct gm m = { 0 };
 *     gm_str(&m, "general.architecture", "qwen4exp");
 *     gm_int(&m, "qwen4exp.block_count", GM_U32, 8);
 *     gm_tensor(&m, "token_embd.weight", 0, (uint64_t[]){ 4, 2 }, 2, NULL, 32);
 *     uint8_t *bytes = gm_finish(&m, &n);   ...   free(bytes); gm_free(&m);
 *
 * Setting a key again replaces it; gm_drop removes it. NULL data is a pattern. */
#ifndef HAYATE_TESTS_GGUFMAKE_H
#define HAYATE_TESTS_GGUFMAKE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GM_U8, GM_I8, GM_U16, GM_I16, GM_U32, GM_I32, GM_F32, GM_BOOL, GM_STR, GM_ARR, GM_U64, GM_I64, GM_F64 };
enum { GM_MAX_KV = 128, GM_MAX_TENSORS = 400 };

struct gm_bytes {
    uint8_t *p;
    size_t n, cap;
};

struct gm {
    struct gm_kv {
        char *key;
        struct gm_bytes value; /* type and value */
    } kv[GM_MAX_KV];
    size_t n_kv;
    struct gm_tensor {
        struct gm_bytes info;
    } tensor[GM_MAX_TENSORS];
    size_t n_tensors;
    struct gm_bytes data;
    /* 0: the truth */
    uint32_t version;
    uint64_t say_kv, say_tensors;
    uint32_t align;    /* of the data; write the key as well */
};

static inline void gm_put(struct gm_bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->cap);
        if (!b->p)
            abort();
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void gm_put_u32(struct gm_bytes *b, uint32_t v) { gm_put(b, &v, 4); }
static inline void gm_put_u64(struct gm_bytes *b, uint64_t v) { gm_put(b, &v, 8); }
static inline void gm_put_str(struct gm_bytes *b, const char *s)
{
    gm_put_u64(b, strlen(s));
    gm_put(b, s, strlen(s));
}

/* Low bytes of v; this machine is little-endian like the format. */
static inline void gm_put_int(struct gm_bytes *b, uint32_t type, int64_t v)
{
    static const uint8_t bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    gm_put(b, &v, bytes[type]);
}

/* A fresh entry, also for a key that exists (gm_dup), with its type written. */
static inline struct gm_bytes *gm_append(struct gm *m, const char *key, uint32_t type)
{
    if (m->n_kv == GM_MAX_KV)
        abort();
    struct gm_kv *kv = &m->kv[m->n_kv++];
    *kv = (struct gm_kv){ 0 };
    kv->key = malloc(strlen(key) + 1);
    if (!kv->key)
        abort();
    strcpy(kv->key, key);
    gm_put_u32(&kv->value, type);
    return &kv->value;
}

static inline void gm_drop(struct gm *m, const char *key)
{
    for (size_t i = 0; i < m->n_kv; i++)
        if (!strcmp(m->kv[i].key, key)) {
            free(m->kv[i].key);
            free(m->kv[i].value.p);
            memmove(&m->kv[i], &m->kv[i + 1], (m->n_kv - i - 1) * sizeof m->kv[0]);
            m->n_kv--;
            return;
        }
}

static inline struct gm_bytes *gm_set(struct gm *m, const char *key, uint32_t type)
{
    for (size_t i = 0; i < m->n_kv; i++)
        if (!strcmp(m->kv[i].key, key)) {
            m->kv[i].value.n = 0;
            gm_put_u32(&m->kv[i].value, type);
            return &m->kv[i].value;
        }
    return gm_append(m, key, type);
}

static inline void gm_int(struct gm *m, const char *key, uint32_t type, int64_t v) { gm_put_int(gm_set(m, key, type), type, v); }
static inline void gm_u32(struct gm *m, const char *key, uint32_t v) { gm_int(m, key, GM_U32, v); }
static inline void gm_f32(struct gm *m, const char *key, float v) { gm_put(gm_set(m, key, GM_F32), &v, 4); }
static inline void gm_f64(struct gm *m, const char *key, double v) { gm_put(gm_set(m, key, GM_F64), &v, 8); }
static inline void gm_str(struct gm *m, const char *key, const char *v) { gm_put_str(gm_set(m, key, GM_STR), v); }

static inline struct gm_bytes *gm_arr(struct gm *m, const char *key, uint32_t elem_type, uint64_t n)
{
    struct gm_bytes *b = gm_set(m, key, GM_ARR);
    gm_put_u32(b, elem_type);
    gm_put_u64(b, n);
    return b;
}

static inline void gm_ints(struct gm *m, const char *key, uint32_t elem_type, const int64_t *v, size_t n)
{
    struct gm_bytes *b = gm_arr(m, key, elem_type, n);
    for (size_t i = 0; i < n; i++)
        gm_put_int(b, elem_type, v[i]);
}

static inline void gm_strs(struct gm *m, const char *key, const char *const *v, size_t n)
{
    struct gm_bytes *b = gm_arr(m, key, GM_STR, n);
    for (size_t i = 0; i < n; i++)
        gm_put_str(b, v[i]);
}

/* A tensor info that claims anything. */
static inline void gm_info(struct gm *m, const char *name, uint32_t n_dims, const uint64_t *dim, uint32_t type, uint64_t offset)
{
    if (m->n_tensors == GM_MAX_TENSORS)
        abort();
    struct gm_bytes *b = &m->tensor[m->n_tensors++].info;
    *b = (struct gm_bytes){ 0 };
    gm_put_str(b, name);
    gm_put_u32(b, n_dims);
    gm_put(b, dim, n_dims * sizeof *dim);
    gm_put_u32(b, type);
    gm_put_u64(b, offset);
}

static inline void gm_pad(struct gm_bytes *b, size_t align)
{
    while (b->n % align)
        gm_put(b, "", 1);
}

/* A tensor with its data behind the others'. */
static inline void gm_tensor(struct gm *m, const char *name, uint32_t type, const uint64_t *dim, uint32_t n_dims, const void *data,
                             size_t bytes)
{
    gm_pad(&m->data, m->align ? m->align : 32);
    gm_info(m, name, n_dims, dim, type, m->data.n);
    for (size_t i = 0; !data && i < bytes; i++) {
        uint8_t c = (uint8_t)(i * 7 + m->n_tensors * 31 + i / 251);
        gm_put(&m->data, &c, 1);
    }
    if (data)
        gm_put(&m->data, data, bytes);
}

/* The file; the last tensor is not padded. */
static inline uint8_t *gm_finish(const struct gm *m, size_t *n)
{
    struct gm_bytes b = { 0 };
    gm_put(&b, "GGUF", 4);
    gm_put_u32(&b, m->version ? m->version : 3);
    gm_put_u64(&b, m->say_tensors ? m->say_tensors : m->n_tensors);
    gm_put_u64(&b, m->say_kv ? m->say_kv : m->n_kv);
    for (size_t i = 0; i < m->n_kv; i++) {
        gm_put_str(&b, m->kv[i].key);
        gm_put(&b, m->kv[i].value.p, m->kv[i].value.n);
    }
    for (size_t i = 0; i < m->n_tensors; i++)
        gm_put(&b, m->tensor[i].info.p, m->tensor[i].info.n);
    if (m->n_tensors)
        gm_pad(&b, m->align ? m->align : 32);
    gm_put(&b, m->data.p, m->data.n);
    *n = b.n;
    return b.p;
}

static inline void gm_free(struct gm *m)
{
    for (size_t i = 0; i < m->n_kv; i++) {
        free(m->kv[i].key);
        free(m->kv[i].value.p);
    }
    for (size_t i = 0; i < m->n_tensors; i++)
        free(m->tensor[i].info.p);
    free(m->data.p);
    *m = (struct gm){ 0 };
}

/* False when the file cannot be written. */
static inline int gm_write(const struct gm *m, const char *path)
{
    size_t n;
    uint8_t *p = gm_finish(m, &n);
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(p, 1, n, f) == n;
    if (f)
        ok &= !fclose(f);
    free(p);
    return ok;
}

/* The metadata of a small qwen4exp model: 4 layers (attention at 3), n-gram table of 4 heads at layer 1, 8 tokens. No tensors. */
static inline void gm_qwen4exp(struct gm *m)
{
    static const char *const token[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "c", "ab", "bc" };
    static const struct { const char *key; uint32_t v; } u[] = {
        { "block_count", 4 }, { "context_length", 4096 }, { "embedding_length", 64 }, { "attention.head_count", 4 },
        { "attention.head_count_kv", 2 }, { "attention.key_length", 32 }, { "attention.value_length", 32 },
        { "rope.dimension_count", 8 }, { "full_attention_interval", 4 }, { "expert_count", 8 }, { "expert_used_count", 2 },
        { "expert_feed_forward_length", 32 }, { "expert_shared_feed_forward_length", 96 }, { "ssm.conv_kernel", 4 },
        { "ssm.state_size", 16 }, { "ssm.group_count", 2 }, { "ssm.time_step_rank", 6 }, { "ssm.inner_size", 96 },
        { "hyper_connection.count", 4 }, { "hyper_connection.low_rank", 32 }, { "attention.indexer.head_count", 2 },
        { "attention.indexer.key_length", 16 }, { "attention.indexer.top_k", 64 }, { "ple.ngram_size", 3 },
        { "ple.heads_per_ngram", 2 }, { "ple.conv_kernel", 4 }, { "ple.eos_token_id", 0 }, { "embedding_length_per_layer_input", 32 },
    };
    gm_str(m, "general.architecture", "qwen4exp");
    gm_str(m, "general.type", "model");
    for (size_t i = 0; i < sizeof u / sizeof u[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "qwen4exp.%s", u[i].key);
        gm_u32(m, key, u[i].v);
    }
    gm_f32(m, "qwen4exp.attention.layer_norm_rms_epsilon", 1e-6f);
    gm_f32(m, "qwen4exp.rope.freq_base", 1e7f);
    gm_ints(m, "qwen4exp.rope.dimension_sections", GM_I32, (int64_t[]){ 2, 1, 1, 0 }, 4);
    gm_ints(m, "qwen4exp.attention.compress_ratios", GM_I32, (int64_t[]){ 0, 0, 0, 4 }, 4);
    gm_ints(m, "qwen4exp.ple.layers", GM_I32, (int64_t[]){ 1 }, 1);
    gm_ints(m, "qwen4exp.ple.layer_multipliers", GM_U64, (int64_t[]){ 23703573157769, 20109073645365, 8052911324071 }, 3);
    gm_ints(m, "qwen4exp.ple.head_offsets", GM_U64, (int64_t[]){ 0, 5, 12, 23 }, 4);
    gm_ints(m, "qwen4exp.ple.head_vocab_sizes", GM_U64, (int64_t[]){ 5, 7, 11, 13 }, 4);
    gm_str(m, "tokenizer.ggml.model", "gpt2");
    gm_str(m, "tokenizer.ggml.pre", "qwen35");
    gm_strs(m, "tokenizer.ggml.tokens", token, 8);
    gm_ints(m, "tokenizer.ggml.token_type", GM_I32, (int64_t[]){ 3, 3, 3, 1, 1, 1, 1, 1 }, 8);
    gm_strs(m, "tokenizer.ggml.merges", (const char *const[]){ "a b", "b c" }, 2);
    gm_u32(m, "tokenizer.ggml.eos_token_id", 2);
}

/* The joined n-gram table of that model in Q8_0, 40 rows of 34 bytes, 4 of them padding. */
static inline void gm_joined_table(struct gm *m)
{
    gm_tensor(m, "per_layer_token_embd.weight", 8, (uint64_t[]){ 32, 40 }, 2, NULL, 40 * 34);
}

#endif
