/* prefix.c - keeps the state after the common part of the prompts. */
#include "model/prefix.h"

#include <stdlib.h>
#include <string.h>

static bool stands_for(const struct prefix *p, const int32_t *ids, size_t n)
{
    return p->mark && p->ids.n == n && (n == 0 || memcmp(p->ids.v, ids, n * sizeof *ids) == 0);
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
    session_reset(s);
    TRY(session_prefill(s, ids, n, NULL, NULL, e));
    TRY(session_flush(s, NULL, NULL, e));
    p->ids.n = 0;
    if (!p->mark && !(p->mark = malloc(session_mark_bytes(s))))
        return fail(e, ERR_NOMEM, "mark of %zu bytes", session_mark_bytes(s));
    for (size_t i = 0; i < n; i++)
        TRY(ids_push(&p->ids, ids[i], e));
    return session_mark(s, p->mark, e);
}

void prefix_close(struct prefix *p)
{
    ids_free(&p->ids);
    free(p->mark);
    *p = (struct prefix){ 0 };
}
