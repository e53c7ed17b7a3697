/* prop_forms.c - two forms of one thing give one result: attention in parts and whole, grouped experts and apart, arg-max in parts; rows of a batch and
 * the row alone, bit for bit. */
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

int main(void)
{
    rng = test_seed(20261130) * 2654435761u + 1;
    test_moe_scatter();
    test_argmax();
    for (isa = ISA_BASE; isa < ISA_COUNT; isa++) {
#if defined(HAVE_X86_ISAS)
        __builtin_cpu_init();
        if ((isa == ISA_AVX2 && !__builtin_cpu_supports("avx2")) || (isa == ISA_AVX512 && !__builtin_cpu_supports("avx512bw")))
            continue;
#endif
        test_qsa();
    }
    return TEST_END();
}
