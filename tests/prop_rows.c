/* prop_rows.c - every vectorised twin against the plain C reference of its row, on the cases that selftest runs, for every instruction set this machine
 * has; rows of a batch against the row alone, bit for bit; identities of the mathematics (chunked = stepwise, block top-k = full sort); and whether the
 * comparison itself finds what is wrong. */
#include "gdn/gdn.h"
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"
#include "model/row_check.h"
#include "qsa/qsa.h"
#include "tests/test.h"

#include <math.h>

static uint64_t seed;
static struct row_case small; /* for random numbers outside of cases */
static uint32_t rnd(uint32_t n) { return case_rnd(&small, n); }
static void *copy_of(const void *x, size_t bytes) { return memcpy(malloc(bytes + 1), x, bytes); }
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

static float scratch_mem[CASE_SCRATCH];
static struct cpu_scratch scratch = { .f = scratch_mem, .n = CASE_SCRATCH };
static enum cpu_isa isa; /* the set under test */
static gpu_row_fn twin(const struct gpu_kernel_table *t, uint32_t id)
{
    gpu_row_fn f = t->fast[isa][id];
    CHECK(f != NULL);
    return f;
}

/* For tests with memory of their own: random values, then NaN (nothing may read beyond n); and all items in blocks of the row's grain */
static float *floats(size_t n)
{
    float *p = malloc((n + 16) * sizeof *p);
    for (size_t i = 0; i < n + 16; i++)
        p[i] = i < n ? case_uniform(&small) : NAN;
    return p;
}
static void run(gpu_row_fn fn, const struct gpu_kernel *k, const void *args, uint32_t n_items)
{
    for (uint32_t i = 0; i < n_items; i += k->grain)
        fn(args, i, MIN((uint32_t)k->grain, n_items - i), &scratch);
}

/* The same in several blocks at once */
static void run_together(gpu_row_fn fn, const struct gpu_kernel *k, const void *args, uint32_t n_items, uint32_t blocks)
{
    uint32_t n = k->grain * blocks;
    for (uint32_t i = 0; i < n_items; i += n)
        fn(args, i, MIN(n, n_items - i), &scratch);
}

/* Buffer `name` of a case, and how many floats it has */
static float *buf(const struct row_case *c, const char *name) { return (float *)(void *)(c->image + case_buf(c, name)->at); }
static size_t n_of(const struct row_case *c, const char *name) { return case_buf(c, name)->bytes / sizeof(float); }
static void *copy_buf(const struct row_case *c, const char *name) { return copy_of(buf(c, name), case_buf(c, name)->bytes); }
static void put_back(const struct row_case *c, const char *name, const void *x) { memcpy(buf(c, name), x, case_buf(c, name)->bytes); }
static bool same(const struct row_case *c, const char *name, const void *x) { return memcmp(buf(c, name), x, case_buf(c, name)->bytes) == 0; }

/* Of a number of rounds the sixth part with sanitizers, but not less than twelve: sizes repeat after six */
static uint32_t rounds_of(uint32_t usual) { return test_size(usual <= 72 ? MIN(usual, 12u) : usual / 6, usual, 10 * usual); }

/* ---- twins ---- */

enum { GPU, GDN, QSA, MODEL };
/* Rows that must have a twin, and how far it may be off in absolute terms, whatever the case allows */
static const struct {
    uint32_t module, id, rounds;
    double largest;
    enum cpu_isa least; /* the smallest set that has the twin */
} twins[] = {
    { GPU, K_matmul, 60, INFINITY, ISA_BASE }, /* checked per case, below */
    { GDN, K_gdn_conv, 42, 1e-6, ISA_BASE },      { GDN, K_gdn_step, 42, 1e-4, ISA_BASE },     { GDN, K_gdn_chunk, 42, 1e-4, ISA_BASE },  { QSA, K_qsa_score, 42, 1e-4, ISA_BASE },
    { QSA, K_qsa_attend, 42, 1e-5, ISA_BASE },    { MODEL, K_moe_gate_up, 42, 1e-3, ISA_BASE }, { MODEL, K_moe_down, 42, 1e-3, ISA_BASE }, { MODEL, K_hc_norm, 42, 1e-5, ISA_BASE },
    { MODEL, K_hc_mean, 42, 1e-5, ISA_BASE },     { MODEL, K_ple_conv, 42, 1e-4, ISA_BASE },
    { GPU, K_quantise, 42, 0, ISA_AVX2 }, /* the same integers */
    { GPU, K_matmul_int, 66, 2e-3, ISA_AVX2 },
    { MODEL, K_moe_gate_up_int, 42, 1e-3, ISA_AVX2 }, { MODEL, K_moe_down_int, 42, 1e-3, ISA_AVX2 },
};

