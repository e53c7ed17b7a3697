/* model_cpu_fast.c - vectorised twins of the rows in model_kernels.def; compiled once per instruction set (ISA). */
#include "gpu/cpu_act.h"
#include "gpu/cpu_decode.h"
#include "gpu/cpu_vec.h"
#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"
#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include "model/cpu_moe_int.h"
#endif

#include <assert.h>
#include <math.h>

static void hc_norm(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_norm_args *a = args;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        const float *x = AT(const float, a->residual) + (size_t)item * a->n_embd;
        const float *gain = AT(const float, a->gain) + (size_t)(item % a->n_stream) * a->n_embd;
        float *y = AT(float, a->out) + (size_t)item * a->n_embd, r = 1.0f / sqrtf(v_dot(x, x, a->n_embd) / (float)a->n_embd + a->eps);
        for (uint32_t i = 0; i < a->n_embd; i++)
            y[i] = x[i] * r * gain[i];
    }
}

static void hc_mean(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct hc_mean_args *a = args;
    uint32_t spans = (a->n_embd + HC_SPAN - 1) / HC_SPAN;
    if (a->n_embd % VEC) {
        hc_mean_ref(args, first, n, scratch);
        return;
    }
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / spans, from = item % spans * HC_SPAN;
        size_t at = (size_t)t * a->n_stream * a->n_embd;
        for (uint32_t i = from; i < MIN(from + HC_SPAN, a->n_embd); i += VEC) {
            vf sum = v_set(0);
            for (uint32_t s = 0; s < a->n_stream; s++)
                sum += v_load(AT(const float, a->gate) + at + (size_t)s * a->n_embd + i) * v_load(AT(const float, a->norm) + at + (size_t)s * a->n_embd + i);
            v_store(AT(float, a->out) + (size_t)t * a->n_embd + i, sum / v_set((float)a->n_stream));
        }
    }
}

/* z of `back` tokens before token t: in the rows, or in the window of `past` */
static inline const float *ngram_row(const struct ple_conv_args *a, const float *z, const float *window, uint32_t past, uint32_t t, uint32_t back)
{
    return t >= back ? z + (size_t)(t - back) * a->width : window + (size_t)(past + t - back) * a->width;
}

static void ple_conv(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    enum { TAPS = 8 };
    const struct ple_conv_args *a = args;
    if (a->taps > TAPS || a->width % VEC || a->apart) { /* runs: as a device has them */
        ple_conv_ref(args, first, n, scratch);
        return;
    }
    const float *z = AT(const float, a->z), *w = AT(const float, a->conv), *gv = AT(const float, a->gv);
    float *window = AT(float, AT(const struct ple_block, a->block)->window), *residual = AT(float, a->residual);
    uint32_t past = (a->taps - 1) * a->dilation;
    for (uint32_t c = first; c < first + n; c += VEC) {
        vf tap[TAPS];
        for (uint32_t k = 0; k < a->taps; k++)
            for (uint32_t i = 0; i < VEC; i++)
                tap[k][i] = w[(c + i) * a->taps + k];
        for (uint32_t t = 0; t < a->n_tok; t++) {
            vf sum = v_set(0);
            for (uint32_t k = 0; k < a->taps; k++)
                sum += tap[k] * v_load(ngram_row(a, z, window, past, t, (a->taps - 1 - k) * a->dilation) + c);
            size_t at = (size_t)t * a->width + c;
            v_store(residual + at, v_load(residual + at) + (v_load(gv + at) + v_silu(sum)));
        }
    }
    for (uint32_t k = 0; k < past; k++) /* column k becomes the z of token n_tok - past + k */
        memmove(window + (size_t)k * a->width + first, ngram_row(a, z, window, past, a->n_tok + k, past) + first, n * sizeof *window);
}

