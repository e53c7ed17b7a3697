/* weights.c - binds the tensors of a file to struct fields and refuses what does not fit. */
#include "model/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct binder {
    const gguf *g;
    struct arena *arena;
    struct err *e;
    char prefix[16]; /* "blk.7." or "" */
};

struct name {
    char z[96];
};
static struct name full_name(const struct binder *b, const char *suffix)
{
    struct name n;
    snprintf(n.z, sizeof n.z, "%s%s", b->prefix, suffix);
    return n;
}

static const struct gguf_tensor *find(const struct binder *b, const char *suffix) { return gguf_find_tensor(b->g, full_name(b, suffix).z); }

static status missing(const struct binder *b, const char *suffix)
{
    return fail(b->e, ERR_FORMAT, "%s: tensor %s is missing (of %zu in the file); is a shard missing or the file cut down?", gguf_name(b->g),
                full_name(b, suffix).z, gguf_n_tensors(b->g));
}

static status bad_shape(const struct binder *b, const struct gguf_tensor *t, const char *expected)
{
    char found[96];
    size_t n = (size_t)snprintf(found, sizeof found, "[%llu", (unsigned long long)t->dim[0]);
    for (uint32_t i = 1; i < t->n_dims && n < sizeof found; i++)
        n += (size_t)snprintf(found + n, sizeof found - n, ", %llu", (unsigned long long)t->dim[i]);
    return fail(b->e, ERR_FORMAT, "%s: %.*s is %s], expected %s", gguf_shard_path(b->g, t->shard), STR_FMT(t->name), found, expected);
}

static status check_type(const struct binder *b, const struct gguf_tensor *t)
{
    if (t->type->decode)
        return OK;
    return fail(b->e, ERR_UNSUPPORTED, "%s: %.*s has type %s, expected a weight type", gguf_shard_path(b->g, t->shard), STR_FMT(t->name),
                t->type->name);
}

static struct gpu_mat mat_of(const struct gguf_tensor *t, uint32_t n_in, uint32_t n_out)
{
    return (struct gpu_mat){ .data = ADDR(t->data), .row_bytes = t->row_bytes, .type = t->type->id, .n_in = n_in, .n_out = n_out };
}

/* [n_in, n_out], further dimensions 1; a single row may also be stored as a vector */
static status bind_mat(struct binder *b, struct gpu_mat *m, const char *suffix, uint32_t n_in, uint32_t n_out)
{
    const struct gguf_tensor *t = find(b, suffix);
    if (!t)
        return missing(b, suffix);
    if (t->dim[0] != n_in || t->dim[1] != n_out || t->dim[2] != 1 || t->dim[3] != 1) {
        char want[64];
        snprintf(want, sizeof want, "[%u, %u]", n_in, n_out);
        return bad_shape(b, t, want);
    }
    TRY(check_type(b, t));
    *m = mat_of(t, n_in, n_out);
    return OK;
}

static status bind_opt_mat(struct binder *b, struct gpu_mat *m, const char *suffix, uint32_t n_in, uint32_t n_out)
{
    return find(b, suffix) ? bind_mat(b, m, suffix, n_in, n_out) : OK;
}

/* A bank of experts [n_in, n_out, n_expert]; rows part .. part + n_out - 1 of every stored expert of `stored` rows */
static status bind_bank(struct binder *b, struct gpu_mat *m, const char *suffix, uint32_t n_in, uint32_t n_out, uint32_t n_expert, uint32_t stored,
                        uint32_t part)
{
    const struct gguf_tensor *t = find(b, suffix);
    if (!t)
        return missing(b, suffix);
    if (t->dim[0] != n_in || t->dim[1] != stored || t->dim[2] != n_expert || t->dim[3] != 1) {
        char want[64];
        snprintf(want, sizeof want, "[%u, %u, %u]", n_in, stored, n_expert);
        return bad_shape(b, t, want);
    }
    TRY(check_type(b, t));
    *m = mat_of(t, n_in, n_out);
    m->data += (uint64_t)part * t->row_bytes;
    m->rows_per_expert = stored;
    return OK;
}

