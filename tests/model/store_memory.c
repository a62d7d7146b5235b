/* Every operation first checks whether it can succeed and copies its results into its arena; only then it changes the
 * store. So an operation that fails leaves no trace. */
#include "model/store_memory.h"

#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

static struct store_memory *memory_store_of(struct store *s)
{
    return container_of(s, struct store_memory, base);
}

#define op_as(type, base) container_of(base, type, op)

/* ---- shared with the readers ---- */

void picks_add(struct picks *p, const struct task *t)
{
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 16;
        p->v = xrealloc(p->v, p->cap * sizeof *p->v);
    }
    p->v[p->n++] = t;
}

void picks_release(struct picks *p)
{
    free(p->v);
}

enum err picks_copy(const struct picks *p, struct arena *a, struct tasks *ret, struct error *e)
{
    struct tasks copy = { arena_array(a, struct task, p->n), p->n };
    for (size_t i = 0; copy.v && i < p->n; i++)
        if (!task_copy(a, p->v[i], &copy.v[i]))
            copy.v = NULL;
    if (!copy.v)
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

/* ---- insert ---- */

static enum err memory_id_conflict(const struct task *t, struct error *e)
{
    char text[UUID_TEXT + 1];
    uuid_format(t->id, text);
    error_set(e, ERR_CONFLICT, "there is another task %s already", text);
    return error_in(e, "id");
}

/* Checks all tasks against the table and against each other. */
static enum err memory_insert_check(const struct store_memory *s, const struct op_insert *op,
                                    struct dedupe_taking *keys, struct error *e)
{
    cleanup_with(map_release) struct map seen; /* id → created_ms */
    map_init(&seen, HASH_STABLE);
    int64_t *created_ms = xcalloc(op->count, sizeof *created_ms);
    enum err rc = ERR_OK;
    for (size_t i = 0; i < op->count && rc == ERR_OK; i++) {
        const struct task *t = &op->tasks[i], *there = table_get(&s->table, t->id);
        const int64_t *expected = there ? &there->created_ms : map_get(&seen, uuid_bytes(&t->id));
        if (!expected)
            rc = memory_calendar_check(s, t, e) ||
                         (op->depends && memory_depends_check(s, op->depends[i].v, op->depends[i].n, t->tenant, e))
                     ? e->code
                     : dedupe_take(keys, t, op->takes_over ? op->takes_over[i] : (struct uuid){ 0 }, e);
        else if (*expected != t->created_ms)
            rc = memory_id_conflict(t, e);
        created_ms[i] = t->created_ms;
        map_put(&seen, uuid_bytes(&t->id), &created_ms[i]);
    }
    free(created_ms);
    return rc;
}

static void memory_insert_absent(struct store_memory *s, const struct task *t)
{
    if (!table_get(&s->table, t->id))
        table_put(&s->table, t);
}

static enum err memory_insert(struct store_memory *s, struct op *base)
{
    struct op_insert *op = op_as(struct op_insert, base);
    cleanup_with(dedupe_release) struct dedupe_taking keys = dedupe_begin(s, NULL);
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_insert_check(s, op, &keys, &base->error) ||
        memory_limits_check(s, op, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->count; i++) {
        if (op->depends && op->depends[i].n)
            memory_insert_child(s, &op->tasks[i], &op->depends[i]);
        else
            memory_insert_absent(s, &op->tasks[i]);
    }
    if (op->definition)
        memory_definition_put(s, op->definition, op->count ? op->tasks[0].created_ms : 0);
    dedupe_keep(&keys);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

/* ---- tasks of a claim ---- */

void picks_held(const struct claim *c, size_t max, struct picks *p)
{
    list_each (&c->rows, link)
        if (p->n < max)
            picks_add(p, &container_of(link, struct row, link)->task);
}

static enum err memory_claimed(struct store_memory *s, struct op *base)
{
    struct op_claimed *op = op_as(struct op_claimed, base);
    cleanup_with(picks_release) struct picks p = { 0 };
    const struct claim *c = table_claim(&s->table, op->claim);
    if (c)
        picks_held(c, SIZE_MAX, &p);
    return picks_copy(&p, &base->arena, &op->ret, &base->error);
}

/* ---- settle ---- */

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

/* OP_SETTLE 10 to 12. True: the occurrence is withdrawn. */
static bool memory_settle_ask_parent(struct store_memory *s, const struct task *t, struct settlement *v,
                                     uint64_t *unblocked)
{
    const struct task *p = table_get(&s->table, v->parent);
    if (!settle_asks_parent(v) || t->kind != TASK_OCCURRENCE || !p || p->kind != TASK_RECURRING)
        return false;
    struct settle_schedule of = {
        .parent = *p, .runs_count = t->runs_count, .started_ms = t->started_ms, .version = t->version, .links = t->links
    };
    if (!settle_in_schedule(&of, v))
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
    if (memory_settle_ask_parent(s, t, v, unblocked))
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

static enum err memory_settle(struct store_memory *s, struct op *base)
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

/* ---- recurring tasks ---- */

/* Which times from their cursors on have rows. */
static enum err memory_recurring_taken(struct store_memory *s, struct op_recurring *op, struct error *e)
{
    struct spawn_taken *taken = arena_array(&op->op.arena, struct spawn_taken, op->ret.n);
    if (!taken)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    for (size_t i = 0; i < op->ret.n; i++) {
        struct taken_rows rows;
        bool reads = taken_rows_begin(&rows, op, &op->ret.v[i], &op->op.arena);
        const struct order *ids = &s->table.by_id;
        for (size_t j = 0; reads && j < order_count(ids) && rows.rows < TAKEN_MAX; j++) {
            const struct task *t = task_at(ids, j);
            bool wanted = t->kind == TASK_OCCURRENCE && uuid_eq(t->parent, op->ret.v[i].id);
            if (wanted && uuid_cmp(t->id, rows.from) >= 0 && taken_rows_add(&rows, t, e))
                return e->code;
        }
        taken[i] = taken_rows_end(&rows);
    }
    op->ret_taken = taken;
    return ERR_OK;
}

static enum err memory_recurring(struct store_memory *s, struct op *base)
{
    struct op_recurring *op = op_as(struct op_recurring, base);
    const struct order *o = &s->table.recurring;
    cleanup_with(picks_release) struct picks p = { 0 };
    size_t i = order_find(o, op->after_cursor_ms, op->after_id);
    if (order_get(o, op->after_cursor_ms, op->after_id))
        i++;
    int64_t next_ms = INT64_MAX;
    for (; i < order_count(o) && order_at(o, i)->key < next_ms; i++) {
        const struct task *t = task_at(o, i);
        if (p.n < op->max && recurring_gives(op, t->id, t->cursor_ms))
            picks_add(&p, t);
        else
            next_ms = min_of(next_ms, recurring_counts_as(op, t->id, t->cursor_ms));
    }
    if (picks_copy(&p, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_next_ms = next_ms;
    return memory_recurring_taken(s, op, &base->error);
}

static enum err memory_spawn(struct store_memory *s, struct op *base)
{
    struct op_spawn *op = op_as(struct op_spawn, base);
    const struct spawn_plan *plan = op->plan;
    const struct task *t = table_get(&s->table, op->id);
    if (!t || t->kind != TASK_RECURRING || t->state != TASK_SCHEDULED || t->version != op->version ||
        t->cursor_ms != op->cursor_ms)
        return error_set(&base->error, ERR_CONFLICT, "the recurring task has changed since");
    struct task next = *t;
    next.cursor_ms = plan->cursor_ms;
    next.runs_count += plan->runs;
    next.skipped_count += plan->skipped;
    for (size_t i = 0; i < plan->occurrences.n; i++)
        if (table_get(&s->table, plan->occurrences.v[i].id))
            next.skipped_count -= plan->occurrences.v[i].skipped_count;
    if (plan->ended) {
        next.state = TASK_COMPLETED;
        next.updated_ms = next.completed_ms = op->now_ms;
    }
    table_put(&s->table, &next);
    for (size_t i = 0; i < plan->occurrences.n; i++)
        memory_insert_absent(s, &plan->occurrences.v[i]);
    return ERR_OK;
}

/* ---- put ---- */

static bool memory_put_withdraws(const struct op_put *op, const struct task *t)
{
    bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED || t->state == TASK_PAUSED;
    bool ends = !task_has_fired(t) || (put_ends_fired(op) && !(t->links & TASK_OPENED));
    return op->withdraw && op->task->kind == TASK_RECURRING && t->kind == TASK_OCCURRENCE &&
           uuid_eq(t->parent, op->task->id) && waits && ends && (t->runs_count || !put_keeps_requested(op));
}

static enum err memory_put_check(const struct store_memory *s, const struct op_put *op, struct dedupe_taking *keys,
                                 struct error *e)
{
    const struct task *t = table_get(&s->table, op->task->id);
    if (!t || t->deleted || t->tenant != op->task->tenant)
        return error_set(e, ERR_NOT_FOUND, "there is no such task");
    bool moved = t->kind == TASK_RECURRING && t->cursor_ms != op->cursor_ms;
    if (t->version != op->version || t->fence != op->fence || t->state != op->state || moved) {
        error_set(e, ERR_CONFLICT, "the task has changed since");
        return error_in(e, t->version != op->version ? "version" : "state");
    }
    if (dependency_ends_anew(t->state, t->links, op->task->state) && memory_is_left(s, t->id))
        return dependency_is_left(e);
    if (memory_calendar_check(s, op->task, e))
        return e->code;
    const struct task *there = op->also ? table_get(&s->table, op->also->id) : NULL;
    if (there && memory_put_withdraws(op, there) && !put_cancels(op, there))
        there = NULL;
    if (there && there->created_ms != op->also->created_ms)
        return memory_id_conflict(op->also, e);
    if (!op->also || there)
        return ERR_OK;
    if (dedupe_take(keys, op->also, (struct uuid){ 0 }, e))
        return e->code;
    struct op_insert also = { .tasks = op->also, .count = 1, .max_pending = op->max_pending };
    return memory_limits_check(s, &also, e);
}

/* It was due or requested by a user, and stays as cancelled. */
static void memory_put_cancel(struct store_memory *s, const struct op_put *op, const struct task *t,
                              struct slot_keys *keys)
{
    struct task next = *t;
    next.state = TASK_CANCELLED;
    next.waits_for = (struct str){ 0 };
    next.updated_ms = next.completed_ms = op->task->updated_ms;
    next.last_error = put_cancel_reason(op->task);
    next.runs_count = task_has_fired(t) ? t->runs_count : 0;
    memory_change_row(&s->table, &next, false, keys);
}

/* Deletes or cancels the withdrawn occurrences; returns the new cursor. */
static int64_t memory_put_withdraw(struct store_memory *s, struct op_put *op, int64_t *ret_runs, struct slot_keys *keys)
{
    cleanup_with(picks_release) struct picks p = { 0 };
    for (size_t i = 0; op->withdraw && i < order_count(&s->table.by_id); i++)
        if (memory_put_withdraws(op, task_at(&s->table.by_id, i)))
            picks_add(&p, task_at(&s->table.by_id, i));
    int64_t cursor_ms = op->task->cursor_ms, spread_ms = schedule_spread(&op->task->schedule, op->task->id);
    for (size_t i = 0; i < p.n; i++) {
        int64_t at_ms = p.v[i]->scheduled_ms + spread_ms;
        *ret_runs += task_has_fired(p.v[i]) ? 0 : p.v[i]->runs_count;
        if (put_cancels(op, p.v[i])) {
            memory_put_cancel(s, op, p.v[i], keys);
            continue;
        }
        if (at_ms >= op->withdraw_from_ms)
            cursor_ms = min_of(cursor_ms, at_ms);
        memory_drop_row(&s->table, p.v[i]->id, keys);
    }
    op->ret_withdrawn = p.n;
    return cursor_ms;
}

static void memory_put_cut(struct store_memory *s, struct op_put *op, struct slot_keys *keys)
{
    op->ret_cut = 0;
    for (size_t i = 0; i < op->cut_count; i++) {
        const struct spawn_cut *c = &op->cuts[i];
        const struct task *t = table_get(&s->table, c->id);
        if (!t || !uuid_eq(t->parent, op->task->id) || t->kind != TASK_OCCURRENCE || t->state != TASK_SKIPPED ||
            t->skipped_count != c->count_was || !put_cut_applies(op, c))
            continue;
        if (put_cut_deletes(op, c)) {
            memory_drop_row(&s->table, c->id, keys);
            continue;
        }
        struct task left = *t;
        left.cursor_ms = c->last_ms;
        left.skipped_count = c->count;
        left.last_error = c->error;
        table_put(&s->table, &left);
    }
}

static enum err memory_put(struct store_memory *s, struct op *base)
{
    struct op_put *op = op_as(struct op_put, base);
    cleanup_with(dedupe_release) struct dedupe_taking dedupe = dedupe_begin(s, op->task);
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_put_check(s, op, &dedupe, &base->error))
        return base->error.code;
    struct task next = *op->task;
    const struct task *was = table_get(&s->table, next.id);
    char why[DEPENDENCY_REASON_MAX];
    next.last_run_ms = max_of(next.last_run_ms, was->last_run_ms);
    if (next.kind == TASK_RECURRING) {
        next.runs_count = was->runs_count;
        next.skipped_count = was->skipped_count;
    }
    dependency_tidy(&next, was->links);
    if (op->depends && memory_depends_change(s, op->depends, &next, why, &base->error))
        return base->error.code;
    int64_t runs = 0;
    struct slot_keys keys;
    slot_keys_init(&keys);
    next.cursor_ms = op->ret_cursor_ms = memory_put_withdraw(s, op, &runs, &keys);
    next.runs_count = max_of(next.runs_count - runs, 0);
    memory_put_cut(s, op, &keys);
    next.skipped_count = max_of(next.skipped_count - op->ret_cut, 0);
    if (next.state == TASK_CANCELLED || next.state == TASK_EXPIRED)
        memory_uncount_run(&s->table, &next, next.parent, next.state == TASK_EXPIRED);
    if (!uuid_eq(was->claim, next.claim))
        memory_lease_leave(s, next.id);
    if (put_resumes_run(was->state, &next))
        memory_run_resume(s, next.id);
    if (op->task->links & TASK_NEW_INPUT)
        memory_signals_drop(s, next.id, S(""));
    memory_change_row(&s->table, &next, true, &keys);
    op->ret_state = table_get(&s->table, next.id)->state;
    struct memory_arrivals arrivals = { .budget = ARRIVALS_MAX };
    memory_arrivals_add(&arrivals, &next);
    if (op->also)
        memory_insert_absent(s, op->also);
    dedupe_keep(&dedupe);
    op->ret_unblocked_lanes = 0;
    memory_hand_over(&s->table, &keys, &op->ret_unblocked_lanes);
    slot_keys_release(&keys);
    memory_arrivals_run(s, &arrivals, next.updated_ms, &op->ret_unblocked_lanes);
    op->ret_arrivals_left = arrivals.left;
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

/* ---- the store ---- */

static enum err (*const memory_operations[OP_KINDS])(struct store_memory *, struct op *) = {
#define X(name, verb) [OP_##name] = memory_##verb,
    OP_MAP(X)
#undef X
};

static enum err memory_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    (void)e;
    struct store_memory *s = memory_store_of(base);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        ops[i]->error = (struct error){ 0 };
        memory_changes_begin_op(s, ops[i]);
        ops[i]->rc = memory_operations[ops[i]->kind](s, ops[i]);
        memory_changes_end_op(s, ops[i]);
        memory_audit_write(s, ops[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (op_may_hit(ops[i], s->base.wants))
            memory_hits_write(s, ops[i]);
        memory_checks_write(s, ops[i]);
    }
    memory_changes_read(s);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static void memory_release_values(struct map *m)
{
    map_each (m, slot)
        free(slot->value);
    map_release(m);
}

static void memory_free(struct store *base)
{
    struct store_memory *s = memory_store_of(base);
    table_release(&s->table);
    for (size_t i = 0; i < order_count(&s->executions); i++)
        free(order_at(&s->executions, i)->value);
    order_release(&s->executions);
    (void)memory_audit_purge(s, INT64_MAX, SIZE_MAX);
    order_release(&s->audit);
    memory_release_values(&s->idempotency);
    memory_release_values(&s->keys);
    memory_release_values(&s->leases);
    memory_release_values(&s->dedupe);
    memory_release_values(&s->catalog);
    memory_release_values(&s->nodes);
    memory_release_values(&s->recall_requests);
    memory_release_values(&s->workers);
    memory_release_values(&s->breakers);
    free(s->stats.v);
    free(s->touched.v);
    memory_leases_release(s);
    memory_incidents_release(s);
    memory_joins_release(s);
    memory_runs_release(s);
    memory_shares_release(&s->shares);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct store *store_memory_new(void)
{
    static const struct store_ops ops = { .apply = memory_apply, .reader = memory_reader, .free = memory_free };
    struct store_memory *s = xnew(*s);
    s->base.ops = &ops;
    pthread_mutex_init(&s->lock, NULL);
    table_init(&s->table);
    order_init(&s->executions);
    order_init(&s->audit);
    order_init(&s->hits);
    order_init(&s->records);
    map_init(&s->idempotency, HASH_STABLE);
    map_init(&s->keys, HASH_STABLE);
    map_init(&s->leases, HASH_STABLE);
    map_init(&s->dedupe, HASH_STABLE);
    map_init(&s->catalog, HASH_STABLE);
    map_init(&s->nodes, HASH_STABLE);
    map_init(&s->shares, HASH_STABLE);
    map_init(&s->recall_requests, HASH_STABLE);
    map_init(&s->task_leases, HASH_STABLE);
    order_init(&s->task_leases_by_expiry);
    map_init(&s->workers, HASH_STABLE);
    map_init(&s->breakers, HASH_STABLE);
    return &s->base;
}
