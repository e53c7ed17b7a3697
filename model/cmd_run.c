/* cmd_run.c - one answer per input.
 *
 * All inputs are read, checked and tokenised first; then one session, sized for the largest, answers them in turn, or with --parallel several at once.
 * What is said and printed has the order of the inputs either way. An input that fails prints nothing on stdout and does not stop the others; the exit
 * code is that of the worst. */
#include "model/document.h"
#include "model/parallel.h"
#include "model/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The answer to an input, and how much of it has been shown. */
struct showing {
    struct run *r;
    struct input *in;
    struct answer a;
    status s;              /* of the answer, once it has ended */
    struct err why;
    bool ended;
    size_t shown;          /* bytes of the answer already on stdout */
    size_t thought_shown;  /* bytes of thought already on stderr */
};

struct run {
    const struct options *o;
    struct input *in;      /* [o->n_files] */
    bool *ready;           /* [o->n_files] whether it can be answered */
    struct showing *v;     /* [o->n_files] */
    size_t next, turn;     /* the inputs to be taken up next, and whose turn it is on stdout and stderr */
    model *m;
    prefix_cache *cache;   /* NULL without --prefix-cache */
    struct parallel parallel;
    struct profile *profile; /* NULL without --profile and --trace */
    size_t n_answers;      /* printed so far */
    bool gone;             /* stdout */
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

/* How many inputs are ready to be answered. */
static size_t read_inputs(struct run *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->o->n_files; i++) {
        struct err e;
        struct input *in = &r->in[i];
        in->path = r->o->files[i];
        status s = input_read(r->o, in, &e);
        if (s == OK)
            s = input_check(r->o, in, &e);
        if (interrupted(r))
            return 0;
        if (s != OK)
            failed(r, &e);
        if (s == OK)
            input_say(r->o, in);
        r->ready[i] = s == OK;
        n += s == OK;
    }
    return n;
}

/* Tokenises what is ready, refuses what does not fit, and finds the context that all the others need. */
static size_t tokenize_inputs(struct run *r, size_t *n_ctx)
{
    const struct options *o = r->o;
    size_t n = 0, trained = model_shape(r->m)->ctx_train;
    *n_ctx = 0;
    for (size_t i = 0; i < o->n_files; i++) {
        struct err e;
        size_t need = 0;
        if (!r->ready[i])
            continue;
        if (input_tokenize(o, r->m, &r->in[i], &need, &e) != OK) {
            failed(r, &e);
            r->ready[i] = false;
            continue;
        }
        *n_ctx = MAX(*n_ctx, need);
        n++;
    }
    if (n && o->n_ctx > trained)
        console_note(o->con, "hayate: -c %zu is more than the model was trained for (%zu)", o->n_ctx, trained);
    return n;
}

/* ---- one answer ---- */

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

/* New thoughts to stderr; an empty line of their own when they have ended. */
static void show_thoughts(struct showing *v, const struct answer *a, bool complete)
{
    const struct console *con = v->r->o->con;
    if (con->quiet || v->thought_shown == SIZE_MAX)
        return;
    if (a->n_thought > v->thought_shown) {
        fprintf(stderr, "%s%.*s%s", con->err_tty ? "\033[2m" : "", (int)(a->n_thought - v->thought_shown), a->all.p + v->thought_shown,
                con->err_tty ? "\033[0m" : "");
        fflush(stderr);
        v->thought_shown = a->n_thought;
    }
    if (a->thought_end == SIZE_MAX && !complete)
        return;
    if (a->n_thought)
        fputc('\n', stderr);
    v->thought_shown = SIZE_MAX;
}

/* Only what the others wait for is shown as it grows. */
static bool has_turn(const struct showing *v) { return v == &v->r->v[v->r->turn]; }

static void on_prefill(void *ctx, size_t done, size_t total, size_t n_reused, double seconds)
{
    struct showing *v = ctx;
    if (has_turn(v))
        console_progress(v->r->o->con, "prefill", done, total, n_reused, seconds);
}

static status on_token(void *ctx, const struct answer *a, double seconds, struct err *e)
{
    struct showing *v = ctx;
    const struct options *o = v->r->o;
    bool stream = o->con->out_tty && !o->json; /* on a terminal the answer appears as it grows */
    if (!has_turn(v))
        return OK;
    if (a->n_generated == 1)
        console_progress_end(o->con);
    show_thoughts(v, a, false);
    struct str t = answer_text(a);
    if (stream && t.n > v->shown) {
        if (v->shown == 0) {
            console_progress_end(o->con);
            TRY(show_header(v->r, v->in->path, e));
        }
        TRY(console_write(t.p + v->shown, t.n - v->shown, e));
        v->shown = t.n;
    }
    if (!stream && (o->quiet || a->thought_end != SIZE_MAX))
        console_progress(o->con, "decode", a->n_generated, 0, 0, seconds);
    return OK;
}

