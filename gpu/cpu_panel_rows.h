/* cpu_panel_rows.h - weight blocks of sixteen rows at once, straight to the layout of a panel (cpu_panel.h); AVX-512 only.
 *
 * square() brings 16 bytes of each row into four registers whose 32-bit lane r holds four bytes of row r. So the fields of a block arrive side by side for
 * all rows, and what unpack_<type> (quant_unpack.h, with the drawings and formulas) does byte by byte is done here for 64 weights at a time, giving
 * the same integers and the same scales. Reads stay inside the blocks. */
#ifndef HAYATE_GPU_CPU_PANEL_ROWS_H
#define HAYATE_GPU_CPU_PANEL_ROWS_H

#include "gpu/quant_unpack.h"

/* What a thread will read after this panel, asked for in the order of its addresses: a core foresees that, but not sixteen rows at once. Little by little,
 * because few answers can be waited for at a time. Asked for beyond the end of a mapping, nothing happens. */
struct ask {
    const uint8_t *at; /* NULL: nothing */
};
static inline void ask_for(struct ask *a, size_t n)
{
    if (!a->at)
        return;
    for (size_t i = 0; i < n; i += 64)
        _mm_prefetch((const char *)a->at + i, _MM_HINT_T1);
    a->at += n;
}

/* Where a block of 16 rows goes: steps of four columns 128 bytes apart, scales (and minima, divided by 128) of a group 32 floats after the last one's */
struct panel_to {
    uint8_t *w;
    float *scale, *min;
    struct ask *next;
};

typedef __m512i lanes; /* a 32-bit number of each of 16 rows */
static inline lanes all(int x) { return _mm512_set1_epi32(x); }
static inline lanes bytes(int x) { return _mm512_set1_epi8((char)x); }
static inline lanes both(lanes a, lanes b) { return _mm512_and_si512(a, b); }
static inline lanes down(lanes a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline lanes up(lanes a, unsigned n) { return _mm512_slli_epi32(a, n); }
static inline lanes low_nibbles(lanes a) { return both(a, bytes(15)); }
static inline lanes high_nibbles(lanes a) { return both(down(a, 4), bytes(15)); }
/* The weights of columns 4 * step ..; stored with 128 added */
static inline void put_step(struct panel_to to, int step, lanes q) { _mm512_storeu_si512(to.w + 128 * step, _mm512_xor_si512(q, bytes(-128))); }

/* out[i], lane r: bytes 4 i .. 4 i + 3 of row r. A register takes rows i, 4 + i, 8 + i, 12 + i, one per 128 bits; then 4 x 4 lanes change places inside
 * every 128 bits. */
static inline void square(lanes out[4], const uint8_t *from, size_t pitch)
{
    lanes a[4];
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *f = from + i * pitch;
        a[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)f));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0x00f0, _mm_loadu_si128((const __m128i *)(const void *)(f + 4 * pitch)));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0x0f00, _mm_loadu_si128((const __m128i *)(const void *)(f + 8 * pitch)));
        a[i] = _mm512_mask_broadcast_i32x4(a[i], 0xf000, _mm_loadu_si128((const __m128i *)(const void *)(f + 12 * pitch)));
    }
    lanes low0 = _mm512_unpacklo_epi32(a[0], a[1]), low1 = _mm512_unpacklo_epi32(a[2], a[3]);
    lanes high0 = _mm512_unpackhi_epi32(a[0], a[1]), high1 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(low0, low1);
    out[1] = _mm512_unpackhi_epi64(low0, low1);
    out[2] = _mm512_unpacklo_epi64(high0, high1);
    out[3] = _mm512_unpackhi_epi64(high0, high1);
}

/* The same for 32 bytes of each row and eight registers, with half the loads for a byte. A register takes two rows, r and 4 + r (or 8 more), which change
 * places inside 128 bits as above; then whole 128 bits do. */
