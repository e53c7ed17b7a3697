/* qsa_ref.c - the sparse-attention rows in plain C, as spec page "model" section 4 writes them. */
#include "qsa/qsa.h"

#include "gpu/quant.h"

#include <math.h>
#include <string.h>

/* x *= rsqrt(mean(x^2) + eps) * gain */
static void rms_norm(float *x, uint32_t n, const float *gain, float eps)
{
    double ss = 0;
    for (uint32_t i = 0; i < n; i++)
        ss += (double)x[i] * (double)x[i];
    float r = 1.0f / sqrtf((float)(ss / n) + eps);
    for (uint32_t i = 0; i < n; i++)
        x[i] *= r * gain[i];
}

/* Spec 4.2: rotate-half inside the first rope_dim dims; row is the step's table row of the position */
static void rope(float *x, uint32_t rope_dim, const float *row)
{
    uint32_t half = rope_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        float c = row[2 * i], s = row[2 * i + 1], lo = x[i], hi = x[i + half];
        x[i] = lo * c - hi * s;
        x[i + half] = lo * s + hi * c;
    }
}

static const float *rope_row(const struct gpu_step *step, uint32_t rope_dim, uint32_t pos)
{
    return AT(const float, step->rope) + (size_t)(pos + 3 - step->pos) * rope_dim;
}

/* Where element (token t, dim d) of kv head j lies: qsa_k_at or qsa_v_at */
typedef size_t (*place_fn)(const struct qsa_block *b, uint32_t j, size_t t, uint32_t d);

/* Q8_0: value and scale of an element that lies at `at` */
static int8_t *q8_value(const struct qsa_block *b, gpu_addr cache, size_t at)
{
    size_t n = QSA_BLOCK * (size_t)b->dim;
    return AT(int8_t, cache) + at / n * qsa_tile_bytes(b->dim, QSA_KV_Q8_0) + at % n;
}
static uint16_t *q8_scale(const struct qsa_block *b, gpu_addr cache, size_t at, size_t t, uint32_t d)
{
    size_t n = QSA_BLOCK * (size_t)b->dim, scale = (size_t)(d / QSA_Q8_GROUP) * QSA_BLOCK + t % QSA_BLOCK;
    return AT(uint16_t, cache + at / n * qsa_tile_bytes(b->dim, QSA_KV_Q8_0) + n) + scale;
}

