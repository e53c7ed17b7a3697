/* cuda.h - the kernel language in CUDA, for tests on an NVIDIA GPU; hip.h says more about the words. A subgroup is a warp. */
#include <cuda_fp16.h>
#include <stdint.h>

typedef float f32;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef uint16_t u16;
typedef uint8_t u8;
typedef int8_t i8;
typedef float2 f32x2;
typedef float4 f32x4;
typedef uint2 u32x2;
typedef uint4 u32x4;
typedef u64 gpu_addr; /* what argument structs are made of */
#define STRUCT(name) name
#define FN static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
/* u32x4(a, b, c, d): only in front of a parenthesis, so that the names stay types elsewhere */
#define f32x2(x, y) make_float2(x, y)
#define f32x4(x, y, z, w) make_float4(x, y, z, w)
#define u32x2(x, y) make_uint2(x, y)
#define u32x4(x, y, z, w) make_uint4(x, y, z, w)
template <typename T, u32 N> using cuda_array = T[N];
#define IN_ARRAY(T, name, n) const cuda_array<T, n> &name
#define OUT_ARRAY(T, name, n) cuda_array<T, n> &name
#define IN_ARRAY2(T, name, n, m) const cuda_array<cuda_array<T, m>, n> &name
#define OUT_ARRAY2(T, name, n, m) cuda_array<cuda_array<T, m>, n> &name

template <typename T> FN T *cuda_at(u64 address, u32 i) { return (T *)(address + u64(i) * sizeof(T)); }
#define LD(T, address, i) (*cuda_at<const T>(address, i))
#define ST(T, address, i, x) (*cuda_at<T>(address, i) = (x))
#define LD_COHERENT(T, address, i) (*cuda_at<const volatile T>(address, i))
#define ST_COHERENT(T, address, i, x) (*cuda_at<volatile T>(address, i) = (x))
#define STRUCT_IN_MEMORY(S)
#define FIELD(S, address, f) (((const S *)(address))->f)
#define atomic_add(address, x) atomicAdd(cuda_at<u32>(address, 0u), x)
#define SHARED(T, name, count) static __shared__ T name[count];
#define shared_or(name, i, x) atomicOr(&name[i], x)
#define shared_add(name, i, x) atomicAdd(&name[i], x)
#define shared_min(name, i, x) atomicMin(&name[i], x)
#define shared_max(name, i, x) atomicMax(&name[i], x)

#define KERNEL(name, args) extern "C" __global__ void __launch_bounds__(WORKGROUP) KERNEL_ID(const args A)
#define GROUP blockIdx.x
#define LID threadIdx.x
#define SG_SIZE 32u
#define SG_ID (LID / SG_SIZE)
#define SG_LANE (LID % SG_SIZE)
#define sync_group() __syncthreads()
#define sync_group_memory() __syncthreads()
#define sync_subgroup() __syncwarp()
#define memory_release() __threadfence()
#define memory_acquire() __threadfence()

#define CUDA_BUTTERFLY(name, T, combine)                              \
    FN T name(T x)                                                    \
    {                                                                 \
        for (u32 mask = 1u; mask < SG_SIZE; mask *= 2u)               \
            x = combine(x, __shfl_xor_sync(0xffffffffu, x, mask));    \
        return x;                                                     \
    }
#define CUDA_SUM(x, y) ((x) + (y))
FN u32 umin_(u32 a, u32 b) { return a < b ? a : b; }
FN u32 umax_(u32 a, u32 b) { return a > b ? a : b; }
CUDA_BUTTERFLY(sg_add, f32, CUDA_SUM)
CUDA_BUTTERFLY(sg_add, u32, CUDA_SUM)
CUDA_BUTTERFLY(sg_max, f32, fmaxf)
CUDA_BUTTERFLY(sg_max, u32, umax_)
#define sg_xor(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
#define sg_get(x, lane) __shfl_sync(0xffffffffu, x, lane)

FN f32 fma_(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f32 exp_(f32 x) { return expf(x); }
FN f32 log_(f32 x) { return logf(x); }
FN f32 sqrt_(f32 x) { return sqrtf(x); }
FN f32 rsqrt_(f32 x) { return rsqrtf(x); }
FN f32 abs_(f32 x) { return fabsf(x); }
FN f32 fmin_(f32 a, f32 b) { return fminf(a, b); }
FN f32 fmax_(f32 a, f32 b) { return fmaxf(a, b); }
FN u32 as_u32(f32 x) { return __float_as_uint(x); }
FN f32 as_f32(u32 x) { return __uint_as_float(x); }
FN f32 h2f(u32 bits) { return __half2float(__ushort_as_half(u16(bits))); }
FN u32 f2h(f32 x) { return __half_as_ushort(__float2half_rn(x)); }
FN f32 bf2f(u32 x) { return as_f32(x << 16); }
FN u32 ubyte(u32 x, u32 i) { return x >> 8u * i & 255u; }
FN i32 sbyte(u32 x, u32 i) { return i8(x >> 8u * i); }

#ifdef MATRIX
#include <mma.h>
#define MATRIX_A(name) nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> name
#define MATRIX_B(name) nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> name
struct cuda_sums : nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> {
    __device__ float &operator[](u32 i) { return x[i]; }
};
#define MATRIX_SUM(name) cuda_sums name
#define matrix_zero(m) nvcuda::wmma::fill_fragment(m, 0.0f)
#define matrix_load_rows(m, array, offset, stride) nvcuda::wmma::load_matrix_sync(m, (const half *)&array[offset], 8u * (stride))
#define matrix_load_columns(m, array, offset, stride) nvcuda::wmma::load_matrix_sync(m, (const half *)&array[offset], 8u * (stride))
#define matrix_store_columns(m, array, offset, stride) nvcuda::wmma::store_matrix_sync(&array[offset], m, stride, nvcuda::wmma::mem_col_major)
#define matrix_load_sum(m, array, offset, stride) nvcuda::wmma::load_matrix_sync(m, &array[offset], stride, nvcuda::wmma::mem_col_major)
#define matrix_store_columns_at(m, address, offset, stride) \
    nvcuda::wmma::store_matrix_sync((f32 *)(address) + (offset), m, stride, nvcuda::wmma::mem_col_major)
#define matrix_mad(sum, a, b) nvcuda::wmma::mma_sync(sum, a, b, sum)
#define matrix_each(i, m) UNROLL for (u32 i = 0u; i < (m).num_elements; i++)
FN u32 pack_halves(f32 a, f32 b) { return f2h(a) | f2h(b) << 16; }
#endif
