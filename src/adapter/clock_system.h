#pragma once
/* adapter/clock_system.h - the machine's own clocks: CLOCK_REALTIME and CLOCK_BOOTTIME. */
#include <sys/types.h>

#include "port/clock.h"

struct clock *clock_system(void); /* static, stateless */

/* How long all threads of a process have been on a processor so far; 0 when it is gone. */
int64_t clock_cpu_us(pid_t process);
