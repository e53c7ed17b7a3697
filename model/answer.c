/* answer.c - from a path to an answer. */
#include "model/answer.h"

#include "model/document.h"
#include "model/encoding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define DEMO_INSTRUCTION "Summarize this manual page in one line."
#define DEFAULT_INSTRUCTION "Summarize the following document in one paragraph."
#define END_OF_THOUGHT "</think>"

const char *ending_name(enum ending x)
{
    static const char *const name[] = { "end", "length", "context", "interrupted" };
    return name[x];
}

/* ---- inputs ---- */

static struct str text_of(const char *z) { return z ? (struct str){ z, strlen(z) } : STR(""); }

static status check_argument(const char *name, const char *text, struct err *e)
{
    size_t n = text ? strlen(text) : 0, bad = n ? utf8_invalid_at(text, n) : 0;
    return bad < n ? fail(e, ERR_USAGE, "%s: not UTF-8 at byte %zu", name, bad) : OK;
}

status input_check_options(const struct options *o, struct err *e)
{
    TRY(check_argument("-p", o->instruction, e));
    TRY(check_argument("--system", o->system, e));
    return encoding_check_name(o->encoding, e);
}

struct str input_instruction(const struct options *o)
{
    const char *fallback = o->raw ? NULL : o->model_path ? DEFAULT_INSTRUCTION : DEMO_INSTRUCTION;
    return text_of(o->instruction ? o->instruction : fallback);
}

status input_read(const struct options *o, struct input *in, struct err *e)
{
    TRY(document_read(in->path, o->stop, &in->bytes, e));
    in->hash = XXH3_64bits(in->bytes.p, in->bytes.n);
    return OK;
}

status input_check(const struct options *o, struct input *in, struct err *e)
{
    struct str document;
    TRY(document_check(in->path, o->encoding, &in->bytes, &document, &in->read_as, e));
    in->chat = (struct chat){
        .system = text_of(o->system), .instruction = input_instruction(o), .document = document,
        .reasoning = o->reasoning, .effort = o->effort, .raw = o->raw, .parse_special = o->parse_special,
    };
    return OK;
}

status input_tokenize(const struct options *o, model *m, struct input *in, size_t *n_ctx, struct err *e)
{
    struct long_prompt p = { in->path, &in->chat, &in->prompt, &in->n_prefix };
    TRY(chat_tokenize(model_tokenizer(m), &in->chat, &in->prompt, &in->n_prefix, e));
    return long_input_fit(&in->fit, o, m, &p, n_ctx, e);
}

void input_say(const struct options *o, const struct input *in)
{
    if (in->read_as)
        console_note(o->con, "hayate: %s: read as %s", document_name(in->path), in->read_as);
}

void input_free(struct input *in)
{
    text_free(&in->bytes);
    ids_free(&in->prompt);
    long_input_free(&in->fit);
}

/* ---- answers ---- */

struct str answer_text(const struct answer *a)
{
    if (a->thought_end == SIZE_MAX)
        return STR("");
    struct str t = { a->all.p + a->thought_end, a->all.n - a->thought_end };
    if (!t.n)
        return STR("");
    struct str trimmed = utf8_trim(t);
    if (a->thought_end > 0)
        return trimmed;
    return (struct str){ t.p, trimmed.n ? (size_t)(trimmed.p + trimmed.n - t.p) : 0 };
}

void answer_free(struct answer *a) { text_free(&a->all); }

json_t *json_of(const char *p, size_t n)
{
    struct text t = { 0 };
    json_t *j = NULL;
    if (utf8_repair(p, n, &t, NULL) == OK)
        j = json_stringn(t.p ? t.p : "", t.n);
    text_free(&t);
    return j;
}

