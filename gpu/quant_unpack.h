/* quant_unpack.h - weight blocks as the small integers they are: q, and a scale (and minimum) for every 16 weights.
 *
 *     w[i] = scale[i / 16] * q[i] - min[i / 16]
 *
 * This is what the vectorised twins work with. The formulas are those of
 * quant_decode.h, which stays the reference; unit_quant compares the two on random blocks. Bytes are handled 16 at a time in the vector type that gcc
 * and clang have on every machine: written as loops, gcc 12 takes Q4_K apart byte by byte (0.4 against 13 Gweights/s with AVX2).
 *
 * Drawings: one line per block, "name:bytes"; blocks have no alignment. Any bytes unpack to something. */
#ifndef HAYATE_GPU_QUANT_UNPACK_H
#define HAYATE_GPU_QUANT_UNPACK_H

#include "gpu/quant_decode.h"

/* Where one block goes: q [block], scale and min [block / 16]. */
struct unpacked {
    int8_t *restrict q;
    float *restrict scale, *restrict min;
};
static inline void put_scale(struct unpacked o, int at, int n, float scale, float min)
{
    for (int i = 0; i < n / 16; i++) {
        o.scale[at / 16 + i] = scale;
        o.min[at / 16 + i] = min;
    }
}

/* The fields of a drawing must add up to the block. */
enum {
#define SIZE_OF(ID, fn, len, bytes) QUANT_##ID##_BYTES = (bytes),
    QUANT_DECODERS(SIZE_OF)
#undef SIZE_OF
};
#define BLOCK_IS(name, sum) _Static_assert(QUANT_##name##_BYTES == (sum), #name ": fields do not fill the block")

static inline uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Bit j of x to byte j of a word, as 0 or 1: a copy of x per byte, its own bit in each, moved to the bottom by a carry
 * that stays inside the byte. */
static inline uint64_t spread_bits(uint32_t x)
{
    const uint64_t ones = 0x0101010101010101u;
    return ((x * ones & 0x8040201008040201u) + 0x7f * ones) >> 7 & ones;
}

