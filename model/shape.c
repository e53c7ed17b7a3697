/* shape.c - the metadata of a qwen4exp file, checked, as one struct. Refuses by name what is something else.
 *
 * Messages: "FILE: what is wrong, found X, expected Y". ERR_FORMAT: missing or contradicting itself; ERR_UNSUPPORTED: sound, but not
 * a model this program runs. */
#include "model/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARCH "qwen4exp"
#define KEY(k) ARCH "." k
#define BAD(...) gguf_fail(g, 0, e, ERR_FORMAT, __VA_ARGS__)
#define UNSUPPORTED(...) gguf_fail(g, 0, e, ERR_UNSUPPORTED, __VA_ARGS__)

/* ---- what kind of file is this ---- */

static bool starts(struct str s, const char *z)
{
    size_t n = strlen(z);
    return s.n >= n && !memcmp(s.p, z, n);
}

static bool ends(struct str s, const char *z)
{
    size_t n = strlen(z);
    return s.n >= n && !memcmp(s.p + s.n - n, z, n);
}

static bool contains(struct str s, const char *z)
{
    size_t n = strlen(z);
    for (size_t i = 0; i + n <= s.n; i++)
        if (!memcmp(s.p + i, z, n))
            return true;
    return false;
}

static status check_architecture(const gguf *g, struct err *e)
{
    struct str arch, type;
    TRY(gguf_opt_str(g, "general.architecture", STR(""), &arch, e));
    TRY(gguf_opt_str(g, "general.type", STR("model"), &type, e));
    if (str_is(arch, "clip") || str_is(type, "mmproj"))
        return UNSUPPORTED("found a vision side file (mmproj), expected a " ARCH " text model");
    if (str_is(type, "adapter"))
        return UNSUPPORTED("found an adapter (LoRA), expected a " ARCH " model");
    if (!str_is(type, "model"))
        return UNSUPPORTED("key general.type: found %.*s, expected model", STR_FMT(type));
    if (gguf_n_tensors(g) == 1 && gguf_find_tensor(g, "per_layer_token_embd.weight") && !gguf_find(g, KEY("block_count")))
        return UNSUPPORTED("found an n-gram table without its model, expected a " ARCH " model");
    if (arch.n == 0)
        return BAD("key general.architecture missing, expected " ARCH);
    if (!str_is(arch, ARCH))
        return UNSUPPORTED("architecture: found %.*s, expected " ARCH, STR_FMT(arch));
    return OK;
}

/* Forms of this architecture that other programs made and that would load as something they are not. */
static status check_dialect(const gguf *g, struct err *e)
{
    bool first_block = false, nextn = false;
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        struct str key = gguf_kv_at(g, i)->key;
        if (starts(key, KEY("attention.indexer_")))
            return UNSUPPORTED("key %.*s: the file was made by a pre-release converter, expected attention.indexer.*", STR_FMT(key));
        if (contains(key, "ciru") || contains(key, "CIRU"))
            return UNSUPPORTED("key %.*s: the file expects an external CIRUPLE1 table, expected the n-gram table inside", STR_FMT(key));
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (ends(t->name, ".ple_ngram_embd.weight"))
            return gguf_fail(g, t->shard, e, ERR_UNSUPPORTED,
                             "tensor %.*s: the file was made by a pre-release converter, expected per_layer_token_embd.weight",
                             STR_FMT(t->name));
        if (ends(t->name, ".scale") || ends(t->name, "_scale"))
            return gguf_fail(g, t->shard, e, ERR_UNSUPPORTED,
                             "tensor %.*s: found a companion scale (NVFP4 export), expected weights without", STR_FMT(t->name));
        first_block |= starts(t->name, "blk.0.");
        nextn |= starts(t->name, "blk.") && contains(t->name, ".nextn.");
    }
    if (nextn && !first_block)
        return UNSUPPORTED("this is a draft head, not a model; pass it with the draft option, -md");
    return OK;
}

/* ---- plain numbers ---- */

#define REQUIRED UINT32_MAX

