/* cmd_bench.c - throughput with the labels, statistics and field names of llama-bench.
 *
 * A test is ppN (one prompt of N ids) or tgN (N decode steps), at a depth of D ids that were filled before and are not timed. The depth is filled
 * once; every repetition starts from a mark of it. Ids are random from a fixed seed: the same trace in every repetition. One warm-up per
 * test. Not timed: loading, tokenising, sampling. */
#include "model/options.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench {
    const struct options *o;
    model *m;
    session *s;
    int32_t *ids; /* depth, then prompt or generated ids */
    void *mark;
    uint64_t params;
    char cpu[96], size[32];
};

struct result {
    uint64_t n_prompt, n_gen, n_depth;
    size_t n;
    double *seconds;
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
    session_return(b->s, b->mark);
    const int32_t *ids = b->ids + r->n_depth;
    double t0 = now();
    if (r->n_prompt) {
        TRY(session_prefill(b->s, ids, r->n_prompt, NULL, NULL, e));
        TRY(session_flush(b->s, NULL, NULL, e));
    }
    for (uint64_t i = 0; i < r->n_gen; i++)
        TRY(session_decode(b->s, ids[r->n_prompt + i], e));
    *seconds = now() - t0;
    return OK;
}

static status run_test(struct bench *b, struct result *r, struct err *e)
{
    status st = OK;
    const struct options *o = b->o;
    struct session_params p = { .n_ctx = r->n_depth + r->n_prompt + r->n_gen + 1, .n_ubatch = o->n_ubatch, .kv = o->kv, .precise = o->precise };
    TRY(session_open(&b->s, b->m, &p, o->mem_limit, e));
    b->ids = calloc(p.n_ctx, sizeof *b->ids);
    b->mark = malloc(session_mark_bytes(b->s));
    r->seconds = calloc(o->b_reps, sizeof *r->seconds);
    if (!b->ids || !b->mark || !r->seconds) {
        st = fail(e, ERR_NOMEM, "bench: %zu ids and a mark of %zu bytes", p.n_ctx, session_mark_bytes(b->s));
        goto out;
    }
    uint64_t x = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < p.n_ctx; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        b->ids[i] = (int32_t)((x >> 32) % model_shape(b->m)->n_vocab);
    }
    if (r->n_depth)
        TRY_OR(out, st, session_prefill(b->s, b->ids, r->n_depth, NULL, NULL, e));
    TRY_OR(out, st, session_mark(b->s, b->mark, e));
    struct result warm = { .n_prompt = MIN(r->n_prompt, (uint64_t)512), .n_gen = MIN(r->n_gen, (uint64_t)8), .n_depth = r->n_depth };
    double ignored;
    TRY_OR(out, st, run_once(b, &warm, &ignored, e));
    for (r->n = 0; r->n < o->b_reps && !*o->stop; r->n++)
        TRY_OR(out, st, run_once(b, r, &r->seconds[r->n], e));
out:
    session_close(b->s);
    free(b->ids);
    free(b->mark);
    b->s = NULL, b->ids = NULL, b->mark = NULL;
    return st;
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

static void print_json(const struct bench *b, const struct result *r, const double *ts, const double *ns)
{
    const struct options *o = b->o;
    char when[32];
    time_t t = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    double avg_ts, dev_ts, avg_ns, dev_ns;
    mean_dev(ts, r->n, &avg_ts, &dev_ts);
    mean_dev(ns, r->n, &avg_ns, &dev_ns);
    const char *kv = o->precise || o->kv == KV_F32 ? "f32" : "f16";
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:i,s:i,s:s,s:s,s:b}", "build_commit", HAYATE_COMMIT, "cpu_info", b->cpu, "backends", "CPU",
                          "model_filename", gguf_name(model_gguf(b->m)), "model_type", "qwen4exp", "model_size",
                          (json_int_t)gguf_file_bytes(model_gguf(b->m)), "model_n_params", (json_int_t)b->params, "n_ubatch",
                          (int)(o->n_ubatch ? o->n_ubatch : 512), "n_threads", (int)model_threads(b->m), "type_k", kv, "type_v", kv, "precise", o->precise);
    json_object_set_new(j, "n_prompt", json_integer((json_int_t)r->n_prompt));
    json_object_set_new(j, "n_gen", json_integer((json_int_t)r->n_gen));
    json_object_set_new(j, "n_depth", json_integer((json_int_t)r->n_depth));
    json_object_set_new(j, "test_time", json_string(when));
    json_object_set_new(j, "avg_ns", json_real(round(avg_ns)));
    json_object_set_new(j, "stddev_ns", json_real(round(dev_ns)));
    json_object_set_new(j, "avg_ts", json_real(avg_ts));
    json_object_set_new(j, "stddev_ts", json_real(dev_ts));
    json_t *a = json_array(), *c = json_array();
    for (size_t i = 0; i < r->n; i++) {
        json_array_append_new(a, json_integer((json_int_t)ns[i]));
        json_array_append_new(c, json_real(ts[i]));
    }
    json_object_set_new(j, "samples_ns", a);
    json_object_set_new(j, "samples_ts", c);
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