/* n values as f32. Vectors are compared by element count: [n], [n, 1] and [n / 4, 4] are all in circulation. */
static status bind_vec(struct binder *b, gpu_addr *v, const char *suffix, size_t n)
{
    const struct gguf_tensor *t = find(b, suffix);
    if (!t)
        return missing(b, suffix);
    if (t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] != n) { /* the product is checked by the reader */
        char want[64];
        snprintf(want, sizeof want, "%zu values", n);
        return bad_shape(b, t, want);
    }
    TRY(check_type(b, t));
    if (t->type->id == QUANT_F32 && (uintptr_t)t->data % _Alignof(float) == 0) {
        *v = ADDR(t->data);
        return OK;
    }
    float *f = arena_take(b->arena, n, sizeof *f);
    if (f)
        t->type->decode(t->data, f, n); /* rows lie back to back, so all of it is one run of blocks */
    *v = ADDR(f);
    return OK;
}

/* The taps of a depthwise convolution, [taps, channels]: as many values the other way round would be read as something else. */
static status bind_conv(struct binder *b, gpu_addr *v, const char *suffix, uint32_t taps, uint32_t channels)
{
    const struct gguf_tensor *t = find(b, suffix);
    if (t && t->dim[0] != taps) {
        char want[64];
        snprintf(want, sizeof want, "[%u, %u]", taps, channels);
        return bad_shape(b, t, want);
    }
    return bind_vec(b, v, suffix, (size_t)taps * channels);
}

/* names: the stem of hc_attn, "hc_attn"; in the draft head "nextn.hc_head" */
static status bind_hc(struct binder *b, struct hc_weights *h, const struct shape *s, const char *stem, bool inject)
{
    uint32_t width = s->n_stream * s->n_embd;
    char n[64];
    snprintf(n, sizeof n, "%s_norm.weight", stem);
    TRY(bind_vec(b, &h->norm, n, width));
    snprintf(n, sizeof n, "%s_down.weight", stem);
    TRY(bind_mat(b, &h->down, n, width, s->hc_rank));
    snprintf(n, sizeof n, "%s_up.weight", stem);
    TRY(bind_mat(b, &h->up, n, s->hc_rank, width));
    snprintf(n, sizeof n, "%s_inject.weight", stem);
    return inject ? bind_mat(b, &h->inject, n, width, s->n_stream) : OK;
}

static status bind_gdn(struct binder *b, struct gdn_weights *w, const struct shape *s)
{
    uint32_t v = s->gdn_v_head * s->gdn_dim, width = 2 * s->gdn_k_head * s->gdn_dim + v;
    TRY(bind_mat(b, &w->qkv, "attn_qkv.weight", s->n_embd, width));
    TRY(bind_mat(b, &w->gate, "attn_gate.weight", s->n_embd, v));
    TRY(bind_mat(b, &w->beta, "ssm_beta.weight", s->n_embd, s->gdn_v_head));
    TRY(bind_mat(b, &w->alpha, "ssm_alpha.weight", s->n_embd, s->gdn_v_head));
    TRY(bind_conv(b, &w->conv, "ssm_conv1d.weight", s->conv_taps, width));
    TRY(bind_vec(b, &w->a, "ssm_a", s->gdn_v_head));
    TRY(bind_vec(b, &w->dt, "ssm_dt.bias", s->gdn_v_head));
    TRY(bind_vec(b, &w->norm, "ssm_norm.weight", s->gdn_dim));
    TRY(bind_mat(b, &w->out, "ssm_out.weight", v, s->n_embd));
    for (uint32_t i = 0; w->a && i < s->gdn_v_head; i++) /* -exp(A_log): a positive value means a foreign converter */
        if (!(AT(const float, w->a)[i] <= 0))
            return fail(b->e, ERR_FORMAT, "%s: %s[%u] is %g, expected a negative value", gguf_name(b->g), full_name(b, "ssm_a").z, i,
                        (double)AT(const float, w->a)[i]);
    return OK;
}

