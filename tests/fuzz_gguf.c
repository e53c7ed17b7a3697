/* fuzz_gguf.c - any bytes as a model file: opened or refused, never followed outside.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_gguf.c model/gguf.c model/shape.c gpu/base.c gpu/quant.c -lxxhash -lm
 *     ./a.out -max_len=8192 tests/corpus/gguf
 *
 * With -DFUZZ_REPLAY and without the fuzzer a main replays the files it is given. */
#include "model/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* The optimiser must not drop the reads. */
static volatile uint8_t sink;

static void touch(const uint8_t *p, size_t n)
{
    if (n)
        sink = (uint8_t)(p[0] ^ p[n - 1]);
}

static void walk(const gguf *g)
{
    struct err e;
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        touch((const uint8_t *)kv->key.p, kv->key.n);
        touch(kv->data, kv->data_bytes);
        if (kv->elem_type == GGUF_STR) {
            struct gguf_strs it = gguf_strs(kv);
            for (struct str s; gguf_next_str(&it, &s);)
                touch((const uint8_t *)s.p, s.n);
        }
        char key[64];
        if (kv->key.n < sizeof key) {
            int64_t ints[16];
            uint64_t u64s[16], u;
            size_t k;
            float f;
            bool b;
            struct str s;
            memcpy(key, kv->key.p, kv->key.n);
            key[kv->key.n] = 0;
            if (gguf_find(g, key) != kv)
                abort();
            gguf_opt_ints(g, key, -5, 1 << 20, ints, 16, &k, &e);
            gguf_opt_u64s(g, key, u64s, 16, &k, &e);
            gguf_opt_uint(g, key, 1, 1 << 20, 0, &u, &e);
            gguf_opt_f32(g, key, 0, &f, &e);
            gguf_opt_bool(g, key, false, &b, &e);
            if (gguf_opt_str(g, key, STR(""), &s, &e) == OK)
                touch((const uint8_t *)s.p, s.n);
        }
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[64];
        touch(t->data, t->bytes);
        memcpy(name, t->name.p, t->name.n);
        name[t->name.n] = 0;
        if (gguf_find_tensor(g, name) != t || t->file_offset > gguf_file_bytes(g))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct err e;
    struct shape s;
    gguf *g;
    if (gguf_open_memory(&g, p, n, "fuzz", &e) != OK)
        return 0;
    walk(g);
    if (shape_read(&s, g, &e) == OK && (s.n_layer + s.n_draft > MAX_LAYER || s.ple_head > MAX_PLE_HEADS || s.n_qsa + s.n_gdn != s.n_layer))
        abort();
    gguf_close(g);
    return 0;
}

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        static uint8_t buf[1 << 20];
        size_t n = fread(buf, 1, sizeof buf, f);
        fclose(f);
        uint8_t *copy = malloc(n ? n : 1); /* of exactly this size, so that one byte too far is seen */
        if (!copy)
            return 1;
        memcpy(copy, buf, n);
        LLVMFuzzerTestOneInput(copy, n);
        free(copy);
    }
    printf("%s: %d files\n", __FILE__, argc - 1);
    return 0;
}
#endif
