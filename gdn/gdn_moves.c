/* gdn_moves.c - what the Gated-DeltaNet rows must move; see gpu/moves.h. */
#include "gdn/gdn.h"

void gdn_conv_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct gdn_conv_args *a = args;
    const struct gdn_block *b = gpu_at_block(at, a->block);
    uint64_t n = a->runs ? at->n_tok : a->n_tok, width = b->width;
    m->vectors += moves_words(width * b->taps);
    m->state += 2 * moves_words(width * (b->taps - 1));
    m->activations += 2 * moves_words(n * width);
    m->flops += n * width * (2 * b->taps + 4);
}

/* S is read and written once per call; a row decays it, reads it with k and with q, and adds an outer product: 7 operations an element */
static void mix(const struct gdn_mix_args *a, uint64_t n, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct gdn_block *b = gpu_at_block(at, a->block);
    uint64_t out = (uint64_t)b->n_v * b->dim, state = out * b->dim;
    m->vectors += moves_words(2 * (uint64_t)b->n_v + b->dim);
    m->state += 2 * moves_words(state);
    m->activations += moves_words(n * (b->width + 2 * out + 2 * (uint64_t)b->n_v));
    m->flops += n * (7 * state + 8 * out);
}
/* The rows of the step run on a copy, and as many rows of the step before go into the state: 3 operations an element each */
void gdn_verify_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m)
{
    const struct gdn_verify_args *a = args;
    const struct gdn_block *b = gpu_at_block(at, a->mix.block);
    uint64_t n = at->n_tok, out = (uint64_t)b->n_v * b->dim;
    mix(&a->mix, a->mix.apart ? n : a->mix.n_tok, at, m);
    m->state += 2 * moves_words(n * (2 * out + b->n_v));
    m->flops += 3 * n * out * b->dim;
}
void gdn_step_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { mix(args, ((const struct gdn_mix_args *)args)->n_tok, at, m); }
void gdn_chunk_moves(const void *args, const struct gpu_at *at, struct gpu_moves *m) { mix(args, ((const struct gdn_mix_args *)args)->n_tok, at, m); }
