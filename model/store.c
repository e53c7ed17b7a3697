/* store.c - atomic outputs and their records. */
#define _GNU_SOURCE /* asprintf */
#include "model/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define OWN_FOLDER ".hayate"
#define TEMPORARY  "answer.tmp"
#define RECORDS    "records"

struct record {
    char *name; /* escaped */
    struct origin from;
    uint64_t output;
    enum ending ending;
    size_t order; /* of its line */
};

struct store {
    char *dir;
    int root, own, records; /* descriptors: DIR, DIR/.hayate, and the records, which hold the lock */
    struct record *v;       /* sorted by name, one each */
    size_t n, cap;
};

int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno != EINTR)
            return errno;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return 0;
}

void hex64(uint64_t x, char out[17]) { snprintf(out, 17, "%016" PRIx64, x); }

bool parse_hex64(const char *p, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        const char *digits = "0123456789abcdef", *at = p[i] ? strchr(digits, p[i]) : NULL;
        if (!at)
            return false;
        *out = *out << 4 | (uint64_t)(at - digits);
    }
    return n == 16;
}

/* ---- records ---- */

static const char ending_letter[] = { [STOP_END] = 'e', [STOP_LENGTH] = 'l', [STOP_CONTEXT] = 'c' };
enum { N_HASH = 5, HEAD_BYTES = N_HASH * 17 + 2 }; /* hashes and the ending, each with its tab */

static bool parse_record(const char *line, size_t n, struct record *r)
{
    uint64_t h[N_HASH];
    if (n <= HEAD_BYTES || line[HEAD_BYTES - 1] != '\t')
        return false;
    for (size_t i = 0; i < N_HASH; i++)
        if (!parse_hex64(line + 17 * i, 16, &h[i]) || line[17 * i + 16] != '\t')
            return false;
    const char *letter = memchr(ending_letter, line[HEAD_BYTES - 2], sizeof ending_letter);
    if (!letter || XXH3_64bits(line + 17, n - 17) != h[0])
        return false;
    *r = (struct record){ .from = { h[1], h[2], h[3] }, .output = h[4], .ending = (enum ending)(letter - ending_letter) };
    r->name = strndup(line + HEAD_BYTES, n - HEAD_BYTES);
    return r->name != NULL;
}

static int by_name_and_order(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : x->order < y->order ? -1 : 1;
}

static int name_against(const void *key, const void *b) { return strcmp(key, ((const struct record *)b)->name); }

/* Sorts by name and keeps the last record of each. */
static void settle(store *s)
{
    size_t kept = 0;
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_name_and_order);
    for (size_t i = 0; i < s->n; i++) {
        if (i + 1 < s->n && strcmp(s->v[i].name, s->v[i + 1].name) == 0)
            free(s->v[i].name);
        else
            s->v[kept++] = s->v[i];
    }
    s->n = kept;
}

static status read_descriptor(int fd, const char *name, struct text *out, struct err *e)
{
    char buf[1 << 16];
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(e, ERR_IO, "%s: %s", name, strerror(errno));
        if (n == 0)
            return text_add(out, "", 0, e);
        TRY(text_add(out, buf, (size_t)n, e));
    }
}

/* Reads the records; what follows the last line end was torn by a crash and is cut off. */
static status load(store *s, struct err *e)
{
    struct text t = { 0 };
    size_t whole = 0;
    status st = read_descriptor(s->records, s->dir, &t, e);
    for (const char *end; st == OK && (end = memchr(t.p + whole, '\n', t.n - whole)); whole = (size_t)(end - t.p) + 1) {
        struct record r;
        if (!parse_record(t.p + whole, (size_t)(end - t.p) - whole, &r))
            continue;
        if (s->n == s->cap) {
            size_t cap = s->cap ? 2 * s->cap : 64;
            struct record *v = realloc(s->v, cap * sizeof *v);
            if (!v) {
                free(r.name);
                st = fail(e, ERR_NOMEM, "%s: records", s->dir);
                break;
            }
            s->v = v;
            s->cap = cap;
        }
        r.order = s->n;
        s->v[s->n++] = r;
    }
    if (st == OK && whole < t.n && ftruncate(s->records, (off_t)whole) != 0)
        st = fail(e, ERR_IO, "%s/" OWN_FOLDER "/" RECORDS ": %s", s->dir, strerror(errno));
    text_free(&t);
    settle(s);
    return st;
}

