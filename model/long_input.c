/* long_input.c - --long for one input. */
#include "model/long_input.h"

#include "model/document.h"

#include <string.h>

static struct long_tokens tokens_of(const struct options *o, model *m)
{
    return (struct long_tokens){ model_tokenizer(m), o->raw && o->parse_special ? TOKENIZE_SPECIAL : TOKENIZE_TEXT };
}

/* The prompt again, with another document. */
static status prompt_with(model *m, const struct long_prompt *p, struct str document, struct err *e)
{
    p->chat->document = document;
    p->ids->n = 0;
    return chat_tokenize(model_tokenizer(m), p->chat, p->ids, p->n_prefix, e);
}

static status refuse(const struct options *o, const struct long_prompt *p, size_t limit, struct err *e)
{
    return fail(e, ERR_INPUT, "%s: a prompt of %zu tokens, expected at most %zu (%s); -c %zu holds it and an answer of -n %u, --long takes it in parts",
                document_name(p->path), p->ids->n, limit, o->n_ctx ? "-c" : "the context the model was trained for; -c allows more",
                p->ids->n + o->n_predict, o->n_predict);
}

static status head_tail(struct long_input *l, const struct options *o, model *m, const struct long_prompt *p, struct err *e)
{
    struct long_tokens t = tokens_of(o, m);
    char whole[32], head[32], tail[32], out[32];
    TRY(long_head_tail(&(struct long_count){ long_count_tokens, &t }, p->chat->document, l->budget, &l->document, &l->ends, e));
    console_note(o->con, "hayate: %s: %s tokens, %s %zu: the first %s and the last %s, %s left out", document_name(p->path),
                 long_number(whole, l->n_document), o->n_ctx ? "-c" : "context", l->n_ctx, long_number(head, l->ends.n_head),
                 long_number(tail, l->ends.n_tail), long_number(out, l->ends.n_left_out));
    return prompt_with(m, p, (struct str){ l->document.p, l->document.n }, e);
}

status long_input_fit(struct long_input *l, const struct options *o, model *m, const struct long_prompt *p, size_t *n_ctx, struct err *e)
{
    size_t trained = model_shape(m)->ctx_train, limit = o->n_ctx ? o->n_ctx : trained, n = p->ids->n;
    struct long_tokens t = tokens_of(o, m);
    *n_ctx = o->n_ctx ? o->n_ctx : MIN(n + o->n_predict, trained);
    if (o->long_mode == LONG_REFUSE)
        return n <= limit ? OK : refuse(o, p, limit, e);
    if (n <= limit && o->n_predict <= limit - n)
        return OK;
    TRY(long_count_tokens(&t, p->chat->document, &l->n_document, e));
    size_t taken = n - l->n_document + o->n_predict, budget = limit > taken ? limit - taken : 0;
    if (budget < LONG_MIN_BUDGET)
        return fail(e, ERR_INPUT, "%s: %s %zu leaves %zu tokens for the document beside the instruction (%zu) and the answer (-n %u), expected at least %d",
                    document_name(p->path), o->n_ctx ? "-c" : "the context of", limit, budget, n - l->n_document, o->n_predict, LONG_MIN_BUDGET);
    l->mode = o->long_mode;
    l->budget = budget;
    l->n_ctx = *n_ctx = limit;
    return o->long_mode == LONG_HEAD_TAIL ? head_tail(l, o, m, p, e) : OK;
}

static void say(void *ctx, const char *line) { console_note(ctx, "%s", line); }

status long_input_reduce(struct long_input *l, const struct options *o, model *m, const struct long_prompt *p,
                         long_answer_fn answer, void *ctx, bool *stopped, struct err *e)
{
    struct long_tokens t = tokens_of(o, m);
    struct long_job j = {
        .name = document_name(p->path), .count = { long_count_tokens, &t }, .budget = l->budget, .n_ctx = l->n_ctx, .ctx_given = o->n_ctx > 0,
        .n_predict = o->n_predict, .thinks = o->reasoning, .answer = answer, .answer_ctx = ctx, .say = say,
        .say_ctx = o->con,
    };
    double t0 = console_now();
    TRY(long_reduce(&j, p->chat->document, &l->document, &l->parts, stopped, e));
    l->parts_s = console_now() - t0;
    return *stopped ? OK : prompt_with(m, p, (struct str){ l->document.p, l->document.n }, e);
}

void long_input_json(const struct long_input *l, json_t *j)
{
    if (!l->budget)
        return;
    json_object_set_new(j, "long", json_string(l->mode == LONG_SPLIT ? "split" : "head-tail"));
    json_object_set_new(j, "document_tokens", json_integer((json_int_t)l->n_document));
    if (l->mode == LONG_HEAD_TAIL) {
        json_object_set_new(j, "left_out_tokens", json_integer((json_int_t)l->ends.n_left_out));
        return;
    }
    json_t *parts = json_array();
    for (size_t i = 0; i < l->parts.n; i++)
        json_array_append_new(parts, json_pack("{s:I, s:I, s:I}", "level", (json_int_t)l->parts.v[i].level, "tokens",
                                               (json_int_t)l->parts.v[i].n_tokens, "generated_tokens", (json_int_t)l->parts.v[i].n_generated));
    json_object_set_new(j, "parts", parts);
    json_object_set_new(j, "parts_s", json_real(l->parts_s));
}

void long_input_free(struct long_input *l)
{
    long_parts_free(&l->parts);
    text_free(&l->document);
}
