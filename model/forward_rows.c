/* forward_rows.c - a step with rows of several sequences: one row of each, or runs of rows that may be taken back.
 *
 * Products, mixers and experts go over all rows, so that a weight is read once for all of them. What belongs to a sequence has the state of that: short
 * convolutions, recurrence, attention, n-gram rows. On the cpu these are calls by sequence, side by side, with a step block that describes a run alone. A device
 * has one call for all rows, whose groups find their own layer block by the step block of their row (struct gpu_step) or by their run (struct gpu_run); so a
 * list is recorded once for a number of rows, whose rows they are is said in every step. There all rows may be taken back, or none. */
#include "gpu/gpu_kernels.h"
#include "model/forward.h"
#include "model/model_kernels.h"

#include <assert.h>
#include <string.h>

_Static_assert((int)DECODE_ROWS == QSA_FEW, "rows of a decode step are few rows to the attention layers");

/* Entries of the rope table before those of the rows of a run */
enum { ROPE_BEFORE = 3 };

static size_t rope_entries_before(const struct forward_run *run, uint32_t i) { return run[i].first + ROPE_BEFORE * (size_t)i; }
static uint32_t rows_of(const struct forward_run *run, uint32_t n) { return run[n - 1].first + run[n - 1].n; }

/* The step block of n_tok rows of a run, from its row `row` on */
static struct gpu_step step_of(const struct forward *f, const struct forward_run *run, uint32_t i, uint32_t row, uint32_t n_tok)
{
    return (struct gpu_step){ .ids = f->ids_at + (run[i].first + row) * sizeof *f->ids,
                              .rope = f->rope_at + (rope_entries_before(run, i) + row) * f->shape->rope_dim * sizeof(float),
                              .n_tok = n_tok, .pos = (uint32_t)run[i].pos + row, .blocks = (uint32_t)(ADDR(run[i].of->layer) - ADDR(f->layer)) };
}

/* On a device: its rows one by one, and its entry among the runs */
static void describe_rows(struct forward *f, const struct forward_run *run, uint32_t i)
{
    for (uint32_t r = 0; r < run[i].n; r++)
        f->step[1 + run[i].first + r] = step_of(f, run, i, r, 1 + r);
    f->run[i] = (struct gpu_run){ .kept = run[i].of->verify.rows_at - f->verify.rows_at, .first = run[i].first, .n = run[i].n, .fold = run[i].fold,
                                  .blocks = f->step[1 + run[i].first].blocks };
}

void forward_rows_begin(struct forward *f, const struct forward_run *run, uint32_t n)
{
    uint32_t n_tok = rows_of(run, n);
    assert(n_tok <= DECODE_ROWS);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(f->ids + run[i].first, run[i].ids, run[i].n * sizeof *f->ids);
        f->fold[1 + i] = run[i].fold;
        if (f->device)
            describe_rows(f, run, i);
        else
            f->step[1 + i] = step_of(f, run, i, 0, run[i].n);
    }
    for (uint32_t i = n; i < DECODE_ROWS; i++)
        f->run[i] = (struct gpu_run){ .first = n_tok };
    f->step->n_tok = n_tok;
    f->step->arrived = 0;
    f->step->pos = 0; /* of no meaning: nothing that all rows share asks for a position */
}

void forward_rows_gather(struct forward *f, const struct forward_run *run, uint32_t n)
{
    const struct shape *s = f->shape;
    for (uint32_t i = 0; i < n; i++) {
        forward_rope(f, run[i].pos, run[i].n, f->rope + rope_entries_before(run, i) * s->rope_dim);
        if (s->ple_layer >= 0)
            ngram_gather(&f->reader, s, &f->w->ple, run[i].past, run[i].ids, run[i].n, f->ngram + run[i].first * (size_t)s->ple_head * s->ple_row);
    }
}

/* Where the step blocks of the runs are, on a device of the rows */
static gpu_addr steps_at(const struct forward *f) { return f->step_at + sizeof *f->step; }

static void ple_conv_apart(struct gpu_cmd *c, const struct forward *f, struct ple_conv_args a)
{
    c->row = GPU_EACH_RUN;
    a.block = gpu_block(c, &f->ple_block[f->runs.kept]);
    a.apart = f->run_at;
    gpu_record(c, &model_kernels, K_ple_conv, &a, sizeof a, f->runs.n * (uint32_t)size_up(a.width, PLE_CONV_GRAIN));
    if (f->runs.kept) {
        gpu_keep(c, a.apart, a.z, f->verify.rows[f->shape->n_layer].next, a.width, f->runs.n);
        gpu_record_parallel(c);
    }
    c->row = 0;
}

