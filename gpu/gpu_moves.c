/* gpu_moves.c - what the shared rows must move; see moves.h. */
#include "gpu/gpu_kernels.h"

void gpu_add_product(struct gpu_moves *m, const struct gpu_mat *w, uint64_t n_row, uint64_t n_tok)
{
    m->weights += n_row * w->row_bytes;
    m->flops += 2 * n_row * w->n_in * n_tok;
}

/* One row of the table per id, copied to every stream */
void embed_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct embed_args *a = args;
    const struct gpu_mat *table = gpu_at_block(at, a->table);
    m->weights += (uint64_t)at->n_items * table->row_bytes;
    m->activations += moves_words((uint64_t)at->n_items * (1 + (uint64_t)a->n_stream * table->n_in));
}
void embed_dev_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { embed_moves(args, at, m); }

/* x is read once for all jobs */
void matmul_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct matmul_args *a = args;
    const struct matmul_job *job = gpu_at_block(at, a->job);
    uint64_t n = a->n_tok, n_seq = a->apart ? n : 1;
    for (uint32_t i = 0; i < a->n_job; i++) {
        gpu_add_product(m, &job[i].w, job[i].w.n_out, n);
        m->activations += moves_words(n * job[i].w.n_out);
        if (job[i].act != ACT_CONV)
            continue;
        m->vectors += moves_words((uint64_t)job[i].w.n_out * job[i].n_taps);
        m->state += 2 * moves_words(n_seq * job[i].w.n_out * (job[i].n_taps - 1));
        m->flops += 2 * n * job[i].w.n_out * job[i].n_taps;
    }
    m->activations += moves_words(n * job->w.n_in);
}
void matvec_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { matmul_moves(args, at, m); }
void gemm_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { matmul_moves(args, at, m); }

void matmul_int_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct matmul_int_args *a = args;
    matmul_moves(&a->m, at, m);
}

void quantise_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct quantise_args *a = args;
    m->activations += at->n_items * (moves_words(a->n) + int_row_bytes(a->n));
    m->flops += 2 * (uint64_t)at->n_items * a->n;
}

void copy_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct copy_args *a = args;
    (void)at;
    for (uint32_t i = 0; i < COUNT_OF(a->n); i++)
        m->activations += 2 * 16 * (uint64_t)a->n[i];
}

/* Counted as if all rows of the step counted; a span that a narrow job does not have leaves at once */
void slide_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct slide_args *a = args;
    for (uint32_t j = 0; j < a->n_job; j++) {
        const struct slide_job *job = (const struct slide_job *)gpu_at_block(at, a->job) + j;
        m->state += (job->live ? 3 : 2) * moves_words((uint64_t)job->past * job->width);
    }
}

void keep_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct keep_args *a = args;
    m->activations += moves_words((uint64_t)at->n_tok * a->width);
    m->state += moves_words((uint64_t)at->n_tok * a->width);
}

void argmax_part_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct argmax_part_args *a = args;
    uint64_t parts = (a->n + ARGMAX_SPAN - 1) / ARGMAX_SPAN, n_row = at->n_items / parts;
    m->activations += moves_words(n_row * a->n) + n_row * parts * sizeof(struct argmax_best);
    m->flops += n_row * a->n;
}

void argmax_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct argmax_args *a = args;
    m->activations += (uint64_t)at->n_items * (a->n_part + 1) * sizeof(struct argmax_best);
    m->flops += (uint64_t)at->n_items * a->n_part;
}

/* A list of k pairs per span; of pairs the index comes along */
static void top(const struct top_args *a, uint64_t entry_bytes, const struct gpu_at *at, struct gpu_moves *m)
{
    uint64_t spans = (a->n + TOP_SPAN - 1) / TOP_SPAN, n_row = at->n_items / spans;
    m->activations += n_row * (a->n * entry_bytes + spans * a->k * sizeof(struct argmax_best));
    m->flops += n_row * a->n;
}
void top_part_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { top(args, sizeof(float), at, m); }
void top_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { top(args, sizeof(struct argmax_best), at, m); }

void bench_empty_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    (void)args;
    m->activations += 2 * moves_words(at->n_items);
}

void bench_read_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct bench_read_args *a = args;
    m->activations += moves_words((uint64_t)at->n_items * (a->n_word + 1));
}
