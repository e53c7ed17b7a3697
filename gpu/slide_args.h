/* slide_args.h - arguments of the row that moves windows of past values on; apart from gpu_args.h, so that a change here leaves other kernels as they
 * are. */
#ifndef HAYATE_GPU_SLIDE_ARGS_H
#define HAYATE_GPU_SLIDE_ARGS_H

#include "gpu/run_args.h"

/* A window [past, width] f32, oldest first, and the rows [.., width] f32 that may follow it. */
struct slide_job {
    gpu_addr window;
    gpu_addr next;
    gpu_addr live;   /* 0, or a second place that receives the window too: for rows that move their window whether they count or not */
    uint32_t width, past;
};

/* Every window moves on by *count of its next rows. Items: n_job * spans, an item being SLIDE_SPAN columns of a job; spans covers the widest. With runs the
 * same for each of n of them, whose jobs lie in their own layer blocks and whose counts they have: n times as many items, the runs outermost. */
#define SLIDE_SPAN 256
struct slide_args {
    gpu_addr job;   /* [n_job] struct slide_job */
    gpu_addr count; /* u32; without runs */
    gpu_addr runs;  /* [n] struct gpu_run, or 0 */
    uint32_t n_job, spans;
};

#endif
