/* fake_hip_impl.h - what the two files of the fake runtime share: its things, its queue, what every entry point begins with. */
#ifndef HAYATE_TESTS_FAKE_HIP_IMPL_H
#define HAYATE_TESTS_FAKE_HIP_IMPL_H

#include "tests/fake_hip.h"

#include "gpu/lang/host_run.h"
#include "kernels_bin/tool/inspect.h"

enum { SUCCESS, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200, NO_BINARY = 209, NOT_FOUND = 500, NOT_READY = 600,
       LAUNCH_FAILURE = 719, CAPTURE_UNSUPPORTED = 900 };

/* Ends the program: the real one might not forgive this. */
void die(const char *entry, const char *what);
/* Counts a call; an error that was planted for it, or SUCCESS. */
int enter(const char *entry);
extern _Thread_local int entered; /* the device that this thread has set; -1: none */
#define API(name, ...)                                                                        \
    int hip##name(__VA_ARGS__);                                                               \
    int hip##name(__VA_ARGS__)
#define ENTER(name)                                                                           \
    do {                                                                                      \
        int enter_ = enter("hip" #name);                                                      \
        if (enter_ != SUCCESS)                                                                \
            return enter_;                                                                    \
    } while (0)
/* What belongs to a device */
#define ENTER_DEVICE(name)                                                                    \
    do {                                                                                      \
        ENTER(name);                                                                          \
        if (entered < 0)                                                                      \
            die("hip" #name, "no device was set in this thread");                                            \
    } while (0)

/* ---- things ---- */

enum kind { STREAM, EVENT, MODULE, GRAPH, EXEC, DEVICE_MEMORY, HOST_MEMORY };
struct op {
    enum { OP_COPY, OP_FILL, OP_KERNEL, OP_EVENT, OP_GRAPH } what;
    uint8_t *to;
    const uint8_t *from;
    size_t n;
    int byte;
    const struct host_row *kernel;
    uint32_t groups;
    uint64_t args[16];
    struct thing *thing; /* event or graph */
};
struct ops {
    struct op *at;
    size_t n, cap;
};
struct thing {
    struct thing *next;
    enum kind kind;
    uint8_t *p, *host;          /* memory as the device and as the host sees it */
    size_t bytes;
    struct code_info code;      /* MODULE */
    const struct host_row *row;
    struct ops ops;             /* GRAPH, EXEC */
    size_t waiting;             /* in the queue: launches of an EXEC, records of an EVENT */
    int asked;                  /* STREAM, EVENT */
    double time;                /* EVENT */
};
extern struct thing *things; /* newest first */
extern struct ops queue, *captured; /* captured, unless NULL: launches go there */
struct thing *make(enum kind kind);
struct thing *known(const char *entry, const void *handle, enum kind kind);
void destroy(const char *entry, struct thing *t);
void push(struct ops *list, struct op op);

/* ---- the queue ---- */

void enqueue(const char *entry, const void *stream, struct op op);
/* Runs everything up to the record of an event; event NULL: everything */
void run_to(const struct thing *event);
/* The same for a query: the first time somebody asks it is not ready, whatever there is to do. */
int ask(int *asked, const struct thing *event);
void must_be_idle(const char *entry);

#endif
