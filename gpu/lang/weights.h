/* weights.h - kernels that read weights: a chunk of 16 as integers with a scale and a minimum (layouts: device_types.h).
 *
 * A build understands the common types and one more, TYPE (DEV_NONE: no more), or all of them (ALL_TYPES). Which of them a matrix has is known at run
 * time and the same for all items of a group. */
#include "gpu/device_types.h"

#ifndef TYPE
#define TYPE DEV_NONE
#endif
#ifdef ALL_TYPES
#define HAS(type) 1
#else
#define HAS(type) (TYPE == (type))
#endif

/* byte i of a word as f32, unsigned and signed. On a device whose conversions are slow the byte becomes the low mantissa of 2^23, which a subtraction takes
 * away: worth its longer code where many weights are decoded in a short loop. */
#ifdef SLOW_CONVERT
#define UF(word, i) (SLOW_CONVERT ? as_f32(0x4b000000u | ubyte(word, i)) - 8388608.0f : f32(ubyte(word, i)))
#define SF(word, i) (SLOW_CONVERT ? as_f32(0x4b000000u | ubyte((word) ^ 0x80808080u, i)) - 8388736.0f : f32(sbyte(word, i)))
#else
#define UF(word, i) f32(ubyte(word, i))
#define SF(word, i) f32(sbyte(word, i))
#endif

/* 16 signed bytes */
FN void chunk_bytes(IN_ARRAY(u32, v, 16), OUT_ARRAY(f32, q, 16))
{
    UNROLL for (u32 i = 0u; i < 4u; i++) {
        q[4u * i] = SF(v[i], 0), q[4u * i + 1u] = SF(v[i], 1);
        q[4u * i + 2u] = SF(v[i], 2), q[4u * i + 3u] = SF(v[i], 3);
    }
}

/* Four words of four unsigned bytes each */
FN void chunk_words(u32 a, u32 b, u32 c, u32 d, OUT_ARRAY(f32, q, 16))
{
    q[0] = UF(a, 0), q[1] = UF(a, 1), q[2] = UF(a, 2), q[3] = UF(a, 3);
    q[4] = UF(b, 0), q[5] = UF(b, 1), q[6] = UF(b, 2), q[7] = UF(b, 3);
    q[8] = UF(c, 0), q[9] = UF(c, 1), q[10] = UF(c, 2), q[11] = UF(c, 3);
    q[12] = UF(d, 0), q[13] = UF(d, 1), q[14] = UF(d, 2), q[15] = UF(d, 3);
}

/* Bits 0..3 of x to the bytes of a word, as 0 or 16: four copies seven bits apart put bit i at bit 8i */
FN u32 four_fifth_bits(u32 x) { return ((x & 15u) * 0x00204081u & 0x01010101u) << 4; }
/* Bit pairs 0..3 of x to the bytes of a word, as multiples of 16 */
FN u32 four_upper_pairs(u32 x)
{
    u32 v = (x & 0xffu) | (x & 0xffu) << 12;
    v &= 0x000f000fu;
    return ((v | v << 6) & 0x03030303u) << 4;
}

/* The 6-bit scale and minimum of 32 weights out of the four words of a K type's header; group 0..7 */
FN void k_scale_min(u32 dm, u32 scales, u32 mins, u32 upper, u32 group, OUT_ARRAY(f32, sm, 2))
{
    u32 shift = 8u * (group & 3u), low = scales >> shift, min = mins >> shift, both = upper >> shift;
    u32 sc = group < 4u ? low & 63u : (both & 15u) | (low & 0xc0u) >> 2;
    u32 mn = group < 4u ? min & 63u : (both >> 4 & 15u) | (min & 0xc0u) >> 2;
    sm[0] = h2f(dm & 0xffffu) * f32(sc);
    sm[1] = -(h2f(dm >> 16) * f32(mn));
}

#if HAS(DEV_IQ4_NL)
/* The code book of IQ4_NL, four values to a word */
FN f32 iq4_nl_value(u32 i)
{
    u32 four = i < 8u ? (i < 4u ? 0xbfad9881u : 0xf6eaddcfu) : (i < 12u ? 0x26190d01u : 0x71594535u);
    return SF(four, i32(i & 3u));
}
#endif

/* A chunk as it lies in memory; which words are used depends on the type. Fetching and decoding are apart so that a kernel can have many loads in
 * flight before it touches the first. */
#define RAW_WORDS 16

