/* session.c - one timeline: arenas, plan, prompt in groups of 64, decode, marks. Nothing is allocated after session_open. */
#include "model/session_impl.h"

#include "model/ngram.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_matrix(const model *m, const struct session_params *p) { return on_device(m) && !p->precise && gpu_info_of(m->gpu)->matrix; }

/* Rows of a prefill step: a device needs many to read every expert's weights once for several of them */
static uint32_t ubatch_of(const model *m, const struct session_params *p)
{
    uint32_t n = p->n_ubatch ? p->n_ubatch : on_device(m) ? 2048 : 512;
    return (uint32_t)size_up(MIN(MIN(n, 65536u), p->n_ctx), GDN_CHUNK);
}

/* The layout of the recurrent state, and of the caches of one layer; counts when the arenas have no memory. */
static void place_recurrent(const model *m, struct arena *rec, struct layer_state *state, gpu_addr *ple_window, const struct forward *f)
{
    const struct shape *s = &m->shape;
    for (uint32_t il = 0; il < s->n_layer; il++) {
        if (s->is_qsa[il] && s->ratio[il])
            state[il].window = ADDR(arena_take(rec, qsa_window_floats(&f->qsa), sizeof(float)));
        if (s->is_qsa[il])
            continue;
        size_t all = gdn_state_floats(&f->gdn), window = (size_t)(s->conv_taps - 1) * gdn_width(&f->gdn);
        state[il].gdn_state = ADDR(arena_take(rec, all - window, sizeof(float)));
        state[il].gdn_window = ADDR(arena_take(rec, window, sizeof(float)));
    }
    if (s->ple_layer >= 0)
        *ple_window = ADDR(arena_take(rec, (size_t)(s->ple_conv_taps - 1) * s->ple_ngram * s->n_stream * s->n_embd, sizeof(float)));
}
static void place_kv(const model *m, const struct session_params *p, struct arena *kv, uint32_t il, struct layer_state *state, const struct forward *f)
{
    if (!m->shape.is_qsa[il])
        return;
    size_t half = qsa_kv_bytes(&f->qsa, p->n_ctx, f->kv_type) / 2;
    state->k = ADDR(arena_take(kv, half, 1));
    state->v = ADDR(arena_take(kv, half, 1));
    if (m->shape.ratio[il])
        state->pooled = ADDR(arena_take(kv, qsa_pooled_bytes(&f->qsa, p->n_ctx), 1));
    if (m->shape.ratio[il] && f->qsa.form.keep_raw)
        state->raw = ADDR(arena_take(kv, qsa_raw_bytes(&f->qsa, p->n_ctx), 1));
}

/* The type of the K/V cache, and how a layer computes */
static uint32_t kv_type_of(const struct session_params *p)
{
    static const uint32_t type[] = { [KV_F16] = QSA_KV_F16, [KV_F32] = QSA_KV_F32, [KV_Q8_0] = QSA_KV_Q8_0 };
    return p->precise ? QSA_KV_F32 : type[p->kv];
}
static struct qsa_form form_of(const struct session_params *p)
{
    return (struct qsa_form){ .no_gather = p->no_gather, .no_union = p->no_union, .keep_raw = p->no_pooled_cache || p->pooled_max_tokens,
                              .pooled_max_tokens = p->no_pooled_cache ? 0 : p->pooled_max_tokens };
}
static void init_forward(struct forward *f, const model *m, const struct session_params *p)
{
    forward_init(f, &m->shape, model_weights(m), p->n_ctx, ubatch_of(m, p), kv_type_of(p), form_of(p), on_device(m), on_matrix(m, p));
}

