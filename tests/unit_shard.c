/* unit_shard.c - who has which input, from what the command line or Slurm says, and the names of a shard's files. */
#include "model/shard.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parsing(void)
{
    static const char *const bad[] = { "", "/", "1", "1/", "/2", "0/2", "3/2", "1/0", "-1/2", "1/2x", "1 /2", " 1/2", "1//2", "1/2/3", "1/1000001",
                                       "99999999999/99999999999" };
    struct shard s;
    struct err e;
    CHECK(shard_parse(&s, "--shard", "1/1", &e) == OK && s.k == 1 && s.n == 1);
    CHECK(shard_parse(&s, "--shard", "3/4", &e) == OK && s.k == 3 && s.n == 4);
    CHECK(shard_parse(&s, "--shard", "1000000/1000000", &e) == OK && s.k == 1000000);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(shard_parse(&s, "--shard", bad[i], &e) == ERR_USAGE);
        CHECK(strstr(e.msg, "--shard") && strstr(e.msg, "K/N"));
    }
}

static struct shard of_task(const char *id, const char *count, const char *min, const char *max, const char *step)
{
    struct array_task t = { id, count, min, max, step };
    struct shard s;
    struct err e;
    return shard_of_task(&s, &t, &e) == OK ? s : (struct shard){ 0, 0 };
}

static void slurm(void)
{
    char id[16];
    CHECK(of_task(NULL, NULL, NULL, NULL, NULL).n == 1);
    CHECK(of_task(NULL, "4", "0", "3", "1").n == 1); /* no id: not in an array */
    for (unsigned i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "%u", i);
        CHECK(of_task(id, "4", "0", "3", "1").k == i + 1);
        snprintf(id, sizeof id, "%u", 7 + i);
        CHECK(of_task(id, "4", "7", "10", "1").k == i + 1);
        snprintf(id, sizeof id, "%u", 2 + 3 * i);
        CHECK(of_task(id, "4", "2", "11", "3").k == i + 1);
    }
    for (unsigned first = 0; first < 3; first++) { /* COUNT alone: each part once, wherever the ids begin */
        unsigned seen = 0;
        for (unsigned i = 0; i < 4; i++) {
            snprintf(id, sizeof id, "%u", first + i);
            seen |= 1u << of_task(id, "4", NULL, NULL, NULL).k;
        }
        CHECK(seen == 0x1e);
    }
    CHECK(of_task("3", "3", "1", "7", "1").n == 0);   /* --array=1,3,7 */
    CHECK(of_task("3", "3", "1", "7", "3").n == 0);
    CHECK(of_task("9", "4", "0", "3", "1").n == 0);
    CHECK(of_task("1", NULL, "0", "3", "1").n == 0);
    CHECK(of_task("1", "x", "0", "3", "1").n == 0);
    CHECK(of_task("1", "0", NULL, NULL, NULL).n == 0);
    CHECK(of_task("", "4", "0", "3", "1").n == 0);
    CHECK(of_task("-1", "4", "0", "3", "1").n == 0);
    CHECK(of_task("1", "4", "0", "3", "0").n == 0);
    CHECK(of_task("1", "99999999999999999999", NULL, NULL, NULL).n == 0);
}

/* Fixed for good: a later version continues what an earlier one began. The values are those of xxhsum -H3, modulo n, plus 1. */
static void owners(void)
{
    static const struct {
        const char *name;
        uint32_t of4, of7;
    } want[] = { { "a.txt", 1, 1 }, { "reports/2026/march.md", 3, 5 }, { "", 3, 5 } };
    unsigned count[5] = { 0 };
    char name[32];
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        CHECK(shard_of_name(want[i].name, 4) == want[i].of4);
        CHECK(shard_of_name(want[i].name, 7) == want[i].of7);
        CHECK(shard_of_name(want[i].name, 1) == 1);
    }
    for (unsigned i = 0; i < 4000; i++) {
        snprintf(name, sizeof name, "%04u.txt", i);
        uint32_t k = shard_of_name(name, 4);
        CHECK(k >= 1 && k <= 4);
        count[k]++;
    }
    for (unsigned k = 1; k <= 4; k++) /* 1,000 each with a standard deviation of 27 */
        CHECK(count[k] > 850 && count[k] < 1150);
}

static void path_is(const char *path, struct shard s, const char *want)
{
    char *got = shard_path(path, s);
    CHECK(got && strcmp(got, want) == 0);
    free(got);
}

static void names(void)
{
    struct shard s = { 2, 4 }, all = { 1, 1 };
    path_is("out.jsonl", s, "out.2-of-4.jsonl");
    path_is("a.b/out", s, "a.b/out.2-of-4");
    path_is("a/b.tar.gz", s, "a/b.tar.2-of-4.gz");
    path_is("a/.hidden", s, "a/.hidden.2-of-4");
    path_is("out.jsonl", all, "out.jsonl");
    path_is("/dev/null", s, "/dev/null");
    CHECK(shard_is_sibling("a/out.2-of-4.jsonl", s, "b/out.3-of-4.jsonl"));
    CHECK(shard_is_sibling("out.2-of-4.jsonl", s, "out.2-of-4.jsonl"));
    CHECK(shard_is_sibling("out.2-of-4.jsonl", s, "out.1-of-4.jsonl.part"));
    CHECK(shard_is_sibling("out.2-of-4.jsonl", s, "out.1-of-16.jsonl.new"));
    CHECK(shard_is_sibling("x.2-of-4.2-of-4.j", s, "x.2-of-4.1-of-4.j"));
    CHECK(!shard_is_sibling("out.2-of-4.jsonl", s, "out.jsonl"));
    CHECK(!shard_is_sibling("out.2-of-4.jsonl", s, "out.3-of-4.txt"));
    CHECK(!shard_is_sibling("out.2-of-4.jsonl", s, "out.3-of-4.jsonl.txt"));
    CHECK(!shard_is_sibling("out.2-of-4.jsonl", s, "out.x-of-4.jsonl"));
    CHECK(!shard_is_sibling("out.2-of-4.jsonl", s, "in.3-of-4.jsonl"));
    CHECK(!shard_is_sibling("/dev/null", s, "null"));
    CHECK(!shard_is_sibling("out.1-of-1.jsonl", all, "out.1-of-1.jsonl"));
}

int main(void)
{
    parsing();
    slurm();
    owners();
    names();
    return TEST_END();
}
