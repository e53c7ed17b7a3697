/* gpu_recorder.c - a device that is not there: what a program would send to one can be recorded and counted on any machine. */
#include "gpu/gpu_backend.h"

#include <stdlib.h>
#include <string.h>

struct recorder {
    gpu base;
    gpu_addr next;   /* where the next allocation begins */
    uint64_t asked;
};
static struct recorder *recorder_of(gpu *g) { return (struct recorder *)(void *)g; }

static void recorder_close(gpu *g) { free(g); }

static bool recorder_has(const gpu *g, const struct gpu_kernel *row)
{
    bool lacks_matrix = row->needs & NEED_MATRIX && !g->info.matrix, lacks_last = row->needs & NEED_LAST_GROUP && !g->info.last_group;
    return row->workgroup && !lacks_matrix && !lacks_last;
}

/* Addresses far from any pointer, so that one that is followed by mistake is seen at once */
static status recorder_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    struct recorder *r = recorder_of(g);
    *m = (struct gpu_mem){ .addr = r->next, .bytes = bytes };
    if (kind == GPU_MEM_SHARED && !(m->host = pages_alloc(bytes)))
        return fail(e, ERR_NOMEM, "%s: cannot map %zu MiB", what, bytes >> 20);
    r->next += size_up(bytes, 4096);
    r->asked += bytes;
    return OK;
}

static void recorder_free(gpu *g, struct gpu_mem *m)
{
    recorder_of(g)->asked -= m->bytes;
    if (m->host)
        pages_free(m->host, m->bytes);
}

static status recorder_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e) { return (void)g, (void)to, (void)from, (void)n, (void)e, OK; }
static status recorder_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    (void)g, (void)from, (void)e;
    memset(to, 0, n);
    return OK;
}
static status recorder_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e) { return (void)g, (void)to, (void)from, (void)n, (void)e, OK; }
static status recorder_clear(gpu *g, gpu_addr at, size_t n, struct err *e) { return (void)g, (void)at, (void)n, (void)e, OK; }
static void recorder_memory_used(gpu *g, uint64_t *asked, uint64_t *driver)
{
    *asked = recorder_of(g)->asked;
    *driver = 0;
}
static void recorder_forget(gpu *g, struct gpu_cmd *c) { (void)g, (void)c; }
static status recorder_start(gpu *g, struct gpu_cmd *c, struct err *e) { return (void)g, (void)c, (void)e, OK; }
static status recorder_wait(gpu *g, struct err *e) { return (void)g, (void)e, OK; }
static status recorder_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    (void)g, (void)e;
    memset(seconds, 0, c->n * sizeof *seconds);
    return OK;
}

static const struct gpu_ops recorder_ops = { .close = recorder_close, .has = recorder_has, .alloc = recorder_alloc, .free = recorder_free,
                                             .write = recorder_write, .read = recorder_read, .copy = recorder_copy, .clear = recorder_clear,
                                             .memory_used = recorder_memory_used, .forget = recorder_forget, .start = recorder_start,
                                             .wait = recorder_wait, .profile = recorder_profile };

status gpu_open_recorder(gpu **out, const struct gpu_info *like, struct err *e)
{
    struct recorder *r = calloc(1, sizeof *r);
    if (!r)
        return fail(e, ERR_NOMEM, "recorder");
    *r = (struct recorder){ .base = { .ops = &recorder_ops, .info = *like }, .next = (gpu_addr)1 << 52 };
    *out = &r->base;
    return OK;
}
