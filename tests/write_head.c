/* write_head.c - regression values: logits of the draft head at one position of a golden set, and its arg-max at all, as GMTP1.
 *
 *     write_head MODEL SET.CASE.gold > SET.CASE.mtp
 *
 * For models whose reference has no values of the head. Write them only with an engine that passes every golden set. */
#include "tests/gold_case.h"

struct rows {
    int32_t *argmax;
    float *logits;
    size_t n, row, n_vocab;
};

static status keep(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct rows *r = ctx;
    (void)e;
    for (size_t i = 0; i < n_rows && pos + i < r->n; i++) {
        const float *x = logits + i * r->n_vocab;
        int32_t best = 0;
        for (size_t k = 1; k < r->n_vocab; k++)
            best = x[k] > x[best] ? (int32_t)k : best;
        r->argmax[pos + i] = best;
        if (pos + i == r->row)
            memcpy(r->logits, x, r->n_vocab * sizeof *x);
    }
    return OK;
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    model *m;
    session *s;
    struct gold_case c = open_case(argc, argv, 4, (struct session_params){ .precise = true, .head = true }, &m, &s);
    struct rows r = { .argmax = calloc(c.n, sizeof *r.argmax), .logits = calloc(c.n_vocab, sizeof(float)), .n = c.n, .row = c.n - 3, .n_vocab = c.n_vocab };
    if (!r.argmax || !r.logits)
        return 1;
    if (session_score_head(s, keep, &r, &e) != OK || session_prefill(s, c.ids, c.n, NULL, NULL, &e) != OK || session_flush(s, NULL, NULL, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    int32_t out[3] = { (int32_t)c.n, (int32_t)c.n_vocab, (int32_t)r.row };
    bool ok = fwrite("GMTP1\n", 1, 6, stdout) == 6 && fwrite(out, 4, 3, stdout) == 3 && fwrite(r.argmax, 4, c.n, stdout) == c.n &&
              fwrite(r.logits, 4, c.n_vocab, stdout) == c.n_vocab;
    session_close(s);
    model_close(m);
    free(c.ids), free(r.argmax), free(r.logits);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
