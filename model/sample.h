/* sample.h - logits to one id: penalties, top-k, top-p, min-p, temperature, in this order; a seeded stream.
 * Definitions: spec page "tokenizer" section 8. */
#ifndef HAYATE_MODEL_SAMPLE_H
#define HAYATE_MODEL_SAMPLE_H

#include "gpu/base.h"

struct sample_params {
    float temp;             /* <= 0: greedy, the lowest id among equals */
    int32_t top_k;          /* <= 0: off */
    float top_p;            /* >= 1: off */
    float min_p;            /* <= 0: off */
    float repeat_penalty;   /* 1: off */
    float presence_penalty; /* 0: off */
    float frequency_penalty;
    uint64_t seed;
};
#define SAMPLE_DEFAULTS { .temp = 0, .top_k = 20, .top_p = 0.95f, .min_p = 0, .repeat_penalty = 1 }

enum { SAMPLE_WINDOW = 64 }; /* ids the penalties look back on, prompt included */

/* An id that may be chosen, and its logit */
struct candidate {
    int32_t id;
    float logit;
};

typedef struct sampler sampler;
status sampler_open(sampler **out, size_t n_vocab, const struct sample_params *p, struct err *e);
void sampler_close(sampler *s);
/* Back to the start of the random stream, empty window. */
void sampler_reset(sampler *s);
/* Tells the penalties about an id of the prompt or one that was chosen. */
void sampler_accept(sampler *s, int32_t id);
/* Chooses from logits [n_vocab]; ids in banned (may be NULL) get probability zero. Advances the random stream by one draw when temp > 0. */
int32_t sampler_choose(sampler *s, const float *logits, const int32_t *banned, size_t n_banned);
/* How many of the largest logits decide a choice when n_banned ids are banned: one when greedy, top_k when sampling, and the banned ones. 0: all
 * logits do, because of penalties or without top-k. */
size_t sampler_needs(const sampler *s, size_t n_banned);
/* The same choice, from sampler_needs() or more of the largest logits in any order (the lower ids among equals; fewer when no more are numbers
 * above -infinity). */
int32_t sampler_choose_best(sampler *s, const struct candidate *best, size_t n, const int32_t *banned, size_t n_banned);

#endif
