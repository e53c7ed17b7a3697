/* prop_session.c - the invariants of a session on the demo model: bits within a phase, tolerance between phases.
 *
 *   in bits: any cut of a prompt into calls, any ubatch, any number of threads, after a reset, after mark and return, after a state
 *            was saved and loaded into another session, PLE16 = joined
 *   within 2e-4 per logit: prefill = decode = any mixture; fast rows = plain C references */
#include "model/model.h"
#include "tests/test.h"
#include "tests/testdir.h"

#include <math.h>

#define MODEL "tests/models/tiny-man.gguf"
enum { N = 331 }; /* beyond the budget of 256 tokens, no multiple of anything */

static struct err e;

static int32_t ids[N];
static uint32_t V;

static model *open_model(const char *path, uint32_t threads, bool reference)
{
    model *m;
    MUST(model_open(&m, path, &(struct model_params){ .n_threads = threads, .reference = reference, .backend = BACKEND_CPU }, &e));
    return m;
}
static session *open_session(model *m, uint32_t ubatch, bool precise)
{
    session *s;
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = N + 40, .n_ubatch = ubatch, .precise = precise }, 0, &e));
    return s;
}
/* prompt ids from..to in random cuts (cut = 0: one call), segment ended */
static void feed(session *s, uint32_t from, uint32_t to, uint32_t cut)
{
    while (from < to) {
        uint32_t n = cut ? 1 + (uint32_t)rand() % cut : to - from;
        n = n < to - from ? n : to - from;
        MUST(session_prefill(s, ids + from, n, NULL, NULL, &e));
        from += n;
    }
    MUST(session_flush(s, NULL, NULL, &e));
}
static float *logits(const session *s)
{
    float *p = malloc(V * sizeof *p);
    memcpy(p, session_logits(s), V * sizeof *p);
    return p;
}
static bool same(const float *a, const float *b) { return memcmp(a, b, V * sizeof *a) == 0; }
static float worst(const float *a, const float *b)
{
    float w = 0;
    for (uint32_t i = 0; i < V; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= w))
            w = isnan(d) ? INFINITY : d;
    }
    return w;
}

static status gather_rows(void *ctx, size_t pos, size_t n_rows, const float *rows, struct err *er)
{
    (void)er;
    memcpy((float *)ctx + pos * V, rows, n_rows * V * sizeof(float));
    return OK;
}

/* A state in memory */
struct saved {
    uint8_t p[1 << 20];
    size_t n, at;
    size_t fails_at; /* no byte beyond comes */
};
static status save_piece(void *ctx, const void *p, size_t n, struct err *er)
{
    struct saved *v = ctx;
    if (n > sizeof v->p - v->n)
        return fail(er, ERR_NOMEM, "more than %zu bytes", sizeof v->p);
    memcpy(v->p + v->n, p, n);
    v->n += n;
    return OK;
}
static status load_piece(void *ctx, void *p, size_t n, struct err *er)
{
    struct saved *v = ctx;
    if (n > MIN(v->n, v->fails_at) - v->at)
        return fail(er, ERR_IO, "no more");
    memcpy(p, v->p + v->at, n);
    v->at += n;
    return OK;
}

static void put(FILE *f, const void *p, size_t n)
{
    if (fwrite(p, 1, n, f) != n)
        exit(1);
}
static void put_u64(FILE *f, uint64_t x) { put(f, &x, 8); }
static void put_u32(FILE *f, uint32_t x) { put(f, &x, 4); }

/* The demo model with its 16 head tables laid end to end as one tensor: the published form */
static void write_joined(const char *path)
{
    gguf *g;
    MUST(gguf_open(&g, MODEL, &e));
    FILE *f = fopen(path, "wb");
    if (!f)
        exit(1);
    size_t n_t = 0, off = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        n_t += strncmp(gguf_tensor_at(g, i)->name.p, "ple_ngram_embd.", 15) != 0;
    put(f, "GGUF", 4), put_u32(f, 3), put_u64(f, n_t + 1), put_u64(f, gguf_n_kv(g));
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        put_u64(f, kv->key.n), put(f, kv->key.p, kv->key.n), put_u32(f, kv->type);
        if (kv->type == GGUF_ARR)
            put_u32(f, kv->elem_type), put_u64(f, kv->n);
        put(f, kv->data, kv->data_bytes);
    }
    const struct gguf_tensor *head[16], *order[4096];
    size_t n_order = 0, rows = 0, joined_bytes = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (strncmp(t->name.p, "ple_ngram_embd.", 15) == 0)
            head[atoi(t->name.p + 15)] = t, rows += t->dim[1], joined_bytes += t->bytes;
        else
            order[n_order++] = t;
    }
    for (size_t i = 0; i <= n_order; i++) {
        bool joined = i == n_order;
        const struct gguf_tensor *t = joined ? head[0] : order[i];
        struct str name = joined ? STR("per_layer_token_embd.weight") : t->name;
        put_u64(f, name.n), put(f, name.p, name.n), put_u32(f, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            put_u64(f, joined && d == 1 ? rows : t->dim[d]);
        put_u32(f, t->type->id), put_u64(f, off);
        off += size_up(joined ? joined_bytes : t->bytes, 32);
    }
    static const char zero[32];
    put(f, zero, (size_t)(-ftell(f) & 31));
    for (size_t i = 0; i < n_order; i++)
        put(f, order[i]->data, order[i]->bytes), put(f, zero, -order[i]->bytes & 31);
    for (int h = 0; h < 16; h++)
        put(f, head[h]->data, head[h]->bytes);
    put(f, zero, -joined_bytes & 31);
    fclose(f);
    gguf_close(g);
}

