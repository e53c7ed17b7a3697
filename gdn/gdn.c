/* gdn.c - the layer as a list of calls, and its table of rows. */
#include "gdn/gdn.h"

#include "gpu/gpu_kernels.h"

#include <string.h>

#define KERNEL KERNEL_CHECK
#include "gdn/gdn_kernels.def"
#undef KERNEL

static const struct gpu_kernel rows[GDN_K_COUNT] = {
#define KERNEL KERNEL_ROW
#include "gdn/gdn_kernels.def"
#undef KERNEL
};

FAST_DECLARE(gdn_fast);
const struct gpu_kernel_table gdn_kernels = { rows, FAST_TABLES(gdn_fast), GDN_K_COUNT };

size_t gdn_state_floats(const struct gdn_dims *d)
{
    return (size_t)d->n_v * d->dim * d->dim + (size_t)(d->taps - 1) * gdn_width(d);
}

/* q, k, v, del, o and what S predicts: six [GDN_CHUNK, dim] blocks; k.k and q.k: two [GDN_CHUNK, GDN_CHUNK]; four vectors. Or a copy of a head's state
 * and two of its rows. */
size_t gdn_scratch_floats(const struct gdn_dims *d)
{
    size_t verify = ((size_t)d->dim + 2) * d->dim;
    return MAX(verify, 6 * (size_t)GDN_CHUNK * d->dim + 2 * (size_t)GDN_CHUNK * GDN_CHUNK + 4 * (size_t)GDN_CHUNK);
}

void gdn_scratch_take(struct gdn_scratch *s, struct arena *a, const struct gdn_dims *d, size_t n_tok)
{
    size_t width = gdn_width(d), v = (size_t)d->n_v * d->dim;
    s->raw = ADDR(arena_take(a, n_tok * width, sizeof(float)));
    s->conv = ADDR(arena_take(a, n_tok * width, sizeof(float)));
    s->gate = ADDR(arena_take(a, n_tok * v, sizeof(float)));
    s->beta = ADDR(arena_take(a, n_tok * d->n_v, sizeof(float)));
    s->alpha = ADDR(arena_take(a, n_tok * d->n_v, sizeof(float)));
    s->mixed = ADDR(arena_take(a, n_tok * v, sizeof(float)));
}

void gdn_fuse_conv(struct gdn_layer *l, const struct gdn_scratch *s)
{
    memcpy(l->step_in, l->in, sizeof l->in);
    l->step_in[0].act = ACT_CONV;
    l->step_in[0].y = s->conv;
    l->step_in[0].taps = l->block.conv;
    l->step_in[0].window = l->block.window;
    l->step_in[0].n_taps = l->block.taps;
}

/* Whether products convolve: those of a device, for the one row of a sequence that a step generates */
static bool fused(const struct gpu_cmd *c, enum gdn_phase phase) { return phase == GDN_DECODE && gpu_backend_of(c->gpu) != GPU_CPU; }

/* What belongs to the sequence of the rows: convolution, unless the products had it in them, and recurrence */
static void recur(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_scratch *s, const struct gdn_dims *d, uint32_t n_tok, enum gdn_phase phase)
{
    if (!fused(c, phase))
        CALL(c, gdn_kernels, K_gdn_conv, gdn_width(d), struct gdn_conv_args, .block = gpu_block(c, &l->block), .raw = s->raw, .out = s->conv,
             .n_tok = n_tok);
    CALL(c, gdn_kernels, phase == GDN_DECODE ? K_gdn_step : K_gdn_chunk, d->n_v, struct gdn_mix_args, .block = gpu_block(c, &l->block), .qkv = s->conv,
         .gate = s->gate, .beta = s->beta, .alpha = s->alpha, .out = s->mixed, .n_tok = n_tok);
}

