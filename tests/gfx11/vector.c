/* vector.c - how an instruction with one 32-bit result per lane runs; comparisons, carries, selections. */
#include "tests/gfx11/isa.h"

#include <math.h>
#include <string.h>

static void output_modifiers(const struct inst *in, uint32_t *r)
{
    static const float factor[4] = { 1, 2, 4, 0.5f };
    for (int i = 0; i < LANES; i++) {
        float x = in->d.type == 'h' ? half_to_f32(r[i]) : as_f32(r[i]);
        x *= factor[in->omod];
        if (in->clamp)
            x = !(x > 0) ? 0.0f : x > 1 ? 1.0f : x;
        r[i] = in->d.type == 'h' ? f32_to_half(x) : as_u32(x);
    }
}

/* A 16-bit result goes to one half of the register and leaves the other as it is. */
static void keep_other_half(const struct wave *w, const struct inst *in, uint32_t *r, uint32_t *bad, bool tainted)
{
    bool high = in->opsel >> 3 & 1;
    const uint32_t *old = w->v[in->d.code], *old_bad = w->bad[in->d.code];
    for (int i = 0; i < LANES; i++) {
        uint32_t b = tainted ? bad[i] & 0xffff : 0;
        r[i] = high ? (old[i] & 0xffff) | r[i] << 16 : (old[i] & 0xffff0000) | (r[i] & 0xffff);
        bad[i] = high ? (old_bad[i] & 0xffff) | b << 16 : (old_bad[i] & 0xffff0000) | b;
    }
}

static void write_result(struct wave *w, const struct inst *in, uint32_t *r, uint32_t *bad, bool tainted)
{
    if ((in->omod || in->clamp) && (in->d.type == 'f' || in->d.type == 'h'))
        output_modifiers(in, r);
    if (in->d.type == 'h' || in->d.type == 'w') {
        keep_other_half(w, in, r, bad, tainted);
        tainted = true;
    }
    if (!faulted(w))
        vgpr_set(w, in->d.code, r, tainted ? bad : NULL);
}

void run_lanes(struct wave *w, const struct inst *in)
{
    struct source a, b, c;
    uint32_t r[LANES], bad[LANES];
    source_get(w, in, 0, &a);
    source_get(w, in, 1, &b);
    if (in->op->flags & OP_ACC)
        source_raw(w, &in->d, 0, &c);
    else
        source_get(w, in, 2, &c);
    in->op->fn.lanes(r, a.x, b.x, c.x);
    bool tainted = a.bad || b.bad || c.bad;
    if (tainted)
        taint_lanes(bad, in->op->taint, &a, &b, &c);
    write_result(w, in, r, bad, tainted);
}

/* ---- VOPD: both halves read before either writes ---- */

static bool half(struct wave *w, const struct inst *in, uint32_t *r, uint32_t *bad)
{
    struct source a, b, c;
    source_get(w, in, 0, &a);
    source_get(w, in, 1, &b);
    if (in->op->flags & OP_MASK_SRC) {
        struct scalar m = mask_get(w, &in->s[2]);
        for (uint32_t i = 0; i < LANES; i++) {
            bool second = m.x >> i & 1;
            r[i] = second ? b.x[i] : a.x[i];
            const uint32_t *from = second ? b.bad : a.bad;
            bad[i] = m.bad >> i & 1 ? ALL_LANES : from ? from[i] : 0;
        }
        return a.bad || b.bad || m.bad;
    }
    if (in->op->flags & OP_ACC)
        source_raw(w, &in->d, 0, &c);
    else
        source_get(w, in, 2, &c);
    in->op->fn.lanes(r, a.x, b.x, c.x);
    if (!a.bad && !b.bad && !c.bad)
        return false;
    taint_lanes(bad, in->op->taint, &a, &b, &c);
    return true;
}

void run_dual(struct wave *w, const struct inst *in)
{
    uint32_t r[2][LANES], bad[2][LANES];
    bool tainted[2] = { half(w, in, r[0], bad[0]), half(w, in->y, r[1], bad[1]) };
    vgpr_set(w, in->d.code, r[0], tainted[0] ? bad[0] : NULL);
    vgpr_set(w, in->y->d.code, r[1], tainted[1] ? bad[1] : NULL);
}

/* ---- with masks of lanes ---- */

static void cndmask(struct wave *w, const struct inst *in)
{
    struct source a, b;
    struct scalar m = mask_get(w, &in->s[2]);
    uint32_t r[LANES], bad[LANES];
    source_get(w, in, 0, &a);
    source_get(w, in, 1, &b);
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t second = -(uint32_t)(m.x >> i & 1);
        r[i] = (b.x[i] & second) | (a.x[i] & ~second);
    }
    bool tainted = a.bad || b.bad || m.bad;
    for (uint32_t i = 0; tainted && i < LANES; i++) {
        const uint32_t *from = m.x >> i & 1 ? b.bad : a.bad;
        bad[i] = m.bad >> i & 1 ? ALL_LANES : from ? from[i] : 0;
    }
    write_result(w, in, r, bad, tainted);
}

