/* console.c - notes, errors, progress and results. */
#include "model/console.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>

double console_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wipe(struct console *c)
{
    if (c->bar)
        fputs("\r\033[K", stderr);
    c->bar = false;
}

static void line(struct console *c, bool show, const char *prefix, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    if (show) {
        wipe(c);
        fputs(prefix, stderr);
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
    }
    if (c->log) {
        fputs(prefix, c->log);
        vfprintf(c->log, fmt, again);
        fputc('\n', c->log);
        fflush(c->log);
    }
    va_end(again);
}

void console_note(struct console *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line(c, !c->quiet, "", fmt, ap);
    va_end(ap);
}

void console_error(struct console *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line(c, true, "hayate: ", fmt, ap);
    va_end(ap);
}

void console_progress(struct console *c, const char *what, size_t done, size_t total, size_t n_free, double seconds)
{
    enum { WIDTH = 24 };
    double t = console_now(), rate = seconds > 0 ? (double)(done - n_free) / seconds : 0;
    if (c->quiet || t < c->next_bar)
        return;
    if (!c->err_tty) { /* the first line only when it takes long */
        bool first = c->next_bar <= 0;
        c->next_bar = t + 10;
        if (first)
            return;
        if (total)
            console_note(c, "%s %zu/%zu tok, %.1f tok/s, %.0f s left", what, done, total, rate, rate > 0 ? (double)(total - done) / rate : 0);
        else
            console_note(c, "%s %zu tok, %.1f tok/s", what, done, rate);
        return;
    }
    c->next_bar = t + 0.1;
    fprintf(stderr, "\r%s ", what);
    if (total) {
        char bar[WIDTH + 1] = { 0 };
        size_t full = done * WIDTH / total;
        memset(bar, '.', WIDTH);
        memset(bar, '#', full);
        fprintf(stderr, "[%s] %zu/%zu tok", bar, done, total);
        if (rate > 0)
            fprintf(stderr, ", %.0f tok/s, %.0f s left", rate, (double)(total - done) / rate);
    } else {
        fprintf(stderr, "%zu tok", done);
        if (rate > 0)
            fprintf(stderr, ", %.1f tok/s", rate);
    }
    fputs("\033[K", stderr);
    fflush(stderr);
    c->bar = true;
}

/* How many bytes of z fit in a number of columns */
static size_t fitting(const char *z, int columns)
{
    size_t n = strlen(z), at = 0;
    while (at < n) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)z + at, (utf8proc_ssize_t)(n - at), &c);
        int width = k > 0 ? utf8proc_charwidth(c) : 1;
        if (width > columns)
            break;
        columns -= width;
        at += k > 0 ? (size_t)k : 1;
    }
    return at;
}

bool console_status(struct console *c, const char *fmt, ...)
{
    char text[1024];
    struct winsize w;
    va_list ap;
    double t = console_now();
    if (c->quiet || t < c->next_bar)
        return false;
    if (!c->err_tty) {
        bool first = c->next_bar <= 0;
        c->next_bar = t + 10;
        return !first;
    }
    c->next_bar = t + 0.1;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
    fprintf(stderr, "\r%.*s\033[K", (int)fitting(text, columns - 1), text);
    fflush(stderr);
    c->bar = true;
    return false;
}

void console_progress_end(struct console *c)
{
    wipe(c);
    c->next_bar = 0;
}

status console_write(const char *p, size_t n, struct err *e)
{
    errno = 0;
    if (fwrite(p, 1, n, stdout) == n && fflush(stdout) == 0 && !ferror(stdout))
        return OK;
    return fail(e, ERR_IO, "standard output: %s", errno ? strerror(errno) : "cannot write");
}
