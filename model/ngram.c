/* ngram.c - token window, hash and rows of the n-gram table. */
#include "model/ngram.h"
#include "model/console.h"

#include <sys/mman.h>
#include <unistd.h>

void ngram_window(const struct shape *s, const int32_t *recent, int32_t *id)
{
    id[0] = recent[0];
    bool cut = false;
    for (uint32_t k = 1; k < s->ple_ngram; k++) {
        cut = cut || recent[k] == s->ple_eos;
        id[k] = cut ? s->ple_eos : recent[k];
    }
}

/* Heads come in groups of ple_head_per_ngram: bigrams first, then trigrams, ... */
void ngram_rows(const struct shape *s, const int32_t *id, uint64_t *rows)
{
    uint64_t hash = (uint64_t)(uint32_t)id[0] * s->ple_mul[0];
    for (uint32_t n = 2, h = 0; n <= s->ple_ngram; n++) {
        hash ^= (uint64_t)(uint32_t)id[n - 1] * s->ple_mul[n - 1];
        for (uint32_t i = 0; i < s->ple_head_per_ngram; i++, h++)
            rows[h] = hash % s->ple_size[h];
    }
}

/* Where the rows of position t are: at[ple_head] */
static void find_rows(const struct shape *s, const struct ple_weights *w, const int32_t *past, const int32_t *ids, size_t t, const uint8_t **at)
{
    int32_t recent[MAX_NGRAM] = { 0 }, id[MAX_NGRAM] = { 0 };
    uint64_t rows[MAX_PLE_HEADS];
    for (uint32_t k = 0; k < s->ple_ngram; k++)
        recent[k] = t >= k ? ids[t - k] : past[k - t - 1];
    ngram_window(s, recent, id);
    ngram_rows(s, id, rows);
    for (uint32_t h = 0; h < s->ple_head; h++)
        at[h] = AT(const uint8_t, w->table[h].data) + rows[h] * w->table[h].row_bytes;
}

/* The whole pages around n bytes, or within them */
static void advise(const uint8_t *from, size_t n, size_t page, bool within, int advice)
{
    uintptr_t first = (uintptr_t)from, end = first + n;
    first = within ? size_up(first, page) : first / page * page;
    end = within ? end / page * page : size_up(end, page);
    if (first < end)
        madvise((void *)first, end - first, advice);
}

void ngram_advise(const struct shape *s, const struct ple_weights *w)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t h = 0; h < s->ple_head; h++)
        advise(AT(const uint8_t, w->table[h].data), s->ple_size[h] * w->table[h].row_bytes, page, true, MADV_RANDOM);
}

/* Asks for the pages of all rows, so that a disk has many reads at a time instead of one */
static void ask(const struct shape *s, const struct ple_weights *w, const int32_t *past, const int32_t *ids, size_t n)
{
    const uint8_t *at[MAX_PLE_HEADS];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t t = 0; t < n; t++) {
        find_rows(s, w, past, ids, t, at);
        for (uint32_t h = 0; h < s->ple_head; h++)
            advise(at[h], w->table[h].row_bytes, page, false, MADV_WILLNEED);
    }
}

static void prefetch(const struct shape *s, const struct ple_weights *w, const uint8_t **row)
{
    for (uint32_t h = 0; h < s->ple_head; h++)
        for (size_t line = 0; line < w->table[h].row_bytes; line += 64)
            __builtin_prefetch(row[h] + line);
}

void ngram_gather(struct ngram_reader *r, const struct shape *s, const struct ple_weights *w, const int32_t *past, const int32_t *ids, size_t n, float *out)
{
    enum { AHEAD = 4 };           /* positions whose rows are on their way from memory */
    const double slow_row = 3e-6; /* a row from memory takes a tenth of that, a page from a fast disk twenty times */
    const uint8_t *at[AHEAD][MAX_PLE_HEADS];
    double start = console_now();
    if (!r->at_hand)
        ask(s, w, past, ids, n);
    for (size_t t = 0; t < n + AHEAD; t++) {
        const uint8_t **row = at[t % AHEAD];
        for (uint32_t h = 0; t >= AHEAD && h < s->ple_head; h++, out += s->ple_row)
            quant_type(w->table[h].type)->decode(row[h], out, s->ple_row);
        if (t < n) {
            find_rows(s, w, past, ids, t, row);
            prefetch(s, w, row);
        }
    }
    double took = console_now() - start;
    r->at_hand = took < slow_row * (double)n * s->ple_head;
    r->rows += (uint64_t)n * s->ple_head;
    r->seconds += took;
}

void ngram_advance(const struct shape *s, int32_t *past, const int32_t *ids, size_t n)
{
    int32_t old[MAX_NGRAM];
    for (uint32_t k = 0; k + 1 < s->ple_ngram; k++)
        old[k] = past[k];
    for (uint32_t k = 0; k + 1 < s->ple_ngram; k++)
        past[k] = n > k ? ids[n - 1 - k] : old[k - n];
}
