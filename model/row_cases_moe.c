/* row_cases_moe.c - random cases of the rows of experts. */
#include "model/model_kernels.h"
#include "gpu/gpu_kernels.h"
#include "model/row_cases.h"

#include "gpu/quant.h"

#include <math.h>
#include <string.h>

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

void case_moe_route(struct row_case *c)
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
void case_moe_in(struct row_case *c)
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

void case_moe_group(struct row_case *c)
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

void case_moe_gate_up(struct row_case *c)
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

void case_moe_down(struct row_case *c)
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

void case_moe_up(struct row_case *c)
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

void case_moe_mix(struct row_case *c)
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

void case_moe_count(struct row_case *c)
{
    uint32_t n = case_size(c, 0, 256, 1, 3000), n_expert = case_size(c, 1, 64, 1, 512), *id = case_u32(c, "id", BUF_IN, n);
    for (uint32_t i = 0; i < n; i++)
        id[i] = case_rnd(c, n_expert);
    struct moe_count_args a = { .id = ADDR(id), .count = ADDR(case_u32(c, "count", BUF_OUT, n_expert)), .n_entry = n };
    case_shape(c, "%u ids, n_expert %u", n, n_expert);
    case_call(c, &a, sizeof a, n_expert);
}

void case_moe_scatter(struct row_case *c)
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

void case_moe_gemm_up(struct row_case *c)
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

void case_moe_gemm_down(struct row_case *c)
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

void case_moe_sum(struct row_case *c)
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
