/* option_complete.c - the table of options as completions for bash and zsh.
 *
 * Both scripts are the same three steps: which command the words before the cursor begin with, what the argument of the option before the
 * cursor is, else options after a dash and files otherwise. They are complete in themselves: the program is not started to complete. */
#include "model/option_rows.h"

#include <string.h>

/* What the argument of an option is completed with. */
enum argument { NO_ARGUMENT, A_VALUE, A_MODEL, A_FILE, A_FOLDER, A_WORD };

static enum argument argument_of(const struct option_row *r)
{
    switch (r->kind) {
    case MODEL:
        return A_MODEL;
    case INPUT:
    case GOLDEN:
    case PPL:
        return A_FILE;
    case PATH:
        return strcmp(r->arg, "DIR") == 0 ? A_FOLDER : A_FILE;
    case CHOICE:
    case CACHE:
    case CACHES:
        return A_WORD;
    default:
        return r->arg ? A_VALUE : NO_ARGUMENT;
    }
}

static bool completes(const struct option_row *r, enum command c) { return row_is_of(r, c) && (row_is_shown(r) || r->kind == VERSION); }

/* The names of all commands but the last two, with a separator between them */
static void put_commands(FILE *out, const char *by)
{
    for (int c = 0, n = 0; c < CMD_VERSION; c++)
        if (!option_commands[c].later)
            fprintf(out, "%s%s", n++ ? by : "", option_commands[c].name);
}

/* ---- bash ---- */

static void bash_command(FILE *out, enum command c)
{
    static const char *const does[] = { [A_VALUE] = "kind='value'", [A_MODEL] = "kind='model'", [A_FILE] = "kind='file'", [A_FOLDER] = "kind='folder'" };
    fprintf(out, "    %s)\n        options='", option_commands[c].name);
    for (size_t i = 0, n = 0; i < n_option_rows; i++)
        if (completes(&option_rows[i], c))
            fprintf(out, "%s%s", n++ ? " " : "", option_rows[i].names);
    fprintf(out, "'\n        case $prev in\n");
    for (size_t i = 0; i < n_option_rows; i++) {
        const struct option_row *r = &option_rows[i];
        enum argument a = argument_of(r);
        char names[128];
        if (!completes(r, c) || a == NO_ARGUMENT)
            continue;
        fprintf(out, "        %s) ", joined(names, sizeof names, r->names, "|"));
        if (a == A_WORD)
            fprintf(out, "kind=word values='%s' ;;\n", r->choices);
        else
            fprintf(out, "%s ;;\n", does[a]);
    }
    fprintf(out, "        esac\n        ;;\n");
}

void options_bash(FILE *out)
{
    fprintf(out, "# bash completion for hayate; written by `hayate help --bash`\n"
                 "_hayate()\n"
                 "{\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=run kind='' options='' values=''\n"
                 "    if [[ $cur == = ]]; then # --option=VALUE is three words to bash\n"
                 "        cur=\n"
                 "    elif [[ $prev == = ]] && ((COMP_CWORD > 1)); then\n"
                 "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
                 "    fi\n"
                 "    if ((COMP_CWORD > 1)); then\n"
                 "        case ${COMP_WORDS[1]} in\n"
                 "        ");
    put_commands(out, "|");
    fprintf(out, ") command=${COMP_WORDS[1]} ;;\n"
                 "        esac\n"
                 "    fi\n"
                 "    case $command in\n");
    for (int c = 0; c < CMD_HELP; c++)
        if (!option_commands[c].later)
            bash_command(out, (enum command)c);
    fprintf(out, "    help)\n        kind=word values='");
    put_commands(out, " ");
    fprintf(out, " --man --bash --zsh'\n"
                 "        ;;\n"
                 "    esac\n"
                 "    if [[ -z $kind && $cur == -* ]]; then\n"
                 "        kind=word values=$options\n"
                 "    elif [[ -z $kind ]] && ((COMP_CWORD == 1)); then\n"
                 "        kind=first values='");
    put_commands(out, " ");
    fprintf(out, "'\n"
                 "    fi\n"
                 "    COMPREPLY=()\n"
                 "    case $kind in\n"
                 "    value) ;;\n"
                 "    word) mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$cur\") ;;\n"
                 "    first) mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$cur\"; compgen -f -- \"$cur\") ;;\n"
                 "    model) mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- \"$cur\"; compgen -d -- \"$cur\") ;;\n"
                 "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
                 "    *)\n"
                 "        if [[ $cur == @* ]]; then # a list of files\n"
                 "            mapfile -t COMPREPLY < <(compgen -P @ -f -- \"${cur#@}\")\n"
                 "        else\n"
                 "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                 "        fi\n"
                 "        ;;\n"
                 "    esac\n"
                 "    case $kind in\n"
                 "    word | value) ;;\n"
                 "    *) compopt -o filenames 2>/dev/null ;; # not outside a completion\n"
                 "    esac\n"
                 "}\n"
                 "complete -F _hayate hayate\n");
}

