/* option_man.c - the table of options as a manual page, in the mdoc language of mandoc and groff. */
#include "model/option_rows.h"

#include <string.h>

enum { COLUMNS = 76 }; /* of a source line; mandoc complains beyond 80 */

/* One word in which no character means anything to roff. A minus sign is one, so that what is copied from a page works. */
static int put_word(FILE *out, const char *w)
{
    int n = 0;
    for (; *w; w++, n++) {
        if (*w == '\\' || *w == '-')
            n += fprintf(out, "%s", *w == '-' ? "\\-" : "\\e") - 1;
        else
            fputc(*w, out);
    }
    return n;
}

/* Running text: broken between words, and after the end of a sentence, as mdoc wants it. */
static void put_text(FILE *out, const char *text)
{
    char w[128];
    int column = 0;
    bool ended = false;
    while (next_word(&text, w, sizeof w)) {
        if (column && (ended || column + 1 + (int)(2 * strlen(w)) > COLUMNS)) {
            fputc('\n', out);
            column = 0;
        } else if (column) {
            column += fprintf(out, " ");
        }
        if (!column && (*w == '.' || *w == '\''))
            column += fprintf(out, "\\&");
        column += put_word(out, w);
        ended = strchr(".?!", w[strlen(w) - 1]) != NULL && strlen(w) > 1;
    }
    fputc('\n', out);
}

/* ".It Fl m , Fl Fl model Ar FILE" */
static void put_names(FILE *out, const struct option_row *r)
{
    char w[64];
    const char *list = r->names;
    fprintf(out, ".It");
    for (bool any = false; next_word(&list, w, sizeof w); any = true) {
        fprintf(out, "%s%s ", any ? " , " : " ", w[1] == '-' ? "Fl Fl" : "Fl");
        put_word(out, w + strspn(w, "-"));
    }
    if (r->arg) {
        fprintf(out, " Ar ");
        put_word(out, r->arg);
    }
    fputc('\n', out);
}

static void put_row(FILE *out, const struct option_row *r)
{
    char text[512], w[16];
    int n = 0;
    put_names(out, r);
    snprintf(text, sizeof text, "%s%s%s%s.", r->help, r->def ? " (default: " : "", r->def ? r->def : "", r->def ? ")" : "");
    put_text(out, text);
    fprintf(out, ".Pq ");
    for (int c = 0; c < CMD_HELP; c++)
        if (row_is_of(r, (enum command)c)) {
            snprintf(w, sizeof w, "%s%s", n++ ? ", " : "", option_commands[c].name);
            fputs(w, out);
        }
    fputc('\n', out);
}

static void put_group(FILE *out, enum group g)
{
    fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", option_group_name[g]);
    for (size_t i = 0; i < n_option_rows; i++)
        if (option_rows[i].group == g)
            put_row(out, &option_rows[i]);
    fprintf(out, ".El\n");
}

/* The usage without the name of the program; what an upper-case word stands for is set in italics by its case alone. */
static void put_synopsis(FILE *out)
{
    for (int c = 0; c < N_COMMAND; c++) {
        if (option_commands[c].later)
            continue;
        fprintf(out, ".Nm\n");
        put_text(out, strchr(option_commands[c].usage, ' '));
    }
}

static void put_commands(FILE *out)
{
    fprintf(out, ".Bl -tag -width selftest\n");
    for (int c = 0; c < CMD_VERSION; c++)
        if (!option_commands[c].later) {
            char text[512];
            fprintf(out, ".It Cm %s\n", option_commands[c].name);
            snprintf(text, sizeof text, "%s.", option_commands[c].help);
            put_text(out, text);
        }
    fprintf(out, ".El\n");
}

static void put_names_of(FILE *out, enum kind kind, const char *intro)
{
    char text[2048], w[64];
    int n = snprintf(text, sizeof text, "%s", intro);
    for (size_t i = 0; i < n_option_rows; i++) {
        const char *list = option_rows[i].names;
        bool refused_here = kind == LATER && option_rows[i].commands != ~0u; /* some other command has it */
        if (option_rows[i].kind == kind && !refused_here && next_word(&list, w, sizeof w))
            n += snprintf(text + n, sizeof text - (size_t)n, " %s,", w);
    }
    text[n - 1] = '.';
    fprintf(out, ".Pp\n");
    put_text(out, text);
}

