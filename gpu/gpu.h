/* gpu.h - what a device is to the rest of the program: memory with 64-bit addresses, kernel rows, a list of calls, a submit.
 *
 * A layer records calls; a call is a kernel row, a block of at most 128 bytes of arguments and a number of items. Recording never fails at
 * the call: the list keeps its first error and gpu_submit() returns it, so a layer reads as a list of operations. Every call sees all that
 * earlier calls of the list wrote. Addresses are 64 bits wide everywhere: a host pointer here, a buffer device address or a
 * device pointer on other backends.
 *
 * The cpu backend runs the plain C reference of a row, or its vectorised twin where there is one. Items are cut in fixed blocks of
 * `grain` that any thread may take: one block is computed by one thread, so results do not depend on the number of threads. */
#ifndef HAYATE_GPU_GPU_H
#define HAYATE_GPU_GPU_H

#include "gpu/base.h"

typedef uint64_t gpu_addr;
#define ADDR(p) ((gpu_addr)(uintptr_t)(p))
#define AT(type, addr) ((type *)(uintptr_t)(addr))

/* Working memory of one thread for the length of one block. */
struct cpu_scratch {
    float *f;
    size_t n; /* floats */
};

/* Computes items first .. first + n - 1 of a call. */
typedef void (*gpu_row_fn)(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch);

/* One row of a kernel table (*_kernels.def). */
struct gpu_kernel {
    const char *id;
    gpu_row_fn ref;      /* plain C reference */
    uint16_t args_bytes;
    uint16_t grain;      /* items per block */
};

/* Instruction sets a twin is compiled for. */
enum cpu_isa { ISA_BASE, ISA_AVX2, ISA_AVX512, ISA_COUNT };

/* A module's rows, and for each instruction set its vectorised twins (entries may be NULL: the reference runs). */
struct gpu_kernel_table {
    const struct gpu_kernel *row;
    const gpu_row_fn *fast[ISA_COUNT];
    uint32_t n;
};

enum { GPU_ARGS_MAX = 128 };
struct gpu_call {
    const struct gpu_kernel_table *table;
    uint32_t id;
    uint32_t n_items;
    uint64_t args[GPU_ARGS_MAX / 8];
};

typedef struct gpu gpu;

struct gpu_cmd {
    struct gpu_call *call;
    uint32_t n, cap;
    float *scratch;
    size_t scratch_n; /* floats per thread */
    struct err err;   /* the first failure while recording */
};

struct gpu_params {
    uint32_t n_threads;     /* 0: the cores this process may use */
    bool reference;         /* run every row's plain C reference, for comparison */
};

status gpu_open_cpu(gpu **out, const struct gpu_params *p, struct err *e);
void gpu_close(gpu *g); /* accepts NULL */
uint32_t gpu_threads(const gpu *g);
const char *gpu_isa_name(const gpu *g);
/* Cores this process may run on (affinity mask). */
uint32_t gpu_cores_available(void);

/* A list that holds up to cap calls. Every thread works in n_per_thread floats of scratch, which holds gpu_threads() times as many
 * and belongs to the caller. */
status gpu_cmd_open(struct gpu_cmd *c, uint32_t cap, float *scratch, size_t n_per_thread, struct err *e);
void gpu_cmd_close(struct gpu_cmd *c);
static inline void gpu_cmd_reset(struct gpu_cmd *c) { c->n = 0; c->err.code = OK; }
/* Records one call; args_bytes must equal the row's. n_items = 0 records nothing. */
void gpu_record(struct gpu_cmd *c, const struct gpu_kernel_table *t, uint32_t id, const void *args, size_t args_bytes, uint32_t n_items);
/* Runs the list to its end. May be called again with the same list: whatever changes between two steps lives in memory that the
 * kernels read. */
status gpu_submit(gpu *g, const struct gpu_cmd *c, struct err *e);

#endif