/* 16 bytes; operators work on each. */
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));
static inline bytes16 get16(const void *p)
{
    bytes16 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void put16(int8_t *p, bytes16 v) { memcpy(p, &v, sizeof v); }
static inline bytes16 all16(int x) { return (bytes16){ 0 } + (uint8_t)x; }
static inline bytes16 where16(bytes16 bits, int x) { return (bytes16)(bits != 0) & all16(x); } /* x where not 0 */
static inline bytes16 lookup16(const int8_t table[16], bytes16 index) /* index below 16 */
{
#ifdef __SSSE3__
    return (bytes16)_mm_shuffle_epi8((__m128i)get16(table), (__m128i)index);
#else
    for (int j = 0; j < 16; j++)
        index[j] = (uint8_t)table[index[j]];
    return index;
#endif
}

/* n bytes (16, 32, 64) to 2n numbers: low halves, then high halves. */
static inline void nibbles(const uint8_t *restrict qs, int n, int8_t *restrict q)
{
    for (int j = 0; j < n; j += 16) {
        bytes16 x = get16(qs + j);
        put16(q + j, x & 15);
        put16(q + n + j, x >> 4);
    }
}

/* The same for 16 bytes, through a table of 16 values. */
static inline void nibbles_by_table(const uint8_t *restrict qs, const int8_t table[16], int8_t *restrict q)
{
    bytes16 x = get16(qs);
    put16(q, lookup16(table, x & 15));
    put16(q + 16, lookup16(table, x >> 4));
}

/* --- blocks of 32, 64 and 128 ------------------------------------------------------------------------------- */
/* 4-bit order of all 32-blocks: byte j holds weight j in its low half and weight j+16 in its high half. */

/* d:2 f16 | qs:16          w = d * (q - 8) */
BLOCK_IS(Q4_0, 2 + 16);
static inline void unpack_q4_0(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    bytes16 x = get16(b + 2);
    put16(q, (x & 15) - 8);
    put16(q + 16, (x >> 4) - 8);
    put_scale(o, 0, 32, q_f16(b), 0);
}

/* d:2 f16 | m:2 f16 | qs:16          w = d * q + m */
BLOCK_IS(Q4_1, 2 + 2 + 16);
static inline void unpack_q4_1(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    nibbles(b + 4, 16, q);
    put_scale(o, 0, 32, q_f16(b), -q_f16(b + 2));
}

/* Adds bit i of qh to number i as bit 4. */
static inline void fifth_bits(uint32_t qh, int8_t q[32])
{
    for (int i = 0; i < 32; i += 16, qh >>= 16)
        put16(q + i, get16(q + i) | (bytes16)(words2){ spread_bits(qh & 255), spread_bits(qh >> 8 & 255) } << 4);
}

/* d:2 f16 | qh:4 | qs:16          bit i of qh is bit 4 of weight i; w = d * (q - 16) */
BLOCK_IS(Q5_0, 2 + 4 + 16);
static inline void unpack_q5_0(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    nibbles(b + 6, 16, q);
    fifth_bits(q_u32(b + 2), q);
    for (int i = 0; i < 32; i += 16)
        put16(q + i, get16(q + i) - 16);
    put_scale(o, 0, 32, q_f16(b), 0);
}

/* d:2 f16 | m:2 f16 | qh:4 | qs:16          as Q5_0; w = d * q + m */
BLOCK_IS(Q5_1, 2 + 2 + 4 + 16);
static inline void unpack_q5_1(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    nibbles(b + 8, 16, q);
    fifth_bits(q_u32(b + 4), q);
    put_scale(o, 0, 32, q_f16(b), -q_f16(b + 2));
}

/* d:2 f16 | qs:32 signed          w = d * q */
BLOCK_IS(Q8_0, 2 + 32);
static inline void unpack_q8_0(const uint8_t *restrict b, struct unpacked o)
{
    memcpy(o.q, b + 2, 32);
    put_scale(o, 0, 32, q_f16(b), 0);
}

/* d:2 f16 | qs:16          w = d * kvalues_iq4nl[q] */
BLOCK_IS(IQ4_NL, 2 + 16);
static inline void unpack_iq4_nl(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    nibbles_by_table(b + 2, kvalues_iq4nl, q);
    put_scale(o, 0, 32, q_f16(b), 0);
}

/* e:1 E8M0 | qs:16          w = 2^(e-127) * fp4[q], the table holds fp4 doubled */
BLOCK_IS(MXFP4, 1 + 16);
static inline void unpack_mxfp4(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    nibbles_by_table(b + 1, kvalues_e2m1x2, q);
    put_scale(o, 0, 32, e8m0_half(b[0]), 0);
}

/* d:4 UE4M3, one per 16 weights | qs:32, 8 bytes per 16 weights: low halves are weights 0..7, high halves 8..15
 * w = d * fp4[q]. A factor per tensor, if the model has one, is not part of the block. */
BLOCK_IS(NVFP4, 4 + 32);
static inline void unpack_nvfp4(const uint8_t *restrict b, struct unpacked o)
{
    for (int s = 0; s < 4; s++) {
        int8_t *q = o.q + 16 * s;
        uint64_t x = get_u64(b + 4 + 8 * s);
        bytes16 index = (bytes16)(words2){ x, x >> 4 } & 15;
        put16(q, lookup16(kvalues_e2m1x2, index));
        put_scale(o, 16 * s, 16, ue4m3_half(b[s]), 0);
    }
}

/* --- K types: 256 weights ----------------------------------------------------------------------------------- */
/* Two-bit order of Q2_K, Q3_K, TQ2_0 (and of the high bits of Q6_K): 32 bytes carry 128 numbers; byte l holds numbers
 * l, l+32, l+64, l+96, lowest bits first. */
static inline void pairs(const uint8_t *restrict qs, int8_t *restrict q)
{
    for (int l = 0; l < 32; l += 16) {
        bytes16 x = get16(qs + l);
        put16(q + l, x & 3);
        put16(q + l + 32, x >> 2 & 3);
        put16(q + l + 64, x >> 4 & 3);
        put16(q + l + 96, x >> 6);
    }
}

/* scales:16 | qs:64 | d:2 f16 | dmin:2 f16          one scale byte per 16 weights: low half scale, high half minimum
 * w = d * scale * q - dmin * min */
BLOCK_IS(Q2_K, 16 + 64 + 2 + 2);
static inline void unpack_q2_k(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    pairs(b + 16, q);
    pairs(b + 16 + 32, q + 128);
    float d = q_f16(b + 80), dmin = q_f16(b + 82);
    for (int s = 0; s < 16; s++)
        put_scale(o, 16 * s, 16, d * (float)(b[s] & 15), dmin * (float)(b[s] >> 4));
}

/* hmask:32 | qs:64 | scales:12 | d:2 f16          bit i/32 of hmask[i%32] is the high bit of weight i, inverted
 * Scale s of 16, 6 bits biased by 32: bytes 0..7 of scales hold the low halves (0..7 low nibbles, 8..15 high),
 * bytes 8..11 the high pairs: of s in byte 8 + s%4, bits 2*(s/4).
 * w = d * scale * (q - 4), q of 3 bits */
BLOCK_IS(Q3_K, 32 + 64 + 12 + 2);
static inline void unpack_q3_k(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    pairs(b + 32, q);
    pairs(b + 32 + 32, q + 128);
    for (int k = 0; k < 8; k++)
        for (int l = 0; l < 32; l += 16)
            put16(q + 32 * k + l, get16(q + 32 * k + l) + where16(get16(b + l) & all16(1 << k), 4) - 4);
    const uint8_t *scales = b + 96;
    float d = q_f16(b + 108);
    for (int s = 0; s < 16; s++) {
        int low = scales[s % 8] >> 4 * (s / 8) & 15, high = scales[8 + s % 4] >> 2 * (s / 4) & 3;
        put_scale(o, 16 * s, 16, d * (float)((low | high << 4) - 32), 0);
    }
}

/* Scales and minima of Q4_K and Q5_K, eight pairs of 6 bits in 12 bytes S:
 *   S[0..3]   low 6: scale 0..3   top 2: high bits of scale 4..7
 *   S[4..7]   low 6: min 0..3     top 2: high bits of min 4..7
 *   S[8..11]  low 4: scale 4..7   high 4: min 4..7 */
static inline int k_scale(const uint8_t *S, int j) { return j < 4 ? S[j] & 63 : (S[j + 4] & 15) | S[j - 4] >> 6 << 4; }
static inline int k_min(const uint8_t *S, int j) { return j < 4 ? S[j + 4] & 63 : S[j + 4] >> 4 | S[j] >> 6 << 4; }

/* d:2 f16 | dmin:2 f16 | scales:12 | qs:128          32 bytes carry 64 weights: low halves 0..31, high halves 32..63
 * w = d * scale * q - dmin * min, a pair per 32 weights */
BLOCK_IS(Q4_K, 2 + 2 + 12 + 128);
static inline void unpack_q4_k(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    for (int k = 0; k < 4; k++)
        nibbles(b + 16 + 32 * k, 32, q + 64 * k);
    float d = q_f16(b), dmin = q_f16(b + 2);
    for (int g = 0; g < 8; g++)
        put_scale(o, 32 * g, 32, d * (float)k_scale(b + 4, g), dmin * (float)k_min(b + 4, g));
}

/* d:2 f16 | dmin:2 f16 | scales:12 | qh:32 | qs:128          as Q4_K; bit i/32 of qh[i%32] is bit 4 of weight i */
BLOCK_IS(Q5_K, 2 + 2 + 12 + 32 + 128);
static inline void unpack_q5_k(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    for (int k = 0; k < 4; k++)
        nibbles(b + 48 + 32 * k, 32, q + 64 * k);
    const uint8_t *qh = b + 16;
    for (int g = 0; g < 8; g++)
        for (int l = 0; l < 32; l += 16)
            put16(q + 32 * g + l, get16(q + 32 * g + l) | where16(get16(qh + l) & all16(1 << g), 16));
    float d = q_f16(b), dmin = q_f16(b + 2);
    for (int g = 0; g < 8; g++)
        put_scale(o, 32 * g, 32, d * (float)k_scale(b + 4, g), dmin * (float)k_min(b + 4, g));
}

/* ql:128 | qh:64 | scales:16 signed | d:2 f16          per half of 128 weights, k = which 32 of them:
 * low 4 bits in 64 bytes of ql, 32*(k%2) + i%32, low halves for k < 2; high 2 bits in 32 bytes of qh, shift 2k
 * w = d * scale * (q - 32) */
BLOCK_IS(Q6_K, 128 + 64 + 16 + 2);
static inline void unpack_q6_k(const uint8_t *restrict b, struct unpacked o)
{
    int8_t low[128];
    float d = q_f16(b + 208);
    for (int half = 0; half < 2; half++) {
        int8_t *q = o.q + 128 * half;
        nibbles(b + 64 * half, 64, low);
        pairs(b + 128 + 32 * half, q);
        for (int i = 0; i < 128; i += 16)
            put16(q + i, (get16(low + i) | get16(q + i) << 4) - 32);
        for (int s = 0; s < 8; s++)
            put_scale(o, 128 * half + 16 * s, 16, d * (float)(int8_t)b[192 + 8 * half + s], 0);
    }
}

/* --- ternary: 256 weights ----------------------------------------------------------------------------------- */

/* qs:64 | d:2 f16          w = d * (q - 1) */
BLOCK_IS(TQ2_0, 64 + 2);
static inline void unpack_tq2_0(const uint8_t *restrict b, struct unpacked o)
{
    int8_t *q = o.q;
    pairs(b, q);
    pairs(b + 32, q + 128);
    for (int i = 0; i < 256; i += 16)
        put16(q + i, get16(q + i) - 1);
    put_scale(o, 0, 256, q_f16(b + 64), 0);
}

/* --- I types: 256 weights, magnitudes from a code book ------------------------------------------------------- */
/* o = octet of 8 weights, 0..31; g = o/4 the group of 32, l = o%4 the octet in it. */

/* Eight magnitudes (1..127, a byte each), number j negated (~x + 1) where bit j of signs is set. */
static inline uint64_t negate_octet(uint64_t row, uint32_t signs)
{
    uint64_t neg = spread_bits(signs);
    return (row ^ neg * 0xff) + neg;
}
static inline void put_octets(int8_t *q, uint64_t row0, uint32_t signs0, uint64_t row1, uint32_t signs1)
{
    put16(q, (bytes16)(words2){ negate_octet(row0, signs0), negate_octet(row1, signs1) });
}
static inline uint64_t two_rows(uint32_t a, uint32_t b) { return a | (uint64_t)b << 32; }

/* d:2 f16 | 8 groups of (index:4, word:4)          word: 4 x 7 sign bits, lowest first, then a 4-bit scale
 * w = d * (0.5 + scale) / 4 * grid */
BLOCK_IS(IQ2_XXS, 2 + 8 * (4 + 4));
static inline void unpack_iq2_xxs(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int g = 0; g < 8; g++) {
        int8_t *q = o.q + 32 * g;
        const uint8_t *idx = b + 2 + 8 * g;
        uint32_t word = q_u32(idx + 4);
        for (int l = 0; l < 4; l += 2)
            put_octets(q + 8 * l, iq2xxs_grid[idx[l]], even_signs(word >> 7 * l),
                       iq2xxs_grid[idx[l + 1]], even_signs(word >> 7 * (l + 1)));
        put_scale(o, 32 * g, 32, d * (0.5f + (float)(int)(word >> 28)) * 0.25f, 0);
    }
}

