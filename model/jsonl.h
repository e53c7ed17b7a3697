/* jsonl.h - the answers of a batch as one file with an object per line, which survives kills.
 *
 * While the batch runs whole lines are appended to FILE.part and synced; at its end FILE appears by a rename, in the order of the inputs.
 * A line is the record of its own origin ("xxh3", "model_xxh3", "options_xxh3"), so a batch that is started again takes what it finds in
 * FILE and FILE.part. */
#ifndef HAYATE_MODEL_JSONL_H
#define HAYATE_MODEL_JSONL_H

#include "model/pile.h"
#include "model/store.h"

#include <jansson.h>

typedef struct jsonl jsonl;

/* The pile must outlive it. force: what is there is replaced. ERR_USAGE: FILE or FILE.part holds something else, or answers to inputs that
 * are not in the pile and would be lost; ERR_IO: cannot write there, or another batch does. */
status jsonl_open(jsonl **out, const char *path, const struct pile *pile, bool force, struct err *e);
void jsonl_close(jsonl *j); /* accepts NULL */
/* Whether there is an answer of this origin to item i. */
bool jsonl_has(const jsonl *j, size_t i, const struct origin *from, enum ending *ending);
/* Leaves what there is for item i out of the result: it is of another origin, or the input cannot be read any more. */
void jsonl_forget(jsonl *j, size_t i);
/* Adds path and origin to line, which stays the caller's, and appends it. */
status jsonl_put(jsonl *j, size_t i, json_t *line, const struct origin *from, enum ending ending, struct err *e);
/* Every input has had its turn: the file gets its name. */
status jsonl_finish(jsonl *j, struct err *e);

#endif
