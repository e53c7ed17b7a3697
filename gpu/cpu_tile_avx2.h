/* cpu_tile_avx2.h - panels, tiles and products of one token on integer rows with AVX2; a part of cpu_tile.h.
 *
 * Without dot products of bytes, weights are widened to 16 bits and meet the 16 bits of x in pairs of columns (vpmaddwd): twice the products of f32 for an
 * instruction. Sums over a group stay below 2^31: 32 columns * 128 * 32512. */
#ifndef HAYATE_GPU_CPU_TILE_AVX2_H
#define HAYATE_GPU_CPU_TILE_AVX2_H

#include "gpu/cpu_int.h"
#include "gpu/quant_unpack.h"

#include <immintrin.h>
#include <math.h>

enum { DIRECT_ROWS = 8, DIRECT_COLUMNS = 4096 }; /* at most */

/* Columns 2 i and 2 i + 1 of 32 rows side by side */
struct panel {
    int8_t w[PANEL_COLUMNS / 2][PANEL_ROWS][2];
    float scale[PANEL_COLUMNS / 16][PANEL_ROWS], min[PANEL_COLUMNS / 16][PANEL_ROWS]; /* min is divided by 128: it meets the bias of a row */
};
/* One row of x, and what a few rows of weights make with it */
struct direct {
    int16_t x[DIRECT_COLUMNS];
    float value[DIRECT_ROWS][DIRECT_COLUMNS / 16], scale[DIRECT_ROWS][DIRECT_COLUMNS / 16], min[DIRECT_ROWS][DIRECT_COLUMNS / 16];
};
union int_room {
    struct {
        struct panel panel;
        int16_t x[TILE_TOKENS][PANEL_COLUMNS];
    };
    struct direct direct;
};

static inline __m128i load_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }

/* Columns col .. col + n_col - 1 of a row, which keeps high and low bytes of every four apart; all multiples of 16 */
static void widen_values(int16_t *to, const uint8_t *row, uint32_t n, uint32_t col, uint32_t n_col)
{
    const __m256i high = _mm256_broadcastsi128_si256(_mm_set_epi8(11, -1, 10, -1, 9, -1, 8, -1, 3, -1, 2, -1, 1, -1, 0, -1));
    const __m256i low = _mm256_broadcastsi128_si256(_mm_set_epi8(15, -1, 14, -1, 13, -1, 12, -1, 7, -1, 6, -1, 5, -1, 4, -1));
    const uint8_t *from = row + int_row_values(n) + 2 * (size_t)col;
    for (uint32_t i = 0; i < n_col; i += 16) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(from + 2 * i));
        v = _mm256_add_epi16(_mm256_shuffle_epi8(v, high), _mm256_srai_epi16(_mm256_shuffle_epi8(v, low), 8));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), v);
    }
}

static inline void tile_begin(struct panel *p, const uint8_t *next) { (void)p, (void)next; }
static inline const int32_t *tile_values(union int_room *room, uint32_t j, const uint8_t *row, uint32_t n, uint32_t col, uint32_t n_col)
{
    widen_values(room->x[j], row, n, col, n_col);
    return (const int32_t *)(const void *)room->x[j];
}

/* 8 pairs of columns of 8 rows change places */
static inline void put_eight(struct panel *p, uint32_t pair, uint32_t row, const int8_t *q)
{
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = load_128(q + i * PANEL_SPAN);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
        b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) { /* pairs 4 k .. of rows i .. i + 3 */
            a[i + 2 * k] = _mm_unpacklo_epi32(b[i + k], b[i + 2 + k]);
            a[i + 2 * k + 1] = _mm_unpackhi_epi32(b[i + k], b[i + 2 + k]);
        }
    for (uint32_t k = 0; k < 4; k++) {
        _mm_storeu_si128((__m128i *)(void *)p->w[pair + 2 * k][row], _mm_unpacklo_epi64(a[k], a[4 + k]));
        _mm_storeu_si128((__m128i *)(void *)p->w[pair + 2 * k + 1][row], _mm_unpackhi_epi64(a[k], a[4 + k]));
    }
}
/* 16 columns of 16 rows */
static inline void panel_put(struct panel *p, uint32_t column, uint32_t half, const int8_t *q)
{
    put_eight(p, column / 2, 16 * half, q);
    put_eight(p, column / 2, 16 * half + 8, q + 8 * PANEL_SPAN);
}
static inline bool panel_whole(struct panel *p, const struct gpu_mat *w, const uint8_t *data, uint32_t col, uint32_t n)
{
    (void)p, (void)w, (void)data, (void)col, (void)n;
    return false;
}
#include "gpu/cpu_panel_types.h"

