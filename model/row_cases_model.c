/* row_cases_model.c - random cases of the rows that belong to no layer kind: hyper-connections, n-gram side path; those of experts are in row_cases_moe.c. */
#include "model/model_kernels.h"
#include "gpu/gpu_kernels.h"
#include "model/row_cases.h"

#include "gpu/quant.h"

#include <math.h>
#include <string.h>

/* ---- hyper-connections ---- */

static void hc_norm(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 9), S = 2 + case_rnd(c, 4), D = case_size(c, 1, 256, 1, 700);
    size_t n = (size_t)T * S * D;
    float *out = case_f32(c, "out", BUF_OUT, n);
    struct hc_norm_args a = { .residual = ADDR(case_f32(c, "residual", BUF_IN, n)), .gain = ADDR(case_f32(c, "gain", BUF_IN, (size_t)S * D)), .out = ADDR(out),
                              .n_stream = S, .n_embd = D, .eps = 1e-6f };
    case_tolerance(c, out, 0, RMS_REL(D));
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u", T, S, D);
    case_call(c, &a, sizeof a, T * S);
}

static void hc_mean(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 9), S = 1 + case_rnd(c, 5), D = case_size(c, 1, HC_SPAN, 1, 700);
    size_t n = (size_t)T * S * D;
    float *out = case_f32(c, "out", BUF_OUT, (size_t)T * D);
    struct hc_mean_args a = { .gate = ADDR(case_f32(c, "gate", BUF_IN, n)), .norm = ADDR(case_f32(c, "norm", BUF_IN, n)), .out = ADDR(out), .n_stream = S,
                              .n_embd = D };
    case_tolerance(c, out, SUM_ABS(S, 1), DIV_REL);
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u", T, S, D);
    case_call(c, &a, sizeof a, T * ((D + HC_SPAN - 1) / HC_SPAN));
}

static void hc_combine(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 9), S = 1 + case_rnd(c, 5), D = case_size(c, 1, 256, 1, 700);
    float *residual = case_f32(c, "residual", BUF_INOUT, (size_t)T * S * D);
    struct hc_combine_args a = { .residual = ADDR(residual), .inject = ADDR(case_f32(c, "inject", BUF_IN, (size_t)T * S)),
                                 .y = ADDR(case_f32(c, "y", BUF_IN, (size_t)T * D)), .n_stream = S, .n_embd = D };
    case_tolerance(c, residual, SUM_ABS(2, 1), U); /* two terms, the product rounded or not */
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u", T, S, D);
    case_call(c, &a, sizeof a, T * S);
}

/* The matrices of a mixer, every second time each of a type of its own. Widths are multiples of 16 and of the blocks. */
static struct hc_mats *hc_mats(struct row_case *c, uint32_t S, uint32_t *D, uint32_t *rank, bool last, struct weights_size size[3])
{
    struct hc_mats *m = case_struct(c, "hc", sizeof *m);
    bool common;
    uint32_t first = case_weight_type(c, 32, &common), type[3] = { first, first, first }, block = 16;
    for (uint32_t i = 0; i < 3; i++) {
        if (i && c->round % 2)
            type[i] = case_weight_type(c, 32, &common);
        block = MAX(block, (uint32_t)quant_type(type[i])->block_len);
    }
    *D = block * MAX(1u, *D / block);
    *rank = block * MAX(1u, *rank / block);
    m->down = case_device_mat(c, "down", type[0], true, S * *D, *rank, &size[0]);
    m->inject = case_device_mat(c, "inject mat", type[1], true, S * *D, last ? 1 : S, &size[1]);
    m->inject.n_out = last ? 0 : S;
    m->up = case_device_mat(c, "up", type[2], true, *rank, S * *D, &size[2]);
    return m;
}

static uint32_t hc_down_items(const struct hc_down_args *a, const struct hc_mats *m)
{
    uint32_t grain = hc_block_rows(a->tok_group), blocks = (m->down.n_out + grain - 1) / grain + (m->inject.n_out > 0);
    return (a->n_tok + a->tok_group - 1) / a->tok_group * a->n_stream * blocks * HC_GRAIN;
}

