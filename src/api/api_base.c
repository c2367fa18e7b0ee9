/* api_base.c — status texts, version, and the caller's way to give memory back. */
#include "quipu.h"
#include "base/mem.h"
#include <jansson.h>
#include <xxhash.h>

#define TEXT(x) #x
#define VALUE(x) TEXT(x)

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifdef NDEBUG
#define BUILD "release"
#else
#define BUILD "debug"
#endif

static const char *const texts[QP_STATUS_COUNT] = {
#define X(name, text) [QP_##name] = text,
    QP_STATUSES(X)
#undef X
};

const char *qp_status_text(qp_status status) {
    return (unsigned)status < QP_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *qp_version(void) { return QUIPU_VERSION; }

const char *qp_build_json(void) {
    return "{\"version\": \"" QUIPU_VERSION "\", \"build\": \"" BUILD "\", \"compiler\": \"" COMPILER
           "\", \"jansson\": \"" JANSSON_VERSION "\", \"xxhash\": \"" VALUE(XXH_VERSION_MAJOR) "." VALUE(
               XXH_VERSION_MINOR) "." VALUE(XXH_VERSION_RELEASE) "\"}";
}

void qp_free(void *memory) { mem_free(memory); }
