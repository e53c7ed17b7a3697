/* row_cases_int.c - random cases of the rows that work with integer activations (gpu/int_rows.h): those of the rows in f32, with rows made by the
 * reference. */
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"
#include "model/row_cases.h"

#include <math.h>

static gpu_addr rows_of(struct row_case *c, const char *name, gpu_addr x, uint32_t x_stride, uint32_t n, uint32_t n_row)
{
    uint8_t *rows = (uint8_t *)case_u32(c, name, BUF_IN, n_row * int_row_bytes(n) / 4);
    struct quantise_args a = { .x = x, .rows = ADDR(rows), .x_stride = x_stride, .n = n };
    quantise_ref(&a, 0, n_row, NULL);
    return ADDR(rows);
}

/* Rows of all magnitudes, zeros, and some with an infinity or NaN */
void case_quantise(struct row_case *c)
{
    uint32_t n_row = case_size(c, 0, 4, 1, 9), n = 32 * case_size(c, 1, 4, 1, 30), stride = n + case_rnd(c, 3);
    float *x = case_f32(c, "x", BUF_IN, (size_t)(n_row - 1) * stride + n);
    for (uint32_t t = 0; t < n_row; t++) {
        float size = case_rnd(c, 8) ? exp2f((float)case_rnd(c, 200) - 100) : 0;
        for (uint32_t i = 0; i < stride && t * stride + i < (n_row - 1) * stride + n; i++)
            x[t * stride + i] = i < n ? size * x[t * stride + i] : NAN;
        if (case_rnd(c, 4) == 0)
            x[t * stride + case_rnd(c, n)] = (const float[]){ INFINITY, -INFINITY, NAN, 3e38f }[case_rnd(c, 4)];
    }
    struct quantise_args a = { .x = ADDR(x), .rows = ADDR(case_u32(c, "rows", BUF_OUT, n_row * int_row_bytes(n) / 4)), .x_stride = stride, .n = n };
    case_shape(c, "%u rows of %u", n_row, n);
    case_call(c, &a, sizeof a, n_row);
}

/* Every type that unpacks in turn, and sometimes beside it one that does not; now and then rows longer than a panel, and more tokens than a strip */
void case_matmul_int(struct row_case *c)
{
    static const uint32_t types[] = { QUANT_Q8_0, QUANT_Q4_K, QUANT_Q5_1, QUANT_Q6_K, QUANT_IQ4_NL, QUANT_IQ3_S, QUANT_Q5_K, QUANT_Q5_0, QUANT_IQ4_XS,
                                      QUANT_IQ3_XXS, QUANT_IQ2_S, QUANT_Q4_0, QUANT_Q4_1, QUANT_Q2_K, QUANT_Q3_K, QUANT_IQ2_XXS, QUANT_IQ2_XS, QUANT_IQ1_S,
                                      QUANT_IQ1_M, QUANT_MXFP4, QUANT_NVFP4, QUANT_TQ2_0 };
    uint32_t type = types[c->round % COUNT_OF(types)], block = quant_type(type)->block_len, n_tok = case_size(c, 0, 4, 1, 10), n_job = 2, items = 0;
    uint32_t n_in = block * (1 + case_rnd(c, 1 + 700 / block)), stride = n_in + case_rnd(c, 3), n_out[2] = { case_size(c, 1, MATMUL_GRAIN, 1, 70), 1 + case_rnd(c, 5) };
    if (c->round % 8 == 5)
        n_in = 1024 + block * case_rnd(c, 3), stride = n_in, n_tok = INT_TOKENS + 1;
    struct matmul_job *job = case_struct(c, "jobs", n_job * sizeof *job);
    for (uint32_t j = 0; j < n_job; j++) {
        struct weights_size size;
        float *y = case_f32(c, j ? "y1" : "y0", BUF_OUT, (size_t)n_tok * n_out[j]);
        job[j] = (struct matmul_job){ .w = case_mat(c, j ? "w1" : "w0", j && c->round % 2 ? QUANT_F32 : type, n_in, n_out[j], &size), .y = ADDR(y),
                                      .y_stride = n_out[j], .act = case_rnd(c, 4), .scale = 0.25f };
        /* scale * q and min apart: up to three times as large as the weight, see DEVICE_TERM */
        case_tolerance(c, y, 1.1 * 0.25 * SUM_ABS(n_in, DEVICE_TERM(size)), job[j].act == ACT_NONE ? 4 * U : SIGMOID_REL(8));
        items += (uint32_t)size_up(n_out[j], MATMUL_GRAIN);
    }
    float *x = case_f32(c, "x", BUF_IN, (size_t)n_tok * stride);
    struct matmul_int_args a = { .m = { .x = ADDR(x), .job = ADDR(job), .x_stride = stride, .n_job = n_job, .n_tok = n_tok } };
    a.rows = rows_of(c, "rows", a.m.x, stride, n_in, n_tok);
    case_shape(c, "%s, n_tok %u, n_in %u, n_out %u and %u", quant_type(type)->name, n_tok, n_in, n_out[0], n_out[1]);
    case_call(c, &a, sizeof a, items);
}

/* The case of the same row in f32 */
static void build_float(struct row_case *c, uint32_t id)
{
    const struct gpu_kernel *own = c->row;
    c->row = &model_kernels.row[id];
    for (const struct row_cases *r = model_cases; r->ref; r++)
        if (r->ref == c->row->ref)
            r->build(c);
    c->row = own;
}

void case_moe_gate_up_int(struct row_case *c)
{
    build_float(c, K_moe_gate_up);
    struct moe_gate_up_int_args a = { .m = *(const struct moe_gate_up_args *)(const void *)c->args };
    uint32_t n_embd = AT(const struct moe_block, a.m.block)->n_embd, n_tok = (uint32_t)(case_buf(c, "u")->bytes / sizeof(float) / n_embd);
    a.u_rows = rows_of(c, "u rows", a.m.u, n_embd, n_embd, n_tok);
    case_call(c, &a, sizeof a, c->n_items);
}

void case_moe_down_int(struct row_case *c)
{
    build_float(c, K_moe_down);
    struct moe_down_int_args a = { .m = *(const struct moe_down_args *)(const void *)c->args };
    const struct moe_block *b = AT(const struct moe_block, a.m.block);
    a.h_rows = rows_of(c, "h rows", a.m.h, b->ff, b->ff, a.m.n_tok * b->n_used);
    a.shared_rows = rows_of(c, "shared rows", a.m.shared_h, b->shared_ff, b->shared_ff, a.m.n_tok);
    case_call(c, &a, sizeof a, c->n_items);
}