static status u32_key(const gguf *g, const char *key, uint32_t lo, uint32_t hi, uint32_t def, uint32_t *out, struct err *e)
{
    uint64_t v;
    if (def == REQUIRED)
        TRY(gguf_req_uint(g, key, lo, hi, &v, e));
    else
        TRY(gguf_opt_uint(g, key, lo, hi, def, &v, e));
    *out = (uint32_t)v;
    return OK;
}

static const struct {
    const char *key;
    uint32_t lo, hi, def;
    size_t at; /* in struct shape */
} FIELD[] = {
#define FIELD(key, lo, hi, def, name) { KEY(key), lo, hi, def, offsetof(struct shape, name) }
    FIELD("context_length",               1, INT32_MAX,       REQUIRED, ctx_train),
    FIELD("embedding_length",             1, MAX_EMBD,        REQUIRED, n_embd),
    FIELD("hyper_connection.count",       2, MAX_STREAM,      REQUIRED, n_stream),
    FIELD("hyper_connection.low_rank",    1, MAX_EMBD,        REQUIRED, hc_rank),
    FIELD("attention.indexer.head_count", 1, MAX_HEADS,       REQUIRED, idx_head),
    FIELD("attention.indexer.key_length", 1, MAX_HEAD_DIM,    REQUIRED, idx_dim),
    FIELD("attention.indexer.top_k",      1, 1 << 24,         REQUIRED, idx_budget),
    FIELD("ssm.conv_kernel",              2, MAX_TAPS,        REQUIRED, conv_taps),
    FIELD("ssm.state_size",               1, MAX_HEAD_DIM,    REQUIRED, gdn_dim),
    FIELD("ssm.group_count",              1, MAX_HEADS,       REQUIRED, gdn_k_head),
    FIELD("ssm.time_step_rank",           1, MAX_HEADS,       REQUIRED, gdn_v_head),
    FIELD("expert_count",                 1, MAX_EXPERT,      REQUIRED, n_expert),
    FIELD("expert_used_count",            1, MAX_EXPERT_USED, REQUIRED, n_expert_used),
#undef FIELD
};

static status read_fields(struct shape *s, const gguf *g, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(FIELD); i++)
        TRY(u32_key(g, FIELD[i].key, FIELD[i].lo, FIELD[i].hi, FIELD[i].def, (uint32_t *)(void *)((char *)s + FIELD[i].at), e));
    return OK;
}

/* A sum of products that becomes the length of a row somewhere. */
static status check_width(const gguf *g, const char *what, uint64_t width, struct err *e)
{
    if (width > MAX_WIDTH)
        return BAD("%s is %" PRIu64 ", expected at most %d", what, width, MAX_WIDTH);
    return OK;
}

/* ---- blocks ---- */

/* Per-block integers; an array may or may not count the draft blocks. *n = 0 when the key is absent or empty. */
static status block_ints(const struct shape *s, const gguf *g, const char *key, int64_t hi, int64_t v[MAX_LAYER], size_t *n, struct err *e)
{
    TRY(gguf_opt_ints(g, key, 0, hi, v, MAX_LAYER, n, e));
    if (*n && *n != s->n_layer && *n != s->n_layer + s->n_draft)
        return BAD("array %s has %zu elements, expected %u, one per block", key, *n, s->n_layer + s->n_draft);
    return OK;
}

static status read_blocks(struct shape *s, const gguf *g, struct err *e)
{
    uint32_t n_block, interval;
    int64_t v[MAX_LAYER];
    size_t n;
    TRY(u32_key(g, KEY("block_count"), 1, MAX_LAYER, REQUIRED, &n_block, e));
    TRY(u32_key(g, KEY("nextn_predict_layers"), 0, n_block - 1, 0, &s->n_draft, e));
    s->n_layer = n_block - s->n_draft;

    TRY(u32_key(g, KEY("full_attention_interval"), 1, INT32_MAX, 4, &interval, e));
    for (uint32_t i = 0; i < n_block; i++)
        s->is_qsa[i] = i >= s->n_layer || (i + 1) % interval == 0;
    TRY(block_ints(s, g, KEY("attention.recurrent_layers"), 1, v, &n, e));
    for (size_t i = 0; i < n; i++)
        s->is_qsa[i] = v[i] == 0;
    for (uint32_t i = s->n_layer; i < n_block; i++)
        if (!s->is_qsa[i])
            return UNSUPPORTED("draft block %u is recurrent, expected attention", i);

    TRY(block_ints(s, g, KEY("attention.compress_ratios"), UINT8_MAX, v, &n, e));
    for (size_t i = 0; i < n; i++) {
        if (v[i] != 0 && v[i] != QSA_RATIO)
            return UNSUPPORTED("compress ratio of block %zu: found %d, expected 0 or %d", i, (int)v[i], QSA_RATIO);
        s->ratio[i] = s->is_qsa[i] ? (uint8_t)v[i] : 0;
    }
    for (uint32_t i = 0; i < s->n_layer; i++)
        s->is_qsa[i] ? s->n_qsa++ : s->n_gdn++;
    return OK;
}

