/* session_state.c - a position of the timeline, to come back to: as a mark in memory, or as bytes for another process. */
#include "model/session_impl.h"

#include <assert.h>
#include <string.h>

/* ---- marks ---- */

struct mark_head {
    size_t n_past;
    bool have_logits;
    int32_t past[MAX_NGRAM];
};

/* Logits that came with a state: to where the step after which it was taken left them, and what is wanted of them */
static status restore_logits(session *s, bool have_logits, struct err *e)
{
    s->have_logits = have_logits;
    s->logits_here = true;
    s->row0 = s->row = 0;
    s->n_rows = 0;
    s->unfed = false;
    if (s->draft)
        draft_truncate(s->draft, s->n_past ? s->n_past - 1 : 0);
    if (!have_logits || s->n_best == 0)
        return OK;
    if (on_device(s->m))
        TRY(gpu_write(s->m->gpu, s->f.logits, s->logits, (size_t)s->m->shape.n_vocab * sizeof(float), e));
    return session_choose(s, e);
}

/* The recurrent state. The wide residual's last row is not needed: logits are kept instead. */
size_t session_mark_bytes(const session *s)
{
    return size_up(sizeof(struct mark_head), 64) + s->recurrent.bytes + (size_t)s->m->shape.n_vocab * sizeof(float);
}

status session_mark(session *s, void *mark, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    TRY(session_settle(s, e));
    TRY(session_fetch_logits(s, e));
    uint8_t *p = mark;
    struct mark_head h = { .n_past = s->n_past, .have_logits = s->have_logits };
    memcpy(h.past, s->past, sizeof h.past);
    memcpy(p, &h, sizeof h);
    p += size_up(sizeof h, 64);
    memcpy(p + s->recurrent.bytes, session_logits(s), (size_t)s->m->shape.n_vocab * sizeof(float));
    return gpu_read(s->m->gpu, p, s->recurrent.addr, s->recurrent.bytes, e);
}

status session_return(session *s, const void *mark, struct err *e)
{
    const uint8_t *p = mark;
    struct mark_head h;
    memcpy(&h, p, sizeof h);
    assert(h.n_past <= s->n_past);
    p += size_up(sizeof h, 64);
    memcpy(s->logits, p + s->recurrent.bytes, (size_t)s->m->shape.n_vocab * sizeof(float));
    memcpy(s->past, h.past, sizeof s->past);
    s->n_past = h.n_past;
    s->n_pending = 0;
    TRY(gpu_write(s->m->gpu, s->recurrent.addr, p, s->recurrent.bytes, e));
    return restore_logits(s, h.have_logits, e);
}

/* ---- the state as bytes ---- */

/* A contiguous piece of session memory: of the host, or of the backend where host is NULL. */
typedef status (*piece_fn)(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e);

/* The one description of the state of n_past positions: its size, what is saved and what is loaded follow from it. K and V go head by head,
 * because the distance between two heads depends on the context. */
static status each_piece(session *s, size_t n_past, piece_fn fn, void *ctx, struct err *e)
{
    const struct shape *sh = &s->m->shape;
    size_t tile = qsa_tile_bytes(sh->head_dim, s->f.kv_type);
    size_t head_bytes = qsa_cap_blocks(n_past) * tile, head_stride = s->f.cap_blocks * tile;
    size_t pooled_bytes = n_past / QSA_BLOCK * sh->idx_dim * sizeof(float);
    TRY(fn(ctx, s->past, 0, sizeof s->past, e));
    TRY(fn(ctx, s->logits + (size_t)(s->row0 + s->row) * sh->n_vocab, 0, (size_t)sh->n_vocab * sizeof(float), e));
    TRY(fn(ctx, NULL, s->recurrent.addr, s->recurrent.bytes, e));
    for (uint32_t il = 0; il < sh->n_layer; il++) {
        const struct layer_state *st = &s->state[il];
        for (uint32_t j = 0; j < sh->n_head_kv && sh->is_qsa[il]; j++) {
            TRY(fn(ctx, NULL, st->k + j * head_stride, head_bytes, e));
            TRY(fn(ctx, NULL, st->v + j * head_stride, head_bytes, e));
        }
        if (sh->ratio[il] && pooled_bytes)
            TRY(fn(ctx, NULL, st->pooled, pooled_bytes, e));
        if (st->keys.raw)
            TRY(fn(ctx, NULL, st->keys.raw, n_past * sh->idx_dim * sizeof(float), e));
    }
    return OK;
}

static status count_piece(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e)
{
    (void)host, (void)at, (void)e;
    *(size_t *)ctx += n_bytes;
    return OK;
}

/* Where pieces go (put), or come from (get). */
struct moving {
    gpu *gpu;
    session_put_fn put;
    session_get_fn get;
    void *ctx;
};

/* Memory of the backend goes through a buffer, part by part. */
static status move_piece(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e)
{
    const struct moving *way = ctx;
    uint8_t buffer[1 << 16], *part = host ? host : buffer;
    for (size_t i = 0, n; i < n_bytes; i += n) {
        n = host ? n_bytes : MIN(n_bytes - i, sizeof buffer);
        if (way->put && !host)
            TRY(gpu_read(way->gpu, part, at + i, n, e));
        TRY(way->put ? way->put(way->ctx, part, n, e) : way->get(way->ctx, part, n, e));
        if (way->get && !host)
            TRY(gpu_write(way->gpu, at + i, part, n, e));
    }
    return OK;
}

size_t session_state_bytes(session *s, size_t n_past)
{
    size_t n = 0;
    each_piece(s, n_past, count_piece, &n, NULL);
    return n;
}

status session_save(session *s, session_put_fn put, void *ctx, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    TRY(session_settle(s, e));
    assert(s->have_logits);
    TRY(session_fetch_logits(s, e));
    return each_piece(s, s->n_past, move_piece, &(struct moving){ .gpu = s->m->gpu, .put = put, .ctx = ctx }, e);
}

status session_load(session *s, size_t n_past, session_get_fn get, void *ctx, struct err *e)
{
    TRY(session_reset(s, e));
    if (n_past == 0 || n_past > s->p.n_ctx)
        return fail(e, ERR_USAGE, "a state of %zu positions, expected 1..%zu", n_past, s->p.n_ctx);
    status st = each_piece(s, n_past, move_piece, &(struct moving){ .gpu = s->m->gpu, .get = get, .ctx = ctx }, e);
    if (st != OK) {
        session_reset(s, NULL);
        return st;
    }
    s->n_past = n_past;
    return restore_logits(s, true, e);
}
