/* cmd_batch.c - answers to many files with one load, each whole or absent, resumable.
 *
 * A first pass reads, hashes and tokenises every input without keeping any: it finds what is answered already, what cannot be answered, the
 * context of the largest prompt (so memory is planned, or refused, before the first answer) and how much there is to do. The second pass
 * reads an input again, answers it and writes. A failing input gets a line and the batch goes on; a full disk ends it. */
#include "model/document.h"
#include "model/jsonl.h"
#include "model/parallel.h"
#include "model/pile.h"
#include "model/store.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct task {
    enum { TO_DO, DONE, SKIPPED, FAILED } state;
    size_t n_prompt;
};

/* An input in work */
struct in_work {
    struct batch *b;
    size_t i;            /* of the pile */
    struct input in;
    struct answer a;
    size_t planned;      /* tokens of its prompt, by the first pass */
    size_t n_tok;        /* evaluated so far, generated ones too */
    double seconds;      /* that took */
};

struct batch {
    const struct options *o;
    struct pile pile;
    struct task *task; /* [pile.n] */
    model *m;
    prefix_cache *cache; /* NULL without --prefix-cache */
    struct parallel parallel;
    store *store;      /* NULL without -o */
    jsonl *jsonl;      /* NULL without --jsonl */
    FILE *report;      /* NULL without --report */
    bool notify;       /* events go to o->notify_fd */
    uint64_t model_hash, options_hash;
    size_t n_ctx, n_prefix;
    size_t n_to_do, n_done, n_skipped, n_failed, n_cut; /* inputs; n_cut are among the done and the skipped */
    size_t left_tok;   /* prompt tokens of the inputs to do */
    size_t n_evaluated, n_reused, n_generated;
    double t0, t_first; /* start of the command, and of the first answer */
    double prefill_s, decode_s; /* of the answers that are done; those that were decoded together count a second each */
    struct draft_stats drafts;
    size_t at;         /* the input that was heard of last */
    size_t next;       /* where the second pass stands */
    struct in_work in_work[SESSION_SEQ_MAX];
};

static size_t n_ended(const struct batch *b) { return b->n_done + b->n_skipped + b->n_failed; }

/* ---- identity ---- */

static uint64_t hash_str(uint64_t h, struct str s)
{
    uint64_t n = s.n;
    h = XXH3_64bits_withSeed(&n, sizeof n, h);
    return XXH3_64bits_withSeed(s.p, s.n, h);
}

/* A hash of all options that an answer depends on. An option of sampling does not count where it has no effect. */
static uint64_t options_identity(const struct options *o)
{
    char text[512];
    const struct sample_params *p = &o->sample;
    bool greedy = p->temp <= 0;
    int n = snprintf(text, sizeof text, "1 long %d raw %d special %d reasoning %d effort %d eos %d n %u ctx %zu kv %d precise %d penalties %a %a %a", (int)o->long_mode, o->raw,
                     o->parse_special, o->reasoning, o->reasoning ? (int)o->effort : 0, o->ignore_eos, o->n_predict, o->n_ctx,
                     o->precise ? 0 : (int)o->kv, o->precise, (double)p->repeat_penalty, (double)p->presence_penalty, (double)p->frequency_penalty);
    if (!greedy)
        n += snprintf(text + n, sizeof text - (size_t)n, " temp %a %d %a %a seed %llu", (double)p->temp, p->top_k, (double)p->top_p, (double)p->min_p,
                      (unsigned long long)p->seed);
    uint64_t h = hash_str(0, (struct str){ text, (size_t)n });
    h = hash_str(h, input_instruction(o));
    h = hash_str(h, o->encoding ? (struct str){ o->encoding, strlen(o->encoding) } : STR(""));
    return hash_str(h, o->system ? (struct str){ o->system, strlen(o->system) } : STR(""));
}

static struct origin origin_of(const struct batch *b, const struct input *in)
{
    return (struct origin){ b->model_hash, b->options_hash, in->hash };
}

/* ---- events for programs ---- */

