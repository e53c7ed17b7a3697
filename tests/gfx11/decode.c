/* decode.c - words of machine code to instructions. The encodings follow AMD's "RDNA3 Instruction Set Architecture", chapter 15. */
#include "tests/gfx11/isa.h"

#include <pthread.h>
#include <string.h>

enum { CODES = 1024 };
static const struct op *op_of[N_ENC][CODES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void index_ops(void)
{
    static const struct op *const all[] = { scalar_ops, control_ops, float_ops, int_ops, convert_ops, compare_ops, lane_ops, packed_ops, memory_ops, lds_ops };
    for (size_t t = 0; t < COUNT_OF(all); t++)
        for (const struct op *o = all[t]; o->name; o++)
            op_of[o->enc][o->code] = o;
}

static uint32_t bits(uint32_t x, uint32_t lo, uint32_t n) { return x >> lo & ((1u << n) - 1); }

static uint32_t width_of(char type)
{
    switch (type) {
    case 'q':
    case 'd': return 2;
    case 'G': return 16;
    case '-': return 0;
    default: return type >= '2' && type <= '8' ? (uint32_t)(type - '0') : 1;
    }
}

/* The values of codes 240 .. 248 as f32, f16 and the upper half of f64 */
static const uint32_t inline_f32[] = { 0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000, 0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983 };
static const uint16_t inline_f16[] = { 0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118 };
static const uint32_t inline_f64[] = { 0x3fe00000, 0xbfe00000, 0x3ff00000, 0xbff00000, 0x40000000, 0xc0000000, 0x40100000, 0xc0100000, 0x3fc45f30 };

static bool constant(struct operand *o, uint32_t literal)
{
    uint32_t c = o->code;
    if (c >= 128 && c <= 192)
        o->value = c - 128;
    else if (c >= 193 && c <= 208)
        o->value = (uint32_t)(192 - (int32_t)c);
    else if (c >= 240 && c <= 248)
        o->value = o->type == 'h' ? inline_f16[c - 240] : o->type == 'd' ? inline_f64[c - 240] : inline_f32[c - 240];
    else if (c == SRC_LITERAL)
        o->value = literal;
    else
        return c == SRC_SCC;
    return true;
}

/* A source of 9 bits (8 for scalar instructions, where the ninth is 0). */
static bool source(struct operand *o, char type, uint32_t code, uint32_t literal)
{
    *o = (struct operand){ .type = type, .n = (uint8_t)width_of(type), .code = (uint16_t)code };
    if (code >= 256) {
        o->kind = VGPR;
        o->code = (uint16_t)(code - 256);
        return o->code + o->n <= N_VGPR;
    }
    if (code < 128) {
        o->kind = SGPR;
        return o->code + o->n <= N_SGPR || code == S_NULL;
    }
    o->kind = CONSTANT;
    return constant(o, literal);
}
static struct operand vgpr(char type, uint32_t reg) { return (struct operand){ .kind = VGPR, .type = type, .n = (uint8_t)width_of(type), .code = (uint16_t)reg }; }
static struct operand sgpr(char type, uint32_t reg) { return (struct operand){ .kind = SGPR, .type = type, .n = (uint8_t)width_of(type), .code = (uint16_t)reg }; }

/* What is left of the words, and the literal that follows the instruction when a source asks for it. */
struct words {
    const uint32_t *w;
    size_t n;
};
static bool take_literal(struct inst *in, const struct words *c, uint32_t *literal)
{
    if (in->n_words >= c->n || in->n_words >= COUNT_OF(in->word))
        return false;
    *literal = in->word[in->n_words] = c->w[in->n_words];
    in->n_words++;
    return true;
}

static bool set_op(struct inst *in, enum enc enc, uint32_t code)
{
    in->op = op_of[enc][code];
    if (in->op)
        in->run = in->op->run;
    return in->op;
}
static char type_of(const struct inst *in, uint32_t k) { return k < strlen(in->op->form) ? in->op->form[k] : '-'; }

/* ---- scalar ---- */

static bool decode_scalar(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], src[2] = { bits(w, 0, 8), bits(w, 8, 8) }, literal = 0, d = bits(w, 16, 7), n_src = 2;
    bool known;
    if (w >> 23 == 0x17d)
        known = set_op(in, SOP1, bits(w, 8, 8)), n_src = 1;
    else if (w >> 23 == 0x17e)
        known = set_op(in, SOPC, bits(w, 16, 7));
    else if (w >> 23 == 0x17f)
        known = set_op(in, SOPP, bits(w, 16, 7)), n_src = 0;
    else if (w >> 28 == 0xb)
        known = set_op(in, SOPK, bits(w, 23, 5)), n_src = 0;
    else
        known = set_op(in, SOP2, bits(w, 23, 7));
    in->imm = (int16_t)bits(w, 0, 16);
    if (!known)
        return false;
    if (n_src && (in->op->flags & (OP_MADK | OP_ADDK) || src[0] == SRC_LITERAL || (n_src == 2 && src[1] == SRC_LITERAL)) && !take_literal(in, c, &literal))
        return false;
    if (type_of(in, 0) != '-')
        in->d = sgpr(type_of(in, 0), d);
    for (uint32_t k = 0; k < n_src; k++)
        if (type_of(in, 1 + k) != '-' && !source(&in->s[k], type_of(in, 1 + k), src[k], literal))
            return false;
    if (in->op->flags & (OP_MADK | OP_ADDK)) {
        struct operand k = { .kind = CONSTANT, .type = 'f', .n = 1, .code = SRC_LITERAL, .value = literal };
        in->s[2] = in->op->flags & OP_MADK ? in->s[1] : k;
        if (in->op->flags & OP_MADK)
            in->s[1] = k;
    }
    return in->d.kind != SGPR || in->d.code + in->d.n <= N_SGPR;
}

