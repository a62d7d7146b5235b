/* OP_SETTLE. */
#include <assert.h>

#include "model/internal.h"

static void memory_add_execution(struct store_memory *s, const struct execution *x)
{
    if (order_get(&s->executions, 0, x->id))
        return;
    size_t size =
        str_pack_size(x->worker) + str_pack_size(x->error) + str_pack_size(x->output) + str_pack_size(x->trace_id);
    struct execution *row = xmalloc(sizeof *row + size);
    char *at = (char *)(row + 1);
    *row = *x;
    row->worker = str_pack(x->worker, &at);
    row->error = str_pack(x->error, &at);
    row->output = str_pack(x->output, &at);
    row->trace_id = str_pack(x->trace_id, &at);
    order_add(&s->executions, 0, row->id, row);
}

static struct task memory_settled(const struct task *t, const struct settlement *by, int64_t now_ms)
{
    struct task next = *t;
    const struct verdict *v = &by->verdict;
    next.state = v->next;
    next.due_ms = !task_is_final(v->next) ? v->due_ms : t->due_ms;
    next.awaited_ms = !task_is_final(v->next) ? v->awaited_ms : t->awaited_ms;
    next.late_by = !task_is_final(v->next) ? v->late_by : t->late_by;
    next.attempts = v->attempts;
    next.losses = v->losses;
    next.last_error = v->last_error;
    next.aside = v->aside.n ? v->aside : t->aside;
    next.recalled = t->recalled || v->recalled;
    next.cause = v->next == TASK_FAILED ? str_from(v->cause.text) : (struct str){ 0 };
    next.updated_ms = now_ms;
    if (v->has_execution)
        next.started_ms = v->execution.started_us / 1000;
    next.completed_ms = settle_completed_ms(v, now_ms);
    next.links = settled_links(t->links, v->next, v->has_execution);
    return next;
}

static void memory_update_parent(struct store_memory *s, struct uuid parent, int64_t run_ms)
{
    const struct task *t = table_get(&s->table, parent);
    if (!t || run_ms <= t->last_run_ms)
        return;
    struct task next = *t;
    next.last_run_ms = run_ms;
    table_put(&s->table, &next);
}

static void memory_put_and_hand_over(struct store_memory *s, const struct task *next, bool edited, uint64_t *unblocked)
{
    struct slot_keys keys;
    slot_keys_init(&keys);
    memory_change_row(&s->table, next, edited, &keys);
    memory_hand_over(&s->table, &keys, unblocked);
    slot_keys_release(&keys);
}

/* OP_SETTLE 10 to 13. True: the occurrence is withdrawn. */
static bool memory_settle_ask_parent(struct store_memory *s, const struct task *t, int64_t now_ms, struct settlement *v,
                                     struct task *row, uint64_t *unblocked)
{
    const struct task *p = table_get(&s->table, v->parent);
    if (!settle_asks_parent(v) || t->kind != TASK_OCCURRENCE || !p || p->kind != TASK_RECURRING)
        return false;
    struct settle_schedule of = {
        .parent = *p, .runs_count = t->runs_count, .started_ms = t->started_ms, .version = t->version, .links = t->links
    };
    if (!settle_in_schedule(&of, now_ms, v, row))
        return false;
    struct task next = *p;
    next.cursor_ms = min_of(p->cursor_ms, t->scheduled_ms + schedule_spread(&p->schedule, p->id));
    next.runs_count = max_of(p->runs_count - 1, 0);
    struct slot_keys keys;
    slot_keys_init(&keys);
    memory_lease_leave(s, t->id);
    memory_drop_row(&s->table, v->id, &keys);
    table_put(&s->table, &next);
    memory_hand_over(&s->table, &keys, unblocked);
    slot_keys_release(&keys);
    return true;
}

static void memory_settle_one(struct store_memory *s, struct settlement *given, int64_t now_ms, uint64_t *unblocked,
                              struct memory_arrivals *arrivals)
{
    const struct task *t = table_get(&s->table, given->id);
    struct settlement changed = *given, *v = &changed;
    struct task row;
    given->stale = !memory_task_runs(s, v->id, v->fence);
    if (given->stale)
        return;
    const struct run_row *run = memory_run_find(s, t->run), *own = memory_run_find(s, t->id);
    if (settle_of_await(t->links, now_ms, v) ||
        (own && settle_asks_own(v, t->links) && settle_of_run(own, now_ms, v))) {
        given->stale = true;
        *unblocked = UINT64_MAX;
    }
    if (run && settle_asks_run(v, t->run))
        settle_in_run(run, t->links, t->place, now_ms, v, &row);
    given->ret_state = TASK_SCHEDULED;
    if (memory_settle_ask_parent(s, t, now_ms, v, &row, unblocked))
        return;
    struct task next = v->replace ? *v->replace : memory_settled(t, v, now_ms);
    assert(uuid_eq(next.id, v->id) && next.tenant == t->tenant && next.state != TASK_RUNNING);
    next.claim = (struct uuid){ 0 };
    given->ret_state = next.state;
    if (v->replace && v->replace->links & TASK_NEW_INPUT)
        memory_signals_drop(s, next.id, S(""));
    if (v->replace)
        dependency_tidy(&next, t->links);
    memory_arrivals_add(arrivals, &next);
    bool skipped = !v->replace && (next.state == TASK_EXPIRED || next.state == TASK_SKIPPED);
    struct uuid parent = v->replace ? next.parent : v->parent;
    if ((skipped || next.state == TASK_CANCELLED) && !uuid_is_nil(parent))
        memory_uncount_run(&s->table, &next, parent, skipped);
    memory_put_and_hand_over(s, &next, v->replace != NULL, unblocked);
    memory_lease_leave(s, next.id);
    if (!v->verdict.has_execution)
        return;
    struct execution x = v->verdict.execution;
    if (next.state == TASK_COMPLETED && next.links & TASK_KEEPS_OUTPUT) {
        memory_output_keep(s, &next, x.output);
        x.output = output_head(x.output);
    }
    memory_add_execution(s, &x);
    if (!uuid_is_nil(v->parent))
        memory_update_parent(s, v->parent, v->verdict.execution.started_us / 1000);
}

enum err memory_settle(struct store_memory *s, struct op *base)
{
    struct op_settle *op = op_as(struct op_settle, base);
    if (memory_idempotency_check(s, op->idempotency, &base->error))
        return base->error.code;
    op->ret_unblocked_lanes = 0;
    struct memory_arrivals arrivals = { .budget = ARRIVALS_MAX + 2 * op->n };
    for (size_t i = 0; i < op->n; i++)
        memory_settle_one(s, &op->v[i], op->now_ms, &op->ret_unblocked_lanes, &arrivals);
    memory_arrivals_run(s, &arrivals, op->now_ms, &op->ret_unblocked_lanes);
    op->ret_arrivals_left = arrivals.left;
    if (op->idempotency && !op->v[0].stale)
        memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}
