/* hip_api.c - the runtime as a table of entry points, and what is different from one vendor to the other.
 *
 * Nothing is linked: a machine without ROCm runs the program all the same. A runtime that was started is never unloaded: its threads and what it
 * does at the end of the process are its own. */
#define _GNU_SOURCE
#include "gpu/hip/hip.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*entry)(void);

static status find_entry(const struct hip_rt *rt, const char *name, entry *to, struct err *e)
{
    void *p = dlsym(rt->lib, name);
    memcpy(to, &p, sizeof p);
    return p ? OK : fail(e, ERR_DEVICE, "%s: %s has no %s", rt->api->name, rt->lib_name, name);
}

enum { HOST_MAPPED = 2 };

/* ---- HIP ---- */

#define HIP_HOST_COHERENT 0x40000000u
#define HIP_HOST_NOT_COHERENT 0x80000000u

enum { OWN_SET_DEVICE, OWN_HIP_NAME, OWN_PROPERTIES };

static status load_hip(struct hip_rt *rt, struct err *e)
{
#define LOAD(field, hip, cuda, args) TRY(find_entry(rt, "hip" #hip, (entry *)&rt->f.field, e));
    HIP_FUNCTIONS(LOAD)
#undef LOAD
    TRY(find_entry(rt, "hipSetDevice", &rt->own[OWN_SET_DEVICE], e));
    TRY(find_entry(rt, "hipGetErrorName", &rt->own[OWN_HIP_NAME], e));
    /* Since ROCm 6 the newer struct has a name of its own, and the old name means the old struct. */
    if (find_entry(rt, "hipGetDevicePropertiesR0600", &rt->own[OWN_PROPERTIES], NULL) == OK)
        return OK;
    return find_entry(rt, "hipGetDeviceProperties", &rt->own[OWN_PROPERTIES], e);
}

/* The properties have another layout in every generation of ROCm; what all have in common is that the architecture is the only text that begins with
 * "gfx" behind the name of the device, which takes the first 256 bytes. */
static int describe_hip(const struct hip_rt *rt, struct hip_phys *p)
{
    char properties[8192] = "";
    const char *at = NULL;
    int r = ((int (*)(void *, int))rt->own[OWN_PROPERTIES])(properties, p->device);
    if (r != HIP_OK)
        return r;
    at = memmem(properties + 256, sizeof properties - 256, "gfx", 3);
    snprintf(p->arch, sizeof p->arch, "%.*s", (int)sizeof p->arch - 1, at ? at : "of unknown name");
    /* "gfx1151", perhaps with features of the target behind a colon. What follows from the architecture needs no question. */
    size_t n = strlen(rt->api->target);
    if (strncmp(p->arch, rt->api->target, n) != 0 || (p->arch[n] && p->arch[n] != ':'))
        snprintf(p->refusal, sizeof p->refusal, "its architecture is %s, this program has code for %s", p->arch, rt->api->target);
    p->integrated = true;
    p->group_memory = 64 << 10;
    p->workgroup_max = 1024;
    return HIP_OK;
}

static int here_hip(const struct hip_rt *rt, int device) { return ((int (*)(int))rt->own[OWN_SET_DEVICE])(device); }
static int enter_hip(struct hip_rt *rt, int device) { return here_hip(rt, device); }
static void leave_hip(const struct hip_rt *rt, int device) { (void)rt, (void)device; }
static const char *name_hip(const struct hip_rt *rt, int error) { return ((const char *(*)(int))rt->own[OWN_HIP_NAME])(error); }
static const uint8_t *binary_hip(const struct kernel_bin *b) { return b->gfx1151; }

static const char *const libraries_hip[] = { "libamdhip64.so.10", "libamdhip64.so.9", "libamdhip64.so.8", "libamdhip64.so.7",
                                             "libamdhip64.so.6",  "libamdhip64.so.5", "libamdhip64.so",   NULL };

const struct hip_api hip_api_hip = { .backend = GPU_HIP, .name = "hip", .libraries = libraries_hip, .file = "libamdhip64.so",
                                     .folders = "/opt/rocm*/lib", .runtime = "ROCm", .target = "gfx1151", .host_shared = HOST_MAPPED | HIP_HOST_COHERENT,
                                     .host_cached = HOST_MAPPED | HIP_HOST_NOT_COHERENT, .load = load_hip,
                                     .describe = describe_hip, .enter = enter_hip, .here = here_hip, .leave = leave_hip, .error_name = name_hip,
                                     .binary = binary_hip };

/* ---- CUDA ---- */

#ifdef CUDA_TWIN
enum { OWN_ATTRIBUTE, OWN_RETAIN, OWN_CURRENT, OWN_RELEASE, OWN_CUDA_NAME };

static status load_cuda(struct hip_rt *rt, struct err *e)
{
#define LOAD(field, hip, cuda, args) TRY(find_entry(rt, "cu" #cuda, (entry *)&rt->f.field, e));
    HIP_FUNCTIONS(LOAD)
#undef LOAD
    TRY(find_entry(rt, "cuDeviceGetAttribute", &rt->own[OWN_ATTRIBUTE], e));
    TRY(find_entry(rt, "cuDevicePrimaryCtxRetain", &rt->own[OWN_RETAIN], e));
    TRY(find_entry(rt, "cuCtxSetCurrent", &rt->own[OWN_CURRENT], e));
    TRY(find_entry(rt, "cuDevicePrimaryCtxRelease_v2", &rt->own[OWN_RELEASE], e));
    return find_entry(rt, "cuGetErrorName", &rt->own[OWN_CUDA_NAME], e);
}

