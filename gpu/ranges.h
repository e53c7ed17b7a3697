/* ranges.h - the allocations of a device in the order of their addresses: from an address to the one it lies in. */
#ifndef HAYATE_GPU_RANGES_H
#define HAYATE_GPU_RANGES_H

#include "gpu/gpu.h"

struct range {
    gpu_addr addr;
    size_t bytes;
    void *owner; /* the backend's own */
};
/* All zero: none. Ranges do not overlap. */
struct ranges {
    struct range *at; /* ascending */
    size_t n, cap;
    size_t bytes;     /* the sum */
};

/* Room for one more; false: out of memory. */
bool ranges_reserve(struct ranges *r);
/* Adds one, for which there is room. */
void ranges_add(struct ranges *r, gpu_addr addr, size_t bytes, void *owner);
/* Removes the one that begins at addr. */
void ranges_remove(struct ranges *r, gpu_addr addr);
/* The range that holds the n bytes from addr on; NULL: they do not lie in one. */
const struct range *ranges_find(const struct ranges *r, gpu_addr addr, size_t n);
void ranges_free(struct ranges *r);

#endif
