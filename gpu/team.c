/* team.c - one pthread team whose threads take blocks, each from a range of its own and then from those of others.
 *
 * The blocks of a step are cut into as many ranges of neighbours as there are threads: what lies side by side in memory is then read by one thread in order,
 * which is up to twice as fast as every second piece. A ticket per range is (sequence number of the step << 32 | blocks not yet taken); a thread takes a
 * block by decrementing it. The thread that finishes the last block of a step publishes the next tickets. Only a thread that holds a block reads the job,
 * and a job cannot end while a block is held, so a thread that comes late never sees a job that is gone.
 *
 * The ticket of range 0 has the number of the step and is stored last: until then the step cannot end, because range 0 is never empty, so nobody else publishes.
 * Ranges without blocks keep the ticket they have. The end of a job is a number whose range 0 is empty: storing it is the last thing that is done for the
 * job, because the owner may publish the next one as soon as it sees it. */
#define _GNU_SOURCE
#include "gpu/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 us on a 3 GHz core: longer than the imbalance of two blocks, shorter than a scheduler tick. */
enum { SPIN = 4000 };

struct ticket {
    _Alignas(64) _Atomic uint64_t left;
};

struct team {
    struct ticket *range; /* [n] */
    _Alignas(64) _Atomic uint32_t done;  /* finished blocks of the step */
    _Alignas(64) _Atomic uint32_t event; /* counts publications, for sleeping on */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    uint32_t n, n_started; /* threads, the caller's among them */
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

static uint32_t number_of(const team *t) { return (uint32_t)(atomic_load_explicit(&t->range[0].left, memory_order_acquire) >> 32); }

/* The first block of a range; range 0 has one if there is any. */
static uint32_t range_begin(const team *t, uint32_t n_blocks, uint32_t range) { return (uint32_t)(((uint64_t)n_blocks * range + t->n - 1) / t->n); }

/* Returns the number of the new step. */
static uint32_t publish(team *t, uint32_t n_blocks)
{
    uint32_t seq = number_of(t) + 1;
    for (uint32_t r = t->n; r-- > 0;) {
        uint32_t n = range_begin(t, n_blocks, r + 1) - range_begin(t, n_blocks, r);
        if (n || r == 0)
            atomic_store(&t->range[r].left, (uint64_t)seq << 32 | n);
    }
    atomic_fetch_add(&t->event, 1);
    if (atomic_load(&t->sleepers))
        syscall(SYS_futex, &t->event, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
    return seq;
}

/* Returns when the step is no longer number seq. */
static void await(team *t, uint32_t seq)
{
    for (int i = 0; i < SPIN; i++) {
        if (number_of(t) != seq)
            return;
        relax();
    }
    atomic_fetch_add(&t->sleepers, 1);
    for (;;) {
        uint32_t event = atomic_load(&t->event); /* before the number, which is stored before the event */
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

/* Takes the next block of a range; false: none is left. Else its place, counted from the end of the range, is in *left. */
static bool take(struct ticket *range, uint32_t *left)
{
    uint64_t ticket = atomic_load_explicit(&range->left, memory_order_acquire);
    do {
        *left = (uint32_t)ticket;
        if (*left == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&range->left, &ticket, ticket - 1, memory_order_acq_rel, memory_order_acquire));
    return true;
}

/* Takes and computes one block; false when none is left of the current step, whose number is then in *seq. */
static bool work(team *t, uint32_t rank, uint32_t *seq)
{
    uint32_t left, range = rank;
    *seq = number_of(t); /* before the ranges: what is published meanwhile has another number */
    while (!take(&t->range[range], &left))
        if ((range = range + 1 == t->n ? 0 : range + 1) == rank)
            return false;
    uint32_t n_blocks = t->n_blocks;
    t->block(t->ctx, t->step, range_begin(t, n_blocks, range + 1) - left, rank);
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
    *t = (team){ .n = n_threads, .n_started = 1, .thread = calloc(n_threads, sizeof *t->thread), .range = aligned_alloc(64, n_threads * sizeof *t->range) };
    if (!t->thread || !t->range)
        goto nomem;
    memset(t->range, 0, n_threads * sizeof *t->range);
    for (; t->n_started < n_threads; t->n_started++) {
        struct member *m = malloc(sizeof *m);
        if (m)
            *m = (struct member){ t, t->n_started };
        if (!m || pthread_create(&t->thread[t->n_started], NULL, member_main, m)) {
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
    if (t->range)
        publish(t, 0);
    for (uint32_t i = 1; i < t->n_started; i++)
        pthread_join(t->thread[i], NULL);
    free(t->thread);
    free(t->range);
    free(t);
}

uint32_t team_size(const team *t) { return t->n; }
