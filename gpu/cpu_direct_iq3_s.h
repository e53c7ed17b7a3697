/* cpu_direct_iq3_s.h - blocks of IQ3_S row after row, a part of cpu_direct.h; AVX-512 with VBMI.
 *
 * A block has 64 indices of 9 bits, each the place of four magnitudes in a grid. The magnitudes are below 16, so that the grid is two tables of 512 bytes,
 * and one register looks up all bytes of a block: 7 bits of an index choose from two registers, the other two among the answers. */

#define DIRECT_VBMI __attribute__((target("avx512vbmi")))

/* Bytes of grid[0]: magnitudes 0 and 1 of every entry, in its low and high half; of grid[1]: 2 and 3 */
static void direct_grid(struct direct *d)
{
    for (int i = 0; i < 512; i += 16) {
        lanes x = _mm512_loadu_si512(iq3s_grid + i);
        x = _mm512_or_si512(x, down(x, 4));
        _mm_storeu_si128((__m128i *)(void *)(d->grid[0] + i), _mm512_cvtepi32_epi8(x));
        _mm_storeu_si128((__m128i *)(void *)(d->grid[1] + i), _mm512_cvtepi32_epi8(down(x, 16)));
    }
}

DIRECT_VBMI static inline __attribute__((always_inline)) lanes grid_bytes(const uint8_t grid[512], lanes at, __mmask64 eighth, __mmask64 ninth)
{
    lanes part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm512_permutex2var_epi8(_mm512_loadu_si512(grid + 128 * i), at, _mm512_loadu_si512(grid + 128 * i + 64));
    return _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(part[0], eighth, part[1]), ninth, _mm512_mask_mov_epi8(part[2], eighth, part[3]));
}

/* n_unit 4 or 8: whole blocks. The bytes are weights with 16 added. */
DIRECT_VBMI static inline __attribute__((always_inline)) void units_iq3_s(lanes part[8], const uint8_t *b, const struct direct *d, uint32_t u, const uint32_t n_unit)
{
    /* of the lanes of a pair of tables' answers, byte by byte in turn: those of 16 indices, two in the lower half of every 64 bits */
    const lanes lower = _mm512_set_epi32(19, 19, 18, 18, 17, 17, 16, 16, 3, 3, 2, 2, 1, 1, 0, 0), halves_at = _mm512_set1_epi64(0x1c1814100c080400);
    b += 110 * (size_t)(u / 4);
    for (uint32_t k = 0; k < n_unit; k += 4, b += 110) {
        lanes at = _mm512_loadu_si512(b + 2);
        __mmask64 eighth = _mm512_movepi8_mask(at), ninth = two_words(b + 66, b + 70);
        lanes one = grid_bytes(d->grid[0], at, eighth, ninth), two = grid_bytes(d->grid[1], at, eighth, ninth);
        lanes low = _mm512_unpacklo_epi8(one, two), high = _mm512_unpackhi_epi8(one, two);
        for (uint32_t i = 0; i < 4; i++) {
            lanes q = _mm512_permutex2var_epi32(low, _mm512_add_epi32(lower, all(4 * (int)i)), high);
            q = both(_mm512_multishift_epi64_epi8(halves_at, q), bytes(15));
            q = _mm512_mask_sub_epi8(_mm512_add_epi8(q, bytes(16)), two_words(b + 74 + 8 * i, b + 78 + 8 * i), bytes(16), q);
            part[k + i] = unit_dot(q, d->x[u + k + i]);
        }
    }
}

static inline __m512 scales_iq3_s(const uint8_t *b, uint32_t g, uint32_t n, __m512 *min)
{
    (void)min;
    b += 110 * (size_t)(g / 8);
    uint64_t four = two_words(b + 106, n > 8 ? b + 216 : b + 106);
    __m128i low = _mm_cvtsi64_si128((long long)(four & 0x0f0f0f0f0f0f0f0f)), high = _mm_cvtsi64_si128((long long)(four >> 4 & 0x0f0f0f0f0f0f0f0f));
    lanes scale = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(low, high));
    __m512 d = _mm512_mask_mov_ps(_mm512_set1_ps(q_f16(b)), 0xff00, _mm512_set1_ps(n > 8 ? q_f16(b + 110) : 0));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(scale, scale), all(1))));
}
