#pragma once
/* platform/clock_system.h - the machine's own clocks: CLOCK_REALTIME and CLOCK_BOOTTIME. */
#include <sys/types.h>

#include <pthread.h>
#include <time.h>

#include "port/clock.h"

struct clock *clock_system(void); /* static, stateless */

/* How long all threads of a process have been on a processor so far; 0 when it is gone. */
int64_t clock_cpu_us(pid_t process);

/* For threads that wait on a condition, at most so long: a condition made here, and the end of a wait that begins now. */
void clock_condition_init(pthread_cond_t *c);
struct timespec clock_condition_end(int64_t after_us);
