/* session.c - one timeline: arenas, prompt in groups of 64, decode. Nothing is allocated after session_open. */
#include "model/ngram.h"
#include "model/session_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SESSION_BEST_MAX == TOP_MAX, "what a session can be asked for is what the rows can find");

static struct arena arena_in(const struct gpu_mem *m) { return (struct arena){ .base = AT(uint8_t, m->addr), .capacity = m->bytes }; }

/* What all places share, in place 0 */
static status open_shared(session *s, const struct session_sizes *z, struct err *e)
{
    model *m = s->m;
    size_t blocks = z->m.blocks.used * session_seqs(&s->p);
    TRY(gpu_alloc(m->gpu, &s->scratch, z->m.scratch.used, GPU_MEM_DEVICE, "session scratch", e));
    TRY(gpu_alloc(m->gpu, &s->shared, z->m.shared.used, GPU_MEM_SHARED, "session step", e));
    TRY(gpu_alloc(m->gpu, &s->blocks, blocks, GPU_MEM_DEVICE, "session layer blocks", e));
    if (z->turns)
        TRY(gpu_alloc(m->gpu, &s->turns, z->turns, GPU_MEM_DEVICE, "rope of blocks", e));
    s->host_blocks = on_device(m) ? calloc(1, blocks) : s->blocks.host;
    s->work = pages_alloc(z->thread_bytes);
    s->work_bytes = z->thread_bytes;
    s->logits = z->logits ? pages_alloc(z->logits) : NULL;
    if (!s->work || !s->host_blocks || (z->logits && !s->logits))
        return fail(e, ERR_NOMEM, "session: cannot map %zu MiB", (z->thread_bytes + z->logits) >> 20);
    return OK;
}

/* The table of struct qsa_raw_keys, once the layer blocks are placed */
static status write_turns(session *s, struct err *e)
{
    if (!s->turns.bytes)
        return OK;
    float *turn = malloc(s->turns.bytes);
    if (!turn)
        return fail(e, ERR_NOMEM, "rope of %u blocks", s->f.cap_blocks);
    forward_turns(&s->f, s->f.cap_blocks, turn);
    status st = gpu_write(s->m->gpu, s->turns.addr, turn, s->turns.bytes, e);
    free(turn);
    return st;
}

/* The rest of place k, and its layer blocks */
static status open_place(session *s, uint32_t k, const struct session_sizes *z, struct err *e)
{
    model *m = s->m;
    const session *first = s->place[0];
    struct forward_memory mem = { 0 };
    struct arena rec;
    uint8_t *blocks = (uint8_t *)first->host_blocks + k * z->m.blocks.used;
    TRY(gpu_alloc(m->gpu, &s->recurrent, z->recurrent.used, GPU_MEM_DEVICE, "session state", e));
    s->state = calloc(m->shape.n_layer, sizeof *s->state);
    s->kv = calloc(m->shape.n_layer, sizeof *s->kv);
    if (!s->state || !s->kv)
        return fail(e, ERR_NOMEM, "session: %u layers", m->shape.n_layer);
    session_forward(&s->f, m, &s->p);
    if (s->p.verify) {
        TRY(gpu_alloc(m->gpu, &s->rows, z->rows.used, GPU_MEM_DEVICE, "rows of drafts", e));
        s->verify_rows = calloc(m->shape.n_layer + (size_t)1, sizeof *s->verify_rows);
        if (!s->verify_rows)
            return fail(e, ERR_NOMEM, "session: %u layers", m->shape.n_layer);
    }
    rec = arena_in(&s->recurrent);
    session_place_recurrent(m, &rec, s->state, &s->ple_window, &s->f);
    for (uint32_t il = 0; il < m->shape.n_layer; il++) {
        struct arena count = { 0 }, kv;
        session_place_kv(m, &s->p, &count, il, &s->state[il], &s->f);
        if (count.used)
            TRY(gpu_alloc(m->gpu, &s->kv[il], count.used, GPU_MEM_DEVICE, "K/V of a layer", e));
        kv = arena_in(&s->kv[il]);
        session_place_kv(m, &s->p, &kv, il, &s->state[il], &s->f);
        s->state[il].keys.turn = first->turns.addr;
    }
    mem.blocks = (struct arena){ .base = blocks, .capacity = z->m.blocks.used };
    mem.shared = (struct arena){ .base = first->shared.host, .capacity = first->shared.bytes };
    mem.shared_delta = first->shared.addr - ADDR(first->shared.host);
    mem.scratch = arena_in(&first->scratch);
    forward_place(&s->f, &mem, s->state, s->ple_window);
    if (s->p.verify) {
        struct arena rows = arena_in(&s->rows);
        forward_take_rows(&s->f, &rows, s->verify_rows);
        forward_place_verify(&s->f, &mem, s->verify_rows, s->rows.addr);
    }
    if (on_device(m))
        TRY(gpu_write(m->gpu, first->blocks.addr + k * z->m.blocks.used, blocks, z->m.blocks.used, e));
    s->logits = z->logits ? first->logits : AT(float, s->f.logits);
    return k == 0 ? write_turns(s, e) : OK;
}