/* d:2 f16 | qs:64, a u16 per octet: 9 bits index, 7 bits signs | scales:8, 4 bits per 16 weights */
BLOCK_IS(IQ2_XS, 2 + 64 + 8);
static inline void unpack_iq2_xs(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int s = 0; s < 16; s++) {
        int8_t *q = o.q + 16 * s;
        uint32_t q0 = q_u16(b + 2 + 4 * s), q1 = q_u16(b + 2 + 4 * s + 2);
        put_octets(q, iq2xs_grid[q0 & 511], even_signs(q0 >> 9), iq2xs_grid[q1 & 511], even_signs(q1 >> 9));
        int scale = b[66 + s / 2] >> 4 * (s % 2) & 15;
        put_scale(o, 16 * s, 16, d * (0.5f + (float)scale) * 0.25f, 0);
    }
}

/* d:2 f16 | qs:32, low 8 bits of the index | signs:32, all 8 stored | qh:8, 2 high index bits per octet
 * | scales:8, 4 bits per 16 weights */
BLOCK_IS(IQ2_S, 2 + 32 + 32 + 8 + 8);
static inline void unpack_iq2_s(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int s = 0; s < 16; s++) {
        int8_t *q = o.q + 16 * s;
        int high = b[66 + s / 2] >> 4 * (s % 2), idx0 = b[2 + 2 * s] | (high & 3) << 8;
        int idx1 = b[2 + 2 * s + 1] | (high >> 2 & 3) << 8;
        put_octets(q, iq2s_grid[idx0], b[34 + 2 * s], iq2s_grid[idx1], b[34 + 2 * s + 1]);
        int scale = b[74 + s / 2] >> 4 * (s % 2) & 15;
        put_scale(o, 16 * s, 16, d * (0.5f + (float)scale) * 0.25f, 0);
    }
}