static int describe_cuda(const struct hip_rt *rt, struct hip_phys *p)
{
    enum { MAX_THREADS = 1, SHARED_PER_BLOCK = 8, INTEGRATED = 18, MAJOR = 75, MINOR = 76 };
    static const int question[] = { MAX_THREADS, SHARED_PER_BLOCK, INTEGRATED, MAJOR, MINOR };
    int answer[COUNT_OF(question)] = { 0 };
    for (size_t i = 0; i < COUNT_OF(question); i++) {
        int r = ((int (*)(int *, int, int))rt->own[OWN_ATTRIBUTE])(&answer[i], question[i], p->device);
        if (r != HIP_OK)
            return r;
    }
    p->workgroup_max = (uint32_t)answer[0];
    p->group_memory = (uint32_t)answer[1];
    p->integrated = answer[2];
    snprintf(p->arch, sizeof p->arch, "sm_%d%d", answer[3], answer[4]);
    if (strcmp(p->arch, rt->api->target) != 0)
        snprintf(p->refusal, sizeof p->refusal, "its architecture is %s, this program has code for %s", p->arch, rt->api->target);
    return HIP_OK;
}

static int here_cuda(const struct hip_rt *rt, int device)
{
    (void)device;
    return ((int (*)(void *))rt->own[OWN_CURRENT])(rt->context);
}
static int enter_cuda(struct hip_rt *rt, int device)
{
    int r = ((int (*)(void **, int))rt->own[OWN_RETAIN])(&rt->context, device);
    if (r != HIP_OK)
        return r;
    r = here_cuda(rt, device);
    if (r != HIP_OK)
        rt->api->leave(rt, device);
    return r;
}
static void leave_cuda(const struct hip_rt *rt, int device) { ((int (*)(int))rt->own[OWN_RELEASE])(device); }
static const char *name_cuda(const struct hip_rt *rt, int error)
{
    const char *name = NULL;
    return ((int (*)(int, const char **))rt->own[OWN_CUDA_NAME])(error, &name) == HIP_OK ? name : NULL;
}
static const uint8_t *binary_cuda(const struct kernel_bin *b) { return b->sm_90; }

static const char *const libraries_cuda[] = { "libcuda.so.1", "libcuda.so", NULL };

const struct hip_api hip_api_cuda = { .backend = GPU_CUDA, .name = "cuda", .libraries = libraries_cuda, .file = "libcuda.so", .runtime = "NVIDIA driver",
                                      .target = "sm_90", .groups_max = 0x7fffffff, .host_shared = HOST_MAPPED, .host_cached = HOST_MAPPED,
                                      .load = load_cuda, .describe = describe_cuda,
                                      .enter = enter_cuda, .here = here_cuda, .leave = leave_cuda, .error_name = name_cuda, .binary = binary_cuda };
#endif

/* ---- opening ---- */

const char *hip_error(const struct hip_rt *rt, int error)
{
    static _Thread_local char number[32];
    const char *name = rt->api->error_name(rt, error);
    snprintf(number, sizeof number, "error %d", error);
    return name && *name ? name : number;
}

/* Why a library that is there cannot be loaded stays in why, the first reason of all. */
static void *load_library(const char *file, char name[160], char why[256])
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *said = lib ? NULL : dlerror();
    snprintf(name, 160, "%s", file);
    if (said && !*why && (*file == '/' || strncmp(said, file, strlen(file)) != 0)) /* it names another file, one that this one needs */
        snprintf(why, 256, ": %.200s", said);
    return lib;
}

static void *load_from_folders(const char *folders, const char *library, char name[160], char why[256])
{
    char pattern[160];
    glob_t found = { 0 };
    void *lib = NULL;
    snprintf(pattern, sizeof pattern, "%s/%s", folders, library);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; !lib && i < found.gl_pathc; i++)
            lib = load_library(found.gl_pathv[i], name, why);
    globfree(&found);
    return lib;
}

status hip_rt_open(struct hip_rt *rt, const struct hip_api *api, struct err *e)
{
    char why[256] = "";
    *rt = (struct hip_rt){ .api = api };
    for (size_t i = 0; !rt->lib && api->libraries[i]; i++)
        rt->lib = load_library(api->libraries[i], rt->lib_name, why);
    for (size_t i = 0; !rt->lib && api->folders && api->libraries[i]; i++)
        rt->lib = load_from_folders(api->folders, api->libraries[i], rt->lib_name, why);
    if (!rt->lib)
        return fail(e, ERR_DEVICE, "%s: no %s is installed (%s)%s", api->name, api->runtime, api->file, why);
    TRY(api->load(rt, e));
    int r = rt->f.init(0);
    return r == HIP_OK ? OK : fail(e, ERR_DEVICE, "%s: %s finds no device: %s", api->name, rt->lib_name, hip_error(rt, r));
}
