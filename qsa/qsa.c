/* qsa.c - the layer as a list of calls, cache sizes, and its table of rows. */
#include "qsa/qsa.h"

#include "gpu/gpu_kernels.h"

#include <assert.h>

#define KERNEL KERNEL_CHECK
#include "qsa/qsa_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[QSA_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "qsa/qsa_kernels.def"
#undef KERNEL
};

FAST_DECLARE(qsa_fast);
const struct gpu_kernel_table qsa_kernels = { rows, FAST_TABLES(qsa_fast), QSA_K_COUNT };

size_t qsa_kv_bytes(const struct qsa_dims *d, size_t n_ctx, uint32_t kv_type)
{
    size_t bytes = 2 * (size_t)d->n_kv * qsa_tile_bytes(d->dim, kv_type);
    return size_mul(bytes, qsa_cap_blocks(n_ctx), &bytes) ? bytes : SIZE_MAX;
}

size_t qsa_pooled_bytes(const struct qsa_dims *d, size_t n_ctx)
{
    return (size_t)qsa_cap_blocks(n_ctx) * d->idx_dim * sizeof(float);
}

size_t qsa_raw_bytes(const struct qsa_dims *d, size_t n_ctx)
{
    return d->form.keep_raw ? QSA_BLOCK * qsa_pooled_bytes(d, n_ctx) : 0;
}

/* A K and a V tile; for each head of a group of rows its query twice over, its output, four weights, maximum and sum. */
size_t qsa_scratch_floats(const struct qsa_dims *d)
{
    size_t heads = QSA_UNION_ROWS * (size_t)(d->n_head / d->n_kv);
    return 2 * QSA_BLOCK * (size_t)d->dim + heads * (3 * (size_t)d->dim + QSA_BLOCK + 2);
}

bool qsa_device_fits(const struct qsa_dims *d)
{
    return d->dim <= QSA_DIM_MAX && d->dim % 8 == 0 && d->idx_dim <= QSA_IDX_DIM_MAX && d->idx_dim % 8 == 0 && d->idx_head <= QSA_IDX_HEAD_MAX &&
           d->budget <= QSA_BUDGET_MAX && d->rope_dim % 2 == 0 && d->rope_dim <= d->dim && (!d->budget || d->rope_dim <= d->idx_dim);
}

/* How many rows attend in parts at once: all of a small batch, unless the lists are long (dense layers). The scratch for parts is bounded so. */
static uint32_t part_rows(uint32_t n_part)
{
    enum { PARTS_AT_ONCE = 512 };
    return MIN((uint32_t)QSA_FEW, MAX(1u, PARTS_AT_ONCE / n_part));
}
static size_t parts_at_once(const struct qsa_dims *d, uint32_t cap_blocks, size_t n_tok)
{
    uint32_t sparse = qsa_parts(d->budget, cap_blocks), dense = d->any_dense ? qsa_parts(0, cap_blocks) : sparse; /* a model may have layers of both kinds */
    size_t of_one = MAX(dense * MIN(n_tok, (size_t)part_rows(dense)), sparse * MIN(n_tok, (size_t)part_rows(sparse)));
    return d->n_row > 1 ? MAX(of_one, (size_t)dense * d->n_row) : of_one; /* rows of several sequences attend all at once */
}

static uint32_t spans_of(uint32_t cap_blocks) { return (cap_blocks + QSA_SPAN - 1) / QSA_SPAN; }

void qsa_scratch_take(struct qsa_scratch *s, struct arena *a, const struct qsa_dims *d, size_t n_tok, uint32_t cap_blocks)
{
    s->qg = ADDR(arena_take(a, n_tok * 2 * d->n_head * d->dim, sizeof(float)));
    s->k = ADDR(arena_take(a, n_tok * d->n_kv * d->dim, sizeof(float)));
    s->v = ADDR(arena_take(a, n_tok * d->n_kv * d->dim, sizeof(float)));
    s->iq = ADDR(arena_take(a, n_tok * d->idx_head * d->idx_dim, sizeof(float)));
    s->ik = ADDR(arena_take(a, n_tok * d->idx_dim, sizeof(float)));
    /* The parts of the attention lie where the scores were, or the unions of lists: scores are dead once the lists are made. */
    size_t n_score = MIN(n_tok, (size_t)QSA_STRIP) * cap_blocks, n_ml = 2 * parts_at_once(d, cap_blocks, n_tok) * d->n_head;
    n_ml = size_up(n_ml, 16);
    size_t n_union = (n_tok + QSA_GROUP_ROWS - 1) / QSA_GROUP_ROWS * (1 + (size_t)QSA_UNION_MOST(d->budget));
    s->scores = s->part_ml = s->groups = ADDR(arena_take(a, MAX(n_union, MAX(n_score, n_ml + n_ml / 2 * d->dim)), sizeof(float)));
    s->part = s->part_ml + n_ml * sizeof(float);
    s->list = ADDR(arena_take(a, n_tok * (1 + (size_t)d->budget), sizeof(uint32_t)));
    s->mixed = ADDR(arena_take(a, n_tok * d->n_head * d->dim, sizeof(float)));
    size_t n_few = d->device && d->budget ? MIN(n_tok, (size_t)QSA_FEW) : 0;
    s->count = ADDR(arena_take(a, n_few * QSA_COUNTS, sizeof(uint32_t)));
    s->cut = ADDR(arena_take(a, n_few * 2, sizeof(uint32_t)));
    s->span = ADDR(arena_take(a, n_few * spans_of(cap_blocks) * QSA_SPAN_COUNTS, sizeof(uint32_t)));
}

