/* backend.h - which device the command line means, and opening it. */
#ifndef HAYATE_MODEL_BACKEND_H
#define HAYATE_MODEL_BACKEND_H

#include "gpu/base.h"

typedef struct gpu gpu; /* gpu/gpu.h */
struct gpu_params;

enum backend { BACKEND_AUTO, BACKEND_CPU, BACKEND_VULKAN, BACKEND_HIP, BACKEND_CUDA }; /* in the order of --backend */
#ifdef CUDA_TWIN /* a test build */
#define BACKEND_CHOICES "auto cpu vulkan hip cuda"
#else
#define BACKEND_CHOICES "auto cpu vulkan hip"
#endif
#define BACKEND_DEFAULT "auto: a GPU that Vulkan finds, else one of ROCm, else cpu"

/* What --backend calls one, and llama-bench. The first two: whether this build has one of that name. */
bool backend_named(const char *name, enum backend *out);
bool backend_labelled(const char *label, enum backend *out);
const char *backend_label(const char *name);

/* Opens a device. AUTO takes the first Vulkan device where that can be used and is no driver that computes on the CPU, else the first HIP device, else
 * the cpu, and leaves the reasons in why (may be NULL; "" when there is nothing to say); a device other than the first was meant, and AUTO is VULKAN then.
 * ERR_DEVICE: one line with the name of the backend. */
status backend_open(gpu **out, enum backend b, const struct gpu_params *p, char why[256], struct err *e);
/* The devices of every backend in this build. */
void backend_print_devices(void);

#endif
