/* unit_gguf.c - what the GGUF reader accepts and every rule by which it refuses.
 *
 *     unit_gguf                    run the tests
 *     unit_gguf --corpus DIR       write the seeds of tests/corpus/gguf */
#include "model/gguf.h"
#include "tests/ggufmake.h"
#include "tests/test.h"
#include "tests/testdir.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- helpers ---- */

/* The message must contain each of the words and the name of the file. */
static void expect(int line, status got, const struct err *e, status want, const char *file, const char *a, const char *b)
{
    bool good = got == want && e->code == want && strstr(e->msg, file) && strstr(e->msg, a) && strstr(e->msg, b);
    if (!good)
        fprintf(stderr, "line %d: status %d, expected %d: \"%s\", expected \"%s\" \"%s\" \"%s\"\n", line, got, want, e->msg, file, a, b);
    CHECK(good);
}

/* On a heap copy of exactly this size, so that one byte too far is seen. */
static void refuse_bytes(int line, const void *p, size_t n, status want, const char *a, const char *b)
{
    struct err e = { 0 };
    gguf *g = NULL;
    uint8_t *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, p, n);
    status s = gguf_open_memory(&g, copy, n, "file.gguf", &e);
    expect(line, s, &e, want, "file.gguf: ", a, b);
    CHECK(gguf_open_memory(&g, copy, n, "file.gguf", NULL) == want && g == NULL);
    gguf_close(g);
    free(copy);
}

static void refuse(int line, struct gm *m, status want, const char *a, const char *b)
{
    size_t n;
    uint8_t *p = gm_finish(m, &n);
    refuse_bytes(line, p, n, want, a, b);
    free(p);
    gm_free(m);
}
#define REFUSE(m, want, a, b) refuse(__LINE__, m, want, a, b)
#define REFUSE_BYTES(p, n, want, a, b) refuse_bytes(__LINE__, p, n, want, a, b)

/* Opened, with the bytes to free later. */
struct opened {
    gguf *g;
    uint8_t *bytes;
};

static struct opened accept(int line, struct gm *m)
{
    struct err e = { 0 };
    struct opened o = { 0 };
    size_t n;
    uint8_t *p = gm_finish(m, &n);
    o.bytes = malloc(n);
    memcpy(o.bytes, p, n);
    free(p);
    gm_free(m);
    if (gguf_open_memory(&o.g, o.bytes, n, "file.gguf", &e) != OK)
        fprintf(stderr, "line %d: %s\n", line, e.msg);
    CHECK(o.g != NULL);
    return o;
}
#define ACCEPT(m) accept(__LINE__, m)

static void done(struct opened o)
{
    gguf_close(o.g);
    free(o.bytes);
}

static void two_tensors(struct gm *m)
{
    gm_str(m, "general.architecture", "qwen4exp");
    gm_ints(m, "a.list", GM_I32, (int64_t[]){ -1, 0, 1 }, 3);
    gm_tensor(m, "first.weight", 8, (uint64_t[]){ 64, 3 }, 2, NULL, 3 * 68);
    gm_tensor(m, "second.bias", 0, (uint64_t[]){ 5 }, 1, NULL, 20);
}

/* ---- what is accepted ---- */

static void test_tensors(void)
{
    struct gm m = { 0 };
    for (uint32_t version = 2; version <= 3; version++) {
        two_tensors(&m);
        m.version = version;
        struct opened o = ACCEPT(&m);
        CHECK(gguf_version(o.g) == version && gguf_n_shards(o.g) == 1 && gguf_n_tensors(o.g) == 2 && gguf_n_kv(o.g) == 2);
        CHECK(!strcmp(gguf_name(o.g), "file.gguf") && !strcmp(gguf_shard_path(o.g, 0), "file.gguf") && gguf_alignment(o.g) == 32);
        const struct gguf_tensor *t = gguf_find_tensor(o.g, "first.weight"), *u = gguf_tensor_at(o.g, 1);
        CHECK(t == gguf_tensor_at(o.g, 0) && str_is(t->name, "first.weight") && t->type == quant_type(QUANT_Q8_0));
        CHECK(t->n_dims == 2 && t->dim[0] == 64 && t->dim[1] == 3 && t->dim[2] == 1 && t->dim[3] == 1);
        CHECK(t->row_bytes == 68 && t->bytes == 204 && t->shard == 0 && t->data == o.bytes + t->file_offset);
        CHECK(t->file_offset % 32 == 0 && u->file_offset == t->file_offset + 224 && u->bytes == 20);
        CHECK(gguf_file_bytes(o.g) == u->file_offset + 20);
        CHECK(t->data[0] == 31 && t->data[1] == 38); /* the pattern of tensor 1 */
        CHECK(!gguf_find_tensor(o.g, "first") && !gguf_find_tensor(o.g, "") && !gguf_find(o.g, "a.lis"));
        done(o);
    }

    /* no tensors: the file may end without padding */
    gm_u32(&m, "k", 1);
    struct opened o = ACCEPT(&m);
    CHECK(gguf_n_tensors(o.g) == 0 && gguf_n_kv(o.g) == 1 && !gguf_find_tensor(o.g, "x"));
    done(o);
    o = ACCEPT(&m); /* nothing at all */
    CHECK(gguf_n_kv(o.g) == 0 && !gguf_find(o.g, "k"));
    done(o);

    /* a scalar, four dimensions, the longest name, another alignment, gaps and any order, bytes behind the last one */
    const char *longest = "123456789012345678901234567890123456789012345678901234567890123";
    m.align = 64;
    gm_u32(&m, "general.alignment", 64);
    gm_info(&m, "scalar", 0, NULL, 0, 256);
    gm_info(&m, longest, 4, (uint64_t[]){ 2, 1, 2, 3 }, 1, 64);
    gm_info(&m, "\xe7\x96\xbe\xe9\xa2\xa8", 1, (uint64_t[]){ 4 }, 0, 0);
    gm_put(&m.data, (uint8_t[300]){ 0 }, 300);
    o = ACCEPT(&m);
    CHECK(gguf_alignment(o.g) == 64 && gguf_find_tensor(o.g, "scalar")->bytes == 4 && gguf_find_tensor(o.g, "scalar")->dim[0] == 1);
    CHECK(gguf_find_tensor(o.g, longest)->bytes == 24 && gguf_find_tensor(o.g, longest)->row_bytes == 4);
    CHECK(gguf_find_tensor(o.g, longest)->file_offset % 64 == 0 && gguf_find_tensor(o.g, "\xe7\x96\xbe\xe9\xa2\xa8"));
    done(o);

    /* many names, so that the index has collisions */
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gm_tensor(&m, name, 24, (uint64_t[]){ 1 }, 1, NULL, 1);
    }
    o = ACCEPT(&m);
    for (size_t i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%zu", i);
        CHECK(gguf_find_tensor(o.g, name) == gguf_tensor_at(o.g, i));
    }
    CHECK(!gguf_find_tensor(o.g, "t300"));
    done(o);
}

