/* cpu_tile_avx512.h - tiles of panels and integer rows with AVX-512 and VNNI; a part of cpu_tile.h. */
#ifndef HAYATE_GPU_CPU_TILE_AVX512_H
#define HAYATE_GPU_CPU_TILE_AVX512_H

#include "gpu/cpu_direct.h"
#include "gpu/cpu_panel.h"
#include "gpu/cpu_panel_types.h"

/* What a thread works in, but for sums */
union int_room {
    struct panel panel;
    struct direct direct;
};

static inline void tile_begin(struct panel *p, const uint8_t *next) { p->next = (struct ask){ next }; }
/* Values of a row of n from column `col` on, as tiles take them */
static inline const int32_t *tile_values(union int_room *room, uint32_t j, const uint8_t *row, uint32_t n, uint32_t col, uint32_t n_col)
{
    (void)room, (void)j, (void)n_col;
    return (const int32_t *)(const void *)(row + int_row_values(n) + 2 * (size_t)col);
}

static inline __attribute__((always_inline)) void tile(const struct panel *p, const struct tile_rows *x, uint32_t n, float (*sum)[PANEL_ROWS], bool begin,
                                                       const int nt, const uint32_t group, const bool has_min)
{
    __m512 acc[TILE_TOKENS][2];
    for (int j = 0; j < nt; j++)
        for (int h = 0; h < 2; h++)
            acc[j][h] = begin ? _mm512_setzero_ps() : _mm512_loadu_ps(sum[j] + 16 * h);
    for (uint32_t g = 0; g < n / group; g++) {
        __m512i high[TILE_TOKENS][2], low[TILE_TOKENS][2];
        for (int j = 0; j < nt; j++)
            for (int h = 0; h < 2; h++) {
                high[j][h] = _mm512_setzero_si512();
                low[j][h] = _mm512_set1_epi32(x->bias[j][g]);
            }
#pragma GCC unroll 8
        for (uint32_t s = 0; s < group / 4; s++) {
            uint32_t at = g * (group / 4) + s;
            __m512i w0 = _mm512_loadu_si512(p->w[at][0]), w1 = _mm512_loadu_si512(p->w[at][1]);
            for (int j = 0; j < nt; j++) {
                __m512i xh = _mm512_set1_epi32(x->value[j][2 * at]), xl = _mm512_set1_epi32(x->value[j][2 * at + 1]);
                high[j][0] = _mm512_dpbusd_epi32(high[j][0], w0, xh);
                high[j][1] = _mm512_dpbusd_epi32(high[j][1], w1, xh);
                low[j][0] = _mm512_dpbusd_epi32(low[j][0], w0, xl);
                low[j][1] = _mm512_dpbusd_epi32(low[j][1], w1, xl);
            }
        }
        for (int j = 0; j < nt; j++) {
            float scale = x->scale[j][g / (32 / group)];
            for (int h = 0; h < 2; h++) {
                __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(high[j][h], 8), low[j][h]);
                __m512 both_scales = _mm512_mul_ps(_mm512_loadu_ps(p->scale[g] + 16 * h), _mm512_set1_ps(scale));
                acc[j][h] = _mm512_fmadd_ps(both_scales, _mm512_cvtepi32_ps(whole), acc[j][h]);
                if (has_min)
                    acc[j][h] = _mm512_fmadd_ps(_mm512_loadu_ps(p->min[g] + 16 * h), _mm512_set1_ps(scale * (float)x->bias[j][g]), acc[j][h]);
            }
        }
    }
    for (int j = 0; j < nt; j++)
        for (int h = 0; h < 2; h++)
            _mm512_storeu_ps(sum[j] + 16 * h, acc[j][h]);
}

#endif
