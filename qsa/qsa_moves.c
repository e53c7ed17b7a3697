/* qsa_moves.c - what the sparse-attention rows must move; see gpu/moves.h. All of it follows from positions: a row at p sees (p + 1) / 4 complete
 * blocks, and attends to the budget of them and to the open block. */
#include "qsa/qsa.h"

static uint64_t blocks_seen(const struct gpu_at *at, uint32_t row) { return ((uint64_t)at->pos + row + 1) / QSA_BLOCK; }
static uint64_t keys_of(const struct qsa_block *b, const struct gpu_at *at, uint32_t row)
{
    uint64_t blocks = blocks_seen(at, row);
    return QSA_BLOCK * (b->budget ? MIN(blocks, b->budget) : blocks) + (at->pos + row + 1) % QSA_BLOCK;
}
/* Blocks that are scored: a row that may choose all of them needs no scores */
static uint64_t blocks_scored(const struct qsa_block *b, const struct gpu_at *at, uint32_t row)
{
    uint64_t blocks = blocks_seen(at, row);
    return blocks > b->budget ? blocks : 0;
}
/* K and V of n positions, all heads */
static uint64_t kv_bytes(const struct qsa_block *b, uint64_t n) { return 2 * n * b->n_kv * qsa_tile_bytes(b->dim, b->kv_type) / QSA_BLOCK; }

/* Rows of a call that are counted at once: of those that are apart one, at its own position */
static uint32_t rows_of(uint32_t n_row, gpu_addr apart) { return apart ? 1 : n_row; }

static uint64_t n_rows_few(const struct qsa_prep_args *a, const struct gpu_at *at) { return a->count ? at->n_tok : 0; }
/* The gate halves of qg are left alone. The gain of the pooled keys is counted whether this step completes a block or not. */
void qsa_prep_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_prep_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    uint64_t n = at->n_tok, q = (uint64_t)b->n_head * b->dim, kv = (uint64_t)b->n_kv * b->dim;
    uint64_t iq = b->budget ? (uint64_t)b->idx_head * b->idx_dim : 0;
    m->vectors += moves_words(2 * (uint64_t)b->dim + (b->budget ? b->idx_dim : 0));
    m->state += kv_bytes(b, n);
    m->activations += moves_words(n * (2 * q + 2 * kv + 2 * iq + b->rope_dim));
    m->activations += moves_words(n_rows_few(a, at) * QSA_COUNTS);
    m->flops += n * (4 * (q + kv + iq) + 3 * (uint64_t)b->rope_dim * (b->n_head + b->n_kv + (b->budget ? b->idx_head : 0)));
    if (!b->budget)
        return;
    uint64_t made = blocks_seen(at, at->n_tok - 1) - at->pos / QSA_BLOCK;
    m->vectors += moves_words(b->idx_dim);
    m->state += moves_words(2 * 3 * (uint64_t)b->idx_dim + made * b->idx_dim);
    m->activations += moves_words((uint64_t)at->n_tok * b->idx_dim);
    m->flops += made * b->idx_dim * (QSA_BLOCK + 6);
}

/* The pooled keys are read once for all rows of the call */
void qsa_score_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_score_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    uint64_t most = 0, sum = 0, rows = 0;
    for (uint32_t r = a->row0; r < a->row0 + rows_of(a->n_row, a->apart); r++) {
        uint64_t n = blocks_scored(b, at, r);
        most = MAX(most, n);
        sum += n;
        rows += n > 0;
    }
    m->state += moves_words(most * b->idx_dim);
    m->activations += moves_words(rows * b->idx_head * b->idx_dim + sum);
    m->flops += sum * b->idx_head * (2 * (uint64_t)b->idx_dim + 2);
}

void qsa_select_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_select_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    for (uint32_t r = a->row0; r < a->row0 + a->n_row; r++) {
        uint64_t n = blocks_scored(b, at, r);
        m->activations += moves_words(n + 1 + (n ? b->budget : 0));
        m->flops += n;
    }
}

/* Keys once, the counters of a row for each of its spans, and what the spans tell each other */
void qsa_count_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_span_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    for (uint32_t r = 0; r < rows_of(a->n_row, a->apart); r++) {
        uint64_t n = blocks_scored(b, at, r), spans = (n + QSA_SPAN - 1) / QSA_SPAN;
        m->activations += moves_words(n + spans * (QSA_FIRST + QSA_SPAN_COUNTS));
        m->flops += n;
    }
}

/* The same, keys of one more span for those that share two digits with the cut, and the list */
void qsa_take_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_span_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    for (uint32_t r = 0; r < rows_of(a->n_row, a->apart); r++) {
        uint64_t n = blocks_scored(b, at, r), spans = (n + QSA_SPAN - 1) / QSA_SPAN;
        m->activations += moves_words(n + spans * (QSA_SECOND + 2 * spans) + MIN(n, spans * QSA_SPAN) + 1 + (n ? b->budget : 0));
        m->flops += n;
    }
}

