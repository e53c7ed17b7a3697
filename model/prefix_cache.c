/* prefix_cache.c - session states in files. */
#include "model/prefix_cache.h"

#include "model/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".state"
#define TEMPORARY ".state.tmp-"
enum { NAME_BYTES = 64, DAY = 24 * 60 * 60 };
static const size_t DEFAULT_MAX = (size_t)2 << 30;

struct prefix_cache {
    char *dir;
    int fd; /* of dir */
    size_t max_bytes;
    struct console *con;
    struct state_files files;
};

void prefix_cache_bind(prefix_cache *c, const model *m, const struct session_params *p)
{
    if (c)
        state_files_bind(&c->files, m, p);
}

/* ---- names ---- */

static void state_name(uint64_t key, char name[NAME_BYTES])
{
    hex64(key, name);
    strcpy(name + 16, SUFFIX);
}

static bool is_state(const char *name, uint64_t *key)
{
    return strlen(name) > 16 && parse_hex64(name, 16, key) && strcmp(name + 16, SUFFIX) == 0;
}

static bool is_temporary(const char *name)
{
    uint64_t key;
    size_t n = strlen(TEMPORARY);
    return strlen(name) > 16 && parse_hex64(name, 16, &key) && strncmp(name + 16, TEMPORARY, n) == 0 && name[16 + n] && strspn(name + 16 + n, "0123456789-") == strlen(name + 16 + n);
}

/* ---- reading and writing ---- */

bool prefix_cache_load(prefix_cache *c, session *s, const int32_t *ids, size_t n)
{
    struct err e;
    char name[NAME_BYTES];
    if (!c || n == 0 || n > session_n_ctx(s))
        return false;
    state_name(state_file_key(&c->files, ids, n), name);
    int fd = openat(c->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return false;
    status st = fd < 0 ? fail(&e, ERR_IO, "%s", strerror(errno)) : state_file_load(&c->files, fd, s, ids, n, &e);
    if (st == OK)
        futimens(fd, NULL); /* used now; where that is not allowed it only goes earlier */
    else
        console_note(c->con, "hayate: %s/%s: %s; not used", c->dir, name, e.msg);
    if (fd >= 0)
        close(fd);
    return st == OK;
}

static status place_file(prefix_cache *c, session *s, const int32_t *ids, size_t n, const char *name, struct err *e)
{
    char prefix[NAME_BYTES], temporary[NAME_BYTES];
    snprintf(prefix, sizeof prefix, "%.16s" TEMPORARY, name);
    state_file_temporary(temporary, sizeof temporary, prefix);
    TRY(state_file_save(&c->files, c->fd, name, temporary, s, ids, n, e));
    fsync(c->fd); /* a file system may not know how; then a crash may cost the file */
    return OK;
}

/* ---- the limit ---- */

struct entry {
    uint64_t key, n_bytes;
    struct timespec used;
};

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* The states in the folder, in v [*n], and their bytes; old temporary files go on the way. */
static status list_states(prefix_cache *c, struct entry **v, size_t *n, uint64_t *n_bytes, struct err *e)
{
    status st = OK;
    int fd = openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        st = fail(e, ERR_IO, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    for (struct dirent *f; st == OK && (f = readdir(d));) {
        struct stat s;
        uint64_t key;
        bool state = is_state(f->d_name, &key);
        if ((!state && !is_temporary(f->d_name)) || fstatat(c->fd, f->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
            continue;
        if (!state) {
            if (time(NULL) - s.st_mtim.tv_sec > DAY)
                unlinkat(c->fd, f->d_name, 0);
            continue;
        }
        struct entry *more = realloc(*v, (*n + 1) * sizeof *more);
        if (!more) {
            st = fail(e, ERR_NOMEM, "%zu names", *n);
            break;
        }
        *v = more;
        more[(*n)++] = (struct entry){ .key = key, .used = s.st_mtim, .n_bytes = (uint64_t)s.st_size };
        *n_bytes += (uint64_t)s.st_size;
    }
    closedir(d);
    return st;
}

/* Removes the states that were not used for longest; never the one of this key. */
static status trim(prefix_cache *c, uint64_t keep, struct err *e)
{
    struct entry *v = NULL;
    size_t n = 0;
    uint64_t n_bytes = 0;
    status st = list_states(c, &v, &n, &n_bytes, e);
    if (n)
        qsort(v, n, sizeof *v, by_use);
    for (size_t i = 0; st == OK && i < n && n_bytes > c->max_bytes; i++) {
        char name[NAME_BYTES];
        if (v[i].key == keep)
            continue;
        state_name(v[i].key, name);
        if (unlinkat(c->fd, name, 0) != 0 && errno != ENOENT) /* gone: another process was faster */
            st = fail(e, ERR_IO, "%s: %s", name, strerror(errno));
        n_bytes -= v[i].n_bytes;
    }
    free(v);
    return st;
}

void prefix_cache_save(prefix_cache *c, session *s, const int32_t *ids, size_t n)
{
    struct err e;
    char name[NAME_BYTES];
    if (!c || n == 0)
        return;
    uint64_t key = state_file_key(&c->files, ids, n), n_bytes = state_file_bytes(s, n);
    state_name(key, name);
    if (n_bytes > c->max_bytes) {
        console_note(c->con, "hayate: %s: the instruction takes %" PRIu64 " bytes, --prefix-cache-max is %zu; not kept", c->dir, n_bytes, c->max_bytes);
        return;
    }
    if (place_file(c, s, ids, n, name, &e) != OK)
        console_note(c->con, "hayate: %s/%s: %s; not kept", c->dir, name, e.msg);
    else if (trim(c, key, &e) != OK)
        console_note(c->con, "hayate: %s: cannot remove old states: %s", c->dir, e.msg);
}

/* ---- the folder ---- */

status prefix_cache_open(prefix_cache **out, const char *dir, size_t max_bytes, struct console *con, struct err *e)
{
    status st = OK;
    *out = NULL;
    if (!dir)
        return OK;
    prefix_cache *c = calloc(1, sizeof *c);
    if (!c)
        return fail(e, ERR_NOMEM, "%s", dir);
    *c = (prefix_cache){ .dir = strdup(dir), .fd = -1, .max_bytes = max_bytes ? max_bytes : DEFAULT_MAX, .con = con };
    if (!c->dir) {
        st = fail(e, ERR_NOMEM, "%s", dir);
        goto out;
    }
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        st = fail(e, ERR_IO, "--prefix-cache %s: cannot make the folder: %s", dir, strerror(errno));
        goto out;
    }
    c->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0 || faccessat(c->fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
        st = fail(e, ERR_IO, "--prefix-cache %s: %s", dir, strerror(errno));
        goto out;
    }
    if ((st = state_files_open(&c->files, e)) != OK) {
        fail_in(e, "--prefix-cache");
        goto out;
    }
    *out = c;
    return OK;
out:
    prefix_cache_close(c);
    return st;
}

void prefix_cache_close(prefix_cache *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    state_files_close(&c->files);
    free(c->dir);
    free(c);
}
