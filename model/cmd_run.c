/* cmd_run.c - one answer per input.
 *
 * All inputs are read, checked and tokenised first; then one session, sized for the largest, answers them in turn. An input that fails
 * prints nothing on stdout and does not stop the others; the exit code is that of the worst. */
#include "model/document.h"
#include "model/encoding.h"
#include "model/long_input.h"
#include "model/options.h"
#include "model/prefix.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEMO_INSTRUCTION "Summarize this manual page in one line."
#define DEFAULT_INSTRUCTION "Summarize the following document in one paragraph."
#define END_OF_THOUGHT "</think>"

enum ending { STOP_END, STOP_LENGTH, STOP_CONTEXT, STOP_INTERRUPTED };
static const char *const ending_name[] = { "end", "length", "context", "interrupted" };

struct input {
    const char *path;
    struct text bytes;
    struct chat chat;   /* points into bytes */
    struct ids prompt;
    size_t n_prefix;    /* ids before the document: a segment of their own */
    struct long_input fit; /* --long: how the document was made to fit */
    bool ready;
};

struct answer {
    struct text all;       /* everything the model wrote */
    size_t thought_end;    /* the answer begins here; SIZE_MAX while the model is thinking */
    size_t shown;          /* bytes of the answer already on stdout */
    size_t thought_shown;  /* bytes of thought already on stderr */
    size_t n_generated;
    double prefill_s, decode_s;
    enum ending ending;
};

struct run {
    const struct options *o;
    struct input *in;      /* [o->n_files] */
    model *m;
    session *s;
    struct prefix prefix;
    sampler *sampler;
    struct ids banned;     /* --ignore-eos: the stop ids */
    size_t n_answers;      /* printed so far */
    int code;
};

/* Interruption, then failure, then misuse, then a cut answer. */
static void worsen(int *code, int with)
{
    static const int order[] = { EXIT_DONE, EXIT_CUT, EXIT_MISUSE, EXIT_FAILED, EXIT_SIGINT, EXIT_SIGTERM };
    size_t a = 0, b = 0;
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        a = order[i] == *code ? i : a;
        b = order[i] == with ? i : b;
    }
    *code = order[MAX(a, b)];
}

static bool interrupted(struct run *r)
{
    if (*r->o->stop)
        worsen(&r->code, 128 + *r->o->stop);
    return *r->o->stop;
}

static void failed(struct run *r, const struct err *e)
{
    console_error(r->o->con, "%s", e->msg);
    worsen(&r->code, exit_code_of(e->code));
}

/* ---- inputs ---- */

static struct str text_of(const char *z) { return z ? (struct str){ z, strlen(z) } : STR(""); }

static status read_input(const struct options *o, struct input *in, struct err *e)
{
    struct str document;
    const char *read_as;
    TRY(document_read(in->path, o->stop, &in->bytes, e));
    TRY(document_check(in->path, o->encoding, &in->bytes, &document, &read_as, e));
    if (read_as)
        console_note(o->con, "hayate: %s: read as %s", document_name(in->path), read_as);
    const char *fallback = o->raw ? NULL : o->model_path ? DEFAULT_INSTRUCTION : DEMO_INSTRUCTION;
    in->chat = (struct chat){
        .system = text_of(o->system), .instruction = text_of(o->instruction ? o->instruction : fallback), .document = document,
        .reasoning = o->reasoning, .effort = o->effort, .raw = o->raw, .parse_special = o->parse_special,
    };
    in->ready = true;
    return OK;
}

/* Text given on the command line is checked like a document. */
static status check_argument(const char *name, const char *text, struct err *e)
{
    size_t n = text ? strlen(text) : 0, bad = n ? utf8_invalid_at(text, n) : 0;
    return bad < n ? fail(e, ERR_USAGE, "%s: not UTF-8 at byte %zu", name, bad) : OK;
}

/* How many inputs are ready to be answered. */
static size_t read_inputs(struct run *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->o->n_files; i++) {
        struct err e;
        struct input *in = &r->in[i];
        in->path = r->o->files[i];
        status s = read_input(r->o, in, &e);
        if (interrupted(r))
            return 0;
        if (s != OK)
            failed(r, &e);
        n += s == OK;
    }
    return n;
}

