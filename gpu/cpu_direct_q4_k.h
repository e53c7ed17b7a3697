/* cpu_direct_q4_k.h - blocks of Q4_K row after row, a part of cpu_direct.h. 32 bytes hold 64 columns: a group in the low halves, the next in the high ones. */

static inline lanes unit_q4_k(const uint8_t *b, uint32_t u)
{
    lanes z = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(b + 144 * (size_t)(u / 4) + 16 + 32 * (u % 4))));
    return both(_mm512_srlv_epi64(z, _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0)), bytes(15));
}

/* The eight scales and minima of a block, six bits each, as bytes; see k_scale() and k_min() */
static inline uint64_t q4_k_scales(const uint8_t *b)
{
    uint32_t low = q_u32(b + 4), high = q_u32(b + 12);
    return (low & 0x3f3f3f3f) | (uint64_t)((high & 0x0f0f0f0f) | (low >> 2 & 0x30303030)) << 32;
}
static inline uint64_t q4_k_mins(const uint8_t *b)
{
    uint32_t low = q_u32(b + 8), high = q_u32(b + 12) >> 4;
    return (low & 0x3f3f3f3f) | (uint64_t)((high & 0x0f0f0f0f) | (low >> 2 & 0x30303030)) << 32;
}

/* Bytes of two blocks times the number that each block has at `at` */
static inline __m512 q4_k_times(const uint8_t *b, const uint8_t *second, uint32_t at, uint64_t x, uint64_t y)
{
    __m512 d = _mm512_mask_mov_ps(_mm512_set1_ps(q_f16(b + at)), 0xff00, _mm512_set1_ps(q_f16(second + at)));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_set_epi64x((long long)y, (long long)x))));
}

/* Of one block (n 8) or two */
static inline __attribute__((always_inline)) __m512 scales_q4_k(const uint8_t *b, uint32_t g, uint32_t n, __m512 *min)
{
    b += 144 * (size_t)(g / 8);
    const uint8_t *second = n > 8 ? b + 144 : b;
    *min = q4_k_times(b, second, 2, q4_k_mins(b), q4_k_mins(second));
    return q4_k_times(b, second, 0, q4_k_scales(b), q4_k_scales(second));
}
