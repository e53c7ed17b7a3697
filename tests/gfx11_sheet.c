/* gfx11_sheet.c - what the hottest gfx1151 code objects do per pass of their inner loop, counted on the interpreter on shapes of the real model (all
 * columns, fewer rows). Prints the lines of a table; tests/gfx11_sheet.sh puts them into README.md. `make gfx11-sheet`.
 *
 *     gfx11_sheet            the table
 *     gfx11_sheet ROW        the code of that row: how often each instruction ran, and the loops */
#include "gpu/gpu_kernels.h"
#include "gpu/quant.h"
#include "model/model_kernels.h"
#include "model/row_check.h"
#include "tests/gfx11/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases: the real model's widths ---- */

enum { EMBD = 2560, STREAMS = 4, RANK = 320, FF = 640, USED = 10, EXPERTS = 16, TOKENS = 64 };

/* Weights that the launch of the case multiplies with something in its inner loop */
static uint64_t case_weights;

static void matmul_case(struct row_case *c, uint32_t n_out, uint32_t n_tok, uint32_t n_item)
{
    struct weights_size size;
    float *y = case_f32(c, "y", BUF_OUT, (size_t)n_tok * n_out);
    struct matmul_job *job = case_struct(c, "job", sizeof *job);
    *job = (struct matmul_job){ .w = case_device_mat(c, "w", QUANT_Q8_0, true, EMBD, n_out, &size), .y = ADDR(y), .y_stride = n_out, .scale = 1 };
    struct matmul_args a = { .x = ADDR(case_f32(c, "x", BUF_IN, (size_t)n_tok * EMBD)), .job = ADDR(job), .x_stride = EMBD, .n_job = 1, .n_tok = n_tok };
    gpu_matvec_blocks(&a, job, 4 * MATVEC_GRAIN);
    case_tolerance(c, y, SUM_ABS(EMBD, DEVICE_TERM(size)) + (n_tok > 1 ? F16_ABS(EMBD, size) : 0), 0);
    case_weights = (uint64_t)n_out * EMBD;
    case_call(c, &a, sizeof a, n_item);
}
static void matvec(struct row_case *c) { matmul_case(c, 4 * MATVEC_GRAIN, 1, MATVEC_GRAIN); }
static void gemm(struct row_case *c) { matmul_case(c, GEMM_ROWS, GEMM_TOKENS, 1); }

static void hc_down(struct row_case *c)
{
    enum { N = STREAMS * EMBD };
    struct weights_size size[2];
    struct hc_mats *m = case_struct(c, "hc", sizeof *m);
    m->down = case_device_mat(c, "down", QUANT_Q8_0, true, N, RANK, &size[0]);
    m->inject = case_device_mat(c, "inject mat", QUANT_BF16, true, N, STREAMS, &size[1]);
    float *out = case_f32(c, "residual_out", BUF_OUT, N), *part = case_f32(c, "part", BUF_OUT, STREAMS * (RANK + STREAMS)), *squares = case_f32(c, "squares", BUF_OUT, STREAMS);
    struct hc_down_args a = { .residual = ADDR(case_f32(c, "residual", BUF_IN, N)), .residual_out = ADDR(out), .y = ADDR(case_f32(c, "y", BUF_IN, EMBD)),
                              .inject = ADDR(case_f32(c, "inject", BUF_IN, STREAMS)), .gain = ADDR(case_f32(c, "gain", BUF_IN, N)), .hc = ADDR(m), .part = ADDR(part),
                              .squares = ADDR(squares), .n_stream = STREAMS, .n_embd = EMBD, .n_tok = 1, .tok_group = 1 };
    case_tolerance(c, out, SUM_ABS(1, 2), 0);
    case_tolerance(c, squares, 0, SUM_REL(EMBD) + 4 * U);
    case_tolerance(c, part, SUM_ABS(EMBD + 3, 2 * fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1]))), 0);
    case_weights = (uint64_t)N * RANK; /* those of Wi go through a loop of their own */
    case_call(c, &a, sizeof a, STREAMS * (RANK / hc_block_rows(1u) + 1) * HC_GRAIN);
}