/* Whether rows choose through spans; a context of no more blocks than the budget never drops one. */
static bool by_spans(const struct gpu_cmd *c, const struct qsa_block *b, uint32_t n_tok)
{
    return n_tok <= QSA_FEW && gpu_backend_of(c->gpu) != GPU_CPU && b->budget && b->cap_blocks > b->budget;
}

/* The lists of few rows on a device; see struct qsa_span_args. */
static void choose_by_spans(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok,
                            gpu_addr apart)
{
    struct qsa_span_args a = { .block = block, .step = step, .scores = s->scores, .list = s->list, .count = s->count, .cut = s->cut, .span = s->span,
                               .apart = apart, .n_row = n_tok, .n_span = spans_of(b->cap_blocks) };
    /* No more groups than live at once: a group hides the way to its next blocks behind the blocks before */
    uint32_t spans = (b->cap_blocks + QSA_SCORE_GROUP - 1) / QSA_SCORE_GROUP, span = QSA_SCORE_GROUP * ((spans + GPU_GROUPS_AT_ONCE - 1) / GPU_GROUPS_AT_ONCE);
    CALL(c, qsa_kernels, K_qsa_score_few, (b->cap_blocks + span - 1) / span * (apart ? n_tok : 1), struct qsa_score_args, .block = block, .step = step,
         .iq = s->iq, .scores = s->scores, .count = s->count, .apart = apart, .n_row = n_tok, .span = span);
    gpu_record(c, &qsa_kernels, K_qsa_count, &a, sizeof a, n_tok * a.n_span);
    gpu_record(c, &qsa_kernels, K_qsa_take, &a, sizeof a, n_tok * a.n_span);
}

static void choose(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok)
{
    for (uint32_t row0 = 0; row0 < n_tok; row0 += QSA_STRIP) {
        uint32_t n_row = MIN((uint32_t)QSA_STRIP, n_tok - row0);
        CALL(c, qsa_kernels, K_qsa_score, qsa_score_items(b->cap_blocks, n_row), struct qsa_score_args, .block = block,
             .step = step, .iq = s->iq, .scores = s->scores, .row0 = row0, .n_row = n_row, .span = QSA_SCORE_GROUP);
        CALL(c, qsa_kernels, K_qsa_select, n_row, struct qsa_select_args, .block = block, .step = step, .scores = s->scores, .list = s->list,
             .row0 = row0, .n_row = n_row);
    }
}

/* Few rows leave most of a device idle, so there the list of a row is shared out among groups, and the parts are merged. */
static void attend_parts(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok,
                         gpu_addr apart)
{
    uint32_t n_part = qsa_parts(b->budget, b->cap_blocks), at_once = apart ? n_tok : part_rows(n_part);
    for (uint32_t row0 = 0; row0 < n_tok; row0 += at_once) {
        uint32_t n_row = MIN(at_once, n_tok - row0);
        struct qsa_part_args a = { .block = block, .step = step, .qg = s->qg, .list = s->list, .o = s->part, .ml = s->part_ml, .out = s->mixed,
                                   .apart = apart, .row0 = row0, .n_row = n_row, .n_part = n_part, .part_blocks = qsa_part_blocks(b->budget) };
        gpu_record(c, &qsa_kernels, K_qsa_attend_part, &a, sizeof a, n_row * b->n_kv * n_part);
        gpu_record(c, &qsa_kernels, K_qsa_attend_merge, &a, sizeof a, n_row * b->n_head);
    }
}

/* Many rows on matrix units: neighbours read the union of their blocks once. */
static void attend_groups(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok)
{
    struct qsa_group_args a = { .block = block, .step = step, .qg = s->qg, .list = s->list, .groups = s->groups, .out = s->mixed };
    uint32_t n_group = (n_tok + QSA_GROUP_ROWS - 1) / QSA_GROUP_ROWS;
    if (b->budget)
        gpu_record(c, &qsa_kernels, K_qsa_group, &a, sizeof a, n_group);
    gpu_record(c, &qsa_kernels, K_qsa_attend_group, &a, sizeof a, n_group * b->n_kv);
}

