/* jsonl.c - lines that stay where they are; in memory only where each stands. */
#define _GNU_SOURCE /* asprintf, getline */
#include "model/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum source { NOWHERE, IN_FILE, IN_PART };

struct line {
    enum source in;
    off_t at;
    size_t n; /* bytes, line end included */
    struct origin from;
    enum ending ending;
};

struct jsonl {
    char *path, *part_path, *new_path;
    const struct pile *pile;
    const struct item **by_path; /* [pile->n] sorted */
    struct line *line;           /* [pile->n] */
    int file, part;              /* descriptors; file may be -1; part holds the lock */
    off_t file_bytes, part_bytes;
};

static int compare_paths(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    return strcmp(x->path, y->path);
}
static int path_against(const void *key, const void *b) { return strcmp(key, (*(const struct item *const *)b)->path); }

/* ---- one line ---- */

/* The bytes of a path are in "path", or in hex in "path_hex" where they are not UTF-8. */
static status add_path(json_t *line, const char *path, struct err *e)
{
    size_t n = strlen(path);
    if (utf8_invalid_at(path, n) == n)
        return json_object_set_new(line, "path", json_stringn(path, n)) == 0 ? OK : fail(e, ERR_NOMEM, "JSON");
    struct text t = { 0 }, hex = { 0 };
    status s = utf8_repair(path, n, &t, e);
    for (size_t i = 0; i < n && s == OK; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", (unsigned)(unsigned char)path[i]);
        s = text_add(&hex, two, 2, e);
    }
    if (s == OK && (json_object_set_new(line, "path", json_stringn(t.p, t.n)) != 0 || json_object_set_new(line, "path_hex", json_string(hex.p)) != 0))
        s = fail(e, ERR_NOMEM, "JSON");
    text_free(&t);
    text_free(&hex);
    return s;
}

static status path_of(const json_t *line, struct text *out, struct err *e)
{
    const char *hex = json_string_value(json_object_get(line, "path_hex")), *path = json_string_value(json_object_get(line, "path"));
    if (!hex)
        return path ? text_add(out, path, strlen(path), e) : ERR_FORMAT;
    for (; hex[0] && hex[1]; hex += 2) {
        char two[3] = { hex[0], hex[1], 0 }, *end, byte;
        byte = (char)strtoul(two, &end, 16);
        if (*end || !byte)
            return ERR_FORMAT;
        TRY(text_add(out, &byte, 1, e));
    }
    return out->n && !*hex ? OK : ERR_FORMAT;
}

static bool hash_of(const json_t *line, const char *key, uint64_t *out)
{
    const char *z = json_string_value(json_object_get(line, key));
    return z && parse_hex64(z, strlen(z), out);
}

/* Notes where the answer of an input stands. ERR_FORMAT: not a line of ours. *foreign: of an input that is not in the pile. */
static status note_line(jsonl *j, const char *p, size_t n, enum source in, off_t at, bool *foreign, struct err *e)
{
    json_error_t bad;
    json_t *o = json_loadb(p, n, JSON_ALLOW_NUL, &bad);
    struct text path = { 0 };
    struct line l = { .in = in, .at = at, .n = n };
    const char *stop = json_string_value(json_object_get(o, "stop"));
    status s = json_is_object(o) && stop && hash_of(o, "xxh3", &l.from.input) && hash_of(o, "model_xxh3", &l.from.model) &&
               hash_of(o, "options_xxh3", &l.from.options) ? path_of(o, &path, e) : ERR_FORMAT;
    if (s == OK) {
        while (l.ending < STOP_INTERRUPTED && strcmp(stop, ending_name(l.ending)) != 0)
            l.ending++;
        const struct item *const *it = bsearch(path.p, j->by_path, j->pile->n, sizeof *j->by_path, path_against);
        *foreign = !it;
        if (it && l.ending != STOP_INTERRUPTED)
            j->line[*it - j->pile->v] = l;
    }
    text_free(&path);
    json_decref(o);
    return s;
}

/* ---- the two files ---- */

