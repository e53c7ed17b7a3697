/* cmd_selftest.c - every kernel row against its C reference on this device, or (--machine) what the device can do. */
#include "model/machine.h"
#include "model/options.h"
#include "model/row_check.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tally {
    uint32_t passed, failed, left_out;
};

/* Rows of files[], which may be patterns ("qsa_*"); all without any */
static bool wanted(const struct options *o, const char *id)
{
    for (size_t i = 0; i < o->n_files; i++)
        if (fnmatch(o->files[i], id, 0) == 0)
            return true;
    return o->n_files == 0;
}

static status check_names(const struct options *o, struct err *e)
{
    for (size_t i = 0; i < o->n_files; i++) {
        bool found = false;
        for (int m = 0; m < ROW_MODULES; m++)
            for (uint32_t id = 0; id < row_modules[m].table->n; id++)
                found |= fnmatch(o->files[i], row_modules[m].table->row[id].id, 0) == 0;
        if (!found)
            return fail(e, ERR_USAGE, "selftest: no row '%s'; without names all are run", o->files[i]);
    }
    return OK;
}

/* Why this device does not run the row; NULL: it does, "": nobody expects it to. */
static const char *left_out(const gpu *g, const struct gpu_kernel_table *t, uint32_t id)
{
    const struct gpu_kernel *row = &t->row[id];
    const struct gpu_info *info = gpu_info_of(g);
    if (gpu_has(g, t, id))
        return NULL;
    if (row->workgroup == 0)
        return "";
    if (row->needs & NEED_MATRIX && !info->matrix)
        return "needs cooperative matrices, which the device lacks";
    if (row->needs & NEED_LAST_GROUP && !info->last_group)
        return "needs atomics of device scope, which the device lacks";
    return "no binary for this backend";
}

static void print_result(const char *id, const char *build, const struct row_result *r)
{
    char error[32] = "equal", limit[32] = "exact", ratio[32] = "-";
    if (r->ratio > 0 || r->limit > 0)
        snprintf(error, sizeof error, "%.2e", r->error);
    if (r->limit > 0) {
        snprintf(limit, sizeof limit, "%.2e", r->limit);
        snprintf(ratio, sizeof ratio, "%.3f", r->ratio);
    }
    if (r->no_cases)
        printf("%-20s %-9s %s\n", id, build, "FAIL: a kernel without cases (model/row_cases_*.c)");
    else
        printf("%-20s %-9s %6u %9llu  %11s %10s %9s  %s\n", id, build, r->shapes, (unsigned long long)r->values, error, limit, ratio,
               row_passed(r) ? "ok" : "FAIL");
    if (r->first[0])
        printf("    %s\n", r->first);
    fflush(stdout);
}

enum { EVERY_ROW = -2, WITHOUT_TWIN = -1 }; /* else: rows that have a twin in this set */

static status check_rows(const struct options *o, gpu *g, const char *build, int which, struct tally *sum, struct err *e)
{
    struct row_check k;
    TRY(row_check_open(&k, g, e));
    status s = OK;
    for (int m = 0; s == OK && m < ROW_MODULES; m++)
        for (uint32_t id = 0; s == OK && id < row_modules[m].table->n; id++) {
            const struct gpu_kernel_table *t = row_modules[m].table;
            uint32_t rounds = o->rounds ? o->rounds : which == WITHOUT_TWIN ? ROW_ROUNDS / 3 : ROW_ROUNDS;
            struct row_result r;
            if (!wanted(o, t->row[id].id) || left_out(g, t, id) || (which == WITHOUT_TWIN && t->fast[ISA_BASE][id]) ||
                (which >= 0 && !t->fast[which][id]))
                continue;
            s = row_check_run(&k, &row_modules[m], id, rounds, o->sample.seed, &r, e);
            if (s != OK)
                fail_in(e, t->row[id].id);
            else
                print_result(t->row[id].id, build, &r);
            sum->passed += s == OK && row_passed(&r);
            sum->failed += s != OK || !row_passed(&r);
        }
    row_check_close(&k);
    return s;
}

static void print_left_out(const struct options *o, const gpu *g, struct tally *sum)
{
    for (int m = 0; m < ROW_MODULES; m++)
        for (uint32_t id = 0; id < row_modules[m].table->n; id++) {
            const struct gpu_kernel_table *t = row_modules[m].table;
            const char *why = wanted(o, t->row[id].id) ? left_out(g, t, id) : NULL;
            if (!why || (!*why && o->n_files == 0))
                continue;
            printf("%-20s not run: %s\n", t->row[id].id, *why ? why : "this backend has no kernel for it");
            sum->left_out++;
        }
}

/* The twins of every instruction set this machine has; and references that have none, which go through the thread team as in a model: there one
 * code is compared with itself, and fewer cases do. */
static status check_cpu(const struct options *o, struct tally *sum, struct err *e)
{
    static const char *const name[ISA_COUNT] = { "base", "avx2", "avx512" };
    for (int isa = WITHOUT_TWIN; isa < ISA_COUNT; isa++) {
        gpu *g = NULL;
        struct gpu_params p = { .n_threads = o->n_threads, .reference = isa < 0, .isa = (uint32_t)(isa + 1) };
        if (gpu_open_cpu(&g, &p, e) != OK) {
            if (isa < 1) /* the base set is always there */
                return e->code;
            printf("%s\n", e->msg);
            continue;
        }
        status s = check_rows(o, g, isa < 0 ? "reference" : name[isa], isa, sum, e);
        gpu_close(g);
        TRY(s);
    }
    return OK;
}

static status run(const struct options *o, struct tally *sum, struct err *e)
{
    gpu *g = NULL;
    char why[256];
    struct gpu_params p = { .n_threads = o->n_threads, .device = o->device, .no_graph = o->no_graph };
    TRY(check_names(o, e));
    TRY(backend_open(&g, o->backend, &p, why, e));
    if (*why)
        console_note(o->con, "hayate: %s; taking the cpu", why);
    const struct gpu_info *info = gpu_info_of(g);
    printf("device  %s%s%s, seed %llu\n", info->name, *info->driver ? ", " : "", info->driver, (unsigned long long)o->sample.seed);
    status s = OK;
    if (o->machine) {
        s = machine_measure(g, e);
    } else {
        printf("%-20s %-9s %6s %9s  %11s %10s %9s  %s\n", "row", "build", "cases", "values", "worst error", "allowed", "of it", "result");
        s = info->backend == GPU_CPU ? check_cpu(o, sum, e) : check_rows(o, g, "device", EVERY_ROW, sum, e);
        print_left_out(o, g, sum);
    }
    gpu_close(g);
    return s;
}

int cmd_selftest(const struct options *o)
{
    struct err e;
    struct tally sum = { 0 };
    status s = run(o, &sum, &e);
    if (s != OK) {
        console_error(o->con, "%s", e.msg);
        return exit_code_of(s);
    }
    if (o->machine)
        return EXIT_DONE;
    printf("%u passed, %u failed, %u not run\n", sum.passed, sum.failed, sum.left_out);
    return sum.failed == 0 ? EXIT_DONE : EXIT_FAILED;
}
