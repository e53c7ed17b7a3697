/* backend.c - one place that knows which backends this build has. */
#include "model/backend.h"

#include "gpu/gpu.h"

#include <stdio.h>

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
