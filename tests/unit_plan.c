/* unit_plan.c - the state lines of the plan for the released model at three contexts, against sizes that were computed by hand from its mathematics: a model
 * of these dimensions without any weights. */
#include "model/model_impl.h"
#include "tests/test.h"

static struct model full(gpu *g)
{
    struct model m = { .gpu = g };
    struct shape *s = &m.shape;
    *s = (struct shape){ .n_layer = 48, .n_vocab = 248320, .n_embd = 2560, .n_stream = 4, .hc_rank = 320, .ctx_train = 262144, .eps = 1e-6f,
                         .n_head = 24, .n_head_kv = 2, .head_dim = 256, .rope_dim = 64, .rope_base = 1e7f, .idx_head = 4, .idx_dim = 128,
                         .idx_budget = 2048, .gdn_k_head = 16, .gdn_v_head = 48, .gdn_dim = 128, .conv_taps = 4, .n_expert = 512,
                         .n_expert_used = 10, .expert_ff = 640, .shared_ff = 640, .ple_layer = 1, .ple_ngram = 3, .ple_head_per_ngram = 8,
                         .ple_head = 16, .ple_row = 160, .ple_conv_taps = 4, .n_qsa = 12, .n_gdn = 36 };
    for (uint32_t il = 0; il < 48; il++) {
        s->is_qsa[il] = il % 4 == 3;
        s->ratio[il] = s->is_qsa[il] ? QSA_RATIO : 0;
    }
    return m;
}

static size_t line(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->line[i].name, name) == 0)
            return p->line[i].bytes;
    return 0;
}

/* Within 2 % */
static void near_(const char *what, size_t found, double want)
{
    double off = (double)found / want - 1;
    CHECK(off > -0.02 && off < 0.02);
    if (!(off > -0.02 && off < 0.02))
        fprintf(stderr, "%s: %zu bytes, expected %.0f\n", what, found, want);
}

int main(void)
{
    static const struct {
        size_t n_ctx;
        double kv_f16, pooled, raw; /* bytes */
    } want[] = {
        { 65536, 1610612736, 100663296, 402653184 },
        { 131072, 3221225472, 201326592, 805306368 },
        { 262144, 6442450944, 402653184, 1610612736 },
    };
    struct err e;
    gpu *g;
    if (gpu_open_cpu(&g, &(struct gpu_params){ .n_threads = 2 }, &e) != OK)
        return 1;
    struct model *m = malloc(sizeof *m);
    *m = full(g);
    size_t scratch = 0, windows = 0;
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        struct plan f16 = { 0 }, f32 = { 0 }, q8 = { 0 };
        session_plan(m, &(struct session_params){ .n_ctx = want[i].n_ctx }, &f16);
        session_plan(m, &(struct session_params){ .n_ctx = want[i].n_ctx, .kv = KV_F32, .no_pooled_cache = true }, &f32);
        session_plan(m, &(struct session_params){ .n_ctx = want[i].n_ctx, .kv = KV_Q8_0 }, &q8);
        near_("K/V f16", line(&f16, "session: K/V"), want[i].kv_f16);
        near_("K/V f32", line(&f32, "session: K/V"), 2 * want[i].kv_f16);
        near_("K/V q8_0", line(&q8, "session: K/V"), want[i].kv_f16 * 34 / 64);
        near_("pooled", line(&f16, "session: pooled keys"), want[i].pooled);
        near_("pooled, f32", line(&f32, "session: pooled keys"), want[i].pooled);
        near_("raw", line(&f32, "session: raw index keys"), want[i].raw);
        CHECK(line(&f16, "session: raw index keys") == 0);
        near_("GDN", line(&f16, "session: GDN state"), 113246208);
        /* convolutions of 36 layers, the history of the n-gram path, and three index keys of 12 layers */
        near_("windows", line(&f16, "session: windows"), 4423680 + 368640 + 12 * 3 * 128 * 4);
        CHECK(i == 0 || line(&f16, "session: windows") == windows);
        /* beside K, V and pooled keys only the strip of scores grows: 128 rows of a number per block */
        size_t now = line(&f16, "session: scratch"), strip = i ? 128 * (want[i].n_ctx - want[i - 1].n_ctx) / 4 * 4 : 0;
        CHECK(scratch == 0 || now - scratch <= strip);
        windows = line(&f16, "session: windows"), scratch = now;
    }
    free(m);
    gpu_close(g);
    return TEST_END();
}
