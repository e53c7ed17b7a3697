/* cpu_direct.h - products of weights with one integer row (int_rows.h), the weights read row after row; AVX-512 with VNNI only.
 *
 * With one token a product is over when its weights have come, so they are read in the order of their addresses, which a core foresees; panels (cpu_panel.h)
 * read sixteen rows at once and write down what they unpack. Here 64 columns of one row fill a register as bytes, and the sums over the groups of a row
 * end up side by side. They wait, with their scales, for those of a few more rows, and are then added in the order of tile() in cpu_tile.h, with the same
 * operations: an integer sum is exact whoever makes it, so a row has the bits that it has among many.
 *
 * Short rows that lie close together are taken as one long one, with x repeated, so that no register is half empty.
 *
 * For blocks of 32 columns, Q4_K (cpu_direct_q4_k.h) and IQ3_S (cpu_direct_iq3_s.h). */
#ifndef HAYATE_GPU_CPU_DIRECT_H
#define HAYATE_GPU_CPU_DIRECT_H

#include "gpu/cpu_panel_rows.h"
#include "gpu/int_rows.h"

enum { DIRECT_ROWS = 8, DIRECT_COLUMNS = 10240 }; /* at most */

/* A core foresees lines in the order of their addresses within 4 KiB, and waits for memory where the next 4 KiB begin. So one line of every such page is asked
 * for when the reader is two pages before it, and the core goes on from there by itself. Rows of many columns push x out of the nearest cache and confuse the
 * core's foresight; so each line is asked for as well, but only where its page is open already: elsewhere it would be lost, and keep out others. What is
 * read after `end` begins at `next`. */
enum { PAGE = 4096, PAGES_AHEAD = 2, LINES_AHEAD = PAGE + PAGE / 2 };
struct opener {
    const uint8_t *at, *end, *next; /* the reader's place, PAGES_AHEAD further on; next NULL: nobody knows */
};
static inline void open_begin(struct opener *o, const uint8_t *data, size_t bytes, const uint8_t *next)
{
    const uint8_t *end = next == data + bytes ? (const uint8_t *)UINTPTR_MAX : data + bytes;
    *o = (struct opener){ data + PAGE * PAGES_AHEAD, end, next };
}
/* The reader, who is at `here`, goes n <= PAGE bytes on */
static inline __attribute__((always_inline)) void open_ahead(struct opener *o, const uint8_t *here, size_t n)
{
    for (size_t i = 0; i < n + 63; i += 64)
        _mm_prefetch((const char *)here + LINES_AHEAD + i, _MM_HINT_T0);
    const uint8_t *to = o->at + n;
    if (((uintptr_t)o->at ^ (uintptr_t)to) & ~(uintptr_t)(PAGE - 1))
        _mm_prefetch((const char *)((uintptr_t)to & ~(uintptr_t)(PAGE - 1)), _MM_HINT_T1);
    o->at = to;
    if (to < o->end || !o->next)
        return;
    _mm_prefetch((const char *)o->next, _MM_HINT_T1);
    *o = (struct opener){ o->next, (const uint8_t *)UINTPTR_MAX, NULL };
}

/* [row][group] of a few rows: integer sums; scales of weights and x, multiplied; minima, divided by 128. Room for 16 more that nobody looks at */
struct direct_groups {
    float value[DIRECT_ROWS * DIRECT_COLUMNS / 32 + 16], scale[DIRECT_ROWS * DIRECT_COLUMNS / 32 + 16], min[DIRECT_ROWS * DIRECT_COLUMNS / 32 + 16];
};

/* A row of x, repeated, and what a few rows of weights make with it; a group has 32 columns, and there is room for 16 more that nobody looks at */
struct direct {
    uint8_t x[DIRECT_COLUMNS / 64][2][64]; /* high bytes of 64 columns, and low ones */
    float x_scale[DIRECT_COLUMNS / 32 + 16], x_bias[DIRECT_COLUMNS / 32 + 16]; /* x_bias: scale * bias32, what minima meet */
    int32_t bias32[DIRECT_COLUMNS / 32 + 16];
    struct direct_groups groups[2]; /* of the rows that are read, and of those before them */
    uint8_t grid[2][512]; /* of IQ3_S */
    uint32_t repeat;      /* rows of weights that are taken as one */
    struct opener ahead;  /* of the pages that come */
};

