/* row_cases_gdn.c - random cases of the Gated-DeltaNet rows. */
#include "gdn/gdn.h"
#include "model/row_cases.h"

#include <math.h>

/* A layer block with `heads` of `dim`; parts that a row does not read are left out. */
static struct gdn_block *block(struct row_case *c, uint32_t n_k, uint32_t n_v, uint32_t dim, uint32_t taps)
{
    struct gdn_block *b = case_struct(c, "block", sizeof *b);
    *b = (struct gdn_block){ .n_k = n_k, .n_v = n_v, .dim = dim, .taps = taps, .width = (2 * n_k + n_v) * dim, .eps = 1e-6f };
    return b;
}

static void conv(struct row_case *c)
{
    uint32_t n_k = 1 + case_rnd(c, 2), n_v = n_k * (1 + case_rnd(c, 3)), taps = c->round % 5 ? 4 : 2 + case_rnd(c, 3);
    uint32_t n_tok = case_size(c, 0, 4, 1, 140), dim = case_size(c, 1, 64, 1, 104);
    struct gdn_block *b = block(c, n_k, n_v, dim, taps);
    float *window = case_f32(c, "window", BUF_INOUT, (size_t)(taps - 1) * b->width), *out = case_f32(c, "out", BUF_OUT, (size_t)n_tok * b->width);
    b->conv = ADDR(case_f32(c, "conv", BUF_IN, (size_t)b->width * taps));
    b->window = ADDR(window);
    struct gdn_conv_args a = { .block = ADDR(b), .raw = ADDR(case_f32(c, "raw", BUF_IN, (size_t)n_tok * b->width)), .out = ADDR(out), .n_tok = n_tok };
    /* taps products of at most 1; the slope of silu is below 1.1 */
    case_tolerance(c, out, 1.1 * SUM_ABS(taps, 1) * taps, SIGMOID_REL(taps));
    case_shape(c, "n_tok %u, width %u, taps %u", n_tok, b->width, taps);
    case_call(c, &a, sizeof a, b->width);
}

/* Outputs are normalised and states stay near 1, so errors count against 1. q . S and k . S are sums of dim terms. Each token multiplies the state by
 * exp(-x), x up to 2.2, whose error is EXP_REL(2.2), about 15 U, and adds a rounding or two: 20 U a token if nothing decayed. The output is
 * divided by its root mean square and multiplied by a gain and a gate of at most 1, after which it can reach sqrt(dim). */
static void mix(struct row_case *c)
{
    static const uint32_t len[] = { 1, 2, 3, 5, 63, 64, 65, 130 };
    uint32_t n_tok = len[c->round % COUNT_OF(len)], n_k = 1 + case_some(c, 2), n_v = n_k * (1 + case_some(c, 3));
    uint32_t dim = c->round % 3 == 0 ? 128 : c->round % 3 == 1 ? 32 : 16 + 8 * case_rnd(c, 10);
    size_t n_out = (size_t)n_tok * n_v * dim;
    struct gdn_block *b = block(c, n_k, n_v, dim, 4);
    float *a = case_f32(c, "a", BUF_IN, n_v), *beta = case_f32(c, "beta", BUF_IN, (size_t)n_tok * n_v), *gate = case_f32(c, "gate", BUF_IN, n_out);
    float *state = case_f32(c, "state", BUF_INOUT, (size_t)n_v * dim * dim), *out = case_f32(c, "out", BUF_OUT, n_out);
    for (uint32_t h = 0; h < n_v; h++)
        a[h] = -fabsf(a[h]) - 0.01f;
    for (size_t i = 0; i < (size_t)n_tok * n_v; i++)
        beta[i] = 0.5f + 0.5f * beta[i];
    b->a = ADDR(a);
    b->dt = ADDR(case_f32(c, "dt", BUF_IN, n_v));
    b->norm = ADDR(case_f32(c, "norm", BUF_IN, dim));
    b->state = ADDR(state);
    struct gdn_mix_args m = { .block = ADDR(b), .qkv = ADDR(case_f32(c, "qkv", BUF_IN, (size_t)n_tok * b->width)), .gate = ADDR(gate), .beta = ADDR(beta),
                              .alpha = ADDR(case_f32(c, "alpha", BUF_IN, (size_t)n_tok * n_v)), .out = ADDR(out), .n_tok = n_tok };
    double tol = SUM_ABS(dim, 1) + 20 * U * n_tok;
    case_tolerance(c, state, tol, 0);
    case_tolerance(c, out, tol, RMS_REL(dim));
    case_shape(c, "n_tok %u, n_k %u, n_v %u, dim %u", n_tok, n_k, n_v, dim);
    case_call(c, &m, sizeof m, n_v);
}

const struct row_cases gdn_cases[] = {
    { .ref = gdn_conv_ref, .build = conv },
    { .ref = gdn_step_ref, .build = mix },
    { .ref = gdn_chunk_ref, .build = mix },
    { 0 },
};
