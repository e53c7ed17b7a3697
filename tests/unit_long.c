/* unit_long.c - parts cover the document and fit; cuts are where a reader would make them; rounds of summaries end. */
#include "model/long.h"

#include "tests/test.h"

#include <ctype.h>

/* ---- ways to count, none of them the tokenizer's ---- */

/* Characters */
static status count_chars(void *ctx, struct str t, size_t *n, struct err *e)
{
    (void)ctx, (void)e;
    t = utf8_trim(t);
    *n = 0;
    for (size_t i = 0; i < t.n; i++)
        *n += (t.p[i] & 0xc0) != 0x80;
    return OK;
}
/* Words and other characters; cutting a word in two makes more of them. */
static status count_words(void *ctx, struct str t, size_t *n, struct err *e)
{
    (void)ctx, (void)e;
    t = utf8_trim(t);
    *n = 0;
    for (size_t i = 0; i < t.n; i++)
        if ((t.p[i] & 0xc0) != 0x80 && t.p[i] != ' ')
            *n += !(isalnum((unsigned char)t.p[i]) && i && isalnum((unsigned char)t.p[i - 1]));
    return OK;
}
/* Up to 3 per character, not monotonic: what comes out depends on the last byte. */
static status count_odd(void *ctx, struct str t, size_t *n, struct err *e)
{
    TRY(count_chars(ctx, t, n, e));
    t = utf8_trim(t);
    if (t.n)
        *n = 2 * *n + (unsigned char)t.p[t.n - 1] % 5;
    return OK;
}
static status count_fails(void *ctx, struct str t, size_t *n, struct err *e)
{
    size_t *left = ctx;
    return (*left)-- ? count_chars(NULL, t, n, e) : fail(e, ERR_NOMEM, "counting");
}
static const struct long_count chars = { count_chars, NULL }, words = { count_words, NULL }, odd = { count_odd, NULL };
static const struct long_count *const counts[] = { &chars, &words, &odd };

static bool is_boundary(struct str d, size_t at) { return at == d.n || (d.p[at] & 0xc0) != 0x80; }

/* ---- split ---- */

static struct long_parts split(const struct long_count *c, struct str d, size_t budget, size_t overlap)
{
    struct long_parts p = { 0 };
    struct err e;
    status s = long_split(c, d, budget, overlap, &p, &e);
    CHECK(s == OK);
    if (s != OK)
        fprintf(stderr, "  %s\n", e.msg);
    size_t covered = 0, n;
    for (size_t i = 0; i < p.n; i++) {
        struct long_part part = p.v[i];
        CHECK(part.n > 0 && part.at <= covered && part.at + part.n > covered && part.at + part.n <= d.n);
        CHECK(i == 0 || part.at > p.v[i - 1].at);
        CHECK(is_boundary(d, part.at) && is_boundary(d, part.at + part.n));
        CHECK(c->count(NULL, (struct str){ d.p + part.at, part.n }, &n, NULL) == OK && n == part.n_tokens && n <= budget);
        CHECK(c->count(NULL, (struct str){ d.p + part.at, covered - part.at }, &n, NULL) == OK && n <= overlap);
        covered = part.at + part.n;
    }
    CHECK(covered == d.n);
    return p;
}

/* Every cut of a document is behind `end`. */
static void cuts_behind(const char *name, struct str d, const char *end)
{
    for (size_t k = 0; k < COUNT_OF(counts); k++)
        for (size_t overlap = 0; overlap <= 16; overlap += 16) {
            struct long_parts p = split(counts[k], d, 200, overlap);
            CHECK(p.n > 1 || counts[k] == &words);
            for (size_t i = 0; i + 1 < p.n; i++) {
                size_t to = p.v[i].at + p.v[i].n, n = strlen(end);
                bool good = to >= n && memcmp(d.p + to - n, end, n) == 0;
                CHECK(good);
                if (!good)
                    fprintf(stderr, "  %s, count %zu: cut at %zu behind '%.*s'\n", name, k, to, (int)MIN(to, 20), d.p + to - MIN(to, 20));
            }
            long_parts_free(&p);
        }
}

