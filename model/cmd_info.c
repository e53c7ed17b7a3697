/* cmd_info.c - what is in a file, and what a session on it would take; reads headers, and for a device its F32 matrices. */
#include "kernels_bin/kernels_bin.h"
#include "model/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double gib(size_t bytes) { return (double)bytes / (double)((size_t)1 << 30); }

static void print_dims(const struct gguf_tensor *t)
{
    printf("[");
    for (uint32_t d = 0; d < MAX(1u, t->n_dims); d++)
        printf("%s%" PRIu64, d ? ", " : "", t->dim[d]);
    printf("]");
}

/* One line per key: strings cut to what a line holds, of arrays only kind and length. */
static void print_keys(const gguf *g)
{
    static const char *const type_name[] = { "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64" };
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        union {
            uint8_t u8; int8_t i8; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; float f32; uint64_t u64; int64_t i64; double f64;
        } v = { 0 };
        printf("%-48.*s ", STR_FMT(kv->key));
        if (kv->type == GGUF_ARR) {
            printf("%s[%" PRIu64 "]\n", kv->elem_type < COUNT_OF(type_name) ? type_name[kv->elem_type] : "?", kv->n);
            continue;
        }
        if (kv->type != GGUF_STR)
            memcpy(&v, kv->data, MIN(kv->data_bytes, sizeof v));
        switch (kv->type) {
        case GGUF_U8: printf("%u\n", v.u8); break;
        case GGUF_I8: printf("%d\n", v.i8); break;
        case GGUF_U16: printf("%u\n", v.u16); break;
        case GGUF_I16: printf("%d\n", v.i16); break;
        case GGUF_U32: printf("%" PRIu32 "\n", v.u32); break;
        case GGUF_I32: printf("%" PRId32 "\n", v.i32); break;
        case GGUF_F32: printf("%g\n", (double)v.f32); break;
        case GGUF_U64: printf("%" PRIu64 "\n", v.u64); break;
        case GGUF_I64: printf("%" PRId64 "\n", v.i64); break;
        case GGUF_F64: printf("%g\n", v.f64); break;
        case GGUF_BOOL: printf("%s\n", v.u8 ? "true" : "false"); break;
        default: { /* a string: bytes of the file never reach the terminal as they are */
            const char *p = (const char *)kv->data + 8;
            size_t n = kv->data_bytes - 8, shown = MIN(n, (size_t)60);
            putchar('"');
            for (size_t k = 0; k < shown; k++)
                putchar((unsigned char)p[k] < 0x20 || p[k] == 0x7f ? ' ' : p[k]);
            printf(n > shown ? "...\" (%zu bytes)\n" : "\"\n", n);
        }
        }
    }
}

static void print_sampling(const gguf *g)
{
    static const char prefix[] = "general.sampling.";
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        if (gguf_kv_at(g, i)->key.n >= sizeof prefix && memcmp(gguf_kv_at(g, i)->key.p, prefix, sizeof prefix - 1) == 0) {
            printf("sampling      %s* keys are in the file (--keys) and are ignored\n", prefix);
            return;
        }
}

static uint64_t elements(const struct gguf_tensor *t) { return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]; }

static void print_file(const gguf *g)
{
    printf("file          %s\n", gguf_name(g));
    printf("format        GGUF v%u, %zu file%s, %zu bytes (%.2f GiB)\n", gguf_version(g), gguf_n_shards(g), gguf_n_shards(g) == 1 ? "" : "s",
           gguf_file_bytes(g), gib(gguf_file_bytes(g)));
    struct str name;
    if (gguf_opt_str(g, "general.name", STR("-"), &name, NULL) == OK)
        printf("name          %.*s\n", STR_FMT(name));
}

static void print_shape(const struct shape *s, const gguf *g)
{
    printf("architecture  qwen4exp: %u layers (%u Gated DeltaNet, %u sparse attention)%s\n", s->n_layer, s->n_gdn, s->n_qsa,
           s->n_draft ? ", draft block" : "");
    printf("width         %u, %u streams, mixer rank %u, vocabulary %u, trained context %u\n", s->n_embd, s->n_stream, s->hc_rank, s->n_vocab,
           s->ctx_train);
    printf("attention     %u query / %u key heads x %u, rope %u dims base %g\n", s->n_head, s->n_head_kv, s->head_dim, s->rope_dim, (double)s->rope_base);
    printf("indexer       %u heads x %u, %u tokens = %u blocks of %d\n", s->idx_head, s->idx_dim, s->idx_budget, s->idx_budget / QSA_RATIO, QSA_RATIO);
    printf("delta net     %u value / %u key heads x %u, convolution of %u\n", s->gdn_v_head, s->gdn_k_head, s->gdn_dim, s->conv_taps);
    printf("experts       %u of width %u, %u used, shared %u\n", s->n_expert, s->expert_ff, s->n_expert_used, s->shared_ff);
    if (s->ple_layer >= 0)
        printf("n-gram table  %u heads x %u, n up to %u, layer %d, %s\n", s->ple_head, s->ple_row, s->ple_ngram, s->ple_layer,
               gguf_find_tensor(g, "per_layer_token_embd.weight") ? "joined" : "one tensor per head (PLE16)");
    else
        printf("n-gram table  none\n");
}

