/* model_impl.h - what session.c and model.c share. */
#ifndef HAYATE_MODEL_MODEL_IMPL_H
#define HAYATE_MODEL_MODEL_IMPL_H

#include "gpu/gpu.h"
#include "model/model.h"
#include "model/upload.h"
#include "model/weights.h"

struct model {
    gguf *file, *draft_file;       /* the second: of a draft head of its own */
    struct shape shape;
    struct weights weights;
    struct arena vectors; /* decoded vectors */
    gpu *gpu;
    char device[528];              /* what computes, in words */
    struct upload upload;          /* on a device */
    struct weights *on_device;     /* weights with device addresses; NULL on the cpu */
    tokenizer *tok;
    bool demo;
};

/* The weights as the kernels of the backend see them. */
static inline const struct weights *model_weights(const struct model *m) { return m->on_device ? m->on_device : &m->weights; }

#endif
