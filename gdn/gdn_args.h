/* gdn_args.h - argument structs of the Gated-DeltaNet rows. */
#ifndef HAYATE_GDN_ARGS_H
#define HAYATE_GDN_ARGS_H

#include "gpu/run_args.h"

/* The layer block: what every row of one layer reads. K = key heads, H = value heads, N = head dim; width C = 2*K*N + H*N. */
struct gdn_block {
    gpu_addr conv;   /* [C, taps] f32, last tap = current token */
    gpu_addr a;      /* [H] f32, = -exp(A_log) < 0 */
    gpu_addr dt;     /* [H] f32 */
    gpu_addr norm;   /* [N] f32, applied as it stands (no +1) */
    gpu_addr state;  /* [H, N key, N value] f32 */
    gpu_addr window; /* [taps - 1, C] f32: raw projections of the last tokens, oldest first */
    uint32_t n_k, n_v, dim, taps;
    uint32_t width;
    float eps;
};

/* conv + silu over time per channel, then the window moves on, unless it is to stay. Items: channels; with runs those of each, rounded up to
 * GDN_CONV_GRAIN. */
#define GDN_CONV_GRAIN 64
struct gdn_conv_args {
    gpu_addr block; /* struct gdn_block */
    gpu_addr raw;   /* [n_tok, C] f32 */
    gpu_addr out;   /* [n_tok, C] f32 */
    gpu_addr runs;  /* struct gpu_run, each with a window of its own, or 0 */
    uint32_t n_tok; /* without runs */
    uint32_t stay;  /* 1: the window stays, because these rows may be taken back */
};

/* Recurrence, output norm and gate, for n_tok rows in order. gdn_step goes row by row (decode), gdn_chunk by chunks of GDN_CHUNK
 * rows counted from row 0 (prefill); devices go row by row in both. Items: value heads. */
#define GDN_CHUNK 64
struct gdn_mix_args {
    gpu_addr block;
    gpu_addr qkv;   /* [n_tok, C] f32 after conv */
    gpu_addr gate;  /* [n_tok, H*N] f32: sigmoid(z) */
    gpu_addr beta;  /* [n_tok, H] f32: sigmoid of the beta logits */
    gpu_addr alpha; /* [n_tok, H] f32: decay logits */
    gpu_addr out;   /* [n_tok, H*N] f32 */
    gpu_addr apart; /* gdn_step: see struct gpu_step; then n_tok is 1, and an item is a head of one row, the rows outermost. gdn_verify: struct gpu_run;
                     * then an item is a head of one run, the runs outermost, and n_tok and fold are those of the run. Or 0 */
    uint32_t n_tok;
    uint32_t reserved;
};

/* Rows that may be taken back: first the records of *fold rows of the call before go into the state, one after another and with the arithmetic of a
 * live row; then n_tok rows run from there on a copy, and their records replace the old ones. The state itself never sees a row that is not known to
 * count. A row's outputs and records have the bits that gdn_step gives; n_tok = 0 only folds. Items: value heads. */
struct gdn_verify_args {
    STRUCT(gdn_mix_args) mix;
    gpu_addr fold;  /* u32 */
    gpu_addr k;     /* [row, H, N] f32: normalised key of each value head, so that a head reads what it alone wrote */
    gpu_addr del;   /* [row, H, N] f32: what the row adds along its key */
    gpu_addr decay; /* [row, H] f32 */
};

#endif