/* Short rows are 1, 2, 4 .. at a time whole registers, or as many as their groups wait for. */
static uint32_t direct_repeat(uint32_t n, uint32_t most)
{
    uint32_t r = 1;
    while (r < most && r * n % 512 && 2 * r * n <= DIRECT_COLUMNS)
        r *= 2;
    return r;
}

/* n a multiple of 64 */
static void direct_begin(struct direct *d, const uint8_t *row, uint32_t n)
{
    const lanes even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0), odd = _mm512_add_epi32(even, all(1));
    const uint8_t *v = row + int_row_values(n);
    const float *scale = (const float *)(const void *)row;
    const int32_t *bias32 = (const int32_t *)(const void *)(row + int_row_bias(n)) + n / 16;
    for (uint32_t u = 0; u < n / 64; u++, v += 128) {
        lanes a = _mm512_loadu_si512(v), b = _mm512_loadu_si512(v + 64);
        a = _mm512_permutex2var_epi32(a, even, b), b = _mm512_permutex2var_epi32(_mm512_loadu_si512(v), odd, b);
        for (uint32_t i = 0; i < d->repeat; i++) {
            _mm512_storeu_si512(d->x[u + i * (n / 64)][0], a);
            _mm512_storeu_si512(d->x[u + i * (n / 64)][1], b);
        }
    }
    for (uint32_t g = 0; g < n / 32; g++)
        for (uint32_t i = g; i < d->repeat * (n / 32); i += n / 32) {
            d->x_scale[i] = scale[g];
            d->bias32[i] = bias32[g];
            d->x_bias[i] = scale[g] * (float)bias32[g];
        }
}

/* ---- 64 columns of a row: unit_<type>(b, u), columns 64 u .. of the row that begins at b, as bytes q + add ---- */

static inline lanes two_of_32(const uint8_t *a, const uint8_t *b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)a)), _mm256_loadu_si256((const __m256i *)(const void *)b), 1);
}
/* 16 bytes at a and 16 at b: low nibbles, high ones, of each */
static inline lanes nibbles_of_16(const uint8_t *a, const uint8_t *b)
{
    lanes z = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)a));
    z = _mm512_mask_broadcast_i32x4(z, 0xff00, _mm_loadu_si128((const __m128i *)(const void *)b));
    return both(_mm512_srlv_epi64(z, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0)), bytes(15));
}
static inline uint64_t two_words(const uint8_t *low, const uint8_t *high) { return q_u32(low) | (uint64_t)q_u32(high) << 32; }

static inline lanes unit_q8_0(const uint8_t *b, uint32_t u)
{
    b += 68 * (size_t)u;
    return _mm512_xor_si512(two_of_32(b + 2, b + 36), bytes(-128));
}
static inline lanes unit_q4_0(const uint8_t *b, uint32_t u) { return nibbles_of_16(b + 36 * (size_t)u + 2, b + 36 * (size_t)u + 20); }
static inline lanes unit_iq4_nl(const uint8_t *b, uint32_t u)
{
    lanes table = _mm512_xor_si512(table16(kvalues_iq4nl), bytes(-128));
    return _mm512_shuffle_epi8(table, nibbles_of_16(b + 36 * (size_t)u + 2, b + 36 * (size_t)u + 20));
}
static inline lanes unit_q5_0(const uint8_t *b, uint32_t u)
{
    b += 44 * (size_t)u;
    lanes q = nibbles_of_16(b + 6, b + 28);
    return _mm512_mask_add_epi8(q, two_words(b + 2, b + 24), q, bytes(16));
}
static inline lanes unit_q5_1(const uint8_t *b, uint32_t u)
{
    b += 48 * (size_t)u;
    lanes q = nibbles_of_16(b + 8, b + 32);
    return _mm512_mask_add_epi8(q, two_words(b + 4, b + 28), q, bytes(16));
}

/* ---- scales of the 16 groups from g on, n of which are there: scales_<type>(b, g, n, min) ---- */

