/* lookup.h - guesses from the text itself: what followed the last ids where they stood before, in the prompt or in the answer so far.
 *
 * Two tables say where the last two and the last four ids were seen most recently. A new id costs two entries, a guess two look-ups and the comparison of
 * at most LOOKUP_LONGEST ids; nothing is allocated after lookup_open. */
#ifndef HAYATE_MODEL_LOOKUP_H
#define HAYATE_MODEL_LOOKUP_H

#include "gpu/base.h"

enum { LOOKUP_LONGEST = 32 }; /* ids of a match that are counted */

struct lookup {
    int32_t *ids;       /* [cap] */
    size_t n, cap;
    uint32_t *last[2];  /* [mask + 1] of the last two and four ids: 1 + place of the id that followed; 0: never seen */
    uint32_t mask;
    size_t follows;     /* place of the id that followed the last match; 0: none */
};

/* For timelines of at most n_max ids. ERR_NOMEM. */
status lookup_open(struct lookup *l, size_t n_max, struct err *e);
void lookup_close(struct lookup *l);
/* Bytes that lookup_open takes: a line of the plan of a session with guesses. */
size_t lookup_bytes(size_t n_max);
/* An empty timeline. */
void lookup_reset(struct lookup *l);
/* The next n ids of the timeline; what goes beyond n_max is not remembered. */
void lookup_push(struct lookup *l, const int32_t *ids, size_t n);
/* Guesses the next ids, at most n_max of them, into out; returns how many (0: the last two ids were never seen before). *n_match: how many ids before
 * the guess are the same in both places, 2 .. LOOKUP_LONGEST. */
uint32_t lookup_guess(struct lookup *l, int32_t *out, uint32_t n_max, uint32_t *n_match);
/* The same if ids [n] were the next of the timeline, which stays as it is; 0 also where it has no room for them. */
uint32_t lookup_after(struct lookup *l, const int32_t *ids, uint32_t n, int32_t *out, uint32_t n_max, uint32_t *n_match);

#endif
