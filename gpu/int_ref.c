/* int_ref.c - the rows that work with integer activations (int_rows.h) in plain C. */
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void quantise_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct quantise_args *a = args;
    uint32_t n = a->n;
    (void)scratch;
    for (uint32_t t = first; t < first + n_items; t++) {
        const float *x = AT(const float, a->x) + (size_t)t * a->x_stride;
        uint8_t *row = AT(uint8_t, a->rows) + t * int_row_bytes(n);
        float *scale = (float *)(void *)row;
        int32_t *bias16 = (int32_t *)(void *)(row + int_row_bias(n)), *bias32 = bias16 + n / 16;
        int8_t *v = (int8_t *)(row + int_row_values(n));
        memset(row, 0, int_row_bytes(n));
        for (uint32_t g = 0; g < n / 32; g++) {
            float most = 0;
            bool finite = true;
            for (uint32_t i = 32 * g; i < 32 * g + 32; i++) {
                finite = finite && isfinite(x[i]);
                most = fmaxf(most, fabsf(x[i]));
            }
            float inverse = most >= INT_ROWS_LEAST ? INT_ROWS_MAX / most : 0;
            scale[g] = finite ? most / INT_ROWS_MAX : NAN;
            for (uint32_t i = 32 * g; finite && i < 32 * g + 32; i++) {
                int q = (int)rintf(x[i] * inverse), lo = ((q + 128) & 255) - 128;
                v[i / 4 * 8 + i % 4] = (int8_t)((q - lo) / 256);
                v[i / 4 * 8 + 4 + i % 4] = (int8_t)lo;
                bias16[i / 16] -= 128 * q;
                bias32[g] -= 128 * q;
            }
        }
    }
}

double int_row_dot(const struct gpu_mat *w, uint64_t r, const uint8_t *row, float *tmp)
{
    double sum = 0;
    quant_type(w->type)->decode(AT(const uint8_t, w->data) + r * w->row_bytes, tmp, w->n_in);
    for (uint32_t i = 0; i < w->n_in; i++)
        sum += (double)tmp[i] * int_row_value(row, w->n_in, i);
    return sum;
}

void matmul_int_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct matmul_int_args *a = args;
    const struct matmul_job *job = AT(const struct matmul_job, a->m.job);
    uint32_t at = first;
    for (; at >= size_up(job->w.n_out, MATMUL_GRAIN); job++)
        at -= (uint32_t)size_up(job->w.n_out, MATMUL_GRAIN);
    if (!quant_unpacks(job->w.type)) {
        matmul_ref(&a->m, first, n, scratch);
        return;
    }
    assert(scratch->n >= job->w.n_in);
    for (uint32_t r = at; r < MIN(at + n, job->w.n_out); r++)
        for (uint32_t t = 0; t < a->m.n_tok; t++) {
            const uint8_t *row = AT(const uint8_t, a->rows) + t * int_row_bytes(job->w.n_in);
            AT(float, job->y)[(size_t)t * job->y_stride + r] = act_apply(job->act, job->scale * (float)int_row_dot(&job->w, r, row, scratch->f));
        }
}