static inline void long_square(lanes out[8], const uint8_t *from, size_t pitch)
{
    lanes a[8], b[8];
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *f = from + (i % 4 + i / 4 * 8) * pitch;
        a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)f)),
                                  _mm256_loadu_si256((const __m256i *)(const void *)(f + 4 * pitch)), 1);
    }
    for (int i = 0; i < 8; i += 4) {
        lanes low0 = _mm512_unpacklo_epi32(a[i], a[i + 1]), low1 = _mm512_unpacklo_epi32(a[i + 2], a[i + 3]);
        lanes high0 = _mm512_unpackhi_epi32(a[i], a[i + 1]), high1 = _mm512_unpackhi_epi32(a[i + 2], a[i + 3]);
        b[i] = _mm512_unpacklo_epi64(low0, low1);
        b[i + 1] = _mm512_unpackhi_epi64(low0, low1);
        b[i + 2] = _mm512_unpacklo_epi64(high0, high1);
        b[i + 3] = _mm512_unpackhi_epi64(high0, high1);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88);
        out[4 + i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
    }
}

/* f16 in the low half of every lane */
static inline __m512 halves(lanes a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
/* An f16 field of 16 rows; there need not be four bytes */
static inline __m512 half_field(const uint8_t *from, size_t pitch)
{
    short h[16];
    for (size_t r = 0; r < 16; r++)
        h[r] = (short)q_u16(from + r * pitch);
    return _mm512_cvtph_ps(_mm256_set_epi16(h[15], h[14], h[13], h[12], h[11], h[10], h[9], h[8], h[7], h[6], h[5], h[4], h[3], h[2], h[1], h[0]));
}
static inline void put_group(struct panel_to to, int group, __m512 scale) { _mm512_storeu_ps(to.scale + 32 * group, scale); }
static inline void put_min(struct panel_to to, int group, __m512 min) { _mm512_storeu_ps(to.min + 32 * group, _mm512_mul_ps(min, _mm512_set1_ps(1.0f / 128))); }

/* Bits 4 * step .. 4 * step + 3 of every lane as a mask over the four bytes of the lane */
static inline __mmask64 four_bits(lanes a, int step)
{
    lanes copies = _mm512_shuffle_epi8(a, _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0), bytes(step / 2)));
    return _mm512_test_epi8_mask(copies, all(step % 2 ? (int)0x80402010 : 0x08040201));
}
static inline lanes table16(const int8_t table[16]) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)); }

/* 16 bytes with a low half for columns 0..15 and a high half for 16..31 */
static inline void halves_of_32(lanes q[8], const uint8_t *from, size_t pitch)
{
    lanes z[4];
    square(z, from, pitch);
    for (int i = 0; i < 4; i++)
        q[i] = low_nibbles(z[i]), q[4 + i] = high_nibbles(z[i]);
}

static inline void rows_q8_0(struct panel_to to, const uint8_t *b, size_t pitch)
{
    ask_for(to.next, 16 * 34);
    lanes z[8];
    long_square(z, b + 2, pitch);
    for (int s = 0; s < 8; s++)
        put_step(to, s, z[s]);
    put_group(to, 0, half_field(b, pitch));
}

static inline void rows_q4_0(struct panel_to to, const uint8_t *b, size_t pitch)
{
    ask_for(to.next, 16 * 18);
    lanes q[8];
    halves_of_32(q, b + 2, pitch);
    for (int s = 0; s < 8; s++)
        put_step(to, s, _mm512_sub_epi8(q[s], bytes(8)));
    put_group(to, 0, half_field(b, pitch));
}

static inline void rows_iq4_nl(struct panel_to to, const uint8_t *b, size_t pitch)
{
    ask_for(to.next, 16 * 18);
    lanes q[8], table = table16(kvalues_iq4nl);
    halves_of_32(q, b + 2, pitch);
    for (int s = 0; s < 8; s++)
        put_step(to, s, _mm512_shuffle_epi8(table, q[s]));
    put_group(to, 0, half_field(b, pitch));
}

static inline void rows_q5_0(struct panel_to to, const uint8_t *b, size_t pitch)
{
    ask_for(to.next, 16 * 22);
    lanes q[8], head[4];
    square(head, b, pitch); /* d and qh, and the first numbers */
    lanes fifth = _mm512_or_si512(down(head[0], 16), up(head[1], 16));
    halves_of_32(q, b + 6, pitch);
    for (int s = 0; s < 8; s++) /* 16 less where bit 4 is not set */
        put_step(to, s, _mm512_mask_sub_epi8(q[s], ~four_bits(fifth, s), q[s], bytes(16)));
    put_group(to, 0, halves(head[0]));
}

