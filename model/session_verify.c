/* session_verify.c - steps over an id that is known and guesses of what follows, and the way back from them. See forward_verify.c. */
#include "model/ngram.h"
#include "model/session_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)SESSION_VERIFY_MAX == (int)DECODE_ROWS, "a verify step has the rows of a decode step");

/* Calls of a list of up to DECODE_ROWS rows, and of the list that folds: a few per layer, whatever the context is */
static size_t list_calls(const struct forward *f) { return 32 + 34 * (size_t)f->shape->n_layer; }
static size_t fold_calls(const struct forward *f) { return 4 + (size_t)f->shape->n_layer; }

size_t session_verify_calls(const struct forward *f) { return 2 * (DECODE_ROWS - 1) * list_calls(f) + fold_calls(f); }

status session_open_verify(session *s, struct err *e)
{
    TRY(session_open_list(s, &s->fold, fold_calls(&s->f), e));
    for (uint32_t n = 2; n <= DECODE_ROWS; n++)
        for (int half = 0; half < 2; half++)
            TRY(session_open_list(s, &s->verify[n][half], list_calls(&s->f), e));
    return OK;
}

void session_close_verify(session *s)
{
    gpu_cmd_close(&s->fold);
    for (uint32_t n = 2; n <= DECODE_ROWS; n++)
        for (int half = 0; half < 2; half++)
            gpu_cmd_close(&s->verify[n][half]);
    gpu_free(s->m->gpu, &s->rows);
    free(s->verify_rows);
}

void session_forget_verify(session *s)
{
    for (uint32_t n = 2; n <= DECODE_ROWS; n++)
        for (int half = 0; half < 2 && s->verify[n][half].cap; half++)
            gpu_cmd_reset(&s->verify[n][half]);
}

/* Recorded once for each number of rows, then replayed */
void session_record_verify(session *s, uint32_t n)
{
    uint32_t n_first = forward_first_layers(&s->f);
    struct gpu_cmd *first = &s->verify[n][0], *rest = &s->verify[n][1];
    if (rest->n)
        return;
    forward_embed(first, &s->f, n);
    forward_slide(first, &s->f, s->f.fold_at);
    forward_fetch_tables(rest, &s->f, n);
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++)
        forward_layer(il < n_first ? first : rest, &s->f, il, n, GDN_VERIFY);
    forward_head(rest, &s->f, 0, n, GDN_VERIFY);
    s->step_rows = s->f.residual;
    if (s->n_best)
        forward_choose(rest, &s->f, n, s->n_best);
}

status session_settle(session *s, struct err *e)
{
    if (s->n_rows == 0)
        return OK;
    if (!s->fold.n)
        forward_fold(&s->fold, &s->f);
    *s->f.fold = s->row + 1;
    s->n_rows = 0;
    return session_run(s, &s->fold, true, e);
}

/* The position is behind row `row` of the last step */
static void stand_at(session *s, uint32_t row)
{
    size_t start = s->n_past - s->row - 1;
    s->row = row;
    s->n_past = start + row + 1;
    memcpy(s->past, s->row_past, sizeof s->past);
    ngram_advance(&s->m->shape, s->past, s->row_ids, row + 1);
}

void session_stand(session *s, const int32_t *ids, uint32_t n)
{
    memcpy(s->row_past, s->past, sizeof s->past);
    memcpy(s->row_ids, ids, n * sizeof *ids);
    s->n_rows = n;
    s->n_past++;
    stand_at(s, 0);
}

status session_verify(session *s, const int32_t *ids, uint32_t n, struct err *e)
{
    assert(s->p.verify && n >= 1 && n <= DECODE_ROWS && !s->tap);
    if (n == 1)
        return session_decode(s, ids[0], e);
    TRY(session_flush(s, NULL, NULL, e));
    TRY(session_check_room(s, ids, n, e));
    TRY(session_feed_heads(s, e));
    *s->f.fold = s->n_rows ? s->row + 1 : 0;
    forward_begin(&s->f, ids, n, s->n_past);
    session_record_verify(s, n);
    TRY(session_start(s, &s->verify[n][0], true, e));
    forward_gather(&s->f, s->past);
    TRY(session_run(s, &s->verify[n][1], true, e));
    TRY(session_take(s, 0, n, e));
    session_stand(s, ids, n);
    s->unfed = s->draft != NULL;
    return OK;
}

size_t session_ahead(const session *s) { return s->n_rows ? s->n_rows - 1 - s->row : 0; }

bool session_follow(session *s, int32_t id)
{
    if (session_ahead(s) == 0 || s->row_ids[s->row + 1] != id)
        return false;
    stand_at(s, s->row + 1);
    if (s->draft && !s->unfed) /* another place took a step, and the row is gone */
        draft_skip(s->draft);
    s->logits_here = s->n_best == 0 || !on_device(s->m);
    return true;
}

status session_rewind(session *s, size_t n_past, struct err *e)
{
    size_t first = s->n_past - s->row;
    if (s->n_pending == 0 && n_past == s->n_past)
        return OK;
    if (s->n_rows == 0 || n_past < first || n_past > s->n_past || s->n_pending)
        return fail(e, ERR_USAGE, "cannot go back from %zu positions to %zu: only to rows of the last verify step", session_n_past(s), n_past);
    stand_at(s, (uint32_t)(n_past - first));
    if (s->draft && !s->unfed)
        draft_truncate(s->draft, n_past - 1);
    s->logits_here = s->n_best == 0 || !on_device(s->m);
    return OK;
}
