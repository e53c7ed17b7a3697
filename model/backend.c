/* backend.c - one place that knows which backends this build has. */
#include "model/backend.h"

#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *label;
} backends[] = {
    [BACKEND_AUTO] = { "auto", "" },
    [BACKEND_CPU] = { "cpu", "CPU" },
    [BACKEND_VULKAN] = { "vulkan", "Vulkan" },
    [BACKEND_HIP] = { "hip", "ROCm" },
#ifdef CUDA_TWIN
    [BACKEND_CUDA] = { "cuda", "CUDA" },
#endif
};

bool backend_named(const char *name, enum backend *out)
{
    for (size_t i = 0; i < COUNT_OF(backends); i++)
        if (strcmp(name, backends[i].name) == 0)
            return *out = (enum backend)i, true;
    return false;
}

bool backend_labelled(const char *label, enum backend *out)
{
    for (size_t i = 0; i < COUNT_OF(backends); i++)
        if (*label && strcmp(label, backends[i].label) == 0)
            return *out = (enum backend)i, true;
    return false;
}

const char *backend_label(const char *name)
{
    enum backend b;
    return backend_named(name, &b) ? backends[b].label : name;
}

status backend_open(gpu **out, enum backend b, const struct gpu_params *p, char why[256], struct err *e)
{
    struct err ve, he;
    struct gpu_params hardware = *p;
    hardware.no_software = true;
    if (why)
        *why = 0;
    if (b == BACKEND_AUTO && p->device > 0)
        b = BACKEND_VULKAN;
    switch (b) {
    case BACKEND_CPU:
        return gpu_open_cpu(out, p, e);
    case BACKEND_VULKAN:
        return gpu_open_vulkan(out, p, e);
    case BACKEND_HIP:
        return gpu_open_hip(out, p, e);
#ifdef CUDA_TWIN
    case BACKEND_CUDA:
        return gpu_open_cuda(out, p, e);
#endif
    default:
        if (gpu_open_vulkan(out, &hardware, &ve) == OK)
            return OK;
        if (gpu_open_hip(out, p, &he) == OK)
            return OK;
        if (why)
            snprintf(why, 256, "%.126s; %.126s", ve.msg, he.msg);
        return gpu_open_cpu(out, p, e);
    }
}

void backend_print_devices(void)
{
    printf("cpu           %u cores\n", gpu_cores_available());
    gpu_print_devices();
    gpu_print_hip_devices();
}
