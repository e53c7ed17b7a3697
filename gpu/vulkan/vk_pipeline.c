/* vk_pipeline.c - from a kernel row to a pipeline, and the file that keeps compiled pipelines from one run to the next.
 *
 * The file is named after the device and its driver. What it holds is the driver's own format behind a short header with length and hash;
 * a file that does not agree with its header, or that another driver wrote, counts as none. */
#include "gpu/vulkan/vk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- rows ---- */

static const struct kernel_bin *binary_of(const struct gpu_kernel *row)
{
    const struct kernel_bin *b = row->workgroup ? kernel_bin_find(row->id) : NULL;
    return b && b->spirv_bytes ? b : NULL;
}

/* Whether the size of the subgroup is asked for or comes by itself; there is a limit on subgroups per group only where it is asked for. */
static bool sets_subgroup(const struct vk_phys *p) { return p->v13.minSubgroupSize != p->v13.maxSubgroupSize; }

static bool group_fits(const struct vk_phys *p, uint32_t workgroup)
{
    const VkPhysicalDeviceLimits *l = &p->core.limits;
    return workgroup <= l->maxComputeWorkGroupInvocations && workgroup <= l->maxComputeWorkGroupSize[0] && workgroup % p->subgroup == 0 &&
           (!sets_subgroup(p) || workgroup / p->subgroup <= p->v13.maxComputeWorkgroupSubgroups);
}

/* NULL: the device can run the row. */
static const char *hindrance(const struct vk *v, const struct gpu_kernel *row)
{
    if (!binary_of(row))
        return "this build has no kernel for Vulkan";
    if (!group_fits(&v->phys, row->workgroup))
        return "the workgroup does not fit";
    if ((row->needs & NEED_MATRIX) && !v->base.info.matrix)
        return "the device has no matrix units";
    if ((row->needs & NEED_LAST_GROUP) && !v->base.info.last_group)
        return "the device has no atomics of device scope";
    return NULL;
}

bool vk_has(const gpu *g, const struct gpu_kernel *row) { return !hindrance((const struct vk *)(const void *)g, row); }

/* ---- pipelines ---- */

static VkResult create_pipeline(struct vk *v, const struct kernel_bin *b, VkPipeline *out)
{
    VkShaderModule module = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo code = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = b->spirv_bytes,
                                      .pCode = (const uint32_t *)(const void *)b->spirv };
    VkResult r = v->f.CreateShaderModule(v->dev, &code, NULL, &module);
    if (r != VK_SUCCESS)
        return r;
    /* Constant 0: slow_convert of glsl.h; rows that do not have it ignore it. NVIDIA converts integers to floats at an eighth of the rate of additions. */
    VkBool32 slow_convert = v->phys.core.vendorID == 0x10de;
    VkSpecializationMapEntry entry = { .constantID = 0, .offset = 0, .size = sizeof slow_convert };
    VkSpecializationInfo constants = { .mapEntryCount = 1, .pMapEntries = &entry, .dataSize = sizeof slow_convert, .pData = &slow_convert };
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, .requiredSubgroupSize = v->phys.subgroup
    };
    VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                         .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                    .pNext = sets_subgroup(&v->phys) ? &size : NULL,
                                                    .flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT,
                                                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                    .module = module,
                                                    .pName = "main",
                                                    .pSpecializationInfo = &constants },
                                         .layout = v->layout };
    r = v->f.CreateComputePipelines(v->dev, v->cache, 1, &info, NULL, out);
    v->f.DestroyShaderModule(v->dev, module, NULL);
    return r;
}

