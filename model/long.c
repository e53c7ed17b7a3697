/* long.c - where to cut, and the rounds of summaries.
 *
 * A count is not quite monotonic in the length of a text (a word cut in two can take more tokens than the whole), so a length is searched
 * roughly, and what was cut in the end is counted again and shortened until it fits. */
#include "model/long.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void long_parts_free(struct long_parts *p)
{
    free(p->v);
    *p = (struct long_parts){ 0 };
}

static status add_part(struct long_parts *l, struct long_part p, struct err *e)
{
    if (l->n == l->cap) {
        size_t cap = MAX(16, 2 * l->cap), bytes;
        struct long_part *v = size_mul(cap, sizeof *v, &bytes) ? realloc(l->v, bytes) : NULL;
        if (!v)
            return fail(e, ERR_NOMEM, "%zu parts", cap);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = p;
    return OK;
}

const char *long_number(char buf[32], size_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%zu", n);
    char *to = buf;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return buf;
}

status long_count_tokens(void *ctx, struct str text, size_t *n, struct err *e)
{
    const struct long_tokens *t = ctx;
    struct ids ids = { 0 };
    struct str s = utf8_trim(text);
    status st = s.n ? tokenize(t->tok, s.p, s.n, t->mode, &ids, e) : OK;
    *n = ids.n;
    ids_free(&ids);
    return st;
}

/* ---- places to cut ---- */

static bool continues(struct str d, size_t at) { return at < d.n && ((unsigned char)d.p[at] & 0xc0) == 0x80; }

/* The character boundary at or before, at or after a place. */
static size_t boundary_before(struct str d, size_t at)
{
    while (at > 0 && continues(d, at))
        at--;
    return at;
}
static size_t boundary_after(struct str d, size_t at)
{
    while (continues(d, at))
        at++;
    return at;
}

enum kind_of_place { ANYWHERE, WORD_END, SENTENCE_END, LINE_END, PARAGRAPH_END };

static bool ends_with(struct str d, size_t at, const char *z)
{
    size_t n = strlen(z);
    return at >= n && memcmp(d.p + at - n, z, n) == 0;
}

/* How far back a run of white space is looked at: a page of blanks must not make cutting quadratic. */
enum { MOST_BLANKS = 64 };

static size_t before_blanks(struct str d, size_t at)
{
    for (int n = 0; n < MOST_BLANKS && at > 0 && (d.p[at - 1] == ' ' || d.p[at - 1] == '\t' || d.p[at - 1] == '\r'); n++)
        at--;
    return at;
}

/* What ends at a place inside d. */
static enum kind_of_place place(struct str d, size_t at)
{
    static const char *const stop[] = { "。", "．", "！", "？", "。」", "！」", "？」", "。』", "。）" };
    static const char *const closing[] = { "」", "』", "）", "！", "？", "。" };
    if (d.p[at - 1] == '\n') {
        size_t i = before_blanks(d, at - 1);
        return i == 0 || d.p[i - 1] == '\n' ? PARAGRAPH_END : LINE_END;
    }
    if (d.p[at - 1] == ' ' || d.p[at - 1] == '\t') {
        size_t i = before_blanks(d, at);
        return i > 0 && strchr(".!?", d.p[i - 1]) ? SENTENCE_END : WORD_END;
    }
    for (size_t i = 0; i < COUNT_OF(stop); i++) {
        bool ends = ends_with(d, at, stop[i]);
        for (size_t k = 0; k < COUNT_OF(closing) && ends; k++) /* not between a full stop and its bracket */
            ends = d.n - at < strlen(closing[k]) || memcmp(d.p + at, closing[k], strlen(closing[k])) != 0;
        if (ends)
            return SENTENCE_END;
    }
    return ends_with(d, at, "、") || ends_with(d, at, "\u3000") ? WORD_END : ANYWHERE;
}

/* The last place of the best kind in lo < place <= hi; hi itself is a boundary and where it ends up when there is none better. */
static size_t best_before(struct str d, size_t lo, size_t hi)
{
    size_t best = hi;
    enum kind_of_place kind = ANYWHERE;
    for (size_t at = hi; at > lo && kind < PARAGRAPH_END; at--) {
        enum kind_of_place k = continues(d, at) ? ANYWHERE : place(d, at);
        if (k > kind) {
            kind = k;
            best = at;
        }
    }
    return best;
}

/* The first place of the best kind in lo <= place < hi. */
static size_t best_after(struct str d, size_t lo, size_t hi)
{
    size_t best = lo;
    enum kind_of_place kind = ANYWHERE;
    for (size_t at = lo; at < hi && kind < PARAGRAPH_END; at++) {
        enum kind_of_place k = continues(d, at) ? ANYWHERE : place(d, at);
        if (k > kind) {
            kind = k;
            best = at;
        }
    }
    return best;
}

static size_t skip_space(struct str d, size_t at)
{
    for (size_t len; at < d.n && utf8_is_space(utf8_decode((const uint8_t *)d.p + at, &len)); at += len)
        ;
    return at;
}

static struct str slice(struct str d, size_t from, size_t to) { return (struct str){ d.p + from, to - from }; }

static status count(const struct long_count *c, struct str text, size_t *n, struct err *e) { return c->count(c->ctx, text, n, e); }

/* ---- how much fits ---- */

/* Walks from one end of d: how many bytes hold at most budget tokens, to 1/32 of the length. *guess: bytes expected, improved. One character
 * at least, whatever it counts. */
static status fitting(const struct long_count *c, struct str d, bool from_end, size_t budget, size_t *guess, size_t *n_bytes, struct err *e)
{
    size_t lo = 0, hi = d.n + 1, n; /* lo fits, hi does not */
    for (size_t try = MIN(*guess, d.n); hi - lo > 1 + lo / 32;) {
        size_t cut = from_end ? d.n - boundary_after(d, d.n - try) : boundary_before(d, try);
        if (cut <= lo) { /* inside one character: its whole length */
            cut = from_end ? d.n - boundary_before(d, d.n - lo - 1) : boundary_after(d, lo + 1);
            if (cut >= hi)
                break;
        }
        TRY(count(c, from_end ? slice(d, d.n - cut, d.n) : slice(d, 0, cut), &n, e));
        if (n <= budget) {
            lo = cut;
        } else {
            hi = cut;
        }
        if (hi > d.n) /* never too long yet: as much again as the budget lets expect */
            try = n ? MIN(d.n, MAX(lo + 1, (size_t)((double)lo * (double)budget / (double)n * 1.02) + 1)) : MIN(d.n, 2 * lo + 1);
        else
            try = lo + (hi - lo) / 2;
    }
    *guess = MAX(lo, 16);
    *n_bytes = lo ? lo : from_end ? d.n - boundary_before(d, d.n - 1) : boundary_after(d, 1);
    return OK;
}

status long_split(const struct long_count *c, struct str doc, size_t budget, size_t overlap, struct long_parts *out, struct err *e)
{
    size_t total, done = 0, lead = skip_space(doc, 0), guess = 4 * budget, guess_back = 4 * overlap;
    assert(budget >= LONG_MIN_BUDGET && overlap <= budget / 4);
    TRY(count(c, doc, &total, e));
    for (size_t from = lead < doc.n ? lead : 0, covered = from; covered < doc.n;) {
        struct str rest = slice(doc, from, doc.n);
        /* parts of about one length instead of full ones and a short last one */
        size_t left = total > done ? total - done : 0, n_parts = left / (budget - overlap) + 1;
        size_t want = MIN(budget, MAX(left / n_parts + overlap + budget / 16, budget / 2)), n, n_tokens, to;
        TRY(fitting(c, rest, false, want, &guess, &n, e));
        /* the search is rough, and its result may lie a little over the budget after all: shorten until it fits */
        for (;;) {
            to = from + n;
            if (to < doc.n) {
                size_t least = MAX(from + n / 2, covered);
                size_t best = least < to ? best_before(doc, least, to) : to;
                to = skip_space(doc, best);
            }
            TRY(count(c, slice(doc, from, to), &n_tokens, e));
            if (n_tokens <= budget)
                break;
            if (n <= 4)
                return fail(e, ERR_INPUT, "one character counts more than %zu tokens", budget);
            n = boundary_before(rest, n - MAX(n / 16, 1));
        }
        if (to <= covered) { /* the overlap alone fills the part: begin without it */
            assert(from < covered);
            from = covered;
            continue;
        }
        size_t at = covered == lead ? 0 : from; /* blanks at the start belong to the first part */
        TRY(add_part(out, (struct long_part){ .at = at, .n = to - at, .n_tokens = n_tokens }, e));
        size_t back = 0;
        if (to < doc.n && overlap) {
            TRY(fitting(c, slice(doc, from, to), true, overlap, &guess_back, &back, e));
            back = MIN(back, (to - from) / 2);
        }
        size_t repeat = boundary_after(doc, to - back);
        repeat = repeat < to ? best_after(doc, repeat, to) : to;
        size_t n_repeat = 0;
        if (repeat < to)
            TRY(count(c, slice(doc, repeat, to), &n_repeat, e));
        if (n_repeat > overlap) {
            repeat = to;
            n_repeat = 0;
        }
        done += n_tokens > n_repeat ? n_tokens - n_repeat : 0;
        covered = to;
        from = repeat;
    }
    return OK;
}

/* ---- head and tail ---- */

static status add_marker(struct text *t, size_t n, struct err *e)
{
    char number[32], line[96];
    int len = snprintf(line, sizeof line, "\n\n[... %s tokens left out ...]\n\n", long_number(number, n));
    return text_add(t, line, (size_t)len, e);
}

status long_head_tail(const struct long_count *c, struct str doc, size_t budget, struct text *out, struct long_ends *ends, struct err *e)
{
    size_t total, n_marker, n_all, start = out->n, head, tail, guess = 2 * budget;
    assert(budget >= LONG_MIN_BUDGET);
    TRY(count(c, doc, &total, e));
    TRY(add_marker(out, total, e));
    TRY(count(c, slice((struct str){ out->p, out->n }, start, out->n), &n_marker, e));
    /* the whole is counted again, since words may meet at the marker; what is too much comes off both ends */
    for (size_t room = budget - MIN(budget, n_marker + 4);; room -= MIN(room, n_all - budget + 2)) {
        out->n = start;
        TRY(fitting(c, doc, false, room / 2, &guess, &head, e));
        head = best_before(doc, head - head / 4, head);
        TRY(fitting(c, slice(doc, head, doc.n), true, room / 2, &guess, &tail, e));
        size_t from = doc.n - tail;
        from = skip_space(doc, best_after(doc, from, from + tail / 4));
        TRY(count(c, slice(doc, 0, head), &ends->n_head, e));
        TRY(count(c, slice(doc, from, doc.n), &ends->n_tail, e));
        ends->n_left_out = total > ends->n_head + ends->n_tail ? total - ends->n_head - ends->n_tail : 0;
        struct str h = utf8_trim(slice(doc, 0, head));
        TRY(text_add(out, h.p, h.n, e));
        TRY(add_marker(out, ends->n_left_out, e));
        TRY(text_add(out, doc.p + from, doc.n - from, e));
        TRY(count(c, slice((struct str){ out->p, out->n }, start, out->n), &n_all, e));
        if (n_all <= budget)
            return OK;
        if (room == 0)
            return fail(e, ERR_INPUT, "%zu tokens have no room for a beginning and an end", budget);
    }
}

/* ---- summaries of summaries ---- */

static void say_plan(const struct long_job *j, size_t level, size_t total, size_t n_parts)
{
    char line[1024], tokens[32], most[32];
    snprintf(line, sizeof line, "hayate: %s: %s%s tokens, %s %zu: %zu parts of at most %s, then one summary of them", j->name,
             level > 1 ? "summaries of " : "", long_number(tokens, total), j->ctx_given ? "-c" : "context", j->n_ctx, n_parts,
             long_number(most, j->budget));
    j->say(j->say_ctx, line);
}

static void say_part(const struct long_job *j, size_t i, size_t n, size_t n_tokens)
{
    char line[1024], tokens[32];
    snprintf(line, sizeof line, "hayate: %s: part %zu of %zu, %s tokens", j->name, i, n, long_number(tokens, n_tokens));
    j->say(j->say_ctx, line);
}

/* The beginning of an answer that counts at most n tokens. */
static status shorten(const struct long_job *j, struct str *t, size_t n, struct err *e)
{
    size_t have, guess = t->n;
    *t = utf8_trim(*t);
    TRY(j->count.count(j->count.ctx, *t, &have, e));
    while (have > n && t->n) {
        struct str whole = *t;
        TRY(fitting(&j->count, whole, false, n, &guess, &t->n, e));
        t->n = boundary_before(whole, MIN(t->n, whole.n - 1));
        *t = utf8_trim(*t);
        TRY(j->count.count(j->count.ctx, *t, &have, e));
    }
    return OK;
}

/* One round: the answers to all parts of d, joined. */
static status answer_parts(const struct long_job *j, struct str d, size_t total, struct long_part *part, size_t n, struct text *out,
                           bool *stopped, struct err *e)
{
    /* The second bound makes every round at least halve the text, however unevenly it was cut. */
    size_t most = MIN(j->budget / 4, total / (2 * n));
    for (size_t i = 0; i < n && !*stopped; i++) {
        struct long_reply r = { 0 };
        say_part(j, i + 1, n, part[i].n_tokens);
        status s = j->answer(j->answer_ctx, slice(d, part[i].at, part[i].at + part[i].n), j->thinks ? j->n_predict : MIN(j->n_predict, MAX(most, 1)), &r, e);
        struct str t = { r.text.p ? r.text.p : "", r.text.n };
        part[i].n_generated = r.n_generated;
        *stopped = r.stopped;
        if (s == OK)
            s = shorten(j, &t, most, e);
        if (s == OK && t.n && out->n)
            s = text_add(out, "\n\n", 2, e);
        if (s == OK)
            s = text_add(out, t.p, t.n, e);
        text_free(&r.text);
        TRY(s);
    }
    return OK;
}

status long_reduce(const struct long_job *j, struct str doc, struct text *out, struct long_parts *parts, bool *stopped, struct err *e)
{
    struct text now = { 0 };
    struct str d = doc;
    size_t total, last = SIZE_MAX;
    status s = OK;
    *stopped = false;
    for (size_t level = 1;; level++) {
        size_t first = parts->n;
        TRY_OR(out, s, count(&j->count, d, &total, e));
        if (total <= j->budget)
            break;
        if (total >= last) {
            s = fail(e, ERR_INPUT, "%s: the answers to its parts are not shorter than the parts", j->name);
            goto out;
        }
        last = total;
        s = long_split(&j->count, d, j->budget, MIN(LONG_OVERLAP, j->budget / 8), parts, e);
        if (s != OK) {
            fail_in(e, j->name);
            goto out;
        }
        for (size_t i = first; i < parts->n; i++)
            parts->v[i].level = level;
        say_plan(j, level, total, parts->n - first);

        struct text next = { 0 };
        s = answer_parts(j, d, total, parts->v + first, parts->n - first, &next, stopped, e);
        text_free(&now);
        now = next;
        d = (struct str){ now.p, now.n };
        if (s != OK || *stopped)
            goto out;
        if (!now.n) {
            s = fail(e, ERR_INPUT, "%s: none of its %zu parts gave an answer", j->name, parts->n - first);
            goto out;
        }
    }
    s = text_add(out, d.p, d.n, e);
out:
    text_free(&now);
    return s;
}
