/* int_rows.h - rows of activations as integers, for products with quantised weights on a CPU that multiplies bytes.
 *
 * A row of n values (n a multiple of 32) becomes n integers of 16 bits, and a scale for every 32 of them: x[i] = scale[i / 32] * v[i],
 * |v| <= INT_ROWS_MAX. With 16 bits a product is as good as in f32 for all that follows; with 8, tokens change their experts. Every sum over up to 32
 * columns is an exact integer, so it has the same bits in whatever order and by whatever instruction it is made.
 *
 * v = 256 * hi + lo, both signed bytes. A row, aligned to 64 bytes:
 *
 *     scale f32 [n / 32] | bias16 i32 [n / 16] | bias32 i32 [n / 32] | padding to 64 | for every 4 columns: hi[4], lo[4]
 *
 * bias is -128 times the sum of v over 16 or 32 columns: instructions that multiply bytes want one side unsigned, so weights come as q + 128, and
 * this takes the 128 out again. 32 values with an infinity or NaN among them have scale NaN and are zeros. */
#ifndef HAYATE_GPU_INT_ROWS_H
#define HAYATE_GPU_INT_ROWS_H

#include "gpu/gpu_args.h"

enum { INT_ROWS_MAX = 127 * 256 };
#define INT_ROWS_LEAST 1e-30f /* values that are all smaller become zeros: the inverse would overflow */

static inline size_t int_row_bias(uint32_t n) { return (size_t)n / 32 * 4; }
static inline size_t int_row_values(uint32_t n) { return size_up((size_t)n / 8 * 4, 64); }
static inline size_t int_row_bytes(uint32_t n) { return size_up(int_row_values(n) + 2 * (size_t)n, 64); }

/* Rows of n values from x (x_stride floats apart). Items: rows. */
struct quantise_args {
    gpu_addr x, rows;
    uint32_t x_stride, n;
};

/* The products of matmul with jobs of any weight type: those that unpack to integers (quant_unpack.h) meet rows, the others m.x. */
struct matmul_int_args {
    struct matmul_args m;
    gpu_addr rows;
};

/* Tokens whose sums a thread keeps at once, and floats of its scratch for them and what it unpacks (cpu_panel.h, cpu_direct.h) */
enum { INT_TOKENS = 512, INT_SCRATCH = 2 * 32 * INT_TOKENS + 32768 };

/* Blocks of a call that a thread may take at once where there is one row of x */
enum { INT_TOGETHER = 20 };

/* Value i of a row of n */
static inline double int_row_value(const uint8_t *row, uint32_t n, uint32_t i)
{
    const int8_t *v = (const int8_t *)(row + int_row_values(n)) + 8 * (size_t)(i / 4) + i % 4;
    return (double)((const float *)(const void *)row)[i / 32] * (256 * v[0] + v[4]);
}

#endif