static struct moe_block *experts(struct row_case *c)
{
    struct moe_block *b = case_struct(c, "block", sizeof *b);
    b->n_expert = EXPERTS, b->n_used = USED, b->n_embd = EMBD, b->ff = FF, b->shared_ff = FF;
    return b;
}
/* The last USED of them, ascending */
static uint32_t *choice(struct row_case *c)
{
    uint32_t *id = case_u32(c, "id", BUF_IN, USED);
    for (uint32_t i = 0; i < USED; i++)
        id[i] = EXPERTS - USED + i;
    return id;
}
static void gate_and_up(struct row_case *c, struct moe_block *b, struct weights_size size[2])
{
    b->gate = case_device_mat(c, "gate", QUANT_Q4_K, false, EMBD, b->ff * b->n_expert, &size[0]);
    b->up = case_device_mat(c, "up", QUANT_Q4_K, false, EMBD, b->ff * b->n_expert, &size[1]);
    b->gate.rows_per_expert = b->up.rows_per_expert = b->ff;
}
/* silu(g) * u, both with the error e and of three standard deviations at most */
static double product_error(const struct weights_size size[2], double e) { return 2.1 * e * fmax(PRODUCT_SIZE(EMBD, size[0]), PRODUCT_SIZE(EMBD, size[1])); }

static void moe_up(struct row_case *c)
{
    struct moe_block *b = experts(c);
    struct weights_size size[2];
    b->ff = 2 * MOE_UP_GRAIN;
    gate_and_up(c, b, size);
    float *h = case_f32(c, "h", BUF_OUT, USED * b->ff);
    struct moe_up_args a = { .block = ADDR(b), .id = ADDR(choice(c)), .u = ADDR(case_f32(c, "u", BUF_IN, EMBD)), .h = ADDR(h), .n_tok = 1, .spans = 1 };
    case_tolerance(c, h, product_error(size, SUM_ABS(EMBD, fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1])))), SIGMOID_REL(8));
    case_weights = (uint64_t)USED * 2 * b->ff * EMBD;
    case_call(c, &a, sizeof a, USED * b->ff);
}

static void moe_mix(struct row_case *c)
{
    struct moe_block *b = experts(c);
    struct weights_size size[2];
    b->n_embd = 8 * MOE_MIX_GRAIN;
    b->down = case_device_mat(c, "down", QUANT_Q5_1, false, FF, b->n_embd * b->n_expert, &size[0]);
    b->shared_down = case_device_mat(c, "shared_down", QUANT_Q8_0, true, FF, b->n_embd, &size[1]);
    float *y = case_f32(c, "y", BUF_OUT, b->n_embd);
    struct moe_mix_args a = { .block = ADDR(b), .id = ADDR(choice(c)), .weight = ADDR(case_f32(c, "weight", BUF_IN, USED)), .h = ADDR(case_f32(c, "h", BUF_IN, USED * FF)),
                              .gate = ADDR(case_f32(c, "gate", BUF_IN, FF)), .up = ADDR(case_f32(c, "up", BUF_IN, FF)), .scalar = ADDR(case_f32(c, "scalar", BUF_IN, 1)),
                              .y = ADDR(y), .n_tok = 1, .spans = 1 };
    case_tolerance(c, y, SUM_ABS(FF * USED, DEVICE_TERM(size[0])) + SUM_ABS(FF, DEVICE_TERM(size[1])) + PRODUCT_SIZE(FF, size[1]) * SIGMOID_REL(1), 0);
    case_weights = (uint64_t)(USED + 1) * FF * b->n_embd;
    case_call(c, &a, sizeof a, b->n_embd);
}

