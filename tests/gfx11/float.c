/* float.c - vector instructions on f32 and f16. Denormal numbers are kept, as the kernels' descriptors ask (run.c refuses others), but the
 * transcendental instructions flush them, and are computed here in double and rounded once: the hardware is within one unit of that. */
#include "tests/gfx11/isa.h"

#include <math.h>

/* fmaf is a call where the instruction set is the oldest; the compiler chooses when the program starts. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define FUSED __attribute__((target_clones("arch=haswell", "default")))
#else
#define FUSED
#endif

#define LANES3(name, expr)                                                                                          \
    static void name(uint32_t *restrict d, const uint32_t *xs, const uint32_t *ys, const uint32_t *zs)              \
    {                                                                                                               \
        (void)ys, (void)zs;                                                                                         \
        for (int i = 0; i < LANES; i++) {                                                                           \
            float x = as_f32(xs[i]), y = as_f32(ys[i]), z = as_f32(zs[i]);                                          \
            (void)x, (void)y, (void)z;                                                                              \
            d[i] = as_u32(expr);                                                                                    \
        }                                                                                                           \
    }
#define HALVES(name, expr)                                                                                          \
    static void name(uint32_t *restrict d, const uint32_t *xs, const uint32_t *ys, const uint32_t *zs)              \
    {                                                                                                               \
        for (int i = 0; i < LANES; i++) {                                                                           \
            float x = half_to_f32(xs[i] & 0xffff), y = half_to_f32(ys[i] & 0xffff), z = half_to_f32(zs[i] & 0xffff); \
            (void)x, (void)y, (void)z;                                                                              \
            d[i] = (expr);                                                                                          \
        }                                                                                                           \
    }

/* of two numbers the larger or smaller, of a number and NaN the number; -0 is less than +0 */
static float larger(float x, float y) { return isnan(x) ? y : isnan(y) || x > y ? x : x == y ? as_f32(as_u32(x) & as_u32(y)) : y; }
static float smaller(float x, float y) { return isnan(x) ? y : isnan(y) || x < y ? x : x == y ? as_f32(as_u32(x) | as_u32(y)) : y; }
static float middle(float x, float y, float z)
{
    if (isnan(x) || isnan(y) || isnan(z))
        return smaller(smaller(x, y), z);
    return larger(smaller(x, y), smaller(larger(x, y), z));
}
static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

LANES3(add, x + y)
LANES3(sub, x - y)
LANES3(subrev, y - x)
LANES3(mul, x *y)
LANES3(min2, smaller(x, y))
LANES3(max2, larger(x, y))
FUSED LANES3(fma3, __builtin_fmaf(x, y, z))
LANES3(min3, smaller(smaller(x, y), z))
LANES3(max3, larger(larger(x, y), z))
LANES3(med3, middle(x, y, z))
LANES3(maxmin, smaller(larger(x, y), z))
LANES3(minmax, larger(smaller(x, y), z))
LANES3(fract, x - floorf(x) >= 1 ? 0x1.fffffep-1f : x - floorf(x))
LANES3(trunc1, truncf(x))
LANES3(ceil1, ceilf(x))
LANES3(rndne1, nearbyintf(x))
LANES3(floor1, floorf(x))
LANES3(exp1, flush((float)exp2((double)flush(x))))
LANES3(log1, flush((float)log2((double)flush(x))))
LANES3(rcp1, flush((float)(1 / (double)flush(x))))
LANES3(rsq1, flush((float)(1 / sqrt((double)flush(x)))))
LANES3(sqrt1, flush(sqrtf(flush(x))))
LANES3(ldexp2, (float)ldexp((double)x, MIN(MAX((int32_t)ys[i], -1000), 1000)))
LANES3(frexp_mant, isfinite(x) ? frexpf(x, &(int){ 0 }) : x)
HALVES(add_h, f32_to_half(x + y))
HALVES(sub_h, f32_to_half(x - y))
HALVES(subrev_h, f32_to_half(y - x))
HALVES(mul_h, f32_to_half(x *y))
HALVES(fma_h, f64_to_half((double)x * (double)y + (double)z))
HALVES(min_h, f32_to_half(smaller(x, y)))
HALVES(max_h, f32_to_half(larger(x, y)))
HALVES(med3_h, f32_to_half(middle(x, y, z)))