/* ---- what is printed when an answer is complete ---- */

static status print_json(struct run *r, const struct input *in, const struct answer *a, struct err *e)
{
    json_t *j = answer_json(r->o, r->m, in, a);
    char *line = json_dumps(j, JSON_COMPACT);
    status s = line ? console_write(line, strlen(line), e) : fail(e, ERR_NOMEM, "%s: JSON", in->path);
    if (s == OK)
        s = console_write("\n", 1, e);
    free(line);
    json_decref(j);
    return s;
}

static status print_answer(const struct showing *v, const struct input *in, const struct answer *a, struct err *e)
{
    struct run *r = v->r;
    if (a->ending == STOP_INTERRUPTED && a->n_generated == 0) /* nothing was begun */
        return OK;
    if (r->o->json)
        return print_json(r, in, a, e);
    struct str t = answer_text(a);
    if (v->shown == 0)
        TRY(show_header(r, in->path, e));
    TRY(console_write(t.p + v->shown, t.n - v->shown, e));
    TRY(console_write("\n", 1, e));
    r->n_answers++;
    return OK;
}

static double rate(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void print_timing(struct run *r, const struct input *in, const struct answer *a)
{
    const struct options *o = r->o;
    bool named = o->n_files > 1;
    char reused[40] = "", drafts[96];
    if (a->n_reused)
        snprintf(reused, sizeof reused, " (%zu reused)", a->n_reused);
    if (answer_is_cut(a))
        console_note(o->con, "hayate: %s: answer cut by %s after %zu tokens", document_name(in->path), a->ending == STOP_LENGTH ? "-n" : "the context",
                     a->n_generated);
    console_note(o->con, "%s%sprefill %zu tok%s, %.1f tok/s · decode %zu tok, %.1f tok/s%s", named ? document_name(in->path) : "", named ? ": " : "",
                 in->prompt.n, reused, rate(in->prompt.n - a->n_reused, a->prefill_s), a->n_generated, rate(a->n_generated, a->decode_s),
                 drafts_text(&a->drafts, drafts, sizeof drafts));
}

/* An answer that has ended has its turn. */
static void show_answer(struct run *r, struct showing *v)
{
    struct answer *a = &v->a;
    if (v->s == OK)
        show_thoughts(v, a, true);
    console_progress_end(r->o->con);
    if (v->s == OK && r->parallel.place[0].en.unsaved.code != OK)
        failed(r, &r->parallel.place[0].en.unsaved);
    if (v->s == OK)
        v->s = print_answer(v, v->in, a, &v->why);
    if (v->s != OK) {
        failed(r, &v->why);
    } else if (!(a->ending == STOP_INTERRUPTED && interrupted(r)) || a->n_generated) {
        if (answer_is_cut(a))
            worsen(&r->code, EXIT_CUT);
        print_timing(r, v->in, a);
    }
    r->gone = v->s == ERR_IO;
    answer_free(a);
}

/* ---- inputs to answers ---- */

static status next_input(void *ctx, uint32_t k, struct work *w, bool *more, struct err *e)
{
    struct run *r = ctx;
    (void)k, (void)e;
    while (r->next < r->o->n_files && !r->ready[r->next])
        r->next++;
    *more = r->next < r->o->n_files && !interrupted(r) && !r->gone;
    if (!*more)
        return OK;
    struct showing *v = &r->v[r->next];
    *v = (struct showing){ .r = r, .in = &r->in[r->next] };
    *w = (struct work){ .index = r->next++, .in = v->in, .a = &v->a, .watch = { v, on_prefill, on_token } };
    return OK;
}

static status input_ended(void *ctx, uint32_t k, struct work *w, status s, const struct err *why, struct err *e)
{
    struct run *r = ctx;
    struct showing *v = &r->v[w->index];
    (void)k;
    v->ended = true;
    v->s = s;
    if (s != OK)
        v->why = *why;
    for (; r->turn < r->next && (!r->ready[r->turn] || r->v[r->turn].ended) && !r->gone; r->turn++)
        if (r->ready[r->turn])
            show_answer(r, &r->v[r->turn]);
    return r->gone ? fail(e, ERR_IO, "stdout") : OK;
}

static size_t turn_of_first(const struct run *r)
{
    size_t i = 0;
    while (i < r->o->n_files && !r->ready[i])
        i++;
    return i;
}

/* ---- the command ---- */

static status print_prompts(struct run *r, struct err *e)
{
    for (size_t i = 0; i < r->o->n_files; i++) {
        struct text t = { 0 };
        if (!r->ready[i])
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

/* What can be known of --save-state and --load-state before an hour of work. */
static status check_state_files(const struct options *o, struct err *e)
{
    const char *slash = o->save_state ? strrchr(o->save_state, '/') : NULL;
    char dir[PATH_MAX] = ".";
    struct stat st;
    if (o->load_state && access(o->load_state, R_OK) != 0)
        return fail(e, ERR_IO, "%s: %s", o->load_state, strerror(errno));
    if (!o->save_state)
        return OK;
    if (strlen(o->save_state) >= sizeof dir)
        return fail(e, ERR_USAGE, "--save-state: a name of %zu bytes, expected at most %zu", strlen(o->save_state), sizeof dir - 1);
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", (int)MAX((ptrdiff_t)1, slash - o->save_state), o->save_state);
    if (access(dir, W_OK | X_OK) != 0)
        return fail(e, ERR_IO, "%s: cannot be written: %s", o->save_state, strerror(errno));
    if (stat(o->save_state, &st) == 0 && !S_ISREG(st.st_mode))
        return fail(e, ERR_IO, "%s: found a folder or device, expected a name for a file", o->save_state);
    return OK;
}

static status profile_begin(struct run *r, struct err *e)
{
    const struct options *o = r->o;
    if (!o->profile && !o->trace_path)
        return OK;
    r->profile = calloc(1, sizeof *r->profile);
    if (!r->profile)
        return fail(e, ERR_NOMEM, "profile");
    return profile_open(r->profile, o->trace_path, e);
}

static status profile_end(struct run *r, struct err *e)
{
    if (!r->profile)
        return OK;
    if (r->o->profile)
        profile_print(r->profile, stderr, strcmp(model_backend(r->m), "cpu") == 0);
    return profile_close(r->profile, e);
}

static status run_all(struct run *r, struct err *e)
{
    const struct options *o = r->o;
    TRY(input_check_options(o, e));
    TRY(check_state_files(o, e));
    if (!o->print_prompt)
        TRY(prefix_cache_open(&r->cache, o->prefix_dir, o->prefix_max, o->con, e));
    size_t n_ctx;
    if (!read_inputs(r))
        return OK;
    if (o->print_prompt)
        return print_prompts(r, e);
    TRY(profile_begin(r, e));
    TRY(open_model(o, &r->m, e));
    engine_say_model(o, r->m);
    size_t n = tokenize_inputs(r, &n_ctx);
    uint32_t n_seq = (uint32_t)MIN(o->n_parallel, n);
    if (!n)
        return OK;
    if (o->verbose)
        engine_say_plan(o, r->m, n_ctx, n_seq);
    TRY(parallel_open(&r->parallel, o, r->m, r->cache, n_ctx, n_seq, e));
    if (r->profile)
        TRY(session_profile(r->parallel.place[0].en.s, profile_call, r->profile, e));
    r->turn = turn_of_first(r);
    status s = parallel_answer(&r->parallel, &(struct work_source){ r, next_input, input_ended }, e);
    if (r->profile) {
        r->profile->wall = r->parallel.prefill_s + r->parallel.decode_s;
        session_gathered(r->parallel.place[0].en.s, &r->profile->ngram_rows, &r->profile->ngram_seconds);
    }
    if (s != OK && !r->gone) /* else it has been said */
        return s;
    interrupted(r);
    return profile_end(r, e);
}

int cmd_run(const struct options *o)
{
    struct err e;
    struct run r = { .o = o, .in = calloc(o->n_files, sizeof *r.in), .ready = calloc(o->n_files, sizeof *r.ready),
                     .v = calloc(o->n_files, sizeof *r.v) };
    status s = r.in && r.ready && r.v ? run_all(&r, &e) : fail(&e, ERR_NOMEM, "inputs");
    if (s != OK && !interrupted(&r))
        failed(&r, &e);
    parallel_close(&r.parallel);
    if (r.profile)
        profile_close(r.profile, NULL); /* where it came to nothing */
    free(r.profile);
    prefix_cache_close(r.cache);
    model_close(r.m);
    for (size_t i = 0; r.in && i < o->n_files; i++)
        input_free(&r.in[i]);
    for (size_t i = r.turn; r.v && i < r.next; i++) /* what an error left without its turn */
        answer_free(&r.v[i].a);
    free(r.in);
    free(r.ready);
    free(r.v);
    return r.code;
}
