/* Audit rows: when an operation leaves one, how they are read, and how they go. */
#include "store_world.h"

static struct audit some_audit(struct world *w, int64_t at_ms)
{
    struct audit row = { .tenant = TENANT,
                         .actor = S("k1"),
                         .address = S("192.0.2.1"),
                         .action = S("POST /v1/tasks"),
                         .kind = S("task"),
                         .object = S("t1"),
                         .actor_name = S("deployer"),
                         .object_name = S("nightly"),
                         .details = S("{\"reason\":\"why\"}"),
                         .digest = { 7 },
                         .count = 1 };
    row.id = uuid_next(&w->ids, at_ms);
    row.at_ms = uuid_time_ms(row.id);
    return row;
}

static enum err insert_with(struct world *w, const struct task *t, size_t n, const struct audit *audit)
{
    struct op_insert op = insert_of(t, n);
    op.op.audit = audit;
    return world_apply(w, &op.op);
}

static struct audit_page read_page(struct world *w, struct audit_filter f)
{
    struct audit_page page = { 0 };
    struct error e = { 0 };
    f.limit = f.limit ? f.limit : 10;
    assert_ok(reader_audit(w->reader, &f, &w->arena, &page, &e), &e);
    return page;
}

static size_t count_all(struct world *w)
{
    return read_page(w, (struct audit_filter){ 0 }).n;
}

static void an_operation_that_succeeds_leaves_its_row(void **state) /* audit 1, 3 */
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct audit given = some_audit(w, NOW);
    assert_int_equal(insert_with(w, &t, 1, &given), ERR_OK);
    struct audit_page page = read_page(w, (struct audit_filter){ 0 });
    assert_int_equal(page.n, 1);
    const struct audit *got = &page.v[0];
    assert_true(uuid_eq(got->id, given.id) && got->tenant == TENANT && got->at_ms == given.at_ms && !page.more);
    assert_str(got->actor, "k1");
    assert_str(got->address, "192.0.2.1");
    assert_str(got->action, "POST /v1/tasks");
    assert_str(got->kind, "task");
    assert_str(got->object, "t1");
    assert_str(got->actor_name, "deployer");
    assert_str(got->object_name, "nightly");
    assert_str(got->details, "{\"reason\":\"why\"}");
    assert_true(got->digest[0] == 7 && got->outcome == AUDIT_DONE && got->count == 1 && got->seq > 0);
    assert_false(uuid_is_nil(got->strand));
}

static void an_operation_that_fails_leaves_none(void **state) /* audit 1 */
{
    struct world *w = *state;
    struct task t = some_task(w), other = t;
    struct audit first = some_audit(w, NOW), second = some_audit(w, NOW);
    other.created_ms++;
    assert_int_equal(insert_with(w, &t, 1, &first), ERR_OK);
    assert_int_equal(insert_with(w, &other, 1, &second), ERR_CONFLICT);
    assert_int_equal(count_all(w), 1);
}

static void a_settlement_that_is_stale_leaves_none(void **state) /* audit 1 */
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct audit first = some_audit(w, NOW), second = some_audit(w, NOW);
    struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
    v.fence++;
    struct op_settle op = { .op = { .kind = OP_SETTLE, .audit = &first }, .v = &v, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v.stale);
    assert_int_equal(count_all(w), 0);
    v = settlement_of(&claimed, TASK_COMPLETED);
    op = (struct op_settle){ .op = { .kind = OP_SETTLE, .audit = &second }, .v = &v, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(count_all(w), 1);
}

static void operations_of_one_request_leave_one_row(void **state) /* audit 2 */
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w);
    struct audit row = some_audit(w, NOW);
    struct op_insert x = insert_of(&a, 1), y = insert_of(&b, 1);
    x.op.audit = y.op.audit = &row;
    world_apply_all(w, (struct op *[]){ &x.op, &y.op }, 2);
    assert_int_equal(count_all(w), 1);
    assert_int_equal(insert_with(w, &a, 1, &row), ERR_OK); /* repeated, as if its answer was lost */
    assert_int_equal(count_all(w), 1);
}

static void an_insert_of_nothing_leaves_its_row(void **state)
{
    struct world *w = *state;
    struct audit row = some_audit(w, NOW);
    row.outcome = AUDIT_REFUSED;
    row.actor = row.object = row.kind = row.actor_name = row.object_name = row.details = S("");
    row.count = 12;
    assert_int_equal(insert_with(w, NULL, 0, &row), ERR_OK);
    struct audit_page page = read_page(w, (struct audit_filter){ 0 });
    assert_true(page.n == 1 && page.v[0].outcome == AUDIT_REFUSED && page.v[0].count == 12 && !page.v[0].actor.n &&
                !page.v[0].actor_name.n && !page.v[0].object_name.n && !page.v[0].details.n);
}