static void test_values(void)
{
    static const uint32_t INT_TYPE[] = { GM_U8, GM_I8, GM_U16, GM_I16, GM_U32, GM_I32, GM_U64, GM_I64 };
    struct gm m = { 0 };
    struct err e = { 0 };
    char key[32];
    for (size_t i = 0; i < COUNT_OF(INT_TYPE); i++) {
        snprintf(key, sizeof key, "int.%zu", i);
        gm_int(&m, key, INT_TYPE[i], 100);
        snprintf(key, sizeof key, "neg.%zu", i);
        gm_int(&m, key, INT_TYPE[i], -2);
        snprintf(key, sizeof key, "arr.%zu", i);
        gm_ints(&m, key, INT_TYPE[i], (int64_t[]){ 1, 2, -3 }, 3);
    }
    gm_f32(&m, "f32", 1.5f);
    gm_f64(&m, "f64", 2.5);
    gm_int(&m, "bool", GM_BOOL, 1);
    gm_int(&m, "bool.255", GM_BOOL, 255);
    gm_ints(&m, "bools", GM_BOOL, (int64_t[]){ 0, 1, 7 }, 3);
    gm_str(&m, "str", "h\xc3\xa9llo");
    gm_str(&m, "str.empty", "");
    gm_strs(&m, "strs", (const char *const[]){ "a", "", "ccc" }, 3);
    gm_arr(&m, "strs.none", GM_STR, 0);
    gm_put(gm_arr(&m, "floats", GM_F32, 2), (float[]){ 1, 2 }, 8);
    gm_ints(&m, "mul", GM_U64, (int64_t[]){ -1, 23703573157769 }, 2);
    gm_u32(&m, "GGUF.version", 3); /* stray, as one converter writes it */
    struct opened o = ACCEPT(&m);
    const gguf *g = o.g;

    for (size_t i = 0; i < COUNT_OF(INT_TYPE); i++) {
        bool is_signed = i % 2;
        uint64_t v = 0;
        int64_t list[4];
        size_t n = 9;
        snprintf(key, sizeof key, "int.%zu", i);
        CHECK(gguf_req_uint(g, key, 100, 100, &v, &e) == OK && v == 100);
        expect(__LINE__, gguf_req_uint(g, key, 1, 99, &v, &e), &e, ERR_FORMAT, "file.gguf: ", key, "is 100, expected 1..99");
        expect(__LINE__, gguf_opt_uint(g, key, 101, 102, 7, &v, &e), &e, ERR_FORMAT, "file.gguf: ", key, "is 100, expected 101..102");
        snprintf(key, sizeof key, "neg.%zu", i);
        if (is_signed)
            expect(__LINE__, gguf_req_uint(g, key, 0, UINT64_MAX, &v, &e), &e, ERR_FORMAT, "file.gguf: ", key, "is -2");
        else
            CHECK(gguf_req_uint(g, key, 0, UINT64_MAX, &v, &e) == OK && v == (i == 0 ? 254 : i == 2 ? 65534 : i == 4 ? UINT32_MAX - 1 : UINT64_MAX - 1));
        snprintf(key, sizeof key, "arr.%zu", i);
        if (is_signed) {
            CHECK(gguf_opt_ints(g, key, -3, 2, list, 3, &n, &e) == OK && n == 3 && list[0] == 1 && list[1] == 2 && list[2] == -3);
            expect(__LINE__, gguf_opt_ints(g, key, 0, 2, list, 4, &n, &e), &e, ERR_FORMAT, key, "element 2 of", "is -3, expected 0..2");
        } else if (i < 6) {
            CHECK(gguf_opt_ints(g, key, 1, INT64_MAX, list, 3, &n, &e) == OK && n == 3 && list[2] > 200);
        } else { /* above what an int64 holds */
            expect(__LINE__, gguf_opt_ints(g, key, 1, INT64_MAX, list, 3, &n, &e), &e, ERR_FORMAT, key, "element 2", "18446744073709551613");
        }
        expect(__LINE__, gguf_opt_ints(g, key, -3, 9, list, 2, &n, &e), &e, ERR_FORMAT, key, "3 elements", "at most 2");
    }

    uint64_t u, us[3];
    int64_t is[3];
    size_t n;
    float f;
    bool b;
    struct str s;
    CHECK(gguf_opt_uint(g, "none", 0, 1, 42, &u, &e) == OK && u == 42);
    expect(__LINE__, gguf_req_uint(g, "none", 0, 1, &u, &e), &e, ERR_FORMAT, "file.gguf: ", "none", "missing");
    expect(__LINE__, gguf_req_uint(g, "f32", 0, 1, &u, &e), &e, ERR_FORMAT, "f32", "expected an integer", "");
    expect(__LINE__, gguf_req_uint(g, "str", 0, 1, &u, &e), &e, ERR_FORMAT, "str", "expected an integer", "");
    expect(__LINE__, gguf_opt_uint(g, "arr.1", 0, 1, 0, &u, &e), &e, ERR_FORMAT, "arr.1", "array", "expected an integer");
    CHECK(gguf_req_f32(g, "f32", &f, &e) == OK && f == 1.5f);
    CHECK(gguf_req_f32(g, "f64", &f, &e) == OK && f == 2.5f);
    CHECK(gguf_opt_f32(g, "none", 3, &f, &e) == OK && f == 3);
    expect(__LINE__, gguf_req_f32(g, "none", &f, &e), &e, ERR_FORMAT, "none", "missing", "");
    expect(__LINE__, gguf_opt_f32(g, "int.0", 0, &f, &e), &e, ERR_FORMAT, "int.0", "u8", "expected f32");
    CHECK(gguf_opt_bool(g, "bool", false, &b, &e) == OK && b);
    CHECK(gguf_opt_bool(g, "bool.255", false, &b, &e) == OK && b);
    CHECK(gguf_opt_bool(g, "none", true, &b, &e) == OK && b);
    expect(__LINE__, gguf_opt_bool(g, "strs", false, &b, &e), &e, ERR_FORMAT, "strs", "array of string", "expected bool");
    CHECK(gguf_opt_ints(g, "bools", 0, 1, is, 3, &n, &e) == OK && n == 3 && is[0] == 0 && is[1] == 1 && is[2] == 1);
    CHECK(gguf_opt_str(g, "str", STR("x"), &s, &e) == OK && str_is(s, "h\xc3\xa9llo"));
    CHECK(gguf_opt_str(g, "str.empty", STR("x"), &s, &e) == OK && s.n == 0);
    CHECK(gguf_opt_str(g, "none", STR("x"), &s, &e) == OK && str_is(s, "x"));
    expect(__LINE__, gguf_opt_str(g, "strs", STR("x"), &s, &e), &e, ERR_FORMAT, "strs", "expected string", "");
    CHECK(gguf_opt_ints(g, "int.6", 0, 100, is, 3, &n, &e) == OK && n == 1 && is[0] == 100); /* a scalar is an array of one */
    CHECK(gguf_opt_ints(g, "strs.none", 0, 0, is, 3, &n, &e) == OK && n == 0);
    CHECK(gguf_opt_ints(g, "none", 0, 0, is, 3, &n, &e) == OK && n == 0);
    expect(__LINE__, gguf_opt_ints(g, "floats", 0, 9, is, 3, &n, &e), &e, ERR_FORMAT, "floats", "array of f32", "integers");
    expect(__LINE__, gguf_opt_u64s(g, "strs", us, 3, &n, &e), &e, ERR_FORMAT, "strs", "array of string", "integers");
    CHECK(gguf_opt_u64s(g, "mul", us, 3, &n, &e) == OK && n == 2 && us[0] == UINT64_MAX && us[1] == 23703573157769);
    CHECK(gguf_opt_u64s(g, "arr.4", us, 3, &n, &e) == OK && n == 3 && us[2] == 4294967293u);
    expect(__LINE__, gguf_opt_u64s(g, "arr.7", us, 3, &n, &e), &e, ERR_FORMAT, "arr.7", "element 2", "is -3");

    struct gguf_strs it = gguf_strs(gguf_find(g, "strs"));
    CHECK(gguf_next_str(&it, &s) && str_is(s, "a"));
    CHECK(gguf_next_str(&it, &s) && s.n == 0);
    CHECK(gguf_next_str(&it, &s) && str_is(s, "ccc"));
    CHECK(!gguf_next_str(&it, &s) && !gguf_next_str(&it, &s));
    const struct gguf_kv *kv = gguf_find(g, "strs");
    CHECK(kv->type == GGUF_ARR && kv->elem_type == GGUF_STR && kv->n == 3 && kv->data_bytes == 3 * 8 + 4);
    kv = gguf_find(g, "f32");
    CHECK(kv->type == GGUF_F32 && kv->elem_type == GGUF_F32 && kv->n == 1 && kv->data_bytes == 4);
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        char z[32];
        snprintf(z, sizeof z, "%.*s", STR_FMT(gguf_kv_at(g, i)->key));
        CHECK(gguf_find(g, z) == gguf_kv_at(g, i));
    }
    done(o);
}

