/* model_impl.h - what session.c and model.c share. */
#ifndef HAYATE_MODEL_MODEL_IMPL_H
#define HAYATE_MODEL_MODEL_IMPL_H

#include "gpu/gpu.h"
#include "model/model.h"
#include "model/weights.h"

struct model {
    gguf *file;
    struct shape shape;
    struct weights weights;
    struct arena vectors; /* decoded vectors */
    gpu *gpu;
    tokenizer *tok;
    bool demo;
};

#endif