/* Everything that is known before allocating. */
struct sizes {
    struct arena recurrent;
    struct forward_memory m;
    size_t kv, thread_bytes, calls, logits;
    struct forward f;
};
static void size_session(struct sizes *z, const model *m, const struct session_params *p)
{
    struct layer_state state[MAX_LAYER];
    gpu_addr ple_window = 0;
    memset(z, 0, sizeof *z);
    init_forward(&z->f, m, p);
    place_recurrent(m, &z->recurrent, state, &ple_window, &z->f);
    for (uint32_t il = 0; il < m->shape.n_layer; il++) {
        struct arena kv = { 0 };
        place_kv(m, p, &kv, il, &state[il], &z->f);
        if (!size_add(z->kv, kv.used, &z->kv))
            z->kv = SIZE_MAX;
    }
    forward_place(&z->f, &z->m, NULL, 0);
    z->thread_bytes = 0;
    if (!on_device(m) && !size_mul(forward_thread_floats(&z->f) * sizeof(float), model_threads(m), &z->thread_bytes))
        z->thread_bytes = SIZE_MAX;
    z->calls = (size_t)forward_max_calls(&z->f);
    z->logits = on_device(m) ? (size_t)z->f.max_logits * m->shape.n_vocab * sizeof(float) : 0;
}

const char *kv_type_name(const struct session_params *p)
{
    static const char *const name[] = { [QSA_KV_F16] = "f16", [QSA_KV_F32] = "f32", [QSA_KV_Q8_0] = "q8_0" };
    return name[kv_type_of(p)];
}

