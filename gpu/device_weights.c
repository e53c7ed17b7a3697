/* device_weights.c - packs rows of the file's block formats into device layouts, and decodes those again. */
#include "gpu/device_weights.h"

#include "gpu/quant_unpack.h"

#include <assert.h>
#include <string.h>

/* Bytes of a plane: `per` bytes for every `weights` weights. */
#define PLANE(n, per, weights) ((n) / (weights) * (per))

size_t device_row_bytes(uint32_t type, size_t n)
{
    size_t b;
    switch (type) {
    case DEV_F32: b = 4 * n; break;
    case DEV_F16: case DEV_BF16: b = 2 * n; break;
    case DEV_Q8_0: b = n + PLANE(n, 2, 32); break;
    case DEV_I8: b = n + PLANE(n, 8, 16); break;
    case DEV_Q4_K: b = PLANE(n, 144, 256); break;
    case DEV_Q5_K: b = PLANE(n, 176, 256); break;
    case DEV_Q5_1: b = PLANE(n, 24, 32); break;
    case DEV_Q6_K: b = PLANE(n, 210, 256); break;
    case DEV_IQ4_NL: b = PLANE(n, 18, 32); break;
    case DEV_IQ3_S: b = PLANE(n, 110, 256); break;
    default: assert(!"device type"); return 0;
    }
    return size_up(b, 16);
}

const char *device_type_name(uint32_t type)
{
    static const char *const name[DEV_COUNT] = { "F32", "F16", "BF16", "Q8_0", "I8", "Q4_K", "Q5_K", "Q5_1", "Q6_K", "IQ4_NL", "IQ3_S" };
    return type < DEV_COUNT ? name[type] : "?";
}

uint32_t device_type_of(uint32_t quant_id, bool common)
{
    switch (quant_id) {
    case QUANT_F32: return DEV_F32;
    case QUANT_F16: return DEV_F16;
    case QUANT_BF16: return DEV_BF16;
    case QUANT_Q8_0: return DEV_Q8_0;
    case QUANT_TQ1_0: case QUANT_Q1_0: case QUANT_Q2_0: return DEV_F32; /* nothing unpacks these to integers */
    case QUANT_Q4_K: return common ? DEV_I8 : DEV_Q4_K;
    case QUANT_Q5_K: return common ? DEV_I8 : DEV_Q5_K;
    case QUANT_Q5_1: return common ? DEV_I8 : DEV_Q5_1;
    case QUANT_Q6_K: return common ? DEV_I8 : DEV_Q6_K;
    case QUANT_IQ4_NL: return common ? DEV_I8 : DEV_IQ4_NL;
    case QUANT_IQ3_S: return common ? DEV_I8 : DEV_IQ3_S;
    default: return DEV_I8;
    }
}

bool device_narrows(const uint8_t *src, size_t n)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= q_u32(src + 4 * i);
    return (any & 0xffff) == 0;
}

/* ---- packing ---- */

/* One block as integers; false for a type that has no such form. */
static bool unpack_block(uint32_t quant_id, const uint8_t *block, struct unpacked o)
{
    switch (quant_id) {
#define CASE(ID, fn, len, bytes) case QUANT_##ID: unpack_##fn(block, o); return true;
    QUANT_UNPACKERS(CASE)
#undef CASE
    default: return false;
    }
}

/* 16 numbers 0..15 to 8 bytes: b in the lower, b + 8 in the upper half */
static void put_nibbles(uint8_t dst[8], const int8_t q[16])
{
    for (int b = 0; b < 8; b++)
        dst[b] = (uint8_t)((q[b] & 15) | (q[b + 8] & 15) << 4);
}
static void put_fifth_bits(uint8_t dst[2], const int8_t q[16])
{
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint32_t)(q[i] >> 4 & 1) << i;
    dst[0] = (uint8_t)bits, dst[1] = (uint8_t)(bits >> 8);
}
static void put_upper_pairs(uint8_t dst[4], const int8_t q[16])
{
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint32_t)(q[i] >> 4 & 3) << 2 * i;
    memcpy(dst, &bits, 4);
}

struct row { /* one row on its way */
    uint32_t quant_id;
    const struct quant_type *t;
    const uint8_t *src;
    uint8_t *dst;
    size_t n;
};

