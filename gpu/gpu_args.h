/* gpu_args.h - argument structs of the shared rows, and the small structs in memory that they point to.
 * Fixed-width scalars only, so that every compiler lays them out alike; the kernel language reads this file too, so plain structs and
 * #define constants only. */
#ifndef HAYATE_GPU_ARGS_H
#define HAYATE_GPU_ARGS_H

#ifndef HAYATE_KERNEL
#include "gpu/gpu.h"
#define STRUCT(name) struct name
#endif

/* A weight matrix [n_out, n_in]: n_out rows of row_bytes, in the block format `type` (enum quant_id, on a device enum device_type). */
struct gpu_mat {
    gpu_addr data;
    gpu_addr book;      /* on a device: the type's grid of code words; else unused */
    uint64_t row_bytes;
    uint32_t type;
    uint32_t n_in, n_out;
    uint32_t rows_per_expert; /* distance between two experts in rows; 0: not a bank of experts */
};

/* What a product does to its result before storing it. */
#define ACT_NONE 0
#define ACT_SILU 1
#define ACT_SIGMOID 2
#define ACT_SIGMOID2 3 /* 2 * sigmoid */
#define ACT_CONV 4     /* short convolution over time, then silu: matvec rows only, one row of x or rows that are apart */

/* One product of a call: y[t][r] = act(scale * dot(w[r], x[t])). */
struct matmul_job {
    STRUCT(gpu_mat) w;
    gpu_addr y;        /* [n_tok, y_stride] f32 */
    gpu_addr taps;     /* ACT_CONV: [n_out, n_taps] f32, last tap = current token */
    gpu_addr window;   /* ACT_CONV: [n_taps - 1, n_out] f32, values before the convolution of the last tokens, oldest first; moves on. Apart: each row has
                        * that of the job in its own layer block */
    uint32_t y_stride; /* floats between two rows of y */
    uint32_t act;      /* ACT_* */
    float scale;
    uint32_t n_taps;
};
#define MATMUL_JOB_BYTES 80

/* Several matrices that read the same x in one call. Items: the output rows of job 0, 1, ..., each job's count rounded up to
 * MATMUL_GRAIN, so a block never straddles two jobs. */
#define MATMUL_GRAIN 32
#define MATVEC_JOBS 5
struct matmul_args {
    gpu_addr x;     /* [n_tok, x_stride] f32 */
    gpu_addr job;   /* [n_job] struct matmul_job */
    gpu_addr apart; /* matvec: see struct gpu_step */
    uint32_t x_stride;
    uint32_t n_job;
    uint32_t n_tok;
    uint32_t tok_group;        /* matvec: rows of x that a block covers */
    uint32_t grain;            /* matvec: output rows that a block covers, a multiple of MATVEC_GRAIN */
    uint32_t end[MATVEC_JOBS]; /* matvec: blocks of the jobs 0 .. i; behind the last job its own number again */
};

/* Rows matvec_*: the same products of at most MATVEC_JOBS jobs on a device. Blocks: for each group of tok_group rows of x, the jobs' output rows in
 * blocks of `grain`, each job rounded up. Items = blocks * MATVEC_GRAIN. Every row of x is summed in the order that it has alone, however large a block is.
 * A call finds its job in the arguments: to look through the jobs in memory takes longer than many a product. */
#define MATVEC_GRAIN 16

/* Rows gemm_*: the same products on matrix units, for many rows of x: operands rounded to f16, sums in f32. Blocks: tiles of GEMM_ROWS output
 * rows, each job rounded up, x tiles of GEMM_TOKENS rows of x, which count faster. n_in a multiple of 32. Items = blocks. */
#define GEMM_ROWS 128
#define GEMM_TOKENS 128
#define GEMM_DEPTH 32

/* Up to four pieces of memory copied at once, 16 bytes a unit: what the host has written for a step goes to where kernels read it quickly. Items:
 * units of the longest piece, rounded up to COPY_GRAIN. */
