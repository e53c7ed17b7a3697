/* lds.c - memory of the group: loads, stores, atomics, permutations of lanes that go through its crossbar; and races between waves. */
#include "tests/gfx11/isa.h"

#include <string.h>

/* ---- races: a word that two waves touch between two barriers, one of them writing ---- */

enum touch { READ, WRITE, ATOMIC };

static void race(struct wave *w, uint32_t at, const char *now, const char *before, uint32_t other)
{
    fault(w, GFX11_RACE, "LDS bytes %u..: %s here, %s in wave %u, no barrier between", at, now, before, other);
}

/* same: what is written stands there already, which no order of the waves can spoil */
static void touch_word(struct wave *w, uint32_t word, enum touch how, bool same)
{
    struct lds_word *l = &w->g->lds_word[word];
    uint32_t epoch = w->g->epoch + 1;
    uint64_t me = (uint64_t)1 << w->index, others = l->epoch_read == epoch ? l->readers & ~me : 0;
    bool written = l->epoch_write == epoch;
    bool harmless = how == ATOMIC ? l->atomic : how == WRITE && same && !l->atomic;
    if (written && l->writer != w->index && !harmless)
        race(w, 4 * word, how == READ ? "read" : how == WRITE ? "written" : "changed", l->atomic ? "changed" : "written", l->writer);
    else if (how != READ && others)
        race(w, 4 * word, how == WRITE ? "written" : "changed", "read", (uint32_t)__builtin_ctzll(others));
    if (how == READ) {
        l->readers = (l->epoch_read == epoch ? l->readers : 0) | me;
        l->epoch_read = epoch;
    } else {
        l->writer = (uint8_t)w->index, l->epoch_write = epoch, l->atomic = how == ATOMIC;
    }
}

/* n bytes of LDS for a lane; NULL after a fault */
static uint8_t *lds_at(struct wave *w, uint32_t at, uint32_t n, uint8_t **bad, uint32_t lane)
{
    uint32_t size = w->g->code->lds_bytes;
    if (at >= size || n > size - at) {
        fault(w, GFX11_RANGE, "lane %u: %u bytes at %u of LDS, which has %u", lane, n, at, size);
        return NULL;
    }
    if (at % (n >= 8 ? 4 : n)) { /* two words and more need only the alignment of one */
        fault(w, GFX11_RANGE, "lane %u: %u bytes at %u of LDS, which is not aligned", lane, n, at);
        return NULL;
    }
    *bad = w->g->lds_bad + at;
    return w->g->lds + at;
}

/* False after a fault */
static bool touch(struct wave *w, const uint8_t *p, uint32_t n, enum touch how, bool same)
{
    uint32_t at = (uint32_t)(p - w->g->lds);
    for (uint32_t b = at / 4; b <= (at + n - 1) / 4; b++)
        touch_word(w, b, how, same);
    return !faulted(w);
}

/* ---- loads and stores ---- */

enum { SIGNED = 64, D16 = 32, HIGH = 128 }; /* in arg, beside the number of bytes */

static bool address_written(struct wave *w, const struct source *a, const char *what)
{
    uint32_t exec = exec_of(w);
    for (uint32_t i = 0; a->bad && i < LANES; i++)
        if (exec >> i & 1 && a->bad[i]) {
            fault(w, GFX11_UNWRITTEN, "lane %u: %s takes bits that nobody has written", i, what);
            return false;
        }
    return true;
}

/* Distance of part k (0, 1) from the address */
static uint32_t offset(const struct inst *in, uint32_t k, uint32_t n)
{
    if (!(in->op->flags & OP_TWO))
        return (uint32_t)in->imm;
    return (k ? in->offset1 : (uint32_t)in->imm) * n * (in->op->flags & OP_STRIDE64 ? 64 : 1);
}

