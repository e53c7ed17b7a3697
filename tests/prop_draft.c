/* prop_draft.c - answers with guesses against answers without: the same ids and the same state at the end, for random prompts, seeds, temperatures,
 * penalties, numbers of guesses and cuts of the prompt.
 *
 *     prop_draft                   20 runs on the cpu and 5 on the first Vulkan device; 200 and 20 with TEST_SIZE=long, 5 and none with short
 *     prop_draft cpu|vulkan N      N runs there
 *
 * On a device prompts have up to 64 tokens and answers 24 with TEST_SIZE=long, else 12 and 6: a step of lavapipe takes a quarter of a second. */
#include "model/speculate.h"
#include "tests/session_case.h"
#include "tests/test.h"
#include "tests/vulkan_device.h"

#include <stdlib.h>
#include <string.h>

static struct err e;

enum { PROMPT = 400, ANSWER = 96 };
struct limits {
    uint32_t prompt, answer;
};
static uint32_t rnd(uint32_t n) { return (uint32_t)rand() % n; }

static struct draft_stats sum;

/* A page, or random ids; perhaps said twice, so that there is something to quote */
static size_t make_prompt(model *m, const struct ids *page, int32_t *ids, size_t most)
{
    size_t n = 1 + rnd((uint32_t)most), half = n / 2, from = rnd((uint32_t)(page->n - most));
    for (size_t i = 0; i < n; i++)
        ids[i] = rnd(4) ? page->v[from + i] : (int32_t)rnd(model_shape(m)->n_vocab);
    if (rnd(2))
        memcpy(ids, page->v + from, n * sizeof *ids);
    for (size_t i = half; i < n && rnd(3); i++)
        ids[i] = ids[i - half];
    return n;
}

struct setting {
    struct sample_params sample;
    int draft;
    uint32_t ubatch, n_answer, n_best;
    size_t cut;
    bool precise, head;
};

/* The answer to ids [n]; the session stays open. Returns its length. */
static size_t answer(model *m, const struct setting *set, int draft, const int32_t *ids, size_t n, int32_t *out, session **s)
{
    struct session_params p = { .n_ctx = n + ANSWER + 4, .n_ubatch = set->ubatch, .precise = set->precise, .verify = draft != DRAFT_OFF,
                                .head = draft != DRAFT_OFF && set->head };
    struct speculator sp;
    sampler *sample;
    MUST(session_open(s, m, &p, 0, &e));
    MUST(sampler_open(&sample, model_shape(m)->n_vocab, &set->sample, &e));
    MUST(speculate_open(&sp, *s, draft, &e));
    uint32_t n_best = (uint32_t)sampler_needs(sample, 0);
    session_want(*s, n_best <= SESSION_BEST_MAX ? n_best : 0);
    for (size_t at = 0, step; at < n; at += step) {
        step = draft == DRAFT_OFF ? n : MIN(n - at, set->cut);
        MUST(session_prefill(*s, ids + at, step, NULL, NULL, &e));
    }
    MUST(session_flush(*s, NULL, NULL, &e));
    for (size_t i = 0; i < n; i++)
        sampler_accept(sample, ids[i]);
    speculate_begin(&sp, ids, n);
    for (uint32_t i = 0; i < set->n_answer; i++) {
        size_t k;
        const struct candidate *best = session_best(*s, &k);
        out[i] = n_best && n_best <= SESSION_BEST_MAX ? sampler_choose_best(sample, best, k, NULL, 0) : sampler_choose(sample, session_logits(*s), NULL, 0);
        sampler_accept(sample, out[i]);
        MUST(speculate_next(&sp, out[i], set->n_answer - 1 - i, &e));
        CHECK(session_n_past(*s) == n + i + 1);
    }
    speculate_end(&sp);
    CHECK(sp.stats.tokens == set->n_answer && sp.stats.passes + sp.stats.accepted == sp.stats.tokens && sp.stats.accepted <= sp.stats.drafted);
    drafts_add(&sum, &sp.stats);
    speculate_close(&sp);
    sampler_close(sample);
    return set->n_answer;
}

static bool same_end(session *a, session *b, const int32_t *more, size_t n)
{
    size_t bytes = session_mark_bytes(a);
    void *x = calloc(1, bytes), *y = calloc(1, bytes);
    MUST(session_mark(a, x, &e));
    MUST(session_mark(b, y, &e));
    bool same = memcmp(x, y, bytes) == 0;
    for (size_t i = 0; i < n; i++) { /* and nothing that later steps could find */
        MUST(session_decode(a, more[i], &e));
        MUST(session_decode(b, more[i], &e));
    }
    MUST(session_mark(a, x, &e));
    MUST(session_mark(b, y, &e));
    same &= memcmp(x, y, bytes) == 0;
    free(x), free(y);
    return same;
}