/* Takes event. A reader that has gone away costs the events, not the batch. */
static void notify(struct batch *b, json_t *event)
{
    char *line = b->notify && event ? json_dumps(event, JSON_COMPACT) : NULL;
    size_t n = line ? strlen(line) : 0, at = 0;
    if (line)
        line[n++] = '\n'; /* in place of the terminator */
    while (at < n && b->notify) {
        ssize_t k = write(b->o->notify_fd, line + at, n - at);
        if (k > 0) {
            at += (size_t)k;
        } else if (errno != EINTR || *b->o->stop) {
            if (errno != EINTR)
                console_note(b->o->con, "hayate: --notify-fd %d: %s; no more events", b->o->notify_fd, strerror(errno));
            b->notify = false;
        }
    }
    free(line);
    json_decref(event);
}

static json_t *input_event(const struct batch *b, const char *what, size_t i)
{
    const struct item *it = &b->pile.v[i];
    json_t *j = json_object();
    json_object_set_new(j, "event", json_string(what));
    json_object_set_new(j, "index", json_integer((json_int_t)i));
    json_object_set_new(j, "path", json_of(it->path, strlen(it->path)));
    return j;
}

static void notify_done(struct batch *b, size_t i, const char *how, const char *message, const struct answer *a)
{
    json_t *j = input_event(b, "done", i);
    json_object_set_new(j, "status", json_string(how));
    if (message)
        json_object_set_new(j, "message", json_of(message, strlen(message)));
    if (a) {
        json_object_set_new(j, "stop", json_string(ending_name(a->ending)));
        json_object_set_new(j, "reused_tokens", json_integer((json_int_t)a->n_reused));
        json_object_set_new(j, "generated_tokens", json_integer((json_int_t)a->n_generated));
        json_object_set_new(j, "prefill_s", json_real(a->prefill_s));
        json_object_set_new(j, "decode_s", json_real(a->decode_s));
    }
    notify(b, j);
}

/* ---- what is said ---- */