/* d:2 f16 | qs:64, an index per 4 weights | 8 words of 4 as in IQ2_XXS
 * w = d * (0.5 + scale) / 2 * grid */
BLOCK_IS(IQ3_XXS, 2 + 64 + 8 * 4);
static inline void unpack_iq3_xxs(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int g = 0; g < 8; g++) {
        int8_t *q = o.q + 32 * g;
        const uint8_t *idx = b + 2 + 8 * g;
        uint32_t word = q_u32(b + 66 + 4 * g);
        for (int l = 0; l < 4; l += 2, idx += 4)
            put_octets(q + 8 * l, two_rows(iq3xxs_grid[idx[0]], iq3xxs_grid[idx[1]]), even_signs(word >> 7 * l),
                       two_rows(iq3xxs_grid[idx[2]], iq3xxs_grid[idx[3]]), even_signs(word >> 7 * (l + 1)));
        put_scale(o, 32 * g, 32, d * (0.5f + (float)(int)(word >> 28)) * 0.5f, 0);
    }
}

/* d:2 f16 | qs:64, low 8 bits of an index per 4 weights | qh:8, bit i/4%8 of byte i/32 is bit 8 of the index
 * | signs:32 | scales:4, 4 bits per 32 weights
 * w = d * (1 + 2 * scale) * grid */