/* The two bytes at `at` of n blocks of `bytes` bytes; n even, up to 16. Two neighbours lie in one register, and four are picked from two of them. */
static inline __attribute__((always_inline)) __m512 half_fields(const uint8_t *b, const uint32_t bytes, const uint32_t at, uint32_t n)
{
    const uint64_t place = at / 2 | (uint64_t)(bytes + at) / 2 << 16, both_places = place | (place | 0x200020) << 32;
    const __mmask64 pair = 2 * bytes < 64 ? ((uint64_t)1 << 2 * bytes % 64) - 1 : ~(uint64_t)0;
    __m256i four[4];
    for (uint32_t k = 0; k < 4; k++) {
        lanes x = _mm512_maskz_loadu_epi8(4 * k < n ? pair : 0, b + 4 * k * (size_t)bytes);
        lanes y = _mm512_maskz_loadu_epi8(4 * k + 2 < n ? pair : 0, b + (4 * k + 2) * (size_t)bytes);
        four[k] = _mm512_castsi512_si256(_mm512_permutex2var_epi16(x, _mm512_set1_epi64((long long)both_places), y));
    }
    __m256i low = _mm256_blend_epi32(four[0], four[1], 0x0c), high = _mm256_blend_epi32(four[2], four[3], 0xc0);
    return _mm512_cvtph_ps(_mm256_blend_epi32(low, high, 0xf0));
}

#define SCALES_OF_32(fn, bytes)                                                                            \
    static inline __attribute__((always_inline)) __m512 scales_##fn(const uint8_t *b, uint32_t g, uint32_t n, __m512 *min)                \
    {                                                                                                      \
        (void)min;                                                                                         \
        return half_fields(b + g * (size_t)(bytes), bytes, 0, n);                                             \
    }
SCALES_OF_32(q8_0, 34)
SCALES_OF_32(q4_0, 18)
SCALES_OF_32(iq4_nl, 18)
SCALES_OF_32(q5_0, 22)
#undef SCALES_OF_32
static inline __attribute__((always_inline)) __m512 scales_q5_1(const uint8_t *b, uint32_t g, uint32_t n, __m512 *min)
{
    b += g * (size_t)24;
    *min = _mm512_sub_ps(_mm512_set1_ps(-0.0f), half_fields(b, 24, 2, n));
    return half_fields(b, 24, 0, n);
}

#include "gpu/cpu_direct_q4_k.h"

/* ---- a row ---- */

/* 256 * (q . high bytes) + q . low bytes of 64 columns, four columns a lane */
static inline lanes unit_dot(lanes q, const uint8_t x[2][64])
{
    const lanes zero = _mm512_setzero_si512();
    return _mm512_dpbusd_epi32(up(_mm512_dpbusd_epi32(zero, q, _mm512_loadu_si512(x[0])), 8), q, _mm512_loadu_si512(x[1]));
}
/* Four registers to one: each sum of four lanes of the same 128 bits of a[i] to lane i of these */
static inline lanes fold_lanes(const lanes a[4])
{
    lanes ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
    lanes cd = _mm512_add_epi32(_mm512_unpacklo_epi32(a[2], a[3]), _mm512_unpackhi_epi32(a[2], a[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
/* The sums of the 16 groups of eight units */
static inline lanes fold_groups(const lanes unit[8])
{
    lanes a = fold_lanes(unit), b = fold_lanes(unit + 4); /* group 2 i of four units: 128 bits 0 and 1, 2 i + 1: 2 and 3 */
    lanes sum = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 14, 10, 13, 9, 12, 8, 7, 3, 6, 2, 5, 1, 4, 0), sum);
}

/* units_<type>: the products of n_unit units from u on */
#define UNITS(fn)                                                                                                                                \
    static inline __attribute__((always_inline)) void units_##fn(lanes part[8], const uint8_t *b, const struct direct *d, uint32_t u, const uint32_t n_unit) \
    {                                                                                                                                            \
        for (uint32_t i = 0; i < n_unit; i++)                                                                                                    \
            part[i] = unit_dot(unit_##fn(b, u + i), d->x[u + i]);                                                                                \
    }
UNITS(q8_0)
UNITS(q4_0)
UNITS(q5_0)
UNITS(q5_1)
UNITS(iq4_nl)
UNITS(q4_k)
#undef UNITS
#include "gpu/cpu_direct_iq3_s.h"

/* 16 floats of each of four rows, `pitch` floats apart: number 4 i + j of the rows is 128 bits i of out[j] */
static inline void turn(__m512 out[4], const float *from, size_t pitch)
{
    __m512 a = _mm512_loadu_ps(from), b = _mm512_loadu_ps(from + pitch), c = _mm512_loadu_ps(from + 2 * pitch), d = _mm512_loadu_ps(from + 3 * pitch);
    __m512d ab0 = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), ab1 = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
    __m512d cd0 = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)), cd1 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab0, cd0));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab0, cd0));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab1, cd1));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab1, cd1));
}