static status bind_qsa(struct binder *b, struct qsa_weights *w, const struct shape *s, bool indexer)
{
    uint32_t q = s->n_head * s->head_dim, kv = s->n_head_kv * s->head_dim;
    if (find(b, "attn_qkv.weight")) { /* fused: q with gate, k, v */
        struct gpu_mat m;
        TRY(bind_mat(b, &m, "attn_qkv.weight", s->n_embd, 2 * q + 2 * kv));
        w->q = w->k = w->v = m;
        w->q.n_out = 2 * q;
        w->k.n_out = w->v.n_out = kv;
        w->k.data += 2 * (uint64_t)q * m.row_bytes;
        w->v.data = w->k.data + kv * m.row_bytes;
    } else {
        TRY(bind_mat(b, &w->q, "attn_q.weight", s->n_embd, 2 * q));
        TRY(bind_mat(b, &w->k, "attn_k.weight", s->n_embd, kv));
        TRY(bind_mat(b, &w->v, "attn_v.weight", s->n_embd, kv));
    }
    TRY(bind_mat(b, &w->out, "attn_output.weight", q, s->n_embd));
    TRY(bind_vec(b, &w->q_norm, "attn_q_norm.weight", s->head_dim));
    TRY(bind_vec(b, &w->k_norm, "attn_k_norm.weight", s->head_dim));
    if (!indexer && !find(b, "indexer.q_proj.weight"))
        return OK;
    TRY(bind_mat(b, &w->iq, "indexer.q_proj.weight", s->n_embd, s->idx_head * s->idx_dim));
    TRY(bind_mat(b, &w->ik, "indexer.k_proj.weight", s->n_embd, s->idx_dim));
    TRY(bind_vec(b, &w->iq_norm, "indexer.q_norm.weight", s->idx_dim));
    return bind_vec(b, &w->ik_norm, "indexer.k_norm.weight", s->idx_dim);
}

static status bind_moe(struct binder *b, struct moe_weights *w, const struct shape *s)
{
    uint32_t D = s->n_embd, ff = s->expert_ff, E = s->n_expert;
    bool fused = find(b, "ffn_gate_up_exps.weight") != NULL;
    TRY(bind_mat(b, &w->router, "ffn_gate_inp.weight", D, E));
    TRY(bind_bank(b, &w->gate, fused ? "ffn_gate_up_exps.weight" : "ffn_gate_exps.weight", D, ff, E, fused ? 2 * ff : ff, 0));
    TRY(bind_bank(b, &w->up, fused ? "ffn_gate_up_exps.weight" : "ffn_up_exps.weight", D, ff, E, fused ? 2 * ff : ff, fused ? ff : 0));
    TRY(bind_bank(b, &w->down, "ffn_down_exps.weight", ff, D, E, D, 0));
    TRY(bind_mat(b, &w->shared_scalar, "ffn_gate_inp_shexp.weight", D, 1));
    TRY(bind_mat(b, &w->shared_gate, "ffn_gate_shexp.weight", D, s->shared_ff));
    TRY(bind_mat(b, &w->shared_up, "ffn_up_shexp.weight", D, s->shared_ff));
    return bind_mat(b, &w->shared_down, "ffn_down_shexp.weight", s->shared_ff, D);
}

static status bind_layer(struct binder *b, struct layer_weights *l, const struct shape *s, bool is_qsa, bool indexer)
{
    TRY(bind_hc(b, &l->hc_attn, s, "hc_attn", true));
    TRY(bind_hc(b, &l->hc_ffn, s, "hc_ffn", true));
    TRY(is_qsa ? bind_qsa(b, &l->qsa, s, indexer) : bind_gdn(b, &l->gdn, s));
    return bind_moe(b, &l->moe, s);
}

