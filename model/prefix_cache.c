/* prefix_cache.c - session states in files. */
#include "model/prefix_cache.h"

#include "model/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "hayateST"
#define SUFFIX ".state"
#define TEMPORARY ".state.tmp-"
enum { FORMAT = 1, HEAD_BYTES = 56, NAME_BYTES = 64, PIECE_BYTES = 1 << 18, DAY = 24 * 60 * 60 };
static const size_t DEFAULT_MAX = (size_t)2 << 30;

struct prefix_cache {
    char *dir;
    int fd; /* of dir */
    size_t max_bytes;
    struct console *con;
    uint64_t build;  /* hash of this program */
    uint64_t origin; /* hash of all that a key holds but the ids */
    XXH3_state_t *hash;
    uint8_t *piece; /* [PIECE_BYTES] */
};

/* ---- keys ---- */

/* This program, to the byte: a kernel that was changed, or compiled otherwise, may compute other bits. */
static status hash_program(prefix_cache *c, struct err *e)
{
    static const char self[] = "/proc/self/exe";
    ssize_t n = -1;
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    XXH3_64bits_reset(c->hash);
    while (fd >= 0 && ((n = read(fd, c->piece, PIECE_BYTES)) > 0 || (n < 0 && errno == EINTR)))
        XXH3_64bits_update(c->hash, c->piece, (size_t)MAX(n, 0));
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return fail(e, ERR_IO, "--prefix-cache: cannot read %s, expected to know this program by its bytes: %s", self, strerror(why));
    const char *libc = gnu_get_libc_version(); /* expf and its like */
    XXH3_64bits_update(c->hash, libc, strlen(libc));
    c->build = XXH3_64bits_digest(c->hash);
    return OK;
}

void prefix_cache_bind(prefix_cache *c, const model *m, const struct session_params *p)
{
    char text[1024];
    struct stat st;
    if (!c)
        return;
    int n = snprintf(text, sizeof text, "%d %016" PRIx64 " %016" PRIx64 " kv %d precise %d %s %s", FORMAT, c->build, model_identity(m),
                     p->precise ? KV_F32 : p->kv, p->precise, model_backend(m), model_arithmetic(m));
    XXH3_64bits_reset(c->hash);
    XXH3_64bits_update(c->hash, text, (size_t)n);
    /* the identity samples the weights; the time of the files also notices those that were edited in between */
    for (size_t i = 0; !model_is_demo(m) && i < gguf_n_shards(model_gguf(m)); i++) {
        memset(&st, 0, sizeof st);
        stat(gguf_shard_path(model_gguf(m), i), &st);
        n = snprintf(text, sizeof text, "; %lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        XXH3_64bits_update(c->hash, text, (size_t)n);
    }
    c->origin = XXH3_64bits_digest(c->hash);
}

static uint64_t key_of(const prefix_cache *c, const int32_t *ids, size_t n) { return XXH3_64bits_withSeed(ids, n * sizeof *ids, c->origin); }

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

/* ---- the head of a file ---- */

struct head {
    uint64_t key, n_past, n_bytes, hash;
};

static void put_le(uint8_t *p, uint64_t x, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        p[k] = (uint8_t)(x >> 8 * k);
}

static uint64_t get_le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (unsigned k = 0; k < 8; k++)
        x |= (uint64_t)p[k] << 8 * k;
    return x;
}

static void head_write(const struct head *h, uint8_t p[HEAD_BYTES])
{
    memcpy(p, MAGIC, 8);
    put_le(p + 8, FORMAT, 4);
    put_le(p + 12, HEAD_BYTES, 4);
    put_le(p + 16, h->key, 8);
    put_le(p + 24, h->n_past, 8);
    put_le(p + 32, h->n_bytes, 8);
    put_le(p + 40, h->hash, 8);
    put_le(p + 48, XXH3_64bits(p, 48), 8);
}

/* Everything but the hash of the state is known before a file is opened, so the head is compared as a whole. Takes the hash from it. */
static bool head_read(struct head *h, const uint8_t found[HEAD_BYTES])
{
    uint8_t want[HEAD_BYTES];
    h->hash = get_le64(found + 40);
    head_write(h, want);
    return memcmp(found, want, HEAD_BYTES) == 0;
}

/* ---- reading ---- */

/* A file whose bytes go through the hash. */
struct hashed {
    prefix_cache *c;
    int fd;
};

