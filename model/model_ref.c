/* model_ref.c - the rows of model_kernels.def in plain C, as spec page "model" writes them. */
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"
#include "gpu/gpu_kernels.h"
#include "model/shape.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

static float rms_scale(const float *x, uint32_t n, float eps)
{
    double ss = 0;
    for (uint32_t i = 0; i < n; i++)
        ss += (double)x[i] * (double)x[i];
    return 1.0f / sqrtf((float)(ss / n) + eps);
}

void hc_norm_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_norm_args *a = args;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        const float *x = AT(const float, a->residual) + (size_t)item * a->n_embd;
        const float *gain = AT(const float, a->gain) + (size_t)(item % a->n_stream) * a->n_embd;
        float *y = AT(float, a->out) + (size_t)item * a->n_embd, r = rms_scale(x, a->n_embd, a->eps);
        for (uint32_t i = 0; i < a->n_embd; i++)
            y[i] = x[i] * r * gain[i];
    }
}

void hc_mean_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_mean_args *a = args;
    uint32_t spans = (a->n_embd + HC_SPAN - 1) / HC_SPAN;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / spans, from = item % spans * HC_SPAN;
        size_t at = (size_t)t * a->n_stream * a->n_embd;
        for (uint32_t i = from; i < MIN(from + HC_SPAN, a->n_embd); i++) {
            float sum = 0;
            for (uint32_t s = 0; s < a->n_stream; s++)
                sum += AT(const float, a->gate)[at + (size_t)s * a->n_embd + i] * AT(const float, a->norm)[at + (size_t)s * a->n_embd + i];
            AT(float, a->out)[(size_t)t * a->n_embd + i] = sum / (float)a->n_stream;
        }
    }
}

void hc_combine_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_combine_args *a = args;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        float *r = AT(float, a->residual) + (size_t)item * a->n_embd, inj = AT(const float, a->inject)[item];
        const float *y = AT(const float, a->y) + (size_t)(item / a->n_stream) * a->n_embd;
        for (uint32_t i = 0; i < a->n_embd; i++)
            r[i] += inj * y[i];
    }
}

void hc_down_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct hc_down_args *a = args;
    const struct hc_mats *m = AT(const struct hc_mats, a->hc);
    uint32_t S = a->n_stream, D = a->n_embd, rank = m->down.n_out, grain = hc_block_rows(a->tok_group);
    uint32_t down_blocks = (rank + grain - 1) / grain, blocks = down_blocks + (m->inject.n_out > 0);
    float *x = scratch->f, *tmp = x + D;
    for (uint32_t g = first / HC_GRAIN; g < (first + n_items) / HC_GRAIN; g++) {
        uint32_t block = g % blocks, s = g / blocks % S, t0 = g / blocks / S * a->tok_group;
        for (uint32_t t = t0; t < MIN(t0 + a->tok_group, a->n_tok); t++) {
            size_t at = (size_t)t * S + s;
            const float *R = AT(const float, a->residual) + at * D, *gain = AT(const float, a->gain) + (size_t)s * D;
            float *part = AT(float, a->part) + at * (rank + S);
            double ss = 0;
            for (uint32_t i = 0; i < D; i++) {
                float v = a->y ? fmaf(AT(const float, a->inject)[at], AT(const float, a->y)[(size_t)t * D + i], R[i]) : R[i];
                if (a->y && i / 16 % blocks == block)
                    AT(float, a->residual_out)[at * D + i] = v;
                ss += (double)v * (double)v;
                x[i] = v * gain[i];
            }
            if (block == 0)
                AT(float, a->squares)[at] = (float)ss;
            for (uint32_t r = block * grain; block < down_blocks && r < MIN((block + 1) * grain, rank); r++)
                part[r] = (float)device_dot(&m->down, r, s * D, x, D, tmp);
            for (uint32_t r = 0; block == down_blocks && r < m->inject.n_out; r++)
                part[rank + r] = (float)device_dot(&m->inject, r, s * D, x, D, tmp);
        }
    }
}

