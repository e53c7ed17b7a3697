/* unit_tokenizer.c - text to ids against recorded ids, back without loss, UTF-8 edges, damaged vocabularies, and speed. */
#include "tests/test.h"
#include "tests/vocab.h"

#include <jansson.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static const char VOCAB_ZST[] = "tests/models/vocab-qwen35.gguf.zst";
static const char TINY[] = "tests/models/tiny-man.gguf";

static double cpu_s(void) /* this process only: the machine may be busy */
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t rng_state;
static uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rng_state >> 33) % n);
}

static void add_code_point(struct text *b, uint32_t c)
{
    char u[4];
    size_t n = 0;
    if (c < 0x80) {
        u[n++] = (char)c;
    } else {
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const uint8_t lead[] = { 0, 0xC0, 0xE0, 0xF0 };
        u[n++] = (char)(lead[more] | c >> (6 * more));
        while (more--)
            u[n++] = (char)(0x80 | (c >> (6 * more) & 0x3F));
    }
    CHECK(text_add(b, u, n, NULL) == OK);
}

/* ids back to text through the streaming detokeniser. */
static struct text decode(const tokenizer *t, const struct ids *ids, bool show_special)
{
    struct text out = { 0 };
    struct detok d = { .show_special = show_special };
    CHECK(text_add(&out, "", 0, NULL) == OK);
    for (size_t i = 0; i < ids->n; i++)
        CHECK(detok_push(t, &d, ids->v[i], &out, NULL) == OK);
    CHECK(detok_end(&d, &out, NULL) == OK);
    return out;
}

static bool ids_are(const struct ids *l, json_t *want)
{
    bool same = json_array_size(want) == l->n;
    for (size_t i = 0; same && i < l->n; i++)
        same = json_integer_value(json_array_get(want, i)) == l->v[i];
    return same;
}

static void test_golden(tokenizer *t)
{
    FILE *f = fopen("tests/data/tokenizer-qwen35.jsonl", "r");
    char *line = NULL;
    size_t cap = 0, n_cases = 0;
    CHECK(f);
    while (f && getline(&line, &cap, f) > 0) {
        json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *text = json_string_value(json_object_get(j, "text"));
        size_t n = json_string_length(json_object_get(j, "text"));
        struct ids special = { 0 }, plain = { 0 };
        CHECK(text);
        if (text) {
            CHECK(tokenize(t, text, n, TOKENIZE_SPECIAL, &special, NULL) == OK);
            CHECK(tokenize(t, text, n, TOKENIZE_TEXT, &plain, NULL) == OK);
            CHECK(ids_are(&special, json_object_get(j, "ids")));
            CHECK(ids_are(&plain, json_object_get(j, "ids_plain")));
            if (!ids_are(&plain, json_object_get(j, "ids_plain")))
                fprintf(stderr, "  case %zu: %s", n_cases, line);
            n_cases++;
        }
        ids_free(&special);
        ids_free(&plain);
        json_decref(j);
    }
    CHECK(n_cases == 80);
    free(line);
    if (f)
        fclose(f);
}

/* Text of all kinds: every plane, marks, all white space, line ends, emoji joined and flagged, control characters,
 * the names of special tokens whole and cut. */
static void random_text(struct text *b, size_t n_pieces)
{
    static const char *const piece[] = { " ",
                                         "  ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         "the",
                                         "The",
                                         "'s",
                                         "'LL",
                                         "don't",
                                         "42",
                                         "3.14",
                                         "...",
                                         "--",
                                         "<|im_end|>",
                                         "<|im_",
                                         "<think>",
                                         "</think>",
                                         "<|endoftext|>",
                                         "日本語",
                                         "です。",
                                         "が",
                                         "か\u3099",
                                         "ｶﾞ",
                                         "👩‍👩‍👧",
                                         "🏳️‍🌈",
                                         "🇯🇵",
                                         "é",
                                         "e\u0301",
                                         "\u3000",
                                         "\u00a0",
                                         "\u2028",
                                         "\xC2\x85",
                                         "\ufeff",
                                         "\ufffd",
                                         "İ",
                                         "ǅ",
                                         "½",
                                         "Ⅷ",
                                         "٣",
                                         "हिन्दी",
                                         "ไทย",
                                         "한국어" };
    b->n = 0;
    CHECK(text_add(b, "", 0, NULL) == OK);
    for (size_t i = 0; i < n_pieces; i++) {
        switch (rnd(6)) {
        case 0:
        case 1:
        case 2: {
            const char *s = piece[rnd(COUNT_OF(piece))];
            CHECK(text_add(b, s, strlen(s), NULL) == OK);
            break;
        }
        case 3:
            add_code_point(b, rnd(0x80));
            break;
        case 4:
            add_code_point(b, rnd(0x3200));
            break;
        default: {
            uint32_t c = rnd(0x110000);
            add_code_point(b, c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c);
        }
        }
    }
}

