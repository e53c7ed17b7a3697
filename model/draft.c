/* draft.c - the draft head as a model of one layer with an input of its own, and its timeline. */
#include "model/draft.h"

#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"
#include "model/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEED_ROWS = 64, FEED_CALLS = 24, STEP_CALLS = 64 };

/* What the head has beside a layer */
struct draft_block {
    struct matmul_job hidden;    /* eh_proj, or fc_hidden */
    struct matmul_job embd;      /* fc_embd; w.data = 0: part of the above */
    struct qsa_layer keys;       /* of the layer, what leaves keys: k, v, index k in in[0 .. 2], no heads that ask */
};

struct draft {
    session *session;
    gpu *gpu;
    struct shape shape;          /* one attention layer */
    struct weights w;
    const struct draft_weights *of;
    struct forward f;
    struct layer_state state;
    struct gpu_mem window, kv, scratch, shared, blocks;
    struct draft_block *block;
    float *work;
    size_t work_bytes;
    gpu_addr x, e, share, ones;  /* [FEED_ROWS, ..]: input of the block, embeddings, what fc_embd makes of them, 1 for every stream */
    gpu_addr carry, kept;        /* residual that waits for its id; index keys before guesses that may not count */
    struct gpu_cmd feed, first, next;
    size_t n_pair;
    bool have_carry;
    uint32_t n_guess;            /* since draft_first, itself included */
    int32_t first_id, last_guess;
    bool first_done;             /* the pair of first_id has its keys already */
    session_rows_fn on_rows;
    void *on_rows_ctx;
};

bool draft_exists(const model *m) { return m->shape.n_draft > 0 && m->weights.draft.enorm && gpu_backend_of(m->gpu) == GPU_CPU; }

/* ---- memory ---- */

static void shape_of(const model *m, struct shape *s, struct weights *w, const struct session_params *p)
{
    const struct draft_weights *d = &m->weights.draft;
    *s = m->shape;
    s->n_layer = s->n_qsa = 1;
    s->n_draft = s->n_gdn = 0;
    s->is_qsa[0] = true;
    s->ratio[0] = d->layer.qsa.iq.data && !p->draft_dense ? QSA_RATIO : 0;
    s->ple_layer = -1;
    s->ple_head = s->ple_row = 0;
    w->token_embd = d->embd.data ? d->embd : m->weights.token_embd;
    w->output = d->output.data ? d->output : m->weights.output;
    w->out_hc = d->head;
    w->layer[0] = d->layer;
}

/* Places everything, or counts what it takes */
static void place(draft *d, struct arena *kv, struct arena *window, struct forward_memory *mem, const struct session_params *p)
{
    const struct shape *s = &d->shape;
    size_t half = qsa_kv_bytes(&d->f.qsa, p->n_ctx, d->f.kv_type) / 2, wide = (size_t)s->n_stream * s->n_embd;
    d->state = (struct layer_state){ .k = ADDR(arena_take(kv, half, 1)), .v = ADDR(arena_take(kv, half, 1)) };
    if (s->ratio[0])
        d->state.pooled = ADDR(arena_take(kv, qsa_pooled_bytes(&d->f.qsa, p->n_ctx), 1));
    d->state.window = ADDR(arena_take(window, qsa_window_floats(&d->f.qsa), sizeof(float)));
    d->kept = ADDR(arena_take(window, qsa_window_floats(&d->f.qsa), sizeof(float)));
    d->carry = ADDR(arena_take(window, wide, sizeof(float)));
    d->ones = ADDR(arena_take(window, (size_t)FEED_ROWS * s->n_stream, sizeof(float)));
    forward_place(&d->f, mem, &d->state, 0);
    d->block = arena_take(&mem->blocks, 1, sizeof *d->block);
    d->x = ADDR(arena_take(&mem->scratch, FEED_ROWS * 2 * wide, sizeof(float)));
    d->e = ADDR(arena_take(&mem->scratch, (size_t)FEED_ROWS * s->n_embd, sizeof(float)));
    d->share = ADDR(arena_take(&mem->scratch, (size_t)FEED_ROWS * s->n_embd, sizeof(float)));
}

static struct matmul_job job(const struct gpu_mat *w, gpu_addr y) { return (struct matmul_job){ .w = *w, .y = y, .y_stride = w->n_out, .scale = 1 }; }

