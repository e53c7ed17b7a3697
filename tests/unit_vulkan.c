/* unit_vulkan.c - the Vulkan backend on whatever device comes first (TEST_DEVICE=n takes another), with the validation layer: one message of it
 * fails the test. Memory is checked against a copy in the host's memory, lists against the C references. */
#include "gpu/vulkan/vk.h"
#include "tests/device.h"
#include "tests/vulkan_device.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Also the validation layer's last words, which come when everything is destroyed, are faults. */
static void close_device(gpu *g)
{
    char said[4096];
    FILE *f = tmpfile();
    int keep = dup(2);
    CHECK(gpu_wait(g, &err) == OK);
    dup2(fileno(f), 2);
    gpu_close(g);
    dup2(keep, 2);
    close(keep);
    rewind(f);
    size_t n = fread(said, 1, sizeof said, f);
    CHECK(n == 0);
    fwrite(said, 1, n, stderr);
    fclose(f);
}

/* ---- what is refused ---- */

static void refused_device(void)
{
    gpu *g = NULL;
    CHECK(gpu_open_vulkan(&g, &(struct gpu_params){ .device = 1000 }, &err) == ERR_DEVICE && says("no device 1000") && !g);
}

static void printed_devices(const char *name)
{
    char text[8192];
    FILE *f = tmpfile();
    int keep = dup(1);
    fflush(stdout);
    dup2(fileno(f), 1);
    gpu_print_devices();
    fflush(stdout);
    dup2(keep, 1);
    close(keep);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    CHECK(strncmp(text, "0: ", 3) == 0 && strstr(text, name) && strstr(text, "subgroups"));
    fclose(f);
}

static void refused_calls(gpu *g)
{
    struct gpu_cmd c;
    struct gpu_mem m;
    struct moe_group_args cpu_only = { 0 };
    uint32_t limit = ((struct vk *)(void *)g)->phys.core.limits.maxComputeWorkGroupCount[0];
    CHECK(gpu_alloc(g, &m, sizeof want, GPU_MEM_DEVICE, "work", &err) == OK && gpu_cmd_open(g, &c, 2, NULL, 0, &err) == OK);
    CHECK(!gpu_has(g, &model_kernels, K_moe_group));
    record_norm(&c, m.addr);
    gpu_record(&c, &model_kernels, K_moe_group, &cpu_only, sizeof cpu_only, 1);
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("moe_group"));
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("moe_group"));
    gpu_cmd_reset(&c);
    if (limit < UINT32_MAX) {
        struct hc_norm_args a = norm_args(m.addr);
        gpu_record(&c, &model_kernels, K_hc_norm, &a, sizeof a, limit + 1);
        CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("hc_norm") && says("groups"));
        gpu_cmd_reset(&c);
    }
    for (uint32_t i = 0; i < 3; i++)
        record_norm(&c, m.addr);
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("full"));
    gpu_cmd_close(&c);
    gpu_free(g, &m);
}

/* ---- the file of pipelines ---- */

static long find_file(const char *dir, char *path, size_t room)
{
    char line[256];
    struct stat st;
    snprintf(line, sizeof line, "ls %s/* 2>/dev/null", dir);
    FILE *f = popen(line, "r");
    bool found = fgets(path, (int)room, f) != NULL;
    pclose(f);
    path[strcspn(path, "\n")] = 0;
    return found && stat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void kept_pipelines(void)
{
    char dir[] = "/tmp/hayate-pipelines-XXXXXX", path[512], line[600];
    CHECK(mkdtemp(dir) != NULL);
    for (uint32_t round = 0; round < 4; round++) {
        gpu *g = open_device((struct gpu_params){ .cache_dir = dir });
        lists(g);
        close_device(g);
        long n = find_file(dir, path, sizeof path);
        CHECK(n > 24);
        if (round == 1)
            CHECK(truncate(path, n / 2) == 0);
        if (round == 2) {
            FILE *f = fopen(path, "r+b");
            fseek(f, n - 3, SEEK_SET);
            fputc(0x5a, f);
            fclose(f);
        }
    }
    snprintf(line, sizeof line, "rm -r %s", dir);
    CHECK(system(line) == 0);
}

/* ---- the watchdog ---- */

enum { LONG_LIST = 20000, LONG_WORDS = 1 << 20 };
/* Work that takes far longer than the watchdog waits: one group reads 4 MiB, many times over; memory so small is cleared in time
 * even on a busy machine. In a process of its own, which leaves without waiting
 * for the device. */
static void watchdog_child(void)
{
    gpu *g = open_device((struct gpu_params){ .watchdog_s = 1 });
    struct gpu_mem m;
    struct gpu_cmd c;
    uint32_t b = 0;
    CHECK(gpu_alloc(g, &m, 4 * (size_t)LONG_WORDS + 4, GPU_MEM_DEVICE, "work", &err) == OK && gpu_cmd_open(g, &c, LONG_LIST, NULL, 0, &err) == OK);
    struct bench_read_args a = { .data = m.addr, .sum = m.addr + 4 * (gpu_addr)LONG_WORDS, .n_word = LONG_WORDS };
    for (uint32_t i = 0; i < LONG_LIST; i++)
        gpu_record(&c, &gpu_kernels, K_bench_read, &a, sizeof a, 1);
    CHECK(gpu_submit(g, &c, &err) == ERR_DEVICE && says("1 s"));
    err.msg[0] = 0;
    CHECK(gpu_write(g, m.addr, &b, 1, &err) == ERR_DEVICE && says("1 s"));
    CHECK(gpu_alloc(g, &(struct gpu_mem){ 0 }, 1, GPU_MEM_SHARED, "more", &err) == ERR_DEVICE && says("1 s"));
    CHECK(gpu_start(g, &c, &err) == ERR_DEVICE && gpu_wait(g, &err) == ERR_DEVICE && says("1 s"));
    gpu_cmd_close(&c);
    gpu_free(g, &m);
    gpu_close(g);
    fflush(NULL);
    _exit(test_failed ? 1 : 0);
}

static void watchdog(void)
{
    int how = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        watchdog_child();
    CHECK(child > 0 && waitpid(child, &how, 0) == child && how == 0);
}

/* The same lists on the cpu: both backends keep the same promises. */
static void lists_on_cpu(void)
{
    gpu *g = NULL;
    CHECK(gpu_open_cpu(&g, &(struct gpu_params){ .n_threads = 2, .reference = true }, &err) == OK);
    lists(g);
    gpu_close(g);
}

int main(void)
{
    random_state = test_seed(1);
    lists_on_cpu();
    if (!device_found(__FILE__, &err)) {
        printf("%-28s no device: %s\n", __FILE__, err.msg);
        return TEST_END();
    }
    alarm(600);
    watchdog();
    gpu *g = open_device((struct gpu_params){ 0 });
    CHECK(gpu_backend_of(g) == GPU_VULKAN && gpu_info_of(g)->subgroup >= 8 && gpu_threads(g) == 1);
    printed_devices(gpu_info_of(g)->name);
    transfers(g, false);
    gpu *staged = open_device((struct gpu_params){ .staged = true });
    transfers(staged, true);
    close_device(staged);
    lists(g);
    shared_memory(g);
    refused_calls(g);
    close_device(g);
    g = open_device((struct gpu_params){ .alloc_limit = 1 << 20 });
    refused_memory(g);
    close_device(g);
    refused_device();
    kept_pipelines();
    return TEST_END();
}