/* 16 rows of the panel at once: more sums do not fit the registers */
static inline __attribute__((always_inline)) void tile(const struct panel *p, const struct tile_rows *x, uint32_t n, float (*sum)[PANEL_ROWS], bool begin,
                                                       const int nt, const uint32_t group, const bool has_min)
{
    for (int row = 0; row < PANEL_ROWS; row += 16) {
        __m256 acc[TILE_TOKENS][2];
        for (int j = 0; j < nt; j++)
            for (int h = 0; h < 2; h++)
                acc[j][h] = begin ? _mm256_setzero_ps() : _mm256_loadu_ps(sum[j] + row + 8 * h);
        for (uint32_t g = 0; g < n / group; g++) {
            __m256i whole[TILE_TOKENS][2];
            for (int j = 0; j < nt; j++)
                whole[j][0] = whole[j][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
            for (uint32_t s = 0; s < group / 2; s++) {
                uint32_t at = g * (group / 2) + s;
                __m256i w0 = _mm256_cvtepi8_epi16(load_128(p->w[at][row])), w1 = _mm256_cvtepi8_epi16(load_128(p->w[at][row + 8]));
                for (int j = 0; j < nt; j++) {
                    __m256i v = _mm256_set1_epi32(x->value[j][at]);
                    whole[j][0] = _mm256_add_epi32(whole[j][0], _mm256_madd_epi16(w0, v));
                    whole[j][1] = _mm256_add_epi32(whole[j][1], _mm256_madd_epi16(w1, v));
                }
            }
            for (int j = 0; j < nt; j++) {
                float scale = x->scale[j][g / (32 / group)];
                for (int h = 0; h < 2; h++) {
                    __m256 both_scales = _mm256_mul_ps(_mm256_loadu_ps(p->scale[g] + row + 8 * h), _mm256_set1_ps(scale));
                    acc[j][h] = _mm256_fmadd_ps(both_scales, _mm256_cvtepi32_ps(whole[j][h]), acc[j][h]);
                    if (has_min)
                        acc[j][h] = _mm256_fmadd_ps(_mm256_loadu_ps(p->min[g] + row + 8 * h), _mm256_set1_ps(scale * (float)x->bias[j][g]), acc[j][h]);
                }
            }
        }
        for (int j = 0; j < nt; j++)
            for (int h = 0; h < 2; h++)
                _mm256_storeu_ps(sum[j] + row + 8 * h, acc[j][h]);
    }
}

/* ---- one token: row after row, in the order of their addresses ---- */

static inline bool direct_takes(uint32_t type, uint32_t n)
{
    (void)type; /* any that unpacks */
    return n <= DIRECT_COLUMNS;
}

/* q . x over a group of 16 or 32 columns */
static inline __attribute__((always_inline)) int32_t group_dot(const int8_t *q, const int16_t *x, const uint32_t group)
{
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t i = 0; i < group; i += 16)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(load_128(q + i)), _mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

/* The chains of DIRECT_ROWS rows beside each other, n groups */
static inline void direct_add(const struct direct *d, const int32_t *bias, const float *x_scale, uint32_t n, uint32_t group, bool has_min, float *sum)
{
    float acc[DIRECT_ROWS] = { 0 };
    for (uint32_t g = 0; g < n; g++) {
        float scale = x_scale[g * group / 32];
        for (int r = 0; r < DIRECT_ROWS; r++) {
            acc[r] = fmaf(d->scale[r][g] * scale, d->value[r][g], acc[r]);
            if (has_min)
                acc[r] = fmaf(d->min[r][g], scale * (float)bias[g], acc[r]);
        }
    }
    memcpy(sum, acc, sizeof acc);
}

#define DIRECT(ID, fn, len, bytes, group, has_min)                                                                                        \
    static void direct_##fn(struct direct *d, const uint8_t *b, size_t pitch, uint32_t n)                                                 \
    {                                                                                                                                     \
        int8_t q[len];                                                                                                                    \
        float scale[(len) / 16], min[(len) / 16];                                                                                         \
        for (int r = 0; r < DIRECT_ROWS; r++, b += pitch)                                                                                 \
            for (uint32_t k = 0; k < n; k += (len)) {                                                                                     \
                unpack_##fn(b + k / (len) * (bytes), (struct unpacked){ q, scale, min });                                                 \
                for (uint32_t g = 0, at = k / (group); g < (len) / (group); g++, at++) {                                                  \
                    d->value[r][at] = (float)group_dot(q + g * (group), d->x + k + g * (group), group);                                   \
                    d->scale[r][at] = scale[g * ((group) / 16)];                                                                          \
                    if (has_min)                                                                                                          \
                        d->min[r][at] = min[g * ((group) / 16)] * (1.0f / 128);                                                           \
                }                                                                                                                         \
            }                                                                                                                             \
    }
PANEL_TYPES(DIRECT)
#undef DIRECT

/* sum[i] = row i at data, pitch bytes apart . x, of n values; i < n_row, a multiple of PANEL_ROWS */
static void direct_products(struct direct *d, uint32_t type, const uint8_t *data, size_t pitch, uint32_t n_row, const uint8_t *x, uint32_t n, const uint8_t *next, float *sum)
{
    const float *scale = (const float *)(const void *)x;
    uint32_t group = panel_group(type) & ~1u;
    const int32_t *bias = (const int32_t *)(const void *)(x + int_row_bias(n)) + (group == 32 ? n / 16 : 0);
    (void)next;
    widen_values(d->x, x, n, 0, n);
    for (uint32_t r = 0; r < n_row; r += DIRECT_ROWS, data += DIRECT_ROWS * pitch) {
        switch (type) {
#define DIRECT(ID, fn, len, bytes, group, has_min) case QUANT_##ID: direct_##fn(d, data, pitch, n); break;
            PANEL_TYPES(DIRECT)
#undef DIRECT
        }
        direct_add(d, bias, scale, n / group, group, panel_group(type) & 1, sum + r);
    }
}

#endif
