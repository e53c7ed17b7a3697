/* host_run.h - runs a kernel on the host, a fiber per work-item, to find what a device only shows as a wrong number: barriers and subgroup
 * operations that not every item reaches, reads of SHARED memory that nobody wrote, accesses outside of buffers (with the address sanitizer). Any such
 * finding ends the program with a line that says what and where. For tests; one thread. */
#ifndef HAYATE_GPU_LANG_HOST_RUN_H
#define HAYATE_GPU_LANG_HOST_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HOST_SHARED_MAX = 32 };
struct host_kernel {
    const char *id;
    uint32_t workgroup, subgroup;
    struct host_shared {
        void **at; /* the pointer that the kernel uses */
        size_t bytes;
    } shared[HOST_SHARED_MAX];
    uint32_t n_shared;
};

/* Runs n_groups groups, one after the other. In every other one items run in descending order, so that a missing barrier shows either way.
 * SHARED memory is filled with 0xff, a NaN, before each. */
void host_run(const struct host_kernel *k, void (*item)(const void *args), const void *args, uint32_t n_groups);

/* ---- for host.h ---- */

enum host_meeting { HOST_BARRIER, HOST_ADD_F32, HOST_ADD_U32, HOST_MAX_F32, HOST_MAX_U32, HOST_XOR, HOST_GET, HOST_SUBGROUP };

extern uint32_t host_group, host_lid;
void host_add_shared(struct host_kernel *k, void **at, size_t bytes);
/* Waits for the other items of the subgroup (barrier: of the group); what the operation makes of their values, as bits. */
uint32_t host_meet(enum host_meeting what, int line, uint32_t bits, uint32_t operand);
void host_fault(int line, const char *what) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

/* The host builds of all rows (host.a) */
struct host_row {
    const char *id;
    void (*run)(const void *args, uint32_t n_groups);
};
extern const struct host_row host_rows[];
extern const uint32_t n_host_rows;

#endif
