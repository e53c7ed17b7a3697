/* fake_hip_api.c - the entry points of the fake runtime; see fake_hip.c. Built with -DROCM_5 it has the properties of that time. */
#define _GNU_SOURCE
#include "tests/fake_hip_impl.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct {
    int code;
    const char *name;
} errors[] = {
    { SUCCESS, "hipSuccess" }, { INVALID, "hipErrorInvalidValue" }, { NO_MEMORY, "hipErrorOutOfMemory" }, { NO_DEVICE, "hipErrorNoDevice" },
    { BAD_DEVICE, "hipErrorInvalidDevice" }, { BAD_IMAGE, "hipErrorInvalidImage" }, { NO_BINARY, "hipErrorNoBinaryForGpu" },
    { NOT_FOUND, "hipErrorNotFound" }, { NOT_READY, "hipErrorNotReady" }, { LAUNCH_FAILURE, "hipErrorLaunchFailure" },
    { CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported" },
};

static size_t device_bytes;

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
/* A copy between places that are the host's or not */
static int copy(const char *call, struct op op, bool to_host, bool from_host, void *stream)
{
    memory_at(call, op.to, op.n, to_host);
    memory_at(call, op.from, op.n, from_host);
    enqueue(call, stream, op);
    return SUCCESS;
}
API(MemcpyHtoDAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyHtoDAsync);
    return copy("hipMemcpyHtoDAsync", (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n }, false, true, stream);
}
API(MemcpyDtoHAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyDtoHAsync);
    return copy("hipMemcpyDtoHAsync", (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n }, true, false, stream);
}
API(MemcpyDtoDAsync, uint8_t *to, const uint8_t *from, size_t n, void *stream)
{
    ENTER_DEVICE(MemcpyDtoDAsync);
    return copy("hipMemcpyDtoDAsync", (struct op){ .what = OP_COPY, .to = to, .from = from, .n = n }, false, false, stream);
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
