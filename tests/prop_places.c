/* prop_places.c - several timelines in one step: each place of a session leaves the bits that a session of its own leaves.
 *
 * Random histories on the demo model: prompts that end anywhere around the budget and the groups of 64, places that begin and end while others are in
 * the middle, any subset of places in a step, guesses at some of them of which any number counts, marks, copies. TEST_SIZE=long runs a little of it on the first Vulkan device too, TEST_BACKEND=vulkan only
 * that; TEST_SEED=n repeats. */
#include "model/model.h"
#include "tests/session_case.h"
#include "tests/test.h"

#define MODEL "tests/models/tiny-man.gguf"
enum { N_CTX = 420 };

static struct err e;

static uint32_t V;
static uint32_t below(uint32_t n) { return (uint32_t)rand() % n; }
static int32_t any_id(const model *m) { return below(17) ? (int32_t)below(V) : model_shape(m)->ple_eos; }

/* Logits, or the best of them, of two sessions */
static bool same(session *a, session *b)
{
    size_t n, k;
    const struct candidate *x = session_best(a, &n), *y = session_best(b, &k);
    if (n != k || memcmp(x, y, n * sizeof *x) != 0 || session_n_past(a) != session_n_past(b))
        return false;
    MUST(session_fetch_logits(a, &e));
    MUST(session_fetch_logits(b, &e));
    return memcmp(session_logits(a), session_logits(b), V * sizeof(float)) == 0;
}

/* A new prompt in one segment or two, at a place and alone */
static void begin(const model *m, session *place, session *alone)
{
    static const uint32_t length[] = { 1, 3, 4, 63, 64, 65, 128, 255, 256, 257, 300 };
    uint32_t n = below(2) ? length[below(COUNT_OF(length))] : 1 + below(90), first;
    n = MIN(n, (uint32_t)session_n_ctx(alone) - 40);
    first = below(n + 1);
    int32_t ids[300];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = any_id(m);
    session *const to[] = { place, alone };
    for (size_t i = 0; i < COUNT_OF(to); i++) {
        MUST(session_reset(to[i], &e));
        MUST(session_prefill(to[i], ids, first, NULL, NULL, &e));
        MUST(session_flush(to[i], NULL, NULL, &e));
        MUST(session_prefill(to[i], ids + first, n - first, NULL, NULL, &e));
        MUST(session_flush(to[i], NULL, NULL, &e));
    }
    CHECK(same(place, alone));
}

/* Whether the heads of two sessions say the same, three times in a row: each has seen what its timeline had, and nothing else */
static void same_guesses(session *a, session *b, int32_t id)
{
    struct guess x[3] = { { 0 } }, y[3] = { { 0 } };
    session *const of[] = { a, b };
    CHECK(session_can_guess(a) && session_can_guess(b));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 3; k++)
            MUST(session_guess(of[i], id, k, 1, (i ? y : x) + k, &e));
    MUST(session_guess_end(a, &e));
    MUST(session_guess_end(b, &e));
    for (uint32_t k = 0; k < 3; k++)
        CHECK(x[k].id == y[k].id && x[k].lead == y[k].lead);
}

/* One step for n places, with guesses while there are rows; as many of them as may be are followed, so that the rest has to leave no trace. */
static void step_of(const model *m, session *const *place, session *const *alone, uint32_t n, bool verify)
{
    struct session_rows rows[SESSION_SEQ_MAX];
    int32_t ids[SESSION_SEQ_MAX][SESSION_VERIFY_MAX];
    uint32_t left = verify && below(4) ? SESSION_VERIFY_MAX - n : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t room = (uint32_t)(session_n_ctx(alone[i]) - session_n_past(alone[i])) - 1, more = below(MIN(left, room) + 1);
        rows[i] = (struct session_rows){ place[i], ids[i], 1 + more };
        for (uint32_t r = 0; r <= more; r++)
            ids[i][r] = any_id(m);
        left -= more;
    }
    MUST(session_verify_rows(rows, n, &e));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 1 + below(rows[i].n);
        MUST(session_decode(alone[i], ids[i][0], &e));
        CHECK(same(place[i], alone[i]) && session_ahead(place[i]) == rows[i].n - 1);
        for (uint32_t r = 1; r < count; r++) {
            CHECK(!session_follow(place[i], ids[i][r] ^ 1) && session_follow(place[i], ids[i][r]));
            MUST(session_decode(alone[i], ids[i][r], &e));
            CHECK(same(place[i], alone[i]));
        }
    }
}

