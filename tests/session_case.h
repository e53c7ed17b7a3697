/* session_case.h - what several tests of sessions need. */
#ifndef HAYATE_TESTS_SESSION_CASE_H
#define HAYATE_TESTS_SESSION_CASE_H

#include "model/model.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* Whether two sessions stand in the same bits: recurrent state, windows, n-gram history. */
static inline bool same_marks(session *a, session *b)
{
    struct err e;
    size_t n = session_mark_bytes(a);
    void *x = calloc(1, n), *y = calloc(1, n);
    MUST(session_mark(a, x, &e));
    MUST(session_mark(b, y, &e));
    bool same = memcmp(x, y, n) == 0;
    free(x), free(y);
    return same;
}

/* The ids of the sample page, behind each other until there are more than n; ids stays short of that, and a check fails, where the page cannot be read. */
static inline void sample_page(model *m, struct ids *ids, size_t n)
{
    static char text[1 << 16];
    struct err e;
    FILE *f = fopen("tests/data/sample-page.txt", "rb");
    size_t bytes = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    while (ids->n <= n && bytes)
        MUST(tokenize(model_tokenizer(m), text, bytes, TOKENIZE_TEXT, ids, &e));
    CHECK(ids->n > n);
}

#endif
