/* draft_place.c - memory of the draft head: sizes before anything is allocated, arenas, lists. */
#include "model/draft_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool draft_exists(const model *m) { return model_weights(m)->draft.enorm != 0; }

static void shape_of(const model *m, struct shape *s, struct weights *w, const struct session_params *p)
{
    const struct weights *all = model_weights(m);
    const struct draft_weights *d = &all->draft;
    *s = m->shape;
    s->n_layer = s->n_qsa = 1;
    s->n_draft = s->n_gdn = 0;
    s->is_qsa[0] = true;
    s->ratio[0] = d->layer.qsa.iq.data && !p->draft_dense ? QSA_RATIO : 0;
    s->ple_layer = -1;
    s->ple_head = s->ple_row = 0;
    w->token_embd = d->embd.data ? d->embd : all->token_embd;
    w->output = d->output.data ? d->output : all->output;
    w->out_hc = d->head;
    w->layer[0] = d->layer;
}

/* Rows that are fed at once: a device needs more of them to be busy */
static uint32_t feed_rows(const model *m, const struct session_params *p)
{
    return on_device(m) ? (uint32_t)MIN((size_t)256, size_up(p->n_ctx, 64)) : 64;
}

/* Places everything, or counts what it takes */
static void place(draft *d, struct arena *kv, struct arena *window, struct forward_memory *mem, const struct session_params *p)
{
    const struct shape *s = &d->shape;
    size_t half = qsa_kv_bytes(&d->f.qsa, p->n_ctx, d->f.kv_type) / 2, wide = (size_t)s->n_stream * s->n_embd, rope = (3 + DRAFT_ROUND) * (size_t)s->rope_dim;
    d->state = (struct layer_state){ .k = ADDR(arena_take(kv, half, 1)), .v = ADDR(arena_take(kv, half, 1)) };
    if (s->ratio[0])
        d->state.pooled = ADDR(arena_take(kv, qsa_pooled_bytes(&d->f.qsa, p->n_ctx), 1));
    d->state.window = ADDR(arena_take(window, qsa_window_floats(&d->f.qsa), sizeof(float)));
    d->kept = ADDR(arena_take(window, qsa_window_floats(&d->f.qsa), sizeof(float)));
    d->carry = ADDR(arena_take(window, wide, sizeof(float)));
    d->ones = ADDR(arena_take(window, (size_t)d->f.max_tok * s->n_stream, sizeof(float)));
    forward_place(&d->f, mem, &d->state, 0);
    d->block = arena_take(&mem->blocks, 1, sizeof *d->block);
    d->ask.id = arena_take(&mem->shared, 4, sizeof *d->ask.id); /* copies are of 16 bytes */
    d->ask.rope = arena_take(&mem->shared, rope, sizeof(float));
    d->ask.id_at = ADDR(d->ask.id), d->ask.rope_at = ADDR(d->ask.rope);
    if (!d->f.device)
        return;
    d->ask.id_at = ADDR(arena_take(&mem->scratch, 4, sizeof *d->ask.id));
    d->ask.rope_at = ADDR(arena_take(&mem->scratch, rope, sizeof(float)));
}

static void init(draft *d, const model *m, const struct session_params *p)
{
    d->gpu = m->gpu;
    d->of = &model_weights(m)->draft;
    d->joint = p->draft_joint;
    shape_of(m, &d->shape, &d->w, p);
    forward_init(&d->f, &d->shape, &d->w, p->n_ctx, feed_rows(m, p), session_kv_type(p), (struct qsa_form){ 0 }, on_device(m), session_rounded(m, p));
}

/* Bytes of working memory of the threads, of the lists; SIZE_MAX: too many */
static size_t thread_bytes(const draft *d)
{
    size_t n;
    return d->f.device ? 0 : size_mul(forward_thread_floats(&d->f) * sizeof(float), gpu_threads(d->gpu), &n) ? n : SIZE_MAX;
}
static uint32_t feed_calls(const draft *d) { return FEED_CALLS + forward_max_calls(&d->f); }
static size_t list_bytes(const draft *d)
{
    return (feed_calls(d) + COUNT_OF(d->few) * COUNT_OF(d->few[0]) * FEED_CALLS + COUNT_OF(d->guess) * GUESS_CALLS + END_CALLS) * sizeof(struct gpu_call);
}

/* Bytes of the heads of all places */
static size_t times(size_t bytes, const struct session_params *p) { return size_mul(bytes, session_seqs(p), &bytes) ? bytes : SIZE_MAX; }

void draft_plan(const model *m, const struct session_params *p, struct plan *plan)
{
    draft *d = calloc(1, sizeof *d);
    char places[32] = "";
    struct arena kv = { 0 }, window = { 0 };
    struct forward_memory mem = { 0 };
    if (!d)
        return;
    init(d, m, p);
    place(d, &kv, &window, &mem, p);
    size_t first = plan->n;
    if (session_seqs(p) > 1)
        snprintf(places, sizeof places, "; %u places", session_seqs(p));
    plan_add(plan, "draft: K/V, keys", times(kv.used, p), "1 layer x %zu positions, %s%s", p->n_ctx, kv_type_name(p), places);
    plan_add(plan, "draft: scratch", times(window.used + mem.scratch.used + mem.shared.used + mem.blocks.used, p), "%u rows at once%s", d->f.max_tok, places);
    for (size_t i = first; i < plan->n; i++)
        plan->line[i].on_device = on_device(m);
    plan_add(plan, "draft: lists", times(list_bytes(d) + (on_device(m) ? mem.blocks.used : thread_bytes(d)), p), "calls of %d guesses in a row, %s%s",
             DRAFT_ROUND, on_device(m) ? "layer block on the host" : "threads", places);
    free(d);
}

