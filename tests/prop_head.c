/* prop_head.c - the draft head beside a running session guesses what it says when it is shown the whole text at once: whatever steps, guesses, rejected rows
 * and ways back there were. */
#include "model/model.h"
#include "tests/test.h"

static struct err e;

enum { N = 300, START = 90 };
static uint32_t V;
static int32_t ids[N], said[N]; /* said[p]: the head's best after the pair (p, ids[p + 1]) */
static float lead[N];

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

int main(void)
{
    model *m;
    session *s;
    srand((unsigned)test_seed(77));
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .backend = BACKEND_CPU }, &e));
    V = model_shape(m)->n_vocab;
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)((uint32_t)rand() % V);
    struct session_params p = { .n_ctx = N + 8, .precise = true, .verify = true, .head = true };
    MUST(session_open(&s, m, &p, 0, &e));
    MUST(session_score_head(s, hear, NULL, &e));
    MUST(session_prefill(s, ids, N, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    session_close(s);
    for (int round = 0; round < 3; round++) {
        MUST(session_open(&s, m, &p, 0, &e));
        CHECK(session_has_head(s) && !session_can_guess(s));
        MUST(session_prefill(s, ids, START, NULL, NULL, &e));
        MUST(session_flush(s, NULL, NULL, &e));
        for (uint32_t at = START; at + 8 < N;) { /* ids[at] is chosen, at - 1 the last position */
            struct guess g;
            uint32_t chain = (uint32_t)rand() % 4, n = 1 + (uint32_t)rand() % 5, right = 1 + (uint32_t)rand() % n;
            if (rand() % 4) {
                MUST(session_guess(s, ids[at], 0, &g, &e));
                CHECK(g.id == said[at - 1] || lead[at - 1] < 1e-3f);
                for (uint32_t i = 1; i <= chain; i++)
                    MUST(session_guess(s, 0, i, &g, &e));
                MUST(session_guess_end(s, &e));
            }
            int32_t rows[8];
            for (uint32_t i = 0; i < n; i++)
                rows[i] = i < right ? ids[at + i] : ids[at + i] ^ 1;
            MUST(session_verify(s, rows, n, &e));
            for (uint32_t i = 1; i < right; i++)
                CHECK(session_follow(s, ids[at + i]));
            at += right;
        }
        session_close(s);
    }
    model_close(m);
    return TEST_END();
}
