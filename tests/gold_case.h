/* gold_case.h - the token ids of a golden set (tests/golden/README.md), for the programs that write further values for it: PROGRAM MODEL SET.CASE.gold */
#ifndef HAYATE_TESTS_GOLD_CASE_H
#define HAYATE_TESTS_GOLD_CASE_H

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gold_case {
    int32_t *ids;
    size_t n, n_vocab;
};

/* Of the command's second argument, with a model of the first and a session; ends the program with a line when there is none of at least `least` ids. */
static inline struct gold_case open_case(int argc, char **argv, size_t least, struct session_params p, model **m, session **s)
{
    struct gold_case c = { 0 };
    struct err e = { 0 };
    uint32_t head[3];
    FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!f || fseek(f, 6, SEEK_SET) || fread(head, 4, 3, f) != 3 || head[0] < least || head[0] > 1 << 24) {
        fprintf(stderr, "%s MODEL SET.CASE.gold, a file of at least %zu ids\n", argv[0], least);
        exit(2);
    }
    c.n = head[0], c.n_vocab = head[1];
    c.ids = calloc(c.n, sizeof *c.ids);
    if (!c.ids || fread(c.ids, sizeof *c.ids, c.n, f) != c.n) {
        fprintf(stderr, "%s: shorter than its head says, %zu ids\n", argv[2], c.n);
        exit(1);
    }
    fclose(f);
    p.n_ctx = c.n;
    if (model_open(m, argv[1], &(struct model_params){ .backend = BACKEND_CPU }, &e) != OK || session_open(s, *m, &p, 0, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        exit(1);
    }
    return c;
}

#endif
