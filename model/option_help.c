/* option_help.c - the table of options as help in 80 columns. */
#include "model/option_rows.h"

#include <ctype.h>
#include <string.h>

/* ---- words ---- */

bool next_word(const char **list, char *word, size_t cap)
{
    const char *p = *list;
    if (!p)
        return false;
    p += strspn(p, " ");
    size_t n = strcspn(p, " ");
    if (n == 0 || n >= cap)
        return false;
    memcpy(word, p, n);
    word[n] = 0;
    *list = p + n;
    return true;
}

const char *joined(char *buf, size_t cap, const char *list, const char *by)
{
    char w[64];
    size_t n = 0;
    buf[0] = 0;
    while (next_word(&list, w, sizeof w) && n < cap)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", n ? by : "", w);
    return buf;
}

/* ---- help ---- */

const char options_tagline[] = "runs Qwen3.8-Flash-Next from a GGUF file: documents in, answers out";

const struct exit_text exit_texts[] = {
    { "0", "done" },
    { "1", "failed" },
    { "2", "misuse" },
    { "3", "some inputs of a batch failed" },
    { "4", "answer cut by -n or the context" },
    { "130 and 143", "interrupted" },
};
const size_t n_exit_texts = COUNT_OF(exit_texts);

enum { COLUMNS = 80, TEXT_AT = 30 };

/* Words of text from column at; further lines are indented to it. */
static void wrap(FILE *out, const char *text, int column, int at)
{
    char w[128];
    while (next_word(&text, w, sizeof w)) {
        int n = 0; /* columns: bytes that do not continue a character */
        for (const char *p = w; *p; p++)
            n += ((unsigned char)*p & 0xc0) != 0x80;
        if (column > at && column + 1 + n > COLUMNS) {
            fprintf(out, "\n%*s", at, "");
            column = at;
        }
        column += n + fprintf(out, "%s", column > at ? " " : "");
        fputs(w, out);
    }
    fputc('\n', out);
}

static void help_row(FILE *out, const struct option_row *r)
{
    char text[512], names[96];
    int n = fprintf(out, "  %s%s%s", joined(names, sizeof names, r->names, ", "), r->arg ? " " : "", r->arg ? r->arg : "");
    if (n + 2 > TEXT_AT) {
        fputc('\n', out);
        n = 0;
    }
    fprintf(out, "%*s", TEXT_AT - n, "");
    snprintf(text, sizeof text, "%s%s%s%s", r->help, r->def ? " (default: " : "", r->def ? r->def : "", r->def ? ")" : "");
    wrap(out, text, TEXT_AT, TEXT_AT);
}

/* The names of all rows of a kind, one per row, as running text */
static void help_names(FILE *out, enum command c, enum kind kind, const char *intro)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "%s", intro);
    bool any = false;
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *r = &option_rows[i];
        char w[32];
        const char *list = r->names;
        if (r->kind != kind || !(r->commands & 1u << c) || !next_word(&list, w, sizeof w))
            continue;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", any ? "," : "", w);
        any = true;
    }
    if (any) {
        fputc('\n', out);
        wrap(out, text, 0, 0);
    }
}

static void help_options(FILE *out, enum command c)
{
    for (int g = 0; g < G_HIDDEN; g++) {
        bool any = false;
        for (size_t i = 0; i < n_option_rows; i++) {
            if ((int)option_rows[i].group != g || !(option_rows[i].commands & 1u << c))
                continue;
            if (!any)
                fprintf(out, "\n%s\n", option_group_name[g]);
            any = true;
            help_row(out, &option_rows[i]);
        }
    }
    help_names(out, c, NOTHING, "Accepted without effect, for users of llama.cpp:");
    if (c != CMD_SPLIT && c != CMD_TOKENIZE && c != CMD_SELFTEST)
        help_names(out, c, LATER, "Not in this version, and refused by name:");
}

void options_help(FILE *out, enum command c)
{
    if (c != CMD_HELP) {
        fprintf(out, "usage: %s\n", option_commands[c].usage);
        fprintf(out, "%c%s\n", toupper((unsigned char)option_commands[c].help[0]), option_commands[c].help + 1);
        help_options(out, c);
        return;
    }
    char text[512];
    int n = snprintf(text, sizeof text, "Exit codes:");
    fprintf(out, "hayate - %s\n\n", options_tagline);
    for (int i = 0; i < CMD_VERSION; i++)
        if (!option_commands[i].later)
            fprintf(out, "  %s\n      %s\n", option_commands[i].usage, option_commands[i].help);
    fprintf(out, "  %s\n\nOptions of run\n", option_commands[CMD_VERSION].usage);
    help_options(out, CMD_RUN);
    for (size_t i = 0; i < n_exit_texts; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %s %s", i ? "," : "", exit_texts[i].code, exit_texts[i].text);
    snprintf(text + n, sizeof text - (size_t)n, ". Answers go to stdout, all else to stderr.");
    fputc('\n', out);
    wrap(out, text, 0, 0);
}
