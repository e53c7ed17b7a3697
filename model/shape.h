/* shape.h - the dimensions of one qwen4exp model, read from the file's metadata and checked once.
 * Names follow spec page "model" section 0.2. Nothing here is a constant of the released model: fine-tunes differ. */
#ifndef HAYATE_MODEL_SHAPE_H
#define HAYATE_MODEL_SHAPE_H

#include "model/gguf.h"

/* Upper bounds that shape_read enforces; arrays and stack space may rely on them. MAX_WIDTH bounds every activation row: n_embd, the
 * wide residual n_stream * n_embd, head counts times head sizes, the channels of the GDN convolution, ... */
enum {
    MAX_LAYER = 256, MAX_NGRAM = 4, MAX_PLE_HEADS = 64, QSA_RATIO = 4, MAX_STREAM = 8, MAX_EMBD = 65536, MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1024, MAX_HEAD_DIM = 1024, MAX_TAPS = 8, MAX_EXPERT = 4096, MAX_EXPERT_USED = 64, MAX_VOCAB = 1 << 24,
};

struct shape {
    uint32_t n_layer;       /* trunk layers, draft blocks not counted */
    uint32_t n_draft;       /* trailing draft (MTP) blocks in the file */
    uint32_t n_vocab;
    uint32_t n_embd;        /* D */
    uint32_t n_stream;      /* hyper-connection streams */
    uint32_t hc_rank;
    uint32_t ctx_train;
    float eps;

    /* sparse attention */
    uint32_t n_head, n_head_kv, head_dim, rope_dim;
    float rope_base;
    uint32_t idx_head, idx_dim, idx_budget; /* budget in tokens */
    bool is_qsa[MAX_LAYER];    /* else Gated DeltaNet; draft blocks, at n_layer and up, are QSA */
    uint8_t ratio[MAX_LAYER];  /* QSA_RATIO, or 0: that layer attends densely (a draft block: what the file says, 0) */

    /* Gated DeltaNet */
    uint32_t gdn_k_head, gdn_v_head, gdn_dim, conv_taps;

    /* experts */
    uint32_t n_expert, n_expert_used, expert_ff, shared_ff;

    /* hashed n-gram table (PLE); ple_layer = -1: none */
    int32_t ple_layer;
    uint32_t ple_ngram, ple_head_per_ngram, ple_head, ple_row, ple_conv_taps;
    int32_t ple_eos, ple_image;
    uint64_t ple_mul[MAX_NGRAM], ple_offset[MAX_PLE_HEADS], ple_size[MAX_PLE_HEADS];

    uint32_t n_qsa, n_gdn;     /* trunk layers of each kind */
};

/* Reads and checks every key of spec page "gguf" section 2.2. Refuses by name what is not a qwen4exp text model: a vision file,
 * a draft-only file, an adapter, another architecture, the pre-release dialect. */
status shape_read(struct shape *s, const gguf *g, struct err *e);

#endif
