/* wait.c - s_waitcnt. A load writes its registers at once here, but until the counter that covers it has been waited for, touching them is a fault.
 * Vector loads and LDS come back in order; scalar loads in any, so while one is under way only lgkmcnt(0) says something. */
#include "tests/gfx11/isa.h"

static bool vgpr_ready(const struct wave *w, uint32_t reg, bool reload)
{
    if (reload) /* loads of one kind end in order: the later one stays */
        return w->ds_reg[reg] <= w->ds_done;
    return w->vm_reg[reg] <= w->vm_done && w->ds_reg[reg] <= w->ds_done;
}

static void check(struct wave *w, const struct inst *in, const struct operand *o, const char *what)
{
    for (uint32_t r = o->code; r < (uint32_t)o->code + o->n && !faulted(w); r++) {
        bool reload = o == &in->d && in->op->flags & OP_LOAD && in->op->enc != DS && in->op->enc != SMEM;
        bool ds_reload = o == &in->d && in->op->flags & OP_LOAD && in->op->enc == DS;
        if (o->kind == VGPR && !(ds_reload ? w->vm_reg[r] <= w->vm_done : vgpr_ready(w, r, reload)))
            fault(w, GFX11_WAIT, "%s v%u is still being loaded", what, r);
        if (o->kind == SGPR && r < N_SGPR && w->smem_out && w->smem_reg[r])
            fault(w, GFX11_WAIT, "%s s%u is still being loaded", what, r);
    }
}

void wait_check(struct wave *w, const struct inst *in)
{
    check(w, in, &in->d, "destination");
    check(w, in, &in->mask_d, "destination");
    for (int k = 0; k < 3; k++)
        check(w, in, &in->s[k], "source");
    if (in->y && !faulted(w))
        wait_check(w, in->y);
}

void wait_vm_load(struct wave *w, uint32_t reg, uint32_t n)
{
    w->vm_issued++;
    for (uint32_t r = reg; r < reg + n; r++)
        w->vm_reg[r] = w->vm_issued;
}
void wait_ds_load(struct wave *w, uint32_t reg, uint32_t n)
{
    w->ds_issued++;
    for (uint32_t r = reg; r < reg + n; r++)
        w->ds_reg[r] = w->ds_issued;
}
void wait_smem(struct wave *w, uint32_t reg, uint32_t n)
{
    w->smem_out++;
    for (uint32_t r = reg; r < reg + n; r++)
        w->smem_reg[r] = 1;
}

static void lower(uint32_t issued, uint32_t *done, uint32_t left)
{
    if (issued - *done > left)
        *done = issued - left;
}

static void wait_vm(struct wave *w, uint32_t left) { lower(w->vm_issued, &w->vm_done, left); }
static void wait_lgkm(struct wave *w, uint32_t left)
{
    if (left && w->smem_out)
        return;
    lower(w->ds_issued, &w->ds_done, left);
    for (uint32_t r = 0; w->smem_out && r < N_SGPR; r++)
        w->smem_reg[r] = 0;
    w->smem_out = 0;
}

static void waitcnt(struct wave *w, const struct inst *in)
{
    wait_vm(w, (uint32_t)in->imm >> 10 & 63);
    wait_lgkm(w, (uint32_t)in->imm >> 4 & 63);
}
/* s_waitcnt_*: a register, always null, is added to the number */
static void waitcnt_vm(struct wave *w, const struct inst *in) { wait_vm(w, (uint32_t)in->imm & 63); }
static void waitcnt_lgkm(struct wave *w, const struct inst *in) { wait_lgkm(w, (uint32_t)in->imm & 63); }
static void waitcnt_vs(struct wave *w, const struct inst *in) { lower(w->vs_issued, &w->vs_done, (uint32_t)in->imm & 63); }

/* ---- the rest of what steers a wave ---- */

