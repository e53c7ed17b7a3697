/* vk_device.c - which devices there are, in which order they are offered, what a device lacks, and opening one. */
#include "gpu/vulkan/vk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- features ---- */

struct feature {
    const char *name;
    size_t at; /* in struct vk_features */
    bool needed;
};
#define NEEDED(part, name) { #name, offsetof(struct vk_features, part.name), true }
#define USED_IF_THERE(part, name) { #name, offsetof(struct vk_features, part.name), false }
static const struct feature feature_list[] = {
    NEEDED(core.features, shaderInt64),
    NEEDED(core.features, shaderInt16),
    NEEDED(v11, storageBuffer16BitAccess),
    NEEDED(v12, shaderInt8),
    NEEDED(v12, storageBuffer8BitAccess),
    NEEDED(v12, scalarBlockLayout),
    NEEDED(v12, bufferDeviceAddress),
    NEEDED(v12, timelineSemaphore),
    NEEDED(v13, subgroupSizeControl),
    NEEDED(v13, computeFullSubgroups),
    NEEDED(v13, synchronization2),
    NEEDED(v13, maintenance4),
    USED_IF_THERE(v11, uniformAndStorageBuffer16BitAccess),
    USED_IF_THERE(v12, uniformAndStorageBuffer8BitAccess),
    USED_IF_THERE(v12, shaderFloat16),
    USED_IF_THERE(v12, vulkanMemoryModel),
    USED_IF_THERE(v12, vulkanMemoryModelDeviceScope),
    USED_IF_THERE(v13, shaderIntegerDotProduct),
};

static VkBool32 *feature_at(struct vk_features *f, const struct feature *k) { return (VkBool32 *)(void *)((char *)f + k->at); }

/* The chain that Vulkan reads or fills; `next` hangs at its end. */
static VkPhysicalDeviceFeatures2 *features_chain(struct vk_features *f, void *next)
{
    f->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    f->core.pNext = &f->v11;
    f->v11.pNext = &f->v12;
    f->v12.pNext = &f->v13;
    f->v13.pNext = next;
    return &f->core;
}

/* ---- cooperative matrix ---- */

struct matrix_features {
    VkStructureType type;
    void *next;
    VkBool32 matrix, robust;
};
#define MATRIX_FEATURES ((VkStructureType)1000506000)
#define MATRIX_SHAPE ((VkStructureType)1000506001)
typedef VkResult(VKAPI_PTR *matrix_shapes_fn)(VkPhysicalDevice, uint32_t *, struct vk_matrix_shape *);

static void read_shapes(const struct vk_instance *in, struct vk_phys *p)
{
    matrix_shapes_fn get = (matrix_shapes_fn)in->proc(in->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    uint32_t n = VK_MATRIX_SHAPES_MAX;
    for (uint32_t i = 0; i < n; i++)
        p->shape[i] = (struct vk_matrix_shape){ .type = MATRIX_SHAPE };
    VkResult r = get ? get(p->handle, &n, p->shape) : VK_ERROR_EXTENSION_NOT_PRESENT;
    p->n_shapes = r == VK_SUCCESS || r == VK_INCOMPLETE ? n : 0;
}

/* The shape that rows with NEED_MATRIX are written for. */
static bool has_matrix(const struct vk_phys *p)
{
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const struct vk_matrix_shape *s = &p->shape[i];
        if (s->m == 16 && s->n == 16 && s->k == 16 && s->a == VK_COMPONENT_F16 && s->b == VK_COMPONENT_F16 && s->c == VK_COMPONENT_F32 &&
            s->result == VK_COMPONENT_F32 && !s->saturating && s->scope == VK_SCOPE_OF_SUBGROUP)
            return p->features.v12.shaderFloat16 && p->features.v12.vulkanMemoryModel;
    }
    return false;
}

/* ---- looking at a device ---- */