/* When the form says so, all pooled keys again: of a sequence whose step has n_tok rows, or of n_tok sequences whose rows are apart. */
static void pool_again(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_form *form, gpu_addr block, gpu_addr step,
                       uint32_t n_tok, gpu_addr apart)
{
    struct qsa_raw_args raw = { .block = block, .step = step, .keys = gpu_block(c, &l->keys), .ik = s->ik, .apart = apart };
    uint32_t n_seq = apart ? n_tok : 1;
    if (form->keep_raw)
        gpu_record(c, &qsa_kernels, K_qsa_keep_raw, &raw, sizeof raw, n_tok);
    if (form->keep_raw && n_tok / n_seq > form->pooled_max_tokens)
        gpu_record(c, &qsa_kernels, K_qsa_repool, &raw, sizeof raw, n_seq * (uint32_t)size_up(l->block.cap_blocks, QSA_REPOOL_GRAIN));
}

/* The mask over the whole cache */
static void attend_all(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok, gpu_addr apart)
{
    CALL(c, qsa_kernels, K_qsa_attend_masked, n_tok * b->n_kv, struct qsa_masked_args, .block = block, .step = step, .qg = s->qg, .list = s->list,
         .out = s->mixed, .apart = apart);
}

static void attend(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, const struct qsa_form *form, gpu_addr block, gpu_addr step,
                   uint32_t n_tok)
{
    struct qsa_attend_args a = { .block = block, .step = step, .qg = s->qg, .list = s->list, .out = s->mixed };
    bool on_cpu = gpu_backend_of(c->gpu) == GPU_CPU;
    if (form->no_gather)
        attend_all(c, b, s, block, step, n_tok, 0);
    else if (n_tok <= QSA_FEW && !on_cpu)
        attend_parts(c, b, s, block, step, n_tok, 0);
    else if (c->matrix && n_tok > QSA_FEW && b->kv_type == QSA_KV_F16 && !form->no_union)
        attend_groups(c, b, s, block, step, n_tok);
    else if (n_tok > QSA_FEW && on_cpu && !form->no_union)
        gpu_record(c, &qsa_kernels, K_qsa_attend_union, &a, sizeof a, (n_tok + QSA_UNION_ROWS - 1) / QSA_UNION_ROWS * b->n_kv);
    else
        gpu_record(c, &qsa_kernels, K_qsa_attend, &a, sizeof a, n_tok * b->n_kv);
}

static void prep(struct gpu_cmd *c, const struct qsa_block *b, const struct qsa_scratch *s, gpu_addr block, gpu_addr step, uint32_t n_tok, gpu_addr count)
{
    CALL(c, qsa_kernels, K_qsa_prep, n_tok + (b->budget ? n_tok / QSA_BLOCK + 1 : 0), struct qsa_prep_args, .block = block, .step = step, .qg = s->qg,
         .k = s->k, .v = s->v, .iq = s->iq, .ik = s->ik, .count = count);
}

static void products_in(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_dims *d, gpu_addr u, uint32_t n_tok)
{
    c->part = "qsa.attend"; /* with all products of the layer, those of the indexer too: they share a call */
    gpu_matmul(c, l->in, l->block.budget ? 5 : 3, u, d->n_embd, n_tok);
}

/* What belongs to the sequence of the rows: all but the products */
static void own(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, uint32_t n_tok)
{
    const struct qsa_block *b = &l->block;
    gpu_addr block = gpu_block(c, b);
    c->part = "qsa.attend";
    bool spans = by_spans(c, b, n_tok);
    prep(c, b, s, block, step, n_tok, spans ? s->count : 0);
    c->part = "qsa.index";
    if (b->budget)
        pool_again(c, l, s, &d->form, block, step, n_tok, 0);
    if (spans)
        choose_by_spans(c, b, s, block, step, n_tok, 0);
    else if (b->budget && b->cap_blocks > b->budget) /* a smaller context never drops a block */
        choose(c, b, s, block, step, n_tok);
    c->part = "qsa.attend";
    attend(c, b, s, &d->form, block, step, n_tok);
}

void qsa_record(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, gpu_addr u,
                uint32_t n_tok)
{
    products_in(c, l, d, u, n_tok);
    own(c, l, s, d, step, n_tok);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_head * d->dim, n_tok);
}

void qsa_record_keys(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, gpu_addr step, gpu_addr u,
                     uint32_t n_tok)
{
    gpu_addr block = gpu_block(c, &l->block);
    gpu_matmul(c, l->in, l->block.budget ? 3 : 2, u, d->n_embd, n_tok);
    prep(c, &l->block, s, block, step, n_tok, 0);
}

