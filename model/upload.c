/* upload.c - walks the weights: once to choose layouts and places and to cut the work into pieces, once to hand out addresses. */
#include "model/upload.h"

#include "gpu/device_weights.h"
#include "gpu/quant_grids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

struct walker {
    struct upload *u;
    direct *file;      /* of the first walk; NULL: the second one */
    size_t used;       /* of the last block */
    uint32_t next;     /* second walk: the item that comes now */
    gpu_addr book;     /* grid of IQ3_S */
    struct err *e;
};

/* Room for one more in a list of n; it grows at powers of two. */
static bool grow(void **list, size_t n, size_t elem_bytes)
{
    if (n & (n - 1))
        return true;
    void *p = realloc(*list, (n ? 2 * n : 1) * elem_bytes);
    if (p)
        *list = p;
    return p != NULL;
}

/* ---- first walk: places and pieces ---- */

/* A place for n bytes in the last block, or in a new one. */
static status take(struct walker *k, size_t n, const char *what, struct upload_item *it)
{
    struct upload *u = k->u;
    n = size_up(n, ALIGN);
    if (n > u->limit)
        return fail(k->e, ERR_UNSUPPORTED, "%s: found %zu bytes, expected at most %zu, the largest allocation of this device", what, n, u->limit);
    if (u->n_block == 0 || k->used + n > u->limit) {
        size_t *grown = realloc(u->block_bytes, (u->n_block + 1) * sizeof *grown);
        if (!grown)
            return fail(k->e, ERR_NOMEM, "list of weight blocks");
        u->block_bytes = grown;
        u->block_bytes[u->n_block++] = 0;
        k->used = 0;
    }
    it->block = u->n_block - 1;
    it->offset = k->used;
    k->used += n;
    u->block_bytes[it->block] += n;
    u->total += n;
    return OK;
}

/* The rows from number `first` on that lie side by side in the file and are not too many for one piece. Rows are counted as on the device, where
 * the experts lie close together. */
static struct upload_piece piece_at(const struct upload_item *it, uint64_t first)
{
    const struct gpu_mat *m = &it->from;
    uint64_t at = first, n = MIN(it->n_row - first, MAX((uint64_t)1, UPLOAD_PIECE_BYTES / m->row_bytes));
    if (m->rows_per_expert) {
        at = first / m->n_out * m->rows_per_expert + first % m->n_out;
        if (m->rows_per_expert != m->n_out)
            n = MIN(n, m->n_out - first % m->n_out);
    }
    return (struct upload_piece){ .first = first, .n = n, .from = AT(const uint8_t, m->data) + at * m->row_bytes };
}

size_t upload_source_bytes(const struct gpu_mat *from, uint64_t n)
{
    const struct quant_type *t = quant_type(from->type);
    return (size_t)(n - 1) * from->row_bytes + (from->n_in + t->block_len - 1) / t->block_len * (size_t)t->block_bytes;
}

/* A float matrix that is all bfloat16 goes there as such: half the bytes, every weight as it was. */
static status narrow(struct walker *k, struct upload_item *it)
{
    struct upload_piece p;
    const uint8_t *rows;
    for (uint64_t r = 0; r < it->n_row; r += p.n) {
        p = piece_at(it, r);
        TRY(direct_read(k->file, 0, p.from, upload_source_bytes(&it->from, p.n), &rows, k->e));
        for (uint64_t i = 0; i < p.n; i++)
            if (!device_narrows(rows + i * it->from.row_bytes, it->from.n_in))
                return OK;
    }
    it->type = k->u->as_file ? QUANT_BF16 : DEV_BF16;
    k->u->n_narrowed++;
    return OK;
}

