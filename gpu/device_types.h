/* device_types.h - weight layouts in the memory of a device, for C and for kernels: plain #defines only.
 *
 * A row of n_in weights (a multiple of 16) is cut into chunks of 16; a lane of a kernel takes a chunk. What a chunk consists of lies in planes, one
 * after the other, so that every load is aligned: first the largest pieces. The bits are those of the file, no value changes. A row starts at a
 * multiple of 16 bytes. A weight is  scale * q + min  with small integers q (for F32, F16, BF16: q is the weight, scale = 1, min = 0).
 *
 *     type     planes of a row (c = n_in / 16 chunks)
 *     F32      f32[16] x c
 *     F16      binary16[16] x c
 *     BF16     bfloat16[16] x c
 *     Q8_0     i8[16] x c, binary16 scale per 32
 *     I8       i8[16] x c, f32 (scale, min) x c: any other type, decoded into this exactly at load
 *     Q4_K     header of 16 bytes per 256 as in the file (d, dmin, twelve bytes of 6-bit scales and mins), nibbles x c
 *     Q5_K     header, nibbles x c, fifth bits x c
 *     Q5_1     nibbles x c, binary16 (scale, min) per 32, fifth bits x c
 *     Q6_K     nibbles x c, upper pairs of bits u32 x c, i8 scale x c, binary16 d per 256
 *     IQ4_NL   nibbles x c, binary16 scale per 32
 *     IQ3_S    u8[4] x c lower bits of grid indices, u16 x c signs, u8 per 32 ninth bits of the indices, 4-bit scales per 32, binary16 d per 256
 *
 * nibbles: 8 bytes; byte b holds weight b in its lower and weight b + 8 in its upper half. fifth bits: u16, bit i of weight i. upper pairs: bits
 * 2i and 2i + 1 of weight i. */
#ifndef HAYATE_GPU_DEVICE_TYPES_H
#define HAYATE_GPU_DEVICE_TYPES_H

#define DEV_F32 0
#define DEV_F16 1
#define DEV_BF16 2
#define DEV_Q8_0 3
#define DEV_I8 4
/* The types above are understood by every build of a kernel that reads weights, those below by the build of their name. */
#define DEV_Q4_K 5
#define DEV_Q5_K 6
#define DEV_Q5_1 7
#define DEV_Q6_K 8
#define DEV_IQ4_NL 9
#define DEV_IQ3_S 10
#define DEV_COUNT 11
#define DEV_NONE 0xff /* of a build: none of the types with a build of their own */

#define DEV_IS_COMMON(type) ((type) <= DEV_I8)

#endif
