/* option_rows.h - the rows of the command line, for the files that read them: option_table.c parses, option_help.c, option_man.c and
 * option_complete.c write what a user sees. */
#ifndef HAYATE_MODEL_OPTION_ROWS_H
#define HAYATE_MODEL_OPTION_ROWS_H

#include "model/option_table.h"

enum group { G_MODEL, G_WHAT, G_INPUT, G_ANSWER, G_SAMPLING, G_SPEED, G_OUTPUT, G_HIDDEN, N_GROUP };

enum kind {
    FLAG,    /* bool = true */
    STRING,  /* const char *, may be empty */
    PATH,    /* const char * */
    INPUT,   /* one more of files */
    GOLDEN,  /* one more of golden */
    PPL,     /* ppl, and a file unless the next argument is an option */
    UINT32, UINT64, SIZE, /* lo..hi; hi = 0: all */
    INT32,
    FLOAT,   /* lo..hi */
    BYTES,   /* size_t with an optional K, M, G or T */
    LIST,    /* struct uint_list of lo..hi */
    COLONS,  /* struct colons of lo..hi numbers, none below 0 */
    CHOICE,  /* int-sized enum or bool: the index in choices */
    SHARD,   /* struct shard */
    MODEL, CACHE, /* as PATH, CHOICE; may not contradict each other */
    CACHES,  /* struct uint_list of choices; the same */
    CHECKED, /* a number that must lie in lo..hi and is not kept */
    NOTHING, /* without effect */
    HELP, VERSION,
    LATER,
};

struct option_row {
    const char *names;   /* as --help shows them, separated by spaces */
    const char *arg;     /* what the argument is called; NULL: takes none */
    unsigned commands;   /* bits of enum command */
    enum group group;
    enum kind kind;
    size_t at;           /* field of struct options */
    double lo, hi;
    const char *choices; /* of CHOICE, CACHE and CACHES: "first second" */
    const char *later;   /* values of a later version; "*": every other one */
    const char *def;     /* default, for --help */
    const char *help;
};

struct option_command {
    const char *name;
    bool later;
    const char *usage, *help;
};

extern const struct option_row option_rows[];
extern const size_t n_option_rows;
extern const struct option_command option_commands[N_COMMAND];
extern const char *const option_group_name[N_GROUP]; /* "" for G_HIDDEN */

extern const char options_tagline[]; /* what the program is, in a line */

/* What an exit code means, in the words of --help. */
struct exit_text {
    const char *code, *text;
};
extern const struct exit_text exit_texts[];
extern const size_t n_exit_texts;

/* Whether a command has the option of a row. */
static inline bool row_is_of(const struct option_row *r, enum command c) { return r->commands >> c & 1; }
/* Whether help shows the row, and shells complete it. */
static inline bool row_is_shown(const struct option_row *r) { return r->group != G_HIDDEN; }

/* Copies the next word of a list separated by spaces; false at the end. */
bool next_word(const char **list, char *word, size_t cap);
/* "a b" as "a, b" or "a|b", in buf, which is returned */
const char *joined(char *buf, size_t cap, const char *list, const char *by);

#endif
