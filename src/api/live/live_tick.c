/* Writes to the streams, on the timer thread. Only this thread frees a stream, so it may use one without the lock while
 * it writes.
 *
 * A write that does not fit is not repeated: its tasks count as folded, and if there were other events, the reader is
 * told that some are missing. So a slow reader gets the newest state when it reads again. */
#include "api/live/live_internal.h"

enum { CHECK_MS = 10000, RETRY_MS = 2000 };

/* What is written to a stream in one tick. */
struct live_piece {
    struct buf out;
    size_t tasks, others; /* events */
    uint64_t folded;
    bool has_gap;
};

static bool live_stream_wants(const struct live_stream *s, const struct live_event *e)
{
    if (e->kind == LIVE_TASK)
        return !s->filter || live_filter_wants(s->filter, e->task, e->parent, e->queue);
    bool is_seen = e->kind == LIVE_JOB || (e->kind == LIVE_NODE ? s->sees_nodes : s->sees_incidents);
    return is_seen && !s->filter;
}

static void live_add_id(const struct live_stream *s, uint64_t number, struct buf *out)
{
    buf_printf(out, "id: %s.%llu\n", s->live->name, (unsigned long long)number);
}

/* A line with an id and no data is no event, but the reader remembers the id. */
static void live_add_first(struct live_stream *s, struct live_piece *p)
{
    buf_printf(&p->out, "retry: %d\n", RETRY_MS);
    live_add_id(s, s->cursor, &p->out);
    buf_char(&p->out, '\n');
    s->has_begun = true;
}

static void live_add_gap(struct live_stream *s, struct live_piece *p)
{
    const struct live_part *part = &s->tenant->part;
    if (!live_part_has_since(part, s->cursor)) { /* more came than the log keeps */
        s->has_gap = true;
        s->cursor = part->before;
    }
    if (!s->has_gap)
        return;
    s->has_gap = false;
    p->has_gap = true;
    live_write_gap(&p->out);
    buf_char(&p->out, '\n');
}

static void live_add_events(struct live_stream *s, int64_t now_ms, struct live_piece *p)
{
    const struct live_part *part = &s->tenant->part;
    for (const struct live_event *e = live_part_since(part, s->cursor); e; e = live_part_next(part, e)) {
        if (p->out.n + e->text.n > LIVE_WRITE_MAX)
            return; /* the rest comes with the next tick */
        s->cursor = e->number;
        bool is_task = e->kind == LIVE_TASK, is_wanted = live_stream_wants(s, e);
        bool is_shown = is_wanted && (!is_task || live_window_take(&s->shown, now_ms));
        s->missed += is_wanted && !is_shown;
        if (!is_shown)
            continue;
        p->tasks += is_task;
        p->others += !is_task;
        live_add_id(s, e->number, &p->out);
        buf_add(&p->out, e->text);
        buf_char(&p->out, '\n');
    }
}

static void live_add_second(struct live_stream *s, int64_t now_ms, struct live_piece *p)
{
    struct live_counts c = live_counts_all(s->live, s->tenant, now_ms);
    uint64_t folded = live_filters_folded(&s->tenant->filters, s->filter);
    s->missed += folded - s->folded;
    s->folded = folded;
    p->folded = s->missed;
    if (p->folded) {
        live_write_folded(&p->out, p->folded);
        buf_char(&p->out, '\n');
    }
    live_write_counts(&p->out, &c, clock_wall_ms(s->live->server->setup.clock));
    buf_char(&p->out, '\n');
}

/* With the lock held; releases it while it writes. */
static void live_write_stream(struct live_stream *s, int64_t now_ms, bool is_second)
{
    struct live *l = s->live;
    struct live_piece p = { 0 };
    bool is_new = !s->has_begun;
    buf_init(&p.out, LIVE_WRITE_MAX + 4 * LIVE_TEXT_MAX);
    if (is_new)
        live_add_first(s, &p);
    live_add_gap(s, &p);
    live_add_events(s, now_ms, &p);
    if (is_new || is_second)
        live_add_second(s, now_ms, &p);
    pthread_mutex_unlock(&l->lock);
    enum http_stream_result result = http_stream_write(s->http, buf_str(&p.out));
    buf_release(&p.out);
    pthread_mutex_lock(&l->lock);
    if (result == HTTP_STREAM_TAKEN) {
        s->missed -= p.folded;
        metric_add(l->server->setup.metrics, METRIC_EVENTS_FOLDED, (int64_t)p.folded);
    } else {
        s->missed += p.tasks;
        s->has_gap = s->has_gap || p.has_gap || p.others;
    }
}

/* ---- the tick ---- */

static void live_end_expired(struct live_stream *s)
{
    if (s->expires_ms <= clock_wall_ms(s->live->server->setup.clock))
        live_stream_end(s, "CERTIFICATE_EXPIRED", "the client certificate has expired; connect again with a new one",
                        0);
}

static void live_tick_streams(struct live *l, int64_t now_ms, bool is_second)
{
    list_each (&l->streams, link) {
        struct live_stream *s = container_of(link, struct live_stream, link);
        if (s->is_over) {
            live_stream_free(s);
            continue;
        }
        if (s->http && !s->is_ending)
            live_end_expired(s);
        if (s->http && !s->is_ending)
            live_write_stream(s, now_ms, is_second);
    }
}

static void live_tick_tenants(struct live *l, int64_t now_ms, bool is_second)
{
    list_each (&l->active, link) {
        struct live_tenant *t = container_of(link, struct live_tenant, active);
        live_send_words(l, t, is_second);
        if (!t->is_watched || !list_empty(&t->streams) || now_ms < t->kept_until_ms)
            continue;
        t->is_watched = false;
        t->sender_count = 0;
        live_log_drop(&l->log, &t->part);
        live_tenant_deactivate(t);
    }
}

void live_start_ticking(struct live *l)
{
    if (l->is_ticking || l->is_stopped)
        return;
    l->is_ticking = true;
    l->now_ms = clock_steady_ms(l->server->setup.clock);
    timers_add(l->server->timers, &l->tick, LIVE_TICK_MS);
}

void live_on_tick(struct timer *timer)
{
    struct live *l = container_of(timer, struct live, tick);
    int64_t now_ms = clock_steady_ms(l->server->setup.clock);
    pthread_mutex_lock(&l->lock);
    l->now_ms = now_ms;
    bool is_second = now_ms / 1000 != l->second;
    l->second = now_ms / 1000;
    live_tick_streams(l, now_ms, is_second);
    live_tick_tenants(l, now_ms, is_second);
    bool is_due = l->keys_changed || now_ms - l->checked_ms >= CHECK_MS;
    if (is_due && !l->is_checking && l->stream_count && !l->is_stopped) {
        l->checked_ms = now_ms;
        live_check_keys(l);
    }
    l->is_ticking = false;
    if (!list_empty(&l->active) || !list_empty(&l->streams))
        live_start_ticking(l);
    pthread_mutex_unlock(&l->lock);
}
