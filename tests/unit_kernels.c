/* unit_kernels.c - the committed kernels: every row with a kernel has binaries of today's source, the MANIFEST says the truth about them, they say
 * about themselves what the tables say, and the program holds them. Needs a C compiler, but none for kernels. */
#include "kernels_bin/kernels_bin.h"
#include "kernels_bin/tool/inspect.h"
#include "kernels_bin/tool/rows.h"
#include "tests/test.h"

#include <dirent.h>

static const struct kernel_row *row;
static size_t n_row;
static struct manifest manifest;

static void complain(const char *id, enum target t, const char *what)
{
    if (what)
        fprintf(stderr, "%s, %s: %s; make kernels\n", id, target_name[t], what);
    CHECK(!what);
}

/* What the file says about itself, and what the MANIFEST has kept of that */
static void test_binary(const struct kernel_row *r, enum target t, const struct manifest_line *l)
{
    char path[256], said[256], kept[256];
    size_t n, at = 0;
    binary_path(path, sizeof path, t, r->id);
    void *p = file_read(path, &n);
    const char *wrong = p ? row_differs(r, t, p, n, said, sizeof said) : "cannot be read";
    complain(r->id, t, wrong);
    for (enum field f = target_fields[t] + 1; f + 1 < target_fields[t + 1]; f++)
        at += (size_t)snprintf(kept + at, sizeof kept - at, "%s%s", l->field[f], f + 2 < target_fields[t + 1] ? "\t" : "");
    CHECK(wrong || strcmp(kept, said) == 0);
    CHECK(strlen(l->field[target_fields[t + 1] - 1]) > 1); /* the compiler */

    const struct kernel_bin *bin = kernel_bin_find(r->id);
    const uint8_t *inside = !bin ? NULL : t == SPIRV ? bin->spirv : bin->gfx1151;
    CHECK(inside && p && (uintptr_t)inside % 64 == 0 && (t == SPIRV ? bin->spirv_bytes : bin->gfx1151_bytes) == n && memcmp(inside, p, n) == 0);
    free(p);
}

static void test_rows(void)
{
    row_hashes *h = source_hashes();
    CHECK(h != NULL);
    for (size_t i = 0; h && i < n_row; i++) {
        const struct kernel_row *r = &row[i];
        const struct manifest_line *l = manifest_find(&manifest, r->id);
        char number[3][16];
        for (enum target t = 0; t < N_TARGET; t++) {
            complain(r->id, t, !h[i][t].there   ? "its source is not there"
                                : h[i][t].failed ? "the preprocessor failed"
                                                 : binary_stale(r, t, &h[i][t], l));
            if (l && h[i][t].wanted)
                test_binary(r, t, l);
        }
        snprintf(number[0], 16, "%u", r->workgroup);
        snprintf(number[1], 16, "%u", r->args_bytes);
        CHECK(l && strcmp(l->field[F_SOURCE], r->source) == 0 && strcmp(l->field[F_DEFINES], *r->defines ? r->defines : "-") == 0);
        CHECK(l && strcmp(l->field[F_WORKGROUP], number[0]) == 0 && strcmp(l->field[F_ARGS], number[1]) == 0);
    }
    free(h);
}

/* No line without a row, no file without a line, and the program's table is sorted and holds nothing else */
static void test_nothing_stale(void)
{
    CHECK(manifest.bad == 0);
    for (size_t i = 0; i < manifest.n; i++) {
        bool known = false;
        for (size_t k = 0; k < n_row; k++)
            known |= strcmp(row[k].id, manifest.line[i].field[F_ID]) == 0;
        CHECK(known);
        CHECK(i == 0 || strcmp(manifest.line[i - 1].field[F_ID], manifest.line[i].field[F_ID]) < 0);
    }
    for (enum target t = 0; t < N_TARGET; t++) {
        char path[256], id[256];
        snprintf(path, sizeof path, "kernels_bin/%s", target_name[t]);
        DIR *d = opendir(path);
        for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
            if (f->d_name[0] == '.')
                continue;
            snprintf(id, sizeof id, "%.*s", (int)strcspn(f->d_name, "."), f->d_name);
            const struct manifest_line *l = manifest_find(&manifest, id);
            if (!l || strcmp(l->field[target_fields[t] + 1], "-") == 0)
                complain(id, t, "the file belongs to no line");
        }
        if (d)
            closedir(d);
    }
    size_t n;
    const struct kernel_bin *bin = kernel_bin_list(&n);
    CHECK(n == manifest.n);
    for (size_t i = 0; i < n; i++)
        CHECK(manifest_find(&manifest, bin[i].id) && kernel_bin_find(bin[i].id) == &bin[i]);
    CHECK(kernel_bin_find("no such kernel") == NULL);
    size_t text_bytes, file_bytes;
    const char *text = kernel_bin_manifest(&text_bytes);
    char *file = file_read("kernels_bin/MANIFEST.tsv", &file_bytes);
    CHECK(file && text_bytes == file_bytes && memcmp(text, file, text_bytes) == 0);
    free(file);
}

/* A damaged binary is refused or read, but never read beyond its end */
static void test_damage(const uint8_t *p, size_t n, enum target t)
{
    struct spirv_info s;
    struct code_info c;
    unsigned seed = 1;
    for (int round = 0; p && round < 2000; round++) {
        size_t cut = round % 2 ? n : n * (size_t)(round / 2) / 1000;
        uint8_t *q = malloc(cut ? cut : 1);
        memcpy(q, p, cut);
        for (int k = 0; cut && k < round % 8; k++) {
            seed = seed * 1103515245u + 12345u;
            q[seed / 65536u * 7919u % (round % 3 ? cut : cut < 1500 ? cut : 1500)] = (uint8_t)(seed >> 8); /* notes lie in front */
        }
        const char *wrong = t == SPIRV ? spirv_inspect(&s, q, cut) : code_inspect(&c, q, cut);
        CHECK(wrong || cut > 0);
        free(q);
    }
}

/* The comparison itself notices what is wrong */
static void test_differs(const struct kernel_bin *bin)
{
    struct kernel_row r = { 0 };
    for (size_t i = 0; i < n_row; i++)
        if (strcmp(row[i].id, bin->id) == 0)
            r = row[i];
    for (enum target t = 0; t < N_TARGET; t++) {
        const uint8_t *p = t == SPIRV ? bin->spirv : bin->gfx1151;
        size_t n = t == SPIRV ? bin->spirv_bytes : bin->gfx1151_bytes;
        struct kernel_row other = r;
        if (!p)
            continue;
        CHECK(!row_differs(&other, t, p, n, NULL, 0));
        other.workgroup *= 2;
        CHECK(row_differs(&other, t, p, n, NULL, 0));
        other = r;
        other.args_bytes += 8;
        CHECK(row_differs(&other, t, p, n, NULL, 0));
        other = r;
        other.id = "another";
        CHECK(t == SPIRV || row_differs(&other, t, p, n, NULL, 0));
        CHECK(row_differs(&r, !t, p, n, NULL, 0));
        test_damage(p, n, t);
    }
}

int main(void)
{
    size_t n;
    row = kernel_rows(&n_row);
    CHECK(manifest_read(&manifest, "kernels_bin/MANIFEST.tsv"));
    if (test_size(0, 1, 1)) /* a preprocessor for each row, which sees the same text with sanitizers */
        test_rows();
    test_nothing_stale();
    const struct kernel_bin *bin = kernel_bin_list(&n);
    for (size_t i = 0; i < n && i < 2; i++)
        test_differs(&bin[i]);
    manifest_free(&manifest);
    return TEST_END();
}
