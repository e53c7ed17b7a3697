/* run.c - groups one after the other; the waves of a group in turn, each up to the next barrier. */
#include "tests/gfx11/isa.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gfx11_fault_name(enum gfx11_fault kind)
{
    static const char *const name[] = {
        [GFX11_NO_FAULT] = "no fault", [GFX11_UNKNOWN] = "unknown instruction", [GFX11_UNWRITTEN] = "unwritten value", [GFX11_RACE] = "race",
        [GFX11_WAIT] = "use before s_waitcnt", [GFX11_RANGE] = "address out of range", [GFX11_LANE] = "value of a lane that is off",
        [GFX11_BARRIER] = "barrier not reached by all", [GFX11_ENDLESS] = "no end",
    };
    return name[kind];
}

bool faulted(const struct wave *w) { return w->g->run->fault != GFX11_NO_FAULT; }

void fault(struct wave *w, enum gfx11_fault kind, const char *fmt, ...)
{
    struct gfx11_run *run = w->g->run;
    char text[160] = "", what[200];
    va_list ap;
    if (run->fault != GFX11_NO_FAULT)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const struct inst *in = w->pc < w->g->code->n_words ? &w->g->code->inst[w->pc] : NULL;
    if (in && in->n_words)
        gfx11_text(text, sizeof text, in);
    run->fault = kind;
    snprintf(run->message, sizeof run->message, "%s: %s: %s, at +%x %s, group %u, wave %u", w->g->code->name, gfx11_fault_name(kind), what, 4 * w->pc, text, w->g->id,
             w->index);
}

/* ---- how a wave begins ---- */

enum { KERNARG_PTR = 1 << 3, OTHER_USER_REGISTERS = 0x7f & ~KERNARG_PTR };

static void set_scalar(struct wave *w, uint32_t reg, uint32_t x) { w->s[reg] = x, w->s_bad[reg] = 0; }

/* The registers that the descriptor asks for: user registers (of which our kernels have the address of the arguments), the number of the group, the
 * number of the item. All else nobody has written. */
static void wave_start(struct wave *w, struct group *g, uint32_t index, const void *args)
{
    uint8_t *scratch = w->scratch;
    memset(w, 0, sizeof *w);
    w->g = g, w->index = index, w->scratch = scratch;
    if (scratch)
        memset(scratch + (size_t)LANES * g->code->scratch_bytes, 0xff, (size_t)LANES * g->code->scratch_bytes);
    memset(w->s_bad, 0xff, sizeof w->s_bad);
    memset(w->bad, 0xff, sizeof w->bad);
    memset(w->dirty, 0xff, sizeof w->dirty);
    w->scc_bad = true;
    uint32_t first = index * LANES, left = g->n_items - first, reg = 0;
    set_scalar(w, S_EXEC, left >= LANES ? ALL_LANES : (1u << left) - 1);
    set_scalar(w, S_EXEC + 1, 0);
    if (g->code->properties & KERNARG_PTR) {
        set_scalar(w, 0, (uint32_t)(uintptr_t)args);
        set_scalar(w, 1, (uint32_t)((uintptr_t)args >> 32));
    }
    reg = g->code->rsrc2 >> 1 & 31;
    if (g->code->rsrc2 >> 7 & 1)
        set_scalar(w, reg++, g->id);
    for (uint32_t k = 8; k < 10; k++) /* y and z of the group */
        if (g->code->rsrc2 >> k & 1)
            set_scalar(w, reg++, 0);
    for (uint32_t i = 0; i < LANES; i++)
        w->v[0][i] = first + i, w->bad[0][i] = 0; /* x | y << 10 | z << 20 */
    w->dirty[0] = 0;
}

static const char *cannot_run(const struct code *c)
{
    uint32_t denormals = c->rsrc1 >> 16 & 15, rounding = c->rsrc1 >> 12 & 15;
    if (denormals != 15 || rounding != 0)
        return "a float mode other than nearest, with denormal numbers";
    if (c->properties & OTHER_USER_REGISTERS)
        return "user registers other than the address of the arguments";
    if ((c->properties & KERNARG_PTR ? 2u : 0u) != (c->rsrc2 >> 1 & 31))
        return "a number of user registers that does not fit what is in them";
    if (c->rsrc2 >> 10 & 1)
        return "the size of the group in a register";
    return NULL;
}

/* ---- running ---- */

static void step(struct wave *w)
{
    const struct inst *in = w->pc < w->g->code->n_words ? &w->g->code->inst[w->pc] : NULL;
    if (!in || !in->run) {
        if (!in || !in->n_words)
            fault(w, GFX11_UNKNOWN, "no instruction begins here");
        else
            fault(w, GFX11_UNKNOWN, "%08x %s", in->word[0], in->op ? in->op->name : "");
        return;
    }
    if (wait_pending(w))
        wait_check(w, in);
    if (faulted(w))
        return;
    if (w->g->run->ran)
        w->g->run->ran[w->pc]++;
    w->next = w->pc + in->n_words;
    in->run(w, in);
    w->n_run++;
    if (!faulted(w))
        w->pc = w->next;
}

