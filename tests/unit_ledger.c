/* unit_ledger.c - the bytes and calls of a step: against a sum of its own over the tensor directory, against what a session really runs, and against
 * numbers worked out by hand. The linker brings every allocation of the program here (--wrap), so that those of a round can be counted. */
#include "gpu/gpu.h"
#include "gpu/gpu_kernels.h"
#include "model/model.h"
#include "model/model_kernels.h"
#include "qsa/qsa.h"
#include "tests/test.h"
#include "tests/vulkan_device.h"

static struct err e;

/* ---- calls of a step, as they are reported ---- */

enum { MOST = 2000 };
struct calls {
    struct session_call c[MOST];
    size_t n;
    struct gpu_moves sum;
};
static void keep(void *ctx, const struct session_call *c)
{
    struct calls *k = ctx;
    if (k->n < MOST)
        k->c[k->n] = *c;
    k->n++;
    gpu_moves_add(&k->sum, &c->moves);
}
static bool same(const struct calls *a, const struct calls *b)
{
    if (a->n != b->n || a->n > MOST)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->c[i].row, b->c[i].row) != 0 || strcmp(a->c[i].part, b->c[i].part) != 0 ||
            memcmp(&a->c[i].moves, &b->c[i].moves, sizeof a->c[i].moves) != 0) {
            fprintf(stderr, "call %zu: %s of %s, and %s of %s\n", i, a->c[i].row, a->c[i].part, b->c[i].row, b->c[i].part);
            return false;
        }
    return true;
}

static struct calls recorded, ran;

/* ---- allocations of the program ---- */

static size_t n_allocated;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n) { return n_allocated++, __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return n_allocated++, __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return n_allocated++, __real_realloc(p, n); }
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) { return n_allocated++, __real_mmap(at, n, prot, flags, fd, offset); }

static void record(session *s, bool decode, size_t pos, uint32_t n)
{
    memset(&recorded, 0, sizeof recorded);
    MUST(session_record(s, decode, pos, n, keep, &recorded, &e));
}

static model *open_model(const char *path, enum backend b, bool record_only)
{
    model *m;
    struct model_params p = { .n_threads = 2, .backend = b, .head = true, .record_only = record_only, .device = test_device() };
    MUST(model_open(&m, path, &p, &e));
    return m;
}
static session *open_session(model *m, size_t n_ctx)
{
    session *s;
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = n_ctx, .n_ubatch = 128 }, SIZE_MAX, &e));
    return s;
}

/* ---- the file's own sum ---- */

/* Matrices of the trunk are what has two dimensions and is no convolution, and the one-row gate of the shared expert. */
static void sum_of_file(const model *m, uint64_t *matrices, uint64_t *vectors)
{
    const gguf *g = model_gguf(m);
    const struct shape *s = model_shape(m);
    *matrices = *vectors = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[128], wanted[128];
        snprintf(name, sizeof name, "%.*s", STR_FMT(t->name));
        bool trunk = strncmp(name, "blk.", 4) != 0;
        for (uint32_t il = 0; il < s->n_layer && !trunk; il++) {
            snprintf(wanted, sizeof wanted, "blk.%u.", il);
            trunk = strncmp(name, wanted, strlen(wanted)) == 0;
        }
        if (!trunk || strstr(name, "ngram") || strstr(name, "per_layer"))
            continue;
        uint64_t n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        if (strcmp(name, "token_embd.weight") == 0)
            *matrices += t->row_bytes;
        else if (t->n_dims == 3)
            *matrices += t->bytes / t->dim[2] * s->n_expert_used;
        else if ((t->n_dims == 2 && !strstr(name, "conv1d")) || strstr(name, "ffn_gate_inp_shexp"))
            *matrices += t->bytes;
        else
            *vectors += 4 * n; /* kernels read vectors as f32 */
    }
}

static void check_file(const char *path)
{
    uint64_t matrices, vectors;
    model *m = open_model(path, BACKEND_CPU, true);
    session *s = open_session(m, 1024);
    sum_of_file(m, &matrices, &vectors);
    for (size_t pos = 0; pos < 1024; pos += 511) { /* weights do not depend on the depth; 3 is the first that completes a block */
        record(s, true, pos, 1);
        CHECK(recorded.n > 100 && recorded.sum.weights == matrices && recorded.sum.vectors == vectors);
        if (recorded.sum.weights != matrices || recorded.sum.vectors != vectors)
            fprintf(stderr, "%s: %llu and %llu bytes, the file has %llu and %llu\n", path, (unsigned long long)recorded.sum.weights,
                    (unsigned long long)recorded.sum.vectors, (unsigned long long)matrices, (unsigned long long)vectors);
    }
    session_close(s);
    model_close(m);
}

