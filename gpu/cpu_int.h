/* cpu_int.h - what products with integer rows (int_rows.h) share, whatever the instruction set. */
#ifndef HAYATE_GPU_CPU_INT_H
#define HAYATE_GPU_CPU_INT_H

#include "gpu/int_rows.h"

/* A panel: rows of weights that are unpacked together, how many columns at once, and of how many columns a row's numbers are laid aside */
enum { PANEL_ROWS = 32, PANEL_COLUMNS = 512, PANEL_SPAN = 256 };
enum { TILE_TOKENS = 4 };

/* Rows of n values; row t of the products is row index[t], without an index row t */
struct int_rows {
    const uint8_t *row;
    const uint32_t *index;
};
static inline const uint8_t *int_row_at(struct int_rows x, uint32_t t, uint32_t n) { return x.row + (x.index ? x.index[t] : t) * int_row_bytes(n); }

/* The rows of a tile, at the first column of a panel: values, biases of groups, scales */
struct tile_rows {
    const int32_t *value[TILE_TOKENS], *bias[TILE_TOKENS];
    const float *scale[TILE_TOKENS];
};

static inline const uint8_t *panel_data(const struct gpu_mat *w, uint64_t row) { return AT(const uint8_t, w->data) + row * w->row_bytes; }

#endif
