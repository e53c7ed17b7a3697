/* hip.h - inside the HIP backend: what its files share.
 *
 *     hip_api.c      the runtime, found at run time, as a table of entry points; which devices its binaries run on
 *     hip_device.c   the list of devices, which one is taken, how much memory it has
 *     hip_memory.c   allocations and transfers
 *     hip_list.c     kernel rows to functions, lists of calls to graphs, submitting and waiting
 *
 * HIP's module interface and CUDA's driver interface have the same shape, so the files behind hip_api.c know neither by name. The CUDA table is
 * in test builds only (make cuda-twin), to run the backend and the kernels on an NVIDIA GPU.
 *
 * One device, one stream: work runs in the order in which it was given to it. No header of either vendor is used; what is declared here has been
 * the same in ROCm 5.3 to 7 and CUDA 12 and 13. */
#ifndef HAYATE_GPU_HIP_HIP_H
#define HAYATE_GPU_HIP_HIP_H

#include "gpu/gpu_backend.h"
#include "gpu/ranges.h"

#include "kernels_bin/kernels_bin.h"

#include <pthread.h>

/* ---- the runtime (hip_api.c) ---- */

typedef struct hip_stream_t *hip_stream;
typedef struct hip_event_t *hip_event;
typedef struct hip_module_t *hip_module;
typedef struct hip_function_t *hip_function;
typedef struct hip_graph_t *hip_graph;
typedef struct hip_exec_t *hip_exec; /* a graph that can be launched */

/* Entry points: field, name after "hip", name after "cu", arguments. Each returns 0 or an error number. */
#define HIP_FUNCTIONS(F)                                                                                                                    \
    F(init, Init, Init, (unsigned flags))                                                                                                   \
    F(driver_version, DriverGetVersion, DriverGetVersion, (int *version))                                                                   \
    F(device_count, GetDeviceCount, DeviceGetCount, (int *n))                                                                               \
    F(device_get, DeviceGet, DeviceGet, (int *device, int index))                                                                           \
    F(device_name, DeviceGetName, DeviceGetName, (char *name, int room, int device))                                                        \
    F(device_bus, DeviceGetPCIBusId, DeviceGetPCIBusId, (char *id, int room, int device))                                                   \
    F(device_bytes, DeviceTotalMem, DeviceTotalMem_v2, (size_t *bytes, int device))                                                         \
    F(memory_info, MemGetInfo, MemGetInfo_v2, (size_t *left, size_t *all))                                                                  \
    F(memory_alloc, Malloc, MemAlloc_v2, (gpu_addr *at, size_t n))                                                                          \
    F(memory_free, Free, MemFree_v2, (gpu_addr at))                                                                                         \
    F(host_alloc, HostMalloc, MemHostAlloc, (void **at, size_t n, unsigned flags))                                                          \
    F(host_address, HostGetDevicePointer, MemHostGetDevicePointer_v2, (gpu_addr *on_device, void *at, unsigned flags))                      \
    F(host_free, HostFree, MemFreeHost, (void *at))                                                                                         \
    F(copy_in, MemcpyHtoDAsync, MemcpyHtoDAsync_v2, (gpu_addr to, const void *from, size_t n, hip_stream s))                                \
    F(copy_out, MemcpyDtoHAsync, MemcpyDtoHAsync_v2, (void *to, gpu_addr from, size_t n, hip_stream s))                                     \
    F(copy_inside, MemcpyDtoDAsync, MemcpyDtoDAsync_v2, (gpu_addr to, gpu_addr from, size_t n, hip_stream s))                               \
    F(fill, MemsetD8Async, MemsetD8Async, (gpu_addr at, unsigned char byte, size_t n, hip_stream s))                                        \
    F(stream_create, StreamCreateWithFlags, StreamCreate, (hip_stream *s, unsigned flags))                                                  \
    F(stream_destroy, StreamDestroy, StreamDestroy_v2, (hip_stream s))                                                                      \
    F(stream_query, StreamQuery, StreamQuery, (hip_stream s))                                                                               \
    F(event_create, EventCreateWithFlags, EventCreate, (hip_event *v, unsigned flags))                                                      \
    F(event_destroy, EventDestroy, EventDestroy_v2, (hip_event v))                                                                          \
    F(event_record, EventRecord, EventRecord, (hip_event v, hip_stream s))                                                                  \
    F(event_query, EventQuery, EventQuery, (hip_event v))                                                                                   \
    F(event_elapsed, EventElapsedTime, EventElapsedTime, (float *ms, hip_event from, hip_event to))                                         \
    F(module_load, ModuleLoadData, ModuleLoadData, (hip_module *m, const void *image))                                                      \
    F(module_unload, ModuleUnload, ModuleUnload, (hip_module m))                                                                            \
    F(module_function, ModuleGetFunction, ModuleGetFunction, (hip_function *f, hip_module m, const char *name))                             \
    F(launch, ModuleLaunchKernel, LaunchKernel,                                                                                             \
      (hip_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, hip_stream s,         \
       void **args, void **extra))                                                                                                          \
    F(capture_begin, StreamBeginCapture, StreamBeginCapture_v2, (hip_stream s, int mode))                                                   \
    F(capture_end, StreamEndCapture, StreamEndCapture, (hip_stream s, hip_graph *g))                                                        \
    F(graph_instantiate, GraphInstantiateWithFlags, GraphInstantiateWithFlags, (hip_exec *x, hip_graph g, unsigned long long flags))        \
    F(graph_launch, GraphLaunch, GraphLaunch, (hip_exec x, hip_stream s))                                                                   \
    F(exec_destroy, GraphExecDestroy, GraphExecDestroy, (hip_exec x))                                                                       \
    F(graph_destroy, GraphDestroy, GraphDestroy, (hip_graph g))

