/* forward.h - the layer schedule of one session: layer blocks, scratch, and the functions that record a step. */
#ifndef HAYATE_MODEL_FORWARD_H
#define HAYATE_MODEL_FORWARD_H

#include "gdn/gdn.h"
#include "gpu/top_args.h"
#include "model/model_args.h"
#include "model/ngram.h"
#include "model/weights.h"
#include "qsa/qsa.h"

/* Caches and recurrent state of one layer, placed by the session. */
struct layer_state {
    gpu_addr k, v, pooled, window;  /* QSA */
    struct qsa_raw_keys keys;       /* when struct qsa_form keeps raw index keys */
    gpu_addr gdn_state, gdn_window; /* GDN */
};

enum { DECODE_ROWS = 8 }; /* rows of a decode step, at most */

/* What the host writes for every step. */
struct forward_step {
    uint32_t fold[4 + DECODE_ROWS];        /* rows of the last verify step that count; [1 + i] of run i, where the rows are of several sequences */
    struct gpu_run run[DECODE_ROWS];       /* where they are, on a device */
    struct gpu_step step[1 + DECODE_ROWS]; /* of the step; where the rows are of several sequences, of its run i alone, on a device of its row i */
};

/* A hyper-connection module, ready to record. */
struct hc_layer {
    gpu_addr norm;
    struct matmul_job down[2]; /* down; inject, absent in the final mixer */
    struct matmul_job up;
    struct hc_mats mats;       /* the same matrices, for the rows of a device */
    uint32_t n_down;
};

struct forward_layer {
    struct hc_layer hc_attn, hc_ffn;
    struct gdn_layer gdn; /* one of the two */
    struct qsa_layer qsa;
    struct moe_block moe;
    struct matmul_job moe_in[4]; /* router, shared gate, shared up, shared scalar */
    struct matmul_job shared_down; /* on a device, many rows */
};

/* Rows that may be taken back (forward_verify.c). Of one layer, or of the n-gram path, what a step keeps of them; and second windows for rows that move
 * theirs whether they count or not. */
struct verify_rows {
    struct gdn_rows gdn;
    gpu_addr next;   /* [DECODE_ROWS, ..] f32: index keys; of the n-gram path what its convolution reads */
    gpu_addr window; /* as the one of the layer */
};
struct forward_verify {
    struct verify_layer {
        struct gdn_layer gdn; /* as in struct forward_layer, but what has to be kept goes to verify_rows */
        struct qsa_layer qsa;
    } *layer;                 /* [n_layer]; NULL: the session takes nothing back */
    struct slide_job *slide;  /* [n_slide] */
    uint32_t n_slide, slide_spans;
    const struct verify_rows *rows; /* [n_layer + 1], the last of the n-gram path */
    gpu_addr rows_at;               /* where their memory begins */
};

struct forward {
    const struct shape *shape;
    const struct weights *w;
    struct gdn_dims gdn;
    struct qsa_dims qsa;
    uint32_t cap_blocks;
    uint32_t max_tok;    /* rows of the largest step */
    uint32_t max_logits; /* rows of the largest head */
    uint32_t kv_type;    /* QSA_KV_* */
    bool matrix;         /* many rows may run on its matrix units */
    bool integers;       /* cpu: products with quantised weights work with integer rows */
    bool device;         /* not the cpu: weights in device layouts, few rows in fused calls */

    /* layer blocks: built once by the host, then copied to where kernels read them */
    struct forward_layer *layer; /* [n_layer] */
    struct hc_layer *out_hc;
    struct matmul_job *head;
    struct matmul_job *ple_in;   /* [2]: key, value */
    struct gpu_mat *token_embd;
    struct ple_block *ple_block; /* [2]: of the sequence; of its verify steps */
    /* SHARED memory: what the host writes for every step. A device copies it to the places *_at first. */
    struct gpu_step *step; /* [1 + DECODE_ROWS], in a struct forward_step */
    struct gpu_run *run; /* [DECODE_ROWS] */
    uint32_t *fold;      /* [1 + DECODE_ROWS] */
    gpu_addr step_at, run_at, fold_at, ids_at, rope_at, ngram_at, shared_delta;
    gpu_addr best_at;    /* [DECODE_ROWS, TOP_MAX] struct argmax_best, SHARED too: what forward_choose finds */
    int32_t *ids;        /* [max_tok] */
    float *rope;         /* [3 + max_tok, rope_dim] */
    float *inv_freq;     /* [rope_dim / 2] inverse frequencies of the rope table */
    float *ngram;        /* [max_tok, ple_head * ple_row] */
    struct ngram_reader reader;

