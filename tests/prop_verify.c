/* prop_verify.c - rows that may be taken back: whatever was guessed, followed and taken back, a session is in the bits where one is that has only decoded
 * what counts.
 *
 *   - logits after every row, all of them or the best
 *   - marks (recurrent state, windows, n-gram history), and at the end of a block the whole state as bytes
 *   - what follows: prompts, single ids, states loaded elsewhere
 *   - with the vectorised rows and with the references, in f16 and f32
 *
 *     prop_verify            on the cpu; with TEST_SIZE=long also 3 short timelines on the first Vulkan device
 *     prop_verify vulkan N   N short timelines there */
#include "model/model.h"
#include "tests/session_case.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static struct err e;

enum { CTX = 420 };
static uint32_t V;
static uint32_t rnd(uint32_t n) { return (uint32_t)rand() % n; }
static int32_t any_id(const model *m) { return rnd(13) ? (int32_t)rnd(V) : model_shape(m)->ple_eos; }

struct bytes {
    uint8_t p[4 << 20];
    size_t n, at;
};
static status put(void *ctx, const void *p, size_t n, struct err *er)
{
    struct bytes *b = ctx;
    if (n > sizeof b->p - b->n)
        return fail(er, ERR_NOMEM, "more than %zu bytes", sizeof b->p);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return OK;
}
static status get(void *ctx, void *p, size_t n, struct err *er)
{
    struct bytes *b = ctx;
    (void)er;
    memcpy(p, b->p + b->at, n);
    b->at += n;
    return OK;
}
static struct bytes one, two;

/* In an open block cells behind the position hold what was taken back, which nothing reads; so at the end of a block */
static bool same_states(session *a, session *b)
{
    one.n = two.n = 0;
    MUST(session_save(a, put, &one, &e));
    MUST(session_save(b, put, &two, &e));
    return one.n == two.n && memcmp(one.p, two.p, one.n) == 0;
}

static bool same_results(session *a, session *b, uint32_t n_best)
{
    size_t n, k;
    if (n_best) {
        const struct candidate *x = session_best(a, &n), *y = session_best(b, &k);
        if (n != k || memcmp(x, y, n * sizeof *x) != 0)
            return false;
    }
    if (n_best && rnd(4))
        return true;
    MUST(session_fetch_logits(a, &e));
    MUST(session_fetch_logits(b, &e));
    return memcmp(session_logits(a), session_logits(b), V * sizeof(float)) == 0;
}

/* One round: guesses, of which the first n_right are what follows in `ids`; they are followed, some perhaps taken back. Returns how many ids of `ids` count. */
static uint32_t verify_round(session *s, session *plain, const model *m, const int32_t *ids, uint32_t n_ids, uint32_t n_best)
{
    int32_t guess[SESSION_VERIFY_MAX];
    uint32_t n = 1 + rnd(MIN((uint32_t)SESSION_VERIFY_MAX, n_ids)), n_right = 1 + rnd(n), count = 1;
    size_t start = session_n_past(s);
    for (uint32_t i = 0; i < n; i++)
        guess[i] = i < n_right ? ids[i] : ids[i] == 7 ? 8 : rnd(2) ? 7 : any_id(m);
    while (n_right < n && guess[n_right] == ids[n_right]) /* by chance */
        n_right++;
    MUST(session_verify(s, guess, n, &e));
    MUST(session_decode(plain, ids[0], &e));
    CHECK(session_ahead(s) == (n > 1 ? n - 1 : 0) && session_n_past(s) == start + 1);
    CHECK(same_results(s, plain, n_best));
    uint32_t follow = rnd(3) ? n_right : 1 + rnd(n_right);
    bool back = rnd(3) == 0;
    for (; count < follow; count++) {
        CHECK(!session_follow(s, guess[count] ^ 1));
        CHECK(session_follow(s, ids[count]));
        if (!back) {
            MUST(session_decode(plain, ids[count], &e));
            CHECK(same_results(s, plain, n_best));
        }
    }
    if (n_right < n && count == n_right)
        CHECK(!session_follow(s, ids[count]));
    if (back) { /* only what lies in the window */
        uint32_t to = 1 + rnd(count);
        CHECK(session_rewind(s, start, &e) == ERR_USAGE || n == 1);
        CHECK(session_rewind(s, start + count + 1, &e) == ERR_USAGE);
        MUST(session_rewind(s, start + to, &e));
        for (uint32_t i = 1; i < to; i++)
            MUST(session_decode(plain, ids[i], &e));
        CHECK(same_results(s, plain, n_best));
        count = to;
    }
    CHECK(session_n_past(s) == session_n_past(plain) && session_n_past(s) == start + count);
    return count;
}

