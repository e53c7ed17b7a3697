/* prefix.c - keeps the state after the common part of the prompts. */
#include "model/prefix.h"

#include <stdlib.h>
#include <string.h>

static bool stands_for(const struct prefix *p, const int32_t *ids, size_t n)
{
    return p->valid && p->ids.n == n && (n == 0 || memcmp(p->ids.v, ids, n * sizeof *ids) == 0);
}

/* Sets *whole to false when it was given up. */
static status evaluate(struct prefix *p, session *s, const int32_t *ids, size_t n, bool *whole, struct err *e)
{
    size_t step = p->step ? p->step : 512;
    TRY(session_reset(s, e));
    for (size_t at = 0; at < n; at += MIN(step, n - at)) {
        *whole = !p->go_on || p->go_on(p->ctx, at);
        if (!*whole)
            return OK;
        TRY(session_prefill(s, ids + at, MIN(step, n - at), NULL, NULL, e));
    }
    return session_flush(s, NULL, NULL, e);
}

static status remember(struct prefix *p, session *s, const int32_t *ids, size_t n, struct err *e)
{
    p->ids.n = 0;
    if (!p->mark && !(p->mark = malloc(session_mark_bytes(s))))
        return fail(e, ERR_NOMEM, "mark of %zu bytes", session_mark_bytes(s));
    for (size_t i = 0; i < n; i++)
        TRY(ids_push(&p->ids, ids[i], e));
    TRY(session_mark(s, p->mark, e));
    p->valid = true;
    return OK;
}

status prefix_begin(struct prefix *p, session *s, const int32_t *ids, size_t n, size_t *n_evaluated, struct err *e)
{
    bool known = stands_for(p, ids, n), loaded = !known && prefix_cache_load(p->cache, s, ids, n), whole = true;
    p->saving_s = 0;
    if (n_evaluated)
        *n_evaluated = known || loaded ? 0 : n;
    if (known)
        return session_return(s, p->mark, e);
    p->valid = false; /* what the mark relies on has been overwritten, or will be */
    if (!loaded)
        TRY(evaluate(p, s, ids, n, &whole, e));
    if (!whole)
        return OK;
    TRY(remember(p, s, ids, n, e));
    if (!loaded) {
        double t0 = console_now();
        prefix_cache_save(p->cache, s, ids, n);
        p->saving_s = console_now() - t0;
    }
    return OK;
}

void prefix_close(struct prefix *p)
{
    ids_free(&p->ids);
    free(p->mark);
    *p = (struct prefix){ 0 };
}
