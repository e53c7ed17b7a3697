/* moe_route.h - the n_used largest of a row's expert logits, the lower expert among equals, with the softmax over them; experts ascending
 * (spec 5).
 *
 * Keys lie in shared memory: integers in the order of the logits, NaN below all, 0 for what is taken. One subgroup chooses, without a barrier: a lane has
 * the experts l, l + SG_SIZE, ... to itself; a round takes the largest key, then the lowest expert that has it. The sum of the softmax runs over ascending
 * experts.
 *
 * Bounds: n_expert <= 512, n_used <= 16 and <= n_expert. */
#define EXPERT_MAX 512u
#define USED_MAX 16u

STRUCT_IN_MEMORY(moe_block)
SHARED(f32, logit, EXPERT_MAX)
SHARED(u32, key, EXPERT_MAX)
SHARED(u32, won, USED_MAX)       /* experts in the order of their logits */
SHARED(f32, power, USED_MAX)     /* exp(logit - largest), by ascending expert */

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
    for (u32 e = LID; e < n_expert; e += WORKGROUP) {
        f32 x = LD_COHERENT(f32, logits, e);
        logit[e] = x;
        key[e] = key_of(x);
    }
    sync_group();
    for (u32 round = 0u; SG_ID == 0u && round < n_used; round++) {
        u32 mine = 0u, at = 0u;
        for (u32 e = SG_LANE; e < n_expert; e += SG_SIZE) { /* the first of equals: the lane's experts ascend */
            u32 k = key[e];
            at = k > mine ? e : at;
            mine = umax_(mine, k);
        }
        u32 best = sg_max(mine), expert = ~sg_max(mine == best ? ~at : 0u);
        if (mine == best && at == expert) {
            key[expert] = 0u;
            won[round] = expert;
        }
    }
    sync_group();
    for (u32 i = LID; i < n_used; i += WORKGROUP) {
        u32 expert = won[i], rank = 0u;
        for (u32 j = 0u; j < n_used; j++)
            rank += won[j] < expert ? 1u : 0u;
        power[rank] = exp_(logit[expert] - logit[won[0]]);
        ST(u32, a.id, t * n_used + rank, expert);
    }
    sync_group();
    f32 sum = 0.0f;
    for (u32 i = 0u; i < n_used; i++)
        sum += power[i];
    for (u32 i = LID; i < n_used; i += WORKGROUP)
        ST(f32, a.weight, t * n_used + i, power[i] / sum);
}
