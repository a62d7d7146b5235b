#pragma once
/* broker/redis/redis.h - the address of a Redis server and what opening an adapter on it needs.
 *
 * Addresses:
 *  redis://[user[:password]@]host[:port][,host[:port] …][/database][?prefix=belfry]
 *  redis+unix:///path/of/the/socket[?database=0&prefix=belfry]
 *  redis+sentinel://[user[:password]@]sentinel[:port][,…]/master-name[/database][?prefix=belfry&sentinel_password=…]
 *
 * If the address has several hosts, the connection goes to the one that is not a replica. On a Redis Cluster all keys
 * of one prefix share a hash slot, and the connection goes to the node that serves the slot. Percent escapes are
 * decoded in users, passwords, hosts and parameters. */
#include "base/str.h"
#include "port/clock.h"

struct redis_setup {
    struct str url;      /* borrowed for the call that opens */
    struct clock *clock; /* used for its steady time; must outlive the adapter */
    /* Called after a connect: may this server be used? NULL: every server may. */
    bool (*peer_allowed)(void *context, int fd);
    void *context; /* of peer_allowed; must outlive the adapter */
};
