/* session.c - one timeline: arenas, plan, prompt in groups of 64, decode, marks. Nothing is allocated after session_open. */
#include "model/forward.h"
#include "model/model_impl.h"
#include "model/ngram.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    model *m;
    struct session_params p;
    /* recurrent: what a mark copies. kv: indexed by position, so going back needs no copy. scratch: dead between steps. */
    struct arena recurrent, kv, scratch;
    struct forward f;
    struct layer_state *state; /* [n_layer] */
    gpu_addr ple_window;
    int32_t *past;             /* [MAX_NGRAM] last ids, most recent first; in the recurrent arena */
    struct gpu_cmd prefill, decode, head;
    uint32_t prefill_rows, head_row0, head_rows; /* what the lists are recorded for; 0: nothing */
    size_t n_past;             /* positions in the caches */
    int32_t pending[GDN_CHUNK];
    uint32_t n_pending;        /* prompt ids that wait for a whole group */
    bool have_logits;
    float *tap;
};

static uint32_t ubatch_of(const struct session_params *p)
{
    uint32_t n = p->n_ubatch ? p->n_ubatch : 512;
    return (uint32_t)size_up(MIN(n, 65536u), GDN_CHUNK);
}

/* The layout of the two state arenas; counts when they have no memory. */
static void place_state(const model *m, const struct session_params *p, struct arena *rec, struct arena *kv, struct layer_state *state,
                        gpu_addr *ple_window, int32_t **past, const struct forward *f)
{
    const struct shape *s = &m->shape;
    bool f32 = p->precise || p->kv == KV_F32;
    for (uint32_t il = 0; il < s->n_layer; il++) {
        struct layer_state st = { 0 };
        if (s->is_qsa[il]) {
            size_t half = qsa_kv_bytes(&f->qsa, p->n_ctx, f32) / 2;
            st.k = ADDR(arena_take(kv, half, 1));
            st.v = ADDR(arena_take(kv, half, 1));
            if (s->ratio[il]) {
                st.pooled = ADDR(arena_take(kv, qsa_pooled_bytes(&f->qsa, p->n_ctx), 1));
                st.window = ADDR(arena_take(rec, qsa_window_floats(&f->qsa), sizeof(float)));
            }
        } else {
            size_t all = gdn_state_floats(&f->gdn), window = (size_t)(s->conv_taps - 1) * gdn_width(&f->gdn);
            st.gdn_state = ADDR(arena_take(rec, all - window, sizeof(float)));
            st.gdn_window = ADDR(arena_take(rec, window, sizeof(float)));
        }
        if (state)
            state[il] = st;
    }
    if (s->ple_layer >= 0)
        *ple_window = ADDR(arena_take(rec, (size_t)(s->ple_conv_taps - 1) * s->ple_ngram * s->n_stream * s->n_embd, sizeof(float)));
    *past = arena_take(rec, MAX_NGRAM, sizeof **past);
}

/* Everything that is known before allocating. */
struct sizes {
    struct arena recurrent, kv, scratch;
    size_t thread_bytes, calls;
    struct forward f;
};
static void size_session(struct sizes *z, const model *m, const struct session_params *p)
{
    gpu_addr ple_window = 0;
    int32_t *past = NULL;
    memset(z, 0, sizeof *z);
    forward_init(&z->f, &m->shape, &m->weights, p->n_ctx, ubatch_of(p), p->precise || p->kv == KV_F32);
    place_state(m, p, &z->recurrent, &z->kv, NULL, &ple_window, &past, &z->f);
    forward_place(&z->f, &z->scratch, NULL, 0);
    if (!size_mul(forward_thread_floats(&z->f) * sizeof(float), model_threads(m), &z->thread_bytes))
        z->thread_bytes = SIZE_MAX;
    z->calls = (size_t)forward_max_calls(&z->f);
}

