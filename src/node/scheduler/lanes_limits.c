/* What queues and tenants may still run: their rules against the tasks that are held. */
#include <assert.h>
#include <stdio.h>

#include "node/scheduler/lanes_internal.h"

enum {
    NAME_ARENA = 1 << 16,
    RATE_AHEAD_MS = 50,  /* tasks are claimed so long before their token is there, so that no token waits for a claim */
    RATE_AHEAD_PART = 8, /* but not more than this fraction of the slots */
};

static struct allowance allowance_none_until(enum lane_gate gate, int64_t until_ms)
{
    return (struct allowance){ 0, { gate, until_ms } };
}

static struct allowance allowance_at_most(struct allowance a, int64_t n, enum lane_gate gate, int64_t until_ms)
{
    return n <= 0 ? allowance_none_until(gate, until_ms) : (struct allowance){ .n = min_of(a.n, n) };
}

void lanes_read_queue(struct lanes *l, struct queue_entry *q)
{
    if (q->generation == l->generation || !l->setup.catalog)
        return;
    q->generation = l->generation;
    q->rules = catalog_cache_queue(l->setup.catalog, q->tenant->number, q->name, NULL);
}

/* Its rules, and its name, which never changes. */
static void lanes_load_tenant(struct lanes *l, struct tenant_entry *t)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, NAME_ARENA);
    if (!catalog_cache_tenant(l->setup.catalog, t->number, &a, &t->rules))
        t->rules = (struct tenant_rules){ .number = t->number };
    if (t->rules.name.n && !t->name) {
        char *at = t->name = xmalloc(str_pack_size(t->rules.name));
        (void)str_pack(t->rules.name, &at);
    }
    t->rules.name = S("");
}

void lanes_read_tenant(struct lanes *l, struct tenant_entry *t)
{
    if (t->generation == l->generation || !l->setup.catalog)
        return;
    t->generation = l->generation;
    lanes_load_tenant(l, t);
}

double lanes_rate(const struct queue_entry *q, int64_t now_ms, int64_t *ret_burst)
{
    double rate = q->rules.rate, ramp = queue_ramp_rate(&q->rules, now_ms);
    bool ramps = ramp > 0 && (rate <= 0 || ramp < rate);
    *ret_burst = ramps ? 1 : max_of(q->rules.burst, (int64_t)1);
    return ramps ? ramp : max_of(rate, 0.0);
}

struct bucket *lanes_bucket(struct queue_entry *q, int64_t now_ms)
{
    int64_t burst;
    double rate = lanes_rate(q, now_ms, &burst);
    if (rate <= 0) {
        q->has_bucket = false;
        return NULL;
    }
    if (q->has_bucket)
        bucket_set(&q->bucket, rate, burst, now_ms);
    else
        bucket_init(&q->bucket, rate, burst, now_ms);
    q->has_bucket = true;
    return &q->bucket;
}

/* ---- limits that are shared with other nodes ---- */

static void lanes_share_queue_limit(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    char key[SHARE_KEY_MAX];
    int64_t burst;
    double rate = lanes_rate(q, now_ms, &burst);
    if (!q->share && rate <= 0 && !q->rules.concurrent)
        return;
    if (!q->share) {
        size_t n = (size_t)snprintf(key, sizeof key, "q:%d:" STR_FMT, (int)q->tenant->number, STR_ARG(q->name));
        assert(n < sizeof key);
        q->share = limit_shares_add(l->shares, (struct str){ key, n }, q, &q->armed, &q->held);
    }
    limit_shares_set_limits(l->shares, q->share, rate, burst, q->rules.concurrent);
}

static void lanes_share_tenant_limit(struct lanes *l, struct tenant_entry *t)
{
    static const size_t none = 0;
    char key[SHARE_KEY_MAX];
    if (!t->share && !t->rules.max_running)
        return;
    if (!t->share) {
        size_t n = (size_t)snprintf(key, sizeof key, "t:%d", (int)t->number);
        t->share = limit_shares_add(l->shares, (struct str){ key, n }, t, &none, &t->held);
    }
    limit_shares_set_limits(l->shares, t->share, 0, 0, t->rules.max_running);
}