/* One group of a token: 127 is its largest value. What is no number has no scale either, so that it is seen. */
static void q8_put(const struct qsa_block *b, gpu_addr cache, place_fn at, uint32_t j, size_t t, uint32_t d0, const float *x)
{
    uint32_t n = MIN((uint32_t)QSA_Q8_GROUP, b->dim - d0);
    float most = 0, scale;
    for (uint32_t i = 0; i < n; i++)
        most = fabsf(x[d0 + i]) > most ? fabsf(x[d0 + i]) : most;
    for (uint32_t i = 0; i < n; i++)
        most = isfinite(x[d0 + i]) ? most : NAN;
    uint16_t half = f32_to_f16(most / 127);
    scale = f16_to_f32(half);
    *q8_scale(b, cache, at(b, j, t, d0), t, d0) = half;
    for (uint32_t i = 0; i < n; i++) {
        float q = scale > 0 ? roundf(x[d0 + i] / scale) : 0;
        *q8_value(b, cache, at(b, j, t, d0 + i)) = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

/* One token of one kv head into its tile */
static void cache_put(const struct qsa_block *b, gpu_addr cache, place_fn at, uint32_t j, size_t t, const float *x)
{
    for (uint32_t d = 0; d < b->dim; d++)
        switch (b->kv_type) {
        case QSA_KV_F32: AT(float, cache)[at(b, j, t, d)] = x[d]; break;
        case QSA_KV_F16: AT(uint16_t, cache)[at(b, j, t, d)] = f32_to_f16(x[d]); break;
        default:
            if (d % QSA_Q8_GROUP == 0)
                q8_put(b, cache, at, j, t, d, x);
        }
}

static float cache_get(const struct qsa_block *b, gpu_addr cache, place_fn place, uint32_t j, size_t t, uint32_t d)
{
    size_t at = place(b, j, t, d);
    if (b->kv_type == QSA_KV_Q8_0)
        return (float)*q8_value(b, cache, at) * f16_to_f32(*q8_scale(b, cache, at, t, d));
    return b->kv_type == QSA_KV_F32 ? AT(const float, cache)[at] : f16_to_f32(AT(const uint16_t, cache)[at]);
}

/* Spec 4.4: pool -> norm -> rope at the block's first token, whose table row `turn` is */
static void pool_key(const struct qsa_block *b, const float *const key[QSA_BLOCK], const float *turn, float *out)
{
    for (uint32_t i = 0; i < b->idx_dim; i++) {
        float sum = 0;
        for (uint32_t t = 0; t < QSA_BLOCK; t++)
            sum += key[t][i];
        out[i] = sum / QSA_BLOCK;
    }
    rms_norm(out, b->idx_dim, AT(const float, b->ik_norm), b->eps);
    rope(out, b->rope_dim, turn);
}

/* Block number nth of those that a step may complete, whose first row of the sequence is at pos and has key ik. One that straddles the start of the step
 * finds its first keys in the window; it can only be block pos / 4, which is the first, so that one may move the window when it is done. */
static void pool_block(const struct qsa_block *b, const struct gpu_step *step, const float *ik, uint32_t pos, uint32_t nth, bool stay)
{
    float *win = AT(float, b->window);
    uint32_t N = b->idx_dim, end = pos + step->n_tok, block = step->pos / QSA_BLOCK + nth;
    if (block < end / QSA_BLOCK) {
        const float *key[QSA_BLOCK];
        for (uint32_t k = 0, t = block * QSA_BLOCK; k < QSA_BLOCK; k++, t++)
            key[k] = t >= pos ? ik + (size_t)(t - pos) * N : win + (size_t)(t + 3 - pos) * N;
        pool_key(b, key, rope_row(step, b->rope_dim, block * QSA_BLOCK), AT(float, b->pooled) + (size_t)block * N);
    }
    for (uint32_t k = 0; nth == 0 && !stay && k < 3; k++) /* row k becomes the key of token end - 3 + k */
        memmove(win + (size_t)k * N, step->n_tok + k >= 3 ? ik + (size_t)(step->n_tok + k - 3) * N : win + (size_t)(step->n_tok + k) * N, N * sizeof *win);
}

/* Row t of a step, which is row r of the batch */
static void prep_row(const struct qsa_prep_args *a, const struct qsa_block *b, const struct gpu_step *step, uint32_t t, uint32_t r)
{
    uint32_t pos = step->pos + t;
    const float *table = rope_row(step, b->rope_dim, pos);
    for (uint32_t h = 0; h < b->n_head; h++) {
        float *q = AT(float, a->qg) + ((size_t)r * b->n_head + h) * 2 * b->dim;
        rms_norm(q, b->dim, AT(const float, b->q_norm), b->eps);
        rope(q, b->rope_dim, table);
    }
    for (uint32_t j = 0; j < b->n_kv; j++) {
        float *k = AT(float, a->k) + ((size_t)r * b->n_kv + j) * b->dim;
        const float *v = AT(const float, a->v) + ((size_t)r * b->n_kv + j) * b->dim;
        rms_norm(k, b->dim, AT(const float, b->k_norm), b->eps);
        rope(k, b->rope_dim, table);
        cache_put(b, b->k, qsa_k_at, j, pos, k);
        cache_put(b, b->v, qsa_v_at, j, pos, v);
    }
    if (a->count)
        memset(AT(uint32_t, a->count) + (size_t)r * QSA_COUNTS, 0, QSA_COUNTS * sizeof(uint32_t));
    for (uint32_t h = 0; b->budget && h < b->idx_head; h++) {
        float *iq = AT(float, a->iq) + ((size_t)r * b->idx_head + h) * b->idx_dim;
        rms_norm(iq, b->idx_dim, AT(const float, b->iq_norm), b->eps);
        rope(iq, b->rope_dim, table);
    }
}

/* Spec 4.1, 4.4: rows, then the blocks that they complete; of rows that are apart each with its own */
void qsa_prep_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_prep_args *a = args;
    uint32_t each = AT(const struct qsa_block, a->block)->budget ? 2 : 1;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t row = a->apart ? item / each : 0, t = item - row * each;
        const struct qsa_block *b = AT(const struct qsa_block, gpu_own_block(a->block, a->apart, row));
        const struct gpu_step *step = a->apart ? gpu_step_of(a->apart, row) : AT(const struct gpu_step, a->step);
        uint32_t own = a->apart ? 1 : step->n_tok, before = a->apart ? step->n_tok - 1 : 0;
        if (t < own)
            prep_row(a, b, step, t, row + t);
        else
            pool_block(b, step, AT(const float, a->ik) + (size_t)(row - before) * b->idx_dim, step->pos - before, t - own, a->stay);
    }
}

