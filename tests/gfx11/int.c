/* int.c - vector instructions on integers and bits, and conversions. */
#include "tests/gfx11/isa.h"

#include <math.h>

#define INT(name, expr)                                                                                             \
    static void name(uint32_t *restrict d, const uint32_t *xs, const uint32_t *ys, const uint32_t *zs)              \
    {                                                                                                               \
        for (int i = 0; i < LANES; i++) {                                                                           \
            uint32_t x = xs[i], y = ys[i], z = zs[i];                                                               \
            (void)x, (void)y, (void)z;                                                                              \
            d[i] = (uint32_t)(expr);                                                                                \
        }                                                                                                           \
    }
#define S(x) ((int32_t)(x))
#define LOW(x) ((x) & 0xffff)
static int32_t i24(uint32_t x) { return (int32_t)(x << 8) >> 8; }
static uint32_t median(uint32_t x, uint32_t y, uint32_t z) { return MAX(MIN(x, y), MIN(MAX(x, y), z)); }
static int32_t median_i(int32_t x, int32_t y, int32_t z) { return MAX(MIN(x, y), MIN(MAX(x, y), z)); }
static uint32_t bfe(uint32_t x, uint32_t at, uint32_t n) { return x >> (at & 31) & ((1u << (n & 31)) - 1); }
static int32_t bfe_signed(uint32_t x, uint32_t at, uint32_t n)
{
    uint32_t f = bfe(x, at, n), top = n & 31 ? 1u << ((n & 31) - 1) : 0;
    return (int32_t)((f ^ top) - top);
}
static uint32_t reverse(uint32_t x)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (x >> i & 1) << (31 - i);
    return r;
}
/* Byte `pick` of y | x << 32, or one of the constants behind */
static uint32_t perm_byte(uint32_t x, uint32_t y, uint32_t pick)
{
    uint64_t both = (uint64_t)x << 32 | y;
    if (pick < 8)
        return both >> 8 * pick & 255;
    if (pick < 12) /* the sign of one of four 16-bit words */
        return both >> (16 * (pick - 8) + 15) & 1 ? 255 : 0;
    return pick == 12 ? 0 : 255;
}
static uint32_t perm(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= perm_byte(x, y, z >> 8 * i & 255) << 8 * i;
    return r;
}

INT(mov, x)
INT(not1, ~x)
INT(bfrev, reverse(x))
INT(clz, x ? __builtin_clz(x) : -1)
INT(ctz, x ? __builtin_ctz(x) : -1)
INT(mul_i24, (int64_t)i24(x) * i24(y)) /* 48 bits, of which the low 32 count */
INT(mul_u24, (x & 0xffffff) * (y & 0xffffff))
INT(mul_hi_u24, ((uint64_t)(x & 0xffffff) * (y & 0xffffff)) >> 32)
INT(min_i, MIN(S(x), S(y)))
INT(max_i, MAX(S(x), S(y)))
INT(min_u, MIN(x, y))
INT(max_u, MAX(x, y))
INT(lshl, y << (x & 31))
INT(lshr, y >> (x & 31))
INT(ashr, S(y) >> (x & 31))
INT(and2, x &y)
INT(or2, x | y)
INT(xor2, x ^ y)
INT(xnor2, ~(x ^ y))
INT(add, x + y)
INT(sub, x - y)
INT(subrev, y - x)
INT(mad_i24, (uint32_t)((int64_t)i24(x) * i24(y)) + z)
INT(mad_u24, (x & 0xffffff) * (y & 0xffffff) + z)
INT(bfe_u, bfe(x, y, z))
INT(bfe_i, bfe_signed(x, y, z))
INT(bfi, (x & y) | (~x & z))
INT(alignbit, ((uint64_t)x << 32 | y) >> (z & 31))
INT(alignbyte, ((uint64_t)x << 32 | y) >> 8 * (z & 3))
INT(min3_i, MIN(MIN(S(x), S(y)), S(z)))
INT(min3_u, MIN(MIN(x, y), z))
INT(max3_i, MAX(MAX(S(x), S(y)), S(z)))
INT(max3_u, MAX(MAX(x, y), z))
INT(med3_i, median_i(S(x), S(y), S(z)))
INT(med3_u, median(x, y, z))
INT(xor3, x ^ y ^ z)
INT(perm1, perm(x, y, z))
INT(xad, (x ^ y) + z)
INT(lshl_add, (x << (y & 31)) + z)
INT(add_lshl, (x + y) << (z & 31))
INT(add3, x + y + z)
INT(lshl_or, x << (y & 31) | z)
INT(and_or, (x & y) | z)
INT(or3, x | y | z)
INT(mad_u32_u16, LOW(x) * LOW(y) + z)
INT(mul_lo, x *y)
INT(mul_hi, ((uint64_t)x * y) >> 32)
INT(mul_hi_s, ((int64_t)S(x) * S(y)) >> 32)
INT(bfm, ((1u << (x & 31)) - 1) << (y & 31))
INT(bcnt, (uint32_t)__builtin_popcount(x) + y)
INT(maxmin_u, MIN(MAX(x, y), z))
INT(maxmin_i, MIN(MAX(S(x), S(y)), S(z)))
INT(add16, LOW(x + y))
INT(sub16, LOW(x - y))
INT(mul16, LOW(x *y))
INT(lshl16, LOW(y << (x & 15)))
INT(lshr16, LOW(y) >> (x & 15))
INT(ashr16, LOW((int16_t)y >> (x & 15)))
INT(max_u16, MAX(LOW(x), LOW(y)))
INT(min_u16, MIN(LOW(x), LOW(y)))
INT(max_i16, LOW(MAX((int16_t)x, (int16_t)y)))
INT(min_i16, LOW(MIN((int16_t)x, (int16_t)y)))
INT(pack, LOW(x) | y << 16)
INT(sext16, (int16_t)x)
INT(zext16, LOW(x))