    /* while recording */
    struct forward_runs {
        const struct forward_run *run; /* [n], in the same scratch */
        uint32_t n;                    /* 0: all rows are of this one */
        bool apart, kept;              /* one call for all (see struct gpu_step), which are n rows of whatever runs; they may be taken back */
    } runs;
    gpu_addr residual;   /* [max_tok, n_stream, n_embd]: where it is now */
    bool pending;        /* y of the last block is not in it yet */

    /* scratch in DEVICE memory; f32 */
    gpu_addr residuals[2]; /* a fused mixer reads one and writes the other; one place on the cpu */
    gpu_addr part, squares; /* fused mixer: see struct hc_down_args */
    gpu_addr norm, gate; /* [max_tok, n_stream, n_embd] */
    gpu_addr low;        /* [max_tok, hc_rank] */
    gpu_addr inject;     /* [max_tok, n_stream] */
    gpu_addr u, y;       /* [max_tok, n_embd] */
    gpu_addr rows;       /* integers: rows of what is multiplied (gpu/int_rows.h), aligned to 64 bytes */
    gpu_addr logits;     /* [max_logits, n_vocab] */
    gpu_addr parts[2];   /* lists of forward_choose on the way */
    struct gdn_scratch gdn_s;
    struct qsa_scratch qsa_s;
    struct {
        gpu_addr logits, id, weight, group, expert, start, row, share, cursor, h;
        gpu_addr shared_gate, shared_up, shared_h, shared_scalar;
        gpu_addr count, entry_of, tile, n_tile, e, shared_y; /* on a device, many rows */
    } moe_s;
    struct {
        gpu_addr key, value, gv, z;
        gpu_addr norm_key, norm_query, norm_conv, conv;
    } ple_s;
    struct forward_verify verify;
};

/* Dimensions and limits; before forward_place. rounded: operands may be rounded, to f16 for the matrix units of a device, to integers on the cpu. */
void forward_init(struct forward *f, const struct shape *s, const struct weights *w, size_t n_ctx, uint32_t max_tok, uint32_t kv_type, struct qsa_form form,
                  bool device, bool rounded);
/* Says that steps will hold up to n_row rows of several sequences; between forward_init and forward_place. */
void forward_together(struct forward *f, uint32_t n_row);
/* ERR_UNSUPPORTED, by name, for a shape outside the bounds of the device kernels. */
status forward_check_device(const struct shape *s, struct err *e);
/* Memory of a session. Each may only count. */
struct forward_memory {
    struct arena blocks;   /* host memory, mirrored for a device */
    struct arena shared;   /* SHARED memory, by its host addresses */
    gpu_addr shared_delta; /* device address minus host address of it */
    struct arena scratch;  /* DEVICE memory */
};
/* Takes what is needed and, when there is memory, builds the layer blocks with the state of each layer. */
void forward_place(struct forward *f, struct forward_memory *m, const struct layer_state *state, gpu_addr ple_window);
/* Its part for what the host writes and reads in every step. */
void forward_place_step(struct forward *f, struct forward_memory *m);
/* Floats of working memory a thread needs. */
size_t forward_thread_floats(const struct forward *f);
/* An upper bound of the calls of one step. */
uint32_t forward_max_calls(const struct forward *f);

/* Fills the step block: ids [n] at positions pos .. pos + n - 1. */
void forward_begin(struct forward *f, const int32_t *ids, uint32_t n, size_t pos);
/* Writes their rope table and n-gram rows, which forward_fetch_tables and the layers behind forward_first_layers() read. past: see ngram_gather. */
void forward_gather(struct forward *f, const int32_t *past);
/* The rope table of rows at positions pos .. pos + n - 1, as struct gpu_step has it. */
void forward_rope(const struct forward *f, size_t pos, uint32_t n, float *rope);
/* The same for the first positions of blocks 0 .. n_block - 1: the table of struct qsa_raw_keys. turn [n_block, rope_dim] f32 */
void forward_turns(const struct forward *f, uint32_t n_block, float *turn);
/* How many layers at the beginning need neither. */
uint32_t forward_first_layers(const struct forward *f);