static void read_extensions(const struct vk_instance *in, struct vk_phys *p)
{
    uint32_t n = 0;
    if (in->f.EnumerateDeviceExtensionProperties(p->handle, NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return;
    VkExtensionProperties *x = calloc(n, sizeof *x);
    if (x && in->f.EnumerateDeviceExtensionProperties(p->handle, NULL, &n, x) == VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++) {
            p->ext_matrix |= strcmp(x[i].extensionName, "VK_KHR_cooperative_matrix") == 0;
            p->ext_budget |= strcmp(x[i].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
            p->ext_host_memory |= strcmp(x[i].extensionName, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) == 0;
        }
    free(x);
}

static void read_properties(const struct vk_instance *in, struct vk_phys *p)
{
    VkPhysicalDeviceProperties2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p->v11 };
    VkPhysicalDeviceMemoryProperties2 memory = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2 };
    p->v11 = (VkPhysicalDeviceVulkan11Properties){ .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &p->v12 };
    p->v12 = (VkPhysicalDeviceVulkan12Properties){ .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p->v13 };
    p->v13 = (VkPhysicalDeviceVulkan13Properties){ .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES };
    in->f.GetPhysicalDeviceProperties2(p->handle, &all);
    in->f.GetPhysicalDeviceMemoryProperties2(p->handle, &memory);
    p->core = all.properties;
    p->memory = memory.memoryProperties;
}

static void read_features(const struct vk_instance *in, struct vk_phys *p)
{
    struct matrix_features matrix = { .type = MATRIX_FEATURES };
    in->f.GetPhysicalDeviceFeatures2(p->handle, features_chain(&p->features, p->ext_matrix ? &matrix : NULL));
    p->ext_matrix = p->ext_matrix && matrix.matrix;
    if (p->ext_matrix)
        read_shapes(in, p);
}

/* A queue family for compute alone when there is one: on AMD and NVIDIA it is not shared with a desktop's drawing. */
static void read_queues(const struct vk_instance *in, struct vk_phys *p)
{
    VkQueueFamilyProperties q[32];
    uint32_t n = COUNT_OF(q), best = UINT32_MAX;
    in->f.GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, q);
    for (uint32_t i = 0; i < n; i++) {
        bool compute = q[i].queueFlags & VK_QUEUE_COMPUTE_BIT, alone = !(q[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
        if (compute && (best == UINT32_MAX || (alone && (q[best].queueFlags & VK_QUEUE_GRAPHICS_BIT))))
            best = i;
    }
    p->queue_family = best;
    p->timestamp_bits = best == UINT32_MAX ? 0 : q[best].timestampValidBits;
}

static bool subgroup_can_be_set(const struct vk_phys *p)
{
    return p->v13.minSubgroupSize != p->v13.maxSubgroupSize && (p->v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
}

/* 32 wherever 32 can be had: sums have the same order on all GPUs. */
static uint32_t choose_subgroup(const struct vk_phys *p)
{
    bool can = p->v13.minSubgroupSize <= 32 && p->v13.maxSubgroupSize >= 32;
    return can && subgroup_can_be_set(p) ? 32 : p->v11.subgroupSize;
}

enum { GROUP_MEMORY_MIN = 24 << 10, SUBGROUP_MIN = 8 };

static void find_refusal(struct vk_phys *p)
{
    const VkSubgroupFeatureFlags ops =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    char *to = p->refusal;
    size_t room = sizeof p->refusal;
    for (size_t i = 0; i < COUNT_OF(feature_list); i++)
        if (feature_list[i].needed && !*feature_at(&p->features, &feature_list[i])) {
            snprintf(to, room, "it lacks the feature %s", feature_list[i].name);
            return;
        }
    if (p->queue_family == UINT32_MAX)
        snprintf(to, room, "it has no queue for compute");
    else if (!(p->v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) || (p->v11.subgroupSupportedOperations & ops) != ops)
        snprintf(to, room, "it lacks subgroup arithmetic or shuffle in compute shaders");
    else if (p->subgroup < SUBGROUP_MIN)
        snprintf(to, room, "its subgroups have %u items, at least %d are needed", p->subgroup, SUBGROUP_MIN);
    else if (p->v13.minSubgroupSize != p->v13.maxSubgroupSize && !subgroup_can_be_set(p))
        snprintf(to, room, "its subgroup size varies and cannot be set");
    else if (p->core.limits.maxComputeSharedMemorySize < GROUP_MEMORY_MIN)
        snprintf(to, room, "it has %u bytes of shared memory per group, %d are needed", p->core.limits.maxComputeSharedMemorySize,
                 GROUP_MEMORY_MIN);
}

static void look_at(const struct vk_instance *in, VkPhysicalDevice handle, struct vk_phys *p)
{
    *p = (struct vk_phys){ .handle = handle };
    in->f.GetPhysicalDeviceProperties(handle, &p->core);
    p->unified = p->core.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || p->core.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (p->core.apiVersion < VK_API_VERSION_1_3) { /* it does not know the structs that ask for more */
        snprintf(p->refusal, sizeof p->refusal, "its driver speaks Vulkan %u.%u, 1.3 is needed", VK_API_VERSION_MAJOR(p->core.apiVersion),
                 VK_API_VERSION_MINOR(p->core.apiVersion));
        return;
    }
    read_extensions(in, p);
    read_properties(in, p);
    read_features(in, p);
    read_queues(in, p);
    p->subgroup = choose_subgroup(p);
    find_refusal(p);
}

/* ---- the list of devices ---- */

enum { VENDOR_AMD = 0x1002 };

static bool is_software(const struct vk_phys *p) { return p->core.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }

/* Place in the order of preference; of two drivers for one AMD device Mesa's comes first. */
static int preference(const struct vk_phys *p)
{
    bool amd = p->core.vendorID == VENDOR_AMD, other_amd_driver = amd && p->v12.driverID != VK_DRIVER_ID_MESA_RADV;
    switch (p->core.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return (amd ? 0 : 4) + other_amd_driver;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 2 + other_amd_driver;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 8;
    default: return 6;
    }
}

/* All devices, the preferred ones first. *list is the caller's to free; zero devices are an error. */
static status list_devices(const struct vk_instance *in, struct vk_phys **list, uint32_t *n, struct err *e)
{
    VkPhysicalDevice handle[64];
    *n = COUNT_OF(handle);
    VkResult r = in->f.EnumeratePhysicalDevices(in->handle, n, handle);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        return fail(e, ERR_DEVICE, "vulkan: devices: %s", vk_result_name(r));
    if (*n == 0)
        return fail(e, ERR_DEVICE, "vulkan: no device");
    struct vk_phys *p = calloc(*n, sizeof *p);
    if (!p)
        return fail(e, ERR_NOMEM, "vulkan: list of devices");
    for (uint32_t i = 0; i < *n; i++) {
        struct vk_phys here;
        uint32_t at = i;
        look_at(in, handle[i], &here);
        for (; at > 0 && preference(&p[at - 1]) > preference(&here); at--)
            p[at] = p[at - 1];
        p[at] = here;
    }
    *list = p;
    return OK;
}

static status choose(struct vk *v, const struct gpu_params *p, struct err *e)
{
    struct vk_phys *list = NULL;
    uint32_t n = 0, index = p->device;
    TRY(list_devices(&v->in, &list, &n, e));
    status s = OK;
    if (index >= n)
        s = fail(e, ERR_DEVICE, "vulkan: there is no device %u, the last one is %u", index, n - 1);
    else if (list[index].refusal[0])
        s = fail(e, ERR_DEVICE, "vulkan: %s cannot be used: %s", list[index].core.deviceName, list[index].refusal);
    else if (p->no_software && is_software(&list[index]))
        s = fail(e, ERR_DEVICE, "vulkan: %s computes on the CPU", list[index].core.deviceName);
    else
        v->phys = list[index];
    free(list);
    return s;
}

/* ---- opening ---- */

static status create_device(struct vk *v, struct err *e)
{
    const float priority = 1;
    const char *ext[2];
    uint32_t n_ext = 0;
    struct vk_features wanted = { 0 };
    struct matrix_features matrix = { .type = MATRIX_FEATURES, .matrix = VK_TRUE };
    for (size_t i = 0; i < COUNT_OF(feature_list); i++)
        *feature_at(&wanted, &feature_list[i]) = *feature_at(&v->phys.features, &feature_list[i]);
    if (v->phys.ext_matrix)
        ext[n_ext++] = "VK_KHR_cooperative_matrix";
    if (v->phys.ext_budget)
        ext[n_ext++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                      .queueFamilyIndex = v->phys.queue_family,
                                      .queueCount = 1,
                                      .pQueuePriorities = &priority };
    VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                .pNext = features_chain(&wanted, v->phys.ext_matrix ? &matrix : NULL),
                                .queueCreateInfoCount = 1,
                                .pQueueCreateInfos = &queue,
                                .enabledExtensionCount = n_ext,
                                .ppEnabledExtensionNames = ext };
    VkResult r = v->in.f.CreateDevice(v->phys.handle, &info, NULL, &v->dev);
    if (r != VK_SUCCESS)
        return fail(e, ERR_DEVICE, "vulkan: %s: device: %s", v->phys.core.deviceName, vk_result_name(r));
    TRY(vk_device_functions(&v->in, v->dev, &v->f, e));
    v->f.GetDeviceQueue(v->dev, v->phys.queue_family, 0, &v->queue);
    return OK;
}

static status create_queue_objects(struct vk *v, struct err *e)
{
    VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                     .queueFamilyIndex = v->phys.queue_family };
    VkResult r = v->f.CreateSemaphore(v->dev, &semaphore, NULL, &v->timeline);
    if (r == VK_SUCCESS)
        r = v->f.CreateCommandPool(v->dev, &pool, NULL, &v->pool);
    return r == VK_SUCCESS ? OK : fail(e, ERR_DEVICE, "vulkan: semaphore and command pool: %s", vk_result_name(r));
}

static void fill_info(struct vk *v, size_t limit)
{
    const struct vk_phys *p = &v->phys;
    struct gpu_info *info = &v->base.info;
    uint64_t largest = MIN(p->v11.maxMemoryAllocationSize, p->v13.maxBufferSize);
    *info = (struct gpu_info){ .backend = GPU_VULKAN,
                               .device_bytes = vk_heap_bytes(v, GPU_MEM_DEVICE),
                               .shared_bytes = vk_heap_bytes(v, GPU_MEM_SHARED),
                               .alloc_limit = limit ? MIN(limit, largest) : largest,
                               .subgroup_min = p->v13.minSubgroupSize,
                               .subgroup_max = p->v13.maxSubgroupSize,
                               .subgroup = p->subgroup,
                               .group_memory = p->core.limits.maxComputeSharedMemorySize,
                               .integrated = p->core.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                               .matrix = has_matrix(p),
                               .software = is_software(p),
                               .last_group = p->features.v12.vulkanMemoryModelDeviceScope };
    snprintf(info->name, sizeof info->name, "%s", p->core.deviceName);
    snprintf(info->driver, sizeof info->driver, "%.120s %.120s", p->v12.driverName, p->v12.driverInfo);
}

/* A device that is lost, or that never came to the end of its work, is left as it is: to destroy what it may still use could wait for ever. The
 * process's end takes it away. */
static void vk_close(gpu *g)
{
    struct vk *v = vk_of(g);
    if (v->dead.code == OK && v->timeline)
        vk_reach(v, v->submitted, NULL);
    if (v->dead.code == OK && v->dev) {
        vk_pipelines_close(v);
        vk_memory_close(v);
        if (v->pool)
            v->f.DestroyCommandPool(v->dev, v->pool, NULL);
        if (v->timeline)
            v->f.DestroySemaphore(v->dev, v->timeline, NULL);
        if (v->f.DestroyDevice)
            v->f.DestroyDevice(v->dev, NULL);
    }
    if (v->dead.code == OK)
        vk_instance_close(&v->in);
    free(v->cache_dir);
    free(v->pipeline);
    ranges_free(&v->mem);
    if (v->dead.code == OK || !v->in.messenger) /* a layer that was left behind keeps the address of v->in */
        free(v);
}

static const struct gpu_ops vk_ops = { .close = vk_close, .has = vk_has, .alloc = vk_alloc, .free = vk_free, .write = vk_write, .read = vk_read,
                                       .copy = vk_copy, .clear = vk_clear, .memory_used = vk_memory_used, .forget = vk_forget,
                                       .start = vk_start, .wait = vk_wait, .profile = vk_profile };

/* A device in software is as slow as the machine is busy. */
enum { WATCHDOG_S = 60, WATCHDOG_SOFTWARE_S = 600, SPIN_NS = 100 * 1000 };

status gpu_open_vulkan(gpu **out, const struct gpu_params *p, struct err *e)
{
    status s = OK;
    struct vk *v = calloc(1, sizeof *v);
    if (!v)
        return fail(e, ERR_NOMEM, "vulkan device");
    v->base.ops = &vk_ops;
    v->staged = p->staged;
    TRY_OR(out, s, vk_instance_open(&v->in, e));
    TRY_OR(out, s, choose(v, p, e));
    /* A device that is the CPU would be kept from its work by a spinning host. */
    v->spin_ns = is_software(&v->phys) ? 0 : SPIN_NS;
    v->watchdog_ns = (uint64_t)(p->watchdog_s ? p->watchdog_s : is_software(&v->phys) ? WATCHDOG_SOFTWARE_S : WATCHDOG_S) * 1000000000u;
    TRY_OR(out, s, create_device(v, e));
    fill_info(v, p->alloc_limit);
    TRY_OR(out, s, create_queue_objects(v, e));
    TRY_OR(out, s, vk_staging_open(v, e));
    TRY_OR(out, s, vk_pipelines_open(v, p->cache_dir, e));
    *out = &v->base;
    return OK;
out:
    vk_close(&v->base);
    return s;
}

/* ---- what `info --devices` shows ---- */

static const char *type_name(VkPhysicalDeviceType t)
{
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "CPU";
    default: return "other";
    }
}

