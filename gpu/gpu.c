/* gpu.c - lists of calls, and the way from gpu.h to the backend that was opened. */
#include "gpu/gpu_backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void gpu_close(gpu *g)
{
    if (g)
        g->ops->close(g);
}

const char *gpu_backend_name(enum gpu_backend b)
{
    static const char *const name[] = { [GPU_CPU] = "cpu", [GPU_VULKAN] = "vulkan", [GPU_HIP] = "hip", [GPU_CUDA] = "cuda" };
    return name[b];
}
enum gpu_backend gpu_backend_of(const gpu *g) { return g->info.backend; }
const struct gpu_info *gpu_info_of(const gpu *g) { return &g->info; }
bool gpu_has(const gpu *g, const struct gpu_kernel_table *t, uint32_t id) { return g->ops->has(g, &t->row[id]); }

status gpu_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    *m = (struct gpu_mem){ 0 };
    return g->ops->alloc(g, m, bytes, kind, what, e);
}

void gpu_free(gpu *g, struct gpu_mem *m)
{
    if (m->bytes)
        g->ops->free(g, m);
    *m = (struct gpu_mem){ 0 };
}

status gpu_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e) { return n ? g->ops->write(g, to, from, n, e) : OK; }
status gpu_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e) { return n ? g->ops->read(g, to, from, n, e) : OK; }
status gpu_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e) { return n ? g->ops->copy(g, to, from, n, e) : OK; }
status gpu_clear(gpu *g, gpu_addr at, size_t n, struct err *e) { return n ? g->ops->clear(g, at, n, e) : OK; }
void gpu_memory_used(gpu *g, uint64_t *asked, uint64_t *driver) { g->ops->memory_used(g, asked, driver); }

/* ---- lists ---- */

status gpu_cmd_open(gpu *g, struct gpu_cmd *c, uint32_t cap, float *scratch, size_t n_per_thread, struct err *e)
{
    *c = (struct gpu_cmd){ .gpu = g, .call = calloc(cap, sizeof *c->call), .cap = cap, .scratch = scratch, .scratch_n = n_per_thread };
    return c->call ? OK : fail(e, ERR_NOMEM, "list of %u calls", cap);
}

void gpu_cmd_close(struct gpu_cmd *c)
{
    if (c->gpu)
        c->gpu->ops->forget(c->gpu, c);
    free(c->call);
    *c = (struct gpu_cmd){ 0 };
}

void gpu_cmd_reset(struct gpu_cmd *c)
{
    c->gpu->ops->forget(c->gpu, c);
    c->recording = NULL;
    c->n = 0;
    c->row = 0;
    c->err.code = OK;
}

void gpu_record(struct gpu_cmd *c, const struct gpu_kernel_table *t, uint32_t id, const void *args, size_t args_bytes, uint32_t n_items)
{
    assert(id < t->n && args_bytes == t->row[id].args_bytes && args_bytes <= GPU_ARGS_MAX);
    if (n_items == 0 || c->err.code != OK)
        return;
    if (c->n == c->cap) {
        fail(&c->err, ERR_DEVICE, "list of calls is full at %s, capacity %u", t->row[id].id, c->cap);
        return;
    }
    struct gpu_call *call = &c->call[c->n++];
    *call = (struct gpu_call){ .table = t, .id = id, .n_items = n_items, .row = c->row, .part = c->part };
    memcpy(call->args, args, args_bytes);
}

void gpu_record_parallel(struct gpu_cmd *c)
{
    if (c->n)
        c->call[c->n - 1].parallel = true;
}

void gpu_record_together(struct gpu_cmd *c, uint32_t most, uint32_t within)
{
    enum { SHARES = 10 }; /* of a thread, so that one that is held up is not waited for */
    if (c->n == 0 || c->err.code != OK || gpu_backend_of(c->gpu) != GPU_CPU)
        return;
    struct gpu_call *call = &c->call[c->n - 1];
    uint32_t n = call->n_items / call->table->row[call->id].grain / (SHARES * gpu_threads(c->gpu));
    n = MIN(MIN(n, most), (uint32_t)UINT8_MAX);
    while (n > 1 && within % n)
        n--;
    call->together = (uint8_t)n;
}

static void swap_calls(struct gpu_call *a, struct gpu_call *b)
{
    struct gpu_call x = *a;
    *a = *b;
    *b = x;
}

/* In place, cycle by cycle of the permutation: call i of run r goes from r * length + i to i * n_run + r. What has been placed is never moved again,
 * so whoever belongs to a place is found by following where it was swapped to. */
void gpu_record_side_by_side(struct gpu_cmd *c, uint32_t first, uint32_t n_run)
{
    struct gpu_call *call = c->call + first;
    uint32_t n = c->n - first, length = n_run ? n / n_run : 0;
    if (c->err.code != OK || n_run < 2)
        return;
    assert(n % n_run == 0);
    for (uint32_t to = 0; to < n; to++) {
        uint32_t from = to % n_run * length + to / n_run;
        while (from < to) /* it had to make room */
            from = from % n_run * length + from / n_run;
        swap_calls(&call[to], &call[from]);
        if (to % n_run)
            call[to].parallel = true;
    }
}

static status recording_error(const struct gpu_cmd *c, struct err *e)
{
    if (c->err.code != OK && e)
        *e = c->err;
    return c->err.code;
}

status gpu_start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    TRY(recording_error(c, e));
    return g->ops->start(g, c, e);
}

status gpu_wait(gpu *g, struct err *e) { return g->ops->wait(g, e); }

status gpu_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    TRY(recording_error(c, e));
    return g->ops->profile(g, c, seconds, e);
}

struct gpu_moves gpu_moves_of(const struct gpu_cmd *c, const struct gpu_call *call, uint32_t pos, uint32_t n_tok)
{
    struct gpu_moves m = { 0 };
    const struct gpu_at at = { .block_delta = c->block_delta, .n_items = call->n_items, .pos = pos, .n_tok = n_tok };
    call->table->row[call->id].moves(call->args, &at, &m);
    return m;
}

status gpu_submit(gpu *g, struct gpu_cmd *c, struct err *e)
{
    TRY(gpu_start(g, c, e));
    return gpu_wait(g, e);
}
