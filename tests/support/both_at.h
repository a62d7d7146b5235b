#pragma once
/* tests/support/both_at.h - a moment at which wall and steady time show the same: that of a test which never sets a
 * clock. */
#include "core/time/moment.h"

static inline struct moment both_at(int64_t ms)
{
    return (struct moment){ ms, ms };
}