/* ---- division: div_scale, div_fmas, div_fixup around an approximation ---- */

static int exponent(float x) { return (int)(as_u32(x) >> 23 & 255); }
static bool denormal(double x) { return x != 0 && fabs(x) < 0x1p-126; }

/* The manual's cases for 1 / den compare a double with the smallest double, so they never hold for f32 and are not here.
 * One of the two operands, scaled where the steps of the division would leave the range; *late: the quotient has to be scaled back. */
static float scale_operand(float x, float den, float num, bool *late)
{
    double d = (double)den, n = (double)num;
    *late = false;
    if (num == 0 || den == 0)
        return NAN;
    if (exponent(num) - exponent(den) >= 96) {
        *late = true;
        return x == den ? ldexpf(x, 64) : x;
    }
    if (denormal(d))
        return ldexpf(x, 64);
    if (denormal(n / d)) {
        *late = true;
        return x == num ? ldexpf(x, 64) : x;
    }
    return exponent(num) <= 23 ? ldexpf(x, 64) : x;
}

static void div_scale(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES], late_mask = 0, bad_mask = 0, exec = exec_of(w);
    for (int k = 0; k < 3; k++)
        source_get(w, in, k, &s[k]);
    taint_lanes(bad, TAINT_ALL, &s[0], &s[1], &s[2]);
    for (int i = 0; i < LANES; i++) {
        bool late;
        r[i] = as_u32(scale_operand(as_f32(s[0].x[i]), as_f32(s[1].x[i]), as_f32(s[2].x[i]), &late));
        late_mask |= (uint32_t)late << i;
        bad_mask |= (uint32_t)(bad[i] != 0) << i;
    }
    scalar_set(w, &in->mask_d, (struct scalar){ late_mask & exec, bad_mask & exec });
    vgpr_set(w, in->d.code, r, bad_mask & exec ? bad : NULL);
}

static void div_fmas(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES];
    const struct operand vcc = { .kind = SGPR, .type = 'm', .n = 1, .code = S_VCC };
    struct scalar late = mask_get(w, &vcc);
    for (int k = 0; k < 3; k++)
        source_get(w, in, k, &s[k]);
    taint_lanes(bad, TAINT_ALL, &s[0], &s[1], &s[2]);
    for (int i = 0; i < LANES; i++) {
        float z = as_f32(s[2].x[i]), x = fmaf(as_f32(s[0].x[i]), as_f32(s[1].x[i]), z);
        r[i] = as_u32(late.x >> i & 1 ? x * (exponent(z) > 127 ? 0x1p64f : 0x1p-64f) : x);
        bad[i] |= late.bad >> i & 1 ? ALL_LANES : 0;
    }
    vgpr_set(w, in->d.code, r, s[0].bad || s[1].bad || s[2].bad || late.bad ? bad : NULL);
}

/* What becomes of the quotient q of num / den in the cases that the arithmetic before did not see */
static float fix(float q, float den, float num)
{
    float sign = (signbit(den) != 0) != (signbit(num) != 0) ? -1.0f : 1.0f;
    if (isnan(num) || isnan(den))
        return as_f32(as_u32(isnan(num) ? num : den) | 0x400000);
    if ((num == 0 && den == 0) || (isinf(num) && isinf(den)))
        return as_f32(0xffc00000);
    if (den == 0 || isinf(num))
        return copysignf(INFINITY, sign);
    if (isinf(den) || num == 0 || exponent(num) - exponent(den) < -150)
        return copysignf(0, sign);
    return copysignf(q, sign);
}
LANES3(div_fixup, fix(x, y, z))