/* The chains of n_row rows, n groups of the 16 from g on; see above. Four rows make one chain, whose operations wait for each other. */
static inline __attribute__((always_inline)) void direct_chain(__m128 acc[DIRECT_ROWS / 4], const struct direct *d, const struct direct_groups *of, size_t pitch,
                                                               uint32_t g, uint32_t n, const uint32_t n_row, const bool has_min)
{
    __m512 value[DIRECT_ROWS / 4][4], scale[DIRECT_ROWS / 4][4], min[DIRECT_ROWS / 4][4];
    for (uint32_t k = 0; k < n_row / 4; k++) {
        turn(value[k], of->value + 4 * k * pitch + g, pitch);
        turn(scale[k], of->scale + 4 * k * pitch + g, pitch);
        if (has_min)
            turn(min[k], of->min + 4 * k * pitch + g, pitch);
    }
#define QUARTER(x, i) _mm512_extractf32x4_ps(x[k][(i) % 4], (i) / 4)
#define STEP(i)                                                                                                                        \
    for (uint32_t k = 0; k < n_row / 4 && (i) < n; k++) {                                                                              \
        acc[k] = _mm_fmadd_ps(QUARTER(scale, i), QUARTER(value, i), acc[k]);                                                           \
        if (has_min)                                                                                                                   \
            acc[k] = _mm_fmadd_ps(QUARTER(min, i), _mm_set1_ps(d->x_bias[g + (i)]), acc[k]);                                           \
    }
    STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11) STEP(12) STEP(13) STEP(14) STEP(15)
#undef STEP
#undef QUARTER
}

/* The sums of n_row rows, whose chains advance while the weights of the next rows are read: alone they would wait for each other. */
struct direct_sums {
    const struct direct_groups *of; /* NULL: no rows yet */
    __m128 acc[DIRECT_ROWS / 4];
    uint32_t g;
};
static inline __attribute__((always_inline)) void sums_advance(struct direct_sums *s, const struct direct *d, uint32_t groups, const uint32_t n_row, const bool has_min)
{
    if (!s->of || s->g + 16 > groups)
        return;
    direct_chain(s->acc, d, s->of, groups, s->g, 16, n_row, has_min);
    s->g += 16;
}
static inline __attribute__((always_inline)) void sums_end(struct direct_sums *s, const struct direct *d, uint32_t groups, const uint32_t n_row, const bool has_min, float *sum)
{
    while (s->g + 16 <= groups)
        sums_advance(s, d, groups, n_row, has_min);
    if (s->g < groups)
        direct_chain(s->acc, d, s->of, groups, s->g, groups - s->g, n_row, has_min);
    for (uint32_t k = 0; k < n_row / 4; k++)
        _mm_storeu_ps(sum + 4 * k, s->acc[k]);
}

/* type, instructions beyond those of the file, minima, what its bytes have added (q + add) as a power of two (none: 8), bytes of four units, and of how many rows
 * the groups wait: what a few rows leave behind must still be in the nearest cache when it is read, but four rows make one chain, whose operations wait for
 * each other */
#define DIRECT_TYPES(X)                                                                                                              \
    X(Q8_0, q8_0, , false, 7, 272, 4) X(Q4_0, q4_0, , false, 3, 144, 8) X(Q5_0, q5_0, , false, 4, 176, 8) X(Q5_1, q5_1, , true, 8, 192, 8) \
    X(IQ4_NL, iq4_nl, , false, 7, 144, 8) X(IQ3_S, iq3_s, DIRECT_VBMI, false, 4, 110, 8) X(Q4_K, q4_k, , true, 8, 144, 8)

