/* open_model.c - the model of the command line: opened, copied to the device, and what there is to say about that. */
#include "model/options.h"

#include <stdio.h>

struct session_params session_params_of(const struct options *o, size_t n_ctx)
{
    return (struct session_params){ .n_ctx = n_ctx, .n_ubatch = o->n_ubatch, .kv = o->kv, .precise = o->precise, .no_gather = o->no_gather,
                                    .no_union = o->no_union, .no_pooled_cache = o->no_pooled_cache, .pooled_max_tokens = o->pooled_max_tokens,
                                    .n_seq = o->n_parallel, .verify = o->draft != DRAFT_OFF,
                                    .head = o->draft != DRAFT_OFF, .draft_dense = o->draft_dense, .draft_joint = o->draft_joint };
}

struct copying {
    const struct options *o;
    double t0; /* when the first piece had arrived */
    size_t first;
};

/* From here on a signal is seen between two pieces. */
static bool on_copied(void *ctx, size_t done, size_t total)
{
    struct copying *c = ctx;
    struct console *con = c->o->con;
    const double mib = 1 << 20;
    char line[128];
    *c->o->at_once = 0;
    if (!c->first) {
        c->t0 = console_now();
        c->first = done;
    }
    double seconds = console_now() - c->t0, rate = seconds > 0 ? (double)(done - c->first) / seconds : 0;
    int n = snprintf(line, sizeof line, "weights to %s %.0f/%.0f MiB", c->o->load == LOAD_COPY ? "memory" : "the device", (double)done / mib, (double)total / mib);
    if (rate > 0)
        snprintf(line + n, sizeof line - (size_t)n, ", %.0f MiB/s, %.0f s left", rate / mib, (double)(total - done) / rate);
    if (console_status(con, "%s", line))
        console_note(con, "%s", line);
    return !*c->o->stop;
}

status open_model(const struct options *o, model **m, struct err *e)
{
    struct copying c = { .o = o };
    struct model_params p = { .n_threads = o->n_threads, .backend = o->backend, .device = o->device, .load = o->load, .draft_path = o->draft_path, .no_graph = o->no_graph,
                              
                              .head = o->command == CMD_EVAL ? o->n_golden > 0 : o->draft != DRAFT_OFF && o->n_parallel <= 1, .progress = on_copied, .progress_ctx = &c };
    *o->at_once = 1;
    if (*o->stop) /* it came just before; now it is the second one */
        raise(*o->stop);
    status s = model_open(m, o->model_path, &p, e);
    *o->at_once = 0;
    console_progress_end(o->con);
    if (s == OK && model_decoded(*m)) /* as bytes with a scale instead */
        console_note(o->con, "hayate: types without a kernel for this device, decoded while loading: %s", model_decoded(*m));
    return s;
}
