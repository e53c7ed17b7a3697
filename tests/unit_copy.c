/* unit_copy.c - the copy of the weights that the cpu works from with --load copy: every value that of the file, none of it in the mapping, F32 narrowed where
 * nothing is lost, the plan of a session with it, and stopping half-way. */
#include "model/model_impl.h"
#include "model/session_impl.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static struct err err;
static size_t n_matrix, n_bf16;

static bool in_file(const model *m, gpu_addr a)
{
    struct gguf_file f;
    CHECK(gguf_file_of(m->file, 0, &f));
    return a >= ADDR(f.map) && a < ADDR(f.map) + f.bytes;
}

/* The same numbers, row by row, elsewhere */
static void check_matrix(const model *m, const struct gpu_mat *from, const struct gpu_mat *on, uint32_t n_expert)
{
    if (!from->data)
        return;
    size_t n_row = (size_t)from->n_out * (from->rows_per_expert ? n_expert : 1), bad = 0;
    float *a = malloc(from->n_in * sizeof *a), *b = malloc(from->n_in * sizeof *b);
    CHECK(in_file(m, from->data) && !in_file(m, on->data) && on->n_in == from->n_in && on->n_out == from->n_out);
    CHECK(on->type == from->type || (from->type == QUANT_F32 && on->type == QUANT_BF16));
    for (size_t r = 0; r < n_row; r++) {
        size_t at = from->rows_per_expert ? r / from->n_out * from->rows_per_expert + r % from->n_out : r;
        size_t to = on->rows_per_expert ? r / on->n_out * on->rows_per_expert + r % on->n_out : r;
        quant_type(from->type)->decode(AT(const uint8_t, from->data) + at * from->row_bytes, a, from->n_in);
        quant_type(on->type)->decode(AT(const uint8_t, on->data) + to * on->row_bytes, b, on->n_in);
        bad += memcmp(a, b, from->n_in * sizeof *a) != 0;
    }
    CHECK(bad == 0);
    n_matrix++;
    n_bf16 += on->type != from->type;
    free(a), free(b);
}

static void check_hc(const model *m, const struct hc_weights *a, const struct hc_weights *b)
{
    check_matrix(m, &a->down, &b->down, 1);
    check_matrix(m, &a->up, &b->up, 1);
    check_matrix(m, &a->inject, &b->inject, 1);
    CHECK(memcmp(AT(const float, a->norm), AT(const float, b->norm), (size_t)m->shape.n_stream * m->shape.n_embd * sizeof(float)) == 0);
}

static void check_layer(const model *m, const struct layer_weights *a, const struct layer_weights *b, bool is_qsa)
{
    const struct moe_weights *x = &a->moe, *y = &b->moe;
    uint32_t n = m->shape.n_expert;
    check_hc(m, &a->hc_attn, &b->hc_attn);
    check_hc(m, &a->hc_ffn, &b->hc_ffn);
    check_matrix(m, &x->router, &y->router, 1);
    check_matrix(m, &x->gate, &y->gate, n);
    check_matrix(m, &x->up, &y->up, n);
    check_matrix(m, &x->down, &y->down, n);
    check_matrix(m, &x->shared_down, &y->shared_down, 1);
    check_matrix(m, &x->shared_scalar, &y->shared_scalar, 1);
    if (is_qsa) {
        check_matrix(m, &a->qsa.q, &b->qsa.q, 1);
        check_matrix(m, &a->qsa.iq, &b->qsa.iq, 1);
    } else {
        check_matrix(m, &a->gdn.qkv, &b->gdn.qkv, 1);
        check_matrix(m, &a->gdn.beta, &b->gdn.beta, 1);
    }
}

static void check_plan(const model *m)
{
    const struct session_params p = { .n_ctx = 1024 };
    struct plan plan = { 0 };
    size_t n = 0;
    session_plan(m, &p, &plan);
    for (size_t i = 0; i < plan.n; i++)
        n += strcmp(plan.line[i].name, "model: copy of the weights") == 0 && plan.line[i].bytes == m->upload.total;
    CHECK(n == 1 && plan_total(&plan) > m->upload.total);
    CHECK(session_check_plan(m, &p, plan_total(&plan), &err) == OK);
    CHECK(session_check_plan(m, &p, m->upload.total, &err) == ERR_NOMEM);
}

static bool stop_half_way(void *ctx, size_t done, size_t total)
{
    ++*(size_t *)ctx;
    return done < total / 2;
}

static void copied(const char *path)
{
    struct model_params p = { .n_threads = 2, .backend = BACKEND_CPU, .load = LOAD_COPY, .head = true };
    model *m = NULL;
    n_matrix = n_bf16 = 0;
    CHECK(model_open(&m, path, &p, &err) == OK);
    if (!m)
        return;
    const struct weights *a = &m->weights, *b = m->on_device;
    CHECK(b && model_weights(m) == b);
    check_matrix(m, &a->token_embd, &b->token_embd, 1);
    check_matrix(m, &a->output, &b->output, 1);
    check_hc(m, &a->out_hc, &b->out_hc);
    for (uint32_t il = 0; il < m->shape.n_layer; il++)
        check_layer(m, &a->layer[il], &b->layer[il], m->shape.is_qsa[il]);
    check_matrix(m, &a->ple.key, &b->ple.key, 1);
    CHECK(b->ple.table[0].data == a->ple.table[0].data); /* the n-gram table stays in the file */
    check_layer(m, &a->draft.layer, &b->draft.layer, true);
    check_matrix(m, &a->draft.fc_embd, &b->draft.fc_embd, 1); /* halves of rows */
    check_matrix(m, &a->draft.fc_hidden, &b->draft.fc_hidden, 1);
    CHECK(n_matrix > 60 && n_bf16 > 0 && n_bf16 <= m->upload.n_narrowed);
    check_plan(m);
    model_close(m);
}

int main(void)
{
    size_t calls = 0;
    struct model_params p = { .backend = BACKEND_CPU, .load = LOAD_COPY, .progress = stop_half_way, .progress_ctx = &calls };
    model *m = NULL;
    copied("tests/models/tiny-man.gguf");
    copied("build/models/tiny-zoo.gguf");
    copied("build/models/tiny-lowbit.gguf");
    CHECK(model_open(&m, "tests/models/tiny-man.gguf", &p, &err) == ERR_DEVICE && strstr(err.msg, "interrupted") && calls > 2 && !m);
    p = (struct model_params){ .backend = BACKEND_CPU, .load = LOAD_DIRECT };
    CHECK(model_open(&m, "tests/models/tiny-man.gguf", &p, &err) == OK && !m->on_device && model_weights(m) == &m->weights);
    model_close(m);
    return TEST_END();
}
