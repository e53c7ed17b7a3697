/* machine.c - the measurements of machine.h. */
#include "model/machine.h"

status machine_measure(gpu *g, struct err *e)
{
    (void)g;
    return fail(e, ERR_UNSUPPORTED, "selftest --machine: not in this version");
}
