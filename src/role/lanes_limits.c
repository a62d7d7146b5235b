/* What queues and tenants may still take: the book's rules against what is held. */
#include <assert.h>

#include "role/lanes_impl.h"

enum {
    RATE_AHEAD_MS = 50,  /* claimed before their token is there: so long, a token need not wait for a claim */
    RATE_AHEAD_PART = 8, /* but no more than this part of the slots */
    SHARE_PERCENT = 80,  /* of the slots, for one tenant among several */
};

static struct allowance closed_until(enum lane_gate gate, int64_t until_ms)
{
    return (struct allowance){ 0, { gate, until_ms } };
}

static struct allowance at_most(struct allowance a, int64_t n, enum lane_gate gate, int64_t until_ms)
{
    return n <= 0 ? closed_until(gate, until_ms) : (struct allowance){ .n = min_of(a.n, n) };
}

static void read_queue(struct lanes *l, struct queue_entry *q)
{
    if (q->generation == l->generation || !l->setup.book)
        return;
    q->generation = l->generation;
    q->rules = book_queue(l->setup.book, q->tenant->number, q->name, NULL);
}

static void read_tenant(struct lanes *l, struct tenant_entry *t)
{
    if (t->generation == l->generation || !l->setup.book)
        return;
    t->generation = l->generation;
    if (!book_tenant(l->setup.book, t->number, NULL, &t->rules))
        t->rules = (struct tenant_rules){ .number = t->number };
}

/* The queue's rate, or the one that it ramps up with; NULL: it has none. */
static struct bucket *bucket_of(struct queue_entry *q, int64_t now_ms)
{
    double rate = q->rules.rate, ramp = queue_ramp_rate(&q->rules, now_ms);
    int64_t burst = max_of(q->rules.burst, (int64_t)1);
    if (ramp > 0 && (rate <= 0 || ramp < rate)) {
        rate = ramp;
        burst = 1;
    }
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

/* Tokens that are there or will be within RATE_AHEAD_MS, less what is armed and will take one. */
static struct allowance rate_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    struct bucket *b = bucket_of(q, now_ms);
    if (!b)
        return NO_LIMIT;
    int64_t n = bucket_available(b, now_ms);
    int64_t next_ms = n ? now_ms : bucket_next_ms(b, now_ms);
    int64_t spare_ms = now_ms + RATE_AHEAD_MS - next_ms;
    int64_t ahead = spare_ms < 0 ? 0 : (int64_t)(b->rate * (double)spare_ms / 1000) + (n == 0);
    n += min_of(ahead, (int64_t)(l->setup.slots / RATE_AHEAD_PART + 1)) - (int64_t)q->armed;
    /* What is armed will fire and be told: then there is more to say. */
    int64_t until_ms = q->armed ? INT64_MAX : max_of(next_ms - RATE_AHEAD_MS, now_ms + 1);
    return at_most(NO_LIMIT, n, LANE_RATE, until_ms);
}

struct allowance lanes_queue_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    read_queue(l, q);
    if (queue_is_paused(&q->rules, now_ms))
        return closed_until(LANE_PAUSED, q->rules.paused_until_ms ? q->rules.paused_until_ms : INT64_MAX);
    struct allowance a = rate_allows(l, q, now_ms);
    if (a.n && q->rules.concurrent)
        a = at_most(a, q->rules.concurrent - (int64_t)q->held, LANE_CONCURRENCY, INT64_MAX);
    return a;
}

/* A tenant whose breaker is not closed goes on with one at a time, when its time has come. */
static struct allowance breaker_allows(struct lanes *l, const struct tenant_entry *t, int64_t now_ms)
{
    struct breaker_status s;
    if (!l->setup.breakers || !breakers_status(l->setup.breakers, t->number, S(""), now_ms, &s) ||
        s.state == BREAKER_CLOSED)
        return NO_LIMIT;
    return at_most(NO_LIMIT, s.until_ms <= now_ms, LANE_TENANT_BREAKER, s.until_ms);
}

