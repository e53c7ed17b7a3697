/* lookup.c - see lookup.h. */
#include "model/lookup.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t gram[2] = { 2, 4 };

/* At most half full, for as many entries as there are ids; a collision only costs a guess */
static size_t table_size(size_t n_max)
{
    size_t n = 1024;
    while (n < 2 * n_max && n < (size_t)1 << 21)
        n *= 2;
    return n;
}

size_t lookup_bytes(size_t n_max) { return n_max * sizeof(int32_t) + COUNT_OF(gram) * table_size(n_max) * sizeof(uint32_t); }

status lookup_open(struct lookup *l, size_t n_max, struct err *e)
{
    *l = (struct lookup){ .cap = n_max, .mask = (uint32_t)(table_size(n_max) - 1) };
    l->ids = malloc(n_max * sizeof *l->ids);
    for (size_t i = 0; i < COUNT_OF(gram); i++)
        l->last[i] = malloc(table_size(n_max) * sizeof *l->last[i]);
    if (l->ids && l->last[0] && l->last[1]) {
        lookup_reset(l);
        return OK;
    }
    lookup_close(l);
    return fail(e, ERR_NOMEM, "drafts: a timeline of %zu ids", n_max);
}

void lookup_close(struct lookup *l)
{
    free(l->ids);
    free(l->last[0]);
    free(l->last[1]);
    *l = (struct lookup){ 0 };
}

void lookup_reset(struct lookup *l)
{
    l->n = l->follows = 0;
    for (size_t i = 0; i < COUNT_OF(gram); i++)
        memset(l->last[i], 0, ((size_t)l->mask + 1) * sizeof *l->last[i]);
}

/* Where the n ids before `end` have their entry */
static uint32_t *entry(const struct lookup *l, size_t which, size_t end)
{
    uint64_t h = 0;
    for (size_t i = end - gram[which]; i < end; i++)
        h = (h ^ (uint32_t)l->ids[i]) * 0x9e3779b97f4a7c15u;
    return &l->last[which][(h >> 32 ^ h >> 11) & l->mask];
}

void lookup_push(struct lookup *l, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n && l->n < l->cap; i++) {
        for (size_t g = 0; g < COUNT_OF(gram); g++)
            if (l->n >= gram[g])
                *entry(l, g, l->n) = (uint32_t)l->n + 1; /* now it is known what follows */
        if (l->follows)
            l->follows++;
        l->ids[l->n++] = ids[i];
    }
}

/* How many ids before `at` are those at the end of the timeline */
static uint32_t match(const struct lookup *l, size_t at)
{
    uint32_t n = 0;
    while (n < LOOKUP_LONGEST && n < at && l->ids[at - 1 - n] == l->ids[l->n - 1 - n])
        n++;
    return n;
}

/* The place of the longest match with the last ids, of more than `longest`, that the tables know; 0: none */
static size_t find(const struct lookup *l, size_t best, uint32_t *longest)
{
    for (size_t g = COUNT_OF(gram); g-- > 0;) {
        size_t at = l->n >= gram[g] ? *entry(l, g, l->n) : 0;
        if (at && match(l, at - 1) > *longest) {
            best = at - 1;
            *longest = match(l, best);
        }
    }
    return best;
}

static uint32_t take(const struct lookup *l, size_t from, int32_t *out, uint32_t n_max)
{
    for (uint32_t i = 0; from && i < n_max; i++) /* beyond the end a period repeats itself */
        out[i] = from + i < l->n ? l->ids[from + i] : out[from + i - l->n];
    return from ? n_max : 0;
}

uint32_t lookup_guess(struct lookup *l, int32_t *out, uint32_t n_max, uint32_t *n_match)
{
    size_t best = 0;
    uint32_t longest = 1; /* one id alone says too little */
    if (l->follows && match(l, l->follows) > longest) { /* the text that is being quoted goes on */
        best = l->follows;
        longest = match(l, best);
    }
    l->follows = find(l, best, &longest);
    *n_match = longest;
    return take(l, l->follows, out, n_max);
}

uint32_t lookup_after(struct lookup *l, const int32_t *ids, uint32_t n, int32_t *out, uint32_t n_max, uint32_t *n_match)
{
    size_t was = l->n;
    *n_match = 1;
    if (n > l->cap - l->n)
        return 0;
    memcpy(l->ids + l->n, ids, n * sizeof *ids);
    l->n += n;
    n_max = take(l, find(l, 0, n_match), out, n_max);
    l->n = was;
    return n_max;
}