void session_plan(const model *m, const struct session_params *p, struct plan *plan)
{
    struct sizes z;
    const struct shape *s = &m->shape;
    bool f32 = p->precise || p->kv == KV_F32;
    size_session(&z, m, p);
    uint32_t n_pooled = 0;
    for (uint32_t il = 0; il < s->n_layer; il++)
        n_pooled += s->is_qsa[il] && s->ratio[il];
    size_t pooled = n_pooled * qsa_pooled_bytes(&z.f.qsa, p->n_ctx), conv = (size_t)(s->conv_taps - 1) * gdn_width(&z.f.gdn) * sizeof(float);
    size_t gdn = s->n_gdn * (gdn_state_floats(&z.f.gdn) * sizeof(float) - conv);
    plan_add(plan, "model: decoded vectors", m->vectors.capacity, "vectors that are not aligned f32 in the file");
    plan_add(plan, "session: K/V", z.kv.used == SIZE_MAX ? SIZE_MAX : z.kv.used - pooled, "%u layers x %zu positions, %s", s->n_qsa, p->n_ctx,
             f32 ? "f32" : "f16");
    plan_add(plan, "session: pooled keys", pooled, "%u layers x %u blocks x %u, f32", n_pooled, z.f.cap_blocks, s->idx_dim);
    plan_add(plan, "session: GDN state", gdn, "%u layers x %u heads x %u x %u, f32", s->n_gdn, s->gdn_v_head, s->gdn_dim, s->gdn_dim);
    plan_add(plan, "session: windows", z.recurrent.used - gdn, "short convolutions, n-gram path, index keys of the open block");
    plan_add(plan, "session: scratch", z.scratch.used, "ubatch %u", z.f.max_tok);
    plan_add(plan, "session: threads", z.thread_bytes, "%u threads", model_threads(m));
    plan_add(plan, "session: call lists", 3 * z.calls * sizeof(struct gpu_call), "%zu calls each", z.calls);
}

/* Memory that can be had without pushing others out: MemAvailable, or what a control group leaves. */
static size_t free_memory(void)
{
    size_t avail = SIZE_MAX, kb, limit;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu kB", &kb) == 1)
            avail = kb * 1024;
    if (f)
        fclose(f);
    f = fopen("/sys/fs/cgroup/memory.max", "r");
    if (f && fscanf(f, "%zu", &limit) == 1)
        avail = MIN(avail, limit);
    if (f)
        fclose(f);
    return avail;
}

static status check_plan(const model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    struct plan plan = { 0 };
    session_plan(m, p, &plan);
    size_t need = plan_total(&plan), have = mem_limit ? mem_limit : free_memory();
    if (need <= have)
        return OK;
    struct session_params q = *p; /* the largest context that fits, by halving */
    size_t lo = 0, hi = p->n_ctx;
    while (hi - lo > 64) {
        q.n_ctx = lo + (hi - lo) / 2;
        struct plan half = { 0 };
        session_plan(m, &q, &half);
        *(plan_total(&half) <= have ? &lo : &hi) = q.n_ctx;
    }
    char needs[32], has[32], fits[64] = "and not even a context of 64 fits; try a smaller -ub";
    if (lo)
        snprintf(fits, sizeof fits, "-c %zu would fit", lo);
    return fail(e, ERR_NOMEM, "a context of %zu needs %s, %s %s; %s", p->n_ctx, size_text(needs, need, true),
                mem_limit ? "--mem-limit is" : "free are", size_text(has, have, false), fits);
}

static status arena_open(struct arena *a, size_t bytes, struct err *e)
{
    *a = (struct arena){ .base = pages_alloc(bytes), .capacity = bytes };
    char size[32];
    return a->base ? OK : fail(e, ERR_NOMEM, "session: cannot map %s", size_text(size, bytes, true));
}

status session_open(session **out, model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    if (p->n_ctx == 0 || p->n_ctx > UINT32_MAX / 2)
        return fail(e, ERR_USAGE, "context of %zu positions, expected 1..%u", p->n_ctx, UINT32_MAX / 2);
    TRY(check_plan(m, p, mem_limit, e));
    status st = OK;
    session *s = calloc(1, sizeof *s);
    if (!s)
        return fail(e, ERR_NOMEM, "session");
    struct sizes z;
    size_session(&z, m, p);
    s->m = m;
    s->p = *p;
    TRY_OR(out, st, arena_open(&s->recurrent, z.recurrent.used, e));
    TRY_OR(out, st, arena_open(&s->kv, z.kv.used, e));
    TRY_OR(out, st, arena_open(&s->scratch, z.scratch.used + z.thread_bytes + 64, e));
    s->state = calloc(m->shape.n_layer, sizeof *s->state);
    if (!s->state) {
        st = fail(e, ERR_NOMEM, "session");
        goto out;
    }
    forward_init(&s->f, &m->shape, &m->weights, p->n_ctx, ubatch_of(p), p->precise || p->kv == KV_F32);
    place_state(m, p, &s->recurrent, &s->kv, s->state, &s->ple_window, &s->past, &s->f);
    forward_place(&s->f, &s->scratch, s->state, s->ple_window);
    size_t per_thread = forward_thread_floats(&s->f);
    float *work = arena_take(&s->scratch, per_thread * model_threads(m), sizeof(float));
    TRY_OR(out, st, gpu_cmd_open(m->gpu, &s->prefill, (uint32_t)z.calls, work, per_thread, e));
    TRY_OR(out, st, gpu_cmd_open(m->gpu, &s->decode, (uint32_t)z.calls, work, per_thread, e));
    TRY_OR(out, st, gpu_cmd_open(m->gpu, &s->head, (uint32_t)z.calls, work, per_thread, e));
    session_reset(s);
    *out = s;
    return OK;
out:
    session_close(s);
    return st;
}