status session_open_list(session *s, struct gpu_cmd *c, size_t n_calls, struct err *e)
{
    const session *first = s->place[0];
    if (n_calls == 0)
        return OK;
    TRY(gpu_cmd_open(s->m->gpu, c, (uint32_t)n_calls, first->work, forward_thread_floats(&s->f), e));
    c->block_delta = first->blocks.addr - ADDR(first->host_blocks);
    c->matrix = s->f.matrix;
    c->rows = s->f.rows;
    return OK;
}

static status open_lists(session *s, const struct session_sizes *z, struct err *e)
{
    TRY(session_open_list(s, &s->head, HEAD_CALLS, e));
    TRY(session_open_list(s, &s->choose, CHOOSE_CALLS, e));
    for (int i = 0; i < 2; i++) {
        TRY(session_open_list(s, &s->prefill[i], z->calls, e));
        TRY(session_open_list(s, &s->decode[i], z->calls, e));
    }
    if (s->place[0] == s)
        TRY(session_open_rows(s, z, e));
    if (s->p.verify)
        TRY(session_open_verify(s, e));
    if (session_takes_head(s->m, &s->p))
        TRY(draft_open(&s->draft, s, e));
    return session_reset(s, e);
}

static status open_places(session *first, const struct session_sizes *z, struct err *e)
{
    TRY(open_shared(first, z, e));
    for (uint32_t k = 0; k < session_seqs(&first->p); k++) {
        session *s = k ? calloc(1, sizeof *s) : first;
        if (!s)
            return fail(e, ERR_NOMEM, "session");
        s->m = first->m;
        s->p = first->p;
        s->place[0] = first;
        first->place[k] = s;
        TRY(open_place(s, k, z, e));
        TRY(open_lists(s, z, e));
    }
    return OK;
}

status session_open(session **out, model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    if (p->n_ctx == 0 || p->n_ctx > UINT32_MAX / 2)
        return fail(e, ERR_USAGE, "context of %zu positions, expected 1..%u", p->n_ctx, UINT32_MAX / 2);
    if (p->n_seq > SESSION_SEQ_MAX)
        return fail(e, ERR_USAGE, "%u timelines, expected at most %d", p->n_seq, SESSION_SEQ_MAX);
    TRY(session_check_plan(m, p, mem_limit, e));
    session *s = calloc(1, sizeof *s);
    struct session_sizes *z = malloc(sizeof *z);
    if (!s || !z) {
        free(s);
        free(z);
        return fail(e, ERR_NOMEM, "session");
    }
    session_size(z, m, p);
    s->m = m;
    s->p = *p;
    status st = open_places(s, z, e);
    free(z);
    if (st == OK)
        *out = s;
    else
        session_close(s);
    return st;
}

/* What belongs to one place */
static void close_place(session *s)
{
    gpu_cmd_close(&s->head);
    gpu_cmd_close(&s->choose);
    for (int i = 0; i < 2; i++) {
        gpu_cmd_close(&s->prefill[i]);
        gpu_cmd_close(&s->decode[i]);
    }
    session_close_rows(s);
    session_close_verify(s);
    draft_close(s->draft);
    free(s->call_seconds);
    for (uint32_t il = 0; s->kv && il < s->m->shape.n_layer; il++)
        gpu_free(s->m->gpu, &s->kv[il]);
    gpu_free(s->m->gpu, &s->recurrent);
    free(s->kv);
    free(s->state);
}

