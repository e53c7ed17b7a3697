/* device.h - the interpreter as a backend behind gpu.h: rows run their gfx1151 code objects. For tests only. */
#ifndef HAYATE_TESTS_GFX11_DEVICE_H
#define HAYATE_TESTS_GFX11_DEVICE_H

#include "gpu/gpu.h"
#include "tests/gfx11/gfx11.h"

struct gfx11_options {
    uint64_t limit;   /* instructions of one launch; 0: none */
    bool races;       /* see struct gfx11_run */
    uint32_t poison;  /* a word that means "nobody has written this" when it comes in by gpu_write; 0: there is none */
    /* What kernels may touch, instead of all allocations as a whole; called before every launch. NULL: all allocations. */
    status (*regions)(void *context, gpu *g, struct gfx11_memory *m, struct err *e);
    void *context;
    const void *code; /* a code object that runs instead of the embedded one, for every row; NULL: none */
    size_t code_bytes;
};
/* ERR_NOMEM. */
status gpu_open_gfx11(gpu **out, const struct gfx11_options *o, struct err *e);
/* The shadow of an address inside an allocation: 1 bit per bit, set where nobody has written. */
uint8_t *gfx11_shadow(gpu *g, gpu_addr at);
/* What the last launch took, and the largest so far, in instructions of waves; and all of them. */
struct gfx11_counts {
    uint64_t last, largest, all;
    enum gfx11_fault fault; /* of the last launch */
};
struct gfx11_counts gfx11_counts(const gpu *g);
/* How many of a row's instructions have run since the device was opened. False: the row has not run. */
bool gfx11_row_coverage(const gpu *g, const char *id, uint32_t *n_ran, uint32_t *n_all);
/* How often waves have run the instruction at each word of the code, and that code; NULL: the row has not run. */
const uint64_t *gfx11_row_ran(const gpu *g, const char *id, const struct code **c);

#endif
