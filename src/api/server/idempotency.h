#pragma once
/* api/server/idempotency.h - a request that comes twice is done once (R2.3).
 *
 * The record of a key is written in the transaction of what the request did, so it exists exactly if that happened. While the
 * first request is under way a second with its key is told so (409); later it gets the stored answer, or 422 if it asks
 * for something else. A request that was refused leaves no record: it may be mended and sent again under its key. */
#include <pthread.h>

#include "base/map.h"
#include "port/crypto.h"
#include "port/store.h"

enum { IDEMPOTENCY_KEY_MAX = 255 };

/* 1 to IDEMPOTENCY_KEY_MAX visible characters of ASCII, or blanks between them. */
enum err idempotency_check_key(struct str key, const char *field, struct error *e) must_use;

/* A record without its answer. The key of a path with an id in it is that of this id only. */
struct idempotency idempotency_of(int32_t tenant, struct str method, struct str path, struct str key, struct str body,
                                  int64_t now_ms);

/* The keys of requests under way in this process. */
struct flights {
    pthread_mutex_t lock;
    struct map map;
};

struct flight {
    uint8_t key[4 + SHA256_SIZE];
    bool held;
};

void flights_init(struct flights *f);
void flights_release(struct flights *f);
bool flights_enter(struct flights *f, struct flight *flight, const struct idempotency *record); /* false: it is taken */
void flights_leave(struct flights *f, struct flight *flight); /* nothing if not held */
