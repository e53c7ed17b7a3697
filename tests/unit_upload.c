/* unit_upload.c - weights in the memory of a device: blocks under small limits of an allocation, every byte where the kernels look for it, F32 that goes
 * there as BF16, the page cache as it was, and the plan of a session, which must be what is allocated. On whatever Vulkan device comes first
 * (TEST_DEVICE=n takes another). */
#define _DEFAULT_SOURCE /* mincore */
#include "gpu/device_weights.h"
#include "model/model_impl.h"
#include "tests/vulkan_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "tests/models/tiny-man.gguf"

static struct err err;

static bool says(const char *text) { return strstr(err.msg, text) != NULL; }

static model *open_model(const char *path, struct model_params p)
{
    model *m = NULL;
    p.device = test_device();
    CHECK(model_open(&m, path, &p, &err) == OK);
    if (!m) {
        fprintf(stderr, "%s\n", err.msg);
        exit(TEST_END());
    }
    return m;
}

static uint64_t asked(gpu *g)
{
    uint64_t n, driver;
    gpu_memory_used(g, &n, &driver);
    return n;
}

/* ---- blocks ---- */

/* Every weight of a float matrix, bit for bit. */
static bool same_floats(uint32_t type, const uint8_t *row, const uint8_t *want, size_t n)
{
    float *f = malloc(n * sizeof *f);
    device_unpack_row(type, row, f, n);
    bool same = memcmp(f, want, n * sizeof *f) == 0;
    free(f);
    return same;
}

/* A matrix lies in one block, and holds what packing its rows gives. */
static void check_matrix(const struct upload *u, gpu *g, const struct gpu_mat *from, const struct gpu_mat *on, uint32_t n_expert)
{
    if (!from->data)
        return;
    size_t n_row = (size_t)from->n_out * (from->rows_per_expert ? n_expert : 1), n = n_row * on->row_bytes, bad = 0;
    uint32_t home = 0;
    for (uint32_t i = 0; i < u->n_block; i++)
        home += on->data >= u->block[i].addr && on->data + n <= u->block[i].addr + u->block_bytes[i];
    CHECK(home == 1 && on->data % 16 == 0 && on->row_bytes == device_row_bytes(on->type, from->n_in));
    uint8_t *got = malloc(n), *want = malloc(on->row_bytes);
    float *tmp = malloc(from->n_in * sizeof *tmp);
    CHECK(gpu_read(g, got, on->data, n, &err) == OK);
    for (size_t r = 0; r < n_row; r++) {
        size_t at = from->rows_per_expert ? r / from->n_out * from->rows_per_expert + r % from->n_out : r;
        device_pack_row(on->type, from->type, AT(const uint8_t, from->data) + at * from->row_bytes, want, from->n_in, tmp);
        bad += memcmp(got + r * on->row_bytes, want, on->row_bytes) != 0;
        if (from->type == QUANT_F32)
            bad += !same_floats(on->type, got + r * on->row_bytes, AT(const uint8_t, from->data) + at * from->row_bytes, from->n_in);
    }
    CHECK(bad == 0);
    free(got), free(want), free(tmp);
}

static void check_vector(gpu *g, gpu_addr from, gpu_addr on, size_t n)
{
    float *got = malloc(n * sizeof *got);
    CHECK(gpu_read(g, got, on, n * sizeof *got, &err) == OK && memcmp(got, AT(const float, from), n * sizeof *got) == 0);
    free(got);
}

static void check_layer(const struct upload *u, gpu *g, const struct layer_weights *a, const struct layer_weights *b, const struct shape *s, bool is_qsa)
{
    check_matrix(u, g, &a->hc_attn.down, &b->hc_attn.down, 1);
    check_matrix(u, g, &a->hc_ffn.up, &b->hc_ffn.up, 1);
    check_matrix(u, g, &a->hc_ffn.inject, &b->hc_ffn.inject, 1);
    check_matrix(u, g, &a->moe.router, &b->moe.router, 1);
    check_matrix(u, g, &a->moe.shared_scalar, &b->moe.shared_scalar, 1);
    check_vector(g, a->hc_ffn.norm, b->hc_ffn.norm, (size_t)s->n_stream * s->n_embd);
    if (is_qsa)
        check_matrix(u, g, &a->qsa.q, &b->qsa.q, 1);
    else
        check_matrix(u, g, &a->gdn.qkv, &b->gdn.qkv, 1);
    check_matrix(u, g, &a->moe.gate, &b->moe.gate, s->n_expert);
    check_matrix(u, g, &a->moe.up, &b->moe.up, s->n_expert);
    check_matrix(u, g, &a->moe.down, &b->moe.down, s->n_expert);
    check_matrix(u, g, &a->moe.shared_down, &b->moe.shared_down, 1);
}

