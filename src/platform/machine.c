#include "platform/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { LINE = 256, GROUP_TEXT = 512 };

/* The number after a name at the start of a line: "MemTotal:   123 kB"; -1 if absent. */
static int64_t machine_read_field(const char *path, const char *name)
{
    FILE *f = fopen(path, "re");
    char line[LINE];
    int64_t n = -1;
    while (f && n < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            n = strtoll(line + strlen(name), NULL, 10);
    if (f)
        fclose(f);
    return n;
}

/* Reads a file's first line; "" if the file does not exist. */
static void machine_read_line(const char *path, char out[LINE])
{
    FILE *f = fopen(path, "re");
    out[0] = '\0';
    if (f && !fgets(out, LINE, f))
        out[0] = '\0';
    if (f)
        fclose(f);
}

static int64_t machine_read_number(const char *path)
{
    char line[LINE], *end;
    machine_read_line(path, line);
    int64_t n = strtoll(line, &end, 10);
    return end == line ? -1 : n; /* "max" is not a number */
}

/* Path of this process's control group, from the line "0::/path" of /proc/self/cgroup. */
static void machine_find_cgroup(const char *root, char out[GROUP_TEXT])
{
    char path[PATH_MAX], line[LINE];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    snprintf(out, GROUP_TEXT, "%s/sys/fs/cgroup", root);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            snprintf(out, GROUP_TEXT, "%s/sys/fs/cgroup%s", root, strcmp(line + 3, "/") == 0 ? "" : line + 3);
    }
    if (f)
        fclose(f);
}

static int64_t machine_read_cgroup(const char *group, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return machine_read_number(path);
}

static void machine_measure_memory(const char *root, const char *group, struct machine *m)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int64_t total_kib = machine_read_field(path, "MemTotal:"), free_kib = machine_read_field(path, "MemAvailable:");
    int64_t limit = machine_read_cgroup(group, "memory.max"), used = machine_read_cgroup(group, "memory.current");
    if (limit > 0 && used >= 0 && (total_kib <= 0 || limit / 1024 < total_kib)) {
        snprintf(path, sizeof path, "%s/memory.stat", group);
        used -= max_of(machine_read_field(path, "inactive_file "),
                       (int64_t)0); /* page cache that the kernel reclaims on demand */
        m->memory_mb = limit >> 20;
        m->memory_used_mb = max_of(used, (int64_t)0) >> 20;
    } else if (total_kib > 0 && free_kib >= 0) {
        m->memory_mb = total_kib >> 10;
        m->memory_used_mb = (total_kib - free_kib) >> 10;
    }
}

/* cpu.max is "QUOTA PERIOD", such as "50000 100000": half a core. */
static void machine_measure_cpu(const char *root, const char *group, struct machine *m)
{
    char path[PATH_MAX], line[LINE], *rest;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    m->cpu_milli = 1000 * (cores > 0 ? cores : 1);
    snprintf(path, sizeof path, "%s/cpu.max", group);
    machine_read_line(path, line);
    int64_t quota = strtoll(line, &rest, 10), period = strtoll(rest, NULL, 10);
    if (rest != line && quota > 0 && period > 0)
        m->cpu_milli = min_of(m->cpu_milli, max_of(quota * 1000 / period, (int64_t)1));
    snprintf(path, sizeof path, "%s/proc/loadavg", root);
    machine_read_line(path, line);
    m->load = strtod(line, NULL);
}

void machine_measure(const char *root, struct machine *ret)
{
    char group[GROUP_TEXT];
    *ret = (struct machine){ 0 };
    machine_find_cgroup(root, group);
    machine_measure_memory(root, group, ret);
    machine_measure_cpu(root, group, ret);
}
