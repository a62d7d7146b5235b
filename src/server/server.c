/* Threads:
 *
 *  - the loop thread, which is the caller of server_run, runs scheduler, worker, updater and outgoing calls;
 *  - batcher threads write to the store;
 *  - HTTP and API threads serve the API.
 *
 * They exchange data in two ways only: operations go to a batcher, and calls go to the loop (loop_call). */
#include "server/notify/notifier.h"
#include "server/server_internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "api/live/live.h"
#include "base/log.h"
#include "core/task/settle_metrics.h"
#include "events/memory/events_memory.h"
#include "node/tenant_needs.h"
#include "platform/async_io_direct.h"
#include "platform/clock_offset.h"
#include "queue/memory/queue_memory.h"

enum { WRITE_MS = 5000 /* after the drain deadline, to write the last outcomes */ };

/* ---- the loop thread ---- */

static void server_close_handles(struct server *a)
{
    if (!a->handles_open)
        return;
    for (size_t i = 0; i < array_count(a->signals); i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    uv_close((uv_handle_t *)&a->deadline, NULL);
    retention_close(&a->retention_task);
    stats_writer_close(&a->stats_writer);
    server_stop_fleet_watch(a);
    server_stop_tls_watch(a);
    a->handles_open = false;
}

/* After a heartbeat that has changed the nodes. */
static void server_show_nodes(struct server *a)
{
    uint64_t generation = node_others_generation(a->node);
    if (a->http && generation != a->shown_generation)
        live_on_nodes(api_server_live(a->http), node_others(a->node), node_status(a->node).id);
    a->shown_generation = generation;
}

static int64_t server_on_step(void *context, struct moment now)
{
    struct server *a = context;
    assert_owned(&a->loop_thread);
    if (!a->node)
        return INT64_MAX;
    int64_t wake = node_step(a->node, now);
    node_view_update(a->view, a->node, now.wall_ms);
    server_update_queue_state(a);
    server_show_nodes(a);
    transition_log_tick(a->transitions);
    if (a->draining && !a->retention_task.busy && node_is_idle(a->node) && stats_writer_finish(&a->stats_writer)) {
        server_close_handles(a);
        loop_stop(a->loop);
    }
    return wake;
}

/* The store did not take the outcomes in time. Ends the process as a crash would: the next start, or another node,
 * settles the tasks. */
static void server_on_write_deadline(uv_timer_t *timer)
{
    struct server *a = timer->data;
    log_error("left_unsettled", kv_i64("deadline_ms", WRITE_MS),
              kv_i64("running", (int64_t)node_status(a->node).running));
    _exit(EXIT_FAILURE);
}

static void server_give_up(struct server *a)
{
    node_give_up(a->node);
    uv_timer_start(&a->deadline, server_on_write_deadline, WRITE_MS, 0);
}

static void server_on_drain_deadline(uv_timer_t *timer)
{
    struct server *a = timer->data;
    log_warn("drain_deadline", kv_i64("running", (int64_t)node_status(a->node).running));
    server_give_up(a);
}

static void server_on_api_stopped(uv_work_t *work, int status)
{
    (void)status;
    struct server *a = work->data;
    a->draining = true;
    node_drain(a->node);
    uv_timer_start(&a->deadline, server_on_drain_deadline, (uint64_t)a->setup.drain_ms, 0);
}

/* A libuv worker thread: blocks until the last request is answered. Some requests wait for the loop, so this must
 * not run on the loop thread. */
static void server_stop_api(uv_work_t *work)
{
    struct server *a = work->data;
    if (a->http)
        api_server_stop(a->http);
}

static void server_begin_stop(struct server *a)
{
    assert_owned(&a->loop_thread);
    if (a->stopping) {
        if (a->draining)
            server_give_up(a); /* a second stop: do not wait for running tasks */
        return;
    }
    a->stopping = true;
    node_stop_leasing(a->node); /* answers waiting lease requests, so that the API can stop */
    retention_stop(&a->retention_task);
    log_info("stopping", kv_i64("deadline_ms", a->setup.drain_ms));
    a->stop_http.data = a;
    uv_queue_work(loop_uv(a->loop), &a->stop_http, server_stop_api, server_on_api_stopped);
}

static void server_on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    server_begin_stop(handle->data);
}

/* ---- start and stop ---- */

static enum err server_fill_catalog_cache(struct server *a, struct error *e)
{
    struct reader *r = NULL;
    a->catalog = catalog_cache_new();
    a->needs = tenant_set_new(TENANT_NEEDS_MAX);
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = catalog_watcher_fill(a->catalog, r, e);
    store_keep_reader(a->store, r, rc);
    return rc;
}

static bool server_is_leader(void *context)
{
    struct server *a = context;
    return node_is_leader(a->node);
}

/* The leader alone knows the backlog, and how busy all workers are. */
static void server_measure(void *context, struct stats *all, struct stats_counters *tenants)
{
    struct server *a = context;
    struct node_status s = node_status(a->node);
    int64_t now_ms = clock_wall_ms(a->setup.clock), oldest_ms = INT64_MAX;
    for (size_t i = 0; i < array_count(s.scheduler.oldest_due_ms); i++)
        oldest_ms = min_of(oldest_ms, s.scheduler.oldest_due_ms[i]);
    all->v[STAT_OLDEST_WAIT_MS] = max_of(now_ms - oldest_ms, (int64_t)0);
    all->v[STAT_LOW_WAIT_MS] = max_of(now_ms - s.scheduler.oldest_due_ms[CLASS_LOW], (int64_t)0);
    all->v[STAT_SKEW_MS] = max_of((s.skew_us < 0 ? -s.skew_us : s.skew_us) - s.error_us, (int64_t)0) / 1000;
    backlog_measure_stats(a->backlog, all, tenants);
}

