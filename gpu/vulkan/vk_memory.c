/* vk_memory.c - allocations, each a buffer with memory and an address of its own, and transfers.
 *
 * Memory that the host can reach stays mapped and is copied directly. Otherwise bytes pass through two staging buffers in turn: while the
 * device copies out of one, the host fills the other. gpu_write returns as soon as the last piece has left the caller's memory; everything that could
 * see the difference runs behind it on the same queue. */
#include "gpu/vulkan/vk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory types ---- */

enum use { USE_DEVICE, USE_SHARED, USE_STAGING };

static bool has_all(VkMemoryPropertyFlags have, VkMemoryPropertyFlags want) { return (have & want) == want; }

/* How well a memory type suits a use; negative: not at all. */
static int suits(const struct vk *v, uint32_t type, enum use use)
{
    const VkMemoryPropertyFlags odd = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                      VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
    VkMemoryPropertyFlags p = v->phys.memory.memoryTypes[type].propertyFlags;
    bool local = p & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, cached = p & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    bool visible = has_all(p, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    if (p & odd)
        return -1;
    switch (use) {
    case USE_DEVICE: /* where all memory is one, a type that is called the host's is better than none; caching there costs the device */
        return local || v->phys.unified ? 4 * local + 2 * (visible == v->phys.unified) + !cached : -1;
    case USE_SHARED: return visible ? 2 * local + !cached : -1;
    default: return visible ? 2 * cached + !local : -1;
    }
}

/* The best type among `types` (bits); UINT32_MAX: none is left. */
static uint32_t best_type(const struct vk *v, uint32_t types, enum use use)
{
    uint32_t best = UINT32_MAX;
    int score = -1;
    for (uint32_t i = 0; i < v->phys.memory.memoryTypeCount; i++)
        if ((types >> i & 1) && suits(v, i, use) > score) {
            score = suits(v, i, use);
            best = i;
        }
    return best;
}

/* Whether device memory may come from a heap. */
static bool heap_serves_device(const struct vk *v, uint32_t heap)
{
    for (uint32_t i = 0; i < v->phys.memory.memoryTypeCount; i++)
        if (v->phys.memory.memoryTypes[i].heapIndex == heap && suits(v, i, USE_DEVICE) >= 0)
            return true;
    return false;
}

uint64_t vk_heap_bytes(const struct vk *v, enum gpu_mem_kind kind)
{
    uint64_t sum = 0;
    if (kind == GPU_MEM_SHARED) {
        uint32_t t = best_type(v, UINT32_MAX, USE_SHARED);
        return t == UINT32_MAX ? 0 : v->phys.memory.memoryHeaps[v->phys.memory.memoryTypes[t].heapIndex].size;
    }
    for (uint32_t h = 0; h < v->phys.memory.memoryHeapCount; h++)
        if (heap_serves_device(v, h))
            sum += v->phys.memory.memoryHeaps[h].size;
    return sum;
}

void vk_memory_used(gpu *g, uint64_t *asked, uint64_t *driver)
{
    struct vk *v = vk_of(g);
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT };
    VkPhysicalDeviceMemoryProperties2 memory = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget };
    *asked = v->mem.bytes;
    *driver = 0;
    if (!v->phys.ext_budget || v->dead.code != OK)
        return;
    v->in.f.GetPhysicalDeviceMemoryProperties2(v->phys.handle, &memory);
    for (uint32_t h = 0; h < v->phys.memory.memoryHeapCount; h++)
        if (heap_serves_device(v, h))
            *driver += budget.heapUsage[h];
}

/* ---- one allocation ---- */

static void mem_destroy(struct vk *v, struct vk_mem *m)
{
    v->f.DestroyBuffer(v->dev, m->buffer, NULL);
    v->f.FreeMemory(v->dev, m->memory, NULL); /* unmaps */
    *m = (struct vk_mem){ 0 };
}

static VkResult create_buffer(struct vk *v, struct vk_mem *m, size_t bytes)
{
    VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                .size = size_up(bytes, 16), /* whole words to clear */
                                .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                         VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT };
    return v->f.CreateBuffer(v->dev, &info, NULL, &m->buffer);
}

