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
#include "node/trace/spans.h"
#include "platform/async_io_direct.h"
#include "platform/clock_offset.h"
#include "platform/last_fire.h"
#include "port/crypto.h"
#include "queue/memory/queue_memory.h"

enum {
    SPAWN_AHEAD_MS = 20000, /* twice as far as tasks are claimed at most */
    ARM_MIN_MS = 100,
    ARM_MAX_MS = 1000,
    AHEAD_MS = 3000,
    AHEAD_BYTES = 64 << 20,
    POLL_MS = 10000, /* covers lost nudges: a write that was committed, but whose answer was lost, sends none */
    WRITE_MS = 5000, /* after the drain deadline, to write the last outcomes */
    LANES_ARENA = 16 << 20,
    TENANT_ARENA = 64 << 10,
};

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

static void server_on_stop_call(struct call *c)
{
    server_begin_stop(c->context);
}

void server_stop(struct server *a)
{
    loop_call(a->loop, &a->stop_call);
}

/* ---- status, metrics and readiness for the API; any thread ---- */

static void server_kv_time_or_null(struct jw *w, const char *name, int64_t ms)
{
    if (ms > 0 && ms < INT64_MAX)
        jw_kv_time(w, name, ms);
    else
        jw_kv_cstr(w, name, NULL);
}

static void server_write_status(void *context, struct jw *w)
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
    server_kv_time_or_null(w, "last_claim_at", s.scheduler.last_claim_ms);
    server_kv_time_or_null(w, "next_claim_at", s.scheduler.next_claim_ms);
    server_kv_time_or_null(w, "next_spawn_at", s.scheduler.next_spawn_ms);
    jw_key(w, "breakers");
    node_view_breakers(a->view, w);
    jw_object_end(w);
    server_write_fleet_status(a, clock_wall_ms(a->setup.clock), w);
    server_write_tls_status(a, w);
    server_write_secrets_status(a, w);
    jw_key(w, "nodes");
    node_view_nodes(a->view, clock_wall_ms(a->setup.clock), w);
}

static void server_write_tenant(void *context, int32_t tenant, struct buf *out)
{
    struct server *a = context;
    cleanup_with(arena_release) struct arena arena;
    struct tenant_rules rules;
    arena_init(&arena, TENANT_ARENA);
    if (catalog_cache_tenant(a->catalog, tenant, &arena, &rules))
        metric_print_label(rules.name, out);
    else
        buf_printf(out, "_%d", (int)tenant); /* it was deleted */
}

static void server_write_metrics(void *context, struct buf *out)
{
    struct server *a = context;
    struct tenant_names names = { .name = server_write_tenant, .context = a };
    int64_t now_ms = clock_wall_ms(a->setup.clock);
    node_view_metrics(a->view, now_ms, out);
    backlog_print(a->backlog, out);
    notifier_metrics(a->notifier, out);
    node_view_set_running(a->view, metrics_tenants(a->metrics));
    tenant_metrics_print(metrics_tenants(a->metrics), now_ms, &names, out); /* its last metric goes on: */
    buf_printf(out, "belfry_series_folded{kind=\"queue\"} %lld\n", (long long)backlog_folded(a->backlog));
    server_write_tls_metrics(a, out);
    server_write_fleet_metrics(a, out);
}

/* ---- the backlog of all nodes ---- */

bool server_acts_for_all(void *context)
{
    struct server *a = context;
    return !store_is_shared(a->store) || node_view_status(a->view).leader;
}

static int64_t server_waiting(void *context)
{
    struct server *a = context;
    return a->fleet.enabled ? (int64_t)metric_level(a->metrics, METRIC_QUEUE_WAITING) : node_view_waiting(a->view);
}

static struct workload server_workload(void *context)
{
    struct server *a = context;
    return node_view_workload(a->view, a->metrics);
}

static int64_t server_busy_milli(void *context, struct reader *r)
{
    struct server *a = context;
    return a->fleet.enabled ? backlog_busy_workers(r, clock_wall_ms(a->setup.clock))
                            : node_view_busy_milli(a->view, a->metrics);
}

