/* prop_rows.c - every vectorised twin against the plain C reference of its row, on random shapes, for every instruction set this machine
 * has; rows of a batch against the row alone, bit for bit; and identities of the mathematics (chunked = stepwise, block top-k = full sort). */
#include "gdn/gdn.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"
#include "qsa/qsa.h"
#include "tests/test.h"

#include <math.h>

static uint64_t rng;
static uint32_t rnd(uint32_t n) /* 0 .. n - 1 */
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (uint32_t)((rng >> 33) % n);
}
static float uniform(void) { return (float)rnd(1 << 24) / (float)(1 << 23) - 1.0f; }
static float *floats(size_t n) /* random values, then NaN: nothing may read beyond n */
{
    float *p = malloc((n + 16) * sizeof *p);
    for (size_t i = 0; i < n + 16; i++)
        p[i] = i < n ? uniform() : NAN;
    return p;
}
static float *copy_of(const float *x, size_t n)
{
    float *p = malloc((n + 16) * sizeof *p);
    memcpy(p, x, n * sizeof *p);
    return p;
}
static float worst(const float *a, const float *b, size_t n)
{
    float w = 0;
    for (size_t i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= w)) /* NaN counts as the worst */
            w = isnan(d) ? INFINITY : d;
    }
    return w;
}

static float scratch_mem[1 << 20];
static struct cpu_scratch scratch = { scratch_mem, 1 << 20 };
/* Runs all items in blocks of the row's grain, as the backend does */
static void run(gpu_row_fn fn, const struct gpu_kernel *k, const void *args, uint32_t n_items)
{
    for (uint32_t i = 0; i < n_items; i += k->grain)
        fn(args, i, MIN((uint32_t)k->grain, n_items - i), &scratch);
}

static enum cpu_isa isa; /* the set under test */
static gpu_row_fn twin(const struct gpu_kernel_table *t, uint32_t id)
{
    gpu_row_fn f = t->fast[isa][id];
    CHECK(f != NULL);
    return f;
}

static struct gpu_mat random_mat(enum quant_id type, uint32_t n_in, uint32_t n_out, uint8_t **bytes)
{
    const struct quant_type *t = quant_type(type);
    size_t row = quant_row_bytes(t, n_in);
    *bytes = malloc(row * n_out + 1);
    for (size_t i = 0; i < row * n_out; i++)
        (*bytes)[i] = (uint8_t)rnd(256);
    for (uint32_t r = 0; r < n_out; r++)
        for (uint32_t b = 0; b < n_in / t->block_len; b++) { /* finite scales of about 1/64 */
            uint8_t *p = *bytes + r * row + (size_t)b * t->block_bytes;
            uint16_t h = f32_to_f16(uniform() / 64);
            float f = uniform();
            if (type == QUANT_F32)
                memcpy(p, &f, 4);
            else
                memcpy(p, &h, 2);
            if (type == QUANT_Q4_K || type == QUANT_Q5_1)
                memcpy(p + 2, &h, 2);
        }
    return (struct gpu_mat){ .data = ADDR(*bytes), .row_bytes = row, .type = type, .n_in = n_in, .n_out = n_out };
}

