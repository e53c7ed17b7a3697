/* gdn_ref.c - the Gated-DeltaNet rows in plain C, as spec page "model" section 3 writes them. */
#include "gdn/gdn.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Spec 3.2. The window holds raw values, so the taps reach back over step boundaries. */
void gdn_conv_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_conv_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t past = b->taps - 1, width = b->width;
    const float *raw = AT(const float, a->raw), *w = AT(const float, b->conv);
    float *out = AT(float, a->out), *win = AT(float, b->window);
    (void)scratch;
    for (uint32_t c = first; c < first + n; c++) {
        for (uint32_t t = 0; t < a->n_tok; t++) {
            float sum = 0;
            for (uint32_t k = 0; k < b->taps; k++) { /* tap k reads the value past - k tokens ago */
                uint32_t back = past - k;
                float x = t >= back ? raw[(size_t)(t - back) * width + c] : win[(size_t)(t + k) * width + c];
                sum += w[c * b->taps + k] * x;
            }
            out[(size_t)t * width + c] = sum / (1.0f + expf(-sum));
        }
        for (uint32_t k = 0; k < past; k++) /* column k becomes the value of token n_tok - past + k */
            win[(size_t)k * width + c] = a->n_tok + k >= past ? raw[(size_t)(a->n_tok + k - past) * width + c]
                                                              : win[(size_t)(a->n_tok + k) * width + c];
    }
}

static float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/* q and k of the key head that value head h is paired with (spec 3.4: h % n_k), normalised as in spec 3.3. */
static void load_qk(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, float *q, float *k)
{
    const float *row = AT(const float, a->qkv) + (size_t)t * b->width, *qr = row + (size_t)(h % b->n_k) * b->dim,
                *kr = qr + (size_t)b->n_k * b->dim;
    double qq = 0, kk = 0;
    for (uint32_t i = 0; i < b->dim; i++) {
        qq += (double)qr[i] * (double)qr[i];
        kk += (double)kr[i] * (double)kr[i];
    }
    /* 1e-6 is added to the sum of squares, not to the mean */
    float qs = 1.0f / sqrtf((float)qq + 1e-6f) / sqrtf((float)b->dim), ks = 1.0f / sqrtf((float)kk + 1e-6f);
    for (uint32_t i = 0; i < b->dim; i++) {
        q[i] = qr[i] * qs;
        k[i] = kr[i] * ks;
    }
}

static const float *load_v(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    return AT(const float, a->qkv) + (size_t)t * b->width + (2 * (size_t)b->n_k + h) * b->dim;
}

static float log_decay(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    return AT(const float, b->a)[h] * softplus(AT(const float, a->alpha)[(size_t)t * b->n_v + h] + AT(const float, b->dt)[h]);
}

/* Spec 3.7 */
static void store_out(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, const float *o)
{
    size_t at = ((size_t)t * b->n_v + h) * b->dim;
    double ss = 0;
    for (uint32_t i = 0; i < b->dim; i++)
        ss += (double)o[i] * (double)o[i];
    float r = 1.0f / sqrtf((float)(ss / b->dim) + b->eps);
    for (uint32_t i = 0; i < b->dim; i++)
        AT(float, a->out)[at + i] = o[i] * r * AT(const float, b->norm)[i] * AT(const float, a->gate)[at + i];
}

/* Spec 3.5, token by token */
void gdn_step_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct gdn_mix_args *a = args;
    const struct gdn_block *b = AT(const struct gdn_block, a->block);
    uint32_t N = b->dim;
    assert(scratch->n >= 4 * (size_t)N);
    float *q = scratch->f, *k = q + N, *del = k + N, *o = del + N;
    for (uint32_t h = first; h < first + n; h++) {
        float *S = AT(float, b->state) + (size_t)h * N * N;
        for (uint32_t t = 0; t < a->n_tok; t++) {
            load_qk(a, b, h, t, q, k);
            const float *v = load_v(a, b, h, t);
            float dec = expf(log_decay(a, b, h, t)), beta = AT(const float, a->beta)[(size_t)t * b->n_v + h];
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
            store_out(a, b, h, t, o);
        }
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
                G[i] = (i ? G[i - 1] : 0) + log_decay(a, b, h, t0 + i);
            }
            for (uint32_t i = 0; i < C; i++) {
                const float *v = load_v(a, b, h, t0 + i);
                float beta = AT(const float, a->beta)[(size_t)(t0 + i) * b->n_v + h], e = expf(G[i]);
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
                store_out(a, b, h, t0 + i, o + i * N);
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