void qsa_keep_raw_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_raw_args *a = args;
    size_t N = AT(const struct qsa_block, a->block)->idx_dim;
    (void)scratch;
    for (uint32_t r = first; r < first + n; r++) {
        float *raw = AT(float, AT(const struct qsa_raw_keys, gpu_own_block(a->keys, a->apart, r))->raw);
        memcpy(raw + gpu_position(a->step, a->apart, r) * N, AT(const float, a->ik) + r * N, N * sizeof *raw);
    }
}

void qsa_repool_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_raw_args *a = args;
    uint32_t each = (uint32_t)size_up(AT(const struct qsa_block, a->block)->cap_blocks, QSA_REPOOL_GRAIN);
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t row = a->apart ? item / each : 0, block = item - row * each;
        const struct qsa_block *b = AT(const struct qsa_block, gpu_own_block(a->block, a->apart, row));
        const struct qsa_raw_keys *keys = AT(const struct qsa_raw_keys, gpu_own_block(a->keys, a->apart, row));
        const struct gpu_step *step = a->apart ? gpu_step_of(a->apart, row) : AT(const struct gpu_step, a->step);
        const float *key[QSA_BLOCK];
        for (uint32_t k = 0; k < QSA_BLOCK; k++)
            key[k] = AT(const float, keys->raw) + ((size_t)block * QSA_BLOCK + k) * b->idx_dim;
        if (block < (step->pos + step->n_tok) / QSA_BLOCK)
            pool_key(b, key, AT(const float, keys->turn) + (size_t)block * b->rope_dim, AT(float, b->pooled) + (size_t)block * b->idx_dim);
    }
}

/* The bits of a float that is >= 0 order like the float. */
static uint32_t key_of(float score)
{
    uint32_t key;
    memcpy(&key, &score, sizeof key);
    return key;
}

/* Spans of a row add to the same counters, on several threads. */
static void add_one(uint32_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

/* Spec 4.4: sum over heads of relu(iq . pk). The factor 1/sqrt(idx_dim) changes no choice and is left out. */
static float block_score(const struct qsa_block *b, const float *iq, const float *pk)
{
    float sum = 0;
    for (uint32_t h = 0; h < b->idx_head; h++) {
        double dot = 0;
        for (uint32_t i = 0; i < b->idx_dim; i++)
            dot += (double)iq[h * b->idx_dim + i] * (double)pk[i];
        sum += dot > 0 ? (float)dot : 0; /* NaN counts as 0 */
    }
    return sum;
}

void qsa_score_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_score_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    uint32_t groups = (b->cap_blocks + a->span - 1) / a->span;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t rows = a->apart ? 1 : QSA_SCORE_ROWS, r0 = item / groups * rows, from = item % groups * a->span;
        for (uint32_t r = r0; r < MIN(r0 + rows, a->n_row); r++) {
            uint32_t nb = (gpu_position(a->step, a->apart, a->row0 + r) + 1) / QSA_BLOCK;
            gpu_addr pooled = AT(const struct qsa_block, gpu_own_block(a->block, a->apart, a->row0 + r))->pooled;
            const float *iq = AT(const float, a->iq) + (size_t)(a->row0 + r) * b->idx_head * b->idx_dim;
            float *score = AT(float, a->scores) + (size_t)r * b->cap_blocks;
            for (uint32_t blk = from; nb > b->budget && blk < MIN(from + a->span, nb); blk++) {
                score[blk] = block_score(b, iq, AT(const float, pooled) + (size_t)blk * b->idx_dim);
                if (a->count)
                    add_one(&AT(uint32_t, a->count)[(size_t)r * QSA_COUNTS + (key_of(score[blk]) >> QSA_FIRST_SHIFT)]);
            }
        }
    }
}

