/* guard.c - the SIGBUS handler and the mappings it knows. Only the main thread changes the list; the handler may run in any. */
#include "model/guard.h"

#include "gpu/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct guarded {
    const uint8_t *p;
    size_t n;
    struct guarded *next;
    char line[544]; /* all that is said, ready to be written */
};

static struct guarded *_Atomic guarded;
static const char *_Atomic temporary;
static atomic_bool wipe_bar;
static atomic_flag ending = ATOMIC_FLAG_INIT;

static void say(const char *z)
{
    if (write(STDERR_FILENO, z, strlen(z)) < 0)
        return; /* nobody to tell */
}

/* Only calls that are safe in a signal handler. */
static void on_bus(int number, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr;
    const struct guarded *g = guarded;
    (void)context;
    while (g && (at < g->p || at >= g->p + g->n))
        g = g->next;
    if (!g) { /* not ours: it comes again, and ends as it would have */
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&ending)) /* another thread is at it */
        pause();
    if (wipe_bar)
        say("\r\033[K");
    say(g->line);
    if (temporary)
        unlink(temporary);
    _exit(1);
}

void guard_open(bool bar)
{
    struct sigaction a = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    wipe_bar = bar;
    sigaction(SIGBUS, &a, NULL);
}

void guard_add(const void *p, size_t n, const char *path)
{
    struct err e;
    struct guarded *g = calloc(1, sizeof *g);
    if (!g)
        return;
    fail(&e, ERR_IO, "%s: the file got shorter while it was in use, expected %zu bytes", path, n); /* for its one clean line */
    snprintf(g->line, sizeof g->line, "hayate: %s\n", e.msg);
    g->p = p;
    g->n = n;
    g->next = guarded;
    guarded = g;
}

void guard_remove(const void *p)
{
    struct guarded *g = guarded, *before = NULL;
    while (g && g->p != p) {
        before = g;
        g = g->next;
    }
    if (!g)
        return;
    if (before)
        before->next = g->next;
    else
        guarded = g->next;
    free(g);
}

void guard_temporary(const char *path) { temporary = path; }
