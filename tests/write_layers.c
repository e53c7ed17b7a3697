/* write_layers.c - regression values: the wide residual after every layer at the last position of a golden set, as GLAY1.
 *
 *     write_layers MODEL SET.CASE.gold > SET.CASE.layers
 *
 * For models whose reference has no layer values. Write them only with an engine that passes every golden set. */
#include "tests/gold_case.h"

int main(int argc, char **argv)
{
    struct err e = { 0 };
    model *m;
    session *s;
    struct gold_case c = open_case(argc, argv, 1, (struct session_params){ .precise = true }, &m, &s);
    const struct shape *sh = model_shape(m);
    size_t wide = (size_t)sh->n_stream * sh->n_embd;
    float *tap = calloc(sh->n_layer * wide, sizeof *tap);
    if (!tap)
        return 1;
    session_tap(s, tap);
    if (session_prefill(s, c.ids, c.n, NULL, NULL, &e) != OK || session_flush(s, NULL, NULL, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    int32_t out[3] = { (int32_t)c.n - 1, (int32_t)sh->n_layer, (int32_t)wide };
    bool ok = fwrite("GLAY1\n", 1, 6, stdout) == 6 && fwrite(out, 4, 3, stdout) == 3 && fwrite(tap, 4, sh->n_layer * wide, stdout) == sh->n_layer * wide;
    session_close(s);
    model_close(m);
    free(tap), free(c.ids);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
