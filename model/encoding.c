/* encoding.c - recognition and conversion of encodings. Conversion is iconv's; ISO-2022-JP is first brought into the form of EUC-JP, because
 * iconv's own decoder refuses the half-width kana and vendor characters that mail programs write.
 *
 * Why Shift_JIS and EUC-JP need no comparison: to pass, a text needs kana. Kana in Shift_JIS have a first byte of 0x82 or 0x83, which no
 * EUC-JP text contains, so at most one of the two can pass. */
#include "model/encoding.h"

#include <errno.h>
#include <iconv.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHIFT_JIS "CP932"
#define EUC_JP    "EUC-JP-MS"
#define NO_SUCH   ((iconv_t)-1)

/* What people call the encodings of Japanese, and the decoder that knows the characters in use. */
static const struct {
    const char *name, *decoder;
} alias[] = {
    { "Shift_JIS", SHIFT_JIS }, { "Shift-JIS", SHIFT_JIS }, { "SJIS", SHIFT_JIS }, { "Windows-31J", SHIFT_JIS }, { "MS_Kanji", SHIFT_JIS },
    { "EUC-JP", EUC_JP }, { "EUCJP", EUC_JP }, { "UTF8", "UTF-8" }, { "ISO2022-JP", "ISO-2022-JP" }, { "JIS", "ISO-2022-JP" },
};

static const char *decoder_of(const char *encoding)
{
    for (size_t i = 0; i < COUNT_OF(alias); i++)
        if (strcasecmp(encoding, alias[i].name) == 0)
            return alias[i].decoder;
    return encoding;
}

status encoding_check_name(const char *encoding, struct err *e)
{
    if (!encoding)
        return OK;
    iconv_t cd = *encoding && !strchr(encoding, '/') ? iconv_open("UTF-8", decoder_of(encoding)) : NO_SUCH;
    if (cd == NO_SUCH)
        return fail(e, ERR_USAGE, "--encoding: no encoding '%s', expected a name that iconv knows (`iconv -l` lists them)", encoding);
    iconv_close(cd);
    return OK;
}

/* ---- conversion ---- */

/* Appends bytes[n] as UTF-8. *bad: offset of the first byte that does not fit, or n. Only ERR_NOMEM and an unknown decoder fail. */
static status convert(const char *decoder, const char *bytes, size_t n, struct text *out, size_t *bad, struct err *e)
{
    char buf[1 << 14], *in = (char *)(uintptr_t)bytes;
    iconv_t cd = iconv_open("UTF-8", decoder);
    size_t left = n;
    status s = OK;
    if (cd == NO_SUCH)
        return fail(e, ERR_UNSUPPORTED, "iconv of this system does not know %s", decoder);
    for (bool flush = false;;) {
        char *to = buf;
        size_t room = sizeof buf;
        size_t r = flush ? iconv(cd, NULL, NULL, &to, &room) : iconv(cd, &in, &left, &to, &room);
        int why = r == (size_t)-1 ? errno : 0;
        s = text_add(out, buf, (size_t)(to - buf), e);
        if (s != OK || (why && why != E2BIG) || (flush && !why))
            break;
        flush |= !why;
    }
    iconv_close(cd);
    *bad = n - left;
    return s;
}

/* ---- ISO-2022-JP ---- */

enum set { SET_ASCII, SET_ROMAN, SET_KANA, SET_KANJI, SET_KANJI_2 };
static const struct {
    const char *escape;
    enum set set;
} designation[] = {
    { "\033(B", SET_ASCII }, { "\033(J", SET_ROMAN }, { "\033(H", SET_ROMAN }, { "\033(I", SET_KANA }, { "\033$@", SET_KANJI },
    { "\033$B", SET_KANJI }, { "\033&@\033$B", SET_KANJI }, { "\033$(D", SET_KANJI_2 },
};

/* Which row of designation begins at p; -1: none. */
static int designation_at(const char *p, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(designation); i++)
        if (strlen(designation[i].escape) <= n && memcmp(p, designation[i].escape, strlen(designation[i].escape)) == 0)
            return (int)i;
    return -1;
}

/* 7-bit text in which a set other than ASCII is designated. */
static bool is_iso2022jp(const char *p, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)p[i] >= 0x80 || !p[i])
            return false;
        if (p[i] != '\033')
            continue;
        int d = designation_at(p + i, n - i);
        any |= d >= 0 && designation[d].set != SET_ASCII && designation[d].set != SET_ROMAN;
    }
    return any;
}

