/* forward.c - one step of the model as a list of calls. Start reading here.
 *
 *     embed -> for every layer: [n-gram side path] -> mix -> GDN or QSA -> combine -> mix -> experts -> combine -> final mix -> head
 *
 * The residual is R[4][n_embd] per row. mix() reads it through a gated, normalised mean of the streams; combine() adds a
 * block's output to every stream with its own weight. Mathematics: spec page "model" sections 1 to 6. */
#include "model/forward.h"

#include "gpu/device_weights.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"

#include <math.h>

/* ---- recording ---- */

/* Few generated rows on a device: fused calls. Prompt rows never take them, so that a prompt is the same however it is cut. */
static bool fused(const struct forward *f, enum gdn_phase phase) { return f->device && phase != GDN_PREFILL; }

/* The mixer in two calls; what is pending goes in on the way */
static void mix_fused(struct gpu_cmd *c, struct forward *f, const struct hc_layer *h, uint32_t n_tok)
{
    uint32_t S = f->shape->n_stream, D = f->shape->n_embd, rows = gpu_rows_of(n_tok), groups = (n_tok + rows - 1) / rows;
    uint32_t grain = hc_block_rows(rows), blocks = (h->mats.down.n_out + grain - 1) / grain + (h->mats.inject.n_out > 0), spans = (D + HC_UP_SPAN - 1) / HC_UP_SPAN;
    gpu_addr next = f->residuals[f->residual == f->residuals[0]];
    CALL(c, model_kernels, gpu_rows_build(K_hc_down_r1, 2, n_tok), groups * S * blocks * HC_GRAIN, struct hc_down_args, .residual = f->residual,
         .residual_out = next, .y = f->pending ? f->y : 0, .inject = f->inject, .gain = h->norm, .hc = gpu_block(c, &h->mats), .part = f->part,
         .squares = f->squares, .n_stream = S, .n_embd = D, .n_tok = n_tok, .tok_group = rows);
    if (f->pending)
        f->residual = next;
    f->pending = false;
    CALL(c, model_kernels, gpu_rows_build(K_hc_up_r1, 2, n_tok), groups * spans, struct hc_up_args, .residual = f->residual, .gain = h->norm,
         .hc = gpu_block(c, &h->mats), .part = f->part, .squares = f->squares, .u = f->u, .inject = f->inject, .n_stream = S, .n_embd = D,
         .n_tok = n_tok, .tok_group = rows, .eps = f->shape->eps, .rank = h->mats.down.n_out);
}

/* u = mix(R) and, except in the final mixer, inj (spec 1.2) */
static void mix(struct gpu_cmd *c, struct forward *f, const struct hc_layer *h, uint32_t row0, uint32_t n_tok, enum gdn_phase phase)
{
    const struct shape *s = f->shape;
    uint32_t S = s->n_stream, D = s->n_embd, spans = (D + HC_SPAN - 1) / HC_SPAN;
    c->part = "hc";
    if (fused(f, phase)) {
        mix_fused(c, f, h, n_tok);
        return;
    }
    forward_settle(c, f, n_tok);
    gpu_addr residual = f->residual + (uint64_t)row0 * S * D * sizeof(float);
    CALL(c, model_kernels, K_hc_norm, n_tok * S, struct hc_norm_args, .residual = residual, .gain = h->norm, .out = f->norm, .n_stream = S,
         .n_embd = D, .eps = s->eps);
    gpu_matmul(c, h->down, h->n_down, f->norm, S * D, n_tok); /* low = silu(Wd n / 4), inj = 2 sigmoid(Wi n / 4) */
    gpu_matmul(c, &h->up, 1, f->low, s->hc_rank, n_tok);      /* gate = sigmoid(Wu low) */
    CALL(c, model_kernels, K_hc_mean, n_tok * spans, struct hc_mean_args, .gate = f->gate, .norm = f->norm, .out = f->u, .n_stream = S, .n_embd = D);
}

/* R += inj * y */
void forward_settle(struct gpu_cmd *c, struct forward *f, uint32_t n_tok)
{
    uint32_t S = f->shape->n_stream;
    if (!f->pending)
        return;
    c->part = "hc";
    CALL(c, model_kernels, K_hc_combine, n_tok * S, struct hc_combine_args, .residual = f->residual, .inject = f->inject, .y = f->y, .n_stream = S,
         .n_embd = f->shape->n_embd);
    f->pending = false;
}