void lanes_want_shares(struct lanes *l, struct queue_entry *q, struct moment now)
{
    if (!l->shares)
        return;
    lanes_read_queue(l, q);
    lanes_read_tenant(l, q->tenant);
    lanes_share_queue_limit(l, q, now.wall_ms);
    lanes_share_tenant_limit(l, q->tenant);
    l->wanted_ms = now.wall_ms;
    if (q->tenant->rules.disabled || queue_is_paused(&q->rules, now.wall_ms))
        return;
    if (q->share)
        limit_shares_want(l->shares, q->share, now);
    if (q->tenant->share)
        limit_shares_want(l->shares, q->tenant->share, now);
}

void lanes_wait_for_shares(struct lanes *l, struct queue_entry *q, enum lane_gate gate)
{
    if (gate == LANE_RATE && q->share)
        limit_shares_wait_for_tokens(l->shares, q->share);
    if (gate == LANE_CONCURRENCY && q->share)
        limit_shares_wait_for_places(l->shares, q->share);
    if (gate == LANE_TENANT_LIMIT && q->tenant->share)
        limit_shares_wait_for_places(l->shares, q->tenant->share);
}

void lanes_share_changed(void *context, struct limit_share *e)
{
    struct lanes *l = context;
    if (e->key[0] == 't')
        lanes_reopen_tenant(l, e->owner);
    else
        lanes_reopen_queue(l, e->owner);
}

/* Held tasks need a place also if nothing more of their queue is due. */
void lanes_read_limits(struct lanes *l)
{
    map_each (&l->queues, slot) {
        struct queue_entry *q = slot->value;
        lanes_read_queue(l, q);
        lanes_share_queue_limit(l, q, l->wanted_ms);
    }
    map_each (&l->tenants, slot) {
        struct tenant_entry *t = slot->value;
        lanes_read_tenant(l, t);
        lanes_share_tenant_limit(l, t);
    }
}

/* Tokens in hand, and those that will come while their tasks are claimed. If the rate is slow, none are expected:
 * another node may get the next one. */
static struct allowance lanes_shared_rate_allows(const struct lanes *l, const struct queue_entry *q)
{
    const struct limit_share *s = q->share;
    if (s->rate <= 0)
        return NO_LIMIT;
    int64_t ahead = (int64_t)(s->rate * RATE_AHEAD_MS / 1000);
    int64_t n = limit_shares_tokens_left(s) + min_of(ahead, (int64_t)(l->setup.slots / RATE_AHEAD_PART + 1));
    return allowance_at_most(NO_LIMIT, n, LANE_RATE, INT64_MAX);
}

/* ---- what may be claimed ---- */

/* Tokens that are there or will be within RATE_AHEAD_MS, less those that armed tasks will take. */
static struct allowance lanes_rate_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    if (l->shares)
        return q->share ? lanes_shared_rate_allows(l, q) : NO_LIMIT;
    struct bucket *b = lanes_bucket(q, now_ms);
    if (!b)
        return NO_LIMIT;
    int64_t n = bucket_available(b, now_ms);
    int64_t next_ms = n ? now_ms : bucket_next_ms(b, now_ms);
    int64_t spare_ms = now_ms + RATE_AHEAD_MS - next_ms;
    int64_t ahead = spare_ms < 0 ? 0 : (int64_t)(b->rate * (double)spare_ms / 1000) + (n == 0);
    n += min_of(ahead, (int64_t)(l->setup.slots / RATE_AHEAD_PART + 1)) - (int64_t)q->armed;
    /* an armed task will fire, and that reopens the lane */
    int64_t until_ms = q->armed ? INT64_MAX : max_of(next_ms - RATE_AHEAD_MS, now_ms + 1);
    return allowance_at_most(NO_LIMIT, n, LANE_RATE, until_ms);
}

static int64_t lanes_places_left(const struct limit_share *share, int64_t limit, size_t held)
{
    return share ? limit_shares_places_left(share) : limit - (int64_t)held;
}

struct allowance lanes_queue_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    lanes_read_queue(l, q);
    if (queue_is_paused(&q->rules, now_ms))
        return allowance_none_until(LANE_PAUSED, q->rules.paused_until_ms ? q->rules.paused_until_ms : INT64_MAX);
    lanes_read_tenant(l, q->tenant);
    if (q->tenant->rules.disabled) /* else it asks for shares that it does not want */
        return allowance_none_until(LANE_TENANT_DISABLED, INT64_MAX);
    struct allowance a = lanes_rate_allows(l, q, now_ms);
    if (a.n && q->rules.concurrent)
        a = allowance_at_most(a, lanes_places_left(q->share, q->rules.concurrent, q->held + q->leased),
                              LANE_CONCURRENCY, INT64_MAX);
    return a;
}

