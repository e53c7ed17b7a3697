/* hip.h - the kernel language in clang's HIP for gfx1151. No header of ROCm and no device library is used.
 *
 * A subgroup is a wave of 32. Memory is reached as a base plus a 32-bit byte offset: with a base that is the same in all items it stays in scalar
 * registers and one vector register holds the offset. */
typedef float f32;
typedef unsigned u32;
typedef int i32;
typedef unsigned long u64;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef unsigned u32x2 __attribute__((ext_vector_type(2)));
typedef unsigned u32x4 __attribute__((ext_vector_type(4)));
typedef u64 gpu_addr; /* what argument structs are made of */
typedef u64 uint64_t;
typedef u32 uint32_t;
typedef i32 int32_t;
typedef u16 uint16_t;
typedef u8 uint8_t;
typedef i8 int8_t;
#define STRUCT(name) name
#define FN static inline __attribute__((device, always_inline))
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("nounroll")
/* u32x4(a, b, c, d): only in front of a parenthesis, so that the names stay types elsewhere */
#define f32x2(x, y) (f32x2{ x, y })
#define f32x4(x, y, z, w) (f32x4{ x, y, z, w })
#define u32x2(x, y) (u32x2{ x, y })
#define u32x4(x, y, z, w) (u32x4{ x, y, z, w })
template <typename T, u32 N> using hip_array = T[N];
#define IN_ARRAY(T, name, n) const hip_array<T, n> &name
#define OUT_ARRAY(T, name, n) hip_array<T, n> &name
#define IN_ARRAY2(T, name, n, m) const hip_array<hip_array<T, m>, n> &name
#define OUT_ARRAY2(T, name, n, m) hip_array<hip_array<T, m>, n> &name

#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4))) /* read by scalar loads; nothing that a kernel reads by FIELD changes while it runs */
template <typename T> FN GLOBAL T *hip_at(u64 address, u32 i) { return (GLOBAL T *)((GLOBAL char *)address + u64(u32(i * u32(sizeof(T))))); }
#define LD(T, address, i) (*hip_at<const T>(address, i))
#define ST(T, address, i, x) (*hip_at<T>(address, i) = (x))
#define LD_COHERENT(T, address, i) __builtin_bit_cast(T, __hip_atomic_load(hip_at<u32>(address, i), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT))
#define ST_COHERENT(T, address, i, x) \
    __hip_atomic_store(hip_at<u32>(address, i), __builtin_bit_cast(u32, T(x)), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define STRUCT_IN_MEMORY(S)
#define FIELD(S, address, f) (((const CONSTANT S *)(address))->f)
#define atomic_add(address, x) __hip_atomic_fetch_add(hip_at<u32>(address, 0u), (x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define SHARED(T, name, count) static __attribute__((shared)) T name[count];
#define HIP_SHARED_ATOMIC(op, name, i, x) __hip_atomic_fetch_##op(&name[i], (x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)
#define shared_or(name, i, x) HIP_SHARED_ATOMIC(or, name, i, x)
#define shared_add(name, i, x) HIP_SHARED_ATOMIC(add, name, i, x)
#define shared_min(name, i, x) HIP_SHARED_ATOMIC(min, name, i, x)
#define shared_max(name, i, x) HIP_SHARED_ATOMIC(max, name, i, x)

/* The symbol is the row's id, which the build passes; the file's own name for the kernel is for the reader. */
#define KERNEL(name, args) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(WORKGROUP, WORKGROUP))) void KERNEL_ID(const args A)
#define GROUP u32(__builtin_amdgcn_workgroup_id_x())
#define LID u32(__builtin_amdgcn_workitem_id_x())
#define SG_SIZE 32u
#define SG_ID u32(__builtin_amdgcn_readfirstlane(LID / SG_SIZE))
#define SG_LANE (LID % SG_SIZE)

/* A group runs on one CU, whose vector cache all its waves share: the barrier of the group orders buffers as well as SHARED memory. */
FN void sync_group()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define sync_group_memory() sync_group()
FN void sync_subgroup()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
FN void memory_release() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
FN void memory_acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

/* ---- across a subgroup ---- */

/* The value of lane ^ MASK. Within rows of 16 lanes that is a modifier of the instruction that uses it; between the two rows a permutation. */
template <int MASK> FN i32 hip_xor(i32 x)
{
    if (MASK & 16) {
        x = __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, false, false);
        /* clang 19 does not count this instruction as one that needs all lanes and moves it under a later branch: it has to stay here */
        asm volatile("" : "+v"(x));
    }
    if (MASK & 15)
        x = __builtin_amdgcn_update_dpp(0, x, 0x160 | (MASK & 15), 0xf, 0xf, true);
    return x;
}
FN i32 hip_get(i32 x, u32 lane) { return __builtin_amdgcn_ds_bpermute(i32(4u * lane), x); }
/* For the masks of a butterfly, known when compiled */
FN i32 hip_xor_any(i32 x, u32 mask)
{
    if (__builtin_constant_p(mask)) {
        switch (mask) {
        case 1: return hip_xor<1>(x);
        case 2: return hip_xor<2>(x);
        case 4: return hip_xor<4>(x);
        case 8: return hip_xor<8>(x);
        case 16: return hip_xor<16>(x);
        }
    }
    return hip_get(x, SG_LANE ^ mask);
}
#define HIP_BITS(x) __builtin_bit_cast(i32, x)
#define HIP_XOR(T, x, mask) __builtin_bit_cast(T, hip_xor<mask>(HIP_BITS(x)))
#define HIP_BUTTERFLY(name, T, combine)  \
    FN T name(T x)                       \
    {                                    \
        combine(x, HIP_XOR(T, x, 1));    \
        combine(x, HIP_XOR(T, x, 2));    \
        combine(x, HIP_XOR(T, x, 4));    \
        combine(x, HIP_XOR(T, x, 8));    \
        combine(x, HIP_XOR(T, x, 16));   \
        return x;                        \
    }
