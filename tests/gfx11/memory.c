/* memory.c - loads and stores outside of LDS: scalar, global, scratch; and which of it kernels may touch. */
#include "tests/gfx11/isa.h"

#include <stdlib.h>
#include <string.h>

/* ---- regions ---- */

status gfx11_memory_add(struct gfx11_memory *m, struct gfx11_region r, struct err *e)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        struct gfx11_region *more = realloc(m->region, cap * sizeof *more);
        if (!more)
            return fail(e, ERR_NOMEM, "%zu pieces of memory", cap);
        m->region = more, m->cap = cap;
    }
    size_t i = m->n++;
    for (; i && m->region[i - 1].p > r.p; i--)
        m->region[i] = m->region[i - 1];
    m->region[i] = r;
    return OK;
}

void gfx11_memory_clear(struct gfx11_memory *m)
{
    free(m->region);
    *m = (struct gfx11_memory){ 0 };
}

/* The last region that begins at or before p */
static struct gfx11_region *find(const struct gfx11_memory *m, const uint8_t *p)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (m->region[mid].p <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &m->region[lo - 1] : NULL;
}

static bool inside(const struct gfx11_region *r, uint64_t address, uint32_t n, bool store)
{
    uint64_t at = address - (uintptr_t)r->p, bytes = store ? r->bytes : r->readable;
    return at < bytes && n <= bytes - at && !(store && r->read_only);
}

uint8_t *memory_at(struct wave *w, uint64_t address, uint32_t n, bool store, uint8_t **bad, uint32_t lane)
{
    struct gfx11_run *run = w->g->run;
    struct gfx11_region *r = run->last;
    if (!r || !inside(r, address, n, store)) {
        r = find(run->memory, (const uint8_t *)(uintptr_t)address);
        if (!r || !inside(r, address, n, store)) {
            if (!r)
                fault(w, GFX11_RANGE, "lane %u %s %u bytes at %llx, below all memory", lane, store ? "stores" : "loads", n, (unsigned long long)address);
            else
                fault(w, GFX11_RANGE, "lane %u %s %u bytes at %llx: %lld bytes from the start of memory of %zu (%s)", lane, store ? "stores" : "loads", n,
                      (unsigned long long)address, (long long)(address - (uintptr_t)r->p), r->bytes, r->read_only ? "read only" : "to be written");
            return NULL;
        }
        run->last = r;
    }
    *bad = r->bad ? r->bad + (address - (uintptr_t)r->p) : NULL;
    return (uint8_t *)(uintptr_t)address;
}

/* ---- scalar loads ---- */

static void s_load(struct wave *w, const struct inst *in)
{
    struct scalar base = scalar_get(w, &in->s[0]), add = in->s[1].kind ? scalar_get(w, &in->s[1]) : (struct scalar){ 0 };
    uint8_t *bad;
    if (!must_be_written(w, base.bad | add.bad, "an address"))
        return;
    uint64_t address = (base.x + (uint32_t)add.x + (uint64_t)(int64_t)in->imm) & ~(uint64_t)3;
    const uint8_t *p = memory_at(w, address, 4u * in->d.n, false, &bad, 0);
    for (uint32_t i = 0; p && i < in->d.n; i++) {
        struct operand one = { .kind = SGPR, .n = 1, .code = (uint16_t)(in->d.code + i) };
        uint32_t x, b = 0;
        memcpy(&x, p + 4 * i, 4);
        if (bad)
            memcpy(&b, bad + 4 * i, 4);
        if (in->d.code != S_NULL)
            scalar_set(w, &one, (struct scalar){ x, b });
    }
    wait_smem(w, in->d.code, in->d.n);
}

/* ---- vector loads and stores ---- */

enum { SIGNED = 64, D16 = 32, HIGH = 128 }; /* in arg, beside the number of bytes */

/* The address of every active lane; false after a fault */
static bool addresses(struct wave *w, const struct inst *in, uint64_t *address)
{
    uint32_t exec = exec_of(w);
    struct scalar base = in->s[2].kind ? scalar_get(w, &in->s[2]) : (struct scalar){ 0 };
    struct source part[2] = { { .x = no_bits }, { .x = no_bits } };
    if (!must_be_written(w, base.bad, "an address"))
        return false;
    for (uint32_t k = 0; k < in->s[0].n; k++)
        source_raw(w, &in->s[0], k, &part[k]);
    for (uint32_t i = 0; i < LANES; i++) {
        if (!(exec >> i & 1))
            continue;
        if ((part[0].bad && part[0].bad[i]) || (part[1].bad && part[1].bad[i])) {
            fault(w, GFX11_UNWRITTEN, "lane %u: an address takes bits that nobody has written", i);
            return false;
        }
        address[i] = base.x + ((uint64_t)part[1].x[i] << 32 | part[0].x[i]) + (uint64_t)(int64_t)in->imm;
    }
    return true;
}

static uint32_t extend(uint32_t x, uint32_t arg)
{
    uint32_t n = arg & 31;
    if (!(arg & SIGNED))
        return x;
    return n == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
}

