/* cpu_panel.h - weights as the products with integers want them; AVX-512 only.
 *
 * A panel is 32 rows of a matrix, up to 512 columns of them, as bytes q + 128. Four columns of sixteen rows fill a register: one 32-bit lane per row,
 * so a product of a lane with four values of x adds to the sum of its row, and nothing has to be added up across lanes. The scales (and
 * minima) of 32 rows lie side by side for every group of 16 or 32 columns that has one, as the type has it. */
#ifndef HAYATE_GPU_CPU_PANEL_H
#define HAYATE_GPU_CPU_PANEL_H

#include "gpu/cpu_panel_rows.h"
#include "gpu/cpu_vec.h"
#include "gpu/cpu_int.h"

struct panel {
    uint8_t w[PANEL_COLUMNS / 4][2][64];
    float scale[PANEL_COLUMNS / 16][PANEL_ROWS], min[PANEL_COLUMNS / 16][PANEL_ROWS]; /* min is divided by 128: it meets the bias of a row */
    struct ask next;
};

/* 16 columns of 16 rows */
static inline void panel_put(struct panel *p, uint32_t column, uint32_t half, const int8_t *q)
{
    lanes z[4];
    square(z, (const uint8_t *)q, PANEL_SPAN);
    for (int i = 0; i < 4; i++)
        put_step((struct panel_to){ .w = p->w[column / 4][half] }, i, z[i]);
}

/* Types whose blocks are taken sixteen rows at a time */
#define WHOLE_TYPES(X)                                                                                                                   \
    X(Q8_0, q8_0, 32, 34, 32) X(Q4_0, q4_0, 32, 18, 32) X(Q5_0, q5_0, 32, 22, 32) X(Q5_1, q5_1, 32, 24, 32) X(IQ4_NL, iq4_nl, 32, 18, 32)   \
    X(Q4_K, q4_k, 256, 144, 32) X(Q5_K, q5_k, 256, 176, 32) X(Q6_K, q6_k, 256, 210, 16) X(IQ4_XS, iq4_xs, 256, 136, 32)                   \
    X(IQ3_S, iq3_s, 256, 110, 32) X(IQ3_XXS, iq3_xxs, 256, 98, 32) X(IQ2_S, iq2_s, 256, 82, 16)
#define WHOLE(ID, fn, len, bytes, group)                                                                                              \
    static void whole_##fn(struct panel *p, const uint8_t *data, size_t pitch, uint32_t n)                                            \
    {                                                                                                                                 \
        for (uint32_t half = 0; half < 2; half++, data += 16 * pitch)                                                                 \
            for (uint32_t k = 0; k < n; k += (len))                                                                                   \
                rows_##fn((struct panel_to){ p->w[k / 4][half], p->scale[k / (group)] + 16 * half, p->min[k / (group)] + 16 * half, &p->next }, \
                          data + k / (len) * (bytes), pitch);                                                                         \
    }
WHOLE_TYPES(WHOLE)
#undef WHOLE

/* A panel of 32 rows; false: not a type for it */
static bool panel_whole(struct panel *p, const struct gpu_mat *w, const uint8_t *data, uint32_t col, uint32_t n)
{
    switch (w->type) {
#define WHOLE(ID, fn, len, bytes, group) case QUANT_##ID: whole_##fn(p, data + col / (len) * (bytes), w->row_bytes, n); return true;
        WHOLE_TYPES(WHOLE)
#undef WHOLE
    }
    return false;
}

#endif
