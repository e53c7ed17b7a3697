/* unit_sample.c - the sampler against a straightforward second version, a distribution, and cases worked out by hand. */
#include "model/sample.h"
#include "tests/test.h"

#include <math.h>

enum { N_MAX = 400 };
static struct err e;

static sampler *open_sampler(size_t n, struct sample_params p)
{
    sampler *s = NULL;
    CHECK(sampler_open(&s, n, &p, &e) == OK);
    if (!s)
        exit(1);
    return s;
}
static int32_t choose_once(size_t n, struct sample_params p, const float *logits)
{
    sampler *s = open_sampler(n, p);
    int32_t id = sampler_choose(s, logits, NULL, 0);
    sampler_close(s);
    return id;
}
static double uniform(void) { return rand() / (RAND_MAX + 1.0); }

/* ---- the second version: probability of every id, by sorting everything and following the definitions ---- */

struct slow {
    double p[N_MAX]; /* 0: cannot be drawn */
};
static struct slow slow_probs(const float *logits, int n, struct sample_params q, const int32_t *window, int n_window)
{
    static double x[N_MAX], soft[N_MAX];
    static int order[N_MAX];
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int j = 0; j < n_window; j++)
            count += window[j] == i;
        float v = isnan(logits[i]) ? -INFINITY : logits[i];
        if (count) {
            v = v > 0 ? v / q.repeat_penalty : v * q.repeat_penalty;
            v -= (float)count * q.frequency_penalty + q.presence_penalty;
        }
        x[i] = (double)v;
        order[i] = i;
    }
    for (int i = 0; i < n; i++) /* selection sort; the first of equals stays first */
        for (int j = i + 1; j < n; j++)
            if (x[order[j]] > x[order[i]] || (x[order[j]] == x[order[i]] && order[j] < order[i])) {
                int t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
    int kept = n;
    while (kept > 1 && x[order[kept - 1]] == (double)-INFINITY)
        kept--;
    if (q.top_k > 0 && q.top_k < kept)
        kept = q.top_k;
    double sum = 0, upto = 0;
    for (int i = 0; i < kept; i++)
        sum += soft[i] = exp(x[order[i]] - x[order[0]]);
    if (q.top_p < 1)
        for (int i = 0; i < kept; i++)
            if ((upto += soft[i] / sum) >= (double)q.top_p - 1e-12) {
                kept = i + 1;
                break;
            }
    if (q.min_p > 0)
        while (kept > 1 && soft[kept - 1] < (double)q.min_p)
            kept--;
    struct slow r = { { 0 } };
    sum = 0;
    for (int i = 0; i < kept; i++)
        sum += r.p[order[i]] = exp((x[order[i]] - x[order[0]]) / (double)q.temp);
    for (int i = 0; i < n; i++)
        r.p[i] /= sum;
    return r;
}

/* Draws often and compares the frequencies: nothing outside the support, chi-square below a bound far beyond chance. */
static void check_distribution(const float *logits, int n, struct sample_params q, const int32_t *window, int n_window)
{
    enum { DRAWS = 4000 };
    static int hits[N_MAX];
    memset(hits, 0, sizeof hits);
    struct slow want = slow_probs(logits, n, q, window, n_window);
    sampler *s = open_sampler((size_t)n, q);
    for (int i = 0; i < n_window; i++)
        sampler_accept(s, window[i]);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sampler_choose(s, logits, NULL, 0);
        CHECK(id >= 0 && id < n);
        if (id < 0 || id >= n)
            break;
        hits[id]++;
    }
    sampler_close(s);
    double chi = 0, rest_want = 0, rest_hits = 0;
    int cells = 0, outside = 0;
    for (int i = 0; i < n; i++) {
        double expect = want.p[i] * DRAWS;
        outside += expect == 0 && hits[i] > 0;
        if (expect >= 5) {
            chi += (hits[i] - expect) * (hits[i] - expect) / expect;
            cells++;
        } else {
            rest_want += expect;
            rest_hits += hits[i];
        }
    }
    if (rest_want >= 5) {
        chi += (rest_hits - rest_want) * (rest_hits - rest_want) / rest_want;
        cells++;
    }
    CHECK(outside == 0);
    /* mean cells - 1, deviation sqrt(2 cells): six of them and a little for few cells */
    CHECK(chi < cells + 6 * sqrt(2.0 * cells + 1) + 6);
}

