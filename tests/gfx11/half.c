/* half.c - f16. */
#include "tests/gfx11/isa.h"

#include <math.h>

float half_to_f32(uint32_t h)
{
    uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
    if (magnitude >= 0x7c00)
        return as_f32(sign | 0x7f800000 | (magnitude & 0x3ff) << 13 | (magnitude > 0x7c00 ? 0x400000 : 0));
    return as_f32(sign | as_u32(as_f32(magnitude << 13) * 0x1p112f)); /* exact, also for the smallest */
}

uint32_t f64_to_half(double x)
{
    uint32_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x);
    if (isnan(x))
        return sign | 0x7e00;
    if (a >= 65520.0)
        return sign | 0x7c00;
    if (a < 0x1p-14) /* a multiple of 2^-24; 1024 of them are the smallest normal number */
        return sign | (uint32_t)nearbyint(a * 0x1p24);
    int e;
    double m = frexp(a, &e); /* 0.5 <= m < 1; a carry out of the rounding goes on into the exponent */
    return sign | (uint32_t)((e + 14) * 1024 + (int)nearbyint(m * 2048.0) - 1024);
}

uint32_t f32_to_half(float x)
{
    uint32_t u = as_u32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a < 0x38800000 || a >= 0x477ff000 - 0x1000)
        return isnan(x) ? sign | 0x7e00 | (a >> 13 & 0x3ff) : f64_to_half((double)x);
    a += 0xfff + (a >> 13 & 1); /* to the nearest, ties to even */
    return sign | ((a >> 13) - (112 << 10));
}
