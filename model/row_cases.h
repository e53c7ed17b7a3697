/* row_cases.h - random cases for kernel rows: inputs, arguments, and how far a result may lie from the row's C reference. selftest and the
 * property tests run them, on the cpu and on devices.
 *
 * A case is one image of memory: named buffers one after the other, each between guards. Whatever may not be read (guards, padding) and whatever
 * is to be written holds POISON, a NaN in f32 and f16 and an absurd index, so a read too far shows in the results and a write too far in the guards.
 * A builder fills buffers and structs with plain host addresses into the image, so the image can run on the host as it is; for a device a copy is
 * relocated (case_relocate).
 *
 * A new row: one builder and one line in the module's table below. A row that shares its reference with others shares their builder; the
 * builder finds the row in c->row. */
#ifndef HAYATE_MODEL_ROW_CASES_H
#define HAYATE_MODEL_ROW_CASES_H

#include "gpu/gpu.h"
#include "gpu/run_args.h"

enum buf_kind {
    BUF_IN,     /* must not change */
    BUF_OUT,    /* poison before; elements that the reference leaves alone must stay as they are */
    BUF_INOUT,
    BUF_WORK,   /* may hold anything afterwards */
    BUF_STRUCT, /* as BUF_IN; 64-bit words that are addresses into the image are relocated */
};
enum buf_elem { ELEM_F32, ELEM_F16, ELEM_U32 };
static const uint32_t POISON = 0x7fe57fe5u;

struct case_buf {
    const char *name;
    enum buf_kind kind;
    enum buf_elem elem;
    size_t at, bytes;  /* place in the image */
    double abs, rel;   /* |got - want| <= abs + rel * |want|; both 0: the same bits */
};

enum { CASE_BUFS = 40, CASE_BYTES = 256 << 20, CASE_SCRATCH = 1 << 18 };
struct row_case {
    const struct gpu_kernel *row;
    uint32_t round;                    /* 0, 1, ...: which sizes */
    uint32_t shrink;                   /* set by who runs cases: ranges of sizes are halved so many times, except for what lies around a tile */
    uint64_t rng;
    uint8_t *image;                    /* CASE_BYTES, touched as far as used */
    size_t used;
    struct case_buf buf[CASE_BUFS];
    uint32_t n_buf;
    uint64_t args[GPU_ARGS_MAX / 8];
    uint32_t n_items;
    uint32_t n_rows;                   /* rows of the batch, for struct row_cases.alone */
    char shape[200];                   /* for messages: "n_tok 3, n_embd 257" */
};

/* ---- for builders ---- */

uint32_t case_rnd(struct row_case *c, uint32_t n);                   /* 0 .. n - 1 */
uint32_t case_some(struct row_case *c, uint32_t n);                  /* the same for a size that knows no tile: c->shrink halves n */
float case_uniform(struct row_case *c);                              /* -1 .. 1 */
/* A size in lo..hi: over the rounds of a row 1, tile - 1, tile, tile + 1, an odd one, any one. which: sizes of one case get different numbers 0, 1, ...
 * and meet each other in changing pairs. */
uint32_t case_size(struct row_case *c, uint32_t which, uint32_t tile, uint32_t lo, uint32_t hi);

/* Buffers of n elements. BUF_IN and BUF_INOUT of f32 are filled with case_uniform, the others with POISON. */
float *case_f32(struct row_case *c, const char *name, enum buf_kind kind, size_t n);
uint16_t *case_f16(struct row_case *c, const char *name, enum buf_kind kind, size_t n);
uint32_t *case_u32(struct row_case *c, const char *name, enum buf_kind kind, size_t n);
void *case_struct(struct row_case *c, const char *name, size_t bytes); /* zeroed */
/* Step blocks of n rows that are apart, "steps": their layer blocks lie at multiples 0 .. n - 1 of stride, in any order; everything else is 0. */
struct gpu_step *case_apart(struct row_case *c, uint32_t n, size_t stride);
/* Runs of a step of n rows, "runs": a random number of them, and n entries in all. Their layer blocks lie at multiples of block_stride and what they keep at
 * multiples of kept_stride, 0 .. n - 1 in any order; fold is up to most_fold. */
struct gpu_run *case_runs(struct row_case *c, uint32_t n, size_t block_stride, size_t kept_stride, uint32_t most_fold);
/* How large weights are, for tolerances: the largest one, and the largest root mean square of a row */
struct weights_size {
    float most, rms;
};
/* A random matrix in a format of the file; n_in a multiple of its block. */
struct gpu_mat case_mat(struct row_case *c, const char *name, uint32_t quant_id, uint32_t n_in, uint32_t n_out, struct weights_size *size);
/* The same in the layout of devices, which both the kernel and its reference read. common: only layouts that every build reads. */
struct gpu_mat case_device_mat(struct row_case *c, const char *name, uint32_t quant_id, bool common, uint32_t n_in, uint32_t n_out, struct weights_size *size);
/* A file type for a matrix that the row's build reads (-DTYPE), mostly the one it is made for; *common says how to pack it. Blocks of at most
 * max_block weights, unless the build's own has more. */