static status read_whole(int fd, void *p, size_t n, struct err *e)
{
    uint8_t *at = p;
    while (n) {
        ssize_t k = read(fd, at, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail(e, ERR_IO, "%s", k ? strerror(errno) : "it ends early");
        at += k;
        n -= (size_t)k;
    }
    return OK;
}

static status get(void *ctx, void *p, size_t n, struct err *e)
{
    struct hashed *f = ctx;
    TRY(read_whole(f->fd, p, n, e));
    XXH3_64bits_update(f->c->hash, p, n);
    return OK;
}

/* Reads the file to its end. OK: it is whole, and the descriptor is behind its head. */
static status check_file(prefix_cache *c, int fd, struct head *h, struct err *e)
{
    struct stat st;
    uint8_t head[HEAD_BYTES];
    if (fstat(fd, &st) != 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(e, ERR_FORMAT, "not a regular file");
    if ((uint64_t)st.st_size != HEAD_BYTES + h->n_bytes)
        return fail(e, ERR_FORMAT, "%lld bytes, expected %" PRIu64, (long long)st.st_size, HEAD_BYTES + h->n_bytes);
    TRY(read_whole(fd, head, sizeof head, e));
    if (!head_read(h, head))
        return fail(e, ERR_FORMAT, "its head is not that of this state");
    XXH3_64bits_reset(c->hash);
    for (uint64_t left = h->n_bytes, k; left; left -= k) {
        k = MIN(left, (uint64_t)PIECE_BYTES);
        TRY(get(&(struct hashed){ c, fd }, c->piece, (size_t)k, e));
    }
    if (XXH3_64bits_digest(c->hash) != h->hash)
        return fail(e, ERR_FORMAT, "damaged: its hash is another one");
    return lseek(fd, HEAD_BYTES, SEEK_SET) == HEAD_BYTES ? OK : fail(e, ERR_IO, "%s", strerror(errno));
}

/* A file is read twice, so that no byte that is not trusted reaches a session; the second time it comes from memory. */
static status load_file(prefix_cache *c, int fd, session *s, struct head *h, struct err *e)
{
    TRY(check_file(c, fd, h, e));
    XXH3_64bits_reset(c->hash);
    TRY(session_load(s, (size_t)h->n_past, get, &(struct hashed){ c, fd }, e));
    return XXH3_64bits_digest(c->hash) == h->hash ? OK : fail(e, ERR_FORMAT, "it changed while it was read");
}

bool prefix_cache_load(prefix_cache *c, session *s, const int32_t *ids, size_t n)
{
    struct err e;
    char name[NAME_BYTES];
    if (!c || n == 0 || n > session_n_ctx(s))
        return false;
    struct head h = { .key = key_of(c, ids, n), .n_past = n, .n_bytes = session_state_bytes(s, n) };
    state_name(h.key, name);
    int fd = openat(c->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return false;
    status st = fd < 0 ? fail(&e, ERR_IO, "%s", strerror(errno)) : load_file(c, fd, s, &h, &e);
    if (st == OK)
        futimens(fd, NULL); /* used now; where that is not allowed it only goes earlier */
    else
        console_note(c->con, "hayate: %s/%s: %s; not used", c->dir, name, e.msg);
    if (fd >= 0)
        close(fd);
    return st == OK;
}

/* ---- writing ---- */

static status put(void *ctx, const void *p, size_t n, struct err *e)
{
    struct hashed *f = ctx;
    int failed = write_all(f->fd, p, n);
    XXH3_64bits_update(f->c->hash, p, n);
    return failed ? fail(e, ERR_IO, "%s", strerror(failed)) : OK;
}

/* The head is written last: without it the rest is nothing. */
static status write_file(prefix_cache *c, int fd, session *s, struct head *h, struct err *e)
{
    uint8_t head[HEAD_BYTES] = { 0 };
    int failed = write_all(fd, (const char *)head, sizeof head);
    if (failed)
        return fail(e, ERR_IO, "%s", strerror(failed));
    XXH3_64bits_reset(c->hash);
    TRY(session_save(s, put, &(struct hashed){ c, fd }, e));
    h->hash = XXH3_64bits_digest(c->hash);
    head_write(h, head);
    if (pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head || fsync(fd) != 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    return OK;
}

static status place_file(prefix_cache *c, session *s, struct head *h, const char *name, struct err *e)
{
    char temporary[NAME_BYTES];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* two machines may share a folder, and a pid */
    snprintf(temporary, sizeof temporary, "%.16s" TEMPORARY "%ld-%ld", name, (long)getpid(), t.tv_nsec);
    int fd = openat(c->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(e, ERR_IO, "%s", strerror(errno));
    status st = write_file(c, fd, s, h, e);
    if (close(fd) != 0 && st == OK)
        st = fail(e, ERR_IO, "%s", strerror(errno));
    if (st == OK && renameat(c->fd, temporary, c->fd, name) != 0)
        st = fail(e, ERR_IO, "%s", strerror(errno));
    if (st == OK)
        fsync(c->fd); /* a file system may not know how; then a crash may cost the file */
    else
        unlinkat(c->fd, temporary, 0);
    return st;
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
    struct head h = { .key = key_of(c, ids, n), .n_past = n, .n_bytes = session_state_bytes(s, n) };
    state_name(h.key, name);
    if (HEAD_BYTES + h.n_bytes > c->max_bytes) {
        console_note(c->con, "hayate: %s: the instruction takes %" PRIu64 " bytes, --prefix-cache-max is %zu; not kept", c->dir, HEAD_BYTES + h.n_bytes,
                     c->max_bytes);
        return;
    }
    if (place_file(c, s, &h, name, &e) != OK)
        console_note(c->con, "hayate: %s/%s: %s; not kept", c->dir, name, e.msg);
    else if (trim(c, h.key, &e) != OK)
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
    *c = (prefix_cache){ .dir = strdup(dir), .fd = -1, .max_bytes = max_bytes ? max_bytes : DEFAULT_MAX, .con = con, .hash = XXH3_createState(),
                         .piece = malloc(PIECE_BYTES) };
    if (!c->dir || !c->hash || !c->piece) {
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
    TRY_OR(out, st, hash_program(c, e));
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
    XXH3_freeState(c->hash);
    free(c->piece);
    free(c->dir);
    free(c);
}
