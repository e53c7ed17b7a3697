/* session_impl.h - what session.c, session_plan.c, session_state.c, session_fill.c and session_rows.c share. */
#ifndef HAYATE_MODEL_SESSION_IMPL_H
#define HAYATE_MODEL_SESSION_IMPL_H

#include "model/forward.h"
#include "model/model_impl.h"

/* Calls of the two short lists, at most */
enum { HEAD_CALLS = 32, CHOOSE_CALLS = 8 };
/* In place 0: the step of rows of several places, as decode; for which places it is recorded. */
struct session_together {
    struct gpu_cmd step[2];
    struct forward *of[SESSION_SEQ_MAX];
    uint32_t n; /* 0: not recorded */
};

struct session {
    model *m;
    struct session_params p;
    /* recurrent: what a mark copies. kv: one per layer, indexed by position, so going back needs no copy. scratch: dead between steps.
     * shared: what the host writes for every step. blocks: layer blocks, here and where kernels read them. */
    struct gpu_mem recurrent, *kv, scratch, shared, blocks; /* kv [n_layer] */
    void *host_blocks;
    session *place[SESSION_SEQ_MAX]; /* [p.n_seq] in place 0; place[0] is that place in all of them. What place 0 has of scratch, shared, blocks, logits
                                      * and work serves all; of the blocks each has its part. */
    float *logits;             /* [max_logits, n_vocab] on the host; on the cpu the very memory that the head writes */
    float *work;               /* cpu: working memory of the threads */
    size_t work_bytes;
    struct forward f;
    struct layer_state *state; /* [n_layer] */
    gpu_addr ple_window;
    int32_t past[MAX_NGRAM];   /* last ids, most recent first */
    struct gpu_cmd prefill, head, choose;
    struct session_together together;
    struct gpu_cmd decode[2];  /* a step: the first layers, and what waits for the tables of the host */
    uint32_t prefill_rows, head_row0, head_rows; /* what the lists are recorded for; 0: nothing */
    size_t n_past;             /* positions in the caches */
    int32_t pending[GDN_CHUNK];
    uint32_t n_pending;        /* prompt ids that wait for a whole group */
    uint32_t row;              /* of f.logits and logits: the one of the last position */
    bool have_logits;          /* that row is there */
    bool logits_here;          /* and logits holds it too */
    uint32_t n_best;           /* what is wanted of it: all, or so many of the largest */
    uint32_t n_found;
    struct candidate best[SESSION_BEST_MAX];
    float *tap;
    session_call_fn on_call;   /* of session_profile; NULL: off */
    void *on_call_ctx;
    double *call_seconds;      /* [calls of the longest list] once on_call was set */
};

static inline bool on_device(const struct model *m) { return gpu_backend_of(m->gpu) != GPU_CPU; }

static inline uint32_t session_seqs(const struct session_params *p) { return MAX(1u, p->n_seq); }

/* Everything that is known before allocating: of one place, and of what all share. (session_plan.c) */
struct session_sizes {
    struct arena recurrent;
    struct forward_memory m;
    size_t kv, thread_bytes, calls, row_calls, logits;
    struct forward f;
};
void session_size(struct session_sizes *z, const struct model *m, const struct session_params *p);
/* Dimensions and limits of f, as p asks for them. */
void session_forward(struct forward *f, const struct model *m, const struct session_params *p);
/* The layout of the recurrent state, and of the caches of layer il; counts when the arenas have no memory. */
void session_place_recurrent(const struct model *m, struct arena *rec, struct layer_state *state, gpu_addr *ple_window, const struct forward *f);
void session_place_kv(const struct model *m, const struct session_params *p, struct arena *kv, uint32_t il, struct layer_state *state,
                      const struct forward *f);
/* Whether the backend can do what p asks for (ERR_UNSUPPORTED), and whether it fits into mem_limit bytes, 0: free memory (ERR_NOMEM, with what would). A
 * limit is for all that the plan says, free memory for what is still to be taken. */
status session_check_plan(const struct model *m, const struct session_params *p, size_t mem_limit, struct err *e);

/* The best of the logits in row 0 of f.logits, which no step has left there. */
status session_choose(session *s, struct err *e);
/* Room for n more ids, all in the vocabulary: ERR_USAGE. */
status session_check_room(const session *s, const int32_t *ids, size_t n, struct err *e);
/* Runs one list of a step to its end, under the clock when that is wanted. */
status session_run(session *s, struct gpu_cmd *c, bool decode, struct err *e);
/* The same, but without waiting for its end where no clock runs; the next list of the session waits for it. */
status session_start(session *s, struct gpu_cmd *c, bool decode, struct err *e);
/* What a list with head, and forward_choose if that is wanted, has left in row `row` for the host. */
status session_take(session *s, uint32_t row, struct err *e);
/* Records the step of one row of each of the places. */
void session_record_rows(session *const *place, uint32_t n);

#endif
