#include "http/peer_buckets.h"

#include <stdlib.h>

#include "core/sharing/bucket.h"
#include "port/crypto.h"

struct peer_bucket {
    char key[PEER_KEY];
    struct list link;
    struct bucket bucket;
};

void peer_buckets_init(struct peer_buckets *b, double rate, int64_t burst, size_t max)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    *b = (struct peer_buckets){ .rate = rate, .burst = burst, .max = max };
    map_init(&b->rows, key);
    list_init(&b->by_age);
}

static void peer_buckets_forget_oldest(struct peer_buckets *b)
{
    struct peer_bucket *row = container_of(list_pop(&b->by_age), struct peer_bucket, link);
    map_remove(&b->rows, (struct str){ row->key, PEER_KEY });
    free(row);
}

void peer_buckets_release(struct peer_buckets *b)
{
    while (!list_empty(&b->by_age))
        peer_buckets_forget_oldest(b);
    map_release(&b->rows);
}

static struct peer_bucket *peer_buckets_open(struct peer_buckets *b, const union peer *peer, int64_t now_ms)
{
    char key[PEER_KEY];
    struct peer_bucket *row = map_get(&b->rows, peer_key(peer, key));
    if (row) {
        list_remove(&row->link);
    } else {
        if (b->rows.n >= b->max)
            peer_buckets_forget_oldest(b);
        row = xnew(*row);
        bucket_init(&row->bucket, b->rate, b->burst, now_ms);
        map_put(&b->rows, peer_key(peer, row->key), row);
    }
    list_push(&b->by_age, &row->link);
    return row;
}

bool peer_buckets_take(struct peer_buckets *b, const union peer *peer, int64_t now_ms, int64_t *ret_wait_ms)
{
    struct peer_bucket *row = peer_buckets_open(b, peer, now_ms);
    if (bucket_take(&row->bucket, 1, now_ms))
        return true;
    if (ret_wait_ms)
        *ret_wait_ms = bucket_next_ms(&row->bucket, now_ms) - now_ms;
    return false;
}