static void build(draft *d)
{
    struct draft_block *b = d->block;
    bool apart = d->of->fc_hidden.data != 0;
    b->hidden = job(apart ? &d->of->fc_hidden : &d->of->eh_proj, d->f.residuals[0]);
    b->embd = (struct matmul_job){ 0 };
    if (apart)
        b->embd = job(&d->of->fc_embd, d->share);
    b->keys = d->f.layer[0].qsa;
    b->keys.in[0] = d->f.layer[0].qsa.in[1];
    b->keys.in[1] = d->f.layer[0].qsa.in[2];
    b->keys.in[2] = d->f.layer[0].qsa.in[4];
    b->keys.block.n_head = b->keys.block.idx_head = 0;
    for (size_t i = 0; i < (size_t)FEED_ROWS * d->shape.n_stream; i++)
        AT(float, d->ones)[i] = 1;
}

static void init(draft *d, const model *m, const struct session_params *p)
{
    d->gpu = m->gpu;
    d->of = &m->weights.draft;
    shape_of(m, &d->shape, &d->w, p);
    forward_init(&d->f, &d->shape, &d->w, p->n_ctx, FEED_ROWS, session_kv_type(p), (struct qsa_form){ 0 }, false, false);
}

void draft_plan(const model *m, const struct session_params *p, struct plan *plan)
{
    draft *d = calloc(1, sizeof *d);
    struct arena kv = { 0 }, window = { 0 };
    struct forward_memory mem = { 0 };
    size_t work;
    if (!d)
        return;
    init(d, m, p);
    place(d, &kv, &window, &mem, p);
    if (!size_mul(forward_thread_floats(&d->f) * sizeof(float), gpu_threads(m->gpu), &work))
        work = SIZE_MAX;
    plan_add(plan, "draft: K/V, keys", kv.used, "1 layer x %zu positions, %s", p->n_ctx, kv_type_name(p));
    plan_add(plan, "draft: work", window.used + mem.scratch.used + mem.shared.used + mem.blocks.used + work, "%d rows at once", FEED_ROWS);
    free(d);
}

static struct arena arena_in(const struct gpu_mem *m) { return (struct arena){ .base = AT(uint8_t, m->addr), .capacity = m->bytes }; }

static status open_memory(draft *d, const struct session_params *p, struct err *e)
{
    struct arena kv = { 0 }, window = { 0 };
    struct forward_memory mem = { 0 };
    place(d, &kv, &window, &mem, p);
    TRY(gpu_alloc(d->gpu, &d->kv, kv.used, GPU_MEM_DEVICE, "K/V of the draft head", e));
    TRY(gpu_alloc(d->gpu, &d->window, window.used, GPU_MEM_DEVICE, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->scratch, mem.scratch.used, GPU_MEM_DEVICE, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->shared, mem.shared.used, GPU_MEM_SHARED, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->blocks, mem.blocks.used, GPU_MEM_DEVICE, "draft head", e));
    if (!size_mul(forward_thread_floats(&d->f) * sizeof(float), gpu_threads(d->gpu), &d->work_bytes) || !(d->work = pages_alloc(d->work_bytes)))
        return fail(e, ERR_NOMEM, "draft head: working memory");
    kv = arena_in(&d->kv);
    window = arena_in(&d->window);
    mem = (struct forward_memory){ .blocks = arena_in(&d->blocks), .shared = arena_in(&d->shared), .scratch = arena_in(&d->scratch) };
    place(d, &kv, &window, &mem, p);
    build(d);
    TRY(gpu_cmd_open(d->gpu, &d->feed, FEED_CALLS + STEP_CALLS, d->work, forward_thread_floats(&d->f), e));
    TRY(gpu_cmd_open(d->gpu, &d->first, STEP_CALLS, d->work, forward_thread_floats(&d->f), e));
    return gpu_cmd_open(d->gpu, &d->next, STEP_CALLS, d->work, forward_thread_floats(&d->f), e);
}

status draft_open(draft **out, session *s, struct err *e)
{
    draft *d = calloc(1, sizeof *d);
    if (!d)
        return fail(e, ERR_NOMEM, "draft head");
    d->session = s;
    init(d, s->m, &s->p);
    status st = open_memory(d, &s->p, e);
    if (st != OK) {
        draft_close(d);
        return st;
    }
    draft_reset(d);
    *out = d;
    return OK;
}

