/* model_args.h - argument structs of the rows that belong to no layer kind: hyper-connections, experts, n-gram side path. */
#ifndef HAYATE_MODEL_ARGS_H
#define HAYATE_MODEL_ARGS_H

#include "gpu/gpu_args.h"

/* n[t][s] = rms(R[t][s]; gain[s]), statistics per stream (spec 1.2 step 1). Items: n_tok * n_stream. */
struct hc_norm_args {
    gpu_addr residual; /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr gain;     /* [n_stream, n_embd] f32 */
    gpu_addr out;      /* as residual */
    uint32_t n_stream, n_embd;
    float eps;
    uint32_t reserved;
};

/* u[t][i] = mean over s of gate[t][s][i] * n[t][s][i] (spec 1.2 step 5). Items: n_tok * ceil(n_embd / HC_SPAN). */
#define HC_SPAN 256
struct hc_mean_args {
    gpu_addr gate; /* [n_tok, n_stream, n_embd] f32, sigmoid applied */
    gpu_addr norm; /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr out;  /* [n_tok, n_embd] f32 */
    uint32_t n_stream, n_embd;
};

/* R[t][s] += inj[t][s] * y[t]. Items: n_tok * n_stream. */
struct hc_combine_args {
    gpu_addr residual; /* [n_tok, n_stream, n_embd] f32, in and out */
    gpu_addr inject;   /* [n_tok, n_stream] f32 */
    gpu_addr y;        /* [n_tok, n_embd] f32 */
    uint32_t n_stream, n_embd;
};

/* The two halves of a mixer as a device runs them for a few rows (spec 1.2; kernel-plan: hc_down, hc_up).
 *
 * hc_down: R' = R + inject * y, the sum of squares of every stream, and of stream s its share of the products with Wd and Wi,
 *     part[t][s][r] = sum over i of W[r][s * n_embd + i] * gain[s][i] * R'[t][s][i]
 * without the factor 1/rms(R'[t][s]), which its reader applies. y = 0: R' = R, and nothing is stored in residual_out.
 * Blocks: groups of tok_group rows x streams x blocks of hc_block_rows(tok_group) rows of Wd, and one more block for Wi where there is
 * one. Items = blocks * HC_GRAIN. tok_group is ROWS of the build. */
#define HC_GRAIN 16
#define hc_block_rows(tok_group) (HC_GRAIN / ((tok_group) == 1u ? 2u : 1u))
struct hc_down_args {
    gpu_addr residual;     /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr residual_out; /* as residual, another place */
    gpu_addr y;            /* [n_tok, n_embd] f32, or 0 */
    gpu_addr inject;       /* [n_tok, n_stream] f32: weights of y */
    gpu_addr gain;         /* [n_stream, n_embd] f32 */
    gpu_addr hc;           /* struct hc_mats */
    gpu_addr part;         /* [n_tok, n_stream, rank + n_stream] f32 */
    gpu_addr squares;      /* [n_tok, n_stream] f32 */
    uint32_t n_stream, n_embd, n_tok, tok_group;
};
struct hc_mats {
    STRUCT(gpu_mat) down;   /* [rank, n_stream * n_embd] */
    STRUCT(gpu_mat) inject; /* [n_stream, n_stream * n_embd]; n_out = 0 in a final mixer */
    STRUCT(gpu_mat) up;     /* [n_stream * n_embd, rank] */
};
/* hc_up: low = silu(sum over s of part / rms / n_stream), u[t][i] = mean over s of sigmoid(Wu low)[s][i] * R'[s][i] / rms * gain,
 * inject[t][j] = 2 sigmoid(...) where Wi is there. Blocks: groups of tok_group rows x spans of HC_UP_SPAN columns. Items = blocks. */
#define HC_UP_SPAN 32
struct hc_up_args {
    gpu_addr residual; /* R' */
    gpu_addr gain, hc, part, squares;
    gpu_addr u;        /* [n_tok, n_embd] f32 */
    gpu_addr inject;   /* [n_tok, n_stream] f32 */
    uint32_t n_stream, n_embd, n_tok, tok_group;
    float eps;
    uint32_t rank;     /* that of the mixer: rows of Wd */
};

/* ---- experts (spec 5) ---- */

struct moe_block {
    STRUCT(gpu_mat) gate, up;   /* [n_expert * rows_per_expert, n_embd] */
    STRUCT(gpu_mat) down;       /* [n_expert * n_embd, ff] */
    STRUCT(gpu_mat) shared_down; /* [n_embd, shared_ff] */
    uint32_t n_expert, n_used, ff, shared_ff, n_embd, reserved;
};

/* Router: the n_used largest logits (lower index among equals), softmax over them, ids ascending. Items: rows. */
struct moe_route_args {
    gpu_addr block;
    gpu_addr logits; /* [n_tok, n_expert] f32 */
    gpu_addr id;     /* [n_tok, n_used] u32 */
    gpu_addr weight; /* [n_tok, n_used] f32 */
};

