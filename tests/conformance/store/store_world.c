#include "store_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "late_lanes.h"

const struct store_adapter *adapter_under_test;

int world_open(void **state)
{
    struct world *w = xnew(*w);
    struct error e = { 0 };
    assert_true(scratch_make("belfry-store", w->directory));
    uuid_gen_init(&w->ids, 1);
    arena_init(&w->arena, 1 << 26);
    assert_ok(adapter_under_test->open(w->directory, &w->store, &e), &e);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    *state = w;
    return 0;
}

int world_close(void **state)
{
    struct world *w = *state;
    reader_free(w->reader);
    store_free(w->store);
    for (size_t i = 0; i < w->arena_count; i++)
        arena_release(&w->arenas[i]);
    arena_release(&w->arena);
    assert_true(scratch_remove(w->directory));
    free(w);
    return 0;
}

void world_apply_all(struct world *w, struct op **ops, size_t n)
{
    struct error e = { 0 };
    for (size_t i = 0; i < n; i++)
        if (!ops[i]->arena.max)
            arena_init(&ops[i]->arena, 1 << 26);
    assert_ok(store_apply(w->store, ops, n, &e), &e);
    for (size_t i = 0; i < n; i++) {
        assert_true(w->arena_count < ARENAS_MAX);
        w->arenas[w->arena_count++] = ops[i]->arena;
        ops[i]->arena = (struct arena){ 0 };
    }
}

enum err world_apply(struct world *w, struct op *op)
{
    struct late_lanes late = { 0 };
    if (w->claims_late)
        late_lanes_add(&late, op);
    world_apply_all(w, &op, 1);
    late_lanes_fold(&late);
    return op->rc;
}

/* ---- things to work with ---- */

struct uuid fresh_id(struct world *w)
{
    return uuid_next(&w->ids, NOW);
}

struct lane some_lane(void)
{
    return (struct lane){ .tenant = TENANT, .queue = S("default"), .priority = PRIORITY_DEFAULT };
}

struct task some_task(struct world *w)
{
    return (struct task){
        .id = fresh_id(w),
        .tenant = TENANT,
        .due_ms = NOW,
        .scheduled_ms = NOW,
        .version = 1,
        .priority = PRIORITY_DEFAULT,
        .queue = S("default"),
        .name = S("report"),
        .timeout_ms = 30000,
        .retry = RETRY_DEFAULT,
        .target = TARGET_NOOP,
        .schedule.end_ms = INT64_MAX,
        .created_ms = NOW - 5000,
        .updated_ms = NOW - 5000,
    };
}

struct task some_recurring(struct world *w)
{
    struct task t = some_task(w);
    t.kind = TASK_RECURRING;
    t.schedule.interval_ms = 1000;
    t.cursor_ms = NOW + 1000;
    return t;
}

struct task some_occurrence(struct world *w, const struct task *parent, int64_t at_ms)
{
    struct task t = some_task(w);
    t.id = occurrence_id(parent->id, at_ms);
    t.kind = TASK_OCCURRENCE;
    t.parent = parent->id;
    t.runs_count = 1;
    t.due_ms = t.scheduled_ms = at_ms;
    return t;
}

struct execution some_execution(struct world *w, const struct task *t)
{
    bool occurrence = t->kind == TASK_OCCURRENCE;
    return (struct execution){
        .id = fresh_id(w),
        .tenant = t->tenant,
        .task = occurrence ? t->parent : t->id,
        .occurrence = occurrence ? t->id : (struct uuid){ 0 },
        .scheduled_ms = t->scheduled_ms,
        .due_ms = t->due_ms,
        .started_us = NOW * 1000 + 123,
        .completed_us = NOW * 1000 + 4567,
        .attempt = t->attempts + 1,
        .fence = t->fence,
        .status = EXECUTION_FAILED,
        .http_status = 503,
        .worker = S("node-1"),
        .error = S("HTTP 503"),
        .output = S("try later"),
        .trace_id = S("4bf92f3577b34da6a3ce929d0e0e4736"),
    };
}

struct idempotency some_idempotency(void)
{
    return (struct idempotency){ .tenant = TENANT,
                                 .key = "key",
                                 .payload = "payload",
                                 .status = 201,
                                 .answer = S("{\"id\":1}"),
                                 .created_ms = NOW };
}

struct op_insert insert_of(const struct task *tasks, size_t n)
{
    return (struct op_insert){ .op.kind = OP_INSERT, .tasks = tasks, .count = n };
}

/* ---- doing things ---- */

void add_calendar(struct world *w, struct str name)
{
    struct catalog_change c = { .entry = { .tenant = TENANT, .kind = CATALOG_CALENDAR, .name = name, .doc = S("{}") },
                                .version = -1 };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = NOW };
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
}

void insert(struct world *w, const struct task *tasks, size_t n)
{
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = tasks, .count = n };
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

bool is_there(struct world *w, int32_t tenant, struct uuid id)
{
    struct task t;
    struct error e = { 0 };
    enum err rc = reader_get(w->reader, tenant, id, &w->arena, &t, &e);
    assert_true(rc == ERR_OK || rc == ERR_NOT_FOUND);
    return rc == ERR_OK;
}

struct task get(struct world *w, struct uuid id)
{
    struct task t = { 0 };
    struct error e = { 0 };
    assert_ok(reader_get(w->reader, TENANT, id, &w->arena, &t, &e), &e);
    return t;
}

struct op_claim claim_of(struct world *w, struct lane_quota *lanes, size_t n)
{
    return (struct op_claim){
        .op.kind = OP_CLAIM,
        .claim = fresh_id(w),
        .node = fresh_id(w),
        .lanes = lanes,
        .lane_count = n,
        .now_ms = NOW,
        .until_ms = NOW,
        .max = CLAIM_MAX,
        .max_bytes = 64 << 20,
    };
}

struct task claim_one(struct world *w, const struct task *t, struct uuid node)
{
    insert(w, t, 1);
    struct lane_quota lane = { task_lane(t), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.node = node;
    op.until_ms = op.now_ms = t->due_ms;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
    assert_true(uuid_eq(op.ret.v[0].id, t->id));
    return op.ret.v[0];
}

struct settlement settlement_of(const struct task *t, enum task_state next)
{
    return (struct settlement){
        .id = t->id,
        .fence = t->fence,
        .parent = t->parent,
        .verdict = { .next = next, .attempts = t->attempts + 1, .losses = t->losses },
    };
}

bool settle_with(struct world *w, struct settlement *v)
{
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = 1, .now_ms = NOW + 10 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return !v->stale;
}

struct op_put put_of(const struct task *before, const struct task *after)
{
    return (struct op_put){
        .op.kind = OP_PUT,
        .task = after,
        .version = before->version,
        .fence = before->fence,
        .state = before->state,
        .cursor_ms = before->cursor_ms,
    };
}

struct task_page list(struct world *w, const struct task_filter *f)
{
    struct task_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_list(w->reader, f, &w->arena, &page, &e), &e);
    return page;
}

void assert_ids(const struct tasks *t, const struct uuid *const *ids, size_t n)
{
    assert_int_equal(t->n, n);
    for (size_t i = 0; i < n; i++)
        if (!uuid_eq(t->v[i].id, *ids[i]))
            fail_msg("task %zu is not the expected one", i);
}