/* R += PLE(R, n-grams) (spec 2.5) */
static void ple(struct gpu_cmd *c, struct forward *f, uint32_t n_tok, enum gdn_phase phase)
{
    const struct shape *s = f->shape;
    uint32_t width = s->n_stream * s->n_embd;
    const struct verify_rows *kept = phase == GDN_VERIFY ? &f->verify.rows[s->n_layer] : NULL;
    gpu_addr z = kept ? kept->next : f->ple_s.z;
    forward_settle(c, f, n_tok);
    c->part = "ngram";
    gpu_matmul(c, f->ple_in, 2, f->ngram_at, s->ple_head * s->ple_row, n_tok);
    CALL(c, model_kernels, K_ple_gate, n_tok * s->n_stream, struct ple_gate_args, .residual = f->residual, .key = f->ple_s.key, .value = f->ple_s.value,
         .norm_key = f->ple_s.norm_key, .norm_query = f->ple_s.norm_query, .norm_conv = f->ple_s.norm_conv, .gv = f->ple_s.gv, .z = z,
         .n_stream = s->n_stream, .n_embd = s->n_embd, .eps = s->eps);
    if (f->runs.n) {
        forward_rows_ple_conv(c, f);
        return;
    }
    CALL(c, model_kernels, K_ple_conv, width, struct ple_conv_args, .z = z, .gv = f->ple_s.gv, .conv = f->ple_s.conv,
         .block = gpu_block(c, &f->ple_block[kept != NULL]), .residual = f->residual, .width = width, .taps = s->ple_conv_taps, .dilation = s->ple_ngram,
         .n_tok = n_tok);
}

/* Spans that a group takes, so that about MOE_GROUPS groups share out n of them */
static uint32_t spans_of_group(uint32_t n)
{
    enum { MOE_GROUPS = 2048, MOE_SPANS_MAX = 8 };
    return MIN(MAX(n / MOE_GROUPS, 1u), (uint32_t)MOE_SPANS_MAX);
}

/* The experts of a few rows, or of any number where nothing groups them: each (row, slot) by itself */
static void experts_apart(struct gpu_cmd *c, const struct forward *f, const struct forward_layer *l, uint32_t n_tok)
{
    const struct moe_block *b = &l->moe;
    gpu_addr block = gpu_block(c, b);
    uint32_t up = K_moe_up_NONE + 2 * device_build_of(b->gate.type), down = K_moe_mix_NONE + 2 * device_build_of(b->down.type);
    uint32_t up_spans = (b->ff + MOE_UP_GRAIN - 1) / MOE_UP_GRAIN, mix_spans = (b->n_embd + MOE_MIX_GRAIN - 1) / MOE_MIX_GRAIN;
    struct moe_up_args u = { .block = block, .id = f->moe_s.id, .u = f->u, .h = f->moe_s.h, .n_tok = n_tok, .spans = spans_of_group(n_tok * b->n_used * up_spans) };
    struct moe_mix_args m = { .block = block, .id = f->moe_s.id, .weight = f->moe_s.weight, .h = f->moe_s.h, .gate = f->moe_s.shared_gate,
                              .up = f->moe_s.shared_up, .scalar = f->moe_s.shared_scalar, .y = f->y, .n_tok = n_tok, .spans = spans_of_group(n_tok * mix_spans) };
    gpu_record(c, &model_kernels, up, &u, sizeof u, n_tok * b->n_used * ((up_spans + u.spans - 1) / u.spans) * MOE_UP_GRAIN);
    gpu_record(c, &model_kernels, down, &m, sizeof m, n_tok * ((mix_spans + m.spans - 1) / m.spans) * MOE_MIX_GRAIN);
}

