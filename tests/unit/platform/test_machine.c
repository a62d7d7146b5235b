/* What a worker reads about its machine, from files in Linux's format. */
#include "platform/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "scratch.h"

struct world {
    char root[64];
};

static void write_file(const struct world *w, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", w->root, name);
    for (char *slash = path + strlen(w->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void world_init(struct world *w)
{
    snprintf(w->root, sizeof w->root, "/tmp/test_machine.XXXXXX");
    assert_non_null(mkdtemp(w->root));
    write_file(w, "/proc/meminfo", "MemTotal:        8192000 kB\nMemFree:  1 kB\nMemAvailable:    6144000 kB\n");
    write_file(w, "/proc/loadavg", "1.50 0.70 0.60 1/100 4242\n");
    write_file(w, "/proc/self/cgroup", "3:memory:/old\n0::/app.slice/belfry\n");
}

static void world_release(struct world *w)
{
    assert_true(scratch_remove(w->root));
}

static void without_a_group_the_machine_itself_counts(void **state)
{
    (void)state;
    struct world w;
    struct machine m;
    world_init(&w);
    machine_measure(w.root, &m);
    assert_int_equal(m.memory_mb, 8000);
    assert_int_equal(m.memory_used_mb, 2000);
    assert_int_equal(m.cpu_milli, 1000 * sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(m.load == 1.5);
    world_release(&w);
}

static void the_limits_of_a_group_count(void **state)
{
    (void)state;
    struct world w;
    struct machine m;
    world_init(&w);
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/memory.max", "1073741824\n");
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/memory.current", "1048576000\n");
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/memory.stat", "anon 1\ninactive_file 524288000\n");
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/cpu.max", "50000 100000\n");
    machine_measure(w.root, &m);
    assert_int_equal(m.memory_mb, 1024);
    assert_int_equal(m.memory_used_mb, 500); /* page cache is not in use */
    assert_int_equal(m.cpu_milli, 500);
    world_release(&w);
}

static void a_group_without_limits_is_as_large_as_the_machine(void **state)
{
    (void)state;
    struct world w;
    struct machine m;
    world_init(&w);
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/memory.max", "max\n");
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/memory.current", "1000\n");
    write_file(&w, "/sys/fs/cgroup/app.slice/belfry/cpu.max", "max 100000\n");
    machine_measure(w.root, &m);
    assert_int_equal(m.memory_mb, 8000);
    assert_int_equal(m.cpu_milli, 1000 * sysconf(_SC_NPROCESSORS_ONLN));
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_group_the_machine_itself_counts),
        cmocka_unit_test(the_limits_of_a_group_count),
        cmocka_unit_test(a_group_without_limits_is_as_large_as_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