/* ---- what is refused ---- */

static void test_not_gguf(void)
{
    static uint8_t page[8192];
    REFUSE_BYTES("", 0, ERR_FORMAT, "not a GGUF", "empty");
    REFUSE_BYTES("GG", 2, ERR_FORMAT, "not a GGUF", "text");
    REFUSE_BYTES("GGUF", 4, ERR_FORMAT, "truncated", "4 bytes");
    REFUSE_BYTES("PK\3\4\0\0\0\0", 8, ERR_FORMAT, "not a GGUF", "zip");
    REFUSE_BYTES("\x20\0\0\0\0\0\0\0{\"__metadata__\":{}}                    ", 40, ERR_FORMAT, "not a GGUF", "safetensors");
    REFUSE_BYTES("version https://git-lfs.github.com/spec/v1\n", 43, ERR_FORMAT, "not a GGUF", "LFS");
    REFUSE_BYTES("\n<!DOCTYPE html><html>", 22, ERR_FORMAT, "not a GGUF", "HTML");
    REFUSE_BYTES("FUGG\3\0\0\0", 8, ERR_FORMAT, "not a GGUF", "byte order");
    REFUSE_BYTES("just a text", 11, ERR_FORMAT, "not a GGUF", "text file");
    REFUSE_BYTES("\1\2\3\4\5\6\7\0", 8, ERR_FORMAT, "not a GGUF", "unknown data");
    memcpy(page + 4000, "CIRUPLE1", 8);
    REFUSE_BYTES(page, sizeof page, ERR_FORMAT, "not a GGUF", "CIRUPLE1");
}

