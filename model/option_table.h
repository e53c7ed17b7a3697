/* option_table.h - the command line as one table: parsing, help and the refusal of what this version does not have all read it. */
#ifndef HAYATE_MODEL_OPTION_TABLE_H
#define HAYATE_MODEL_OPTION_TABLE_H

#include "model/options.h"

#include <stdio.h>

/* Fills o from the arguments, defaults included; o->model_path stays what it was unless -m is given. Never prints. ERR_USAGE names the
 * option and what was expected; ERR_UNSUPPORTED is an option or command of a later version (exit 2 as well). */
status options_parse(struct options *o, int argc, char **argv, struct err *e);
/* out = o with more options of the same command, separated by spaces, which win over what o says. ERR_USAGE, ERR_UNSUPPORTED, ERR_NOMEM; options_free in
 * any case. */
status options_with(struct options *out, const struct options *o, const char *words, struct err *e);
void options_free(struct options *o);

/* Help in 80 columns: the overview for CMD_HELP, else one command with its options by group and their defaults. */
void options_help(FILE *out, enum command c); /* option_help.c */
/* The manual page, for section 1; date is YYYY-MM-DD. (option_man.c) */
void options_man(FILE *out, const char *version, const char *date);
/* Completion for one of the two shells: a file for its folder of completions, or for `source <(...)`. (option_complete.c) */
void options_bash(FILE *out);
void options_zsh(FILE *out);

#endif
