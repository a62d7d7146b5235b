/* What a node shows of itself. */
#include "node/node_internal.h"

enum { CLOCK_SET_SHOWN_MS = 300000 };

bool node_is_leader(const struct node *n)
{
    assert_owned(&n->owner);
    return membership_is_leader(n->membership);
}

const struct node_rows *node_others(const struct node *n)
{
    assert_owned(&n->owner);
    return membership_nodes(n->membership);
}

uint64_t node_others_generation(const struct node *n)
{
    assert_owned(&n->owner);
    return membership_generation(n->membership);
}

void node_queue(struct node *n, int32_t tenant, int64_t now_ms, struct queue_standing *q)
{
    assert_owned(&n->owner);
    struct lanes *lanes = scheduler_lanes(n->scheduler);
    struct lane_entry *e = lanes_of_queue(lanes, tenant, q->name);
    q->known = e != NULL;
    if (e) {
        q->hold = lanes_hold_of(lanes, e, now_ms);
        if (q->hold.gate == LANE_NO_WORKER) /* it may hold for some of its tasks only */
            q->hold = (struct lane_hold){ 0 };
        q->held = lanes_facts(lanes, e).queue_held;
    }
}

void node_explain(struct node *n, const struct task *t, const struct explain_holds *holds,
                  const struct explain_facts *facts, int64_t now_ms, struct explanation *ret)
{
    assert_owned(&n->owner);
    struct explain_view v = { .scheduler = n->scheduler,
                              .worker = n->worker,
                              .fleet_worker = n->fleet.worker,
                              .catalog = n->setup.catalog,
                              .breakers = n->breakers,
                              .recovering = !node_is_settled_in(n) };
    explain(&v, t, holds, facts, now_ms, ret);
}

static struct node_workers node_workers(const struct node *n)
{
    const struct worker_groups *all = membership_workers(n->membership);
    struct node_workers w = { 0 };
    for (size_t i = 0; n->setup.fleet && i < all->n; i++) {
        w.count += all->v[i].workers;
        w.slots += all->v[i].slots;
    }
    return w;
}

static int64_t node_store_lost_ms(const struct node *n, const struct scheduler_status *s)
{
    int64_t beats_ms = membership_failing_since_ms(n->membership);
    return beats_ms && s->failing_since_ms ? min_of(beats_ms, s->failing_since_ms)
                                           : max_of(beats_ms, s->failing_since_ms);
}

struct node_status node_status(const struct node *n)
{
    assert_owned(&n->owner);
    struct scheduler_status scheduler = scheduler_status(n->scheduler);
    bool clock_was_set = n->clock_jump_ms && n->now.steady_ms - n->clock_set_ms < CLOCK_SET_SHOWN_MS;
    const struct partitions *own = membership_own(n->membership);
    bool aside = !node_has_role(n, NODE_SCHEDULER);
    return (struct node_status){
        .scheduler = scheduler,
        .id = n->id,
        .store_lost_ms = node_store_lost_ms(n, &scheduler),
        .running = worker_running(n->worker) + (n->fleet.worker ? worker_running(n->fleet.worker) : 0),
        .queued = node_queued(n),
        .workers = node_workers(n),
        .recovering = !node_is_settled_in(n),
        .draining = n->draining,
        .leader = membership_is_leader(n->membership),
        .fenced = !membership_may_fire(n->membership),
        .aside = aside,
        .partitions = own     ? partitions_count(own)
                      : aside ? 0
                              : PARTITIONS,
        .clock_set_ms = clock_was_set ? n->now.wall_ms - (n->now.steady_ms - n->clock_set_ms) : 0,
        .clock_jump_ms = clock_was_set ? n->clock_jump_ms : 0,
        .skew_us = membership_skew_us(n->membership),
        .error_us = membership_offset(n->membership).error_us,
    };
}

void node_each_missing(const struct node *n, void (*see)(void *context, const struct pool_shortage *s, size_t lanes),
                       void *context)
{
    assert_owned(&n->owner);
    lanes_each_missing(scheduler_lanes(n->scheduler), see, context);
}

void node_each_tenant(const struct node *n, void (*see)(void *context, int32_t tenant, size_t running), void *context)
{
    assert_owned(&n->owner);
    lanes_each_tenant(scheduler_lanes(n->scheduler), see, context);
}

void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context)
{
    assert_owned(&n->owner);
    if (n->setup.fleet) /* its workers are other processes */
        breaker_table_each(n->breakers, now_ms, see, context);
    else
        breakers_each(worker_breakers(n->worker), now_ms, see, context);
}