static struct text repeated(const char *piece, size_t n)
{
    struct text t = { 0 };
    for (size_t i = 0; i < n; i++)
        CHECK(text_add(&t, piece, strlen(piece), NULL) == OK);
    return t;
}
#define CUTS_BEHIND(piece, end)                                          \
    do {                                                                 \
        struct text t_ = repeated(piece, 500);                           \
        cuts_behind(piece, (struct str){ t_.p, t_.n }, end);             \
        text_free(&t_);                                                  \
    } while (0)

static void places(void)
{
    CUTS_BEHIND("One line.\nAnother line. With more.\n\n", "\n\n");
    CUTS_BEHIND("One line.\r\nAnother line. With more.\r\n\r\n", "\r\n\r\n");
    CUTS_BEHIND("One line.\nAnother line. With more.\n \t\n", "\n \t\n");
    CUTS_BEHIND("One line. Another. And a third, longer one\n", "one\n");
    CUTS_BEHIND("一行目です。長い行です、続きます。\n", "。\n");
    CUTS_BEHIND("A sentence with words. ", ". ");
    CUTS_BEHIND("Is it a.b or 3.14? ", "? ");
    CUTS_BEHIND("一つの文です。", "。");
    CUTS_BEHIND("「行くのか。」", "。」");
    CUTS_BEHIND("words without any end ", " ");
    CUTS_BEHIND("読点だけ、", "、");
    CUTS_BEHIND("字", "字");
    CUTS_BEHIND("x", "x");
    CUTS_BEHIND("😀", "😀");
}

static void lengths(void)
{
    /* about equal parts instead of full ones and a rest */
    struct text t = repeated("Nine x 9.\n", 110); /* 1,100 characters */
    struct long_parts p = split(&chars, (struct str){ t.p, t.n }, 1000, 0);
    CHECK(p.n == 2 && p.v[0].n < 700);
    long_parts_free(&p);
    p = split(&chars, (struct str){ t.p, t.n }, 1100, 0);
    CHECK(p.n == 1);
    long_parts_free(&p);
    /* overlap: the last lines once more */
    p = split(&chars, (struct str){ t.p, t.n }, 200, 25);
    for (size_t i = 1; i < p.n; i++)
        CHECK(p.v[i].at + 20 == p.v[i - 1].at + p.v[i - 1].n);
    long_parts_free(&p);
    text_free(&t);
    /* white space in masses is not a document of its own, and takes no quadratic time */
    t = repeated(" ", 400000);
    CHECK(text_add(&t, "a.\n", 3, NULL) == OK);
    for (size_t i = 0; i < 300; i++)
        CHECK(text_add(&t, "word \n", 6, NULL) == OK);
    struct text wide = repeated("\n \t", 100000);
    CHECK(text_add(&t, wide.p, wide.n, NULL) == OK && text_add(&t, "end", 3, NULL) == OK);
    p = split(&chars, (struct str){ t.p, t.n }, 300, 32);
    for (size_t i = 0; i < p.n; i++)
        CHECK(p.v[i].n_tokens > 0);
    long_parts_free(&p);
    text_free(&wide);
    text_free(&t);
    p = split(&chars, STR(""), 64, 0);
    CHECK(p.n == 0);
    long_parts_free(&p);
    p = split(&chars, STR(" \n"), 64, 0);
    CHECK(p.n == 1);
    long_parts_free(&p);
}

/* Texts of any kind of character, with any budget. */
static struct text random_text(unsigned long *seed, size_t n)
{
    static const char *const piece[] = { "a", "B9", " ", "\n", "\n\n", "\r\n", ". ", "。", "語", "か", "😀", "\xc3\xa9", "、", "」", "   ", "\xe3\x80\x80", "12" };
    struct text t = { 0 };
    unsigned flavour = (unsigned)(*seed >> 50);
    CHECK(text_add(&t, "", 0, NULL) == OK);
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
        unsigned x = (unsigned)(*seed >> 40);
        const char *p = piece[flavour & 1u << (x & 3) ? x / 4 % COUNT_OF(piece) : (flavour + x / 64 % 2) % COUNT_OF(piece)];
        CHECK(text_add(&t, p, strlen(p), NULL) == OK);
    }
    return t;
}

