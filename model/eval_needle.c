/* eval_needle.c - a line with an access code somewhere in a text, and a question for it at the end.
 *
 * A text is lines of the given files (without files: of a page that is in the program), from a random one on, again from the first after the last,
 * up to the length that is asked for. What counts is whether the greedy answer states the code, and the mean nll of the ids of the code when the
 * words before it are given. Everything follows from the seed; a length has the same texts whatever lengths stand beside it. */
#include "model/document.h"
#include "model/eval.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED = 16, ANSWER_MOST = 32 };

__asm__(".section .rodata\n"
        "hayate_page: .incbin \"tests/data/sample-page.txt\"\n"
        ".balign 8\n"
        "hayate_page_bytes: .quad . - hayate_page\n"
        ".previous\n");
extern const char hayate_page[];
extern const uint64_t hayate_page_bytes; /* up to 7 zero bytes at the end included */

static const char *const which[] = { "red", "blue", "iron", "copper", "silver", "golden", "upper", "lower", "quiet", "bright", "hidden", "large" };
static const char *const thing[] = { "gate", "vault", "lamp", "bridge", "tower", "garden", "harbor", "library", "mirror", "station", "cellar", "market" };
static const char *const word[] = { "lantern", "printing", "window", "number", "message", "before", "system", "format", "section", "possible", "network", "single",
                                    "version", "pattern", "current", "should", "memory", "string", "header", "public" };

/* The lines texts are made of, with their lengths in tokens, the line end included. */
struct hay {
    struct line {
        struct str text;
        size_t n_tok;
    } *line;
    size_t n;
};

struct needle {
    model *m;
    session *s;
    void *mark;
    const struct hay *hay;
    uint64_t x; /* splitmix64 */
    char sentence[128], question[128], code[16];
    size_t n_told;  /* bytes of the sentence before the code and the space in front of it */
    double nll;     /* summed */
    size_t n_code, n_found, n_prompt;
};

static uint32_t draw(struct needle *t, size_t n)
{
    uint64_t z = t->x += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) % n);
}

static status count(model *m, struct str text, size_t *n, struct err *e)
{
    struct ids ids = { 0 };
    status st = tokenize(model_tokenizer(m), text.p, text.n, TOKENIZE_TEXT, &ids, e);
    *n = ids.n;
    ids_free(&ids);
    return st;
}

static status add_lines(model *m, struct hay *h, struct str text, struct err *e)
{
    for (const char *p = text.p, *end = p + text.n, *next; p < end; p = next) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        struct line *more = realloc(h->line, (h->n + 1) * sizeof *more);
        if (!more)
            return fail(e, ERR_NOMEM, "%zu lines", h->n);
        h->line = more;
        h->line[h->n].text = (struct str){ p, (size_t)(next - p) };
        TRY(count(m, h->line[h->n].text, &h->line[h->n].n_tok, e));
        h->n += h->line[h->n].n_tok > 0;
    }
    return OK;
}

static status add(struct text *t, struct str s, struct err *e) { return text_add(t, s.p, s.n, e); }
static struct str str_of(const char *z) { return (struct str){ z, strlen(z) }; }

static void new_needle(struct needle *t)
{
    const char *a = which[draw(t, COUNT_OF(which))], *b = thing[draw(t, COUNT_OF(thing))];
    snprintf(t->code, sizeof t->code, "%s", word[draw(t, COUNT_OF(word))]);
    t->n_told = (size_t)snprintf(t->sentence, sizeof t->sentence, "The access code for the %s %s is", a, b);
    snprintf(t->sentence + t->n_told, sizeof t->sentence - t->n_told, " %s.", t->code);
    snprintf(t->question, sizeof t->question, "What is the access code for the %s %s?", a, b);
}

/* Prompt of at most n_tok ids: lines with the sentence among them, a blank line, the question */
static status make_prompt(struct needle *t, size_t n_tok, struct ids *prompt, struct err *e)
{
    struct text doc = { 0 };
    struct chat chat = { .document = STR("\n") };
    size_t fixed, first = draw(t, t->hay->n), n = 0, used = 0, at;
    status st = OK;
    prompt->n = 0;
    TRY(chat_tokenize(model_tokenizer(t->m), &chat, prompt, NULL, e));
    fixed = prompt->n;
    TRY(count(t->m, str_of(t->sentence), &at, e));
    fixed += at;
    TRY(count(t->m, str_of(t->question), &at, e));
    fixed += at + 3; /* line ends */
    while (used + t->hay->line[(first + n) % t->hay->n].n_tok + fixed <= n_tok)
        used += t->hay->line[(first + n++) % t->hay->n].n_tok;
    at = draw(t, n + 1);
    for (size_t i = 0; i <= n && st == OK; i++) {
        if (i == at)
            st = add(&doc, str_of(t->sentence), e) == OK ? add(&doc, STR("\n"), e) : e->code;
        if (i < n && st == OK)
            st = add(&doc, t->hay->line[(first + i) % t->hay->n].text, e);
    }
    if (st == OK && (st = add(&doc, STR("\n"), e)) == OK)
        st = add(&doc, str_of(t->question), e);
    chat.document = (struct str){ doc.p, doc.n };
    prompt->n = 0;
    if (st == OK)
        st = chat_tokenize(model_tokenizer(t->m), &chat, prompt, NULL, e);
    text_free(&doc);
    return st;
}

