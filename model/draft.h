/* draft.h - the draft (MTP) head: a block behind the trunk that guesses the token after the next. Mathematics: spec page "model" section 7.
 *
 * A pair is the trunk's wide residual R_p of a position and the id at p + 1; the head has K/V and index keys of its own, one per pair. Pairs of known ids
 * only leave their keys there (draft_feed); a guess runs the whole block, and its own residual is the hidden input of the next guess. The block attends
 * as the trunk's layers do, with their budget. What the head says decides what is tried, never what is answered. */
#ifndef HAYATE_MODEL_DRAFT_H
#define HAYATE_MODEL_DRAFT_H

#include "model/forward.h"
#include "model/model_impl.h"

typedef struct draft draft;

/* Where recorded calls are reported to, and whether as those of generated ids */
struct session_report {
    bool decode;
    session_call_fn fn;
    void *ctx;
};

/* Whether the model has a head, on a device also that its weights are there. */
bool draft_exists(const model *m);
/* Adds its lines to a plan. */
void draft_plan(const model *m, const struct session_params *p, struct plan *plan);
/* The head of session s, whose clock its calls run under. */
status draft_open(draft **out, session *s, struct err *e);
void draft_close(draft *d); /* accepts NULL */
/* Forgets all pairs, or all but the first n_pair and the residual that waits for its id. */
void draft_reset(draft *d);
void draft_truncate(draft *d, size_t n_pair);

/* The trunk goes on without the head, which misses what follows: the next pair is the next one fed. */
void draft_skip(draft *d);

/* The trunk has run ids [n], and rows [n, n_stream, n_embd] are their residuals: leaves the keys of the pairs that are complete now. draft_feed_step is for
 * the rows of a decode or verify step, which lie at the same place every time: it only starts, and what the session starts next comes behind it; before
 * another feed the host has to wait for something. decode: the ids are generated ones, for the profile. */
status draft_feed(draft *d, gpu_addr rows, const int32_t *ids, uint32_t n, bool decode, struct err *e);
status draft_feed_step(draft *d, gpu_addr rows, const int32_t *ids, uint32_t n, struct err *e);

/* Whether the last residual is there, so that draft_guess may follow. */
bool draft_waits(const draft *d);
/* Guesses first .. first + n - 1 of a round, each on a device without the host in between (first + n <= DRAFT_ROUND): guess 0 is what follows id, which is
 * known to follow the last one fed; each further one takes the guess before for granted. A round is asked for in order, in one call or several; draft_end
 * forgets all guesses but what the first pair has left. */
enum { DRAFT_ROUND = 7 };
status draft_guess(draft *d, int32_t id, uint32_t first, uint32_t n, struct guess *out, struct err *e);
status draft_end(draft *d, struct err *e);

/* Calls of its longest list; and the calls of feeding n pairs, and of a round of n guesses up to draft_end, the first of pair pos, reported without
 * running them. */
uint32_t draft_most_calls(void);
status draft_record_feed(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e);
status draft_record_guesses(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e);

/* From here on draft_feed runs the whole block and hands the logits of its pairs to fn: position p is that of the residual. NULL ends it. ERR_NOMEM. */
status draft_score(draft *d, session_rows_fn fn, void *ctx, struct err *e);

#endif
