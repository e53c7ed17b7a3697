/* row_cases_model.c - random cases of the rows that belong to no layer kind: hyper-connections, experts, n-gram side path. */
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

/* ---- experts ---- */

struct experts {
    struct moe_block *b;
    uint32_t n_tok;
};
static struct experts experts(struct row_case *c, uint32_t max_expert)
{
    struct experts x = { case_struct(c, "block", sizeof *x.b), case_size(c, 0, 4, 1, 13) };
    x.b->n_expert = 2 + case_rnd(c, max_expert - 1);
    x.b->n_used = 1 + case_some(c, MIN(x.b->n_expert, c->round % 3 ? 4u : 10u));
    return x;
}

static void moe_route(struct row_case *c)
{
    struct experts x = experts(c, c->round % 2 ? 512 : 20);
    size_t n = (size_t)x.n_tok * x.b->n_used;
    if (c->round % 8 == 7) /* the model's */
        x.b->n_expert = 512, x.b->n_used = 10, n = (size_t)x.n_tok * 10;
    uint32_t *id = case_u32(c, "id", BUF_OUT, n);
    float *weight = case_f32(c, "weight", BUF_OUT, n), *logits = case_f32(c, "logits", BUF_IN, (size_t)x.n_tok * x.b->n_expert);
    for (size_t i = 0; i < (size_t)x.n_tok * x.b->n_expert; i++)
        logits[i] = c->round % 3 == 0 ? (float)case_rnd(c, 3) - 1 : 4 * logits[i]; /* equal ones: the lower expert wins */
    struct moe_route_args a = { .block = ADDR(x.b), .logits = ADDR(logits), .id = ADDR(id), .weight = ADDR(weight) };
    case_tolerance(c, weight, 0, 2 * EXP_REL(8) + SUM_REL(x.b->n_used) + DIV_REL); /* exp above and below the line */
    case_shape(c, "n_tok %u, n_expert %u, n_used %u", x.n_tok, x.b->n_expert, x.b->n_used);
    case_call(c, &a, sizeof a, x.n_tok);
}

/* Small multiples of 1/4: every order of summation gives the same logits, also equal ones */
static float quarter(struct row_case *c) { return 0.25f * ((float)case_rnd(c, 9) - 4); }

/* The router, its weights as the file has them or narrowed, and a matrix of any common type, as the shared expert's; sometimes rows as long as the model's */
static void moe_in(struct row_case *c)
{
    struct moe_block *b = case_struct(c, "block", sizeof *b);
    struct matmul_job *job = case_struct(c, "jobs", 2 * sizeof *job);
    bool narrow = c->round % 2, common;
    uint32_t other_type = case_weight_type(c, 32, &common), block = MAX(16u, (uint32_t)quant_type(other_type)->block_len);
    uint32_t D = block * (1 + case_some(c, 640 / block));
    if (c->round % 6 == 4)
        D = 2560;
    b->n_expert = case_size(c, 0, MATVEC_GRAIN, 1, D == 2560 ? 40 : 512);
    uint32_t used = 1 + case_rnd(c, 16);
    b->n_used = MIN(b->n_expert, used);
    float *x = case_f32(c, "x", BUF_IN, D), *logits = case_f32(c, "logits", BUF_OUT, b->n_expert), *other = case_f32(c, "y", BUF_OUT, 70);
    struct weights_size size;
    for (uint32_t j = 0; j < 2; j++) {
        uint32_t type = j ? other_type : narrow ? QUANT_BF16 : QUANT_F32;
        job[j].w = case_device_mat(c, j ? "other mat" : "router mat", type, true, D, j ? 70 : b->n_expert, &size);
        job[j].y = ADDR(j ? other : logits);
        job[j].y_stride = job[j].w.n_out;
        job[j].scale = 1;
    }
    for (uint32_t r = 0; r < b->n_expert; r++)
        for (uint32_t i = 0; i < D; i++) {
            float w = quarter(c);
            if (narrow)
                memcpy(AT(uint8_t, job[0].w.data) + r * job[0].w.row_bytes + 2 * i, (const uint8_t *)&w + 2, 2);
            else
                memcpy(AT(uint8_t, job[0].w.data) + r * job[0].w.row_bytes + 4 * i, &w, 4);
        }
    for (uint32_t i = 0; i < D; i++)
        x[i] = quarter(c);
    uint32_t *arrived = case_u32(c, "arrived", BUF_INOUT, 1), *id = case_u32(c, "id", BUF_OUT, b->n_used);
    float *weight = case_f32(c, "weight", BUF_OUT, b->n_used);
    *arrived = 0;
    struct moe_in_args a = { .products = { .x = ADDR(x), .job = ADDR(job), .x_stride = D, .n_job = 2, .n_tok = 1 },
                             .route = { .block = ADDR(b), .logits = ADDR(logits), .id = ADDR(id), .weight = ADDR(weight) },
                             .arrived = ADDR(arrived) };
    a.n_group = gpu_matvec_blocks(&a.products, job, MATVEC_GRAIN * case_rnd(c, 4));
    case_tolerance(c, other, SUM_ABS(D, DEVICE_TERM(size)), 0);
    /* exp of more than 8 below the largest: its error falls with it */
    case_tolerance(c, weight, 2 * EXP_REL(8) * exp(-8), 2 * EXP_REL(8) + SUM_REL(b->n_used) + DIV_REL);
    case_shape(c, "n_embd %u, n_expert %u (%s), n_used %u, other %s", D, b->n_expert, narrow ? "BF16" : "F32", b->n_used, quant_type(other_type)->name);
    case_call(c, &a, sizeof a, a.n_group * MATVEC_GRAIN);
}

