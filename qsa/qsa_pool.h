/* qsa_pool.h - the pooled key of a block: pool, norm, rope at the block's first token (spec 4.4). put_pooled is all of it behind the sum of its four raw
 * keys; pool() takes those of a block that this step completes, then the window of raw keys moves on.
 *
 * One group per block. Only the block that straddles the start of the step reads the window, and that is block pos / 4, the first one; so its group may also
 * move the window and no other group touches it. Within that group an item has one column to itself, reads it and then moves it, in ascending order: no
 * barrier is needed. Rows that are apart and may be taken back have a group each, which all read the window, and it stays. */
#if WORKGROUP < QSA_IDX_DIM_MAX
#error "an item has one column"
#endif

SHARED(f32, key, QSA_IDX_DIM_MAX)

/* The pooled key of `block` from the sum of its raw keys in the item's column, 0 beyond the last one. turn: the rope table's row of its first token. The order
 * of sums does not depend on the size of the group, since what is added behind the columns is 0. Contains barriers, so key[] may serve block after block. */
FN void put_pooled(u64 layer, u32 block, f32 sum, u64 turn)
{
    u32 n = FIELD(qsa_block, layer, idx_dim), half_rope = FIELD(qsa_block, layer, rope_dim) / 2u, i = LID;
    f32 x = sum / f32(QSA_BLOCK), gain = 0.0f;
    if (i < n)
        gain = LD(f32, FIELD(qsa_block, layer, ik_norm), i);
    x *= rsqrt_(group_add(x * x) / f32(n) + FIELD(qsa_block, layer, eps)) * gain;
    if (i < n)
        key[i] = x;
    sync_group();
    if (i < 2u * half_rope) {
        f32x2 cs = LD(f32x2, turn, i % half_rope);
        x = i < half_rope ? x * cs.x - key[i + half_rope] * cs.y : key[i - half_rope] * cs.y + x * cs.x;
    }
    if (i < n)
        ST(f32, OFF(FIELD(qsa_block, layer, pooled), block, 4ul * n), i, x);
}

/* Block number `nth` of those that the step may complete. first: position of the first row of the sequence in it, whose key is ik; stay: the window does not
 * move. */
FN void pool(u64 layer, u64 step, u64 ik, u32 first, u32 nth, bool stay)
{
    u32 n = FIELD(qsa_block, layer, idx_dim), i = LID;
    u32 pos = FIELD(gpu_step, step, pos), n_tok = FIELD(gpu_step, step, n_tok), block = pos / QSA_BLOCK + nth;
    u64 window = FIELD(qsa_block, layer, window);
    if (block < (first + n_tok) / QSA_BLOCK) {
        f32 sum = 0.0f;
        if (i < n) {
            f32 raw[QSA_BLOCK];
            UNROLL for (u32 k = 0u; k < QSA_BLOCK; k++)
            {
                u32 t = block * QSA_BLOCK + k;
                if (t >= first)
                    raw[k] = LD(f32, ik, (t - first) * n + i);
                else
                    raw[k] = LD(f32, window, (t + 3u - first) * n + i);
            }
            UNROLL for (u32 k = 0u; k < QSA_BLOCK; k++) sum += raw[k];
        }
        put_pooled(layer, block, sum, OFF(FIELD(gpu_step, step, rope), block * QSA_BLOCK + 3u - pos, 4ul * FIELD(qsa_block, layer, rope_dim)));
    }
    if (nth == 0u && i < n && !stay) {
        f32 last[3];
        UNROLL for (u32 k = 0u; k < 3u; k++)
        { /* row k becomes the key of token first + n_tok - 3 + k */
            u32 from = n_tok + k;
            if (from >= 3u)
                last[k] = LD(f32, ik, (from - 3u) * n + i);
            else
                last[k] = LD(f32, window, from * n + i);
        }
        UNROLL for (u32 k = 0u; k < 3u; k++) ST(f32, window, k * n + i, last[k]);
    }
}