#define PROMPT_OF(in) ((struct long_prompt){ (in)->path, &(in)->chat, &(in)->prompt, &(in)->n_prefix })

/* Tokenises what is ready, refuses what does not fit, and finds the context that all the others need. */
static size_t tokenize_inputs(struct run *r, size_t *n_ctx)
{
    const struct options *o = r->o;
    size_t n = 0, trained = model_shape(r->m)->ctx_train;
    *n_ctx = 0;
    for (size_t i = 0; i < o->n_files; i++) {
        struct err e;
        struct input *in = &r->in[i];
        size_t needed;
        if (!in->ready)
            continue;
        status s = chat_tokenize(model_tokenizer(r->m), &in->chat, &in->prompt, &in->n_prefix, &e);
        if (s == OK)
            s = long_input_fit(&in->fit, o, r->m, &PROMPT_OF(in), &needed, &e);
        if (s != OK) {
            failed(r, &e);
            in->ready = false;
            continue;
        }
        *n_ctx = MAX(*n_ctx, needed);
        n++;
    }
    if (n && o->n_ctx > trained)
        console_note(o->con, "hayate: -c %zu is more than the model was trained for (%zu)", o->n_ctx, trained);
    return n;
}

/* ---- one answer ---- */

/* The answer so far, without white space at its end (and, after thoughts, at its start). */
static struct str answer_text(const struct answer *a)
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

/* A header like head(1) when there is more than one input. */
static status show_header(struct run *r, const char *path, struct err *e)
{
    struct text t = { 0 };
    const char *name = document_name(path);
    status s = OK;
    if (r->o->n_files > 1) {
        const char *piece[] = { r->n_answers ? "\n==> " : "==> ", name, " <==\n" };
        for (size_t i = 0; i < COUNT_OF(piece) && s == OK; i++)
            s = text_add(&t, piece[i], strlen(piece[i]), e);
        if (s == OK)
            s = console_write(t.p, t.n, e);
    }
    text_free(&t);
    return s;
}

/* Follows the end of the thoughts, shows them on stderr, and on a terminal shows the answer as it grows. */
static status show_progress(struct run *r, struct answer *a, bool stream, const char *path, struct err *e)
{
    const struct options *o = r->o;
    if (a->thought_end == SIZE_MAX) {
        size_t from = a->thought_shown, end = a->all.n;
        /* the mark may have begun in what was already looked at */
        size_t look = from > strlen(END_OF_THOUGHT) ? from - strlen(END_OF_THOUGHT) : 0;
        char *mark = a->all.n ? strstr(a->all.p + look, END_OF_THOUGHT) : NULL;
        if (mark) {
            end = (size_t)(mark - a->all.p);
            a->thought_end = end + strlen(END_OF_THOUGHT);
        }
        if (!o->quiet && end > from) {
            fprintf(stderr, "%s%.*s%s", o->con->err_tty ? "\033[2m" : "", (int)(end - from), a->all.p + from, o->con->err_tty ? "\033[0m" : "");
            fflush(stderr);
        }
        if (!o->quiet && mark && end > 0)
            fputc('\n', stderr);
        a->thought_shown = MAX(end, from);
    }
    struct str t = answer_text(a);
    if (!stream || t.n <= a->shown)
        return OK;
    if (a->shown == 0) {
        console_progress_end(o->con);
        TRY(show_header(r, path, e));
    }
    TRY(console_write(t.p + a->shown, t.n - a->shown, e));
    a->shown = t.n;
    return OK;
}

/* Prompt through prefill, one ubatch at a time, so that the bar moves and an interruption is seen. */
struct prefilling {
    struct run *r;
    size_t n;
    double t0;
};

static bool prefill_on(void *ctx, size_t n_done)
{
    struct prefilling *p = ctx;
    if (n_done)
        console_progress(p->r->o->con, "prefill", n_done, p->n, console_now() - p->t0);
    return !interrupted(p->r);
}

