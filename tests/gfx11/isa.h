/* isa.h - what an instruction of gfx11 is once it has been decoded, and the state of a wave that it works on. Inside the interpreter only.
 *
 * Every opcode is a row of a table (scalar_ops, vector_ops, ...) that says where it stands in its encoding, what its operands are and what it
 * computes. The decoder, the text and the checks are driven by these rows. */
#ifndef HAYATE_TESTS_GFX11_ISA_H
#define HAYATE_TESTS_GFX11_ISA_H

#include "tests/gfx11/gfx11.h"

enum enc {
    SOP2, SOP1, SOPK, SOPC, SOPP, SMEM, VOP1, VOP2, VOPC, VOP3, VOP3P, VOPD, DS, FLAT, SCRATCH, GLOBAL, MUBUF, N_ENC,
};

enum operand_kind { NO_OPERAND, SGPR, VGPR, CONSTANT };
/* Numbers of scalar registers as operands count them; CONSTANT codes are 128 and up. */
enum { S_VCC = 106, S_NULL = 124, S_M0 = 125, S_EXEC = 126, N_SGPR = 128, SRC_SCC = 253, SRC_LITERAL = 255, SRC_DPP8 = 233, SRC_DPP8_FI = 234, SRC_DPP16 = 250 };

struct operand {
    uint8_t kind;
    char type;       /* a letter of op.form */
    uint8_t n;       /* 32-bit registers */
    uint16_t code;   /* register, or code of the constant */
    uint32_t value;  /* of a constant */
};

enum op_flag {
    OP_ACC = 1,      /* the destination is a source too (fmac) */
    OP_MASK_DST = 2, /* beside the vector destination a mask of carries goes to a scalar register */
    OP_MASK_SRC = 4, /* the last source is a mask of lanes, vcc in the short encoding */
    OP_CMPX = 8,     /* compares into exec and nowhere else */
    OP_MADK = 16,    /* a literal is the second (fmamk) ... */
    OP_ADDK = 32,    /* ... or third source (fmaak) */
    OP_SDST = 64,    /* a vector instruction with a scalar destination */
    OP_NO_E64 = 128, /* its name has no _e32 or _e64 */
    OP_LOAD = 256, OP_STORE = 512, OP_ATOMIC = 1024, OP_RETURN = 2048, /* of memory instructions */
    OP_TWO = 4096,   /* two addresses */
    OP_STRIDE64 = 8192,
    OP_JUMP = 16384,
};

/* How unwritten bits of sources become unwritten bits of the result; see taint.c. */
enum taint { TAINT_ALL, TAINT_UP, TAINT_BITS, TAINT_AND, TAINT_OR, TAINT_SHL, TAINT_SHR, TAINT_SAR, TAINT_LOW16, TAINT_BYTE0, TAINT_BYTE1,
             TAINT_BYTE2, TAINT_BYTE3, TAINT_BFE, TAINT_SHL_OR, TAINT_AND_OR,
             TAINT_OR3, TAINT_U24, TAINT_BFI };

struct wave;
struct inst;
/* One value per lane; all 32 are computed. */
typedef void lanes_fn(uint32_t *restrict d, const uint32_t *x, const uint32_t *y, const uint32_t *z);
typedef uint32_t compare_fn(const uint32_t *x, const uint32_t *y);
/* A scalar value and which of its bits nobody has written. */
struct scalar {
    uint64_t x, bad;
};
/* r comes with all bits bad if one of a or b is, and with the destination's old value for instructions that need it; scc comes with the old one. */
typedef void scalar_fn(struct scalar *r, struct scalar *scc, struct scalar a, struct scalar b);

struct op {
    enum enc enc;
    uint16_t code;
    const char *name;
    /* Destination and sources: i u 32 bits, f f32, h f16, w 16-bit integer, q 64 bits, d f64, m a mask of lanes, s scalar 32 bits, 2..8 and G that many
     * registers (G: 16), - nothing */
    const char *form;
    uint16_t flags;
    uint8_t taint;
    uint8_t arg; /* of run: bytes of a memory access, operation of an atomic, ... */
    void (*run)(struct wave *w, const struct inst *in);
    union {
        lanes_fn *lanes;
        compare_fn *compare;
        scalar_fn *scalar;
    } fn;
};
/* Ended by rows without name. */
extern const struct op scalar_ops[], control_ops[], float_ops[], int_ops[], convert_ops[], compare_ops[], lane_ops[], packed_ops[], memory_ops[], lds_ops[];

struct inst {
    const struct op *op; /* NULL: unknown */
    void (*run)(struct wave *w, const struct inst *in);
    uint32_t at, word[3]; /* offset in the code, and what stands there */
    uint8_t n_words;
    bool e64, has_modifiers;
    struct operand d, mask_d, s[3];
    uint8_t abs, neg, neg_hi, opsel, opsel_hi, omod, clamp; /* bits: sources 0..2; of opsel bit 3 is the destination */
    uint8_t dpp;                                            /* 0, 8 or 16 */
    bool bound_ctrl, fetch_inactive, glc, slc, dlc;
    uint8_t row_mask, bank_mask, offset1;
    uint32_t dpp_ctrl;
    int32_t imm;
    struct inst *y; /* second half of a VOPD */
};

/* Decodes the instruction at the front of n words; false: unknown. y: room for the second half of a VOPD. */
bool gfx11_decode(struct inst *in, struct inst *y, const uint32_t *word, size_t n, uint32_t at);
/* As llvm-objdump writes it. */
void gfx11_text(char *text, size_t size, const struct inst *in);

struct code {
    struct inst *inst; /* one for each 32-bit word of the code at which one begins */
    struct inst *second;
    uint32_t n_words;
    uint32_t lds_bytes, scratch_bytes, kernarg_bytes, rsrc1, rsrc2, rsrc3, properties;
    char name[64];
};

