/* qsa.h - the sparse-attention layer (QSA): K/V and pooled-key caches, indexer, block top-k, attention over the chosen blocks.
 * Mathematics: spec page "model" section 4.
 *
 * A query at position p sees NB = (p + 1) / 4 complete blocks. It attends to the `budget` best of them by index score (all, when there are no
 * more than that; among equal scores the lower block wins) and to the 0..3 tokens of the open block. */
#ifndef HAYATE_QSA_QSA_H
#define HAYATE_QSA_QSA_H

#include "gpu/kernels.h"
#include "qsa/qsa_args.h"
#include "qsa/qsa_cpu_args.h"
#include "qsa/qsa_form_args.h"

enum {
#define KERNEL KERNEL_ID
#include "qsa/qsa_kernels.def"
#undef KERNEL
    QSA_K_COUNT
};
#define KERNEL KERNEL_REF_PROTO
#include "qsa/qsa_kernels.def"
#undef KERNEL
extern const struct gpu_kernel_table qsa_kernels;

/* How a layer computes. Zero is the fast form; the others are for comparison. On the cpu they give the same bits; on a device the mask and the union have
 * another order of sums, and pooled keys have the same bits. */
struct qsa_form {
    bool no_gather; /* attention goes over the whole cache, what was not chosen has weight 0 */
    bool no_union;  /* each row of a prompt reads its own blocks, instead of the union of those of QSA_UNION_ROWS rows */
    bool keep_raw;  /* raw index keys of all positions are kept, ... */
    uint32_t pooled_max_tokens; /* ... and a step of more rows than this computes every pooled key again from them */
};

struct qsa_dims {
    uint32_t n_embd, n_head, n_kv, dim, rope_dim, idx_head, idx_dim;
    uint32_t budget; /* blocks */
    uint32_t n_row;  /* rows of a step that are of several sequences, at most; up to 1: none */
    bool device;     /* not the cpu: few rows choose through spans */
    bool any_dense;  /* some layers have no indexer, whatever the budget */
    struct qsa_form form;
};

/* Cache sizes of one layer for n_ctx positions. */
static inline uint32_t qsa_cap_blocks(size_t n_ctx) { return (uint32_t)((n_ctx + QSA_BLOCK - 1) / QSA_BLOCK); }
size_t qsa_kv_bytes(const struct qsa_dims *d, size_t n_ctx, uint32_t kv_type); /* K plus V */
size_t qsa_pooled_bytes(const struct qsa_dims *d, size_t n_ctx);
size_t qsa_raw_bytes(const struct qsa_dims *d, size_t n_ctx); /* raw index keys of all positions; 0 unless the form keeps them */
static inline size_t qsa_window_floats(const struct qsa_dims *d) { return 3 * (size_t)d->idx_dim; }
size_t qsa_scratch_floats(const struct qsa_dims *d); /* per thread */
/* Whether the kernels of a device are built for these sizes (QSA_DIM_MAX and so on); the cpu takes any. */
bool qsa_device_fits(const struct qsa_dims *d);

static inline uint32_t qsa_score_items(uint32_t cap_blocks, uint32_t n_row)
{
    return (n_row + QSA_SCORE_ROWS - 1) / QSA_SCORE_ROWS * ((cap_blocks + QSA_SCORE_GROUP - 1) / QSA_SCORE_GROUP);
}
/* Parts of the longest list of a layer (budget 0: dense), and how many blocks each has. */
static inline uint32_t qsa_part_blocks(uint32_t budget) { return budget ? QSA_PART : QSA_PART_DENSE; }
static inline uint32_t qsa_parts(uint32_t budget, uint32_t cap_blocks)
{
    uint32_t most = budget ? MIN(budget, cap_blocks) : cap_blocks, each = qsa_part_blocks(budget);
    return most > each ? (most + each - 1) / each : 1;
}

