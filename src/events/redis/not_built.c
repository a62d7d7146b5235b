/* Replaces the adapter in a binary that was built without hiredis. */
#include "events/redis/events_redis.h"

enum err events_redis_open(const struct redis_setup *setup, struct events **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs Redis, which this belfry was built without: build it where hiredis is installed");
}
