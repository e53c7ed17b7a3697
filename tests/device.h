/* device.h - what every backend has to do the same way: memory against a copy in the host's memory, lists against the C references. For the tests
 * of one backend each. */
#ifndef HAYATE_TESTS_DEVICE_H
#define HAYATE_TESTS_DEVICE_H

#include "gdn/gdn.h"
#include "gdn/gdn_args.h"
#include "gpu/gpu_kernels.h"
#include "model/model_kernels.h"
#include "tests/test.h"

#include <math.h>

static struct err err;
static uint64_t random_state;
static uint32_t random_u32(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}
static void random_bytes(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)random_u32(256);
}
static void random_floats(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (float)random_u32(1 << 16) / (1 << 15) - 1;
}

static bool says(const char *text) { return strstr(err.msg, text) != NULL; }

/* ---- memory ---- */

enum { N_MEM = 5, SIZE_MAX_TESTED = 40 << 20 };
struct pair {
    struct gpu_mem mem;
    uint8_t *same; /* what the memory should hold */
};

static void expect_same(gpu *g, struct pair *p, size_t at, size_t n, uint8_t *space)
{
    memset(space, 0xa5, n + 1);
    CHECK(gpu_read(g, space, p->mem.addr + at, n, &err) == OK);
    CHECK(memcmp(space, p->same + at, n) == 0 && space[n] == 0xa5);
}

static void pick(const struct pair *p, size_t *at, size_t *n)
{
    bool all = random_u32(16) == 0;
    uint32_t most = random_u32(4) ? 300 : 3 << 20;
    *at = all ? 0 : random_u32((uint32_t)p->mem.bytes);
    *n = all ? p->mem.bytes : 1 + random_u32((uint32_t)MIN(p->mem.bytes - *at, most));
}

static void random_transfer(gpu *g, struct pair *pair, uint8_t *space)
{
    struct pair *p = &pair[random_u32(N_MEM)], *q = &pair[random_u32(N_MEM)];
    size_t at, n, from;
    pick(p, &at, &n);
    switch (random_u32(4)) {
    case 0:
        random_bytes(p->same + at, n);
        memcpy(space, p->same + at, n);
        CHECK(gpu_write(g, p->mem.addr + at, space, n, &err) == OK);
        memset(space, 0, n); /* the caller's memory is free at once */
        break;
    case 1:
        memset(p->same + at, 0, n);
        CHECK(gpu_clear(g, p->mem.addr + at, n, &err) == OK);
        break;
    case 2:
        if (p == q || q->mem.bytes < n)
            break;
        from = random_u32((uint32_t)(q->mem.bytes - n + 1));
        memcpy(p->same + at, q->same + from, n);
        CHECK(gpu_copy(g, p->mem.addr + at, q->mem.addr + from, n, &err) == OK);
        break;
    default: expect_same(g, p, at, n, space);
    }
}

/* staged: the device was opened so, and no memory of it is mapped. */
static void transfers(gpu *g, bool staged)
{
    static const size_t size[N_MEM] = { 1, 7, 4099, 1 << 20, SIZE_MAX_TESTED + 5 };
    struct pair pair[N_MEM];
    uint8_t *space = malloc(SIZE_MAX_TESTED + 6);
    uint64_t asked, driver, sum = 0;
    for (uint32_t i = 0; i < N_MEM; i++) {
        CHECK(gpu_alloc(g, &pair[i].mem, size[i], i == 2 ? GPU_MEM_SHARED : GPU_MEM_DEVICE, "test memory", &err) == OK);
        CHECK((pair[i].mem.host != NULL) == (i == 2));
        CHECK(!staged || !pair[i].mem.map);
        pair[i].same = calloc(1, size[i]);
        expect_same(g, &pair[i], 0, size[i], space);
        sum += size[i];
    }
    gpu_memory_used(g, &asked, &driver);
    CHECK(asked == sum);
    for (uint32_t i = 0; i < 400; i++)
        random_transfer(g, pair, space);
    for (uint32_t i = 0; i < N_MEM; i++) {
        expect_same(g, &pair[i], 0, size[i], space);
        gpu_free(g, &pair[i].mem);
        free(pair[i].same);
    }
    gpu_memory_used(g, &asked, &driver);
    CHECK(asked == 0);
    free(space);
}