static void test_header(void)
{
    struct gm m = { 0 };
    size_t n;
    m.version = 1, REFUSE(&m, ERR_UNSUPPORTED, "version 1", "expected 2 or 3");
    m.version = 4, REFUSE(&m, ERR_UNSUPPORTED, "version 4", "expected 2 or 3");
    m.version = 0x03000000, REFUSE(&m, ERR_FORMAT, "byte order", "big-endian");
    m.version = 0x02000000, REFUSE(&m, ERR_FORMAT, "byte order", "big-endian");
    uint8_t *p = gm_finish(&m, &n);
    memset(p + 4, 0, 4);
    REFUSE_BYTES(p, n, ERR_UNSUPPORTED, "version 0", "expected 2 or 3");
    free(p);
    static const uint64_t COUNT[] = { 1, 2, 1 << 20, UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX };
    for (size_t i = 0; i < COUNT_OF(COUNT); i++) {
        m.say_kv = COUNT[i], REFUSE(&m, ERR_FORMAT, "keys", "0 bytes");
        m.say_tensors = COUNT[i], REFUSE(&m, ERR_FORMAT, "tensors", "0 bytes");
        two_tensors(&m);
        m.say_kv = COUNT[i] + 2;
        if (m.say_kv > 2)
            REFUSE(&m, ERR_FORMAT, "", "");
        gm_free(&m);
        two_tensors(&m);
        m.say_tensors = COUNT[i] + 2;
        if (m.say_tensors > 2)
            REFUSE(&m, ERR_FORMAT, "", "");
        gm_free(&m);
    }
}

static void test_keys(void)
{
    struct gm m = { 0 };
    gm_u32(&m, "same", 1), gm_put_u32(gm_append(&m, "same", GM_U32), 2);
    REFUSE(&m, ERR_FORMAT, "key same", "twice");
    gm_u32(&m, "", 1), REFUSE(&m, ERR_FORMAT, "key 0", "empty");
    gm_u32(&m, "k\xc3\xa9y", 1), REFUSE(&m, ERR_FORMAT, "key 0", "ASCII");
    gm_u32(&m, "k\ny", 1), REFUSE(&m, ERR_FORMAT, "key 0", "printable");
    gm_put_u32(gm_set(&m, "odd", 13), 0), REFUSE(&m, ERR_FORMAT, "key odd", "value type 13");
    gm_put_u32(gm_set(&m, "odd", UINT32_MAX), 0), REFUSE(&m, ERR_FORMAT, "key odd", "value type 4294967295");
    gm_arr(&m, "nested", GM_ARR, 0), REFUSE(&m, ERR_UNSUPPORTED, "key nested", "array of arrays");
    gm_put_u32(gm_arr(&m, "odd", 13, 1), 0), REFUSE(&m, ERR_FORMAT, "key odd", "value type 13");
    gm_put_u64(gm_arr(&m, "long", GM_U8, 9), 0), REFUSE(&m, ERR_FORMAT, "key long", "9 x u8");
    gm_put_u64(gm_arr(&m, "long", GM_F64, 1ull << 30), 0), REFUSE(&m, ERR_FORMAT, "key long", "1073741824 x f64");
    gm_put_u64(gm_arr(&m, "long", GM_U8, (1ull << 30) + 1), 0), REFUSE(&m, ERR_FORMAT, "array long", "1073741825 elements");
    gm_put_u64(gm_arr(&m, "long", GM_U64, 1ull << 61), 0), REFUSE(&m, ERR_FORMAT, "array long", "elements");
    gm_put_u64(gm_arr(&m, "long", GM_U64, UINT64_MAX), 0), REFUSE(&m, ERR_FORMAT, "array long", "elements");
    gm_put_u64(gm_arr(&m, "strs", GM_STR, 2), 0), REFUSE(&m, ERR_FORMAT, "truncated", "string");
    gm_put_u64(gm_arr(&m, "strs", GM_STR, 1), 1), REFUSE(&m, ERR_FORMAT, "string", "0 bytes are left");
    gm_put_u64(gm_set(&m, "str", GM_STR), 1), REFUSE(&m, ERR_FORMAT, "string", "0 bytes are left");
    gm_put_u64(gm_set(&m, "str", GM_STR), UINT64_MAX), REFUSE(&m, ERR_FORMAT, "string", "expected at most 1073741824");
    gm_put_u64(gm_set(&m, "str", GM_STR), (1 << 30) + 1), REFUSE(&m, ERR_FORMAT, "string", "expected at most 1073741824");
    gm_put_u32(gm_set(&m, "short", GM_F64), 1), REFUSE(&m, ERR_FORMAT, "key short", "1 x f64");

    static const uint64_t ALIGN[] = { 0, 3, 33, 1 << 21, UINT32_MAX };
    for (size_t i = 0; i < COUNT_OF(ALIGN); i++)
        gm_u32(&m, "general.alignment", (uint32_t)ALIGN[i]), REFUSE(&m, ERR_FORMAT, "general.alignment", "expected");
    gm_str(&m, "general.alignment", "32"), REFUSE(&m, ERR_FORMAT, "general.alignment", "integer");
    gm_int(&m, "general.alignment", GM_I32, -32), REFUSE(&m, ERR_FORMAT, "general.alignment", "-32");
}

