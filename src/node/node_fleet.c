/* A node of a fleet. Tasks go to the shared queue, and outcomes come from the shared events. A task that ends in this
 * process, or runs here while the shared queue is down, goes through the queue and the events of this process. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/node_internal.h"

enum { WHY_MAX = 128, OWN_ARENA = 4096, QUEUE_DOWN_MS = 1000 };

static bool node_fleet_is_leader(void *context)
{
    const struct node *n = context;
    return membership_is_leader(n->membership);
}

static void node_fleet_on_queue_answers(void *context)
{
    struct node *n = context;
    scheduler_queue_answers(n->scheduler);
}

enum queue_view node_fleet_view_queue(void *context, uint64_t *ret_epoch)
{
    const struct node *n = context;
    if (reconcile_is_steady(n->fleet.reconcile, ret_epoch))
        return QUEUE_VIEW_STEADY;
    bool runs_here = n->setup.fallback && node_has_role(n, NODE_SCHEDULER);
    return runs_here && reconcile_silent_ms(n->fleet.reconcile) >= QUEUE_DOWN_MS ? QUEUE_VIEW_DOWN : QUEUE_VIEW_WAIT;
}

static void node_fleet_make_worker(struct node *n)
{
    struct uuid_gen ids;
    uuid_gen_init(&ids, n->setup.seed ^ 0xf1ee7);
    struct worker_setup setup = node_worker_setup(n, n->setup.async_io, uuid_next(&ids, n->now.wall_ms));
    setup.clock = n->setup.clock;
    setup.fleet = true;
    setup.describe = n->setup.describe_worker;
    setup.started = n->setup.observe_started;
    setup.context = n->setup.observe_context;
    n->fleet.worker = worker_new(&setup);
}

static void node_fleet_on_workers_changed(void *context)
{
    struct node *n = context;
    membership_heartbeat_now(n->membership);
}

static void node_fleet_make_updater(struct node *n)
{
    n->fleet.updater = updater_new(&(struct updater_setup){ .async_io = n->setup.async_io,
                                                            .writer = n->setup.writer,
                                                            .metrics = n->setup.metrics,
                                                            .seed = n->setup.seed + 5,
                                                            .ended = node_on_ended,
                                                            .aside = node_lane_of_host,
                                                            .breaker_news = node_on_breaker_news,
                                                            .settled = node_settled,
                                                            .batch_settled = node_fleet_on_batch_settled,
                                                            .unblocked = node_unblocked,
                                                            .workers_changed = node_fleet_on_workers_changed,
                                                            .context = n });
}

void node_fleet_init(struct node *n)
{
    const struct node_setup *s = &n->setup;
    struct node_fleet *f = &n->fleet;
    if (!s->fleet)
        return;
    assert(s->own && s->own->at_once);
    arena_init(&f->own_arena, OWN_ARENA);
    f->own = (struct worker_group){ .kind = queue_worker_kind(s->filter, 0, 0, &f->own_arena),
                                    .slots = (int64_t)s->slots,
                                    .workers = 1 };
    if (node_has_role(n, NODE_WORKER))
        node_fleet_make_worker(n);
    if (node_has_role(n, NODE_UPDATER))
        node_fleet_make_updater(n);
    f->handoff = handoff_new(
        &(struct handoff_setup){ .writer = s->writer, .node = &n->id, .refused = node_on_refused, .context = n });
    f->held_audit = held_audit_new(&(struct held_audit_setup){ .writer = s->writer, .scheduler = n->scheduler });
    struct reaper_setup reaper = node_reaper_setup(n, s->seed + 6);
    f->delivery_timeouts = delivery_timeout_new(&reaper);
    f->reconcile = reconcile_new(&(struct reconcile_setup){ .reaper = node_reaper_setup(n, s->seed + 7),
                                                            .scheduler = n->scheduler,
                                                            .is_leader = node_fleet_is_leader,
                                                            .answers = node_fleet_on_queue_answers },
                                 n->now);
}

void node_fleet_release(struct node *n)
{
    struct node_fleet *f = &n->fleet;
    assert(f->io_requests == 0);
    worker_free(f->worker);
    updater_free(f->updater);
    handoff_free(f->handoff);
    held_audit_free(f->held_audit);
    delivery_timeout_free(f->delivery_timeouts);
    reconcile_free(f->reconcile);
    free(f->settled);
    arena_release(&f->own_arena);
}

/* ---- who runs the tasks ---- */

