/* ngram.c - token window, hash and rows of the n-gram table. */
#include "model/ngram.h"

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

void ngram_gather(const struct shape *s, const struct ple_weights *w, const int32_t *past, const int32_t *ids, size_t n, float *out)
{
    for (size_t t = 0; t < n; t++) {
        int32_t recent[MAX_NGRAM] = { 0 }, id[MAX_NGRAM] = { 0 };
        uint64_t rows[MAX_PLE_HEADS];
        for (uint32_t k = 0; k < s->ple_ngram; k++)
            recent[k] = t >= k ? ids[t - k] : past[k - t - 1];
        ngram_window(s, recent, id);
        ngram_rows(s, id, rows);
        for (uint32_t h = 0; h < s->ple_head; h++, out += s->ple_row) {
            const struct gpu_mat *m = &w->table[h];
            quant_type(m->type)->decode(AT(const uint8_t, m->data) + rows[h] * m->row_bytes, out, s->ple_row);
        }
    }
}

void ngram_advance(const struct shape *s, int32_t *past, const int32_t *ids, size_t n)
{
    int32_t old[MAX_NGRAM];
    for (uint32_t k = 0; k + 1 < s->ple_ngram; k++)
        old[k] = past[k];
    for (uint32_t k = 0; k + 1 < s->ple_ngram; k++)
        past[k] = n > k ? ids[n - 1 - k] : old[k - n];
}