/* Four radix passes over the keys find the key of rank `budget`; a last sweep collects in index order. */
uint32_t qsa_top_blocks(const float *scores, uint32_t n, uint32_t budget, uint32_t *out)
{
    uint32_t n_out = 0;
    if (n <= budget) {
        for (; n_out < n; n_out++)
            out[n_out] = n_out;
        return n_out;
    }
    uint32_t cut = 0, mask = 0, rank = budget; /* rank: how many of the keys that match cut under mask are chosen */
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t count[256] = { 0 }, digit = 255;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t key = key_of(scores[i]);
            if ((key & mask) == cut)
                count[key >> shift & 255]++;
        }
        for (; count[digit] < rank; digit--)
            rank -= count[digit];
        cut |= digit << shift;
        mask |= 255u << shift;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = key_of(scores[i]);
        if (key > cut || (key == cut && rank && rank--))
            out[n_out++] = i;
    }
    return n_out;
}

/* The list of a row that sees nb blocks */
static void select_row(const struct qsa_block *b, const float *score, uint32_t nb, uint32_t *list)
{
    list[0] = nb <= b->budget ? QSA_ALL : qsa_top_blocks(score, nb, b->budget, list + 1);
}

void qsa_select_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_select_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    (void)scratch;
    for (uint32_t r = first; r < first + n; r++)
        select_row(b, AT(const float, a->scores) + (size_t)r * b->cap_blocks, (AT(const struct gpu_step, a->step)->pos + a->row0 + r + 1) / QSA_BLOCK,
                   AT(uint32_t, a->list) + (size_t)(a->row0 + r) * (1 + (size_t)b->budget));
}

/* The digit of n that holds the key of *rank, counted from the top; *rank is then that among the keys with this digit. */
static uint32_t digit_of_rank(const uint32_t *count, uint32_t n, uint32_t *rank)
{
    uint32_t digit = n - 1;
    for (; count[digit] < *rank; digit--)
        *rank -= count[digit];
    return digit;
}

void qsa_count_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_span_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t r = item / a->n_span, from = item % a->n_span * QSA_SPAN, nb = (gpu_position(a->step, a->apart, r) + 1) / QSA_BLOCK;
        uint32_t *count = AT(uint32_t, a->count) + (size_t)r * QSA_COUNTS, *cut = AT(uint32_t, a->cut) + 2 * r;
        uint32_t *span = AT(uint32_t, a->span) + (size_t)item * QSA_SPAN_COUNTS, rank = b->budget;
        const float *score = AT(const float, a->scores) + (size_t)r * b->cap_blocks;
        if (nb <= b->budget || from >= nb)
            continue;
        uint32_t digit = digit_of_rank(count, QSA_FIRST, &rank);
        if (from == 0)
            cut[0] = digit, cut[1] = rank;
        memset(span, 0, QSA_SPAN_COUNTS * sizeof *span);
        for (uint32_t i = from; i < MIN(from + QSA_SPAN, nb); i++) {
            uint32_t key = key_of(score[i]), second = key >> QSA_SECOND_SHIFT & (QSA_SECOND - 1);
            if (key >> QSA_FIRST_SHIFT > digit)
                span[QSA_SECOND]++;
            if (key >> QSA_FIRST_SHIFT == digit)
                span[second]++, add_one(&count[QSA_FIRST + second]);
        }
        for (uint32_t i = QSA_SECOND; i-- > 0;)
            span[i] += span[i + 1];
    }
}