/* Products and routing of one row in one launch: the group that arrives last routes. Items = n_group * MATVEC_GRAIN. */
struct moe_in_args {
    STRUCT(matmul_args) products; /* job 0 writes the logits */
    STRUCT(moe_route_args) route;
    gpu_addr arrived;             /* u32, 0 before and after: groups that have stored theirs */
    uint32_t n_group;
    uint32_t reserved;
};

/* The (row, slot) pairs sorted by expert, rows ascending inside an expert. One item. */
struct moe_group {
    uint32_t n_active; /* experts that have a row, ascending in `expert` */
};
struct moe_group_args {
    gpu_addr block;
    gpu_addr id;     /* [n_tok, n_used] u32 */
    gpu_addr weight; /* [n_tok, n_used] f32 */
    gpu_addr group;  /* struct moe_group */
    gpu_addr expert; /* [n_active] u32 */
    gpu_addr start;  /* [n_active + 1] u32: first entry of each active expert */
    gpu_addr row;    /* [n_tok * n_used] u32: entry -> row of the batch */
    gpu_addr share;  /* [n_tok * n_used] f32: entry -> routing weight */
    gpu_addr cursor; /* [n_expert] u32, working memory */
    uint32_t n_tok;
    uint32_t reserved;
};

/* h[entry][r] = silu(gate_e[r] . u) * (up_e[r] . u). Items: possible active experts * ff rounded up to MOE_GRAIN. */
#define MOE_GRAIN 32
struct moe_gate_up_args {
    gpu_addr block;
    gpu_addr group, expert, start, row;
    gpu_addr u; /* [n_tok, n_embd] f32 */
    gpu_addr h; /* [n_tok * n_used, ff] f32 */
};

/* y[t] = sum over its experts, ascending, of share * down_e h, plus shared_gate[t] * shared_down (silu(sg) * su).
 * Items: output columns. The sum of a row has the same order whatever else is in the batch. */
struct moe_down_args {
    gpu_addr block;
    gpu_addr group, expert, start, row, share;
    gpu_addr h;
    gpu_addr shared_h;    /* [n_tok, shared_ff] f32 */
    gpu_addr shared_gate; /* [n_tok] f32: sigmoid(w . u) */
    gpu_addr y;           /* [n_tok, n_embd] f32 */
    uint32_t n_tok;
    uint32_t reserved;
};

/* The same on integer rows (gpu/int_rows.h): all four matrices unpack. cpu only. */
#ifndef HAYATE_KERNEL
struct moe_gate_up_int_args {
    struct moe_gate_up_args m; /* u is not read */
    gpu_addr u_rows;           /* [n_tok] rows of n_embd values */
};
struct moe_down_int_args {
    struct moe_down_args m;    /* neither h nor shared_h is read */
    gpu_addr h_rows;           /* [n_tok * n_used] rows of ff values */
    gpu_addr shared_rows;      /* [n_tok] rows of shared_ff values */
};
#endif

/* The experts as a device runs them without grouping: each (row, slot) by itself, so a row comes out the same in any batch. A group takes some spans one after
 * another: with several rows there are groups enough, and to begin takes a group longer than a span.
 * moe_up: h[t][k][r] = silu(gate_e[r] . u) * (up_e[r] . u), e = id[t][k]. Blocks: `spans` spans of MOE_UP_GRAIN pairs x rows x slots, slots fastest.
 * Items = blocks * MOE_UP_GRAIN. */
#define MOE_UP_GRAIN 8
struct moe_up_args {
    gpu_addr block;
    gpu_addr id; /* [n_tok, n_used] u32 */
    gpu_addr u;  /* [n_tok, n_embd] f32 */
    gpu_addr h;  /* [n_tok, n_used, ff] f32 */
    uint32_t n_tok;
    uint32_t spans;
};
/* moe_mix: y[t] = sum over slots, ascending, of weight * down_e h, plus scalar[t] * shared_down (silu(gate) * up).
 * Blocks: `spans` spans of MOE_MIX_GRAIN columns x rows, rows fastest: those that share an expert find it in the caches. Items = blocks * MOE_MIX_GRAIN. */
#define MOE_MIX_GRAIN 4
struct moe_mix_args {
    gpu_addr block;
    gpu_addr id, weight;   /* [n_tok, n_used] */
    gpu_addr h;            /* [n_tok, n_used, ff] f32 */
    gpu_addr gate, up;     /* [n_tok, shared_ff] f32: products of the shared expert */
    gpu_addr scalar;       /* [n_tok] f32: sigmoid applied */
    gpu_addr y;            /* [n_tok, n_embd] f32 */
    uint32_t n_tok;
    uint32_t spans;
};

/* The same grouping for devices, in two calls that need no working memory, and in tiles for a product over all experts at once. An entry is a
 * (row, slot) pair; entries are sorted by expert, rows ascending inside an expert. */

/* count[e] = how many of the ids are e. Items: n_expert. */
struct moe_count_args {
    gpu_addr id;    /* [n_entry] u32, 16-byte aligned */
    gpu_addr count; /* [n_expert] u32 */
    uint32_t n_entry;
    uint32_t reserved;
};

