/* team.c - one pthread team; a counting barrier whose waiters spin for some microseconds and then sleep on a futex.
 *
 * Between two kernels the wait is shorter than a system call; between two answers it may be seconds, and the cores belong to others. */
#define _GNU_SOURCE
#include "gpu/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* About 20 us on a 3 GHz core: longer than the imbalance of two blocks, shorter than a scheduler tick. */
enum { SPIN = 4000 };

/* A generation that threads wait to see change. */
struct gate {
    _Atomic uint32_t gen;
    _Atomic uint32_t sleepers;
};

struct team {
    uint32_t n;
    pthread_t *thread;
    _Alignas(64) struct gate start;   /* a new job, or the end */
    _Alignas(64) struct gate barrier;
    _Alignas(64) _Atomic uint32_t arrived;
    team_fn fn;
    void *ctx;
    bool stop;
};

struct member {
    team *t;
    uint32_t rank;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void gate_open(struct gate *g)
{
    atomic_fetch_add(&g->gen, 1);
    if (atomic_load(&g->sleepers))
        syscall(SYS_futex, &g->gen, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void gate_wait(struct gate *g, uint32_t seen)
{
    for (int i = 0; i < SPIN; i++) {
        if (atomic_load_explicit(&g->gen, memory_order_acquire) != seen)
            return;
        relax();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->gen) == seen)
        syscall(SYS_futex, &g->gen, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

void team_barrier(team *t)
{
    if (t->n == 1)
        return;
    uint32_t seen = atomic_load(&t->barrier.gen);
    if (atomic_fetch_add(&t->arrived, 1) == t->n - 1) {
        atomic_store(&t->arrived, 0);
        gate_open(&t->barrier);
    } else {
        gate_wait(&t->barrier, seen);
    }
}

static void *member_main(void *arg)
{
    struct member me = *(struct member *)arg;
    free(arg);
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&me.t->start, seen);
        if (me.t->stop)
            return NULL;
        me.t->fn(me.t->ctx, me.rank, me.t);
        team_barrier(me.t);
    }
}

void team_run(team *t, team_fn fn, void *ctx)
{
    t->fn = fn;
    t->ctx = ctx;
    if (t->n > 1)
        gate_open(&t->start);
    fn(ctx, 0, t);
    team_barrier(t);
}

status team_open(team **out, uint32_t n_threads, struct err *e)
{
    team *t = aligned_alloc(64, size_up(sizeof *t, 64));
    if (!t)
        return fail(e, ERR_NOMEM, "thread team");
    *t = (team){ .n = 1 };
    t->thread = calloc(n_threads, sizeof *t->thread);
    if (!t->thread)
        goto nomem;
    uint32_t want = n_threads;
    t->n = want; /* before any member runs: barriers count it */
    for (uint32_t i = 1; i < want; i++) {
        struct member *m = malloc(sizeof *m);
        if (m)
            *m = (struct member){ t, i };
        if (!m || pthread_create(&t->thread[i], NULL, member_main, m)) {
            free(m);
            t->n = i; /* close what exists: members wait at the start gate and have not passed a barrier yet */
            goto nomem;
        }
    }
    *out = t;
    return OK;
nomem:
    team_close(t);
    return fail(e, ERR_NOMEM, "cannot start %u threads", n_threads);
}

void team_close(team *t)
{
    if (!t)
        return;
    t->stop = true;
    if (t->n > 1)
        gate_open(&t->start);
    for (uint32_t i = 1; i < t->n; i++)
        pthread_join(t->thread[i], NULL);
    free(t->thread);
    free(t);
}

uint32_t team_size(const team *t) { return t->n; }
