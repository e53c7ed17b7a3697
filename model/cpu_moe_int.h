/* cpu_moe_int.h - the experts on integer activations; AVX-512 with VNNI, or AVX2. A block is a panel of rows of one expert's gate and up, or of every
 * expert's down, with all tokens that chose the expert; or, with few tokens, several panels, which are read one after the other. */
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

/* h = silu(gate) * up of n rows; gate has room for a few more, and is overwritten */
static void gated(float *gate, const float *up, uint32_t n, float *h)
{
    for (uint32_t i = 0; i < n; i += VEC)
        v_store(gate + i, v_silu(v_load(gate + i)) * v_load(up + i));
    memcpy(h, gate, n * sizeof *gate);
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
    assert(scratch->n >= INT_SCRATCH && nr <= INT_TOGETHER * PANEL_ROWS);
    struct int_work *work = (void *)scratch->f;
    if (start[1] - start[0] == 1) {
        const uint8_t *u = AT(const uint8_t, a->u_rows) + row[start[0]] * int_row_bytes(b->n_embd);
        float *gate = work->sum[0][0], *up = work->sum[1][0];
        int_products_of_one(work, &b->gate, base, nr, u, panel_data(&b->up, base), gate);
        int_products_of_one(work, &b->up, base, nr, u, gate_panel(a, first + n), up);
        gated(gate, up, nr, AT(float, a->m.h) + (size_t)start[0] * b->ff + r);
        return;
    }
    for (uint32_t i = 0; i < nr; i += PANEL_ROWS) {
        uint32_t ni = MIN(nr - i, (uint32_t)PANEL_ROWS);
        for (uint32_t e = start[0], ne; e < start[1]; e += ne) {
            ne = MIN((uint32_t)INT_TOKENS, start[1] - e);
            struct int_rows u = { AT(const uint8_t, a->u_rows), row + e };
            int_products(work, &b->gate, base + i, ni, u, ne, panel_data(&b->up, base + i), work->sum[0]);
            int_products(work, &b->up, base + i, ni, u, ne, gate_panel(a, first + i + PANEL_ROWS), work->sum[1]);
            for (uint32_t t = 0; t < ne; t++)
                gated(work->sum[0][t], work->sum[1][t], ni, AT(float, a->m.h) + (size_t)(e + t) * b->ff + r + i);
        }
    }
}

/* y += share * sum of n rows */
static void add_share(float *y, float share, const float *sum, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC <= n; i += VEC)
        v_store(y + i, v_load(y + i) + v_set(share) * v_load(sum + i));
    for (; i < n; i++)
        y[i] += share * sum[i];
}

/* y[row of entry][r ..] += share * (w . x) for the entries from .. to of x, nr rows of w from row `at` on; row NULL: entry t is row t */
static void down_int(struct int_work *work, const struct gpu_mat *w, uint64_t at, uint32_t nr, gpu_addr rows, uint32_t from, uint32_t to, const uint32_t *row,
                     const float *share, const uint8_t *next, float *y, uint32_t n_embd)
{
    const uint8_t *x = AT(const uint8_t, rows) + from * int_row_bytes(w->n_in);
    if (to - from == 1) {
        int_products_of_one(work, w, at, nr, x, next, work->sum[0][0]);
        add_share(y + (size_t)(row ? row[from] : from) * n_embd, share[from], work->sum[0][0], nr);
        return;
    }
    for (uint32_t i = 0; i < nr; i += PANEL_ROWS) {
        uint32_t ni = MIN(nr - i, (uint32_t)PANEL_ROWS);
        const uint8_t *then = i + PANEL_ROWS < nr ? panel_data(w, at + i + PANEL_ROWS) : next;
        for (uint32_t e = from, ne; e < to; e += ne) {
            ne = MIN((uint32_t)INT_TOKENS, to - e);
            int_products(work, w, at + i, ni, (struct int_rows){ .row = x + (e - from) * int_row_bytes(w->n_in) }, ne, then, work->sum[0]);
            for (uint32_t t = 0; t < ne; t++)
                add_share(y + (size_t)(row ? row[e + t] : e + t) * n_embd + i, share[e + t], work->sum[0][t], ni);
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
    assert(scratch->n >= INT_SCRATCH && n <= INT_TOGETHER * PANEL_ROWS);
    struct int_work *work = (void *)scratch->f;
    for (uint32_t t = 0; t < a->m.n_tok; t++)
        memset(y + (size_t)t * b->n_embd, 0, n * sizeof *y);
    for (uint32_t x = 0; x < n_active; x++) {
        const uint8_t *next = x + 1 < n_active ? panel_data(&b->down, (uint64_t)expert[x + 1] * b->n_embd + first) : panel_data(&b->shared_down, first);
        down_int(work, &b->down, (uint64_t)expert[x] * b->n_embd + first, n, a->h_rows, start[x], start[x + 1], AT(const uint32_t, a->m.row),
                 AT(const float, a->m.share), next, y, b->n_embd);
    }
    down_int(work, &b->shared_down, first, n, a->shared_rows, 0, a->m.n_tok, NULL, AT(const float, a->m.shared_gate),
             n_active && first + n < b->n_embd ? panel_data(&b->down, (uint64_t)expert[0] * b->n_embd + first + n) : NULL, y, b->n_embd);
}

#endif
