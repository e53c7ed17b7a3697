/* scalar.c - instructions on scalar registers: arithmetic, comparisons, masks of lanes. */
#include "tests/gfx11/isa.h"

#include <math.h>

static uint64_t mask_of(uint32_t n) { return n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1; }

void run_scalar(struct wave *w, const struct inst *in)
{
    struct scalar a = scalar_get(w, &in->s[0]), b = { 0 }, scc = { w->scc, w->scc_bad }, r = { 0 };
    if (in->op->enc == SOPK)
        a = scalar_get(w, &in->d), b = (struct scalar){ (uint64_t)(int64_t)in->imm, 0 };
    else if (in->s[1].kind)
        b = scalar_get(w, &in->s[1]);
    if (in->op->flags & (OP_MADK | OP_ADDK | OP_ACC))
        r = scalar_get(w, in->op->flags & OP_ACC ? &in->d : &in->s[2]);
    uint64_t all = mask_of(32u * in->d.n);
    r.bad = a.bad || b.bad || r.bad ? all : 0;
    in->op->fn.scalar(&r, &scc, a, b);
    r.x &= all, r.bad &= all;
    if (in->d.kind && !(in->op->enc == SOPK && in->op->flags & OP_NO_E64))
        scalar_set(w, &in->d, r);
    w->scc = scc.x & 1, w->scc_bad = scc.bad & 1;
}

/* name(result, carry in and out, first source, second source) */
#define SCALAR(name) static void name(struct scalar *r, struct scalar *scc, struct scalar a, struct scalar b)
#define USED (void)a, (void)b, (void)scc
static uint32_t lo(struct scalar a) { return (uint32_t)a.x; }
static int32_t si(struct scalar a) { return (int32_t)a.x; }
static float sf(struct scalar a) { return as_f32((uint32_t)a.x); }
static void flag(struct scalar *scc, bool x, uint64_t bad) { *scc = (struct scalar){ x, bad != 0 }; }
/* scc = the result is not zero; it is known when a written bit is set */
static void flag_nonzero(struct scalar *scc, const struct scalar *r, uint32_t n)
{
    uint64_t all = mask_of(n);
    flag(scc, (r->x & all) != 0, (r->x & ~r->bad & all) ? 0 : r->bad & all);
}

#define PLAIN(name, expr)    \
    SCALAR(name)             \
    {                        \
        USED;                \
        r->x = (expr);       \
    }
#define WITH_SCC(name, expr, flag_expr)    \
    SCALAR(name)                           \
    {                                      \
        USED;                              \
        r->x = (expr);                     \
        flag(scc, (flag_expr), r->bad);    \
    }
#define NONZERO(name, expr, n)         \
    SCALAR(name)                       \
    {                                  \
        USED;                          \
        r->x = (expr);                 \
        flag_nonzero(scc, r, n);       \
    }

