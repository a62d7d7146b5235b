/* A row is always in rows and by_id; while it is SCHEDULED, in one lane or in recurring; while it is RUNNING, in its
 * claim's list, unless it is open; and in the lines of the slots that it holds or waits for. The row alone decides which: table_enter and
 * table_leave mirror each other. */
#include "model/table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

enum { LANE_KEY_MAX = 4096 };

void table_init(struct table *t)
{
    map_init(&t->rows, HASH_STABLE);
    order_init(&t->by_id);
    map_init(&t->lanes, HASH_STABLE);
    order_init(&t->recurring);
    map_init(&t->claims, HASH_STABLE);
    map_init(&t->lines, HASH_STABLE);
    t->journal = NULL;
}

static void table_free_lane(struct lane_rows *l)
{
    for (int leased = 0; leased <= 1; leased++) {
        order_release(&l->due[leased]);
        order_release(&l->suspects[leased]);
    }
    free(l->key);
    free(l);
}

static void table_free_line(struct line *l)
{
    order_release(&l->holders);
    order_release(&l->waiting);
    order_release(&l->coming);
    free(l);
}

void table_release(struct table *t)
{
    map_each (&t->rows, slot)
        free(slot->value);
    map_each (&t->lanes, slot)
        table_free_lane(slot->value);
    map_each (&t->claims, slot)
        free(slot->value);
    map_each (&t->lines, slot)
        table_free_line(slot->value);
    map_release(&t->lines);
    map_release(&t->rows);
    order_release(&t->by_id);
    map_release(&t->lanes);
    order_release(&t->recurring);
    map_release(&t->claims);
}

/* ---- lanes ---- */

static void table_lane_key(struct lane lane, struct buf *ret)
{
    buf_init(ret, LANE_KEY_MAX);
    buf_printf(ret, "%d/%d/%d/%lld/%lld/%zu/%zu/", (int)lane.tenant, lane.priority, lane.late,
               (long long)lane.cpu_milli, (long long)lane.memory_mb, lane.queue.n, lane.requires.n);
    buf_add(ret, lane.queue);
    buf_add(ret, lane.requires);
    buf_add(ret, lane.host);
    assert(!ret->full);
}

const struct lane_rows *table_lane(const struct table *t, struct lane lane)
{
    cleanup_with(buf_release) struct buf key;
    table_lane_key(lane, &key);
    return map_get(&t->lanes, buf_str(&key));
}

/* Finds or creates a lane; lanes are never removed. */
static struct lane_rows *table_open_lane(struct table *t, struct lane lane)
{
    cleanup_with(buf_release) struct buf key;
    table_lane_key(lane, &key);
    struct lane_rows *l = map_get(&t->lanes, buf_str(&key));
    if (l)
        return l;
    l = xnew(*l);
    for (int leased = 0; leased <= 1; leased++) {
        order_init(&l->due[leased]);
        order_init(&l->suspects[leased]);
    }
    size_t n = key.n;
    l->key = buf_take(&key);
    l->lane = lane;
    l->lane.host = (struct str){ l->key + n - lane.host.n, lane.host.n };
    l->lane.requires = (struct str){ l->lane.host.p - lane.requires.n, lane.requires.n };
    l->lane.queue = (struct str){ l->lane.requires.p - lane.queue.n, lane.queue.n };
    map_put(&t->lanes, (struct str){ l->key, n }, l);
    return l;
}

/* ---- claims ---- */

const struct claim *table_claim(const struct table *t, struct uuid id)
{
    return map_get(&t->claims, uuid_bytes(&id));
}

void table_open_claim(struct table *t, struct uuid id, struct uuid node, enum claim_hold hold)
{
    struct claim *c = xnew(*c);
    *c = (struct claim){ .id = id, .node = node, .hold = hold };
    list_init(&c->rows);
    void *old = map_put(&t->claims, uuid_bytes(&c->id), c);
    assert(!old);
}

bool table_hand_claim(struct table *t, struct uuid id, struct uuid node, uint64_t epoch)
{
    struct claim *c = map_get(&t->claims, uuid_bytes(&id));
    bool is_its = c && uuid_eq(c->node, node);
    if (is_its && c->hold == CLAIM_OWN) {
        c->hold = CLAIM_HANDED;
        c->epoch = epoch;
    }
    return is_its;
}

