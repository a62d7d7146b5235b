#pragma once
/* api/server/tenant_limits.h - what a tenant may create (core/sharing/tenant_rules.h): how fast, how much, how large.
 *
 * How many tasks there may be is judged by the store, with the insert: only there nobody comes in between. How fast, here: a token
 * bucket for each tenant that has the limit, as wide as one second.
 *
 * Where other nodes create as well, the bucket is the store's (OP_LIMIT_TAKE), and the one here only spares it questions whose answer is known.
 * A node takes as many tokens as it needs; while it asks again and again, up to what 100 ms bring beyond that. What it has not used for so
 * long it gives back; what is lost on the way is lost: never more are created than the limit allows. */
#include <pthread.h>

#include "api/server/request.h"
#include "api/server/timers.h"
#include "base/map.h"
#include "core/sharing/tenant_rules.h"

struct limits {
    pthread_mutex_t lock;
    struct map buckets; /* a tenant's number → struct rate */
    struct timer give_back;
    bool giving_back; /* the timer runs */
};

void limits_init(struct limits *l);
void limits_release(struct limits *l);

/* If this many may be created now, next is run: at once, or on an API thread if the store is asked first. They count from here on. Else the
 * answer (429 or 413) is there. */
enum handled limits_take(struct request *q, struct reader *r, size_t count, route_handler *next);

/* Fills in what the store is to hold an insert to. */
void limits_apply(struct request *q, struct op_insert *op);

int64_t limits_payload_bytes(const struct request *q); /* of one task; 0: no limit */