/* A full tile of entries of each of two experts */
static void moe_gemm_up(struct row_case *c)
{
    struct moe_block *b = experts(c);
    struct weights_size size[2];
    b->n_expert = 2, b->n_used = 2, b->ff = MOE_PAIRS;
    gate_and_up(c, b, size);
    uint32_t n = TOKENS * b->n_used, *start = case_u32(c, "start", BUF_IN, 3), *row = case_u32(c, "row", BUF_IN, n), *n_tile = case_u32(c, "n_tile", BUF_IN, 1);
    struct moe_tile *tile = (void *)case_u32(c, "tile", BUF_IN, 4);
    for (uint32_t e = 0; e < 2; e++)
        tile[e] = (struct moe_tile){ .expert = e }, start[e] = e * TOKENS;
    for (uint32_t i = 0; i < n; i++)
        row[i] = i % TOKENS;
    *n_tile = 2, start[2] = n;
    float *h = case_f32(c, "h", BUF_OUT, (size_t)n * b->ff);
    struct moe_gemm_args a = { .block = ADDR(b), .tile = ADDR(tile), .n_tile = ADDR(n_tile), .start = ADDR(start), .row = ADDR(row),
                               .x = ADDR(case_f32(c, "u", BUF_IN, TOKENS * EMBD)), .y = ADDR(h), .max_tile = 2 };
    double e = SUM_ABS(EMBD, fmax(DEVICE_TERM(size[0]), DEVICE_TERM(size[1]))) + fmax(F16_ABS(EMBD, size[0]), F16_ABS(EMBD, size[1]));
    case_tolerance(c, h, product_error(size, e), SIGMOID_REL(8));
    case_weights = (uint64_t)2 * 2 * b->ff * EMBD;
    case_call(c, &a, sizeof a, 2);
}

static const struct row_cases real_cases[] = { { .ref = matvec_ref, .build = matvec },   { .ref = gemm_ref, .build = gemm },     { .ref = hc_down_ref, .build = hc_down },
                                               { .ref = moe_up_ref, .build = moe_up },   { .ref = moe_mix_ref, .build = moe_mix },
                                               { .ref = moe_gemm_up_ref, .build = moe_gemm_up }, { 0 } };
static const struct row_module modules[] = { { "gpu", &gpu_kernels, real_cases }, { "model", &model_kernels, real_cases } };

/* budget: what the plan of the kernels allows, vector instructions per weight or, on matrix units, per WMMA; 0: it says nothing */
static const struct hot {
    const char *id, *weights;
    double budget;
} hot[] = {
    { "matvec_NONE_r1", "Q8_0", 3.5 }, { "hc_down_r1", "Q8_0", 3.5 },    { "moe_up_Q4_K", "Q4_K", 6.3 },
    { "moe_mix_Q5_1", "Q5_1", 0 },     { "gemm_NONE", "Q8_0", 92.0 / 32 }, { "moe_gemm_up_Q4_K", "Q4_K", 75.0 / 12 },
};

/* ---- counting ---- */

struct mix {
    double all, vector, fma, dual, wmma, load16, lds; /* vector: all but wmma; a pair of dual issue is one */
};
static void mix_add(struct mix *m, const char *text, double n)
{
    bool wmma = strncmp(text, "v_wmma", 6) == 0, vector = strncmp(text, "v_", 2) == 0 && !wmma;
    m->all += n;
    m->wmma += wmma ? n : 0;
    m->vector += vector ? n : 0;
    m->fma += vector && (strstr(text, "_fma") || strstr(text, "_dot2")) ? n : 0;
    m->dual += strncmp(text, "v_dual", 6) == 0 ? n : 0;
    m->load16 += strncmp(text, "global_load_b128", 16) == 0 ? n : 0;
    m->lds += strncmp(text, "ds_", 3) == 0 ? n : 0;
}

/* One instruction of the code, as far as it ran, and where it goes on */
struct flow {
    size_t at;
    char text[160];
    uint64_t ran;
    uint32_t next, jump; /* NONE: it never goes there */
};
enum { NONE = UINT32_MAX, MOST_LOOPS = 64 };

/* Where the code goes to an instruction that every way to there has passed before, and all from which that step can be reached again */
struct loop {
    uint32_t head, n;
    uint8_t *body;  /* [n instructions of the code] */
    struct mix own; /* of instructions that lie in no smaller loop */
};

static uint32_t index_of(const struct flow *f, uint32_t n, size_t at)
{
    for (uint32_t i = 0; i < n; i++)
        if (f[i].at == at)
            return i;
    return NONE;
}

/* The number of instructions in f, which has room for one per word */
static uint32_t read_flow(const struct code *c, const uint64_t *ran, struct flow *f)
{
    uint32_t n = 0;
    for (size_t at = 0, bytes; (bytes = gfx11_disassemble(c, at, f[n].text, sizeof f[n].text)); at += bytes, n++)
        f[n].at = at, f[n].ran = ran[at / 4];
    for (uint32_t i = 0; i < n; i++) {
        const char *t = f[i].text;
        bool always = strncmp(t, "s_branch", 8) == 0, branch = always || strncmp(t, "s_cbranch", 9) == 0;
        f[i].next = always || i + 1 == n || strncmp(t, "s_endpgm", 8) == 0 ? NONE : i + 1;
        f[i].jump = branch ? index_of(f, n, f[i].at + 4 + (size_t)(4 * (int64_t)(int16_t)strtoul(strchr(t, ' ') + 1, NULL, 10))) : NONE;
    }
    return n;
}

