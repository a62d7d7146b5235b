#pragma once
/* http/peer_buckets.h - a rate limit for each address (peers.h: of IPv6, its /64).
 *
 * The number of addresses is limited: the one that was used longest ago is forgotten first. One thread at a time: the
 * caller has a lock. */
#include "base/list.h"
#include "base/map.h"
#include "http/peers.h"

struct peer_buckets {
    double rate;   /* a second */
    int64_t burst; /* at once */
    size_t max;    /* addresses */
    struct map rows;
    struct list by_age; /* the same; the one that was used longest ago is first */
};

void peer_buckets_init(struct peer_buckets *b, double rate, int64_t burst, size_t max);
void peer_buckets_release(struct peer_buckets *b);

/* Takes one of the address. False: it has none left; *ret_wait_ms, if not NULL: until it has one again. */
bool peer_buckets_take(struct peer_buckets *b, const union peer *peer, int64_t now_ms, int64_t *ret_wait_ms);