/* ---- what runs ---- */

/* The calls of a prompt of n ids and of a decode step, run and recorded by itself in rec */
static void check_runs(session *s, session *rec, uint32_t n)
{
    int32_t ids[128];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(7 * i + 1);
    memset(&ran, 0, sizeof ran);
    MUST(session_profile(s, keep, &ran, &e));
    MUST(session_prefill(s, ids, n, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    record(rec, false, 0, n);
    CHECK(ran.n > recorded.n); /* the head follows */
    ran.n = recorded.n;
    CHECK(same(&ran, &recorded));
    double seconds = 0;
    for (size_t i = 0; i < ran.n; i++) {
        seconds += ran.c[i].seconds;
        CHECK(ran.c[i].seconds >= 0 && !ran.c[i].decode && ran.c[i].start > 0);
    }
    CHECK(seconds > 0);
    memset(&ran, 0, sizeof ran);
    MUST(session_decode(s, 5, &e));
    record(rec, true, n, 1);
    CHECK(same(&ran, &recorded));
    CHECK(ran.n > 90 && ran.c[0].decode); /* on a device 98 with a choice (prop_best), here without */
    MUST(session_profile(s, NULL, NULL, &e));
    size_t before = ran.n;
    MUST(session_decode(s, 5, &e));
    CHECK(ran.n == before);
    CHECK(session_n_past(s) == n + 2);
}

/* ---- rounds with guesses ---- */

static session *open_guessing(model *m, size_t n_ctx)
{
    session *s;
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = n_ctx, .n_ubatch = 128, .verify = true, .head = true }, SIZE_MAX, &e));
    session_want(s, 1);
    return s;
}

static bool of_head(const struct session_call *c) { return strcmp(c->part, "draft") == 0 || strcmp(c->part, SESSION_COPY_PART) == 0; }

/* n_guess guesses of the head where there is one, and a step of n_guess + 1 rows that all come true */
static void run_round(session *s, uint32_t n_guess)
{
    int32_t ids[SESSION_VERIFY_MAX] = { 9, 8, 7, 6, 5, 4, 3, 2 };
    struct guess g;
    for (uint32_t i = 0; session_has_head(s) && i < n_guess; i++)
        MUST(session_guess(s, ids[0], i, 1, &g, &e));
    if (session_has_head(s))
        MUST(session_guess_end(s, &e));
    MUST(session_verify(s, ids, n_guess + 1, &e));
    for (uint32_t i = 1; i <= n_guess; i++)
        CHECK(session_follow(s, ids[i]));
}

/* Calls that are the same in both, in the order of `recorded`, whose step comes before the head's guesses */
static bool same_round(const struct calls *guesses, const struct calls *step)
{
    static struct calls all;
    all = *step;
    for (size_t i = 0; i < guesses->n && all.n < MOST; i++)
        all.c[all.n++] = guesses->c[i];
    return same(&all, &recorded);
}

