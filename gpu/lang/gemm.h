/* gemm.h - a tile of a product on matrix units: 128 weight rows by COLUMNS rows of x, 32 columns of both at a time.
 *
 * Eight subgroups, each 32 weight rows by COLUMNS / 2: operands lie in shared memory as f16, rows padded to 40 halves so that sixteen rows fall on
 * different banks. The weights are decoded on the way in, one chunk per item; of x an item takes 8 values of a row, so that four of them read a cache line. */
#define TILE_STRIDE 5 /* u32x4 per row: 32 halves and 8 of padding */
#define FRAGMENTS (COLUMNS / 32)
#define X_PARTS (COLUMNS / 64)

SHARED(u32x4, tile_w, 128 * TILE_STRIDE)
SHARED(u32x4, tile_x, COLUMNS * TILE_STRIDE)
SHARED(f32, bounce, 8 * 256)

/* Chunk c of a row of weights, from how it lies in memory, to row r of its tile */
FN void put_weights(u32 r, u32 part, u32 type, IN_ARRAY(u32, raw, RAW_WORDS), u32 c, u64 book)
{
    f32 w[16], sm[2];
    decode_chunk(type, raw, c, book, w, sm);
    UNROLL for (u32 i = 0u; i < 16u; i++)
        w[i] = fma_(sm[0], w[i], sm[1]);
    tile_w[r * TILE_STRIDE + 2u * part] = u32x4(pack_halves(w[0], w[1]), pack_halves(w[2], w[3]), pack_halves(w[4], w[5]), pack_halves(w[6], w[7]));
    tile_w[r * TILE_STRIDE + 2u * part + 1u] = u32x4(pack_halves(w[8], w[9]), pack_halves(w[10], w[11]), pack_halves(w[12], w[13]), pack_halves(w[14], w[15]));
}

FN u32x4 eight_halves(f32x4 a, f32x4 b) { return u32x4(pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w)); }

/* What an item fetches for the columns from 16 * k on, while those before are multiplied: a chunk of weights, and 8 values of X_PARTS rows of x. Decoding waits
 * until they are put into the tiles. */
#define FETCH(type, row, n_in, k)                                                 \
    fetch_chunk(type, row, n_in, (k) + part, raw);                                \
    UNROLL for (u32 i_ = 0u; i_ < X_PARTS; i_++) {                                \
        next_x[2u * i_] = LD(f32x4, x[i_], 4u * (k) + 2u * (LID & 3u));           \
        next_x[2u * i_ + 1u] = LD(f32x4, x[i_], 4u * (k) + 2u * (LID & 3u) + 1u); \
    }

/* sum[2][FRAGMENTS] += the tiles, over n_in columns. row: the item's row of weights, LID / 2 of the tile; x[X_PARTS]: its rows LID / 4 + 64 i of x. Rows that are
 * not there are any others: what comes of them is not stored. type is a constant at every use, so that the loads of a step wait for nothing. */
#define GEMM_LOOP(type, row, n_in, book)                                                                                     \
    {                                                                                                                        \
        u32 raw[RAW_WORDS];                                                                                                  \
        f32x4 next_x[2 * X_PARTS];                                                                                           \
        FETCH(type, row, n_in, 0u)                                                                                           \
        for (u32 k = 0u; k < (n_in) / 16u; k += 2u) {                                                                        \
            sync_group();                                                                                                    \
            put_weights(LID / 2u, part, type, raw, k + part, book);                                                          \
            UNROLL for (u32 i = 0u; i < X_PARTS; i++)                                                                        \
                tile_x[(LID / 4u + 64u * i) * TILE_STRIDE + (LID & 3u)] = eight_halves(next_x[2u * i], next_x[2u * i + 1u]); \
            sync_group();                                                                                                    \
            u32 k_ = umin_(k + 2u, (n_in) / 16u - 2u);                                                                       \
            FETCH(type, row, n_in, k_)                                                                                       \
            ROLLED for (u32 d = 0u; d < 2u; d++) {                                                                           \
                MATRIX_A(a[2]);                                                                                              \
                UNROLL for (u32 i = 0u; i < 2u; i++)                                                                         \
                    matrix_load_rows(a[i], tile_w, (w0 + 16u * i) * TILE_STRIDE + 2u * d, TILE_STRIDE);                      \
                UNROLL for (u32 j = 0u; j < FRAGMENTS; j++) {                                                                \
                    MATRIX_B(b);                                                                                             \
                    matrix_load_columns(b, tile_x, (x0 + 16u * j) * TILE_STRIDE + 2u * d, TILE_STRIDE);                      \
                    UNROLL for (u32 i = 0u; i < 2u; i++)                                                                     \
                        matrix_mad(sum[i][j], a[i], b);                                                                      \
                }                                                                                                            \
            }                                                                                                                \
        }                                                                                                                    \
    }

/* Stores a sum: element (row i, column j) to y[(column0 + j) * stride + row0 + i]. Whole matrices go straight to memory where its columns are aligned to
 * 16 bytes, as such a store asks for; at the edges what is outside of rows x columns is left out. */
#define STORE_SUM(m, y, stride, row0, column0, rows, columns)                                                        \
    if ((row0) + 16u <= (rows) && (column0) + 16u <= (columns) && (stride) % 4u == 0u && (u32(y) & 15u) == 0u) {     \
        matrix_store_columns_at(m, OFF(y, column0, 4ul * (stride)), row0, stride);                                   \
    } else {                                                                                                         \
        matrix_store_columns(m, bounce, SG_ID * 256u, 16u);                                                          \
        sync_subgroup();                                                                                             \
        for (u32 e_ = SG_LANE; e_ < 256u; e_ += SG_SIZE)                                                             \
            if ((row0) + e_ % 16u < (rows) && (column0) + e_ / 16u < (columns))                                      \
                ST(f32, OFF(y, (column0) + e_ / 16u, 4ul * (stride)), (row0) + e_ % 16u, bounce[SG_ID * 256u + e_]); \
        sync_subgroup();                                                                                             \
    }
