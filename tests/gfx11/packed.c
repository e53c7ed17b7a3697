/* packed.c - VOP3P: two halves at a time, mixed precision, dot products. Matrix products are in wmma.c. */
#include "tests/gfx11/isa.h"

#include <math.h>

void wmma_float(struct wave *w, const struct inst *in); /* wmma.c */
void wmma_int(struct wave *w, const struct inst *in);

/* ---- fma_mix: every source is an f32, or one half of a register ---- */

static float mixed(const struct inst *in, int k, uint32_t x)
{
    bool is_half = in->opsel_hi >> k & 1, high = in->opsel >> k & 1;
    float f = is_half ? half_to_f32((high ? x >> 16 : x) & 0xffff) : as_f32(x);
    f = in->neg_hi >> k & 1 ? fabsf(f) : f;
    return in->neg >> k & 1 ? -f : f;
}
static bool mixed_bad(const struct inst *in, int k, const struct source *s, int i)
{
    uint32_t bits = !(in->opsel_hi >> k & 1) ? ALL_LANES : in->opsel >> k & 1 ? 0xffff0000 : 0xffff;
    return s->bad && s->bad[i] & bits;
}

/* A constant in a place for halves is an f16 */
static void mixed_source(struct wave *w, const struct inst *in, int k, struct source *s)
{
    struct operand o = in->s[k];
    source_raw(w, &o, 0, s);
    if (o.kind == CONSTANT && o.code >= 240 && o.code <= 248 && in->opsel_hi >> k & 1) {
        uint32_t h = f32_to_half(as_f32(o.value));
        for (int i = 0; i < LANES; i++)
            s->buffer[i] = h;
    }
}

/* arg: 0 a result in f32, 1 in the lower half, 2 in the upper half */
static void fma_mix(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES], half = in->op->arg;
    const uint32_t *old = w->v[in->d.code], *old_bad = w->bad[in->d.code];
    for (int k = 0; k < 3; k++)
        mixed_source(w, in, k, &s[k]);
    for (int i = 0; i < LANES; i++) {
        float x = fmaf(mixed(in, 0, s[0].x[i]), mixed(in, 1, s[1].x[i]), mixed(in, 2, s[2].x[i]));
        bool unwritten = mixed_bad(in, 0, &s[0], i) || mixed_bad(in, 1, &s[1], i) || mixed_bad(in, 2, &s[2], i);
        uint32_t b = unwritten ? ALL_LANES : 0;
        if (in->clamp)
            x = !(x > 0) ? 0.0f : x > 1 ? 1.0f : x;
        uint32_t h = half ? f32_to_half(x) : 0;
        r[i] = half == 0 ? as_u32(x) : half == 1 ? (old[i] & 0xffff0000) | h : (old[i] & 0xffff) | h << 16;
        bad[i] = half == 0 ? b : half == 1 ? (old_bad[i] & 0xffff0000) | (b & 0xffff) : (old_bad[i] & 0xffff) | (b & 0xffff0000);
    }
    vgpr_set(w, in->d.code, r, bad);
}

/* ---- two halves ---- */

/* For the lower (0) and upper (1) half of the result, opsel and opsel_hi say which half of a source is taken; neg and neg_hi, whether negated. */
static uint32_t half_of(const struct inst *in, int k, int result, uint32_t x)
{
    uint32_t high = (result ? in->opsel_hi : in->opsel) >> k & 1, neg = (result ? in->neg_hi : in->neg) >> k & 1;
    return ((high ? x >> 16 : x) & 0xffff) ^ (neg ? 0x8000 : 0);
}

enum { PK_ADD, PK_MUL, PK_FMA, PK_MIN, PK_MAX };
static uint32_t pk(uint32_t what, uint32_t xh, uint32_t yh, uint32_t zh)
{
    float x = half_to_f32(xh), y = half_to_f32(yh);
    switch (what) {
    case PK_ADD: return f32_to_half(x + y);
    case PK_MUL: return f32_to_half(x * y);
    case PK_FMA: return f64_to_half((double)x * (double)y + (double)half_to_f32(zh));
    case PK_MIN: return f32_to_half(fminf(x, y));
    default: return f32_to_half(fmaxf(x, y));
    }
}

static void run_pk(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES];
    for (int k = 0; k < 3; k++)
        if (in->s[k].kind == NO_OPERAND)
            s[k].x = no_bits, s[k].bad = NULL;
        else
            source_raw(w, &in->s[k], 0, &s[k]);
    for (int i = 0; i < LANES; i++) {
        uint32_t h[2], b[2] = { 0, 0 };
        for (int k = 0; k < 2; k++)
            h[k] = pk(in->op->arg, half_of(in, 0, k, s[0].x[i]), half_of(in, 1, k, s[1].x[i]), half_of(in, 2, k, s[2].x[i]));
        for (int k = 0; k < 6; k++) {
            uint32_t sel = (k & 1 ? in->opsel_hi : in->opsel) >> k / 2 & 1;
            if (s[k / 2].bad && s[k / 2].bad[i] & (sel ? 0xffff0000 : 0xffff))
                b[k & 1] = 0xffff;
        }
        r[i] = h[0] | h[1] << 16, bad[i] = b[0] | b[1] << 16;
    }
    vgpr_set(w, in->d.code, r, bad);
}

