/* draft.c - the draft head as a model of one layer with an input of its own, and its timeline. */
#include "model/draft_impl.h"

#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"

#include <math.h>
#include <stdlib.h>

/* ---- recording ---- */

static size_t wide_bytes(const draft *d) { return (size_t)d->shape.n_stream * d->shape.n_embd * sizeof(float); }
static size_t window_bytes(const draft *d) { return qsa_window_floats(&d->f.qsa) * sizeof(float); }

/* Up to four pieces of memory, whole units of 16 bytes; part: of inputs or of state */
static void copy(struct gpu_cmd *c, const char *part, uint32_t n, const gpu_addr *to, const gpu_addr *from, const size_t *bytes)
{
    struct copy_args a = { .n = { 0 } };
    uint32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        a.to[i] = to[i];
        a.from[i] = from[i];
        a.n[i] = (uint32_t)((bytes[i] + 15) / 16);
        longest = MAX(longest, a.n[i]);
    }
    c->part = part;
    gpu_record(c, &gpu_kernels, K_copy, &a, sizeof a, (uint32_t)size_up(longest, COPY_GRAIN));
}

/* Few rows on a device take the fused calls of a decode step */
static enum gdn_phase phase_of(const draft *d, uint32_t n_tok) { return d->f.device && n_tok <= DECODE_ROWS ? GDN_DECODE : GDN_PREFILL; }

/* n vectors of `width`, each with its own statistic and, modulo `gains` vectors, its own gains */
static void norm(struct gpu_cmd *c, const draft *d, gpu_addr x, gpu_addr gain, gpu_addr out, uint32_t gains, uint32_t width, uint32_t n)
{
    CALL(c, model_kernels, K_hc_norm, n, struct hc_norm_args, .residual = x, .gain = gain, .out = out, .n_stream = gains, .n_embd = width,
         .eps = d->shape.eps);
}

/* Of n_tok wide residuals: stream by stream, or all streams of one by one statistic (spec 7.2.1) */
static void norm_hidden(struct gpu_cmd *c, const draft *d, gpu_addr x, gpu_addr out, uint32_t n_tok)
{
    uint32_t S = d->shape.n_stream, D = d->shape.n_embd;
    norm(c, d, x, d->of->hnorm, out, d->joint ? 1 : S, d->joint ? S * D : D, d->joint ? n_tok : n_tok * S);
    gpu_record_parallel(c); /* to the embedding */
}

/* R0[s] = fc_embd rms(e) + fc_hidden rms(R[s]) of n_tok pairs (spec 7.2): hidden inputs R at first, and from rest on; the rows of f.u, f.y and f.norm are not
 * in use yet */
static void record_input(struct gpu_cmd *c, draft *d, gpu_addr first, gpu_addr rest, uint32_t n_tok)
{
    struct forward *f = &d->f;
    uint32_t S = d->shape.n_stream, D = d->shape.n_embd;
    f->residual = f->residuals[0];
    f->pending = false;
    c->part = DRAFT_PART;
    CALL(c, gpu_kernels, f->device ? K_embed_dev : K_embed, n_tok, struct embed_args, .step = f->step_at, .table = gpu_block(c, f->token_embd), .out = f->u,
         .n_stream = 1);
    norm_hidden(c, d, first, f->norm, 1);
    if (n_tok > 1)
        norm_hidden(c, d, rest, f->norm + wide_bytes(d), n_tok - 1);
    norm(c, d, f->u, d->of->enorm, f->y, 1, D, n_tok);
    gpu_matmul(c, &d->block->hidden, 1, f->norm, D, n_tok * S);
    gpu_matmul(c, &d->block->embd, 1, f->y, D, n_tok);
    if (f->device) /* nothing connects the two */
        gpu_record_parallel(c);
    CALL(c, model_kernels, K_hc_combine, n_tok * S, struct hc_combine_args, .residual = f->residual, .inject = d->ones, .y = f->u, .n_stream = S,
         .n_embd = D);
}

/* What the host wrote for a step of n_tok rows */
static void record_fetch(struct gpu_cmd *c, const draft *d, uint32_t n_tok)
{
    forward_fetch_ids(c, &d->f, n_tok);
    forward_fetch_tables(c, &d->f, n_tok);
    if (d->f.device)
        gpu_record_parallel(c);
}

static void record_keys(struct gpu_cmd *c, draft *d, uint32_t n_tok)
{
    forward_mix_attn(c, &d->f, 0, n_tok, phase_of(d, n_tok));
    qsa_record_keys(c, &d->block->keys, &d->f.qsa_s, &d->f.qsa, d->f.step_at, d->f.u, n_tok);
}

/* Keys of n pairs, whose first hidden input is the carry or the row at `rows`; the row at `last` is carried on */
static void record_feed(struct gpu_cmd *c, draft *d, bool carried, gpu_addr rows, uint32_t n, gpu_addr last)
{
    if (n) {
        record_fetch(c, d, n);
        record_input(c, d, carried ? d->carry : rows, carried ? rows : rows + wide_bytes(d), n);
        record_keys(c, d, n);
    }
    copy(c, SESSION_COPY_PART, 1, &d->carry, &last, (size_t[]){ wide_bytes(d) });
}

