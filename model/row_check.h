/* row_check.h - runs the cases of a row on a device and compares every byte of the image with what the C reference makes of it. */
#ifndef HAYATE_MODEL_ROW_CHECK_H
#define HAYATE_MODEL_ROW_CHECK_H

#include "model/row_cases.h"

enum { ROW_ROUNDS = 42, ALONE_ROUNDS = 12 }; /* sizes repeat after 6, pairs of them after 36; rows of a batch are run alone in the first ones */

struct row_result {
    uint32_t shapes;     /* cases that were run */
    uint64_t values;     /* output elements compared */
    double error, limit; /* |got - want| and what it may be, where they are closest to each other or furthest beyond */
    double ratio;        /* error / limit; INFINITY for a difference where none may be, NaN, and bytes that may not change */
    double largest;      /* the largest |got - want| of all */
    bool no_cases;
    char first[400];     /* the first difference beyond the limit, with the sizes; "" when there is none */
};
static inline bool row_passed(const struct row_result *r) { return !r->no_cases && !r->first[0]; }

struct row_check {
    gpu *g;
    struct row_case c;
    struct gpu_mem mem;   /* of the device, grows with the largest image */
    struct gpu_cmd cmd;
    float *scratch;
    uint8_t *sent, *got;  /* the image as the device gets it and as it gives it back */
    uint8_t *batch;       /* what it gave back for the whole batch, while rows are run alone */
};

status row_check_open(struct row_check *k, gpu *g, struct err *e);
void row_check_close(struct row_check *k); /* accepts a half-open one */
/* One case, added to r; it stays in k->c, as far as it is input. An error means that the device failed, not that a result is wrong. */
status row_check_case(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t round, uint64_t seed, struct row_result *r, struct err *e);
/* n_rounds cases of a row. */
status row_check_run(struct row_check *k, const struct row_module *m, uint32_t id, uint32_t n_rounds, uint64_t seed, struct row_result *r, struct err *e);

#endif
