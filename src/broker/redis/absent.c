/* Stands in for Redis in a binary that was built without hiredis. */
#include "broker/redis/redis.h"

static enum err absent(struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "needs Redis, which this belfry was built without: build it where hiredis is installed");
}

bool is_redis_url(struct str url)
{
    return str_starts(url, S("redis://")) || str_starts(url, S("redis+unix://")) ||
           str_starts(url, S("redis+sentinel://")) || str_starts(url, S("rediss://"));
}

enum err queue_redis_open(const struct redis_setup *setup, struct queue **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return absent(e);
}

enum err events_redis_open(const struct redis_setup *setup, struct events **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return absent(e);
}

enum err lease_redis_open(const struct redis_setup *setup, struct lease **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return absent(e);
}
