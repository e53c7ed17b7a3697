/* odds.c - see odds.h. */
#include "model/odds.h"

/* ---- success ---- */

uint32_t odds_match(uint32_t n)
{
    static const uint32_t upto[LOOKUP_KINDS - 1] = { 2, 3, 4, 6, 9, 15, 31 };
    uint32_t kind = 0;
    while (kind < COUNT_OF(upto) && n > upto[kind])
        kind++;
    return kind;
}

uint32_t odds_lead(float lead)
{
    static const float upto[HEAD_KINDS - 1] = { 0.25f, 0.75f, 1.5f, 3, 5 };
    uint32_t kind = 0;
    while (kind < COUNT_OF(upto) && lead > upto[kind])
        kind++;
    return KIND_HEAD + kind;
}

/* Before anything was tried: long matches come true, short ones seldom unless the head agrees, and the head is right where it is sure. Counts as so many
 * tries. */
enum { PRIOR_TRIES = 6, REMEMBERED = 200 };
static const double prior[DRAFT_KINDS] = { 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.25, 0.35, 0.45, 0.55, 0.7, 0.8 };

static double mean_of(struct odds_tally t, double before) { return (t.right + PRIOR_TRIES * before) / (t.tried + PRIOR_TRIES); }
double odds_kind(const struct odds *o, uint32_t kind) { return mean_of(o->kind[kind], prior[kind]); }
double odds_head(const struct odds *o) { return mean_of(o->head, 0.5); }
double odds_agrees(const struct odds *o, uint32_t match) { return mean_of(o->agrees[match], prior[match]); }

void odds_count(struct odds_tally *t, bool right)
{
    t->right += right;
    t->tried += 1;
    if (t->tried > REMEMBERED) { /* texts change */
        t->right /= 2;
        t->tried /= 2;
    }
}

/* ---- cost ---- */

#define ROW_MORE 0.2 /* steps that a row more costs, before any step of several rows was seen */

/* Everything counts in steps of one row, because a machine is now faster and now slower and most numbers of rows are seen seldom. What was not seen lies on
 * the line between its neighbours. */
double odds_cost(const struct odds *o, uint32_t n)
{
    uint32_t below = n, above = n;
    while (below > 1 && o->ratio[below] <= 0)
        below--;
    while (above < SESSION_VERIFY_MAX && o->ratio[above] <= 0)
        above++;
    double lo = below > 1 ? o->ratio[below] : 1, hi = o->ratio[above];
    if (n == 1 || above == below)
        return lo;
    return hi > 0 ? lo + (hi - lo) * (n - below) / (above - below) : lo + ROW_MORE * (n - below);
}

/* A moving mean that a single delay cannot spoil: what is more than twice as much counts as twice */
static void move(double *mean, double x, double weight) { *mean = *mean > 0 ? *mean + weight * (MIN(x, 2 * *mean) - *mean) : x; }

/* The same for what a thing takes when nothing disturbs it: a machine with other work makes it longer, never shorter */
static void move_low(double *mean, double x, double weight) { move(mean, x, x < *mean ? 1.5 * weight : 0.5 * weight); }

void odds_learn_step(struct odds *o, uint32_t n, double seconds)
{
    if (n == 1) {
        move_low(&o->step_seconds, seconds, 0.2);
        return;
    }
    if (o->step_seconds > 0) {
        o->ratio[n] = odds_cost(o, n); /* the first time from what it should be, which one delay does not put out of reach */
        move_low(&o->ratio[n], MAX(1, seconds / o->step_seconds), 0.2);
    }
    if (o->ratio[n] > 0)
        move_low(&o->step_seconds, seconds / o->ratio[n], 0.2);
}

void odds_forget(struct odds *o, uint32_t kind)
{
    o->kind[kind].right *= 0.99, o->kind[kind].tried *= 0.99;
    for (uint32_t n = 2; n <= SESSION_VERIFY_MAX; n++)
        o->ratio[n] += 0.005 * (MIN(o->ratio[n], ROW_MORE * (n - 1) + 1) - o->ratio[n]);
}

void odds_learn_head(struct odds *o, uint32_t n, double seconds)
{
    if (o->step_seconds > 0)
        move_low(&o->head_ratio, seconds / n / o->step_seconds, 0.1);
}

void odds_learn_round(struct odds *o, uint32_t ids, uint32_t n, uint32_t n_head)
{
    move(&o->ids, ids, 0.05);
    move(&o->time, odds_cost(o, n) + n_head * o->head_ratio, 0.05);
}

double odds_pace(const struct odds *o) { return o->time > 0 ? MAX(1, o->ids / o->time) : 1; }

/* ---- how many ---- */

void hope_begin(struct hope *h, const struct odds *o, double pace)
{
    *h = (struct hope){ .pace = pace, .ids = 1, .all = 1, .best = 1 - pace * odds_cost(o, 1) };
}

void hope_add(struct hope *h, const struct odds *o, double p, double cost)
{
    h->all *= p;
    h->ids += h->all;
    h->spent += cost;
    h->n++;
    double worth = h->ids - h->pace * (odds_cost(o, h->n + 1) + h->spent);
    if (worth > h->best) {
        h->best = worth;
        h->n_best = h->n;
    }
}

struct hope hope_with(struct hope h, const struct odds *o, double p, double cost, uint32_t most)
{
    while (h.n < most)
        hope_add(&h, o, p, cost);
    return h;
}
