/* gdn_cpu_fast.c - vectorised twins of the Gated-DeltaNet rows; compiled once per instruction set (ISA). */
#include "gdn/gdn.h"
#include "gdn/gdn_math.h"
#include "gpu/cpu_vec.h"

#include <assert.h>
#include <math.h>

static void conv(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_conv_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t past = b->taps - 1, width = b->width;
    const float *raw = AT(const float, a->raw), *w = AT(const float, b->conv);
    float *out = AT(float, a->out), *win = AT(float, b->window);
    if (b->taps != 4 || n > scratch->n / 4 || a->runs) { /* runs: as a device has them */
        gdn_conv_ref(args, first, n, scratch);
        return;
    }
    float *tap = scratch->f; /* [4][n]: taps with the channel as the contiguous index */
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t k = 0; k < 4; k++)
            tap[k * n + c] = w[(first + c) * 4 + k];
    for (uint32_t t = 0; t < a->n_tok; t++) {
        const float *x[4];
        for (uint32_t k = 0; k < 4; k++)
            x[k] = t + k >= past ? raw + (size_t)(t + k - past) * width + first : win + (size_t)(t + k) * width + first;
        float *y = out + (size_t)t * width + first;
        for (uint32_t c = 0; c < n; c++)
            y[c] = tap[c] * x[0][c] + tap[n + c] * x[1][c] + tap[2 * n + c] * x[2][c] + tap[3 * n + c] * x[3][c];
        for (uint32_t c = 0; c < n; c++)
            y[c] = y[c] / (1.0f + expf(-y[c]));
    }
    for (uint32_t k = 0; k < past && !a->stay; k++) {
        const float *x = a->n_tok + k >= past ? raw + (size_t)(a->n_tok + k - past) * width : win + (size_t)(a->n_tok + k) * width;
        memmove(win + (size_t)k * width + first, x + first, n * sizeof *x);
    }
}

static void load_qk(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, float *q, float *k)
{
    const float *qr = gdn_q_row(a, b, h, t), *kr = qr + (size_t)b->n_k * b->dim;
    float qs = gdn_q_scale(b, v_dot(qr, qr, b->dim)), ks = gdn_k_scale(v_dot(kr, kr, b->dim));
    for (uint32_t i = 0; i < b->dim; i++) {
        q[i] = qr[i] * qs;
        k[i] = kr[i] * ks;
    }
}

/* y[j] = sum_i x[i] * S[i][j] for VEC * 4 columns at a time, so that the sums stay in registers */
static void row_times(float *y, const float *x, const float *S, uint32_t N)
{
    uint32_t j = 0;
    for (; j + 4 * VEC <= N; j += 4 * VEC) {
        vf acc[4] = { v_set(0), v_set(0), v_set(0), v_set(0) };
        for (uint32_t i = 0; i < N; i++)
            for (int c = 0; c < 4; c++)
                acc[c] += v_set(x[i]) * v_load(S + (size_t)i * N + j + c * VEC);
        for (int c = 0; c < 4; c++)
            v_store(y + j + c * VEC, acc[c]);
    }
    for (; j + VEC <= N; j += VEC) {
        vf acc = v_set(0);
        for (uint32_t i = 0; i < N; i++)
            acc += v_set(x[i]) * v_load(S + (size_t)i * N + j);
        v_store(y + j, acc);
    }
    for (; j < N; j++) {
        float sum = 0;
        for (uint32_t i = 0; i < N; i++)
            sum += x[i] * S[(size_t)i * N + j];
        y[j] = sum;
    }
}

/* S = dec * S + k del^T. One function for the live row and for its replay, so that the compiler cannot round them apart. */
static void __attribute__((noinline)) advance(float *restrict S, uint32_t N, float dec, const float *restrict k, const float *restrict del)
{
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < N; j++)
            S[(size_t)i * N + j] = dec * S[(size_t)i * N + j] + k[i] * del[j];
}

/* The fused single-pass form of spec 3.5: r = dec * k^T S, o = dec * q^T S + (q.k) del, S = dec * S + k del^T; returns dec. work [2, N]: q and o */
static float step_row(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, float *S, float *k, float *del, float *work)
{
    uint32_t N = b->dim;
    float *q = work, *o = work + N;
    load_qk(a, b, h, t, q, k);
    const float *v = gdn_v_row(a, b, h, t);
    float dec = expf(gdn_log_decay(a, b, h, t)), beta = gdn_beta(a, b, h, t);
    row_times(del, k, S, N);
    row_times(o, q, S, N);
    float qk = v_dot(q, k, N);
    for (uint32_t j = 0; j < N; j++) {
        del[j] = beta * (v[j] - dec * del[j]);
        o[j] = dec * o[j] + qk * del[j];
    }
    advance(S, N, dec, k, del);
    gdn_store(a, b, h, t, o, v_dot(o, o, N));
    return dec;
}

