#pragma once
/* base/hash.h - SipHash-2-4: one keyed hash for tables, spreads, partitions and derived ids.
 *
 * The same key and bytes give the same value on every machine and in every release: spreads, `H` and occurrence ids
 * depend on it. Tables that hold users' keys use a random key, so that nobody can aim for collisions. */
#include "base/str.h"

struct hash_key {
    uint64_t k0, k1;
};

/* The key for everything that must come out the same everywhere, for ever. */
#define HASH_STABLE ((struct hash_key){ 0x42656c6672792076, 0x312e302073746162 })

uint64_t hash_bytes(struct hash_key key, struct str bytes);
