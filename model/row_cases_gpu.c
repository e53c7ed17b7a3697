/* row_cases_gpu.c - random cases of the shared rows. */
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/row_cases.h"

#include <math.h>
#include <string.h>

static const uint32_t types[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q5_1 };

/* Random ids, some of them none, from a table in the file's layout or a device's */
static void embed_call(struct row_case *c, uint32_t type, bool of_device)
{
    uint32_t block = MAX(of_device ? 16u : 1u, (uint32_t)quant_type(type)->block_len), n_tok = case_size(c, 0, 4, 1, 9);
    uint32_t n_in = block * (1 + case_rnd(c, of_device ? 1 + 700 / block : 5)), n_vocab = 1 + case_rnd(c, 40), n_stream = 1 + case_rnd(c, 5);
    struct gpu_step *step = case_struct(c, "step", sizeof *step);
    struct gpu_mat *table = case_struct(c, "matrix", sizeof *table);
    struct weights_size size;
    float *out = case_f32(c, "out", BUF_OUT, (size_t)n_tok * n_stream * n_in);
    uint32_t *ids = case_u32(c, "ids", BUF_IN, n_tok);
    for (uint32_t t = 0; t < n_tok; t++)
        ids[t] = case_rnd(c, 8) ? case_rnd(c, n_vocab) : ARGMAX_NONE;
    *table = of_device ? case_device_mat(c, "table", type, c->round % 3 == 0, n_in, n_vocab, &size) : case_mat(c, "table", type, n_in, n_vocab, &size);
    *step = (struct gpu_step){ .ids = ADDR(ids), .n_tok = n_tok };
    struct embed_args a = { .step = ADDR(step), .table = ADDR(table), .out = ADDR(out), .n_stream = n_stream };
    if (of_device)
        case_tolerance(c, out, SUM_ABS(1, DEVICE_TERM(size)), 0); /* scale * q + min in one rounding or two, the scale itself a product */
    case_shape(c, "%s, n_tok %u, n_stream %u, n_in %u", quant_type(type)->name, n_tok, n_stream, n_in);
    case_call(c, &a, sizeof a, n_tok);
}
static void embed(struct row_case *c) { embed_call(c, types[c->round % COUNT_OF(types)], false); }

/* This build knows every layout */
static void embed_dev(struct row_case *c)
{
    static const uint32_t of_device[] = { QUANT_F32,  QUANT_F16,  QUANT_BF16, QUANT_Q8_0,   QUANT_Q4_K, QUANT_Q5_K,
                                          QUANT_Q5_1, QUANT_Q6_K, QUANT_IQ4_NL, QUANT_IQ3_S, QUANT_Q4_0 };
    embed_call(c, of_device[c->round % COUNT_OF(of_device)], true);
}

enum product { PLAIN, CONV, MATRIX };
/* One job of a matvec or gemm call. Its tolerance: as in matmul; for CONV the products, whose error is e, go through a convolution of n_taps, with a window for
 * each row; on MATRIX units operands are f16. */
static struct matmul_job device_job(struct row_case *c, uint32_t type, bool common, uint32_t n_in, uint32_t n_out, uint32_t n_tok, enum product kind)
{
    bool conv = kind == CONV;
    struct weights_size size;
    uint32_t stride = n_out + case_rnd(c, 3);
    struct matmul_job j = { .w = case_device_mat(c, "w", type, common, n_in, n_out, &size), .y_stride = stride, .act = conv ? ACT_CONV : case_rnd(c, 4),
                            .scale = 0.25f, .n_taps = conv ? 2 + case_rnd(c, 3) : 0 };
    float *y = case_f32(c, "y", BUF_OUT, (size_t)(n_tok - 1) * stride + n_out);
    double e = 0.25 * SUM_ABS(n_in, DEVICE_TERM(size)), largest = fmax(1, 2 * 0.25 * PRODUCT_SIZE(n_in, size)); /* into a window of at most 1 */
    j.y = ADDR(y);
    e += kind == MATRIX ? 0.25 * F16_ABS(n_in, size) : 0;
    if (conv) {
        float *window = case_f32(c, "window", BUF_INOUT, (size_t)n_tok * (j.n_taps - 1) * n_out);
        j.window = ADDR(window);
        j.taps = ADDR(case_f32(c, "taps", BUF_IN, (size_t)n_out * j.n_taps));
        case_tolerance(c, window, e, 0);
        e = j.n_taps * e + SUM_ABS(j.n_taps, largest);
    }
    case_tolerance(c, y, 1.1 * e, SIGMOID_REL(8));
    return j;
}

