/* machine.c - the measurements of machine.h. All times are the best of some runs of a list that ran before: the first run compiles and records. */
#include "model/machine.h"

#include "gpu/gpu_kernels.h"
#include "model/console.h"
#include "model/machine_bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHAIN = 500, MOST_CALLS = 1000, RUNS = 4 };

/* As much as the device gives, up to want: reads of any size then find data that no cache holds. */
static status take_memory(struct bench *b, size_t want, struct err *e)
{
    for (; want > 64 * MIB; want /= 2)
        if (gpu_alloc(b->g, &b->mem, want, GPU_MEM_DEVICE, "selftest", e) == OK)
            return OK;
    return gpu_alloc(b->g, &b->mem, want, GPU_MEM_DEVICE, "selftest", e);
}

static status bench_open(struct bench *b, gpu *g, struct err *e)
{
    const struct gpu_info *info = gpu_info_of(g);
    size_t want = info->backend == GPU_CPU ? 256 * MIB : 512 * MIB, per_thread = 1024;
    if (info->alloc_limit && info->alloc_limit < want)
        want = info->alloc_limit;
    *b = (struct bench){ .g = g, .scratch = malloc(gpu_threads(g) * per_thread * sizeof(float)) };
    if (!b->scratch)
        return fail(e, ERR_NOMEM, "selftest: scratch");
    TRY(take_memory(b, want, e));
    TRY(gpu_alloc(g, &b->small, MIB, GPU_MEM_DEVICE, "selftest", e));
    return gpu_cmd_open(g, &b->cmd, MOST_CALLS, b->scratch, per_thread, e);
}

static void bench_close(struct bench *b)
{
    gpu_cmd_close(&b->cmd);
    gpu_free(b->g, &b->small);
    gpu_free(b->g, &b->mem);
    free(b->scratch);
}

status bench_time(struct bench *b, double *seconds, struct err *e)
{
    TRY(gpu_submit(b->g, &b->cmd, e));
    *seconds = 1e9;
    for (int i = 1; i < RUNS; i++) {
        double t = console_now();
        TRY(gpu_submit(b->g, &b->cmd, e));
        t = console_now() - t;
        *seconds = MIN(*seconds, t);
    }
    return OK;
}

/* ---- dependent calls ---- */

static status chain(struct bench *b, uint32_t n_call, uint32_t groups, double *seconds, struct err *e)
{
    uint32_t count = 0;
    TRY(gpu_clear(b->g, b->small.addr, b->small.bytes, e));
    gpu_cmd_reset(&b->cmd);
    for (uint32_t i = 0; i < n_call; i++)
        CALL(&b->cmd, gpu_kernels, K_bench_empty, groups, struct bench_empty_args, .count = b->small.addr);
    TRY(bench_time(b, seconds, e));
    TRY(gpu_read(b->g, &count, b->small.addr + 4 * (uint64_t)(groups - 1), sizeof count, e));
    if (count != RUNS * n_call)
        return fail(e, ERR_DEVICE, "selftest: a chain of %u calls counted %u, expected %u: calls of a list overlap or get lost", n_call, count,
                    RUNS * n_call);
    return OK;
}

static status measure_chains(struct bench *b, struct err *e)
{
    static const uint32_t groups[] = { 1, 80, 500, 1000 };
    double t;
    TRY(chain(b, 1, 1, &b->submit_s, e));
    printf("submit and wait, 1 call      %10.2f us\n", b->submit_s * 1e6);
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        TRY(chain(b, CHAIN, groups[i], &t, e));
        printf("dependent call, %4u groups  %10.2f us\n", groups[i], (t - b->submit_s) / (CHAIN - 1) * 1e6);
    }
    return OK;
}

/* ---- reading and writing ---- */

/* One call over the bytes at `at`: about 1,024 groups, each of 4 KiB to 64 KiB. */
static void touch(struct bench *b, size_t at, size_t bytes, bool write)
{
    size_t unit = 4 * BENCH_READ_ALIGN, per_group = unit * MAX((size_t)1, MIN(bytes / unit / 1024, (size_t)16));
    CALL(&b->cmd, gpu_kernels, K_bench_read, (uint32_t)(bytes / per_group), struct bench_read_args, .data = b->mem.addr + at, .sum = b->small.addr,
         .n_word = (uint32_t)(per_group / 4), .write = write);
}

/* n calls, each over the next `bytes` of the memory */
static status sweep(struct bench *b, size_t bytes, uint32_t n, bool write, double *seconds, struct err *e)
{
    size_t places = b->mem.bytes / bytes;
    gpu_cmd_reset(&b->cmd);
    for (uint32_t i = 0; i < n; i++)
        touch(b, i % places * bytes, bytes, write);
    return bench_time(b, seconds, e);
}

