/* session_calls.c - the calls of a session as they are run, under the clock when that is wanted, or only recorded: see model.h. */
#include "model/console.h"
#include "model/session_impl.h"

#include <stdlib.h>
#include <string.h>

/* How calls of a list are reported */
struct reporting {
    const char *part;      /* instead of what each call says, but for copies of state; NULL: that */
    bool decode;
    double start;          /* of the first one */
    const double *seconds; /* of each; NULL: not run */
    session_call_fn fn;
    void *ctx;
};

static const char *part_of(const struct gpu_call *call, const struct reporting *r)
{
    return r->part && strcmp(call->part, SESSION_COPY_PART) != 0 ? r->part : call->part;
}

/* What a call moves, in a step of which step[0] describes all rows and the others, as far as there are calls for one, each row alone, or run. Of the rows that
 * a device has one by one the last of a run knows how many it has. */
static struct gpu_moves moves_of(const struct gpu_cmd *c, const struct gpu_call *call, const struct gpu_step *step)
{
    struct gpu_moves sum = { 0 };
    if (call->row < GPU_EACH_RUN)
        return gpu_moves_of(c, call, step[call->row].pos, step[call->row].n_tok);
    for (uint32_t r = 1; r <= step->n_tok; r++) {
        uint32_t n = call->row == GPU_EACH_ROW ? 1 : step[r].n_tok;
        bool last = r == step->n_tok || step[r + 1].n_tok == 1;
        if (call->row == GPU_EACH_RUN && !last)
            continue;
        struct gpu_moves one = gpu_moves_of(c, call, step[r].pos + 1 - n, n);
        gpu_moves_add(&sum, &one);
    }
    return sum;
}

static void report_calls(const struct gpu_cmd *c, const struct gpu_step *step, const struct reporting *r)
{
    double start = r->start;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct gpu_call *call = &c->call[i];
        struct session_call report = { .row = call->table->row[call->id].id, .part = part_of(call, r), .decode = r->decode, .start = start,
                                       .moves = moves_of(c, call, step), .seconds = r->seconds ? r->seconds[i] : 0 };
        r->fn(r->ctx, &report);
        start += report.seconds;
    }
}

static status run(session *s, struct gpu_cmd *c, const struct gpu_step *step, const char *part, bool decode, struct err *e)
{
    if (!s->on_call)
        return gpu_submit(s->m->gpu, c, e);
    double start = console_now();
    TRY(gpu_profile(s->m->gpu, c, s->call_seconds, e));
    report_calls(c, step, &(struct reporting){ part, decode, start, s->call_seconds, s->on_call, s->on_call_ctx });
    return OK;
}

status session_run(session *s, struct gpu_cmd *c, bool decode, struct err *e) { return run(s, c, s->f.step, NULL, decode, e); }

status session_start(session *s, struct gpu_cmd *c, bool decode, struct err *e)
{
    return s->on_call ? session_run(s, c, decode, e) : gpu_start(s->m->gpu, c, e);
}

status session_run_head(session *s, struct gpu_cmd *c, const struct gpu_step *step, bool decode, struct err *e)
{
    return run(s, c, step, DRAFT_PART, decode, e);
}

status session_start_head(session *s, struct gpu_cmd *c, const struct gpu_step *step, bool decode, struct err *e)
{
    return s->on_call ? session_run_head(s, c, step, decode, e) : gpu_start(s->m->gpu, c, e);
}

status session_profile(session *s, session_call_fn fn, void *ctx, struct err *e)
{
    uint32_t most = MAX(MAX(s->prefill[0].cap, s->together.step[0].cap), MAX((uint32_t)HEAD_CALLS, (uint32_t)CHOOSE_CALLS));
    most = MAX(MAX(most, s->fold.cap), MAX(s->verify[DECODE_ROWS][0].cap, s->draft ? draft_most_calls() : 0));
    for (uint32_t k = 0; k < session_n_seq(s); k++) {
        session *at = s->place[k];
        if (fn && !at->call_seconds && !(at->call_seconds = calloc(most, sizeof *at->call_seconds)))
            return fail(e, ERR_NOMEM, "profile of %u calls", most);
        if (fn) {
            at->f.reader.rows = 0;
            at->f.reader.seconds = 0;
        }
        at->on_call = fn;
        at->on_call_ctx = ctx;
    }
    return OK;
}

