/* fake_hip.c - a libamdhip64 for machines without one: the entry points that gpu/hip uses, on memory of the host, with the host builds of the
 * kernels. It takes the code objects of the program and believes what they say of themselves (name, workgroup, bytes of arguments), but runs the kernel of
 * the same row that was compiled for the host.
 *
 * It is stricter than the real one. Work is put off until somebody asks for it twice, so memory that is read or reused too early has the wrong
 * contents. Memory of the host has another address on the device. Handles, ranges and sizes are checked; what a real runtime might not forgive ends
 * the program with a line.
 *
 *     FAKE_HIP_FAIL=hipMalloc:3:2     the 3rd hipMalloc returns error 2
 *     FAKE_HIP_ARCH, FAKE_HIP_DEVICES, FAKE_HIP_MEMORY (MiB), FAKE_HIP_HANG=1
 *
 * Built with -DROCM_5 it has the properties of that time. */
#define _GNU_SOURCE
#include "tests/fake_hip.h"

#include "gpu/lang/host_run.h"
#include "kernels_bin/tool/inspect.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200, NO_BINARY = 209, NOT_FOUND = 500, NOT_READY = 600,
       LAUNCH_FAILURE = 719, CAPTURE_UNSUPPORTED = 900 };

static const struct {
    int code;
    const char *name;
} errors[] = {
    { SUCCESS, "hipSuccess" }, { INVALID, "hipErrorInvalidValue" }, { NO_MEMORY, "hipErrorOutOfMemory" }, { NO_DEVICE, "hipErrorNoDevice" },
    { BAD_DEVICE, "hipErrorInvalidDevice" }, { BAD_IMAGE, "hipErrorInvalidImage" }, { NO_BINARY, "hipErrorNoBinaryForGpu" },
    { NOT_FOUND, "hipErrorNotFound" }, { NOT_READY, "hipErrorNotReady" }, { LAUNCH_FAILURE, "hipErrorLaunchFailure" },
    { CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported" },
};

static void die(const char *entry, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "fake_hip: %s: %s\n", entry, what);
    abort();
}

/* ---- entering: counts, planted errors ---- */

static struct {
    char entry[64];
    unsigned nth;
    int code;
} planted;
static struct counter {
    const char *entry;
    unsigned n;
} counters[64];
static int hangs, entered = -1;
static pthread_t caller;

void fake_hip_fail(const char *entry, unsigned nth, int code)
{
    memset(counters, 0, sizeof counters);
    snprintf(planted.entry, sizeof planted.entry, "%s", entry ? entry : "");
    planted.nth = nth;
    planted.code = code;
}
void fake_hip_hang(int h) { hangs = h; }

static struct counter *counter_of(const char *entry)
{
    size_t i = 0;
    while (counters[i].entry && strcmp(counters[i].entry, entry) != 0)
        if (++i == sizeof counters / sizeof *counters)
            die(entry, "more entry points than counters");
    counters[i].entry = entry;
    return &counters[i];
}
unsigned fake_hip_calls(const char *entry) { return counter_of(entry)->n; }

static void read_environment(void)
{
    static int done;
    const char *fail = getenv("FAKE_HIP_FAIL"), *hang = getenv("FAKE_HIP_HANG");
    char entry[64];
    unsigned nth;
    int code;
    if (done++)
        return;
    caller = pthread_self();
    hangs = hang != NULL;
    if (fail && sscanf(fail, "%63[^:]:%u:%d", entry, &nth, &code) == 3)
        fake_hip_fail(entry, nth, code);
}

static int enter(const char *entry)
{
    read_environment();
    if (!pthread_equal(caller, pthread_self()))
        die(entry, "called by another thread");
    return ++counter_of(entry)->n == planted.nth && strcmp(entry, planted.entry) == 0 ? planted.code : SUCCESS;
}
#define API(name, ...)                                                                        \
    int hip##name(__VA_ARGS__);                                                               \
    int hip##name(__VA_ARGS__)
