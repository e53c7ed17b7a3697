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
    __m512i most_bits = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16)
        most_bits = _mm512_max_epi32(most_bits, _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi32(0x7fffffff)));
    int32_t bits = _mm512_reduce_max_epi32(most_bits);
    float most, scale = NAN, inverse = 0;
    memcpy(&most, &bits, sizeof most);
    memset(row, 0, int_row_values(n));
    memset(row + int_row_bytes(n) - 64, 0, 64); /* behind the values */
    uint8_t *v = row + int_row_values(n);
    if (bits < 0x7f800000) {
        scale = most / INT_ROWS_MAX;
        inverse = most >= INT_ROWS_LEAST ? INT_ROWS_MAX / most : 0;
    }
    memcpy(row, &scale, sizeof scale);
    if (bits >= 0x7f800000) {
        memset(v, 0, 2 * (size_t)n);
        return;
    }
    int32_t *bias16 = (int32_t *)(void *)(row + int_row_bias()), *bias32 = bias16 + n / 16;
    for (uint32_t i = 0; i < n; i += 32) {
        bias16[i / 16] = quantise_16(x + i, _mm512_set1_ps(inverse), v + 2 * (size_t)i);
        bias16[i / 16 + 1] = quantise_16(x + i + 16, _mm512_set1_ps(inverse), v + 2 * (size_t)i + 32);
        bias32[i / 32] = bias16[i / 16] + bias16[i / 16 + 1];
    }
}

#endif