static void test_round_trip(tokenizer *t)
{
    struct text b = { 0 };
    for (int i = 0; i < (SANITIZED ? 300 : 3000); i++) {
        random_text(&b, rnd(i % 50 == 0 ? 600 : 30));
        CHECK(utf8_invalid_at(b.p, b.n) == b.n);
        for (int mode = 0; mode < 2; mode++) {
            struct ids ids = { 0 };
            CHECK(tokenize(t, b.p, b.n, mode ? TOKENIZE_SPECIAL : TOKENIZE_TEXT, &ids, NULL) == OK);
            struct text back = decode(t, &ids, true);
            CHECK(back.n == b.n && memcmp(back.p, b.p, b.n) == 0);
            for (size_t k = 0; k < ids.n && !mode; k++)
                CHECK(!tokenizer_is_control(t, ids.v[k]));
            text_free(&back);
            ids_free(&ids);
        }
    }
    text_free(&b);
}

/* ---- BPE against the definition: rank by rank, left to right, over the whole word ---- */

struct reference {
    struct rule {
        int32_t left, right, id;
    } * rule;
    size_t n;
};

static int32_t id_of(const tokenizer *t, const char *p, size_t n)
{
    for (size_t i = 0; i < tokenizer_n_vocab(t); i++)
        if (str_eq(tokenizer_piece(t, (int32_t)i), (struct str){ p, n }))
            return (int32_t)i;
    return -1;
}

static size_t from_alphabet(const char *s, size_t n, char *out)
{
    size_t k = 0;
    for (size_t i = 0; i < n; k++)
        for (unsigned b = 0; b < 256; b++) {
            char c[2];
            size_t len = alphabet_letter((uint8_t)b, c);
            if (len <= n - i && memcmp(s + i, c, len) == 0) {
                out[k] = (char)b;
                i += len;
                break;
            }
        }
    return k;
}

static void test_bpe(tokenizer *t, const gguf *g)
{
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.merges");
    struct gguf_strs it = gguf_strs(kv);
    struct reference ref = { calloc(kv->n, sizeof *ref.rule), 0 };
    struct str s;
    while (ref.rule && gguf_next_str(&it, &s)) {
        const char *gap = memchr(s.p, ' ', s.n);
        char a[512];
        size_t n_left = from_alphabet(s.p, (size_t)(gap - s.p), a);
        size_t n_right = from_alphabet(gap + 1, s.n - (size_t)(gap - s.p) - 1, a + n_left);
        ref.rule[ref.n++] = (struct rule){ id_of(t, a, n_left), id_of(t, a + n_left, n_right), id_of(t, a, n_left + n_right) };
    }
    for (int round = 0; round < 60; round++) { /* 1 to 120 letters: both loops and the border between them */
        struct text w = { 0 };
        struct ids ids = { 0 };
        size_t n_letters = 1 + rnd(120);
        for (size_t i = 0; i < n_letters; i++)
            add_code_point(&w, round % 3 == 0   ? 0x3041 + rnd(40)
                               : round % 3 == 1 ? 'a' + rnd(3)
                                                : (uint32_t) "etaoinsrhldcu"[rnd(13)]);
        int32_t *id = malloc(w.n * sizeof *id);
        size_t n = w.n;
        for (size_t i = 0; i < n; i++)
            id[i] = id_of(t, w.p + i, 1);
        for (size_t r = 0; r < ref.n; r++)
            for (size_t i = 0; i + 1 < n; i++)
                if (id[i] == ref.rule[r].left && id[i + 1] == ref.rule[r].right) {
                    id[i] = ref.rule[r].id;
                    memmove(id + i + 1, id + i + 2, (--n - i - 1) * sizeof *id);
                }
        CHECK(tokenize(t, w.p, w.n, TOKENIZE_TEXT, &ids, NULL) == OK);
        CHECK(ids.n == n && memcmp(ids.v, id, n * sizeof *id) == 0);
        free(id);
        ids_free(&ids);
        text_free(&w);
    }
    free(ref.rule);
}

