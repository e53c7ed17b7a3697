/* session_rows.c - several timelines that take a step together: see model.h. */
#include "model/ngram.h"
#include "model/session_impl.h"

#include <assert.h>
#include <string.h>

void session_record_rows(session *const *place, uint32_t n)
{
    session *first = place[0]->place[0];
    struct session_together *rows = &first->together;
    for (int i = 0; i < 2; i++)
        gpu_cmd_reset(&rows->step[i]);
    for (uint32_t r = 0; r < n; r++)
        rows->of[r] = &place[r]->f;
    rows->n = n;
    forward_rows_record(&rows->step[0], &rows->step[1], &first->f, rows->of, n, first->n_best);
}

/* On a device the step blocks say which places the rows belong to, and any n of them take the same list. */
static bool is_recorded(const struct session_together *rows, session *const *place, uint32_t n)
{
    bool same = rows->n == n;
    for (uint32_t r = 0; r < n && same && !on_device(place[0]->m); r++)
        same = rows->of[r] == &place[r]->f;
    return same;
}

status session_decode_rows(session *const *place, const int32_t *ids, uint32_t n, struct err *e)
{
    session *first = place[0]->place[0];
    struct forward_row row[DECODE_ROWS];
    assert(n >= 1 && n <= session_n_seq(first));
    if (n == 1)
        return session_decode(place[0], ids[0], e);
    for (uint32_t r = 0; r < n; r++) {
        session *s = place[r];
        assert(s->n_pending == 0 && !s->tap);
        TRY(session_check_room(s, &ids[r], 1, e));
        row[r] = (struct forward_row){ &s->f, ids[r], s->n_past, s->past };
    }
    forward_rows_begin(&first->f, row, n);
    if (!is_recorded(&first->together, place, n))
        session_record_rows(place, n);
    TRY(session_start(first, &first->together.step[0], true, e));
    forward_rows_gather(&first->f, row, n);
    TRY(session_run(first, &first->together.step[1], true, e));
    for (uint32_t r = 0; r < n; r++) {
        TRY(session_take(place[r], r, 1, e));
        ngram_advance(&first->m->shape, place[r]->past, &ids[r], 1);
        place[r]->n_past++;
    }
    return OK;
}

status session_copy(session *to, const session *from, struct err *e)
{
    assert(to->place[0] == from->place[0] && to != from && from->n_pending == 0);
    TRY(gpu_copy(to->m->gpu, to->recurrent.addr, from->recurrent.addr, from->recurrent.bytes, e));
    for (uint32_t il = 0; il < to->m->shape.n_layer; il++)
        TRY(gpu_copy(to->m->gpu, to->kv[il].addr, from->kv[il].addr, from->kv[il].bytes, e));
    memcpy(to->past, from->past, sizeof to->past);
    memcpy(to->best, from->best, sizeof to->best);
    memcpy(to->n_found, from->n_found, sizeof to->n_found);
    to->n_past = from->n_past;
    to->n_pending = 0;
    to->row = from->row;
    to->have_logits = from->have_logits;
    to->logits_here = from->logits_here;
    return OK;
}
