/* A tenant's limits, calendars that must be there, what a tenant uses and what is due in a queue; and keys with a
 * record. */
#include "store_world.h"

/* ---- limits ---- */

static enum err insert_within(struct world *w, const struct task *tasks, size_t n, int64_t max_pending,
                              int64_t max_recurring, struct error *ret)
{
    struct op_insert op = insert_of(tasks, n);
    op.max_pending = max_pending;
    op.max_recurring = max_recurring;
    enum err rc = world_apply(w, &op.op);
    *ret = op.op.error;
    return rc;
}

static struct tenant_usage usage(struct world *w, int32_t tenant)
{
    struct tenant_usage u = { -1, -1 };
    struct error e = { 0 };
    assert_ok(reader_usage(w->reader, tenant, &u, &e), &e);
    return u;
}

static void an_insert_beyond_max_pending_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task t[4] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    assert_int_equal(insert_within(w, t, 2, 3, 0, &e), ERR_OK);
    assert_int_equal(insert_within(w, t + 2, 2, 3, 0, &e), ERR_LIMIT);
    assert_string_equal(e.field, "max_pending");
    assert_false(is_there(w, TENANT, t[2].id));
    assert_int_equal(usage(w, TENANT).pending, 2);
    assert_int_equal(insert_within(w, t + 2, 1, 3, 0, &e), ERR_OK);
    assert_int_equal(insert_within(w, t + 3, 1, 3, 0, &e), ERR_LIMIT);
    assert_int_equal(insert_within(w, t + 3, 1, 0, 0, &e), ERR_OK); /* without a limit there is none */
    assert_int_equal(usage(w, TENANT).pending, 4);
}

static enum err put_within(struct world *w, const struct task *t, const struct task *also, int64_t max_pending,
                           struct error *ret)
{
    struct op_put op = put_of(t, t);
    op.also = also;
    op.max_pending = max_pending;
    enum err rc = world_apply(w, &op.op);
    *ret = op.op.error;
    return rc;
}

static void what_a_put_inserts_counts_towards_max_pending(void **state) /* OP_PUT 6 */
{
    struct world *w = *state;
    struct error e;
    struct task t = some_recurring(w), also[3];
    insert(w, &t, 1);
    for (int i = 0; i < 3; i++) {
        also[i] = some_occurrence(w, &t, NOW);
        also[i].id = fresh_id(w);
    }
    assert_int_equal(put_within(w, &t, &also[0], 2, &e), ERR_OK);
    assert_int_equal(put_within(w, &t, &also[1], 2, &e), ERR_LIMIT);
    assert_string_equal(e.field, "max_pending");
    assert_false(is_there(w, TENANT, also[1].id));
    assert_int_equal(usage(w, TENANT).pending, 2);
    assert_int_equal(put_within(w, &t, &also[0], 2, &e), ERR_OK); /* repeated: it is there */
    assert_int_equal(put_within(w, &t, &also[1], 3, &e), ERR_OK);
    assert_int_equal(put_within(w, &t, &also[2], 0, &e), ERR_OK);
    assert_int_equal(usage(w, TENANT).pending, 4);
}

static void inserts_of_one_transaction_count_together(void **state)
{
    struct world *w = *state;
    struct task t[4] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    struct op_insert op[4];
    struct op *ops[4];
    for (size_t i = 0; i < 4; i++) {
        op[i] = insert_of(&t[i], 1);
        op[i].max_pending = 2;
        ops[i] = &op[i].op;
    }
    world_apply_all(w, ops, 4);
    assert_int_equal(op[0].op.rc, ERR_OK);
    assert_int_equal(op[1].op.rc, ERR_OK);
    assert_int_equal(op[2].op.rc, ERR_LIMIT);
    assert_int_equal(op[3].op.rc, ERR_LIMIT);
    assert_int_equal(usage(w, TENANT).pending, 2);
}

static void an_insert_repeated_at_the_limit_counts_as_done(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task t[2] = { some_task(w), some_task(w) };
    assert_int_equal(insert_within(w, t, 1, 1, 0, &e), ERR_OK);
    assert_int_equal(insert_within(w, t, 1, 1, 0, &e), ERR_OK);
    assert_int_equal(insert_within(w, t, 2, 1, 0, &e), ERR_LIMIT); /* one of them is new */
    struct task twice[2] = { t[1], t[1] };
    assert_int_equal(insert_within(w, twice, 2, 2, 0, &e), ERR_OK); /* and is one */
}

