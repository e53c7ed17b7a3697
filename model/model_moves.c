/* model_moves.c - what the rows of hyper-connections, experts and the n-gram path must move; see gpu/moves.h. */
#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"

#include <math.h>

/* ---- hyper-connections ---- */

void hc_norm_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct hc_norm_args *a = args;
    uint64_t n = (uint64_t)at->n_items * a->n_embd;
    m->vectors += moves_words((uint64_t)a->n_stream * a->n_embd);
    m->activations += 2 * moves_words(n);
    m->flops += 4 * n;
}

void hc_mean_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct hc_mean_args *a = args;
    uint64_t n = at->n_items / ((a->n_embd + HC_SPAN - 1) / HC_SPAN) * (uint64_t)a->n_embd;
    m->activations += moves_words(n * (2 * a->n_stream + 1));
    m->flops += 2 * n * a->n_stream;
}

void hc_combine_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct hc_combine_args *a = args;
    uint64_t n = at->n_items / a->n_stream;
    m->activations += moves_words(n * (2 * (uint64_t)a->n_stream * a->n_embd + a->n_stream + a->n_embd));
    m->flops += 2 * n * a->n_stream * a->n_embd;
}

static uint64_t parts_of(const struct hc_mats *w, uint64_t n_tok, uint64_t n_stream) { return n_tok * n_stream * (w->down.n_out + w->inject.n_out + 1); }

void hc_down_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct hc_down_args *a = args;
    const struct hc_mats *w = gpu_at_block(at, a->hc);
    uint64_t n = a->n_tok, wide = (uint64_t)a->n_stream * a->n_embd;
    gpu_add_product(m, &w->down, w->down.n_out, n);
    gpu_add_product(m, &w->inject, w->inject.n_out, n);
    m->vectors += moves_words(wide);
    m->activations += moves_words(n * wide + parts_of(w, n, a->n_stream));
    m->flops += 3 * n * wide;
    if (a->y) {
        m->activations += moves_words(n * (wide + a->n_embd + a->n_stream));
        m->flops += 2 * n * wide;
    }
}

void hc_up_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct hc_up_args *a = args;
    const struct hc_mats *w = gpu_at_block(at, a->hc);
    uint64_t n = a->n_tok, wide = (uint64_t)a->n_stream * a->n_embd;
    gpu_add_product(m, &w->up, w->up.n_out, n);
    m->vectors += moves_words(wide);
    m->activations += moves_words(n * (wide + a->n_embd + w->inject.n_out) + parts_of(w, n, a->n_stream));
    m->flops += 5 * n * wide;
}

/* ---- experts ---- */

/* How many experts n rows come to when each chooses n_used of n_expert by chance: of one row exactly n_used. Real text is less even and needs fewer. */
static uint64_t experts_hit(const struct moe_block *b, uint64_t n_tok)
{
    double all = b->n_expert, missed = pow(1 - b->n_used / all, (double)n_tok);
    return (uint64_t)llround(all * (1 - missed));
}

/* Adds one matrix of every expert that is hit; n_row: its rows */
static void add_experts(struct gpu_moves *m, const struct moe_block *b, const struct gpu_mat *w, uint64_t n_row, uint64_t n_tok)
{
    m->weights += experts_hit(b, n_tok) * n_row * w->row_bytes;
    m->flops += 2 * n_tok * b->n_used * n_row * w->n_in;
}

/* Of n rows */
static void routing(const struct moe_block *b, uint64_t n, struct gpu_moves *m)
{
    m->activations += moves_words(n * (b->n_expert + 2 * (uint64_t)b->n_used));
    m->flops += n * (b->n_expert + 3 * (uint64_t)b->n_used);
}
void moe_route_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_route_args *a = args;
    routing(gpu_at_block(at, a->block), at->n_items, m);
}
/* The logits are written and read here too: they go from group to group through memory */
void moe_in_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_in_args *a = args;
    matvec_moves(&a->products, at, m);
    routing(gpu_at_block(at, a->route.block), 1, m);
}

void moe_group_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_group_args *a = args;
    const struct moe_block *b = gpu_at_block(at, a->block);
    m->activations += moves_words(4 * (uint64_t)a->n_tok * b->n_used + 2 * experts_hit(b, a->n_tok) + 2);
}

