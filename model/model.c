/* model.c - opens a model: map, check, bind; reads no weights. */
#include "model/model.h"

#include "model/demo.h"
#include "model/forward.h"
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* Memory of the host is given without being there: who takes too much is ended by the system later, without a word */
static status check_room(const model *m, struct err *e)
{
    char needs[32], has[32];
    size_t have = memory_available();
    if (m->upload.total <= have)
        return OK;
    return fail(e, ERR_NOMEM, "--load copy: the copy of the weights needs %s, free are %s; --load mmap uses them where they are", size_text(needs, m->upload.total, true),
                size_text(has, have, false));
}

/* Copies the weights to the device, or for the cpu to large pages */
static status fill_device(model *m, const struct model_params *p, struct err *e)
{
    bool cpu = gpu_backend_of(m->gpu) == GPU_CPU;
    const struct upload_from from = { .weights = &m->weights, .shape = &m->shape, .file = m->file, .load = p->load, .head = p->head, .as_file = cpu };
    if (!cpu)
        TRY(forward_check_device(&m->shape, e));
    TRY(upload_plan(&m->upload, &from, gpu_info_of(m->gpu)->alloc_limit, e));
    m->on_device = malloc(sizeof *m->on_device);
    if (!m->on_device)
        return fail(e, ERR_NOMEM, "weights");
    *m->on_device = m->weights;
    if (p->plan_only)
        return OK;
    if (cpu)
        TRY(check_room(m, e));
    if (p->record_only) {
        TRY(upload_allocate(&m->upload, m->gpu, e));
        return upload_place(&m->upload, m->on_device, &from, e);
    }
    return upload_weights(&m->upload, m->gpu, m->on_device, &from, p->progress, p->progress_ctx, e);
}

/* A device to record for: the one that was named, as far as it says what it is, or one like that of a Strix Halo */
static status open_recorder(model *m, const struct model_params *p, const struct gpu_params *g, struct err *e)
{
    struct gpu_info like = { .backend = GPU_VULKAN, .name = "no device, as one with matrix units", .driver = "only recorded",
                             .alloc_limit = (uint64_t)4 << 30, .subgroup_min = 32, .subgroup_max = 64, .subgroup = 32, .group_memory = 64 << 10,
                             .integrated = true, .matrix = true, .last_group = true };
    if (p->backend != BACKEND_AUTO) {
        gpu *there;
        TRY(backend_open(&there, p->backend, g, NULL, e));
        like = *gpu_info_of(there);
        gpu_close(there);
    }
    like.device_bytes = SIZE_MAX;
    like.integrated = like.software = false; /* what memory this machine has free does not matter */
    return gpu_open_recorder(&m->gpu, &like, e);
}

static status open_backend(model *m, const struct model_params *p, struct err *e)
{
    char why[256];
    struct gpu_params g = { .n_threads = p->n_threads, .reference = p->reference, .device = p->device, .alloc_limit = p->alloc_limit,
                            .cache_dir = p->cache_dir, .no_graph = p->no_graph };
    bool for_device = forward_check_device(&m->shape, NULL) == OK;
    enum backend backend = p->backend == BACKEND_AUTO && !for_device ? BACKEND_CPU : p->backend;
    if (p->record_only && backend != BACKEND_CPU)
        TRY(open_recorder(m, p, &g, e));
    else
        TRY(backend_open(&m->gpu, backend, &g, why, e));
    const struct gpu_info *info = gpu_info_of(m->gpu);
    if (info->backend != GPU_CPU) {
        snprintf(m->device, sizeof m->device, "%s, %s", info->name, info->driver);
        return fill_device(m, p, e) == OK ? OK : fail_in(e, gguf_name(m->file));
    }
    snprintf(m->device, sizeof m->device, "%u threads, %s", gpu_threads(m->gpu), gpu_isa_name(m->gpu));
    return p->load == LOAD_COPY && fill_device(m, p, e) != OK ? fail_in(e, gguf_name(m->file)) : OK;
}

