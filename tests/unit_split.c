/* unit_split.c - a joined model becomes a PLE16 one with the same keys and the same bytes, or nothing is left behind. */
#include "model/guard.h"
#include "model/options.h"
#include "tests/ggufmake.h"
#include "tests/test.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool exists(const char *name)
{
    struct stat st;
    return lstat(in_dir(name), &st) == 0;
}

/* Nothing with .tmp. in its name. */
static bool no_leftovers(void)
{
    DIR *d = opendir(dir);
    bool clean = d != NULL;
    for (struct dirent *f; d && (f = readdir(d));)
        clean &= !strstr(f->d_name, ".tmp.");
    if (d)
        closedir(d);
    return clean;
}

static void refuse(int line, const char *in, const char *out, status want, const char *a, const char *b)
{
    struct err e = { 0 };
    status s = split_ple16(in, out, &e);
    bool good = s == want && e.code == want && strstr(e.msg, a) && strstr(e.msg, b) && no_leftovers();
    if (!good)
        fprintf(stderr, "line %d: status %d, expected %d: \"%s\", expected \"%s\" \"%s\"\n", line, s, want, e.msg, a, b);
    CHECK(good);
}
#define REFUSE(in, out, want, a, b) refuse(__LINE__, in, out, want, a, b)

static void write_model(struct gm *m, const char *name)
{
    CHECK(gm_write(m, in_dir(name)));
    gm_free(m);
}

static void joined_model(struct gm *m)
{
    gm_qwen4exp(m);
    gm_tensor(m, "token_embd.weight", 1, (uint64_t[]){ 64, 8 }, 2, NULL, 1024);
    gm_joined_table(m);
    gm_tensor(m, "blk.0.ssm_a", 0, (uint64_t[]){ 6 }, 1, NULL, 24);
    gm_tensor(m, "blk.0.ffn_down_exps.weight", 8, (uint64_t[]){ 32, 3, 2 }, 3, NULL, 6 * 34);
}

/* Every tensor of out is that of in, the heads are rows of the joined table, in its place; keys are the same but split.*. */
static void compare(int line, const char *in_path, const char *out_path)
{
    static const uint64_t OFFSET[4] = { 0, 5, 12, 23 }, SIZE[4] = { 5, 7, 11, 13 };
    struct err e = { 0 };
    gguf *in = NULL, *out = NULL;
    bool good = gguf_open(&in, in_path, &e) == OK && gguf_open(&out, out_path, &e) == OK;
    CHECK(good);
    if (!good) {
        fprintf(stderr, "line %d: %s\n", line, e.msg);
        gguf_close(in);
        return;
    }
    CHECK(gguf_n_shards(out) == 1 && gguf_version(out) == 3 && gguf_alignment(out) == gguf_alignment(in));
    size_t k = 0;
    for (size_t i = 0; i < gguf_n_kv(in); i++) {
        const struct gguf_kv *a = gguf_kv_at(in, i);
        if (a->key.n > 6 && !memcmp(a->key.p, "split.", 6))
            continue;
        CHECK(k < gguf_n_kv(out));
        const struct gguf_kv *b = gguf_kv_at(out, k++);
        CHECK(str_eq(a->key, b->key) && a->type == b->type && a->elem_type == b->elem_type && a->n == b->n);
        CHECK(a->data_bytes == b->data_bytes && !memcmp(a->data, b->data, a->data_bytes));
    }
    CHECK(k == gguf_n_kv(out));

    k = 0;
    for (size_t i = 0; i < gguf_n_tensors(in); i++) {
        const struct gguf_tensor *a = gguf_tensor_at(in, i);
        bool joined = str_is(a->name, "per_layer_token_embd.weight");
        for (uint32_t h = 0; h < (joined ? 4 : 1); h++) {
            CHECK(k < gguf_n_tensors(out));
            const struct gguf_tensor *b = gguf_tensor_at(out, k++);
            CHECK(a->type == b->type && b->file_offset % gguf_alignment(out) == 0);
            if (joined) {
                char name[48];
                snprintf(name, sizeof name, "ple_ngram_embd.%u.weight", h);
                CHECK(str_is(b->name, name) && b->n_dims == 2 && b->dim[0] == 32 && b->dim[1] == SIZE[h]);
                CHECK(!memcmp(b->data, a->data + OFFSET[h] * a->row_bytes, b->bytes) && b->bytes == SIZE[h] * a->row_bytes);
            } else {
                CHECK(str_eq(a->name, b->name) && a->n_dims == b->n_dims && !memcmp(a->dim, b->dim, sizeof a->dim));
                CHECK(a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes));
            }
        }
    }
    CHECK(k == gguf_n_tensors(out));
    struct shape s, t;
    CHECK(shape_read(&s, in, &e) == OK && shape_read(&t, out, &e) == OK && !memcmp(&s, &t, sizeof s));
    gguf_close(in);
    gguf_close(out);
}

