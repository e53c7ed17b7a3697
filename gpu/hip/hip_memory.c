/* hip_memory.c - allocations, and transfers through two staging buffers in turn: while the device copies out of one, the host fills the other.
 *
 * Everything passes through memory that the runtime pinned: what it would do with other memory differs from one release to the next. gpu_write returns
 * as soon as the last piece has left the caller's memory; everything that could see the difference runs behind it on the same stream. */
#include "gpu/hip/hip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void hip_memory_used(gpu *g, uint64_t *asked, uint64_t *driver)
{
    struct hip *h = hip_of(g);
    size_t left = 0, all = 0;
    *asked = h->mem.bytes;
    *driver = hip_alive(h, NULL) == OK && h->rt.f.memory_info(&left, &all) == HIP_OK && left <= all ? all - left : 0;
}

/* ---- one allocation ---- */

static int mem_create(struct hip *h, struct hip_mem *m, size_t bytes, unsigned host_flags)
{
    void *map = NULL;
    *m = (struct hip_mem){ .on_host = host_flags != 0 };
    if (!host_flags)
        return h->rt.f.memory_alloc(&m->addr, bytes);
    int r = h->rt.f.host_alloc(&map, bytes, host_flags);
    if (r != HIP_OK)
        return r;
    m->map = map;
    r = h->rt.f.host_address(&m->addr, map, 0);
    if (r != HIP_OK)
        h->rt.f.host_free(map);
    return r;
}

static void mem_destroy(struct hip *h, const struct hip_mem *m)
{
    if (m->on_host)
        h->rt.f.host_free(m->map);
    else
        h->rt.f.memory_free(m->addr);
}

/* Where host and device share their memory, what the device does not find in its own part is taken from the host's. */
static int mem_create_for(struct hip *h, struct hip_mem *m, size_t bytes, enum gpu_mem_kind kind)
{
    if (kind == GPU_MEM_SHARED)
        return mem_create(h, m, bytes, h->rt.api->host_shared);
    int r = mem_create(h, m, bytes, 0);
    if (r == HIP_NO_MEMORY && hip_usable_bytes(&h->phys) > h->phys.bytes)
        r = mem_create(h, m, bytes, h->rt.api->host_cached);
    return r;
}

static status refuse(struct hip *h, int r, size_t bytes, const char *what, struct err *e)
{
    uint64_t asked, driver;
    if (r != HIP_NO_MEMORY)
        return fail(e, ERR_DEVICE, "%s: %s: %zu bytes: %s", h->rt.api->name, what, bytes, hip_error(&h->rt, r));
    hip_memory_used(&h->base, &asked, &driver);
    return fail(e, ERR_NOMEM, "%s: %zu MiB do not fit on %s: it has %" PRIu64 " MiB, %" PRIu64 " MiB of them are taken (%s)", what, bytes >> 20,
                h->phys.name, h->base.info.device_bytes >> 20, MAX(asked, driver) >> 20, hip_error(&h->rt, r));
}

static status locate(const struct hip *h, gpu_addr a, size_t n, const struct range **range, struct err *e)
{
    *range = ranges_find(&h->mem, a, n);
    return *range ? OK : fail(e, ERR_DEVICE, "%s: %zu bytes at %#" PRIx64 " do not lie in one allocation", h->rt.api->name, n, a);
}

/* Where the host finds an address; NULL: nowhere */
static uint8_t *host_side(const struct range *r, gpu_addr a)
{
    const struct hip_mem *m = r->owner;
    return m->map ? m->map + (a - r->addr) : NULL;
}

/* ---- staging ---- */

status hip_slots_open(struct hip *h, struct err *e)
{
    for (uint32_t i = 0; i < HIP_SLOTS; i++) {
        struct hip_slot *s = &h->slot[i];
        int r = mem_create(h, &s->mem, HIP_SLOT_BYTES, h->rt.api->host_shared);
        if (r != HIP_OK)
            return refuse(h, r, HIP_SLOT_BYTES, "staging buffer", e);
        s->open = true;
        r = h->rt.f.event_create(&s->event, HIP_EVENT_NO_TIME);
        if (r != HIP_OK)
            return fail(e, ERR_DEVICE, "%s: event of a staging buffer: %s", h->rt.api->name, hip_error(&h->rt, r));
    }
    return OK;
}

void hip_memory_close(struct hip *h)
{
    for (size_t i = 0; i < h->mem.n; i++)
        mem_destroy(h, h->mem.at[i].owner);
    for (uint32_t i = 0; i < HIP_SLOTS; i++) {
        if (h->slot[i].event)
            h->rt.f.event_destroy(h->slot[i].event);
        if (h->slot[i].open)
            mem_destroy(h, &h->slot[i].mem);
    }
}

/* The slot that was used longest ago, free again */
static status slot_begin(struct hip *h, struct hip_slot **out, struct err *e)
{
    struct hip_slot *s = &h->slot[h->next_slot];
    if (s->busy)
        TRY(hip_reach(h, s->event, e));
    s->busy = false;
    h->next_slot = (h->next_slot + 1) % HIP_SLOTS;
    *out = s;
    return OK;
}

