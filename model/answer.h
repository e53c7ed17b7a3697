/* answer.h - one prompt, one answer: an input as text and ids, the engine that answers it, and what came of it.
 *
 * run and batch share this, so a file in a batch and the same file alone go through the same calls. Nothing is printed here: who wants to
 * show an answer as it grows gives a struct watch. */
#ifndef HAYATE_MODEL_ANSWER_H
#define HAYATE_MODEL_ANSWER_H

#include "model/long_input.h"
#include "model/options.h"
#include "model/prefix.h"

#include <jansson.h>

enum ending { STOP_END, STOP_LENGTH, STOP_CONTEXT, STOP_INTERRUPTED };
const char *ending_name(enum ending x); /* "end", "length", "context", "interrupted" */

/* ---- inputs ---- */

struct input {
    const char *path;
    struct text bytes;  /* as read; UTF-8 after input_check */
    uint64_t hash;      /* xxh3 of the bytes as read */
    struct chat chat;   /* points into bytes */
    struct ids prompt;
    size_t n_prefix;    /* ids before the document: a segment of their own */
    const char *read_as; /* encoding it was converted from, or NULL */
    struct long_input fit; /* --long: how the document was made to fit */
};

/* Text given on the command line is checked like a document: ERR_USAGE. */
status input_check_options(const struct options *o, struct err *e);
/* The instruction in force; n = 0: none. */
struct str input_instruction(const struct options *o);
/* Reads all bytes of in->path. The errors of document_read. */
status input_read(const struct options *o, struct input *in, struct err *e);
/* Checks the bytes, converts them where they are not UTF-8 and wraps them in the chat text. The errors of document_check. */
status input_check(const struct options *o, struct input *in, struct err *e);
/* Prompt ids. *n_ctx: the context this input asks for (-c, or the prompt and -n). ERR_INPUT when the prompt is longer than -c allows
 * and --long does not help; see long_input_fit. */
status input_tokenize(const struct options *o, model *m, struct input *in, size_t *n_ctx, struct err *e);
/* Says how the input was read when it was converted. */
void input_say(const struct options *o, const struct input *in);
void input_free(struct input *in);

/* ---- answers ---- */

struct answer {
    struct text all;       /* everything the model wrote */
    size_t thought_end;    /* the answer begins here in all; SIZE_MAX while the model is thinking */
    size_t n_thought;      /* bytes of thought, the mark at their end left out */
    size_t n_generated;
    size_t n_reused;       /* ids of the prompt that were not evaluated again */
    double prefill_s, decode_s;
    struct draft_stats drafts;
    enum ending ending;
};

/* The answer so far, without white space at its end (and, after thoughts, at its start). */
struct str answer_text(const struct answer *a);
/* Cut by -n or by the context. */
static inline bool answer_is_cut(const struct answer *a) { return a->ending == STOP_LENGTH || a->ending == STOP_CONTEXT; }
void answer_free(struct answer *a);
/* What came of guesses, as an object. */
json_t *drafts_json(const struct draft_stats *t);
/* The same as the end of a timing line: " · draft acceptance 71 % (20 of 28), 2.3 tok a pass"; "" without guesses. */
const char *drafts_text(const struct draft_stats *t, char *out, size_t cap);
/* A JSON string of any bytes; what is not UTF-8 (a file name) becomes U+FFFD. */
json_t *json_of(const char *p, size_t n);
/* The answer as an object with what it took; NULL: no memory. */
json_t *answer_json(const struct options *o, const model *m, const struct input *in, const struct answer *a);

/* Called while an answer is made; either may be NULL. */
struct watch {
    void *ctx;
    /* after each step, and with done = total at the end; n_reused of done were not evaluated */
    void (*prefill)(void *ctx, size_t done, size_t total, size_t n_reused, double seconds);
    status (*token)(void *ctx, const struct answer *a, double seconds, struct err *e); /* after each token, and when the answer is complete */
};

/* The answer that an engine has in work. */
struct going {
    const struct input *in;
    const struct watch *w;
    struct answer *a;
    struct detok d;
    bool begun; /* the prefix is there */
    size_t at;  /* ids of the prompt that have been evaluated */
    int32_t id; /* the one that was chosen last; the timeline stands before it */
};

/* What answers prompts one after the other. Zero-initialise; the model is the caller's. */
struct engine {
    const struct options *o;
    model *m;
    session *s;
    struct prefix prefix;
    struct state_files states; /* of --save-state and --load-state */
    struct err unsaved;        /* why the state of the last prompt was not saved; code OK: it was, or was not asked for */
    struct speculator speculator;
    sampler *sampler;
    struct ids banned; /* --ignore-eos: the stop ids */
    uint32_t n_best;   /* how many of the largest logits the sampler needs; 0: all */
    struct going going;
    bool is_guest;     /* the session is that of another engine */
};

/* cache: --prefix-cache, or NULL; it stays the caller's. n_seq: places of the session, of which this engine takes the first. */
status engine_open(struct engine *en, const struct options *o, model *m, prefix_cache *cache, size_t n_ctx, uint32_t n_seq, struct err *e);
/* An engine at place k of the session of host, which must be closed after this one. */
status engine_open_guest(struct engine *en, const struct engine *host, uint32_t k, struct err *e);
void engine_close(struct engine *en);
/* Notes on the model after it was opened, and with -v the plan of a session. */
void engine_say_model(const struct options *o, const model *m);
void engine_say_plan(const struct options *o, const model *m, size_t n_ctx, uint32_t n_seq);
/* Answers one prompt from the start of the random stream; a starts zeroed. A signal ends it with STOP_INTERRUPTED and OK. */
status engine_answer(struct engine *en, const struct input *in, const struct watch *w, struct answer *a, struct err *e);
/* The same for an input as a whole: with --long split its parts are answered first, in silence, and then the answers to them. */
status engine_answer_whole(struct engine *en, struct input *in, const struct watch *w, struct answer *a, struct err *e);

/* The steps that engine_answer_whole consists of, for who has several answers in work at once (parallel.c): engine_reduce, engine_begin, engine_prompt until
 * the prompt is done, engine_token until the answer is, with session_decode of going.id in between, and engine_end. in, w and a stay where they are meanwhile.
 * Times in a are the caller's to count, but for prefill_s. */
/* --long split: answers the parts. Then in->prompt is that of the answers to them; with *stopped it is not. */
status engine_reduce(struct engine *en, struct input *in, bool *stopped, struct err *e);
void engine_begin(struct engine *en, const struct input *in, const struct watch *w, struct answer *a);
/* Evaluates up to a ubatch of the prompt, the prefix as a whole. *more: there is more of it; after a signal too. */
status engine_prompt(struct engine *en, bool *more, struct err *e);
/* Chooses the next id by what the last step left. *more: going.id is to be decoded; else a->ending says why not. */
status engine_token(struct engine *en, bool *more, struct err *e);
status engine_end(struct engine *en, struct err *e);

#endif