/* g allows 1 MiB in one allocation. */
static void refused_memory(gpu *g)
{
    struct gpu_mem m, none = { 0 };
    uint8_t b[16] = { 0 };
    CHECK(gpu_info_of(g)->alloc_limit == 1 << 20);
    CHECK(gpu_alloc(g, &m, (1 << 20) + 1, GPU_MEM_DEVICE, "the big one", &err) == ERR_DEVICE && says("the big one: 1048577") && says("1048576"));
    CHECK(m.bytes == 0);
    CHECK(gpu_alloc(g, &m, 1 << 20, GPU_MEM_DEVICE, "fits", &err) == OK);
    CHECK(gpu_write(g, m.addr + (1 << 20) - 8, b, 9, &err) == ERR_DEVICE && says("9 bytes"));
    CHECK(gpu_read(g, b, m.addr - 1, 2, &err) == ERR_DEVICE);
    CHECK(gpu_copy(g, m.addr, m.addr + 4, 8, &err) == ERR_DEVICE);
    CHECK(gpu_copy(g, m.addr, m.addr + 8, 8, &err) == OK);
    CHECK(gpu_clear(g, 0, 1, &err) == ERR_DEVICE);
    CHECK(gpu_clear(g, m.addr, 0, &err) == OK);
    gpu_free(g, &m);
    gpu_free(g, &none);
    CHECK(gpu_read(g, b, m.addr, 1, &err) == ERR_DEVICE);
}

/* ---- kernels ---- */

/* x -> hc_norm -> y -> gdn_conv -> z. Both kernels, and an order that matters; the window of gdn_conv moves with every run. */
enum { TOKENS = 5, STREAMS = 3, N_EMBD = 100, TAPS = 4, WIDTH = STREAMS * N_EMBD, VALUES = TOKENS * WIDTH };
struct work {
    float x[VALUES], y[VALUES], z[VALUES], gain[WIDTH], conv[WIDTH * TAPS], window[(TAPS - 1) * WIDTH];
    struct gdn_block block;
};

/* `at` is where a struct work lies, for whoever runs the kernels; `from` and `to` are distances in it. */
static struct hc_norm_args norm_args(gpu_addr at)
{
    return (struct hc_norm_args){ .residual = at + offsetof(struct work, x), .gain = at + offsetof(struct work, gain),
                                  .out = at + offsetof(struct work, y), .n_stream = STREAMS, .n_embd = N_EMBD, .eps = 1e-6f };
}
static struct gdn_conv_args conv_args(gpu_addr at)
{
    return (struct gdn_conv_args){ .block = at + offsetof(struct work, block), .raw = at + offsetof(struct work, y),
                                   .out = at + offsetof(struct work, z), .n_tok = TOKENS };
}
static void place(struct work *w, gpu_addr at)
{
    w->block = (struct gdn_block){ .conv = at + offsetof(struct work, conv), .window = at + offsetof(struct work, window), .taps = TAPS,
                                   .width = WIDTH };
}

static void run_reference(struct work *w)
{
    struct hc_norm_args norm = norm_args(ADDR(w));
    struct gdn_conv_args conv = conv_args(ADDR(w));
    model_kernels.row[K_hc_norm].ref(&norm, 0, TOKENS * STREAMS, NULL);
    gdn_kernels.row[K_gdn_conv].ref(&conv, 0, WIDTH, NULL);
}

static void record_norm(struct gpu_cmd *c, gpu_addr at)
{
    struct hc_norm_args a = norm_args(at);
    gpu_record(c, &model_kernels, K_hc_norm, &a, sizeof a, TOKENS * STREAMS);
}
static void record_conv(struct gpu_cmd *c, gpu_addr at)
{
    struct gdn_conv_args a = conv_args(at);
    gpu_record(c, &gdn_kernels, K_gdn_conv, &a, sizeof a, WIDTH);
}

static struct work want, got; /* the host's copy and what the device has */