void hc_up_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_up_args *a = args;
    const struct hc_mats *m = AT(const struct hc_mats, a->hc);
    uint32_t S = a->n_stream, D = a->n_embd, rank = m->down.n_out, spans = (D + HC_UP_SPAN - 1) / HC_UP_SPAN;
    float *low = scratch->f, *tmp = low + rank;
    for (uint32_t g = first; g < first + n; g++)
        for (uint32_t t = g / spans * a->tok_group; t < MIN((g / spans + 1) * a->tok_group, a->n_tok); t++) {
            double rms[MAX_STREAM];
            for (uint32_t s = 0; s < S; s++)
                rms[s] = 1 / sqrt((double)AT(const float, a->squares)[t * S + s] / D + (double)a->eps);
            for (uint32_t r = 0; r < rank + m->inject.n_out; r++) {
                double sum = 0;
                for (uint32_t s = 0; s < S; s++)
                    sum += rms[s] * (double)AT(const float, a->part)[((size_t)t * S + s) * (rank + S) + r];
                if (r < rank)
                    low[r] = act_apply(ACT_SILU, (float)(sum / S));
                else if (g % spans == 0)
                    AT(float, a->inject)[(size_t)t * S + r - rank] = act_apply(ACT_SIGMOID2, (float)(sum / S));
            }
            for (uint32_t i = g % spans * HC_UP_SPAN; i < MIN((g % spans + 1) * HC_UP_SPAN, D); i++) {
                double sum = 0;
                for (uint32_t s = 0; s < S; s++)
                    sum += (double)act_apply(ACT_SIGMOID, (float)device_dot(&m->up, s * D + i, 0, low, rank, tmp)) * rms[s] *
                           (double)AT(const float, a->residual)[((size_t)t * S + s) * D + i] * (double)AT(const float, a->gain)[s * D + i];
                AT(float, a->u)[(size_t)t * D + i] = (float)(sum / S);
            }
        }
}

/* softmax over all experts, the largest n_used, divided by their sum == softmax over the chosen logits */
void moe_route_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_route_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    (void)scratch;
    for (uint32_t t = first; t < first + n; t++) {
        const float *lg = AT(const float, a->logits) + (size_t)t * b->n_expert;
        uint32_t *id = AT(uint32_t, a->id) + (size_t)t * b->n_used, n_id = 0;
        float *w = AT(float, a->weight) + (size_t)t * b->n_used, sum = 0;
        for (uint32_t e = 0; e < b->n_expert; e++) { /* insertion into a list sorted by logit, then index */
            if (n_id == b->n_used && !(lg[e] > lg[id[n_id - 1]]))
                continue;
            uint32_t at = n_id < b->n_used ? n_id++ : n_id - 1;
            for (; at > 0 && lg[e] > lg[id[at - 1]]; at--)
                id[at] = id[at - 1];
            id[at] = e;
        }
        float max = lg[id[0]];
        for (uint32_t i = 1; i < n_id; i++) { /* ascending ids: the order of every later sum */
            uint32_t e = id[i], at = i;
            for (; at > 0 && id[at - 1] > e; at--)
                id[at] = id[at - 1];
            id[at] = e;
        }
        for (uint32_t i = 0; i < n_id; i++)
            sum += w[i] = expf(lg[id[i]] - max);
        for (uint32_t i = 0; i < n_id; i++)
            w[i] /= sum;
    }
}

/* Only whole calls: the routing wants all logits. */
void moe_in_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_in_args *a = args;
    _Atomic uint32_t *arrived = AT(_Atomic uint32_t, a->arrived);
    uint32_t groups = (n + MATVEC_GRAIN - 1) / MATVEC_GRAIN;
    matvec_ref(&a->products, first, n, scratch);
    if (atomic_fetch_add(arrived, groups) + groups < a->n_group) /* blocks end in any order */
        return;
    atomic_store(arrived, 0);
    moe_route_ref(&a->route, 0, 1, scratch);
}

void moe_group_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_group_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    const uint32_t *id = AT(const uint32_t, a->id);
    uint32_t *cursor = AT(uint32_t, a->cursor), *expert = AT(uint32_t, a->expert), *start = AT(uint32_t, a->start);
    uint32_t n_entry = a->n_tok * b->n_used, n_active = 0, sum = 0;
    (void)first, (void)n, (void)scratch;
    memset(cursor, 0, b->n_expert * sizeof *cursor);
    for (uint32_t i = 0; i < n_entry; i++)
        cursor[id[i]]++;
    for (uint32_t e = 0; e < b->n_expert; e++) {
        uint32_t count = cursor[e];
        if (!count)
            continue;
        expert[n_active] = e;
        start[n_active++] = cursor[e] = sum;
        sum += count;
    }
    start[n_active] = sum;
    AT(struct moe_group, a->group)->n_active = n_active;
    for (uint32_t i = 0; i < n_entry; i++) {
        uint32_t at = cursor[id[i]]++;
        AT(uint32_t, a->row)[at] = i / b->n_used;
        AT(float, a->share)[at] = AT(const float, a->weight)[i];
    }
}

