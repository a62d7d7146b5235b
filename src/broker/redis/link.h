#pragma once
/* broker/redis/link.h - a connection to one Redis server: a socket, with TLS or without, and hiredis's parser of
 * replies.
 *
 * A name is resolved once, and the addresses that were checked are the ones that are connected to. Every wait has a
 * timeout. After a failure the link is of no use: the caller frees it. A link is used by one thread at a time. */
#include <sys/socket.h>

#include <hiredis/hiredis.h>

#include "base/str.h"
#include "platform/tls_client.h"
#include "port/clock.h"

enum { REDIS_HOST_MAX = 256, REDIS_WHY_MAX = 256 };

struct redis_host {
    char name[REDIS_HOST_MAX]; /* or the path of a Unix socket */
    int port;                  /* 0: a Unix socket */
};

struct redis_link {
    int fd;
    struct tls_session *tls; /* NULL: without TLS */
    redisReader *reader;
    struct redis_host host;
    int64_t timeout_ms;      /* of one read */
    char why[REDIS_WHY_MAX]; /* why the last call failed */
};

struct redis_link_setup {
    const struct redis_host *host;
    const struct tls_client_files *tls; /* NULL: without TLS */
    struct clock *clock;
    int64_t end_ms; /* of the attempt, by the steady clock */
    /* May this address be connected to? If one of a name's addresses may not, none is. NULL: all may. */
    bool (*address_allowed)(void *context, const struct sockaddr *to);
    void *context;
};

/* NULL: `why` says why not. */
struct redis_link *redis_link_open(const struct redis_link_setup *setup, char why[REDIS_WHY_MAX]);
void redis_link_free(struct redis_link *l); /* NULL is fine */

void redis_link_set_timeout(struct redis_link *l, int64_t ms);
bool redis_link_send(struct redis_link *l, struct str bytes);

/* Returns the next reply, which may be an error reply; NULL: `why` says why not. The caller frees it. */
redisReply *redis_link_receive(struct redis_link *l);

/* With no reply outstanding there is nothing to read. If the socket is readable, the server has closed the
 * connection. */
bool redis_link_is_idle(const struct redis_link *l);