/* ---- conversions ---- */

static uint32_t to_i32(float x) { return isnan(x) ? 0 : x >= 0x1p31f ? INT32_MAX : x <= -0x1p31f ? (uint32_t)INT32_MIN : (uint32_t)(int32_t)x; }
static uint32_t to_u32(float x) { return isnan(x) || x <= 0 ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)x; }
static uint32_t clamp16(int32_t x, int32_t lo, int32_t hi) { return LOW((uint32_t)MIN(MAX(x, lo), hi)); }
/* towards zero */
static uint32_t half_rtz(float x)
{
    uint32_t h = f32_to_half(x);
    return isfinite(x) && fabsf(half_to_f32(h)) > fabsf(x) ? h - 1 : h;
}
INT(f32_i32, as_u32((float)S(x)))
INT(f32_u32, as_u32((float)x))
INT(u32_f32, to_u32(as_f32(x)))
INT(i32_f32, to_i32(as_f32(x)))
INT(f16_f32, f32_to_half(as_f32(x)))
INT(f32_f16, as_u32(half_to_f32(LOW(x))))
INT(nearest_i32, to_i32(floorf(as_f32(x) + 0.5f)))
INT(floor_i32, to_i32(floorf(as_f32(x))))
INT(off_i4, as_u32((float)((S(x << 28)) >> 28) / 16.0f))
INT(ubyte0, as_u32((float)(x & 255)))
INT(ubyte1, as_u32((float)(x >> 8 & 255)))
INT(ubyte2, as_u32((float)(x >> 16 & 255)))
INT(ubyte3, as_u32((float)(x >> 24)))
INT(f16_u16, f32_to_half((float)LOW(x)))
INT(f16_i16, f32_to_half((float)(int16_t)x))
INT(u16_f16, clamp16((int32_t)to_i32(half_to_f32(LOW(x))), 0, 65535))
INT(i16_f16, clamp16((int32_t)to_i32(half_to_f32(LOW(x))), -32768, 32767))
INT(pk_rtz, half_rtz(as_f32(x)) | half_rtz(as_f32(y)) << 16)
INT(pk_i16, clamp16(S(x), -32768, 32767) | clamp16(S(y), -32768, 32767) << 16)
INT(pk_u16, MIN(x, 65535u) | MIN(y, 65535u) << 16)

/* ---- 64 bits ---- */

