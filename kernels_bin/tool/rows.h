/* rows.h - the rows of the kernel tables as the build of the kernels sees them, and the MANIFEST that records how each binary came to be. Stands
 * outside the program, as all of tool/ does, and may include what is above kernels_bin. */
#ifndef HAYATE_KERNELS_BIN_TOOL_ROWS_H
#define HAYATE_KERNELS_BIN_TOOL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_row {
    const char *id, *source, *defines;
    uint32_t workgroup, grain, args_bytes, needs;
};
/* All rows with a kernel, in the order of their ids. */
const struct kernel_row *kernel_rows(size_t *n);

enum target { SPIRV, GFX1151, N_TARGET };
extern const char *const target_name[N_TARGET];
/* Whether a row is built for a target: defines may say -DONLY_SPIRV or -DONLY_GFX. */
bool row_wanted(const struct kernel_row *r, enum target t);
/* NULL, or in what the binary is not the row's; *said, unless NULL, gets the fields that the MANIFEST keeps of it, separated by tabs. */
const char *row_differs(const struct kernel_row *r, enum target t, const void *bytes, size_t n, char *said, size_t size);
/* "kernels_bin/spirv/ID.spv" */
void binary_path(char *path, size_t size, enum target t, const char *id);

/* What a binary is made from: compiler flags and preprocessed source, hashed token by token, so that any C preprocessor gives the same. */
struct source_hash {
    bool wanted, there; /* there: the file exists */
    bool failed;        /* the preprocessor did not like it */
    char hex[17];
};
typedef struct source_hash row_hashes[N_TARGET];
/* For all rows, several at a time; runs $CC or cc in the root of the tree. NULL: out of memory. */
row_hashes *source_hashes(void);

/* xxh3 in hexadecimal */
void hash_hex(char hex[17], const void *p, size_t n);
/* The whole file, to be freed; NULL with errno set. */
void *file_read(const char *path, size_t *n);

/* ---- MANIFEST.tsv: a line per row, fields separated by tabs, "-" for none ---- */

enum field {
    F_ID, F_SOURCE, F_DEFINES, F_WORKGROUP, F_ARGS,
    F_SPIRV_SOURCE, F_SPIRV_HASH, F_SPIRV_BYTES, F_SPIRV_SHARED, F_SPIRV_COMPILER,
    F_GFX_SOURCE, F_GFX_HASH, F_GFX_BYTES, F_VGPR, F_SGPR, F_LDS, F_SCRATCH, F_VGPR_SPILLS, F_SGPR_SPILLS, F_GFX_COMPILER,
    N_FIELD
};
extern const char *const field_name[N_FIELD];
static const enum field target_fields[N_TARGET + 1] = { F_SPIRV_SOURCE, F_GFX_SOURCE, N_FIELD }; /* source hash, binary hash, ... */

struct manifest {
    char *text;
    struct manifest_line {
        char *field[N_FIELD];
    } *line;
    size_t n;
    size_t bad; /* lines that are none, left out: a merge leaves such */
};
/* An absent file is an empty manifest. */
bool manifest_read(struct manifest *m, const char *path);
void manifest_free(struct manifest *m);
const struct manifest_line *manifest_find(const struct manifest *m, const char *id); /* NULL: none */
/* The same for one target: of several lines, which a merge leaves, the one about the file that is there. */
const struct manifest_line *manifest_find_for(const struct manifest *m, const char *id, enum target t);

/* What keeps a row's recorded binary for t from being the one of today's source: NULL, or a few words. */
const char *binary_stale(const struct kernel_row *r, enum target t, const struct source_hash *h, const struct manifest_line *l);

#endif
