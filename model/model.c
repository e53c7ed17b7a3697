/* model.c - opens a model: map, check, bind; reads no weights. */
#include "model/model.h"

#include "model/demo.h"
#include "model/model_impl.h"

#include <stdlib.h>

status model_open(model **out, const char *path, const struct model_params *p, struct err *e)
{
    status s = OK;
    model *m = calloc(1, sizeof *m);
    if (!m)
        return fail(e, ERR_NOMEM, "model object");
    m->demo = !path;
    if (path) {
        TRY_OR(out, s, gguf_open(&m->file, path, e));
    } else {
        const void *bytes;
        size_t n = demo_bytes(&bytes);
        if (!n) {
            s = fail(e, ERR_USAGE, "this binary carries no demo model: give one with -m or HAYATE_MODEL");
            goto out;
        }
        TRY_OR(out, s, gguf_open_memory(&m->file, bytes, n, "(demo model)", e));
    }
    TRY_OR(out, s, shape_read(&m->shape, m->file, e));
    struct arena count = { 0 };
    TRY_OR(out, s, weights_bind(&m->weights, m->file, &m->shape, &count, e));
    m->vectors = (struct arena){ .base = pages_alloc(count.used), .capacity = count.used };
    if (!m->vectors.base) {
        s = fail(e, ERR_NOMEM, "%s: %zu bytes of vectors", gguf_name(m->file), count.used);
        goto out;
    }
    TRY_OR(out, s, weights_bind(&m->weights, m->file, &m->shape, &m->vectors, e));
    TRY_OR(out, s, tokenizer_open(&m->tok, m->file, e));
    TRY_OR(out, s, gpu_open_cpu(&m->gpu, &(struct gpu_params){ .n_threads = p->n_threads, .reference = p->reference }, e));
    *out = m;
    return OK;
out:
    model_close(m);
    return s;
}

void model_close(model *m)
{
    if (!m)
        return;
    gpu_close(m->gpu);
    tokenizer_close(m->tok);
    pages_free(m->vectors.base, m->vectors.capacity);
    gguf_close(m->file);
    free(m);
}

const gguf *model_gguf(const model *m) { return m->file; }
const struct shape *model_shape(const model *m) { return &m->shape; }
tokenizer *model_tokenizer(model *m) { return m->tok; }
uint32_t model_threads(const model *m) { return gpu_threads(m->gpu); }
const char *model_isa(const model *m) { return gpu_isa_name(m->gpu); }
bool model_is_demo(const model *m) { return m->demo; }
const char *model_note(const model *m) { return tokenizer_note(m->tok); }

bool model_has_demo(void)
{
    const void *bytes;
    return demo_bytes(&bytes) > 0;
}