static void matvec(struct row_case *c)
{
    uint32_t rows = case_define(c, "ROWS", 1), n_job = 1 + case_some(c, 3), n_tok = case_size(c, 0, rows, 1, 2 * rows + 1);
    bool common, conv = c->round % 4 == 3;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX(16u, (uint32_t)quant_type(type)->block_len);
    uint32_t shortest = c->round % 6 == 4 ? 2600 : 0; /* then all of a loop runs that keeps six times 512 weights in flight */
    uint32_t n_in = block * (1 + shortest / block + case_some(c, 1 + 1500 / block)), stride = n_in + 4 * case_rnd(c, 3);
    uint32_t n_seq = conv ? n_tok : 1; /* rows with a window each */
    struct matmul_job *job = case_struct(c, "jobs", (size_t)n_seq * n_job * sizeof *job);
    for (uint32_t j = 0; j < n_job; j++) {
        uint32_t n_out = case_size(c, 1 + j, MATVEC_GRAIN, 1, 70);
        bool other = j % 2 && c->round % 2; /* jobs of a call may differ in type */
        job[j] = device_job(c, other ? QUANT_F16 : type, common || other, n_in, n_out, n_tok, conv && j == 0 ? CONV : PLAIN);
    }
    float *x = case_f32(c, "x", BUF_IN, (size_t)n_tok * stride);
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = n_in; i < stride; i++)
            x[(size_t)t * stride + i] = NAN;
    struct matmul_args a = { .x = ADDR(x), .job = ADDR(job), .x_stride = stride, .n_job = n_job, .n_tok = n_tok, .tok_group = rows };
    if (conv && (n_tok > 1 || c->round % 8 == 3))
        a.apart = ADDR(case_apart(c, n_tok, n_job * sizeof *job));
    for (uint32_t s = 1; s < n_seq; s++) {
        memcpy(&job[s * n_job], job, n_job * sizeof *job);
        job[s * n_job].window += (gpu_addr)s * (job->n_taps - 1) * job->w.n_out * sizeof(float);
    }
    uint32_t blocks = gpu_matvec_blocks(&a, job, MATVEC_GRAIN * case_rnd(c, 4));
    case_shape(c, "%s%s, n_tok %u, n_in %u, %u jobs, n_out %u%s", quant_type(type)->name, common ? " (common)" : "", n_tok, n_in, n_job, job[0].w.n_out,
               conv ? ", conv" : "");
    c->n_rows = n_tok;
    case_call(c, &a, sizeof a, blocks * MATVEC_GRAIN);
}

static void matvec_alone(struct row_case *c, uint32_t t)
{
    struct matmul_args *a = (void *)c->args;
    struct matmul_job *job = AT(struct matmul_job, a->job);
    for (uint32_t j = 0; t && j < a->n_job; j++)
        job[j].y += 4 * (gpu_addr)job[j].y_stride;
    if (t)
        a->x += 4 * (gpu_addr)a->x_stride, a->apart += a->apart ? sizeof(struct gpu_step) : 0;
    else
        c->n_items /= (a->n_tok + a->tok_group - 1) / a->tok_group;
    a->n_tok = a->tok_group = 1;
}

static void gemm(struct row_case *c)
{
    bool common;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX((uint32_t)GEMM_DEPTH, quant_type(type)->block_len), n_job = 1 + case_some(c, 2), blocks = 0;
    uint32_t n_tok = case_size(c, 0, GEMM_TOKENS, 1, 200), n_in = block * (1 + case_some(c, 1 + 400 / block)), stride = n_in + 4 * case_rnd(c, 3);
    struct matmul_job *job = case_struct(c, "jobs", n_job * sizeof *job);
    for (uint32_t j = 0; j < n_job; j++) {
        uint32_t n_out = case_size(c, 1 + j, GEMM_ROWS, 1, j ? 40 : 200);
        job[j] = device_job(c, type, common, n_in, n_out, n_tok, MATRIX);
        blocks += (n_out + GEMM_ROWS - 1) / GEMM_ROWS;
    }
    struct matmul_args a = { .x = ADDR(case_f32(c, "x", BUF_IN, (size_t)(n_tok - 1) * stride + n_in)), .job = ADDR(job), .x_stride = stride, .n_job = n_job,
                             .n_tok = n_tok };
    case_shape(c, "%s%s, n_tok %u, n_in %u, %u jobs, n_out %u", quant_type(type)->name, common ? " (common)" : "", n_tok, n_in, n_job, job[0].w.n_out);
    case_call(c, &a, sizeof a, blocks * ((n_tok + GEMM_TOKENS - 1) / GEMM_TOKENS));
}