static void expect_close(gpu *g, gpu_addr at)
{
    double worst = 0;
    CHECK(gpu_read(g, &got, at, sizeof got, &err) == OK);
    for (size_t i = 0; i < VALUES; i++)
        worst = MAX(worst, MAX(fabs((double)want.y[i] - (double)got.y[i]), fabs((double)want.z[i] - (double)got.z[i])));
    CHECK(worst < 2e-5); /* values about 1, sums of 100 terms */
    CHECK(memcmp(want.x, got.x, sizeof want.x) == 0 && memcmp(want.gain, got.gain, sizeof want.gain) == 0);
}

static void upload(gpu *g, struct gpu_mem *m)
{
    random_floats(want.x, VALUES);
    random_floats(want.gain, WIDTH);
    random_floats(want.conv, WIDTH * TAPS);
    random_floats(want.window, (TAPS - 1) * WIDTH);
    got = want;
    place(&want, ADDR(&want));
    place(&got, m->addr);
    CHECK(gpu_write(g, m->addr, &got, sizeof got, &err) == OK);
}

static void lists(gpu *g)
{
    struct gpu_mem m;
    struct gpu_cmd both, first, second, empty;
    double seconds[2] = { 0, 0 };
    CHECK(gpu_has(g, &model_kernels, K_hc_norm) && gpu_has(g, &gdn_kernels, K_gdn_conv));
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err) == OK);
    upload(g, &m);
    CHECK(gpu_cmd_open(g, &both, 2, NULL, 0, &err) == OK && gpu_cmd_open(g, &first, 1, NULL, 0, &err) == OK);
    CHECK(gpu_cmd_open(g, &second, 1, NULL, 0, &err) == OK && gpu_cmd_open(g, &empty, 1, NULL, 0, &err) == OK);
    record_norm(&both, m.addr);
    record_conv(&both, m.addr);
    record_norm(&first, m.addr);
    record_conv(&second, m.addr);
    for (uint32_t replay = 0; replay < 3; replay++) {
        run_reference(&want);
        CHECK(gpu_submit(g, &both, &err) == OK);
        expect_close(g, m.addr);
    }
    for (uint32_t i = 0; i < 50; i++) { /* two lists, each several times under way */
        run_reference(&want);
        CHECK(gpu_start(g, &first, &err) == OK && gpu_start(g, &empty, &err) == OK && gpu_start(g, &second, &err) == OK);
    }
    CHECK(gpu_wait(g, &err) == OK);
    expect_close(g, m.addr);
    run_reference(&want);
    CHECK(gpu_start(g, &both, &err) == OK); /* a transfer comes behind what was started */
    expect_close(g, m.addr);
    run_reference(&want);
    CHECK(gpu_profile(g, &both, seconds, &err) == OK && seconds[0] > 0 && seconds[1] > 0 && seconds[0] + seconds[1] < 10);
    expect_close(g, m.addr);
    gpu_cmd_reset(&both);
    record_conv(&both, m.addr);
    gpu_record_parallel(&both);
    run_reference(&want); /* norm gives the same y again */
    CHECK(gpu_submit(g, &both, &err) == OK);
    expect_close(g, m.addr);
    gpu_cmd_close(&both);
    gpu_cmd_close(&first);
    gpu_cmd_close(&second);
    gpu_cmd_close(&empty);
    gpu_free(g, &m);
}

/* The host writes SHARED memory between two submits, and reads there what kernels wrote. */
static void shared_memory(gpu *g)
{
    struct gpu_mem m;
    struct gpu_cmd c;
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_SHARED, "shared work", &err) == OK);
    struct work *w = m.host;
    CHECK(gpu_cmd_open(g, &c, 2, NULL, 0, &err) == OK);
    c.block_delta = m.addr - ADDR(m.host);
    upload(g, &m);
    record_norm(&c, gpu_block(&c, w));
    record_conv(&c, gpu_block(&c, w));
    for (uint32_t i = 0; i < 3; i++) {
        random_floats(want.x, VALUES);
        memcpy(w->x, want.x, sizeof w->x);
        run_reference(&want);
        CHECK(gpu_submit(g, &c, &err) == OK);
        CHECK(fabs((double)w->z[VALUES - 1] - (double)want.z[VALUES - 1]) < 2e-5);
        expect_close(g, m.addr);
    }
    gpu_cmd_close(&c);
    gpu_free(g, &m);
}

#endif
