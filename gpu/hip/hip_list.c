/* hip_list.c - kernel rows to functions, and lists of calls: launched one by one the first time, replayed as one graph from the second time on.
 *
 * A graph is what a capture of the same launches gives: a chain, one call behind the other. Branches would be worth nothing, the runtime of AMD runs them
 * through several streams, which costs more than kernels of this size take. To build a graph pays only for a list that comes again, so lists that run
 * once (a step of a prompt, a test) never become one.
 *
 * Every row has a code object of its own. It is loaded when the first list with the row is made, never between two tokens: a model uses a third of
 * the rows, and an object that the driver refuses is named together with the row that needs it. */
#include "gpu/hip/hip.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- life and death ---- */

status hip_alive(struct hip *h, struct err *e)
{
    if (h->dead.code == OK && !pthread_equal(h->thread, pthread_self())) {
        int r = h->rt.api->here(&h->rt, h->phys.device);
        if (r != HIP_OK)
            return fail(e, ERR_DEVICE, "%s: %s: use by another thread failed: %s", h->rt.api->name, h->phys.name, hip_error(&h->rt, r));
        h->thread = pthread_self();
    }
    if (h->dead.code != OK && e)
        *e = h->dead;
    return h->dead.code;
}

/* ---- waiting ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Asks again and again, without a pause for a moment: to be woken takes as long as a short list. A wait inside the runtime would have no end where the
 * device has none. */
enum { SPIN_NS = 200 * 1000, PAUSE_NS = 50 * 1000 };

/* What the runtime says when the event has come or, event NULL, when the stream is empty; HIP_NOT_READY: the watchdog's patience was at its end. */
static int poll_end(const struct hip *h, hip_event event)
{
    for (uint64_t start = now_ns(), passed = 0;; passed = now_ns() - start) {
        int r = event ? h->rt.f.event_query(event) : h->rt.f.stream_query(h->stream);
        if (r != HIP_NOT_READY || passed > h->watchdog_ns)
            return r;
        if (passed > SPIN_NS)
            nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    }
}

/* What was given to the stream before may still run: nothing that it uses can be freed until it has ended. */
status hip_lose(struct hip *h, int error, const char *doing, struct err *e)
{
    if (h->dead.code == OK) {
        fail(&h->dead, ERR_DEVICE, "%s: %s: %s failed: %s", h->rt.api->name, h->phys.name, doing, hip_error(&h->rt, error));
        h->hung = poll_end(h, NULL) == HIP_NOT_READY;
    }
    return hip_alive(h, e);
}

status hip_reach(struct hip *h, hip_event event, struct err *e)
{
    TRY(hip_alive(h, e));
    if (!event && !h->busy)
        return OK;
    int r = poll_end(h, event);
    if (r == HIP_NOT_READY) {
        h->hung = true;
        fail(&h->dead, ERR_DEVICE, "%s: %s: no end of the work within %u s (%s)", h->rt.api->name, h->phys.name,
             (uint32_t)(h->watchdog_ns / 1000000000u), hip_error(&h->rt, r));
    } else if (r != HIP_OK) {
        return hip_lose(h, r, "work on the device", e);
    }
    h->busy = h->busy && event;
    return hip_alive(h, e);
}

status hip_wait(gpu *g, struct err *e) { return hip_reach(hip_of(g), NULL, e); }

/* ---- rows ---- */

/* NULL: the device can run the row. */
static const char *hindrance(const struct hip *h, const struct gpu_kernel *row)
{
    const struct kernel_bin *b = row->workgroup ? kernel_bin_find(row->id) : NULL;
    if (!b || !h->rt.api->binary(b))
        return "this build has no kernel for it";
    if (row->workgroup > h->phys.workgroup_max)
        return "the workgroup does not fit";
    return NULL;
}

bool hip_has(const gpu *g, const struct gpu_kernel *row) { return !hindrance((const struct hip *)(const void *)g, row); }

