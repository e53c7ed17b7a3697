/* ngram.h - the hashed n-gram table: token window, hash, rows. Mathematics: spec page "model" sections 2.2 to 2.4.
 * Rows are read on demand from the mapping; nothing of the table is read before.
 *
 * The table of the released model is 29 GB, a row 90 bytes, and hashes know no neighbours: a prompt of 2,048 ids wants 32,768 pages from anywhere. So the
 * kernel is told not to read around a page that is missing, and a reader whose last rows were slow asks for all pages of a step before it waits for the first. */
#ifndef HAYATE_MODEL_NGRAM_H
#define HAYATE_MODEL_NGRAM_H

#include "model/weights.h"

/* Row of every head's own table for the window id[0] (current), id[1] (previous), ...: MAX_NGRAM entries, of which the first
 * ple_ngram count. rows[ple_head]. The arithmetic is unsigned 64-bit. */
void ngram_rows(const struct shape *s, const int32_t *id, uint64_t *rows);

/* The window of a position: recent[0] is the current id, recent[k] the one k before (history before the sequence start counts as
 * the table's end-of-text). An end-of-text strictly before the current position hides everything at and before it. */
void ngram_window(const struct shape *s, const int32_t *recent, int32_t *id);

/* Who reads, and what it cost so far. Zeros to begin with. */
struct ngram_reader {
    uint64_t rows;
    double seconds;
    bool at_hand; /* the last rows were in memory: asking for the next ones first would only cost */
};

/* Tells the kernel that rows are read from anywhere. Advice: nothing depends on it. */
void ngram_advise(const struct shape *s, const struct ple_weights *w);

/* out[t] = the concatenated rows of positions t = 0 .. n - 1, [n, ple_head * ple_row] f32. past: the ple_ngram - 1 ids before ids[0],
 * most recent first. */
void ngram_gather(struct ngram_reader *r, const struct shape *s, const struct ple_weights *w, const int32_t *past, const int32_t *ids, size_t n, float *out);
/* past after ids[n] have been seen */
void ngram_advance(const struct shape *s, int32_t *past, const int32_t *ids, size_t n);

#endif
