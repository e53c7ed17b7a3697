/* backend.h - which device the command line means, and opening it. */
#ifndef HAYATE_MODEL_BACKEND_H
#define HAYATE_MODEL_BACKEND_H

#include "gpu/base.h"

typedef struct gpu gpu; /* gpu/gpu.h */
struct gpu_params;

enum backend { BACKEND_AUTO, BACKEND_CPU, BACKEND_VULKAN, BACKEND_HIP }; /* in the order of --backend */

/* Opens a device. AUTO takes the first Vulkan device where that can be used and is no driver that computes on the CPU, else the cpu, and leaves the
 * reason in why (may be NULL; "" when there is nothing to say); a device other than the first was meant, and AUTO is VULKAN then.
 * ERR_DEVICE: one line with the name of the backend. */
status backend_open(gpu **out, enum backend b, const struct gpu_params *p, char why[256], struct err *e);
/* The devices of every backend in this build. */
void backend_print_devices(void);

#endif