static void hc_down(struct row_case *c)
{
    uint32_t rows = case_define(c, "ROWS", 1), T = case_size(c, 0, rows, 1, 2 * rows + 1), S = 1 + case_rnd(c, 4), D = 16 + case_some(c, 700), rank = 16 + case_some(c, 100);
    bool last = c->round % 3 == 2, first = c->round % 4 == 3; /* the final mixer injects nothing; into the first nothing is injected */
    struct weights_size size[3];
    struct hc_mats *m = hc_mats(c, S, &D, &rank, last, size);
    size_t n = (size_t)T * S * D;
    float *out = case_f32(c, "residual_out", BUF_OUT, n), *part = case_f32(c, "part", BUF_OUT, (size_t)T * S * (rank + S));
    float *squares = case_f32(c, "squares", BUF_OUT, (size_t)T * S), *y = case_f32(c, "y", BUF_IN, (size_t)T * D);
    struct hc_down_args a = { .residual = ADDR(case_f32(c, "residual", BUF_IN, n)), .residual_out = ADDR(out), .y = first ? 0 : ADDR(y),
                              .inject = ADDR(case_f32(c, "inject", BUF_IN, (size_t)T * S)), .gain = ADDR(case_f32(c, "gain", BUF_IN, (size_t)S * D)),
                              .hc = ADDR(m), .part = ADDR(part), .squares = ADDR(squares), .n_stream = S, .n_embd = D, .n_tok = T, .tok_group = rows };
    case_tolerance(c, out, SUM_ABS(1, 2), 0);  /* |R'| <= 2 */
    case_tolerance(c, squares, 0, SUM_REL(D) + 4 * U);
    case_tolerance(c, part, SUM_ABS(D + 3, 2 * fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1]))), 0);
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u, rank %u%s%s", T, S, D, rank, first ? ", first" : "", last ? ", last" : "");
    c->n_rows = T;
    case_call(c, &a, sizeof a, hc_down_items(&a, m));
}

static void hc_down_alone(struct row_case *c, uint32_t t)
{
    struct hc_down_args *a = (void *)c->args;
    const struct hc_mats *m = AT(const struct hc_mats, a->hc);
    gpu_addr row = t ? 4 * (gpu_addr)a->n_embd : 0, S = a->n_stream, rank = m->down.n_out;
    a->residual += S * row;
    a->residual_out += S * row;
    a->y += a->y ? row : 0;
    a->inject += t ? 4 * S : 0;
    a->part += t ? 4 * S * (rank + S) : 0;
    a->squares += t ? 4 * S : 0;
    a->n_tok = a->tok_group = 1;
    c->n_items = hc_down_items(a, m);
}

static void hc_up(struct row_case *c)
{
    uint32_t rows = case_define(c, "ROWS", 1), T = case_size(c, 0, rows, 1, 2 * rows + 1), S = 1 + case_rnd(c, 4), D = 16 + case_some(c, 300), rank = 16 + case_some(c, 369);
    bool last = c->round % 3 == 2;
    struct weights_size size[3];
    struct hc_mats *m = hc_mats(c, S, &D, &rank, last, size);
    float *squares = case_f32(c, "squares", BUF_IN, (size_t)T * S), *part = case_f32(c, "part", BUF_IN, (size_t)T * S * (rank + S));
    float *u = case_f32(c, "u", BUF_OUT, (size_t)T * D), *inject = case_f32(c, "inject", BUF_OUT, (size_t)T * S);
    for (size_t i = 0; i < (size_t)T * S; i++) /* 1 / rms of 1 to 2 */
        squares[i] = (float)D * (0.625f + 0.375f * squares[i]);
    for (size_t i = 0; last && i < (size_t)T * S; i++) /* nobody wrote the share of Wi */
        for (uint32_t s = 0; s < S; s++)
            part[i * (rank + S) + rank + s] = NAN;
    struct hc_up_args a = { .residual = ADDR(case_f32(c, "residual", BUF_IN, (size_t)T * S * D)), .gain = ADDR(case_f32(c, "gain", BUF_IN, (size_t)S * D)),
                            .hc = ADDR(m), .part = ADDR(part), .squares = ADDR(squares), .u = ADDR(u), .inject = ADDR(inject), .n_stream = S, .n_embd = D,
                            .n_tok = T, .tok_group = rows, .eps = 1e-6f, .rank = rank };
    /* mean: a mean of S terms of at most 2, each with the error of 1 / rms. low = silu(mean). A product with Wu has rank terms; the errors of low
     * in it add up at random; the slope of a sigmoid is at most 1/4. u: a mean of gates times R / rms of at most 2. */
    double mean = SUM_ABS(S, 2) + 2 * (RSQRT_REL + DIV_REL), low = 1.1 * mean + 2 * SIGMOID_REL(2);
    double gate = 0.25 * (SUM_ABS(rank, 2 * DEVICE_TERM(size[2])) + 3 * sqrt(rank) * (double)size[2].rms * low) + SIGMOID_REL(8);
    case_tolerance(c, inject, 0.5 * mean, SIGMOID_REL(2));
    case_tolerance(c, u, 2 * gate + SUM_ABS(S, 2) + 2 * (RSQRT_REL + DIV_REL), 0);
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u, rank %u%s", T, S, D, rank, last ? ", last" : "");
    c->n_rows = T;
    case_call(c, &a, sizeof a, (T + rows - 1) / rows * ((D + HC_UP_SPAN - 1) / HC_UP_SPAN));
}

