/* console.h - what is said to the user: notes, errors and a progress bar on stderr, results on stdout.
 *
 * stdout carries results and nothing else; a write that fails is an error like any other. Lines on stderr also go to the log. */
#ifndef HAYATE_MODEL_CONSOLE_H
#define HAYATE_MODEL_CONSOLE_H

#include "gpu/base.h"

#include <stdio.h>

struct console {
    bool quiet;              /* errors only on stderr; the log gets everything */
    bool err_tty, out_tty;
    FILE *log;               /* may be NULL */
    bool bar;                /* a bar stands on the last line of the terminal */
    double next_bar;         /* not before this time, in seconds of console_now */
};

void console_note(struct console *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void console_error(struct console *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Progress. done of total units (total = 0: unknown), all but n_free of them in seconds so far; a bar on a terminal, else a line every ten seconds. */
void console_progress(struct console *c, const char *what, size_t done, size_t total, size_t n_free, double seconds);
/* A line of any text in place of the bar: on a terminal cut to its width and at most ten times a second, nothing elsewhere. True when it is
 * time to say something in lines instead: not a terminal, and ten seconds since the last time. */
bool console_status(struct console *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Takes the bar away and starts the clock of the next one. */
void console_progress_end(struct console *c);
/* Writes to stdout and makes sure that it has arrived: a full disk or a closed pipe is ERR_IO. */
status console_write(const char *p, size_t n, struct err *e);

/* Monotonic seconds. */
double console_now(void);

#endif
