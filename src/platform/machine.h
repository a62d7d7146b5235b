#pragma once
/* platform/machine.h - what the machine has, and how much of it is in use: by the control group (version 2) that the process is in, where
 * that has a limit, else by /proc. */
#include <stdbool.h>
#include <stdint.h>

struct machine {
    int64_t cpu_milli;                 /* thousandths of a core */
    int64_t memory_mb, memory_used_mb; /* 0: not known */
    double load;                       /* how many wanted a core, over the last minute */
};

/* root: what stands before /proc and /sys; "" is the machine's own. */
void machine_look(const char *root, struct machine *ret);

/* Above 90 % of the memory, or a load far over the cores, nothing more should begin. Why is a word, NULL if there is room. */
const char *machine_is_full(const struct machine *m);
