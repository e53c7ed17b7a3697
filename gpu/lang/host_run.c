/* host_run.c - the fibers of a group and where they meet. */
#include "gpu/lang/host_run.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__clang__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SWITCH_START(keep, stack, bytes) __sanitizer_start_switch_fiber(keep, stack, bytes)
#define SWITCH_END(kept, stack, bytes) __sanitizer_finish_switch_fiber(kept, stack, bytes)
#define CLEAN_STACK(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define SWITCH_START(keep, stack, bytes) ((void)(keep), (void)(stack), (void)(bytes))
#define SWITCH_END(kept, stack, bytes) ((void)(kept))
#define CLEAN_STACK(p, n) ((void)(p), (void)(n))
#endif

/* A context is a stack pointer; what the calling convention keeps lies on its stack. swapcontext does the same with two system calls, which is most of
 * the time of a kernel full of barriers. */
#if defined(__x86_64__)
typedef void *context;
void host_switch(context *from, context to);
__asm__(".text\n"
        ".type host_switch, @function\n"
        "host_switch:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "ret\n");
static context context_make(char *stack, size_t bytes, void (*entry)(void))
{
    void **top = (void **)(void *)(stack + bytes);
    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = (void *)entry; /* returned to with the stack as a call leaves it */
    return top - 8;
}
#else
#include <ucontext.h>
typedef ucontext_t context;
#define host_switch(from, to) swapcontext(from, &(to))
static context context_make(char *stack, size_t bytes, void (*entry)(void))
{
    ucontext_t c;
    getcontext(&c);
    c.uc_stack.ss_sp = stack;
    c.uc_stack.ss_size = bytes;
    makecontext(&c, entry, 0);
    return c;
}
#endif

enum { ITEMS_MAX = 1024, STACK_BYTES = 128 << 10 };

enum item_state { ITEM_READY, ITEM_MEETS, ITEM_GONE };
struct item {
    context at;
    void *fake_stack; /* the sanitizer's */
    enum item_state state;
    enum host_meeting what; /* where it waits */
    int line;
    uint32_t bits, operand; /* in; bits also out */
};

uint32_t host_group, host_lid;

static struct item items[ITEMS_MAX];
static char *stacks;
static context scheduler;
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_bytes;
static struct {
    const struct host_kernel *k;
    void (*item)(const void *args);
    const void *args;
} now;

static const char *const meeting_name[] = { "the barrier", "sg_add", "sg_add", "sg_max", "sg_max", "sg_xor", "sg_get", "sync_subgroup or a matrix" };

static void die(const char *text)
{
    fflush(stdout);
    fprintf(stderr, "%s, group %u: %s\n", now.k->id, host_group, text);
    abort();
}

void host_fault(int line, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "item %u, line %d: %s", host_lid, line, what);
    die(text);
    abort();
}

void host_add_shared(struct host_kernel *k, void **at, size_t bytes)
{
    if (k->n_shared == HOST_SHARED_MAX)
        abort();
    k->shared[k->n_shared++] = (struct host_shared){ at, bytes };
}

/* ---- fibers ---- */

static void leave(struct item *it)
{
    SWITCH_START(it->state == ITEM_GONE ? NULL : &it->fake_stack, scheduler_stack, scheduler_bytes);
    host_switch(&it->at, scheduler);
    SWITCH_END(it->fake_stack, &scheduler_stack, &scheduler_bytes);
}

static void item_main(void)
{
    struct item *it = &items[host_lid];
    SWITCH_END(NULL, &scheduler_stack, &scheduler_bytes);
    now.item(now.args);
    it->state = ITEM_GONE;
    leave(it);
}

static void enter(uint32_t lid)
{
    struct item *it = &items[lid];
    host_lid = lid;
    SWITCH_START(&scheduler_fake, stacks + (size_t)lid * STACK_BYTES, STACK_BYTES);
    host_switch(&scheduler, it->at);
    SWITCH_END(scheduler_fake, NULL, NULL);
}

uint32_t host_meet(enum host_meeting what, int line, uint32_t bits, uint32_t operand)
{
    struct item *it = &items[host_lid];
    it->state = ITEM_MEETS;
    it->what = what;
    it->line = line;
    it->bits = bits;
    it->operand = operand;
    leave(it);
    return it->bits;
}

