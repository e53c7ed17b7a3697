/* session_impl.h - what session.c and session_fill.c share. */
#ifndef HAYATE_MODEL_SESSION_IMPL_H
#define HAYATE_MODEL_SESSION_IMPL_H

#include "model/forward.h"
#include "model/model_impl.h"

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
    struct gpu_cmd prefill, decode, head;
    uint32_t prefill_rows, head_row0, head_rows; /* what the lists are recorded for; 0: nothing */
    size_t n_past;             /* positions in the caches */
    int32_t pending[GDN_CHUNK];
    uint32_t n_pending;        /* prompt ids that wait for a whole group */
    bool have_logits;
    float *tap;
};

static inline bool on_device(const struct model *m) { return gpu_backend_of(m->gpu) != GPU_CPU; }

#endif
