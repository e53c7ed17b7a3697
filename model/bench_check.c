/* bench_check.c - bench --check: the tests of a record once more, and whether they repeat. */
#include "model/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading a record ---- */

/* One array, or objects one after the other */
static json_t *load(const char *path, struct err *e)
{
    json_error_t je;
    FILE *f = fopen(path, "rbe");
    if (!f) {
        fail(e, ERR_IO, "%s: cannot open", path);
        return NULL;
    }
    json_t *list = NULL, *j = json_loadf(f, JSON_DISABLE_EOF_CHECK, &je);
    if (json_is_array(j)) {
        list = j;
    } else if ((list = json_array())) {
        for (; json_is_object(j); j = json_loadf(f, JSON_DISABLE_EOF_CHECK, &je))
            json_array_append_new(list, j);
        json_decref(j);
    }
    bool at_end = feof(f);
    fclose(f);
    if (list && json_array_size(list) && (at_end || json_is_array(j)))
        return list;
    fail(e, ERR_FORMAT, "%s: found no results, expected what bench -o json or jsonl writes (line %d: %s)", path, je.line, je.text);
    json_decref(list);
    return NULL;
}

/* A whole number within lo .. hi; false: something else */
static bool whole(const json_t *j, const char *key, json_int_t lo, json_int_t hi, uint64_t *out)
{
    const json_t *v = json_object_get(j, key);
    json_int_t x = json_integer_value(v);
    *out = (uint64_t)x;
    return json_is_integer(v) && x >= lo && x <= hi;
}

/* How attention and index work: switches that are not there are off */
static bool read_form(const json_t *j, struct session_params *p)
{
    static const enum kv_type types[] = { KV_F16, KV_F32, KV_Q8_0 };
    const char *kv = json_string_value(json_object_get(j, "type_k"));
    uint64_t n = 0;
    if (!whole(j, "n_ubatch", 1, 65536, &n))
        return false;
    *p = (struct session_params){ .n_ubatch = (uint32_t)n, .precise = json_is_true(json_object_get(j, "precise")) };
    p->no_gather = json_is_true(json_object_get(j, "no_gather"));
    p->no_union = json_is_true(json_object_get(j, "no_union"));
    p->no_pooled_cache = json_is_true(json_object_get(j, "no_pooled_cache"));
    if (json_object_get(j, "pooled_max_tokens") && !whole(j, "pooled_max_tokens", 0, 65536, &n))
        return false;
    p->pooled_max_tokens = json_object_get(j, "pooled_max_tokens") ? (uint32_t)n : 0;
    for (size_t i = 0; kv && i < COUNT_OF(types); i++) {
        p->kv = types[i];
        if (strcmp(kv_type_name(p), kv) == 0)
            return true;
    }
    return false;
}

/* A number in digits; 0 where there is none */
static bool read_seed(const json_t *j, uint64_t *seed)
{
    const json_t *v = json_object_get(j, "seed");
    const char *text = v ? json_string_value(v) : "0";
    char *end = NULL;
    *seed = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end;
}

static bool read_test(const json_t *j, struct bench_test *t)
{
    uint64_t threads = 0, parallel = 1;
    const char *fill = json_string_value(json_object_get(j, "fill"));
    const json_t *samples = json_object_get(j, "samples_ts"), *record = json_object_get(j, "record");
    const json_t *identity = json_object_get(json_object_get(record, "model"), "identity_xxh3");
    bool ok = whole(j, "n_prompt", 0, INT32_MAX, &t->n_prompt) && whole(j, "n_gen", 0, INT32_MAX, &t->n_gen) &&
              whole(j, "n_depth", 0, INT32_MAX, &t->n_depth) && read_form(j, &t->form) && read_seed(j, &t->seed) && t->n_prompt + t->n_gen > 0;
    if (json_object_get(j, "n_parallel")) /* records of before have none */
        ok = ok && whole(j, "n_parallel", 1, SESSION_SEQ_MAX, &parallel);
    if (json_object_get(j, "n_threads"))
        ok = ok && whole(j, "n_threads", 1, 1024, &threads);
    ok = ok && json_array_size(samples) > 0 && json_array_size(samples) <= MAX_REPS &&
         json_is_string(identity) && json_number_value(json_object_get(j, "avg_ts")) > 0 && json_is_number(json_object_get(j, "stddev_ts"));
    if (!ok)
        return false;
    t->n_threads = (uint32_t)threads;
    t->n_parallel = (uint32_t)parallel;
    t->fill_random = fill && strcmp(fill, "random") == 0;
    const char *draft = json_string_value(json_object_get(j, "draft"));
    for (int i = DRAFT_AUTO; draft && i <= DRAFT_MAX; i++)
        if (strcmp(draft, draft_name(i)) == 0)
            t->draft = i;
    t->reps = json_array_size(samples);
    t->was = j;
    return true;
}

