/* row_cases_qsa.c - random cases of the sparse-attention rows. */
#include "model/row_cases.h"
#include "qsa/qsa.h"

#include "gpu/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step and a layer block without its buffers: heads, positions, cache size. Rows that are apart have a block and a step each. */
struct layer {
    struct qsa_block *b;   /* [n_seq]; the first is filled, spread() makes the others of it */
    struct gpu_step *step, *apart;
    uint32_t n_tok, pos;   /* pos: apart, no row is beyond pos + n_tok - 1 */
    uint32_t n_seq;        /* sequences, each with caches of its own: n_tok or 1 */
    size_t k_bytes, pooled_bytes, window_bytes; /* of one sequence */
};
static uint32_t pos_of(const struct layer *l, uint32_t r) { return l->apart ? l->apart[r].pos : l->pos + r; }
static gpu_addr apart_of(const struct layer *l) { return ADDR(l->apart); }
/* The row of sequence s */
static uint32_t row_of(const struct layer *l, uint32_t s)
{
    uint32_t r = 0;
    while (l->apart && l->apart[r].blocks != s * sizeof *l->b)
        r++;
    return r;
}

/* Some cases of the rows that know how */
static bool is_apart(const struct row_case *c)
{
    static const gpu_row_fn know[] = { qsa_prep_ref, qsa_count_ref, qsa_take_ref, qsa_attend_part_ref, qsa_attend_merge_ref,
                                        qsa_attend_masked_ref, qsa_keep_raw_ref, qsa_repool_ref };
    bool knows = c->row->defines && strstr(c->row->defines, "FEW");
    for (size_t i = 0; i < COUNT_OF(know); i++)
        knows = knows || c->row->ref == know[i];
    return knows && c->round % 3 == 2;
}

/* Rows that are apart get any positions up to that of the last row */
static void scatter(struct row_case *c, struct layer *l)
{
    for (uint32_t r = 0; l->apart && r < l->n_tok; r++) {
        l->apart[r].n_tok = 1;
        l->apart[r].pos = case_rnd(c, 3) ? l->pos + l->n_tok - 1 - case_rnd(c, MIN(l->pos + l->n_tok, 40u)) : case_rnd(c, l->pos + l->n_tok);
    }
}

/* Some rows that are apart become those behind the row before, in its sequence */
static void follow(struct row_case *c, struct layer *l)
{
    for (uint32_t r = 1; r < l->n_tok; r++) {
        uint32_t pos = l->apart[r - 1].pos + 1;
        if (pos / QSA_BLOCK >= l->b->cap_blocks || case_rnd(c, 3) == 0)
            continue;
        l->apart[r].n_tok = l->apart[r - 1].n_tok + 1;
        l->apart[r].pos = pos;
        l->apart[r].blocks = l->apart[r - 1].blocks;
    }
}

/* The other blocks: caches of their own, and all else alike */
static void spread(const struct layer *l)
{
    for (uint32_t s = 1; s < l->n_seq; s++) {
        l->b[s] = l->b[0];
        l->b[s].k += s * l->k_bytes, l->b[s].v += s * l->k_bytes;
        l->b[s].pooled += s * l->pooled_bytes, l->b[s].window += s * l->window_bytes;
    }
}

static struct layer layer(struct row_case *c, uint32_t budget, uint32_t tile, uint32_t most_rows)
{
    bool apart = is_apart(c);
    uint32_t n_kv = 1 + case_rnd(c, 2), n_tok = case_size(c, 0, tile, 1, apart ? MIN(most_rows, (uint32_t)QSA_FEW) : most_rows), n_ctx = n_tok + 32 + case_some(c, 600);
    struct layer l = { .n_tok = n_tok, .n_seq = apart ? n_tok : 1 };
    l.b = case_struct(c, "block", l.n_seq * sizeof *l.b);
    l.step = case_struct(c, "step", sizeof *l.step);
    l.apart = apart ? case_apart(c, n_tok, sizeof *l.b) : NULL;
    l.pos = c->round % 7 == 0 ? 0 : case_rnd(c, n_ctx - n_tok);
    *l.b = (struct qsa_block){ .n_kv = n_kv, .n_head = n_kv * (1 + case_rnd(c, 3)), .dim = 8 * case_size(c, 1, 8, 1, 16), .idx_head = 1 + case_rnd(c, QSA_IDX_HEAD_MAX),
                               .idx_dim = 8 * case_size(c, 2, 4, 1, 16), .budget = budget, .cap_blocks = qsa_cap_blocks(n_ctx), .eps = 1e-6f };
    if (c->round % 5 == 0) /* the sizes of the model */
        l.b->dim = QSA_DIM_MAX, l.b->idx_dim = QSA_IDX_DIM_MAX, l.b->n_head = MAX(12u >> c->shrink, 1u) * n_kv;
    else if (c->round % 8 == 6) /* more heads than a round of a kernel has */
        l.b->n_head = n_kv * (13 + case_rnd(c, 8));
    *l.step = (struct gpu_step){ .n_tok = n_tok, .pos = l.pos };
    scatter(c, &l);
    case_shape(c, "pos %u, n_tok %u%s, n_head %u, n_kv %u, dim %u, idx %u x %u, budget %u, blocks %u", l.pos, n_tok, apart ? " apart" : "", l.b->n_head, n_kv, l.b->dim, l.b->idx_head,
               l.b->idx_dim, budget, l.b->cap_blocks);
    return l;
}

