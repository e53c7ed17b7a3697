/* vulkan_device.h - for tests on a Vulkan device: whichever comes first, or number TEST_DEVICE. */
#ifndef HAYATE_TESTS_VULKAN_DEVICE_H
#define HAYATE_TESTS_VULKAN_DEVICE_H

#include "gpu/gpu.h"
#include "tests/test.h"

static inline uint32_t test_device(void)
{
    const char *device = getenv("TEST_DEVICE");
    return device ? (uint32_t)strtoul(device, NULL, 10) : 0;
}

/* Asks for the validation layer, where it is installed, from here on. False: there is no device, which e says. */
static inline bool device_found(const char *test, struct err *e)
{
    gpu *g = NULL;
    struct gpu_params p = { .device = test_device() };
    setenv("HAYATE_VK_VALIDATE", "1", 0);
    if (gpu_open_vulkan(&g, &p, e) != OK && strstr(e->msg, "layer")) {
        printf("%-28s without validation: %s\n", test, e->msg);
        setenv("HAYATE_VK_VALIDATE", "0", 1);
        gpu_open_vulkan(&g, &p, e);
    }
    gpu_close(g);
    return g != NULL;
}

/* A device that is there, or the end of the test. */
static inline gpu *open_device(struct gpu_params p)
{
    gpu *g = NULL;
    struct err e;
    p.device = test_device();
    CHECK(gpu_open_vulkan(&g, &p, &e) == OK);
    if (!g) {
        fprintf(stderr, "%s\n", e.msg);
        exit(TEST_END());
    }
    return g;
}

#endif