static void test_random(void)
{
    static float logits[N_MAX];
    for (int round = 0; round < 50; round++) {
        int n = 1 + rand() % N_MAX;
        for (int i = 0; i < n; i++) {
            logits[i] = (float)(uniform() * 12 - 6);
            if (rand() % 3 == 0)
                logits[i] = roundf(logits[i]); /* ties */
            if (rand() % 20 == 0)
                logits[i] = rand() % 2 ? -INFINITY : NAN;
        }
        logits[rand() % n] = 1; /* at least one is possible */
        struct sample_params q = {
            .temp = (float)(0.2 + uniform() * 2),
            .top_k = rand() % 4 ? rand() % (n + 5) : 0,
            .top_p = rand() % 3 ? (float)uniform() : 1,
            .min_p = rand() % 3 ? 0 : (float)(uniform() * 0.3),
            .repeat_penalty = rand() % 2 ? 1 : (float)(0.8 + uniform()),
            .presence_penalty = rand() % 2 ? 0 : (float)uniform(),
            .frequency_penalty = rand() % 2 ? 0 : (float)uniform(),
            .seed = (uint64_t)round,
        };
        int32_t window[SAMPLE_WINDOW];
        int n_window = rand() % (SAMPLE_WINDOW + 1);
        for (int i = 0; i < n_window; i++)
            window[i] = rand() % n;
        check_distribution(logits, n, q, window, n_window);
    }
}

static void test_greedy(void)
{
    struct sample_params greedy = SAMPLE_DEFAULTS;
    CHECK(choose_once(4, greedy, (float[]){ 1, 3, 3, 2 }) == 1);           /* lowest of equals */
    CHECK(choose_once(4, greedy, (float[]){ 0, 0, 0, 0 }) == 0);
    CHECK(choose_once(3, greedy, (float[]){ NAN, -INFINITY, -5 }) == 2);
    CHECK(choose_once(3, greedy, (float[]){ NAN, 2, INFINITY }) == 2);
    CHECK(choose_once(2, greedy, (float[]){ -INFINITY, -INFINITY }) == 0);
    CHECK(choose_once(2, greedy, (float[]){ NAN, NAN }) == 0);
    CHECK(choose_once(1, greedy, (float[]){ 7 }) == 0);
    greedy.temp = -1;
    CHECK(choose_once(2, greedy, (float[]){ 1, 2 }) == 1);

    greedy.temp = 0;
    sampler *s = open_sampler(4, greedy);
    CHECK(sampler_choose(s, (float[]){ 1, 4, 3, 2 }, (int32_t[]){ 1, 99, -1 }, 3) == 2); /* banned, and ids that do not exist */
    sampler_close(s);
}

static void test_cuts(void)
{
    static const float logits[5] = { 0, 2, 1, 2, -1 };
    struct sample_params q = { .temp = 1, .top_p = 1, .repeat_penalty = 1 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sample_params c = q;
        c.seed = seed;
        c.top_k = 1;
        CHECK(choose_once(5, c, logits) == 1); /* k = 1: the lower of the two best */
        c.top_k = 0;
        c.top_p = 0;
        CHECK(choose_once(5, c, logits) == 1); /* p = 0: one is always kept */
        c.top_p = 1;
        c.min_p = 1;
        int32_t id = choose_once(5, c, logits);
        CHECK(id == 1 || id == 3); /* min_p = 1: all that equal the best */
        c.min_p = 0;
        c.top_k = 3;
        id = choose_once(5, c, logits);
        CHECK(id == 1 || id == 3 || id == 2);
        CHECK(choose_once(3, c, (float[]){ -INFINITY, -3, NAN }) == 1);
        c.top_k = 2;
        id = choose_once(4, c, (float[]){ 1, 1, 1, 1 }); /* a tie at the border goes to the lower ids */
        CHECK(id == 0 || id == 1);
        c.top_k = 20; /* more than there are */
        CHECK(choose_once(1, c, (float[]){ 3 }) == 0);
        CHECK(choose_once(2, c, (float[]){ -INFINITY, -INFINITY }) == 0);
        CHECK(choose_once(2, c, (float[]){ 0, INFINITY }) == 1);
    }
    /* all equal: everything comes, evenly */
    static float flat[64];
    check_distribution(flat, 64, q, NULL, 0);
    q.top_p = 0.5f;
    check_distribution(flat, 64, q, NULL, 0);
    /* a tiny temperature is greedy, a huge one is flat */
    q = (struct sample_params){ .temp = 1e-3f, .top_p = 1, .repeat_penalty = 1 };
    CHECK(choose_once(3, q, (float[]){ 1, 2, 1.9f }) == 1);
}