static void rope_table(struct row_case *c, struct layer *l)
{
    l->b->rope_dim = 2 * (1 + case_rnd(c, MIN(l->b->dim, l->b->idx_dim) / 2));
    uint32_t half = l->b->rope_dim / 2;
    uint32_t tables = l->apart ? l->n_tok : 1, each = l->apart ? 4 : 3 + l->n_tok; /* entries */
    float *p = case_f32(c, "rope", BUF_IN, (size_t)tables * each * half * 2);
    for (uint32_t j = 0; j < tables * each; j++)
        for (uint32_t i = 0; i < half; i++) {
            double angle = ((double)pos_of(l, j / each) - 3 + j % each) * pow(1e4, -(double)i / half);
            p[2 * (j * half + i)] = (float)cos(angle);
            p[2 * (j * half + i) + 1] = (float)sin(angle);
        }
    l->step->rope = ADDR(p);
    for (uint32_t r = 0; l->apart && r < l->n_tok; r++)
        l->apart[r].rope = ADDR(p + (size_t)r * each * half * 2);
}

/* A K or V cache of one element type; all POISON */
static void *cache(struct row_case *c, struct layer *l, const char *name, enum buf_kind kind)
{
    l->k_bytes = l->b->n_kv * l->b->cap_blocks * qsa_tile_bytes(l->b->dim, l->b->kv_type);
    if (l->b->kv_type == QSA_KV_Q8_0)
        return case_u32(c, name, kind, l->b->n_kv * l->b->cap_blocks * qsa_tile_bytes(l->b->dim, QSA_KV_Q8_0) / sizeof(uint32_t));
    size_t n = l->n_seq * (size_t)l->b->n_kv * l->b->cap_blocks * QSA_BLOCK * l->b->dim;
    return l->b->kv_type == QSA_KV_F32 ? (void *)case_f32(c, name, kind, n) : case_f16(c, name, kind, n);
}

/* RMS norm, then a rotation, which mixes two values of at most 2 (a value above twice the root mean square is rare in uniform ones, and gains are at most
 * 1): 4 stands for both. In f16 a value that lies near a boundary may round to the other side: one unit, 2^-10 of it. */
static double norm_rope_abs(uint32_t n) { return 4 * (RMS_REL(n) + 3 * U); }