/* ---- dot products ---- */

static float bf(uint32_t x) { return as_f32(x << 16); }

/* arg: bits of an element; the signs of integers are in neg (neg_lo) for sources 0 and 1 */
static void dot_int(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES], n = in->op->arg, top = 32 - n;
    bool sign_x = in->neg & 1, sign_y = in->neg >> 1 & 1;
    for (int k = 0; k < 3; k++)
        source_raw(w, &in->s[k], 0, &s[k]);
    taint_lanes(bad, TAINT_ALL, &s[0], &s[1], &s[2]);
    for (int i = 0; i < LANES; i++) {
        int64_t sum = 0;
        for (uint32_t e = 0; e < 32; e += n) {
            uint32_t x = s[0].x[i] >> e << top, y = s[1].x[i] >> e << top;
            int64_t xe = sign_x ? (int32_t)x >> top : (int64_t)(x >> top), ye = sign_y ? (int32_t)y >> top : (int64_t)(y >> top);
            sum += xe * ye;
        }
        sum += sign_x || sign_y ? (int64_t)(int32_t)s[2].x[i] : (int64_t)s[2].x[i];
        if (in->clamp)
            sum = sign_x || sign_y ? MIN(MAX(sum, (int64_t)INT32_MIN), (int64_t)INT32_MAX) : MIN(sum, (int64_t)UINT32_MAX);
        r[i] = (uint32_t)sum;
    }
    vgpr_set(w, in->d.code, r, s[0].bad || s[1].bad || s[2].bad ? bad : NULL);
}

/* arg 1: bf16 */
static void dot2_float(struct wave *w, const struct inst *in)
{
    struct source s[3];
    uint32_t r[LANES], bad[LANES];
    for (int k = 0; k < 3; k++)
        source_raw(w, &in->s[k], 0, &s[k]);
    taint_lanes(bad, TAINT_ALL, &s[0], &s[1], &s[2]);
    for (int i = 0; i < LANES; i++) {
        double sum = (double)as_f32(s[2].x[i] ^ (in->neg >> 2 & 1 ? 0x80000000u : 0));
        for (int k = 0; k < 2; k++) {
            uint32_t x = half_of(in, 0, k, s[0].x[i]), y = half_of(in, 1, k, s[1].x[i]);
            sum += in->op->arg ? (double)bf(x) * (double)bf(y) : (double)half_to_f32(x) * (double)half_to_f32(y);
        }
        r[i] = as_u32((float)sum);
    }
    vgpr_set(w, in->d.code, r, s[0].bad || s[1].bad || s[2].bad ? bad : NULL);
}

#define ROW(code, name, form, arg, run) { VOP3P, code, name, form, 0, 0, arg, run, { 0 } }
const struct op packed_ops[] = {
    ROW(14, "v_pk_fma_f16", "ihhh", PK_FMA, run_pk), ROW(15, "v_pk_add_f16", "ihh", PK_ADD, run_pk), ROW(16, "v_pk_mul_f16", "ihh", PK_MUL, run_pk),
    ROW(17, "v_pk_min_f16", "ihh", PK_MIN, run_pk), ROW(18, "v_pk_max_f16", "ihh", PK_MAX, run_pk), ROW(19, "v_dot2_f32_f16", "iiif", 0, dot2_float),
    ROW(26, "v_dot2_f32_bf16", "iiif", 1, dot2_float), ROW(22, "v_dot4_i32_iu8", "iiii", 8, dot_int), ROW(23, "v_dot4_u32_u8", "iiii", 8, dot_int),
    ROW(24, "v_dot8_i32_iu4", "iiii", 4, dot_int), ROW(25, "v_dot8_u32_u4", "iiii", 4, dot_int), ROW(32, "v_fma_mix_f32", "ffff", 0, fma_mix),
    ROW(33, "v_fma_mixlo_f16", "ifff", 1, fma_mix), ROW(34, "v_fma_mixhi_f16", "ifff", 2, fma_mix), ROW(64, "v_wmma_f32_16x16x16_f16", "8888", 0, wmma_float),
    ROW(65, "v_wmma_f32_16x16x16_bf16", "8888", 1, wmma_float), ROW(68, "v_wmma_i32_16x16x16_iu8", "8448", 8, wmma_int), ROW(69, "v_wmma_i32_16x16x16_iu4", "8228", 4, wmma_int),
    { 0 },
};
