/* utf8.c - growing text, and the byte rules of UTF-8. Owns no state. */
#include "model/utf8.h"

#include <stdlib.h>
#include <string.h>

static status text_reserve(struct text *b, size_t more, struct err *e)
{
    size_t need, cap = b->cap ? b->cap : 256;
    if (!size_add(b->n, more, &need) || !size_add(need, 1, &need))
        return fail(e, ERR_NOMEM, "text buffer");
    if (need <= b->cap)
        return OK;
    while (cap < need)
        if (!size_mul(cap, 2, &cap))
            return fail(e, ERR_NOMEM, "text buffer");
    char *p = realloc(b->p, cap);
    if (!p)
        return fail(e, ERR_NOMEM, "text buffer of %zu bytes", cap);
    b->p = p;
    b->cap = cap;
    return OK;
}

status text_add(struct text *b, const char *p, size_t n, struct err *e)
{
    TRY(text_reserve(b, n, e));
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
    return OK;
}

void text_free(struct text *b)
{
    free(b->p);
    *b = (struct text){ 0 };
}

size_t utf8_prefix(const uint8_t *p, size_t n, bool *whole)
{
    size_t need = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    size_t len = need ? 1 : 0;
    *whole = false;
    if (!need)
        return 0;
    if (need > 1 && n > 1) { /* the second byte rules out overlong forms, surrogates and code points above 10FFFF */
        uint8_t lo = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
        uint8_t hi = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
        if (p[1] < lo || p[1] > hi)
            return 1;
        for (len = 2; len < need && len < n && (p[len] & 0xC0) == 0x80; len++)
            ;
    }
    *whole = len == need;
    return len;
}

size_t utf8_invalid_at(const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, p + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        bool whole;
        size_t len = utf8_prefix(p + i, n - i, &whole);
        if (!whole)
            return i;
        i += len;
    }
    return n;
}

uint32_t utf8_decode(const uint8_t *p, size_t *len)
{
    if (p[0] < 0x80)
        return *len = 1, p[0];
    if (p[0] < 0xE0)
        return *len = 2, (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    if (p[0] < 0xF0)
        return *len = 3, (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    return *len = 4, (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

status utf8_repair(const char *text, size_t n, struct text *out, struct err *e)
{
    for (size_t i = 0; i < n;) {
        size_t good = utf8_invalid_at(text + i, n - i);
        TRY(text_add(out, text + i, good, e));
        i += good;
        if (i < n) {
            TRY(text_add(out, U_FFFD, 3, e));
            i++;
        }
    }
    return OK;
}

status utf8_escape(const char *text, size_t n, struct text *out, struct err *e)
{
    static const char hex[] = "0123456789abcdef";
    const uint8_t *p = (const uint8_t *)text;
    TRY(text_add(out, "", 0, e));
    for (size_t i = 0; i < n;) {
        bool whole;
        size_t k = utf8_prefix(p + i, n - i, &whole);
        uint8_t c = p[i];
        bool control = c < 0x20 || c == 0x7F || (c == 0xC2 && whole && p[i + 1] < 0xA0);
        if (whole && !control && c != '\\') {
            TRY(text_add(out, text + i, k, e));
            i += k;
            continue;
        }
        char byte[4] = { '\\', 'x', hex[c >> 4], hex[c & 15] };
        const char *word = c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\t' ? "\\t" : NULL;
        TRY(word ? text_add(out, word, 2, e) : text_add(out, byte, sizeof byte, e));
        i++;
    }
    return OK;
}

bool utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

struct str utf8_trim(struct str s)
{
    const uint8_t *p = (const uint8_t *)s.p;
    size_t from = 0, to = s.n, len;
    bool whole;
    while (from < to && (utf8_prefix(p + from, to - from, &whole), whole) && utf8_is_space(utf8_decode(p + from, &len)))
        from += len;
    while (to > from) {
        size_t at = to - 1;
        while (at > from && to - at < 4 && (p[at] & 0xC0) == 0x80)
            at--;
        if (utf8_prefix(p + at, to - at, &whole) != to - at || !whole || !utf8_is_space(utf8_decode(p + at, &len)))
            break;
        to = at;
    }
    return (struct str){ s.p ? s.p + from : NULL, to - from };
}
