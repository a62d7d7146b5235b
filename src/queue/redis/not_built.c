/* Replaces the adapter in a binary that was built without hiredis. */
#include "queue/redis/queue_redis.h"

enum err queue_redis_open(const struct redis_setup *setup, const struct queue_names *names, struct queue **ret,
                          struct error *e)
{
    (void)setup;
    (void)names;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs Redis, which this belfry was built without: build it where hiredis is installed");
}
