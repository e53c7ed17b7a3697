/* qsa_digits.h - what the rows that choose blocks share: sums over the items before one, and the digit that holds the key of a rank. */

/* Sum of x over this lane and those before it. */
FN u32 sg_scan(u32 x)
{
    for (u32 d = 1u; d < SG_SIZE; d *= 2u) {
        u32 y = sg_get(x, SG_LANE >= d ? SG_LANE - d : SG_LANE);
        x += SG_LANE >= d ? y : 0u;
    }
    return x;
}

#ifdef GROUP_SCAN
SHARED(u32, scan_part, SG_COUNT_MAX)
/* Sum of x over the items before this one, of the whole group; contains barriers. */
FN u32 group_scan(u32 x)
{
    u32 all = sg_scan(x), before = all - x;
    sync_group(); /* scan_part may still be read from the last call */
    if (SG_LANE == SG_SIZE - 1u)
        scan_part[SG_ID] = all;
    sync_group();
    for (u32 i = 0u; i < SG_ID; i++)
        before += scan_part[i];
    return before;
}

SHARED(u32, digit_found, 2)
/* The digit that holds the key of this rank, counted from the top, to digit_found[0], and its rank among the keys of that digit to digit_found[1]. An item has
 * n counters, count[0] that of digit `top`, the others below; items ascend as digits descend. Contains barriers; the result is there for all. */
#define DIGIT_OF_RANK(n)                                                        \
    FN void digit_of_rank(IN_ARRAY(u32, count, n), u32 top, u32 rank)           \
    {                                                                           \
        u32 sum = 0u;                                                           \
        UNROLL for (u32 i = 0u; i < n; i++) sum += count[i];                    \
        u32 before = group_scan(sum);                                           \
        UNROLL for (u32 i = 0u; i < n; i++)                                     \
        {                                                                       \
            if (before < rank && rank <= before + count[i])                     \
                digit_found[0] = top - i, digit_found[1] = rank - before;       \
            before += count[i];                                                 \
        }                                                                       \
        sync_group();                                                           \
    }
#endif
