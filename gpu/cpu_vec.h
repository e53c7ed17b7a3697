/* cpu_vec.h - vectors for the twins: 16 floats, whatever the instruction set makes of them.
 *
 * GCC and clang lower these to one AVX-512 register, two AVX or four SSE ones. Sums have one order, a property of the row and
 * never of the batch: lane l takes elements l, l + 16, ... ascending, then one reduction tree. Files that include this are compiled with
 * contraction on, so a * b + c is one fused operation where the set has it. */
#ifndef HAYATE_GPU_CPU_VEC_H
#define HAYATE_GPU_CPU_VEC_H

#include "gpu/quant.h"

#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(64)));
enum { VEC = 16 };

static inline vf v_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void v_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf v_set(float x) { return (vf){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }; }

/* Halves folded onto each other until one is left: 16, 8, 4, 2 */
static inline float v_sum(vf v)
{
    typedef float v8 __attribute__((vector_size(32)));
    typedef float v4 __attribute__((vector_size(16)));
    v8 a[2];
    v4 b[2];
    memcpy(a, &v, sizeof a);
    a[0] += a[1];
    memcpy(b, a, sizeof b);
    b[0] += b[1];
    return (b[0][0] + b[0][2]) + (b[0][1] + b[0][3]);
}

/* a . b over n elements; a tail shorter than a vector is added last, ascending */
static inline float v_dot(const float *a, const float *b, uint32_t n)
{
    vf acc = v_set(0);
    uint32_t i = 0;
    for (; i + VEC <= n; i += VEC)
        acc += v_load(a + i) * v_load(b + i);
    float sum = v_sum(acc);
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* 16 signed bytes to f32 */
static inline vf v_from_i8(const int8_t *p)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
#elif defined(__AVX2__)
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256 half[2] = { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))) };
    vf v;
    memcpy(&v, half, sizeof v);
    return v;
#else
    typedef int8_t v16b __attribute__((vector_size(16)));
    v16b b;
    memcpy(&b, p, sizeof b);
    return __builtin_convertvector(b, vf);
#endif
}

/* n binary16 values to f32 */
static inline void v_from_half(float *dst, const uint16_t *src, uint32_t n)
{
    uint32_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i))));
#endif
    for (; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
}

/* y += s * x */
static inline void v_axpy(float *y, float s, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC <= n; i += VEC)
        v_store(y + i, v_load(y + i) + v_set(s) * v_load(x + i));
    for (; i < n; i++)
        y[i] += s * x[i];
}

/* out[i][j] = w[i] . x[j], i < NW, j < NX: each sum in the order of v_dot, so the shape of a tile never shows in a result */
#define DOT_TILE(NW, NX)                                                                                       \
    static inline void dot_tile_##NW##x##NX(const float *const *w, const float *const *x, uint32_t n, float (*out)[4]) \
    {                                                                                                          \
        vf acc[NW][NX];                                                                                        \
        for (int i = 0; i < NW; i++)                                                                           \
            for (int j = 0; j < NX; j++)                                                                       \
                acc[i][j] = v_set(0);                                                                          \
        uint32_t k = 0;                                                                                        \
        for (; k + VEC <= n; k += VEC) {                                                                       \
            vf xv[NX];                                                                                         \
            for (int j = 0; j < NX; j++)                                                                       \
                xv[j] = v_load(x[j] + k);                                                                      \
            for (int i = 0; i < NW; i++) {                                                                     \
                vf wv = v_load(w[i] + k);                                                                      \
                for (int j = 0; j < NX; j++)                                                                   \
                    acc[i][j] += wv * xv[j];                                                                   \
            }                                                                                                  \
        }                                                                                                      \
        for (int i = 0; i < NW; i++)                                                                           \
            for (int j = 0; j < NX; j++) {                                                                     \
                float sum = v_sum(acc[i][j]);                                                                  \
                for (uint32_t q = k; q < n; q++)                                                               \
                    sum += w[i][q] * x[j][q];                                                                  \
                out[i][j] = sum;                                                                               \
            }                                                                                                  \
    }
DOT_TILE(4, 4)
DOT_TILE(4, 1)
DOT_TILE(1, 4)
DOT_TILE(1, 1)
#undef DOT_TILE

/* out[i][j] = w[i] . x[j] for up to 4 x 4 rows */
static inline void dot_tile(const float *const *w, uint32_t nw, const float *const *x, uint32_t nx, uint32_t n, float (*out)[4])
{
    if (nw == 4 && nx == 4) {
        dot_tile_4x4(w, x, n, out);
    } else if (nw == 4) {
        for (uint32_t j = 0; j < nx; j++) {
            float col[4][4];
            dot_tile_4x1(w, x + j, n, col);
            for (int i = 0; i < 4; i++)
                out[i][j] = col[i][0];
        }
    } else {
        for (uint32_t i = 0; i < nw; i++) {
            if (nx == 4)
                dot_tile_1x4(w + i, x, n, out + i);
            else
                for (uint32_t j = 0; j < nx; j++) {
                    float one[1][4];
                    dot_tile_1x1(w + i, x + j, n, one);
                    out[i][j] = one[0][0];
                }
        }
    }
}

#endif
