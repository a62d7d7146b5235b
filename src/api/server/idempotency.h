#pragma once
/* api/server/idempotency.h - a request with an Idempotency-Key that is sent twice is carried out once.
 *
 * The record of a key is written in the same transaction as the changes of its request, so it exists exactly if they
 * were made. If a second request comes with the same key:
 * - While the first is in progress, the second gets 409.
 * - Later, it gets the stored answer, or 422 if its body differs from the first.
 *
 * A refused request leaves no record. It may be corrected and sent again with the same key. */
#include <pthread.h>

#include "base/map.h"
#include "port/crypto.h"
#include "port/store.h"

enum { IDEMPOTENCY_KEY_MAX = 255 };

/* A key has 1 to IDEMPOTENCY_KEY_MAX printable ASCII characters (spaces are allowed). Any thread, like
 * idempotency_of. */
enum err idempotency_check_key(struct str key, const char *field, struct error *e) must_use;

/* A record without its answer. The record's key depends on method and path as well: the same key on another path is
 * another record. */
struct idempotency idempotency_of(int32_t tenant, struct str method, struct str path, struct str query, struct str key,
                                  struct str body, int64_t now_ms);

/* The keys of the requests in progress in this process. */
struct inflight_keys {
    pthread_mutex_t lock;
    struct map map;
};

struct inflight_key {
    uint8_t key[4 + SHA256_SIZE];
    bool added;
};

/* init and release: the thread that owns the server. add and remove: any thread. */
void inflight_keys_init(struct inflight_keys *f);
void inflight_keys_release(struct inflight_keys *f);
/* false: another request has the key */
bool inflight_keys_add(struct inflight_keys *f, struct inflight_key *key, const struct idempotency *record);
void inflight_keys_remove(struct inflight_keys *f,
                          struct inflight_key *inflight); /* does nothing if it was not added */