/* Types made of nibbles and more bits: each block unpacked, its integers put into the planes. */
static void pack_integers(const struct row *r, uint8_t *nibbles, uint8_t *fifth, uint8_t *pairs)
{
    int8_t q[256] = { 0 };
    float scale[16] = { 0 }, min[16] = { 0 };
    for (size_t at = 0; at < r->n; at += r->t->block_len) {
        unpack_block(r->quant_id, r->src + at / r->t->block_len * r->t->block_bytes, (struct unpacked){ q, scale, min });
        for (size_t i = 0; i < r->t->block_len; i += 16) {
            size_t c = (at + i) / 16;
            int8_t chunk[16];
            for (int k = 0; k < 16; k++)
                chunk[k] = (int8_t)(q[i + k] + (pairs ? 32 : 0)); /* Q6_K counts from -32 */
            put_nibbles(nibbles + 8 * c, chunk);
            if (fifth)
                put_fifth_bits(fifth + 2 * c, chunk);
            if (pairs)
                put_upper_pairs(pairs + 4 * c, chunk);
        }
    }
}

/* A field of every block, from byte `at` of it, to a plane. */
static void pack_field(const struct row *r, size_t at, size_t bytes, uint8_t *plane)
{
    for (size_t b = 0; b < r->n / r->t->block_len; b++)
        memcpy(plane + b * bytes, r->src + b * r->t->block_bytes + at, bytes);
}

static void pack_iq4_nl(const struct row *r)
{
    pack_field(r, 0, 2, r->dst + PLANE(r->n, 8, 16));
    for (size_t b = 0; b < r->n / 32; b++) {
        const uint8_t *qs = r->src + 18 * b + 2;
        int8_t q[32];
        for (int j = 0; j < 16; j++)
            q[j] = qs[j] & 15, q[j + 16] = (int8_t)(qs[j] >> 4);
        put_nibbles(r->dst + 16 * b, q);
        put_nibbles(r->dst + 16 * b + 8, q + 16);
    }
}

static void pack_i8(const struct row *r)
{
    float scale[16] = { 0 }, min[16] = { 0 };
    for (size_t at = 0; at < r->n; at += r->t->block_len) {
        unpack_block(r->quant_id, r->src + at / r->t->block_len * r->t->block_bytes, (struct unpacked){ (int8_t *)r->dst + at, scale, min });
        for (size_t i = 0; i < r->t->block_len / 16u; i++) {
            float pair[2] = { scale[i], -min[i] };
            memcpy(r->dst + r->n + 8 * (at / 16 + i), pair, sizeof pair);
        }
    }
}

void device_pack_row(uint32_t type, uint32_t quant_id, const uint8_t *src, uint8_t *dst, size_t n, float *tmp)
{
    const struct row r = { quant_id, quant_type(quant_id), src, dst, n };
    memset(dst, 0, device_row_bytes(type, n)); /* the end of a row that is no multiple of 16 bytes */
    switch (type) {
    case DEV_F32:
        if (quant_id != QUANT_F32)
            r.t->decode(src, tmp, n), src = (const uint8_t *)tmp;
        memcpy(dst, src, 4 * n);
        break;
    case DEV_F16: case DEV_BF16:
        if (quant_id == QUANT_F32)
            for (size_t i = 0; i < n; i++)
                memcpy(dst + 2 * i, src + 4 * i + 2, 2); /* the upper half: all there is */
        else
            memcpy(dst, src, 2 * n);
        break;
    case DEV_Q8_0:
        pack_field(&r, 2, 32, dst);
        pack_field(&r, 0, 2, dst + n);
        break;
    case DEV_I8: pack_i8(&r); break;
    case DEV_Q4_K:
        pack_field(&r, 0, 16, dst);
        pack_integers(&r, dst + PLANE(n, 16, 256), NULL, NULL);
        break;
    case DEV_Q5_K:
        pack_field(&r, 0, 16, dst);
        pack_integers(&r, dst + PLANE(n, 16, 256), dst + PLANE(n, 144, 256), NULL);
        break;
    case DEV_Q5_1:
        pack_field(&r, 0, 4, dst + PLANE(n, 8, 16));
        pack_integers(&r, dst, dst + PLANE(n, 20, 32), NULL);
        break;
    case DEV_Q6_K:
        pack_field(&r, 192, 16, dst + PLANE(n, 192, 256));
        pack_field(&r, 208, 2, dst + PLANE(n, 208, 256));
        pack_integers(&r, dst, NULL, dst + PLANE(n, 128, 256));
        break;
    case DEV_IQ4_NL: pack_iq4_nl(&r); break;
    case DEV_IQ3_S:
        pack_field(&r, 2, 64, dst);
        pack_field(&r, 74, 32, dst + PLANE(n, 64, 256));
        pack_field(&r, 66, 8, dst + PLANE(n, 96, 256));
        pack_field(&r, 106, 4, dst + PLANE(n, 104, 256));
        pack_field(&r, 0, 2, dst + PLANE(n, 108, 256));
        break;
    default: assert(!"device type");
    }
}

