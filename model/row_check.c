/* row_check.c - one case after the other: reference on the host, row on the device, comparison. */
#include "model/row_check.h"

#include "gpu/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status row_check_open(struct row_check *k, gpu *g, struct err *e)
{
    *k = (struct row_check){ .g = g };
    status s = case_open(&k->c, e);
    size_t n = (size_t)gpu_threads(g) * CASE_SCRATCH;
    k->scratch = malloc(n * sizeof *k->scratch);
    k->sent = pages_alloc(CASE_BYTES);
    k->got = pages_alloc(CASE_BYTES);
    k->batch = pages_alloc(CASE_BYTES);
    if (s == OK && (!k->scratch || !k->sent || !k->got || !k->batch))
        s = fail(e, ERR_NOMEM, "cases: cannot map %d MiB", CASE_BYTES >> 20);
    if (s == OK)
        s = gpu_cmd_open(g, &k->cmd, 1, k->scratch, CASE_SCRATCH, e);
    if (s != OK)
        row_check_close(k);
    return s;
}

void row_check_close(struct row_check *k)
{
    gpu_cmd_close(&k->cmd);
    if (k->g)
        gpu_free(k->g, &k->mem);
    pages_free(k->batch, CASE_BYTES);
    pages_free(k->got, CASE_BYTES);
    pages_free(k->sent, CASE_BYTES);
    free(k->scratch);
    case_close(&k->c);
    *k = (struct row_check){ 0 };
}

/* ---- comparison ---- */

static void note(struct row_result *r, const struct row_case *c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void note(struct row_result *r, const struct row_case *c, const char *fmt, ...)
{
    if (r->first[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(r->first, sizeof r->first, "case %u (%s), %u items: ", c->round, c->shape, c->n_items);
    if (n > 0 && (size_t)n < sizeof r->first)
        vsnprintf(r->first + n, sizeof r->first - (size_t)n, fmt, ap);
    va_end(ap);
}

struct value {
    uint32_t bits;
    double x;
    bool poison;
};
static struct value value_at(enum buf_elem elem, const uint8_t *p, size_t i)
{
    struct value v = { 0 };
    if (elem == ELEM_F16) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof h);
        v = (struct value){ h, (double)f16_to_f32(h), h == (POISON & 0xffff) };
    } else {
        float f;
        memcpy(&v.bits, p + 4 * i, sizeof v.bits);
        memcpy(&f, p + 4 * i, sizeof f);
        v.x = elem == ELEM_U32 ? (double)v.bits : (double)f;
        v.poison = v.bits == POISON;
    }
    return v;
}

/* One element: remembers how close it came to its limit. */
static void compare_value(struct row_result *r, const struct row_case *c, const struct case_buf *b, size_t i, struct value got, struct value want)
{
    double limit = want.poison ? 0 : b->abs + b->rel * fabs(want.x), error = got.bits == want.bits ? 0 : fabs(got.x - want.x), ratio;
    if (isnan(want.x) && !want.poison)
        note(r, c, "%s[%zu]: the reference gives NaN, the case is wrong", b->name, i);
    if (got.bits == want.bits)
        ratio = 0;
    else
        ratio = limit > 0 && !isnan(error) ? error / limit : INFINITY;
    if (isnan(error))
        error = INFINITY;
    r->values += !want.poison;
    r->largest = fmax(r->largest, error);
    if (ratio > r->ratio || (r->ratio == 0 && limit > r->limit)) {
        r->ratio = ratio;
        r->error = error;
        r->limit = limit;
    }
    if (ratio <= 1)
        return;
    if (want.poison)
        note(r, c, "%s[%zu] is %.9g, the reference leaves it alone", b->name, i, got.x);
    else if (got.poison)
        note(r, c, "%s[%zu] was not written, want %.9g", b->name, i, want.x);
    else
        note(r, c, "%s[%zu] is %.9g, want %.9g, off by %.3g, allowed %.3g", b->name, i, got.x, want.x, error, limit);
}

/* The bytes from..to of the image must be those that were there before. */
static void compare_untouched(struct row_result *r, const struct row_case *c, const uint8_t *before, const uint8_t *after, size_t from, size_t to,
                              const char *who, const char *where, const char *name)
{
    if (memcmp(before + from, after + from, to - from) == 0)
        return;
    while (before[from] == after[from])
        from++;
    size_t last = to - 1;
    while (before[last] == after[last])
        last--;
    r->ratio = INFINITY;
    note(r, c, "%s changed %zu bytes or less %s %s, beginning %td bytes from its start", who, last - from + 1, where, name,
         (ptrdiff_t)from - (ptrdiff_t)case_buf(c, name)->at);
}

static void compare_guards(struct row_result *r, const struct row_case *c, const uint8_t *before, const uint8_t *after, const char *who)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->n_buf; i++) {
        const struct case_buf *b = &c->buf[i];
        compare_untouched(r, c, before, after, at, b->at, who, "outside", c->buf[i ? i - 1 : 0].name);
        if (b->kind == BUF_IN || b->kind == BUF_STRUCT)
            compare_untouched(r, c, before, after, b->at, b->at + b->bytes, who, "of the input", b->name);
        at = b->at + b->bytes;
    }
    compare_untouched(r, c, before, after, at, c->used, who, "outside", c->buf[c->n_buf - 1].name);
}