static void table_join_claim(struct table *t, struct row *row)
{
    struct claim *c = row->task.state == TASK_RUNNING ? map_get(&t->claims, uuid_bytes(&row->task.claim)) : NULL;
    list_init(&row->link);
    if (c)
        list_push(&c->rows, &row->link);
}

static void table_leave_claim(struct table *t, struct row *row)
{
    if (!list_linked(&row->link))
        return;
    list_remove(&row->link);
    struct claim *c = map_get(&t->claims, uuid_bytes(&row->task.claim));
    if (list_empty(&c->rows)) {
        map_remove(&t->claims, uuid_bytes(&c->id));
        free(c);
    }
}

/* ---- holders and waiting lines of slots ---- */

const struct line *table_line(const struct table *t, struct str key)
{
    return map_get(&t->lines, key);
}

static struct line *table_open_line(struct table *t, struct str key)
{
    struct line *l = map_get(&t->lines, key);
    if (l)
        return l;
    l = xcalloc(1, sizeof *l + str_pack_size(key));
    order_init(&l->holders);
    order_init(&l->waiting);
    order_init(&l->coming);
    char *at = l->text;
    l->key = str_pack(key, &at);
    map_put(&t->lines, l->key, l);
    return l;
}

static void table_close_line(struct table *t, struct line *l)
{
    if (order_count(&l->holders) || order_count(&l->waiting) || order_count(&l->coming))
        return;
    map_remove(&t->lines, l->key);
    table_free_line(l);
}

static bool table_is_waiting(const struct task *t)
{
    return t->state == TASK_BLOCKED && t->waits_for.n;
}

static bool table_is_coming(const struct task *t, const struct slot_need *need)
{
    return need->kind == SLOT_OVERLAP && (t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED);
}

static void table_enter_lines(struct table *t, struct row *row)
{
    struct slot_need needs[SLOTS_MAX];
    const struct task *task = &row->task;
    for (size_t i = slot_needs(task, needs); i-- > 0;) {
        if (row->holds >> needs[i].kind & 1)
            order_add(&table_open_line(t, needs[i].key)->holders, task->scheduled_ms, task->id, row);
        if (table_is_coming(task, &needs[i]))
            order_add(&table_open_line(t, needs[i].key)->coming, task->due_ms, task->id, row);
    }
    if (table_is_waiting(task))
        order_add(&table_open_line(t, task->waits_for)->waiting, task->due_ms, task->id, row);
}

static void table_leave_lines(struct table *t, const struct row *row)
{
    struct slot_need needs[SLOTS_MAX];
    const struct task *task = &row->task;
    for (size_t i = slot_needs(task, needs); i-- > 0;) {
        struct line *l = table_open_line(t, needs[i].key);
        if (row->holds >> needs[i].kind & 1)
            order_remove(&l->holders, task->scheduled_ms, task->id);
        if (table_is_coming(task, &needs[i]))
            order_remove(&l->coming, task->due_ms, task->id);
        table_close_line(t, l);
    }
    if (table_is_waiting(task)) {
        struct line *l = table_open_line(t, task->waits_for);
        order_remove(&l->waiting, task->due_ms, task->id);
        table_close_line(t, l);
    }
}

/* ---- rows ---- */

static bool table_is_dispatched(const struct task *t)
{
    return t->kind != TASK_RECURRING && !task_is_leased(t);
}

static bool table_is_claimable(const struct task *t)
{
    return t->state == TASK_SCHEDULED && t->kind != TASK_RECURRING;
}

static struct order *table_due_order(struct table *t, const struct task *task)
{
    struct lane_rows *l = table_open_lane(t, task_lane(task));
    bool leased = task_is_leased(task);
    return task_is_suspect(task) ? &l->suspects[leased] : &l->due[leased];
}

static bool table_is_spawning(const struct task *t)
{
    return t->state == TASK_SCHEDULED && t->kind == TASK_RECURRING;
}

static bool table_may_be_claimed_later(const struct task *t)
{
    bool is_paused_step = t->state == TASK_PAUSED && !uuid_is_nil(t->run);
    return (t->state == TASK_BLOCKED || t->state == TASK_RUNNING || is_paused_step) && table_is_dispatched(t);
}

/* Adds a row to the indexes of due, recurring and blocked tasks, and to the lines of slots. */
static void table_enter(struct table *t, struct row *row)
{
    const struct task *task = &row->task;
    if (table_is_claimable(task))
        order_add(table_due_order(t, task), task->due_ms, task->id, row);
    if (table_is_spawning(task))
        order_add(&t->recurring, task->cursor_ms, task->id, row);
    if (table_may_be_claimed_later(task))
        table_open_lane(t, task_lane(task))->later++;
    table_enter_lines(t, row);
}

