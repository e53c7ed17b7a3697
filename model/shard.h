/* shard.h - one part of a pile of inputs, for several processes or machines that share the work.
 *
 * An input belongs to the shard that the hash of its output's name says: not its place in the list, not the other inputs, not its content,
 * so every process can tell without a word to the others and without reading what is not its own. */
#ifndef HAYATE_MODEL_SHARD_H
#define HAYATE_MODEL_SHARD_H

#include "gpu/base.h"

/* The k-th of n, from 1; 1 of 1 is everything. */
struct shard {
    uint32_t k, n;
};

/* What Slurm tells the task of an array job (SLURM_ARRAY_TASK_ID, _COUNT, _MIN, _MAX, _STEP); NULL: not set. */
struct array_task {
    const char *id, *count, *min, *max, *step;
};

enum { MAX_SHARDS = 1000000 };

/* "K/N" with 1 <= K <= N. ERR_USAGE names the option and what was found. */
status shard_parse(struct shard *s, const char *option, const char *text, struct err *e);
/* The place of a task among those of its array; 1 of 1 without one. ERR_USAGE: the ids are no arithmetic sequence, so the places are unknown. */
status shard_of_task(struct shard *s, const struct array_task *t, struct err *e);
/* Which of n shards, from 1, has the input whose output is called name. */
uint32_t shard_of_name(const char *name, uint32_t n);

/* Where shard s writes what the command line calls path: "a/b.json" is "a/b.2-of-4.json"; path itself for the only shard, and where path is
 * something other than a file (a pipe, a terminal). The caller frees it; NULL: out of memory. */
char *shard_path(const char *path, struct shard s);
/* Whether other, a path, is what any shard would write for the same argument as own, a result of shard_path for s; with ".part" or ".new" too.
 * Compares the last components only: inputs called like that stay out wherever they lie. */
bool shard_is_sibling(const char *own, struct shard s, const char *other);

#endif
