#pragma once
/* platform/clock_system.h - the machine's own clocks: CLOCK_REALTIME and CLOCK_BOOTTIME. Any thread may call. */
#include <sys/types.h>

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "port/clock.h"

struct clock *clock_system(void); /* static, stateless */

/* CPU time of all threads of a process; 0 if the process does not exist. */
int64_t clock_cpu_us(pid_t process);

/* For timed waits on a condition: initialises a condition that uses CLOCK_MONOTONIC, and returns the end of a wait that
 * starts now. */
void clock_condition_init(pthread_cond_t *c);
struct timespec clock_condition_end(int64_t after_us);
/* Takes the lock and waits for that time, or until *stopping, which the lock guards; returns it. */
bool clock_condition_pause(pthread_cond_t *c, pthread_mutex_t *lock, const bool *stopping, int64_t ms);
