/* unit_gfx11.c - the interpreter of gfx1151 code objects itself: it knows every instruction of our kernels, reads them as llvm-objdump-19 does (where
 * that is installed), survives damaged files, and finds each of the faults that tests/gfx11/faults plants. */
#include "gpu/gpu.h"
#include "gpu/quant.h"
#include "kernels_bin/kernels_bin.h"
#include "tests/gfx11/gfx11.h"
#include "tests/test.h"
#include "tests/testdir.h"

static bool installed(const char *program)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0;
}

/* ---- decoding ---- */

static void test_known(void)
{
    size_t n, n_inst = 0;
    const struct kernel_bin *k = kernel_bin_list(&n);
    for (size_t i = 0; i < n; i++) {
        struct code *c;
        struct err e = { 0 };
        char text[200];
        if (!k[i].gfx1151)
            continue;
        CHECK(gfx11_load(&c, k[i].gfx1151, k[i].gfx1151_bytes, &e) == OK);
        if (e.code != OK) {
            fprintf(stderr, "%s: %s\n", k[i].id, e.msg);
            continue;
        }
        for (size_t at = 0, len; (len = gfx11_disassemble(c, at, text, sizeof text)) != 0; at += len, n_inst++) {
            CHECK(text[0]);
            if (!text[0])
                fprintf(stderr, "%s +%zx: unknown instruction\n", k[i].id, at);
        }
        gfx11_unload(c);
    }
    CHECK(n_inst > 10000);
}

/* What stands between the tab and the comment, without what differs for a good reason: fields of s_delay_alu and the like by name, targets of jumps */
static void plain_text(char *text)
{
    static const char *const by_name[] = { "s_delay_alu", "s_waitcnt ", "s_sendmsg", "s_nop" };
    char *end = strstr(text, "//");
    if (end)
        *end = 0;
    end = strstr(text, " <");
    if (end)
        *end = 0;
    for (size_t i = 0; i < COUNT_OF(by_name); i++)
        if (strncmp(text, by_name[i], strlen(by_name[i])) == 0)
            text[strcspn(text, " ")] = 0;
    for (size_t n = strlen(text); n && (text[n - 1] == ' ' || text[n - 1] == '\n' || text[n - 1] == '\t'); n--)
        text[n - 1] = 0;
}

/* "kernels_bin/gfx1151/ID.co:\tfile format ..." begins what is said about a file. */
static const struct kernel_bin *named_in(char *line)
{
    char *end = strstr(line, ".co:"), *id = end ? strrchr(line, '/') : NULL;
    if (!id)
        return NULL;
    *end = 0;
    return kernel_bin_find(id + 1);
}

static void test_text(void)
{
    char line[400], mine[200], id[64] = "";
    size_t at = 0, n_same = 0, n_files = 0, n;
    struct code *c = NULL;
#ifdef __SANITIZE_ADDRESS__
    return; /* it takes long, and the same code has been through it without */
#endif
    if (!installed("llvm-objdump-19")) {
        printf("llvm-objdump-19 is not installed: the decoder is not compared with it\n");
        return;
    }
    FILE *f = popen("llvm-objdump-19 -d kernels_bin/gfx1151/*.co", "r");
    while (f && fgets(line, sizeof line, f)) {
        const struct kernel_bin *k = line[0] == '\t' ? NULL : named_in(line);
        if (k) {
            CHECK(!c || at == gfx11_code_bytes(c));
            gfx11_unload(c);
            c = NULL, at = 0, n_files++;
            snprintf(id, sizeof id, "%s", k->id);
            CHECK(gfx11_load(&c, k->gfx1151, k->gfx1151_bytes, NULL) == OK);
        }
        size_t len = c && line[0] == '\t' && strstr(line, "//") ? gfx11_disassemble(c, at, mine, sizeof mine) : 0;
        if (len == 0)
            continue; /* a label, or padding behind the code */
        plain_text(line + 1);
        plain_text(mine);
        CHECK(strcmp(line + 1, mine) == 0);
        if (strcmp(line + 1, mine) != 0)
            fprintf(stderr, "%s +%zx: %s, llvm-objdump says %s\n", id, at, mine, line + 1);
        at += len;
        n_same++;
    }
    CHECK(f && c && at == gfx11_code_bytes(c));
    kernel_bin_list(&n);
    CHECK(n_files > 0 && n_files <= n && n_same > 10000);
    gfx11_unload(c);
    if (f)
        pclose(f);
}

/* ---- files ---- */

