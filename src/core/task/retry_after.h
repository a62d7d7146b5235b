#pragma once
/* core/task/retry_after.h - what a target or a worker says about when to try again. */
#include "base/date.h"
#include "base/str.h"

#define RETRY_AFTER_MAX_MS DAY_MS /* nobody can put a task off for longer */

/* Parses Retry-After: seconds, or one of HTTP's three date formats. Returns the delay from now, at most
 * RETRY_AFTER_MAX_MS; -1: not readable. */
int64_t retry_after_ms(struct str value, int64_t now_ms);
