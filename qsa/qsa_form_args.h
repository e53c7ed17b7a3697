/* qsa_form_args.h - argument structs of the sparse-attention rows of forms for comparison (struct qsa_form). */
#ifndef HAYATE_QSA_FORM_ARGS_H
#define HAYATE_QSA_FORM_ARGS_H

#include "gpu/gpu_args.h"

/* qsa_attend_masked: the attention of struct qsa_attend_args over every block that a row sees; one that it did not choose has weight 0.
 * Items: n_tok * n_kv, the rows outermost. */
struct qsa_masked_args {
    gpu_addr block, step;
    gpu_addr qg, list, out; /* as struct qsa_attend_args has them */
    gpu_addr apart;         /* see struct gpu_step */
};

/* The part of a layer block that only the form with raw keys has: the index keys of all positions, and how the pooled key of a block is turned, which is
 * one table for all layers and sequences. */
struct qsa_raw_keys {
    gpu_addr raw;  /* [4 * cap_blocks, idx_dim] f32 */
    gpu_addr turn; /* [cap_blocks, rope_dim / 2] pairs (cos, sin) f32, of the first position of every block, with the bits of the table of a step */
};

/* qsa_keep_raw stores the keys of the step's rows. Items: n_tok. qsa_repool computes the pooled key of every complete block from them, with the bits that
 * qsa_prep left. Items: cap_blocks rounded up to QSA_REPOOL_GRAIN; apart: so many for each row, the rows outermost. */
#define QSA_REPOOL_GRAIN 8
struct qsa_raw_args {
    gpu_addr block, step;
    gpu_addr keys;  /* struct qsa_raw_keys, in the layer blocks */
    gpu_addr ik;    /* [n_tok, idx_dim] f32 raw: qsa_keep_raw only */
    gpu_addr apart; /* see struct gpu_step */
};

#endif
