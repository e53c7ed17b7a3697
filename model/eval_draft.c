/* eval_draft.c - golden values of the draft head: SET.CASE.mtp beside SET.CASE.gold.
 *
 * "GMTP1\n", i32 n, i32 n_vocab, i32 row, i32 argmax[n], f32 logits[n_vocab] of that row. Row p is the head fed with the residual of position p and the id at
 * p + 1, so it is about the id at p + 2; the last row, which has no id behind it, does not count. */
#include "model/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct head_compare {
    const model *m;
    const struct golden *ids; /* and the trunk's own arg-max */
    const int32_t *argmax;
    const float *logits;
    uint32_t n, row, n_vocab;
    double diff;
    uint32_t n_row, n_equal, n_trunk; /* rows, equal to the golden arg-max, equal to what the trunk says */
    bool has_row;
};

static status compare(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct head_compare *c = ctx;
    for (size_t r = 0; r < n_rows; r++) {
        const float *x = logits + r * c->n_vocab;
        size_t p = pos + r;
        int32_t best;
        TRY(model_check_logits(c->m, x, e));
        if (p + 1 >= c->n)
            continue;
        row_nll(x, c->n_vocab, 0, &best);
        c->n_row++;
        c->n_equal += best == c->argmax[p];
        c->n_trunk += best == c->ids->argmax[p + 1];
        for (uint32_t i = 0; p == c->row && i < c->n_vocab; i++) {
            double d = fabs((double)x[i] - (double)c->logits[i]);
            c->diff = d <= c->diff ? c->diff : d; /* NaN stays */
        }
        c->has_row |= p == c->row;
    }
    return OK;
}

status eval_head(const struct options *o, model *m, const char *path, bool *held, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t n;
    int32_t head[3] = { 0 };
    char gold[4096];
    struct golden g = { 0 };
    session *s = NULL;
    status st = OK;
    TRY(eval_read_all(path, &bytes, &n, e));
    if (n >= 18)
        memcpy(head, bytes + 6, sizeof head);
    size_t stem = strlen(path) - strlen(".mtp");
    snprintf(gold, sizeof gold, "%.*s.gold", (int)MIN(stem, (size_t)4000), path);
    if (n < 18 || memcmp(bytes, "GMTP1\n", 6) || head[1] != (int32_t)model_shape(m)->n_vocab || head[0] < 2 ||
        n != 18 + 4 * ((size_t)head[0] + (size_t)head[1])) {
        st = fail(e, ERR_FORMAT, "%s: found %zu bytes, %d rows of %d; expected GMTP1 for a vocabulary of %u", path, n, head[0], head[1], model_shape(m)->n_vocab);
        goto out;
    }
    memmove(bytes, bytes + 18, n - 18); /* aligned */
    TRY_OR(out, st, golden_open(&g, gold, e));
    if ((int32_t)g.n_tok != head[0] || head[2] < 0 || head[2] >= head[0] - 1) {
        st = fail(e, ERR_FORMAT, "%s: %d rows of which %d is given, expected %u as in %s", path, head[0], head[2], g.n_tok, gold);
        goto out;
    }
    struct head_compare c = { .m = m, .ids = &g, .argmax = (const int32_t *)(const void *)bytes, .n = (uint32_t)head[0], .n_vocab = (uint32_t)head[1],
                              .row = (uint32_t)head[2] };
    c.logits = (const float *)(const void *)(c.argmax + c.n);
    struct session_params p = { .n_ctx = g.n_tok, .n_ubatch = o->n_ubatch, .kv = o->kv, .precise = o->precise, .head = true, .draft_dense = o->draft_dense, .draft_joint = o->draft_joint };
    TRY_OR(out, st, session_open(&s, m, &p, o->mem_limit, e));
    TRY_OR(out, st, session_score_head(s, compare, &c, e));
    TRY_OR(out, st, session_prefill(s, g.ids, g.n_tok, NULL, NULL, e));
    TRY_OR(out, st, session_flush(s, NULL, NULL, e));
    double limit = o->precise ? 5e-4 : 0.5, equal = (double)c.n_equal / c.n_row, trunk = (double)c.n_trunk / c.n_row;
    *held = c.has_row && c.diff <= limit && equal >= (o->precise ? 0.999 : 0.95);
    const char *slash = strrchr(path, '/');
    if (o->json) {
        json_t *j = json_pack("{s:s,s:i,s:i,s:o,s:f,s:f,s:b}", "draft_head", path, "tokens", (int)c.n, "row", (int)c.row, "max_logit_diff",
                              isfinite(c.diff) ? json_real(c.diff) : json_null(), "argmax_equal", equal, "argmax_of_trunk", trunk, "within", *held);
        st = eval_put_json(j, e);
    } else {
        printf("%-20s %5u tok  draft head: max |logit diff| %.2e  arg-max %u/%u, that of the trunk %u/%u = %.3f  %s\n", slash ? slash + 1 : path, c.n, c.diff,
               c.n_equal, c.n_row, c.n_trunk, c.n_row, trunk, *held ? "ok" : "OUTSIDE TOLERANCE");
    }
out:
    session_close(s);
    free(g.bytes);
    free(bytes);
    return st;
}