static void say(const char *id, const struct row_result *r)
{
    if (!row_passed(r))
        fprintf(stderr, "%s: %s\n", id, r->no_cases ? "no cases" : r->first);
}

static void test_twins(struct row_check *k)
{
    struct err e;
    for (size_t i = 0; i < COUNT_OF(twins); i++) {
        const struct row_module *m = &row_modules[twins[i].module];
        struct row_result r = { 0 };
        if (isa < twins[i].least)
            continue;
        CHECK(twin(m->table, twins[i].id));
        for (uint32_t round = 0; round < rounds_of(twins[i].rounds); round++) {
            double before = r.largest;
            r.largest = 0;
            CHECK(row_check_case(k, m, twins[i].id, round, seed, &r, &e) == OK);
            if (twins[i].module == GPU && twins[i].id == K_matmul) { /* n_in terms of at most 4, each rounded to 2^-24 */
                const struct matmul_job *job = (const void *)buf(&k->c, "jobs");
                CHECK(r.largest <= 4e-7 * (double)job->w.n_in);
            }
            r.largest = fmax(r.largest, before);
        }
        say(m->table->row[twins[i].id].id, &r);
        CHECK(row_passed(&r) && r.values > 0 && r.shapes > rounds_of(twins[i].rounds));
        CHECK(r.largest <= twins[i].largest);
    }
}

/* Every row has cases, and the backend gives what its reference gives: other rows run as they are */
static void test_all_rows(struct row_check *k)
{
    struct err e;
    for (int m = 0; m < ROW_MODULES; m++)
        for (uint32_t id = 0; id < row_modules[m].table->n; id++) {
            struct row_result r;
            CHECK(row_check_run(k, &row_modules[m], id, 12, seed + 1, &r, &e) == OK);
            say(row_modules[m].table->row[id].id, &r);
            CHECK(row_passed(&r) && r.values > 0);
        }
}

/* ---- rows alone, cuts, chunks ---- */

/* A row of a product is summed exactly as alone */
static void test_matmul_alone(struct row_case *c)
{
    const struct gpu_kernel *k = &gpu_kernels.row[K_matmul];
    for (uint32_t round = 0; round < rounds_of(60); round++) {
        CHECK(case_build(c, &row_modules[GPU], K_matmul, round, seed));
        struct matmul_args a = *(struct matmul_args *)(void *)c->args;
        struct matmul_job one = *AT(struct matmul_job, a.job);
        uint32_t n_tok = a.n_tok, n_out = one.w.n_out;
        float *alone = malloc((n_out + 16) * sizeof *alone);
        case_run(c, twin(&gpu_kernels, K_matmul), &scratch);
        for (uint32_t t = 0; t < n_tok; t++) {
            one.y = ADDR(alone);
            struct matmul_args b = { .x = a.x + (uint64_t)t * a.x_stride * 4, .job = ADDR(&one), .x_stride = a.x_stride, .n_job = 1, .n_tok = 1 };
            run(twin(&gpu_kernels, K_matmul), k, &b, (uint32_t)size_up(n_out, MATMUL_GRAIN));
            CHECK(memcmp(alone, buf(c, "y0") + (size_t)t * n_out, n_out * sizeof *alone) == 0);
        }
        free(alone);
    }
}

