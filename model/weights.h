/* weights.h - tensor names to struct fields, once, with expected type and shape. Names and shapes: spec page "gguf" section 3.
 *
 * Matrices stay where they are in the mapping. Vectors (norm gains, convolution taps, decay constants) are used in place when they are aligned F32
 * and are decoded into the model arena otherwise. */
#ifndef HAYATE_MODEL_WEIGHTS_H
#define HAYATE_MODEL_WEIGHTS_H

#include "gpu/gpu_args.h"
#include "model/shape.h"

struct hc_weights {
    gpu_addr norm;                 /* [n_stream * n_embd] f32 */
    struct gpu_mat down, up, inject; /* inject.data = 0 in a final mixer */
};

struct gdn_weights {
    struct gpu_mat qkv, gate, beta, alpha, out;
    gpu_addr conv, a, dt, norm;
};

struct qsa_weights {
    struct gpu_mat q, k, v, out, iq, ik; /* iq.data = 0 where the file has no indexer (a dense layer) */
    gpu_addr q_norm, k_norm, iq_norm, ik_norm;
};

struct moe_weights {
    struct gpu_mat router, gate, up, down;
    struct gpu_mat shared_gate, shared_up, shared_down, shared_scalar;
};

struct layer_weights {
    struct hc_weights hc_attn, hc_ffn;
    union {
        struct gdn_weights gdn;
        struct qsa_weights qsa;
    };
    struct moe_weights moe;
};

struct ple_weights {
    struct gpu_mat key, value;
    gpu_addr norm_key, norm_query, norm_conv, conv;
    struct gpu_mat table[MAX_PLE_HEADS]; /* [ple_size[h], ple_row]: joined and PLE16 files look alike from here on */
    bool joined;
};

/* The draft (MTP) block of the file, bound and checked; not used by the trunk. */
struct draft_weights {
    struct layer_weights layer;
    struct hc_weights head;
    gpu_addr enorm, hnorm;
    struct gpu_mat fc_embd, fc_hidden;     /* [n_embd, n_embd]; of a file with eh_proj its left and its right half */
    struct gpu_mat embd, output;           /* own tables, or data = 0 */
};

struct weights {
    struct gpu_mat token_embd, output;
    struct hc_weights out_hc;
    struct layer_weights layer[MAX_LAYER];
    struct ple_weights ple;
    struct draft_weights draft; /* the first draft block, when shape.n_draft > 0 */
};

/* Binds every tensor of the trunk and the draft block. Run once with an arena that only counts and once with its memory (sizes cannot
 * differ). Errors: ERR_FORMAT "FILE: blk.3.attn_q.weight is [2048, 512], expected [2048, 4096]", "... is missing";
 * ERR_UNSUPPORTED for a type that is no weight type. */
status weights_bind(struct weights *w, const gguf *g, const struct shape *s, struct arena *a, struct err *e);
/* The draft head alone, from a file of its own, for a trunk of shape s; likewise. Its table and output head may be there under the names of a model, and its
 * mixer as output_hc_*. ERR_FORMAT, ERR_UNSUPPORTED also when it is no draft head, or one for another architecture or vocabulary than trunk has. */
status weights_bind_side(struct draft_weights *d, const gguf *g, const gguf *trunk, const struct shape *s, struct arena *a, struct err *e);

#endif
