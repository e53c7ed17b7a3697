/* cpu_act.h - exp, silu and sigmoid of 16 values at once; one form for every twin, so that a value does not depend on who computes it. */
#ifndef HAYATE_GPU_CPU_ACT_H
#define HAYATE_GPU_CPU_ACT_H

#include "gpu/cpu_vec.h"
#include "gpu/gpu_args.h"

typedef int32_t vi __attribute__((vector_size(64)));

/* NaN stays */
static inline vf v_clamp(vf x, float most)
{
    vi over = (vi)(x > most), under = (vi)(x < -most);
    return (vf)((over & (vi)v_set(most)) | (under & (vi)v_set(-most)) | (~(over | under) & (vi)x));
}

/* e^x within 2 units in the last place for |x| <= 87; beyond, e^87 and e^-87. x = n ln 2 + r: n by adding 1.5 * 2^23, which leaves the integer in the low
 * bits; ln 2 in two parts, so that r is exact; e^r by its series. */
static inline vf v_exp(vf x)
{
    const float shift = 0x1.8p23f;
    x = v_clamp(x, 87.0f);
    vf t = x * v_set(0x1.715476p0f) + v_set(shift), n = t - v_set(shift);
    vf r = x - n * v_set(0x1.62e4p-1f) - n * v_set(0x1.7f7d1cp-20f);
    vf p = v_set(1.0f / 5040);
    p = p * r + v_set(1.0f / 720);
    p = p * r + v_set(1.0f / 120);
    p = p * r + v_set(1.0f / 24);
    p = p * r + v_set(1.0f / 6);
    p = p * r + v_set(0.5f);
    p = p * r + v_set(1.0f);
    p = p * r + v_set(1.0f);
    return p * (vf)(((vi)t - (vi)v_set(shift) + 127) << 23);
}

static inline vf v_sigmoid(vf x) { return v_set(1) / (v_set(1) + v_exp(-x)); }
static inline vf v_silu(vf x) { return x / (v_set(1) + v_exp(-x)); }

/* What a product does to its result: ACT_*, except ACT_CONV, which is a device's */
static inline vf v_act(uint32_t act, vf x)
{
    switch (act) {
    case ACT_SILU: return v_silu(x);
    case ACT_SIGMOID: return v_sigmoid(x);
    case ACT_SIGMOID2: return v_set(2) * v_sigmoid(x);
    default: return x;
    }
}

#endif
