/* Leases for external workers. */
#include "node/node_internal.h"

static void node_on_lease_claim(void *context, const struct op_claim *claim)
{
    struct node *n = context;
    scheduler_report_gated(n->scheduler, claim);
    lanes_on_unblocked(scheduler_lanes(n->scheduler), claim->ret_unblocked_lanes, n->now.wall_ms);
}

static void node_on_expired(void *context, const struct task *t, enum task_state from)
{
    struct node *n = context;
    if (n->setup.observe_expired)
        n->setup.observe_expired(n->setup.observe_context, t, from);
}

void node_leasing_init(struct node *n)
{
    n->leasing = leasing_new(&(struct leasing_setup){ .reaper = node_reaper_setup(n, n->setup.seed + 5),
                                                      .node = &n->id,
                                                      .lanes = scheduler_lanes(n->scheduler),
                                                      .shared = n->setup.shared,
                                                      .answered = node_on_lease_claim,
                                                      .expired = node_on_expired });
}

void node_lease(struct node *n, struct lease_ask *a, struct moment now)
{
    assert_owned(&n->owner);
    leasing_ask(n->leasing, a, now);
}

void node_on_lease_settled(struct node *n, int32_t tenant, struct str queue, uint64_t unblocked)
{
    assert_owned(&n->owner);
    leasing_on_settled(n->leasing, tenant, queue);
    node_on_lanes_unblocked(n, unblocked);
}

void node_stop_leasing(struct node *n)
{
    assert_owned(&n->owner);
    leasing_stop_waiting(n->leasing);
}
