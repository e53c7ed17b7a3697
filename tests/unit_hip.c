/* unit_hip.c - the HIP backend on the runtime of fake_hip.c: memory and lists like every backend, and an error of each entry point at each of its calls:
 * the answer is one line with HIP's name of the error, and nothing that was made is left behind. */
#define _GNU_SOURCE
#include "gpu/hip/hip.h"
#include "tests/device.h"
#include "tests/fake_hip.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the fake ---- */

static struct {
    void (*fail)(const char *entry, unsigned nth, int code);
    unsigned (*calls)(const char *entry);
    unsigned (*live)(void);
    void (*hang)(int hangs);
} fake;

static void *fake_entry(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return p;
}

/* The library that the backend will load; the program starts once more to have its folder searched first. */
static void find_fake(char **argv)
{
    char path[4096], *end;
    snprintf(path, sizeof path, "%s", argv[0]);
    end = strrchr(path, '/');
    if (!getenv("FAKE_HIP")) {
        snprintf(end ? end : path, 32, "%s", end ? "/fake" : "fake");
        setenv("LD_LIBRARY_PATH", path, 1);
        setenv("FAKE_HIP", "1", 1);
        execv(argv[0], argv);
        exit(1);
    }
    void *lib = dlopen("libamdhip64.so.7", RTLD_NOW);
    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&fake.fail = fake_entry(lib, "fake_hip_fail");
    *(void **)&fake.calls = fake_entry(lib, "fake_hip_calls");
    *(void **)&fake.live = fake_entry(lib, "fake_hip_live");
    *(void **)&fake.hang = fake_entry(lib, "fake_hip_hang");
}

static gpu *open_device(struct gpu_params p)
{
    gpu *g = NULL;
    CHECK(gpu_open_hip(&g, &p, &err) == OK);
    if (!g) {
        fprintf(stderr, "%s\n", err.msg);
        exit(TEST_END());
    }
    return g;
}

static void close_device(gpu *g)
{
    gpu_close(g);
    CHECK(fake.live() == 0);
}

/* ---- what the backend does with lists ---- */

static void graphs(bool no_graph)
{
    gpu *g = open_device((struct gpu_params){ .no_graph = no_graph });
    struct gpu_mem m;
    struct gpu_cmd c;
    double seconds[2];
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err) == OK && gpu_cmd_open(g, &c, 2, NULL, 0, &err) == OK);
    upload(g, &m);
    record_norm(&c, m.addr);
    record_conv(&c, m.addr);
    fake.fail(NULL, 0, 0);
    for (unsigned i = 1; i <= 4; i++) {
        run_reference(&want);
        CHECK(gpu_submit(g, &c, &err) == OK);
        expect_close(g, m.addr);
        CHECK(fake.calls("hipGraphLaunch") == (no_graph ? 0 : i - 1) && fake.calls("hipGraphInstantiateWithFlags") == (!no_graph && i > 1));
        CHECK(fake.calls("hipModuleLaunchKernel") == (no_graph ? 2 * i : i > 1 ? 4 : 2)); /* once to run, once for the capture */
        CHECK(fake.calls("hipModuleLoadData") == 2);
    }
    run_reference(&want);
    CHECK(gpu_profile(g, &c, seconds, &err) == OK);
    expect_close(g, m.addr);
    CHECK(fake.calls("hipGraphLaunch") == (no_graph ? 0 : 3)); /* time is taken call by call */
    gpu_cmd_close(&c);
    gpu_free(g, &m);
    close_device(g);
}

/* ---- errors ---- */

/* Everything that a session does, to the first error; entry points of every kind are called. */
static status work(gpu **out)
{
    gpu *g = NULL;
    struct gpu_mem m = { 0 }, shared = { 0 };
    struct gpu_cmd c = { 0 };
    double seconds[2];
    status s;
    err.msg[0] = 0;
    TRY(gpu_open_hip(&g, &(struct gpu_params){ 0 }, &err));
    *out = g;
    TRY_OR(out, s, gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err));
    TRY_OR(out, s, gpu_alloc(g, &shared, 64, GPU_MEM_SHARED, "step", &err));
    place(&want, m.addr);
    TRY_OR(out, s, gpu_write(g, m.addr, &want, sizeof want, &err));
    TRY_OR(out, s, gpu_write(g, shared.addr, &want, 64, &err));
    TRY_OR(out, s, gpu_cmd_open(g, &c, 2, NULL, 0, &err));
    record_norm(&c, m.addr);
    record_conv(&c, m.addr);
    for (uint32_t i = 0; i < 3; i++)
        TRY_OR(out, s, gpu_start(g, &c, &err));
    TRY_OR(out, s, gpu_wait(g, &err));
    TRY_OR(out, s, gpu_profile(g, &c, seconds, &err));
    TRY_OR(out, s, gpu_copy(g, m.addr, m.addr + 256, 256, &err));
    TRY_OR(out, s, gpu_clear(g, m.addr, 256, &err));
    TRY_OR(out, s, gpu_read(g, &got, m.addr, sizeof got, &err));
    s = gpu_read(g, &got, shared.addr, 64, &err);