static struct allowance lanes_tenant_allows(struct lanes *l, struct tenant_entry *t)
{
    lanes_read_tenant(l, t);
    if (t->rules.disabled)
        return allowance_none_until(LANE_TENANT_DISABLED, INT64_MAX);
    if (!t->rules.max_running)
        return NO_LIMIT;
    return allowance_at_most(NO_LIMIT, lanes_places_left(t->share, t->rules.max_running, t->held + t->leased),
                             LANE_TENANT_LIMIT, INT64_MAX);
}

struct allowance lanes_share_allows(const struct lanes *l, const struct pool_tenant *t)
{
    int64_t share = lanes_tenant_share(l, t);
    return share == INT64_MAX ? NO_LIMIT
                              : allowance_at_most(NO_LIMIT, share - (int64_t)t->held, LANE_TENANT_SHARE, INT64_MAX);
}

/* How many calls the host of the line's tasks gets at once from this node, or from this node's part of the workers. */
static int64_t lanes_host_calls(const struct lanes *l, const struct pool_entry *p)
{
    size_t workers = l->fleet ? max_of(p->workers, (size_t)1) : 1, nodes = l->fleet ? l->terms.nodes : 1;
    return (int64_t)max_of(l->setup.host_calls * workers / nodes, (size_t)1);
}

static struct allowance lanes_host_allows(const struct host_entry *h, int64_t now_ms)
{
    if (!h || !h->open)
        return NO_LIMIT;
    if (now_ms < h->until_ms)
        return allowance_none_until(LANE_BREAKER, h->until_ms);
    return allowance_at_most(NO_LIMIT, 1 - (int64_t)h->held, LANE_BREAKER, INT64_MAX);
}

/* Other lines call the host, too. Without a pause, a task is claimed and put aside again and again. */
void lanes_on_host_busy(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    enum { BUSY_MS = 200 };
    (void)l;
    e->line->busy_until_ms = now_ms + BUSY_MS;
}

struct allowance lanes_line_allows(const struct lanes *l, const struct line_entry *line, int64_t now_ms)
{
    if (line->pool->nobody)
        return allowance_none_until(LANE_NO_WORKER, INT64_MAX);
    if (line->host && line->host->open)
        return lanes_host_allows(line->host, now_ms);
    if (!line->like->host.n || !l->setup.host_calls)
        return NO_LIMIT;
    if (line->busy_until_ms > l->now_ms)
        return allowance_none_until(LANE_HOST_BUSY, line->busy_until_ms);
    return allowance_at_most(NO_LIMIT, lanes_host_calls(l, line->pool) - (int64_t)line->held, LANE_HOST_BUSY,
                             INT64_MAX);
}

/* Control work of a tenant that runs all it may goes on: it may be what makes room. */
struct allowance lanes_tenant_allows_line(struct lanes *l, const struct line_entry *line)
{
    struct allowance a = lanes_tenant_allows(l, line->queue->tenant);
    return line->pool == l->control && a.n == 0 && a.hold.gate == LANE_TENANT_LIMIT ? NO_LIMIT : a;
}

/* The first gate of a line that nobody can run. Its limits do not matter. */
struct allowance lanes_nobody_allows(struct lanes *l, const struct line_entry *line, int64_t now_ms)
{
    struct queue_entry *q = line->queue;
    lanes_read_queue(l, q);
    lanes_read_tenant(l, q->tenant);
    if (queue_is_paused(&q->rules, now_ms))
        return allowance_none_until(LANE_PAUSED, q->rules.paused_until_ms ? q->rules.paused_until_ms : INT64_MAX);
    return allowance_none_until(q->tenant->rules.disabled ? LANE_TENANT_DISABLED : LANE_NO_WORKER, INT64_MAX);
}