/* The third of three rounds and what the head does behind it: run under the clock, and recorded by itself in rec */
static void check_round(session *s, session *rec, uint32_t n_guess)
{
    static struct calls step, guesses;
    int32_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = 5 * i + 2;
    MUST(session_reset(s, &e));
    MUST(session_prefill(s, ids, 100, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    run_round(s, n_guess); /* records its lists */
    run_round(s, n_guess);
    size_t pos = session_n_past(s), allocated = n_allocated;
    run_round(s, n_guess);
    CHECK(n_allocated == allocated); /* nothing in a round */
    pos = session_n_past(s);
    memset(&ran, 0, sizeof ran);
    MUST(session_profile(s, keep, &ran, &e));
    run_round(s, n_guess);
    size_t n_head = 0;
    while (n_head < ran.n && of_head(&ran.c[n_head]))
        n_head++;
    CHECK((n_head > 0) == session_has_head(s));
    memset(&step, 0, sizeof step);
    memset(&guesses, 0, sizeof guesses);
    for (size_t i = n_head; i < ran.n; i++)
        keep(&step, &ran.c[i]);
    memset(&ran, 0, sizeof ran);
    run_round(s, n_guess); /* of this one what comes before the step */
    MUST(session_profile(s, NULL, NULL, &e));
    for (size_t i = 0; i < ran.n && of_head(&ran.c[i]); i++) {
        CHECK(ran.c[i].decode && ran.c[i].seconds >= 0);
        keep(&guesses, &ran.c[i]);
    }
    memset(&recorded, 0, sizeof recorded);
    MUST(session_record_round(rec, pos, n_guess, keep, &recorded, &e));
    CHECK(same_round(&guesses, &step));
    uint64_t copied = 0;
    size_t n_copy = 0;
    for (size_t i = 0; i < recorded.n; i++)
        if (strcmp(recorded.c[i].part, SESSION_COPY_PART) == 0)
            copied += gpu_moves_bytes(&recorded.c[i].moves) / 2, n_copy++;
    CHECK(n_copy == (session_has_head(s) ? n_guess > 1 ? 3u : 1u : 0u));
    CHECK(100 * copied <= session_state_bytes(rec, pos)); /* one per cent */
}

static void check_rounds(model *m)
{
    session *s = open_guessing(m, 256), *rec = open_guessing(m, 256), *plain = open_session(m, 256);
    for (uint32_t n = 1; n < SESSION_VERIFY_MAX; n += 2)
        check_round(s, rec, n);
    /* a prompt shows its rows to the head, 64 pairs at a time; the first id has none before it */
    for (int at = 0; at < 2; at++) {
        static struct calls without;
        record(plain, false, at ? 64 : 0, 128);
        without = recorded;
        record(rec, false, at ? 64 : 0, 128);
        size_t n_more = recorded.n - without.n;
        CHECK((n_more > 0) == session_has_head(rec));
        recorded.n = without.n;
        CHECK(same(&without, &recorded));
    }
    CHECK(session_record_round(plain, 0, 1, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record_round(rec, 0, 0, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record_round(rec, 0, SESSION_VERIFY_MAX, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record_round(rec, 254, 1, keep, &recorded, &e) == ERR_USAGE && strstr(e.msg, "256"));
    session_close(s);
    session_close(rec);
    session_close(plain);
}

/* What a prompt shows to the head under the clock, and recorded */
static void check_prompt_with_head(model *m)
{
    int32_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = 5 * i + 2;
    session *s = open_guessing(m, 256), *rec = open_guessing(m, 256);
    memset(&ran, 0, sizeof ran);
    MUST(session_profile(s, keep, &ran, &e));
    MUST(session_prefill(s, ids, 64, NULL, NULL, &e));
    record(rec, false, 0, 64);
    CHECK(same(&ran, &recorded) && strcmp(ran.c[ran.n - 1].part, SESSION_COPY_PART) == 0 && !ran.c[ran.n - 1].decode);
    memset(&ran, 0, sizeof ran);
    MUST(session_prefill(s, ids + 64, 36, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    record(rec, false, 64, 36);
    CHECK(ran.n > recorded.n);
    ran.n = recorded.n; /* the head of the trunk follows */
    CHECK(same(&ran, &recorded));
    session_close(s);
    session_close(rec);
}

/* Calls of the choice among the logits: none when all are wanted, two for the best, else one per level. A prompt's end makes them too. */
static size_t n_choices(const struct calls *k)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++)
        n += strcmp(k->c[i].part, "head") == 0 && (strncmp(k->c[i].row, "argmax", 6) == 0 || strncmp(k->c[i].row, "top", 3) == 0);
    return n;
}
static void check_choice(session *s, session *rec, uint32_t want, size_t n_calls)
{
    int32_t ids[] = { 5, 6, 7 };
    MUST(session_reset(s, &e));
    MUST(session_reset(rec, &e));
    session_want(s, want);
    session_want(rec, want);
    memset(&ran, 0, sizeof ran);
    MUST(session_profile(s, keep, &ran, &e));
    MUST(session_prefill(s, ids, COUNT_OF(ids), NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    CHECK(n_choices(&ran) == n_calls);
    memset(&ran, 0, sizeof ran);
    MUST(session_decode(s, 8, &e));
    record(rec, true, COUNT_OF(ids), 1);
    CHECK(same(&ran, &recorded) && n_choices(&ran) == n_calls);
    MUST(session_profile(s, NULL, NULL, &e));
}

/* A profile changes no result */
static void check_results(const model *m, session *s, uint32_t n)
{
    int32_t ids[100];
    size_t bytes = model_shape(m)->n_vocab * sizeof(float);
    float *plain = malloc(bytes);
    for (int i = 0; i < 100; i++)
        ids[i] = 11 * i + 3;
    for (int profiled = 0; profiled < 2; profiled++) {
        memset(&ran, 0, sizeof ran);
        MUST(session_reset(s, &e));
        MUST(session_profile(s, profiled ? keep : NULL, &ran, &e));
        MUST(session_prefill(s, ids, n, NULL, NULL, &e));
        MUST(session_decode(s, 9, &e));
        if (!profiled)
            memcpy(plain, session_logits(s), bytes);
    }
    CHECK(ran.n > 0 && memcmp(plain, session_logits(s), bytes) == 0);
    MUST(session_profile(s, NULL, NULL, &e));
    free(plain);
}

static void check_refusals(session *s)
{
    CHECK(session_record(s, true, 0, 2, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record(s, false, 0, 0, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record(s, false, 0, 129, keep, &recorded, &e) == ERR_USAGE);
    CHECK(session_record(s, true, 1024, 1, keep, &recorded, &e) == ERR_USAGE && strstr(e.msg, "1024"));
}

/* ---- by hand ---- */

static struct gpu_moves moves_of(gpu_moves_fn fn, const void *args, uint32_t n_items, uint32_t pos, uint32_t n_tok)
{
    struct gpu_moves m = { 0 };
    fn(args, &(struct gpu_at){ .n_items = n_items, .pos = pos, .n_tok = n_tok }, &m);
    return m;
}

/* Two kv heads of 64, 4 query heads, f16; indexer of 4 heads of 32; 64 blocks of 4 tokens may be chosen */
static void check_attention(void)
{
    struct qsa_block b = { .n_head = 4, .n_kv = 2, .dim = 64, .rope_dim = 16, .idx_head = 4, .idx_dim = 32, .budget = 64, .cap_blocks = 4096 };
    struct qsa_attend_args a = { .block = ADDR(&b) };
    struct qsa_masked_args all = { .block = ADDR(&b) };
    struct qsa_score_args s = { .block = ADDR(&b), .n_row = 1 };
    struct qsa_prep_args p = { .block = ADDR(&b) };
    /* position 9: ten keys, no choice */
    struct gpu_moves m = moves_of(qsa_attend_moves, &a, 2, 9, 1);
    CHECK(m.state == 10 * 2 * 2 * 64 * 2 && m.flops == 4 * 10 * 4 * 64 + 3 * 10 * 4);
    CHECK(moves_of(qsa_score_moves, &s, 1, 9, 1).state == 0);
    /* position 4,097 = 1,024 blocks and two tokens of the open one: 64 blocks are chosen of 1,024 */
    m = moves_of(qsa_attend_moves, &a, 2, 4097, 1);
    CHECK(m.state == (4 * 64 + 2) * 2 * 2 * 64 * 2);
    CHECK(m.activations == 4 * (1 + 64) + 3 * 4 * 4 * 64); /* list; q, gate, result */
    m = moves_of(qsa_score_moves, &s, 1, 4097, 1);
    CHECK(m.state == 1024 * 32 * 4 && m.flops == 1024 * 4 * (2 * 32 + 2) && m.activations == 4 * (4 * 32 + 1024));
    /* a dense layer reads all */
    b.budget = 0;
    CHECK(moves_of(qsa_attend_moves, &a, 2, 4097, 1).state == 4098 * 2 * 2 * 64 * 2);
    b.budget = 64;
    /* so does a mask, whatever is chosen; from its list on it needs what the others need */
    m = moves_of(qsa_attend_masked_moves, &all, 2, 4097, 1);
    CHECK(m.state == 4098 * 2 * 2 * 64 * 2 && m.activations == 4 * (1 + 64) + 3 * 4 * 4 * 64 && m.flops == 4098 * (4 * 4 * 64 + 3 * 4));
    m = moves_of(qsa_attend_masked_moves, &all, 4, 8, 2); /* 9 and 10 keys */
    CHECK(m.state == 10 * 2 * 2 * 64 * 2 && m.flops == 19 * (4 * 4 * 64 + 3 * 4));
    /* a byte a value, and a scale per 32 of them */
    b.kv_type = QSA_KV_Q8_0;
    CHECK(moves_of(qsa_attend_union_moves, &a, 2, 9, 1).state == 10 * 2 * 2 * (64 + 2 * 2));
    b.kv_type = QSA_KV_F32;
    CHECK(moves_of(qsa_attend_moves, &a, 2, 9, 1).state == 10 * 2 * 2 * 64 * 4);
    b.kv_type = QSA_KV_F16;
    /* six rows at 4,096 .. 4,101 in two groups: 64 of 1,024 or 1,025 blocks each, and 1, 2, 3, 0, 1, 2 tokens of the open one */
    struct qsa_group_args g = { .block = ADDR(&b) };
    m = moves_of(qsa_group_moves, &g, 2, 4096, 6);
    CHECK(m.activations == 4 * (6 * 64 + (1 + 64) + (1 + 65)) && m.state == 0);
    m = moves_of(qsa_attend_group_moves, &g, 4, 4096, 6);
    CHECK(m.state == (6 * 256 + 9) * 2 * 2 * 64 * 2 && m.flops == (6 * 256 + 9) * (4 * 4 * 64 + 3 * 4));
    CHECK(m.activations == 4 * (65 + 66 + 3 * 6 * 4 * 64));
    /* raw keys of two rows are kept; all five blocks of 22 positions are pooled from four each, turned by a table of 16 numbers for each */
    struct qsa_raw_args r = { .block = ADDR(&b) };
    CHECK(moves_of(qsa_keep_raw_moves, &r, 2, 20, 2).state == 2 * 32 * 4);
    m = moves_of(qsa_repool_moves, &r, 4096, 20, 2);
    CHECK(m.state == 5 * 5 * 32 * 4 && m.vectors == 32 * 4 && m.activations == 5 * 16 * 4 && m.flops == 5 * (32 * 10 + 3 * 8));
    /* many rows read a position at most once */
    CHECK(moves_of(qsa_attend_moves, &a, 256, 4096, 128).state == (4096 + 128) * 2 * 2 * 64 * 2);
    /* K and V of a row, and a block is pooled when its fourth token comes */
    uint64_t kv = 2 * 2 * 64 * 2;
    CHECK(moves_of(qsa_prep_moves, &p, 2, 6, 1).state == kv + 6 * 32 * 4);
    CHECK(moves_of(qsa_prep_moves, &p, 2, 7, 1).state == kv + 7 * 32 * 4);
    CHECK(moves_of(qsa_prep_moves, &p, 12, 7, 9).state == 9 * kv + (6 + 3) * 32 * 4); /* 7, 8-11, 12-15 */
    /* a strip of 32 rows at 100 .. 131 against 25 to 33 blocks, budget 30: only rows that see more than 30 are scored */
    b.budget = 30;
    s.row0 = 0, s.n_row = 32;
    m = moves_of(qsa_score_moves, &s, 1, 100, 32);
    CHECK(m.state == 33 * 32 * 4); /* rows 23 to 26 see 31, 27 to 30 see 32, 31 sees 33 */
    CHECK(m.activations == 4 * (9 * 4 * 32 + 4 * 31 + 4 * 32 + 33));
}

/* A row of 10,000 in three spans, 20 of each; then these 60 in one */
static void check_top(void)
{
    struct top_args a = { .n = 10000, .stride = 10000, .k = 20 };
    struct gpu_moves m = moves_of(top_part_moves, &a, 3, 0, 1);
    CHECK(m.activations == 10000 * 4 + 60 * 8 && m.flops == 10000);
    a.n = a.stride = 60;
    m = moves_of(top_moves, &a, 1, 0, 1);
    CHECK(m.activations == 60 * 8 + 20 * 8 && m.flops == 60);
    CHECK(moves_of(top_moves, &a, 2, 0, 2).activations == 2 * (60 * 8 + 20 * 8));
}

/* A router of 128 experts and the shared gate, in one launch with the routing: what the two rows that it replaces move and compute */
static void check_moe_in(void)
{
    struct moe_block b = { .n_expert = 128, .n_used = 10 };
    struct matmul_job job[2] = { { .w = { .n_in = 64, .n_out = 128, .row_bytes = 256 } }, { .w = { .n_in = 64, .n_out = 32, .row_bytes = 68 } } };
    struct moe_in_args a = { .products = { .job = ADDR(job), .n_job = 2, .n_tok = 1, .tok_group = 1 }, .route = { .block = ADDR(&b) } };
    struct gpu_moves m = moves_of(moe_in_moves, &a, 160, 0, 1);
    CHECK(m.weights == 128 * 256 + 32 * 68 && m.flops == 2 * 64 * (128 + 32) + 128 + 3 * 10);
    CHECK(m.activations == 4 * (64 + 128 + 32) + 4 * (128 + 2 * 10) && m.state == 0 && m.vectors == 0);
}

static bool records(const char *row)
{
    for (size_t i = 0; i < recorded.n; i++)
        if (strcmp(recorded.c[i].row, row) == 0)
            return true;
    return false;
}

/* Prompts on matrix units read unions of blocks, unless the caches are f32 or each row is asked to read its own; generated tokens never do. */
static void check_unions(model *m)
{
    static const struct session_params p[] = { { 0 }, { .no_union = true }, { .precise = true }, { .kv = KV_F32 } };
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        struct session_params q = p[i];
        session *s;
        q.n_ctx = 1024, q.n_ubatch = 128;
        MUST(session_open(&s, m, &q, SIZE_MAX, &e));
        record(s, false, 512, 128);
        CHECK(records("qsa_group") == (i == 0) && records("qsa_attend_group") == (i == 0) && records("qsa_attend") == (i > 0));
        record(s, false, 512, 8);
        CHECK(!records("qsa_attend_group") && records("qsa_attend_part"));
        record(s, true, 512, 1);
        CHECK(!records("qsa_attend_group") && records("qsa_attend_part"));
        session_close(s);
    }
}

/* What is recorded without the device is what the device is sent */
static void check_device(void)
{
    if (!device_found(__FILE__, &e)) {
        printf("%-28s no device: %s\n", __FILE__, e.msg);
        return;
    }
    model *real = open_model("tests/models/tiny-man.gguf", BACKEND_VULKAN, false), *like = open_model("tests/models/tiny-man.gguf", BACKEND_VULKAN, true);
    session *s = open_session(real, 1024), *rec = open_session(like, 1024);
    check_runs(s, rec, 8); /* slow in software */
    check_results(real, s, 3);
    check_choice(s, rec, 1, 2);
    session_close(s);
    session_close(rec);
    s = open_guessing(real, 256);
    rec = open_guessing(like, 256);
    check_round(s, rec, 1);
    session_close(s);
    session_close(rec);
    model_close(real);
    model_close(like);
}

int main(void)
{
    check_attention();
    check_top();
    check_moe_in();
    check_file("tests/models/tiny-man.gguf");
    check_file("build/models/tiny-zoo.gguf");
    check_file("build/models/tiny-lowbit.gguf");

    model *m = open_model("tests/models/tiny-man.gguf", BACKEND_CPU, false);
    session *s = open_session(m, 1024), *rec = open_session(m, 1024);
    check_runs(s, rec, 128);
    check_results(m, s, 100);
    check_choice(s, rec, 1, 2);
    check_choice(s, rec, 20, model_shape(m)->n_vocab > TOP_SPAN ? 2 : 1);
    check_choice(s, rec, 0, 0);
    check_refusals(s);
    session_close(s);
    session_close(rec);
    check_rounds(m);
    check_prompt_with_head(m);
    model_close(m);

    model *imagined = open_model("tests/models/tiny-man.gguf", BACKEND_AUTO, true);
    s = open_session(imagined, 1024);
    record(s, false, 0, 128);
    bool matrix = false;
    for (size_t i = 0; i < recorded.n; i++)
        matrix |= strncmp(recorded.c[i].row, "moe_gemm_up", 11) == 0;
    CHECK(matrix);
    session_close(s);
    check_unions(imagined);
    model_close(imagined);

    if (test_size(0, 1, 1)) /* in software a step takes long, and what it computes no sanitizer sees */
        check_device();
    return TEST_END();
}