/* ---- zsh ---- */

/* Inside single quotes; what is in brackets may not end there. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr("[]\\", *text) ? "\\" : "", *text);
}

static void zsh_row(FILE *out, const struct option_row *r)
{
    static const char *const does[] = { [A_VALUE] = "", [A_MODEL] = "_files -g \"*.gguf\"", [A_FILE] = "_files", [A_FOLDER] = "_files -/" };
    enum argument a = argument_of(r);
    char names[128];
    bool several = strchr(r->names, ' ') != NULL;
    if (r->kind == INPUT || r->kind == GOLDEN || r->kind == LIST)
        fprintf(out, "            '*'");
    else
        fprintf(out, "            '(%s)'", r->names);
    fprintf(out, several ? "{%s}'[" : "%s'[", joined(names, sizeof names, r->names, ","));
    zsh_text(out, r->help);
    fputc(']', out);
    if (a != NO_ARGUMENT) {
        fputc(':', out);
        zsh_text(out, r->arg);
        if (a == A_WORD)
            fprintf(out, ":(%s)", r->choices);
        else
            fprintf(out, ":%s", does[a]);
    }
    fprintf(out, "' \\\n");
}

static void zsh_command(FILE *out, enum command c)
{
    fprintf(out, "    %s)\n        _arguments \\\n", option_commands[c].name);
    for (size_t i = 0; i < n_option_rows; i++)
        if (completes(&option_rows[i], c))
            zsh_row(out, &option_rows[i]);
    fprintf(out, "            '*:file:_files'\n        ;;\n");
}

void options_zsh(FILE *out)
{
    fprintf(out, "#compdef hayate\n"
                 "# zsh completion for hayate; written by `hayate help --zsh`\n"
                 "_hayate()\n"
                 "{\n"
                 "    local command=run\n"
                 "    local -a commands=(\n");
    for (int c = 0; c < CMD_VERSION; c++)
        if (!option_commands[c].later) {
            fprintf(out, "        '%s:", option_commands[c].name);
            zsh_text(out, option_commands[c].help);
            fprintf(out, "'\n");
        }
    fprintf(out, "    )\n"
                 "    if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then\n"
                 "        _describe command commands\n"
                 "        _files\n"
                 "        return\n"
                 "    fi\n"
                 "    case $words[2] in\n"
                 "    ");
    put_commands(out, "|");
    fprintf(out, ")\n"
                 "        command=$words[2]\n"
                 "        shift words\n"
                 "        (( CURRENT-- ))\n"
                 "        ;;\n"
                 "    esac\n"
                 "    case $command in\n");
    for (int c = 0; c < CMD_HELP; c++)
        if (!option_commands[c].later)
            zsh_command(out, (enum command)c);
    fprintf(out, "    help)\n"
                 "        _describe command commands\n"
                 "        compadd -- --man --bash --zsh\n"
                 "        ;;\n"
                 "    esac\n"
                 "}\n"
                 "if [[ $funcstack[1] == _hayate ]]; then # as a file of $fpath\n"
                 "    _hayate \"$@\"\n"
                 "else\n"
                 "    compdef _hayate hayate\n"
                 "fi\n");
}
