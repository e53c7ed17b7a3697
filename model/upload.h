/* upload.h - the weights of a model in the memory of a device, or of the host in large pages (as_file).
 *
 * The plan chooses a layout and a place for every matrix and vector of the trunk and the draft head, and cuts them into pieces. Then threads carry pieces: one reads its
 * piece from the file, packs its rows, and hands them to the device, while others are at other stages. The n-gram table stays where it is. */
#ifndef HAYATE_MODEL_UPLOAD_H
#define HAYATE_MODEL_UPLOAD_H

#include "gpu/gpu.h"
#include "model/direct.h"
#include "model/shape.h"
#include "model/weights.h"

/* Bytes of the file in a piece, unless a row is longer: a disk is at its full speed, and some dozen pieces fit everywhere. */
enum { UPLOAD_PIECE_BYTES = 8 << 20 };

/* A matrix or bank of experts, or a vector as one row of f32. */
struct upload_item {
    struct gpu_mat from;   /* in the file */
    uint32_t type;         /* its layout there: enum device_type; as_file: enum quant_id */
    size_t row_bytes;      /* there */
    uint64_t n_row;        /* of all experts */
    uint32_t block;
    size_t offset;         /* in the block */
};
/* Rows of an item that lie side by side in the file. */
struct upload_piece {
    uint32_t item;
    uint64_t first, n;     /* rows, counted as on the device */
    const uint8_t *from;
};

/* Blocks of device memory that hold the weights. No block is larger than the device allows; no item lies in two. */
struct upload {
    struct gpu_mem *block; /* [n_block] */
    size_t *block_bytes;
    uint32_t n_block;
    size_t limit;          /* largest block */
    size_t total;
    struct upload_item *item; /* [n_item] in the order of the walk */
    uint32_t n_item;
    struct upload_piece *piece; /* [n_piece] */
    uint32_t n_piece;
    size_t max_source_row, max_row; /* bytes */
    uint32_t max_in;       /* weights of a row */
    bool as_file;
    uint32_t n_narrowed;   /* F32 matrices that went to BF16, because nothing is lost by it */
    uint32_t n_decoded;    /* matrices of a type without a kernel, which went to I8 or F32 */
    char decoded[128];     /* "Q5_0, Q2_K" */
};

struct upload_from {
    const struct weights *weights;
    const struct shape *shape;
    const gguf *file;      /* where the weights are mapped from */
    enum load load;
    bool head;             /* the draft head too, if there is one */
    bool as_file;          /* for the cpu: the types of the file, row after row; but F32 that is all bfloat16 narrows here too */
};

/* Bytes of the file that n rows of a matrix take which follow one another; a row may be a part of the file's. */
size_t upload_source_bytes(const struct gpu_mat *from, uint64_t n);
/* What a device needs for these weights, without touching it. Reads the F32 matrices, to see whether BF16 can hold them. limit: largest allocation.
 * ERR_UNSUPPORTED for a matrix that no layout takes or that is larger than the limit; ERR_IO. */
status upload_plan(struct upload *u, const struct upload_from *from, size_t limit, struct err *e);
/* Allocates the blocks, copies all pieces, and fills *out: the weights with device addresses and layouts. progress (may be NULL) is called after every
 * piece, from any thread, one at a time, and may stop the upload by returning false. ERR_IO also when a file was changed meanwhile. */
typedef bool (*upload_progress_fn)(void *ctx, size_t done, size_t total);
status upload_weights(struct upload *u, gpu *g, struct weights *out, const struct upload_from *from, upload_progress_fn progress, void *ctx,
                      struct err *e);
/* The two halves of it before the copying: the blocks, and the addresses in them. */
status upload_allocate(struct upload *u, gpu *g, struct err *e);
status upload_place(struct upload *u, struct weights *out, const struct upload_from *from, struct err *e);
void upload_free(struct upload *u, gpu *g);

#endif