/* The workers, as the last heartbeat told. While the queue is down and this process runs due tasks, only itself. */
void node_fleet_before(struct node *n)
{
    struct node_fleet *f = &n->fleet;
    if (!n->setup.fleet || !membership_has_joined(n->membership))
        return;
    bool here = scheduler_runs_here(n->scheduler);
    uint64_t generation = membership_generation(n->membership);
    if (f->workers_generation == generation && f->here == here)
        return;
    f->workers_generation = generation;
    f->here = here;
    scheduler_set_workers(
        n->scheduler, &(struct lanes_workers){
                          .groups = here ? (struct worker_groups){ &f->own, 1 } : *membership_workers(n->membership),
                          .nodes = here ? 1 : membership_ready_count(n->membership),
                          .waiting = n->setup.waiting,
                          .here = here,
                      });
}

/* ---- settled tasks, and the nodes that hold them ---- */

static void node_fleet_note_settled(struct node *n, struct uuid id, int64_t fence)
{
    struct node_fleet *f = &n->fleet;
    if (!n->setup.notify_settled)
        return;
    if (f->settled_count == f->settled_cap) {
        f->settled_cap = max_of(f->settled_cap * 2, (size_t)64);
        f->settled = xrealloc(f->settled, f->settled_cap * sizeof *f->settled);
    }
    f->settled[f->settled_count++] = (struct fenced_id){ id, fence };
}

void node_fleet_settled(struct node *n, const struct settlement *s)
{
    if (!n->setup.fleet || s->stale || scheduler_holds(n->scheduler, s->id, s->fence))
        return;
    n->fleet.comes_again = n->fleet.comes_again || s->ret_state == TASK_SCHEDULED;
    node_fleet_note_settled(n, s->id, s->fence);
}

/* The other nodes are notified with the batch to which the tasks belong. */
void node_fleet_retaken(void *context, const struct tasks *t)
{
    struct node *n = context;
    for (size_t i = 0; i < t->n; i++) {
        struct uuid id = t->v[i].id;
        int64_t was = t->v[i].fence - 1;
        if (scheduler_holds(n->scheduler, id, was))
            scheduler_on_settled(n->scheduler, id, was, NULL);
        else
            node_fleet_note_settled(n, id, was);
        worker_settled(n->worker, id, was);
    }
}

void node_fleet_on_batch_settled(void *context)
{
    struct node *n = context;
    struct node_fleet *f = &n->fleet;
    if (f->settled_count)
        n->setup.notify_settled(n->setup.observe_context, f->settled, f->settled_count);
    f->settled_count = 0;
    if (f->comes_again && n->setup.read_lanes)
        n->setup.read_lanes(n->setup.observe_context);
    f->comes_again = false;
}

void node_on_settled_elsewhere(struct node *n, const struct fenced_id *settled, size_t count)
{
    assert_owned(&n->owner);
    for (size_t i = 0; i < count; i++) {
        scheduler_on_settled(n->scheduler, settled[i].id, settled[i].fence, NULL);
        worker_settled(n->worker, settled[i].id, settled[i].fence);
    }
}

/* ---- ending tasks that the queue has ---- */

struct fleet_end {
    struct io_one io_request;
    struct node *node;
    struct settle_facts facts;
    size_t why_size;
    char why[WHY_MAX];
};

static void fleet_end_on_aborted(struct io_request *e)
{
    struct fleet_end *x = container_of(e, struct fleet_end, io_request.io_request);
    if (log_first_failure(&x->node->fleet.abort_is_failing, e->rc)) /* it runs to its end, unless asked for again */
        log_warn("abort_failed", kv_uuid("task", x->io_request.id.id), kv_err(&e->error));
    x->node->fleet.io_requests--;
    free(x);
}

