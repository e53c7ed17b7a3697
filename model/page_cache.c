/* page_cache.c - how much of a model's files is in the page cache, and out with it: cold and warm starts are told apart by this. */
#define _GNU_SOURCE
#include "model/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

double page_cache_share(const gguf *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), here = 0, all = 0;
    struct gguf_file f;
    for (size_t i = 0; i < gguf_n_shards(g); i++) {
        if (!gguf_file_of(g, i, &f))
            return -1;
        size_t n = (f.bytes + page - 1) / page;
        unsigned char *in = malloc(n);
        bool known = in && mincore((void *)(uintptr_t)f.map, f.bytes, in) == 0;
        for (size_t k = 0; known && k < n; k++)
            here += in[k] & 1;
        free(in);
        if (!known)
            return -1;
        all += n;
    }
    return all ? (double)here / (double)all : -1;
}

status page_cache_drop(const gguf *g, struct err *e)
{
    struct gguf_file f;
    for (size_t i = 0; i < gguf_n_shards(g); i++) {
        if (!gguf_file_of(g, i, &f))
            return fail(e, ERR_UNSUPPORTED, "--cold: the built-in model belongs to no file; give one with -m");
        int fd = open(f.path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return fail(e, ERR_IO, "%s: %s", f.path, strerror(errno));
        madvise((void *)(uintptr_t)f.map, f.bytes, MADV_DONTNEED); /* pages that are mapped stay */
        fdatasync(fd);
        int bad = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
        if (bad)
            return fail(e, ERR_IO, "%s: cannot be dropped from the page cache: %s", f.path, strerror(bad));
    }
    return OK;
}
