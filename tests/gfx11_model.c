/* gfx11_model.c - the demo model with every kernel run as its gfx1151 code object on the interpreter (tests/gfx11): a short prefill and decode steps,
 * against the cpu backend. `make gfx11-model`. The product has no such backend: the linker gives this program the interpreter where it asks for Vulkan. */
#include "model/model.h"
#include "tests/gfx11/device.h"
#include "tests/test.h"

#include <math.h>
#include <time.h>

static gpu *interpreter;

/* In place of gpu_open_vulkan: see the Makefile */
status __wrap_gpu_open_vulkan(gpu **out, const struct gpu_params *p, struct err *e);
status __wrap_gpu_open_vulkan(gpu **out, const struct gpu_params *p, struct err *e)
{
    (void)p;
    TRY(gpu_open_gfx11(out, &(struct gfx11_options){ 0 }, e));
    interpreter = *out;
    return OK;
}

enum { PROMPT = 21, DECODE = 3 };

static struct err e;

/* Logits after the prompt and after each decode step: [1 + DECODE][n_vocab] */
static float *run(enum backend b, bool precise, uint32_t *n_vocab)
{
    model *m;
    session *s;
    MUST(model_open(&m, NULL, &(struct model_params){ .backend = b }, &e));
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = PROMPT + DECODE, .n_ubatch = 64, .precise = precise, .kv = precise ? KV_F32 : KV_F16 }, 0, &e));
    uint32_t V = *n_vocab = model_shape(m)->n_vocab;
    float *logits = malloc((size_t)(1 + DECODE) * V * sizeof *logits);
    int32_t ids[PROMPT + DECODE];
    for (uint32_t i = 0; i < PROMPT + DECODE; i++)
        ids[i] = (int32_t)((i * 2654435761u >> 7) % V);
    MUST(session_prefill(s, ids, PROMPT, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    memcpy(logits, session_logits(s), V * sizeof *logits);
    for (uint32_t i = 0; i < DECODE; i++) {
        MUST(session_decode(s, ids[PROMPT + i], &e));
        memcpy(logits + (size_t)(1 + i) * V, session_logits(s), V * sizeof *logits);
    }
    session_close(s);
    if (b == BACKEND_VULKAN)
        printf("%.1f M instructions of waves, the largest launch %.2f M\n", (double)gfx11_counts(interpreter).all / 1e6, (double)gfx11_counts(interpreter).largest / 1e6);
    model_close(m);
    return logits;
}

/* allowed: the rule of the golden set for devices, and without precise what products in f16 on matrix units add */
static void test(bool precise, double allowed)
{
    uint32_t V, V2;
    struct timespec t[2];
    float *want = run(BACKEND_CPU, precise, &V);
    clock_gettime(CLOCK_MONOTONIC, &t[0]);
    float *got = run(BACKEND_VULKAN, precise, &V2);
    clock_gettime(CLOCK_MONOTONIC, &t[1]);
    CHECK(V == V2 && V > 0);
    for (uint32_t k = 0; k <= DECODE; k++) {
        double worst = 0, largest = 0;
        for (uint32_t i = 0; i < V; i++) {
            double d = fabs((double)got[(size_t)k * V + i] - (double)want[(size_t)k * V + i]);
            worst = d > worst || isnan(d) ? d : worst;
            largest = fmax(largest, fabs((double)want[(size_t)k * V + i]));
        }
        CHECK(worst <= allowed && largest > 0.1);
        printf("%s, %s: worst difference of a logit %.2e, allowed %.0e, largest logit %.2f\n", precise ? "precise" : "default", k ? "decode" : "prefill", worst, allowed, largest);
    }
    printf("%.1f s\n", (double)(t[1].tv_sec - t[0].tv_sec) + 1e-9 * (double)(t[1].tv_nsec - t[0].tv_nsec));
    free(got);
    free(want);
}

int main(void)
{
    test(true, 5e-4);
    test(false, 0.02);
    return TEST_END();
}
