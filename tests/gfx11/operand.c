/* operand.c - reading and writing registers: constants, modifiers, moves between lanes (DPP), and which bits somebody has written. */
#include "tests/gfx11/isa.h"

#include <string.h>

const uint32_t no_bits[LANES];

bool must_be_written(struct wave *w, uint64_t bad, const char *what)
{
    if (bad)
        fault(w, GFX11_UNWRITTEN, "%s takes bits that nobody has written (%llx)", what, (unsigned long long)bad);
    return !bad;
}

/* ---- scalars ---- */

struct scalar scalar_get(const struct wave *w, const struct operand *o)
{
    struct scalar r = { 0 };
    if (o->kind == CONSTANT) {
        if (o->code == SRC_SCC)
            return (struct scalar){ w->scc, w->scc_bad ? UINT32_MAX : 0 };
        r.x = o->type == 'd' ? (uint64_t)o->value << 32 : o->n == 2 && o->code != SRC_LITERAL ? (uint64_t)(int64_t)(int32_t)o->value : o->value;
    } else if (o->code != S_NULL) {
        r.x = w->s[o->code], r.bad = w->s_bad[o->code];
        if (o->n == 2)
            r.x |= (uint64_t)w->s[o->code + 1] << 32, r.bad |= (uint64_t)w->s_bad[o->code + 1] << 32;
    }
    return r;
}

void scalar_set(struct wave *w, const struct operand *o, struct scalar x)
{
    if (o->kind == NO_OPERAND || o->code == S_NULL)
        return;
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t bad = (uint32_t)(x.bad >> 32 * i);
        if (o->code + i == S_EXEC && !must_be_written(w, bad, "exec"))
            return;
        w->s[o->code + i] = (uint32_t)(x.x >> 32 * i);
        w->s_bad[o->code + i] = bad;
    }
}

struct scalar mask_get(const struct wave *w, const struct operand *o)
{
    struct scalar m = scalar_get(w, o);
    m.bad &= exec_of(w);
    return m;
}

/* ---- vectors ---- */

static void fill(uint32_t *restrict to, uint32_t x)
{
    for (int i = 0; i < LANES; i++)
        to[i] = x;
}

void source_raw(struct wave *w, const struct operand *o, uint32_t part, struct source *src)
{
    src->bad = NULL;
    if (o->kind == VGPR) {
        uint32_t reg = o->code + part;
        src->x = w->v[reg];
        if (w->dirty[reg] & exec_of(w))
            src->bad = w->bad[reg];
        return;
    }
    struct scalar s = scalar_get(w, o);
    fill(src->buffer, (uint32_t)(s.x >> 32 * part));
    src->x = src->buffer;
    if (s.bad) {
        fill(src->bad_buffer, (uint32_t)(s.bad >> 32 * part));
        src->bad = src->bad_buffer;
    }
}

/* The lane that lane i takes its value from; -1: none, which leaves zero or the old value. */
static int dpp_lane(const struct inst *in, int i)
{
    uint32_t c = in->dpp_ctrl;
    int row = i & 16, at = i & 15;
    if (in->dpp == 8)
        return (i & ~7) | (int)(c >> 3 * (i & 7) & 7);
    if (c < 0x100)
        return (i & ~3) | (int)(c >> 2 * (i & 3) & 3);
    switch (c >> 4) {
    case 0x10: at += (int)(c & 15); return at < 16 ? row | at : -1;
    case 0x11: at -= (int)(c & 15); return at >= 0 ? row | at : -1;
    case 0x12: return row | ((at - (int)(c & 15)) & 15);
    case 0x14: return c == 0x140 ? row | (15 - at) : (i & ~7) | (7 - (i & 7));
    case 0x15: return row | (int)(c & 15);
    case 0x16: return row | (at ^ (int)(c & 15));
    default: return -1;
    }
}

/* The first source, moved. A lane without a source gets zero under bound_ctrl; else it is not written at all, which no compiler of ours asks for. */
static void move_lanes(struct wave *w, const struct inst *in, struct source *src)
{
    uint32_t exec = exec_of(w), reg = in->s[0].code;
    bool dirty = w->dirty[reg];
    if ((in->row_mask & 3) != 3 || in->bank_mask != 15) {
        fault(w, GFX11_UNKNOWN, "DPP with rows or banks masked");
        return;
    }
    for (int i = 0; i < LANES; i++) {
        int from = dpp_lane(in, i);
        src->buffer[i] = src->bad_buffer[i] = 0;
        if (!(exec >> i & 1))
            continue;
        if (from < 0 && !in->bound_ctrl) {
            fault(w, GFX11_LANE, "lane %d has no lane to take its value from", i);
            return;
        }
        if (from >= 0 && !(exec >> from & 1) && !in->fetch_inactive) {
            fault(w, GFX11_LANE, "lane %d takes its value from lane %d, which is switched off", i, from);
            return;
        }
        if (from >= 0)
            src->buffer[i] = w->v[reg][from], src->bad_buffer[i] = w->bad[reg][from];
    }
    src->x = src->buffer;
    src->bad = dirty ? src->bad_buffer : NULL;
}

static void modify(const struct inst *in, int k, struct source *src)
{
    char type = in->s[k].type;
    bool neg = in->neg >> k & 1, abs = in->abs >> k & 1, high = in->opsel >> k & 1 && (type == 'h' || type == 'w');
    uint32_t sign = type == 'h' ? 0x8000 : 0x80000000u, keep = abs ? ~sign : ~0u, flip = neg ? sign : 0, shift = high ? 16 : 0;
    if (!neg && !abs && !high)
        return;
    const uint32_t *x = src->x;
    for (int i = 0; i < LANES; i++)
        src->buffer[i] = ((x[i] >> shift) & keep) ^ flip;
    src->x = src->buffer;
    if (high && src->bad) {
        const uint32_t *bad = src->bad;
        for (int i = 0; i < LANES; i++)
            src->bad_buffer[i] = bad[i] >> 16;
        src->bad = src->bad_buffer;
    }
}

void source_get(struct wave *w, const struct inst *in, int k, struct source *src)
{
    if (in->s[k].kind == NO_OPERAND) {
        src->x = no_bits, src->bad = NULL;
        return;
    }
    source_raw(w, &in->s[k], 0, src);
    if (!in->has_modifiers)
        return;
    if (in->dpp && k == 0)
        move_lanes(w, in, src);
    modify(in, k, src);
}

void vgpr_set_lanes(struct wave *w, uint32_t reg, const uint32_t *x, const uint32_t *bad, uint32_t lanes)
{
    if (lanes == ALL_LANES) {
        memcpy(w->v[reg], x, sizeof w->v[reg]);
    } else {
        uint32_t *d = w->v[reg];
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t m = -(lanes >> i & 1);
            d[i] = (d[i] & ~m) | (x[i] & m);
        }
    }
    if (!bad && !(w->dirty[reg] & lanes))
        return;
    w->dirty[reg] &= ~lanes;
    for (uint32_t i = 0; i < LANES; i++)
        if (lanes >> i & 1) {
            w->bad[reg][i] = bad ? bad[i] : 0;
            w->dirty[reg] |= (uint32_t)(w->bad[reg][i] != 0) << i;
        }
}

void vgpr_set(struct wave *w, uint32_t reg, const uint32_t *x, const uint32_t *bad) { vgpr_set_lanes(w, reg, x, bad, exec_of(w)); }
