#include "api/server/tenant_limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "core/sharing/bucket.h"

enum { SLICE_MS = 100, MS_PER_S = 1000, KEY_TEXT = 16, GIVEN_BACK_MAX = 256, OP_ARENA = 4096 };

struct rate {
    int32_t tenant;
    struct bucket bucket;
    int64_t tokens;   /* the store's, at hand */
    int64_t extra;    /* how many it was asked for beyond what was needed */
    int64_t asked_ms; /* when it was last asked, or gave some */
};

static void give_back(struct timer *timer);

void limits_init(struct limits *l)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&l->buckets, key);
    l->give_back.fire = give_back;
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
    const struct catalog_cache *catalog = q->server->setup.catalog;
    return catalog && catalog_cache_tenant(catalog, q->who.tenant, NULL, ret);
}

static struct rate *rate_of(struct limits *l, int32_t tenant, int64_t per_second, int64_t now_ms)
{
    struct rate *r = map_get(&l->buckets, (struct str){ (const char *)&tenant, sizeof tenant });
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

static void tell_rate(struct response *a, int64_t per_second, int64_t left, int64_t wait_s)
{
    snprintf(a->rate_policy, sizeof a->rate_policy, "\"creates\";q=%lld;w=1", (long long)per_second);
    snprintf(a->rate, sizeof a->rate, "\"creates\";r=%lld;t=%lld", (long long)left, (long long)wait_s);
}

static enum handled refuse(struct request *q, int64_t per_second, int64_t left, int64_t wait_s)
{
    struct response *a = &q->response;
    struct error e = { 0 };
    tell_rate(a, per_second, left, wait_s);
    error_set(&e, ERR_LIMIT, "is %lld for this tenant, and they are used up; wait a moment", (long long)per_second);
    error_in(&e, "creates_per_second");
    respond_error(a, &e);
    a->retry_after_s = (int)wait_s;
    return HANDLED_DONE;
}

/* ---- of all nodes together ---- */

static struct str share_key(int32_t tenant, char out[KEY_TEXT])
{
    return (struct str){ out, (size_t)snprintf(out, KEY_TEXT, "c:%d", (int)tenant) };
}

/* A question to the store on behalf of a request, which waits for its answer. */
struct ask {
    struct op_limit_take op;
    struct share share;
    char key[KEY_TEXT];
    struct request *q;
    int64_t count;
    route_handler *next;
};

/* Under the lock. What lies idle goes back before long. */
static void plan_give_back(struct limits *l, struct timers *timers)
{
    if (l->giving_back)
        return;
    l->giving_back = true;
    timers_add(timers, &l->give_back, SLICE_MS);
}

/* What the store has given is at hand; true if it is enough, and taken. */
static bool receive(const struct ask *k)
{
    struct api_server *s = k->q->server;
    struct limits *l = &s->tenant_limits;
    bool answered = k->op.op.rc == ERR_OK;
    int64_t now_ms = clock_wall_ms(s->setup.clock);
    pthread_mutex_lock(&l->lock);
    struct rate *r = rate_of(l, k->q->who.tenant, k->share.burst, now_ms);
    r->tokens += answered ? k->share.ret_tokens : 0;
    bool enough = answered && r->tokens >= k->count;
    if (enough)
        r->tokens -= k->count;
    else
        bucket_give_back(&r->bucket, k->count, now_ms);
    if (r->tokens)
        plan_give_back(l, s->timers);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

static void refuse_asked(const struct ask *k)
{
    int64_t next_ms = k->share.ret_next_ms;
    struct error e = { 0 };
    if (k->op.op.rc) {
        request_fail(k->q, &k->op.op.error);
    } else if (next_ms == INT64_MAX) {
        error_set(&e, ERR_UNAVAILABLE, "this node is not among the cluster's at the moment; try again");
        request_fail(k->q, &e);
    } else {
        int64_t wait_ms = max_of(next_ms - k->op.now_ms, k->count * MS_PER_S / k->share.burst);
        refuse(k->q, k->share.burst, 0, max_of((wait_ms + MS_PER_S - 1) / MS_PER_S, (int64_t)1));
    }
}

static void answered(struct op *op)
{
    struct ask *k = container_of(op, struct ask, op.op);
    bool enough = receive(k);
    if (enough) {
        request_later(k->q, k->next);
    } else {
        refuse_asked(k);
        request_answer(k->q);
    }
    arena_release(&op->arena);
    free(k);
}

/* Under the lock: what is asked for beyond the need grows while it is asked for again and again. */
static int64_t extra_of(struct rate *r, int64_t per_second, int64_t now_ms)
{
    bool again = now_ms - r->asked_ms < SLICE_MS;
    r->asked_ms = now_ms;
    r->extra = again ? min_of(max_of(r->extra * 2, (int64_t)1), per_second * SLICE_MS / MS_PER_S) : 0;
    return r->extra;
}

/* True: they were at hand; else *ret_want is how many to ask for. */
static bool take_shared(struct request *q, int64_t per_second, int64_t count, int64_t *ret_want)
{
    struct limits *l = &q->server->tenant_limits;
    pthread_mutex_lock(&l->lock);
    struct rate *r = rate_of(l, q->who.tenant, per_second, q->now_ms);
    bool enough = r->tokens >= count;
    if (enough)
        r->tokens -= count;
    else
        *ret_want = min_of(count + extra_of(r, per_second, q->now_ms), per_second);
    pthread_mutex_unlock(&l->lock);
    return enough;
}

static enum handled ask(struct request *q, int64_t per_second, int64_t count, int64_t want, route_handler *next)
{
    const struct api_setup *setup = &q->server->setup;
    struct ask *k = xnew(*k);
    k->q = q;
    k->count = count;
    k->next = next;
    k->share = (struct share){
        .key = share_key(q->who.tenant, k->key), .rate = (double)per_second, .burst = per_second, .want_tokens = want
    };
    k->op = (struct op_limit_take){ .op = { .kind = OP_LIMIT_TAKE, .done = answered },
                                    .node = setup->node(setup->context),
                                    .v = &k->share,
                                    .n = 1,
                                    .now_ms = q->now_ms };
    arena_init(&k->op.op.arena, OP_ARENA);
    return request_hand_over(q, &k->op.op);
}

/* ---- giving back ---- */

struct giving {
    struct op_limit_take op;
    struct share v[GIVEN_BACK_MAX];
    char keys[GIVEN_BACK_MAX][KEY_TEXT];
};

static void given_back(struct op *op)
{
    arena_release(&op->arena);
    free(container_of(op, struct giving, op.op));
}

/* Under the lock: takes it out of those that have had some for a slice's time. True: some have it still. */
static bool gather_idle(struct limits *l, struct giving *g, int64_t now_ms)
{
    bool more = false;
    map_each (&l->buckets, slot) {
        struct rate *r = slot->value;
        if (!r->tokens)
            continue;
        bool is_fresh = now_ms - r->asked_ms < SLICE_MS && now_ms >= r->asked_ms;
        if (is_fresh || g->op.n == GIVEN_BACK_MAX) {
            more = true;
        } else {
            size_t i = g->op.n++;
            g->v[i] = (struct share){ .key = share_key(r->tenant, g->keys[i]),
                                      .rate = r->bucket.rate,
                                      .burst = r->bucket.burst,
                                      .give_back_tokens = r->tokens };
            r->tokens = 0;
        }
    }
    return more;
}

static void give_back(struct timer *timer)
{
    struct limits *l = container_of(timer, struct limits, give_back);
    struct api_server *s = container_of(l, struct api_server, tenant_limits);
    struct giving *g = xnew(*g);
    int64_t now_ms = clock_wall_ms(s->setup.clock);
    g->op = (struct op_limit_take){ .op = { .kind = OP_LIMIT_TAKE, .done = given_back }, .v = g->v, .now_ms = now_ms };
    pthread_mutex_lock(&l->lock);
    l->giving_back = false;
    if (gather_idle(l, g, now_ms))
        plan_give_back(l, s->timers);
    pthread_mutex_unlock(&l->lock);
    if (g->op.n == 0) {
        free(g);
        return;
    }
    g->op.node = s->setup.node(s->setup.context);
    arena_init(&g->op.op.arena, OP_ARENA);
    writer_submit(s->setup.writer, &g->op.op);
}

/* ---- what a create asks ---- */

enum handled limits_take(struct request *q, struct reader *r, size_t count, route_handler *next)
{
    struct tenant_rules t;
    if (!count || !rules_of(q, &t) || !t.creates_per_second)
        return next(q, r);
    int64_t left, wait_s, want, per_second = t.creates_per_second;
    if ((int64_t)count > per_second) {
        respond_problem(&q->response, PROBLEM_TOO_LARGE,
                        "the tenant may create %lld tasks a second: a batch may have as many", (long long)per_second);
        return HANDLED_DONE;
    }
    if (!take_tokens(q, per_second, (int64_t)count, &left, &wait_s))
        return refuse(q, per_second, left, wait_s);
    tell_rate(&q->response, per_second, left, 1);
    if (!q->server->setup.node || take_shared(q, per_second, (int64_t)count, &want))
        return next(q, r);
    return ask(q, per_second, (int64_t)count, want, next);
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