/* n_used different experts of each row, ascending, and weights that add up to about 1 */
static void random_choice(struct row_case *c, const struct experts *x, uint32_t *id, float *weight)
{
    uint32_t E = x->b->n_expert, k = x->b->n_used;
    for (uint32_t t = 0; t < x->n_tok; t++)
        for (uint32_t e = 0, n = 0; n < k; e++)
            if (case_rnd(c, E - e) < k - n) {
                weight[(size_t)t * k + n] = (1 + case_uniform(c)) / (float)k;
                id[(size_t)t * k + n++] = e;
            }
}

static void moe_group(struct row_case *c)
{
    struct experts x = experts(c, 40);
    size_t n = (size_t)x.n_tok * x.b->n_used, most = MIN((size_t)x.b->n_expert, n);
    uint32_t *id = case_u32(c, "id", BUF_IN, n);
    float *weight = case_f32(c, "weight", BUF_IN, n);
    random_choice(c, &x, id, weight);
    struct moe_group_args a = { .block = ADDR(x.b), .id = ADDR(id), .weight = ADDR(weight), .group = ADDR(case_u32(c, "group", BUF_OUT, 1)),
                                .expert = ADDR(case_u32(c, "expert", BUF_OUT, most)), .start = ADDR(case_u32(c, "start", BUF_OUT, most + 1)),
                                .row = ADDR(case_u32(c, "row", BUF_OUT, n)), .share = ADDR(case_f32(c, "share", BUF_OUT, n)),
                                .cursor = ADDR(case_u32(c, "cursor", BUF_WORK, x.b->n_expert)), .n_tok = x.n_tok };
    case_shape(c, "n_tok %u, n_expert %u, n_used %u", x.n_tok, x.b->n_expert, x.b->n_used);
    case_call(c, &a, sizeof a, 1);
}