/*  ASCII, Roman:  c          -> c (Roman: 0x5c is the yen sign, 0x7e the overline)
 *  kana:          c          -> 8e c|80
 *  kanji:         c d        -> c|80 d|80
 *  kanji 2:       c d        -> 8f c|80 d|80      the right side is EUC-JP
 * Controls and spaces stand for themselves in every set; a line end returns to ASCII. */
static status convert_iso2022jp(const char *p, size_t n, struct text *out, size_t *bad, struct err *e)
{
    enum set set = SET_ASCII;
    for (size_t i = 0; i < n;) {
        int d = p[i] == '\033' ? designation_at(p + i, n - i) : -1;
        *bad = i;
        if (d >= 0) {
            set = designation[d].set;
            i += strlen(designation[d].escape);
            continue;
        }
        if (p[i] == '\033' || (unsigned char)p[i] >= 0x80)
            return OK;
        if (p[i] == '\n')
            set = SET_ASCII;
        if ((unsigned char)p[i] <= 0x20 || p[i] == 0x7f || set <= SET_ROMAN) {
            const char *mark = set == SET_ROMAN && p[i] == '\\' ? "\xc2\xa5" : set == SET_ROMAN && p[i] == '~' ? "\xe2\x80\xbe" : NULL;
            TRY(text_add(out, mark ? mark : p + i, mark ? strlen(mark) : 1, e));
            i++;
            continue;
        }
        /* all that is written in this set, as one piece of EUC-JP */
        size_t step = set == SET_KANA ? 1 : 2, prefix = set != SET_KANJI, start = i, wrong = 0;
        struct text euc = { 0 };
        status s = OK;
        for (; s == OK && i < n && p[i] > 0x20 && p[i] != 0x7f; i += step) {
            char c[3] = { set == SET_KANA ? '\x8e' : '\x8f', 0, 0 };
            if (n - i < step || p[i + step - 1] <= 0x20 || p[i + step - 1] == 0x7f)
                break;
            for (size_t k = 0; k < step; k++)
                c[1 + k] = (char)(p[i + k] | 0x80);
            s = text_add(&euc, c + 1 - prefix, step + prefix, e);
        }
        if (s == OK)
            s = convert(EUC_JP, euc.p ? euc.p : "", euc.n, out, &wrong, e);
        bool stuck = i == start || (s == OK && wrong < euc.n);
        *bad = s == OK && wrong < euc.n ? start + wrong / (step + prefix) * step : i;
        text_free(&euc);
        TRY(s);
        if (stuck)
            return OK;
    }
    *bad = n;
    return OK;
}

/* ---- does it look Japanese? ---- */

/* At least 6 characters beyond ASCII; at least one in 8 of them kana (prose has one in two; Chinese and Korean read as EUC-JP, Latin
 * alphabets read as Shift_JIS have next to none); not many that stand alone between ASCII, as accented letters do; no controls
 * (iconv passes C1 bytes on), and private characters only as the exception that they are. */
static bool looks_japanese(const struct text *t)
{
    size_t n = 0, kana = 0, lone = 0, private_use = 0, run = 0;
    for (size_t i = 0, len; i <= t->n; i += len) {
        len = 1;
        uint32_t c = i < t->n ? utf8_decode((const uint8_t *)t->p + i, &len) : '\n';
        if (c < 0x80) {
            if ((c < 0x20 && !(c >= '\t' && c <= '\r') && c != 0x1a && c != 0x1b) || c == 0x7f)
                return false;
            lone += run == 1;
            run = 0;
            continue;
        }
        if (c <= 0xa0 || (c >= 0xf8f0 && c <= 0xf8ff)) /* single bytes without a meaning in CP932: 80 a0 fd fe ff */
            return false;
        n++;
        run++;
        kana += (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fc);
        private_use += c >= 0xe000 && c <= 0xf8ff;
    }
    return n >= 6 && kana >= n / 8 + (n % 8 != 0) && lone <= n / 4 && private_use <= n / 32;
}

/* Whether bytes are UTF-8 with some damage: half of what is not ASCII is whole three-byte characters of Japanese. Read as Shift_JIS such a
 * text has enough kana to pass. */
static bool is_damaged_utf8(const struct text *t)
{
    size_t n = 0, good = 0;
    for (size_t i = 0; i < t->n;) {
        bool whole;
        const uint8_t *p = (const uint8_t *)t->p + i;
        size_t len = utf8_prefix(p, t->n - i, &whole);
        n += *p >= 0x80;
        good += whole && len == 3 && *p >= 0xe3 && *p <= 0xe9;
        i += MAX(len, 1);
    }
    return n && good >= n - n / 2;
}