static void hc_up_alone(struct row_case *c, uint32_t t)
{
    struct hc_up_args *a = (void *)c->args;
    gpu_addr row = t ? 4 * (gpu_addr)a->n_embd : 0, S = a->n_stream, rank = AT(const struct hc_mats, a->hc)->down.n_out;
    if (t == 0)
        c->n_items /= (a->n_tok + a->tok_group - 1) / a->tok_group;
    a->residual += S * row;
    a->u += row;
    a->inject += t ? 4 * S : 0;
    a->part += t ? 4 * S * (rank + S) : 0;
    a->squares += t ? 4 * S : 0;
    a->n_tok = a->tok_group = 1;
}

static void swiglu(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 9), n = case_size(c, 1, 256, 1, 700);
    float *gate = case_f32(c, "gate", BUF_IN, (size_t)T * n), *out = case_f32(c, "out", BUF_OUT, (size_t)T * n);
    for (size_t i = 0; i < (size_t)T * n; i++)
        gate[i] *= 8;
    struct swiglu_args a = { .gate = ADDR(gate), .up = ADDR(case_f32(c, "up", BUF_IN, (size_t)T * n)), .out = ADDR(out), .n = n };
    case_tolerance(c, out, 0, SIGMOID_REL(8) + U);
    case_shape(c, "n_tok %u, n %u", T, n);
    case_call(c, &a, sizeof a, T);
}

/* ---- n-gram side path ---- */

/* The gate is the sigmoid of the square root of a scalar product: near 0 the root would magnify any error without bound, and its sign would be a matter of
 * rounding. So keys lean towards the residual or away from it; and some are 0, which is exact. */
static void ple_gate(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 6), S = 1 + case_rnd(c, 4), D = case_size(c, 1, 256, 1, 700);
    size_t n = (size_t)T * S * D, width = (size_t)S * D;
    float *residual = case_f32(c, "residual", BUF_IN, n), *key = case_f32(c, "key", BUF_IN, n), *gv = case_f32(c, "gv", BUF_OUT, n), *z = case_f32(c, "z", BUF_OUT, n);
    float *gain[2] = { case_f32(c, "norm_key", BUF_IN, width), case_f32(c, "norm_query", BUF_IN, width) };
    for (uint32_t i = 0; i < T * S; i++) {
        float lean = i % 5 == 4 ? 0 : i % 2 ? -1.0f : 1.0f;
        for (uint32_t k = 0; k < D; k++)
            key[(size_t)i * D + k] = lean * (residual[(size_t)i * D + k] + 0.1f * key[(size_t)i * D + k]);
    }
    for (size_t i = 0; i < width; i++)
        gain[0][i] = 1.25f + 0.5f * gain[0][i], gain[1][i] = 1.25f + 0.5f * gain[1][i];
    struct ple_gate_args a = { .residual = ADDR(residual), .key = ADDR(key), .value = ADDR(case_f32(c, "value", BUF_IN, (size_t)T * D)), .norm_key = ADDR(gain[0]),
                               .norm_query = ADDR(gain[1]), .norm_conv = ADDR(case_f32(c, "norm_conv", BUF_IN, width)), .gv = ADDR(gv), .z = ADDR(z),
                               .n_stream = S, .n_embd = D, .eps = 1e-6f };
    /* c: two norms and a sum of D terms, nearly all of one sign; its root b has half the relative error, and |b sigmoid'(b) / sigmoid(b)| < |b| < 10 */
    double gate = 10 * (RMS_REL(D) + 0.5 * SUM_REL(D)) + SIGMOID_REL(10) + 2 * DIV_REL;
    case_tolerance(c, gv, 0, gate + U);
    case_tolerance(c, z, 0, 2 * (gate + U) + RMS_REL(D));
    case_shape(c, "n_tok %u, n_stream %u, n_embd %u", T, S, D);
    case_call(c, &a, sizeof a, T * S);
}

