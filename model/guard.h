/* guard.h - a mapped file that gets shorter while it is read ends the program with one line, not with a crash.
 *
 * The kernel answers a read behind the end of a mapped file with SIGBUS, in whichever thread it was. The handler knows the mappings;
 * elsewhere a SIGBUS is a mistake of ours and takes its usual way. A signal handler can be handed nothing, so this list is one of the two
 * places in the program that keep state in variables of their own (the other is the signal number in main.c). */
#ifndef HAYATE_MODEL_GUARD_H
#define HAYATE_MODEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Installs the handler; once, at start. bar: stderr is a terminal, on whose last line a bar may stand. */
void guard_open(bool bar);
/* Watches the mapping p [n] of a file. Without memory it stays unwatched. */
void guard_add(const void *p, size_t n, const char *path);
void guard_remove(const void *p);
/* A file that is removed when the program ends this way; NULL: none. The name stays the caller's. */
void guard_temporary(const char *path);

#endif
