/* draft_impl.h - what draft.c and draft_place.c share. */
#ifndef HAYATE_MODEL_DRAFT_IMPL_H
#define HAYATE_MODEL_DRAFT_IMPL_H

#include "model/draft.h"
#include "model/session_impl.h"

/* Calls of the lists, at most: what leaves keys of pairs, a guess, copies */
enum { FEED_CALLS = 32, GUESS_CALLS = 64, END_CALLS = 1 };

/* What the head has beside a layer. */
struct draft_block {
    struct matmul_job hidden; /* fc_hidden of every stream, the start of the residual */
    struct matmul_job embd;   /* fc_embd, added to every stream */
    struct qsa_layer keys;    /* of the layer, what leaves keys: k, v, index k in in[0 .. 2], no heads that ask */
};

/* What the host writes for the guesses of a round, in SHARED memory and, on a device, where kernels read it. Their steps are f.step[1 ..]. */
struct draft_ask {
    int32_t *id;    /* the known id */
    float *rope;    /* [3 + DRAFT_ROUND, rope_dim]: guess i reads from entry i on */
    gpu_addr id_at, rope_at;
};

struct draft {
    session *session;
    gpu *gpu;
    struct shape shape; /* one attention layer */
    struct weights w;
    const struct draft_weights *of;
    struct forward f;
    struct layer_state state;
    struct gpu_mem window, kv, scratch, shared, blocks;
    void *host_blocks;
    struct draft_block *block;
    float *work;
    size_t work_bytes;
    struct draft_ask ask;
    gpu_addr ones;        /* [max_tok, n_stream]: a weight of 1 for every stream */
    gpu_addr carry, kept; /* residual that waits for its id; index keys before guesses that may not count */
    struct gpu_cmd feed;  /* of a prompt, recorded for every piece */
    struct gpu_cmd few[2][DECODE_ROWS + 1]; /* [carry has a pair in it][pairs] of the rows of a step, recorded once */
    gpu_addr few_rows;    /* that the few are recorded for */
    struct gpu_cmd guess[DRAFT_ROUND], end;
    gpu_addr guess_residual; /* where a guess leaves its own */
    bool joint;           /* see session_params.draft_joint */
    size_t n_pair;
    bool have_carry;
    uint32_t n_guess;     /* since draft_guess(0), that one included */
    int32_t first_id;
    bool first_done;      /* the pair of first_id has its keys already */
    session_rows_fn on_rows;
    void *on_rows_ctx;
    float *logits;        /* [max_logits, n_vocab] on the host, where on_rows is asked for on a device */
};

/* Kernels find what two guesses know of each other here: the two best of guess i, then the best alone. */
static inline gpu_addr draft_best_at(const struct draft *d, uint32_t i) { return d->f.best_at + 2 * i * sizeof(struct argmax_best); }
static inline gpu_addr draft_chosen_at(const struct draft *d, uint32_t i) { return d->f.best_at + (2 * DRAFT_ROUND + i) * sizeof(struct argmax_best); }
_Static_assert(3 * DRAFT_ROUND <= DECODE_ROWS * TOP_MAX, "room for them");

#endif