static uint32_t lanes_with(const uint32_t *bad)
{
    uint32_t m = 0;
    for (int i = 0; bad && i < LANES; i++)
        m |= (uint32_t)(bad[i] != 0) << i;
    return m;
}

/* arg: 0 x + y, 1 x - y, 2 y - x; the carry in is 0 without a mask */
static void carry(struct wave *w, const struct inst *in)
{
    struct source a, b;
    struct scalar m = in->op->flags & OP_MASK_SRC ? mask_get(w, &in->s[2]) : (struct scalar){ 0 };
    uint32_t r[LANES], bad[LANES], out = 0, exec = exec_of(w);
    source_get(w, in, 0, &a);
    source_get(w, in, 1, &b);
    for (int i = 0; i < LANES; i++) {
        uint64_t x = a.x[i], y = b.x[i], c = m.x >> i & 1;
        uint64_t sum = in->op->arg == 0 ? x + y + c : in->op->arg == 1 ? x - y - c : y - x - c;
        r[i] = (uint32_t)sum;
        out |= (uint32_t)(sum >> 32 & 1) << i;
        bad[i] = (a.bad && a.bad[i]) || (b.bad && b.bad[i]) || (m.bad >> i & 1) ? ALL_LANES : 0;
    }
    bool tainted = a.bad || b.bad || m.bad;
    scalar_set(w, &in->mask_d, (struct scalar){ out & exec, tainted ? lanes_with(bad) & exec : 0 });
    vgpr_set(w, in->d.code, r, tainted ? bad : NULL);
}

/* The mask of a comparison to its place */
static void put_mask(struct wave *w, const struct inst *in, uint32_t m, uint32_t bad)
{
    if (in->op->flags & OP_CMPX) {
        if (must_be_written(w, bad, "exec"))
            w->s[S_EXEC] = m;
    } else {
        scalar_set(w, &in->d, (struct scalar){ m, bad });
    }
}

static void compare(struct wave *w, const struct inst *in)
{
    struct source a, b;
    source_get(w, in, 0, &a);
    source_get(w, in, 1, &b);
    uint32_t exec = exec_of(w), m = in->op->fn.compare(a.x, b.x) & exec, bad = 0;
    if (a.bad || b.bad) {
        uint32_t lane_bad[LANES];
        struct source none = { .x = no_bits };
        taint_lanes(lane_bad, in->op->taint, &a, &b, &none);
        bad = lanes_with(lane_bad) & exec;
    }
    put_mask(w, in, m, bad);
}

/* Pairs of registers. arg: 0 equal, 1 not equal */
static void compare64(struct wave *w, const struct inst *in)
{
    struct source x[2], y[2];
    uint32_t exec = exec_of(w), m = 0, bad = 0;
    for (uint32_t k = 0; k < 2; k++) {
        source_raw(w, &in->s[0], k, &x[k]);
        source_raw(w, &in->s[1], k, &y[k]);
    }
    for (int i = 0; i < LANES; i++) {
        bool equal = x[0].x[i] == y[0].x[i] && x[1].x[i] == y[1].x[i];
        m |= (uint32_t)(equal != (in->op->arg == 1)) << i;
        for (uint32_t k = 0; k < 2; k++)
            bad |= (uint32_t)((x[k].bad && x[k].bad[i]) || (y[k].bad && y[k].bad[i])) << i;
    }
    put_mask(w, in, m & exec, bad & exec);
}

/* ---- the comparisons ---- */

static float low_half(uint32_t x) { return half_to_f32(x & 0xffff); }
#define COMPARE(name, T, get, cond)                                        \
    static uint32_t name(const uint32_t *xs, const uint32_t *ys)           \
    {                                                                      \
        uint32_t m = 0;                                                    \
        for (int i = 0; i < LANES; i++) {                                  \
            T x = get(xs[i]), y = get(ys[i]);                              \
            m |= (uint32_t)(cond) << i;                                    \
        }                                                                  \
        return m;                                                          \
    }