static struct alert_facts server_node_facts(struct server *a)
{
    struct alert_facts facts = node_view_alert_facts(a->view);
    if (!store_is_shared(a->store))
        facts.leaderless_since_ms = 0;
    facts.backend_lost_since_ms = server_backend_lost_ms(a);
    facts.untold_since_ms = notifier_oldest_ms(a->notifier);
    return facts;
}

/* Without a leader nobody counts the backlog. */
static struct alert_facts server_alert_facts(void *context)
{
    struct server *a = context;
    struct alert_facts facts = server_node_facts(a);
    int64_t counted_ms = backlog_counted_ms(a->backlog);
    facts.uncounted_since_ms = counted_ms ? counted_ms : facts.leaderless_since_ms;
    return facts;
}

static void server_on_alert(void *context, const struct alert_news *news)
{
    const struct alert *alert = &news->alert;
    (void)context;
    if (news->fires)
        log_warn("alert_firing", kv_cstr("alert", alert->name),
                 kv_cstr("severity", alert_severity_names[alert->severity]), kv_f64("value", alert->value),
                 kv_f64("threshold", alert->threshold), kv_i64("since_ms", alert->since_ms));
    else
        log_info("alert_ended", kv_cstr("alert", alert->name), kv_i64("since_ms", alert->since_ms));
}

/* The backlog's thread. It has just counted. */
static void server_on_counted(void *context, bool is_mine, struct reader *r)
{
    struct server *a = context;
    struct alert_facts facts = server_node_facts(a);
    struct error e = { 0 };
    int64_t judged_ms = a->alerts.judged_ms;
    if (!is_mine)
        alert_watch_forget(&a->alerts);
    else if (alert_watch_step(&a->alerts, r, clock_wall_ms(a->setup.clock), &facts, server_on_alert, a, &e))
        log_debug("alerts_not_judged", kv_err(&e));
    if (a->alerts.judged_ms != judged_ms)
        notifier_on_alerts(a->notifier, a->alerts.alerts, a->alerts.n);
}

static void server_print_due(void *context, const int64_t by_partition[PARTITIONS], struct buf *out)
{
    struct server *a = context;
    node_view_print_due(a->view, by_partition, out);
}

static double server_wanted_before(void *context)
{
    struct server *a = context;
    return node_view_wanted_before(a->view);
}

static void server_tenant_load(void *context, int32_t tenant, int64_t *ret_running, int64_t *ret_due)
{
    struct server *a = context;
    *ret_running = node_view_running_of(a->view, tenant);
    *ret_due = backlog_of_tenant(a->backlog, tenant);
}

static enum err server_start_backlog(struct server *a, struct error *e)
{
    return backlog_new(&(struct backlog_setup){ .store = a->store,
                                                .catalog = a->catalog,
                                                .clock = a->setup.clock,
                                                .is_mine = server_acts_for_all,
                                                .waiting = server_waiting,
                                                .workload = server_workload,
                                                .wanted_before = server_wanted_before,
                                                .busy_milli = server_busy_milli,
                                                .counted = server_on_counted,
                                                .print_due = server_print_due,
                                                .metrics = a->metrics,
                                                .context = a },
                       &a->backlog, e);
}

static bool server_is_ready(void *context, struct error *e)
{
    struct server *a = context;
    struct node_status s = node_view_status(a->view);
    if (s.draining)
        error_set(e, ERR_UNAVAILABLE, "the node is shutting down");
    return !s.draining;
}

static bool server_workflows_are_known(void *context)
{
    struct server *a = context;
    return node_view_all_run_workflows(a->view);
}

/* ---- start and stop ---- */

enum err server_load_lanes(struct server *a, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct reader *r = NULL;
    struct lane *lanes = NULL;
    struct breaker_rows breakers = { 0 };
    size_t n = 0;
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = catalog_watcher_read_breakers(r, &arena, &breakers, e);
    if (rc == ERR_OK)
        rc = reader_lanes(r, &arena, &lanes, &n, e);
    if (rc == ERR_OK) {
        node_follow_breakers(a->node, breakers.v, breakers.n); /* before anything is claimed */
        node_know_lanes(a->node, lanes, n);
    }
    store_keep_reader(a->store, r, rc);
    return rc;
}

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

static void server_before_fire(void *context, int64_t now_ms)
{
    struct server *a = context;
    last_fire_note(a->last_fire, now_ms);
}

/* ---- what the node tells those who watch; loop thread ---- */