static void matmul(struct row_case *c)
{
    uint32_t type = types[c->round % COUNT_OF(types)], block = quant_type(type)->block_len, n_tok = case_size(c, 0, 4, 1, 10);
    uint32_t n_in = block * (1 + case_rnd(c, block > 1 ? 4 : 80)), stride = n_in + case_rnd(c, 3);
    uint32_t n_out[2] = { case_size(c, 1, MATMUL_GRAIN, 1, 70), 1 + case_rnd(c, 5) }, items = 0;
    struct matmul_job *job = case_struct(c, "jobs", 2 * sizeof *job);
    for (int j = 0; j < 2; j++) {
        struct weights_size size;
        float *y = case_f32(c, j ? "y1" : "y0", BUF_OUT, (size_t)n_tok * n_out[j]);
        job[j] = (struct matmul_job){ .w = case_mat(c, j ? "w1" : "w0", type, n_in, n_out[j], &size), .y = ADDR(y), .y_stride = n_out[j],
                                      .act = case_rnd(c, 4), .scale = 0.25f };
        /* the slope of every activation is at most 1.1; its own error counts up to |x| = 8, beyond which it is flat or the identity */
        case_tolerance(c, y, 1.1 * 0.25 * SUM_ABS(n_in, (double)size.most), job[j].act == ACT_NONE ? U : SIGMOID_REL(8));
        items += (uint32_t)size_up(n_out[j], MATMUL_GRAIN);
    }
    float *x = case_f32(c, "x", BUF_IN, (size_t)n_tok * stride);
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = n_in; i < stride; i++)
            x[(size_t)t * stride + i] = NAN; /* between the rows */
    struct matmul_args a = { .x = ADDR(x), .job = ADDR(job), .x_stride = stride, .n_job = 2, .n_tok = n_tok };
    case_shape(c, "%s, n_tok %u, n_in %u, n_out %u and %u", quant_type(type)->name, n_tok, n_in, n_out[0], n_out[1]);
    case_call(c, &a, sizeof a, items);
}

/* Values among which many are equal, NaN and -infinity; every third case has rows without any number */
static void copy(struct row_case *c)
{
    struct copy_args a = { 0 };
    uint32_t longest = 0;
    static const char *const name[4][2] = { { "from 0", "to 0" }, { "from 1", "to 1" }, { "from 2", "to 2" }, { "from 3", "to 3" } };
    for (uint32_t i = 0; i < 4; i++) {
        a.n[i] = i && case_rnd(c, 3) == 0 ? 0 : case_size(c, i, COPY_GRAIN, 1, 3000);
        a.from[i] = ADDR(case_f32(c, name[i][0], BUF_IN, 4 * (size_t)MAX(a.n[i], 1u)));
        a.to[i] = ADDR(case_f32(c, name[i][1], BUF_OUT, 4 * (size_t)MAX(a.n[i], 1u)));
        longest = MAX(longest, a.n[i]);
    }
    case_shape(c, "units %u, %u, %u, %u", a.n[0], a.n[1], a.n[2], a.n[3]);
    case_call(c, &a, sizeof a, (uint32_t)size_up(longest, COPY_GRAIN));
}

