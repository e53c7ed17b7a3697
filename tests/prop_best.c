/* prop_best.c - what session_best gives is what all logits would have given, on the cpu and on the first Vulkan device: behind prompts and generated ids,
 * after a mark and a state from elsewhere, with equal logits, NaN and infinities planted in that state; the choice of a sampler from it;
 * that a step in two lists computes what a prompt does; and how many launches it takes. */
#include "model/model.h"
#include "tests/test.h"

#include <math.h>

#define MODEL "tests/models/tiny-man.gguf"

static struct err e;

static uint32_t V;
static const uint32_t wanted[] = { 1, 2, 20, 256 };
enum { SESSIONS = COUNT_OF(wanted) };

static session *open_session(model *m)
{
    session *s;
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = 64, .n_ubatch = 64, .precise = true }, 0, &e));
    return s;
}

/* +infinity counts as the largest float, NaN as nothing */
static float value(float x) { return isnan(x) ? -INFINITY : x > 3.402823466e38f ? 3.402823466e38f : x; }

/* What session_best(s) must be: the largest one after another, lower ids first */
static void check_best(const session *s, uint32_t want, const float *logits)
{
    size_t n, at = 0, n_taken = 0;
    const struct candidate *best = session_best(s, &n);
    bool *taken = calloc(V, sizeof *taken);
    for (; n_taken < want; n_taken++) {
        uint32_t top = V;
        for (uint32_t i = 0; i < V; i++)
            if (!taken[i] && value(logits[i]) > -INFINITY && (top == V || value(logits[i]) > value(logits[top])))
                top = i;
        if (top == V)
            break;
        taken[top] = true;
    }
    CHECK(n == n_taken);
    for (uint32_t i = 0; i < V && at < n; i++)
        if (taken[i]) {
            CHECK(best[at].id == (int32_t)i && memcmp(&best[at].logit, &logits[i], sizeof logits[i]) == 0);
            at++;
        }
    CHECK(at == n);
    free(taken);
}

/* The same id from the list as from all logits, draw by draw */
static void check_choices(const session *s, uint32_t want, const float *logits)
{
    size_t n;
    const struct candidate *best = session_best(s, &n);
    int32_t banned[3] = { n ? best[0].id : 0, n ? best[n / 2].id : 1, -1 };
    for (size_t n_banned = 0; n_banned <= COUNT_OF(banned) && n_banned < want; n_banned++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            int32_t k = (int32_t)(want - n_banned);
            struct sample_params p = { .temp = k == 1 && seed % 2 ? 0 : (float)seed / 3, .top_k = k, .top_p = seed % 3 ? 0.9f : 1,
                                       .min_p = seed == 5 ? 0.1f : 0, .repeat_penalty = 1, .seed = seed };
            sampler *a, *b;
            MUST(sampler_open(&a, V, &p, &e));
            MUST(sampler_open(&b, V, &p, &e));
            CHECK(sampler_needs(a, n_banned) <= want);
            for (int draw = 0; draw < 20; draw++)
                CHECK(sampler_choose(a, logits, banned, n_banned) == sampler_choose_best(b, best, n, banned, n_banned));
            sampler_close(a), sampler_close(b);
        }
}

static status put(void *ctx, const void *p, size_t n, struct err *er)
{
    (void)er;
    uint8_t **to = ctx;
    memcpy(*to, p, n);
    *to += n;
    return OK;
}
static status get(void *ctx, void *p, size_t n, struct err *er)
{
    (void)er;
    const uint8_t **from = ctx;
    memcpy(p, *from, n);
    *from += n;
    return OK;
}

/* Where the logits lie in a saved state: behind the ids before */
static float *logits_in(uint8_t *state, const session *s)
{
    for (size_t i = 0; i < 4096; i += sizeof(int32_t))
        if (memcmp(state + i, session_logits(s), V * sizeof(float)) == 0)
            return (float *)(void *)(state + i);
    fprintf(stderr, "no logits in the state\n");
    exit(1);
}

/* Logits that a model would not compute come in with a state */
static void plant(session *s, uint32_t want)
{
    size_t bytes = session_state_bytes(s, session_n_past(s)), n_past = session_n_past(s);
    uint8_t *state = malloc(bytes), *to = state;
    MUST(session_save(s, put, &to, &e));
    float *x = logits_in(state, s);
    for (int round = 0; round < 8; round++) {
        static const float odd[] = { NAN, INFINITY, -INFINITY, 3.402823466e38f, -3.402823466e38f };
        for (uint32_t i = 0; i < V; i++)
            x[i] = round == 0 ? 1 : round == 1 ? -INFINITY : round == 2 ? (i + 1 == V ? 2.0f : NAN) : (float)(rand() % (round * round)) / 2 - 3;
        for (int i = 0; round > 4 && i < 40; i++)
            x[rand() % (int)V] = odd[rand() % (round == 7 ? 5 : 1)];
        const uint8_t *from = state;
        MUST(session_load(s, n_past, get, &from, &e));
        if (round == 1 && want == 1) { /* no number above -infinity: the first of what there is */
            size_t n;
            CHECK(session_best(s, &n)[0].id == 0 && n == 1 && session_best(s, &n)[0].logit == -INFINITY);
            continue;
        }
        if (round == 7 && want == 1) /* to arg-max +infinity is larger than the largest float, to a sampler equal; no model gets as far */
            continue;
        check_best(s, want, x);
        check_choices(s, want, x);
    }
    free(state);
}