static void fleet_end_submit(struct fleet_end *x, enum io_kind kind, void (*done)(struct io_request *e))
{
    x->io_request.io_request = (struct io_request){ .kind = kind, .done = done };
    async_io_submit(x->node->setup.async_io, &x->io_request.io_request);
}

static void fleet_end_on_recalled(struct io_request *e)
{
    struct fleet_end *x = container_of(e, struct fleet_end, io_request.io_request);
    struct outcome o = { .kind = OUTCOME_CANCELLED, .retry_after_ms = -1, .error = { x->why, x->why_size } };
    if (e->rc || !x->io_request.ret_recalled) {
        fleet_end_submit(x, IO_ABORT, fleet_end_on_aborted);
        return;
    }
    node_end_claim(x->node, &x->facts, &o); /* if that fails, reconcile finds it missing */
    x->node->fleet.io_requests--;
    free(x);
}

static struct fleet_end *fleet_end_new(struct node *n, struct uuid id, int64_t fence)
{
    struct fleet_end *x = xnew(*x);
    x->node = n;
    x->io_request.id = (struct fenced_id){ id, fence };
    n->fleet.io_requests++;
    return x;
}

bool node_fleet_end(struct node *n, struct uuid id, int64_t fence, struct str why)
{
    const struct settle_facts *facts = scheduler_queued(n->scheduler, id, fence);
    if (!facts)
        return false;
    if (!scheduler_ask_abort(n->scheduler, id, fence)) /* a node that waits for its end asks again and again */
        return true;
    struct fleet_end *x = fleet_end_new(n, id, fence);
    x->facts = *facts;
    x->why_size = min_of(why.n, sizeof x->why);
    memcpy(x->why, why.p, x->why_size);
    fleet_end_submit(x, IO_RECALL, fleet_end_on_recalled);
    return true;
}

void node_fleet_abort(struct node *n, struct uuid id, int64_t fence)
{
    if (n->setup.fleet)
        fleet_end_submit(fleet_end_new(n, id, fence), IO_ABORT, fleet_end_on_aborted);
}

/* ---- steps ---- */

int64_t node_fleet_step(struct node *n, int64_t behind_ms)
{
    struct node_fleet *f = &n->fleet;
    struct moment now = n->now;
    f->begun = f->begun || membership_has_joined(n->membership);
    if (!n->setup.fleet || !f->begun) /* before that, the store's time is not known */
        return INT64_MAX;
    int64_t wake = handoff_step(f->handoff, now);
    if (f->worker)
        wake = moment_earlier(wake, worker_step(f->worker, now, behind_ms));
    if (f->updater)
        wake = moment_earlier(wake, updater_step(f->updater, now, behind_ms));
    wake = moment_earlier(wake, held_audit_step(f->held_audit, now));
    wake = moment_earlier(wake, delivery_timeout_step(f->delivery_timeouts, now, behind_ms));
    return moment_earlier(wake, reconcile_step(f->reconcile, now, behind_ms));
}

void node_fleet_drain(struct node *n)
{
    struct node_fleet *f = &n->fleet;
    if (!n->setup.fleet)
        return;
    if (f->worker)
        worker_stop_taking(f->worker);
    if (f->updater)
        updater_stop(f->updater); /* later events are for other nodes, or for the next start */
    held_audit_stop(f->held_audit);
    delivery_timeout_stop(f->delivery_timeouts);
    reconcile_stop(f->reconcile);
}

bool node_fleet_is_idle(const struct node *n)
{
    const struct node_fleet *f = &n->fleet;
    if (!n->setup.fleet)
        return true;
    return (!f->worker || worker_is_idle(f->worker)) && (!f->updater || updater_is_idle(f->updater)) &&
           handoff_is_idle(f->handoff) && held_audit_is_idle(f->held_audit) &&
           delivery_timeout_is_idle(f->delivery_timeouts) && reconcile_is_idle(f->reconcile) && f->io_requests == 0;
}

bool node_queue_state(const struct node *n, struct queue_state *ret)
{
    assert_owned(&n->owner);
    return n->setup.fleet && reconcile_state(n->fleet.reconcile, ret);
}
