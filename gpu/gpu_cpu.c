/* gpu_cpu.c - the cpu backend: walks a list of calls with the thread team.
 *
 * All threads walk the list in step. The blocks of a call are taken from a counter; after a call every thread waits for the others, which is
 * the one barrier per dependency that the GPU backends have as well. */
#define _GNU_SOURCE
#include "gpu/gpu.h"
#include "gpu/team.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct gpu {
    team *team;
    enum cpu_isa isa;
    bool reference;
    _Alignas(64) _Atomic uint32_t next[2]; /* next block of this call and, being reset, of the one after */
};

static enum cpu_isa isa_detect(void)
{
#if defined(HAVE_X86_ISAS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma"))
        return ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return ISA_AVX2;
#endif
    return ISA_BASE;
}

uint32_t gpu_cores_available(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return 1;
}

status gpu_open_cpu(gpu **out, const struct gpu_params *p, struct err *e)
{
    gpu *g = aligned_alloc(64, size_up(sizeof *g, 64));
    if (!g)
        return fail(e, ERR_NOMEM, "cpu device");
    *g = (gpu){ .isa = isa_detect(), .reference = p->reference };
    status s = team_open(&g->team, p->n_threads ? p->n_threads : gpu_cores_available(), e);
    if (s != OK) {
        free(g);
        return s;
    }
    *out = g;
    return OK;
}

void gpu_close(gpu *g)
{
    if (!g)
        return;
    team_close(g->team);
    free(g);
}

uint32_t gpu_threads(const gpu *g) { return team_size(g->team); }

const char *gpu_isa_name(const gpu *g)
{
    static const char *const name[ISA_COUNT] = { "base", "avx2", "avx512" };
    return g->reference ? "reference" : name[g->isa];
}

status gpu_cmd_open(struct gpu_cmd *c, uint32_t cap, float *scratch, size_t n_per_thread, struct err *e)
{
    *c = (struct gpu_cmd){ .call = calloc(cap, sizeof *c->call), .cap = cap, .scratch = scratch, .scratch_n = n_per_thread };
    return c->call ? OK : fail(e, ERR_NOMEM, "list of %u calls", cap);
}

void gpu_cmd_close(struct gpu_cmd *c)
{
    free(c->call);
    *c = (struct gpu_cmd){ 0 };
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
    *call = (struct gpu_call){ .table = t, .id = id, .n_items = n_items };
    memcpy(call->args, args, args_bytes);
}

struct walk {
    gpu *g;
    const struct gpu_cmd *c;
};

static void walk_list(void *ctx, uint32_t rank, team *t)
{
    struct walk *w = ctx;
    gpu *g = w->g;
    for (uint32_t i = 0; i < w->c->n; i++) {
        const struct gpu_call *call = &w->c->call[i];
        const struct gpu_kernel *row = &call->table->row[call->id];
        const gpu_row_fn *fast = call->table->fast[g->isa];
        gpu_row_fn fn = !g->reference && fast && fast[call->id] ? fast[call->id] : row->ref;
        uint32_t grain = row->grain, n_blocks = (call->n_items + grain - 1) / grain;
        _Atomic uint32_t *next = &g->next[i & 1];
        if (rank == 0) /* nobody touches the other counter before the barrier below */
            atomic_store_explicit(&g->next[~i & 1], 0, memory_order_relaxed);
        for (uint32_t b; (b = atomic_fetch_add_explicit(next, 1, memory_order_relaxed)) < n_blocks;) {
            struct cpu_scratch s = { w->c->scratch + rank * w->c->scratch_n, w->c->scratch_n };
            fn(call->args, b * grain, MIN(grain, call->n_items - b * grain), &s);
        }
        team_barrier(t);
    }
}

status gpu_submit(gpu *g, const struct gpu_cmd *c, struct err *e)
{
    if (c->err.code != OK) {
        if (e)
            *e = c->err;
        return c->err.code;
    }
    g->next[0] = g->next[1] = 0;
    team_run(g->team, walk_list, &(struct walk){ g, c });
    return OK;
}
