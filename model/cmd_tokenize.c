/* cmd_tokenize.c - text to ids and ids to text, with the vocabulary of any GGUF file; tensors are not looked at.
 *
 * Both directions together give back every byte of any valid UTF-8. */
#include "model/demo.h"
#include "model/document.h"
#include "model/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static status text_to_ids(tokenizer *t, const struct options *o, const char *path, const struct text *in, struct text *out, struct err *e)
{
    size_t bad = utf8_invalid_at(in->p, in->n);
    if (bad < in->n)
        return fail(e, ERR_INPUT, "%s: not UTF-8 at byte %zu", document_name(path), bad);
    struct ids ids = { 0 };
    status s = tokenize(t, in->p, in->n, o->parse_special ? TOKENIZE_SPECIAL : TOKENIZE_TEXT, &ids, e);
    for (size_t i = 0; s == OK && i < ids.n; i++) {
        char word[16];
        int n = snprintf(word, sizeof word, "%s%d", i ? " " : "", ids.v[i]);
        s = text_add(out, word, (size_t)n, e);
    }
    if (s == OK)
        s = text_add(out, "\n", 1, e);
    ids_free(&ids);
    return s;
}

static status ids_to_text(tokenizer *t, const char *path, const struct text *in, struct text *out, struct err *e)
{
    static const char between[] = " \t\r\n,";
    const char *p = in->p, *end = in->p + in->n;
    size_t n_vocab = tokenizer_n_vocab(t);
    if (memchr(p, 0, in->n))
        return fail(e, ERR_INPUT, "%s: NUL among the ids", document_name(path));
    TRY(text_add(out, "", 0, e));
    for (p += strspn(p, between); p < end; p += strspn(p, between)) {
        size_t n = strcspn(p, between);
        char *stop;
        errno = 0;
        long id = strtol(p, &stop, 10);
        if (stop != p + n)
            return fail(e, ERR_INPUT, "%s: '%.*s' is not a token id", document_name(path), (int)MIN(n, (size_t)32), p);
        if (errno || id < 0 || (size_t)id >= n_vocab)
            return fail(e, ERR_INPUT, "%s: id %.*s, expected 0..%zu", document_name(path), (int)MIN(n, (size_t)32), p, n_vocab - 1);
        struct str piece = tokenizer_piece(t, (int32_t)id);
        TRY(text_add(out, piece.p, piece.n, e));
        p += n;
    }
    return OK;
}

static status open_vocabulary(gguf **g, const char *path, struct err *e)
{
    const void *bytes;
    if (path)
        return gguf_open(g, path, e);
    size_t n = demo_bytes(&bytes);
    if (!n)
        return fail(e, ERR_USAGE, "this binary carries no demo model: give one with -m or HAYATE_MODEL");
    return gguf_open_memory(g, bytes, n, "(demo model)", e);
}

int cmd_tokenize(const struct options *o)
{
    gguf *g = NULL;
    tokenizer *t = NULL;
    struct text in = { 0 }, out = { 0 };
    struct err e;
    status s;
    TRY_OR(out, s, document_read(o->files[0], o->stop, &in, &e));
    TRY_OR(out, s, open_vocabulary(&g, o->model_path, &e));
    TRY_OR(out, s, tokenizer_open(&t, g, &e));
    if (*tokenizer_note(t))
        console_note(o->con, "hayate: %s", tokenizer_note(t));
    s = o->as_text ? ids_to_text(t, o->files[0], &in, &out, &e) : text_to_ids(t, o, o->files[0], &in, &out, &e);
    if (s == OK && !o->model_path)
        console_note(o->con, DEMO_NOTE);
    if (s == OK)
        s = console_write(out.p, out.n, &e);
out:
    if (s != OK)
        console_error(o->con, "%s", e.msg);
    tokenizer_close(t);
    gguf_close(g);
    text_free(&in);
    text_free(&out);
    return exit_code_of(s);
}
