/* run_args.h - the runs of a step whose rows may be taken back, and the row that keeps such rows; apart from gpu_args.h, so that a change here leaves other
 * kernels as they are. */
#ifndef HAYATE_GPU_RUN_ARGS_H
#define HAYATE_GPU_RUN_ARGS_H

#include "gpu/gpu_args.h"

/* Rows of a step that follow each other in one sequence. A table of them has as many entries as the step has rows, so that its calls do not depend on whose rows
 * they are: an entry without rows has no sequence, and groups that find one leave at once. What a row does alone finds its sequence by its step block (struct
 * gpu_step, whose n_tok is then how many rows of the run there are up to this one); what goes over the rows of a sequence in order finds it here. */
#define GPU_RUN_BYTES 32
struct gpu_run {
    gpu_addr kept;   /* bytes, modulo 2^64, from where the sequence of the call keeps rows to where this one does */
    uint32_t first;  /* number of its first row in the step */
    uint32_t n;      /* rows; 0: none */
    uint32_t fold;   /* rows of the last step that count, and go into the state of the sequence now */
    uint32_t blocks; /* as in struct gpu_step */
    uint32_t reserved[2];
};

#ifndef HAYATE_KERNEL
/* For rows in C: entry i, or a run of n rows of the sequence of the call where there is no table */
static inline struct gpu_run gpu_run_of(gpu_addr runs, uint32_t i, uint32_t n) { return runs ? AT(const struct gpu_run, runs)[i] : (struct gpu_run){ .n = n }; }
#endif

/* The rows of every run from [n_tok, width] f32 to where its sequence keeps them, [.., width] f32. Items: n_tok * ceil(width / KEEP_SPAN), the runs outermost. */
#define KEEP_SPAN 256
struct keep_args {
    gpu_addr runs;
    gpu_addr from;
    gpu_addr to;    /* of the sequence of the call */
    uint32_t width;
    uint32_t reserved;
};

#endif
