/* machine_test.c — CPU lists, cgroup quotas of both versions, cores and memory, from made-up trees of /proc and /sys.
 */
#include "machine.h"
#include "mem.h"
#include "harness.h"

static void parses_lists(void **state) {
    static const struct {
        const char *text;
        int count; /* -1: refused */
        int has;
    } cases[] = {
        {"0", 1, 0},       {"0-3\n", 4, 3},    {"0-3,8,10-11\n", 7, 10},
        {"", 0, -1},       {"\n", 0, -1},      {"5,5", 1, 5},
        {"8191", 1, 8191}, {"8192", -1, 0},    {"3-1", -1, 0},
        {"a", -1, 0},      {"1-", -1, 0},      {"-1", -1, 0},
        {"1 2", -1, 0},    {"0-99999", -1, 0}, {"99999999999999999999999", -1, 0},
        {"1,,2", -1, 0},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        machine_set set;
        const bool ok = machine_parse_list(&set, cases[i].text);
        assert_int_equal(ok, cases[i].count >= 0);
        if (!ok) continue;
        assert_int_equal(machine_count(&set), cases[i].count);
        if (cases[i].has >= 0) assert_true(machine_has(&set, cases[i].has));
    }
}

/* ---- made-up machines: up to ten files each ---- */

typedef struct entry {
    const char *path, *text;
} entry;
typedef struct fake {
    const char *name;
    entry files[10];
    int quota;
    size_t memory;
} fake;

#define V2_MOUNT                                                                                                       \
    { "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n" }
#define V1_MOUNTS                                                                                                      \
    {                                                                                                                  \
        "proc/self/mountinfo", "24 1 0:5 / /proc rw - proc proc rw\n"                                                  \
                               "32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"  \
                               "35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"            \
    }
#define EIGHT_GIB                                                                                                      \
    { "proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n" }

static const fake fakes[] = {
    {"nothing can be read", {{"unrelated", ""}}, INT32_MAX, 0},
    {"no cgroups", {EIGHT_GIB}, INT32_MAX, (size_t)8 << 30},
    {"v2 without limits",
     {V2_MOUNT,
      EIGHT_GIB,
      {"proc/self/cgroup", "0::/user.slice\n"},
      {"sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/user.slice/memory.max", "max\n"}},
     INT32_MAX,
     (size_t)8 << 30},
    {"v2, limits on three levels: the strictest holds",
     {V2_MOUNT,
      EIGHT_GIB,
      {"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/cpu.max", "800000 100000\n"},
      {"sys/fs/cgroup/a/cpu.max", "250000 100000\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"},
      {"sys/fs/cgroup/a/memory.max", "1073741824\n"},
      {"sys/fs/cgroup/a/b/memory.max", "2147483648\n"}},
     2,
     (size_t)1 << 30},
    {"v2, half a CPU is one",
     {V2_MOUNT, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "50000 100000\n"}},
     1,
     0},
    {"v2, a path above what is mounted",
     {V2_MOUNT, EIGHT_GIB, {"proc/self/cgroup", "0::/../../x\n"}, {"sys/fs/cgroup/cpu.max", "400000 100000"}},
     4,
     (size_t)8 << 30},
    {"v2, period left out", {V2_MOUNT, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "300000"}}, 3, 0},
    {"v2, nonsense sets no limit",
     {V2_MOUNT,
      EIGHT_GIB,
      {"proc/self/cgroup", "0::/\n"},
      {"sys/fs/cgroup/cpu.max", "many 0\n"},
      {"sys/fs/cgroup/memory.max", ""}},
     INT32_MAX,
     (size_t)8 << 30},
    {"v2, a period of zero",
     {V2_MOUNT, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "1 0\n"}},
     INT32_MAX,
     0},
    {"v1 in a container, mounted from its own group",
     {V1_MOUNTS,
      EIGHT_GIB,
      {"proc/self/cgroup", "4:memory:/docker/ab/in\n3:cpu,cpuacct:/docker/ab/in\n1:name=systemd:/x\n0::/\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "350000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/in/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/in/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/memory/in/memory.limit_in_bytes", "3221225472\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     3,
     (size_t)3 << 30},
    {"v1 for memory beside v2 for the CPU",
     {{"proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                              "30 23 0:26 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n"},
      EIGHT_GIB,
      {"proc/self/cgroup", "4:memory:/\n0::/\n"},
      {"sys/fs/cgroup/uni fied/cpu.max", "600000 100000\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n"}},
     6,
     (size_t)4 << 30},
    {"v1's huge number without /proc/meminfo",
     {V1_MOUNTS,
      {"proc/self/cgroup", "4:memory:/docker/ab\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     INT32_MAX,
     9223372036854771712ull},
    {"torn lines",
     {{"proc/self/mountinfo", "30 23\n - \n - cgroup2\nx x x x x - cgroup2\n"}, {"proc/self/cgroup", "\n:\n0::\n"}},
     INT32_MAX,
     0},
};

static void build(char *root, const fake *m) {
    harness_folder(root);
    for (size_t i = 0; i < HARNESS_COUNT(m->files) && m->files[i].path; i++)
        harness_write(root, m->files[i].path, m->files[i].text);
}

static void finds_quotas_and_memory(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(fakes); i++) {
        char root[64];
        build(root, &fakes[i]);
        const int quota = machine_quota(root);
        const size_t memory = machine_memory(root);
        if (quota != fakes[i].quota || memory != fakes[i].memory)
            fail_msg("%s: quota %d, memory %zu", fakes[i].name, quota, memory);
        harness_remove(root);
    }
}

/* Memory that runs out while asking sets no limit and breaks nothing. */
static void survives_each_failure(void **state) {
    char root[64];
    build(root, &fakes[3]);
    int quota = 0;
    for (int n = 0; quota != fakes[3].quota; n++) {
        assert_in_range(n, 0, 100);
        mem_fail_after(n);
        quota = machine_quota(root);
        mem_fail_after(-1);
        assert_true(quota >= 2);
    }
    harness_remove(root);
}

static void counts_cores(void **state) {
    char root[64], name[128];
    harness_folder(root);
    static const char *const siblings[] = {"0,4\n", "1,5\n", "2,6\n", "nonsense", "0,4\n", "1,5\n", "2,6\n"};
    for (int cpu = 0; cpu < 7; cpu++) {
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/%s", cpu,
                 cpu == 6 ? "thread_siblings_list" : "core_cpus_list");
        harness_write(root, name, siblings[cpu]);
    }
    static const struct {
        const char *allowed;
        int n, cpus[8];
    } cases[] = {
        {"0-7", 5, {0, 1, 2, 3, 7}}, {"0,4", 1, {0}},   {"4", 1, {4}}, {"4-6", 3, {4, 5, 6}},
        {"1,3,5", 2, {1, 3}},        {"100", 1, {100}}, {"", 0, {0}},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        machine_set allowed;
        int cpus[8] = {0};
        assert_true(machine_parse_list(&allowed, cases[i].allowed));
        assert_int_equal(machine_cores(root, &allowed, cpus, 8), cases[i].n);
        assert_memory_equal(cpus, cases[i].cpus, sizeof cpus);
        assert_int_equal(machine_cores(root, &allowed, NULL, 0), cases[i].n);
    }
    harness_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_lists),
        cmocka_unit_test(finds_quotas_and_memory),
        cmocka_unit_test(survives_each_failure),
        cmocka_unit_test(counts_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