/* Tensors, bytes and parameters by type */
static void print_census(const gguf *g)
{
    struct {
        size_t n, bytes;
        uint64_t params;
    } by[QUANT_ID_LIMIT] = { 0 };
    uint64_t params = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        by[t->type->id].n++;
        by[t->type->id].bytes += t->bytes;
        by[t->type->id].params += elements(t);
        params += elements(t);
    }
    printf("tensors       %zu, %.3f billion parameters\n", gguf_n_tensors(g), (double)params / 1e9);
    for (uint32_t id = 0; id < QUANT_ID_LIMIT; id++)
        if (by[id].n)
            printf("  %-8s    %5zu tensors %12.3f M parameters %16zu bytes\n", quant_type(id)->name, by[id].n, (double)by[id].params / 1e6, by[id].bytes);
}

static int print_plan(const struct options *o, const model *m)
{
    struct plan plan = { 0 };
    size_t n_ctx = o->n_ctx ? o->n_ctx : 4096;
    struct session_params p = session_params_of(o, n_ctx);
    session_plan(m, &p, &plan);
    printf("\nplan for a context of %zu (-c), before anything is allocated; the file itself is mapped, %zu bytes\n", n_ctx, gguf_file_bytes(model_gguf(m)));
    for (size_t i = 0; i < plan.n; i++)
        printf("  %-24s %16zu bytes  %s\n", plan.line[i].name, plan.line[i].bytes, plan.line[i].note);
    printf("  %-24s %16zu bytes\n", "total", plan_total(&plan));
    if (plan_device_bytes(&plan))
        printf("  %-24s %16zu bytes\n", "of it on the device", plan_device_bytes(&plan));
    return EXIT_DONE;
}

/* Field `want` (from 0) of a line of the MANIFEST */
static struct str manifest_field(const char *line, const char *end, uint32_t want)
{
    const char *from = line, *to;
    for (uint32_t i = 0;; i++, from = to + 1) {
        to = from;
        while (to < end && *to != '\t')
            to++;
        if (i == want || to == end)
            return (struct str){ i == want ? from : end, i == want ? (size_t)(to - from) : 0 };
    }
}

/* Where the first line, which names the fields, has `name` */
static uint32_t manifest_column(const char *line, const char *end, const char *name)
{
    uint32_t i = 0;
    while (i < 100 && !str_is(manifest_field(line, end, i), name))
        i++;
    return i;
}

/* The kernels inside the program: what a row is and what it takes on each target. Hashes and compilers are left to the file. */
static void print_kernels(void)
{
    static const struct {
        const char *name;
        int width;
    } column[] = {
        { "id", -24 }, { "workgroup", 9 }, { "args", 5 }, { "spirv bytes", 12 }, { "spirv shared", 13 }, { "gfx bytes", 10 }, { "vgpr", 5 },
        { "sgpr", 5 }, { "lds", 6 }, { "scratch", 8 }, { "source", -22 }, { "defines", -1 },
    };
    uint32_t at[COUNT_OF(column)];
    size_t n;
    const char *first = kernel_bin_manifest(&n), *last = first + n;
    for (const char *line = first, *end; line < last && (end = memchr(line, '\n', (size_t)(last - line))); line = end + 1)
        for (size_t c = 0; c < COUNT_OF(column); c++) {
            if (line == first)
                at[c] = manifest_column(line, end, column[c].name);
            printf("%*.*s%c", column[c].width, STR_FMT(manifest_field(line, end, at[c])), c + 1 < COUNT_OF(column) ? ' ' : '\n');
        }
}

int cmd_info(const struct options *o)
{
    struct err e;
    model *m = NULL;
    if (o->devices) {
        backend_print_devices();
        return EXIT_DONE;
    }
    if (o->kernels) {
        print_kernels();
        return EXIT_DONE;
    }
    if (o->ledger)
        return cmd_ledger(o);
    struct model_params p = { .n_threads = o->n_threads, .backend = o->backend, .device = o->device, .load = o->load, .draft_path = o->draft_path, .head = o->draft != DRAFT_OFF && o->n_parallel <= 1, .plan_only = true };
    if (model_open(&m, o->model_path, &p, &e) != OK) {
        console_error(o->con, "%s", e.msg);
        return exit_code_of(e.code);
    }
    const gguf *g = model_gguf(m);
    print_file(g);
    print_shape(model_shape(m), g);
    printf("tokenizer     %zu tokens%s%s\n", tokenizer_n_vocab(model_tokenizer(m)), *model_note(m) ? "; " : "", model_note(m));
    print_sampling(g);
    printf("%-13s %s\n", model_backend(m), model_device(m));
    if (o->draft_path)
        printf("draft head    %s\n", o->draft_path);
    print_census(g);
    if (o->keys)
        print_keys(g);
    for (size_t i = 0; o->tensors && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        printf("%-40.*s %-8s %14zu ", STR_FMT(t->name), t->type->name, t->bytes);
        print_dims(t);
        printf("\n");
    }
    if (o->plan)
        print_plan(o, m);
    model_close(m);
    return EXIT_DONE;
}
