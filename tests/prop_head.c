/* prop_head.c - the draft head beside a running session guesses what it says when it is shown the whole text at once: whatever steps, guesses, rejected rows
 * and ways back there were; and guesses made in a row are those made one by one.
 *
 *     prop_head            on the cpu
 *     prop_head vulkan     there */
#include "model/model.h"
#include "tests/test.h"

static struct err e;

enum { N_MOST = 300 };
static size_t N = N_MOST, START = 90;
static uint32_t V;
static int32_t ids[N_MOST], said[N_MOST]; /* said[p]: the head's best after the pair (p, ids[p + 1]) */
static float lead[N_MOST];

static status hear(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *er)
{
    (void)ctx, (void)er;
    for (size_t r = 0; r < n_rows; r++) {
        const float *x = logits + r * V;
        int32_t best = 0, second = -1;
        for (uint32_t i = 1; i < V; i++)
            if (x[i] > x[best])
                second = best, best = (int32_t)i;
            else if (second < 0 || x[i] > x[second])
                second = (int32_t)i;
        said[pos + r] = best;
        lead[pos + r] = x[best] - x[second];
    }
    return OK;
}

static void open_at_start(session **s, model *m, const struct session_params *p)
{
    MUST(session_open(s, m, p, 0, &e));
    CHECK(session_has_head(*s) && !session_can_guess(*s));
    MUST(session_prefill(*s, ids, START, NULL, NULL, &e));
    MUST(session_flush(*s, NULL, NULL, &e));
}

static uint32_t n_asked, n_other; /* first guesses, and those that are not what the head said before */

/* Up to 1 + chain guesses of s behind position at - 1, where ids[at] follows; t, which stands there too, makes the same one by one */
static void ask(session *s, session *t, uint32_t at, uint32_t chain, float least)
{
    struct guess row[4], alone;
    uint32_t cut = 1 + (uint32_t)rand() % (1 + chain);
    MUST(session_guess(s, ids[at], 0, cut, row, &e));
    if (cut <= chain)
        MUST(session_guess(s, 0, cut, 1 + chain - cut, row + cut, &e));
    MUST(session_guess_end(s, &e));
    for (uint32_t i = 0; i <= chain; i++) {
        MUST(session_guess(t, ids[at], i, 1, &alone, &e));
        CHECK(memcmp(&alone, &row[i], sizeof alone) == 0 && (uint32_t)alone.id < V);
    }
    MUST(session_guess_end(t, &e));
    CHECK(session_guess(s, ids[at], 2 + chain, 1, &alone, &e) == ERR_USAGE && session_guess(s, ids[at], 0, 8, row, &e) == ERR_USAGE);
    n_asked++;
    n_other += row[0].id != said[at - 1] && lead[at - 1] >= least;
}

/* Steps of 1 to 5 rows of which some are right, with and without guesses before them */
static void round_of(session *s, session *t, float least)
{
    for (uint32_t at = (uint32_t)START; at + 8 < N;) { /* ids[at] is chosen, at - 1 the last position */
        uint32_t chain = (uint32_t)rand() % 4, n = 1 + (uint32_t)rand() % 5, right = 1 + (uint32_t)rand() % n;
        int32_t rows[8];
        if (rand() % 4)
            ask(s, t, at, chain, least);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = i < right ? ids[at + i] : ids[at + i] ^ 1;
        MUST(session_verify(s, rows, n, &e));
        MUST(session_verify(t, rows, n, &e));
        for (uint32_t i = 1; i < right; i++)
            CHECK(session_follow(s, ids[at + i]) && session_follow(t, ids[at + i]));
        at += right;
    }
}

int main(int argc, char **argv)
{
    bool vulkan = argc > 1 && strcmp(argv[1], "vulkan") == 0;
    float least = vulkan ? 1e-2f : 1e-3f; /* a smaller lead may turn with the order of a sum */
    model *m;
    session *s, *t;
    struct device_memory mem;
    if (argc > 2 || (argc > 1 && !vulkan)) {
        fprintf(stderr, "usage: prop_head [vulkan]\n");
        return 2;
    }
    srand((unsigned)test_seed(77));
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .backend = vulkan ? BACKEND_VULKAN : BACKEND_CPU, .head = true }, &e));
    V = model_shape(m)->n_vocab;
    if (vulkan) /* software devices are slow */
        N = 100, START = 40;
    for (size_t i = 0; i < N; i++)
        ids[i] = (int32_t)((uint32_t)rand() % V);
    struct session_params p = { .n_ctx = N + 8, .precise = true, .verify = true, .head = true };
    MUST(session_open(&s, m, &p, 0, &e));
    session_device_memory(s, &mem);
    CHECK(mem.asked == mem.planned && (mem.planned > 0) == vulkan);
    MUST(session_score_head(s, hear, NULL, &e));
    MUST(session_prefill(s, ids, N, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    session_close(s);
    for (int round = 0; round < (vulkan ? 1 : (int)test_size(1, 3, 3)); round++) {
        open_at_start(&s, m, &p);
        open_at_start(&t, m, &p);
        round_of(s, t, least);
        session_close(s);
        session_close(t);
    }
    CHECK(n_asked > 10 && n_other == 0);
    printf("%u guesses, %u of them not what the head says of the whole text\n", n_asked, n_other);
    model_close(m);
    return TEST_END();
}