static status append(store *s, const char *name, const struct record *r, struct err *e)
{
    struct text t = { 0 };
    char line[HEAD_BYTES + 1], check[17];
    snprintf(line, sizeof line, "%016d\t%016" PRIx64 "\t%016" PRIx64 "\t%016" PRIx64 "\t%016" PRIx64 "\t%c\t", 0, r->from.model, r->from.options,
             r->from.input, r->output, ending_letter[r->ending]);
    status st = text_add(&t, line, HEAD_BYTES, e);
    if (st == OK)
        st = utf8_escape(name, strlen(name), &t, e);
    if (st == OK) {
        hex64(XXH3_64bits(t.p + 17, t.n - 17), check);
        memcpy(t.p, check, 16);
        st = text_add(&t, "\n", 1, e);
    }
    if (st == OK) {
        int failed = write_all(s->records, t.p, t.n);
        if (!failed && fdatasync(s->records) != 0)
            failed = errno;
        if (failed)
            st = fail(e, ERR_IO, "%s/" OWN_FOLDER "/" RECORDS ": %s", s->dir, strerror(failed));
    }
    text_free(&t);
    return st;
}

/* ---- the folder ---- */

/* mkdir -p */
static status make_folders(const char *dir, struct err *e)
{
    char *path = strdup(dir);
    status s = path ? OK : fail(e, ERR_NOMEM, "%s", dir);
    for (char *p = path; s == OK && *p;) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char c = *p;
        *p = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST && errno != EISDIR)
            s = fail(e, ERR_IO, "%s: cannot make the folder: %s", path, strerror(errno));
        *p = c;
    }
    free(path);
    return s;
}

status store_open(store **out, const char *dir, struct err *e)
{
    status st = OK;
    store *s = calloc(1, sizeof *s);
    if (!s)
        return fail(e, ERR_NOMEM, "%s", dir);
    s->root = s->own = s->records = -1;
    if (!(s->dir = strdup(dir))) {
        st = fail(e, ERR_NOMEM, "%s", dir);
        goto out;
    }
    TRY_OR(out, st, make_folders(dir, e));
    s->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0 || (mkdirat(s->root, OWN_FOLDER, 0777) != 0 && errno != EEXIST)) {
        st = fail(e, ERR_IO, "%s: %s", dir, strerror(errno));
        goto out;
    }
    s->own = openat(s->root, OWN_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->records = s->own < 0 ? -1 : openat(s->own, RECORDS, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->records < 0) {
        st = fail(e, ERR_IO, "%s/" OWN_FOLDER ": %s", dir, strerror(errno));
        goto out;
    }
    if (flock(s->records, LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK ? fail(e, ERR_IO, "%s: another batch is writing here", dir)
                                  : fail(e, ERR_IO, "%s/" OWN_FOLDER "/" RECORDS ": cannot lock: %s", dir, strerror(errno));
        goto out;
    }
    if (unlinkat(s->own, TEMPORARY, 0) != 0 && errno != ENOENT) { /* of a batch that was killed: the lock is ours */
        st = fail(e, ERR_IO, "%s/" OWN_FOLDER "/" TEMPORARY ": %s", dir, strerror(errno));
        goto out;
    }
    TRY_OR(out, st, load(s, e));
    *out = s;
    return OK;
out:
    store_close(s);
    return st;
}

void store_close(store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i].name);
    if (s->records >= 0)
        close(s->records);
    if (s->own >= 0)
        close(s->own);
    if (s->root >= 0)
        close(s->root);
    free(s->v);
    free(s->dir);
    free(s);
}