/* The first span of a row writes its whole list. */
void qsa_take_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_span_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t r = item / a->n_span;
        if (item % a->n_span == 0 && b->budget)
            select_row(b, AT(const float, a->scores) + (size_t)r * b->cap_blocks, (gpu_position(a->step, a->apart, r) + 1) / QSA_BLOCK,
                       AT(uint32_t, a->list) + (size_t)r * (1 + (size_t)b->budget));
    }
}

/* Position number i of the set that row t attends to: the chosen blocks ascending, then the open block. */
struct chosen {
    const uint32_t *id; /* NULL: all */
    uint32_t n_block, n_tail, tail_at;
};
static struct chosen chosen_of(const struct qsa_block *b, const uint32_t *list, uint32_t pos)
{
    uint32_t nb = (pos + 1) / QSA_BLOCK;
    bool all = !b->budget || nb <= b->budget;
    return (struct chosen){ all ? NULL : list + 1, all ? nb : list[0], pos + 1 - nb * QSA_BLOCK, nb * QSA_BLOCK };
}
static size_t chosen_pos(const struct chosen *s, uint32_t i)
{
    uint32_t block = i / QSA_BLOCK;
    if (block >= s->n_block)
        return s->tail_at + (i - s->n_block * QSA_BLOCK);
    return (size_t)(s->id ? s->id[block] : block) * QSA_BLOCK + i % QSA_BLOCK;
}

/* Keys i0 .. i1 - 1 of the set, one head: two sweeps, the maximum, then weights, sum and output. */
static void softmax_keys(const struct qsa_block *b, const struct chosen *set, uint32_t i0, uint32_t i1, uint32_t j, const float *q, double *max,
                         double *sum, float *o)
{
    float scale = 1.0f / sqrtf((float)b->dim);
    *max = -INFINITY;
    *sum = 0;
    memset(o, 0, b->dim * sizeof *o);
    for (int sweep = 0; sweep < 2; sweep++)
        for (uint32_t i = i0; i < i1; i++) {
            size_t p = chosen_pos(set, i);
            double s = 0;
            for (uint32_t d = 0; d < b->dim; d++)
                s += (double)q[d] * (double)cache_get(b, b->k, qsa_k_at, j, p, d);
            s *= (double)scale;
            if (sweep == 0) {
                *max = s > *max ? s : *max;
                continue;
            }
            double w = exp(s - *max);
            *sum += w;
            for (uint32_t d = 0; d < b->dim; d++)
                o[d] += (float)w * cache_get(b, b->v, qsa_v_at, j, p, d);
        }
}
static void gate_output(float *o, float sum, const float *gate, uint32_t dim)
{
    for (uint32_t d = 0; d < dim; d++)
        o[d] = o[d] / sum / (1.0f + expf(-gate[d]));
}

/* Spec 4.3: row t, the heads of kv head j. b: the layer block of its sequence */
static void attend_row(const struct qsa_block *b, const struct qsa_attend_args *a, uint32_t t, uint32_t j, uint32_t pos)
{
    struct chosen set = chosen_of(b, AT(const uint32_t, a->list) + (size_t)t * (1 + (size_t)b->budget), pos);
    uint32_t group = b->n_head / b->n_kv;
    for (uint32_t h = j * group; h < (j + 1) * group; h++) {
        const float *q = AT(const float, a->qg) + ((size_t)t * b->n_head + h) * 2 * b->dim;
        float *out = AT(float, a->out) + ((size_t)t * b->n_head + h) * b->dim;
        double max, sum;
        softmax_keys(b, &set, 0, set.n_block * QSA_BLOCK + set.n_tail, j, q, &max, &sum, out);
        gate_output(out, (float)sum, q + b->dim, b->dim);
    }
}
void qsa_attend_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++)
        attend_row(b, a, item / b->n_kv, item % b->n_kv, gpu_position(a->step, 0, item / b->n_kv));
}

