/* cpu_tile.h - products of weight panels with integer rows (int_rows.h); AVX-512 with VNNI only.
 *
 * The sum of a row of weights and a row of x is one chain over the groups of columns, ascending: sum = (scale of w * scale of x) * (integer sum of the
 * group) + sum, and with minima sum = min * (bias * scale of x) + sum. Integer sums are exact, so neither the number of rows nor how a tile is cut shows in a result. */
#ifndef HAYATE_GPU_CPU_TILE_H
#define HAYATE_GPU_CPU_TILE_H

#include "gpu/cpu_direct.h"
#include "gpu/cpu_panel.h"
#include "gpu/int_rows.h"

enum { TILE_TOKENS = 4 };

/* Rows of n values; row t of the products is row index[t], without an index row t */
struct int_rows {
    const uint8_t *row;
    const uint32_t *index;
};
/* What a thread works in; fits INT_SCRATCH floats */
struct int_work {
    union {
        struct panel panel;
        struct direct direct;
    };
    float sum[2][INT_TOKENS][PANEL_ROWS];
};
_Static_assert(sizeof(struct int_work) <= INT_SCRATCH * sizeof(float), "scratch of a thread");

static inline const uint8_t *int_row_at(struct int_rows x, uint32_t t, uint32_t n) { return x.row + (x.index ? x.index[t] : t) * int_row_bytes(n); }

/* The rows of a tile, at the first column of a panel: values, biases of groups, scales */
struct tile_rows {
    const int32_t *value[TILE_TOKENS], *bias[TILE_TOKENS];
    const float *scale[TILE_TOKENS];
};

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

#define TILES(name, group, has_min)                                                                                                          \
    static void tiles_##name(const struct panel *p, const struct tile_rows *x, uint32_t n, float (*sum)[PANEL_ROWS], bool begin, uint32_t nt) \
    {                                                                                                                                        \
        switch (nt) {                                                                                                                        \
        case 1: tile(p, x, n, sum, begin, 1, group, has_min); break;                                                                         \
        case 2: tile(p, x, n, sum, begin, 2, group, has_min); break;                                                                         \
        case 3: tile(p, x, n, sum, begin, 3, group, has_min); break;                                                                         \
        default: tile(p, x, n, sum, begin, 4, group, has_min); break;                                                                        \
        }                                                                                                                                    \
    }
TILES(16, 16, false)
TILES(16_min, 16, true)
TILES(32, 32, false)
TILES(32_min, 32, true)
#undef TILES

static inline uint32_t panel_group(uint32_t type)
{
    switch (type) {
#define PANEL(ID, fn, len, bytes, group, has_min) case QUANT_##ID: return (group) + (has_min);
        PANEL_TYPES(PANEL)
#undef PANEL
    }
    return 0;
}

/* sum[t][i] = row row + i of w . row t of x, i < nr <= 32; n_tok <= INT_TOKENS. next: the panel that this thread will want after
 * this one, or NULL */
static void int_products(struct int_work *work, const struct gpu_mat *w, uint64_t row, uint32_t nr, struct int_rows x, uint32_t n_tok, const uint8_t *next,
                         float (*sum)[PANEL_ROWS])
{
    if (n_tok == 1 && nr == PANEL_ROWS && direct_takes(w->type, w->n_in)) {
        direct_products(&work->direct, w->type, panel_data(w, row), w->row_bytes, int_row_at(x, 0, w->n_in), w->n_in, next, sum[0]);
        return;
    }
    struct panel *p = &work->panel;
    uint32_t kind = panel_group(w->type), group = kind & ~1u;
    p->next = (struct ask){ next };
    for (uint32_t col = 0; col < w->n_in; col += PANEL_COLUMNS) {
        uint32_t n = MIN((uint32_t)PANEL_COLUMNS, w->n_in - col);
        panel_build(p, w, row, nr, col, n);
        for (uint32_t t = 0; t < n_tok; t += TILE_TOKENS) {
            struct tile_rows rows;
            uint32_t nt = MIN((uint32_t)TILE_TOKENS, n_tok - t);
            for (uint32_t j = 0; j < nt; j++) {
                const uint8_t *r = int_row_at(x, t + j, w->n_in);
                rows.value[j] = (const int32_t *)(const void *)(r + int_row_values(w->n_in) + 2 * (size_t)col);
                rows.scale[j] = (const float *)(const void *)r + col / 32;
                rows.bias[j] = (const int32_t *)(const void *)(r + int_row_bias(w->n_in)) + (group == 32 ? w->n_in / 16 : 0) + col / group;
            }
            switch (kind) {
            case 16: tiles_16(p, &rows, n, sum + t, col == 0, nt); break;
            case 17: tiles_16_min(p, &rows, n, sum + t, col == 0, nt); break;
            case 32: tiles_32(p, &rows, n, sum + t, col == 0, nt); break;
            default: tiles_32_min(p, &rows, n, sum + t, col == 0, nt); break;
            }
        }
    }
}

#endif
