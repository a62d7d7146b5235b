/* One batch is on its way at a time, as with one writer thread: gathered, applied after a while, answered after another. A
 * batch fails whole: before it was applied, or after, its answer lost. Answers come in the order of the batches. */
#include "sim.h"

enum { BATCH_MAX = 64 };

static struct sim *sim_of(struct writer *w)
{
    return container_of(container_of(w, struct sim_writer, base), struct sim, writer);
}

static timer_fn apply_batch;

static void submit(struct writer *w, struct op *op)
{
    struct sim *s = sim_of(w);
    list_push(&s->writer.pending, &op->link);
    if (s->ghost || s->writer.busy)
        return;
    s->writer.busy = true;
    after_us(s, between(s, 50, s->profile.latency_us), apply_batch, NULL);
}

void sim_writer_init(struct sim *s)
{
    static const struct writer_ops ops = { submit };
    s->writer.base.ops = &ops;
    list_init(&s->writer.pending);
    list_init(&s->writer.done);
    list_init(&s->writer.swallowed);
}

/* Claims and settles before the rest, those of one kind in the order they came. */
static size_t gather(struct sim *s, struct op *batch[BATCH_MAX])
{
    size_t n = 0;
    for (int urgent = 1; urgent >= 0; urgent--) {
        list_each (&s->writer.pending, link) {
            struct op *op = container_of(link, struct op, link);
            bool is_urgent =
                op->kind == OP_CLAIM || op->kind == OP_SETTLE || op->kind == OP_CLAIMED || op->kind == OP_MISSED;
            if (n < BATCH_MAX && is_urgent == urgent) {
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
    [OP_INSERT] = "insert", [OP_CLAIM] = "claim",   [OP_CLAIMED] = "claimed",
    [OP_HELD] = "held",     [OP_SETTLE] = "settle", [OP_RECURRING] = "recurring",
    [OP_SPAWN] = "spawn",   [OP_PUT] = "put",       [OP_MISSED] = "missed",
};

static void trace_op(const struct sim *s, const struct op *op, const char *how)
{
    if (!s->verbose)
        return;
    trace(s, "store %s %s%s%s", op_names[op->kind], how, op->rc ? ": " : "", op->rc ? op->error.text : "");
    if (op->rc)
        return;
    if (op->kind == OP_CLAIM) {
        const struct op_claim *c = (const struct op_claim *)op;
        for (size_t i = 0; i < c->ret.n; i++)
            trace(s, "  claimed %s fence %lld due %lld", short_id(c->ret.v[i].id), (long long)c->ret.v[i].fence,
                  (long long)c->ret.v[i].due_ms);
        trace(s, "  next due %lld", (long long)c->ret_next_due_ms);
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
    } else if (op->kind == OP_MISSED) {
        trace(s, "  withdrawn %zu", ((const struct op_missed *)op)->ret_withdrawn);
    } else if (op->kind == OP_INSERT) {
        const struct op_insert *x = (const struct op_insert *)op;
        for (size_t i = 0; i < x->count; i++)
            trace(s, "  inserted %s due %lld cursor %lld", short_id(x->tasks[i].id), (long long)x->tasks[i].due_ms,
                  (long long)x->tasks[i].cursor_ms);
    }
}

static void apply_now(struct sim *s, struct op *const *batch, size_t n)
{
    struct error e;
    if (plant_apply(s, batch, n, &e)) {
        fail(batch, n, e.text);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        trace_op(s, batch[i], "applied");
        if (batch[i]->kind != OP_SETTLE || batch[i]->rc)
            continue;
        const struct op_settle *op = (const struct op_settle *)batch[i];
        for (size_t k = 0; k < op->n; k++)
            if (!op->v[k].stale)
                oracle_settled(s, &op->v[k], op->now_ms);
    }
}

/* One answer a turn of the loop or several. */
static void deliver(struct sim *s, void *context)
{
    (void)context;
    int64_t more = between(s, 1, 8);
    while (more-- && !list_empty(&s->writer.done)) {
        struct op *op = container_of(list_pop(&s->writer.done), struct op, link);
        if (plant_swallows(s, op))
            continue;
        s->poked = true;
        op->done(op);
    }
    if (!list_empty(&s->writer.done))
        after_us(s, 0, deliver, NULL);
}

static void apply_batch(struct sim *s, void *context)
{
    (void)context;
    struct op *batch[BATCH_MAX];
    size_t n = gather(s, batch);
    if (s->steady_us < s->writer.down_until_us) {
        fail(batch, n, "the store is down");
    } else if (n && faulty(s, s->profile.fail_percent, FAULT_FAIL_BEFORE)) {
        fail(batch, n, "write failed");
    } else if (n) {
        apply_now(s, batch, n);
        if (faulty(s, s->profile.fail_percent, FAULT_FAIL_AFTER))
            fail(batch, n, "the answer was lost");
    }
    for (size_t i = 0; i < n; i++) {
        trace_op(s, batch[i], "answered");
        list_push(&s->writer.done, &batch[i]->link);
    }
    s->writer.deliver_us = max_of(s->writer.deliver_us, s->steady_us + between(s, 10, s->profile.latency_us));
    after_us(s, s->writer.deliver_us - s->steady_us, deliver, NULL);
    s->writer.busy = !list_empty(&s->writer.pending);
    if (s->writer.busy)
        after_us(s, between(s, 50, s->profile.latency_us), apply_batch, NULL);
}

/* ---- the end of a node ---- */

/* The batch at the head was committed or not; what came behind it was not. */
void sim_writer_crash(struct sim *s)
{
    struct op *batch[BATCH_MAX];
    size_t n = gather(s, batch);
    if (n && s->steady_us >= s->writer.down_until_us && chance(s, 50))
        apply_now(s, batch, n);
    for (size_t i = 0; i < n; i++)
        list_push(&s->writer.pending, &batch[i]->link);
}

/* What a dead node's operation would have liked to hear: an answer that makes it ask for nothing more. */
static void answer_ghost(struct op *op)
{
    op->rc = ERR_OK;
    switch (op->kind) {
    case OP_CLAIM:
        ((struct op_claim *)op)->ret.n = 0;
        ((struct op_claim *)op)->ret_next_due_ms = INT64_MAX;
        break;
    case OP_CLAIMED: ((struct op_claimed *)op)->ret.n = 0; break;
    case OP_HELD: ((struct op_held *)op)->ret.n = 0; break;
    case OP_RECURRING:
        ((struct op_recurring *)op)->ret.n = 0;
        ((struct op_recurring *)op)->ret_next_ms = INT64_MAX;
        break;
    case OP_SETTLE:
        for (size_t i = 0; i < ((struct op_settle *)op)->n; i++)
            ((struct op_settle *)op)->v[i].stale = false;
        break;
    case OP_SPAWN: op->rc = ERR_CONFLICT; break;
    default: op->rc = ERR_UNAVAILABLE; break;
    }
    op->done(op);
}

void sim_writer_answer_ghosts(struct sim *s)
{
    struct list *const lists[] = { &s->writer.done, &s->writer.pending, &s->writer.swallowed };
    for (size_t i = 0; i < array_count(lists); i++)
        while (!list_empty(lists[i]))
            answer_ghost(container_of(list_pop(lists[i]), struct op, link));
}
