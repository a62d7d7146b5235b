/* A row stands in rows and by_id always; in one lane or in recurring while it is SCHEDULED; in its claim's list while it is
 * RUNNING. Which, follows from its task alone: enter and leave are each other's mirror. */
#include "adapter/store_memory_table.h"

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
}

static void free_lane(struct lane_rows *l)
{
    order_release(&l->due);
    free(l->key);
    free(l);
}

void table_release(struct table *t)
{
    map_each (&t->rows, slot)
        free(slot->value);
    map_each (&t->lanes, slot)
        free_lane(slot->value);
    map_each (&t->claims, slot)
        free(slot->value);
    map_release(&t->rows);
    order_release(&t->by_id);
    map_release(&t->lanes);
    order_release(&t->recurring);
    map_release(&t->claims);
}

/* ---- lanes ---- */

static void lane_key(struct lane lane, struct buf *ret)
{
    buf_init(ret, LANE_KEY_MAX);
    buf_printf(ret, "%d/%d/", (int)lane.tenant, (int)lane.class_);
    buf_add(ret, lane.queue);
    assert(!ret->full);
}

const struct lane_rows *table_lane(const struct table *t, struct lane lane)
{
    cleanup_with(buf_release) struct buf key;
    lane_key(lane, &key);
    return map_get(&t->lanes, buf_str(&key));
}

/* The lane of that name, made when there is none: a lane once seen stays. */
static struct lane_rows *open_lane(struct table *t, struct lane lane)
{
    cleanup_with(buf_release) struct buf key;
    lane_key(lane, &key);
    struct lane_rows *l = map_get(&t->lanes, buf_str(&key));
    if (l)
        return l;
    l = xnew(*l);
    order_init(&l->due);
    size_t n = key.n;
    l->key = buf_take(&key);
    l->lane = lane;
    l->lane.queue = (struct str){ l->key + n - lane.queue.n, lane.queue.n };
    map_put(&t->lanes, (struct str){ l->key, n }, l);
    return l;
}

/* ---- claims ---- */

const struct claim *table_claim(const struct table *t, struct uuid id)
{
    return map_get(&t->claims, uuid_bytes(&id));
}

void table_open_claim(struct table *t, struct uuid id, struct uuid node)
{
    struct claim *c = xnew(*c);
    *c = (struct claim){ .id = id, .node = node };
    list_init(&c->rows);
    void *old = map_put(&t->claims, uuid_bytes(&c->id), c);
    assert(!old);
}

static void hold(struct table *t, struct row *row)
{
    struct claim *c = row->task.state == TASK_RUNNING ? map_get(&t->claims, uuid_bytes(&row->task.claim)) : NULL;
    list_init(&row->link);
    if (c)
        list_push(&c->rows, &row->link);
}

static void let_go(struct table *t, struct row *row)
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

/* ---- rows ---- */

static bool is_claimable(const struct task *t)
{
    return t->state == TASK_SCHEDULED && t->kind != TASK_RECURRING && t->target != TARGET_WORKER &&
           t->target != TARGET_WORKFLOW;
}

static bool is_spawning(const struct task *t)
{
    return t->state == TASK_SCHEDULED && t->kind == TASK_RECURRING;
}

/* Into the index of those that wait for their time, if it does. */
static void enter(struct table *t, struct row *row)
{
    const struct task *task = &row->task;
    if (is_claimable(task))
        order_add(&open_lane(t, task_lane(task))->due, task->due_ms, task->id, row);
    if (is_spawning(task))
        order_add(&t->recurring, task->cursor_ms, task->id, row);
}

static void leave(struct table *t, const struct row *row)
{
    const struct task *task = &row->task;
    if (is_claimable(task))
        order_remove(&open_lane(t, task_lane(task))->due, task->due_ms, task->id);
    if (is_spawning(task))
        order_remove(&t->recurring, task->cursor_ms, task->id);
}

const struct task *table_get(const struct table *t, struct uuid id)
{
    const struct row *row = map_get(&t->rows, uuid_bytes(&id));
    return row ? &row->task : NULL;
}

void table_put(struct table *t, const struct task *task)
{
    struct row *row = xmalloc(sizeof *row + task_text_size(task));
    row->task = task_pack(task, (char *)(row + 1));
    hold(t, row); /* before the old one lets go: a claim handed on is never without a holder */
    struct row *old = map_put(&t->rows, uuid_bytes(&row->task.id), row);
    if (old) {
        leave(t, old);
        let_go(t, old);
        order_at(&t->by_id, order_find(&t->by_id, 0, row->task.id))->value = row; /* its id is the same */
        free(old);
    } else {
        order_add(&t->by_id, 0, row->task.id, row);
    }
    enter(t, row);
}

void table_drop(struct table *t, struct uuid id)
{
    struct row *row = map_remove(&t->rows, uuid_bytes(&id));
    assert(row);
    order_remove(&t->by_id, 0, id);
    leave(t, row);
    let_go(t, row);
    free(row);
}