void session_close(session *s)
{
    if (!s)
        return;
    pages_free(s->recurrent.base, s->recurrent.capacity);
    pages_free(s->kv.base, s->kv.capacity);
    pages_free(s->scratch.base, s->scratch.capacity);
    gpu_cmd_close(&s->prefill);
    gpu_cmd_close(&s->decode);
    gpu_cmd_close(&s->head);
    free(s->state);
    free(s);
}

void session_reset(session *s)
{
    memset(s->recurrent.base, 0, s->recurrent.used);
    for (uint32_t k = 0; k < MAX_NGRAM; k++)
        s->past[k] = s->m->shape.ple_eos; /* before the sequence there is end-of-text (spec 2.2) */
    s->n_past = 0;
    s->n_pending = 0;
    s->have_logits = false;
}

/* Head of rows row0 .. of the last step, in strips that fit the logits buffer */
static status head(session *s, uint32_t row0, uint32_t n_row, struct err *e)
{
    if (s->head_rows != n_row || s->head_row0 != row0) {
        gpu_cmd_reset(&s->head);
        forward_head(&s->head, &s->f, row0, n_row);
        s->head_rows = n_row;
        s->head_row0 = row0;
    }
    return gpu_submit(s->m->gpu, &s->head, e);
}

/* The layers for n rows; with a tap, one submit per layer and a copy of the last row's residual */
static status layers(session *s, struct gpu_cmd *c, uint32_t n, enum gdn_phase phase, bool recorded, struct err *e)
{
    uint32_t n_layer = s->m->shape.n_layer;
    if (s->tap) {
        size_t wide = (size_t)s->m->shape.n_stream * s->m->shape.n_embd;
        for (uint32_t il = 0; il < n_layer; il++) {
            gpu_cmd_reset(c);
            if (il == 0)
                forward_embed(c, &s->f, n);
            forward_layer(c, &s->f, il, n, phase);
            TRY(gpu_submit(s->m->gpu, c, e));
            memcpy(s->tap + il * wide, AT(const float, s->f.residual) + (n - 1) * wide, wide * sizeof(float));
        }
        gpu_cmd_reset(c);
        return OK;
    }
    if (!recorded) {
        gpu_cmd_reset(c);
        forward_embed(c, &s->f, n);
        for (uint32_t il = 0; il < n_layer; il++)
            forward_layer(c, &s->f, il, n, phase);
    }
    return gpu_submit(s->m->gpu, c, e);
}

static status check_room(const session *s, const int32_t *ids, size_t n, struct err *e)
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
    forward_begin(&s->f, ids, n, s->n_past, s->past);
    TRY(layers(s, &s->prefill, n, GDN_PREFILL, s->prefill_rows == n, e));
    s->prefill_rows = s->tap ? 0 : n;
    ngram_advance(&s->m->shape, s->past, ids, n);
    size_t pos = s->n_past;
    s->n_past += n;
    s->have_logits = false;
    for (uint32_t row0 = 0; on_rows && row0 < n; row0 += s->f.max_logits) {
        uint32_t n_row = MIN(s->f.max_logits, n - row0);
        TRY(head(s, row0, n_row, e));
        TRY(on_rows(ctx, pos + row0, n_row, AT(const float, s->f.logits), e));
    }
    return OK;
}

status session_prefill(session *s, const int32_t *ids, size_t n, session_rows_fn on_rows, void *ctx, struct err *e)
{
    TRY(check_room(s, ids, n, e));
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
        s->have_logits = true;
    }
    return OK;
}

status session_decode(session *s, int32_t id, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    TRY(check_room(s, &id, 1, e));
    forward_begin(&s->f, &id, 1, s->n_past, s->past);
    bool recorded = s->decode.n > 0;
    if (!recorded && !s->tap) { /* recorded once, replayed for every token */
        forward_embed(&s->decode, &s->f, 1);
        for (uint32_t il = 0; il < s->m->shape.n_layer; il++)
            forward_layer(&s->decode, &s->f, il, 1, GDN_DECODE);
        forward_head(&s->decode, &s->f, 0, 1);
        recorded = true;
    }
    TRY(layers(s, &s->decode, 1, GDN_DECODE, recorded, e));
    if (s->tap)
        TRY(head(s, 0, 1, e));
    ngram_advance(&s->m->shape, s->past, &id, 1);
    s->n_past++;
    s->have_logits = true;
    return OK;
}

const float *session_logits(const session *s) { return AT(const float, s->f.logits); }
size_t session_n_past(const session *s) { return s->n_past + s->n_pending; }
size_t session_n_ctx(const session *s) { return s->p.n_ctx; }
void session_tap(session *s, float *layers) { s->tap = layers; }