/* The same rows r .. r + nr - 1 of gate and up, decoded side by side */
static void moe_gate_up(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_gate_up_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    uint32_t pitch = (uint32_t)size_up(b->ff, MOE_GRAIN), active = first / pitch, r0 = first % pitch, end = MIN(r0 + n, b->ff);
    if (active >= AT(const struct moe_group, a->group)->n_active)
        return;
    const uint32_t *start = AT(const uint32_t, a->start) + active, *row = AT(const uint32_t, a->row);
    uint64_t base = (uint64_t)AT(const uint32_t, a->expert)[active] * b->gate.rows_per_expert;
    size_t wide = size_up(b->n_embd, VEC);
    assert(scratch->n >= 8 * wide);
    for (uint32_t r = r0; r < end; r += 4) {
        uint32_t nr = MIN(4u, end - r);
        const float *gate[4] = { 0 }, *up[4] = { 0 };
        for (uint32_t i = 0; i < nr; i++) {
            mat_row(&b->gate, base + r + i, scratch->f + i * wide);
            mat_row(&b->up, base + r + i, scratch->f + (4 + i) * wide);
            gate[i] = scratch->f + i * wide;
            up[i] = scratch->f + (4 + i) * wide;
        }
        for (uint32_t e = start[0]; e < start[1]; e += 4) {
            uint32_t ne = MIN(4u, start[1] - e);
            const float *u[4] = { 0 };
            for (uint32_t j = 0; j < ne; j++)
                u[j] = AT(const float, a->u) + (size_t)row[e + j] * b->n_embd;
            float g[4][4], v[4][4];
            dot_tile(gate, nr, u, ne, b->n_embd, g);
            dot_tile(up, nr, u, ne, b->n_embd, v);
            for (uint32_t j = 0; j < ne; j++)
                for (uint32_t i = 0; i < nr; i++)
                    AT(float, a->h)[(size_t)(e + j) * b->ff + r + i] = act_apply(ACT_SILU, g[i][j]) * v[i][j];
        }
    }
}

/* y[row of entry][r ..] += share * (w . x), for entries from .. to whose rows of x lie x_stride apart */
static void down_rows(const float *const *w, uint32_t nr, uint32_t n_in, const float *x, uint32_t from, uint32_t to, const uint32_t *row,
                      const float *share, float *y, uint32_t n_embd)
{
    for (uint32_t e = from; e < to; e += 4) {
        uint32_t ne = MIN(4u, to - e);
        const float *xe[4] = { 0 };
        for (uint32_t j = 0; j < ne; j++)
            xe[j] = x + (size_t)(e + j) * n_in;
        float out[4][4];
        dot_tile(w, nr, xe, ne, n_in, out);
        for (uint32_t j = 0; j < ne; j++) {
            float *yr = y + (size_t)(row ? row[e + j] : e + j) * n_embd;
            for (uint32_t i = 0; i < nr; i++)
                yr[i] += share[e + j] * out[i][j];
        }
    }
}

static void moe_down(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_down_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->block);
    const uint32_t *start = AT(const uint32_t, a->start), *row = AT(const uint32_t, a->row);
    uint32_t n_active = AT(const struct moe_group, a->group)->n_active;
    size_t wide = size_up(MAX(b->ff, b->shared_ff), VEC);
    assert(scratch->n >= 4 * wide);
    for (uint32_t r = first; r < first + n; r += 4) {
        uint32_t nr = MIN(4u, first + n - r);
        float *y = AT(float, a->y) + r;
        const float *w[4] = { 0 };
        for (uint32_t i = 0; i < nr; i++)
            w[i] = scratch->f + i * wide;
        for (uint32_t t = 0; t < a->n_tok; t++)
            memset(y + (size_t)t * b->n_embd, 0, nr * sizeof *y);
        for (uint32_t x = 0; x < n_active; x++) {
            for (uint32_t i = 0; i < nr; i++)
                mat_row(&b->down, (uint64_t)AT(const uint32_t, a->expert)[x] * b->n_embd + r + i, scratch->f + i * wide);
            down_rows(w, nr, b->ff, AT(const float, a->h), start[x], start[x + 1], row, AT(const float, a->share), y, b->n_embd);
        }
        for (uint32_t i = 0; i < nr; i++)
            mat_row(&b->shared_down, r + i, scratch->f + i * wide);
        down_rows(w, nr, b->shared_ff, AT(const float, a->shared_h), 0, a->n_tok, NULL, AT(const float, a->shared_gate), y, b->n_embd);
    }
}

const gpu_row_fn ISA_NAME(model_fast)[MODEL_K_COUNT] = {
    [K_hc_norm] = hc_norm,
    [K_hc_mean] = hc_mean,
    [K_ple_conv] = ple_conv,
    [K_moe_gate_up] = moe_gate_up,
    [K_moe_down] = moe_down,
#if defined(__AVX512VNNI__) || defined(__AVX2__)
    [K_moe_gate_up_int] = moe_gate_up_int,
    [K_moe_down_int] = moe_down_int,
#endif
};
