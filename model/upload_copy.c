/* upload_copy.c - carries the pieces of a plan from the file to the device, on several threads. */
#include "gpu/device_weights.h"
#include "gpu/team.h"
#include "model/upload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Packed rows are handed over while they are still in the caches. More threads than cores keep the disk busy while others pack.
 */
enum { PACK_BYTES = 1 << 20, MIN_THREADS = 4, MAX_THREADS = 16 };

struct lane {        /* of one thread */
    uint8_t *packed; /* [PACK_BYTES + a row] */
    float *decoded;  /* [max_in] */
};
struct copy {
    struct upload *u;
    gpu *g;
    direct *file;
    struct lane lane[MAX_THREADS];
    pthread_mutex_t lock; /* of all below, and of the device: a backend takes one call at a time */
    size_t done;
    upload_progress_fn progress;
    void *ctx;
    struct err *e; /* the first failure */
    atomic_bool failed;
};

static status hand_over(struct copy *c, const struct upload_item *it, size_t at, const uint8_t *packed, size_t n, struct err *e)
{
    const struct gpu_mem *m = &c->u->block[it->block];
    if (m->map) {
        memcpy((uint8_t *)m->map + it->offset + at, packed, n);
        return OK;
    }
    pthread_mutex_lock(&c->lock);
    status s = gpu_write(c->g, m->addr + it->offset + at, packed, n, e);
    pthread_mutex_unlock(&c->lock);
    return s;
}

static status report(struct copy *c, size_t n, struct err *e)
{
    pthread_mutex_lock(&c->lock);
    c->done += n;
    bool go = atomic_load(&c->failed) || !c->progress || c->progress(c->ctx, c->done, c->u->total);
    pthread_mutex_unlock(&c->lock);
    return go ? OK : fail(e, ERR_DEVICE, "interrupted while the weights were copied");
}

/* n rows that keep their type, or are narrowed, to the memory of the host */
static void copy_rows(const struct copy *c, const struct upload_item *it, uint64_t first, const uint8_t *rows, uint64_t n)
{
    uint8_t *to = (uint8_t *)c->u->block[it->block].host + it->offset + first * it->row_bytes;
    if (it->type == it->from.type && it->row_bytes == it->from.row_bytes) {
        memcpy(to, rows, n * it->row_bytes);
        return;
    }
    for (uint64_t i = 0; i < n; i++, to += it->row_bytes, rows += it->from.row_bytes)
        if (it->type == it->from.type)
            memcpy(to, rows, it->row_bytes);
        else
            device_pack_row(DEV_BF16, it->from.type, rows, to, it->from.n_in, NULL);
}

static status carry(struct copy *c, const struct upload_piece *p, uint32_t rank, struct err *e)
{
    const struct upload_item *it = &c->u->item[p->item];
    const struct lane *l = &c->lane[rank];
    const uint8_t *rows;
    uint64_t at_once = MAX((uint64_t)1, PACK_BYTES / it->row_bytes);
    TRY(direct_read(c->file, rank, p->from, upload_source_bytes(&it->from, p->n), &rows, e));
    if (c->u->as_file) {
        copy_rows(c, it, p->first, rows, p->n);
        return report(c, p->n * it->row_bytes, e);
    }
    for (uint64_t r = 0, n; r < p->n; r += n) {
        n = MIN(at_once, p->n - r);
        for (uint64_t i = 0; i < n; i++)
            device_pack_row(it->type, it->from.type, rows + (r + i) * it->from.row_bytes, l->packed + i * it->row_bytes,
                            it->from.n_in, l->decoded);
        TRY(hand_over(c, it, (p->first + r) * it->row_bytes, l->packed, n * it->row_bytes, e));
    }
    return report(c, p->n * it->row_bytes, e);
}

static uint32_t count_pieces(void *ctx, uint32_t step)
{
    (void)step;
    return ((const struct copy *)ctx)->u->n_piece;
}

static void carry_piece(void *ctx, uint32_t step, uint32_t piece, uint32_t rank)
{
    struct copy *c = ctx;
    struct err e;
    (void)step;
    if (atomic_load(&c->failed) || carry(c, &c->u->piece[piece], rank, &e) == OK)
        return;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->failed))
        *c->e = e;
    atomic_store(&c->failed, true);
    pthread_mutex_unlock(&c->lock);
}

static status run(struct copy *c, uint32_t n_thread)
{
    team *t = NULL;
    for (uint32_t i = 0; i < n_thread; i++) {
        c->lane[i] = (struct lane){ malloc(PACK_BYTES + c->u->max_row), malloc(c->u->max_in * sizeof(float)) };
        if (!c->lane[i].packed || !c->lane[i].decoded)
            return fail(c->e, ERR_NOMEM, "upload of the weights");
    }
    TRY(team_open(&t, n_thread, c->e));
    team_run(t, 1, count_pieces, carry_piece, c);
    team_close(t);
    return atomic_load(&c->failed) ? c->e->code : direct_unchanged(c->file, c->e);
}

status upload_allocate(struct upload *u, gpu *g, struct err *e)
{
    u->block = calloc(u->n_block, sizeof *u->block);
    if (!u->block)
        return fail(e, ERR_NOMEM, "list of weight blocks");
    for (uint32_t i = 0; i < u->n_block; i++)
        TRY(gpu_alloc(g, &u->block[i], u->block_bytes[i], GPU_MEM_DEVICE, "weights", e));
    return OK;
}

status upload_weights(struct upload *u, gpu *g, struct weights *out, const struct upload_from *from, upload_progress_fn progress,
                      void *ctx, struct err *e)
{
    uint32_t n_thread = MIN(MAX(gpu_cores_available(), MIN_THREADS), MAX_THREADS);
    struct copy c = { .u = u, .g = g, .progress = progress, .ctx = ctx, .e = e, .lock = PTHREAD_MUTEX_INITIALIZER };
    TRY(upload_allocate(u, g, e));
    TRY(upload_place(u, out, from, e));
    status s = direct_open(&c.file, from->file, n_thread, MAX((size_t)UPLOAD_PIECE_BYTES, u->max_source_row), from->load, e);
    if (s == OK)
        s = run(&c, n_thread);
    direct_close(c.file);
    for (uint32_t i = 0; i < n_thread; i++) {
        free(c.lane[i].packed);
        free(c.lane[i].decoded);
    }
    return s;
}
