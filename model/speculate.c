/* speculate.c - rounds, acceptance, and how many ids to guess. */
#include "model/speculate.h"

#include "model/console.h"

#include <string.h>

/* Guesses count one by one until one fails: the ones behind it were never put to the test */
static void learn(struct speculator *sp)
{
    struct odds *o = &sp->odds;
    for (uint32_t i = 0; i < sp->n_guess && i <= sp->n_right; i++) {
        odds_count(&o->kind[sp->kind[i]], i < sp->n_right);
        if (sp->kind[i] >= KIND_HEAD)
            odds_count(&o->head, i < sp->n_right);
    }
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
    sum->chained += t->chained;
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
    sp->n_guess = sp->n_right = sp->n_asked = 0;
    sp->going = false;
    if (sp->draft == DRAFT_OFF)
        return;
    lookup_reset(&sp->lookup);
    lookup_push(&sp->lookup, ids, n);
}

void speculate_end(struct speculator *sp)
{
    struct draft_stats *t = &sp->stats;
    for (uint32_t i = 0; i < sp->n_guess; i++) {
        bool right = i < sp->n_right, by_head = sp->kind[i] >= KIND_HEAD;
        t->drafted_at[i]++;
        t->accepted_at[i] += right;
        t->head_drafted += by_head;
        t->head_accepted += by_head && right;
    }
    t->drafted += sp->n_guess;
    t->accepted += sp->n_right;
    learn(sp);
    if (sp->going)
        odds_learn_round(&sp->odds, 1 + sp->n_right, 1 + sp->n_guess, sp->n_asked);
    sp->n_guess = sp->n_right = sp->n_asked = 0;
    sp->going = false;
}

/* ---- guesses ---- */

/* A round in the making */
struct round {
    uint32_t most;      /* guesses, at most */
    uint32_t n;         /* there are */
    struct hope hope;   /* of them */
    int32_t look[DRAFT_MAX];
    uint32_t n_look, match; /* looked up before the head was asked, and the kind of the match */
};
enum { GOES_ON = 3 }; /* ids of a match that a given number of guesses follows behind the head's */

static void add(struct speculator *sp, struct round *r, int32_t id, uint32_t kind)
{
    sp->guess[r->n] = id;
    sp->kind[r->n++] = (uint8_t)kind;
    hope_add(&r->hope, &sp->odds, odds_kind(&sp->odds, kind), 0); /* what was spent on it is spent */
}

/* What was looked up, from its id number `from` on */
static void add_look(struct speculator *sp, struct round *r, const int32_t *ids, uint32_t from, uint32_t n, uint32_t kind)
{
    for (uint32_t i = from; i < n && r->n < r->most; i++)
        add(sp, r, ids[i], kind);
}

/* Whether the head says what was looked up. Then that counts for more, from its first id on. */
static bool agreed(struct speculator *sp, struct round *r)
{
    if (r->n != 1 || !r->n_look)
        return false;
    bool same = r->look[0] == sp->guess[0];
    odds_count(&sp->odds.agrees[r->match], same);
    if (!same)
        return false;
    r->n = 0;
    hope_begin(&r->hope, &sp->odds, r->hope.pace);
    add_look(sp, r, r->look, 0, r->n_look, KIND_AGREED + r->match);
    return true;
}

/* Whether a look-up goes on from the guesses, better than the head would */
static bool continued(struct speculator *sp, struct round *r)
{
    const struct odds *o = &sp->odds;
    int32_t ids[DRAFT_MAX];
    uint32_t n_match, n = lookup_after(&sp->lookup, sp->guess, r->n, ids, r->most - r->n, &n_match), kind = odds_match(n_match);
    if (!n || n_match <= r->n) /* a match has to begin before what was guessed */
        return false;
    if (sp->draft == DRAFT_AUTO) {
        struct hope look = hope_with(r->hope, o, odds_kind(o, kind), 0, r->most), head = hope_with(r->hope, o, odds_head(o), o->head_ratio, r->most);
        if (look.best <= r->hope.best || look.best < head.best)
            return false;
    } else if (n_match < GOES_ON) {
        return false;
    }
    add_look(sp, r, ids, 0, n, kind);
    sp->stats.chained++;
    return true;
}

/* How many guesses more the head should make at once: as many as may pay, or one where there is nothing to be gained by more in a row */
static uint32_t how_many(const struct speculator *sp, const struct round *r)
{
    uint32_t more = r->most - r->n;
    if (sp->draft == DRAFT_AUTO) {
        struct hope h = hope_with(r->hope, &sp->odds, odds_head(&sp->odds), sp->odds.head_ratio, r->most);
        more = h.best > r->hope.best && h.n_best > r->n ? h.n_best - r->n : 0;
    }
    return session_guesses_in_a_row(sp->s) ? more : MIN(more, 1);
}