static status prefill(struct run *r, const struct input *in, struct answer *a, struct err *e)
{
    const struct options *o = r->o;
    size_t n = in->prompt.n, step = size_up(o->n_ubatch ? o->n_ubatch : 512, 64);
    double t0 = console_now();
    struct prefilling p = { r, n, t0 };
    r->prefix.go_on = prefill_on;
    r->prefix.ctx = &p;
    r->prefix.step = step;
    TRY(prefix_begin(&r->prefix, r->s, in->prompt.v, in->n_prefix, NULL, e));
    for (size_t at = in->n_prefix; at < n && !interrupted(r); at += MIN(step, n - at)) {
        TRY(session_prefill(r->s, in->prompt.v + at, MIN(step, n - at), NULL, NULL, e));
        console_progress(o->con, "prefill", MIN(at + step, n), n, console_now() - t0);
    }
    if (!interrupted(r))
        TRY(session_flush(r->s, NULL, NULL, e));
    a->prefill_s = console_now() - t0;
    console_progress_end(o->con);
    return OK;
}

static status generate(struct run *r, const struct input *in, struct answer *a, struct err *e)
{
    const struct options *o = r->o;
    tokenizer *tok = model_tokenizer(r->m);
    struct detok d = { 0 };
    bool stream = o->con->out_tty && !o->json;
    sampler_reset(r->sampler);
    for (size_t i = in->prompt.n > SAMPLE_WINDOW ? in->prompt.n - SAMPLE_WINDOW : 0; i < in->prompt.n; i++)
        sampler_accept(r->sampler, in->prompt.v[i]);
    a->ending = STOP_INTERRUPTED;
    a->thought_end = o->reasoning ? SIZE_MAX : 0;
    TRY(prefill(r, in, a, e));

    double t0 = console_now();
    while (!interrupted(r)) {
        int32_t id = sampler_choose(r->sampler, session_logits(r->s), r->banned.v, r->banned.n);
        if (!isfinite(session_logits(r->s)[id]))
            return fail(e, ERR_FORMAT, "%s: the model computed %g as its best logit, expected a number; is a weight damaged?",
                        gguf_name(model_gguf(r->m)), (double)session_logits(r->s)[id]);
        if (tokenizer_is_stop(tok, id) && !o->ignore_eos) {
            a->ending = STOP_END;
            break;
        }
        a->n_generated++;
        sampler_accept(r->sampler, id);
        TRY(detok_push(tok, &d, id, &a->all, e));
        TRY(show_progress(r, a, stream, in->path, e));
        if (!stream && (o->quiet || a->thought_end != SIZE_MAX))
            console_progress(o->con, "decode", a->n_generated, 0, console_now() - t0);
        if (a->n_generated >= o->n_predict) {
            a->ending = STOP_LENGTH;
            break;
        }
        if (session_n_past(r->s) >= session_n_ctx(r->s)) {
            a->ending = STOP_CONTEXT;
            break;
        }
        TRY(session_decode(r->s, id, e));
    }
    a->decode_s = console_now() - t0;
    TRY(detok_end(&d, &a->all, e));
    TRY(show_progress(r, a, stream, in->path, e));
    if (!o->quiet && a->thought_end == SIZE_MAX && a->thought_shown)
        fputc('\n', stderr);
    console_progress_end(o->con);
    return OK;
}

/* --long split: one part, answered in silence. */
struct part_of {
    struct run *r;
    const struct input *whole;
};
static status answer_part(void *ctx, struct str document, size_t n_predict, struct long_reply *reply, struct err *e)
{
    struct run *r = ((struct part_of *)ctx)->r;
    struct input in = { .path = ((struct part_of *)ctx)->whole->path, .chat = ((struct part_of *)ctx)->whole->chat };
    const struct options *kept = r->o;
    struct options o = *kept;
    struct answer a = { 0 };
    in.chat.document = document;
    o.n_predict = (uint32_t)n_predict;
    o.json = true; /* nothing is streamed */
    r->o = &o;
    status s = chat_tokenize(model_tokenizer(r->m), &in.chat, &in.prompt, &in.n_prefix, e);
    if (s == OK)
        s = generate(r, &in, &a, e);
    r->o = kept;
    struct str t = answer_text(&a);
    if (s == OK)
        s = text_add(&reply->text, t.p, t.n, e);
    reply->n_generated = a.n_generated;
    reply->stopped = a.ending == STOP_INTERRUPTED;
    text_free(&a.all);
    ids_free(&in.prompt);
    return s;
}

