/* The backlog of all nodes, and the alerts that are judged whenever it was counted. */
#include "base/log.h"
#include "server/notify/notifier.h"
#include "server/server_internal.h"

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
struct alert_facts server_alert_facts(void *context)
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

void server_tenant_load(void *context, int32_t tenant, int64_t *ret_running, int64_t *ret_due)
{
    struct server *a = context;
    *ret_running = node_view_running_of(a->view, tenant);
    *ret_due = backlog_of_tenant(a->backlog, tenant);
}

enum err server_start_backlog(struct server *a, struct error *e)
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
