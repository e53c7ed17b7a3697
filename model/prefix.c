/* prefix.c - keeps the state after the common part of the prompts. */
#include "model/prefix.h"

#include <stdlib.h>
#include <string.h>

static bool stands_for(const struct prefix *p, const int32_t *ids, size_t n)
{
    return p->valid && p->ids.n == n && (n == 0 || memcmp(p->ids.v, ids, n * sizeof *ids) == 0);
}

status prefix_begin(struct prefix *p, session *s, const int32_t *ids, size_t n, size_t *n_evaluated, struct err *e)
{
    bool known = stands_for(p, ids, n);
    if (n_evaluated)
        *n_evaluated = known ? 0 : n;
    if (known) {
        session_return(s, p->mark);
        return OK;
    }
    p->valid = false; /* what the mark relies on is overwritten from here on */
    session_reset(s);
    size_t step = p->step ? p->step : 512;
    for (size_t at = 0; at < n; at += MIN(step, n - at)) {
        if (p->go_on && !p->go_on(p->ctx, at))
            return OK;
        TRY(session_prefill(s, ids + at, MIN(step, n - at), NULL, NULL, e));
    }
    TRY(session_flush(s, NULL, NULL, e));
    p->ids.n = 0;
    if (!p->mark && !(p->mark = malloc(session_mark_bytes(s))))
        return fail(e, ERR_NOMEM, "mark of %zu bytes", session_mark_bytes(s));
    for (size_t i = 0; i < n; i++)
        TRY(ids_push(&p->ids, ids[i], e));
    TRY(session_mark(s, p->mark, e));
    p->valid = true;
    return OK;
}

void prefix_close(struct prefix *p)
{
    ids_free(&p->ids);
    free(p->mark);
    *p = (struct prefix){ 0 };
}
