/* vk.h - inside the Vulkan backend: what its files share.
 *
 *     vk_load.c      the loader, an instance, function tables, the validation layer
 *     vk_device.c    which devices there are, which one is taken, what it lacks
 *     vk_memory.c    allocations and transfers
 *     vk_pipeline.c  kernel rows to pipelines, and the file that keeps them compiled
 *     vk_list.c      recording, submitting and waiting
 *
 * One device, one queue, one timeline semaphore. Whatever is submitted adds one to the semaphore, so a number says how far the device has come and
 * work runs in the order in which it was submitted. */
#ifndef HAYATE_GPU_VULKAN_VK_H
#define HAYATE_GPU_VULKAN_VK_H

#include "gpu/gpu_backend.h"
#include "gpu/ranges.h"

#include "kernels_bin/kernels_bin.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

/* ---- loader and instance (vk_load.c) ---- */

#define VK_INSTANCE_FUNCTIONS(F)                                                                                                            \
    F(DestroyInstance) F(EnumeratePhysicalDevices) F(EnumerateDeviceExtensionProperties) F(GetPhysicalDeviceProperties)                     \
    F(GetPhysicalDeviceProperties2) F(GetPhysicalDeviceFeatures2) F(GetPhysicalDeviceMemoryProperties2)                                     \
    F(GetPhysicalDeviceQueueFamilyProperties) F(CreateDevice) F(GetDeviceProcAddr)
#define VK_DEVICE_FUNCTIONS(F)                                                                                                              \
    F(DestroyDevice) F(DeviceWaitIdle) F(GetDeviceQueue) F(QueueSubmit2) F(CreateSemaphore) F(DestroySemaphore)                             \
    F(GetSemaphoreCounterValue) F(WaitSemaphores) F(CreateBuffer) F(DestroyBuffer) F(GetBufferMemoryRequirements) F(AllocateMemory)         \
    F(FreeMemory) F(BindBufferMemory) F(MapMemory) F(GetBufferDeviceAddress) F(CreateCommandPool) F(DestroyCommandPool)                     \
    F(AllocateCommandBuffers) F(FreeCommandBuffers) F(BeginCommandBuffer) F(EndCommandBuffer) F(CmdPipelineBarrier2) F(CmdCopyBuffer)       \
    F(CmdFillBuffer) F(CmdBindPipeline) F(CmdPushConstants) F(CmdDispatch) F(CmdResetQueryPool) F(CmdWriteTimestamp2) F(CreateQueryPool)    \
    F(DestroyQueryPool) F(GetQueryPoolResults) F(CreatePipelineLayout) F(DestroyPipelineLayout) F(CreatePipelineCache)                      \
    F(DestroyPipelineCache) F(GetPipelineCacheData) F(CreateShaderModule) F(DestroyShaderModule) F(CreateComputePipelines) F(DestroyPipeline)

#define VK_FUNCTION_FIELD(name) PFN_vk##name name;
struct vk_instance_fn {
    VK_INSTANCE_FUNCTIONS(VK_FUNCTION_FIELD)
};
struct vk_device_fn {
    VK_DEVICE_FUNCTIONS(VK_FUNCTION_FIELD)
};

struct vk_instance {
    void *lib;
    VkInstance handle;
    PFN_vkGetInstanceProcAddr proc;
    VkDebugUtilsMessengerEXT messenger;
    _Atomic uint32_t complaints; /* of the validation layer; it may call from any thread */
    struct vk_instance_fn f;
};

/* Must stay where it is while it is open: the validation layer keeps its address. */
status vk_instance_open(struct vk_instance *in, struct err *e);
void vk_instance_close(struct vk_instance *in); /* accepts a half-open one */
status vk_device_functions(const struct vk_instance *in, VkDevice dev, struct vk_device_fn *f, struct err *e);
const char *vk_result_name(VkResult r);

/* ---- devices (vk_device.c) ---- */

struct vk_features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan13Features v13;
};

/* VK_KHR_cooperative_matrix is younger than some distributions' headers; these are its layouts and numbers. */
struct vk_matrix_shape {
    VkStructureType type; /* 1000506001 */
    void *next;
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* enum vk_component */
    VkBool32 saturating;
    uint32_t scope;
};
enum vk_component { VK_COMPONENT_F16, VK_COMPONENT_F32 };
enum { VK_SCOPE_OF_SUBGROUP = 3, VK_MATRIX_SHAPES_MAX = 64 };