/* The experts of many rows: sorted by expert, each expert's weights read once */
static void experts_grouped(struct gpu_cmd *c, const struct forward *f, const struct forward_layer *l, uint32_t n_tok)
{
    const struct moe_block *b = &l->moe;
    gpu_addr block = gpu_block(c, b);
    uint32_t most_active = MIN(b->n_expert, n_tok * b->n_used);
    CALL(c, model_kernels, K_moe_group, 1, struct moe_group_args, .block = block, .id = f->moe_s.id, .weight = f->moe_s.weight, .group = f->moe_s.group,
         .expert = f->moe_s.expert, .start = f->moe_s.start, .row = f->moe_s.row, .share = f->moe_s.share, .cursor = f->moe_s.cursor, .n_tok = n_tok);
    struct moe_gate_up_args up = { .block = block, .group = f->moe_s.group, .expert = f->moe_s.expert, .start = f->moe_s.start, .row = f->moe_s.row,
                                   .u = f->u, .h = f->moe_s.h };
    struct moe_down_args down = { .block = block, .group = f->moe_s.group, .expert = f->moe_s.expert, .start = f->moe_s.start, .row = f->moe_s.row,
                                  .share = f->moe_s.share, .h = f->moe_s.h, .shared_h = f->moe_s.shared_h, .shared_gate = f->moe_s.shared_scalar,
                                  .y = f->y, .n_tok = n_tok };
    uint32_t up_items = most_active * (uint32_t)size_up(b->ff, MOE_GRAIN);
    bool integers = c->rows && quant_unpacks(b->gate.type) && quant_unpacks(b->up.type) && quant_unpacks(b->down.type) && quant_unpacks(b->shared_down.type);
    if (integers) {
        gpu_quantise(c, f->u, b->n_embd, b->n_embd, n_tok, 0);
        CALL(c, model_kernels, K_moe_gate_up_int, up_items, struct moe_gate_up_int_args, .m = up, .u_rows = c->rows);
        if (n_tok <= DECODE_ROWS)
            gpu_record_together(c, INT_TOGETHER, (uint32_t)size_up(b->ff, MOE_GRAIN) / MOE_GRAIN);
    } else {
        gpu_record(c, &model_kernels, K_moe_gate_up, &up, sizeof up, up_items);
    }
    CALL(c, model_kernels, K_swiglu, n_tok, struct swiglu_args, .gate = f->moe_s.shared_gate, .up = f->moe_s.shared_up, .out = f->moe_s.shared_h,
         .n = b->shared_ff);
    if (integers) { /* the rows of u are no longer needed */
        size_t shared_at = n_tok * b->n_used * int_row_bytes(b->ff);
        gpu_quantise(c, f->moe_s.h, b->ff, b->ff, n_tok * b->n_used, 0);
        gpu_quantise(c, f->moe_s.shared_h, b->shared_ff, b->shared_ff, n_tok, shared_at);
        CALL(c, model_kernels, K_moe_down_int, b->n_embd, struct moe_down_int_args, .m = down, .h_rows = c->rows, .shared_rows = c->rows + shared_at);
        if (n_tok <= DECODE_ROWS)
            gpu_record_together(c, INT_TOGETHER, 0);
    } else {
        gpu_record(c, &model_kernels, K_moe_down, &down, sizeof down, b->n_embd);
    }
}

