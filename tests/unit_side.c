/* unit_side.c - a draft head from a file of its own: every naming in circulation gives the logits of the same head inside the model's file, and what is
 * no such head, or one of another model, is refused by name. */
#include "model/model.h"
#include "tests/ggufmake.h"
#include "tests/test.h"
#include "tests/testdir.h"

#define MODEL "tests/models/tiny-man.gguf"
enum { N = 20 };

static struct err e;
static gguf *g;
static char block[16], path[256]; /* "blk.9." of the head in MODEL; the side file */

/* ---- writing ---- */

enum mixer { MIXER_HEAD, MIXER_SHORT, MIXER_TOP }; /* nextn.hc_head_norm, nextn.hc_norm, output_hc_norm */
enum tables { TABLES_NONE, TABLES_NEXTN, TABLES_TOP };
struct dialect {
    const char *what;
    uint32_t number;  /* of the block; 0: as in MODEL */
    enum mixer mixer;
    enum tables tables;
    bool apart;       /* fc_embd and fc_hidden instead of eh_proj */
    const char *drop; /* a tensor that is left out */
    const char *cut;  /* one that has a row less */
    float enorm;      /* factor of the gains; 0: 1 */
};

static void put(struct gm *m, const char *name, const struct gguf_tensor *t, const uint8_t *data, const uint64_t dim[4], size_t bytes)
{
    gm_tensor(m, name, t->type->id, dim, t->n_dims, data, bytes);
}

/* eh_proj as its two halves */
static void put_halves(struct gm *m, const char *prefix, const struct gguf_tensor *t)
{
    size_t half = t->row_bytes / 2, rows = t->bytes / t->row_bytes;
    uint64_t dim[4] = { t->dim[0] / 2, t->dim[1], 1, 1 };
    uint8_t *bytes = malloc(half * rows);
    for (int right = 0; right < 2; right++) {
        char name[96];
        snprintf(name, sizeof name, "%snextn.%s.weight", prefix, right ? "fc_hidden" : "fc_embd");
        for (size_t r = 0; r < rows; r++)
            memcpy(bytes + r * half, t->data + r * t->row_bytes + right * half, half);
        put(m, name, t, bytes, dim, half * rows);
    }
    free(bytes);
}

static void put_scaled(struct gm *m, const char *name, const struct gguf_tensor *t, float by)
{
    float *v = malloc(t->dim[0] * sizeof *v);
    t->type->decode(t->data, v, t->dim[0]);
    for (size_t i = 0; i < t->dim[0]; i++)
        v[i] *= by;
    gm_tensor(m, name, QUANT_F32, t->dim, 1, v, t->dim[0] * sizeof *v);
    free(v);
}

/* A tensor of the head, under the name it has in the dialect */
static void put_one(struct gm *m, const struct dialect *d, const char *prefix, const struct gguf_tensor *t, const char *suffix)
{
    static const char mixer[] = "nextn.hc_head_";
    char name[128];
    uint64_t dim[4] = { t->dim[0], t->dim[1], t->dim[2], t->dim[3] };
    size_t bytes = t->bytes;
    if (d->drop && strcmp(d->drop, suffix) == 0)
        return;
    if (d->apart && strcmp(suffix, "nextn.eh_proj.weight") == 0) {
        put_halves(m, prefix, t);
        return;
    }
    snprintf(name, sizeof name, "%s%s", prefix, suffix);
    if (strncmp(suffix, mixer, sizeof mixer - 1) == 0 && d->mixer != MIXER_HEAD)
        snprintf(name, sizeof name, "%s%s%s", d->mixer == MIXER_TOP ? "" : prefix, d->mixer == MIXER_TOP ? "output_hc_" : "nextn.hc_",
                 suffix + sizeof mixer - 1);
    if (d->enorm > 0 && strcmp(suffix, "nextn.enorm.weight") == 0) {
        put_scaled(m, name, t, d->enorm);
        return;
    }
    if (d->cut && strcmp(d->cut, suffix) == 0) {
        dim[1]--;
        bytes -= t->row_bytes;
    }
    put(m, name, t, t->data, dim, bytes);
}

