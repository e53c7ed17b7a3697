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

static uint32_t kind_of_lead(float lead)
{
    static const float upto[HEAD_KINDS - 1] = { 0.25f, 0.75f, 1.5f, 3, 5 };
    uint32_t kind = 0;
    while (kind < COUNT_OF(upto) && lead > upto[kind])
        kind++;
    return LOOKUP_KINDS + kind;
}

/* Before anything was tried: long matches come true, short ones seldom, and the head is right where it is sure. Counts as so many tries. */
enum { PRIOR_TRIES = 6, REMEMBERED = 200 };
static const double prior[DRAFT_KINDS] = { 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.25, 0.35, 0.45, 0.55, 0.7, 0.8 };
#define HEAD_PRIOR 0.5

static double mean_of(double right, double tried, double before) { return (right + PRIOR_TRIES * before) / (tried + PRIOR_TRIES); }
static double chance(const struct speculator *sp, uint32_t kind) { return mean_of(sp->kinds[kind].right, sp->kinds[kind].tried, prior[kind]); }
static double head_chance(const struct speculator *sp) { return mean_of(sp->head.right, sp->head.tried, HEAD_PRIOR); }

static void count(double *right, double *tried, bool was_right)
{
    *right += was_right;
    *tried += 1;
    if (*tried > REMEMBERED) { /* texts change */
        *right /= 2;
        *tried /= 2;
    }
}

/* Guesses count one by one until one fails: the ones behind it were never put to the test */
static void learn(struct speculator *sp)
{
    for (uint32_t i = 0; i < sp->n_guess && i <= sp->n_right; i++)
        count(&sp->kinds[sp->kind[i]].right, &sp->kinds[sp->kind[i]].tried, i < sp->n_right);
    if (sp->n_guess && sp->kind[0] >= LOOKUP_KINDS)
        count(&sp->head.right, &sp->head.tried, sp->n_right > 0);
}

/* ---- what is known of costs ---- */

/* Everything counts in steps of one row, because a machine is now faster and now slower and most numbers of rows are seen seldom: a step of n rows costs
 * ratio[n], a guess of the head head_ratio. What was not seen lies on the line between its neighbours; before any step of several rows was seen, a row more
 * costs a fifth of a step. */
static double cost_of(const struct speculator *sp, uint32_t n)
{
    uint32_t below = n, above = n;
    while (below > 1 && sp->ratio[below] <= 0)
        below--;
    while (above < SESSION_VERIFY_MAX && sp->ratio[above] <= 0)
        above++;
    double lo = below > 1 ? sp->ratio[below] : 1, hi = sp->ratio[above];
    if (n == 1 || above == below)
        return lo;
    return hi > 0 ? lo + (hi - lo) * (n - below) / (above - below) : lo + 0.2 * (n - below);
}

/* A moving mean that a single delay cannot spoil: what is more than twice as much counts as twice */
static void move(double *mean, double x, double weight) { *mean = *mean > 0 ? *mean + weight * (MIN(x, 2 * *mean) - *mean) : x; }

static void learn_cost(struct speculator *sp, uint32_t n, double seconds)
{
    if (n == 1) {
        move(&sp->step_seconds, seconds, 0.2);
        return;
    }
    if (sp->step_seconds > 0)
        move(&sp->ratio[n], MAX(1, seconds / sp->step_seconds), 0.1);
    if (sp->ratio[n] > 0)
        move(&sp->step_seconds, seconds / sp->ratio[n], 0.2);
}

/* Ids per step's time of a round whose first n guesses came true with chance p each; *n_best: the n, up to `most`, that makes it largest, 0 included. */
static double best_rate(const struct speculator *sp, double p, double guess_cost, uint32_t most, uint32_t *n_best)
{
    double ids = 1, all = 1, best = 1 / cost_of(sp, 1);
    *n_best = 0;
    for (uint32_t n = 1; n <= most; n++) {
        all *= p;
        ids += all;
        double rate = ids / (cost_of(sp, n + 1) + n * guess_cost);
        if (rate > best) {
            best = rate;
            *n_best = n;
        }
    }
    return best;
}

/* ---- rounds ---- */

