/* long.h - documents that are longer than the context: cut into parts that fit, or shortened to their beginning and end.
 *
 * The planners are pure: text, a way to count tokens and a budget go in, byte ranges come out. Only long_reduce asks for answers, through a
 * callback. Budgets and counts are tokens of a document as the prompt holds it: white space at both ends is dropped. */
#ifndef HAYATE_MODEL_LONG_H
#define HAYATE_MODEL_LONG_H

#include "model/tokenizer.h"

enum long_mode { LONG_REFUSE, LONG_HEAD_TAIL, LONG_SPLIT };

enum {
    LONG_MIN_BUDGET = 64, /* tokens of document below which cutting makes no sense */
    LONG_OVERLAP = 64,    /* tokens that a part repeats of the one before; at most an eighth of the budget */
};

/* Counts the tokens of text. */
struct long_count {
    status (*count)(void *ctx, struct str text, size_t *n, struct err *e);
    void *ctx;
};
/* The count of a tokenizer; ctx is a struct long_tokens. */
struct long_tokens {
    tokenizer *tok;
    enum tokenize_mode mode;
};
status long_count_tokens(void *ctx, struct str text, size_t *n, struct err *e);

struct long_part {
    size_t at, n;       /* bytes of the text that was cut */
    size_t n_tokens;
    size_t level;       /* 1: of the document; 2: of the summaries of level 1; ... (set by long_reduce) */
    size_t n_generated; /* length of its answer (set by long_reduce) */
};
/* Zero-initialise; long_parts_free when done. */
struct long_parts {
    struct long_part *v;
    size_t n, cap;
};
void long_parts_free(struct long_parts *p);

/* Cuts doc into parts of at most budget tokens (at least LONG_MIN_BUDGET), appended to out in order. Together they hold every byte; each begins
 * up to overlap tokens before the end of the one before. Cuts are at the end of a paragraph, else of a line, else of a sentence, else between
 * words, else between characters, the last that fits of the best kind in the second half of a part. */
status long_split(const struct long_count *c, struct str doc, size_t budget, size_t overlap, struct long_parts *out, struct err *e);

/* What head-tail kept, in tokens. */
struct long_ends {
    size_t n_head, n_tail, n_left_out;
};
/* Appends the beginning and the end of doc, half of the budget each, with a line "[... N tokens left out ...]" between. */
status long_head_tail(const struct long_count *c, struct str doc, size_t budget, struct text *out, struct long_ends *ends, struct err *e);

/* ---- summaries of summaries ---- */

struct long_reply {
    struct text text;   /* the answer; freed by long_reduce */
    size_t n_generated;
    bool stopped;       /* interrupted: no more of them */
};
/* Answers a document that fits in at most n_predict tokens. */
typedef status (*long_answer_fn)(void *ctx, struct str doc, size_t n_predict, struct long_reply *r, struct err *e);

struct long_job {
    const char *name;       /* of the document, for messages */
    struct long_count count;
    size_t budget;          /* tokens of document in one prompt */
    size_t n_ctx;           /* for messages */
    bool ctx_given;         /* n_ctx is -c, not the context of the training */
    size_t n_predict;       /* at most this many generated tokens per part */
    bool thinks;            /* generated tokens are not all answer */
    long_answer_fn answer;
    void *answer_ctx;
    void (*say)(void *ctx, const char *line); /* the plan, before it is carried out, and each part */
    void *say_ctx;
};
/* Replaces a document that does not fit by the answers to its parts, again and again until it fits budget; appends that text to out, for the
 * last answer. An answer counts at most a quarter of the budget, so every round is shorter than the one before. parts: all of them, of
 * every level. *stopped: interrupted, out is not complete. */
status long_reduce(const struct long_job *j, struct str doc, struct text *out, struct long_parts *parts, bool *stopped, struct err *e);

/* n as people write it: 40,112. */
const char *long_number(char buf[32], size_t n);

#endif