/* The rows of a table, each in the place of the one before: a head that reads its own table says something else than with the model's */
static void put_turned(struct gm *m, const char *name, const struct gguf_tensor *t)
{
    uint8_t *bytes = malloc(t->bytes);
    memcpy(bytes, t->data + t->row_bytes, t->bytes - t->row_bytes);
    memcpy(bytes + t->bytes - t->row_bytes, t->data, t->row_bytes);
    put(m, name, t, bytes, t->dim, t->bytes);
    free(bytes);
}

static void put_tables(struct gm *m, const char *embd, const char *output)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight"), *o = gguf_find_tensor(g, "output.weight");
    o = o ? o : t;
    put_turned(m, embd, t);
    put(m, output, o, o->data, o->dim, o->bytes);
}

/* tokens: how many of the vocabulary's; the last one may be missing */
static void write_side(const struct dialect *d, const char *arch, uint64_t missing_tokens)
{
    struct gm m = { 0 };
    char prefix[16], a[64], b[64];
    size_t n = strlen(block), bytes;
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    snprintf(prefix, sizeof prefix, "blk.%u.", d->number);
    if (!d->number)
        strcpy(prefix, block);
    gm_str(&m, "general.architecture", arch);
    struct gguf_strs it = gguf_strs(tokens);
    struct gm_bytes *list = gm_arr(&m, "tokenizer.ggml.tokens", GM_STR, tokens->n - missing_tokens);
    struct str s;
    for (uint64_t i = 0; i < tokens->n - missing_tokens && gguf_next_str(&it, &s); i++) {
        gm_put_u64(list, s.n);
        gm_put(list, s.p, s.n);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[96];
        snprintf(name, sizeof name, "%.*s", STR_FMT(t->name));
        if (strncmp(name, block, n) == 0)
            put_one(&m, d, prefix, t, name + n);
    }
    snprintf(a, sizeof a, "%snextn.embed_tokens.weight", prefix);
    snprintf(b, sizeof b, "%snextn.shared_head_head.weight", prefix);
    if (d->tables)
        put_tables(&m, d->tables == TABLES_TOP ? "token_embd.weight" : a, d->tables == TABLES_TOP ? "output.weight" : b);
    uint8_t *file = gm_finish(&m, &bytes);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(file, 1, bytes, f) == bytes && fclose(f) == 0);
    free(file);
    gm_free(&m);
}

/* ---- comparing ---- */

struct heard {
    float *logits; /* [N, n_vocab] */
    size_t n, n_vocab;
};
static status hear(void *ctx, size_t pos, size_t n_rows, const float *logits, struct err *er)
{
    struct heard *h = ctx;
    (void)er;
    memcpy(h->logits + pos * h->n_vocab, logits, n_rows * h->n_vocab * sizeof *logits);
    h->n += n_rows;
    return OK;
}

/* What the head says about N ids */
static struct heard ask(const char *side, bool joint)
{
    model *m;
    session *s;
    int32_t ids[N];
    MUST(model_open(&m, MODEL, &(struct model_params){ .backend = BACKEND_CPU, .n_threads = 1, .draft_path = side }, &e));
    struct heard h = { .n_vocab = model_shape(m)->n_vocab };
    h.logits = calloc(N * h.n_vocab, sizeof *h.logits);
    for (int i = 0; i < N; i++)
        ids[i] = (i * 977 + 5) % (int32_t)h.n_vocab;
    MUST(session_open(&s, m, &(struct session_params){ .n_ctx = N, .precise = true, .head = true, .draft_joint = joint }, 0, &e));
    MUST(session_score_head(s, hear, &h, &e));
    MUST(session_prefill(s, ids, N, NULL, NULL, &e));
    MUST(session_flush(s, NULL, NULL, &e));
    session_close(s);
    model_close(m);
    CHECK(h.n == N - 1);
    return h;
}

