/* unit_shape.c - the dimensions of the demo model, the defaults, and one case per refusal. */
#include "model/shape.h"
#include "tests/ggufmake.h"
#include "tests/test.h"

#include <math.h>

#define K(k) "qwen4exp." k

static status read_memory(struct gm *m, struct shape *s, struct err *e)
{
    size_t n;
    gguf *g = NULL;
    uint8_t *p = gm_finish(m, &n);
    status st = gguf_open_memory(&g, p, n, "file.gguf", e);
    CHECK(st == OK);
    if (st == OK)
        st = shape_read(s, g, e);
    gguf_close(g);
    free(p);
    gm_free(m);
    return st;
}

static void accept(int line, struct gm *m, struct shape *s)
{
    struct err e = { 0 };
    status st = read_memory(m, s, &e);
    if (st != OK)
        fprintf(stderr, "line %d: %s\n", line, e.msg);
    CHECK(st == OK);
    gm_qwen4exp(m); /* for the next case */
}
#define ACCEPT(s) accept(__LINE__, &m, s)

static void refuse(int line, struct gm *m, status want, const char *a, const char *b)
{
    struct err e = { 0 };
    struct shape s;
    status got = read_memory(m, &s, &e);
    bool good = got == want && e.code == want && strstr(e.msg, "file.gguf: ") == e.msg && strstr(e.msg, a) && strstr(e.msg, b);
    if (!good)
        fprintf(stderr, "line %d: status %d, expected %d: \"%s\", expected \"%s\" \"%s\"\n", line, got, want, e.msg, a, b);
    CHECK(good);
    gm_qwen4exp(m);
}
#define REFUSE(want, a, b) refuse(__LINE__, &m, want, a, b)

static void test_demo(void)
{
    static const uint64_t SIZE[16] = { 4099, 4111, 4127, 4129, 4133, 4139, 4153, 4157, 4159, 4177, 4201, 4211, 4217, 4219, 4229, 4231 };
    struct err e = { 0 };
    struct shape s;
    gguf *g = NULL;
    bool good = gguf_open(&g, "tests/models/tiny-man.gguf", &e) == OK && shape_read(&s, g, &e) == OK;
    CHECK(good);
    if (!good) {
        fprintf(stderr, "%s\n", e.msg);
        gguf_close(g);
        return;
    }
    CHECK(s.n_layer == 8 && s.n_draft == 1 && s.n_vocab == 8192 && s.n_embd == 256 && s.n_stream == 4 && s.hc_rank == 32);
    CHECK(s.ctx_train == 262144 && s.eps == 1e-6f && s.n_qsa == 2 && s.n_gdn == 6);
    CHECK(s.n_head == 4 && s.n_head_kv == 2 && s.head_dim == 64 && s.rope_dim == 16 && s.rope_base == 1e6f);
    CHECK(s.idx_head == 4 && s.idx_dim == 32 && s.idx_budget == 256);
    for (uint32_t i = 0; i < 8; i++)
        CHECK(s.is_qsa[i] == (i == 3 || i == 7) && s.ratio[i] == (s.is_qsa[i] ? 4 : 0));
    CHECK(s.is_qsa[8] && s.ratio[8] == 0);
    CHECK(s.gdn_k_head == 4 && s.gdn_v_head == 12 && s.gdn_dim == 32 && s.conv_taps == 4);
    CHECK(s.n_expert == 32 && s.n_expert_used == 4 && s.expert_ff == 64 && s.shared_ff == 64);
    CHECK(s.ple_layer == 1 && s.ple_ngram == 3 && s.ple_head_per_ngram == 8 && s.ple_head == 16 && s.ple_row == 16);
    CHECK(s.ple_conv_taps == 4 && s.ple_eos == 0 && s.ple_image == 0);
    CHECK(s.ple_mul[0] == 917459169272335 && s.ple_mul[1] == 551719545110387 && s.ple_mul[2] == 145018054610633);
    uint64_t sum = 0;
    for (size_t h = 0; h < 16; sum += SIZE[h++])
        CHECK(s.ple_size[h] == SIZE[h] && s.ple_offset[h] == sum);
    gguf_close(g);
}