static void prep(struct row_case *c)
{
    struct layer l = layer(c, c->round % 4 ? 1 + case_rnd(c, 50) : 0, 4, 13);
    struct qsa_block *b = l.b;
    bool stays = l.apart && case_rnd(c, 2);
    b->kv_type = c->round % 2 ? QSA_KV_F32 : QSA_KV_F16;
    if (stays)
        follow(c, &l);
    rope_table(c, &l);
    b->q_norm = ADDR(case_f32(c, "q_norm", BUF_IN, b->dim)), b->k_norm = ADDR(case_f32(c, "k_norm", BUF_IN, b->dim));
    b->iq_norm = ADDR(case_f32(c, "iq_norm", BUF_IN, b->idx_dim));
    void *k = cache(c, &l, "K", BUF_OUT), *v = cache(c, &l, "V", BUF_OUT); /* V: the value itself, rounded to nearest even */
    b->k = ADDR(k), b->v = ADDR(v);
    float *qg = case_f32(c, "qg", BUF_INOUT, (size_t)l.n_tok * b->n_head * 2 * b->dim);
    float *iq = case_f32(c, "iq", BUF_INOUT, (size_t)l.n_tok * b->idx_head * b->idx_dim), *raw = case_f32(c, "k", BUF_WORK, (size_t)l.n_tok * b->n_kv * b->dim);
    for (size_t i = 0; i < (size_t)l.n_tok * b->n_kv * b->dim; i++)
        raw[i] = case_uniform(c);
    struct qsa_prep_args a = { .block = ADDR(b), .step = ADDR(l.step), .qg = ADDR(qg), .k = ADDR(raw), .iq = ADDR(iq),
                               .v = ADDR(case_f32(c, "v", BUF_IN, (size_t)l.n_tok * b->n_kv * b->dim)) };
    if (b->budget) {
        b->ik_norm = ADDR(case_f32(c, "ik_norm", BUF_IN, b->idx_dim));
        l.pooled_bytes = (size_t)b->cap_blocks * b->idx_dim * sizeof(float), l.window_bytes = 3 * (size_t)b->idx_dim * sizeof(float);
        float *pooled = case_f32(c, "pooled", BUF_OUT, l.n_seq * l.pooled_bytes / sizeof(float));
        b->pooled = ADDR(pooled);
        b->window = ADDR(case_f32(c, "window", BUF_INOUT, l.n_seq * l.window_bytes / sizeof(float)));
        a.ik = ADDR(case_f32(c, "ik", BUF_IN, (size_t)l.n_tok * b->idx_dim));
        if (c->round % 3)
            a.count = ADDR(case_u32(c, "count", BUF_INOUT, (size_t)l.n_tok * QSA_COUNTS));
        /* the mean of 4 that cancel may be small, and the norm makes it large again: its roundings, 4 U, grow with 1 / rms, 3 at the worst seen */
        case_tolerance(c, pooled, norm_rope_abs(b->idx_dim) + 4 * 3 * SUM_ABS(4, 1), 0);
    }
    case_tolerance(c, qg, norm_rope_abs(b->dim), 0);
    case_tolerance(c, iq, norm_rope_abs(b->idx_dim), 0);
    case_tolerance(c, k, norm_rope_abs(b->dim), b->kv_type == QSA_KV_F32 ? 0 : 0x1p-10);
    a.apart = apart_of(&l);
    a.stay = stays;
    spread(&l);
    case_call(c, &a, sizeof a, l.n_tok + (b->budget ? l.apart ? l.n_tok : l.n_tok / QSA_BLOCK + 1 : 0));
}

/* First row of a strip that reaches to the last row of the step */
static uint32_t strip(struct row_case *c, const struct layer *l) { return c->round % 3 == 0 && l->n_tok > 1 ? case_rnd(c, l->n_tok) : 0; }

/* -1, -0.75, ... 1: sums of products are exact */
static float quarters(struct row_case *c) { return 0.25f * ((float)case_rnd(c, 9) - 4); }

static void score(struct row_case *c)
{
    bool few = strstr(c->row->defines, "FEW") != NULL;
    struct layer l = layer(c, 1 + case_rnd(c, c->round % 2 ? 12 : 150), few ? QSA_FEW : QSA_SCORE_ROWS, few ? QSA_FEW : 70);
    struct qsa_block *b = l.b;
    uint32_t row0 = strip(c, &l), n_row = l.n_tok - row0;
    size_t n_pooled = (size_t)b->cap_blocks * b->idx_dim;
    float *pooled = case_f32(c, "pooled", BUF_IN, l.n_seq * n_pooled), *scores = case_f32(c, "scores", BUF_OUT, (size_t)QSA_STRIP * b->cap_blocks);
    l.pooled_bytes = n_pooled * sizeof(float);
    for (uint32_t s = 0; s < l.n_seq; s++) {
        uint32_t seen = l.apart ? (pos_of(&l, row_of(&l, s)) + 1) / QSA_BLOCK : (l.pos + l.n_tok) / QSA_BLOCK;
        for (size_t i = (size_t)seen * b->idx_dim; i < n_pooled; i++)
            pooled[s * n_pooled + i] = NAN; /* blocks that are not complete yet */
    }
    b->pooled = ADDR(pooled);
    size_t n_iq = (size_t)l.n_tok * b->idx_head * b->idx_dim;
    float *iq = case_f32(c, "iq", BUF_IN, n_iq);
    struct qsa_score_args a = { .block = ADDR(b), .step = ADDR(l.step), .iq = ADDR(iq), .scores = ADDR(scores), .apart = apart_of(&l), .row0 = row0, .n_row = n_row,
                                .span = QSA_SCORE_GROUP * (few ? 1 + case_rnd(c, 3) : 1) };
    if (few) { /* digits are the same where the scores are exact; else any, as a rounding may change one */
        bool exact = c->round % 2;
        a.count = ADDR(case_u32(c, "count", exact ? BUF_INOUT : BUF_WORK, (size_t)QSA_FEW * QSA_COUNTS));
        memset(AT(uint32_t, a.count), 0, (size_t)QSA_FEW * QSA_COUNTS * sizeof(uint32_t));
        for (size_t i = 0; exact && i < n_iq; i++)
            iq[i] = quarters(c);
        for (size_t i = 0; exact && i < l.n_seq * n_pooled; i++)
            pooled[i] = isnan(pooled[i]) ? pooled[i] : quarters(c);
    }
    case_tolerance(c, scores, b->idx_head * SUM_ABS(b->idx_dim, 1), SUM_REL(b->idx_head));
    spread(&l);
    case_call(c, &a, sizeof a, few ? (l.apart ? n_row : 1) * ((b->cap_blocks + a.span - 1) / a.span) : qsa_score_items(b->cap_blocks, n_row));
}