static const char *component_name(uint32_t c)
{
    static const char *const name[] = { "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    return c < COUNT_OF(name) ? name[c] : "other";
}

static double gib(uint64_t bytes) { return (double)bytes / (double)(1u << 30); }

static void print_matrix(const struct vk_phys *p)
{
    uint32_t shown = 0;
    printf("  matrix       ");
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const struct vk_matrix_shape *s = &p->shape[i];
        if (s->scope != VK_SCOPE_OF_SUBGROUP || s->saturating)
            continue;
        printf("%s%ux%ux%u %s %s + %s = %s", shown++ ? ", " : "", s->m, s->n, s->k, component_name(s->a), component_name(s->b),
               component_name(s->c), component_name(s->result));
    }
    printf("%s; kernels with matrix units: %s\n", shown ? "" : "none", has_matrix(p) ? "yes" : "no");
}

static void print_details(const struct vk_phys *p)
{
    printf("  driver       %s %s\n", p->v12.driverName, p->v12.driverInfo);
    printf("  memory       ");
    for (uint32_t i = 0; i < p->memory.memoryHeapCount; i++)
        printf("%sheap %u: %.1f GiB%s", i ? ", " : "", i, gib(p->memory.memoryHeaps[i].size),
               p->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT ? " of the device" : "");
    printf("\n  limits       allocation %.2f GiB, buffer %.2f GiB, %u KiB shared per group, %u items per group, %u groups\n",
           gib(p->v11.maxMemoryAllocationSize), gib(p->v13.maxBufferSize), p->core.limits.maxComputeSharedMemorySize >> 10,
           p->core.limits.maxComputeWorkGroupInvocations, p->core.limits.maxComputeWorkGroupCount[0]);
    printf("  subgroups    %u to %u, used: %u\n", p->v13.minSubgroupSize, p->v13.maxSubgroupSize, p->subgroup);
    print_matrix(p);
    printf("  extensions   memory budget: %s, external host memory: %s\n", p->ext_budget ? "yes" : "no", p->ext_host_memory ? "yes" : "no");
}

static void print_device(uint32_t index, const struct vk_phys *p)
{
    uint32_t version = p->core.apiVersion;
    printf("%u: %s (%s, Vulkan %u.%u.%u)\n", index, p->core.deviceName, type_name(p->core.deviceType), VK_API_VERSION_MAJOR(version),
           VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version));
    if (version >= VK_API_VERSION_1_3)
        print_details(p);
    if (p->refusal[0])
        printf("  not usable   %s\n", p->refusal);
}

void gpu_print_devices(void)
{
    struct vk_instance in;
    struct vk_phys *list = NULL;
    uint32_t n = 0;
    struct err e;
    status s = vk_instance_open(&in, &e);
    if (s == OK)
        s = list_devices(&in, &list, &n, &e);
    if (s != OK)
        printf("%s\n", e.msg);
    for (uint32_t i = 0; s == OK && i < n; i++)
        print_device(i, &list[i]);
    free(list);
    vk_instance_close(&in);
}