void moe_count_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_count_args *a = args;
    (void)scratch;
    for (uint32_t e = first; e < first + n; e++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < a->n_entry; i++)
            count += AT(const uint32_t, a->id)[i] == e;
        AT(uint32_t, a->count)[e] = count;
    }
}

static void list_tiles(const struct moe_scatter_args *a)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < a->n_expert; e++)
        for (uint32_t at = 0; at < AT(const uint32_t, a->count)[e]; at += a->tile_size)
            AT(struct moe_tile, a->tile)[n++] = (struct moe_tile){ e, at };
    *AT(uint32_t, a->n_tile) = n;
}

void moe_scatter_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_scatter_args *a = args;
    uint32_t n_entry = a->n_tok * a->n_used, *start = AT(uint32_t, a->start);
    (void)scratch;
    if (first == 0)
        list_tiles(a);
    for (uint32_t e = first; e < first + n; e++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < e; i++)
            at += AT(const uint32_t, a->count)[i];
        start[e] = at;
        for (uint32_t i = 0; i < n_entry; i++) {
            if (AT(const uint32_t, a->id)[i] != e)
                continue;
            AT(uint32_t, a->row)[at] = i / a->n_used;
            AT(float, a->share)[at] = AT(const float, a->weight)[i];
            AT(uint32_t, a->entry_of)[i] = at++;
        }
        if (e == a->n_expert - 1)
            start[a->n_expert] = n_entry;
    }
}

void moe_sum_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_sum_args *a = args;
    uint32_t spans = (a->n_embd + MOE_SUM_SPAN - 1) / MOE_SUM_SPAN;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / spans, from = item % spans * MOE_SUM_SPAN;
        const uint32_t *entry = AT(const uint32_t, a->entry_of) + (size_t)t * a->n_used;
        for (uint32_t i = from; i < MIN(from + MOE_SUM_SPAN, a->n_embd); i++) {
            float sum = 0;
            for (uint32_t k = 0; k < a->n_used; k++)
                sum += AT(const float, a->share)[entry[k]] * AT(const float, a->e)[(size_t)entry[k] * a->n_embd + i];
            size_t at = (size_t)t * a->n_embd + i;
            AT(float, a->y)[at] = sum + AT(const float, a->shared_gate)[t] * AT(const float, a->s)[at];
        }
    }
}

static void mat_row(const struct gpu_mat *w, uint64_t row, float *dst)
{
    quant_type(w->type)->decode(AT(const uint8_t, w->data) + row * w->row_bytes, dst, w->n_in);
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

void moe_gate_up_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_gate_up_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    uint32_t pitch = (uint32_t)size_up(b->ff, MOE_GRAIN), active = first / pitch, r0 = first % pitch;
    if (active >= AT(const struct moe_group, a->group)->n_active)
        return;
    const uint32_t *start = AT(const uint32_t, a->start) + active, *row = AT(const uint32_t, a->row);
    uint64_t base = (uint64_t)AT(const uint32_t, a->expert)[active] * b->gate.rows_per_expert;
    float *gate = scratch->f, *up = gate + b->n_embd;
    assert(scratch->n >= 2 * (size_t)b->n_embd);
    for (uint32_t r = r0; r < r0 + n && r < b->ff; r++) {
        mat_row(&b->gate, base + r, gate);
        mat_row(&b->up, base + r, up);
        for (uint32_t i = start[0]; i < start[1]; i++) {
            const float *u = AT(const float, a->u) + (size_t)row[i] * b->n_embd;
            AT(float, a->h)[(size_t)i * b->ff + r] = act_apply(ACT_SILU, (float)dot(gate, u, b->n_embd)) * (float)dot(up, u, b->n_embd);
        }
    }
}

void moe_down_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_down_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    const uint32_t *start = AT(const uint32_t, a->start), *row = AT(const uint32_t, a->row);
    uint32_t n_active = AT(const struct moe_group, a->group)->n_active;
    float *w = scratch->f, *y = AT(float, a->y);
    assert(scratch->n >= MAX(b->ff, b->shared_ff));
    for (uint32_t r = first; r < first + n; r++) {
        for (uint32_t t = 0; t < a->n_tok; t++)
            y[(size_t)t * b->n_embd + r] = 0;
        for (uint32_t x = 0; x < n_active; x++) {
            mat_row(&b->down, (uint64_t)AT(const uint32_t, a->expert)[x] * b->n_embd + r, w);
            for (uint32_t i = start[x]; i < start[x + 1]; i++)
                y[(size_t)row[i] * b->n_embd + r] += AT(const float, a->share)[i] * (float)dot(w, AT(const float, a->h) + (size_t)i * b->ff, b->ff);
        }
        mat_row(&b->shared_down, r, w);
        for (uint32_t t = 0; t < a->n_tok; t++)
            y[(size_t)t * b->n_embd + r] +=
                AT(const float, a->shared_gate)[t] * (float)dot(w, AT(const float, a->shared_h) + (size_t)t * b->shared_ff, b->shared_ff);
    }
}