static void split(int line, const char *in, const char *out)
{
    struct err e = { 0 };
    status s = split_ple16(in, out, &e);
    if (s != OK)
        fprintf(stderr, "line %d: %s\n", line, e.msg);
    CHECK(s == OK && no_leftovers());
    compare(line, in, out);
}
#define SPLIT(in, out) split(__LINE__, in, out)

static void test_single(void)
{
    struct gm m = { 0 };
    joined_model(&m), write_model(&m, "joined.gguf");
    SPLIT(in_dir("joined.gguf"), in_dir("heads.gguf"));
    SPLIT(in_dir("joined.gguf"), in_dir("heads.gguf")); /* replaces a file */
    struct stat st;
    CHECK(stat(in_dir("heads.gguf"), &st) == 0 && st.st_size % 32 == 0);
    REFUSE(in_dir("heads.gguf"), in_dir("again.gguf"), ERR_USAGE, "heads.gguf: ", "already");
    CHECK(!exists("again.gguf"));

    /* version 2 and another alignment, kept because its key is copied */
    m.align = 128, m.version = 2, gm_u32(&m, "general.alignment", 128);
    joined_model(&m), write_model(&m, "aligned.gguf");
    SPLIT(in_dir("aligned.gguf"), in_dir("aligned-heads.gguf"));

    /* a name without a directory */
    char cwd[512], in[600];
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    snprintf(in, sizeof in, "%s/%s", cwd, in_dir("joined.gguf"));
    CHECK(chdir(dir) == 0);
    struct err e = { 0 };
    CHECK(split_ple16(in, "bare.gguf", &e) == OK);
    CHECK(chdir(cwd) == 0 && no_leftovers());
    compare(__LINE__, in_dir("joined.gguf"), in_dir("bare.gguf"));

    /* a table larger than one write */
    gm_qwen4exp(&m);
    gm_ints(&m, "qwen4exp.ple.head_offsets", GM_U64, (int64_t[]){ 0, 90001, 90012, 90023 }, 4);
    gm_ints(&m, "qwen4exp.ple.head_vocab_sizes", GM_U64, (int64_t[]){ 90001, 11, 11, 300007 }, 4);
    gm_tensor(&m, "per_layer_token_embd.weight", 8, (uint64_t[]){ 32, 390144 }, 2, NULL, 390144 * 34);
    gm_tensor(&m, "blk.0.ssm_a", 0, (uint64_t[]){ 6 }, 1, NULL, 24);
    write_model(&m, "large.gguf");
    gguf *a = NULL, *b = NULL;
    CHECK(split_ple16(in_dir("large.gguf"), in_dir("large-heads.gguf"), &e) == OK);
    CHECK(gguf_open(&a, in_dir("large.gguf"), &e) == OK && gguf_open(&b, in_dir("large-heads.gguf"), &e) == OK);
    if (a && b) {
        const struct gguf_tensor *t = gguf_find_tensor(a, "per_layer_token_embd.weight"), *u = gguf_find_tensor(b, "ple_ngram_embd.3.weight");
        CHECK(u && u->bytes == 300007 * 34 && !memcmp(u->data, t->data + 90023 * 34, u->bytes));
        u = gguf_find_tensor(b, "ple_ngram_embd.0.weight");
        CHECK(u && u->bytes == 90001 * 34 && !memcmp(u->data, t->data, u->bytes));
        u = gguf_find_tensor(b, "blk.0.ssm_a");
        CHECK(u && !memcmp(u->data, gguf_find_tensor(a, "blk.0.ssm_a")->data, 24));
    }
    gguf_close(a);
    gguf_close(b);
}