/* Scores with few or many different values, all equal, or mostly 0 */
static void random_scores(struct row_case *c, float *s, uint32_t n)
{
    uint32_t kind = case_rnd(c, 4), levels = kind == 0 ? 1 : kind == 1 ? 5 : 1 + case_rnd(c, 1000);
    for (uint32_t i = 0; i < n; i++)
        s[i] = kind == 3 ? fabsf(case_uniform(c)) : case_rnd(c, 4) ? (float)case_rnd(c, levels + 1) * 0.37f : 0;
}

/* A step whose rows choose; scores of rows row0 .. are still missing. */
static struct layer choosing(struct row_case *c, uint32_t most_rows)
{
    static const uint32_t budgets[] = { 1, 31, 64, 512, 100, 512 };
    struct layer l = layer(c, budgets[c->round % COUNT_OF(budgets)], 4, most_rows);
    struct qsa_block *b = l.b;
    if (c->round % 2) { /* long contexts: just below, at and beyond the budget, then far beyond */
        static const uint32_t blocks[] = { 510, 511, 512, 513, 1025, 4099, 16384 };
        uint32_t n = blocks[c->round / 2 % COUNT_OF(blocks)];
        l.pos = l.step->pos = QSA_BLOCK * n + case_rnd(c, QSA_BLOCK);
        if (n > 10000) /* one row is enough for those who interpret instructions */
            l.n_tok = l.step->n_tok = 1;
        b->cap_blocks = qsa_cap_blocks((size_t)l.pos + l.n_tok);
        scatter(c, &l);
        case_shape(c, "pos %u, n_tok %u, budget %u", l.pos, l.n_tok, b->budget);
    }
    return l;
}
static float *scores_of(struct row_case *c, const struct layer *l, uint32_t row0, uint32_t n_row, uint32_t room)
{
    uint32_t cap = l->b->cap_blocks;
    float *scores = case_f32(c, "scores", BUF_IN, (size_t)room * cap);
    for (uint32_t r = 0; r < room; r++) {
        uint32_t nb = r < n_row ? (pos_of(l, row0 + r) + 1) / QSA_BLOCK : 0;
        random_scores(c, scores + (size_t)r * cap, nb);
        for (uint32_t i = nb; i < cap; i++)
            scores[(size_t)r * cap + i] = NAN;
    }
    return scores;
}

static void select_(struct row_case *c)
{
    struct layer l = choosing(c, 9);
    struct qsa_block *b = l.b;
    uint32_t row0 = strip(c, &l), n_row = l.n_tok - row0;
    float *scores = scores_of(c, &l, row0, n_row, QSA_STRIP);
    struct qsa_select_args a = { .block = ADDR(b), .step = ADDR(l.step), .scores = ADDR(scores),
                                 .list = ADDR(case_u32(c, "list", BUF_OUT, (size_t)l.n_tok * (1 + b->budget))), .row0 = row0, .n_row = n_row };
    case_call(c, &a, sizeof a, n_row);
}

/* Few rows through spans, as far as the keys counted by their first digit. out: what qsa_count leaves; in: what qsa_take finds */
static struct qsa_span_args spans(struct row_case *c, const struct layer *l, enum buf_kind out)
{
    const struct qsa_block *b = l->b;
    uint32_t n_span = (b->cap_blocks + QSA_SPAN - 1) / QSA_SPAN;
    float *scores = scores_of(c, l, 0, l->n_tok, l->n_tok);
    uint32_t *count = case_u32(c, "count", out == BUF_IN ? BUF_IN : BUF_INOUT, (size_t)l->n_tok * QSA_COUNTS);
    memset(count, 0, (size_t)l->n_tok * QSA_COUNTS * sizeof *count);
    for (uint32_t r = 0; r < l->n_tok; r++)
        for (uint32_t i = 0; i < (pos_of(l, r) + 1) / QSA_BLOCK; i++) {
            uint32_t key;
            memcpy(&key, &scores[(size_t)r * b->cap_blocks + i], sizeof key);
            count[(size_t)r * QSA_COUNTS + (key >> QSA_FIRST_SHIFT)]++;
        }
    return (struct qsa_span_args){ .block = ADDR(b), .step = ADDR(l->step), .scores = ADDR(scores), .count = ADDR(count),
                                   .cut = ADDR(case_u32(c, "cut", out, (size_t)l->n_tok * 2)),
                                   .span = ADDR(case_u32(c, "span", out, (size_t)l->n_tok * n_span * QSA_SPAN_COUNTS)), .apart = apart_of(l), .n_row = l->n_tok, .n_span = n_span };
}
static void count(struct row_case *c)
{
    struct layer l = choosing(c, QSA_FEW);
    struct qsa_span_args a = spans(c, &l, BUF_OUT);
    spread(&l);
    case_call(c, &a, sizeof a, a.n_row * a.n_span);
}
static void take(struct row_case *c)
{
    struct layer l = choosing(c, QSA_FEW);
    struct qsa_span_args a = spans(c, &l, BUF_IN);
    spread(&l);
    qsa_count_ref(&a, 0, a.n_row * a.n_span, NULL);
    a.list = ADDR(case_u32(c, "list", BUF_OUT, (size_t)l.n_tok * (1 + l.b->budget)));
    case_call(c, &a, sizeof a, a.n_row * a.n_span);
}