#define ENTER(name)                                                                           \
    do {                                                                                      \
        int enter_ = enter("hip" #name);                                                      \
        if (enter_ != SUCCESS)                                                                \
            return enter_;                                                                    \
    } while (0)
/* What belongs to a device */
#define ENTER_DEVICE(name)                                                                    \
    do {                                                                                      \
        ENTER(name);                                                                          \
        if (entered < 0)                                                                      \
            die("hip" #name, "no device was set");                                            \
    } while (0)

/* ---- things ---- */

enum kind { STREAM, EVENT, MODULE, GRAPH, EXEC, DEVICE_MEMORY, HOST_MEMORY };
struct op {
    enum { OP_COPY, OP_FILL, OP_KERNEL, OP_EVENT, OP_GRAPH } what;
    uint8_t *to;
    const uint8_t *from;
    size_t n;
    int byte;
    const struct host_row *kernel;
    uint32_t groups;
    uint64_t args[16];
    struct thing *thing; /* event or graph */
};
struct ops {
    struct op *at;
    size_t n, cap;
};
struct thing {
    struct thing *next;
    enum kind kind;
    uint8_t *p, *host;          /* memory as the device and as the host sees it */
    size_t bytes;
    struct code_info code;      /* MODULE */
    const struct host_row *row;
    struct ops ops;             /* GRAPH, EXEC */
    size_t waiting;             /* in the queue: launches of an EXEC, records of an EVENT */
    int asked;                  /* STREAM, EVENT */
    double time;                /* EVENT */
};
static struct thing *things;
static struct ops queue;
static struct ops *captured; /* not NULL: launches go there */
static size_t device_bytes;

static struct thing *make(enum kind kind)
{
    struct thing *t = calloc(1, sizeof *t);
    *t = (struct thing){ .next = things, .kind = kind };
    return things = t;
}
static struct thing *known(const char *entry, const void *handle, enum kind kind)
{
    for (struct thing *t = things; t; t = t->next)
        if (t == handle && t->kind == kind)
            return t;
    die(entry, "a handle that is none");
    return NULL;
}
static void destroy(const char *entry, struct thing *t)
{
    if (t->waiting)
        die(entry, "destroyed while it is in the queue");
    for (struct thing **at = &things; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    free(t->ops.at);
    free(t);
}
unsigned fake_hip_live(void)
{
    unsigned n = 0;
    for (struct thing *t = things; t; t = t->next)
        n++;
    return n;
}

static void push(struct ops *list, struct op op)
{
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        list->at = realloc(list->at, list->cap * sizeof op);
    }
    list->at[list->n++] = op;
}

/* ---- the queue ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(const struct op *op)
{
    switch (op->what) {
    case OP_COPY: memcpy(op->to, op->from, op->n); break;
    case OP_FILL: memset(op->to, op->byte, op->n); break;
    case OP_KERNEL: op->kernel->run(op->args, op->groups); break;
    case OP_EVENT: op->thing->waiting--, op->thing->time = now(); break;
    case OP_GRAPH:
        for (size_t i = 0; i < op->thing->ops.n; i++)
            run(&op->thing->ops.at[i]);
        op->thing->waiting--;
    }
}

/* Everything up to the record of an event; event NULL: everything */
static void run_to(const struct thing *event)
{
    size_t i = 0;
    while (i < queue.n && !(event && event->waiting == 0))
        run(&queue.at[i++]);
    memmove(queue.at, queue.at + i, (queue.n - i) * sizeof *queue.at);
    queue.n -= i;
}

/* The first time somebody asks it is not ready, whatever there is to do. */
static int ask(int *asked, const struct thing *event)
{
    if (captured)
        return CAPTURE_UNSUPPORTED;
    if (hangs || ((event ? event->waiting > 0 : queue.n > 0) && !(*asked)++))
        return NOT_READY;
    *asked = 0;
    run_to(event);
    return SUCCESS;
}

static void enqueue(const char *entry, const void *stream, struct op op)
{
    known(entry, stream, STREAM);
    if (captured && op.what != OP_KERNEL)
        die(entry, "not while launches are captured");
    push(captured ? captured : &queue, op);
}

/* ---- devices ---- */

static int n_devices(void) { return getenv("FAKE_HIP_DEVICES") ? atoi(getenv("FAKE_HIP_DEVICES")) : 1; }
static size_t memory_limit(void) { return (size_t)(getenv("FAKE_HIP_MEMORY") ? atoi(getenv("FAKE_HIP_MEMORY")) : 4096) << 20; }

API(Init, unsigned flags)
{
    ENTER(Init);
    return flags ? INVALID : SUCCESS;
}
API(DriverGetVersion, int *v)
{
    ENTER(DriverGetVersion);
    *v = 60443484;
    return SUCCESS;
}
API(GetDeviceCount, int *n)
{
    ENTER(GetDeviceCount);
    *n = n_devices();
    return *n ? SUCCESS : NO_DEVICE;
}
API(DeviceGet, int *device, int index)
{
    ENTER(DeviceGet);
    *device = index;
    return index < 0 || index >= n_devices() ? BAD_DEVICE : SUCCESS;
}
API(DeviceGetName, char *name, int room, int device)
{
    ENTER(DeviceGetName);
    snprintf(name, (size_t)room, "Fake Radeon %d", device);
    return SUCCESS;
}
API(DeviceGetPCIBusId, char *id, int room, int device)
{
    ENTER(DeviceGetPCIBusId);
    snprintf(id, (size_t)room, "FFFF:%02X:00.0", device);
    return SUCCESS;
}
API(DeviceTotalMem, size_t *bytes, int device)
{
    ENTER(DeviceTotalMem);
    *bytes = memory_limit();
    return device < 0 ? BAD_DEVICE : SUCCESS;
}
#ifdef ROCM_5
enum { PROPERTIES_BYTES = 792, ARCH_AT = 396 };
API(GetDeviceProperties, char *p, int device)
#else
enum { PROPERTIES_BYTES = 1472, ARCH_AT = 1160 };
API(GetDevicePropertiesR0600, char *p, int device)
#endif
{
    ENTER(GetDeviceProperties);
    const char *arch = getenv("FAKE_HIP_ARCH");
    memset(p, 0xee, PROPERTIES_BYTES);
    snprintf(p, 256, "Fake Radeon %d, not a gfx", device);
    snprintf(p + ARCH_AT, 256, "%s", arch ? arch : "gfx1151:xnack-");
    return SUCCESS;
}
API(SetDevice, int device)
{
    ENTER(SetDevice);
    entered = device;
    return device < n_devices() ? SUCCESS : BAD_DEVICE;
}
const char *hipGetErrorName(int error);
const char *hipGetErrorName(int error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].name;
    return "hipErrorUnknown";
}

/* ---- memory ---- */

API(MemGetInfo, size_t *left, size_t *all)
{
    ENTER_DEVICE(MemGetInfo);
    *all = memory_limit();
    *left = *all - device_bytes;
    return SUCCESS;
}
API(Malloc, void **p, size_t n)
{
    ENTER_DEVICE(Malloc);
    if (n > memory_limit() - device_bytes)
        return NO_MEMORY;
    struct thing *t = make(DEVICE_MEMORY);
    t->bytes = n;
    if (posix_memalign((void **)&t->p, 256, n) != 0)
        die("hipMalloc", "the host has no memory");
    memset(t->p, 0xcd, n);
    device_bytes += n;
    *p = t->p;
    return SUCCESS;
}
API(HostMalloc, void **p, size_t n, unsigned flags)
{
    ENTER_DEVICE(HostMalloc);
    if ((flags & 2) == 0)
        die("hipHostMalloc", "the device has no way to memory that is not mapped");
    struct thing *t = make(HOST_MEMORY);
    int fd = memfd_create("fake_hip", 0);
    t->bytes = n;
    if (fd < 0 || ftruncate(fd, (off_t)n) != 0)
        die("hipHostMalloc", "no memory file");
    t->host = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    t->p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (t->host == MAP_FAILED || t->p == MAP_FAILED)
        die("hipHostMalloc", "no memory");
    memset(t->host, 0xcd, n);
    *p = t->host;
    return SUCCESS;
}
static struct thing *memory_at(const char *entry, const uint8_t *p, size_t n, int host)
{
    for (struct thing *t = things; t; t = t->next) {
        const uint8_t *base = host ? t->host : t->p;
        if ((t->kind == HOST_MEMORY || (!host && t->kind == DEVICE_MEMORY)) && p >= base && n <= t->bytes && (size_t)(p - base) <= t->bytes - n)
            return t;
    }
    die(entry, host ? "host memory that was not pinned" : "bytes outside of every allocation");
    return NULL;
}
API(HostGetDevicePointer, void **to, void *p, unsigned flags)
{
    ENTER_DEVICE(HostGetDevicePointer);
    *to = memory_at("hipHostGetDevicePointer", p, 1, 1)->p;
    return flags ? INVALID : SUCCESS;
}
static void must_be_idle(const char *entry)
{
    if (queue.n)
        die(entry, "while the stream has work");
}
API(Free, void *p)
{
    ENTER_DEVICE(Free);
    struct thing *t = memory_at("hipFree", p, 1, 0);
    must_be_idle("hipFree");
    if (t->kind != DEVICE_MEMORY || t->p != p)
        die("hipFree", "not what hipMalloc gave");
    device_bytes -= t->bytes;
    free(t->p);
    destroy("hipFree", t);
    return SUCCESS;
}
API(HostFree, void *p)
{
    ENTER_DEVICE(HostFree);
    struct thing *t = memory_at("hipHostFree", p, 1, 1);
    must_be_idle("hipHostFree");
    munmap(t->host, t->bytes);
    munmap(t->p, t->bytes);
    destroy("hipHostFree", t);
    return SUCCESS;
}
API(MemcpyHtoDAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyHtoDAsync);
    memory_at("hipMemcpyHtoDAsync", to, n, 0);
    memory_at("hipMemcpyHtoDAsync", from, n, 1);
    enqueue("hipMemcpyHtoDAsync", stream, (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n });
    return SUCCESS;
}
API(MemcpyDtoHAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyDtoHAsync);
    memory_at("hipMemcpyDtoHAsync", to, n, 1);
    memory_at("hipMemcpyDtoHAsync", from, n, 0);
    enqueue("hipMemcpyDtoHAsync", stream, (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n });
    return SUCCESS;
}
API(MemcpyDtoDAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyDtoDAsync);
    memory_at("hipMemcpyDtoDAsync", to, n, 0);
    memory_at("hipMemcpyDtoDAsync", from, n, 0);
    enqueue("hipMemcpyDtoDAsync", stream, (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n });
    return SUCCESS;
}
API(MemsetD8Async, uint8_t *to, unsigned char byte, size_t n, void *stream)
{
    ENTER_DEVICE(MemsetD8Async);
    memory_at("hipMemsetD8Async", to, n, 0);
    enqueue("hipMemsetD8Async", stream, (struct op){ .what = OP_FILL, .to = to, .byte = byte, .n = n });
    return SUCCESS;
}