static void test_matmul(void)
{
    static const enum quant_id types[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q5_1 };
    const struct gpu_kernel *k = &gpu_kernels.row[K_matmul];
    for (size_t ti = 0; ti < COUNT_OF(types); ti++)
        for (int round = 0; round < 12; round++) {
            uint32_t block = quant_type(types[ti])->block_len, n_in = block * (1 + rnd(block > 1 ? 4 : 80)), n_tok = 1 + rnd(10);
            uint32_t n_out[2] = { 1 + rnd(70), 1 + rnd(5) }, items = 0, stride = n_in + rnd(3);
            uint8_t *bytes[2];
            float *y[2], *x = floats((size_t)n_tok * stride), *alone = malloc(80 * sizeof(float));
            struct matmul_job job[2];
            for (int j = 0; j < 2; j++) {
                y[j] = floats((size_t)n_tok * n_out[j]);
                job[j] = (struct matmul_job){ .w = random_mat(types[ti], n_in, n_out[j], &bytes[j]), .y = ADDR(y[j]), .y_stride = n_out[j],
                                              .act = rnd(4), .scale = 0.25f };
                items += (uint32_t)size_up(n_out[j], MATMUL_GRAIN);
            }
            struct matmul_args a = { .x = ADDR(x), .job = ADDR(job), .x_stride = stride, .n_job = 2, .n_tok = n_tok };
            run(k->ref, k, &a, items);
            float *want[2] = { copy_of(y[0], (size_t)n_tok * n_out[0]), copy_of(y[1], (size_t)n_tok * n_out[1]) };
            run(twin(&gpu_kernels, K_matmul), k, &a, items);
            for (int j = 0; j < 2; j++) /* n_in terms of at most 4, each rounded to 2^-24 */
                CHECK(worst(y[j], want[j], (size_t)n_tok * n_out[j]) <= 4e-7f * (float)n_in);
            for (uint32_t t = 0; t < n_tok; t++) { /* each row summed exactly as alone */
                struct matmul_job one = job[0];
                one.y = ADDR(alone);
                struct matmul_args b = { .x = ADDR(x + (size_t)t * stride), .job = ADDR(&one), .x_stride = stride, .n_job = 1, .n_tok = 1 };
                run(twin(&gpu_kernels, K_matmul), k, &b, (uint32_t)size_up(n_out[0], MATMUL_GRAIN));
                CHECK(memcmp(alone, y[0] + (size_t)t * n_out[0], n_out[0] * sizeof *alone) == 0);
            }
            for (int j = 0; j < 2; j++)
                free(y[j]), free(want[j]), free(bytes[j]);
            free(x), free(alone);
        }
}

/* One random GDN layer; state and window are copied before each run. */
struct gdn_case {
    struct gdn_block b;
    struct gdn_mix_args mix;
    struct gdn_conv_args conv;
    float *p[12];
    size_t n_state, n_window, n_out;
};
static struct gdn_case gdn_random(uint32_t n_tok)
{
    struct gdn_case c = { 0 };
    uint32_t n_k = 1 + rnd(2), n_v = n_k * (1 + rnd(3)), dim = rnd(2) ? 32 : 16 + 8 * rnd(10), width = (2 * n_k + n_v) * dim;
    c.n_state = (size_t)n_v * dim * dim, c.n_window = 3 * (size_t)width, c.n_out = (size_t)n_tok * n_v * dim;
    size_t sizes[12] = { (size_t)width * 4, n_v, n_v, dim, c.n_state, c.n_window, (size_t)n_tok * width, (size_t)n_tok * width,
                         c.n_out, (size_t)n_tok * n_v, (size_t)n_tok * n_v, c.n_out };
    for (int i = 0; i < 12; i++)
        c.p[i] = floats(sizes[i]);
    for (uint32_t h = 0; h < n_v; h++)
        c.p[1][h] = -fabsf(c.p[1][h]) - 0.01f;
    for (size_t i = 0; i < (size_t)n_tok * n_v; i++) /* beta in 0..1 */
        c.p[9][i] = 0.5f + 0.5f * c.p[9][i];
    c.b = (struct gdn_block){ .conv = ADDR(c.p[0]), .a = ADDR(c.p[1]), .dt = ADDR(c.p[2]), .norm = ADDR(c.p[3]), .state = ADDR(c.p[4]),
                              .window = ADDR(c.p[5]), .n_k = n_k, .n_v = n_v, .dim = dim, .taps = 4, .width = width, .eps = 1e-6f };
    c.conv = (struct gdn_conv_args){ .raw = ADDR(c.p[6]), .out = ADDR(c.p[7]), .n_tok = n_tok };
    c.mix = (struct gdn_mix_args){ .qkv = ADDR(c.p[6]), .gate = ADDR(c.p[8]), .beta = ADDR(c.p[9]), .alpha = ADDR(c.p[10]), .out = ADDR(c.p[11]),
                                   .n_tok = n_tok };
    return c;
}
static void gdn_free(struct gdn_case *c)
{
    for (int i = 0; i < 12; i++)
        free(c->p[i]);
}

