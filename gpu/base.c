/* base.c - results, checked sizes, arenas, memory plans. */
#include "gpu/base.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

status fail(struct err *e, status code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        e->code = code;
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        one_line(e->msg);
    }
    return code;
}

status fail_in(struct err *e, const char *prefix)
{
    char rest[sizeof e->msg];
    memcpy(rest, e->msg, sizeof rest);
    snprintf(e->msg, sizeof e->msg, "%.200s: %.300s", prefix, rest);
    one_line(e->msg);
    return e->code;
}

bool str_eq(struct str a, struct str b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }

bool str_is(struct str a, const char *z) { return str_eq(a, (struct str){ z, strlen(z) }); }

void *arena_take(struct arena *a, size_t n, size_t elem_bytes)
{
    size_t bytes, at = size_up(a->used, 64);
    if (!size_mul(n, elem_bytes, &bytes) || !size_add(at, bytes, &a->used))
        a->used = SIZE_MAX;
    if (!a->base)
        return NULL;
    assert(a->used <= a->capacity);
    return a->base + at;
}

enum { HUGE_PAGE = 2 << 20 };

void *pages_alloc(size_t n_bytes)
{
    void *p = mmap(NULL, n_bytes ? n_bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (n_bytes >= HUGE_PAGE)
        madvise(p, n_bytes, MADV_HUGEPAGE); /* advice only; the translation of 4 KiB pages costs a reader up to a quarter of the memory's speed */
    return p;
}

void pages_free(void *p, size_t n_bytes)
{
    if (p)
        munmap(p, n_bytes ? n_bytes : 1);
}

const char *size_text(char buf[32], size_t n_bytes, bool up)
{
    unsigned shift = n_bytes < (size_t)10 << 10 ? 0 : n_bytes < (size_t)10 << 20 ? 10 : 20;
    size_t unit = (size_t)1 << shift, n = n_bytes / unit + (up && n_bytes % unit);
    snprintf(buf, 32, "%zu %s%s", n, shift == 0 ? "byte" : shift == 10 ? "KiB" : "MiB", shift == 0 && n != 1 ? "s" : "");
    return buf;
}

void plan_add(struct plan *p, const char *name, size_t bytes, const char *note_fmt, ...)
{
    assert(p->n < COUNT_OF(p->line));
    struct plan_line *l = &p->line[p->n++];
    va_list ap;
    va_start(ap, note_fmt);
    l->name = name;
    l->bytes = bytes;
    vsnprintf(l->note, sizeof l->note, note_fmt, ap);
    va_end(ap);
}

static size_t sum_of(const struct plan *p, bool device_only)
{
    size_t sum = 0;
    for (size_t i = 0; i < p->n; i++)
        if ((!device_only || p->line[i].on_device) && !size_add(sum, p->line[i].bytes, &sum))
            return SIZE_MAX;
    return sum;
}

size_t plan_total(const struct plan *p) { return sum_of(p, false); }
size_t plan_device_bytes(const struct plan *p) { return sum_of(p, true); }
