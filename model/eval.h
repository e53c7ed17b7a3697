/* eval.h - what the parts of the command eval share. */
#ifndef HAYATE_MODEL_EVAL_H
#define HAYATE_MODEL_EVAL_H

#include "model/options.h"

/* -log p(next) of a row of logits [n_vocab], natural; *argmax is its largest. */
double eval_nll(const float *logits, size_t n_vocab, int32_t next, int32_t *argmax);

/* --needle: how many codes hidden in texts of given lengths are found, and how surprising they are. (model/eval_needle.c) */
status eval_needle(const struct options *o, model *m, struct err *e);

#endif