/* budget of n blocks, ascending, every subset equally likely */
static void random_list(struct row_case *c, uint32_t *list, uint32_t budget, uint32_t n)
{
    list[0] = n > budget ? budget : QSA_ALL;
    for (uint32_t i = 0, k = 0; n > budget && k < budget; i++)
        if (case_rnd(c, n - i) < budget - k)
            list[1 + k++] = i;
}

/* Q8_0: value number `at`, and the scale of its group of dims and its token */
static void put_q8(const struct qsa_block *b, uint8_t *p, size_t at, size_t t, uint32_t d, float x)
{
    size_t n = QSA_BLOCK * (size_t)b->dim, group = (b->dim + 31) / 32, tile = at / n * (n + 8 * group);
    uint16_t scale = f32_to_f16(0.5f / 127 + 0.25f / 127 * (float)(d / 32 % 3));
    p[tile + at % n] = (uint8_t)(int8_t)lrintf(127 * x);
    memcpy(p + tile + n + 8 * (size_t)(d / 32) + 2 * (t % 4), &scale, sizeof scale);
}

static void put(const struct qsa_block *b, void *p, size_t at, size_t t, uint32_t d, float x)
{
    if (b->kv_type == QSA_KV_Q8_0) {
        put_q8(b, p, at, t, d, x);
        return;
    }
    if (b->kv_type == QSA_KV_F32)
        ((float *)p)[at] = x;
    else
        ((uint16_t *)p)[at] = f32_to_f16(x);
}

/* Keys and values up to the last position of the step; what comes later stays POISON */
static void fill_cache(struct row_case *c, const struct layer *l, void *k, void *v)
{
    for (uint32_t s = 0; s < l->n_seq; s++) {
        uint32_t end = l->apart ? pos_of(l, row_of(l, s)) + 1 : l->pos + l->n_tok;
        uint8_t *ks = (uint8_t *)k + s * l->k_bytes, *vs = (uint8_t *)v + s * l->k_bytes;
        for (uint32_t j = 0; j < l->b->n_kv; j++)
            for (uint32_t t = 0; t < end; t++)
                for (uint32_t d = 0; d < l->b->dim; d++) {
                    put(l->b, ks, qsa_k_at(l->b, j, t, d), t, d, case_uniform(c));
                    put(l->b, vs, qsa_v_at(l->b, j, t, d), t, d, case_uniform(c));
                }
    }
}

/* Some steps begin around where there is something to choose: so many keys that there are as many complete blocks as the budget or one less or more, and one
 * key less or more than that */
static void around_budget(struct row_case *c, struct layer *l)
{
    uint32_t n_key = QSA_BLOCK * (l->b->budget - 1 + case_rnd(c, 3)) + case_rnd(c, 3);
    if (c->round % 4 < 2 || l->b->budget == 0)
        return;
    l->pos = l->step->pos = MAX(n_key, 2u) - 2;
    l->b->cap_blocks = qsa_cap_blocks((size_t)l->pos + l->n_tok);
    scatter(c, l);
    case_shape(c, "pos %u, n_tok %u%s, budget %u, n_head %u, n_kv %u, dim %u", l->pos, l->n_tok, l->apart ? " apart" : "", l->b->budget, l->b->n_head, l->b->n_kv, l->b->dim);
}

