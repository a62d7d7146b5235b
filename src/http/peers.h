#pragma once
/* http/peers.h - how many connections each address has. An IPv6 client has at least a /64 of its own, so the first 64
 * bits count as its address. Any thread. */
#include <netinet/in.h>
#include <pthread.h>

#include "base/map.h"

union peer {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

enum { PEER_TEXT = 80, PEER_KEY = 8 };
const char *peer_text(const union peer *p, char out[PEER_TEXT]);    /* 192.0.2.1:4711, [::1]:4711 */
const char *peer_address(const union peer *p, char out[PEER_TEXT]); /* 192.0.2.1, ::1 */
bool peer_is_loopback(const union peer *p);
/* What counts as one address. */
struct str peer_key(const union peer *p, char key[PEER_KEY]);

struct peers {
    size_t max; /* connections of one address */
    pthread_mutex_t lock;
    struct map counts;
};

void peers_init(struct peers *p, size_t max);
void peers_release(struct peers *p);
bool peers_add(struct peers *p, const union peer *peer); /* false: it has as many as it may have */
void peers_remove(struct peers *p, const union peer *peer);
