/* speculate_rows.c - guesses of several answers that share the rows of a step: see speculate.h. */
#include "model/console.h"
#include "model/speculate.h"

#include <string.h>

/* What an answer has to offer: ids that were looked up, and the chance of each behind the one before */
struct offer {
    uint32_t n, kind, given;
    double chance;
};

static struct offer look(struct speculator *sp, uint32_t most)
{
    struct offer x = { 0 };
    uint32_t n_match;
    if (most == 0)
        return x;
    x.n = lookup_guess(&sp->lookup, sp->guess, most, &n_match);
    x.kind = KIND_LOOKUP + odds_match(n_match);
    x.chance = odds_kind(&sp->odds, x.kind);
    memset(sp->kind, (int)x.kind, sizeof sp->kind);
    return x;
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

/* Rows go to guesses one by one, and it ends where ids per time are the most. */
static void give(struct offer *x, uint32_t n, uint32_t n_row, const struct odds *o)
{
    uint32_t given[SESSION_SEQ_MAX] = { 0 };
    double chance[SESSION_SEQ_MAX], ids = n, best = n / odds_cost(o, 1);
    for (uint32_t i = 0; i < n; i++)
        chance[i] = x[i].chance;
    for (uint32_t k = 1, i; k <= n_row && (i = likeliest(x, given, chance, n)) < n; k++) {
        ids += chance[i];
        chance[i] *= x[i].chance;
        given[i]++;
        if (ids / odds_cost(o, 1 + k) <= best)
            continue;
        best = ids / odds_cost(o, 1 + k);
        for (uint32_t j = 0; j < n; j++)
            x[j].given = given[j];
    }
}

/* What did not get a row may be worth one later */
static void forget(struct speculator *const *sp, const struct offer *x, uint32_t n, struct odds *o)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].n && sp[i]->draft == DRAFT_AUTO) {
            odds_forget(&sp[i]->odds, x[i].kind);
            odds_forget(o, x[i].kind);
        }
}

status speculate_rows(struct speculator *const *sp, const int32_t *ids, const size_t *room, uint32_t n, struct odds *o, struct err *e)
{
    int32_t row[SESSION_SEQ_MAX][SESSION_VERIFY_MAX];
    struct session_rows step[SESSION_SEQ_MAX];
    struct offer x[SESSION_SEQ_MAX];
    bool choose = sp[0]->draft == DRAFT_AUTO;
    uint32_t left = SESSION_VERIFY_MAX - n, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        speculate_end(sp[i]);
        x[i] = look(sp[i], MIN(speculate_most(sp[i], room[i]), choose ? left : left / n));
        x[i].given = choose ? 0 : x[i].n;
    }
    if (choose)
        give(x, n, left, o);
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