/* What attention reads: caches, queries with gates, lists */
struct attention {
    struct layer l;
    gpu_addr qg, list;
    uint32_t n_key; /* most keys of a row */
};
static struct attention attention(struct row_case *c)
{
    bool unions = strstr(c->row->id, "union") != NULL, f16 = strstr(c->row->id, "group") != NULL;
    struct attention x = { .l = layer(c, c->round % 4 ? 1 + case_some(c, 50) : 0, unions ? QSA_UNION_ROWS : QSA_GROUP_ROWS, unions || f16 ? 19 : 9) };
    struct qsa_block *b = x.l.b;
    around_budget(c, &x.l);
    b->kv_type = c->row->workgroup == 0 && c->round % 3 == 0 ? QSA_KV_Q8_0 : c->round % 2 && !f16 ? QSA_KV_F32 : QSA_KV_F16; /* devices have no Q8_0 */
    void *k = cache(c, &x.l, "K", BUF_IN), *v = cache(c, &x.l, "V", BUF_IN);
    fill_cache(c, &x.l, k, v);
    b->k = ADDR(k), b->v = ADDR(v);
    uint32_t *list = case_u32(c, "list", BUF_IN, (size_t)x.l.n_tok * (1 + (size_t)b->budget)), seen = x.l.pos + x.l.n_tok;
    for (uint32_t t = 0; b->budget && t < x.l.n_tok; t++)
        random_list(c, list + (size_t)t * (1 + b->budget), b->budget, (pos_of(&x.l, t) + 1) / QSA_BLOCK);
    spread(&x.l);
    x.list = ADDR(list);
    x.qg = ADDR(case_f32(c, "qg", BUF_IN, (size_t)x.l.n_tok * b->n_head * 2 * b->dim));
    x.n_key = b->budget ? MIN(seen, QSA_BLOCK * b->budget + QSA_BLOCK - 1) : seen;
    return x;
}

/* Error of a score: dim products of at most 1 over sqrt(dim); and of a weight exp(score - max), relative, for differences below 4 */
static double score_abs(uint32_t dim) { return SUM_ABS(dim, 1) / sqrt(dim); }
static double weight_rel(uint32_t dim) { return score_abs(dim) + EXP_REL(4); }

static void attend(struct row_case *c)
{
    struct attention x = attention(c);
    struct qsa_block *b = x.l.b;
    float *out = case_f32(c, "out", BUF_OUT, (size_t)x.l.n_tok * b->n_head * b->dim);
    struct qsa_attend_args a = { .block = ADDR(b), .step = ADDR(x.l.step), .qg = x.qg, .list = x.list, .out = ADDR(out) };
    /* a mean of values of at most 1: errors of its weights and of two sums of them count against 1; then the gate */
    case_tolerance(c, out, weight_rel(b->dim) + SUM_REL(x.n_key) + DIV_REL, SIGMOID_REL(1));
    case_call(c, &a, sizeof a, x.l.n_tok * b->n_kv);
}

static void attend_masked(struct row_case *c)
{
    struct attention x = attention(c);
    struct qsa_block *b = x.l.b;
    float *out = case_f32(c, "out", BUF_OUT, (size_t)x.l.n_tok * b->n_head * b->dim);
    struct qsa_masked_args a = { .block = ADDR(b), .step = ADDR(x.l.step), .qg = x.qg, .list = x.list, .out = ADDR(out), .apart = apart_of(&x.l) };
    case_tolerance(c, out, weight_rel(b->dim) + SUM_REL(x.n_key) + DIV_REL, SIGMOID_REL(1)); /* as above */
    case_call(c, &a, sizeof a, x.l.n_tok * b->n_kv);
}

static void attend_union(struct row_case *c)
{
    attend(c);
    struct qsa_attend_args *a = (void *)c->args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    c->n_items = (c->n_items / b->n_kv + QSA_UNION_ROWS - 1) / QSA_UNION_ROWS * b->n_kv;
}

/* Unions of random lists, as the reference makes them: the same bits */
static void group_(struct row_case *c)
{
    struct layer l = layer(c, 1 + case_rnd(c, 50), QSA_GROUP_ROWS, 19);
    struct qsa_block *b = l.b;
    if (c->round % 3 == 2) { /* windows of blocks, and their ends */
        static const uint32_t at[] = { 32768, 32767, 65536, 40000 };
        b->budget = 1 + case_rnd(c, 700);
        l.pos = l.step->pos = QSA_BLOCK * at[c->round / 3 % COUNT_OF(at)] - case_rnd(c, 20);
        b->cap_blocks = qsa_cap_blocks((size_t)l.pos + l.n_tok);
        case_shape(c, "pos %u, n_tok %u, budget %u", l.pos, l.n_tok, b->budget);
    }
    uint32_t *list = case_u32(c, "list", BUF_IN, (size_t)l.n_tok * (1 + b->budget)), n_group = (l.n_tok + QSA_GROUP_ROWS - 1) / QSA_GROUP_ROWS;
    for (uint32_t t = 0; t < l.n_tok; t++)
        random_list(c, list + (size_t)t * (1 + b->budget), b->budget, (l.pos + t + 1) / QSA_BLOCK);
    struct qsa_group_args a = { .block = ADDR(b), .step = ADDR(l.step), .list = ADDR(list),
                                .groups = ADDR(case_u32(c, "groups", BUF_OUT, n_group * (1 + (size_t)QSA_UNION_MOST(b->budget)))) };
    case_call(c, &a, sizeof a, n_group);
}