#define HIP_FUNCTION_FIELD(field, hip, cuda, args) int(*field) args;
struct hip_fn {
    HIP_FUNCTIONS(HIP_FUNCTION_FIELD)
};

/* Numbers that mean the same in both */
enum { HIP_OK = 0, HIP_NO_MEMORY = 2, HIP_NOT_READY = 600 };
enum { HIP_STREAM_APART = 1, HIP_EVENT_NO_TIME = 2, HIP_CAPTURE_THIS_THREAD = 1 };

struct hip_phys;
struct hip_rt;
/* In what HIP and CUDA differ beside the names of functions. */
struct hip_api {
    enum gpu_backend backend;
    const char *name;             /* in front of messages */
    const char *file;             /* what a message calls the library */
    const char *const *libraries; /* tried in this order; ends with NULL */
    const char *folders;          /* where a library is looked for that the loader does not find; a pattern, or NULL */
    const char *runtime;          /* what has to be installed: "ROCm" */
    const char *target;           /* the architecture of the binaries in this program */
    uint32_t groups_max;          /* of a launch; 0: as many as give less than 2^32 items */
    unsigned host_shared;         /* flags of host_alloc: memory in which both sides see at once what the other one writes */
    unsigned host_cached;         /* memory that the device caches: what replaces its own where that is too small */
    status (*load)(struct hip_rt *rt, struct err *e);      /* fills rt->f and rt->own */
    int (*describe)(const struct hip_rt *rt, struct hip_phys *p); /* architecture and what follows from it; may leave a refusal */
    int (*enter)(struct hip_rt *rt, int device);           /* once, before the device is used */
    int (*here)(const struct hip_rt *rt, int device);      /* makes it the device of the calling thread: both keep one per thread */
    void (*leave)(const struct hip_rt *rt, int device);
    const char *(*error_name)(const struct hip_rt *rt, int error); /* NULL: it has none */
    const uint8_t *(*binary)(const struct kernel_bin *b);  /* NULL: the row has none for this target */
};
extern const struct hip_api hip_api_hip;
#ifdef CUDA_TWIN
extern const struct hip_api hip_api_cuda;
#endif

struct hip_rt {
    const struct hip_api *api;
    void *lib;
    char lib_name[160];
    struct hip_fn f;
    void (*own[5])(void); /* entry points that only one of the two has; hip_api.c knows which */
    void *context;        /* CUDA: of the device that was entered */
};