static void test_shards(void)
{
    struct gm m = { 0 };
    gm_int(&m, "split.no", GM_U16, 0), gm_qwen4exp(&m); /* the first split key is the very first key */
    gm_int(&m, "split.count", GM_U16, 3), gm_int(&m, "split.tensors.count", GM_I32, 3), gm_str(&m, "last", "key");
    write_model(&m, "s-00001-of-00003.gguf");
    for (int i = 1; i < 3; i++) {
        gm_int(&m, "split.no", GM_U16, i), gm_int(&m, "split.count", GM_U16, 3), gm_int(&m, "split.tensors.count", GM_I32, 3);
        if (i == 1) {
            gm_tensor(&m, "blk.0.ssm_a", 0, (uint64_t[]){ 6 }, 1, NULL, 24);
            gm_tensor(&m, "blk.0.ssm_dt.bias", 0, (uint64_t[]){ 6 }, 1, NULL, 24);
        } else {
            gm_joined_table(&m);
        }
        write_model(&m, i == 1 ? "s-00002-of-00003.gguf" : "s-00003-of-00003.gguf");
    }
    SPLIT(in_dir("s-00001-of-00003.gguf"), in_dir("s.gguf"));
    REFUSE(in_dir("s-00001-of-00003.gguf"), in_dir("s-00003-of-00003.gguf"), ERR_USAGE, "s-00003-of-00003.gguf: ", "input itself");
    SPLIT(in_dir("s-00002-of-00003.gguf"), in_dir("s2.gguf"));
}

static void test_refused(void)
{
    struct gm m = { 0 };
    REFUSE(in_dir("none.gguf"), in_dir("x.gguf"), ERR_IO, "none.gguf: ", "No such file");
    REFUSE(in_dir("joined.gguf"), in_dir("joined.gguf"), ERR_USAGE, "joined.gguf: ", "input itself");
    CHECK(link(in_dir("joined.gguf"), in_dir("hard.gguf")) == 0 && symlink("joined.gguf", in_dir("soft.gguf")) == 0);
    REFUSE(in_dir("joined.gguf"), in_dir("hard.gguf"), ERR_USAGE, "hard.gguf: ", "input itself");
    REFUSE(in_dir("joined.gguf"), in_dir("soft.gguf"), ERR_USAGE, "soft.gguf: ", "symbolic link");
    REFUSE(in_dir("soft.gguf"), in_dir("joined.gguf"), ERR_USAGE, "joined.gguf: ", "input itself");
    REFUSE(in_dir("joined.gguf"), dir, ERR_USAGE, dir, "directory");
    REFUSE(in_dir("joined.gguf"), "/dev/null", ERR_USAGE, "/dev/null: ", "device");
    REFUSE(in_dir("joined.gguf"), in_dir("no/such/dir.gguf"), ERR_IO, "dir.gguf", "No such file");
    REFUSE(in_dir("joined.gguf"), in_dir("joined.gguf/x"), ERR_IO, "joined.gguf/x: ", "ot a directory");

    gm_qwen4exp(&m), write_model(&m, "keys.gguf");
    REFUSE(in_dir("keys.gguf"), in_dir("x.gguf"), ERR_UNSUPPORTED, "keys.gguf: ", "no n-gram table");
    gm_qwen4exp(&m), gm_drop(&m, "qwen4exp.ple.layers"), gm_joined_table(&m), write_model(&m, "nople.gguf");
    REFUSE(in_dir("nople.gguf"), in_dir("x.gguf"), ERR_FORMAT, "nople.gguf: ", "no key qwen4exp.ple.layers");
    gm_qwen4exp(&m), gm_tensor(&m, "per_layer_token_embd.weight", 8, (uint64_t[]){ 32, 35 }, 2, NULL, 35 * 34), write_model(&m, "short.gguf");
    REFUSE(in_dir("short.gguf"), in_dir("x.gguf"), ERR_FORMAT, "short.gguf: ", "[32, 35, 1, 1], expected [32, 36 or more]");
    gm_qwen4exp(&m), gm_tensor(&m, "per_layer_token_embd.weight", 8, (uint64_t[]){ 64, 40 }, 2, NULL, 40 * 68), write_model(&m, "wide.gguf");
    REFUSE(in_dir("wide.gguf"), in_dir("x.gguf"), ERR_FORMAT, "wide.gguf: ", "[64, 40, 1, 1]");
    gm_str(&m, "general.architecture", "llama"), write_model(&m, "llama.gguf");
    REFUSE(in_dir("llama.gguf"), in_dir("x.gguf"), ERR_UNSUPPORTED, "llama.gguf: ", "found llama");
    CHECK(!exists("x.gguf"));

    /* A write that fails half way leaves the old file and nothing else. */
    struct rlimit old, small = { 4 << 20, 4 << 20 };
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small.rlim_max = old.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    REFUSE(in_dir("large.gguf"), in_dir("full.gguf"), ERR_IO, "full.gguf.tmp.", "cannot write");
    CHECK(!exists("full.gguf"));
    REFUSE(in_dir("large.gguf"), in_dir("heads.gguf"), ERR_IO, "heads.gguf.tmp.", "cannot write");
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    compare(__LINE__, in_dir("joined.gguf"), in_dir("heads.gguf"));
}