static void print_md(const struct bench *b, const struct result *r, const double *ts)
{
    double avg, dev;
    char test[64], speed[48];
    mean_dev(ts, r->n, &avg, &dev);
    int n = snprintf(test, sizeof test, r->n_prompt ? "pp%" PRIu64 : "tg%" PRIu64, r->n_prompt ? r->n_prompt : r->n_gen);
    if (r->n_depth)
        snprintf(test + n, sizeof test - (size_t)n, " @ d%" PRIu64, r->n_depth);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", avg, dev);
    printf("| qwen4exp | %10s | %9.2f B | CPU | %7u | %16s | %20s |\n", b->size, (double)b->params / 1e9, model_threads(b->m), test, speed);
}

static int run_all(struct bench *b)
{
    const struct options *o = b->o;
    struct err e;
    if (o->b_out == OUT_MD)
        printf("| model    |       size |      params | backend | threads |             test |                 t/s |\n"
               "| -------- | ---------: | ----------: | ------- | ------: | ---------------: | ------------------: |\n");
    for (size_t d = 0; d < o->b_depth.n; d++)
        for (int gen = 0; gen < 2; gen++) {
            const struct uint_list *list = gen ? &o->b_gen : &o->b_prompt;
            for (size_t i = 0; i < list->n; i++) {
                struct result r = { .n_prompt = gen ? 0 : list->v[i], .n_gen = gen ? list->v[i] : 0, .n_depth = o->b_depth.v[d] };
                if (r.n_prompt + r.n_gen == 0)
                    continue;
                status s = run_test(b, &r, &e);
                if (*o->stop) { /* the tests printed so far stand */
                    free(r.seconds);
                    return 128 + *o->stop;
                }
                if (s != OK) {
                    free(r.seconds);
                    console_error(o->con, "bench: %s", e.msg);
                    return exit_code_of(s);
                }
                double *ts = r.seconds, *ns = calloc(r.n, sizeof *ns);
                if (!ns) {
                    free(ts);
                    console_error(o->con, "bench: out of memory");
                    return EXIT_FAILED;
                }
                for (size_t k = 0; k < r.n; k++) {
                    ns[k] = 1e9 * r.seconds[k];
                    ts[k] = (double)(r.n_prompt + r.n_gen) / r.seconds[k];
                }
                if (o->b_out == OUT_MD)
                    print_md(b, &r, ts);
                else
                    print_json(b, &r, ts, ns);
                fflush(stdout);
                free(ts);
                free(ns);
            }
        }
    if (o->b_out == OUT_MD)
        printf("\nbuild: %s, %s, %s\n", HAYATE_COMMIT, model_isa(b->m), b->cpu);
    return EXIT_DONE;
}

int cmd_bench(const struct options *o)
{
    struct err e;
    struct bench b = { .o = o };
    if (model_open(&b.m, o->model_path, &(struct model_params){ .n_threads = o->n_threads }, &e) != OK) {
        console_error(o->con, "%s", e.msg);
        return exit_code_of(e.code);
    }
    const gguf *g = model_gguf(b.m);
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        b.params += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    }
    snprintf(b.size, sizeof b.size, "%.2f GiB", (double)gguf_file_bytes(g) / (double)(1 << 30));
    cpu_name(b.cpu, sizeof b.cpu);
    int code = run_all(&b);
    model_close(b.m);
    return code;
}
