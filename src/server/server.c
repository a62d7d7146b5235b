/* Threads: the caller's is the loop's (scheduler, worker, updater, outgoing calls); the batcher's writes the store; HTTP and API
 * threads serve the API. They meet in two places only: operations go to the batcher, and calls go to the loop (loop_call). */
#include "server/server_internal.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/time/offset.h"
#include "events/memory/events_memory.h"
#include "platform/async_io_direct.h"
#include "platform/clock_offset.h"
#include "port/crypto.h"
#include "queue/memory/queue_memory.h"

enum {
    SPAWN_AHEAD_MS = 10000,
    ARM_MIN_MS = 100,
    ARM_MAX_MS = 1000,
    POLL_MS = 10000, /* should a nudge be lost: what was committed and never answered has none */
    VISIBILITY_MS = 4000,
    LANES_ARENA = 16 << 20,
    CLOCK_QUESTIONS = 3, /* the first of them connects */
};

/* ---- the loop's side ---- */

static void close_handles(struct server *a)
{
    if (!a->handles)
        return;
    for (size_t i = 0; i < array_count(a->signals); i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    uv_close((uv_handle_t *)&a->deadline, NULL);
    retention_close(&a->retention_task);
    server_unwatch_fleet(a);
    a->handles = false;
}

static int64_t step(void *context, struct moment now)
{
    struct server *a = context;
    if (!a->node)
        return INT64_MAX;
    int64_t wake = node_step(a->node, now);
    node_view_update(a->view, a->node, now.wall_ms);
    server_see_queue(a);
    if (a->draining && !a->retention_task.busy && node_is_idle(a->node)) {
        close_handles(a);
        loop_stop(a->loop);
    }
    return wake;
}

static void on_deadline(uv_timer_t *timer)
{
    struct server *a = timer->data;
    log_warn("drain_deadline", kv_i64("running", (int64_t)node_status(a->node).running));
    node_give_up(a->node);
}

static void http_stopped(uv_work_t *work, int status)
{
    (void)status;
    struct server *a = work->data;
    a->draining = true;
    node_drain(a->node);
    uv_timer_start(&a->deadline, on_deadline, (uint64_t)a->setup.drain_ms, 0);
}

/* Blocks until the last request was answered, some of which wait for the loop: so not on the loop's thread. */
static void stop_http(uv_work_t *work)
{
    struct server *a = work->data;
    if (a->http)
        api_server_stop(a->http);
}

static void stop(struct server *a)
{
    if (a->stopping) {
        if (a->draining)
            node_give_up(a->node); /* asked twice: at once, then */
        return;
    }
    a->stopping = true;
    node_stop_leasing(a->node); /* who waits is answered, so that the API can end */
    retention_stop(&a->retention_task);
    log_info("stopping", kv_i64("deadline_ms", a->setup.drain_ms));
    a->stop_http.data = a;
    uv_queue_work(loop_uv(a->loop), &a->stop_http, stop_http, http_stopped);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    stop(handle->data);
}

static void on_stop_call(struct call *c)
{
    stop(c->context);
}

void server_stop(struct server *a)
{
    loop_call(a->loop, &a->stop_call);
}

/* ---- what the API tells of the node ---- */

static void kv_time_or_null(struct jw *w, const char *name, int64_t ms)
{
    if (ms > 0 && ms < INT64_MAX)
        jw_kv_time(w, name, ms);
    else
        jw_kv_cstr(w, name, NULL);
}

static void write_status(void *context, struct jw *w)
{
    struct server *a = context;
    struct node_status s = node_view_status(a->view);
    char id[UUID_TEXT + 1];
    uuid_format(s.id, id);
    jw_key(w, "node");
    jw_object(w);
    jw_kv_cstr(w, "id", id);
    jw_kv_cstr(w, "name", a->name);
    jw_kv_bool(w, "recovering", s.recovering);
    jw_kv_bool(w, "draining", s.draining);
    jw_kv_i64(w, "lanes", (int64_t)s.scheduler.lanes);
    jw_kv_i64(w, "armed", (int64_t)s.scheduler.armed);
    jw_kv_i64(w, "queued", (int64_t)s.queued);
    jw_kv_i64(w, "running", (int64_t)s.running);
    jw_kv_i64(w, "slots", (int64_t)a->setup.slots);
    jw_kv_i64(w, "arm_window_ms", s.scheduler.window_ms);
    kv_time_or_null(w, "last_claim_at", s.scheduler.last_claim_ms);
    kv_time_or_null(w, "next_claim_at", s.scheduler.next_claim_ms);
    kv_time_or_null(w, "next_spawn_at", s.scheduler.next_spawn_ms);
    jw_key(w, "breakers");
    node_view_breakers(a->view, w);
    jw_object_end(w);
    server_write_fleet(a, clock_wall_ms(a->setup.clock), w);
    jw_key(w, "nodes");
    node_view_nodes(a->view, clock_wall_ms(a->setup.clock), w);
}

static void write_metrics(void *context, struct buf *out)
{
    struct server *a = context;
    node_view_metrics(a->view, clock_wall_ms(a->setup.clock), out);
}

static bool is_ready(void *context, struct error *e)
{
    struct server *a = context;
    struct node_status s = node_view_status(a->view);
    if (s.draining)
        error_set(e, ERR_UNAVAILABLE, "it is shutting down");
    return !s.draining;
}

/* ---- beginning and end ---- */

enum err server_know_lanes(struct server *a, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct reader *r = NULL;
    struct lane *lanes = NULL;
    size_t n = 0;
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = reader_lanes(r, &arena, &lanes, &n, e);
    if (rc == ERR_OK)
        node_know_lanes(a->node, lanes, n);
    reader_free(r);
    return rc;
}

static enum err fill_catalog_cache(struct server *a, struct error *e)
{
    struct reader *r = NULL;
    a->catalog = catalog_cache_new();
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = watcher_fill(a->catalog, r, e);
    reader_free(r);
    return rc;
}

/* From here on the time is the store's. It is known before the first request comes: what one asks for is due by it, at once or later. Beats
 * measure it better soon. */
static enum err go_by_the_store(struct server *a, struct error *e)
{
    struct reader *r = NULL;
    struct offset offset = { 0 };
    if (!store_is_shared(a->store))
        return ERR_OK;
    a->setup.clock = a->clock = clock_offset_new(a->setup.clock);
    enum err rc = store_reader(a->store, &r, e);
    for (int i = 0; rc == ERR_OK && i < CLOCK_QUESTIONS; i++) {
        int64_t sent_us = clock_steady_us(a->clock), store_us;
        rc = reader_clock(r, &store_us, e);
        if (rc == ERR_OK)
            offset_add(&offset, sent_us, clock_steady_us(a->clock), store_us);
    }
    reader_free(r);
    struct offset_view v = offset_view(&offset, clock_steady_us(a->clock));
    if (rc == ERR_OK)
        clock_correct(a->clock, v.low_us, 2 * v.error_us);
    return rc;
}

static void observed(void *context, const struct event *e, const struct settlement *s)
{
    struct server *a = context;
    a->setup.observe(a->setup.observe_context, e, s);
}

static void make_node(struct server *a)
{
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    process_name(a->name);
    struct node_setup setup = {
        .writer = loop_writer(a->loop),
        .clock = a->setup.clock,
        .version = S(BELFRY_VERSION),
        .async_io = a->async_io,
        .zones = a->setup.zones,
        .catalog = a->catalog,
        .metrics = a->metrics,
        .name = str_from(a->name),
        .seed = seed,
        .slots = a->setup.slots,
        .roles = a->setup.roles,
        .shared = store_is_shared(a->store),
        .beat_ms = a->setup.beat_ms,
        .spawn_ahead_ms = SPAWN_AHEAD_MS,
        .arm_min_ms = ARM_MIN_MS,
        .arm_max_ms = ARM_MAX_MS,
        .poll_ms = POLL_MS,
        .visibility_ms = VISIBILITY_MS,
        .observe = a->setup.observe ? observed : NULL,
        .observe_context = a,
    };
    memcpy(setup.runners, a->runners.v, sizeof setup.runners);
    server_join_fleet(a, &setup);
    a->node = node_new(&setup, clock_now(a->setup.clock));
}

static bool is_leader(void *context)
{
    struct server *a = context;
    return node_is_leader(a->node);
}

static void watch(struct server *a)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    uv_loop_t *loop = loop_uv(a->loop);
    for (size_t i = 0; i < array_count(a->signals); i++) {
        uv_signal_init(loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
    uv_timer_init(loop, &a->deadline);
    a->deadline.data = a;
    retention_start(&a->retention_task, &(struct retention_setup){ .loop = loop,
                                                                   .writer = loop_writer(a->loop),
                                                                   .clock = a->setup.clock,
                                                                   .metrics = a->metrics,
                                                                   .retention = a->setup.retention,
                                                                   .is_ours = is_leader,
                                                                   .context = a });
    server_watch_fleet(a);
    a->handles = true;
}

static enum err make_runners(struct server *a, struct error *e)
{
    struct runners_setup setup = { .loop = loop_uv(a->loop),
                                   .clock = a->setup.clock,
                                   .slots = a->setup.slots,
                                   .allow_loopback = a->setup.allow_loopback,
                                   .ca_file = a->setup.ca_file,
                                   .brokers = a->setup.brokers };
    return runners_open(&setup, &a->runners, e);
}

static void nudge(void *context, const struct task *tasks, size_t n)
{
    server_nudge(context, tasks, n);
}

static void catalog_changed(void *context)
{
    server_rules_changed(context);
}

static struct uuid node_id(void *context)
{
    struct server *a = context;
    return node_view_status(a->view).id;
}

static enum err serve_http(struct server *a, struct error *e)
{
    if (!a->setup.listen)
        return ERR_OK;
    struct api_setup setup = {
        .listen = a->setup.listen,
        .store = a->store,
        .writer = batcher_writer(a->batchers[WRITER_ALL]),
        .clock = a->setup.clock,
        .zones = a->setup.zones,
        .catalog = a->catalog,
        .metrics = a->metrics,
        .pepper = { (const char *)a->pepper, sizeof a->pepper },
        .require_idempotency_key = a->setup.require_idempotency_key,
        .context = a,
        .nudge = nudge,
        .recall = server_recall,
        .lease = server_lease,
        .lease_over = server_lease_over,
        .explain = server_explain,
        .status = write_status,
        .metrics_more = write_metrics,
        .ready = is_ready,
        .catalog_changed = catalog_changed,
        .queues = server_ask_queues,
        .node = store_is_shared(a->store) ? node_id : NULL,
        .queue_timeout_max = a->fleet.there ? server_queue_timeout_max : NULL,
    };
    return api_server_new(&setup, &a->http, e);
}

static enum err assemble(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e)
{
    process_prepare();
    a->metrics = metrics_new();
    a->queue = queue_memory_new();
    a->events = events_memory_new();
    a->async_io = async_io_direct_new(
        &(struct async_io_ports){ .queue = a->queue, .take = a->queue, .publish = a->events, .poll = a->events });
    if (server_open_store(a, ret_key, e) || fill_catalog_cache(a, e) || go_by_the_store(a, e))
        return e->code;
    struct loop_setup loop = { .clock = a->setup.clock, .writer = server_open_writer(a), .step = step, .context = a };
    if (loop_new(&loop, &a->loop, e) || make_runners(a, e) || server_open_fleet(a, e))
        return e->code;
    make_node(a);
    watch(a);
    a->stop_call = (struct call){ .fn = on_stop_call, .context = a };
    return server_know_lanes(a, e) || serve_http(a, e) || server_watch(a, e) ? e->code : ERR_OK;
}

enum err server_new(const struct server_setup *setup, char ret_key[SERVER_KEY_TEXT], struct server **ret,
                    struct error *e)
{
    struct server *a = xnew(*a);
    struct error why = { 0 };
    a->setup = *setup;
    if (!a->setup.beat_ms)
        a->setup.beat_ms = MEMBERSHIP_BEAT_MS;
    a->view = node_view_new();
    server_news_init(a);
    ret_key[0] = '\0';
    enum err rc = assemble(a, ret_key, &why);
    if (rc) {
        server_free(a);
        if (e)
            *e = why;
        return rc;
    }
    *ret = a;
    return ERR_OK;
}

void server_run(struct server *a)
{
    loop_run(a->loop);
}

void server_free(struct server *a)
{
    if (!a)
        return;
    server_unwatch(a);
    api_server_free(a->http);
    if (a->loop)
        close_handles(a);
    server_close_async_io(a);
    node_free(a->node);
    a->node = NULL;
    runners_free(&a->runners);
    for (int way = 0; way < WRITER_WAYS; way++)
        batcher_free(a->batchers[way]);
    loop_free(a->loop);
    server_close_fleet(a);
    async_io_direct_free(a->async_io);
    queue_free(a->queue);
    events_free(a->events);
    server_close_store(a);
    clock_offset_free(a->clock);
    catalog_cache_free(a->catalog);
    metrics_free(a->metrics);
    node_view_free(a->view);
    server_news_release(a);
    free(a);
}

uint16_t server_port(const struct server *a)
{
    return a->http ? api_server_port(a->http) : 0;
}

int64_t server_count(const struct server *a, enum metric id)
{
    return metric_count(a->metrics, id);
}