static void server_start_handles(struct server *a)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    uv_loop_t *loop = loop_uv(a->loop);
    for (size_t i = 0; i < array_count(a->signals); i++) {
        uv_signal_init(loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], server_on_signal, numbers[i]);
    }
    uv_timer_init(loop, &a->deadline);
    a->deadline.data = a;
    retention_start(&a->retention_task, &(struct retention_setup){ .loop = loop,
                                                                   .writer = loop_writer(a->loop),
                                                                   .clock = a->setup.clock,
                                                                   .metrics = a->metrics,
                                                                   .retention = a->setup.retention,
                                                                   .is_leader = server_is_leader,
                                                                   .context = a });
    stats_writer_start(&a->stats_writer, &(struct stats_writer_setup){ .loop = loop,
                                                                       .writer = loop_writer(a->loop),
                                                                       .clock = a->setup.clock,
                                                                       .metrics = a->metrics,
                                                                       .node = server_node_id,
                                                                       .measure = server_measure,
                                                                       .context = a });
    server_start_fleet_watch(a);
    server_start_tls_watch(a);
    a->handles_open = true;
}

static enum err server_assemble(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e)
{
    process_prepare();
    bool runs_tasks = !a->setup.roles || a->setup.roles & NODE_WORKER;
    a->setup.http.connections = process_share_descriptors(runs_tasks ? a->setup.slots : 0, a->setup.http.connections);
    a->metrics = metrics_new();
    if (process_open_tracer(&a->setup.trace, a->setup.ca_file, a->metrics, &a->tracer, e))
        return e->code;
    settle_count_from_zero(a->metrics);
    tenant_metrics_set_max(metrics_tenants(a->metrics), a->setup.metric_tenants);
    a->queue = queue_memory_new();
    a->events = events_memory_new();
    a->async_io = async_io_direct_new(
        &(struct async_io_ports){ .queue = a->queue, .take = a->queue, .publish = a->events, .poll = a->events });
    if (server_open_tls(a, e) || server_open_store(a, ret_key, e) || server_fill_catalog_cache(a, e) ||
        server_adopt_store_clock(a, e))
        return e->code;
    server_want_hits(a);
    server_open_transitions(a);
    struct loop_setup loop = {
        .clock = a->setup.clock, .writer = server_open_writer(a), .step = server_on_step, .context = a
    };
    const struct secrets *secrets = a->secrets.n ? &a->secrets : NULL;
    a->definitions = definition_cache_new(DEFINITION_CACHE_BYTES, secrets);
    if (loop_new(&loop, &a->loop, e) || server_open_runners(a, e) || server_open_fleet(a, e) ||
        planner_threads_new(a->store, a->loop, a->definitions, secrets, &a->planner, e))
        return e->code;
    server_make_node(a);
    server_start_handles(a);
    server_warn_identities(a);
    server_warn_secrets(a);
    return server_load_lanes(a, e) || server_start_notifier(a, e) || server_start_backlog(a, e) ||
                   server_start_reencryption(a, e) || server_start_api(a, e) || server_start_store_watch(a, e)
               ? e->code
               : ERR_OK;
}

enum err server_new(const struct server_setup *setup, char ret_key[SERVER_KEY_TEXT], struct server **ret,
                    struct error *e)
{
    struct server *a = xnew(*a);
    struct error why = { 0 };
    a->setup = *setup;
    if (!a->setup.heartbeat_ms)
        a->setup.heartbeat_ms = MEMBERSHIP_HEARTBEAT_MS;
    a->view = node_view_new();
    server_inbox_init(a);
    ret_key[0] = '\0';
    enum err rc = server_assemble(a, ret_key, &why);
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
    thread_owner_take(&a->loop_thread);
    loop_run(a->loop);
    thread_owner_drop(&a->loop_thread);
}

void server_free(struct server *a)
{
    if (!a)
        return;
    server_stop_store_watch(a);
    server_watch_incidents(a, false);
    api_server_free(a->http);
    backlog_free(a->backlog);
    server_stop_reencryption(a);
    notifier_free(a->notifier);
    if (a->loop)
        server_close_handles(a);
    server_close_tls(a);
    server_close_fleet_io(a);
    planner_threads_free(a->planner);
    node_free(a->node);
    a->node = NULL;
    runners_free(&a->runners);
    for (int way = 0; way < OP_ROUTES; way++)
        batcher_free(a->batchers[way]);
    loop_free(a->loop);
    server_close_fleet(a);
    async_io_direct_free(a->async_io);
    queue_free(a->queue);
    events_free(a->events);
    definition_cache_free(a->definitions);
    server_close_store(a);
    tracer_free(a->tracer);
    transition_log_free(a->transitions);
    clock_offset_free(a->clock);
    catalog_cache_free(a->catalog);
    tenant_set_free(a->needs);
    metrics_free(a->metrics);
    node_view_free(a->view);
    server_inbox_release(a);
    free(a);
}

const char *server_login_code(const struct server *a)
{
    return a->login_code;
}

bool server_has_useless_keys(const struct server *a)
{
    return a->has_useless_keys;
}

bool server_has_one_tenant(const struct server *a)
{
    return catalog_cache_tenant_count(a->catalog) == 1;
}

uint16_t server_port(const struct server *a)
{
    return a->http ? api_server_port(a->http) : 0;
}

uint16_t server_admin_port(const struct server *a)
{
    return a->http ? api_server_admin_port(a->http) : 0;
}

int64_t server_count(const struct server *a, enum metric id)
{
    return metric_count(a->metrics, id);
}

double server_level(const struct server *a, enum metric id)
{
    return metric_level(a->metrics, id);
}