/* Whether the first instruction leads to `to` without passing `around` */
static bool leads_around(const struct flow *f, uint32_t n, uint32_t to, uint32_t around)
{
    uint8_t *seen = calloc(n, 1);
    bool more = seen && around != 0, found;
    for (seen[0] = more; more;) {
        more = false;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0, s; seen[i] && k < 2; k++)
                if ((s = k ? f[i].jump : f[i].next) != NONE && s != around && f[s].ran && !seen[s])
                    seen[s] = more = true;
    }
    found = seen[to];
    free(seen);
    return found;
}

/* Takes everything that ran into the body from which its members are reached, not through the head */
static void grow_body(const struct flow *f, uint32_t n, struct loop *l)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = n; i-- > 0;)
            for (uint32_t k = 0, s; !l->body[i] && f[i].ran && k < 2; k++)
                if ((s = k ? f[i].jump : f[i].next) != NONE && s != l->head && l->body[s])
                    l->body[i] = 1, l->n++, more = true;
    }
}

/* Adds the step from instruction i to head to the loops if it closes one; their number */
static uint32_t add_step(const struct flow *f, uint32_t n, uint32_t i, uint32_t head, struct loop *loop, uint32_t n_loop)
{
    uint32_t k = 0;
    if (leads_around(f, n, i, head))
        return n_loop;
    while (k < n_loop && loop[k].head != head)
        k++;
    if (k == MOST_LOOPS)
        return n_loop;
    if (k == n_loop)
        loop[n_loop++] = (struct loop){ .head = head, .n = 1, .body = calloc(n, 1) };
    if (!loop[k].body)
        return n_loop - 1;
    loop[k].body[head] = 1;
    loop[k].n += !loop[k].body[i];
    loop[k].body[i] = 1;
    grow_body(f, n, &loop[k]);
    return n_loop;
}

/* The loops that ran, without their counts; their number. Only where ways meet can one begin. */
static uint32_t find_loops(const struct flow *f, uint32_t n, struct loop *loop)
{
    uint32_t n_loop = 0, *ways = calloc(n, sizeof *ways);
    for (uint32_t i = 0; ways && i < n; i++)
        for (uint32_t k = 0, s; f[i].ran && k < 2; k++)
            if ((s = k ? f[i].jump : f[i].next) != NONE)
                ways[s]++;
    for (uint32_t i = 0; ways && i < n; i++)
        for (uint32_t k = 0, s; f[i].ran && k < 2; k++)
            if ((s = k ? f[i].jump : f[i].next) != NONE && f[s].ran && ways[s] > 1)
                n_loop = add_step(f, n, i, s, loop, n_loop);
    free(ways);
    return n_loop;
}

/* The smallest loop around instruction i with more than `above` instructions; NULL: none */
static struct loop *loop_around(uint32_t i, struct loop *loop, uint32_t n_loop, uint32_t above)
{
    struct loop *in = NULL;
    for (uint32_t k = 0; k < n_loop; k++)
        if (loop[k].body[i] && loop[k].n > above && (!in || loop[k].n < in->n))
            in = &loop[k];
    return in;
}

static bool has_wmma(const struct flow *f, uint32_t n, const struct loop *l)
{
    for (uint32_t i = 0; i < n; i++)
        if (l->body[i] && strstr(f[i].text, "wmma"))
            return true;
    return false;
}

/* Gives every instruction to the smallest loop around it, and all to *whole; two passes over matrices belong to the loop around them. The loop with most
 * instructions of its own; NULL: there is none */
static const struct loop *count(const struct flow *f, uint32_t n, struct loop *loop, uint32_t n_loop, struct mix *whole)
{
    const struct loop *most = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct loop *in = loop_around(i, loop, n_loop, 0), *around = in ? loop_around(in->head, loop, n_loop, in->n) : NULL;
        if (around && f[in->head].ran <= 2 * f[around->head].ran && has_wmma(f, n, in))
            in = around;
        mix_add(whole, f[i].text, (double)f[i].ran);
        if (in)
            mix_add(&in->own, f[i].text, (double)f[i].ran);
    }
    for (uint32_t k = 0; k < n_loop; k++)
        if (!most || loop[k].own.all > most->own.all)
            most = &loop[k];
    return most;
}

