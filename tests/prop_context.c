/* prop_context.c - the forms of the sparse-attention layer on the demo model, for every type of K/V cache, at lengths around blocks and the budget:
 *
 *   in bits: gather = mask over the whole cache, union of eight rows = each row alone, pooled keys kept = computed again from raw ones; each
 *            for every row of a prompt, for generated tokens, and after a state was saved and loaded
 *
 *   within 5e-4: a device = the cpu in float32, at such lengths; on a device pooled keys kept = computed again, in bits, and gather = mask within 1e-5 of
 *   the largest logit, both after a state was saved and loaded
 *
 * and that each form is really what runs; random caches of a seed; how far q8_0 may be from what was stored.
 *
 * Most of it is on a copy of the model with a budget of 16 blocks instead of 64: choices are the same work at a quarter of the length; on a device 8. */
#include "gpu/quant.h"
#include "model/model.h"
#include "qsa/qsa.h"
#include "tests/test.h"
#include "tests/testdir.h"
#include "tests/vulkan_device.h"

#include <math.h>
#include <xxhash.h>

#define MODEL "tests/models/tiny-man.gguf"
enum { MOST = 500, N_GEN = 6, SMALL_BUDGET = 64, DEVICE_BUDGET = 32 };

static struct err e;

static model *m;
static uint32_t V;
static int32_t ids[MOST + N_GEN];

static session *open_session(struct session_params p)
{
    session *s;
    MUST(session_open(&s, m, &p, 0, &e));
    return s;
}

/* Others for every length, or what a cache still holds of the prompt before would be right for this one too */
static void other_ids(void)
{
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        ids[i] = rand() % 17 ? rand() % (int)V : model_shape(m)->ple_eos;
}

/* A copy of the model where queries choose as many tokens as said here */
static void write_with_budget(const char *path, uint32_t budget)
{
    static const char key[] = "qwen4exp.attention.indexer.top_k";
    FILE *f = fopen(MODEL, "rb"), *to = fopen(path, "wb");
    static char bytes[32 << 20];
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0, at = 0;
    while (at + sizeof key + 8 < n && memcmp(bytes + at, key, sizeof key - 1) != 0)
        at++;
    at += sizeof key - 1 + 4; /* the number lies behind its type */
    CHECK(to && n < sizeof bytes && at + 4 < n && memcmp(bytes + at, &(uint32_t){ 256 }, 4) == 0);
    memcpy(bytes + at, &budget, 4);
    CHECK(to && fwrite(bytes, 1, n, to) == n && fclose(to) == 0);
    if (f)
        fclose(f);
}

/* ---- forms ---- */

static const struct form {
    const char *name;
    struct session_params p;
    const char *prefill_row, *decode_row; /* what shows that the form runs; NULL: nothing in that phase */
} forms[] = {
    { "default", { 0 }, "qsa_attend_union", "qsa_attend" },
    { "--no-gather", { .no_gather = true }, "qsa_attend_masked", "qsa_attend_masked" },
    { "--no-union", { .no_union = true }, "qsa_attend", "qsa_attend" },
    { "--no-pooled-cache", { .no_pooled_cache = true }, "qsa_repool", "qsa_repool" },
    { "--pooled-max-tokens 32", { .pooled_max_tokens = 32 }, "qsa_repool", "qsa_keep_raw" },
    { "all", { .no_gather = true, .no_union = true, .no_pooled_cache = true }, "qsa_repool", "qsa_attend_masked" },
};

/* Hash of the logits of every row, which is all that is compared */
struct trace {
    uint64_t row[MOST + N_GEN];
};
static uint64_t hash(const float *x) { return XXH3_64bits(x, V * sizeof *x); }
static status keep_rows(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *er)
{
    (void)er;
    for (size_t r = 0; r < n_rows; r++)
        ((struct trace *)ctx)->row[pos + r] = hash(logits + r * V);
    return OK;
}

