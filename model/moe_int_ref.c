/* moe_int_ref.c - the experts on integer activations (gpu/int_rows.h) in plain C. */
#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"

#include <assert.h>

static const uint8_t *row_at(gpu_addr rows, uint32_t i, uint32_t n) { return AT(const uint8_t, rows) + i * int_row_bytes(n); }

void moe_gate_up_int_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_gate_up_int_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->m.block);
    uint32_t pitch = (uint32_t)size_up(b->ff, MOE_GRAIN), active = first / pitch, r0 = first % pitch;
    if (active >= AT(const struct moe_group, a->m.group)->n_active)
        return;
    const uint32_t *start = AT(const uint32_t, a->m.start) + active, *row = AT(const uint32_t, a->m.row);
    uint64_t base = (uint64_t)AT(const uint32_t, a->m.expert)[active] * b->gate.rows_per_expert;
    assert(scratch->n >= b->n_embd);
    for (uint32_t r = r0; r < r0 + n && r < b->ff; r++)
        for (uint32_t i = start[0]; i < start[1]; i++) {
            const uint8_t *u = row_at(a->u_rows, row[i], b->n_embd);
            float gate = (float)int_row_dot(&b->gate, base + r, u, scratch->f), up = (float)int_row_dot(&b->up, base + r, u, scratch->f);
            AT(float, a->m.h)[(size_t)i * b->ff + r] = act_apply(ACT_SILU, gate) * up;
        }
}

void moe_down_int_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct moe_down_int_args *a = args;
    const struct moe_block *b = AT(const struct moe_block, a->m.block);
    const uint32_t *start = AT(const uint32_t, a->m.start), *row = AT(const uint32_t, a->m.row);
    uint32_t n_active = AT(const struct moe_group, a->m.group)->n_active;
    float *y = AT(float, a->m.y);
    assert(scratch->n >= MAX(b->ff, b->shared_ff));
    for (uint32_t r = first; r < first + n; r++) {
        for (uint32_t t = 0; t < a->m.n_tok; t++)
            y[(size_t)t * b->n_embd + r] = 0;
        for (uint32_t x = 0; x < n_active; x++)
            for (uint32_t i = start[x]; i < start[x + 1]; i++)
                y[(size_t)row[i] * b->n_embd + r] +=
                    AT(const float, a->m.share)[i] *
                    (float)int_row_dot(&b->down, (uint64_t)AT(const uint32_t, a->m.expert)[x] * b->n_embd + r, row_at(a->h_rows, i, b->ff), scratch->f);
        for (uint32_t t = 0; t < a->m.n_tok; t++)
            y[(size_t)t * b->n_embd + r] += AT(const float, a->m.shared_gate)[t] *
                                            (float)int_row_dot(&b->shared_down, r, row_at(a->shared_rows, t, b->shared_ff), scratch->f);
    }
}