static void server_on_settled(void *context, const struct event *e, const struct settlement *s)
{
    struct server *a = context;
    if (a->setup.observe)
        a->setup.observe(a->setup.observe_context, e, s);
    if (a->http)
        live_on_settled(api_server_live(a->http), e, s, str_from(a->name));
    transition_log_settled(a->transitions, &e->task, &e->outcome, s);
    if (spans_may_add_run(a->tracer, &e->task, &e->outcome))
        spans_add_run(a->tracer, &e->task, &e->outcome, s, clock_wall_us(a->setup.clock));
}

static void server_on_started(void *context, const struct task *t)
{
    struct server *a = context;
    if (a->http)
        live_on_started(api_server_live(a->http), t);
    transition_log_started(a->transitions, t);
}

static void server_on_spawned(void *context, const struct task *occurrence)
{
    struct server *a = context;
    if (a->http)
        live_on_spawned(api_server_live(a->http), occurrence);
    transition_log_created(a->transitions, occurrence, 1);
}

static void server_on_expired(void *context, const struct task *t, enum task_state from)
{
    struct server *a = context;
    if (a->http)
        live_on_written(api_server_live(a->http), t, 1);
    transition_log_changed(a->transitions, t, from);
}

/* The store has told of a task that found no slot (port/store/changes.h). */
static void server_on_gated(void *context, const struct task *t, bool is_missed)
{
    struct server *a = context;
    if (a->http)
        live_on_written(api_server_live(a->http), t, 1);
    if (is_missed)
        transition_log_created(a->transitions, t, 1);
}

static void server_describe(void *context, struct jw *w)
{
    struct server *a = context;
    if (a->http)
        live_describe(api_server_live(a->http), w);
}

static void server_make_node(struct server *a)
{
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    struct node_setup setup = {
        .writer = loop_writer(a->loop),
        .planner = planner_threads_planner(a->planner),
        .clock = a->setup.clock,
        .version = S(BELFRY_VERSION),
        .async_io = a->async_io,
        .zones = a->setup.zones,
        .catalog = a->catalog,
        .needs = a->needs,
        .metrics = a->metrics,
        .tracer = a->tracer,
        .name = str_from(a->name),
        .seed = seed,
        .slots = a->setup.slots,
        .roles = a->setup.roles,
        .shared = store_is_shared(a->store),
        .heartbeat_ms = a->setup.heartbeat_ms,
        .spawn_ahead_ms = SPAWN_AHEAD_MS,
        .arm_min_ms = ARM_MIN_MS,
        .arm_max_ms = ARM_MAX_MS,
        .ahead_ms = AHEAD_MS,
        .ahead_bytes = a->setup.ahead_bytes ? a->setup.ahead_bytes : AHEAD_BYTES,
        .poll_ms = POLL_MS,
        .visibility_ms = a->setup.visibility_ms ? a->setup.visibility_ms : WORKER_VISIBILITY_MS,
        .knows_last_fire = a->last_fire != NULL && a->last_fired_ms != INT64_MAX,
        .last_fired_ms = a->last_fired_ms,
        .before_fire = server_before_fire,
        .observe = server_on_settled,
        .observe_started = server_on_started,
        .observe_spawned = server_on_spawned,
        .observe_gated = server_on_gated,
        .observe_expired = server_on_expired,
        .describe = server_describe,
        .observe_context = a,
    };
    memcpy(setup.runners, a->runners.v, sizeof setup.runners);
    server_fleet_set_up_node(a, &setup);
    a->node = node_new(&setup, clock_now(a->setup.clock));
}

static bool server_is_leader(void *context)
{
    struct server *a = context;
    return node_is_leader(a->node);
}

