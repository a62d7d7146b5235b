#pragma once
/* lease/redis/lease_redis.h - a leader lease on Redis. docs/REDIS.md describes the keys, broker/redis/redis.h the
 * address. A binary built without hiredis fails with ERR_INVALID. */
#include "broker/redis/redis.h"
#include "port/lease.h"

/* Reads the address and connects to nothing: the calls connect when they need to. ERR_INVALID: the address is wrong, or
 * this build cannot reach it. */
enum err lease_redis_open(const struct redis_setup *setup, struct lease **ret, struct error *e) must_use;
