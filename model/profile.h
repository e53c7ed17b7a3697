/* profile.h - calls added up by kernel row and part of the model: what --profile and info --ledger print, and a trace for a viewer. */
#ifndef HAYATE_MODEL_PROFILE_H
#define HAYATE_MODEL_PROFILE_H

#include "model/model.h"

#include <jansson.h>
#include <stdio.h>

/* Calls of one row in one part of the model, and all calls of a part or of everything (row = NULL). */
struct tally_line {
    const char *row, *part;
    uint64_t calls;
    double seconds;
    struct gpu_moves moves;
};
enum { TALLY_ROWS = 256, TALLY_PARTS = 16, TALLY_KNOWN = 512 };
struct tally {
    struct tally_line row[TALLY_ROWS], part[TALLY_PARTS], all;
    size_t n_row, n_part;
    struct tally_known {
        const char *row, *part;
        struct tally_line *of_row, *of_part;
    } known[TALLY_KNOWN]; /* lines found before, by the addresses of their names */
};
void tally_add(struct tally *t, const struct session_call *c);
/* Rows and parts by the time they took, or by bytes where nothing was timed; the longest first. */
void tally_sort(struct tally *t);

struct profile {
    struct tally prefill, decode;
    uint64_t ngram_rows; /* what session_gathered says, set by the caller as wall is */
    double ngram_seconds;
    double wall;     /* seconds of all the steps as their caller saw them: what is not in a call is the host's */
    FILE *trace;
    const char *trace_path;
    uint64_t n_trace;
    double trace_start;
};
/* trace_path: a file for chrome://tracing or Perfetto, which begins now; NULL: none. ERR_IO. */
status profile_open(struct profile *p, const char *trace_path, struct err *e);
/* Begins anew with the sums; a trace goes on. */
void profile_restart(struct profile *p);
/* A session_call_fn; ctx is the profile. */
void profile_call(void *ctx, const struct session_call *c);
/* Sorts, and prints on out: rows and parts of prompt and decode steps, the host, and what the clock itself costs on the cpu. */
void profile_print(struct profile *p, FILE *out, bool on_cpu);
/* The same as {"prefill": [...], "decode": [...], "host_s": x}; NULL without memory. */
json_t *profile_json(struct profile *p);
/* Completes the trace. ERR_IO when it could not be written; a regular file is removed then. */
status profile_close(struct profile *p, struct err *e);

#endif
