/* gpu_ref.c - the shared rows in plain C: what every other form is compared with. */
#include "gpu/device_weights.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

float act_apply(uint32_t act, float x)
{
    switch (act) {
    case ACT_SILU: return x / (1.0f + expf(-x));
    case ACT_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case ACT_SIGMOID2: return 2.0f / (1.0f + expf(-x));
    default: return x;
    }
}

static void mat_row(const struct gpu_mat *w, uint64_t row, float *dst)
{
    quant_type(w->type)->decode(AT(const uint8_t, w->data) + row * w->row_bytes, dst, w->n_in);
}

/* The id of row t; what is none counts as the last one */
static uint64_t id_of(const struct gpu_step *step, uint32_t t, const struct gpu_mat *table) { return MIN(AT(const uint32_t, step->ids)[t], table->n_out - 1); }

/* Rows first .. of the embedding, unpacked by `row`, to every stream */
static void embed_rows(const struct embed_args *a, uint32_t first, uint32_t n, void (*row)(const struct gpu_mat *w, uint64_t row, float *out))
{
    const struct gpu_step *step = AT(const struct gpu_step, a->step);
    const struct gpu_mat *w = AT(const struct gpu_mat, a->table);
    for (uint32_t t = first; t < first + n; t++) {
        float *r = AT(float, a->out) + (size_t)t * a->n_stream * w->n_in;
        row(w, id_of(step, t, w), r);
        for (uint32_t s = 1; s < a->n_stream; s++)
            memcpy(r + (size_t)s * w->n_in, r, w->n_in * sizeof *r);
    }
}

void embed_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    (void)scratch;
    embed_rows(args, first, n, mat_row);
}

void matmul_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct matmul_args *a = args;
    const struct matmul_job *job = AT(const struct matmul_job, a->job);
    while (first >= size_up(job->w.n_out, MATMUL_GRAIN)) { /* find the job this block belongs to */
        first -= (uint32_t)size_up(job->w.n_out, MATMUL_GRAIN);
        job++;
    }
    const struct gpu_mat *w = &job->w;
    assert(scratch->n >= w->n_in);
    for (uint32_t r = first; r < first + n && r < w->n_out; r++) {
        mat_row(w, r, scratch->f);
        for (uint32_t t = 0; t < a->n_tok; t++) {
            const float *x = AT(const float, a->x) + (size_t)t * a->x_stride;
            double sum = 0;
            for (uint32_t i = 0; i < w->n_in; i++)
                sum += (double)scratch->f[i] * (double)x[i];
            AT(float, job->y)[(size_t)t * job->y_stride + r] = act_apply(job->act, job->scale * (float)sum);
        }
    }
}

/* ---- rows that read device layouts ---- */

static void device_row(const struct gpu_mat *w, uint64_t row, float *out) { device_unpack_row(w->type, AT(const uint8_t, w->data) + row * w->row_bytes, out, w->n_in); }
void embed_dev_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    (void)scratch;
    embed_rows(args, first, n, device_row);
}

double device_dot(const struct gpu_mat *w, uint64_t row, uint32_t column, const float *x, uint32_t n, float *tmp)
{
    double sum = 0;
    device_unpack_row(w->type, AT(const uint8_t, w->data) + row * w->row_bytes, tmp, w->n_in);
    for (uint32_t i = 0; i < n; i++)
        sum += (double)tmp[column + i] * (double)x[i];
    return sum;
}

/* silu of the convolution of v, the value of output row r, and the window of the job moves on */
static float convolve(const struct matmul_job *job, uint32_t r, float v)
{
    float *window = AT(float, job->window), sum = 0;
    const float *tap = AT(const float, job->taps) + r * job->n_taps;
    uint32_t past = job->n_taps - 1, width = job->w.n_out;
    for (uint32_t k = 0; k < past; k++) {
        sum += tap[k] * window[(size_t)k * width + r];
        window[(size_t)k * width + r] = k + 1 < past ? window[(size_t)(k + 1) * width + r] : v;
    }
    return act_apply(ACT_SILU, sum + tap[past] * v);
}