static void compare_outputs(struct row_result *r, const struct row_case *c, const uint8_t *got)
{
    for (uint32_t i = 0; i < c->n_buf; i++) {
        const struct case_buf *b = &c->buf[i];
        size_t n = b->bytes / (b->elem == ELEM_F16 ? 2 : 4);
        for (size_t k = 0; (b->kind == BUF_OUT || b->kind == BUF_INOUT) && k < n; k++)
            compare_value(r, c, b, k, value_at(b->elem, got + b->at, k), value_at(b->elem, c->image + b->at, k));
    }
}

/* ---- one case ---- */

static status device_memory(struct row_check *k, struct err *e)
{
    if (k->mem.bytes >= k->c.used)
        return OK;
    gpu_free(k->g, &k->mem);
    return gpu_alloc(k->g, &k->mem, size_up(k->c.used, 1 << 20), GPU_MEM_DEVICE, "selftest", e);
}

/* Runs the call on the device: k->sent, the image as it was built, goes there relocated, and k->got comes back. */
static status run_on_device(struct row_check *k, const struct row_module *m, uint32_t id, struct err *e)
{
    const struct row_case *c = &k->c;
    uint64_t args[GPU_ARGS_MAX / 8];
    memcpy(args, c->args, sizeof args);
    case_relocate(c, k->sent, args, k->mem.addr);
    TRY(gpu_write(k->g, k->mem.addr, k->sent, c->used, e));
    gpu_cmd_reset(&k->cmd);
    gpu_record(&k->cmd, m->table, id, args, c->row->args_bytes, c->n_items);
    if (k->mem.host)
        case_guards(c, k->mem.host, true);
    status s = gpu_submit(k->g, &k->cmd, e);
    if (k->mem.host)
        case_guards(c, k->mem.host, false);
    TRY(s);
    return gpu_read(k->g, k->got, k->mem.addr, c->used, e);
}

static status check_items(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t n_items, struct row_result *r, struct err *e)
{
    struct row_case *c = &k->c;
    struct cpu_scratch scratch = { .f = k->scratch, .n = CASE_SCRATCH };
    c->n_items = n_items;
    memcpy(k->sent, c->image, c->used);
    case_run(c, c->row->ref, &scratch);
    compare_guards(r, c, k->sent, c->image, "the reference");
    TRY(run_on_device(k, m, id, e));
    compare_guards(r, c, k->sent, k->got, "the row");
    compare_outputs(r, c, k->got);
    r->shapes++;
    return OK;
}

/* The build for one row that belongs to row `id`, "NAME_r8"; id itself when it is that one or there is none that runs here. */
static uint32_t build_for_one(const gpu *g, const struct gpu_kernel_table *t, uint32_t id)
{
    const char *name = t->row[id].id, *end = strrchr(name, '_');
    for (uint32_t i = 0; end && i < t->n; i++)
        if (strncmp(t->row[i].id, name, (size_t)(end - name)) == 0 && strcmp(t->row[i].id + (end - name), "_r1") == 0 && gpu_has(g, t, i))
            return i;
    return id;
}

static void compare_alone(struct row_result *r, const struct row_case *c, const uint8_t *batch)
{
    for (uint32_t i = 0; i < c->n_buf; i++) {
        const struct case_buf *b = &c->buf[i];
        for (size_t k = 0; (b->kind == BUF_OUT || b->kind == BUF_INOUT) && k < b->bytes / 4; k++) {
            struct value one = value_at(b->elem, c->image + b->at, k), all = value_at(b->elem, batch + b->at, k);
            if (one.bits == all.bits)
                continue;
            r->ratio = INFINITY;
            note(r, c, "%s[%zu] is %.9g in the batch and %.9g (other bits) for the row alone", b->name, k, all.x, one.x);
            return;
        }
    }
}

/* The same case with every row of the batch in a call of its own: what is computed must not depend on the batch, to the bit. */
static status check_alone(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t round, uint64_t seed, struct row_result *r, struct err *e)
{
    struct row_case *c = &k->c;
    uint32_t one = build_for_one(k->g, m->table, id);
    if (one == id || !case_find(m, id)->alone)
        return OK;
    memcpy(k->batch, k->got, c->used);
    case_build(c, m, id, round, seed);
    for (uint32_t t = 0; t < c->n_rows; t++) {
        case_find(m, id)->alone(c, t);
        memcpy(k->sent, c->image, c->used);
        TRY(run_on_device(k, m, one, e));
        for (uint32_t i = 0; i < c->n_buf; i++)
            if (c->buf[i].kind != BUF_STRUCT)
                memcpy(c->image + c->buf[i].at, k->got + c->buf[i].at, c->buf[i].bytes);
    }
    compare_alone(r, c, k->batch);
    return OK;
}

status row_check_case(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t round, uint64_t seed, struct row_result *r, struct err *e)
{
    if (!case_build(&k->c, m, id, round, seed)) {
        r->no_cases = true;
        return OK;
    }
    uint32_t n = k->c.n_items;
    TRY(device_memory(k, e));
    if (round == 0) /* without items nothing happens */
        TRY(check_items(k, m, id, 0, r, e));
    TRY(check_items(k, m, id, n, r, e));
    return round < ALONE_ROUNDS ? check_alone(k, m, id, round, seed, r, e) : OK;
}

status row_check_run(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t n_rounds, uint64_t seed, struct row_result *r, struct err *e)
{
    *r = (struct row_result){ 0 };
    for (uint32_t round = 0; round < n_rounds && !r->no_cases; round++)
        TRY(row_check_case(k, m, id, round, seed, r, e));
    return OK;
}