#define COPY_GRAIN 1024
struct copy_args {
    gpu_addr from[4], to[4]; /* aligned to 16 bytes */
    uint32_t n[4];           /* units; 0: no piece */
};

/* The step block: what changes from step to step, in memory that the rows read.
 *
 * Rows are apart where they are of several sequences. Then there is a step block for each row, which describes that row alone, but for n_tok: how many rows of its
 * sequence there are up to it, 1 where each is of a sequence of its own. A call has the layer blocks of one sequence: those of the others lie at a fixed
 * distance behind them, and differ only in the addresses of caches and states. An argument `apart` is the address of these step blocks, or 0: all rows
 * follow each other in one sequence. */
#define GPU_STEP_BYTES 32
struct gpu_step {
    gpu_addr ids;  /* [n_tok] i32 */
    gpu_addr rope; /* [3 + n_tok, rope_dim / 2] pairs (cos, sin) f32; entry j is for position pos - 3 + j */
    uint32_t n_tok;
    uint32_t pos;     /* position of row 0 */
    uint32_t arrived; /* counter of a launch whose last group goes on; 0 between launches */
    uint32_t blocks;  /* apart: bytes from the layer blocks that the call has to those of the row's sequence */
};

#ifndef HAYATE_KERNEL
/* For rows in C, what gpu/lang/apart.h has for kernels */
static inline const struct gpu_step *gpu_step_of(gpu_addr apart, uint32_t r) { return AT(const struct gpu_step, apart) + r; }
static inline gpu_addr gpu_own_block(gpu_addr block, gpu_addr apart, uint32_t r) { return apart ? block + gpu_step_of(apart, r)->blocks : block; }
static inline uint32_t gpu_position(gpu_addr step, gpu_addr apart, uint32_t r)
{
    return apart ? gpu_step_of(apart, r)->pos : AT(const struct gpu_step, step)->pos + r;
}
#endif

/* out[t][s][i] = table[ids[t]][i] for every stream s: the start of the residual; an id beyond the table is its last one. Items: rows. */
struct embed_args {
    gpu_addr step;  /* struct gpu_step */
    gpu_addr table; /* struct gpu_mat */
    gpu_addr out;   /* [n_tok, n_stream, n_in] f32 */
    uint32_t n_stream;
    uint32_t reserved;
};

/* The largest value of a row and where it is: the lowest index among equals. NaN is never the largest; a row (or part of one) without any
 * other value gives ARGMAX_NONE and -infinity. */
#define ARGMAX_SPAN 4096
#define ARGMAX_NONE 0xffffffffu
struct argmax_best {
    uint32_t id;
    float value;
};

/* part[r][i] = the best of columns ARGMAX_SPAN * i .. of row r. Items: n_row * ceil(n / ARGMAX_SPAN). */
struct argmax_part_args {
    gpu_addr x;    /* [n_row, stride] f32 */
    gpu_addr part; /* [n_row, ceil(n / ARGMAX_SPAN)] struct argmax_best, 8-byte aligned */
    uint32_t n, stride;
};

/* best[r] = the best of row r's parts. Items: n_row. */
struct argmax_args {
    gpu_addr part;
    gpu_addr best; /* [n_row] struct argmax_best, 8-byte aligned */
    uint32_t n_part;
    uint32_t reserved;
};

/* Next to no work: count[i] += 1. Items: counters. */
struct bench_empty_args {
    gpu_addr count; /* [n_items] u32 */
};

/* Item i reads n_word words and adds them up, modulo 2^32: sum[i]. write: it stores word number k of the whole array as k instead. */
#define BENCH_READ_ALIGN 1024 /* n_word is a multiple of it */
struct bench_read_args {
    gpu_addr data; /* [n_items, n_word] u32, 16-byte aligned */
    gpu_addr sum;  /* [n_items] u32 */
    uint32_t n_word;
    uint32_t write;
};

#endif
