/* unit_encoding.c - Japanese text in every encoding comes back as it was; what is in doubt is refused, never turned into other characters.
 *
 * Short texts: fewer than six characters beyond ASCII, or no kana among them (a name, a title), are refused in Shift_JIS and EUC-JP; UTF-16
 * and ISO-2022-JP announce themselves and are read at any length. */
#include "model/encoding.h"

#include "tests/test.h"

#include <iconv.h>

/* text in an encoding, made by iconv; n = 0 when the encoding lacks a character of it */
static struct text encoded(const char *as, const char *text, size_t n)
{
    struct text out = { 0 };
    size_t room = 8 * n + 64, left = n, cap = room;
    char *buf = malloc(room), *to = buf, *in = (char *)(uintptr_t)text;
    iconv_t cd = iconv_open(as, "UTF-8");
    CHECK(buf && cd != (iconv_t)-1);
    bool whole = iconv(cd, &in, &left, &to, &room) != (size_t)-1 && iconv(cd, NULL, NULL, &to, &room) != (size_t)-1;
    CHECK(text_add(&out, buf, whole ? cap - room : 0, NULL) == OK);
    iconv_close(cd);
    free(buf);
    return out;
}

static struct text bytes_of(const char *p, size_t n)
{
    struct text t = { 0 };
    CHECK(text_add(&t, p, n, NULL) == OK);
    return t;
}
#define BYTES(lit) bytes_of((lit), sizeof(lit) - 1)

/* Decodes t; want = NULL: refused with a message that has `message` in it. Frees t. */
static void decodes(struct text t, const char *encoding, const char *want, size_t n_want, const char *as, const char *message)
{
    struct err e = { 0 };
    const char *read_as = "untouched";
    struct text before = bytes_of(t.p, t.n);
    status s = encoding_decode("F", encoding, &t, &read_as, &e);
    bool good = want ? s == OK && t.n == n_want && memcmp(t.p, want, n_want) == 0 : s != OK && strstr(e.msg, message) && t.n == before.n;
    good = good && (as ? read_as && strcmp(read_as, as) == 0 : !read_as);
    CHECK(good);
    if (!good)
        fprintf(stderr, "  %zu bytes, expected %s %s: %s, read as %s\n", before.n, as ? as : "unchanged", want ? want : message, s == OK ? t.p : e.msg,
                read_as ? read_as : "UTF-8");
    text_free(&before);
    text_free(&t);
}
static void refused(struct text t, const char *message) { decodes(t, NULL, NULL, 0, NULL, message); }

#define NOT "F: not UTF-8 at byte "
#define NONE "(and not UTF-16, Shift_JIS, EUC-JP or ISO-2022-JP)"

static const struct {
    const char *as, *detected;
    const char *mark; /* before the bytes */
} form[] = {
    { "CP932", "Shift_JIS", "" },        { "EUC-JP-MS", "EUC-JP", "" },           { "ISO-2022-JP", "ISO-2022-JP", "" },
    { "ISO-2022-JP-3", "ISO-2022-JP", "" }, { "UTF-16LE", "UTF-16LE", "\xff\xfe" }, { "UTF-16BE", "UTF-16BE", "\xfe\xff" },
};

static const char *const text[] = {
    "はじめまして",
    "はい、そうです",
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所でニャーニャー泣いていた事だけは記憶している。\n",
    "一行目です。\r\n二行目です。\r\n\r\n四行目「かぎ括弧」・中黒ー長音。\r\n",
    "カタカナのテスト、ＡＢＣと１２３。表示能力の予約を十分に貼る。\n", /* second bytes 0x5c, 0x7e and the like */
    "半角のｶﾀｶﾅとﾊﾞｰｼﾞｮﾝの混じった文です。\n",
    "①番の㈱日本商事は、№５の髙﨑さんに依頼した。\n",
    "int main(void) { return 0; } /* これは説明です */\nHTTP/1.1 でサーバーに接続する。\n",
    "Version 2.0 release notes\n- Fixed a crash (クラッシュを修正しました)\n- See https://example.org/?q=1 for details\n",
};