/* direct_units: up to eight units from u on, whose groups go to `at` and after. bias32 is -128 times the sum of x over a group. */
#define DIRECT(ID, fn, isa, has_min, log_add, four_units, n_row)                                                                         \
    isa static inline __attribute__((always_inline)) void direct_units_##fn(const uint8_t *b, struct direct *d, struct direct_groups *to, uint32_t u, \
                                                                               const uint32_t n_unit, size_t at)                         \
    {                                                                                                                                    \
        lanes part[8];                                                                                                                   \
        open_ahead(&d->ahead, b + (size_t)u * (four_units) / 4, (size_t)n_unit * (four_units) / 4);                                                                             \
        units_##fn(part, b, d, u, n_unit);                                                                                               \
        for (uint32_t i = n_unit; i < 8; i++)                                                                                            \
            part[i] = _mm512_setzero_si512();                                                                                            \
        lanes sum = fold_groups(part);                                                                                                   \
        if ((log_add) < 8)                                                                                                               \
            sum = _mm512_add_epi32(sum, _mm512_srai_epi32(_mm512_loadu_si512(d->bias32 + 2 * u), 7 - (log_add) % 8));                    \
        __m512 min = _mm512_setzero_ps(), scale = scales_##fn(b, 2 * u, 2 * n_unit, &min);                                               \
        _mm512_storeu_ps(to->value + at, _mm512_cvtepi32_ps(sum));                                                                        \
        _mm512_storeu_ps(to->scale + at, _mm512_mul_ps(scale, _mm512_loadu_ps(d->x_scale + 2 * u)));                                      \
        if (has_min)                                                                                                                     \
            _mm512_storeu_ps(to->min + at, _mm512_mul_ps(min, _mm512_set1_ps(1.0f / 128)));                                               \
    }                                                                                                                                    \
    /* n_row rows from b on, whose groups go to `to` */                                                                                  \
    isa static void direct_rows_##fn(struct direct *d, const uint8_t *b, size_t pitch, uint32_t n, struct direct_groups *to, struct direct_sums *before) \
    {                                                                                                                                    \
        uint32_t n_unit = d->repeat * (n / 64), u, call = 0;                                                                             \
        for (uint32_t r = 0; r < (n_row); r += d->repeat, b += d->repeat * pitch) {                                                      \
            size_t at = (size_t)r * (n / 32);                                                                                            \
            for (u = 0; u + 8 <= n_unit; u += 8) {                                                                                       \
                direct_units_##fn(b, d, to, u, 8, at + 2 * u);                                                                           \
                if (++call % (n_row) == 0)                                                                                               \
                    sums_advance(before, d, n / 32, n_row, has_min);                                                                     \
            }                                                                                                                            \
            if (u < n_unit) /* what is written too much belongs to the next row, which comes later */                                    \
                direct_units_##fn(b, d, to, u, n_unit - u, at + 2 * u);                                                                  \
        }                                                                                                                                \
    }
DIRECT_TYPES(DIRECT)
#undef DIRECT

/* Whether a matrix of this type and width is for direct_products */
static inline bool direct_takes(uint32_t type, uint32_t n)
{
    switch (type) {
    case QUANT_IQ3_S: return n % 256 == 0 && n <= DIRECT_COLUMNS && __builtin_cpu_supports("avx512vbmi");
    case QUANT_Q4_K: return n % 256 == 0 && n <= DIRECT_COLUMNS;
    case QUANT_Q8_0: case QUANT_Q4_0: case QUANT_Q5_0: case QUANT_Q5_1: case QUANT_IQ4_NL: return n % 64 == 0 && n <= DIRECT_COLUMNS;
    }
    return false;
}

/* sum[i] = row i at data, pitch bytes apart . x, of n values; i < n_row_all, a multiple of 32. next: as for int_products */
static void direct_products(struct direct *d, uint32_t type, const uint8_t *data, size_t pitch, uint32_t n_row_all, const uint8_t *x, uint32_t n, const uint8_t *next, float *sum)
{
    struct direct_sums before = { 0 };
    open_begin(&d->ahead, data, n_row_all * pitch, next);
    if (type == QUANT_IQ3_S)
        direct_grid(d);
    switch (type) {
#define DIRECT(ID, fn, isa, has_min, log_add, four_units, n_row)                                                          \
    case QUANT_##ID:                                                                                                      \
        d->repeat = quant_type(type)->block_bytes * (size_t)(n / quant_type(type)->block_len) == pitch ? direct_repeat(n, n_row) : 1; \
        direct_begin(d, x, n);                                                                                            \
        for (uint32_t r = 0; r < n_row_all; r += (n_row)) {                                                               \
            struct direct_groups *to = &d->groups[r / (n_row) % 2];                                                       \
            direct_rows_##fn(d, data + r * pitch, pitch, n, to, &before);                                                 \
            if (r)                                                                                                        \
                sums_end(&before, d, n / 32, n_row, has_min, sum + r - (n_row));                                          \
            before = (struct direct_sums){ .of = to };                                                                    \
        }                                                                                                                 \
        sums_end(&before, d, n / 32, n_row, has_min, sum + n_row_all - (n_row));                                          \
        break;
        DIRECT_TYPES(DIRECT)
#undef DIRECT
    }
}

#endif
