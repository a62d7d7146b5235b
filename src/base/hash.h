#pragma once
/* base/hash.h - SipHash-2-4, the keyed hash for hash maps, spreads, partitions and derived ids.
 *
 * The same key and bytes give the same value on every machine and in every release: spreads, `H` in cron expressions
 * and occurrence ids depend on it. Maps whose keys come from users use a random hash key, so that nobody can construct
 * collisions. */
#include "base/str.h"

struct hash_key {
    uint64_t k0, k1;
};

/* The hash key for values that must be the same on every machine and in every release. */
#define HASH_STABLE ((struct hash_key){ 0x42656c6672792076, 0x312e302073746162 })

uint64_t hash_bytes(struct hash_key key, struct str bytes);