/* ---- streams and events ---- */

API(StreamCreateWithFlags, void **stream, unsigned flags)
{
    ENTER_DEVICE(StreamCreateWithFlags);
    *stream = make(STREAM);
    return flags == 1 ? SUCCESS : INVALID;
}
API(StreamDestroy, void *stream)
{
    ENTER_DEVICE(StreamDestroy);
    struct thing *t = known("hipStreamDestroy", stream, STREAM);
    run_to(NULL);
    free(queue.at);
    queue = (struct ops){ 0 };
    destroy("hipStreamDestroy", t);
    return SUCCESS;
}
API(StreamQuery, void *stream)
{
    ENTER_DEVICE(StreamQuery);
    return ask(&known("hipStreamQuery", stream, STREAM)->asked, NULL);
}
API(EventCreateWithFlags, void **event, unsigned flags)
{
    ENTER_DEVICE(EventCreateWithFlags);
    *event = make(EVENT);
    return flags & ~2u ? INVALID : SUCCESS;
}
API(EventDestroy, void *event)
{
    ENTER_DEVICE(EventDestroy);
    destroy("hipEventDestroy", known("hipEventDestroy", event, EVENT));
    return SUCCESS;
}
API(EventRecord, void *event, void *stream)
{
    ENTER_DEVICE(EventRecord);
    struct thing *t = known("hipEventRecord", event, EVENT);
    enqueue("hipEventRecord", stream, (struct op){ .what = OP_EVENT, .thing = t });
    t->waiting++;
    return SUCCESS;
}
API(EventQuery, void *event)
{
    ENTER_DEVICE(EventQuery);
    struct thing *t = known("hipEventQuery", event, EVENT);
    return ask(&t->asked, t);
}
API(EventElapsedTime, float *ms, void *from, void *to)
{
    ENTER_DEVICE(EventElapsedTime);
    struct thing *a = known("hipEventElapsedTime", from, EVENT), *b = known("hipEventElapsedTime", to, EVENT);
    *ms = (float)(1e3 * (b->time - a->time));
    return a->waiting || b->waiting ? NOT_READY : SUCCESS;
}