/* All whole lines of a file; what follows the last line end of the part was torn by a crash and is cut off. */
static status load(jsonl *j, int fd, enum source in, off_t *bytes, struct err *e)
{
    const char *path = in == IN_FILE ? j->path : j->part_path;
    FILE *f = fdopen(dup(fd), "r");
    char *buf = NULL;
    size_t cap = 0, n_line = 0, n_foreign = 0;
    ssize_t n;
    status s = f ? OK : fail(e, ERR_IO, "%s: %s", path, strerror(errno));
    *bytes = 0;
    while (s == OK && (n = getline(&buf, &cap, f)) > 0 && (buf[n - 1] == '\n' || in == IN_FILE)) {
        bool foreign = false;
        n_line++;
        s = note_line(j, buf, (size_t)n, in, *bytes, &foreign, e);
        if (s == ERR_FORMAT || (s == OK && buf[n - 1] != '\n'))
            s = fail(e, ERR_USAGE, "%s: line %zu is not an answer of a batch; expected another file, or --force to replace it", path, n_line);
        n_foreign += foreign;
        *bytes += n;
    }
    if (s == OK && ferror(f))
        s = fail(e, ERR_IO, "%s: cannot read", path);
    if (s == OK && n_foreign)
        s = fail(e, ERR_USAGE, "%s: holds %zu answer%s to inputs that are not in this batch; expected another file, or --force to drop them", path,
                 n_foreign, n_foreign > 1 ? "s" : "");
    free(buf);
    if (f)
        fclose(f);
    return s;
}