static void run_wave(struct wave *w)
{
    struct gfx11_run *run = w->g->run;
    uint64_t before = w->n_run, left = run->limit ? run->limit - MIN(run->n_run, run->limit) : UINT64_MAX;
    while (!w->ended && !w->at_barrier && !faulted(w)) {
        step(w);
        if (w->n_run - before > left)
            fault(w, GFX11_ENDLESS, "more than %llu instructions", (unsigned long long)run->limit);
    }
    run->n_run += w->n_run - before;
}

static void run_group(struct group *g)
{
    for (;;) {
        uint32_t ended = 0, waiting = 0;
        for (uint32_t i = 0; i < g->n_waves; i++) {
            run_wave(&g->wave[i]);
            if (g->run->fault != GFX11_NO_FAULT)
                return;
            ended += g->wave[i].ended, waiting += g->wave[i].at_barrier;
        }
        if (ended == g->n_waves)
            return;
        if (ended) { /* the hardware does not wait for waves that have ended, but the kernel language says that all items reach a barrier */
            for (uint32_t i = 0; i < g->n_waves; i++)
                if (g->wave[i].at_barrier)
                    fault(&g->wave[i], GFX11_BARRIER, "%u waves wait, %u have ended", waiting, ended);
            return;
        }
        for (uint32_t i = 1; i < g->n_waves; i++)
            if (g->wave[i].pc != g->wave[0].pc) {
                fault(&g->wave[i], GFX11_BARRIER, "wave 0 waits at another one, behind +%x", 4 * g->wave[0].pc);
                return;
            }
        for (uint32_t i = 0; i < g->n_waves; i++)
            g->wave[i].at_barrier = false;
        g->epoch++;
    }
}

static void group_free(struct group *g)
{
    for (uint32_t i = 0; g->wave && i < g->n_waves; i++)
        free(g->wave[i].scratch);
    free(g->wave);
    free(g->lds);
    free(g->lds_bad);
    free(g->lds_word);
}

static bool group_alloc(struct group *g, uint32_t workgroup)
{
    const struct code *c = g->code;
    g->n_items = workgroup;
    g->n_waves = (workgroup + LANES - 1) / LANES;
    g->wave = calloc(g->n_waves, sizeof *g->wave);
    g->lds = malloc(c->lds_bytes + 4);
    g->lds_bad = malloc(c->lds_bytes + 4);
    g->lds_word = malloc((c->lds_bytes / 4 + 1) * sizeof *g->lds_word);
    bool ok = g->wave && g->lds && g->lds_bad && g->lds_word;
    for (uint32_t i = 0; ok && c->scratch_bytes && i < g->n_waves; i++)
        ok = (g->wave[i].scratch = calloc(2 * LANES, c->scratch_bytes));
    return ok;
}

status gfx11_run(struct gfx11_run *run, const struct code *c, const void *args, size_t args_bytes, uint32_t n_groups, uint32_t workgroup, struct err *e)
{
    struct group g = { .run = run, .code = c };
    const char *cannot = cannot_run(c);
    run->n_run = 0, run->fault = GFX11_NO_FAULT, run->message[0] = 0, run->last = NULL;
    if (cannot)
        return fail(e, ERR_UNSUPPORTED, "%s: %s", c->name, cannot);
    if (args_bytes != c->kernarg_bytes)
        return fail(e, ERR_FORMAT, "%s: %zu bytes of arguments, the kernel takes %u", c->name, args_bytes, c->kernarg_bytes);
    if (workgroup == 0 || workgroup > 1024)
        return fail(e, ERR_USAGE, "%s: a group of %u items", c->name, workgroup);
    struct gfx11_memory mine = { 0 }, *caller = run->memory;
    status s = OK;
    for (size_t i = 0; s == OK && i < caller->n; i++)
        s = gfx11_memory_add(&mine, caller->region[i], e);
    if (s == OK && args_bytes)
        s = gfx11_memory_add(&mine, (struct gfx11_region){ .p = (uint8_t *)(uintptr_t)args, .bytes = args_bytes, .readable = args_bytes, .read_only = true }, e);
    if (s == OK && !group_alloc(&g, workgroup))
        s = fail(e, ERR_NOMEM, "%s: a group of %u items", c->name, workgroup);
    for (size_t i = 0; s == OK && run->races && i < mine.n; i++)
        if (!race_open(&mine.region[i]))
            s = fail(e, ERR_NOMEM, "%s: who touches which byte", c->name);
    run->memory = &mine;
    for (uint32_t i = 0; s == OK && i < n_groups; i++) {
        g.id = i, g.epoch = 0;
        memset(g.lds_bad, 0xff, c->lds_bytes + 4);
        memset(g.lds_word, 0, (c->lds_bytes / 4 + 1) * sizeof *g.lds_word);
        for (uint32_t k = 0; k < g.n_waves; k++)
            wave_start(&g.wave[k], &g, k, args);
        run_group(&g);
        if (run->fault != GFX11_NO_FAULT)
            s = fail(e, ERR_DEVICE, "%s", run->message);
    }
    run->memory = caller, run->last = NULL;
    for (size_t i = 0; i < mine.n; i++)
        race_close(&mine.region[i]);
    gfx11_memory_clear(&mine);
    group_free(&g);
    return s;
}