/* The experts of many rows on the matrix units of a device */
static void experts_on_matrix(struct gpu_cmd *c, const struct forward *f, const struct forward_layer *l, uint32_t n_tok)
{
    const struct moe_block *b = &l->moe;
    uint32_t n_entry = n_tok * b->n_used, tiles = moe_tiles_max(n_entry, MOE_TILE, b->n_expert);
    struct moe_gemm_args a = { .block = gpu_block(c, b), .tile = f->moe_s.tile, .n_tile = f->moe_s.n_tile, .start = f->moe_s.start, .row = f->moe_s.row,
                               .x = f->u, .y = f->moe_s.h, .max_tile = tiles };
    CALL(c, model_kernels, K_moe_count, b->n_expert, struct moe_count_args, .id = f->moe_s.id, .count = f->moe_s.count, .n_entry = n_entry);
    CALL(c, model_kernels, K_swiglu, n_tok, struct swiglu_args, .gate = f->moe_s.shared_gate, .up = f->moe_s.shared_up, .out = f->moe_s.shared_h,
         .n = b->shared_ff);
    gpu_record_parallel(c);
    CALL(c, model_kernels, K_moe_scatter, b->n_expert, struct moe_scatter_args, .id = f->moe_s.id, .weight = f->moe_s.weight, .count = f->moe_s.count,
         .start = f->moe_s.start, .row = f->moe_s.row, .share = f->moe_s.share, .entry_of = f->moe_s.entry_of, .tile = f->moe_s.tile,
         .n_tile = f->moe_s.n_tile, .n_tok = n_tok, .n_used = b->n_used, .n_expert = b->n_expert, .tile_size = MOE_TILE);
    gpu_matmul(c, &l->shared_down, 1, f->moe_s.shared_h, b->shared_ff, n_tok);
    gpu_record_parallel(c);
    gpu_record(c, &model_kernels, K_moe_gemm_up_NONE + 2 * device_build_of(b->gate.type), &a, sizeof a, tiles * ((b->ff + MOE_PAIRS - 1) / MOE_PAIRS));
    a.x = f->moe_s.h;
    a.y = f->moe_s.e;
    gpu_record(c, &model_kernels, K_moe_gemm_down_NONE + 2 * device_build_of(b->down.type), &a, sizeof a,
               tiles * ((b->n_embd + GEMM_ROWS - 1) / GEMM_ROWS));
    CALL(c, model_kernels, K_moe_sum, n_tok * ((b->n_embd + MOE_SUM_SPAN - 1) / MOE_SUM_SPAN), struct moe_sum_args, .e = f->moe_s.e,
         .entry_of = f->moe_s.entry_of, .share = f->moe_s.share, .s = f->moe_s.shared_y, .shared_gate = f->moe_s.shared_scalar, .y = f->y,
         .n_used = b->n_used, .n_embd = b->n_embd);
}

/* Router, shared expert's first products and routing: one launch for one row where the device can do it */
static void moe_in(struct gpu_cmd *c, const struct forward *f, const struct forward_layer *l, uint32_t n_tok)
{
    struct moe_route_args route = { .block = gpu_block(c, &l->moe), .logits = f->moe_s.logits, .id = f->moe_s.id, .weight = f->moe_s.weight };
    bool together = f->device && n_tok == 1 && gpu_has(c->gpu, &model_kernels, K_moe_in);
    for (size_t i = 0; i < COUNT_OF(l->moe_in); i++)
        together = together && device_build_of(l->moe_in[i].w.type) == 0;
    if (together) {
        struct matmul_args a = { .x = f->u, .job = gpu_block(c, l->moe_in), .x_stride = l->moe.n_embd, .n_job = COUNT_OF(l->moe_in), .n_tok = 1 };
        uint32_t groups = gpu_matvec_blocks(&a, l->moe_in, 0);
        CALL(c, model_kernels, K_moe_in, groups * MATVEC_GRAIN, struct moe_in_args, .products = a, .route = route,
             .arrived = f->step_at + offsetof(struct gpu_step, arrived), .n_group = groups);
        return;
    }
    gpu_matmul(c, l->moe_in, COUNT_OF(l->moe_in), f->u, l->moe.n_embd, n_tok);
    gpu_record(c, &model_kernels, K_moe_route, &route, sizeof route, n_tok);
}

/* y = MoE(u) (spec 5) */
static void moe(struct gpu_cmd *c, const struct forward *f, const struct forward_layer *l, uint32_t n_tok)
{
    c->part = "moe";
    moe_in(c, f, l, n_tok);
    if (c->matrix && n_tok > DECODE_ROWS && l->moe.n_embd % GEMM_DEPTH == 0 && l->moe.ff % GEMM_DEPTH == 0)
        experts_on_matrix(c, f, l, n_tok);
    else if (f->device)
        experts_apart(c, f, l, n_tok);
    else
        experts_grouped(c, f, l, n_tok);
}

void forward_embed(struct gpu_cmd *c, struct forward *f, uint32_t n_tok)
{
    f->residual = f->residuals[0];
    f->pending = false;
    c->part = "embed";
    forward_fetch_ids(c, f, n_tok);
    CALL(c, gpu_kernels, f->device ? K_embed_dev : K_embed, n_tok, struct embed_args, .step = f->step_at, .table = gpu_block(c, f->token_embd),
         .out = f->residual, .n_stream = f->shape->n_stream);
}

