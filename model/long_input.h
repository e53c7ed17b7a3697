/* long_input.h - what --long does for one input: decides whether its prompt fits, shortens it or has its parts answered, reports. */
#ifndef HAYATE_MODEL_LONG_INPUT_H
#define HAYATE_MODEL_LONG_INPUT_H

#include "model/long.h"
#include "model/options.h"

#include <jansson.h>

/* Zero-initialise; long_input_free when done. */
struct long_input {
    enum long_mode mode;
    size_t budget;           /* tokens of document that fit beside all else; 0: this input fits as it is */
    size_t n_ctx;            /* positions it may use */
    size_t n_document;       /* tokens of the whole document */
    struct long_ends ends;   /* head-tail */
    struct long_parts parts; /* split, after long_input_reduce */
    double parts_s;          /* time of their answers */
    struct text document;    /* what took the place of the document; the chat points to it */
};

/* The prompt of one input, as chat_tokenize made it. */
struct long_prompt {
    const char *path;
    struct chat *chat;
    struct ids *ids;
    size_t *n_prefix;
};

/* Compares the prompt with -c (else with what the model was trained for). Too long: refused with ERR_INPUT and the size needed; or with
 * --long head-tail made anew from both ends of the document; or with --long split l->budget is set, and long_input_reduce comes before the
 * answer. With those two, room for -n generated tokens is kept free. *n_ctx: the context this input asks for. */
status long_input_fit(struct long_input *l, const struct options *o, model *m, const struct long_prompt *p, size_t *n_ctx, struct err *e);
/* Whether long_input_reduce is due. */
static inline bool long_input_is_split(const struct long_input *l) { return l->budget && l->mode == LONG_SPLIT; }
/* Has the parts answered by answer (see struct long_job) and makes the prompt anew from the answers. *stopped: interrupted, no prompt. */
status long_input_reduce(struct long_input *l, const struct options *o, model *m, const struct long_prompt *p,
                         long_answer_fn answer, void *ctx, bool *stopped, struct err *e);
/* Adds what was done to the object of an answer: "long", "document_tokens", "left_out_tokens" or "parts". Nothing for an input that fits. */
void long_input_json(const struct long_input *l, json_t *j);
void long_input_free(struct long_input *l);

#endif