/* Takes the memory from the best type that has room. */
static VkResult back_buffer(struct vk *v, struct vk_mem *m, enum use use, uint32_t *type)
{
    VkMemoryRequirements need;
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    v->f.GetBufferMemoryRequirements(v->dev, m->buffer, &need);
    for (uint32_t left = need.memoryTypeBits; (*type = best_type(v, left, use)) != UINT32_MAX; left &= ~(1u << *type)) {
        VkMemoryAllocateFlagsInfo with_address = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                                   .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
        VkMemoryAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                      .pNext = &with_address,
                                      .allocationSize = need.size,
                                      .memoryTypeIndex = *type };
        r = v->f.AllocateMemory(v->dev, &info, NULL, &m->memory);
        if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY)
            break;
    }
    return r == VK_SUCCESS ? v->f.BindBufferMemory(v->dev, m->buffer, m->memory, 0) : r;
}

static VkResult map_buffer(struct vk *v, struct vk_mem *m, uint32_t type)
{
    VkMemoryPropertyFlags p = v->phys.memory.memoryTypes[type].propertyFlags;
    void *map = NULL;
    if (!has_all(p, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
        return VK_SUCCESS;
    VkResult r = v->f.MapMemory(v->dev, m->memory, 0, VK_WHOLE_SIZE, 0, &map);
    m->map = map;
    m->cached = p & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    return r;
}

static VkResult mem_create(struct vk *v, struct vk_mem *m, size_t bytes, enum use use)
{
    uint32_t type = 0;
    *m = (struct vk_mem){ 0 };
    VkResult r = create_buffer(v, m, bytes);
    if (r == VK_SUCCESS)
        r = back_buffer(v, m, use, &type);
    if (r == VK_SUCCESS)
        r = map_buffer(v, m, type);
    if (r != VK_SUCCESS) {
        mem_destroy(v, m);
        return r;
    }
    VkBufferDeviceAddressInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = m->buffer };
    m->addr = v->f.GetBufferDeviceAddress(v->dev, &info);
    return r;
}

static status refuse(struct vk *v, VkResult r, size_t bytes, const char *what, struct err *e)
{
    uint64_t asked, driver;
    if (r == VK_ERROR_DEVICE_LOST)
        return vk_lose(v, r, what, e);
    if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY)
        return fail(e, ERR_DEVICE, "%s: %zu bytes: %s", what, bytes, vk_result_name(r));
    vk_memory_used(&v->base, &asked, &driver);
    return fail(e, ERR_NOMEM, "%s: %zu MiB do not fit on %s: it has %" PRIu64 " MiB, %" PRIu64 " MiB of them are taken", what, bytes >> 20,
                v->phys.core.deviceName, v->base.info.device_bytes >> 20, MAX(asked, driver) >> 20);
}

/* ---- from an address to its allocation ---- */

static status locate(const struct vk *v, gpu_addr a, size_t n, struct vk_mem **m, size_t *offset, struct err *e)
{
    const struct range *r = ranges_find(&v->mem, a, n);
    *m = r ? r->owner : NULL;
    *offset = r ? a - r->addr : 0;
    return r ? OK : fail(e, ERR_DEVICE, "vulkan: %zu bytes at %#" PRIx64 " do not lie in one allocation", n, a);
}

/* ---- staging ---- */

status vk_staging_open(struct vk *v, struct err *e)
{
    for (uint32_t i = 0; i < VK_SLOTS; i++) {
        VkResult r = mem_create(v, &v->slot[i].mem, VK_SLOT_BYTES, USE_STAGING);
        if (r != VK_SUCCESS)
            return refuse(v, r, VK_SLOT_BYTES, "vulkan: staging buffer", e);
        TRY(vk_command_buffer(v, &v->slot[i].cb, e));
    }
    return OK;
}

void vk_memory_close(struct vk *v)
{
    for (size_t i = 0; i < v->mem.n; i++) {
        mem_destroy(v, v->mem.at[i].owner);
        free(v->mem.at[i].owner);
    }
    v->mem.n = 0;
    for (uint32_t i = 0; i < VK_SLOTS; i++)
        if (v->slot[i].mem.buffer)
            mem_destroy(v, &v->slot[i].mem);
}

