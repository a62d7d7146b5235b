#pragma once
/* platform/clock_offset.h - a clock that shows the time of a store that several nodes share.
 *
 * - Before the first correction it shows the inner clock's time.
 * - After it, wall time is the inner steady clock plus an offset: setting this machine's clock has no effect.
 * - A correction that would set the clock back by less than 1 s makes it stand still until the corrected time has
 *   caught up. A larger one sets the clock back.
 * Any thread may read the clock. One thread corrects it. */
#include "port/clock.h"

struct clock *clock_offset_new(struct clock *inner); /* borrowed */
void clock_offset_free(struct clock *c);             /* NULL is allowed */
