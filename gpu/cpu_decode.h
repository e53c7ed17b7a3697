/* cpu_decode.h - rows of weights as f32 for the twins, compiled for the instruction set of the including file. */
#ifndef HAYATE_GPU_CPU_DECODE_H
#define HAYATE_GPU_CPU_DECODE_H

#include "gpu/cpu_vec.h"
#include "gpu/gpu_args.h"
#include "gpu/quant_unpack.h"

/* decode_row_<type>: n weights, a multiple of the block length, through their integers */
#define DECODE_ROW(ID, fn, len, bytes)                                                          \
    static void decode_row_##fn(const uint8_t *restrict b, float *restrict y, size_t n)         \
    {                                                                                           \
        int8_t q[len];                                                                          \
        float scale[(len) / 16] = { 0 }, min[(len) / 16] = { 0 };                               \
        for (size_t k = 0; k < n / (len); k++, y += (len)) {                                    \
            unpack_##fn(b + k * (bytes), (struct unpacked){ q, scale, min });                   \
            for (int g = 0; g < (len) / 16; g++)                                                \
                v_store(y + 16 * g, v_set(scale[g]) * v_from_i8(q + 16 * g) - v_set(min[g]));   \
        }                                                                                       \
    }
QUANT_UNPACKERS(DECODE_ROW)
#undef DECODE_ROW

/* By type id; the few types that do not unpack use the reference's loop. */
static const quant_decode_fn isa_decode[QUANT_ID_LIMIT] = {
#define DECODE(ID, fn, len, bytes) [QUANT_##ID] = decode_##fn,
    QUANT_DECODERS(DECODE)
#undef DECODE
};
static const quant_decode_fn isa_decode_row[QUANT_ID_LIMIT] = {
#define DECODE_ROW(ID, fn, len, bytes) [QUANT_##ID] = decode_row_##fn,
    QUANT_UNPACKERS(DECODE_ROW)
#undef DECODE_ROW
};
static inline quant_decode_fn fast_decoder(uint32_t type) { return isa_decode_row[type] ? isa_decode_row[type] : isa_decode[type]; }

/* Row `row` of w as f32, in `room` if it is not f32 as it lies */
static inline const float *mat_row_at(const struct gpu_mat *w, uint64_t row, float *room)
{
    const uint8_t *data = AT(const uint8_t, w->data) + row * w->row_bytes;
    if (w->type == QUANT_F32)
        return (const float *)(const void *)data;
    fast_decoder(w->type)(data, room, w->n_in);
    return room;
}

/* Row `row` of w as f32 at dst */
static inline void mat_row(const struct gpu_mat *w, uint64_t row, float *dst)
{
    fast_decoder(w->type)(AT(const uint8_t, w->data) + row * w->row_bytes, dst, w->n_in);
}

#endif
