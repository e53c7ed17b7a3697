/* cmd_ledger.c - info --ledger: what a decode step, a prompt step and a round with guesses must move and compute, call by call, and what a machine of known
 * roof would take.
 *
 * The calls are those of a real session, recorded and not run; the bytes of each come from its row's own function (*_moves.c). Beside them stands
 * what the file itself says: the bytes of the tensors that one token needs. */
#include "model/options.h"
#include "model/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DECODE, PREFILL, ROUND, N_STEP };
struct step {
    char title[96];
    uint32_t n_tok;       /* 0: not asked for */
    struct tally t;
    double predicted[TALLY_ROWS], total; /* seconds; [rows], with --roof */
};

/* Of a round: what is copied between its lists, and what of memory it asks for */
struct between {
    uint64_t copies, copied, state, asked; /* number; bytes; of them in all that the session keeps at this depth */
};

static void add_call(void *ctx, const struct session_call *c) { tally_add(ctx, c); }

/* What one token of the trunk needs of the tensors of the file, in bytes: of a bank of experts the used share, of the embedding a row, of the n-gram
 * table a row per head, of the draft block nothing. */
struct file_need {
    uint64_t matrices, vectors, ngram;
};
static bool is_vector(const char *name)
{
    static const char *const part[] = { "norm", "conv1d", "ssm_a", "ssm_dt" };
    const char *last = strrchr(name, '.');
    for (size_t i = 0; i < COUNT_OF(part); i++) {
        const char *at = strstr(name, part[i]);
        if (at && (i < 2 || !at[strlen(part[i])] || at + strlen(part[i]) == last))
            return true;
    }
    return false;
}

static struct file_need file_need(const gguf *g, const struct shape *s)
{
    struct file_need n = { 0 };
    bool tied = !gguf_find_tensor(g, "output.weight");
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[80];
        unsigned layer;
        snprintf(name, sizeof name, "%.*s", STR_FMT(t->name));
        if (sscanf(name, "blk.%u.", &layer) == 1 && layer >= s->n_layer)
            continue;
        if (strcmp(name, "per_layer_token_embd.weight") == 0)
            n.ngram += (uint64_t)s->ple_head * t->row_bytes;
        else if (strncmp(name, "ple_ngram_embd.", 15) == 0)
            n.ngram += t->row_bytes;
        else if (strcmp(name, "token_embd.weight") == 0)
            n.matrices += t->row_bytes + (tied ? t->bytes : 0);
        else if (strstr(name, "_exps."))
            n.matrices += t->bytes / s->n_expert * s->n_expert_used;
        else
            *(is_vector(name) ? &n.vectors : &n.matrices) += t->bytes;
    }
    return n;
}

/* The longer of moving and computing, and a launch for each call */
static double predict(const struct colons *roof, const struct tally_line *l)
{
    double bytes = (double)gpu_moves_bytes(&l->moves) / roof->v[0], flops = (double)l->moves.flops / roof->v[1];
    return MAX(bytes, flops) + (roof->n > 2 ? 1e-6 * roof->v[2] * (double)l->calls : 0);
}

static void print_line(const char *row, const char *part, const struct tally_line *l, const struct colons *roof, double predicted)
{
    const struct gpu_moves *m = &l->moves;
    printf("%-20s %-11s %6" PRIu64 " %14" PRIu64 " %10" PRIu64 " %13" PRIu64 " %13" PRIu64 " %12.3f", row, part, l->calls, m->weights, m->vectors, m->state,
           m->activations, 1e-6 * (double)m->flops);
    if (roof->n)
        printf(" %10.2f", 1e6 * predicted);
    putchar('\n');
}

static void print_step(const struct step *st, const struct colons *roof, size_t depth)
{
    printf("\n%s at depth %zu: %" PRIu64 " calls, %" PRIu64 " bytes, %.3f GFLOP\n", st->title, depth, st->t.all.calls,
           gpu_moves_bytes(&st->t.all.moves), 1e-9 * (double)st->t.all.moves.flops);
    printf("%-20s %-11s %6s %14s %10s %13s %13s %12s%s\n", "row", "part", "calls", "weights", "vectors", "state", "activations", "MFLOP",
           roof->n ? "    us here" : "");
    for (size_t i = 0; i < st->t.n_row; i++)
        print_line(st->t.row[i].row, st->t.row[i].part, &st->t.row[i], roof, st->predicted[i]);
    for (size_t i = 0; i < st->t.n_part; i++) {
        double sum = 0;
        for (size_t k = 0; k < st->t.n_row; k++)
            sum += strcmp(st->t.row[k].part, st->t.part[i].part) == 0 ? st->predicted[k] : 0;
        print_line("all", st->t.part[i].part, &st->t.part[i], roof, sum);
    }
    print_line("all", "", &st->t.all, roof, st->total);
}

