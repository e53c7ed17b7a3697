/* session_impl.h - what session.c, session_calls.c, session_plan.c, session_state.c, session_fill.c, session_rows.c, session_verify.c and draft.c share. */
#ifndef HAYATE_MODEL_SESSION_IMPL_H
#define HAYATE_MODEL_SESSION_IMPL_H

#include "model/draft.h"
#include "model/forward.h"
#include "model/model_impl.h"

/* Calls of the two short lists, at most */
enum { HEAD_CALLS = 32, CHOOSE_CALLS = 8 };
#define DRAFT_PART "draft" /* of the model: all calls of the draft head */
/* In place 0: the step of rows of several places, as decode; for which runs it is recorded. On a device, where a list is for any runs with as many rows, that of
 * rows that count, and by number of rows those that may be taken back. */
struct session_together {
    struct gpu_cmd step[2], kept[DECODE_ROWS + 1][2];
    struct forward_run run[SESSION_SEQ_MAX];
    uint32_t n; /* 0: step is not recorded */
};

struct session {
    model *m;
    struct session_params p;
    /* recurrent: what a mark copies. kv: one per layer, indexed by position, so going back needs no copy. scratch: dead between steps.
     * shared: what the host writes for every step. blocks: layer blocks, here and where kernels read them. */
    struct gpu_mem recurrent, *kv, scratch, shared, blocks; /* kv [n_layer] */
    struct gpu_mem turns;      /* the table of struct qsa_raw_keys, when raw keys are kept */
    struct gpu_mem rows;       /* of verify steps: see struct verify_rows */
    struct verify_rows *verify_rows; /* [n_layer + 1] */
    void *host_blocks;
    session *place[SESSION_SEQ_MAX]; /* [p.n_seq] in place 0; place[0] is that place in all of them. What place 0 has of scratch, shared, blocks, turns, logits
                                      * and work serves all; of the blocks each has its part. */
    float *logits;             /* [max_logits, n_vocab] on the host; on the cpu the very memory that the head writes */
    float *work;               /* cpu: working memory of the threads */
    size_t work_bytes;
    struct forward f;
    struct layer_state *state; /* [n_layer] */
    gpu_addr ple_window;
    int32_t past[MAX_NGRAM];   /* last ids, most recent first */
    struct gpu_cmd head, choose;
    struct session_together together;
    struct gpu_cmd prefill[2], decode[2]; /* a step: the first layers, and what waits for the tables of the host */
    uint32_t prefill_rows, head_row0, head_rows; /* what the lists are recorded for; 0: nothing */
    size_t n_past;             /* positions in the caches */
    int32_t pending[GDN_CHUNK];
    uint32_t n_pending;        /* prompt ids that wait for a whole group */
    bool logits_here;          /* and logits holds it too */
    uint32_t n_best;           /* what is wanted of it: all, or so many of the largest */
    uint32_t row0, row;        /* of f.logits and logits: where the rows of this place begin; of those, and of best: the one of the last position */
    bool have_logits;          /* that row is there */
    uint32_t n_found[DECODE_ROWS];
    struct candidate best[DECODE_ROWS][SESSION_BEST_MAX];
    /* The last verify step, until the next step begins: n_rows rows (0: none), of which 0 .. row count */
    struct gpu_cmd verify[DECODE_ROWS + 1][2], fold; /* by number of rows */
    uint32_t n_rows;
    int32_t row_ids[DECODE_ROWS], row_past[MAX_NGRAM]; /* its ids (of any step without prompt), and the history before them */
    draft *draft;              /* the draft head; NULL: none */
    gpu_addr step_rows;        /* where decode and verify steps leave the residuals of their rows; known when one was recorded */
    bool unfed, draft_rests;   /* the rows 0 .. row of the last decode or verify step have not been shown to it; it does not want to see them */
    float *tap;
    session_call_fn on_call;   /* of session_profile; NULL: off */
    void *on_call_ctx;
    double *call_seconds;      /* [calls of the longest list] once on_call was set */
};

static inline bool on_device(const struct model *m) { return gpu_backend_of(m->gpu) != GPU_CPU; }

static inline uint32_t session_seqs(const struct session_params *p) { return MAX(1u, p->n_seq); }

/* Whether places get a draft head: on a device only a place that is alone */
static inline bool session_takes_head(const struct model *m, const struct session_params *p)
{
    return p->head && draft_exists(m) && (session_seqs(p) == 1 || !on_device(m));
}