void session_close(session *s)
{
    if (!s)
        return;
    for (uint32_t k = 1; k < session_seqs(&s->p); k++)
        if (s->place[k]) {
            close_place(s->place[k]);
            free(s->place[k]);
        }
    close_place(s);
    if (on_device(s->m) && s->logits)
        pages_free(s->logits, (size_t)s->f.max_logits * s->m->shape.n_vocab * sizeof(float));
    pages_free(s->work, s->work_bytes);
    gpu_free(s->m->gpu, &s->scratch);
    gpu_free(s->m->gpu, &s->turns);
    gpu_free(s->m->gpu, &s->shared);
    if (on_device(s->m))
        free(s->host_blocks);
    gpu_free(s->m->gpu, &s->blocks);
    free(s);
}

void session_device_memory(const session *s, struct device_memory *out)
{
    struct plan plan = { 0 };
    *out = (struct device_memory){ 0 };
    if (!on_device(s->m))
        return;
    session_plan(s->m, &s->p, &plan);
    out->planned = plan_device_bytes(&plan);
    gpu_memory_used(s->m->gpu, &out->asked, &out->driver);
}

uint64_t session_memory_asked(const session *s)
{
    uint64_t asked, driver;
    gpu_memory_used(s->m->gpu, &asked, &driver);
    return asked;
}

status session_reset(session *s, struct err *e)
{
    for (uint32_t k = 0; k < MAX_NGRAM; k++)
        s->past[k] = s->m->shape.ple_eos; /* before the sequence there is end-of-text (spec 2.2) */
    s->n_past = 0;
    s->n_pending = 0;
    s->n_rows = 0;
    s->unfed = false;
    s->row0 = s->row = 0;
    s->have_logits = false;
    if (s->draft)
        draft_reset(s->draft);
    return gpu_clear(s->m->gpu, s->recurrent.addr, s->recurrent.bytes, e);
}

/* Logits of rows row0 .. of the last head to where the host reads them */
static status fetch_logits(session *s, uint32_t row0, uint32_t n_row, struct err *e)
{
    size_t row = s->m->shape.n_vocab;
    if (!on_device(s->m))
        return OK;
    return gpu_read(s->m->gpu, s->logits + row0 * row, s->f.logits + row0 * row * sizeof(float), n_row * row * sizeof(float), e);
}

/* Head of rows row0 .. of the last step; n_row <= max_logits */
static status head(session *s, uint32_t row0, uint32_t n_row, struct err *e)
{
    if (s->head_rows != n_row || s->head_row0 != row0) {
        gpu_cmd_reset(&s->head);
        forward_head(&s->head, &s->f, row0, n_row, GDN_PREFILL);
        s->head_rows = n_row;
        s->head_row0 = row0;
    }
    return session_run(s, &s->head, false, e);
}

status session_take(session *s, uint32_t row0, uint32_t n_row, struct err *e)
{
    struct argmax_best best[DECODE_ROWS * SESSION_BEST_MAX];
    s->row0 = row0;
    s->row = 0;
    s->have_logits = true;
    s->logits_here = s->n_best == 0 || !on_device(s->m);
    memset(s->n_found, 0, sizeof s->n_found);
    if (s->n_best == 0)
        return fetch_logits(s, row0, n_row, e);
    TRY(gpu_read(s->m->gpu, best, s->f.best_at + row0 * s->n_best * sizeof *best, (size_t)n_row * s->n_best * sizeof *best, e));
    for (uint32_t r = 0; r < n_row; r++)
        for (uint32_t i = 0; i < s->n_best; i++) {
            const struct argmax_best *b = &best[r * s->n_best + i];
            if (b->id < s->m->shape.n_vocab)
                s->best[r][s->n_found[r]++] = (struct candidate){ (int32_t)b->id, b->value };
        }
    return OK;
}

status session_choose(session *s, struct err *e)
{
    if (s->n_best && !s->choose.n)
        forward_choose(&s->choose, &s->f, 1, s->n_best);
    TRY(session_run(s, &s->choose, false, e));
    return session_take(s, 0, 1, e);
}

