/* unit_quant.c - block formats: the golden blocks bit for bit, sizes, code books, binary16. */
#include "gpu/quant.h"
#include "gpu/cpu_decode.h"
#include "tests/test.h"

#include <inttypes.h>
#include <math.h>

/* Pairs of lines: "name id weights bytes hex", then the decoded weights */
static void golden_blocks(void)
{
    static char line[16384];
    static bool seen[QUANT_ID_LIMIT];
    FILE *f = fopen("tests/data/quant_vectors.txt", "r");
    int pairs = 0;
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        char name[32], hex[1024];
        unsigned id, len, bytes;
        CHECK(sscanf(line, "%31s %u %u %u %1023s", name, &id, &len, &bytes, hex) == 5);
        const struct quant_type *t = quant_type(id);
        CHECK(t && strcmp(t->name, name) == 0 && t->block_len == len && t->block_bytes == bytes && strlen(hex) == 2 * bytes);
        CHECK(fgets(line, sizeof line, f) != NULL);
        if (!t || !t->decode)
            continue;
        seen[id] = true;
        pairs++;
        uint8_t buf[2 * 300 + 1];
        for (int shift = 0; shift < 2; shift++) { /* two blocks in a row, at an even and at an odd address */
            for (unsigned i = 0; i < bytes; i++) {
                unsigned x;
                sscanf(hex + 2 * i, "%2x", &x);
                buf[shift + i] = buf[shift + bytes + i] = (uint8_t)x;
            }
            float y[2 * 256 + 1], guard = 12345;
            y[2 * len] = guard;
            t->decode(buf + shift, y, 2 * (size_t)len);
            CHECK(y[2 * len] == guard);
            const char *p = line;
            for (unsigned i = 0; i < len; i++) {
                char *end;
                float want = strtof(p, &end);
                CHECK(end != p && y[i] == want && y[len + i] == want);
                p = end;
            }
        }
    }
    if (f)
        fclose(f);
    CHECK(pairs == 50);
#define SEEN(ID, fn, len, bytes) CHECK(seen[QUANT_##ID] || QUANT_##ID == QUANT_F32 || QUANT_##ID == QUANT_F16 || QUANT_##ID == QUANT_BF16);
    QUANT_DECODERS(SEEN)
#undef SEEN
}

static void half(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        uint32_t e = h >> 10 & 31, m = h & 1023;
        double want = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
        if (h & 0x8000)
            want = -want;
        float got = f16_to_f32((uint16_t)h);
        uint8_t b[2] = { (uint8_t)h, (uint8_t)(h >> 8) };
        float y;
        decode_f16(b, &y, 1);
        if (isnan(want)) {
            CHECK(isnan(got) && isnan(y));
            CHECK((f32_to_f16(got) & 0x7c00) == 0x7c00 && (f32_to_f16(got) & 0x3ff));
            continue;
        }
        CHECK(got == (float)want && !!signbit(got) == !!(h & 0x8000) && memcmp(&got, &y, 4) == 0);
        CHECK(f32_to_f16(got) == h);
        if (e < 30) { /* between this value and the next: nearest, and the even one from the middle */
            float next = f16_to_f32((uint16_t)(h + 1)), mid = (got + next) / 2;
            CHECK(f32_to_f16(mid) == (h & 1 ? h + 1 : h));
            CHECK(f32_to_f16(nextafterf(mid, got)) == h && f32_to_f16(nextafterf(mid, next)) == h + 1);
        }
    }
    CHECK(f32_to_f16(65519.996f) == 0x7bff && f32_to_f16(65520.0f) == 0x7c00 && f32_to_f16(-1e30f) == 0xfc00);
    CHECK(f32_to_f16(1e-30f) == 0 && f32_to_f16(-1e-30f) == 0x8000 && f32_to_f16(0x1p-25f) == 0 && f32_to_f16(0x1.8p-25f) == 1);

    static const uint8_t bf16[8] = { 0x80, 0x3f, 0x00, 0xc0, 0x01, 0x00, 0x80, 0x7f };
    float y[4];
    decode_bf16(bf16, y, 4);
    CHECK(y[0] == 1 && y[1] == -2 && y[2] == 0x1p-133f && y[3] == INFINITY);
    static const float plain[3] = { 1.5f, -0.0f, 3e38f };
    decode_f32((const uint8_t *)plain, y, 3);
    CHECK(memcmp(plain, y, sizeof plain) == 0);
    CHECK(e8m0_half(0) == 0x1p-128f && e8m0_half(1) == 0x1p-127f && e8m0_half(2) == 0x1p-126f && e8m0_half(128) == 1 && e8m0_half(254) == 0x1p126f);
    CHECK(ue4m3_half(0) == 0 && ue4m3_half(0x7f) == 0 && ue4m3_half(1) == 0x1p-10f && ue4m3_half(0x38) == 0.5f && ue4m3_half(0xb8) == 0.5f &&
          ue4m3_half(0x7e) == 224);
}