/* most: of a prompt and of an answer; a small answer is as long as it may be */
static void run(model *m, const struct ids *page, struct limits most, uint32_t i)
{
    static const float temp[] = { 0, 0, 0.3f, 0.8f, 1.2f };
    static int32_t ids[PROMPT], with[ANSWER], without[ANSWER];
    struct setting set = { .sample = SAMPLE_DEFAULTS, .draft = i % 4 == 3 ? DRAFT_AUTO : 1 + (int)rnd(DRAFT_MAX), .ubatch = 64 << rnd(4),
                           .cut = 1 + rnd(200), .precise = rnd(2), .head = i % 3 > 0, .n_answer = most.answer < ANSWER ? most.answer : 1 + rnd(ANSWER) };
    set.sample.temp = temp[i % COUNT_OF(temp)];
    set.sample.seed = (uint64_t)rand();
    set.sample.top_k = rnd(4) ? 20 : 0;
    set.sample.repeat_penalty = rnd(4) ? 1 : 1.1f;
    session *a, *b;
    size_t n = make_prompt(m, page, ids, most.prompt);
    size_t n_with = answer(m, &set, set.draft, ids, n, with, &a), n_without = answer(m, &set, DRAFT_OFF, ids, n, without, &b);
    bool same = n_with == n_without && memcmp(with, without, n_with * sizeof *with) == 0;
    CHECK(same);
    CHECK(same && same_end(a, b, ids, MIN(n, (size_t)4)));
    if (test_failed)
        fprintf(stderr, "run %u: prompt of %zu, answer of %zu, draft %d, temperature %g, ubatch %u, cut %zu\n", i, n, n_with, set.draft,
                (double)set.sample.temp, set.ubatch, set.cut);
    session_close(a);
    session_close(b);
}

/* A text that is given, not chosen: two ids and what the head says behind them, then the two and another id, then the two again. What is looked up is the other id, so when the
 * head says what it said the first time, a look-up goes on from there; whatever steps cost on a device and whatever would be drawn. */
static void chain(model *m, const struct ids *page)
{
    enum { SAID = 64, GIVEN = 132, TEXT = 11, GUESSES = 4 };
    struct session_params p = { .n_ctx = SAID + GIVEN + 8, .verify = true, .head = true };
    struct speculator sp;
    session *a, *b;
    size_t n = 0;
    MUST(session_open(&a, m, &p, 0, &e));
    p.verify = p.head = false;
    MUST(session_open(&b, m, &p, 0, &e));
    MUST(speculate_open(&sp, a, GUESSES, &e));
    MUST(session_prefill(a, page->v, SAID, NULL, NULL, &e));
    MUST(session_prefill(b, page->v, SAID, NULL, NULL, &e));
    speculate_begin(&sp, page->v, SAID);
    while (n + TEXT <= GIVEN && !sp.stats.chained) {
        int32_t two[2] = { page->v[rnd(SAID)], page->v[rnd(SAID)] };
        for (uint32_t i = 0; i < TEXT; i++, n++) { /* . A B head's . A B other . A B */
            int32_t id = i % 4 == 0 || i == 7 ? page->v[rnd(SAID)] : i == 3 && sp.n_guess ? sp.guess[0] : two[(i + 1) % 2];
            MUST(speculate_next(&sp, id, GIVEN - n, &e));
            MUST(session_decode(b, id, &e));
        }
    }
    for (size_t i = 0; i < 3; i++, n++) { /* what was guessed in that round is taken back */
        MUST(speculate_next(&sp, page->v[i], 3 - i, &e));
        MUST(session_decode(b, page->v[i], &e));
    }
    speculate_end(&sp);
    CHECK(sp.stats.chained > 0);
    CHECK(same_end(a, b, page->v, 4));
    printf("%s: a look-up went on behind the head's guesses after %zu ids\n", model_backend(m), n - 3);
    speculate_close(&sp);
    session_close(a);
    session_close(b);
}

/* n_run runs on one backend; both outcomes of a guess must be among them */
static void runs(bool vulkan, uint32_t n_run)
{
    model *m;
    struct ids page = { 0 };
    struct limits most = { PROMPT, ANSWER };
    if (vulkan)
        most = (struct limits){ test_size(12, 12, 64), test_size(6, 6, 24) };
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .backend = vulkan ? BACKEND_VULKAN : BACKEND_CPU, .device = test_device(), .head = true }, &e));
    sample_page(m, &page, 2 * PROMPT);
    memset(&sum, 0, sizeof sum);
    for (uint32_t i = 0; i < n_run && page.n > 2 * PROMPT; i++)
        run(m, &page, most, i);
    if (!vulkan || n_run >= 20)
        chain(m, &page);
    CHECK(sum.accepted > 0 && sum.drafted > sum.accepted); /* both outcomes were there */
    printf("%s: %llu ids in %llu passes, %llu of %llu guesses accepted, %llu look-ups behind the head's\n", model_backend(m), (unsigned long long)sum.tokens,
           (unsigned long long)sum.passes, (unsigned long long)sum.accepted, (unsigned long long)sum.drafted, (unsigned long long)sum.chained);
    ids_free(&page);
    model_close(m);
}

int main(int argc, char **argv)
{
    bool vulkan = argc > 1 && strcmp(argv[1], "vulkan") == 0;
    uint32_t on_vulkan = test_size(0, 5, 20);
    if (argc == 2 || argc > 3 || (argc > 1 && !vulkan && strcmp(argv[1], "cpu") != 0)) {
        fprintf(stderr, "usage: prop_draft [cpu|vulkan RUNS]\n");
        return 2;
    }
    srand((unsigned)test_seed(17));
    if (argc == 3) {
        runs(vulkan, (uint32_t)atoi(argv[2]));
        return TEST_END();
    }
    runs(false, test_size(5, 20, 200));
    if (on_vulkan && device_found(__FILE__, &e))
        runs(true, on_vulkan);
    else if (on_vulkan)
        printf("%-28s no device: %s\n", __FILE__, e.msg);
    return TEST_END();
}