static void write64(struct wave *w, const struct inst *in, const uint64_t *r, const uint64_t *bad, bool tainted)
{
    uint32_t part[LANES], part_bad[LANES];
    for (uint32_t k = 0; k < 2; k++) {
        for (int i = 0; i < LANES; i++)
            part[i] = (uint32_t)(r[i] >> 32 * k), part_bad[i] = (uint32_t)(bad[i] >> 32 * k);
        vgpr_set(w, in->d.code + k, part, tainted ? part_bad : NULL);
    }
}
static uint64_t two(const struct source s[2], int i) { return (uint64_t)s[1].x[i] << 32 | s[0].x[i]; }
static uint64_t bad_in(const struct source *s, int i) { return s->bad ? s->bad[i] : 0; }
/* the lowest bit and all above */
static uint64_t up(uint64_t bad) { return bad | -(bad & -bad); }

/* arg: 0 left, 1 right, 2 right with sign */
static void shift64(struct wave *w, const struct inst *in)
{
    struct source by, s[2];
    uint64_t r[LANES], bad[LANES];
    source_get(w, in, 0, &by);
    source_raw(w, &in->s[1], 0, &s[0]);
    source_raw(w, &in->s[1], 1, &s[1]);
    for (int i = 0; i < LANES; i++) {
        uint64_t x = two(s, i);
        uint32_t n = by.x[i] & 63;
        r[i] = in->op->arg == 0 ? x << n : in->op->arg == 1 ? x >> n : (uint64_t)((int64_t)x >> n);
        bad[i] = bad_in(&by, i) & 63 || bad_in(&s[0], i) || bad_in(&s[1], i) ? UINT64_MAX : 0;
    }
    write64(w, in, r, bad, by.bad || s[0].bad || s[1].bad);
}

/* x * y + z in 64 bits, and whether it went over */
static void mad64(struct wave *w, const struct inst *in)
{
    struct source x, y, s[2];
    uint64_t r[LANES], bad[LANES];
    uint32_t over = 0, over_bad = 0, exec = exec_of(w);
    source_get(w, in, 0, &x);
    source_get(w, in, 1, &y);
    source_raw(w, &in->s[2], 0, &s[0]);
    source_raw(w, &in->s[2], 1, &s[1]);
    for (int i = 0; i < LANES; i++) {
        uint64_t z = two(s, i), product = in->op->arg ? (uint64_t)((int64_t)S(x.x[i]) * S(y.x[i])) : (uint64_t)x.x[i] * y.x[i];
        r[i] = product + z;
        bad[i] = up(bad_in(&x, i) | bad_in(&y, i) | bad_in(&s[0], i) | bad_in(&s[1], i) << 32); /* often only the lower half of the sum is wanted */
        over |= (uint32_t)(r[i] < z) << i, over_bad |= (uint32_t)(bad[i] != 0) << i;
    }
    scalar_set(w, &in->mask_d, (struct scalar){ over & exec, over_bad & exec });
    write64(w, in, r, bad, over_bad & exec);
}

