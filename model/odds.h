/* odds.h - what is known of guesses: how often those of a kind come true, what a step of so many rows and a guess of the head cost, and how many guesses
 * are worth a row by that.
 *
 * A step's worth is the ids it may bring less its cost at the pace of late, in ids: so a guess is tried when what it may bring is more than the time for it
 * would bring elsewhere. Costs count in steps of one row. */
#ifndef HAYATE_MODEL_ODDS_H
#define HAYATE_MODEL_ODDS_H

#include "model/model.h"

enum { DRAFT_MAX = SESSION_VERIFY_MAX - 1 }; /* ids guessed at once */

/* Kinds of guesses whose success is counted apart: look-ups by the length of the match; look-ups by the same, whose first id the head said too; the head's
 * own by the lead of their logit. */
enum { LOOKUP_KINDS = 8, HEAD_KINDS = 6, KIND_LOOKUP = 0, KIND_AGREED = LOOKUP_KINDS, KIND_HEAD = 2 * LOOKUP_KINDS, DRAFT_KINDS = KIND_HEAD + HEAD_KINDS };
/* Of a match of n ids: KIND_LOOKUP + this, or KIND_AGREED + this; of a lead. */
uint32_t odds_match(uint32_t n);
uint32_t odds_lead(float lead);

struct odds_tally {
    double right, tried;
};
struct odds {
    /* costs, moving means (0: not seen): seconds of a step of one row; in such steps a step of n rows, and a guess of the head */
    double step_seconds, ratio[SESSION_VERIFY_MAX + 1], head_ratio;
    double ids, time;                 /* moving means of what rounds bring and cost: their pace */
    struct odds_tally kind[DRAFT_KINDS];
    struct odds_tally head;                /* guesses of the head, whatever their lead */
    struct odds_tally agrees[LOOKUP_KINDS]; /* first ids of look-ups that the head was asked about too */
};

double odds_kind(const struct odds *o, uint32_t kind);
double odds_head(const struct odds *o);
double odds_agrees(const struct odds *o, uint32_t match);
void odds_count(struct odds_tally *t, bool right);

/* Cost of a step of n rows. */
double odds_cost(const struct odds *o, uint32_t n);
void odds_learn_step(struct odds *o, uint32_t n, double seconds);
/* Guesses of the kind did not pay: what makes it look so, that they failed and what rows cost, is forgotten slowly, so that it is tried again. */
void odds_forget(struct odds *o, uint32_t kind);
void odds_learn_head(struct odds *o, uint32_t n, double seconds);
/* A round brought ids, with a step of n rows and n_head guesses of the head. */
void odds_learn_round(struct odds *o, uint32_t ids, uint32_t n, uint32_t n_head);
double odds_pace(const struct odds *o);

/* A step with guesses that are added one by one. */
struct hope {
    double pace;
    double ids, all;   /* expected; chance that all guesses so far come true */
    double spent;      /* on guesses */
    double best;       /* worth with the best number of them */
    uint32_t n, n_best;
};
void hope_begin(struct hope *h, const struct odds *o, double pace);
/* One guess more, which comes true with chance p when those before do, and costs `cost`. */
void hope_add(struct hope *h, const struct odds *o, double p, double cost);
/* With up to `most` guesses of that kind: the step as it would be. */
struct hope hope_with(struct hope h, const struct odds *o, double p, double cost, uint32_t most);

#endif
