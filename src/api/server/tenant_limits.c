#include "api/server/tenant_limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "core/sharing/bucket.h"

enum { SLICE_MS = 100, MS_PER_S = 1000, KEY_TEXT = 16, RETURN_MAX = 256, OP_ARENA = 4096 };

struct tenant_rate {
    int32_t tenant;
    struct bucket bucket;
    int64_t tokens;   /* from the store's bucket, not used yet */
    int64_t extra;    /* how many were asked for beyond the need */
    int64_t asked_ms; /* when the store was last asked */
};

static void tenant_limits_on_return_timer(struct timer *timer);

void tenant_limits_init(struct tenant_limits *l)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&l->buckets, key);
    l->return_timer.fire = tenant_limits_on_return_timer;
    pthread_mutex_init(&l->lock, NULL);
}

void tenant_limits_release(struct tenant_limits *l)
{
    map_each (&l->buckets, slot)
        free(slot->value);
    map_release(&l->buckets);
    pthread_mutex_destroy(&l->lock);
}

static bool tenant_limits_rules(const struct request *q, struct tenant_rules *ret)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    return catalog && catalog_cache_tenant(catalog, q->who.tenant, NULL, ret);
}

static struct tenant_rate *tenant_limits_rate(struct tenant_limits *l, int32_t tenant, int64_t per_second,
                                              int64_t now_ms)
{
    struct tenant_rate *r = map_get(&l->buckets, (struct str){ (const char *)&tenant, sizeof tenant });
    if (r) {
        bucket_set(&r->bucket, (double)per_second, per_second, now_ms);
        r->tokens = min_of(r->tokens, per_second);
        return r;
    }
    r = xnew(*r);
    r->tenant = tenant;
    bucket_init(&r->bucket, (double)per_second, per_second, now_ms);
    map_put(&l->buckets, (struct str){ (const char *)&r->tenant, sizeof r->tenant }, r);
    return r;
}

