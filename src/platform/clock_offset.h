#pragma once
/* platform/clock_offset.h - a clock that shows the time of a store which several nodes share (DESIGN §7).
 *
 * Until it is corrected for the first time it is the inner one. From then on its wall time is the inner steady clock and an offset:
 * somebody who sets this machine's clock changes nothing. A correction that is small does not set it back: it stands still until its
 * time has come. A large one does, and is what setting a clock back is. Any thread may ask it, one corrects. */
#include "port/clock.h"

struct clock *clock_offset_new(struct clock *inner); /* borrowed */
void clock_offset_free(struct clock *c);             /* NULL is fine */
