/* gpu_kernels.c - the table of the shared rows. */
#include "gpu/gpu_kernels.h"

#define KERNEL KERNEL_CHECK
#include "gpu/gpu_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[GPU_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "gpu/gpu_kernels.def"
#undef KERNEL
};

FAST_DECLARE(gpu_fast);
const struct gpu_kernel_table gpu_kernels = { rows, FAST_TABLES(gpu_fast), GPU_K_COUNT };

/* Four decoded weight rows, each padded to a whole vector. */
size_t gpu_scratch_floats(uint32_t n_in) { return 4 * size_up(n_in, 16); }

void gpu_matmul(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < n_job; i++)
        items += (uint32_t)size_up(jobs[i].w.n_out, MATMUL_GRAIN);
    CALL(c, gpu_kernels, K_matmul, n_tok ? items : 0, struct matmul_args, .x = x, .job = gpu_shared(c, jobs), .x_stride = x_stride, .n_job = n_job,
         .n_tok = n_tok);
}

_Static_assert(sizeof(struct matmul_job) == MATMUL_JOB_BYTES, "the kernels step through jobs by this size");
