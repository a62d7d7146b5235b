/* OP_BREAKERS: breakers that are not closed, how they change and how they are read. */
#include "store_world.h"

static bool change(struct world *w, struct breaker_change c)
{
    struct op_breakers op = { .op.kind = OP_BREAKERS, .v = &c, .n = 1 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_changed;
}

static struct breaker_row opened(struct world *w, int32_t tenant, const char *host, int64_t until_ms)
{
    return (struct breaker_row){ .id = fresh_id(w),
                                 .tenant = tenant,
                                 .host = str_from(host),
                                 .opened_ms = NOW,
                                 .until_ms = until_ms,
                                 .calls = 12,
                                 .failures = 10,
                                 .reason = S("HTTP 503") };
}

static struct breaker_row put(struct world *w, int32_t tenant, const char *host, int64_t until_ms)
{
    struct breaker_row row = opened(w, tenant, host, until_ms);
    assert_true(change(w, (struct breaker_change){ row, false }));
    return row;
}

static struct breaker_rows read_breakers(struct world *w, struct breaker_filter f)
{
    struct breaker_rows rows = { 0 };
    struct error e = { 0 };
    f.limit = f.limit ? f.limit : 10;
    assert_ok(reader_breakers(w->reader, &f, &w->arena, &rows, &e), &e);
    return rows;
}

static void a_breaker_that_opened_is_there_with_all_that_was_said(void **state) /* OP_BREAKERS 2 */
{
    struct world *w = *state;
    struct breaker_row row = put(w, 7, "a.example:8080", NOW + 30000);
    struct breaker_rows all = read_breakers(w, (struct breaker_filter){ .all_tenants = true });
    assert_int_equal(all.n, 1);
    const struct breaker_row *got = &all.v[0];
    assert_true(uuid_eq(got->id, row.id) && got->tenant == 7);
    assert_str(got->host, "a.example:8080");
    assert_true(got->opened_ms == NOW && got->until_ms == NOW + 30000);
    assert_true(got->calls == 12 && got->failures == 10 && got->reopened == 0);
    assert_str(got->reason, "HTTP 503");
}

static void a_later_time_opens_it_again_and_an_earlier_one_changes_nothing(void **state) /* OP_BREAKERS 2, 4 */
{
    struct world *w = *state;
    struct breaker_row row = put(w, 1, "a.example", NOW + 30000), again = opened(w, 1, "a.example", NOW + 60000);
    again.opened_ms = NOW + 30000;
    again.calls = again.failures = 1;
    again.reason = S("connection refused");
    assert_true(change(w, (struct breaker_change){ again, false }));
    assert_false(change(w, (struct breaker_change){ again, false }));
    again.until_ms = NOW + 40000;
    again.reason = S("late");
    assert_false(change(w, (struct breaker_change){ again, false }));
    struct breaker_rows all = read_breakers(w, (struct breaker_filter){ .tenant = 1 });
    assert_int_equal(all.n, 1);
    assert_true(uuid_eq(all.v[0].id, row.id) && all.v[0].opened_ms == NOW && all.v[0].until_ms == NOW + 60000);
    assert_true(all.v[0].calls == 12 && all.v[0].failures == 10 && all.v[0].reopened == 1);
    assert_str(all.v[0].reason, "connection refused");
}

static void it_is_closed_by_its_host_or_by_its_id_and_only_for_its_tenant(void **state) /* OP_BREAKERS 3, 4 */
{
    struct world *w = *state;
    struct breaker_row a = put(w, 1, "a.example", NOW), b = put(w, 1, "b.example", NOW);
    put(w, 2, "a.example", NOW);
    struct breaker_row other = a, by_host = { .tenant = 1, .host = S("b.example") };
    other.tenant = 2;
    assert_false(change(w, (struct breaker_change){ other, true }));
    assert_true(change(w, (struct breaker_change){ a, true }));
    assert_false(change(w, (struct breaker_change){ a, true }));
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .tenant = 1 }).n, 1);
    assert_true(change(w, (struct breaker_change){ by_host, true }));
    assert_false(change(w, (struct breaker_change){ by_host, true }));
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .all_tenants = true }).n, 1);
    struct breaker_row reopened = opened(w, 1, "b.example", NOW);
    assert_true(change(w, (struct breaker_change){ reopened, false }));
    assert_false(change(w, (struct breaker_change){ b, true })); /* another opening of the same host */
}