/* The slot that was used longest ago, free again, its command buffer open and behind all that was submitted before. */
static status slot_begin(struct vk *v, struct vk_slot **out, struct err *e)
{
    struct vk_slot *s = &v->slot[v->next_slot];
    VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
    TRY(vk_reach(v, s->value, e));
    VkResult r = v->f.BeginCommandBuffer(s->cb, &begin);
    if (r != VK_SUCCESS)
        return vk_lose(v, r, "transfer", e);
    vk_barrier(v, s->cb, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_TRANSFER_BIT,
               VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_2_TRANSFER_BIT,
               VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT);
    v->next_slot = (v->next_slot + 1) % VK_SLOTS;
    *out = s;
    return OK;
}

static status slot_submit(struct vk *v, struct vk_slot *s, struct err *e)
{
    vk_barrier(v, s->cb, VK_PIPELINE_STAGE_2_TRANSFER_BIT, VK_ACCESS_2_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_2_HOST_BIT,
               VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT);
    VkResult r = v->f.EndCommandBuffer(s->cb);
    if (r != VK_SUCCESS)
        return vk_lose(v, r, "transfer", e);
    TRY(vk_submit(v, s->cb, e));
    s->value = v->submitted;
    return OK;
}

/* ---- transfers ---- */

static void copy_range(struct vk *v, VkCommandBuffer cb, VkBuffer from, size_t from_offset, VkBuffer to, size_t to_offset, size_t n)
{
    VkBufferCopy region = { .srcOffset = from_offset, .dstOffset = to_offset, .size = n };
    v->f.CmdCopyBuffer(cb, from, to, 1, &region);
}

static status write_staged(struct vk *v, const struct vk_mem *m, size_t offset, const uint8_t *from, size_t n, struct err *e)
{
    for (size_t at = 0; at < n; at += VK_SLOT_BYTES) {
        struct vk_slot *s;
        size_t piece = MIN(n - at, (size_t)VK_SLOT_BYTES);
        TRY(slot_begin(v, &s, e));
        memcpy(s->mem.map, from + at, piece);
        copy_range(v, s->cb, s->mem.buffer, 0, m->buffer, offset + at, piece);
        TRY(slot_submit(v, s, e));
    }
    return OK;
}

status vk_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e)
{
    struct vk *v = vk_of(g);
    struct vk_mem *m;
    size_t offset;
    TRY(vk_alive(v, e));
    TRY(locate(v, to, n, &m, &offset, e));
    if (!m->map)
        return write_staged(v, m, offset, from, n, e);
    TRY(vk_reach(v, v->submitted, e)); /* a list that was started may still read what is there now */
    memcpy(m->map + offset, from, n);
    return OK;
}

/* Pieces leave for the staging buffers ahead of the one the host is waiting for. */
static status read_staged(struct vk *v, const struct vk_mem *m, size_t offset, uint8_t *to, size_t n, struct err *e)
{
    struct vk_slot *of_piece[VK_SLOTS];
    for (size_t sent = 0, got = 0; got < n; got += VK_SLOT_BYTES) {
        for (; sent < n && sent < got + (size_t)VK_SLOTS * VK_SLOT_BYTES; sent += VK_SLOT_BYTES) {
            struct vk_slot *s;
            TRY(slot_begin(v, &s, e));
            copy_range(v, s->cb, m->buffer, offset + sent, s->mem.buffer, 0, MIN(n - sent, (size_t)VK_SLOT_BYTES));
            TRY(slot_submit(v, s, e));
            of_piece[sent / VK_SLOT_BYTES % VK_SLOTS] = s;
        }
        struct vk_slot *s = of_piece[got / VK_SLOT_BYTES % VK_SLOTS];
        TRY(vk_reach(v, s->value, e));
        memcpy(to + got, s->mem.map, MIN(n - got, (size_t)VK_SLOT_BYTES));
    }
    return OK;
}

/* Up to here the host reads memory that it does not cache by itself; a trip through the queue takes longer. */
enum { SLOW_READ_BYTES = 4096 };

status vk_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    struct vk *v = vk_of(g);
    struct vk_mem *m;
    size_t offset;
    TRY(vk_alive(v, e));
    TRY(locate(v, from, n, &m, &offset, e));
    if (!m->map || (!m->cached && n > SLOW_READ_BYTES))
        return read_staged(v, m, offset, to, n, e);
    TRY(vk_reach(v, v->submitted, e));
    memcpy(to, m->map + offset, n);
    return OK;
}

