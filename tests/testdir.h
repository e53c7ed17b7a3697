/* testdir.h - a folder of its own for a test that writes files, below build/. */
#ifndef HAYATE_TESTS_TESTDIR_H
#define HAYATE_TESTS_TESTDIR_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char dir[64];

/* False, and said, when there can be none. name: of the test. */
static inline bool make_dir(const char *name)
{
    mkdir("build", 0777);
    snprintf(dir, sizeof dir, "build/%.40s.XXXXXX", name);
    if (mkdtemp(dir))
        return true;
    perror(dir);
    return false;
}

/* dir/name; the last four results stay valid. */
static inline const char *in_dir(const char *name)
{
    static char path[4][256];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

static inline void remove_dir(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        fprintf(stderr, "%s stays\n", dir);
}

#endif