static void test_gdn(void)
{
    static const uint32_t lens[] = { 1, 2, 3, 5, 63, 64, 65, 130 };
    const struct gpu_kernel *k = gdn_kernels.row;
    for (size_t li = 0; li < COUNT_OF(lens); li++) {
        struct gdn_case c = gdn_random(lens[li]);
        c.mix.block = c.conv.block = ADDR(&c.b);
        float *state = copy_of(c.p[4], c.n_state), *window = copy_of(c.p[5], c.n_window);

        run(k[K_gdn_conv].ref, &k[K_gdn_conv], &c.conv, c.b.width);
        float *want = copy_of(c.p[7], (size_t)lens[li] * c.b.width), *want_window = copy_of(c.p[5], c.n_window);
        memcpy(c.p[5], window, c.n_window * sizeof *window);
        run(twin(&gdn_kernels, K_gdn_conv), &k[K_gdn_conv], &c.conv, c.b.width);
        CHECK(worst(c.p[7], want, (size_t)lens[li] * c.b.width) < 1e-6f);
        CHECK(memcmp(c.p[5], want_window, c.n_window * sizeof *window) == 0);
        /* in two cuts: the window carries over, same bits */
        if (lens[li] > 1) {
            float *whole = copy_of(c.p[7], (size_t)lens[li] * c.b.width);
            memcpy(c.p[5], window, c.n_window * sizeof *window);
            uint32_t cut = 1 + rnd(lens[li] - 1);
            struct gdn_conv_args part = c.conv;
            part.n_tok = cut;
            run(twin(&gdn_kernels, K_gdn_conv), &k[K_gdn_conv], &part, c.b.width);
            part.raw += (uint64_t)cut * c.b.width * 4, part.out += (uint64_t)cut * c.b.width * 4, part.n_tok = lens[li] - cut;
            run(twin(&gdn_kernels, K_gdn_conv), &k[K_gdn_conv], &part, c.b.width);
            CHECK(memcmp(c.p[7], whole, (size_t)lens[li] * c.b.width * 4) == 0);
            CHECK(memcmp(c.p[5], want_window, c.n_window * 4) == 0);
            free(whole);
        }

        float *out[4], *st[4]; /* step ref, step fast, chunk ref, chunk fast: all four the same mathematics */
        for (int v = 0; v < 4; v++) {
            uint32_t id = v < 2 ? K_gdn_step : K_gdn_chunk;
            memcpy(c.p[4], state, c.n_state * sizeof *state);
            run(v & 1 ? twin(&gdn_kernels, id) : k[id].ref, &k[id], &c.mix, c.b.n_v);
            out[v] = copy_of(c.p[11], c.n_out);
            st[v] = copy_of(c.p[4], c.n_state);
        }
        for (int v = 1; v < 4; v++) {
            CHECK(worst(out[v], out[0], c.n_out) < 1e-4f);
            CHECK(worst(st[v], st[0], c.n_state) < 1e-4f);
        }
        for (int v = 0; v < 4; v++)
            free(out[v]), free(st[v]);
        free(state), free(window), free(want), free(want_window);
        gdn_free(&c);
    }
}

static int by_score(const void *a, const void *b)
{
    const float *x = *(const float *const *)a, *y = *(const float *const *)b;
    return *x > *y ? -1 : *x < *y ? 1 : x < y ? -1 : 1;
}
static int by_index(const void *a, const void *b) { return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b); }

static void test_top_blocks(void)
{
    for (int round = 0; round < 300; round++) {
        uint32_t n = 1 + rnd(600), budget = 1 + rnd(200), levels = 1 + rnd(round % 3 ? 1000 : 5); /* few levels: many ties */
        float s[600];
        const float *order[600];
        uint32_t got[600], want[600], k = MIN(n, budget);
        for (uint32_t i = 0; i < n; i++) {
            s[i] = rnd(4) ? (float)rnd(levels) * 0.37f : 0;
            order[i] = &s[i];
        }
        qsort(order, n, sizeof *order, by_score);
        for (uint32_t i = 0; i < k; i++)
            want[i] = (uint32_t)(order[i] - s);
        qsort(want, k, sizeof *want, by_index);
        CHECK(qsa_top_blocks(s, n, budget, got) == k);
        CHECK(memcmp(got, want, k * sizeof *got) == 0);
    }
}

