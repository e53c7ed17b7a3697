/* prop_forms.c - the forms of the sparse-attention layer as rows, on the cpu (references and twins), on a Vulkan device and on the interpreter of gfx1151 code
 * objects, over sequences that grow by random steps to lengths around every block and the budget:
 *
 *   in bits       pooled keys as they come = computed again from raw keys; block top-k = a full sort of the same scores, by select and by spans;
 *                 on the cpu also union = per query = mask
 *   within 1e-5   on a device gather = mask, and so the parts of few rows; the order of sums is another one
 *
 * prop_forms [N]: N sequences on each instead of 6, 24 or, with sanitizers, 3. TEST_SEED=n repeats. */
#include "qsa/qsa.h"
#include "tests/gfx11/device.h"
#include "tests/test.h"
#include "tests/vulkan_device.h"

#include <math.h>

enum { MOST_ROWS = 13, MOST_LENGTH = 160, MEMORY = 4 << 20, MOST_CALLS = 16 };
static const double ALLOWED = 1e-5;

static struct err e;
static uint32_t below(uint32_t n) { return (uint32_t)rand() % n; }
static float uniform(void) { return 2 * ((float)rand() / (float)RAND_MAX) - 1; }

/* What one sequence has, in memory of the device */
struct sequence {
    gpu *g;
    struct gpu_cmd c;
    struct gpu_mem mem;
    size_t used;
    struct qsa_block b;
    uint32_t n_past;
    gpu_addr block, again; /* the layer block; the same with a cache of its own for what is pooled again */
    gpu_addr pooled_again, keys, step, rope, qg, k, v, iq, ik, scores, few_scores, list, few_list, count, cut, span, part, part_ml, out[4];
    double worst;
};
enum { GATHERED, MASKED, IN_PARTS, BY_UNION };

static gpu_addr take(struct sequence *s, size_t bytes)
{
    gpu_addr at = s->mem.addr + s->used;
    s->used += size_up(bytes, 256);
    CHECK(s->used <= s->mem.bytes);
    return at;
}
static gpu_addr floats(struct sequence *s, size_t n) { return take(s, n * sizeof(float)); }

static void fill(struct sequence *s, gpu_addr at, size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = uniform();
    MUST(gpu_write(s->g, at, x, n * sizeof *x, &e));
    free(x);
}
static gpu_addr filled(struct sequence *s, size_t n)
{
    gpu_addr at = floats(s, n);
    fill(s, at, n);
    return at;
}
static void *get(struct sequence *s, gpu_addr at, size_t n)
{
    void *x = malloc(n * 4);
    MUST(gpu_read(s->g, x, at, n * 4, &e));
    return x;
}

/* Pairs (cos, sin) of position p */
static void turn(const struct qsa_block *b, double p, float *out)
{
    for (uint32_t i = 0; i < b->rope_dim / 2; i++) {
        double angle = p * pow(1e4, -2.0 * i / b->rope_dim);
        out[2 * i] = (float)cos(angle), out[2 * i + 1] = (float)sin(angle);
    }
}