/* ---- decoding: chunk c of a row, as device_types.h draws it ---- */

static uint32_t nibble(const uint8_t *plane, size_t c, unsigned i) { return plane[8 * c + i % 8] >> 4 * (i / 8) & 15; }
static uint32_t fifth_bit(const uint8_t *plane, size_t c, unsigned i) { return (uint32_t)q_u16(plane + 2 * c) >> i & 1; }
static uint32_t upper_pair(const uint8_t *plane, size_t c, unsigned i) { return q_u32(plane + 4 * c) >> 2 * i & 3; }

static void unpack_k(const uint8_t *src, float *dst, size_t n, bool five)
{
    for (size_t c = 0; c < n / 16; c++) {
        const uint8_t *header = src + 16 * (c / 16);
        int sc, mn;
        k_scale_min(header + 4, (int)(c % 16 / 2), &sc, &mn);
        float d = q_f16(header) * (float)sc, m = q_f16(header + 2) * (float)mn;
        for (unsigned i = 0; i < 16; i++) {
            uint32_t q = nibble(src + PLANE(n, 16, 256), c, i) | (five ? fifth_bit(src + PLANE(n, 144, 256), c, i) << 4 : 0);
            dst[16 * c + i] = d * (float)q - m;
        }
    }
}

static void unpack_iq3(const uint8_t *src, float *dst, size_t n)
{
    const uint8_t *sign = src + PLANE(n, 64, 256), *ninth = src + PLANE(n, 96, 256), *scales = src + PLANE(n, 104, 256);
    for (size_t c = 0; c < n / 16; c++) {
        uint32_t s = scales[c / 4] >> 4 * (c / 2 % 2) & 15, high = ninth[c / 2] >> 4 * (c % 2);
        float d = q_f16(src + PLANE(n, 108, 256) + 2 * (c / 16)) * (float)(1 + 2 * s);
        for (unsigned i = 0; i < 16; i++) {
            uint32_t grid = iq3s_grid[src[4 * c + i / 4] | (high >> i / 4 & 1) << 8];
            float v = d * (float)(grid >> 8 * (i % 4) & 255);
            dst[16 * c + i] = q_u16(sign + 2 * c) >> i & 1 ? -v : v;
        }
    }
}

void device_unpack_row(uint32_t type, const uint8_t *src, float *dst, size_t n)
{
    for (size_t c = 0; c < n / 16; c++)
        for (unsigned i = 0; i < 16; i++) {
            float *w = &dst[16 * c + i], pair[2];
            switch (type) {
            case DEV_F32: memcpy(w, src + 4 * (16 * c + i), 4); break;
            case DEV_F16: *w = q_f16(src + 2 * (16 * c + i)); break;
            case DEV_BF16: *w = q_bits((uint32_t)q_u16(src + 2 * (16 * c + i)) << 16); break;
            case DEV_Q8_0: *w = q_f16(src + n + 2 * (c / 2)) * (float)(int8_t)src[16 * c + i]; break;
            case DEV_I8:
                memcpy(pair, src + n + 8 * c, sizeof pair);
                *w = pair[0] * (float)(int8_t)src[16 * c + i] + pair[1];
                break;
            case DEV_Q5_1:
                *w = q_f16(src + PLANE(n, 8, 16) + 4 * (c / 2)) * (float)(nibble(src, c, i) | fifth_bit(src + PLANE(n, 20, 32), c, i) << 4) +
                     q_f16(src + PLANE(n, 8, 16) + 4 * (c / 2) + 2);
                break;
            case DEV_Q6_K:
                *w = q_f16(src + PLANE(n, 208, 256) + 2 * (c / 16)) * (float)(int8_t)src[PLANE(n, 192, 256) + c] *
                     (float)((int)(nibble(src, c, i) | upper_pair(src + PLANE(n, 128, 256), c, i) << 4) - 32);
                break;
            case DEV_IQ4_NL: *w = q_f16(src + PLANE(n, 8, 16) + 2 * (c / 2)) * (float)kvalues_iq4nl[nibble(src, c, i)]; break;
            default: break;
            }
        }
    if (type == DEV_Q4_K || type == DEV_Q5_K)
        unpack_k(src, dst, n, type == DEV_Q5_K);
    if (type == DEV_IQ3_S)
        unpack_iq3(src, dst, n);
}
