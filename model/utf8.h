/* utf8.h - growing text, and the byte rules of UTF-8: validity, white space, repair. */
#ifndef HAYATE_MODEL_UTF8_H
#define HAYATE_MODEL_UTF8_H

#include "gpu/base.h"

#define U_FFFD "\xEF\xBF\xBD" /* the replacement character */

/* Growing buffer. Zero-initialise; text_free when done. */
struct text {
    char *p; /* always terminated when not NULL */
    size_t n, cap;
};
/* Appends; after it p is not NULL, for n = 0 too. */
status text_add(struct text *b, const char *p, size_t n, struct err *e);
void text_free(struct text *b);

/* Offset of the first byte that is not valid UTF-8, or n when all is valid. */
size_t utf8_invalid_at(const char *p, size_t n);
/* How many bytes of p[n], n >= 1, begin one well-formed sequence: its whole length (*whole), or the length of the part
 * that could still become one, or 0 when the first byte cannot start any. */
size_t utf8_prefix(const uint8_t *p, size_t n, bool *whole);
/* The code point at p, valid UTF-8, and its length. */
uint32_t utf8_decode(const uint8_t *p, size_t *len);
/* Appends text[n] with U+FFFD for every byte that is not part of a well-formed sequence. */
status utf8_repair(const char *text, size_t n, struct text *out, struct err *e);
/* Appends text[n] as one word of one line that stands for exactly these bytes: control characters and bytes outside well-formed sequences
 * become \n, \t or \xHH, a backslash two. For names of files in messages and records. */
status utf8_escape(const char *text, size_t n, struct text *out, struct err *e);
/* The White_Space property of Unicode. */
bool utf8_is_space(uint32_t c);
/* s without the white space at both ends; invalid bytes are not white space. */
struct str utf8_trim(struct str s);

#endif