/* The same lists as struct moe_group_args has them, made by its reference */
struct grouped {
    uint32_t *group, *expert, *start, *row;
    float *share;
};
static struct grouped grouped(struct row_case *c, const struct experts *x)
{
    size_t n = (size_t)x->n_tok * x->b->n_used;
    uint32_t id[13 * 10], cursor[64];
    float weight[13 * 10];
    struct grouped g = { case_u32(c, "group", BUF_IN, 1), case_u32(c, "expert", BUF_IN, MIN((size_t)x->b->n_expert, n)),
                         case_u32(c, "start", BUF_IN, MIN((size_t)x->b->n_expert, n) + 1), case_u32(c, "row", BUF_IN, n), case_f32(c, "share", BUF_IN, n) };
    random_choice(c, x, id, weight);
    struct moe_group_args a = { .block = ADDR(x->b), .id = ADDR(id), .weight = ADDR(weight), .group = ADDR(g.group), .expert = ADDR(g.expert),
                                .start = ADDR(g.start), .row = ADDR(g.row), .share = ADDR(g.share), .cursor = ADDR(cursor), .n_tok = x->n_tok };
    moe_group_ref(&a, 0, 1, NULL);
    return g;
}

/* h = silu(g) * v, two products of n terms: the error e of one (six standard deviations or more) is multiplied by the other (three), and by the slope of
 * silu, below 1.1. */
static void product_tolerance(struct row_case *c, const float *h, uint32_t n, const struct weights_size size[2], double e)
{
    double largest = fmax(PRODUCT_SIZE(n, size[0]), PRODUCT_SIZE(n, size[1]));
    case_tolerance(c, h, 2.1 * e * largest, SIGMOID_REL(fmin(2 * largest, 8)));
}

static void moe_gate_up(struct row_case *c)
{
    struct experts x = experts(c, 13);
    struct moe_block *b = x.b;
    uint32_t n_entry = x.n_tok * b->n_used;
    struct weights_size size[2];
    b->n_embd = 32 * (1 + case_rnd(c, 4));
    b->ff = case_size(c, 1, MOE_GRAIN, 1, 96);
    b->gate = case_mat(c, "gate", QUANT_Q8_0, b->n_embd, b->ff * b->n_expert, &size[0]);
    b->up = case_mat(c, "up", QUANT_Q8_0, b->n_embd, b->ff * b->n_expert, &size[1]);
    b->gate.rows_per_expert = b->up.rows_per_expert = b->ff;
    struct grouped g = grouped(c, &x);
    float *h = case_f32(c, "h", BUF_OUT, (size_t)n_entry * b->ff);
    struct moe_gate_up_args a = { .block = ADDR(b), .group = ADDR(g.group), .expert = ADDR(g.expert), .start = ADDR(g.start), .row = ADDR(g.row), .h = ADDR(h),
                                  .u = ADDR(case_f32(c, "u", BUF_IN, (size_t)x.n_tok * b->n_embd)) };
    product_tolerance(c, h, b->n_embd, size, SUM_ABS(b->n_embd, fmax(size[0].most, size[1].most)));
    case_shape(c, "n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u", x.n_tok, b->n_expert, b->n_used, b->n_embd, b->ff);
    case_call(c, &a, sizeof a, MIN(b->n_expert, n_entry) * (uint32_t)size_up(b->ff, MOE_GRAIN));
}

static void moe_down(struct row_case *c)
{
    struct experts x = experts(c, 13);
    struct moe_block *b = x.b;
    uint32_t n_entry = x.n_tok * b->n_used;
    struct weights_size size[2];
    b->n_embd = case_size(c, 1, MOE_GRAIN, 1, 130);
    b->ff = 32 * (1 + case_rnd(c, 3)), b->shared_ff = 32 * (1 + case_rnd(c, 3));
    b->down = case_mat(c, "down", QUANT_Q5_1, b->ff, b->n_embd * b->n_expert, &size[0]);
    b->shared_down = case_mat(c, "shared_down", QUANT_Q8_0, b->shared_ff, b->n_embd, &size[1]);
    struct grouped g = grouped(c, &x);
    float *y = case_f32(c, "y", BUF_OUT, (size_t)x.n_tok * b->n_embd);
    struct moe_down_args a = { .block = ADDR(b), .group = ADDR(g.group), .expert = ADDR(g.expert), .start = ADDR(g.start), .row = ADDR(g.row),
                               .share = ADDR(g.share), .h = ADDR(case_f32(c, "h", BUF_IN, (size_t)n_entry * b->ff)),
                               .shared_h = ADDR(case_f32(c, "shared_h", BUF_IN, (size_t)x.n_tok * b->shared_ff)),
                               .shared_gate = ADDR(case_f32(c, "shared_gate", BUF_IN, x.n_tok)), .y = ADDR(y), .n_tok = x.n_tok };
    /* n_used products times shares that add up to 2 at most, the shared one times a gate of at most 1, and the sum of them all */
    case_tolerance(c, y, 2 * SUM_ABS(b->ff, (double)size[0].most) + SUM_ABS(b->shared_ff, (double)size[1].most) +
                             2 * SUM_ABS(b->n_used + 1, fmax(PRODUCT_SIZE(b->ff, size[0]), PRODUCT_SIZE(b->shared_ff, size[1]))), 0);
    case_shape(c, "n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u, shared %u", x.n_tok, b->n_expert, b->n_used, b->n_embd, b->ff, b->shared_ff);
    case_call(c, &a, sizeof a, b->n_embd);
}