/* The two halves of eh_proj are parts of the file's rows, the right one ends with the file's matrix */
static void check_draft(const struct upload *u, gpu *g, const struct draft_weights *a, const struct draft_weights *b, const struct shape *s)
{
    CHECK(a->enorm && a->fc_embd.row_bytes == a->fc_hidden.row_bytes && a->fc_hidden.data > a->fc_embd.data);
    check_layer(u, g, &a->layer, &b->layer, s, true);
    check_matrix(u, g, &a->fc_embd, &b->fc_embd, 1);
    check_matrix(u, g, &a->fc_hidden, &b->fc_hidden, 1);
    check_matrix(u, g, &a->head.up, &b->head.up, 1);
    check_vector(g, a->enorm, b->enorm, s->n_embd);
    check_vector(g, a->hnorm, b->hnorm, (size_t)s->n_stream * s->n_embd);
}

static void check_weights(const struct upload *u, gpu *g, const struct weights *from, const struct weights *on, const struct shape *s)
{
    check_matrix(u, g, &from->token_embd, &on->token_embd, 1);
    check_matrix(u, g, &from->output, &on->output, 1);
    check_matrix(u, g, &from->out_hc.down, &on->out_hc.down, 1);
    for (uint32_t il = 0; il < s->n_layer; il++)
        check_layer(u, g, &from->layer[il], &on->layer[il], s, s->is_qsa[il]);
    check_matrix(u, g, &from->ple.key, &on->ple.key, 1);
}

struct seen {
    size_t calls, done, total, stop_at;
};
static bool watch(void *ctx, size_t done, size_t total)
{
    struct seen *s = ctx;
    CHECK(done > s->done && done <= total && (s->calls == 0 || total == s->total));
    s->calls++;
    s->done = done;
    s->total = total;
    return s->calls != s->stop_at;
}

static struct upload_from source(const model *m, enum load load)
{
    return (struct upload_from){ .weights = &m->weights, .shape = &m->shape, .file = m->file, .load = load, .head = load != LOAD_MMAP };
}

/* m: weights in the file; g: where they go */
static void upload_under(const model *m, gpu *g, size_t limit, uint32_t least_blocks, enum load load)
{
    const struct upload_from from = source(m, load);
    struct upload u;
    struct weights *on = malloc(sizeof *on);
    struct seen seen = { 0 };
    size_t sum = 0;
    CHECK(upload_plan(&u, &from, limit, &err) == OK);
    for (uint32_t i = 0; i < u.n_block; i++) {
        CHECK(u.block_bytes[i] > 0 && u.block_bytes[i] <= limit);
        sum += u.block_bytes[i];
    }
    CHECK(sum == u.total && u.n_block >= least_blocks && asked(g) == 0);
    CHECK(upload_weights(&u, g, on, &from, watch, &seen, &err) == OK);
    CHECK(asked(g) == u.total && seen.total == u.total && seen.done <= u.total && seen.calls > 20);
    check_weights(&u, g, &m->weights, on, &m->shape);
    if (from.head)
        check_draft(&u, g, &m->weights.draft, &on->draft, &m->shape);
    else
        CHECK(!on->draft.enorm && !on->draft.fc_embd.data);
    upload_free(&u, g);
    CHECK(asked(g) == 0);
    free(on);
}

/* The largest matrix of this model is its embedding. */
static size_t largest(const model *m)
{
    const struct gpu_mat *t = &m->weights.token_embd;
    return size_up(t->n_out * device_row_bytes(device_type_of(t->type, false), t->n_in), 256);
}