void gdn_record(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_scratch *s, const struct gdn_dims *d, gpu_addr u, uint32_t n_tok,
                enum gdn_phase phase)
{
    c->part = "gdn";
    gpu_matmul(c, fused(c, phase) ? l->step_in : l->in, COUNT_OF(l->in), u, d->n_embd, n_tok);
    recur(c, l, s, d, n_tok, phase);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_v * d->dim, n_tok);
}

void gdn_rows_take(struct gdn_rows *r, struct arena *a, const struct gdn_dims *d, size_t n_row)
{
    size_t v = (size_t)d->n_v * d->dim;
    r->raw = ADDR(arena_take(a, n_row * gdn_width(d), sizeof(float)));
    r->k = ADDR(arena_take(a, n_row * v, sizeof(float)));
    r->del = ADDR(arena_take(a, n_row * v, sizeof(float)));
    r->decay = ADDR(arena_take(a, n_row * d->n_v, sizeof(float)));
}

void gdn_record_verify(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_scratch *s, const struct gdn_dims *d, const struct gdn_rows *r,
                       gpu_addr fold, gpu_addr u, uint32_t n_tok)
{
    struct gdn_mix_args mix = { .block = gpu_block(c, &l->block), .qkv = s->conv, .gate = s->gate, .beta = s->beta, .alpha = s->alpha, .out = s->mixed,
                                .n_tok = n_tok };
    c->part = "gdn";
    gpu_matmul(c, l->in, COUNT_OF(l->in), u, d->n_embd, n_tok);
    CALL(c, gdn_kernels, K_gdn_conv, gdn_width(d), struct gdn_conv_args, .block = gpu_block(c, &l->block), .raw = r->raw, .out = s->conv, .n_tok = n_tok,
         .stay = 1);
    CALL(c, gdn_kernels, K_gdn_verify, d->n_v, struct gdn_verify_args, .mix = mix, .fold = fold, .k = r->k, .del = r->del, .decay = r->decay);
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_v * d->dim, n_tok);
}

void gdn_record_fold(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_dims *d, const struct gdn_rows *r, gpu_addr fold)
{
    c->part = "gdn";
    CALL(c, gdn_kernels, K_gdn_verify, d->n_v, struct gdn_verify_args, .mix = { .block = gpu_block(c, &l->block) }, .fold = fold, .k = r->k,
         .del = r->del, .decay = r->decay);
}

static struct gdn_scratch scratch_of_row(const struct gdn_scratch *s, const struct gdn_dims *d, uint32_t row)
{
    uint64_t width = row * (uint64_t)gdn_width(d) * sizeof(float), v = row * (uint64_t)d->n_v * d->dim * sizeof(float), head = row * (uint64_t)d->n_v * sizeof(float);
    return (struct gdn_scratch){ .raw = s->raw + width, .conv = s->conv + width, .gate = s->gate + v, .beta = s->beta + head, .alpha = s->alpha + head,
                                 .mixed = s->mixed + v };
}

/* Rows of a step that have to be kept: to where they stay */
static void keep_raw(struct gpu_cmd *c, gpu_addr from, gpu_addr to, const struct gdn_dims *d, uint32_t n)
{
    struct copy_args a = { .from = { from }, .to = { to }, .n = { (uint32_t)((n * (uint64_t)gdn_width(d) * sizeof(float) + 15) / 16) } };
    gpu_record(c, &gpu_kernels, K_copy, &a, sizeof a, (uint32_t)size_up(a.n[0], COPY_GRAIN));
}

static void run_conv(struct gpu_cmd *c, const struct gdn_run *r, const struct gdn_scratch *of, const struct gdn_dims *d)
{
    CALL(c, gdn_kernels, K_gdn_conv, gdn_width(d), struct gdn_conv_args, .block = gpu_block(c, &r->l->block), .raw = of->raw, .out = of->conv, .n_tok = r->n,
         .stay = r->kept != NULL);
}

