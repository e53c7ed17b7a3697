/* direct.h - bytes of a model's files read past the page cache.
 *
 * What goes to a device is read once and not wanted again; where the device's memory is the machine's memory, a second copy of it
 * in the page cache would take the room that the model needs. So files are opened with O_DIRECT, and what a file system serves
 * through its cache all the same is dropped from there behind each read. The mapping of gguf.h is not touched: it only says, by
 * its addresses, which bytes are meant. */
#ifndef HAYATE_MODEL_DIRECT_H
#define HAYATE_MODEL_DIRECT_H

#include "model/gguf.h"

/* LOAD_MMAP reads no file: bytes are taken from the mapping, and so through the page cache. LOAD_COPY reads as LOAD_DIRECT does, and asks the cpu for a copy
 * too, which otherwise uses the mapping. LOAD_PLAIN is LOAD_DIRECT where no file system takes O_DIRECT, for tests. */
enum load { LOAD_DIRECT, LOAD_MMAP, LOAD_COPY, LOAD_PLAIN };
typedef struct direct direct;

/* For n_readers threads that read at most max_bytes at a time. ERR_IO where a file cannot be opened, or is
 * not the one that was mapped. g = NULL: all is in memory. */
status direct_open(direct **out, const gguf *g, uint32_t n_readers, size_t max_bytes, enum load how, struct err *e);
void direct_close(direct *d); /* accepts NULL */
/* The n bytes that the mapping has at p, in the buffer of thread `reader`, valid until its next read; bytes that belong to no
 * file are where they are: then *out = p. ERR_IO, with file and offset, where they cannot be read or the file has become shorter.
 */
status direct_read(direct *d, uint32_t reader, const void *p, size_t n, const uint8_t **out, struct err *e);
/* ERR_IO for a file that was changed since it was mapped: to be asked after the last read. */
status direct_unchanged(const direct *d, struct err *e);

#endif