static void count_call(void *ctx, const struct session_call *c)
{
    *(uint32_t *)ctx += c->decode;
}

/* Launches of a greedy step of the demo model on a device: 8 layers of 4 for the mixers and 4 for the experts, 6 x 3 delta nets, 2 x 7 attentions; 5 of
 * the n-gram path with the settling before it, 2 x ids and tables, embedding, head 3, arg-max 2. Whoever needs more says why here. */
enum { LAUNCHES = 98 };

static void test_backend(enum backend backend)
{
    model *m;
    if (model_open(&m, MODEL, &(struct model_params){ .backend = backend, .n_threads = 2 }, &e) != OK) {
        printf("prop_best: skipped a backend: %s\n", e.msg);
        CHECK(backend == BACKEND_VULKAN);
        return;
    }
    V = model_shape(m)->n_vocab;
    session *all = open_session(m), *s[SESSIONS];
    void *mark = malloc(session_mark_bytes(all));
    int32_t ids[7];
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        ids[i] = rand() % (int)V;
    MUST(session_prefill(all, ids, 3, NULL, NULL, &e));
    MUST(session_flush(all, NULL, NULL, &e));
    float *logits[COUNT_OF(ids)];
    for (size_t at = 3;; at++) {
        logits[at - 3] = malloc(V * sizeof(float));
        memcpy(logits[at - 3], session_logits(all), V * sizeof(float));
        if (at == COUNT_OF(ids))
            break;
        MUST(session_decode(all, ids[at], &e));
    }
    /* a step that read the tables of the step before would be far off; 5e-4: the rule of eval --golden on a device */
    float worst = 0;
    MUST(session_reset(all, &e));
    MUST(session_prefill(all, ids, COUNT_OF(ids), NULL, NULL, &e));
    MUST(session_flush(all, NULL, NULL, &e));
    for (uint32_t i = 0; i < V; i++)
        worst = fmaxf(worst, fabsf(session_logits(all)[i] - logits[COUNT_OF(ids) - 3][i]));
    printf("prop_best: prefill - decode %.2g\n", (double)worst);
    CHECK(worst < 5e-4f);
    for (size_t k = 0; k < SESSIONS; k++) {
        uint32_t want = wanted[k];
        s[k] = open_session(m);
        session_want(s[k], want);
        MUST(session_prefill(s[k], ids, 3, NULL, NULL, &e));
        MUST(session_flush(s[k], NULL, NULL, &e));
        for (size_t at = 3;; at++) {
            check_best(s[k], want, logits[at - 3]);
            check_choices(s[k], want, logits[at - 3]);
            if (at == 4)
                MUST(session_mark(s[k], mark, &e));
            if (at == COUNT_OF(ids))
                break;
            MUST(session_decode(s[k], ids[at], &e));
        }
        MUST(session_return(s[k], mark, &e));
        check_best(s[k], want, logits[1]);
        MUST(session_decode(s[k], ids[4], &e));
        check_best(s[k], want, logits[2]);
        MUST(session_fetch_logits(s[k], &e));
        CHECK(memcmp(session_logits(s[k]), logits[2], V * sizeof(float)) == 0);
        plant(s[k], want);
    }
    uint32_t launches = 0;
    MUST(session_profile(s[0], count_call, &launches, &e));
    MUST(session_decode(s[0], ids[0], &e));
    printf("prop_best: %s, %u launches\n", model_backend(m), launches);
    CHECK(launches > 0 && (backend == BACKEND_CPU || launches <= LAUNCHES));
    for (size_t k = 0; k < SESSIONS; k++)
        session_close(s[k]);
    for (size_t i = 0; i + 3 <= COUNT_OF(ids); i++)
        free(logits[i]);
    free(mark);
    session_close(all);
    model_close(m);
}

int main(void)
{
    srand((unsigned)test_seed(1130));
    test_backend(BACKEND_CPU);
    if (test_size(0, 1, 1)) /* in software a device takes long, and what it computes no sanitizer sees */
        test_backend(BACKEND_VULKAN);
    return TEST_END();
}