/* Everything that is known before allocating: of one place, and of what all share. (session_plan.c) */
struct session_sizes {
    struct arena recurrent;
    struct arena rows;
    struct forward_memory m;
    size_t kv, thread_bytes, calls, row_calls, kept_calls, logits, turns;
    struct forward f;
};
void session_size(struct session_sizes *z, const struct model *m, const struct session_params *p);
/* QSA_KV_*: the type of the K/V cache that p asks for. */
uint32_t session_kv_type(const struct session_params *p);
/* Whether operands of products may be rounded: to f16 for matrix units, to integers on a cpu that multiplies bytes. */
bool session_rounded(const model *m, const struct session_params *p);
/* Dimensions and limits of f, as p asks for them. */
void session_forward(struct forward *f, const struct model *m, const struct session_params *p);
/* The layout of the recurrent state, and of the caches of layer il; counts when the arenas have no memory. */
void session_place_recurrent(const struct model *m, struct arena *rec, struct layer_state *state, gpu_addr *ple_window, const struct forward *f);
void session_place_kv(const struct model *m, const struct session_params *p, struct arena *kv, uint32_t il, struct layer_state *state,
                      const struct forward *f);
/* Whether the backend can do what p asks for (ERR_UNSUPPORTED), and whether it fits into mem_limit bytes, 0: free memory (ERR_NOMEM, with what would). A
 * limit is for all that the plan says, free memory for what is still to be taken. */
status session_check_plan(const struct model *m, const struct session_params *p, size_t mem_limit, struct err *e);

/* session_calls.c: runs one list of a step to its end, under the clock when that is wanted; or only starts it where no clock runs, and the next list of the
 * session waits for it. decode: for the profile. */
status session_run(session *s, struct gpu_cmd *c, bool decode, struct err *e);
status session_start(session *s, struct gpu_cmd *c, bool decode, struct err *e);
/* The same for a list of the draft head, whose step is its own. */
status session_run_head(session *s, struct gpu_cmd *c, const struct gpu_step *step, bool decode, struct err *e);
status session_start_head(session *s, struct gpu_cmd *c, const struct gpu_step *step, bool decode, struct err *e);
/* The calls of a list of the draft head, without running it. */
status session_report_head(const struct gpu_cmd *c, size_t pos, uint32_t n_tok, const struct session_report *r, struct err *e);
/* Record the step of n rows of a prompt, of one row, and (once for each n) of n rows that may be taken back. */
void session_record_prefill(session *s, uint32_t n);
void session_record_decode(session *s);
void session_record_verify(session *s, uint32_t n);
/* A list with room for n_calls, for layers of this session. */
status session_open_list(session *s, struct gpu_cmd *c, size_t n_calls, struct err *e);
/* ERR_USAGE when the context has no room for n more positions, or an id is none. */
status session_check_room(const session *s, const int32_t *ids, size_t n, struct err *e);
/* What a list with head, and forward_choose if that is wanted, has left for the host in rows row0 .. row0 + n_row - 1, which are those of this place; the first
 * is that of the last position. */
status session_take(session *s, uint32_t row0, uint32_t n_row, struct err *e);

/* session_draft.c: shows the head what it has not seen of the last step, before another one takes its place, of any place: those of all; and the rows of a
 * prompt. */
status session_feed_head(session *s, struct err *e);
status session_feed_heads(session *s, struct err *e);
status session_feed_prompt(session *s, const int32_t *ids, uint32_t n, struct err *e);

/* session_verify.c: lists of verify steps, how many calls they hold, and what empties them. */
size_t session_verify_calls(const struct forward *f);
status session_open_verify(session *s, struct err *e);
void session_close_verify(session *s);
void session_forget_verify(session *s);
/* What counts of the last verify step goes into the state, so that any step may follow. */
status session_settle(session *s, struct err *e);
/* A verify step of n rows was taken: the position is behind the first of them. */
void session_stand(session *s, const int32_t *ids, uint32_t n);

/* The best of the logits in row 0 of f.logits, which no step has left there. */
status session_choose(session *s, struct err *e);
/* session_rows.c: lists of steps of several places, in place 0, and what empties them. */
status session_open_rows(session *first, const struct session_sizes *z, struct err *e);
void session_close_rows(session *s);
void session_forget_rows(session *first);
/* The lists for such runs, whose places are those of first; recorded, unless they are already. */
struct gpu_cmd *session_record_rows(session *first, const struct forward_run *run, uint32_t n);

#endif
