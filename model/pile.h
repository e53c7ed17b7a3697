/* pile.h - the inputs of a batch: files, folders and lists from the command line as one ordered list, each with the name of its output.
 *
 * A folder is walked in the order of its names' bytes. Names that begin with a dot, special files, folders that were walked already (a loop
 * of links) and the batch's own files are left out, with a note; what cannot be read stays in the list, so that it fails by name. */
#ifndef HAYATE_MODEL_PILE_H
#define HAYATE_MODEL_PILE_H

#include "model/options.h"

#include <sys/types.h>

struct item {
    char *path;    /* to open */
    char *name;    /* the output is this and ".txt" below the output folder; relative, without "." and ".." */
    char *shown;   /* path for messages and records: utf8_escape */
    char *problem; /* why it cannot be an input; NULL: none known */
    dev_t dev;
    ino_t ino;
};

struct pile {
    struct item *v;
    size_t n, cap;
};

/* Expands o->files: FILE is named by its last component, what lies below a folder by its path from there, and a line of @LIST (paths
 * one a line, or separated by NUL) by its whole path. ERR_USAGE: no inputs, or one that is also an output. */
status pile_gather(struct pile *p, const struct options *o, struct err *e);
/* ERR_USAGE when two inputs share an output (or with --jsonl a path), or an output in o->out_dir is itself an input; names both. */
status pile_check_outputs(const struct pile *p, const struct options *o, struct err *e);
/* Keeps what belongs to o->shard, which may be nothing, and says so. The checks above are for the pile as a whole, so that every shard makes them. */
void pile_take_shard(struct pile *p, const struct options *o);
void pile_free(struct pile *p);

#endif
