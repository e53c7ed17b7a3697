/* team.c - one pthread team that takes blocks from a shared ticket.
 *
 * The ticket is (sequence number of the step << 32 | blocks not yet taken). A thread takes a block by decrementing it; the thread that finishes the last
 * block of a step publishes the next ticket. Only a thread that holds a block reads the job, and a job cannot end while a block is held, so a
 * thread that comes late never sees a job that is gone. The end of a job is a ticket without blocks: storing it is the last thing that is done for
 * the job, because the owner may publish the next one as soon as it sees it. */
#define _GNU_SOURCE
#include "gpu/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 us on a 3 GHz core: longer than the imbalance of two blocks, shorter than a scheduler tick. */
enum { SPIN = 4000 };

struct team {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t done;  /* finished blocks of the step */
    _Alignas(64) _Atomic uint32_t event; /* counts publications, for sleeping on */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    uint32_t n;
    pthread_t *thread;
    /* the job; written before its first ticket, stable while a block is held */
    _Alignas(64) uint32_t step, n_steps, n_blocks;
    team_count_fn count;
    team_block_fn block;
    void *ctx;
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

static uint32_t number_of(const team *t) { return (uint32_t)(atomic_load(&t->ticket) >> 32); }

/* Returns the number of the new step. */
static uint32_t publish(team *t, uint32_t n_blocks)
{
    uint32_t seq = number_of(t) + 1;
    atomic_store(&t->ticket, (uint64_t)seq << 32 | n_blocks);
    atomic_fetch_add(&t->event, 1);
    if (atomic_load(&t->sleepers))
        syscall(SYS_futex, &t->event, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
    return seq;
}

/* Returns when the ticket no longer belongs to step number seq. */
static void await(team *t, uint32_t seq)
{
    for (int i = 0; i < SPIN; i++) {
        if ((uint32_t)(atomic_load_explicit(&t->ticket, memory_order_acquire) >> 32) != seq)
            return;
        relax();
    }
    atomic_fetch_add(&t->sleepers, 1);
    for (;;) {
        uint32_t event = atomic_load(&t->event); /* before the ticket, which is stored before the event */
        if (number_of(t) != seq)
            break;
        syscall(SYS_futex, &t->event, FUTEX_WAIT_PRIVATE, event, NULL, NULL, 0);
    }
    atomic_fetch_sub(&t->sleepers, 1);
}

/* The last block of a step is done: the next step, or the end of the job */
static void advance(team *t)
{
    if (++t->step < t->n_steps) {
        t->n_blocks = t->count(t->ctx, t->step);
        atomic_store_explicit(&t->done, 0, memory_order_relaxed);
        publish(t, t->n_blocks);
    } else {
        publish(t, 0);
    }
}

/* Takes and computes one block; false when none is left of the current step, whose number is then in *seq. */
static bool work(team *t, uint32_t rank, uint32_t *seq)
{
    uint64_t ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
    do {
        *seq = (uint32_t)(ticket >> 32);
        if ((uint32_t)ticket == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&t->ticket, &ticket, ticket - 1, memory_order_acq_rel, memory_order_acquire));
    uint32_t n_blocks = t->n_blocks;
    t->block(t->ctx, t->step, n_blocks - (uint32_t)ticket, rank);
    if (atomic_fetch_add_explicit(&t->done, 1, memory_order_acq_rel) + 1 == n_blocks)
        advance(t);
    return true;
}

static void *member_main(void *arg)
{
    struct member me = *(struct member *)arg;
    uint32_t seq;
    free(arg);
    while (!atomic_load(&me.t->stop))
        if (!work(me.t, me.rank, &seq) && !atomic_load(&me.t->stop))
            await(me.t, seq);
    return NULL;
}

void team_run(team *t, uint32_t n_steps, team_count_fn count, team_block_fn block, void *ctx)
{
    uint32_t seq, end;
    if (n_steps == 0)
        return;
    t->step = 0;
    t->n_steps = n_steps;
    t->count = count;
    t->block = block;
    t->ctx = ctx;
    t->n_blocks = count(ctx, 0);
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    end = publish(t, t->n_blocks) + n_steps;
    for (;;)
        if (!work(t, 0, &seq)) {
            if (seq == end)
                return;
            await(t, seq);
        }
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
    for (; t->n < n_threads; t->n++) {
        struct member *m = malloc(sizeof *m);
        if (m)
            *m = (struct member){ t, t->n };
        if (!m || pthread_create(&t->thread[t->n], NULL, member_main, m)) {
            free(m);
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
    atomic_store(&t->stop, true);
    publish(t, 0);
    for (uint32_t i = 1; i < t->n; i++)
        pthread_join(t->thread[i], NULL);
    free(t->thread);
    free(t);
}

uint32_t team_size(const team *t) { return t->n; }