/* An empty sequence of random sizes in memory where nothing is a number */
static void begin(struct sequence *s)
{
    uint32_t n_kv = 1 + below(2), dim = 8 * (1 + below(8)), idx_dim = 8 * (1 + below(4)), cap = qsa_cap_blocks(MOST_LENGTH + MOST_ROWS);
    static uint8_t nothing[MEMORY];
    memset(nothing, 0xff, sizeof nothing);
    MUST(gpu_write(s->g, s->mem.addr, nothing, sizeof nothing, &e));
    s->used = s->n_past = 0;
    s->b = (struct qsa_block){ .n_kv = n_kv, .n_head = n_kv * (1 + below(6)), .dim = dim, .rope_dim = 2 * (1 + below(MIN(dim, idx_dim) / 2)), .idx_head = 1 + below(4),
                               .idx_dim = idx_dim, .budget = 1 + below(20), .cap_blocks = cap, .kv_type = below(2) ? QSA_KV_F32 : QSA_KV_F16, .eps = 1e-6f };
    struct qsa_block *b = &s->b;
    b->q_norm = filled(s, dim), b->k_norm = filled(s, dim), b->iq_norm = filled(s, idx_dim), b->ik_norm = filled(s, idx_dim);
    b->k = take(s, n_kv * cap * qsa_tile_bytes(dim, b->kv_type)), b->v = take(s, n_kv * cap * qsa_tile_bytes(dim, b->kv_type));
    b->pooled = floats(s, (size_t)cap * idx_dim), b->window = filled(s, 3 * (size_t)idx_dim);
    s->pooled_again = floats(s, (size_t)cap * idx_dim);
    s->block = take(s, sizeof *b), s->again = take(s, sizeof *b), s->keys = take(s, sizeof *b), s->step = take(s, sizeof(struct gpu_step));
    struct qsa_block again = *b;
    again.pooled = s->pooled_again;
    MUST(gpu_write(s->g, s->block, b, sizeof *b, &e));
    MUST(gpu_write(s->g, s->again, &again, sizeof again, &e));
    struct qsa_raw_keys keys = { .raw = floats(s, QSA_BLOCK * (size_t)cap * idx_dim), .turn = floats(s, (size_t)cap * b->rope_dim) };
    float *table = malloc((size_t)cap * b->rope_dim * sizeof *table);
    for (uint32_t i = 0; i < cap; i++)
        turn(b, i * QSA_BLOCK, table + (size_t)i * b->rope_dim);
    MUST(gpu_write(s->g, keys.turn, table, (size_t)cap * b->rope_dim * sizeof *table, &e));
    MUST(gpu_write(s->g, s->keys, &keys, sizeof keys, &e));
    free(table);
    size_t n = MOST_ROWS, heads = b->n_head;
    uint32_t n_part = qsa_parts(b->budget, cap);
    s->rope = floats(s, (3 + n) * b->rope_dim), s->qg = floats(s, n * 2 * heads * dim), s->k = floats(s, n * n_kv * dim), s->v = floats(s, n * n_kv * dim);
    s->iq = floats(s, n * b->idx_head * idx_dim), s->ik = floats(s, n * idx_dim);
    s->scores = floats(s, QSA_STRIP * (size_t)cap), s->few_scores = floats(s, QSA_STRIP * (size_t)cap), s->list = floats(s, n * (1 + b->budget)), s->few_list = floats(s, n * (1 + b->budget));
    s->count = floats(s, QSA_FEW * (size_t)QSA_COUNTS), s->cut = floats(s, 2 * QSA_FEW), s->span = floats(s, QSA_FEW * (size_t)QSA_SPAN_COUNTS);
    s->part = floats(s, QSA_FEW * heads * n_part * dim), s->part_ml = floats(s, QSA_FEW * heads * n_part * 2);
    for (size_t i = 0; i < COUNT_OF(s->out); i++)
        s->out[i] = floats(s, n * heads * dim);
}

/* All forms of the same step of n rows */
static void record(struct sequence *s, uint32_t n)
{
    const struct qsa_block *b = &s->b;
    struct gpu_cmd *c = &s->c;
    bool few = n <= QSA_FEW, cpu = gpu_backend_of(s->g) == GPU_CPU;
    struct qsa_raw_args raw = { .block = s->again, .step = s->step, .keys = s->keys, .ik = s->ik };
    struct qsa_attend_args attend = { .block = s->block, .step = s->step, .qg = s->qg, .list = s->list, .out = s->out[GATHERED] };
    struct qsa_span_args spans = { .block = s->block, .step = s->step, .scores = s->few_scores, .list = s->few_list, .count = s->count, .cut = s->cut, .span = s->span,
                                   .n_row = n, .n_span = 1 };
    struct qsa_part_args parts = { .block = s->block, .step = s->step, .qg = s->qg, .list = s->list, .o = s->part, .ml = s->part_ml, .out = s->out[IN_PARTS], .n_row = n,
                                   .n_part = qsa_parts(b->budget, b->cap_blocks), .part_blocks = qsa_part_blocks(b->budget) };
    gpu_cmd_reset(c);
    CALL(c, qsa_kernels, K_qsa_prep, n + n / QSA_BLOCK + 1, struct qsa_prep_args, .block = s->block, .step = s->step, .qg = s->qg, .k = s->k, .v = s->v, .iq = s->iq,
         .ik = s->ik, .count = few ? s->count : 0);
    gpu_record(c, &qsa_kernels, K_qsa_keep_raw, &raw, sizeof raw, n);
    gpu_record(c, &qsa_kernels, K_qsa_repool, &raw, sizeof raw, (uint32_t)size_up(b->cap_blocks, QSA_REPOOL_GRAIN));
    CALL(c, qsa_kernels, K_qsa_score, qsa_score_items(b->cap_blocks, n), struct qsa_score_args, .block = s->block, .step = s->step, .iq = s->iq, .scores = s->scores, .n_row = n, .span = QSA_SCORE_GROUP);
    CALL(c, qsa_kernels, K_qsa_select, n, struct qsa_select_args, .block = s->block, .step = s->step, .scores = s->scores, .list = s->list, .n_row = n);
    gpu_record(c, &qsa_kernels, K_qsa_attend, &attend, sizeof attend, n * b->n_kv);
    CALL(c, qsa_kernels, K_qsa_attend_masked, n * b->n_kv, struct qsa_masked_args, .block = s->block, .step = s->step, .qg = s->qg, .list = s->list, .out = s->out[MASKED]);
    if (cpu) {
        attend.out = s->out[BY_UNION];
        gpu_record(c, &qsa_kernels, K_qsa_attend_union, &attend, sizeof attend, (n + QSA_UNION_ROWS - 1) / QSA_UNION_ROWS * b->n_kv);
    }
    if (few) {
        CALL(c, qsa_kernels, K_qsa_score_few, qsa_score_items(b->cap_blocks, 1), struct qsa_score_args, .block = s->block, .step = s->step, .iq = s->iq, .scores = s->few_scores,
             .count = s->count, .n_row = n, .span = QSA_SCORE_GROUP);
        gpu_record(c, &qsa_kernels, K_qsa_count, &spans, sizeof spans, n);
        gpu_record(c, &qsa_kernels, K_qsa_take, &spans, sizeof spans, n);
        gpu_record(c, &qsa_kernels, K_qsa_attend_part, &parts, sizeof parts, n * b->n_kv * parts.n_part);
        gpu_record(c, &qsa_kernels, K_qsa_attend_merge, &parts, sizeof parts, n * b->n_head);
    }
}