/* Takes from the local bucket. Returns how many tokens are left and, if there are too few, how many seconds to wait. */
static bool tenant_limits_take_local(struct request *q, int64_t per_second, int64_t count, int64_t *ret_left,
                                     int64_t *ret_wait_s)
{
    struct tenant_limits *l = &q->server->tenant_limits;
    pthread_mutex_lock(&l->lock);
    struct bucket *b = &tenant_limits_rate(l, q->who.tenant, per_second, q->now_ms)->bucket;
    int64_t there = bucket_available(b, q->now_ms);
    bool enough = there >= count;
    if (enough)
        bucket_take(b, count, q->now_ms);
    *ret_left = enough ? there - count : there;
    *ret_wait_s = enough ? 0 : max_of((count - there + per_second - 1) / per_second, (int64_t)1);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

static void tenant_limits_write_headers(struct response *a, int64_t per_second, int64_t left, int64_t wait_s)
{
    snprintf(a->rate_policy, sizeof a->rate_policy, "\"creates\";q=%lld;w=1", (long long)per_second);
    snprintf(a->rate, sizeof a->rate, "\"creates\";r=%lld;t=%lld", (long long)left, (long long)wait_s);
}

static enum handled tenant_limits_refuse(struct request *q, int64_t per_second, int64_t left, int64_t wait_s)
{
    struct response *a = &q->response;
    struct error e = { 0 };
    tenant_limits_write_headers(a, per_second, left, wait_s);
    error_set(&e, ERR_LIMIT, "is %lld for this tenant, and they are used up; wait %lld s, as Retry-After says",
              (long long)per_second, (long long)wait_s);
    error_in(&e, "creates_per_second");
    respond_error(a, &e);
    a->retry_after_s = (int)wait_s;
    return HANDLED_DONE;
}

/* ---- the bucket that all nodes share ---- */

static struct str tenant_limits_share_key(int32_t tenant, char out[KEY_TEXT])
{
    return (struct str){ out, (size_t)snprintf(out, KEY_TEXT, "c:%d", (int)tenant) };
}

/* A request to the store for tokens, on behalf of an API request that waits for it. */
struct tenant_limits_query {
    struct op_limit_take op;
    struct share share;
    char key[KEY_TEXT];
    struct request *q;
    int64_t count;
    route_handler *next;
};

/* Under the lock. Sets the timer that returns unused tokens to the store. */
static void tenant_limits_plan_return(struct tenant_limits *l, struct timers *timers)
{
    if (l->return_is_planned)
        return;
    l->return_is_planned = true;
    timers_add(timers, &l->return_timer, SLICE_MS);
}

/* Adds the tokens that the store gave. True: there are enough, and they are taken. */
static bool tenant_limits_receive(const struct tenant_limits_query *k)
{
    struct api_server *s = k->q->server;
    struct tenant_limits *l = &s->tenant_limits;
    bool answered = k->op.op.rc == ERR_OK;
    int64_t now_ms = clock_wall_ms(s->setup.clock);
    pthread_mutex_lock(&l->lock);
    struct tenant_rate *r = tenant_limits_rate(l, k->q->who.tenant, k->share.burst, now_ms);
    r->tokens += answered ? k->share.ret_tokens : 0;
    bool enough = answered && r->tokens >= k->count;
    if (enough)
        r->tokens -= k->count;
    else
        bucket_give_back(&r->bucket, k->count, now_ms);
    if (r->tokens)
        tenant_limits_plan_return(l, s->timers);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

static void tenant_limits_refuse_query(const struct tenant_limits_query *k)
{
    int64_t next_ms = k->share.ret_next_ms;
    struct error e = { 0 };
    if (k->op.op.rc) {
        request_fail(k->q, &k->op.op.error);
    } else if (next_ms == INT64_MAX) {
        error_set(&e, ERR_UNAVAILABLE, "this node is not a member of the cluster at the moment; try again");
        request_fail(k->q, &e);
    } else {
        int64_t wait_ms = max_of(next_ms - k->op.now_ms, k->count * MS_PER_S / k->share.burst);
        tenant_limits_refuse(k->q, k->share.burst, 0, max_of((wait_ms + MS_PER_S - 1) / MS_PER_S, (int64_t)1));
    }
}

static void tenant_limits_on_taken(struct op *op)
{
    struct tenant_limits_query *k = container_of(op, struct tenant_limits_query, op.op);
    bool enough = tenant_limits_receive(k);
    if (enough) {
        request_later(k->q, k->next);
    } else {
        tenant_limits_refuse_query(k);
        request_answer(k->q);
    }
    arena_release(&op->arena);
    free(k);
}

/* Under the lock. How many to ask for beyond the need: twice as many each time, while requests come within 100 ms. */
static int64_t tenant_limits_extra(struct tenant_rate *r, int64_t per_second, int64_t now_ms)
{
    bool again = now_ms - r->asked_ms < SLICE_MS;
    r->asked_ms = now_ms;
    r->extra = again ? min_of(max_of(r->extra * 2, (int64_t)1), per_second * SLICE_MS / MS_PER_S) : 0;
    return r->extra;
}

/* True: the tokens were here. False: *ret_want says how many to ask for. */
static bool tenant_limits_take_shared(struct request *q, int64_t per_second, int64_t count, int64_t *ret_want)
{
    struct tenant_limits *l = &q->server->tenant_limits;
    pthread_mutex_lock(&l->lock);
    struct tenant_rate *r = tenant_limits_rate(l, q->who.tenant, per_second, q->now_ms);
    bool enough = r->tokens >= count;
    if (enough)
        r->tokens -= count;
    else
        *ret_want = min_of(count + tenant_limits_extra(r, per_second, q->now_ms), per_second);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

static enum handled tenant_limits_ask_store(struct request *q, int64_t per_second, int64_t count, int64_t want,
                                            route_handler *next)
{
    const struct api_setup *setup = &q->server->setup;
    struct tenant_limits_query *k = xnew(*k);
    k->q = q;
    k->count = count;
    k->next = next;
    k->share = (struct share){ .key = tenant_limits_share_key(q->who.tenant, k->key),
                               .rate = (double)per_second,
                               .burst = per_second,
                               .want_tokens = want };
    k->op = (struct op_limit_take){ .op = { .kind = OP_LIMIT_TAKE, .done = tenant_limits_on_taken },
                                    .node = setup->node(setup->context),
                                    .v = &k->share,
                                    .n = 1,
                                    .now_ms = q->now_ms };
    arena_init(&k->op.op.arena, OP_ARENA);
    return request_submit_op(q, &k->op.op);
}

/* ---- unused tokens go back ---- */

struct tenant_limits_return {
    struct op_limit_take op;
    struct share v[RETURN_MAX];
    char keys[RETURN_MAX][KEY_TEXT];
};

static void tenant_limits_on_returned(struct op *op)
{
    arena_release(&op->arena);
    free(container_of(op, struct tenant_limits_return, op.op));
}

/* Under the lock. Collects the tokens that were not used for 100 ms. True: other tenants still hold fresh ones. */
static bool tenant_limits_collect_idle(struct tenant_limits *l, struct tenant_limits_return *g, int64_t now_ms)
{
    bool more = false;
    map_each (&l->buckets, slot) {
        struct tenant_rate *r = slot->value;
        if (!r->tokens)
            continue;
        bool is_fresh = now_ms - r->asked_ms < SLICE_MS && now_ms >= r->asked_ms;
        if (is_fresh || g->op.n == RETURN_MAX) {
            more = true;
        } else {
            size_t i = g->op.n++;
            g->v[i] = (struct share){ .key = tenant_limits_share_key(r->tenant, g->keys[i]),
                                      .rate = r->bucket.rate,
                                      .burst = r->bucket.burst,
                                      .give_back_tokens = r->tokens };
            r->tokens = 0;
        }
    }
    return more;
}

static void tenant_limits_on_return_timer(struct timer *timer)
{
    struct tenant_limits *l = container_of(timer, struct tenant_limits, return_timer);
    struct api_server *s = container_of(l, struct api_server, tenant_limits);
    assert_owned(timers_thread(s->timers));
    struct tenant_limits_return *g = xnew(*g);
    int64_t now_ms = clock_wall_ms(s->setup.clock);
    g->op = (struct op_limit_take){ .op = { .kind = OP_LIMIT_TAKE, .done = tenant_limits_on_returned },
                                    .v = g->v,
                                    .now_ms = now_ms };
    pthread_mutex_lock(&l->lock);
    l->return_is_planned = false;
    if (tenant_limits_collect_idle(l, g, now_ms))
        tenant_limits_plan_return(l, s->timers);
    pthread_mutex_unlock(&l->lock);
    if (g->op.n == 0) {
        free(g);
        return;
    }
    g->op.node = s->setup.node(s->setup.context);
    arena_init(&g->op.op.arena, OP_ARENA);
    writer_submit(s->setup.writer, &g->op.op);
}

/* ---- checks of a create ---- */

enum handled tenant_limits_take(struct request *q, struct reader *r, size_t count, route_handler *next)
{
    struct tenant_rules t;
    if (!count || !tenant_limits_rules(q, &t) || !t.creates_per_second)
        return next(q, r);
    int64_t left, wait_s, want, per_second = t.creates_per_second;
    if ((int64_t)count > per_second) {
        respond_problem(&q->response, PROBLEM_TOO_LARGE,
                        "the tenant may create %lld tasks per second; a batch may have at most as many",
                        (long long)per_second);
        return HANDLED_DONE;
    }
    if (!tenant_limits_take_local(q, per_second, (int64_t)count, &left, &wait_s))
        return tenant_limits_refuse(q, per_second, left, wait_s);
    tenant_limits_write_headers(&q->response, per_second, left, 1);
    if (!q->server->setup.node || tenant_limits_take_shared(q, per_second, (int64_t)count, &want))
        return next(q, r);
    return tenant_limits_ask_store(q, per_second, (int64_t)count, want, next);
}

void tenant_limits_apply(struct request *q, struct op_insert *op)
{
    struct tenant_rules t;
    if (!op->count || !tenant_limits_rules(q, &t))
        return;
    op->max_pending = t.max_pending;
    op->max_recurring = t.max_recurring;
}

void tenant_limits_apply_also(struct request *q, struct op_put *op)
{
    struct tenant_rules t;
    if (op->also && tenant_limits_rules(q, &t))
        op->max_pending = t.max_pending;
}

int64_t tenant_limits_payload_bytes(const struct request *q)
{
    struct tenant_rules t;
    return tenant_limits_rules(q, &t) ? t.payload_bytes : 0;
}
