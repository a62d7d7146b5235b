#pragma once
/* adapter/clock_system.h - the machine's own clocks: CLOCK_REALTIME and CLOCK_BOOTTIME. */
#include "port/clock.h"

struct clock *clock_system(void); /* static, stateless */
