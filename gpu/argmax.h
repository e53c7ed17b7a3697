/* argmax.h - what the two arg-max kernels share. A candidate is (value, id); the larger value wins, the lower id among equals. Comparisons with
 * NaN are false, so NaN never wins, and nothing is (-infinity, ARGMAX_NONE). */
#ifndef HAYATE_GPU_ARGMAX_H
#define HAYATE_GPU_ARGMAX_H

SHARED(f32, argmax_value, SG_COUNT_MAX)
SHARED(u32, argmax_id, SG_COUNT_MAX)

FN bool argmax_better(f32 v, u32 id, f32 than_v, u32 than_id) { return v > than_v || (v == than_v && id < than_id); }

/* Stores the best of the group's candidates, one per item, as element `at` of an array of struct argmax_best */
FN void argmax_store(f32 v, u32 id, u64 best, u32 at)
{
    for (u32 mask = 1u; mask < SG_SIZE; mask += mask) {
        f32 other = sg_xor(v, mask);
        u32 other_id = sg_xor(id, mask);
        if (argmax_better(other, other_id, v, id)) {
            v = other;
            id = other_id;
        }
    }
    if (SG_LANE == 0u) {
        argmax_value[SG_ID] = v;
        argmax_id[SG_ID] = id;
    }
    sync_group();
    if (LID != 0u)
        return;
    for (u32 i = 1u; i < WORKGROUP / SG_SIZE; i++)
        if (argmax_better(argmax_value[i], argmax_id[i], v, id)) {
            v = argmax_value[i];
            id = argmax_id[i];
        }
    ST(u32, best, 2u * at, id);
    ST(f32, best, 2u * at + 1u, v);
}

#endif
