/* speculate_rows.c - guesses of several answers that share the rows of a step: see speculate.h. */
#include "model/speculate.h"

#include "model/console.h"

#include <string.h>

/* What an answer has to offer: ids that were looked up, or that its draft head said, and the chance of each behind the one before; most: it may have so many */
struct offer {
    uint32_t n, kind, given, most, match;
    double chance;
};

static struct offer look(struct speculator *sp, uint32_t most)
{
    struct offer x = { .most = most };
    if (most == 0)
        return x;
    x.n = lookup_guess(&sp->lookup, sp->guess, most, &x.match);
    x.kind = KIND_LOOKUP + odds_match(x.match);
    x.chance = odds_kind(&sp->odds, x.kind);
    memset(sp->kind, (int)x.kind, sizeof sp->kind);
    return x;
}

/* n guesses of the head in place of what was looked up; what they cost counts in steps of o */
static status ask(struct speculator *sp, int32_t id, uint32_t n, struct offer *x, struct odds *o, struct err *e)
{
    for (x->n = 0; x->n < n; x->n++) {
        struct guess g;
        double t0 = console_now();
        TRY(session_guess(sp->s, id, x->n, 1, &g, e));
        odds_learn_head(o, 1, console_now() - t0);
        sp->guess[x->n] = g.id;
        sp->kind[x->n] = (uint8_t)odds_lead(g.lead);
    }
    x->kind = sp->kind[0];
    x->chance = odds_kind(&sp->odds, x->kind);
    return session_guess_end(sp->s, e);
}

/* Whose guess is likeliest to come true, of those that were not given a row; n: nobody's */
static uint32_t likeliest(const struct offer *x, const uint32_t *given, const double *chance, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (given[i] < x[i].n && (best == n || chance[i] > chance[best]))
            best = i;
    return best;
}

/* Tokens that a step brings, and the time that it takes in steps without guesses: what there is of both beside the guesses, and with the best of them */
struct pace {
    double ids, time, spent; /* spent: by draft heads, whatever becomes of it */
    uint32_t rows;
};

/* Rows go to guesses one by one, and it ends where ids per time are the most. */
static struct pace give(struct offer *x, uint32_t n, uint32_t n_row, const struct odds *o, double spent)
{
    uint32_t given[SESSION_SEQ_MAX] = { 0 };
    double chance[SESSION_SEQ_MAX], ids = n;
    struct pace best = { n, odds_cost(o, 1) + spent, spent, 0 };
    for (uint32_t i = 0; i < n; i++) {
        chance[i] = x[i].chance;
        x[i].given = 0;
    }
    for (uint32_t k = 1, i; k <= n_row && (i = likeliest(x, given, chance, n)) < n; k++) {
        ids += chance[i];
        chance[i] *= x[i].chance;
        given[i]++;
        double time = odds_cost(o, 1 + k) + spent;
        if (ids * best.time <= best.ids * time)
            continue;
        best.ids = ids, best.time = time, best.rows = k;
        for (uint32_t j = 0; j < n; j++)
            x[j].given = given[j];
    }
    return best;
}

/* Whether the head of an answer without a look-up should be asked for one guess, beside what the others have. Where it would not pay it rests for a while, and so
 * it does where there are no rows; what failed is forgotten slowly, so that it is tried again. */
static bool head_pays(struct speculator *sp, const struct offer *x, const struct pace *p, uint32_t n_row, const struct odds *o)
{
    enum { REST = 64 };
    if (x->given || !session_has_head(sp->s))
        return false;
    if (sp->head_rests && --sp->head_rests)
        return false;
    bool pays = p->rows < n_row && (o->head_ratio <= 0 || (p->ids + odds_head(&sp->odds)) * p->time > p->ids * (odds_cost(o, 2 + p->rows) + p->spent + o->head_ratio));
    session_rest_head(sp->s, !pays);
    if (!pays)
        sp->head_rests = REST;
    if (!pays && p->rows < n_row)
        sp->odds.head.right *= 0.8, sp->odds.head.tried *= 0.8;
    return pays && x->most > 0 && o->step_seconds > 0 && session_can_guess(sp->s);
}

/* Guesses where they are worth it, by what steps of n answers cost */
static status choose(struct speculator *const *sp, const int32_t *ids, struct offer *x, uint32_t n, uint32_t n_row, struct odds *o, struct err *e)
{
    struct pace p = give(x, n, n_row, o, 0);
    double spent = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!head_pays(sp[i], &x[i], &p, n_row, o))
            continue;
        TRY(ask(sp[i], ids[i], 1, &x[i], o, e));
        spent += o->head_ratio;
        p = give(x, n, n_row, o, spent);
        if (!x[i].given) /* never put to the test, and paid for */
            odds_count(&sp[i]->odds.head, false);
    }
    return OK;
}

/* As many as were asked for: the head's, where it has seen the text and nothing long was found in it */
static status fill(struct speculator *const *sp, const int32_t *ids, struct offer *x, uint32_t n, struct odds *o, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (x[i].most && x[i].match < SPECULATE_LONG && session_can_guess(sp[i]->s))
            TRY(ask(sp[i], ids[i], x[i].most, &x[i], o, e));
        x[i].given = x[i].n;
    }
    return OK;
}

/* What did not get a row may be worth one later */
static void forget(struct speculator *const *sp, const struct offer *x, uint32_t n, struct odds *o)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].n && x[i].kind < KIND_HEAD && sp[i]->draft == DRAFT_AUTO) {
            odds_forget(&sp[i]->odds, x[i].kind);
            odds_forget(o, x[i].kind);
        }
}

status speculate_rows(struct speculator *const *sp, const int32_t *ids, const size_t *room, uint32_t n, struct odds *o, struct err *e)
{
    int32_t row[SESSION_SEQ_MAX][SESSION_VERIFY_MAX];
    struct session_rows step[SESSION_SEQ_MAX];
    struct offer x[SESSION_SEQ_MAX];
    bool automatic = sp[0]->draft == DRAFT_AUTO;
    uint32_t left = SESSION_VERIFY_MAX - n, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        speculate_end(sp[i]);
        x[i] = look(sp[i], MIN(speculate_most(sp[i], room[i]), automatic ? left : left / n));
    }
    TRY(automatic ? choose(sp, ids, x, n, left, o, e) : fill(sp, ids, x, n, o, e));
    for (uint32_t i = 0; i < n; i++) {
        row[i][0] = ids[i];
        memcpy(row[i] + 1, sp[i]->guess, x[i].given * sizeof **row);
        step[i] = (struct session_rows){ sp[i]->s, row[i], 1 + x[i].given };
        sum += x[i].given;
    }
    if (sum == 0)
        forget(sp, x, n, o);
    double t0 = console_now();
    TRY(session_verify_rows(step, n, e));
    odds_learn_step(o, 1 + sum, console_now() - t0);
    for (uint32_t i = 0; i < n; i++)
        speculate_count(sp[i], x[i].given, false);
    return OK;
}
