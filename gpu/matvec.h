/* matvec.h - the products of matvec.k, for kernels that do more with them: y = act(scale * W x) for the jobs of one call and up to ROWS rows of x (struct
 * matmul_args).
 *
 * A subgroup takes two output rows at a time; its lanes take chunks of 16 columns, lane l the chunks l, l + SG_SIZE, ... ascending. Weights are read once and
 * multiplied with every row of x, which the group keeps in shared memory. So a row of x is summed in one order, whatever else is in the batch. */
#include "gpu/activate.h"
#include "gpu/lang/apart.h"
#include "gpu/lang/staged.h"

#define STAGE_WORDS 2
FN void stage(IN_ARRAY(u64, from, STAGE_WORDS), u32 n, u32 first, u32 columns, OUT_ARRAY(f32, seen, ROWS)) { stage_rows(from[0], from[1], n, first, columns); }
#include "gpu/lang/pair.h"

#ifdef LAST_GROUP /* another group will read them */
#define PUT(address, i, x) ST_COHERENT(f32, address, i, x)
#else
#define PUT(address, i, x) ST(f32, address, i, x)
#endif

#define PAST_MAX 7u /* taps before the current one */

STRUCT_IN_MEMORY(matmul_job)

/* The short convolution of value x of column r, which follows the window of this job; the window moves on */
FN f32 convolve(u64 job, u32 r, f32 x)
{
    u32 taps = FIELD(matmul_job, job, n_taps), past = taps - 1u, width = FIELD(matmul_job, job, w.n_out);
    u64 weight = FIELD(matmul_job, job, taps), window = FIELD(matmul_job, job, window);
    f32 old[PAST_MAX], tap[PAST_MAX], last = LD(f32, weight, r * taps + past), sum = 0.0f;
    UNROLL for (u32 k = 0u; k < PAST_MAX; k++) {
        old[k] = tap[k] = 0.0f;
        if (k < past) {
            old[k] = LD(f32, window, k * width + r);
            tap[k] = LD(f32, weight, r * taps + k);
        }
    }
    UNROLL for (u32 k = 0u; k < PAST_MAX; k++) {
        if (k < past) { /* the oldest first */
            sum = fma_(tap[k], old[k], sum);
            ST(f32, window, k * width + r, k + 1u < past ? old[(k + 1u) % PAST_MAX] : x);
        }
    }
    return fma_(last, x, sum);
}

/* Output rows first .. first + grain - 1 of a job against n rows of x, a subgroup two at a time. type, has_min and depth are constants at every call, so that
 * nothing is decided inside the loop. */
FN void block_of_rows(u32 type, bool has_min, u32 depth, u64 job, u64 apart, u32 first, u32 grain, u64 x, u64 x_bytes, u32 t0, u32 n)
{
    u32 n_in = FIELD(matmul_job, job, w.n_in), n_out = FIELD(matmul_job, job, w.n_out), act = FIELD(matmul_job, job, act);
    u64 data = FIELD(matmul_job, job, w.data), row_bytes = FIELD(matmul_job, job, w.row_bytes), book = FIELD(matmul_job, job, w.book);
    u32 y_stride = FIELD(matmul_job, job, y_stride);
    u64 y = OFF(FIELD(matmul_job, job, y), t0, 4ul * y_stride);
    f32 scale = FIELD(matmul_job, job, scale);
    u64 from[STAGE_WORDS];
    from[0] = x, from[1] = x_bytes;
    u32 end = umin_(first + grain, n_out);
    for (u32 base = first; base < end; base += 2u * (WORKGROUP / SG_SIZE)) { /* the same for all items: they meet at barriers */
        u32 r0 = base + 2u * SG_ID;
        bool live = r0 < end;
        f32 sum0[ROWS], sum1[ROWS], nothing[ROWS];
        UNROLL for (u32 t = 0u; t < ROWS; t++)
            sum0[t] = 0.0f, sum1[t] = 0.0f, nothing[t] = 0.0f;
        staged_pair(type, type, has_min, depth, live, base != first && n_in <= STAGE_COLUMNS, data + u64(umin_(r0, end - 1u)) * row_bytes,
                    data + u64(umin_(r0 + 1u, end - 1u)) * row_bytes, book, n_in, 0u, n_in, from, n, sum0, sum1, nothing);
        UNROLL for (u32 t = 0u; t < ROWS; t++)
            sum0[t] = sg_add(sum0[t]), sum1[t] = sg_add(sum1[t]);
        /* A lane finishes one value of a row: lanes 2 t and 2 t + 1 those of row t, in turns where a subgroup is smaller */
        for (u32 own = SG_LANE; own < 2u * ROWS; own += SG_SIZE) {
            u32 mine = own / 2u, r = r0 + (own & 1u);
            f32 v = 0.0f;
            UNROLL for (u32 t = 0u; t < ROWS; t++)
                v = t == mine ? ((own & 1u) == 0u ? sum0[t] : sum1[t]) : v;
            v *= scale;
            if (mine < n && r < end) {
                if (act == ACT_CONV)
                    v = convolve(own_block(job, apart, mine), r, v);
                PUT(y, mine * y_stride + r, activate(act, v));
            }
        }
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
    u64 x = OFF(a.x, t0, 4ul * a.x_stride), x_bytes = 4ul * a.x_stride, apart = a.apart == 0ul ? 0ul : step_of(a.apart, t0);
    if (type == DEV_Q8_0)
        block_of_rows(DEV_Q8_0, false, DEPTH, job, apart, first, a.grain, x, x_bytes, t0, n);
    else if (type == TYPE)
        block_of_rows(TYPE, HAS_MIN(TYPE), DEPTH, job, apart, first, a.grain, x, x_bytes, t0, n);
    else if (type == DEV_BF16)
        block_of_rows(DEV_BF16, false, DEPTH_FLOAT, job, apart, first, a.grain, x, x_bytes, t0, n);
    else
        block_of_rows(type, true, 1u, job, apart, first, a.grain, x, x_bytes, t0, n);
}
