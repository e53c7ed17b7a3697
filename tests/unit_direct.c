/* unit_direct.c - bytes of a model file read past the page cache: any offset and length against the mapping, several readers at a
 * time, and files that are cut, changed or replaced meanwhile. */
#include "model/direct.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "tests/models/tiny-man.gguf"
enum { MAX_BYTES = 300 << 10, READERS = 3 };

static struct err err;
static bool says(const char *text) { return strstr(err.msg, text) != NULL; }

static char copy_path[64];
/* A copy of the model that may be spoilt, under build/ where the disk is. */
static gguf *fresh_copy(size_t spare)
{
    gguf *g = NULL;
    uint8_t *bytes = malloc(64 << 20);
    FILE *from = fopen(MODEL, "rb"), *to;
    size_t n = fread(bytes, 1, 64 << 20, from);
    snprintf(copy_path, sizeof copy_path, "build/unit_direct.%d.gguf", (int)getpid());
    CHECK((to = fopen(copy_path, "wb")) != NULL);
    memset(bytes + n, 0x5a, spare); /* behind the last tensor; the file's length is then no multiple of a page */
    CHECK(n > 1 << 20 && fwrite(bytes, 1, n + spare, to) == n + spare);
    fclose(from);
    fclose(to);
    free(bytes);
    CHECK(gguf_open(&g, copy_path, &err) == OK);
    return g;
}

static struct gguf_file file_of(const gguf *g)
{
    struct gguf_file f = { 0 };
    CHECK(gguf_file_of(g, 0, &f) && f.bytes == gguf_file_bytes(g) && strcmp(f.path, copy_path) == 0);
    return f;
}

struct reading {
    direct *d;
    struct gguf_file f;
    uint32_t reader;
    long bad;
};
static void *read_at_random(void *arg)
{
    struct reading *r = arg;
    uint64_t x = 88172645463325252u + r->reader;
    for (int i = 0; i < 300; i++) {
        struct err e;
        const uint8_t *got;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t n = 1 + (x >> 20) % (i % 3 ? 9000 : MAX_BYTES), at = (x >> 3) % (r->f.bytes - n + 1);
        if (i % 10 == 0)
            at = r->f.bytes - n; /* up to the very end */
        r->bad += direct_read(r->d, r->reader, r->f.map + at, n, &got, &e) != OK || got == r->f.map + at ||
                  memcmp(got, r->f.map + at, n) != 0;
    }
    return NULL;
}

static void reads(enum load how)
{
    gguf *g = fresh_copy(777);
    struct gguf_file f = file_of(g);
    direct *d = NULL;
    pthread_t thread[READERS];
    struct reading r[READERS];
    const uint8_t *got, own[4] = { 1, 2, 3, 4 };
    CHECK(f.bytes % 4096 != 0);
    CHECK(direct_open(&d, g, READERS, MAX_BYTES, how, &err) == OK);
    for (uint32_t i = 0; i < READERS; i++) {
        r[i] = (struct reading){ d, f, i, 0 };
        pthread_create(&thread[i], NULL, read_at_random, &r[i]);
    }
    for (uint32_t i = 0; i < READERS; i++) {
        pthread_join(thread[i], NULL);
        CHECK(r[i].bad == 0);
    }
    CHECK(direct_read(d, 0, own, 4, &got, &err) == OK && got == own);
    CHECK(direct_read(d, 0, f.map, MAX_BYTES + 1, &got, &err) == ERR_IO && says("at offset 0, expected at most 307200"));
    CHECK(direct_read(d, 0, f.map + f.bytes - 9, 10, &got, &err) == ERR_IO && says(copy_path) && says("expected at most 9"));
    CHECK(direct_unchanged(d, &err) == OK);
    direct_close(d);
    gguf_close(g);
    unlink(copy_path);
}

static void from_the_mapping(void)
{
    gguf *g = fresh_copy(0);
    struct gguf_file f = file_of(g);
    direct *d = NULL;
    const uint8_t *got;
    CHECK(direct_open(&d, g, 1, MAX_BYTES, LOAD_MMAP, &err) == OK);
    CHECK(direct_read(d, 0, f.map + 5, 7, &got, &err) == OK && got == f.map + 5);
    direct_close(d);
    gguf_close(g);
    unlink(copy_path);
}

static void spoilt(enum load how)
{
    gguf *g = fresh_copy(0);
    struct gguf_file f = file_of(g);
    direct *d = NULL, *late = NULL;
    const uint8_t *got;
    CHECK(direct_open(&d, g, 1, MAX_BYTES, how, &err) == OK);
    struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
    CHECK(utimensat(AT_FDCWD, copy_path, now, 0) == 0);
    CHECK(direct_unchanged(d, &err) == ERR_IO && says(copy_path) && says("a later time of writing"));
    CHECK(direct_open(&late, g, 1, MAX_BYTES, how, &err) == ERR_IO && says("changed") && !late);
    CHECK(truncate(copy_path, 70001) == 0);
    CHECK(direct_read(d, 0, f.map + 60000, 10000, &got, &err) == OK && memcmp(got, f.map + 60000, 5000) == 0);
    CHECK(direct_read(d, 0, f.map + 60000, 10002, &got, &err) == ERR_IO && says(copy_path) &&
          says("the end at byte 70001, expected 70002"));
    CHECK(direct_read(d, 0, f.map + 200000, 10, &got, &err) == ERR_IO && says("shorter"));
    CHECK(direct_unchanged(d, &err) == ERR_IO && says("found 70001 bytes"));
    CHECK(unlink(copy_path) == 0 && direct_open(&late, g, 1, MAX_BYTES, how, &err) == ERR_IO && says(strerror(ENOENT)));
    direct_close(d);
    gguf_close(g);
}

static void replaced(void)
{
    gguf *g = fresh_copy(0), *other;
    direct *d = NULL;
    char kept[80];
    snprintf(kept, sizeof kept, "%s.old", copy_path);
    CHECK(rename(copy_path, kept) == 0);
    other = fresh_copy(0);
    CHECK(direct_open(&d, g, 1, MAX_BYTES, LOAD_DIRECT, &err) == ERR_IO && says("another file of this name") && !d);
    gguf_close(g);
    gguf_close(other);
    unlink(copy_path);
    unlink(kept);
}

int main(void)
{
    reads(LOAD_DIRECT);
    reads(LOAD_PLAIN);
    from_the_mapping();
    spoilt(LOAD_DIRECT);
    spoilt(LOAD_PLAIN);
    replaced();
    return TEST_END();
}
