/* encoding.h - documents that are not UTF-8: what they are written in, and their text as UTF-8.
 *
 * Recognised without being told: UTF-16 by its byte-order mark; ISO-2022-JP by its escape sequences in 7-bit text; Shift_JIS (as CP932) and
 * EUC-JP (with the vendor rows of CP932) when every byte fits and the text looks Japanese. Valid UTF-8 stays what it is. What is in doubt
 * is refused: a wrong guess would be answered as if it had been meant. Line ends are kept. */
#ifndef HAYATE_MODEL_ENCODING_H
#define HAYATE_MODEL_ENCODING_H

#include "model/utf8.h"

/* ERR_USAGE when iconv has no encoding of this name. NULL is "to be recognised" and fine. */
status encoding_check_name(const char *encoding, struct err *e);

/* Makes bytes UTF-8 text in place; what is converted loses its byte-order mark. encoding: NULL, or what they are written in. *read_as becomes the name of
 * the encoding when something was converted, else NULL. ERR_INPUT names the document (name) and the first byte that does not fit.
 * A NUL byte in what is not UTF-16 is left for document_check to refuse. */
status encoding_decode(const char *name, const char *encoding, struct text *bytes, const char **read_as, struct err *e);

#endif
