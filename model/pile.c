/* pile.c - from arguments to inputs. */
#define _GNU_SOURCE /* asprintf */
#include "model/pile.h"

#include "model/document.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_FOLDER ".hayate" /* store.c */

struct file_id {
    dev_t dev;
    ino_t ino;
};

struct gather {
    struct pile *pile;
    const struct options *o;
    struct file_id out, cache, own[4]; /* the folders of -o and --prefix-cache; --jsonl, its part, --report, --log */
    bool have_out, have_cache;
    size_t n_own;
    struct file_id *walked;     /* folders of the current argument */
    size_t n_walked, cap_walked, n_hidden;
};

static bool same_file(struct file_id a, struct file_id b) { return a.dev == b.dev && a.ino == b.ino; }
static struct file_id id_of(const struct stat *st) { return (struct file_id){ st->st_dev, st->st_ino }; }

static char *escaped(const char *z)
{
    struct text t = { 0 };
    if (utf8_escape(z, strlen(z), &t, NULL) != OK)
        text_free(&t);
    return t.p;
}

static bool is_own(const struct gather *g, const struct stat *st)
{
    for (size_t i = 0; i < g->n_own; i++)
        if (same_file(g->own[i], id_of(st)))
            return true;
    return false;
}

/* ---- names ---- */

/* path without "/" at its start, "." and "..": the latter takes away what stands before it. */
static char *plain_name(const char *path)
{
    char *out = malloc(strlen(path) + 1);
    size_t n = 0;
    for (const char *p = path; out && *p;) {
        size_t k = strcspn(p, "/");
        if (k == 2 && p[0] == '.' && p[1] == '.') {
            while (n && out[n - 1] != '/')
                n--;
            n -= n > 0;
        } else if (k && !(k == 1 && *p == '.')) {
            if (n)
                out[n++] = '/';
            memcpy(out + n, p, k);
            n += k;
        }
        p += k;
        p += *p == '/';
    }
    if (out)
        out[n] = 0;
    return out;
}

static char *joined_path(const char *folder, const char *name)
{
    char *out;
    size_t n = strlen(folder);
    return asprintf(&out, "%s%s%s", folder, n == 0 || folder[n - 1] == '/' ? "" : "/", name) < 0 ? NULL : out;
}

/* Why name cannot be written below the output folder */
static const char *name_problem(const char *name)
{
    if (!*name)
        return "no name for its output";
    if (strncmp(name, OWN_FOLDER, strlen(OWN_FOLDER)) == 0 && (!name[strlen(OWN_FOLDER)] || name[strlen(OWN_FOLDER)] == '/'))
        return "its output would lie in the batch's own folder " OWN_FOLDER;
    return strlen(name) - (size_t)(strrchr(name, '/') ? strrchr(name, '/') + 1 - name : 0) > 255 - strlen(".txt")
               ? "the name of its output would be longer than 255 bytes" : NULL;
}

/* Takes path and name. st = NULL: it could not be looked at, because of problem. */
static status add(struct gather *g, char *path, char *name, const struct stat *st, const char *problem, struct err *e)
{
    struct pile *p = g->pile;
    struct item it = { .path = path, .name = name };
    if (st) {
        it.dev = st->st_dev;
        it.ino = st->st_ino;
    }
    if (!problem && g->o->out_dir && name)
        problem = name_problem(name);
    it.shown = path ? escaped(path) : NULL;
    it.problem = problem ? strdup(problem) : NULL;
    bool whole = it.path && it.name && it.shown && (it.problem || !problem);
    if (whole && p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        struct item *v = realloc(p->v, cap * sizeof *v);
        whole = v != NULL;
        if (v) {
            p->v = v;
            p->cap = cap;
        }
    }
    if (!whole) {
        free(it.path);
        free(it.name);
        free(it.shown);
        free(it.problem);
        return fail(e, ERR_NOMEM, "list of inputs");
    }
    p->v[p->n++] = it;
    return OK;
}