void session_plan(const model *m, const struct session_params *p, struct plan *plan)
{
    struct sizes z;
    const struct shape *s = &m->shape;
    size_session(&z, m, p);
    uint32_t n_pooled = 0;
    for (uint32_t il = 0; il < s->n_layer; il++)
        n_pooled += s->is_qsa[il] && s->ratio[il];
    size_t pooled = n_pooled * qsa_pooled_bytes(&z.f.qsa, p->n_ctx), raw = n_pooled * qsa_raw_bytes(&z.f.qsa, p->n_ctx), conv = (size_t)(s->conv_taps - 1) * gdn_width(&z.f.gdn) * sizeof(float);
    size_t gdn = s->n_gdn * (gdn_state_floats(&z.f.gdn) * sizeof(float) - conv);
    plan_add(plan, "model: decoded vectors", m->vectors.capacity, "vectors that are not aligned f32 in the file");
    if (on_device(m))
        plan_add(plan, "model: device weights", m->upload.total, "%u blocks, %u matrices of types without a kernel", m->upload.n_block, m->upload.n_decoded);
    plan_add(plan, "session: K/V", z.kv == SIZE_MAX ? SIZE_MAX : z.kv - pooled - raw, "%u layers x %zu positions, %s", s->n_qsa, p->n_ctx,
             kv_type_name(p));
    plan_add(plan, "session: pooled keys", pooled, "%u layers x %u blocks x %u, f32", n_pooled, z.f.cap_blocks, s->idx_dim);
    if (raw)
        plan_add(plan, "session: raw index keys", raw, "%u layers x %zu positions x %u, f32", n_pooled, p->n_ctx, s->idx_dim);
    plan_add(plan, "session: GDN state", gdn, "%u layers x %u heads x %u x %u, f32", s->n_gdn, s->gdn_v_head, s->gdn_dim, s->gdn_dim);
    plan_add(plan, "session: windows", z.recurrent.used - gdn, "short convolutions, n-gram path, index keys of the open block");
    plan_add(plan, "session: scratch", z.m.scratch.used, "ubatch %u", z.f.max_tok);
    plan_add(plan, "session: step", z.m.shared.used, "ids, rope table, n-gram rows");
    plan_add(plan, "session: layer blocks", z.m.blocks.used, "addresses and sizes that kernels read");
    if (on_device(m))
        plan_add(plan, "session: blocks on the host", z.m.blocks.used, "what the layer blocks are copied from");
    if (z.logits)
        plan_add(plan, "session: logits", z.logits, "%u rows on the host", z.f.max_logits);
    if (!on_device(m))
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

/* Room for a session: on a device its memory, which for one that shares the host's is not more than what the host has left. */
static size_t room(const model *m)
{
    const struct gpu_info *info = gpu_info_of(m->gpu);
    uint64_t asked, driver;
    if (!on_device(m))
        return free_memory();
    gpu_memory_used(m->gpu, &asked, &driver);
    size_t left = info->device_bytes - MIN(info->device_bytes, MAX(asked, driver));
    return info->integrated || info->software ? MIN(left, free_memory()) : left;
}

/* What a session needs, by the plan. held: what the model has taken of it already. */
static size_t needed(const model *m, const struct session_params *p, size_t held)
{
    struct plan plan = { 0 };
    session_plan(m, p, &plan);
    size_t total = plan_total(&plan);
    return total == SIZE_MAX ? total : total - held;
}

/* A limit is for all that the plan says, free memory for what is still to be taken. */
static status check_plan(const model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    size_t held = mem_limit ? 0 : m->vectors.capacity + (m->upload.block ? m->upload.total : 0);
    size_t need = needed(m, p, held), have = mem_limit ? mem_limit : room(m);
    if (need <= have)
        return OK;
    struct session_params q = *p; /* the largest context that fits, by halving */
    size_t lo = 0, hi = p->n_ctx;
    while (hi - lo > 64) {
        q.n_ctx = lo + (hi - lo) / 2;
        *(needed(m, &q, held) <= have ? &lo : &hi) = q.n_ctx;
    }
    char needs[32], has[32], fits[64] = "and not even a context of 64 fits; try a smaller -ub";
    if (lo)
        snprintf(fits, sizeof fits, "-c %zu would fit", lo);
    return fail(e, ERR_NOMEM, "a context of %zu needs %s, %s %s; %s", p->n_ctx, size_text(needs, need, true),
                mem_limit ? "--mem-limit is" : on_device(m) ? "free on the device are" : "free are", size_text(has, have, false), fits);
}

static struct arena arena_in(const struct gpu_mem *m) { return (struct arena){ .base = AT(uint8_t, m->addr), .capacity = m->bytes }; }

static status open_memory(session *s, const struct sizes *z, struct err *e)
{
    model *m = s->m;
    struct forward_memory mem = { 0 };
    struct arena rec;
    TRY(gpu_alloc(m->gpu, &s->recurrent, z->recurrent.used, GPU_MEM_DEVICE, "session state", e));
    TRY(gpu_alloc(m->gpu, &s->scratch, z->m.scratch.used, GPU_MEM_DEVICE, "session scratch", e));
    TRY(gpu_alloc(m->gpu, &s->shared, z->m.shared.used, GPU_MEM_SHARED, "session step", e));
    TRY(gpu_alloc(m->gpu, &s->blocks, z->m.blocks.used, GPU_MEM_DEVICE, "session layer blocks", e));
    s->host_blocks = on_device(m) ? calloc(1, z->m.blocks.used) : s->blocks.host;
    s->state = calloc(m->shape.n_layer, sizeof *s->state);
    s->kv = calloc(m->shape.n_layer, sizeof *s->kv);
    s->work = pages_alloc(z->thread_bytes);
    s->work_bytes = z->thread_bytes;
    s->logits = z->logits ? pages_alloc(z->logits) : NULL;
    if (!s->state || !s->kv || !s->work || !s->host_blocks || (z->logits && !s->logits))
        return fail(e, ERR_NOMEM, "session: cannot map %zu MiB", (z->thread_bytes + z->logits) >> 20);
    init_forward(&s->f, m, &s->p);
    rec = arena_in(&s->recurrent);
    place_recurrent(m, &rec, s->state, &s->ple_window, &s->f);
    for (uint32_t il = 0; il < m->shape.n_layer; il++) {
        struct arena count = { 0 }, kv;
        place_kv(m, &s->p, &count, il, &s->state[il], &s->f);
        if (count.used)
            TRY(gpu_alloc(m->gpu, &s->kv[il], count.used, GPU_MEM_DEVICE, "K/V of a layer", e));
        kv = arena_in(&s->kv[il]);
        place_kv(m, &s->p, &kv, il, &s->state[il], &s->f);
    }
    mem.blocks = (struct arena){ .base = s->host_blocks, .capacity = s->blocks.bytes };
    mem.shared = (struct arena){ .base = s->shared.host, .capacity = s->shared.bytes };
    mem.shared_delta = s->shared.addr - ADDR(s->shared.host);
    mem.scratch = arena_in(&s->scratch);
    forward_place(&s->f, &mem, s->state, s->ple_window);
    if (on_device(m))
        TRY(gpu_write(m->gpu, s->blocks.addr, s->host_blocks, s->blocks.bytes, e));
    if (!z->logits)
        s->logits = AT(float, s->f.logits);
    return OK;
}

static status open_list(session *s, struct gpu_cmd *c, const struct sizes *z, struct err *e)
{
    TRY(gpu_cmd_open(s->m->gpu, c, (uint32_t)z->calls, s->work, forward_thread_floats(&s->f), e));
    c->block_delta = s->blocks.addr - ADDR(s->host_blocks);
    c->matrix = s->f.matrix;
    return OK;
}

/* What only the cpu does */
static status check_device(const model *m, const struct session_params *p, struct err *e)
{
    const struct qsa_form form = form_of(p);
    const char *what = form.no_gather ? "--no-gather" : p->no_pooled_cache ? "--no-pooled-cache" : form.keep_raw ? "--pooled-max-tokens"
                       : kv_type_of(p) == QSA_KV_Q8_0                  ? "--kv q8_0"
                                                                       : NULL;
    return on_device(m) && what ? fail(e, ERR_UNSUPPORTED, "%s: found backend %s, in this version only the cpu can do this", what, model_backend(m)) : OK;
}

status session_open(session **out, model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    if (p->n_ctx == 0 || p->n_ctx > UINT32_MAX / 2)
        return fail(e, ERR_USAGE, "context of %zu positions, expected 1..%u", p->n_ctx, UINT32_MAX / 2);
    TRY(check_device(m, p, e));
    TRY(check_plan(m, p, mem_limit, e));
    status st = OK;
    session *s = calloc(1, sizeof *s);
    struct sizes *z = malloc(sizeof *z);
    if (!s || !z) {
        free(s);
        free(z);
        return fail(e, ERR_NOMEM, "session");
    }
    size_session(z, m, p);
    s->m = m;
    s->p = *p;
    TRY_OR(out, st, open_memory(s, z, e));
    TRY_OR(out, st, open_list(s, &s->prefill, z, e));
    TRY_OR(out, st, open_list(s, &s->decode, z, e));
    TRY_OR(out, st, open_list(s, &s->head, z, e));
    TRY_OR(out, st, session_reset(s, e));
    *out = s;
    free(z);
    return OK;
out:
    free(z);
    session_close(s);
    return st;
}

void session_close(session *s)
{
    if (!s)
        return;
    gpu_cmd_close(&s->prefill);
    gpu_cmd_close(&s->decode);
    gpu_cmd_close(&s->head);
    if (on_device(s->m) && s->logits)
        pages_free(s->logits, (size_t)s->f.max_logits * s->m->shape.n_vocab * sizeof(float));
    pages_free(s->work, s->work_bytes);
    for (uint32_t il = 0; s->kv && il < s->m->shape.n_layer; il++)
        gpu_free(s->m->gpu, &s->kv[il]);
    gpu_free(s->m->gpu, &s->recurrent);
    gpu_free(s->m->gpu, &s->scratch);
    gpu_free(s->m->gpu, &s->shared);
    if (on_device(s->m))
        free(s->host_blocks);
    gpu_free(s->m->gpu, &s->blocks);
    free(s->kv);
    free(s->state);
    free(s);
}

status session_reset(session *s, struct err *e)
{
    for (uint32_t k = 0; k < MAX_NGRAM; k++)
        s->past[k] = s->m->shape.ple_eos; /* before the sequence there is end-of-text (spec 2.2) */
    s->n_past = 0;
    s->n_pending = 0;
    s->have_logits = false;
    return gpu_clear(s->m->gpu, s->recurrent.addr, s->recurrent.bytes, e);
}

/* Logits of the last head to where the host reads them */
static status fetch_logits(session *s, uint32_t n_row, struct err *e)
{
    if (!on_device(s->m))
        return OK;
    return gpu_read(s->m->gpu, s->logits, s->f.logits, (size_t)n_row * s->m->shape.n_vocab * sizeof(float), e);
}

/* Head of rows row0 .. of the last step, in strips that fit the logits buffer */
static status head(session *s, uint32_t row0, uint32_t n_row, struct err *e)
{
    if (s->head_rows != n_row || s->head_row0 != row0) {
        gpu_cmd_reset(&s->head);
        forward_head(&s->head, &s->f, row0, n_row, GDN_PREFILL);
        s->head_rows = n_row;
        s->head_row0 = row0;
    }
    TRY(gpu_submit(s->m->gpu, &s->head, e));
    return fetch_logits(s, n_row, e);
}

/* With a tap: one submit per layer and a copy of the last row's residual; nothing stays recorded */
static status tapped_layers(session *s, struct gpu_cmd *c, uint32_t n, enum gdn_phase phase, struct err *e)
{
    size_t wide = (size_t)s->m->shape.n_stream * s->m->shape.n_embd;
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++) {
        gpu_cmd_reset(c);
        if (il == 0)
            forward_embed(c, &s->f, n);
        forward_layer(c, &s->f, il, n, phase);
        forward_settle(c, &s->f, n);
        TRY(gpu_submit(s->m->gpu, c, e));
        TRY(gpu_read(s->m->gpu, s->tap + il * wide, s->f.residual + (n - 1) * wide * sizeof(float), wide * sizeof(float), e));
    }
    gpu_cmd_reset(c);
    return OK;
}

