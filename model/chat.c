/* chat.c - the prompt of one document, as text and as ids: the fixed chat text of the model without tools or history.
 *
 * The prompt is built once as text with marks between its parts; tokenising part by part gives the same ids as tokenising the
 * whole, because every mark stands between a line end and a visible character, or beside a special token, where the
 * splitter cuts anyway. What the parts add: text of users stays text, and the ids before the document do not depend on it. */
#include "model/chat.h"

#include <assert.h>

#define XHIGH                                                                                                                    \
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key assumptions, consider "             \
    "plausible alternatives, and prioritize correctness, consistency, and clarity in the final answer."
#define LOW                                                                                                                      \
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the conclusion without "           \
    "unnecessary elaboration."

struct prompt {
    struct text text;
    struct part {
        size_t end; /* in text; it begins where the one before ends */
        enum tokenize_mode mode;
    } part[8];
    size_t n_parts;
    size_t n_fixed; /* parts before the document */
};

static status add_part(struct prompt *p, enum tokenize_mode mode, struct err *e, size_t n, const struct str *piece)
{
    for (size_t i = 0; i < n; i++)
        TRY(text_add(&p->text, piece[i].p, piece[i].n, e));
    assert(p->n_parts < COUNT_OF(p->part));
    p->part[p->n_parts++] = (struct part){ p->text.n, mode };
    return OK;
}
/* Appends one part made of the given pieces. */
#define ADD(p, mode, e, ...)                                                                                                     \
    TRY(add_part(p, mode, e, COUNT_OF(((const struct str[]){ __VA_ARGS__ })), (const struct str[]){ __VA_ARGS__ }))

/* What the user message (or the raw prompt) consists of: instruction, blank line, document; white space at its ends dropped. */
static status add_user(struct prompt *p, const struct chat *c, enum tokenize_mode mode, struct err *e)
{
    struct str instruction = c->instruction, document = utf8_trim(c->document), all = utf8_trim(instruction);
    if (all.n && document.n) { /* trimmed as one message: only the start of the instruction is an end of it */
        instruction.n -= (size_t)(all.p - instruction.p);
        instruction.p = all.p;
        ADD(p, mode, e, instruction, STR("\n\n"));
    } else if (all.n) {
        ADD(p, mode, e, all);
    }
    p->n_fixed = p->n_parts;
    ADD(p, mode, e, document);
    return OK;
}

static status build(struct prompt *p, const struct chat *c, struct err *e)
{
    if (c->raw)
        return add_user(p, c, c->parse_special ? TOKENIZE_SPECIAL : TOKENIZE_TEXT, e);

    struct str system = utf8_trim(c->system), effort = STR("");
    if (c->reasoning && c->effort == EFFORT_XHIGH)
        effort = STR(XHIGH);
    if (c->reasoning && c->effort == EFFORT_LOW)
        effort = STR(LOW);
    if (effort.n || system.n) {
        ADD(p, TOKENIZE_SPECIAL, e, STR("<|im_start|>system\n"), effort, effort.n && system.n ? STR("\n\n") : STR(""));
        ADD(p, TOKENIZE_TEXT, e, system);
        ADD(p, TOKENIZE_SPECIAL, e, STR("<|im_end|>\n"));
    }
    ADD(p, TOKENIZE_SPECIAL, e, STR("<|im_start|>user\n"));
    TRY(add_user(p, c, TOKENIZE_TEXT, e));
    ADD(p, TOKENIZE_SPECIAL, e, STR("<|im_end|>\n<|im_start|>assistant\n<think>\n"),
        c->reasoning ? STR("") : STR("\n</think>\n\n"));
    return OK;
}

status chat_text(const struct chat *c, struct text *out, struct err *e)
{
    struct prompt p = { 0 };
    status s = build(&p, c, e);
    if (s == OK)
        s = text_add(out, p.text.p, p.text.n, e);
    text_free(&p.text);
    return s;
}

status chat_tokenize(tokenizer *t, const struct chat *c, struct ids *out, size_t *n_prefix, struct err *e)
{
    static const char *const needed[] = { "<|im_start|>", "<|im_end|>" };
    for (size_t i = 0; i < COUNT_OF(needed) && !c->raw; i++)
        if (tokenizer_special(t, needed[i]) < 0)
            return fail(e, ERR_UNSUPPORTED,
                        "%s: the vocabulary has no token %s, which the chat template needs (--raw works without)",
                        tokenizer_name(t), needed[i]);

    struct prompt p = { 0 };
    status s = OK;
    size_t n_before = out->n, from = 0;
    TRY_OR(out, s, build(&p, c, e));
    for (size_t i = 0; i < p.n_parts; from = p.part[i++].end) {
        if (i == p.n_fixed && n_prefix)
            *n_prefix = out->n - n_before;
        TRY_OR(out, s, tokenize(t, p.text.p + from, p.part[i].end - from, p.part[i].mode, out, e));
    }
out:
    text_free(&p.text);
    return s;
}