/* ERR_DEVICE: nothing installed, an entry point that is missing (by name), no device. */
status hip_rt_open(struct hip_rt *rt, const struct hip_api *api, struct err *e);
/* "hipErrorOutOfMemory"; where the runtime knows no name, the number */
const char *hip_error(const struct hip_rt *rt, int error);

/* ---- devices (hip_device.c) ---- */

/* Memory of an integrated device: what was set aside for it at boot and what it may take of the host's; 0 where the system does not say. */
struct hip_shared_memory {
    uint64_t carved, host;
};
/* From ROOT/BUS/mem_info_{vram,gtt}_total; bus "0000:c5:00.0", in any case of letters. */
struct hip_shared_memory hip_shared_memory(const char *root, const char *bus);

/* A device as it is found. */
struct hip_phys {
    int device;
    char name[256], arch[64], bus[32];
    uint64_t bytes;              /* that the runtime allocates from */
    struct hip_shared_memory sys;
    bool integrated;
    uint32_t group_memory, workgroup_max;
    char refusal[160];           /* why hayate does not use it; empty: it does */
};
/* What the runtime offers, and the rest of the host's part where it only offers what was set aside at boot. */
uint64_t hip_usable_bytes(const struct hip_phys *p);

/* ---- an open device ---- */

struct hip_mem {
    gpu_addr addr;
    uint8_t *map; /* where the host reads and writes it; NULL: it cannot */
    bool on_host; /* memory of the host that the runtime pinned */
};

enum { HIP_SLOTS = 2, HIP_SLOT_BYTES = 16 << 20 };
/* Memory that both sides reach, and the event behind the transfer that last used it. */
struct hip_slot {
    struct hip_mem mem;
    hip_event event;
    bool open, busy;
};

struct hip_row {
    const struct gpu_kernel *row;
    hip_module module;
    hip_function function;
};

struct hip {
    gpu base;
    struct hip_rt rt;
    struct hip_phys phys;
    bool entered, no_graph;
    pthread_t thread;         /* the one that called last, whose device this is */
    hip_stream stream;
    bool busy;                /* something was given to the stream that nobody has waited for */
    uint64_t watchdog_ns;
    struct err dead;          /* code OK while the device lives; afterwards what every call answers */
    bool hung;                /* it may still be working on what it was given */

    struct ranges mem;        /* owners are struct hip_mem */
    struct hip_slot slot[HIP_SLOTS];
    uint32_t next_slot;

    struct hip_row *row;      /* ascending row addresses */
    size_t n_rows, cap_rows;
};
static inline struct hip *hip_of(gpu *g) { return (struct hip *)(void *)g; }

/* ---- hip_memory.c ---- */

status hip_slots_open(struct hip *h, struct err *e);
void hip_memory_close(struct hip *h); /* all memory, also what its owners have not freed */
status hip_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e);
void hip_free(gpu *g, struct gpu_mem *m);
status hip_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e);
status hip_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e);
status hip_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e);
status hip_clear(gpu *g, gpu_addr at, size_t n, struct err *e);
void hip_memory_used(gpu *g, uint64_t *asked, uint64_t *driver);

/* ---- hip_list.c ---- */

/* What every call begins with: whether the device lives, and that it is the one of the calling thread. */
status hip_alive(struct hip *h, struct err *e);
/* Ends the use of the device: this call and all later ones answer that `doing` failed. */
status hip_lose(struct hip *h, int error, const char *doing, struct err *e);
/* Returns when an event has come, event NULL: when the stream has nothing left to do. */
status hip_reach(struct hip *h, hip_event event, struct err *e);
bool hip_has(const gpu *g, const struct gpu_kernel *row);
void hip_rows_close(struct hip *h);
void hip_forget(gpu *g, struct gpu_cmd *c);
status hip_start(gpu *g, struct gpu_cmd *c, struct err *e);
status hip_wait(gpu *g, struct err *e);
status hip_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e);

#endif
