/* gpu_none.c - stands in for backends that this build lacks. */
#include "gpu/gpu.h"

__attribute__((weak)) status gpu_open_vulkan(gpu **out, const struct gpu_params *p, struct err *e)
{
    (void)out, (void)p;
    return fail(e, ERR_DEVICE, "this build has no vulkan backend");
}