static inline void rows_q5_1(struct panel_to to, const uint8_t *b, size_t pitch)
{
    ask_for(to.next, 16 * 24);
    lanes q[8], head[4];
    square(head, b, pitch); /* d, m and qh, and the first numbers */
    halves_of_32(q, b + 8, pitch);
    for (int s = 0; s < 8; s++)
        put_step(to, s, _mm512_mask_add_epi8(q[s], four_bits(head[1], s), q[s], bytes(16)));
    put_group(to, 0, halves(head[0]));
    put_min(to, 0, _mm512_sub_ps(_mm512_set1_ps(-0.0f), halves(down(head[0], 16))));
}

/* Scales and minima of Q4_K and Q5_K; see k_scale() and k_min() */
static inline void k_scales(struct panel_to to, const lanes head[4])
{
    __m512 d = halves(head[0]), dmin = halves(down(head[0], 16));
    for (unsigned g = 0; g < 8; g++) {
        unsigned at = 8 * (g % 4);
        lanes scale = both(down(head[1], at), all(63)), min = both(down(head[2], at), all(63));
        if (g >= 4) {
            lanes last = down(head[3], at);
            scale = _mm512_or_si512(both(last, all(15)), both(down(head[1], at + 2), all(0x30)));
            min = _mm512_or_si512(both(down(last, 4), all(15)), both(down(head[2], at + 2), all(0x30)));
        }
        put_group(to, (int)g, _mm512_mul_ps(d, _mm512_cvtepi32_ps(scale)));
        put_min(to, (int)g, _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(min)));
    }
}

static inline void rows_q4_k(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes head[4], z[8];
    square(head, b, pitch);
    k_scales(to, head);
    for (int k = 0; k < 4; k++) { /* 32 bytes: columns 64 k .., and 32 more for the high halves */
        ask_for(to.next, 16 * 144 / 4);
        long_square(z, b + 16 + 32 * k, pitch);
        for (int i = 0; i < 8; i++) {
            put_step(to, 16 * k + i, low_nibbles(z[i]));
            put_step(to, 16 * k + 8 + i, high_nibbles(z[i]));
        }
    }
}

static inline void rows_q5_k(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes head[4], fifth[8], z[8];
    square(head, b, pitch);
    k_scales(to, head);
    long_square(fifth, b + 16, pitch);
    for (int k = 0; k < 4; k++) {
        ask_for(to.next, 16 * 176 / 4);
        long_square(z, b + 48 + 32 * k, pitch);
        for (int i = 0; i < 8; i++) {
            lanes low = low_nibbles(z[i]), high = high_nibbles(z[i]);
            __mmask64 low5 = _mm512_test_epi8_mask(fifth[i], bytes(1 << 2 * k)), high5 = _mm512_test_epi8_mask(fifth[i], bytes(2 << 2 * k));
            put_step(to, 16 * k + i, _mm512_mask_add_epi8(low, low5, low, bytes(16)));
            put_step(to, 16 * k + 8 + i, _mm512_mask_add_epi8(high, high5, high, bytes(16)));
        }
    }
}

static inline void rows_q6_k(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes scales[4], high[8], z[8];
    __m512 d = half_field(b + 208, pitch);
    square(scales, b + 192, pitch);
    for (int s = 0; s < 16; s++)
        put_group(to, s, _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_srai_epi32(up(scales[s / 4], 24 - 8 * (unsigned)(s % 4)), 24))));
    for (int half = 0; half < 2; half++) {
        long_square(high, b + 128 + 32 * half, pitch);
        for (int k = 0; k < 2; k++) { /* 32 bytes of ql: columns 32 k .. of the half, and 64 more */
            ask_for(to.next, 16 * 210 / 4);
            long_square(z, b + 64 * half + 32 * k, pitch);
            for (int i = 0; i < 8; i++) {
                lanes h = down(high[i], 2 * (unsigned)k);
                lanes low = _mm512_or_si512(low_nibbles(z[i]), up(both(h, bytes(3)), 4)), upper = _mm512_or_si512(high_nibbles(z[i]), both(h, bytes(0x30)));
                put_step(to, 32 * half + 8 * k + i, _mm512_sub_epi8(low, bytes(32)));
                put_step(to, 32 * half + 16 + 8 * k + i, _mm512_sub_epi8(upper, bytes(32)));
            }
        }
    }
}

