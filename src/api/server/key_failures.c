/* The addresses that are remembered are limited in number: the one whose last failure is oldest is forgotten first. */
#include "api/server/key_failures.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/sharing/bucket.h"
#include "port/crypto.h"

static const int64_t second_ns = 1000000000, address_log_ns = 60 * 1000000000LL;

static const char *const key_failure_names[] = {
#define X(id, name) [KEY_FAILURE_##id] = name,
    KEY_FAILURE_MAP(X)
#undef X
        NULL
};

struct key_failure_address {
    char key[PEER_KEY];
    struct list link;
    struct bucket bucket;
    int64_t unlogged;  /* failures since its last line in the log */
    int64_t logged_ns; /* 0: never */
};

void key_failures_init(struct key_failures *f, struct clock *clock, struct metrics *metrics)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    *f = (struct key_failures){ .clock = clock, .metrics = metrics };
    pthread_mutex_init(&f->lock, NULL);
    map_init(&f->addresses, key);
    list_init(&f->by_age);
}

static void key_failures_forget_oldest(struct key_failures *f)
{
    struct key_failure_address *a = container_of(list_pop(&f->by_age), struct key_failure_address, link);
    map_remove(&f->addresses, (struct str){ a->key, PEER_KEY });
    free(a);
}

void key_failures_release(struct key_failures *f)
{
    while (!list_empty(&f->by_age))
        key_failures_forget_oldest(f);
    map_release(&f->addresses);
    pthread_mutex_destroy(&f->lock);
}

static int64_t key_failures_now_ms(const struct key_failures *f)
{
    return clock_steady_ms(f->clock);
}

static struct key_failure_address *key_failures_address(struct key_failures *f, const union peer *peer)
{
    char key[PEER_KEY];
    struct key_failure_address *a = map_get(&f->addresses, peer_key(peer, key));
    if (a) {
        list_remove(&a->link);
    } else {
        if (f->addresses.n >= KEY_FAILURES_ADDRESSES)
            key_failures_forget_oldest(f);
        a = xnew(*a);
        bucket_init(&a->bucket, KEY_FAILURES_PER_SECOND, KEY_FAILURES_PER_SECOND, key_failures_now_ms(f));
        map_put(&f->addresses, peer_key(peer, a->key), a);
    }
    list_push(&f->by_age, &a->link);
    return a;
}

/* How many failures to log: 0 for none. One line a minute for an address, and one a second in all. */
static int64_t key_failures_to_log(struct key_failures *f, struct key_failure_address *a)
{
    int64_t now_ns = clock_steady_ns(f->clock), n = ++a->unlogged;
    if ((a->logged_ns && now_ns - a->logged_ns < address_log_ns) || (f->logged_ns && now_ns - f->logged_ns < second_ns))
        return 0;
    a->logged_ns = f->logged_ns = now_ns;
    a->unlogged = 0;
    return n;
}

struct key_refusal key_failures_add(struct key_failures *f, const union peer *peer, enum key_failure reason)
{
    char text[PEER_TEXT];
    if (reason == KEY_FAILURE_MISSING) {
        metric_add_labelled(f->metrics, METRIC_KEY_FAILURES, key_failure_names, reason, 1);
        return (struct key_refusal){ 0 };
    }
    pthread_mutex_lock(&f->lock);
    struct key_failure_address *a = key_failures_address(f, peer);
    if (reason == KEY_FAILURE_REFUSED && !bucket_take(&a->bucket, 1, key_failures_now_ms(f)))
        reason = KEY_FAILURE_LIMITED;
    int64_t n = key_failures_to_log(f, a);
    pthread_mutex_unlock(&f->lock);
    metric_add_labelled(f->metrics, METRIC_KEY_FAILURES, key_failure_names, reason, 1);
    if (n)
        log_warn("api_key_refused", kv_cstr("peer", peer_text(peer, text)),
                 kv_cstr("reason", key_failure_names[reason]), kv_i64("count", n));
    return (struct key_refusal){ reason == KEY_FAILURE_LIMITED, n, key_failure_names[reason] };
}
