/* forward_verify.c - steps whose rows may be taken back.
 *
 * Drafted ids run through the decode kernels beside the id that is known, and only afterwards is it known how many of the rows count. So what a row adds to
 * the recurrent state is kept apart until then, and goes into it when the next step begins: the delta rule by records that are replayed in order, with
 * the bits of a live row; the windows of the short convolutions and of the index keys by sliding over the rows kept. K/V and pooled keys lie at
 * positions, where rows that do not count are overwritten before anything reads them. */
#include "gpu/gpu_kernels.h"
#include "model/forward.h"

static uint32_t ple_width(const struct shape *s) { return s->n_stream * s->n_embd; }
static uint32_t ple_past(const struct shape *s) { return (s->ple_conv_taps - 1) * s->ple_ngram; }
static bool has_index(const struct shape *s, uint32_t il) { return s->is_qsa[il] && s->ratio[il]; }

void forward_take_rows(const struct forward *f, struct arena *a, struct verify_rows *rows)
{
    const struct shape *s = f->shape;
    for (uint32_t il = 0; il < s->n_layer; il++) {
        if (!s->is_qsa[il])
            gdn_rows_take(&rows[il].gdn, a, &f->gdn, DECODE_ROWS);
        if (!has_index(s, il))
            continue;
        rows[il].next = ADDR(arena_take(a, (size_t)DECODE_ROWS * s->idx_dim, sizeof(float)));
        rows[il].window = ADDR(arena_take(a, qsa_window_floats(&f->qsa), sizeof(float)));
    }
    if (s->ple_layer >= 0) {
        rows[s->n_layer].next = ADDR(arena_take(a, (size_t)DECODE_ROWS * ple_width(s), sizeof(float)));
        rows[s->n_layer].window = ADDR(arena_take(a, (size_t)ple_past(s) * ple_width(s), sizeof(float)));
    }
}

static void add_slide(struct forward_verify *v, gpu_addr window, gpu_addr next, gpu_addr live, uint32_t width, uint32_t past)
{
    v->slide[v->n_slide++] = (struct slide_job){ .window = window, .next = next, .live = live, .width = width, .past = past };
    v->slide_spans = MAX(v->slide_spans, (width + SLIDE_SPAN - 1) / SLIDE_SPAN);
}

void forward_place_verify(struct forward *f, struct forward_memory *m, const struct verify_rows *rows, gpu_addr rows_at)
{
    const struct shape *s = f->shape;
    struct forward_verify *v = &f->verify;
    *v = (struct forward_verify){ .rows = rows, .rows_at = rows_at };
    v->layer = arena_take(&m->blocks, s->n_layer, sizeof *v->layer);
    v->slide = arena_take(&m->blocks, s->n_layer + 1, sizeof *v->slide);
    if (!m->scratch.base)
        return;
    for (uint32_t il = 0; il < s->n_layer; il++) {
        struct verify_layer *l = &v->layer[il];
        const struct verify_rows *r = &rows[il];
        if (s->is_qsa[il]) {
            l->qsa = f->layer[il].qsa;
            if (!has_index(s, il))
                continue;
            l->qsa.block.window = r->window;
            l->qsa.in[4].y = r->next;
            add_slide(v, f->layer[il].qsa.block.window, r->next, r->window, s->idx_dim, 3);
        } else {
            l->gdn = f->layer[il].gdn;
            l->gdn.in[0].y = r->gdn.raw;
            add_slide(v, l->gdn.block.window, r->gdn.raw, 0, gdn_width(&f->gdn), s->conv_taps - 1);
        }
    }
    if (s->ple_layer < 0)
        return;
    f->ple_block[1].window = rows[s->n_layer].window;
    add_slide(v, f->ple_block[0].window, rows[s->n_layer].next, rows[s->n_layer].window, ple_width(s), ple_past(s));
}

void forward_slide(struct gpu_cmd *c, const struct forward *f, gpu_addr fold_at)
{
    const struct forward_verify *v = &f->verify;
    c->part = "gdn";
    CALL(c, gpu_kernels, K_slide, v->n_slide * v->slide_spans, struct slide_args, .job = gpu_block(c, v->slide), .count = fold_at, .n_job = v->n_slide,
         .spans = v->slide_spans);
}

void forward_slide_runs(struct gpu_cmd *c, const struct forward *f, uint32_t n)
{
    const struct forward_verify *v = &f->verify;
    c->part = "gdn";
    CALL(c, gpu_kernels, K_slide, n * v->n_slide * v->slide_spans, struct slide_args, .job = gpu_block(c, v->slide), .runs = f->run_at, .n_job = v->n_slide,
         .spans = v->slide_spans);
}

void forward_verify_layer(struct gpu_cmd *c, const struct forward *f, uint32_t il, uint32_t n_tok)
{
    const struct verify_layer *l = &f->verify.layer[il];
    const struct verify_rows *r = &f->verify.rows[il];
    if (f->shape->is_qsa[il]) {
        struct qsa_scratch s = f->qsa_s;
        s.ik = r->next;
        qsa_record(c, &l->qsa, &s, &f->qsa, f->step_at, f->u, n_tok);
    } else {
        gdn_record_verify(c, &l->gdn, &f->gdn_s, &f->gdn, &r->gdn, f->fold_at, f->u, n_tok);
    }
}

void forward_fold(struct gpu_cmd *c, struct forward *f)
{
    forward_fetch_ids(c, f, 0);
    forward_slide(c, f, f->fold_at);
    for (uint32_t il = 0; il < f->shape->n_layer; il++)
        if (!f->shape->is_qsa[il])
            gdn_record_fold(c, &f->verify.layer[il].gdn, &f->gdn, &f->verify.rows[il].gdn, f->fold_at);
}