#define HIP_SUM(x, y) x += y
#define HIP_FMAX(x, y) x = __builtin_fmaxf(x, y)
#define HIP_UMAX(x, y) x = umax_(x, y)
FN u32 umin_(u32 a, u32 b) { return a < b ? a : b; }
FN u32 umax_(u32 a, u32 b) { return a > b ? a : b; }
HIP_BUTTERFLY(sg_add, f32, HIP_SUM)
HIP_BUTTERFLY(sg_add, u32, HIP_SUM)
HIP_BUTTERFLY(sg_max, f32, HIP_FMAX)
HIP_BUTTERFLY(sg_max, u32, HIP_UMAX)
FN f32 sg_xor(f32 x, u32 mask) { return __builtin_bit_cast(f32, hip_xor_any(HIP_BITS(x), mask)); }
FN u32 sg_xor(u32 x, u32 mask) { return u32(hip_xor_any(i32(x), mask)); }
FN f32 sg_get(f32 x, u32 lane) { return __builtin_bit_cast(f32, hip_get(HIP_BITS(x), lane)); }
FN u32 sg_get(u32 x, u32 lane) { return u32(hip_get(i32(x), lane)); }

/* ---- arithmetic; exp, log, sqrt and division are expanded to within an ulp or two ---- */

FN f32 fma_(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
FN f32 exp_(f32 x) { return __builtin_expf(x); }
FN f32 log_(f32 x) { return __builtin_logf(x); }
FN f32 sqrt_(f32 x) { return __builtin_sqrtf(x); }
FN f32 rsqrt_(f32 x) { return __builtin_amdgcn_rsqf(x); }
FN f32 abs_(f32 x) { return __builtin_fabsf(x); }
FN f32 fmin_(f32 a, f32 b) { return __builtin_fminf(a, b); }
FN f32 fmax_(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
FN u32 as_u32(f32 x) { return __builtin_bit_cast(u32, x); }
FN f32 as_f32(u32 x) { return __builtin_bit_cast(f32, x); }
FN f32 h2f(u32 bits) { return f32(__builtin_bit_cast(_Float16, u16(bits))); }
FN u32 f2h(f32 x) { return __builtin_bit_cast(u16, (_Float16)x); }
FN f32 bf2f(u32 x) { return as_f32(x << 16); }
FN u32 ubyte(u32 x, u32 i) { return x >> 8u * i & 255u; }
FN i32 sbyte(u32 x, u32 i) { return i8(x >> 8u * i); }

#ifdef MATRIX
/* Lane l holds row l % 16 of A or column l % 16 of B, so the two halves of the wave hold the same; element i of a sum is row 2 i + l / 16, column
 * l % 16. Rows and columns of operands are 16 halves, two elements of the array. */
typedef _Float16 hip_halves __attribute__((ext_vector_type(16)));
typedef float hip_sums __attribute__((ext_vector_type(8)));
struct hip_two {
    u32x4 low, high;
};
#define MATRIX_A(name) hip_halves name
#define MATRIX_B(name) hip_halves name
#define MATRIX_SUM(name) hip_sums name
#define matrix_zero(m) m = 0.0f
#define HIP_LOAD(m, array, at) m = __builtin_bit_cast(hip_halves, hip_two{ array[at], array[(at) + 1u] })
#define matrix_load_rows(m, array, offset, stride) HIP_LOAD(m, array, (offset) + LID % 16u * (stride))
#define matrix_load_columns(m, array, offset, stride) HIP_LOAD(m, array, (offset) + LID % 16u * (stride))
#define matrix_store_columns(m, array, offset, stride) \
    UNROLL for (u32 i_ = 0u; i_ < 8u; i_++) array[(offset) + LID % 16u * (stride) + 2u * i_ + SG_LANE / 16u] = m[i_]
#define matrix_load_sum(m, array, offset, stride) \
    UNROLL for (u32 i_ = 0u; i_ < 8u; i_++) m[i_] = array[(offset) + LID % 16u * (stride) + 2u * i_ + SG_LANE / 16u]
#define matrix_store_columns_at(m, address, offset, stride) \
    UNROLL for (u32 i_ = 0u; i_ < 8u; i_++) ST(f32, address, (offset) + LID % 16u * (stride) + 2u * i_ + SG_LANE / 16u, m[i_])
#define matrix_mad(sum, a, b) sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, sum)
#define matrix_each(i, m) UNROLL for (u32 i = 0u; i < 8u; i++)
FN u32 pack_halves(f32 a, f32 b) { return f2h(a) | f2h(b) << 16; }
#endif