/* ---- opening ---- */

static struct matmul_job job(const struct gpu_mat *w, gpu_addr y) { return (struct matmul_job){ .w = *w, .y = y, .y_stride = w->n_out, .scale = 1 }; }

static void build(draft *d)
{
    struct draft_block *b = d->block;
    b->hidden = job(&d->of->fc_hidden, d->f.residuals[0]);
    b->embd = job(&d->of->fc_embd, d->f.u);
    b->keys = d->f.layer[0].qsa;
    b->keys.in[0] = d->f.layer[0].qsa.in[1];
    b->keys.in[1] = d->f.layer[0].qsa.in[2];
    b->keys.in[2] = d->f.layer[0].qsa.in[4];
    b->keys.block.n_head = b->keys.block.idx_head = 0;
    for (uint32_t i = 0; i < DRAFT_ROUND; i++)
        d->f.step[1 + i] = (struct gpu_step){ .ids = i ? draft_chosen_at(d, i - 1) : d->ask.id_at,
                                              .rope = d->ask.rope_at + (uint64_t)i * d->shape.rope_dim * sizeof(float), .n_tok = 1 };
}

static struct arena arena_in(const struct gpu_mem *m) { return (struct arena){ .base = AT(uint8_t, m->addr), .capacity = m->bytes }; }

static status open_memory(draft *d, const struct session_params *p, struct err *e)
{
    struct arena kv = { 0 }, window = { 0 };
    struct forward_memory mem = { 0 };
    place(d, &kv, &window, &mem, p);
    size_t blocks = mem.blocks.used;
    TRY(gpu_alloc(d->gpu, &d->kv, kv.used, GPU_MEM_DEVICE, "K/V of the draft head", e));
    TRY(gpu_alloc(d->gpu, &d->window, window.used, GPU_MEM_DEVICE, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->scratch, mem.scratch.used, GPU_MEM_DEVICE, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->shared, mem.shared.used, GPU_MEM_SHARED, "draft head", e));
    TRY(gpu_alloc(d->gpu, &d->blocks, blocks, GPU_MEM_DEVICE, "draft head", e));
    d->host_blocks = d->f.device ? calloc(1, blocks) : d->blocks.host;
    d->work_bytes = thread_bytes(d);
    d->work = pages_alloc(d->work_bytes);
    if (!d->host_blocks || !d->work)
        return fail(e, ERR_NOMEM, "draft head: working memory");
    kv = arena_in(&d->kv);
    window = arena_in(&d->window);
    mem = (struct forward_memory){ .blocks = { .base = d->host_blocks, .capacity = blocks }, .shared = { .base = d->shared.host, .capacity = d->shared.bytes },
                                   .shared_delta = d->shared.addr - ADDR(d->shared.host), .scratch = arena_in(&d->scratch) };
    place(d, &kv, &window, &mem, p);
    build(d);
    if (d->f.device)
        TRY(gpu_write(d->gpu, d->blocks.addr, d->host_blocks, blocks, e));
    return OK;
}

static status write_ones(draft *d, struct err *e)
{
    size_t n = (size_t)d->f.max_tok * d->shape.n_stream;
    float *ones = malloc(n * sizeof *ones);
    if (!ones)
        return fail(e, ERR_NOMEM, "draft head");
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    status s = gpu_write(d->gpu, d->ones, ones, n * sizeof *ones, e);
    free(ones);
    return s;
}

static status open_list(draft *d, struct gpu_cmd *c, uint32_t n_calls, struct err *e)
{
    TRY(gpu_cmd_open(d->gpu, c, n_calls, d->work, forward_thread_floats(&d->f), e));
    c->block_delta = d->blocks.addr - ADDR(d->host_blocks);
    c->matrix = d->f.matrix;
    c->rows = d->f.rows;
    return OK;
}

static status open_all(draft *d, const struct session_params *p, struct err *e)
{
    TRY(open_memory(d, p, e));
    TRY(write_ones(d, e));
    TRY(open_list(d, &d->feed, feed_calls(d), e));
    for (uint32_t i = 0; i <= DECODE_ROWS; i++)
        for (int carried = 0; carried < 2; carried++)
            TRY(open_list(d, &d->few[carried][i], FEED_CALLS, e));
    for (uint32_t i = 0; i < DRAFT_ROUND; i++)
        TRY(open_list(d, &d->guess[i], GUESS_CALLS, e));
    return open_list(d, &d->end, END_CALLS, e);
}

uint32_t draft_most_calls(void) { return FEED_CALLS + GUESS_CALLS; }

status draft_open(draft **out, session *s, struct err *e)
{
    draft *d = calloc(1, sizeof *d);
    if (!d)
        return fail(e, ERR_NOMEM, "draft head");
    d->session = s;
    init(d, s->m, &s->p);
    status st = open_all(d, &s->p, e);
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
    gpu_cmd_close(&d->end);
    for (uint32_t i = 0; i <= DECODE_ROWS; i++)
        for (int carried = 0; carried < 2; carried++)
            gpu_cmd_close(&d->few[carried][i]);
    for (uint32_t i = 0; i < DRAFT_ROUND; i++)
        gpu_cmd_close(&d->guess[i]);
    pages_free(d->work, d->work_bytes);
    if (d->f.device)
        free(d->host_blocks);
    free(d->logits);
    gpu_free(d->gpu, &d->kv);
    gpu_free(d->gpu, &d->window);
    gpu_free(d->gpu, &d->scratch);
    gpu_free(d->gpu, &d->shared);
    gpu_free(d->gpu, &d->blocks);
    free(d);
}