void forward_layer(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok, enum gdn_phase phase)
{
    const struct forward_layer *l = &f->layer[il];
    if ((int32_t)il == f->shape->ple_layer)
        ple(c, f, n_tok, phase);
    mix(c, f, &l->hc_attn, 0, n_tok, phase);
    if (phase == GDN_VERIFY)
        forward_verify_layer(c, f, il, n_tok);
    else if (f->runs.n)
        (f->shape->is_qsa[il] ? forward_rows_qsa : forward_rows_gdn)(c, f, il, n_tok);
    else if (f->shape->is_qsa[il])
        qsa_record(c, &l->qsa, &f->qsa_s, &f->qsa, f->step_at, f->u, n_tok);
    else
        gdn_record(c, &l->gdn, &f->gdn_s, &f->gdn, f->u, n_tok, phase);
    f->pending = true;
    mix(c, f, &l->hc_ffn, 0, n_tok, phase);
    moe(c, f, l, n_tok);
    f->pending = true;
}

void forward_mix_attn(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok, enum gdn_phase phase)
{
    mix(c, f, &f->layer[il].hc_attn, 0, n_tok, phase);
}

void forward_head(struct gpu_cmd *c, struct forward *f, uint32_t row0, uint32_t n_row, enum gdn_phase phase)
{
    mix(c, f, f->out_hc, row0, n_row, phase);
    c->part = "head";
    gpu_matmul(c, f->head, 1, f->u, f->shape->n_embd, n_row);
}

/* ---- placing ---- */

static struct matmul_job job(const struct gpu_mat *w, gpu_addr y, uint32_t act, float scale)
{
    return (struct matmul_job){ .w = *w, .y = y, .y_stride = w->n_out, .act = act, .scale = scale };
}

static void place_hc(const struct forward *f, struct hc_layer *h, const struct hc_weights *w)
{
    float scale = 1.0f / (float)f->shape->n_stream;
    h->norm = w->norm;
    h->n_down = 1;
    h->down[0] = job(&w->down, f->low, ACT_SILU, scale);
    if (w->inject.data)
        h->down[h->n_down++] = job(&w->inject, f->inject, ACT_SIGMOID2, scale);
    h->up = job(&w->up, f->gate, ACT_SIGMOID, 1);
    h->mats = (struct hc_mats){ .down = w->down, .inject = w->inject, .up = w->up };
}

static void place_gdn(const struct forward *f, struct gdn_layer *l, const struct gdn_weights *w, const struct layer_state *st)
{
    const struct gdn_dims *d = &f->gdn;
    l->block = (struct gdn_block){ .conv = w->conv, .a = w->a, .dt = w->dt, .norm = w->norm, .state = st->gdn_state, .window = st->gdn_window,
                                   .n_k = d->n_k, .n_v = d->n_v, .dim = d->dim, .taps = d->taps, .width = gdn_width(d), .eps = f->shape->eps };
    l->in[0] = job(&w->qkv, f->gdn_s.raw, ACT_NONE, 1);
    l->in[1] = job(&w->gate, f->gdn_s.gate, ACT_SIGMOID, 1);
    l->in[2] = job(&w->beta, f->gdn_s.beta, ACT_SIGMOID, 1);
    l->in[3] = job(&w->alpha, f->gdn_s.alpha, ACT_NONE, 1);
    l->out = job(&w->out, f->y, ACT_NONE, 1);
    gdn_fuse_conv(l, &f->gdn_s);
}

