/* team.h - the thread team of the cpu backend: n threads that stay, and work through steps of independent blocks.
 *
 * Step i + 1 starts when every block of step i is done - not when every thread has come by. A thread that the scheduler took away between two
 * blocks delays nobody, so the team keeps its speed on a busy machine. Waiting threads spin for some microseconds, then sleep.
 * Neighbouring blocks go to one thread, in order, as long as each has some of its own; the rest goes to whoever is free. */
#ifndef HAYATE_GPU_TEAM_H
#define HAYATE_GPU_TEAM_H

#include "gpu/base.h"

typedef struct team team;

/* How many blocks step `step` has, at least 1; called by one thread at a time. */
typedef uint32_t (*team_count_fn)(void *ctx, uint32_t step);
/* Computes one block on thread `rank` (0: the caller of team_run). */
typedef void (*team_block_fn)(void *ctx, uint32_t step, uint32_t block, uint32_t rank);

status team_open(team **out, uint32_t n_threads, struct err *e);
void team_close(team *t); /* accepts NULL */
uint32_t team_size(const team *t);
/* Runs n_steps steps and returns when the last block is done; what blocks wrote is visible to later steps and to the caller. */
void team_run(team *t, uint32_t n_steps, team_count_fn count, team_block_fn block, void *ctx);

#endif