struct lane_hold lanes_hold_of(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    if (e->line->pool->nobody)
        return lanes_nobody_allows(l, e->line, now_ms).hold;
    struct allowance a = lanes_queue_allows(l, e->queue, now_ms);
    if (a.n)
        a = lanes_tenant_allows_line(l, e->line);
    if (a.n)
        a = lanes_share_allows(l, e->line->tenant);
    if (a.n)
        a = lanes_line_allows(l, e->line, now_ms);
    if (a.n == 0 && a.hold.gate == LANE_RATE && e->queue->share && e->queue->share->next_ms > now_ms)
        a.hold.until_ms = e->queue->share->next_ms;
    return a.n ? (struct lane_hold){ LANE_NONE, 0 } : a.hold;
}

/* The places of a shared limit that this node wanted and did not get. */
static int64_t lanes_places_elsewhere(const struct limit_share *s)
{
    return s && s->concurrency && s->waits_places ? max_of(s->concurrency - s->places, (int64_t)0) : 0;
}

struct lane_facts lanes_facts(struct lanes *l, struct lane_entry *e)
{
    struct queue_entry *q = e->queue;
    const struct pool_entry *p = e->line->pool;
    size_t room[CLASSES];
    lanes_read_queue(l, q);
    lanes_read_tenant(l, q->tenant);
    lanes_pool_room(l, p, room);
    int64_t share = lanes_tenant_share(l, e->line->tenant), limit = q->tenant->rules.max_running;
    return (struct lane_facts){
        .queue_held = q->held,
        .tenant_held = q->tenant->held,
        .queue_limit = q->rules.concurrent,
        .tenant_limit = share == INT64_MAX ? limit
                        : limit            ? min_of(limit, share)
                                           : share,
        .queue_elsewhere = lanes_places_elsewhere(q->share),
        .tenant_elsewhere = lanes_places_elsewhere(q->tenant->share),
        .shared = l->shares != NULL,
        .next_due_ms = e->next_due_ms,
        .queue_ahead = q->ahead,
        .tenant_ahead = q->tenant->ahead,
        .queue_armed = q->armed,
        .queue_leased = q->leased,
        .tenant_leased = q->tenant->leased,
        .tenant_share = share,
        .tenant_pool_held = e->line->tenant->held,
        .pool_places = p->places,
        .pool_taken = p->held[CLASS_LOW] + p->held[CLASS_NORMAL] + p->held[CLASS_HIGH],
        .pool_slots = p->slots,
        .pool_workers = l->fleet && !l->terms.here ? p->workers : 0,
        .pool_room = room[lane_class(e)],
        .pool_waits = room[lane_class(e)] == 0,
    };
}

bool lanes_is_to_return(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    lanes_read_queue(l, q);
    lanes_read_tenant(l, t);
    int64_t queue_runs = (int64_t)(q->held - q->returning), tenant_runs = (int64_t)(t->held - t->returning);
    bool back = queue_is_paused(&q->rules, now_ms) || t->rules.disabled ||
                (q->rules.concurrent && queue_runs > q->rules.concurrent) ||
                (t->rules.max_running && tenant_runs > t->rules.max_running);
    q->returning += back;
    t->returning += back;
    return back;
}

bool lanes_may_retake(struct lanes *l, struct lane_entry *e, bool held, int64_t now_ms)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    int64_t burst;
    lanes_read_queue(l, q);
    lanes_read_tenant(l, t);
    if (queue_is_paused(&q->rules, now_ms) || t->rules.disabled)
        return false;
    return held || (lanes_rate(q, now_ms, &burst) <= 0 && !q->rules.concurrent && !t->rules.max_running);
}

/* ---- what was claimed ---- */

void lanes_on_claimed(struct lanes *l, struct lane_entry *e)
{
    (void)l;
    e->held++;
    e->line->held++;
    if (e->line->host)
        e->line->host->held++;
    e->line->tenant->held++;
    e->line->pool->held[lane_class(e)]++;
    e->queue->held++;
    e->queue->armed++;
    e->queue->tenant->held++;
}

void lanes_on_unarmed(struct lanes *l, struct lane_entry *e)
{
    assert(e->queue->armed > 0);
    e->queue->armed--;
    if (e->queue->share)
        limit_shares_on_used_less(l->shares, e->queue->share);
    if (e->queue->waits && (e->queue->has_bucket || e->queue->share))
        lanes_reopen_queue(l, e->queue);
}

