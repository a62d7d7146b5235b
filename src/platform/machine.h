#pragma once
/* platform/machine.h - CPU and memory of the machine, and how much is in use. If the process runs in a control group
 * (version 2) with a limit, the group's numbers count; otherwise those of /proc. Any thread. */
#include <stdbool.h>
#include <stdint.h>

struct machine {
    int64_t cpu_milli;                 /* thousandths of a core */
    int64_t memory_mb, memory_used_mb; /* 0: unknown */
    double load;                       /* load average over the last minute */
};

/* root is a prefix of /proc and /sys, for tests; "" is the machine itself. */
void machine_measure(const char *root, struct machine *ret);