json_t *answer_json(const struct options *o, const model *m, const struct input *in, const struct answer *a)
{
    struct str t = answer_text(a);
    const char *name = gguf_name(model_gguf(m));
    json_t *j = json_object();
    json_object_set_new(j, "path", json_of(in->path, strlen(in->path)));
    json_object_set_new(j, "text", json_of(t.p, t.n));
    if (o->reasoning)
        json_object_set_new(j, "reasoning", json_of(a->all.p ? a->all.p : "", a->n_thought));
    json_object_set_new(j, "prompt_tokens", json_integer((json_int_t)in->prompt.n));
    json_object_set_new(j, "reused_tokens", json_integer((json_int_t)a->n_reused));
    json_object_set_new(j, "generated_tokens", json_integer((json_int_t)a->n_generated));
    long_input_json(&in->fit, j);
    json_object_set_new(j, "prefill_s", json_real(a->prefill_s));
    json_object_set_new(j, "decode_s", json_real(a->decode_s));
    if (o->draft != DRAFT_OFF)
        json_object_set_new(j, "draft", drafts_json(&a->drafts));
    json_object_set_new(j, "stop", json_string(ending_name(a->ending)));
    json_object_set_new(j, "model", json_of(name, strlen(name)));
    if (o->sample.seed <= INT64_MAX)
        json_object_set_new(j, "seed", json_integer((json_int_t)o->sample.seed));
    else
        json_object_set_new(j, "seed", json_sprintf("%llu", (unsigned long long)o->sample.seed));
    return j;
}

json_t *drafts_json(const struct draft_stats *t)
{
    json_t *j = json_pack("{s:I,s:I,s:I,s:I,s:I}", "passes", (json_int_t)t->passes, "rounds", (json_int_t)t->rounds, "tokens", (json_int_t)t->tokens,
                          "drafted", (json_int_t)t->drafted, "accepted", (json_int_t)t->accepted);
    json_t *drafted = json_array(), *accepted = json_array();
    for (size_t i = 0; i < DRAFT_MAX; i++) {
        json_array_append_new(drafted, json_integer((json_int_t)t->drafted_at[i]));
        json_array_append_new(accepted, json_integer((json_int_t)t->accepted_at[i]));
    }
    json_object_set_new(j, "chained", json_integer((json_int_t)t->chained));
    json_object_set_new(j, "head_drafted", json_integer((json_int_t)t->head_drafted));
    json_object_set_new(j, "head_accepted", json_integer((json_int_t)t->head_accepted));
    json_object_set_new(j, "drafted_at", drafted);
    json_object_set_new(j, "accepted_at", accepted);
    return j;
}

const char *drafts_text(const struct draft_stats *t, char *out, size_t cap)
{
    *out = 0;
    if (t->drafted)
        snprintf(out, cap, " · draft acceptance %.0f %% (%llu of %llu), %.2f tok a pass", 100 * (double)t->accepted / (double)t->drafted,
                 (unsigned long long)t->accepted, (unsigned long long)t->drafted, (double)t->tokens / (double)t->passes);
    return out;
}

/* Looks for the end of the thoughts in what came since the last call. */
static void follow_thoughts(struct answer *a)
{
    if (a->thought_end != SIZE_MAX)
        return;
    /* the mark may have begun in what was already looked at */
    size_t from = a->n_thought, look = from > strlen(END_OF_THOUGHT) ? from - strlen(END_OF_THOUGHT) : 0, end = a->all.n;
    const char *mark = a->all.n ? strstr(a->all.p + look, END_OF_THOUGHT) : NULL;
    if (mark) {
        end = (size_t)(mark - a->all.p);
        a->thought_end = end + strlen(END_OF_THOUGHT);
    }
    a->n_thought = MAX(end, from);
}

struct prefilling {
    const struct engine *en;
    const struct watch *w;
    size_t n;
    double t0;
};
static bool prefill_on(void *ctx, size_t n_done)
{
    struct prefilling *p = ctx;
    if (n_done && p->w->prefill)
        p->w->prefill(p->w->ctx, n_done, p->n, 0, console_now() - p->t0);
    return !*p->en->o->stop;
}

