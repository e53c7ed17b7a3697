/* session_impl.h - what session.c, session_plan.c, session_state.c and session_fill.c share. */
#ifndef HAYATE_MODEL_SESSION_IMPL_H
#define HAYATE_MODEL_SESSION_IMPL_H

#include "model/forward.h"
#include "model/model_impl.h"

/* Calls of the two short lists, at most */
enum { HEAD_CALLS = 32, CHOOSE_CALLS = 8 };

struct session {
    model *m;
    struct session_params p;
    /* recurrent: what a mark copies. kv: one per layer, indexed by position, so going back needs no copy. scratch: dead between steps.
     * shared: what the host writes for every step. blocks: layer blocks, here and where kernels read them. */
    struct gpu_mem recurrent, *kv, scratch, shared, blocks; /* kv [n_layer] */
    void *host_blocks;
    float *logits;             /* [max_logits, n_vocab] on the host; on the cpu the very memory that the head writes */
    float *work;               /* cpu: working memory of the threads */
    size_t work_bytes;
    struct forward f;
    struct layer_state *state; /* [n_layer] */
    gpu_addr ple_window;
    int32_t past[MAX_NGRAM];   /* last ids, most recent first */
    struct gpu_cmd prefill, head, choose;
    struct gpu_cmd decode[2];  /* a step: the first layers, and what waits for the tables of the host */
    uint32_t prefill_rows, head_row0, head_rows; /* what the lists are recorded for; 0: nothing */
    size_t n_past;             /* positions in the caches */
    int32_t pending[GDN_CHUNK];
    uint32_t n_pending;        /* prompt ids that wait for a whole group */
    bool have_logits;          /* row 0 of f.logits is that of the last position */
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

/* Everything that is known before allocating. (session_plan.c) */
struct session_sizes {
    struct arena recurrent;
    struct forward_memory m;
    size_t kv, thread_bytes, calls, logits;
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

#endif
