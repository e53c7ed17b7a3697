/* profile.c - see profile.h. */
#include "model/profile.h"

#include "model/console.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- adding up ---- */

static struct tally_line *line_of(struct tally_line *list, size_t *n, size_t cap, const char *row, const char *part)
{
    for (size_t i = 0; i < *n; i++)
        if ((!row || strcmp(list[i].row, row) == 0) && strcmp(list[i].part, part) == 0)
            return &list[i];
    assert(*n < cap);
    list[*n] = (struct tally_line){ .row = row, .part = part };
    return &list[(*n)++];
}

/* Names are compared once for each pair of pointers to them; where two pairs share a place, whenever they take turns */
static struct tally_known *known(struct tally *t, const char *row, const char *part)
{
    struct tally_known *k = &t->known[(((uintptr_t)row >> 3) ^ ((uintptr_t)part * 31)) % TALLY_KNOWN];
    if (k->row == row && k->part == part)
        return k;
    *k = (struct tally_known){ row, part, line_of(t->row, &t->n_row, TALLY_ROWS, row, part), line_of(t->part, &t->n_part, TALLY_PARTS, NULL, part) };
    return k;
}

void tally_add(struct tally *t, const struct session_call *c)
{
    const struct tally_known *k = known(t, c->row, c->part ? c->part : "other");
    struct tally_line *to[] = { k->of_row, k->of_part, &t->all };
    for (size_t i = 0; i < COUNT_OF(to); i++) {
        to[i]->calls++;
        to[i]->seconds += c->seconds;
        gpu_moves_add(&to[i]->moves, &c->moves);
    }
}

static int longest_first(const void *a, const void *b)
{
    const struct tally_line *x = a, *y = b;
    uint64_t bx = gpu_moves_bytes(&x->moves), by = gpu_moves_bytes(&y->moves);
    if (x->seconds < y->seconds || x->seconds > y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return (bx < by) - (bx > by);
}

void tally_sort(struct tally *t)
{
    qsort(t->row, t->n_row, sizeof *t->row, longest_first);
    qsort(t->part, t->n_part, sizeof *t->part, longest_first);
    memset(t->known, 0, sizeof t->known); /* lines have moved */
}

/* ---- the trace ---- */

status profile_open(struct profile *p, const char *trace_path, struct err *e)
{
    *p = (struct profile){ .trace_path = trace_path };
    if (!trace_path)
        return OK;
    p->trace = fopen(trace_path, "we");
    if (!p->trace)
        return fail(e, ERR_IO, "%s: %s", trace_path, strerror(errno));
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
          "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"calls\"}}",
          p->trace);
    return OK;
}

void profile_restart(struct profile *p)
{
    memset(&p->prefill, 0, sizeof p->prefill);
    memset(&p->decode, 0, sizeof p->decode);
    p->ngram_rows = 0;
    p->ngram_seconds = 0;
    p->wall = 0;
}

void profile_call(void *ctx, const struct session_call *c)
{
    struct profile *p = ctx;
    tally_add(c->decode ? &p->decode : &p->prefill, c);
    if (!p->trace)
        return;
    if (p->n_trace++ == 0)
        p->trace_start = c->start;
    fprintf(p->trace, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":1,\"args\":{\"bytes\":%llu,\"flops\":%llu}}",
            c->row, c->part ? c->part : "other", 1e6 * (c->start - p->trace_start), 1e6 * c->seconds,
            (unsigned long long)gpu_moves_bytes(&c->moves), (unsigned long long)c->moves.flops);
}

status profile_close(struct profile *p, struct err *e)
{
    if (!p->trace)
        return OK;
    fputs("\n]}\n", p->trace);
    struct stat st;
    bool bad = fflush(p->trace) != 0 || ferror(p->trace);
    bool ours = fstat(fileno(p->trace), &st) == 0 && S_ISREG(st.st_mode); /* never a device or a pipe */
    bad |= fclose(p->trace) != 0;
    p->trace = NULL;
    if (!bad)
        return OK;
    if (ours)
        remove(p->trace_path);
    return fail(e, ERR_IO, "%s: cannot write", p->trace_path);
}