static status open_part(jsonl *j, bool force, struct err *e)
{
    j->part = open(j->part_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (j->part < 0)
        return fail(e, ERR_IO, "%s: %s", j->part_path, strerror(errno));
    if (flock(j->part, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? fail(e, ERR_IO, "%s: another batch is writing it", j->part_path)
                                    : fail(e, ERR_IO, "%s: cannot lock: %s", j->part_path, strerror(errno));
    if (!force)
        TRY(load(j, j->part, IN_PART, &j->part_bytes, e));
    if (ftruncate(j->part, j->part_bytes) != 0)
        return fail(e, ERR_IO, "%s: %s", j->part_path, strerror(errno));
    return OK;
}

static status open_all(jsonl *j, const char *path, bool force, struct err *e)
{
    size_t n = j->pile->n;
    j->line = calloc(n, sizeof *j->line);
    j->by_path = malloc(n * sizeof *j->by_path);
    j->path = strdup(path);
    if (asprintf(&j->part_path, "%s.part", path) < 0)
        j->part_path = NULL;
    if (asprintf(&j->new_path, "%s.new", path) < 0)
        j->new_path = NULL;
    if (!j->line || !j->by_path || !j->path || !j->part_path || !j->new_path)
        return fail(e, ERR_NOMEM, "%s", path);
    for (size_t i = 0; i < n; i++)
        j->by_path[i] = &j->pile->v[i];
    qsort(j->by_path, n, sizeof *j->by_path, compare_paths);
    j->file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (j->file < 0 ? errno != ENOENT : fstat(j->file, &st) != 0)
        return fail(e, ERR_IO, "%s: %s", path, strerror(errno));
    if (j->file >= 0 && !S_ISREG(st.st_mode))
        return fail(e, ERR_USAGE, "%s: not a regular file", path);
    if (j->file >= 0 && !force)
        TRY(load(j, j->file, IN_FILE, &j->file_bytes, e));
    return open_part(j, force, e);
}

status jsonl_open(jsonl **out, const char *path, const struct pile *pile, bool force, struct err *e)
{
    jsonl *j = calloc(1, sizeof *j);
    if (!j)
        return fail(e, ERR_NOMEM, "%s", path);
    j->pile = pile;
    j->file = j->part = -1;
    status s = open_all(j, path, force, e);
    if (s == OK)
        *out = j;
    else
        jsonl_close(j);
    return s;
}

void jsonl_close(jsonl *j)
{
    if (!j)
        return;
    if (j->part >= 0 && j->part_bytes == 0) /* nothing was kept in it */
        unlink(j->part_path);
    if (j->part >= 0)
        close(j->part);
    if (j->file >= 0)
        close(j->file);
    free(j->line);
    free(j->by_path);
    free(j->path);
    free(j->part_path);
    free(j->new_path);
    free(j);
}

bool jsonl_has(const jsonl *j, size_t i, const struct origin *from, enum ending *ending)
{
    const struct line *l = &j->line[i];
    *ending = l->ending;
    return l->in != NOWHERE && l->from.model == from->model && l->from.options == from->options && l->from.input == from->input;
}

void jsonl_forget(jsonl *j, size_t i) { j->line[i].in = NOWHERE; }

status jsonl_put(jsonl *j, size_t i, json_t *line, const struct origin *from, enum ending ending, struct err *e)
{
    char hex[17];
    TRY(add_path(line, j->pile->v[i].path, e));
    hex64(from->input, hex);
    int bad = json_object_set_new(line, "xxh3", json_string(hex));
    hex64(from->model, hex);
    bad |= json_object_set_new(line, "model_xxh3", json_string(hex));
    hex64(from->options, hex);
    bad |= json_object_set_new(line, "options_xxh3", json_string(hex));
    char *z = bad ? NULL : json_dumps(line, JSON_COMPACT);
    struct text t = { 0 };
    status s = z ? text_add(&t, z, strlen(z), e) : fail(e, ERR_NOMEM, "JSON");
    if (s == OK)
        s = text_add(&t, "\n", 1, e);
    if (s == OK) {
        int failed = write_all(j->part, t.p, t.n);
        if (!failed && fdatasync(j->part) != 0)
            failed = errno;
        if (failed)
            s = fail(e, ERR_IO, "%s: %s", j->part_path, strerror(failed));
    }
    if (s == OK) {
        j->line[i] = (struct line){ IN_PART, j->part_bytes, t.n, *from, ending };
        j->part_bytes += (off_t)t.n;
    }
    text_free(&t);
    free(z);
    return s;
}

/* ---- the end ---- */

/* Whether one of the two files is already what the result should be. */
static bool is_result(const jsonl *j, enum source in, off_t bytes)
{
    off_t at = 0;
    for (size_t i = 0; i < j->pile->n; i++) {
        const struct line *l = &j->line[i];
        if (l->in == NOWHERE)
            continue;
        if (l->in != in || l->at != at)
            return false;
        at += (off_t)l->n;
    }
    return at == bytes;
}

static int copy_line(const jsonl *j, const struct line *l, int out)
{
    char *buf = malloc(l->n);
    size_t got = 0;
    int failed = buf ? 0 : ENOMEM;
    while (!failed && got < l->n) {
        ssize_t k = pread(l->in == IN_FILE ? j->file : j->part, buf + got, l->n - got, l->at + (off_t)got);
        if (k <= 0 && errno != EINTR)
            failed = k ? errno : EIO;
        got += k > 0 ? (size_t)k : 0;
    }
    if (!failed)
        failed = write_all(out, buf, l->n);
    free(buf);
    return failed;
}

/* Makes a rename in this folder last. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = !slash ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

static status rename_to_result(jsonl *j, const char *from, struct err *e)
{
    if (rename(from, j->path) != 0)
        return fail(e, ERR_IO, "%s: %s", j->path, strerror(errno));
    sync_folder(j->path);
    return OK;
}

status jsonl_finish(jsonl *j, struct err *e)
{
    bool any = false;
    for (size_t i = 0; i < j->pile->n; i++)
        any |= j->line[i].in != NOWHERE;
    if (j->file >= 0 && j->part_bytes == 0 && is_result(j, IN_FILE, j->file_bytes))
        return OK;
    if (any && is_result(j, IN_PART, j->part_bytes)) {
        TRY(rename_to_result(j, j->part_path, e));
        close(j->part); /* its name now belongs to the result */
        j->part = -1;
        return OK;
    }
    int out = open(j->new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666), failed = out < 0 ? errno : 0;
    for (size_t i = 0; i < j->pile->n && !failed; i++)
        if (j->line[i].in != NOWHERE)
            failed = copy_line(j, &j->line[i], out);
    if (!failed && fsync(out) != 0)
        failed = errno;
    if (out >= 0 && close(out) != 0 && !failed)
        failed = errno;
    if (failed) {
        unlink(j->new_path);
        return fail(e, ERR_IO, "%s: %s", j->new_path, strerror(failed));
    }
    TRY(rename_to_result(j, j->new_path, e));
    j->part_bytes = 0; /* all of it is in the result: the part goes at close */
    return OK;
}