static void test_infos(void)
{
    struct gm m = { 0 };
    gm_info(&m, "five", 5, (uint64_t[]){ 1, 1, 1, 1, 1 }, 0, 0), gm_put(&m.data, "\0\0\0\0", 4);
    REFUSE(&m, ERR_FORMAT, "tensor five", "5 dimensions");
    gm_info(&m, "many", 0, NULL, 0, 0);
    memset(m.tensor[0].info.p + 12, 0xff, 4);
    REFUSE(&m, ERR_FORMAT, "tensor many", "4294967295 dimensions");
    gm_info(&m, "zero", 2, (uint64_t[]){ 4, 0 }, 0, 0);
    REFUSE(&m, ERR_FORMAT, "dimension 1 of tensor zero", "is 0");
    gm_info(&m, "zero", 1, (uint64_t[]){ 0 }, 0, 0);
    REFUSE(&m, ERR_FORMAT, "dimension 0 of tensor zero", "is 0");

    static const uint64_t HUGE_DIM[][4] = {
        { 1ull << 63, 1, 1, 1 }, { UINT64_MAX, 1, 1, 1 }, { 1ull << 32, 1ull << 31, 1, 1 }, { 1ull << 32, 1ull << 32, 1, 1 },
        { 1ull << 32, 1ull << 32, 1ull << 32, 1ull << 32 }, { 3, UINT64_MAX / 3 + 1, 1, 1 }, { 1ull << 16, 1ull << 16, 1ull << 16, 1ull << 15 },
    };
    for (size_t i = 0; i < COUNT_OF(HUGE_DIM); i++)
        gm_info(&m, "huge", 4, HUGE_DIM[i], 0, 0), REFUSE(&m, ERR_FORMAT, "tensor huge", "2^63");
    gm_info(&m, "huge", 1, (uint64_t[]){ 1ull << 62 }, 0, 0), REFUSE(&m, ERR_FORMAT, "tensor huge", "2^64 bytes");
    gm_info(&m, "huge", 2, (uint64_t[]){ 2, 1ull << 61 }, 0, 0), REFUSE(&m, ERR_FORMAT, "tensor huge", "2^64 bytes");
    gm_info(&m, "huge", 1, (uint64_t[]){ 1ull << 61 }, 0, 0), REFUSE(&m, ERR_FORMAT, "tensor huge", "file has");
    gm_info(&m, "huge", 1, (uint64_t[]){ (1ull << 62) - 1 }, 0, UINT64_MAX - 31), REFUSE(&m, ERR_FORMAT, "tensor huge", "2^64");

    gm_info(&m, "odd", 2, (uint64_t[]){ 33, 32 }, 8, 0), REFUSE(&m, ERR_FORMAT, "tensor odd has rows of 33", "multiple of 32 for Q8_0");
    gm_info(&m, "odd", 2, (uint64_t[]){ 160, 2 }, 12, 0), REFUSE(&m, ERR_FORMAT, "tensor odd has rows of 160", "multiple of 256 for Q4_K");
    gm_info(&m, "odd", 0, NULL, 2, 0), REFUSE(&m, ERR_FORMAT, "tensor odd has rows of 1", "multiple of 32");
    static const uint32_t FOREIGN[] = { 4, 5, 31, 36, 63, 64, 100, 101, 110, 1000, 0x7fffffff, 0xffffffff };
    for (size_t i = 0; i < COUNT_OF(FOREIGN); i++) {
        char words[48];
        snprintf(words, sizeof words, "type %u (", FOREIGN[i]);
        gm_info(&m, "alien", 1, (uint64_t[]){ 256 }, FOREIGN[i], 0);
        REFUSE(&m, ERR_UNSUPPORTED, "tensor alien", words);
    }
    gm_info(&m, "alien", 1, (uint64_t[]){ 32 }, 100, 0), REFUSE(&m, ERR_UNSUPPORTED, "type 100", "ROCm");

    gm_info(&m, "loose", 1, (uint64_t[]){ 1 }, 0, 4), gm_put(&m.data, (uint8_t[64]){ 0 }, 64);
    REFUSE(&m, ERR_FORMAT, "tensor loose", "multiple of 32");
    m.align = 64, gm_u32(&m, "general.alignment", 64);
    gm_info(&m, "loose", 1, (uint64_t[]){ 1 }, 0, 32), gm_put(&m.data, (uint8_t[64]){ 0 }, 64);
    REFUSE(&m, ERR_FORMAT, "tensor loose", "multiple of 64");

    two_tensors(&m), m.data.n--;
    REFUSE(&m, ERR_FORMAT, "second.bias", "truncated");
    gm_info(&m, "far", 1, (uint64_t[]){ 1 }, 0, 32), gm_put(&m.data, (uint8_t[32]){ 0 }, 32);
    REFUSE(&m, ERR_FORMAT, "tensor far", "file has");
    gm_info(&m, "far", 1, (uint64_t[]){ 1 }, 0, 1ull << 40), REFUSE(&m, ERR_FORMAT, "tensor far", "file has");
    gm_info(&m, "far", 1, (uint64_t[]){ 1 }, 0, 1ull << 63), REFUSE(&m, ERR_FORMAT, "tensor far", "file has");
    gm_info(&m, "far", 1, (uint64_t[]){ 1 }, 0, -(uint64_t)32), REFUSE(&m, ERR_FORMAT, "tensor far", "2^64");

    two_tensors(&m), gm_tensor(&m, "first.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    REFUSE(&m, ERR_FORMAT, "tensor first.weight", "twice");
    gm_info(&m, "", 1, (uint64_t[]){ 1 }, 0, 0), REFUSE(&m, ERR_FORMAT, "tensor name of 0 bytes", "expected 1..63");
    gm_info(&m, "1234567890123456789012345678901234567890123456789012345678901234", 1, (uint64_t[]){ 1 }, 0, 0);
    REFUSE(&m, ERR_FORMAT, "tensor name of 64 bytes", "expected 1..63");
    gm_info(&m, "a\nb", 1, (uint64_t[]){ 1 }, 0, 0), REFUSE(&m, ERR_FORMAT, "tensor name a?b", "control");

    gm_info(&m, "aa", 1, (uint64_t[]){ 9 }, 0, 0), gm_info(&m, "bb", 1, (uint64_t[]){ 1 }, 0, 32), gm_put(&m.data, (uint8_t[64]){ 0 }, 64);
    REFUSE(&m, ERR_FORMAT, "tensors aa and bb", "overlap");
    gm_info(&m, "aa", 1, (uint64_t[]){ 1 }, 0, 0), gm_info(&m, "bb", 1, (uint64_t[]){ 2 }, 0, 0), gm_put(&m.data, (uint8_t[64]){ 0 }, 64);
    REFUSE(&m, ERR_FORMAT, "overlap", "aa");
    /* found by order of place, not of mention */
    gm_info(&m, "aa", 1, (uint64_t[]){ 1 }, 0, 64), gm_info(&m, "bb", 1, (uint64_t[]){ 8 }, 0, 0), gm_info(&m, "cc", 1, (uint64_t[]){ 9 }, 0, 32);
    gm_put(&m.data, (uint8_t[96]){ 0 }, 96);
    REFUSE(&m, ERR_FORMAT, "tensors cc and aa", "overlap");
}

/* Every prefix of a good file is an error, whatever it cuts. */
static void test_truncated(void)
{
    struct gm m = { 0 };
    size_t n;
    two_tensors(&m);
    gm_str(&m, "str", "text"), gm_strs(&m, "strs", (const char *const[]){ "a", "bc" }, 2);
    gm_f64(&m, "f64", 1), gm_int(&m, "bool", GM_BOOL, 1);
    uint8_t *p = gm_finish(&m, &n);
    for (size_t cut = 0; cut < n; cut++)
        REFUSE_BYTES(p, cut, ERR_FORMAT, "", "");
    struct opened o = ACCEPT(&m);
    done(o);
    free(p);
}

/* Any byte may be wrong: no crash, and what is accepted lies inside the file. */
static void test_damaged(void)
{
    struct gm m = { 0 };
    size_t n;
    two_tensors(&m);
    gm_strs(&m, "strs", (const char *const[]){ "a", "bc" }, 2);
    uint8_t *p = gm_finish(&m, &n);
    gm_free(&m);
    for (size_t i = 0; i < n; i++) {
        for (unsigned v = 0; v < 256; v += 1 + v / 4) {
            uint8_t *copy = malloc(n);
            gguf *g;
            memcpy(copy, p, n);
            copy[i] = (uint8_t)v;
            if (gguf_open_memory(&g, copy, n, "x", NULL) == OK) {
                for (size_t k = 0; k < gguf_n_tensors(g); k++) {
                    const struct gguf_tensor *t = gguf_tensor_at(g, k);
                    CHECK(t->file_offset <= n && t->bytes <= n - t->file_offset && t->data == copy + t->file_offset);
                }
                gguf_close(g);
            }
            free(copy);
        }
    }
    free(p);
}

/* ---- files and shards ---- */

static void write_bytes(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(p, 1, n, f) == n);
    if (f)
        fclose(f);
}