/* ---- marks ---- */

struct mark_head {
    size_t n_past;
    bool have_logits;
    uint32_t n_tok;
};

/* The recurrent state, the wide residual's last row is not needed: logits are kept instead. */
size_t session_mark_bytes(const session *s)
{
    return size_up(sizeof(struct mark_head), 64) + s->recurrent.used + (size_t)s->m->shape.n_vocab * sizeof(float);
}

status session_mark(session *s, void *mark, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    uint8_t *p = mark;
    struct mark_head h = { .n_past = s->n_past, .have_logits = s->have_logits };
    memcpy(p, &h, sizeof h);
    p += size_up(sizeof h, 64);
    memcpy(p, s->recurrent.base, s->recurrent.used);
    memcpy(p + s->recurrent.used, session_logits(s), (size_t)s->m->shape.n_vocab * sizeof(float));
    return OK;
}

void session_return(session *s, const void *mark)
{
    const uint8_t *p = mark;
    struct mark_head h;
    memcpy(&h, p, sizeof h);
    assert(h.n_past <= s->n_past);
    p += size_up(sizeof h, 64);
    memcpy(s->recurrent.base, p, s->recurrent.used);
    memcpy(AT(float, s->f.logits), p + s->recurrent.used, (size_t)s->m->shape.n_vocab * sizeof(float));
    s->n_past = h.n_past;
    s->n_pending = 0;
    s->have_logits = h.have_logits;
}

/* ---- the state as bytes ---- */

/* A contiguous piece of session memory. */
typedef status (*piece_fn)(void *ctx, gpu_addr at, size_t n_bytes, struct err *e);

/* The one description of the state of n_past positions: its size, what is saved and what is loaded follow from it. K and V go head by head,
 * because the distance between two heads depends on the context. */
static status each_piece(const session *s, size_t n_past, piece_fn fn, void *ctx, struct err *e)
{
    const struct shape *sh = &s->m->shape;
    size_t tile = QSA_BLOCK * (size_t)sh->head_dim * (s->f.kv_f32 ? 4 : 2);
    size_t head_bytes = qsa_cap_blocks(n_past) * tile, head_stride = s->f.cap_blocks * tile;
    size_t pooled_bytes = n_past / QSA_BLOCK * sh->idx_dim * sizeof(float);
    TRY(fn(ctx, ADDR(s->recurrent.base), s->recurrent.used, e));
    TRY(fn(ctx, s->f.logits, (size_t)sh->n_vocab * sizeof(float), e));
    for (uint32_t il = 0; il < sh->n_layer; il++) {
        const struct layer_state *st = &s->state[il];
        for (uint32_t j = 0; j < sh->n_head_kv && sh->is_qsa[il]; j++) {
            TRY(fn(ctx, st->k + j * head_stride, head_bytes, e));
            TRY(fn(ctx, st->v + j * head_stride, head_bytes, e));
        }
        if (sh->ratio[il] && pooled_bytes)
            TRY(fn(ctx, st->pooled, pooled_bytes, e));
    }
    return OK;
}

static status count_piece(void *ctx, gpu_addr at, size_t n_bytes, struct err *e)
{
    (void)at, (void)e;
    *(size_t *)ctx += n_bytes;
    return OK;
}

/* Where pieces go, or come from. These two are all that touches their bytes: memory of a device would be copied here. */
struct moving {
    session_put_fn put;
    session_get_fn get;
    void *ctx;
};
static status put_piece(void *ctx, gpu_addr at, size_t n_bytes, struct err *e)
{
    const struct moving *to = ctx;
    return to->put(to->ctx, AT(const void, at), n_bytes, e);
}
static status get_piece(void *ctx, gpu_addr at, size_t n_bytes, struct err *e)
{
    const struct moving *from = ctx;
    return from->get(from->ctx, AT(void, at), n_bytes, e);
}

size_t session_state_bytes(const session *s, size_t n_past)
{
    size_t n = 0;
    each_piece(s, n_past, count_piece, &n, NULL);
    return n;
}

status session_save(session *s, session_put_fn put, void *ctx, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
    assert(s->have_logits);
    return each_piece(s, s->n_past, put_piece, &(struct moving){ .put = put, .ctx = ctx }, e);
}

status session_load(session *s, size_t n_past, session_get_fn get, void *ctx, struct err *e)
{
    session_reset(s);
    if (n_past == 0 || n_past > s->p.n_ctx)
        return fail(e, ERR_USAGE, "a state of %zu positions, expected 1..%zu", n_past, s->p.n_ctx);
    status st = each_piece(s, n_past, get_piece, &(struct moving){ .get = get, .ctx = ctx }, e);
    if (st != OK) {
        session_reset(s);
        return st;
    }
    s->n_past = n_past;
    s->have_logits = true;
    return OK;
}
