/* The lock is taken for large bodies and answers only: small ones are not counted (connection.c). */
#include "http/budget.h"

#include <assert.h>
#include <stdlib.h>

struct budget_share {
    int32_t owner;
    size_t bytes;
};

static struct str budget_key(const int32_t *owner)
{
    return (struct str){ (const char *)owner, sizeof *owner };
}

void budget_init(struct budget *b, size_t max)
{
    *b = (struct budget){ .max = max, .share_max = max / (100 / BUDGET_SHARE_PERCENT) };
    pthread_mutex_init(&b->lock, NULL);
    map_init(&b->shares, HASH_STABLE); /* owners are numbers that the server gave */
}

void budget_release(struct budget *b)
{
    assert(b->shares.n == 0);
    map_release(&b->shares);
    pthread_mutex_destroy(&b->lock);
}

bool budget_take(struct budget *b, int32_t owner, size_t bytes)
{
    pthread_mutex_lock(&b->lock);
    struct budget_share *share = map_get(&b->shares, budget_key(&owner));
    size_t held = share ? share->bytes : 0, total = atomic_load(&b->total);
    bool fits = bytes <= b->share_max - min_of(held, b->share_max) && bytes <= b->max - min_of(total, b->max);
    if (fits && !share) {
        share = xnew(*share);
        share->owner = owner;
        map_put(&b->shares, budget_key(&share->owner), share);
    }
    if (fits) {
        share->bytes += bytes;
        atomic_store(&b->total, total + bytes);
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

void budget_give_back(struct budget *b, int32_t owner, size_t bytes)
{
    if (bytes == 0)
        return;
    pthread_mutex_lock(&b->lock);
    struct budget_share *share = map_get(&b->shares, budget_key(&owner));
    assert(share && share->bytes >= bytes);
    share->bytes -= bytes;
    atomic_fetch_sub(&b->total, bytes);
    if (share->bytes == 0)
        free(map_remove(&b->shares, budget_key(&owner)));
    pthread_mutex_unlock(&b->lock);
}