static void load(struct wave *w, const struct inst *in)
{
    struct source a;
    uint32_t exec = exec_of(w), n = in->op->arg & 31, parts = in->op->flags & OP_TWO ? 2 : 1, n_reg = in->d.n, r[4][LANES], bad[4][LANES];
    bool any_bad = false;
    source_raw(w, &in->s[0], 0, &a);
    if (!address_written(w, &a, "an address"))
        return;
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t x[4] = { 0 }, b[4] = { 0 };
        if (!(exec >> i & 1))
            continue;
        for (uint32_t k = 0; k < parts; k++) {
            uint8_t *shadow;
            const uint8_t *p = lds_at(w, a.x[i] + offset(in, k, n), n, &shadow, i);
            if (!p || !touch(w, p, n, READ, false))
                return;
            memcpy((uint8_t *)x + k * n, p, n);
            memcpy((uint8_t *)b + k * n, shadow, n);
        }
        if (n < 4 && in->op->arg & SIGNED) {
            x[0] = n == 1 ? (uint32_t)(int8_t)x[0] : (uint32_t)(int16_t)x[0];
            b[0] = b[0] ? ALL_LANES : 0;
        }
        if (in->op->arg & D16) {
            uint32_t old = w->v[in->d.code][i], old_bad = w->bad[in->d.code][i];
            bool high = in->op->arg & HIGH;
            x[0] = high ? (old & 0xffff) | x[0] << 16 : (old & 0xffff0000) | (x[0] & 0xffff);
            b[0] = high ? (old_bad & 0xffff) | b[0] << 16 : (old_bad & 0xffff0000) | (b[0] & 0xffff);
        }
        for (uint32_t k = 0; k < n_reg; k++)
            r[k][i] = x[k], bad[k][i] = b[k], any_bad |= b[k] != 0;
    }
    for (uint32_t k = 0; k < n_reg; k++)
        vgpr_set(w, in->d.code + k, r[k], any_bad ? bad[k] : NULL);
    wait_ds_load(w, in->d.code, n_reg);
}

static void store(struct wave *w, const struct inst *in)
{
    struct source a, s[2][4];
    uint32_t exec = exec_of(w), n = in->op->arg & 31, parts = in->op->flags & OP_TWO ? 2 : 1, shift = in->op->arg & HIGH ? 16 : 0;
    source_raw(w, &in->s[0], 0, &a);
    if (!address_written(w, &a, "an address"))
        return;
    for (uint32_t k = 0; k < parts; k++)
        for (uint32_t j = 0; j < in->s[1 + k].n; j++)
            source_raw(w, &in->s[1 + k], j, &s[k][j]);
    for (uint32_t i = 0; i < LANES; i++)
        for (uint32_t k = 0; k < parts && exec >> i & 1; k++) {
            uint32_t x[4] = { 0 }, b[4] = { 0 };
            uint8_t *shadow, *p = lds_at(w, a.x[i] + offset(in, k, n), n, &shadow, i);
            if (!p)
                return;
            for (uint32_t j = 0; j < in->s[1 + k].n; j++)
                x[j] = s[k][j].x[i] >> shift, b[j] = s[k][j].bad ? s[k][j].bad[i] >> shift : 0;
            if (!touch(w, p, n, WRITE, memcmp(p, x, n) == 0 && memcmp(shadow, b, n) == 0))
                return;
            memcpy(p, x, n);
            memcpy(shadow, b, n);
        }
    w->ds_issued++;
}

static void atomic(struct wave *w, const struct inst *in)
{
    struct source a, s;
    uint32_t exec = exec_of(w), old[LANES];
    source_raw(w, &in->s[0], 0, &a);
    source_raw(w, &in->s[1], 0, &s);
    if (!address_written(w, &a, "an address") || !address_written(w, &s, "an atomic"))
        return;
    for (uint32_t i = 0; i < LANES; i++) {
        uint8_t *shadow;
        uint32_t x, b;
        if (!(exec >> i & 1))
            continue;
        uint8_t *p = lds_at(w, a.x[i] + (uint32_t)in->imm, 4, &shadow, i);
        if (!p || !touch(w, p, 4, ATOMIC, false))
            return;
        memcpy(&b, shadow, 4);
        if (!must_be_written(w, b, "an atomic"))
            return;
        memcpy(&old[i], p, 4);
        x = atomic_value(in->op->arg, old[i], s.x[i]);
        memcpy(p, &x, 4);
    }
    if (in->op->flags & OP_RETURN) {
        vgpr_set(w, in->d.code, old, NULL);
        wait_ds_load(w, in->d.code, 1);
    } else {
        w->ds_issued++;
    }
}

/* ---- permutations; no memory is touched ---- */

static void permute_to(struct wave *w, const struct inst *in, const struct source *from, const uint32_t *lane)
{
    uint32_t r[LANES], bad[LANES], exec = exec_of(w);
    for (uint32_t i = 0; i < LANES; i++) {
        r[i] = from->x[lane[i]], bad[i] = from->bad ? from->bad[lane[i]] : 0;
        if (exec >> i & 1 && !(exec >> lane[i] & 1)) {
            fault(w, GFX11_LANE, "lane %u takes its value from lane %u, which is switched off", i, lane[i]);
            return;
        }
    }
    vgpr_set(w, in->d.code, r, bad);
    wait_ds_load(w, in->d.code, 1);
}