static void lanes_settled_in_line(struct lanes *l, struct lane_entry *e)
{
    struct line_entry *line = e->line;
    assert(e->held > 0 && line->held > 0 && line->tenant->held > 0 && line->pool->held[lane_class(e)] > 0);
    size_t room[CLASSES];
    lanes_pool_room(l, line->pool, room);
    for (int c = 0; c < CLASSES; c++)
        line->pool->full_ms[c] = room[c] ? line->pool->full_ms[c] : l->now_ms;
    e->held--;
    line->held--;
    line->tenant->held--;
    line->pool->held[lane_class(e)]--;
    line->pool->ended++;
    if (line->host)
        lanes_host_settled(l, line->host);
    if (line->waits)
        lanes_reopen_line(l, line);
}

static void lanes_settled_in_queue(struct lanes *l, struct queue_entry *q)
{
    struct tenant_entry *t = q->tenant;
    assert(q->held > 0 && t->held > 0);
    q->held--;
    t->held--;
    if (q->share)
        limit_shares_on_used_less(l->shares, q->share);
    if (t->share)
        limit_shares_on_used_less(l->shares, t->share);
    if (t->waits)
        lanes_reopen_tenant(l, t);
    else if (q->waits)
        lanes_reopen_queue(l, q);
}

void lanes_on_settled(struct lanes *l, struct lane_entry *e, bool taken_back)
{
    struct queue_entry *q = e->queue;
    assert(!taken_back || (q->returning > 0 && q->tenant->returning > 0));
    q->returning -= taken_back;
    q->tenant->returning -= taken_back;
    lanes_settled_in_line(l, e);
    lanes_settled_in_queue(l, q);
}

static bool lanes_take_token(struct lanes *l, struct queue_entry *q, int64_t now_ms, int64_t *ret_when_ms)
{
    if (l->shares) {
        bool limited = q->share && q->share->rate > 0;
        *ret_when_ms = now_ms + LIMIT_SHARES_TAKE_AGAIN_MS; /* the store's answer may be here by then */
        return !limited || limit_shares_take_token(l->shares, q->share);
    }
    bool may_have_one = q->rules.rate > 0 || q->rules.resumed_ms || q->rules.paused;
    struct bucket *b = may_have_one ? lanes_bucket(q, now_ms) : NULL;
    if (!b || bucket_take(b, 1, now_ms) > 0)
        return true;
    *ret_when_ms = max_of(bucket_next_ms(b, now_ms), now_ms + 1);
    return false;
}

bool lanes_may_fire(struct lanes *l, struct lane_entry *e, int64_t now_ms, int64_t *ret_when_ms)
{
    if (!lanes_take_token(l, e->queue, now_ms, ret_when_ms))
        return false;
    lanes_on_unarmed(l, e);
    return true;
}

static void lanes_put_back_token(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    if (q->share)
        limit_shares_put_back_token(l->shares, q->share);
    else if (q->has_bucket)
        bucket_give_back(&q->bucket, 1, now_ms);
}

void lanes_not_fired(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    e->queue->armed++;
    lanes_put_back_token(l, e->queue, now_ms);
}

void lanes_not_started(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    lanes_put_back_token(l, e->queue, now_ms);
    if (e->queue->has_bucket)
        lanes_reopen_queue(l, e->queue);
}

/* ---- leases ---- */

/* Tokens that are there: a lease takes its token when it is given. */
static struct allowance lanes_tokens_allow(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    if (l->shares)
        return q->share && q->share->rate > 0
                   ? allowance_at_most(NO_LIMIT, limit_shares_tokens_left(q->share), LANE_RATE, INT64_MAX)
                   : NO_LIMIT;
    struct bucket *b = lanes_bucket(q, now_ms);
    if (!b)
        return NO_LIMIT;
    int64_t n = bucket_available(b, now_ms) - (int64_t)q->armed;
    return allowance_at_most(NO_LIMIT, n, LANE_RATE, max_of(bucket_next_ms(b, now_ms), now_ms + 1));
}

/* An open round may claim all that its limits allow: until it is answered, it is not known what is left. */
static bool lanes_queue_is_asked(const struct queue_entry *q)
{
    list_each (&q->lanes, link)
        if (container_of(link, struct lane_entry, of_queue)->place == LANE_ASKED)
            return true;
    return false;
}

