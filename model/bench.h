/* bench.h - the parts of `bench`: what is measured (cmd_bench.c), where (bench_machine.c), how it is written down (bench_record.c, bench_print.c), and
 * compared (bench_stat.c, bench_check.c). */
#ifndef HAYATE_MODEL_BENCH_H
#define HAYATE_MODEL_BENCH_H

#include "model/options.h"
#include "model/profile.h"

#include <jansson.h>

/* Repetitions of one test (-r), twice as many with --abba */
enum { MAX_REPS = 1000, MAX_SAMPLES = 2 * MAX_REPS };

/* ---- statistics ---- */

/* Mean and sample standard deviation (0 for n < 2) */
void mean_dev(const double *x, size_t n, double *mean, double *dev);

/* Mean of b over mean of a, and the middle 95 % of what it comes to when whole rounds are drawn again with replacement, from a fixed seed. Round i is
 * a[2i], a[2i + 1], b[2i], b[2i + 1], which ran as A B B A. */
struct ratio {
    double mid, low, high;
};
struct ratio abba_ratio(const double *a, const double *b, size_t n_round);

/* Whether a mean of n2 runs repeats one of n1: the two lie within twice their spreads of single runs, added in squares. */
struct repeat {
    double change; /* of the first mean, as a share of it */
    double spread; /* allowed, the same */
    bool within;
};
struct repeat repeats(double mean1, double dev1, double mean2, double dev2);

/* ---- the machine, as sysfs and procfs show it; NAN and "not readable" where they do not ---- */

enum sensor { S_CPU_MHZ, S_CPU_C, S_GPU_MHZ, S_GPU_MEM_MHZ, S_GPU_C, S_GPU_W, S_PACKAGE_J, N_SENSOR };
extern const char *const sensor_name[N_SENSOR];
/* root: "" or a folder that has a sys/ and a proc/ for tests. S_PACKAGE_J counts up from any start. */
void sensors_read(const char *root, double value[N_SENSOR]);
/* Name of the processor, or "unknown" */
void cpu_name(const char *root, char *out, size_t n);
/* {"kernel": ..., "cpu": ..., "memory_bytes": ..., "governor": ..., "gpu_vram_bytes": ..., ...} */
json_t *machine_json(const char *root);

/* Readings around a test */
struct readings {
    double before[N_SENSOR], after[N_SENSOR];
    double sum[N_SENSOR], low[N_SENSOR], high[N_SENSOR]; /* after every timed run */
    size_t n;
};
void readings_begin(struct readings *r);
void readings_add(struct readings *r);
void readings_end(struct readings *r);
json_t *readings_json(const struct readings *r);

/* ---- page cache ---- */

/* Share of the model's files that is in the page cache, 0..1; negative: cannot be told (built-in model) */
#define PAGE_CACHE_COLD 0.05 /* a start with less than this share in it is a cold one */
double page_cache_share(const gguf *g);
/* Drops it, as far as the kernel does. ERR_UNSUPPORTED for the built-in model, ERR_IO. */
status page_cache_drop(const gguf *g, struct err *e);

/* ---- tests ---- */

struct bench_test {
    uint32_t n_threads;           /* 0: default */
    struct session_params form;   /* without n_ctx */
    bool fill_random;             /* how the depth comes about, else by a prompt */
    uint64_t seed;                /* of random ids and of the fill */
    int draft;                    /* DRAFT_AUTO, DRAFT_OFF, or how many */
    uint64_t n_depth, n_prompt, n_gen;
    uint32_t n_parallel;          /* sequences that decode together; 1 where there is a prompt */
    size_t reps;
    const json_t *was;            /* --check: as recorded */
};

struct result {
    struct bench_test t;
    size_t n;
    double rate[MAX_SAMPLES];     /* tokens per second */
    struct draft_stats drafts;    /* of the last run */
    double cold;                  /* of the first run after the page cache was dropped; 0: not asked for */
    struct readings readings;
};

/* One side of a measurement: a model and a session with their options. */
struct bench {
    const struct options *o;
    struct options mine;          /* o with the settings of the test */
    struct bench_test now;        /* what model and session are open for */
    model *m;
    session *s;
    size_t n_ctx;
    int32_t *ids;                 /* [n_ctx] depth, then prompt or generated ids */
    void *mark;                   /* of the depth */
    struct speculator speculator[SESSION_SEQ_MAX]; /* of each place; without guesses the first alone is in use */
    struct odds odds[SESSION_SEQ_MAX + 1];          /* of steps of so many places */
    struct ids text;              /* -f */
    uint64_t text_hash;
    uint64_t identity, params, bytes; /* of the model */
    double load_seconds, share_before; /* of opening the model and copying weights; page_cache_share before it */
    struct device_memory memory;  /* with the last session */
    char cpu[96];
    const char *backend;          /* as llama-bench writes it */
    bool on_cpu;
    struct profile *profile;      /* NULL: none */
};

/* Of --draft: "off", "auto", "3" */
const char *draft_name(int draft);
/* What a test is called: pp512, "pp512 @ d4096", "tg128 x8 @ d4096 random", "tg128 draft auto" */
void test_label(const struct bench_test *t, char out[64]);
/* Tokens that one run of it evaluates. */
static inline uint64_t test_tokens(const struct bench_test *t) { return t->n_prompt + t->n_gen * t->n_parallel; }

/* The n_gen ids of a test, which begin at ids, at each of its places from where they are: without guesses side by side, with them each place at its own pace. */
status bench_generate(struct bench *b, const struct bench_test *t, const int32_t *ids, struct err *e);

/* ---- results ---- */

/* The record of a result: fields of llama-bench, and "record" with build, model, input, machine. NULL without memory. */
json_t *result_json(const struct bench *b, const struct result *r);

/* b[1] and other are the second side of --abba, or NULL. first and last of a run of the program: a table needs a head. */
void print_begin(const struct bench *b);
void print_result(const struct bench *b, const struct result *r, const struct result *other, bool first);
void print_end(const struct bench *b, bool any);

/* --check: reads the tests of a record written with -o json or jsonl, and what mine leaves open of model and backend; *records owns what they point
 * to. ERR_IO, ERR_FORMAT. */
status check_read(const char *path, struct options *mine, struct bench_test **tests, size_t *n, json_t **records, struct err *e);
/* ERR_INPUT when model, backend or text are not those of the record. */
status check_model(const struct bench *b, const struct bench_test *t, struct err *e);
/* Prints the comparison; whether it repeats. */
bool check_result(const struct bench *b, const struct result *r);

#endif
