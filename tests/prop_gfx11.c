/* prop_gfx11.c - every gfx1151 code object of the program, instruction by instruction on the interpreter (tests/gfx11), on the random cases of its row
 * against the C reference. Beside the results: nothing unwritten is used, no race in LDS, no register read before its load has been waited for, no
 * address outside of the buffers of the case. A new row needs nothing here.
 *
 *     prop_gfx11 [ROW...]     these rows only (patterns), with counts of instructions */
#include "gpu/gpu_backend.h"
#include "model/row_check.h"
#include "tests/gfx11/device.h"
#include "tests/test.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* LIMIT: instructions of a launch. A case that takes more is made again with ranges of sizes halved, up to SHRINK times; then it is an error. */
enum { MOST_THREADS = 8, LIMIT = 500000, SHRINK = 3 };
enum { MOST_SECONDS = 600 }; /* of all threads: five minutes on two cores */

struct result {
    const struct row_module *m;
    uint32_t id;
    status s;
    struct row_result r;
    struct err e;
    struct gfx11_counts counts;
    uint32_t n_shrunk;      /* cases that had to be made smaller */
    uint32_t n_ran, n_inst; /* instructions of the code object that ran at least once */
    double seconds;
};
static struct result results[512];
static uint32_t n_results;
static atomic_uint next_row;
static uint64_t seed;
static uint32_t n_rounds; /* sizes repeat after 6, pairs of them after 36 */

/* The buffers of the case, and nothing between them */
static status case_regions(void *context, gpu *g, struct gfx11_memory *m, struct err *e)
{
    const struct row_check *k = context;
    enum { GUARD = 64 };
    for (uint32_t i = 0; i < k->c.n_buf; i++) {
        const struct case_buf *b = &k->c.buf[i];
        size_t end = size_up(b->at + b->bytes, GUARD) + GUARD;
        struct gfx11_region r = { .p = AT(uint8_t, k->mem.addr + b->at), .bytes = b->bytes, .readable = end - b->at, .bad = gfx11_shadow(g, k->mem.addr + b->at),
                                  .read_only = b->kind == BUF_IN || b->kind == BUF_STRUCT };
        TRY(gfx11_memory_add(m, r, e));
    }
    return OK;
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check_case(struct result *r, struct row_check *k, gpu *g, uint32_t round)
{
    k->c.shrink = 0;
    while ((r->s = row_check_case(k, r->m, r->id, round, seed, &r->r, &r->e)) != OK && gfx11_counts(g).fault == GFX11_ENDLESS && k->c.shrink < SHRINK)
        r->n_shrunk += k->c.shrink++ == 0;
}

static void check_row(struct result *r)
{
    struct row_check k = { 0 };
    struct gfx11_options o = { .limit = LIMIT, .races = true, .poison = POISON, .regions = case_regions, .context = &k };
    gpu *g = NULL;
    double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    r->s = gpu_open_gfx11(&g, &o, &r->e);
    if (r->s == OK)
        r->s = row_check_open(&k, g, &r->e);
    for (uint32_t round = 0; r->s == OK && round < n_rounds; round++) {
        check_case(r, &k, g, round);
        if (r->s != OK)
            snprintf(r->r.first, sizeof r->r.first, "case %u (%s): ", round, k.c.shape);
    }
    if (g) {
        r->counts = gfx11_counts(g);
        gfx11_row_coverage(g, r->m->table->row[r->id].id, &r->n_ran, &r->n_inst);
    }
    row_check_close(&k);
    gpu_close(g);
    r->seconds = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

static void *worker(void *unused)
{
    (void)unused;
    for (uint32_t i; (i = atomic_fetch_add(&next_row, 1)) < n_results;)
        check_row(&results[i]);
    return NULL;
}

static bool wanted(const char *id, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (fnmatch(names[i], id, 0) == 0)
            return true;
    return n == 0;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS];
    uint32_t n_thread = MIN((uint32_t)MOST_THREADS, gpu_cores_available());
    uint64_t n_ran = 0, n_inst = 0, all = 0;
    double start = seconds(CLOCK_MONOTONIC), took;
    seed = test_seed(11);
    n_rounds = test_size(2, 12, ROW_ROUNDS);
    for (int m = 0; m < ROW_MODULES; m++)
        for (uint32_t id = 0; id < row_modules[m].table->n; id++)
            if (row_modules[m].table->row[id].workgroup && wanted(row_modules[m].table->row[id].id, argc - 1, argv + 1))
                results[n_results++] = (struct result){ .m = &row_modules[m], .id = id };
    for (uint32_t i = 0; i < n_thread; i++)
        pthread_create(&thread[i], NULL, worker, NULL);
    for (uint32_t i = 0; i < n_thread; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < n_results; i++) {
        struct result *r = &results[i];
        const char *id = r->m->table->row[r->id].id;
        CHECK(r->s == OK && row_passed(&r->r) && r->r.values > 0);
        if (r->s != OK || !row_passed(&r->r) || !r->r.values)
            fprintf(stderr, "%s: %s%s\n", id, r->r.no_cases ? "no cases" : !r->r.values && r->s == OK ? "nothing was compared" : r->r.first, r->s != OK ? r->e.msg : "");
        if (argc > 1)
            printf("%-20s %3u cases, %2u made smaller, %7.3f M instructions, largest launch %6.3f M, %4u of %4u ran, worst error %.3f of allowed, %5.2f s\n", id, r->r.shapes, r->n_shrunk,
                   (double)r->counts.all / 1e6, (double)r->counts.largest / 1e6, r->n_ran, r->n_inst, r->r.ratio, r->seconds);
        n_ran += r->n_ran, n_inst += r->n_inst, all += r->counts.all;
    }
    CHECK(n_results > 0);
    took = seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("%u code objects, %.1f M instructions of waves; %.1f %% of %llu instructions ran; %.0f s, %.0f s of processor time\n", n_results, (double)all / 1e6,
           100.0 * (double)n_ran / (double)MAX(n_inst, 1), (unsigned long long)n_inst, seconds(CLOCK_MONOTONIC) - start, took);
#ifndef __SANITIZE_ADDRESS__
    CHECK(took <= MOST_SECONDS);
#endif
    return TEST_END();
}
