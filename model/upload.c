/* upload.c - walks the weights of the trunk once to count and once to pack them into device memory. */
#include "model/upload.h"

#include "gpu/device_weights.h"
#include "gpu/quant_grids.h"
#include "gpu/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows packed at a time: enough for the threads, small enough for the caches of the copy */
enum { PIECE_BYTES = 16 << 20, ALIGN = 256 };

struct walker {
    struct upload *u;
    gpu *g;                /* NULL: only counts */
    team *team;
    uint8_t *piece;        /* [PIECE_BYTES + a row] */
    float **tmp;           /* [threads] a decoded row */
    size_t limit, used;    /* of the current block */
    uint32_t block;
    size_t done;
    gpu_addr book;         /* grid of IQ3_S */
    upload_progress_fn progress;
    void *ctx;
    struct err *e;
};

/* n bytes of the current block, or of a new one. While counting returns 0 and grows the sizes. */
static status take(struct walker *k, size_t n, const char *what, gpu_addr *at)
{
    struct upload *u = k->u;
    n = size_up(n, ALIGN);
    if (n > k->limit)
        return fail(k->e, ERR_UNSUPPORTED, "%s: found %zu bytes, expected at most %zu, the largest allocation of this device", what, n, k->limit);
    if (k->used + n > k->limit) {
        k->used = 0;
        k->block++;
        if (!k->g) {
            size_t *grown = realloc(u->block_bytes, (u->n_block + 1) * sizeof *grown);
            if (!grown)
                return fail(k->e, ERR_NOMEM, "list of weight blocks");
            u->block_bytes = grown;
            u->block_bytes[u->n_block++] = 0;
        }
    }
    *at = k->g ? u->block[k->block].addr + k->used : 0;
    k->used += n;
    if (!k->g) {
        u->block_bytes[k->block] += n;
        u->total += n;
    }
    return OK;
}

/* ---- matrices ---- */

/* Source rows of a matrix: rows_per_expert apart from one expert to the next; on the device the experts lie close together. */
struct packing {
    const struct walker *k;
    const struct gpu_mat *from;
    uint32_t type;
    size_t row_bytes;
    uint64_t first, n; /* rows of this piece, counted on the device */
};
enum { ROWS_AT_ONCE = 32 };