/* The answer to an input, after those to its parts when it has some. */
static status answer_whole(struct run *r, struct input *in, struct answer *a, struct err *e)
{
    bool stopped = false;
    if (long_input_is_split(&in->fit))
        TRY(long_input_reduce(&in->fit, r->o, r->m, &PROMPT_OF(in), answer_part, &(struct part_of){ r, in }, &stopped, e));
    a->ending = STOP_INTERRUPTED;
    return stopped ? OK : generate(r, in, a, e);
}

/* ---- what is printed when an answer is complete ---- */

/* A JSON string of any bytes; what is not UTF-8 (a file name) becomes U+FFFD. */
static json_t *json_of(const char *p, size_t n)
{
    struct text t = { 0 };
    json_t *j = NULL;
    if (utf8_repair(p, n, &t, NULL) == OK)
        j = json_stringn(t.p ? t.p : "", t.n);
    text_free(&t);
    return j;
}

static status print_json(struct run *r, const struct input *in, const struct answer *a, struct err *e)
{
    const struct options *o = r->o;
    struct str t = answer_text(a);
    const char *name = gguf_name(model_gguf(r->m));
    json_t *j = json_object();
    json_object_set_new(j, "path", json_of(in->path, strlen(in->path)));
    json_object_set_new(j, "text", json_of(t.p, t.n));
    if (o->reasoning)
        json_object_set_new(j, "reasoning", json_of(a->all.p ? a->all.p : "", a->thought_shown));
    json_object_set_new(j, "prompt_tokens", json_integer((json_int_t)in->prompt.n));
    json_object_set_new(j, "generated_tokens", json_integer((json_int_t)a->n_generated));
    long_input_json(&in->fit, j);
    json_object_set_new(j, "prefill_s", json_real(a->prefill_s));
    json_object_set_new(j, "decode_s", json_real(a->decode_s));
    json_object_set_new(j, "stop", json_string(ending_name[a->ending]));
    json_object_set_new(j, "model", json_of(name, strlen(name)));
    if (o->sample.seed <= INT64_MAX)
        json_object_set_new(j, "seed", json_integer((json_int_t)o->sample.seed));
    else
        json_object_set_new(j, "seed", json_sprintf("%llu", (unsigned long long)o->sample.seed));
    char *line = json_dumps(j, JSON_COMPACT);
    status s = line ? console_write(line, strlen(line), e) : fail(e, ERR_NOMEM, "%s: JSON", in->path);
    if (s == OK)
        s = console_write("\n", 1, e);
    free(line);
    json_decref(j);
    return s;
}

static status print_answer(struct run *r, const struct input *in, const struct answer *a, struct err *e)
{
    if (a->ending == STOP_INTERRUPTED && a->n_generated == 0) /* nothing was begun */
        return OK;
    if (r->o->json)
        return print_json(r, in, a, e);
    struct str t = answer_text(a);
    if (a->shown == 0)
        TRY(show_header(r, in->path, e));
    TRY(console_write(t.p + a->shown, t.n - a->shown, e));
    TRY(console_write("\n", 1, e));
    r->n_answers++;
    return OK;
}

