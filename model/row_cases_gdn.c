/* row_cases_gdn.c - random cases of the Gated-DeltaNet rows. */
#include "gdn/gdn.h"
#include "model/row_cases.h"

#include <math.h>

/* Layer blocks of n_seq sequences with heads of `dim`, the first one filled; parts that a row does not read are left out. */
static struct gdn_block *block(struct row_case *c, uint32_t n_seq, uint32_t n_k, uint32_t n_v, uint32_t dim, uint32_t taps)
{
    struct gdn_block *b = case_struct(c, "block", n_seq * sizeof *b);
    *b = (struct gdn_block){ .n_k = n_k, .n_v = n_v, .dim = dim, .taps = taps, .width = (2 * n_k + n_v) * dim, .eps = 1e-6f };
    return b;
}

static void conv(struct row_case *c)
{
    uint32_t n_k = 1 + case_rnd(c, 2), n_v = n_k * (1 + case_rnd(c, 3)), taps = c->round % 5 ? 4 : 2 + case_rnd(c, 3);
    bool runs = c->round % 3 == 2;
    uint32_t n_tok = case_size(c, 0, 4, 1, runs ? 8 : 140), dim = case_size(c, 1, 64, 1, 104), n_seq = runs ? n_tok : 1;
    struct gdn_block *b = block(c, n_seq, n_k, n_v, dim, taps);
    size_t n_window = (size_t)(taps - 1) * b->width;
    float *window = case_f32(c, "window", BUF_INOUT, n_seq * n_window), *out = case_f32(c, "out", BUF_OUT, (size_t)n_tok * b->width);
    b->conv = ADDR(case_f32(c, "conv", BUF_IN, (size_t)b->width * taps));
    b->window = ADDR(window);
    struct gdn_conv_args a = { .block = ADDR(b), .raw = ADDR(case_f32(c, "raw", BUF_IN, (size_t)n_tok * b->width)), .out = ADDR(out), .n_tok = n_tok,
                               .stay = case_rnd(c, 4) == 0 };
    if (runs)
        a.runs = ADDR(case_runs(c, n_tok, sizeof *b, 0, 0));
    for (uint32_t s = 1; s < n_seq; s++) {
        b[s] = b[0];
        b[s].window += s * n_window * sizeof(float);
    }
    /* taps products of at most 1; the slope of silu is below 1.1 */
    case_tolerance(c, out, 1.1 * SUM_ABS(taps, 1) * taps, SIGMOID_REL(taps));
    case_shape(c, "n_tok %u%s, width %u, taps %u%s", n_tok, runs ? " in runs" : "", b->width, taps, a.stay ? ", stays" : "");
    case_call(c, &a, sizeof a, runs ? n_tok * (uint32_t)size_up(b->width, GDN_CONV_GRAIN) : b->width);
}

/* Outputs are normalised and states stay near 1, so errors count against 1. q . S and k . S are sums of dim terms. Each token multiplies the state by
 * exp(-x), x up to 2.2, whose error is EXP_REL(2.2), about 15 U, and adds a rounding or two: 20 U a token if nothing decayed. The output is
 * divided by its root mean square and multiplied by a gain and a gate of at most 1, after which it can reach sqrt(dim). */
enum how { TOGETHER, APART, RUNS };
enum { KEPT = 8 }; /* rows that a sequence keeps */
static size_t kept_stride(const struct gdn_block *b) { return KEPT * (size_t)b->n_v * b->dim * sizeof(float); }