static bool decode_smem(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], literal;
    if (!set_op(in, SMEM, bits(w, 18, 8)) || !take_literal(in, c, &literal))
        return false;
    in->d = sgpr(in->op->form[0], bits(w, 6, 7));
    in->s[0] = sgpr('q', bits(w, 0, 6) * 2);
    in->glc = bits(w, 14, 1), in->dlc = bits(w, 13, 1);
    in->imm = (int32_t)(literal << 11) >> 11;
    if (bits(literal, 25, 7) != S_NULL)
        in->s[1] = sgpr('s', bits(literal, 25, 7));
    return in->d.code + in->d.n <= N_SGPR;
}

/* ---- vector ---- */

/* A first source of 250 or 233 announces another word, which names the register and how lanes are moved. */
static bool decode_dpp(struct inst *in, const struct words *c, uint32_t *src0)
{
    uint32_t w;
    if (*src0 != SRC_DPP16 && *src0 != SRC_DPP8 && *src0 != SRC_DPP8_FI)
        return true;
    if (!take_literal(in, c, &w))
        return false;
    in->dpp = *src0 == SRC_DPP16 ? 16 : 8;
    if (in->dpp == 8) {
        in->dpp_ctrl = w >> 8;
        in->fetch_inactive = *src0 == SRC_DPP8_FI;
        in->row_mask = in->bank_mask = 15;
    } else {
        in->dpp_ctrl = bits(w, 8, 9);
        in->fetch_inactive = bits(w, 18, 1);
        in->bound_ctrl = bits(w, 19, 1);
        if (!in->e64) {
            in->neg = (uint8_t)(bits(w, 20, 1) | bits(w, 22, 1) << 1);
            in->abs = (uint8_t)(bits(w, 21, 1) | bits(w, 23, 1) << 1);
        }
        in->bank_mask = (uint8_t)bits(w, 24, 4);
        in->row_mask = (uint8_t)bits(w, 28, 4);
    }
    *src0 = 256 + bits(w, 0, 8);
    return true;
}