/* A number that is the same for every block: a scalar or an array. Attention-only keys may hold anything at the GDN blocks (some
 * writers put 0 there). Absent: def. */
static status uniform_key(const struct shape *s, const gguf *g, const char *key, bool attention, uint32_t hi, uint32_t def, uint32_t *out,
                          struct err *e)
{
    int64_t v[MAX_LAYER], found = -1;
    size_t n;
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv || kv->type != GGUF_ARR)
        return u32_key(g, key, 1, hi, def, out, e);
    TRY(block_ints(s, g, key, hi, v, &n, e));
    for (size_t i = 0; i < n; i++) {
        if (attention && s->n_qsa && !s->is_qsa[i])
            continue;
        if (found >= 0 && v[i] != found)
            return UNSUPPORTED("array %s: found %d and %d, expected the same in every block", key, (int)found, (int)v[i]);
        found = v[i];
    }
    if (found < 1)
        return BAD("array %s is empty or 0, expected 1..%u", key, hi);
    *out = (uint32_t)found;
    return OK;
}

/* ---- attention ---- */

/* Positions are rotated plainly; a file that asks for more must not be run without it. */
static status check_rope_scaling(const gguf *g, struct err *e)
{
    struct str type;
    float factor, attn;
    TRY(gguf_opt_str(g, KEY("rope.scaling.type"), STR("linear"), &type, e));
    TRY(gguf_opt_f32(g, KEY("rope.scaling.factor"), 1, &factor, e));
    TRY(gguf_opt_f32(g, KEY("rope.scaling.attn_factor"), 1, &attn, e));
    if (str_is(type, "none"))
        factor = 1;
    else if (!str_is(type, "linear"))
        return UNSUPPORTED("key " KEY("rope.scaling.type") ": found %.*s, expected none", STR_FMT(type));
    if ((factor != 1 && factor != 0) || attn != 1)
        return UNSUPPORTED("RoPE scaling: found factor %g and attention factor %g, expected 1 and 1", (double)factor, (double)attn);
    return OK;
}

