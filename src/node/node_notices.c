/* Notices from writers in this process, and from other nodes. */
#include "node/node_internal.h"

void node_nudge(struct node *n, const struct task *tasks, size_t count)
{
    assert_owned(&n->owner);
    for (size_t i = 0; i < count; i++) {
        const struct task *t = &tasks[i];
        bool is_leased = task_is_leased(t) && t->kind != TASK_RECURRING;
        if (is_leased && t->state == TASK_SCHEDULED)
            leasing_due(n->leasing, t->tenant, t->queue, t->due_ms);
        else if (t->state == TASK_SCHEDULED && !is_leased)
            scheduler_nudge(n->scheduler, t);
        if (t->expires_after_ms)
            leasing_may_expire(n->leasing);
    }
}

void node_on_nodes_changed(struct node *n)
{
    assert_owned(&n->owner);
    membership_heartbeat_now(n->membership);
}

static void node_tell_unblocked(struct node *n, uint64_t lanes)
{
    if (lanes == UINT64_MAX)
        arrivals_ask(n->arrivals);
    if (lanes)
        leasing_all_due(n->leasing, n->now.wall_ms);
}

void node_on_lanes_unblocked(struct node *n, uint64_t lanes)
{
    assert_owned(&n->owner);
    lanes_on_unblocked(scheduler_lanes(n->scheduler), lanes, n->now.wall_ms);
    node_tell_unblocked(n, lanes);
}

void node_unblocked_before_claim(void *context, uint64_t lanes)
{
    struct node *n = context;
    lanes_on_unblocked_before_claim(scheduler_lanes(n->scheduler), lanes, n->now.wall_ms);
    node_tell_unblocked(n, lanes);
}

void node_unblocked(void *context, uint64_t lanes)
{
    node_on_lanes_unblocked(context, lanes);
}

void node_on_due(struct node *n, int64_t due_ms)
{
    assert_owned(&n->owner);
    lanes_all_due(scheduler_lanes(n->scheduler), due_ms);
    leasing_all_due(n->leasing, due_ms);
}

void node_know_lanes(struct node *n, const struct lane *lanes, size_t count)
{
    assert_owned(&n->owner);
    struct lanes *known = scheduler_lanes(n->scheduler);
    for (size_t i = 0; i < count; i++) {
        if (lanes_get(known, lanes[i]))
            continue;
        tenant_hosts_know(n->hosts, &lanes[i], 1);
        if (n->setup.needs)
            tenant_needs_know(n->setup.needs, &lanes[i], 1);
        lanes_due(known, lanes_know(known, lanes[i]), n->now.wall_ms, false);
    }
}

void node_follow_breakers(struct node *n, const struct breaker_row *rows, size_t count)
{
    assert_owned(&n->owner);
    breaker_table_follow(n->breakers, rows, count, n->now);
}

void node_on_breaker_closed(struct node *n, int32_t tenant, struct str host)
{
    assert_owned(&n->owner);
    breaker_table_on_closed(n->breakers, tenant, host, n->now);
}

void node_await_rules(struct node *n, bool await)
{
    assert_owned(&n->owner);
    scheduler_await_rules(n->scheduler, await);
}

void node_on_recall_request(struct node *n)
{
    assert_owned(&n->owner);
    recall_requests_on_notice(n->recall_requests);
}

void node_on_recall_returned(struct node *n)
{
    assert_owned(&n->owner);
    recall_requests_on_returned(n->recall_requests);
}

void node_rules_changed(struct node *n)
{
    assert_owned(&n->owner);
    scheduler_apply_rules(n->scheduler);
    leasing_all_due(n->leasing, n->now.wall_ms);
}