static void record_layers(session *s, struct gpu_cmd *c, uint32_t n, enum gdn_phase phase)
{
    gpu_cmd_reset(c);
    forward_embed(c, &s->f, n);
    for (uint32_t il = 0; il < s->m->shape.n_layer; il++)
        forward_layer(c, &s->f, il, n, phase);
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
    if (s->tap) {
        TRY(tapped_layers(s, &s->prefill, n, GDN_PREFILL, e));
        s->prefill_rows = 0;
    } else {
        if (s->prefill_rows != n) {
            record_layers(s, &s->prefill, n, GDN_PREFILL);
            forward_settle(&s->prefill, &s->f, n);
        }
        s->prefill_rows = n;
        TRY(gpu_submit(s->m->gpu, &s->prefill, e));
    }
    ngram_advance(&s->m->shape, s->past, ids, n);
    size_t pos = s->n_past;
    s->n_past += n;
    s->have_logits = false;
    for (uint32_t row0 = 0; on_rows && row0 < n; row0 += s->f.max_logits) {
        uint32_t n_row = MIN(s->f.max_logits, n - row0);
        TRY(head(s, row0, n_row, e));
        TRY(on_rows(ctx, pos + row0, n_row, s->logits, e));
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
    if (s->tap) {
        TRY(tapped_layers(s, &s->decode, 1, GDN_DECODE, e));
        s->head_rows = 0; /* the head of a tapped step reads the residual where that step left it */
        TRY(head(s, 0, 1, e));
        s->head_rows = 0;
    } else {
        if (!s->decode.n) { /* recorded once, replayed for every token */
            record_layers(s, &s->decode, 1, GDN_DECODE);
            forward_head(&s->decode, &s->f, 0, 1, GDN_DECODE);
        }
        TRY(gpu_submit(s->m->gpu, &s->decode, e));
        TRY(fetch_logits(s, 1, e));
    }
    ngram_advance(&s->m->shape, s->past, &id, 1);
    s->n_past++;
    s->have_logits = true;
    return OK;
}

const float *session_logits(const session *s) { return s->logits; }
size_t session_n_past(const session *s) { return s->n_past + s->n_pending; }
size_t session_n_ctx(const session *s) { return s->p.n_ctx; }
size_t session_n_ubatch(const session *s) { return s->f.max_tok; }
void session_tap(session *s, float *layers) { s->tap = layers; }

status session_profile(session *s, bool decode, session_profile_fn fn, void *ctx, struct err *e)
{
    struct gpu_cmd *c = decode ? &s->decode : &s->prefill;
    double *seconds = calloc(MAX(c->n, 1u), sizeof *seconds);
    if (!seconds)
        return fail(e, ERR_NOMEM, "profile of %u calls", c->n);
    status st = c->n ? gpu_profile(s->m->gpu, c, seconds, e) : OK;
    for (uint32_t i = 0; st == OK && i < c->n; i++)
        fn(ctx, c->call[i].table->row[c->call[i].id].id, seconds[i]);
    free(seconds);
    return st;
}

/* ---- marks ---- */

struct mark_head {
    size_t n_past;
    bool have_logits;
    int32_t past[MAX_NGRAM];
};

/* The recurrent state. The wide residual's last row is not needed: logits are kept instead. */
size_t session_mark_bytes(const session *s)
{
    return size_up(sizeof(struct mark_head), 64) + s->recurrent.bytes + (size_t)s->m->shape.n_vocab * sizeof(float);
}

status session_mark(session *s, void *mark, struct err *e)
{
    TRY(session_flush(s, NULL, NULL, e));
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
    s->have_logits = h.have_logits;
    return gpu_write(s->m->gpu, s->recurrent.addr, p, s->recurrent.bytes, e);
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
    TRY(fn(ctx, s->logits, 0, (size_t)sh->n_vocab * sizeof(float), e));
    TRY(fn(ctx, NULL, s->recurrent.addr, s->recurrent.bytes, e));
    for (uint32_t il = 0; il < sh->n_layer; il++) {
        const struct layer_state *st = &s->state[il];
        for (uint32_t j = 0; j < sh->n_head_kv && sh->is_qsa[il]; j++) {
            TRY(fn(ctx, NULL, st->k + j * head_stride, head_bytes, e));
            TRY(fn(ctx, NULL, st->v + j * head_stride, head_bytes, e));
        }
        if (sh->ratio[il] && pooled_bytes)
            TRY(fn(ctx, NULL, st->pooled, pooled_bytes, e));
        if (st->raw)
            TRY(fn(ctx, NULL, st->raw, n_past * sh->idx_dim * sizeof(float), e));
    }
    return OK;
}

static status count_piece(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e)
{
    (void)host, (void)at, (void)e;
    *(size_t *)ctx += n_bytes;
    return OK;
}

/* Where pieces go, or come from; memory of the backend through a buffer, part by part. */
struct moving {
    gpu *gpu;
    session_put_fn put;
    session_get_fn get;
    void *ctx;
};
enum { PART_BYTES = 1 << 16 };
static status put_piece(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e)
{
    const struct moving *to = ctx;
    uint8_t part[PART_BYTES];
    if (host)
        return to->put(to->ctx, host, n_bytes, e);
    for (size_t i = 0; i < n_bytes; i += PART_BYTES) {
        size_t n = MIN(n_bytes - i, (size_t)PART_BYTES);
        TRY(gpu_read(to->gpu, part, at + i, n, e));
        TRY(to->put(to->ctx, part, n, e));
    }
    return OK;
}
static status get_piece(void *ctx, void *host, gpu_addr at, size_t n_bytes, struct err *e)
{
    const struct moving *from = ctx;
    uint8_t part[PART_BYTES];
    if (host)
        return from->get(from->ctx, host, n_bytes, e);
    for (size_t i = 0; i < n_bytes; i += PART_BYTES) {
        size_t n = MIN(n_bytes - i, (size_t)PART_BYTES);
        TRY(from->get(from->ctx, part, n, e));
        TRY(gpu_write(from->gpu, at + i, part, n, e));
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
    assert(s->have_logits);
    return each_piece(s, s->n_past, put_piece, &(struct moving){ .gpu = s->m->gpu, .put = put, .ctx = ctx }, e);
}

status session_load(session *s, size_t n_past, session_get_fn get, void *ctx, struct err *e)
{
    TRY(session_reset(s, e));
    if (n_past == 0 || n_past > s->p.n_ctx)
        return fail(e, ERR_USAGE, "a state of %zu positions, expected 1..%zu", n_past, s->p.n_ctx);
    status st = each_piece(s, n_past, get_piece, &(struct moving){ .gpu = s->m->gpu, .get = get, .ctx = ctx }, e);
    if (st != OK) {
        session_reset(s, NULL);
        return st;
    }
    s->n_past = n_past;
    s->have_logits = true;
    return OK;
}
