/* model.h - the public face of the engine: a model (weights, read-only) and a session (one mutable timeline).
 *
 *     model_open -> session_open -> session_prefill (prompt) -> session_decode (one id at a time) -> session_logits
 *
 * A session never allocates after session_open. Bits: the same build, device, options and ids give the same logits. Prompt ids always
 * go through prefill kernels, in groups anchored at the start of the segment, so a prompt gives the same bits however it is cut into calls;
 * generated ids always go through decode kernels. Prefill and decode agree within 2e-4 per logit. */
#ifndef HAYATE_MODEL_MODEL_H
#define HAYATE_MODEL_MODEL_H

#include "gpu/base.h"
#include "gpu/moves.h"
#include "model/backend.h"
#include "model/direct.h"
#include "model/gguf.h"
#include "model/sample.h"
#include "model/shape.h"
#include "model/tokenizer.h"

typedef struct model model;
typedef struct session session;

enum kv_type { KV_F16, KV_F32, KV_Q8_0 };

struct model_params {
    uint32_t n_threads; /* 0: the cores this process may use */
    bool reference;     /* plain C reference of every row instead of its fast twin: for tests */
    enum backend backend; /* BACKEND_AUTO: a GPU that can run this model, or the cpu */
    uint32_t device;    /* index of the device, as `info --devices` lists them */
    enum load load;     /* of weights that go to a device */
    size_t alloc_limit; /* see struct gpu_params */
    const char *cache_dir;
    bool no_graph;      /* see struct gpu_params */
    const char *draft_path; /* a file with a draft head, in place of the model's own; NULL: none */
    bool head;          /* a device gets the draft head too, if there is one; without it sessions there have none */
    bool plan_only;     /* opens the device but copies no weights there: sessions can be planned, not opened */
    bool record_only;   /* opens no device to stay, copies nothing: sessions can be opened and their steps recorded, not run. AUTO: a device as a Strix
                         * Halo has one, with matrix units; VULKAN: like the one that is there; CPU: the cpu */
    bool (*progress)(void *ctx, size_t done, size_t total); /* bytes of weights copied to the device; false stops. May be NULL */
    void *progress_ctx;
};
struct session_params {
    size_t n_ctx;       /* positions */
    uint32_t n_ubatch;  /* rows of a prefill step; rounded up to a multiple of 64. 0: 512, on a device 2048 */
    enum kv_type kv;
    bool precise;       /* float32 path: f32 caches, activations never quantised */
    uint32_t n_seq;     /* timelines that may take a step together, up to SESSION_SEQ_MAX; 0: 1 */
    /* For comparison; all but no_union only on the cpu. Each gives the same bits as without. */
    bool no_gather;     /* attention over the whole cache with a mask */
    bool no_union;      /* each row of a prompt reads its own blocks */
    bool no_pooled_cache; /* every step computes all pooled keys again from raw keys, which are kept for that */
    uint32_t pooled_max_tokens; /* the same for steps of more rows than this; 0: never */
    bool verify;        /* session_verify will be used: memory for its rows */
    bool head;          /* and so will the draft head, if the model has one that the backend can run */
    bool draft_dense;   /* its attention sees all positions */
    bool draft_joint;   /* its hidden input is normalised by one statistic over all streams */
};
enum { SESSION_SEQ_MAX = 8 };
/* "f16", "f32" or "q8_0": the type that K and V are kept in */
const char *kv_type_name(const struct session_params *p);

/* Maps the file (NULL: the built-in demo model), checks it and binds its tensors; reads no weights, unless they go to a device.
 * Errors name the file: see gguf_open, shape_read, and weights.h for missing or misshapen tensors. */
status model_open(model **out, const char *path, const struct model_params *p, struct err *e);
void model_close(model *m); /* accepts NULL */
const gguf *model_gguf(const model *m);
const struct shape *model_shape(const model *m);
tokenizer *model_tokenizer(model *m);
uint32_t model_threads(const model *m);
const char *model_backend(const model *m);    /* "cpu", "vulkan", "hip" */
const char *model_device(const model *m);     /* "2 threads, avx512", or name and driver of a device */
const char *model_arithmetic(const model *m); /* what the bits depend on beside the backend: the instruction set, or name and driver of the device */
const char *model_decoded(const model *m);    /* types of the file that the device has no kernel for: "Q5_0, Q2_K"; NULL: none */
bool model_is_demo(const model *m);
bool model_has_demo(void); /* whether this binary carries one */
/* A hash that says whether two opened models are the same: sizes of the files, metadata, tensor directory and the first KiB of each tensor
 * (a page per tensor is read). The path does not enter. Weights that were edited elsewhere behind unchanged metadata are not noticed. */
uint64_t model_identity(const model *m);
/* ERR_FORMAT when one of logits [n_vocab] is no number, which is what damaged weights come to. */
status model_check_logits(const model *m, const float *logits, struct err *e);
/* "FILE: what, expected what" warnings gathered while binding; "" when none */
const char *model_note(const model *m);

