#pragma once
/* queue/redis/queue_redis.h - the queue on Redis. docs/REDIS.md describes its keys, broker/redis/redis.h the address.
 * A binary built without hiredis fails with ERR_INVALID. */
#include "broker/redis/redis.h"
#include "port/queue.h"

/* Reads the address and connects to nothing: the calls connect when they need to. ERR_INVALID: the address is wrong, or
 * this build cannot reach it. names: needed by a handle that pushes; must outlive the queue. NULL: the handle
 * does not push. */
enum err queue_redis_open(const struct redis_setup *setup, const struct queue_names *names, struct queue **ret,
                          struct error *e) must_use;
