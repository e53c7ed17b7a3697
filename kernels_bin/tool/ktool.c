/* ktool.c - what `make kernels` and `make check` need besides compilers: the rows of the tables, hashes, and the line of a row in the MANIFEST.
 *
 *     ktool rows                            id, source, defines, workgroup, grain, argument bytes, needs: a line per row that has a kernel
 *     ktool source < TEXT                   hash of a preprocessed source, the same whatever preprocessor wrote it
 *     ktool hash FILE                       hash of a file
 *     ktool spirv|gfx1151 ID FILE           hash, bytes and what FILE says about itself; fails when that is not what the row says
 *
 * It stands outside the program and may include what is above kernels_bin. Fields are separated by tabs, and an empty one is "-". */
#include "gdn/gdn_args.h"
#include "gpu/gpu_args.h"
#include "gpu/kernels.h"
#include "kernels_bin/tool/inspect.h"
#include "model/model_args.h"
#include "qsa/qsa_args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct row {
    const char *id, *source, *defines;
    uint32_t workgroup, grain, args_bytes, needs;
};
static const struct row rows[] = {
#define KERNEL(id, ref, args, grain, workgroup, needs, source, defines) { #id, source, defines, workgroup, grain, sizeof(args), needs },
#include "gdn/gdn_kernels.def"
#include "gpu/gpu_kernels.def"
#include "model/model_kernels.def"
#include "qsa/qsa_kernels.def"
#undef KERNEL
};
enum { N_ROW = sizeof rows / sizeof *rows };

static int print_rows(void)
{
    for (const struct row *r = rows; r < rows + N_ROW; r++)
        if (r->workgroup)
            printf("%s\t%s\t%s\t%u\t%u\t%u\t%u\n", r->id, r->source, r->defines && *r->defines ? r->defines : "-", r->workgroup, r->grain,
                   r->args_bytes, r->needs);
    return 0;
}

static void *read_all(FILE *f, size_t *n)
{
    char *p = NULL;
    size_t cap = 0, got = 0;
    do {
        *n += got;
        if (*n == cap && !(p = realloc(p, cap = 2 * cap + 65536)))
            abort();
        got = fread(p + *n, 1, cap - *n, f);
    } while (got);
    return p;
}

/* Preprocessors differ in their white space and line marks: what counts are the tokens. A blank stays only between two words. */
static size_t normalise(char *p, size_t n)
{
    size_t to = 0;
    bool blank = false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '#' && (i == 0 || p[i - 1] == '\n') && i + 2 < n && p[i + 1] == ' ' && isdigit((unsigned char)p[i + 2]))
            while (i < n && p[i] != '\n')
                i++;
        if (i == n || isspace((unsigned char)p[i])) {
            blank = true;
            continue;
        }
        bool word = isalnum(c) || c == '_', before = to && (isalnum((unsigned char)p[to - 1]) || p[to - 1] == '_');
        if (blank && word && before)
            p[to++] = ' ';
        p[to++] = (char)c;
        blank = false;
    }
    return to;
}

static int hash_source(void)
{
    size_t n = 0;
    char *p = read_all(stdin, &n);
    printf("%016llx\n", (unsigned long long)XXH3_64bits(p, normalise(p, n)));
    free(p);
    return 0;
}

static void *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    void *p = read_all(f, n);
    fclose(f);
    return p;
}

static int hash_file(const char *path)
{
    size_t n = 0;
    void *p = read_file(path, &n);
    printf("%016llx\n", (unsigned long long)XXH3_64bits(p, n));
    free(p);
    return 0;
}

static const char *print_binary(const struct kernel_want *w, bool spirv, const void *p, size_t n)
{
    struct spirv_info s;
    struct code_info c;
    const char *wrong = spirv ? spirv_differs(w, p, n, &s) : code_differs(w, p, n, &c);
    if (wrong)
        return wrong;
    printf("%016llx\t%zu\t", (unsigned long long)XXH3_64bits(p, n), n);
    if (spirv)
        printf("%u\n", s.shared_bytes);
    else
        printf("%u\t%u\t%u\t%u\t%u\n", c.vgpr, c.sgpr, c.lds, c.scratch, c.spills);
    return NULL;
}

static int inspect(bool spirv, const char *id, const char *path)
{
    for (const struct row *r = rows; r < rows + N_ROW; r++) {
        if (strcmp(r->id, id) != 0)
            continue;
        size_t n = 0;
        void *p = read_file(path, &n);
        struct kernel_want w = { r->id, r->workgroup, r->args_bytes, r->needs & NEED_MATRIX, !(r->needs & NEED_MATRIX) };
        const char *wrong = print_binary(&w, spirv, p, n);
        if (wrong)
            fprintf(stderr, "kernels: %s: %s\n", path, wrong);
        free(p);
        return wrong ? 1 : 0;
    }
    fprintf(stderr, "kernels: no row %s\n", id);
    return 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(what, "rows") == 0)
        return print_rows();
    if (argc == 2 && strcmp(what, "source") == 0)
        return hash_source();
    if (argc == 3 && strcmp(what, "hash") == 0)
        return hash_file(argv[2]);
    if (argc == 4 && (strcmp(what, "spirv") == 0 || strcmp(what, "gfx1151") == 0))
        return inspect(what[0] == 's', argv[2], argv[3]);
    fprintf(stderr, "usage: ktool rows | source | hash FILE | spirv|gfx1151 ID FILE\n");
    return 2;
}
