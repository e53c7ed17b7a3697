/* gpu_cpu.c - the cpu backend: walks a list of calls with the thread team.
 *
 * Calls that may run at once are a step of the team together; their items are cut into blocks of the row's grain. */
#define _GNU_SOURCE
#include "gpu/gpu_backend.h"
#include "gpu/team.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cpu {
    gpu base;
    team *team;
    enum cpu_isa isa;
    bool reference;
    size_t asked; /* bytes of memory handed out */
};
static struct cpu *cpu_of(gpu *g) { return (struct cpu *)(void *)g; }
static const struct cpu *cpu_of_const(const gpu *g) { return (const struct cpu *)(const void *)g; }

static const char *const isa_name[ISA_COUNT] = { "base", "avx2", "avx512" };

/* The largest set that is taken without being asked for; builds with sanitizers take a smaller one (Makefile) */
#ifndef ISA_USUAL
#define ISA_USUAL ISA_AVX512
#endif

static enum cpu_isa isa_detect(void)
{
#if defined(HAVE_X86_ISAS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma"))
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

static void cpu_close(gpu *g)
{
    team_close(cpu_of(g)->team);
    free(g);
}

static bool cpu_has(const gpu *g, const struct gpu_kernel *row)
{
    (void)g, (void)row;
    return true;
}

static status cpu_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    (void)kind;
    void *p = pages_alloc(bytes);
    if (!p)
        return fail(e, ERR_NOMEM, "%s: cannot map %zu MiB", what, bytes >> 20);
    *m = (struct gpu_mem){ .addr = ADDR(p), .host = p, .bytes = bytes };
    cpu_of(g)->asked += bytes;
    return OK;
}

static void cpu_free(gpu *g, struct gpu_mem *m)
{
    cpu_of(g)->asked -= m->bytes;
    pages_free(m->host, m->bytes);
}

static status cpu_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e)
{
    (void)g, (void)e;
    memcpy(AT(void, to), from, n);
    return OK;
}

static status cpu_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    (void)g, (void)e;
    memcpy(to, AT(const void, from), n);
    return OK;
}

static status cpu_copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e)
{
    (void)g, (void)e;
    memmove(AT(void, to), AT(const void, from), n);
    return OK;
}

static status cpu_clear(gpu *g, gpu_addr at, size_t n, struct err *e)
{
    (void)g, (void)e;
    memset(AT(void, at), 0, n);
    return OK;
}

static void cpu_memory_used(gpu *g, uint64_t *asked, uint64_t *driver)
{
    *asked = cpu_of(g)->asked;
    *driver = 0;
}

static void cpu_forget(gpu *g, struct gpu_cmd *c) { (void)g, (void)c; }

uint32_t gpu_threads(const gpu *g) { return g->info.backend == GPU_CPU ? team_size(cpu_of_const(g)->team) : 1; }

const char *gpu_isa_name(const gpu *g)
{
    const struct cpu *c = cpu_of_const(g);
    if (g->info.backend != GPU_CPU)
        return g->info.name;
    return c->reference ? "reference" : isa_name[c->isa];
}

bool gpu_has_twin(const gpu *g, const struct gpu_kernel_table *t, uint32_t id)
{
    return g->info.backend == GPU_CPU && !cpu_of_const(g)->reference && t->fast[cpu_of_const(g)->isa][id];
}

struct walk {
    const struct cpu *g;
    const struct gpu_cmd *c;
    double *start;       /* when each call began; then every call is a step of its own. NULL: nobody asks */
    uint32_t first, end; /* calls of the step */
};

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t items_of_block(const struct gpu_call *call) { return call->table->row[call->id].grain * MAX((uint32_t)call->together, 1u); }

static uint32_t blocks_of(const struct gpu_call *call)
{
    uint32_t n = items_of_block(call);
    return (call->n_items + n - 1) / n;
}

/* Calls of the step that begins with call `first` */
static uint32_t calls_at(const struct gpu_cmd *c, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < c->n && c->call[end].parallel)
        end++;
    return end - first;
}

static uint32_t step_blocks(void *ctx, uint32_t step)
{
    struct walk *w = ctx;
    uint32_t n = 0;
    if (w->start)
        w->start[step] = now_seconds();
    w->first = w->end;
    w->end += w->start ? 1 : calls_at(w->c, w->first);
    for (uint32_t i = w->first; i < w->end; i++)
        n += blocks_of(&w->c->call[i]);
    return n;
}

static void run_block(void *ctx, uint32_t step, uint32_t block, uint32_t rank)
{
    const struct walk *w = ctx;
    const struct gpu_call *call = &w->c->call[w->first];
    (void)step;
    for (uint32_t n; block >= (n = blocks_of(call)); call++)
        block -= n;
    const struct gpu_kernel *row = &call->table->row[call->id];
    gpu_row_fn fast = w->g->reference ? NULL : call->table->fast[w->g->isa][call->id];
    uint32_t n = items_of_block(call), first = block * n;
    struct cpu_scratch s = { w->c->scratch + rank * w->c->scratch_n, w->c->scratch_n };
    (fast ? fast : row->ref)(call->args, first, MIN(n, call->n_items - first), &s);
}

static status cpu_start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    uint32_t n_step = 0;
    (void)e;
    for (uint32_t i = 0; i < c->n; i += calls_at(c, i))
        n_step++;
    team_run(cpu_of(g)->team, n_step, step_blocks, run_block, &(struct walk){ .g = cpu_of(g), .c = c });
    return OK;
}

/* The list runs as it always does; the thread that opens a step looks at the clock. */
static status cpu_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    (void)e;
    team_run(cpu_of(g)->team, c->n, step_blocks, run_block, &(struct walk){ .g = cpu_of(g), .c = c, .start = seconds });
    double end = now_seconds();
    for (uint32_t i = c->n; i-- > 0;) {
        double start = seconds[i];
        seconds[i] = end - start;
        end = start;
    }
    return OK;
}

static status cpu_wait(gpu *g, struct err *e)
{
    (void)g, (void)e; /* cpu_start returns when the work is done */
    return OK;
}

static const struct gpu_ops cpu_ops = { .close = cpu_close, .has = cpu_has, .alloc = cpu_alloc, .free = cpu_free, .write = cpu_write,
                                        .read = cpu_read, .copy = cpu_copy, .clear = cpu_clear, .memory_used = cpu_memory_used,
                                        .forget = cpu_forget, .start = cpu_start, .wait = cpu_wait, .profile = cpu_profile };

status gpu_open_cpu(gpu **out, const struct gpu_params *p, struct err *e)
{
    enum cpu_isa best = isa_detect(), isa = p->isa ? (enum cpu_isa)(p->isa - 1) : MIN(best, ISA_USUAL);
    if (isa > best)
        return fail(e, ERR_DEVICE, "cpu: this machine has no %s", isa_name[isa]);
    struct cpu *c = calloc(1, sizeof *c);
    if (!c)
        return fail(e, ERR_NOMEM, "cpu device");
    *c = (struct cpu){ .base = { .ops = &cpu_ops, .info = { .backend = GPU_CPU, .name = "cpu" } }, .isa = isa, .reference = p->reference };
    status s = team_open(&c->team, p->n_threads ? p->n_threads : gpu_cores_available(), e);
    if (s != OK) {
        free(c);
        return s;
    }
    *out = &c->base;
    return OK;
}
