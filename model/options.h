/* options.h - everything the command line can say, read once in main.c and passed down. */
#ifndef HAYATE_MODEL_OPTIONS_H
#define HAYATE_MODEL_OPTIONS_H

#include "model/backend.h"
#include "model/chat.h"
#include "model/console.h"
#include "model/long.h"
#include "model/model.h"
#include "model/sample.h"
#include "model/shard.h"
#include "model/speculate.h"

#include <signal.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSE = 2, EXIT_SOME_FAILED = 3, EXIT_CUT = 4, EXIT_SIGINT = 130, EXIT_SIGTERM = 143 };

enum command { CMD_RUN, CMD_BATCH, CMD_BENCH, CMD_EVAL, CMD_INFO, CMD_TOKENIZE, CMD_SPLIT, CMD_SELFTEST, CMD_HELP, CMD_VERSION, N_COMMAND };

enum { MAX_LIST = 256 };
enum help_form { HELP_TEXT, HELP_MAN, HELP_BASH, HELP_ZSH };
struct uint_list {
    uint64_t v[MAX_LIST];
    size_t n;
    bool given; /* on the command line; else the default */
};

/* Numbers with colons between them. */
struct colons {
    double v[3];
    size_t n;
};

struct options {
    enum command command;
    enum command help_on;        /* help: this command; CMD_HELP: the overview */
    enum help_form help_form;
    const char *model_path;      /* NULL: the demo model */
    const char *instruction;     /* -p; NULL: the default of the model */
    const char *system;
    const char *encoding;        /* what inputs are written in; NULL: recognise it */
    char **files;                /* [n_files] inputs in the order given; "-" is standard input */
    size_t n_files;
    enum long_mode long_mode;    /* documents longer than the context */
    bool raw, parse_special, print_prompt, reasoning, ignore_eos;
    enum chat_effort effort;
    uint32_t n_predict;          /* -n: at most this many generated ids */
    size_t n_ctx;                /* -c; 0: what the input needs plus -n */
    uint32_t n_ubatch;           /* -ub; 0: default */
    uint32_t n_threads;          /* -t; 0: default */
    enum kv_type kv;
    bool precise;
    uint32_t n_parallel;         /* 1..SESSION_SEQ_MAX: inputs that are decoded together */
    bool no_gather, no_union, no_pooled_cache; /* for comparison: see struct session_params */
    uint32_t pooled_max_tokens;
    const char *load_state, *save_state; /* files; NULL: none */
    const char *prefix_dir;      /* --prefix-cache; NULL: none */
    size_t prefix_max;           /* bytes kept there; 0: default */
    size_t mem_limit;            /* bytes; 0: free memory of the machine */
    enum backend backend;
    uint32_t device;             /* of the backend */
    enum load load;
    bool no_graph;               /* hip: launch call by call */
    bool draft_dense;            /* attention of the draft head sees all positions */
    bool draft_joint;            /* its hidden input is normalised over all streams at once */
    const char *draft_path;      /* its file, where it is not in the model's */
    int draft;                   /* DRAFT_AUTO, DRAFT_OFF, or how many ids are guessed at once */
    struct sample_params sample;
    bool json;
    bool quiet;
    bool verbose;
    const char *log_path;
    /* batch */
    const char *out_dir;         /* -o; NULL: none */
    const char *jsonl_path, *report_path;
    int32_t notify_fd;           /* -1: none; known to be open for writing */
    bool force, progress;
    struct array_task task;      /* Slurm's, as main.c found it */
    struct shard shard;          /* --shard, else (task_used) the task's place in its array; 1 of 1: all inputs */
    bool task_used;
    char *shard_file[3];         /* what jsonl_path, report_path and log_path point to in a shard */
    /* bench */
    struct uint_list b_prompt, b_gen, b_depth;
    enum { FILL_PROMPT, FILL_RANDOM } b_fill; /* how the depth comes about */
    struct uint_list b_threads, b_ubatch, b_kv; /* instead of n_threads, n_ubatch, kv; 0: default */
    uint32_t b_reps;
    struct colons sweep;         /* first, last, step of the depth; n = 0: none, else b_depth holds them */
    const char *bench_text;      /* -f: ids of a file; NULL: random */
    const char *abba;            /* the switch of side B; NULL: none */
    const char *check;           /* a record to repeat; NULL: none */
    bool cold;
    struct {
        const char *name, *value;
    } env[16];                   /* what of the environment drivers look at, for the record */
    size_t n_env;
    bool profile;                /* time per kernel row; of run too */
    const char *trace_path;      /* and as a trace; NULL: none */
    enum { OUT_MD, OUT_JSONL, OUT_JSON, OUT_CSV } b_out;
    /* eval */
    char **golden;               /* [n_golden] */
    size_t n_golden;
    bool ppl;                    /* of ppl_path, or of the ids of ids_path */
    const char *ppl_path, *ids_path;
    struct uint_list needle;     /* lengths; the texts are made of files */
    size_t ppl_stride;           /* 0: chunks one after the other */
    const char *compare;         /* a backend or a model; NULL: none */
    /* info, tokenize */
    bool plan, tensors, keys, devices, kernels, ledger, ids_only, as_text;
    size_t ledger_depth;
    struct colons roof;          /* bytes/s, FLOP/s, microseconds of a launch; n = 0: none */
    /* selftest; files are names of rows, its seed is that of sample */
    bool machine;
    uint32_t rounds;             /* cases per row; 0: default */

    char *words;                 /* of options_with */
    char without_effect[256];    /* options of other programs that were accepted: "-ngl, -fa"; "" when none */
    struct console *con;         /* what is said on stderr goes through here */
    const volatile sig_atomic_t *stop; /* number of the signal that asked to stop, or 0; looked at between steps */
    volatile sig_atomic_t *at_once; /* set while a signal may end the program at once, because there is nothing to finish */
};

#define DEMO_NOTE "hayate: no -m and no $HAYATE_MODEL, using the built-in demo model (a toy of 22 million parameters)"

/* Each command returns the exit code and has said on stderr what went wrong. */
int cmd_run(const struct options *o);
int cmd_batch(const struct options *o);
int cmd_info(const struct options *o);
int cmd_ledger(const struct options *o); /* of info */
int cmd_tokenize(const struct options *o);
int cmd_eval(const struct options *o);
int cmd_bench(const struct options *o);
int cmd_selftest(const struct options *o);
int cmd_split(const struct options *o); /* files[0] -> files[1] */

/* The session that the command line asks for, with n_ctx positions. (model/open_model.c) */
struct session_params session_params_of(const struct options *o, size_t n_ctx);

/* Opens the model of the command line and copies its weights where the backend wants them, with progress on stderr. That may take long, and a signal
 * does not wait for it: it ends the program, or while weights are copied this function, with an error and *o->stop set. (model/open_model.c) */
status open_model(const struct options *o, model **m, struct err *e);

/* The exit code a failure stands for. */
static inline int exit_code_of(status s) { return s == OK ? EXIT_DONE : s == ERR_USAGE ? EXIT_MISUSE : EXIT_FAILED; }

/* PLE16 writer: joined n-gram table of in -> one tensor per head, every weight byte as it was, written to a temporary name and renamed.
 * (model/split.c) */
status split_ple16(const char *in_path, const char *out_path, struct err *e);

#endif