/* Operands are rounded to f16: each value of a query by at most 2^-11 of itself, a score of uniform values by 0.2 2^-11, rms, so by 2^-11 in five deviations;
 * then a weight, and with it the mean, by as much again. */
static void attend_group(struct row_case *c)
{
    struct attention x = attention(c);
    struct qsa_block *b = x.l.b;
    uint32_t n_group = (x.l.n_tok + QSA_GROUP_ROWS - 1) / QSA_GROUP_ROWS;
    float *out = case_f32(c, "out", BUF_OUT, (size_t)x.l.n_tok * b->n_head * b->dim);
    struct qsa_group_args a = { .block = ADDR(b), .step = ADDR(x.l.step), .qg = x.qg, .list = x.list, .out = ADDR(out) };
    a.groups = ADDR(case_u32(c, "groups", BUF_IN, n_group * (1 + (size_t)QSA_UNION_MOST(b->budget))));
    if (b->budget)
        qsa_group_ref(&a, 0, n_group, NULL);
    case_tolerance(c, out, 2 * 0x1p-11 + weight_rel(b->dim) + SUM_REL(x.n_key) + DIV_REL, SIGMOID_REL(1));
    case_call(c, &a, sizeof a, n_group * b->n_kv);
}

/* Raw keys of all positions before the step lie there; those of the step come with it (keep_raw) or lie there too (repool). */
static void raw_keys(struct row_case *c)
{
    bool keep = c->row->ref == qsa_keep_raw_ref;
    struct layer l = layer(c, 1 + case_rnd(c, 50), 4, 13);
    struct qsa_block *b = l.b;
    size_t n_pooled = (size_t)b->cap_blocks * b->idx_dim, n_raw = QSA_BLOCK * n_pooled;
    b->rope_dim = 2 * (1 + case_rnd(c, MIN(b->dim, b->idx_dim) / 2));
    b->ik_norm = ADDR(case_f32(c, "ik_norm", BUF_IN, b->idx_dim));
    float *pooled = case_f32(c, "pooled", keep ? BUF_IN : BUF_OUT, l.n_seq * n_pooled), *raw = case_f32(c, "raw", keep ? BUF_OUT : BUF_IN, l.n_seq * n_raw);
    float *turn = case_f32(c, "turn", BUF_IN, (size_t)b->cap_blocks * b->rope_dim);
    b->pooled = ADDR(pooled);
    l.pooled_bytes = n_pooled * sizeof(float);
    for (size_t i = 0; i < (size_t)b->cap_blocks * b->rope_dim / 2; i++) {
        double angle = (double)(i / (b->rope_dim / 2) * QSA_BLOCK) * pow(1e4, -2.0 * (double)(i % (b->rope_dim / 2)) / b->rope_dim);
        turn[2 * i] = (float)cos(angle), turn[2 * i + 1] = (float)sin(angle);
    }
    /* The part of raw keys stands at the same distance from one sequence to the next as the layer blocks do */
    uint8_t *parts = case_struct(c, "keys", l.n_seq * sizeof *l.b);
    for (uint32_t s = 0; s < l.n_seq; s++) {
        uint32_t seen = l.apart ? pos_of(&l, row_of(&l, s)) + 1 : l.pos + l.n_tok;
        for (size_t i = (size_t)seen * b->idx_dim; i < n_raw && !keep; i++)
            raw[s * n_raw + i] = NAN; /* positions that are still to come */
        memcpy(parts + s * sizeof *l.b, &(struct qsa_raw_keys){ .raw = ADDR(raw + s * n_raw), .turn = ADDR(turn) }, sizeof(struct qsa_raw_keys));
    }
    struct qsa_raw_args a = { .block = ADDR(b), .step = ADDR(l.step), .keys = ADDR(parts), .ik = ADDR(case_f32(c, "ik", BUF_IN, (size_t)l.n_tok * b->idx_dim)),
                              .apart = apart_of(&l) };
    spread(&l);
    if (!keep) /* as in qsa_prep */
        case_tolerance(c, pooled, norm_rope_abs(b->idx_dim) + 4 * 3 * SUM_ABS(4, 1), 0);
    uint32_t blocks = (uint32_t)size_up(b->cap_blocks, QSA_REPOOL_GRAIN);
    case_call(c, &a, sizeof a, keep ? l.n_tok : l.n_seq * blocks);
}

