/* row_cases.c - how a case is put together, run on the host, and moved to another memory. */
#include "model/row_cases.h"

#include "gdn/gdn.h"
#include "gpu/device_weights.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant_grids.h"
#include "model/model_kernels.h"
#include "qsa/qsa.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define ALLOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define FORBID(p, n) ((void)(p), (void)(n))
#define ALLOW(p, n) ((void)(p), (void)(n))
#endif

const struct row_module row_modules[ROW_MODULES] = {
    { "gpu", &gpu_kernels, gpu_cases },
    { "gdn", &gdn_kernels, gdn_cases },
    { "qsa", &qsa_kernels, qsa_cases },
    { "model", &model_kernels, model_cases },
};

/* In front of every buffer GUARD bytes that nobody may touch, behind it at least GUARD that may be read but not used: vectors reach over the
 * end. Buffers start where arenas place them, at multiples of 64. */
enum { GUARD = 64 };

/* ---- random numbers and sizes ---- */

uint32_t case_rnd(struct row_case *c, uint32_t n)
{
    c->rng ^= c->rng << 13, c->rng ^= c->rng >> 7, c->rng ^= c->rng << 17;
    return (uint32_t)((c->rng >> 33) % n);
}

uint32_t case_some(struct row_case *c, uint32_t n) { return case_rnd(c, MAX(n >> c->shrink, 1u)); }

float case_uniform(struct row_case *c) { return (float)case_rnd(c, 1 << 24) / (float)(1 << 23) - 1.0f; }

uint32_t case_size(struct row_case *c, uint32_t which, uint32_t tile, uint32_t lo, uint32_t hi)
{
    if (c->shrink)
        hi = MIN(hi, MAX(lo + ((hi - lo) >> c->shrink), tile + 1));
    uint32_t any = lo + case_rnd(c, hi - lo + 1), odd = (lo + case_rnd(c, hi - lo + 1)) | 1;
    const uint32_t list[6] = { 1, tile - 1, tile, tile + 1, odd, any };
    return MIN(MAX(list[(c->round + which * (c->round / 6 + 1)) % 6], lo), hi);
}

/* ---- buffers ---- */

/* n bytes, whole words */
static void poison(void *p, size_t n)
{
    uint32_t *word = p;
    for (size_t i = 0; i < n / sizeof *word; i++)
        word[i] = POISON;
}

static void *add_buf(struct row_case *c, const char *name, enum buf_kind kind, enum buf_elem elem, size_t bytes)
{
    size_t at = c->used + GUARD, end = size_up(at + bytes, GUARD) + GUARD;
    assert(c->n_buf < CASE_BUFS && end <= CASE_BYTES);
    poison(c->image + c->used, end - c->used);
    c->buf[c->n_buf++] = (struct case_buf){ .name = name, .kind = kind, .elem = elem, .at = at, .bytes = bytes };
    c->used = end;
    return c->image + at;
}

float *case_f32(struct row_case *c, const char *name, enum buf_kind kind, size_t n)
{
    float *p = add_buf(c, name, kind, ELEM_F32, n * sizeof *p);
    for (size_t i = 0; (kind == BUF_IN || kind == BUF_INOUT) && i < n; i++)
        p[i] = case_uniform(c);
    return p;
}

uint16_t *case_f16(struct row_case *c, const char *name, enum buf_kind kind, size_t n) { return add_buf(c, name, kind, ELEM_F16, n * 2); }
uint32_t *case_u32(struct row_case *c, const char *name, enum buf_kind kind, size_t n) { return add_buf(c, name, kind, ELEM_U32, n * 4); }

void *case_struct(struct row_case *c, const char *name, size_t bytes)
{
    assert(bytes % 8 == 0 || bytes % 4 == 0);
    return memset(add_buf(c, name, BUF_STRUCT, ELEM_U32, bytes), 0, bytes);
}

struct gpu_step *case_apart(struct row_case *c, uint32_t n, size_t stride)
{
    struct gpu_step *step = case_struct(c, "steps", n * sizeof *step);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t other = case_rnd(c, r + 1);
        step[r].blocks = step[other].blocks;
        step[other].blocks = (uint32_t)(r * stride);
    }
    return step;
}

struct gpu_run *case_runs(struct row_case *c, uint32_t n, size_t block_stride, size_t kept_stride, uint32_t most_fold)
{
    struct gpu_run *run = case_struct(c, "runs", n * sizeof *run);
    for (uint32_t i = 0, first = 0; i < n; first += run[i++].n) {
        uint32_t other = case_rnd(c, i + 1);
        run[i] = (struct gpu_run){ .first = first, .n = first < n ? 1 + case_rnd(c, n - first) : 0, .fold = case_rnd(c, 3) ? case_rnd(c, most_fold + 1) : 0,
                                   .blocks = run[other].blocks, .kept = run[other].kept };
        run[other].blocks = (uint32_t)(i * block_stride);
        run[other].kept = i * kept_stride;
    }
    return run;
}