static void what_is_over_or_deleted_or_anothers_does_not_count(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task done = some_task(w), gone = some_task(w), other = some_task(w), running = some_task(w),
                next = some_task(w);
    done.state = TASK_COMPLETED;
    done.completed_ms = NOW;
    gone.deleted = true;
    other.tenant = OTHER_TENANT;
    (void)claim_one(w, &running, (struct uuid){ { 7 } });
    insert(w, (struct task[]){ done, gone, other }, 3);
    assert_int_equal(usage(w, TENANT).pending, 1);
    assert_int_equal(usage(w, OTHER_TENANT).pending, 1);
    assert_int_equal(insert_within(w, &next, 1, 1, 0, &e), ERR_LIMIT);
    assert_int_equal(insert_within(w, &next, 1, 2, 0, &e), ERR_OK);
}

static void max_recurring_looks_at_what_recurs(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task r[3] = { some_recurring(w), some_recurring(w), some_recurring(w) }, once = some_task(w);
    assert_int_equal(insert_within(w, r, 2, 0, 2, &e), ERR_OK);
    assert_int_equal(insert_within(w, &r[2], 1, 0, 2, &e), ERR_LIMIT);
    assert_string_equal(e.field, "max_recurring");
    assert_int_equal(insert_within(w, &once, 1, 0, 2, &e), ERR_OK);
    assert_int_equal(usage(w, TENANT).recurring, 2);
    assert_int_equal(usage(w, TENANT).pending, 3);
    struct task over = r[0];
    over.state = TASK_CANCELLED;
    over.completed_ms = NOW;
    struct op_put put = put_of(&r[0], &over);
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    assert_int_equal(usage(w, TENANT).recurring, 1);
    assert_int_equal(insert_within(w, &r[2], 1, 0, 2, &e), ERR_OK);
}

/* ---- calendars ---- */

static enum err remove_calendar(struct world *w, struct str name, struct error *ret)
{
    struct catalog_change c = { .entry = { .tenant = TENANT, .kind = CATALOG_CALENDAR, .name = name },
                                .version = -1,
                                .remove = true };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = NOW };
    enum err rc = world_apply(w, &op.op);
    if (ret)
        *ret = op.op.error;
    return rc;
}

static struct task going_by(struct world *w, struct str calendar)
{
    struct task t = some_recurring(w);
    t.schedule.calendar = calendar;
    return t;
}

static void a_task_goes_by_a_calendar_that_is_there(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task t = going_by(w, S("de")), other = going_by(w, S("de")), over = going_by(w, S("de"));
    assert_int_equal(insert_within(w, &t, 1, 0, 0, &e), ERR_INVALID);
    assert_string_equal(e.field, "calendar");
    assert_false(is_there(w, TENANT, t.id));
    over.state = TASK_CANCELLED;
    over.completed_ms = NOW;
    insert(w, &over, 1); /* it needs none any more */
    add_calendar(w, S("de"));
    insert(w, &t, 1);
    other.tenant = OTHER_TENANT;
    assert_int_equal(insert_within(w, &other, 1, 0, 0, &e), ERR_INVALID); /* another's is none */
    struct task moved = t;
    moved.version++;
    moved.schedule.calendar = S("fr");
    struct op_put put = put_of(&t, &moved);
    assert_int_equal(world_apply(w, &put.op), ERR_INVALID);
    assert_string_equal(put.op.error.field, "calendar");
    assert_str(get(w, t.id).schedule.calendar, "de");
}

static void a_calendar_that_a_task_goes_by_stays(void **state)
{
    struct world *w = *state;
    struct error e;
    struct task t = going_by(w, S("de"));
    add_calendar(w, S("de"));
    add_calendar(w, S("fr"));
    insert(w, &t, 1);
    assert_int_equal(remove_calendar(w, S("de"), &e), ERR_CONFLICT);
    assert_string_equal(e.field, "calendar");
    add_calendar(w, S("de")); /* it may change */
    assert_int_equal(remove_calendar(w, S("fr"), NULL), ERR_OK);
    struct task paused = get(w, t.id);
    paused.state = TASK_PAUSED;
    struct op_put put = put_of(&t, &paused);
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    assert_int_equal(remove_calendar(w, S("de"), NULL), ERR_CONFLICT);
    struct task gone = get(w, t.id);
    gone.deleted = true;
    put = put_of(&paused, &gone);
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    assert_int_equal(remove_calendar(w, S("de"), NULL), ERR_OK);
}