/* What no field names: a mask is VCC, and of three sources one is the literal */
static void third_source(struct inst *in, uint32_t literal)
{
    if (in->op->flags & OP_MASK_SRC)
        in->s[2] = sgpr('m', S_VCC);
    if (in->op->flags & (OP_MADK | OP_ADDK)) {
        struct operand k = { .kind = CONSTANT, .type = 'f', .n = 1, .code = SRC_LITERAL, .value = literal };
        in->s[2] = in->op->flags & OP_MADK ? in->s[1] : k;
        if (in->op->flags & OP_MADK)
            in->s[1] = k;
    }
}

/* 16-bit operands of the short encodings: bit 7 of the register means its upper half. */
static void short_half(struct inst *in, struct operand *o, uint32_t bit)
{
    if ((o->type != 'h' && o->type != 'w') || o->kind != VGPR || o->code < 128)
        return;
    o->code -= 128;
    in->opsel |= (uint8_t)(1u << bit);
}

static bool decode_vop12c(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], src0 = bits(w, 0, 9), literal = 0;
    bool vop1 = w >> 25 == 0x3f, vopc = w >> 25 == 0x3e, two = !vop1;
    if (!set_op(in, vop1 ? VOP1 : vopc ? VOPC : VOP2, vop1 ? bits(w, 9, 8) : vopc ? bits(w, 17, 8) : bits(w, 25, 6)) || !decode_dpp(in, c, &src0))
        return false;
    if ((src0 == SRC_LITERAL || in->op->flags & (OP_MADK | OP_ADDK)) && !take_literal(in, c, &literal))
        return false;
    if (type_of(in, 1) != '-' && !source(&in->s[0], type_of(in, 1), src0, literal))
        return false;
    short_half(in, &in->s[0], 0);
    if (two) {
        in->s[1] = vgpr(type_of(in, 2), bits(w, 9, 8));
        short_half(in, &in->s[1], 1);
    }
    if (vopc)
        in->d = sgpr('m', in->op->flags & OP_CMPX ? S_EXEC : S_VCC);
    else if (in->op->flags & OP_SDST)
        in->d = sgpr('s', bits(w, 17, 8));
    else if (type_of(in, 0) != '-') {
        in->d = vgpr(type_of(in, 0), bits(w, 17, 8));
        short_half(in, &in->d, 3);
    }
    if (in->op->flags & OP_MASK_DST)
        in->mask_d = sgpr('m', S_VCC);
    third_source(in, literal);
    return true;
}

/* In the long encoding the opcodes of VOPC come first, then those of VOP2 and VOP1, then its own. */
static bool set_long_op(struct inst *in, uint32_t code)
{
    if (code < 256)
        return set_op(in, VOPC, code);
    if (code < 384)
        return set_op(in, VOP2, code - 256);
    return code < 512 ? set_op(in, VOP1, code - 384) : set_op(in, VOP3, code);
}

static bool decode_vop3(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], literal = 0, w1;
    if (!set_long_op(in, bits(w, 16, 10)) || in->op->flags & (OP_MADK | OP_ADDK) || !take_literal(in, c, &w1))
        return false;
    uint32_t src[3] = { bits(w1, 0, 9), bits(w1, 9, 9), bits(w1, 18, 9) };
    in->e64 = true;
    if (!decode_dpp(in, c, &src[0]))
        return false;
    if (in->op->flags & OP_MASK_DST) {
        in->mask_d = sgpr('m', bits(w, 8, 7));
    } else {
        in->abs = (uint8_t)bits(w, 8, 3);
        in->opsel = (uint8_t)bits(w, 11, 4);
    }
    in->neg |= (uint8_t)bits(w1, 29, 3);
    in->clamp = (uint8_t)bits(w, 15, 1);
    in->omod = (uint8_t)bits(w1, 27, 2);
    uint32_t n_src = (uint32_t)strlen(in->op->form) - 1;
    for (uint32_t k = 0; k < n_src && !literal; k++)
        if (src[k] == SRC_LITERAL && type_of(in, 1 + k) != '-') {
            if (!take_literal(in, c, &literal))
                return false;
            break;
        }
    for (uint32_t k = 0; k < n_src; k++)
        if (type_of(in, 1 + k) != '-' && !source(&in->s[k], type_of(in, 1 + k), src[k], literal))
            return false;
    if (in->op->enc == VOPC || in->op->flags & OP_SDST)
        in->d = sgpr(in->op->enc == VOPC ? 'm' : 's', bits(w, 0, 8));
    else if (type_of(in, 0) != '-')
        in->d = vgpr(type_of(in, 0), bits(w, 0, 8));
    return in->d.kind != SGPR || in->d.code < N_SGPR;
}