static void step(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_mix_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t N = b->dim;
    assert(scratch->n >= 4 * (size_t)N);
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t row = item / b->n_v, h = item % b->n_v; /* row 0 unless rows are apart */
        float *state = AT(float, AT(const struct gdn_block, gpu_own_block(a->block, a->apart, row))->state);
        for (uint32_t t = 0; t < a->n_tok; t++)
            step_row(a, b, h, row + t, state + (size_t)h * N * N, scratch->f, scratch->f + N, scratch->f + 2 * N);
    }
}

static void verify(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_verify_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->mix.block);
    uint32_t N = b->dim, n_fold;
    assert(scratch->n >= (size_t)N * N + 2 * N);
    if (a->mix.apart) { /* as a device has them */
        gdn_verify_ref(args, first, n, scratch);
        return;
    }
    n_fold = *AT(const uint32_t, a->fold);
    for (uint32_t h = first; h < first + n; h++) {
        float *S = AT(float, b->state) + (size_t)h * N * N, *copy = scratch->f;
        for (uint32_t t = 0; t < n_fold; t++)
            advance(S, N, AT(const float, a->decay)[(size_t)t * b->n_v + h], AT(const float, a->k) + gdn_record_at(b, h, t),
                    AT(const float, a->del) + gdn_record_at(b, h, t));
        if (a->mix.n_tok)
            memcpy(copy, S, (size_t)N * N * sizeof *S);
        for (uint32_t t = 0; t < a->mix.n_tok; t++)
            AT(float, a->decay)[(size_t)t * b->n_v + h] = step_row(&a->mix, b, h, t, copy, AT(float, a->k) + gdn_record_at(b, h, t),
                                                                   AT(float, a->del) + gdn_record_at(b, h, t), copy + (size_t)N * N);
    }
}

static void chunk(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_mix_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t N = b->dim;
    size_t block = (size_t)GDN_CHUNK * N;
    assert(scratch->n >= 4 * block + 2 * GDN_CHUNK);
    float *q = scratch->f, *k = q + block, *del = k + block, *o = del + block, *G = o + block, *w = G + GDN_CHUNK;
    for (uint32_t h = first; h < first + n; h++) {
        float *S = AT(float, b->state) + (size_t)h * N * N;
        for (uint32_t t0 = 0; t0 < a->n_tok; t0 += GDN_CHUNK) {
            uint32_t C = MIN((uint32_t)GDN_CHUNK, a->n_tok - t0);
            for (uint32_t i = 0; i < C; i++) {
                load_qk(a, b, h, t0 + i, q + i * N, k + i * N);
                G[i] = (i ? G[i - 1] : 0) + gdn_log_decay(a, b, h, t0 + i);
                row_times(del + i * N, k + i * N, S, N);
                row_times(o + i * N, q + i * N, S, N);
            }
            for (uint32_t i = 0; i < C; i++) {
                const float *v = gdn_v_row(a, b, h, t0 + i);
                float beta = gdn_beta(a, b, h, t0 + i), e = expf(G[i]);
                float *di = del + i * N, *oi = o + i * N;
                for (uint32_t j = 0; j < N; j++) {
                    di[j] = v[j] - e * di[j];
                    oi[j] *= e;
                }
                for (uint32_t l = 0; l < i; l++)
                    w[l] = expf(G[i] - G[l]);
                w[i] = 1.0f;
                for (uint32_t l = 0; l < i; l++)
                    v_axpy(di, -w[l] * v_dot(k + i * N, k + l * N, N), del + l * N, N);
                for (uint32_t j = 0; j < N; j++)
                    di[j] *= beta;
                for (uint32_t l = 0; l <= i; l++)
                    v_axpy(oi, w[l] * v_dot(q + i * N, k + l * N, N), del + l * N, N);
                gdn_store(a, b, h, t0 + i, oi, v_dot(oi, oi, N));
            }
            float e = expf(G[C - 1]);
            for (uint32_t l = 0; l < C; l++)
                w[l] = expf(G[C - 1] - G[l]);
            for (uint32_t i = 0; i < N; i++) {
                float *row = S + (size_t)i * N;
                for (uint32_t j = 0; j < N; j++)
                    row[j] *= e;
                for (uint32_t l = 0; l < C; l++)
                    v_axpy(row, w[l] * k[l * N + i], del + l * N, N);
            }
        }
    }
}

const gpu_row_fn ISA_NAME(gdn_fast)[GDN_K_COUNT] = { [K_gdn_conv] = conv, [K_gdn_step] = step, [K_gdn_chunk] = chunk, [K_gdn_verify] = verify };