/* ---- folders ---- */

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* False when it was walked before. */
static bool mark_walked(struct gather *g, struct file_id id, bool *again)
{
    *again = false;
    for (size_t i = 0; i < g->n_walked && !*again; i++)
        *again = same_file(g->walked[i], id);
    if (*again)
        return true;
    if (g->n_walked == g->cap_walked) {
        size_t cap = g->cap_walked ? 2 * g->cap_walked : 64;
        struct file_id *v = realloc(g->walked, cap * sizeof *v);
        if (!v)
            return false;
        g->walked = v;
        g->cap_walked = cap;
    }
    g->walked[g->n_walked++] = id;
    return true;
}

/* Whether another shard of this batch writes path, which need not have been there when this one began. */
static bool is_of_sibling(const struct gather *g, const char *path)
{
    for (size_t i = 0; i < COUNT_OF(g->o->shard_file); i++)
        if (g->o->shard_file[i] && shard_is_sibling(g->o->shard_file[i], g->o->shard, path))
            return true;
    return false;
}

static void left_out(struct gather *g, const char *path, const char *why)
{
    char *shown = escaped(path);
    console_note(g->o->con, "hayate: %s: left out: %s", shown ? shown : "?", why);
    free(shown);
}

static status walk(struct gather *g, const char *path, const char *name, struct err *e);

/* Takes path and name, of something in a folder. */
static status visit(struct gather *g, char *path, char *name, struct err *e)
{
    struct stat st;
    status s = OK;
    bool again = false;
    if (!path || !name)
        s = fail(e, ERR_NOMEM, "list of inputs");
    else if (stat(path, &st) != 0)
        return add(g, path, name, NULL, strerror(errno), e);
    else if (S_ISREG(st.st_mode) && !is_own(g, &st) && !is_of_sibling(g, path))
        return add(g, path, name, &st, NULL, e);
    else if (S_ISREG(st.st_mode))
        left_out(g, path, "written by this batch");
    else if (!S_ISDIR(st.st_mode))
        left_out(g, path, "not a regular file");
    else if (g->have_out && same_file(g->out, id_of(&st)))
        left_out(g, path, "the output folder");
    else if (g->have_cache && same_file(g->cache, id_of(&st)))
        left_out(g, path, "the folder of --prefix-cache");
    else if (!mark_walked(g, id_of(&st), &again))
        s = fail(e, ERR_NOMEM, "list of folders");
    else if (again)
        left_out(g, path, "a link to a folder that is in the batch already");
    else
        s = walk(g, path, name, e);
    free(path);
    free(name);
    return s;
}

static status walk(struct gather *g, const char *path, const char *name, struct err *e)
{
    struct dirent **list = NULL;
    status s = OK;
    int n = scandir(path, &list, NULL, by_bytes);
    if (n < 0)
        return add(g, strdup(path), *name ? strdup(name) : plain_name(path), NULL, strerror(errno), e);
    for (int i = 0; i < n; i++) {
        const char *entry = list[i]->d_name;
        bool dots = strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0;
        if (s == OK && *g->o->stop)
            s = fail(e, ERR_INPUT, "interrupted");
        if (s == OK && *entry == '.')
            g->n_hidden += !dots;
        else if (s == OK)
            s = visit(g, joined_path(path, entry), joined_path(name, entry), e);
        free(list[i]);
    }
    free(list);
    return s;
}

/* ---- arguments ---- */

static status take_folder(struct gather *g, const char *path, const char *name, const struct stat *st, struct err *e)
{
    bool again;
    if (g->have_out && same_file(g->out, id_of(st)))
        return fail(e, ERR_USAGE, "-o %s: is itself an input, expected another folder", g->o->out_dir);
    if (g->have_cache && same_file(g->cache, id_of(st)))
        return fail(e, ERR_USAGE, "--prefix-cache %s: is itself an input, expected another folder", g->o->prefix_dir);
    g->n_walked = g->n_hidden = 0;
    if (!mark_walked(g, id_of(st), &again))
        return fail(e, ERR_NOMEM, "list of folders");
    TRY(walk(g, path, name, e));
    if (g->n_hidden)
        console_note(g->o->con, "hayate: %s: %zu name%s that begin%s with a dot left out", path, g->n_hidden, g->n_hidden > 1 ? "s" : "",
                     g->n_hidden > 1 ? "" : "s");
    return OK;
}