static void rows_of_one_store_are_numbered_upwards(void **state) /* audit 4 */
{
    struct world *w = *state;
    for (int i = 0; i < 3; i++) {
        struct audit row = some_audit(w, NOW + i);
        assert_int_equal(insert_with(w, NULL, 0, &row), ERR_OK);
    }
    struct audit_page page = read_page(w, (struct audit_filter){ 0 });
    assert_int_equal(page.n, 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(page.v[i].seq < page.v[i - 1].seq && uuid_eq(page.v[i].strand, page.v[i - 1].strand));
}

/* Ten rows, a second apart; every second one is of another tenant and key. */
static void put_ten(struct world *w, struct uuid ids[10])
{
    for (int i = 0; i < 10; i++) {
        struct audit row = some_audit(w, NOW + i * 1000);
        row.tenant = i % 2 ? OTHER_TENANT : TENANT;
        row.actor = i % 2 ? S("k2") : S("k1");
        row.action = i < 5 ? S("POST /v1/tasks") : S("DELETE /v1/tasks/{id}");
        row.object = i == 3 ? S("t3") : S("t1");
        ids[i] = row.id;
        assert_int_equal(insert_with(w, NULL, 0, &row), ERR_OK);
    }
}

static void they_are_read_newest_first_in_pages(void **state)
{
    struct world *w = *state;
    struct uuid ids[10];
    put_ten(w, ids);
    struct audit_page page = read_page(w, (struct audit_filter){ .limit = 4 });
    assert_true(page.n == 4 && page.more && uuid_eq(page.v[0].id, ids[9]) && uuid_eq(page.next_before, ids[6]));
    page = read_page(w, (struct audit_filter){ .limit = 6, .before = page.next_before });
    assert_true(page.n == 6 && !page.more && uuid_eq(page.v[0].id, ids[5]) && uuid_eq(page.v[5].id, ids[0]));
}

static void they_are_found_by_tenant_actor_action_object_and_time(void **state)
{
    struct world *w = *state;
    struct uuid ids[10];
    put_ten(w, ids);
#define found(...) read_page(w, (struct audit_filter){ __VA_ARGS__ })
    assert_int_equal(found(.tenant = TENANT).n, 5);
    assert_int_equal(found(.actor = S("k2")).n, 5);
    assert_int_equal(found(.action = S("POST /v1/tasks")).n, 5);
    assert_int_equal(found(.action = S("DELETE *")).n, 5);
    assert_int_equal(found(.action = S("DELETE")).n, 0);
    assert_int_equal(found(.action = S("*")).n, 10);
    assert_int_equal(found(.object = S("t3")).n, 1);
    assert_int_equal(found(.tenant = TENANT, .action = S("DELETE *")).n, 2);
    assert_int_equal(found(.from_ms = NOW + 3000).n, 7);
    assert_int_equal(found(.to_ms = NOW + 3000).n, 3);
    assert_int_equal(found(.from_ms = NOW + 3000, .to_ms = NOW + 4000).n, 1);
#undef found
}

static void they_go_with_time(void **state) /* audit 5, OP_PURGE 12 */
{
    struct world *w = *state;
    struct uuid ids[10];
    put_ten(w, ids);
    struct op_purge purge = { .op.kind = OP_PURGE, .now_ms = NOW + 20000, .max = 100 };
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    assert_int_equal(purge.ret_purged, 0);
    purge.audit_before_ms = NOW + 6000;
    purge.max = 4;
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    assert_true(purge.ret_purged == 4 && purge.ret_more && count_all(w) == 6);
    purge.max = 100;
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    assert_true(purge.ret_purged == 2 && count_all(w) == 4);
}

static const struct CMUnitTest tests[] = {
    store_test(an_operation_that_succeeds_leaves_its_row),
    store_test(an_operation_that_fails_leaves_none),
    store_test(a_settlement_that_is_stale_leaves_none),
    store_test(operations_of_one_request_leave_one_row),
    store_test(an_insert_of_nothing_leaves_its_row),
    store_test(rows_of_one_store_are_numbered_upwards),
    store_test(they_are_read_newest_first_in_pages),
    store_test(they_are_found_by_tenant_actor_action_object_and_time),
    store_test(they_go_with_time),
};
const struct test_list audit_tests = { tests, array_count(tests) };
