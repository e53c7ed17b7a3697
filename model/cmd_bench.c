/* cmd_bench.c - throughput with the labels, statistics and field names of llama-bench.
 *
 * A test is ppN (one prompt of N ids) or tgN (N decode steps), at a depth of D ids that were filled before and are not timed. The depth is filled
 * once, with ids or with random caches (--fill); every repetition starts from a mark of it. Ids are random from a seed, or those of -f: the same
 * trace in every repetition. One warm-up per test. Every step ends with the arg-max, as a greedy answer's does. Not timed: loading, tokenising, sampling.
 *
 * The lists of the command line become one list of tests; model and session are opened anew where a test needs another. */
#include "model/bench.h"
#include "model/document.h"
#include "model/option_table.h"
#include "model/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Ids evaluated before a random fill, so that the recurrent state is one */
enum { BEFORE_FILL = 64 };

/* ---- one run ---- */

/* One timed run from where the session is */
static status run_from_here(struct bench *b, const struct bench_test *t, double *seconds, struct err *e)
{
    const int32_t *ids = b->ids + t->n_depth;
    double t0 = console_now();
    if (t->n_prompt) {
        TRY(session_prefill(b->s, ids, t->n_prompt, NULL, NULL, e));
        TRY(session_flush(b->s, NULL, NULL, e));
    }
    TRY(bench_generate(b, t, ids + t->n_prompt, e));
    *seconds = console_now() - t0;
    for (uint32_t r = 0; r < t->n_parallel; r++) {
        speculate_end(&b->speculator[r]);
        TRY(session_fetch_logits(session_place(b->s, r), e));
        TRY(model_check_logits(b->m, session_logits(session_place(b->s, r)), e));
    }
    return OK;
}

/* All places to the depth: its K and V they have, the rest is in the mark */
static status go_to_mark(struct bench *b, const struct bench_test *t, struct err *e)
{
    for (uint32_t r = 0; r < t->n_parallel; r++) {
        TRY(session_return(session_place(b->s, r), b->mark, e));
        speculate_begin(&b->speculator[r], b->ids, t->n_depth + t->n_prompt);
    }
    return OK;
}

/* The same from the mark */
static status run_once(struct bench *b, const struct bench_test *t, double *seconds, struct err *e)
{
    TRY(go_to_mark(b, t, e));
    return run_from_here(b, t, seconds, e);
}

/* ---- model and session ---- */

static void leave_depth(struct bench *b)
{
    for (uint32_t r = 0; r < SESSION_SEQ_MAX; r++)
        speculate_close(&b->speculator[r]);
    session_close(b->s);
    free(b->ids);
    free(b->mark);
    b->s = NULL, b->ids = NULL, b->mark = NULL;
}

static void close_side(struct bench *b)
{
    leave_depth(b);
    ids_free(&b->text);
    model_close(b->m);
    b->m = NULL;
}

/* The ids of -f */
static status read_text(struct bench *b, struct err *e)
{
    struct text t = { 0 };
    const char *path = b->o->bench_text;
    if (!path)
        return OK;
    TRY(document_read(path, b->o->stop, &t, e));
    b->text_hash = XXH3_64bits(t.p, t.n);
    size_t bad = utf8_invalid_at(t.p, t.n);
    status s = bad < t.n ? fail(e, ERR_INPUT, "%s: not UTF-8 at byte %zu", path, bad)
                         : tokenize(model_tokenizer(b->m), t.p, t.n, TOKENIZE_TEXT, &b->text, e);
    text_free(&t);
    return s;
}

/* How the page cache stands before a load; with --cold after it was emptied of the model */
static status look_at_cache(struct bench *b, struct err *e)
{
    gguf *g;
    b->share_before = -1;
    if (!b->mine.model_path) /* built in */
        return b->o->cold ? fail(e, ERR_USAGE, "--cold: the built-in model belongs to no file; give one with -m") : OK;
    TRY(gguf_open(&g, b->mine.model_path, e));
    status s = b->o->cold ? page_cache_drop(g, e) : OK;
    b->share_before = page_cache_share(g);
    if (s == OK && b->o->cold && b->share_before >= PAGE_CACHE_COLD)
        console_note(b->o->con, "hayate: --cold: %.0f %% of %s is still in the page cache; a file system in memory, or another program uses the file",
                     100 * b->share_before, b->mine.model_path);
    gguf_close(g);
    return s;
}

