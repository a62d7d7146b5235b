/* One batch is on its way at a time, as with one writer thread: it is gathered, applied after a while, and answered
 * after another. A batch fails as a whole: before it is applied; or after, and then its answer is lost. Answers come
 * in the order of the batches. */
#include <assert.h>

#include "sim.h"

enum { BATCH_MAX = 64 };

static struct sim_node *node_of(struct writer *w)
{
    return container_of(container_of(w, struct sim_writer, base), struct sim_node, writer);
}

static timer_fn apply_batch;

/* The time that the operation is given; INT64_MAX: none. */
static int64_t time_of(const struct op *op)
{
    switch (op->kind) {
    case OP_CLAIM: return ((const struct op_claim *)op)->now_ms;
    case OP_SETTLE: return ((const struct op_settle *)op)->now_ms;
    case OP_SPAWN: return ((const struct op_spawn *)op)->now_ms;
    case OP_CATCH_UP: return ((const struct op_catch_up *)op)->before_ms;
    case OP_HEARTBEAT: return ((const struct op_heartbeat *)op)->now_ms;
    case OP_NODE_DEAD: return ((const struct op_node_dead *)op)->now_ms;
    case OP_LEASE: return ((const struct op_lease *)op)->now_ms;
    case OP_LIMIT_TAKE: return ((const struct op_limit_take *)op)->now_ms;
    case OP_RECALL: return ((const struct op_recall *)op)->now_ms;
    case OP_WORKER_REPORT: return ((const struct op_worker_report *)op)->now_ms;
    case OP_OPEN: return ((const struct op_open *)op)->now_ms;
    case OP_AWAIT: return ((const struct op_await *)op)->now_ms;
    case OP_STOP: return ((const struct op_stop *)op)->now_ms;
    default: return INT64_MAX;
    }
}

static void submit(struct writer *w, struct op *op)
{
    struct sim_node *n = node_of(w);
    struct sim *s = n->sim;
    assert(time_of(op) > s->steady_us / 1000 * 2); /* the store's times are wall time, never steady time */
    list_push(&n->writer.pending, &op->link);
    if (s->ghost == n || n->writer.busy)
        return;
    n->writer.busy = true;
    after_us(s, between(s, 50, s->profile.latency_us), apply_batch, n);
}

static void submit_pair(struct writer *w, struct op *first, struct op *second)
{
    submit(w, first);
    submit(w, second);
}

void sim_writer_init(struct sim_node *n)
{
    static const struct writer_ops ops = { submit, submit_pair };
    n->writer.base.ops = &ops;
    list_init(&n->writer.pending);
    list_init(&n->writer.done);
    list_init(&n->writer.swallowed);
}

static bool is_urgent(enum op_kind kind)
{
    return kind == OP_CLAIM || kind == OP_SETTLE || kind == OP_CLAIMED || kind == OP_CATCH_UP || kind >= OP_HEARTBEAT;
}

/* Claims, settles and heartbeats before the rest, each kind in the order in which it came. */
static size_t gather(struct sim_node *node, struct op *batch[BATCH_MAX])
{
    size_t n = 0;
    for (int urgent = 1; urgent >= 0; urgent--) {
        list_each (&node->writer.pending, link) {
            struct op *op = container_of(link, struct op, link);
            if (n < BATCH_MAX && is_urgent(op->kind) == urgent) {
                list_remove(link);
                batch[n++] = op;
            }
        }
    }
    return n;
}

static void fail(struct op *const *batch, size_t n, const char *why)
{
    for (size_t i = 0; i < n; i++)
        batch[i]->rc = error_set(&batch[i]->error, ERR_UNAVAILABLE, "%s", why);
}

static const char *const op_names[] = {
    [OP_INSERT] = "insert",        [OP_CLAIM] = "claim",       [OP_CLAIMED] = "claimed",
    [OP_ORPHANS] = "held",         [OP_SETTLE] = "settle",     [OP_RECURRING] = "recurring",
    [OP_SPAWN] = "spawn",          [OP_PUT] = "put",           [OP_CATCH_UP] = "missed",
    [OP_KEY_PUT] = "key_put",      [OP_CATALOG] = "catalog",   [OP_LEASE] = "lease",
    [OP_PURGE] = "forget",         [OP_HEARTBEAT] = "beat",    [OP_NODE_DEAD] = "bury",
    [OP_LIMIT_TAKE] = "share",     [OP_RECALL] = "wish",       [OP_RECALL_LIST] = "wishes",
    [OP_HANDOFF] = "hand",         [OP_HANDED_OFF] = "handed", [OP_RUNNING] = "running",
    [OP_RETAKE] = "retake",        [OP_LEASE_RENEW] = "keep",  [OP_LEASES_EXPIRED] = "leases over",
    [OP_WORKER_REPORT] = "worker", [OP_BREAKERS] = "breakers", [OP_STATS] = "stats",
    [OP_ARRIVE] = "arrive",        [OP_OPEN] = "open",         [OP_AWAIT] = "await",
    [OP_SIGNAL] = "signal",        [OP_STOP] = "stop",         [OP_DEFINE] = "define",
    [OP_RESEAL] = "reseal",        [OP_FOLD] = "fold",
};