/* The name of the file that is being written, once there is one. */
static bool wait_for_temporary(void)
{
    for (int i = 0; i < 10000 && no_leftovers(); i++)
        usleep(1000);
    return !no_leftovers();
}

/* The input gets shorter in the middle. Large tensors go from the mapping to the kernel, which says so; small ones are copied before, and
 * the guard ends the program. Neither leaves a part. */
static void test_shrinks(bool small)
{
    enum { COUNT = 256, SIDE = 1024, ROWS = 20000000 };
    struct gm m = { 0 };
    struct stat st;
    int code = 0;
    gm_qwen4exp(&m);
    gm_ints(&m, "qwen4exp.ple.head_vocab_sizes", GM_U64, (int64_t[]){ 5, 7, 11, small ? 13 : ROWS }, 4);
    uint64_t table = 23 + (small ? 13 : ROWS), at = size_up(table * 34, 32);
    gm_info(&m, "per_layer_token_embd.weight", 2, (uint64_t[]){ 32, table }, 8, 0);
    for (int i = 0; small && i < COUNT; i++, at += 4 * SIDE * SIDE) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gm_info(&m, name, 2, (uint64_t[]){ SIDE, SIDE }, 0, at);
    }
    write_model(&m, "shrinks.gguf");
    CHECK(stat(in_dir("shrinks.gguf"), &st) == 0 && truncate(in_dir("shrinks.gguf"), st.st_size + (off_t)at) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct err e;
        if (!freopen(in_dir("said"), "w", stderr))
            _exit(9);
        guard_open(false);
        status s = split_ple16(in_dir("shrinks.gguf"), in_dir("never.gguf"), &e);
        fprintf(stderr, "hayate: %s\n", e.msg);
        fflush(stderr);
        _exit(s == ERR_IO ? 1 : 9);
    }
    CHECK(wait_for_temporary());
    CHECK(truncate(in_dir("shrinks.gguf"), st.st_size) == 0);
    CHECK(waitpid(pid, &code, 0) == pid && WIFEXITED(code) && WEXITSTATUS(code) == 1);
    CHECK(no_leftovers() && !exists("never.gguf"));
    char said[600] = "", want[300];
    FILE *f = fopen(in_dir("said"), "r");
    CHECK(f && fgets(said, sizeof said, f) && fgetc(f) == EOF);
    snprintf(want, sizeof want, "hayate: %s: the file got shorter while it was in use", in_dir("shrinks.gguf"));
    CHECK(strncmp(said, want, strlen(want)) == 0 && !!strstr(said, "expected") == small);
    if (f)
        fclose(f);
    unlink(in_dir("shrinks.gguf"));
}

int main(void)
{
    if (!make_dir("unit_split"))
        return 1;
    test_single();
    test_shards();
    test_refused();
    test_shrinks(false);
    test_shrinks(true);
    remove_dir();
    return TEST_END();
}