void session_gathered(const session *s, uint64_t *rows, double *seconds)
{
    *rows = 0;
    *seconds = 0;
    for (uint32_t k = 0; k < session_n_seq(s); k++) {
        *rows += s->place[k]->f.reader.rows;
        *seconds += s->place[k]->f.reader.seconds;
    }
}

/* ---- recorded, and not run ---- */

static status report_list(const struct gpu_cmd *c, const struct gpu_step *step, const char *part, const struct session_report *r, struct err *e)
{
    if (c->err.code != OK) {
        if (e)
            *e = c->err;
        return c->err.code;
    }
    report_calls(c, step, &(struct reporting){ .part = part, .decode = r->decode, .fn = r->fn, .ctx = r->ctx });
    return OK;
}

status session_report_head(const struct gpu_cmd *c, size_t pos, uint32_t n_tok, const struct session_report *r, struct err *e)
{
    return report_list(c, &(struct gpu_step){ .n_tok = n_tok, .pos = (uint32_t)pos }, DRAFT_PART, r, e);
}

static status report_lists(const struct gpu_cmd list[2], const struct gpu_step *at, const struct session_report *r, struct err *e)
{
    for (size_t i = 0; i < 2; i++)
        TRY(report_list(&list[i], at, NULL, r, e));
    return OK;
}

/* The two lists of a step of n rows at pos */
static status report_step(const struct gpu_cmd list[2], size_t pos, uint32_t n, const struct session_report *r, struct err *e)
{
    return report_lists(list, &(struct gpu_step){ .n_tok = n, .pos = (uint32_t)pos }, r, e);
}

/* The step of `each` rows of every one of n places, all at pos */
static status report_places(session *s, size_t pos, uint32_t n, uint32_t each, const struct session_report *r, struct err *e)
{
    struct forward_run run[SESSION_SEQ_MAX];
    struct gpu_step at[1 + DECODE_ROWS] = { { .n_tok = n * each, .pos = (uint32_t)pos } };
    for (uint32_t i = 0; i < n; i++) {
        run[i] = (struct forward_run){ .of = &s->place[i]->f, .n = each, .first = i * each, .kept = each > 1 };
        at[1 + i] = (struct gpu_step){ .n_tok = each, .pos = (uint32_t)pos };
    }
    for (uint32_t t = 0; t < n * each && s->f.device; t++)
        at[1 + t] = (struct gpu_step){ .n_tok = 1 + t % each, .pos = (uint32_t)pos + t % each };
    return report_lists(session_record_rows(s, run, n), at, r, e);
}

static status check_range(const session *s, size_t pos, uint32_t n, size_t n_pos, uint32_t most, struct err *e)
{
    return n == 0 || n > most || pos + n_pos > s->p.n_ctx
               ? fail(e, ERR_USAGE, "a step of %u rows at %zu, expected at most %u within a context of %zu", n, pos, most, s->p.n_ctx)
               : OK;
}

status session_record(session *s, bool decode, size_t pos, uint32_t n, session_call_fn fn, void *ctx, struct err *e)
{
    const struct session_report r = { decode, fn, ctx };
    bool rows = decode && n > 1;
    TRY(check_range(s, pos, n, rows ? 1 : n, decode ? session_n_seq(s) : s->f.max_tok, e));
    if (!decode) {
        session_record_prefill(s, n);
        TRY(report_step(s->prefill, pos, n, &r, e));
        return s->draft ? draft_record_feed(s->draft, pos ? pos - 1 : 0, pos ? n : n - 1, &r, e) : OK;
    }
    if (rows)
        return report_places(s, pos, n, 1, &r, e);
    session_record_decode(s);
    return report_step(s->decode, pos, n, &r, e);
}

status session_record_round(session *s, size_t pos, uint32_t n_guess, session_call_fn fn, void *ctx, struct err *e)
{
    const struct session_report r = { true, fn, ctx };
    uint32_t n = n_guess + 1, n_seq = session_n_seq(s);
    TRY(check_range(s, pos, n, n + n_guess, s->p.verify && n_guess ? SESSION_VERIFY_MAX / n_seq : 0, e));
    if (n_seq > 1)
        return report_places(s, pos, n_seq, n, &r, e);
    session_record_verify(s, n);
    TRY(report_step(s->verify[n], pos, n, &r, e));
    if (!s->draft)
        return OK;
    TRY(draft_record_feed(s->draft, pos, n_guess, &r, e));
    return draft_record_guesses(s->draft, pos + n_guess, n_guess, &r, e);
}
