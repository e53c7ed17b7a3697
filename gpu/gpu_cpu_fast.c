/* gpu_cpu_fast.c - vectorised twins of the shared rows; compiled once per instruction set (ISA). */
#include "gpu/cpu_decode.h"
#include "gpu/cpu_vec.h"
#include "gpu/gpu_kernels.h"

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
            mat_row(w, r + i, scratch->f + i * pitch);
            row[i] = scratch->f + i * pitch;
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

const gpu_row_fn ISA_NAME(gpu_fast)[GPU_K_COUNT] = { [K_matmul] = matmul, [K_bench_read] = bench_read };
