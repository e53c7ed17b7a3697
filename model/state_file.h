/* state_file.h - a position of a session as a file: what it is, whether it can be trusted, how it is written.
 *
 * A file, little-endian:
 *
 *     0  "hayateST"      8  u32 format        12  u32 bytes of this head (80)
 *    16  u64 program    24  u64 model         32  u64 options       40  u64 tokens      hashes (xxh3), see below
 *    48  u64 positions  56  u64 bytes of the state   64  u64 xxh3 of the state   72  u64 xxh3 of bytes 0..71
 *    80  the state, as session_save gives it
 *
 * The four hashes stand for everything that the bits of a state follow from: the program itself (its bytes, and the version of the C library); the model
 * (model_identity, and size and time of its files); K/V type, --precise, kept raw keys, backend and instruction set or device; the ids. A file is
 * used only when all of them agree and every byte is what its hash says. */
#ifndef HAYATE_MODEL_STATE_FILE_H
#define HAYATE_MODEL_STATE_FILE_H

#include "model/model.h"

#include <xxhash.h>

/* Whose states are read and written. Zero-initialise. */
struct state_files {
    uint64_t program, model, options;
    XXH3_state_t *hash;
    uint8_t *piece;
};

/* Reads the program once. ERR_IO: it cannot; ERR_NOMEM. */
status state_files_open(struct state_files *f, struct err *e);
void state_files_close(struct state_files *f);
/* Whose states are meant from here on. */
void state_files_bind(struct state_files *f, const model *m, const struct session_params *p);

/* A number that differs where the four hashes differ. */
uint64_t state_file_key(const struct state_files *f, const int32_t *ids, size_t n);
/* Size of the file of the state of s after n > 0 positions. */
uint64_t state_file_bytes(session *s, size_t n);

/* Brings s to the position after ids [n], 0 < n <= its context, from the open file fd. Any failure is one line that says what was found; s is then
 * anywhere. ERR_FORMAT: not such a file, or one of something else; ERR_IO. */
status state_file_load(struct state_files *f, int fd, session *s, const int32_t *ids, size_t n, struct err *e);
/* Writes the state of s, which stands after ids [n], as `temporary`, syncs and renames it to `name`; both relative to the folder dir (or AT_FDCWD).
 * What fails leaves neither behind. ERR_IO. */
status state_file_save(struct state_files *f, int dir, const char *name, const char *temporary, session *s, const int32_t *ids, size_t n, struct err *e);
/* A name for the temporary file that no other process takes: prefix, pid and time. */
void state_file_temporary(char *out, size_t cap, const char *prefix);

#endif
