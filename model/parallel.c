/* parallel.c - rounds: free places take inputs, prompts get a piece, everybody else a token. */
#include "model/parallel.h"

static bool stopped(const struct parallel *p) { return *p->place[0].en.o->stop; }

static status end(struct parallel *p, const struct work_source *src, struct place *at, status s, const struct err *why, struct err *e)
{
    at->doing = FREE;
    return src->ended(src->ctx, (uint32_t)(at - p->place), &at->work, s, why, e);
}

/* ---- one at a time ---- */

static status answer_in_turn(struct parallel *p, const struct work_source *src, struct err *e)
{
    struct place *at = &p->place[0];
    while (!stopped(p)) {
        struct err why;
        bool more;
        TRY(src->next(src->ctx, 0, &at->work, &more, e));
        if (!more)
            break;
        status s = engine_answer_whole(&at->en, at->work.in, &at->work.watch, at->work.a, &why);
        p->prefill_s += at->work.a->prefill_s;
        p->decode_s += at->work.a->decode_s;
        TRY(end(p, src, at, s, &why, e));
    }
    return OK;
}

/* ---- several ---- */

/* The end of an answer, or of what there is of it */
static status settle(struct place *at, struct err *e)
{
    speculate_end(&at->en.speculator);
    at->work.a->drafts = at->en.speculator.stats;
    return engine_end(&at->en, e);
}

/* The place has what the last step left for it: the next tokens, as far as they were guessed, and perhaps the end */
static status take_tokens(struct parallel *p, const struct work_source *src, struct place *at, struct err *e)
{
    struct err why;
    bool more;
    double t0 = console_now();
    status s;
    do
        s = engine_token(&at->en, &more, &why);
    while (s == OK && more && !stopped(p) && speculate_follow(&at->en.speculator, at->en.going.id));
    if (s == OK && !more)
        s = settle(at, &why);
    double seconds = console_now() - t0;
    at->work.a->decode_s += seconds;
    p->decode_s += seconds;
    at->doing = DECODE;
    return s != OK || !more ? end(p, src, at, s, &why, e) : OK;
}

/* A free place takes an input. The parts of a document for --long split are answered here, while the others wait. */
static status admit(struct parallel *p, const struct work_source *src, struct place *at, struct err *e)
{
    struct err why;
    bool more, cut;
    TRY(src->next(src->ctx, (uint32_t)(at - p->place), &at->work, &more, e));
    p->no_more = !more;
    if (!more)
        return OK;
    status s = engine_reduce(&at->en, at->work.in, &cut, &why);
    if (s != OK)
        return end(p, src, at, s, &why, e);
    engine_begin(&at->en, at->work.in, &at->work.watch, at->work.a); /* of one that was cut short only the end comes */
    at->doing = PROMPT;
    at->turn = p->turn++;
    return OK;
}

static struct place *oldest_prompt(struct parallel *p)
{
    struct place *first = NULL;
    for (uint32_t k = 0; k < p->n; k++)
        if (p->place[k].doing == PROMPT && (!first || p->place[k].turn < first->turn))
            first = &p->place[k];
    return first;
}

/* Prompts in the order in which they began, about a ubatch of tokens in all: so long the others wait. When a prompt is through, its first token is taken
 * before any other step, which would overwrite its logits. */
static status evaluate_prompts(struct parallel *p, const struct work_source *src, struct err *e)
{
    size_t most = session_n_ubatch(p->place[0].en.s), done = 0;
    for (struct place *at; done < most && !stopped(p) && (at = oldest_prompt(p));) {
        struct err why;
        bool more;
        double before = at->work.a->prefill_s;
        size_t from = at->en.going.at;
        status s = engine_prompt(&at->en, &more, &why);
        p->prefill_s += at->work.a->prefill_s - before;
        done += at->en.going.at - from - (from ? 0 : at->work.a->n_reused);
        if (s != OK)
            TRY(end(p, src, at, s, &why, e));
        else if (!more) {
            speculate_begin(&at->en.speculator, at->work.in->prompt.v, at->work.in->prompt.n);
            TRY(take_tokens(p, src, at, e));
        }
    }
    return OK;
}

/* One step for all that decode, and what comes of it */
static status decode_together(struct parallel *p, const struct work_source *src, struct err *e)
{
    struct place *row[SESSION_SEQ_MAX];
    struct speculator *sp[SESSION_SEQ_MAX];
    int32_t ids[SESSION_SEQ_MAX];
    size_t room[SESSION_SEQ_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n; k++)
        if (p->place[k].doing == DECODE) {
            row[n] = &p->place[k];
            sp[n] = &row[n]->en.speculator;
            ids[n] = row[n]->en.going.id;
            room[n] = row[n]->en.o->n_predict - row[n]->work.a->n_generated;
            n++;
        }
    if (n == 0 || stopped(p))
        return OK;
    double t0 = console_now();
    TRY(n == 1 ? speculate_step(sp[0], ids[0], room[0], e) : speculate_rows(sp, ids, room, n, &p->odds[n], e));
    double seconds = console_now() - t0;
    p->decode_s += seconds;
    for (uint32_t r = 0; r < n; r++)
        row[r]->work.a->decode_s += seconds; /* a row has seen the whole of the step */
    for (uint32_t r = 0; r < n; r++)
        TRY(take_tokens(p, src, row[r], e));
    return OK;
}

static status interrupt(struct parallel *p, const struct work_source *src, struct err *e)
{
    for (uint32_t k = 0; k < p->n; k++) {
        struct err why;
        struct place *at = &p->place[k];
        if (at->doing == FREE)
            continue;
        at->work.a->ending = STOP_INTERRUPTED;
        status s = settle(at, &why);
        TRY(end(p, src, at, s, &why, e));
    }
    return OK;
}

static bool any_in_work(const struct parallel *p)
{
    for (uint32_t k = 0; k < p->n; k++)
        if (p->place[k].doing != FREE)
            return true;
    return false;
}

static status answer_together(struct parallel *p, const struct work_source *src, struct err *e)
{
    do {
        for (uint32_t k = 0; k < p->n; k++)
            while (p->place[k].doing == FREE && !p->no_more && !stopped(p))
                TRY(admit(p, src, &p->place[k], e));
        TRY(evaluate_prompts(p, src, e));
        TRY(decode_together(p, src, e));
        if (stopped(p))
            return interrupt(p, src, e);
    } while (any_in_work(p) || !p->no_more);
    return OK;
}

/* ---- from outside ---- */

status parallel_answer(struct parallel *p, const struct work_source *src, struct err *e)
{
    p->no_more = false;
    return p->n == 1 ? answer_in_turn(p, src, e) : answer_together(p, src, e);
}

status parallel_open(struct parallel *p, const struct options *o, model *m, prefix_cache *cache, size_t n_ctx, uint32_t n, struct err *e)
{
    *p = (struct parallel){ .n = n };
    TRY(engine_open(&p->place[0].en, o, m, cache, n_ctx, n, e));
    for (uint32_t k = 1; k < n; k++)
        TRY(engine_open_guest(&p->place[k].en, &p->place[0].en, k, e));
    return OK;
}

void parallel_close(struct parallel *p)
{
    for (uint32_t k = p->n; k-- > 0;)
        engine_close(&p->place[k].en);
    *p = (struct parallel){ 0 };
}
