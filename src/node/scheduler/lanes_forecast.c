/* What explain asks about times to come. Nothing here changes what is claimed. */
#include "node/scheduler/lanes_internal.h"

/* Of a rate, from a moment on. */
struct rate_at {
    double rate;
    int64_t burst;
    double level; /* tokens at that moment */
};

/* A rate that the ramp after a pause lowers begins with one token. */
static struct rate_at lanes_rate_at(struct queue_entry *q, int64_t from_ms, int64_t now_ms)
{
    struct rate_at r;
    r.rate = lanes_rate(q, from_ms, &r.burst);
    r.level = (double)r.burst;
    if (r.rate <= 0)
        return r;
    struct bucket *b = lanes_bucket(q, now_ms);
    if (b)
        r.level = bucket_level(b, now_ms) + r.rate * (double)(from_ms - now_ms) / 1000;
    r.level = min_of(r.level, (double)r.burst);
    return r;
}

static int64_t lanes_ms_for(double tokens, double rate)
{
    enum { FOREVER_MS = 1 << 30 };
    double ms = tokens > 0 ? tokens * 1000 / rate : 0;
    return ms > FOREVER_MS ? FOREVER_MS : (int64_t)ms;
}

/* Earliest: no token is lost because the bucket is full. Latest: all that come do so just before the task. */
struct lanes_rate_forecast lanes_forecast_rate(struct lanes *l, struct lane_entry *e,
                                               const struct lanes_rate_question *q, int64_t now_ms)
{
    lanes_read_queue(l, e->queue);
    struct rate_at r = lanes_rate_at(e->queue, q->from_ms, now_ms);
    if (r.rate <= 0)
        return (struct lanes_rate_forecast){ 0 };
    double needed = (double)(q->overdue + q->coming - q->mortal + 1),
           gone = r.rate * (double)(q->at_ms - q->from_ms) / 1000;
    int64_t earliest_ms = max_of(q->at_ms, q->from_ms + lanes_ms_for(needed - r.level, r.rate));
    double left = r.level + gone - (double)q->overdue; /* at at_ms; negative: so many still wait */
    double short_by = (double)(q->coming + q->maybe) + 1 - min_of(left, (double)r.burst);
    int64_t latest_ms = q->at_ms + lanes_ms_for(short_by, r.rate);
    return (struct lanes_rate_forecast){
        .rate = r.rate,
        .shared = l->shares != NULL,
        .earliest_ms = earliest_ms,
        .latest_ms = max_of(latest_ms, earliest_ms),
    };
}

bool lanes_queue_has_others(const struct lane_entry *e, int64_t until_ms)
{
    list_each (&e->queue->lanes, link) {
        const struct lane_entry *other = container_of(link, struct lane_entry, of_queue);
        if (other != e && (other->ready.n || other->next_due_ms <= until_ms))
            return true;
    }
    return false;
}

static bool lanes_differ_by_host_at_most(const struct lane *a, const struct lane *b)
{
    struct lane other = *a;
    other.host = b->host;
    return lane_eq(&other, b);
}

bool lanes_tenant_has_others(const struct lane_entry *e, int64_t until_ms)
{
    list_each (&e->queue->tenant->queues, of_tenant) {
        const struct queue_entry *q = container_of(of_tenant, struct queue_entry, of_tenant);
        list_each (&q->lanes, link) {
            const struct lane_entry *other = container_of(link, struct lane_entry, of_queue);
            if ((other->ready.n || other->next_due_ms <= until_ms) &&
                !lanes_differ_by_host_at_most(&other->lane, &e->lane))
                return true;
        }
    }
    return false;
}

/* Limits of running tasks and busy hosts let one task go when another ends: places are passed on, not taken. */
static bool lane_may_open_by(const struct lane_entry *e, int64_t until_ms)
{
    if (e->place != LANE_CLOSED || e->gate == LANE_NONE)
        return false;
    return e->gate == LANE_BREAKER || (e->at.at && e->at.key <= until_ms);
}

bool lanes_may_open_by(const struct lanes *l, int64_t until_ms)
{
    for (size_t i = 0; i < l->n; i++)
        if (lane_may_open_by(l->v[i], until_ms))
            return true;
    return false;
}

static size_t lanes_line_waiting(const struct line_entry *line)
{
    size_t n = 0;
    list_each (&line->lanes, link) {
        const struct lane_entry *e = container_of(link, struct lane_entry, of_line);
        n += e->ready.n || e->next_due_ms != INT64_MAX;
    }
    return n;
}

struct lanes_breaker_forecast lanes_forecast_breaker(const struct lanes *l, int32_t tenant, struct str host)
{
    const struct host_entry *h = lanes_find_host(l, tenant, host);
    struct lanes_breaker_forecast ret = { 0 };
    if (!h)
        return ret;
    ret.open = h->open;
    ret.until_ms = h->until_ms;
    ret.trial_runs = h->held > 0;
    list_each (&h->lines, link)
        ret.lanes += lanes_line_waiting(container_of(link, struct line_entry, of_host));
    return ret;
}
