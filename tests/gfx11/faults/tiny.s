; tiny.s - to[i] = from[i] + from[63 - i] for the 64 items of a group, by way of LDS; with FAULT one thing is wrong.
;
; Arguments: from [64] u32, to [64] u32. The numbers of the faults are those of tests/unit_gfx11.c.
.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
.text
.globl tiny
.p2align 8
.type tiny,@function
tiny:
    s_load_b128 s[4:7], s[0:1], null
    v_lshlrev_b32_e32 v1, 2, v0
.if FAULT == 1                        ; the arguments are used before they are there
.else
    s_waitcnt lgkmcnt(0)
.endif
    global_load_b32 v2, v1, s[4:5]
.if FAULT == 2                        ; one load in flight may not be enough
    global_load_b32 v6, v1, s[4:5]
    s_waitcnt vmcnt(1)
    v_mov_b32_e32 v7, v6
.else
    s_waitcnt vmcnt(0)
.endif
    v_mov_b32_e32 v3, 0
    ds_store_b32 v1, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_store_b32 v1, v2
    v_sub_nc_u32_e32 v3, 252, v1
.if FAULT == 3                        ; nobody waits for the store before the barrier
.else
    s_waitcnt lgkmcnt(0)
.endif
.if FAULT == 4                        ; no barrier
.else
    s_barrier
.endif
    ds_load_b32 v4, v3
.if FAULT == 6                        ; LDS is read too early
.else
    s_waitcnt lgkmcnt(0)
.endif
    v_add_nc_u32_e32 v5, v2, v4
.if FAULT == 7                        ; a register that nobody has written
    v_add_nc_u32_e32 v5, v2, v9
.endif
.if FAULT == 8                        ; the same, in an address
    v_and_b32_e32 v1, 0xfc, v9
.endif
.if FAULT == 9                        ; the same, in exec
    v_cmpx_ne_u32_e32 v0, v9
.endif
.if FAULT == 10                       ; the same, in a branch
    s_cmp_eq_u32 s9, 0
    s_cbranch_scc1 last
last:
.endif
.if FAULT == 11                       ; item 63 stores behind the end
    global_store_b32 v1, v5, s[6:7] offset:4
.elseif FAULT == 12                   ; item 0 loads what lies in front
    global_load_b32 v8, v1, s[4:5] offset:-4
.elseif FAULT == 13                   ; the input is written to
    global_store_b32 v1, v5, s[4:5]
.else
    global_store_b32 v1, v5, s[6:7]
.endif
.if FAULT == 5                        ; a barrier for one wave only
    v_cmp_gt_u32_e32 vcc_lo, 32, v0
    s_cbranch_vccz after
    s_barrier
after:
.endif
.if FAULT == 14                       ; LDS ends after 64 words
    s_barrier
    ds_store_b32 v1, v5 offset:4
.endif
.if FAULT == 15                       ; a lane that is off gives its value
    v_cmpx_eq_u32_e32 0, v0
    v_mov_b32_dpp v6, v5 row_xmask:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
.endif
.if FAULT == 16                       ; for ever
again:
    s_nop 0
    s_branch again
.endif
.if FAULT == 17                       ; an instruction that the interpreter does not know
    v_sin_f32_e32 v5, v5
.endif
.if FAULT == 18                       ; the group's memory as it was before: nobody has written it
    ds_load_b32 v4, v1 offset:256
    s_waitcnt lgkmcnt(0)
    global_store_b32 v1, v4, s[6:7]
.endif
.if FAULT == 19                       ; the other wave's part of the output, without a barrier
    v_sub_nc_u32_e32 v1, 252, v1
    s_waitcnt_vscnt null, 0x0
    global_load_b32 v8, v1, s[6:7]
    s_barrier
.endif
.if FAULT == 20                       ; both waves write to one place
    v_mov_b32_e32 v1, 4
    global_store_b32 v1, v0, s[6:7]
.endif
    s_endpgm
.Lend:
.size tiny, .Lend - tiny

.set LDS_BYTES, 256
.if FAULT == 18
.set LDS_BYTES, 512
.endif
.rodata
.p2align 6
.amdhsa_kernel tiny
    .amdhsa_group_segment_fixed_size LDS_BYTES
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