void drafts_add(struct draft_stats *sum, const struct draft_stats *t)
{
    sum->passes += t->passes;
    sum->rounds += t->rounds;
    sum->tokens += t->tokens;
    sum->drafted += t->drafted;
    sum->accepted += t->accepted;
    sum->head_drafted += t->head_drafted;
    sum->head_accepted += t->head_accepted;
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
        bool right = i < sp->n_right, by_head = sp->kind[i] >= LOOKUP_KINDS;
        t->drafted_at[i]++;
        t->accepted_at[i] += right;
        t->head_drafted += by_head;
        t->head_accepted += by_head && right;
    }
    t->drafted += sp->n_guess;
    t->accepted += sp->n_right;
    learn(sp);
    sp->n_guess = sp->n_right = 0;
}

/* Guesses of the head: one after the other, as long as another one may pay. Returns how many are worth a row. */
static status ask_head(struct speculator *sp, int32_t id, uint32_t most, uint32_t *n_best, struct err *e)
{
    bool choose = sp->draft == DRAFT_AUTO;
    double ids = 1, all = 1, best = 1 / cost_of(sp, 1), p = head_chance(sp);
    uint32_t n = 0;
    *n_best = 0;
    while (n < most) {
        double t0 = now(), hope = (ids + all * p) / (cost_of(sp, n + 2) + (n + 1) * sp->head_ratio);
        if (choose && n > 0 && hope <= best)
            break;
        struct guess g;
        TRY(session_guess(sp->s, id, n, 1, &g, e));
        if (sp->step_seconds > 0)
            move(&sp->head_ratio, (now() - t0) / sp->step_seconds, 0.1);
        sp->guess[n] = g.id;
        sp->kind[n] = (uint8_t)kind_of_lead(g.lead);
        all *= chance(sp, sp->kind[n]);
        ids += all;
        n++;
        double rate = ids / cost_of(sp, n + 1); /* what was spent on guesses is spent */
        if (!choose || rate > best) {
            best = choose ? ids / (cost_of(sp, n + 1) + n * sp->head_ratio) : best;
            *n_best = n;
        }
    }
    return session_guess_end(sp->s, e);
}

/* Whether the head pays at all. If not it rests for a while, and what failed is forgotten slowly, so that it is tried again. */
static bool head_pays(struct speculator *sp, double rate, uint32_t most)
{
    enum { REST = 64 };
    uint32_t n;
    if (sp->head_rests && --sp->head_rests)
        return false;
    session_rest_head(sp->s, false);
    if (!session_can_guess(sp->s))
        return false;
    if (sp->head_ratio <= 0 || best_rate(sp, head_chance(sp), sp->head_ratio, most, &n) > rate)
        return true;
    if (rate <= 1 / cost_of(sp, 1)) { /* not only because a look-up is better */
        sp->head_rests = REST;
        sp->head.right *= 0.8, sp->head.tried *= 0.8;
        session_rest_head(sp->s, true);
    }
    return false;
}

/* What is guessed to follow id; most: at most so many */
static status guess(struct speculator *sp, int32_t id, uint32_t most, uint32_t *n, struct err *e)
{
    enum { LONG_MATCH = 4 };
    uint32_t n_match = 0, n_look = 0;
    double rate = 1 / cost_of(sp, 1);
    *n = 0;
    if (most == 0)
        return OK;
    n_look = lookup_guess(&sp->lookup, sp->guess, most, &n_match);
    if (n_look) {
        uint32_t kind = kind_of_match(n_match);
        memset(sp->kind, (int)kind, sizeof sp->kind);
        if (sp->draft == DRAFT_AUTO) {
            rate = best_rate(sp, chance(sp, kind), 0, n_look, &n_look);
            if (n_look == 0) /* forgotten slowly, so that it is tried again */
                sp->kinds[kind].right *= 0.99, sp->kinds[kind].tried *= 0.99;
        }
    }
    *n = n_look;
    if (!session_has_head(sp->s))
        return OK;
    if (sp->draft == DRAFT_AUTO ? head_pays(sp, rate, most) : n_match < LONG_MATCH && session_can_guess(sp->s))
        return ask_head(sp, id, most, n, e);
    return OK;
}

status speculate_next(struct speculator *sp, int32_t id, size_t room, struct err *e)
{
    int32_t rows[SESSION_VERIFY_MAX] = { id };
    size_t left = session_n_ctx(sp->s) - MIN(session_n_ctx(sp->s), session_n_past(sp->s) + 1);
    uint32_t n;
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
    TRY(guess(sp, id, most, &n, e));
    memcpy(rows + 1, sp->guess, n * sizeof *rows);
    double t0 = now();
    TRY(session_verify(sp->s, rows, n + 1, e));
    learn_cost(sp, n + 1, now() - t0);
    sp->n_guess = n;
    sp->stats.passes++;
    sp->stats.rounds += n > 0;
    return OK;
}