static void moe_up(struct row_case *c)
{
    struct experts x = experts(c, 13);
    struct moe_block *b = x.b;
    bool common;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX(16u, (uint32_t)quant_type(type)->block_len), n = x.n_tok * b->n_used;
    struct weights_size size[2];
    float *weight = case_f32(c, "weight", BUF_IN, n);
    uint32_t *id = case_u32(c, "id", BUF_IN, n);
    random_choice(c, &x, id, weight);
    b->n_embd = block * (1 + case_some(c, 1 + 600 / block));
    b->ff = case_size(c, 1, MOE_UP_GRAIN, 1, 50);
    b->gate = case_device_mat(c, "gate", type, common, b->n_embd, b->ff * b->n_expert, &size[0]);
    bool other = c->round % 4 == 3; /* any common type beside the build's own */
    b->up = case_device_mat(c, "up", other ? QUANT_F16 : type, common || other, b->n_embd, b->ff * b->n_expert, &size[1]);
    b->gate.rows_per_expert = b->up.rows_per_expert = b->ff;
    float *h = case_f32(c, "h", BUF_OUT, (size_t)n * b->ff);
    struct moe_up_args a = { .block = ADDR(b), .id = ADDR(id), .u = ADDR(case_f32(c, "u", BUF_IN, (size_t)x.n_tok * b->n_embd)), .h = ADDR(h), .n_tok = x.n_tok, .spans = 1 + case_rnd(c, 4) };
    uint32_t grain = a.spans * MOE_UP_GRAIN;
    product_tolerance(c, h, b->n_embd, size, SUM_ABS(b->n_embd, fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1]))));
    case_shape(c, "%s%s, n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u", quant_type(type)->name, common ? " (common)" : "", x.n_tok, b->n_expert, b->n_used,
               b->n_embd, b->ff);
    case_call(c, &a, sizeof a, (b->ff + grain - 1) / grain * n * MOE_UP_GRAIN);
}

