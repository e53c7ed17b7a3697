/* document.h - a file or standard input as text, and what is refused as a document. */
#ifndef HAYATE_MODEL_DOCUMENT_H
#define HAYATE_MODEL_DOCUMENT_H

#include "model/utf8.h"

#include <signal.h>

/* How messages and headers call an input: "standard input" for "-". */
const char *document_name(const char *path);
/* Appends all bytes of path ("-": standard input) to out. A directory and an empty file are refused: ERR_INPUT, ERR_USAGE. Gives up
 * with ERR_INPUT when *stop becomes non-zero. */
status document_read(const char *path, const volatile sig_atomic_t *stop, struct text *out, struct err *e);
/* The text in bytes, without a byte-order mark. What is not UTF-8 is converted in place (encoding.h) and *read_as says from what; it is NULL
 * otherwise. encoding: NULL, or what the bytes are written in. ERR_INPUT: neither UTF-8 nor recognised, or a NUL byte; ERR_USAGE: nothing
 * but white space. */
status document_check(const char *path, const char *encoding, struct text *bytes, struct str *document, const char **read_as, struct err *e);

#endif
