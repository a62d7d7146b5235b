/* OP_CLAIM: one task after the other, each change at once, so that the next task sees it. If the result does not fit in
 * its arena, the table's journal rolls everything back. */
#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

/* A list of tasks by id and fence. */
struct marks {
    struct replaced *v;
    size_t n, cap;
};

struct claiming {
    struct table *table;
    struct op_claim *op;
    struct marks taken, gated, replaced;
    size_t bytes, handled;
    bool full; /* nothing more may be taken, from this line or another */
    uint64_t unblocked;
};

/* The position of a walk over the lanes of a line: behind this task. */
struct line_position {
    int64_t order_ms;
    struct uuid id;
};
static const struct line_position line_start = { .order_ms = INT64_MIN };

static void memory_claim_mark_by(struct marks *m, const struct task *t, int64_t by_scheduled_ms)
{
    if (m->n == m->cap) {
        m->cap = m->cap * 2 + 16;
        m->v = xrealloc(m->v, m->cap * sizeof *m->v);
    }
    m->v[m->n++] = (struct replaced){ t->id, t->fence, by_scheduled_ms, t->tenant, t->target == TARGET_WORKFLOW };
}

static void memory_claim_mark(struct marks *m, const struct task *t)
{
    memory_claim_mark_by(m, t, 0);
}

static bool memory_claim_is_marked(const struct marks *m, struct uuid id)
{
    for (size_t i = 0; i < m->n; i++)
        if (uuid_eq(m->v[i].id, id))
            return true;
    return false;
}

/* ---- one task ---- */

static void memory_claim_add_bytes(struct claiming *c, const struct task *t)
{
    c->bytes += t->payload.n + t->target_config.n;
    c->full = c->full || c->bytes >= c->op->max_bytes;
}

static void memory_claim_take(struct claiming *c, const struct task *t, const struct slot_need *needs, size_t n)
{
    struct task next = *t;
    unsigned holds = 0;
    for (size_t i = 0; i < n; i++)
        holds |= 1u << needs[i].kind;
    next.state = TASK_RUNNING;
    next.fence = fence_after(t->fence, c->table->fence_floor);
    next.claim = c->op->claim;
    if (c->taken.n == 0)
        table_open_claim(c->table, c->op->claim, c->op->node, c->op->lease ? CLAIM_LEASED : CLAIM_OWN);
    table_put_holding(c->table, &next, holds);
    memory_claim_mark(&c->taken, &next);
    c->full = c->taken.n == c->op->max;
    memory_claim_add_bytes(c, t);
}

static void memory_claim_skip(struct claiming *c, const struct task *t, struct str key, struct slot_keys *keys)
{
    char text[SLOT_REASON_MAX];
    struct task next = *t;
    next.state = TASK_SKIPPED;
    next.updated_ms = next.completed_ms = c->op->now_ms;
    next.last_error = slot_skip_reason(task_at(&table_line(c->table, key)->holders, 0)->scheduled_ms, text);
    memory_uncount_run(c->table, &next, next.parent, true);
    memory_change_row(c->table, &next, false, keys);
}

static void memory_claim_block(struct claiming *c, const struct task *t, const struct slot_need *needs, size_t n,
                               size_t missing, struct slot_keys *keys)
{
    struct task next = *t;
    unsigned held = table_holds(c->table, t->id), holds = 0;
    for (size_t i = 0; i < missing; i++)
        holds |= 1u << needs[i].kind;
    for (size_t i = missing; i < n; i++)
        if (held >> needs[i].kind & 1)
            slot_keys_add(keys, needs[i].key);
    next.state = TASK_BLOCKED;
    next.waits_for = needs[missing].key;
    next.late_by = t->awaited_ms ? t->late_by : slot_late_cause(needs[missing].kind);
    next.updated_ms = c->op->now_ms;
    table_put_holding(c->table, &next, holds);
}

static void memory_claim_cancel(struct claiming *c, const struct task *t, struct str why, struct slot_keys *keys)
{
    struct task next = *t;
    next.state = TASK_CANCELLED;
    next.updated_ms = next.completed_ms = c->op->now_ms;
    next.last_error = why;
    memory_uncount_run(c->table, &next, next.parent, false);
    if (!memory_claim_is_marked(&c->gated, t->id))
        memory_claim_mark(&c->gated, t);
    memory_change_row(c->table, &next, false, keys);
}

