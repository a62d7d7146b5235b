#pragma once
/* broker/redis/redis.h - the address of a Redis server and what opening an adapter on it needs.
 *
 * Addresses:
 *  redis://[user[:password]@]host[:port][,host[:port] …][/database][?prefix=belfry]
 *  redis+unix:///path/of/the/socket[?database=0&prefix=belfry]
 *  redis+sentinel://[user[:password]@]sentinel[:port][,…]/master-name[/database][?prefix=belfry&sentinel_password=…]
 *  rediss://…, rediss+sentinel://…: the same with TLS, also to the Sentinels
 *
 *  cacert     PEM file of the CA that signed the server's certificate; default: the system's CAs
 *  cert, key  PEM files of the client's certificate and key
 *
 * If the address has several hosts, the connection goes to the one that is not a replica. On a Redis Cluster all keys
 * of one prefix share a hash slot, and the connection goes to the node that serves the slot. Percent escapes are
 * decoded in users, passwords, hosts and parameters. */
#include <sys/socket.h>

#include "base/str.h"
#include "port/clock.h"

struct redis_setup {
    struct str url;      /* borrowed for the call that opens */
    struct clock *clock; /* used for its steady time; must outlive the adapter */
    /* Called before a connect: may this address be connected to? NULL: every address may. */
    bool (*address_allowed)(void *context, const struct sockaddr *to);
    void *context; /* of address_allowed; must outlive the adapter */
};