/* ---- decoding ---- */

static bool is_utf16(const struct text *t, const char **decoder)
{
    if (t->n < 2 || (memcmp(t->p, "\xff\xfe", 2) != 0 && memcmp(t->p, "\xfe\xff", 2) != 0))
        return false;
    *decoder = *t->p == '\xff' ? "UTF-16LE" : "UTF-16BE";
    return true;
}

/* bytes = out, which becomes empty */
static void take(struct text *bytes, struct text *out)
{
    text_free(bytes);
    *bytes = *out;
    *out = (struct text){ 0 };
}

/* Converts all of bytes from one encoding, or says where it does not fit. skip: bytes of a mark at the start. */
static status decode_as(const char *name, const char *called, const char *decoder, size_t skip, struct text *bytes, struct err *e)
{
    struct text out = { 0 };
    size_t bad = 0, n = bytes->n - skip;
    bool iso2022jp = strcasecmp(decoder, "ISO-2022-JP") == 0;
    status s = text_add(&out, "", 0, e);
    if (s == OK)
        s = iso2022jp ? convert_iso2022jp(bytes->p + skip, n, &out, &bad, e) : convert(decoder, bytes->p + skip, n, &out, &bad, e);
    if (s == ERR_UNSUPPORTED)
        s = fail_in(e, name);
    else if (s == OK && bad < n)
        s = fail(e, ERR_INPUT, "%s: not %s at byte %zu", name, called, skip + bad);
    else if (s == OK && memchr(out.p, 0, out.n))
        s = fail(e, ERR_INPUT, "%s: a NUL character when read as %s, expected text", name, called);
    if (s == OK && out.n >= 3 && memcmp(out.p, "\xef\xbb\xbf", 3) == 0) {
        memmove(out.p, out.p + 3, out.n - 3 + 1);
        out.n -= 3;
    }
    if (s == OK)
        take(bytes, &out);
    text_free(&out);
    return s;
}

/* Shift_JIS or EUC-JP, when the text is that beyond doubt; *read_as stays NULL otherwise. */
static status guess(struct text *bytes, const char **read_as, struct err *e)
{
    static const char *const candidate[][2] = { { SHIFT_JIS, "Shift_JIS" }, { EUC_JP, "EUC-JP" } };
    for (size_t i = 0; i < COUNT_OF(candidate) && !*read_as; i++) {
        struct text out = { 0 };
        size_t bad = 0;
        status s = convert(candidate[i][0], bytes->p, bytes->n, &out, &bad, e);
        if (s == OK && bad == bytes->n && looks_japanese(&out)) {
            *read_as = candidate[i][1];
            take(bytes, &out);
        }
        text_free(&out);
        if (s == ERR_NOMEM)
            return s;
    }
    return OK;
}

status encoding_decode(const char *name, const char *encoding, struct text *bytes, const char **read_as, struct err *e)
{
    const char *decoder = encoding ? decoder_of(encoding) : NULL;
    *read_as = NULL;
    if (bytes->n == 0)
        return OK;
    if (decoder && strcasecmp(decoder, "UTF-8") != 0) {
        TRY(decode_as(name, encoding, decoder, 0, bytes, e));
        *read_as = encoding;
        return OK;
    }
    if (!decoder && is_utf16(bytes, &decoder)) {
        TRY(decode_as(name, decoder, decoder, 2, bytes, e));
        *read_as = decoder;
        return OK;
    }
    if (!decoder && is_iso2022jp(bytes->p, bytes->n)) {
        TRY(decode_as(name, "ISO-2022-JP", "ISO-2022-JP", 0, bytes, e));
        *read_as = "ISO-2022-JP";
        return OK;
    }
    size_t bad = utf8_invalid_at(bytes->p, bytes->n);
    const char *nul = memchr(bytes->p, 0, bytes->n);
    if (bad == bytes->n || (nul && (size_t)(nul - bytes->p) < bad))
        return OK;
    if (decoder)
        return fail(e, ERR_INPUT, "%s: not UTF-8 at byte %zu", name, bad);
    if (!nul && !is_damaged_utf8(bytes))
        TRY(guess(bytes, read_as, e));
    if (!*read_as)
        return fail(e, ERR_INPUT, "%s: not UTF-8 at byte %zu (and not UTF-16, Shift_JIS, EUC-JP or ISO-2022-JP); --encoding NAME forces one", name, bad);
    return OK;
}