static void one_that_must_exist_is_not_found(void **state) /* OP_BREAKERS 3 */
{
    struct world *w = *state;
    struct breaker_row a = put(w, 1, "a.example", NOW);
    struct breaker_change v[] = { { { .tenant = 1, .host = S("a.example") }, true },
                                  { { .tenant = 1, .host = S("gone.example") }, true } };
    struct op_breakers op = { .op.kind = OP_BREAKERS, .v = v, .n = 2, .must_exist = true };
    assert_int_equal(world_apply(w, &op.op), ERR_NOT_FOUND);
    struct breaker_rows all = read_breakers(w, (struct breaker_filter){ .tenant = 1 });
    assert_true(all.n == 1 && uuid_eq(all.v[0].id, a.id));
}

static void several_change_at_once(void **state)
{
    struct world *w = *state;
    put(w, 1, "b.example", NOW);
    struct breaker_change v[] = { { opened(w, 2, "z.example", NOW), false },
                                  { { .tenant = 1, .host = S("b.example") }, true },
                                  { opened(w, 1, "a.example", NOW), false } };
    struct op_breakers op = { .op.kind = OP_BREAKERS, .v = v, .n = array_count(v) };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(op.ret_changed);
    struct breaker_rows all = read_breakers(w, (struct breaker_filter){ .all_tenants = true });
    assert_int_equal(all.n, 2);
    assert_str(all.v[0].host, "a.example");
    assert_str(all.v[1].host, "z.example");
}

static void they_come_by_id_falling_in_pages_and_by_tenant_host_and_scope(void **state)
{
    struct world *w = *state;
    struct breaker_row a = put(w, 1, "a.example", NOW), own = put(w, 1, "*", NOW), b = put(w, 1, "b.example", NOW);
    put(w, 2, "a.example", NOW);
    struct breaker_rows first = read_breakers(w, (struct breaker_filter){ .tenant = 1, .limit = 2 });
    assert_true(first.n == 2 && uuid_eq(first.v[0].id, b.id) && uuid_eq(first.v[1].id, own.id));
    struct breaker_rows second = read_breakers(w, (struct breaker_filter){ .tenant = 1, .limit = 2, .before = own.id });
    assert_true(second.n == 1 && uuid_eq(second.v[0].id, a.id));
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .all_tenants = true, .host = S("a.example") }).n, 2);
    struct breaker_rows of_tenant =
        read_breakers(w, (struct breaker_filter){ .tenant = 1, .scope = BREAKER_SCOPE_TENANT });
    assert_true(of_tenant.n == 1 && uuid_eq(of_tenant.v[0].id, own.id));
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .tenant = 1, .scope = BREAKER_SCOPE_HOST }).n, 2);
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .tenant = 3 }).n, 0);
}

static void a_close_that_repeats_its_key_changes_nothing(void **state) /* OP_BREAKERS 1 */
{
    struct world *w = *state;
    struct breaker_row a = put(w, 1, "a.example", NOW);
    struct idempotency record = { .tenant = 1, .key = { 1 }, .status = 200, .answer = S("{}"), .created_ms = NOW };
    struct breaker_change c = { a, true };
    struct op_breakers op = { .op.kind = OP_BREAKERS, .v = &c, .n = 1, .must_exist = true, .idempotency = &record };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    put(w, 1, "a.example", NOW);
    struct op_breakers again = { .op.kind = OP_BREAKERS, .v = &c, .n = 1, .idempotency = &record };
    assert_int_equal(world_apply(w, &again.op), ERR_CONFLICT);
    assert_string_equal(again.op.error.field, "idempotency-key");
    assert_int_equal(read_breakers(w, (struct breaker_filter){ .tenant = 1 }).n, 1);
}

static const struct CMUnitTest tests[] = {
    store_test(a_breaker_that_opened_is_there_with_all_that_was_said),
    store_test(a_later_time_opens_it_again_and_an_earlier_one_changes_nothing),
    store_test(it_is_closed_by_its_host_or_by_its_id_and_only_for_its_tenant),
    store_test(one_that_must_exist_is_not_found),
    store_test(several_change_at_once),
    store_test(they_come_by_id_falling_in_pages_and_by_tenant_host_and_scope),
    store_test(a_close_that_repeats_its_key_changes_nothing),
};
const struct test_list breaker_tests = { tests, array_count(tests) };
