#pragma once
/* core/task/backoff.h - how long a task waits for its next attempt. */
#include "core/task/settle.h"

/* The delay before attempt n + 1 after n outcomes, within [0, max_delay]. If the target sent Retry-After, that delay
 * instead: it may be longer, up to one day. */
int64_t backoff_delay_ms(const struct retry_policy *p, const struct outcome *o, int attempts, struct prng *random);
