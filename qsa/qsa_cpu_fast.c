/* qsa_cpu_fast.c - vectorised twins of the sparse-attention rows; compiled once per instruction set (ISA). */
#include "gpu/cpu_vec.h"
#include "qsa/qsa.h"

#include <assert.h>
#include <math.h>

static void score(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_score_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    const struct gpu_step *step = AT(const struct gpu_step, a->step);
    uint32_t groups = (b->cap_blocks + QSA_SCORE_GROUP - 1) / QSA_SCORE_GROUP;
    (void)scratch;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t r0 = item / groups * QSA_SCORE_ROWS, from = item % groups * QSA_SCORE_GROUP;
        for (uint32_t r = r0; r < MIN(r0 + QSA_SCORE_ROWS, a->n_row); r++) {
            uint32_t nb = (step->pos + a->row0 + r + 1) / QSA_BLOCK;
            const float *iq = AT(const float, a->iq) + (size_t)(a->row0 + r) * b->idx_head * b->idx_dim;
            float *out = AT(float, a->scores) + (size_t)r * b->cap_blocks;
            for (uint32_t blk = from; nb > b->budget && blk < MIN(from + QSA_SCORE_GROUP, nb); blk++) {
                const float *pk = AT(const float, b->pooled) + (size_t)blk * b->idx_dim;
                float sum = 0;
                for (uint32_t h = 0; h < b->idx_head; h++) {
                    float dot = v_dot(iq + h * b->idx_dim, pk, b->idx_dim);
                    sum += dot > 0 ? dot : 0;
                }
                out[blk] = sum;
            }
        }
    }
}

/* Values of a Q8_0 tile times their scales */
static void q8_tile(const uint8_t *tile, uint32_t dim, bool is_v, float *out)
{
    const int8_t *value = (const int8_t *)tile;
    float scale[QSA_BLOCK];
    for (uint32_t g = 0; g * QSA_Q8_GROUP < dim; g++) {
        uint32_t d0 = g * QSA_Q8_GROUP, d1 = MIN(dim, d0 + QSA_Q8_GROUP);
        uint16_t half[QSA_BLOCK];
        memcpy(half, tile + QSA_BLOCK * (size_t)dim + sizeof half * g, sizeof half);
        v_from_half(scale, half, QSA_BLOCK);
        if (is_v) {
            for (uint32_t i = d0 * QSA_BLOCK; i < d1 * QSA_BLOCK; i++)
                out[i] = (float)value[i] * scale[i % QSA_BLOCK];
            continue;
        }
        for (uint32_t p = d0 / 8; p < d1 / 8; p++)
            for (uint32_t t = 0; t < QSA_BLOCK; t++)
                for (uint32_t i = 0; i < 8; i++)
                    out[(p * QSA_BLOCK + t) * 8 + i] = (float)value[(p * QSA_BLOCK + t) * 8 + i] * scale[t];
    }
}

/* One tile of the cache as f32, as it lies */
static const float *tile_f32(const struct qsa_block *b, gpu_addr cache, uint32_t j, uint32_t block, bool is_v, float *buf)
{
    const uint8_t *tile = AT(const uint8_t, cache) + ((size_t)j * b->cap_blocks + block) * qsa_tile_bytes(b->dim, b->kv_type);
    if (b->kv_type == QSA_KV_F32)
        return (const float *)(const void *)tile;
    if (b->kv_type == QSA_KV_F16)
        v_from_half(buf, (const uint16_t *)(const void *)tile, QSA_BLOCK * b->dim);
    else
        q8_tile(tile, b->dim, is_v, buf);
    return buf;
}

/* V with the token outermost, [4][dim] */
static void turn_v(const float *v, uint32_t dim, float *out)
{
    uint32_t d0 = 0;
    for (; d0 + 16 <= dim; d0 += 16)
        for (uint32_t t = 0; t < QSA_BLOCK; t++)
            for (uint32_t d = 0; d < 16; d++)
                out[(size_t)t * dim + d0 + d] = v[(d0 + d) * QSA_BLOCK + t];
    for (; d0 < dim; d0++)
        for (uint32_t t = 0; t < QSA_BLOCK; t++)
            out[(size_t)t * dim + d0] = v[d0 * QSA_BLOCK + t];
}

/* s[t] = q . k_t for the four tokens of a tile. q2 holds every piece of 8 dims twice, so that one vector meets two tokens. */
static inline void tile_scores(const float *tile, const float *q2, uint32_t dim, float scale, float *s)
{
    vf acc0 = v_set(0), acc1 = v_set(0);
    for (uint32_t p = 0; p < dim / 8; p++) {
        vf q = v_load(q2 + 16 * p);
        acc0 += v_load(tile + 32 * p) * q;
        acc1 += v_load(tile + 32 * p + 16) * q;
    }
    float x[32];
    v_store(x, acc0);
    v_store(x + 16, acc1);
    for (int t = 0; t < QSA_BLOCK; t++) {
        const float *y = x + 8 * t;
        s[t] = scale * (((y[0] + y[4]) + (y[2] + y[6])) + ((y[1] + y[5]) + (y[3] + y[7])));
    }
}

