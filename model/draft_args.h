/* draft_args.h - arguments of the draft head's own row; apart from model_args.h, so that a change here leaves other kernels as they are. */
#ifndef HAYATE_MODEL_DRAFT_ARGS_H
#define HAYATE_MODEL_DRAFT_ARGS_H

#include "gpu/gpu_args.h"

/* Input of the draft block (spec 7.2): x[t][s] = rms(e[t]; enorm) | rms(R[t][s]; hnorm[s]), statistics per stream, where R[0] is `first` and R[1 + i] is
 * rest[i]. Items: n_tok * n_stream. */
struct draft_in_args {
    gpu_addr e;     /* [n_tok, n_embd] f32: embeddings */
    gpu_addr first; /* [n_stream, n_embd] f32: wide residual */
    gpu_addr rest;  /* [n_tok - 1, n_stream, n_embd] f32 */
    gpu_addr enorm; /* [n_embd] f32 */
    gpu_addr hnorm; /* [n_stream, n_embd] f32 */
    gpu_addr x;     /* [n_tok, n_stream, 2 * n_embd] f32 */
    uint32_t n_stream, n_embd;
    float eps;
    uint32_t reserved;
};

#endif