/* The list in parts, merged, is the whole; and a row in a batch has the bits it has alone. */
static void test_qsa_parts(const struct qsa_block *b, const struct qsa_attend_args *aa, const float *want, uint32_t n_tok)
{
    size_t row = (size_t)b->n_head * b->dim;
    uint32_t each = 1 + rnd(20), n_part = (MAX(1u, b->budget ? MIN(b->budget, b->cap_blocks) : b->cap_blocks) + each - 1) / each;
    float *o = floats(n_tok * row * n_part), *ml = floats((size_t)n_tok * b->n_head * n_part * 2), *out = floats(n_tok * row), *alone = floats(n_tok * row);
    struct qsa_part_args a = { .block = aa->block, .step = aa->step, .qg = aa->qg, .list = aa->list, .o = ADDR(o), .ml = ADDR(ml), .out = ADDR(out),
                               .n_row = n_tok, .n_part = n_part, .part_blocks = each };
    for (size_t i = 0; i < n_tok * row * n_part; i++) /* nobody reads a part that nobody wrote */
        o[i] = NAN;
    run(qsa_attend_part_ref, &qsa_kernels.row[K_qsa_attend_part], &a, n_tok * b->n_kv * n_part);
    run(qsa_attend_merge_ref, &qsa_kernels.row[K_qsa_attend_merge], &a, n_tok * b->n_head);
    CHECK(worst(out, want, n_tok * row) < 1e-5f);
    a.out = ADDR(alone), a.n_row = 1;
    for (a.row0 = 0; a.row0 < n_tok; a.row0++) {
        run(qsa_attend_part_ref, &qsa_kernels.row[K_qsa_attend_part], &a, b->n_kv * n_part);
        run(qsa_attend_merge_ref, &qsa_kernels.row[K_qsa_attend_merge], &a, b->n_head);
    }
    CHECK(memcmp(alone, out, n_tok * row * sizeof *out) == 0);
    free(o), free(ml), free(out), free(alone);
}

/* A row of scores has the same bits whether its strip is scored together or each row alone. */
static void test_qsa_score_alone(const struct qsa_score_args *sa, uint32_t cap, uint32_t n_tok)
{
    float *alone = copy_of(AT(float, sa->scores), (size_t)n_tok * cap);
    for (uint32_t t = 0; t < n_tok; t++) {
        struct qsa_score_args one = *sa;
        one.row0 = t, one.n_row = 1, one.scores = ADDR(alone + (size_t)t * cap);
        run(twin(&qsa_kernels, K_qsa_score_few), &qsa_kernels.row[K_qsa_score_few], &one, qsa_score_items(cap, 1));
    }
    CHECK(memcmp(alone, AT(float, sa->scores), (size_t)n_tok * cap * sizeof *alone) == 0);
    free(alone);
}

static void test_qsa(void)
{
    for (int round = 0; round < 40; round++) {
        uint32_t n_kv = 1 + rnd(2), n_head = n_kv * (1 + rnd(3)), dim = 8 * (1 + rnd(8)), idx_dim = 8 * (1 + rnd(6)), idx_head = 1 + rnd(4);
        uint32_t budget = round % 4 ? 1 + rnd(50) : 0, n_ctx = 40 + rnd(600), cap = qsa_cap_blocks(n_ctx), n_tok = 1 + rnd(6);
        uint32_t pos = rnd(n_ctx - n_tok), f32 = rnd(2);
        size_t kv = (size_t)n_kv * cap * QSA_BLOCK * dim;
        float *kf = floats(kv), *vf = floats(kv), *pooled = floats((size_t)cap * idx_dim), *iq = floats((size_t)n_tok * idx_head * idx_dim);
        float *qg = floats((size_t)n_tok * n_head * 2 * dim), *scores = floats((size_t)n_tok * cap), *out = floats((size_t)n_tok * n_head * dim);
        uint32_t *list = calloc((size_t)n_tok * (1 + budget), sizeof *list);
        if (!f32)
            for (size_t i = 0; i < kv; i++) {
                ((uint16_t *)kf)[i] = f32_to_f16(kf[i]);
                ((uint16_t *)vf)[i] = f32_to_f16(vf[i]);
            }
        struct gpu_step step = { .n_tok = n_tok, .pos = pos };
        struct qsa_block b = { .k = ADDR(kf), .v = ADDR(vf), .pooled = ADDR(pooled), .n_head = n_head, .n_kv = n_kv, .dim = dim, .idx_head = idx_head,
                               .idx_dim = idx_dim, .budget = budget, .cap_blocks = cap, .kv_f32 = f32 };
        for (uint32_t j = 0; j < n_kv; j++) /* what lies after the last position must not matter */
            for (uint32_t t = pos + n_tok; t < cap * QSA_BLOCK; t++)
                for (uint32_t d = 0; d < dim; d++) {
                    size_t ka = qsa_k_at(&b, j, t, d), va = qsa_v_at(&b, j, t, d);
                    if (f32)
                        kf[ka] = vf[va] = NAN;
                    else
                        ((uint16_t *)kf)[ka] = ((uint16_t *)vf)[va] = 0x7e00;
                }
        uint32_t score_items = qsa_score_items(cap, n_tok);
        struct qsa_score_args sa = { ADDR(&b), ADDR(&step), ADDR(iq), ADDR(scores), 0, n_tok };
        struct qsa_select_args la = { ADDR(&b), ADDR(&step), ADDR(scores), ADDR(list), 0, n_tok };
        struct qsa_attend_args aa = { ADDR(&b), ADDR(&step), ADDR(qg), ADDR(list), ADDR(out) };
        if (budget) {
            run(qsa_score_ref, &qsa_kernels.row[K_qsa_score], &sa, score_items);
            float *want = copy_of(scores, (size_t)n_tok * cap);
            run(twin(&qsa_kernels, K_qsa_score), &qsa_kernels.row[K_qsa_score], &sa, score_items);
            for (uint32_t t = 0; t < n_tok; t++)
                if ((pos + t + 1) / 4 > budget)
                    CHECK(worst(scores + (size_t)t * cap, want + (size_t)t * cap, (pos + t + 1) / 4) < 1e-4f);
            test_qsa_score_alone(&sa, cap, n_tok);
            run(qsa_select_ref, &qsa_kernels.row[K_qsa_select], &la, n_tok);
            free(want);
        }
        run(qsa_attend_ref, &qsa_kernels.row[K_qsa_attend], &aa, n_tok * n_kv);
        float *want = copy_of(out, (size_t)n_tok * n_head * dim);
        run(twin(&qsa_kernels, K_qsa_attend), &qsa_kernels.row[K_qsa_attend], &aa, n_tok * n_kv);
        CHECK(worst(out, want, (size_t)n_tok * n_head * dim) < 1e-5f);
        test_qsa_parts(&b, &aa, want, n_tok);
        free(want), free(kf), free(vf), free(pooled), free(iq), free(qg), free(scores), free(out), free(list);
    }
}

