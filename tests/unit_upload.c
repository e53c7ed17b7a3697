/* unit_upload.c - weights in the memory of a device: blocks under small limits of an allocation, every byte where the kernels look for it, and the plan of
 * a session, which must be what is allocated. On whatever Vulkan device comes first (TEST_DEVICE=n takes another). */
#include "gpu/device_weights.h"
#include "model/model_impl.h"
#include "tests/test.h"

#define MODEL "tests/models/tiny-man.gguf"

static struct err err;

static uint32_t test_device(void)
{
    const char *device = getenv("TEST_DEVICE");
    return device ? (uint32_t)strtoul(device, NULL, 10) : 0;
}

static bool says(const char *text) { return strstr(err.msg, text) != NULL; }

static model *open_model(struct model_params p)
{
    model *m = NULL;
    p.device = test_device();
    CHECK(model_open(&m, MODEL, &p, &err) == OK);
    if (!m) {
        fprintf(stderr, "%s\n", err.msg);
        exit(TEST_END());
    }
    return m;
}

static uint64_t asked(gpu *g)
{
    uint64_t n, driver;
    gpu_memory_used(g, &n, &driver);
    return n;
}

/* ---- blocks ---- */

/* A matrix lies in one block, and holds what packing its rows gives. */
static void check_matrix(const struct upload *u, gpu *g, const struct gpu_mat *from, const struct gpu_mat *on, uint32_t n_expert)
{
    if (!from->data)
        return;
    size_t n_row = (size_t)from->n_out * (from->rows_per_expert ? n_expert : 1), n = n_row * on->row_bytes, bad = 0;
    uint32_t home = 0;
    for (uint32_t i = 0; i < u->n_block; i++)
        home += on->data >= u->block[i].addr && on->data + n <= u->block[i].addr + u->block_bytes[i];
    CHECK(home == 1 && on->data % 16 == 0 && on->row_bytes == device_row_bytes(on->type, from->n_in));
    uint8_t *got = malloc(n), *want = malloc(on->row_bytes);
    float *tmp = malloc(from->n_in * sizeof *tmp);
    CHECK(gpu_read(g, got, on->data, n, &err) == OK);
    for (size_t r = 0; r < n_row; r++) {
        size_t at = from->rows_per_expert ? r / from->n_out * from->rows_per_expert + r % from->n_out : r;
        device_pack_row(on->type, from->type, AT(const uint8_t, from->data) + at * from->row_bytes, want, from->n_in, tmp);
        bad += memcmp(got + r * on->row_bytes, want, on->row_bytes) != 0;
    }
    CHECK(bad == 0);
    free(got), free(want), free(tmp);
}

static void check_weights(const struct upload *u, gpu *g, const struct weights *from, const struct weights *on, const struct shape *s)
{
    check_matrix(u, g, &from->token_embd, &on->token_embd, 1);
    check_matrix(u, g, &from->output, &on->output, 1);
    check_matrix(u, g, &from->out_hc.down, &on->out_hc.down, 1);
    for (uint32_t il = 0; il < s->n_layer; il++) {
        const struct layer_weights *a = &from->layer[il], *b = &on->layer[il];
        check_matrix(u, g, &a->hc_attn.down, &b->hc_attn.down, 1);
        check_matrix(u, g, &a->hc_ffn.up, &b->hc_ffn.up, 1);
        if (s->is_qsa[il])
            check_matrix(u, g, &a->qsa.q, &b->qsa.q, 1);
        else
            check_matrix(u, g, &a->gdn.qkv, &b->gdn.qkv, 1);
        check_matrix(u, g, &a->moe.gate, &b->moe.gate, s->n_expert);
        check_matrix(u, g, &a->moe.up, &b->moe.up, s->n_expert);
        check_matrix(u, g, &a->moe.down, &b->moe.down, s->n_expert);
        check_matrix(u, g, &a->moe.shared_down, &b->moe.shared_down, 1);
    }
    check_matrix(u, g, &from->ple.key, &on->ple.key, 1);
}

struct seen {
    size_t calls, done, total, stop_at;
};
static bool watch(void *ctx, size_t done, size_t total)
{
    struct seen *s = ctx;
    CHECK(done > s->done && done <= total && (s->calls == 0 || total == s->total));
    s->calls++;
    s->done = done;
    s->total = total;
    return s->calls != s->stop_at;
}

/* m: weights in the file; g: where they go */
static void upload_under(const model *m, gpu *g, size_t limit, uint32_t least_blocks)
{
    struct upload u;
    struct weights *on = malloc(sizeof *on);
    struct seen seen = { 0 };
    size_t sum = 0;
    CHECK(upload_plan(&u, &m->weights, &m->shape, limit, &err) == OK);
    for (uint32_t i = 0; i < u.n_block; i++) {
        CHECK(u.block_bytes[i] > 0 && u.block_bytes[i] <= limit);
        sum += u.block_bytes[i];
    }
    CHECK(sum == u.total && u.n_block >= least_blocks && asked(g) == 0);
    CHECK(upload_weights(&u, g, on, &m->weights, &m->shape, watch, &seen, &err) == OK);
    CHECK(asked(g) == u.total && seen.total == u.total && seen.done <= u.total && seen.calls > 20);
    check_weights(&u, g, &m->weights, on, &m->shape);
    upload_free(&u, g);
    CHECK(asked(g) == 0);
    free(on);
}