/* o += w[t] * v[t] for the first n tokens, ascending */
static inline void add_values(float *o, const float *w, const float *v, uint32_t n, uint32_t dim)
{
    if (n < QSA_BLOCK) {
        for (uint32_t t = 0; t < n; t++)
            v_axpy(o, w[t], v + (size_t)t * dim, dim);
        return;
    }
    vf w0 = v_set(w[0]), w1 = v_set(w[1]), w2 = v_set(w[2]), w3 = v_set(w[3]);
    uint32_t i = 0;
    for (; i + VEC <= dim; i += VEC) {
        vf x = v_load(o + i);
        x += w0 * v_load(v + i);
        x += w1 * v_load(v + dim + i);
        x += w2 * v_load(v + 2 * (size_t)dim + i);
        x += w3 * v_load(v + 3 * (size_t)dim + i);
        v_store(o + i, x);
    }
    for (; i < dim; i++)
        for (uint32_t t = 0; t < QSA_BLOCK; t++)
            o[i] += w[t] * v[(size_t)t * dim + i];
}

/* A row on its way over its list: the complete blocks it chose, ascending, then the open one if that has tokens. For each head of the kv head:
 * [2 * dim] q2, [dim] output, [4] weights, maximum, sum. */
struct walker {
    const uint32_t *id; /* NULL: all complete blocks */
    uint32_t n_block, complete, n_open;
    uint32_t at;        /* entries passed */
    float *q2, *o, *w, *max, *sum;
};

enum { NO_BLOCK = UINT32_MAX };
static inline uint32_t next_block(const struct walker *r)
{
    if (r->at < r->n_block)
        return r->id ? r->id[r->at] : r->at;
    return r->at == r->n_block && r->n_open ? r->complete : (uint32_t)NO_BLOCK;
}

/* The softmax of one head moves on by n keys, whose scores are w and become weights. The sums shrink only when the maximum rises. */
static inline void weigh(float *w, uint32_t n, float *max, float *sum, float *o, uint32_t dim)
{
    float m = *max;
    for (uint32_t t = 0; t < n; t++)
        m = w[t] > m ? w[t] : m;
    if (m > *max) {
        float keep = expf(*max - m); /* 0 the first time */
        *sum *= keep;
        for (uint32_t d = 0; d < dim; d++)
            o[d] *= keep;
        *max = m;
    }
    for (uint32_t t = 0; t < n; t++) {
        w[t] = expf(w[t] - m);
        *sum += w[t];
    }
}

static void walker_start(struct walker *r, const struct qsa_attend_args *a, const struct qsa_block *b, uint32_t t, uint32_t pos, uint32_t j, float *memory)
{
    uint32_t G = b->n_head / b->n_kv, dim = b->dim, n_key = pos + 1;
    const uint32_t *list = AT(const uint32_t, a->list) + (size_t)t * (1 + (size_t)b->budget);
    const float *qg = AT(const float, a->qg) + ((size_t)t * b->n_head + (size_t)j * G) * 2 * dim;
    *r = (struct walker){ .complete = n_key / QSA_BLOCK, .n_open = n_key % QSA_BLOCK, .q2 = memory, .o = memory + 2 * (size_t)G * dim };
    bool all = !b->budget || r->complete <= b->budget;
    r->id = all ? NULL : list + 1;
    r->n_block = all ? r->complete : list[0];
    r->w = r->o + (size_t)G * dim, r->max = r->w + (size_t)G * QSA_BLOCK, r->sum = r->max + G;
    for (uint32_t h = 0; h < G; h++) {
        float *q2 = r->q2 + 2 * (size_t)h * dim;
        for (uint32_t d = 0; d < dim; d++)
            q2[d / 8 * 16 + d % 8] = q2[d / 8 * 16 + 8 + d % 8] = qg[2 * (size_t)h * dim + d];
        r->max[h] = -INFINITY;
        r->sum[h] = 0;
    }
    memset(r->o, 0, (size_t)G * dim * sizeof *r->o);
}

