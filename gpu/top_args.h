/* top_args.h - arguments of the rows that find the largest values; apart from gpu_args.h, so that a change here leaves other kernels as they are. */
#ifndef HAYATE_GPU_TOP_ARGS_H
#define HAYATE_GPU_TOP_ARGS_H

#include "gpu/gpu_args.h"

/* The k largest values of a row and where they are, by ascending index; among equals the lower index is taken. NaN and -infinity are never among
 * them, so there may be fewer: the rest of the list is ARGMAX_NONE and -infinity. +infinity counts as the largest float. A row is cut in spans
 * of TOP_SPAN, and span i of row r gives to[r][i]. The values and indices of the spans, one after the other, are again a row: top_part takes
 * values, top such pairs, as often as it needs for one span to be left. k <= TOP_MAX. Items: n_row * ceil(n / TOP_SPAN). */
#define TOP_SPAN 4096
#define TOP_MAX 256
struct top_args {
    gpu_addr from; /* top_part: [n_row, stride] f32; top: [n_row, stride] struct argmax_best, 8-byte aligned */
    gpu_addr to;   /* [n_row, ceil(n / TOP_SPAN), k] struct argmax_best, 8-byte aligned */
    uint32_t n, stride, k;
    uint32_t reserved;
};

#endif