/* ---- UTF-8 ---- */

static void test_utf8(void)
{
    static const struct {
        const char *s;
        size_t n, at;
    } c[] = {
        { "", 0, 0 },
        { "abc\0d", 5, 5 },
        { "日本語テキスト", 21, 21 },
        { "\xF0\x9F\x98\x80", 4, 4 },
        { "\xF4\x8F\xBF\xBF", 4, 4 },
        { "\xED\x9F\xBF\xEE\x80\x80", 6, 6 },
        { "\xF0\x90\x80\x80\xE0\xA0\x80\xC2\x80", 9, 9 },
        { "a\x80", 2, 1 },      /* stray continuation */
        { "ab\xC0\x80", 4, 2 }, /* overlong */
        { "\xC1\xBF", 2, 0 },
        { "\xE0\x9F\xBF", 3, 0 },
        { "\xF0\x8F\xBF\xBF", 4, 0 },
        { "\xED\xA0\x80", 3, 0 }, /* surrogate */
        { "\xED\xBF\xBF", 3, 0 },
        { "\xF4\x90\x80\x80", 4, 0 }, /* above 10FFFF */
        { "\xF5\x80\x80\x80", 4, 0 },
        { "\xFF", 1, 0 },
        { "12345678\xE3\x81", 10, 8 }, /* cut off */
        { "\xF0\x9F\x98", 3, 0 },
        { "\xC3", 1, 0 },
        { "\xE3\x81x", 3, 0 },
        { "\xC3(", 2, 0 },
        { "12345678901234\xFF", 15, 14 },
    };
    for (size_t i = 0; i < COUNT_OF(c); i++)
        CHECK(utf8_invalid_at(c[i].s, c[i].n) == c[i].at);

    static const struct {
        const char *in, *out;
    } trim[] = {
        { "", "" },
        { " \t\r\n\v\f\xC2\x85\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000", "" },
        { "\u3000 a \u3000b\u3000\n", "a \u3000b" },
        { "\u200b a\ufeff", "\u200b a\ufeff" }, /* neither is white space */
        { "a", "a" },
        { "\x80 a \x80", "\x80 a \x80" },
        { " \xE3\x80 ", "\xE3\x80" },
    };
    for (size_t i = 0; i < COUNT_OF(trim); i++)
        CHECK(str_is(utf8_trim((struct str){ trim[i].in, strlen(trim[i].in) }), trim[i].out));
    CHECK(utf8_trim((struct str){ NULL, 0 }).n == 0);
}