/* Up to tile_size entries of one expert: first, first + 1, ... counted from the expert's start. */
struct moe_tile {
    uint32_t expert, first;
};

/* Item e places the entries of expert e; item 0 also lists the tiles, experts ascending. Items: n_expert. */
struct moe_scatter_args {
    gpu_addr id;       /* [n_tok, n_used] u32, 16-byte aligned */
    gpu_addr weight;   /* [n_tok, n_used] f32 */
    gpu_addr count;    /* [n_expert] u32 */
    gpu_addr start;    /* [n_expert + 1] u32: first entry of each expert; the last is n_tok * n_used */
    gpu_addr row;      /* [n_tok * n_used] u32: entry -> row of the batch */
    gpu_addr share;    /* [n_tok * n_used] f32: entry -> routing weight */
    gpu_addr entry_of; /* [n_tok, n_used] u32: (row, slot) -> entry */
    gpu_addr tile;     /* [moe_tiles_max()] struct moe_tile, 8-byte aligned; n_tile of them are written */
    gpu_addr n_tile;   /* u32 */
    uint32_t n_tok, n_used, n_expert;
    uint32_t tile_size;
};
#ifndef HAYATE_KERNEL
static inline uint32_t moe_tiles_max(uint32_t n_entry, uint32_t tile_size, uint32_t n_expert)
{
    return MIN(n_entry, n_entry / tile_size + n_expert);
}
#endif

/* Products over the sorted entries on matrix units (operands f16, sums f32). A block takes a tile of entries (moe_scatter with MOE_TILE) and
 * a span of output rows: moe_gemm_up MOE_PAIRS pairs of gate and up, moe_gemm_down GEMM_ROWS rows. Items = spans * moe_tiles_max(), tiles fastest. */
#define MOE_TILE 64
#define MOE_PAIRS 64
struct moe_gemm_args {
    gpu_addr block;
    gpu_addr tile, n_tile; /* of moe_scatter */
    gpu_addr start;        /* [n_expert + 1] u32 */
    gpu_addr row;          /* [n_entry] u32, for moe_gemm_up */
    gpu_addr x;            /* up: u [n_tok, n_embd]; down: h [n_entry, ff] */
    gpu_addr y;            /* up: h [n_entry, ff]; down: [n_entry, n_embd] */
    uint32_t max_tile;     /* moe_tiles_max() */
    uint32_t reserved;
};

/* y[t] = sum over slots, ascending, of share * e[entry of the slot], plus shared_gate[t] * s[t]: slots are in ascending order of experts, so
 * the sum of a row has the same order whatever else is in the batch. Items: n_tok * ceil(n_embd / MOE_SUM_SPAN). */
#define MOE_SUM_SPAN 1024
struct moe_sum_args {
    gpu_addr e;           /* [n_entry, n_embd] f32 */
    gpu_addr entry_of;    /* [n_tok, n_used] u32 */
    gpu_addr share;       /* [n_entry] f32 */
    gpu_addr s;           /* [n_tok, n_embd] f32 */
    gpu_addr shared_gate; /* [n_tok] f32 */
    gpu_addr y;           /* [n_tok, n_embd] f32 */
    uint32_t n_used, n_embd;
};

/* out[i] = silu(gate[i]) * up[i]. Items: n_tok; n values per item. */
struct swiglu_args {
    gpu_addr gate, up, out;
    uint32_t n;
    uint32_t reserved;
};

/* ---- n-gram side path (spec 2.5) ---- */

/* Steps 2-6: gate per stream, gv = gate * value, z = rms(gv). Items: n_tok * n_stream. */
struct ple_gate_args {
    gpu_addr residual; /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr key;      /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr value;    /* [n_tok, n_embd] f32 */
    gpu_addr norm_key, norm_query, norm_conv; /* [n_stream, n_embd] f32 gains */
    gpu_addr gv;       /* [n_tok, n_stream, n_embd] f32 */
    gpu_addr z;        /* [n_tok, n_stream, n_embd] f32 */
    uint32_t n_stream, n_embd;
    float eps;
    uint32_t reserved;
};

/* What of the path belongs to a sequence */
struct ple_block {
    gpu_addr window; /* [(taps - 1) * dilation, width] f32: z of the last tokens, oldest first */
};

/* Steps 7-9: dilated depthwise convolution over z, R += gv + silu(o); the window moves on. Items: channels n_stream * n_embd; with runs those of each,
 * rounded up to PLE_CONV_GRAIN. */
#define PLE_CONV_GRAIN 64
struct ple_conv_args {
    gpu_addr z, gv;    /* [n_tok, width] f32 */
    gpu_addr conv;     /* [width, taps] f32, last tap = current token */
    gpu_addr block;    /* struct ple_block */
    gpu_addr residual; /* [n_tok, width] f32, in and out */
    gpu_addr apart;    /* struct gpu_run, each with a window of its own, or 0 */
    uint32_t width, taps, dilation, n_tok; /* n_tok: without runs */
};

#endif