static status open_side(struct bench *b, struct err *e)
{
    TRY(look_at_cache(b, e));
    double t0 = console_now();
    TRY(open_model(&b->mine, &b->m, e));
    b->load_seconds = console_now() - t0;
    const gguf *g = model_gguf(b->m);
    b->params = b->bytes = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        b->params += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        b->bytes += t->bytes;
    }
    b->identity = model_identity(b->m);
    cpu_name("", b->cpu, sizeof b->cpu);
    b->on_cpu = strcmp(model_backend(b->m), "cpu") == 0;
    b->backend = backend_label(model_backend(b->m));
    return read_text(b, e);
}

static status make_ids(struct bench *b, uint64_t seed, struct err *e)
{
    b->ids = calloc(b->n_ctx, sizeof *b->ids);
    if (!b->ids)
        return fail(e, ERR_NOMEM, "%zu ids", b->n_ctx);
    if (b->o->bench_text) {
        if (b->text.n < b->n_ctx)
            return fail(e, ERR_INPUT, "%s: %zu tokens, expected at least %zu for this test and its depth", b->o->bench_text, b->text.n, b->n_ctx);
        memcpy(b->ids, b->text.v, b->n_ctx * sizeof *b->ids);
        return OK;
    }
    uint64_t x = ((seed + 1) * 0x9E3779B97F4A7C15u) | 1; /* xorshift64: the same trace on every machine */
    for (size_t i = 0; i < b->n_ctx; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        b->ids[i] = (int32_t)((x >> 32) % model_shape(b->m)->n_vocab);
    }
    return OK;
}

/* Brings the session from a depth to that of t, then sets the mark that every run of it starts from */
static status fill_depth(struct bench *b, const struct bench_test *t, uint64_t from, struct err *e)
{
    uint64_t to = t->fill_random ? MIN(t->n_depth, (uint64_t)BEFORE_FILL) : t->n_depth;
    for (size_t at = from, step = 8192; at < to && !*b->o->stop; at += step)
        TRY(session_prefill(b->s, b->ids + at, MIN(step, to - at), NULL, NULL, e));
    if (to < t->n_depth)
        TRY(session_fill(b->s, t->n_depth, t->seed, e));
    TRY(session_mark(b->s, b->mark, e));
    for (uint32_t r = 1; r < session_n_seq(b->s); r++)
        TRY(session_copy(session_place(b->s, r), b->s, e));
    return OK;
}

/* A session of n_ctx positions with the settings of t, at its depth */
static status enter_depth(struct bench *b, const struct bench_test *t, size_t n_ctx, struct err *e)
{
    struct session_params p = t->form;
    p.n_ctx = n_ctx;
    p.n_seq = t->n_parallel;
    TRY(session_open(&b->s, b->m, &p, b->o->mem_limit, e));
    memset(b->odds, 0, sizeof b->odds);
    for (uint32_t r = 0; r < t->n_parallel; r++)
        TRY(speculate_open(&b->speculator[r], session_place(b->s, r), t->draft, e));
    session_device_memory(b->s, &b->memory);
    session_want(b->s, 1); /* greedy, as an answer is by default */
    b->n_ctx = n_ctx;
    TRY(make_ids(b, t->seed, e));
    b->mark = malloc(session_mark_bytes(b->s));
    if (!b->mark)
        return fail(e, ERR_NOMEM, "a mark of %zu bytes", session_mark_bytes(b->s));
    return fill_depth(b, t, 0, e);
}

static bool same_session(const struct bench_test *a, const struct bench_test *b)
{
    const struct session_params *p = &a->form, *q = &b->form;
    return a->n_threads == b->n_threads && a->n_parallel == b->n_parallel && a->fill_random == b->fill_random && a->seed == b->seed && a->draft == b->draft &&
           p->n_ubatch == q->n_ubatch && p->kv == q->kv &&
           p->precise == q->precise && p->no_gather == q->no_gather && p->no_union == q->no_union && p->no_pooled_cache == q->no_pooled_cache &&
           p->pooled_max_tokens == q->pooled_max_tokens && p->draft_dense == q->draft_dense && p->draft_joint == q->draft_joint;
}

/* Positions that the session of t needs: for the longest test from t on that it serves; with --sweep for all depths */
static size_t context_for(const struct bench *b, const struct bench_test *t, size_t n)
{
    uint64_t most = 1;
    for (size_t i = 0; i < n && same_session(t, &t[i]) && (b->o->sweep.n || t[i].n_depth == t->n_depth); i++)
        most = MAX(most, t[i].n_depth + t[i].n_prompt + t[i].n_gen);
    return most;
}

