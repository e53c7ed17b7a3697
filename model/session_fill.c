/* session_fill.c - random caches, so that a depth can be measured without evaluating that many tokens. */
#include "model/session_impl.h"

#include "gpu/quant.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 256, PART_BYTES = 1 << 20 };

/* Bytes of a seeded stream, and what is written with them. */
struct filling {
    gpu *gpu;
    uint64_t x;              /* xorshift64 */
    float level[LEVELS];     /* evenly spaced, mean 0, variance 1: what a normalised key has */
    uint16_t half[LEVELS];
    size_t tile_values;
    uint8_t *part;           /* [PART_BYTES] */
};

static uint8_t *random_bytes(struct filling *f, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof f->x) {
        f->x ^= f->x << 13, f->x ^= f->x >> 7, f->x ^= f->x << 17;
        uint64_t y = f->x * 0x2545F4914F6CDD1Du;
        memcpy(out + i, &y, MIN(sizeof y, n - i));
    }
    return out;
}

/* n_bytes at `at`, in pieces of `piece` bytes, each of which one call of fn makes. */
typedef void (*make_fn)(struct filling *f, uint8_t *out, size_t n_bytes);
static status write_pieces(struct filling *f, gpu_addr at, size_t n_bytes, size_t piece, make_fn make, struct err *e)
{
    size_t most = MAX((size_t)1, PART_BYTES / piece) * piece;
    for (size_t done = 0, n; done < n_bytes; done += n) {
        n = MIN(n_bytes - done, most);
        for (size_t i = 0; i < n; i += piece)
            make(f, f->part + i, MIN(piece, n - i));
        TRY(gpu_write(f->gpu, at + done, f->part, n, e));
    }
    return OK;
}

static void make_f32(struct filling *f, uint8_t *out, size_t n_bytes)
{
    uint8_t r[1024];
    random_bytes(f, r, n_bytes / sizeof(float));
    for (size_t i = 0; i < n_bytes / sizeof(float); i++)
        memcpy(out + i * sizeof(float), &f->level[r[i]], sizeof(float));
}
static void make_f16(struct filling *f, uint8_t *out, size_t n_bytes)
{
    uint8_t r[1024];
    random_bytes(f, r, n_bytes / sizeof(uint16_t));
    for (size_t i = 0; i < n_bytes / sizeof(uint16_t); i++)
        memcpy(out + i * sizeof(uint16_t), &f->half[r[i]], sizeof(uint16_t));
}
/* A whole tile: the values, then scales under which they have about variance 1 */
static void make_q8(struct filling *f, uint8_t *out, size_t n_bytes)
{
    uint16_t scale = f32_to_f16(1.0f / 74);
    random_bytes(f, out, f->tile_values);
    for (size_t i = f->tile_values; i + sizeof scale <= n_bytes; i += sizeof scale)
        memcpy(out + i, &scale, sizeof scale);
}

status session_fill(session *s, size_t n_past, uint64_t seed, struct err *e)
{
    const struct shape *sh = &s->m->shape;
    size_t tile = qsa_tile_bytes(sh->head_dim, s->f.kv_type), head_bytes = qsa_cap_blocks(n_past) * tile, head_stride = s->f.cap_blocks * tile;
    size_t key = sh->idx_dim * sizeof(float);
    struct filling f = { .gpu = s->m->gpu, .x = ((seed + 1) * 0x9E3779B97F4A7C15u) | 1, .tile_values = QSA_BLOCK * (size_t)sh->head_dim };
    status st = OK;
    TRY(session_flush(s, NULL, NULL, e));
    if (n_past < s->n_past || n_past > s->p.n_ctx)
        return fail(e, ERR_USAGE, "fill up to position %zu, expected %zu..%zu", n_past, s->n_past, s->p.n_ctx);
    f.part = malloc(MAX((size_t)PART_BYTES, tile));
    if (!f.part)
        return fail(e, ERR_NOMEM, "a buffer of %d bytes", PART_BYTES);
    for (uint32_t i = 0; i < LEVELS; i++) {
        f.level[i] = ((float)i - (LEVELS - 1) * 0.5f) / 73.9f;
        f.half[i] = f32_to_f16(f.level[i]);
    }
    make_fn make = s->f.kv_type == QSA_KV_F32 ? make_f32 : s->f.kv_type == QSA_KV_F16 ? make_f16 : make_q8;
    size_t piece = s->f.kv_type == QSA_KV_Q8_0 ? tile : 1024;
    for (uint32_t il = 0; il < sh->n_layer; il++) {
        const struct layer_state *l = &s->state[il];
        for (uint32_t j = 0; j < sh->n_head_kv && sh->is_qsa[il]; j++) {
            TRY_OR(out, st, write_pieces(&f, l->k + j * head_stride, head_bytes, piece, make, e));
            TRY_OR(out, st, write_pieces(&f, l->v + j * head_stride, head_bytes, piece, make, e));
        }
        if (sh->ratio[il])
            TRY_OR(out, st, write_pieces(&f, l->pooled, n_past / QSA_BLOCK * key, 1024, make_f32, e));
        if (l->keys.raw)
            TRY_OR(out, st, write_pieces(&f, l->keys.raw, n_past * key, 1024, make_f32, e));
    }
    s->n_past = n_past;
out:
    free(f.part);
    return st;
}
