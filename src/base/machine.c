/* machine.c — reads what the kernel says about cores, quotas and memory.
 *
 * Called by cpuid.c alone; reads through file.c. The tricky part is finding one's own cgroup: /proc/self/cgroup gives
 * a path inside a hierarchy, /proc/self/mountinfo says which part of that hierarchy is mounted where, and a limit may
 * be set at any level between the two, so every level up to the mount point is asked. In a container the path may
 * point above what is mounted; then the mount point itself is our group. */
#include "machine.h"
#include "file.h"
#include "mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, TEXT_LIMIT = 4 << 20 };

int machine_count(const machine_set *set) {
    int n = 0;
    for (int i = 0; i < MACHINE_CPUS / 64; i++) n += __builtin_popcountll(set->bits[i]);
    return n;
}

/* ---- small files ---- */

/* The text of root/path, or NULL. */
static char *read_text(const char *root, const char *path) {
    char full[PATH_BYTES], *text;
    size_t bytes;
    const int length = snprintf(full, sizeof full, "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof full) return NULL;
    return file_read(&text, &bytes, full, TEXT_LIMIT, NULL) == QP_OK ? text : NULL;
}

/* Cuts the next line off *text; NULL at the end. */
static char *next_line(char **text) { return *text && **text ? strsep(text, "\n") : NULL; }

/* Digits into *out, saturating; returns what follows, or NULL if there was no digit. */
static const char *read_number(const char *text, uint64_t *out) {
    if (*text < '0' || *text > '9') return NULL;
    for (*out = 0; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*text - '0'), out))
            *out = UINT64_MAX;
    return text;
}

bool machine_parse_list(machine_set *out, const char *text) {
    *out = (machine_set){0};
    for (; *text && *text != '\n'; text += *text == ',') {
        uint64_t first, last;
        if (!(text = read_number(text, &first))) return false;
        last = first;
        if (*text == '-' && !(text = read_number(text + 1, &last))) return false;
        if (first > last || last >= MACHINE_CPUS || (*text && !strchr(",\n", *text))) return false;
        for (uint64_t cpu = first; cpu <= last; cpu++) machine_add(out, (int)cpu);
    }
    return true;
}

/* ---- cgroups ---- */

/* One way to set limits: cgroup v1 has a hierarchy for each controller, v2 (controller NULL) one for all. */
typedef struct hierarchy {
    const char *controller;  /* v1's name for it */
    char folder[PATH_BYTES]; /* mount point + our path below it */
    size_t mount_bytes;      /* how much of `folder` is the mount point */
} hierarchy;

/* Whether `list`, separated by commas, has `word`. */
static bool list_has(const char *list, size_t bytes, const char *word) {
    const size_t want = strlen(word);
    for (const char *at = list, *const end = list + bytes; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const size_t n = (size_t)((comma ? comma : end) - at);
        if (n == want && !memcmp(at, word, n)) return true;
        at += n + 1;
    }
    return false;
}

/* Our path in the hierarchy, from a line "ID:controllers:/path" of /proc/self/cgroup. */
static bool find_group(char *out, const char *root, const char *controller) {
    char *const text = read_text(root, "/proc/self/cgroup"), *rest = text;
    bool found = false;
    for (char *line; !found && (line = next_line(&rest));) {
        const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || strlen(path + 1) >= PATH_BYTES) continue;
        const size_t bytes = (size_t)(path - names - 1);
        found = controller ? list_has(names + 1, bytes, controller) : !bytes;
        if (found) strcpy(out, path + 1);
    }
    mem_free(text);
    return found;
}

/* Undoes the octal escapes (\040 is a blank) of mountinfo, in place. */
static void unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        unsigned code;
        if (*at == '\\' && sscanf(at, "\\%3o", &code) == 1 && strlen(at) >= 4)
            *to = (char)code, at += 4;
        else
            *to = *at++;
    }
    *to = 0;
}

/* A line "36 35 98:0 /root /mount/point rw,... tags - cgroup source super,options" of mountinfo. */
typedef struct mount {
    char *within, *point, *type, *options;
} mount;

static bool parse_mount(mount *m, char *line) {
    char *tail = strstr(line, " - "), *field[5];
    if (!tail) return false;
    *tail = 0, tail += 3;
    for (int i = 0; i < 5; i++)
        if (!(field[i] = strsep(&line, " "))) return false;
    *m = (mount){.within = field[3], .point = field[4], .type = strsep(&tail, " ")};
    strsep(&tail, " ");
    m->options = tail ? tail : (char[]){""};
    unescape(m->within);
    unescape(m->point);
    return true;
}

/* Joins the mount point and the part of `group` that lies below what is mounted there. */
static bool place_group(hierarchy *h, const char *root, const mount *m, const char *group) {
    const size_t within = !strcmp(m->within, "/") ? 0 : strlen(m->within);
    const bool is_below = !strncmp(group, m->within, within) && (group[within] == '/' || !group[within]);
    const char *below = is_below && !strstr(group, "/..") ? group + within : "";
    if (!strcmp(below, "/")) below = "";
    const int bytes = snprintf(h->folder, sizeof h->folder, "%s%s%s", root, m->point, below);
    h->mount_bytes = strlen(root) + strlen(m->point);
    return bytes >= 0 && (size_t)bytes < sizeof h->folder;
}