static void round_trips(void)
{
    for (size_t i = 0; i < COUNT_OF(text); i++)
        for (size_t f = 0; f < COUNT_OF(form); f++) {
            struct text b = encoded(form[f].as, text[i], strlen(text[i])), t = BYTES("");
            if (b.n == 0) { /* iconv's ISO-2022-JP lacks half-width kana and vendor characters; by hand below */
                CHECK(f == 2 || f == 3);
            } else {
                CHECK(text_add(&t, form[f].mark, strlen(form[f].mark), NULL) == OK && text_add(&t, b.p, b.n, NULL) == OK);
                decodes(bytes_of(t.p, t.n), NULL, text[i], strlen(text[i]), form[f].detected, NULL);
                decodes(bytes_of(b.p, b.n), form[f].as, text[i], strlen(text[i]), form[f].as, NULL);
            }
            text_free(&b);
            text_free(&t);
            decodes(bytes_of(text[i], strlen(text[i])), NULL, text[i], strlen(text[i]), NULL, NULL);
            decodes(bytes_of(text[i], strlen(text[i])), "utf8", text[i], strlen(text[i]), NULL, NULL);
        }
    /* long: every character a decoder can be cut at by its buffers */
    struct text l = { 0 };
    for (size_t i = 0; i < 3000; i++)
        CHECK(text_add(&l, text[i % COUNT_OF(text)], strlen(text[i % COUNT_OF(text)]), NULL) == OK);
    for (size_t f = 0; f < 2; f++)
        decodes(encoded(form[f].as, l.p, l.n), NULL, l.p, l.n, form[f].detected, NULL);
    text_free(&l);
}

static void iso2022jp(void)
{
#define WANT(s) s, strlen(s), "ISO-2022-JP", NULL
    decodes(BYTES("\033$BF|K\\\033(B"), NULL, WANT("日本"));
    decodes(BYTES("\033$@F|K\\\033(J\\~a\033(B\\~\n"), NULL, WANT("日本¥‾a\\~\n"));
    decodes(BYTES("\033(I6E\033(B ok"), NULL, WANT("ｶﾅ ok"));
    decodes(BYTES("\033$B-!-j\033(B"), NULL, WANT("①㈱"));      /* the vendor row */
    decodes(BYTES("\033$B$\"\r\nno \033(B"), NULL, WANT("あ\r\nno ")); /* a line end returns to ASCII */
    decodes(BYTES("\033$(D0!\033(B"), NULL, WANT("丂"));
    decodes(BYTES("\033&@\033$B$\"\033(B"), NULL, WANT("あ"));
    refused(BYTES("\033$B$\"$"), "F: not ISO-2022-JP at byte 5");
    refused(BYTES("\033$B$\"$\033(B"), "F: not ISO-2022-JP at byte 5");
    refused(BYTES("\033$B$\"\177!~~"), "F: not ISO-2022-JP at byte ");
    refused(BYTES("\033$B$\"\033[1m"), "F: not ISO-2022-JP at byte 5");
    /* ASCII with other escapes is ASCII; with one 8-bit byte it is not ISO-2022-JP */
    decodes(BYTES("\033[1mbold\033[0m"), NULL, "\033[1mbold\033[0m", 12, NULL, NULL);
    decodes(BYTES("\033(Bplain\033(J"), NULL, "\033(Bplain\033(J", 11, NULL, NULL);
    refused(BYTES("\033$BF|\033(B \xe9"), NOT "9 " NONE);
#undef WANT
}

