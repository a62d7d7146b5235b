#pragma once
/* broker/redis/redis.h - Redis as queue, events and lease (docs/REDIS.md says what lies where).
 *
 * Addresses:
 *   redis://[user[:password]@]host[:port][,host[:port] …][/database][?prefix=belfry]
 *   redis+unix:///path/of/the/socket[?database=0&prefix=belfry]
 *   redis+sentinel://[user[:password]@]sentinel[:port][,…]/master-name[/database][?prefix=belfry&sentinel_password=…]
 * Of several hosts, the one that is written to is found. On a Redis Cluster all keys of one prefix are in one slot, and its node is found.
 * Opening reads the address and connects to nothing: that is done, again and again, by the calls that need it. */
#include "port/clock.h"
#include "port/events.h"
#include "port/lease.h"
#include "port/queue.h"

struct redis_setup {
    struct str url;                       /* borrowed for the call */
    struct clock *clock;                  /* its steady time; must outlive what is opened, like the next */
    const struct queue_names *names;      /* for who pushes; may be NULL */
    bool (*judge)(void *context, int fd); /* whether a server that was connected to may be spoken with; NULL: any may */
    void *context;
};

bool is_redis_url(struct str url);

/* ERR_INVALID: no address, or none that this build can reach. */
enum err queue_redis_open(const struct redis_setup *setup, struct queue **ret, struct error *e) must_use;
enum err events_redis_open(const struct redis_setup *setup, struct events **ret, struct error *e) must_use;
enum err lease_redis_open(const struct redis_setup *setup, struct lease **ret, struct error *e) must_use;
