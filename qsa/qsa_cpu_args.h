/* qsa_cpu_args.h - argument structs of the sparse-attention rows that only the cpu has; no kernel reads this file. */
#ifndef HAYATE_QSA_CPU_ARGS_H
#define HAYATE_QSA_CPU_ARGS_H

#include "gpu/gpu_args.h"

/* qsa_attend_union: struct qsa_attend_args. Rows QSA_UNION_ROWS * g .. of a step go over the union of their blocks together, ascending, each block
 * used by the rows that chose it. A row meets its own blocks in the order in which it would meet them alone, and its softmax moves on block by block:
 * the same bits. Items: ceil(n_tok / QSA_UNION_ROWS) * n_kv, the rows outermost.
 * qsa_attend_masked: the same for one row, over every block it sees; one it did not choose has weight 0. Items: n_tok * n_kv. */
#define QSA_UNION_ROWS 8

/* Rotated dims of a head at most, for arrays; the model's bound of a head size. */
#define QSA_ROPE_MAX 1024

/* Raw index keys of all positions, for comparison. qsa_keep_raw stores those of the step (items: n_tok); qsa_repool computes the pooled key of every
 * complete block from them (items: cap_blocks). */
struct qsa_raw_args {
    gpu_addr block, step;
    gpu_addr ik;       /* [n_tok, idx_dim] f32 raw */
    gpu_addr raw;      /* [4 * cap_blocks, idx_dim] f32 */
    gpu_addr inv_freq; /* [rope_dim / 2] f32 */
};

#endif