#define SIX(suffix, T, get)                                                                                                              \
    COMPARE(lt_##suffix, T, get, x < y) COMPARE(eq_##suffix, T, get, x == y) COMPARE(le_##suffix, T, get, x <= y)                        \
    COMPARE(gt_##suffix, T, get, x > y) COMPARE(ge_##suffix, T, get, x >= y)
#define NOT(suffix, T, get)                                                                                                              \
    COMPARE(lg_##suffix, T, get, x < y || x > y) COMPARE(o_##suffix, T, get, !isnan(x) && !isnan(y)) COMPARE(u_##suffix, T, get, isnan(x) || isnan(y)) \
    COMPARE(nge_##suffix, T, get, !(x >= y)) COMPARE(nlg_##suffix, T, get, !(x < y || x > y)) COMPARE(ngt_##suffix, T, get, !(x > y))    \
    COMPARE(nle_##suffix, T, get, !(x <= y)) COMPARE(neq_##suffix, T, get, !(x == y)) COMPARE(nlt_##suffix, T, get, !(x < y))
SIX(f32, float, as_f32) NOT(f32, float, as_f32) SIX(f16, float, low_half) NOT(f16, float, low_half)
SIX(i32, int32_t, (int32_t)) COMPARE(ne_i32, int32_t, (int32_t), x != y) SIX(u32, uint32_t, (uint32_t)) COMPARE(ne_u32, uint32_t, (uint32_t), x != y)
SIX(i16, int16_t, (int16_t)) COMPARE(ne_i16, int16_t, (int16_t), x != y) SIX(u16, uint16_t, (uint16_t)) COMPARE(ne_u16, uint16_t, (uint16_t), x != y)

/* Which of ten classes x is in, as a bit */
static uint32_t class_of(uint32_t x)
{
    uint32_t e = x >> 23 & 255, m = x & 0x7fffff, negative = x >> 31;
    if (e == 255)
        return m ? (m >> 22 ? 2 : 1) : negative ? 4 : 512;
    if (e == 0)
        return m == 0 ? (negative ? 32 : 64) : (negative ? 16 : 128);
    return negative ? 8 : 256;
}
COMPARE(class_f32, uint32_t, (uint32_t), (class_of(x) & y) != 0)

#define ROW(code, name, form, taint, f) { VOPC, code, "v_cmp_" name, form, 0, taint, 0, compare, { .compare = f } }, { VOPC, (code) + 128, "v_cmpx_" name, form, OP_CMPX, taint, 0, compare, { .compare = f } }
#define FLOATS(at, suffix, form, taint)                                                                                                                       \
    ROW((at) + 1, "lt_" #suffix, form, taint, lt_##suffix), ROW((at) + 2, "eq_" #suffix, form, taint, eq_##suffix), ROW((at) + 3, "le_" #suffix, form, taint, le_##suffix),   \
        ROW((at) + 4, "gt_" #suffix, form, taint, gt_##suffix), ROW((at) + 5, "lg_" #suffix, form, taint, lg_##suffix), ROW((at) + 6, "ge_" #suffix, form, taint, ge_##suffix), \
        ROW((at) + 7, "o_" #suffix, form, taint, o_##suffix), ROW((at) + 8, "u_" #suffix, form, taint, u_##suffix), ROW((at) + 9, "nge_" #suffix, form, taint, nge_##suffix),   \
        ROW((at) + 10, "nlg_" #suffix, form, taint, nlg_##suffix), ROW((at) + 11, "ngt_" #suffix, form, taint, ngt_##suffix),                                                   \
        ROW((at) + 12, "nle_" #suffix, form, taint, nle_##suffix), ROW((at) + 13, "neq_" #suffix, form, taint, neq_##suffix), ROW((at) + 14, "nlt_" #suffix, form, taint, nlt_##suffix)
#define INTS(at, suffix, form, taint)                                                                                                                         \
    ROW((at) + 1, "lt_" #suffix, form, taint, lt_##suffix), ROW((at) + 2, "eq_" #suffix, form, taint, eq_##suffix), ROW((at) + 3, "le_" #suffix, form, taint, le_##suffix),   \
        ROW((at) + 4, "gt_" #suffix, form, taint, gt_##suffix), ROW((at) + 5, "ne_" #suffix, form, taint, ne_##suffix), ROW((at) + 6, "ge_" #suffix, form, taint, ge_##suffix)
#define ROW64(code, name, arg) { VOPC, code, "v_cmp_" name, "mqq", 0, 0, arg, compare64, { 0 } }, { VOPC, (code) + 128, "v_cmpx_" name, "mqq", OP_CMPX, 0, arg, compare64, { 0 } }
const struct op compare_ops[] = {
    ROW64(90, "eq_u64", 0), ROW64(93, "ne_u64", 1),
    FLOATS(0, f16, "mhh", TAINT_LOW16), FLOATS(16, f32, "mff", TAINT_ALL), INTS(48, i16, "mww", TAINT_LOW16), INTS(56, u16, "mww", TAINT_LOW16),
    INTS(64, i32, "mii", TAINT_ALL), INTS(72, u32, "muu", TAINT_ALL), ROW(126, "class_f32", "mfi", TAINT_ALL, class_f32),
    { VOP2, 1, "v_cndmask_b32", "iffm", OP_MASK_SRC, 0, 0, cndmask, { 0 } },
    { VOP2, 32, "v_add_co_ci_u32", "iiim", OP_MASK_DST | OP_MASK_SRC, 0, 0, carry, { 0 } },
    { VOP2, 33, "v_sub_co_ci_u32", "iiim", OP_MASK_DST | OP_MASK_SRC, 0, 1, carry, { 0 } },
    { VOP2, 34, "v_subrev_co_ci_u32", "iiim", OP_MASK_DST | OP_MASK_SRC, 0, 2, carry, { 0 } },
    { VOP3, 768, "v_add_co_u32", "iii", OP_MASK_DST, 0, 0, carry, { 0 } },
    { VOP3, 769, "v_sub_co_u32", "iii", OP_MASK_DST, 0, 1, carry, { 0 } },
    { VOP3, 770, "v_subrev_co_u32", "iii", OP_MASK_DST, 0, 2, carry, { 0 } },
    { 0 },
};