static void walker_end(const struct walker *r, const struct qsa_attend_args *a, const struct qsa_block *b, uint32_t t, uint32_t j)
{
    uint32_t G = b->n_head / b->n_kv, dim = b->dim;
    for (uint32_t h = 0; h < G; h++) {
        size_t head = (size_t)t * b->n_head + (size_t)j * G + h;
        const float *gate = AT(const float, a->qg) + head * 2 * dim + dim;
        float *out = AT(float, a->out) + head * dim, inv = 1.0f / r->sum[h];
        for (uint32_t d = 0; d < dim; d++)
            out[d] = r->o[(size_t)h * dim + d] * inv / (1.0f + expf(-gate[d]));
    }
}

/* Rows t0 .. t0 + n_row - 1 and the heads of one kv head go over the blocks together: over the union of their lists or, masked, over every block.
 * The form never shows in a row: it meets the blocks it chose in ascending order, and what it did not choose adds nothing. b: the layer block of their
 * sequence; pos: position of row t0. */
static void attend_rows(const struct qsa_block *b, const struct qsa_attend_args *a, uint32_t t0, uint32_t pos, uint32_t n_row, uint32_t j, bool masked, struct cpu_scratch *scratch)
{
    uint32_t G = b->n_head / b->n_kv, dim = b->dim;
    float scale = 1.0f / sqrtf((float)dim), *k_buf = scratch->f, *v_buf = k_buf + QSA_BLOCK * dim, *memory = v_buf + QSA_BLOCK * dim;
    size_t each = (size_t)G * (3 * (size_t)dim + QSA_BLOCK + 2);
    struct walker row[QSA_UNION_ROWS];
    uint32_t n_seen = (pos + QSA_BLOCK) / QSA_BLOCK; /* blocks of row t0, the open one included */
    assert(scratch->n >= 2 * QSA_BLOCK * (size_t)dim + n_row * each);
    for (uint32_t r = 0; r < n_row; r++)
        walker_start(&row[r], a, b, t0 + r, pos + r, j, memory + r * each);
    for (uint32_t block = 0;; block++) {
        uint32_t live[QSA_UNION_ROWS], next = NO_BLOCK;
        for (uint32_t r = 0; r < n_row; r++)
            next = MIN(next, next_block(&row[r]));
        if (masked ? block == n_seen : next == NO_BLOCK)
            break;
        block = masked ? block : next;
        const float *k = tile_f32(b, b->k, j, block, false, k_buf);
        for (uint32_t r = 0; r < n_row; r++) {
            struct walker *w = &row[r];
            bool chosen = next_block(w) == block;
            live[r] = chosen && block == w->complete ? w->n_open : chosen || masked ? QSA_BLOCK : 0;
            for (uint32_t h = 0; h < G && live[r]; h++) {
                float *s = w->w + h * QSA_BLOCK;
                tile_scores(k, w->q2 + 2 * (size_t)h * dim, dim, scale, s);
                if (chosen)
                    weigh(s, live[r], &w->max[h], &w->sum[h], w->o + (size_t)h * dim, dim);
                else
                    memset(s, 0, QSA_BLOCK * sizeof *s);
            }
            w->at += chosen;
        }
        turn_v(tile_f32(b, b->v, j, block, true, k_buf), dim, v_buf);
        for (uint32_t r = 0; r < n_row; r++)
            for (uint32_t h = 0; h < G && live[r]; h++)
                add_values(row[r].o + (size_t)h * dim, row[r].w + h * QSA_BLOCK, v_buf, live[r], dim);
    }
    for (uint32_t r = 0; r < n_row; r++)
        walker_end(&row[r], a, b, t0 + r, j);
}

static void attend(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / b->n_kv;
        attend_rows(b, a, t, gpu_position(a->step, 0, t), 1, item % b->n_kv, false, scratch);
    }
}

static void attend_masked(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_masked_args *a = args;
    const struct qsa_attend_args rows = { .qg = a->qg, .list = a->list, .out = a->out };
    uint32_t n_kv = AT(const struct qsa_block, a->block)->n_kv;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / n_kv;
        attend_rows(AT(const struct qsa_block, gpu_own_block(a->block, a->apart, t)), &rows, t, gpu_position(a->step, a->apart, t), 1, item % n_kv, true, scratch);
    }
}

static void attend_union(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    uint32_t n_tok = AT(const struct gpu_step, a->step)->n_tok;
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t0 = item / b->n_kv * QSA_UNION_ROWS;
        attend_rows(b, a, t0, gpu_position(a->step, 0, t0), MIN((uint32_t)QSA_UNION_ROWS, n_tok - t0), item % b->n_kv, false, scratch);
    }
}

const gpu_row_fn ISA_NAME(qsa_fast)[QSA_K_COUNT] = {
    [K_qsa_score] = score,    [K_qsa_attend] = attend,
    [K_qsa_attend_masked] = attend_masked, [K_qsa_attend_union] = attend_union,
};