struct bytes {
    uint8_t *p;
    size_t n;
};
static struct bytes read_file(const char *from, const char *name)
{
    char path[512];
    struct bytes b = { 0 };
    snprintf(path, sizeof path, "%s/%s", from, name);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    if (!f) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return b;
    }
    b.p = malloc(1 << 20);
    b.n = fread(b.p, 1, 1 << 20, f);
    fclose(f);
    return b;
}

static const char faults[] = "tests/gfx11/faults";

static void test_damaged(void)
{
    struct bytes b = read_file(faults, "tiny_0.co");
    struct err e;
    struct code *c;
    uint32_t rng = 1, n_bad = 0;
    for (size_t n = 0; n < b.n; n += 1 + n / 16) { /* cut off; in memory of that size, so that a sanitizer sees a read behind it */
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, b.p, n);
        if (gfx11_load(&c, cut, n, &e) == OK)
            gfx11_unload(c);
        else
            n_bad++;
        free(cut);
    }
    CHECK(n_bad > 20);
    for (int round = 0; round < 2000; round++) { /* a few bytes changed */
        uint8_t *copy = malloc(b.n);
        memcpy(copy, b.p, b.n);
        for (int k = 0; k < 4; k++) {
            rng = rng * 1664525 + 1013904223;
            copy[(rng >> 8) % b.n] = (uint8_t)(rng >> 3);
        }
        if (gfx11_load(&c, copy, b.n, &e) == OK)
            gfx11_unload(c);
        free(copy);
    }
    free(b.p);
}

/* ---- faults ---- */

enum { N_ITEMS = 64 };
/* Runs a kernel of faults/ on 64 numbers; out has n_out words. */
static enum gfx11_fault run(const char *from, const char *name, uint32_t n_items, uint32_t *out, uint32_t n_out, char *message, size_t size)
{
    struct bytes b = read_file(from, name);
    struct code *c = NULL;
    struct err e = { 0 };
    uint32_t in[N_ITEMS];
    for (uint32_t i = 0; i < N_ITEMS; i++)
        in[i] = 1000 * i + 7;
    memset(out, 0, n_out * sizeof *out);
    struct gfx11_memory mem = { 0 };
    struct gfx11_run r = { .memory = &mem, .limit = 10000, .races = true };
    uint64_t args[2] = { ADDR(in), ADDR(out) };
    status s = gfx11_load(&c, b.p, b.n, &e);
    if (s == OK)
        s = gfx11_memory_add(&mem, (struct gfx11_region){ .p = (uint8_t *)in, .bytes = sizeof in, .readable = sizeof in, .read_only = true }, &e);
    if (s == OK)
        s = gfx11_memory_add(&mem, (struct gfx11_region){ .p = (uint8_t *)out, .bytes = n_out * sizeof *out, .readable = n_out * sizeof *out }, &e);
    if (s == OK)
        s = gfx11_run(&r, c, args, sizeof args, 1, n_items, &e);
    CHECK((s == OK) == (r.fault == GFX11_NO_FAULT));
    if (s != OK && r.fault == GFX11_NO_FAULT)
        fprintf(stderr, "%s: %s\n", name, e.msg);
    snprintf(message, size, "%s", s == OK ? "" : e.msg);
    gfx11_memory_clear(&mem);
    gfx11_unload(c);
    free(b.p);
    return r.fault;
}

/* Numbered as FAULT in tiny.s */
static const struct {
    enum gfx11_fault kind;
    const char *says; /* part of the message, which must name the instruction */
} planted[] = {
    { GFX11_NO_FAULT, "" },
    { GFX11_WAIT, "use before s_waitcnt: source s4 is still being loaded, at +c global_load_b32 v2, v1, s[4:5]" },
    { GFX11_WAIT, "use before s_waitcnt: source v6 is still being loaded, at +24 v_mov_b32_e32 v7, v6" },
    { GFX11_WAIT, "use before s_waitcnt: a barrier while 1 accesses to LDS are under way, at +40 s_barrier" },
    { GFX11_RACE, "race: LDS bytes 128..: written here, read in wave 0, no barrier between, at" },
    { GFX11_BARRIER, "barrier not reached by all: 1 waves wait, 1 have ended, at" },
    { GFX11_WAIT, "use before s_waitcnt: source v4 is still being loaded, at" },
    { GFX11_UNWRITTEN, "unwritten value: lane 0 stores bits that nobody has written" },
    { GFX11_UNWRITTEN, "unwritten value: lane 0: an address takes bits that nobody has written" },
    { GFX11_UNWRITTEN, "unwritten value: exec takes bits that nobody has written" },
    { GFX11_UNWRITTEN, "unwritten value: branch takes bits that nobody has written" },
    { GFX11_RANGE, "address out of range: lane 31 stores 4 bytes at" },
    { GFX11_RANGE, "address out of range: lane 0 loads 4 bytes at" },
    { GFX11_RANGE, "address out of range: lane 0 stores 4 bytes at" },
    { GFX11_RANGE, "address out of range: lane 31: 4 bytes at 256 of LDS, which has 256" },
    { GFX11_LANE, "value of a lane that is off: lane 0 takes its value from lane 1" },
    { GFX11_ENDLESS, "no end: more than 10000 instructions" },
    { GFX11_UNKNOWN, "unknown instruction: 7e0a6b05" },
    { GFX11_UNWRITTEN, "unwritten value: lane 0 stores bits that nobody has written" },
    { GFX11_RACE, "race: bytes 128.. of a buffer: written here, read in group 0, wave 0, nothing orders the two" },
    { GFX11_RACE, "race: bytes 4.. of a buffer: written here, written in group 0, wave 0, nothing orders the two" },
};