void session_want(session *s, uint32_t n_best)
{
    for (uint32_t k = 0; k < session_n_seq(s); k++) {
        session *at = s->place[k];
        assert(n_best <= SESSION_BEST_MAX && session_n_past(at) == 0);
        at->n_best = n_best;
        gpu_cmd_reset(&at->decode[0]);
        gpu_cmd_reset(&at->decode[1]);
        gpu_cmd_reset(&at->choose);
        session_forget_verify(at);
    }
    session_forget_rows(s->place[0]);
}

const struct candidate *session_best(const session *s, size_t *n)
{
    *n = s->n_found[s->row];
    return s->best[s->row];
}

status session_fetch_logits(session *s, struct err *e)
{
    if (s->have_logits && !s->logits_here)
        TRY(fetch_logits(s, s->row0 + s->row, 1, e));
    s->logits_here = true;
    return OK;
}

/* With a tap: one submit per layer and a copy of the last row's residual; nothing stays recorded */
static status tapped_layers(session *s, struct gpu_cmd *c, uint32_t n, enum gdn_phase phase, struct err *e)
{
    size_t wide = (size_t)s->m->shape.n_stream * s->m->shape.n_embd;
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++) {
        gpu_cmd_reset(c);
        if (il == 0) {
            forward_embed(c, &s->f, n);
            forward_fetch_tables(c, &s->f, n);
        }
        forward_layer(c, &s->f, il, n, phase);
        forward_settle(c, &s->f, n);
        TRY(gpu_submit(s->m->gpu, c, e));
        TRY(gpu_read(s->m->gpu, s->tap + il * wide, s->f.residual + (n - 1) * wide * sizeof(float), wide * sizeof(float), e));
    }
    gpu_cmd_reset(c);
    return OK;
}

void session_record_prefill(session *s, uint32_t n)
{
    uint32_t n_first = forward_first_layers(&s->f);
    struct gpu_cmd *first = &s->prefill[0], *rest = &s->prefill[1];
    gpu_cmd_reset(first);
    gpu_cmd_reset(rest);
    forward_embed(first, &s->f, n);
    forward_fetch_tables(rest, &s->f, n);
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++)
        forward_layer(il < n_first ? first : rest, &s->f, il, n, GDN_PREFILL);
    forward_settle(rest, &s->f, n);
    s->prefill_rows = n;
}

void session_record_decode(session *s)
{
    uint32_t n_first = forward_first_layers(&s->f);
    struct gpu_cmd *first = &s->decode[0], *rest = &s->decode[1];
    gpu_cmd_reset(first);
    gpu_cmd_reset(rest);
    forward_embed(first, &s->f, 1);
    forward_fetch_tables(rest, &s->f, 1);
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++)
        forward_layer(il < n_first ? first : rest, &s->f, il, 1, GDN_DECODE);
    forward_head(rest, &s->f, 0, 1, GDN_DECODE);
    s->step_rows = s->f.residual;
    if (s->n_best)
        forward_choose(rest, &s->f, 1, s->n_best);
}

status session_check_room(const session *s, const int32_t *ids, size_t n, struct err *e)
{
    if (n > s->p.n_ctx - session_n_past(s))
        return fail(e, ERR_USAGE, "context is full: %zu positions and %zu more, expected at most %zu", session_n_past(s), n, s->p.n_ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->m->shape.n_vocab)
            return fail(e, ERR_USAGE, "token id %d, expected 0..%u", ids[i], s->m->shape.n_vocab - 1);
    return OK;
}

