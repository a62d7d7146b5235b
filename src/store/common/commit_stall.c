/* Reads the machine's clock and no other: nodes stall at the same moments, whatever the offset of their clocks. */
#include "store/common/commit_stall.h"

#include <time.h>

#include "base/failpoint.h"
#include "platform/clock_system.h"

enum { NS_PER_S = 1000000000 };

void commit_stall_wait(void)
{
    int64_t left_ns = failpoint_commit_wait_ns(clock_steady_ns(clock_system()));
    if (left_ns > 0)
        nanosleep(&(struct timespec){ .tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S }, NULL);
}