/* Where a lane's bytes are: global memory, or its own scratch */
static uint8_t *place(struct wave *w, const struct inst *in, uint64_t address, uint32_t n, bool store, uint8_t **bad, uint32_t lane)
{
    if (in->op->enc != SCRATCH)
        return memory_at(w, address, n, store, bad, lane);
    uint32_t size = w->g->code->scratch_bytes;
    if (address >= size || n > size - address) {
        fault(w, GFX11_RANGE, "lane %u: %u bytes at %llu of scratch, which has %u", lane, n, (unsigned long long)address, size);
        return NULL;
    }
    *bad = w->scratch + (size_t)(LANES + lane) * size + address;
    return w->scratch + (size_t)lane * size + address;
}

static void load(struct wave *w, const struct inst *in)
{
    uint64_t address[LANES];
    uint32_t exec = exec_of(w), n = in->op->arg & 31, n_reg = in->d.n, r[4][LANES], bad[4][LANES];
    bool any_bad = false, half = in->op->arg & D16;
    if (!addresses(w, in, address))
        return;
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t x[4] = { 0 }, b[4] = { 0 };
        uint8_t *shadow;
        if (!(exec >> i & 1))
            continue;
        const uint8_t *p = place(w, in, address[i], n, false, &shadow, i);
        if (!p)
            return;
        if (in->op->enc == GLOBAL && !in->glc)
            race_check(w, address[i], n, RACE_READ, false);
        memcpy(x, p, n);
        if (shadow)
            memcpy(b, shadow, n);
        x[0] = n < 4 ? extend(x[0], in->op->arg) : x[0];
        b[0] = n < 4 && b[0] ? (in->op->arg & SIGNED ? ALL_LANES : b[0]) : b[0];
        for (uint32_t k = 0; k < n_reg; k++)
            r[k][i] = x[k], bad[k][i] = b[k], any_bad |= b[k] != 0;
        if (half) {
            bool high = in->op->arg & HIGH;
            uint32_t old = w->v[in->d.code][i], old_bad = w->bad[in->d.code][i];
            r[0][i] = high ? (old & 0xffff) | x[0] << 16 : (old & 0xffff0000) | (x[0] & 0xffff);
            bad[0][i] = high ? (old_bad & 0xffff) | b[0] << 16 : (old_bad & 0xffff0000) | (b[0] & 0xffff);
            any_bad |= bad[0][i] != 0;
        }
    }
    for (uint32_t k = 0; k < n_reg; k++)
        vgpr_set(w, in->d.code + k, r[k], any_bad ? bad[k] : NULL);
    wait_vm_load(w, in->d.code, n_reg);
}

static void store(struct wave *w, const struct inst *in)
{
    uint64_t address[LANES];
    uint32_t exec = exec_of(w), n = in->op->arg & 31, shift = in->op->arg & HIGH ? 16 : 0;
    struct source s[4];
    if (!addresses(w, in, address))
        return;
    for (uint32_t k = 0; k < in->s[1].n; k++)
        source_raw(w, &in->s[1], k, &s[k]);
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t x[4] = { 0 }, b[4] = { 0 }, unwritten[4] = { 0 };
        uint8_t *shadow;
        if (!(exec >> i & 1))
            continue;
        uint8_t *p = place(w, in, address[i], n, true, &shadow, i);
        if (!p)
            return;
        for (uint32_t k = 0; k < in->s[1].n; k++)
            x[k] = s[k].x[i] >> shift, b[k] = s[k].bad ? s[k].bad[i] >> shift : 0;
        memcpy(unwritten, b, n);
        if (in->op->enc != SCRATCH && (unwritten[0] | unwritten[1] | unwritten[2] | unwritten[3])) {
            fault(w, GFX11_UNWRITTEN, "lane %u stores bits that nobody has written (%08x %08x %08x %08x)", i, b[0], b[1], b[2], b[3]);
            return;
        }
        if (in->op->enc == GLOBAL)
            race_check(w, address[i], n, RACE_WRITE, memcmp(p, x, n) == 0 && (!shadow || memcmp(shadow, b, n) == 0));
        memcpy(p, x, n);
        if (shadow)
            memcpy(shadow, b, n);
    }
    w->vs_issued++;
}

uint32_t atomic_value(enum atomic what, uint32_t old, uint32_t x)
{
    switch (what) {
    case ADD: return old + x;
    case SUB: return old - x;
    case MIN_I: return (int32_t)x < (int32_t)old ? x : old;
    case MIN_U: return MIN(x, old);
    case MAX_I: return (int32_t)x > (int32_t)old ? x : old;
    case MAX_U: return MAX(x, old);
    case AND: return old & x;
    case OR: return old | x;
    case XOR: return old ^ x;
    default: return x;
    }
}

