/* quant_decode.h - one decoder per weight type, written like the formula; compiled as the reference in quant.c and once per
 * instruction set inside the vectorised twins. Spec page "quants"; index i counts the weights of a block.
 *
 * Blocks have no alignment: multi-byte fields are read through memcpy. Inner loops run over consecutive weights with constant trip counts, so that
 * a compiler turns them into vectors. */
#ifndef HAYATE_GPU_QUANT_DECODE_H
#define HAYATE_GPU_QUANT_DECODE_H

#include "gpu/quant.h"
#include "gpu/quant_grids.h"

#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline uint16_t q_u16(const uint8_t *p)
{
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline uint32_t q_u32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
/* An f16 field. The instruction and f16_to_f32 agree on every bit pattern but signalling NaN. */
static inline float q_f16(const uint8_t *p)
{
#if defined(__F16C__)
    return _cvtsh_ss(q_u16(p));
#else
    return f16_to_f32(q_u16(p));
#endif
}
static inline float q_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Value tables of the non-linear 4-bit types */
static const int8_t kvalues_iq4nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
static const int8_t kvalues_e2m1x2[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 }; /* doubled FP4 */

/* ---- scalars ---- */

static inline void decode_f32(const uint8_t *restrict src, float *restrict y, size_t n) { memcpy(y, src, n * sizeof *y); }

static inline void decode_f16(const uint8_t *restrict src, float *restrict y, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i))));
#endif
    for (; i < n; i++)
        y[i] = q_f16(src + 2 * i);
}

static inline void decode_bf16(const uint8_t *restrict src, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = q_bits((uint32_t)q_u16(src + 2 * i) << 16);
}

/* ---- blocks of 32 (and 64, 128) ----
 *
 * Nibble order of Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4: byte j holds weight j in its low half and weight j + 16 in its high half. */

/* Q4_0   d f16 | qs[16]          w = d (nib - 8) */
static inline void decode_q4_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 18, y += 32) {
        float d = q_f16(b);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)((b[2 + j] & 15) - 8);
            y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
        }
    }
}

/* Q4_1   d f16 | m f16 | qs[16]          w = d nib + m */
static inline void decode_q4_1(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 20, y += 32) {
        float d = q_f16(b), m = q_f16(b + 2);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)(b[4 + j] & 15) + m;
            y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
        }
    }
}

/* Q5_0   d f16 | qh u32 | qs[16]          w = d ((nib | bit i of qh << 4) - 16) */
static inline void decode_q5_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 22, y += 32) {
        float d = q_f16(b);
        uint32_t qh = q_u32(b + 2);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)((int)((b[6 + j] & 15) | (qh >> j & 1) << 4) - 16);
            y[j + 16] = d * (float)((int)((b[6 + j] >> 4) | (qh >> (j + 16) & 1) << 4) - 16);
        }
    }
}

/* Q5_1   d f16 | m f16 | qh u32 | qs[16]          w = d (nib | bit i of qh << 4) + m */
static inline void decode_q5_1(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 24, y += 32) {
        float d = q_f16(b), m = q_f16(b + 2);
        uint32_t qh = q_u32(b + 4);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)(int)((b[8 + j] & 15) | (qh >> j & 1) << 4) + m;
            y[j + 16] = d * (float)(int)((b[8 + j] >> 4) | (qh >> (j + 16) & 1) << 4) + m;
        }
    }
}

/* Q8_0   d f16 | qs i8[32]          w = d qs */
static inline void decode_q8_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 34, y += 32) {
        float d = q_f16(b);
        for (int i = 0; i < 32; i++)
            y[i] = d * (float)(int8_t)b[2 + i];
    }
}

/* IQ4_NL   d f16 | qs[16]          w = d iq4nl[nib] */
static inline void decode_iq4_nl(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 18, y += 32) {
        float d = q_f16(b);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)kvalues_iq4nl[b[2 + j] & 15];
            y[j + 16] = d * (float)kvalues_iq4nl[b[2 + j] >> 4];
        }
    }
}

/* 2^(e - 128) as f32; e = 0 and 1 are subnormal */
static inline float e8m0_half(uint32_t e) { return q_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

/* MXFP4   e u8 | qs[16]          w = 2^(e - 128) e2m1x2[nib] */
static inline void decode_mxfp4(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 32, b += 17, y += 32) {
        float d = e8m0_half(b[0]);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)kvalues_e2m1x2[b[1 + j] & 15];
            y[j + 16] = d * (float)kvalues_e2m1x2[b[1 + j] >> 4];
        }
    }
}