static void bpermute(struct wave *w, const struct inst *in)
{
    struct source a, s;
    uint32_t lane[LANES];
    source_raw(w, &in->s[0], 0, &a);
    source_raw(w, &in->s[1], 0, &s);
    if (!address_written(w, &a, "a lane number"))
        return;
    for (int i = 0; i < LANES; i++)
        lane[i] = (a.x[i] + (uint32_t)in->imm) / 4 % LANES;
    permute_to(w, in, &s, lane);
}

static void swizzle(struct wave *w, const struct inst *in)
{
    struct source s;
    uint32_t lane[LANES], how = (uint32_t)in->imm;
    source_raw(w, &in->s[0], 0, &s);
    for (uint32_t i = 0; i < LANES; i++)
        lane[i] = how & 0x8000 ? (i & ~3u) | (how >> 2 * (i & 3) & 3) : ((i & (how & 31)) | (how >> 5 & 31)) ^ (how >> 10 & 31);
    permute_to(w, in, &s, lane);
}

#define LOAD(code, name, form, flags, arg) { DS, code, "ds_load_" name, form, OP_LOAD | (flags), 0, arg, load, { 0 } }
#define STORE(code, name, form, flags, arg) { DS, code, "ds_store_" name, form, OP_STORE | (flags), 0, arg, store, { 0 } }
#define BOTH(code, name, suffix, arg)                                                                                       \
    { DS, code, "ds_" name "_" suffix, "-ii", OP_ATOMIC, 0, arg, atomic, { 0 } },                                            \
    { DS, (code) + 32, "ds_" name "_rtn_" suffix, "iii", OP_ATOMIC | OP_RETURN, 0, arg, atomic, { 0 } }
const struct op lds_ops[] = {
    BOTH(0, "add", "u32", ADD), BOTH(1, "sub", "u32", SUB), BOTH(5, "min", "i32", MIN_I), BOTH(6, "max", "i32", MAX_I), BOTH(7, "min", "u32", MIN_U), BOTH(8, "max", "u32", MAX_U),
    BOTH(9, "and", "b32", AND), BOTH(10, "or", "b32", OR), BOTH(11, "xor", "b32", XOR),
    STORE(13, "b32", "-ii", 0, 4), STORE(14, "2addr_b32", "-iii", OP_TWO, 4), STORE(15, "2addr_stride64_b32", "-iii", OP_TWO | OP_STRIDE64, 4), STORE(30, "b8", "-ii", 0, 1),
    STORE(31, "b16", "-ii", 0, 2), STORE(77, "b64", "-i2", 0, 8), STORE(78, "2addr_b64", "-i22", OP_TWO, 8), STORE(79, "2addr_stride64_b64", "-i22", OP_TWO | OP_STRIDE64, 8),
    STORE(161, "b16_d16_hi", "-ii", 0, 2 | HIGH), STORE(222, "b96", "-i3", 0, 12), STORE(223, "b128", "-i4", 0, 16),
    LOAD(54, "b32", "ii", 0, 4), LOAD(55, "2addr_b32", "2i", OP_TWO, 4), LOAD(56, "2addr_stride64_b32", "2i", OP_TWO | OP_STRIDE64, 4), LOAD(57, "i8", "ii", 0, 1 | SIGNED),
    LOAD(58, "u8", "ii", 0, 1), LOAD(59, "i16", "ii", 0, 2 | SIGNED), LOAD(60, "u16", "ii", 0, 2), LOAD(118, "b64", "2i", 0, 8), LOAD(119, "2addr_b64", "4i", OP_TWO, 8),
    LOAD(120, "2addr_stride64_b64", "4i", OP_TWO | OP_STRIDE64, 8), LOAD(166, "u16_d16", "ii", 0, 2 | D16), LOAD(167, "u16_d16_hi", "ii", 0, 2 | D16 | HIGH),
    LOAD(254, "b96", "3i", 0, 12), LOAD(255, "b128", "4i", 0, 16),
    { DS, 179, "ds_bpermute_b32", "iii", OP_LOAD, 0, 0, bpermute, { 0 } }, { DS, 53, "ds_swizzle_b32", "ii", OP_LOAD, 0, 0, swizzle, { 0 } },
    { 0 },
};
