/* A node among other nodes: what it says of itself, what it does when its partitions change, when a node is dead or
 * it is itself marked dead, and how it answers recall requests. */
#include "node/node_internal.h"

static void node_describe(void *context, struct jw *w)
{
    const struct node *n = context;
    struct scheduler_status s = scheduler_status(n->scheduler);
    int64_t oldest_ms = INT64_MAX;
    for (int i = 0; i <= CLASS_HIGH; i++)
        oldest_ms = min_of(oldest_ms, s.oldest_due_ms[i]);
    jw_kv_i64(w, "running", (int64_t)worker_running(n->worker));
    jw_kv_i64(w, "waiting", (int64_t)(s.ready + node_queued(n)));
    jw_kv_i64(w, "slots", (int64_t)n->setup.slots);
    jw_kv_i64(w, "ended", metric_count(n->setup.metrics, METRIC_TASKS_EXECUTED));
    jw_kv_i64(w, "ran_us", metric_count(n->setup.metrics, METRIC_RUN_TIME));
    jw_kv_i64(w, "wanted_milli", (int64_t)(metric_level(n->setup.metrics, METRIC_WORKERS_WANTED) * 1000));
    jw_kv_i64(w, "lag_ms", oldest_ms == INT64_MAX ? 0 : max_of(n->now.wall_ms - oldest_ms, (int64_t)0));
    jw_kv_i64(w, "skew_us", membership_skew_us(n->membership));
    jw_kv_i64(w, "skew_error_us", membership_offset(n->membership).error_us);
    if (n->setup.describe)
        n->setup.describe(n->setup.observe_context, w);
}

static void node_on_partitions_changed(void *context)
{
    struct node *n = context;
    scheduler_set_own(n->scheduler, membership_own(n->membership));
}

static void node_on_marked_dead(void *context)
{
    struct node *n = context;
    recovery_on_death(n->recovery, n->now);
}

static void node_on_found_dead(void *context)
{
    struct node *n = context;
    recovery_look_again(n->recovery, n->now);
}

static void node_on_recall_requested(void *context)
{
    struct node *n = context;
    recall_requests_on_notice(n->recall_requests);
}

/* Outcomes that are already known are published all the same: they are true, and their fences refuse them if another
 * node was faster. */
static void node_on_died(void *context, struct uuid new_id)
{
    struct node *n = context;
    n->id = new_id;
    n->active_peers = ACTIVE_PEERS_UNKNOWN;
    n->joined = false;
    catch_up_wait(n->catch_up);
    scheduler_disown(n->scheduler, new_id);
    worker_disown(n->worker);
    if (n->setup.fleet)
        handoff_forget(n->fleet.handoff);
    if (n->setup.rejoined)
        n->setup.rejoined(n->setup.observe_context, new_id);
}

void node_join(struct node *n)
{
    const struct node_setup *setup = &n->setup;
    n->membership = membership_new(
        &(struct membership_setup){ .writer = setup->writer,
                                    .clock = setup->clock,
                                    .name = setup->name,
                                    .version = setup->version,
                                    .seed = setup->seed,
                                    .shared = setup->shared,
                                    .fleet = setup->fleet,
                                    .aside = !node_has_role(n, NODE_SCHEDULER),
                                    .lease = setup->lease ? setup->async_io : NULL,
                                    .heartbeat_ms = setup->heartbeat_ms ? setup->heartbeat_ms : MEMBERSHIP_HEARTBEAT_MS,
                                    .describe = node_describe,
                                    .partitions_changed = node_on_partitions_changed,
                                    .marked_dead = node_on_marked_dead,
                                    .found_dead = node_on_found_dead,
                                    .recall_requested = node_on_recall_requested,
                                    .died = node_on_died,
                                    .context = n },
        n->now);
    n->id = membership_id(n->membership);
}

static void node_abort_requested(struct node *n, const struct recall_request *w)
{
    char text[SLOT_REASON_MAX];
    bool by = w->by_scheduled_ms != 0;
    struct str why = by ? slot_replace_reason(w->by_scheduled_ms, text) : S("cancelled");
    if (!scheduler_replace(n->scheduler, w->id, w->fence, why) && !node_fleet_end(n, w->id, w->fence, why))
        worker_replace(n->worker, w->id, w->fence, by ? why : S("cancelled while it ran"));
}

/* Takes it off the wheel, or off the line of its host. */
static bool node_return_unstarted(struct node *n, const struct recall_request *w)
{
    struct outcome o = { .kind = OUTCOME_RETURNED,
                         .retry_after_ms = RECALL_REQUESTS_BACK_MS,
                         .recalled = true }; /* else it is claimed again before the user's change */
    const struct task *t = scheduler_armed(n->scheduler, w->id, w->fence);
    if (!t)
        return worker_return(n->worker, w->id, w->fence, &o);
    struct settle_facts facts = settle_facts_of(t, &o, NULL);
    if (!node_end_claim(n, &facts, &o))
        return false;
    scheduler_unarm(n->scheduler, w->id, w->fence);
    return true;
}

/* What the shared queue has counts as started here: whoever wants it back asks that queue, too. */
static enum recall_grant node_grant_recall(void *context, const struct recall_request *w)
{
    struct node *n = context;
    if (!scheduler_holds(n->scheduler, w->id, w->fence))
        return RECALL_REQUEST_UNKNOWN;
    if (w->abort) {
        node_abort_requested(n, w);
        return RECALL_REQUEST_DONE;
    }
    if (scheduler_is_being_settled(n->scheduler, w->id, w->fence) || node_return_unstarted(n, w))
        return RECALL_REQUEST_DONE;
    scheduler_want_back(n->scheduler, w->id, w->fence);
    bool runs = worker_runs(n->worker, w->id, w->fence);
    return !runs && scheduler_may_start(n->scheduler, w->id, w->fence) ? RECALL_REQUEST_UNKNOWN
                                                                       : RECALL_REQUEST_REFUSED;
}

void node_serve_recalls(struct node *n)
{
    n->recall_requests = recall_requests_new(&(struct recall_requests_setup){
        .writer = n->setup.writer, .node = &n->id, .grant = node_grant_recall, .context = n });
}
