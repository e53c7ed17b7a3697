/* model_kernels.h - ids and table of the rows in model_kernels.def. */
#ifndef HAYATE_MODEL_MODEL_KERNELS_H
#define HAYATE_MODEL_MODEL_KERNELS_H

#include "gpu/kernels.h"
#include "model/model_args.h"

enum {
#define KERNEL KERNEL_ID
#include "model/model_kernels.def"
#undef KERNEL
    MODEL_K_COUNT
};
#define KERNEL KERNEL_REF_PROTO
#include "model/model_kernels.def"
#undef KERNEL
extern const struct gpu_kernel_table model_kernels;

/* Floats of thread scratch that these rows need. */
size_t model_scratch_floats(uint32_t n_embd, uint32_t ff);

#endif