static void place_qsa(const struct forward *f, struct qsa_layer *l, const struct qsa_weights *w, const struct layer_state *st, bool dense)
{
    const struct qsa_dims *d = &f->qsa;
    l->block = (struct qsa_block){ .q_norm = w->q_norm, .k_norm = w->k_norm, .iq_norm = w->iq_norm, .ik_norm = w->ik_norm, .k = st->k, .v = st->v,
                                   .pooled = st->pooled, .window = st->window, .n_head = d->n_head, .n_kv = d->n_kv, .dim = d->dim,
                                   .rope_dim = d->rope_dim, .idx_head = d->idx_head, .idx_dim = d->idx_dim, .budget = dense ? 0 : d->budget,
                                   .cap_blocks = f->cap_blocks, .kv_type = f->kv_type, .eps = f->shape->eps };
    l->keys = st->keys;
    l->in[0] = job(&w->q, f->qsa_s.qg, ACT_NONE, 1);
    l->in[1] = job(&w->k, f->qsa_s.k, ACT_NONE, 1);
    l->in[2] = job(&w->v, f->qsa_s.v, ACT_NONE, 1);
    l->in[3] = job(&w->iq, f->qsa_s.iq, ACT_NONE, 1);
    l->in[4] = job(&w->ik, f->qsa_s.ik, ACT_NONE, 1);
    l->out = job(&w->out, f->y, ACT_NONE, 1);
}

static void place_moe(const struct forward *f, struct forward_layer *l, const struct moe_weights *w)
{
    const struct shape *s = f->shape;
    l->moe = (struct moe_block){ .gate = w->gate, .up = w->up, .down = w->down, .shared_down = w->shared_down, .n_expert = s->n_expert,
                                 .n_used = s->n_expert_used, .ff = s->expert_ff, .shared_ff = s->shared_ff, .n_embd = s->n_embd };
    l->moe_in[0] = job(&w->router, f->moe_s.logits, ACT_NONE, 1);
    l->moe_in[1] = job(&w->shared_gate, f->moe_s.shared_gate, ACT_NONE, 1);
    l->moe_in[2] = job(&w->shared_up, f->moe_s.shared_up, ACT_NONE, 1);
    l->moe_in[3] = job(&w->shared_scalar, f->moe_s.shared_scalar, ACT_SIGMOID, 1);
    l->shared_down = job(&w->shared_down, f->moe_s.shared_y, ACT_NONE, 1);
}

/* Integer rows of the largest step: of the widest x of a product, or of all inputs of the experts' second products */
static size_t forward_rows_bytes(const struct forward *f)
{
    const struct shape *s = f->shape;
    uint32_t widest = MAX(s->n_stream * s->n_embd, MAX(s->n_head * s->head_dim, s->gdn_v_head * s->gdn_dim));
    widest = (uint32_t)size_up(MAX(widest, s->ple_layer >= 0 ? s->ple_head * s->ple_row : 0), 32);
    return f->max_tok * MAX(int_row_bytes(widest), s->n_expert_used * int_row_bytes(s->expert_ff) + int_row_bytes(s->shared_ff));
}

void forward_init(struct forward *f, const struct shape *s, const struct weights *w, size_t n_ctx, uint32_t max_tok, uint32_t kv_type, struct qsa_form form,
                  bool device, bool rounded)
{
    *f = (struct forward){ .shape = s, .w = w, .max_tok = max_tok, .kv_type = kv_type, .device = device, .matrix = device && rounded,
                           .integers = !device && rounded, .cap_blocks = qsa_cap_blocks(n_ctx) };
    f->gdn = (struct gdn_dims){ .n_embd = s->n_embd, .n_k = s->gdn_k_head, .n_v = s->gdn_v_head, .dim = s->gdn_dim, .taps = s->conv_taps };
    f->qsa = (struct qsa_dims){ .n_embd = s->n_embd, .n_head = s->n_head, .n_kv = s->n_head_kv, .device = device, .dim = s->head_dim, .rope_dim = s->rope_dim,
                                .idx_head = s->idx_head, .idx_dim = s->idx_dim, .budget = s->idx_budget / QSA_RATIO, .form = form };
    for (uint32_t il = 0; il < s->n_layer; il++)
        f->qsa.any_dense = f->qsa.any_dense || (s->is_qsa[il] && !s->ratio[il]);
    /* All-row logits go through the head in strips of about 16 MB */
    size_t strip = ((size_t)16 << 20) / ((size_t)s->n_vocab * sizeof(float));
    f->max_logits = (uint32_t)MAX((size_t)DECODE_ROWS, MIN(strip, (size_t)MIN(max_tok, 64u)));
}

void forward_together(struct forward *f, uint32_t n_row)
{
    f->qsa.n_row = n_row;
    f->max_logits = MAX(f->max_logits, n_row);
}