static void print_between(const struct between *b)
{
    printf("between its lists: %" PRIu64 " cop%s of state, %" PRIu64 " bytes, %.3f %% of the %" PRIu64 " that the session keeps at this depth; %" PRIu64
           " bytes of memory asked for\n", b->copies, b->copies == 1 ? "y" : "ies", b->copied, 100 * (double)b->copied / (double)b->state, b->state, b->asked);
}

/* What the step comes to where a token must at least bring its weights, once, and its state: nothing else, no launches */
struct least {
    uint64_t bytes;
    double seconds;
};
static struct least least_of(const struct step *st, const struct colons *roof, const struct file_need *n)
{
    struct least l = { .bytes = n->matrices + n->vectors + st->t.all.moves.state };
    l.seconds = roof->n ? (double)l.bytes / roof->v[0] : 0;
    return l;
}

static void print_file(const struct step *decode, const struct colons *roof, const struct file_need *n)
{
    struct least l = least_of(decode, roof, n);
    printf("\nfor one token the file has %" PRIu64 " bytes of matrices, %" PRIu64 " of vectors, %" PRIu64 " of n-gram rows, which the host reads\n", n->matrices,
           n->vectors, n->ngram);
    if (decode->n_tok > 1)
        printf("the least a step of %u rows needs, if all choose the same experts: %" PRIu64 " bytes with their states", decode->n_tok, l.bytes);
    else
        printf("the least a token needs: %" PRIu64 " bytes with its state", l.bytes);
    if (roof->n)
        printf("; at %.4g bytes/s %.3f ms; the step above %.3f ms = %.2f tokens/s, %.3f times as long", roof->v[0], 1e3 * l.seconds, 1e3 * decode->total,
               decode->n_tok / decode->total, decode->total / l.seconds);
    putchar('\n');
}

static void print_pays(const struct step *st)
{
    double steps = st[ROUND].total / st[DECODE].total;
    if (st[DECODE].n_tok > 1) {
        printf("a round at best: %.3f ms, as long as %.3f decode steps of %u rows; it pays where more than %.3f tokens of it count, of %u\n",
               1e3 * st[ROUND].total, steps, st[DECODE].n_tok, steps * st[DECODE].n_tok, st[ROUND].n_tok);
        return;
    }
    printf("a round at best: %.3f ms, as long as %.3f decode steps; it pays where more tokens of it count, of %u\n", 1e3 * st[ROUND].total, steps,
           st[ROUND].n_tok);
}

static json_t *line_json(const struct tally_line *l, const struct colons *roof, double predicted)
{
    json_t *j = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "calls", (json_int_t)l->calls, "weights", (json_int_t)l->moves.weights, "vectors",
                          (json_int_t)l->moves.vectors, "state", (json_int_t)l->moves.state, "activations", (json_int_t)l->moves.activations, "flops",
                          (json_int_t)l->moves.flops);
    if (l->row) {
        json_object_set_new(j, "row", json_string(l->row));
        json_object_set_new(j, "part", json_string(l->part));
    }
    if (roof->n)
        json_object_set_new(j, "predicted_s", json_real(predicted));
    return j;
}

static json_t *step_json(const struct step *st, const struct colons *roof)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < st->t.n_row; i++)
        json_array_append_new(rows, line_json(&st->t.row[i], roof, st->predicted[i]));
    return json_pack("{s:I,s:o,s:o}", "rows_of_step", (json_int_t)st->n_tok, "rows", rows, "all", line_json(&st->t.all, roof, st->total));
}

static json_t *between_json(const struct between *b)
{
    return json_pack("{s:I,s:I,s:I,s:I}", "copies", (json_int_t)b->copies, "copied", (json_int_t)b->copied, "state", (json_int_t)b->state, "asked",
                     (json_int_t)b->asked);
}

