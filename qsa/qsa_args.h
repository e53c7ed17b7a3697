/* qsa_args.h - argument structs of the sparse-attention rows.
 *
 * A block is 4 consecutive tokens of the sequence, counted from its first. K and V are cached in tiles of one block:
 *
 *     K [n_kv][block][dim / 8 pieces][4 tokens][8 dims]        V [n_kv][block][dim][4 tokens]
 *
 * so that a chosen block is one contiguous piece, a K operand of 16 keys is four pieces, and V needs no transpose. */
#ifndef HAYATE_QSA_ARGS_H
#define HAYATE_QSA_ARGS_H

#include "gpu/gpu_args.h"

#define QSA_BLOCK 4

/* Element types of a K/V cache. A tile of Q8_0, on the cpu only, holds 4 * dim signed bytes in the order above, then a binary16 scale per
 * QSA_Q8_GROUP dims and token, [ceil(dim / 32)][4 tokens]: every token is rounded by itself. */
#define QSA_KV_F16 0
#define QSA_KV_F32 1
#define QSA_KV_Q8_0 2
#define QSA_Q8_GROUP 32

/* The layer block: what every row of one layer reads. */
struct qsa_block {
    gpu_addr q_norm, k_norm;   /* [dim] f32 gains */
    gpu_addr iq_norm, ik_norm; /* [idx_dim] f32 gains */
    gpu_addr k, v;             /* tiles of kv_type */
    gpu_addr pooled;           /* [cap_blocks, idx_dim] f32: pooled, normalised, roped key of every complete block */
    gpu_addr window;           /* [3, idx_dim] f32: raw index keys of the last three tokens, oldest first */
    uint32_t n_head, n_kv, dim, rope_dim;
    uint32_t idx_head, idx_dim;
    uint32_t budget;           /* blocks a query may choose; 0: dense layer, no indexer */
    uint32_t cap_blocks;
    uint32_t kv_type;          /* QSA_KV_* */
    float eps;
};

/* Norms and rope of q, k and the index query; k and v go to the cache. Then, unless the layer is dense, the pooled key of every block that this step
 * completes, and the window moves on. Items: n_tok rows, then n_tok / 4 + 1 blocks. */
struct qsa_prep_args {
    gpu_addr block, step;
    gpu_addr qg;    /* [n_tok, n_head, (q dim | gate dim)] f32; the q halves become normalised and roped */
    gpu_addr k, v;  /* [n_tok, n_kv, dim] f32 */
    gpu_addr iq;    /* [n_tok, idx_head, idx_dim] f32, in and out; unused when budget = 0 */
    gpu_addr ik;    /* [n_tok, idx_dim] f32 raw; unused when budget = 0 */
    gpu_addr count; /* [n_tok, QSA_COUNTS] u32, becomes 0; see struct qsa_span_args. 0: there is none */
    gpu_addr apart; /* see struct gpu_step; then the items of a row stand together: itself and, unless the layer is dense, its block */
    uint32_t stay;  /* 1, apart: windows stay, because these rows may be taken back; then several may be of one sequence */
    uint32_t reserved;
};

/* scores[r][b] of rows row0 .. row0 + n_row - 1 against the complete blocks they see; nothing where all are chosen anyway.
 * An item is QSA_SCORE_ROWS rows by QSA_SCORE_GROUP blocks: ceil(n_row / QSA_SCORE_ROWS) * ceil(cap_blocks / QSA_SCORE_GROUP) items, the
 * rows outermost. qsa_score_few does the same for at most QSA_FEW rows, an item of which has `span` blocks. */
#define QSA_SCORE_ROWS 32
#define QSA_SCORE_GROUP 128
#define QSA_STRIP 128
#define QSA_FEW 8
struct qsa_score_args {
    gpu_addr block, step;
    gpu_addr iq;     /* [n_tok, idx_head, idx_dim] f32 */
    gpu_addr scores; /* [QSA_STRIP, cap_blocks] f32 */
    gpu_addr count;  /* qsa_score_few: the first digits are added here; see struct qsa_span_args */
    gpu_addr apart;  /* qsa_score_few: see struct gpu_step; then an item is one row by `span` blocks, the rows outermost */
    uint32_t row0, n_row;
    uint32_t span;   /* blocks of an item: QSA_SCORE_GROUP, or for qsa_score_few a multiple of it */
};

/* The chosen blocks of rows row0 ...: list[r] = { n, id, id, ... } ascending, or QSA_ALL alone. Items: n_row. */
#define QSA_ALL 0xffffffffu
struct qsa_select_args {
    gpu_addr block, step;
    gpu_addr scores;
    gpu_addr list; /* [n_tok, 1 + budget] u32 */
    uint32_t row0, n_row;
};

