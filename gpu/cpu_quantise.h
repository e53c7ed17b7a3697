/* cpu_quantise.h - rows of f32 to integers, 16 columns at a time; the same bits as quantise_ref. AVX-512 or AVX2. */
#ifndef HAYATE_GPU_CPU_QUANTISE_H
#define HAYATE_GPU_CPU_QUANTISE_H

#include "gpu/cpu_vec.h"
#include "gpu/int_rows.h"

#include <math.h>

#if defined(__AVX512F__)
/* 16 values as integers, their two bytes in turn for every four; returns -128 times their sum */
static inline int32_t quantise_16(const float *x, float inverse, uint8_t *to)
{
    __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse)));
    __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    __m128i h = _mm512_cvtepi32_epi8(high), l = _mm512_cvtepi32_epi8(q); /* the low byte of q, as a signed number, is q - 256 * high */
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi32(h, l));
    _mm_storeu_si128((__m128i *)(void *)(to + 16), _mm_unpackhi_epi32(h, l));
    return -128 * _mm512_reduce_add_epi32(q);
}

/* Bits of the largest magnitude of 32 values: NaN is above infinity, and that above all numbers */
static inline int32_t most_of_32(const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), magnitude), b = _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude);
    return _mm512_reduce_max_epi32(_mm512_max_epi32(a, b));
}
#else
/* Numbers of 8 bits from two times eight of 32 */
static inline __m128i narrow_16(__m256i a, __m256i b)
{
    __m128i a16 = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)), b16 = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    return _mm_packs_epi16(a16, b16);
}
static inline int32_t quantise_16(const float *x, float inverse, uint8_t *to)
{
    __m256i q[2], high[2], sum;
    for (int i = 0; i < 2; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
        high[i] = _mm256_srai_epi32(_mm256_add_epi32(q[i], _mm256_set1_epi32(128)), 8);
    }
    sum = _mm256_add_epi32(q[0], q[1]);
    __m128i h = narrow_16(high[0], high[1]);
    __m128i l = narrow_16(_mm256_sub_epi32(q[0], _mm256_slli_epi32(high[0], 8)), _mm256_sub_epi32(q[1], _mm256_slli_epi32(high[1], 8)));
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi32(h, l));
    _mm_storeu_si128((__m128i *)(void *)(to + 16), _mm_unpackhi_epi32(h, l));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return -128 * _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
static inline int32_t most_of_32(const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++)
        m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + 8 * i)), magnitude));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
#endif

static void quantise_row(const float *x, uint32_t n, uint8_t *row)
{
    float *scale = (float *)(void *)row;
    int32_t *bias16 = (int32_t *)(void *)(row + int_row_bias(n)), *bias32 = bias16 + n / 16;
    uint8_t *v = row + int_row_values(n), *end = row + (size_t)n / 8 * 4;
    memset(end, 0, (size_t)(v - end)); /* padding */
    memset(v + 2 * (size_t)n, 0, (size_t)(row + int_row_bytes(n) - v) - 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i += 32) {
        int32_t bits = most_of_32(x + i);
        float most;
        memcpy(&most, &bits, sizeof most);
        bool finite = bits < 0x7f800000;
        scale[i / 32] = finite ? most / INT_ROWS_MAX : NAN;
        if (finite) {
            float inverse = most >= INT_ROWS_LEAST ? INT_ROWS_MAX / most : 0;
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