/* The same for integer rows: one token, whatever the tile, the strip or the cut; and whatever the instruction set */
static void test_matmul_int_alone(struct row_case *c)
{
    const struct gpu_kernel *k = &gpu_kernels.row[K_matmul_int];
    for (uint32_t round = 0; isa >= ISA_AVX2 && round < rounds_of(44); round++) {
        CHECK(case_build(c, &row_modules[GPU], K_matmul_int, round, seed));
        struct matmul_int_args a = *(struct matmul_int_args *)(void *)c->args;
        struct matmul_job one = *AT(struct matmul_job, a.m.job);
        uint32_t n_tok = a.m.n_tok, n_out = one.w.n_out;
        float *alone = malloc((n_out + 16) * sizeof *alone);
        case_run(c, gpu_kernels.fast[ISA_AVX2][K_matmul_int], &scratch);
        float *other = copy_buf(c, "y0");
        case_run(c, twin(&gpu_kernels, K_matmul_int), &scratch);
        CHECK(same(c, "y0", other));
        free(other);
        one.y = ADDR(alone);
        for (uint32_t t = 0; t < n_tok; t++) {
            struct matmul_int_args b = { .m = { .job = ADDR(&one), .n_job = 1, .n_tok = 1 }, .rows = a.rows + t * int_row_bytes(one.w.n_in) };
            run(twin(&gpu_kernels, K_matmul_int), k, &b, (uint32_t)size_up(n_out, MATMUL_GRAIN));
            CHECK(memcmp(alone, buf(c, "y0") + (size_t)t * n_out, n_out * sizeof *alone) == 0);
            memset(alone, 0xff, n_out * sizeof *alone);
            run_together(twin(&gpu_kernels, K_matmul_int), k, &b, (uint32_t)size_up(n_out, MATMUL_GRAIN), 3);
            CHECK(memcmp(alone, buf(c, "y0") + (size_t)t * n_out, n_out * sizeof *alone) == 0);
        }
        free(alone);
    }
}

/* The experts' rows have the same bits when a thread takes several blocks at once */
static void test_moe_int_together(struct row_case *c)
{
    const struct { uint32_t id; const char *out; } rows[] = { { K_moe_gate_up_int, "h" }, { K_moe_down_int, "y" } };
    for (uint32_t round = 0; isa >= ISA_AVX2 && round < rounds_of(42); round++)
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            const struct gpu_kernel *k = &model_kernels.row[rows[i].id];
            gpu_row_fn fn = twin(&model_kernels, rows[i].id);
            CHECK(case_build(c, &row_modules[MODEL], rows[i].id, round, seed));
            case_run(c, fn, &scratch);
            float *want = copy_buf(c, rows[i].out);
            const struct moe_block *b = AT(const struct moe_block, *(const gpu_addr *)(const void *)c->args);
            uint32_t within = (uint32_t)size_up(i ? b->n_embd : b->ff, MOE_GRAIN) / MOE_GRAIN;
            memset(buf(c, rows[i].out), 0xff, case_buf(c, rows[i].out)->bytes);
            run_together(fn, k, c->args, c->n_items, i ? 3 : within);
            CHECK(same(c, rows[i].out, want));
            free(want);
        }
}

/* A sequence in two cuts: the window carries over, same bits */
static void test_conv_cuts(struct row_case *c)
{
    for (uint32_t round = 0; round < rounds_of(42); round++) {
        CHECK(case_build(c, &row_modules[GDN], K_gdn_conv, round, seed));
        struct gdn_conv_args *a = (struct gdn_conv_args *)(void *)c->args, whole;
        a->stay = 0;
        whole = *a;
        if (whole.n_tok < 2 || whole.runs)
            continue;
        float *window = copy_buf(c, "window");
        case_run(c, twin(&gdn_kernels, K_gdn_conv), &scratch);
        float *want = copy_buf(c, "out"), *want_window = copy_buf(c, "window");
        put_back(c, "window", window);
        uint32_t cut = 1 + case_rnd(c, whole.n_tok - 1), width = c->n_items;
        a->n_tok = cut;
        case_run(c, twin(&gdn_kernels, K_gdn_conv), &scratch);
        *a = whole;
        a->raw += (uint64_t)cut * width * 4, a->out += (uint64_t)cut * width * 4, a->n_tok -= cut;
        case_run(c, twin(&gdn_kernels, K_gdn_conv), &scratch);
        CHECK(same(c, "out", want));
        CHECK(same(c, "window", want_window));
        free(window), free(want), free(want_window);
    }
}

