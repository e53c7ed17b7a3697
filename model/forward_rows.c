/* forward_rows.c - a step with one row of each of several sequences.
 *
 * Products, mixers and experts go over all rows, so that a weight is read once for all of them. What belongs to a sequence has a step block that describes
 * the row alone, and the state of the row's own sequence: short convolutions, recurrence, attention, n-gram rows. A device has one call for all rows there,
 * whose groups find their own layer block by that step block (struct gpu_step); the cpu one call a row, side by side. */
#include "model/forward.h"
#include "model/model_kernels.h"

#include <assert.h>

/* Entries of the rope table that a row alone has: its own, and three before it */
enum { ROPE_OF_ROW = 4 };

void forward_rows_begin(struct forward *f, const struct forward_row *rows, uint32_t n)
{
    size_t rope_bytes = ROPE_OF_ROW * (size_t)f->shape->rope_dim * sizeof(float);
    assert(n <= DECODE_ROWS);
    for (uint32_t r = 0; r < n; r++) {
        f->ids[r] = rows[r].id;
        f->step[1 + r] = (struct gpu_step){ .ids = f->ids_at + r * sizeof *f->ids, .rope = f->rope_at + r * rope_bytes, .n_tok = 1, .pos = (uint32_t)rows[r].pos,
                                            .blocks = (uint32_t)(ADDR(rows[r].of->layer) - ADDR(f->layer)) };
    }
    f->step->n_tok = n;
    f->step->arrived = 0;
    f->step->pos = 0; /* of no meaning: nothing that all rows share asks for a position */
}

void forward_rows_gather(struct forward *f, const struct forward_row *rows, uint32_t n)
{
    const struct shape *s = f->shape;
    for (uint32_t r = 0; r < n; r++) {
        forward_rope(f, rows[r].pos, 1, f->rope + r * ROPE_OF_ROW * (size_t)s->rope_dim);
        if (s->ple_layer >= 0)
            ngram_gather(&f->reader, s, &f->w->ple, rows[r].past, &rows[r].id, 1, f->ngram + r * (size_t)s->ple_head * s->ple_row);
    }
}

/* Where the step blocks of the rows are */
static gpu_addr steps_at(const struct forward *f) { return f->step_at + sizeof *f->step; }
/* The blocks that calls have for row r: on a device those of f, from which kernels go on */
static const struct forward *blocks_of(const struct forward *f, uint32_t r) { return f->device ? f : f->seqs.of[r]; }

void forward_rows_ple_conv(struct gpu_cmd *c, struct forward *f)
{
    const struct shape *s = f->shape;
    uint32_t width = s->n_stream * s->n_embd, first = c->n;
    struct ple_conv_args a = { .z = f->ple_s.z, .gv = f->ple_s.gv, .conv = f->ple_s.conv, .residual = f->residual, .width = width, .taps = s->ple_conv_taps,
                               .dilation = s->ple_ngram, .n_tok = 1 };
    if (f->device) {
        c->row = GPU_EACH_ROW;
        a.block = gpu_block(c, f->ple_block);
        a.apart = steps_at(f);
        gpu_record(c, &model_kernels, K_ple_conv, &a, sizeof a, f->seqs.n * (uint32_t)size_up(width, PLE_CONV_GRAIN));
    }
    for (uint32_t r = 0; r < f->seqs.n && !f->device; r++) {
        c->row = (uint8_t)(1 + r);
        a.block = gpu_block(c, f->seqs.of[r]->ple_block);
        gpu_record(c, &model_kernels, K_ple_conv, &a, sizeof a, width);
        a.z += width * sizeof(float), a.gv += width * sizeof(float), a.residual += width * sizeof(float);
    }
    c->row = 0;
    if (!f->device)
        gpu_record_side_by_side(c, first, f->seqs.n);
}

void forward_rows_qsa(struct gpu_cmd *c, struct forward *f, uint32_t il)
{
    const struct qsa_layer *l[DECODE_ROWS];
    for (uint32_t r = 0; r < f->seqs.n; r++)
        l[r] = &blocks_of(f, r)->layer[il].qsa;
    qsa_record_rows(c, l, f->seqs.n, &f->qsa_s, &f->qsa, steps_at(f), f->u);
}

void forward_rows_gdn(struct gpu_cmd *c, struct forward *f, uint32_t il)
{
    const struct gdn_layer *l[DECODE_ROWS];
    for (uint32_t r = 0; r < f->seqs.n; r++)
        l[r] = &blocks_of(f, r)->layer[il].gdn;
    gdn_record_rows(c, l, f->seqs.n, &f->gdn_s, &f->gdn, steps_at(f), f->u);
}

void forward_rows_record(struct gpu_cmd *first, struct gpu_cmd *rest, struct forward *f, struct forward *const *of, uint32_t n, uint32_t n_best)
{
    uint32_t n_first = forward_first_layers(f);
    f->seqs = (struct forward_seqs){ of, n };
    forward_embed(first, f, n);
    forward_fetch_tables(rest, f, n);
    for (uint32_t il = 0; il < f->shape->n_layer; il++)
        forward_layer(il < n_first ? first : rest, f, il, n, GDN_DECODE);
    forward_head(rest, f, 0, n, GDN_DECODE);
    if (n_best)
        forward_choose(rest, f, n, n_best);
    f->seqs = (struct forward_seqs){ NULL, 0 };
}

uint32_t forward_rows_max_calls(const struct forward *f, uint32_t n_seq)
{
    enum { OF_A_ROW = 8 }; /* calls that a layer makes for each row by itself, at most */
    return forward_max_calls(f) + n_seq * (1 + f->shape->n_layer * OF_A_ROW);
}
