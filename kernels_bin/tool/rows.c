/* rows.c - see rows.h. */
#include "kernels_bin/tool/rows.h"

#include "gdn/gdn_args.h"
#include "gpu/gpu_args.h"
#include "gpu/int_rows.h"
#include "gpu/kernels.h"
#include "gpu/run_args.h"
#include "gpu/slide_args.h"
#include "gpu/top_args.h"
#include "kernels_bin/tool/inspect.h"
#include "model/model_args.h"
#include "qsa/qsa_args.h"
#include "qsa/qsa_form_args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* ---- rows ---- */

static struct kernel_row all_rows[] = {
#define KERNEL(id, ref, args, grain, workgroup, needs, source, defines) { #id, source, defines, workgroup, grain, sizeof(args), needs },
#include "gdn/gdn_kernels.def"
#include "gpu/gpu_kernels.def"
#include "model/model_kernels.def"
#include "qsa/qsa_kernels.def"
#undef KERNEL
};

static int by_id(const void *a, const void *b)
{
    const struct kernel_row *x = a, *y = b;
    return strcmp(x->id, y->id);
}

const struct kernel_row *kernel_rows(size_t *n)
{
    static size_t kept;
    if (kept == 0) {
        for (size_t i = 0; i < COUNT_OF(all_rows); i++)
            if (all_rows[i].workgroup)
                all_rows[kept++] = all_rows[i];
        qsort(all_rows, kept, sizeof *all_rows, by_id);
    }
    *n = kept;
    return all_rows;
}

const char *const target_name[N_TARGET] = { "spirv", "gfx1151" };

bool row_wanted(const struct kernel_row *r, enum target t)
{
    return !r->defines || !strstr(r->defines, t == SPIRV ? "-DONLY_GFX" : "-DONLY_SPIRV");
}

void binary_path(char *path, size_t size, enum target t, const char *id)
{
    snprintf(path, size, "kernels_bin/%s/%s.%s", target_name[t], id, t == SPIRV ? "spv" : "co");
}

const char *row_differs(const struct kernel_row *r, enum target t, const void *bytes, size_t n, char *said, size_t size)
{
    struct kernel_want w = { r->id, r->workgroup, r->args_bytes, r->needs & NEED_MATRIX, !(r->needs & NEED_MATRIX) };
    struct spirv_info s;
    struct code_info c;
    const char *wrong = t == SPIRV ? spirv_differs(&w, bytes, n, &s) : code_differs(&w, bytes, n, &c);
    if (wrong || !said)
        return wrong;
    char hex[17];
    hash_hex(hex, bytes, n);
    if (t == SPIRV)
        snprintf(said, size, "%s\t%zu\t%u", hex, n, s.shared_bytes);
    else
        snprintf(said, size, "%s\t%zu\t%u\t%u\t%u\t%u\t%u\t%u", hex, n, c.vgpr, c.sgpr, c.lds, c.scratch, c.vgpr_spills, c.sgpr_spills);
    return NULL;
}

/* ---- hashes ---- */

void hash_hex(char hex[17], const void *p, size_t n) { snprintf(hex, 17, "%016llx", (unsigned long long)XXH3_64bits(p, n)); }

static char *read_stream(FILE *f, char *p, size_t *n) /* appends to p, which may be NULL */
{
    size_t cap = *n, got = 0;
    do {
        *n += got;
        if (*n == cap) {
            char *q = realloc(p, cap = 2 * cap + 65536);
            if (!q) {
                free(p);
                return NULL;
            }
            p = q;
        }
        got = fread(p + *n, 1, cap - *n, f);
    } while (got);
    return p;
}

void *file_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!f)
        return NULL;
    char *p = read_stream(f, NULL, n);
    fclose(f);
    return p;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Preprocessors differ in white space and in line marks: what counts are the tokens. A blank stays only between two words. */
static size_t normalise(char *p, size_t n)
{
    size_t to = 0;
    bool blank = false, line_start = true;
    for (size_t i = 0; i < n; i++) {
        bool mark = line_start && i + 2 < n && p[i] == '#' && p[i + 1] == ' ' && isdigit((unsigned char)p[i + 2]);
        while (mark && i + 1 < n && p[i] != '\n')
            i++;
        line_start = p[i] == '\n';
        if (isspace((unsigned char)p[i]) || mark) {
            blank = true;
            continue;
        }
        if (blank && to && is_word(p[to - 1]) && is_word(p[i]))
            p[to++] = ' ';
        p[to++] = p[i];
        blank = false;
    }
    return to;
}

/* A preprocessor at work */
struct job {
    FILE *pipe;
    struct source_hash *h;
    char *text; /* flags and head, which come first */
    size_t n;
};

static void append_file(struct job *j, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    j->text = read_stream(f, j->text, &j->n);
    fclose(f);
}

