/* moe_route.h - the n_used largest of a row's expert logits, the lower expert among equals, with the softmax over them; experts ascending
 * (spec 5).
 *
 * Every item keeps the keys of its experts in registers: integers in the order of the logits, NaN below all, 0 for what is taken or not there.
 * A round takes the largest key, then the lowest expert that has it. The sum of the softmax runs over ascending experts.
 *
 * Bounds: n_expert <= 512, n_used <= 16 and <= n_expert. */
#define EXPERT_MAX 512u
#define USED_MAX 16u
#define PER_ITEM (EXPERT_MAX / WORKGROUP)

STRUCT_IN_MEMORY(moe_block)
SHARED(u32, sg_best, 2u * SG_COUNT_MAX)
SHARED(u32, won, USED_MAX)       /* experts in the order of their logits */
SHARED(f32, power, USED_MAX)     /* exp(logit - largest), by ascending expert */

/* The largest x of the group. `slot` differs between two calls that follow each other, so that one barrier is enough */
FN u32 group_umax(u32 x, u32 slot)
{
    u32 m = sg_max(x);
    if (WORKGROUP <= SG_SIZE)
        return m;
    if (SG_LANE == 0u)
        sg_best[slot * SG_COUNT_MAX + SG_ID] = m;
    sync_group();
    for (u32 i = 0u; i < WORKGROUP / SG_SIZE; i++)
        m = umax_(m, sg_best[slot * SG_COUNT_MAX + i]);
    return m;
}

FN u32 key_of(f32 x)
{
    u32 b = as_u32(x);
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return 1u; /* NaN; the key of -infinity is larger */
    if (b == 0x80000000u)
        b = 0u; /* -0 equals 0 */
    return (b & 0x80000000u) != 0u ? ~b : b | 0x80000000u;
}

/* Row t of the call a, by the whole group */
FN void route(moe_route_args a, u32 t)
{
    u32 n_expert = FIELD(moe_block, a.block, n_expert), n_used = FIELD(moe_block, a.block, n_used);
    u64 logits = OFF(a.logits, t, 4ul * n_expert);
    u32 key[PER_ITEM];
    UNROLL for (u32 i = 0u; i < PER_ITEM; i++) {
        u32 e = i * WORKGROUP + LID;
        key[i] = 0u;
        if (e < n_expert)
            key[i] = key_of(LD_COHERENT(f32, logits, e));
    }
    for (u32 round = 0u; round < n_used; round++) {
        u32 mine = 0u, at = 0u;
        UNROLL for (u32 i = 0u; i < PER_ITEM; i++) /* the first of equals: the item's experts ascend */
            if (key[i] > mine) {
                mine = key[i];
                at = i * WORKGROUP + LID;
            }
        u32 best = group_umax(mine, 0u);
        u32 expert = ~group_umax(mine == best ? ~at : 0u, 1u);
        UNROLL for (u32 i = 0u; i < PER_ITEM; i++)
            if (i * WORKGROUP + LID == expert)
                key[i] = 0u;
        if (LID == 0u)
            won[round] = expert;
    }
    sync_group();
    for (u32 i = LID; i < n_used; i += WORKGROUP) {
        u32 expert = won[i], rank = 0u;
        for (u32 j = 0u; j < n_used; j++)
            rank += won[j] < expert ? 1u : 0u;
        power[rank] = exp_(LD_COHERENT(f32, logits, expert) - LD_COHERENT(f32, logits, won[0]));
        ST(u32, a.id, t * n_used + rank, expert);
    }
    sync_group();
    f32 sum = 0.0f;
    for (u32 i = 0u; i < n_used; i++)
        sum += power[i];
    for (u32 i = LID; i < n_used; i += WORKGROUP)
        ST(f32, a.weight, t * n_used + i, power[i] / sum);
}
