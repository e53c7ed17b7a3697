/* session_rows.c - several timelines that take a step together, each with guesses or without: see model.h. */
#include "model/ngram.h"
#include "model/session_impl.h"

#include <assert.h>
#include <string.h>

status session_open_rows(session *first, const struct session_sizes *z, struct err *e)
{
    for (int half = 0; half < 2; half++) {
        TRY(session_open_list(first, &first->together.step[half], z->row_calls, e));
        for (uint32_t n = 2; n <= DECODE_ROWS; n++)
            TRY(session_open_list(first, &first->together.kept[n][half], z->kept_calls, e));
    }
    return OK;
}

void session_close_rows(session *s)
{
    for (int half = 0; half < 2; half++) {
        gpu_cmd_close(&s->together.step[half]);
        for (uint32_t n = 2; n <= DECODE_ROWS; n++)
            gpu_cmd_close(&s->together.kept[n][half]);
    }
}

void session_forget_rows(session *first)
{
    first->together.n = 0;
    for (int half = 0; half < 2; half++)
        for (uint32_t n = 2; n <= DECODE_ROWS && first->together.kept[n][half].cap; n++)
            gpu_cmd_reset(&first->together.kept[n][half]);
}

/* Whether the list that is there will do; on a device one for as many rows */
static bool is_recorded(const session *first, const struct forward_run *run, uint32_t n)
{
    const struct session_together *rows = &first->together;
    bool same = rows->n == n;
    for (uint32_t i = 0; i < n && same; i++) {
        const struct forward_run *a = &rows->run[i], *b = &run[i];
        same = a->kept == b->kept && a->first == b->first && a->n == b->n && (first->f.device || a->of == b->of);
    }
    return same;
}

struct gpu_cmd *session_record_rows(session *first, const struct forward_run *run, uint32_t n)
{
    struct session_together *rows = &first->together;
    uint32_t n_tok = run[n - 1].first + run[n - 1].n;
    struct gpu_cmd *list = run->kept && first->f.device ? rows->kept[n_tok] : rows->step;
    if (list == rows->step ? is_recorded(first, run, n) : list[1].n > 0)
        return list;
    gpu_cmd_reset(&list[0]);
    gpu_cmd_reset(&list[1]);
    if (list == rows->step) {
        memcpy(rows->run, run, n * sizeof *run);
        rows->n = n;
    }
    forward_rows_record(&list[0], &list[1], &first->f, run, n, first->n_best);
    return list;
}

/* Whether the rows may be taken back, of a place, or of all. On a device all are, where one carries guesses, and also where something was kept of the last step,
 * which this one has to bring into the state. */
static bool any_kept(const session *first, const struct session_rows *rows, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < n && first->f.device; i++)
        any = any || rows[i].n > 1 || rows[i].s->n_rows > 0;
    return any;
}

/* The run of a place; of one row that counts, which takes nothing back, what was kept goes into the state before. */
static status begin_run(struct forward_run *run, const struct session_rows *rows, uint32_t first, bool kept, struct err *e)
{
    session *s = rows->s;
    assert(s->n_pending == 0 && !s->tap && rows->n >= 1 && (s->p.verify || rows->n == 1));
    TRY(session_check_room(s, rows->ids, rows->n, e));
    *run = (struct forward_run){ .of = &s->f, .ids = rows->ids, .pos = s->n_past, .past = s->past, .n = rows->n, .first = first, .kept = kept || rows->n > 1 };
    run->fold = run->kept && s->n_rows ? s->row + 1 : 0;
    return OK;
}

/* What the step has left for a place */
static status end_run(const struct session_rows *rows, const struct forward_run *run, struct err *e)
{
    session *s = rows->s;
    TRY(session_take(s, run->first, run->n, e));
    s->step_rows = s->place[0]->f.residual;
    s->unfed = s->draft != NULL;
    if (run->kept) {
        session_stand(s, rows->ids, rows->n);
        return OK;
    }
    ngram_advance(&s->m->shape, s->past, rows->ids, 1);
    s->n_past++;
    s->row_ids[0] = *rows->ids;
    return OK;
}

status session_verify_rows(const struct session_rows *rows, uint32_t n, struct err *e)
{
    session *first = rows->s->place[0];
    struct forward_run run[SESSION_SEQ_MAX];
    struct gpu_cmd *list;
    bool kept = any_kept(first, rows, n);
    uint32_t n_row = 0;
    assert(n >= 1 && n <= session_n_seq(first));
    if (n == 1)
        return rows->n == 1 ? session_decode(rows->s, *rows->ids, e) : session_verify(rows->s, rows->ids, rows->n, e);
    for (uint32_t i = 0; i < n; i++) {
        TRY(begin_run(&run[i], &rows[i], n_row, kept, e));
        n_row += run[i].n;
    }
    assert(n_row <= DECODE_ROWS);
    for (uint32_t i = 0; i < n; i++)
        if (!run[i].kept)
            TRY(session_settle(rows[i].s, e));
    TRY(session_feed_heads(first, e));
    forward_rows_begin(&first->f, run, n);
    list = session_record_rows(first, run, n);
    TRY(session_start(first, &list[0], true, e));
    forward_rows_gather(&first->f, run, n);
    TRY(session_run(first, &list[1], true, e));
    for (uint32_t i = 0; i < n; i++)
        TRY(end_run(&rows[i], &run[i], e));
    return OK;
}

status session_decode_rows(session *const *place, const int32_t *ids, uint32_t n, struct err *e)
{
    struct session_rows rows[SESSION_SEQ_MAX];
    assert(n <= SESSION_SEQ_MAX);
    for (uint32_t r = 0; r < n; r++)
        rows[r] = (struct session_rows){ place[r], &ids[r], 1 };
    return session_verify_rows(rows, n, e);
}

status session_copy(session *to, session *from, struct err *e)
{
    assert(to->place[0] == from->place[0] && to != from && from->n_pending == 0);
    TRY(session_settle(from, e));
    TRY(gpu_copy(to->m->gpu, to->recurrent.addr, from->recurrent.addr, from->recurrent.bytes, e));
    for (uint32_t il = 0; il < to->m->shape.n_layer; il++)
        TRY(gpu_copy(to->m->gpu, to->kv[il].addr, from->kv[il].addr, from->kv[il].bytes, e));
    memcpy(to->past, from->past, sizeof to->past);
    memcpy(to->best, from->best, sizeof to->best);
    memcpy(to->n_found, from->n_found, sizeof to->n_found);
    to->n_past = from->n_past;
    to->n_pending = to->n_rows = 0;
    to->row0 = from->row0;
    to->row = from->row;
    to->unfed = false;
    if (to->draft)
        draft_truncate(to->draft, 0);
    to->have_logits = from->have_logits;
    to->logits_here = from->logits_here;
    return OK;
}
