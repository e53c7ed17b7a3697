/* gpu.h - what a device is to the rest of the program: memory with 64-bit addresses, kernel rows, a list of calls, a submit.
 *
 * A layer records calls; a call is a kernel row, a block of at most 128 bytes of arguments and a number of items. Recording never fails at
 * the call: the list keeps its first error and gpu_submit() returns it, so a layer reads as a list of operations. Every call sees all that
 * earlier calls of the list wrote. Addresses are 64 bits wide everywhere: a host pointer here, a buffer device address or a
 * device pointer on other backends.
 *
 * Items are cut in fixed blocks of `grain`. The cpu backend runs the plain C reference of a row, or its vectorised twin where there is one; any
 * thread may take a block, and one block is computed by one thread. A device computes a block by one workgroup of the row's kernel. So results
 * depend neither on the number of threads nor on the size of the device.
 *
 * Memory comes in two kinds: DEVICE memory belongs to the kernels and is reached from the host by gpu_read and gpu_write only; SHARED memory
 * is mapped, and written by the host between submits (the step block, n-gram rows); a device may reach it slowly. */
#ifndef HAYATE_GPU_GPU_H
#define HAYATE_GPU_GPU_H

#include "gpu/base.h"
#include "gpu/moves.h"

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

/* What a row's kernel needs beyond the base of kernel-language targets; a device without it never runs the row. */
enum gpu_need {
    NEED_MATRIX = 1,      /* cooperative matrix 16x16x16, f16 operands, f32 sums */
    NEED_LAST_GROUP = 2,  /* atomics with device scope */
};

/* One row of a kernel table (*_kernels.def). */
struct gpu_kernel {
    const char *id;
    gpu_row_fn ref;       /* plain C reference */
    gpu_moves_fn moves;   /* what a call must move and compute */
    uint16_t args_bytes;
    uint16_t grain;       /* items per block */
    uint16_t workgroup;   /* work-items of a group; 0: the row has no kernel (cpu only) */
    uint16_t needs;       /* enum gpu_need */
    const char *source;   /* "gdn/gdn_step.k" */
    const char *defines;  /* "-DTYPE=Q8_0 -DROWS=4" */
};

/* Instruction sets a twin is compiled for. */
enum cpu_isa { ISA_BASE, ISA_AVX2, ISA_AVX512, ISA_COUNT };

/* A module's rows, and for each instruction set its vectorised twins (entries may be NULL: the reference runs). */
struct gpu_kernel_table {
    const struct gpu_kernel *row;
    const gpu_row_fn *fast[ISA_COUNT];
    uint32_t n;
};

enum { GPU_ARGS_MAX = 128, GPU_EACH_ROW = UINT8_MAX, GPU_EACH_RUN = UINT8_MAX - 1 };
struct gpu_call {
    const struct gpu_kernel_table *table;
    uint32_t id;
    uint32_t n_items;
    bool parallel; /* needs no barrier after the call before */
    uint8_t together; /* cpu: blocks that a thread takes at once; 0: 1 */
    uint8_t row;   /* of a step with rows of several sequences: 1 + the row that the call is for alone; GPU_EACH_ROW: each row, GPU_EACH_RUN: each run, in its own;
                    * 0: all rows */
    const char *part; /* of the model, for profiles: see struct gpu_cmd */
    uint64_t args[GPU_ARGS_MAX / 8];
};

typedef struct gpu gpu;

enum gpu_backend { GPU_CPU, GPU_VULKAN, GPU_HIP, GPU_CUDA };
const char *gpu_backend_name(enum gpu_backend b); /* "cpu", "vulkan", "hip", "cuda" */

struct gpu_params {
    uint32_t n_threads;   /* cpu. 0: the cores this process may use */
    bool reference;       /* cpu: run every row's plain C reference, for comparison */
    uint32_t isa;         /* cpu: 1 + enum cpu_isa takes the twins of this set, ERR_DEVICE where the machine lacks it; 0: the best there is */
    uint32_t device;      /* others: index in the list of gpu_print_devices() or gpu_print_hip_devices() */
    bool no_software;     /* others: refuse a device that is the CPU in disguise (see struct gpu_info) */
    size_t alloc_limit;   /* largest single allocation in bytes, for tests; 0: what the device says */
    bool staged;          /* host and device share no memory, even where they could: for tests */
    uint32_t watchdog_s;  /* a submit that takes longer is an error, not a hang. 0: 60, on a device in software 600 */
    bool no_graph;        /* hip: launch every call of a list by itself, for comparison */
    const char *cache_dir; /* compiled pipelines are kept there; NULL: nowhere */
};

/* What can be said about a device before and after opening it. */
struct gpu_info {
    enum gpu_backend backend;
    char name[256], driver[256];
    uint64_t device_bytes, shared_bytes, alloc_limit;
    uint64_t carved_bytes;                             /* integrated: the part of device_bytes that the host never had; 0: unknown */
    uint32_t subgroup_min, subgroup_max, subgroup;     /* subgroup: what kernels run with */
    uint32_t group_memory;                             /* bytes of SHARED(...) per group */
    bool integrated;
    bool software;                                     /* a program on the CPU that speaks like a device; slower than the cpu backend */
    bool matrix, last_group;                           /* see enum gpu_need */
};

status gpu_open_cpu(gpu **out, const struct gpu_params *p, struct err *e);
/* ERR_DEVICE: no loader, no device, a device without a feature that is needed (by name). */
status gpu_open_vulkan(gpu **out, const struct gpu_params *p, struct err *e);
/* A device that is not there, like the one that is described: it hands out addresses and takes lists, but keeps no bytes and runs nothing (reads give
 * zeros). For recording what a device would be sent. */