static void run_mix(struct gpu_cmd *c, const struct gdn_run *r, const struct gdn_scratch *of, const struct gdn_dims *d)
{
    struct gdn_mix_args mix = { .block = gpu_block(c, &r->l->block), .qkv = of->conv, .gate = of->gate, .beta = of->beta, .alpha = of->alpha,
                                .out = of->mixed, .n_tok = r->n };
    if (r->kept)
        CALL(c, gdn_kernels, K_gdn_verify, d->n_v, struct gdn_verify_args, .mix = mix, .fold = r->fold, .k = r->kept->k, .del = r->kept->del,
             .decay = r->kept->decay);
    else
        gpu_record(c, &gdn_kernels, K_gdn_step, &mix, sizeof mix, d->n_v);
}

/* Convolutions of all runs at once, then recurrences of all runs at once */
void gdn_record_runs(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_run *run, uint32_t n_run, const struct gdn_scratch *s,
                     const struct gdn_dims *d, gpu_addr u, uint32_t n_tok)
{
    c->part = "gdn";
    gpu_matmul(c, l->in, COUNT_OF(l->in), u, d->n_embd, n_tok);
    for (int mixes = 0; mixes < 2; mixes++)
        for (uint32_t i = 0; i < n_run; i++) {
            const struct gdn_scratch of = scratch_of_row(s, d, run[i].first);
            c->row = (uint8_t)(1 + i);
            (mixes ? run_mix : run_conv)(c, &run[i], &of, d);
            if (i)
                gpu_record_parallel(c);
            if (mixes || !run[i].kept)
                continue;
            keep_raw(c, of.raw, run[i].kept->raw, d, run[i].n);
            gpu_record_parallel(c);
        }
    c->row = 0;
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_v * d->dim, n_tok);
}

void gdn_record_apart(struct gpu_cmd *c, const struct gdn_layer *l, uint32_t n, const struct gdn_scratch *s, const struct gdn_dims *d, gpu_addr apart,
                      gpu_addr u)
{
    c->part = "gdn";
    gpu_matmul_apart(c, l->step_in, COUNT_OF(l->step_in), u, d->n_embd, n, apart);
    c->row = GPU_EACH_ROW;
    CALL(c, gdn_kernels, K_gdn_step, n * d->n_v, struct gdn_mix_args, .block = gpu_block(c, &l->block), .qkv = s->conv, .gate = s->gate, .beta = s->beta,
         .alpha = s->alpha, .out = s->mixed, .apart = apart, .n_tok = 1);
    c->row = 0;
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_v * d->dim, n);
}

void gdn_record_apart_kept(struct gpu_cmd *c, const struct gdn_layer *l, uint32_t n, const struct gdn_scratch *s, const struct gdn_dims *d,
                           const struct gdn_rows *kept, gpu_addr runs, gpu_addr u)
{
    struct gdn_mix_args mix = { .block = gpu_block(c, &l->block), .qkv = s->conv, .gate = s->gate, .beta = s->beta, .alpha = s->alpha, .out = s->mixed,
                                .apart = runs };
    uint32_t width = gdn_width(d);
    c->part = "gdn";
    gpu_matmul(c, l->in, COUNT_OF(l->in), u, d->n_embd, n);
    c->row = GPU_EACH_RUN;
    CALL(c, gdn_kernels, K_gdn_conv, n * (uint32_t)size_up(width, GDN_CONV_GRAIN), struct gdn_conv_args, .block = mix.block, .raw = s->raw, .out = s->conv,
         .runs = runs, .stay = 1);
    gpu_keep(c, runs, s->raw, kept->raw, width, n);
    gpu_record_parallel(c);
    CALL(c, gdn_kernels, K_gdn_verify, n * d->n_v, struct gdn_verify_args, .mix = mix, .k = kept->k, .del = kept->del, .decay = kept->decay);
    c->row = 0;
    gpu_matmul(c, &l->out, 1, s->mixed, d->n_v * d->dim, n);
}