/* The parts of a list: as many blocks each as the model has, or any number. */
static struct qsa_part_args parts(struct row_case *c, const struct attention *x)
{
    const struct qsa_block *b = x->l.b;
    uint32_t each = c->round % 3 ? qsa_part_blocks(b->budget) : 1 + case_rnd(c, 20), most = b->budget ? MIN(b->budget, b->cap_blocks) : b->cap_blocks;
    uint32_t row0 = strip(c, &x->l);
    return (struct qsa_part_args){ .block = ADDR(b), .step = ADDR(x->l.step), .qg = x->qg, .list = x->list, .apart = apart_of(&x->l), .row0 = row0, .n_row = x->l.n_tok - row0,
                                   .n_part = MAX(1u, (most + each - 1) / each), .part_blocks = each };
}

static void attend_part(struct row_case *c)
{
    struct attention x = attention(c);
    const struct qsa_block *b = x.l.b;
    struct qsa_part_args a = parts(c, &x);
    size_t n = (size_t)a.n_row * b->n_head * a.n_part;
    float *o = case_f32(c, "o", BUF_OUT, n * b->dim), *ml = case_f32(c, "ml", BUF_OUT, n * 2);
    uint32_t n_key = MIN(x.n_key, QSA_BLOCK * (a.part_blocks + 1));
    a.o = ADDR(o), a.ml = ADDR(ml);
    case_tolerance(c, ml, score_abs(b->dim), weight_rel(b->dim) + SUM_REL(n_key)); /* maxima and sums of weights */
    case_tolerance(c, o, n_key * weight_rel(b->dim) + SUM_ABS(n_key, 1), 0);       /* n_key weights of at most 1, values of at most 1 */
    case_call(c, &a, sizeof a, a.n_row * b->n_kv * a.n_part);
}

static void attend_merge(struct row_case *c)
{
    struct attention x = attention(c);
    const struct qsa_block *b = x.l.b;
    struct qsa_part_args a = parts(c, &x);
    size_t n = (size_t)a.n_row * b->n_head * a.n_part;
    float *o = case_f32(c, "o", BUF_IN, n * b->dim), *ml = case_f32(c, "ml", BUF_IN, n * 2);
    float *out = case_f32(c, "out", BUF_OUT, (size_t)x.l.n_tok * b->n_head * b->dim);
    for (size_t i = 0; i < n; i++) {
        uint32_t t = a.row0 + (uint32_t)(i / a.n_part / b->n_head), nb = (pos_of(&x.l, t) + 1) / QSA_BLOCK;
        uint32_t have = MAX(1u, ((b->budget ? MIN(nb, b->budget) : nb) + a.part_blocks - 1) / a.part_blocks);
        float m = 4 * ml[2 * i], l = 1 + 10 * fabsf(ml[2 * i + 1]);
        for (uint32_t d = 0; d < b->dim; d++)
            o[i * b->dim + d] *= i % a.n_part < have ? l : NAN; /* sums of weights times values of at most 1 */
        ml[2 * i] = i % a.n_part < have ? m : NAN;
        ml[2 * i + 1] = i % a.n_part < have ? l : NAN;
    }
    a.o = ADDR(o), a.ml = ADDR(ml), a.out = ADDR(out);
    case_tolerance(c, out, EXP_REL(8) + SUM_REL(a.n_part) + DIV_REL, SIGMOID_REL(1)); /* as above, the parts being the keys */
    case_call(c, &a, sizeof a, a.n_row * b->n_head);
}

const struct row_cases qsa_cases[] = {
    { .ref = qsa_prep_ref, .build = prep },
    { .ref = qsa_score_ref, .build = score },
    { .ref = qsa_select_ref, .build = select_ },
    { .ref = qsa_count_ref, .build = count },
    { .ref = qsa_take_ref, .build = take },
    { .ref = qsa_attend_ref, .build = attend },
    { .ref = qsa_attend_masked_ref, .build = attend_masked },
    { .ref = qsa_attend_union_ref, .build = attend_union },
    { .ref = qsa_group_ref, .build = group_ },
    { .ref = qsa_attend_group_ref, .build = attend_group },
    { .ref = qsa_keep_raw_ref, .build = raw_keys },
    { .ref = qsa_repool_ref, .build = raw_keys },
    { .ref = qsa_attend_part_ref, .build = attend_part },
    { .ref = qsa_attend_merge_ref, .build = attend_merge },
    { 0 },
};