BLOCK_IS(IQ3_S, 2 + 64 + 8 + 32 + 4);
static inline void unpack_iq3_s(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int g = 0; g < 8; g++) {
        int8_t *q = o.q + 32 * g;
        uint64_t row[4];
        for (int l = 0; l < 4; l++) {
            const uint8_t *qs = b + 2 + 8 * g + 2 * l;
            int high = b[66 + g] >> 2 * l;
            row[l] = two_rows(iq3s_grid[qs[0] | (high & 1) << 8], iq3s_grid[qs[1] | (high & 2) << 7]);
        }
        const uint8_t *signs = b + 74 + 4 * g;
        put_octets(q, row[0], signs[0], row[1], signs[1]);
        put_octets(q + 16, row[2], signs[2], row[3], signs[3]);
        int scale = b[106 + g / 2] >> 4 * (g % 2) & 15;
        put_scale(o, 32 * g, 32, d * (float)(1 + 2 * scale), 0);
    }
}

/* Two rows of the IQ1 grid in eighths, delta (+1 or -1 eighth, as a byte) added: 8 * grid + delta. Division by 8 is exact, so the
 * weights are the same bits as d * (grid + delta). */
static inline void put_eighths(int8_t *q, int row0, uint8_t delta0, int row1, uint8_t delta1)
{
    bytes16 grid = (bytes16)(words2){ iq1s_grid[row0], iq1s_grid[row1] };
    const uint64_t ones = 0x0101010101010101u;
    put16(q, grid * 8 + (bytes16)(words2){ ones * delta0, ones * delta1 });
}

/* d:2 f16 | qs:32, low 8 bits of the index | qh:16, a u16 per group: 4 x 3 high index bits, 3 bits scale, sign of delta
 * w = d * (2 * scale + 1) * (grid + delta), delta = +-1/8, grid of -1 0 1 */
