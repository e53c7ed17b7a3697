/* base.h - what every module stands on: results, strings, checked sizes, arenas, memory plans.
 *
 * Owns no state. Errors are values: a function that can fail returns a status and fills a struct err
 * with one line that says what failed, on which file, and found versus expected. */
#ifndef HAYATE_GPU_BASE_H
#define HAYATE_GPU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    OK = 0,
    ERR_USAGE,       /* the caller asked for something impossible (exit 2) */
    ERR_IO,          /* open, read or map failed; the reason is in the message */
    ERR_FORMAT,      /* a file is not what it claims to be */
    ERR_UNSUPPORTED, /* valid, but not this model, this version or this device */
    ERR_NOMEM,       /* an allocation or the memory plan failed */
    ERR_DEVICE,      /* the driver or the device said no */
    ERR_INPUT,       /* a document: not UTF-8, too long, unreadable */
} status;

struct err {
    status code;
    char msg[512]; /* one line, no newline at the end */
};

/* Fills e (which may be NULL) with a formatted line and returns code. Control bytes that came from a
 * file (a hostile tensor name, say) are replaced by '?', so a message stays one line. */
status fail(struct err *e, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the message of e; returns e->code. For naming the file late. */
status fail_in(struct err *e, const char *prefix);

#define TRY(expr)                      \
    do {                               \
        status try_s_ = (expr);        \
        if (try_s_ != OK)              \
            return try_s_;             \
    } while (0)
#define TRY_OR(label, s, expr)         \
    do {                               \
        if (((s) = (expr)) != OK)      \
            goto label;                \
    } while (0)

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A piece of somebody else's bytes; not terminated. */
struct str {
    const char *p;
    size_t n;
};
#define STR(lit) ((struct str){ (lit), sizeof(lit) - 1 })
bool str_eq(struct str a, struct str b);
bool str_is(struct str a, const char *z);
/* For printf: "%.*s", STR_FMT(s) */
#define STR_FMT(s) (int)((s).n < 200 ? (s).n : 200), (s).p

/* Products and sums of sizes that come from a file or an option. False on overflow. */
static inline bool size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
/* x rounded up to a multiple of a (a power of two); saturates at SIZE_MAX instead of wrapping. */
static inline size_t size_up(size_t x, size_t a) { return x > SIZE_MAX - (a - 1) ? SIZE_MAX : (x + (a - 1)) & ~(a - 1); }

/* An arena hands out 64-byte aligned pieces of one block. With base == NULL it only counts: the same layout
 * code run twice gives first the plan and then the addresses, so the two cannot disagree. */
struct arena {
    uint8_t *base;
    size_t used;     /* saturates at SIZE_MAX when a plan overflows */
    size_t capacity; /* of base */
};
void *arena_take(struct arena *a, size_t n, size_t elem_bytes); /* NULL while counting; asserts that it fits otherwise */

/* Anonymous zeroed pages that are not touched until used. */
void *pages_alloc(size_t n_bytes);
void pages_free(void *p, size_t n_bytes);

/* A size as it is read: "17 bytes", "640 KiB", "24 MiB"; up: rounded up, else down. */
const char *size_text(char buf[32], size_t n_bytes, bool up);

/* The memory plan: what `info --plan` prints before anything is allocated. */
struct plan_line {
    const char *name; /* "session: K/V" */
    size_t bytes;
    char note[96];    /* "12 layers x 65536 positions, f16" */
    bool on_device;   /* memory of a device, not of the host */
};
struct plan {
    struct plan_line line[48];
    size_t n;
};
void plan_add(struct plan *p, const char *name, size_t bytes, const char *note_fmt, ...)
    __attribute__((format(printf, 4, 5)));
size_t plan_total(const struct plan *p);
size_t plan_device_bytes(const struct plan *p); /* of the lines on a device; both saturate at SIZE_MAX */

#endif
