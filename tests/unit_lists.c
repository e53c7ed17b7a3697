/* unit_lists.c - lists of calls that may run at once: in which order they stand, and that the cpu runs every block of each once. */
#include "gpu/gpu_kernels.h"
#include "tests/test.h"

enum { MOST = 64, ITEMS = 1000 };

/* Call i of run r is told apart by its items: 1 + 100 r + i */
static void check_order(gpu *g, uint32_t before, uint32_t n_run, uint32_t length)
{
    struct gpu_cmd c;
    struct err e;
    uint32_t count[ITEMS] = { 0 };
    struct bench_empty_args a = { .count = ADDR(count) };
    CHECK(gpu_cmd_open(g, &c, MOST + 4, NULL, 0, &e) == OK);
    for (uint32_t i = 0; i < before; i++)
        gpu_record(&c, &gpu_kernels, K_bench_empty, &a, sizeof a, 999);
    for (uint32_t r = 0; r < n_run; r++)
        for (uint32_t i = 0; i < length; i++) {
            gpu_record(&c, &gpu_kernels, K_bench_empty, &a, sizeof a, 1 + 100 * r + i);
            if (i % 3 == 1) /* beside the one before it in its own run */
                gpu_record_parallel(&c);
        }
    gpu_record_side_by_side(&c, before, n_run);
    CHECK(c.n == before + n_run * length);
    for (uint32_t i = 0; i < length; i++)
        for (uint32_t r = 0; r < n_run; r++) {
            const struct gpu_call *call = &c.call[before + i * n_run + r];
            CHECK(call->n_items == 1 + 100 * r + i);
            CHECK(call->parallel == (r > 0 || i % 3 == 1));
        }
    gpu_cmd_close(&c);
}

/* Calls of which some may run at once, each on counters of its own */
static void check_counts(gpu *g)
{
    static uint32_t count[MOST][ITEMS];
    double seconds[MOST];
    struct gpu_cmd c;
    struct err e;
    uint32_t items[MOST];
    memset(count, 0, sizeof count);
    CHECK(gpu_cmd_open(g, &c, MOST, NULL, 0, &e) == OK);
    for (uint32_t i = 0; i < MOST; i++) {
        items[i] = 1 + (uint32_t)rand() % (ITEMS - 1);
        gpu_record(&c, &gpu_kernels, K_bench_empty, &(struct bench_empty_args){ .count = ADDR(count[i]) }, sizeof(struct bench_empty_args), items[i]);
        if (i && rand() % 3)
            gpu_record_parallel(&c);
    }
    CHECK(gpu_submit(g, &c, &e) == OK && gpu_submit(g, &c, &e) == OK && gpu_profile(g, &c, seconds, &e) == OK);
    for (uint32_t i = 0; i < MOST; i++)
        for (uint32_t k = 0; k < ITEMS; k++)
            CHECK(count[i][k] == (k < items[i] ? 3 : 0));
    gpu_cmd_close(&c);
}

int main(void)
{
    srand((unsigned)test_seed(7));
    for (uint32_t threads = 1; threads <= 3; threads++) {
        gpu *g = NULL;
        struct err e;
        CHECK(gpu_open_cpu(&g, &(struct gpu_params){ .n_threads = threads }, &e) == OK);
        check_order(g, 0, 1, 5);
        check_order(g, 2, 8, 7);
        check_order(g, 1, 3, 1);
        check_order(g, 3, 2, 12);
        check_order(g, 0, 5, 0);
        for (int i = 0; i < 10; i++)
            check_counts(g);
        gpu_close(g);
    }
    return TEST_END();
}
