/* prefix.h - the part of a prompt that is the same for every document, evaluated once.
 *
 * Template, system text and instruction form a segment of their own, whether they are reused or not, so reuse changes no bit of an answer:
 * neither from a mark within the process, nor from a file of another one (prefix_cache.h). */
#ifndef HAYATE_MODEL_PREFIX_H
#define HAYATE_MODEL_PREFIX_H

#include "model/prefix_cache.h"

struct prefix {
    struct ids ids; /* what the mark stands for, when it is valid */
    void *mark;     /* session_mark of the position after them */
    bool valid;
    prefix_cache *cache; /* set by the caller, or NULL: the state is looked up there first, and put there when it is new */
    double saving_s; /* how long that took in the last prefix_begin */
    /* Set by the caller or NULL: asked before every step of `step` ids (0: 512); false gives up. */
    bool (*go_on)(void *ctx, size_t n_done);
    void *ctx;
    size_t step;
};

/* Resets s and brings it to the position after ids [n]: by returning to the mark when it stands for the same ids, from the cache, or by
 * evaluating them. *n_evaluated (may be NULL): how many ids went through the model. After giving up it returns OK and s stands somewhere before
 * that position. One prefix belongs to one session. */
status prefix_begin(struct prefix *p, session *s, const int32_t *ids, size_t n, size_t *n_evaluated, struct err *e);
void prefix_close(struct prefix *p);

#endif
