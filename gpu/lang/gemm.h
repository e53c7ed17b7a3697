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

/* What an item fetches for the next 32 columns while the last ones are multiplied: a chunk of weights and one of x. */
#define FETCH(type, row, n_in, c, book, x_row, there)                    \
    load_chunk(type, row, n_in, c, book, next_w, next_sm);               \
    if (there)                                                           \
        load_x(x_row, c, next_x);

/* ... and puts into the tiles: r the row, part the half of it. */
FN void put_chunk(u32 r, u32 part, IN_ARRAY(f32, w, 16), IN_ARRAY(f32, sm, 2), IN_ARRAY(f32, x, 16))
{
    f32 v[16];
    UNROLL for (u32 i = 0u; i < 16u; i++)
        v[i] = fma_(sm[0], w[i], sm[1]);
    tile_w[r * TILE_STRIDE + 2u * part] = eight_halves(v, 0u);
    tile_w[r * TILE_STRIDE + 2u * part + 1u] = eight_halves(v, 1u);
    if (r < COLUMNS) {
        tile_x[r * TILE_STRIDE + 2u * part] = eight_halves(x, 0u);
        tile_x[r * TILE_STRIDE + 2u * part + 1u] = eight_halves(x, 1u);
    }
}

/* sum[2][FRAGMENTS] += the tiles, over n_in columns. type is a constant at every use, so that the loads of a step wait for nothing. Items whose
 * row of x is not there put zeros. */
#define GEMM_LOOP(type, row, n_in, book, x_row, there)                                                                            \
    {                                                                                                                             \
        f32 next_w[16], next_x[16], next_sm[2];                                                                                   \
        UNROLL for (u32 i_ = 0u; i_ < 16u; i_++)                                                                                  \
            next_x[i_] = 0.0f;                                                                                                    \
        FETCH(type, row, n_in, part, book, x_row, there)                                                                          \
        for (u32 k = 0u; k < (n_in) / 16u; k += 2u) {                                                                             \
            sync_group();                                                                                                         \
            put_chunk(r, part, next_w, next_sm, next_x);                                                                          \
            sync_group();                                                                                                         \
            u32 c_ = umin_(k + 2u + part, (n_in) / 16u - 1u);                                                                     \
            FETCH(type, row, n_in, c_, book, x_row, there)                                                                        \
            UNROLL for (u32 d = 0u; d < 2u; d++) {                                                                                \
                MATRIX_A(a[2]);                                                                                                   \
                UNROLL for (u32 i = 0u; i < 2u; i++)                                                                              \
                    matrix_load_rows(a[i], tile_w, (w0 + 16u * i) * TILE_STRIDE + 2u * d, TILE_STRIDE);                           \
                UNROLL for (u32 j = 0u; j < FRAGMENTS; j++) {                                                                     \
                    MATRIX_B(b);                                                                                                  \
                    matrix_load_columns(b, tile_x, (x0 + 16u * j) * TILE_STRIDE + 2u * d, TILE_STRIDE);                           \
                    UNROLL for (u32 i = 0u; i < 2u; i++)                                                                          \
                        matrix_mad(sum[i][j], a[i], b);                                                                           \
                }                                                                                                                 \
            }                                                                                                                     \
        }                                                                                                                         \
    }

/* Stores a sum: element (row i, column j) to y[(column0 + j) * stride + row0 + i]. Whole matrices go straight to memory where its columns are aligned to
 * 16 bytes, as such a store asks for; at the edges what is outside of rows x columns is left out. */
#define STORE_SUM(m, y, stride, row0, column0, rows, columns)                                                                     \
    if ((row0) + 16u <= (rows) && (column0) + 16u <= (columns) && (stride) % 4u == 0u && (u32(y) & 15u) == 0u) {                  \
        matrix_store_columns_at(m, OFF(y, column0, 4ul * (stride)), row0, stride);                                                \
    } else {                                                                                                                      \
        matrix_store_columns(m, bounce, SG_ID * 256u, 16u);                                                                       \
        sync_subgroup();                                                                                                          \
        for (u32 e_ = SG_LANE; e_ < 256u; e_ += SG_SIZE)                                                                          \
            if ((row0) + e_ % 16u < (rows) && (column0) + e_ / 16u < (columns))                                                   \
                ST(f32, OFF(y, (column0) + e_ / 16u, 4ul * (stride)), (row0) + e_ % 16u, bounce[SG_ID * 256u + e_]);              \
        sync_subgroup();                                                                                                          \
    }
