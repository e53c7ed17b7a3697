/* fuzz_tokenizer.c - any bytes through the tokenizer in both modes and back.
 *
 * Aborts when valid UTF-8 does not come back byte for byte, when document text gives a control or user-defined token, or when
 * what the detokeniser prints is not valid UTF-8. The bytes are also read as ids, which need not make sense.
 * With -DFUZZ_REPLAY a program that replays files. Run from the repository root: the vocabulary is that of the demo model. */
#include "model/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "fuzz_tokenizer: %s\n", what);
        abort();
    }
}

static tokenizer *vocabulary(void)
{
    static tokenizer *t; /* opened once, kept until the end: a fuzzer calls us a million times */
    static gguf *g;
    struct err e;
    if (!t && (gguf_open(&g, "tests/models/tiny-man.gguf", &e) != OK || tokenizer_open(&t, g, &e) != OK))
        must(false, e.msg);
    return t;
}

/* Text of ids, with every step valid UTF-8. */
static struct text decode(const tokenizer *t, const struct ids *ids, bool show_special)
{
    struct text out = { 0 };
    struct detok d = { .show_special = show_special };
    must(text_add(&out, "", 0, NULL) == OK, "memory");
    for (size_t i = 0; i < ids->n; i++) {
        size_t before = out.n;
        must(detok_push(t, &d, ids->v[i], &out, NULL) == OK, "memory");
        must(d.n_held <= 3, "more than 3 bytes held back");
        must(utf8_invalid_at(out.p + before, out.n - before) == out.n - before, "streamed text is not UTF-8");
    }
    must(detok_end(&d, &out, NULL) == OK, "memory");
    must(utf8_invalid_at(out.p, out.n) == out.n, "text is not UTF-8");
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    tokenizer *t = vocabulary();
    const char *s = (const char *)p;
    size_t valid = utf8_invalid_at(s, n);
    struct str trimmed = utf8_trim((struct str){ s, n });
    must(trimmed.n <= n && (n == 0 || (trimmed.p >= s && trimmed.p + trimmed.n <= s + n)), "trimmed text lies outside");
    must(str_eq(utf8_trim(trimmed), trimmed), "trimming twice differs from trimming once");

    for (int mode = TOKENIZE_TEXT; mode <= TOKENIZE_SPECIAL; mode++) {
        struct ids ids = { 0 };
        must(tokenize(t, s, n, (enum tokenize_mode)mode, &ids, NULL) == OK, "memory");
        for (size_t i = 0; i < ids.n; i++) {
            must(ids.v[i] >= 0 && (size_t)ids.v[i] < tokenizer_n_vocab(t), "id outside the vocabulary");
            must(mode == TOKENIZE_SPECIAL || !tokenizer_is_control(t, ids.v[i]), "control token in document text");
        }
        struct text loud = decode(t, &ids, true), quiet = decode(t, &ids, false);
        must(valid < n || (loud.n == n && (n == 0 || memcmp(loud.p, s, n) == 0)), "text does not come back");
        must(mode == TOKENIZE_SPECIAL || str_eq((struct str){ loud.p, loud.n }, (struct str){ quiet.p, quiet.n }), "hidden text");
        text_free(&loud);
        text_free(&quiet);
        ids_free(&ids);
    }

    struct ids any = { 0 };
    for (size_t i = 0; i + 2 <= n; i += 2)
        must(ids_push(&any, (p[i] << 8 | p[i + 1]) % 8200 - 4, NULL) == OK, "memory");
    struct text out = decode(t, &any, true);
    text_free(&out);
    ids_free(&any);
    return 0;
}

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
    static uint8_t buf[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        size_t n = fread(buf, 1, sizeof buf, f);
        fclose(f);
        LLVMFuzzerTestOneInput(buf, n);
    }
    printf("%-28s %d files\n", __FILE__, argc - 1);
    return argc > 1 ? 0 : 1;
}
#endif