static void test_faults(const char *from)
{
    for (uint32_t i = 0; i < COUNT_OF(planted); i++) {
        char name[32], message[512];
        uint32_t out[N_ITEMS];
        snprintf(name, sizeof name, "tiny_%u.co", i);
        enum gfx11_fault kind = run(from, name, N_ITEMS, out, N_ITEMS, message, sizeof message);
        CHECK(kind == planted[i].kind && strstr(message, planted[i].says));
        if (kind != planted[i].kind || !strstr(message, planted[i].says))
            fprintf(stderr, "%s: want %s: ...%s, have %s\n", name, gfx11_fault_name(planted[i].kind), planted[i].says, *message ? message : "no fault");
        for (uint32_t k = 0; i == 0 && k < N_ITEMS; k++)
            CHECK(out[k] == 63 * 1000 + 14);
    }
}

/* ---- instructions ---- */

static uint32_t in_lane(const uint32_t *x, uint32_t l) { return x[l & 31]; }
static uint32_t dot(uint32_t x, uint32_t y, uint32_t z, uint32_t bits, bool sign_x, bool sign_y)
{
    for (uint32_t at = 0; at < 32; at += bits) {
        int32_t a = (int32_t)(x >> at & ((1u << bits) - 1)), b = (int32_t)(y >> at & ((1u << bits) - 1)), top = 1 << bits;
        z += (uint32_t)((sign_x && a >= top / 2 ? a - top : a) * (sign_y && b >= top / 2 ? b - top : b));
    }
    return z;
}
static uint32_t two_halves(float lo, float hi) { return f32_to_f16(lo) | (uint32_t)f32_to_f16(hi) << 16; }
static float low(uint32_t x) { return f16_to_f32((uint16_t)x); }
static float high(uint32_t x) { return f16_to_f32((uint16_t)(x >> 16)); }
static uint32_t bits_of(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return x;
}

enum { N_OPS = 26 };
/* Result k of ops.s in lane l, told again from the manual */
static uint32_t want(uint32_t k, uint32_t l, const uint32_t *xs, const uint32_t *ys, const uint32_t *zs)
{
    uint32_t x = xs[l], y = ys[l], z = zs[l], h = x & 0x7bff7bff, g = y & 0x7bff7bff, row = l & 16;
    int32_t a = (int32_t)x, b = (int32_t)y, c = (int32_t)z;
    static const uint8_t quad[4] = { 3, 0, 2, 1 }, eight[8] = { 7, 6, 5, 4, 0, 1, 2, 3 };
    switch (k) {
    case 0: return dot(x, y, z, 8, true, false);
    case 1: return dot(x, y, z, 8, false, false);
    case 2: return dot(x, y, z, 4, true, true);
    case 3: return (x >> 16 & 255) | (y >> 24) << 8 | (x >> 8 & 255) << 16; /* bytes 6, 3, 5 and 0 */
    case 4: return x << 8 | y >> 24;
    case 5: return x << 27 | y >> 5;
    case 6: return (x & y) | (~x & z);
    case 7: return (uint32_t)(MAX(MIN(a, b), MIN(MAX(a, b), c)));
    case 8: return (uint32_t)(((int64_t)a * b) >> 32);
    case 9: return (uint32_t)(((int32_t)(x << 8) >> 8) * (int64_t)((int32_t)(y << 8) >> 8)) + z;
    case 10: return (uint32_t)__builtin_popcount(x) + y;
    case 11: return in_lane(xs, (l & ~3u) | quad[l & 3]);
    case 12: return (l & 15) + 3 < 16 ? in_lane(xs, l + 3) : 0;
    case 13: return in_lane(xs, row | ((l - 5) & 15));
    case 14: return in_lane(xs, row | (15 - (l & 15)));
    case 15: return in_lane(xs, row | 9);
    case 16: return in_lane(xs, (l & ~7u) | eight[l & 7]);
    case 17: return in_lane(xs, row | (uint32_t)((0x89abcdef01234567u >> 4 * (l & 15)) & 15));
    case 18: return in_lane(xs, l ^ 1);
    case 19: return two_halves(high(h) * low(g), low(h) * high(g));
    case 20: return two_halves(low(h) - low(g), high(h) + high(g));
    case 21: return bits_of((float)(1.0 + (double)low(h) * (double)low(g) + (double)high(h) * (double)high(g)));
    case 22: return (x & 0xffff) | (uint32_t)f32_to_f16(low(h) + low(g)) << 16;
    case 23: return (x & 0xffff) | y << 16;
    case 24: return 0x38003c00;
    default: return ((x * y) & 0xffff) | 0x38000000; /* the register held result 24 */
    }
}

