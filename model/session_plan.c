/* session_plan.c - what a session needs, before anything is allocated: sizes, the lines of the plan, whether it fits. */
#include "gpu/gpu_kernels.h"
#include "model/lookup.h"
#include "model/session_impl.h"

#include <stdio.h>
#include <string.h>

bool session_rounded(const model *m, const struct session_params *p)
{
    return !p->precise && (on_device(m) ? gpu_info_of(m->gpu)->matrix : gpu_has_twin(m->gpu, &gpu_kernels, K_matmul_int));
}

/* Rows of a prefill step: a device needs many to read every expert's weights once for several of them */
static uint32_t ubatch_of(const model *m, const struct session_params *p)
{
    uint32_t n = p->n_ubatch ? p->n_ubatch : on_device(m) ? 2048 : 512;
    return (uint32_t)size_up(MIN(MIN(n, 65536u), p->n_ctx), GDN_CHUNK);
}

/* The layout of the recurrent state, and of the caches of one layer; counts when the arenas have no memory. */
void session_place_recurrent(const model *m, struct arena *rec, struct layer_state *state, gpu_addr *ple_window, const struct forward *f)
{
    const struct shape *s = &m->shape;
    for (uint32_t il = 0; il < s->n_layer; il++) {
        if (s->is_qsa[il] && s->ratio[il])
            state[il].window = ADDR(arena_take(rec, qsa_window_floats(&f->qsa), sizeof(float)));
        if (s->is_qsa[il])
            continue;
        size_t all = gdn_state_floats(&f->gdn), window = (size_t)(s->conv_taps - 1) * gdn_width(&f->gdn);
        state[il].gdn_state = ADDR(arena_take(rec, all - window, sizeof(float)));
        state[il].gdn_window = ADDR(arena_take(rec, window, sizeof(float)));
    }
    if (s->ple_layer >= 0)
        *ple_window = ADDR(arena_take(rec, (size_t)(s->ple_conv_taps - 1) * s->ple_ngram * s->n_stream * s->n_embd, sizeof(float)));
}

void session_place_kv(const model *m, const struct session_params *p, struct arena *kv, uint32_t il, struct layer_state *state, const struct forward *f)
{
    if (!m->shape.is_qsa[il])
        return;
    size_t half = qsa_kv_bytes(&f->qsa, p->n_ctx, f->kv_type) / 2;
    state->k = ADDR(arena_take(kv, half, 1));
    state->v = ADDR(arena_take(kv, half, 1));
    if (m->shape.ratio[il])
        state->pooled = ADDR(arena_take(kv, qsa_pooled_bytes(&f->qsa, p->n_ctx), 1));
    if (m->shape.ratio[il] && f->qsa.form.keep_raw)
        state->keys.raw = ADDR(arena_take(kv, qsa_raw_bytes(&f->qsa, p->n_ctx), 1));
}

uint32_t session_kv_type(const struct session_params *p)
{
    static const uint32_t type[] = { [KV_F16] = QSA_KV_F16, [KV_F32] = QSA_KV_F32, [KV_Q8_0] = QSA_KV_Q8_0 };
    return p->precise ? QSA_KV_F32 : type[p->kv];
}
/* How a layer computes */
static struct qsa_form form_of(const struct session_params *p)
{
    return (struct qsa_form){ .no_gather = p->no_gather, .no_union = p->no_union, .keep_raw = p->no_pooled_cache || p->pooled_max_tokens,
                              .pooled_max_tokens = p->no_pooled_cache ? 0 : p->pooled_max_tokens };
}

const char *kv_type_name(const struct session_params *p)
{
    static const char *const name[] = { [QSA_KV_F16] = "f16", [QSA_KV_F32] = "f32", [QSA_KV_Q8_0] = "q8_0" };
    return name[session_kv_type(p)];
}

void session_forward(struct forward *f, const model *m, const struct session_params *p)
{
    forward_init(f, &m->shape, model_weights(m), p->n_ctx, ubatch_of(m, p), session_kv_type(p), form_of(p), on_device(m), session_rounded(m, p));
    if (session_seqs(p) > 1)
        forward_together(f, p->verify ? (uint32_t)DECODE_ROWS : session_seqs(p));
}