out:
    gpu_cmd_close(&c);
    gpu_free(g, &m);
    gpu_free(g, &shared);
    return s;
}

/* Entry points by what becomes of their error: the work ends with it, or it is of no consequence. */
enum fate { ENDS, PASSES };
static const struct {
    const char *entry;
    enum fate fate;
} entries[] = {
    { "hipInit", ENDS }, { "hipDriverGetVersion", PASSES }, { "hipGetDeviceCount", ENDS }, { "hipDeviceGet", ENDS }, { "hipDeviceGetName", ENDS },
    { "hipDeviceGetPCIBusId", PASSES }, { "hipDeviceTotalMem", ENDS }, { "hipGetDeviceProperties", ENDS }, { "hipSetDevice", ENDS },
    { "hipStreamCreateWithFlags", ENDS }, { "hipMalloc", ENDS }, { "hipHostMalloc", ENDS }, { "hipHostGetDevicePointer", ENDS },
    { "hipMemcpyHtoDAsync", ENDS }, { "hipMemcpyDtoHAsync", ENDS }, { "hipMemcpyDtoDAsync", ENDS }, { "hipMemsetD8Async", ENDS },
    { "hipEventCreateWithFlags", ENDS }, { "hipEventRecord", ENDS }, { "hipEventQuery", ENDS }, { "hipEventElapsedTime", ENDS },
    { "hipStreamQuery", ENDS }, { "hipModuleLoadData", ENDS }, { "hipModuleGetFunction", ENDS }, { "hipModuleLaunchKernel", ENDS },
    { "hipStreamBeginCapture", ENDS }, { "hipStreamEndCapture", ENDS }, { "hipGraphInstantiateWithFlags", ENDS }, { "hipGraphLaunch", ENDS },
};

static void planted_errors(void)
{
    enum { LAUNCH_FAILURE = 719 };
    unsigned calls[COUNT_OF(entries)];
    gpu *g = NULL;
    fake.fail(NULL, 0, 0);
    CHECK(work(&g) == OK);
    close_device(g);
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        calls[i] = fake.calls(entries[i].entry);
        CHECK(calls[i] > 0);
        if (calls[i] == 0)
            fprintf(stderr, "%s is never called\n", entries[i].entry);
    }
    for (size_t i = 0; i < COUNT_OF(entries); i++)
        for (unsigned nth = 1; nth <= calls[i]; nth += nth == 1 ? test_size(MAX(1u, calls[i] - 1), 1, 1) : 1) { /* with sanitizers the first and the last */
            fake.fail(entries[i].entry, nth, LAUNCH_FAILURE);
            g = NULL;
            status s = work(&g);
            gpu_close(g);
            bool fine = entries[i].fate == PASSES ? s == OK
                                                  : s == ERR_DEVICE && says("hipErrorLaunchFailure") && says("hip: ") && !strchr(err.msg, '\n');
            CHECK(fine && fake.live() == 0);
            if (!fine || fake.live())
                fprintf(stderr, "%s, call %u of %u: status %d, %u things left, \"%s\"\n", entries[i].entry, nth, calls[i], (int)s, fake.live(), err.msg);
        }
    fake.fail(NULL, 0, 0);
}

/* After an error nothing is given to the device any more, and every call says the same. */
static void dead_device(void)
{
    gpu *g = open_device((struct gpu_params){ 0 });
    struct gpu_mem m;
    struct gpu_cmd c;
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err) == OK && gpu_cmd_open(g, &c, 1, NULL, 0, &err) == OK);
    record_norm(&c, m.addr);
    fake.fail("hipModuleLaunchKernel", 1, 719);
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("hip: Fake Radeon 0: hc_norm failed: hipErrorLaunchFailure"));
    err.msg[0] = 0;
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("hc_norm failed") && fake.calls("hipModuleLaunchKernel") == 1);
    CHECK(gpu_read(g, &got, m.addr, 4, &err) == ERR_DEVICE && gpu_write(g, m.addr, &got, 4, &err) == ERR_DEVICE);
    CHECK(gpu_alloc(g, &(struct gpu_mem){ 0 }, 1, GPU_MEM_SHARED, "more", &err) == ERR_DEVICE && gpu_wait(g, &err) == ERR_DEVICE);
    gpu_cmd_close(&c);
    gpu_free(g, &m);
    close_device(g);
    fake.fail(NULL, 0, 0);
}