static status measure_reads(struct bench *b, struct err *e)
{
    double t;
    TRY(sweep(b, b->mem.bytes, 1, true, &t, e)); /* memory that was never written may be one page of zeros */
    printf("write, %7.2f MB a call      %10.2f us  %8.1f GB/s\n", (double)b->mem.bytes / MB, t * 1e6, (double)b->mem.bytes / t / 1e9);
    for (size_t bytes = MIB / 4; bytes <= MIN(256 * MIB, b->mem.bytes); bytes *= 4) {
        uint32_t n = (uint32_t)MAX((size_t)2, MIN(2 * b->mem.bytes / bytes, (size_t)MOST_CALLS));
        TRY(sweep(b, bytes, n, false, &t, e));
        printf("read, %8.2f MB a call      %10.2f us  %8.1f GB/s\n", (double)bytes / MB, t / n * 1e6, (double)bytes * n / t / 1e9);
    }
    return OK;
}

/* Writes some MB and reads them back, again and again at the same place; what the writing alone takes is subtracted. 0: lost in the noise. */
static status written_then_read(struct bench *b, size_t bytes, double *seconds, struct err *e)
{
    uint32_t n = (uint32_t)MAX((size_t)4, MIN(b->mem.bytes / bytes, (size_t)200));
    double both, write;
    for (int with_read = 0; with_read < 2; with_read++) {
        gpu_cmd_reset(&b->cmd);
        for (uint32_t i = 0; i < n; i++) {
            touch(b, 0, bytes, true);
            if (with_read)
                touch(b, 0, bytes, false);
        }
        TRY(bench_time(b, with_read ? &both : &write, e));
    }
    *seconds = both - write < write / 20 ? 0 : (both - write) / n;
    return OK;
}

static status measure_caches(struct bench *b, struct err *e)
{
    static const size_t mib[] = { 1, 4, 8, 16, 24, 32, 48, 64, 128 };
    for (size_t i = 0; i < COUNT_OF(mib) && mib[i] * MIB <= b->mem.bytes; i++) {
        double t;
        TRY(written_then_read(b, mib[i] * MIB, &t, e));
        if (t > 0)
            printf("written, then read, %4zu MiB  %10.2f us  %8.1f GB/s\n", mib[i], t * 1e6, (double)(mib[i] * MIB) / t / 1e9);
        else
            printf("written, then read, %4zu MiB           -\n", mib[i]);
    }
    return OK;
}

/* ---- transfers ---- */

static status transfer_time(struct bench *b, void *host, size_t bytes, bool up, double *seconds, struct err *e)
{
    *seconds = 1e9;
    for (int i = 0; i < RUNS + 1; i++) {
        double t = console_now();
        TRY(up ? gpu_write(b->g, b->mem.addr, host, bytes, e) : gpu_read(b->g, host, b->mem.addr, bytes, e));
        t = console_now() - t;
        *seconds = i ? MIN(*seconds, t) : *seconds;
    }
    return OK;
}

static status measure_transfers(struct bench *b, struct err *e)
{
    static const struct {
        const char *name;
        size_t bytes;
        bool up;
    } kind[] = { { "upload, 64 MiB", 64 << 20, true }, { "read-back, 64 MiB", 64 << 20, false }, { "upload, 4 bytes", 4, true }, { "read-back, 4 bytes", 4, false } };
    uint8_t *host = calloc(64, MIB);
    if (!host)
        return fail(e, ERR_NOMEM, "selftest: 64 MiB");
    status s = OK;
    for (size_t i = 0; s == OK && i < COUNT_OF(kind); i++) {
        double t = 0;
        s = transfer_time(b, host, MIN(kind[i].bytes, b->mem.bytes), kind[i].up, &t, e);
        if (s == OK && kind[i].bytes > 4)
            printf("%-28s %10.2f us  %8.1f GB/s\n", kind[i].name, t * 1e6, (double)kind[i].bytes / t / 1e9);
        else if (s == OK)
            printf("%-28s %10.2f us\n", kind[i].name, t * 1e6);
    }
    free(host);
    return s;
}

status machine_measure(gpu *g, struct err *e)
{
    struct bench b;
    const uint32_t needed[] = { K_bench_empty, K_bench_read };
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (!gpu_has(g, &gpu_kernels, needed[i]))
            return fail(e, ERR_DEVICE, "selftest --machine: no binary of %s for this backend", gpu_kernels.row[needed[i]].id);
    status s = bench_open(&b, g, e);
    if (s == OK)
        s = measure_chains(&b, e);
    if (s == OK)
        s = measure_reads(&b, e);
    if (s == OK)
        s = measure_caches(&b, e);
    if (s == OK)
        s = measure_transfers(&b, e);
    if (s == OK && gpu_backend_of(g) != GPU_CPU)
        s = machine_rows(&b, e);
    bench_close(&b);
    return s;
}
