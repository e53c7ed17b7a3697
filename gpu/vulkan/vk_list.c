/* vk_list.c - a list of calls becomes a command buffer at its first start; later starts only submit it. */
#include "gpu/vulkan/vk.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- life and death ---- */

status vk_alive(const struct vk *v, struct err *e)
{
    if (v->dead.code != OK && e)
        *e = v->dead;
    return v->dead.code;
}

status vk_lose(struct vk *v, VkResult r, const char *doing, struct err *e)
{
    if (v->dead.code == OK)
        fail(&v->dead, ERR_DEVICE, "vulkan: %s: %s failed: %s", v->phys.core.deviceName, doing, vk_result_name(r));
    return vk_alive(v, e);
}

/* ---- submitting and waiting ---- */

status vk_submit(struct vk *v, VkCommandBuffer cb, struct err *e)
{
    VkCommandBufferSubmitInfo commands = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = cb };
    VkSemaphoreSubmitInfo signal = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                     .semaphore = v->timeline,
                                     .value = v->submitted + 1,
                                     .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT };
    VkSubmitInfo2 submit = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                             .commandBufferInfoCount = 1,
                             .pCommandBufferInfos = &commands,
                             .signalSemaphoreInfoCount = 1,
                             .pSignalSemaphoreInfos = &signal };
    VkResult r = v->f.QueueSubmit2(v->queue, 1, &submit, VK_NULL_HANDLE);
    if (r != VK_SUCCESS)
        return vk_lose(v, r, "submit", e);
    v->submitted++;
    return OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Looks at the semaphore for a moment before it sleeps: waking up takes as long as the end of a short list. */
static VkResult spin(struct vk *v, uint64_t value)
{
    uint64_t at = 0, start = now_ns();
    do {
        VkResult r = v->f.GetSemaphoreCounterValue(v->dev, v->timeline, &at);
        if (r != VK_SUCCESS)
            return r;
        if (at >= value)
            return VK_SUCCESS;
    } while (now_ns() - start < v->spin_ns);
    return VK_TIMEOUT;
}

status vk_reach(struct vk *v, uint64_t value, struct err *e)
{
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &v->timeline, .pValues = &value
    };
    TRY(vk_alive(v, e));
    if (value <= v->done)
        return OK;
    VkResult r = v->spin_ns ? spin(v, value) : VK_TIMEOUT;
    if (r == VK_TIMEOUT)
        r = v->f.WaitSemaphores(v->dev, &info, v->watchdog_ns);
    if (r == VK_TIMEOUT)
        fail(&v->dead, ERR_DEVICE, "vulkan: %s: no end of the work within %u s (VK_TIMEOUT)", v->phys.core.deviceName,
             (uint32_t)(v->watchdog_ns / 1000000000u));
    if (r != VK_SUCCESS)
        return vk_lose(v, r, "wait", e);
    v->done = value;
    return OK;
}

status vk_wait(gpu *g, struct err *e)
{
    struct vk *v = vk_of(g);
    TRY(vk_reach(v, v->submitted, e));
    if (v->in.complaints)
        return fail(e, ERR_DEVICE, "vulkan: the validation layer found %u faults, see stderr", (uint32_t)v->in.complaints);
    return OK;
}

/* ---- recording ---- */

status vk_command_buffer(struct vk *v, VkCommandBuffer *cb, struct err *e)
{
    VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                         .commandPool = v->pool,
                                         .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                         .commandBufferCount = 1 };
    VkResult r = v->f.AllocateCommandBuffers(v->dev, &info, cb);
    return r == VK_SUCCESS ? OK : fail(e, ERR_DEVICE, "vulkan: command buffer: %s", vk_result_name(r));
}

void vk_barrier(const struct vk *v, VkCommandBuffer cb, VkPipelineStageFlags2 from, VkAccessFlags2 from_access, VkPipelineStageFlags2 to,
                VkAccessFlags2 to_access)
{
    VkMemoryBarrier2 memory = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                .srcStageMask = from,
                                .srcAccessMask = from_access,
                                .dstStageMask = to,
                                .dstAccessMask = to_access };
    VkDependencyInfo info = { .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &memory };
    v->f.CmdPipelineBarrier2(cb, &info);
}

#define KERNELS VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT
#define KERNEL_WRITE VK_ACCESS_2_SHADER_WRITE_BIT
#define KERNEL_ACCESS (VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT)

/* Behind the lists and transfers that were submitted before. */
static void barrier_first(const struct vk *v, VkCommandBuffer cb)
{
    vk_barrier(v, cb, KERNELS | VK_PIPELINE_STAGE_2_TRANSFER_BIT, KERNEL_WRITE | VK_ACCESS_2_TRANSFER_WRITE_BIT, KERNELS, KERNEL_ACCESS);
}

static void barrier_between(const struct vk *v, VkCommandBuffer cb) { vk_barrier(v, cb, KERNELS, KERNEL_WRITE, KERNELS, KERNEL_ACCESS); }

static void barrier_last(const struct vk *v, VkCommandBuffer cb)
{
    vk_barrier(v, cb, KERNELS, KERNEL_WRITE, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT);
}

static status record_call(struct vk *v, VkCommandBuffer cb, const struct gpu_call *call, VkPipeline *bound, struct err *e)
{
    const struct gpu_kernel *row = &call->table->row[call->id];
    uint32_t groups = call->n_items / row->grain + (call->n_items % row->grain != 0);
    VkPipeline pipeline;
    TRY(vk_pipeline_of(v, row, &pipeline, e));
    if (groups > v->phys.core.limits.maxComputeWorkGroupCount[0])
        return fail(e, ERR_DEVICE, "vulkan: %s: %u groups, %s allows %u", row->id, groups, v->phys.core.deviceName,
                    v->phys.core.limits.maxComputeWorkGroupCount[0]);
    if (pipeline != *bound)
        v->f.CmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    *bound = pipeline;
    v->f.CmdPushConstants(cb, v->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, row->args_bytes, call->args);
    v->f.CmdDispatch(cb, groups, 1, 1);
    return OK;
}

