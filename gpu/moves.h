/* moves.h - what a call must move and compute, from its arguments alone: the ledger that times are held against.
 *
 * Counted is what no implementation of the row can avoid when nothing stays in a cache between two calls: every byte once per call, and of a matrix
 * only the rows that are used. Each row has one function, NAME_moves beside NAME_ref, in *_moves.c. */
#ifndef HAYATE_GPU_MOVES_H
#define HAYATE_GPU_MOVES_H

#include <stdint.h>

/* Bytes, and operations. */
struct gpu_moves {
    uint64_t weights;     /* matrices, in the layout that the row reads */
    uint64_t vectors;     /* norm gains, convolution taps, decay constants */
    uint64_t state;       /* K/V, pooled keys, recurrent state, windows: read and written */
    uint64_t activations; /* all that lives for one step: inputs and results of the calls */
    uint64_t flops;       /* multiplications and additions of f32 or f16 numbers; exp and the like count one */
};

static inline uint64_t gpu_moves_bytes(const struct gpu_moves *m) { return m->weights + m->vectors + m->state + m->activations; }
static inline void gpu_moves_add(struct gpu_moves *to, const struct gpu_moves *m)
{
    to->weights += m->weights;
    to->vectors += m->vectors;
    to->state += m->state;
    to->activations += m->activations;
    to->flops += m->flops;
}

/* What a call does not say itself. */
struct gpu_at {
    uint64_t block_delta; /* device address minus host address of the blocks that the arguments point into */
    uint32_t n_items;
    uint32_t n_tok, pos;  /* rows of the step, position of the first */
};

/* Adds to m, which begins as zeros. */
typedef void (*gpu_moves_fn)(const void *args, const struct gpu_at *at, struct gpu_moves *m);

/* A block that the arguments name by its device address, where the host has it. */
static inline const void *gpu_at_block(const struct gpu_at *at, uint64_t addr) { return (const void *)(uintptr_t)(addr - at->block_delta); }

/* Bytes of n floats, or other words of four bytes. */
static inline uint64_t moves_words(uint64_t n) { return 4 * n; }

#endif
