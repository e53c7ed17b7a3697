/* gdn_ref.c - the Gated-DeltaNet rows in plain C, as spec page "model" section 3 writes them. */
#include "gdn/gdn.h"
#include "gdn/gdn_math.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Spec 3.2, for channels of the rows of a run. The window holds raw values, so the taps reach back over step boundaries. */
static void convolve(const struct gdn_conv_args *a, const struct gpu_run *run, uint32_t first, uint32_t n)
{
    const struct gdn_block *b = AT(const struct gdn_block, a->block + run->blocks);
    uint32_t past = b->taps - 1, width = b->width, n_tok = run->n;
    const float *raw = AT(const float, a->raw) + (size_t)run->first * width, *w = AT(const float, b->conv);
    float *out = AT(float, a->out) + (size_t)run->first * width, *win = AT(float, b->window);
    for (uint32_t c = first; c < first + n; c++) {
        for (uint32_t t = 0; t < n_tok; t++) {
            float sum = 0;
            for (uint32_t k = 0; k < b->taps; k++) { /* tap k reads the value past - k tokens ago */
                uint32_t back = past - k;
                float x = t >= back ? raw[(size_t)(t - back) * width + c] : win[(size_t)(t + k) * width + c];
                sum += w[c * b->taps + k] * x;
            }
            out[(size_t)t * width + c] = sum / (1.0f + expf(-sum));
        }
        for (uint32_t k = 0; k < past && !a->stay; k++) /* column k becomes the value of token n_tok - past + k */
            win[(size_t)k * width + c] = n_tok + k >= past ? raw[(size_t)(n_tok + k - past) * width + c] : win[(size_t)(n_tok + k) * width + c];
    }
}

void gdn_conv_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_conv_args *a = args;
    uint32_t width = AT(const struct gdn_block, a->block)->width, each = (uint32_t)size_up(width, GDN_CONV_GRAIN), i = a->runs ? first / each : 0;
    struct gpu_run run = gpu_run_of(a->runs, i, a->n_tok);
    (void)scratch;
    first -= i * each; /* a block of items lies in one run */
    if (run.n && first < width)
        convolve(a, &run, first, MIN(n, width - first));
}

static float sum_squares(const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)sum;
}

static void load_qk(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, float *q, float *k)
{
    const float *qr = gdn_q_row(a, b, h, t), *kr = qr + (size_t)b->n_k * b->dim;
    float qs = gdn_q_scale(b, sum_squares(qr, b->dim)), ks = gdn_k_scale(sum_squares(kr, b->dim));
    for (uint32_t i = 0; i < b->dim; i++) {
        q[i] = qr[i] * qs;
        k[i] = kr[i] * ks;
    }
}

/* Spec 3.5, row t of head h; returns the decay. work [2, N]: q and o */
static float step_row(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, float *S, float *k, float *del, float *work)
{
    uint32_t N = b->dim;
    float *q = work, *o = work + N;
    load_qk(a, b, h, t, q, k);
    const float *v = gdn_v_row(a, b, h, t);
    float dec = expf(gdn_log_decay(a, b, h, t)), beta = gdn_beta(a, b, h, t);
    for (uint32_t j = 0; j < N; j++) {
        double r = 0;
        for (uint32_t i = 0; i < N; i++) {
            S[i * N + j] *= dec;
            r += (double)k[i] * (double)S[i * N + j];
        }
        del[j] = beta * (v[j] - (float)r);
    }
    for (uint32_t j = 0; j < N; j++) {
        double sum = 0;
        for (uint32_t i = 0; i < N; i++) {
            S[i * N + j] += k[i] * del[j];
            sum += (double)q[i] * (double)S[i * N + j];
        }
        o[j] = (float)sum;
    }
    gdn_store(a, b, h, t, o, sum_squares(o, N));
    return dec;
}

void gdn_step_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
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

