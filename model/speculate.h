/* speculate.h - answers with guesses: which ids come next is guessed, a step computes them all, and what the sampler then chooses decides how many count.
 *
 * The sampler sees the same logits in the same order as without guesses and draws once for each id, so the text is the same byte for byte at any
 * temperature: a guess is accepted when it is what the sampler chose. Guesses are looked up in the text, or the draft head makes them, or both: where the head
 * says what was looked up, the look-up is worth more, and what the head says may be a place from where a look-up goes on. How many ids are guessed is decided by what a step of so many rows
 * costs and by how often guesses of the kind came true. */
#ifndef HAYATE_MODEL_SPECULATE_H
#define HAYATE_MODEL_SPECULATE_H

#include "model/lookup.h"
#include "model/odds.h"

enum { DRAFT_AUTO = -1, DRAFT_OFF = 0 };     /* else a number of ids, as far as there are guesses */
enum { SPECULATE_LONG = 4 };                 /* ids of a match that a given number of guesses follows without asking the head */

/* What came of guesses. */
struct draft_stats {
    uint64_t passes;               /* steps of one row and of several */
    uint64_t rounds;               /* steps with guesses */
    uint64_t tokens;               /* ids the passes have brought to the timeline */
    uint64_t drafted, accepted;    /* ids */
    uint64_t drafted_at[DRAFT_MAX], accepted_at[DRAFT_MAX]; /* by place in the guess */
    uint64_t head_drafted, head_accepted; /* of them by the draft head, the others by look-up */
    uint64_t chained;              /* rounds in which a look-up went on from what the head had said */
};

void drafts_add(struct draft_stats *sum, const struct draft_stats *t);

struct speculator {
    session *s;
    int draft;                     /* DRAFT_AUTO, DRAFT_OFF, or how many */
    struct lookup lookup;
    struct draft_stats stats;
    /* the round that is going on */
    uint32_t n_guess, n_right, n_asked; /* asked: of the head */
    bool going;                         /* a step was taken, by this answer alone */
    int32_t guess[DRAFT_MAX];
    uint8_t kind[DRAFT_MAX];
    struct odds odds;
    uint32_t head_rests;           /* rounds that the head sits out, because it would not pay */
};

/* Guesses for a session that was opened with session_params.verify. draft: see above. ERR_NOMEM. */
status speculate_open(struct speculator *sp, session *s, int draft, struct err *e);
void speculate_close(struct speculator *sp);
/* A new timeline, whose prompt was these ids. */
void speculate_begin(struct speculator *sp, const int32_t *ids, size_t n);
/* The sampler chose id: afterwards the session's position is behind it, as after session_decode, whose errors it has. room: how many ids are still wanted
 * after this one, at most. */
status speculate_next(struct speculator *sp, int32_t id, size_t room, struct err *e);
/* speculate_next in two halves. The first: if id was guessed, the position moves behind it and that is all; otherwise a step has to follow, of this answer alone
 * (speculate_step) or of several (speculate_rows). */
bool speculate_follow(struct speculator *sp, int32_t id);
status speculate_step(struct speculator *sp, int32_t id, size_t room, struct err *e);
/* The last round ends here: what of it was not chosen counts as not accepted. */
void speculate_end(struct speculator *sp);
/* The first n_guess of sp->guess went into a step. */
void speculate_count(struct speculator *sp, uint32_t n_guess, bool alone);
/* How many ids may be guessed behind the next one, by --draft, by what is still wanted and by the context. */
uint32_t speculate_most(const struct speculator *sp, size_t room);

/* The second half for n answers at places of one session, whose rows take one step, with what each has had chosen and still has room for. Rows that are left carry
 * guesses. With DRAFT_AUTO what was looked up, and one guess of the draft head of an answer for which nothing was: as many as are worth it, and those that are
 * likeliest to come true, by costs of steps of n answers (o, of this n alone: rows count from those of a step without guesses). With a number, as many for
 * each, as far as there are rows for all, of the head unless a long match was found. The errors of session_verify_rows. */
status speculate_rows(struct speculator *const *sp, const int32_t *ids, const size_t *room, uint32_t n, struct odds *o, struct err *e);

#endif
