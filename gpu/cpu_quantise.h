/* cpu_quantise.h - rows of f32 to integers, 16 columns at a time; the same bits as quantise_ref. AVX-512 only. */
#ifndef HAYATE_GPU_CPU_QUANTISE_H
#define HAYATE_GPU_CPU_QUANTISE_H

#include "gpu/cpu_vec.h"
#include "gpu/int_rows.h"

#include <math.h>

/* 16 values as integers, their two bytes in turn for every four; returns -128 times their sum */
static inline int32_t quantise_16(const float *x, __m512 inverse, uint8_t *to)
{
    __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
    __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    __m128i h = _mm512_cvtepi32_epi8(high), l = _mm512_cvtepi32_epi8(q); /* the low byte of q, as a signed number, is q - 256 * high */
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi32(h, l));
    _mm_storeu_si128((__m128i *)(void *)(to + 16), _mm_unpackhi_epi32(h, l));
    return -128 * _mm512_reduce_add_epi32(q);
}

static void quantise_row(const float *x, uint32_t n, uint8_t *row)
{
    float *scale = (float *)(void *)row;
    int32_t *bias16 = (int32_t *)(void *)(row + int_row_bias(n)), *bias32 = bias16 + n / 16;
    uint8_t *v = row + int_row_values(n), *end = row + (size_t)n / 8 * 4;
    memset(end, 0, (size_t)(v - end)); /* padding */
    memset(v + 2 * (size_t)n, 0, (size_t)(row + int_row_bytes(n) - v) - 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i += 32) {
        const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
        __m512i a = _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude), b = _mm512_and_si512(_mm512_loadu_si512(x + i + 16), magnitude);
        int32_t bits = _mm512_reduce_max_epi32(_mm512_max_epi32(a, b)); /* of magnitudes: NaN is above infinity, and that above all numbers */
        float most;
        memcpy(&most, &bits, sizeof most);
        bool finite = bits < 0x7f800000;
        scale[i / 32] = finite ? most / INT_ROWS_MAX : NAN;
        if (finite) {
            __m512 inverse = _mm512_set1_ps(most >= INT_ROWS_LEAST ? INT_ROWS_MAX / most : 0);
            bias16[i / 16] = quantise_16(x + i, inverse, v + 2 * (size_t)i);
            bias16[i / 16 + 1] = quantise_16(x + i + 16, inverse, v + 2 * (size_t)i + 32);
        } else {
            memset(v + 2 * (size_t)i, 0, 64);
            bias16[i / 16] = bias16[i / 16 + 1] = 0;
        }
        bias32[i / 32] = bias16[i / 16] + bias16[i / 16 + 1];
    }
}

#endif