static void test_moe(void)
{
    for (int round = 0; round < 20; round++) {
        uint32_t D = 32 * (1 + rnd(4)), ff = 32 * (1 + rnd(3)), sff = 32 * (1 + rnd(3)), E = 2 + rnd(12), k = 1 + rnd(MIN(E, 4u)), n_tok = 1 + rnd(12);
        uint8_t *bytes[4];
        struct moe_block b = { .gate = random_mat(QUANT_Q8_0, D, ff * E, &bytes[0]), .up = random_mat(QUANT_Q8_0, D, ff * E, &bytes[1]),
                               .down = random_mat(QUANT_Q5_1, ff, D * E, &bytes[2]), .shared_down = random_mat(QUANT_Q8_0, sff, D, &bytes[3]),
                               .n_expert = E, .n_used = k, .ff = ff, .shared_ff = sff, .n_embd = D };
        b.gate.rows_per_expert = b.up.rows_per_expert = ff;
        float *lg = floats((size_t)n_tok * E), *w = floats((size_t)n_tok * k), *share = floats((size_t)n_tok * k), *u = floats((size_t)n_tok * D);
        float *h = floats((size_t)n_tok * k * ff), *sh = floats((size_t)n_tok * sff), *sg = floats(n_tok), *y = floats((size_t)n_tok * D);
        uint32_t id[64], expert[64], start[64], row[64], cursor[64];
        struct moe_group group;
        if (round % 2) /* equal logits: the lower expert wins */
            for (uint32_t i = 0; i < n_tok * E; i++)
                lg[i] = (float)rnd(3);
        run(moe_route_ref, &model_kernels.row[K_moe_route], &(struct moe_route_args){ ADDR(&b), ADDR(lg), ADDR(id), ADDR(w) }, n_tok);
        for (uint32_t t = 0; t < n_tok; t++) {
            float sum = 0;
            for (uint32_t i = 0; i < k; i++) {
                sum += w[t * k + i];
                CHECK(i == 0 || id[t * k + i] > id[t * k + i - 1]);
                for (uint32_t e = 0; e < E; e++) { /* nobody outside is better, or equal and lower */
                    bool in = false;
                    for (uint32_t q = 0; q < k; q++)
                        in |= id[t * k + q] == e;
                    float mine = lg[t * E + id[t * k + i]], other = lg[t * E + e];
                    CHECK(in || other < mine || (other == mine && e > id[t * k + i]));
                }
            }
            CHECK(fabsf(sum - 1) < 1e-6f);
        }
        struct moe_group_args ga = { ADDR(&b), ADDR(id), ADDR(w), ADDR(&group), ADDR(expert), ADDR(start), ADDR(row), ADDR(share), ADDR(cursor), n_tok, 0 };
        run(moe_group_ref, &model_kernels.row[K_moe_group], &ga, 1);
        struct moe_gate_up_args ua = { ADDR(&b), ADDR(&group), ADDR(expert), ADDR(start), ADDR(row), ADDR(u), ADDR(h) };
        uint32_t items = MIN(E, n_tok * k) * (uint32_t)size_up(ff, MOE_GRAIN);
        run(moe_gate_up_ref, &model_kernels.row[K_moe_gate_up], &ua, items);
        float *want = copy_of(h, (size_t)n_tok * k * ff);
        run(twin(&model_kernels, K_moe_gate_up), &model_kernels.row[K_moe_gate_up], &ua, items);
        CHECK(worst(h, want, (size_t)n_tok * k * ff) < 1e-3f);
        free(want);
        struct moe_down_args da = { ADDR(&b), ADDR(&group), ADDR(expert), ADDR(start), ADDR(row), ADDR(share), ADDR(h), ADDR(sh), ADDR(sg), ADDR(y), n_tok, 0 };
        run(moe_down_ref, &model_kernels.row[K_moe_down], &da, D);
        want = copy_of(y, (size_t)n_tok * D);
        run(twin(&model_kernels, K_moe_down), &model_kernels.row[K_moe_down], &da, D);
        CHECK(worst(y, want, (size_t)n_tok * D) < 1e-3f);
        free(want);
        for (int i = 0; i < 4; i++)
            free(bytes[i]);
        free(lg), free(w), free(share), free(u), free(h), free(sh), free(sg), free(y);
    }
}