static int64_t share_of(const struct lanes *l)
{
    if (!l->setup.book || book_tenant_count(l->setup.book) < 2)
        return INT64_MAX;
    return max_of((int64_t)(l->setup.slots * SHARE_PERCENT / 100), (int64_t)1);
}

struct allowance lanes_tenant_allows(struct lanes *l, struct tenant_entry *t, int64_t now_ms)
{
    read_tenant(l, t);
    if (t->rules.disabled)
        return closed_until(LANE_TENANT_DISABLED, INT64_MAX);
    struct allowance a = breaker_allows(l, t, now_ms);
    int64_t share = share_of(l), held = (int64_t)t->held;
    if (a.n && t->rules.max_running)
        a = at_most(a, t->rules.max_running - held, LANE_TENANT_LIMIT, INT64_MAX);
    if (a.n && share != INT64_MAX)
        a = at_most(a, share - held, LANE_TENANT_SHARE, INT64_MAX);
    return a;
}

struct lane_hold lanes_hold_of(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    struct allowance a = lanes_queue_allows(l, e->queue, now_ms);
    if (a.n)
        a = lanes_tenant_allows(l, e->queue->tenant, now_ms);
    return a.n ? (struct lane_hold){ LANE_NONE, 0 } : a.hold;
}

struct lane_facts lanes_facts(struct lanes *l, struct lane_entry *e)
{
    struct queue_entry *q = e->queue;
    read_queue(l, q);
    read_tenant(l, q->tenant);
    int64_t share = share_of(l), limit = q->tenant->rules.max_running;
    return (struct lane_facts){
        .queue_held = q->held,
        .tenant_held = q->tenant->held,
        .queue_limit = q->rules.concurrent,
        .tenant_limit = share == INT64_MAX ? limit
                        : limit            ? min_of(limit, share)
                                           : share,
        .next_due_ms = e->next_due_ms,
    };
}

bool lanes_takes_back(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    read_queue(l, q);
    read_tenant(l, t);
    int64_t queue_runs = (int64_t)(q->held - q->returning), tenant_runs = (int64_t)(t->held - t->returning);
    bool back = queue_is_paused(&q->rules, now_ms) || t->rules.disabled ||
                (q->rules.concurrent && queue_runs > q->rules.concurrent) ||
                (t->rules.max_running && tenant_runs > t->rules.max_running);
    q->returning += back;
    t->returning += back;
    return back;
}

/* ---- what was taken ---- */

void lanes_claimed(struct lanes *l, struct lane_entry *e)
{
    (void)l;
    e->queue->held++;
    e->queue->armed++;
    e->queue->tenant->held++;
}

void lanes_unarmed(struct lanes *l, struct lane_entry *e)
{
    assert(e->queue->armed > 0);
    e->queue->armed--;
    if (e->queue->waits && e->queue->has_bucket)
        lanes_reopen_queue(l, e->queue);
}

void lanes_settled(struct lanes *l, struct lane_entry *e, bool taken_back)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    assert(q->held > 0 && t->held > 0 && (!taken_back || (q->returning > 0 && t->returning > 0)));
    q->held--;
    t->held--;
    q->returning -= taken_back;
    t->returning -= taken_back;
    if (t->waits)
        lanes_reopen_tenant(l, t);
    else if (q->waits)
        lanes_reopen_queue(l, q);
}

bool lanes_may_fire(struct lanes *l, struct lane_entry *e, int64_t now_ms, int64_t *ret_when_ms)
{
    struct queue_entry *q = e->queue;
    bool may_have_one = q->rules.rate > 0 || q->rules.resumed_ms || q->rules.paused;
    struct bucket *b = may_have_one ? bucket_of(q, now_ms) : NULL;
    if (b && bucket_take(b, 1, now_ms) == 0) {
        *ret_when_ms = max_of(bucket_next_ms(b, now_ms), now_ms + 1);
        return false;
    }
    lanes_unarmed(l, e);
    return true;
}

void lanes_not_fired(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    (void)l;
    e->queue->armed++;
    if (e->queue->has_bucket)
        bucket_give_back(&e->queue->bucket, 1, now_ms);
}
