/* vk_load.c - the Vulkan loader, found at run time, an instance, and the functions of both.
 *
 * Nothing is linked: a machine without Vulkan runs the program all the same. */
#include "gpu/vulkan/vk.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *vk_result_name(VkResult r)
{
    static _Thread_local char number[32];
    switch (r) {
#define NAME(x) case x: return #x
        NAME(VK_NOT_READY);
        NAME(VK_TIMEOUT);
        NAME(VK_INCOMPLETE);
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
        NAME(VK_ERROR_INITIALIZATION_FAILED);
        NAME(VK_ERROR_DEVICE_LOST);
        NAME(VK_ERROR_MEMORY_MAP_FAILED);
        NAME(VK_ERROR_LAYER_NOT_PRESENT);
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
        NAME(VK_ERROR_FEATURE_NOT_PRESENT);
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
        NAME(VK_ERROR_TOO_MANY_OBJECTS);
        NAME(VK_ERROR_FRAGMENTED_POOL);
        NAME(VK_ERROR_UNKNOWN);
        NAME(VK_ERROR_INVALID_SHADER_NV);
#undef NAME
    default:
        snprintf(number, sizeof number, "VkResult %d", (int)r);
        return number;
    }
}

/* ---- validation ---- */

static const char validation_layer[] = "VK_LAYER_KHRONOS_validation";

static VkBool32 VKAPI_PTR on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                                     const VkDebugUtilsMessengerCallbackDataEXT *data, void *ctx)
{
    struct vk_instance *in = ctx;
    struct err line; /* fail() makes one line of it */
    (void)severity, (void)types;
    fail(&line, ERR_DEVICE, "vulkan validation: %s", data->pMessage ? data->pMessage : "?");
    fprintf(stderr, "hayate: %s\n", line.msg);
    atomic_fetch_add(&in->complaints, 1);
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT messenger_info(struct vk_instance *in)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = in,
    };
}

static status messenger_open(struct vk_instance *in, struct err *e)
{
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)in->proc(in->handle, "vkCreateDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerCreateInfoEXT info = messenger_info(in);
    VkResult r = create ? create(in->handle, &info, NULL, &in->messenger) : VK_ERROR_EXTENSION_NOT_PRESENT;
    return r == VK_SUCCESS ? OK : fail(e, ERR_DEVICE, "vulkan: messenger of the validation layer: %s", vk_result_name(r));
}

/* A switch for tests and bug reports. The environment is read here and nowhere else in the backend, once per opened device. */
static bool validation_wanted(void)
{
    const char *s = getenv("HAYATE_VK_VALIDATE");
    return s && *s && strcmp(s, "0") != 0;
}

/* ---- opening ---- */

static status load_library(struct vk_instance *in, struct err *e)
{
    in->lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!in->lib)
        return fail(e, ERR_DEVICE, "vulkan: no loader (libvulkan.so.1): %s", dlerror());
    in->proc = (PFN_vkGetInstanceProcAddr)(PFN_vkVoidFunction)dlsym(in->lib, "vkGetInstanceProcAddr");
    return in->proc ? OK : fail(e, ERR_DEVICE, "vulkan: libvulkan.so.1 has no vkGetInstanceProcAddr");
}

static status check_version(const struct vk_instance *in, struct err *e)
{
    PFN_vkEnumerateInstanceVersion get = (PFN_vkEnumerateInstanceVersion)in->proc(NULL, "vkEnumerateInstanceVersion");
    uint32_t version = VK_API_VERSION_1_0;
    if (get)
        get(&version);
    if (version < VK_API_VERSION_1_3)
        return fail(e, ERR_DEVICE, "vulkan: the loader speaks version %u.%u, 1.3 is needed", VK_API_VERSION_MAJOR(version),
                    VK_API_VERSION_MINOR(version));
    return OK;
}

static status create(struct vk_instance *in, bool validate, struct err *e)
{
    PFN_vkCreateInstance create_instance = (PFN_vkCreateInstance)in->proc(NULL, "vkCreateInstance");
    const char *layer = validation_layer, *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(in);
    VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "hayate", .apiVersion = VK_API_VERSION_1_3 };
    VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  .pNext = validate ? &messenger : NULL,
                                  .pApplicationInfo = &app,
                                  .enabledLayerCount = validate,
                                  .ppEnabledLayerNames = &layer,
                                  .enabledExtensionCount = validate,
                                  .ppEnabledExtensionNames = &extension };
    VkResult r = create_instance ? create_instance(&info, NULL, &in->handle) : VK_ERROR_INITIALIZATION_FAILED;
    if (r == VK_ERROR_LAYER_NOT_PRESENT)
        return fail(e, ERR_DEVICE, "vulkan: HAYATE_VK_VALIDATE is set, but the layer %s is not installed", validation_layer);
    if (r == VK_ERROR_INCOMPATIBLE_DRIVER)
        return fail(e, ERR_DEVICE, "vulkan: no driver is installed");
    return r == VK_SUCCESS ? OK : fail(e, ERR_DEVICE, "vulkan: instance: %s", vk_result_name(r));
}

static status load_instance_functions(struct vk_instance *in, struct err *e)
{
#define LOAD(name)                                                                        \
    if (!(in->f.name = (PFN_vk##name)in->proc(in->handle, "vk" #name)))                   \
        return fail(e, ERR_DEVICE, "vulkan: the loader has no vk" #name);
    VK_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    return OK;
}

status vk_device_functions(const struct vk_instance *in, VkDevice dev, struct vk_device_fn *f, struct err *e)
{
#define LOAD(name)                                                                        \
    if (!(f->name = (PFN_vk##name)in->f.GetDeviceProcAddr(dev, "vk" #name)))              \
        return fail(e, ERR_DEVICE, "vulkan: the driver has no vk" #name);
    VK_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return OK;
}

status vk_instance_open(struct vk_instance *in, struct err *e)
{
    status s = OK;
    bool validate = validation_wanted();
    memset(in, 0, sizeof *in);
    TRY_OR(out, s, load_library(in, e));
    TRY_OR(out, s, check_version(in, e));
    TRY_OR(out, s, create(in, validate, e));
    TRY_OR(out, s, load_instance_functions(in, e));
    if (validate)
        TRY_OR(out, s, messenger_open(in, e));
    return OK;
out:
    vk_instance_close(in);
    return s;
}

void vk_instance_close(struct vk_instance *in)
{
    if (in->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)in->proc(in->handle, "vkDestroyDebugUtilsMessengerEXT");
        destroy(in->handle, in->messenger, NULL);
    }
    if (in->handle && in->f.DestroyInstance)
        in->f.DestroyInstance(in->handle, NULL);
    if (in->lib)
        dlclose(in->lib);
    in->messenger = VK_NULL_HANDLE;
    in->handle = NULL;
    in->lib = NULL;
}
