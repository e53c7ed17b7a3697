/* upload.h - the weights of a model in the memory of a device. */
#ifndef HAYATE_MODEL_UPLOAD_H
#define HAYATE_MODEL_UPLOAD_H

#include "gpu/gpu.h"
#include "model/shape.h"
#include "model/weights.h"

/* Blocks of device memory that hold the weights. No block is larger than the device allows; no tensor lies in two. */
struct upload {
    struct gpu_mem *block; /* [n_block] */
    size_t *block_bytes;
    uint32_t n_block;
    size_t limit;          /* largest block */
    size_t total;
    uint32_t n_decoded;    /* matrices of a type without a kernel, which went to I8 or F32 */
    char decoded[128];     /* "Q5_0, Q2_K" */
};

/* What a device needs for these weights, without touching it: fills the block sizes. limit: largest allocation.
 * ERR_UNSUPPORTED for a matrix that no layout takes or that is larger than the limit. */
status upload_plan(struct upload *u, const struct weights *w, const struct shape *s, size_t limit, struct err *e);
/* Allocates the blocks, packs every matrix and vector of the trunk into them, and fills *out: w with device addresses and layouts.
 * The n-gram table stays on the host. progress (may be NULL) is called between pieces and may stop the upload by returning false. */
typedef bool (*upload_progress_fn)(void *ctx, size_t done, size_t total);
status upload_weights(struct upload *u, gpu *g, struct weights *out, const struct weights *w, const struct shape *s, upload_progress_fn progress, void *ctx,
                      struct err *e);
void upload_free(struct upload *u, gpu *g);

#endif