/* A device as it is found, before anything is made of it. */
struct vk_phys {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties core;
    VkPhysicalDeviceVulkan11Properties v11;
    VkPhysicalDeviceVulkan12Properties v12;
    VkPhysicalDeviceVulkan13Properties v13;
    VkPhysicalDeviceMemoryProperties memory;
    struct vk_features features;
    bool ext_matrix, ext_budget, ext_host_memory;
    uint32_t n_shapes;
    struct vk_matrix_shape shape[VK_MATRIX_SHAPES_MAX];
    uint32_t queue_family, timestamp_bits;
    uint32_t subgroup;  /* size that kernels run with */
    bool unified;       /* the host's memory is the device's memory */
    char refusal[128];  /* why hayate does not use it; empty: it does */
};

/* ---- an open device ---- */

struct vk_mem {
    VkBuffer buffer;
    VkDeviceMemory memory;
    gpu_addr addr;
    uint8_t *map; /* NULL: the host cannot reach it */
    bool cached;  /* the host reads it at full speed */
};

enum { VK_SLOTS = 2, VK_SLOT_BYTES = 16 << 20 };
/* A staging buffer and the submission that last used it. */
struct vk_slot {
    struct vk_mem mem;
    VkCommandBuffer cb;
    uint64_t value;
};

struct vk_pipeline {
    const struct gpu_kernel *row;
    VkPipeline handle;
};

struct vk {
    gpu base;
    struct vk_instance in;
    struct vk_phys phys;
    struct vk_device_fn f;
    VkDevice dev;
    VkQueue queue;
    VkCommandPool pool;

    VkSemaphore timeline;
    uint64_t submitted, done; /* values of the semaphore: given to the last submission, known to be reached */
    uint64_t watchdog_ns, spin_ns;
    struct err dead;          /* code OK while the device lives; afterwards what every call answers */

    struct ranges mem;        /* owners are struct vk_mem */
    bool staged;              /* see struct gpu_params */
    struct vk_slot slot[VK_SLOTS];
    uint32_t next_slot;

    VkPipelineLayout layout;
    VkPipelineCache cache;
    struct vk_pipeline *pipeline; /* ascending row addresses */
    size_t n_pipelines, cap_pipelines;
    char *cache_dir;
    uint64_t cache_hash;      /* of what the file held */
};
static inline struct vk *vk_of(gpu *g) { return (struct vk *)(void *)g; }

/* ---- vk_memory.c ---- */

status vk_staging_open(struct vk *v, struct err *e);
void vk_memory_close(struct vk *v); /* all memory, also what its owners have not freed */
/* Bytes of the heap that a kind of memory comes from. */
uint64_t vk_heap_bytes(const struct vk *v, enum gpu_mem_kind kind);
status vk_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e);
void vk_free(gpu *g, struct gpu_mem *m);
status vk_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e);
status vk_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e);
status vk_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e);
status vk_clear(gpu *g, gpu_addr at, size_t n, struct err *e);
void vk_memory_used(gpu *g, uint64_t *asked, uint64_t *driver);

/* ---- vk_pipeline.c ---- */

bool vk_has(const gpu *g, const struct gpu_kernel *row);
status vk_pipelines_open(struct vk *v, const char *cache_dir, struct err *e);
void vk_pipelines_close(struct vk *v); /* keeps what was compiled */
/* The pipeline of a row; compiled when it is asked for the first time. */
status vk_pipeline_of(struct vk *v, const struct gpu_kernel *row, VkPipeline *out, struct err *e);

/* ---- vk_list.c ---- */

status vk_alive(const struct vk *v, struct err *e);
/* Ends the use of the device: this call and all later ones answer that `doing` failed with r. */
status vk_lose(struct vk *v, VkResult r, const char *doing, struct err *e);
status vk_command_buffer(struct vk *v, VkCommandBuffer *cb, struct err *e);
status vk_submit(struct vk *v, VkCommandBuffer cb, struct err *e);
/* Returns when the device has reached a submission. */
status vk_reach(struct vk *v, uint64_t value, struct err *e);
void vk_barrier(const struct vk *v, VkCommandBuffer cb, VkPipelineStageFlags2 from, VkAccessFlags2 from_access, VkPipelineStageFlags2 to,
                VkAccessFlags2 to_access);
void vk_forget(gpu *g, struct gpu_cmd *c);
status vk_start(gpu *g, struct gpu_cmd *c, struct err *e);
status vk_wait(gpu *g, struct err *e);
status vk_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e);

#endif
