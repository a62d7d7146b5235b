#include "api/server/idempotency.h"

#include <assert.h>
#include <stdlib.h>

enum err idempotency_check_key(struct str key, const char *field, struct error *e)
{
    if (key.n == 0 || key.n > IDEMPOTENCY_KEY_MAX)
        return error_field(e, field, "must be 1 to %d characters long", IDEMPOTENCY_KEY_MAX);
    for (size_t i = 0; i < key.n; i++) {
        char shown[STR_CHAR_TEXT];
        if (key.p[i] < ' ' || key.p[i] > '~')
            return error_field(e, field, "must be visible ASCII, but holds %s", str_show_char(key.p[i], shown));
    }
    return ERR_OK;
}

/* The query is part of what was asked for. Without one the hash is that of the body, as in records of earlier
 * releases. */
static void idempotency_add_query(struct idempotency *record, struct str query)
{
    if (query.n == 0)
        return;
    char *text = xmalloc(sizeof record->payload + query.n);
    memcpy(text, record->payload, sizeof record->payload);
    memcpy(text + sizeof record->payload, query.p, query.n);
    crypto_sha256((struct str){ text, sizeof record->payload + query.n }, record->payload);
    free(text);
}

struct idempotency idempotency_of(int32_t tenant, struct str method, struct str path, struct str query, struct str key,
                                  struct str body, int64_t now_ms)
{
    assert(key.n <= IDEMPOTENCY_KEY_MAX && path.n <= 512 && method.n <= 16);
    char text[IDEMPOTENCY_KEY_MAX + 512 + 16 + 2]; /* neither of the first two parts contains a space */
    size_t n = 0;
    const struct str parts[] = { method, S(" "), path, S(" "), key };
    for (size_t i = 0; i < array_count(parts); i++) {
        memcpy(text + n, parts[i].p, parts[i].n);
        n += parts[i].n;
    }
    struct idempotency record = { .tenant = tenant, .created_ms = now_ms };
    crypto_sha256((struct str){ text, n }, record.key);
    crypto_sha256(body, record.payload);
    idempotency_add_query(&record, query);
    return record;
}

void inflight_keys_init(struct inflight_keys *f)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&f->map, key);
    pthread_mutex_init(&f->lock, NULL);
}

void inflight_keys_release(struct inflight_keys *f)
{
    assert(f->map.n == 0);
    map_release(&f->map);
    pthread_mutex_destroy(&f->lock);
}

static struct str inflight_key_bytes(const struct inflight_key *inflight)
{
    return (struct str){ (const char *)inflight->key, sizeof inflight->key };
}

bool inflight_keys_add(struct inflight_keys *f, struct inflight_key *inflight, const struct idempotency *record)
{
    assert(!inflight->added);
    memcpy(inflight->key, &record->tenant, 4);
    memcpy(inflight->key + 4, record->key, SHA256_SIZE);
    pthread_mutex_lock(&f->lock);
    inflight->added = !map_get(&f->map, inflight_key_bytes(inflight));
    if (inflight->added)
        map_put(&f->map, inflight_key_bytes(inflight), inflight);
    pthread_mutex_unlock(&f->lock);
    return inflight->added;
}

void inflight_keys_remove(struct inflight_keys *f, struct inflight_key *inflight)
{
    if (!inflight->added)
        return;
    pthread_mutex_lock(&f->lock);
    map_remove(&f->map, inflight_key_bytes(inflight));
    pthread_mutex_unlock(&f->lock);
    inflight->added = false;
}