static double rate(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void print_timing(struct run *r, const struct input *in, const struct answer *a)
{
    const struct options *o = r->o;
    bool named = o->n_files > 1;
    if (a->ending == STOP_LENGTH || a->ending == STOP_CONTEXT)
        console_note(o->con, "hayate: %s: answer cut by %s after %zu tokens", document_name(in->path), a->ending == STOP_LENGTH ? "-n" : "the context",
                     a->n_generated);
    console_note(o->con, "%s%sprefill %zu tok, %.1f tok/s · decode %zu tok, %.1f tok/s", named ? document_name(in->path) : "", named ? ": " : "",
                 in->prompt.n, rate(in->prompt.n, a->prefill_s), a->n_generated, rate(a->n_generated, a->decode_s));
}

/* False when going on makes no sense: stdout is gone. */
static bool answer_one(struct run *r, struct input *in)
{
    struct err e;
    struct answer a = { 0 };
    status s = answer_whole(r, in, &a, &e);
    if (s == OK)
        s = print_answer(r, in, &a, &e);
    console_progress_end(r->o->con);
    if (s != OK) {
        failed(r, &e);
    } else {
        if (a.ending == STOP_LENGTH || a.ending == STOP_CONTEXT)
            worsen(&r->code, EXIT_CUT);
        if (a.ending != STOP_INTERRUPTED || a.n_generated)
            print_timing(r, in, &a);
    }
    text_free(&a.all);
    return s != ERR_IO;
}

/* ---- the command ---- */

static status print_prompts(struct run *r, struct err *e)
{
    for (size_t i = 0; i < r->o->n_files; i++) {
        struct text t = { 0 };
        if (!r->in[i].ready)
            continue;
        status s = show_header(r, r->in[i].path, e);
        if (s == OK)
            s = chat_text(&r->in[i].chat, &t, e);
        if (s == OK)
            s = console_write(t.p, t.n, e);
        text_free(&t);
        TRY(s);
        r->n_answers++;
    }
    return OK;
}

static void say_more(struct run *r, const struct session_params *p)
{
    struct plan plan = { 0 };
    struct console *con = r->o->con;
    session_plan(r->m, p, &plan);
    console_note(con, "%s: %u threads, %s, context %zu", gguf_name(model_gguf(r->m)), model_threads(r->m), model_isa(r->m), p->n_ctx);
    for (size_t i = 0; i < plan.n; i++)
        console_note(con, "  %-24s %14zu bytes  %s", plan.line[i].name, plan.line[i].bytes, plan.line[i].note);
    console_note(con, "  %-24s %14zu bytes", "total", plan_total(&plan));
}

static status run_all(struct run *r, struct err *e)
{
    const struct options *o = r->o;
    TRY(check_argument("-p", o->instruction, e));
    TRY(check_argument("--system", o->system, e));
    TRY(encoding_check_name(o->encoding, e));
    size_t n_ctx;
    if (!read_inputs(r))
        return OK;
    if (o->print_prompt)
        return print_prompts(r, e);
    TRY(model_open(&r->m, o->model_path, &(struct model_params){ .n_threads = o->n_threads }, e));
    if (model_is_demo(r->m))
        console_note(o->con, DEMO_NOTE);
    if (*model_note(r->m))
        console_note(o->con, "hayate: %s", model_note(r->m));
    if (!tokenize_inputs(r, &n_ctx))
        return OK;
    struct session_params p = { .n_ctx = n_ctx, .n_ubatch = o->n_ubatch, .kv = o->kv, .precise = o->precise };
    if (o->verbose)
        say_more(r, &p);
    TRY(session_open(&r->s, r->m, &p, o->mem_limit, e));
    size_t n_vocab = model_shape(r->m)->n_vocab;
    TRY(sampler_open(&r->sampler, n_vocab, &o->sample, e));
    for (size_t id = 0; o->ignore_eos && id < n_vocab; id++)
        if (tokenizer_is_stop(model_tokenizer(r->m), (int32_t)id))
            TRY(ids_push(&r->banned, (int32_t)id, e));
    for (size_t i = 0; i < o->n_files && !interrupted(r); i++)
        if (r->in[i].ready && !answer_one(r, &r->in[i]))
            return OK;
    return OK;
}

int cmd_run(const struct options *o)
{
    struct err e;
    struct run r = { .o = o, .in = calloc(o->n_files, sizeof *r.in) };
    status s = r.in ? run_all(&r, &e) : fail(&e, ERR_NOMEM, "inputs");
    if (s != OK)
        failed(&r, &e);
    sampler_close(r.sampler);
    prefix_close(&r.prefix);
    session_close(r.s);
    model_close(r.m);
    ids_free(&r.banned);
    for (size_t i = 0; r.in && i < o->n_files; i++) {
        text_free(&r.in[i].bytes);
        ids_free(&r.in[i].prompt);
        long_input_free(&r.in[i].fit);
    }
    free(r.in);
    return r.code;
}