/* The folder of name below DIR, links not followed; makes what is missing when asked to. *last: the part of name after it. -1: errno. */
static int open_parent(const store *s, const char *name, bool make, const char **last)
{
    int fd = dup(s->root);
    for (const char *slash; fd >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char part[256];
        size_t n = (size_t)(slash - name);
        int next = -1;
        if (n < sizeof part) {
            memcpy(part, name, n);
            part[n] = 0;
            if (make && mkdirat(fd, part, 0777) == 0)
                fsync(fd);
            next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        } else {
            errno = ENAMETOOLONG;
        }
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    *last = name;
    return fd;
}

bool store_has(const store *s, const char *name, const struct origin *from, enum ending *ending)
{
    struct text key = { 0 }, bytes = { 0 };
    const struct record *r = NULL;
    char *file = NULL;
    const char *last;
    bool has = false;
    if (s->n && utf8_escape(name, strlen(name), &key, NULL) == OK)
        r = bsearch(key.p, s->v, s->n, sizeof *s->v, name_against);
    if (r && r->from.model == from->model && r->from.options == from->options && r->from.input == from->input &&
        asprintf(&file, "%s.txt", name) > 0) {
        int parent = open_parent(s, file, false, &last);
        int fd = parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        has = fd >= 0 && read_descriptor(fd, file, &bytes, NULL) == OK && XXH3_64bits(bytes.p, bytes.n) == r->output;
        *ending = r->ending;
        if (fd >= 0)
            close(fd);
        if (parent >= 0)
            close(parent);
        free(file);
    }
    text_free(&key);
    text_free(&bytes);
    return has;
}

/* Whether an errno is about one name, not about the folder as a whole. */
static bool about_name(int x)
{
    return x == EISDIR || x == ENOTDIR || x == ENAMETOOLONG || x == ELOOP || x == EEXIST || x == ENOTEMPTY || x == EACCES || x == EPERM ||
           x == EXDEV || x == EILSEQ || x == EINVAL;
}

static int write_temporary(store *s, const char *p, size_t n)
{
    int fd = openat(s->own, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int failed = write_all(fd, p, n);
    if (!failed && fsync(fd) != 0)
        failed = errno;
    if (close(fd) != 0 && !failed)
        failed = errno;
    return failed;
}

static status place(store *s, const char *file, const struct text *t, struct err *e)
{
    const char *last;
    int failed = write_temporary(s, t->p, t->n);
    if (failed) {
        unlinkat(s->own, TEMPORARY, 0);
        return fail(e, ERR_IO, "%s/%s: %s", s->dir, file, strerror(failed));
    }
    int parent = open_parent(s, file, true, &last);
    if (parent < 0 || renameat(s->own, TEMPORARY, parent, last) != 0)
        failed = errno;
    else if (fsync(parent) != 0 && errno != EINVAL && errno != ENOTSUP) /* a file system may not know how to sync a folder */
        failed = errno;
    if (parent >= 0)
        close(parent);
    if (!failed)
        return OK;
    unlinkat(s->own, TEMPORARY, 0);
    return fail(e, about_name(failed) ? ERR_INPUT : ERR_IO, "%s/%s: %s", s->dir, file, strerror(failed));
}

status store_put(store *s, const char *name, struct str text, const struct origin *from, enum ending ending, struct err *e)
{
    struct text t = { 0 };
    char *file = NULL;
    status st = text_add(&t, text.p, text.n, e);
    if (st == OK)
        st = text_add(&t, "\n", 1, e);
    if (st == OK && asprintf(&file, "%s.txt", name) < 0)
        st = fail(e, ERR_NOMEM, "%s", name);
    if (st == OK)
        st = place(s, file, &t, e);
    if (st == OK)
        st = append(s, name, &(struct record){ .from = *from, .output = XXH3_64bits(t.p, t.n), .ending = ending }, e);
    free(file);
    text_free(&t);
    return st;
}