status forward_check_device(const struct shape *s, struct err *e)
{
    const struct { const char *what; uint32_t found, multiple, most; } bound[] = {
        { "width", s->n_embd, 16, MAX_EMBD }, { "mixer rank", s->hc_rank, 16, 384 }, { "streams", s->n_stream, 1, 4 },
        { "expert width", s->expert_ff, 16, MAX_WIDTH }, { "shared expert width", s->shared_ff, 16, MAX_WIDTH },
        { "experts", s->n_expert, 1, 512 }, { "experts used", s->n_expert_used, 1, 16 }, { "attention head size", s->head_dim, 16, 256 },
        { "delta-net head size", s->gdn_dim, 8, 128 }, { "indexer head size", s->idx_dim, 4, 128 },
        { "n-gram row", s->ple_layer >= 0 ? s->ple_head * s->ple_row : 16, 16, MAX_WIDTH },
    };
    for (size_t i = 0; i < COUNT_OF(bound); i++)
        if (bound[i].found % bound[i].multiple || bound[i].found > bound[i].most)
            return fail(e, ERR_UNSUPPORTED, "%s %u: the device kernels take multiples of %u up to %u; --backend cpu takes any", bound[i].what,
                        bound[i].found, bound[i].multiple, bound[i].most);
    return OK;
}