static status read_attention(struct shape *s, const gguf *g, struct err *e)
{
    uint32_t value_dim;
    int64_t sections[4];
    size_t n;
    TRY(uniform_key(s, g, KEY("attention.head_count"), true, MAX_HEADS, REQUIRED, &s->n_head, e));
    TRY(uniform_key(s, g, KEY("attention.head_count_kv"), true, MAX_HEADS, s->n_head, &s->n_head_kv, e));
    TRY(u32_key(g, KEY("attention.key_length"), 1, MAX_HEAD_DIM, s->n_embd / s->n_head, &s->head_dim, e));
    TRY(u32_key(g, KEY("attention.value_length"), 1, MAX_HEAD_DIM, s->head_dim, &value_dim, e));
    TRY(u32_key(g, KEY("rope.dimension_count"), 1, MAX_HEAD_DIM, s->head_dim, &s->rope_dim, e));
    TRY(gguf_opt_f32(g, KEY("rope.freq_base"), 10000, &s->rope_base, e));
    TRY(gguf_req_f32(g, KEY("attention.layer_norm_rms_epsilon"), &s->eps, e));
    if (s->n_head % s->n_head_kv)
        return BAD("%u query heads, expected a multiple of the %u key heads", s->n_head, s->n_head_kv);
    if (s->head_dim < 1 || s->head_dim > MAX_HEAD_DIM) /* the default may be anything */
        return BAD("key " KEY("attention.key_length") " missing, and %u / %u is no head size, expected 1..%d", s->n_embd, s->n_head,
                   MAX_HEAD_DIM);
    if (value_dim != s->head_dim)
        return UNSUPPORTED("key " KEY("attention.value_length") " is %u, expected %u like key_length", value_dim, s->head_dim);
    if (s->head_dim % 8)
        return UNSUPPORTED("head size %u, expected a multiple of 8", s->head_dim);
    if (s->rope_dim % 2 || s->rope_dim > s->head_dim || s->rope_dim > s->idx_dim)
        return BAD("%u rotated dimensions, expected an even number up to key_length (%u) and indexer.key_length (%u)", s->rope_dim,
                   s->head_dim, s->idx_dim);
    if (!isfinite(s->rope_base) || s->rope_base < 1)
        return BAD("key " KEY("rope.freq_base") " is %g, expected a number from 1", (double)s->rope_base);
    if (!(s->eps > 0 && s->eps < 1))
        return BAD("key " KEY("attention.layer_norm_rms_epsilon") " is %g, expected between 0 and 1", (double)s->eps);
    /* With text every position stream is the same, so how the pairs are divided between streams has no effect. */
    TRY(gguf_opt_ints(g, KEY("rope.dimension_sections"), 0, s->rope_dim, sections, COUNT_OF(sections), &n, e));
    if (n < 3)
        return BAD("key " KEY("rope.dimension_sections") " has %zu elements, expected 3 or 4", n);
    TRY(check_rope_scaling(g, e));
    for (uint32_t i = 0; i < s->n_layer; i++)
        if (s->ratio[i] && s->idx_budget % s->ratio[i])
            return BAD("key " KEY("attention.indexer.top_k") " is %u, expected a multiple of %d", s->idx_budget, QSA_RATIO);
    TRY(check_width(g, "width of query and gate", 2ull * s->n_head * s->head_dim, e));
    return check_width(g, "width of the index query", (uint64_t)s->idx_head * s->idx_dim, e);
}

/* ---- the other parts ---- */

static status read_gdn(struct shape *s, const gguf *g, struct err *e)
{
    uint64_t inner;
    TRY(gguf_req_uint(g, KEY("ssm.inner_size"), 1, MAX_WIDTH, &inner, e));
    if (inner != (uint64_t)s->gdn_v_head * s->gdn_dim)
        return BAD("key " KEY("ssm.inner_size") " is %" PRIu64 ", expected time_step_rank * state_size, %u", inner,
                   s->gdn_v_head * s->gdn_dim);
    if (s->gdn_v_head % s->gdn_k_head)
        return BAD("%u value heads (ssm.time_step_rank), expected a multiple of the %u key heads (ssm.group_count)", s->gdn_v_head,
                   s->gdn_k_head);
    return check_width(g, "number of convolution channels", (2ull * s->gdn_k_head + s->gdn_v_head) * s->gdn_dim, e);
}

/* Inner width of a feed-forward: the key, else the rows of this tensor of block 0. */
static status read_ff(struct shape *s, const gguf *g, const char *key, const char *down, uint32_t *out, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, down);
    uint32_t def = t && t->dim[0] <= MAX_EMBD ? (uint32_t)t->dim[0] : REQUIRED;
    return uniform_key(s, g, key, false, MAX_EMBD, def, out, e);
}