/* --load-state: the position after the prompt as a file has it */
static status load_state(struct engine *en, const struct ids *prompt, struct err *e)
{
    const char *path = en->o->load_state;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail(e, ERR_IO, "%s: %s", path, strerror(errno));
    status st = state_file_load(&en->states, fd, en->s, prompt->v, prompt->n, e);
    close(fd);
    return st == OK ? OK : fail_in(e, path);
}

/* --save-state. What fails does not cost the answer. */
static void save_state(struct engine *en, const struct ids *prompt)
{
    const char *path = en->o->save_state;
    char prefix[PATH_MAX], temporary[PATH_MAX + 48];
    snprintf(prefix, sizeof prefix, "%s.tmp-", path);
    state_file_temporary(temporary, sizeof temporary, prefix);
    if (state_file_save(&en->states, AT_FDCWD, path, temporary, en->s, prompt->v, prompt->n, &en->unsaved) != OK)
        fail_in(&en->unsaved, path);
}

void engine_begin(struct engine *en, const struct input *in, const struct watch *w, struct answer *a)
{
    en->going = (struct going){ .in = in, .w = w, .a = a };
    en->unsaved.code = OK;
    sampler_reset(en->sampler);
    for (size_t i = in->prompt.n > SAMPLE_WINDOW ? in->prompt.n - SAMPLE_WINDOW : 0; i < in->prompt.n; i++)
        sampler_accept(en->sampler, in->prompt.v[i]);
    a->ending = STOP_INTERRUPTED;
    a->thought_end = en->o->reasoning ? SIZE_MAX : 0;
}

static status begin_prompt(struct engine *en, double t0, struct err *e)
{
    struct going *g = &en->going;
    struct prefilling p = { en, g->w, g->in->prompt.n, t0 };
    size_t n_evaluated = 0;
    if (en->o->load_state) {
        TRY(load_state(en, &g->in->prompt, e));
        g->a->n_reused = g->at = g->in->prompt.n;
        g->begun = true;
        return OK;
    }
    en->prefix.go_on = prefill_on;
    en->prefix.ctx = &p;
    en->prefix.step = session_n_ubatch(en->s);
    TRY(prefix_begin(&en->prefix, en->s, g->in->prompt.v, g->in->n_prefix, &n_evaluated, e));
    en->prefix.ctx = NULL; /* p ends here */
    g->a->n_reused = g->in->n_prefix - n_evaluated;
    g->at = g->in->n_prefix;
    g->begun = true;
    return OK;
}

/* One ubatch at a time, so that the bar moves and an interruption is seen. */
status engine_prompt(struct engine *en, bool *more, struct err *e)
{
    struct going *g = &en->going;
    size_t n = g->in->prompt.n, step = session_n_ubatch(en->s);
    double t0 = console_now() - g->a->prefill_s;
    if (!g->begun) {
        TRY(begin_prompt(en, t0, e));
        t0 += en->prefix.saving_s; /* not a part of evaluating */
    }
    if (g->at < n && !*en->o->stop) {
        TRY(session_prefill(en->s, g->in->prompt.v + g->at, MIN(step, n - g->at), NULL, NULL, e));
        g->at += MIN(step, n - g->at);
        if (g->w->prefill)
            g->w->prefill(g->w->ctx, g->at, n, g->a->n_reused, console_now() - t0);
    }
    *more = g->at < n || *en->o->stop;
    if (!*more)
        TRY(session_flush(en->s, NULL, NULL, e));
    g->a->prefill_s = console_now() - t0;
    if (!*more && en->o->save_state)
        save_state(en, &g->in->prompt);
    return OK;
}