/* Token by token and in chunks, reference and twin: all four the same mathematics */
static void test_gdn_forms(struct row_case *c)
{
    for (uint32_t round = 0; round < rounds_of(24); round++) {
        CHECK(case_build(c, &row_modules[GDN], K_gdn_step, round, seed));
        if (((const struct gdn_mix_args *)(const void *)c->args)->apart) /* no chunk has rows of several sequences */
            continue;
        float *state = copy_buf(c, "state"), *out[4], *st[4];
        for (int v = 0; v < 4; v++) {
            uint32_t id = v < 2 ? K_gdn_step : K_gdn_chunk;
            put_back(c, "state", state);
            case_run(c, v & 1 ? twin(&gdn_kernels, id) : gdn_kernels.row[id].ref, &scratch);
            out[v] = copy_buf(c, "out");
            st[v] = copy_buf(c, "state");
        }
        for (int v = 1; v < 4; v++) {
            CHECK(worst(out[v], out[0], n_of(c, "out")) < 1e-4f);
            CHECK(worst(st[v], st[0], n_of(c, "state")) < 1e-4f);
        }
        for (int v = 0; v < 4; v++)
            free(out[v]), free(st[v]);
        free(state);
    }
}

/* The list in parts, merged, is the whole; and a row in a batch has the bits it has alone. */
static void parts_of(const struct qsa_block *b, const struct qsa_attend_args *aa, const float *want, uint32_t n_tok)
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
static void test_attend_parts(struct row_case *c)
{
    for (uint32_t round = 0; round < rounds_of(42); round++) {
        CHECK(case_build(c, &row_modules[QSA], K_qsa_attend, round, seed));
        case_run(c, qsa_attend_ref, &scratch);
        const struct qsa_attend_args *a = (const void *)c->args;
        parts_of(AT(const struct qsa_block, a->block), a, buf(c, "out"), AT(const struct gpu_step, a->step)->n_tok);
    }
}

/* A row of scores has the same bits whether its strip is scored together or each row alone. */
static void test_score_alone(struct row_case *c)
{
    for (uint32_t round = 0; round < rounds_of(42); round++) {
        CHECK(case_build(c, &row_modules[QSA], K_qsa_score, round, seed));
        const struct qsa_score_args *a = (const void *)c->args;
        uint32_t cap = AT(const struct qsa_block, a->block)->cap_blocks;
        float *alone = copy_buf(c, "scores");
        case_run(c, twin(&qsa_kernels, K_qsa_score), &scratch);
        for (uint32_t t = 0; t < a->n_row; t++) {
            struct qsa_score_args one = *a;
            one.row0 += t, one.n_row = 1, one.scores = ADDR(alone + (size_t)t * cap);
            run(twin(&qsa_kernels, K_qsa_score), &qsa_kernels.row[K_qsa_score], &one, qsa_score_items(cap, 1));
        }
        CHECK(same(c, "scores", alone));
        free(alone);
    }
}

/* ---- choices ---- */

static int by_score(const void *a, const void *b)
{
    const float *x = *(const float *const *)a, *y = *(const float *const *)b;
    return *x > *y ? -1 : *x < *y ? 1 : x < y ? -1 : 1;
}
static int by_index(const void *a, const void *b) { return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b); }