static void ple_conv(struct row_case *c)
{
    bool runs = c->round % 3 == 2;
    uint32_t T = case_size(c, 0, 4, 1, runs ? 8 : 20), width = case_size(c, 1, PLE_CONV_GRAIN, 1, 200), taps = 1 + case_rnd(c, 4), dilation = 1 + case_rnd(c, 3);
    uint32_t n_seq = runs ? T : 1;
    size_t n = (size_t)T * width, n_window = (size_t)(taps - 1) * dilation * width;
    float *residual = case_f32(c, "residual", BUF_INOUT, n), *window = case_f32(c, "window", BUF_INOUT, n_seq * n_window);
    struct ple_block *b = case_struct(c, "block", n_seq * sizeof *b);
    for (uint32_t s = 0; s < n_seq; s++)
        b[s].window = ADDR(window + s * n_window);
    struct ple_conv_args a = { .z = ADDR(case_f32(c, "z", BUF_IN, n)), .gv = ADDR(case_f32(c, "gv", BUF_IN, n)), .block = ADDR(b), .residual = ADDR(residual),
                               .conv = ADDR(case_f32(c, "conv", BUF_IN, (size_t)width * taps)), .width = width, .taps = taps, .dilation = dilation, .n_tok = T / n_seq };
    if (runs)
        a.apart = ADDR(case_runs(c, T, sizeof *b, 0, 0));
    /* silu of a sum of `taps` terms (slope below 1.1, values up to taps), then three terms that add up to at most taps + 2 */
    case_tolerance(c, residual, 1.1 * SUM_ABS(taps, 1) * taps + SIGMOID_REL(taps) * taps + SUM_ABS(2, taps + 2), 0);
    case_shape(c, "n_tok %u%s, width %u, taps %u, dilation %u", T, runs ? " in runs" : "", width, taps, dilation);
    case_call(c, &a, sizeof a, runs ? T * (uint32_t)size_up(width, PLE_CONV_GRAIN) : width);
}

const struct row_cases model_cases[] = {
    { .ref = hc_norm_ref, .build = hc_norm },
    { .ref = hc_mean_ref, .build = hc_mean },
    { .ref = hc_combine_ref, .build = hc_combine },
    { .ref = moe_route_ref, .build = case_moe_route },
    { .ref = moe_in_ref, .build = case_moe_in },
    { .ref = moe_group_ref, .build = case_moe_group },
    { .ref = moe_gate_up_ref, .build = case_moe_gate_up },
    { .ref = moe_down_ref, .build = case_moe_down },
    { .ref = moe_gate_up_int_ref, .build = case_moe_gate_up_int },
    { .ref = moe_down_int_ref, .build = case_moe_down_int },
    { .ref = swiglu_ref, .build = swiglu },
    { .ref = hc_down_ref, .build = hc_down, .alone = hc_down_alone },
    { .ref = hc_up_ref, .build = hc_up, .alone = hc_up_alone },
    { .ref = moe_up_ref, .build = case_moe_up },
    { .ref = moe_mix_ref, .build = case_moe_mix },
    { .ref = moe_gemm_up_ref, .build = case_moe_gemm_up },
    { .ref = moe_gemm_down_ref, .build = case_moe_gemm_down },
    { .ref = moe_count_ref, .build = case_moe_count },
    { .ref = moe_scatter_ref, .build = case_moe_scatter },
    { .ref = moe_sum_ref, .build = case_moe_sum },
    { .ref = ple_gate_ref, .build = ple_gate },
    { .ref = ple_conv_ref, .build = ple_conv },
    { 0 },
};