void case_tolerance(struct row_case *c, const void *buf, double abs, double rel)
{
    for (uint32_t i = 0; i < c->n_buf; i++)
        if (c->image + c->buf[i].at == (const uint8_t *)buf) {
            c->buf[i].abs = abs;
            c->buf[i].rel = rel;
            return;
        }
    assert(0 && "a tolerance for a buffer that is not there");
}

void case_call(struct row_case *c, const void *args, size_t bytes, uint32_t n_items)
{
    assert(bytes == c->row->args_bytes);
    memcpy(c->args, args, bytes);
    c->n_items = n_items;
}

void case_shape(struct row_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->shape, sizeof c->shape, fmt, ap);
    va_end(ap);
}

/* ---- weights ---- */

/* Random bits with scales that are finite: about 1/64 in the formats that have them */
static void random_block(struct row_case *c, uint32_t quant_id, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)case_rnd(c, 256);
    uint16_t h = f32_to_f16(case_uniform(c) / 64);
    float f = case_uniform(c);
    switch (quant_id) {
    case QUANT_F32: memcpy(p, &f, 4); break;
    case QUANT_BF16: memcpy(p, (uint8_t *)&f + 2, 2); break;
    case QUANT_Q4_K: case QUANT_Q5_K: case QUANT_Q5_1: case QUANT_Q4_1: memcpy(p + 2, &h, 2); /* fallthrough */
    case QUANT_F16: case QUANT_Q8_0: case QUANT_Q4_0: case QUANT_Q5_0: case QUANT_IQ4_NL: case QUANT_IQ4_XS: case QUANT_IQ3_S: case QUANT_IQ3_XXS:
    case QUANT_IQ2_S: case QUANT_IQ2_XS: case QUANT_IQ2_XXS: case QUANT_IQ1_S: memcpy(p, &h, 2); break;
    case QUANT_Q6_K: case QUANT_Q3_K: case QUANT_TQ2_0: memcpy(p + n - 2, &h, 2); break;
    case QUANT_MXFP4: p[0] = (uint8_t)(112 + case_rnd(c, 12)); break;
    case QUANT_NVFP4: for (int i = 0; i < 4; i++) p[i] &= 0x1f; break;
    case QUANT_IQ1_M: for (int i = 0; i < 4; i++) p[n - 7 + 2 * i] = (uint8_t)((p[n - 7 + 2 * i] & 15) | (h >> 4 * i & 15) << 4); break;
    case QUANT_Q2_K: memcpy(p + n - 4, &h, 2); memcpy(p + n - 2, &h, 2); break;
    default: assert(0 && "random_block: where are the scales of this type?");
    }
}

static void random_rows(struct row_case *c, const struct quant_type *t, uint8_t *p, uint32_t n_in, uint32_t n_out)
{
    for (size_t b = 0; b < (size_t)n_out * (n_in / t->block_len); b++)
        random_block(c, t->id, p + b * t->block_bytes, t->block_bytes);
}

/* One more row of a matrix */
static void measure(struct weights_size *s, const float *row, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->most = fmaxf(s->most, fabsf(row[i]));
        sum += (double)row[i] * (double)row[i];
    }
    s->rms = fmaxf(s->rms, (float)sqrt(sum / n));
}

struct gpu_mat case_mat(struct row_case *c, const char *name, uint32_t quant_id, uint32_t n_in, uint32_t n_out, struct weights_size *size)
{
    const struct quant_type *t = quant_type(quant_id);
    size_t row = quant_row_bytes(t, n_in);
    uint8_t *p = add_buf(c, name, BUF_IN, ELEM_U32, row * n_out);
    float *tmp = malloc(n_in * sizeof *tmp);
    assert(tmp && n_in % t->block_len == 0);
    *size = (struct weights_size){ 0 };
    random_rows(c, t, p, n_in, n_out);
    for (uint32_t r = 0; r < n_out; r++) {
        t->decode(p + r * row, tmp, n_in);
        measure(size, tmp, n_in);
    }
    free(tmp);
    return (struct gpu_mat){ .data = ADDR(p), .row_bytes = row, .type = quant_id, .n_in = n_in, .n_out = n_out };
}

struct gpu_mat case_device_mat(struct row_case *c, const char *name, uint32_t quant_id, bool common, uint32_t n_in, uint32_t n_out, struct weights_size *size)
{
    const struct quant_type *t = quant_type(quant_id);
    uint32_t type = device_type_of(quant_id, common);
    size_t row = device_row_bytes(type, n_in);
    uint8_t *p = add_buf(c, name, BUF_IN, ELEM_U32, row * n_out), *src = malloc(quant_row_bytes(t, n_in));
    float *tmp = malloc(n_in * sizeof *tmp);
    struct gpu_mat w = { .data = ADDR(p), .row_bytes = row, .type = type, .n_in = n_in, .n_out = n_out };
    assert(src && tmp && n_in % t->block_len == 0 && n_in % 16 == 0);
    *size = (struct weights_size){ 0 };
    for (uint32_t r = 0; r < n_out; r++) {
        random_rows(c, t, src, n_in, 1);
        device_pack_row(type, quant_id, src, p + r * row, n_in, tmp);
        device_unpack_row(type, p + r * row, tmp, n_in);
        measure(size, tmp, n_in);
    }
    free(src), free(tmp);
    if (type == DEV_IQ3_S)
        w.book = ADDR(memcpy(add_buf(c, "book", BUF_IN, ELEM_U32, sizeof iq3s_grid), iq3s_grid, sizeof iq3s_grid));
    return w;
}