static void table_leave(struct table *t, const struct row *row)
{
    const struct task *task = &row->task;
    if (table_is_claimable(task))
        order_remove(table_due_order(t, task), task->due_ms, task->id);
    if (table_is_spawning(task))
        order_remove(&t->recurring, task->cursor_ms, task->id);
    if (table_may_be_claimed_later(task))
        table_open_lane(t, task_lane(task))->later--;
    table_leave_lines(t, row);
}

const struct task *table_get(const struct table *t, struct uuid id)
{
    const struct row *row = map_get(&t->rows, uuid_bytes(&id));
    return row ? &row->task : NULL;
}

unsigned table_holds(const struct table *t, struct uuid id)
{
    const struct row *row = map_get(&t->rows, uuid_bytes(&id));
    return row ? row->holds : 0;
}

static void table_retire(struct table *t, struct row *old)
{
    struct journal *j = t->journal;
    if (!j) {
        free(old);
        return;
    }
    if (j->n == j->cap) {
        j->cap = j->cap * 2 + 16;
        j->v = xrealloc(j->v, j->cap * sizeof(struct row *));
    }
    j->v[j->n++] = old;
}

static void table_touch(struct touched_rows *r, struct uuid id, const struct task *was)
{
    for (size_t i = 0; r && i < r->n; i++)
        if (uuid_eq(r->v[i].id, id))
            return;
    if (!r)
        return;
    if (r->n == r->cap) {
        r->cap = r->cap * 2 + 16;
        r->v = xrealloc(r->v, r->cap * sizeof *r->v);
    }
    r->v[r->n++] = (struct touched_row){ id, was ? (int)was->state : CHANGE_NEW, was ? was->links : 0 };
}

void table_put_holding(struct table *t, const struct task *task, unsigned holds)
{
    table_touch(t->touched, task->id, table_get(t, task->id));
    struct row *row = xmalloc(sizeof *row + task_text_size(task));
    row->task = task_pack(task, (char *)(row + 1));
    row->holds = holds;
    assert(!task->waits_for.n || task->state == TASK_BLOCKED);
    if (task->state != TASK_FAILED) {
        row->task.cause = (struct str){ 0 };
        row->task.resolved_ms = 0;
    }
    if (task->state != TASK_FAILED && task->state != TASK_PAUSED)
        row->task.resolution = (struct str){ 0 };
    table_join_claim(
        t, row); /* before the old row leaves: a claim that passes from the old row to the new one is never empty */
    struct row *old = map_put(&t->rows, uuid_bytes(&row->task.id), row);
    assert(old || !t->journal);
    if (old) {
        table_leave(t, old);
        table_leave_claim(t, old);
        /* The id is the same, so the order stays. */
        order_at(&t->by_id, order_find(&t->by_id, 0, row->task.id))->value = row;
        table_retire(t, old);
    } else {
        order_add(&t->by_id, 0, row->task.id, row);
    }
    table_enter(t, row);
}

void table_put(struct table *t, const struct task *task)
{
    table_put_holding(t, task, table_holds(t, task->id));
}

void table_drop(struct table *t, struct uuid id)
{
    assert(!t->journal);
    table_touch(t->touched, id, table_get(t, id));
    struct row *row = map_remove(&t->rows, uuid_bytes(&id));
    assert(row);
    order_remove(&t->by_id, 0, id);
    table_leave(t, row);
    table_leave_claim(t, row);
    free(row);
}

/* ---- rolling back ---- */

void table_begin(struct table *t, struct journal *j)
{
    assert(!t->journal);
    *j = (struct journal){ 0 };
    t->journal = j;
}

static void table_end_journal(struct table *t)
{
    for (size_t i = 0; i < t->journal->n; i++)
        free(t->journal->v[i]);
    free(t->journal->v);
    t->journal = NULL;
}

void table_commit(struct table *t)
{
    table_end_journal(t);
}

void table_roll_back(struct table *t)
{
    struct journal j = *t->journal;
    t->journal = NULL;
    for (size_t i = j.n; i-- > 0;)
        table_put_holding(t, &j.v[i]->task, j.v[i]->holds);
    t->journal = &j;
    table_end_journal(t);
}
