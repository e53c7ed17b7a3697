/* test.h - all there is to a unit test. */
#ifndef HAYATE_TESTS_TEST_H
#define HAYATE_TESTS_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int test_failed;
static long test_checks;
#define CHECK(cond)                                                          \
    do {                                                                     \
        test_checks++;                                                       \
        if (!(cond) && test_failed++ < 10)                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);       \
    } while (0)
/* Ends the test with the message in the file's `e` where x fails, on which all the rest depends. */
#define MUST(x)                                                              \
    do {                                                                     \
        if ((x) != OK) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, e.msg);       \
            exit(1);                                                         \
        }                                                                    \
    } while (0)
/* Prints one line and gives main's return value. A test that checked nothing has failed. Seconds are those of all processors. */
#define TEST_END()                                                           \
    (printf("%-28s %ld checks, %d failed, %.1f s\n", __FILE__, test_checks, test_failed, (double)clock() / CLOCKS_PER_SEC), (test_failed || !test_checks) ? 1 : 0)

/* One of three numbers, of rounds or the like: with TEST_SIZE=short (what `make check` does with sanitizers), without it, and with TEST_SIZE=long
 * (`make check-long`). */
static inline unsigned test_size(unsigned few, unsigned usual, unsigned many)
{
    const char *s = getenv("TEST_SIZE");
    return !s || !*s ? usual : strcmp(s, "long") == 0 ? many : few;
}

/* A random test prints its seed; TEST_SEED=n replays it. */
static inline unsigned long test_seed(unsigned long fresh)
{
    const char *s = getenv("TEST_SEED");
    unsigned long seed = s ? strtoul(s, NULL, 0) : fresh;
    printf("seed %lu\n", seed);
    return seed;
}

#endif