/* ---- state ---- */

enum { LANES = 32, N_VGPR = 256 };
static const uint32_t ALL_LANES = 0xffffffffu;

struct wave {
    struct group *g;
    uint32_t index;
    uint32_t pc, next; /* in words */
    bool ended, at_barrier;
    uint64_t n_run;
    bool scc, scc_bad;
    uint32_t s[N_SGPR], s_bad[N_SGPR];
    uint32_t v[N_VGPR][LANES];
    uint32_t bad[N_VGPR][LANES];  /* bits that nobody has written; 0 in lanes that are not in dirty */
    uint32_t dirty[N_VGPR];       /* lanes in which a register has such bits */
    /* Loads under way. Each kind counts what it issues; done says how many have certainly ended. */
    uint32_t vm_issued, vm_done, ds_issued, ds_done, vs_issued, vs_done, smem_out;
    uint32_t vm_reg[N_VGPR], ds_reg[N_VGPR]; /* number of the last load into a register */
    uint8_t smem_reg[N_SGPR];
    uint8_t *scratch;                         /* [LANES][scratch_bytes], then as many shadow bytes */
};

struct lds_word {
    uint32_t epoch_write, epoch_read; /* barriers passed when it was last written or read, plus 1 */
    uint8_t writer;
    bool atomic;
    uint64_t readers; /* waves, in epoch_read */
};

struct group {
    struct gfx11_run *run;
    const struct code *code;
    uint32_t id, n_waves, n_items;
    uint32_t epoch;
    struct wave *wave;
    uint8_t *lds, *lds_bad;
    struct lds_word *lds_word;
};

static inline uint32_t exec_of(const struct wave *w) { return w->s[S_EXEC]; }

/* ---- faults (fault.c): the first one stops the run ---- */

void fault(struct wave *w, enum gfx11_fault kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool faulted(const struct wave *w);

/* ---- operands (operand.c) ---- */

/* A source as 32 values. bad: NULL when all bits were written (in the active lanes). */
struct source {
    const uint32_t *x, *bad;
    uint32_t buffer[LANES], bad_buffer[LANES];
};
void source_get(struct wave *w, const struct inst *in, int k, struct source *src);
void source_raw(struct wave *w, const struct operand *o, uint32_t part, struct source *src); /* register `part` of o, without modifiers */
struct scalar scalar_get(const struct wave *w, const struct operand *o);
void scalar_set(struct wave *w, const struct operand *o, struct scalar x);
/* Writes the active lanes of a vector register. bad: NULL for none. */
void vgpr_set(struct wave *w, uint32_t reg, const uint32_t *x, const uint32_t *bad);
void vgpr_set_lanes(struct wave *w, uint32_t reg, const uint32_t *x, const uint32_t *bad, uint32_t lanes);
/* A mask of lanes read as bits; inactive lanes count as written. */
struct scalar mask_get(const struct wave *w, const struct operand *o);
/* A scalar that decides something (a branch, exec, a lane number): all its bits must have been written. */
bool must_be_written(struct wave *w, uint64_t bad, const char *what);
void taint_lanes(uint32_t *bad, enum taint rule, const struct source *a, const struct source *b, const struct source *c);
extern const uint32_t no_bits[LANES]; /* zeros */

/* ---- shapes of execution ---- */

void run_lanes(struct wave *w, const struct inst *in);   /* vector.c: any vector instruction with a lanes_fn */
void run_dual(struct wave *w, const struct inst *in);    /* vector.c */
void run_scalar(struct wave *w, const struct inst *in);  /* scalar.c */

/* ---- waiting (wait.c) ---- */

/* Whether an instruction may touch its registers now. */
void wait_check(struct wave *w, const struct inst *in);
void wait_vm_load(struct wave *w, uint32_t reg, uint32_t n);
void wait_ds_load(struct wave *w, uint32_t reg, uint32_t n);
void wait_smem(struct wave *w, uint32_t reg, uint32_t n);
static inline bool wait_pending(const struct wave *w) { return w->vm_issued != w->vm_done || w->ds_issued != w->ds_done || w->smem_out; }

/* ---- memory (memory.c) ---- */

/* n bytes at address, and their shadow; NULL after a fault. store: for writing. */
uint8_t *memory_at(struct wave *w, uint64_t address, uint32_t n, bool store, uint8_t **bad, uint32_t lane);

/* What an atomic leaves of old and the x that it brings; CMPSWAP compares elsewhere */
enum atomic { ADD, SUB, MIN_I, MIN_U, MAX_I, MAX_U, AND, OR, XOR, SWAP, CMPSWAP };
uint32_t atomic_value(enum atomic what, uint32_t old, uint32_t x);

/* ---- races in memory (race.c) ---- */

enum race_touch { RACE_READ, RACE_WRITE, RACE_ATOMIC };
bool race_open(struct gfx11_region *r); /* false: out of memory */
void race_close(struct gfx11_region *r);
/* n bytes in the region that memory_at found last. same: what is written stands there already, which no order can spoil */
void race_check(struct wave *w, uint64_t address, uint32_t n, enum race_touch how, bool same);

/* Values of one lane */
static inline float as_f32(uint32_t x)
{
    float f;
    __builtin_memcpy(&f, &x, sizeof f);
    return f;
}
static inline uint32_t as_u32(float f)
{
    uint32_t x;
    __builtin_memcpy(&x, &f, sizeof x);
    return x;
}
/* half.c: every value of f16 as f32, and rounding to the nearest, ties to even */
float half_to_f32(uint32_t h);
uint32_t f32_to_half(float x);
uint32_t f64_to_half(double x);

#endif