/* The next id, by what the last position left: all logits, or the largest of them */
static struct candidate choose(struct engine *en)
{
    size_t n;
    const struct candidate *best = session_best(en->s, &n);
    struct candidate next = { .logit = NAN }; /* when there is no number at all */
    if (en->n_best == 0) {
        next.id = sampler_choose(en->sampler, session_logits(en->s), en->banned.v, en->banned.n);
        next.logit = session_logits(en->s)[next.id];
        return next;
    }
    next.id = sampler_choose_best(en->sampler, best, n, en->banned.v, en->banned.n);
    for (size_t i = 0; i < n; i++)
        if (best[i].id == next.id)
            next.logit = best[i].logit;
    return next;
}

status engine_token(struct engine *en, bool *more, struct err *e)
{
    const struct options *o = en->o;
    struct going *g = &en->going;
    struct answer *a = g->a;
    tokenizer *tok = model_tokenizer(en->m);
    struct candidate next = choose(en);
    int32_t id = next.id;
    *more = false;
    if (!isfinite(next.logit))
        return fail(e, ERR_FORMAT, "%s: the model computed %g as its best logit, expected a number; is a weight damaged?",
                    gguf_name(model_gguf(en->m)), (double)next.logit);
    if (tokenizer_is_stop(tok, id) && !o->ignore_eos) {
        a->ending = STOP_END;
        return OK;
    }
    a->n_generated++;
    sampler_accept(en->sampler, id);
    TRY(detok_push(tok, &g->d, id, &a->all, e));
    follow_thoughts(a);
    if (g->w->token)
        TRY(g->w->token(g->w->ctx, a, a->decode_s, e));
    if (a->n_generated >= o->n_predict)
        a->ending = STOP_LENGTH;
    else if (session_n_past(en->s) >= session_n_ctx(en->s))
        a->ending = STOP_CONTEXT;
    else
        *more = true;
    g->id = id;
    return OK;
}

status engine_end(struct engine *en, struct err *e)
{
    struct going *g = &en->going;
    TRY(detok_end(&g->d, &g->a->all, e));
    follow_thoughts(g->a);
    return g->w->token ? g->w->token(g->w->ctx, g->a, g->a->decode_s, e) : OK;
}

status engine_answer(struct engine *en, const struct input *in, const struct watch *w, struct answer *a, struct err *e)
{
    const struct options *o = en->o;
    bool more = true;
    engine_begin(en, in, w, a);
    while (more && !*o->stop)
        TRY(engine_prompt(en, &more, e));
    speculate_begin(&en->speculator, in->prompt.v, in->prompt.n);

    double t0 = console_now();
    for (more = true; more && !*o->stop; a->decode_s = console_now() - t0) {
        TRY(engine_token(en, &more, e));
        if (more)
            TRY(speculate_next(&en->speculator, en->going.id, o->n_predict - a->n_generated, e));
    }
    speculate_end(&en->speculator);
    a->drafts = en->speculator.stats;
    return engine_end(en, e);
}

/* --long split: one part of the whole, answered in silence. */
struct part_of {
    struct engine *en;
    const struct input *whole;
};
static status answer_part(void *ctx, struct str document, size_t n_predict, struct long_reply *reply, struct err *e)
{
    struct engine *en = ((struct part_of *)ctx)->en;
    const struct input *whole = ((struct part_of *)ctx)->whole;
    const struct options *kept = en->o;
    struct options o = *kept;
    struct input in = { .path = whole->path, .chat = whole->chat };
    struct answer a = { 0 };
    in.chat.document = document;
    o.n_predict = (uint32_t)n_predict;
    en->o = &o;
    status s = chat_tokenize(model_tokenizer(en->m), &in.chat, &in.prompt, &in.n_prefix, e);
    if (s == OK)
        s = engine_answer(en, &in, &(struct watch){ 0 }, &a, e);
    en->o = kept;
    struct str t = answer_text(&a);
    if (s == OK)
        s = text_add(&reply->text, t.p, t.n, e);
    reply->n_generated = a.n_generated;
    reply->stopped = a.ending == STOP_INTERRUPTED;
    answer_free(&a);
    ids_free(&in.prompt);
    return s;
}