/* What the rows from `row` on work in. On a device scores and parts stay where they are: runs come there one after the other. */
static struct qsa_scratch scratch_of_row(const struct qsa_scratch *s, const struct qsa_dims *d, const struct qsa_block *b, uint32_t row)
{
    uint64_t at = row * sizeof(float);
    struct qsa_scratch of = *s;
    of.qg += at * 2 * d->n_head * d->dim;
    of.k += at * d->n_kv * d->dim;
    of.v += at * d->n_kv * d->dim;
    of.iq += at * d->idx_head * d->idx_dim;
    of.ik += at * d->idx_dim;
    of.scores += d->device ? 0 : at * b->cap_blocks;
    of.list += at * (1 + (uint64_t)b->budget);
    of.mixed += at * d->n_head * d->dim;
    of.count += at * QSA_COUNTS;
    of.cut += at * 2;
    of.span += at * spans_of(b->cap_blocks) * QSA_SPAN_COUNTS;
    return of;
}

/* The same for rows that are apart, on a device. All scores are dead before the first part is written, as they are when the rows are of one sequence. */
static void own_apart(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_scratch *s, const struct qsa_dims *d, const struct qsa_apart *apart,
                      uint32_t n)
{
    const struct qsa_block *b = &l->block;
    gpu_addr block = gpu_block(c, b);
    bool spans = by_spans(c, b, n);
    c->row = GPU_EACH_ROW;
    c->part = "qsa.attend";
    CALL(c, qsa_kernels, K_qsa_prep, b->budget ? 2 * n : n, struct qsa_prep_args, .block = block, .step = apart->step, .qg = s->qg, .k = s->k, .v = s->v,
         .iq = s->iq, .ik = s->ik, .count = spans ? s->count : 0, .apart = apart->step, .stay = apart->runs != 0);
    if (apart->runs && b->budget) {
        gpu_keep(c, apart->runs, s->ik, apart->next, d->idx_dim, n);
        gpu_record_parallel(c);
    }
    c->part = "qsa.index";
    if (b->budget)
        pool_again(c, l, s, &d->form, block, apart->step, n, apart->step);
    if (spans)
        choose_by_spans(c, b, s, block, apart->step, n, apart->step);
    c->part = "qsa.attend";
    (d->form.no_gather ? attend_all : attend_parts)(c, b, s, block, apart->step, n, apart->step);
    c->row = 0;
}

void qsa_record_apart(struct gpu_cmd *c, const struct qsa_layer *l, uint32_t n, const struct qsa_scratch *s, const struct qsa_dims *d,
                      const struct qsa_apart *apart, gpu_addr u)
{
    assert(n <= d->n_row);
    products_in(c, l, d, u, n);
    own_apart(c, l, s, d, apart, n);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_head * d->dim, n);
}

static void keep_index_keys(struct gpu_cmd *c, gpu_addr from, gpu_addr to, const struct qsa_dims *d, uint32_t n)
{
    struct copy_args a = { .from = { from }, .to = { to }, .n = { (uint32_t)((n * (uint64_t)d->idx_dim * sizeof(float) + 15) / 16) } };
    gpu_record(c, &gpu_kernels, K_copy, &a, sizeof a, (uint32_t)size_up(a.n[0], COPY_GRAIN));
}

/* Rows of different runs meet nowhere, so where each run has scratch of its own they go side by side, if they take the same calls. */
void qsa_record_runs(struct gpu_cmd *c, const struct qsa_layer *l, const struct qsa_run *run, uint32_t n_run, const struct qsa_scratch *s,
                     const struct qsa_dims *d, gpu_addr step, gpu_addr u, uint32_t n_tok)
{
    products_in(c, l, d, u, n_tok);
    for (uint32_t i = 0, any = 0; i < n_run && l->block.budget; i++) {
        if (!run[i].next)
            continue;
        c->row = (uint8_t)(1 + i);
        keep_index_keys(c, s->ik + run[i].first * (uint64_t)d->idx_dim * sizeof(float), run[i].next, d, run[i].n);
        if (any++)
            gpu_record_parallel(c);
    }
    uint32_t first = c->n, each = 0;
    bool alike = !d->device;
    for (uint32_t i = 0; i < n_run; i++) {
        struct qsa_scratch of = scratch_of_row(s, d, &run[i].l->block, run[i].first);
        uint32_t before = c->n;
        c->row = (uint8_t)(1 + i);
        own(c, run[i].l, &of, d, step + i * sizeof(struct gpu_step), run[i].n);
        each = i ? each : c->n - before;
        alike = alike && c->n - before == each;
    }
    c->row = 0;
    if (alike)
        gpu_record_side_by_side(c, first, n_run);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_head * d->dim, n_tok);
}
