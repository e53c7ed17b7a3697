/* gpu_cpu_fast.c - vectorised twins of the shared rows; compiled once per instruction set (ISA). */
#include "gpu/cpu_act.h"
#include "gpu/cpu_decode.h"
#include "gpu/cpu_vec.h"
#include "gpu/gpu_kernels.h"
#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include "gpu/cpu_quantise.h"
#include "gpu/cpu_tile.h"
#endif

#include <assert.h>

static void matmul(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct matmul_args *a = args;
    const struct matmul_job *job = AT(const struct matmul_job, a->job);
    while (first >= size_up(job->w.n_out, MATMUL_GRAIN)) {
        first -= (uint32_t)size_up(job->w.n_out, MATMUL_GRAIN);
        job++;
    }
    const struct gpu_mat *w = &job->w;
    uint32_t end = MIN(first + n, w->n_out), pitch = (uint32_t)size_up(w->n_in, VEC);
    assert(scratch->n >= 4 * (size_t)pitch);
    for (uint32_t r = first; r < end; r += 4) {
        uint32_t nr = MIN(4u, end - r);
        const float *row[4] = { 0 };
        for (uint32_t i = 0; i < nr; i++) {
            row[i] = mat_row_at(w, r + i, scratch->f + i * pitch);
        }
        for (uint32_t t = 0; t < a->n_tok; t += 4) {
            uint32_t nt = MIN(4u, a->n_tok - t);
            const float *x[4] = { 0 };
            for (uint32_t j = 0; j < nt; j++)
                x[j] = AT(const float, a->x) + (size_t)(t + j) * a->x_stride;
            float out[4][4];
            dot_tile(row, nr, x, nt, w->n_in, out);
            for (uint32_t j = 0; j < nt; j++)
                for (uint32_t i = 0; i < nr; i++)
                    AT(float, job->y)[(size_t)(t + j) * job->y_stride + r + i] = act_apply(job->act, job->scale * out[i][j]);
        }
    }
}

#if defined(__AVX512VNNI__) || defined(__AVX2__)
static void quantise(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct quantise_args *a = args;
    (void)scratch;
    for (uint32_t t = first; t < first + n; t++)
        quantise_row(AT(const float, a->x) + (size_t)t * a->x_stride, a->n, AT(uint8_t, a->rows) + t * int_row_bytes(a->n));
}

/* Row r of this job, which may lie in the next one */
static const uint8_t *row_from(const struct matmul_int_args *a, const struct matmul_job *job, uint32_t r)
{
    const struct matmul_job *end = AT(const struct matmul_job, a->m.job) + a->m.n_job;
    for (; job < end && r >= size_up(job->w.n_out, MATMUL_GRAIN); job++)
        r -= (uint32_t)size_up(job->w.n_out, MATMUL_GRAIN);
    return job < end ? panel_data(&job->w, r) : NULL;
}

/* y = act(scale * sum) of n rows, a few more of which there is room for in sum */
static void store_products(const struct matmul_job *job, float *sum, uint32_t n, float *y)
{
    vf scale = v_set(job->scale);
    for (uint32_t i = 0; i < n; i += VEC)
        v_store(sum + i, v_act(job->act, scale * v_load(sum + i)));
    memcpy(y, sum, n * sizeof *sum);
}

static void matmul_int(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct matmul_int_args *a = args;
    const struct matmul_job *job = AT(const struct matmul_job, a->m.job);
    uint32_t r = first;
    for (; r >= size_up(job->w.n_out, MATMUL_GRAIN); job++)
        r -= (uint32_t)size_up(job->w.n_out, MATMUL_GRAIN);
    if (!panel_group(job->w.type)) {
        matmul(&a->m, first, n, scratch);
        return;
    }
    assert(scratch->n >= INT_SCRATCH && n <= (a->m.n_tok == 1 ? INT_TOGETHER * PANEL_ROWS : PANEL_ROWS));
    struct int_work *work = (void *)scratch->f;
    uint32_t nr = MIN(n, job->w.n_out - r);
    const uint8_t *next = row_from(a, job, r + n);
    if (a->m.n_tok == 1) {
        int_products_of_one(work, &job->w, r, nr, AT(const uint8_t, a->rows), next, work->sum[0][0]);
        store_products(job, work->sum[0][0], nr, AT(float, job->y) + r);
        return;
    }
    for (uint32_t t0 = 0; t0 < a->m.n_tok; t0 += INT_TOKENS) {
        uint32_t nt = MIN((uint32_t)INT_TOKENS, a->m.n_tok - t0);
        struct int_rows x = { .row = AT(const uint8_t, a->rows) + t0 * int_row_bytes(job->w.n_in) };
        int_products(work, &job->w, r, nr, x, nt, next, work->sum[0]);
        for (uint32_t t = 0; t < nt; t++)
            store_products(job, work->sum[0][t], nr, AT(float, job->y) + (size_t)(t0 + t) * job->y_stride + r);
    }
}
#endif

/* Reads at the speed of the memory, not of a chain of additions. */
static void bench_read(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    typedef uint32_t vu __attribute__((vector_size(64)));
    const struct bench_read_args *a = args;
    if (a->write) {
        bench_read_ref(args, first, n, scratch);
        return;
    }
    for (uint32_t i = first; i < first + n; i++) {
        const uint8_t *data = AT(const uint8_t, a->data) + (size_t)i * a->n_word * 4;
        vu acc[4] = { { 0 } };
        for (size_t k = 0; k < (size_t)a->n_word * 4; k += sizeof acc)
            for (size_t j = 0; j < 4; j++) {
                vu v;
                memcpy(&v, data + k + j * sizeof v, sizeof v);
                acc[j] += v;
            }
        acc[0] += acc[1] + acc[2] + acc[3];
        uint32_t sum = 0;
        for (int l = 0; l < VEC; l++)
            sum += acc[0][l];
        AT(uint32_t, a->sum)[i] = sum;
    }
}

const gpu_row_fn ISA_NAME(gpu_fast)[GPU_K_COUNT] = {
    [K_matmul] = matmul,
    [K_bench_read] = bench_read,
#if defined(__AVX512VNNI__) || defined(__AVX2__)
    [K_quantise] = quantise,
    [K_matmul_int] = matmul_int,
#endif
};