/* Behind "-Dname=" in the defines of the row; NULL: not there */
static const char *define(const struct row_case *c, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = c->row->defines; p && (p = strstr(p, name)); p++)
        if (p[n] == '=')
            return p + n + 1;
    return NULL;
}

uint32_t case_define(const struct row_case *c, const char *name, uint32_t other)
{
    const char *p = define(c, name);
    return p ? (uint32_t)strtoul(p, NULL, 10) : other;
}

uint32_t case_weight_type(struct row_case *c, uint32_t max_block, bool *common)
{
    static const uint32_t own[] = { QUANT_Q4_K, QUANT_Q5_K, QUANT_Q5_1, QUANT_Q6_K, QUANT_IQ4_NL, QUANT_IQ3_S };
    static const uint32_t all[] = { QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0, QUANT_Q5_1, QUANT_IQ4_NL, QUANT_Q4_K, QUANT_IQ3_S };
    const char *type = define(c, "TYPE");
    size_t n = type ? strcspn(type, " ") : 0;
    uint32_t pick;
    for (size_t i = 0; n && i < COUNT_OF(own); i++) {
        const char *name = device_type_name(device_type_of(own[i], false));
        *common = false;
        if (n == 4 + strlen(name) && memcmp(type + 4, name, n - 4) == 0 && case_rnd(c, 3)) /* "DEV_" and the name */
            return own[i];
    }
    do
        pick = all[case_rnd(c, COUNT_OF(all))];
    while (quant_type(pick)->block_len > max_block);
    *common = true;
    return pick;
}

/* ---- building and running ---- */

status case_open(struct row_case *c, struct err *e)
{
    *c = (struct row_case){ .image = pages_alloc(CASE_BYTES) };
    return c->image ? OK : fail(e, ERR_NOMEM, "cases: cannot map %d MiB", CASE_BYTES >> 20);
}

void case_close(struct row_case *c)
{
    pages_free(c->image, CASE_BYTES);
    *c = (struct row_case){ 0 };
}

/* Every row and round has a random stream of its own, so a row behaves the same whichever others run. */
static uint64_t stream(uint64_t seed, const char *id, uint32_t round)
{
    uint64_t h = seed * 0x9e3779b97f4a7c15u + round + 1;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return (h ^ h >> 32) | 1;
}

const struct row_cases *case_find(const struct row_module *m, uint32_t id)
{
    for (const struct row_cases *r = m->cases; r->ref; r++)
        if (r->ref == m->table->row[id].ref)
            return r;
    return NULL;
}

bool case_build(struct row_case *c, const struct row_module *m, uint32_t id, uint32_t round, uint64_t seed)
{
    const struct gpu_kernel *row = &m->table->row[id];
    *c = (struct row_case){ .image = c->image, .row = row, .round = round, .shrink = c->shrink, .rng = stream(seed, row->id, round) };
    const struct row_cases *r = case_find(m, id);
    if (r)
        r->build(c);
    return r;
}

void case_guards(const struct row_case *c, uint8_t *image, bool on)
{
    if (!on)
        ALLOW(image, c->used);
    for (uint32_t i = 0; on && i < c->n_buf; i++)
        FORBID(image + c->buf[i].at - GUARD, GUARD);
}

void case_run(const struct row_case *c, gpu_row_fn fn, struct cpu_scratch *scratch)
{
    uint32_t grain = c->row->grain;
    poison(scratch->f, scratch->n * sizeof *scratch->f);
    case_guards(c, c->image, true);
    for (uint32_t i = 0; i < c->n_items; i += grain)
        fn(c->args, i, MIN(grain, c->n_items - i), scratch);
    case_guards(c, c->image, false);
}

/* A word that is a host address into the image becomes that place at base. Counts and floats never look like one: addresses of a process lie
 * far above 2^32, and their upper half is no size that a case has. */
static void relocate_words(const struct row_case *c, uint64_t *word, size_t n, gpu_addr base)
{
    for (size_t i = 0; i < n; i++)
        if (word[i] - ADDR(c->image) < c->used)
            word[i] += base - ADDR(c->image);
}

void case_relocate(const struct row_case *c, uint8_t *image, uint64_t *args, gpu_addr base)
{
    for (uint32_t i = 0; i < c->n_buf; i++)
        if (c->buf[i].kind == BUF_STRUCT)
            relocate_words(c, (uint64_t *)(void *)(image + c->buf[i].at), c->buf[i].bytes / 8, base);
    relocate_words(c, args, c->row->args_bytes / 8, base);
}

const struct case_buf *case_buf(const struct row_case *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_buf; i++)
        if (strcmp(c->buf[i].name, name) == 0)
            return &c->buf[i];
    assert(0 && "case_buf: no buffer of this name");
    return NULL;
}
