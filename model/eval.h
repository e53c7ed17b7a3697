/* eval.h - what the kinds of `eval` share: golden files, ids to score, the loss of a row. */
#ifndef HAYATE_MODEL_EVAL_H
#define HAYATE_MODEL_EVAL_H

#include "model/options.h"

#include <jansson.h>

struct golden {
    uint8_t *bytes;
    uint32_t n_tok, n_vocab, n_row;
    const int32_t *ids, *argmax, *row;
    const float *nll, *gap, *logits;
};

/* A file as bytes, with room for 8 more. ERR_IO, ERR_NOMEM. */
status eval_read_all(const char *path, uint8_t **out, size_t *n, struct err *e);
/* Reads and checks a GOLD1 file; g->bytes is the caller's. ERR_FORMAT, ERR_UNSUPPORTED, ERR_IO. */
status golden_open(struct golden *g, const char *path, struct err *e);
/* -log p(next) of a row of logits, and its largest logit */
double row_nll(const float *x, size_t n_vocab, int32_t next, int32_t *argmax);

/* The ids of --ppl or --ids in the chunks that are scored: chunk c begins at c * step and has n_ctx ids, of which positions from .. n_ctx - 2 are scored
 * with the id behind them. */
struct chunks {
    struct ids ids;
    const char *of; /* the file */
    size_t n, step, n_ctx, from;
};
/* As llama-perplexity cuts a text: one after the other, the second half of each scored; with --ppl-stride N every N ids, the last N scored. A text
 * shorter than one chunk is one chunk; ids that fit one are all scored. ERR_INPUT, ERR_USAGE and the errors of reading; chunks_free in any case. */
status chunks_open(struct chunks *c, const struct options *o, model *m, struct err *e);
void chunks_free(struct chunks *c);

status eval_session(session **s, model *m, const struct options *o, size_t n_ctx, struct err *e);
/* One line on stdout. Takes j, which may be NULL. */
status eval_put_json(json_t *j, struct err *e);
/* Says e and returns its exit code. */
int eval_complain(const struct options *o, const struct err *e);

int eval_ppl(const struct options *o, model *m);
/* The same model on another backend, or another model: --compare. */
int eval_compare(const struct options *o, model *m);
/* --needle: how many codes hidden in texts of given lengths are found, and how surprising they are. */
int eval_needle(const struct options *o, model *m);

#endif