static inline void rows_iq4_xs(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes head[4], q[8], table = table16(kvalues_iq4nl);
    square(head, b, pitch);
    __m512 d = halves(head[0]);
    for (unsigned g = 0; g < 8; g++) {
        ask_for(to.next, 16 * 136 / 8);
        lanes scale = _mm512_or_si512(both(down(head[1], 4 * g), all(15)), up(both(down(head[0], 16 + 2 * g), all(3)), 4));
        put_group(to, (int)g, _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_sub_epi32(scale, all(32)))));
        halves_of_32(q, b + 8 + 16 * g, pitch);
        for (int s = 0; s < 8; s++)
            put_step(to, 8 * (int)g + s, _mm512_shuffle_epi8(table, q[s]));
    }
}

/* Four magnitudes per lane, negated where a bit of signs is set */
static inline lanes with_signs(lanes magnitudes, lanes signs, int step)
{
    return _mm512_mask_sub_epi8(magnitudes, four_bits(signs, step), _mm512_setzero_si512(), magnitudes);
}

/* A grid of up to 512 words of four bytes in 16 registers, 64 entries of 16 bits in two: a nibble for every byte. Registers are much faster to look
 * up in than memory, which takes a load per lane. */
struct nibble_grid {
    lanes t[16];
};
/* Nibble i of entry j: byte i of grid[j], its lowest `drop` bits left out */
static inline struct nibble_grid nibble_grid(const uint32_t *grid, int n, unsigned drop)
{
    struct nibble_grid g;
    for (int i = 0; i < n / 32; i++) {
        __m256i part[2];
        for (int k = 0; k < 2; k++) {
            lanes x = both(down(_mm512_loadu_si512(grid + 32 * i + 16 * k), drop), bytes(15));
            x = both(_mm512_or_si512(x, down(x, 4)), all(0x00ff00ff));
            part[k] = _mm512_cvtepi32_epi16(_mm512_or_si512(x, down(x, 8)));
        }
        g.t[i] = _mm512_inserti64x4(_mm512_castsi256_si512(part[0]), part[1], 1);
    }
    return g;
}

/* Two steps: entries of the low and the high 16 bits of every lane of `at`, as bytes */
static inline void look_up(lanes out[2], const struct nibble_grid *g, const int n, lanes at)
{
    lanes r[8];
    for (int i = 0; i < n / 64; i++)
        r[i] = _mm512_permutex2var_epi16(g->t[2 * i], at, g->t[2 * i + 1]);
    for (int left = n / 64, bit = 64; left > 1; left /= 2, bit *= 2) {
        __mmask32 upper = _mm512_test_epi16_mask(at, _mm512_set1_epi16((short)bit));
        for (int i = 0; i < left / 2; i++)
            r[i] = _mm512_mask_mov_epi16(r[2 * i], upper, r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        lanes x = i ? down(r[0], 16) : both(r[0], all(0xffff));
        x = both(_mm512_or_si512(x, up(x, 8)), all(0x00ff00ff));
        out[i] = both(_mm512_or_si512(x, up(x, 4)), bytes(15));
    }
}

/* Bytes 2 * pair and 2 * pair + 1 of every lane as numbers of 16 bits */
static inline lanes byte_pair(lanes a, int pair)
{
    const int none = (int)0x80008000;
    return _mm512_shuffle_epi8(a, _mm512_add_epi8(_mm512_set4_epi32(none + 0x000d000c, none + 0x00090008, none + 0x00050004, none + 0x00010000),
                                                  all(pair ? 0x00020002 : 0)));
}

static inline void rows_iq3_s(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes index[16], ninth[4], signs[8], tail[4];
    struct nibble_grid grid = nibble_grid(iq3s_grid, 512, 0);
    long_square(index, b + 2, pitch);
    long_square(index + 8, b + 34, pitch);
    square(ninth, b + 66, pitch); /* and the first signs */
    long_square(signs, b + 74, pitch);
    square(tail, b + 94, pitch); /* ends with the scales */
    __m512 d = half_field(b, pitch);
    for (int g = 0; g < 8; g++) {
        ask_for(to.next, 16 * 110 / 8);
        lanes scale = both(down(tail[3], 4 * (unsigned)g), all(15)), bits = down(ninth[g / 4], 8 * (unsigned)(g % 4));
        put_group(to, g, _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(scale, scale), all(1)))));
        for (int s = 0; s < 8; s += 2) {
            lanes at = byte_pair(index[2 * g + s / 4], s / 2 % 2), q[2];
            at = _mm512_or_si512(at, _mm512_or_si512(both(up(bits, 8 - (unsigned)s), all(0x100)), both(up(bits, 23 - (unsigned)s), all(0x1000000))));
            look_up(q, &grid, 512, at);
            put_step(to, 8 * g + s, with_signs(q[0], signs[g], s));
            put_step(to, 8 * g + s + 1, with_signs(q[1], signs[g], s + 1));
        }
    }
}