status engine_reduce(struct engine *en, struct input *in, bool *stopped, struct err *e)
{
    struct long_prompt p = { in->path, &in->chat, &in->prompt, &in->n_prefix };
    *stopped = false;
    return long_input_is_split(&in->fit) ? long_input_reduce(&in->fit, en->o, en->m, &p, answer_part, &(struct part_of){ en, in }, stopped, e) : OK;
}

status engine_answer_whole(struct engine *en, struct input *in, const struct watch *w, struct answer *a, struct err *e)
{
    bool stopped;
    TRY(engine_reduce(en, in, &stopped, e));
    a->ending = STOP_INTERRUPTED;
    return stopped ? OK : engine_answer(en, in, w, a, e);
}

/* ---- the engine ---- */

void engine_say_model(const struct options *o, const model *m)
{
    if (model_is_demo(m))
        console_note(o->con, DEMO_NOTE);
    if (*model_note(m))
        console_note(o->con, "hayate: %s", model_note(m));
}

void engine_say_plan(const struct options *o, const model *m, size_t n_ctx, uint32_t n_seq)
{
    struct plan plan = { 0 };
    struct session_params p = session_params_of(o, n_ctx);
    p.n_seq = n_seq;
    session_plan(m, &p, &plan);
    console_note(o->con, "%s: %s, %s, context %zu", gguf_name(model_gguf(m)), model_backend(m), model_device(m), n_ctx);
    for (size_t i = 0; i < plan.n; i++)
        console_note(o->con, "  %-24s %14zu bytes  %s", plan.line[i].name, plan.line[i].bytes, plan.line[i].note);
    console_note(o->con, "  %-24s %14zu bytes", "total", plan_total(&plan));
}

/* What every engine has of its own */
static status open_own(struct engine *en, prefix_cache *cache, struct err *e)
{
    const struct options *o = en->o;
    size_t n_vocab = model_shape(en->m)->n_vocab;
    en->prefix.cache = cache;
    TRY(sampler_open(&en->sampler, n_vocab, &o->sample, e));
    for (size_t id = 0; o->ignore_eos && id < n_vocab; id++)
        if (tokenizer_is_stop(model_tokenizer(en->m), (int32_t)id))
            TRY(ids_push(&en->banned, (int32_t)id, e));
    size_t needs = sampler_needs(en->sampler, en->banned.n);
    en->n_best = needs <= SESSION_BEST_MAX ? (uint32_t)needs : 0;
    return OK;
}

status engine_open(struct engine *en, const struct options *o, model *m, prefix_cache *cache, size_t n_ctx, uint32_t n_seq, struct err *e)
{
    struct session_params p = session_params_of(o, n_ctx);
    p.n_seq = n_seq;
    *en = (struct engine){ .o = o, .m = m };
    TRY(session_open(&en->s, m, &p, o->mem_limit, e));
    TRY(speculate_open(&en->speculator, en->s, o->draft, e));
    prefix_cache_bind(cache, m, &p);
    if (o->save_state || o->load_state) {
        TRY(state_files_open(&en->states, e));
        state_files_bind(&en->states, m, &p);
    }
    TRY(open_own(en, cache, e));
    session_want(en->s, en->n_best);
    return OK;
}

status engine_open_guest(struct engine *en, const struct engine *host, uint32_t k, struct err *e)
{
    *en = (struct engine){ .o = host->o, .m = host->m, .s = session_place(host->s, k), .is_guest = true };
    TRY(speculate_open(&en->speculator, en->s, host->o->draft, e));
    return open_own(en, host->prefix.cache, e);
}

void engine_close(struct engine *en)
{
    sampler_close(en->sampler);
    prefix_close(&en->prefix);
    state_files_close(&en->states);
    speculate_close(&en->speculator);
    if (!en->is_guest)
        session_close(en->s);
    ids_free(&en->banned);
    *en = (struct engine){ 0 };
}