static void nothing(struct wave *w, const struct inst *in) { (void)w, (void)in; }
static void endpgm(struct wave *w, const struct inst *in) { (void)in, w->ended = true; }
static void barrier(struct wave *w, const struct inst *in)
{
    (void)in;
    /* An LDS access that is still under way may come after the barrier as seen by others. */
    if (w->ds_issued != w->ds_done)
        fault(w, GFX11_WAIT, "a barrier while %u accesses to LDS are under way", w->ds_issued - w->ds_done);
    w->at_barrier = true;
}
static void code_end(struct wave *w, const struct inst *in) { (void)in, fault(w, GFX11_UNKNOWN, "ran into what lies behind the code"); }
/* The only message of a compute kernel that needs nothing here: registers are given back early */
static void sendmsg(struct wave *w, const struct inst *in)
{
    if (in->imm != 3)
        fault(w, GFX11_UNKNOWN, "message %d", in->imm);
}

static void jump(struct wave *w, const struct inst *in) { w->next = (uint32_t)((int32_t)(in->at / 4) + 1 + in->imm); }
static void jump_if(struct wave *w, const struct inst *in, bool yes)
{
    if (yes)
        jump(w, in);
}
static void branch_scc(struct wave *w, const struct inst *in)
{
    if (must_be_written(w, w->scc_bad, "branch"))
        jump_if(w, in, w->scc == in->op->arg);
}
static void branch_vcc(struct wave *w, const struct inst *in)
{
    uint32_t known = w->s[S_VCC] & ~w->s_bad[S_VCC];
    if (known || must_be_written(w, w->s_bad[S_VCC], "branch"))
        jump_if(w, in, (w->s[S_VCC] != 0) == in->op->arg);
}
static void branch_exec(struct wave *w, const struct inst *in) { jump_if(w, in, (exec_of(w) != 0) == in->op->arg); }

#define ROW(enc, code, name, form, flags, arg, run) { enc, code, name, form, flags, 0, arg, run, { 0 } }
const struct op control_ops[] = {
    ROW(SOPP, 0, "s_nop", "-i", 0, 0, nothing), ROW(SOPP, 3, "s_sleep", "-i", 0, 0, nothing), ROW(SOPP, 4, "s_set_inst_prefetch_distance", "-i", 0, 0, nothing),
    ROW(SOPP, 5, "s_clause", "-i", 0, 0, nothing), ROW(SOPP, 7, "s_delay_alu", "-i", 0, 0, nothing), ROW(SOPP, 8, "s_waitcnt_depctr", "-i", 0, 0, nothing),
    ROW(SOPP, 9, "s_waitcnt", "-i", 0, 0, waitcnt), ROW(SOPP, 10, "s_wait_idle", "-", 0, 0, nothing), ROW(SOPP, 31, "s_code_end", "-", 0, 0, code_end),
    ROW(SOPP, 32, "s_branch", "-i", OP_JUMP, 0, jump), ROW(SOPP, 33, "s_cbranch_scc0", "-i", OP_JUMP, 0, branch_scc), ROW(SOPP, 34, "s_cbranch_scc1", "-i", OP_JUMP, 1, branch_scc),
    ROW(SOPP, 35, "s_cbranch_vccz", "-i", OP_JUMP, 0, branch_vcc), ROW(SOPP, 36, "s_cbranch_vccnz", "-i", OP_JUMP, 1, branch_vcc),
    ROW(SOPP, 37, "s_cbranch_execz", "-i", OP_JUMP, 0, branch_exec), ROW(SOPP, 38, "s_cbranch_execnz", "-i", OP_JUMP, 1, branch_exec),
    ROW(SOPP, 48, "s_endpgm", "-", 0, 0, endpgm), ROW(SOPP, 53, "s_setprio", "-i", 0, 0, nothing), ROW(SOPP, 54, "s_sendmsg", "-i", 0, 0, sendmsg),
    ROW(SOPP, 61, "s_barrier", "-", 0, 0, barrier), ROW(SOPK, 24, "s_waitcnt_vscnt", "s", 0, 0, waitcnt_vs), ROW(SOPK, 25, "s_waitcnt_vmcnt", "s", 0, 0, waitcnt_vm),
    ROW(SOPK, 27, "s_waitcnt_lgkmcnt", "s", 0, 0, waitcnt_lgkm),
    { 0 },
};