static void any_text(void)
{
    unsigned long seed = test_seed(5);
    for (int round = 0; round < 600; round++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        struct text t = random_text(&seed, seed >> 52);
        struct str d = { t.p, t.n };
        const struct long_count *c = counts[round % 3];
        size_t budget = LONG_MIN_BUDGET + (seed >> 33) % 300, n, m;
        struct long_parts p = split(c, d, budget, (size_t)round % 5 * budget / 16);
        long_parts_free(&p);

        struct text out = { 0 };
        struct long_ends ends;
        CHECK(text_add(&out, "before", 6, NULL) == OK);
        CHECK(c->count(NULL, d, &n, NULL) == OK);
        if (n > budget && (c != &odd || budget > 160)) { /* the marker alone counts 80 there */
            CHECK(long_head_tail(c, d, budget, &out, &ends, NULL) == OK);
            CHECK(c->count(NULL, (struct str){ out.p + 6, out.n - 6 }, &m, NULL) == OK && m <= budget);
            CHECK(utf8_invalid_at(out.p, out.n) == out.n && memcmp(out.p, "before", 6) == 0);
            CHECK(ends.n_head + ends.n_tail + ends.n_left_out == n || ends.n_left_out == 0 || c == &odd);
            CHECK(strstr(out.p, "\n\n[... ") && strstr(out.p, " tokens left out ...]\n\n"));
        }
        text_free(&out);
        text_free(&t);
    }
}

static void head_tail(void)
{
    struct text t = { 0 }, out = { 0 };
    struct long_ends ends;
    char line[32];
    for (int i = 0; i < 1000; i++)
        CHECK(text_add(&t, line, (size_t)snprintf(line, sizeof line, "Line %03d.\n", i), NULL) == OK);
    CHECK(long_head_tail(&chars, (struct str){ t.p, t.n }, 240, &out, &ends, NULL) == OK);
    /* 240 less the marker: two halves of 101, the largest number of whole lines in each */
    CHECK(strncmp(out.p, "Line 000.\n", 10) == 0 && strstr(out.p, "Line 009.\n\n[... 9,8") && strcmp(out.p + out.n - 10, "Line 999.\n") == 0);
    CHECK(strstr(out.p, "left out ...]\n\nLine 990.\n"));
    CHECK(ends.n_head == 99 && ends.n_tail == 99 && ends.n_left_out == 9999 - 198);
    text_free(&out);
    text_free(&t);
}

/* ---- rounds ---- */

struct answers {
    const char *text; /* what every part is answered with; NULL: the part itself */
    size_t n, stop_at;
    size_t most_predict;
    bool fails;
    char said[4096];
};
static status answer(void *ctx, struct str doc, size_t n_predict, struct long_reply *r, struct err *e)
{
    struct answers *a = ctx;
    size_t n;
    CHECK(count_chars(NULL, doc, &n, NULL) == OK && n <= 200 && n > 0);
    a->n++;
    a->most_predict = MAX(a->most_predict, n_predict);
    r->stopped = a->n == a->stop_at;
    r->n_generated = 7;
    if (a->fails)
        return fail(e, ERR_DEVICE, "broken");
    return a->text ? text_add(&r->text, a->text, strlen(a->text), e) : text_add(&r->text, doc.p, doc.n, e);
}
static void say(void *ctx, const char *line)
{
    struct answers *a = ctx;
    size_t n = strlen(a->said);
    snprintf(a->said + n, sizeof a->said - n, "%s\n", line);
}

static status reduce(struct answers *a, struct str doc, struct text *out, struct long_parts *parts, bool *stopped, struct err *e)
{
    struct long_job j = { .name = "F", .count = chars, .budget = 200, .n_ctx = 256, .ctx_given = true, .n_predict = 1000, .answer = answer, .answer_ctx = a, .say = say, .say_ctx = a };
    return long_reduce(&j, doc, out, parts, stopped, e);
}

