/* session_draft.c - the draft head beside a session: it sees every position once, late enough that only rows that count reach it. */
#include "model/session_impl.h"

bool session_has_head(const session *s) { return s->draft != NULL; }
bool session_can_guess(const session *s) { return s->draft && ((s->unfed && !s->draft_rests) || draft_waits(s->draft)); }

/* Rows of the last decode or verify step, as far as they count. They are still where the step left them. */
status session_feed_head(session *s, struct err *e)
{
    if (!s->unfed)
        return OK;
    s->unfed = false;
    if (s->draft_rests) {
        draft_skip(s->draft);
        return OK;
    }
    gpu_addr first = s->step_rows + (uint64_t)s->row0 * s->m->shape.n_stream * s->m->shape.n_embd * sizeof(float);
    return draft_feed_step(s->draft, first, s->row_ids, s->row + 1, e);
}

status session_feed_heads(session *s, struct err *e)
{
    for (uint32_t k = 0; k < session_n_seq(s); k++)
        TRY(session_feed_head(s->place[0]->place[k], e));
    return OK;
}

status session_feed_prompt(session *s, const int32_t *ids, uint32_t n, struct err *e)
{
    return s->draft ? draft_feed(s->draft, s->f.residuals[0], ids, n, false, e) : OK;
}

void session_rest_head(session *s, bool rests) { s->draft_rests = rests; }

bool session_guesses_in_a_row(const session *s) { return on_device(s->m); }

status session_guess(session *s, int32_t id, uint32_t first, uint32_t n, struct guess *out, struct err *e)
{
    if (first == 0)
        TRY(session_feed_head(s, e));
    return draft_guess(s->draft, id, first, n, out, e);
}

status session_guess_end(session *s, struct err *e) { return draft_end(s->draft, e); }

status session_score_head(session *s, session_rows_fn fn, void *ctx, struct err *e)
{
    if (!s->draft)
        return fail(e, ERR_UNSUPPORTED, "this model has no draft head, or it is not on the device");
    return draft_score(s->draft, fn, ctx, e);
}