status gpu_open_recorder(gpu **out, const struct gpu_info *like, struct err *e);
/* ERR_DEVICE: no ROCm, no device, a device of another architecture than the kernels in this program (by name). */
status gpu_open_hip(gpu **out, const struct gpu_params *p, struct err *e);
#ifdef CUDA_TWIN
/* The same code on CUDA's driver interface, in test builds. */
status gpu_open_cuda(gpu **out, const struct gpu_params *p, struct err *e);
#endif
void gpu_close(gpu *g); /* accepts NULL */
enum gpu_backend gpu_backend_of(const gpu *g);
const struct gpu_info *gpu_info_of(const gpu *g);
/* Whether this device can run a row. */
bool gpu_has(const gpu *g, const struct gpu_kernel_table *t, uint32_t id);
/* Prints what `info --devices` shows of a backend's devices; a backend that is not there is one line, no error. */
void gpu_print_devices(void); /* Vulkan */
void gpu_print_hip_devices(void);

uint32_t gpu_threads(const gpu *g);
const char *gpu_isa_name(const gpu *g);
/* cpu: whether this row runs as a vectorised twin on this machine. Other backends: false. */
bool gpu_has_twin(const gpu *g, const struct gpu_kernel_table *t, uint32_t id);
/* Cores this process may run on (affinity mask). */
uint32_t gpu_cores_available(void);

/* ---- memory ---- */

enum gpu_mem_kind { GPU_MEM_DEVICE, GPU_MEM_SHARED };
struct gpu_mem {
    gpu_addr addr;
    void *host;   /* SHARED: mapped; DEVICE: NULL, except on the cpu */
    void *map;    /* DEVICE: where any thread may write while no list runs, and should not read; NULL: gpu_write is the way */
    size_t bytes;
    void *impl;   /* the backend's own */
};
/* Zeroed memory. ERR_NOMEM, ERR_DEVICE: one line with `what` and the sizes. */
status gpu_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e);
void gpu_free(gpu *g, struct gpu_mem *m); /* accepts memory that was never allocated */
/* Transfers, complete on return and behind all lists that were started before. A range lies inside one allocation of g, wherever it starts;
 * the two ranges of a copy do not overlap. */
status gpu_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e);
status gpu_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e);
status gpu_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e);
status gpu_clear(gpu *g, gpu_addr at, size_t n, struct err *e);
/* The sum of all allocations that live, to the byte as they were asked for, and what the driver says is in use (0: it does not say). */
void gpu_memory_used(gpu *g, uint64_t *asked, uint64_t *driver);

/* ---- calls ---- */

struct gpu_cmd {
    gpu *gpu;
    struct gpu_call *call;
    uint32_t n, cap;
    gpu_addr block_delta;  /* device address minus host address of the layer blocks that the calls point into */
    float *scratch;        /* cpu */
    size_t scratch_n;      /* floats per thread */
    const char *part;      /* of the model that the calls to come belong to: "moe"; set by whoever records, NULL: none */
    uint8_t row;           /* of struct gpu_call, for the calls to come */
    bool matrix;           /* products of many rows may run on matrix units, where the device has them (operands rounded to f16) */
    gpu_addr rows;         /* cpu: products with quantised weights keep their activations here, as integers (int_rows.h); 0: all in f32 */
    void *recording;       /* the backend's form of the list, made at the first submit; NULL: none yet */
    struct err err;        /* the first failure while recording */
};

/* A list that holds up to cap calls. On the cpu every thread works in n_per_thread floats of scratch, which holds gpu_threads() times as many
 * and belongs to the caller. */
status gpu_cmd_open(gpu *g, struct gpu_cmd *c, uint32_t cap, float *scratch, size_t n_per_thread, struct err *e);
void gpu_cmd_close(struct gpu_cmd *c);
/* Empties the list. The device must not be running it. */
void gpu_cmd_reset(struct gpu_cmd *c);
/* Records one call; args_bytes must equal the row's. n_items = 0 records nothing. */
void gpu_record(struct gpu_cmd *c, const struct gpu_kernel_table *t, uint32_t id, const void *args, size_t args_bytes, uint32_t n_items);
/* The last recorded call depends neither on the one before it nor on those that this one is parallel to: all may run at once. */
void gpu_record_parallel(struct gpu_cmd *c);
/* cpu: of the last recorded call a thread takes several blocks at once, as one of so many items: what it reads in a run is then longer. How many is up to the
 * number of threads: `most` at most, a divisor of `within` (0: any number). Only for rows whose results do not depend on it. */
void gpu_record_together(struct gpu_cmd *c, uint32_t most, uint32_t within);
/* The calls from `first` on are n_run runs of equally many calls, each of which depends on no other run: they are brought in an order in which the first
 * calls of all runs stand together, then the second ones, so that a device may run those at once. */
void gpu_record_side_by_side(struct gpu_cmd *c, uint32_t first, uint32_t n_run);
/* Where kernels find a layer block that the host knows by p. */
static inline gpu_addr gpu_block(const struct gpu_cmd *c, const void *p) { return ADDR(p) + c->block_delta; }

/* Runs the list to its end. May be called again with the same list: whatever changes between two steps lives in memory that the
 * kernels read. */
status gpu_submit(gpu *g, struct gpu_cmd *c, struct err *e);
/* The same in two halves: lists run in the order in which they were started; gpu_wait returns when all have ended. */
status gpu_start(gpu *g, struct gpu_cmd *c, struct err *e);
status gpu_wait(gpu *g, struct err *e);
/* As gpu_submit, and says how long each of the c->n calls took. */
status gpu_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e);
/* What a call must move and compute, in a step of n_tok rows whose first is at position pos. */
struct gpu_moves gpu_moves_of(const struct gpu_cmd *c, const struct gpu_call *call, uint32_t pos, uint32_t n_tok);

#endif
