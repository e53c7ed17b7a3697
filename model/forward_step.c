/* forward_step.c - the two ends of a step: what the host writes for it, and what it leaves for the host.
 *
 * The ids are all that the first layers need. The rope table and the n-gram rows, which come from the file, are written while a device runs
 * these: a step is forward_begin, start of the first list, forward_gather, start of the second. */
#include "model/forward.h"

#include "gpu/gpu_kernels.h"

#include <math.h>
#include <string.h>

/* ---- from the host ---- */

void forward_place_step(struct forward *f, struct forward_memory *m)
{
    const struct shape *s = f->shape;
    size_t n = f->max_tok, rope = (3 + n) * s->rope_dim, ngram = n * s->ple_head * s->ple_row;
    struct forward_step *step = arena_take(&m->shared, 1, sizeof *step);
    f->ids = arena_take(&m->shared, n, sizeof *f->ids);
    f->rope = arena_take(&m->shared, rope, sizeof(float));
    f->ngram = arena_take(&m->shared, ngram, sizeof(float));
    f->best_at = ADDR(arena_take(&m->shared, (size_t)DECODE_ROWS * TOP_MAX, sizeof(struct argmax_best))) + m->shared_delta;
    f->inv_freq = arena_take(&m->blocks, s->rope_dim / 2, sizeof(float));
    if (step) {
        f->step = step->step;
        f->run = step->run;
        f->fold = step->fold;
    }
    f->step_at = ADDR(step) + offsetof(struct forward_step, step), f->ids_at = ADDR(f->ids), f->rope_at = ADDR(f->rope), f->ngram_at = ADDR(f->ngram);
    f->fold_at = ADDR(step) + offsetof(struct forward_step, fold), f->run_at = ADDR(step) + offsetof(struct forward_step, run);
    f->shared_delta = m->shared_delta;
    if (!f->device)
        return;
    step = arena_take(&m->scratch, 1, sizeof *step);
    f->step_at = ADDR(step) + offsetof(struct forward_step, step);
    f->fold_at = ADDR(step) + offsetof(struct forward_step, fold), f->run_at = ADDR(step) + offsetof(struct forward_step, run);
    f->ids_at = ADDR(arena_take(&m->scratch, n, sizeof *f->ids));
    f->rope_at = ADDR(arena_take(&m->scratch, rope, sizeof(float)));
    f->ngram_at = ADDR(arena_take(&m->scratch, ngram, sizeof(float)));
}

void forward_begin(struct forward *f, const int32_t *ids, uint32_t n, size_t pos)
{
    memcpy(f->ids, ids, n * sizeof *ids);
    f->step->n_tok = n;
    f->step->arrived = 0;
    f->step->pos = (uint32_t)pos;
}

/* One entry of the table: of position p */
static void rope_entry(const struct forward *f, size_t p, float *rope)
{
    for (uint32_t i = 0; i < f->shape->rope_dim / 2; i++) {
        float angle = (float)p * f->inv_freq[i]; /* in f32, as the reference has it (spec 4.2) */
        rope[2 * i] = cosf(angle);
        rope[2 * i + 1] = sinf(angle);
    }
}

void forward_rope(const struct forward *f, size_t pos, uint32_t n, float *rope)
{
    const struct shape *s = f->shape;
    for (uint32_t j = 0; s->n_qsa && j < 3 + n; j++, rope += s->rope_dim)
        rope_entry(f, pos + j >= 3 ? pos + j - 3 : 0, rope); /* entries before position 0 are never read */
}

void forward_turns(const struct forward *f, uint32_t n_block, float *turn)
{
    for (size_t i = 0; i < n_block; i++)
        rope_entry(f, i * QSA_BLOCK, turn + i * f->shape->rope_dim);
}

void forward_gather(struct forward *f, const int32_t *past)
{
    const struct shape *s = f->shape;
    uint32_t n = f->step->n_tok;
    forward_rope(f, f->step->pos, n, f->rope);
    if (s->ple_layer >= 0)
        ngram_gather(&f->reader, s, &f->w->ple, past, f->ids, n, f->ngram);
}

uint32_t forward_first_layers(const struct forward *f)
{
    uint32_t n = 0;
    while (n < f->shape->n_layer && !f->shape->is_qsa[n] && (int32_t)n != f->shape->ple_layer)
        n++;
    return n;
}

/* Two pieces of SHARED memory to where kernels read them quickly */
static void fetch(struct gpu_cmd *c, const struct forward *f, const void *const from[2], const gpu_addr to[2], const size_t bytes[2])
{
    struct copy_args a = { .n = { 0 } };
    uint32_t longest = 0;
    c->part = "embed";
    for (int i = 0; i < 2; i++) {
        a.from[i] = ADDR(from[i]) + f->shared_delta;
        a.to[i] = to[i];
        a.n[i] = (uint32_t)((bytes[i] + 15) / 16);
        longest = MAX(longest, a.n[i]);
    }
    gpu_record(c, &gpu_kernels, K_copy, &a, sizeof a, (uint32_t)size_up(longest, COPY_GRAIN));
}

void forward_fetch_ids(struct gpu_cmd *c, const struct forward *f, uint32_t n_tok)
{
    if (f->device)
        fetch(c, f, (const void *[]){ f->fold, f->ids }, (gpu_addr[]){ f->fold_at, f->ids_at },
              (size_t[]){ offsetof(struct forward_step, step) + (1 + f->runs.n) * sizeof *f->step, n_tok * sizeof *f->ids });
}

void forward_fetch_tables(struct gpu_cmd *c, const struct forward *f, uint32_t n_tok)
{
    const struct shape *s = f->shape;
    size_t rope = s->n_qsa ? (3 * (size_t)MAX(1u, f->runs.n) + n_tok) * s->rope_dim : 0, ngram = s->ple_layer >= 0 ? (size_t)n_tok * s->ple_head * s->ple_row : 0;
    if (f->device)
        fetch(c, f, (const void *[]){ f->rope, f->ngram }, (gpu_addr[]){ f->rope_at, f->ngram_at },
              (size_t[]){ rope * sizeof(float), ngram * sizeof(float) });
}

/* ---- to the host ---- */

void forward_choose(struct gpu_cmd *c, const struct forward *f, uint32_t n_row, uint32_t n_best)
{
    uint32_t n = f->shape->n_vocab, spans = (n + ARGMAX_SPAN - 1) / ARGMAX_SPAN;
    c->part = "head";
    if (n_best == 1) { /* the same choice by fewer steps */
        CALL(c, gpu_kernels, K_argmax_part, n_row * spans, struct argmax_part_args, .x = f->logits, .part = f->parts[0], .n = n, .stride = n);
        CALL(c, gpu_kernels, K_argmax, n_row, struct argmax_args, .part = f->parts[0], .best = f->best_at, .n_part = spans);
        return;
    }
    struct top_args a = { .from = f->logits, .n = n, .stride = n, .k = n_best };
    for (uint32_t level = 0;; level++) {
        spans = (a.n + TOP_SPAN - 1) / TOP_SPAN;
        a.to = spans == 1 ? f->best_at : f->parts[level % 2];
        gpu_record(c, &gpu_kernels, level ? K_top : K_top_part, &a, sizeof a, n_row * spans);
        if (spans == 1)
            return;
        a.from = a.to;
        a.n = a.stride = spans * n_best;
    }
}