void forward_rows_ple_conv(struct gpu_cmd *c, struct forward *f)
{
    const struct shape *s = f->shape;
    uint32_t width = s->n_stream * s->n_embd;
    struct ple_conv_args a = { .z = f->ple_s.z, .gv = f->ple_s.gv, .conv = f->ple_s.conv, .residual = f->residual, .width = width, .taps = s->ple_conv_taps,
                               .dilation = s->ple_ngram, .n_tok = 1 };
    if (f->runs.apart) {
        ple_conv_apart(c, f, a);
        return;
    }
    for (uint32_t i = 0; i < f->runs.n; i++) {
        const struct forward_run *r = &f->runs.run[i];
        uint64_t row = width * sizeof(float);
        c->row = (uint8_t)(1 + i);
        a.block = gpu_block(c, &r->of->ple_block[r->kept]);
        a.n_tok = r->n;
        gpu_record(c, &model_kernels, K_ple_conv, &a, sizeof a, width);
        if (i)
            gpu_record_parallel(c);
        if (r->kept) {
            struct copy_args keep = { .from = { a.z }, .to = { r->of->verify.rows[s->n_layer].next }, .n = { (uint32_t)((r->n * row + 15) / 16) } };
            gpu_record(c, &gpu_kernels, K_copy, &keep, sizeof keep, (uint32_t)size_up(keep.n[0], COPY_GRAIN));
            gpu_record_parallel(c);
        }
        a.z += r->n * row, a.gv += r->n * row, a.residual += r->n * row;
    }
    c->row = 0;
}

void forward_rows_qsa(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok)
{
    struct qsa_run run[DECODE_ROWS];
    const struct qsa_layer *l = &f->layer[il].qsa;
    if (f->runs.apart) {
        const struct qsa_apart apart = { .step = steps_at(f), .runs = f->runs.kept ? f->run_at : 0, .next = f->runs.kept ? f->verify.rows[il].next : 0 };
        qsa_record_apart(c, l, n_tok, &f->qsa_s, &f->qsa, &apart, f->u);
        return;
    }
    for (uint32_t i = 0; i < f->runs.n; i++) {
        const struct forward_run *r = &f->runs.run[i];
        run[i] = (struct qsa_run){ .l = r->kept ? &r->of->verify.layer[il].qsa : &r->of->layer[il].qsa, .next = r->kept ? r->of->verify.rows[il].next : 0,
                                   .first = r->first, .n = r->n };
    }
    qsa_record_runs(c, l, run, f->runs.n, &f->qsa_s, &f->qsa, steps_at(f), f->u, n_tok);
}

void forward_rows_gdn(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok)
{
    struct gdn_run run[DECODE_ROWS];
    const struct gdn_layer *l = &f->layer[il].gdn;
    if (f->runs.apart) {
        if (f->runs.kept)
            gdn_record_apart_kept(c, l, n_tok, &f->gdn_s, &f->gdn, &f->verify.rows[il].gdn, f->run_at, f->u);
        else
            gdn_record_apart(c, l, n_tok, &f->gdn_s, &f->gdn, steps_at(f), f->u);
        return;
    }
    for (uint32_t i = 0; i < f->runs.n; i++) {
        const struct forward_run *r = &f->runs.run[i];
        run[i] = (struct gdn_run){ .l = &r->of->layer[il].gdn, .kept = r->kept ? &r->of->verify.rows[il].gdn : NULL,
                                   .fold = f->fold_at + (1 + i) * sizeof *f->fold, .first = r->first, .n = r->n };
    }
    gdn_record_runs(c, l, run, f->runs.n, &f->gdn_s, &f->gdn, f->u, n_tok);
}

/* What counts of the last rows goes into the windows */
static void slide(struct gpu_cmd *c, const struct forward *f)
{
    if (f->runs.apart && f->runs.kept) {
        c->row = GPU_EACH_RUN;
        forward_slide_runs(c, f, f->runs.n);
        c->row = 0;
    }
    if (f->runs.apart)
        return;
    for (uint32_t i = 0, any = 0; i < f->runs.n; i++) {
        if (!f->runs.run[i].kept)
            continue;
        forward_slide(c, f->runs.run[i].of, f->fold_at + (1 + i) * sizeof *f->fold);
        if (any++)
            gpu_record_parallel(c);
    }
}

void forward_rows_record(struct gpu_cmd *first, struct gpu_cmd *rest, struct forward *f, const struct forward_run *run, uint32_t n, uint32_t n_best)
{
    uint32_t n_first = forward_first_layers(f), n_tok = rows_of(run, n);
    f->runs = (struct forward_runs){ run, f->device ? n_tok : n, f->device, run->kept };
    forward_embed(first, f, n_tok);
    slide(first, f);
    forward_fetch_tables(rest, f, n_tok);
    for (uint32_t il = 0; il < f->shape->n_layer; il++)
        forward_layer(il < n_first ? first : rest, f, il, n_tok, GDN_DECODE);
    forward_head(rest, f, 0, n_tok, GDN_DECODE);
    if (n_best)
        forward_choose(rest, f, n_tok, n_best);
    f->runs = (struct forward_runs){ 0 };
}

uint32_t forward_rows_max_calls(const struct forward *f, uint32_t n_seq, bool kept)
{
    uint32_t of_a_run = f->device ? 0 : kept ? 24 : 8; /* calls that a layer makes for each run by itself, at most */
    return forward_max_calls(f) + n_seq * (2 + f->shape->n_layer * of_a_run);
}