static void print_line(const struct hot *h, const struct loop *l, const struct mix *whole, double passes)
{
    double vectors = whole->wmma > 0 ? l->own.vector / l->own.wmma : 32 * l->own.vector / (double)case_weights;
    char budget[40] = "";
    if (h->budget > 0)
        snprintf(budget, sizeof budget, "%.1f", h->budget);
    printf("| `%s` (%s) | %.0f | %.0f %% | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f | %.2f | %s |\n", h->id, h->weights, l->own.all / passes, 100 * l->own.all / whole->all,
           l->own.load16 / passes, l->own.lds / passes, l->own.vector / passes, l->own.fma / passes, l->own.dual / passes, l->own.wmma / passes,
           32 * whole->vector / (double)case_weights, vectors, budget);
}

static void print_code(const struct flow *f, uint32_t n, const struct loop *loop, uint32_t n_loop)
{
    for (uint32_t i = 0; i < n; i++)
        printf("%8llu  +%04zx  %s\n", (unsigned long long)f[i].ran, f[i].at, f[i].text);
    for (uint32_t k = 0; k < n_loop; k++)
        printf("loop at +%04zx, %u instructions, %.0f run that lie in no smaller one, %llu passes\n", f[loop[k].head].at, loop[k].n, loop[k].own.all,
               (unsigned long long)f[loop[k].head].ran);
}

/* What ran of a code object: its loops, or all of it */
static status report(const struct hot *h, const struct code *c, const uint64_t *ran, bool all, struct err *e)
{
    struct flow *f = calloc(gfx11_code_bytes(c) / 4 + 1, sizeof *f);
    struct loop loop[MOST_LOOPS];
    struct mix whole = { 0 };
    if (!f)
        return fail(e, ERR_NOMEM, "%s", h->id);
    uint32_t n = read_flow(c, ran, f), n_loop = find_loops(f, n, loop);
    const struct loop *most = count(f, n, loop, n_loop, &whole);
    if (all)
        print_code(f, n, loop, n_loop);
    else if (most)
        print_line(h, most, &whole, (double)f[most->head].ran);
    for (uint32_t k = 0; k < n_loop; k++)
        free(loop[k].body);
    free(f);
    return all || most ? OK : fail(e, ERR_FORMAT, "%s: no loop", h->id);
}

static status sheet_row(const struct hot *h, bool code, struct err *e)
{
    struct row_check k = { 0 };
    struct row_result r = { 0 };
    const struct code *c = NULL;
    gpu *g = NULL;
    status s = gpu_open_gfx11(&g, &(struct gfx11_options){ 0 }, e);
    if (s == OK)
        s = row_check_open(&k, g, e);
    for (uint32_t m = 0; s == OK && m < COUNT_OF(modules); m++)
        for (uint32_t id = 0; s == OK && id < modules[m].table->n; id++)
            if (strcmp(modules[m].table->row[id].id, h->id) == 0)
                s = row_check_case(&k, &modules[m], id, ROW_ROUNDS, 11, &r, e); /* a late round: no launch but the one that is counted */
    const uint64_t *ran = s == OK ? gfx11_row_ran(g, h->id, &c) : NULL;
    if (s == OK && (!ran || !row_passed(&r) || !r.values))
        s = fail(e, ERR_FORMAT, "%s: %s", h->id, !ran ? "no such row" : r.first[0] ? r.first : "nothing was compared");
    if (s == OK)
        s = report(h, c, ran, code, e);
    row_check_close(&k);
    gpu_close(g);
    return s;
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    if (argc > 1) {
        if (sheet_row(&(struct hot){ .id = argv[1] }, true, &e) == OK)
            return 0;
        return fprintf(stderr, "gfx11_sheet: %s\n", e.msg), 1;
    }
    for (uint32_t i = 0; i < COUNT_OF(hot); i++)
        if (sheet_row(&hot[i], false, &e) != OK)
            return fprintf(stderr, "gfx11_sheet: %s\n", e.msg), 1;
    return 0;
}