/* Spec page "gguf" section 4.4: both forms of the n-gram table, told apart by name */
static status bind_table(struct binder *b, struct ple_weights *p, const struct shape *s)
{
    const struct gguf_tensor *joined = find(b, "per_layer_token_embd.weight");
    uint32_t n_found = 0;
    for (uint32_t h = 0; h < s->ple_head; h++) {
        char n[48];
        snprintf(n, sizeof n, "ple_ngram_embd.%u.weight", h);
        n_found += find(b, n) != NULL;
    }
    if (joined && n_found)
        return fail(b->e, ERR_FORMAT, "%s: has the n-gram table twice, as per_layer_token_embd.weight and as %u ple_ngram_embd tensors; expected one",
                    gguf_name(b->g), n_found);
    if (!joined && !n_found)
        return fail(b->e, ERR_FORMAT,
                    "%s: n-gram table missing, expected per_layer_token_embd.weight or ple_ngram_embd.0..%u.weight; is a shard missing, or does this file "
                    "expect an external table?",
                    gguf_name(b->g), s->ple_head - 1);
    p->joined = joined != NULL;
    for (uint32_t h = 0; h < s->ple_head; h++) {
        char n[48], want[64];
        snprintf(n, sizeof n, "ple_ngram_embd.%u.weight", h);
        const struct gguf_tensor *t = joined ? joined : find(b, n);
        if (!t)
            return missing(b, n);
        uint64_t from = joined ? s->ple_offset[h] : 0, to = from + s->ple_size[h];
        if (t->dim[0] != s->ple_row || t->dim[1] < to || t->dim[2] != 1 || t->dim[3] != 1) {
            snprintf(want, sizeof want, "[%u, at least %llu]", s->ple_row, (unsigned long long)to);
            return bad_shape(b, t, want);
        }
        TRY(check_type(b, t));
        p->table[h] = mat_of(t, s->ple_row, (uint32_t)s->ple_size[h]);
        p->table[h].data += from * t->row_bytes;
    }
    return OK;
}

static status bind_ple(struct binder *b, struct ple_weights *p, const struct shape *s)
{
    uint32_t width = s->n_stream * s->n_embd, in = s->ple_head * s->ple_row;
    TRY(bind_mat(b, &p->key, "ple_key.weight", in, width));
    TRY(bind_mat(b, &p->value, "ple_value.weight", in, s->n_embd));
    TRY(bind_vec(b, &p->norm_key, "ple_norm_key.weight", width));
    TRY(bind_vec(b, &p->norm_query, "ple_norm_query.weight", width));
    TRY(bind_vec(b, &p->norm_conv, "ple_norm_conv.weight", width));
    return bind_conv(b, &p->conv, "ple_conv1d.weight", s->ple_conv_taps, width);
}

/* A matrix [2 * n_in, n_in] as two [n_in, n_in], of its first and of its last columns */
static status bind_halves(struct binder *b, struct gpu_mat *left, struct gpu_mat *right, const char *suffix, uint32_t n_in)
{
    TRY(bind_mat(b, left, suffix, 2 * n_in, n_in));
    const struct quant_type *t = quant_type(left->type);
    if (n_in % t->block_len)
        return fail(b->e, ERR_UNSUPPORTED, "%s: %s: blocks of %u weights (%s), expected such as end at column %u", gguf_name(b->g), full_name(b, suffix).z,
                    t->block_len, t->name, n_in);
    left->n_in = n_in;
    *right = *left;
    right->data += (uint64_t)n_in / t->block_len * t->block_bytes;
    return OK;
}

/* Spec page "gguf" section 3.6; all spellings of the head mixer and of the input projection. alone: the file need not be a model, and may have
 * what belongs to the head beside the block. */
static status bind_draft(struct binder *b, struct draft_weights *d, const struct shape *s, bool alone)
{
    uint32_t D = s->n_embd;
    struct binder top = { .g = b->g, .arena = b->arena, .e = b->e };
    TRY(bind_layer(b, &d->layer, s, true, false));
    TRY(bind_vec(b, &d->enorm, "nextn.enorm.weight", D));
    TRY(bind_vec(b, &d->hnorm, "nextn.hnorm.weight", (size_t)s->n_stream * D));
    if (find(b, "nextn.fc_embd.weight")) {
        TRY(bind_mat(b, &d->fc_embd, "nextn.fc_embd.weight", D, D));
        TRY(bind_mat(b, &d->fc_hidden, "nextn.fc_hidden.weight", D, D));
    } else {
        TRY(bind_halves(b, &d->fc_embd, &d->fc_hidden, "nextn.eh_proj.weight", D));
    }
    if (alone && !find(b, "nextn.hc_norm.weight") && !find(b, "nextn.hc_head_norm.weight"))
        TRY(bind_hc(&top, &d->head, s, "output_hc", false));
    else
        TRY(bind_hc(b, &d->head, s, find(b, "nextn.hc_norm.weight") ? "nextn.hc" : "nextn.hc_head", false));
    TRY(bind_opt_mat(b, &d->embd, "nextn.embed_tokens.weight", D, s->n_vocab));
    TRY(bind_opt_mat(b, &d->output, "nextn.shared_head_head.weight", D, s->n_vocab));
    if (alone && !d->embd.data)
        TRY(bind_opt_mat(&top, &d->embd, "token_embd.weight", D, s->n_vocab));
    return alone && !d->output.data ? bind_opt_mat(&top, &d->output, "output.weight", D, s->n_vocab) : OK;
}

