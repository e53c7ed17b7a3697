/* hip_device.c - which devices there are, which one is taken, how much memory it has, opening and closing it. */
#include "gpu/hip/hip.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static uint64_t read_number(const char *root, const char *bus, const char *file)
{
    char path[256];
    uint64_t n = 0;
    snprintf(path, sizeof path, "%s/%s/%s", root, bus, file);
    for (char *p = path + strlen(root); *p; p++)
        *p = (char)tolower((unsigned char)*p);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%" SCNu64, &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

struct hip_shared_memory hip_shared_memory(const char *root, const char *bus)
{
    if (!*bus || strchr(bus, '/'))
        return (struct hip_shared_memory){ 0 };
    return (struct hip_shared_memory){ read_number(root, bus, "mem_info_vram_total"), read_number(root, bus, "mem_info_gtt_total") };
}

/* Whether the runtime offers no more than what was set aside at boot; it rounds a little. */
static bool carved_only(const struct hip_phys *p) { return p->integrated && p->sys.carved && p->bytes <= p->sys.carved + p->sys.carved / 32; }

uint64_t hip_usable_bytes(const struct hip_phys *p) { return p->bytes + (carved_only(p) ? p->sys.host : 0); }

/* ---- the list of devices ---- */

static status look_at(const struct hip_rt *rt, int index, struct hip_phys *p, struct err *e)
{
    size_t bytes = 0;
    *p = (struct hip_phys){ 0 };
    int r = rt->f.device_get(&p->device, index);
    if (r == HIP_OK)
        r = rt->f.device_name(p->name, sizeof p->name - 1, p->device);
    if (r == HIP_OK)
        r = rt->f.device_bytes(&bytes, p->device);
    if (r == HIP_OK)
        r = rt->api->describe(rt, p);
    if (r != HIP_OK)
        return fail(e, ERR_DEVICE, "%s: device %d: %s", rt->api->name, index, hip_error(rt, r));
    if (rt->f.device_bus(p->bus, sizeof p->bus - 1, p->device) != HIP_OK) /* only for what the system says about memory */
        p->bus[0] = 0;
    p->bytes = bytes;
    p->sys = hip_shared_memory("/sys/bus/pci/devices", p->bus);
    return OK;
}

/* All devices in the order of the runtime. *list is the caller's to free; zero devices are an error. */
static status list_devices(const struct hip_rt *rt, struct hip_phys **list, uint32_t *n, struct err *e)
{
    int count = 0, r = rt->f.device_count(&count);
    *n = 0;
    if (r != HIP_OK || count <= 0)
        return fail(e, ERR_DEVICE, "%s: %s finds no device%s%s", rt->api->name, rt->lib_name, r ? ": " : "", r ? hip_error(rt, r) : "");
    struct hip_phys *p = calloc((size_t)count, sizeof *p);
    if (!p)
        return fail(e, ERR_NOMEM, "%s: list of devices", rt->api->name);
    for (int i = 0; i < count; i++)
        if (look_at(rt, i, &p[i], e) != OK) {
            free(p);
            return e ? e->code : ERR_DEVICE;
        }
    *list = p;
    *n = (uint32_t)count;
    return OK;
}

static status choose(struct hip *h, uint32_t index, struct err *e)
{
    struct hip_phys *list = NULL;
    uint32_t n = 0;
    TRY(list_devices(&h->rt, &list, &n, e));
    status s = OK;
    if (index >= n)
        s = fail(e, ERR_DEVICE, "%s: there is no device %u, the last one is %u", h->rt.api->name, index, n - 1);
    else if (list[index].refusal[0])
        s = fail(e, ERR_DEVICE, "%s: %s cannot be used: %s", h->rt.api->name, list[index].name, list[index].refusal);
    else
        h->phys = list[index];
    free(list);
    return s;
}

/* ---- opening ---- */

static void version_text(const struct hip_rt *rt, char *to, size_t room)
{
    int v = 0;
    if (rt->f.driver_version(&v) != HIP_OK)
        v = 0;
    if (rt->api->backend == GPU_CUDA) /* 13000 for 13.0 */
        snprintf(to, room, "CUDA %d.%d", v / 1000, v % 1000 / 10);
    else if (v >= 10000000) /* 60342134 for 6.3 and a build number */
        snprintf(to, room, "HIP %d.%d.%d", v / 10000000, v / 100000 % 100, v % 100000);
    else
        snprintf(to, room, "HIP %d", v);
}

static void fill_info(struct hip *h, size_t limit)
{
    const struct hip_phys *p = &h->phys;
    struct gpu_info *info = &h->base.info;
    uint64_t largest = carved_only(p) ? MAX(p->bytes, p->sys.host) : p->bytes;
    *info = (struct gpu_info){ .backend = h->rt.api->backend,
                               .device_bytes = hip_usable_bytes(p),
                               .carved_bytes = p->integrated ? MIN(p->sys.carved, p->bytes) : 0,
                               .shared_bytes = p->sys.host ? p->sys.host : p->bytes,
                               .alloc_limit = limit ? MIN((uint64_t)limit, largest) : largest,
                               .subgroup_min = 32,
                               .subgroup_max = 32,
                               .subgroup = 32,
                               .group_memory = p->group_memory,
                               .integrated = p->integrated,
                               .matrix = true, /* both architectures have them, and atomics of device scope */
                               .last_group = true };
    snprintf(info->name, sizeof info->name, "%.200s (%.40s)", p->name, p->arch);
    version_text(&h->rt, info->driver, sizeof info->driver);
}

/* A device that may still be at work is left as it is: to free what it uses could wait for ever. The process's end takes it away. */
static void hip_close(gpu *g)
{
    struct hip *h = hip_of(g);
    if (h->dead.code == OK && h->stream)
        hip_reach(h, NULL, NULL);
    if (!h->hung && h->entered) {
        hip_rows_close(h);
        hip_memory_close(h);
        if (h->stream)
            h->rt.f.stream_destroy(h->stream);
        h->rt.api->leave(&h->rt, h->phys.device);
    }
    for (size_t i = 0; i < h->mem.n; i++)
        free(h->mem.at[i].owner);
    ranges_free(&h->mem);
    free(h->row);
    free(h);
}

static const struct gpu_ops hip_ops = { .close = hip_close, .has = hip_has, .alloc = hip_alloc, .free = hip_free, .write = hip_write,
                                        .read = hip_read, .copy = hip_copy, .clear = hip_clear, .memory_used = hip_memory_used,
                                        .forget = hip_forget, .start = hip_start, .wait = hip_wait, .profile = hip_profile };

static status enter(struct hip *h, struct err *e)
{
    int r = h->rt.api->enter(&h->rt, h->phys.device);
    h->entered = r == HIP_OK;
    h->thread = pthread_self();
    if (r == HIP_OK)
        r = h->rt.f.stream_create(&h->stream, HIP_STREAM_APART);
    return r == HIP_OK ? OK : fail(e, ERR_DEVICE, "%s: %s: %s", h->rt.api->name, h->phys.name, hip_error(&h->rt, r));
}

enum { WATCHDOG_S = 60 };

static status open_api(gpu **out, const struct hip_api *api, const struct gpu_params *p, struct err *e)
{
    status s = OK;
    struct hip *h = calloc(1, sizeof *h);
    if (!h)
        return fail(e, ERR_NOMEM, "%s device", api->name);
    h->base.ops = &hip_ops;
    h->watchdog_ns = (uint64_t)(p->watchdog_s ? p->watchdog_s : WATCHDOG_S) * 1000000000u;
    h->no_graph = p->no_graph;
    TRY_OR(out, s, hip_rt_open(&h->rt, api, e));
    TRY_OR(out, s, choose(h, p->device, e));
    TRY_OR(out, s, enter(h, e));
    fill_info(h, p->alloc_limit);
    TRY_OR(out, s, hip_slots_open(h, e));
    *out = &h->base;
    return OK;
out:
    hip_close(&h->base);
    return s;
}

status gpu_open_hip(gpu **out, const struct gpu_params *p, struct err *e) { return open_api(out, &hip_api_hip, p, e); }
#ifdef CUDA_TWIN
status gpu_open_cuda(gpu **out, const struct gpu_params *p, struct err *e) { return open_api(out, &hip_api_cuda, p, e); }
#endif

/* ---- what `info --devices` shows ---- */

static double gib(uint64_t bytes) { return (double)bytes / (double)(1u << 30); }

static void print_device(const char *api, uint32_t index, const struct hip_phys *p, const char *version)
{
    printf("%s %u: %s (%s, %s)\n", api, index, p->name, p->arch, version);
    printf("  memory       %.1f GiB of the runtime", gib(p->bytes));
    if (p->sys.carved || p->sys.host)
        printf("; set aside at boot %.1f GiB, of the host's up to %.1f GiB", gib(p->sys.carved), gib(p->sys.host));
    printf("; used: %.1f GiB\n", gib(hip_usable_bytes(p)));
    printf("  limits       %u KiB shared per group, %u items per group\n", p->group_memory >> 10, p->workgroup_max);
    if (p->refusal[0])
        printf("  not usable   %s\n", p->refusal);
}

static void print_api(const struct hip_api *api)
{
    struct hip_rt rt;
    struct hip_phys *list = NULL;
    uint32_t n = 0;
    struct err e;
    char version[64] = "";
    status s = hip_rt_open(&rt, api, &e);
    if (s == OK)
        s = list_devices(&rt, &list, &n, &e);
    if (s == OK)
        version_text(&rt, version, sizeof version);
    else
        printf("%s\n", e.msg);
    for (uint32_t i = 0; s == OK && i < n; i++)
        print_device(api->name, i, &list[i], version);
    free(list);
}

void gpu_print_hip_devices(void)
{
    print_api(&hip_api_hip);
#ifdef CUDA_TWIN
    print_api(&hip_api_cuda);
#endif
}