/* In a process of its own: what may still be in use is left to its end. */
static void hanging_child(void)
{
    gpu *g = open_device((struct gpu_params){ .watchdog_s = 1 });
    struct gpu_mem m;
    struct gpu_cmd c;
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err) == OK && gpu_cmd_open(g, &c, 1, NULL, 0, &err) == OK);
    record_norm(&c, m.addr);
    fake.hang(1);
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("no end of the work within 1 s (hipErrorNotReady)"));
    fake.fail(NULL, 0, 0);
    CHECK(gpu_read(g, &got, m.addr, 4, &err) == ERR_DEVICE && says("1 s"));
    gpu_cmd_close(&c);
    gpu_free(g, &m);
    gpu_close(g);
    CHECK(fake.calls("hipFree") == 0 && fake.calls("hipStreamDestroy") == 0 && fake.calls("hipStreamQuery") == 0);
    fflush(NULL);
    _exit(test_failed ? 1 : 0);
}
static void hanging_device(void)
{
    int how = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        hanging_child();
    CHECK(child > 0 && waitpid(child, &how, 0) == child && how == 0);
}

static status try_open(const char *name, const char *value, uint32_t index)
{
    gpu *g = NULL;
    setenv(name, value, 1);
    status s = gpu_open_hip(&g, &(struct gpu_params){ .device = index }, &err);
    unsetenv(name);
    gpu_close(g);
    CHECK(fake.live() == 0);
    return s;
}

static void refused_devices(void)
{
    CHECK(try_open("FAKE_HIP_DEVICES", "2", 2) == ERR_DEVICE && says("hip: there is no device 2, the last one is 1"));
    CHECK(try_open("FAKE_HIP_DEVICES", "2", 1) == OK);
    CHECK(try_open("FAKE_HIP_DEVICES", "0", 0) == ERR_DEVICE && says("finds no device: hipErrorNoDevice"));
    CHECK(try_open("FAKE_HIP_ARCH", "gfx1100", 0) == ERR_DEVICE && says("architecture is gfx1100, this program has code for gfx1151"));
    CHECK(try_open("FAKE_HIP_ARCH", "gfx11510", 0) == ERR_DEVICE && says("gfx11510"));
    CHECK(try_open("FAKE_HIP_ARCH", "", 0) == ERR_DEVICE && says("of unknown name"));
    CHECK(try_open("FAKE_HIP_ARCH", "gfx1151", 0) == OK && try_open("FAKE_HIP_ARCH", "gfx1151:sramecc-:xnack-", 0) == OK);
}

/* ---- memory that host and device share ---- */

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    if (f)
        fputs(text, f), fclose(f);
}

static void system_memory(void)
{
    char root[] = "/tmp/hayate-sys-XXXXXX", dir[256], line[300];
    CHECK(mkdtemp(root) != NULL);
    snprintf(dir, sizeof dir, "%s/0000:c5:00.0", root);
    CHECK(mkdir(dir, 0755) == 0);
    struct hip_shared_memory m = hip_shared_memory(root, "0000:C5:00.0");
    CHECK(m.carved == 0 && m.host == 0);
    put_file(dir, "mem_info_vram_total", "536870912\n");
    put_file(dir, "mem_info_gtt_total", "66571993088\n");
    m = hip_shared_memory(root, "0000:C5:00.0");
    CHECK(m.carved == 536870912 && m.host == 66571993088);
    m = hip_shared_memory(root, "../0000:c5:00.0");
    CHECK(m.carved == 0);
    put_file(dir, "mem_info_gtt_total", "much\n");
    m = hip_shared_memory(root, "0000:c5:00.0");
    CHECK(m.carved == 536870912 && m.host == 0);
    snprintf(line, sizeof line, "rm -r %s", root);
    CHECK(system(line) == 0);

    struct hip_phys p = { .bytes = 512 << 20, .integrated = true, .sys = { 512 << 20, UINT64_C(62) << 30 } };
    CHECK(hip_usable_bytes(&p) == (UINT64_C(62) << 30) + (512 << 20)); /* the runtime has only what was set aside */
    p.bytes = UINT64_C(60) << 30;
    CHECK(hip_usable_bytes(&p) == p.bytes); /* it counts the host's part itself */
    p = (struct hip_phys){ .bytes = UINT64_C(96) << 30, .sys = { UINT64_C(96) << 30, UINT64_C(16) << 30 } };
    CHECK(hip_usable_bytes(&p) == p.bytes); /* a card of its own */
}