/* Takes name. */
static status take_path(struct gather *g, const char *path, char *name, struct err *e)
{
    struct stat st;
    if (!name)
        return fail(e, ERR_NOMEM, "list of inputs");
    if (stat(path, &st) != 0)
        return add(g, strdup(path), name, NULL, strerror(errno), e);
    if (S_ISDIR(st.st_mode)) {
        status s = take_folder(g, path, name, &st, e);
        free(name);
        return s;
    }
    if (is_own(g, &st)) {
        free(name);
        return fail(e, ERR_USAGE, "%s: is an input, and this batch would write it", path);
    }
    return add(g, strdup(path), name, &st, S_ISREG(st.st_mode) ? NULL : "not a regular file", e);
}

static status take_list(struct gather *g, const char *path, struct err *e)
{
    struct text t = { 0 };
    status s = document_read(path, g->o->stop, &t, e);
    char mark = s == OK && memchr(t.p, 0, t.n) ? 0 : '\n';
    for (size_t at = 0; s == OK && at < t.n;) {
        char *line = t.p + at, *end = memchr(line, mark, t.n - at);
        size_t n = end ? (size_t)(end - line) : t.n - at;
        at += n + 1;
        if (mark && n && line[n - 1] == '\r')
            n--;
        line[n] = 0; /* a text is terminated, so the last line has room */
        if (n)
            s = take_path(g, line, plain_name(line), e);
    }
    text_free(&t);
    return s;
}

/* FILE by its last component, what is in a folder from there. */
static status take_argument(struct gather *g, const char *path, struct err *e)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return fail(e, ERR_USAGE, "-: a batch reads files; standard input goes to `hayate run`, or holds a list for @-");
    if (path[0] == '@' && path[1])
        return take_list(g, path + 1, e);
    char *name = plain_name(path);
    if (name && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        *name = 0;
    } else if (name && strrchr(name, '/')) {
        const char *last = strrchr(name, '/') + 1;
        memmove(name, last, strlen(last) + 1);
    }
    return take_path(g, path, name, e);
}

static void note_own(struct gather *g, const char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        g->own[g->n_own++] = id_of(&st);
}

status pile_gather(struct pile *p, const struct options *o, struct err *e)
{
    struct gather g = { .pile = p, .o = o };
    struct stat st;
    char *part = NULL;
    status s = OK;
    if (o->out_dir && stat(o->out_dir, &st) == 0) {
        g.out = id_of(&st);
        g.have_out = true;
    }
    if (o->prefix_dir && stat(o->prefix_dir, &st) == 0) {
        g.cache = id_of(&st);
        g.have_cache = true;
    }
    if (o->jsonl_path && asprintf(&part, "%s.part", o->jsonl_path) < 0)
        return fail(e, ERR_NOMEM, "list of inputs");
    note_own(&g, o->jsonl_path);
    note_own(&g, part);
    note_own(&g, o->report_path);
    note_own(&g, o->log_path);
    free(part);
    for (size_t i = 0; i < o->n_files && s == OK; i++)
        s = take_argument(&g, o->files[i], e);
    free(g.walked);
    return s == OK && !p->n ? fail(e, ERR_USAGE, "no inputs in what was given") : s;
}

static void item_free(struct item *it)
{
    free(it->path);
    free(it->name);
    free(it->shown);
    free(it->problem);
}

void pile_take_shard(struct pile *p, const struct options *o)
{
    size_t all = p->n;
    if (o->shard.n <= 1)
        return;
    p->n = 0;
    for (size_t i = 0; i < all; i++)
        if (shard_of_name(p->v[i].name, o->shard.n) == o->shard.k)
            p->v[p->n++] = p->v[i];
        else
            item_free(&p->v[i]);
    console_note(o->con, "hayate: shard %u/%u%s%s: %zu of %zu inputs", o->shard.k, o->shard.n, o->task_used ? ", Slurm array task " : "",
                 o->task_used ? o->task.id : "", p->n, all);
}