#define ROW(enc, code, name, form, taint, f) { enc, code, name, form, 0, taint, 0, run_lanes, { .lanes = f } }
const struct op int_ops[] = {
    ROW(VOP1, 1, "v_mov_b32", "ii", TAINT_BITS, mov), ROW(VOP1, 55, "v_not_b32", "ii", TAINT_BITS, not1), ROW(VOP1, 56, "v_bfrev_b32", "ii", TAINT_ALL, bfrev),
    ROW(VOP1, 57, "v_clz_i32_u32", "ii", TAINT_ALL, clz), ROW(VOP1, 58, "v_ctz_i32_b32", "ii", TAINT_ALL, ctz), ROW(VOP2, 9, "v_mul_i32_i24", "iii", TAINT_U24, mul_i24),
    ROW(VOP2, 11, "v_mul_u32_u24", "iii", TAINT_U24, mul_u24), ROW(VOP2, 12, "v_mul_hi_u32_u24", "iii", TAINT_ALL, mul_hi_u24), ROW(VOP2, 17, "v_min_i32", "iii", TAINT_ALL, min_i),
    ROW(VOP2, 18, "v_max_i32", "iii", TAINT_ALL, max_i), ROW(VOP2, 19, "v_min_u32", "iii", TAINT_ALL, min_u), ROW(VOP2, 20, "v_max_u32", "iii", TAINT_ALL, max_u),
    ROW(VOP2, 24, "v_lshlrev_b32", "iii", TAINT_SHL, lshl), ROW(VOP2, 25, "v_lshrrev_b32", "iii", TAINT_SHR, lshr), ROW(VOP2, 26, "v_ashrrev_i32", "iii", TAINT_SAR, ashr),
    ROW(VOP2, 27, "v_and_b32", "iii", TAINT_AND, and2), ROW(VOP2, 28, "v_or_b32", "iii", TAINT_OR, or2), ROW(VOP2, 29, "v_xor_b32", "iii", TAINT_BITS, xor2),
    ROW(VOP2, 30, "v_xnor_b32", "iii", TAINT_BITS, xnor2), ROW(VOP2, 37, "v_add_nc_u32", "iii", TAINT_UP, add), ROW(VOP2, 38, "v_sub_nc_u32", "iii", TAINT_UP, sub),
    ROW(VOP2, 39, "v_subrev_nc_u32", "iii", TAINT_UP, subrev), ROW(VOP3, 522, "v_mad_i32_i24", "iiii", TAINT_U24, mad_i24), ROW(VOP3, 523, "v_mad_u32_u24", "iiii", TAINT_U24, mad_u24),
    ROW(VOP3, 528, "v_bfe_u32", "iiii", TAINT_BFE, bfe_u), ROW(VOP3, 529, "v_bfe_i32", "iiii", TAINT_BFE, bfe_i), ROW(VOP3, 530, "v_bfi_b32", "iiii", TAINT_BFI, bfi),
    ROW(VOP3, 534, "v_alignbit_b32", "iiii", TAINT_ALL, alignbit), ROW(VOP3, 535, "v_alignbyte_b32", "iiii", TAINT_ALL, alignbyte), ROW(VOP3, 538, "v_min3_i32", "iiii", TAINT_ALL, min3_i),
    ROW(VOP3, 539, "v_min3_u32", "iiii", TAINT_ALL, min3_u), ROW(VOP3, 541, "v_max3_i32", "iiii", TAINT_ALL, max3_i), ROW(VOP3, 542, "v_max3_u32", "iiii", TAINT_ALL, max3_u),
    ROW(VOP3, 544, "v_med3_i32", "iiii", TAINT_ALL, med3_i), ROW(VOP3, 545, "v_med3_u32", "iiii", TAINT_ALL, med3_u), ROW(VOP3, 576, "v_xor3_b32", "iiii", TAINT_BITS, xor3),
    ROW(VOP3, 580, "v_perm_b32", "iiii", TAINT_ALL, perm1), ROW(VOP3, 581, "v_xad_u32", "iiii", TAINT_UP, xad), ROW(VOP3, 582, "v_lshl_add_u32", "iiii", TAINT_UP, lshl_add),
    ROW(VOP3, 583, "v_add_lshl_u32", "iiii", TAINT_UP, add_lshl), ROW(VOP3, 597, "v_add3_u32", "iiii", TAINT_UP, add3), ROW(VOP3, 598, "v_lshl_or_b32", "iiii", TAINT_SHL_OR, lshl_or),
    ROW(VOP3, 599, "v_and_or_b32", "iiii", TAINT_AND_OR, and_or), ROW(VOP3, 600, "v_or3_b32", "iiii", TAINT_OR3, or3), ROW(VOP3, 601, "v_mad_u32_u16", "iwwi", TAINT_ALL, mad_u32_u16),
    ROW(VOP3, 610, "v_maxmin_u32", "iiii", TAINT_ALL, maxmin_u), ROW(VOP3, 612, "v_maxmin_i32", "iiii", TAINT_ALL, maxmin_i), ROW(VOP3, 797, "v_bfm_b32", "iii", TAINT_ALL, bfm),
    ROW(VOP3, 798, "v_bcnt_u32_b32", "iii", TAINT_ALL, bcnt), ROW(VOP3, 805, "v_sub_nc_i32", "iii", TAINT_UP, sub), ROW(VOP3, 806, "v_add_nc_i32", "iii", TAINT_UP, add),
    ROW(VOP3, 812, "v_mul_lo_u32", "iii", TAINT_UP, mul_lo), ROW(VOP3, 813, "v_mul_hi_u32", "iii", TAINT_ALL, mul_hi), ROW(VOP3, 814, "v_mul_hi_i32", "iii", TAINT_ALL, mul_hi_s),
    ROW(VOP3, 771, "v_add_nc_u16", "www", TAINT_LOW16, add16), ROW(VOP3, 772, "v_sub_nc_u16", "www", TAINT_LOW16, sub16), ROW(VOP3, 773, "v_mul_lo_u16", "www", TAINT_LOW16, mul16),
    ROW(VOP3, 777, "v_max_u16", "www", TAINT_LOW16, max_u16), ROW(VOP3, 778, "v_max_i16", "www", TAINT_LOW16, max_i16), ROW(VOP3, 779, "v_min_u16", "www", TAINT_LOW16, min_u16),
    ROW(VOP3, 780, "v_min_i16", "www", TAINT_LOW16, min_i16), ROW(VOP3, 824, "v_lshlrev_b16", "www", TAINT_LOW16, lshl16), ROW(VOP3, 825, "v_lshrrev_b16", "www", TAINT_LOW16, lshr16),
    ROW(VOP3, 826, "v_ashrrev_i16", "www", TAINT_LOW16, ashr16), ROW(VOP3, 866, "v_and_b16", "www", TAINT_AND, and2), ROW(VOP3, 867, "v_or_b16", "www", TAINT_OR, or2),
    ROW(VOP3, 868, "v_xor_b16", "www", TAINT_BITS, xor2), ROW(VOP3, 785, "v_pack_b32_f16", "ihh", TAINT_ALL, pack),
    { VOP3, 828, "v_lshlrev_b64", "qiq", 0, 0, 0, shift64, { 0 } }, { VOP3, 829, "v_lshrrev_b64", "qiq", 0, 0, 1, shift64, { 0 } },
    { VOP3, 830, "v_ashrrev_i64", "qiq", 0, 0, 2, shift64, { 0 } }, { VOP3, 766, "v_mad_u64_u32", "qiiq", OP_MASK_DST, 0, 0, mad64, { 0 } },
    { VOP3, 767, "v_mad_i64_i32", "qiiq", OP_MASK_DST, 0, 1, mad64, { 0 } },
    { 0 },
};