/* Chunk c of the row of n weights at `row`. */
FN void fetch_chunk(u32 type, u64 row, u32 n, u32 c, OUT_ARRAY(u32, raw, RAW_WORDS))
{
    if (type == DEV_Q8_0 || type == DEV_I8) {
        u32x4 v = LD(u32x4, row, c);
        raw[0] = v.x, raw[1] = v.y, raw[2] = v.z, raw[3] = v.w;
        if (type == DEV_Q8_0) {
            raw[4] = u32(LD(u16, row, n / 2u + (c >> 1)));
        } else {
            u32x2 w = LD(u32x2, OFF(row, n, 1ul), c);
            raw[4] = w.x, raw[5] = w.y;
        }
    }
#if HAS(DEV_Q4_K) || HAS(DEV_Q5_K)
    else if (type == DEV_Q4_K || type == DEV_Q5_K) {
        u32x2 v = LD(u32x2, OFF(row, n / 16u, 1ul), c);
        u32x4 h = LD(u32x4, row, c >> 4);
        raw[0] = v.x, raw[1] = v.y, raw[2] = h.x, raw[3] = h.y, raw[4] = h.z, raw[5] = h.w;
        if (type == DEV_Q5_K)
            raw[6] = u32(LD(u16, OFF(row, n / 256u, 144ul), c));
    }
#endif
#if HAS(DEV_Q5_1)
    else if (type == DEV_Q5_1) {
        u32x2 v = LD(u32x2, row, c);
        raw[0] = v.x, raw[1] = v.y, raw[2] = LD(u32, OFF(row, n / 2u, 1ul), c >> 1), raw[3] = u32(LD(u16, OFF(row, n / 32u, 20ul), c));
    }
#endif
#if HAS(DEV_Q6_K)
    else if (type == DEV_Q6_K) {
        u32x2 v = LD(u32x2, row, c);
        raw[0] = v.x, raw[1] = v.y, raw[2] = LD(u32, OFF(row, n / 2u, 1ul), c);
        raw[3] = u32(LD(u16, OFF(row, n / 256u, 208ul), c >> 4)), raw[4] = u32(LD(u8, OFF(row, n / 4u, 3ul), c));
    }
#endif
#if HAS(DEV_IQ4_NL)
    else if (type == DEV_IQ4_NL) {
        u32x2 v = LD(u32x2, row, c);
        raw[0] = v.x, raw[1] = v.y, raw[2] = u32(LD(u16, row, n / 4u + (c >> 1)));
    }
#endif
#if HAS(DEV_IQ3_S)
    else if (type == DEV_IQ3_S) {
        raw[0] = LD(u32, row, c), raw[1] = u32(LD(u16, OFF(row, n / 4u, 1ul), c)), raw[2] = u32(LD(u8, OFF(row, n / 8u, 3ul), c >> 1));
        raw[3] = u32(LD(u8, OFF(row, n / 32u, 13ul), c >> 2)), raw[4] = u32(LD(u16, OFF(row, n / 64u, 27ul), c >> 4));
    }
#endif
    else if (type == DEV_F32) {
        UNROLL for (u32 i = 0u; i < 4u; i++) {
            u32x4 v = LD(u32x4, row, 4u * c + i);
            raw[4u * i] = v.x, raw[4u * i + 1u] = v.y, raw[4u * i + 2u] = v.z, raw[4u * i + 3u] = v.w;
        }
    } else {
        UNROLL for (u32 i = 0u; i < 2u; i++) {
            u32x4 v = LD(u32x4, row, 2u * c + i);
            raw[4u * i] = v.x, raw[4u * i + 1u] = v.y, raw[4u * i + 2u] = v.z, raw[4u * i + 3u] = v.w;
        }
    }
}

