/* vulkan_floor.c - what the device costs before any kernel does work: the floor under every step.
 *
 *     make build/release/tests/bench/vulkan_floor && build/release/tests/bench/vulkan_floor [device [GiB]]
 *
 * A call is one group of gdn_conv with no channel: it reads one word of its block and leaves. Every number is the median of RUNS. */
#include "gdn/gdn.h"
#include "gdn/gdn_args.h"
#include "gpu/vulkan/vk.h"

#include <time.h>

enum { RUNS = 9, CALLS = 500 };

static struct err err;
static void need(status s)
{
    if (s == OK)
        return;
    fprintf(stderr, "%s\n", err.msg);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *t)
{
    qsort(t, RUNS, sizeof *t, ascending);
    return t[RUNS / 2];
}

/* ---- calls ---- */

static void fill(struct gpu_cmd *c, gpu_addr block, uint32_t n, bool parallel)
{
    struct gdn_conv_args a = { .block = block, .n_tok = 1 };
    gpu_cmd_reset(c);
    for (uint32_t i = 0; i < n; i++) {
        gpu_record(c, &gdn_kernels, K_gdn_conv, &a, sizeof a, 1);
        if (parallel)
            gpu_record_parallel(c);
    }
}

/* Seconds from start to end of a list that was recorded before. */
static double replay(gpu *g, struct gpu_cmd *c)
{
    double t[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        double start = now();
        need(gpu_submit(g, c, &err));
        t[i] = now() - start;
    }
    return median(t);
}

static void calls(gpu *g)
{
    struct gpu_mem block;
    struct gpu_cmd c;
    double start, record[RUNS], seconds[CALLS], stamped = 0;
    need(gpu_alloc(g, &block, sizeof(struct gdn_block), GPU_MEM_DEVICE, "block", &err));
    need(gpu_cmd_open(g, &c, CALLS, NULL, 0, &err));
    fill(&c, block.addr, 1, false);
    start = now();
    need(gpu_submit(g, &c, &err));
    printf("first submit (compiles)   %10.1f us\n", 1e6 * (now() - start));
    double one = replay(g, &c);
    printf("submit + wait, one call   %10.1f us\n", 1e6 * one);
    for (uint32_t i = 0; i < RUNS; i++) {
        fill(&c, block.addr, CALLS, false);
        start = now();
        need(gpu_start(g, &c, &err));
        record[i] = now() - start;
        need(gpu_wait(g, &err));
    }
    printf("record %d calls + submit %10.1f us\n", CALLS, 1e6 * median(record));
    double dependent = replay(g, &c);
    need(gpu_profile(g, &c, seconds, &err));
    for (uint32_t i = 0; i < CALLS; i++)
        stamped += seconds[i];
    fill(&c, block.addr, CALLS, true);
    need(gpu_submit(g, &c, &err));
    double parallel = replay(g, &c);
    printf("dependent call            %10.3f us\n", 1e6 * (dependent - one) / (CALLS - 1));
    printf("independent call          %10.3f us\n", 1e6 * (parallel - one) / (CALLS - 1));
    printf("call between time stamps  %10.3f us\n", 1e6 * stamped / CALLS);
    gpu_cmd_close(&c);
    gpu_free(g, &block);
}

/* ---- transfers ---- */

static void transfer_rate(gpu *g, const char *name, struct gpu_mem *m, uint8_t *host, size_t piece, bool write)
{
    double t[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        double start = now();
        for (size_t at = 0; at < m->bytes; at += piece)
            need(write ? gpu_write(g, m->addr + at, host, piece, &err) : gpu_read(g, host, m->addr + at, piece, &err));
        need(gpu_read(g, host, m->addr, 1, &err)); /* the last piece of a write may be under way */
        t[i] = now() - start;
    }
    printf("%s, pieces of %5zu KiB %8.2f GB/s\n", name, piece >> 10, 1e-9 * (double)m->bytes / median(t));
}

static double small_read(gpu *g, struct gpu_mem *m, size_t n)
{
    static uint8_t to[1 << 20];
    double t[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        double start = now();
        need(gpu_read(g, to, m->addr, n, &err));
        t[i] = now() - start;
    }
    return median(t);
}

static void transfers(gpu *g, size_t bytes)
{
    enum { PIECE = 16 << 20 };
    struct gpu_mem m, shared;
    uint8_t *host = malloc(PIECE);
    double start = now(), t[RUNS];
    memset(host, 1, PIECE);
    need(gpu_alloc(g, &m, bytes, GPU_MEM_DEVICE, "memory", &err));
    printf("allocate and clear        %8.2f GB/s\n", 1e-9 * (double)bytes / (now() - start));
    need(gpu_alloc(g, &shared, 1 << 20, GPU_MEM_SHARED, "shared memory", &err));
    for (size_t piece = 64 << 10; piece <= PIECE; piece *= 4)
        transfer_rate(g, "write", &m, host, piece, true);
    for (size_t piece = 1 << 20; piece <= PIECE; piece *= 4)
        transfer_rate(g, "read ", &m, host, piece, false);
    for (uint32_t i = 0; i < RUNS; i++) {
        start = now();
        need(gpu_copy(g, m.addr, m.addr + bytes / 2, bytes / 2, &err));
        t[i] = now() - start;
    }
    printf("copy on the device        %8.2f GB/s read and written\n", 1e-9 * (double)bytes / median(t));
    for (size_t n = 4; n <= 1 << 20; n *= 64)
        printf("read of %7zu bytes     %10.1f us, from shared memory %.1f us\n", n, 1e6 * small_read(g, &m, n), 1e6 * small_read(g, &shared, n));
    gpu_free(g, &m);
    gpu_free(g, &shared);
    free(host);
}

int main(int argc, char **argv)
{
    gpu *g = NULL;
    struct gpu_params p = { .device = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0 };
    size_t bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1) << 30;
    gpu_print_devices();
    double start = now();
    need(gpu_open_vulkan(&g, &p, &err));
    printf("open                      %10.1f ms\n", 1e3 * (now() - start));
    calls(g);
    transfers(g, MIN(bytes, (size_t)gpu_info_of(g)->alloc_limit & ~(size_t)((32 << 20) - 1)));
    gpu_close(g);
    return 0;
}