/* What was not chosen has weight 0. */
void qsa_attend_masked_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_masked_args *a = args;
    uint32_t n_kv = AT(const struct qsa_block, a->block)->n_kv;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / n_kv;
        attend_row(AT(const struct qsa_block, gpu_own_block(a->block, a->apart, t)), &(struct qsa_attend_args){ .qg = a->qg, .list = a->list, .out = a->out }, t,
                   item % n_kv, gpu_position(a->step, a->apart, t));
    }
}

/* The union is a matter of how often a block is read: each row is what it is alone. */
void qsa_attend_union_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    uint32_t n_tok = AT(const struct gpu_step, a->step)->n_tok;
    for (uint32_t item = first; item < first + n; item++)
        for (uint32_t t = item / b->n_kv * QSA_UNION_ROWS, k = 0; k < QSA_UNION_ROWS && t < n_tok; k++, t++)
            qsa_attend_ref(args, t * b->n_kv + item % b->n_kv, 1, scratch);
}

/* Whether a row's set has a block; blocks are asked for in ascending order, *next is the row's place in its list. */
static bool chosen_has(const struct chosen *s, uint32_t block, uint32_t *next)
{
    if (s->n_tail && block == s->tail_at / QSA_BLOCK)
        return true;
    if (!s->id)
        return block < s->n_block;
    if (*next == s->n_block || s->id[*next] != block)
        return false;
    ++*next;
    return true;
}

void qsa_group_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_group_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    const struct gpu_step *step = AT(const struct gpu_step, a->step);
    (void)scratch;
    for (uint32_t g = first; g < first + n; g++) {
        struct chosen set[QSA_GROUP_ROWS];
        uint32_t next[QSA_GROUP_ROWS] = { 0 }, t0 = g * QSA_GROUP_ROWS, n_row = MIN((uint32_t)QSA_GROUP_ROWS, step->n_tok - t0);
        uint32_t *out = AT(uint32_t, a->groups) + g * (1 + (size_t)QSA_UNION_MOST(b->budget));
        for (uint32_t r = 0; r < n_row; r++)
            set[r] = chosen_of(b, AT(const uint32_t, a->list) + (t0 + r) * (1 + (size_t)b->budget), step->pos + t0 + r);
        out[0] = 0;
        for (uint32_t block = 0; block <= (step->pos + t0 + n_row - 1) / QSA_BLOCK; block++) {
            uint32_t rows = 0;
            for (uint32_t r = 0; r < n_row; r++)
                rows |= (uint32_t)chosen_has(&set[r], block, &next[r]) << r;
            if (rows)
                out[++out[0]] = block << QSA_GROUP_ROWS | rows;
        }
    }
}

/* One row, one head over the union of its group: the keys it sees of the blocks that carry its bit */
static void attend_of_group(const struct qsa_block *b, const uint32_t *groups, uint32_t r, uint32_t pos, uint32_t j, const float *q, float *out)
{
    uint32_t n = b->budget ? groups[0] : pos / QSA_BLOCK + 1;
    double max = -INFINITY, sum = 0;
    memset(out, 0, b->dim * sizeof *out);
    for (int sweep = 0; sweep < 2; sweep++)
        for (uint32_t i = 0; i < n; i++) {
            uint32_t entry = b->budget ? groups[1 + i] : i << QSA_GROUP_ROWS | 1u << r;
            size_t at = (size_t)(entry >> QSA_GROUP_ROWS) * QSA_BLOCK;
            for (size_t p = at; entry >> r & 1 && p < at + QSA_BLOCK && p <= pos; p++) {
                double s = 0;
                for (uint32_t d = 0; d < b->dim; d++)
                    s += (double)q[d] * (double)cache_get(b, b->k, qsa_k_at, j, p, d);
                s /= sqrt((double)b->dim);
                if (sweep == 0) {
                    max = s > max ? s : max;
                    continue;
                }
                double w = exp(s - max);
                sum += w;
                for (uint32_t d = 0; d < b->dim; d++)
                    out[d] += (float)w * cache_get(b, b->v, qsa_v_at, j, p, d);
            }
        }
    gate_output(out, (float)sum, q + b->dim, b->dim);
}