void moe_up_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct moe_up_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    uint32_t entries = a->n_tok * b->n_used, grain = a->spans * MOE_UP_GRAIN;
    for (uint32_t g = first / MOE_UP_GRAIN; g < (first + n_items) / MOE_UP_GRAIN; g++) {
        uint32_t entry = g % entries, r0 = g / entries * grain, e = AT(const uint32_t, a->id)[entry];
        const float *u = AT(const float, a->u) + (size_t)(entry / b->n_used) * b->n_embd;
        for (uint32_t r = r0; r < MIN(r0 + grain, b->ff); r++) {
            double gate = device_dot(&b->gate, (uint64_t)e * b->gate.rows_per_expert + r, 0, u, b->n_embd, scratch->f);
            double up = device_dot(&b->up, (uint64_t)e * b->up.rows_per_expert + r, 0, u, b->n_embd, scratch->f);
            AT(float, a->h)[(size_t)entry * b->ff + r] = act_apply(ACT_SILU, (float)gate) * (float)up;
        }
    }
}

/* The entries of tile t: *n0 .. *n0 + n - 1; returns n, 0 for a tile that is not there */
static uint32_t tile_entries(const struct moe_gemm_args *a, uint32_t t, uint32_t *e, uint32_t *n0)
{
    const uint32_t *start = AT(const uint32_t, a->start);
    if (t >= *AT(const uint32_t, a->n_tile))
        return 0;
    const struct moe_tile *tile = AT(const struct moe_tile, a->tile) + t;
    *e = tile->expert;
    *n0 = start[*e] + tile->first;
    return MIN(start[*e + 1] - *n0, (uint32_t)MOE_TILE);
}

void moe_gemm_up_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct moe_gemm_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    for (uint32_t g = first; g < first + n_items; g++) {
        uint32_t e, n0, n = tile_entries(a, g % a->max_tile, &e, &n0), r0 = g / a->max_tile * MOE_PAIRS;
        for (uint32_t i = 0; i < n; i++) {
            const float *u = AT(const float, a->x) + (size_t)AT(const uint32_t, a->row)[n0 + i] * b->n_embd;
            for (uint32_t r = r0; r < MIN(r0 + MOE_PAIRS, b->ff); r++) {
                double gate = device_dot(&b->gate, (uint64_t)e * b->gate.rows_per_expert + r, 0, u, b->n_embd, scratch->f);
                double up = device_dot(&b->up, (uint64_t)e * b->up.rows_per_expert + r, 0, u, b->n_embd, scratch->f);
                AT(float, a->y)[(size_t)(n0 + i) * b->ff + r] = act_apply(ACT_SILU, (float)gate) * (float)up;
            }
        }
    }
}

void moe_gemm_down_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct moe_gemm_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    for (uint32_t g = first; g < first + n_items; g++) {
        uint32_t e, n0, n = tile_entries(a, g % a->max_tile, &e, &n0), r0 = g / a->max_tile * GEMM_ROWS;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t r = r0; r < MIN(r0 + GEMM_ROWS, b->n_embd); r++)
                AT(float, a->y)[(size_t)(n0 + i) * b->n_embd + r] =
                    (float)device_dot(&b->down, (uint64_t)e * b->n_embd + r, 0, AT(const float, a->x) + (size_t)(n0 + i) * b->ff, b->ff, scratch->f);
    }
}