static void items_begin(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct item *it = &items[i];
        CLEAN_STACK(stacks + (size_t)i * STACK_BYTES, STACK_BYTES);
        it->state = ITEM_READY;
        it->at = context_make(stacks + (size_t)i * STACK_BYTES, STACK_BYTES, item_main);
    }
}

/* ---- meetings ---- */

static float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static uint32_t as_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static uint32_t combine(enum host_meeting what, uint32_t a, uint32_t b)
{
    float x = as_float(a), y = as_float(b);
    switch (what) {
    case HOST_ADD_F32: return as_bits(x + y);
    case HOST_ADD_U32: return a + b;
    case HOST_MAX_F32: return as_bits(y > x || x != x ? y : x);
    default: return a > b ? a : b;
    }
}

/* Sums go as a butterfly, the order of the gfx1151 kernels */
static void resolve(struct item *it, uint32_t n)
{
    uint32_t in[ITEMS_MAX], out[ITEMS_MAX];
    enum host_meeting what = it->what;
    for (uint32_t i = 0; i < n; i++)
        in[i] = it[i].bits;
    for (uint32_t mask = 1; what < HOST_XOR && mask < n; mask *= 2) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = (i ^ mask) < n ? combine(what, in[i], in[i ^ mask]) : in[i];
        memcpy(in, out, n * sizeof *in);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = what == HOST_XOR ? i ^ it[i].operand : what == HOST_GET ? it[i].operand : i;
        if (from >= n)
            die("sg_xor or sg_get of a lane that is not there");
        it[i].bits = in[from];
        it[i].state = ITEM_READY;
    }
}

/* All n items must be in the same state, and at the same place. */
static void must_agree(const struct item *it, uint32_t n, const char *of)
{
    char text[320];
    for (uint32_t i = 1; i < n; i++) {
        const struct item *a = &it[0], *b = &it[i];
        if (a->state == b->state && (a->state == ITEM_GONE || (a->what == b->what && a->line == b->line)))
            continue;
        const struct item *waits = a->state == ITEM_MEETS ? a : b, *other = waits == a ? b : a;
        if (other->state == ITEM_GONE)
            snprintf(text, sizeof text, "item %td has returned while item %td waits at %s, line %d, for the whole %s", other - items, waits - items,
                     meeting_name[waits->what], waits->line, of);
        else
            snprintf(text, sizeof text, "item %td waits at %s, line %d, and item %td at %s, line %d; the whole %s has to meet at one", waits - items,
                     meeting_name[waits->what], waits->line, other - items, meeting_name[other->what], other->line, of);
        die(text);
    }
}

/* Runs the items first .. first + n - 1, a subgroup, to the next barrier or to their end. */
static void run_subgroup(uint32_t first, uint32_t n, bool descending)
{
    struct item *it = &items[first];
    for (;;) {
        for (uint32_t i = 0; i < n; i++)
            enter(first + (descending ? n - 1 - i : i));
        must_agree(it, n, "subgroup");
        if (it->state == ITEM_GONE || it->what == HOST_BARRIER)
            return;
        resolve(it, n);
    }
}

static void run_group(bool descending)
{
    uint32_t n = now.k->workgroup, size = now.k->subgroup, n_sub = (n + size - 1) / size;
    items_begin(n);
    do {
        for (uint32_t s = 0; s < n_sub; s++) {
            uint32_t first = (descending ? n_sub - 1 - s : s) * size;
            run_subgroup(first, n - first < size ? n - first : size, descending);
        }
        must_agree(items, n, "group");
    } while (items[0].state != ITEM_GONE);
}

void host_run(const struct host_kernel *k, void (*item)(const void *args), const void *args, uint32_t n_groups)
{
    static unsigned turn;
    if (!stacks)
        stacks = mmap(NULL, (size_t)ITEMS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED || k->workgroup > ITEMS_MAX)
        abort();
    now.k = k, now.item = item, now.args = args;
    for (uint32_t i = 0; i < k->n_shared; i++)
        if (!(*k->shared[i].at = malloc(k->shared[i].bytes)))
            abort();
    for (host_group = 0; host_group < n_groups; host_group++) {
        for (uint32_t i = 0; i < k->n_shared; i++)
            memset(*k->shared[i].at, 0xff, k->shared[i].bytes);
        run_group(turn++ % 2);
    }
    for (uint32_t i = 0; i < k->n_shared; i++)
        free(*k->shared[i].at);
}
