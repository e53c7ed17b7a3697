/* machine.h - what a device can do, measured without a model: cost of a dependent call, bandwidth by size, caches, transfers. */
#ifndef HAYATE_MODEL_MACHINE_H
#define HAYATE_MODEL_MACHINE_H

#include "gpu/gpu.h"

/* Measures g for some seconds and prints a table to stdout. */
status machine_measure(gpu *g, struct err *e);

#endif