static void blocks(void)
{
    model *m = open_model(MODEL, (struct model_params){ .n_threads = 2, .backend = BACKEND_CPU });
    const struct upload_from from = source(m, LOAD_DIRECT);
    gpu *g = open_device((struct gpu_params){ .alloc_limit = 2 << 20 }), *staged = open_device((struct gpu_params){ .staged = true });
    size_t most = largest(m);
    upload_under(m, g, 2 << 20, 9, LOAD_DIRECT);
    upload_under(m, g, most, 11, LOAD_PLAIN);
    upload_under(m, staged, 2 << 20, 9, LOAD_DIRECT);
    upload_under(m, staged, 0x7fffffff, 1, LOAD_MMAP);
    gpu_close(staged);
    struct upload u;
    char bytes[64];
    static const size_t too_small[] = { 1 << 20, 300 << 10 };
    for (uint32_t i = 0; i < COUNT_OF(too_small); i++) {
        snprintf(bytes, sizeof bytes, "found %zu bytes, expected at most %zu", most, too_small[i]);
        CHECK(upload_plan(&u, &from, too_small[i], &err) == ERR_UNSUPPORTED && says("token_embd") && says(bytes));
        upload_free(&u, g);
    }
    CHECK(upload_plan(&u, &from, most - 1, &err) == ERR_UNSUPPORTED);
    upload_free(&u, g);
    gpu_close(g);
    model_close(m);
}

/* Gate and up as a file holds them in one bank, the rows of both experts by experts in turn: here the two halves of every expert of gate. */
static void banks_in_one(void)
{
    model *m = open_model(MODEL, (struct model_params){ .backend = BACKEND_CPU });
    gpu *g = open_device((struct gpu_params){ 0 });
    for (uint32_t il = 0; il < m->shape.n_layer; il++) {
        struct moe_weights *w = &m->weights.layer[il].moe;
        w->gate.n_out /= 2;
        w->up = w->gate;
        w->up.data += w->up.n_out * w->up.row_bytes;
        CHECK(w->gate.rows_per_expert == 2 * w->gate.n_out);
    }
    upload_under(m, g, 0x7fffffff, 1, LOAD_DIRECT);
    gpu_close(g);
    model_close(m);
}

static void refused_model(void)
{
    model *m = NULL;
    struct model_params p = { .backend = BACKEND_VULKAN, .device = test_device(), .alloc_limit = 300 << 10 };
    CHECK(model_open(&m, MODEL, &p, &err) == ERR_UNSUPPORTED && !m && says(MODEL ": token_embd: found") && says("expected at most 307200"));
    struct seen seen = { .stop_at = 5 };
    p.alloc_limit = 0;
    p.progress = watch;
    p.progress_ctx = &seen;
    CHECK(model_open(&m, MODEL, &p, &err) == ERR_DEVICE && !m && says("interrupted") && seen.calls == 5);
}

/* ---- a copy of the model that may be spoilt ---- */

static char copy_path[64];

static size_t make_copy(void)
{
    size_t cap = 64 << 20;
    uint8_t *bytes = malloc(cap);
    FILE *from = fopen(MODEL, "rb"), *to;
    size_t n = fread(bytes, 1, cap, from);
    snprintf(copy_path, sizeof copy_path, "build/unit_upload.%d.gguf", (int)getpid());
    CHECK((to = fopen(copy_path, "wb")) != NULL);
    CHECK(fwrite(bytes, 1, n, to) == n && fflush(to) == 0 && fsync(fileno(to)) == 0);
    fclose(from);
    fclose(to);
    free(bytes);
    return n;
}

/* Weights `first` .. of a float matrix, in the copy: new lower halves. */
static void set_lower_halves(const model *m, const struct gpu_mat *w, size_t first, size_t n, uint16_t half)
{
    struct gguf_file f;
    CHECK(gguf_file_of(m->file, 0, &f) && w->type == QUANT_F32);
    int fd = open(copy_path, O_WRONLY);
    for (size_t i = first; i < first + n; i++)
        CHECK(pwrite(fd, &half, 2, (off_t)(w->data - ADDR(f.map) + 4 * i)) == 2);
    close(fd);
}