/* Up to three windows, some with a second place; moved by less and by more than they hold. In runs each sequence has as many, with jobs of its own. */
static void slide(struct row_case *c)
{
    static const char *const name[3][3] = { { "window 0", "next 0", "live 0" }, { "window 1", "next 1", "live 1" }, { "window 2", "next 2", "live 2" } };
    bool runs = c->round % 3 == 1;
    uint32_t n_job = 1 + case_rnd(c, 3), spans = 0, *count = case_u32(c, "count", BUF_IN, 1), n_seq = runs ? 1 + case_rnd(c, 8) : 1;
    struct slide_job *job = case_struct(c, "jobs", n_seq * n_job * sizeof *job);
    *count = runs ? POISON : c->round % 4 ? case_rnd(c, 9) : 0;
    for (uint32_t i = 0; i < n_job; i++) {
        uint32_t width = case_size(c, i, SLIDE_SPAN, 1, 1000), past = 1 + case_rnd(c, 9);
        size_t n_window = (size_t)past * width, n_next = 8 * (size_t)width;
        float *window = case_f32(c, name[i][0], BUF_INOUT, n_seq * n_window), *next = case_f32(c, name[i][1], BUF_IN, n_seq * n_next);
        float *live = case_rnd(c, 2) ? case_f32(c, name[i][2], BUF_OUT, n_seq * n_window) : NULL;
        for (uint32_t s = 0; s < n_seq; s++)
            job[s * n_job + i] = (struct slide_job){ .window = ADDR(window + s * n_window), .next = ADDR(next + s * n_next),
                                                     .live = live ? ADDR(live + s * n_window) : 0, .width = width, .past = past };
        spans = MAX(spans, (width + SLIDE_SPAN - 1) / SLIDE_SPAN);
    }
    struct slide_args a = { .job = ADDR(job), .count = ADDR(count), .n_job = n_job, .spans = spans };
    if (runs)
        a.runs = ADDR(case_runs(c, n_seq, n_job * sizeof *job, 0, 8));
    case_shape(c, "%u windows by %u rows, first of %u x %u, %u entries", n_job, runs ? 8 : *count, job[0].past, job[0].width, n_seq);
    case_call(c, &a, sizeof a, n_seq * n_job * spans);
}

static void keep(struct row_case *c)
{
    uint32_t T = 1 + case_rnd(c, 8), width = case_size(c, 0, KEEP_SPAN, 1, 1000);
    size_t stride = (8 + case_rnd(c, 3)) * (size_t)width;
    struct keep_args a = { .runs = ADDR(case_runs(c, T, 0, stride * sizeof(float), 0)), .from = ADDR(case_f32(c, "from", BUF_IN, (size_t)T * width)),
                           .to = ADDR(case_f32(c, "to", BUF_OUT, T * stride)), .width = width };
    case_shape(c, "%u rows of %u", T, width);
    case_call(c, &a, sizeof a, T * ((width + KEEP_SPAN - 1) / KEEP_SPAN));
}

static void argmax_part(struct row_case *c)
{
    uint32_t n_row = 1 + case_rnd(c, 3), n = case_size(c, 0, ARGMAX_SPAN, 1, 3 * ARGMAX_SPAN), stride = n + case_rnd(c, 5), n_part = (n + ARGMAX_SPAN - 1) / ARGMAX_SPAN;
    uint32_t levels = 1 + case_rnd(c, 9), some_nan = c->round % 3 == 2 ? 8 : case_rnd(c, 3);
    float *x = case_f32(c, "x", BUF_IN, (size_t)n_row * stride);
    for (size_t i = 0; i < (size_t)n_row * stride; i++)
        x[i] = case_rnd(c, 8) < some_nan || i % stride >= n ? NAN : case_rnd(c, levels) ? x[i] : case_rnd(c, 2) ? 1.0f : -INFINITY;
    struct argmax_part_args a = { .x = ADDR(x), .part = ADDR(case_u32(c, "part", BUF_OUT, (size_t)n_row * n_part * 2)), .n = n, .stride = stride };
    case_shape(c, "%u rows of %u", n_row, n);
    case_call(c, &a, sizeof a, n_row * n_part);
}

static void argmax(struct row_case *c)
{
    uint32_t n_row = case_size(c, 0, 4, 1, 9), n_part = case_size(c, 1, 64, 1, 200);
    struct argmax_best *part = (void *)case_u32(c, "part", BUF_IN, (size_t)n_row * n_part * 2);
    for (uint32_t i = 0; i < n_row * n_part; i++) /* equal values in many parts: the lowest index is not always in the first */
        part[i] = case_rnd(c, 4) ? (struct argmax_best){ case_rnd(c, 250000), (float)case_rnd(c, 3) - 1 } : (struct argmax_best){ ARGMAX_NONE, -INFINITY };
    struct argmax_args a = { .part = ADDR(part), .best = ADDR(case_u32(c, "best", BUF_OUT, (size_t)n_row * 2)), .n_part = n_part };
    case_shape(c, "%u rows of %u parts", n_row, n_part);
    case_call(c, &a, sizeof a, n_row);
}

