/* fake_hip.h - what tests ask of the runtime in fake_hip.c, beside what HIP has; found with dlsym, in the library that the program has loaded. */
#ifndef HAYATE_TESTS_FAKE_HIP_H
#define HAYATE_TESTS_FAKE_HIP_H

/* From now on the nth call (from 1) of an entry point returns code and does nothing; entry NULL: none does. Counts begin anew. */
void fake_hip_fail(const char *entry, unsigned nth, int code);
/* Calls of an entry point since then */
unsigned fake_hip_calls(const char *entry);
/* Things that were made and not destroyed */
unsigned fake_hip_live(void);
/* Whether work that was given to the stream ever ends. */
void fake_hip_hang(int hangs);

#endif