status vk_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e)
{
    struct vk *v = vk_of(g);
    struct vk_mem *m_to, *m_from;
    struct vk_slot *s;
    size_t o_to, o_from;
    TRY(vk_alive(v, e));
    TRY(locate(v, to, n, &m_to, &o_to, e));
    TRY(locate(v, from, n, &m_from, &o_from, e));
    if (m_to == m_from && o_to < o_from + n && o_from < o_to + n)
        return fail(e, ERR_DEVICE, "vulkan: copy of %zu bytes onto themselves", n);
    TRY(slot_begin(v, &s, e));
    copy_range(v, s->cb, m_from->buffer, o_from, m_to->buffer, o_to, n);
    TRY(slot_submit(v, s, e));
    return vk_reach(v, s->value, e);
}

/* Words are filled by the device; what stands before the first and behind the last whole word is copied from a zero. */
static status fill_zero(struct vk *v, const struct vk_mem *m, size_t offset, size_t n, struct err *e)
{
    struct vk_slot *s;
    size_t first = MIN(size_up(offset, 4), offset + n), last = MAX(first, (offset + n) & ~(size_t)3);
    TRY(slot_begin(v, &s, e));
    memset(s->mem.map, 0, 4);
    if (first > offset)
        copy_range(v, s->cb, s->mem.buffer, 0, m->buffer, offset, first - offset);
    if (last > first)
        v->f.CmdFillBuffer(s->cb, m->buffer, first, last - first, 0);
    if (offset + n > last)
        copy_range(v, s->cb, s->mem.buffer, 0, m->buffer, last, offset + n - last);
    TRY(slot_submit(v, s, e));
    return vk_reach(v, s->value, e);
}

/* The host clears little faster than the device would begin. */
enum { HOST_CLEAR_BYTES = 64 << 10 };

static status clear_range(struct vk *v, const struct vk_mem *m, size_t offset, size_t n, struct err *e)
{
    if (!m->map || n > HOST_CLEAR_BYTES)
        return fill_zero(v, m, offset, n, e);
    TRY(vk_reach(v, v->submitted, e));
    memset(m->map + offset, 0, n);
    return OK;
}

status vk_clear(gpu *g, gpu_addr at, size_t n, struct err *e)
{
    struct vk *v = vk_of(g);
    struct vk_mem *m;
    size_t offset;
    TRY(vk_alive(v, e));
    TRY(locate(v, at, n, &m, &offset, e));
    return clear_range(v, m, offset, n, e);
}

/* ---- allocations ---- */

status vk_alloc(gpu *g, struct gpu_mem *out, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    struct vk *v = vk_of(g);
    TRY(vk_alive(v, e));
    if (bytes == 0)
        return OK;
    if (bytes > v->base.info.alloc_limit)
        return fail(e, ERR_DEVICE, "%s: %zu bytes in one allocation, %s allows %" PRIu64, what, bytes, v->phys.core.deviceName,
                    v->base.info.alloc_limit);
    struct vk_mem *m = calloc(1, sizeof *m);
    if (!m || !ranges_reserve(&v->mem)) {
        free(m);
        return fail(e, ERR_NOMEM, "%s: table of allocations", what);
    }
    VkResult r = mem_create(v, m, bytes, kind == GPU_MEM_SHARED ? USE_SHARED : USE_DEVICE);
    if (r != VK_SUCCESS) {
        free(m);
        return refuse(v, r, bytes, what, e);
    }
    void *shared = kind == GPU_MEM_SHARED ? m->map : NULL;
    if (v->staged)
        m->map = NULL;
    ranges_add(&v->mem, m->addr, bytes, m);
    *out = (struct gpu_mem){ .addr = m->addr, .host = shared, .map = kind == GPU_MEM_DEVICE ? m->map : NULL, .bytes = bytes, .impl = m };
    status s = clear_range(v, m, 0, bytes, e);
    if (s != OK)
        gpu_free(g, out);
    return s;
}

void vk_free(gpu *g, struct gpu_mem *out)
{
    struct vk *v = vk_of(g);
    struct vk_mem *m = out->impl;
    ranges_remove(&v->mem, m->addr);
    if (v->dead.code == OK && vk_reach(v, v->submitted, NULL) == OK)
        mem_destroy(v, m);
    free(m);
}
