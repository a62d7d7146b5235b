/* What a node does for workers outside. */
#include "node/node_internal.h"

static void answered(void *context, const struct op_claim *claim)
{
    struct node *n = context;
    scheduler_tell_gated(n->scheduler, claim);
    scheduler_on_lanes_unblocked(n->scheduler, claim->ret_unblocked_lanes);
}

void node_leasing_init(struct node *n)
{
    n->leasing = leasing_new(&(struct leasing_setup){ .writer = n->setup.writer,
                                                      .node = &n->id,
                                                      .lanes = scheduler_lanes(n->scheduler),
                                                      .metrics = n->setup.metrics,
                                                      .seed = n->setup.seed + 5,
                                                      .shared = n->setup.shared,
                                                      .answered = answered,
                                                      .settled = node_settled,
                                                      .unblocked = node_on_lanes_unblocked_bits,
                                                      .batch_settled = node_fleet_tell,
                                                      .context = n });
}

void node_lease(struct node *n, struct lease_ask *a, struct moment now)
{
    leasing_ask(n->leasing, a, now);
}

void node_lease_over(struct node *n, int32_t tenant, struct str queue, uint64_t unblocked)
{
    leasing_over(n->leasing, tenant, queue);
    node_on_lanes_unblocked_bits(n, unblocked);
}

void node_stop_leasing(struct node *n)
{
    leasing_stop_waiting(n->leasing);
}