/* FNV-1a over components, one byte each */
static uint64_t fnv(const void *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3;
    return h;
}

static void tables(void)
{
    CHECK(fnv(iq2xxs_grid, sizeof iq2xxs_grid) == 0xbb4ee025b5ac6e8e);
    CHECK(fnv(iq2xs_grid, sizeof iq2xs_grid) == 0xc9b1ee61e79909bd);
    CHECK(fnv(iq2s_grid, sizeof iq2s_grid) == 0x123edd38a3b62b90);
    CHECK(fnv(iq3xxs_grid, sizeof iq3xxs_grid) == 0xdfa5dc83d6a155d5);
    CHECK(fnv(iq3s_grid, sizeof iq3s_grid) == 0xfa37020c25b44829);
    CHECK(fnv(iq1s_grid, sizeof iq1s_grid) == 0x6703ed863501ae2e);
    CHECK(fnv(kvalues_iq4nl, 16) == 0x055d06d2d8fa0f75);
    CHECK(fnv(kvalues_e2m1x2, 16) == 0x3f0e3c08af1e5eb5);
    uint8_t signs[128];
    for (uint32_t i = 0; i < 128; i++)
        signs[i] = (uint8_t)even_signs(i);
    CHECK(fnv(signs, 128) == 0xf19ba8f8c3292ba5);

    /* id, weights per block, bytes per block: spec page "quants" section 1 */
    static const struct { uint32_t id, len, bytes; } size[] = {
        { 0, 1, 4 }, { 1, 1, 2 }, { 2, 32, 18 }, { 3, 32, 20 }, { 6, 32, 22 }, { 7, 32, 24 }, { 8, 32, 34 }, { 9, 32, 36 }, { 10, 256, 84 },
        { 11, 256, 110 }, { 12, 256, 144 }, { 13, 256, 176 }, { 14, 256, 210 }, { 15, 256, 292 }, { 16, 256, 66 }, { 17, 256, 74 },
        { 18, 256, 98 }, { 19, 256, 50 }, { 20, 32, 18 }, { 21, 256, 110 }, { 22, 256, 82 }, { 23, 256, 136 }, { 24, 1, 1 }, { 25, 1, 2 },
        { 26, 1, 4 }, { 27, 1, 8 }, { 28, 1, 8 }, { 29, 256, 56 }, { 30, 1, 2 }, { 34, 256, 54 }, { 35, 256, 66 }, { 39, 32, 17 },
        { 40, 64, 36 }, { 41, 128, 18 }, { 42, 64, 18 },
    };
    uint32_t known = 0;
    for (size_t i = 0; i < COUNT_OF(size); i++) {
        const struct quant_type *t = quant_type(size[i].id);
        CHECK(t && t->id == size[i].id && t->block_len == size[i].len && t->block_bytes == size[i].bytes);
    }
    for (uint32_t id = 0; id < 70000; id++)
        known += quant_type(id) != NULL;
    CHECK(known == COUNT_OF(size) && !quant_type(UINT32_MAX));
    CHECK(strstr(quant_foreign_name(101), "ROCMFP4_FAST") && strstr(quant_foreign_name(4), "removed") && !strcmp(quant_foreign_name(999), "unknown"));
}

/* The integer form of every type that has one against the reference: the same bits on random blocks (this file is compiled without contraction) */
static void unpackers(void)
{
    uint64_t x = test_seed(3);
    for (uint32_t id = 0; id < QUANT_ID_LIMIT; id++) {
        const struct quant_type *t = quant_type(id);
        if (!t || !t->decode)
            continue;
        CHECK(fast_decoder(id) != NULL);
        for (int round = 0; round < 300; round++) {
            uint8_t b[2 * 300];
            float want[512], got[512];
            for (size_t i = 0; i < sizeof b; i++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                b[i] = (uint8_t)(x >> 32);
            }
            size_t n = 2 * (size_t)t->block_len;
            t->decode(b, want, n);
            fast_decoder(id)(b, got, n);
            bool same = true;
            for (size_t i = 0; i < n; i++)
                same &= want[i] == got[i] || isnan(want[i]) || (isinf(want[i]) && isnan(got[i]));
            CHECK(same);
        }
    }
}

int main(void)
{
    unpackers();
    golden_blocks();
    half();
    tables();
    return TEST_END();
}