static status read_experts(struct shape *s, const gguf *g, struct err *e)
{
    float scale;
    bool norm;
    uint64_t gating, groups;
    TRY(read_ff(s, g, KEY("expert_feed_forward_length"), "blk.0.ffn_down_exps.weight", &s->expert_ff, e));
    TRY(read_ff(s, g, KEY("expert_shared_feed_forward_length"), "blk.0.ffn_down_shexp.weight", &s->shared_ff, e));
    if (s->n_expert_used > s->n_expert)
        return BAD("key " KEY("expert_used_count") " is %u, expected at most the %u of expert_count", s->n_expert_used, s->n_expert);
    TRY(check_width(g, "width of the chosen experts", (uint64_t)s->n_expert_used * s->expert_ff, e));

    /* The routing of this architecture is fixed; a file that asks for another one is another model. */
    TRY(gguf_opt_f32(g, KEY("expert_weights_scale"), 1, &scale, e));
    TRY(gguf_opt_bool(g, KEY("expert_weights_norm"), true, &norm, e));
    TRY(gguf_opt_uint(g, KEY("expert_gating_func"), 0, UINT32_MAX, 1, &gating, e));
    TRY(gguf_opt_uint(g, KEY("expert_group_count"), 0, UINT32_MAX, 1, &groups, e));
    if ((scale != 1 && scale != 0) || !norm || gating > 1 || groups > 1)
        return UNSUPPORTED("expert routing: found weights_scale %g, weights_norm %d, gating_func %u, group_count %u, expected 1, 1, 1, 1",
                           (double)scale, norm, (unsigned)gating, (unsigned)groups);
    return OK;
}

static status read_vocab(struct shape *s, const gguf *g, struct err *e)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    uint64_t n = tokens ? tokens->n : 0;
    if (tokens && (tokens->type != GGUF_ARR || (tokens->n && tokens->elem_type != GGUF_STR)))
        return BAD("key tokenizer.ggml.tokens is no array of strings");
    TRY(u32_key(g, KEY("vocab_size"), 1, MAX_VOCAB, 0, &s->n_vocab, e));
    if (s->n_vocab == 0 && (n == 0 || n > MAX_VOCAB))
        return BAD("tokenizer.ggml.tokens has %" PRIu64 " elements, expected 1..%d (or the key " KEY("vocab_size") ")", n, MAX_VOCAB);
    if (s->n_vocab == 0)
        s->n_vocab = (uint32_t)n;
    if (n > s->n_vocab)
        return BAD("tokenizer.ggml.tokens has %" PRIu64 " elements, expected at most the %u of " KEY("vocab_size"), n, s->n_vocab);
    return OK;
}

/* ---- n-gram table ---- */

static bool has_block_tensor(const gguf *g, const char *middle)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        if (starts(gguf_tensor_at(g, i)->name, "blk.") && contains(gguf_tensor_at(g, i)->name, middle))
            return true;
    return false;
}

/* Array of exactly n values, except that more are fine where the tail is not used. */
static status ple_u64s(const gguf *g, const char *key, uint64_t *out, size_t want, bool more, struct err *e)
{
    uint64_t v[MAX_PLE_HEADS];
    size_t n;
    TRY(gguf_opt_u64s(g, key, v, COUNT_OF(v), &n, e));
    if (n < want || (n > want && !more))
        return BAD("array %s has %zu elements, expected %zu", key, n, want);
    memcpy(out, v, want * sizeof *out);
    return OK;
}

/* No row belongs to two heads. */
static status check_heads(const struct shape *s, const gguf *g, struct err *e)
{
    for (uint32_t h = 0; h < s->ple_head; h++)
        for (uint32_t k = 0; k < h; k++)
            if (s->ple_offset[h] < s->ple_offset[k] + s->ple_size[k] && s->ple_offset[k] < s->ple_offset[h] + s->ple_size[h])
                return BAD("rows of n-gram heads %u and %u: found %" PRIu64 "..%" PRIu64 " and %" PRIu64 "..%" PRIu64 ", expected no row in both", k, h,
                           s->ple_offset[k], s->ple_offset[k] + s->ple_size[k] - 1, s->ple_offset[h], s->ple_offset[h] + s->ple_size[h] - 1);
    return OK;
}

static status check_table(const struct shape *s, const gguf *g, struct err *e)
{
    bool joined = gguf_find_tensor(g, "per_layer_token_embd.weight") != NULL, first = gguf_find_tensor(g, "ple_ngram_embd.0.weight") != NULL;
    if (gguf_n_tensors(g) == 0)
        return OK; /* metadata alone has a shape too */
    if (joined && first)
        return BAD("found the n-gram table twice, per_layer_token_embd.weight and ple_ngram_embd.*, expected one of the two");
    for (uint32_t h = 0; h < s->ple_head && !joined; h++) {
        char name[64];
        snprintf(name, sizeof name, "ple_ngram_embd.%u.weight", h);
        if (!first)
            return UNSUPPORTED("n-gram table missing: is a shard missing, or does the file expect an external table (CIRUPLE1)?");
        if (!gguf_find_tensor(g, name))
            return BAD("tensor %s missing, expected one table for each of %u heads", name, s->ple_head);
    }
    return OK;
}