BLOCK_IS(IQ1_S, 2 + 32 + 16);
static inline void unpack_iq1_s(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    for (int g = 0; g < 8; g++) {
        int8_t *q = o.q + 32 * g;
        int qh = q_u16(b + 34 + 2 * g);
        uint8_t eighth = qh & 0x8000 ? 0xff : 1;
        for (int l = 0; l < 4; l += 2)
            put_eighths(q + 8 * l, b[2 + 4 * g + l] | (qh >> 3 * l & 7) << 8, eighth,
                        b[2 + 4 * g + l + 1] | (qh >> 3 * (l + 1) & 7) << 8, eighth);
        put_scale(o, 32 * g, 32, d * (float)(2 * (qh >> 12 & 7) + 1) * 0.125f, 0);
    }
}

/* qs:32 | qh:16, 4 bits per octet: 3 high index bits, sign of delta | scales:8
 * scales are four u16: 4 x 3 bits, a scale per 16 weights, and in the top 4 bits a quarter of the f16 d, lowest first.
 * Formula as IQ1_S. */
BLOCK_IS(IQ1_M, 32 + 16 + 8);
static inline void unpack_iq1_m(const uint8_t *restrict b, struct unpacked o)
{
    uint32_t c[4], d_bits = 0;
    for (int k = 0; k < 4; k++) {
        c[k] = q_u16(b + 48 + 2 * k);
        d_bits |= c[k] >> 12 << 4 * k;
    }
    float d = f16_to_f32((uint16_t)d_bits);
    for (int s = 0; s < 16; s++) {
        int8_t *q = o.q + 16 * s;
        int high0 = b[32 + s] & 15, high1 = b[32 + s] >> 4, scale = (int)(c[s / 4] >> 3 * (s % 4) & 7);
        put_eighths(q, b[2 * s] | (high0 & 7) << 8, high0 & 8 ? 0xff : 1,
                    b[2 * s + 1] | (high1 & 7) << 8, high1 & 8 ? 0xff : 1);
        put_scale(o, 16 * s, 16, d * (float)(2 * scale + 1) * 0.125f, 0);
    }
}

/* d:2 f16 | scales_h:2, 2 high bits per group | scales_l:4, 4 low bits per group | qs:128, 16 bytes per group as IQ4_NL
 * w = d * (scale - 32) * kvalues_iq4nl[q] */
BLOCK_IS(IQ4_XS, 2 + 2 + 4 + 128);
static inline void unpack_iq4_xs(const uint8_t *restrict b, struct unpacked o)
{
    float d = q_f16(b);
    int scales_h = q_u16(b + 2);
    for (int g = 0; g < 8; g++) {
        int8_t *q = o.q + 32 * g;
        nibbles_by_table(b + 8 + 16 * g, kvalues_iq4nl, q);
        int scale = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (scales_h >> 2 * g & 3) << 4;
        put_scale(o, 32 * g, 32, d * (float)(scale - 32), 0);
    }
}

/* The types that unpack: (id, function, weights per block, bytes per block) */
#define QUANT_UNPACKERS(X)                                                                                    \
    X(Q4_0, q4_0, 32, 18) X(Q4_1, q4_1, 32, 20) X(Q5_0, q5_0, 32, 22) X(Q5_1, q5_1, 32, 24)                   \
    X(Q8_0, q8_0, 32, 34) X(IQ4_NL, iq4_nl, 32, 18) X(MXFP4, mxfp4, 32, 17) X(NVFP4, nvfp4, 64, 36)           \
    X(Q2_K, q2_k, 256, 84) X(Q3_K, q3_k, 256, 110) X(Q4_K, q4_k, 256, 144) X(Q5_K, q5_k, 256, 176)            \
    X(Q6_K, q6_k, 256, 210) X(TQ2_0, tq2_0, 256, 66) X(IQ1_S, iq1_s, 256, 50) X(IQ1_M, iq1_m, 256, 56)        \
    X(IQ2_XXS, iq2_xxs, 256, 66) X(IQ2_XS, iq2_xs, 256, 74) X(IQ2_S, iq2_s, 256, 82)                          \
    X(IQ3_XXS, iq3_xxs, 256, 98) X(IQ3_S, iq3_s, 256, 110) X(IQ4_XS, iq4_xs, 256, 136)

#undef BLOCK_IS
#endif