static status add_item(struct walker *k, struct upload_item *it, const char *what)
{
    struct upload *u = k->u;
    if (!u->as_file)
        it->row_bytes = device_row_bytes(it->type, it->from.n_in);
    else
        it->row_bytes = it->type == it->from.type ? upload_source_bytes(&it->from, 1) : it->from.n_in * sizeof(uint16_t);
    TRY(take(k, it->n_row * it->row_bytes, what, it));
    for (struct upload_piece p = { .n = 0 }; p.first + p.n < it->n_row;) {
        p = piece_at(it, p.first + p.n);
        p.item = u->n_item;
        if (!grow((void **)&u->piece, u->n_piece, sizeof *u->piece))
            return fail(k->e, ERR_NOMEM, "list of pieces of weights");
        u->piece[u->n_piece++] = p;
    }
    if (!grow((void **)&u->item, u->n_item, sizeof *u->item))
        return fail(k->e, ERR_NOMEM, "list of weights");
    u->item[u->n_item++] = *it;
    u->max_source_row = MAX(u->max_source_row, it->from.row_bytes);
    u->max_row = MAX(u->max_row, it->row_bytes);
    u->max_in = MAX(u->max_in, it->from.n_in);
    return OK;
}

static void note_decoded(struct upload *u, const char *name)
{
    u->n_decoded++;
    size_t n = strlen(u->decoded);
    if (!strstr(u->decoded, name) && n + strlen(name) + 3 < sizeof u->decoded)
        snprintf(u->decoded + n, sizeof u->decoded - n, "%s%s", n ? ", " : "", name);
}

/* ---- both walks: a matrix, a vector ---- */

static const struct upload_item *next_item(struct walker *k, gpu_addr *at)
{
    const struct upload_item *it = &k->u->item[k->next++];
    *at = k->u->block[it->block].addr + it->offset;
    return it;
}

/* One matrix, or a bank of n_expert. build: the only layout beside the common ones that may be used (0: none; DEV_COUNT: any). */
static status mat(struct walker *k, struct gpu_mat *to, const struct gpu_mat *from, uint32_t n_expert, uint32_t build, const char *what)
{
    struct upload_item it = { .from = *from, .n_row = (uint64_t)from->n_out * (from->rows_per_expert ? n_expert : 1) };
    *to = *from;
    if (!from->data)
        return OK;
    if (k->file && k->u->as_file) {
        it.type = from->type;
        if (from->type == QUANT_F32)
            TRY(narrow(k, &it));
        TRY(add_item(k, &it, what));
    } else if (k->file) {
        it.type = device_type_of(from->type, build == 0);
        if (build != DEV_COUNT && !DEV_IS_COMMON(it.type) && it.type != build)
            it.type = device_type_of(from->type, true);
        if (from->n_in % 16)
            return fail(k->e, ERR_UNSUPPORTED, "%s: rows of %u weights, the device kernels take multiples of 16", what, from->n_in);
        if (it.type == DEV_I8 || (it.type == DEV_F32 && from->type != QUANT_F32))
            note_decoded(k->u, quant_type(from->type)->name);
        if (from->type == QUANT_F32)
            TRY(narrow(k, &it));
        TRY(add_item(k, &it, what));
    } else {
        it = *next_item(k, &to->data);
    }
    to->type = it.type;
    to->row_bytes = it.row_bytes;
    to->rows_per_expert = from->rows_per_expert ? from->n_out : 0;
    to->book = !k->u->as_file && it.type == DEV_IQ3_S ? k->book : 0;
    return OK;
}

/* n words that are taken as they are: one row. */
static status vec(struct walker *k, gpu_addr *to, gpu_addr from, size_t n)
{
    const struct gpu_mat row = { .data = from, .row_bytes = n * sizeof(float), .type = QUANT_F32, .n_in = (uint32_t)n, .n_out = 1 };
    *to = from;
    if (!from)
        return OK;
    if (k->file)
        return add_item(k, &(struct upload_item){ .from = row, .type = k->u->as_file ? QUANT_F32 : DEV_F32, .n_row = 1 }, "a vector");
    next_item(k, to);
    return OK;
}

/* ---- the parts of a model ---- */

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