static struct uuid server_node_id(void *context)
{
    struct server *a = context;
    return node_view_status(a->view).id;
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

bool server_has_one_tenant(const struct server *a)
{
    return catalog_cache_tenant_count(a->catalog) == 1;
}

static bool server_loopback_holds(void *context)
{
    return server_has_one_tenant(context);
}

static struct str server_tenant_name(void *context, int32_t number, struct arena *arena)
{
    const struct server *a = context;
    struct tenant_rules rules;
    return catalog_cache_tenant(a->catalog, number, arena, &rules) ? rules.name : S("");
}

struct guard_setup server_guard(struct server *a)
{
    struct guard_setup guard = a->setup.guard;
    if (a->setup.loopback_if_alone) {
        guard.allow_loopback = true;
        guard.loopback_holds = server_loopback_holds;
        guard.context = a;
    }
    return guard;
}

static enum err server_signing_key(void *context, const struct task *t, struct arena *arena, struct signing_key *ret,
                                   struct error *e)
{
    char host[TARGET_HOST_MAX];
    if (!catalog_cache_has_signing_keys(context))
        return ERR_NOT_FOUND;
    return catalog_cache_signing_key(context, t->tenant, signing_host(t, host), arena, ret, e);
}

static enum err server_open_runners(struct server *a, struct error *e)
{
    struct runners_setup setup = { .loop = loop_uv(a->loop),
                                   .clock = a->setup.clock,
                                   .slots = a->setup.slots,
                                   .tenant_connections = a->setup.tenant_connections,
                                   .guard = server_guard(a),
                                   .ca_file = a->setup.ca_file,
                                   .brokers = a->setup.brokers,
                                   .secrets = a->secrets.n ? &a->secrets : NULL,
                                   .sends_tracestate = a->setup.trace.sends_state };
    setup.tenant_name = server_tenant_name;
    setup.context = a;
    setup.signing = (struct signing_source){ server_signing_key, a->catalog };
    return runners_open(&setup, &a->runners, e);
}

/* What the API asks of the server. */
static void server_set_api_calls(struct server *a, struct api_setup *setup)
{
    bool is_shared = store_is_shared(a->store);
    setup->context = a;
    setup->nudge = server_on_tasks_written;
    setup->recall = server_recall;
    setup->lease = server_lease;
    setup->lease_over = server_lease_over;
    setup->explain = server_explain;
    setup->status = server_write_status;
    setup->metrics_more = server_write_metrics;
    setup->ready = server_is_ready;
    setup->catalog_changed = server_on_catalog_changed;
    setup->breaker_closed = server_on_breaker_closed;
    setup->queues = server_describe_queues;
    setup->alert_facts = server_alert_facts;
    setup->node = is_shared ? server_node_id : NULL;
    setup->tenant_load = server_tenant_load;
    setup->queue_timeout_max = a->fleet.enabled ? server_queue_timeout_max : NULL;
    setup->workflows_are_known = is_shared ? server_workflows_are_known : NULL;
    setup->notifications_are_known = is_shared ? server_notifications_are_known : NULL;
    setup->signatures_are_known = is_shared ? server_signatures_are_known : NULL;
    setup->message_made = server_on_message_made;
}

static enum err server_start_api(struct server *a, struct error *e)
{
    if (!a->setup.listen)
        return ERR_OK;
    struct api_setup setup = {
        .listen = a->setup.listen,
        .tls = a->tls.tls,
        .identities = { a->setup.tls ? a->setup.tls->identities : NULL,
                        a->setup.tls ? a->setup.tls->identity_count : 0 },
        .admin_listen = a->setup.admin_listen,
        .store = a->store,
        .writer = batcher_writer(a->batchers[OP_VIA_ALL]),
        .clock = a->setup.clock,
        .zones = a->setup.zones,
        .needs = a->needs,
        .definitions = a->definitions,
        .brokers = a->setup.brokers ? &a->setup.brokers->rules : NULL,
        .catalog = a->catalog,
        .metrics = a->metrics,
        .transitions = a->transitions,
        .tracer = a->tracer,
        .pepper = { (const char *)a->pepper, sizeof a->pepper },
        .secrets = a->secrets.n ? &a->secrets : NULL,
        .cors_origins = a->setup.cors_origins,
        .public_url = a->setup.public_url,
        .require_idempotency_key = a->setup.require_idempotency_key,
        .limits.http = a->setup.http,
        .sends_mail = a->setup.mail && a->setup.mail->url,
        .mail_domains = a->setup.mail ? a->setup.mail->domains : S(""),
    };
    server_set_api_calls(a, &setup);
    if (api_server_new(&setup, &a->http, e))
        return e->code;
    server_watch_incidents(a, true);
    return ERR_OK;
}

static enum err server_assemble(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e)
{
    process_prepare();
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
    a->stop_call = (struct call){ .fn = server_on_stop_call, .context = a };
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