static const struct task *memory_claim_next_to_cancel(const struct table *t, struct str key, struct uuid by)
{
    const struct line *l = table_line(t, key);
    for (size_t i = 0; i < order_count(&l->waiting); i++)
        if (!uuid_eq(task_at(&l->waiting, i)->id, by))
            return task_at(&l->waiting, i);
    for (size_t i = 0; i < order_count(&l->holders); i++) {
        const struct task *holder = task_at(&l->holders, i);
        if (holder->state != TASK_RUNNING &&
            !(holder->links & TASK_OPENED)) /* a run that was opened has steps to stop */
            return holder;
    }
    return NULL;
}

/* `by` is BLOCKED already: slots that are released here go to it. */
static void memory_claim_replace_others(struct claiming *c, const struct task *by, struct str key,
                                        struct slot_keys *keys)
{
    char text[SLOT_REASON_MAX];
    struct str why = slot_replace_reason(by->scheduled_ms, text);
    for (const struct task *t; (t = memory_claim_next_to_cancel(c->table, key, by->id));)
        memory_claim_cancel(c, t, why, keys);
    const struct line *l = table_line(c->table, key);
    for (size_t i = 0; i < order_count(&l->holders); i++)
        memory_claim_mark_by(&c->replaced, task_at(&l->holders, i), by->scheduled_ms);
}

static void memory_claim_handle_gated(struct claiming *c, const struct task *t, const struct slot_need *needs, size_t n,
                                      size_t missing)
{
    const struct line *l = table_line(c->table, needs[missing].key);
    struct slot_keys keys;
    slot_keys_init(&keys);
    bool held_ahead = needs[missing].kind == SLOT_OVERLAP && slot_is_held_ahead(task_at(&l->holders, 0), c->op->now_ms);
    bool promised = order_count(&l->waiting) && task_at(&l->waiting, 0)->overlap == OVERLAP_QUEUE_ALL;
    enum slot_answer answer = slot_decide(&needs[missing], order_count(&l->waiting), held_ahead, promised);
    memory_claim_mark(&c->gated, t);
    if (answer == SLOT_SKIP)
        memory_claim_skip(c, t, needs[missing].key, &keys);
    else
        memory_claim_block(c, t, needs, n, missing, &keys);
    if (answer == SLOT_REPLACE)
        memory_claim_replace_others(c, t, needs[missing].key, &keys);
    memory_hand_over(c->table, &keys, &c->unblocked);
    slot_keys_release(&keys);
    c->full = ++c->handled == CLAIM_GATED_MAX;
    memory_claim_add_bytes(c, t);
}

enum claim_fate { FATE_TAKEN, FATE_PASSED_OVER, FATE_HANDLED };

/* Whether the task, which does not hold the slot, may take it now. */
static bool memory_claim_may_take_slot(const struct claiming *c, const struct task *t, const struct slot_need *need)
{
    bool ahead = need->kind == SLOT_OVERLAP && t->due_ms > c->op->now_ms;
    return memory_slot_is_free(c->table, t, need) && !(ahead && memory_slot_has_earlier(c->table, t, need));
}

static enum claim_fate memory_claim_check_task(struct claiming *c, const struct task *t)
{
    struct slot_need needs[SLOTS_MAX];
    size_t n = slot_needs(t, needs), missing = 0;
    unsigned holds = table_holds(c->table, t->id);
    while (missing < n && (holds >> needs[missing].kind & 1 || memory_claim_may_take_slot(c, t, &needs[missing])))
        missing++;
    if (missing == n) {
        memory_claim_take(c, t, needs, n);
        return FATE_TAKEN;
    }
    if (t->due_ms > c->op->now_ms)
        return FATE_PASSED_OVER;
    memory_claim_handle_gated(c, t, needs, n, missing);
    return FATE_HANDLED;
}

/* ---- lines ---- */

/* The first task with a due time and an id behind these that may be claimed at this time; NULL: none. */
static const struct task *memory_claim_next_in(const struct claiming *c, const struct order *o, int64_t due_ms,
                                               struct uuid id)
{
    size_t i = order_find(o, due_ms, id);
    if (order_get(o, due_ms, id))
        i++;
    for (; i < order_count(o) && order_at(o, i)->key <= c->op->until_ms; i++) {
        const struct task *t = task_at(o, i);
        bool too_early = t->delivery == DELIVER_AT_MOST_ONCE && t->due_ms > c->op->now_ms;
        if (!too_early && claim_is_for(c->op, t->id, t->due_ms))
            return t;
    }
    return NULL;
}