/* Bytes fed one token at a time, and what must have come out after each of them. */
static void test_streaming(tokenizer *t)
{
    static const struct {
        const char *bytes;
        const char *after[6]; /* output after byte i; the last one: after the end */
    } c[] = {
        { "\xE3\x81\x82", { "", "", "あ", "あ" } },
        { "\xF0\x9F\x98\x80", { "", "", "", "😀", "😀" } },
        { "\xE3\x81", { "", "", "\uFFFD" } },
        { "\xF0\x9F\x98", { "", "", "", "\uFFFD" } },
        { "\xE3\x81x", { "", "", "\uFFFDx", "\uFFFDx" } },
        { "\xE3\xE3\x81\x82", { "", "\uFFFD", "\uFFFD", "\uFFFDあ", "\uFFFDあ" } },
        { "\x80z", { "\uFFFD", "\uFFFDz", "\uFFFDz" } },
        { "\xC0\x80", { "\uFFFD", "\uFFFD\uFFFD", "\uFFFD\uFFFD" } },
        { "\xC1", { "\uFFFD", "\uFFFD" } },
        { "\xF5\xFF", { "\uFFFD", "\uFFFD\uFFFD", "\uFFFD\uFFFD" } },
        { "\xE0\x80", { "", "\uFFFD\uFFFD", "\uFFFD\uFFFD" } },
        { "\xED\xA0\x80", { "", "\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD" } },
        { "\xF0\x80", { "", "\uFFFD\uFFFD", "\uFFFD\uFFFD" } },
        { "\xF4\x90", { "", "\uFFFD\uFFFD", "\uFFFD\uFFFD" } },
        { "\xC3\xA9", { "", "é", "é" } },
    };
    int32_t byte_id[256];
    for (unsigned b = 0; b < 256; b++)
        byte_id[b] = id_of(t, (const char[]){ (char)b }, 1);
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct detok d = { 0 };
        struct text out = { 0 };
        CHECK(text_add(&out, "", 0, NULL) == OK);
        size_t k = 0;
        for (; c[i].bytes[k]; k++) {
            CHECK(detok_push(t, &d, byte_id[(uint8_t)c[i].bytes[k]], &out, NULL) == OK);
            CHECK(strcmp(out.p, c[i].after[k]) == 0);
            CHECK(d.n_held <= 3);
        }
        CHECK(detok_end(&d, &out, NULL) == OK);
        CHECK(strcmp(out.p, c[i].after[k]) == 0);
        text_free(&out);
    }

    struct ids ids = { 0 }; /* control tokens are silent unless asked for; ids from nowhere are harmless */
    static const char text[] = "a<|im_end|>b";
    CHECK(tokenize(t, text, strlen(text), TOKENIZE_SPECIAL, &ids, NULL) == OK && ids.n == 3);
    CHECK(ids_push(&ids, -1, NULL) == OK && ids_push(&ids, INT32_MAX, NULL) == OK);
    struct text quiet = decode(t, &ids, false), loud = decode(t, &ids, true);
    CHECK(strcmp(quiet.p, "ab") == 0 && strcmp(loud.p, text) == 0);
    text_free(&quiet);
    text_free(&loud);
    ids_free(&ids);
    CHECK(tokenizer_piece(t, -1).n == 0 && tokenizer_piece(t, INT32_MAX).n == 0);
    CHECK(!tokenizer_is_stop(t, -1) && !tokenizer_is_control(t, INT32_MAX));
}

/* An invalid byte counts as U+FFFD: same ids as the repaired text. */
static void test_invalid_text(tokenizer *t)
{
    static const struct {
        const char *bad, *repaired;
    } c[] = {
        { "a\xFF b", "a\uFFFD b" },         { "\xE3\x81", "\uFFFD\uFFFD" },     { "\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD" },
        { "x\xC0\xAFy", "x\uFFFD\uFFFDy" }, { "あ\xF0\x9F", "あ\uFFFD\uFFFD" },
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct ids a = { 0 }, b = { 0 };
        CHECK(tokenize(t, c[i].bad, strlen(c[i].bad), TOKENIZE_TEXT, &a, NULL) == OK);
        CHECK(tokenize(t, c[i].repaired, strlen(c[i].repaired), TOKENIZE_TEXT, &b, NULL) == OK);
        CHECK(a.n == b.n && memcmp(a.v, b.v, a.n * sizeof *a.v) == 0);
        ids_free(&a);
        ids_free(&b);
    }
    struct ids none = { 0 };
    CHECK(tokenize(t, NULL, 0, TOKENIZE_SPECIAL, &none, NULL) == OK && none.n == 0);
}

/* ---- vocabularies of all sorts ---- */

static const struct extra_token extra[] = {
    { "<|im_start|>", 3 },  /* 256 */
    { "<|im_end|>", 1 },    /* 257: some files get the type wrong */
    { "<|endoftext|>", 4 }, /* 258 */
    { "<think>", 4 },       /* 259 */
    { "<unk>", 2 },         /* 260 */
    { "<|fim_pad|>", 1 },   /* 261 */
    { "<|file_sep|>", 3 },  /* 262 */
    { "ab", 1 },            /* 263 */
    { "abc", 1 },           /* 264 */
    { "[PAD265]", 5 },      /* 265 */
    { "xy", 3 },            /* 266: a control token that a merge would make */
    { "<think>!", 4 },      /* 267: the longer one wins */
    { "\xE3\x81\x82", 1 },  /* 268: not in the byte alphabet */
    { "zz", 4 },            /* 269 */
};
static const char *const merges[] = { "a b", "ab c", "x y", "q q", "a", " ", "", "z z", "\xE3\x81\x82 a" };