/* Counting and scattering give the entries of moe_group; entry_of leads back; tiles cover every entry once, experts ascending. */
static void test_moe_scatter(void)
{
    static const uint32_t tile_sizes[] = { 1, 7, 16, 32, 64, 128 };
    for (int round = 0; round < 60; round++) {
        uint32_t E = 1 + rnd(40), k = 1 + rnd(MIN(E, 8u)), n_tok = 1 + rnd(150), n = n_tok * k, size = tile_sizes[rnd(6)], D = 1 + rnd(1100);
        uint32_t *id = malloc(n * 4), row[2][1200], entry_of[1200], count[40], start[41], active_start[41], expert[40], cursor[40], n_tile, seen = 0;
        float *w = floats(n), share[2][1200];
        struct moe_tile tile[1200];
        struct moe_group group;
        struct moe_block b = { .n_expert = E, .n_used = k };
        for (uint32_t t = 0; t < n_tok; t++) /* k different ids, ascending */
            for (uint32_t e = 0, left = k; left; e++)
                if (rnd(E - e) < left)
                    id[t * k + k - left--] = e;
        struct moe_group_args ga = { ADDR(&b),     ADDR(id),       ADDR(w),      ADDR(&group), ADDR(expert), ADDR(active_start),
                                     ADDR(row[0]), ADDR(share[0]), ADDR(cursor), n_tok,        0 };
        run(moe_group_ref, &model_kernels.row[K_moe_group], &ga, 1);
        run(moe_count_ref, &model_kernels.row[K_moe_count], &(struct moe_count_args){ ADDR(id), ADDR(count), n, 0 }, E);
        struct moe_scatter_args sa = { ADDR(id),       ADDR(w),    ADDR(count),   ADDR(start), ADDR(row[1]), ADDR(share[1]),
                                       ADDR(entry_of), ADDR(tile), ADDR(&n_tile), n_tok,       k,            E, size };
        run(moe_scatter_ref, &model_kernels.row[K_moe_scatter], &sa, E);
        CHECK(memcmp(row[0], row[1], n * sizeof *id) == 0 && memcmp(share[0], share[1], n * sizeof *w) == 0);
        CHECK(start[0] == 0 && start[E] == n && n_tile <= moe_tiles_max(n, size, E));
        for (uint32_t i = 0; i < n; i++)
            CHECK(row[1][entry_of[i]] == i / k && entry_of[i] >= start[id[i]] && entry_of[i] < start[id[i] + 1]);
        for (uint32_t i = 0; i < n_tile; i++) {
            uint32_t first = start[tile[i].expert] + tile[i].first;
            CHECK(first == seen && tile[i].first < count[tile[i].expert]);
            seen = MIN(first + size, start[tile[i].expert + 1]);
        }
        CHECK(seen == n);
        float *e = floats((size_t)n * D), *s = floats((size_t)n_tok * D), *gate = floats(n_tok), *y = floats((size_t)n_tok * D);
        struct moe_sum_args ma = { ADDR(e), ADDR(entry_of), ADDR(share[1]), ADDR(s), ADDR(gate), ADDR(y), k, D };
        run(moe_sum_ref, &model_kernels.row[K_moe_sum], &ma, n_tok * ((D + MOE_SUM_SPAN - 1) / MOE_SUM_SPAN));
        for (uint32_t t = 0; t < n_tok; t++) {
            uint32_t i = rnd(D);
            double want = (double)gate[t] * (double)s[(size_t)t * D + i];
            for (uint32_t j = 0; j < k; j++)
                want += (double)w[t * k + j] * (double)e[(size_t)entry_of[t * k + j] * D + i];
            CHECK(fabs((double)y[(size_t)t * D + i] - want) < 2e-6);
        }
        free(id), free(w), free(e), free(s), free(gate), free(y);
    }
}

