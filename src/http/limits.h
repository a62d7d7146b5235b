#pragma once
/* http/limits.h - what a tenant may create (core/tenant_rules.h): how fast, how much, how large.
 *
 * How many tasks there may be is judged by the store, with the insert: only there nobody comes in between. How fast, here: a token
 * bucket for each tenant that has the limit, as wide as one second. */
#include <pthread.h>

#include "base/map.h"
#include "core/tenant_rules.h"
#include "http/request.h"

struct limits {
    pthread_mutex_t lock;
    struct map buckets; /* a tenant's number → struct rate */
};

void limits_init(struct limits *l);
void limits_release(struct limits *l);

/* Whether this many may be created now; they count from here on. False: the answer (429 or 413) is there. */
bool limits_take(struct request *q, size_t count);

/* Fills in what the store is to hold an insert to. */
void limits_apply(struct request *q, struct op_insert *op);

int64_t limits_payload_bytes(const struct request *q); /* of one task; 0: no limit */
