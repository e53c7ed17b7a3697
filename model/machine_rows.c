/* machine_rows.c - the rows that take most of a step, each by itself, with the sizes of the real model and weights that no cache holds (kernel-plan 7).
 *
 * Weights are whatever lies in the memory: time does not depend on their values. */
#include "gpu/device_types.h"
#include "gpu/device_weights.h"
#include "gpu/gpu_kernels.h"
#include "model/machine_bench.h"
#include "model/model_kernels.h"
#include "qsa/qsa.h"

#include <stdio.h>
#include <stdlib.h>

enum { EMBD = 2560, EXPERTS = 512, USED = 10, CALLS = 24, BUDGET = 512, PROMPT = 2048 };

/* Descriptions lie at the start of b->small, vectors behind them. */
enum { JOB_AT = 0, BLOCK_AT = 64 << 10, STEP_AT = 72 << 10, COUNTER_AT = 76 << 10, ID_AT = 80 << 10, VECTOR_AT = 96 << 10 };
static gpu_addr small(const struct bench *b, size_t at) { return b->small.addr + at; }

/* The place of call i in the memory, when each takes `bytes` */
static gpu_addr place(const struct bench *b, size_t bytes, uint32_t i) { return b->mem.addr + i % MAX((size_t)1, b->mem.bytes / bytes) * bytes; }

static struct gpu_mat matrix(uint32_t type, gpu_addr data, uint32_t n_in, uint32_t n_out)
{
    return (struct gpu_mat){ .data = data, .row_bytes = device_row_bytes(type, n_in), .type = type, .n_in = n_in, .n_out = n_out };
}

/* n products of one row with different matrices [n_out, n_in] */
static status matvec_time(struct bench *b, uint32_t type, uint32_t n_in, uint32_t n_out, double *seconds, struct err *e)
{
    size_t bytes = size_up((size_t)n_out * device_row_bytes(type, n_in), 256);
    struct matmul_job job[CALLS];
    gpu_cmd_reset(&b->cmd);
    for (uint32_t i = 0; i < CALLS; i++) {
        job[i] = (struct matmul_job){ .w = matrix(type, place(b, bytes, i), n_in, n_out), .y = small(b, VECTOR_AT) + 64 * 1024, .y_stride = n_out, .scale = 1 };
        struct matmul_args a = { .x = small(b, VECTOR_AT), .job = small(b, JOB_AT) + i * sizeof *job, .x_stride = n_in, .n_job = 1, .n_tok = 1 };
        uint32_t blocks = gpu_matvec_blocks(&a, &job[i], 0);
        gpu_record(&b->cmd, &gpu_kernels, K_matvec_NONE_r1, &a, sizeof a, blocks * MATVEC_GRAIN);
    }
    TRY(gpu_write(b->g, small(b, JOB_AT), job, sizeof job, e));
    TRY(bench_time(b, seconds, e));
    *seconds = (*seconds - b->submit_s) / CALLS;
    return OK;
}

static status measure_products(struct bench *b, struct err *e)
{
    static const struct { const char *what; uint32_t type, n_in, n_out; } shape[] = {
        { "qkv and gate of a delta net", DEV_Q8_0, EMBD, 16384 }, { "output of a layer", DEV_Q8_0, 6144, EMBD }, { "a mixer's Wd", DEV_Q8_0, 4 * EMBD, 320 },
        { "a mixer's Wu", DEV_Q8_0, 320, 4 * EMBD }, { "router", DEV_BF16, EMBD, EXPERTS }, { "tenth of a head", DEV_Q8_0, EMBD, 24832 },
    };
    for (size_t i = 0; i < COUNT_OF(shape); i++) {
        double t, bytes = (double)shape[i].n_out * (double)device_row_bytes(shape[i].type, shape[i].n_in);
        TRY(matvec_time(b, shape[i].type, shape[i].n_in, shape[i].n_out, &t, e));
        printf("matvec, %-30s %8.2f us  %8.1f GB/s, %.2f MB\n", shape[i].what, t * 1e6, bytes / t / 1e9, bytes / MB);
    }
    return OK;
}

/* Router product and routing in one launch, whose last group routes, and in two */
static status measure_last_group(struct bench *b, struct err *e)
{
    struct moe_block block = { .n_expert = EXPERTS, .n_used = USED };
    struct matmul_job job = { .w = matrix(DEV_BF16, b->mem.addr, EMBD, EXPERTS), .y = small(b, VECTOR_AT) + 64 * 1024, .y_stride = EXPERTS, .scale = 1 };
    struct matmul_args product = { .x = small(b, VECTOR_AT), .job = small(b, JOB_AT), .x_stride = EMBD, .n_job = 1, .n_tok = 1 };
    uint32_t blocks = gpu_matvec_blocks(&product, &job, 0);
    struct moe_route_args route = { .block = small(b, BLOCK_AT), .logits = job.y, .id = small(b, ID_AT), .weight = small(b, ID_AT) + 4 * USED };
    double t[2];
    if (!gpu_has(b->g, &model_kernels, K_moe_in))
        return OK;
    TRY(gpu_write(b->g, small(b, BLOCK_AT), &block, sizeof block, e));
    TRY(gpu_write(b->g, small(b, JOB_AT), &job, sizeof job, e));
    TRY(gpu_clear(b->g, small(b, COUNTER_AT), 16, e));
    for (int apart = 0; apart < 2; apart++) {
        gpu_cmd_reset(&b->cmd);
        for (uint32_t i = 0; i < CALLS; i++) {
            if (apart) {
                gpu_record(&b->cmd, &gpu_kernels, K_matvec_NONE_r1, &product, sizeof product, blocks * MATVEC_GRAIN);
                gpu_record(&b->cmd, &model_kernels, K_moe_route, &route, sizeof route, 1);
            } else {
                CALL(&b->cmd, model_kernels, K_moe_in, blocks * MATVEC_GRAIN, struct moe_in_args, .products = product, .route = route, .arrived = small(b, COUNTER_AT),
                     .n_group = blocks);
            }
        }
        TRY(bench_time(b, &t[apart], e));
    }
    printf("router: last group routes              %8.2f us, a launch of its own %.2f us\n", (t[0] - b->submit_s) / CALLS * 1e6, (t[1] - b->submit_s) / CALLS * 1e6);
    return OK;
}