static void refuse_path(int line, const char *path, status want, const char *a, const char *b)
{
    struct err e = { 0 };
    gguf *g = NULL;
    expect(line, gguf_open(&g, path, &e), &e, want, "", a, b);
    CHECK(g == NULL);
}
#define REFUSE_PATH(path, want, a, b) refuse_path(__LINE__, path, want, a, b)

static gguf *open_path(int line, const char *path)
{
    struct err e = { 0 };
    gguf *g = NULL;
    if (gguf_open(&g, path, &e) != OK)
        fprintf(stderr, "line %d: %s\n", line, e.msg);
    CHECK(g != NULL);
    return g;
}

static void test_files(void)
{
    struct gm m = { 0 };
    two_tensors(&m);
    CHECK(gm_write(&m, in_dir("good.gguf")));
    gm_free(&m);
    gguf *g = open_path(__LINE__, in_dir("good.gguf"));
    CHECK(g && gguf_n_tensors(g) == 2 && !strcmp(gguf_name(g), in_dir("good.gguf")));
    CHECK(g && gguf_tensor_at(g, 0)->data[1] == 38);
    gguf_close(g);
    gguf_close(NULL);

    REFUSE_PATH(in_dir("none.gguf"), ERR_IO, "none.gguf: cannot open", "No such file");
    REFUSE_PATH(dir, ERR_IO, dir, "directory");
    REFUSE_PATH("", ERR_IO, "cannot open", "");
    REFUSE_PATH("/dev/null", ERR_IO, "/dev/null", "device");
    write_bytes(in_dir("empty.gguf"), "", 0);
    REFUSE_PATH(in_dir("empty.gguf"), ERR_FORMAT, "empty.gguf: not a GGUF", "empty file");
    CHECK(mkfifo(in_dir("pipe.gguf"), 0600) == 0);
    REFUSE_PATH(in_dir("pipe.gguf"), ERR_IO, "pipe.gguf: found a pipe", "");
    if (geteuid() != 0) { /* root may read anything */
        CHECK(chmod(in_dir("empty.gguf"), 0) == 0);
        REFUSE_PATH(in_dir("empty.gguf"), ERR_IO, "empty.gguf: cannot open", "ermission");
    }
    CHECK(symlink("loop.gguf", in_dir("loop.gguf")) == 0);
    REFUSE_PATH(in_dir("loop.gguf"), ERR_IO, "loop.gguf: cannot open", "");
    char longname[600] = { 0 }; /* of a long path the end is shown */
    memset(longname, 'x', sizeof longname - 1);
    memcpy(longname + sizeof longname - 13, "/model.gguf", 12);
    REFUSE_PATH(longname, ERR_IO, "xx/model.gguf: cannot open", "");
}

/* Shard no (from 0) of count; n_here tensors that nobody else has. */
static void shard(struct gm *m, unsigned no, unsigned count, unsigned total, unsigned n_here)
{
    gm_int(m, "split.no", GM_U16, no);
    gm_int(m, "split.count", GM_U16, count);
    gm_int(m, "split.tensors.count", GM_I32, total);
    if (no == 0)
        gm_str(m, "general.architecture", "qwen4exp");
    for (unsigned i = 0; i < n_here; i++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%u.t%u", no, i);
        gm_tensor(m, name, 0, (uint64_t[]){ 3 }, 1, (float[]){ (float)no, (float)i, 7 }, 12);
    }
}