static void round_of(model *m, struct session_params p, uint32_t n_best, int n_step)
{
    session *first, *alone[SESSION_SEQ_MAX];
    uint32_t n_seq = p.n_seq;
    bool busy[SESSION_SEQ_MAX] = { false };
    MUST(session_open(&first, m, &p, 0, &e));
    session_want(first, n_best);
    CHECK(session_n_seq(first) == MAX(1u, n_seq) && session_place(first, 0) == first);
    bool verify = p.verify;
    p.n_seq = 1;
    p.verify = false;
    for (uint32_t k = 0; k < n_seq; k++) {
        MUST(session_open(&alone[k], m, &p, 0, &e));
        session_want(alone[k], n_best);
    }
    void *mark = malloc(session_mark_bytes(first));
    for (int step = 0; step < n_step; step++) {
        session *place[SESSION_SEQ_MAX], *other[SESSION_SEQ_MAX];
        uint32_t n = 0, k = below(n_seq), j = below(n_seq);
        bool begins = !busy[k] || below(20) == 0;
        if (begins) {
            begin(m, session_place(first, k), alone[k]);
            busy[k] = true;
        }
        if (begins && !p.head) {
            /* goes elsewhere and returns */
            MUST(session_mark(session_place(first, k), mark, &e));
            for (int i = 0; i < 3; i++)
                MUST(session_decode(session_place(first, k), any_id(m), &e));
            MUST(session_return(session_place(first, k), mark, &e));
            CHECK(same(session_place(first, k), alone[k]));
        }
        if (below(12) == 0 && j != k && !p.head) { /* one place becomes what another is, and the sessions alone change names */
            begin(m, session_place(first, j), alone[j]);
            MUST(session_copy(session_place(first, k), session_place(first, j), &e));
            session *s = alone[k];
            alone[k] = alone[j];
            alone[j] = s;
            CHECK(same(session_place(first, k), alone[k]));
            busy[k] = true;
            busy[j] = false;
        }
        bool few = below(3) == 0;
        for (k = 0; k < n_seq; k++)
            if (busy[k] && session_n_past(alone[k]) < p.n_ctx && (!few || below(2))) {
                place[n] = session_place(first, k);
                other[n++] = alone[k];
            }
        for (k = 0; k < n && p.head && below(3) == 0; k++) /* any of them, of the same history, also if the id that follows is another one */
            if (session_n_past(other[k]) + 4 < p.n_ctx)
                same_guesses(place[k], other[k], any_id(m));
        if (n)
            step_of(m, place, other, n, verify);
        if (n && below(20) == 0) /* after the step, whose other logits are lost by that */
            CHECK(same_marks(place[n - 1], other[n - 1]));
    }
    for (uint32_t k = 0; k < n_seq; k++) /* and nothing that later steps could find */
        for (int i = 0; i < 3 && busy[k] && session_n_past(alone[k]) < p.n_ctx; i++) {
            int32_t id = any_id(m);
            MUST(session_decode(session_place(first, k), id, &e));
            MUST(session_decode(alone[k], id, &e));
            CHECK(same_marks(session_place(first, k), alone[k]));
        }
    int32_t bad[] = { 1, (int32_t)V };
    if (n_seq > 1) { /* what cannot be is refused before anything moves */
        begin(m, session_place(first, 0), alone[0]);
        begin(m, session_place(first, 1), alone[1]);
        session *two[] = { session_place(first, 0), session_place(first, 1) };
        size_t n0 = session_n_past(two[0]);
        CHECK(session_decode_rows(two, bad, 2, &e) == ERR_USAGE && session_n_past(two[0]) == n0);
    }
    free(mark);
    for (uint32_t k = 0; k < n_seq; k++)
        session_close(alone[k]);
    session_close(first);
}