struct bytes {
    uint8_t *p;
    size_t n, at;
};
static status put(void *ctx, const void *p, size_t n, struct err *er)
{
    struct bytes *b = ctx;
    (void)er;
    b->p = realloc(b->p, b->n + n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return OK;
}
static status get(void *ctx, void *p, size_t n, struct err *er)
{
    struct bytes *b = ctx;
    if (n > b->n - b->at)
        return fail(er, ERR_IO, "no more");
    memcpy(p, b->p + b->at, n);
    b->at += n;
    return OK;
}

/* The state goes through bytes, and whatever was there is something else in between */
static void save_and_load(session *s, uint32_t n)
{
    struct bytes b = { 0 };
    MUST(session_save(s, put, &b, &e));
    MUST(session_reset(s, &e));
    MUST(session_prefill(s, ids + 3, MIN(n, MOST - 3u), NULL, NULL, &e));
    MUST(session_load(s, n, get, &b, &e));
    CHECK(b.at == b.n);
    free(b.p);
}

static session_rows_fn each_row; /* keep_rows: every row of a prompt is compared; NULL: the last one, which is far cheaper */

/* A prompt of n ids, then N_GEN more one by one; with `saved` set the state goes through bytes in between */
static void run(session *s, uint32_t n, bool saved, struct trace *t)
{
    MUST(session_reset(s, &e));
    memset(t, 0, sizeof *t);
    MUST(session_prefill(s, ids, n, each_row, t, &e));
    MUST(session_flush(s, each_row, t, &e));
    t->row[n - 1] = hash(session_logits(s));
    if (saved)
        save_and_load(s, n);
    for (uint32_t i = 0; i < N_GEN; i++) {
        MUST(session_decode(s, ids[n + i], &e));
        t->row[n + i] = hash(session_logits(s));
    }
}

struct seen {
    const char *row;
    bool found;
};
static void look(void *ctx, const struct session_call *c)
{
    struct seen *s = ctx;
    s->found |= strcmp(c->row, s->row) == 0;
}
/* Whether the row is among the calls of a prefill step of 128 rows, or of a decode step */
static bool runs(session *s, bool decode, const char *row)
{
    struct seen x = { .row = row };
    MUST(session_record(s, decode, 128, decode ? 1 : 128, look, &x, &e));
    return x.found;
}

/* every: one in so many lengths */
static void check_forms(enum kv_type kv, bool precise, size_t every)
{
    static struct trace want, found;
    uint32_t budget = model_shape(m)->idx_budget, n_block = budget / 4, n_more = MIN(budget, MOST - budget) / 4;
    uint32_t length[] = { budget + 1, 3, 4 * (n_block + 1 + (uint32_t)rand() % n_more) - 1, budget - 1, budget, 65, budget + 2, 4 * (n_block + 1 + (uint32_t)rand() % n_more),
                          budget + 3, budget + 4, 4 * (n_block + (uint32_t)rand() % n_more) + 1, budget + (uint32_t)rand() % (4 * n_more) };
    session *s[COUNT_OF(forms)];
    each_row = kv == KV_F16 ? keep_rows : NULL;
    for (size_t f = 0; f < COUNT_OF(forms); f++) {
        struct session_params p = forms[f].p;
        p.n_ctx = MOST + N_GEN, p.kv = kv, p.precise = precise, p.n_ubatch = f % 2 ? 128 : 256;
        s[f] = open_session(p);
    }
    for (size_t i = 0; i < COUNT_OF(length); i += every) {
        uint32_t n = length[i];
        other_ids();
        run(s[0], n, false, &want);
        for (size_t f = 0; f < COUNT_OF(forms); f++) {
            run(s[f], n, f != 1, &found);
            bool same = memcmp(want.row, found.row, (n + N_GEN) * sizeof want.row[0]) == 0;
            CHECK(same);
            if (!same)
                fprintf(stderr, "%s, kv %d, %u ids\n", forms[f].name, (int)kv, n);
        }
    }
    for (size_t f = 0; f < COUNT_OF(forms); f++) {
        CHECK(runs(s[f], false, forms[f].prefill_row) && runs(s[f], true, forms[f].decode_row));
        CHECK(runs(s[f], true, "qsa_repool") == forms[f].p.no_pooled_cache);
        CHECK(runs(s[f], false, "qsa_attend_union") == !(forms[f].p.no_union || forms[f].p.no_gather));
        session_close(s[f]);
    }
}

/* Raw keys are in the state, and are what pooled keys come from: others there, other choices */
static void check_raw(void)
{
    struct bytes b = { 0 }, c = { 0 };
    session *s = open_session((struct session_params){ .n_ctx = MOST + N_GEN, .no_pooled_cache = true }), *t = open_session((struct session_params){ .n_ctx = MOST + N_GEN });
    MUST(session_prefill(s, ids, MOST, NULL, NULL, &e));
    MUST(session_save(s, put, &b, &e));
    MUST(session_prefill(t, ids, MOST, NULL, NULL, &e));
    MUST(session_save(t, put, &c, &e));
    uint32_t n_layer = 0;
    for (uint32_t il = 0; il < model_shape(m)->n_layer; il++)
        n_layer += model_shape(m)->is_qsa[il] && model_shape(m)->ratio[il];
    size_t raw = (size_t)MOST * model_shape(m)->idx_dim * sizeof(float);
    CHECK(b.n - c.n == n_layer * raw);
    MUST(session_decode(s, 5, &e));
    uint64_t good = hash(session_logits(s));
    for (size_t i = b.n - raw; i + sizeof(float) <= b.n; i += 2 * sizeof(float)) /* the last piece: raw keys of the last layer */
        memset(b.p + i, 0, sizeof(float));
    MUST(session_load(s, MOST, get, &b, &e));
    MUST(session_decode(s, 5, &e));
    CHECK(hash(session_logits(s)) != good);
    free(b.p), free(c.p);
    session_close(s), session_close(t);
}

/* ---- a device ---- */

/* Logits after a prompt of n ids, and after two more */
static void logits_of(session *s, uint32_t n, bool saved, float *out)
{
    MUST(session_reset(s, &e));
    MUST(session_prefill(s, ids, n, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    if (saved)
        save_and_load(s, n);
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(out + i * V, session_logits(s), V * sizeof *out);
        if (i < 2)
            MUST(session_decode(s, ids[n + i], &e));
    }
}

static double largest_difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

/* The forms that a device has rows of its own for. Pooled keys that are computed again have the same bits; the mask sums in another order. */
static const struct device_form {
    const char *name;
    struct session_params p;
    bool same;                           /* bits */
    const char *prefill_row, *decode_row;
} device_forms[] = {
    { "--no-gather", { .no_gather = true }, false, "qsa_attend_masked", "qsa_attend_masked" },
    { "--no-pooled-cache", { .no_pooled_cache = true }, true, "qsa_repool", "qsa_repool" },
    { "--pooled-max-tokens 32", { .pooled_max_tokens = 32 }, true, "qsa_repool", "qsa_keep_raw" },
};

static session *open_device_form(const struct device_form *f, struct session_params p)
{
    p.no_gather = f->p.no_gather, p.no_pooled_cache = f->p.no_pooled_cache, p.pooled_max_tokens = f->p.pooled_max_tokens;
    session *s = open_session(p);
    CHECK(runs(s, false, f->prefill_row) && runs(s, true, f->decode_row));
    CHECK(runs(s, true, "qsa_repool") == f->p.no_pooled_cache && runs(s, true, "qsa_attend_part") == !f->p.no_gather);
    return s;
}

/* `want`: logits of the device without the form. Returns how far apart they are. */
static double check_device_form(const struct device_form *f, session *s, uint32_t n, const float *want, float *found)
{
    const double allowed = 1e-5; /* of the largest logit */
    double most = 0, d;
    logits_of(s, n, true, found);
    for (size_t i = 0; i < 3 * (size_t)V; i++)
        most = fmax(most, fabs((double)want[i]));
    d = largest_difference(want, found, 3 * (size_t)V);
    bool good = f->same ? memcmp(want, found, 3 * (size_t)V * sizeof *want) == 0 : d <= allowed * most;
    CHECK(good);
    if (!good)
        fprintf(stderr, "%s, %u ids: off by %g, largest logit %g\n", f->name, n, d, most);
    return d;
}

/* In float32 a device computes what the cpu does but for the order of sums, whatever the length; cuts among block scores are the same, or the difference
 * were a thousand times as large. n lengths: blocks and the budget, just before, at and behind them, then any. The forms: all, or one after the other. */
static void check_device(const char *path, uint32_t n, bool all_forms)
{
    const double allowed = 5e-4; /* as for golden values on a device */
    uint32_t budget = model_shape(m)->idx_budget;
    const uint32_t blocks = budget / 4 + 1 + (uint32_t)rand() % (budget / 8);
    const uint32_t around[] = { budget - 1, budget + 1, 4 * blocks - 1, budget, budget + 4, 4 * blocks + 1, budget + 3, 5 };
    struct session_params p = { .n_ctx = MOST + N_GEN, .n_ubatch = 256, .precise = true };
    double most = 0, most_of_form = 0;
    if (n == 0)
        return;
    if (!device_found(__FILE__, &e)) {
        printf("%-28s no device: %s\n", __FILE__, e.msg);
        return;
    }
    model *cpu = m, *device;
    MUST(model_open(&device, path, &(struct model_params){ .n_threads = 2, .backend = BACKEND_VULKAN, .device = test_device() }, &e));
    float *want = calloc(3 * (size_t)V, sizeof *want), *found = calloc(3 * (size_t)V, sizeof *found), *other = calloc(3 * (size_t)V, sizeof *other);
    session *s = open_session(p), *t, *form[COUNT_OF(device_forms)];
    m = device;
    t = open_session(p);
    for (size_t f = 0; f < COUNT_OF(form); f++)
        form[f] = open_device_form(&device_forms[f], p);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = i < COUNT_OF(around) ? around[i] : 1 + (uint32_t)rand() % MOST;
        other_ids();
        logits_of(s, length, false, want);
        logits_of(t, length, false, found);
        double d = largest_difference(want, found, 3 * (size_t)V);
        CHECK(d <= allowed);
        if (!(d <= allowed))
            fprintf(stderr, "%u ids: off by %g, allowed %g\n", length, d, allowed);
        most = d > most ? d : most;
        for (uint32_t f = 0; f < COUNT_OF(form); f++)
            if (all_forms || (i + 1) % COUNT_OF(form) == f) { /* the mask where there is something to choose */
                d = check_device_form(&device_forms[f], form[f], length, found, other);
                most_of_form = d > most_of_form ? d : most_of_form;
            }
    }
    printf("prop_context: %u lengths on %s, largest difference %.2g, of a form %.2g\n", n, model_device(device), most, most_of_form);
    for (size_t f = 0; f < COUNT_OF(form); f++)
        session_close(form[f]);
    session_close(s), session_close(t);
    free(want), free(found), free(other);
    m = cpu;
    model_close(device);
}

/* ---- random caches ---- */

static uint64_t filled(struct session_params p, uint64_t seed, size_t depth)
{
    session *s = open_session(p);
    MUST(session_prefill(s, ids, 64, NULL, NULL, &e));
    MUST(session_fill(s, depth, seed, &e));
    CHECK(session_n_past(s) == depth);
    CHECK(session_fill(s, depth - 1, seed, &e) == ERR_USAGE && session_fill(s, p.n_ctx + 1, seed, &e) == ERR_USAGE);
    MUST(session_decode(s, 5, &e));
    MUST(model_check_logits(m, session_logits(s), &e));
    MUST(session_prefill(s, ids, 40, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    uint64_t h = hash(session_logits(s));
    MUST(model_check_logits(m, session_logits(s), &e));
    session_close(s);
    return h;
}

/* Nothing of what a later token reads stays zero */
static void check_filled_whole(void)
{
    size_t depth = 1021, zeros = 0, n_head = 0;
    session *s = open_session((struct session_params){ .n_ctx = 2000 });
    struct bytes b = { 0 };
    MUST(session_prefill(s, ids, 64, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    n_head = session_state_bytes(s, 0);
    MUST(session_fill(s, depth, 1, &e));
    MUST(session_save(s, put, &b, &e));
    for (size_t i = n_head; i + 4 <= b.n; i += 4)
        zeros += memcmp(b.p + i, "\0\0\0\0", 4) == 0;
    CHECK(b.n > n_head + depth * 4 && zeros == 0);
    free(b.p);
    session_close(s);
}

static void check_fill(void)
{
    static const enum kv_type kv[] = { KV_F16, KV_F32, KV_Q8_0 };
    for (size_t i = 0; i < COUNT_OF(kv); i++) {
        struct session_params p = { .n_ctx = 3000, .kv = kv[i] }, larger = { .n_ctx = 5001, .kv = kv[i] }, raw = { .n_ctx = 3000, .kv = kv[i], .no_pooled_cache = true };
        uint64_t h = filled(p, 7, 2500);
        CHECK(filled(p, 7, 2500) == h && filled(larger, 7, 2500) == h);
        CHECK(filled(p, 8, 2500) != h && filled(p, 7, 2499) != h);
        CHECK(filled(raw, 7, 2500) == filled(raw, 7, 2500));
    }
    check_filled_whole();
}

/* ---- q8_0 ---- */

/* Rounded to the nearest of 255 steps of its group: half a step off, and what rounding the scale to binary16 adds to the largest */
static void check_q8(void)
{
    enum { HEADS = 2, CAP = 3 };
    static const uint32_t dims[] = { 8, 32, 40, 64, 256 };
    for (size_t i = 0; i < COUNT_OF(dims); i++) {
        uint32_t dim = dims[i], n_tok = 7;
        size_t tile = qsa_tile_bytes(dim, QSA_KV_Q8_0), groups = (dim + 31) / 32;
        float *x = calloc((size_t)n_tok * HEADS * dim, sizeof *x), *qg = calloc((size_t)n_tok * HEADS * 2 * dim, sizeof *qg), rope[40] = { 0 }, *gain = calloc(dim, sizeof *gain);
        uint8_t *k = calloc(HEADS * CAP, tile), *v = calloc(HEADS * CAP, tile);
        struct qsa_block b = { .q_norm = ADDR(gain), .k_norm = ADDR(gain), .k = ADDR(k), .v = ADDR(v), .n_head = HEADS, .n_kv = HEADS, .dim = dim, .rope_dim = 2,
                               .cap_blocks = CAP, .kv_type = QSA_KV_Q8_0, .eps = 1e-6f };
        struct gpu_step step = { .n_tok = n_tok, .rope = ADDR(rope) };
        CHECK(tile == 4 * dim + 8 * groups);
        for (uint32_t j = 0; j < n_tok * HEADS * dim; j++)
            x[j] = ((float)rand() / (float)RAND_MAX - 0.5f) * (float)(1 + j / 32 % 5);
        float *keys = calloc((size_t)n_tok * HEADS * dim, sizeof *keys);
        struct qsa_prep_args a = { .block = ADDR(&b), .step = ADDR(&step), .qg = ADDR(qg), .k = ADDR(keys), .v = ADDR(x) };
        qsa_prep_ref(&a, 0, n_tok, NULL);
        for (uint32_t t = 0; t < n_tok; t++)
            for (uint32_t j = 0; j < HEADS; j++)
                for (uint32_t d = 0; d < dim; d++) {
                    const uint8_t *at = v + (j * CAP + t / 4) * tile;
                    const float *row = x + ((size_t)t * HEADS + j) * dim;
                    float most = 0;
                    uint16_t scale;
                    for (uint32_t k2 = d / 32 * 32; k2 < MIN(dim, d / 32 * 32 + 32); k2++)
                        most = MAX(most, fabsf(row[k2]));
                    memcpy(&scale, at + 4 * dim + 8 * (d / 32) + 2 * (t % 4), 2);
                    float got = (float)(int8_t)at[d * 4 + t % 4] * f16_to_f32(scale);
                    CHECK(fabsf(got - row[d]) <= most / 254 + most * 0x1p-11f);
                }
        x[3] = NAN; /* a value that is no number must not become one */
        qsa_prep_ref(&a, 0, 1, NULL);
        uint16_t scale;
        memcpy(&scale, v + 4 * dim, 2);
        CHECK(isnan(f16_to_f32(scale)));
        free(x), free(qg), free(gain), free(k), free(v), free(keys);
    }
}

/* prop_context [N]: N lengths on a device instead of 3, 20 or, with sanitizers, which do not see what it computes, none */
int main(int argc, char **argv)
{
    char small[256];
    uint32_t n_device = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : test_size(0, 3, 20);
    srand((unsigned)test_seed(1130));
    MUST(model_open(&m, MODEL, &(struct model_params){ .n_threads = 2, .backend = BACKEND_CPU }, &e));
    V = model_shape(m)->n_vocab;
    other_ids();
    check_q8();
    check_fill();
    check_raw();
    check_forms(KV_F16, false, test_size(12, 3, 1));
    if (test_size(0, 0, 1)) {
        check_forms(KV_Q8_0, false, 1);
        check_forms(KV_F32, true, 1);
        check_device(MODEL, 2, true);
    }
    model_close(m);

    if (!make_dir("context"))
        return 1;
    snprintf(small, sizeof small, "%s", in_dir("small.gguf"));
    write_with_budget(small, SMALL_BUDGET);
    MUST(model_open(&m, small, &(struct model_params){ .n_threads = 2, .backend = BACKEND_CPU }, &e));
    CHECK(model_shape(m)->idx_budget == SMALL_BUDGET);
    check_forms(KV_F16, false, test_size(4, 1, 1));
    check_forms(KV_Q8_0, false, test_size(6, 1, 1));
    check_forms(KV_F32, true, test_size(12, 1, 1));
    model_close(m);
    if (test_size(1, 1, 0)) /* in software a token of a prompt takes a tenth of a second */
        write_with_budget(small, DEVICE_BUDGET);
    MUST(model_open(&m, small, &(struct model_params){ .n_threads = 2, .backend = BACKEND_CPU }, &e));
    CHECK(model_shape(m)->idx_budget == test_size(DEVICE_BUDGET, DEVICE_BUDGET, SMALL_BUDGET));
    check_device(small, n_device, argc > 1 || test_size(0, 0, 1));
    model_close(m);
    remove_dir();
    return TEST_END();
}
