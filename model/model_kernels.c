/* model_kernels.c - the table of the rows in model_kernels.def. */
#include "model/model_kernels.h"

#define KERNEL KERNEL_CHECK
#include "model/model_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[MODEL_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "model/model_kernels.def"
#undef KERNEL
};

FAST_DECLARE(model_fast);
const struct gpu_kernel_table model_kernels = { rows, FAST_TABLES(model_fast), MODEL_K_COUNT };

/* Four decoded rows of gate and four of up. */
size_t model_scratch_floats(uint32_t n_embd, uint32_t ff) { return 8 * size_up(MAX(n_embd, ff), 16); }