static void trace_op(const struct sim_node *n, const struct op *op, const char *how)
{
    const struct sim *s = n->sim;
    if (!s->verbose)
        return;
    trace(s, "node %d: store %s %s%s%s", n->number, op_names[op->kind], how, op->rc ? ": " : "",
          op->rc ? op->error.text : "");
    if (op->rc)
        return;
    if (op->kind == OP_CLAIM) {
        const struct op_claim *c = (const struct op_claim *)op;
        for (size_t i = 0; i < c->ret.n; i++)
            trace(s, "  claimed %s fence %lld due %lld", short_id(c->ret.v[i].id), (long long)c->ret.v[i].fence,
                  (long long)c->ret.v[i].due_ms);
        trace(s, "  next due %lld", (long long)c->ret_next_due_ms);
    } else if (op->kind == OP_RETAKE) {
        const struct op_retake *x = (const struct op_retake *)op;
        for (size_t i = 0; i < x->ret.n; i++)
            trace(s, "  took %s fence %lld", short_id(x->ret.v[i].id), (long long)x->ret.v[i].fence);
    } else if (op->kind == OP_SETTLE) {
        const struct op_settle *x = (const struct op_settle *)op;
        for (size_t i = 0; i < x->n; i++)
            trace(s, "  settled %s fence %lld %s due %lld%s", short_id(x->v[i].id), (long long)x->v[i].fence,
                  task_state_name(x->v[i].replace ? x->v[i].replace->state : x->v[i].verdict.next),
                  (long long)(x->v[i].replace ? x->v[i].replace->due_ms : x->v[i].verdict.due_ms),
                  x->v[i].stale     ? " (stale)"
                  : x->v[i].replace ? " (recalled)"
                                    : "");
    } else if (op->kind == OP_SPAWN) {
        const struct op_spawn *x = (const struct op_spawn *)op;
        trace(s, "  of %s: %zu made, cursor %lld, runs %lld, skipped %lld%s", short_id(x->id), x->plan->occurrences.n,
              (long long)x->plan->cursor_ms, (long long)x->plan->runs, (long long)x->plan->skipped,
              x->plan->ended ? ", ended" : "");
        for (size_t i = 0; i < x->plan->occurrences.n; i++)
            trace(s, "    %s due %lld %s", short_id(x->plan->occurrences.v[i].id),
                  (long long)x->plan->occurrences.v[i].due_ms, task_state_name(x->plan->occurrences.v[i].state));
    } else if (op->kind == OP_PUT) {
        const struct op_put *x = (const struct op_put *)op;
        trace(s, "  %s version %lld %s due %lld cursor %lld withdrawn %zu", short_id(x->task->id),
              (long long)x->task->version, task_state_name(x->task->state), (long long)x->task->due_ms,
              (long long)x->ret_cursor_ms, x->ret_withdrawn);
        if (x->also)
            trace(s, "    and %s due %lld", short_id(x->also->id), (long long)x->also->due_ms);
    } else if (op->kind == OP_CATCH_UP) {
        trace(s, "  withdrawn %zu", ((const struct op_catch_up *)op)->ret_withdrawn);
    } else if (op->kind == OP_INSERT) {
        const struct op_insert *x = (const struct op_insert *)op;
        for (size_t i = 0; i < x->count; i++)
            trace(s, "  inserted %s due %lld cursor %lld", short_id(x->tasks[i].id), (long long)x->tasks[i].due_ms,
                  (long long)x->tasks[i].cursor_ms);
    }
}

/* A shared store has a clock of its own. */
static void tell_time(struct sim *s, struct op *op)
{
    if (op->kind == OP_HEARTBEAT && is_cluster(s))
        ((struct op_heartbeat *)op)->ret_store_us = wall_us(s);
}

static void apply_now(struct sim_node *node, struct op *const *batch, size_t n)
{
    struct sim *s = node->sim;
    struct error e;
    if (plant_apply(s, batch, n, &e)) {
        fail(batch, n, e.text);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        trace_op(node, batch[i], "applied");
        tell_time(s, batch[i]);
        nodes_applied(node, batch[i]);
        fleet_applied(node, batch[i]);
        flows_applied(node, batch[i]);
        if (batch[i]->kind == OP_BREAKERS && !batch[i]->rc)
            oracle_breakers(s, (const struct op_breakers *)batch[i]);
        if (batch[i]->kind != OP_SETTLE || batch[i]->rc)
            continue;
        const struct op_settle *op = (const struct op_settle *)batch[i];
        for (size_t k = 0; k < op->n; k++)
            if (!op->v[k].stale)
                oracle_settled(s, &op->v[k], op->now_ms);
    }
}

