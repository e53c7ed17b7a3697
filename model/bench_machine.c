/* bench_machine.c - what sysfs and procfs say about the machine: names, sizes, clocks, temperatures, energy. Nothing is guessed: what cannot be read is
 * "not readable". */
#include "model/bench.h"

#include <ctype.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utf8proc.h>
#include <xxhash.h>

const char *const sensor_name[N_SENSOR] = { "cpu_mhz", "cpu_celsius", "gpu_mhz", "gpu_memory_mhz", "gpu_celsius", "gpu_watt", "package_joule" };

/* ---- reading ---- */

/* First line of the first file that matches root/pattern and is not empty */
static bool read_line(const char *root, const char *pattern, char *line, size_t n)
{
    char path[512];
    glob_t g = { 0 };
    bool ok = false;
    snprintf(path, sizeof path, "%s/%s", root, pattern);
    if (glob(path, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc && !ok; i++) {
            FILE *f = fopen(g.gl_pathv[i], "re");
            ok = f && fgets(line, (int)n, f) && *line != '\n';
            if (f)
                fclose(f);
        }
    globfree(&g);
    if (ok)
        line[strcspn(line, "\n")] = 0;
    return ok;
}

/* Mean of the numbers in all files that match, times scale; NAN: none */
static double read_mean(const char *root, const char *pattern, double scale)
{
    char path[512];
    glob_t g = { 0 };
    double sum = 0, x;
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", root, pattern);
    if (glob(path, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) {
            FILE *f = fopen(g.gl_pathv[i], "re");
            if (f && fscanf(f, "%lf", &x) == 1) {
                sum += x;
                n++;
            }
            if (f)
                fclose(f);
        }
    globfree(&g);
    return n ? scale * sum / n : NAN;
}

/* The line with a star of a pp_dpm_* file: "2: 2900Mhz *" */
static double read_level(const char *root, const char *pattern)
{
    char path[512], line[128];
    glob_t g = { 0 };
    double mhz = NAN;
    snprintf(path, sizeof path, "%s/%s", root, pattern);
    if (glob(path, 0, NULL, &g) == 0 && g.gl_pathc) {
        FILE *f = fopen(g.gl_pathv[0], "re");
        while (f && fgets(line, sizeof line, f))
            if (strchr(line, '*'))
                sscanf(line, "%*d: %lf", &mhz);
        if (f)
            fclose(f);
    }
    globfree(&g);
    return mhz;
}

/* The temperature of the processor's own sensor */
static double read_cpu_celsius(const char *root)
{
    static const char *const driver[] = { "k10temp", "zenpower", "coretemp" };
    char pattern[128], name[64];
    for (int i = 0; i < 32; i++) {
        snprintf(pattern, sizeof pattern, "sys/class/hwmon/hwmon%d/name", i);
        if (!read_line(root, pattern, name, sizeof name))
            continue;
        for (size_t d = 0; d < COUNT_OF(driver); d++)
            if (strcmp(name, driver[d]) == 0) {
                snprintf(pattern, sizeof pattern, "sys/class/hwmon/hwmon%d/temp1_input", i);
                return read_mean(root, pattern, 1e-3);
            }
    }
    return NAN;
}

#define GPU "sys/class/drm/card[0-9]/device/"
void sensors_read(const char *root, double value[N_SENSOR])
{
    value[S_CPU_MHZ] = read_mean(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", 1e-3);
    value[S_CPU_C] = read_cpu_celsius(root);
    value[S_GPU_MHZ] = read_mean(root, GPU "hwmon/hwmon*/freq1_input", 1e-6);
    if (isnan(value[S_GPU_MHZ]))
        value[S_GPU_MHZ] = read_level(root, GPU "pp_dpm_sclk");
    value[S_GPU_MEM_MHZ] = read_level(root, GPU "pp_dpm_mclk");
    value[S_GPU_C] = read_mean(root, GPU "hwmon/hwmon*/temp1_input", 1e-3);
    value[S_GPU_W] = read_mean(root, GPU "hwmon/hwmon*/power1_average", 1e-6);
    if (isnan(value[S_GPU_W]))
        value[S_GPU_W] = read_mean(root, GPU "hwmon/hwmon*/power1_input", 1e-6);
    value[S_PACKAGE_J] = read_mean(root, "sys/class/powercap/intel-rapl:0/energy_uj", 1e-6);
}

void cpu_name(const char *root, char *out, size_t n)
{
    char path[512], line[256];
    snprintf(out, n, "unknown");
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon && colon[1]) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(out, n, "%s", colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

/* ---- as JSON ---- */

static json_t *number(double x) { return isnan(x) ? json_string("not readable") : json_real(x); }

static void put_line(json_t *j, const char *key, const char *root, const char *pattern)
{
    char line[256];
    bool ok = read_line(root, pattern, line, sizeof line);
    json_t *s = ok ? json_string(line) : NULL;
    json_object_set_new(j, key, s ? s : json_string("not readable"));
}

static void put_bytes(json_t *j, const char *key, const char *root, const char *pattern, double scale)
{
    double x = read_mean(root, pattern, scale);
    json_object_set_new(j, key, isnan(x) ? json_string("not readable") : json_integer((json_int_t)x));
}

static json_t *memory_bytes(const char *root)
{
    char line[128];
    unsigned long long kb;
    return read_line(root, "proc/meminfo", line, sizeof line) && sscanf(line, "MemTotal: %llu kB", &kb) == 1 ? json_integer((json_int_t)(kb * 1024))
                                                                                                              : json_string("not readable");
}

static json_t *libraries_json(void)
{
    char xxhash[32];
    snprintf(xxhash, sizeof xxhash, "%u", XXH_versionNumber());
    return json_pack("{s:s,s:s,s:s,s:s}", "libc", gnu_get_libc_version(), "jansson", JANSSON_VERSION, "utf8proc", utf8proc_version(), "xxhash", xxhash);
}

json_t *machine_json(const char *root)
{
    char cpu[96];
    struct utsname u;
    json_t *j = json_object();
    cpu_name(root, cpu, sizeof cpu);
    json_object_set_new(j, "cpu", json_string(cpu));
    json_object_set_new(j, "cores_online", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(j, "kernel", uname(&u) == 0 ? json_sprintf("%s %s %s", u.sysname, u.release, u.machine) : json_string("not readable"));
    json_object_set_new(j, "memory_bytes", memory_bytes(root));
    put_line(j, "governor", root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    put_line(j, "power_profile", root, "sys/firmware/acpi/platform_profile");
    put_line(j, "gpu_power_level", root, GPU "power_dpm_force_performance_level");
    put_bytes(j, "gpu_vram_bytes", root, GPU "mem_info_vram_total", 1); /* of an integrated GPU: the carve-out */
    put_bytes(j, "gpu_gtt_bytes", root, GPU "mem_info_gtt_total", 1);
    put_line(j, "load_average", root, "proc/loadavg");
    json_object_set_new(j, "libraries", libraries_json());
    return j;
}

/* ---- readings around a test ---- */

void readings_begin(struct readings *r)
{
    *r = (struct readings){ .n = 0 };
    for (int i = 0; i < N_SENSOR; i++)
        r->low[i] = INFINITY, r->high[i] = -INFINITY;
    sensors_read("", r->before);
}

void readings_add(struct readings *r)
{
    double now[N_SENSOR];
    sensors_read("", now);
    for (int i = 0; i < N_SENSOR; i++) {
        r->sum[i] += now[i];
        r->low[i] = fmin(r->low[i], now[i]);
        r->high[i] = fmax(r->high[i], now[i]);
    }
    r->n++;
}

void readings_end(struct readings *r) { sensors_read("", r->after); }

json_t *readings_json(const struct readings *r)
{
    json_t *before = json_object(), *during = json_object(), *after = json_object();
    for (int i = 0; i < N_SENSOR; i++) {
        if (i == S_PACKAGE_J)
            continue;
        double mean = r->n ? r->sum[i] / (double)r->n : NAN;
        json_object_set_new(before, sensor_name[i], number(r->before[i]));
        json_object_set_new(during, sensor_name[i],
                            isnan(mean) ? json_string("not readable") : json_pack("{s:f,s:f,s:f}", "mean", mean, "low", r->low[i], "high", r->high[i]));
        json_object_set_new(after, sensor_name[i], number(r->after[i]));
    }
    double joule = r->after[S_PACKAGE_J] - r->before[S_PACKAGE_J]; /* the counter may begin anew */
    return json_pack("{s:o,s:o,s:o,s:o}", "before", before, "during", during, "after", after, sensor_name[S_PACKAGE_J], number(joule < 0 ? NAN : joule));
}