static uint32_t pack_blocks(void *ctx, uint32_t step)
{
    (void)step;
    return (uint32_t)((((const struct packing *)ctx)->n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
}

static void pack_block(void *ctx, uint32_t step, uint32_t block, uint32_t rank)
{
    const struct packing *p = ctx;
    const struct gpu_mat *m = p->from;
    (void)step;
    for (uint64_t r = (uint64_t)block * ROWS_AT_ONCE; r < MIN(p->n, (uint64_t)(block + 1) * ROWS_AT_ONCE); r++) {
        uint64_t row = p->first + r, at = m->rows_per_expert ? row / m->n_out * m->rows_per_expert + row % m->n_out : row;
        device_pack_row(p->type, m->type, AT(const uint8_t, m->data) + at * m->row_bytes, p->k->piece + r * p->row_bytes, m->n_in, p->k->tmp[rank]);
    }
}

static status put_rows(struct walker *k, const struct gpu_mat *from, const struct gpu_mat *to, uint64_t n_row)
{
    uint64_t at_once = MAX((uint64_t)1, PIECE_BYTES / to->row_bytes);
    for (uint64_t r = 0; r < n_row; r += at_once) {
        struct packing p = { k, from, to->type, to->row_bytes, r, MIN(at_once, n_row - r) };
        team_run(k->team, 1, pack_blocks, pack_block, &p);
        TRY(gpu_write(k->g, to->data + r * to->row_bytes, k->piece, p.n * to->row_bytes, k->e));
        k->done += p.n * to->row_bytes;
        if (k->progress && !k->progress(k->ctx, k->done, k->u->total))
            return fail(k->e, ERR_DEVICE, "interrupted while the weights were copied to the device");
    }
    return OK;
}

static void note_decoded(struct upload *u, const char *name)
{
    u->n_decoded++;
    size_t n = strlen(u->decoded);
    if (!strstr(u->decoded, name) && n + strlen(name) + 3 < sizeof u->decoded)
        snprintf(u->decoded + n, sizeof u->decoded - n, "%s%s", n ? ", " : "", name);
}

/* One matrix, or a bank of n_expert. build: the only layout beside the common ones that may be used (0: none; DEV_COUNT: any). */
static status mat(struct walker *k, struct gpu_mat *to, const struct gpu_mat *from, uint32_t n_expert, uint32_t build, const char *what)
{
    *to = *from;
    if (!from->data)
        return OK;
    uint32_t type = device_type_of(from->type, build == 0);
    if (build != DEV_COUNT && !DEV_IS_COMMON(type) && type != build)
        type = device_type_of(from->type, true);
    if (from->n_in % 16)
        return fail(k->e, ERR_UNSUPPORTED, "%s: rows of %u weights, the device kernels take multiples of 16", what, from->n_in);
    if (!k->g && (type == DEV_I8 || (type == DEV_F32 && from->type != QUANT_F32)))
        note_decoded(k->u, quant_type(from->type)->name);
    to->type = type;
    to->row_bytes = device_row_bytes(type, from->n_in);
    to->rows_per_expert = from->rows_per_expert ? from->n_out : 0;
    to->book = type == DEV_IQ3_S ? k->book : 0;
    uint64_t n_row = (uint64_t)from->n_out * (from->rows_per_expert ? n_expert : 1);
    TRY(take(k, n_row * to->row_bytes, what, &to->data));
    return k->g ? put_rows(k, from, to, n_row) : OK;
}

static status vec(struct walker *k, gpu_addr *to, gpu_addr from, size_t n)
{
    *to = from;
    if (!from)
        return OK;
    TRY(take(k, n * sizeof(float), "a vector", to));
    if (!k->g)
        return OK;
    k->done += size_up(n * sizeof(float), ALIGN);
    return gpu_write(k->g, *to, AT(const float, from), n * sizeof(float), k->e);
}

/* ---- the trunk ---- */

static status walk_hc(struct walker *k, struct hc_weights *to, const struct hc_weights *w, const struct shape *s)
{
    TRY(vec(k, &to->norm, w->norm, (size_t)s->n_stream * s->n_embd));
    TRY(mat(k, &to->down, &w->down, 1, 0, "a mixer"));
    TRY(mat(k, &to->up, &w->up, 1, 0, "a mixer"));
    return mat(k, &to->inject, &w->inject, 1, 0, "a mixer");
}

static status walk_gdn(struct walker *k, struct gdn_weights *to, const struct gdn_weights *w, const struct shape *s)
{
    size_t width = (2 * (size_t)s->gdn_k_head + s->gdn_v_head) * s->gdn_dim;
    TRY(mat(k, &to->qkv, &w->qkv, 1, DEV_COUNT, "attn_qkv"));
    TRY(mat(k, &to->gate, &w->gate, 1, DEV_COUNT, "attn_gate"));
    TRY(mat(k, &to->beta, &w->beta, 1, DEV_COUNT, "ssm_beta"));
    TRY(mat(k, &to->alpha, &w->alpha, 1, DEV_COUNT, "ssm_alpha"));
    TRY(mat(k, &to->out, &w->out, 1, DEV_COUNT, "ssm_out"));
    TRY(vec(k, &to->conv, w->conv, width * s->conv_taps));
    TRY(vec(k, &to->a, w->a, s->gdn_v_head));
    TRY(vec(k, &to->dt, w->dt, s->gdn_v_head));
    return vec(k, &to->norm, w->norm, s->gdn_dim);
}

static status walk_qsa(struct walker *k, struct qsa_weights *to, const struct qsa_weights *w, const struct shape *s)
{
    TRY(mat(k, &to->q, &w->q, 1, DEV_COUNT, "attn_q"));
    TRY(mat(k, &to->k, &w->k, 1, DEV_COUNT, "attn_k"));
    TRY(mat(k, &to->v, &w->v, 1, DEV_COUNT, "attn_v"));
    TRY(mat(k, &to->out, &w->out, 1, DEV_COUNT, "attn_output"));
    TRY(mat(k, &to->iq, &w->iq, 1, DEV_COUNT, "indexer.q_proj"));
    TRY(mat(k, &to->ik, &w->ik, 1, DEV_COUNT, "indexer.k_proj"));
    TRY(vec(k, &to->q_norm, w->q_norm, s->head_dim));
    TRY(vec(k, &to->k_norm, w->k_norm, s->head_dim));
    TRY(vec(k, &to->iq_norm, w->iq_norm, s->idx_dim));
    return vec(k, &to->ik_norm, w->ik_norm, s->idx_dim);
}

static status walk_moe(struct walker *k, struct moe_weights *to, const struct moe_weights *w, const struct shape *s)
{
    TRY(mat(k, &to->router, &w->router, 1, DEV_COUNT, "ffn_gate_inp"));
    TRY(mat(k, &to->gate, &w->gate, s->n_expert, DEV_COUNT, "ffn_gate_exps"));
    TRY(mat(k, &to->up, &w->up, s->n_expert, DEV_IS_COMMON(to->gate.type) ? 0 : to->gate.type, "ffn_up_exps")); /* read by gate's build */
    TRY(mat(k, &to->down, &w->down, s->n_expert, DEV_COUNT, "ffn_down_exps"));
    TRY(mat(k, &to->shared_gate, &w->shared_gate, 1, DEV_COUNT, "ffn_gate_shexp"));
    TRY(mat(k, &to->shared_up, &w->shared_up, 1, DEV_COUNT, "ffn_up_shexp"));
    TRY(mat(k, &to->shared_down, &w->shared_down, 1, DEV_IS_COMMON(to->down.type) ? 0 : to->down.type, "ffn_down_shexp"));
    return mat(k, &to->shared_scalar, &w->shared_scalar, 1, DEV_COUNT, "ffn_gate_inp_shexp");
}

static status walk_layer(struct walker *k, struct layer_weights *to, const struct layer_weights *w, const struct shape *s, bool is_qsa)
{
    TRY(walk_hc(k, &to->hc_attn, &w->hc_attn, s));
    TRY(walk_hc(k, &to->hc_ffn, &w->hc_ffn, s));
    if (is_qsa)
        TRY(walk_qsa(k, &to->qsa, &w->qsa, s));
    else
        TRY(walk_gdn(k, &to->gdn, &w->gdn, s));
    return walk_moe(k, &to->moe, &w->moe, s);
}

static status walk(struct walker *k, struct weights *to, const struct weights *w, const struct shape *s)
{
    TRY(take(k, sizeof iq3s_grid, "a code book", &k->book));
    if (k->g)
        TRY(gpu_write(k->g, k->book, iq3s_grid, sizeof iq3s_grid, k->e));
    TRY(mat(k, &to->token_embd, &w->token_embd, 1, DEV_COUNT, "token_embd"));
    TRY(mat(k, &to->output, &w->output, 1, DEV_COUNT, "output"));
    TRY(walk_hc(k, &to->out_hc, &w->out_hc, s));
    for (uint32_t il = 0; il < s->n_layer; il++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%u", il);
        if (walk_layer(k, &to->layer[il], &w->layer[il], s, s->is_qsa[il]) != OK)
            return fail_in(k->e, name);
    }
    if (s->ple_layer < 0)
        return OK;
    size_t wide = (size_t)s->n_stream * s->n_embd;
    TRY(mat(k, &to->ple.key, &w->ple.key, 1, DEV_COUNT, "ple_key"));
    TRY(mat(k, &to->ple.value, &w->ple.value, 1, DEV_COUNT, "ple_value"));
    TRY(vec(k, &to->ple.norm_key, w->ple.norm_key, wide));
    TRY(vec(k, &to->ple.norm_query, w->ple.norm_query, wide));
    TRY(vec(k, &to->ple.norm_conv, w->ple.norm_conv, wide));
    return vec(k, &to->ple.conv, w->ple.conv, wide * s->ple_conv_taps);
}

status upload_plan(struct upload *u, const struct weights *w, const struct shape *s, size_t limit, struct err *e)
{
    struct weights *scratch = malloc(sizeof *scratch);
    if (!scratch)
        return fail(e, ERR_NOMEM, "weights");
    *u = (struct upload){ .limit = limit ? limit : SIZE_MAX / 2, .n_block = 1, .block_bytes = calloc(1, sizeof *u->block_bytes) };
    struct walker k = { .u = u, .limit = u->limit, .e = e };
    *scratch = *w;
    status st = u->block_bytes ? walk(&k, scratch, w, s) : fail(e, ERR_NOMEM, "list of weight blocks");
    free(scratch);
    return st;
}

static uint32_t widest_row(const struct shape *s)
{
    uint32_t n = MAX(s->n_stream * s->n_embd, MAX(s->n_head * s->head_dim, s->gdn_v_head * s->gdn_dim));
    return MAX(n, MAX(MAX(s->expert_ff, s->shared_ff), s->ple_layer >= 0 ? s->ple_head * s->ple_row : 0));
}

status upload_weights(struct upload *u, gpu *g, struct weights *out, const struct weights *w, const struct shape *s, upload_progress_fn progress, void *ctx,
                      struct err *e)
{
    status st = OK;
    struct walker k = { .u = u, .g = g, .e = e, .progress = progress, .ctx = ctx, .limit = u->limit };
    uint32_t n_thread = gpu_cores_available();
    TRY(team_open(&k.team, n_thread, e));
    u->block = calloc(u->n_block, sizeof *u->block);
    k.piece = malloc(PIECE_BYTES + 4 * (size_t)widest_row(s));
    k.tmp = calloc(n_thread, sizeof *k.tmp);
    for (uint32_t i = 0; k.tmp && i < n_thread; i++)
        k.tmp[i] = malloc(widest_row(s) * sizeof(float));
    if (!u->block || !k.piece || !k.tmp)
        st = fail(e, ERR_NOMEM, "upload of the weights");
    for (uint32_t i = 0; st == OK && i < u->n_block; i++)
        st = gpu_alloc(g, &u->block[i], u->block_bytes[i], GPU_MEM_DEVICE, "weights", e);
    *out = *w;
    if (st == OK)
        st = walk(&k, out, w, s);
    for (uint32_t i = 0; k.tmp && i < n_thread; i++)
        free(k.tmp[i]);
    free(k.tmp);
    free(k.piece);
    team_close(k.team);
    return st;
}

void upload_free(struct upload *u, gpu *g)
{
    for (uint32_t i = 0; u->block && i < u->n_block; i++)
        gpu_free(g, &u->block[i]);
    free(u->block);
    free(u->block_bytes);
    *u = (struct upload){ 0 };
}