void forward_place(struct forward *f, struct forward_memory *m, const struct layer_state *state, gpu_addr ple_window)
{
    const struct shape *s = f->shape;
    size_t n = f->max_tok, D = s->n_embd, wide = s->n_stream * D, k = s->n_expert_used, E = s->n_expert;
    struct arena *a = &m->scratch;
#define FLOATS(count) ADDR(arena_take(a, (count), sizeof(float)))
    f->layer = arena_take(&m->blocks, s->n_layer, sizeof *f->layer);
    f->out_hc = arena_take(&m->blocks, 1, sizeof *f->out_hc);
    f->head = arena_take(&m->blocks, 1, sizeof *f->head);
    f->ple_in = arena_take(&m->blocks, 2, sizeof *f->ple_in);
    f->token_embd = arena_take(&m->blocks, 1, sizeof *f->token_embd);
    f->ple_block = arena_take(&m->blocks, 2, sizeof *f->ple_block);
    forward_place_step(f, m);
    f->residuals[0] = f->residuals[1] = FLOATS(n * wide);
    if (f->device) { /* fused calls: few rows */
        f->residuals[1] = FLOATS(DECODE_ROWS * wide);
        f->part = FLOATS((size_t)DECODE_ROWS * s->n_stream * (s->hc_rank + s->n_stream));
        f->squares = FLOATS((size_t)DECODE_ROWS * s->n_stream);
    }
    f->norm = FLOATS(n * wide);
    f->gate = FLOATS(n * wide);
    f->low = FLOATS(n * s->hc_rank);
    f->inject = FLOATS(n * s->n_stream);
    f->u = FLOATS(n * D);
    f->y = FLOATS(n * D);
    f->logits = FLOATS((size_t)f->max_logits * s->n_vocab);
    size_t spans = (s->n_vocab + TOP_SPAN - 1) / TOP_SPAN; /* of the vocabulary, then of what these leave */
    for (int i = 0; i < 2; i++, spans = (spans * TOP_MAX + TOP_SPAN - 1) / TOP_SPAN)
        f->parts[i] = ADDR(arena_take(a, DECODE_ROWS * spans * TOP_MAX, sizeof(struct argmax_best)));
    if (f->integers)
        f->rows = ADDR(arena_take(a, forward_rows_bytes(f), 1));
    /* The parts of a layer are never alive together: their scratch lies in the same place. */
    size_t base = a->used, end = base;
    gdn_scratch_take(&f->gdn_s, a, &f->gdn, n);
    end = MAX(end, a->used);
    a->used = base;
    qsa_scratch_take(&f->qsa_s, a, &f->qsa, n, f->cap_blocks);
    end = MAX(end, a->used);
    a->used = base;
    f->moe_s.logits = FLOATS(n * E);
    f->moe_s.id = FLOATS(n * k);
    f->moe_s.weight = FLOATS(n * k);
    f->moe_s.group = ADDR(arena_take(a, 1, sizeof(struct moe_group)));
    f->moe_s.expert = FLOATS(E);
    f->moe_s.start = FLOATS(E + 1);
    f->moe_s.row = FLOATS(n * k);
    f->moe_s.share = FLOATS(n * k);
    f->moe_s.cursor = FLOATS(E);
    f->moe_s.h = FLOATS(n * k * s->expert_ff);
    f->moe_s.shared_gate = FLOATS(n * s->shared_ff);
    f->moe_s.shared_up = FLOATS(n * s->shared_ff);
    f->moe_s.shared_h = FLOATS(n * s->shared_ff);
    f->moe_s.shared_scalar = FLOATS(n);
    if (f->matrix) {
        f->moe_s.count = FLOATS(E);
        f->moe_s.entry_of = FLOATS(n * k);
        f->moe_s.tile = ADDR(arena_take(a, moe_tiles_max((uint32_t)(n * k), MOE_TILE, (uint32_t)E), sizeof(struct moe_tile)));
        f->moe_s.n_tile = FLOATS(1);
        f->moe_s.e = FLOATS(n * k * D);
        f->moe_s.shared_y = FLOATS(n * D);
    }
    end = MAX(end, a->used);
    a->used = base;
    f->ple_s.key = FLOATS(n * wide);
    f->ple_s.value = FLOATS(n * D);
    f->ple_s.gv = FLOATS(n * wide);
    f->ple_s.z = FLOATS(n * wide);
    a->used = MAX(end, a->used);
#undef FLOATS
    if (!a->base)
        return;
    *f->token_embd = f->w->token_embd;
    f->step->ids = f->ids_at;
    f->step->rope = f->rope_at;
    for (uint32_t i = 0; i < s->rope_dim / 2; i++)
        f->inv_freq[i] = powf(s->rope_base, -2.0f * (float)i / (float)s->rope_dim);
    for (uint32_t il = 0; il < s->n_layer; il++) {
        struct forward_layer *l = &f->layer[il];
        const struct layer_weights *w = &f->w->layer[il];
        place_hc(f, &l->hc_attn, &w->hc_attn);
        place_hc(f, &l->hc_ffn, &w->hc_ffn);
        if (s->is_qsa[il])
            place_qsa(f, &l->qsa, &w->qsa, &state[il], s->ratio[il] == 0);
        else
            place_gdn(f, &l->gdn, &w->gdn, &state[il]);
        place_moe(f, l, &w->moe);
    }
    place_hc(f, f->out_hc, &f->w->out_hc);
    *f->head = job(&f->w->output, f->logits, ACT_NONE, 1);
    f->ple_in[0] = job(&f->w->ple.key, f->ple_s.key, ACT_NONE, 1);
    f->ple_in[1] = job(&f->w->ple.value, f->ple_s.value, ACT_NONE, 1);
    f->ple_block[0].window = ple_window;
    f->ple_s.norm_key = f->w->ple.norm_key;
    f->ple_s.norm_query = f->w->ple.norm_query;
    f->ple_s.norm_conv = f->w->ple.norm_conv;
    f->ple_s.conv = f->w->ple.conv;
}

size_t forward_thread_floats(const struct forward *f)
{
    const struct shape *s = f->shape;
    uint32_t widest = MAX(s->n_stream * s->n_embd, MAX(s->n_head * s->head_dim, s->gdn_v_head * s->gdn_dim));
    size_t n = gpu_scratch_floats(MAX(widest, s->ple_head * s->ple_row));
    n = MAX(n, model_scratch_floats(s->n_embd, MAX(s->expert_ff, s->shared_ff)));
    n = MAX(n, gdn_scratch_floats(&f->gdn));
    n = MAX(n, qsa_scratch_floats(&f->qsa));
    return size_up(n, 16);
}

uint32_t forward_max_calls(const struct forward *f)
{
    uint32_t strips = (f->max_tok + QSA_STRIP - 1) / QSA_STRIP;
    return 24 + f->shape->n_layer * 34 + f->shape->n_qsa * 4 * strips;
}
