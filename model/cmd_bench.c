/* cmd_bench.c - throughput with the labels, statistics and field names of llama-bench.
 *
 * A test is ppN (one prompt of N ids) or tgN (N decode steps), at a depth of D ids that were filled before and are not timed. The depth is filled
 * once, with ids or with random caches (--fill); every repetition starts from a mark of it. Ids are random from a seed: the same trace in every
 * repetition. One warm-up per test. Not timed: loading, tokenising, sampling. */
#include "model/answer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Repetitions of one test (-r); ids evaluated before a random fill, so that the recurrent state is one */
enum { MAX_REPS = 1000, BEFORE_FILL = 64 };

struct bench {
    const struct options *o;
    model *m;
    session *s;
    int32_t *ids; /* depth, then prompt or generated ids */
    void *mark;
    uint64_t params, bytes; /* of the tensors */
    char cpu[96], size[32];
    const char *backend;    /* as llama-bench writes it */
    bool on_cpu;
};

struct result {
    uint64_t n_prompt, n_gen, n_depth;
    size_t n;
    double rate[MAX_REPS]; /* tokens per second */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void cpu_name(char *out, size_t n)
{
    char line[256];
    snprintf(out, n, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(out, n, "%s", colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

/* One timed run from the mark */
static status run_once(struct bench *b, const struct result *r, double *seconds, struct err *e)
{
    TRY(session_return(b->s, b->mark, e));
    const int32_t *ids = b->ids + r->n_depth;
    double t0 = now();
    if (r->n_prompt) {
        TRY(session_prefill(b->s, ids, r->n_prompt, NULL, NULL, e));
        TRY(session_flush(b->s, NULL, NULL, e));
    }
    for (uint64_t i = 0; i < r->n_gen; i++)
        TRY(session_decode(b->s, ids[r->n_prompt + i], e));
    *seconds = now() - t0;
    return model_check_logits(b->m, session_logits(b->s), e);
}

static void leave_depth(struct bench *b)
{
    session_close(b->s);
    free(b->ids);
    free(b->mark);
    b->s = NULL, b->ids = NULL, b->mark = NULL;
}

/* A session with room for the largest test behind n_depth ids, filled with them and marked: every run of this depth starts there. */
static status enter_depth(struct bench *b, uint64_t n_depth, struct err *e)
{
    const struct options *o = b->o;
    uint64_t longest = 1;
    for (size_t i = 0; i < o->b_prompt.n; i++)
        longest = MAX(longest, o->b_prompt.v[i]);
    for (size_t i = 0; i < o->b_gen.n; i++)
        longest = MAX(longest, o->b_gen.v[i]);
    struct session_params p = session_params_of(o, n_depth + longest);
    TRY(session_open(&b->s, b->m, &p, o->mem_limit, e));
    b->ids = calloc(p.n_ctx, sizeof *b->ids);
    b->mark = malloc(session_mark_bytes(b->s));
    if (!b->ids || !b->mark)
        return fail(e, ERR_NOMEM, "%zu ids and a mark of %zu bytes", p.n_ctx, session_mark_bytes(b->s));
    uint64_t x = ((o->sample.seed + 1) * 0x9E3779B97F4A7C15u) | 1; /* xorshift64: the same trace on every machine */
    for (size_t i = 0; i < p.n_ctx; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        b->ids[i] = (int32_t)((x >> 32) % model_shape(b->m)->n_vocab);
    }
    uint64_t n_real = o->b_fill == FILL_RANDOM ? MIN(n_depth, (uint64_t)BEFORE_FILL) : n_depth;
    for (size_t at = 0, step = 8192; at < n_real && !*o->stop; at += step)
        TRY(session_prefill(b->s, b->ids + at, MIN(step, n_real - at), NULL, NULL, e));
    if (n_real < n_depth)
        TRY(session_fill(b->s, n_depth, o->sample.seed, e));
    return session_mark(b->s, b->mark, e);
}

/* ---- --profile: time per kernel row ---- */

struct profile {
    struct profile_row {
        const char *row;
        uint32_t calls;
        double seconds;
    } row[128];
    size_t n;
    double seconds;
    uint32_t calls;
};

static void profile_call(void *ctx, const char *row, double seconds)
{
    struct profile *p = ctx;
    size_t i = 0;
    while (i < p->n && strcmp(p->row[i].row, row) != 0)
        i++;
    if (i == COUNT_OF(p->row))
        return;
    if (i == p->n)
        p->row[p->n++] = (struct profile_row){ .row = row };
    p->row[i].calls++;
    p->row[i].seconds += seconds;
    p->seconds += seconds;
    p->calls++;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct profile_row *)a)->seconds, y = ((const struct profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

static status print_profile(struct bench *b, const struct result *r, bool decode, struct err *e)
{
    struct profile p = { .n = 0 };
    TRY(session_profile(b->s, decode, profile_call, &p, e));
    qsort(p.row, p.n, sizeof p.row[0], by_seconds);
    fprintf(stderr, "%s step at depth %llu: %u calls, %.3f ms\n%-18s %6s %10s %9s %7s\n", decode ? "decode" : "prefill", (unsigned long long)r->n_depth,
            p.calls, 1e3 * p.seconds, "row", "calls", "ms", "us each", "share");
    for (size_t i = 0; i < p.n; i++)
        fprintf(stderr, "%-18s %6u %10.3f %9.2f %6.1f%%\n", p.row[i].row, p.row[i].calls, 1e3 * p.row[i].seconds, 1e6 * p.row[i].seconds / p.row[i].calls,
                100 * p.row[i].seconds / p.seconds);
    return OK;
}

static status run_test(struct bench *b, struct result *r, struct err *e)
{
    struct result warm = { .n_prompt = MIN(r->n_prompt, (uint64_t)512), .n_gen = MIN(r->n_gen, (uint64_t)8), .n_depth = r->n_depth };
    double seconds;
    TRY(run_once(b, &warm, &seconds, e));
    for (r->n = 0; r->n < b->o->b_reps && !*b->o->stop; r->n++) {
        TRY(run_once(b, r, &seconds, e));
        r->rate[r->n] = (double)(r->n_prompt + r->n_gen) / seconds;
    }
    if (b->o->profile && r->n_prompt)
        TRY(print_profile(b, r, false, e));
    if (b->o->profile && r->n_gen)
        TRY(print_profile(b, r, true, e));
    return OK;
}

/* Mean and sample standard deviation */
static void mean_dev(const double *x, size_t n, double *mean, double *dev)
{
    *mean = *dev = 0;
    for (size_t i = 0; i < n; i++)
        *mean += x[i] / (double)n;
    for (size_t i = 0; n > 1 && i < n; i++)
        *dev += (x[i] - *mean) * (x[i] - *mean) / (double)(n - 1);
    *dev = sqrt(*dev);
}

static void print_json(const struct bench *b, const struct result *r)
{
    const struct options *o = b->o;
    char when[32];
    time_t t = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    const struct session_params p = session_params_of(o, 1);
    const char *kv = kv_type_name(&p);
    const char *name = gguf_name(model_gguf(b->m));
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:I,s:I}", "build_commit", HAYATE_COMMIT, "cpu_info", b->cpu, "gpu_info",
                          b->on_cpu ? "" : model_device(b->m), "backends", b->backend, "model_filename", json_of(name, strlen(name)), "model_type", "qwen4exp", "model_size", (json_int_t)b->bytes, "model_n_params",
                          (json_int_t)b->params);
    json_t *ns = json_array(), *ts = json_array();
    double ns_of[MAX_REPS], mean, dev;
    for (size_t i = 0; i < r->n; i++) {
        ns_of[i] = 1e9 * (double)(r->n_prompt + r->n_gen) / r->rate[i];
        json_array_append_new(ns, json_integer((json_int_t)ns_of[i]));
        json_array_append_new(ts, json_real(r->rate[i]));
    }
    const struct {
        const char *key;
        json_int_t value;
    } number[] = {
        { "n_batch", (json_int_t)session_n_ubatch(b->s) }, { "n_ubatch", (json_int_t)session_n_ubatch(b->s) },
        { "n_threads", model_threads(b->m) }, { "n_gpu_layers", b->on_cpu ? 0 : model_shape(b->m)->n_layer },
        { "n_prompt", (json_int_t)r->n_prompt }, { "n_gen", (json_int_t)r->n_gen }, { "n_depth", (json_int_t)r->n_depth },
    };
    for (size_t i = 0; i < COUNT_OF(number); i++)
        if (b->on_cpu || strcmp(number[i].key, "n_threads") != 0)
            json_object_set_new(j, number[i].key, json_integer(number[i].value));
    json_object_set_new(j, "type_k", json_string(kv));
    json_object_set_new(j, "type_v", json_string(kv));
    json_object_set_new(j, "precise", json_boolean(o->precise));
    json_object_set_new(j, "fill", json_string(o->b_fill == FILL_RANDOM ? "random" : "prompt"));
    json_object_set_new(j, "test_time", json_string(when));
    mean_dev(ns_of, r->n, &mean, &dev);
    json_object_set_new(j, "avg_ns", json_integer((json_int_t)mean));
    json_object_set_new(j, "stddev_ns", json_integer((json_int_t)dev));
    mean_dev(r->rate, r->n, &mean, &dev);
    json_object_set_new(j, "avg_ts", json_real(mean));
    json_object_set_new(j, "stddev_ts", json_real(dev));
    json_object_set_new(j, "samples_ns", ns);
    json_object_set_new(j, "samples_ts", ts);
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

static void print_md(const struct bench *b, const struct result *r)
{
    double avg, dev;
    char test[64], speed[48];
    mean_dev(r->rate, r->n, &avg, &dev);
    int n = snprintf(test, sizeof test, r->n_prompt ? "pp%" PRIu64 : "tg%" PRIu64, r->n_prompt ? r->n_prompt : r->n_gen);
    if (r->n_depth)
        snprintf(test + n, sizeof test - (size_t)n, " @ d%" PRIu64 "%s", r->n_depth, b->o->b_fill == FILL_RANDOM ? " random" : "");
    snprintf(speed, sizeof speed, "%.2f ± %.2f", avg, dev);
    printf("| qwen4exp | %10s | %9.2f B | %-7s |", b->size, (double)b->params / 1e9, b->backend);
    if (b->on_cpu)
        printf(" %7u |", model_threads(b->m));
    printf(" %16s | %20s |\n", test, speed);
}

/* Every test at one depth: prompts, then generation */
static status run_depth(struct bench *b, uint64_t n_depth, struct err *e)
{
    const struct options *o = b->o;
    TRY(enter_depth(b, n_depth, e));
    for (size_t i = 0; i < o->b_prompt.n + o->b_gen.n && !*o->stop; i++) {
        bool gen = i >= o->b_prompt.n;
        struct result r = { .n_depth = n_depth };
        *(gen ? &r.n_gen : &r.n_prompt) = gen ? o->b_gen.v[i - o->b_prompt.n] : o->b_prompt.v[i];
        if (r.n_prompt + r.n_gen == 0)
            continue;
        TRY(run_test(b, &r, e));
        if (r.n == o->b_reps) { /* else interrupted: the tests printed so far stand */
            (o->b_out == OUT_MD ? print_md : print_json)(b, &r);
            fflush(stdout);
        }
    }
    return OK;
}

static int run_all(struct bench *b)
{
    const struct options *o = b->o;
    struct err e;
    if (o->b_out == OUT_MD)
        printf("| model    |       size |      params | backend |%s             test |                  t/s |\n"
               "| -------- | ---------: | ----------: | ------- |%s ---------------: | -------------------: |\n",
               b->on_cpu ? " threads |" : "", b->on_cpu ? " ------: |" : "");
    for (size_t d = 0; d < o->b_depth.n && !*o->stop; d++) {
        status s = run_depth(b, o->b_depth.v[d], &e);
        leave_depth(b);
        if (s != OK) {
            console_error(o->con, "bench: %s", e.msg);
            return exit_code_of(s);
        }
    }
    if (*o->stop)
        return 128 + *o->stop;
    if (o->b_out == OUT_MD)
        printf("\nbuild: %s, %s%s%s\n", HAYATE_COMMIT, model_arithmetic(b->m), b->on_cpu ? ", " : "", b->on_cpu ? b->cpu : "");
    return EXIT_DONE;
}

int cmd_bench(const struct options *o)
{
    struct err e;
    struct bench b = { .o = o };
    if (open_model(o, &b.m, &e) != OK) {
        if (*o->stop)
            return 128 + *o->stop;
        console_error(o->con, "%s", e.msg);
        return exit_code_of(e.code);
    }
    const gguf *g = model_gguf(b.m);
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        b.params += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        b.bytes += t->bytes;
    }
    snprintf(b.size, sizeof b.size, "%.2f GiB", (double)gguf_file_bytes(g) / (double)(1 << 30));
    cpu_name(b.cpu, sizeof b.cpu);
    b.on_cpu = strcmp(model_backend(b.m), "cpu") == 0;
    b.backend = b.on_cpu ? "CPU" : "Vulkan";
    int code = run_all(&b);
    model_close(b.m);
    return code;
}