static void write_shard(struct gm *m, const char *name)
{
    CHECK(gm_write(m, in_dir(name)));
    gm_free(m);
}

/* A good set of three, the first without tensors as published sets have it; the second with its own alignment. */
static void write_set(const char *prefix)
{
    struct gm m = { 0 };
    char name[64];
    for (unsigned i = 0; i < 3; i++) {
        if (i == 1) {
            m.align = 128;
            gm_u32(&m, "general.alignment", 128);
        }
        shard(&m, i, 3, 5, i ? i + 1 : 0);
        snprintf(name, sizeof name, "%s-%05u-of-00003.gguf", prefix, i + 1);
        write_shard(&m, name);
    }
}

static void check_set(int line, const char *path)
{
    gguf *g = open_path(line, path);
    if (!g)
        return;
    CHECK(gguf_n_shards(g) == 3 && gguf_n_tensors(g) == 5 && !strcmp(gguf_name(g), path));
    CHECK(gguf_find(g, "general.architecture") != NULL);
    CHECK(strstr(gguf_shard_path(g, 0), "-00001-of-00003.gguf") && strstr(gguf_shard_path(g, 2), "-00003-of-00003.gguf"));
    struct stat st;
    size_t bytes = 0;
    for (size_t i = 0; i < 3; i++)
        bytes += stat(gguf_shard_path(g, i), &st) ? 0 : (size_t)st.st_size;
    CHECK(gguf_file_bytes(g) == bytes);
    for (size_t i = 0; i < 5; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[32];
        float v[3];
        unsigned no = i < 2 ? 1 : 2, k = (unsigned)(i < 2 ? i : i - 2);
        snprintf(name, sizeof name, "blk.%u.t%u", no, k);
        memcpy(v, t->data, sizeof v);
        CHECK(str_is(t->name, name) && t->shard == no && v[0] == (float)no && v[1] == (float)k && v[2] == 7);
        CHECK(gguf_find_tensor(g, name) == t);
    }
    gguf_close(g);
}

static void test_sets(void)
{
    struct gm m = { 0 };
    write_set("m");
    check_set(__LINE__, in_dir("m-00001-of-00003.gguf"));
    check_set(__LINE__, in_dir("m-00002-of-00003.gguf")); /* a later one opens the set as well */
    check_set(__LINE__, in_dir("m-00003-of-00003.gguf"));

    /* Links with the names of a set onto files with other names: looked up beside the link. */
    char blobs[128], snap[128], target[256];
    snprintf(blobs, sizeof blobs, "%s", in_dir("blobs"));
    snprintf(snap, sizeof snap, "%s", in_dir("snap"));
    CHECK(mkdir(blobs, 0700) == 0 && mkdir(snap, 0700) == 0);
    for (int i = 1; i <= 3; i++) {
        char from[64], to[64], link[64];
        snprintf(from, sizeof from, "m-0000%d-of-00003.gguf", i);
        snprintf(to, sizeof to, "blobs/hash%d", i);
        snprintf(link, sizeof link, "snap/m-0000%d-of-00003.gguf", i);
        snprintf(target, sizeof target, "../%s", to);
        CHECK(rename(in_dir(from), in_dir(to)) == 0 && symlink(target, in_dir(link)) == 0);
    }
    check_set(__LINE__, in_dir("snap/m-00001-of-00003.gguf"));
    check_set(__LINE__, in_dir("snap/m-00003-of-00003.gguf"));
    REFUSE_PATH(in_dir("blobs/hash1"), ERR_FORMAT, "hash1: is shard 1 of 3", "-00001-of-00003.gguf");
    REFUSE_PATH(in_dir("blobs/hash2"), ERR_FORMAT, "hash2: is shard 2 of 3", "-00002-of-00003.gguf");

    write_set("gone"), remove(in_dir("gone-00002-of-00003.gguf"));
    REFUSE_PATH(in_dir("gone-00001-of-00003.gguf"), ERR_IO, "gone-00002-of-00003.gguf: cannot open", "No such file");
    REFUSE_PATH(in_dir("gone-00003-of-00003.gguf"), ERR_IO, "gone-00002-of-00003.gguf: cannot open", "No such file");
    write_set("head"), remove(in_dir("head-00001-of-00003.gguf"));
    REFUSE_PATH(in_dir("head-00002-of-00003.gguf"), ERR_IO, "head-00001-of-00003.gguf: cannot open", "No such file");

    write_set("swap"), shard(&m, 2, 3, 5, 3), write_shard(&m, "swap-00002-of-00003.gguf");
    REFUSE_PATH(in_dir("swap-00001-of-00003.gguf"), ERR_FORMAT, "swap-00002-of-00003.gguf: key split.no is 2, expected 1", "");
    write_set("count"), shard(&m, 1, 4, 5, 2), write_shard(&m, "count-00002-of-00003.gguf");
    REFUSE_PATH(in_dir("count-00001-of-00003.gguf"), ERR_FORMAT, "count-00002-of-00003.gguf: key split.count is 4, expected 3", "another set");
    write_set("total"), shard(&m, 1, 3, 6, 2), write_shard(&m, "total-00002-of-00003.gguf");
    REFUSE_PATH(in_dir("total-00001-of-00003.gguf"), ERR_FORMAT, "total-00002-of-00003.gguf: key split.tensors.count is 6, expected 5", "");
    write_set("few"), shard(&m, 2, 3, 5, 2), write_shard(&m, "few-00003-of-00003.gguf");
    REFUSE_PATH(in_dir("few-00001-of-00003.gguf"), ERR_FORMAT, "split.tensors.count is 5", "have 4 tensors");
    write_set("plain"), two_tensors(&m), write_shard(&m, "plain-00002-of-00003.gguf");
    REFUSE_PATH(in_dir("plain-00001-of-00003.gguf"), ERR_FORMAT, "plain-00002-of-00003.gguf: key split.no missing", "");
    write_set("arch"), shard(&m, 1, 3, 5, 2), gm_str(&m, "general.architecture", "llama"), write_shard(&m, "arch-00002-of-00003.gguf");
    REFUSE_PATH(in_dir("arch-00001-of-00003.gguf"), ERR_FORMAT, "arch-00002-of-00003.gguf: key general.architecture", "");
    write_set("cut");
    CHECK(truncate(in_dir("cut-00003-of-00003.gguf"), 100) == 0);
    REFUSE_PATH(in_dir("cut-00001-of-00003.gguf"), ERR_FORMAT, "cut-00003-of-00003.gguf: truncated", "");
    write_set("dup"), shard(&m, 2, 3, 5, 2);
    gm_tensor(&m, "blk.1.t0", 0, (uint64_t[]){ 1 }, 1, NULL, 4), write_shard(&m, "dup-00003-of-00003.gguf");
    REFUSE_PATH(in_dir("dup-00001-of-00003.gguf"), ERR_FORMAT, "dup-00003-of-00003.gguf: tensor blk.1.t0 found twice", "earlier shard");
    shard(&m, 0, 3, 5, 0), write_shard(&m, "name-00001-of-00004.gguf");
    REFUSE_PATH(in_dir("name-00001-of-00004.gguf"), ERR_FORMAT, "name says shard 1 of 4", "1 of 3");
    shard(&m, 0, 3, 5, 0), gm_drop(&m, "split.tensors.count"), write_shard(&m, "nosum-00001-of-00003.gguf");
    REFUSE_PATH(in_dir("nosum-00001-of-00003.gguf"), ERR_FORMAT, "split.tensors.count missing", "");
    shard(&m, 3, 3, 5, 1), write_shard(&m, "over-00001-of-00003.gguf");
    REFUSE_PATH(in_dir("over-00001-of-00003.gguf"), ERR_FORMAT, "split.no is 3", "split.count, 3");
    shard(&m, 0, 3, 5, 1), gm_u32(&m, "split.count", 70000), write_shard(&m, "big-00001-of-00003.gguf");
    REFUSE_PATH(in_dir("big-00001-of-00003.gguf"), ERR_FORMAT, "split.count is 70000", "65535");
    shard(&m, 0, 3, 5, 1), gm_str(&m, "split.count", "3"), write_shard(&m, "str-00001-of-00003.gguf");
    REFUSE_PATH(in_dir("str-00001-of-00003.gguf"), ERR_FORMAT, "split.count", "integer");

    /* One file that was a set once, and one that only has such a name. */
    shard(&m, 0, 1, 1, 1), write_shard(&m, "one.gguf");
    gguf *g = open_path(__LINE__, in_dir("one.gguf"));
    CHECK(g && gguf_n_shards(g) == 1 && gguf_n_tensors(g) == 1);
    gguf_close(g);
    two_tensors(&m), write_shard(&m, "name-00002-of-00007.gguf");
    g = open_path(__LINE__, in_dir("name-00002-of-00007.gguf"));
    CHECK(g && gguf_n_shards(g) == 1);
    gguf_close(g);
    shard(&m, 1, 3, 5, 1);
    REFUSE(&m, ERR_UNSUPPORTED, "shard 2 of 3", "memory");
}