/* ---- kernels ---- */

API(ModuleLoadData, void **module, const void *image)
{
    ENTER_DEVICE(ModuleLoadData);
    Elf64_Ehdr h;
    struct code_info code;
    if (captured)
        die("hipModuleLoadData", "not while launches are captured");
    memcpy(&h, image, sizeof h);
    if (code_inspect(&code, image, h.e_shoff + (size_t)h.e_shentsize * h.e_shnum) != NULL)
        return BAD_IMAGE;
    const struct host_row *row = NULL;
    for (uint32_t i = 0; i < n_host_rows; i++)
        row = strcmp(host_rows[i].id, code.name) == 0 ? &host_rows[i] : row;
    if (!row || strcmp(code.target, "amdgcn-amd-amdhsa--gfx1151") != 0 || code.wavefront != 32)
        return NO_BINARY;
    struct thing *t = make(MODULE);
    t->code = code;
    t->row = row;
    *module = t;
    return SUCCESS;
}
API(ModuleUnload, void *module)
{
    ENTER_DEVICE(ModuleUnload);
    must_be_idle("hipModuleUnload");
    destroy("hipModuleUnload", known("hipModuleUnload", module, MODULE));
    return SUCCESS;
}
/* A function is its module: there is one in each. */
API(ModuleGetFunction, void **function, void *module, const char *name)
{
    ENTER_DEVICE(ModuleGetFunction);
    *function = module;
    return strcmp(known("hipModuleGetFunction", module, MODULE)->code.name, name) == 0 ? SUCCESS : NOT_FOUND;
}
API(ModuleLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
    void **args, void **extra)
{
    ENTER_DEVICE(ModuleLaunchKernel);
    const struct thing *m = known("hipModuleLaunchKernel", function, MODULE);
    struct op op = { .what = OP_KERNEL, .kernel = m->row, .groups = gx };
    if (bx != m->code.workgroup || by != 1 || bz != 1 || gy != 1 || gz != 1 || shared || extra || !args)
        die(m->code.name, "block, grid or arguments are not what its code object says");
    if (gx == 0 || (uint64_t)gx * bx > UINT32_MAX)
        return INVALID;
    memcpy(op.args, args[0], m->code.kernarg);
    enqueue(m->code.name, stream, op);
    return SUCCESS;
}

