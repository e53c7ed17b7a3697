/* ranges.c - a sorted array, searched by halving. */
#include "gpu/ranges.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first range behind the address */
static size_t after(const struct ranges *r, gpu_addr addr)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r->at[mid].addr <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool ranges_reserve(struct ranges *r)
{
    if (r->n < r->cap)
        return true;
    size_t cap = r->cap ? 2 * r->cap : 64;
    struct range *p = realloc(r->at, cap * sizeof *p);
    if (!p)
        return false;
    r->at = p;
    r->cap = cap;
    return true;
}

void ranges_add(struct ranges *r, gpu_addr addr, size_t bytes, void *owner)
{
    size_t at = after(r, addr);
    memmove(r->at + at + 1, r->at + at, (r->n - at) * sizeof *r->at);
    r->at[at] = (struct range){ addr, bytes, owner };
    r->n++;
    r->bytes += bytes;
}

void ranges_remove(struct ranges *r, gpu_addr addr)
{
    size_t at = after(r, addr) - 1;
    r->bytes -= r->at[at].bytes;
    r->n--;
    memmove(r->at + at, r->at + at + 1, (r->n - at) * sizeof *r->at);
}

const struct range *ranges_find(const struct ranges *r, gpu_addr addr, size_t n)
{
    size_t i = after(r, addr);
    if (i == 0)
        return NULL;
    const struct range *p = &r->at[i - 1];
    size_t offset = addr - p->addr;
    return offset <= p->bytes && n <= p->bytes - offset ? p : NULL;
}

void ranges_free(struct ranges *r)
{
    free(r->at);
    *r = (struct ranges){ 0 };
}
