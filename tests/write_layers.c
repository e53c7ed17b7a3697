/* write_layers.c - regression values: the wide residual after every layer at the last position of a golden set, as GLAY1.
 *
 *     write_layers MODEL SET.CASE.gold > SET.CASE.layers
 *
 * For models whose reference has no layer values. Write them only with an engine that passes every golden set. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct err e = { 0 };
    model *m;
    session *s;
    int32_t head[3];
    FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!f || fseek(f, 6, SEEK_SET) || fread(head, 4, 3, f) != 3 || head[0] < 1) {
        fprintf(stderr, "write_layers MODEL SET.CASE.gold\n");
        return 2;
    }
    int32_t *ids = calloc((size_t)head[0], sizeof *ids);
    if (!ids || fread(ids, 4, (size_t)head[0], f) != (size_t)head[0])
        return 1;
    if (model_open(&m, argv[1], &(struct model_params){ .backend = BACKEND_CPU }, &e) != OK ||
        session_open(&s, m, &(struct session_params){ .n_ctx = (size_t)head[0], .precise = true }, 0, &e) != OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    const struct shape *sh = model_shape(m);
    size_t wide = (size_t)sh->n_stream * sh->n_embd;
    float *tap = calloc(sh->n_layer * wide, sizeof *tap);
    session_tap(s, tap);
    if (!tap || session_prefill(s, ids, (size_t)head[0], NULL, NULL, &e) != OK || session_flush(s, NULL, NULL, &e) != OK)
        return 1;
    int32_t out[3] = { head[0] - 1, (int32_t)sh->n_layer, (int32_t)wide };
    bool ok = fwrite("GLAY1\n", 1, 6, stdout) == 6 && fwrite(out, 4, 3, stdout) == 3 && fwrite(tap, 4, sh->n_layer * wide, stdout) == sh->n_layer * wide;
    session_close(s);
    model_close(m);
    free(tap), free(ids), fclose(f);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
