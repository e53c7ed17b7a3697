/* quant.h - weight block formats of a GGUF file: what each is called, how big it is, how it is decoded.
 *
 * A row of weights is a run of blocks of block_len weights and block_bytes bytes each, without alignment.
 * Layouts and formulas: spec page "quants"; code books: the IQ grids in quant_grids.h. Decoding is exact: the golden
 * blocks in tests/data/quant_vectors.txt are equal bit for bit. */
#ifndef HAYATE_GPU_QUANT_H
#define HAYATE_GPU_QUANT_H

#include "gpu/base.h"

/* ids as stored in the file (ggml type ids) */
enum quant_id {
    QUANT_F32 = 0, QUANT_F16 = 1, QUANT_Q4_0 = 2, QUANT_Q4_1 = 3, QUANT_Q5_0 = 6, QUANT_Q5_1 = 7, QUANT_Q8_0 = 8,
    QUANT_Q8_1 = 9, QUANT_Q2_K = 10, QUANT_Q3_K = 11, QUANT_Q4_K = 12, QUANT_Q5_K = 13, QUANT_Q6_K = 14, QUANT_Q8_K = 15,
    QUANT_IQ2_XXS = 16, QUANT_IQ2_XS = 17, QUANT_IQ3_XXS = 18, QUANT_IQ1_S = 19, QUANT_IQ4_NL = 20, QUANT_IQ3_S = 21,
    QUANT_IQ2_S = 22, QUANT_IQ4_XS = 23, QUANT_I8 = 24, QUANT_I16 = 25, QUANT_I32 = 26, QUANT_I64 = 27, QUANT_F64 = 28,
    QUANT_IQ1_M = 29, QUANT_BF16 = 30, QUANT_TQ1_0 = 34, QUANT_TQ2_0 = 35, QUANT_MXFP4 = 39, QUANT_NVFP4 = 40,
    QUANT_Q1_0 = 41, QUANT_Q2_0 = 42,
    QUANT_ID_LIMIT = 64,
};

/* Decodes n weights (a multiple of block_len) that start at a block boundary to f32. src has no alignment. */
typedef void (*quant_decode_fn)(const uint8_t *src, float *dst, size_t n);

struct quant_type {
    uint32_t id;
    const char *name;      /* "Q4_K" */
    uint16_t block_len;    /* weights per block */
    uint16_t block_bytes;
    quant_decode_fn decode; /* the plain C reference; NULL for plain integers, F64 and activation-only types: known sizes, not weights */
};

/* The type with this id, or NULL when the id is unknown. */
const struct quant_type *quant_type(uint32_t id);
/* Whether blocks of this type are small integers with scales (quant_unpack.h). */
bool quant_unpacks(uint32_t id);
/* For a message about an unknown id: the name of a removed type or of a private fork's type ("ROCmFPX Q4_0_ROCMFP4"),
 * "unknown" otherwise. */
const char *quant_foreign_name(uint32_t id);

/* Bytes of n weights (n a multiple of block_len, checked by the caller). */
static inline size_t quant_row_bytes(const struct quant_type *t, size_t n) { return n / t->block_len * t->block_bytes; }

/* IEEE binary16 <-> binary32; exact, subnormals and NaN included; f32_to_f16 rounds to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);

#endif
