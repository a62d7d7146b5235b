/* Replaces the adapter in a binary that was built without hiredis. */
#include "lease/redis/lease_redis.h"

enum err lease_redis_open(const struct redis_setup *setup, struct lease **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs Redis, which this belfry was built without: build it where hiredis is installed");
}
