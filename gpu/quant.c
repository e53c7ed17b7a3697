/* quant.c - the table of block formats; binary16 in plain arithmetic. */
#include "gpu/quant.h"

#include "gpu/quant_unpack.h"

static const struct quant_type type[QUANT_ID_LIMIT] = {
#define ROW(ID, fn, len, bytes) [QUANT_##ID] = { QUANT_##ID, #ID, len, bytes, decode_##fn },
    QUANT_DECODERS(ROW)
#undef ROW
    /* known sizes, not weights: activation formats and plain numbers */
    [QUANT_Q8_1] = { QUANT_Q8_1, "Q8_1", 32, 36, NULL },  [QUANT_Q8_K] = { QUANT_Q8_K, "Q8_K", 256, 292, NULL },
    [QUANT_I8] = { QUANT_I8, "I8", 1, 1, NULL },          [QUANT_I16] = { QUANT_I16, "I16", 1, 2, NULL },
    [QUANT_I32] = { QUANT_I32, "I32", 1, 4, NULL },       [QUANT_I64] = { QUANT_I64, "I64", 1, 8, NULL },
    [QUANT_F64] = { QUANT_F64, "F64", 1, 8, NULL },
};

const struct quant_type *quant_type(uint32_t id) { return id < QUANT_ID_LIMIT && type[id].name ? &type[id] : NULL; }

bool quant_unpacks(uint32_t id)
{
    static const bool unpacks[QUANT_ID_LIMIT] = {
#define UNPACKS(ID, fn, len, bytes) [QUANT_##ID] = true,
        QUANT_UNPACKERS(UNPACKS)
#undef UNPACKS
    };
    return id < QUANT_ID_LIMIT && unpacks[id];
}

const char *quant_foreign_name(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } foreign[] = {
        { 4, "Q4_2, removed from the format" },       { 5, "Q4_3, removed from the format" },
        { 31, "Q4_0_4_4, removed from the format" },  { 32, "Q4_0_4_8, removed from the format" },
        { 33, "Q4_0_8_8, removed from the format" },  { 36, "IQ4_NL_4_4, removed from the format" },
        { 37, "IQ4_NL_4_8, removed from the format" }, { 38, "IQ4_NL_8_8, removed from the format" },
        { 100, "ROCmFPX private type Q4_0_ROCMFP4" }, { 101, "ROCmFPX private type Q4_0_ROCMFP4_FAST" },
        { 102, "ROCmFPX private type Q6_0_ROCMFPX" }, { 103, "ROCmFPX private type Q8_0_ROCMFPX" },
        { 104, "ROCmFPX private type Q3_0_ROCMFPX" }, { 105, "ROCmFPX private type TurboQuant KV" },
        { 106, "ROCmFPX private type TurboQuant KV" }, { 107, "ROCmFPX private type Q2_0_ROCMFPX" },
        { 108, "ROCmFPX private type Q4_0_ROCMI4" },  { 109, "ROCmFPX private type Q5_0_ROCMFPX" },
        { 110, "ROCmFPX private type Q7_0_ROCMFPX" },
    };
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (foreign[i].id == id)
            return foreign[i].name;
    return "unknown";
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 0) { /* m * 2^-24 is exact in f32 */
        float f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    return q_bits(sign | (e == 31 ? 255u : e + 112) << 23 | m << 13);
}

uint16_t f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    uint32_t a = u & 0x7fffffff;
    if (a > 0x7f800000) /* NaN stays NaN, quiet, with its upper payload */
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) /* 65520 and up round to infinity */
        return sign | 0x7c00;
    if (a < 0x38800000) { /* below 2^-14: a multiple of 2^-24; adding 0.5 leaves the rounded multiple in the mantissa */
        float r = q_bits(a) + 0.5f;
        memcpy(&u, &r, sizeof u);
        return (uint16_t)(sign | (u - 0x3f000000));
    }
    a += 0x0fff + (a >> 13 & 1); /* to nearest, ties to even */
    return (uint16_t)(sign | (a - 0x38000000) >> 13);
}