/* Values of a row, most of them among a few levels, so that the cut runs through equal ones; levels 0: all differ, 1: next to no number */
static float top_case_value(struct row_case *c, uint32_t levels)
{
    static const float odd[] = { NAN, -INFINITY, INFINITY, 3.402823466e38f, -3.402823466e38f, 0.0f, -0.0f, 1e-42f };
    uint32_t r = case_rnd(c, 64);
    return r < 2 ? odd[case_rnd(c, COUNT_OF(odd))] : levels == 0 ? case_uniform(c) : levels == 1 ? NAN : (float)case_rnd(c, levels) - 3;
}

static void top_call(struct row_case *c, bool pairs)
{
    uint32_t n_row = 1 + case_rnd(c, 2), n = case_size(c, 0, TOP_SPAN, 1, 2 * TOP_SPAN + 99), stride = n + case_rnd(c, 5), k = case_size(c, 1, 20, 1, TOP_MAX);
    uint32_t spans = (n + TOP_SPAN - 1) / TOP_SPAN, levels = c->round % 3 == 0 ? 0 : 1 + case_rnd(c, 40);
    struct top_args a = { .n = n, .stride = stride, .k = k };
    if (pairs) {
        struct argmax_best *from = (void *)case_u32(c, "from", BUF_IN, 2 * (size_t)n_row * stride);
        for (uint32_t i = 0, id = 0; i < n_row * stride; i++) { /* ids rise, with gaps, and some are nothing */
            id += 1 + case_rnd(c, 9);
            from[i] = case_rnd(c, 9) ? (struct argmax_best){ id, top_case_value(c, levels) } : (struct argmax_best){ ARGMAX_NONE, -INFINITY };
        }
        a.from = ADDR(from);
    } else {
        float *from = case_f32(c, "from", BUF_IN, (size_t)n_row * stride);
        for (uint32_t i = 0; i < n_row * stride; i++)
            from[i] = i % stride >= n ? NAN : top_case_value(c, levels);
        a.from = ADDR(from);
    }
    a.to = ADDR(case_u32(c, "to", BUF_OUT, 2 * (size_t)n_row * spans * k));
    case_shape(c, "%u best of %u rows of %u, %u levels", k, n_row, n, levels);
    case_call(c, &a, sizeof a, n_row * spans);
}
static void top_part(struct row_case *c) { top_call(c, false); }
static void top(struct row_case *c) { top_call(c, true); }

static void bench_empty(struct row_case *c)
{
    uint32_t n = case_size(c, 0, 64, 1, 1000), *count = case_u32(c, "count", BUF_INOUT, n);
    for (uint32_t i = 0; i < n; i++)
        count[i] = case_rnd(c, 1000);
    case_shape(c, "%u counters", n);
    case_call(c, &(struct bench_empty_args){ .count = ADDR(count) }, sizeof(struct bench_empty_args), n);
}

static void bench_read(struct row_case *c)
{
    uint32_t n = case_size(c, 0, 4, 1, 9), n_word = BENCH_READ_ALIGN * (1 + case_rnd(c, 9)), write = c->round % 3 == 0;
    uint32_t *data = case_u32(c, "data", BUF_INOUT, (size_t)n * n_word);
    for (size_t i = 0; i < (size_t)n * n_word; i++)
        data[i] = case_rnd(c, 1u << 31);
    struct bench_read_args a = { .data = ADDR(data), .sum = ADDR(case_u32(c, "sum", BUF_OUT, n)), .n_word = n_word, .write = write };
    case_shape(c, "%u x %u words, %s", n, n_word, write ? "write" : "read");
    case_call(c, &a, sizeof a, n);
}

const struct row_cases gpu_cases[] = {
    { .ref = embed_ref, .build = embed },
    { .ref = embed_dev_ref, .build = embed_dev },
    { .ref = matvec_ref, .build = matvec, .alone = matvec_alone },
    { .ref = gemm_ref, .build = gemm },
    { .ref = matmul_ref, .build = matmul },
    { .ref = quantise_ref, .build = case_quantise },
    { .ref = matmul_int_ref, .build = case_matmul_int },
    { .ref = copy_ref, .build = copy },
    { .ref = slide_ref, .build = slide },
    { .ref = keep_ref, .build = keep },
    { .ref = argmax_part_ref, .build = argmax_part },
    { .ref = argmax_ref, .build = argmax },
    { .ref = top_part_ref, .build = top_part },
    { .ref = top_ref, .build = top },
    { .ref = bench_empty_ref, .build = bench_empty },
    { .ref = bench_read_ref, .build = bench_read },
    { 0 },
};