#define ROW(enc, code, name, form, flags, f) { enc, code, name, form, flags, TAINT_ALL, 0, run_lanes, { .lanes = f } }
#define HALF(enc, code, name, form, flags, f) { enc, code, name, form, flags, TAINT_LOW16, 0, run_lanes, { .lanes = f } }
const struct op float_ops[] = {
    ROW(VOP2, 3, "v_add_f32", "fff", 0, add), ROW(VOP2, 4, "v_sub_f32", "fff", 0, sub), ROW(VOP2, 5, "v_subrev_f32", "fff", 0, subrev), ROW(VOP2, 8, "v_mul_f32", "fff", 0, mul),
    ROW(VOP2, 15, "v_min_f32", "fff", 0, min2), ROW(VOP2, 16, "v_max_f32", "fff", 0, max2), ROW(VOP2, 43, "v_fmac_f32", "fff", OP_ACC, fma3),
    ROW(VOP2, 44, "v_fmamk_f32", "fff", OP_MADK | OP_NO_E64, fma3), ROW(VOP2, 45, "v_fmaak_f32", "fff", OP_ADDK | OP_NO_E64, fma3), ROW(VOP3, 531, "v_fma_f32", "ffff", 0, fma3),
    ROW(VOP3, 537, "v_min3_f32", "ffff", 0, min3), ROW(VOP3, 540, "v_max3_f32", "ffff", 0, max3), ROW(VOP3, 543, "v_med3_f32", "ffff", 0, med3),
    ROW(VOP3, 606, "v_maxmin_f32", "ffff", 0, maxmin), ROW(VOP3, 607, "v_minmax_f32", "ffff", 0, minmax), ROW(VOP1, 32, "v_fract_f32", "ff", 0, fract),
    ROW(VOP1, 33, "v_trunc_f32", "ff", 0, trunc1), ROW(VOP1, 34, "v_ceil_f32", "ff", 0, ceil1), ROW(VOP1, 35, "v_rndne_f32", "ff", 0, rndne1),
    ROW(VOP1, 36, "v_floor_f32", "ff", 0, floor1), ROW(VOP1, 37, "v_exp_f32", "ff", 0, exp1), ROW(VOP1, 39, "v_log_f32", "ff", 0, log1), ROW(VOP1, 42, "v_rcp_f32", "ff", 0, rcp1),
    ROW(VOP1, 43, "v_rcp_iflag_f32", "ff", 0, rcp1), ROW(VOP1, 46, "v_rsq_f32", "ff", 0, rsq1), ROW(VOP1, 51, "v_sqrt_f32", "ff", 0, sqrt1),
    ROW(VOP1, 64, "v_frexp_mant_f32", "ff", 0, frexp_mant), ROW(VOP3, 796, "v_ldexp_f32", "ffi", 0, ldexp2), ROW(VOP3, 551, "v_div_fixup_f32", "ffff", 0, div_fixup),
    { VOP3, 764, "v_div_scale_f32", "ffff", OP_MASK_DST, 0, 0, div_scale, { 0 } }, { VOP3, 567, "v_div_fmas_f32", "ffff", 0, 0, 0, div_fmas, { 0 } },
    HALF(VOP2, 50, "v_add_f16", "hhh", 0, add_h), HALF(VOP2, 51, "v_sub_f16", "hhh", 0, sub_h), HALF(VOP2, 52, "v_subrev_f16", "hhh", 0, subrev_h),
    HALF(VOP2, 53, "v_mul_f16", "hhh", 0, mul_h), HALF(VOP2, 54, "v_fmac_f16", "hhh", OP_ACC, fma_h), HALF(VOP2, 57, "v_max_f16", "hhh", 0, max_h),
    HALF(VOP2, 58, "v_min_f16", "hhh", 0, min_h), HALF(VOP3, 584, "v_fma_f16", "hhhh", 0, fma_h), HALF(VOP3, 591, "v_med3_f16", "hhhh", 0, med3_h),
    { 0 },
};
