/* bench_generate.c - the steps of a test of -n: see bench.h. */
#include "model/bench.h"

/* Id number i of place r: from different parts of the trace, so that places do not all choose the same experts */
static int32_t id_at(const struct bench_test *t, const int32_t *ids, uint32_t r, uint64_t i) { return ids[(i + r * (t->n_gen / t->n_parallel + 1)) % t->n_gen]; }

/* One id at every place */
static status decode_together(struct bench *b, const struct bench_test *t, const int32_t *ids, uint64_t i, struct err *e)
{
    session *place[SESSION_SEQ_MAX];
    int32_t id[SESSION_SEQ_MAX];
    for (uint32_t r = 0; r < t->n_parallel; r++) {
        place[r] = session_place(b->s, r);
        id[r] = id_at(t, ids, r, i);
    }
    return session_decode_rows(place, id, t->n_parallel, e);
}

/* One step with guesses for all places that have not had their n_gen ids; done [n_parallel]. *more: there are any. */
static status guess_together(struct bench *b, const struct bench_test *t, const int32_t *ids, uint64_t *done, bool *more, struct err *e)
{
    struct speculator *sp[SESSION_SEQ_MAX];
    int32_t id[SESSION_SEQ_MAX];
    size_t room[SESSION_SEQ_MAX];
    uint32_t n = 0;
    for (uint32_t r = 0; r < t->n_parallel; r++) {
        while (done[r] < t->n_gen && speculate_follow(&b->speculator[r], id_at(t, ids, r, done[r])))
            done[r]++;
        if (done[r] == t->n_gen)
            continue;
        sp[n] = &b->speculator[r];
        id[n] = id_at(t, ids, r, done[r]++);
        room[n++] = t->n_gen - done[r];
    }
    *more = n > 0;
    if (n == 0)
        return OK;
    return n == 1 ? speculate_step(sp[0], id[0], room[0], e) : speculate_rows(sp, id, room, n, &b->odds[n], e);
}

status bench_generate(struct bench *b, const struct bench_test *t, const int32_t *ids, struct err *e)
{
    uint64_t done[SESSION_SEQ_MAX] = { 0 };
    bool more = t->n_gen > 0;
    while (more && t->n_parallel > 1 && t->draft != DRAFT_OFF)
        TRY(guess_together(b, t, ids, done, &more, e));
    for (uint64_t i = 0; i < t->n_gen && more; i++)
        TRY(t->n_parallel > 1 ? decode_together(b, t, ids, i, e) : speculate_next(b->speculator, ids[i], t->n_gen - 1 - i, e));
    return OK;
}
