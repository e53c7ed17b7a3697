/* shard.c - which part of the inputs, and what its files are called. */
#define _GNU_SOURCE /* asprintf */
#include "model/shard.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* Digits from *p on, at most MAX_SHARDS; *p is left behind them. */
static bool read_number(const char **p, uint32_t *out)
{
    const char *at = *p;
    uint32_t x = 0;
    while (isdigit((unsigned char)*at) && x <= MAX_SHARDS)
        x = 10 * x + (uint32_t)(*at++ - '0');
    bool any = at > *p && x <= MAX_SHARDS;
    *p = at;
    *out = x;
    return any;
}

status shard_parse(struct shard *s, const char *option, const char *text, struct err *e)
{
    const char *p = text;
    bool good = read_number(&p, &s->k) && *p++ == '/' && read_number(&p, &s->n) && !*p;
    if (!good || s->k < 1 || s->k > s->n)
        return fail(e, ERR_USAGE, "%s: found '%s', expected K/N with K from 1 to N, at most %d", option, text, MAX_SHARDS);
    return OK;
}

/* ---- Slurm ---- */

/* A variable that is all digits. Ids go up to 4,000,000 in Slurm. */
static status read_variable(const char *name, const char *text, uint64_t *out, struct err *e)
{
    char *end = NULL;
    if (text && isdigit((unsigned char)*text) && strlen(text) <= 18)
        *out = strtoull(text, &end, 10);
    if (!end || *end)
        return fail(e, ERR_USAGE, "SLURM_ARRAY_TASK_%s: found '%s', expected a number; --shard K/N says which part to do", name, text ? text : "nothing");
    return OK;
}

status shard_of_task(struct shard *s, const struct array_task *t, struct err *e)
{
    uint64_t id, count, min = 0, max = 0, step = 1;
    *s = (struct shard){ 1, 1 };
    if (!t->id)
        return OK;
    TRY(read_variable("ID", t->id, &id, e));
    TRY(read_variable("COUNT", t->count, &count, e));
    if (count < 1 || count > MAX_SHARDS)
        return fail(e, ERR_USAGE, "SLURM_ARRAY_TASK_COUNT: found %s, expected 1..%d", t->count, MAX_SHARDS);
    if (!t->min || !t->max) { /* then the ids are taken for a row without gaps, wherever it begins */
        *s = (struct shard){ (uint32_t)(id % count) + 1, (uint32_t)count };
        return OK;
    }
    TRY(read_variable("MIN", t->min, &min, e));
    TRY(read_variable("MAX", t->max, &max, e));
    if (t->step)
        TRY(read_variable("STEP", t->step, &step, e));
    if (step == 0 || max < min || (max - min) / step + 1 != count || (max - min) % step != 0 || id < min || id > max || (id - min) % step != 0)
        return fail(e, ERR_USAGE, "Slurm array task %s: %s tasks from %s to %s in steps of %s have no places; expected --array=A-B, or --shard K/N",
                    t->id, t->count, t->min, t->max, t->step ? t->step : "1");
    *s = (struct shard){ (uint32_t)((id - min) / step) + 1, (uint32_t)count };
    return OK;
}

/* ---- who has what ---- */

uint32_t shard_of_name(const char *name, uint32_t n) { return (uint32_t)(XXH3_64bits(name, strlen(name)) % n) + 1; }

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Where the extension of the last component begins; its end when it has none. A dot at the start begins none. */
static const char *extension(const char *path)
{
    const char *last = last_component(path), *dot = strrchr(last, '.');
    return dot && dot > last ? dot : path + strlen(path);
}

char *shard_path(const char *path, struct shard s)
{
    const char *ext = extension(path);
    struct stat st;
    char *out;
    if (s.n <= 1 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return strdup(path);
    return asprintf(&out, "%.*s.%u-of-%u%s", (int)(ext - path), path, s.k, s.n, ext) < 0 ? NULL : out;
}

bool shard_is_sibling(const char *own, struct shard s, const char *other)
{
    char tag[40];
    uint32_t k, n;
    snprintf(tag, sizeof tag, ".%u-of-%u", s.k, s.n);
    own = last_component(own);
    other = last_component(other);
    const char *at = NULL; /* the tag of own: the last one */
    for (const char *p = own; (p = strstr(p, tag)); p++)
        at = p;
    if (s.n <= 1 || !at || strncmp(own, other, (size_t)(at - own)) != 0)
        return false;
    const char *ext = at + strlen(tag), *p = other + (at - own);
    if (*p++ != '.' || !read_number(&p, &k) || strncmp(p, "-of-", 4) != 0)
        return false;
    p += 4;
    if (!read_number(&p, &n) || strncmp(p, ext, strlen(ext)) != 0)
        return false;
    p += strlen(ext);
    return !*p || strcmp(p, ".part") == 0 || strcmp(p, ".new") == 0;
}
