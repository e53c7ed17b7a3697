/* pair.h - products of two weight rows with up to ROWS rows of x that stage() puts into shared memory a tile at a time (staged.h).
 *
 * The kernel has defined stage(from, n, first, columns, seen): columns of the n rows described by the STAGE_WORDS words `from`; what it wants to know
 * about all of x it adds up in `seen`. */

/* sum0[t], sum1[t] += a lane's share of the products of the n rows with columns `offset`, offset + 1, ... of two rows of n_in weights; x has n_x columns.
 * All items of the group come here; those of a subgroup without rows (live false) only help to stage. x_there: all of x lies there since the call before,
 * for which it has to fit. Types, has_min (HAS_MIN of one of them) and depth are constants where it matters; PER 1: there is no second row. */
FN void staged_pair(u32 type0, u32 type1, bool has_min, u32 depth, bool live, bool x_there, u64 row0, u64 row1, u64 book, u32 n_in, u32 offset, u32 n_x,
                    IN_ARRAY(u64, from, STAGE_WORDS), u32 n, OUT_ARRAY(f32, sum0, ROWS), OUT_ARRAY(f32, sum1, ROWS), OUT_ARRAY(f32, seen, ROWS))
{
    u32 raw0[DEPTH][RAW_WORDS], raw1[DEPTH][RAW_WORDS];
    u32 tile = 0u, end = 0u, w = offset / 16u; /* in chunks */
    for (u32 c0 = 0u; c0 < n_x / 16u; c0 = umin_(c0 + depth * SG_SIZE, end)) { /* the same for all items */
        bool fresh = c0 == end;
        if (fresh)
            tile = c0, end = umin_(c0 + STAGE_COLUMNS / 16u, n_x / 16u);
        if (live) {
            UNROLL for (u32 i = 0u; i < DEPTH && i < depth; i++) { /* before anything waits; past the end the last chunk again */
                u32 c = umin_(c0 + i * SG_SIZE + SG_LANE, end - 1u);
                fetch_chunk(type0, row0, n_in, w + c, raw0[i]);
                if (PER > 1u)
                    fetch_chunk(type1, row1, n_in, w + c, raw1[i]);
            }
        }
        if (fresh && !x_there) {
            sync_group(); /* the tile before may still be read */
            stage(from, n, 16u * tile, 16u * (end - tile), seen);
            sync_group();
        }
        if (!live)
            continue;
        UNROLL for (u32 i = 0u; i < DEPTH && i < depth; i++) {
            u32 c = c0 + i * SG_SIZE + SG_LANE;
            if (c >= end)
                break;
            f32 q0[16], q1[16], sm0[2], sm1[2];
            decode_chunk(type0, raw0[i], w + c, book, q0, sm0);
            if (PER > 1u)
                decode_chunk(type1, raw1[i], w + c, book, q1, sm1);
            UNROLL for (u32 t = 0u; t < ROWS; t++) {
                f32 v[16];
                load_staged(umin_(t, n - 1u), c - tile, v);
                f32 total = chunk_sum(has_min, v);
                sum0[t] = chunk_dot(has_min, q0, sm0, 1.0f, v, total, sum0[t]);
                if (PER > 1u)
                    sum1[t] = chunk_dot(has_min, q1, sm1, 1.0f, v, total, sum1[t]);
            }
        }
    }
}

/* The same for types that few files have here, and floats, of which a chunk takes many registers: one row after the other, so that they do not decide how many
 * groups of the common types live at once. */
FN void staged_slowly(u32 type0, u32 type1, bool live, bool x_there, u64 row0, u64 row1, u64 book, u32 n_in, u32 offset, u32 n_x, IN_ARRAY(u64, from, STAGE_WORDS),
                      u32 n, OUT_ARRAY(f32, sum0, ROWS), OUT_ARRAY(f32, sum1, ROWS), OUT_ARRAY(f32, seen, ROWS))
{
    for (u32 tile = 0u; tile < n_x / 16u; tile += STAGE_COLUMNS / 16u) { /* the same for all items */
        u32 end = umin_(tile + STAGE_COLUMNS / 16u, n_x / 16u);
        if (!x_there) {
            sync_group(); /* the tile before may still be read */
            stage(from, n, 16u * tile, 16u * (end - tile), seen);
            sync_group();
        }
        for (u32 k = 0u; live && k < 2u; k++)
            for (u32 c = tile + SG_LANE; c < end; c += SG_SIZE) {
                f32 q[16], sm[2];
                load_chunk(k == 0u ? type0 : type1, k == 0u ? row0 : row1, n_in, offset / 16u + c, book, q, sm);
                for (u32 t = 0u; t < n; t++) {
                    f32 v[16], sum = 0.0f;
                    load_staged(t, c - tile, v);
                    UNROLL for (u32 i = 0u; i < ROWS; i++)
                        sum = i == t ? (k == 0u ? sum0[i] : sum1[i]) : sum;
                    sum = chunk_dot(true, q, sm, 1.0f, v, chunk_sum(true, v), sum);
                    UNROLL for (u32 i = 0u; i < ROWS; i++) {
                        sum0[i] = i == t && k == 0u ? sum : sum0[i];
                        sum1[i] = i == t && k == 1u ? sum : sum1[i];
                    }
                }
            }
    }
}
