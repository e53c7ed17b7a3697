/* kernels_bin.c - finds a kernel in the table that tool/embed.sh writes. */
#include "kernels_bin/kernels_bin.h"

#include <stdlib.h>
#include <string.h>

extern const struct kernel_bin kernel_bin_table[], kernel_bin_table_end[];
extern const char kernel_manifest[], kernel_manifest_end[];

_Static_assert(sizeof(struct kernel_bin) == 56, "embed.sh writes seven words");

static int by_id(const void *id, const void *bin) { return strcmp(id, ((const struct kernel_bin *)bin)->id); }

const struct kernel_bin *kernel_bin_list(size_t *n)
{
    *n = (size_t)((uintptr_t)kernel_bin_table_end - (uintptr_t)kernel_bin_table) / sizeof *kernel_bin_table;
    return kernel_bin_table;
}

const struct kernel_bin *kernel_bin_find(const char *id)
{
    size_t n;
    const struct kernel_bin *table = kernel_bin_list(&n);
    return n ? bsearch(id, table, n, sizeof *table, by_id) : NULL;
}

const char *kernel_bin_manifest(size_t *n)
{
    *n = (size_t)((uintptr_t)kernel_manifest_end - (uintptr_t)kernel_manifest);
    return kernel_manifest;
}