/* Rows row0 .. of K and V: each position at most once, however many rows choose it */
static void attend(const struct qsa_block *b, const struct gpu_at *at, uint32_t row0, uint32_t n_row, struct gpu_moves *m)
{
    uint64_t keys = 0, list = 0;
    for (uint32_t r = row0; r < row0 + n_row; r++) {
        keys += keys_of(b, at, r);
        list += 1 + (blocks_scored(b, at, r) && b->budget ? b->budget : 0);
    }
    m->state += kv_bytes(b, MIN(keys, (uint64_t)at->pos + row0 + n_row));
    m->activations += moves_words(list + (uint64_t)n_row * b->n_head * b->dim);
    m->flops += 4 * keys * b->n_head * b->dim + 3 * keys * b->n_head;
}

void qsa_attend_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    attend(b, at, 0, at->n_tok, m);
    m->activations += 2 * moves_words((uint64_t)at->n_tok * b->n_head * b->dim); /* gate and result */
}

/* The union of the rows of a call, as above: a group of rows may read a position that another one reads too, but need not */
void qsa_attend_union_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { qsa_attend_moves(args, at, m); }

/* Every position, chosen or not */
void qsa_attend_masked_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_masked_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    struct gpu_moves chosen = { 0 };
    uint64_t keys = (uint64_t)at->n_tok * at->pos + (uint64_t)at->n_tok * (at->n_tok + 1) / 2;
    qsa_attend_moves(&(struct qsa_attend_args){ .block = a->block }, at, &chosen);
    m->activations += chosen.activations;
    m->state += kv_bytes(b, (uint64_t)at->pos + at->n_tok);
    m->flops += 4 * keys * b->n_head * b->dim + 3 * keys * b->n_head;
}

void qsa_keep_raw_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_raw_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    m->activations += moves_words((uint64_t)at->n_tok * b->idx_dim);
    m->state += moves_words((uint64_t)at->n_tok * b->idx_dim);
}

/* Every complete block again: four raw keys in, a pooled one out, turned by its row of a table */
void qsa_repool_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_raw_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    uint64_t made = blocks_seen(at, at->n_tok - 1);
    m->vectors += moves_words(b->idx_dim);
    m->state += moves_words(made * (QSA_BLOCK + 1) * b->idx_dim);
    m->activations += moves_words(made * b->rope_dim);
    m->flops += made * (b->idx_dim * (QSA_BLOCK + 6) + 3 * (b->rope_dim / 2));
}

/* Words of the unions: of each group at least what its last row sees, and the number */
static uint64_t union_words(const struct qsa_block *b, const struct gpu_at *at)
{
    uint64_t words = 0;
    for (uint32_t t0 = 0; t0 < at->n_tok && b->budget; t0 += QSA_GROUP_ROWS) {
        uint32_t last = MIN(t0 + QSA_GROUP_ROWS, at->n_tok) - 1;
        words += 1 + (keys_of(b, at, last) + QSA_BLOCK - 1) / QSA_BLOCK;
    }
    return words;
}

void qsa_group_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_group_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    uint64_t list = 0;
    for (uint32_t r = 0; r < at->n_tok; r++)
        list += blocks_scored(b, at, r) ? b->budget : 0; /* of the others it is known what they see */
    m->activations += moves_words(list + union_words(b, at));
}

void qsa_attend_group_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_group_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    struct gpu_moves alone = { 0 };
    qsa_attend_moves(&(struct qsa_attend_args){ .block = a->block }, at, &alone);
    m->state += alone.state;
    m->flops += alone.flops;
    m->activations += moves_words(union_words(b, at) + 3 * (uint64_t)at->n_tok * b->n_head * b->dim); /* query, gate and result */
}

/* Floats of the parts that the rows of a call have: o, m and l of every head */
static uint64_t part_floats(const struct qsa_part_args *a, const struct qsa_block *b, const struct gpu_at *at)
{
    uint64_t parts = 0;
    for (uint32_t r = a->row0; r < a->row0 + rows_of(a->n_row, a->apart); r++) {
        uint64_t blocks = blocks_seen(at, r);
        blocks = b->budget ? MIN(blocks, b->budget) : blocks;
        parts += MAX((uint64_t)1, (blocks + a->part_blocks - 1) / a->part_blocks);
    }
    return parts * b->n_head * (b->dim + 2);
}

void qsa_attend_part_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_part_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    attend(b, at, a->row0, rows_of(a->n_row, a->apart), m);
    m->activations += moves_words(part_floats(a, b, at));
}

void qsa_attend_merge_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct qsa_part_args *a = args;
    const struct qsa_block *b = gpu_at_block(at, a->block);
    uint64_t parts = part_floats(a, b, at);
    m->activations += moves_words(parts + 2 * (uint64_t)rows_of(a->n_row, a->apart) * b->n_head * b->dim);
    m->flops += 2 * parts;
}