void session_size(struct session_sizes *z, const model *m, const struct session_params *p)
{
    struct layer_state state[MAX_LAYER];
    gpu_addr ple_window = 0;
    memset(z, 0, sizeof *z);
    session_forward(&z->f, m, p);
    session_place_recurrent(m, &z->recurrent, state, &ple_window, &z->f);
    for (uint32_t il = 0; il < m->shape.n_layer; il++) {
        struct arena kv = { 0 };
        session_place_kv(m, p, &kv, il, &state[il], &z->f);
        if (!size_add(z->kv, kv.used, &z->kv))
            z->kv = SIZE_MAX;
    }
    forward_place(&z->f, &z->m, NULL, 0);
    if (p->verify) {
        struct verify_rows rows[MAX_LAYER + 1];
        forward_take_rows(&z->f, &z->rows, rows);
        forward_place_verify(&z->f, &z->m, NULL, 0);
    }
    z->thread_bytes = 0;
    if (!on_device(m) && !size_mul(forward_thread_floats(&z->f) * sizeof(float), model_threads(m), &z->thread_bytes))
        z->thread_bytes = SIZE_MAX;
    z->m.blocks.used = size_up(z->m.blocks.used, 64); /* the places' blocks lie one after the other */
    z->calls = (size_t)forward_max_calls(&z->f);
    z->row_calls = session_seqs(p) > 1 ? forward_rows_max_calls(&z->f, session_seqs(p), p->verify) : 0;
    z->turns = z->f.qsa.form.keep_raw ? (size_t)z->f.cap_blocks * m->shape.rope_dim * sizeof(float) : 0;
    z->kept_calls = session_seqs(p) > 1 && p->verify && on_device(m) ? z->row_calls : 0;
    z->logits = on_device(m) ? (size_t)z->f.max_logits * m->shape.n_vocab * sizeof(float) : 0;
}

/* Bytes of n places */
static size_t times(size_t bytes, uint32_t n) { return size_mul(bytes, n, &bytes) ? bytes : SIZE_MAX; }

void session_plan(const model *m, const struct session_params *p, struct plan *plan)
{
    struct session_sizes z;
    uint32_t n = session_seqs(p);
    char places[32] = "";
    if (n > 1)
        snprintf(places, sizeof places, "; %u places", n);
    const struct shape *s = &m->shape;
    session_size(&z, m, p);
    uint32_t n_pooled = 0;
    for (uint32_t il = 0; il < s->n_layer; il++)
        n_pooled += s->is_qsa[il] && s->ratio[il];
    size_t pooled = n_pooled * qsa_pooled_bytes(&z.f.qsa, p->n_ctx), raw = n_pooled * qsa_raw_bytes(&z.f.qsa, p->n_ctx);
    size_t conv = (size_t)(s->conv_taps - 1) * gdn_width(&z.f.gdn) * sizeof(float);
    size_t gdn = s->n_gdn * (gdn_state_floats(&z.f.gdn) * sizeof(float) - conv);
    plan_add(plan, "model: decoded vectors", m->vectors.capacity, "vectors that are not aligned f32 in the file");
    size_t first = plan->n; /* lines from here to the layer blocks are memory of the device */
    if (on_device(m))
        plan_add(plan, "model: device weights", m->upload.total, "%u blocks, %u matrices of types without a kernel, %u of F32 as BF16",
                 m->upload.n_block, m->upload.n_decoded, m->upload.n_narrowed);
    else if (m->upload.total)
        plan_add(plan, "model: copy of the weights", m->upload.total, "large pages (--load copy), %u matrices of F32 as BF16", m->upload.n_narrowed);
    plan_add(plan, "session: K/V", z.kv == SIZE_MAX ? SIZE_MAX : times(z.kv - pooled - raw, n), "%u layers x %zu positions, %s%s", s->n_qsa, p->n_ctx,
             kv_type_name(p), places);
    plan_add(plan, "session: pooled keys", times(pooled, n), "%u layers x %u blocks x %u, f32%s", n_pooled, z.f.cap_blocks, s->idx_dim, places);
    if (raw)
        plan_add(plan, "session: raw index keys", times(raw, n), "%u layers x %zu positions x %u, f32%s", n_pooled, p->n_ctx, s->idx_dim, places);
    if (z.turns)
        plan_add(plan, "session: rope of blocks", z.turns, "for raw index keys: %u blocks x %u, f32", z.f.cap_blocks, s->rope_dim);
    plan_add(plan, "session: GDN state", times(gdn, n), "%u layers x %u heads x %u x %u, f32%s", s->n_gdn, s->gdn_v_head, s->gdn_dim, s->gdn_dim, places);
    plan_add(plan, "session: windows", times(z.recurrent.used - gdn, n), "short convolutions, n-gram path, index keys of the open block%s", places);
    if (p->verify)
        plan_add(plan, "session: rows of drafts", times(z.rows.used, n), "what %u rows of a step add to the state, until they are known to count%s", DECODE_ROWS, places);
    plan_add(plan, "session: scratch", z.m.scratch.used, "ubatch %u", z.f.max_tok);
    plan_add(plan, "session: step", z.m.shared.used, "ids, rope table, n-gram rows");
    plan_add(plan, "session: layer blocks", times(z.m.blocks.used, n), "addresses and sizes that kernels read%s", places);
    for (size_t i = first; i < plan->n; i++)
        plan->line[i].on_device = on_device(m);
    if (on_device(m))
        plan_add(plan, "session: blocks on the host", times(z.m.blocks.used, n), "what the layer blocks are copied from");
    if (z.logits)
        plan_add(plan, "session: logits", z.logits, "%u rows on the host", z.f.max_logits);
    if (!on_device(m))
        plan_add(plan, "session: threads", z.thread_bytes, "%u threads", model_threads(m));
    if (p->verify)
        plan_add(plan, "drafts: look-up tables", times(lookup_bytes(p->n_ctx), n), "ids of the timeline, and where the last two and four of them stood before%s", places);
    if (session_takes_head(m, p))
        draft_plan(m, p, plan);
    plan_add(plan, "session: call lists",
             (n * (3 * z.calls + HEAD_CALLS + CHOOSE_CALLS + (p->verify ? session_verify_calls(&z.f) : 0)) + 2 * z.row_calls +
              2 * (DECODE_ROWS - 1) * z.kept_calls) * sizeof(struct gpu_call),
             "prompt and two halves of a step: %zu calls each%s%s", z.calls, p->verify ? ", and the same for 2 to 8 rows" : "", places);
}

