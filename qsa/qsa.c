/* qsa.c - the layer as a list of calls, cache sizes, and its table of rows. */
#include "qsa/qsa.h"

#include "gpu/gpu_kernels.h"

#define KERNEL KERNEL_CHECK
#include "qsa/qsa_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[QSA_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "qsa/qsa_kernels.def"
#undef KERNEL
};

FAST_DECLARE(qsa_fast);
const struct gpu_kernel_table qsa_kernels = { rows, FAST_TABLES(qsa_fast), QSA_K_COUNT };

size_t qsa_kv_bytes(const struct qsa_dims *d, size_t n_ctx, bool f32)
{
    size_t bytes = 2 * (size_t)d->n_kv * d->dim * QSA_BLOCK * (f32 ? 4 : 2);
    return size_mul(bytes, qsa_cap_blocks(n_ctx), &bytes) ? bytes : SIZE_MAX;
}

size_t qsa_pooled_bytes(const struct qsa_dims *d, size_t n_ctx)
{
    return (size_t)qsa_cap_blocks(n_ctx) * d->idx_dim * sizeof(float);
}

/* One K or V tile, the queries of a group twice over, a chunk of scores, the running output, maxima and sums. */
size_t qsa_scratch_floats(const struct qsa_dims *d)
{
    size_t group = d->n_head / d->n_kv;
    return QSA_BLOCK * (size_t)d->dim + 3 * group * d->dim + group * (size_t)QSA_ATTEND_CHUNK * QSA_BLOCK + 2 * group + d->dim;
}

void qsa_scratch_take(struct qsa_scratch *s, struct arena *a, const struct qsa_dims *d, size_t n_tok, uint32_t cap_blocks)
{
    s->qg = ADDR(arena_take(a, n_tok * 2 * d->n_head * d->dim, sizeof(float)));
    s->k = ADDR(arena_take(a, n_tok * d->n_kv * d->dim, sizeof(float)));
    s->v = ADDR(arena_take(a, n_tok * d->n_kv * d->dim, sizeof(float)));
    s->iq = ADDR(arena_take(a, n_tok * d->idx_head * d->idx_dim, sizeof(float)));
    s->ik = ADDR(arena_take(a, n_tok * d->idx_dim, sizeof(float)));
    s->scores = ADDR(arena_take(a, MIN(n_tok, (size_t)QSA_STRIP) * cap_blocks, sizeof(float)));
    s->list = ADDR(arena_take(a, n_tok * (1 + (size_t)d->budget), sizeof(uint32_t)));
    s->mixed = ADDR(arena_take(a, n_tok * d->n_head * d->dim, sizeof(float)));
}

void qsa_record(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, gpu_addr u,
                uint32_t n_tok)
{
    const struct qsa_block *b = &l->block;
    gpu_addr block = gpu_shared(c, b);
    gpu_matmul(c, l->in, b->budget ? 5 : 3, u, d->n_embd, n_tok);
    CALL(c, qsa_kernels, K_qsa_prep, n_tok, struct qsa_prep_args, .block = block, .step = step, .qg = s->qg, .k = s->k, .v = s->v, .iq = s->iq);
    if (b->budget)
        CALL(c, qsa_kernels, K_qsa_pool, n_tok / QSA_BLOCK + 1, struct qsa_pool_args, .block = block, .step = step, .ik = s->ik);
    if (b->budget && b->cap_blocks > b->budget) { /* a smaller context never drops a block */
        uint32_t groups = (b->cap_blocks + QSA_SCORE_GROUP - 1) / QSA_SCORE_GROUP;
        for (uint32_t row0 = 0; row0 < n_tok; row0 += QSA_STRIP) {
            uint32_t n_row = MIN((uint32_t)QSA_STRIP, n_tok - row0);
            CALL(c, qsa_kernels, K_qsa_score, n_row * groups, struct qsa_score_args, .block = block, .step = step, .iq = s->iq, .scores = s->scores,
                 .row0 = row0, .n_row = n_row);
            CALL(c, qsa_kernels, K_qsa_select, n_row, struct qsa_select_args, .block = block, .step = step, .scores = s->scores, .list = s->list,
                 .row0 = row0, .n_row = n_row);
        }
    }
    CALL(c, qsa_kernels, K_qsa_attend, n_tok * d->n_kv, struct qsa_attend_args, .block = block, .step = step, .qg = s->qg, .list = s->list,
         .out = s->mixed);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_head * d->dim, n_tok);
}
