/* gpu_kernels.h - ids and table of the shared rows, and the calls that record them. */
#ifndef HAYATE_GPU_GPU_KERNELS_H
#define HAYATE_GPU_GPU_KERNELS_H

#include "gpu/gpu_args.h"
#include "gpu/int_rows.h"
#include "gpu/kernels.h"
#include "gpu/run_args.h"
#include "gpu/slide_args.h"
#include "gpu/top_args.h"

enum {
#define KERNEL KERNEL_ID
#include "gpu/gpu_kernels.def"
#undef KERNEL
    GPU_K_COUNT
};
#define KERNEL KERNEL_REF_PROTO
#include "gpu/gpu_kernels.def"
#undef KERNEL
extern const struct gpu_kernel_table gpu_kernels;

/* Floats of thread scratch that the shared rows need for matrices of at most n_in columns. */
size_t gpu_scratch_floats(uint32_t n_in);

/* Records y = act(scale * W x) for the jobs of one call; see struct matmul_args. jobs is host-readable memory. */
void gpu_matmul(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok);
/* The same on a device for rows that are apart, where jobs convolve; n_tok up to 8. */
void gpu_matmul_apart(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok, gpu_addr apart);

/* Groups of 256 items that live at once on a large device, about: the first groups of a second wave take as long as all before */
enum { GPU_GROUPS_AT_ONCE = 264 };

/* Cuts the products of a matvec call into blocks: fills grain, end and, where it is 0, tok_group from n_tok and the n_job jobs, which are host-readable, and
 * returns how many blocks there are. grain: output rows of a block; 0: what suits the sizes. */
uint32_t gpu_matvec_blocks(struct matmul_args *a, const struct matmul_job *jobs, uint32_t grain);

/* Rows of x that the build for n_tok rows takes at a time (1, 2, 4, 8), and that build's id, when the builds for 1, 2, 4 and 8 rows are
 * per_step apart in the table, beginning with `first`. */
uint32_t gpu_rows_of(uint32_t n_tok);
uint32_t gpu_rows_build(uint32_t first, uint32_t per_step, uint32_t n_tok);

/* Adds rows of a matrix that are multiplied with n_tok vectors: for *_moves. */
void gpu_add_product(struct gpu_moves *m, const struct gpu_mat *w, uint64_t n_row, uint64_t n_tok);

/* Product of n values x with columns column .. of a row of a matrix in device layout; tmp holds a row. For references. */
double device_dot(const struct gpu_mat *w, uint64_t row, uint32_t column, const float *x, uint32_t n, float *tmp);

/* Records that the n rows of a step [n, width] f32 go to where their sequences keep them (struct keep_args). */
void gpu_keep(struct gpu_cmd *c, gpu_addr runs, gpu_addr from, gpu_addr to, uint32_t width, uint32_t n);
/* Records that rows of x become integers at c->rows + at. */
void gpu_quantise(struct gpu_cmd *c, gpu_addr x, uint32_t x_stride, uint32_t n, uint32_t n_tok, size_t at);
/* Product of row r of a matrix that unpacks with a row of integers; tmp holds a row of weights. For references. */
double int_row_dot(const struct gpu_mat *w, uint64_t r, const uint8_t *row, float *tmp);

/* silu and sigmoid as the formulas have them; the one place that decides their form. */
float act_apply(uint32_t act, float x);

#endif