void pile_free(struct pile *p)
{
    for (size_t i = 0; i < p->n; i++)
        item_free(&p->v[i]);
    free(p->v);
    *p = (struct pile){ 0 };
}

/* ---- what may not be ---- */

static int by_name(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    int c = strcmp(x->name, y->name);
    return c ? c : x < y ? -1 : x > y;
}

static int by_path(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    int c = strcmp(x->path, y->path);
    return c ? c : x < y ? -1 : x > y;
}

static int by_id(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    return x->dev != y->dev ? (x->dev < y->dev ? -1 : 1) : x->ino != y->ino ? (x->ino < y->ino ? -1 : 1) : 0;
}

static int name_against(const void *key, const void *b) { return strcmp(key, (*(const struct item *const *)b)->name); }

/* An output X.txt where another one needs a folder X.txt; v is sorted by name. */
static status check_folders(const struct item *const *v, size_t n, const char *out_dir, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        char *folder = strdup(v[i]->name);
        status s = folder ? OK : fail(e, ERR_NOMEM, "list of inputs");
        for (char *slash = s == OK ? strrchr(folder, '/') : NULL; slash && s == OK; slash = strrchr(folder, '/')) {
            *slash = 0;
            size_t len = strlen(folder);
            if (len < 4 || strcmp(folder + len - 4, ".txt") != 0)
                continue;
            folder[len - 4] = 0;
            const struct item *const *other = bsearch(folder, v, n, sizeof *v, name_against);
            if (other)
                s = fail(e, ERR_USAGE, "%s and %s: %s/%s.txt would be a file for one and a folder for the other", (*other)->shown, v[i]->shown,
                         out_dir, folder);
            folder[len - 4] = '.';
        }
        free(folder);
        TRY(s);
    }
    return OK;
}

/* An output that would replace an input; v is sorted by file. */
static status check_inputs(const struct item *const *v, size_t n, const char *out_dir, struct err *e)
{
    int fd = open(out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    status s = OK;
    for (size_t i = 0; i < n && fd >= 0 && s == OK; i++) {
        char *file;
        struct stat st;
        if (asprintf(&file, "%s.txt", v[i]->name) < 0) {
            s = fail(e, ERR_NOMEM, "list of inputs");
            break;
        }
        if (fstatat(fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            const struct item key = { .dev = st.st_dev, .ino = st.st_ino }, *at = &key;
            const struct item *const *other = bsearch(&at, v, n, sizeof *v, by_id);
            if (other)
                s = fail(e, ERR_USAGE, "%s: its output %s/%s would replace the input %s", v[i]->shown, out_dir, file, (*other)->shown);
        }
        free(file);
    }
    if (fd >= 0)
        close(fd);
    return s;
}

status pile_check_outputs(const struct pile *p, const struct options *o, struct err *e)
{
    const struct item **v = malloc(p->n * sizeof *v);
    size_t n = 0;
    status s = v ? OK : fail(e, ERR_NOMEM, "list of inputs");
    for (size_t i = 0; v && i < p->n; i++)
        if (!p->v[i].problem)
            v[n++] = &p->v[i];
    if (s == OK && o->jsonl_path) {
        qsort(v, n, sizeof *v, by_path);
        for (size_t i = 1; i < n && s == OK; i++)
            if (strcmp(v[i - 1]->path, v[i]->path) == 0)
                s = fail(e, ERR_USAGE, "%s: given twice", v[i]->shown);
    }
    if (s == OK && o->out_dir) {
        qsort(v, n, sizeof *v, by_name);
        for (size_t i = 1; i < n && s == OK; i++)
            if (strcmp(v[i - 1]->name, v[i]->name) == 0)
                s = fail(e, ERR_USAGE, "%s and %s: the output of both would be %s/%s.txt", v[i - 1]->shown, v[i]->shown, o->out_dir, v[i]->name);
        if (s == OK)
            s = check_folders(v, n, o->out_dir, e);
        qsort(v, n, sizeof *v, by_id);
        if (s == OK)
            s = check_inputs(v, n, o->out_dir, e);
    }
    free(v);
    return s;
}
