/* kernel.h - the kernel language: what a *.k file may say. One source, four targets.
 *
 *     LANG_GLSL   Vulkan 1.3: preprocessed, then glslc         LANG_HIP    gfx1151: clang -x hip
 *     LANG_CUDA   nvcc, to test on an NVIDIA GPU               LANG_HOST   a fiber per work-item, for sanitizers
 *
 * A kernel file includes this header and the argument structs it needs, and ends in one KERNEL:
 *
 *     #include "gpu/lang/kernel.h"
 *     #include "model/model_args.h"
 *     SHARED(f32, part, WORKGROUP)
 *     KERNEL(hc_norm, hc_norm_args)
 *     {
 *         f32 x = LD(f32, A.residual, GROUP * A.n_embd + LID);
 *         ...
 *     }
 *
 * Types. f32 u32 i32 u64 bool; in memory also u16 u8 i8 and the vectors f32x2 f32x4 u32x2 u32x4 (members x y z w; made by
 * u32x4(a, b, c, d)). Casts are f32(x), u32(x), u64(x).
 * Literals carry their type: 1.0f, 1u. No pointers, no recursion, no local struct. Functions are FN; arrays are passed with IN_ARRAY and
 * OUT_ARRAY (in and out), arrays of arrays with IN_ARRAY2 and OUT_ARRAY2. An array in registers is indexed only by counters of loops with constant bounds, marked UNROLL.
 * ROLLED marks a loop that would take more registers if its passes were mixed.
 *
 * Memory. Addresses are u64. LD(T, address, i) and ST(T, address, i, x) move element i of an array of T. The address is aligned to T, vectors
 * to their size; i is a u32 whose byte offset stays below 4 GiB. Larger distances are added to the address: OFF(address, i, bytes).
 * FIELD(S, address, f) is a field of a struct in memory, after STRUCT_IN_MEMORY(S); read what you need into locals once.
 * SHARED(T, name, count) is memory of the group (not initialised); kernels of a base build use at most 24 KB of it.
 *
 * Work. GROUP is the index of the group, LID that of the item in it, WORKGROUP the size of the group (from the row). Items of the call are
 * GROUP * GRAIN ... (GRAIN from the row). A.* are the arguments; the number of items is not passed: it follows from them. A subgroup has SG_SIZE
 * items (a power of two, at least 8; 32 on every GPU target), SG_ID and SG_LANE place an item in it. sg_add, sg_max, sg_xor (the value of lane
 * ^ mask), sg_get (the value of a lane) exist for f32 and u32 and must be reached by every item of the subgroup; likewise sync_group, the
 * barrier of the group for SHARED memory (sync_subgroup that of a subgroup, in matrix builds), and sync_group_memory, which also orders the group's own reads and writes of buffers.
 * group_add(x) is the sum over the group, the same bits in every item; so is group_max. Both contain barriers.
 *
 * Between groups of one launch nothing is ordered, except by last_group (define LAST_GROUP before the include): it is true in the
 * one group that arrives last at a counter, which may then read with LD_COHERENT what the others stored before.
 *
 * Arithmetic. a*b + c is never contracted; fma_(a, b, c) says where it is one rounding. A sum has one order, given by the source alone. Integer
 * atomics only. */
#ifndef HAYATE_GPU_LANG_KERNEL_H
#define HAYATE_GPU_LANG_KERNEL_H
#define HAYATE_KERNEL 1 /* argument headers leave out what only C understands */

#if !defined(WORKGROUP) || !defined(GRAIN)
#error "the row's workgroup and grain are given by the build"
#endif

#if defined(LANG_GLSL)
#include "gpu/lang/glsl.h"
#elif defined(LANG_HIP)
#include "gpu/lang/hip.h"
#elif defined(LANG_CUDA)
#include "gpu/lang/cuda.h"
#elif defined(LANG_HOST)
#include "gpu/lang/host.h"
#else
#error "a kernel is compiled for one of LANG_GLSL, LANG_HIP, LANG_CUDA, LANG_HOST"
#endif

/* ---- what is the same everywhere ---- */
#define OFF(address, i, bytes) ((address) + u64(i) * (bytes))
#define ceil_div(a, b) (((a) + (b) - 1u) / (b))
#define SG_COUNT_MAX ((WORKGROUP + 7) / 8) /* subgroups of a group, at most */

FN f32 sigmoid(f32 x) { return 1.0f / (1.0f + exp_(-x)); }
FN f32 silu(f32 x) { return x / (1.0f + exp_(-x)); }

SHARED(f32, group_part, SG_COUNT_MAX)

FN f32 group_add(f32 x)
{
    f32 s = sg_add(x);
    if (WORKGROUP <= SG_SIZE)
        return s;
    sync_group(); /* group_part may still be read from the last call */
    if (SG_LANE == 0u)
        group_part[SG_ID] = s;
    sync_group();
    s = 0.0f;
    for (u32 i = 0u; i < WORKGROUP / SG_SIZE; i++)
        s += group_part[i];
    return s;
}

FN f32 group_max(f32 x)
{
    f32 m = sg_max(x);
    if (WORKGROUP <= SG_SIZE)
        return m;
    sync_group();
    if (SG_LANE == 0u)
        group_part[SG_ID] = m;
    sync_group();
    m = group_part[0];
    for (u32 i = 1u; i < WORKGROUP / SG_SIZE; i++)
        m = fmax_(m, group_part[i]);
    return m;
}

#ifdef LAST_GROUP
SHARED(u32, last_group_flag, 1)
/* Counts this group at `counter` (one u32, 0 before the launch and again after it). True in every item of the last of n_groups. */
FN bool last_group(u64 counter, u32 n_groups)
{
    memory_release();
    sync_group_memory();
    if (LID == 0u) {
        u32 before = atomic_add(counter, 1u);
        last_group_flag[0] = before == n_groups - 1u ? 1u : 0u;
        if (before == n_groups - 1u)
            ST(u32, counter, 0u, 0u);
    }
    sync_group_memory();
    memory_acquire();
    return last_group_flag[0] != 0u;
}
#endif

#endif