static void print_json(const model *m, const struct step *st, const struct between *b, const struct colons *roof, size_t depth, const struct file_need *n)
{
    struct least l = least_of(&st[DECODE], roof, n);
    json_t *j = json_pack("{s:s,s:s,s:I,s:o,s:o,s:I,s:I,s:I,s:I}", "backend", model_backend(m), "device", model_device(m), "depth", (json_int_t)depth, "decode",
                          step_json(&st[DECODE], roof), "prefill", step_json(&st[PREFILL], roof), "file_matrices", (json_int_t)n->matrices, "file_vectors",
                          (json_int_t)n->vectors, "file_ngram", (json_int_t)n->ngram, "least_bytes", (json_int_t)l.bytes);
    if (roof->n)
        json_object_set_new(j, "least_s", json_real(l.seconds));
    if (st[ROUND].n_tok) {
        json_object_set_new(j, "round", step_json(&st[ROUND], roof));
        json_object_set_new(j, "between", between_json(b));
    }
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

static void look_between(session *s, const struct tally *t, size_t depth, uint64_t asked, struct between *b)
{
    *b = (struct between){ .state = session_state_bytes(s, depth), .asked = session_memory_asked(s) - asked };
    for (size_t i = 0; i < t->n_row; i++)
        if (strcmp(t->row[i].part, SESSION_COPY_PART) == 0) {
            b->copies += t->row[i].calls;
            b->copied += gpu_moves_bytes(&t->row[i].moves) / 2; /* read, and written */
        }
}

static status record(model *m, const struct options *o, size_t depth, struct step *st, struct between *b, struct err *e)
{
    uint32_t n_guess = st[ROUND].n_tok ? st[ROUND].n_tok / o->n_parallel - 1 : 0;
    struct session_params p = session_params_of(o, depth + MAX(st[PREFILL].n_tok, 2 * n_guess + 1));
    p.n_ubatch = st[PREFILL].n_tok;
    p.verify = n_guess > 0;
    p.head = p.verify && p.n_seq <= 1;
    session *s;
    TRY(session_open(&s, m, &p, SIZE_MAX, e));
    session_want(s, 1); /* greedy, as an answer is by default */
    uint64_t asked = session_memory_asked(s);
    status result = OK;
    for (int i = 0; i < N_STEP && result == OK; i++) {
        if (st[i].n_tok == 0)
            continue;
        result = i == ROUND ? session_record_round(s, depth, n_guess, add_call, &st[i].t, e)
                            : session_record(s, i == DECODE, depth, st[i].n_tok, add_call, &st[i].t, e);
        tally_sort(&st[i].t);
        for (size_t k = 0; k < st[i].t.n_row && o->roof.n; k++)
            st[i].total += st[i].predicted[k] = predict(&o->roof, &st[i].t.row[k]);
    }
    if (n_guess)
        look_between(s, &st[ROUND].t, depth, asked, b);
    if (n_guess && session_has_head(s))
        snprintf(st[ROUND].title, sizeof st[ROUND].title, "round of a step of %u rows and %u guess%s of the draft head", st[ROUND].n_tok, n_guess,
                 n_guess > 1 ? "es" : "");
    session_close(s);
    return result;
}

static void set_step(struct step *st, const char *name, uint32_t n_tok)
{
    st->n_tok = n_tok;
    snprintf(st->title, sizeof st->title, "%s of %u row%s", name, n_tok, n_tok > 1 ? "s" : "");
}

int cmd_ledger(const struct options *o)
{
    struct err e;
    model *m = NULL;
    struct step *st = calloc(N_STEP, sizeof *st);
    struct between b = { 0 };
    struct model_params p = { .n_threads = o->n_threads, .backend = o->backend, .device = o->device, .draft_path = o->draft_path, .head = o->draft > 0 && o->n_parallel <= 1,
                              .record_only = true };
    size_t depth = o->ledger_depth;
    status s = st ? model_open(&m, o->model_path, &p, &e) : fail(&e, ERR_NOMEM, "ledger");
    if (s == OK) {
        set_step(&st[DECODE], "decode step", o->n_parallel);
        set_step(&st[PREFILL], "prompt step", o->n_ubatch ? o->n_ubatch : 2048);
        if (o->draft > 0)
            set_step(&st[ROUND], "verify step", o->n_parallel * ((uint32_t)o->draft + 1));
        s = record(m, o, depth, st, &b, &e);
    }
    if (s == OK) {
        struct file_need n = file_need(model_gguf(m), model_shape(m));
        if (o->json) {
            print_json(m, st, &b, &o->roof, depth, &n);
        } else {
            printf("%-13s %s\n", model_backend(m), model_device(m));
            for (int i = 0; i < N_STEP; i++)
                if (st[i].n_tok)
                    print_step(&st[i], &o->roof, depth);
            if (o->draft > 0)
                print_between(&b);
            if (o->draft > 0 && o->roof.n)
                print_pays(st);
            print_file(&st[DECODE], &o->roof, &n);
        }
    }
    if (s != OK)
        console_error(o->con, "%s", e.msg);
    model_close(m);
    free(st);
    return exit_code_of(s);
}
