/* cpu_tile.h - products of weight panels with integer rows (int_rows.h); AVX-512 with VNNI, or AVX2.
 *
 * The sum of a row of weights and a row of x is one chain over the groups of columns, ascending: sum = (scale of w * scale of x) * (integer sum of the
 * group) + sum, and with minima sum = min * (bias * scale of x) + sum. Integer sums are exact, so neither the number of rows, nor how a tile is cut, nor the
 * instruction set shows in a result. */
#ifndef HAYATE_GPU_CPU_TILE_H
#define HAYATE_GPU_CPU_TILE_H

#if defined(__AVX512VNNI__)
#include "gpu/cpu_tile_avx512.h"
#else
#include "gpu/cpu_tile_avx2.h"
#endif

/* What a thread works in; fits INT_SCRATCH floats */
struct int_work {
    union int_room room;
    float sum[2][INT_TOKENS][PANEL_ROWS];
};
_Static_assert(sizeof(struct int_work) <= INT_SCRATCH * sizeof(float), "scratch of a thread");

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

/* sum[t][i] = row row + i of w . row t of x, i < nr <= 32; n_tok <= INT_TOKENS. next: the panel that this thread will want after
 * this one, or NULL */
static void int_products(struct int_work *work, const struct gpu_mat *w, uint64_t row, uint32_t nr, struct int_rows x, uint32_t n_tok, const uint8_t *next,
                         float (*sum)[PANEL_ROWS])
{
    if (n_tok == 1 && nr == PANEL_ROWS && direct_takes(w->type, w->n_in)) {
        direct_products(&work->room.direct, w->type, panel_data(w, row), w->row_bytes, nr, int_row_at(x, 0, w->n_in), w->n_in, next, sum[0]);
        return;
    }
    struct panel *p = &work->room.panel;
    uint32_t kind = panel_group(w->type), group = kind & ~1u;
    tile_begin(p, next);
    for (uint32_t col = 0; col < w->n_in; col += PANEL_COLUMNS) {
        uint32_t n = MIN((uint32_t)PANEL_COLUMNS, w->n_in - col);
        panel_build(p, w, row, nr, col, n);
        for (uint32_t t = 0; t < n_tok; t += TILE_TOKENS) {
            struct tile_rows rows;
            uint32_t nt = MIN((uint32_t)TILE_TOKENS, n_tok - t);
            for (uint32_t j = 0; j < nt; j++) {
                const uint8_t *r = int_row_at(x, t + j, w->n_in);
                rows.value[j] = tile_values(&work->room, j, r, w->n_in, col, n);
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

/* The same for one row of x and any number of rows of w: sum[i] = row row + i of w . x, with room for i up to nr rounded up to PANEL_ROWS */
static void int_products_of_one(struct int_work *work, const struct gpu_mat *w, uint64_t row, uint32_t nr, const uint8_t *x, const uint8_t *next, float *sum)
{
    uint32_t done = 0;
    if (nr >= PANEL_ROWS && direct_takes(w->type, w->n_in)) {
        done = nr / PANEL_ROWS * PANEL_ROWS;
        direct_products(&work->room.direct, w->type, panel_data(w, row), w->row_bytes, done, x, w->n_in, next, sum);
    }
    for (; done < nr; done += PANEL_ROWS) {
        const uint8_t *then = done + PANEL_ROWS < nr ? panel_data(w, row + done + PANEL_ROWS) : next;
        int_products(work, w, row + done, MIN((uint32_t)PANEL_ROWS, nr - done), (struct int_rows){ .row = x }, 1, then, (float(*)[PANEL_ROWS])(void *)(sum + done));
    }
}

#endif