/* Where the row is, or where it belongs. */
static size_t find_row(const struct hip *h, const struct gpu_kernel *row)
{
    size_t low = 0, high = h->n_rows;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((uintptr_t)h->row[mid].row < (uintptr_t)row)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool reserve_rows(struct hip *h)
{
    if (h->n_rows < h->cap_rows)
        return true;
    size_t cap = h->cap_rows ? 2 * h->cap_rows : 64;
    struct hip_row *p = realloc(h->row, cap * sizeof *p);
    if (!p)
        return false;
    h->row = p;
    h->cap_rows = cap;
    return true;
}

static status load_row(struct hip *h, const struct gpu_kernel *row, struct hip_row *out, struct err *e)
{
    *out = (struct hip_row){ .row = row };
    int r = h->rt.f.module_load(&out->module, h->rt.api->binary(kernel_bin_find(row->id)));
    if (r != HIP_OK)
        return fail(e, ERR_DEVICE, "%s: %s: %s does not take the code for %s: %s", h->rt.api->name, row->id, h->phys.name, h->rt.api->target,
                    hip_error(&h->rt, r));
    r = h->rt.f.module_function(&out->function, out->module, row->id);
    if (r == HIP_OK)
        return OK;
    h->rt.f.module_unload(out->module);
    return fail(e, ERR_DEVICE, "%s: %s: its code has no kernel of this name: %s", h->rt.api->name, row->id, hip_error(&h->rt, r));
}

static status function_of(struct hip *h, const struct gpu_kernel *row, hip_function *out, struct err *e)
{
    size_t at = find_row(h, row);
    if (at == h->n_rows || h->row[at].row != row) {
        struct hip_row fresh;
        const char *why = hindrance(h, row);
        if (why)
            return fail(e, ERR_DEVICE, "%s: %s: %s", h->rt.api->name, row->id, why);
        if (!reserve_rows(h))
            return fail(e, ERR_NOMEM, "%s: table of kernels", h->rt.api->name);
        TRY(load_row(h, row, &fresh, e));
        memmove(h->row + at + 1, h->row + at, (h->n_rows - at) * sizeof *h->row);
        h->row[at] = fresh;
        h->n_rows++;
    }
    *out = h->row[at].function;
    return OK;
}

void hip_rows_close(struct hip *h)
{
    for (size_t i = 0; i < h->n_rows; i++)
        h->rt.f.module_unload(h->row[i].module);
    h->n_rows = 0;
}

/* ---- lists ---- */

struct hip_list {
    bool ran;
    hip_exec exec;           /* NULL: not yet */
    hip_function function[]; /* of each call */
};

static uint32_t groups_of(const struct gpu_call *call)
{
    uint32_t grain = call->table->row[call->id].grain;
    return call->n_items / grain + (call->n_items % grain != 0);
}

/* All that can be found out before a call is launched */
static status prepare(struct hip *h, const struct gpu_call *call, hip_function *f, struct err *e)
{
    const struct gpu_kernel *row = &call->table->row[call->id];
    uint32_t most = h->rt.api->groups_max ? h->rt.api->groups_max : UINT32_MAX / MAX(1u, row->workgroup);
    TRY(function_of(h, row, f, e));
    if (groups_of(call) > most)
        return fail(e, ERR_DEVICE, "%s: %s: %u groups, %s allows %u", h->rt.api->name, row->id, groups_of(call), h->phys.name, most);
    return OK;
}

static status list_make(struct hip *h, struct gpu_cmd *c, struct err *e)
{
    struct hip_list *l = calloc(1, sizeof *l + c->n * sizeof *l->function);
    status s = l ? OK : fail(e, ERR_NOMEM, "%s: list", h->rt.api->name);
    for (uint32_t i = 0; s == OK && i < c->n; i++)
        s = prepare(h, &c->call[i], &l->function[i], e);
    if (s != OK) {
        free(l);
        return s;
    }
    c->recording = l;
    return OK;
}

void hip_forget(gpu *g, struct gpu_cmd *c)
{
    struct hip *h = hip_of(g);
    struct hip_list *l = c->recording;
    if (l && l->exec && h->dead.code == OK)
        hip_reach(h, NULL, NULL);
    if (l && l->exec && !h->hung)
        h->rt.f.exec_destroy(l->exec);
    free(l);
    c->recording = NULL;
}

/* The runtime copies the arguments. */
static int launch(struct hip *h, struct gpu_call *call, hip_function f)
{
    void *args[] = { call->args };
    return h->rt.f.launch(f, groups_of(call), 1, 1, call->table->row[call->id].workgroup, 1, 1, 0, h->stream, args, NULL);
}

static int launch_all(struct hip *h, struct gpu_cmd *c, const struct hip_list *l, const char **doing)
{
    int r = HIP_OK;
    for (uint32_t i = 0; r == HIP_OK && i < c->n; i++) {
        r = launch(h, &c->call[i], l->function[i]);
        *doing = c->call[i].table->row[c->call[i].id].id;
    }
    return r;
}

/* A capture that has begun is ended whatever happens in it: the stream could not be used otherwise. */
static int capture(struct hip *h, struct gpu_cmd *c, const struct hip_list *l, hip_graph *graph, const char **doing)
{
    *doing = "capture of a list";
    int r = h->rt.f.capture_begin(h->stream, HIP_CAPTURE_THIS_THREAD);
    if (r != HIP_OK)
        return r;
    r = launch_all(h, c, l, doing);
    int ended = h->rt.f.capture_end(h->stream, graph);
    if (r != HIP_OK)
        return r;
    *doing = "capture of a list";
    return ended;
}

static status make_graph(struct hip *h, struct gpu_cmd *c, struct hip_list *l, struct err *e)
{
    hip_graph graph = NULL;
    const char *doing;
    int r = capture(h, c, l, &graph, &doing);
    if (r == HIP_OK) {
        doing = "making of a graph";
        r = h->rt.f.graph_instantiate(&l->exec, graph, 0);
    }
    if (graph)
        h->rt.f.graph_destroy(graph);
    return r == HIP_OK ? OK : hip_lose(h, r, doing, e);
}

status hip_start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    struct hip *h = hip_of(g);
    const char *doing = "launch of a graph";
    TRY(hip_alive(h, e));
    if (c->n == 0)
        return OK;
    if (!c->recording)
        TRY(list_make(h, c, e));
    struct hip_list *l = c->recording;
    if (l->ran && !l->exec && !h->no_graph)
        TRY(make_graph(h, c, l, e));
    h->busy = true;
    int r = l->exec ? h->rt.f.graph_launch(l->exec, h->stream) : launch_all(h, c, l, &doing);
    l->ran = true;
    return r == HIP_OK ? OK : hip_lose(h, r, doing, e);
}