/* Half of a UE4M3 byte: exponent (x >> 3) & 15, mantissa x & 7; bit 7 is ignored, 0 and 0x7f are 0 */
static inline float ue4m3_half(uint32_t x)
{
    x &= 0x7f;
    uint32_t e = x >> 3, m = x & 7;
    if (x == 0x7f)
        return 0;
    return e ? (float)(8 + m) * q_bits((e + 116) << 23) : (float)m * q_bits(117u << 23); /* 2^(e-7-1-3), 2^(-9-1) */
}

/* NVFP4 (64)   d ue4m3[4] | qs[32]          sub-block s of 16: byte j of its 8 holds weights j and j + 8 */
static inline void decode_nvfp4(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 64, b += 36, y += 64)
        for (int s = 0; s < 4; s++) {
            float d = ue4m3_half(b[s]);
            const uint8_t *q = b + 4 + 8 * s;
            for (int j = 0; j < 8; j++) {
                y[16 * s + j] = d * (float)kvalues_e2m1x2[q[j] & 15];
                y[16 * s + j + 8] = d * (float)kvalues_e2m1x2[q[j] >> 4];
            }
        }
}

/* Q1_0 (128)   d f16 | qs[16]          w = +d or -d by bit */
static inline void decode_q1_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 128, b += 18, y += 128) {
        float d = q_f16(b);
        for (int i = 0; i < 128; i++)
            y[i] = b[2 + i / 8] >> i % 8 & 1 ? d : -d;
    }
}

/* Q2_0 (64)   d f16 | qs[16]          w = d (q - 1), four 2-bit values a byte */
static inline void decode_q2_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 64, b += 18, y += 64) {
        float d = q_f16(b);
        for (int i = 0; i < 64; i++)
            y[i] = d * (float)((b[2 + i / 4] >> 2 * (i % 4) & 3) - 1);
    }
}

/* ---- K types: blocks of 256 ---- */

/* Q2_K   scales[16] | qs[64] | d f16 | dmin f16          half h (128 weights), plane k: bits 2k of bytes 32h .. 32h+31
 *        w = d (S & 15) q - dmin (S >> 4), S of the sub-block of 16 */
static inline void decode_q2_k(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 84, y += 256) {
        float d = q_f16(b + 80), dmin = q_f16(b + 82);
        for (int s = 0; s < 16; s++) {
            float dl = d * (float)(b[s] & 15), ml = dmin * (float)(b[s] >> 4);
            const uint8_t *q = b + 16 + 32 * (s / 8) + 16 * (s % 2);
            int shift = 2 * (s / 2 % 4);
            for (int l = 0; l < 16; l++)
                y[16 * s + l] = dl * (float)(q[l] >> shift & 3) - ml;
        }
    }
}

/* Q3_K   hmask[32] | qs[64] | scales[12] | d f16          w = d sc (q - (high bit ? 0 : 4)) */
static inline void decode_q3_k(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 110, y += 256) {
        float d = q_f16(b + 108);
        const uint8_t *S = b + 96;
        for (int s = 0; s < 16; s++) {
            int low = s < 8 ? S[s] & 15 : S[s - 8] >> 4, high = S[8 + s % 4] >> 2 * (s / 4) & 3;
            float dl = d * (float)((low | high << 4) - 32);
            const uint8_t *q = b + 32 + 32 * (s / 8) + 16 * (s % 2), *hm = b + 16 * (s % 2);
            int shift = 2 * (s / 2 % 4), bit = s / 2;
            for (int l = 0; l < 16; l++)
                y[16 * s + l] = dl * (float)((q[l] >> shift & 3) - (hm[l] >> bit & 1 ? 0 : 4));
        }
    }
}

/* The eight 6-bit (scale, min) pairs of Q4_K and Q5_K in 12 bytes S */
static inline void k_scale_min(const uint8_t *S, int j, int *sc, int *mn)
{
    *sc = j < 4 ? S[j] & 63 : (S[j + 4] & 15) | S[j - 4] >> 6 << 4;
    *mn = j < 4 ? S[j + 4] & 63 : S[j + 4] >> 4 | S[j] >> 6 << 4;
}

/* Q4_K   d f16 | dmin f16 | scales[12] | qs[128]          group j of 32: low or high nibbles of bytes 32 (j/2) ..
 *        w = d sc q - dmin mn */
