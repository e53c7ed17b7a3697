; ops.s - instructions that the kernels of today do not use. to[32 k + lane] is what instruction k makes of x = from[lane], y = from[32 + lane],
; z = from[64 + lane]; tests/unit_gfx11.c has the same as formulas, in this order.
;
; Arguments: from [96] u32, to [N][32] u32. One wave.
.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
.macro RESULT
    global_store_b32 v1, v5, s[6:7]
    v_add_nc_u32_e32 v1, 128, v1
.endm
.text
.globl ops
.p2align 8
.type ops,@function
ops:
    s_load_b128 s[4:7], s[0:1], null
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_b32 v2, v1, s[4:5]
    global_load_b32 v3, v1, s[4:5] offset:128
    global_load_b32 v4, v1, s[4:5] offset:256
    s_waitcnt vmcnt(0)
    v_dot4_i32_iu8 v5, v2, v3, v4 neg_lo:[1,0,0]        ; signed times unsigned
    RESULT
    v_dot4_u32_u8 v5, v2, v3, v4
    RESULT
    v_dot8_i32_iu4 v5, v2, v3, v4 neg_lo:[1,1,0]
    RESULT
    v_perm_b32 v5, v2, v3, 0x0c050306
    RESULT
    v_alignbyte_b32 v5, v2, v3, 3
    RESULT
    v_alignbit_b32 v5, v2, v3, 5
    RESULT
    v_bfi_b32 v5, v2, v3, v4
    RESULT
    v_med3_i32 v5, v2, v3, v4
    RESULT
    v_mul_hi_i32 v5, v2, v3
    RESULT
    v_mad_i32_i24 v5, v2, v3, v4
    RESULT
    v_bcnt_u32_b32 v5, v2, v3
    RESULT
    v_mov_b32_dpp v5, v2 quad_perm:[3,0,2,1] row_mask:0xf bank_mask:0xf
    RESULT
    v_mov_b32_dpp v5, v2 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:1
    RESULT
    v_mov_b32_dpp v5, v2 row_ror:5 row_mask:0xf bank_mask:0xf
    RESULT
    v_mov_b32_dpp v5, v2 row_mirror row_mask:0xf bank_mask:0xf
    RESULT
    v_mov_b32_dpp v5, v2 row_share:9 row_mask:0xf bank_mask:0xf
    RESULT
    v_mov_b32_dpp v5, v2 dpp8:[7,6,5,4,0,1,2,3]
    RESULT
    s_mov_b32 s8, 0x01234567
    s_mov_b32 s9, 0x89abcdef
    v_permlane16_b32 v5, v2, s8, s9
    RESULT
    ds_swizzle_b32 v5, v2 offset:0x041f                  ; lane ^ 1
    s_waitcnt lgkmcnt(0)
    RESULT
    v_and_b32_e32 v6, 0x7bff7bff, v2                      ; halves that are numbers
    v_and_b32_e32 v7, 0x7bff7bff, v3
    v_pk_mul_f16 v5, v6, v7 op_sel:[1,0] op_sel_hi:[0,1]
    RESULT
    v_pk_add_f16 v5, v6, v7 neg_lo:[0,1]
    RESULT
    v_dot2_f32_f16 v5, v6, v7, 1.0
    RESULT
    v_mov_b32_e32 v5, v2
    v_fma_mixhi_f16 v5, v6, 1.0, v7 op_sel_hi:[1,0,1]
    RESULT
    v_lshlrev_b32_e32 v8, 2, v0
    v_mov_b32_e32 v5, v2
    global_load_d16_hi_b16 v5, v8, s[4:5] offset:128      ; the lower half of y
    s_waitcnt vmcnt(0)
    RESULT
    v_cvt_pk_rtz_f16_f32 v5, 0x3f801fff, 0.5              ; 1 + a little, cut off
    RESULT
    v_mul_lo_u16 v5, v2, v3                               ; the upper half stays as it was
    RESULT
    s_endpgm
.Lend:
.size ops, .Lend - ops
.rodata
.p2align 6
.amdhsa_kernel ops
    .amdhsa_kernarg_size 16
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_user_sgpr_count 2
    .amdhsa_system_sgpr_workgroup_id_x 1
    .amdhsa_next_free_vgpr 16
    .amdhsa_next_free_sgpr 16
    .amdhsa_wavefront_size32 1
    .amdhsa_float_denorm_mode_32 3
    .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