static uint32_t reverse_bits(uint32_t x)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (x >> i & 1) << (31 - i);
    return r;
}
SCALAR(mov_exact) { USED; r->x = a.x, r->bad = a.bad; }
SCALAR(cmov)
{
    USED;
    if (scc->x)
        r->x = a.x;
    r->bad = scc->bad ? UINT64_MAX : r->bad;
}
PLAIN(brev, reverse_bits(lo(a)))
PLAIN(ctz32, lo(a) ? (uint32_t)__builtin_ctz(lo(a)) : UINT32_MAX)
PLAIN(ctz64, a.x ? (uint32_t)__builtin_ctzll(a.x) : UINT32_MAX)
PLAIN(clz32, lo(a) ? (uint32_t)__builtin_clz(lo(a)) : UINT32_MAX)
PLAIN(clz64, a.x ? (uint32_t)__builtin_clzll(a.x) : UINT32_MAX)
PLAIN(sext8, (uint32_t)(int8_t)a.x)
PLAIN(sext16, (uint32_t)(int16_t)a.x)
PLAIN(bitset0, r->x & ~(1ull << (a.x & 31)))
PLAIN(bitset1, r->x | 1ull << (a.x & 31))
NONZERO(abs32, (uint32_t)(si(a) < 0 ? -a.x : a.x), 32)
NONZERO(bcnt0_32, 32u - (uint32_t)__builtin_popcount(lo(a)), 32)
NONZERO(bcnt1_32, (uint32_t)__builtin_popcount(lo(a)), 32)
NONZERO(bcnt1_64, (uint32_t)__builtin_popcountll(a.x), 32)
#define LOGIC(name, expr, bad_expr)                                                   \
    SCALAR(name##32)                                                                  \
    {                                                                                 \
        USED;                                                                         \
        r->x = (expr), r->bad = (bad_expr);                                           \
        flag_nonzero(scc, r, 32);                                                     \
    }                                                                                 \
    SCALAR(name##64)                                                                  \
    {                                                                                 \
        USED;                                                                         \
        r->x = (expr), r->bad = (bad_expr);                                           \
        flag_nonzero(scc, r, 64);                                                     \
    }
/* a bit of a & b is known when both are, or one is known to be 0 */
#define BAD_AND(ax, ab, bx, bb) (((ab) & (bb)) | ((ab) & (bx)) | ((bb) & (ax)))
LOGIC(bits_not, ~a.x, a.bad)
LOGIC(bits_and, a.x &b.x, BAD_AND(a.x, a.bad, b.x, b.bad))
LOGIC(bits_or, a.x | b.x, BAD_AND(~a.x, a.bad, ~b.x, b.bad))
LOGIC(bits_xor, a.x ^ b.x, a.bad | b.bad)
LOGIC(bits_nand, ~(a.x & b.x), BAD_AND(a.x, a.bad, b.x, b.bad))
LOGIC(bits_nor, ~(a.x | b.x), BAD_AND(~a.x, a.bad, ~b.x, b.bad))
LOGIC(bits_xnor, ~(a.x ^ b.x), a.bad | b.bad)
LOGIC(bits_and_not1, a.x & ~b.x, BAD_AND(a.x, a.bad, ~b.x, b.bad))
LOGIC(bits_or_not1, a.x | ~b.x, BAD_AND(~a.x, a.bad, b.x, b.bad))

WITH_SCC(add_u32, (uint32_t)(a.x + b.x), (uint64_t)lo(a) + lo(b) > UINT32_MAX)
WITH_SCC(sub_u32, (uint32_t)(a.x - b.x), lo(a) < lo(b))
WITH_SCC(add_i32, (uint32_t)(a.x + b.x), (int64_t)si(a) + si(b) != (int32_t)(uint32_t)(a.x + b.x))
WITH_SCC(sub_i32, (uint32_t)(a.x - b.x), (int64_t)si(a) - si(b) != (int32_t)(uint32_t)(a.x - b.x))
SCALAR(addc)
{
    uint64_t sum = (uint64_t)lo(a) + lo(b) + scc->x;
    r->x = (uint32_t)sum;
    r->bad = r->bad || scc->bad ? UINT64_MAX : 0;
    flag(scc, sum > UINT32_MAX, r->bad);
}
SCALAR(subb)
{
    int64_t sum = (int64_t)lo(a) - (int64_t)lo(b) - (int64_t)scc->x;
    r->x = (uint32_t)sum;
    r->bad = r->bad || scc->bad ? UINT64_MAX : 0;
    flag(scc, sum < 0, r->bad);
}
#define SHIFT(name, expr, n, bad_expr)                       \
    SCALAR(name)                                             \
    {                                                        \
        USED;                                                \
        r->x = (expr);                                       \
        r->bad = b.bad ? UINT64_MAX : (bad_expr);            \
        flag_nonzero(scc, r, n);                             \
    }
SHIFT(lshl32, (uint32_t)(lo(a) << (b.x & 31)), 32, a.bad << (b.x & 31))
SHIFT(lshl64, a.x << (b.x & 63), 64, a.bad << (b.x & 63))
SHIFT(lshr32, lo(a) >> (b.x & 31), 32, (a.bad & UINT32_MAX) >> (b.x & 31))
SHIFT(lshr64, a.x >> (b.x & 63), 64, a.bad >> (b.x & 63))
SHIFT(ashr32, (uint32_t)(si(a) >> (b.x & 31)), 32, (uint32_t)((int32_t)a.bad >> (b.x & 31)))
SHIFT(ashr64, (uint64_t)((int64_t)a.x >> (b.x & 63)), 64, (uint64_t)((int64_t)a.bad >> (b.x & 63)))
#define SHIFT_ADD(k) WITH_SCC(lshl##k##_add, (uint32_t)((a.x << k) + b.x), (((uint64_t)lo(a) << k) + lo(b)) >> 32 != 0)
SHIFT_ADD(1) SHIFT_ADD(2) SHIFT_ADD(3) SHIFT_ADD(4)
WITH_SCC(min_i32, (uint32_t)MIN(si(a), si(b)), si(a) < si(b))
WITH_SCC(min_u32, MIN(lo(a), lo(b)), lo(a) < lo(b))
WITH_SCC(max_i32, (uint32_t)MAX(si(a), si(b)), si(a) > si(b))
WITH_SCC(max_u32, MAX(lo(a), lo(b)), lo(a) > lo(b))
static uint64_t field(uint64_t x, uint64_t how, uint32_t width, bool sign)
{
    uint32_t at = (uint32_t)how & (width - 1), n = (uint32_t)(how >> 16) & 127;
    if (n == 0)
        return 0;
    if (sign)
        x = width == 32 ? (uint64_t)(int64_t)(int32_t)x : x;
    x = sign ? (uint64_t)((int64_t)x >> at) : (width == 32 ? x & UINT32_MAX : x) >> at;
    if (n >= 64)
        return x;
    x &= mask_of(n);
    return sign && x >> (n - 1) & 1 ? x | ~mask_of(n) : x;
}
SHIFT(bfe_u32, field(a.x, b.x, 32, false), 32, field(a.bad, b.x, 32, false))
SHIFT(bfe_i32, (uint32_t)field(a.x, b.x, 32, true), 32, field(a.bad, b.x, 32, true))
SHIFT(bfe_u64, field(a.x, b.x, 64, false), 64, field(a.bad, b.x, 64, false))
PLAIN(bfm, mask_of(lo(a) & 31) << (b.x & 31))
PLAIN(mul_i32, (uint32_t)(a.x * b.x))
PLAIN(mul_hi_u32, ((uint64_t)lo(a) * lo(b)) >> 32)
PLAIN(mul_hi_i32, (uint32_t)(((int64_t)si(a) * si(b)) >> 32))
SCALAR(cselect)
{
    r->x = scc->x ? a.x : b.x;
    r->bad = scc->bad ? UINT64_MAX : scc->x ? a.bad : b.bad;
}
PLAIN(pack_ll, (a.x & 0xffff) | (b.x & 0xffff) << 16)
PLAIN(pack_lh, (a.x & 0xffff) | (b.x & 0xffff0000))
PLAIN(pack_hh, (a.x >> 16 & 0xffff) | (b.x & 0xffff0000))

/* ---- floats ---- */

static int32_t to_i32(float x) { return isnan(x) ? 0 : x >= 0x1p31f ? INT32_MAX : x <= -0x1p31f ? INT32_MIN : (int32_t)x; }
static uint32_t to_u32(float x) { return isnan(x) || x <= 0 ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)x; }
PLAIN(ceil_f32, as_u32(ceilf(sf(a))))
PLAIN(floor_f32, as_u32(floorf(sf(a))))
PLAIN(trunc_f32, as_u32(truncf(sf(a))))
PLAIN(rndne_f32, as_u32(nearbyintf(sf(a))))
PLAIN(cvt_f32_i32, as_u32((float)si(a)))
PLAIN(cvt_f32_u32, as_u32((float)lo(a)))
PLAIN(cvt_i32_f32, (uint32_t)to_i32(sf(a)))
PLAIN(cvt_u32_f32, to_u32(sf(a)))
PLAIN(cvt_f16_f32, f32_to_half(sf(a)))
PLAIN(cvt_f32_f16, as_u32(half_to_f32((uint32_t)a.x & 0xffff)))
PLAIN(add_f32, as_u32(sf(a) + sf(b)))
PLAIN(sub_f32, as_u32(sf(a) - sf(b)))
PLAIN(mul_f32, as_u32(sf(a) * sf(b)))
PLAIN(min_f32, as_u32(fminf(sf(a), sf(b))))
PLAIN(max_f32, as_u32(fmaxf(sf(a), sf(b))))
PLAIN(fmac_f32, as_u32(fmaf(sf(a), sf(b), as_f32((uint32_t)r->x))))
PLAIN(fmamk_f32, as_u32(fmaf(sf(a), sf(b), as_f32((uint32_t)r->x))))

/* ---- comparisons ---- */

#define COMPARE(name, expr)                                             \
    SCALAR(name)                                                        \
    {                                                                   \
        (void)r;                                                        \
        flag(scc, (expr), (a.bad | b.bad) & UINT32_MAX);                \
    }
COMPARE(eq32, lo(a) == lo(b))
COMPARE(ne32, lo(a) != lo(b))
COMPARE(gt_i32, si(a) > si(b))
COMPARE(ge_i32, si(a) >= si(b))
COMPARE(lt_i32, si(a) < si(b))
COMPARE(le_i32, si(a) <= si(b))
COMPARE(gt_u32, lo(a) > lo(b))
COMPARE(ge_u32, lo(a) >= lo(b))
COMPARE(lt_u32, lo(a) < lo(b))
COMPARE(le_u32, lo(a) <= lo(b))
SCALAR(bitcmp0) { (void)r, flag(scc, !(a.x >> (b.x & 31) & 1), b.bad | (a.bad >> (b.x & 31) & 1)); }
SCALAR(bitcmp1) { (void)r, flag(scc, a.x >> (b.x & 31) & 1, b.bad | (a.bad >> (b.x & 31) & 1)); }
SCALAR(eq64) { (void)r, flag(scc, a.x == b.x, a.bad | b.bad); }
SCALAR(ne64) { (void)r, flag(scc, a.x != b.x, a.bad | b.bad); }
COMPARE(lt_f32, sf(a) < sf(b))
COMPARE(eq_f32, sf(a) == sf(b))
COMPARE(le_f32, sf(a) <= sf(b))
COMPARE(gt_f32, sf(a) > sf(b))
COMPARE(lg_f32, sf(a) < sf(b) || sf(a) > sf(b))
COMPARE(ge_f32, sf(a) >= sf(b))
COMPARE(o_f32, !isnan(sf(a)) && !isnan(sf(b)))
COMPARE(u_f32, isnan(sf(a)) || isnan(sf(b)))
COMPARE(nge_f32, !(sf(a) >= sf(b)))
COMPARE(nlg_f32, !(sf(a) < sf(b) || sf(a) > sf(b)))
COMPARE(ngt_f32, !(sf(a) > sf(b)))
COMPARE(nle_f32, !(sf(a) <= sf(b)))
COMPARE(neq_f32, !(sf(a) == sf(b)))
COMPARE(nlt_f32, !(sf(a) < sf(b)))
/* a constant that an unsigned comparison is made with is not extended with its sign */
#define COMPARE_K(name, op)                                                      \
    SCALAR(name)                                                                 \
    {                                                                            \
        (void)r;                                                                 \
        flag(scc, lo(a) op(uint32_t)(uint16_t) b.x, a.bad & UINT32_MAX);         \
    }
COMPARE_K(eqk_u32, ==) COMPARE_K(nek_u32, !=) COMPARE_K(gtk_u32, >) COMPARE_K(gek_u32, >=) COMPARE_K(ltk_u32, <) COMPARE_K(lek_u32, <=)
SCALAR(movk) { USED; r->x = (uint32_t)b.x, r->bad = 0; }

/* ---- exec ---- */

/* d = exec; exec = what the operation makes of source and exec; scc = exec is not 0 */
#define SAVEEXEC(name, expr)                                                                                         \
    static void name(struct wave *w, const struct inst *in)                                                          \
    {                                                                                                                \
        struct scalar a = scalar_get(w, &in->s[0]);                                                                  \
        uint32_t s = (uint32_t)a.x, e = exec_of(w);                                                                  \
        uint32_t x = (expr);                                                                                         \
        s = ~s;                                                                                                      \
        if (!must_be_written(w, (x ^ (expr)) & a.bad, "exec")) /* bits that come from bits of the source */          \
            return;                                                                                                  \
        scalar_set(w, &in->d, (struct scalar){ e, 0 });                                                              \
        w->s[S_EXEC] = x;                                                                                            \
        w->scc = x != 0, w->scc_bad = false;                                                                         \
    }
SAVEEXEC(and_saveexec, s &e)
SAVEEXEC(or_saveexec, s | e)
SAVEEXEC(xor_saveexec, s ^ e)
SAVEEXEC(and_not0_saveexec, ~s & e)
SAVEEXEC(or_not0_saveexec, ~s | e)
SAVEEXEC(and_not1_saveexec, s & ~e)
SAVEEXEC(or_not1_saveexec, s | ~e)

#define ROW(enc, code, name, form, flags, f) { enc, code, name, form, flags, 0, 0, run_scalar, { .scalar = f } }
#define BOTH(enc, code, name, f) ROW(enc, code, name "_b32", "sss", 0, bits_##f##32), ROW(enc, (code) + 1, name "_b64", "qqq", 0, bits_##f##64)
const struct op scalar_ops[] = {
    ROW(SOP1, 0, "s_mov_b32", "ss", 0, mov_exact), ROW(SOP1, 1, "s_mov_b64", "qq", 0, mov_exact), ROW(SOP1, 2, "s_cmov_b32", "ss", OP_ACC, cmov),
    ROW(SOP1, 4, "s_brev_b32", "ss", 0, brev), ROW(SOP1, 8, "s_ctz_i32_b32", "ss", 0, ctz32), ROW(SOP1, 9, "s_ctz_i32_b64", "sq", 0, ctz64),
    ROW(SOP1, 10, "s_clz_i32_u32", "ss", 0, clz32), ROW(SOP1, 11, "s_clz_i32_u64", "sq", 0, clz64), ROW(SOP1, 14, "s_sext_i32_i8", "ss", 0, sext8),
    ROW(SOP1, 15, "s_sext_i32_i16", "ss", 0, sext16), ROW(SOP1, 16, "s_bitset0_b32", "ss", OP_ACC, bitset0), ROW(SOP1, 18, "s_bitset1_b32", "ss", OP_ACC, bitset1),
    ROW(SOP1, 21, "s_abs_i32", "ss", 0, abs32), ROW(SOP1, 22, "s_bcnt0_i32_b32", "ss", 0, bcnt0_32), ROW(SOP1, 24, "s_bcnt1_i32_b32", "ss", 0, bcnt1_32),
    ROW(SOP1, 25, "s_bcnt1_i32_b64", "sq", 0, bcnt1_64), ROW(SOP1, 30, "s_not_b32", "ss", 0, bits_not32), ROW(SOP1, 31, "s_not_b64", "qq", 0, bits_not64),
    { SOP1, 32, "s_and_saveexec_b32", "ss", 0, 0, 0, and_saveexec, { 0 } }, { SOP1, 34, "s_or_saveexec_b32", "ss", 0, 0, 0, or_saveexec, { 0 } },
    { SOP1, 36, "s_xor_saveexec_b32", "ss", 0, 0, 0, xor_saveexec, { 0 } }, { SOP1, 44, "s_and_not0_saveexec_b32", "ss", 0, 0, 0, and_not0_saveexec, { 0 } },
    { SOP1, 46, "s_or_not0_saveexec_b32", "ss", 0, 0, 0, or_not0_saveexec, { 0 } }, { SOP1, 48, "s_and_not1_saveexec_b32", "ss", 0, 0, 0, and_not1_saveexec, { 0 } },
    { SOP1, 50, "s_or_not1_saveexec_b32", "ss", 0, 0, 0, or_not1_saveexec, { 0 } },
    ROW(SOP1, 96, "s_ceil_f32", "ff", 0, ceil_f32), ROW(SOP1, 97, "s_floor_f32", "ff", 0, floor_f32), ROW(SOP1, 98, "s_trunc_f32", "ff", 0, trunc_f32),
    ROW(SOP1, 99, "s_rndne_f32", "ff", 0, rndne_f32), ROW(SOP1, 100, "s_cvt_f32_i32", "fs", 0, cvt_f32_i32), ROW(SOP1, 101, "s_cvt_f32_u32", "fs", 0, cvt_f32_u32),
    ROW(SOP1, 102, "s_cvt_i32_f32", "sf", 0, cvt_i32_f32), ROW(SOP1, 103, "s_cvt_u32_f32", "sf", 0, cvt_u32_f32), ROW(SOP1, 104, "s_cvt_f16_f32", "sf", 0, cvt_f16_f32),
    ROW(SOP1, 105, "s_cvt_f32_f16", "fh", 0, cvt_f32_f16),

    ROW(SOP2, 0, "s_add_u32", "sss", 0, add_u32), ROW(SOP2, 1, "s_sub_u32", "sss", 0, sub_u32), ROW(SOP2, 2, "s_add_i32", "sss", 0, add_i32),
    ROW(SOP2, 3, "s_sub_i32", "sss", 0, sub_i32), ROW(SOP2, 4, "s_addc_u32", "sss", 0, addc), ROW(SOP2, 5, "s_subb_u32", "sss", 0, subb),
    ROW(SOP2, 8, "s_lshl_b32", "sss", 0, lshl32), ROW(SOP2, 9, "s_lshl_b64", "qqs", 0, lshl64), ROW(SOP2, 10, "s_lshr_b32", "sss", 0, lshr32),
    ROW(SOP2, 11, "s_lshr_b64", "qqs", 0, lshr64), ROW(SOP2, 12, "s_ashr_i32", "sss", 0, ashr32), ROW(SOP2, 13, "s_ashr_i64", "qqs", 0, ashr64),
    ROW(SOP2, 14, "s_lshl1_add_u32", "sss", 0, lshl1_add), ROW(SOP2, 15, "s_lshl2_add_u32", "sss", 0, lshl2_add), ROW(SOP2, 16, "s_lshl3_add_u32", "sss", 0, lshl3_add),
    ROW(SOP2, 17, "s_lshl4_add_u32", "sss", 0, lshl4_add), ROW(SOP2, 18, "s_min_i32", "sss", 0, min_i32), ROW(SOP2, 19, "s_min_u32", "sss", 0, min_u32),
    ROW(SOP2, 20, "s_max_i32", "sss", 0, max_i32), ROW(SOP2, 21, "s_max_u32", "sss", 0, max_u32), BOTH(SOP2, 22, "s_and", and), BOTH(SOP2, 24, "s_or", or),
    BOTH(SOP2, 26, "s_xor", xor), BOTH(SOP2, 28, "s_nand", nand), BOTH(SOP2, 30, "s_nor", nor), BOTH(SOP2, 32, "s_xnor", xnor), BOTH(SOP2, 34, "s_and_not1", and_not1),
    BOTH(SOP2, 36, "s_or_not1", or_not1), ROW(SOP2, 38, "s_bfe_u32", "sss", 0, bfe_u32), ROW(SOP2, 39, "s_bfe_i32", "sss", 0, bfe_i32),
    ROW(SOP2, 40, "s_bfe_u64", "qqs", 0, bfe_u64), ROW(SOP2, 42, "s_bfm_b32", "sss", 0, bfm), ROW(SOP2, 44, "s_mul_i32", "sss", 0, mul_i32),
    ROW(SOP2, 45, "s_mul_hi_u32", "sss", 0, mul_hi_u32), ROW(SOP2, 46, "s_mul_hi_i32", "sss", 0, mul_hi_i32), ROW(SOP2, 48, "s_cselect_b32", "sss", 0, cselect),
    ROW(SOP2, 49, "s_cselect_b64", "qqq", 0, cselect), ROW(SOP2, 50, "s_pack_ll_b32_b16", "sss", 0, pack_ll), ROW(SOP2, 51, "s_pack_lh_b32_b16", "sss", 0, pack_lh),
    ROW(SOP2, 52, "s_pack_hh_b32_b16", "sss", 0, pack_hh), ROW(SOP2, 64, "s_add_f32", "fff", 0, add_f32), ROW(SOP2, 65, "s_sub_f32", "fff", 0, sub_f32),
    ROW(SOP2, 66, "s_min_f32", "fff", 0, min_f32), ROW(SOP2, 67, "s_max_f32", "fff", 0, max_f32), ROW(SOP2, 68, "s_mul_f32", "fff", 0, mul_f32),
    ROW(SOP2, 69, "s_fmaak_f32", "fff", OP_ADDK, fmamk_f32), ROW(SOP2, 70, "s_fmamk_f32", "fff", OP_MADK, fmamk_f32), ROW(SOP2, 71, "s_fmac_f32", "fff", OP_ACC, fmac_f32),

    ROW(SOPC, 0, "s_cmp_eq_i32", "-ss", 0, eq32), ROW(SOPC, 1, "s_cmp_lg_i32", "-ss", 0, ne32), ROW(SOPC, 2, "s_cmp_gt_i32", "-ss", 0, gt_i32),
    ROW(SOPC, 3, "s_cmp_ge_i32", "-ss", 0, ge_i32), ROW(SOPC, 4, "s_cmp_lt_i32", "-ss", 0, lt_i32), ROW(SOPC, 5, "s_cmp_le_i32", "-ss", 0, le_i32),
    ROW(SOPC, 6, "s_cmp_eq_u32", "-ss", 0, eq32), ROW(SOPC, 7, "s_cmp_lg_u32", "-ss", 0, ne32), ROW(SOPC, 8, "s_cmp_gt_u32", "-ss", 0, gt_u32),
    ROW(SOPC, 9, "s_cmp_ge_u32", "-ss", 0, ge_u32), ROW(SOPC, 10, "s_cmp_lt_u32", "-ss", 0, lt_u32), ROW(SOPC, 11, "s_cmp_le_u32", "-ss", 0, le_u32),
    ROW(SOPC, 12, "s_bitcmp0_b32", "-ss", 0, bitcmp0), ROW(SOPC, 13, "s_bitcmp1_b32", "-ss", 0, bitcmp1), ROW(SOPC, 16, "s_cmp_eq_u64", "-qq", 0, eq64),
    ROW(SOPC, 17, "s_cmp_lg_u64", "-qq", 0, ne64), ROW(SOPC, 65, "s_cmp_lt_f32", "-ff", 0, lt_f32), ROW(SOPC, 66, "s_cmp_eq_f32", "-ff", 0, eq_f32),
    ROW(SOPC, 67, "s_cmp_le_f32", "-ff", 0, le_f32), ROW(SOPC, 68, "s_cmp_gt_f32", "-ff", 0, gt_f32), ROW(SOPC, 69, "s_cmp_lg_f32", "-ff", 0, lg_f32),
    ROW(SOPC, 70, "s_cmp_ge_f32", "-ff", 0, ge_f32), ROW(SOPC, 71, "s_cmp_o_f32", "-ff", 0, o_f32), ROW(SOPC, 72, "s_cmp_u_f32", "-ff", 0, u_f32),
    ROW(SOPC, 73, "s_cmp_nge_f32", "-ff", 0, nge_f32), ROW(SOPC, 74, "s_cmp_nlg_f32", "-ff", 0, nlg_f32), ROW(SOPC, 75, "s_cmp_ngt_f32", "-ff", 0, ngt_f32),
    ROW(SOPC, 76, "s_cmp_nle_f32", "-ff", 0, nle_f32), ROW(SOPC, 77, "s_cmp_neq_f32", "-ff", 0, neq_f32), ROW(SOPC, 78, "s_cmp_nlt_f32", "-ff", 0, nlt_f32),

    ROW(SOPK, 0, "s_movk_i32", "s", 0, movk), ROW(SOPK, 15, "s_addk_i32", "s", 0, add_i32), ROW(SOPK, 16, "s_mulk_i32", "s", 0, mul_i32),
#define K(code, name, f) ROW(SOPK, code, name, "s", OP_NO_E64, f)
    K(3, "s_cmpk_eq_i32", eq32), K(4, "s_cmpk_lg_i32", ne32), K(5, "s_cmpk_gt_i32", gt_i32), K(6, "s_cmpk_ge_i32", ge_i32), K(7, "s_cmpk_lt_i32", lt_i32),
    K(8, "s_cmpk_le_i32", le_i32), K(9, "s_cmpk_eq_u32", eqk_u32), K(10, "s_cmpk_lg_u32", nek_u32), K(11, "s_cmpk_gt_u32", gtk_u32), K(12, "s_cmpk_ge_u32", gek_u32),
    K(13, "s_cmpk_lt_u32", ltk_u32), K(14, "s_cmpk_le_u32", lek_u32),
    { 0 },
};
