/* fake_hip.c - a libamdhip64 for machines without one: the entry points that gpu/hip uses, on memory of the host, with the host builds of the
 * kernels. It takes the code objects of the program and believes what they say of themselves (name, workgroup, bytes of arguments), but runs the kernel of
 * the same row that was compiled for the host.
 *
 * It is stricter than the real one. Work is put off until somebody asks for it twice, so memory that is read or reused too early has the wrong
 * contents. Memory of the host has another address on the device. Handles, ranges and sizes are checked; what a real runtime might not forgive ends
 * the program with a line.
 *
 *     FAKE_HIP_FAIL=hipMalloc:3:2     the 3rd hipMalloc returns error 2
 *     FAKE_HIP_ARCH, FAKE_HIP_DEVICES, FAKE_HIP_MEMORY (MiB), FAKE_HIP_HANG=1
 *
 * This file has its things and its queue, fake_hip_api.c the entry points. */
#define _GNU_SOURCE
#include "tests/fake_hip_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *entry, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "fake_hip: %s: %s\n", entry, what);
    abort();
}

/* ---- entering: counts, planted errors ---- */

static struct {
    char entry[64];
    unsigned nth;
    int code;
} planted;
static struct counter {
    const char *entry;
    unsigned n;
} counters[64];
static int hangs;
_Thread_local int entered = -1;

void fake_hip_fail(const char *entry, unsigned nth, int code)
{
    memset(counters, 0, sizeof counters);
    snprintf(planted.entry, sizeof planted.entry, "%s", entry ? entry : "");
    planted.nth = nth;
    planted.code = code;
}
void fake_hip_hang(int h) { hangs = h; }

static struct counter *counter_of(const char *entry)
{
    size_t i = 0;
    while (counters[i].entry && strcmp(counters[i].entry, entry) != 0)
        if (++i == sizeof counters / sizeof *counters)
            die(entry, "more entry points than counters");
    counters[i].entry = entry;
    return &counters[i];
}
unsigned fake_hip_calls(const char *entry) { return counter_of(entry)->n; }

static void read_environment(void)
{
    static int done;
    const char *fail = getenv("FAKE_HIP_FAIL"), *hang = getenv("FAKE_HIP_HANG");
    char entry[64];
    unsigned nth;
    int code;
    if (done++)
        return;
    hangs = hang != NULL;
    if (fail && sscanf(fail, "%63[^:]:%u:%d", entry, &nth, &code) == 3)
        fake_hip_fail(entry, nth, code);
}

int enter(const char *entry)
{
    read_environment();
    return ++counter_of(entry)->n == planted.nth && strcmp(entry, planted.entry) == 0 ? planted.code : SUCCESS;
}
/* ---- things ---- */

struct thing *things;
struct ops queue, *captured;

struct thing *make(enum kind kind)
{
    struct thing *t = calloc(1, sizeof *t);
    *t = (struct thing){ .next = things, .kind = kind };
    return things = t;
}
struct thing *known(const char *entry, const void *handle, enum kind kind)
{
    for (struct thing *t = things; t; t = t->next)
        if (t == handle && t->kind == kind)
            return t;
    die(entry, "a handle that is none");
    return NULL;
}
void destroy(const char *entry, struct thing *t)
{
    if (t->waiting)
        die(entry, "destroyed while it is in the queue");
    for (struct thing **at = &things; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    free(t->ops.at);
    free(t);
}
unsigned fake_hip_live(void)
{
    unsigned n = 0;
    for (struct thing *t = things; t; t = t->next)
        n++;
    return n;
}

void push(struct ops *list, struct op op)
{
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        list->at = realloc(list->at, list->cap * sizeof op);
    }
    list->at[list->n++] = op;
}

/* ---- the queue ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(const struct op *op)
{
    switch (op->what) {
    case OP_COPY: memcpy(op->to, op->from, op->n); break;
    case OP_FILL: memset(op->to, op->byte, op->n); break;
    case OP_KERNEL: op->kernel->run(op->args, op->groups); break;
    case OP_EVENT: op->thing->waiting--, op->thing->time = now(); break;
    case OP_GRAPH:
        for (size_t i = 0; i < op->thing->ops.n; i++)
            run(&op->thing->ops.at[i]);
        op->thing->waiting--;
    }
}

void run_to(const struct thing *event)
{
    size_t i = 0;
    while (i < queue.n && !(event && event->waiting == 0))
        run(&queue.at[i++]);
    if (i > 0)
        memmove(queue.at, queue.at + i, (queue.n - i) * sizeof *queue.at);
    queue.n -= i;
}

int ask(int *asked, const struct thing *event)
{
    if (captured)
        return CAPTURE_UNSUPPORTED;
    if (hangs || ((event ? event->waiting > 0 : queue.n > 0) && !(*asked)++))
        return NOT_READY;
    *asked = 0;
    run_to(event);
    return SUCCESS;
}

void enqueue(const char *entry, const void *stream, struct op op)
{
    known(entry, stream, STREAM);
    if (captured && op.what != OP_KERNEL)
        die(entry, "not while launches are captured");
    push(captured ? captured : &queue, op);
}

void must_be_idle(const char *entry)
{
    if (queue.n)
        die(entry, "while the stream has work");
}
