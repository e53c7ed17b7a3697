/* matvec.h - the products of matvec.k, for kernels that do more with them: y = act(scale * W x) for the jobs of one call and up to ROWS rows of x (struct
 * matmul_args).
 *
 * A subgroup takes two output rows at a time; its lanes take chunks of 16 columns, lane l the chunks l, l + SG_SIZE, ... ascending. Weights are read once and
 * multiplied with every row of x, which the group keeps in shared memory. So a row of x is summed in one order, whatever else is in the batch. */
#include "gpu/activate.h"
#include "gpu/lang/staged.h"

#define STAGE_WORDS 2
FN void stage(IN_ARRAY(u64, from, STAGE_WORDS), u32 n, u32 first, u32 columns, OUT_ARRAY(f32, seen, ROWS)) { stage_rows(from[0], from[1], n, first, columns); }
#include "gpu/lang/pair.h"

#ifdef LAST_GROUP /* another group will read them */
#define PUT(address, i, x) ST_COHERENT(f32, address, i, x)
#else
#define PUT(address, i, x) ST(f32, address, i, x)
#endif

STRUCT_IN_MEMORY(matmul_job)
SHARED(f32, result, 2 * SG_COUNT_MAX * ROWS) /* [row of a subgroup's pair][t]: an item reads what it wrote */

/* silu of the short convolution of the n values of column r in result[at ...], which follow the window; the window moves on */
FN void convolve(u64 job, u32 r, u32 at, u64 y, u32 y_stride, u32 n)
{
    u32 taps = FIELD(matmul_job, job, n_taps), past = taps - 1u, width = FIELD(matmul_job, job, w.n_out);
    u64 weight = FIELD(matmul_job, job, taps), window = FIELD(matmul_job, job, window);
    for (u32 t = 0u; t < n; t++) {
        f32 sum = 0.0f;
        for (u32 k = 0u; k < taps; k++) {
            u32 back = past - k;
            f32 v = t >= back ? result[at + t - back] : LD(f32, window, (past + t - back) * width + r);
            sum = fma_(LD(f32, weight, r * taps + k), v, sum);
        }
        ST(f32, y, t * y_stride + r, silu(sum));
    }
    for (u32 k = 0u; k < past; k++) { /* ascending: an entry comes from a later one */
        u32 from = n + k;
        ST(f32, window, k * width + r, from >= past ? result[at + from - past] : LD(f32, window, from * width + r));
    }
}

/* Output rows first .. first + grain - 1 of a job against n rows of x, a subgroup two at a time. type, has_min and depth are constants at every call, so that
 * nothing is decided inside the loop. */
FN void block_of_rows(u32 type, bool has_min, u32 depth, u64 job, u32 first, u32 grain, u64 x, u64 x_bytes, u32 t0, u32 n)
{
    u32 n_in = FIELD(matmul_job, job, w.n_in), n_out = FIELD(matmul_job, job, w.n_out), act = FIELD(matmul_job, job, act);
    u64 data = FIELD(matmul_job, job, w.data), row_bytes = FIELD(matmul_job, job, w.row_bytes), book = FIELD(matmul_job, job, w.book);
    u32 y_stride = FIELD(matmul_job, job, y_stride);
    u64 y = OFF(FIELD(matmul_job, job, y), t0, 4ul * y_stride);
    f32 scale = FIELD(matmul_job, job, scale);
    u64 from[STAGE_WORDS];
    from[0] = x, from[1] = x_bytes;
    for (u32 base = 0u; base < grain; base += 2u * (WORKGROUP / SG_SIZE)) { /* the same for all items: they meet at barriers */
        u32 slot = base + 2u * SG_ID, r0 = first + slot;
        bool live = slot < grain && r0 < n_out;
        f32 sum0[ROWS], sum1[ROWS], nothing[ROWS];
        UNROLL for (u32 t = 0u; t < ROWS; t++)
            sum0[t] = 0.0f, sum1[t] = 0.0f, nothing[t] = 0.0f;
        staged_pair(type, type, has_min, depth, live, base != 0u && n_in <= STAGE_COLUMNS, data + u64(umin_(r0, n_out - 1u)) * row_bytes,
                    data + u64(umin_(r0 + 1u, n_out - 1u)) * row_bytes, book, n_in, 0u, n_in, from, n, sum0, sum1, nothing);
        u32 at = (2u * SG_ID + (SG_LANE & 1u)) * ROWS, r = r0 + SG_LANE; /* of the first two lanes */
        bool mine = live && SG_LANE < 2u && r < n_out;
        UNROLL for (u32 t = 0u; t < ROWS; t++) {
            f32 a = sg_add(sum0[t]), b = sg_add(sum1[t]), v = scale * (SG_LANE == 0u ? a : b);
            if (mine && act == ACT_CONV)
                result[at + t] = v;
            else if (mine && t < n)
                PUT(y, t * y_stride + r, activate(act, v));
        }
        if (mine && act == ACT_CONV)
            convolve(job, r, at, y, y_stride, n);
    }
}

/* What the group does of the call a */
FN void products(matmul_args a)
{
    u32 blocks = a.end[MATVEC_JOBS - 1], t0 = GROUP / blocks * a.tok_group, block = GROUP % blocks, n = umin_(a.tok_group, a.n_tok - t0), before = 0u;
    u64 job = a.job;
    UNROLL for (u32 i = 0u; i < MATVEC_JOBS - 1u; i++) {
        if (block >= a.end[i])
            job += u64(MATMUL_JOB_BYTES), before = a.end[i];
    }
    u32 first = (block - before) * a.grain, type = FIELD(matmul_job, job, w.type);
    u64 x = OFF(a.x, t0, 4ul * a.x_stride), x_bytes = 4ul * a.x_stride;
    if (type == DEV_Q8_0)
        block_of_rows(DEV_Q8_0, false, DEPTH, job, first, a.grain, x, x_bytes, t0, n);
    else if (type == TYPE)
        block_of_rows(TYPE, HAS_MIN(TYPE), DEPTH, job, first, a.grain, x, x_bytes, t0, n);
    else if (type == DEV_BF16)
        block_of_rows(DEV_BF16, false, DEPTH_FLOAT, job, first, a.grain, x, x_bytes, t0, n);
    else
        block_of_rows(type, true, 1u, job, first, a.grain, x, x_bytes, t0, n);
}