/* What upload makes of a copy. */
static void upload_copy(uint32_t *n_narrowed, size_t *total, uint32_t *router, uint32_t *scalar)
{
    model *m = open_model(copy_path, (struct model_params){ .backend = BACKEND_VULKAN });
    *n_narrowed = m->upload.n_narrowed;
    *total = m->upload.total;
    *router = m->on_device->layer[0].moe.router.type;
    *scalar = m->on_device->layer[1].moe.shared_scalar.type;
    check_weights(&m->upload, m->gpu, &m->weights, m->on_device, &m->shape);
    model_close(m);
}

/* One weight that needs its lower half, the last one, keeps a whole matrix in F32. */
static void narrowed(void)
{
    make_copy();
    model *m = open_model(copy_path, (struct model_params){ .backend = BACKEND_CPU });
    const struct gpu_mat *a = &m->weights.layer[0].moe.router, *b = &m->weights.layer[1].moe.shared_scalar;
    size_t n_a = (size_t)a->n_in * a->n_out, n_b = (size_t)b->n_in * b->n_out, total[3];
    uint32_t n[3], router[3], scalar[3];
    set_lower_halves(m, a, 0, n_a, 0);
    set_lower_halves(m, b, 0, n_b, 0);
    upload_copy(&n[0], &total[0], &router[0], &scalar[0]);
    set_lower_halves(m, a, n_a - 1, 1, 1);
    upload_copy(&n[1], &total[1], &router[1], &scalar[1]);
    set_lower_halves(m, b, 0, 1, 0x8000);
    upload_copy(&n[2], &total[2], &router[2], &scalar[2]);
    CHECK(router[0] == DEV_BF16 && scalar[0] == DEV_BF16 && n[0] >= 2);
    CHECK(router[1] == DEV_F32 && scalar[1] == DEV_BF16 && n[1] == n[0] - 1 && total[1] == total[0] + size_up(4 * n_a, 256) - size_up(2 * n_a, 256));
    CHECK(router[2] == DEV_F32 && scalar[2] == DEV_F32 && n[2] == n[0] - 2);
    model_close(m);
    unlink(copy_path);
}

/* Bytes of the copy in the page cache. */
static size_t resident(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n_page = (n + page - 1) / page, sum = 0;
    uint8_t *in = malloc(n_page);
    int fd = open(copy_path, O_RDONLY);
    void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && mincore(map, n, in) == 0);
    for (size_t i = 0; i < n_page; i++)
        sum += in[i] & 1 ? page : 0;
    munmap(map, n);
    close(fd);
    free(in);
    return sum;
}