/* A step is recorded as forward_embed, forward_layer for the first layers, forward_fetch_tables, the other layers, forward_settle or forward_head. */
void forward_embed(struct gpu_cmd *c, struct forward *f, uint32_t n_tok);
/* What forward_begin and forward_gather have written to where kernels read it; forward_embed includes the ids. Nothing on the cpu. */
void forward_fetch_ids(struct gpu_cmd *c, const struct forward *f, uint32_t n_tok);
void forward_fetch_tables(struct gpu_cmd *c, const struct forward *f, uint32_t n_tok);
/* One layer: the residual goes in and comes out; the last block's y may stay pending. */
void forward_layer(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok, enum gdn_phase phase);
/* u = mix(R) before the attention of a layer, alone. */
void forward_mix_attn(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok, enum gdn_phase phase);
/* What is pending goes into the residual. */
void forward_settle(struct gpu_cmd *c, struct forward *f, uint32_t n_tok);
/* Final mixer and output head of rows row0 .. row0 + n_row - 1 into logits (n_row <= max_logits). Something may be pending only when these are
 * the rows of the step. */
void forward_head(struct gpu_cmd *c, struct forward *f, uint32_t row0, uint32_t n_row, enum gdn_phase phase);
/* The n_best (1 .. TOP_MAX) largest of the logits in each of the rows 0 .. n_row - 1 (n_row <= DECODE_ROWS) to best_at [n_row, n_best], as struct top_args
 * defines them. */
void forward_choose(struct gpu_cmd *c, const struct forward *f, uint32_t n_row, uint32_t n_best);

/* ---- rows that may be taken back: forward_verify.c ---- */

/* What a session keeps of the rows of a verify step: rows [n_layer + 1]. May only count. */
void forward_take_rows(const struct forward *f, struct arena *a, struct verify_rows *rows);
/* After forward_place: takes the blocks of verify steps and, when there is memory, builds them. */
void forward_place_verify(struct forward *f, struct forward_memory *m, const struct verify_rows *rows, gpu_addr rows_at);
/* A verify step is recorded like a decode step of n_tok rows (2 .. DECODE_ROWS) in phase GDN_VERIFY, with forward_slide behind forward_embed. The *fold
 * first rows of the verify step before go into the recurrent state, the new ones do not. K/V and pooled keys are written by position. */
void forward_slide(struct gpu_cmd *c, const struct forward *f, gpu_addr fold_at);
/* The GDN or QSA layer of a verify step: y of u. */
void forward_verify_layer(struct gpu_cmd *c, const struct forward *f, uint32_t il, uint32_t n_tok);
/* The same for the first n entries of f->run, on a device. */
void forward_slide_runs(struct gpu_cmd *c, const struct forward *f, uint32_t n);
/* The *fold first rows of the last verify step go into the recurrent state, and that is all. */
void forward_fold(struct gpu_cmd *c, struct forward *f);

/* ---- steps with rows of several sequences: forward_rows.c ---- */

/* Rows of a step that follow each other in one sequence: its schedule, their ids, the position of the first, and what ngram_gather calls past. kept: rows
 * that may be taken back, as those of a verify step, of which the last one left `fold` that count; otherwise it is one row. On a device all runs of a step
 * are kept, or none is. */
struct forward_run {
    const struct forward *of;
    const int32_t *ids;
    size_t pos;
    const int32_t *past;
    uint32_t n, first; /* rows; the first one's number in the step */
    bool kept;
    uint32_t fold;
};
/* As forward_begin and forward_gather, for the rows of runs [n]. f is the schedule whose layer blocks lie first. */
void forward_rows_begin(struct forward *f, const struct forward_run *run, uint32_t n);
void forward_rows_gather(struct forward *f, const struct forward_run *run, uint32_t n);
/* Records the whole step into the two lists of a decode step (see above); n_best = 0: without forward_choose. The products are those of f. Its bits are
 * those of steps of one row. On a device the lists are the same for all runs with as many rows that are kept or not. */
void forward_rows_record(struct gpu_cmd *first, struct gpu_cmd *rest, struct forward *f, const struct forward_run *run, uint32_t n, uint32_t n_best);
/* What forward.c records differently for such rows */
void forward_rows_ple_conv(struct gpu_cmd *c, struct forward *f);
void forward_rows_qsa(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok);
void forward_rows_gdn(struct gpu_cmd *c, struct forward *f, uint32_t il, uint32_t n_tok);
/* An upper bound of the calls of such a step. kept: there may be such runs. */
uint32_t forward_rows_max_calls(const struct forward *f, uint32_t n_seq, bool kept);

#endif