void matvec_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct matmul_args *a = args;
    const struct matmul_job *jobs = AT(const struct matmul_job, a->job);
    uint32_t blocks = a->end[MATVEC_JOBS - 1];
    for (uint32_t g = first / MATVEC_GRAIN; g < (first + n_items) / MATVEC_GRAIN; g++) {
        uint32_t t0 = g / blocks * a->tok_group, block = g % blocks, n = MIN(a->tok_group, a->n_tok - t0);
        const struct matmul_job *job = jobs;
        for (; block >= (job->w.n_out + a->grain - 1) / a->grain; job++)
            block -= (job->w.n_out + a->grain - 1) / a->grain;
        for (uint32_t r = block * a->grain; r < MIN((block + 1) * a->grain, job->w.n_out); r++) {
            for (uint32_t t = t0; t < t0 + n; t++) {
                float v = job->scale * (float)device_dot(&job->w, r, 0, AT(const float, a->x) + (size_t)t * a->x_stride, job->w.n_in, scratch->f);
                const struct matmul_job *own = AT(const struct matmul_job, gpu_own_block(ADDR(job), a->apart, t));
                AT(float, job->y)[(size_t)t * job->y_stride + r] = job->act == ACT_CONV ? convolve(own, r, v) : act_apply(job->act, v);
            }
        }
    }
}

/* Operands are not rounded to f16 here: the tolerance of the row says what that costs. */
void gemm_ref(const void *args, uint32_t first, uint32_t n_items, struct cpu_scratch *scratch)
{
    const struct matmul_args *a = args;
    uint32_t token_tiles = (a->n_tok + GEMM_TOKENS - 1) / GEMM_TOKENS;
    for (uint32_t g = first; g < first + n_items; g++) {
        const struct matmul_job *job = AT(const struct matmul_job, a->job);
        uint32_t block = g / token_tiles, t0 = g % token_tiles * GEMM_TOKENS;
        for (; block >= (job->w.n_out + GEMM_ROWS - 1) / GEMM_ROWS; job++)
            block -= (job->w.n_out + GEMM_ROWS - 1) / GEMM_ROWS;
        for (uint32_t r = block * GEMM_ROWS; r < MIN((block + 1) * GEMM_ROWS, job->w.n_out); r++)
            for (uint32_t t = t0; t < MIN(t0 + GEMM_TOKENS, a->n_tok); t++)
                AT(float, job->y)[(size_t)t * job->y_stride + r] = act_apply(
                    job->act, job->scale * (float)device_dot(&job->w, r, 0, AT(const float, a->x) + (size_t)t * a->x_stride, job->w.n_in, scratch->f));
    }
}

void copy_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct copy_args *a = args;
    (void)scratch;
    for (int i = 0; i < 4; i++)
        if (first < a->n[i])
            memcpy(AT(uint8_t, a->to[i]) + 16 * (size_t)first, AT(const uint8_t, a->from[i]) + 16 * (size_t)first, 16 * (size_t)MIN(n, a->n[i] - first));
}

void slide_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct slide_args *a = args;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        struct gpu_run run = gpu_run_of(a->runs, item / (a->n_job * a->spans), 1);
        const struct slide_job *job = AT(const struct slide_job, a->job + run.blocks) + item / a->spans % a->n_job;
        uint32_t c = item % a->spans * SLIDE_SPAN, width, count = a->runs ? run.fold : *AT(const uint32_t, a->count);
        if (run.n == 0)
            continue;
        width = job->width;
        size_t bytes = c < width ? MIN((uint32_t)SLIDE_SPAN, width - c) * sizeof(float) : 0;
        float *window = AT(float, job->window), *live = AT(float, job->live);
        for (uint32_t k = 0; k < job->past && bytes; k++) { /* row k becomes the one that lies count rows behind it */
            uint32_t from = count + k;
            const float *x = from >= job->past ? AT(const float, job->next) + (size_t)(from - job->past) * width : window + (size_t)from * width;
            if (count)
                memcpy(window + (size_t)k * width + c, x + c, bytes);
            if (live)
                memcpy(live + (size_t)k * width + c, x + c, bytes);
        }
    }
}

void keep_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct keep_args *a = args;
    uint32_t spans = (a->width + KEEP_SPAN - 1) / KEEP_SPAN;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        struct gpu_run run = gpu_run_of(a->runs, item / spans, 0);
        uint32_t c = item % spans * KEEP_SPAN;
        for (uint32_t r = 0; r < run.n; r++)
            memcpy(AT(float, a->to + run.kept) + (size_t)r * a->width + c, AT(const float, a->from) + (size_t)(run.first + r) * a->width + c,
                   MIN((uint32_t)KEEP_SPAN, a->width - c) * sizeof(float));
    }
}

