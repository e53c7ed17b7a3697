/* taint.c - which bits of a result depend on bits that nobody has written. Exact for bit operations and shifts, so that a half or a byte of a
 * register may be used while the rest has never been written; for sums, bits above an unwritten one; for all else, everything. */
#include "tests/gfx11/isa.h"

static uint32_t and_bad(uint32_t a, uint32_t ab, uint32_t b, uint32_t bb) { return (ab & bb) | (ab & b) | (bb & a); }
static uint32_t or_bad(uint32_t a, uint32_t ab, uint32_t b, uint32_t bb) { return and_bad(~a, ab, ~b, bb); }
static uint32_t any(uint32_t bad) { return bad ? ALL_LANES : 0; }
/* the lowest bit and all above */
static uint32_t up(uint32_t bad) { return bad | -(bad & -bad); }

static uint32_t bfe_bad(uint32_t xb, uint32_t at, uint32_t n)
{
    at &= 31, n &= 31;
    uint32_t mask = (1u << n) - 1, b = xb >> at & mask;
    return n && b >> (n - 1) & 1 ? b | ~mask : b; /* the sign spreads in one of the two instructions that come here */
}

static uint32_t one(enum taint rule, uint32_t a, uint32_t ab, uint32_t b, uint32_t bb, uint32_t c, uint32_t cb)
{
    switch (rule) {
    case TAINT_ALL: return any(ab | bb | cb);
    case TAINT_UP: return up(ab | bb | cb);
    case TAINT_BITS: return ab | bb | cb;
    case TAINT_AND: return and_bad(a, ab, b, bb);
    case TAINT_OR: return or_bad(a, ab, b, bb);
    case TAINT_OR3: return or_bad(a | b, or_bad(a, ab, b, bb), c, cb);
    case TAINT_SHL: return any(ab & 31) | bb << (a & 31); /* shifts have the distance first */
    case TAINT_SHR: return any(ab & 31) | bb >> (a & 31);
    case TAINT_SAR: return any(ab & 31) | (uint32_t)((int32_t)bb >> (a & 31));
    case TAINT_LOW16: return any((ab | bb | cb) & 0xffff);
    case TAINT_BYTE0: return any(ab & 0xff);
    case TAINT_BYTE1: return any(ab & 0xff00);
    case TAINT_BYTE2: return any(ab & 0xff0000);
    case TAINT_BYTE3: return any(ab & 0xff000000);
    case TAINT_U24: return up((ab | bb) & 0xffffff) | up(cb);
    case TAINT_BFE: return any((bb | cb) & 31) | bfe_bad(ab, b, c);
    case TAINT_SHL_OR: return any(bb & 31) | or_bad(a << (b & 31), ab << (b & 31), c, cb);
    case TAINT_AND_OR: return or_bad(a & b, and_bad(a, ab, b, bb), c, cb);
    case TAINT_BFI: return and_bad(a, ab, b, bb) | and_bad(~a, ab, c, cb);
    }
    return ALL_LANES;
}

void taint_lanes(uint32_t *bad, enum taint rule, const struct source *a, const struct source *b, const struct source *c)
{
    const uint32_t *ab = a->bad ? a->bad : no_bits, *bb = b->bad ? b->bad : no_bits, *cb = c->bad ? c->bad : no_bits;
    for (int i = 0; i < LANES; i++)
        bad[i] = one(rule, a->x[i], ab[i], b->x[i], bb[i], c->x[i], cb[i]);
}