/* The same lists in two rows, for a device and few rows: a row's keys are shared out among groups of QSA_SPAN, so that the choice takes as long in a context of
 * 262,144 as in one of 4,096. The 31 bits of a key (scores are >= 0) are three digits of 11, 10 and 10 bits, and the cut, the key of rank `budget`, is found
 * digit by digit: qsa_score_few counts the keys by their first one, qsa_count those that share the cut's first digit by their second, and
 * qsa_take the few that share both by their third. Integer counts: the same list whatever the order of groups. Items: n_row * n_span, the rows outermost. */
#define QSA_SPAN 1024
#define QSA_FIRST 2048
#define QSA_SECOND 1024
#define QSA_FIRST_SHIFT 20u
#define QSA_SECOND_SHIFT 10u
#define QSA_COUNTS (QSA_FIRST + QSA_SECOND) /* counters of a row: by first digit, by second digit */
#define QSA_SPAN_COUNTS (QSA_SECOND + 1)
struct qsa_span_args {
    gpu_addr block, step;
    gpu_addr scores; /* [n_row, cap_blocks] f32 */
    gpu_addr list;   /* [n_row, 1 + budget] u32 */
    gpu_addr count;  /* [n_row, QSA_COUNTS] u32: keys by their first digit; keys that share the cut's first digit by their second */
    gpu_addr cut;    /* [n_row, 2] u32: first digit of the cut, and its rank among the keys that share it */
    gpu_addr span;   /* [n_row, n_span, QSA_SPAN_COUNTS] u32: keys of a span whose leading digits are at least (first of the cut, i); the last: those above */
    gpu_addr apart;  /* see struct gpu_step */
    uint32_t n_row, n_span; /* ceil(cap_blocks / QSA_SPAN) */
};

/* Attention over the chosen blocks and the open one, output gate. Items: n_tok * n_kv. */
struct qsa_attend_args {
    gpu_addr block, step;
    gpu_addr qg;   /* as above */
    gpu_addr list; /* as above */
    gpu_addr out;  /* [n_tok, n_head, dim] f32 */
};

/* The same attention for many rows on matrix units, in two rows of which the first is made once for all kv heads. Rows QSA_GROUP_ROWS * g .. of a step
 * are group g; its union holds every block that one of them chose or has open, ascending, as (block << QSA_GROUP_ROWS | rows), bit r of `rows` for the
 * row r of the group. Each block of it is read once, and used by the rows whose bit is set. A dense layer has no unions: its rows see all blocks.
 * K and V are f16, queries and weights of the softmax are rounded to it.
 * Items of qsa_group: ceil(n_tok / QSA_GROUP_ROWS); of qsa_attend_group: so many times n_kv, the groups outermost. */
#define QSA_GROUP_ROWS 4
#define QSA_UNION_MOST(budget) (QSA_GROUP_ROWS * ((budget) + 1u))
struct qsa_group_args {
    gpu_addr block, step;
    gpu_addr qg, list; /* as above; qsa_group does not read qg, qsa_attend_group not list */
    gpu_addr groups;   /* [n_group, 1 + QSA_UNION_MOST(budget)] u32: entries and their number in front */
    gpu_addr out;      /* [n_tok, n_head, dim] f32 */
};

/* The same attention in two rows, for a device and few rows. The list is cut in parts of part_blocks blocks, the last one with the open block
 * behind it; the cut depends on the layer alone, never on context, batch or device. A part is the softmax over its own keys:
 *
 *     m = maximum of the scores     l = sum of exp(score - m)     o = sum of exp(score - m) * v
 *
 * Items of qsa_attend_part: (row * n_kv + kv) * n_part + part; parts that a row does not have are left alone.
 * Items of qsa_attend_merge: row * n_head + head; the parts are merged in ascending order, then the gate. */
#define QSA_PART 16       /* blocks of a part */
#define QSA_PART_DENSE 64 /* in a layer without indexer, where the list grows with the context */
struct qsa_part_args {
    gpu_addr block, step;
    gpu_addr qg, list; /* as above */
    gpu_addr o;        /* [n_row, n_head, n_part, dim] f32 */
    gpu_addr ml;       /* [n_row, n_head, n_part] pairs (m, l) f32 */
    gpu_addr out;      /* [n_tok, n_head, dim] f32: merge only */
    gpu_addr apart;    /* see struct gpu_step */
    uint32_t row0, n_row;
    uint32_t n_part;   /* most that any row of this context has */
    uint32_t part_blocks;
};

/* What the kernels are built for; the host refuses a model beyond. dim and idx_dim are multiples of 8, rope_dim of 2 and at most either. */
#define QSA_DIM_MAX 256
#define QSA_IDX_DIM_MAX 128
#define QSA_IDX_HEAD_MAX 8
#define QSA_BUDGET_MAX 1024

#endif