static bool decode_vop3p(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], literal = 0, w1;
    if (!set_op(in, VOP3P, bits(w, 16, 7)) || !take_literal(in, c, &w1))
        return false;
    uint32_t src[3] = { bits(w1, 0, 9), bits(w1, 9, 9), bits(w1, 18, 9) };
    in->e64 = true;
    in->neg_hi = (uint8_t)bits(w, 8, 3);
    in->neg = (uint8_t)bits(w1, 29, 3);
    in->opsel = (uint8_t)bits(w, 11, 3);
    in->opsel_hi = (uint8_t)(bits(w1, 27, 2) | bits(w, 14, 1) << 2);
    in->clamp = (uint8_t)bits(w, 15, 1);
    if ((src[0] == SRC_LITERAL || src[1] == SRC_LITERAL || src[2] == SRC_LITERAL) && !take_literal(in, c, &literal))
        return false;
    for (uint32_t k = 0; k + 1 < strlen(in->op->form); k++)
        if (!source(&in->s[k], type_of(in, 1 + k), src[k], literal))
            return false;
    in->d = vgpr(type_of(in, 0), bits(w, 0, 8));
    return in->d.code + in->d.n <= N_VGPR;
}

/* The halves of a VOPD are instructions of VOP1, VOP2 and VOP3 under numbers of their own. */
static const struct {
    enum enc enc;
    uint16_t code;
} dual[32] = {
    [0] = { VOP2, 43 }, [1] = { VOP2, 45 }, [2] = { VOP2, 44 }, [3] = { VOP2, 8 }, [4] = { VOP2, 3 }, [5] = { VOP2, 4 }, [6] = { VOP2, 5 }, [7] = { VOP2, 7 },
    [8] = { VOP1, 1 }, [9] = { VOP2, 1 }, [10] = { VOP2, 16 }, [11] = { VOP2, 15 }, [12] = { VOP2, 2 }, [16] = { VOP2, 37 }, [17] = { VOP2, 24 }, [18] = { VOP2, 27 },
};

static bool decode_half(struct inst *in, uint32_t code, uint32_t d, uint32_t src0, uint32_t src1, uint32_t literal)
{
    enum enc enc = dual[code].enc;
    if ((code && !dual[code].code) || !set_op(in, enc, dual[code].code) || !source(&in->s[0], type_of(in, 1), src0, literal))
        return false;
    if (enc == VOP2)
        in->s[1] = vgpr(type_of(in, 2), src1);
    in->d = vgpr(type_of(in, 0), d);
    third_source(in, literal);
    return true;
}

static bool needs_literal(uint32_t code, uint32_t src0) { return src0 == SRC_LITERAL || code == 1 || code == 2; }

static bool decode_vopd(struct inst *in, struct inst *y, const struct words *c)
{
    uint32_t w = c->w[0], w1, literal = 0;
    if (!take_literal(in, c, &w1))
        return false;
    uint32_t op_x = bits(w, 22, 4), op_y = bits(w, 17, 5), d_x = bits(w1, 24, 8), d_y = bits(w1, 17, 7) * 2 + (~d_x & 1);
    if ((needs_literal(op_x, bits(w, 0, 9)) || needs_literal(op_y, bits(w1, 0, 9))) && !take_literal(in, c, &literal))
        return false;
    *y = (struct inst){ .at = in->at };
    in->y = y;
    bool known = decode_half(in, op_x, d_x, bits(w, 0, 9), bits(w, 9, 8), literal) && decode_half(y, op_y, d_y, bits(w1, 0, 9), bits(w1, 9, 8), literal);
    in->run = run_dual;
    return known;
}

