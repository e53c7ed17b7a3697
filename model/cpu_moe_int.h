/* cpu_moe_int.h - the experts on integer activations; AVX-512 with VNNI, or AVX2. A block is a panel of rows of one expert's gate and up, or of every
 * expert's down, with all tokens that chose the expert. */
#ifndef HAYATE_MODEL_CPU_MOE_INT_H
#define HAYATE_MODEL_CPU_MOE_INT_H

#include "gpu/cpu_act.h"
#include "gpu/cpu_tile.h"
#include "model/model_kernels.h"

#include <assert.h>

/* Row of gate where item i of moe_gate_up_int begins; NULL: no such item */
static const uint8_t *gate_panel(const struct moe_gate_up_int_args *a, uint32_t i)
{
    const struct moe_block *b = AT(const struct moe_block, a->m.block);
    uint32_t pitch = (uint32_t)size_up(b->ff, MOE_GRAIN), active = i / pitch;
    if (active >= AT(const struct moe_group, a->m.group)->n_active)
        return NULL;
    return panel_data(&b->gate, (uint64_t)AT(const uint32_t, a->m.expert)[active] * b->gate.rows_per_expert + i % pitch);
}

static void moe_gate_up_int(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_gate_up_int_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->m.block);
    uint32_t pitch = (uint32_t)size_up(b->ff, MOE_GRAIN), active = first / pitch, r = first % pitch, nr = MIN(n, b->ff - r);
    if (active >= AT(const struct moe_group, a->m.group)->n_active)
        return;
    const uint32_t *start = AT(const uint32_t, a->m.start) + active, *row = AT(const uint32_t, a->m.row);
    uint64_t base = (uint64_t)AT(const uint32_t, a->m.expert)[active] * b->gate.rows_per_expert + r;
    assert(scratch->n >= INT_SCRATCH && nr <= PANEL_ROWS);
    struct int_work *work = (void *)scratch->f;
    for (uint32_t e = start[0], ne; e < start[1]; e += ne) {
        ne = MIN((uint32_t)INT_TOKENS, start[1] - e);
        struct int_rows u = { AT(const uint8_t, a->u_rows), row + e };
        int_products(work, &b->gate, base, nr, u, ne, panel_data(&b->up, base), work->sum[0]);
        int_products(work, &b->up, base, nr, u, ne, gate_panel(a, first + MOE_GRAIN * MAX(1u, scratch->n_threads)), work->sum[1]);
        for (uint32_t t = 0; t < ne; t++) {
            float *gate = work->sum[0][t], *up = work->sum[1][t];
            for (int i = 0; i < PANEL_ROWS; i += VEC)
                v_store(gate + i, v_silu(v_load(gate + i)) * v_load(up + i));
            memcpy(AT(float, a->m.h) + (size_t)(e + t) * b->ff + r, gate, nr * sizeof *gate);
        }
    }
}

/* y[row of entry][r ..] += share * (w . x) for the entries from .. to of x; row NULL: entry t is row t */
static void down_int(struct int_work *work, const struct gpu_mat *w, uint64_t at, uint32_t nr, gpu_addr rows, uint32_t from, uint32_t to, const uint32_t *row,
                     const float *share, const uint8_t *next, float *y, uint32_t n_embd)
{
    for (uint32_t e = from, ne; e < to; e += ne) {
        ne = MIN((uint32_t)INT_TOKENS, to - e);
        struct int_rows x = { .row = AT(const uint8_t, rows) + e * int_row_bytes(w->n_in) };
        int_products(work, w, at, nr, x, ne, next, work->sum[0]);
        for (uint32_t t = 0; t < ne; t++) {
            float *to_row = y + (size_t)(row ? row[e + t] : e + t) * n_embd, *sum = work->sum[0][t];
            if (nr == PANEL_ROWS)
                for (uint32_t i = 0; i < PANEL_ROWS; i += VEC)
                    v_store(to_row + i, v_load(to_row + i) + v_set(share[e + t]) * v_load(sum + i));
            else
                for (uint32_t i = 0; i < nr; i++)
                    to_row[i] += share[e + t] * sum[i];
        }
    }
}

static void moe_down_int(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_down_int_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->m.block);
    const uint32_t *start = AT(const uint32_t, a->m.start), *expert = AT(const uint32_t, a->m.expert);
    uint32_t n_active = AT(const struct moe_group, a->m.group)->n_active;
    float *y = AT(float, a->m.y) + first;
    assert(scratch->n >= INT_SCRATCH && n <= PANEL_ROWS);
    struct int_work *work = (void *)scratch->f;
    for (uint32_t t = 0; t < a->m.n_tok; t++)
        memset(y + (size_t)t * b->n_embd, 0, n * sizeof *y);
    for (uint32_t x = 0; x < n_active; x++) {
        const uint8_t *next = x + 1 < n_active ? panel_data(&b->down, (uint64_t)expert[x + 1] * b->n_embd + first) : panel_data(&b->shared_down, first);
        down_int(work, &b->down, (uint64_t)expert[x] * b->n_embd + first, n, a->h_rows, start[x], start[x + 1], AT(const uint32_t, a->m.row),
                 AT(const float, a->m.share), next, y, b->n_embd);
    }
    uint32_t after = first + MOE_GRAIN * MAX(1u, scratch->n_threads);
    down_int(work, &b->shared_down, first, n, a->shared_rows, 0, a->m.n_tok, NULL, AT(const float, a->m.shared_gate),
             n_active && after < b->n_embd ? panel_data(&b->down, (uint64_t)expert[0] * b->n_embd + after) : NULL, y, b->n_embd);
}

#endif
