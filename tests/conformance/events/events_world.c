#include "events_world.h"

#include <time.h>
#include <unistd.h>

#include "events/kafka/events_kafka.h"
#include "events/memory/events_memory.h"
#ifdef HAVE_REDIS
#include "redis_fixture.h"
#endif
#ifdef HAVE_AMQP
#include "rabbitmq_fixture.h"
#endif

/* ---- adapters: a new one needs a row here and in meson.build ---- */

/* All handles of memory events are the same events. */
static struct {
    struct events *events;
    int handles;
} in_memory;

static struct events *open_memory(const char *prefix)
{
    (void)prefix;
    if (in_memory.handles++ == 0)
        in_memory.events = events_memory_new();
    return in_memory.events;
}

static void close_memory(struct events *ev)
{
    if (--in_memory.handles == 0)
        events_free(ev);
}

#ifdef HAVE_KAFKA
static struct events *open_kafka(const char *prefix)
{
    char url[512];
    struct events *ev;
    struct error e = { 0 };
    const char *server = getenv("BELFRY_TEST_KAFKA");
    snprintf(url, sizeof url, "%s%cprefix=%s&partitions=4&heartbeat.interval.ms=200", server,
             strchr(server, '?') ? '&' : '?', prefix);
    assert_ok(events_kafka_open(str_from(url), &ev, &e), &e);
    return ev;
}
#endif

#ifdef HAVE_REDIS
static struct events *open_redis(const char *prefix)
{
    char url[REDIS_URL];
    redis_url(prefix, url);
    return redis_events(url);
}
#endif

static const struct events_adapter adapters[] = {
#ifdef HAVE_KAFKA
    { "kafka", open_kafka, events_free, .far = true, .several = true },
#endif
    { "memory", open_memory, close_memory, .counts = true, .keeps_acks = true },
#ifdef HAVE_REDIS
    { "redis", open_redis, events_free, .far = true, .several = true, .keeps_acks = true },
#endif
#ifdef HAVE_AMQP
    { "rabbitmq", rabbitmq_events, events_free, .far = true, .several = true, .keeps_acks = true },
#endif
};

const struct events_adapter *adapter_under_test;

const struct events_adapter *events_adapter_of(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "memory";
    for (size_t i = 0; i < array_count(adapters); i++)
        if (strcmp(adapters[i].name, name) == 0)
            return &adapters[i];
    return NULL;
}

/* ---- fixture ---- */

int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int world_open(void **state)
{
    static int number;
    struct world *w = xnew(*w);
    snprintf(w->prefix, sizeof w->prefix, "suite-%d-%lld-%d", (int)getpid(), (long long)monotonic_ms(), number++);
    uuid_gen_init(&w->ids, (uint64_t)getpid());
    arena_init(&w->arena, 1 << 26);
    w->task = uuid_next(&w->ids, NOW);
    w->publisher = adapter_under_test->open(w->prefix);
    open_updater(w, 0);
    *state = w;
    return 0;
}

int world_close(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < UPDATERS; i++)
        if (w->updaters[i])
            adapter_under_test->close(w->updaters[i]);
    adapter_under_test->close(w->publisher);
    arena_release(&w->arena);
    free(w);
    return 0;
}

void open_updater(struct world *w, int updater)
{
    w->updaters[updater] = adapter_under_test->open(w->prefix);
}

void updater_dies(struct world *w, int updater)
{
    adapter_under_test->close(w->updaters[updater]);
    w->updaters[updater] = NULL;
}

/* ---- publishing ---- */

struct event event_of(struct world *w, struct uuid task, int64_t fence)
{
    return (struct event){
        .task = { .id = task,
                  .parent = uuid_next(&w->ids, NOW),
                  .tenant = 3,
                  .kind = TASK_OCCURRENCE,
                  .fence = fence,
                  .scheduled_ms = NOW + 1,
                  .due_ms = NOW + 2,
                  .attempts = 4,
                  .losses = 5,
                  .delivery = DELIVER_AT_MOST_ONCE,
                  .expires_ms = NOW + 12,
                  .target = TARGET_WORKER,
                  .place = S("https://a.example"),
                  .queue = S("mail"),
                  .version = 13,
                  .retry = { 6, BACKOFF_FIXED, 7, 8, JITTER_NONE, S("[]") } },
        .outcome = { .kind = OUTCOME_FAILED,
                     .failure = FAILURE_HTTP,
                     .sent = true,
                     .alone = true,
                     .http_status = 503,
                     .retry_after_ms = 9,
                     .started_us = 10,
                     .completed_us = 11,
                     .error = S("HTTP 503"),
                     .output = S("later"),
                     .worker = S("node-1"),
                     .trace_id = S("4bf9"),
                     .aside = S("b.example:8443"),
                     .recalled = true },
    };
}

void publish(struct world *w, const struct event *v, size_t n)
{
    struct error e = { 0 };
    assert_ok(events_publish(w->publisher, v, n, &e), &e);
}

void publish_fences(struct world *w, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        struct event event = event_of(w, w->task, i);
        publish(w, &event, 1);
    }
}

/* ---- polling ---- */

struct event_list poll_once(struct world *w, int updater, size_t max, int64_t wait_ms)
{
    struct event_list ret = { 0 };
    struct error e = { 0 };
    assert_ok(events_poll(w->updaters[updater], max, wait_ms, &w->arena, &ret, &e), &e);
    return ret;
}

struct event_list poll_exactly(struct world *w, int updater, size_t n)
{
    struct event_list all = { arena_array(&w->arena, struct event, n + 1), 0 };
    int64_t end = monotonic_ms() + ENOUGH_MS;
    while (all.n < n) {
        struct event_list some = poll_once(w, updater, n - all.n, 100);
        if (some.n)
            memcpy(all.v + all.n, some.v, some.n * sizeof *some.v);
        all.n += some.n;
        if (all.n < n && (!adapter_under_test->far || monotonic_ms() > end))
            fail_msg("%zu of %zu events came", all.n, n);
    }
    return all;
}

void poll_none(struct world *w, int updater)
{
    assert_int_equal(poll_once(w, updater, 10, A_MOMENT_MS).n, 0);
}

void ack(struct world *w, int updater, const struct event *event)
{
    struct error e = { 0 };
    assert_ok(events_ack(w->updaters[updater], &event->sequence, 1, &e), &e);
}

void reset(struct world *w, int updater)
{
    struct error e = { 0 };
    assert_ok(events_reset(w->updaters[updater], &e), &e);
}

struct events_barrier mark(struct world *w)
{
    struct events_barrier m;
    struct error e = { 0 };
    assert_ok(events_barrier(w->publisher, &m, &e), &e);
    return m;
}

bool passed(struct world *w, const struct events_barrier *m)
{
    bool is = false;
    struct error e = { 0 };
    assert_ok(events_barrier_passed(w->publisher, m, &is, &e), &e);
    return is;
}

void wait_passed(struct world *w, const struct events_barrier *m)
{
    int64_t end = monotonic_ms() + ENOUGH_MS;
    while (!passed(w, m)) {
        assert_true(adapter_under_test->far && monotonic_ms() < end);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

void assert_fences(const struct event_list *l, int64_t from, int64_t to)
{
    assert_int_equal(l->n, to - from + 1);
    for (size_t i = 0; i < l->n; i++)
        assert_int_equal(l->v[i].task.fence, from + (int64_t)i);
}