/* With queries, every call is alone between two time stamps. */
static status record_calls(struct vk *v, VkCommandBuffer cb, const struct gpu_cmd *c, VkQueryPool queries, struct err *e)
{
    VkPipeline bound = VK_NULL_HANDLE;
    barrier_first(v, cb);
    if (queries) {
        v->f.CmdResetQueryPool(cb, queries, 0, c->n + 1);
        v->f.CmdWriteTimestamp2(cb, KERNELS, queries, 0);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (i > 0 && (queries || !c->call[i].parallel))
            barrier_between(v, cb);
        TRY(record_call(v, cb, &c->call[i], &bound, e));
        if (queries)
            v->f.CmdWriteTimestamp2(cb, KERNELS, queries, i + 1);
    }
    barrier_last(v, cb);
    return OK;
}

static status record(struct vk *v, const struct gpu_cmd *c, VkQueryPool queries, VkCommandBuffer *out, struct err *e)
{
    VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = queries ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
                                                        : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT };
    VkCommandBuffer cb;
    TRY(vk_command_buffer(v, &cb, e));
    VkResult r = v->f.BeginCommandBuffer(cb, &begin);
    status s = r == VK_SUCCESS ? record_calls(v, cb, c, queries, e) : OK;
    if (r == VK_SUCCESS && s == OK)
        r = v->f.EndCommandBuffer(cb);
    if (r != VK_SUCCESS)
        s = fail(e, ERR_DEVICE, "vulkan: recording of a list: %s", vk_result_name(r));
    if (s == OK)
        *out = cb;
    else if (v->dead.code == OK)
        v->f.FreeCommandBuffers(v->dev, v->pool, 1, &cb);
    return s;
}

struct vk_list {
    VkCommandBuffer cb;
    uint64_t value; /* its last submission */
};

static status list_make(struct vk *v, struct gpu_cmd *c, struct err *e)
{
    struct vk_list *l = calloc(1, sizeof *l);
    if (!l)
        return fail(e, ERR_NOMEM, "vulkan: list");
    status s = record(v, c, VK_NULL_HANDLE, &l->cb, e);
    if (s != OK) {
        free(l);
        return s;
    }
    c->recording = l;
    return OK;
}

void vk_forget(gpu *g, struct gpu_cmd *c)
{
    struct vk *v = vk_of(g);
    struct vk_list *l = c->recording;
    if (l && vk_reach(v, l->value, NULL) == OK)
        v->f.FreeCommandBuffers(v->dev, v->pool, 1, &l->cb);
    free(l);
    c->recording = NULL;
}

status vk_start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    struct vk *v = vk_of(g);
    TRY(vk_alive(v, e));
    if (c->n == 0)
        return OK;
    if (!c->recording)
        TRY(list_make(v, c, e));
    struct vk_list *l = c->recording;
    TRY(vk_submit(v, l->cb, e));
    l->value = v->submitted;
    return OK;
}

/* ---- time per call ---- */

static status read_stamps(struct vk *v, VkQueryPool queries, uint32_t n_calls, double *seconds, struct err *e)
{
    uint64_t *stamp = calloc(n_calls + 1, sizeof *stamp);
    uint64_t mask = v->phys.timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << v->phys.timestamp_bits) - 1;
    if (!stamp)
        return fail(e, ERR_NOMEM, "vulkan: time stamps");
    VkResult r = v->f.GetQueryPoolResults(v->dev, queries, 0, n_calls + 1, (n_calls + 1) * sizeof *stamp, stamp, sizeof *stamp,
                                          VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    for (uint32_t i = 0; r == VK_SUCCESS && i < n_calls; i++)
        seconds[i] = (double)((stamp[i + 1] - stamp[i]) & mask) * (double)v->phys.core.limits.timestampPeriod * 1e-9;
    free(stamp);
    return r == VK_SUCCESS ? OK : vk_lose(v, r, "time stamps", e);
}

static status run_profiled(struct vk *v, struct gpu_cmd *c, VkQueryPool queries, double *seconds, struct err *e)
{
    VkCommandBuffer cb;
    TRY(record(v, c, queries, &cb, e));
    status s = vk_submit(v, cb, e);
    if (s == OK)
        s = vk_wait(&v->base, e);
    if (s == OK)
        s = read_stamps(v, queries, c->n, seconds, e);
    if (v->dead.code == OK)
        v->f.FreeCommandBuffers(v->dev, v->pool, 1, &cb);
    return s;
}

status vk_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    struct vk *v = vk_of(g);
    VkQueryPoolCreateInfo info = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = c->n + 1 };
    VkQueryPool queries = VK_NULL_HANDLE;
    TRY(vk_alive(v, e));
    if (c->n == 0)
        return OK;
    if (v->phys.timestamp_bits == 0)
        return fail(e, ERR_UNSUPPORTED, "vulkan: %s has no time stamps", v->phys.core.deviceName);
    VkResult r = v->f.CreateQueryPool(v->dev, &info, NULL, &queries);
    if (r != VK_SUCCESS)
        return fail(e, ERR_DEVICE, "vulkan: time stamps: %s", vk_result_name(r));
    status s = run_profiled(v, c, queries, seconds, e);
    if (v->dead.code == OK)
        v->f.DestroyQueryPool(v->dev, queries, NULL);
    return s;
}
