/* gpu_backend.h - what a backend implements; only gpu.c and the backends see this. */
#ifndef HAYATE_GPU_GPU_BACKEND_H
#define HAYATE_GPU_GPU_BACKEND_H

#include "gpu/gpu.h"

/* Semantics: the functions of the same name in gpu.h. */
struct gpu_ops {
    void (*close)(gpu *g);
    bool (*has)(const gpu *g, const struct gpu_kernel *row);
    status (*alloc)(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e);
    void (*free)(gpu *g, struct gpu_mem *m);
    status (*write)(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e);
    status (*read)(gpu *g, void *to, gpu_addr from, size_t n, struct err *e);
    status (*copy)(gpu *g, gpu_addr to, gpu_addr from, size_t n, struct err *e);
    status (*clear)(gpu *g, gpu_addr at, size_t n, struct err *e);
    void (*memory_used)(gpu *g, uint64_t *asked, uint64_t *driver);
    void (*forget)(gpu *g, struct gpu_cmd *c); /* frees c->recording */
    status (*start)(gpu *g, struct gpu_cmd *c, struct err *e);
    status (*wait)(gpu *g, struct err *e);
    status (*profile)(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e);
};

/* The first member of every backend's own struct. */
struct gpu {
    const struct gpu_ops *ops;
    struct gpu_info info;
};

#endif
