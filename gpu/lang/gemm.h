/* gemm.h - a tile of a product on matrix units: 128 weight rows by COLUMNS rows of x, 32 columns of both at a time.
 *
 * Eight subgroups, each 32 weight rows by COLUMNS / 2: operands lie in shared memory as f16, rows padded to 40 halves so that
 * sixteen rows fall on different banks. The weights are decoded on the way in, one chunk per item. */
#define TILE_STRIDE 5 /* u32x4 per row: 32 halves and 8 of padding */
#define FRAGMENTS (COLUMNS / 32)

SHARED(u32x4, tile_w, 128 * TILE_STRIDE)
SHARED(u32x4, tile_x, COLUMNS * TILE_STRIDE)
SHARED(f32, bounce, 8 * 256)

FN u32x4 eight_halves(IN_ARRAY(f32, v, 16), u32 upper)
{
    return upper == 0u ? u32x4(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]))
                      : u32x4(pack_halves(v[8], v[9]), pack_halves(v[10], v[11]), pack_halves(v[12], v[13]), pack_halves(v[14], v[15]));
}

/* Half a row of the tile of weights: chunk c of the row at `row` */
FN void put_weights(u32 r, u32 part, u32 type, u64 row, u32 n_in, u32 c, u64 book)
{
    f32 q[16], sm[2];
    load_chunk(type, row, n_in, c, book, q, sm);
    UNROLL for (u32 i = 0u; i < 16u; i++)
        q[i] = fma_(sm[0], q[i], sm[1]);
    tile_w[r * TILE_STRIDE + 2u * part] = eight_halves(q, 0u);
    tile_w[r * TILE_STRIDE + 2u * part + 1u] = eight_halves(q, 1u);
}

/* 16 values of row r of x; zeros where `there` is false */
FN void put_x(u32 r, u32 part, u64 row, u32 c, bool there)
{
    f32 v[16];
    if (there)
        load_x(row, c, v);
    else
        UNROLL for (u32 i = 0u; i < 16u; i++)
            v[i] = 0.0f;
    tile_x[r * TILE_STRIDE + 2u * part] = eight_halves(v, 0u);
    tile_x[r * TILE_STRIDE + 2u * part + 1u] = eight_halves(v, 1u);
}
