/* bench_print.c - results as a table, csv, json or jsonl, on stdout. */
#include "model/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void test_label(const struct bench_test *t, char out[64])
{
    int n = snprintf(out, 64, t->n_prompt ? "pp%" PRIu64 : "tg%" PRIu64, t->n_prompt ? t->n_prompt : t->n_gen);
    if (t->n_parallel > 1)
        n += snprintf(out + n, 64 - (size_t)n, " x%u", t->n_parallel);
    if (t->n_depth)
        n += snprintf(out + n, 64 - (size_t)n, " @ d%" PRIu64 "%s", t->n_depth, t->fill_random ? " random" : "");
    if (t->draft != DRAFT_OFF)
        snprintf(out + n, 64 - (size_t)n, " draft %s", draft_name(t->draft));
}

const char *draft_name(int draft)
{
    static const char *const name[] = { "auto", "off", "1", "2", "3", "4", "5", "6", "7" };
    return name[draft + 1];
}

/* ---- table ---- */

/* Columns that are there when they say something */
static bool shows_ubatch(const struct options *o) { return o->b_ubatch.given; }
static bool shows_kv(const struct options *o) { return o->b_kv.given || o->precise; }

static void md_head(const struct bench *b)
{
    const struct options *o = b->o;
    printf("| model    |       size |      params | backend |%s%s%s             test |                  t/s |\n", b->on_cpu ? " threads |" : "",
           shows_ubatch(o) ? " n_ubatch |" : "", shows_kv(o) ? " type_k |" : "");
    printf("| -------- | ---------: | ----------: | ------- |%s%s%s ---------------: | -------------------: |\n", b->on_cpu ? " ------: |" : "",
           shows_ubatch(o) ? " -------: |" : "", shows_kv(o) ? " -----: |" : "");
}

static void md_line(const struct bench *b, const struct bench_test *t, const char *test, const char *speed)
{
    char size[32];
    snprintf(size, sizeof size, "%.2f GiB", (double)gguf_file_bytes(model_gguf(b->m)) / (double)(1 << 30));
    printf("| qwen4exp | %10s | %9.2f B | %-7s |", size, (double)b->params / 1e9, b->backend);
    if (b->on_cpu)
        printf(" %7u |", model_threads(b->m));
    if (shows_ubatch(b->o))
        printf(" %8zu |", session_n_ubatch(b->s));
    if (shows_kv(b->o))
        printf(" %6s |", kv_type_name(&t->form));
    printf(" %16s | %20s |\n", test, speed);
}

static void md_result(const struct bench *b, const struct result *r, const char *suffix)
{
    double mean, dev;
    char test[96], label[64], speed[64];
    test_label(&r->t, label);
    snprintf(test, sizeof test, "%s%s", label, suffix);
    mean_dev(r->rate, r->n, &mean, &dev);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", mean, dev);
    md_line(b, &r->t, test, speed);
    if (r->drafts.rounds) /* of the last run */
        console_note(b->o->con, "%s: %llu of %llu guesses accepted in %llu passes, %.2f tok a pass", test, (unsigned long long)r->drafts.accepted,
                (unsigned long long)r->drafts.drafted, (unsigned long long)r->drafts.passes, (double)r->drafts.tokens / (double)r->drafts.passes);
    if (r->cold > 0) {
        snprintf(test, sizeof test, "%s cold%s", label, suffix);
        snprintf(speed, sizeof speed, "%.2f", r->cold);
        md_line(b, &r->t, test, speed);
    }
}

static void md_ratio(const struct bench *b, const struct result *r, const struct result *other)
{
    char label[64];
    struct ratio q = abba_ratio(r->rate, other->rate, r->n / 2);
    test_label(&r->t, label);
    printf("%s: with %s %.4f times as fast, 95 %% of draws within %.4f and %.4f, %zu rounds of A B B A\n", label, b->o->abba, q.mid, q.low, q.high, r->n / 2);
}

static void md_memory(const struct bench *b)
{
    const double mib = 1 << 20;
    printf("\ndevice memory: %.1f MiB planned, %.1f allocated, ", (double)b->memory.planned / mib, (double)b->memory.asked / mib);
    if (b->memory.driver)
        printf("%.1f by the driver's count", (double)b->memory.driver / mib);
    else
        printf("the driver does not count");
    printf("; loaded in %.2f s\n", b->load_seconds);
}

/* ---- csv: one column per field that is no list and no object ---- */

static void csv_cell(const char *p, bool first)
{
    fputs(first ? "\"" : ",\"", stdout);
    for (; *p; p++)
        printf(*p == '"' ? "\"\"" : "%c", *p);
    putchar('"');
}

static void csv_result(const struct bench *b, const struct result *r, bool head)
{
    json_t *j = result_json(b, r), *v;
    const char *key;
    bool first = true;
    json_object_foreach(j, key, v)
        if (head && !json_is_array(v) && !json_is_object(v)) {
            csv_cell(key, first);
            first = false;
        }
    if (head)
        putchar('\n');
    first = true;
    json_object_foreach(j, key, v) {
        if (json_is_array(v) || json_is_object(v))
            continue;
        char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        csv_cell(json_is_string(v) ? json_string_value(v) : text ? text : "", first);
        first = false;
        free(text);
    }
    putchar('\n');
    json_decref(j);
}

/* ---- json ---- */

static void json_result(const struct bench *b, const struct result *r, const struct result *other)
{
    json_t *j = result_json(b, r);
    if (j && other) {
        struct ratio q = abba_ratio(r->rate, other->rate, r->n / 2);
        json_t *ts = json_array();
        for (size_t i = 0; i < other->n; i++)
            json_array_append_new(ts, json_real(other->rate[i]));
        json_object_set_new(j, "abba", json_pack("{s:s,s:o,s:f,s:f,s:f}", "switch", b->o->abba, "samples_ts", ts, "ratio", q.mid, "ratio_low", q.low,
                                                 "ratio_high", q.high));
    }
    if (j)
        json_dumpf(j, stdout, JSON_COMPACT);
    json_decref(j);
}

/* ---- which ---- */

void print_begin(const struct bench *b)
{
    if (b->o->b_out == OUT_JSON)
        printf("[");
}

void print_result(const struct bench *b, const struct result *r, const struct result *other, bool first)
{
    switch (b->o->b_out) {
    case OUT_MD:
        if (first)
            md_head(b);
        md_result(b, r, other ? " A" : "");
        if (other) {
            md_result(b, other, " B");
            md_ratio(b, r, other);
        }
        break;
    case OUT_CSV:
        csv_result(b, r, first);
        break;
    case OUT_JSON:
        printf(first ? "\n" : ",\n");
        json_result(b, r, other);
        break;
    case OUT_JSONL:
        json_result(b, r, other);
        putchar('\n');
        break;
    }
    fflush(stdout);
}

void print_end(const struct bench *b, bool any)
{
    if (b->o->b_out == OUT_JSON)
        printf("\n]\n");
    if (b->o->b_out != OUT_MD || !any)
        return;
    if (!b->on_cpu)
        md_memory(b);
    printf("\nbuild: %s, %s%s%s\n", HAYATE_COMMIT, model_arithmetic(b->m), b->on_cpu ? ", " : "", b->on_cpu ? b->cpu : "");
}