struct line_walk {
    struct lane_quota *lanes;
    size_t n, max, taken;
    size_t *passed; /* tasks that were passed over, of each lane */
    struct line_position place;
};

static const struct task *memory_claim_next_in_lane(const struct claiming *c, const struct line_walk *w, size_t i)
{
    const struct lane_quota *q = &w->lanes[i];
    const struct lane_rows *l = table_lane(c->table, q->lane);
    if (!l || q->ret_taken >= q->max || w->passed[i] >= CLAIM_GATED_MAX)
        return NULL;
    int64_t ahead_ms = -lane_order_ms(&q->lane, 0), order_ms = w->place.order_ms;
    int64_t due_ms = order_ms == INT64_MIN || order_ms > INT64_MAX - ahead_ms ? order_ms : order_ms + ahead_ms;
    return memory_claim_next_in(c, &l->due[c->op->lease != NULL], due_ms, w->place.id);
}

/* The next task of the line, and its lane. */
static const struct task *memory_claim_next_in_line(const struct claiming *c, const struct line_walk *w, size_t *ret)
{
    const struct task *first = NULL;
    int64_t first_ms = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct task *t = memory_claim_next_in_lane(c, w, i);
        int64_t order_ms = t ? lane_order_ms(&w->lanes[i].lane, t->due_ms) : 0;
        if (!t || (first && (order_ms > first_ms || (order_ms == first_ms && uuid_cmp(t->id, first->id) > 0))))
            continue;
        first = t;
        first_ms = order_ms;
        *ret = i;
    }
    return first;
}

static void memory_claim_line(struct claiming *c, struct line_walk *w)
{
    w->passed = xcalloc(w->n, sizeof *w->passed);
    while (w->taken < w->max && !c->full) {
        size_t i;
        const struct task *t = memory_claim_next_in_line(c, w, &i);
        if (!t)
            break;
        w->place = (struct line_position){ lane_order_ms(&w->lanes[i].lane, t->due_ms), t->id };
        enum claim_fate fate = memory_claim_check_task(c, t);
        w->lanes[i].ret_taken += fate == FATE_TAKEN;
        w->taken += fate == FATE_TAKEN;
        w->passed[i] += fate == FATE_PASSED_OVER;
    }
    free(w->passed);
}

static void memory_claim_lines(struct claiming *c)
{
    struct op_claim *op = c->op;
    for (size_t i = 0; i < op->lane_count; i++)
        op->lanes[i].ret_taken = 0;
    for (size_t i = 0, first = 0; first < op->lane_count; i++) {
        struct claim_line line = claim_line_at(op, i, first);
        memory_claim_line(c, &(struct line_walk){
                                 .lanes = op->lanes + first, .n = line.lanes, .max = line.max, .place = line_start });
        first += line.lanes;
    }
}

/* The earliest suspect of all these lanes. */
static const struct task *memory_claim_next_suspect(const struct claiming *c, int64_t due_ms, struct uuid id)
{
    const struct task *first = NULL;
    for (size_t i = 0; i < c->op->lane_count; i++) {
        const struct lane_rows *l = table_lane(c->table, c->op->lanes[i].lane);
        const struct task *t = l ? memory_claim_next_in(c, &l->suspects[c->op->lease != NULL], due_ms, id) : NULL;
        if (t &&
            (!first || t->due_ms < first->due_ms || (t->due_ms == first->due_ms && uuid_cmp(t->id, first->id) < 0)))
            first = t;
    }
    return first;
}

static void memory_claim_suspects(struct claiming *c)
{
    int64_t due_ms = INT64_MIN;
    struct uuid id = { 0 };
    for (size_t taken = 0, passed = 0; taken < c->op->max_suspects && !c->full && passed < CLAIM_GATED_MAX;) {
        const struct task *t = memory_claim_next_suspect(c, due_ms, id);
        if (!t)
            return;
        due_ms = t->due_ms;
        id = t->id;
        enum claim_fate fate = memory_claim_check_task(c, t);
        taken += fate == FATE_TAKEN;
        passed += fate == FATE_PASSED_OVER;
    }
}