size_t memory_available(void)
{
    size_t avail = SIZE_MAX, kb, limit;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu kB", &kb) == 1)
            avail = kb * 1024;
    if (f)
        fclose(f);
    f = fopen("/sys/fs/cgroup/memory.max", "r");
    if (f && fscanf(f, "%zu", &limit) == 1)
        avail = MIN(avail, limit);
    if (f)
        fclose(f);
    return avail;
}

/* Room for a session: on a device its memory. Of one that shares the host's, what the host never had is all its own, and the rest is not more than what
 * the host has left. */
static size_t room(const model *m)
{
    const struct gpu_info *info = gpu_info_of(m->gpu);
    uint64_t asked, driver;
    if (!on_device(m))
        return memory_available();
    gpu_memory_used(m->gpu, &asked, &driver);
    size_t left = info->device_bytes - MIN(info->device_bytes, MAX(asked, driver));
    size_t own = info->carved_bytes - MIN(info->carved_bytes, MAX(asked, driver)), host = memory_available();
    return info->integrated || info->software ? MIN(left, host > SIZE_MAX - own ? SIZE_MAX : host + own) : left;
}

/* What a session needs, by the plan. held: what the model has taken of it already. */
static size_t needed(const model *m, const struct session_params *p, size_t held)
{
    struct plan plan = { 0 };
    session_plan(m, p, &plan);
    size_t total = plan_total(&plan);
    return total == SIZE_MAX ? total : total - held;
}

/* What only the cpu does */
static status check_device(const model *m, const struct session_params *p, struct err *e)
{
    if (!on_device(m) || session_kv_type(p) != QSA_KV_Q8_0)
        return OK;
    return fail(e, ERR_UNSUPPORTED, "--kv q8_0: found backend %s, in this version only the cpu can do this", model_backend(m));
}

status session_check_plan(const model *m, const struct session_params *p, size_t mem_limit, struct err *e)
{
    TRY(check_device(m, p, e));
    size_t held = mem_limit ? 0 : m->vectors.capacity + (m->upload.block ? m->upload.total : 0);
    size_t need = needed(m, p, held), have = mem_limit ? mem_limit : room(m);
    if (need <= have)
        return OK;
    struct session_params q = *p; /* the largest context that fits, by halving */
    size_t lo = 0, hi = p->n_ctx;
    while (hi - lo > 64) {
        q.n_ctx = lo + (hi - lo) / 2;
        *(needed(m, &q, held) <= have ? &lo : &hi) = q.n_ctx;
    }
    char needs[32], has[32], fits[64] = "and not even a context of 64 fits; try a smaller -ub";
    if (lo)
        snprintf(fits, sizeof fits, "-c %zu would fit", lo);
    if (session_seqs(p) > 1)
        return fail(e, ERR_NOMEM, "a context of %zu at %u places (--parallel) needs %s, %s %s; %s", p->n_ctx, session_seqs(p),
                    size_text(needs, need, true), mem_limit ? "--mem-limit is" : on_device(m) ? "free on the device are" : "free are",
                    size_text(has, have, false), fits);
    return fail(e, ERR_NOMEM, "a context of %zu needs %s, %s %s; %s", p->n_ctx, size_text(needs, need, true),
                mem_limit ? "--mem-limit is" : on_device(m) ? "free on the device are" : "free are", size_text(has, have, false), fits);
}