/* ---- graphs ---- */

API(StreamBeginCapture, void *stream, int mode)
{
    ENTER_DEVICE(StreamBeginCapture);
    known("hipStreamBeginCapture", stream, STREAM);
    if (captured || mode != 1)
        return INVALID;
    captured = &make(GRAPH)->ops;
    return SUCCESS;
}
/* The newest thing is the graph: nothing else is made during a capture. What fails here still ends it, as HIP says. */
API(StreamEndCapture, void *stream, void **graph)
{
    int planned = enter("hipStreamEndCapture");
    known("hipStreamEndCapture", stream, STREAM);
    if (!captured)
        return INVALID;
    captured = NULL;
    *graph = planned ? NULL : things;
    if (planned)
        destroy("hipStreamEndCapture", things);
    return planned;
}
API(GraphInstantiateWithFlags, void **exec, void *graph, unsigned long long flags)
{
    ENTER_DEVICE(GraphInstantiateWithFlags);
    const struct thing *g = known("hipGraphInstantiateWithFlags", graph, GRAPH);
    struct thing *x = make(EXEC);
    for (size_t i = 0; i < g->ops.n; i++)
        push(&x->ops, g->ops.at[i]);
    *exec = x;
    return flags ? INVALID : SUCCESS;
}
API(GraphLaunch, void *exec, void *stream)
{
    ENTER_DEVICE(GraphLaunch);
    struct thing *x = known("hipGraphLaunch", exec, EXEC);
    enqueue("hipGraphLaunch", stream, (struct op){ .what = OP_GRAPH, .thing = x });
    x->waiting++;
    return SUCCESS;
}
API(GraphExecDestroy, void *exec)
{
    ENTER_DEVICE(GraphExecDestroy);
    destroy("hipGraphExecDestroy", known("hipGraphExecDestroy", exec, EXEC));
    return SUCCESS;
}
API(GraphDestroy, void *graph)
{
    ENTER_DEVICE(GraphDestroy);
    destroy("hipGraphDestroy", known("hipGraphDestroy", graph, GRAPH));
    return SUCCESS;
}