static void moe_mix(struct row_case *c)
{
    struct experts x = experts(c, 13);
    struct moe_block *b = x.b;
    bool common, shared_common = true;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX(16u, (uint32_t)quant_type(type)->block_len), n = x.n_tok * b->n_used;
    struct weights_size size[2];
    float *weight = case_f32(c, "weight", BUF_IN, n);
    uint32_t *id = case_u32(c, "id", BUF_IN, n), shared_type = c->round % 2 ? type : QUANT_Q8_0;
    random_choice(c, &x, id, weight);
    if (c->round % 2)
        shared_common = common;
    b->ff = block * (1 + case_some(c, 1 + 300 / block));
    b->shared_ff = MAX(32u, block) * (1 + case_some(c, 3));
    b->n_embd = case_size(c, 1, MOE_MIX_GRAIN, 1, 70);
    b->down = case_device_mat(c, "down", type, common, b->ff, b->n_embd * b->n_expert, &size[0]);
    b->shared_down = case_device_mat(c, "shared_down", shared_type, shared_common, b->shared_ff, b->n_embd, &size[1]);
    float *y = case_f32(c, "y", BUF_OUT, (size_t)x.n_tok * b->n_embd);
    struct moe_mix_args a = { .block = ADDR(b), .id = ADDR(id), .weight = ADDR(weight), .h = ADDR(case_f32(c, "h", BUF_IN, (size_t)n * b->ff)), .y = ADDR(y),
                              .gate = ADDR(case_f32(c, "gate", BUF_IN, (size_t)x.n_tok * b->shared_ff)),
                              .up = ADDR(case_f32(c, "up", BUF_IN, (size_t)x.n_tok * b->shared_ff)),
                              .scalar = ADDR(case_f32(c, "scalar", BUF_IN, x.n_tok)), .n_tok = x.n_tok, .spans = 1 + case_rnd(c, 4) };
    uint32_t grain = a.spans * MOE_MIX_GRAIN;
    /* one sum over all slots, shares of at most 2 / n_used, and the shared product, whose terms have the error of silu */
    case_tolerance(c, y, SUM_ABS(b->ff * b->n_used, 2 * DEVICE_TERM(size[0]) / b->n_used) + SUM_ABS(b->shared_ff, DEVICE_TERM(size[1])) +
                             PRODUCT_SIZE(b->shared_ff, size[1]) * SIGMOID_REL(1), 0);
    case_shape(c, "%s%s and %s, n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u, shared %u", quant_type(type)->name, common ? " (common)" : "",
               quant_type(shared_type)->name, x.n_tok, b->n_expert, b->n_used, b->n_embd, b->ff, b->shared_ff);
    case_call(c, &a, sizeof a, x.n_tok * ((b->n_embd + grain - 1) / grain) * MOE_MIX_GRAIN);
}

static void moe_count(struct row_case *c)
{
    uint32_t n = case_size(c, 0, 256, 1, 3000), n_expert = case_size(c, 1, 64, 1, 512), *id = case_u32(c, "id", BUF_IN, n);
    for (uint32_t i = 0; i < n; i++)
        id[i] = case_rnd(c, n_expert);
    struct moe_count_args a = { .id = ADDR(id), .count = ADDR(case_u32(c, "count", BUF_OUT, n_expert)), .n_entry = n };
    case_shape(c, "%u ids, n_expert %u", n, n_expert);
    case_call(c, &a, sizeof a, n_expert);
}

