/* cmd_eval.c - is the engine right? Golden values with the tolerance that applies; perplexity, comparisons and needles are in eval_*.c.
 *
 * A golden file (GOLD1) holds ids, the nll of every next id, arg-max and gap per position and full logits of some rows; a GLAY1 file holds the wide
 * residual after every layer at the last position of the set with the same name. Both are little-endian. */
#include "model/answer.h"
#include "model/eval.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rules of the golden set (its README): what eval applies and names. */
struct rule {
    const char *name;
    double logit, nll; /* largest difference; 0: not applied */
    double mean_nll;   /* 0: not applied */
    double gap;        /* positions with a larger gap count */
    double agree;      /* share of those whose arg-max must agree */
};
static const struct rule precise_rule = { "cpu --precise: |logit| 2e-4, |nll| 1e-4, arg-max equal where gap > 1e-3", 2e-4, 1e-4, 0, 1e-3, 1 };
static const struct rule gpu_rule = { "gpu --precise: |logit| 5e-4, |nll| 2.5e-4, arg-max equal where gap > 1e-3", 5e-4, 2.5e-4, 0, 1e-3, 1 };
static const struct rule default_rule = { "default path: mean nll within 0.02, arg-max equal at 99 % where gap > 0.5", 0, 0, 0.02, 0.5, 0.99 };

static bool on_cpu(const model *m) { return strcmp(model_backend(m), "cpu") == 0; }
static const struct rule *rule_for(const struct options *o, const model *m)
{
    return !o->precise ? &default_rule : on_cpu(m) ? &precise_rule : &gpu_rule;
}

struct compare {
    const model *m;
    const struct golden *g;
    const struct rule *rule;
    double logit, nll, sum_nll, sum_gold;
    uint32_t n_counted, n_agree, n_equal;
};

