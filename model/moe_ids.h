/* moe_ids.h - what the kernels that group (row, slot) pairs by expert share. */
#ifndef HAYATE_MODEL_MOE_IDS_H
#define HAYATE_MODEL_MOE_IDS_H

#define NO_EXPERT 0xffffffffu

SHARED(u32, moe_part, SG_COUNT_MAX)

FN u32 group_add_u32(u32 x)
{
    u32 s = sg_add(x);
    sync_group(); /* moe_part may still be read from the last call */
    if (SG_LANE == 0u)
        moe_part[SG_ID] = s;
    sync_group();
    s = 0u;
    for (u32 i = 0u; i < WORKGROUP / SG_SIZE; i++)
        s += moe_part[i];
    return s;
}

/* Ids 4 * quad .. of n; NO_EXPERT behind the last */
FN u32x4 four_ids(u64 id, u32 quad, u32 n)
{
    u32x4 v;
    u32 i = 4u * quad;
    v.x = v.y = v.z = v.w = NO_EXPERT;
    if (i + 4u <= n) {
        v = LD(u32x4, id, quad);
    } else {
        if (i < n)
            v.x = LD(u32, id, i);
        if (i + 1u < n)
            v.y = LD(u32, id, i + 1u);
        if (i + 2u < n)
            v.z = LD(u32, id, i + 2u);
    }
    return v;
}

FN u32 count_of(u32x4 v, u32 expert)
{
    return (v.x == expert ? 1u : 0u) + (v.y == expert ? 1u : 0u) + (v.z == expert ? 1u : 0u) + (v.w == expert ? 1u : 0u);
}

/* The sum of x over the lower lanes of the subgroup */
FN u32 sg_before(u32 x)
{
    u32 sum = x;
    for (u32 d = 1u; d < SG_SIZE; d += d) {
        u32 lower = sg_get(sum, SG_LANE >= d ? SG_LANE - d : SG_LANE);
        if (SG_LANE >= d)
            sum += lower;
    }
    return sum - x;
}

#endif