/* 16 MiB were set aside, the rest is the host's. */
static void memory_of_the_host(void)
{
    struct gpu_mem m[3] = { 0 };
    uint64_t asked, driver;
    setenv("FAKE_HIP_MEMORY", "16", 1);
    gpu *g = open_device((struct gpu_params){ 0 });
    CHECK(gpu_info_of(g)->device_bytes == 16 << 20 && gpu_info_of(g)->alloc_limit == 16 << 20);
    CHECK(gpu_alloc(g, &m[0], 12 << 20, GPU_MEM_DEVICE, "first", &err) == OK);
    gpu_memory_used(g, &asked, &driver);
    CHECK(asked == 12 << 20 && driver == 12 << 20);
    CHECK(gpu_alloc(g, &m[1], 12 << 20, GPU_MEM_DEVICE, "second", &err) == ERR_NOMEM && says("second: 12 MiB") && says("12 MiB of them are taken"));
    struct hip *h = hip_of(g);
    h->phys.sys = (struct hip_shared_memory){ 16 << 20, 64 << 20 };
    fake.fail(NULL, 0, 0);
    CHECK(gpu_alloc(g, &m[1], 12 << 20, GPU_MEM_DEVICE, "second", &err) == OK && !m[1].host && fake.calls("hipHostMalloc") == 1);
    uint32_t x = 0x12345678, y = 1;
    CHECK(gpu_read(g, &y, m[1].addr + 1000, 4, &err) == OK && y == 0);
    CHECK(gpu_write(g, m[1].addr + 1000, &x, 4, &err) == OK && gpu_copy(g, m[0].addr, m[1].addr + 1000, 4, &err) == OK);
    CHECK(gpu_read(g, &y, m[0].addr, 4, &err) == OK && y == x);
    gpu_free(g, &m[0]);
    gpu_free(g, &m[1]);
    close_device(g);
    unsetenv("FAKE_HIP_MEMORY");
}

/* A device is set per thread. The backend takes calls of any thread, one at a time, and sets it where the last call came from another one. */
struct elsewhere {
    gpu *g;
    struct gpu_mem m;
    uint32_t word;
    status s;
};
static void *call_elsewhere(void *ctx)
{
    struct elsewhere *w = ctx;
    w->s = gpu_write(w->g, w->m.addr, &w->word, 4, &err);
    return NULL;
}
static void other_threads(void)
{
    struct elsewhere w = { .word = 7 };
    pthread_t t;
    w.g = open_device((struct gpu_params){ 0 });
    fake.fail(NULL, 0, 0);
    CHECK(gpu_alloc(w.g, &w.m, 4, GPU_MEM_DEVICE, "word", &err) == OK && fake.calls("hipSetDevice") == 0);
    for (uint32_t i = 1; i <= 2; i++) {
        uint32_t found = 0;
        w.word += i;
        CHECK(pthread_create(&t, NULL, call_elsewhere, &w) == 0 && pthread_join(t, NULL) == 0 && w.s == OK);
        CHECK(gpu_read(w.g, &found, w.m.addr, 4, &err) == OK && found == w.word);
        CHECK(fake.calls("hipSetDevice") == 2 * i); /* there, and here again */
    }
    fake.fail("hipSetDevice", 1, 101);
    CHECK(pthread_create(&t, NULL, call_elsewhere, &w) == 0 && pthread_join(t, NULL) == 0);
    CHECK(w.s == ERR_DEVICE && says("use by another thread failed: hipErrorInvalidDevice"));
    uint32_t found = 0;
    CHECK(gpu_read(w.g, &found, w.m.addr, 4, &err) == OK && found == w.word); /* the device itself is well */
    gpu_free(w.g, &w.m);
    close_device(w.g);
}

int main(int argc, char **argv)
{
    (void)argc;
    find_fake(argv);
    random_state = test_seed(1);
    alarm(600);
    hanging_device();
    gpu *g = open_device((struct gpu_params){ 0 });
    CHECK(gpu_backend_of(g) == GPU_HIP && gpu_info_of(g)->subgroup == 32 && gpu_info_of(g)->integrated && gpu_threads(g) == 1);
    CHECK(strcmp(gpu_info_of(g)->name, "Fake Radeon 0 (gfx1151:xnack-)") == 0 && strcmp(gpu_info_of(g)->driver, "HIP 6.4.43484") == 0);
    transfers(g, false);
    lists(g);
    shared_memory(g);
    close_device(g);
    g = open_device((struct gpu_params){ .alloc_limit = 1 << 20 });
    refused_memory(g);
    close_device(g);
    graphs(false);
    graphs(true);
    planted_errors();
    dead_device();
    refused_devices();
    system_memory();
    memory_of_the_host();
    other_threads();
    return TEST_END();
}