static void timeline(model *m, bool precise, uint32_t n_best, uint32_t n_gen)
{
    struct session_params p = { .n_ctx = CTX, .precise = precise, .verify = true };
    session *s, *plain;
    int32_t ids[CTX];
    MUST(session_open(&s, m, &p, 0, &e));
    p.verify = false;
    MUST(session_open(&plain, m, &p, 0, &e));
    session_want(s, n_best);
    session_want(plain, n_best);
    for (int i = 0; i < CTX; i++)
        ids[i] = any_id(m);
    uint32_t at = rnd(6) ? 1 + rnd(rnd(3) ? 330 : 5) : 64 * (1 + rnd(4));
    MUST(session_prefill(s, ids, at, NULL, NULL, &e));
    MUST(session_prefill(plain, ids, at, NULL, NULL, &e));
    if (rnd(2))
        MUST(session_flush(s, NULL, NULL, &e));
    for (uint32_t end = MIN(at + n_gen, (uint32_t)CTX); at < end;) {
        at += verify_round(s, plain, m, ids + at, end - at, n_best);
        uint32_t what = rnd(12), n = MIN(1 + rnd(70), end - at);
        if (what == 0) {
            CHECK(same_marks(s, plain));
        } else if (what == 1 && at % 4 == 0) {
            CHECK(same_states(s, plain));
        } else if (what == 2 && n) { /* a prompt behind it */
            MUST(session_prefill(s, ids + at, n, NULL, NULL, &e));
            MUST(session_flush(s, NULL, NULL, &e));
            MUST(session_prefill(plain, ids + at, n, NULL, NULL, &e));
            MUST(session_flush(plain, NULL, NULL, &e));
            at += n;
        } else if (what == 3 && n) {
            MUST(session_decode(s, ids[at], &e));
            MUST(session_decode(plain, ids[at++], &e));
        } else if (what == 4) { /* to another session and back */
            one.n = one.at = 0;
            MUST(session_save(s, put, &one, &e));
            MUST(session_reset(s, &e));
            MUST(session_decode(s, 5, &e));
            MUST(session_load(s, at, get, &one, &e));
        } else {
            continue;
        }
        MUST(session_fetch_logits(s, &e));
        MUST(session_fetch_logits(plain, &e));
        CHECK(memcmp(session_logits(s), session_logits(plain), V * sizeof(float)) == 0);
    }
    CHECK(same_marks(s, plain));
    while (at % 4 && at < CTX) {
        MUST(session_decode(s, 3, &e));
        MUST(session_decode(plain, 3, &e));
        at++;
    }
    CHECK(same_states(s, plain));
    session_close(s);
    session_close(plain);
}

/* A full context is refused, and nothing has changed */
static void bounds(model *m)
{
    session *s, *plain;
    struct session_params p = { .n_ctx = 70, .verify = true };
    int32_t ids[70], bad[3] = { 1, 2, (int32_t)V };
    MUST(session_open(&s, m, &p, 0, &e));
    MUST(session_open(&plain, m, &p, 0, &e));
    for (int i = 0; i < 70; i++)
        ids[i] = any_id(m);
    MUST(session_prefill(s, ids, 66, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    CHECK(session_verify(s, ids, 5, &e) == ERR_USAGE && session_verify(s, bad, 3, &e) == ERR_USAGE && session_n_past(s) == 66);
    MUST(session_verify(s, ids, 4, &e));
    for (int i = 1; i < 4; i++)
        CHECK(session_follow(s, ids[i]));
    CHECK(session_n_past(s) == 70 && session_verify(s, ids, 1, &e) == ERR_USAGE && session_decode(s, 1, &e) == ERR_USAGE);
    MUST(session_prefill(plain, ids, 66, NULL, NULL, &e));
    for (int i = 0; i < 4; i++)
        MUST(session_decode(plain, ids[i], &e));
    CHECK(same_marks(s, plain));
    session_close(s);
    session_close(plain);
}

static void on_vulkan(int n)
{
    model *m;
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .backend = BACKEND_VULKAN }, &e));
    V = model_shape(m)->n_vocab;
    for (int round = 0; round < n; round++)
        timeline(m, round % 2, round % 3 == 0 ? 1 : round % 3 == 1 ? 0 : 30, 40);
    model_close(m);
}

int main(int argc, char **argv)
{
    static const char *const path[] = { "tests/models/tiny-man.gguf", "build/models/tiny-zoo.gguf" };
    srand((unsigned)test_seed(906));
    if (argc == 3 && strcmp(argv[1], "vulkan") == 0) {
        on_vulkan(atoi(argv[2]));
        return TEST_END();
    }
    const int n_round = (int)test_size(2, 6, 60);
    for (size_t i = 0; i < COUNT_OF(path); i++)
        for (int reference = 0; reference < 2; reference++) {
            model *m;
            MUST(model_open(&m, path[i], &(struct model_params){ .n_threads = 2, .reference = reference, .backend = BACKEND_CPU }, &e));
            V = model_shape(m)->n_vocab;
            bounds(m);
            for (int round = 0; round < (reference ? 1 + n_round / 6 : n_round); round++)
                timeline(m, round % 2, round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : 30, reference ? 16 : (int)test_size(45, 90, 90));
            model_close(m);
        }
    if (test_size(0, 0, 1))
        on_vulkan(3);
    return TEST_END();
}
