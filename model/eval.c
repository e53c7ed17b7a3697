/* eval.c - see eval.h. */
#include "model/eval.h"

#include "model/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int eval_complain(const struct options *o, const struct err *e)
{
    console_error(o->con, "%s", e->msg);
    return exit_code_of(e->code);
}

status eval_session(session **s, model *m, const struct options *o, size_t n_ctx, struct err *e)
{
    struct session_params p = session_params_of(o, n_ctx);
    return session_open(s, m, &p, o->mem_limit, e);
}

status eval_put_json(json_t *j, struct err *e)
{
    char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!line)
        return fail(e, ERR_NOMEM, "JSON of a result");
    puts(line); /* main sees whether it arrived */
    free(line);
    return OK;
}

/* ---- golden files ---- */

status eval_read_all(const char *path, uint8_t **out, size_t *n, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return fail(e, ERR_IO, "%s: cannot open", path);
    size_t cap = 1 << 16;
    uint8_t *p = malloc(cap + 8);
    *n = 0;
    while (p) {
        *n += fread(p + *n, 1, cap - *n, f);
        if (*n < cap)
            break;
        cap *= 2;
        uint8_t *more = realloc(p, cap + 8);
        if (!more)
            free(p);
        p = more;
    }
    bool bad = ferror(f);
    fclose(f);
    if (!p || bad) {
        free(p);
        return fail(e, bad ? ERR_IO : ERR_NOMEM, "%s: cannot read", path);
    }
    *out = p;
    return OK;
}

/* The arrays start 6 bytes into the file: shift them so that they are aligned, then point into the buffer. */
status golden_open(struct golden *g, const char *path, struct err *e)
{
    size_t n, need = 0, part;
    *g = (struct golden){ 0 };
    TRY(eval_read_all(path, &g->bytes, &n, e));
    if (n >= 6 && !memcmp(g->bytes, "GMTP1\n", 6)) {
        free(g->bytes);
        *g = (struct golden){ 0 };
        return fail(e, ERR_UNSUPPORTED, "%s: golden values of the draft head: not in this version", path);
    }
    if (n < 18 || memcmp(g->bytes, "GOLD1\n", 6)) {
        free(g->bytes);
        *g = (struct golden){ 0 };
        return fail(e, ERR_FORMAT, "%s: found %zu bytes without the mark, expected GOLD1", path, n);
    }
    memmove(g->bytes, g->bytes + 6, n - 6);
    n -= 6;
    const uint32_t *head = (const uint32_t *)(const void *)g->bytes;
    uint64_t T = head[0], V = head[1], R = head[2];
    bool ok = T >= 1 && V >= 1 && R <= T && T < 1u << 24 && V < 1u << 24 && size_mul(R, V * 4, &part) && size_add(12 + (4 * T - 1 + R) * 4, part, &need);
    if (!ok || need != n) {
        free(g->bytes);
        *g = (struct golden){ 0 };
        return fail(e, ERR_FORMAT, "%s: %" PRIu64 " tokens, %" PRIu64 " ids, %" PRIu64 " rows in %zu bytes, expected %zu", path, T, V, R, n + 6, need + 6);
    }
    g->n_tok = head[0], g->n_vocab = head[1], g->n_row = head[2];
    const void *p = head + 3; /* int32 and float are both four bytes wide */
    g->ids = p;
    g->nll = p = g->ids + T;
    g->argmax = p = g->nll + (T - 1);
    g->gap = p = g->argmax + T;
    g->row = p = g->gap + T;
    g->logits = (p = g->row + R);
    for (uint32_t t = 0; t < g->n_tok; t++)
        if (g->ids[t] < 0 || (uint32_t)g->ids[t] >= g->n_vocab || (t < g->n_row && (g->row[t] < 0 || (uint32_t)g->row[t] >= g->n_tok))) {
            free(g->bytes);
            *g = (struct golden){ 0 };
            return fail(e, ERR_FORMAT, "%s: an id or row at %u is out of range", path, t);
        }
    return OK;
}

double row_nll(const float *x, size_t n_vocab, int32_t next, int32_t *argmax)
{
    size_t best = 0;
    double sum = 1; /* the best one itself */
    for (size_t i = 1; i < n_vocab; i++)
        if (x[i] > x[best])
            best = i;
    for (size_t i = 0; i < n_vocab; i++)
        if (i != best)
            sum += exp((double)x[i] - (double)x[best]);
    *argmax = (int32_t)best;
    return log(sum) + (double)x[best] - (double)x[next];
}

/* ---- what is scored ---- */

static status read_ids(struct chunks *c, const struct options *o, model *m, struct err *e)
{
    struct golden g;
    uint8_t *text;
    size_t n;
    status s = OK;
    if (o->ids_path) {
        TRY(golden_open(&g, o->ids_path, e));
        for (uint32_t i = 0; i < g.n_tok && s == OK; i++)
            s = ids_push(&c->ids, g.ids[i], e);
        free(g.bytes);
        return s;
    }
    TRY(eval_read_all(o->ppl_path, &text, &n, e));
    size_t bad = utf8_invalid_at((const char *)text, n);
    s = bad < n ? fail(e, ERR_INPUT, "%s: not UTF-8 at byte %zu", o->ppl_path, bad)
                : tokenize(model_tokenizer(m), (const char *)text, n, TOKENIZE_TEXT, &c->ids, e);
    free(text);
    return s;
}

status chunks_open(struct chunks *c, const struct options *o, model *m, struct err *e)
{
    *c = (struct chunks){ .of = o->ids_path ? o->ids_path : o->ppl_path };
    TRY(read_ids(c, o, m, e));
    size_t n_ids = c->ids.n, stride = o->ppl_stride;
    if (n_ids < 2)
        return fail(e, ERR_INPUT, "%s: %zu tokens, expected at least 2", c->of, n_ids);
    c->n_ctx = c->step = MIN(o->n_ctx ? o->n_ctx : 512, n_ids);
    c->n = n_ids / c->n_ctx;
    c->from = n_ids > c->n_ctx || !o->ids_path ? c->n_ctx / 2 : 0;
    if (!stride)
        return OK;
    if (stride >= c->n_ctx)
        return fail(e, ERR_USAGE, "--ppl-stride %zu: expected less than the chunk of %zu tokens", stride, c->n_ctx);
    c->step = stride;
    c->n = MAX((size_t)1, (n_ids - c->n_ctx + stride - 1) / stride);
    c->from = c->n_ctx - stride - 1;
    return OK;
}

void chunks_free(struct chunks *c) { ids_free(&c->ids); }