/* Which key is left out, and which is replaced by something wrong. */
enum damage {
    GOOD,
    NO_MODEL,
    MODEL_LLAMA,
    MODEL_U32,
    NO_PRE,
    PRE_OTHER,
    PRE_U32,
    NO_TOKENS,
    TOKENS_U32,
    NO_TYPES,
    TYPES_STR,
    TYPES_SHORT,
    TYPES_BAD,
    NO_MERGES,
    MERGES_I32,
    EOS_BIG,
    EOS_STR,
    EMPTY,
};

static void build_vocab(struct blob *o, enum damage d)
{
    size_t n = COUNT_OF(extra);
    blob_begin(o);
    if (d == MODEL_U32)
        blob_key_u32(o, "tokenizer.ggml.model", 1);
    else if (d != NO_MODEL)
        blob_key_str(o, "tokenizer.ggml.model", d == MODEL_LLAMA ? "llama" : "gpt2");
    if (d == PRE_U32)
        blob_key_u32(o, "tokenizer.ggml.pre", 1);
    else if (d != NO_PRE)
        blob_key_str(o, "tokenizer.ggml.pre", d == PRE_OTHER ? "strange\n" : "qwen35");
    if (d == TOKENS_U32)
        blob_key_u32(o, "tokenizer.ggml.tokens", 1);
    else if (d == EMPTY)
        blob_key_array(o, "tokenizer.ggml.tokens", GGUF_STR, 0);
    else if (d != NO_TOKENS)
        blob_tokens(o, extra, n);
    if (d == TYPES_STR || d == EMPTY)
        blob_key_array(o, "tokenizer.ggml.token_type", d == EMPTY ? GGUF_I32 : GGUF_STR, 0);
    else if (d != NO_TYPES)
        blob_types(o, extra, d == TYPES_SHORT ? n - 1 : n);
    if (d == TYPES_BAD)
        o->b.p[o->b.n - 4] = 7;
    if (d == MERGES_I32)
        blob_key_array(o, "tokenizer.ggml.merges", GGUF_I32, 0);
    else if (d != NO_MERGES)
        blob_merges(o, merges, COUNT_OF(merges));
    if (d == EOS_STR)
        blob_key_str(o, "tokenizer.ggml.eos_token_id", "7");
    else
        blob_key_u32(o, "tokenizer.ggml.eos_token_id", d == EOS_BIG ? 270 : 263);
    blob_key_u32(o, "tokenizer.ggml.eot_token_id", 256);
}

