/* forward.h - the layer schedule of one session: layer blocks, scratch, and the functions that record a step. */
#ifndef HAYATE_MODEL_FORWARD_H
#define HAYATE_MODEL_FORWARD_H

#include "gdn/gdn.h"
#include "model/model_args.h"
#include "model/weights.h"
#include "qsa/qsa.h"

/* Caches and recurrent state of one layer, placed by the session. */
struct layer_state {
    gpu_addr k, v, pooled, window;  /* QSA */
    gpu_addr gdn_state, gdn_window; /* GDN */
};

/* A hyper-connection module, ready to record. */
struct hc_layer {
    gpu_addr norm;
    struct matmul_job down[2]; /* down; inject, absent in the final mixer */
    struct matmul_job up;
    uint32_t n_down;
};

struct forward_layer {
    struct hc_layer hc_attn, hc_ffn;
    struct gdn_layer gdn; /* one of the two */
    struct qsa_layer qsa;
    struct moe_block moe;
    struct matmul_job moe_in[4]; /* router, shared gate, shared up, shared scalar */
};

struct forward {
    const struct shape *shape;
    const struct weights *w;
    struct gdn_dims gdn;
    struct qsa_dims qsa;
    uint32_t cap_blocks;
    uint32_t max_tok;    /* rows of the largest step */
    uint32_t max_logits; /* rows of the largest head */
    bool kv_f32;

    struct forward_layer *layer; /* [n_layer] */
    struct hc_layer out_hc;
    struct matmul_job head;
    struct matmul_job ple_in[2]; /* key, value */

    /* scratch; f32 unless said otherwise */
    struct gpu_step *step;
    int32_t *ids;        /* [max_tok] */
    float *rope;         /* [3 + max_tok, rope_dim] */
    float *inv_freq;     /* [rope_dim / 2] inverse frequencies of the rope table */
    float *ngram;        /* [max_tok, ple_head * ple_row] */
    gpu_addr residual;   /* [max_tok, n_stream, n_embd] */
    gpu_addr norm, gate; /* [max_tok, n_stream, n_embd] */
    gpu_addr low;        /* [max_tok, hc_rank] */
    gpu_addr inject;     /* [max_tok, n_stream] */
    gpu_addr u, y;       /* [max_tok, n_embd] */
    gpu_addr logits;     /* [max_logits, n_vocab] */
    struct gdn_scratch gdn_s;
    struct qsa_scratch qsa_s;
    struct {
        gpu_addr logits, id, weight, group, expert, start, row, share, cursor, h;
        gpu_addr shared_gate, shared_up, shared_h, shared_scalar;
    } moe_s;
    struct {
        gpu_addr key, value, gv, z, window; /* window is session state */
        gpu_addr norm_key, norm_query, norm_conv, conv;
    } ple_s;
};

/* Dimensions and limits; before forward_place. */
void forward_init(struct forward *f, const struct shape *s, const struct weights *w, size_t n_ctx, uint32_t max_tok, bool kv_f32);
/* Takes scratch from a (which may only count) and, when it has memory, builds the layer blocks with the state of each layer. */
void forward_place(struct forward *f, struct arena *a, const struct layer_state *state, gpu_addr ple_window);
/* Floats of working memory a thread needs. */
size_t forward_thread_floats(const struct forward *f);
/* An upper bound of the calls of one step. */
uint32_t forward_max_calls(const struct forward *f);

/* Fills the step block: ids [n] at positions pos .. pos + n - 1, their rope table and n-gram rows. past: see ngram_gather. */
void forward_begin(struct forward *f, const int32_t *ids, uint32_t n, size_t pos, const int32_t *past);
/* The embedding into the residual. */
void forward_embed(struct gpu_cmd *c, const struct forward *f, uint32_t n_tok);
/* One layer, all of it: the residual goes in and comes out. */
void forward_layer(struct gpu_cmd *c, const struct forward *f, uint32_t il, uint32_t n_tok, enum gdn_phase phase);
/* Final mixer and output head of rows row0 .. row0 + n_row - 1 into logits (n_row <= max_logits). */
void forward_head(struct gpu_cmd *c, const struct forward *f, uint32_t row0, uint32_t n_row);

#endif