/* ---- memory ---- */

static bool decode_ds(struct inst *in, const struct words *c)
{
    uint32_t w = c->w[0], w1;
    if (!set_op(in, DS, bits(w, 18, 8)) || bits(w, 17, 1) || !take_literal(in, c, &w1)) /* bit 17: GDS */
        return false;
    in->imm = in->op->flags & OP_TWO ? (int32_t)bits(w, 0, 8) : (int32_t)bits(w, 0, 16);
    in->offset1 = (uint8_t)bits(w, 8, 8);
    in->s[0] = vgpr('i', bits(w1, 0, 8));
    if (type_of(in, 0) != '-')
        in->d = vgpr(type_of(in, 0), bits(w1, 24, 8));
    if (type_of(in, 2) != '-')
        in->s[1] = vgpr(type_of(in, 2), bits(w1, 8, 8));
    if (type_of(in, 3) != '-')
        in->s[2] = vgpr(type_of(in, 3), bits(w1, 16, 8));
    return in->d.code + in->d.n <= N_VGPR;
}

static bool decode_flat(struct inst *in, const struct words *c)
{
    static const enum enc segment[4] = { FLAT, SCRATCH, GLOBAL, N_ENC };
    uint32_t w = c->w[0], w1, seg = bits(w, 16, 2), saddr;
    if (seg == 3 || !set_op(in, segment[seg], bits(w, 18, 7)) || !take_literal(in, c, &w1))
        return false;
    saddr = bits(w1, 16, 7);
    bool scalar_base = saddr != S_NULL && seg != 0;
    in->imm = (int32_t)(bits(w, 0, 13) << 19) >> 19;
    in->glc = bits(w, 14, 1), in->slc = bits(w, 15, 1), in->dlc = bits(w, 13, 1);
    if (seg == 1) {
        if (bits(w1, 23, 1))
            in->s[0] = vgpr('i', bits(w1, 0, 8));
    } else {
        in->s[0] = vgpr(scalar_base ? 'i' : 'q', bits(w1, 0, 8));
    }
    if (scalar_base)
        in->s[2] = sgpr(seg == 1 ? 's' : 'q', saddr);
    if (type_of(in, 0) != '-' && (!(in->op->flags & OP_ATOMIC) || in->glc))
        in->d = vgpr(type_of(in, 0), bits(w1, 24, 8));
    if (type_of(in, 2) != '-')
        in->s[1] = vgpr(type_of(in, 2), bits(w1, 8, 8));
    return in->d.code + in->d.n <= N_VGPR && in->s[1].code + in->s[1].n <= N_VGPR;
}

static bool decode_mubuf(struct inst *in, const struct words *c)
{
    uint32_t w1;
    return set_op(in, MUBUF, bits(c->w[0], 18, 8)) && take_literal(in, c, &w1);
}

bool gfx11_decode(struct inst *in, struct inst *y, const uint32_t *word, size_t n, uint32_t at)
{
    pthread_once(&once, index_ops);
    *in = (struct inst){ .at = at, .n_words = 1, .word = { word[0] } };
    const struct words c = { word, n };
    uint32_t w = word[0];
    bool known = false;
    if (w >> 31 == 0)
        known = decode_vop12c(in, &c);
    else if (w >> 30 == 2)
        known = decode_scalar(in, &c);
    else if (w >> 26 == 0x3d)
        known = decode_smem(in, &c);
    else if (w >> 26 == 0x35)
        known = decode_vop3(in, &c);
    else if (w >> 24 == 0xcc)
        known = decode_vop3p(in, &c);
    else if (w >> 26 == 0x32)
        known = decode_vopd(in, y, &c);
    else if (w >> 26 == 0x36)
        known = decode_ds(in, &c);
    else if (w >> 26 == 0x37)
        known = decode_flat(in, &c);
    else if (w >> 26 == 0x38)
        known = decode_mubuf(in, &c);
    if (!known)
        in->op = NULL, in->run = NULL;
    in->has_modifiers = in->abs || in->neg || in->opsel || in->dpp;
    return known;
}
