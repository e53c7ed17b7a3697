/* matvec.h - the products of matvec.k, for kernels that do more with them: y = act(scale * W x) for the jobs of one call and up to ROWS rows of x (struct
 * matmul_args).
 *
 * A subgroup takes two output rows; its lanes take chunks of 16 columns, lane l the chunks l, l + SG_SIZE, ... ascending. Weights are read once and
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
SHARED(f32, result, MATVEC_GRAIN * ROWS)

/* result[slot + i][t] for the two weight rows r0 + i against n rows of x. type, has_min and depth are constants at every call, so that nothing is decided inside
 * the loop. */
FN void two_rows(u32 type, bool has_min, u32 depth, u64 job, u32 r0, u32 slot, u64 x, u64 x_bytes, u32 n)
{
    u32 n_in = FIELD(matmul_job, job, w.n_in), last = FIELD(matmul_job, job, w.n_out) - 1u;
    u64 data = FIELD(matmul_job, job, w.data), row_bytes = FIELD(matmul_job, job, w.row_bytes), book = FIELD(matmul_job, job, w.book);
    u64 row0 = data + u64(umin_(r0, last)) * row_bytes, row1 = data + u64(umin_(r0 + 1u, last)) * row_bytes;
    bool live = slot < MATVEC_GRAIN;
    f32 sum0[ROWS], sum1[ROWS], nothing[ROWS];
    UNROLL for (u32 t = 0u; t < ROWS; t++)
        sum0[t] = 0.0f, sum1[t] = 0.0f, nothing[t] = 0.0f;
    u64 from[STAGE_WORDS];
    from[0] = x, from[1] = x_bytes;
    staged_pair(type, type, has_min, depth, live, row0, row1, book, n_in, 0u, n_in, from, n, sum0, sum1, nothing);
    UNROLL for (u32 t = 0u; t < ROWS; t++) {
        f32 a = sg_add(sum0[t]), b = sg_add(sum1[t]);
        if (live && SG_LANE == 0u) {
            result[slot * ROWS + t] = a;
            result[(slot + 1u) * ROWS + t] = b;
        }
    }
}

/* silu of the short convolution of n values of column r, which follow the window; the window moves on */
FN void convolve(u64 job, u32 r, u32 slot, u64 y, u32 y_stride, u32 n)
{
    u32 taps = FIELD(matmul_job, job, n_taps), past = taps - 1u, width = FIELD(matmul_job, job, w.n_out);
    u64 weight = FIELD(matmul_job, job, taps), window = FIELD(matmul_job, job, window);
    f32 scale = FIELD(matmul_job, job, scale);
    for (u32 t = 0u; t < n; t++) {
        f32 sum = 0.0f;
        for (u32 k = 0u; k < taps; k++) {
            u32 back = past - k;
            f32 v = t >= back ? scale * result[slot * ROWS + t - back] : LD(f32, window, (past + t - back) * width + r);
            sum = fma_(LD(f32, weight, r * taps + k), v, sum);
        }
        ST(f32, y, t * y_stride + r, silu(sum));
    }
    for (u32 k = 0u; k < past; k++) { /* ascending: an entry comes from a later one */
        u32 from = n + k;
        ST(f32, window, k * width + r, from >= past ? scale * result[slot * ROWS + from - past] : LD(f32, window, from * width + r));
    }
}

/* What the group does of the call a */
FN void products(matmul_args a)
{
    u32 blocks = 0u;
    for (u32 i = 0u; i < a.n_job; i++)
        blocks += ceil_div(FIELD(matmul_job, OFF(a.job, i, MATMUL_JOB_BYTES), w.n_out), MATVEC_GRAIN);
    u32 t0 = GROUP / blocks * a.tok_group, block = GROUP % blocks, n = umin_(a.tok_group, a.n_tok - t0);
    u64 job = a.job;
    for (u32 here = ceil_div(FIELD(matmul_job, job, w.n_out), MATVEC_GRAIN); block >= here; here = ceil_div(FIELD(matmul_job, job, w.n_out), MATVEC_GRAIN)) {
        block -= here;
        job += u64(MATMUL_JOB_BYTES);
    }
    u32 first = block * MATVEC_GRAIN, n_out = FIELD(matmul_job, job, w.n_out);
    u64 x = OFF(a.x, t0, 4ul * a.x_stride);
    u32 type = FIELD(matmul_job, job, w.type);
    for (u32 base = 0u; base < MATVEC_GRAIN; base += 2u * (WORKGROUP / SG_SIZE)) { /* the same for all items: they meet at barriers */
        u32 slot = base + 2u * SG_ID;
        if (type == DEV_Q8_0)
            two_rows(DEV_Q8_0, false, DEPTH, job, first + slot, slot, x, 4ul * a.x_stride, n);
        else if (type == TYPE)
            two_rows(TYPE, HAS_MIN(TYPE), DEPTH, job, first + slot, slot, x, 4ul * a.x_stride, n);
        else if (type == DEV_BF16)
            two_rows(DEV_BF16, false, DEPTH_FLOAT, job, first + slot, slot, x, 4ul * a.x_stride, n);
        else
            two_rows(type, true, 1u, job, first + slot, slot, x, 4ul * a.x_stride, n);
    }
    sync_group();

    u32 act = FIELD(matmul_job, job, act), y_stride = FIELD(matmul_job, job, y_stride);
    u64 y = OFF(FIELD(matmul_job, job, y), t0, 4ul * y_stride);
    f32 scale = FIELD(matmul_job, job, scale);
    if (act == ACT_CONV) {
        if (LID < MATVEC_GRAIN && first + LID < n_out)
            convolve(job, first + LID, LID, y, y_stride, n);
        return;
    }
    for (u32 i = LID; i < MATVEC_GRAIN * n; i += WORKGROUP) {
        u32 slot = i % MATVEC_GRAIN, t = i / MATVEC_GRAIN;
        if (first + slot < n_out)
            PUT(y, t * y_stride + first + slot, activate(act, scale * result[slot * ROWS + t]));
    }
}
