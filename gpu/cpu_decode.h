/* cpu_decode.h - the block decoders compiled for the instruction set of the including twin, by type id. */
#ifndef HAYATE_GPU_CPU_DECODE_H
#define HAYATE_GPU_CPU_DECODE_H

#include "gpu/gpu_args.h"
#include "gpu/quant_decode.h"

static const quant_decode_fn isa_decode[QUANT_ID_LIMIT] = {
#define DECODE(ID, fn, len, bytes) [QUANT_##ID] = decode_##fn,
    QUANT_DECODERS(DECODE)
#undef DECODE
};

/* Row `row` of w as f32 */
static inline void mat_row(const struct gpu_mat *w, uint64_t row, float *dst)
{
    isa_decode[w->type](AT(const uint8_t, w->data) + row * w->row_bytes, dst, w->n_in);
}

#endif