/* The number of the block that has a draft head's tensors, which counts on from the trunk's blocks or from 0 */
static status find_draft_block(const gguf *g, uint32_t *block, struct err *e)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        struct str name = gguf_tensor_at(g, i)->name;
        char z[96];
        int end = 0;
        snprintf(z, sizeof z, "%.*s", STR_FMT(name));
        if (sscanf(z, "blk.%u.nextn.enorm.weigh%n", block, &end) == 1 && end > 0 && strcmp(z + end, "t") == 0)
            return OK;
    }
    return fail(e, ERR_UNSUPPORTED, "%s: found %zu tensors and no draft head, expected blk.N.nextn.enorm.weight among them", gguf_name(g), gguf_n_tensors(g));
}

/* A key of both files that must be the same: the bytes of its value */
static status same_key(const gguf *side, const gguf *trunk, const char *key, struct err *e)
{
    const struct gguf_kv *a = gguf_find(side, key), *b = gguf_find(trunk, key);
    if (!a || !b || (a->type == b->type && a->n == b->n && a->data_bytes == b->data_bytes && memcmp(a->data, b->data, a->data_bytes) == 0))
        return OK;
    return fail(e, ERR_UNSUPPORTED, "%s: a draft head for another model: found another %s than in %s", gguf_name(side), key, gguf_name(trunk));
}

status weights_bind_side(struct draft_weights *d, const gguf *g, const gguf *trunk, const struct shape *s, struct arena *a, struct err *e)
{
    static const char *const key[] = { "general.architecture", "qwen4exp.embedding_length", "qwen4exp.expert_used_count", "tokenizer.ggml.tokens" };
    struct binder b = { .g = g, .arena = a, .e = e };
    uint32_t block;
    *d = (struct draft_weights){ 0 };
    for (size_t i = 0; i < COUNT_OF(key); i++)
        TRY(same_key(g, trunk, key[i], e));
    TRY(find_draft_block(g, &block, e));
    snprintf(b.prefix, sizeof b.prefix, "blk.%u.", block);
    return bind_draft(&b, d, s, true);
}

status weights_bind(struct weights *w, const gguf *g, const struct shape *s, struct arena *a, struct err *e)
{
    struct binder b = { .g = g, .arena = a, .e = e };
    memset(w, 0, sizeof *w);
    TRY(bind_mat(&b, &w->token_embd, "token_embd.weight", s->n_embd, s->n_vocab));
    w->output = w->token_embd; /* a file without its own head shares the embedding */
    TRY(bind_opt_mat(&b, &w->output, "output.weight", s->n_embd, s->n_vocab));
    TRY(bind_hc(&b, &w->out_hc, s, "output_hc", false));
    if (s->ple_layer >= 0)
        TRY(bind_table(&b, &w->ple, s));
    for (uint32_t il = 0; il < s->n_layer; il++) {
        snprintf(b.prefix, sizeof b.prefix, "blk.%u.", il);
        TRY(bind_layer(&b, &w->layer[il], s, s->is_qsa[il], s->ratio[il] != 0));
        if ((int32_t)il == s->ple_layer)
            TRY(bind_ple(&b, &w->ple, s));
    }
    if (s->n_draft) {
        snprintf(b.prefix, sizeof b.prefix, "blk.%u.", s->n_layer);
        TRY(bind_draft(&b, &w->draft, s, false));
    }
    return OK;
}