/* r: what the transfer itself said */
static status slot_end(struct hip *h, struct hip_slot *s, int r, struct err *e)
{
    if (r == HIP_OK)
        r = h->rt.f.event_record(s->event, h->stream);
    if (r != HIP_OK)
        return hip_lose(h, r, "transfer", e);
    s->busy = true;
    h->busy = true;
    return OK;
}

/* ---- transfers ---- */

status hip_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e)
{
    struct hip *h = hip_of(g);
    const struct range *range;
    TRY(hip_alive(h, e));
    TRY(locate(h, to, n, &range, e));
    uint8_t *map = host_side(range, to);
    if (map) {
        TRY(hip_reach(h, NULL, e)); /* a list that was started may still read what is there now */
        memcpy(map, from, n);
        return OK;
    }
    for (size_t at = 0; at < n; at += HIP_SLOT_BYTES) {
        struct hip_slot *s;
        size_t piece = MIN(n - at, (size_t)HIP_SLOT_BYTES);
        TRY(slot_begin(h, &s, e));
        memcpy(s->mem.map, (const uint8_t *)from + at, piece);
        TRY(slot_end(h, s, h->rt.f.copy_in(to + at, s->mem.map, piece, h->stream), e));
    }
    return OK;
}

/* Pieces leave for the staging buffers ahead of the one the host is waiting for. */
static status read_staged(struct hip *h, uint8_t *to, gpu_addr from, size_t n, struct err *e)
{
    struct hip_slot *of_piece[HIP_SLOTS];
    for (size_t sent = 0, got = 0; got < n; got += HIP_SLOT_BYTES) {
        for (; sent < n && sent < got + (size_t)HIP_SLOTS * HIP_SLOT_BYTES; sent += HIP_SLOT_BYTES) {
            struct hip_slot *s;
            TRY(slot_begin(h, &s, e));
            TRY(slot_end(h, s, h->rt.f.copy_out(s->mem.map, from + sent, MIN(n - sent, (size_t)HIP_SLOT_BYTES), h->stream), e));
            of_piece[sent / HIP_SLOT_BYTES % HIP_SLOTS] = s;
        }
        struct hip_slot *s = of_piece[got / HIP_SLOT_BYTES % HIP_SLOTS];
        TRY(hip_reach(h, s->event, e));
        memcpy(to + got, s->mem.map, MIN(n - got, (size_t)HIP_SLOT_BYTES));
    }
    return OK;
}

status hip_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    struct hip *h = hip_of(g);
    const struct range *range;
    TRY(hip_alive(h, e));
    TRY(locate(h, from, n, &range, e));
    const uint8_t *map = host_side(range, from);
    if (!map)
        return read_staged(h, to, from, n, e);
    TRY(hip_reach(h, NULL, e));
    memcpy(to, map, n);
    return OK;
}

/* Waits for what was just given to the stream; r: what it said. */
static status finish(struct hip *h, int r, struct err *e)
{
    if (r != HIP_OK)
        return hip_lose(h, r, "transfer", e);
    h->busy = true;
    return hip_reach(h, NULL, e);
}

status hip_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e)
{
    struct hip *h = hip_of(g);
    const struct range *range;
    TRY(hip_alive(h, e));
    TRY(locate(h, to, n, &range, e));
    TRY(locate(h, from, n, &range, e));
    if (to < from + n && from < to + n)
        return fail(e, ERR_DEVICE, "%s: copy of %zu bytes onto themselves", h->rt.api->name, n);
    return finish(h, h->rt.f.copy_inside(to, from, n, h->stream), e);
}

status hip_clear(gpu *g, gpu_addr at, size_t n, struct err *e)
{
    struct hip *h = hip_of(g);
    const struct range *range;
    TRY(hip_alive(h, e));
    TRY(locate(h, at, n, &range, e));
    return finish(h, h->rt.f.fill(at, 0, n, h->stream), e);
}

/* ---- allocations ---- */

status hip_alloc(gpu *g, struct gpu_mem *out, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    struct hip *h = hip_of(g);
    TRY(hip_alive(h, e));
    if (bytes == 0)
        return OK;
    if (bytes > h->base.info.alloc_limit)
        return fail(e, ERR_DEVICE, "%s: %zu bytes in one allocation, %s allows %" PRIu64, what, bytes, h->phys.name, h->base.info.alloc_limit);
    struct hip_mem *m = malloc(sizeof *m);
    if (!m || !ranges_reserve(&h->mem)) {
        free(m);
        return fail(e, ERR_NOMEM, "%s: table of allocations", what);
    }
    int r = mem_create_for(h, m, bytes, kind);
    if (r != HIP_OK) {
        free(m);
        return refuse(h, r, bytes, what, e);
    }
    ranges_add(&h->mem, m->addr, bytes, m);
    *out = (struct gpu_mem){ .addr = m->addr, .host = kind == GPU_MEM_SHARED ? m->map : NULL, .bytes = bytes, .impl = m };
    status s = hip_clear(g, m->addr, bytes, e);
    if (s != OK)
        gpu_free(g, out);
    return s;
}

void hip_free(gpu *g, struct gpu_mem *out)
{
    struct hip *h = hip_of(g);
    struct hip_mem *m = out->impl;
    if (h->dead.code == OK)
        hip_reach(h, NULL, NULL);
    ranges_remove(&h->mem, m->addr);
    if (!h->hung)
        mem_destroy(h, m);
    free(m);
}
