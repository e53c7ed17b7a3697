/* speculate.c - rounds, acceptance, and how many ids to guess. */
#include "model/speculate.h"

#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is known of success ---- */

/* Kinds of guesses: how long the match is */
static uint32_t kind_of_match(uint32_t n)
{
    static const uint32_t upto[] = { 2, 3, 4, 6, 9, 15, 31 };
    uint32_t kind = 0;
    while (kind < COUNT_OF(upto) && n > upto[kind])
        kind++;
    return kind;
}

/* Before anything was tried: long matches come true, short ones seldom. Counts as so many tries. */
enum { PRIOR_TRIES = 6, REMEMBERED = 200 };
static const double prior[DRAFT_KINDS] = { 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9 };

static double chance(const struct speculator *sp, uint32_t kind)
{
    return (sp->kinds[kind].right + PRIOR_TRIES * prior[kind]) / (sp->kinds[kind].tried + PRIOR_TRIES);
}

/* The first guesses of a round count one by one until one fails: the ones behind it were never put to the test */
static void learn(struct speculator *sp, uint32_t kind, uint32_t right, uint32_t tried)
{
    sp->kinds[kind].right += right;
    sp->kinds[kind].tried += tried;
    if (sp->kinds[kind].tried > REMEMBERED) { /* texts change */
        sp->kinds[kind].right /= 2;
        sp->kinds[kind].tried /= 2;
    }
}

/* ---- what is known of costs ---- */

/* Seconds of a step of n rows. What was not seen lies on the line between its neighbours; before any step of several rows was seen, a row more costs a
 * fifth of a step. */
static double cost_of(const struct speculator *sp, uint32_t n)
{
    uint32_t below = n, above = n;
    while (below > 1 && sp->cost[below] <= 0)
        below--;
    while (above < SESSION_VERIFY_MAX && sp->cost[above] <= 0)
        above++;
    double lo = sp->cost[below];
    if (lo <= 0)
        return 1 + 0.2 * (n - 1); /* in unknown units: only ratios count */
    if (sp->cost[above] <= 0)
        return lo * (1 + 0.2 * (n - 1)) / (1 + 0.2 * (below - 1));
    return above == below ? lo : lo + (sp->cost[above] - lo) * (n - below) / (above - below);
}

/* A moving mean that a single delay cannot spoil: what takes more than twice as long counts as twice */
static void learn_cost(struct speculator *sp, uint32_t n, double seconds)
{
    double *c = &sp->cost[n];
    *c = *c > 0 ? *c + 0.1 * (MIN(seconds, 2 * *c) - *c) : seconds;
}

/* How many of the guesses are worth a row: the number with the most ids per second. p: how likely one comes true. */
static uint32_t best_number(const struct speculator *sp, double p, uint32_t most)
{
    double ids = 1, all = 1, best = 1 / cost_of(sp, 1);
    uint32_t n_best = 0;
    for (uint32_t n = 1; n <= most; n++) {
        all *= p;
        ids += all;
        if (ids / cost_of(sp, n + 1) > best) {
            best = ids / cost_of(sp, n + 1);
            n_best = n;
        }
    }
    return n_best;
}

/* ---- rounds ---- */

void drafts_add(struct draft_stats *sum, const struct draft_stats *t)
{
    sum->passes += t->passes;
    sum->rounds += t->rounds;
    sum->tokens += t->tokens;
    sum->drafted += t->drafted;
    sum->accepted += t->accepted;
    for (size_t i = 0; i < DRAFT_MAX; i++) {
        sum->drafted_at[i] += t->drafted_at[i];
        sum->accepted_at[i] += t->accepted_at[i];
    }
}

status speculate_open(struct speculator *sp, session *s, int draft, struct err *e)
{
    *sp = (struct speculator){ .s = s, .draft = draft };
    return draft == DRAFT_OFF ? OK : lookup_open(&sp->lookup, session_n_ctx(s), e);
}

void speculate_close(struct speculator *sp) { lookup_close(&sp->lookup); }

void speculate_begin(struct speculator *sp, const int32_t *ids, size_t n)
{
    memset(&sp->stats, 0, sizeof sp->stats);
    sp->n_guess = sp->n_right = 0;
    if (sp->draft == DRAFT_OFF)
        return;
    lookup_reset(&sp->lookup);
    lookup_push(&sp->lookup, ids, n);
}

void speculate_end(struct speculator *sp)
{
    struct draft_stats *t = &sp->stats;
    for (uint32_t i = 0; i < sp->n_guess; i++) {
        t->drafted_at[i]++;
        t->accepted_at[i] += i < sp->n_right;
    }
    t->drafted += sp->n_guess;
    t->accepted += sp->n_right;
    if (sp->n_guess)
        learn(sp, sp->kind, sp->n_right, MIN(sp->n_guess, sp->n_right + 1));
    sp->n_guess = sp->n_right = 0;
}

/* What is guessed to follow; most: at most so many */
static uint32_t guess(struct speculator *sp, uint32_t most)
{
    uint32_t n_match, n = 0;
    if (most)
        n = lookup_guess(&sp->lookup, sp->guess, most, &n_match);
    if (n == 0)
        return 0;
    sp->kind = kind_of_match(n_match);
    if (sp->draft != DRAFT_AUTO)
        return n;
    n = best_number(sp, chance(sp, sp->kind), n);
    if (n == 0) /* what failed is forgotten slowly, so that it is tried again */
        sp->kinds[sp->kind].right *= 0.99, sp->kinds[sp->kind].tried *= 0.99;
    return n;
}

status speculate_next(struct speculator *sp, int32_t id, size_t room, struct err *e)
{
    int32_t rows[SESSION_VERIFY_MAX] = { id };
    size_t left = session_n_ctx(sp->s) - MIN(session_n_ctx(sp->s), session_n_past(sp->s) + 1);
    sp->stats.tokens++;
    if (sp->draft == DRAFT_OFF) {
        sp->stats.passes++;
        return session_decode(sp->s, id, e);
    }
    lookup_push(&sp->lookup, &id, 1);
    if (session_follow(sp->s, id)) {
        sp->n_right++;
        return OK;
    }
    speculate_end(sp);
    uint32_t most = sp->draft == DRAFT_AUTO ? (uint32_t)DRAFT_MAX : (uint32_t)sp->draft;
    most = (uint32_t)MIN((size_t)most, MIN(room ? room - 1 : 0, left)); /* the last id of an answer needs no row */
    uint32_t n = guess(sp, most);
    memcpy(rows + 1, sp->guess, n * sizeof *rows);
    double t0 = now();
    status s = session_verify(sp->s, rows, n + 1, e);
    if (s != OK)
        return s;
    learn_cost(sp, n + 1, now() - t0);
    sp->n_guess = n;
    sp->stats.passes++;
    sp->stats.rounds += n > 0;
    return OK;
}