/* One answer in a turn of the loop, or several. */
static void deliver(struct sim *s, void *context)
{
    struct sim_node *n = context;
    if (is_stopped(n)) {
        after_us(s, n->stopped_until_us - s->steady_us, deliver, n);
        return;
    }
    int64_t more = between(s, 1, 8);
    while (more-- && !list_empty(&n->writer.done)) {
        struct op *op = container_of(list_pop(&n->writer.done), struct op, link);
        if (plant_swallows(n, op))
            continue;
        n->poked = true;
        op->done(op);
    }
    if (!list_empty(&n->writer.done))
        after_us(s, 0, deliver, n);
}

static bool has_beat(struct op *const *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (batch[i]->kind == OP_HEARTBEAT)
            return true;
    return false;
}

static void hand_in(struct sim_node *node, struct op *const *batch, size_t n)
{
    struct sim *s = node->sim;
    bool failed = true;
    bool reaches = s->plant == PLANT_NO_GAP && node->number == 0; /* as if it had seen the other nodes all the time */
    if (s->steady_us < s->down_until_us && !reaches) {
        fail(batch, n, "the store is down");
        return;
    }
    if (n && faulty(s, s->profile.fail_percent, FAULT_FAIL_BEFORE)) {
        fail(batch, n, "write failed");
    } else if (n) {
        apply_now(node, batch, n);
        failed = faulty(s, s->profile.fail_percent, FAULT_FAIL_AFTER);
        if (failed)
            fail(batch, n, "the answer was lost");
    }
    if (failed && has_beat(batch, n)) /* that is its own trouble */
        node->trouble_us = max_of(node->trouble_us, s->steady_us + UNHEARD_US);
}

static void apply_batch(struct sim *s, void *context)
{
    struct sim_node *node = context;
    struct op *batch[BATCH_MAX];
    if (is_stopped(node) && chance(s, 50)) { /* else it was on its way when the process was stopped */
        after_us(s, node->stopped_until_us - s->steady_us, apply_batch, node);
        return;
    }
    if (s->steady_us < s->stalled_us) {
        after_us(s, s->stalled_us - s->steady_us, apply_batch, node);
        return;
    }
    size_t n = gather(node, batch);
    hand_in(node, batch, n);
    for (size_t i = 0; i < n; i++) {
        trace_op(node, batch[i], "answered");
        list_push(&node->writer.done, &batch[i]->link);
    }
    node->writer.deliver_us = max_of(node->writer.deliver_us, s->steady_us + between(s, 10, s->profile.latency_us));
    after_us(s, node->writer.deliver_us - s->steady_us, deliver, node);
    node->writer.busy = !list_empty(&node->writer.pending);
    if (node->writer.busy)
        after_us(s, between(s, 50, s->profile.latency_us), apply_batch, node);
}

/* ---- the end of a node ---- */

/* The first batch was committed or not; those behind it were not. */
void sim_writer_crash(struct sim_node *node)
{
    struct sim *s = node->sim;
    struct op *batch[BATCH_MAX];
    size_t n = gather(node, batch);
    if (n && s->steady_us >= s->down_until_us && chance(s, 50))
        apply_now(node, batch, n);
    for (size_t i = 0; i < n; i++)
        list_push(&node->writer.pending, &batch[i]->link);
}

/* Answers an operation of a dead node so that it asks for nothing more. */
static void answer_ghost(struct op *op)
{
    op->rc = ERR_OK;
    switch (op->kind) {
    case OP_CLAIM:
        ((struct op_claim *)op)->ret.n = 0;
        ((struct op_claim *)op)->ret_next_due_ms = INT64_MAX;
        break;
    case OP_CLAIMED: ((struct op_claimed *)op)->ret.n = 0; break;
    case OP_RETAKE: ((struct op_retake *)op)->ret.n = 0; break;
    case OP_ORPHANS: ((struct op_orphans *)op)->ret.n = 0; break;
    case OP_RECURRING:
        ((struct op_recurring *)op)->ret.n = 0;
        ((struct op_recurring *)op)->ret_next_ms = INT64_MAX;
        break;
    case OP_SETTLE:
        for (size_t i = 0; i < ((struct op_settle *)op)->n; i++)
            ((struct op_settle *)op)->v[i].stale = false;
        break;
    case OP_SPAWN: op->rc = ERR_CONFLICT; break;
    case OP_HANDOFF:
    case OP_BREAKERS:
    case OP_WORKER_REPORT: break;
    case OP_HANDED_OFF: ((struct op_handed_off *)op)->ret.n = 0; break;
    default: op->rc = ERR_UNAVAILABLE; break;
    }
    op->done(op);
}

void sim_writer_answer_ghosts(struct sim_node *n)
{
    struct list *const lists[] = { &n->writer.done, &n->writer.pending, &n->writer.swallowed };
    for (size_t i = 0; i < array_count(lists); i++)
        while (!list_empty(lists[i]))
            answer_ghost(container_of(list_pop(lists[i]), struct op, link));
}
