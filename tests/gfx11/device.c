/* device.c - gpu.h on the interpreter. */
#include "tests/gfx11/device.h"

#include "gpu/gpu_backend.h"
#include "kernels_bin/kernels_bin.h"

#include <stdlib.h>
#include <string.h>

struct allocation {
    uint8_t *p, *bad;
    size_t bytes;
};
struct loaded {
    const char *id;
    struct code *code;
    uint64_t *ran;
};
struct device {
    gpu base;
    struct gfx11_options o;
    struct allocation *mem;
    size_t n_mem, cap_mem;
    struct loaded *code;
    size_t n_code, cap_code;
    struct gfx11_memory regions;
    struct gfx11_counts counts;
};
static struct device *of(gpu *g) { return (struct device *)(void *)g; }

static struct allocation *find(struct device *d, gpu_addr at)
{
    for (size_t i = 0; i < d->n_mem; i++)
        if (at - ADDR(d->mem[i].p) < d->mem[i].bytes)
            return &d->mem[i];
    return NULL;
}

uint8_t *gfx11_shadow(gpu *g, gpu_addr at)
{
    struct allocation *a = find(of(g), at);
    return a ? a->bad + (at - ADDR(a->p)) : NULL;
}
bool gfx11_row_coverage(const gpu *g, const char *id, uint32_t *n_ran, uint32_t *n_all)
{
    const struct device *d = (const struct device *)(const void *)g;
    for (size_t i = 0; i < d->n_code; i++)
        if (strcmp(d->code[i].id, id) == 0) {
            gfx11_coverage(d->code[i].code, d->code[i].ran, n_ran, n_all);
            return true;
        }
    return false;
}
const uint64_t *gfx11_row_ran(const gpu *g, const char *id, const struct code **c)
{
    const struct device *d = (const struct device *)(const void *)g;
    for (size_t i = 0; i < d->n_code; i++)
        if (strcmp(d->code[i].id, id) == 0)
            return *c = d->code[i].code, d->code[i].ran;
    return NULL;
}
struct gfx11_counts gfx11_counts(const gpu *g) { return ((const struct device *)(const void *)g)->counts; }

static void close_device(gpu *g)
{
    struct device *d = of(g);
    for (size_t i = 0; i < d->n_code; i++)
        gfx11_unload(d->code[i].code), free(d->code[i].ran);
    for (size_t i = 0; i < d->n_mem; i++) {
        pages_free(d->mem[i].p, d->mem[i].bytes);
        pages_free(d->mem[i].bad, d->mem[i].bytes);
    }
    gfx11_memory_clear(&d->regions);
    free(d->code);
    free(d->mem);
    free(d);
}

static bool has(const gpu *g, const struct gpu_kernel *row)
{
    const struct kernel_bin *k = kernel_bin_find(row->id);
    return (void)g, k && k->gfx1151;
}

/* Room for one more element of an array */
static bool grow(void **p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? 2 * *cap : 16;
    void *q = realloc(*p, more * size);
    if (q)
        *p = q, *cap = more;
    return q;
}

static status alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    struct device *d = of(g);
    struct allocation a = { pages_alloc(bytes), pages_alloc(bytes), bytes };
    if (!a.p || !a.bad || !grow((void **)&d->mem, d->n_mem, &d->cap_mem, sizeof *d->mem)) {
        pages_free(a.p, bytes);
        pages_free(a.bad, bytes);
        return fail(e, ERR_NOMEM, "%s: %zu bytes", what, bytes);
    }
    d->mem[d->n_mem++] = a;
    *m = (struct gpu_mem){ .addr = ADDR(a.p), .host = kind == GPU_MEM_SHARED ? a.p : NULL, .bytes = bytes };
    return OK;
}

static void release(gpu *g, struct gpu_mem *m)
{
    struct device *d = of(g);
    struct allocation *a = find(d, m->addr);
    if (!a)
        return;
    pages_free(a->p, a->bytes);
    pages_free(a->bad, a->bytes);
    *a = d->mem[--d->n_mem];
}

static status within(gpu *g, gpu_addr at, size_t n, struct allocation **a, struct err *e)
{
    *a = find(of(g), at);
    return *a && n <= (*a)->bytes - (at - ADDR((*a)->p)) ? OK : fail(e, ERR_DEVICE, "a transfer of %zu bytes outside of all allocations", n);
}

