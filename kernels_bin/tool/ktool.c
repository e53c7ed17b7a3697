/* ktool.c - what `make kernels` needs besides compilers.
 *
 *     ktool rows                      a line per row with a kernel: id, source, defines, workgroup, grain, argument bytes, needs
 *     ktool status                    the same and for spirv and gfx1151 a state (ok, stale, none: not built for it, missing: no source, failed)
 *                                     and the hash of the source
 *     ktool recorded TARGET ID        the MANIFEST's fields of a target
 *     ktool inspect TARGET ID FILE    the MANIFEST's fields about a binary; fails when it is not what the row says
 *     ktool manifest FOLDER           the new MANIFEST: of every row the line in FOLDER/ID, else the recorded one
 *
 * Fields are separated by tabs, and an empty one is "-". */
#include "kernels_bin/tool/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MANIFEST[] = "kernels_bin/MANIFEST.tsv";

static const char *state_of(const struct kernel_row *r, enum target t, const struct source_hash *h, const struct manifest_line *l)
{
    if (!h->wanted)
        return "none";
    if (!h->there)
        return "missing";
    if (h->failed)
        return "failed";
    return binary_stale(r, t, h, l) ? "stale" : "ok";
}

static void print_row(const struct kernel_row *r)
{
    printf("%s\t%s\t%s\t%u\t%u\t%u\t%u", r->id, r->source, r->defines && *r->defines ? r->defines : "-", r->workgroup, r->grain, r->args_bytes,
           r->needs);
}

static int print_rows(void)
{
    size_t n;
    const struct kernel_row *row = kernel_rows(&n);
    for (size_t i = 0; i < n; i++) {
        print_row(&row[i]);
        putchar('\n');
    }
    return 0;
}

static int print_status(const struct manifest *m)
{
    size_t n;
    const struct kernel_row *row = kernel_rows(&n);
    row_hashes *h = source_hashes();
    if (!h)
        return 1;
    for (size_t i = 0; i < n; i++) {
        const struct kernel_row *r = &row[i];
        print_row(r);
        for (enum target t = 0; t < N_TARGET; t++)
            printf("\t%s\t%s", state_of(r, t, &h[i][t], manifest_find_for(m, r->id, t)), h[i][t].hex);
        putchar('\n');
    }
    free(h);
    return 0;
}

static int inspect(enum target t, const char *id, const char *path)
{
    size_t n_rows, n;
    const struct kernel_row *row = kernel_rows(&n_rows);
    char said[256];
    for (size_t i = 0; i < n_rows; i++) {
        if (strcmp(row[i].id, id) != 0)
            continue;
        void *p = file_read(path, &n);
        const char *wrong = p ? row_differs(&row[i], t, p, n, said, sizeof said) : "cannot be read";
        free(p);
        if (wrong)
            fprintf(stderr, "kernels: %s: %s\n", path, wrong);
        else
            puts(said);
        return wrong ? 1 : 0;
    }
    return 1;
}

/* The recorded fields of one target, each after a tab; "-" where the row is not built for it */
static void print_recorded(const struct manifest *m, const struct kernel_row *r, enum target t)
{
    const struct manifest_line *l = row_wanted(r, t) ? manifest_find_for(m, r->id, t) : NULL;
    for (enum field f = target_fields[t]; f < target_fields[t + 1]; f++)
        printf("\t%s", l ? l->field[f] : "-");
}

/* A recorded line, with what the tables say today */
static void print_line(const struct manifest *m, const struct kernel_row *r)
{
    printf("%s\t%s\t%s\t%u\t%u", r->id, r->source, r->defines && *r->defines ? r->defines : "-", r->workgroup, r->args_bytes);
    for (enum target t = 0; t < N_TARGET; t++)
        print_recorded(m, r, t);
    putchar('\n');
}

static int recorded(const struct manifest *m, enum target t, const char *id)
{
    size_t n;
    const struct kernel_row *row = kernel_rows(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].id, id) == 0)
            print_recorded(m, &row[i], t);
    return 0;
}

static int print_manifest(const struct manifest *m, const char *folder)
{
    size_t n, bytes;
    char path[256];
    const struct kernel_row *row = kernel_rows(&n);
    for (enum field f = 0; f < N_FIELD; f++)
        printf("%s%c", field_name[f], f + 1 < N_FIELD ? '\t' : '\n');
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, row[i].id);
        char *p = file_read(path, &bytes);
        if (p)
            fwrite(p, 1, bytes, stdout);
        else if (manifest_find(m, row[i].id))
            print_line(m, &row[i]);
        free(p);
    }
    return 0;
}

static enum target target_of(const char *name) { return strcmp(name, target_name[SPIRV]) == 0 ? SPIRV : GFX1151; }

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct manifest m = { 0 };
    int code = 2;
    if (!manifest_read(&m, MANIFEST))
        code = 1;
    else if (argc == 2 && strcmp(what, "status") == 0)
        code = print_status(&m);
    else if (argc == 2 && strcmp(what, "rows") == 0)
        code = print_rows();
    else if (argc == 4 && strcmp(what, "recorded") == 0)
        code = recorded(&m, target_of(argv[2]), argv[3]);
    else if (argc == 5 && strcmp(what, "inspect") == 0)
        code = inspect(target_of(argv[2]), argv[3], argv[4]);
    else if (argc == 3 && strcmp(what, "manifest") == 0)
        code = print_manifest(&m, argv[2]);
    else
        fprintf(stderr, "usage: ktool rows | status | recorded TARGET ID | inspect TARGET ID FILE | manifest FOLDER\n");
    manifest_free(&m);
    return code;
}