static void test_accepted(void)
{
    struct gm m = { 0 };
    struct shape s;
    gm_qwen4exp(&m);
    ACCEPT(&s);
    CHECK(s.n_layer == 4 && s.n_draft == 0 && s.n_vocab == 8 && s.n_qsa == 1 && s.n_gdn == 3 && s.ple_head == 4 && s.ple_row == 32);
    CHECK(s.shared_ff == 96 && s.expert_ff == 32 && s.gdn_v_head == 6 && s.gdn_k_head == 2 && s.gdn_dim == 16);

    /* defaults */
    static const char *const OPTIONAL[] = {
        "attention.head_count_kv", "attention.value_length", "rope.freq_base", "full_attention_interval", "attention.compress_ratios",
    };
    for (size_t i = 0; i < COUNT_OF(OPTIONAL); i++) {
        char key[64];
        snprintf(key, sizeof key, K("%s"), OPTIONAL[i]);
        gm_drop(&m, key);
    }
    gm_drop(&m, "general.type");
    ACCEPT(&s);
    CHECK(s.n_head_kv == 4 && s.head_dim == 32 && s.rope_base == 10000 && s.is_qsa[3] && s.n_qsa == 1 && s.ratio[3] == 0);
    gm_drop(&m, K("attention.key_length")), gm_drop(&m, K("attention.value_length")), gm_drop(&m, K("rope.dimension_count"));
    ACCEPT(&s);
    CHECK(s.head_dim == 16 && s.rope_dim == 16);
    gm_drop(&m, K("expert_feed_forward_length")), gm_drop(&m, K("expert_shared_feed_forward_length")), gm_joined_table(&m);
    gm_tensor(&m, "blk.0.ffn_down_exps.weight", 0, (uint64_t[]){ 3, 1, 1 }, 3, NULL, 12);
    gm_tensor(&m, "blk.0.ffn_down_shexp.weight", 0, (uint64_t[]){ 5 }, 1, NULL, 20);
    ACCEPT(&s);
    CHECK(s.expert_ff == 3 && s.shared_ff == 5);

    /* no n-gram table */
    gm_drop(&m, K("ple.layers"));
    ACCEPT(&s);
    CHECK(s.ple_layer == -1 && s.ple_head == 0);
    gm_arr(&m, K("ple.layers"), GM_I32, 0);
    ACCEPT(&s);
    CHECK(s.ple_layer == -1);

    /* widths and arrays of other writers */
    gm_int(&m, K("block_count"), GM_U64, 5), gm_int(&m, K("nextn_predict_layers"), GM_I8, 1), gm_int(&m, K("expert_count"), GM_I64, 8);
    gm_ints(&m, K("attention.head_count"), GM_I32, (int64_t[]){ 4, 4, 4, 4, 4 }, 5);
    gm_ints(&m, K("attention.head_count_kv"), GM_U32, (int64_t[]){ 0, 0, 0, 2 }, 4);
    gm_ints(&m, K("expert_feed_forward_length"), GM_U16, (int64_t[]){ 32, 32, 32, 32, 32 }, 5);
    gm_ints(&m, K("ple.head_offsets"), GM_I32, (int64_t[]){ 0, 5, 12, 23 }, 4);
    gm_ints(&m, K("ple.head_vocab_sizes"), GM_I64, (int64_t[]){ 5, 7, 11, 13 }, 4);
    gm_ints(&m, K("ple.layer_multipliers"), GM_U64, (int64_t[]){ -1, 3, 5, 7 }, 4);
    gm_int(&m, K("ple.layers"), GM_I32, 1);
    gm_ints(&m, K("rope.dimension_sections"), GM_I32, (int64_t[]){ 2, 1, 1 }, 3);
    gm_f64(&m, K("rope.freq_base"), 5e6);
    ACCEPT(&s);
    CHECK(s.n_layer == 4 && s.n_draft == 1 && s.n_head == 4 && s.n_head_kv == 2 && s.expert_ff == 32 && s.ple_offset[3] == 23);
    CHECK(s.ple_mul[0] == UINT64_MAX && s.ple_layer == 1 && s.is_qsa[4] && s.rope_base == 5e6f);

    /* the map overrides the interval; a ratio where it does not apply is dropped */
    gm_ints(&m, K("attention.recurrent_layers"), GM_BOOL, (int64_t[]){ 0, 1, 1, 0 }, 4);
    gm_ints(&m, K("attention.compress_ratios"), GM_U32, (int64_t[]){ 0, 4, 0, 4 }, 4);
    ACCEPT(&s);
    CHECK(s.is_qsa[0] && !s.is_qsa[1] && s.is_qsa[3] && s.n_qsa == 2 && s.n_gdn == 2 && s.ratio[1] == 0 && s.ratio[0] == 0 && s.ratio[3] == 4);
    gm_u32(&m, K("full_attention_interval"), 1), gm_drop(&m, K("ple.layers")), gm_drop(&m, K("attention.compress_ratios"));
    ACCEPT(&s);
    CHECK(s.n_qsa == 4 && s.n_gdn == 0);
    gm_ints(&m, K("attention.compress_ratios"), GM_I32, (int64_t[]){ 0, 0, 0, 0 }, 4), gm_u32(&m, K("attention.indexer.top_k"), 63);
    ACCEPT(&s); /* dense fine-tune */
    CHECK(s.ratio[3] == 0);

    /* vocabulary, keys that say the usual, stray keys */
    gm_u32(&m, K("vocab_size"), 16);
    ACCEPT(&s);
    CHECK(s.n_vocab == 16);
    gm_u32(&m, K("vocab_size"), 9), gm_drop(&m, "tokenizer.ggml.tokens");
    ACCEPT(&s);
    CHECK(s.n_vocab == 9);
    gm_str(&m, K("rope.scaling.type"), "none"), gm_f32(&m, K("rope.scaling.factor"), 4);
    ACCEPT(&s);
    gm_str(&m, K("rope.scaling.type"), "linear"), gm_f32(&m, K("rope.scaling.factor"), 1);
    ACCEPT(&s);
    gm_f32(&m, K("expert_weights_scale"), 1), gm_int(&m, K("expert_weights_norm"), GM_BOOL, 1), gm_u32(&m, K("expert_gating_func"), 1);
    gm_u32(&m, "GGUF.version", 3), gm_int(&m, "GGUF.kv_count", GM_U64, 50), gm_u32(&m, K("feed_forward_length"), 7);
    gm_u32(&m, K("ple.image_token_id"), 7);
    ACCEPT(&s);
    CHECK(s.ple_image == 7);
    gm_joined_table(&m);
    ACCEPT(&s);
    gm_free(&m);
}