/* The plan of n places: what a place has, n times, what all share once */
static void plans(const model *m, bool head)
{
    struct plan one = { 0 }, eight = { 0 };
    session_plan(m, &(struct session_params){ .n_ctx = 5000, .verify = true, .head = head }, &one);
    session_plan(m, &(struct session_params){ .n_ctx = 5000, .n_seq = 8, .verify = true, .head = head }, &eight);
    CHECK(one.n == eight.n);
    for (size_t i = 0; i < one.n; i++) {
        const char *name = one.line[i].name;
        bool own = strstr(name, "K/V") || strstr(name, "pooled") || strstr(name, "GDN") || strstr(name, "windows") || strstr(name, "draft") || strstr(name, "layer blocks");
        bool shared = strstr(name, "model") || strstr(name, "step") || strstr(name, "threads");
        CHECK(!own || eight.line[i].bytes == 8 * one.line[i].bytes);
        CHECK(!shared || eight.line[i].bytes == one.line[i].bytes);
        CHECK(own || shared || eight.line[i].bytes >= one.line[i].bytes);
    }
}

/* In software a token takes long */
static void on_device(void)
{
    model *m;
    MUST(model_open(&m, MODEL, &(struct model_params){ .n_threads = 2, .backend = BACKEND_VULKAN }, &e));
    V = model_shape(m)->n_vocab;
    round_of(m, (struct session_params){ .n_ctx = 310, .n_seq = 3, .n_ubatch = 64 }, 1, 7);
    round_of(m, (struct session_params){ .n_ctx = 110, .n_seq = 2, .n_ubatch = 64, .verify = true }, 1, 8);
    round_of(m, (struct session_params){ .n_ctx = 300, .n_seq = 8, .n_ubatch = 64, .precise = true }, 3, 9);
    round_of(m, (struct session_params){ .n_ctx = 310, .n_seq = 3, .n_ubatch = 64, .no_gather = true, .no_pooled_cache = true }, 1, 7);
    round_of(m, (struct session_params){ .n_ctx = 110, .n_seq = 2, .n_ubatch = 64, .verify = true, .pooled_max_tokens = 2 }, 1, 8);
    plans(m, false); /* a head is for a place that is alone */
    model_close(m);
}

int main(void)
{
    const char *backend = getenv("TEST_BACKEND");
    bool only_device = backend && strcmp(backend, "vulkan") == 0;
    model *m;
    session *s;
    srand((unsigned)test_seed(816));
    if (only_device || test_size(0, 0, 1))
        on_device();
    if (only_device)
        return TEST_END();
    MUST(model_open(&m, MODEL, &(struct model_params){ .n_threads = 2, .backend = BACKEND_CPU }, &e));
    V = model_shape(m)->n_vocab;
    static const struct {
        struct session_params p;
        uint32_t n_best;
    } round[] = {
        { { .n_ctx = N_CTX, .n_seq = 3, .verify = true, .head = true }, 1 },
        { { .n_ctx = N_CTX, .n_seq = 3, .verify = true }, 1 }, { { .n_ctx = N_CTX, .n_seq = 2, .verify = true, .precise = true }, 0 },
        { { .n_ctx = 300, .n_seq = 6, .verify = true, .pooled_max_tokens = 2 }, 30 }, { { .n_ctx = N_CTX, .n_seq = 8 }, 1 }, { { .n_ctx = N_CTX, .n_seq = 8, .precise = true }, 20 },
        { { .n_ctx = N_CTX, .n_seq = 3, .kv = KV_F32, .n_ubatch = 64 }, 0 }, { { .n_ctx = 300, .n_seq = 4, .kv = KV_Q8_0, .no_pooled_cache = true }, 0 }, { { .n_ctx = N_CTX, .n_seq = 1 }, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(round); i++)
        round_of(m, round[i].p, round[i].n_best, (int)test_size(10, 60, 900));
    plans(m, true);
    CHECK(session_open(&s, m, &(struct session_params){ .n_ctx = 64, .n_seq = 9 }, 0, &e) == ERR_USAGE && strstr(e.msg, "9 timelines"));
    CHECK(session_open(&s, m, &(struct session_params){ .n_ctx = 1000000, .n_seq = 8 }, (size_t)64 << 20, &e) == ERR_NOMEM && strstr(e.msg, "8 places") &&
          strstr(e.msg, "would fit"));
    model_close(m);
    return TEST_END();
}