static void utf16(void)
{
    decodes(BYTES("\xff\xfeh\0i\0"), NULL, "hi", 2, "UTF-16LE", NULL);
    decodes(BYTES("\xfe\xff\0h\0i"), NULL, "hi", 2, "UTF-16BE", NULL);
    decodes(BYTES("\xff\xfe\x3d\xd8\x00\xde"), NULL, "😀", 4, "UTF-16LE", NULL);
    decodes(BYTES("\xff\xfe"), NULL, "", 0, "UTF-16LE", NULL); /* white space only: document_check says so */
    decodes(BYTES("h\0i\0"), "UTF-16LE", "hi", 2, "UTF-16LE", NULL);
    refused(BYTES("\xff\xfeh\0i"), "F: not UTF-16LE at byte 4");
    refused(BYTES("\xff\xfeh\0\x3d\xd8"), "F: not UTF-16LE at byte 4");
    refused(BYTES("\xff\xfeh\0\0\0"), "F: a NUL character");
    refused(BYTES("\xff\xfe\0\0h\0\0\0"), "F: a NUL character"); /* UTF-32 */
    decodes(BYTES("h\0i\0"), NULL, "h\0i\0", 4, NULL, NULL);     /* without a mark: NUL bytes, refused by document_check */
}

/* Texts that are not Japanese, and damaged ones: refused, or they would come out as plausible characters. */
static void doubtful(void)
{
    static const char *const latin[] = {
        "caf\xe9 d\xe9j\xe0 vu \xfc" "ber", "d\xe9jeuner", "na\xefve", "\xc4pfel", "Ch\xe2teau", "M\xe1laga", "Stra\xdf" "e", "\xe9t\xe9",
        "Les \xe9l\xe8ves de l'\xe9" "cole ont \xe9t\xe9 re\xe7us \xe0 l'h\xf4tel; \xe7" "a c'\xe9tait tr\xe8s agr\xe9" "able.\n",
        "It\x92s the user\x92s \x93" "choice\x94, don\x92t\n", "100 \x80 \x96 \x83 \x85", "p\x83te d\x82j\x85 \x82t\x82", /* Windows-1252, code page 850 */
        "Gr\xfc\xdf" "e aus M\xfcnchen", "\xbfQu\xe9? \xa1S\xed!", "\xc0\xc1\xc2\xc3\xc4\xc5",
        "\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0", "\xf0\xd2\xc9\xd7\xc5\xd4 \xcd\xc9\xd2\xd2", "\x8f\xe0\xa8\xa2\xa5\xe2", /* Cyrillic: 1251, KOI8-R, 866 */
        "\xd6\xd0\xce\xc4\xce\xc4\xb5\xb5\xb2\xe2\xca\xd4\xa1\xa3", "\xa4\xa4\xa4\xe5\xb4\xfa\xb8\xd5", /* Chinese: GB 2312, Big5 */
        "\xc7\xd1\xb1\xb9\xbe\xee \xb9\xae\xbc\xad\xc0\xd4\xb4\xcf\xb4\xd9", /* Korean: EUC-KR */
    };
    for (size_t i = 0; i < COUNT_OF(latin); i++)
        refused(bytes_of(latin[i], strlen(latin[i])), NONE);
    decodes(BYTES("caf\xe9"), "ISO-8859-1", "café", 5, "ISO-8859-1", NULL);

    static const char *const few[] = { "あ", "はい", "はいは", "日本", "日本語", "東京都庁", "議事録案", "第三回議事録", "はい、そう", "ｶﾀｶﾅ", "ｶﾀｶﾅﾊﾞｶﾘ", "a あ b い c う d え" };
    for (size_t i = 0; i < COUNT_OF(few); i++)
        for (size_t f = 0; f < 2; f++) {
            refused(encoded(form[f].as, few[i], strlen(few[i])), NONE);
            decodes(encoded(form[f].as, few[i], strlen(few[i])), form[f].as, few[i], strlen(few[i]), form[f].as, NULL);
        }

    /* UTF-8 cut in the middle of a character, or with one byte damaged, does not become Shift_JIS */
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        size_t n = strlen(text[i]), last = n;
        struct text t = bytes_of(text[i], n);
        while (last && (t.p[last - 1] & 0x80) == 0)
            last--;
        for (size_t cut = 1; cut < 3; cut++)
            refused(bytes_of(text[i], last - cut), NOT);
        for (size_t at = 0; at < n; at++) {
            char was = t.p[at];
            t.p[at] = (char)(was & 0x80 ? 'x' : 0xff);
            refused(bytes_of(t.p, n), NOT);
            t.p[at] = was;
        }
        text_free(&t);
    }
    /* Shift_JIS and EUC-JP cut in the middle of a character */
    for (size_t f = 0; f < 2; f++) {
        struct text t = encoded(form[f].as, text[0], strlen(text[0]));
        refused(bytes_of(t.p, t.n - 1), NOT "0 " NONE);
        decodes(bytes_of(t.p, t.n - 1), form[f].as, NULL, 0, NULL, f ? "F: not EUC-JP-MS at byte 10" : "F: not CP932 at byte 10");
        text_free(&t);
    }
    /* binary content */
    refused(BYTES("\x7f" "ELF\x02\x01\x01\xff\xfe\x83\x40\x83\x41\x83\x42\x83\x43"), NOT);
    refused(BYTES("\x82\xa0\x82\xa0\x82\xa0\x82\xa0\x82\xa0\x01"), NOT);
    refused(BYTES("\x82\xa0\x82\xa0\x82\xa0\x82\xa0\x82\xa0\0"), NOT);
    decodes(BYTES("\0\x82\xa0"), NULL, "\0\x82\xa0", 3, NULL, NULL); /* a NUL first: refused by document_check */
    decodes(BYTES("abc\xe9"), "UTF-8", NULL, 0, NULL, "F: not UTF-8 at byte 3");
    decodes(BYTES("abc\xe9"), "ASCII", NULL, 0, NULL, "F: not ASCII at byte 3");
    decodes(BYTES(""), NULL, "", 0, NULL, NULL);
    decodes(BYTES("\xef\xbb\xbf" "a"), NULL, "\xef\xbb\xbf" "a", 4, NULL, NULL);
}