static void an_insert_and_a_removal_at_once_do_not_pass_each_other(void **state)
{
    struct world *w = *state;
    for (int first = 0; first < 2; first++) {
        struct task t = going_by(w, S("de"));
        add_calendar(w, S("de"));
        struct catalog_change c = { .entry = { .tenant = TENANT, .kind = CATALOG_CALENDAR, .name = S("de") },
                                    .version = -1,
                                    .remove = true };
        struct op_catalog removal = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = NOW };
        struct op_insert create = insert_of(&t, 1);
        struct op *ops[] = { first ? &removal.op : &create.op, first ? &create.op : &removal.op };
        world_apply_all(w, ops, 2);
        assert_int_equal(ops[0]->rc, ERR_OK);
        assert_int_equal(ops[1]->rc, first ? ERR_INVALID : ERR_CONFLICT);
        struct task over = t;
        over.deleted = true;
        struct op_put put = put_of(&t, &over);
        if (!first)
            assert_int_equal(world_apply(w, &put.op), ERR_OK);
    }
}

static void tasks_are_listed_by_their_calendar(void **state)
{
    struct world *w = *state;
    add_calendar(w, S("de"));
    add_calendar(w, S("fr"));
    struct task a = going_by(w, S("de")), b = going_by(w, S("fr")), c = going_by(w, S("de")),
                over = going_by(w, S("de"));
    struct task none = some_recurring(w), once = some_task(w);
    over.state = TASK_CANCELLED;
    over.completed_ms = NOW;
    c.state = TASK_PAUSED;
    insert(w, (struct task[]){ a, b, c, over, none, once }, 6);
    struct task_filter f = { .tenant = TENANT, .calendar = S("de"), .limit = 10 };
    struct task_page page = list(w, &f);
    assert_tasks(&page.tasks, &over.id, &c.id, &a.id);
    f.states = 1U << TASK_SCHEDULED | 1U << TASK_PAUSED;
    page = list(w, &f);
    assert_tasks(&page.tasks, &c.id, &a.id);
    f.limit = 1;
    page = list(w, &f);
    assert_tasks(&page.tasks, &c.id);
    assert_true(page.more);
    f.before = page.next_before;
    page = list(w, &f);
    assert_tasks(&page.tasks, &a.id);
    f = (struct task_filter){ .tenant = OTHER_TENANT, .calendar = S("de"), .limit = 10 };
    assert_int_equal(list(w, &f).tasks.n, 0);
}

/* ---- queues ---- */

static void what_is_due_in_a_queue_is_counted(void **state)
{
    struct world *w = *state;
    struct task t[6];
    for (size_t i = 0; i < array_count(t); i++)
        t[i] = some_task(w);
    t[1].priority = PRIORITY_MAX;
    t[2].due_ms = NOW + 1;
    t[3].queue = S("elsewhere");
    t[4].tenant = OTHER_TENANT;
    t[5].state = TASK_PAUSED;
    insert(w, t, array_count(t));
    struct task recurring = some_recurring(w);
    insert(w, &recurring, 1);
    struct error e = { 0 };
    int64_t due = -1;
    assert_ok(reader_queue_due(w->reader, TENANT, some_lane().queue, NOW, &due, &e), &e);
    assert_int_equal(due, 2);
    assert_ok(reader_queue_due(w->reader, TENANT, some_lane().queue, NOW + 1, &due, &e), &e);
    assert_int_equal(due, 3);
    assert_ok(reader_queue_due(w->reader, TENANT, S("nobody's"), NOW, &due, &e), &e);
    assert_int_equal(due, 0);
}

/* Of all lanes of that queue and priority. */
static int64_t backlog_of(const struct backlog_rows *rows, int32_t tenant, struct str queue, int priority)
{
    int64_t due = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (rows->v[i].tenant == tenant && str_eq(rows->v[i].queue, queue) && rows->v[i].priority == priority)
            due += rows->v[i].due;
    return due;
}

static int64_t backlog_in_partitions(const struct backlog_rows *rows)
{
    int64_t due = 0;
    for (size_t i = 0; i < PARTITIONS; i++)
        due += rows->by_partition[i];
    return due;
}