static status write_to(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e)
{
    struct allocation *a;
    TRY(within(g, to, n, &a, e));
    uint8_t *bad = a->bad + (to - ADDR(a->p));
    uint32_t poison = of(g)->o.poison, word;
    memcpy(AT(void, to), from, n);
    memset(bad, 0, n);
    for (size_t i = 0; poison && i + 4 <= n; i += 4) {
        memcpy(&word, (const uint8_t *)from + i, 4);
        if (word == poison)
            memset(bad + i, 0xff, 4);
    }
    return OK;
}
static status read_from(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    struct allocation *a;
    TRY(within(g, from, n, &a, e));
    memcpy(to, AT(const void, from), n);
    return OK;
}
static status copy(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e)
{
    struct allocation *a, *b;
    TRY(within(g, to, n, &a, e));
    TRY(within(g, from, n, &b, e));
    memmove(AT(void, to), AT(const void, from), n);
    memmove(a->bad + (to - ADDR(a->p)), b->bad + (from - ADDR(b->p)), n);
    return OK;
}
static status clear(gpu *g, gpu_addr at, size_t n, struct err *e)
{
    struct allocation *a;
    TRY(within(g, at, n, &a, e));
    memset(AT(void, at), 0, n);
    memset(a->bad + (at - ADDR(a->p)), 0, n);
    return OK;
}
static void memory_used(gpu *g, uint64_t *asked, uint64_t *driver)
{
    *asked = *driver = 0;
    for (size_t i = 0; i < of(g)->n_mem; i++)
        *asked += of(g)->mem[i].bytes;
}
static void forget(gpu *g, struct gpu_cmd *c) { (void)g, (void)c; }

/* ---- calls ---- */

static status code_of(struct device *d, const struct gpu_kernel *row, struct loaded **c, struct err *e)
{
    const struct kernel_bin *k = kernel_bin_find(row->id);
    for (size_t i = 0; i < d->n_code; i++)
        if (strcmp(d->code[i].id, row->id) == 0) {
            *c = &d->code[i];
            return OK;
        }
    struct loaded l = { .id = row->id };
    if (!k || !k->gfx1151)
        return fail(e, ERR_DEVICE, "%s has no code object", row->id);
    if (!grow((void **)&d->code, d->n_code, &d->cap_code, sizeof *d->code))
        return fail(e, ERR_NOMEM, "%s", row->id);
    TRY(d->o.code ? gfx11_load(&l.code, d->o.code, d->o.code_bytes, e) : gfx11_load(&l.code, k->gfx1151, k->gfx1151_bytes, e));
    l.ran = calloc(gfx11_code_bytes(l.code) / 4 + 1, sizeof *l.ran);
    d->code[d->n_code] = l;
    *c = &d->code[d->n_code++];
    return l.ran ? OK : fail(e, ERR_NOMEM, "%s", row->id);
}

static status all_memory(struct device *d, struct err *e)
{
    for (size_t i = 0; i < d->n_mem; i++)
        TRY(gfx11_memory_add(&d->regions, (struct gfx11_region){ .p = d->mem[i].p, .bytes = d->mem[i].bytes, .readable = d->mem[i].bytes, .bad = d->mem[i].bad }, e));
    return OK;
}

static status start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    struct device *d = of(g);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct gpu_kernel *row = &c->call[i].table->row[c->call[i].id];
        struct loaded *l = NULL;
        TRY(code_of(d, row, &l, e));
        struct gfx11_run run = { .memory = &d->regions, .limit = d->o.limit, .races = d->o.races, .ran = l->ran };
        d->regions.n = 0;
        TRY(d->o.regions ? d->o.regions(d->o.context, g, &d->regions, e) : all_memory(d, e));
        status s = gfx11_run(&run, l->code, c->call[i].args, row->args_bytes, (uint32_t)(size_up(c->call[i].n_items, row->grain) / row->grain), row->workgroup, e);
        d->counts.last = run.n_run, d->counts.all += run.n_run;
        d->counts.largest = MAX(d->counts.largest, run.n_run);
        d->counts.fault = run.fault;
        TRY(s);
    }
    return OK;
}
static status wait(gpu *g, struct err *e) { return (void)g, (void)e, OK; }
static status profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    for (uint32_t i = 0; i < c->n; i++)
        seconds[i] = 0;
    return start(g, c, e);
}

static const struct gpu_ops ops = { .close = close_device, .has = has, .alloc = alloc, .free = release, .write = write_to, .read = read_from, .copy = copy, .clear = clear,
                                    .memory_used = memory_used, .forget = forget, .start = start, .wait = wait, .profile = profile };

status gpu_open_gfx11(gpu **out, const struct gfx11_options *o, struct err *e)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return fail(e, ERR_NOMEM, "device");
    d->base.ops = &ops;
    d->o = *o;
    /* Not GPU_CPU, whose rows run their twins */
    d->base.info = (struct gpu_info){ .backend = GPU_VULKAN, .name = "gfx1151, interpreted", .device_bytes = (uint64_t)1 << 40, .shared_bytes = (uint64_t)1 << 40,
                                      .alloc_limit = (uint64_t)1 << 40, .subgroup_min = 32, .subgroup_max = 32, .subgroup = 32, .group_memory = 65536,
                                      .integrated = true, .matrix = true, .last_group = true };
    *out = &d->base;
    return OK;
}