static inline void decode_q4_k(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 144, y += 256) {
        float d = q_f16(b), dmin = q_f16(b + 2);
        for (int j = 0; j < 8; j += 2) {
            int sc0, mn0, sc1, mn1;
            k_scale_min(b + 4, j, &sc0, &mn0);
            k_scale_min(b + 4, j + 1, &sc1, &mn1);
            float d0 = d * (float)sc0, m0 = dmin * (float)mn0, d1 = d * (float)sc1, m1 = dmin * (float)mn1;
            const uint8_t *q = b + 16 + 16 * j;
            for (int l = 0; l < 32; l++)
                y[32 * j + l] = d0 * (float)(q[l] & 15) - m0;
            for (int l = 0; l < 32; l++)
                y[32 * j + 32 + l] = d1 * (float)(q[l] >> 4) - m1;
        }
    }
}

/* Q5_K   d f16 | dmin f16 | scales[12] | qh[32] | qs[128]          as Q4_K, plus 16 where bit j of qh[l] is set */
static inline void decode_q5_k(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 176, y += 256) {
        float d = q_f16(b), dmin = q_f16(b + 2);
        const uint8_t *qh = b + 16;
        for (int j = 0; j < 8; j++) {
            int sc, mn, shift = 4 * (j % 2);
            k_scale_min(b + 4, j, &sc, &mn);
            float dj = d * (float)sc, mj = dmin * (float)mn;
            const uint8_t *q = b + 48 + 32 * (j / 2);
            for (int l = 0; l < 32; l++)
                y[32 * j + l] = dj * (float)((q[l] >> shift & 15) | (qh[l] >> j & 1) << 4) - mj;
        }
    }
}

/* 16 weights of Q6_K: low bits from one half of ql, two high bits from qh; the shifts are constants at every call */
static inline __attribute__((always_inline)) void q6_run(float *restrict y, const uint8_t *restrict ql, const uint8_t *restrict qh, int low, int high, float d)
{
    for (int l = 0; l < 16; l++)
        y[l] = d * (float)(((ql[l] >> low & 15) | (qh[l] >> high & 3) << 4) - 32);
}

/* Q6_K   ql[128] | qh[64] | scales i8[16] | d f16          half h, row k of 32: low bits from ql, two high bits from qh
 *        w = d sc (q - 32) */
static inline void decode_q6_k(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 210, y += 256) {
        float d = q_f16(b + 208);
        for (int h = 0; h < 4; h++) { /* half h / 2, left or right 16 of each row */
            const uint8_t *ql = b + 64 * (h / 2) + 16 * (h % 2), *qh = b + 128 + 32 * (h / 2) + 16 * (h % 2);
            const int8_t *sc = (const int8_t *)b + 192 + 8 * (h / 2) + h % 2;
            float *o = y + 128 * (h / 2) + 16 * (h % 2);
            q6_run(o, ql, qh, 0, 0, d * (float)sc[0]);
            q6_run(o + 32, ql + 32, qh, 0, 2, d * (float)sc[2]);
            q6_run(o + 64, ql, qh, 4, 4, d * (float)sc[4]);
            q6_run(o + 96, ql + 32, qh, 4, 6, d * (float)sc[6]);
        }
    }
}

/* ---- ternary ---- */

/* TQ1_0   qs[48] | qh[4] | d f16          base-3 digits: digit k of byte B is (B 3^k mod 256) 3 >> 8 */
static inline void decode_tq1_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    static const uint8_t pow3[5] = { 1, 3, 9, 27, 81 };
    for (; n; n -= 256, b += 54, y += 256) {
        float d = q_f16(b + 52);
        for (int i = 0; i < 256; i++) {
            int byte = i < 160 ? i % 32 : i < 240 ? 32 + (i - 160) % 16 : 48 + (i - 240) % 4;
            int k = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
            uint8_t q = (uint8_t)(b[byte] * pow3[k]);
            y[i] = d * (float)((q * 3 >> 8) - 1);
        }
    }
}

/* TQ2_0   qs[64] | d f16          planes as Q2_K, w = d (q - 1) */
static inline void decode_tq2_0(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 66, y += 256) {
        float d = q_f16(b + 64);
        for (int g = 0; g < 8; g++)
            for (int l = 0; l < 32; l++)
                y[32 * g + l] = d * (float)((b[32 * (g / 4) + l] >> 2 * (g % 4) & 3) - 1);
    }
}

