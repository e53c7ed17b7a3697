/* demo.h - the demo model inside the binary (`make DEMO=` builds without one). */
#ifndef HAYATE_MODEL_DEMO_H
#define HAYATE_MODEL_DEMO_H

#include <stddef.h>

/* Sets *bytes to the GGUF and returns its size; 0 when there is none. */
size_t demo_bytes(const void **bytes);

#endif