/* The greedy answer states the code */
static status answer(struct needle *t, bool *found, struct err *e)
{
    tokenizer *tok = model_tokenizer(t->m);
    struct detok d = { 0 };
    struct text out = { 0 };
    status st = OK;
    for (int i = 0; i < ANSWER_MOST && st == OK; i++) {
        int32_t best;
        if ((st = model_check_logits(t->m, session_logits(t->s), e)) != OK)
            break;
        row_nll(session_logits(t->s), model_shape(t->m)->n_vocab, 0, &best);
        if (tokenizer_is_stop(tok, best))
            break;
        if ((st = detok_push(tok, &d, best, &out, e)) == OK)
            st = session_decode(t->s, best, e);
    }
    if (st == OK)
        st = detok_end(&d, &out, e);
    if (st == OK)
        *found = out.p && strstr(out.p, t->sentence + t->n_told);
    text_free(&out);
    return st;
}

/* The nll of the code after the words before it */
static status surprise(struct needle *t, struct err *e)
{
    tokenizer *tok = model_tokenizer(t->m);
    struct ids told = { 0 }, code = { 0 };
    int32_t best;
    size_t n_code = strlen(t->code) + 1;
    status st = tokenize(tok, t->sentence, t->n_told, TOKENIZE_TEXT, &told, e);
    if (st == OK)
        st = tokenize(tok, t->sentence + t->n_told, n_code, TOKENIZE_TEXT, &code, e);
    for (size_t i = 0; i < told.n && st == OK; i++)
        st = session_decode(t->s, told.v[i], e);
    for (size_t i = 0; i < code.n && st == OK; i++) {
        if ((st = model_check_logits(t->m, session_logits(t->s), e)) != OK)
            break;
        t->nll += row_nll(session_logits(t->s), model_shape(t->m)->n_vocab, code.v[i], &best);
        t->n_code++;
        st = session_decode(t->s, code.v[i], e);
    }
    ids_free(&told);
    ids_free(&code);
    return st;
}

static status ask(struct needle *t, size_t n_tok, struct err *e)
{
    struct ids prompt = { 0 };
    bool found = false;
    new_needle(t);
    status st = make_prompt(t, n_tok, &prompt, e);
    t->n_prompt += prompt.n;
    if (st == OK && (st = session_reset(t->s, e)) == OK && (st = session_prefill(t->s, prompt.v, prompt.n, NULL, NULL, e)) == OK &&
        (st = session_mark(t->s, t->mark, e)) == OK && (st = answer(t, &found, e)) == OK && (st = session_return(t->s, t->mark, e)) == OK)
        st = surprise(t, e);
    t->n_found += found;
    ids_free(&prompt);
    return st;
}

static status print(const struct options *o, const struct needle *t, uint64_t n_tok, struct err *e)
{
    double nll = t->nll / (double)MAX((size_t)1, t->n_code), mean = (double)t->n_prompt / ASKED;
    if (!o->json) {
        printf("needle %6llu tok  found %2zu/%d  mean nll of the code %.4f  (prompts of %.0f tokens on average)\n", (unsigned long long)n_tok, t->n_found, ASKED, nll, mean);
        return OK;
    }
    return eval_put_json(json_pack("{s:I,s:i,s:i,s:f,s:f}", "needle", (json_int_t)n_tok, "asked", ASKED, "found", (int)t->n_found, "code_nll", nll,
                                   "mean_prompt_tokens", mean),
                         e);
}

static status run_length(const struct options *o, model *m, const struct hay *hay, uint64_t n_tok, struct err *e)
{
    struct needle t = { .m = m, .hay = hay, .x = (o->sample.seed << 32) + n_tok };
    status st = eval_session(&t.s, m, o, n_tok + 2 * ANSWER_MOST, e);
    if (st == OK && !(t.mark = malloc(session_mark_bytes(t.s))))
        st = fail(e, ERR_NOMEM, "a mark of %zu bytes", session_mark_bytes(t.s));
    for (int i = 0; i < ASKED && st == OK && !*o->stop; i++)
        st = ask(&t, n_tok, e);
    if (st == OK && !*o->stop)
        st = print(o, &t, n_tok, e);
    free(t.mark);
    session_close(t.s);
    return st;
}

static status run_all(const struct options *o, model *m, struct err *e)
{
    struct hay hay = { 0 };
    struct text *text = calloc(o->n_files + 1, sizeof *text);
    status st = text ? OK : fail(e, ERR_NOMEM, "%zu files", o->n_files);
    for (size_t i = 0; i < o->n_files && st == OK; i++) {
        struct str all;
        const char *read_as;
        if ((st = document_read(o->files[i], o->stop, &text[i], e)) == OK && (st = document_check(o->files[i], NULL, &text[i], &all, &read_as, e)) == OK)
            st = add_lines(m, &hay, all, e);
    }
    if (st == OK && o->n_files == 0)
        st = add_lines(m, &hay, (struct str){ hayate_page, strnlen(hayate_page, hayate_page_bytes) }, e);
    if (st == OK && hay.n == 0)
        st = fail(e, ERR_INPUT, "%s: no line of text", o->files[0]);
    for (size_t i = 0; i < o->needle.n && st == OK && !*o->stop; i++)
        st = run_length(o, m, &hay, o->needle.v[i], e);
    for (size_t i = 0; text && i < o->n_files; i++)
        text_free(&text[i]);
    free(text);
    free(hay.line);
    return st;
}

int eval_needle(const struct options *o, model *m)
{
    struct err e;
    return run_all(o, m, &e) == OK ? EXIT_DONE : eval_complain(o, &e);
}