static void moe_scatter(struct row_case *c)
{
    static const uint32_t tile_sizes[] = { 1, 7, 16, 32, 64, 128 };
    uint32_t E = case_size(c, 1, 256, 1, 512), k = 1 + case_rnd(c, MIN(E, 10u)), T = case_size(c, 0, 64, 1, 150), n = T * k, size = tile_sizes[c->round % 6];
    struct moe_block b = { .n_expert = E, .n_used = k };
    uint32_t *id = case_u32(c, "id", BUF_IN, n), *count = case_u32(c, "count", BUF_IN, E);
    float *weight = case_f32(c, "weight", BUF_IN, n);
    random_choice(c, &(struct experts){ &b, T }, id, weight);
    memset(count, 0, E * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[id[i]]++;
    struct moe_scatter_args a = { .id = ADDR(id), .weight = ADDR(weight), .count = ADDR(count), .start = ADDR(case_u32(c, "start", BUF_OUT, E + 1)),
                                  .row = ADDR(case_u32(c, "row", BUF_OUT, n)), .share = ADDR(case_f32(c, "share", BUF_OUT, n)),
                                  .entry_of = ADDR(case_u32(c, "entry_of", BUF_OUT, n)),
                                  .tile = ADDR(case_u32(c, "tile", BUF_OUT, 2 * (size_t)moe_tiles_max(n, size, E))),
                                  .n_tile = ADDR(case_u32(c, "n_tile", BUF_OUT, 1)), .n_tok = T, .n_used = k, .n_expert = E, .tile_size = size };
    case_shape(c, "n_tok %u, n_expert %u, n_used %u, tiles of %u", T, E, k, size);
    case_call(c, &a, sizeof a, E);
}

/* Entries sorted by expert and cut in tiles for the matrix units, as moe_scatter leaves them; part of the arguments */
static struct moe_gemm_args tiles(struct row_case *c, const struct experts *x)
{
    uint32_t E = x->b->n_expert, n = x->n_tok * x->b->n_used, id[200 * 4], entry_of[200 * 4], count[16] = { 0 };
    float weight[200 * 4], share[200 * 4];
    random_choice(c, x, id, weight);
    for (uint32_t i = 0; i < n; i++)
        count[id[i]]++;
    struct moe_gemm_args a = { .block = ADDR(x->b), .max_tile = moe_tiles_max(n, MOE_TILE, E) };
    uint32_t *start = case_u32(c, "start", BUF_IN, E + 1), *row = case_u32(c, "row", BUF_IN, n), *n_tile = case_u32(c, "n_tile", BUF_IN, 1);
    uint32_t *tile = case_u32(c, "tile", BUF_IN, 2 * (size_t)a.max_tile);
    struct moe_scatter_args s = { .id = ADDR(id), .weight = ADDR(weight), .count = ADDR(count), .start = ADDR(start), .row = ADDR(row), .share = ADDR(share),
                                  .entry_of = ADDR(entry_of), .tile = ADDR(tile), .n_tile = ADDR(n_tile), .n_tok = x->n_tok, .n_used = x->b->n_used,
                                  .n_expert = E, .tile_size = MOE_TILE };
    moe_scatter_ref(&s, 0, E, NULL);
    a.start = ADDR(start), a.row = ADDR(row), a.n_tile = ADDR(n_tile), a.tile = ADDR(tile);
    return a;
}

/* Few experts, so that some have more than a tile of entries */
static struct experts crowd(struct row_case *c)
{
    struct experts x = { case_struct(c, "block", sizeof *x.b), case_size(c, 0, MOE_TILE, 1, 150) };
    x.b->n_expert = 1 + case_rnd(c, 6);
    x.b->n_used = 1 + case_some(c, MIN(x.b->n_expert, 4u));
    return x;
}

static void moe_gemm_up(struct row_case *c)
{
    struct experts x = crowd(c);
    struct moe_block *b = x.b;
    bool common;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX((uint32_t)GEMM_DEPTH, quant_type(type)->block_len), n = x.n_tok * b->n_used;
    struct weights_size size[2];
    b->n_embd = block * (1 + case_some(c, 1 + 200 / block));
    b->ff = case_size(c, 1, MOE_PAIRS, 1, 100);
    b->gate = case_device_mat(c, "gate", type, common, b->n_embd, b->ff * b->n_expert, &size[0]);
    b->up = case_device_mat(c, "up", type, common, b->n_embd, b->ff * b->n_expert, &size[1]);
    b->gate.rows_per_expert = b->up.rows_per_expert = b->ff;
    struct moe_gemm_args a = tiles(c, &x);
    float *h = case_f32(c, "h", BUF_OUT, (size_t)n * b->ff);
    a.x = ADDR(case_f32(c, "u", BUF_IN, (size_t)x.n_tok * b->n_embd)), a.y = ADDR(h);
    product_tolerance(c, h, b->n_embd, size, SUM_ABS(b->n_embd, fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1]))) +
                                                 fmax(F16_ABS(b->n_embd, size[0]), F16_ABS(b->n_embd, size[1])));
    case_shape(c, "%s%s, n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u", quant_type(type)->name, common ? " (common)" : "", x.n_tok, b->n_expert, b->n_used,
               b->n_embd, b->ff);
    case_call(c, &a, sizeof a, (b->ff + MOE_PAIRS - 1) / MOE_PAIRS * a.max_tile);
}