/* Guess i of a round: the whole block for one row, whose id is the known one or what the guess before chose, and whose hidden input the carry or the residual
 * of the guess before. Before the second guess index keys are set aside, for those of the first pair alone will count. */
static void record_guess(struct gpu_cmd *c, draft *d, uint32_t i)
{
    struct forward *f = &d->f;
    gpu_addr step = f->step_at, best = f->best_at, hidden = i ? d->guess_residual : d->carry;
    if (i == 0 && f->device)
        copy(c, DRAFT_PART, 3, (gpu_addr[]){ step + sizeof *f->step, d->ask.id_at, d->ask.rope_at },
             (gpu_addr[]){ ADDR(f->step + 1) + f->shared_delta, ADDR(d->ask.id) + f->shared_delta, ADDR(d->ask.rope) + f->shared_delta },
             (size_t[]){ DRAFT_ROUND * sizeof *f->step, sizeof *d->ask.id, (3 + DRAFT_ROUND) * (size_t)d->shape.rope_dim * sizeof(float) });
    if (i == 1)
        copy(c, SESSION_COPY_PART, 1, &d->kept, &d->state.window, (size_t[]){ window_bytes(d) });
    f->step_at = step + (1 + i) * sizeof *f->step;
    record_input(c, d, hidden, 0, 1);
    forward_layer(c, f, 0, 1, GDN_DECODE);
    forward_head(c, f, 0, 1, GDN_DECODE);
    f->best_at = draft_best_at(d, i);
    forward_choose(c, f, 1, 2);
    f->best_at = best;
    d->guess_residual = f->residual;
    CALL(c, gpu_kernels, K_argmax, 1, struct argmax_args, .part = draft_best_at(d, i), .best = draft_chosen_at(d, i), .n_part = 2);
    f->step_at = step;
}

/* Lists that are recorded once */
static struct gpu_cmd *guess_list(draft *d, uint32_t i)
{
    if (!d->guess[i].n)
        record_guess(&d->guess[i], d, i);
    return &d->guess[i];
}
static struct gpu_cmd *end_list(draft *d)
{
    if (!d->end.n)
        copy(&d->end, SESSION_COPY_PART, 1, &d->state.window, &d->kept, (size_t[]){ window_bytes(d) });
    return &d->end;
}

status draft_record_feed(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e)
{
    uint32_t t = 0, k;
    do {
        k = MIN(d->f.max_tok, n - t);
        gpu_cmd_reset(&d->feed);
        record_feed(&d->feed, d, true, d->carry, k, d->carry);
        TRY(session_report_head(&d->feed, pos + t, k, r, e));
        t += k;
    } while (t < n);
    return OK;
}

