/* unit_speculate.c - where guesses come from and how many are tried: look-ups behind ids that are only supposed, odds that survive a delay, and how many
 * tokens a pass brings in a text that repeats itself. */
#include "model/speculate.h"
#include "tests/session_case.h"
#include "tests/test.h"

#include <math.h>

static struct err e;

/* ---- look-ups ---- */

static void look_ups(void)
{
    static const int32_t text[] = { 1, 2, 3, 4, 5, 6, 7, 9, 3, 4, 8, 8, 1, 2 };
    struct lookup l;
    int32_t out[7];
    uint32_t n_match;
    MUST(lookup_open(&l, 16, &e));
    lookup_push(&l, text, COUNT_OF(text));
    CHECK(lookup_guess(&l, out, 5, &n_match) == 5 && n_match == 2 && out[0] == 3 && out[4] == 7);
    size_t follows = l.follows;
    CHECK(lookup_after(&l, (int32_t[]){ 3, 4 }, 2, out, 3, &n_match) == 3 && n_match == 4 && out[0] == 5 && out[2] == 7); /* not 8: the longer match */
    CHECK(lookup_after(&l, (int32_t[]){ 4, 8 }, 2, out, 3, &n_match) == 3 && n_match == 2 && out[0] == 8 && out[1] == 1);
    CHECK(lookup_after(&l, (int32_t[]){ 5 }, 1, out, 3, &n_match) == 0);
    CHECK(lookup_after(&l, (int32_t[]){ 3, 4, 5 }, 3, out, 3, &n_match) == 0); /* no room in the timeline */
    CHECK(l.n == COUNT_OF(text) && l.follows == follows && lookup_guess(&l, out, 1, &n_match) == 1 && out[0] == 3);
    lookup_close(&l);
}

/* ---- odds ---- */

/* By reckoning: the worth of k guesses of chance p when a row more costs a fifth of a step */
static double worth(double p, uint32_t k, double pace)
{
    double ids = 1;
    for (uint32_t i = 1; i <= k; i++)
        ids += pow(p, i);
    return ids - pace * (1 + 0.2 * k);
}

static void numbers(void)
{
    struct odds o = { 0 };
    for (double pace = 1; pace < 3; pace += 0.5)
        for (double p = 0.05; p < 1; p += 0.05) {
            struct hope h;
            uint32_t best = 0;
            for (uint32_t k = 1; k <= DRAFT_MAX; k++)
                best = worth(p, k, pace) > worth(p, best, pace) + 1e-9 ? k : best;
            hope_begin(&h, &o, pace);
            h = hope_with(h, &o, p, 0, DRAFT_MAX);
            CHECK(h.n == DRAFT_MAX && (h.n_best == best || fabs(worth(p, h.n_best, pace) - worth(p, best, pace)) < 1e-9));
            CHECK(fabs(h.best - worth(p, h.n_best, pace)) < 1e-9);
        }
}

/* A step of eight rows is delayed the first time it is taken: guesses that come true are tried again all the same */
static void delay(void)
{
    struct odds o = { 0 };
    struct hope h;
    odds_learn_step(&o, 1, 1e-3);
    odds_learn_step(&o, 8, 1);
    CHECK(odds_cost(&o, 8) < 4);
    for (int i = 0; i < 400; i++)
        odds_learn_step(&o, 8, 1); /* not a delay, but what it costs */
    hope_begin(&h, &o, 1);
    CHECK(hope_with(h, &o, 0.9, 0, 7).n_best == 0);
    double was = odds_cost(&o, 8);
    odds_forget(&o, KIND_LOOKUP);
    CHECK(odds_cost(&o, 8) < was && odds_cost(&o, 8) > 0.98 * was);
    for (int i = 0; i < 3000; i++)
        odds_forget(&o, KIND_LOOKUP);
    hope_begin(&h, &o, 1);
    CHECK(hope_with(h, &o, 0.9, 0, 7).n_best > 0);
}

static void pace(void)
{
    struct odds o = { 0 };
    CHECK(odds_pace(&o) == 1);
    for (int i = 0; i < 200; i++)
        odds_learn_round(&o, 6, 6, 0); /* six ids for two steps' time */
    CHECK(fabs(odds_pace(&o) - 3) < 1e-6);
    for (int i = 0; i < 200; i++)
        odds_learn_round(&o, 1, 6, 0);
    CHECK(odds_pace(&o) == 1); /* a step of one row is always there */
}

/* ---- tokens a pass ---- */

enum { PERIOD = 60, BEFORE = 100, AFTER = 120 };

/* Ids [BEFORE + AFTER] of which the first are the prompt and the others what the sampler is made to choose */
static struct draft_stats forced(model *m, const int32_t *ids, int draft)
{
    struct session_params p = { .n_ctx = BEFORE + AFTER + 8, .verify = true, .head = true };
    struct speculator sp;
    session *s;
    MUST(session_open(&s, m, &p, 0, &e));
    MUST(speculate_open(&sp, s, draft, &e));
    session_want(s, 1);
    MUST(session_prefill(s, ids, BEFORE, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    speculate_begin(&sp, ids, BEFORE);
    for (uint32_t i = 0; i < AFTER; i++)
        MUST(speculate_next(&sp, ids[BEFORE + i], AFTER - 1 - i, &e));
    speculate_end(&sp);
    struct draft_stats t = sp.stats;
    speculate_close(&sp);
    session_close(s);
    CHECK(t.tokens == AFTER && t.passes + t.accepted == t.tokens);
    return t;
}

static double a_pass(const struct draft_stats *t) { return (double)t->tokens / (double)t->passes; }

int main(void)
{
    static int32_t ids[BEFORE + AFTER];
    model *m;
    struct ids page = { 0 };
    look_ups();
    numbers();
    delay();
    pace();
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .backend = BACKEND_CPU }, &e));
    sample_page(m, &page, BEFORE + AFTER - 1);
    for (size_t i = 0; i < BEFORE + AFTER; i++)
        ids[i] = page.v[i % PERIOD];
    struct draft_stats repeated = forced(m, ids, 7), three = forced(m, ids, 3), chosen = forced(m, ids, DRAFT_AUTO), prose = forced(m, page.v, 3);
    printf("tokens a pass: text that repeats itself %.2f (7), %.2f (3), %.2f (auto); a page %.2f (3), %llu look-ups went on from the head\n", a_pass(&repeated),
           a_pass(&three), a_pass(&chosen), a_pass(&prose), (unsigned long long)prose.chained);
    CHECK(a_pass(&repeated) > 5 && a_pass(&three) > 2.5);
    CHECK(a_pass(&prose) > 1.1 && prose.head_accepted > 0 && prose.accepted > prose.head_accepted);
    ids_free(&page);
    model_close(m);
    return TEST_END();
}