void draft_close(draft *d)
{
    if (!d)
        return;
    gpu_cmd_close(&d->feed);
    gpu_cmd_close(&d->first);
    gpu_cmd_close(&d->next);
    pages_free(d->work, d->work_bytes);
    gpu_free(d->gpu, &d->kv);
    gpu_free(d->gpu, &d->window);
    gpu_free(d->gpu, &d->scratch);
    gpu_free(d->gpu, &d->shared);
    gpu_free(d->gpu, &d->blocks);
    free(d);
}

/* ---- recording ---- */

/* R0 of n_tok pairs: hidden inputs at first, and from rest on */
static void record_input(struct gpu_cmd *c, draft *d, gpu_addr first, gpu_addr rest, uint32_t n_tok)
{
    struct forward *f = &d->f;
    uint32_t S = d->shape.n_stream, D = d->shape.n_embd;
    gpu_cmd_reset(c);
    f->residual = f->residuals[0];
    f->pending = false;
    c->part = DRAFT_PART;
    CALL(c, gpu_kernels, K_embed, n_tok, struct embed_args, .step = f->step_at, .table = gpu_block(c, f->token_embd), .out = d->e, .n_stream = 1);
    CALL(c, model_kernels, K_draft_in, n_tok * S, struct draft_in_args, .e = d->e, .first = first, .rest = rest, .enorm = d->of->enorm,
         .hnorm = d->of->hnorm, .x = d->x, .n_stream = S, .n_embd = D, .eps = d->shape.eps);
    if (!d->block->embd.w.data) {
        gpu_matmul(c, &d->block->hidden, 1, d->x, 2 * D, n_tok * S);
        return;
    }
    gpu_matmul(c, &d->block->hidden, 1, d->x + D * sizeof(float), 2 * D, n_tok * S);
    gpu_matmul(c, &d->block->embd, 1, d->x, 2 * S * D, n_tok);
    CALL(c, model_kernels, K_hc_combine, n_tok * S, struct hc_combine_args, .residual = f->residual, .inject = d->ones, .y = d->share, .n_stream = S,
         .n_embd = D);
}

static void record_guess(struct gpu_cmd *c, draft *d, gpu_addr hidden)
{
    record_input(c, d, hidden, 0, 1);
    forward_layer(c, &d->f, 0, 1, GDN_DECODE);
    forward_head(c, &d->f, 0, 1, GDN_DECODE);
    forward_choose(c, &d->f, 1, 2);
}

static void record_keys(struct gpu_cmd *c, draft *d, uint32_t n_tok)
{
    forward_mix_attn(c, &d->f, 0, n_tok, GDN_PREFILL);
    qsa_record_keys(c, &d->block->keys, &d->f.qsa_s, &d->f.qsa, d->f.step_at, d->f.u, n_tok);
}

/* Lists of guesses, recorded once */
static struct gpu_cmd *first_list(draft *d)
{
    if (!d->first.n)
        record_guess(&d->first, d, d->carry);
    return &d->first;
}
static struct gpu_cmd *next_list(draft *d)
{
    if (!d->next.n)
        record_guess(&d->next, d, d->f.residuals[0]);
    return &d->next;
}

static size_t carry_bytes(const draft *d) { return (size_t)d->shape.n_stream * d->shape.n_embd * sizeof(float); }
static size_t window_bytes(const draft *d) { return qsa_window_floats(&d->f.qsa) * sizeof(float); }

uint32_t draft_most_calls(void) { return FEED_CALLS + STEP_CALLS; }

status draft_record_feed(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e)
{
    for (uint32_t t = 0, k; t < n; t += k) {
        k = MIN((uint32_t)FEED_ROWS, n - t);
        record_input(&d->feed, d, d->carry, d->carry, k);
        record_keys(&d->feed, d, k);
        TRY(session_report_head(&d->feed, pos + t, k, r, e));
    }
    session_report_copy(carry_bytes(d), r);
    return OK;
}

status draft_record_guesses(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        TRY(session_report_head(i ? next_list(d) : first_list(d), pos + i, 1, r, e));
        if (i == 0 || i + 1 == n) /* kept behind the first, put back behind the last of several */
            session_report_copy(window_bytes(d), r);
    }
    return OK;
}

/* ---- the timeline ---- */

void draft_reset(draft *d)
{
    d->n_pair = 0;
    d->n_guess = 0;
    d->have_carry = d->first_done = false;
}

/* The index keys of an open block are those of later pairs now, so its pairs go too */
void draft_truncate(draft *d, size_t n_pair)
{
    if (n_pair < d->n_pair || d->first_done)
        d->n_pair = MIN(n_pair, d->n_pair) / QSA_BLOCK * QSA_BLOCK;
    d->n_guess = 0;
    d->have_carry = d->first_done = false;
}

