/* store.c - atomic outputs and their records. */
#define _GNU_SOURCE /* asprintf */
#include "model/store.h"

#include <dirent.h>
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
#define RECORDS    "records"

struct record {
    char *name; /* escaped */
    struct origin from;
    uint64_t output;
    enum ending ending;
    size_t file, order; /* which records, and of its line there */
};

struct store {
    char *dir;
    char name[40], temporary[48]; /* of the records and of the answer in work, in DIR/.hayate */
    int root, own, records; /* descriptors: DIR, DIR/.hayate, and the records, which hold the lock of this process */
    int shared;             /* of a shard: the records of whole batches, whose lock all shards share; else -1 */
    struct record *v;       /* sorted by name, one of each file */
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
    if (!c)
        c = x->file < y->file ? -1 : x->file > y->file;
    return c ? c : x->order < y->order ? -1 : 1;
}

static int name_against(const void *key, const void *b) { return strcmp(key, ((const struct record *)b)->name); }

/* Sorts by name and keeps the last record of each in every file. Between files no order is known, and none is needed: a record counts only
 * where the answer has its hash. */
static void settle(store *s)
{
    size_t kept = 0;
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_name_and_order);
    for (size_t i = 0; i < s->n; i++) {
        if (i + 1 < s->n && s->v[i].file == s->v[i + 1].file && strcmp(s->v[i].name, s->v[i + 1].name) == 0)
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

/* Takes the lines of one file of records. *whole: the bytes up to its last line end. */
static status load(store *s, int fd, size_t file, size_t *whole, size_t *total, struct err *e)
{
    struct text t = { 0 };
    status st = read_descriptor(fd, s->dir, &t, e);
    *whole = 0;
    for (const char *end; st == OK && (end = memchr(t.p + *whole, '\n', t.n - *whole)); *whole = (size_t)(end - t.p) + 1) {
        struct record r;
        if (!parse_record(t.p + *whole, (size_t)(end - t.p) - *whole, &r))
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
        r.file = file;
        r.order = s->n;
        s->v[s->n++] = r;
    }
    *total = t.n;
    text_free(&t);
    return st;
}

static status cannot(const store *s, const char *name, const char *why, struct err *e)
{
    return fail(e, ERR_IO, "%s/" OWN_FOLDER "/%s: %s", s->dir, name, why);
}

/* "<stem>.K-of-N<end>" */
static bool is_of_shard(const char *name, const char *stem, const char *end)
{
    struct shard part = { 0 };
    int n = 0;
    size_t len = strlen(stem);
    return strncmp(name, stem, len) == 0 && sscanf(name + len, ".%7u-of-%7u%n", &part.k, &part.n, &n) == 2 && strcmp(name + len + n, end) == 0;
}

/* The records of all others. A shard that is at work may be in the middle of its last line, which is left to it. A batch of all inputs is
 * alone, and removes what killed shards were writing. */
static status load_others(store *s, struct err *e)
{
    int fd = openat(s->own, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    status st = d ? OK : cannot(s, ".", strerror(errno), e);
    size_t file = 1, whole, total;
    for (struct dirent *f; st == OK && (f = readdir(d));) {
        if (s->shared < 0 && is_of_shard(f->d_name, "answer", ".tmp"))
            unlinkat(s->own, f->d_name, 0);
        if ((strcmp(f->d_name, RECORDS) != 0 && !is_of_shard(f->d_name, RECORDS, "")) || strcmp(f->d_name, s->name) == 0)
            continue;
        int other = openat(s->own, f->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        st = other < 0 ? cannot(s, f->d_name, strerror(errno), e) : load(s, other, file++, &whole, &total, e);
        if (other >= 0)
            close(other);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return st;
}

/* All records; what follows the last line end of the own ones was torn by a crash and is cut off. */
static status load_all(store *s, struct err *e)
{
    size_t whole, total;
    TRY(load(s, s->records, 0, &whole, &total, e));
    if (whole < total && ftruncate(s->records, (off_t)whole) != 0)
        return cannot(s, s->name, strerror(errno), e);
    TRY(load_others(s, e));
    settle(s);
    return OK;
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
            st = cannot(s, s->name, strerror(failed), e);
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

/* Opens records and takes a lock on them. busy: what it means that another process has it. */
static status open_locked(const store *s, const char *name, int lock, const char *busy, int *fd, struct err *e)
{
    *fd = openat(s->own, name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd < 0)
        return cannot(s, name, strerror(errno), e);
    if (flock(*fd, lock | LOCK_NB) == 0)
        return OK;
    if (errno == EWOULDBLOCK)
        return fail(e, ERR_IO, "%s: %s", s->dir, busy);
    return fail(e, ERR_IO, "%s/" OWN_FOLDER "/%s: cannot lock: %s", s->dir, name, strerror(errno));
}

static status lock(store *s, struct shard part, struct err *e)
{
    char busy[80];
    if (part.n <= 1)
        return open_locked(s, s->name, LOCK_EX, "another batch is writing here", &s->records, e);
    TRY(open_locked(s, RECORDS, LOCK_SH, "another batch is writing here, and not as a shard", &s->shared, e));
    snprintf(busy, sizeof busy, "another batch is writing shard %u/%u here", part.k, part.n);
    return open_locked(s, s->name, LOCK_EX, busy, &s->records, e);
}

status store_open(store **out, const char *dir, struct shard part, struct err *e)
{
    status st = OK;
    store *s = calloc(1, sizeof *s);
    if (!s)
        return fail(e, ERR_NOMEM, "%s", dir);
    s->root = s->own = s->records = s->shared = -1;
    snprintf(s->name, sizeof s->name, part.n > 1 ? RECORDS ".%u-of-%u" : RECORDS, part.k, part.n);
    snprintf(s->temporary, sizeof s->temporary, part.n > 1 ? "answer.%u-of-%u.tmp" : "answer.tmp", part.k, part.n);
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
    if (s->own < 0) {
        st = fail(e, ERR_IO, "%s/" OWN_FOLDER ": %s", dir, strerror(errno));
        goto out;
    }
    TRY_OR(out, st, lock(s, part, e));
    if (unlinkat(s->own, s->temporary, 0) != 0 && errno != ENOENT) { /* of a batch that was killed: the lock is ours */
        st = cannot(s, s->temporary, strerror(errno), e);
        goto out;
    }
    TRY_OR(out, st, load_all(s, e));
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
    if (s->shared >= 0)
        close(s->shared);
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

/* Whether DIR/<name>.txt has this hash */
static bool has_output(const store *s, const char *name, uint64_t output)
{
    struct text bytes = { 0 };
    char *file;
    const char *last;
    if (asprintf(&file, "%s.txt", name) < 0)
        return false;
    int parent = open_parent(s, file, false, &last);
    int fd = parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool has = fd >= 0 && read_descriptor(fd, file, &bytes, NULL) == OK && XXH3_64bits(bytes.p, bytes.n) == output;
    if (fd >= 0)
        close(fd);
    if (parent >= 0)
        close(parent);
    free(file);
    text_free(&bytes);
    return has;
}

bool store_has(const store *s, const char *name, const struct origin *from, enum ending *ending)
{
    struct text key = { 0 };
    const struct record *r = NULL, *end = s->v + s->n;
    bool has = false;
    if (s->n && utf8_escape(name, strlen(name), &key, NULL) == OK)
        r = bsearch(key.p, s->v, s->n, sizeof *s->v, name_against);
    while (r && r > s->v && strcmp(r[-1].name, key.p) == 0) /* the first of those with this name */
        r--;
    for (; r && !has && r < end && strcmp(r->name, key.p) == 0; r++)
        if (r->from.model == from->model && r->from.options == from->options && r->from.input == from->input) {
            has = has_output(s, name, r->output);
            *ending = r->ending;
        }
    text_free(&key);
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
    int fd = openat(s->own, s->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
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
        unlinkat(s->own, s->temporary, 0);
        return fail(e, ERR_IO, "%s/%s: %s", s->dir, file, strerror(failed));
    }
    int parent = open_parent(s, file, true, &last);
    if (parent < 0 || renameat(s->own, s->temporary, parent, last) != 0)
        failed = errno;
    else if (fsync(parent) != 0 && errno != EINVAL && errno != ENOTSUP) /* a file system may not know how to sync a folder */
        failed = errno;
    if (parent >= 0)
        close(parent);
    if (!failed)
        return OK;
    unlinkat(s->own, s->temporary, 0);
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
