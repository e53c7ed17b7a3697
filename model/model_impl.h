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
    struct weights *on_device;     /* weights with the addresses of their copy; NULL: those of the mapping */
    tokenizer *tok;
    bool demo;
};

/* The weights as the kernels of the backend see them. */
/* Memory that can be had without pushing others out: MemAvailable, or what a control group leaves; bytes. */
size_t memory_available(void);
static inline const struct weights *model_weights(const struct model *m) { return m->on_device ? m->on_device : &m->weights; }

#endif
