/* race.c - races in memory outside of LDS. Within a launch groups are not ordered at all, and the waves of a group only by its barriers; so what one
 * of them writes and another one touches must have a barrier between, or be atomic. Loads that are coherent (glc) are how the last group reads what
 * the others stored before they counted themselves: they are not looked at. */
#include "tests/gfx11/isa.h"

#include <stdio.h>
#include <stdlib.h>

/* Of two bytes: who wrote and who read them last. Groups are counted from 1. Reads of the past that a barrier has put in order are forgotten. */
struct gfx11_touch {
    uint32_t w_group, r_group;
    uint16_t w_epoch, r_epoch;
    uint8_t w_wave, r_wave;
    bool w_atomic;
};
enum { MANY_WAVES = 255 };
static const uint32_t many_groups = UINT32_MAX;

bool race_open(struct gfx11_region *r)
{
    r->touch = r->read_only ? NULL : calloc(r->readable / 2 + 2, sizeof *r->touch);
    return r->read_only || r->touch;
}
void race_close(struct gfx11_region *r)
{
    free(r->touch);
    r->touch = NULL;
}

static const char *const verb[] = { [RACE_READ] = "read", [RACE_WRITE] = "written", [RACE_ATOMIC] = "changed" };

static void race(struct wave *w, uint64_t offset, enum race_touch how, const char *before, uint32_t group, uint32_t wave)
{
    char who[48];
    if (group == many_groups || wave == MANY_WAVES)
        snprintf(who, sizeof who, "several");
    else
        snprintf(who, sizeof who, "group %u, wave %u", group - 1, wave);
    fault(w, GFX11_RACE, "bytes %llu.. of a buffer: %s here, %s in %s, nothing orders the two", (unsigned long long)offset, verb[how], before, who);
}

static void touch(struct wave *w, struct gfx11_touch *t, uint64_t offset, enum race_touch how, bool same)
{
    uint32_t group = w->g->id + 1;
    uint16_t epoch = (uint16_t)w->g->epoch;
    uint8_t wave = (uint8_t)w->index;
    bool harmless = how == RACE_ATOMIC ? t->w_atomic : how == RACE_WRITE && same && !t->w_atomic;
    if (t->w_group && !harmless && (t->w_group != group || (t->w_epoch == epoch && t->w_wave != wave)))
        race(w, offset, how, verb[t->w_atomic ? RACE_ATOMIC : RACE_WRITE], t->w_group, t->w_wave);
    else if (how != RACE_READ && !same && t->r_group && (t->r_group != group || (t->r_epoch == epoch && t->r_wave != wave)))
        race(w, offset, how, verb[RACE_READ], t->r_group, t->r_wave);
    if (how != RACE_READ) {
        t->w_group = group, t->w_epoch = epoch, t->w_wave = wave, t->w_atomic = how == RACE_ATOMIC;
    } else {
        t->r_wave = t->r_group == group && t->r_epoch == epoch && t->r_wave != wave ? MANY_WAVES : wave;
        t->r_group = t->r_group && t->r_group != group ? many_groups : group;
        t->r_epoch = epoch;
    }
}

void race_check(struct wave *w, uint64_t address, uint32_t n, enum race_touch how, bool same)
{
    struct gfx11_region *r = w->g->run->last;
    if (!r->touch)
        return;
    uint64_t offset = address - (uintptr_t)r->p;
    for (uint64_t i = offset / 2; i <= (offset + n - 1) / 2; i++)
        touch(w, &r->touch[i], 2 * i, how, same);
}
