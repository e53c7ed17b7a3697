/* wmma.c - products of 16 x 16 matrices. Lane l holds row l % 16 of A and column l % 16 of B, twice in the wave; element j of the sum in lane l is row
 * 2 j + l / 16, column l % 16. */
#include "tests/gfx11/isa.h"

void wmma_float(struct wave *w, const struct inst *in);
void wmma_int(struct wave *w, const struct inst *in);

enum { N = 16, SUMS = 8 };

/* All lanes take part, and the two halves of the wave must hold the same. */
static bool operands_fit(struct wave *w, const struct inst *in)
{
    if (exec_of(w) != ALL_LANES) {
        fault(w, GFX11_LANE, "a matrix product with lanes switched off (exec %08x)", exec_of(w));
        return false;
    }
    for (int k = 0; k < 2; k++)
        for (uint32_t r = 0; r < in->s[k].n; r++)
            for (uint32_t l = 0; l < N; l++)
                if (in->s[k].kind != VGPR || w->v[in->s[k].code + r][l] != w->v[in->s[k].code + r][l + N]) {
                    fault(w, GFX11_LANE, "lanes %u and %u hold different parts of operand %d", l, l + N, k);
                    return false;
                }
    return true;
}

static bool row_bad(const struct wave *w, const struct operand *o, uint32_t lane)
{
    for (uint32_t r = 0; r < o->n; r++)
        if (w->dirty[o->code + r] >> lane & 1)
            return true;
    return false;
}

/* The rows of A and columns of B that hold something nobody has written make their row or column of the sum so. */
static void store(struct wave *w, const struct inst *in, uint32_t sum[SUMS][LANES])
{
    bool a[N], b[N];
    for (uint32_t i = 0; i < N; i++)
        a[i] = row_bad(w, &in->s[0], i), b[i] = row_bad(w, &in->s[1], i);
    for (uint32_t j = 0; j < SUMS; j++) {
        uint32_t bad[LANES];
        struct source c;
        source_raw(w, &in->s[2], in->s[2].kind == VGPR ? j : 0, &c);
        for (uint32_t l = 0; l < LANES; l++)
            bad[l] = a[2 * j + l / N] || b[l % N] || (c.bad && c.bad[l]) ? ALL_LANES : 0;
        vgpr_set(w, in->d.code + j, sum[j], bad);
    }
}

static void take_sum(struct wave *w, const struct inst *in, uint32_t sum[SUMS][LANES])
{
    for (uint32_t j = 0; j < SUMS; j++) {
        struct source c;
        source_raw(w, &in->s[2], in->s[2].kind == VGPR ? j : 0, &c);
        for (uint32_t l = 0; l < LANES; l++)
            sum[j][l] = c.x[l];
    }
}

void wmma_float(struct wave *w, const struct inst *in)
{
    float x[2][N][N];
    uint32_t sum[SUMS][LANES];
    if (!operands_fit(w, in))
        return;
    if (in->neg || in->neg_hi) {
        fault(w, GFX11_UNKNOWN, "a matrix product with signs");
        return;
    }
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t e = 0; e < N; e++) {
                uint32_t h = w->v[in->s[k].code + e / 2][i] >> 16 * (e & 1) & 0xffff;
                x[k][i][e] = in->op->arg ? as_f32(h << 16) : half_to_f32(h);
            }
    take_sum(w, in, sum);
    for (uint32_t j = 0; j < SUMS; j++)
        for (uint32_t l = 0; l < LANES; l++) {
            double s = (double)as_f32(sum[j][l]);
            for (uint32_t e = 0; e < N; e++)
                s += (double)(x[0][2 * j + l / N][e] * x[1][l % N][e]); /* exact in f16; in bf16 too, but for what lies below the range */
            sum[j][l] = as_u32((float)s);
        }
    store(w, in, sum);
}

void wmma_int(struct wave *w, const struct inst *in)
{
    int32_t x[2][N][N];
    uint32_t sum[SUMS][LANES], bits = in->op->arg, per_word = 32 / bits;
    if (!operands_fit(w, in))
        return;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t e = 0; e < N; e++) {
                uint32_t top = w->v[in->s[k].code + e / per_word][i] >> bits * (e % per_word) << (32 - bits);
                x[k][i][e] = in->neg >> k & 1 ? (int32_t)top >> (32 - bits) : (int32_t)(top >> (32 - bits));
            }
    take_sum(w, in, sum);
    for (uint32_t j = 0; j < SUMS; j++)
        for (uint32_t l = 0; l < LANES; l++) {
            int64_t s = (int32_t)sum[j][l];
            for (uint32_t e = 0; e < N; e++)
                s += x[0][2 * j + l / N][e] * x[1][l % N][e];
            if (in->clamp)
                s = MIN(MAX(s, (int64_t)INT32_MIN), (int64_t)INT32_MAX);
            sum[j][l] = (uint32_t)s;
        }
    store(w, in, sum);
}
