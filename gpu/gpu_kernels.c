/* gpu_kernels.c - the table of the shared rows. */
#include "gpu/device_weights.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"

#include <assert.h>

#define KERNEL KERNEL_CHECK
#include "gpu/gpu_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[GPU_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "gpu/gpu_kernels.def"
#undef KERNEL
};

FAST_DECLARE(gpu_fast);
const struct gpu_kernel_table gpu_kernels = { rows, FAST_TABLES(gpu_fast), GPU_K_COUNT };

/* Four decoded weight rows, each padded to a whole vector; or what products with integers take. */
size_t gpu_scratch_floats(uint32_t n_in) { return MAX(4 * size_up(n_in, 16), (size_t)INT_SCRATCH); }

/* Builds of a row follow one another in the table: by weight type as device_build_of counts them, then by rows of x. */
static uint32_t rows_step(uint32_t n_tok) { return n_tok > 4 ? 3 : n_tok > 2 ? 2 : n_tok - 1; }
uint32_t gpu_rows_of(uint32_t n_tok) { return 1u << rows_step(n_tok); }
uint32_t gpu_rows_build(uint32_t first, uint32_t per_step, uint32_t n_tok) { return first + per_step * rows_step(n_tok); }

/* Many rows of x on matrix units. Small matrices of floats stay with f32 sums: they route, gate and index, where a rounded operand shows. */
static bool on_matrix(const struct gpu_cmd *c, const struct gpu_mat *w, uint32_t n_tok)
{
    bool fine = w->type <= DEV_BF16 && w->n_out <= 1024;
    return c->matrix && n_tok > 8 && !fine && w->n_in % GEMM_DEPTH == 0 && gpu_has(c->gpu, &gpu_kernels, K_gemm_NONE);
}

/* A block takes as few output rows as keep the blocks of a call down to GPU_GROUPS_AT_ONCE. So x is fetched and the job looked up once for many rows; but only
 * where x fits into shared memory, else every sixteen rows would fetch it again. */
enum { MATVEC_GRAIN_MAX = 128, MATVEC_X = 3072 };

/* Blocks of jobs 0 .. i to end[i], behind the last job its own number again; returns their number */
static uint32_t blocks_of_grain(const struct matmul_job *jobs, uint32_t n_job, uint32_t grain, uint32_t *end)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < MATVEC_JOBS; i++)
        end[i] = blocks += i < n_job ? (jobs[i].w.n_out + grain - 1) / grain : 0;
    return blocks;
}

uint32_t gpu_matvec_blocks(struct matmul_args *a, const struct matmul_job *jobs, uint32_t grain)
{
    assert(a->n_job > 0 && a->n_job <= MATVEC_JOBS);
    a->tok_group = a->tok_group ? a->tok_group : gpu_rows_of(a->n_tok);
    uint32_t groups = (a->n_tok + a->tok_group - 1) / a->tok_group, blocks;
    bool grows = !grain && jobs->w.n_in * a->tok_group <= MATVEC_X;
    a->grain = grain ? grain : MATVEC_GRAIN;
    while ((blocks = blocks_of_grain(jobs, a->n_job, a->grain, a->end) * groups) > GPU_GROUPS_AT_ONCE && grows && a->grain < MATVEC_GRAIN_MAX)
        a->grain += MATVEC_GRAIN;
    return blocks;
}

/* Jobs that one build understands go together: any number of common types and one other. */
static void products(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok, gpu_addr apart)
{
    for (uint32_t first = 0, n; first < n_job; first += n) {
        bool matrix = on_matrix(c, &jobs[first].w, n_tok);
        uint32_t build = 0, tiles = 0;
        for (n = 0; first + n < n_job && n < MATVEC_JOBS; n++) {
            uint32_t own = device_build_of(jobs[first + n].w.type);
            if ((own && build && own != build) || on_matrix(c, &jobs[first + n].w, n_tok) != matrix)
                break;
            build = own ? own : build;
            tiles += (jobs[first + n].w.n_out + GEMM_ROWS - 1) / GEMM_ROWS;
        }
        struct matmul_args a = { .x = x, .job = gpu_block(c, jobs + first), .apart = apart, .x_stride = x_stride, .n_job = n, .n_tok = n_tok };
        if (matrix) {
            gpu_record(c, &gpu_kernels, K_gemm_NONE + build, &a, sizeof a, tiles * ((n_tok + GEMM_TOKENS - 1) / GEMM_TOKENS));
        } else {
            uint32_t items = gpu_matvec_blocks(&a, jobs + first, 0);
            gpu_record(c, &gpu_kernels, gpu_rows_build(K_matvec_NONE_r1 + 4 * build, 1, n_tok), &a, sizeof a, items * MATVEC_GRAIN);
        }
        if (first)
            gpu_record_parallel(c);
    }
}

void gpu_matmul_apart(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok, gpu_addr apart)
{
    assert(gpu_backend_of(c->gpu) != GPU_CPU && n_tok <= 8);
    products(c, jobs, n_job, x, x_stride, n_tok, apart);
}

void gpu_keep(struct gpu_cmd *c, gpu_addr runs, gpu_addr from, gpu_addr to, uint32_t width, uint32_t n)
{
    CALL(c, gpu_kernels, K_keep, n * ((width + KEEP_SPAN - 1) / KEEP_SPAN), struct keep_args, .runs = runs, .from = from, .to = to, .width = width);
}

void gpu_quantise(struct gpu_cmd *c, gpu_addr x, uint32_t x_stride, uint32_t n, uint32_t n_tok, size_t at)
{
    CALL(c, gpu_kernels, K_quantise, n_tok, struct quantise_args, .x = x, .rows = c->rows + at, .x_stride = x_stride, .n = n);
}

static bool any_unpacks(const struct matmul_job *jobs, uint32_t n_job)
{
    bool any = false;
    for (uint32_t i = 0; i < n_job; i++)
        any = any || quant_unpacks(jobs[i].w.type);
    return any;
}

void gpu_matmul(struct gpu_cmd *c, const struct matmul_job *jobs, uint32_t n_job, gpu_addr x, uint32_t x_stride, uint32_t n_tok)
{
    uint32_t items = 0;
    if (n_tok == 0)
        return;
    if (gpu_backend_of(c->gpu) != GPU_CPU) {
        products(c, jobs, n_job, x, x_stride, n_tok, 0);
        return;
    }
    for (uint32_t i = 0; i < n_job; i++)
        items += (uint32_t)size_up(jobs[i].w.n_out, MATMUL_GRAIN);
    struct matmul_args a = { .x = x, .job = gpu_block(c, jobs), .x_stride = x_stride, .n_job = n_job, .n_tok = n_tok };
    if (!c->rows || !any_unpacks(jobs, n_job)) {
        gpu_record(c, &gpu_kernels, K_matmul, &a, sizeof a, items);
        return;
    }
    gpu_quantise(c, x, x_stride, jobs->w.n_in, n_tok, 0);
    CALL(c, gpu_kernels, K_matmul_int, items, struct matmul_int_args, .m = a, .rows = c->rows);
    if (n_tok == 1 && n_job == 1)
        gpu_record_together(c, INT_TOGETHER, 0);
}

_Static_assert(sizeof(struct matmul_job) == MATMUL_JOB_BYTES, "the kernels step through jobs by this size");
_Static_assert(sizeof(struct gpu_step) == GPU_STEP_BYTES, "and through the step blocks of rows by this one");
_Static_assert(sizeof(struct gpu_run) == GPU_RUN_BYTES, "and through the runs by this one");
