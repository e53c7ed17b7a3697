/* unit_team.c - the thread team: every block once, steps in order, and no job lost between two jobs. */
#include "gpu/team.h"
#include "tests/test.h"

#include <stdatomic.h>
#include <unistd.h>

enum { STEPS = 3, BLOCKS = 5 };

struct job {
    _Atomic uint32_t taken[STEPS][BLOCKS];
    _Atomic uint32_t done, early;
};

static uint32_t count(void *ctx, uint32_t step)
{
    (void)ctx;
    return 1 + step * 2;
}

static void block(void *ctx, uint32_t step, uint32_t b, uint32_t rank)
{
    struct job *j = ctx;
    uint32_t before = step * step; /* 1 + 3 + ... : blocks of the steps before */
    (void)rank;
    j->early += j->done < before;
    j->taken[step][b]++;
    j->done++;
}

/* More threads than cores and jobs back to back: a thread is often interrupted where a job ends. */
static void back_to_back(uint32_t n_threads, uint32_t n_jobs)
{
    struct err e;
    team *t = NULL;
    CHECK(team_open(&t, n_threads, &e) == OK);
    for (uint32_t i = 0; t && i < n_jobs; i++) {
        struct job j = { 0 };
        uint32_t steps = 1 + i % STEPS, wrong = 0;
        team_run(t, steps, count, block, &j);
        for (uint32_t s = 0; s < STEPS; s++)
            for (uint32_t b = 0; b < BLOCKS; b++)
                wrong += j.taken[s][b] != (s < steps && b < 1 + s * 2);
        CHECK(wrong == 0 && j.early == 0 && j.done == steps * steps);
    }
    team_close(t);
}

int main(void)
{
    alarm(120); /* a lost job is a hang */
    back_to_back(1, 100);
    back_to_back(2, 20000);
    back_to_back(9, 20000);
    return TEST_END();
}
