/* cmd_split.c - joined n-gram table to PLE16. */
#include "model/options.h"

int cmd_split(const struct options *o)
{
    struct err e;
    status s = split_ple16(o->files[0], o->files[1], &e);
    if (s != OK)
        console_error(o->con, "%s", e.msg);
    return exit_code_of(s);
}
