/* glsl.h - the kernel language in GLSL for Vulkan 1.3. The C preprocessor expands it; the build then puts glsl_head.glsl in front. */
#define f32 float
#define u32 uint
#define i32 int
#define u64 uint64_t
#define u16 uint16_t
#define u8 uint8_t
#define i8 int8_t
#define f32x2 vec2
#define f32x4 vec4
#define u32x2 uvec2
#define u32x4 uvec4
#define gpu_addr uint64_t
#define STRUCT(name) name
#define out out_ /* names of fields that are keywords in GLSL */
#define FN
#define UNROLL [[unroll]]
#define ROLLED [[dont_unroll]]
#define IN_ARRAY(T, name, n) in T name[n]
#define OUT_ARRAY(T, name, n) inout T name[n]
#define IN_ARRAY2(T, name, n, m) in T name[n][m]
#define OUT_ARRAY2(T, name, n, m) inout T name[n][m]

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer mem_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer mem_u32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer mem_i32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer mem_u16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer mem_u8 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer mem_i8 { int8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer mem_u64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer mem_f32x2 { vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer mem_f32x4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer mem_u32x2 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer mem_u32x4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer coherent_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer coherent_u32 { uint v[]; };
#define LD(T, address, i) (mem_##T(address).v[i])
#define ST(T, address, i, x) (mem_##T(address).v[i] = (x))
#define LD_COHERENT(T, address, i) (coherent_##T(address).v[i])
#define ST_COHERENT(T, address, i, x) (coherent_##T(address).v[i] = (x))
#define STRUCT_IN_MEMORY(S) layout(buffer_reference, scalar, buffer_reference_align = 8) buffer mem_##S { S v; };
#define FIELD(S, address, f) (mem_##S(address).v.f)
#define atomic_add(address, x) atomicAdd(mem_u32(address).v[0], (x))
#define SHARED(T, name, count) shared T name[count];
#define shared_or(name, i, x) atomicOr(name[i], (x))
#define shared_add(name, i, x) atomicAdd(name[i], (x))
#define shared_min(name, i, x) atomicMin(name[i], (x))
#define shared_max(name, i, x) atomicMax(name[i], (x))

#define KERNEL(name, args)                                  \
    layout(push_constant, scalar) uniform push { args A; }; \
    layout(local_size_x = WORKGROUP) in;                    \
    void main()
#define GROUP gl_WorkGroupID.x
#define LID gl_LocalInvocationID.x
#define SG_SIZE gl_SubgroupSize
#define SG_ID gl_SubgroupID
#define SG_LANE gl_SubgroupInvocationID
#define sync_group() barrier()
#define sync_group_memory() (memoryBarrierBuffer(), barrier())
#define memory_release() memoryBarrierBuffer()
#define memory_acquire() memoryBarrierBuffer()
#define sg_add(x) subgroupAdd(x)
#define sg_max(x) subgroupMax(x)
#define sg_xor(x, mask) subgroupShuffleXor(x, mask)
#define sg_get(x, lane) subgroupShuffle(x, lane)

#define fma_(a, b, c) fma(a, b, c)
#define exp_(x) exp(x)
#define log_(x) log(x)
#define sqrt_(x) sqrt(x)
#define rsqrt_(x) inversesqrt(x)
#define abs_(x) abs(x)
#define fmin_(a, b) min(a, b)
#define fmax_(a, b) max(a, b)
#define umin_(a, b) min(a, b)
#define umax_(a, b) max(a, b)
#define as_u32(x) floatBitsToUint(x)
#define as_f32(x) uintBitsToFloat(x)
#define h2f(bits) (unpackHalf2x16(uint(bits)).x)     /* the low 16 bits as binary16 */
#define f2h(x) (packHalf2x16(vec2((x), 0.0)))        /* rounds to nearest even; the upper 16 bits are 0 */
#define bf2f(x) uintBitsToFloat(uint(x) << 16)
#define ubyte(x, i) bitfieldExtract(uint(x), 8 * (i), 8) /* byte i as u32 */
#define sbyte(x, i) bitfieldExtract(int(x), 8 * (i), 8)  /* byte i as i32 */

#ifdef MATRIX
layout(constant_id = 0) const bool slow_convert = false; /* set when a pipeline is made: integers to floats at a fraction of the rate of additions */
#define SLOW_CONVERT slow_convert
/* Matrices of 16 x 16 that a subgroup holds together: f16 operands, f32 sums. Where an element lies is not known. Operands are loaded from SHARED
 * arrays of u32x4 (8 halves); stride and offset count elements of the array. */
#define MATRIX_A(name) coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> name
#define MATRIX_B(name) coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> name
#define MATRIX_SUM(name) coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> name
#define matrix_zero(m) m = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0)
#define matrix_load_rows(m, array, offset, stride) coopMatLoad(m, array, offset, stride, gl_CooperativeMatrixLayoutRowMajor)
#define matrix_load_columns(m, array, offset, stride) coopMatLoad(m, array, offset, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define matrix_store_columns(m, array, offset, stride) coopMatStore(m, array, offset, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define matrix_load_sum(m, array, offset, stride) coopMatLoad(m, array, offset, stride, gl_CooperativeMatrixLayoutColumnMajor) /* as stored so */
#define sync_subgroup() (subgroupMemoryBarrierShared(), subgroupBarrier())
/* ... and to f32 in a buffer, of which `address` is the first element */
#define matrix_store_columns_at(m, address, offset, stride) coopMatStore(m, mem_f32(address).v, offset, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define matrix_mad(sum, a, b) sum = coopMatMulAdd(a, b, sum)
#define matrix_each(i, m) for (int i = 0; i < m.length(); i++)
#define pack_halves(a, b) packHalf2x16(vec2((a), (b)))
#endif
