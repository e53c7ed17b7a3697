/* eval_ppl.c - perplexity of a text or of the ids of a golden file. */
#include "model/answer.h"
#include "model/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ppl {
    const int32_t *ids; /* of the chunk */
    size_t from, n_ctx, n_vocab, n_scored;
    double sum, sum_sq;
};

static status ppl_rows(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct ppl *p = ctx;
    (void)e;
    for (size_t r = 0; r < n_rows; r++) {
        int32_t best;
        if (pos + r < p->from || pos + r + 1 >= p->n_ctx)
            continue;
        double nll = row_nll(logits + r * p->n_vocab, p->n_vocab, p->ids[pos + r + 1], &best);
        p->sum += nll;
        p->sum_sq += nll * nll;
        p->n_scored++;
    }
    return OK;
}

static status print_ppl(const struct options *o, const model *m, const struct chunks *c, const struct ppl *p, struct err *e)
{
    double k = (double)MAX((size_t)1, p->n_scored), mean = p->sum / k, var = p->n_scored > 1 ? (p->sum_sq / k - mean * mean) / (k - 1) : 0;
    double ppl = exp(mean), err = ppl * sqrt(fmax(0, var));
    if (!isfinite(ppl))
        return fail(e, ERR_FORMAT, "%s: the model computed a perplexity of %g, expected a number; is a weight damaged?", gguf_name(model_gguf(m)), ppl);
    if (o->json)
        return eval_put_json(json_pack("{s:o,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "file", json_of(c->of, strlen(c->of)), "n_ctx", (json_int_t)c->n_ctx, "stride",
                                       (json_int_t)c->step, "chunks", (json_int_t)c->n, "tokens_scored", (json_int_t)p->n_scored, "mean_nll", mean, "ppl", ppl,
                                       "ppl_stderr", err),
                             e);
    printf("ppl %.4f +/- %.4f  mean nll %.6f  %zu tokens scored, %zu chunks of %zu\n", ppl, err, mean, p->n_scored, c->n, c->n_ctx);
    return OK;
}

static status run(const struct options *o, model *m, const struct chunks *c, session *s, struct err *e)
{
    struct ppl p = { .n_ctx = c->n_ctx, .from = c->from, .n_vocab = model_shape(m)->n_vocab };
    for (size_t i = 0; i < c->n; i++) {
        if (*o->stop)
            return OK;
        p.ids = c->ids.v + i * c->step;
        TRY(session_reset(s, e));
        TRY(session_prefill(s, p.ids, c->n_ctx, ppl_rows, &p, e));
        TRY(session_flush(s, ppl_rows, &p, e));
        console_note(o->con, "[%zu/%zu] %.4f", i + 1, c->n, exp(p.sum / (double)MAX((size_t)1, p.n_scored)));
    }
    return print_ppl(o, m, c, &p, e);
}

int eval_ppl(const struct options *o, model *m)
{
    struct err e;
    struct chunks c;
    session *s = NULL;
    status st = chunks_open(&c, o, m, &e);
    if (st == OK)
        st = eval_session(&s, m, o, c.n_ctx, &e);
    if (st == OK)
        st = run(o, m, &c, s, &e);
    session_close(s);
    chunks_free(&c);
    return st == OK ? EXIT_DONE : eval_complain(o, &e);
}
