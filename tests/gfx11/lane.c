/* lane.c - instructions that move values between lanes, or between lanes and scalar registers. */
#include "tests/gfx11/isa.h"

static struct scalar one_lane(struct wave *w, const struct operand *o, uint32_t lane)
{
    if (o->kind != VGPR)
        return scalar_get(w, o);
    return (struct scalar){ w->v[o->code][lane], w->bad[o->code][lane] };
}

static void readfirstlane(struct wave *w, const struct inst *in)
{
    uint32_t exec = exec_of(w);
    scalar_set(w, &in->d, one_lane(w, &in->s[0], exec ? (uint32_t)__builtin_ctz(exec) : 0));
}

static void readlane(struct wave *w, const struct inst *in)
{
    struct scalar lane = scalar_get(w, &in->s[1]);
    if (must_be_written(w, lane.bad, "lane number"))
        scalar_set(w, &in->d, one_lane(w, &in->s[0], lane.x & 31));
}

static void writelane(struct wave *w, const struct inst *in)
{
    struct scalar lane = scalar_get(w, &in->s[1]), x = scalar_get(w, &in->s[0]);
    uint32_t r[LANES], bad[LANES];
    if (!must_be_written(w, lane.bad, "lane number"))
        return;
    r[lane.x & 31] = (uint32_t)x.x, bad[lane.x & 31] = (uint32_t)x.bad;
    vgpr_set_lanes(w, in->d.code, r, bad, 1u << (lane.x & 31));
}

/* arg 1: from the other row of 16. Sixteen numbers of four bits in two scalars say which lane each takes its value from. opsel bit 0: also from lanes
 * that are off; bit 1: such a lane gives 0. */
static void permlane(struct wave *w, const struct inst *in)
{
    struct scalar lo = scalar_get(w, &in->s[1]), hi = scalar_get(w, &in->s[2]);
    uint64_t pick = (lo.x & UINT32_MAX) | hi.x << 32;
    uint32_t r[LANES], bad[LANES], exec = exec_of(w), reg = in->s[0].code;
    if (!must_be_written(w, (lo.bad | hi.bad) & UINT32_MAX, "permutation"))
        return;
    if (in->s[0].kind != VGPR) {
        fault(w, GFX11_UNKNOWN, "permutation of a scalar");
        return;
    }
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t from = ((i & 16) ^ (in->op->arg ? 16 : 0)) | (uint32_t)(pick >> 4 * (i & 15) & 15);
        r[i] = w->v[reg][from], bad[i] = w->bad[reg][from];
        if (exec >> i & 1 && !(exec >> from & 1) && !(in->opsel & 1)) {
            fault(w, GFX11_LANE, "lane %u takes its value from lane %u, which is switched off", i, from);
            return;
        }
    }
    vgpr_set(w, in->d.code, r, bad);
}

/* How many bits of a mask belong to lanes below, added to the second source; arg 1: of the upper 32 lanes, which a wave of 32 has not */
static void mbcnt(struct wave *w, const struct inst *in)
{
    struct source mask, add;
    uint32_t r[LANES], bad[LANES];
    source_get(w, in, 0, &mask);
    source_get(w, in, 1, &add);
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t below = in->op->arg ? 0 : (1u << i) - 1;
        r[i] = add.x[i] + (uint32_t)__builtin_popcount(mask.x[i] & below);
        bad[i] = ((mask.bad ? mask.bad[i] & below : 0) | (add.bad ? add.bad[i] : 0)) ? ALL_LANES : 0;
    }
    vgpr_set(w, in->d.code, r, mask.bad || add.bad ? bad : NULL);
}

static void swap(struct wave *w, const struct inst *in)
{
    struct source a, b;
    uint32_t x[LANES], x_bad[LANES];
    source_raw(w, &in->s[0], 0, &a);
    source_raw(w, &in->d, 0, &b);
    for (int i = 0; i < LANES; i++)
        x[i] = a.x[i], x_bad[i] = a.bad ? a.bad[i] : 0;
    vgpr_set(w, in->s[0].code, b.x, b.bad);
    vgpr_set(w, in->d.code, x, x_bad);
}

const struct op lane_ops[] = {
    { VOP1, 2, "v_readfirstlane_b32", "si", OP_SDST | OP_NO_E64, 0, 0, readfirstlane, { 0 } },
    { VOP1, 101, "v_swap_b32", "ii", OP_NO_E64, 0, 0, swap, { 0 } },
    { VOP3, 864, "v_readlane_b32", "sis", OP_SDST, 0, 0, readlane, { 0 } },
    { VOP3, 865, "v_writelane_b32", "iss", 0, 0, 0, writelane, { 0 } },
    { VOP3, 603, "v_permlane16_b32", "iiss", 0, 0, 0, permlane, { 0 } },
    { VOP3, 604, "v_permlanex16_b32", "iiss", 0, 0, 1, permlane, { 0 } },
    { VOP3, 799, "v_mbcnt_lo_u32_b32", "iii", 0, 0, 0, mbcnt, { 0 } },
    { VOP3, 800, "v_mbcnt_hi_u32_b32", "iii", 0, 0, 1, mbcnt, { 0 } },
    { 0 },
};