static bool find_hierarchy(hierarchy *h, const char *root, const char *controller) {
    char group[PATH_BYTES];
    if (!find_group(group, root, controller)) return false;
    char *const text = read_text(root, "/proc/self/mountinfo"), *rest = text;
    bool found = false;
    for (char *line; !found && (line = next_line(&rest));) {
        mount m;
        if (!parse_mount(&m, line)) continue;
        const bool fits = controller ? !strcmp(m.type, "cgroup") && list_has(m.options, strlen(m.options), controller)
                                     : !strcmp(m.type, "cgroup2");
        found = fits && place_group(h, root, &m, group);
    }
    mem_free(text);
    return found;
}

/* Walks from our group up to the mount point and gives the least of what `read_one` finds. */
static uint64_t least_upwards(hierarchy *h, uint64_t (*read_one)(const char *folder)) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t here = read_one(h->folder);
        if (here < least) least = here;
        char *slash = strrchr(h->folder, '/');
        if (!slash || (size_t)(slash - h->folder) < h->mount_bytes) return least;
        *slash = 0;
    }
}

/* A number in folder/name; UINT64_MAX for "max", "-1" and what cannot be read. */
static uint64_t read_limit(const char *folder, const char *name) {
    uint64_t value;
    char *text = read_text(folder, name);
    if (!text || !read_number(text, &value)) value = UINT64_MAX;
    mem_free(text);
    return value;
}

/* Quotas in thousandths of a CPU. */
static uint64_t thousandths(uint64_t quota, uint64_t period) {
    return !period || quota > UINT64_MAX / 1000 ? UINT64_MAX : quota * 1000 / period;
}

static uint64_t quota_v1(const char *folder) {
    return thousandths(read_limit(folder, "/cpu.cfs_quota_us"), read_limit(folder, "/cpu.cfs_period_us"));
}

static uint64_t quota_v2(const char *folder) {
    uint64_t quota, period = 100000;
    char *text = read_text(folder, "/cpu.max");
    const char *rest = text ? read_number(text, &quota) : NULL;
    const bool is_limited = rest && (*rest != ' ' || read_number(rest + 1, &period));
    mem_free(text);
    return is_limited ? thousandths(quota, period) : UINT64_MAX;
}

static uint64_t memory_v1(const char *folder) { return read_limit(folder, "/memory.limit_in_bytes"); }
static uint64_t memory_v2(const char *folder) { return read_limit(folder, "/memory.max"); }

/* Both versions may be mounted at once, each with some of the controllers. */
static uint64_t least_of_both(const char *root, const char *controller, uint64_t (*v1)(const char *),
                              uint64_t (*v2)(const char *)) {
    hierarchy h;
    const uint64_t a = find_hierarchy(&h, root, controller) ? least_upwards(&h, v1) : UINT64_MAX;
    const uint64_t b = find_hierarchy(&h, root, NULL) ? least_upwards(&h, v2) : UINT64_MAX;
    return a < b ? a : b;
}

int machine_quota(const char *root) {
    const uint64_t quota = least_of_both(root, "cpu", quota_v1, quota_v2);
    if (quota / 1000 >= INT32_MAX) return INT32_MAX;
    return quota < 1000 ? 1 : (int)(quota / 1000);
}

/* ---- cores and memory ---- */

/* Whether a CPU below `cpu` in `allowed` shares its core. */
static bool is_second_thread(const char *root, const machine_set *allowed, int cpu) {
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"}; /* the second is the older name */
    machine_set siblings;
    char path[128], *text = NULL;
    for (int i = 0; i < 2 && !text; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, names[i]);
        text = read_text(root, path);
    }
    bool shares = text && machine_parse_list(&siblings, text) && machine_has(&siblings, cpu);
    mem_free(text);
    for (int other = 0; shares && other < cpu; other++)
        if (machine_has(&siblings, other) && machine_has(allowed, other)) return true;
    return false;
}

int machine_cores(const char *root, const machine_set *allowed, int *cpus, int capacity) {
    int n = 0;
    for (int cpu = 0; cpu < MACHINE_CPUS; cpu++) {
        if (!machine_has(allowed, cpu) || is_second_thread(root, allowed, cpu)) continue;
        if (n < capacity) cpus[n] = cpu;
        n++;
    }
    return n;
}

static uint64_t physical_memory(const char *root) {
    uint64_t kib = 0;
    char *text = read_text(root, "/proc/meminfo");
    const char *at = text ? strstr(text, "MemTotal:") : NULL;
    if (at) at += strlen("MemTotal:"), at += strspn(at, " \t");
    if (!at || !read_number(at, &kib) || kib > UINT64_MAX / 1024) kib = 0;
    mem_free(text);
    return kib * 1024;
}

size_t machine_memory(const char *root) {
    const uint64_t machine = physical_memory(root);
    const uint64_t group = least_of_both(root, "memory", memory_v1, memory_v2);
    const uint64_t least = machine && machine < group ? machine : group;
    return least > PTRDIFF_MAX ? (size_t)machine : (size_t)least; /* v1 spells "no limit" as a huge number */
}