/* Where the row is, or where it belongs. */
static size_t find_row(const struct vk *v, const struct gpu_kernel *row)
{
    size_t low = 0, high = v->n_pipelines;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((uintptr_t)v->pipeline[mid].row < (uintptr_t)row)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool reserve_pipelines(struct vk *v)
{
    if (v->n_pipelines < v->cap_pipelines)
        return true;
    size_t cap = v->cap_pipelines ? 2 * v->cap_pipelines : 64;
    struct vk_pipeline *p = realloc(v->pipeline, cap * sizeof *p);
    if (!p)
        return false;
    v->pipeline = p;
    v->cap_pipelines = cap;
    return true;
}

status vk_pipeline_of(struct vk *v, const struct gpu_kernel *row, VkPipeline *out, struct err *e)
{
    size_t at = find_row(v, row);
    if (at < v->n_pipelines && v->pipeline[at].row == row) {
        *out = v->pipeline[at].handle;
        return OK;
    }
    const char *why = hindrance(v, row);
    if (why)
        return fail(e, ERR_DEVICE, "vulkan: %s: %s", row->id, why);
    if (!reserve_pipelines(v))
        return fail(e, ERR_NOMEM, "vulkan: table of pipelines");
    VkResult r = create_pipeline(v, binary_of(row), out);
    if (r == VK_ERROR_DEVICE_LOST)
        return vk_lose(v, r, row->id, e);
    if (r != VK_SUCCESS)
        return fail(e, ERR_DEVICE, "vulkan: %s: the driver cannot compile it: %s", row->id, vk_result_name(r));
    memmove(v->pipeline + at + 1, v->pipeline + at, (v->n_pipelines - at) * sizeof *v->pipeline);
    v->pipeline[at] = (struct vk_pipeline){ row, *out };
    v->n_pipelines++;
    return OK;
}

/* ---- the file of compiled pipelines ---- */

struct cache_head {
    char magic[8];
    uint64_t bytes, hash; /* of what follows */
};
static const char cache_magic[8] = "hayvkpc1";
enum { CACHE_BYTES_MAX = 256 << 20, PATH_ROOM = 4096, NAME_ROOM = 128 };

static void cache_path(const struct vk *v, char *to, size_t room, const char *end)
{
    const VkPhysicalDeviceProperties *p = &v->phys.core;
    char uuid[2 * VK_UUID_SIZE + 1];
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", p->pipelineCacheUUID[i]);
    snprintf(to, room, "%s/vulkan-%04x-%04x-%08x-%s.pipelines%s", v->cache_dir, p->vendorID, p->deviceID, p->driverVersion, uuid, end);
}

/* The driver checks what it is given, but not every driver does it with care. */
static bool data_is_ours(const struct vk *v, const uint8_t *data, size_t n)
{
    VkPipelineCacheHeaderVersionOne h;
    if (n < sizeof h)
        return false;
    memcpy(&h, data, sizeof h);
    return h.headerSize >= sizeof h && h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && h.vendorID == v->phys.core.vendorID &&
           h.deviceID == v->phys.core.deviceID && memcmp(h.pipelineCacheUUID, v->phys.core.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* The contents of the file, NULL when there are none that can be used. */
static uint8_t *cache_read(const struct vk *v, size_t *n)
{
    char path[PATH_ROOM];
    struct cache_head head;
    uint8_t *data = NULL;
    cache_path(v, path, sizeof path, "");
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    if (fread(&head, sizeof head, 1, f) == 1 && memcmp(head.magic, cache_magic, sizeof cache_magic) == 0 && head.bytes <= CACHE_BYTES_MAX)
        data = malloc(head.bytes + 1);
    if (data && (fread(data, 1, head.bytes + 1, f) != head.bytes || XXH3_64bits(data, head.bytes) != head.hash ||
                 !data_is_ours(v, data, head.bytes))) {
        free(data);
        data = NULL;
    }
    *n = data ? head.bytes : 0;
    fclose(f);
    return data;
}

/* Written beside the file and moved over it, so that no reader ever sees a part. What cannot be written is compiled again next time. */
static void cache_write(const struct vk *v, const uint8_t *data, size_t n)
{
    char path[PATH_ROOM], temporary[PATH_ROOM], end[32];
    struct cache_head head = { .bytes = n, .hash = XXH3_64bits(data, n) };
    if (head.hash == v->cache_hash)
        return;
    memcpy(head.magic, cache_magic, sizeof cache_magic);
    snprintf(end, sizeof end, ".%ld", (long)getpid());
    cache_path(v, path, sizeof path, "");
    cache_path(v, temporary, sizeof temporary, end);
    mkdir(v->cache_dir, 0700);
    FILE *f = fopen(temporary, "wb");
    if (!f)
        return;
    bool written = fwrite(&head, sizeof head, 1, f) == 1 && fwrite(data, 1, n, f) == n;
    written = fclose(f) == 0 && written;
    if (!written || rename(temporary, path) != 0)
        unlink(temporary);
}

static void cache_save(struct vk *v)
{
    size_t n = 0;
    if (!v->cache_dir || !v->cache || !v->n_pipelines || v->f.GetPipelineCacheData(v->dev, v->cache, &n, NULL) != VK_SUCCESS)
        return;
    uint8_t *data = malloc(n + 1);
    if (data && n && n <= CACHE_BYTES_MAX && v->f.GetPipelineCacheData(v->dev, v->cache, &n, data) == VK_SUCCESS)
        cache_write(v, data, n);
    free(data);
}

/* ---- opening and closing ---- */

static VkResult create_cache(struct vk *v)
{
    size_t n = 0;
    uint8_t *data = v->cache_dir ? cache_read(v, &n) : NULL;
    VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = n, .pInitialData = data };
    v->cache_hash = data ? XXH3_64bits(data, n) : 0;
    VkResult r = v->f.CreatePipelineCache(v->dev, &info, NULL, &v->cache);
    free(data);
    return r;
}

status vk_pipelines_open(struct vk *v, const char *cache_dir, struct err *e)
{
    /* One layout for all rows: a row pushes as many of these bytes as its arguments have. */
    VkPushConstantRange push = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = GPU_ARGS_MAX };
    VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                          .pushConstantRangeCount = 1,
                                          .pPushConstantRanges = &push };
    if (cache_dir && strlen(cache_dir) >= PATH_ROOM - NAME_ROOM)
        return fail(e, ERR_IO, "vulkan: the name of the folder for pipelines is too long");
    if (cache_dir && !(v->cache_dir = strdup(cache_dir)))
        return fail(e, ERR_NOMEM, "vulkan: name of the folder for pipelines");
    VkResult r = v->f.CreatePipelineLayout(v->dev, &layout, NULL, &v->layout);
    if (r == VK_SUCCESS)
        r = create_cache(v);
    return r == VK_SUCCESS ? OK : fail(e, ERR_DEVICE, "vulkan: pipeline layout and cache: %s", vk_result_name(r));
}

void vk_pipelines_close(struct vk *v)
{
    if (!v->f.DestroyPipeline) /* the functions were never loaded */
        return;
    cache_save(v);
    for (size_t i = 0; i < v->n_pipelines; i++)
        v->f.DestroyPipeline(v->dev, v->pipeline[i].handle, NULL);
    v->n_pipelines = 0;
    v->f.DestroyPipelineCache(v->dev, v->cache, NULL);
    v->f.DestroyPipelineLayout(v->dev, v->layout, NULL);
}
