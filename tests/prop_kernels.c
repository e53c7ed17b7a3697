/* prop_kernels.c - every kernel of the tables, compiled for the host with a fiber per work-item, on the random cases of its row against the C reference:
 * sizes around each tile, NaN in the padding, guards around every buffer. A new row needs nothing here. And whether the fibers find what they are for. */
#include "gpu/gpu_backend.h"
#include "gpu/lang/host_run.h"
#include "model/row_check.h"
#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a backend whose kernels are the host builds ---- */

static const struct host_row *find(const char *id)
{
    for (uint32_t i = 0; i < n_host_rows; i++)
        if (strcmp(host_rows[i].id, id) == 0)
            return &host_rows[i];
    return NULL;
}
static void host_close(gpu *g) { (void)g; }
static bool host_has(const gpu *g, const struct gpu_kernel *row) { return (void)g, find(row->id) != NULL; }
static status host_alloc(gpu *g, struct gpu_mem *m, size_t bytes, enum gpu_mem_kind kind, const char *what, struct err *e)
{
    (void)g, (void)kind;
    void *p = pages_alloc(bytes);
    if (!p)
        return fail(e, ERR_NOMEM, "%s", what);
    *m = (struct gpu_mem){ .addr = ADDR(p), .host = p, .bytes = bytes };
    return OK;
}
static void host_free(gpu *g, struct gpu_mem *m) { (void)g, pages_free(m->host, m->bytes); }
static status host_write(gpu *g, gpu_addr to, const void *from, size_t n, struct err *e)
{
    (void)g, (void)e;
    memcpy(AT(void, to), from, n);
    return OK;
}
static status host_read(gpu *g, void *to, gpu_addr from, size_t n, struct err *e)
{
    (void)g, (void)e;
    memcpy(to, AT(const void, from), n);
    return OK;
}
static void host_forget(gpu *g, struct gpu_cmd *c) { (void)g, (void)c; }
static status host_start(gpu *g, struct gpu_cmd *c, struct err *e)
{
    (void)g;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct gpu_kernel *row = &c->call[i].table->row[c->call[i].id];
        const struct host_row *k = find(row->id);
        if (!k)
            return fail(e, ERR_DEVICE, "%s has no host build", row->id);
        k->run(c->call[i].args, (uint32_t)(size_up(c->call[i].n_items, row->grain) / row->grain));
    }
    return OK;
}
static status host_wait(gpu *g, struct err *e) { return (void)g, (void)e, OK; }
static const struct gpu_ops host_ops = { .close = host_close, .has = host_has, .alloc = host_alloc, .free = host_free, .write = host_write,
                                         .read = host_read, .forget = host_forget, .start = host_start, .wait = host_wait };
/* Not GPU_CPU, whose rows run their twins */
static gpu host = { &host_ops, { .backend = GPU_VULKAN, .name = "host", .last_group = true } };

/* ---- rows ---- */

enum { ROUNDS = 12 };

static void test_row(struct row_check *k, const struct row_module *m, uint32_t id, unsigned long seed)
{
    struct row_result r = { 0 };
    struct err e = { 0 };
    status s = row_check_run(k, m, id, ROUNDS, seed, &r, &e);
    CHECK(s == OK && row_passed(&r));
    if (s != OK || !row_passed(&r))
        fprintf(stderr, "%s: %s\n", m->table->row[id].id, s != OK ? e.msg : r.no_cases ? "no cases" : r.first);
}

/* ---- the fibers themselves ---- */

static uint32_t *shared, seen[2][64];
static struct host_kernel tiny = { .id = "tiny", .workgroup = 64, .subgroup = 32, .shared = { { (void **)&shared, 64 * sizeof(uint32_t) } }, .n_shared = 1 };

static void item_returns(const void *a)
{
    (void)a;
    if (host_lid != 40)
        host_meet(HOST_BARRIER, 7, 0, 0);
}
static void item_elsewhere(const void *a) { (void)a, host_meet(HOST_BARRIER, host_lid < 32 ? 7 : 9, 0, 0); }
static void item_misses_sum(const void *a)
{
    (void)a;
    if (host_lid != 5)
        host_meet(HOST_ADD_U32, 7, 1, 0);
    host_meet(HOST_BARRIER, 8, 0, 0);
}
static void item_far_lane(const void *a) { (void)a, host_meet(HOST_GET, 7, 1, 32); }
static void item_sums(const void *a)
{
    (void)a;
    uint32_t sum = host_meet(HOST_ADD_U32, 1, host_lid, 0), most = host_meet(HOST_MAX_U32, 2, host_lid, 0);
    uint32_t other = host_meet(HOST_XOR, 3, host_lid, 9), last = host_meet(HOST_GET, 4, host_lid, 31);
    uint32_t base = host_lid & 32;
    CHECK(sum == 496 + 32 * base && most == base + 31 && other == (host_lid ^ 9) && last == base + 31);
}
static void item_shares(const void *barrier)
{
    uint32_t next = (host_lid + 1) % 64;
    shared[host_lid] = host_lid;
    if (*(const bool *)barrier)
        host_meet(HOST_BARRIER, 2, 0, 0);
    seen[host_group][host_lid] = shared[next];
}

/* In a process of its own: the run must end with a message that has `want` in it */
static void must_die(void (*item)(const void *args), const char *want)
{
    char said[1024] = "";
    size_t n = 0;
    ssize_t got;
    int ends[2], code = 0;
    if (pipe(ends) != 0)
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        host_run(&tiny, item, NULL, 1);
        _exit(0);
    }
    close(ends[1]);
    while (n + 1 < sizeof said && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    waitpid(child, &code, 0);
    CHECK(WIFSIGNALED(code) && strstr(said, want));
    if (!strstr(said, want))
        fprintf(stderr, "said: %s\n", said);
}

static uint32_t n_unwritten(bool barrier)
{
    uint32_t n = 0;
    host_run(&tiny, item_shares, &barrier, 2);
    for (uint32_t i = 0; i < 128; i++)
        n += seen[i / 64][i % 64] == UINT32_MAX;
    return n;
}

static void test_fibers(void)
{
    must_die(item_returns, "item 40 has returned while item 32 waits at the barrier, line 7, for the whole subgroup");
    must_die(item_elsewhere, "item 0 waits at the barrier, line 7, and item 32 at the barrier, line 9; the whole group");
    must_die(item_misses_sum, "item 0 waits at sg_add, line 7, and item 5 at the barrier, line 8; the whole subgroup");
    must_die(item_far_lane, "a lane that is not there");
    host_run(&tiny, item_sums, NULL, 3);
    CHECK(n_unwritten(true) == 0);
    CHECK(n_unwritten(false) > 0);
}

int main(void)
{
    unsigned long seed = test_seed((unsigned long)getpid());
    struct row_check k;
    struct err e;
    test_fibers();
    CHECK(row_check_open(&k, &host, &e) == OK);
    for (int m = 0; m < ROW_MODULES; m++)
        for (uint32_t id = 0; id < row_modules[m].table->n; id++)
            if (find(row_modules[m].table->row[id].id))
                test_row(&k, &row_modules[m], id, seed);
    row_check_close(&k);
    return TEST_END();
}