/* One prefill step of n rows, n <= ubatch, starting at a group boundary of the segment */
static status prefill_step(session *s, const int32_t *ids, uint32_t n, session_rows_fn on_rows, void *ctx, struct err *e)
{
    TRY(session_feed_heads(s, e));
    TRY(session_settle(s, e));
    forward_begin(&s->f, ids, n, s->n_past);
    if (s->tap) {
        forward_gather(&s->f, s->past);
        TRY(tapped_layers(s, &s->prefill[0], n, GDN_PREFILL, e));
        s->prefill_rows = 0;
    } else {
        if (s->prefill_rows != n)
            session_record_prefill(s, n);
        TRY(session_start(s, &s->prefill[0], false, e));
        forward_gather(&s->f, s->past);
        TRY(session_run(s, &s->prefill[1], false, e));
    }
    ngram_advance(&s->m->shape, s->past, ids, n);
    size_t pos = s->n_past;
    s->n_past += n;
    s->row0 = s->row = 0;
    s->have_logits = false;
    TRY(session_feed_prompt(s, ids, n, e));
    for (uint32_t row0 = 0; on_rows && row0 < n; row0 += s->f.max_logits) {
        uint32_t n_row = MIN(s->f.max_logits, n - row0);
        TRY(head(s, row0, n_row, e));
        TRY(fetch_logits(s, 0, n_row, e));
        TRY(on_rows(ctx, pos + row0, n_row, s->logits, e));
    }
    return OK;
}

status session_prefill(session *s, const int32_t *ids, size_t n, session_rows_fn on_rows, void *ctx, struct err *e)
{
    TRY(session_check_room(s, ids, n, e));
    while (n) {
        if (s->n_pending == 0 && n >= GDN_CHUNK) { /* whole groups straight from the caller */
            uint32_t k = (uint32_t)MIN(n / GDN_CHUNK * GDN_CHUNK, (size_t)s->f.max_tok);
            TRY(prefill_step(s, ids, k, on_rows, ctx, e));
            ids += k;
            n -= k;
            continue;
        }
        uint32_t k = (uint32_t)MIN(n, (size_t)(GDN_CHUNK - s->n_pending));
        memcpy(s->pending + s->n_pending, ids, k * sizeof *ids);
        s->n_pending += k;
        ids += k;
        n -= k;
        if (s->n_pending == GDN_CHUNK) {
            s->n_pending = 0;
            TRY(prefill_step(s, s->pending, GDN_CHUNK, on_rows, ctx, e));
        }
    }
    return OK;
}

status session_flush(session *s, session_rows_fn on_rows, void *ctx, struct err *e)
{
    uint32_t n = s->n_pending;
    s->n_pending = 0;
    if (n)
        TRY(prefill_step(s, s->pending, n, on_rows, ctx, e));
    if (!s->have_logits && s->n_past && s->f.step->n_tok) {
        TRY(head(s, s->f.step->n_tok - 1, 1, e));
        TRY(session_choose(s, e));
    }
    return OK;
}

status session_decode(session *s, int32_t id, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    TRY(session_check_room(s, &id, 1, e));
    TRY(session_feed_heads(s, e));
    TRY(session_settle(s, e));
    forward_begin(&s->f, &id, 1, s->n_past);
    if (s->tap) {
        forward_gather(&s->f, s->past);
        TRY(tapped_layers(s, &s->decode[0], 1, GDN_DECODE, e));
        gpu_cmd_reset(&s->decode[1]);
        s->head_rows = 0; /* the head of a tapped step reads the residual where that step left it */
        TRY(head(s, 0, 1, e));
        s->head_rows = 0;
        TRY(session_choose(s, e));
    } else {
        if (!s->decode[1].n) /* recorded once, replayed for every token */
            session_record_decode(s);
        TRY(session_start(s, &s->decode[0], true, e));
        forward_gather(&s->f, s->past);
        TRY(session_run(s, &s->decode[1], true, e));
        TRY(session_take(s, 0, 1, e));
    }
    ngram_advance(&s->m->shape, s->past, &id, 1);
    s->n_past++;
    s->row_ids[0] = id;
    s->unfed = s->draft != NULL;
    return OK;
}

const float *session_logits(const session *s)
{
    assert(s->logits_here || !s->have_logits);
    return s->logits + (size_t)(s->row0 + s->row) * s->m->shape.n_vocab;
}

session *session_place(session *s, uint32_t k) { return s->place[k]; }
uint32_t session_n_seq(const session *s) { return session_seqs(&s->p); }
size_t session_n_past(const session *s) { return s->n_past + s->n_pending; }
size_t session_n_ctx(const session *s) { return s->p.n_ctx; }
size_t session_n_ubatch(const session *s) { return s->f.max_tok; }
void session_tap(session *s, float *layers) { s->tap = layers; }