void gdn_verify_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_verify_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->mix.block);
    uint32_t N = b->dim;
    assert(scratch->n >= (size_t)N * N + 2 * N);
    for (uint32_t item = first; item < first + n; item++) {
        struct gpu_run run = gpu_run_of(a->mix.apart, item / b->n_v, a->mix.n_tok); /* run 0 unless there are several */
        uint32_t h = item % b->n_v, n_fold = a->mix.apart ? run.fold : *AT(const uint32_t, a->fold);
        float *records = AT(float, a->k + run.kept), *dels = AT(float, a->del + run.kept), *decay = AT(float, a->decay + run.kept), *copy = scratch->f;
        if (a->mix.apart && run.n == 0)
            continue;
        float *S = AT(float, AT(const struct gdn_block, a->mix.block + run.blocks)->state) + (size_t)h * N * N;
        for (uint32_t t = 0; t < n_fold; t++) {
            const float *k = records + gdn_record_at(b, h, t), *del = dels + gdn_record_at(b, h, t);
            float dec = decay[(size_t)t * b->n_v + h];
            for (uint32_t i = 0; i < N; i++)
                for (uint32_t j = 0; j < N; j++) {
                    S[i * N + j] *= dec;
                    S[i * N + j] += k[i] * del[j];
                }
        }
        memcpy(copy, S, (size_t)N * N * sizeof *S);
        for (uint32_t t = 0; t < run.n; t++)
            decay[(size_t)t * b->n_v + h] = step_row(&a->mix, b, h, run.first + t, copy, records + gdn_record_at(b, h, t), dels + gdn_record_at(b, h, t),
                                                     copy + (size_t)N * N);
    }
}

/* Spec 3.6, chunk by chunk: del from a triangular solve, then outputs and the state after the chunk */
void gdn_chunk_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_mix_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t N = b->dim;
    size_t block = (size_t)GDN_CHUNK * N;
    assert(scratch->n >= 4 * block + GDN_CHUNK);
    float *q = scratch->f, *k = q + block, *del = k + block, *o = del + block, *G = o + block;
    for (uint32_t h = first; h < first + n; h++) {
        float *S = AT(float, b->state) + (size_t)h * N * N;
        for (uint32_t t0 = 0; t0 < a->n_tok; t0 += GDN_CHUNK) {
            uint32_t C = MIN((uint32_t)GDN_CHUNK, a->n_tok - t0);
            for (uint32_t i = 0; i < C; i++) {
                load_qk(a, b, h, t0 + i, q + i * N, k + i * N);
                G[i] = (i ? G[i - 1] : 0) + gdn_log_decay(a, b, h, t0 + i);
            }
            for (uint32_t i = 0; i < C; i++) {
                const float *v = gdn_v_row(a, b, h, t0 + i);
                float beta = gdn_beta(a, b, h, t0 + i), e = expf(G[i]);
                for (uint32_t j = 0; j < N; j++) {
                    double r = 0;
                    for (uint32_t m = 0; m < N; m++)
                        r += (double)k[i * N + m] * (double)S[m * N + j];
                    double d = (double)v[j] - (double)e * r;
                    for (uint32_t l = 0; l < i; l++) {
                        double kk = 0;
                        for (uint32_t m = 0; m < N; m++)
                            kk += (double)k[i * N + m] * (double)k[l * N + m];
                        d -= kk * (double)expf(G[i] - G[l]) * (double)del[l * N + j];
                    }
                    del[i * N + j] = beta * (float)d;
                }
                for (uint32_t j = 0; j < N; j++) {
                    double sum = 0;
                    for (uint32_t m = 0; m < N; m++)
                        sum += (double)q[i * N + m] * (double)S[m * N + j];
                    sum *= (double)e;
                    for (uint32_t l = 0; l <= i; l++) {
                        double qk = 0;
                        for (uint32_t m = 0; m < N; m++)
                            qk += (double)q[i * N + m] * (double)k[l * N + m];
                        sum += qk * (double)expf(G[i] - G[l]) * (double)del[l * N + j];
                    }
                    o[i * N + j] = (float)sum;
                }
                gdn_store(a, b, h, t0 + i, o + i * N, sum_squares(o + i * N, N));
            }
            for (uint32_t m = 0; m < N; m++)
                for (uint32_t j = 0; j < N; j++) {
                    double s = (double)expf(G[C - 1]) * (double)S[m * N + j];
                    for (uint32_t l = 0; l < C; l++)
                        s += (double)expf(G[C - 1] - G[l]) * (double)k[l * N + m] * (double)del[l * N + j];
                    S[m * N + j] = (float)s;
                }
        }
    }
}
