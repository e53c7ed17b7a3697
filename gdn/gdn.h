/* gdn.h - the Gated-DeltaNet layer: short convolution, gated delta rule, output norm and gate. Mathematics: spec page "model" section 3;
 * the delta rule is that of Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024). */
#ifndef HAYATE_GDN_GDN_H
#define HAYATE_GDN_GDN_H

#include "gdn/gdn_args.h"
#include "gpu/kernels.h"

enum {
#define KERNEL KERNEL_ID
#include "gdn/gdn_kernels.def"
#undef KERNEL
    GDN_K_COUNT
};
#define KERNEL KERNEL_REF_PROTO
#include "gdn/gdn_kernels.def"
#undef KERNEL
extern const struct gpu_kernel_table gdn_kernels;

struct gdn_dims {
    uint32_t n_embd, n_k, n_v, dim, taps;
};
static inline uint32_t gdn_width(const struct gdn_dims *d) { return (2 * d->n_k + d->n_v) * d->dim; }
/* Recurrent state of one layer in floats: S and the convolution window. */
size_t gdn_state_floats(const struct gdn_dims *d);
/* Floats of thread scratch that the rows need. */
size_t gdn_scratch_floats(const struct gdn_dims *d);

/* Scratch shared by all layers of this kind, for n_tok rows. */
struct gdn_scratch {
    gpu_addr raw, conv, gate, beta, alpha, mixed;
};
void gdn_scratch_take(struct gdn_scratch *s, struct arena *a, const struct gdn_dims *d, size_t n_tok);

/* One layer: its block and the products on both sides of the recurrence. */
struct gdn_layer {
    struct gdn_block block;
    struct matmul_job in[4]; /* qkv, gate, beta, alpha */
    struct matmul_job step_in[4]; /* on a device, decode: the same with the convolution of qkv in the product */
    struct matmul_job out;
};

enum gdn_phase { GDN_DECODE, GDN_PREFILL, GDN_VERIFY };
/* What a verify step keeps of its rows, so that any number of them can still be taken back; see struct gdn_verify_args. */
struct gdn_rows {
    gpu_addr raw;           /* [rows, width] f32: qkv before the convolution */
    gpu_addr k, del, decay; /* records */
};
void gdn_rows_take(struct gdn_rows *r, struct arena *a, const struct gdn_dims *d, size_t n_row);
/* Fills step_in from in and the block. */
void gdn_fuse_conv(struct gdn_layer *l, const struct gdn_scratch *s);
/* y = GDN(u) for n_tok rows that follow the state, which moves on. Records only.
 *   u [n_tok, n_embd] f32     y (= layer->out.y) [n_tok, n_embd] f32 */
void gdn_record(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_scratch *s, const struct gdn_dims *d, gpu_addr u, uint32_t n_tok,
                enum gdn_phase phase);
/* The same for rows that may be taken back: the *fold first rows of r count from now on and go into the state; the new ones replace them in r and leave
 * state and window alone. l->in[0].y is r->raw. */
void gdn_record_verify(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_scratch *s, const struct gdn_dims *d, const struct gdn_rows *r,
                       gpu_addr fold, gpu_addr u, uint32_t n_tok);
/* The first half of that alone. */
void gdn_record_fold(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_dims *d, const struct gdn_rows *r, gpu_addr fold);
/* Rows of a step that follow each other in one sequence, whose state is that of l. */
struct gdn_run {
    const struct gdn_layer *l;
    const struct gdn_rows *kept; /* they may be taken back, as in gdn_record_verify, and *fold is of these; NULL: they count */
    gpu_addr fold;
    uint32_t first, n;           /* rows; one where they count */
};
/* The same for the n_tok rows of n_run sequences, in order; the products are those of l. */
void gdn_record_runs(struct gpu_cmd *c, const struct gdn_layer *l, const struct gdn_run *run, uint32_t n_run, const struct gdn_scratch *s,
                     const struct gdn_dims *d, gpu_addr u, uint32_t n_tok);
/* On a device: the same for one row of each of n sequences, all of which count, in one call, which has the blocks of l and finds those of row r by the step
 * block number r of `apart` (struct gpu_step). */
void gdn_record_apart(struct gpu_cmd *c, const struct gdn_layer *l, uint32_t n, const struct gdn_scratch *s, const struct gdn_dims *d, gpu_addr apart,
                      gpu_addr u);
/* The same for n rows of any sequences that may all be taken back, as in gdn_record_verify, by their runs (n struct gpu_run). kept: of the sequence of l. */
void gdn_record_apart_kept(struct gpu_cmd *c, const struct gdn_layer *l, uint32_t n, const struct gdn_scratch *s, const struct gdn_dims *d,
                           const struct gdn_rows *kept, gpu_addr runs, gpu_addr u);

#endif