static status bind(model *m, struct arena *a, struct err *e)
{
    TRY(weights_bind(&m->weights, m->file, &m->shape, a, e));
    return m->draft_file ? weights_bind_side(&m->weights.draft, m->draft_file, m->file, &m->shape, a, e) : OK;
}

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
    if (p->draft_path)
        TRY_OR(out, s, gguf_open(&m->draft_file, p->draft_path, e));
    struct arena count = { 0 };
    TRY_OR(out, s, bind(m, &count, e));
    m->vectors = (struct arena){ .base = pages_alloc(count.used), .capacity = count.used };
    if (!m->vectors.base) {
        s = fail(e, ERR_NOMEM, "%s: %zu bytes of vectors", gguf_name(m->file), count.used);
        goto out;
    }
    TRY_OR(out, s, bind(m, &m->vectors, e));
    ngram_advise(&m->shape, &m->weights.ple);
    TRY_OR(out, s, tokenizer_open(&m->tok, m->file, e));
    TRY_OR(out, s, open_backend(m, p, e));
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
    upload_free(&m->upload, m->gpu);
    free(m->on_device);
    gpu_close(m->gpu);
    tokenizer_close(m->tok);
    pages_free(m->vectors.base, m->vectors.capacity);
    gguf_close(m->file);
    gguf_close(m->draft_file);
    free(m);
}

const gguf *model_gguf(const model *m) { return m->file; }
const struct shape *model_shape(const model *m) { return &m->shape; }
tokenizer *model_tokenizer(model *m) { return m->tok; }
uint32_t model_threads(const model *m) { return gpu_threads(m->gpu); }
const char *model_backend(const model *m)
{
    return gpu_backend_name(gpu_backend_of(m->gpu));
}
const char *model_device(const model *m) { return m->device; }
const char *model_arithmetic(const model *m) { return gpu_backend_of(m->gpu) == GPU_CPU ? gpu_isa_name(m->gpu) : m->device; }
const char *model_decoded(const model *m) { return m->upload.n_decoded ? m->upload.decoded : NULL; }
bool model_is_demo(const model *m) { return m->demo; }
const char *model_note(const model *m) { return tokenizer_note(m->tok); }

status model_check_logits(const model *m, const float *logits, struct err *e)
{
    for (uint32_t i = 0; i < m->shape.n_vocab; i++)
        if (!isfinite(logits[i]))
            return fail(e, ERR_FORMAT, "%s: the model computed %g as the logit of token %u, expected a number; is a weight damaged?",
                        gguf_name(m->file), (double)logits[i], i);
    return OK;
}

bool model_has_demo(void)
{
    const void *bytes;
    return demo_bytes(&bytes) > 0;
}

/* Each piece is hashed with the hash of what came before as seed. Numbers have a fixed width, so that two lists cannot run into each other. */
static uint64_t add_numbers(uint64_t h, const uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t le[8];
        for (unsigned k = 0; k < 8; k++)
            le[k] = (uint8_t)(v[i] >> 8 * k);
        h = XXH3_64bits_withSeed(le, sizeof le, h);
    }
    return h;
}

uint64_t model_identity(const model *m)
{
    enum { SAMPLE_BYTES = 1024 };
    uint64_t h = add_numbers(1, (uint64_t[]){ gguf_n_kv(m->file), gguf_n_tensors(m->file), gguf_n_shards(m->file), gguf_file_bytes(m->file) }, 4);
    for (size_t i = 0; i < gguf_n_kv(m->file); i++) {
        const struct gguf_kv *kv = gguf_kv_at(m->file, i);
        h = add_numbers(h, (uint64_t[]){ kv->key.n, kv->type, kv->elem_type, kv->n, kv->data_bytes }, 5);
        h = XXH3_64bits_withSeed(kv->key.p, kv->key.n, h);
        h = XXH3_64bits_withSeed(kv->data, kv->data_bytes, h);
    }
    for (size_t i = 0; i < gguf_n_tensors(m->file); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->file, i);
        h = add_numbers(h, (uint64_t[]){ t->name.n, t->type->id, t->n_dims, t->dim[0], t->dim[1], t->dim[2], t->dim[3], t->bytes }, 8);
        h = XXH3_64bits_withSeed(t->name.p, t->name.n, h);
        h = XXH3_64bits_withSeed(t->data, MIN(t->bytes, (size_t)SAMPLE_BYTES), h);
    }
    return h;
}