bool draft_waits(const draft *d) { return d->have_carry; }

void draft_skip(draft *d)
{
    d->n_pair += d->first_done;
    d->n_guess = 0;
    d->have_carry = d->first_done = false;
}

void draft_score(draft *d, session_rows_fn fn, void *ctx)
{
    d->on_rows = fn;
    d->on_rows_ctx = ctx;
}

static void begin(draft *d, const int32_t *ids, uint32_t n, size_t pos)
{
    forward_begin(&d->f, ids, n, pos);
    forward_gather(&d->f, NULL);
}

static status run(draft *d, struct gpu_cmd *c, bool decode, struct err *e) { return session_run_head(d->session, c, d->f.step, decode, e); }

/* The whole block over the n pairs of the last record_input, and all their logits */
static status score(draft *d, uint32_t n, bool decode, struct err *e)
{
    struct gpu_cmd *c = &d->feed;
    forward_layer(c, &d->f, 0, n, GDN_PREFILL);
    forward_settle(c, &d->f, n);
    TRY(run(d, c, decode, e));
    for (uint32_t row0 = 0; row0 < n; row0 += d->f.max_logits) {
        uint32_t n_row = MIN(d->f.max_logits, n - row0);
        gpu_cmd_reset(c);
        forward_head(c, &d->f, row0, n_row, GDN_PREFILL);
        TRY(run(d, c, decode, e));
        TRY(d->on_rows(d->on_rows_ctx, d->n_pair + row0, n_row, AT(const float, d->f.logits), e));
    }
    return OK;
}

status draft_feed(draft *d, gpu_addr rows, const int32_t *ids, uint32_t n, bool decode, struct err *e)
{
    size_t wide = carry_bytes(d);
    if (d->first_done && d->first_id != ids[0])
        draft_truncate(d, d->n_pair);
    uint32_t from = d->have_carry && !d->first_done ? 0 : 1; /* the first id has no residual before it, or its pair is there */
    d->n_pair += d->first_done;
    d->first_done = false;
    d->n_guess = 0;
    for (uint32_t t = from, k; t < n; t += k) {
        k = MIN((uint32_t)FEED_ROWS, n - t);
        begin(d, ids + t, k, d->n_pair);
        record_input(&d->feed, d, t ? rows + (t - 1) * wide : d->carry, rows + t * wide, k);
        if (d->on_rows) {
            TRY(score(d, k, decode, e));
        } else {
            record_keys(&d->feed, d, k);
            TRY(run(d, &d->feed, decode, e));
        }
        d->n_pair += k;
    }
    d->have_carry = true;
    return session_copy_state(d->session, d->carry, rows + (n - 1) * wide, wide, decode, e);
}

/* The two best of the last guess */
static status take(draft *d, struct guess *out, struct err *e)
{
    struct argmax_best b[2];
    TRY(gpu_read(d->gpu, b, d->f.best_at, sizeof b, e));
    uint32_t best = b[1].id < d->shape.n_vocab && b[1].value > b[0].value;
    if (b[best].id >= d->shape.n_vocab)
        return fail(e, ERR_FORMAT, "the draft head computed no number; is a weight damaged?");
    *out = (struct guess){ .id = (int32_t)b[best].id, .lead = b[!best].id < d->shape.n_vocab ? b[best].value - b[!best].value : INFINITY };
    d->last_guess = out->id;
    d->n_guess++;
    return OK;
}

status draft_first(draft *d, int32_t id, struct guess *out, struct err *e)
{
    if (!d->have_carry)
        return fail(e, ERR_USAGE, "the draft head has seen nothing yet");
    begin(d, &id, 1, d->n_pair);
    TRY(run(d, first_list(d), true, e));
    d->first_id = id;
    d->first_done = true;
    d->n_guess = 0;
    TRY(session_copy_state(d->session, d->kept, d->state.window, window_bytes(d), true, e));
    return take(d, out, e);
}

status draft_next(draft *d, struct guess *out, struct err *e)
{
    begin(d, &d->last_guess, 1, d->n_pair + d->n_guess);
    TRY(run(d, next_list(d), true, e));
    return take(d, out, e);
}

status draft_end(draft *d, struct err *e)
{
    if (d->n_guess < 2)
        return OK;
    d->n_guess = 0;
    return session_copy_state(d->session, d->state.window, d->kept, window_bytes(d), true, e);
}