static void test_penalties(void)
{
    struct sample_params q = { .repeat_penalty = 2, .top_p = 1 };
    sampler *s = open_sampler(4, q);
    static const float logits[4] = { 3, 2, -1, -1.5f };
    CHECK(sampler_choose(s, logits, NULL, 0) == 0);
    sampler_accept(s, 0);
    sampler_accept(s, 0);                            /* 3 -> 1.5, once however often */
    CHECK(sampler_choose(s, logits, NULL, 0) == 1);
    sampler_accept(s, 1);                            /* 2 -> 1 */
    CHECK(sampler_choose(s, logits, NULL, 0) == 0);
    sampler_reset(s);
    CHECK(sampler_choose(s, logits, NULL, 0) == 0);
    sampler_accept(s, 2);                            /* -1 -> -2: below -1.5 */
    CHECK(sampler_choose(s, (float[]){ -9, -9, -1, -1.5f }, NULL, 0) == 3);
    sampler_close(s);

    q = (struct sample_params){ .repeat_penalty = 1, .presence_penalty = 0.75f, .frequency_penalty = 0.5f, .top_p = 1 };
    s = open_sampler(2, q);
    sampler_accept(s, 0); /* 0: -0.75 - 0.5 = -1.25 */
    CHECK(sampler_choose(s, (float[]){ 1.3f, 0 }, NULL, 0) == 0);
    CHECK(sampler_choose(s, (float[]){ 1.2f, 0 }, NULL, 0) == 1);
    sampler_accept(s, 0); /* -0.75 - 1 = -1.75 */
    CHECK(sampler_choose(s, (float[]){ 1.8f, 0 }, NULL, 0) == 0);
    CHECK(sampler_choose(s, (float[]){ 1.7f, 0 }, NULL, 0) == 1);
    for (int i = 0; i < SAMPLE_WINDOW; i++) /* pushes both out of the window */
        sampler_accept(s, 1);
    CHECK(sampler_choose(s, (float[]){ 0.001f, 0 }, NULL, 0) == 0);
    sampler_accept(s, 77); /* ids outside the vocabulary do no harm */
    sampler_accept(s, -1);
    CHECK(sampler_choose(s, (float[]){ 0, 1 }, NULL, 0) == 0);
    sampler_close(s);
}

static void test_stream(void)
{
    static float logits[100];
    for (int i = 0; i < 100; i++)
        logits[i] = (float)uniform();
    struct sample_params q = { .temp = 1, .top_p = 1, .repeat_penalty = 1, .seed = 42 };
    int32_t first[50];
    sampler *s = open_sampler(100, q);
    for (int i = 0; i < 50; i++)
        first[i] = sampler_choose(s, logits, NULL, 0);
    sampler_reset(s);
    int same = 0, other = 0;
    for (int i = 0; i < 50; i++)
        same += sampler_choose(s, logits, NULL, 0) == first[i];
    CHECK(same == 50);
    sampler_close(s);
    q.seed = 43;
    s = open_sampler(100, q);
    for (int i = 0; i < 50; i++)
        other += sampler_choose(s, logits, NULL, 0) == first[i];
    CHECK(other < 20);
    /* one draw per choice, also where only one id was possible */
    sampler_reset(s);
    sampler_choose(s, logits, NULL, 0);
    int32_t second = sampler_choose(s, logits, NULL, 0);
    sampler_reset(s);
    static float one[100];
    for (int i = 0; i < 100; i++)
        one[i] = i ? -INFINITY : 0;
    CHECK(sampler_choose(s, one, NULL, 0) == 0);
    CHECK(sampler_choose(s, logits, NULL, 0) == second);
    sampler_close(s);
    CHECK(sampler_open(&s, 0, &q, &e) == ERR_USAGE);
}

/* How many of the largest logits decide, and that the others do not */
static void test_needs(void)
{
    struct sample_params q = SAMPLE_DEFAULTS;
    sampler *s = open_sampler(100, q);
    CHECK(sampler_needs(s, 0) == 1 && sampler_needs(s, 3) == 4 && sampler_needs(s, 1000) == 100);
    CHECK(sampler_choose_best(s, (struct candidate[]){ { 3, 1 }, { 7, 2 }, { 9, 2 } }, 3, NULL, 0) == 7);
    CHECK(sampler_choose_best(s, (struct candidate[]){ { 3, 1 }, { 7, 2 }, { 9, 2 } }, 3, (int32_t[]){ 7 }, 1) == 9);
    CHECK(sampler_choose_best(s, NULL, 0, NULL, 0) == 0);
    sampler_close(s);
    q.temp = 1;
    s = open_sampler(100, q);
    CHECK(sampler_needs(s, 0) == 20 && sampler_needs(s, 2) == 22 && sampler_needs(s, 99) == 100);
    CHECK(sampler_choose_best(s, (struct candidate[]){ { 5, -INFINITY }, { 6, NAN }, { 8, -3 } }, 3, NULL, 0) == 8);
    CHECK(sampler_choose_best(s, NULL, 0, NULL, 0) == 0);
    sampler_close(s);
    q.top_k = 0; /* all that there are may be drawn */
    s = open_sampler(100, q);
    CHECK(sampler_needs(s, 0) == 0);
    sampler_close(s);
    for (int i = 0; i < 3; i++) { /* a penalty may bring up what is far down */
        struct sample_params p = SAMPLE_DEFAULTS;
        *(i == 0 ? &p.repeat_penalty : i == 1 ? &p.presence_penalty : &p.frequency_penalty) = 1.1f;
        s = open_sampler(100, p);
        CHECK(sampler_needs(s, 0) == 0);
        sampler_close(s);
    }
}

int main(void)
{
    srand((unsigned)test_seed(20260815));
    test_greedy();
    test_cuts();
    test_penalties();
    test_stream();
    test_needs();
    test_random();
    return TEST_END();
}