/* ---- code books: an index picks 8 (or 4) magnitudes, a sign byte negates weight j where bit j is set ---- */

/* A 7-bit sign field has even parity: bit 7 is what makes it so */
static inline uint32_t even_signs(uint32_t x)
{
    x &= 127;
    return x | (uint32_t)__builtin_parity(x) << 7;
}
static inline void octet(float *y, float d, uint64_t grid, uint32_t signs)
{
    for (int j = 0; j < 8; j++) {
        float w = d * (float)(int)(grid >> 8 * j & 255);
        y[j] = signs >> j & 1 ? -w : w;
    }
}
static inline void quartet(float *y, float d, uint32_t grid, uint32_t signs)
{
    for (int j = 0; j < 4; j++) {
        float w = d * (float)(int)(grid >> 8 * j & 255);
        y[j] = signs >> j & 1 ? -w : w;
    }
}

/* IQ2_XXS   d f16 | 8 x (index u8[4], W u32)          d (0.5 + W >> 28) / 4, signs 7 bits of W per octet */
static inline void decode_iq2_xxs(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 66, y += 256) {
        float d = q_f16(b);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b + 2 + 8 * g;
            uint32_t W = q_u32(q + 4);
            float dl = d * (0.5f + (float)(W >> 28)) * 0.25f;
            for (int l = 0; l < 4; l++)
                octet(y + 32 * g + 8 * l, dl, iq2xxs_grid[q[l]], even_signs(W >> 7 * l));
        }
    }
}

/* IQ2_XS   d f16 | qs u16[32] | scales[8]          9-bit index, 7-bit signs; scale nibble per 16 weights */
static inline void decode_iq2_xs(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 74, y += 256) {
        float d = q_f16(b);
        for (int o = 0; o < 32; o++) {
            uint32_t q = q_u16(b + 2 + 2 * o), s = b[66 + o / 4] >> 4 * (o / 2 % 2) & 15;
            octet(y + 8 * o, d * (0.5f + (float)s) * 0.25f, iq2xs_grid[q & 511], even_signs(q >> 9));
        }
    }
}

/* IQ2_S   d f16 | qs[32] | signs[32] | qh[8] | scales[8]          10-bit index, 8 real sign bits */
static inline void decode_iq2_s(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 82, y += 256) {
        float d = q_f16(b);
        for (int o = 0; o < 32; o++) {
            uint32_t idx = b[2 + o] | (uint32_t)(b[66 + o / 4] >> 2 * (o % 4) & 3) << 8, s = b[74 + o / 4] >> 4 * (o / 2 % 2) & 15;
            octet(y + 8 * o, d * (0.5f + (float)s) * 0.25f, iq2s_grid[idx], b[34 + o]);
        }
    }
}

/* IQ3_XXS   d f16 | qs[64] | W u32[8]          one index per 4 weights; scale and signs as IQ2_XXS */
static inline void decode_iq3_xxs(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 98, y += 256) {
        float d = q_f16(b);
        for (int g = 0; g < 8; g++) {
            uint32_t W = q_u32(b + 66 + 4 * g);
            float dl = d * (0.5f + (float)(W >> 28)) * 0.5f;
            for (int l = 0; l < 4; l++) {
                const uint8_t *q = b + 2 + 8 * g + 2 * l;
                uint32_t signs = even_signs(W >> 7 * l);
                quartet(y + 32 * g + 8 * l, dl, iq3xxs_grid[q[0]], signs);
                quartet(y + 32 * g + 8 * l + 4, dl, iq3xxs_grid[q[1]], signs >> 4);
            }
        }
    }
}

/* IQ3_S   d f16 | qs[64] | qh[8] | signs[32] | scales[4]          9-bit index per 4 weights, d (1 + 2 s) */
static inline void decode_iq3_s(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 110, y += 256) {
        float d = q_f16(b);
        for (int g = 0; g < 8; g++) {
            uint32_t s = b[106 + g / 2] >> 4 * (g % 2) & 15, qh = b[66 + g];
            float dl = d * (float)(1 + 2 * (int)s);
            for (int i = 0; i < 8; i++)
                quartet(y + 32 * g + 4 * i, dl, iq3s_grid[b[2 + 8 * g + i] | (qh >> i & 1) << 8], (uint32_t)b[74 + 4 * g + i / 2] >> 4 * (i % 2));
        }
    }
}

