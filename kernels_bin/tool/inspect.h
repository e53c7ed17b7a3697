/* inspect.h - what a kernel binary says about itself, read without any tool chain. */
#ifndef HAYATE_KERNELS_BIN_TOOL_INSPECT_H
#define HAYATE_KERNELS_BIN_TOOL_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spirv_info {
    char entry[64];        /* of the one GLCompute entry point */
    uint32_t local[3];     /* LocalSize */
    uint32_t push_bytes;   /* the push-constant block, padded to its alignment */
    uint32_t shared_bytes; /* variables of the Workgroup class */
    bool matrix;           /* cooperative matrices are used */
};
/* NULL, or what is wrong with the module. */
const char *spirv_inspect(struct spirv_info *info, const void *bytes, size_t n);

struct code_info {
    char target[64], name[64];
    uint32_t kernarg, workgroup, wavefront, vgpr, sgpr, lds, scratch, vgpr_spills, sgpr_spills;
};
/* The same for a code object with one kernel. */
const char *code_inspect(struct code_info *info, const void *bytes, size_t n);

/* What the tables say of a row. */
struct kernel_want {
    const char *id;
    uint32_t workgroup, args_bytes;
    bool matrix, base; /* base: bound to the 24 KB of shared memory that every device has */
};
/* NULL, or the first thing in which the binary is not the row's; text lives until the next call. */
const char *spirv_differs(const struct kernel_want *w, const void *bytes, size_t n, struct spirv_info *info);
const char *code_differs(const struct kernel_want *w, const void *bytes, size_t n, struct code_info *info);

#endif
