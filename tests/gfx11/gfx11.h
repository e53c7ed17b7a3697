/* gfx11.h - an interpreter for gfx1151 code objects: the binary that a Radeon 8060S would run, run on the CPU, one instruction after the other,
 * with checks of what the hardware would not forgive.
 *
 *     struct gfx11_memory mem = { 0 };                     what kernels may touch
 *     gfx11_memory_add(&mem, host_pointer, bytes, ...);
 *     struct code *code;
 *     gfx11_load(&code, co, co_bytes, &e);                 ELF, kernel descriptor, all instructions decoded
 *     struct gfx11_run run = { .memory = &mem };
 *     gfx11_run(&run, code, args, args_bytes, n_groups, workgroup, &e);
 *
 * Addresses of the kernel are host addresses. A fault ends the run: one line with its name, the instruction, the place. */
#ifndef HAYATE_TESTS_GFX11_GFX11_H
#define HAYATE_TESTS_GFX11_GFX11_H

#include "gpu/base.h"

enum gfx11_fault {
    GFX11_NO_FAULT,
    GFX11_UNKNOWN,      /* an instruction, encoding or mode that is not known here */
    GFX11_UNWRITTEN,    /* a register or memory that nobody has written reaches a store, an address, exec or a branch */
    GFX11_RACE,         /* two waves touch the same word of LDS, or of memory, without a barrier between */
    GFX11_WAIT,         /* a register is used before the s_waitcnt that covers its load */
    GFX11_RANGE,        /* an address outside of what the kernel may touch */
    GFX11_LANE,         /* a value is taken from a lane that is switched off */
    GFX11_BARRIER,      /* a wave ends while others wait, or nobody can go on */
    GFX11_ENDLESS,      /* more instructions than allowed */
};
const char *gfx11_fault_name(enum gfx11_fault kind);

/* A piece of memory that kernels may touch. */
struct gfx11_region {
    uint8_t *p;
    size_t bytes;    /* may be stored to (unless read_only) and loaded from */
    size_t readable; /* >= bytes: so much may be loaded, because vectors reach over the end */
    uint8_t *bad;    /* [readable] shadow, 1 bit per bit: not written by anybody; NULL: all is written */
    bool read_only;
    struct gfx11_touch *touch; /* inside: who touched it last */
};
struct gfx11_memory {
    struct gfx11_region *region; /* sorted by p, without overlap */
    size_t n, cap;
};
/* ERR_NOMEM only. */
status gfx11_memory_add(struct gfx11_memory *m, struct gfx11_region r, struct err *e);
void gfx11_memory_clear(struct gfx11_memory *m);

struct code;
/* ERR_FORMAT: not a code object for gfx1151 with one kernel. The file may go away afterwards. */
status gfx11_load(struct code **out, const void *file, size_t bytes, struct err *e);
void gfx11_unload(struct code *c); /* accepts NULL */

struct gfx11_run {
    struct gfx11_memory *memory;
    uint64_t limit; /* instructions of all waves; 0: none */
    bool races;     /* look for races in memory that may be written, too; takes eight times its size */
    uint64_t *ran;  /* [gfx11_code_bytes / 4] grows by 1 where an instruction begins and a wave runs it; NULL: nobody wants to know */
    /* results */
    uint64_t n_run;
    enum gfx11_fault fault;
    char message[512];
    /* inside */
    struct gfx11_region *last;
};
/* Runs groups 0 .. n_groups - 1 one after the other. ERR_DEVICE: a fault, run->fault says which. */
status gfx11_run(struct gfx11_run *run, const struct code *c, const void *args, size_t args_bytes, uint32_t n_groups, uint32_t workgroup, struct err *e);

/* The instruction at byte `at` of the code as llvm-objdump-19 would print it; its length in bytes, 0 behind the end. "": unknown. */
size_t gfx11_disassemble(const struct code *c, size_t at, char *text, size_t size);
/* Number of bytes of code. */
size_t gfx11_code_bytes(const struct code *c);
/* How many instructions there are, and how many of them ran[] counts. */
void gfx11_coverage(const struct code *c, const uint64_t *ran, uint32_t *n_ran, uint32_t *n_all);

#endif