/* Eight values d (grid + delta); grid components are signed */
static inline void octet_delta(float *y, float d, uint64_t grid, float delta)
{
    for (int j = 0; j < 8; j++)
        y[j] = d * ((float)(int8_t)(grid >> 8 * j) + delta);
}

/* IQ1_S   d f16 | qs[32] | qh u16[8]          11-bit index; scale and the sign of delta in qh */
static inline void decode_iq1_s(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 50, y += 256) {
        float d = q_f16(b);
        for (int g = 0; g < 8; g++) {
            uint32_t H = q_u16(b + 34 + 2 * g);
            float dl = d * (float)(int)(2 * (H >> 12 & 7) + 1), delta = H & 0x8000 ? -0.125f : 0.125f;
            for (int l = 0; l < 4; l++)
                octet_delta(y + 32 * g + 8 * l, dl, iq1s_grid[b[2 + 4 * g + l] | (H >> 3 * l & 7) << 8], delta);
        }
    }
}

/* IQ1_M   qs[32] | qh[16] | scales u16[4]          the block scale is the top nibbles of the four words */
static inline void decode_iq1_m(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 56, y += 256) {
        uint32_t c[4];
        for (int i = 0; i < 4; i++)
            c[i] = q_u16(b + 48 + 2 * i);
        float d = f16_to_f32((uint16_t)(c[0] >> 12 | c[1] >> 12 << 4 | c[2] >> 12 << 8 | c[3] >> 12 << 12));
        for (int o = 0; o < 32; o++) {
            uint32_t h = b[32 + o / 2] >> 4 * (o % 2) & 15, t = (uint32_t)o / 2, s = c[t / 4] >> 3 * (t % 4) & 7;
            octet_delta(y + 8 * o, d * (float)(int)(2 * s + 1), iq1s_grid[b[o] | (h & 7) << 8], h & 8 ? -0.125f : 0.125f);
        }
    }
}

/* IQ4_XS   d f16 | scales_h u16 | scales_l[4] | qs[128]          6-bit scale per 32, nibbles as IQ4_NL */
static inline void decode_iq4_xs(const uint8_t *restrict b, float *restrict y, size_t n)
{
    for (; n; n -= 256, b += 136, y += 256) {
        float d = q_f16(b);
        uint32_t high = q_u16(b + 2);
        for (int g = 0; g < 8; g++) {
            int s = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(high >> 2 * g & 3) << 4;
            float dl = d * (float)(s - 32);
            const uint8_t *q = b + 8 + 16 * g;
            for (int j = 0; j < 16; j++) {
                y[32 * g + j] = dl * (float)kvalues_iq4nl[q[j] & 15];
                y[32 * g + j + 16] = dl * (float)kvalues_iq4nl[q[j] >> 4];
            }
        }
    }
}

/* Every weight type: (id, decoder, weights per block, bytes per block) */
#define QUANT_DECODERS(X)                                                                                                   \
    X(F32, f32, 1, 4) X(F16, f16, 1, 2) X(BF16, bf16, 1, 2)                                                                 \
    X(Q4_0, q4_0, 32, 18) X(Q4_1, q4_1, 32, 20) X(Q5_0, q5_0, 32, 22) X(Q5_1, q5_1, 32, 24) X(Q8_0, q8_0, 32, 34)           \
    X(Q2_K, q2_k, 256, 84) X(Q3_K, q3_k, 256, 110) X(Q4_K, q4_k, 256, 144) X(Q5_K, q5_k, 256, 176) X(Q6_K, q6_k, 256, 210)  \
    X(IQ2_XXS, iq2_xxs, 256, 66) X(IQ2_XS, iq2_xs, 256, 74) X(IQ2_S, iq2_s, 256, 82) X(IQ3_XXS, iq3_xxs, 256, 98)           \
    X(IQ3_S, iq3_s, 256, 110) X(IQ1_S, iq1_s, 256, 50) X(IQ1_M, iq1_m, 256, 56) X(IQ4_NL, iq4_nl, 32, 18)                   \
    X(IQ4_XS, iq4_xs, 256, 136) X(TQ1_0, tq1_0, 256, 54) X(TQ2_0, tq2_0, 256, 66) X(MXFP4, mxfp4, 32, 17)                   \
    X(NVFP4, nvfp4, 64, 36) X(Q1_0, q1_0, 128, 18) X(Q2_0, q2_0, 64, 18)

#endif