int main(void)
{
    srand((unsigned)test_seed(1130));
    model *m = open_model(MODEL, 2, false);
    V = model_shape(m)->n_vocab;
    for (int i = 0; i < N; i++) /* random ids with some end-of-text among them */
        ids[i] = rand() % 17 ? rand() % (int)V : model_shape(m)->ple_eos;

    session *s = open_session(m, 0, true);
    float *all = malloc((size_t)N * V * sizeof *all);
    MUST(session_prefill(s, ids, N, gather_rows, all, &e));
    MUST(session_flush(s, gather_rows, all, &e));
    float *want = logits(s);
    CHECK(same(all + (size_t)(N - 1) * V, want)); /* all-row head = last-row head */
    CHECK(session_n_past(s) == N);

    const int n_round = (int)test_size(2, 4, 40);
    for (int round = 0; round < n_round; round++) { /* any cut of the prompt */
        CHECK(session_reset(s, NULL) == OK);
        feed(s, 0, N, round ? 1 + (uint32_t)rand() % 150 : 1); /* the first time id by id */
        CHECK(same(session_logits(s), want));
    }
    static const uint32_t ubatch[] = { 1, 64, 128, 192, 1024 };
    for (size_t i = 0; i < COUNT_OF(ubatch); i++) {
        session *t = open_session(m, ubatch[i], true);
        feed(t, 0, N, i & 1 ? 90 : 0);
        CHECK(same(session_logits(t), want));
        session_close(t);
    }
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        model *other = open_model(MODEL, threads, false);
        session *t = open_session(other, 0, true);
        feed(t, 0, N - 2, 0);
        MUST(session_decode(t, ids[N - 2], &e));
        MUST(session_decode(t, ids[N - 1], &e));
        float *two = logits(t);
        CHECK(session_reset(s, NULL) == OK);
        feed(s, 0, N - 2, 0);
        MUST(session_decode(s, ids[N - 2], &e));
        MUST(session_decode(s, ids[N - 1], &e));
        CHECK(same(session_logits(s), two));
        free(two);
        session_close(t);
        model_close(other);
    }

    /* prefill = decode = any mixture, at every position */
    CHECK(session_reset(s, NULL) == OK);
    for (uint32_t i = 0; i < N; i++) {
        MUST(session_decode(s, ids[i], &e));
        CHECK(worst(session_logits(s), all + (size_t)i * V) < 2e-4f);
    }
    for (int round = 0; round < n_round; round++) {
        CHECK(session_reset(s, NULL) == OK);
        for (uint32_t at = 0; at < N;) {
            uint32_t n = 1 + (uint32_t)rand() % 100;
            n = n < N - at ? n : N - at;
            if (rand() % 2)
                feed(s, at, at + n, 0); /* a segment of its own */
            else
                for (uint32_t i = at; i < at + n; i++)
                    MUST(session_decode(s, ids[i], &e));
            at += n;
            CHECK(worst(session_logits(s), all + (size_t)(at - 1) * V) < 2e-4f);
        }
    }

    /* mark, go elsewhere, return = never happened */
    void *mark = malloc(session_mark_bytes(s));
    static const uint32_t at[] = { 259, 64, 3, 63, 1, 65, 4, 2, 200 };
    const size_t n_at = test_size(2, 4, COUNT_OF(at));
    for (size_t i = 0; i < n_at; i++) {
        CHECK(session_reset(s, NULL) == OK);
        feed(s, 0, at[i], 0);
        float *here = logits(s);
        feed(s, at[i], N, 0);
        MUST(session_decode(s, 5, &e));
        float *there = logits(s);
        CHECK(session_reset(s, NULL) == OK);
        feed(s, 0, at[i], 0);
        MUST(session_mark(s, mark, &e));
        for (int32_t k = 0; k < 7; k++)
            MUST(session_decode(s, 100 + k, &e));
        CHECK(session_return(s, mark, NULL) == OK);
        CHECK(session_n_past(s) == at[i] && same(session_logits(s), here));
        feed(s, at[i], N, 50);
        MUST(session_decode(s, 5, &e));
        CHECK(same(session_logits(s), there));
        free(here), free(there);
    }

    /* saved, and loaded into sessions of another context, which have been elsewhere = never happened */
    struct saved *state = calloc(1, sizeof *state);
    for (size_t i = 0; i < n_at; i++) {
        bool precise = i & 1;
        uint32_t n = at[i];
        session *from = open_session(m, 0, precise), *to;
        feed(from, 0, n, 0);
        state->n = state->at = 0;
        MUST(session_save(from, save_piece, state, &e));
        CHECK(state->n == session_state_bytes(from, n));
        float *here = logits(from);
        feed(from, n, N, 0);
        MUST(session_decode(from, 5, &e));
        for (int round = 0; round < 2; round++) {
            struct session_params p = { .n_ctx = N + 1 + 700 * (size_t)round, .n_ubatch = round ? 64 : 0, .precise = precise };
            MUST(session_open(&to, m, &p, 0, &e));
            feed(to, round ? 3 : 7, N, 0);
            state->at = 0, state->fails_at = SIZE_MAX;
            MUST(session_load(to, n, load_piece, state, &e));
            CHECK(state->at == state->n && session_n_past(to) == n && same(session_logits(to), here));
            void *there = malloc(session_mark_bytes(to));
            MUST(session_mark(to, there, &e));
            for (int again = 0; again < 2; again++) { /* the second time from a mark */
                feed(to, n, N, 50);
                MUST(session_decode(to, 5, &e));
                CHECK(same(session_logits(to), session_logits(from)));
                CHECK(session_return(to, there, NULL) == OK);
            }
            free(there);
            state->at = 0, state->fails_at = (size_t)rand() % state->n;
            CHECK(session_load(to, n, load_piece, state, &e) == ERR_IO && session_n_past(to) == 0);
            feed(to, 0, n, 0); /* what was half loaded leaves no trace */
            feed(to, n, N, 0);
            MUST(session_decode(to, 5, &e));
            CHECK(same(session_logits(to), session_logits(from)));
            session_close(to);
        }
        MUST(session_open(&to, m, &(struct session_params){ .n_ctx = MAX(1u, n - 1), .precise = precise }, 0, &e));
        CHECK(n == 1 || session_load(to, n, load_piece, state, &e) == ERR_USAGE);
        CHECK(session_load(to, 0, load_piece, state, &e) == ERR_USAGE);
        session_close(to);
        session_close(from);
        free(here);
    }
    free(state);

    /* the plain C references of every row give the same model */
    model *ref = open_model(MODEL, 2, true);
    session *t = open_session(ref, 0, true);
    feed(t, 0, N, 0);
    CHECK(worst(session_logits(t), want) < 2e-4f);
    MUST(session_decode(t, 5, &e));
    CHECK(session_reset(s, NULL) == OK);
    feed(s, 0, N, 0);
    MUST(session_decode(s, 5, &e));
    CHECK(worst(session_logits(t), session_logits(s)) < 2e-4f);
    session_close(t);
    model_close(ref);

    /* PLE16 = joined, bit for bit */
    char joined[256];
    CHECK(make_dir("session"));
    snprintf(joined, sizeof joined, "%s", in_dir("joined.gguf"));
    write_joined(joined);
    model *j = open_model(joined, 2, false);
    t = open_session(j, 0, true);
    feed(t, 0, N, 0);
    CHECK(same(session_logits(t), want));
    session_close(t);
    model_close(j);
    remove_dir();

    /* bounds: what does not fit is refused and changes nothing */
    CHECK(session_reset(s, NULL) == OK);
    feed(s, 0, N, 0);
    int32_t bad = (int32_t)V, minus = -1;
    CHECK(session_decode(s, bad, &e) == ERR_USAGE && session_decode(s, minus, &e) == ERR_USAGE);
    CHECK(session_prefill(s, ids, 41, NULL, NULL, &e) == ERR_USAGE);
    CHECK(same(session_logits(s), want) && session_n_past(s) == N);
    for (int i = 0; i < 40; i++)
        MUST(session_decode(s, 5, &e));
    CHECK(session_decode(s, 5, &e) == ERR_USAGE);
    CHECK(session_open(&t, m, &(struct session_params){ .n_ctx = 100000000 }, (size_t)64 << 20, &e) == ERR_NOMEM && strstr(e.msg, "would fit"));
    CHECK(session_open(&t, m, &(struct session_params){ .n_ctx = 0 }, 0, &e) == ERR_USAGE);

    free(mark), free(all), free(want);
    session_close(s);
    model_close(m);
    return TEST_END();
}
