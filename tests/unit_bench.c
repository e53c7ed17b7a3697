/* unit_bench.c - the statistics of bench against numbers worked out by hand, and the machine's readings against a sysfs of our own. */
#include "model/bench.h"
#include "tests/test.h"
#include "tests/testdir.h"

#include <math.h>

static bool near(double x, double want) { return fabs(x - want) <= 1e-12 * fabs(want) + 1e-300; }

static void check_statistics(void)
{
    const double x[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
    double mean, dev;
    mean_dev(x, 8, &mean, &dev);
    CHECK(near(mean, 5) && near(dev, sqrt(32.0 / 7))); /* of a sample: divisor n - 1 */
    mean_dev(x, 1, &mean, &dev);
    CHECK(near(mean, 2) && dev == 0);
    /* always twice as fast: so is every draw */
    const double a[] = { 10, 12, 8, 10, 11, 9 }, b[] = { 20, 24, 16, 20, 22, 18 };
    struct ratio r = abba_ratio(a, b, 3);
    CHECK(near(r.mid, 2) && near(r.low, 2) && near(r.high, 2));
    /* one round of three is much faster: the draws say how little that means */
    const double c[] = { 10, 12, 8, 10, 33, 27 };
    r = abba_ratio(a, c, 3);
    CHECK(near(r.mid, 100.0 / 60) && near(r.low, 1) && near(r.high, 3));
    struct ratio again = abba_ratio(a, c, 3);
    CHECK(memcmp(&r, &again, sizeof r) == 0);
    r = abba_ratio(a, c, 1);
    CHECK(near(r.mid, 1) && near(r.low, 1) && near(r.high, 1));
    CHECK(repeats(100, 3, 109, 4).within && near(repeats(100, 3, 109, 4).spread, 0.1) && near(repeats(100, 3, 109, 4).change, 0.09));
    CHECK(!repeats(100, 3, 111, 4).within && !repeats(100, 3, 89, 4).within);
    CHECK(repeats(100, 0, 100, 0).within && !repeats(100, 0, 100.1, 0).within);
}

static void check_labels(void)
{
    char s[64];
    test_label(&(struct bench_test){ .n_prompt = 512 }, s);
    CHECK(strcmp(s, "pp512") == 0);
    test_label(&(struct bench_test){ .n_gen = 128, .n_depth = 4096 }, s);
    CHECK(strcmp(s, "tg128 @ d4096") == 0);
}

/* dir/path with this text, folders included */
static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", dir, path);
    for (char *p = whole + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(whole, 0777);
        *p = '/';
    }
    FILE *f = fopen(whole, "w");
    CHECK(f && fputs(text, f) >= 0);
    if (f)
        fclose(f);
}

static void check_nothing_readable(void)
{
    double v[N_SENSOR];
    char name[96];
    sensors_read(dir, v);
    for (int i = 0; i < N_SENSOR; i++)
        CHECK(isnan(v[i]));
    cpu_name(dir, name, sizeof name);
    CHECK(strcmp(name, "unknown") == 0);
    json_t *j = machine_json(dir);
    static const char *const key[] = { "memory_bytes", "governor", "power_profile", "gpu_power_level", "gpu_vram_bytes", "gpu_gtt_bytes", "load_average" };
    for (size_t i = 0; i < COUNT_OF(key); i++) {
        const char *s = json_string_value(json_object_get(j, key[i]));
        CHECK(s && strcmp(s, "not readable") == 0);
    }
    json_decref(j);
    struct readings r = { .n = 0 };
    for (int i = 0; i < N_SENSOR; i++)
        r.before[i] = r.after[i] = NAN;
    j = readings_json(&r);
    const char *s = json_string_value(json_object_get(j, "package_joule"));
    CHECK(s && strcmp(s, "not readable") == 0);
    s = json_string_value(json_object_get(json_object_get(j, "during"), "gpu_watt"));
    CHECK(s && strcmp(s, "not readable") == 0);
    json_decref(j);
}