static void test_other_files(void)
{
    struct gm m = { 0 };
    gm_qwen4exp(&m);
    gm_str(&m, "general.architecture", "clip"), gm_drop(&m, "general.type"), REFUSE(ERR_UNSUPPORTED, "vision side file", "mmproj");
    gm_str(&m, "general.type", "mmproj"), REFUSE(ERR_UNSUPPORTED, "vision side file", "mmproj");
    gm_str(&m, "general.type", "adapter"), REFUSE(ERR_UNSUPPORTED, "adapter", "expected a qwen4exp model");
    gm_str(&m, "general.type", "imatrix"), REFUSE(ERR_UNSUPPORTED, "found imatrix", "expected model");
    gm_str(&m, "general.architecture", "llama"), REFUSE(ERR_UNSUPPORTED, "found llama", "expected qwen4exp");
    gm_drop(&m, "general.architecture"), REFUSE(ERR_FORMAT, "general.architecture missing", "");
    gm_u32(&m, "general.architecture", 1), REFUSE(ERR_FORMAT, "general.architecture", "expected string");
    gm_free(&m), gm_joined_table(&m), REFUSE(ERR_UNSUPPORTED, "n-gram table without its model", "");
    gm_tensor(&m, "blk.3.nextn.enorm.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_UNSUPPORTED, "draft head", "draft option");
    gm_tensor(&m, "token_embd.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    gm_tensor(&m, "blk.4.attn_q.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    gm_tensor(&m, "blk.4.nextn.eh_proj.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_UNSUPPORTED, "draft head", "draft option");
    gm_u32(&m, K("attention.indexer_head_count"), 4), REFUSE(ERR_UNSUPPORTED, "attention.indexer_head_count", "pre-release");
    gm_tensor(&m, "blk.1.ple_ngram_embd.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    REFUSE(ERR_UNSUPPORTED, "blk.1.ple_ngram_embd.weight", "pre-release");
    gm_tensor(&m, "blk.0.ffn_up_exps.scale", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_UNSUPPORTED, "blk.0.ffn_up_exps.scale", "NVFP4");
    gm_tensor(&m, "blk.0.ffn_up_exps.input_scale", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_UNSUPPORTED, "input_scale", "NVFP4");
    gm_str(&m, "ciru.table.path", "x"), REFUSE(ERR_UNSUPPORTED, "ciru.table.path", "external CIRUPLE1");
    gm_drop(&m, K("ple.layers")), gm_tensor(&m, "blk.1.ple_key.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    REFUSE(ERR_UNSUPPORTED, "ple.layers missing", "external table");
    gm_tensor(&m, "token_embd.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_UNSUPPORTED, "n-gram table missing", "shard missing");
    gm_tensor(&m, "ple_ngram_embd.0.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4), REFUSE(ERR_FORMAT, "ple_ngram_embd.1.weight missing", "");
    gm_joined_table(&m), gm_tensor(&m, "ple_ngram_embd.0.weight", 0, (uint64_t[]){ 1 }, 1, NULL, 4);
    REFUSE(ERR_FORMAT, "table twice", "");
    gm_free(&m);
}

static void test_refused(void)
{
    static const char *const REQUIRED[] = {
        "block_count", "context_length", "embedding_length", "attention.head_count", "attention.layer_norm_rms_epsilon",
        "expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length",
        "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size", "hyper_connection.count",
        "hyper_connection.low_rank", "attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k",
        "ple.ngram_size", "ple.heads_per_ngram", "ple.conv_kernel", "ple.eos_token_id", "embedding_length_per_layer_input",
    };
    static const struct { const char *key; uint32_t v; const char *range; } RANGE[] = {
        { "block_count", 0, "1..256" }, { "block_count", 257, "1..256" }, { "nextn_predict_layers", 4, "0..3" },
        { "context_length", 0, "1.." }, { "context_length", 0x80000000, "1..2147483647" }, { "embedding_length", 0, "1..65536" },
        { "embedding_length", 65537, "1..65536" }, { "attention.head_count", 0, "1..1024" }, { "attention.head_count", 1025, "1..1024" },
        { "attention.head_count_kv", 0, "1..1024" }, { "attention.key_length", 0, "1..1024" }, { "attention.key_length", 1025, "1..1024" },
        { "full_attention_interval", 0, "1.." }, { "expert_count", 0, "1..4096" }, { "expert_count", 4097, "1..4096" },
        { "expert_used_count", 0, "1..64" }, { "expert_used_count", 65, "1..64" }, { "expert_feed_forward_length", 0, "1..65536" },
        { "expert_shared_feed_forward_length", 65537, "1..65536" }, { "ssm.conv_kernel", 1, "2..8" }, { "ssm.conv_kernel", 9, "2..8" },
        { "ssm.state_size", 0, "1..1024" }, { "ssm.state_size", 1025, "1..1024" }, { "ssm.group_count", 0, "1..1024" },
        { "ssm.time_step_rank", 1025, "1..1024" }, { "ssm.inner_size", 0, "1..1048576" }, { "hyper_connection.count", 1, "2..8" },
        { "hyper_connection.count", 9, "2..8" }, { "hyper_connection.low_rank", 0, "1..65536" },
        { "attention.indexer.head_count", 0, "1..1024" }, { "attention.indexer.key_length", 1025, "1..1024" },
        { "attention.indexer.top_k", 0, "1..16777216" }, { "vocab_size", 0, "1..16777216" }, { "vocab_size", 1 << 25, "1..16777216" },
        { "ple.ngram_size", 1, "2..4" }, { "ple.ngram_size", 5, "2..4" }, { "ple.heads_per_ngram", 0, "1..64" },
        { "ple.conv_kernel", 9, "2..8" }, { "ple.eos_token_id", 8, "0..7" }, { "ple.image_token_id", 0x80000000, "0..2147483647" },
        { "embedding_length_per_layer_input", 0, "1..65536" },
    };
    struct gm m = { 0 };
    char key[96], words[128];
    gm_qwen4exp(&m);
    for (size_t i = 0; i < COUNT_OF(REQUIRED); i++) {
        snprintf(key, sizeof key, K("%s"), REQUIRED[i]);
        snprintf(words, sizeof words, "%s missing", key);
        gm_drop(&m, key), REFUSE(ERR_FORMAT, words, "");
        gm_str(&m, key, "7"), REFUSE(ERR_FORMAT, key, "expected");
    }
    for (size_t i = 0; i < COUNT_OF(RANGE); i++) {
        snprintf(key, sizeof key, K("%s"), RANGE[i].key);
        snprintf(words, sizeof words, "%s is %u", key, RANGE[i].v);
        gm_u32(&m, key, RANGE[i].v), REFUSE(ERR_FORMAT, words, RANGE[i].range);
    }
    gm_int(&m, K("block_count"), GM_I32, -1), REFUSE(ERR_FORMAT, "block_count is -1", "1..256");

    /* blocks */
    gm_ints(&m, K("attention.compress_ratios"), GM_I32, (int64_t[]){ 0, 0, 4 }, 3), REFUSE(ERR_FORMAT, "compress_ratios has 3", "expected 4");
    gm_ints(&m, K("attention.compress_ratios"), GM_I32, (int64_t[]){ 0, 0, 0, 8 }, 4), REFUSE(ERR_UNSUPPORTED, "ratio of block 3: found 8", "0 or 4");
    gm_ints(&m, K("attention.compress_ratios"), GM_I32, (int64_t[]){ 2, 0, 0, 4 }, 4), REFUSE(ERR_UNSUPPORTED, "ratio of block 0: found 2", "0 or 4");
    gm_ints(&m, K("attention.compress_ratios"), GM_I32, (int64_t[]){ 0, 0, 0, -4 }, 4), REFUSE(ERR_FORMAT, "element 3", "-4");
    gm_ints(&m, K("attention.recurrent_layers"), GM_BOOL, (int64_t[]){ 0, 0 }, 2), REFUSE(ERR_FORMAT, "recurrent_layers has 2", "expected 4");
    gm_ints(&m, K("attention.recurrent_layers"), GM_I32, (int64_t[]){ 0, 0, 0, 2 }, 4), REFUSE(ERR_FORMAT, "element 3", "is 2");
    gm_u32(&m, K("nextn_predict_layers"), 1), gm_ints(&m, K("attention.recurrent_layers"), GM_BOOL, (int64_t[]){ 1, 1, 1, 1 }, 4);
    REFUSE(ERR_UNSUPPORTED, "draft block 3", "recurrent");
    gm_u32(&m, K("block_count"), 1), gm_u32(&m, K("nextn_predict_layers"), 1), REFUSE(ERR_FORMAT, "nextn_predict_layers is 1", "0..0");
    gm_ints(&m, K("attention.head_count"), GM_I32, (int64_t[]){ 4, 4, 4, 2 }, 4);
    gm_u32(&m, K("full_attention_interval"), 1), gm_drop(&m, K("ple.layers"));
    REFUSE(ERR_UNSUPPORTED, "head_count: found 4 and 2", "same in every block");
    gm_ints(&m, K("attention.head_count"), GM_I32, (int64_t[]){ 4, 4, 4, 0 }, 4), REFUSE(ERR_FORMAT, "head_count is empty or 0", "");
    gm_ints(&m, K("attention.head_count"), GM_I32, (int64_t[]){ 4, 4 }, 2), REFUSE(ERR_FORMAT, "head_count has 2", "expected 4");
    gm_arr(&m, K("attention.head_count"), GM_I32, 0), REFUSE(ERR_FORMAT, "head_count is empty or 0", "");
    gm_ints(&m, K("expert_feed_forward_length"), GM_I32, (int64_t[]){ 32, 32, 64, 32 }, 4), REFUSE(ERR_UNSUPPORTED, "found 32 and 64", "");

    /* attention */
    gm_u32(&m, K("attention.head_count_kv"), 3), REFUSE(ERR_FORMAT, "4 query heads", "multiple of the 3");
    gm_u32(&m, K("attention.value_length"), 16), REFUSE(ERR_UNSUPPORTED, "value_length is 16", "expected 32");
    gm_u32(&m, K("embedding_length"), 2), gm_drop(&m, K("attention.key_length")), gm_drop(&m, K("attention.value_length"));
    gm_drop(&m, K("rope.dimension_count"));
    REFUSE(ERR_FORMAT, "key_length missing", "2 / 4");
    gm_u32(&m, K("attention.key_length"), 12), gm_u32(&m, K("attention.value_length"), 12);
    REFUSE(ERR_UNSUPPORTED, "head size 12", "multiple of 8");
    gm_u32(&m, K("rope.dimension_count"), 7), REFUSE(ERR_FORMAT, "7 rotated", "even");
    gm_u32(&m, K("rope.dimension_count"), 34), REFUSE(ERR_FORMAT, "34 rotated", "key_length (32)");
    gm_u32(&m, K("rope.dimension_count"), 18), REFUSE(ERR_FORMAT, "18 rotated", "indexer.key_length (16)");
    gm_f32(&m, K("rope.freq_base"), 0), REFUSE(ERR_FORMAT, "rope.freq_base is 0", "");
    gm_f32(&m, K("rope.freq_base"), NAN), REFUSE(ERR_FORMAT, "rope.freq_base is", "nan");
    gm_f32(&m, K("rope.freq_base"), INFINITY), REFUSE(ERR_FORMAT, "rope.freq_base is", "inf");
    gm_f32(&m, K("attention.layer_norm_rms_epsilon"), 0), REFUSE(ERR_FORMAT, "epsilon is 0", "");
    gm_f32(&m, K("attention.layer_norm_rms_epsilon"), -1), REFUSE(ERR_FORMAT, "epsilon is -1", "");
    gm_f32(&m, K("attention.layer_norm_rms_epsilon"), NAN), REFUSE(ERR_FORMAT, "epsilon is", "nan");
    gm_drop(&m, K("rope.dimension_sections")), REFUSE(ERR_FORMAT, "dimension_sections has 0", "3 or 4");
    gm_ints(&m, K("rope.dimension_sections"), GM_I32, (int64_t[]){ 2, 2 }, 2), REFUSE(ERR_FORMAT, "dimension_sections has 2", "3 or 4");
    gm_ints(&m, K("rope.dimension_sections"), GM_I32, (int64_t[]){ 1, 1, 1, 1, 1 }, 5), REFUSE(ERR_FORMAT, "dimension_sections has 5", "at most 4");
    gm_str(&m, K("rope.scaling.type"), "yarn"), REFUSE(ERR_UNSUPPORTED, "found yarn", "expected none");
    gm_f32(&m, K("rope.scaling.factor"), 4), REFUSE(ERR_UNSUPPORTED, "factor 4", "expected 1");
    gm_f32(&m, K("rope.scaling.attn_factor"), 2), REFUSE(ERR_UNSUPPORTED, "attention factor 2", "");
    gm_u32(&m, K("attention.indexer.top_k"), 66), REFUSE(ERR_FORMAT, "top_k is 66", "multiple of 4");
    gm_u32(&m, K("attention.head_count"), 1024), gm_u32(&m, K("attention.key_length"), 1024), gm_u32(&m, K("attention.value_length"), 1024);
    REFUSE(ERR_FORMAT, "query and gate is 2097152", "1048576");

    /* recurrence and experts */
    gm_u32(&m, K("ssm.inner_size"), 95), REFUSE(ERR_FORMAT, "inner_size is 95", "state_size, 96");
    gm_u32(&m, K("ssm.group_count"), 4), REFUSE(ERR_FORMAT, "6 value heads", "multiple of the 4");
    gm_u32(&m, K("ssm.group_count"), 1024), gm_u32(&m, K("ssm.time_step_rank"), 1024), gm_u32(&m, K("ssm.state_size"), 1024);
    gm_u32(&m, K("ssm.inner_size"), 1 << 20), REFUSE(ERR_FORMAT, "convolution channels is 3145728", "1048576");
    gm_u32(&m, K("expert_used_count"), 9), REFUSE(ERR_FORMAT, "expert_used_count is 9", "at most the 8");
    gm_u32(&m, K("expert_count"), 64), gm_u32(&m, K("expert_used_count"), 64), gm_u32(&m, K("expert_feed_forward_length"), 65536);
    REFUSE(ERR_FORMAT, "chosen experts is 4194304", "");
    gm_f32(&m, K("expert_weights_scale"), 2.5f), REFUSE(ERR_UNSUPPORTED, "weights_scale 2.5", "expected 1");
    gm_int(&m, K("expert_weights_norm"), GM_BOOL, 0), REFUSE(ERR_UNSUPPORTED, "weights_norm 0", "");
    gm_u32(&m, K("expert_gating_func"), 2), REFUSE(ERR_UNSUPPORTED, "gating_func 2", "");
    gm_u32(&m, K("expert_group_count"), 8), REFUSE(ERR_UNSUPPORTED, "group_count 8", "");

    /* vocabulary */
    gm_drop(&m, "tokenizer.ggml.tokens"), REFUSE(ERR_FORMAT, "tokenizer.ggml.tokens has 0", "vocab_size");
    gm_u32(&m, "tokenizer.ggml.tokens", 8), REFUSE(ERR_FORMAT, "tokenizer.ggml.tokens", "array of strings");
    gm_ints(&m, "tokenizer.ggml.tokens", GM_I32, (int64_t[]){ 8 }, 1), REFUSE(ERR_FORMAT, "tokenizer.ggml.tokens", "array of strings");
    gm_u32(&m, K("vocab_size"), 7), REFUSE(ERR_FORMAT, "tokens has 8", "at most the 7");

    /* n-gram table */
    gm_ints(&m, K("ple.layers"), GM_I32, (int64_t[]){ 1, 2 }, 2), REFUSE(ERR_UNSUPPORTED, "found 2 layers", "expected one");
    gm_ints(&m, K("ple.layers"), GM_I32, (int64_t[]){ 4 }, 1), REFUSE(ERR_FORMAT, "ple.layers is 4", "less than 4");
    gm_ints(&m, K("ple.layers"), GM_I32, (int64_t[]){ -1 }, 1), REFUSE(ERR_FORMAT, "element 0 of qwen4exp.ple.layers", "-1");
    gm_ints(&m, K("ple.layers"), GM_I32, (int64_t[]){ 3 }, 1), REFUSE(ERR_UNSUPPORTED, "n-gram layer 3", "attention layer");
    gm_u32(&m, K("nextn_predict_layers"), 3), REFUSE(ERR_FORMAT, "ple.layers is 1", "less than 1"); /* in a draft block */
    gm_u32(&m, K("ple.heads_per_ngram"), 64), REFUSE(ERR_FORMAT, "128 heads", "at most 64");
    gm_ints(&m, K("ple.layer_multipliers"), GM_U64, (int64_t[]){ 1, 2 }, 2), REFUSE(ERR_FORMAT, "layer_multipliers has 2", "expected 3");
    gm_drop(&m, K("ple.layer_multipliers")), REFUSE(ERR_FORMAT, "layer_multipliers has 0", "expected 3");
    gm_ints(&m, K("ple.head_offsets"), GM_U64, (int64_t[]){ 0, 5, 12 }, 3), REFUSE(ERR_FORMAT, "head_offsets has 3", "expected 4");
    gm_ints(&m, K("ple.head_vocab_sizes"), GM_U64, (int64_t[]){ 5, 7, 11, 13, 17 }, 5), REFUSE(ERR_FORMAT, "head_vocab_sizes has 5", "expected 4");
    gm_ints(&m, K("ple.head_vocab_sizes"), GM_U64, (int64_t[]){ 5, 7, 0, 13 }, 4), REFUSE(ERR_FORMAT, "head 2", "size 0");
    gm_ints(&m, K("ple.head_vocab_sizes"), GM_U64, (int64_t[]){ 5, 7, -1, 13 }, 4), REFUSE(ERR_FORMAT, "head 2", "size 18446744073709551615");
    gm_ints(&m, K("ple.head_offsets"), GM_U64, (int64_t[]){ 0, 5, 11, 23 }, 4), REFUSE(ERR_FORMAT, "heads 1 and 2: found 5..11 and 11..21", "no row in both");
    gm_ints(&m, K("ple.head_offsets"), GM_U64, (int64_t[]){ 7, 0, 12, 8 }, 4), REFUSE(ERR_FORMAT, "heads 0 and 3: found 7..11 and 8..20", "no row in both");
    gm_ints(&m, K("ple.head_offsets"), GM_U64, (int64_t[]){ 0, 0, 0, 0 }, 4), REFUSE(ERR_FORMAT, "heads 0 and 1", "no row in both");
    gm_ints(&m, K("ple.head_offsets"), GM_U64, (int64_t[]){ 0, 5, 12, 0x7ffffff3 }, 4), REFUSE(ERR_FORMAT, "head 3", "below 2^31");
    gm_u32(&m, K("embedding_length_per_layer_input"), 65536), gm_u32(&m, K("ple.heads_per_ngram"), 32);
    REFUSE(ERR_FORMAT, "n-gram rows is 4194304", "");
    gm_free(&m);
}

int main(void)
{
    test_demo();
    test_accepted();
    test_other_files();
    test_refused();
    return TEST_END();
}