/* Adds the lines of a session with these parameters (and the model's own) to plan, without allocating. */
void session_plan(const model *m, const struct session_params *p, struct plan *plan);
/* ERR_NOMEM when the plan does not fit mem_limit bytes (0: the machine's free memory); the message says what would. */
status session_open(session **out, model *m, const struct session_params *p, size_t mem_limit, struct err *e);
void session_close(session *s); /* accepts NULL */
/* Bytes of device memory that the session and its model have: by their plan, as they were asked for, and what the driver counts for this process,
 * its own things included (0: it does not say). All 0 on the cpu. */
struct device_memory {
    uint64_t planned, asked, driver;
};
void session_device_memory(const session *s, struct device_memory *out);
/* Bytes that the device of the session, or the cpu, was asked for. */
uint64_t session_memory_asked(const session *s);

/* Receives logits [n_rows, n_vocab] f32 of the positions pos .. pos + n_rows - 1. */
typedef status (*session_rows_fn)(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *e);

/* Feeds prompt ids of the current segment. Whole groups of 64 run at once, the rest waits for more ids or for session_flush; so the
 * cut between calls never shows. on_rows, if not NULL, is called for every row as it is computed (costs the output head per row).
 * ERR_USAGE when the context is full or an id is outside the vocabulary. */
status session_prefill(session *s, const int32_t *ids, size_t n, session_rows_fn on_rows, void *ctx, struct err *e);
/* Runs what waits and ends the segment; the logits of the last row are then in session_logits. */
status session_flush(session *s, session_rows_fn on_rows, void *ctx, struct err *e);
/* One generated id through the decode kernels (flushes first). */
status session_decode(session *s, int32_t id, struct err *e);
/* What the caller reads after session_flush and session_decode; before the first position. 0, as after session_open: all logits, in session_logits.
 * n_best up to SESSION_BEST_MAX: only the n_best largest, in session_best; they are found where the logits are computed, and a device sends
 * 8 bytes for each instead of the whole row. */
enum { SESSION_BEST_MAX = 256 };
void session_want(session *s, uint32_t n_best);
/* [n_vocab] f32 of the last row after session_flush or session_decode; owned by the session. */
const float *session_logits(const session *s);
/* The largest logits of the last row, by ascending id; the lower ids among equals, no NaN, and no -infinity unless n_best is 1. Fewer than n_best when there are
 * no more such. */
const struct candidate *session_best(const session *s, size_t *n);
/* Brings all logits of the last row to session_logits when session_want has asked for less. */
status session_fetch_logits(session *s, struct err *e);
size_t session_n_past(const session *s); /* committed positions, waiting ids included */
size_t session_n_ctx(const session *s);
size_t session_n_ubatch(const session *s); /* rows of a prefill step, at most */
status session_reset(session *s, struct err *e);

/* A mark of the timeline: what is needed to come back to the current position later (recurrent state, windows, hash window; K/V and
 * pooled keys are kept by position). Valid until the session is rewound below it. session_mark flushes. */
size_t session_mark_bytes(const session *s);
status session_mark(session *s, void *mark, struct err *e);
status session_return(session *s, const void *mark, struct err *e);

/* The same position as bytes, for another process: what a mark holds, and the caches up to here. It goes to put, or comes from get, piece by
 * piece in one fixed order, session_state_bytes in all; the context of the session does not show in it, its K/V type does.
 * session_save flushes and needs a position after the first. session_load brings s to n_past positions; when get fails, or when they do
 * not fit (ERR_USAGE), s is reset. Only bytes of the same build, model and options mean anything: see prefix_cache.h. */
typedef status (*session_put_fn)(void *ctx, const void *p, size_t n, struct err *e);
typedef status (*session_get_fn)(void *ctx, void *p, size_t n, struct err *e);
size_t session_state_bytes(session *s, size_t n_past);
status session_save(session *s, session_put_fn put, void *ctx, struct err *e);
status session_load(session *s, size_t n_past, session_get_fn get, void *ctx, struct err *e);

/* For measuring: takes s to n_past positions (not below where it stands) whose K, V and pooled keys are random numbers of the size real ones have, a
 * function of the seed; recurrent state and windows stay what they are. The logits are those of before. ERR_USAGE: beyond the context. */
status session_fill(session *s, size_t n_past, uint64_t seed, struct err *e);
/* ---- guesses, and the way back ---- */

/* One generated id and n - 1 guesses of what follows it, in one step: each row has the bits that session_decode gives it. The position is then behind
 * ids[0]; the other rows lie ahead of it, as long as no other step, mark or state is asked for. n = 1 .. SESSION_VERIFY_MAX; flushes first.
 * ERR_USAGE as session_decode; all n positions must fit the context. Needs session_params.verify. */
enum { SESSION_VERIFY_MAX = 8 };
status session_verify(session *s, const int32_t *ids, uint32_t n, struct err *e);
/* If the next row ahead was computed for this id, the position moves behind it, as session_decode would have done; else nothing changes. */
bool session_follow(session *s, int32_t id);
size_t session_ahead(const session *s); /* rows ahead of the position */
/* Back to a position n_past that rows of the last session_verify led to: as if the later ones had never been. ERR_USAGE for any other. */
status session_rewind(session *s, size_t n_past, struct err *e);