static void test_vocabularies(void)
{
    static const struct {
        enum damage d;
        status want;
        const char *says[3];
    } c[] = {
        { GOOD, OK, { 0 } },
        { NO_MODEL, ERR_FORMAT, { "test.gguf: key tokenizer.ggml.model is missing", "expected \"gpt2\"" } },
        { MODEL_LLAMA, ERR_UNSUPPORTED, { "test.gguf: key tokenizer.ggml.model is \"llama\"", "expected \"gpt2\"" } },
        { MODEL_U32, ERR_FORMAT, { "test.gguf", "tokenizer.ggml.model" } },
        { NO_PRE, OK, { 0 } },
        { PRE_OTHER, OK, { 0 } },
        { PRE_U32, ERR_FORMAT, { "test.gguf", "tokenizer.ggml.pre" } },
        { NO_TOKENS, ERR_FORMAT, { "test.gguf: key tokenizer.ggml.tokens is missing", "array of strings" } },
        { TOKENS_U32, ERR_FORMAT, { "key tokenizer.ggml.tokens is of type u32", "array of strings" } },
        { NO_TYPES, ERR_FORMAT, { "key tokenizer.ggml.token_type is missing" } },
        { TYPES_STR, ERR_FORMAT, { "key tokenizer.ggml.token_type is an array of string", "32-bit integers" } },
        { TYPES_SHORT, ERR_FORMAT, { "tokenizer.ggml.token_type has 269 elements, expected 270" } },
        { TYPES_BAD, ERR_FORMAT, { "tokenizer.ggml.token_type has 7 for token 269, expected 0..6" } },
        { NO_MERGES, ERR_FORMAT, { "key tokenizer.ggml.merges is missing" } },
        { MERGES_I32, ERR_FORMAT, { "key tokenizer.ggml.merges is an array of i32" } },
        { EOS_BIG, ERR_FORMAT, { "tokenizer.ggml.eos_token_id", "270" } },
        { EOS_STR, ERR_FORMAT, { "tokenizer.ggml.eos_token_id" } },
        { EMPTY, ERR_FORMAT, { "at least one" } },
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct blob o = { 0 };
        struct err e = { 0 };
        gguf *g;
        tokenizer *t;
        build_vocab(&o, c[i].d);
        status s = blob_open(&o, &g, &t, &e);
        CHECK(s == c[i].want && g);
        for (size_t k = 0; k < 3 && c[i].says[k]; k++) {
            CHECK(strstr(e.msg, c[i].says[k]));
            if (!strstr(e.msg, c[i].says[k]))
                fprintf(stderr, "  case %zu says: %s\n", i, e.msg);
        }
        if (c[i].d == PRE_OTHER)
            CHECK(strstr(tokenizer_note(t), "tokenizer.ggml.pre is \"strange?\"") && !strchr(tokenizer_note(t), '\n'));
        if (c[i].d == NO_PRE)
            CHECK(strstr(tokenizer_note(t), "tokenizer.ggml.pre"));
        if (s == OK)
            CHECK(strstr(tokenizer_note(t), "7 of 9 merges") && strcmp(tokenizer_name(t), "test.gguf") == 0);
        tokenizer_close(t);
        gguf_close(g);
        text_free(&o.b);
    }
}

static void check_ids(tokenizer *t, const char *text, enum tokenize_mode mode, size_t n, const int32_t *want)
{
    struct ids ids = { 0 };
    CHECK(tokenize(t, text, strlen(text), mode, &ids, NULL) == OK);
    CHECK(ids.n == n && (n == 0 || memcmp(ids.v, want, n * sizeof *want) == 0));
    ids_free(&ids);
}
#define IDS(t, text, mode, ...)                                                                                                  \
    check_ids(t, text, mode, COUNT_OF(((const int32_t[]){ __VA_ARGS__ })), (const int32_t[]){ __VA_ARGS__ })

