/* text.c - an instruction as llvm-objdump writes it: for messages, and to hold the decoder against another one. */
#include "tests/gfx11/isa.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct out {
    char *p;
    size_t n, size;
};
__attribute__((format(printf, 2, 3))) static void put(struct out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(o->p + o->n, o->size - o->n, fmt, ap);
    va_end(ap);
    if (n > 0)
        o->n = MIN(o->n + (size_t)n, o->size - 1);
}

static void put_registers(struct out *o, char letter, uint32_t first, uint32_t n)
{
    if (n == 1)
        put(o, "%c%u", letter, first);
    else
        put(o, "%c[%u:%u]", letter, first, first + n - 1);
}

static void put_scalar(struct out *o, uint32_t code, uint32_t n)
{
    static const char *const one[] = { [0] = "vcc_lo", "vcc_hi", [18] = "null", "m0", "exec_lo", "exec_hi" };
    if (code < S_VCC)
        put_registers(o, 's', code, n);
    else if (code >= 108 && code < S_NULL)
        put(o, "ttmp%u", code - 108);
    else if (n == 2 && (code == S_VCC || code == S_EXEC))
        put(o, code == S_VCC ? "vcc" : "exec");
    else
        put(o, "%s", one[code - S_VCC]);
}

static void put_operand(struct out *o, const struct operand *x)
{
    static const char *const real[] = { "0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494" };
    if (x->kind == VGPR)
        put_registers(o, 'v', x->code, x->n);
    else if (x->kind == SGPR)
        put_scalar(o, x->code, x->n);
    else if (x->code == SRC_LITERAL)
        put(o, "0x%x", x->value);
    else if (x->code == SRC_SCC)
        put(o, "src_scc");
    else if (x->code >= 240)
        put(o, "%s", real[x->code - 240]);
    else
        put(o, "%d", (int32_t)x->value);
}

static void put_list(struct out *o, const struct operand *x)
{
    if (x->kind == NO_OPERAND)
        return;
    put(o, o->p[o->n - 1] == ' ' ? "" : ", ");
    put_operand(o, x);
}

static void put_source(struct out *o, const struct inst *in, int k)
{
    const struct operand *x = &in->s[k];
    bool neg = in->neg >> k & 1 && in->op->enc != VOP3P, abs = in->abs >> k & 1;
    bool mix = in->op->enc == VOP3P && strstr(in->op->name, "_mix");
    if (mix)
        neg = in->neg >> k & 1, abs = in->neg_hi >> k & 1;
    if (x->kind == NO_OPERAND)
        return;
    put(o, o->p[o->n - 1] == ' ' ? "" : ", ");
    put(o, "%s%s", neg ? "-" : "", abs ? "|" : "");
    put_operand(o, x);
    put(o, "%s", abs ? "|" : "");
}

static void put_bits(struct out *o, const char *name, uint32_t x, uint32_t n)
{
    put(o, " %s:[", name);
    for (uint32_t i = 0; i < n; i++)
        put(o, "%s%u", i ? "," : "", x >> i & 1);
    put(o, "]");
}

static void put_dpp(struct out *o, const struct inst *in)
{
    static const char *const move[16] = { [1] = "row_shl", [2] = "row_shr", [3] = "row_ror", [5] = "row_share", [6] = "row_xmask" };
    uint32_t c = in->dpp_ctrl;
    if (in->dpp == 8) {
        put(o, " dpp8:[");
        for (uint32_t i = 0; i < 8; i++)
            put(o, "%s%u", i ? "," : "", c >> 3 * i & 7);
        put(o, "]");
        return;
    }
    if (c < 256)
        put(o, " quad_perm:[%u,%u,%u,%u]", c & 3, c >> 2 & 3, c >> 4 & 3, c >> 6 & 3);
    else if (c == 0x140 || c == 0x141)
        put(o, c == 0x140 ? " row_mirror" : " row_half_mirror");
    else
        put(o, " %s:%u", move[c >> 4 & 15] ? move[c >> 4 & 15] : "row_unknown", c & 15);
    put(o, " row_mask:0x%x bank_mask:0x%x%s%s", in->row_mask, in->bank_mask, in->bound_ctrl ? " bound_ctrl:1" : "", in->fetch_inactive ? " fi:1" : "");
}

