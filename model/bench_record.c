/* bench_record.c - a result as an object: the fields of llama-bench, the samples, and the record of what it was measured with. */
#include "model/answer.h"
#include "model/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static json_t *hash_json(uint64_t h) { return json_sprintf("%016llx", (unsigned long long)h); }

/* Of the program's own file */
static json_t *binary_hash(void)
{
    static char part[1 << 16];
    FILE *f = fopen("/proc/self/exe", "rbe");
    XXH3_state_t *state = XXH3_createState();
    json_t *j = NULL;
    size_t n;
    if (f && state && XXH3_64bits_reset(state) == XXH_OK) {
        while ((n = fread(part, 1, sizeof part, f)) > 0)
            XXH3_64bits_update(state, part, n);
        if (!ferror(f))
            j = hash_json(XXH3_64bits_digest(state));
    }
    XXH3_freeState(state);
    if (f)
        fclose(f);
    return j ? j : json_string("not readable");
}

static json_t *build_json(void)
{
    json_t *j = json_pack("{s:s,s:s,s:s}", "commit", HAYATE_COMMIT, "compiler", COMPILER, "flags", HAYATE_FLAGS);
    json_object_set_new(j, "binary_xxh3", binary_hash());
    return j;
}

static json_t *model_json(const struct bench *b)
{
    const gguf *g = model_gguf(b->m);
    json_t *j = json_pack("{s:I,s:I,s:I}", "tensors", (json_int_t)gguf_n_tensors(g), "file_bytes", (json_int_t)gguf_file_bytes(g), "shards",
                          (json_int_t)gguf_n_shards(g));
    json_object_set_new(j, "identity_xxh3", hash_json(b->identity));
    return j;
}

static json_t *input_json(const struct bench *b)
{
    json_t *j = json_pack("{s:s,s:I}", "kind", b->o->bench_text ? "text" : "random ids, xorshift64", "ids", (json_int_t)b->n_ctx);
    if (b->o->bench_text) {
        json_object_set_new(j, "file", json_of(b->o->bench_text, strlen(b->o->bench_text)));
        json_object_set_new(j, "xxh3", hash_json(b->text_hash));
        json_object_set_new(j, "tokens", json_integer((json_int_t)b->text.n));
    }
    return j;
}

/* What of the environment changes how drivers or this program work, as far as it is set */
static json_t *environment_json(const struct options *o)
{
    json_t *j = json_object();
    for (size_t i = 0; i < o->n_env; i++)
        json_object_set_new(j, o->env[i].name, json_of(o->env[i].value, strlen(o->env[i].value)));
    return j;
}

static json_t *page_cache_json(const struct bench *b)
{
    double x = b->share_before;
    return json_pack("{s:o,s:s}", "share_before_load", x < 0 ? json_string("not readable") : json_real(x), "start",
                     x < 0 ? "built in" : x < PAGE_CACHE_COLD ? "cold" : x > 0.95 ? "warm" : "mixed");
}

static json_t *record_json(const struct bench *b, const struct result *r)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o}", "build", build_json(), "model", model_json(b), "input", input_json(b), "machine",
                     machine_json(""), "device", model_device(b->m), "page_cache", page_cache_json(b), "sensors", readings_json(&r->readings), "environment",
                     environment_json(b->o));
}

/* Fields that depend on the kind of device */
static void put_device(json_t *j, const struct bench *b)
{
    json_object_set_new(j, "n_gpu_layers", json_integer(b->on_cpu ? 0 : model_shape(b->m)->n_layer));
    if (b->on_cpu) {
        json_object_set_new(j, "n_threads", json_integer(model_threads(b->m)));
        return;
    }
    json_object_set_new(j, "device_bytes_planned", json_integer((json_int_t)b->memory.planned));
    json_object_set_new(j, "device_bytes_allocated", json_integer((json_int_t)b->memory.asked));
    json_object_set_new(j, "device_bytes_driver", b->memory.driver ? json_integer((json_int_t)b->memory.driver) : json_null());
}

static void put_samples(json_t *j, const struct result *r)
{
    static double ns_of[MAX_SAMPLES];
    json_t *ns = json_array(), *ts = json_array();
    double mean, dev;
    for (size_t i = 0; i < r->n; i++) {
        ns_of[i] = 1e9 * (double)test_tokens(&r->t) / r->rate[i];
        json_array_append_new(ns, json_integer((json_int_t)ns_of[i]));
        json_array_append_new(ts, json_real(r->rate[i]));
    }
    mean_dev(ns_of, r->n, &mean, &dev);
    json_object_set_new(j, "avg_ns", json_integer((json_int_t)mean));
    json_object_set_new(j, "stddev_ns", json_integer((json_int_t)dev));
    mean_dev(r->rate, r->n, &mean, &dev);
    json_object_set_new(j, "avg_ts", json_real(mean));
    json_object_set_new(j, "stddev_ts", json_real(dev));
    if (r->cold > 0)
        json_object_set_new(j, "cold_ts", json_real(r->cold));
    json_object_set_new(j, "samples_ns", ns);
    json_object_set_new(j, "samples_ts", ts);
}

json_t *result_json(const struct bench *b, const struct result *r)
{
    char when[32], label[64];
    time_t t = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    test_label(&r->t, label);
    const struct session_params *form = &r->t.form;
    const char *kv = kv_type_name(form), *name = gguf_name(model_gguf(b->m));
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:I,s:I}", "build_commit", HAYATE_COMMIT, "cpu_info", b->cpu, "gpu_info",
                          b->on_cpu ? "" : model_device(b->m), "backends", b->backend, "model_filename", json_of(name, strlen(name)), "model_type",
                          "qwen4exp", "model_size", (json_int_t)b->bytes, "model_n_params", (json_int_t)b->params);
    if (!j)
        return NULL;
    const struct {
        const char *key;
        uint64_t value;
    } number[] = { { "n_batch", session_n_ubatch(b->s) }, { "n_ubatch", session_n_ubatch(b->s) }, { "n_prompt", r->t.n_prompt },
                   { "n_gen", r->t.n_gen }, { "n_depth", r->t.n_depth }, { "n_parallel", r->t.n_parallel } };
    for (size_t i = 0; i < COUNT_OF(number); i++)
        json_object_set_new(j, number[i].key, json_integer((json_int_t)number[i].value));
    put_device(j, b);
    json_object_set_new(j, "load_seconds", json_real(b->load_seconds));
    json_object_set_new(j, "type_k", json_string(kv));
    json_object_set_new(j, "type_v", json_string(kv));
    json_object_set_new(j, "precise", json_boolean(form->precise));
    json_object_set_new(j, "no_gather", json_boolean(form->no_gather));
    json_object_set_new(j, "no_union", json_boolean(form->no_union));
    json_object_set_new(j, "no_pooled_cache", json_boolean(form->no_pooled_cache));
    json_object_set_new(j, "pooled_max_tokens", json_integer(form->pooled_max_tokens));
    json_object_set_new(j, "fill", json_string(r->t.fill_random ? "random" : "prompt"));
    json_object_set_new(j, "seed", json_sprintf("%" PRIu64, r->t.seed));
    json_object_set_new(j, "draft", json_string(draft_name(r->t.draft)));
    if (r->drafts.passes)
        json_object_set_new(j, "drafts", drafts_json(&r->drafts));
    json_object_set_new(j, "test", json_string(label));
    json_object_set_new(j, "test_time", json_string(when));
    put_samples(j, r);
    json_object_set_new(j, "record", record_json(b, r));
    return j;
}
