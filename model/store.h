/* store.h - the output folder of a batch: answers, each whole or absent, and a record of how each came about.
 *
 *     DIR/<name>.txt           an answer; written as DIR/.hayate/answer.tmp, synced, renamed
 *     DIR/.hayate/records      one line per answer, appended and synced after the rename; locked while a batch runs
 *
 * Shard K of N writes DIR/.hayate/answer.K-of-N.tmp and records.K-of-N, locks these, and shares the lock of records with the other shards: no
 * batch of all inputs runs beside them, and no shard twice. Everyone reads the records of everyone.
 *
 * A line:  <check> <model> <options> <input> <output> <ending> <name>   tabs between; hashes are xxh3 in 16 hex digits, <check> that of
 * the rest of the line; the name is escaped. Of several lines for one name in one file the last counts; a line with a wrong check is nothing. */
#ifndef HAYATE_MODEL_STORE_H
#define HAYATE_MODEL_STORE_H

#include "model/answer.h"

/* What an answer follows from, as hashes. */
struct origin {
    uint64_t model, options, input;
};

typedef struct store store;

/* Makes the folder when it is missing; for shard part. ERR_IO: cannot write there, or another batch does. */
status store_open(store **out, const char *dir, struct shard part, struct err *e);
void store_close(store *s); /* accepts NULL */
/* Whether the answer of this origin is there, whole and unchanged. */
bool store_has(const store *s, const char *name, const struct origin *from, enum ending *ending);
/* Writes text and a line end as DIR/<name>.txt, then its record. ERR_INPUT: this name cannot be written; ERR_IO: nothing can. */
status store_put(store *s, const char *name, struct str text, const struct origin *from, enum ending ending, struct err *e);

/* All of p[n] to fd, however many calls it takes; 0 or errno. (Also for jsonl.c.) */
int write_all(int fd, const char *p, size_t n);
/* 16 hex digits and a terminator. */
void hex64(uint64_t x, char out[17]);
bool parse_hex64(const char *p, size_t n, uint64_t *out);

#endif