/* Weight i of the chunk is sm[0] * q[i] + sm[1]. book: the type's grid, where it has one. */
FN void decode_chunk(u32 type, IN_ARRAY(u32, raw, RAW_WORDS), u32 c, u64 book, OUT_ARRAY(f32, q, 16), OUT_ARRAY(f32, sm, 2))
{
    u32 low0 = raw[0] & 0x0f0f0f0fu, low1 = raw[1] & 0x0f0f0f0fu, high0 = raw[0] >> 4 & 0x0f0f0f0fu, high1 = raw[1] >> 4 & 0x0f0f0f0fu;
    sm[0] = 1.0f, sm[1] = 0.0f;
    if (type == DEV_Q8_0 || type == DEV_I8) {
        chunk_bytes(raw, q);
        sm[0] = type == DEV_Q8_0 ? h2f(raw[4]) : as_f32(raw[4]);
        sm[1] = type == DEV_Q8_0 ? 0.0f : as_f32(raw[5]);
    }
#if HAS(DEV_Q4_K) || HAS(DEV_Q5_K)
    else if (type == DEV_Q4_K || type == DEV_Q5_K) {
        u32 fifth = type == DEV_Q5_K ? raw[6] : 0u;
        chunk_words(low0 | four_fifth_bits(fifth), low1 | four_fifth_bits(fifth >> 4), high0 | four_fifth_bits(fifth >> 8),
                    high1 | four_fifth_bits(fifth >> 12), q);
        k_scale_min(raw[2], raw[3], raw[4], raw[5], c >> 1 & 7u, sm);
    }
#endif
#if HAS(DEV_Q5_1)
    else if (type == DEV_Q5_1) {
        chunk_words(low0 | four_fifth_bits(raw[3]), low1 | four_fifth_bits(raw[3] >> 4), high0 | four_fifth_bits(raw[3] >> 8),
                    high1 | four_fifth_bits(raw[3] >> 12), q);
        sm[0] = h2f(raw[2] & 0xffffu);
        sm[1] = h2f(raw[2] >> 16);
    }
#endif
#if HAS(DEV_Q6_K)
    else if (type == DEV_Q6_K) {
        chunk_words(low0 | four_upper_pairs(raw[2]), low1 | four_upper_pairs(raw[2] >> 8), high0 | four_upper_pairs(raw[2] >> 16),
                    high1 | four_upper_pairs(raw[2] >> 24), q);
        sm[0] = h2f(raw[3]) * SF(raw[4], 0);
        sm[1] = -32.0f * sm[0];
    }
#endif
#if HAS(DEV_IQ4_NL)
    else if (type == DEV_IQ4_NL) {
        UNROLL for (u32 i = 0u; i < 4u; i++) {
            q[i] = iq4_nl_value(low0 >> 8u * i & 15u);
            q[i + 4u] = iq4_nl_value(low1 >> 8u * i & 15u);
            q[i + 8u] = iq4_nl_value(high0 >> 8u * i & 15u);
            q[i + 12u] = iq4_nl_value(high1 >> 8u * i & 15u);
        }
        sm[0] = h2f(raw[2]);
    }
#endif
#if HAS(DEV_IQ3_S)
    else if (type == DEV_IQ3_S) {
        u32 ninth = raw[2] >> 4u * (c & 1u), s = raw[3] >> 4u * (c >> 1 & 1u) & 15u;
        UNROLL for (u32 i = 0u; i < 4u; i++) {
            u32 grid = LD(u32, book, (raw[0] >> 8u * i & 255u) | (ninth >> i & 1u) << 8);
            u32 bits = raw[1] >> 4u * i;
            q[4u * i] = (bits & 1u) != 0u ? -UF(grid, 0) : UF(grid, 0);
            q[4u * i + 1u] = (bits & 2u) != 0u ? -UF(grid, 1) : UF(grid, 1);
            q[4u * i + 2u] = (bits & 4u) != 0u ? -UF(grid, 2) : UF(grid, 2);
            q[4u * i + 3u] = (bits & 8u) != 0u ? -UF(grid, 3) : UF(grid, 3);
        }
        sm[0] = h2f(raw[4]) * f32(1u + 2u * s);
    }
#endif
    else if (type == DEV_F32) {
        UNROLL for (u32 i = 0u; i < 16u; i++)
            q[i] = as_f32(raw[i]);
    } else {
        UNROLL for (u32 i = 0u; i < 8u; i++) {
            q[2u * i] = type == DEV_F16 ? h2f(raw[i] & 0xffffu) : as_f32(raw[i] << 16);
            q[2u * i + 1u] = type == DEV_F16 ? h2f(raw[i] >> 16) : as_f32(raw[i] & 0xffff0000u);
        }
    }
}

FN void load_chunk(u32 type, u64 row, u32 n, u32 c, u64 book, OUT_ARRAY(f32, q, 16), OUT_ARRAY(f32, sm, 2))
{
    u32 raw[RAW_WORDS];
    fetch_chunk(type, row, n, c, raw);
    decode_chunk(type, raw, c, book, q, sm);
}

/* 16 f32 at element 16 c of x, which is aligned to 16 bytes */
FN void load_x(u64 x, u32 c, OUT_ARRAY(f32, v, 16))
{
    UNROLL for (u32 i = 0u; i < 4u; i++) {
        f32x4 t = LD(f32x4, x, 4u * c + i);
        v[4u * i] = t.x, v[4u * i + 1u] = t.y, v[4u * i + 2u] = t.z, v[4u * i + 3u] = t.w;
    }
}

/* The types whose weights have a minimum: only they need the sum of x. Ask it of constants alone; where the type is known at run time, has_min is true: a branch
 * per chunk costs more than the sum. */
#define HAS_MIN(type) ((type) == DEV_I8 || (type) == DEV_Q4_K || (type) == DEV_Q5_K || (type) == DEV_Q5_1 || (type) == DEV_Q6_K)

/* acc + the product of a chunk with 16 values whose sum is `sum`, in the one order that all kernels use; factor scales the chunk */
FN f32 chunk_dot(bool has_min, IN_ARRAY(f32, q, 16), IN_ARRAY(f32, sm, 2), f32 factor, IN_ARRAY(f32, x, 16), f32 sum, f32 acc)
{
    f32 s = 0.0f;
    UNROLL for (u32 i = 0u; i < 16u; i++)
        s = fma_(q[i], x[i], s);
    if (has_min)
        acc = fma_(factor * sm[1], sum, acc);
    return fma_(factor * sm[0], s, acc);
}
/* The sum of x where the type needs it, else 0 */
FN f32 chunk_sum(bool wanted, IN_ARRAY(f32, x, 16))
{
    f32 s = 0.0f;
    if (wanted) {
        UNROLL for (u32 i = 0u; i < 16u; i++)
            s += x[i];
    }
    return s;
}