static void rounds(void)
{
    struct err e;
    bool stopped;
    size_t n;
    static const char *const pieces[] = { "A paragraph of a text.\n\n", "x", "語" };
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        struct text t = repeated(pieces[i], i ? 5000 : 200), out = { 0 };
        struct str d = { t.p, t.n };
        struct long_parts parts = { 0 };
        /* short answers: one round */
        struct answers a = { .text = " Short. \n" };
        CHECK(reduce(&a, d, &out, &parts, &stopped, &e) == OK && !stopped);
        CHECK(a.n == parts.n && parts.v[0].level == 1 && parts.v[0].n_generated == 7);
        CHECK(strncmp(out.p, "Short.\n\nShort.", 14) == 0);
        CHECK(strncmp(a.said, "hayate: F: ", 11) == 0 && strstr(a.said, " tokens, -c 256: ") && strstr(a.said, " parts of at most 200, then one summary of them\n"));
        CHECK(strstr(a.said, "\nhayate: F: part 1 of "));
        CHECK(a.most_predict <= 50);
        text_free(&out);
        long_parts_free(&parts);
        /* answers as long as the parts: cut, many rounds, and an end */
        a = (struct answers){ .text = NULL };
        CHECK(reduce(&a, d, &out, &parts, &stopped, &e) == OK && !stopped);
        CHECK(count_chars(NULL, (struct str){ out.p, out.n }, &n, NULL) == OK && n <= 200 && n > 0);
        CHECK(utf8_invalid_at(out.p, out.n) == out.n);
        CHECK(a.n == parts.n && parts.v[parts.n - 1].level >= 2 && parts.v[parts.n - 1].level < 12);
        CHECK(strstr(a.said, "F: summaries of ") || strlen(a.said) > 3000);
        text_free(&out);
        long_parts_free(&parts);
        /* nothing to summarise, an interruption, a failure */
        a = (struct answers){ .text = " \n" };
        CHECK(reduce(&a, d, &out, &parts, &stopped, &e) == ERR_INPUT && strstr(e.msg, "F: none of its "));
        text_free(&out);
        long_parts_free(&parts);
        a = (struct answers){ .text = "x", .stop_at = 3 };
        CHECK(reduce(&a, d, &out, &parts, &stopped, &e) == OK && stopped && a.n == 3 && !out.n);
        text_free(&out);
        long_parts_free(&parts);
        a = (struct answers){ .fails = true };
        CHECK(reduce(&a, d, &out, &parts, &stopped, &e) == ERR_DEVICE && a.n == 1);
        text_free(&out);
        long_parts_free(&parts);
        text_free(&t);
    }
    /* what fits is left alone */
    struct answers a = { .text = "x" };
    struct text out = { 0 };
    struct long_parts parts = { 0 };
    CHECK(reduce(&a, STR("A short text."), &out, &parts, &stopped, &e) == OK && a.n == 0 && parts.n == 0 && strcmp(out.p, "A short text.") == 0);
    text_free(&out);
    long_parts_free(&parts);
}

/* A count that fails at any time leaves nothing behind. */
static void failing(void)
{
    struct text t = repeated("A sentence. ", 300);
    for (size_t k = 0; k < 60; k++) {
        size_t left = k;
        struct long_count c = { count_fails, &left };
        struct long_parts p = { 0 };
        struct text out = { 0 };
        struct long_ends ends;
        struct err e;
        status s = long_split(&c, (struct str){ t.p, t.n }, 400, 64, &p, &e);
        CHECK(s == OK || s == ERR_NOMEM);
        left = k;
        s = long_head_tail(&c, (struct str){ t.p, t.n }, 400, &out, &ends, &e);
        CHECK(s == OK || s == ERR_NOMEM);
        long_parts_free(&p);
        text_free(&out);
    }
    text_free(&t);
}

static void numbers(void)
{
    char b[32];
    CHECK(strcmp(long_number(b, 0), "0") == 0 && strcmp(long_number(b, 999), "999") == 0 && strcmp(long_number(b, 1000), "1,000") == 0);
    CHECK(strcmp(long_number(b, SIZE_MAX), "18,446,744,073,709,551,615") == 0);
}

int main(void)
{
    places();
    lengths();
    any_text();
    head_tail();
    rounds();
    failing();
    numbers();
    return TEST_END();
}
