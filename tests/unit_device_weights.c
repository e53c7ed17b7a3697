/* unit_device_weights.c - packing into device layouts changes no weight: every type, random blocks, bit for bit where the layout is the
 * file's own, within one rounding where a type goes to I8. */
#include "gpu/device_weights.h"
#include "tests/test.h"

#include <math.h>

static uint64_t rng = 88172645463325252u;
static uint32_t rnd(void)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (uint32_t)(rng >> 32);
}

static void check_type(uint32_t id, bool common)
{
    const struct quant_type *t = quant_type(id);
    uint32_t dev = device_type_of(id, common);
    for (int round = 0; round < 20; round++) {
        size_t block = t->block_len < 16 ? 16 : t->block_len, n = block * (1 + rnd() % 9), bytes = quant_row_bytes(t, n), packed = device_row_bytes(dev, n);
        uint8_t *src = malloc(bytes), *dst = malloc(packed + 8);
        float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got), *tmp = malloc(n * sizeof *tmp);
        for (size_t i = 0; i < bytes; i++)
            src[i] = (uint8_t)rnd();
        memset(dst, 0xa5, packed + 8);
        t->decode(src, want, n);
        device_pack_row(dev, id, src, dst, n, tmp);
        device_unpack_row(dev, dst, got, n);
        CHECK(packed % 16 == 0 && dst[packed] == 0xa5 && dst[packed + 7] == 0xa5);
        size_t bad = 0;
        for (size_t i = 0; i < n; i++)
            if (dev == DEV_I8 || dev == DEV_Q6_K) /* scale times scale may be rounded in another order */
                bad += !(fabsf(got[i] - want[i]) <= 3e-6f * fabsf(want[i]) + 1e-6f * fabsf(want[i ? i - 1 : 0]) || memcmp(&got[i], &want[i], 4) == 0 ||
                         (!isfinite(got[i]) && !isfinite(want[i])));
            else
                bad += memcmp(&got[i], &want[i], 4) != 0 && !(isnan(got[i]) && isnan(want[i]));
        if (bad)
            printf("%s -> %s, n %zu: %zu of %zu differ\n", t->name, device_type_name(dev), n, bad, n);
        CHECK(bad == 0);
        free(src), free(dst), free(want), free(got), free(tmp);
    }
}

int main(void)
{
    for (uint32_t id = 0; id < QUANT_ID_LIMIT; id++)
        if (quant_type(id) && quant_type(id)->decode) {
            check_type(id, false);
            check_type(id, true);
        }
    return TEST_END();
}