void qsa_attend_group_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_group_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    const struct gpu_step *step = AT(const struct gpu_step, a->step);
    uint32_t heads = b->n_head / b->n_kv;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t g = item / b->n_kv, j = item % b->n_kv, t0 = g * QSA_GROUP_ROWS, n_row = MIN((uint32_t)QSA_GROUP_ROWS, step->n_tok - t0);
        const uint32_t *groups = b->budget ? AT(const uint32_t, a->groups) + g * (1 + (size_t)QSA_UNION_MOST(b->budget)) : NULL;
        for (uint32_t r = 0; r < n_row; r++)
            for (uint32_t h = j * heads; h < (j + 1) * heads; h++) {
                size_t at = (size_t)(t0 + r) * b->n_head + h;
                attend_of_group(b, groups, r, step->pos + t0 + r, j, AT(const float, a->qg) + at * 2 * b->dim, AT(float, a->out) + at * b->dim);
            }
    }
}

/* How many parts a row has: at least one, since some key always exists. */
static uint32_t parts_of(const struct chosen *set, uint32_t part_blocks)
{
    return set->n_block > part_blocks ? (set->n_block + part_blocks - 1) / part_blocks : 1;
}

void qsa_attend_part_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_part_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    uint32_t group = b->n_head / b->n_kv;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t c = item % a->n_part, j = item / a->n_part % b->n_kv, r = item / a->n_part / b->n_kv, t = a->row0 + r;
        struct chosen set = chosen_of(b, AT(const uint32_t, a->list) + (size_t)t * (1 + (size_t)b->budget), gpu_position(a->step, a->apart, t));
        uint32_t n_part = parts_of(&set, a->part_blocks), i0 = c * a->part_blocks * QSA_BLOCK;
        uint32_t i1 = c + 1 == n_part ? set.n_block * QSA_BLOCK + set.n_tail : i0 + a->part_blocks * QSA_BLOCK;
        for (uint32_t h = j * group; c < n_part && h < (j + 1) * group; h++) {
            size_t at = ((size_t)r * b->n_head + h) * a->n_part + c;
            double max, sum;
            softmax_keys(AT(const struct qsa_block, gpu_own_block(a->block, a->apart, t)), &set, i0, i1, j, AT(const float, a->qg) + ((size_t)t * b->n_head + h) * 2 * b->dim, &max, &sum,
                         AT(float, a->o) + at * b->dim);
            AT(float, a->ml)[2 * at] = (float)max;
            AT(float, a->ml)[2 * at + 1] = (float)sum;
        }
    }
}

void qsa_attend_merge_ref(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_part_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t r = item / b->n_head, h = item % b->n_head, t = a->row0 + r;
        struct chosen set = chosen_of(b, AT(const uint32_t, a->list) + (size_t)t * (1 + (size_t)b->budget), gpu_position(a->step, a->apart, t));
        uint32_t n_part = parts_of(&set, a->part_blocks);
        const float *ml = AT(const float, a->ml) + 2 * (size_t)item * a->n_part, *o = AT(const float, a->o) + (size_t)item * a->n_part * b->dim;
        float *out = AT(float, a->out) + ((size_t)t * b->n_head + h) * b->dim, max = -INFINITY, sum = 0;
        for (uint32_t c = 0; c < n_part; c++)
            max = MAX(max, ml[2 * c]);
        memset(out, 0, b->dim * sizeof *out);
        for (uint32_t c = 0; c < n_part; c++) {
            float w = expf(ml[2 * c] - max);
            sum += w * ml[2 * c + 1];
            for (uint32_t d = 0; d < b->dim; d++)
                out[d] += w * o[(size_t)c * b->dim + d];
        }
        gate_output(out, sum, AT(const float, a->qg) + ((size_t)t * b->n_head + h) * 2 * b->dim + b->dim, b->dim);
    }
}
