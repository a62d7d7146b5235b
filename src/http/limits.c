#include "http/limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bucket.h"
#include "http/impl.h"

struct rate {
    int32_t tenant;
    struct bucket bucket;
};

void limits_init(struct limits *l)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&l->buckets, key);
    pthread_mutex_init(&l->lock, NULL);
}

void limits_release(struct limits *l)
{
    map_each (&l->buckets, slot)
        free(slot->value);
    map_release(&l->buckets);
    pthread_mutex_destroy(&l->lock);
}

static bool rules_of(const struct request *q, struct tenant_rules *ret)
{
    const struct book *book = q->server->setup.book;
    return book && book_tenant(book, q->who.tenant, NULL, ret);
}

static struct rate *rate_of(struct limits *l, int32_t tenant, int64_t per_second, int64_t now_ms)
{
    struct rate *r = map_get(&l->buckets, (struct str){ (const char *)&tenant, sizeof tenant });
    if (r) {
        bucket_set(&r->bucket, (double)per_second, per_second, now_ms);
        return r;
    }
    r = xnew(*r);
    r->tenant = tenant;
    bucket_init(&r->bucket, (double)per_second, per_second, now_ms);
    map_put(&l->buckets, (struct str){ (const char *)&r->tenant, sizeof r->tenant }, r);
    return r;
}

/* What is left, and how long until there is as much as was wanted. */
static bool take_tokens(struct request *q, int64_t per_second, int64_t count, int64_t *ret_left, int64_t *ret_wait_s)
{
    struct limits *l = &q->server->tenant_limits;
    pthread_mutex_lock(&l->lock);
    struct bucket *b = &rate_of(l, q->who.tenant, per_second, q->now_ms)->bucket;
    int64_t there = bucket_available(b, q->now_ms);
    bool enough = there >= count;
    if (enough)
        bucket_take(b, count, q->now_ms);
    *ret_left = enough ? there - count : there;
    *ret_wait_s = enough ? 0 : max_of((count - there + per_second - 1) / per_second, (int64_t)1);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

bool limits_take(struct request *q, size_t count)
{
    struct tenant_rules t;
    if (!count || !rules_of(q, &t) || !t.creates_per_second)
        return true;
    struct response *a = &q->response;
    int64_t left, wait_s, per_second = t.creates_per_second;
    if ((int64_t)count > per_second) {
        respond_problem(a, PROBLEM_TOO_LARGE, "the tenant may create %lld tasks a second: a batch may have as many",
                        (long long)per_second);
        return false;
    }
    bool enough = take_tokens(q, per_second, (int64_t)count, &left, &wait_s);
    snprintf(a->rate_policy, sizeof a->rate_policy, "\"creates\";q=%lld;w=1", (long long)per_second);
    snprintf(a->rate, sizeof a->rate, "\"creates\";r=%lld;t=%d", (long long)left, enough ? 1 : (int)wait_s);
    if (enough)
        return true;
    struct error e = { 0 };
    error_set(&e, ERR_LIMIT, "is %lld for this tenant, and they are used up; wait a moment", (long long)per_second);
    error_in(&e, "creates_per_second");
    respond_error(a, &e);
    a->retry_after_s = (int)wait_s;
    return false;
}

void limits_apply(struct request *q, struct op_insert *op)
{
    struct tenant_rules t;
    if (!op->count || !rules_of(q, &t))
        return;
    op->max_pending = t.max_pending;
    op->max_recurring = t.max_recurring;
}

int64_t limits_payload_bytes(const struct request *q)
{
    struct tenant_rules t;
    return rules_of(q, &t) ? t.payload_bytes : 0;
}