static bool same(const struct heard *a, const struct heard *b) { return memcmp(a->logits, b->logits, N * a->n_vocab * sizeof *a->logits) == 0; }

static void refuses(const struct dialect *d, const char *arch, uint64_t missing_tokens, const char *says, const char *too)
{
    model *m = NULL;
    write_side(d, arch, missing_tokens);
    CHECK(model_open(&m, MODEL, &(struct model_params){ .backend = BACKEND_CPU, .draft_path = path }, &e) != OK);
    bool named = strstr(e.msg, path) && strstr(e.msg, says) && strstr(e.msg, too) && !strchr(e.msg, '\n');
    CHECK(named);
    if (!named)
        fprintf(stderr, "%s\n", e.msg);
    model_close(m);
}

int main(void)
{
    static const struct dialect dialect[] = {
        { .what = "as it is in the model" },
        { .what = "own tables, named as in a model; mixer as output_hc_*", .mixer = MIXER_TOP, .tables = TABLES_TOP },
        { .what = "short names, halves, another number", .number = 7, .mixer = MIXER_SHORT, .apart = true },
        { .what = "own tables, named as the head's", .number = 48, .tables = TABLES_NEXTN },
        { .what = "shared tables, mixer as output_hc_*", .mixer = MIXER_TOP },
    };
    if (!make_dir("side"))
        return 1;
    snprintf(path, sizeof path, "%s", in_dir("side.gguf"));
    MUST(gguf_open(&g, MODEL, &e));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        struct str name = gguf_tensor_at(g, i)->name;
        uint32_t n;
        char z[96];
        snprintf(z, sizeof z, "%.*s", STR_FMT(name));
        if (strstr(z, ".nextn.enorm.weight") && sscanf(z, "blk.%u.", &n) == 1)
            snprintf(block, sizeof block, "blk.%u.", n);
    }
    CHECK(*block);
    struct heard own = ask(NULL, false), joint = ask(NULL, true), turned = { 0 };
    CHECK(!same(&own, &joint));
    for (size_t i = 0; i < COUNT_OF(dialect); i++) {
        write_side(&dialect[i], "qwen4exp", 0);
        struct heard side = ask(path, false), *want = dialect[i].tables ? &turned : &own;
        if (dialect[i].tables && !turned.logits) {
            turned = side;
            CHECK(!same(&own, &turned));
            continue;
        }
        CHECK(same(want, &side));
        if (!same(want, &side))
            fprintf(stderr, "%s\n", dialect[i].what);
        free(side.logits);
    }
    write_side(&(struct dialect){ .what = "another head", .enorm = 1.5f }, "qwen4exp", 0); /* it is the side file's that speaks */
    struct heard other = ask(path, false);
    CHECK(!same(&own, &other));
    refuses(&dialect[0], "llama", 0, "another model", "general.architecture");
    refuses(&dialect[0], "qwen4exp", 1, "another model", "tokenizer.ggml.tokens");
    refuses(&(struct dialect){ .drop = "nextn.enorm.weight" }, "qwen4exp", 0, "no draft head", "blk.N.nextn.enorm.weight");
    refuses(&(struct dialect){ .drop = "attn_k.weight" }, "qwen4exp", 0, "attn_k.weight", "missing");
    refuses(&(struct dialect){ .drop = "nextn.hc_head_up.weight" }, "qwen4exp", 0, "hc_head_up.weight", "missing");
    refuses(&(struct dialect){ .cut = "nextn.eh_proj.weight" }, "qwen4exp", 0, "nextn.eh_proj.weight", "expected [");
    refuses(&(struct dialect){ .mixer = MIXER_TOP, .drop = "nextn.hc_head_down.weight" }, "qwen4exp", 0, "output_hc_down.weight", "missing");
    free(own.logits), free(joint.logits), free(other.logits), free(turned.logits);
    gguf_close(g);
    remove_dir();
    return TEST_END();
}
