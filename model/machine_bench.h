/* machine_bench.h - what the files behind machine.h share. */
#ifndef HAYATE_MODEL_MACHINE_BENCH_H
#define HAYATE_MODEL_MACHINE_BENCH_H

#include "gpu/gpu.h"

#define MB 1e6
static const size_t MIB = 1 << 20;

struct bench {
    gpu *g;
    struct gpu_mem mem;   /* what is read and written */
    struct gpu_mem small; /* counters, sums, descriptions of jobs; 1 MiB */
    struct gpu_cmd cmd;
    float *scratch;
    double submit_s;      /* a list of one call */
};

/* Runs the list that was recorded; the best time of one run, in seconds. */
status bench_time(struct bench *b, double *seconds, struct err *e);

/* Rows of a decode step and of a prefill by themselves, in the sizes of the real model: prints a table to stdout. */
status machine_rows(struct bench *b, struct err *e);

#endif