/* The draft head, where session_params.head found one. */
struct guess {
    int32_t id;
    float lead; /* of its logit over the next best */
};
bool session_has_head(const session *s);
/* Whether it has seen the last position: not at once after a mark or a state, or while it rests. */
bool session_can_guess(const session *s);
/* What the head guesses to follow, guesses first .. first + n - 1 of a round of up to SESSION_VERIFY_MAX - 1: the first of all after id, which the sampler
 * chose and which is not in the timeline yet, each other after the guess before. session_guess_end ends the round. The timeline stays where it is. */
status session_guess(session *s, int32_t id, uint32_t first, uint32_t n, struct guess *out, struct err *e);
status session_guess_end(session *s, struct err *e);
/* Whether guesses asked for together take less time than one by one: a device makes them without the host. */
bool session_guesses_in_a_row(const session *s);
/* While it rests the head costs nothing, and misses what goes by. */
void session_rest_head(session *s, bool rests);
/* From here on prompts run the whole head over every position and hand its logits to fn: those of row p are about position p + 2. ERR_UNSUPPORTED. */
status session_score_head(session *s, session_rows_fn fn, void *ctx, struct err *e);

/* ---- several timelines ----
 *
 * A session opened for n_seq timelines has n_seq places. Each is a session of its own, with its own positions, caches and logits; what is dead between
 * steps they share, so the logits of a place are good (to read, to mark, to save) only until the next step of any of them, session_return included, while
 * session_best stays; and session_flush must follow the last session_prefill of a segment before another place takes a step. */

/* Place k, 0 .. n_seq - 1; place 0 is s. Closing s closes all, the others are not closed by themselves. session_want and session_profile of s hold for
 * all places. */
session *session_place(session *s, uint32_t k);
uint32_t session_n_seq(const session *s);
/* One generated id at each of n (1 .. n_seq) different places of one session, in one step that reads each weight once for all of them. Leaves every place as
 * session_decode would, to the bit. Nothing may wait for session_flush. ERR_USAGE as session_decode. */
status session_decode_rows(session *const *place, const int32_t *ids, uint32_t n, struct err *e);
/* The same with guesses: the n rows of a place are an id that is known and n - 1 guesses, which it has ahead of it as after session_verify. Up to
 * SESSION_VERIFY_MAX rows in all. More than one for a place needs session_params.verify. ERR_USAGE as session_verify; then nothing has moved. */
struct session_rows {
    session *s;
    const int32_t *ids; /* [n] */
    uint32_t n;
};
status session_verify_rows(const struct session_rows *rows, uint32_t n, struct err *e);
/* Takes `to` to where `from` stands, another place of the same session, whose logits are good. */
status session_copy(session *to, session *from, struct err *e);

/* ---- what a step consists of ---- */

/* A call of a step. */
struct session_call {
    const char *row, *part; /* kernel row; part of the model: "hc", "gdn", "qsa.index", "qsa.attend", "moe", "head", "embed", "ngram", "draft", "draft.copy" */
    bool decode;            /* of session_decode, else of a prompt */
    struct gpu_moves moves;
    double start, seconds;  /* monotonic, by the device's clock or else the cpu's; 0 when it was not run */
};
typedef void (*session_call_fn)(void *ctx, const struct session_call *call);
/* From here on every call of every step is timed and reported in order, after its step. fn = NULL ends it. Results do not change. ERR_NOMEM. */
status session_profile(session *s, session_call_fn fn, void *ctx, struct err *e);
/* Rows that the host has read from the n-gram table since then, at all places, and the seconds it took: in part while a device worked on the first layers. */
void session_gathered(const session *s, uint64_t *rows, double *seconds);
/* Records the step of n rows at position pos and reports its calls without running it: of session_decode (n = 1), of session_decode_rows at n places that all
 * stand at pos (n up to n_seq), or of session_prefill without head.
 * Positions lie inside the context and n in session_n_ubatch. The timeline stays where it is. */
status session_record(session *s, bool decode, size_t pos, uint32_t n, session_call_fn fn, void *ctx, struct err *e);
/* The same for a round with n_guess guesses (1 .. SESSION_VERIFY_MAX - 1) that all come true: session_verify of n_guess + 1 rows at pos, and where there is a
 * draft head what it does until the next one: it sees the new rows, and guesses as many times. Copies of its state are the part SESSION_COPY_PART. The context must hold pos + 2 * n_guess + 1. Needs session_params.verify.
 * Of several places: the step of so many rows of each of them, together up to SESSION_VERIFY_MAX. */
#define SESSION_COPY_PART "draft.copy"
status session_record_round(session *s, size_t pos, uint32_t n_guess, session_call_fn fn, void *ctx, struct err *e);

/* Dump of the wide residual [n_stream, n_embd] of the last row after every layer, for finding the first layer that differs:
 * with a tap set, every step copies n_layer rows there. NULL: none. */
void session_tap(session *s, float *layers);

#endif
