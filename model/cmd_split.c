/* cmd_split.c - joined n-gram table to PLE16. */
#include "model/options.h"

#include <stdio.h>

int cmd_split(const struct options *o)
{
    struct err e;
    if (o->n_files != 2) {
        fprintf(stderr, "hayate: split: found %zu files, expected IN.gguf OUT.gguf\n", o->n_files);
        return EXIT_MISUSE;
    }
    status s = split_ple16(o->files[0], o->files[1], &e);
    if (s == OK)
        return EXIT_DONE;
    fprintf(stderr, "hayate: %s\n", e.msg);
    return s == ERR_USAGE ? EXIT_MISUSE : EXIT_FAILED;
}