static void test_instructions(const char *from)
{
    struct bytes f = read_file(from, "ops.co");
    struct code *c = NULL;
    struct err e = { 0 };
    uint32_t in[96], out[N_OPS * 32] = { 0 }, rng = 12345;
    struct gfx11_memory mem = { 0 };
    struct gfx11_run r = { .memory = &mem, .limit = 10000 };
    uint64_t args[2] = { ADDR(in), ADDR(out) };
    for (uint32_t i = 0; i < 96; i++) {
        rng = rng * 1664525 + 1013904223;
        in[i] = rng ^ rng >> 15;
    }
    CHECK(gfx11_load(&c, f.p, f.n, &e) == OK && gfx11_memory_add(&mem, (struct gfx11_region){ .p = (uint8_t *)in, .bytes = sizeof in, .readable = sizeof in, .read_only = true }, &e) == OK &&
          gfx11_memory_add(&mem, (struct gfx11_region){ .p = (uint8_t *)out, .bytes = sizeof out, .readable = sizeof out }, &e) == OK &&
          gfx11_run(&r, c, args, sizeof args, 1, 32, &e) == OK);
    if (e.code != OK)
        fprintf(stderr, "ops.co: %s\n", e.msg);
    for (uint32_t i = 0; e.code == OK && i < N_OPS * 32; i++) {
        uint32_t w = want(i / 32, i % 32, in, in + 32, in + 64);
        CHECK(out[i] == w);
        if (out[i] != w)
            fprintf(stderr, "ops.s, result %u of lane %u: %08x, want %08x\n", i / 32, i % 32, out[i], w);
    }
    gfx11_memory_clear(&mem);
    gfx11_unload(c);
    free(f.p);
}

/* Clang 19 moves v_permlanex16 under a branch unless the flag in kernels_bin/tool/gfx1151.flags keeps it from that: the sum of 32 values is right with the
 * flag, and the interpreter says what is wrong without. */
static void test_flag(const char *from)
{
    char message[512];
    uint32_t sum;
    CHECK(run(from, "sink.co", 32, &sum, 1, message, sizeof message) == GFX11_NO_FAULT && sum == 1000 * 31 * 16 + 7 * 32);
    if (*message)
        fprintf(stderr, "with the flags of kernels_bin/tool/gfx1151.flags: %s\n", message);
    CHECK(run(from, "sink_dropped.co", 32, &sum, 1, message, sizeof message) == GFX11_LANE && strstr(message, "v_permlanex16_b32"));
}

/* The same with what today's compiler and today's flags make of the sources */
static void test_compiled(void)
{
    char command[160];
    if (!installed("clang-19") || !installed("ld.lld-19")) {
        printf("clang-19 is not installed: planted faults are run as they were compiled once\n");
        return;
    }
    CHECK(make_dir("gfx11"));
    snprintf(command, sizeof command, "tests/gfx11/faults/build.sh %s", dir);
    CHECK(system(command) == 0);
    test_instructions(dir);
    test_faults(dir);
    test_flag(dir);
    remove_dir();
}

int main(void)
{
    test_known();
    test_text();
    test_damaged();
    test_instructions(faults);
    test_faults(faults);
    test_flag(faults);
    test_compiled();
    return TEST_END();
}