static const float *sorted_by;
static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return sorted_by[x] > sorted_by[y] ? -1 : sorted_by[x] < sorted_by[y] ? 1 : x < y ? -1 : 1;
}
static int ascending(const void *a, const void *b) { return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1; }

/* The best of nb scores by sorting all of them; QSA_ALL where there is no choice */
static bool is_best(const float *scores, uint32_t nb, uint32_t budget, const uint32_t *list)
{
    uint32_t id[MOST_LENGTH + MOST_ROWS];
    if (nb <= budget)
        return list[0] == QSA_ALL;
    for (uint32_t i = 0; i < nb; i++)
        id[i] = i;
    sorted_by = scores;
    qsort(id, nb, sizeof *id, larger_first);
    qsort(id, budget, sizeof *id, ascending);
    return list[0] == budget && memcmp(list + 1, id, budget * sizeof *id) == 0;
}

/* Two outputs of n floats: the same bits, or within what is allowed */
static void compare(struct sequence *s, uint32_t one, uint32_t other, size_t n, bool bits)
{
    float *x = get(s, s->out[one], n), *y = get(s, s->out[other], n);
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        most = d > most || isnan(d) ? d : most;
    }
    CHECK(bits ? memcmp(x, y, n * sizeof *x) == 0 && !isnan(most) : most <= ALLOWED);
    s->worst = fmax(s->worst, isnan(most) ? INFINITY : most);
    free(x), free(y);
}

static void step(struct sequence *s, uint32_t n)
{
    const struct qsa_block *b = &s->b;
    bool cpu = gpu_backend_of(s->g) == GPU_CPU, few = n <= QSA_FEW;
    float table[(3 + MOST_ROWS) * 64];
    size_t row = 1 + b->budget, heads = (size_t)b->n_head * b->dim;
    for (uint32_t i = 0; i < 3 + n; i++)
        turn(b, (double)s->n_past + i - 3, table + (size_t)i * b->rope_dim);
    MUST(gpu_write(s->g, s->rope, table, (3 + n) * b->rope_dim * sizeof *table, &e));
    MUST(gpu_write(s->g, s->step, &(struct gpu_step){ .rope = s->rope, .n_tok = n, .pos = s->n_past }, sizeof(struct gpu_step), &e));
    fill(s, s->qg, n * 2 * heads), fill(s, s->k, (size_t)n * b->n_kv * b->dim), fill(s, s->v, (size_t)n * b->n_kv * b->dim);
    fill(s, s->iq, (size_t)n * b->idx_head * b->idx_dim), fill(s, s->ik, (size_t)n * b->idx_dim);
    record(s, n);
    MUST(gpu_submit(s->g, &s->c, &e));

    uint32_t complete = (s->n_past + n) / QSA_BLOCK;
    float *came = get(s, b->pooled, (size_t)b->cap_blocks * b->idx_dim), *again = get(s, s->pooled_again, (size_t)b->cap_blocks * b->idx_dim);
    bool numbers = true;
    for (size_t i = 0; i < (size_t)complete * b->idx_dim; i++)
        numbers = numbers && isfinite(came[i]);
    CHECK(numbers && memcmp(came, again, (size_t)b->cap_blocks * b->idx_dim * sizeof *came) == 0); /* what is not complete is in neither */

    float *scores = get(s, s->scores, (size_t)n * b->cap_blocks), *few_scores = get(s, s->few_scores, (size_t)n * b->cap_blocks);
    uint32_t *list = get(s, s->list, n * row), *few_list = get(s, s->few_list, n * row);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t nb = (s->n_past + r + 1) / QSA_BLOCK;
        CHECK(is_best(scores + (size_t)r * b->cap_blocks, nb, b->budget, list + r * row));
        CHECK(!few || is_best(few_scores + (size_t)r * b->cap_blocks, nb, b->budget, few_list + r * row));
    }
    compare(s, GATHERED, MASKED, n * heads, cpu);
    if (cpu)
        compare(s, GATHERED, BY_UNION, n * heads, true);
    if (few)
        compare(s, IN_PARTS, MASKED, n * heads, false);
    free(came), free(again), free(scores), free(few_scores), free(list), free(few_list);
    s->n_past += n;
}