/* Bytes of one tile of K or V. */
static inline size_t qsa_tile_bytes(uint32_t dim, uint32_t kv_type)
{
    size_t n = QSA_BLOCK * (size_t)dim;
    return kv_type == QSA_KV_F32 ? 4 * n : kv_type == QSA_KV_F16 ? 2 * n : n + 2 * QSA_BLOCK * (((size_t)dim + QSA_Q8_GROUP - 1) / QSA_Q8_GROUP);
}

/* Where element (token t, dim d) of kv head j lies in a K or V cache of cap_blocks, counted in elements; the scales of Q8_0 do not count. */
static inline size_t qsa_k_at(const struct qsa_block *b, uint32_t j, size_t t, uint32_t d)
{
    return ((size_t)j * b->cap_blocks + t / QSA_BLOCK) * QSA_BLOCK * b->dim + ((size_t)(d / 8) * QSA_BLOCK + t % QSA_BLOCK) * 8 + d % 8;
}
static inline size_t qsa_v_at(const struct qsa_block *b, uint32_t j, size_t t, uint32_t d)
{
    return ((size_t)j * b->cap_blocks + t / QSA_BLOCK) * QSA_BLOCK * b->dim + (size_t)d * QSA_BLOCK + t % QSA_BLOCK;
}

/* Scratch shared by all layers of this kind, for n_tok rows and cap_blocks of context. */
struct qsa_scratch {
    gpu_addr qg, k, v, iq, ik, scores, list, mixed;
    gpu_addr part, part_ml, groups; /* in the place of the scores */
    gpu_addr count, cut, span;      /* of a choice for few rows on a device */
};
void qsa_scratch_take(struct qsa_scratch *s, struct arena *a, const struct qsa_dims *d, size_t n_tok, uint32_t cap_blocks);

struct qsa_layer {
    struct qsa_block block;
    struct qsa_raw_keys keys; /* only when the form keeps raw keys */
    struct matmul_job in[5]; /* q with gate, k, v, index q, index k; the last two only when block.budget > 0 */
    struct matmul_job out;
};

/* y = QSA(u) for n_tok rows at positions step->pos ...; the caches grow by them. Records only.
 *   u [n_tok, n_embd] f32     y (= layer->out.y) [n_tok, n_embd] f32 */
void qsa_record(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, gpu_addr u,
                uint32_t n_tok);
/* Rows of a step that follow each other in one sequence, whose caches are those of l. */
struct qsa_run {
    const struct qsa_layer *l;
    gpu_addr next;     /* [n, idx_dim] f32: a place for their index keys, because they may be taken back; 0: they count */
    uint32_t first, n; /* rows */
};
/* The same for the n_tok rows of n_run sequences, in order; the step block number i from step on describes run i alone, and the products are those of l. */
void qsa_record_runs(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_run *run, uint32_t n_run, const struct qsa_scratch *s,
                     const struct qsa_dims *d, gpu_addr step, gpu_addr u, uint32_t n_tok);
/* Where n rows of several sequences find what is their own: step blocks (struct gpu_step), and, where the rows may be taken back, runs (struct gpu_run), and where
 * the sequence of the layer keeps index keys, [n, idx_dim] f32. */
struct qsa_apart {
    gpu_addr step;
    gpu_addr runs, next; /* 0: all rows count, and each is of a sequence of its own */
};
/* On a device: the same for n rows (up to d->n_row) in one call, which has the block of l. */
void qsa_record_apart(struct gpu_cmd *c, const struct qsa_layer *l, uint32_t n, const struct qsa_scratch *s, const struct qsa_dims *d,
                      const struct qsa_apart *apart, gpu_addr u);

/* Only what n_tok rows leave in the caches. l is a copy of a layer with k, v and, with an indexer, index k in in[0 .. 2], and with block.n_head =
 * block.idx_head = 0. */
void qsa_record_keys(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, gpu_addr u,
                     uint32_t n_tok);

/* The min(budget, n) largest of scores[n] as ascending indices in out; among equals the lower index. Scores are >= 0 and not NaN.
 * Returns how many. The one implementation of the block top-k. */
uint32_t qsa_top_blocks(const float *scores, uint32_t n, uint32_t budget, uint32_t *out);

#endif
