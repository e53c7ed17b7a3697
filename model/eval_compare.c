/* eval_compare.c - how far two models, or one model on two backends, are apart: the Kullback-Leibler divergence of what they predict, position by
 * position over the same ids, and whether they would choose the same token.
 *
 * Both run in step, 64 positions at a time, so that no more than 64 rows of logits are kept. */
#include "model/answer.h"
#include "model/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 };

struct compare {
    const struct chunks *c;
    const int32_t *ids;  /* of the chunk */
    size_t at, n_vocab;  /* position of the first row that is kept */
    float *kept;         /* [ROWS, n_vocab] of the first model */
    double *kl;          /* [n] of every scored position so far */
    size_t n, n_same;
    double nll[2];       /* sums */
};

static status keep_rows(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct compare *k = ctx;
    if (pos < k->at || pos + n_rows > k->at + ROWS)
        return fail(e, ERR_DEVICE, "rows %zu to %zu, expected %d from %zu on", pos, pos + n_rows, ROWS, k->at);
    memcpy(k->kept + (pos - k->at) * k->n_vocab, logits, n_rows * k->n_vocab * sizeof *logits);
    return OK;
}

/* log of the sum of exp(x - max), plus max */
static double log_sum(const float *x, size_t n)
{
    double most = x[0];
    for (size_t i = 1; i < n; i++)
        most = fmax(most, x[i]);
    double sum = exp(x[0] - most);
    for (size_t i = 1; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

/* Sum over p log(p / q), p and q the softmax of two rows; rounding may leave it a little below 0. */
static double divergence(const float *p, const float *q, size_t n)
{
    double lp = log_sum(p, n), lq = log_sum(q, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        double a = p[i] - lp, b = q[i] - lq;
        sum += exp(a) * (a - b);
    }
    return sum;
}

static status compare_rows(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct compare *k = ctx;
    (void)e;
    for (size_t r = 0; r < n_rows; r++) {
        if (pos + r < k->c->from || pos + r + 1 >= k->c->n_ctx)
            continue;
        const float *p = k->kept + (pos + r - k->at) * k->n_vocab, *q = logits + r * k->n_vocab;
        int32_t best[2];
        k->nll[0] += row_nll(p, k->n_vocab, k->ids[pos + r + 1], &best[0]);
        k->nll[1] += row_nll(q, k->n_vocab, k->ids[pos + r + 1], &best[1]);
        k->n_same += best[0] == best[1];
        k->kl[k->n++] = divergence(p, q, k->n_vocab);
    }
    return OK;
}

/* ROWS positions of one model: the last ones of a chunk may be fewer, and wait to be flushed */
static status step(session *s, const int32_t *ids, size_t n, bool last, session_rows_fn fn, struct compare *k, struct err *e)
{
    TRY(session_prefill(s, ids, n, fn, k, e));
    return last ? session_flush(s, fn, k, e) : OK;
}

static status run_chunk(struct compare *k, session *const s[2], struct err *e)
{
    size_t n_ctx = k->c->n_ctx;
    for (int i = 0; i < 2; i++)
        TRY(session_reset(s[i], e));
    for (k->at = 0; k->at < n_ctx; k->at += ROWS) {
        size_t n = MIN((size_t)ROWS, n_ctx - k->at);
        for (int i = 0; i < 2; i++)
            TRY(step(s[i], k->ids + k->at, n, k->at + n == n_ctx, i ? compare_rows : keep_rows, k, e));
    }
    return OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that a share of the sorted ones does not exceed */
static double quantile(const double *sorted, size_t n, double share) { return sorted[(size_t)ceil(share * (double)n) - 1]; }

static status print(const struct options *o, const struct compare *k, const model *const m[2], struct err *e)
{
    double mean = 0, n = (double)k->n;
    double *sorted = malloc(k->n * sizeof *sorted);
    json_t *each = json_array();
    if (!sorted || !each) {
        free(sorted);
        json_decref(each);
        return fail(e, ERR_NOMEM, "%zu positions", k->n);
    }
    memcpy(sorted, k->kl, k->n * sizeof *sorted);
    qsort(sorted, k->n, sizeof *sorted, ascending);
    for (size_t i = 0; i < k->n; i++) {
        mean += k->kl[i] / n;
        json_array_append_new(each, json_real(k->kl[i]));
    }
    double median = quantile(sorted, k->n, 0.5), p99 = quantile(sorted, k->n, 0.99), most = sorted[k->n - 1], same = (double)k->n_same / n;
    free(sorted);
    if (!isfinite(mean + k->nll[0] + k->nll[1])) {
        json_decref(each);
        return fail(e, ERR_FORMAT, "%s and %s: a logit is no number; is a weight damaged?", gguf_name(model_gguf(m[0])), gguf_name(model_gguf(m[1])));
    }
    if (o->json) {
        const char *of = k->c->of, *name = gguf_name(model_gguf(m[1]));
        json_t *j = json_pack("{s:o,s:o,s:s,s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "file", json_of(of, strlen(of)), "other", json_of(name, strlen(name)),
                              "backend", model_backend(m[0]), "other_backend", model_backend(m[1]), "tokens_scored", (json_int_t)k->n, "kl_mean", mean,
                              "kl_median", median, "kl_99", p99, "kl_max", most, "top1_agreement", same, "mean_nll", k->nll[0] / n, "other_mean_nll",
                              k->nll[1] / n, "kl", each);
        return eval_put_json(j, e);
    }
    json_decref(each);
    printf("kl mean %.3e  median %.3e  99 %% %.3e  max %.3e  top-1 agreement %.2f %%  mean nll %.6f and %.6f  %zu tokens scored\n", mean, median, p99, most,
           100 * same, k->nll[0] / n, k->nll[1] / n, k->n);
    return OK;
}

static status run(const struct options *o, model *const m[2], const struct chunks *c, struct compare *k, session *s[2], struct err *e)
{
    size_t n_vocab = model_shape(m[0])->n_vocab;
    if (model_shape(m[1])->n_vocab != n_vocab)
        return fail(e, ERR_INPUT, "%s: a vocabulary of %u, expected %zu as that of %s", gguf_name(model_gguf(m[1])), model_shape(m[1])->n_vocab, n_vocab,
                    gguf_name(model_gguf(m[0])));
    *k = (struct compare){ .c = c, .n_vocab = n_vocab, .kept = malloc(ROWS * n_vocab * sizeof *k->kept), .kl = malloc(c->n * c->n_ctx * sizeof *k->kl) };
    if (!k->kept || !k->kl)
        return fail(e, ERR_NOMEM, "%d rows of logits", ROWS);
    for (int i = 0; i < 2; i++)
        TRY(eval_session(&s[i], m[i], o, c->n_ctx, e));
    for (size_t i = 0; i < c->n; i++) {
        if (*o->stop)
            return OK;
        k->ids = c->ids.v + i * c->step;
        TRY(run_chunk(k, s, e));
        console_note(o->con, "[%zu/%zu] %zu of %zu tokens the same", i + 1, c->n, k->n_same, k->n);
    }
    return k->n ? print(o, k, (const model *const[2]){ m[0], m[1] }, e) : fail(e, ERR_INPUT, "%s: no position is scored", c->of);
}

/* o with what --compare names: a backend, or else a file */
static struct options other_of(const struct options *o)
{
    struct options other = *o;
    if (!backend_named(o->compare, &other.backend))
        other.model_path = o->compare;
    return other;
}

int eval_compare(const struct options *o, model *m)
{
    struct err e;
    struct chunks c = { .n = 0 };
    struct compare k = { .n = 0 };
    session *s[2] = { NULL, NULL };
    model *both[2] = { m, NULL };
    struct options other = other_of(o);
    status st = chunks_open(&c, o, m, &e);
    if (st == OK)
        st = open_model(&other, &both[1], &e);
    if (st == OK)
        st = run(o, both, &c, &k, s, &e);
    session_close(s[0]);
    session_close(s[1]);
    model_close(both[1]);
    chunks_free(&c);
    free(k.kept);
    free(k.kl);
    return st == OK ? EXIT_DONE : eval_complain(o, &e);
}