/* Model and backend of the record, where the command line names none */
static void take_defaults(const json_t *j, struct options *mine)
{
    const char *name = json_string_value(json_object_get(j, "model_filename")), *backend = json_string_value(json_object_get(j, "backends"));
    if (!mine->model_path && name && *name != '(') /* not the built-in one */
        mine->model_path = name;
    if (mine->backend == BACKEND_AUTO && backend)
        backend_labelled(backend, &mine->backend);
}

status check_read(const char *path, struct options *mine, struct bench_test **tests, size_t *n, json_t **records, struct err *e)
{
    *records = load(path, e);
    if (!*records)
        return e->code;
    *n = json_array_size(*records);
    *tests = calloc(*n, sizeof **tests);
    for (size_t i = 0; *tests && i < *n; i++)
        if (!read_test(json_array_get(*records, i), &(*tests)[i]))
            return fail(e, ERR_FORMAT, "%s: result %zu lacks fields or has others, expected what bench -o json or jsonl writes", path, i + 1);
    take_defaults(json_array_get(*records, 0), mine);
    return *tests ? OK : fail(e, ERR_NOMEM, "%zu tests", *n);
}

/* ---- comparing ---- */

static const char *string_at(const json_t *j, const char *a, const char *b, const char *c)
{
    const json_t *v = json_object_get(json_object_get(json_object_get(j, a), b), c);
    return json_is_string(v) ? json_string_value(v) : "";
}

status check_model(const struct bench *b, const struct bench_test *t, struct err *e)
{
    char now[32], text[32];
    const char *was = string_at(t->was, "record", "model", "identity_xxh3"), *text_was = string_at(t->was, "record", "input", "xxh3");
    const char *backend = json_string_value(json_object_get(t->was, "backends"));
    snprintf(now, sizeof now, "%016" PRIx64, b->identity);
    snprintf(text, sizeof text, "%016" PRIx64, b->text_hash);
    if (strcmp(now, was) != 0)
        return fail(e, ERR_INPUT, "%s: a model with hash %s, the record is of %s", gguf_name(model_gguf(b->m)), now, was);
    if (!backend || strcmp(backend, b->backend) != 0)
        return fail(e, ERR_INPUT, "--check: the record is of backend %s, found %s", backend ? backend : "?", b->backend);
    if (*text_was && strcmp(text, text_was) != 0)
        return fail(e, ERR_INPUT, "--check: the record is of a text with hash %s, found %s; give it with -f", text_was, b->o->bench_text ? text : "none");
    if (!*text_was && b->o->bench_text)
        return fail(e, ERR_INPUT, "--check: the record is of random ids, found -f %s", b->o->bench_text);
    return OK;
}

bool check_result(const struct bench *b, const struct result *r)
{
    char label[64];
    double mean, dev;
    double mean_was = json_number_value(json_object_get(r->t.was, "avg_ts")), dev_was = json_number_value(json_object_get(r->t.was, "stddev_ts"));
    mean_dev(r->rate, r->n, &mean, &dev);
    struct repeat p = repeats(mean_was, dev_was, mean, dev);
    test_label(&r->t, label);
    if (b->o->b_out == OUT_MD) {
        printf("%-18s recorded %10.2f ± %-8.2f now %10.2f ± %-8.2f %+6.1f %%, allowed %5.1f %%  %s\n", label, mean_was, dev_was, mean, dev, 100 * p.change,
               100 * p.spread, p.within ? "repeats" : "DIFFERS");
    } else {
        json_t *j = json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "test", label, "recorded_ts", mean_was, "recorded_stddev_ts", dev_was, "avg_ts", mean,
                              "stddev_ts", dev, "change", p.change, "allowed", p.spread, "repeats", p.within);
        json_dumpf(j, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(j);
    }
    fflush(stdout);
    return p.within;
}