/* Sections that the table cannot know. Names and words are those of --help. */
static const char environment[] =
    ".Sh ENVIRONMENT\n"
    ".Bl -tag -width Ds\n"
    ".It Ev HAYATE_MODEL\n"
    "The model where\n"
    ".Fl m\n"
    "is not given.\n"
    ".It Ev SLURM_ARRAY_TASK_ID , SLURM_ARRAY_TASK_COUNT\n"
    "In a task of a Slurm array job\n"
    ".Cm batch\n"
    "does the part of the inputs that is the place of the task in its array, as\n"
    "if\n"
    ".Fl Fl shard\n"
    "had said so;\n"
    ".Fl Fl shard Ar 1/1\n"
    "does all of them.\n"
    ".Ev SLURM_ARRAY_TASK_MIN , SLURM_ARRAY_TASK_MAX\n"
    "and\n"
    ".Ev SLURM_ARRAY_TASK_STEP\n"
    "say where the array begins.\n"
    ".El\n"
    ".Sh FILES\n"
    ".Bl -tag -width Ds\n"
    ".It Pa DIR/NAME.txt\n"
    "An answer of\n"
    ".Cm batch ,\n"
    "whole or absent.\n"
    ".It Pa DIR/.hayate/records\n"
    "How each answer there came about: hashes of the model, the options, the input\n"
    "and the answer.\n"
    "A shard writes\n"
    ".Pa records.K-of-N .\n"
    ".It Pa FILE.part\n"
    "What\n"
    ".Fl Fl jsonl\n"
    "has so far.\n"
    "With\n"
    ".Fl Fl shard\n"
    "the files of\n"
    ".Fl Fl jsonl , Fl Fl report\n"
    "and\n"
    ".Fl Fl log\n"
    "carry\n"
    ".Pa .K-of-N\n"
    "before their extension.\n"
    ".El\n";

static const char examples[] =
    ".Sh EXAMPLES\n"
    "One answer per file, with the model that is built in:\n"
    ".Bd -literal -offset indent\n"
    "man ls | hayate -p \"Summarize this manual page in one line.\"\n"
    ".Ed\n"
    ".Pp\n"
    "A folder of documents; the same command again continues where it stopped:\n"
    ".Bd -literal -offset indent\n"
    "hayate batch -m MODEL -o summaries reports/\n"
    ".Ed\n"
    ".Pp\n"
    "The same in four processes of two threads:\n"
    ".Bd -literal -offset indent\n"
    "seq 4 | xargs -P 4 -I K hayate batch -t 2 --shard K/4 -o summaries reports/\n"
    ".Ed\n"
    ".Pp\n"
    "What memory a context of 65,536 tokens takes:\n"
    ".Bd -literal -offset indent\n"
    "hayate info --plan -m MODEL -c 65536\n"
    ".Ed\n"
    ".Sh SEE ALSO\n"
    ".Xr iconv 1 ,\n"
    ".Xr parallel 1 ,\n"
    ".Xr sbatch 1 ,\n"
    ".Xr xargs 1\n";

void options_man(FILE *out, const char *version, const char *date)
{
    static const char *const month[] = { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                                         "November", "December" };
    unsigned y, m, d;
    fprintf(out, ".\\\" Written by `hayate help --man` of version %s.\n", version);
    if (sscanf(date, "%4u-%2u-%2u", &y, &m, &d) == 3 && m >= 1 && m <= 12)
        fprintf(out, ".Dd %s %u, %u\n", month[m - 1], d, y);
    else
        fprintf(out, ".Dd %s\n", date);
    fprintf(out, ".Dt HAYATE 1\n.Os\n.Sh NAME\n.Nm hayate\n.Nd %s\n.Sh SYNOPSIS\n", options_tagline);
    put_synopsis(out);
    fprintf(out, ".Sh DESCRIPTION\n");
    put_text(out, "An answer goes to standard output and nothing else does: progress, times, warnings and errors go to standard error. "
                  "An option may be written with one dash or two. The commands are:");
    put_commands(out);
    fprintf(out, ".Pp\nBehind each option stand the commands that have it.\n");
    for (int g = 0; g < G_HIDDEN; g++)
        put_group(out, (enum group)g);
    put_names_of(out, NOTHING, "Accepted without effect, for users of llama.cpp:");
    put_names_of(out, LATER, "Not in this version, and refused by name:");
    fputs(environment, out);
    fprintf(out, ".Sh EXIT STATUS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < n_exit_texts; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s.", exit_texts[i].text);
        fprintf(out, ".It %s\n", exit_texts[i].code);
        put_text(out, text);
    }
    fprintf(out, ".El\n");
    fputs(examples, out);
}