static void atomic(struct wave *w, const struct inst *in)
{
    uint64_t address[LANES];
    uint32_t exec = exec_of(w), old[LANES], what = in->op->arg;
    struct source s[2] = { { .x = no_bits }, { .x = no_bits } };
    if (!addresses(w, in, address))
        return;
    for (uint32_t k = 0; k < in->s[1].n; k++)
        source_raw(w, &in->s[1], k, &s[k]);
    for (uint32_t i = 0; i < LANES; i++) {
        uint8_t *shadow;
        uint32_t b = 0;
        if (!(exec >> i & 1))
            continue;
        uint8_t *p = memory_at(w, address[i], 4, true, &shadow, i);
        if (!p)
            return;
        if (shadow)
            memcpy(&b, shadow, 4);
        if (b || (s[0].bad && s[0].bad[i]) || (s[1].bad && s[1].bad[i])) {
            fault(w, GFX11_UNWRITTEN, "lane %u: an atomic takes bits that nobody has written", i);
            return;
        }
        race_check(w, address[i], 4, RACE_ATOMIC, false);
        memcpy(&old[i], p, 4);
        uint32_t x = what == CMPSWAP ? (old[i] == s[1].x[i] ? s[0].x[i] : old[i]) : atomic_value(what, old[i], s[0].x[i]);
        memcpy(p, &x, 4);
    }
    if (in->glc) {
        vgpr_set(w, in->d.code, old, NULL);
        wait_vm_load(w, in->d.code, 1);
    } else {
        w->vs_issued++;
    }
}

static void invalidate(struct wave *w, const struct inst *in) { (void)w, (void)in; }

#define LOAD(code, name, form, arg) { GLOBAL, code, "global_load_" name, form, OP_LOAD, 0, arg, load, { 0 } }, { SCRATCH, code, "scratch_load_" name, form, OP_LOAD, 0, arg, load, { 0 } }
#define STORE(code, name, form, arg) { GLOBAL, code, "global_store_" name, form, OP_STORE, 0, arg, store, { 0 } }, { SCRATCH, code, "scratch_store_" name, form, OP_STORE, 0, arg, store, { 0 } }
#define ATOMIC(code, name, form, arg) { GLOBAL, code, "global_atomic_" name, form, OP_ATOMIC, 0, arg, atomic, { 0 } }
const struct op memory_ops[] = {
    { SMEM, 0, "s_load_b32", "s", OP_LOAD, 0, 0, s_load, { 0 } }, { SMEM, 1, "s_load_b64", "2", OP_LOAD, 0, 0, s_load, { 0 } }, { SMEM, 2, "s_load_b128", "4", OP_LOAD, 0, 0, s_load, { 0 } },
    { SMEM, 3, "s_load_b256", "8", OP_LOAD, 0, 0, s_load, { 0 } }, { SMEM, 4, "s_load_b512", "G", OP_LOAD, 0, 0, s_load, { 0 } },
    LOAD(16, "u8", "i-", 1), LOAD(17, "i8", "i-", 1 | SIGNED), LOAD(18, "u16", "i-", 2), LOAD(19, "i16", "i-", 2 | SIGNED), LOAD(20, "b32", "i-", 4), LOAD(21, "b64", "2-", 8),
    LOAD(22, "b96", "3-", 12), LOAD(23, "b128", "4-", 16), LOAD(30, "d16_u8", "i-", 1 | D16), LOAD(31, "d16_i8", "i-", 1 | D16 | SIGNED), LOAD(32, "d16_b16", "i-", 2 | D16),
    LOAD(33, "d16_hi_u8", "i-", 1 | D16 | HIGH), LOAD(34, "d16_hi_i8", "i-", 1 | D16 | HIGH | SIGNED), LOAD(35, "d16_hi_b16", "i-", 2 | D16 | HIGH),
    STORE(24, "b8", "--i", 1), STORE(25, "b16", "--i", 2), STORE(26, "b32", "--i", 4), STORE(27, "b64", "--2", 8), STORE(28, "b96", "--3", 12), STORE(29, "b128", "--4", 16),
    STORE(36, "d16_hi_b8", "--i", 1 | HIGH), STORE(37, "d16_hi_b16", "--i", 2 | HIGH),
    ATOMIC(51, "swap_b32", "i-i", SWAP), ATOMIC(52, "cmpswap_b32", "i-2", CMPSWAP), ATOMIC(53, "add_u32", "i-i", ADD), ATOMIC(54, "sub_u32", "i-i", SUB), ATOMIC(56, "min_i32", "i-i", MIN_I),
    ATOMIC(57, "min_u32", "i-i", MIN_U), ATOMIC(58, "max_i32", "i-i", MAX_I), ATOMIC(59, "max_u32", "i-i", MAX_U), ATOMIC(60, "and_b32", "i-i", AND), ATOMIC(61, "or_b32", "i-i", OR),
    ATOMIC(62, "xor_b32", "i-i", XOR),
    { MUBUF, 43, "buffer_gl0_inv", "-", 0, 0, 0, invalidate, { 0 } }, { MUBUF, 44, "buffer_gl1_inv", "-", 0, 0, 0, invalidate, { 0 } },
    { 0 },
};