static status walk_ple(struct walker *k, struct ple_weights *to, const struct ple_weights *w, const struct shape *s)
{
    size_t wide = (size_t)s->n_stream * s->n_embd;
    TRY(mat(k, &to->key, &w->key, 1, DEV_COUNT, "ple_key"));
    TRY(mat(k, &to->value, &w->value, 1, DEV_COUNT, "ple_value"));
    TRY(vec(k, &to->norm_key, w->norm_key, wide));
    TRY(vec(k, &to->norm_query, w->norm_query, wide));
    TRY(vec(k, &to->norm_conv, w->norm_conv, wide));
    return vec(k, &to->conv, w->conv, wide * s->ple_conv_taps);
}

static status walk_draft(struct walker *k, struct draft_weights *to, const struct draft_weights *w, const struct shape *s)
{
    TRY(walk_layer(k, &to->layer, &w->layer, s, true));
    TRY(walk_hc(k, &to->head, &w->head, s));
    TRY(vec(k, &to->enorm, w->enorm, s->n_embd));
    TRY(vec(k, &to->hnorm, w->hnorm, (size_t)s->n_stream * s->n_embd));
    TRY(mat(k, &to->fc_embd, &w->fc_embd, 1, DEV_COUNT, "nextn.eh_proj"));
    TRY(mat(k, &to->fc_hidden, &w->fc_hidden, 1, DEV_COUNT, "nextn.eh_proj"));
    TRY(mat(k, &to->embd, &w->embd, 1, DEV_COUNT, "nextn.embed_tokens"));
    return mat(k, &to->output, &w->output, 1, DEV_COUNT, "nextn.shared_head_head");
}

/* head: the draft head too */
static status walk(struct walker *k, struct weights *to, const struct weights *w, const struct shape *s, bool head)
{
    _Static_assert(sizeof iq3s_grid[0] == sizeof(float), "a grid is copied as a vector");
    TRY(vec(k, &k->book, ADDR(iq3s_grid), COUNT_OF(iq3s_grid)));
    TRY(mat(k, &to->token_embd, &w->token_embd, 1, DEV_COUNT, "token_embd"));
    TRY(mat(k, &to->output, &w->output, 1, DEV_COUNT, "output"));
    TRY(walk_hc(k, &to->out_hc, &w->out_hc, s));
    for (uint32_t il = 0; il < s->n_layer; il++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%u", il);
        if (walk_layer(k, &to->layer[il], &w->layer[il], s, s->is_qsa[il]) != OK)
            return fail_in(k->e, name);
    }
    if (s->ple_layer >= 0 && walk_ple(k, &to->ple, &w->ple, s) != OK)
        return fail_in(k->e, "n-gram path");
    if (!head || !w->draft.enorm)
        to->draft = (struct draft_weights){ 0 };
    else if (walk_draft(k, &to->draft, &w->draft, s) != OK)
        return fail_in(k->e, "draft head");
    return OK;
}

status upload_plan(struct upload *u, const struct upload_from *from, size_t limit, struct err *e)
{
    struct weights *scratch = malloc(sizeof *scratch);
    struct walker k = { .u = u, .e = e };
    *u = (struct upload){ .limit = limit ? limit : SIZE_MAX / 2, .as_file = from->as_file };
    if (!scratch)
        return fail(e, ERR_NOMEM, "weights");
    *scratch = *from->weights;
    status s = direct_open(&k.file, from->file, 1, UPLOAD_PIECE_BYTES, from->load, e);
    if (s == OK)
        s = walk(&k, scratch, from->weights, from->shape, from->head);
    direct_close(k.file);
    free(scratch);
    return s;
}

status upload_place(struct upload *u, struct weights *out, const struct upload_from *from, struct err *e)
{
    struct walker k = { .u = u, .e = e };
    *out = *from->weights;
    return walk(&k, out, from->weights, from->shape, from->head);
}

void upload_free(struct upload *u, gpu *g)
{
    for (uint32_t i = 0; u->block && i < u->n_block; i++)
        gpu_free(g, &u->block[i]);
    free(u->block);
    free(u->block_bytes);
    free(u->item);
    free(u->piece);
    *u = (struct upload){ 0 };
}
