/* staged.h - a tile of up to ROWS rows of x in shared memory, for products with weight rows (pair.h).
 *
 * A lane wants 64 bytes of x per chunk. Out of the cache every load of a subgroup would touch sixteen lines for a quarter of each, and that, not the
 * weights, was the limit of a small product. In shared memory the quarters of a chunk are rotated, so that eight lanes which read 16 bytes each
 * meet all banks.
 *
 * Where x comes from is the kernel's own business: between this file and pair.h it defines stage(), which fills `staged`; stage_rows() does it for plain rows.
 *
 * A tile is a multiple of 512 columns: the chunks that a lane of 32 adds up are the same, in the same order, whatever ROWS is. */
#include "gpu/lang/weights.h"

#define STAGE_COLUMNS (ROWS == 1 ? 3072u : ROWS == 2 ? 1536u : ROWS == 4 ? 1024u : 512u)
/* Chunks of a weight row in flight before the first is used */
#ifndef DEPTH
#define DEPTH (ROWS <= 2 ? 3u : ROWS == 4 ? 2u : 1u)
#endif
#define DEPTH_FLOAT (ROWS == 1 ? 3u : 1u) /* the same for rows of floats, whose chunks are twice as large and more */

#ifndef PER
#define PER 2u /* weight rows that a subgroup takes at a time, sharing what they read of x: two, or one */
#endif

#define STAGE_QUADS (STAGE_COLUMNS / 4u)                 /* of a row */
#define STAGE_LOADS (ROWS * STAGE_QUADS / WORKGROUP)     /* of an item */
SHARED(f32x4, staged, ROWS * STAGE_QUADS)

/* Where quarter i of chunk c of row t of the tile lies */
FN u32 staged_at(u32 t, u32 c, u32 i) { return t * STAGE_QUADS + 4u * c + ((i + (c >> 1)) & 3u); }

/* columns of the n rows at x, from column `first` on. All that an item brings is on its way before the first piece is stored; what is not there is the last
 * piece or row again, and nobody reads it. */
FN void stage_rows(u64 x, u64 x_bytes, u32 n, u32 first, u32 columns)
{
    f32x4 v[STAGE_LOADS];
    UNROLL for (u32 k = 0u; k < STAGE_LOADS; k++) {
        u32 at = LID + k * WORKGROUP, t = umin_(at / STAGE_QUADS, n - 1u), i = umin_(at % STAGE_QUADS, columns / 4u - 1u);
        v[k] = LD(f32x4, OFF(x, t, x_bytes), first / 4u + i);
    }
    UNROLL for (u32 k = 0u; k < STAGE_LOADS; k++) {
        u32 at = LID + k * WORKGROUP, i = at % STAGE_QUADS;
        staged[staged_at(at / STAGE_QUADS, i / 4u, i & 3u)] = v[k];
    }
}

FN void load_staged(u32 t, u32 c, OUT_ARRAY(f32, v, 16))
{
    UNROLL for (u32 i = 0u; i < 4u; i++) {
        f32x4 q = staged[staged_at(t, c, i)];
        v[4u * i] = q.x, v[4u * i + 1u] = q.y, v[4u * i + 2u] = q.z, v[4u * i + 3u] = q.w;
    }
}