static struct gdn_mix_args rows(struct row_case *c, uint32_t n_tok, enum how how, double more)
{
    uint32_t n_k = 1 + case_some(c, 2), n_v = n_k * (1 + case_some(c, 3));
    uint32_t dim = c->round % 3 == 0 ? 128 : c->round % 3 == 1 ? 32 : 16 + 8 * case_rnd(c, 10);
    size_t n_out = MAX((size_t)n_tok, (size_t)1) * n_v * dim, n_head = MAX(n_tok, 1u) * (size_t)n_v;
    uint32_t n_seq = how == TOGETHER ? 1 : n_tok;
    struct gdn_block *b = block(c, n_seq, n_k, n_v, dim, 4);
    float *a = case_f32(c, "a", BUF_IN, n_v), *beta = case_f32(c, "beta", BUF_IN, n_head), *gate = case_f32(c, "gate", BUF_IN, n_out);
    size_t n_state = (size_t)n_v * dim * dim;
    float *state = case_f32(c, "state", BUF_INOUT, n_seq * n_state), *out = case_f32(c, "out", BUF_OUT, n_out);
    for (uint32_t h = 0; h < n_v; h++)
        a[h] = -fabsf(a[h]) - 0.01f;
    for (size_t i = 0; i < n_head; i++)
        beta[i] = 0.5f + 0.5f * beta[i];
    b->a = ADDR(a);
    b->dt = ADDR(case_f32(c, "dt", BUF_IN, n_v));
    b->norm = ADDR(case_f32(c, "norm", BUF_IN, dim));
    b->state = ADDR(state);
    struct gdn_mix_args m = { .block = ADDR(b), .qkv = ADDR(case_f32(c, "qkv", BUF_IN, MAX(n_tok, 1u) * (size_t)b->width)), .gate = ADDR(gate),
                              .beta = ADDR(beta), .alpha = ADDR(case_f32(c, "alpha", BUF_IN, n_head)), .out = ADDR(out), .n_tok = n_tok / n_seq };
    if (how == APART)
        m.apart = ADDR(case_apart(c, n_seq, sizeof *b));
    if (how == RUNS)
        m.apart = ADDR(case_runs(c, n_seq, sizeof *b, kept_stride(b), KEPT));
    for (uint32_t s = 1; s < n_seq; s++) {
        b[s] = b[0];
        b[s].state += s * n_state * sizeof(float);
    }
    double tol = more * (SUM_ABS(dim, 1) + 20 * U * n_tok);
    case_tolerance(c, state, tol, 0);
    case_tolerance(c, out, tol, RMS_REL(dim));
    case_shape(c, "n_tok %u%s, n_k %u, n_v %u, dim %u", n_tok, how == APART ? " apart" : "", n_k, n_v, dim);
    return m;
}

static void mix(struct row_case *c)
{
    static const uint32_t len[] = { 1, 2, 3, 5, 63, 64, 65, 130 };
    bool apart = c->row->ref == gdn_step_ref && c->round % 3 == 1;
    struct gdn_mix_args m = rows(c, apart ? 1 + case_rnd(c, 8) : len[c->round % COUNT_OF(len)], apart ? APART : TOGETHER, 1);
    uint32_t n_v = AT(const struct gdn_block, m.block)->n_v;
    case_call(c, &m, sizeof m, m.apart ? (uint32_t)(case_buf(c, "steps")->bytes / sizeof(struct gpu_step)) * n_v : n_v);
}

/* Folded rows make the state up to three times as large; what is folded are records of KEPT rows, keys of length 1 and decays as live rows have them. What
 * sequences keep lies at one distance for keys, additions and decays, as it does in a session; of the decays only the beginning is used. */
static void verify(struct row_case *c)
{
    static const uint32_t len[] = { 1, 2, 0, 3, 8, 5, 4, 7, 6 };
    uint32_t n_tok = len[c->round % COUNT_OF(len)], *fold = case_u32(c, "fold", BUF_IN, 1);
    bool runs = n_tok && c->round % 5 == 1;
    struct gdn_verify_args v = { .mix = rows(c, n_tok, runs ? RUNS : TOGETHER, 3), .fold = ADDR(fold) };
    const struct gdn_block *b = (const struct gdn_block *)(uintptr_t)v.mix.block;
    uint32_t n_seq = runs ? n_tok : 1;
    size_t n = kept_stride(b) / sizeof(float) * n_seq, n_decay = runs ? n : (size_t)KEPT * b->n_v;
    float *k = case_f32(c, "k", BUF_INOUT, n), *del = case_f32(c, "del", BUF_INOUT, n), *decay = case_f32(c, "decay", BUF_INOUT, n_decay);
    *fold = runs ? POISON : case_rnd(c, 3) ? case_rnd(c, KEPT + 1) : 0;
    for (size_t i = 0; i < n; i++)
        k[i] *= 1.7f / sqrtf((float)b->dim);
    for (size_t i = 0; i < n_decay; i++)
        decay[i] = 0.55f + 0.45f * decay[i];
    v.k = ADDR(k);
    v.del = ADDR(del);
    v.decay = ADDR(decay);
    double tol = 3 * (SUM_ABS(b->dim, 1) + 20 * U * n_tok);
    case_tolerance(c, k, 0, 0.5 * SUM_REL(b->dim) + RSQRT_REL + DIV_REL + 2 * U);
    case_tolerance(c, del, tol, 0);
    case_tolerance(c, decay, 0, 2 * EXP_REL(2.2));
    case_shape(c, "fold %u, n_tok %u%s, n_k %u, n_v %u, dim %u", runs ? KEPT : *fold, n_tok, runs ? " in runs" : "", b->n_k, b->n_v, b->dim);
    case_call(c, &v, sizeof v, n_seq * b->n_v);
}

const struct row_cases gdn_cases[] = {
    { .ref = gdn_conv_ref, .build = conv },
    { .ref = gdn_step_ref, .build = mix },
    { .ref = gdn_chunk_ref, .build = mix },
    { .ref = gdn_verify_ref, .build = verify },
    { 0 },
};