/* Brings model and session to where t starts. n: tests from t on. */
static status prepare(struct bench *b, const struct bench_test *t, size_t n, struct err *e)
{
    if (b->m && t->n_threads != b->now.n_threads)
        close_side(b);
    if (!b->m) {
        b->mine.n_threads = t->n_threads;
        TRY(open_side(b, e));
    }
    if (t->was)
        TRY(check_model(b, t, e));
    if (b->s && same_session(t, &b->now) && t->n_depth == b->now.n_depth && b->n_ctx >= context_for(b, t, n))
        return OK;
    if (b->s && same_session(t, &b->now) && b->o->sweep.n && t->n_depth > b->now.n_depth) { /* on from the last depth */
        TRY(session_return(b->s, b->mark, e));
        TRY(fill_depth(b, t, b->now.n_depth, e));
    } else {
        leave_depth(b);
        TRY(enter_depth(b, t, context_for(b, t, n), e));
    }
    b->now = *t;
    return OK;
}

/* ---- one test ---- */

static double rate_of(const struct bench_test *t, double seconds) { return (double)test_tokens(t) / seconds; }

static status warm_up(struct bench *b, struct result *r, struct err *e)
{
    struct bench_test warm = r->t;
    double seconds;
    warm.n_prompt = MIN(warm.n_prompt, (uint64_t)512);
    warm.n_gen = MIN(warm.n_gen, (uint64_t)8);
    if (b->o->cold) {
        TRY(page_cache_drop(model_gguf(b->m), e));
        TRY(run_once(b, &r->t, &seconds, e));
        r->cold = rate_of(&r->t, seconds);
    }
    TRY(run_once(b, &warm, &seconds, e));
    readings_begin(&r->readings);
    return OK;
}

static status timed(struct bench *b, struct result *r, struct err *e)
{
    double seconds;
    TRY(run_once(b, &r->t, &seconds, e));
    r->rate[r->n++] = rate_of(&r->t, seconds);
    r->drafts = (struct draft_stats){ 0 };
    for (uint32_t k = 0; k < r->t.n_parallel && r->t.draft != DRAFT_OFF; k++)
        drafts_add(&r->drafts, &b->speculator[k].stats);
    readings_add(&r->readings);
    return OK;
}

/* One more run of a test, under the clock */
static status profile_test(struct bench *b, const struct result *r, struct err *e)
{
    char label[64];
    double seconds;
    profile_restart(b->profile);
    TRY(go_to_mark(b, &r->t, e)); /* which chooses among the logits anew: no call of the test */
    TRY(session_profile(b->s, profile_call, b->profile, e));
    status s = run_from_here(b, &r->t, &seconds, e);
    session_profile(b->s, NULL, NULL, NULL);
    if (s != OK || !b->o->profile)
        return s;
    test_label(&r->t, label);
    b->profile->wall = seconds;
    session_gathered(b->s, &b->profile->ngram_rows, &b->profile->ngram_seconds);
    fprintf(stderr, "%s, one run\n", label);
    profile_print(b->profile, stderr, b->on_cpu);
    return OK;
}

static status run_test(struct bench *b, struct result *r, struct err *e)
{
    TRY(warm_up(b, r, e));
    while (r->n < r->t.reps && !*b->o->stop)
        TRY(timed(b, r, e));
    readings_end(&r->readings);
    return b->profile && !*b->o->stop ? profile_test(b, r, e) : OK;
}

/* Rounds of A B B A. What the switch of side B says about a profile holds while it is timed: that is how its cost is measured. */
static status run_abba(struct bench side[2], struct result r[2], struct err *e)
{
    for (int i = 0; i < 2; i++)
        TRY(warm_up(&side[i], &r[i], e));
    if (side[1].o->profile && !side[0].o->profile)
        TRY(session_profile(side[1].s, profile_call, side[1].profile, e));
    for (size_t k = 0; k < r->t.reps && !*side->o->stop; k++)
        for (int step = 0; step < 4; step++)
            TRY(timed(&side[step == 1 || step == 2], &r[step == 1 || step == 2], e));
    session_profile(side[1].s, NULL, NULL, NULL);
    for (int i = 0; i < 2; i++)
        readings_end(&r[i].readings);
    return OK;
}

/* ---- all tests ---- */

