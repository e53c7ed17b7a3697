/* device_weights.h - from the block formats of the file to the layouts of device_types.h, row by row. */
#ifndef HAYATE_GPU_DEVICE_WEIGHTS_H
#define HAYATE_GPU_DEVICE_WEIGHTS_H

#include "gpu/device_types.h"
#include "gpu/quant.h"

/* The layout a file type goes to: its own, or I8 where no kernel knows it. common: only layouts that every build understands. */
uint32_t device_type_of(uint32_t quant_id, bool common);
/* Which build of a kernel reads a layout: 0 for the common ones (every build does), else 1 .. in the order of device_types.h. */
static inline uint32_t device_build_of(uint32_t device_type) { return DEV_IS_COMMON(device_type) ? 0 : device_type - DEV_I8; }
const char *device_type_name(uint32_t device_type);
/* Whether BF16 holds n weights of type F32 as they are: all lower halves are zero. */
bool device_narrows(const uint8_t *src, size_t n);
/* Bytes of a row of n_in weights, a multiple of 16. */
size_t device_row_bytes(uint32_t device_type, size_t n_in);
/* Packs one row of file type quant_id, also an F32 row that narrows into BF16; n_in a multiple of 16 and of its block length. tmp holds n_in floats (used by some). */
void device_pack_row(uint32_t device_type, uint32_t quant_id, const uint8_t *src, uint8_t *dst, size_t n_in, float *tmp);
/* The plain C decoder of a packed row: what kernels are compared with. */
void device_unpack_row(uint32_t device_type, const uint8_t *src, float *dst, size_t n_in);

#endif