/* Parts and their best against one walk over the row; few levels: many ties */
static void test_argmax(void)
{
    for (int round = 0; round < 60; round++) {
        uint32_t n = 1 + rnd(round % 2 ? 3 * ARGMAX_SPAN : 200), n_row = 1 + rnd(3), stride = n + rnd(5), levels = 1 + rnd(9), nan_in = rnd(4);
        uint32_t n_part = (n + ARGMAX_SPAN - 1) / ARGMAX_SPAN;
        float *x = floats((size_t)n_row * stride);
        struct argmax_best part[12], best[3];
        for (uint32_t i = 0; i < n_row * stride; i++)
            x[i] = nan_in == 3 || rnd(8) < nan_in ? NAN : rnd(levels) ? x[i] : rnd(2) ? 1.0f : -INFINITY;
        struct argmax_part_args pa = { ADDR(x), ADDR(part), n, stride };
        run(argmax_part_ref, &gpu_kernels.row[K_argmax_part], &pa, n_row * n_part);
        run(argmax_ref, &gpu_kernels.row[K_argmax], &(struct argmax_args){ ADDR(part), ADDR(best), n_part, 0 }, n_row);
        for (uint32_t r = 0; r < n_row; r++) {
            const float *y = x + (size_t)r * stride;
            uint32_t want = ARGMAX_NONE;
            for (uint32_t i = 0; i < n; i++)
                if (!isnan(y[i]) && (want == ARGMAX_NONE || y[i] > y[want]))
                    want = i;
            CHECK(best[r].id == want && best[r].value == (want == ARGMAX_NONE ? -INFINITY : y[want]));
        }
        free(x);
    }
}

static void test_hc(void)
{
    for (int round = 0; round < 20; round++) {
        uint32_t S = 2 + rnd(4), D = 1 + rnd(300), n_tok = 1 + rnd(4);
        float *R = floats((size_t)n_tok * S * D), *gain = floats((size_t)S * D), *y = floats((size_t)n_tok * S * D);
        struct hc_norm_args a = { ADDR(R), ADDR(gain), ADDR(y), S, D, 1e-6f, 0 };
        run(hc_norm_ref, &model_kernels.row[K_hc_norm], &a, n_tok * S);
        float *want = copy_of(y, (size_t)n_tok * S * D);
        run(twin(&model_kernels, K_hc_norm), &model_kernels.row[K_hc_norm], &a, n_tok * S);
        CHECK(worst(y, want, (size_t)n_tok * S * D) < 1e-5f);
        free(R), free(gain), free(y), free(want);
    }
}

int main(void)
{
    rng = test_seed(20261130) * 2654435761u + 1;
    test_top_blocks();
    test_moe_scatter();
    test_argmax();
    for (isa = ISA_BASE; isa < ISA_COUNT; isa++) {
#if defined(HAVE_X86_ISAS)
        __builtin_cpu_init();
        if ((isa == ISA_AVX2 && !__builtin_cpu_supports("avx2")) || (isa == ISA_AVX512 && !__builtin_cpu_supports("avx512bw")))
            continue;
#endif
        test_matmul();
        test_gdn();
        test_qsa();
        test_moe();
        test_hc();
    }
    return TEST_END();
}
