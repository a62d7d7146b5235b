#pragma once
/* workflow/definition_cache.h - compiled definitions by tenant and hash. A definition never changes, so a cached one is
 * always right. Those that were used least recently are dropped beyond the limit. The secret headers of a cached
 * definition are decrypted (workflow/definition_secrets.h). All functions: any thread; a reader belongs to its
 * thread. */
#include "core/flow/dag.h"
#include "port/secrets.h"
#include "port/store.h"

enum { DEFINITION_CACHE_BYTES = 64 << 20 };

struct definition_cache;

/* A definition in use: it is not freed before definition_release, also if the cache drops it. */
struct cached_definition {
    const struct dag *dag;
};

/* secrets: borrowed until it is freed; NULL: there is no key file. */
struct definition_cache *definition_cache_new(size_t bytes_max, const struct secrets *secrets);
void definition_cache_free(struct definition_cache *c); /* no definition is in use; NULL is fine */

/* ERR_NOT_FOUND: the store has no such definition. ERR_CORRUPT: it cannot be read. ERR_UNAVAILABLE: the store does not
 * answer, or the key file lacks a key of the definition. */
enum err definition_cache_get(struct definition_cache *c, struct reader *r, int32_t tenant,
                              const uint8_t hash[DEFINITION_HASH], struct cached_definition **ret,
                              struct error *e) must_use;
/* NULL is fine. */
void definition_release(struct cached_definition *d);
void definition_releasep(struct cached_definition **d); /* for cleanup_with */
