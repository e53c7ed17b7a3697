/* gdn_math.h - the small formulas that the reference rows and their twins share. */
#ifndef HAYATE_GDN_MATH_H
#define HAYATE_GDN_MATH_H

#include "gdn/gdn_args.h"

#include <math.h>

/* Log decay of value head h at row t (spec 3.3): A * softplus(alpha + dt), never above 0 */
static inline float gdn_log_decay(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    float x = AT(const float, a->alpha)[(size_t)t * b->n_v + h] + AT(const float, b->dt)[h];
    return AT(const float, b->a)[h] * (x > 20.0f ? x : log1pf(expf(x)));
}

static inline float gdn_beta(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    return AT(const float, a->beta)[(size_t)t * b->n_v + h];
}

/* The query row that value head h is paired with (spec 3.4: key head h % n_k); the key row lies n_k * dim behind it */
static inline const float *gdn_q_row(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    return AT(const float, a->qkv) + (size_t)t * b->width + (size_t)(h % b->n_k) * b->dim;
}

static inline const float *gdn_v_row(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t)
{
    return AT(const float, a->qkv) + (size_t)t * b->width + (2 * (size_t)b->n_k + h) * b->dim;
}

/* Where the record of row t and value head h begins in k and del of struct gdn_verify_args */
static inline size_t gdn_record_at(const struct gdn_block *b, uint32_t h, uint32_t t) { return ((size_t)t * b->n_v + h) * b->dim; }

/* Scales that normalise q and k, given their sums of squares: 1e-6 is added to the sum, not to the mean (spec 3.3) */
static inline float gdn_q_scale(const struct gdn_block *b, float sum_sq) { return 1.0f / sqrtf(sum_sq + 1e-6f) / sqrtf((float)b->dim); }
static inline float gdn_k_scale(float sum_sq) { return 1.0f / sqrtf(sum_sq + 1e-6f); }

/* Output of one row: normalise, gain, gate (spec 3.7), given the sum of squares of o */
static inline void gdn_store(const struct gdn_mix_args *a, const struct gdn_block *b, uint32_t h, uint32_t t, const float *o, float sum_sq)
{
    size_t at = ((size_t)t * b->n_v + h) * b->dim;
    const float *norm = AT(const float, b->norm), *gate = AT(const float, a->gate) + at;
    float r = 1.0f / sqrtf(sum_sq / (float)b->dim + b->eps);
    for (uint32_t i = 0; i < b->dim; i++)
        AT(float, a->out)[at + i] = o[i] * r * norm[i] * gate[i];
}

#endif