static status read_ple(struct shape *s, const gguf *g, struct err *e)
{
    int64_t layer[MAX_LAYER];
    size_t n;
    uint32_t eos, image;
    s->ple_layer = -1;
    TRY(gguf_opt_ints(g, KEY("ple.layers"), 0, INT32_MAX, layer, COUNT_OF(layer), &n, e));
    if (n == 0) {
        if (has_block_tensor(g, ".ple_"))
            return UNSUPPORTED("key " KEY("ple.layers") " missing beside ple_* weights: does the file expect an external table (CIRUPLE1)?");
        return OK;
    }
    if (n > 1)
        return UNSUPPORTED("key " KEY("ple.layers") ": found %zu layers, expected one", n);
    if (layer[0] >= s->n_layer)
        return BAD("key " KEY("ple.layers") " is %d, expected less than %u", (int)layer[0], s->n_layer);
    if (s->is_qsa[layer[0]])
        return UNSUPPORTED("n-gram layer %d is an attention layer, expected a recurrent one", (int)layer[0]);
    s->ple_layer = (int32_t)layer[0];

    TRY(u32_key(g, KEY("ple.ngram_size"), 2, MAX_NGRAM, REQUIRED, &s->ple_ngram, e));
    TRY(u32_key(g, KEY("ple.heads_per_ngram"), 1, MAX_PLE_HEADS, REQUIRED, &s->ple_head_per_ngram, e));
    TRY(u32_key(g, KEY("ple.conv_kernel"), 2, MAX_TAPS, REQUIRED, &s->ple_conv_taps, e));
    TRY(u32_key(g, KEY("ple.eos_token_id"), 0, s->n_vocab - 1, REQUIRED, &eos, e));
    TRY(u32_key(g, KEY("ple.image_token_id"), 0, INT32_MAX, eos, &image, e));
    TRY(u32_key(g, KEY("embedding_length_per_layer_input"), 1, MAX_EMBD, REQUIRED, &s->ple_row, e));
    s->ple_eos = (int32_t)eos;
    s->ple_image = (int32_t)image;
    s->ple_head = (s->ple_ngram - 1) * s->ple_head_per_ngram;
    if (s->ple_head > MAX_PLE_HEADS)
        return BAD("%u heads of the n-gram table, expected at most %d", s->ple_head, MAX_PLE_HEADS);
    TRY(check_width(g, "width of the n-gram rows", (uint64_t)s->ple_head * s->ple_row, e));

    TRY(ple_u64s(g, KEY("ple.layer_multipliers"), s->ple_mul, s->ple_ngram, true, e));
    TRY(ple_u64s(g, KEY("ple.head_offsets"), s->ple_offset, s->ple_head, false, e));
    TRY(ple_u64s(g, KEY("ple.head_vocab_sizes"), s->ple_size, s->ple_head, false, e));
    for (uint32_t h = 0; h < s->ple_head; h++)
        if (s->ple_size[h] == 0 || s->ple_size[h] > INT32_MAX || s->ple_offset[h] > INT32_MAX - s->ple_size[h])
            return BAD("rows of n-gram head %u: found offset %" PRIu64 " and size %" PRIu64 ", expected a size above 0 and an end below 2^31",
                       h, s->ple_offset[h], s->ple_size[h]);
    TRY(check_heads(s, g, e));
    return check_table(s, g, e);
}

status shape_read(struct shape *s, const gguf *g, struct err *e)
{
    memset(s, 0, sizeof *s);
    TRY(check_architecture(g, e));
    TRY(check_dialect(g, e));
    TRY(read_fields(s, g, e));
    TRY(read_blocks(s, g, e));
    TRY(read_attention(s, g, e));
    TRY(read_gdn(s, g, e));
    TRY(read_experts(s, g, e));
    TRY(read_vocab(s, g, e));
    return read_ple(s, g, e);
}
