/* backend.c - one place that knows which backends this build has. */
#include "model/backend.h"

#include "gpu/gpu.h"

#include <stdio.h>

/* The first device, unless it is a program on this CPU: the cpu backend is many times faster. Given by number it is what was asked for. */
static status open_gpu(gpu **out, const struct gpu_params *p, struct err *e)
{
    TRY(gpu_open_vulkan(out, p, e));
    const struct gpu_info *info = gpu_info_of(*out);
    if (!info->software || p->device > 0)
        return OK;
    fail(e, ERR_DEVICE, "vulkan: no GPU, only %.100s", info->name);
    gpu_close(*out);
    *out = NULL;
    return e->code;
}

status backend_open(gpu **out, enum backend b, const struct gpu_params *p, char why[256], struct err *e)
{
    struct err ve;
    if (why)
        *why = 0;
    switch (b) {
    case BACKEND_CPU:
        return gpu_open_cpu(out, p, e);
    case BACKEND_VULKAN:
        return gpu_open_vulkan(out, p, e);
    case BACKEND_HIP:
        return fail(e, ERR_DEVICE, "hip: not in this build");
    default:
        if (open_gpu(out, p, &ve) == OK)
            return OK;
        if (why)
            snprintf(why, 256, "%.255s", ve.msg);
        return gpu_open_cpu(out, p, e);
    }
}

void backend_print_devices(void)
{
    printf("cpu           %u cores\n", gpu_cores_available());
    gpu_print_devices();
}