static void forget_pages(void)
{
    int fd = open(copy_path, O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* The header is read through the mapping, and the kernel reads some around it and keeps that; of the weights nothing is left behind. */
static void cached(void)
{
    size_t n = make_copy(), after[LOAD_PLAIN + 1];
    forget_pages();
    if (resident(n) > n / 100) {
        printf("%-28s skipped: the page cache after an upload (the file system of build/ keeps %zu of %zu bytes there)\n", __FILE__, resident(n), n);
        unlink(copy_path);
        return;
    }
    for (enum load how = LOAD_DIRECT; how <= LOAD_PLAIN; how++) {
        forget_pages();
        model_close(open_model(copy_path, (struct model_params){ .backend = BACKEND_VULKAN, .load = how }));
        after[how] = resident(n);
    }
    printf("%-28s of %zu bytes in the page cache: %zu, by plain reads %zu, by --load mmap %zu\n", __FILE__, n, after[LOAD_DIRECT], after[LOAD_PLAIN],
           after[LOAD_MMAP]);
    CHECK(after[LOAD_DIRECT] < n / 4 && after[LOAD_PLAIN] < n / 4 && after[LOAD_COPY] < n / 4 && after[LOAD_MMAP] > n / 5 * 4);
    unlink(copy_path);
}

static bool cut(void *ctx, size_t done, size_t total)
{
    (void)done, (void)total;
    if (*(int *)ctx == 0)
        CHECK(truncate(copy_path, 2 << 20) == 0);
    *(int *)ctx = 1;
    return true;
}
static bool touch(void *ctx, size_t done, size_t total)
{
    (void)done, (void)total;
    if (*(int *)ctx == 0)
        CHECK(utimensat(AT_FDCWD, copy_path, NULL, 0) == 0);
    *(int *)ctx = 1;
    return true;
}

static void spoilt_while_loading(void)
{
    model *m = NULL;
    for (int i = 0; i < 2; i++) {
        int once = 0;
        struct model_params p = { .backend = BACKEND_VULKAN, .device = test_device(), .progress = i ? touch : cut, .progress_ctx = &once };
        make_copy();
        CHECK(model_open(&m, copy_path, &p, &err) == ERR_IO && !m && once && says(copy_path) && says(i ? "changed while it was loaded" : "the file got shorter"));
        unlink(copy_path);
    }
}

/* Of the full model (512 experts, vocabulary 248,320) no matrix of any type needs more in one piece than RADV gives, so none is ever cut; quantised ones
 * stay below the gibibyte that every Vulkan device must give. */
static void sizes_of_the_real_model(void)
{
    const uint64_t bank = 512 * 640, head = 248320, radv = 0xfffffffc;
    for (uint32_t id = 0; id < QUANT_ID_LIMIT; id++) {
        if (!quant_type(id) || !quant_type(id)->decode)
            continue;
        uint32_t type = device_type_of(id, false);
        uint64_t most = MAX(bank, head) * device_row_bytes(type, 2560);
        CHECK(most <= radv);
        CHECK(most <= 1 << 30 || type == DEV_F32 || type == DEV_F16 || type == DEV_BF16 || type == DEV_I8);
    }
}

/* ---- the plan of a session ---- */

/* What the plan says lies on the device. */
static size_t planned(const model *m, const struct session_params *p)
{
    struct plan plan = { 0 };
    session_plan(m, p, &plan);
    return plan_device_bytes(&plan);
}

/* The logits behind a short prompt, and what was asked of the device against the plan, to the byte. With sanitizers no logits: in software a step takes
 * long, and what it computes none of them sees. */
static float *logits_of(model *m, const struct session_params *p)
{
    static const int32_t ids[] = { 5, 600, 70, 8000, 9, 10, 11 };
    session *s = NULL;
    size_t bytes = model_shape(m)->n_vocab * sizeof(float);
    float *out = calloc(1, bytes);
    CHECK(asked(m->gpu) == m->upload.total);
    CHECK(session_open(&s, m, p, 0, &err) == OK);
    struct device_memory memory;
    session_device_memory(s, &memory);
    CHECK(asked(m->gpu) == planned(m, p) && memory.planned == planned(m, p) && memory.asked == memory.planned);
    CHECK(memory.planned > m->upload.total && (memory.driver == 0 || memory.driver >= memory.planned));
    if (test_size(0, 1, 1)) {
        CHECK(session_prefill(s, ids, COUNT_OF(ids), NULL, NULL, &err) == OK && session_decode(s, 12, &err) == OK);
        memcpy(out, session_logits(s), bytes);
    }
    session_close(s);
    CHECK(asked(m->gpu) == m->upload.total);
    return out;
}

static void plans(void)
{
    const struct session_params small = { .n_ctx = 70, .n_ubatch = 64 }, large = { .n_ctx = 3001, .n_ubatch = 128, .kv = KV_F32, .precise = true };
    model *m = open_model(MODEL, (struct model_params){ .backend = BACKEND_VULKAN });
    model *tight = open_model(MODEL, (struct model_params){ .backend = BACKEND_VULKAN, .alloc_limit = 4 << 20 });
    model *only_plan = open_model(MODEL, (struct model_params){ .backend = BACKEND_VULKAN, .plan_only = true });
    CHECK(m->upload.n_block == 1 && tight->upload.n_block > 4);
    float *a = logits_of(m, &small), *b = logits_of(tight, &small);
    CHECK(memcmp(a, b, model_shape(m)->n_vocab * sizeof *a) == 0);
    free(a), free(b);
    free(logits_of(m, &large));
    CHECK(asked(only_plan->gpu) == 0 && planned(only_plan, &large) == planned(m, &large));
    model_close(m);
    model_close(tight);
    model_close(only_plan);
}

int main(void)
{
    if (!device_found(__FILE__, &err)) {
        printf("%-28s skipped, no device: %s\n", __FILE__, err.msg);
        return 0;
    }
    sizes_of_the_real_model();
    blocks();
    banks_in_one();
    narrowed();
    cached();
    spoilt_while_loading();
    refused_model();
    plans();
    return TEST_END();
}
