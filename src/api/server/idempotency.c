#include "api/server/idempotency.h"

#include <assert.h>

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

struct idempotency idempotency_of(int32_t tenant, struct str method, struct str path, struct str key, struct str body,
                                  int64_t now_ms)
{
    assert(key.n <= IDEMPOTENCY_KEY_MAX && path.n <= 512 && method.n <= 16);
    char text[IDEMPOTENCY_KEY_MAX + 512 + 16 + 2]; /* a blank stands in none of the first two */
    size_t n = 0;
    const struct str parts[] = { method, S(" "), path, S(" "), key };
    for (size_t i = 0; i < array_count(parts); i++) {
        memcpy(text + n, parts[i].p, parts[i].n);
        n += parts[i].n;
    }
    struct idempotency record = { .tenant = tenant, .created_ms = now_ms };
    crypto_sha256((struct str){ text, n }, record.key);
    crypto_sha256(body, record.payload);
    return record;
}

void flights_init(struct flights *f)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&f->map, key);
    pthread_mutex_init(&f->lock, NULL);
}

void flights_release(struct flights *f)
{
    assert(f->map.n == 0);
    map_release(&f->map);
    pthread_mutex_destroy(&f->lock);
}

static struct str key_of(const struct flight *flight)
{
    return (struct str){ (const char *)flight->key, sizeof flight->key };
}

bool flights_enter(struct flights *f, struct flight *flight, const struct idempotency *record)
{
    assert(!flight->held);
    memcpy(flight->key, &record->tenant, 4);
    memcpy(flight->key + 4, record->key, SHA256_SIZE);
    pthread_mutex_lock(&f->lock);
    flight->held = !map_get(&f->map, key_of(flight));
    if (flight->held)
        map_put(&f->map, key_of(flight), flight);
    pthread_mutex_unlock(&f->lock);
    return flight->held;
}

void flights_leave(struct flights *f, struct flight *flight)
{
    if (!flight->held)
        return;
    pthread_mutex_lock(&f->lock);
    map_remove(&f->map, key_of(flight));
    pthread_mutex_unlock(&f->lock);
    flight->held = false;
}