static status compare_rows(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e)
{
    struct compare *c = ctx;
    const struct golden *g = c->g;
    for (size_t r = 0; r < n_rows; r++) {
        const float *x = logits + r * g->n_vocab;
        TRY(model_check_logits(c->m, x, e));
        size_t p = pos + r;
        int32_t best, next = p + 1 < g->n_tok ? g->ids[p + 1] : g->ids[p];
        double nll = row_nll(x, g->n_vocab, next, &best), d;
        c->n_equal += best == g->argmax[p];
        if ((double)g->gap[p] > c->rule->gap) {
            c->n_counted++;
            c->n_agree += best == g->argmax[p];
        }
        if (p + 1 < g->n_tok) {
            d = fabs(nll - (double)g->nll[p]);
            c->nll = d <= c->nll ? c->nll : d; /* NaN stays */
            c->sum_nll += nll;
            c->sum_gold += (double)g->nll[p];
        }
        for (uint32_t k = 0; k < g->n_row; k++)
            for (uint32_t i = 0; (size_t)g->row[k] == p && i < g->n_vocab; i++) {
                d = fabs((double)x[i] - (double)g->logits[(size_t)k * g->n_vocab + i]);
                c->logit = d <= c->logit ? c->logit : d;
            }
    }
    return OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One golden file; *held says whether it is within the rule */
static status eval_gold(const struct options *o, model *m, const char *path, bool *held, struct err *e)
{
    struct golden g;
    session *s = NULL;
    TRY(golden_open(&g, path, e));
    status st = OK;
    struct compare c = { .m = m, .g = &g, .rule = rule_for(o, m) };
    if (g.n_vocab != model_shape(m)->n_vocab) {
        st = fail(e, ERR_INPUT, "%s: for a vocabulary of %u, found a model of %u", path, g.n_vocab, model_shape(m)->n_vocab);
        goto out;
    }
    TRY_OR(out, st, eval_session(&s, m, o, g.n_tok, e));
    TRY_OR(out, st, session_prefill(s, g.ids, g.n_tok, compare_rows, &c, e));
    TRY_OR(out, st, session_flush(s, compare_rows, &c, e));
    uint32_t n = MAX(1u, g.n_tok - 1);
    double mean = fabs(c.sum_nll - c.sum_gold) / n;
    const struct rule *r = c.rule;
    if (!isfinite(c.logit + c.nll + mean)) {
        st = fail(e, ERR_FORMAT, "%s: holds a value that is no number", path);
        goto out;
    }
    *held = (!(r->logit > 0) || c.logit <= r->logit) && (!(r->nll > 0) || c.nll <= r->nll) && (!(r->mean_nll > 0) || mean <= r->mean_nll) &&
            (double)c.n_agree >= r->agree * (double)c.n_counted;
    if (o->json) {
        json_t *j = json_pack("{s:o,s:i,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:s,s:b}", "golden", json_of(path, strlen(path)), "tokens", (int)g.n_tok, "max_logit_diff", c.logit,
                              "max_nll_diff", c.nll, "mean_nll", c.sum_nll / n, "mean_nll_diff", mean, "argmax_equal", (int)c.n_equal, "argmax_counted",
                              (int)c.n_counted, "argmax_counted_equal", (int)c.n_agree, "rule", r->name, "within", *held);
        TRY_OR(out, st, eval_put_json(j, e));
    } else {
        printf("%-20s %5u tok  max |logit diff| %.2e  max |nll diff| %.2e  mean nll %.6f (%+.1e)  arg-max %u/%u (gap > %g: %u/%u)  %s\n", base_name(path),
               g.n_tok, c.logit, c.nll, c.sum_nll / n, (c.sum_nll - c.sum_gold) / n, c.n_equal, g.n_tok, r->gap, c.n_agree, c.n_counted,
               *held ? "ok" : "OUTSIDE TOLERANCE");
    }
out:
    session_close(s);
    free(g.bytes);
    return st;
}

/* SET.CASE.layers beside SET.CASE.gold: the residual after every layer, for finding the first layer that differs */
static status eval_layers(const struct options *o, model *m, const char *path, bool *held, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t n;
    char gold[4096];
    struct golden g = { 0 };
    session *s = NULL;
    float *tap = NULL;
    const struct shape *sh = model_shape(m);
    size_t wide = (size_t)sh->n_stream * sh->n_embd;
    status st = OK;
    TRY(eval_read_all(path, &bytes, &n, e));
    int32_t head[3] = { 0 };
    if (n >= 18)
        memcpy(head, bytes + 6, sizeof head);
    if (n < 18 || memcmp(bytes, "GLAY1\n", 6) || head[1] != (int32_t)sh->n_layer || (size_t)head[2] != wide || n != 18 + sh->n_layer * wide * 4) {
        st = fail(e, ERR_FORMAT, "%s: found %zu bytes, %d layers of %d; expected GLAY1 with %u layers of %zu", path, n, head[1], head[2], sh->n_layer, wide);
        goto out;
    }
    size_t stem = strlen(path) - strlen(".layers");
    snprintf(gold, sizeof gold, "%.*s.gold", (int)MIN(stem, (size_t)4000), path);
    TRY_OR(out, st, golden_open(&g, gold, e));
    tap = calloc(sh->n_layer * wide, sizeof *tap);
    if (!tap || head[0] < 0 || (uint32_t)head[0] >= g.n_tok) {
        st = fail(e, ERR_FORMAT, "%s: position %d, expected 0..%u", path, head[0], g.n_tok - 1);
        goto out;
    }
    TRY_OR(out, st, eval_session(&s, m, o, g.n_tok, e));
    session_tap(s, tap);
    TRY_OR(out, st, session_prefill(s, g.ids, (size_t)head[0] + 1, NULL, NULL, e));
    TRY_OR(out, st, session_flush(s, NULL, NULL, e));
    double worst = 0;
    int first = -1;
    for (uint32_t il = 0; il < sh->n_layer; il++)
        for (size_t i = 0; i < wide; i++) {
            float want;
            memcpy(&want, bytes + 18 + (il * wide + i) * 4, 4);
            /* the residual grows with depth: relative to its size, at least absolute */
            double d = fabs((double)tap[il * wide + i] - (double)want) / fmax(1, fabs((double)want));
            worst = d <= worst ? worst : d;
            if (!(d <= (on_cpu(m) ? precise_rule : gpu_rule).logit) && first < 0)
                first = (int)il;
        }
    *held = first < 0;
    if (o->json) { /* null: no number, or no layer */
        json_t *j = json_pack("{s:o,s:i,s:o,s:o,s:b}", "layers", json_of(path, strlen(path)), "position", (int)head[0], "max_residual_diff",
                              isfinite(worst) ? json_real(worst) : json_null(), "first_different_layer", first < 0 ? json_null() : json_integer(first),
                              "within", *held);
        st = eval_put_json(j, e);
        goto out;
    }
    printf("%-20s position %d  max |residual diff| %.2e  ", base_name(path), head[0], worst);
    if (first < 0)
        printf("ok\n");
    else
        printf("FIRST DIFFERENT LAYER %d\n", first);
out:
    session_close(s);
    free(tap);
    free(g.bytes);
    free(bytes);
    return st;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static int worse(int a, int b) { return a > b ? a : b; }

static int eval_golden(const struct options *o, model *m)
{
    int code = EXIT_DONE;
    struct err e;
    size_t n_compared = 0;
    for (size_t i = 0; i < o->n_golden && !*o->stop; i++) {
        bool held = false;
        status s = (ends_with(o->golden[i], ".layers") ? eval_layers : eval_gold)(o, m, o->golden[i], &held, &e);
        n_compared += s == OK;
        if (s != OK)
            code = worse(code, eval_complain(o, &e));
        else if (!held)
            code = worse(code, EXIT_FAILED);
    }
    if (n_compared && !o->json)
        printf("%s  rule: %s\n", base_name(gguf_name(model_gguf(m))), rule_for(o, m)->name);
    return code;
}

int cmd_eval(const struct options *o)
{
    struct err e;
    model *m = NULL;
    if (open_model(o, &m, &e) != OK)
        return *o->stop ? 128 + *o->stop : eval_complain(o, &e);
    int code = EXIT_DONE;
    if (o->n_golden)
        code = eval_golden(o, m);
    if (o->compare)
        code = eval_compare(o, m);
    else if (o->ppl)
        code = eval_ppl(o, m);
    else if (o->needle.n)
        code = eval_needle(o, m);
    model_close(m);
    if (*o->stop)
        return 128 + *o->stop;
    return code;
}
