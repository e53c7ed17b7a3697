/* kernels_bin.h - the kernels that were compiled ahead of time, inside the program. */
#ifndef HAYATE_KERNELS_BIN_H
#define HAYATE_KERNELS_BIN_H

#include <stddef.h>
#include <stdint.h>

/* The binaries of one row, aligned to 64 bytes; NULL and 0 where there is none for a target. */
struct kernel_bin {
    const char *id;
    const uint8_t *spirv;
    size_t spirv_bytes;
    const uint8_t *gfx1151;
    size_t gfx1151_bytes;
    const uint8_t *sm_90; /* in test builds only (make cuda-twin) */
    size_t sm_90_bytes;
};

/* NULL: the row has no binary at all. */
const struct kernel_bin *kernel_bin_find(const char *id);
/* All of them, sorted by id. */
const struct kernel_bin *kernel_bin_list(size_t *n);
/* MANIFEST.tsv as it was built in: lines of fields separated by tabs, the first one names the fields. */
const char *kernel_bin_manifest(size_t *n);

#endif