static void job_start(struct job *j, const struct kernel_row *r, enum target t, struct source_hash *h)
{
    char command[1024];
    const char *cc = getenv("CC");
    struct stat st;
    *j = (struct job){ .h = h };
    *h = (struct source_hash){ .wanted = row_wanted(r, t), .there = stat(r->source, &st) == 0, .hex = "-" };
    if (!h->wanted || !h->there)
        return;
    append_file(j, t == SPIRV ? "kernels_bin/tool/spirv.flags" : "kernels_bin/tool/gfx1151.flags");
    if (t == SPIRV)
        append_file(j, "gpu/lang/glsl_head.glsl");
    if (t == SPIRV && r->needs & NEED_MATRIX)
        append_file(j, "gpu/lang/glsl_head_matrix.glsl");
    int n = snprintf(command, sizeof command, "exec %s -E -P -undef -nostdinc -x c -I. -D%s -DWORKGROUP=%u -DGRAIN=%u -DKERNEL_ID=%s %s %s", cc ? cc : "cc",
                     t == SPIRV ? "LANG_GLSL" : "LANG_HIP", r->workgroup, r->grain, r->id, r->defines ? r->defines : "", r->source);
    fflush(stdout);
    j->pipe = n < (int)sizeof command ? popen(command, "r") : NULL;
    h->failed = !j->pipe;
}

static void job_end(struct job *j)
{
    if (j->pipe) {
        j->text = read_stream(j->pipe, j->text, &j->n);
        j->h->failed = pclose(j->pipe) != 0 || !j->text;
        if (!j->h->failed)
            hash_hex(j->h->hex, j->text, normalise(j->text, j->n));
    }
    free(j->text);
    *j = (struct job){ 0 };
}

row_hashes *source_hashes(void)
{
    enum { AT_ONCE = 8 };
    struct job job[AT_ONCE] = { 0 };
    size_t n;
    const struct kernel_row *row = kernel_rows(&n);
    row_hashes *h = calloc(n + 1, sizeof *h);
    for (size_t i = 0; h && i < n * N_TARGET + AT_ONCE; i++) {
        job_end(&job[i % AT_ONCE]);
        if (i < n * N_TARGET)
            job_start(&job[i % AT_ONCE], &row[i / N_TARGET], (enum target)(i % N_TARGET), &h[i / N_TARGET][i % N_TARGET]);
    }
    return h;
}

/* ---- manifest ---- */

const char *const field_name[N_FIELD] = {
    "id", "source", "defines", "workgroup", "args",
    "spirv source", "spirv hash", "spirv bytes", "spirv shared", "spirv compiler",
    "gfx source", "gfx hash", "gfx bytes", "vgpr", "sgpr", "lds", "scratch", "vgpr spills", "sgpr spills", "gfx compiler",
};

static bool split_line(struct manifest_line *l, char *s)
{
    size_t n = 0;
    for (char *f = s; f; n++) {
        char *tab = strchr(f, '\t');
        if (n < N_FIELD)
            l->field[n] = f;
        if (tab)
            *tab++ = 0;
        f = tab;
    }
    return n == N_FIELD;
}

bool manifest_read(struct manifest *m, const char *path)
{
    size_t n, lines = 0;
    *m = (struct manifest){ 0 };
    char *p = file_read(path, &n);
    if (!p)
        return true;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    m->text = realloc(p, n + 1);
    m->line = calloc(lines + 1, sizeof *m->line);
    if (!m->text || !m->line)
        return false;
    m->text[n] = 0;
    bool first = true;
    for (char *s = m->text, *end; *s; s = end) {
        end = s + strcspn(s, "\n");
        if (*end)
            *end++ = 0;
        if (!first && split_line(&m->line[m->n], s))
            m->n++;
        else if (!first)
            m->bad++;
        first = false;
    }
    return true;
}

void manifest_free(struct manifest *m)
{
    free(m->text);
    free(m->line);
    *m = (struct manifest){ 0 };
}

const struct manifest_line *manifest_find(const struct manifest *m, const char *id)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->line[i].field[F_ID], id) == 0)
            return &m->line[i];
    return NULL;
}

static bool file_hash(char hex[17], enum target t, const char *id)
{
    char path[256];
    size_t n;
    binary_path(path, sizeof path, t, id);
    void *p = file_read(path, &n);
    if (p)
        hash_hex(hex, p, n);
    free(p);
    return p != NULL;
}

const struct manifest_line *manifest_find_for(const struct manifest *m, const char *id, enum target t)
{
    char hex[17] = "";
    const struct manifest_line *first = manifest_find(m, id);
    file_hash(hex, t, id);
    for (const struct manifest_line *l = first; l && l < m->line + m->n; l++)
        if (strcmp(l->field[F_ID], id) == 0 && strcmp(l->field[target_fields[t] + 1], hex) == 0)
            return l;
    return first;
}

const char *binary_stale(const struct kernel_row *r, enum target t, const struct source_hash *h, const struct manifest_line *l)
{
    char hex[17];
    if (!l)
        return "has no line";
    enum field f = target_fields[t];
    if (strcmp(l->field[f], h->wanted ? h->hex : "-") != 0)
        return h->wanted ? "its source has changed" : "is recorded but not wanted";
    if (!h->wanted)
        return NULL;
    if (!file_hash(hex, t, r->id))
        return "the file is missing";
    return strcmp(l->field[f + 1], hex) != 0 ? "the file is not the recorded one" : NULL;
}
