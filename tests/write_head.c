/* write_head.c - regression values: logits of the draft head at one position of a golden set, and its arg-max at all, as GMTP1.
 *
 *     write_head MODEL SET.CASE.gold > SET.CASE.mtp
 *
 * For models whose reference has no values of the head. Write them only with an engine that passes every golden set. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int32_t head[3];
    FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!f || fseek(f, 6, SEEK_SET) || fread(head, 4, 3, f) != 3 || head[0] < 4) {
        fprintf(stderr, "write_head MODEL SET.CASE.gold\n");
        return 2;
    }
    size_t n = (size_t)head[0], V = (size_t)head[1];
    int32_t *ids = calloc(n, sizeof *ids);
    struct rows r = { .argmax = calloc(n, sizeof *ids), .logits = calloc(V, sizeof(float)), .n = n, .row = n - 3, .n_vocab = V };
    if (!ids || !r.argmax || !r.logits || fread(ids, 4, n, f) != n)
        return 1;
    if (model_open(&m, argv[1], &(struct model_params){ .backend = BACKEND_CPU }, &e) != OK ||
        session_open(&s, m, &(struct session_params){ .n_ctx = n, .precise = true, .head = true }, 0, &e) != OK ||
        session_score_head(s, keep, &r, &e) != OK || session_prefill(s, ids, n, NULL, NULL, &e) != OK || session_flush(s, NULL, NULL, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    int32_t out[3] = { (int32_t)n, (int32_t)V, (int32_t)r.row };
    bool ok = fwrite("GMTP1\n", 1, 6, stdout) == 6 && fwrite(out, 4, 3, stdout) == 3 && fwrite(r.argmax, 4, n, stdout) == n && fwrite(r.logits, 4, V, stdout) == V;
    session_close(s);
    model_close(m);
    free(ids), free(r.argmax), free(r.logits), fclose(f);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