/* ---- seeds of the fuzzer ---- */

static void seed(struct gm *m, const char *to, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", to, name);
    CHECK(gm_write(m, path));
    gm_free(m);
}

static void write_corpus(const char *to)
{
    struct gm m = { 0 };
    seed(&m, to, "nothing.gguf");
    two_tensors(&m), seed(&m, to, "tensors.gguf");
    two_tensors(&m), m.version = 2, m.align = 64, gm_u32(&m, "general.alignment", 64), seed(&m, to, "version2.gguf");
    for (uint32_t t = GM_U8; t <= GM_F64; t++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", t);
        if (t == GM_STR)
            gm_str(&m, key, "text");
        else if (t == GM_ARR)
            gm_strs(&m, key, (const char *const[]){ "a", "", "bc" }, 3);
        else
            gm_int(&m, key, t, 1);
    }
    seed(&m, to, "types.gguf");
    gm_qwen4exp(&m), seed(&m, to, "metadata.gguf");
    gm_qwen4exp(&m), gm_joined_table(&m), seed(&m, to, "joined.gguf");
    gm_qwen4exp(&m), gm_int(&m, "qwen4exp.nextn_predict_layers", GM_U8, 1);
    gm_ints(&m, "qwen4exp.attention.recurrent_layers", GM_BOOL, (int64_t[]){ 1, 1, 0, 0 }, 4);
    gm_ints(&m, "qwen4exp.attention.head_count", GM_I64, (int64_t[]){ 4, 4, 4, 4 }, 4);
    for (int h = 0; h < 4; h++) {
        char name[48];
        snprintf(name, sizeof name, "ple_ngram_embd.%d.weight", h);
        gm_tensor(&m, name, 20, (uint64_t[]){ 32, (uint64_t[]){ 5, 7, 11, 13 }[h] }, 2, NULL, (size_t[]){ 5, 7, 11, 13 }[h] * 18);
    }
    seed(&m, to, "ple16.gguf");
    shard(&m, 0, 2, 3, 1), seed(&m, to, "shard.gguf");
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--corpus")) {
        write_corpus(argv[2]);
        return test_failed;
    }
    if (!make_dir("unit_gguf"))
        return 1;
    test_tensors();
    test_values();
    test_not_gguf();
    test_header();
    test_keys();
    test_infos();
    test_truncated();
    test_damaged();
    test_files();
    test_sets();
    remove_dir();
    return TEST_END();
}
