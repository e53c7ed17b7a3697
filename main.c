/* main.c - flags to options, one command, exit code. The only place that reads the environment and that exits. */
#include "kernels_bin/kernels_bin.h"
#include "model/guard.h"
#include "model/option_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef HAYATE_VERSION /* the Makefile knows; for a build without it */
#define HAYATE_VERSION "unknown"
#define HAYATE_COMMIT "unknown"
#define HAYATE_DATE "1970-01-01"
#endif
#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* What the signal handler and the commands tell each other: stop is read between steps; see options.h for at_once. */
static volatile sig_atomic_t stop, at_once;

static void on_signal(int number)
{
    if (at_once)
        _exit(128 + number);
    stop = number;
}

/* The first signal asks the command to finish its step, or ends a load; a second one ends the program at once. */
static void catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* A closed standard stream must not become the descriptor of the next file: it is held open so that its use fails. */
static void hold_streams(void)
{
    static const int flags[3] = { O_WRONLY, O_RDONLY, O_WRONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) != fd)
            return;
}

static void help(const struct options *o)
{
    switch (o->help_form) {
    case HELP_MAN:
        options_man(stdout, HAYATE_VERSION, HAYATE_DATE);
        return;
    case HELP_BASH:
        options_bash(stdout);
        return;
    case HELP_ZSH:
        options_zsh(stdout);
        return;
    default:
        options_help(stdout, o->help_on);
    }
}

/* One line, from which this build can be found again; the hash is that of `xxhsum -H3 kernels_bin/MANIFEST.tsv`. */
static void print_version(void)
{
    size_t n_kernels, n;
    kernel_bin_list(&n_kernels);
    const char *manifest = kernel_bin_manifest(&n);
    printf("hayate " HAYATE_VERSION " (commit " HAYATE_COMMIT "), " COMPILER ", backends: cpu, vulkan, hip, kernels: %zu (manifest %016" PRIx64
           "), demo model: %s\n", n_kernels, XXH3_64bits(manifest, n), model_has_demo() ? "yes" : "no");
}

static int run_command(const struct options *o)
{
    switch (o->command) {
    case CMD_RUN:
        return cmd_run(o);
    case CMD_BATCH:
        return cmd_batch(o);
    case CMD_BENCH:
        return cmd_bench(o);
    case CMD_EVAL:
        return cmd_eval(o);
    case CMD_INFO:
        return cmd_info(o);
    case CMD_TOKENIZE:
        return cmd_tokenize(o);
    case CMD_SPLIT:
        return cmd_split(o);
    case CMD_SELFTEST:
        return cmd_selftest(o);
    case CMD_HELP:
        help(o);
        return EXIT_DONE;
    default:
        print_version();
        return EXIT_DONE;
    }
}

/* What a user may not expect about the model and the options, said once; run says the first after it has seen its inputs. */
static void say_first(const struct options *o)
{
    bool engine = o->command == CMD_BENCH || o->command == CMD_EVAL || (o->command == CMD_INFO && !o->devices && !o->kernels);
    if (*o->without_effect)
        console_note(o->con, "hayate: accepted without effect here: %s", o->without_effect);
    if (engine && !o->model_path && model_has_demo())
        console_note(o->con, DEMO_NOTE);
}

/* What drivers and this program look at, for the record of a benchmark */
static void note_environment(struct options *o)
{
    static const char *const name[] = { "HAYATE_VK_VALIDATE", "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "RADV_PERFTEST", "RADV_DEBUG",
                                        "AMD_VULKAN_ICD", "MESA_VK_DEVICE_SELECT", "HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES", "LD_PRELOAD",
                                        "GLIBC_TUNABLES", "MALLOC_ARENA_MAX" };
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        const char *value = getenv(name[i]);
        if (value && o->n_env < COUNT_OF(o->env)) {
            o->env[o->n_env].name = name[i];
            o->env[o->n_env++].value = value;
        }
    }
}

int main(int argc, char **argv)
{
    struct console con = { 0 };
    struct options o = { .con = &con, .stop = &stop, .at_once = &at_once };
    struct err e;
    const char *env_model = getenv("HAYATE_MODEL");
    char dash[] = "-";
    int code = EXIT_MISUSE;
    bool log_lost;

    hold_streams();
    signal(SIGPIPE, SIG_IGN);
    guard_open(isatty(STDERR_FILENO));
    con.err_tty = isatty(STDERR_FILENO);
    con.out_tty = isatty(STDOUT_FILENO);
    o.task = (struct array_task){ getenv("SLURM_ARRAY_TASK_ID"), getenv("SLURM_ARRAY_TASK_COUNT"), getenv("SLURM_ARRAY_TASK_MIN"),
                                  getenv("SLURM_ARRAY_TASK_MAX"), getenv("SLURM_ARRAY_TASK_STEP") };
    o.model_path = env_model && *env_model ? env_model : NULL;
    if (options_parse(&o, argc, argv, &e) != OK) {
        console_error(&con, "%s", e.msg);
        goto out;
    }
    con.quiet = o.quiet;
    if (o.command == CMD_BENCH)
        note_environment(&o);
    if (o.log_path && !(con.log = fopen(o.log_path, "we"))) {
        console_error(&con, "%s: %s", o.log_path, strerror(errno));
        code = EXIT_FAILED;
        goto out;
    }
    bool reads_stdin = o.n_files == 0 && (o.command == CMD_RUN || o.command == CMD_TOKENIZE);
    if (reads_stdin && isatty(STDIN_FILENO)) {
        console_error(&con, "no FILE, and standard input is a terminal; usage: hayate [-m MODEL] [-p TEXT] FILE..., see `hayate help`");
        goto out;
    }
    if (reads_stdin)
        o.files[o.n_files++] = dash;
    if (o.command != CMD_RUN && o.command != CMD_BATCH && o.command != CMD_SPLIT)
        signal(SIGPIPE, SIG_DFL); /* a list whose reader has seen enough ends in silence; an answer that nobody took is an error */
    say_first(&o);
    if (o.command == CMD_RUN || o.command == CMD_BATCH || o.command == CMD_BENCH || o.command == CMD_EVAL)
        catch_signals();
    code = run_command(&o);
    if ((code == EXIT_DONE || code == EXIT_CUT) && console_write("", 0, &e) != OK) {
        console_error(&con, "%s", e.msg);
        code = EXIT_FAILED;
    }
out:
    log_lost = con.log && ferror(con.log); /* every line is flushed: what failed has failed then */
    if (con.log && (fclose(con.log) != 0 || log_lost)) {
        con.log = NULL;
        console_error(&con, "%s: %s", o.log_path, log_lost ? "cannot write" : strerror(errno));
        code = code == EXIT_DONE ? EXIT_FAILED : code;
    }
    options_free(&o);
    return code;
}