static void the_backlog_is_what_claims_could_take_by_lane(void **state)
{
    struct world *w = *state;
    struct task running = some_task(w), recurring = some_recurring(w), t[8];
    struct backlog_rows rows = { 0 };
    struct error e = { 0 };
    assert_ok(reader_backlog(w->reader, NOW, &w->arena, &rows, &e), &e);
    assert_true(rows.n == 0 && backlog_in_partitions(&rows) == 0);
    claim_one(w, &running, fresh_id(w));
    for (size_t i = 0; i < array_count(t); i++)
        t[i] = some_task(w);
    t[1].priority = PRIORITY_MAX;
    t[2].due_ms = NOW + 1;
    t[3].queue = S("elsewhere");
    t[4].tenant = OTHER_TENANT;
    t[5].state = TASK_PAUSED;
    t[6].target = TARGET_WORKER;
    t[7].delivery = DELIVER_AT_MOST_ONCE; /* a lane of its own */
    insert(w, t, array_count(t));
    insert(w, &recurring, 1);
    assert_ok(reader_backlog(w->reader, NOW, &w->arena, &rows, &e), &e);
    assert_int_equal(backlog_of(&rows, TENANT, t[0].queue, t[0].priority), 3);
    assert_int_equal(backlog_of(&rows, TENANT, t[0].queue, PRIORITY_MAX), 1);
    assert_int_equal(backlog_of(&rows, TENANT, S("elsewhere"), t[0].priority), 1);
    assert_int_equal(backlog_of(&rows, OTHER_TENANT, t[0].queue, t[0].priority), 1);
    assert_int_equal(backlog_in_partitions(&rows), 6);
    for (size_t i = 0; i < rows.n; i++)
        assert_true(rows.v[i].due > 0);
    assert_ok(reader_backlog(w->reader, NOW + 1, &w->arena, &rows, &e), &e);
    assert_int_equal(backlog_of(&rows, TENANT, t[0].queue, t[0].priority), 4);
    assert_int_equal(backlog_in_partitions(&rows), 7);
}

/* ---- keys ---- */

static void a_key_is_put_and_removed_with_its_record(void **state)
{
    struct world *w = *state;
    struct api_key key = {
        .id = S("0123456789"), .tenant = TENANT, .name = S("n"), .scopes = S("admin"), .created_ms = NOW
    };
    struct idempotency record = some_idempotency();
    struct op_key_put put = { .op.kind = OP_KEY_PUT, .key = &key, .idempotency = &record };
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    key.name = S("another");
    assert_int_equal(world_apply(w, &put.op), ERR_CONFLICT);
    assert_string_equal(put.op.error.field, "idempotency-key");
    struct api_key found;
    struct error e = { 0 };
    assert_ok(reader_key(w->reader, key.id, &w->arena, &found, &e), &e);
    assert_str(found.name, "n");
    put.remove = true;
    put.now_ms = NOW + 1;
    assert_int_equal(world_apply(w, &put.op), ERR_CONFLICT);
    assert_ok(reader_key(w->reader, key.id, &w->arena, &found, &e), &e);
    record.key[0]++;
    key.tenant = OTHER_TENANT;
    assert_int_equal(world_apply(w, &put.op), ERR_NOT_FOUND);
    key.tenant = TENANT;
    assert_int_equal(world_apply(w, &put.op), ERR_OK); /* one that failed left no record */
    assert_ok(reader_key(w->reader, key.id, &w->arena, &found, &e), &e);
    assert_int_equal(found.expires_ms, -(NOW + 1));
}

static const struct CMUnitTest tests[] = {
    store_test(an_insert_beyond_max_pending_leaves_no_trace),
    store_test(what_a_put_inserts_counts_towards_max_pending),
    store_test(inserts_of_one_transaction_count_together),
    store_test(an_insert_repeated_at_the_limit_counts_as_done),
    store_test(what_is_over_or_deleted_or_anothers_does_not_count),
    store_test(max_recurring_looks_at_what_recurs),
    store_test(a_task_goes_by_a_calendar_that_is_there),
    store_test(a_calendar_that_a_task_goes_by_stays),
    store_test(an_insert_and_a_removal_at_once_do_not_pass_each_other),
    store_test(tasks_are_listed_by_their_calendar),
    store_test(what_is_due_in_a_queue_is_counted),
    store_test(the_backlog_is_what_claims_could_take_by_lane),
    store_test(a_key_is_put_and_removed_with_its_record),
};
const struct test_list limits_tests = { tests, array_count(tests) };