/* Stops at the first row that is due no earlier than *ret_own: no later row counts as earlier than its due_ms. */
static int64_t memory_claim_first_due(const struct op_claim *op, const struct order *o, int64_t *ret_own)
{
    int64_t first_ms = INT64_MAX;
    *ret_own = INT64_MAX;
    for (size_t i = 0; i < order_count(o) && order_at(o, i)->key < *ret_own; i++) {
        int64_t due_ms = order_at(o, i)->key;
        first_ms = min_of(first_ms, claim_counts_as(op, order_at(o, i)->id, due_ms));
        if (claim_is_own(op, order_at(o, i)->id))
            *ret_own = due_ms;
    }
    return first_ms;
}

static void memory_claim_set_next_due(const struct table *t, struct op_claim *op)
{
    op->ret_next_due_ms = op->ret_next_suspect_ms = INT64_MAX;
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane_rows *l = table_lane(t, op->lanes[i].lane);
        struct lane_quota *q = &op->lanes[i];
        int64_t own_ms;
        q->ret_next_due_ms = q->ret_next_own_ms = INT64_MAX;
        if (l)
            q->ret_next_due_ms = memory_claim_first_due(op, &l->due[op->lease != NULL], &q->ret_next_own_ms);
        op->ret_next_due_ms = min_of(op->ret_next_due_ms, op->lanes[i].ret_next_due_ms);
        if (l)
            op->ret_next_suspect_ms =
                min_of(op->ret_next_suspect_ms, memory_claim_first_due(op, &l->suspects[op->lease != NULL], &own_ms));
    }
}

/* ---- results ---- */

static bool memory_claim_is_gated(const struct task *t)
{
    return t->state == TASK_BLOCKED || t->state == TASK_SKIPPED || t->state == TASK_CANCELLED;
}

static enum err memory_claim_copy(const struct table *t, const struct marks *m, bool (*wanted)(const struct task *),
                                  struct arena *a, struct tasks *ret, struct error *e)
{
    cleanup_with(picks_release) struct picks p = { 0 };
    for (size_t i = 0; i < m->n; i++) {
        const struct task *task = table_get(t, m->v[i].id);
        if (!wanted || wanted(task))
            picks_add(&p, task);
    }
    return picks_copy(&p, a, ret, e);
}

static enum err memory_claim_finish(const struct claiming *c, struct op_claim *op, struct arena *a, struct error *e)
{
    struct tasks taken, gated;
    size_t size = c->replaced.n * sizeof *c->replaced.v;
    if (memory_claim_copy(c->table, &c->taken, NULL, a, &taken, e) ||
        memory_claim_copy(c->table, &c->gated, memory_claim_is_gated, a, &gated, e))
        return e->code;
    struct replaced *replaced = arena_alloc(a, size);
    if (!replaced)
        return memory_no_room(e);
    if (size)
        memcpy(replaced, c->replaced.v, size);
    for (size_t i = 0; i < c->replaced.n; i++) /* one that this claim took later has another fence since */
        if (memory_claim_is_marked(&c->taken, replaced[i].id))
            replaced[i].fence = table_get(c->table, replaced[i].id)->fence;
    op->ret = taken;
    op->ret_gated = gated;
    op->ret_replaced = replaced;
    op->ret_replaced_count = c->replaced.n;
    op->ret_unblocked_lanes = c->unblocked;
    memory_claim_set_next_due(c->table, op);
    return ERR_OK;
}

enum err memory_claim(struct store_memory *s, struct op *base)
{
    struct op_claim *op = container_of(base, struct op_claim, op);
    if (memory_node_is_dead(s, op->node))
        return node_is_dead(&base->error);
    if (table_claim(&s->table, op->claim))
        return error_set(&base->error, ERR_CONFLICT, "this claim was made before");
    struct claiming c = { .table = &s->table, .op = op };
    struct journal journal;
    table_begin(&s->table, &journal);
    memory_claim_lines(&c);
    memory_claim_suspects(&c);
    enum err rc = memory_claim_finish(&c, op, &base->arena, &base->error);
    if (rc)
        table_roll_back(&s->table);
    else
        table_commit(&s->table);
    for (size_t i = 0; !rc && op->lease && i < op->ret.n; i++)
        memory_lease_put(s, op->ret.v[i].id, op->ret.v[i].fence, op->lease);
    free(c.taken.v);
    free(c.gated.v);
    free(c.replaced.v);
    return rc;
}
