/* cpu_panel.h - weights as the products with integers want them; AVX-512 only.
 *
 * A panel is 32 rows of a matrix, up to 512 columns of them, as bytes q + 128. Four columns of sixteen rows fill a register: one 32-bit lane per row,
 * so a product of a lane with four values of x adds to the sum of its row, and nothing has to be added up across lanes. The scales (and
 * minima) of 32 rows lie side by side for every group of 16 or 32 columns that has one, as the type has it. */
#ifndef HAYATE_GPU_CPU_PANEL_H
#define HAYATE_GPU_CPU_PANEL_H

#include "gpu/cpu_panel_rows.h"
#include "gpu/cpu_vec.h"
#include "gpu/gpu_args.h"

enum { PANEL_ROWS = 32, PANEL_COLUMNS = 512, PANEL_SPAN = 256 };

struct panel {
    uint8_t w[PANEL_COLUMNS / 4][2][64];
    float scale[PANEL_COLUMNS / 16][PANEL_ROWS], min[PANEL_COLUMNS / 16][PANEL_ROWS]; /* min is divided by 128: it meets the bias of a row */
    struct ask next;
};

/* Types that unpack: columns per scale, and whether they have minima */
#define PANEL_TYPES(X)                                                                                                                     \
    X(Q4_0, q4_0, 32, 18, 32, false) X(Q4_1, q4_1, 32, 20, 32, true) X(Q5_0, q5_0, 32, 22, 32, false) X(Q5_1, q5_1, 32, 24, 32, true)         \
    X(IQ4_NL, iq4_nl, 32, 18, 32, false) X(MXFP4, mxfp4, 32, 17, 32, false) X(NVFP4, nvfp4, 64, 36, 16, false) X(Q2_K, q2_k, 256, 84, 16, true) \
    X(Q3_K, q3_k, 256, 110, 16, false) X(Q4_K, q4_k, 256, 144, 32, true) X(Q5_K, q5_k, 256, 176, 32, true)                                   \
    X(Q6_K, q6_k, 256, 210, 16, false) X(TQ2_0, tq2_0, 256, 66, 32, false) X(IQ1_S, iq1_s, 256, 50, 32, false)                               \
    X(IQ1_M, iq1_m, 256, 56, 16, false) X(IQ2_XXS, iq2_xxs, 256, 66, 32, false) X(IQ2_XS, iq2_xs, 256, 74, 16, false)                         \
    X(IQ2_S, iq2_s, 256, 82, 16, false) X(IQ3_XXS, iq3_xxs, 256, 98, 32, false) X(IQ3_S, iq3_s, 256, 110, 32, false)                         \
    X(IQ4_XS, iq4_xs, 256, 136, 32, false) X(Q8_0, q8_0, 32, 34, 32, false)

/* panel_<type>: columns 0 .. n - 1 (a multiple of 32 and of the block) of nr rows that begin at data, pitch bytes apart; the other rows become zeros */
#define PANEL(ID, fn, len, bytes, group, has_min)                                                                              \
    static void panel_##fn(struct panel *p, const uint8_t *data, size_t pitch, uint32_t nr, uint32_t n)                          \
    {                                                                                                                            \
        int8_t q[16][PANEL_SPAN];                                                                                                \
        float scale[(len) / 16], min[(len) / 16];                                                                                \
        for (uint32_t half = 0; half < 2; half++)                                                                                \
            for (uint32_t c = 0, nc; c < n; c += nc) {                                                                           \
                nc = MIN((uint32_t)PANEL_SPAN, n - c);                                                                           \
                for (uint32_t i = 0, r = 16 * half; i < 16; i++, r++)                                                            \
                    for (uint32_t k = c; k < c + nc; k += (len)) {                                                               \
                        if (r < nr) {                                                                                            \
                            unpack_##fn(data + r * pitch + k / (len) * (bytes), (struct unpacked){ q[i] + k - c, scale, min });  \
                        } else {                                                                                                 \
                            memset(q[i] + k - c, 0, (len));                                                                      \
                            memset(scale, 0, sizeof scale);                                                                      \
                            memset(min, 0, sizeof min);                                                                          \
                        }                                                                                                        \
                        for (uint32_t g = 0; g < (len) / (group); g++) {                                                         \
                            p->scale[k / (group) + g][r] = scale[g * ((group) / 16)];                                            \
                            if (has_min)                                                                                         \
                                p->min[k / (group) + g][r] = min[g * ((group) / 16)] * (1.0f / 128);                             \
                        }                                                                                                        \
                    }                                                                                                            \
                for (uint32_t k = 0; k < nc; k += 16) {                                                                          \
                    lanes z[4];                                                                                                  \
                    square(z, (const uint8_t *)&q[0][k], PANEL_SPAN);                                                            \
                    for (int i = 0; i < 4; i++)                                                                                  \
                        put_step((struct panel_to){ .w = p->w[(c + k) / 4][half] }, i, z[i]);                                    \
                }                                                                                                                \
            }                                                                                                                    \
    }
PANEL_TYPES(PANEL)
#undef PANEL

static inline const uint8_t *panel_data(const struct gpu_mat *w, uint64_t row) { return AT(const uint8_t, w->data) + row * w->row_bytes; }

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

/* Columns col .. col + n - 1 of rows row .. row + nr - 1 of w; col a multiple of PANEL_COLUMNS */
static void panel_build(struct panel *p, const struct gpu_mat *w, uint64_t row, uint32_t nr, uint32_t col, uint32_t n)
{
    const uint8_t *data = panel_data(w, row);
    if (nr == PANEL_ROWS && panel_whole(p, w, data, col, n))
        return;
    switch (w->type) {
#define PANEL(ID, fn, len, bytes, group, has_min) case QUANT_##ID: panel_##fn(p, data + col / (len) * (bytes), w->row_bytes, nr, n); break;
        PANEL_TYPES(PANEL)
#undef PANEL
    }
}

#endif