static void test_rules(void)
{
    struct blob o = { 0 };
    struct err e = { 0 };
    gguf *g;
    tokenizer *t;
    build_vocab(&o, GOOD);
    if (blob_open(&o, &g, &t, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        CHECK(false);
        return;
    }
    CHECK(tokenizer_n_vocab(t) == 270);
    CHECK(tokenizer_special(t, "<|im_end|>") == 257 && tokenizer_special(t, "<think>") == 259 &&
          tokenizer_special(t, "<unk>") == 260);
    CHECK(tokenizer_special(t, "abc") == -1 && tokenizer_special(t, "") == -1 && tokenizer_special(t, "<|im_end|>x") == -1);
    CHECK(tokenizer_special(t, "<think>!") == 267);
    CHECK(tokenizer_is_control(t, 256) && tokenizer_is_control(t, 257) && tokenizer_is_control(t, 258) &&
          tokenizer_is_control(t, 260));
    CHECK(!tokenizer_is_control(t, 259) && !tokenizer_is_control(t, 263) && !tokenizer_is_control(t, 265));
    for (int32_t id = 0; id < 270; id++) /* by text 257 258 261 262, the file's eos 263, its eot 256 */
        CHECK(tokenizer_is_stop(t, id) == (id == 256 || id == 257 || id == 258 || id == 261 || id == 262 || id == 263));
    CHECK(str_is(tokenizer_piece(t, 263), "ab") && str_is(tokenizer_piece(t, ' '), " ") &&
          str_is(tokenizer_piece(t, 0xAD), "\xAD"));
    CHECK(str_is(tokenizer_piece(t, 265), "[PAD265]") && str_is(tokenizer_piece(t, 268), "あ"));

    IDS(t, "abcab", TOKENIZE_TEXT, 264, 263);
    IDS(t, "abcab", TOKENIZE_TEXT, 264, 263); /* from the word cache */
    IDS(t, "xy zz", TOKENIZE_TEXT, 'x', 'y', ' ', 'z', 'z');
    IDS(t, "xy zz", TOKENIZE_SPECIAL, 266, ' ', 269);
    IDS(t, "あ", TOKENIZE_SPECIAL, 0xE3, 0x81, 0x82);
    IDS(t, "<think>!", TOKENIZE_SPECIAL, 267);
    IDS(t, "<think>?<unk>", TOKENIZE_SPECIAL, 259, '?', 260);
    IDS(t, "<unk>", TOKENIZE_TEXT, '<', 'u', 'n', 'k', '>');
    IDS(t, "a<|im_end|>b", TOKENIZE_SPECIAL, 'a', 257, 'b');
    check_ids(t, "", TOKENIZE_TEXT, 0, NULL);
    struct ids ids = { 0 }; /* user-defined tokens are printed, control tokens are not */
    CHECK(tokenize(t, "<think>!a<unk>b", 15, TOKENIZE_SPECIAL, &ids, NULL) == OK);
    struct text out = decode(t, &ids, false);
    CHECK(strcmp(out.p, "<think>!ab") == 0);
    text_free(&out);
    ids_free(&ids);
    tokenizer_close(t);
    gguf_close(g);
    text_free(&o.b);
}

/* A vocabulary without some single bytes: what needs them is lost, said once, and nothing breaks. */
static void test_missing_bytes(void)
{
    struct blob o = { 0 };
    gguf *g;
    tokenizer *t;
    blob_begin(&o);
    blob_key_str(&o, "tokenizer.ggml.model", "gpt2");
    blob_key_str(&o, "tokenizer.ggml.pre", "qwen35");
    blob_key_array(&o, "tokenizer.ggml.tokens", GGUF_STR, 3);
    blob_str(&o, "a", 1);
    blob_str(&o, "aa", 2);
    blob_str(&o, "", 0);
    blob_key_array(&o, "tokenizer.ggml.token_type", GGUF_I32, 3);
    for (int i = 0; i < 3; i++)
        blob_u32(&o, 1);
    blob_merges(&o, (const char *const[]){ "a a" }, 1);
    CHECK(blob_open(&o, &g, &t, NULL) == OK);
    if (t) {
        CHECK(strstr(tokenizer_note(t), "255 of the 256 single-byte tokens are missing"));
        IDS(t, "aabaaab b", TOKENIZE_SPECIAL, 1, 1, 0);
        IDS(t, "aabaaab b", TOKENIZE_SPECIAL, 1, 1, 0);
        struct ids ids = { 0 };
        for (int k = 0; k < 2; k++) { /* a long word; and b, which has no token at all */
            char w[200];
            memset(w, "ab"[k], sizeof w);
            CHECK(tokenize(t, w, sizeof w, TOKENIZE_TEXT, &ids, NULL) == OK && ids.n == 100);
        }
        ids_free(&ids);
    }
    tokenizer_close(t);
    gguf_close(g);
    text_free(&o.b);
}

/* ---- speed ---- */

static void add_page(struct text *b, size_t n_bytes)
{
    static const char *const syllable[] = { "con",  "ti", "nu",    "re",  "pro", "gram", "me",  "file", "op",
                                            "tion", "er", "in",    "the", "of",  "to",   "val", "ue",   "s",
                                            "ing",  "de", "fault", "set", "er",  "ror",  "out", "put" };
    static const char *const kana[] = { "これ", "は",   "文書",     "の",   "要約", "を",   "返す",    "場合",
                                        "に",   "して", "ください", "関数", "値",   "です", "ファイル" };
    while (b->n < n_bytes) {
        char word[64] = "";
        uint32_t kind = rnd(10);
        if (kind < 7)
            for (uint32_t k = 1 + rnd(3); k--;)
                strcat(word, syllable[rnd(rnd(COUNT_OF(syllable)) + 1)]);
        else if (kind < 9)
            for (uint32_t k = 1 + rnd(3); k--;)
                strcat(word, kana[rnd(COUNT_OF(kana))]);
        else
            snprintf(word, sizeof word, "%u", rnd(10000));
        static const char *const gap[] = { " ", " ", " ", " ", " ", ", ", ". ", "\n", "。", "(3) " };
        strcat(word, gap[rnd(COUNT_OF(gap))]);
        CHECK(text_add(b, word, strlen(word), NULL) == OK);
    }
}

static void timed(tokenizer *t, const char *what, const char *p, size_t n, double limit_s)
{
    struct ids ids = { 0 };
    double start = cpu_s();
    CHECK(tokenize(t, p, n, TOKENIZE_TEXT, &ids, NULL) == OK);
    double s = cpu_s() - start;
    printf("  %-26s %7zu bytes %7zu ids %6.3f s\n", what, n, ids.n, s);
    CHECK(SANITIZED || s < limit_s);
    struct text back = decode(t, &ids, false);
    CHECK(back.n == n && memcmp(back.p, p, n) == 0);
    text_free(&back);
    ids_free(&ids);
}

static void test_speed(tokenizer *t)
{
    size_t mb = SANITIZED ? 1 << 16 : 1 << 20;
    struct text b = { 0 };
    add_page(&b, 2 * mb);
    timed(t, "pages", b.p, b.n, 1.0);

    static const char *const one_word[] = { "a", "ab", "日", "あいうえお", " ", "=", "\n", "\u0301", "ไ", "😀" };
    for (size_t i = 0; i < COUNT_OF(one_word); i++) {
        b.n = 0;
        while (b.n < mb)
            CHECK(text_add(&b, one_word[i], strlen(one_word[i]), NULL) == OK);
        timed(t, one_word[i][0] == '\n' ? "line ends" : one_word[i], b.p, b.n, 2.0);
    }
    b.n = 0;
    while (b.n < mb)
        add_code_point(&b, 0x4E00 + rnd(0x5000));
    timed(t, "random ideographs", b.p, b.n, 2.0);
    b.n = 0;
    while (b.n < mb)
        add_code_point(&b, (rnd(2) ? 'a' : 'A') + rnd(26));
    timed(t, "random letters", b.p, b.n, 2.0);
    text_free(&b);
}

static tokenizer *open_file(const char *path, gguf **g)
{
    struct err e = { 0 };
    tokenizer *t = NULL;
    *g = NULL;
    status s = gguf_open(g, path, &e);
    double start = cpu_s();
    if (s == OK)
        s = tokenizer_open(&t, *g, &e);
    double took = cpu_s() - start;
    CHECK(s == OK);
    if (s != OK) {
        fprintf(stderr, "%s\n", e.msg);
        gguf_close(*g);
        return NULL;
    }
    printf("  %s: %zu tokens in %.3f s\n", path, tokenizer_n_vocab(t), took);
    CHECK(SANITIZED || took < 0.3);
    CHECK(tokenizer_note(t)[0] == 0);
    return t;
}

int main(void)
{
    rng_state = test_seed((unsigned long)time(NULL));
    test_utf8();
    test_vocabularies();
    test_rules();
    test_missing_bytes();

    gguf *g;
    tokenizer *t = open_file(TINY, &g);
    if (t) {
        CHECK(tokenizer_special(t, "<think>") == 3 && tokenizer_is_stop(t, 0) && tokenizer_is_stop(t, 2) &&
              !tokenizer_is_stop(t, 1));
        test_round_trip(t);
        test_streaming(t);
        test_invalid_text(t);
        test_bpe(t, g);
        tokenizer_close(t);
        gguf_close(g);
    }

    char path[64], command[256];
    snprintf(path, sizeof path, "build/vocab-qwen35.%ld.gguf", (long)getpid());
    snprintf(command, sizeof command, "mkdir -p build && zstd -dqf %s -o %s", VOCAB_ZST, path);
    if (system(command) != 0) {
        fprintf(stderr, "%s: failed (Debian package zstd)\n", command);
        CHECK(false);
        return TEST_END();
    }
    t = open_file(path, &g);
    unlink(path);
    if (t) {
        CHECK(tokenizer_n_vocab(t) == 151936);
        CHECK(tokenizer_is_stop(t, 151643) && tokenizer_is_stop(t, 151645) && !tokenizer_is_stop(t, 151644));
        test_golden(t);
        test_round_trip(t);
        test_invalid_text(t);
        test_speed(t);
        tokenizer_close(t);
        gguf_close(g);
    }
    return TEST_END();
}
