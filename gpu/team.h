/* team.h - the thread team of the cpu backend: n threads that stay, spin briefly between jobs, then sleep. */
#ifndef HAYATE_GPU_TEAM_H
#define HAYATE_GPU_TEAM_H

#include "gpu/base.h"

typedef struct team team;
/* Runs on every thread of the team, the caller included; rank 0 is the caller. */
typedef void (*team_fn)(void *ctx, uint32_t rank, team *t);

status team_open(team **out, uint32_t n_threads, struct err *e);
void team_close(team *t); /* accepts NULL */
uint32_t team_size(const team *t);
void team_run(team *t, team_fn fn, void *ctx);
/* Inside team_run: returns when every thread has arrived; what they wrote before is visible after. */
void team_barrier(team *t);

#endif