/* ---- printing ---- */

static void print_line(FILE *out, const char *row, const char *part, const struct tally_line *l, double whole)
{
    double bytes = (double)gpu_moves_bytes(&l->moves);
    fprintf(out, "%-20s %-11s %8llu %11.3f %9.2f %11.4f %8.2f %6.1f%%\n", row, part, (unsigned long long)l->calls, 1e3 * l->seconds,
            1e6 * l->seconds / (double)l->calls, 1e-6 * bytes / (double)l->calls, l->seconds > 0 ? 1e-9 * bytes / l->seconds : 0,
            whole > 0 ? 100 * l->seconds / whole : 0);
}

static void print_tally(FILE *out, const char *what, struct tally *t, double whole)
{
    if (t->all.calls == 0)
        return;
    tally_sort(t);
    fprintf(out, "%s: %llu calls, %.3f ms in calls\n%-20s %-11s %8s %11s %9s %11s %8s %7s\n", what, (unsigned long long)t->all.calls, 1e3 * t->all.seconds,
            "row", "part", "calls", "ms", "us each", "MB each", "GB/s", "share");
    for (size_t i = 0; i < t->n_row; i++)
        print_line(out, t->row[i].row, t->row[i].part, &t->row[i], whole);
    for (size_t i = 0; i < t->n_part; i++)
        print_line(out, "all", t->part[i].part, &t->part[i], whole);
}

/* Seconds that one look at the clock takes */
static double clock_cost(void)
{
    enum { LOOKS = 2000 };
    double t0 = console_now(), t = t0;
    for (int i = 0; i < LOOKS; i++)
        t = console_now();
    return (t - t0) / LOOKS;
}

static double host_of(const struct profile *p)
{
    double rest = p->wall - p->prefill.all.seconds - p->decode.all.seconds;
    return MAX(rest, 0);
}

void profile_print(struct profile *p, FILE *out, bool on_cpu)
{
    double whole = MAX(p->wall, p->prefill.all.seconds + p->decode.all.seconds);
    uint64_t calls = p->prefill.all.calls + p->decode.all.calls;
    print_tally(out, "prompt steps", &p->prefill, whole);
    print_tally(out, "decode steps", &p->decode, whole);
    fprintf(out, "%-20s %-11s %8s %11.3f %9s %11s %8s %6.1f%%\n", "outside of calls", "host", "", 1e3 * host_of(p), "", "", "",
            whole > 0 ? 100 * host_of(p) / whole : 0);
    if (p->ngram_rows)
        fprintf(out, "%-20s %-11s %8llu %11.3f %9.2f %11s %8s %6.1f%%\n", "n-gram rows", "host", (unsigned long long)p->ngram_rows,
                1e3 * p->ngram_seconds, 1e6 * p->ngram_seconds / (double)p->ngram_rows, "", "", whole > 0 ? 100 * p->ngram_seconds / whole : 0);
    if (on_cpu)
        fprintf(out, "profile: %llu looks at the clock, %.2f %% of %.3f s\n", (unsigned long long)calls, 100 * clock_cost() * (double)calls / MAX(whole, 1e-9),
                whole);
    else
        fprintf(out, "profile: lists are recorded anew for every step and waited for one by one; the host's share is larger than without\n");
}

static json_t *lines_json(const struct tally *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->n_row; i++) {
        const struct tally_line *l = &t->row[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:f,s:I,s:I}", "row", l->row, "part", l->part, "calls", (json_int_t)l->calls, "seconds",
                                              l->seconds, "bytes", (json_int_t)gpu_moves_bytes(&l->moves), "flops", (json_int_t)l->moves.flops));
    }
    return list;
}

json_t *profile_json(struct profile *p)
{
    tally_sort(&p->prefill);
    tally_sort(&p->decode);
    return json_pack("{s:o,s:o,s:f,s:I,s:f}", "prefill", lines_json(&p->prefill), "decode", lines_json(&p->decode), "host_s", host_of(p),
                     "ngram_rows", (json_int_t)p->ngram_rows, "ngram_s", p->ngram_seconds);
}
