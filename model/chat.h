/* chat.h - instruction and document to prompt ids: the fixed chat text of the model (spec page "tokenizer", section 7).
 *
 * Template pieces are tokenised with special tokens recognised; system text, instruction and document never are. */
#ifndef HAYATE_MODEL_CHAT_H
#define HAYATE_MODEL_CHAT_H

#include "model/tokenizer.h"

enum chat_effort { EFFORT_XHIGH, EFFORT_MEDIUM, EFFORT_LOW };

struct chat {
    struct str system;      /* n = 0: none; white space at both ends is dropped */
    struct str instruction; /* n = 0: none */
    struct str document;    /* n = 0: none; white space at both ends is dropped */
    bool reasoning;         /* open <think> block instead of a closed one */
    enum chat_effort effort;
    bool raw;               /* instruction + blank line + document only, no template */
    bool parse_special;     /* with raw: recognise special tokens in the text */
};

/* Appends the prompt to out. n_prefix, if not NULL, receives how many of the ids come before the document (the part that is the
 * same for every document). ERR_NOMEM, or ERR_UNSUPPORTED when the vocabulary lacks a template token. */
status chat_tokenize(tokenizer *t, const struct chat *c, struct ids *out, size_t *n_prefix, struct err *e);
/* The same as text, for --print-prompt. */
status chat_text(const struct chat *c, struct text *out, struct err *e);

#endif
