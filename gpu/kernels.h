/* kernels.h - how a module turns its rows (*_kernels.def) into ids, prototypes and a table.
 *
 *     #define KERNEL_DEF "qsa/qsa_kernels.def"    is not possible in C, so each module's header repeats three short blocks; the
 *     macros here keep them to a line each. */
#ifndef HAYATE_GPU_KERNELS_H
#define HAYATE_GPU_KERNELS_H

#include "gpu/gpu.h"

/* Symbols of the twins carry the instruction set they are compiled for: gpu_fast_avx2. */
#define ISA_PASTE2(a, b) a##_##b
#define ISA_PASTE(a, b) ISA_PASTE2(a, b)
#ifndef ISA
#define ISA base
#endif
#define ISA_NAME(stem) ISA_PASTE(stem, ISA)

#if defined(HAVE_X86_ISAS)
#define FAST_TABLES(stem) { stem##_base, stem##_avx2, stem##_avx512 }
#define FAST_DECLARE(stem) extern const gpu_row_fn stem##_base[], stem##_avx2[], stem##_avx512[]
#else
#define FAST_TABLES(stem) { stem##_base, stem##_base, stem##_base }
#define FAST_DECLARE(stem) extern const gpu_row_fn stem##_base[]
#endif

/* In a .def: KERNEL(id, ref, argument struct, grain, workgroup, needs, source, defines); ref##_ref is the C reference, ref##_moves (*_moves.c) what a
 * call must move. A row that only the cpu runs has workgroup 0 and no source. */
#define KERNEL_ID(id, ref, args, grain, workgroup, needs, source, defines) K_##id,
#define KERNEL_REF_PROTO(id, ref, args, grain, workgroup, needs, source, defines) \
    void ref##_ref(const void *a, uint32_t first, uint32_t n, struct cpu_scratch *scratch); \
    void ref##_moves(const void *a, const struct gpu_at *at, struct gpu_moves *m);
#define KERNEL_ROW(id, ref, args, grain, workgroup, needs, source, defines) \
    { #id, ref##_ref, ref##_moves, sizeof(args), (grain), (workgroup), (needs), (source), (defines) },
#define KERNEL_CHECK(id, ref, args, grain, workgroup, needs, source, defines) \
    _Static_assert(sizeof(args) <= GPU_ARGS_MAX && sizeof(args) % 8 == 0, #id ": argument block");

/* Records a call: CALL(c, gpu_kernels, K_embed, n_items, struct embed_args, .step = ..., ...) */
#define CALL(c, table, id, n_items, args_type, ...) \
    gpu_record((c), &(table), (id), &(args_type){ __VA_ARGS__ }, sizeof(args_type), (n_items))

#endif