/* ---- time per call ---- */

/* Every call between two events */
static int launch_timed(struct hip *h, struct gpu_cmd *c, const struct hip_list *l, hip_event *event, const char **doing)
{
    int r = HIP_OK;
    *doing = "event";
    for (uint32_t i = 0; r == HIP_OK && i <= c->n; i++)
        r = h->rt.f.event_create(&event[i], 0);
    if (r == HIP_OK)
        r = h->rt.f.event_record(event[0], h->stream);
    for (uint32_t i = 0; r == HIP_OK && i < c->n; i++) {
        r = launch(h, &c->call[i], l->function[i]);
        if (r != HIP_OK)
            *doing = c->call[i].table->row[c->call[i].id].id;
        else
            r = h->rt.f.event_record(event[i + 1], h->stream);
    }
    return r;
}

static status read_times(struct hip *h, uint32_t n, const hip_event *event, double *seconds, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        float ms = 0;
        int r = h->rt.f.event_elapsed(&ms, event[i], event[i + 1]);
        if (r != HIP_OK)
            return hip_lose(h, r, "time between events", e);
        seconds[i] = 1e-3 * (double)ms;
    }
    return OK;
}

status hip_profile(gpu *g, struct gpu_cmd *c, double *seconds, struct err *e)
{
    struct hip *h = hip_of(g);
    const char *doing;
    TRY(hip_alive(h, e));
    if (c->n == 0)
        return OK;
    if (!c->recording)
        TRY(list_make(h, c, e));
    hip_event *event = calloc((size_t)c->n + 1, sizeof *event);
    if (!event)
        return fail(e, ERR_NOMEM, "%s: events", h->rt.api->name);
    int r = launch_timed(h, c, c->recording, event, &doing);
    h->busy = true;
    status s = r == HIP_OK ? hip_reach(h, NULL, e) : hip_lose(h, r, doing, e);
    if (s == OK)
        s = read_times(h, c->n, event, seconds, e);
    for (uint32_t i = 0; i <= c->n && !h->hung; i++)
        if (event[i])
            h->rt.f.event_destroy(event[i]);
    free(event);
    return s;
}
