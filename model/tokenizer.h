/* tokenizer.h - text <-> token ids: qwen35 splitter, byte-level BPE, special tokens, streaming detokeniser.
 *
 * Works on any GGUF with a gpt2-model vocabulary, with or without tensors. Rules: spec page "tokenizer", sections 1-6.
 * A tokenizer keeps a word cache and scratch memory: one thread at a time. */
#ifndef HAYATE_MODEL_TOKENIZER_H
#define HAYATE_MODEL_TOKENIZER_H

#include "gpu/base.h"
#include "model/gguf.h"
#include "model/utf8.h"

typedef struct tokenizer tokenizer;

/* Growing list of ids. Zero-initialise; ids_free when done. */
struct ids {
    int32_t *v;
    size_t n, cap;
};
status ids_push(struct ids *l, int32_t id, struct err *e);
void ids_free(struct ids *l);

/* Reads the vocabulary from g, which must outlive the tokenizer. ERR_FORMAT names the key; ERR_UNSUPPORTED is another kind of
 * vocabulary. What a caller may want to print (an unknown splitter, merges dropped) is in tokenizer_note(). */
status tokenizer_open(tokenizer **out, const gguf *g, struct err *e);
void tokenizer_close(tokenizer *t);             /* accepts NULL */
const char *tokenizer_note(const tokenizer *t); /* "" when there is nothing to say; one line otherwise */
const char *tokenizer_name(const tokenizer *t); /* the file it came from, for messages */

enum tokenize_mode {
    TOKENIZE_TEXT,    /* a document: no control or user-defined token is ever recognised in it */
    TOKENIZE_SPECIAL, /* template text: control, unknown and user-defined tokens are recognised */
};

/* Appends the ids of text[n] to out. Never fails on any bytes (an invalid byte counts as U+FFFD); only ERR_NOMEM. */
status tokenize(tokenizer *t, const char *text, size_t n, enum tokenize_mode mode, struct ids *out, struct err *e);

size_t tokenizer_n_vocab(const tokenizer *t);
/* The id whose text is exactly this special token ("<|im_end|>"), or -1. */
int32_t tokenizer_special(const tokenizer *t, const char *text);
/* Control or unknown token; false for an id outside the vocabulary. */
bool tokenizer_is_control(const tokenizer *t, int32_t id);
/* End of generation: end-of-text, im_end, the FIM ones of the spec, the file's eos and eot. */
bool tokenizer_is_stop(const tokenizer *t, int32_t id);
/* The bytes of a token: of a normal token its text; of a special one its name. Points into t. Empty for an id outside. */
struct str tokenizer_piece(const tokenizer *t, int32_t id);

/* Streaming: bytes go in token by token, whole UTF-8 characters come out; at most 3 bytes are held back. An impossible byte
 * comes out at once as U+FFFD, a sequence that breaks off as one U+FFFD for the bytes it had (the "maximal subpart" practice).
 * Control tokens give nothing (with show_special: their name). */
struct detok {
    bool show_special;
    uint8_t held[4];
    size_t n_held;
};
status detok_push(const tokenizer *t, struct detok *d, int32_t id, struct text *out, struct err *e);
status detok_end(struct detok *d, struct text *out, struct err *e); /* what is held becomes U+FFFD */

#endif
