/* vulkan_bin.h - kernels for tests of the Vulkan backend while no kernels are built into the program: build/spv/ID.spv, compiled here with
 * the tools of whoever changes kernels, or as an earlier run left it. */
#ifndef HAYATE_TESTS_VULKAN_BIN_H
#define HAYATE_TESTS_VULKAN_BIN_H

#include "gpu/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kernel_bin test_binary[8];

const struct kernel_bin *kernel_bin_find(const char *id)
{
    for (size_t i = 0; i < COUNT_OF(test_binary); i++)
        if (test_binary[i].id && strcmp(test_binary[i].id, id) == 0)
            return &test_binary[i];
    return NULL;
}

static inline bool test_compile(const struct gpu_kernel *row)
{
    char line[1024];
    snprintf(line, sizeof line,
             "mkdir -p build/spv && cd build/spv && { cat ../../gpu/lang/glsl_head.glsl; clang-19 -E -P -undef -nostdinc "
             "-x c -I../.. -DLANG_GLSL -DWORKGROUP=%u -DGRAIN=%u %s ../../%s; } 2>/dev/null >%s.comp && "
             "glslc --target-env=vulkan1.3 -O %s.comp -o %s.spv 2>/dev/null",
             row->workgroup, row->grain, row->defines, row->source, row->id, row->id, row->id);
    return system(line) == 0;
}

/* False: there is no binary and there are no tools to make one. */
static inline bool test_kernel(const struct gpu_kernel *row)
{
    enum { ROOM = 1 << 20 };
    static size_t n;
    char path[128];
    snprintf(path, sizeof path, "build/spv/%s.spv", row->id);
    bool made = test_compile(row);
    FILE *f = fopen(path, "rb");
    uint8_t *data = f ? malloc(ROOM) : NULL;
    size_t bytes = data ? fread(data, 1, ROOM, f) : 0;
    if (f)
        fclose(f);
    if (!made && bytes)
        printf("build/spv/%s.spv: as it was left, no tools to compile it\n", row->id);
    if (bytes && n < COUNT_OF(test_binary))
        test_binary[n++] = (struct kernel_bin){ .id = row->id, .spirv = data, .spirv_bytes = bytes };
    return bytes > 0;
}

#endif