static void names(void)
{
    static const char *const good[] = { NULL, "UTF-8", "utf8", "Shift_JIS", "sjis", "CP932", "EUC-JP", "eucjp", "ISO-2022-JP", "JIS", "UTF-16", "latin1", "GB18030" };
    static const char *const bad[] = { "", "klingon", "UTF-8//TRANSLIT", "//", "Shift JIS" };
    struct err e;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(encoding_check_name(good[i], &e) == OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(encoding_check_name(bad[i], &e) == ERR_USAGE);
        CHECK(strstr(e.msg, bad[i]));
    }
}

/* Random bytes, and Japanese texts with random damage: UTF-8 without NUL comes out, or an error. */
static void random_bytes(void)
{
    static const char *const force[] = { NULL, NULL, NULL, "CP932", "EUC-JP", "ISO-2022-JP", "UTF-16", "UTF-16BE", "UTF-7" };
    unsigned long seed = test_seed(11);
    unsigned accepted = 0;
    for (int round = 0; round < 20000; round++) {
        char buf[96];
        size_t n = 1 + seed % sizeof buf;
        int kind = round % 4;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005ul + 1442695040888963407ul;
            unsigned x = (unsigned)(seed >> 40);
            buf[i] = (kind == 0 ? (char)x : kind == 1 ? (char)(0x80 | x) : kind == 2 ? "\033$B(JI@D&!~aA"[x % 14] : (x & 0x300) ? (char)(0x20 + x % 0x5f) : (char)x);
        }
        struct text t = bytes_of(buf, n);
        const char *read_as, *encoding = force[(unsigned)round / 4 % COUNT_OF(force)];
        struct err e;
        status s = encoding_decode("F", encoding, &t, &read_as, &e);
        CHECK(s == OK || s == ERR_INPUT);
        if (s == OK && read_as)
            CHECK(utf8_invalid_at(t.p, t.n) == t.n && !memchr(t.p, 0, t.n));
        accepted += s == OK && !encoding && read_as && strcmp(read_as, "ISO-2022-JP") != 0;
        text_free(&t);
    }
    CHECK(accepted < 10); /* noise is not text */
}

int main(void)
{
    round_trips();
    iso2022jp();
    utf16();
    doubtful();
    names();
    random_bytes();
    return TEST_END();
}
