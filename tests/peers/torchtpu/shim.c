/* Lets TorchTPU run on XLA's CPU plugin, where there is no TPU.
 *
 * TorchTPU loads the PJRT plugin that TPU_LIBRARY_PATH names and gives it an option that the CPU
 * plugin rejects. This one loads the plugin that CPU_PJRT_PLUGIN names, hands out its table of
 * functions, and drops that option when a client is made. The layouts are those of the published
 * PJRT C API (https://github.com/openxla/xla/blob/main/xla/pjrt/c/pjrt_c_api.h), as far as they
 * are needed: every struct begins with its size and an extension, and the table holds a version
 * (size, extension, two numbers) and then pointers to functions in a fixed order.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct named_value {
    size_t struct_size;
    void *extension;
    const char *name;
    size_t name_size;
    int type; /* 1: a 64-bit integer */
    int64_t value;
    size_t value_size;
};

struct client_create_args {
    size_t struct_size;
    void *extension;
    const struct named_value *options;
    size_t option_count;
};

typedef void *function(void *);

struct api {
    size_t struct_size;
    void *extension;
    struct {
        size_t struct_size;
        void *extension;
        int major, minor;
    } version;
    function *before_client_create[10];
    function *client_create;
};

static const struct api *real;

static void *client_create(void *raw) {
    static const char rejected[] = "premapped_buffer_size";
    static const char devices[] = "cpu_device_count";
    struct client_create_args *args = raw;
    struct named_value *kept = calloc(args->option_count + 1, sizeof *kept);
    size_t count = 0;
    if (kept == NULL)
        return real->client_create(raw);
    for (size_t i = 0; i < args->option_count; i++) {
        const struct named_value *option = &args->options[i];
        if (option->name_size != sizeof rejected - 1 ||
            memcmp(option->name, rejected, option->name_size) != 0)
            kept[count++] = *option;
    }
    kept[count++] = (struct named_value){
        .struct_size = sizeof *kept,
        .name = devices,
        .name_size = sizeof devices - 1,
        .type = 1,
        .value = 1,
        .value_size = 1,
    };
    args->options = kept;
    args->option_count = count;
    return real->client_create(raw);
}

const void *GetPjrtApi(void) {
    static void *table;
    const char *path = getenv("CPU_PJRT_PLUGIN");
    void *library, *get;
    if (table != NULL)
        return table;
    library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    get = library == NULL ? NULL : dlsym(library, "GetPjrtApi");
    if (get == NULL) {
        fprintf(stderr, "shim: CPU_PJRT_PLUGIN names no PJRT plugin: %s\n", path ? path : "unset");
        return NULL;
    }
    real = ((const struct api *(*)(void))get)();
    table = malloc(real->struct_size);
    if (table == NULL)
        return NULL;
    memcpy(table, real, real->struct_size);
    ((struct api *)table)->client_create = client_create;
    return table;
}
