/* document.c - reads inputs whole and checks them before anything is computed. */
#include "model/document.h"

#include "model/encoding.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *document_name(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

/* Far beyond any context; a device that never ends is refused before it fills the memory. */
static const size_t MAX_DOCUMENT = (size_t)256 << 20;

static status read_fd(int fd, const char *name, const volatile sig_atomic_t *stop, struct text *out, struct err *e)
{
    char buf[1 << 16];
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return fail(e, ERR_INPUT, "%s: is a directory, expected a file", name);
    size_t before = out->n;
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (stop && *stop)
            return fail(e, ERR_INPUT, "%s: interrupted while reading", name);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(e, ERR_INPUT, "%s: %s", name, strerror(errno));
        if (n == 0)
            break;
        if ((size_t)n > MAX_DOCUMENT - (out->n - before))
            return fail(e, ERR_INPUT, "%s: more than %zu MiB, expected a document", name, MAX_DOCUMENT >> 20);
        TRY(text_add(out, buf, (size_t)n, e));
    }
    return out->n > before ? OK : fail(e, ERR_USAGE, "%s: empty, expected text", name);
}

status document_read(const char *path, const volatile sig_atomic_t *stop, struct text *out, struct err *e)
{
    const char *name = document_name(path);
    if (strcmp(path, "-") == 0)
        return read_fd(STDIN_FILENO, name, stop, out, e);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(e, ERR_INPUT, "%s: %s", name, strerror(errno));
    status s = read_fd(fd, name, stop, out, e);
    close(fd);
    return s;
}

status document_check(const char *path, const char *encoding, struct text *bytes, struct str *document, const char **read_as, struct err *e)
{
    const char *name = document_name(path);
    TRY(encoding_decode(name, encoding, bytes, read_as, e));
    size_t bom = bytes->n >= 3 && memcmp(bytes->p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *document = (struct str){ bytes->p + bom, bytes->n - bom };
    const char *nul = memchr(document->p, 0, document->n);
    if (nul)
        return fail(e, ERR_INPUT, "%s: NUL at byte %zu, expected text", name, bom + (size_t)(nul - document->p));
    if (utf8_trim(*document).n == 0)
        return fail(e, ERR_USAGE, "%s: nothing but white space, expected text", name);
    return OK;
}
