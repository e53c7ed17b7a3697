/* parallel.h - answers to many inputs, up to N of them in work at once.
 *
 * Every input is answered at a place of one session. A place that becomes free takes the next input at once; its prompt is evaluated in pieces between the
 * decode steps of the others, and then it decodes with them, in steps that read every weight once for all. Rows of a step that no input needs carry guesses.
 * Which inputs are in work together, and what is guessed, changes no byte of an answer. With N = 1 it is engine_answer_whole, one input after the other. */
#ifndef HAYATE_MODEL_PARALLEL_H
#define HAYATE_MODEL_PARALLEL_H

#include "model/answer.h"

/* An input in work. The caller's next() fills it; what it points to is the caller's and stays until ended(). */
struct work {
    size_t index;       /* for the caller */
    struct input *in;   /* tokenised, within the context */
    struct answer *a;   /* zeroed */
    struct watch watch;
};

/* Where inputs come from and answers go to. Calls come one at a time, from the thread that called parallel_answer. */
struct work_source {
    void *ctx;
    /* The next input, at place k (0 .. N - 1); *more = false: there are none. What cannot be answered is left out here. An error ends all. */
    status (*next)(void *ctx, uint32_t k, struct work *w, bool *more, struct err *e);
    /* The input at place k has had its turn: s and why are what engine_answer_whole would have returned. An error ends all. */
    status (*ended)(void *ctx, uint32_t k, struct work *w, status s, const struct err *why, struct err *e);
};

struct parallel {
    uint32_t n;
    struct place {
        struct engine en;
        struct work work;
        enum { FREE, PROMPT, DECODE } doing;
        uint64_t turn; /* inputs that began earlier have lower numbers */
    } place[SESSION_SEQ_MAX];
    uint64_t turn;
    bool no_more;
    struct odds odds[SESSION_SEQ_MAX + 1]; /* costs of steps of so many inputs, with guesses and without */
    double prefill_s, decode_s; /* spent on prompts, and on everything after them; of all inputs, each second once */
};

/* n: 1 .. SESSION_SEQ_MAX. The errors of engine_open. Zero-initialise; accepts being closed half open. */
status parallel_open(struct parallel *p, const struct options *o, model *m, prefix_cache *cache, size_t n_ctx, uint32_t n, struct err *e);
void parallel_close(struct parallel *p);
/* Until next() has no more and everything has ended, or until a signal: then what is in work ends with STOP_INTERRUPTED. An error of a device, or of the
 * source, ends it at once. */
status parallel_answer(struct parallel *p, const struct work_source *src, struct err *e);

#endif