static void check_readable(void)
{
    double v[N_SENSOR];
    char name[96];
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD RYZEN AI MAX+ 395\n");
    put("proc/meminfo", "MemTotal:       131072 kB\n");
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
    put("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "5000000\n");
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    put("sys/firmware/acpi/platform_profile", "balanced\n");
    put("sys/class/hwmon/hwmon2/name", "nvme\n");
    put("sys/class/hwmon/hwmon2/temp1_input", "30000\n");
    put("sys/class/hwmon/hwmon3/name", "k10temp\n");
    put("sys/class/hwmon/hwmon3/temp1_input", "61500\n");
    put("sys/class/drm/card0/device/mem_info_vram_total", "536870912\n");
    put("sys/class/drm/card0/device/mem_info_gtt_total", "115964116992\n");
    put("sys/class/drm/card0/device/pp_dpm_sclk", "0: 600Mhz \n1: 2900Mhz *\n");
    put("sys/class/drm/card0/device/pp_dpm_mclk", "0: 400Mhz \n1: 1000Mhz *\n");
    put("sys/class/drm/card0/device/hwmon/hwmon4/temp1_input", "55000\n");
    put("sys/class/drm/card0/device/hwmon/hwmon4/power1_average", "85250000\n");
    put("sys/class/powercap/intel-rapl:0/energy_uj", "12500000\n");
    sensors_read(dir, v);
    CHECK(near(v[S_CPU_MHZ], 4000) && near(v[S_CPU_C], 61.5) && near(v[S_GPU_MHZ], 2900) && near(v[S_GPU_MEM_MHZ], 1000));
    CHECK(near(v[S_GPU_C], 55) && near(v[S_GPU_W], 85.25) && near(v[S_PACKAGE_J], 12.5));
    put("sys/class/drm/card0/device/hwmon/hwmon4/freq1_input", "2850000000\n"); /* what it runs at, where that is told */
    sensors_read(dir, v);
    CHECK(near(v[S_GPU_MHZ], 2850));
    cpu_name(dir, name, sizeof name);
    CHECK(strcmp(name, "AMD RYZEN AI MAX+ 395") == 0);
    json_t *j = machine_json(dir);
    CHECK(json_integer_value(json_object_get(j, "memory_bytes")) == 131072 * 1024);
    CHECK(json_integer_value(json_object_get(j, "gpu_gtt_bytes")) == 115964116992);
    CHECK(json_string_value(json_object_get(j, "governor")) && strcmp(json_string_value(json_object_get(j, "governor")), "performance") == 0);
    json_decref(j);
    put("sys/class/drm/card0/device/mem_info_gtt_total", "what\n"); /* nonsense is not readable */
    j = machine_json(dir);
    CHECK(json_is_string(json_object_get(j, "gpu_gtt_bytes")));
    json_decref(j);
}

/* A record is foreign bytes */
/* A backend has one name on the command line and one in a record, and each leads back to it */
static void check_backends(void)
{
    static const struct {
        const char *name, *label;
        enum backend is;
    } known[] = { { "cpu", "CPU", BACKEND_CPU }, { "vulkan", "Vulkan", BACKEND_VULKAN }, { "hip", "ROCm", BACKEND_HIP } };
    enum backend b;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        b = BACKEND_AUTO;
        CHECK(backend_named(known[i].name, &b) && b == known[i].is);
        b = BACKEND_AUTO;
        CHECK(backend_labelled(known[i].label, &b) && b == known[i].is);
        CHECK(strcmp(backend_label(known[i].name), known[i].label) == 0);
    }
    b = BACKEND_HIP;
    CHECK(backend_named("auto", &b) && b == BACKEND_AUTO);
    CHECK(!backend_named("model.gguf", &b) && !backend_named("", &b) && !backend_labelled("", &b) && !backend_labelled("hip", &b) && b == BACKEND_AUTO);
}

static void check_records(void)
{
    struct err e;
    struct bench_test *tests = NULL;
    struct options o = { .backend = BACKEND_AUTO };
    size_t n;
    json_t *records = NULL;
    static const char good[] = "{\"n_prompt\":16,\"n_gen\":0,\"n_depth\":8,\"n_ubatch\":64,\"n_threads\":2,\"type_k\":\"f16\",\"samples_ts\":[1,2,3],\"avg_ts\":2,"
                               "\"stddev_ts\":1,\"backends\":\"CPU\",\"record\":{\"model\":{\"identity_xxh3\":\"00\"}}}";
    static const struct {
        const char *from, *to;
    } spoil[] = { { "16", "-1" }, { "16", "99999999999" }, { "16", "0" }, { "\"n_ubatch\":64", "\"n_ubatch\":0" }, { "f16", "q4" }, { "[1,2,3]", "[]" },
                  { "\"avg_ts\":2", "\"avg_ts\":0" }, { "\"n_threads\":2", "\"n_threads\":\"2\"" }, { "\"00\"", "7" }, { "}}}", "}}" }, { "{\"n_prompt\"", "x" } };
    put("record.jsonl", good);
    CHECK(check_read(in_dir("record.jsonl"), &o, &tests, &n, &records, &e) == OK && n == 1);
    CHECK(tests && tests->n_prompt == 16 && tests->n_depth == 8 && tests->form.n_ubatch == 64 && tests->n_threads == 2 && tests->reps == 3 && tests->form.kv == KV_F16);
    CHECK(o.backend == BACKEND_CPU && !o.model_path);
    free(tests);
    json_decref(records);
    for (size_t i = 0; i < COUNT_OF(spoil); i++) {
        char text[1024];
        const char *at = strstr(good, spoil[i].from);
        CHECK(at != NULL);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, spoil[i].to, at + strlen(spoil[i].from));
        put("record.jsonl", text);
        tests = NULL;
        CHECK(check_read(in_dir("record.jsonl"), &o, &tests, &n, &records, &e) == ERR_FORMAT);
        free(tests);
        json_decref(records);
    }
    put("record.jsonl", "");
    CHECK(check_read(in_dir("record.jsonl"), &o, &tests, &n, &records, &e) == ERR_FORMAT);
    CHECK(check_read(in_dir("absent"), &o, &tests, &n, &records, &e) == ERR_IO);
}

int main(void)
{
    if (!make_dir("unit_bench"))
        return 1;
    check_statistics();
    check_labels();
    check_nothing_readable();
    check_readable();
    check_backends();
    check_records();
    remove_dir();
    return TEST_END();
}