static void test_top_blocks(void)
{
    for (uint32_t round = 0; round < rounds_of(300); round++) {
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

/* Ids ascending, nobody outside better, or equal and lower; the weights add up to 1 */
static void test_route(struct row_case *c)
{
    for (uint32_t round = 0; round < rounds_of(42); round++) {
        CHECK(case_build(c, &row_modules[MODEL], K_moe_route, round, seed));
        case_run(c, moe_route_ref, &scratch);
        const struct moe_route_args *a = (const struct moe_route_args *)(const void *)c->args;
        uint32_t E = AT(const struct moe_block, a->block)->n_expert, k = AT(const struct moe_block, a->block)->n_used;
        for (uint32_t t = 0; t < c->n_items; t++) {
            const uint32_t *id = AT(const uint32_t, a->id) + t * k;
            const float *logit = AT(const float, a->logits) + t * E;
            float sum = 0;
            for (uint32_t i = 0; i < k; i++) {
                sum += AT(const float, a->weight)[t * k + i];
                CHECK(i == 0 || id[i] > id[i - 1]);
                for (uint32_t e = 0; e < E; e++) {
                    bool in = false;
                    for (uint32_t q = 0; q < k; q++)
                        in |= id[q] == e;
                    float mine = logit[id[i]], other = logit[e];
                    CHECK(in || other < mine || (other == mine && e > id[i]));
                }
            }
            CHECK(fabsf(sum - 1) < 1e-6f);
        }
    }
}

/* Counting and scattering give the entries of moe_group; entry_of leads back; tiles cover every entry once, experts ascending. */
static void test_moe_scatter(void)
{
    static const uint32_t tile_sizes[] = { 1, 7, 16, 32, 64, 128 };
    for (uint32_t round = 0; round < rounds_of(60); round++) {
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

/* Spans, and spans of spans, against taking the largest k times from the whole row */
static void test_top(void)
{
    for (uint32_t round = 0; round < rounds_of(40); round++) {
        uint32_t n = 1 + rnd(round % 2 ? 9 * TOP_SPAN : 300), k = 1 + rnd(round % 4 == 3 ? TOP_MAX : 30), levels = 1 + rnd(200), n_part = n, n_best = 0, got = 0;
        float *x = floats(n);
        struct argmax_best *list = NULL;
        for (uint32_t i = 0; i < n; i++)
            x[i] = rnd(50) == 0 ? NAN : rnd(50) == 0 ? -INFINITY : rnd(5000) == 0 ? INFINITY : rnd(3) ? x[i] : (float)rnd(levels) / (float)levels;
        do { /* the first time the row itself */
            uint32_t spans = (n_part + TOP_SPAN - 1) / TOP_SPAN;
            struct argmax_best *next = malloc((size_t)spans * k * sizeof *next);
            struct top_args a = { .from = list ? ADDR(list) : ADDR(x), .to = ADDR(next), .n = n_part, .stride = n_part, .k = k };
            run(list ? top_ref : top_part_ref, &gpu_kernels.row[list ? K_top : K_top_part], &a, spans);
            free(list);
            list = next;
            n_part = spans * k;
        } while (n_part > k);
        for (; got < k && list[got].id != ARGMAX_NONE; got++)
            CHECK(list[got].id < n && (got == 0 || list[got].id > list[got - 1].id) && list[got].value == x[list[got].id]);
        for (uint32_t i = got; i < k; i++)
            CHECK(list[i].id == ARGMAX_NONE && list[i].value == -INFINITY);
        for (; n_best < k; n_best++) {
            uint32_t best = ARGMAX_NONE, at = 0;
            for (uint32_t i = 0; i < n; i++)
                if (x[i] > -INFINITY && (best == ARGMAX_NONE || x[i] > x[best]))
                    best = i;
            if (best == ARGMAX_NONE)
                break;
            while (at < got && list[at].id != best)
                at++;
            CHECK(at < got);
            x[best] = NAN;
        }
        CHECK(n_best == got);
        free(x), free(list);
    }
}

/* Parts and their best against one walk over the row; few levels: many ties */
static void test_argmax(void)
{
    for (uint32_t round = 0; round < rounds_of(60); round++) {
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

/* ---- the comparison itself ---- */

/* hc_norm with one mistake each; the last item of a case makes it */
static int mistake;
static void wrong_norm(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *s)
{
    const struct hc_norm_args *a = args;
    float *x = AT(float, a->residual), *y = AT(float, a->out) + (size_t)first * a->n_embd, *last = y + a->n_embd - 1, keep = *last;
    hc_norm_ref(args, first, n, s);
    switch (mistake) {
    case 1: *last = keep; break;                                                                 /* an element left out */
    case 2: *last *= 1 + 1e-3f; break;                                                           /* not exact enough */
    case 3: last[1] = 0; break;                                                                  /* written too far, at the end */
    case 4: x[0] = x[0] + 1; break;                                                              /* an input changed */
    case 5: *last += 0 * AT(const float, a->gain)[(size_t)a->n_stream * a->n_embd]; break;       /* read too far */
    default: break;
    }
}

/* matvec for two rows: with more than one row in the call the last bit of a value is another one, far inside of what the case allows */
static void unequal_matvec(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *s)
{
    const struct matmul_args *a = args;
    matvec_ref(args, first, n, s);
    if (first == 0 && a->n_tok > 1)
        AT(uint32_t, AT(const struct matmul_job, a->job)->y)[0] ^= 1;
}

static void test_unequal_rows(struct row_check *k)
{
    gpu_row_fn fast[GPU_K_COUNT] = { 0 };
    const struct gpu_kernel_table table = { gpu_kernels.row, { fast, fast, fast }, GPU_K_COUNT };
    const struct row_module m = { "unequal", &table, gpu_cases };
    for (int wrong = 0; wrong < 2; wrong++) {
        struct row_result r;
        struct err e;
        fast[K_matvec_NONE_r2] = wrong ? unequal_matvec : NULL;
        CHECK(row_check_run(k, &m, K_matvec_NONE_r2, ALONE_ROUNDS, seed, &r, &e) == OK);
        CHECK(row_passed(&r) != wrong && (strstr(r.first, "other bits") != NULL) == wrong);
    }
}

static void test_mistakes(struct row_check *k)
{
    gpu_row_fn fast[MODEL_K_COUNT] = { [K_hc_norm] = wrong_norm };
    const struct gpu_kernel_table table = { model_kernels.row, { fast, fast, fast }, MODEL_K_COUNT };
    const struct row_module m = { "wrong", &table, model_cases };
    for (mistake = 0; mistake <= 5; mistake++) {
        struct row_result r;
        struct err e;
        CHECK(row_check_run(k, &m, K_hc_norm, 12, seed, &r, &e) == OK);
        CHECK(row_passed(&r) == (mistake == 0));
        CHECK((r.ratio > 1) == (mistake != 0));
    }
    static const struct row_cases nothing[] = { { 0 } };
    const struct row_module bare = { "bare", &model_kernels, nothing };
    struct row_result r;
    struct err e;
    CHECK(row_check_run(k, &bare, K_hc_norm, 12, seed, &r, &e) == OK && r.no_cases && !row_passed(&r));
}

int main(void)
{
    struct row_case c;
    struct err e;
    seed = test_seed(20261130);
    small.rng = seed * 2654435761u + 1;
    test_top_blocks();
    test_moe_scatter();
    test_argmax();
    test_top();
    CHECK(case_open(&c, &e) == OK);
    test_route(&c);
    for (isa = ISA_BASE; isa < ISA_COUNT; isa++) {
        struct row_check k;
        gpu *g = NULL;
        if (gpu_open_cpu(&g, &(struct gpu_params){ .n_threads = 2, .isa = 1 + isa }, &e) != OK) {
            CHECK(isa != ISA_BASE);
            continue;
        }
        CHECK(row_check_open(&k, g, &e) == OK);
        test_twins(&k);
        test_matmul_alone(&c);
        test_matmul_int_alone(&c);
        test_moe_int_together(&c);
        test_conv_cuts(&c);
        test_gdn_forms(&c);
        test_score_alone(&c);
        test_attend_parts(&c);
        if (isa == ISA_BASE) {
            test_all_rows(&k);
            test_mistakes(&k);
            test_unequal_rows(&k);
        }
        row_check_close(&k);
        gpu_close(g);
    }
    case_close(&c);
    return TEST_END();
}