/* ---- arg-max ---- */

static const struct argmax_best argmax_none = { ARGMAX_NONE, -INFINITY };

/* Comparisons with NaN are false, so NaN never replaces anything */
static void argmax_take(struct argmax_best *b, uint32_t id, float x)
{
    if (x > b->value || (x == b->value && id < b->id))
        *b = (struct argmax_best){ id, x };
}

void argmax_part_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct argmax_part_args *a = args;
    uint32_t parts = (a->n + ARGMAX_SPAN - 1) / ARGMAX_SPAN;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        const float *x = AT(const float, a->x) + (size_t)(item / parts) * a->stride;
        uint32_t from = item % parts * ARGMAX_SPAN, to = MIN(from + ARGMAX_SPAN, a->n);
        struct argmax_best best = argmax_none;
        for (uint32_t i = from; i < to; i++)
            argmax_take(&best, i, x[i]);
        AT(struct argmax_best, a->part)[item] = best;
    }
}

void argmax_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct argmax_args *a = args;
    (void)scratch;
    for (uint32_t r = first; r < first + n; r++) {
        const struct argmax_best *part = AT(const struct argmax_best, a->part) + (size_t)r * a->n_part;
        struct argmax_best best = argmax_none;
        for (uint32_t i = 0; i < a->n_part; i++)
            argmax_take(&best, part[i].id, part[i].value);
        AT(struct argmax_best, a->best)[r] = best;
    }
}

/* ---- the k largest ---- */

/* The value by which entries are ordered; -infinity: never taken */
static float top_value(float x) { return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : x; }

/* The k best of n entries to list, which is sorted by value until the end; pair NULL: entry i is (i, x[i]) */
static void top_list(const struct argmax_best *pair, const float *x, uint32_t first, uint32_t n, uint32_t k, struct argmax_best *list)
{
    uint32_t n_list = 0;
    for (uint32_t i = first; i < first + n; i++) {
        struct argmax_best b = pair ? pair[i] : (struct argmax_best){ i, x[i] };
        float v = top_value(b.value);
        if (v == -INFINITY || (n_list == k && v <= top_value(list[k - 1].value)))
            continue;
        uint32_t at = n_list < k ? n_list++ : k - 1;
        for (; at && top_value(list[at - 1].value) < v; at--) /* behind its equals, which came first */
            list[at] = list[at - 1];
        list[at] = b;
    }
    for (uint32_t i = 1; i < n_list; i++) { /* by index */
        struct argmax_best b = list[i];
        uint32_t at = i;
        for (; at && list[at - 1].id > b.id; at--)
            list[at] = list[at - 1];
        list[at] = b;
    }
    while (n_list < k)
        list[n_list++] = argmax_none;
}

static void top_any(const struct top_args *a, uint32_t first, uint32_t n, bool pairs)
{
    uint32_t spans = (a->n + TOP_SPAN - 1) / TOP_SPAN;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t at = item % spans * TOP_SPAN;
        size_t row = (size_t)(item / spans) * a->stride;
        top_list(pairs ? AT(const struct argmax_best, a->from) + row : NULL, pairs ? NULL : AT(const float, a->from) + row, at,
                 MIN((uint32_t)TOP_SPAN, a->n - at), a->k, AT(struct argmax_best, a->to) + (size_t)item * a->k);
    }
}

void top_part_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    (void)scratch;
    top_any(args, first, n, false);
}

void top_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    (void)scratch;
    top_any(args, first, n, true);
}

/* ---- measuring ---- */

void bench_empty_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct bench_empty_args *a = args;
    (void)scratch;
    for (uint32_t i = first; i < first + n; i++)
        AT(uint32_t, a->count)[i]++;
}

void bench_read_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct bench_read_args *a = args;
    (void)scratch;
    for (uint32_t i = first; i < first + n; i++) {
        uint32_t *data = AT(uint32_t, a->data) + (size_t)i * a->n_word, sum = 0;
        for (uint32_t k = 0; !a->write && k < a->n_word; k++)
            sum += data[k];
        for (uint32_t k = 0; a->write && k < a->n_word; k++)
            data[k] = i * a->n_word + k;
        AT(uint32_t, a->sum)[i] = sum;
    }
}
