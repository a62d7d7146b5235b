#pragma once
/* api/server/tenant_limits.h - how much a tenant may create (core/sharing/tenant_rules.h): how fast, how many tasks,
 * how large.
 *
 * The store checks the number of tasks together with the insert, because only there no other insert can come in
 * between. The rate is checked here: a token bucket for each tenant that has a limit, with a capacity of one second's
 * tokens.
 *
 * If several nodes share a store, the bucket is in the store (OP_LIMIT_TAKE). The local bucket then only saves requests
 * to the store that would be refused anyway. A node takes as many tokens as it needs. While it asks again and again, it
 * takes up to 100 ms' worth more. It returns the tokens that it has not used for 100 ms. A lost answer loses tokens, so
 * a tenant never creates more than its limit. */
#include <pthread.h>

#include "api/server/request.h"
#include "api/server/timers.h"
#include "base/map.h"
#include "core/sharing/tenant_rules.h"

struct tenant_limits {
    pthread_mutex_t lock;
    struct map buckets; /* tenant number → struct tenant_rate */
    struct timer return_timer;
    bool return_is_planned; /* return_timer is set */
};

/* The thread that owns the server. */
void tenant_limits_init(struct tenant_limits *l);
void tenant_limits_release(struct tenant_limits *l);

/* Takes tokens for `count` new tasks, then runs `next`: at once, or on a pool thread if the store had to be asked. If
 * there are too few tokens, answers with 429 or 413. The thread that owns the request; passes q on. */
enum handled tenant_limits_take(struct request *q, struct reader *r, size_t count, route_handler *next);

/* Copies the limits that the store checks into an insert. The thread that owns the request. */
void tenant_limits_apply(struct request *q, struct op_insert *op);
/* The same for the task that a put inserts. */
void tenant_limits_apply_also(struct request *q, struct op_put *op);

int64_t
tenant_limits_payload_bytes(const struct request *q); /* per task; 0: no limit. The thread that owns the request */