static bool lanes_tenant_is_asked(const struct tenant_entry *t)
{
    list_each (&t->queues, link)
        if (lanes_queue_is_asked(container_of(link, struct queue_entry, of_tenant)))
            return true;
    return false;
}

static struct allowance lanes_lease_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    struct tenant_entry *t = q->tenant;
    if (t->rules.disabled)
        return allowance_none_until(LANE_TENANT_DISABLED, INT64_MAX);
    if (queue_is_paused(&q->rules, now_ms))
        return allowance_none_until(LANE_PAUSED, q->rules.paused_until_ms ? q->rules.paused_until_ms : INT64_MAX);
    struct allowance a = lanes_tokens_allow(l, q, now_ms);
    bool queue_open = l->suspects_open || lanes_queue_is_asked(q),
         tenant_open = l->suspects_open || lanes_tenant_is_asked(t);
    if (a.n && q->rules.concurrent)
        a = allowance_at_most(a, queue_open ? 0 : lanes_places_left(q->share, q->rules.concurrent, q->held + q->leased),
                              LANE_CONCURRENCY, INT64_MAX);
    if (a.n && t->rules.max_running)
        a = allowance_at_most(a,
                              tenant_open ? 0 : lanes_places_left(t->share, t->rules.max_running, t->held + t->leased),
                              LANE_TENANT_LIMIT, INT64_MAX);
    return a;
}

int64_t lanes_lease_room(struct lanes *l, struct lane_entry *e, struct moment now, struct lane_hold *ret)
{
    lanes_read_queue(l, e->queue);
    lanes_read_tenant(l, e->queue->tenant);
    lanes_want_shares(l, e->queue, now);
    struct allowance a = lanes_lease_allows(l, e->queue, now.wall_ms);
    *ret = a.n ? (struct lane_hold){ LANE_NONE, 0 } : a.hold;
    if (a.n == 0)
        lanes_wait_for_shares(l, e->queue, a.hold.gate);
    return a.n;
}

void lanes_lease_begin(struct lanes *l, struct lane_entry *e, size_t n)
{
    (void)l;
    e->queue->held += n;
    e->queue->armed += n;
    e->queue->tenant->held += n;
}

/* The lease has begun: its token is used, also if it has become stale while the claim was under way. */
static void lanes_use_token(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    int64_t ignored;
    if (!l->shares)
        (void)lanes_take_token(l, q, now_ms, &ignored);
    else if (q->share && q->share->rate > 0)
        limit_shares_use_token(l->shares, q->share);
}

void lanes_lease_end(struct lanes *l, struct lane_entry *e, size_t n, size_t given, int64_t now_ms, bool counts)
{
    struct queue_entry *q = e->queue;
    assert(q->held >= n && q->armed >= n && q->tenant->held >= n && given <= n);
    for (size_t i = 0; i < given; i++)
        lanes_use_token(l, q, now_ms);
    q->leased += counts ? given : 0;
    q->tenant->leased += counts ? given : 0;
    if (!counts && q->share)
        limit_shares_spend(l->shares, q->share, (int64_t)given);
    if (!counts && q->tenant->share)
        limit_shares_spend(l->shares, q->tenant->share, (int64_t)given);
    for (size_t i = 0; i < n; i++) {
        lanes_on_unarmed(l, e);
        lanes_settled_in_queue(l, q);
    }
}

void lanes_lease_found(struct lanes *l, int32_t tenant, struct str queue)
{
    struct queue_entry *q =
        lanes_know(l, (struct lane){ .tenant = tenant, .queue = queue, .priority = PRIORITY_DEFAULT })->queue;
    q->leased++;
    q->tenant->leased++;
}

void lanes_lease_over(struct lanes *l, int32_t tenant, struct str queue)
{
    struct lane_entry *e =
        lanes_get(l, (struct lane){ .tenant = tenant, .queue = queue, .priority = PRIORITY_DEFAULT });
    if (!e || e->queue->leased == 0)
        return;
    e->queue->leased--;
    e->queue->tenant->leased -= e->queue->tenant->leased > 0;
    if (e->queue->tenant->waits)
        lanes_reopen_tenant(l, e->queue->tenant);
    else if (e->queue->waits)
        lanes_reopen_queue(l, e->queue);
}