void moe_mix_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct moe_mix_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    uint32_t grain = a->spans * MOE_MIX_GRAIN;
    float *shared = scratch->f, *tmp = shared + b->shared_ff;
    for (uint32_t g = first / MOE_MIX_GRAIN; g < (first + n_items) / MOE_MIX_GRAIN; g++) {
        uint32_t t = g % a->n_tok, r0 = g / a->n_tok * grain;
        for (uint32_t i = 0; i < b->shared_ff; i++)
            shared[i] = act_apply(ACT_SILU, AT(const float, a->gate)[(size_t)t * b->shared_ff + i]) * AT(const float, a->up)[(size_t)t * b->shared_ff + i];
        for (uint32_t r = r0; r < MIN(r0 + grain, b->n_embd); r++) {
            double sum = (double)AT(const float, a->scalar)[t] * device_dot(&b->shared_down, r, 0, shared, b->shared_ff, tmp);
            for (uint32_t k = t * b->n_used; k < (t + 1) * b->n_used; k++)
                sum += (double)AT(const float, a->weight)[k] * device_dot(&b->down, (uint64_t)AT(const uint32_t, a->id)[k] * b->n_embd + r, 0,
                                                                          AT(const float, a->h) + (size_t)k * b->ff, b->ff, tmp);
            AT(float, a->y)[(size_t)t * b->n_embd + r] = (float)sum;
        }
    }
}

void swiglu_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct swiglu_args *a = args;
    (void)scratch;
    for (size_t i = (size_t)first * a->n; i < (size_t)(first + n) * a->n; i++)
        AT(float, a->out)[i] = act_apply(ACT_SILU, AT(const float, a->gate)[i]) * AT(const float, a->up)[i];
}

void ple_gate_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct ple_gate_args *a = args;
    uint32_t D = a->n_embd;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t s = item % a->n_stream;
        size_t at = (size_t)item * D;
        const float *R = AT(const float, a->residual) + at, *key = AT(const float, a->key) + at;
        const float *val = AT(const float, a->value) + (size_t)(item / a->n_stream) * D;
        const float *gk = AT(const float, a->norm_key) + (size_t)s * D, *gq = AT(const float, a->norm_query) + (size_t)s * D,
                    *gc = AT(const float, a->norm_conv) + (size_t)s * D;
        float *gv = AT(float, a->gv) + at, *z = AT(float, a->z) + at;
        float rk = rms_scale(key, D, a->eps), rq = rms_scale(R, D, a->eps);
        double sum = 0;
        for (uint32_t i = 0; i < D; i++)
            sum += (double)(key[i] * rk * gk[i]) * (double)(R[i] * rq * gq[i]);
        float c = (float)(sum / sqrt((double)D));
        /* sign(c) * sqrt(max(|c|, 1e-6)); sign(0) = 0 */
        float b = c == 0 ? 0 : copysignf(sqrtf(fmaxf(fabsf(c), 1e-6f)), c), gate = act_apply(ACT_SIGMOID, b);
        for (uint32_t i = 0; i < D; i++)
            gv[i] = gate * val[i];
        float rz = rms_scale(gv, D, a->eps);
        for (uint32_t i = 0; i < D; i++)
            z[i] = gv[i] * rz * gc[i];
    }
}

/* Channels first .. of the rows of one sequence, which begin at row0 */
static void convolve_ngrams(const struct ple_conv_args *a, const struct gpu_run *run, uint32_t first, uint32_t n)
{
    const float *z = AT(const float, a->z) + (size_t)run->first * a->width, *w = AT(const float, a->conv);
    float *win = AT(float, AT(const struct ple_block, a->block + run->blocks)->window), *R = AT(float, a->residual);
    uint32_t past = (a->taps - 1) * a->dilation;
    for (uint32_t t = 0; t < run->n; t++)
        for (uint32_t c = first; c < first + n; c++) {
            float sum = 0;
            for (uint32_t k = 0; k < a->taps; k++) {
                uint32_t back = (a->taps - 1 - k) * a->dilation;
                sum += w[c * a->taps + k] *
                       (t >= back ? z[(size_t)(t - back) * a->width + c] : win[(size_t)(past + t - back) * a->width + c]);
            }
            size_t at = (size_t)(run->first + t) * a->width + c;
            R[at] += AT(const float, a->gv)[at] + act_apply(ACT_SILU, sum);
        }
    for (uint32_t k = 0; k < past; k++) /* column k becomes the z of token n_tok - past + k */
        memmove(win + (size_t)k * a->width + first,
                (run->n + k >= past ? z + (size_t)(run->n + k - past) * a->width : win + (size_t)(run->n + k) * a->width) + first,
                n * sizeof *win);
}

void ple_conv_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct ple_conv_args *a = args;
    uint32_t each = (uint32_t)size_up(a->width, PLE_CONV_GRAIN), i = a->apart ? first / each : 0; /* a block of items lies in one run */
    struct gpu_run run = gpu_run_of(a->apart, i, a->n_tok);
    (void)scratch;
    first -= i * each;
    if (run.n && first < a->width)
        convolve_ngrams(a, &run, first, MIN(n, a->width - first));
}