static double rate(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static const char *duration(char *buf, size_t cap, double s)
{
    if (s < 100)
        snprintf(buf, cap, "%.0f s", s);
    else if (s < 6000)
        snprintf(buf, cap, "%.0f min", s / 60);
    else
        snprintf(buf, cap, "%.0f h %02d min", (double)(int64_t)(s / 3600), (int)((int64_t)(s / 60) % 60));
    return buf;
}

/* ", 12 min left", from the rates so far; "" before there are any. */
static const char *time_left(const struct batch *b, char *buf, size_t cap)
{
    char t[32];
    buf[0] = 0;
    double speed = rate(b->n_evaluated, b->prefill_s);
    if (b->n_done && speed > 0) {
        size_t saved = b->n_to_do * b->n_prefix, tok = b->left_tok > saved ? b->left_tok - saved : 0;
        double each = b->decode_s / (double)b->n_done / b->parallel.n, spent = 0;
        for (uint32_t k = 0; k < b->parallel.n; k++)
            spent += b->in_work[k].seconds / b->parallel.n;
        double s = (double)tok / speed + each * (double)b->n_to_do - spent;
        snprintf(buf, cap, ", %s left", duration(t, sizeof t, MAX(s, 0)));
    }
    return buf;
}

static void show_status(struct batch *b, const char *what)
{
    enum { WIDTH = 20 };
    char bar[WIDTH + 1] = { 0 }, left[64];
    size_t ended = n_ended(b), n = b->pile.n, n_tok = b->n_evaluated + b->n_generated;
    if (b->o->progress)
        return;
    for (uint32_t k = 0; k < b->parallel.n; k++)
        n_tok += b->in_work[k].n_tok;
    double speed = rate(n_tok, console_now() - b->t_first);
    time_left(b, left, sizeof left);
    memset(bar, '.', WIDTH);
    memset(bar, '#', ended * WIDTH / n);
    if (console_status(b->o->con, "[%s] %zu/%zu files, %.0f tok/s%s: %s %s", bar, ended, n, speed, left, what, b->pile.v[b->at].shown))
        console_note(b->o->con, "%zu/%zu files, %.0f tok/s%s", ended, n, speed, left);
}

static void on_prefill(void *ctx, size_t done, size_t total, size_t n_reused, double seconds)
{
    struct in_work *w = ctx;
    char what[64];
    w->n_tok = done - n_reused;
    w->seconds = seconds;
    w->b->at = w->i;
    snprintf(what, sizeof what, "prefill %zu/%zu", done, total);
    show_status(w->b, what);
}

static status on_token(void *ctx, const struct answer *a, double seconds, struct err *e)
{
    struct in_work *w = ctx;
    char what[64];
    (void)e;
    w->n_tok = w->in.prompt.n - a->n_reused + a->n_generated;
    w->seconds = a->prefill_s + seconds;
    w->b->at = w->i;
    snprintf(what, sizeof what, "decode %zu", a->n_generated);
    show_status(w->b, what);
    return OK;
}

static void say_done(struct batch *b, size_t i, const struct answer *a)
{
    char left[64], drafts[96];
    size_t n = b->task[i].n_prompt;
    console_note(b->o->con, "%zu/%zu %s: prefill %zu tok (%zu reused), %.1f tok/s · decode %zu tok, %.1f tok/s%s%s%s", i + 1, b->pile.n,
                 b->pile.v[i].shown, n, a->n_reused, rate(n - a->n_reused, a->prefill_s), a->n_generated, rate(a->n_generated, a->decode_s),
                 drafts_text(&a->drafts, drafts, sizeof drafts), a->ending == STOP_LENGTH ? ", cut by -n" : a->ending == STOP_CONTEXT ? ", cut by the context" : "",
                 time_left(b, left, sizeof left));
}

static void say_end(struct batch *b)
{
    char t[32], text[256], drafts[96];
    int n = snprintf(text, sizeof text, "%zu of %zu inputs answered", b->n_done + b->n_skipped, b->pile.n);
    if (b->n_skipped)
        n += snprintf(text + n, sizeof text - (size_t)n, " (%zu of them before)", b->n_skipped);
    if (b->n_failed)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %zu failed", b->n_failed);
    if (b->n_cut)
        snprintf(text + n, sizeof text - (size_t)n, ", %zu cut by -n or the context", b->n_cut);
    if (b->n_done == 0)
        console_note(b->o->con, "%s", text);
    else
        console_note(b->o->con, "%s; %s · prefill %zu tok (%zu more reused), %.1f tok/s · decode %zu tok, %.1f tok/s%s", text,
                 duration(t, sizeof t, console_now() - b->t0), b->n_evaluated, b->n_reused, rate(b->n_evaluated, b->prefill_s), b->n_generated,
                 rate(b->n_generated, b->parallel.n > 1 ? b->parallel.decode_s : b->decode_s), drafts_text(&b->drafts, drafts, sizeof drafts));
}

/* ---- one input ends ---- */

/* The message without the path it begins with */
static const char *message_of(const struct item *it, const struct err *e)
{
    size_t n = strlen(it->path);
    return strlen(e->msg) > n + 2 && e->msg[n] == ':' && e->msg[n + 1] == ' ' ? e->msg + n + 2 : e->msg;
}

static status input_failed(struct batch *b, size_t i, const struct err *why, struct err *e)
{
    const struct item *it = &b->pile.v[i];
    const char *message = message_of(it, why);
    b->task[i].state = FAILED;
    b->n_failed++;
    console_error(b->o->con, "%s: %s", it->shown, message);
    if (b->jsonl)
        jsonl_forget(b->jsonl, i);
    notify_done(b, i, "failed", message, NULL);
    if (b->report && (fprintf(b->report, "%s\tfailed\t%s\n", it->shown, message) < 0 || fflush(b->report) != 0))
        return fail(e, ERR_IO, "%s: %s", b->o->report_path, strerror(errno));
    return OK;
}

static void input_skipped(struct batch *b, size_t i, enum ending ending)
{
    b->task[i].state = SKIPPED;
    b->n_skipped++;
    b->n_cut += ending != STOP_END;
    notify_done(b, i, "skipped", NULL, NULL);
}

/* ---- first pass ---- */

/* Finds out about input i. The failure is the input's own. */
static status look_at(struct batch *b, size_t i, struct err *e)
{
    const struct options *o = b->o;
    const struct item *it = &b->pile.v[i];
    struct input in = { .path = it->path };
    enum ending ending = STOP_END;
    size_t n_ctx = 0;
    if (it->problem)
        return fail(e, ERR_INPUT, "%s", it->problem);
    status s = input_read(o, &in, e);
    if (s == OK) {
        struct origin from = origin_of(b, &in);
        bool has = !b->jsonl || jsonl_has(b->jsonl, i, &from, &ending);
        if (!has)
            jsonl_forget(b->jsonl, i);
        if (has && (!b->store || store_has(b->store, it->name, &from, &ending)) && !o->force) {
            input_skipped(b, i, ending);
            input_free(&in);
            return OK;
        }
        s = input_check(o, &in, e);
    }
    if (s == OK) { /* in silence: what --long does is said when the input is answered */
        struct console hush = { .quiet = true };
        struct options silent = *o;
        silent.con = &hush;
        s = input_tokenize(&silent, b->m, &in, &n_ctx, e);
    }
    if (s == OK) {
        b->task[i].n_prompt = in.prompt.n;
        b->left_tok += in.prompt.n;
        b->n_prefix = in.n_prefix;
        b->n_to_do++;
        if (n_ctx > b->n_ctx) {
            b->n_ctx = n_ctx;
            b->at = i;
        }
    }
    input_free(&in);
    return s;
}

/* b->at is left at the largest input. */
static status survey(struct batch *b, struct err *e)
{
    const struct options *o = b->o;
    for (size_t i = 0; i < b->pile.n && !*o->stop; i++) {
        struct err why;
        status s = look_at(b, i, &why);
        if (s != OK && !*o->stop)
            TRY(input_failed(b, i, &why, e));
        if (console_status(o->con, "reading %zu/%zu", i + 1, b->pile.n))
            console_note(o->con, "reading %zu/%zu", i + 1, b->pile.n);
    }
    console_progress_end(o->con);
    if (b->n_to_do && o->n_ctx > model_shape(b->m)->ctx_train)
        console_note(o->con, "hayate: -c %zu is more than the model was trained for (%u)", o->n_ctx, (unsigned)model_shape(b->m)->ctx_train);
    return OK;
}

/* ---- second pass ---- */

static status write_answer(struct batch *b, size_t i, const struct input *in, const struct answer *a, struct err *e)
{
    struct origin from = origin_of(b, in);
    if (b->store)
        TRY(store_put(b->store, b->pile.v[i].name, answer_text(a), &from, a->ending, e));
    if (!b->jsonl)
        return OK;
    json_t *line = answer_json(b->o, b->m, in, a);
    status s = line ? jsonl_put(b->jsonl, i, line, &from, a->ending, e) : fail(e, ERR_NOMEM, "%s: JSON", in->path);
    json_decref(line);
    return s;
}

/* Reads input i again. The failure is the input's own. */
static status take_up(struct batch *b, struct in_work *w, struct err *e)
{
    struct input *in = &w->in;
    size_t need, n_ctx = session_n_ctx(b->parallel.place[0].en.s);
    status s = input_read(b->o, in, e);
    if (s == OK)
        s = input_check(b->o, in, e);
    if (s == OK)
        s = input_tokenize(b->o, b->m, in, &need, e);
    if (s == OK && need > n_ctx)
        s = fail(e, ERR_INPUT, "has grown while the batch ran: a context of %zu tokens, planned %zu", need, n_ctx);
    if (s != OK)
        return s;
    b->task[w->i].n_prompt = in->prompt.n;
    json_t *event = input_event(b, "input", w->i);
    json_object_set_new(event, "prompt_tokens", json_integer((json_int_t)in->prompt.n));
    notify(b, event);
    input_say(b->o, in);
    return OK;
}

/* The input has had its turn. */
static void put_away(struct batch *b, struct in_work *w)
{
    input_free(&w->in);
    answer_free(&w->a);
    b->left_tok -= w->planned;
    b->n_to_do--;
    *w = (struct in_work){ 0 };
}

static status next_input(void *ctx, uint32_t k, struct work *work, bool *more, struct err *e)
{
    struct batch *b = ctx;
    struct in_work *w = &b->in_work[k];
    for (*more = false; b->next < b->pile.n && !*b->o->stop; b->next++) {
        struct err why;
        size_t i = b->next;
        if (b->task[i].state != TO_DO)
            continue;
        b->at = i;
        *w = (struct in_work){ .b = b, .i = i, .in.path = b->pile.v[i].path, .planned = b->task[i].n_prompt };
        *work = (struct work){ .index = i, .in = &w->in, .a = &w->a, .watch = { w, on_prefill, on_token } };
        status s = take_up(b, w, &why);
        if (s == OK) {
            *more = true;
            b->next++;
            return OK;
        }
        put_away(b, w);
        if (*b->o->stop)
            return OK; /* the next start takes it up */
        TRY(input_failed(b, i, &why, e));
    }
    return OK;
}

static status answered(struct batch *b, const struct in_work *w, struct err *e)
{
    const struct answer *a = &w->a;
    b->n_evaluated += w->in.prompt.n - a->n_reused;
    b->n_reused += a->n_reused;
    b->n_generated += a->n_generated;
    b->prefill_s += a->prefill_s;
    b->decode_s += a->decode_s;
    drafts_add(&b->drafts, &a->drafts);
    TRY(write_answer(b, w->i, &w->in, a, e));
    b->task[w->i].state = DONE;
    b->n_done++;
    b->n_cut += answer_is_cut(a);
    notify_done(b, w->i, answer_is_cut(a) ? "cut" : "done", NULL, a);
    return OK;
}

/* A failure is the input's own, except for ERR_IO, which is that of a place for answers, and ERR_DEVICE. */
static status input_ended(void *ctx, uint32_t k, struct work *work, status s, const struct err *why, struct err *e)
{
    struct batch *b = ctx;
    struct in_work *w = &b->in_work[k];
    struct err here = { 0 };
    size_t i = work->index;
    if (s != OK)
        here = *why;
    else if (w->a.ending != STOP_INTERRUPTED) /* else dropped; the next start takes it up */
        s = answered(b, w, &here);
    struct answer a = w->a;
    w->a = (struct answer){ 0 };
    put_away(b, w);
    if (s == OK && b->task[i].state == DONE && b->o->progress)
        say_done(b, i, &a);
    answer_free(&a);
    if (s == ERR_IO || s == ERR_DEVICE) {
        *e = here;
        return s;
    }
    return s != OK && !*b->o->stop ? input_failed(b, i, &here, e) : OK;
}

static status answer_all(struct batch *b, struct err *e)
{
    b->t_first = console_now();
    TRY(parallel_answer(&b->parallel, &(struct work_source){ b, next_input, input_ended }, e));
    console_progress_end(b->o->con);
    return OK;
}

/* ---- the command ---- */

static status open_outputs(struct batch *b, struct err *e)
{
    const struct options *o = b->o;
    if (o->out_dir)
        TRY(store_open(&b->store, o->out_dir, o->shard, e));
    if (o->jsonl_path)
        TRY(jsonl_open(&b->jsonl, o->jsonl_path, &b->pile, o->force, e));
    if (o->report_path && !(b->report = fopen(o->report_path, "we")))
        return fail(e, ERR_IO, "%s: %s", o->report_path, strerror(errno));
    return OK;
}

static void notify_start(struct batch *b)
{
    json_t *j = json_object();
    json_object_set_new(j, "event", json_string("start"));
    json_object_set_new(j, "inputs", json_integer((json_int_t)b->pile.n));
    notify(b, j);
}

/* After the first pass */
static void notify_plan(struct batch *b)
{
    json_t *j = json_object();
    json_object_set_new(j, "event", json_string("plan"));
    json_object_set_new(j, "to_do", json_integer((json_int_t)b->n_to_do));
    json_object_set_new(j, "prompt_tokens", json_integer((json_int_t)b->left_tok));
    json_object_set_new(j, "n_ctx", json_integer((json_int_t)b->n_ctx));
    notify(b, j);
}

static void notify_end(struct batch *b, int code)
{
    json_t *j = json_object();
    json_object_set_new(j, "event", json_string("end"));
    json_object_set_new(j, "inputs", json_integer((json_int_t)b->pile.n));
    json_object_set_new(j, "done", json_integer((json_int_t)b->n_done));
    json_object_set_new(j, "skipped", json_integer((json_int_t)b->n_skipped));
    json_object_set_new(j, "failed", json_integer((json_int_t)b->n_failed));
    json_object_set_new(j, "cut", json_integer((json_int_t)b->n_cut));
    json_object_set_new(j, "exit", json_integer(code));
    notify(b, j);
}

static status run_all(struct batch *b, struct err *e)
{
    const struct options *o = b->o;
    TRY(input_check_options(o, e));
    TRY(prefix_cache_open(&b->cache, o->prefix_dir, o->prefix_max, o->con, e));
    TRY(pile_gather(&b->pile, o, e));
    TRY(pile_check_outputs(&b->pile, o, e));
    pile_take_shard(&b->pile, o);
    if (!(b->task = calloc(b->pile.n, sizeof *b->task)))
        return fail(e, ERR_NOMEM, "%zu inputs", b->pile.n);
    TRY(open_outputs(b, e));
    TRY(open_model(o, &b->m, e));
    engine_say_model(o, b->m);
    *o->at_once = 1; /* reads a page of every tensor */
    b->model_hash = model_identity(b->m);
    *o->at_once = 0;
    b->options_hash = options_identity(o);
    notify_start(b);
    TRY(survey(b, e));
    notify_plan(b);
    if (b->n_to_do && !*o->stop) {
        uint32_t n = (uint32_t)MIN(o->n_parallel, b->n_to_do);
        if (o->verbose)
            engine_say_plan(o, b->m, b->n_ctx, n);
        if (parallel_open(&b->parallel, o, b->m, b->cache, b->n_ctx, n, e) != OK) {
            console_note(o->con, "hayate: the largest input is %s, %zu tokens; with -c inputs that are too long fail and the others go on",
                         b->pile.v[b->at].shown, b->task[b->at].n_prompt);
            return e->code;
        }
        TRY(answer_all(b, e));
    }
    return b->jsonl && n_ended(b) == b->pile.n ? jsonl_finish(b->jsonl, e) : OK;
}

static int exit_code(const struct batch *b, status s)
{
    if (*b->o->stop && (b->pile.n == 0 || n_ended(b) < b->pile.n))
        return 128 + *b->o->stop;
    return s != OK ? exit_code_of(s) : b->n_failed ? EXIT_SOME_FAILED : b->n_cut ? EXIT_CUT : EXIT_DONE;
}

int cmd_batch(const struct options *o)
{
    struct err e;
    struct batch b = { .o = o, .notify = o->notify_fd >= 0, .t0 = console_now() };
    status s = run_all(&b, &e);
    console_progress_end(o->con);
    if (b.report && fclose(b.report) != 0 && s == OK)
        s = fail(&e, ERR_IO, "%s: %s", o->report_path, strerror(errno));
    int code = exit_code(&b, s);
    if (s != OK && code < 128)
        console_error(o->con, "%s", e.msg);
    if (n_ended(&b))
        say_end(&b);
    if (b.task && n_ended(&b) < b.pile.n && (code >= 128 || b.n_done))
        console_error(o->con, "stopped after %zu of %zu inputs; start again to continue", n_ended(&b), b.pile.n);
    if (b.task)
        notify_end(&b, code);
    for (size_t k = 0; k < COUNT_OF(b.in_work); k++) { /* where a failure ended it all */
        input_free(&b.in_work[k].in);
        answer_free(&b.in_work[k].a);
    }
    parallel_close(&b.parallel);
    prefix_cache_close(b.cache);
    jsonl_close(b.jsonl);
    store_close(b.store);
    model_close(b.m);
    pile_free(&b.pile);
    free(b.task);
    return code;
}
