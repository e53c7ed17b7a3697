/* cpu_panel_types.h - panels of any type that unpacks, for every instruction set that multiplies integers.
 *
 * The set's own file comes first, with struct panel; panel_put(p, column, half, q), which takes 16 columns of 16 rows, PANEL_SPAN bytes apart; and
 * panel_whole(), for the types that it has a faster way for. */
#ifndef HAYATE_GPU_CPU_PANEL_TYPES_H
#define HAYATE_GPU_CPU_PANEL_TYPES_H

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
                for (uint32_t k = 0; k < nc; k += 16)                                                                            \
                    panel_put(p, c + k, half, &q[0][k]);                                                                         \
            }                                                                                                                    \
    }
PANEL_TYPES(PANEL)
#undef PANEL

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

static inline uint32_t panel_group(uint32_t type)
{
    switch (type) {
#define PANEL(ID, fn, len, bytes, group, has_min) case QUANT_##ID: return (group) + (has_min);
        PANEL_TYPES(PANEL)
#undef PANEL
    }
    return 0;
}

#endif