static void moe_gemm_down(struct row_case *c)
{
    struct experts x = crowd(c);
    struct moe_block *b = x.b;
    bool common;
    uint32_t type = case_weight_type(c, 256, &common), block = MAX((uint32_t)GEMM_DEPTH, quant_type(type)->block_len), n = x.n_tok * b->n_used;
    struct weights_size size;
    b->ff = block * (1 + case_some(c, 1 + 200 / block));
    b->n_embd = case_size(c, 1, GEMM_ROWS, 1, 140);
    b->down = case_device_mat(c, "down", type, common, b->ff, b->n_embd * b->n_expert, &size);
    struct moe_gemm_args a = tiles(c, &x);
    float *y = case_f32(c, "y", BUF_OUT, (size_t)n * b->n_embd);
    a.x = ADDR(case_f32(c, "h", BUF_IN, (size_t)n * b->ff)), a.y = ADDR(y);
    case_tolerance(c, y, SUM_ABS(b->ff, DEVICE_TERM(size)) + F16_ABS(b->ff, size), 0);
    case_shape(c, "%s%s, n_tok %u, n_expert %u, n_used %u, n_embd %u, ff %u", quant_type(type)->name, common ? " (common)" : "", x.n_tok, b->n_expert, b->n_used,
               b->n_embd, b->ff);
    case_call(c, &a, sizeof a, (b->n_embd + GEMM_ROWS - 1) / GEMM_ROWS * a.max_tile);
}

static void moe_sum(struct row_case *c)
{
    uint32_t T = case_size(c, 0, 4, 1, 9), k = 1 + case_rnd(c, 10), D = case_size(c, 1, MOE_SUM_SPAN, 1, 1200), n = T * k;
    uint32_t *entry_of = case_u32(c, "entry_of", BUF_IN, n);
    float *y = case_f32(c, "y", BUF_OUT, (size_t)T * D);
    for (uint32_t i = 0; i < n; i++) /* a permutation */
        entry_of[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = case_rnd(c, i + 1), keep = entry_of[i];
        entry_of[i] = entry_of[j];
        entry_of[j] = keep;
    }
    struct moe_sum_args a = { .e = ADDR(case_f32(c, "e", BUF_IN, (size_t)n * D)), .entry_of = ADDR(entry_of), .share = ADDR(case_f32(c, "share", BUF_IN, n)),
                              .s = ADDR(case_f32(c, "s", BUF_IN, (size_t)T * D)), .shared_gate = ADDR(case_f32(c, "shared_gate", BUF_IN, T)), .y = ADDR(y),
                              .n_used = k, .n_embd = D };
    case_tolerance(c, y, SUM_ABS(2 * (k + 1), 1), 0); /* a product is rounded by itself where nothing contracts */
    case_shape(c, "n_tok %u, n_used %u, n_embd %u", T, k, D);
    case_call(c, &a, sizeof a, T * ((D + MOE_SUM_SPAN - 1) / MOE_SUM_SPAN));
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
    { .ref = moe_route_ref, .build = moe_route },
    { .ref = moe_in_ref, .build = moe_in },
    { .ref = moe_group_ref, .build = moe_group },
    { .ref = moe_gate_up_ref, .build = moe_gate_up },
    { .ref = moe_down_ref, .build = moe_down },
    { .ref = moe_gate_up_int_ref, .build = case_moe_gate_up_int },
    { .ref = moe_down_int_ref, .build = case_moe_down_int },
    { .ref = swiglu_ref, .build = swiglu },
    { .ref = hc_down_ref, .build = hc_down, .alone = hc_down_alone },
    { .ref = hc_up_ref, .build = hc_up, .alone = hc_up_alone },
    { .ref = moe_up_ref, .build = moe_up },
    { .ref = moe_mix_ref, .build = moe_mix },
    { .ref = moe_gemm_up_ref, .build = moe_gemm_up },
    { .ref = moe_gemm_down_ref, .build = moe_gemm_down },
    { .ref = moe_count_ref, .build = moe_count },
    { .ref = moe_scatter_ref, .build = moe_scatter },
    { .ref = moe_sum_ref, .build = moe_sum },
    { .ref = ple_gate_ref, .build = ple_gate },
    { .ref = ple_conv_ref, .build = ple_conv },
    { 0 },
};