/* Four times 7 bits, each with its parity as the eighth */
static inline lanes with_parity(lanes word)
{
    lanes x = _mm512_or_si512(_mm512_or_si512(both(word, all(0x7f)), both(up(word, 1), all(0x7f00))), _mm512_or_si512(both(up(word, 2), all(0x7f0000)), both(up(word, 3), all(0x7f000000))));
    lanes p = _mm512_xor_si512(x, both(down(x, 4), bytes(15)));
    p = _mm512_xor_si512(p, down(p, 2));
    p = _mm512_xor_si512(p, down(p, 1));
    return _mm512_or_si512(x, up(both(p, bytes(1)), 7));
}

static inline void rows_iq3_xxs(struct panel_to to, const uint8_t *b, size_t pitch)
{
    static const int8_t magnitude[16] = { 4, 12, 20, 28, 36, 44, 52, 62 }; /* of a byte of the grid / 8 */
    lanes index[16], word[8], table = table16(magnitude);
    struct nibble_grid grid = nibble_grid(iq3xxs_grid, 256, 3);
    long_square(index, b + 2, pitch);
    long_square(index + 8, b + 34, pitch);
    long_square(word, b + 66, pitch);
    __m512 d = half_field(b, pitch);
    for (int g = 0; g < 8; g++) {
        ask_for(to.next, 16 * 98 / 8);
        lanes signs = with_parity(word[g]);
        __m512 scale = _mm512_add_ps(_mm512_set1_ps(0.5f), _mm512_cvtepi32_ps(down(word[g], 28)));
        put_group(to, g, _mm512_mul_ps(_mm512_mul_ps(d, scale), _mm512_set1_ps(0.5f)));
        for (int s = 0; s < 8; s += 2) {
            lanes q[2];
            look_up(q, &grid, 256, byte_pair(index[2 * g + s / 4], s / 2 % 2));
            put_step(to, 8 * g + s, with_signs(_mm512_shuffle_epi8(table, q[0]), signs, s));
            put_step(to, 8 * g + s + 1, with_signs(_mm512_shuffle_epi8(table, q[1]), signs, s + 1));
        }
    }
}

static inline void rows_iq2_s(struct panel_to to, const uint8_t *b, size_t pitch)
{
    lanes index[8], signs[8], tail[4];
    long_square(index, b + 2, pitch);
    long_square(signs, b + 34, pitch);
    square(tail, b + 66, pitch); /* qh, scales */
    __m512 d = half_field(b, pitch);
    for (int g = 0; g < 8; g++) { /* 32 columns, two scales */
        ask_for(to.next, 16 * 82 / 8);
        for (int i = 0; i < 2; i++) {
            lanes four = both(down(tail[2 + g / 4], 8 * (unsigned)(g % 4) + 4 * (unsigned)i), all(15));
            __m512 scale = _mm512_add_ps(_mm512_set1_ps(0.5f), _mm512_cvtepi32_ps(four));
            put_group(to, 2 * g + i, _mm512_mul_ps(_mm512_mul_ps(d, scale), _mm512_set1_ps(0.25f)));
        }
        lanes high = down(tail[g / 4], 8 * (unsigned)(g % 4));
        for (int l = 0; l < 4; l++) {
            lanes at = _mm512_or_si512(both(down(index[g], 8 * (unsigned)l), all(255)), both(up(high, 8 - 2 * (unsigned)l), all(0x300)));
            for (int i = 0; i < 2; i++)
                put_step(to, 8 * g + 2 * l + i, with_signs(_mm512_i32gather_epi32(at, (const uint32_t *)iq2s_grid + i, 8), signs[g], 2 * l + i));
        }
    }
}

#endif