/* The choice of 512 blocks among n: scores at random, and all equal */
static status measure_select(struct bench *b, uint32_t n, struct err *e)
{
    float *score = malloc(n * sizeof *score);
    if (!score)
        return fail(e, ERR_NOMEM, "selftest: scores");
    struct qsa_block block = { .idx_head = 4, .idx_dim = 128, .budget = BUDGET, .cap_blocks = n };
    struct gpu_step step = { .n_tok = 1, .pos = 4 * n };
    double t[2] = { 0 };
    status s = gpu_write(b->g, small(b, BLOCK_AT), &block, sizeof block, e);
    if (s == OK)
        s = gpu_write(b->g, small(b, STEP_AT), &step, sizeof step, e);
    uint64_t state = 1;
    for (int equal = 0; s == OK && equal < 2; equal++) {
        for (uint32_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            score[i] = equal ? 1 : (float)(state >> 40);
        }
        s = gpu_write(b->g, b->mem.addr, score, n * sizeof *score, e);
        gpu_cmd_reset(&b->cmd);
        for (uint32_t i = 0; i < CALLS; i++)
            CALL(&b->cmd, qsa_kernels, K_qsa_select, 1, struct qsa_select_args, .block = small(b, BLOCK_AT), .step = small(b, STEP_AT), .scores = b->mem.addr,
                 .list = small(b, VECTOR_AT), .row0 = 0, .n_row = 1);
        if (s == OK)
            s = bench_time(b, &t[equal], e);
    }
    if (s == OK)
        printf("qsa_select, 512 of %6u blocks         %8.2f us, all equal %.2f us\n", n, (t[0] - b->submit_s) / CALLS * 1e6, (t[1] - b->submit_s) / CALLS * 1e6);
    free(score);
    return s;
}

/* A product on matrix units with quantised weights and with plain f16: the difference is what decoding costs */
static status measure_gemm(struct bench *b, struct err *e)
{
    static const struct { const char *name; uint32_t type, row; } kind[] = {
        { "F16", DEV_F16, K_gemm_NONE }, { "Q8_0", DEV_Q8_0, K_gemm_NONE }, { "Q4_K", DEV_Q4_K, K_gemm_Q4_K }, { "Q5_1", DEV_Q5_1, K_gemm_Q5_1 },
        { "IQ4_NL", DEV_IQ4_NL, K_gemm_IQ4_NL },
    };
    enum { OUT = 6144, N = 8 };
    size_t x = (size_t)PROMPT * EMBD * sizeof(float), y = (size_t)PROMPT * OUT * sizeof(float), w = (size_t)OUT * EMBD * 2;
    if (!gpu_has(b->g, &gpu_kernels, K_gemm_NONE) || b->mem.bytes < x + y + w)
        return OK;
    for (size_t i = 0; i < COUNT_OF(kind); i++) {
        struct matmul_job job = { .w = matrix(kind[i].type, b->mem.addr + x + y, EMBD, OUT), .y = b->mem.addr + x, .y_stride = OUT, .scale = 1 };
        double t, flop = 2.0 * PROMPT * OUT * EMBD;
        TRY(gpu_write(b->g, small(b, JOB_AT), &job, sizeof job, e));
        gpu_cmd_reset(&b->cmd);
        for (uint32_t k = 0; k < N; k++)
            CALL(&b->cmd, gpu_kernels, kind[i].row, OUT / GEMM_ROWS * (PROMPT / GEMM_TOKENS), struct matmul_args, .x = b->mem.addr, .job = small(b, JOB_AT),
                 .x_stride = EMBD, .n_job = 1, .n_tok = PROMPT);
        TRY(bench_time(b, &t, e));
        t = (t - b->submit_s) / N;
        printf("gemm, %d x %d x %d, %-8s       %8.1f us  %8.1f TFLOP/s\n", PROMPT, OUT, EMBD, kind[i].name, t * 1e6, flop / t / 1e12);
    }
    return OK;
}

status machine_rows(struct bench *b, struct err *e)
{
    TRY(measure_products(b, e));
    TRY(measure_last_group(b, e));
    for (uint32_t n = 4096; n <= 65536; n *= 4)
        TRY(measure_select(b, n, e));
    return measure_gemm(b, e);
}
