/* host.h - the kernel language in C++ for the host, without any C++ header: every item is a fiber (host_run.h). Not fast, but under the sanitizers. */
#include "gpu/lang/host_run.h"

#include <math.h>
#include <string.h>

typedef float f32;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef uint16_t u16;
typedef uint8_t u8;
typedef int8_t i8;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef u64 gpu_addr; /* what argument structs are made of */
#define STRUCT(name) name
#define FN static inline
#define UNROLL
#define ROLLED
/* u32x4(a, b, c, d): only in front of a parenthesis, so that the names stay types elsewhere */
#define f32x2(x, y) (f32x2{ x, y })
#define f32x4(x, y, z, w) (f32x4{ x, y, z, w })
#define u32x2(x, y) (u32x2{ x, y })
#define u32x4(x, y, z, w) (u32x4{ x, y, z, w })
template <typename T, u32 N> using host_array = T[N];
#define IN_ARRAY(T, name, n) const host_array<T, n> &name
#define OUT_ARRAY(T, name, n) host_array<T, n> &name
#define IN_ARRAY2(T, name, n, m) const host_array<host_array<T, m>, n> &name
#define OUT_ARRAY2(T, name, n, m) host_array<host_array<T, m>, n> &name

#ifndef HOST_SG_SIZE
#define HOST_SG_SIZE 32
#endif
#define HOST_TEXT2(x) #x
#define HOST_TEXT(x) HOST_TEXT2(x)
#define HOST_NAME2(id) id##_host
#define HOST_NAME(id) HOST_NAME2(id)
static struct host_kernel host_this = { HOST_TEXT(KERNEL_ID), WORKGROUP, HOST_SG_SIZE, {}, 0 };

/* ---- memory: what the language asks of addresses is checked at every access ---- */

template <typename T> FN T *host_at(u64 address, u32 i, int line)
{
    u64 offset = u64(i) * sizeof(T);
    if (address % sizeof(T) != 0)
        host_fault(line, "an address is not aligned to its type");
    if (offset >> 32 != 0)
        host_fault(line, "an element lies 4 GiB or more behind its address");
    return (T *)(address + offset);
}
template <typename S> FN const S *host_struct(u64 address, int line)
{
    if (address % alignof(S) != 0)
        host_fault(line, "the address of a struct is not aligned");
    return (const S *)address;
}
#define LD(T, address, i) (*host_at<const T>(address, i, __LINE__))
#define ST(T, address, i, x) (*host_at<T>(address, i, __LINE__) = (x))
#define LD_COHERENT(T, address, i) LD(T, address, i)
#define ST_COHERENT(T, address, i, x) ST(T, address, i, x)
#define STRUCT_IN_MEMORY(S)
#define FIELD(S, address, f) (host_struct<S>(address, __LINE__)->f)
FN u32 host_fetch_add(u32 *p, u32 x)
{
    u32 before = *p;
    *p = before + x;
    return before;
}
#define atomic_add(address, x) host_fetch_add(host_at<u32>(address, 0u, __LINE__), x)

/* A block of its own per array, so that the sanitizer sees its ends */
#define SHARED(T, name, count)                                                                \
    static T *name;                                                                           \
    __attribute__((constructor)) static void name##_add(void)                                 \
    {                                                                                         \
        host_add_shared(&host_this, (void **)&name, sizeof(T) * (count));                     \
    }
#define shared_or(name, i, x) ((void)(name[i] |= (x)))
#define shared_add(name, i, x) host_fetch_add(&name[i], x)
#define shared_min(name, i, x) ((void)(name[i] = name[i] < (x) ? name[i] : (x)))
#define shared_max(name, i, x) ((void)(name[i] = name[i] > (x) ? name[i] : (x)))

#define KERNEL(name, args)                                                                    \
    static void host_item(const args A);                                                      \
    static void host_call(const void *a) { host_item(*(const args *)a); }                     \
    extern "C" void HOST_NAME(KERNEL_ID)(const void *a, uint32_t n_groups);                   \
    extern "C" void HOST_NAME(KERNEL_ID)(const void *a, uint32_t n_groups)                    \
    {                                                                                         \
        host_run(&host_this, host_call, a, n_groups);                                         \
    }                                                                                         \
    static void host_item(const args A)
#define GROUP host_group
#define LID host_lid
#define SG_SIZE u32(HOST_SG_SIZE)
#define SG_ID (host_lid / SG_SIZE)
#define SG_LANE (host_lid % SG_SIZE)
#define sync_group() ((void)host_meet(HOST_BARRIER, __LINE__, 0u, 0u))
#define sync_group_memory() sync_group()
#define sync_subgroup() ((void)host_meet(HOST_SUBGROUP, __LINE__, 0u, 0u))
#define memory_release() ((void)0)
#define memory_acquire() ((void)0)