const struct op convert_ops[] = {
    ROW(VOP1, 5, "v_cvt_f32_i32", "fi", TAINT_ALL, f32_i32), ROW(VOP1, 6, "v_cvt_f32_u32", "fi", TAINT_ALL, f32_u32), ROW(VOP1, 7, "v_cvt_u32_f32", "if", TAINT_ALL, u32_f32),
    ROW(VOP1, 8, "v_cvt_i32_f32", "if", TAINT_ALL, i32_f32), ROW(VOP1, 10, "v_cvt_f16_f32", "hf", TAINT_ALL, f16_f32), ROW(VOP1, 11, "v_cvt_f32_f16", "fh", TAINT_LOW16, f32_f16),
    ROW(VOP1, 12, "v_cvt_nearest_i32_f32", "if", TAINT_ALL, nearest_i32), ROW(VOP1, 13, "v_cvt_floor_i32_f32", "if", TAINT_ALL, floor_i32), ROW(VOP1, 14, "v_cvt_off_f32_i4", "fi", TAINT_ALL, off_i4),
    ROW(VOP1, 17, "v_cvt_f32_ubyte0", "fi", TAINT_BYTE0, ubyte0), ROW(VOP1, 18, "v_cvt_f32_ubyte1", "fi", TAINT_BYTE1, ubyte1), ROW(VOP1, 19, "v_cvt_f32_ubyte2", "fi", TAINT_BYTE2, ubyte2),
    ROW(VOP1, 20, "v_cvt_f32_ubyte3", "fi", TAINT_BYTE3, ubyte3), ROW(VOP1, 80, "v_cvt_f16_u16", "hw", TAINT_LOW16, f16_u16), ROW(VOP1, 81, "v_cvt_f16_i16", "hw", TAINT_LOW16, f16_i16),
    ROW(VOP1, 82, "v_cvt_u16_f16", "wh", TAINT_LOW16, u16_f16), ROW(VOP1, 83, "v_cvt_i16_f16", "wh", TAINT_LOW16, i16_f16), ROW(VOP1, 106, "v_cvt_i32_i16", "iw", TAINT_LOW16, sext16),
    ROW(VOP1, 107, "v_cvt_u32_u16", "iw", TAINT_LOW16, zext16), ROW(VOP2, 47, "v_cvt_pk_rtz_f16_f32", "iff", TAINT_ALL, pk_rtz), ROW(VOP3, 803, "v_cvt_pk_u16_u32", "iii", TAINT_ALL, pk_u16),
    ROW(VOP3, 804, "v_cvt_pk_i16_i32", "iii", TAINT_ALL, pk_i16),
    { 0 },
};
