/* sample.c - from logits to one id.
 *
 * NaN counts as -infinity and +infinity as the largest float, so damaged logits choose something instead of spreading. Candidates are
 * ordered by logit, equal ones by id, so every cut (k, p) is defined and the lower index wins a tie. Sums are double, in that order. */
#include "model/sample.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    struct sample_params p;
    size_t n_vocab;
    uint64_t stream;                /* splitmix64 */
    int32_t window[SAMPLE_WINDOW];  /* ring of the last ids */
    size_t n_window, next;
    float *logit;                   /* [n_vocab] after bans and penalties */
    struct candidate *cand;         /* [n_vocab] */
    double *prob;                   /* [n_vocab] */
};

status sampler_open(sampler **out, size_t n_vocab, const struct sample_params *p, struct err *e)
{
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return fail(e, ERR_USAGE, "sampler: a vocabulary of %zu, expected 1..%d", n_vocab, INT32_MAX);
    sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->p = *p;
        s->n_vocab = n_vocab;
        s->logit = malloc(n_vocab * sizeof *s->logit);
        s->cand = malloc(n_vocab * sizeof *s->cand);
        s->prob = malloc(n_vocab * sizeof *s->prob);
    }
    if (!s || !s->logit || !s->cand || !s->prob) {
        sampler_close(s);
        return fail(e, ERR_NOMEM, "sampler for %zu ids", n_vocab);
    }
    sampler_reset(s);
    *out = s;
    return OK;
}

void sampler_close(sampler *s)
{
    if (!s)
        return;
    free(s->logit);
    free(s->cand);
    free(s->prob);
    free(s);
}

void sampler_reset(sampler *s)
{
    s->stream = s->p.seed;
    s->n_window = s->next = 0;
}

void sampler_accept(sampler *s, int32_t id)
{
    s->window[s->next] = id;
    s->next = (s->next + 1) % SAMPLE_WINDOW;
    s->n_window = MIN(s->n_window + 1, (size_t)SAMPLE_WINDOW);
}

/* Uniform in [0, 1) with 53 bits */
static double draw(sampler *s)
{
    uint64_t z = s->stream += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The value of a logit, whatever it is */
static float clean(float x) { return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : x; }

static bool penalises(const struct sample_params *p) { return p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0; }

/* Every distinct id of the window once: positive logits are divided by the repetition penalty and others multiplied, then
 * count x frequency and one presence penalty are taken off. */
static void penalise(sampler *s)
{
    const struct sample_params *p = &s->p;
    if (!penalises(p))
        return;
    for (size_t i = 0; i < s->n_window; i++) {
        int32_t id = s->window[i];
        size_t count = 0;
        bool seen = false;
        for (size_t j = 0; j < s->n_window; j++) {
            count += s->window[j] == id;
            seen |= j < i && s->window[j] == id;
        }
        if (seen || id < 0 || (size_t)id >= s->n_vocab || s->logit[id] == -INFINITY)
            continue;
        float x = s->logit[id];
        x = x > 0 ? x / p->repeat_penalty : x * p->repeat_penalty;
        x -= (float)count * p->frequency_penalty + p->presence_penalty;
        s->logit[id] = x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
    }
}

static bool before(struct candidate a, struct candidate b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

static int by_logit(const void *x, const void *y)
{
    struct candidate a = *(const struct candidate *)x, b = *(const struct candidate *)y;
    return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

/* Restores the heap c[n], whose root is the candidate that every other one comes before, after c[at] was replaced. */
static void sift_down(struct candidate *c, size_t n, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n)
            return;
        if (child + 1 < n && before(c[child], c[child + 1]))
            child++;
        if (!before(c[at], c[child]))
            return;
        struct candidate t = c[at];
        c[at] = c[child];
        c[child] = t;
        at = child;
    }
}

/* The best k ids that are possible at all, in order; returns how many there are. */
static size_t candidates(sampler *s, size_t k)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_vocab; i++) {
        struct candidate c = { (int32_t)i, s->logit[i] };
        if (c.logit == -INFINITY)
            continue;
        if (n < k) {
            s->cand[n++] = c;
            if (n == k && k < s->n_vocab)
                for (size_t j = n / 2; j-- > 0;)
                    sift_down(s->cand, n, j);
        } else if (before(c, s->cand[0])) {
            s->cand[0] = c;
            sift_down(s->cand, n, 0);
        }
    }
    qsort(s->cand, n, sizeof *s->cand, by_logit);
    return n;
}

/* Softmax weights of the candidates at a temperature, relative to the first; returns their sum. */
static double weigh(sampler *s, size_t n, double temp)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += s->prob[i] = exp(((double)s->cand[i].logit - (double)s->cand[0].logit) / temp);
    return sum;
}

/* One of the n candidates, which are in order and cut to top-k already */
static int32_t draw_one(sampler *s, size_t n)
{
    const struct sample_params *p = &s->p;
    double u = draw(s); /* one draw per choice, whatever is cut */
    if (n == 0)
        return 0;
    if (p->top_p < 1) {
        double sum = weigh(s, n, 1), upto = 0;
        for (size_t i = 0; i < n; i++)
            if ((upto += s->prob[i]) >= (double)p->top_p * sum)
                n = i + 1;
    }
    if (p->min_p > 0) {
        size_t kept = 1;
        weigh(s, n, 1); /* relative to the best, as the rule is */
        while (kept < n && s->prob[kept] >= (double)p->min_p)
            kept++;
        n = kept;
    }
    double target = u * weigh(s, n, (double)p->temp), upto = 0;
    for (size_t i = 0; i < n; i++)
        if ((upto += s->prob[i]) > target)
            return s->cand[i].id;
    return s->cand[n - 1].id; /* rounding of the sum */
}

int32_t sampler_choose(sampler *s, const float *logits, const int32_t *banned, size_t n_banned)
{
    for (size_t i = 0; i < s->n_vocab; i++)
        s->logit[i] = clean(logits[i]);
    for (size_t i = 0; i < n_banned; i++)
        if (banned[i] >= 0 && (size_t)banned[i] < s->n_vocab)
            s->logit[banned[i]] = -INFINITY;
    penalise(s);

    const struct sample_params *p = &s->p;
    if (!(p->temp > 0)) {
        size_t best = 0;
        for (size_t i = 1; i < s->n_vocab; i++)
            if (s->logit[i] > s->logit[best])
                best = i;
        return (int32_t)best;
    }
    return draw_one(s, candidates(s, p->top_k > 0 ? MIN((size_t)p->top_k, s->n_vocab) : s->n_vocab));
}

size_t sampler_needs(const sampler *s, size_t n_banned)
{
    bool samples = s->p.temp > 0;
    if (penalises(&s->p) || (samples && s->p.top_k <= 0))
        return 0;
    return MIN((samples ? (size_t)s->p.top_k : 1) + n_banned, s->n_vocab);
}

static bool contains(const int32_t *ids, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

int32_t sampler_choose_best(sampler *s, const struct candidate *best, size_t n, const int32_t *banned, size_t n_banned)
{
    size_t kept = 0;
    for (size_t i = 0; i < MIN(n, s->n_vocab); i++) {
        struct candidate c = { best[i].id, clean(best[i].logit) };
        if (c.logit > -INFINITY && !contains(banned, n_banned, c.id))
            s->cand[kept++] = c;
    }
    qsort(s->cand, kept, sizeof *s->cand, by_logit);
    if (!(s->p.temp > 0))
        return kept ? s->cand[0].id : 0;
    return draw_one(s, MIN(kept, (size_t)s->p.top_k));
}
