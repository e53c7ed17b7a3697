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

/* One tile of the cache as f32: K as it lies, V with the token index outermost, [4][dim]. */
static const float *k_tile(const struct qsa_block *b, uint32_t j, uint32_t block, float *buf)
{
    size_t at = ((size_t)j * b->cap_blocks + block) * QSA_BLOCK * b->dim;
    if (b->kv_f32)
        return AT(const float, b->k) + at;
    v_from_half(buf, AT(const uint16_t, b->k) + at, QSA_BLOCK * b->dim);
    return buf;
}
static void v_tile(const struct qsa_block *b, uint32_t j, uint32_t block, float *buf)
{
    size_t at = ((size_t)j * b->cap_blocks + block) * QSA_BLOCK * b->dim;
    float raw[64];
    for (uint32_t d0 = 0; d0 < b->dim; d0 += 16) {
        uint32_t nd = MIN(16u, b->dim - d0);
        const float *src = raw;
        if (b->kv_f32)
            src = AT(const float, b->v) + at + (size_t)d0 * QSA_BLOCK;
        else
            v_from_half(raw, AT(const uint16_t, b->v) + at + (size_t)d0 * QSA_BLOCK, nd * QSA_BLOCK);
        for (uint32_t d = 0; d < nd; d++)
            for (uint32_t t = 0; t < QSA_BLOCK; t++)
                buf[(size_t)t * b->dim + d0 + d] = src[d * QSA_BLOCK + t];
    }
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

/* Online softmax over the list, a chunk of blocks at a time; all heads that share this kv head go over a tile together. */
static void attend(const void *args, uint32_t first, uint32_t n, struct cpu_scratch *scratch)
{
    const struct qsa_attend_args *a = args;
    const struct qsa_block *b = AT(const struct qsa_block, a->block);
    const struct gpu_step *step = AT(const struct gpu_step, a->step);
    uint32_t G = b->n_head / b->n_kv, dim = b->dim, pitch = QSA_ATTEND_CHUNK * QSA_BLOCK;
    float scale = 1.0f / sqrtf((float)dim);
    float *tile = scratch->f, *q2 = tile + QSA_BLOCK * dim, *s = q2 + 2 * (size_t)G * dim, *o = s + (size_t)G * pitch, *max = o + (size_t)G * dim,
          *sum = max + G;
    assert(scratch->n >= (size_t)(sum + G - scratch->f));
    for (uint32_t item = first; item < first + n; item++) {
        uint32_t t = item / b->n_kv, j = item % b->n_kv, pos = step->pos + t, nb = (pos + 1) / QSA_BLOCK;
        const uint32_t *list = AT(const uint32_t, a->list) + (size_t)t * (1 + (size_t)b->budget);
        bool all = !b->budget || nb <= b->budget;
        uint32_t n_tail = pos + 1 - nb * QSA_BLOCK, n_block = (all ? nb : list[0]) + (n_tail > 0);
        const float *qg = AT(const float, a->qg) + ((size_t)t * b->n_head + (size_t)j * G) * 2 * dim;
        for (uint32_t h = 0; h < G; h++) {
            for (uint32_t d = 0; d < dim; d++)
                q2[2 * (size_t)h * dim + d / 8 * 16 + d % 8] = q2[2 * (size_t)h * dim + d / 8 * 16 + 8 + d % 8] = qg[2 * (size_t)h * dim + d];
            max[h] = -INFINITY;
            sum[h] = 0;
        }
        memset(o, 0, (size_t)G * dim * sizeof *o);
        for (uint32_t i0 = 0; i0 < n_block; i0 += QSA_ATTEND_CHUNK) {
            uint32_t ni = MIN((uint32_t)QSA_ATTEND_CHUNK, n_block - i0);
            uint32_t n_key = ni * QSA_BLOCK - (i0 + ni == n_block && n_tail ? QSA_BLOCK - n_tail : 0); /* the open block comes last */
#define BLOCK_OF(i) ((i) == n_block - 1 && n_tail ? nb : all ? (i) : list[1 + (i)])
            for (uint32_t i = 0; i < ni; i++) {
                const float *k = k_tile(b, j, BLOCK_OF(i0 + i), tile);
                for (uint32_t h = 0; h < G; h++)
                    tile_scores(k, q2 + 2 * (size_t)h * dim, dim, scale, s + (size_t)h * pitch + i * QSA_BLOCK);
            }
            for (uint32_t h = 0; h < G; h++) {
                float *w = s + (size_t)h * pitch, m = max[h];
                for (uint32_t i = 0; i < n_key; i++)
                    m = w[i] > m ? w[i] : m;
                float keep = expf(max[h] - m); /* 0 the first time */
                max[h] = m;
                sum[h] *= keep;
                for (uint32_t i = 0; i < n_key; i++) {
                    w[i] = expf(w[i] - m);
                    sum[h] += w[i];
                }
                for (uint32_t i = n_key; i < ni * QSA_BLOCK; i++)
                    w[i] = 0; /* tokens that do not exist yet */
                for (uint32_t d = 0; d < dim; d++)
                    o[(size_t)h * dim + d] *= keep;
            }
            for (uint32_t i = 0; i < ni; i++) {
                uint32_t live = MIN((uint32_t)QSA_BLOCK, n_key - i * QSA_BLOCK);
                v_tile(b, j, BLOCK_OF(i0 + i), tile);
                for (uint32_t h = 0; h < G; h++)
                    for (uint32_t u = 0; u < live; u++)
                        v_axpy(o + (size_t)h * dim, s[(size_t)h * pitch + i * QSA_BLOCK + u], tile + (size_t)u * dim, dim);
            }
#undef BLOCK_OF
        }
        for (uint32_t h = 0; h < G; h++) {
            const float *gate = qg + 2 * (size_t)h * dim + dim;
            float *out = AT(float, a->out) + ((size_t)t * b->n_head + (size_t)j * G + h) * dim, inv = 1.0f / sum[h];
            for (uint32_t d = 0; d < dim; d++)
                out[d] = o[(size_t)h * dim + d] * inv / (1.0f + expf(-gate[d]));
        }
    }
}

const gpu_row_fn ISA_NAME(qsa_fast)[QSA_K_COUNT] = { [K_qsa_score] = score, [K_qsa_score_few] = score, [K_qsa_attend] = attend };