/* Guesses of the head behind id, until none more pays or a look-up goes on from them */
static status ask_head(struct speculator *sp, int32_t id, struct round *r, struct err *e)
{
    uint32_t more = 1; /* the first one alone: it may agree with what was looked up */
    while (more) {
        struct guess g[DRAFT_MAX];
        double t0 = console_now();
        TRY(session_guess(sp->s, id, r->n, more, g, e));
        odds_learn_head(&sp->odds, more, console_now() - t0);
        sp->n_asked += more;
        for (uint32_t i = 0; i < more; i++)
            add(sp, r, g[i].id, odds_lead(g[i].lead));
        if (r->n == r->most || agreed(sp, r) || continued(sp, r))
            break;
        more = how_many(sp, r);
    }
    return session_guess_end(sp->s, e);
}

/* Whether it pays to ask the head at all, beside a look-up worth `look`. If it does not even alone it rests for a while, and what failed is forgotten
 * slowly, so that it is tried again. */
static bool head_pays(struct speculator *sp, const struct round *r, double look)
{
    enum { REST = 64 };
    struct odds *o = &sp->odds;
    struct hope h, agrees;
    if (sp->head_rests && --sp->head_rests)
        return false;
    session_rest_head(sp->s, false);
    if (!session_can_guess(sp->s))
        return false;
    if (o->head_ratio <= 0)
        return true;
    hope_begin(&h, o, 1);
    if (hope_with(h, o, odds_head(o), o->head_ratio, r->most).n_best == 0) {
        sp->head_rests = REST;
        o->head.right *= 0.8, o->head.tried *= 0.8;
        session_rest_head(sp->s, true);
        return false;
    }
    hope_begin(&h, o, odds_pace(o));
    double alone = hope_with(h, o, odds_head(o), o->head_ratio, r->most).best, both = alone;
    if (r->n_look) { /* it may say the same */
        double p = odds_agrees(o, r->match);
        agrees = hope_with(h, o, odds_kind(o, KIND_AGREED + r->match), 0, r->most);
        both = p * (agrees.best - h.pace * o->head_ratio) + (1 - p) * MAX(alone, h.best - h.pace * o->head_ratio);
    }
    return both > MAX(look, h.best);
}

/* What is guessed to follow id; most: at most so many. *n: how many are worth a row */
static status guess(struct speculator *sp, int32_t id, uint32_t most, uint32_t *n, struct err *e)
{
    struct odds *o = &sp->odds;
    struct round r = { .most = most };
    uint32_t n_match = 0;
    bool choose = sp->draft == DRAFT_AUTO;
    *n = 0;
    if (most == 0)
        return OK;
    hope_begin(&r.hope, o, odds_pace(o));
    r.n_look = lookup_guess(&sp->lookup, r.look, most, &n_match);
    r.match = odds_match(n_match);
    double look = r.n_look ? hope_with(r.hope, o, odds_kind(o, KIND_LOOKUP + r.match), 0, r.n_look).best : r.hope.best;
    bool ask = session_has_head(sp->s) && (choose ? head_pays(sp, &r, look) : n_match < SPECULATE_LONG && session_can_guess(sp->s));
    if (ask)
        TRY(ask_head(sp, id, &r, e));
    else
        add_look(sp, &r, r.look, 0, r.n_look, KIND_LOOKUP + r.match);
    *n = choose ? r.hope.n_best : r.n;
    if (!ask && r.n_look && *n == 0)
        odds_forget(o, KIND_LOOKUP + r.match);
    return OK;
}

bool speculate_follow(struct speculator *sp, int32_t id)
{
    sp->stats.tokens++;
    if (sp->draft == DRAFT_OFF)
        return false;
    lookup_push(&sp->lookup, &id, 1);
    if (!session_follow(sp->s, id))
        return false;
    sp->n_right++;
    return true;
}

uint32_t speculate_most(const struct speculator *sp, size_t room)
{
    size_t left = session_n_ctx(sp->s) - MIN(session_n_ctx(sp->s), session_n_past(sp->s) + 1);
    size_t most = sp->draft == DRAFT_AUTO ? (size_t)DRAFT_MAX : (size_t)sp->draft;
    return (uint32_t)MIN(most, MIN(room ? room - 1 : 0, left)); /* the last id of an answer needs no row */
}

void speculate_count(struct speculator *sp, uint32_t n_guess, bool alone)
{
    sp->going = alone;
    sp->n_guess = n_guess;
    sp->stats.passes++;
    sp->stats.rounds += n_guess > 0;
}

status speculate_step(struct speculator *sp, int32_t id, size_t room, struct err *e)
{
    int32_t rows[SESSION_VERIFY_MAX] = { id };
    uint32_t n;
    if (sp->draft == DRAFT_OFF) {
        sp->stats.passes++;
        return session_decode(sp->s, id, e);
    }
    speculate_end(sp);
    TRY(guess(sp, id, speculate_most(sp, room), &n, e));
    memcpy(rows + 1, sp->guess, n * sizeof *rows);
    double t0 = console_now();
    TRY(session_verify(sp->s, rows, n + 1, e));
    odds_learn_step(&sp->odds, n + 1, console_now() - t0);
    speculate_count(sp, n, true);
    return OK;
}

status speculate_next(struct speculator *sp, int32_t id, size_t room, struct err *e)
{
    return speculate_follow(sp, id) ? OK : speculate_step(sp, id, room, e);
}
