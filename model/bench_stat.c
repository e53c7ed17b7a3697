/* bench_stat.c - mean, spread, and intervals of a ratio; see bench.h. */
#include "model/bench.h"

#include <math.h>
#include <stdlib.h>

void mean_dev(const double *x, size_t n, double *mean, double *dev)
{
    *mean = *dev = 0;
    for (size_t i = 0; i < n; i++)
        *mean += x[i] / (double)n;
    for (size_t i = 0; n > 1 && i < n; i++)
        *dev += (x[i] - *mean) * (x[i] - *mean) / (double)(n - 1);
    *dev = sqrt(*dev);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct ratio abba_ratio(const double *a, const double *b, size_t n_round)
{
    enum { DRAWS = 2000 };
    static double drawn[DRAWS];
    uint64_t x = 0x9E3779B97F4A7C15u; /* xorshift64 */
    double sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < 2 * n_round; i++) {
        sum_a += a[i];
        sum_b += b[i];
    }
    for (int d = 0; d < DRAWS; d++) {
        double da = 0, db = 0;
        for (size_t k = 0; k < n_round; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            size_t i = 2 * (size_t)((x >> 32) % n_round);
            da += a[i] + a[i + 1];
            db += b[i] + b[i + 1];
        }
        drawn[d] = db / da;
    }
    qsort(drawn, DRAWS, sizeof *drawn, ascending);
    return (struct ratio){ sum_b / sum_a, drawn[DRAWS / 40], drawn[DRAWS - 1 - DRAWS / 40] };
}

struct repeat repeats(double mean1, double dev1, double mean2, double dev2)
{
    struct repeat r = { (mean2 - mean1) / mean1, 2 * sqrt(dev1 * dev1 + dev2 * dev2) / mean1, false };
    r.within = fabs(r.change) <= r.spread;
    return r;
}