/* Where a step may end: at a block, at the budget, or a key before or behind them */
static uint32_t next_end(const struct sequence *s, uint32_t most)
{
    uint32_t budget = QSA_BLOCK * s->b.budget, near_block = QSA_BLOCK * (s->n_past / QSA_BLOCK + 1 + below(3));
    uint32_t at = s->n_past < budget + 1 && s->n_past + MOST_ROWS > budget ? budget - 1 + below(3) : near_block - 1 + below(3);
    at = below(4) ? at : s->n_past + 1 + below(MOST_ROWS);
    return MIN(MIN(MAX(at, s->n_past + 1), s->n_past + MOST_ROWS), most);
}

static void sequences(gpu *g, const char *name, uint32_t n)
{
    struct sequence s = { .g = g };
    struct qsa_dims most = { .n_head = 12, .n_kv = 1, .dim = 64, .idx_head = 4, .idx_dim = 32 };
    size_t scratch = qsa_scratch_floats(&most);
    float *work = calloc(gpu_threads(g), scratch * sizeof *work);
    uint32_t n_step = 0;
    MUST(gpu_cmd_open(g, &s.c, MOST_CALLS, work, scratch, &e));
    MUST(gpu_alloc(g, &s.mem, MEMORY, GPU_MEM_DEVICE, "a sequence", &e));
    for (uint32_t i = 0; i < n; i++) {
        begin(&s);
        for (uint32_t end = MIN(QSA_BLOCK * s.b.budget * 3 / 2 + 9, (uint32_t)MOST_LENGTH); s.n_past < end; n_step++) {
            int failed = test_failed;
            uint32_t pos = s.n_past, rows = next_end(&s, end) - s.n_past;
            step(&s, rows);
            if (failed == test_failed)
                continue;
            fprintf(stderr, "%s: sequence %u, %u rows at %u, budget %u blocks, heads %u of %u, dim %u, index %u x %u, rope %u\n", name, i, rows, pos, s.b.budget, s.b.n_kv,
                    s.b.n_head, s.b.dim, s.b.idx_head, s.b.idx_dim, s.b.rope_dim);
            break;
        }
    }
    printf("prop_forms: %s, %u sequences, %u steps, mask and gather %.1e apart at most\n", name, n, n_step, s.worst);
    gpu_free(g, &s.mem);
    gpu_cmd_close(&s.c);
    free(work);
    gpu_close(g);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : test_size(3, 6, 24);
    gpu *g;
    srand((unsigned)test_seed(904));
    for (int reference = 0; reference < 2; reference++) {
        MUST(gpu_open_cpu(&g, &(struct gpu_params){ .n_threads = 2, .reference = reference }, &e));
        sequences(g, reference ? "references" : "cpu", 4 * n);
    }
    MUST(gpu_open_gfx11(&g, &(struct gfx11_options){ .races = true, .poison = 0xffffffffu }, &e));
    sequences(g, "gfx1151, interpreted", n);
    if (device_found(__FILE__, &e)) {
        g = open_device((struct gpu_params){ 0 });
        sequences(g, gpu_info_of(g)->name, n);
    } else {
        printf("%-28s no device: %s\n", __FILE__, e.msg);
    }
    return TEST_END();
}