static void put_vector(struct out *o, const struct inst *in)
{
    const struct op *op = in->op;
    const char *suffix = op->flags & OP_NO_E64 || op->enc == VOP3 || op->enc == VOP3P ? "" : in->e64 ? "_e64" : in->dpp ? "" : "_e32";
    uint32_t n_src = (uint32_t)strlen(op->form) - 1;
    put(o, "%s%s%s ", op->name, suffix, in->dpp ? "_dpp" : "");
    if (!(op->flags & OP_CMPX))
        put_list(o, &in->d);
    put_list(o, &in->mask_d);
    for (int k = 0; k < 3; k++)
        put_source(o, in, k);
    if (op->enc == VOP3P) {
        bool mix = strstr(op->name, "_mix");
        if (in->opsel && !strstr(op->name, "wmma"))
            put_bits(o, "op_sel", in->opsel, n_src);
        if (in->opsel_hi != (mix ? 0 : 7) && !strstr(op->name, "wmma"))
            put_bits(o, "op_sel_hi", in->opsel_hi, n_src);
        if (in->neg && !mix)
            put_bits(o, "neg_lo", in->neg, n_src);
        if (in->neg_hi && !mix)
            put_bits(o, "neg_hi", in->neg_hi, n_src);
    } else if (in->opsel && in->e64) {
        if (strncmp(op->name, "v_permlane", 10) == 0)
            put_bits(o, "op_sel", in->opsel, 2);
        else
            put_bits(o, "op_sel", (in->opsel & ((1u << n_src) - 1)) | (uint32_t)(in->opsel >> 3) << n_src, n_src + 1);
    }
    if (in->clamp)
        put(o, " clamp");
    if (in->omod)
        put(o, in->omod == 1 ? " mul:2" : in->omod == 2 ? " mul:4" : " div:2");
    if (in->dpp)
        put_dpp(o, in);
}

static void put_half(struct out *o, const struct inst *in)
{
    put(o, "v_dual_%s ", in->op->name + 2);
    put_list(o, &in->d);
    put_list(o, &in->s[0]);
    put_list(o, &in->s[1]);
    if (!(in->op->flags & OP_MASK_SRC))
        put_list(o, &in->s[2]);
}

static void put_memory(struct out *o, const struct inst *in)
{
    const struct op *op = in->op;
    put(o, "%s ", op->name);
    if (op->enc == DS) {
        put_list(o, &in->d);
        for (int k = 0; k < 3; k++)
            put_list(o, &in->s[k]);
        if (op->flags & OP_TWO) {
            if (in->imm)
                put(o, " offset0:%d", in->imm);
            if (in->offset1)
                put(o, " offset1:%u", in->offset1);
        } else if (in->imm) {
            put(o, " offset:%d", in->imm);
        }
        return;
    }
    put_list(o, &in->d);
    if (op->enc == SCRATCH && in->s[0].kind == NO_OPERAND)
        put(o, "%soff", in->d.kind ? ", " : "");
    put_list(o, &in->s[0]);
    put_list(o, &in->s[1]);
    if (op->enc != FLAT && in->s[2].kind == NO_OPERAND)
        put(o, ", off");
    put_list(o, &in->s[2]);
    if (in->imm)
        put(o, " offset:%d", in->imm);
    put(o, "%s%s%s", in->glc ? " glc" : "", in->slc ? " slc" : "", in->dlc ? " dlc" : "");
}

static void put_scalar_inst(struct out *o, const struct inst *in)
{
    put(o, "%s ", in->op->name);
    put_list(o, &in->d);
    if (in->op->enc == SOPK || (in->op->enc == SOPP && in->op->form[1]))
        put(o, in->op->flags & OP_JUMP ? "%s%u" : "%s0x%x", in->d.kind ? ", " : "", (uint16_t)in->imm);
    for (int k = 0; k < 3 && in->op->enc != SMEM; k++)
        put_list(o, &in->s[k]);
    if (in->op->enc != SMEM)
        return;
    put_list(o, &in->s[0]);
    if (in->s[1].kind) {
        put_list(o, &in->s[1]);
        if (in->imm)
            put(o, " offset:0x%x", in->imm);
    } else if (in->imm) {
        put(o, ", 0x%x", in->imm);
    } else {
        put(o, ", null");
    }
    put(o, "%s%s", in->glc ? " glc" : "", in->dlc ? " dlc" : "");
}

void gfx11_text(char *text, size_t size, const struct inst *in)
{
    struct out o = { text, 0, size };
    text[0] = 0;
    if (!in->op) {
        put(&o, "unknown %08x", in->word[0]);
        return;
    }
    if (in->y) {
        put_half(&o, in);
        put(&o, " :: ");
        put_half(&o, in->y);
        return;
    }
    switch (in->op->enc) {
    case VOP1: case VOP2: case VOPC: case VOP3: case VOP3P: case VOPD: put_vector(&o, in); break;
    case DS: case FLAT: case SCRATCH: case GLOBAL: put_memory(&o, in); break;
    default: put_scalar_inst(&o, in); break;
    }
    while (o.n && text[o.n - 1] == ' ')
        text[--o.n] = 0;
}