/* The largest matrix of this model is its embedding. */
static size_t largest(const model *m)
{
    const struct gpu_mat *t = &m->weights.token_embd;
    return size_up(t->n_out * device_row_bytes(device_type_of(t->type, false), t->n_in), 256);
}

static void blocks(void)
{
    gpu *g = NULL;
    model *m = open_model((struct model_params){ .n_threads = 2, .backend = BACKEND_CPU });
    size_t most = largest(m);
    CHECK(gpu_open_vulkan(&g, &(struct gpu_params){ .device = test_device(), .alloc_limit = 2 << 20 }, &err) == OK);
    upload_under(m, g, 2 << 20, 9);
    upload_under(m, g, most, 11);
    struct upload u;
    char bytes[64];
    static const size_t too_small[] = { 1 << 20, 300 << 10 };
    for (uint32_t i = 0; i < COUNT_OF(too_small); i++) {
        snprintf(bytes, sizeof bytes, "found %zu bytes, expected at most %zu", most, too_small[i]);
        CHECK(upload_plan(&u, &m->weights, &m->shape, too_small[i], &err) == ERR_UNSUPPORTED && says("token_embd") && says(bytes));
        upload_free(&u, g);
    }
    CHECK(upload_plan(&u, &m->weights, &m->shape, most - 1, &err) == ERR_UNSUPPORTED);
    upload_free(&u, g);
    gpu_close(g);
    model_close(m);
}

static void refused_model(void)
{
    model *m = NULL;
    struct model_params p = { .backend = BACKEND_VULKAN, .device = test_device(), .alloc_limit = 300 << 10 };
    CHECK(model_open(&m, MODEL, &p, &err) == ERR_UNSUPPORTED && !m && says(MODEL ": token_embd: found") && says("expected at most 307200"));
    struct seen seen = { .stop_at = 5 };
    p.alloc_limit = 0;
    p.progress = watch;
    p.progress_ctx = &seen;
    CHECK(model_open(&m, MODEL, &p, &err) == ERR_DEVICE && !m && says("interrupted") && seen.calls == 5);
}

/* ---- the plan of a session ---- */

/* What the plan says lies on the device. */
static size_t planned(const model *m, const struct session_params *p)
{
    static const char *const there[] = { "model: device weights", "session: K/V",     "session: pooled keys",  "session: GDN state",
                                         "session: windows",      "session: scratch", "session: step", "session: layer blocks" };
    struct plan plan = { 0 };
    size_t sum = 0, found = 0;
    session_plan(m, p, &plan);
    for (size_t i = 0; i < plan.n; i++)
        for (size_t k = 0; k < COUNT_OF(there); k++)
            if (strcmp(plan.line[i].name, there[k]) == 0) {
                sum += plan.line[i].bytes;
                found++;
            }
    CHECK(found == COUNT_OF(there));
    return sum;
}

/* The logits behind a short prompt, and what was asked of the device against the plan, to the byte. */
static float *logits_of(model *m, const struct session_params *p)
{
    static const int32_t ids[] = { 5, 600, 70, 8000, 9, 10, 11 };
    session *s = NULL;
    size_t bytes = model_shape(m)->n_vocab * sizeof(float);
    float *out = malloc(bytes);
    CHECK(asked(m->gpu) == m->upload.total);
    CHECK(session_open(&s, m, p, 0, &err) == OK);
    CHECK(asked(m->gpu) == planned(m, p));
    CHECK(session_prefill(s, ids, COUNT_OF(ids), NULL, NULL, &err) == OK && session_decode(s, 12, &err) == OK);
    memcpy(out, session_logits(s), bytes);
    session_close(s);
    CHECK(asked(m->gpu) == m->upload.total);
    return out;
}

static void plans(void)
{
    const struct session_params small = { .n_ctx = 70, .n_ubatch = 64 }, large = { .n_ctx = 3001, .n_ubatch = 128, .kv = KV_F32, .precise = true };
    model *m = open_model((struct model_params){ .backend = BACKEND_VULKAN });
    model *tight = open_model((struct model_params){ .backend = BACKEND_VULKAN, .alloc_limit = 4 << 20 });
    model *only_plan = open_model((struct model_params){ .backend = BACKEND_VULKAN, .plan_only = true });
    CHECK(m->upload.n_block == 1 && tight->upload.n_block > 4);
    float *a = logits_of(m, &small), *b = logits_of(tight, &small);
    CHECK(memcmp(a, b, model_shape(m)->n_vocab * sizeof *a) == 0);
    free(a), free(b);
    free(logits_of(m, &large));
    CHECK(asked(only_plan->gpu) == 0 && planned(only_plan, &large) == planned(m, &large));
    model_close(m);
    model_close(tight);
    model_close(only_plan);
}

/* With the validation layer where it is installed. False: there is no device. */
static bool device_found(void)
{
    gpu *g = NULL;
    struct gpu_params p = { .device = test_device() };
    setenv("HAYATE_VK_VALIDATE", "1", 0);
    if (gpu_open_vulkan(&g, &p, &err) != OK && says("layer")) {
        printf("%-28s without validation: %s\n", __FILE__, err.msg);
        setenv("HAYATE_VK_VALIDATE", "0", 1);
        gpu_open_vulkan(&g, &p, &err);
    }
    gpu_close(g);
    return g != NULL;
}

int main(void)
{
    if (!device_found()) {
        printf("%-28s skipped, no device: %s\n", __FILE__, err.msg);
        return 0;
    }
    blocks();
    refused_model();
    plans();
    return TEST_END();
}