status draft_record_guesses(draft *d, size_t pos, uint32_t n, const struct session_report *r, struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        TRY(session_report_head(guess_list(d, i), pos + i, 1, r, e));
    return n > 1 ? session_report_head(end_list(d), pos, 1, r, e) : OK;
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

status draft_score(draft *d, session_rows_fn fn, void *ctx, struct err *e)
{
    if (d->f.device && !d->logits && !(d->logits = malloc((size_t)d->f.max_logits * d->shape.n_vocab * sizeof *d->logits)))
        return fail(e, ERR_NOMEM, "draft head: %u rows of logits", d->f.max_logits);
    d->on_rows = fn;
    d->on_rows_ctx = ctx;
    return OK;
}

static status run(draft *d, struct gpu_cmd *c, bool decode, struct err *e) { return session_run_head(d->session, c, d->f.step, decode, e); }

/* The whole block over the n pairs of the last record_input, and all their logits */
static status score(draft *d, uint32_t n, bool decode, struct err *e)
{
    struct gpu_cmd *c = &d->feed;
    const float *logits = d->logits ? d->logits : AT(const float, d->f.logits);
    forward_layer(c, &d->f, 0, n, GDN_PREFILL);
    forward_settle(c, &d->f, n);
    TRY(run(d, c, decode, e));
    for (uint32_t row0 = 0; row0 < n; row0 += d->f.max_logits) {
        uint32_t n_row = MIN(d->f.max_logits, n - row0);
        gpu_cmd_reset(c);
        forward_head(c, &d->f, row0, n_row, GDN_PREFILL);
        TRY(run(d, c, decode, e));
        if (d->logits)
            TRY(gpu_read(d->gpu, d->logits, d->f.logits, (size_t)n_row * d->shape.n_vocab * sizeof *logits, e));
        TRY(d->on_rows(d->on_rows_ctx, d->n_pair + row0, n_row, logits, e));
    }
    return OK;
}

static void begin_feed(draft *d, const int32_t *ids, uint32_t n)
{
    forward_begin(&d->f, ids, n, d->n_pair);
    forward_gather(&d->f, NULL);
}

/* Some of the pairs of a prompt */
static status feed_piece(draft *d, bool carried, gpu_addr rows, const int32_t *ids, uint32_t n, gpu_addr last, bool decode, struct err *e)
{
    struct gpu_cmd *c = &d->feed;
    if (n)
        begin_feed(d, ids, n);
    gpu_cmd_reset(c);
    if (d->on_rows && n) {
        record_fetch(c, d, n);
        record_input(c, d, carried ? d->carry : rows, carried ? rows : rows + wide_bytes(d), n);
        TRY(score(d, n, decode, e));
        gpu_cmd_reset(c);
        n = 0;
    }
    record_feed(c, d, carried, rows, n, last);
    return run(d, c, decode, e);
}

/* The first pair is that of the carry, if there is one and its keys are not there yet. Returns from where on ids are pairs. */
static uint32_t begin_pairs(draft *d, int32_t id)
{
    if (d->first_done && d->first_id != id)
        draft_truncate(d, d->n_pair);
    uint32_t from = d->have_carry && !d->first_done ? 0 : 1; /* the first id has no residual before it, or its pair is there */
    d->n_pair += d->first_done;
    d->first_done = false;
    d->n_guess = 0;
    return from;
}

status draft_feed(draft *d, gpu_addr rows, const int32_t *ids, uint32_t n, bool decode, struct err *e)
{
    uint32_t t = begin_pairs(d, ids[0]), k;
    do {
        k = MIN(d->f.max_tok, n - t);
        gpu_addr at = rows + (t ? t - 1 : 0) * wide_bytes(d), last = rows + (t + k - 1) * wide_bytes(d);
        TRY(feed_piece(d, t == 0, at, ids + t, k, last, decode, e));
        d->n_pair += k;
        t += k;
    } while (t < n);
    d->have_carry = true;
    return OK;
}

/* The lists wait for one another in the queue, and the host writes for the next feed only after it has waited for the step in between. */
status draft_feed_step(draft *d, gpu_addr rows, const int32_t *ids, uint32_t n, struct err *e)
{
    if (n > DECODE_ROWS || d->on_rows || (d->few_rows && d->few_rows != rows))
        return draft_feed(d, rows, ids, n, true, e);
    uint32_t from = begin_pairs(d, ids[0]), k = n - from;
    struct gpu_cmd *c = &d->few[from == 0][k];
    if (k)
        begin_feed(d, ids + from, k);
    if (!c->n)
        record_feed(c, d, from == 0, rows, k, rows + (n - 1) * wide_bytes(d));
    d->few_rows = rows;
    d->n_pair += k;
    d->have_carry = true;
    return session_start_head(d->session, c, d->f.step, true, e);
}

/* The host's part of a round of guesses */
static void begin_round(draft *d, int32_t id)
{
    *d->ask.id = id;
    for (uint32_t i = 0; i < DRAFT_ROUND; i++) {
        d->f.step[1 + i].pos = (uint32_t)(d->n_pair + i);
        d->f.step[1 + i].arrived = 0;
    }
    forward_rope(&d->f, d->n_pair, DRAFT_ROUND, d->ask.rope);
}

/* What the last n guesses were */
static status take(draft *d, uint32_t n, struct guess *out, struct err *e)
{
    struct argmax_best b[DRAFT_ROUND][2];
    TRY(gpu_read(d->gpu, b, draft_best_at(d, d->n_guess), n * sizeof *b, e));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = b[i][1].id < d->shape.n_vocab && b[i][1].value > b[i][0].value;
        if (b[i][best].id >= d->shape.n_vocab)
            return fail(e, ERR_FORMAT, "the draft head computed no number; is a weight damaged?");
        out[i] = (struct guess){ .id = (int32_t)b[i][best].id,
                                 .lead = b[i][!best].id < d->shape.n_vocab ? b[i][best].value - b[i][!best].value : INFINITY };
    }
    d->n_guess += n;
    return OK;
}

status draft_guess(draft *d, int32_t id, uint32_t first, uint32_t n, struct guess *out, struct err *e)
{
    if (!d->have_carry || first != (first ? d->n_guess : 0) || first + n > DRAFT_ROUND)
        return fail(e, ERR_USAGE, "guess %u of the draft head: found %u before it", first, d->have_carry ? d->n_guess : 0);
    if (first == 0) {
        begin_round(d, id);
        d->first_id = id;
        d->first_done = true;
        d->n_guess = 0;
    }
    for (uint32_t i = first; i < first + n; i++) {
        TRY(session_start_head(d->session, guess_list(d, i), d->f.step + 1 + i, true, e));
    }
    TRY(gpu_wait(d->gpu, e));
    return take(d, n, out, e);
}

status draft_end(draft *d, struct err *e)
{
    if (d->n_guess < 2)
        return OK;
    d->n_guess = 0;
    return session_start_head(d->session, end_list(d), d->f.step, true, e);
}