FN u32 as_u32(f32 x) { return __builtin_bit_cast(u32, x); }
FN f32 as_f32(u32 x) { return __builtin_bit_cast(f32, x); }
FN f32 host_sg(host_meeting f, host_meeting, int line, f32 x) { return as_f32(host_meet(f, line, as_u32(x), 0u)); }
FN u32 host_sg(host_meeting, host_meeting u, int line, u32 x) { return host_meet(u, line, x, 0u); }
FN f32 host_lane(host_meeting what, int line, f32 x, u32 operand) { return as_f32(host_meet(what, line, as_u32(x), operand)); }
FN u32 host_lane(host_meeting what, int line, u32 x, u32 operand) { return host_meet(what, line, x, operand); }
#define sg_add(x) host_sg(HOST_ADD_F32, HOST_ADD_U32, __LINE__, x)
#define sg_max(x) host_sg(HOST_MAX_F32, HOST_MAX_U32, __LINE__, x)
#define sg_xor(x, mask) host_lane(HOST_XOR, __LINE__, x, mask)
#define sg_get(x, lane) host_lane(HOST_GET, __LINE__, x, lane)

/* ---- arithmetic ---- */

FN f32 fma_(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f32 exp_(f32 x) { return expf(x); }
FN f32 log_(f32 x) { return logf(x); }
FN f32 sqrt_(f32 x) { return sqrtf(x); }
FN f32 rsqrt_(f32 x) { return 1.0f / sqrtf(x); }
FN f32 abs_(f32 x) { return fabsf(x); }
FN f32 fmin_(f32 a, f32 b) { return fminf(a, b); }
FN f32 fmax_(f32 a, f32 b) { return fmaxf(a, b); }
FN u32 umin_(u32 a, u32 b) { return a < b ? a : b; }
FN u32 umax_(u32 a, u32 b) { return a > b ? a : b; }
extern "C" float f16_to_f32(uint16_t h);
extern "C" uint16_t f32_to_f16(float x);
FN f32 h2f(u32 bits) { return f16_to_f32(u16(bits)); }
FN u32 f2h(f32 x) { return f32_to_f16(x); }
FN f32 bf2f(u32 x) { return as_f32(x << 16); }
FN u32 ubyte(u32 x, u32 i) { return x >> 8u * i & 255u; }
FN i32 sbyte(u32 x, u32 i) { return i8(x >> 8u * i); }

#ifdef MATRIX
/* Every item holds whole operands, as halves, and its share of a sum: elements l, l + SG_SIZE, ... of the rows one after the other. */
struct host_operand {
    u16 h[16][16]; /* [row of A or column of B][k] */
};
struct host_sums {
    f32 v[256 / HOST_SG_SIZE];
    f32 &operator[](u32 i) { return v[i]; }
};
#define MATRIX_A(name) host_operand name
#define MATRIX_B(name) host_operand name
#define MATRIX_SUM(name) host_sums name
#define matrix_zero(m) m = host_sums{}
FN host_operand host_load(const u32x4 *from, u32 stride)
{
    host_operand m;
    for (u32 r = 0u; r < 16u; r++)
        memcpy(m.h[r], from + r * stride, sizeof m.h[r]);
    return m;
}
FN void host_mad(host_sums &sum, const host_operand &a, const host_operand &b, int line)
{
    host_meet(HOST_SUBGROUP, line, 0u, 0u);
    for (u32 i = 0u; i < 256u / SG_SIZE; i++)
        for (u32 e = i * SG_SIZE + SG_LANE, k = 0u; k < 16u; k++)
            sum.v[i] = fmaf(f16_to_f32(a.h[e / 16u][k]), f16_to_f32(b.h[e % 16u][k]), sum.v[i]);
}
FN void host_store(const host_sums &m, f32 *to, u32 stride)
{
    for (u32 i = 0u; i < 256u / SG_SIZE; i++)
        to[(i * SG_SIZE + SG_LANE) % 16u * stride + (i * SG_SIZE + SG_LANE) / 16u] = m.v[i];
}
FN void host_load_sum(host_sums &m, const f32 *from, u32 stride)
{
    for (u32 i = 0u; i < 256u / SG_SIZE; i++)
        m.v[i] = from[(i * SG_SIZE + SG_LANE) % 16u * stride + (i * SG_SIZE + SG_LANE) / 16u];
}
#define matrix_load_sum(m, array, offset, stride) host_load_sum(m, &array[offset], stride)
#define matrix_load_rows(m, array, offset, stride) m = host_load(&array[offset], stride)
#define matrix_load_columns(m, array, offset, stride) m = host_load(&array[offset], stride)
#define matrix_store_columns(m, array, offset, stride) host_store(m, &array[offset], stride)
#define matrix_store_columns_at(m, address, offset, stride)                                                     \
    do {                                                                                                        \
        if ((address + 4u * u64(offset)) % 16u != 0u || (stride) % 4u != 0u)                                    \
            host_fault(__LINE__, "a matrix is stored to columns that are not aligned to 16 bytes");             \
        host_store(m, host_at<f32>(address, offset, __LINE__), stride);                                         \
    } while (0)
#define matrix_mad(sum, a, b) host_mad(sum, a, b, __LINE__)
#define matrix_each(i, m) for (u32 i = 0u; i < 256u / SG_SIZE; i++)
FN u32 pack_halves(f32 a, f32 b) { return f2h(a) | f2h(b) << 16; }
#endif