/* Every combination of the lists, in the order in which they need the fewest sessions; a count alone where list is NULL. */
static size_t list_tests(const struct options *o, struct bench_test *list)
{
    size_t n = 0;
    for (size_t t = 0; t < o->b_threads.n; t++)
        for (size_t u = 0; u < o->b_ubatch.n; u++)
            for (size_t k = 0; k < o->b_kv.n; k++)
                for (size_t d = 0; d < o->b_depth.n; d++)
                    for (size_t i = 0; i < o->b_prompt.n + o->b_gen.n; i++) {
                        bool gen = i >= o->b_prompt.n;
                        struct bench_test x = { .n_threads = (uint32_t)o->b_threads.v[t], .form = session_params_of(o, 0), .seed = o->sample.seed,
                                                .draft = o->draft, .fill_random = o->b_fill == FILL_RANDOM, .n_depth = o->b_depth.v[d], .reps = o->b_reps,
                                                .n_parallel = gen ? o->n_parallel : 1 };
                        x.form.n_ubatch = (uint32_t)o->b_ubatch.v[u];
                        x.form.kv = (enum kv_type)o->b_kv.v[k];
                        *(gen ? &x.n_gen : &x.n_prompt) = gen ? o->b_gen.v[i - o->b_prompt.n] : o->b_prompt.v[i];
                        if (x.n_prompt + x.n_gen == 0)
                            continue;
                        if (list)
                            list[n] = x;
                        n++;
                    }
    return n;
}

static status make_tests(const struct options *o, struct bench_test **tests, size_t *n, struct err *e)
{
    *n = list_tests(o, NULL);
    *tests = calloc(*n + 1, sizeof **tests);
    if (!*tests)
        return fail(e, ERR_NOMEM, "%zu tests", *n);
    list_tests(o, *tests);
    return OK;
}

struct program {
    const struct options *o;
    struct options with;         /* of side B */
    struct bench side[2];
    struct bench_test *test[2];
    size_t n;
    json_t *records;             /* --check */
    struct profile *profile;
    struct result *r;            /* [2] */
    bool any, repeated;
};

static status run_one(struct program *p, size_t i, struct err *e)
{
    int n_side = p->o->abba ? 2 : 1;
    for (int k = 0; k < n_side; k++) {
        p->r[k] = (struct result){ .t = p->test[k][i] };
        TRY(prepare(&p->side[k], &p->test[k][i], p->n - i, e));
    }
    TRY(p->o->abba ? run_abba(p->side, p->r, e) : run_test(p->side, p->r, e));
    if (*p->o->stop) /* the tests printed so far stand */
        return OK;
    if (p->o->check)
        p->repeated &= check_result(p->side, p->r);
    else
        print_result(p->side, p->r, p->o->abba ? &p->r[1] : NULL, !p->any);
    p->any = true;
    return OK;
}

static status run_program(struct program *p, struct err *e)
{
    const struct options *o = p->o;
    p->side[0] = (struct bench){ .o = o, .mine = *o, .profile = o->profile || o->trace_path ? p->profile : NULL };
    if (o->check)
        TRY(check_read(o->check, &p->side[0].mine, &p->test[0], &p->n, &p->records, e));
    else
        TRY(make_tests(o, &p->test[0], &p->n, e));
    if (o->abba) {
        size_t n;
        TRY(options_with(&p->with, o, o->abba, e));
        TRY(make_tests(&p->with, &p->test[1], &n, e));
        if (n != p->n)
            return fail(e, ERR_USAGE, "--abba %s: changes which tests there are, expected a switch for the same tests", o->abba);
        p->side[1] = (struct bench){ .o = &p->with, .mine = p->with, .profile = p->profile };
    }
    TRY(profile_open(p->profile, o->trace_path, e));
    if (!o->check)
        print_begin(p->side);
    status s = OK;
    for (size_t i = 0; i < p->n && !*o->stop && s == OK; i++)
        s = run_one(p, i, e);
    if (!o->check && s == OK && !*o->stop)
        print_end(p->side, p->any);
    status closed = profile_close(p->profile, s == OK ? e : NULL);
    return s != OK ? s : closed;
}

int cmd_bench(const struct options *o)
{
    struct err e;
    struct program *p = calloc(1, sizeof *p);
    status s = p && (p->r = calloc(2, sizeof *p->r)) && (p->profile = calloc(1, sizeof *p->profile)) ? OK : fail(&e, ERR_NOMEM, "bench");
    if (s == OK) {
        p->o = o;
        p->repeated = true;
        s = run_program(p, &e);
    }
    int code = s == OK && p->o->check && !p->repeated ? EXIT_FAILED : exit_code_of(s);
    if (s != OK && !*o->stop)
        console_error(o->con, "%s", e.msg);
    if (p) {
        for (int k = 0; k < 2; k++) {
            close_side(&p->side[k]);
            free(p->test[k]);
        }
        json_decref(p->records);
        free(p->profile);
        free(p->r);
        options_free(&p->with);
        free(p);
    }
    return *o->stop ? 128 + *o->stop : code;
}