void moe_count_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_count_args *a = args;
    m->activations += moves_words((uint64_t)a->n_entry + at->n_items);
}

void moe_scatter_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_scatter_args *a = args;
    uint64_t n_entry = (uint64_t)a->n_tok * a->n_used;
    m->activations += moves_words(5 * n_entry + 2 * (uint64_t)at->n_items + 2 * (n_entry / a->tile_size));
}

static void up(const struct moe_block *b, uint64_t n, struct gpu_moves *m)
{
    add_experts(m, b, &b->gate, b->ff, n);
    add_experts(m, b, &b->up, b->ff, n);
    m->activations += moves_words(n * (b->n_embd + b->n_used + (uint64_t)b->n_used * b->ff));
    m->flops += 4 * n * b->n_used * b->ff;
}
/* Includes the shared expert's second half, whose input is n_in vectors of its width */
static void down(const struct moe_block *b, uint64_t n, uint64_t n_in, struct gpu_moves *m)
{
    add_experts(m, b, &b->down, b->n_embd, n);
    gpu_add_product(m, &b->shared_down, b->shared_down.n_out, n);
    m->activations += moves_words(n * ((uint64_t)b->n_used * (b->ff + 2) + n_in * b->shared_ff + 1 + b->n_embd));
    m->flops += 2 * n * (b->n_used + 1) * b->n_embd;
}

void moe_gate_up_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_gate_up_args *a = args;
    up(gpu_at_block(at, a->block), at->n_tok, m);
}
void moe_down_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_down_args *a = args;
    down(gpu_at_block(at, a->block), a->n_tok, 1, m);
}
void moe_gate_up_int_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_gate_up_int_args *a = args;
    moe_gate_up_moves(&a->m, at, m);
}
void moe_down_int_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_down_int_args *a = args;
    moe_down_moves(&a->m, at, m);
}
void moe_up_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_up_args *a = args;
    up(gpu_at_block(at, a->block), a->n_tok, m);
}
void moe_mix_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_mix_args *a = args;
    down(gpu_at_block(at, a->block), a->n_tok, 2, m);
}
void moe_gemm_up_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_gemm_args *a = args;
    up(gpu_at_block(at, a->block), at->n_tok, m);
}

/* Results by entry; moe_sum adds them up */
void moe_gemm_down_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_gemm_args *a = args;
    const struct moe_block *b = gpu_at_block(at, a->block);
    add_experts(m, b, &b->down, b->n_embd, at->n_tok);
    m->activations += moves_words((uint64_t)at->n_tok * b->n_used * (b->ff + b->n_embd));
}

void moe_sum_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct moe_sum_args *a = args;
    uint64_t n = at->n_items / ((a->n_embd + MOE_SUM_SPAN - 1) / MOE_SUM_SPAN);
    m->activations += moves_words(n * ((uint64_t)a->n_used * (a->n_embd + 2) + 2 * (uint64_t)a->n_embd + 1));
    m->flops += 2 * n * (a->n_used + 1) * a->n_embd;
}

void swiglu_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct swiglu_args *a = args;
    m->activations += 3 * moves_words((uint64_t)at->n_items * a->n);
    m->flops += 4 * (uint64_t)at->n_items * a->n;
}

/* ---- n-gram side path ---- */

void ple_gate_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct ple_gate_args *a = args;
    uint64_t n = (uint64_t)at->n_items * a->n_embd;
    m->vectors += 3 * moves_words((uint64_t)a->n_stream * a->n_embd);
    m->activations += moves_words(4 * n + n / a->n_stream);
    m->flops += 12 * n;
}

void ple_conv_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct ple_conv_args *a = args;
    uint64_t n = (uint64_t)(a->apart ? at->n_tok : a->n_tok) * a->width;
    m->vectors += moves_words((uint64_t)a->width * a->taps);
    m->state += 2 * moves_words((uint64_t)(a->taps - 1) * a->dilation * a->width);
    m->activations += moves_words(4 * n);
    m->flops += n * (2 * a->taps + 6);
}