uint32_t case_weight_type(struct row_case *c, uint32_t max_block, bool *common);
/* The number in -Dname=number of the row's build; other when there is none. */
uint32_t case_define(const struct row_case *c, const char *name, uint32_t other);
/* How far the elements of an output may be off; see the units below. */
void case_tolerance(struct row_case *c, const void *buf, double abs, double rel);
void case_call(struct row_case *c, const void *args, size_t bytes, uint32_t n_items);
void case_shape(struct row_case *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Units of tolerances. U is the unit roundoff of f32. A sum of n terms of magnitude m and any sign: its partial sums are about sqrt(k) m, each addition
 * rounds by at most U of one, and the roundings add up at random; n U m is more than five standard deviations of that for any order of
 * summation, and 2 more cover products that are rounded or not. For n terms of one sign the same n U is the worst case relative to the sum.
 * Functions are as exact as Vulkan asks for: exp(x) to 3 + 2 |x| units in the last place (2 U each), division to 2.5, 1 / sqrt to 2. */
#define U 0x1p-24
#define SUM_ABS(n, m) (((n) + 2.0) * U * (m))
#define SUM_REL(n) (((n) + 2.0) * U)
#define EXP_REL(x) (2 * (3 + 2 * (x)) * U)
#define DIV_REL (5 * U)
#define RSQRT_REL (4 * U)
/* 1 / sqrt(mean of n squares + eps), relative; then x * that * gain */
#define RMS_REL(n) (0.5 * SUM_REL(n) + RSQRT_REL + DIV_REL + 4 * U)
/* sigmoid(x), silu(x) for |x| <= m, relative, when x itself is exact */
#define SIGMOID_REL(m) (EXP_REL(m) + DIV_REL + 2 * U)

/* A device multiplies scale * q and min apart, so what it adds up is larger than the weights, at most three times. */
#define DEVICE_TERM(size) (3 * (double)(size).most)
/* A product of n weights with uniform values, three standard deviations: 3 rms sqrt(n / 3). What rounding both operands to f16 (unit roundoff 2^-11) adds to
 * it: errors of 0.8 2^-11 of each term, rms, that add up at random; six standard deviations. */
#define PRODUCT_SIZE(n, size) (1.8 * sqrt(n) * (double)(size).rms)
#define F16_ABS(n, size) (3 * sqrt(n) * 0x1p-11 * (double)(size).rms)

/* ---- tables ---- */

struct row_cases {
    gpu_row_fn ref; /* rows with this reference; NULL ends a table */
    void (*build)(struct row_case *c);
    /* For rows that come in builds for 1, 2, 4, .. rows of a batch (NAME_r1, NAME_r2, ..; the builder sets c->n_rows): t = 0 turns the call into one of
     * NAME_r1 for the first row of the batch alone, t = 1, 2, .. moves that on by a row. Every build must give each row the bits it has alone. */
    void (*alone)(struct row_case *c, uint32_t t);
};
/* Builders of row_cases_int.c, for the tables of their modules */
void case_quantise(struct row_case *c);
void case_matmul_int(struct row_case *c);
void case_moe_gate_up_int(struct row_case *c);
void case_moe_down_int(struct row_case *c);
/* Builders of row_cases_moe.c, for the table of row_cases_model.c */
void case_moe_route(struct row_case *c);
void case_moe_in(struct row_case *c);
void case_moe_group(struct row_case *c);
void case_moe_gate_up(struct row_case *c);
void case_moe_down(struct row_case *c);
void case_moe_up(struct row_case *c);
void case_moe_mix(struct row_case *c);
void case_moe_count(struct row_case *c);
void case_moe_scatter(struct row_case *c);
void case_moe_gemm_up(struct row_case *c);
void case_moe_gemm_down(struct row_case *c);
void case_moe_sum(struct row_case *c);
extern const struct row_cases gpu_cases[], gdn_cases[], qsa_cases[], model_cases[];

struct row_module {
    const char *name;
    const struct gpu_kernel_table *table;
    const struct row_cases *cases;
};
enum { ROW_MODULES = 4 };
extern const struct row_module row_modules[ROW_MODULES];

/* ---- for those who run them ---- */

status case_open(struct row_case *c, struct err *e);
void case_close(struct row_case *c);
/* Builds round `round` of a row, whatever was in c before. False: the row has no builder. The same seed, row and round give the same case. */
bool case_build(struct row_case *c, const struct row_module *m, uint32_t id, uint32_t round, uint64_t seed);
/* What the table says about a row; NULL: no cases. */
const struct row_cases *case_find(const struct row_module *m, uint32_t id);
/* Runs all items in the image itself, in blocks of the row's grain. */
void case_run(const struct row_case *c, gpu_row_fn fn, struct cpu_scratch *scratch);
/* Under the address sanitizer: any access to what lies between the buffers of an image ends the program. */
void case_guards(const struct row_case *c, uint8_t *image, bool on);
/* Turns image, a copy of c->image, and args into what a machine sees that has the image at address base. */
void case_relocate(const struct row_case *c, uint8_t *image, uint64_t *args, gpu_addr base);
/* The buffer called name; its host address is c->image + at. */
const struct case_buf *case_buf(const struct row_case *c, const char *name);

#endif
