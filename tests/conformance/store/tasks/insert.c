/* store_apply as a whole, OP_INSERT and its idempotency records, OP_KEY_PUT, OP_LEASE. */
#include <stdio.h>

#include "store_world.h"

static struct task full_task(struct world *w)
{
    struct task t = some_task(w);
    t.kind = TASK_RECURRING;
    t.state = TASK_PAUSED;
    t.due_ms = NOW + 1, t.scheduled_ms = NOW + 2;
    t.version = 3, t.fence = 4, t.attempts = 5, t.losses = 6, t.priority = 7;
    t.task_type = S("report.daily");
    t.delivery = DELIVER_AT_MOST_ONCE;
    t.timeout_ms = 8, t.expires_after_ms = 9;
    t.retry = (struct retry_policy){ 10, BACKOFF_FIXED, 11, 12, JITTER_NONE, S("[{\"on\":[\"503\"]}]") };
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"http://127.0.0.1/\"}");
    t.trace = S("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 req-7 vendor=a");
    t.payload = S("{\"a\":\"\xc3\xa4\\u0000\"}");
    t.extra = S("{\"metadata\":{}}");
    t.schedule = (struct schedule){ S("0 8 * * *"),
                                    13,
                                    S("Europe/Berlin"),
                                    S("holidays"),
                                    CALENDAR_NEXT_DAY,
                                    DST_GAP_SKIP,
                                    DST_REPEAT_LAST,
                                    14,
                                    INT64_MAX,
                                    15,
                                    16,
                                    CATCH_UP_NONE,
                                    17,
                                    OVERLAP_CANCEL_PREVIOUS };
    t.cursor_ms = 18, t.runs_count = 19, t.skipped_count = 20, t.last_run_ms = 21;
    t.created_ms = 22, t.updated_ms = 23, t.started_ms = 24, t.completed_ms = 25;
    t.last_error = S("HTTP 500");
    return t;
}

static void every_field_of_a_task_comes_back(void **state)
{
    struct world *w = *state;
    struct task t = full_task(w);
    add_calendar(w, t.schedule.calendar);
    insert(w, &t, 1);
    struct task read = get(w, t.id);
    assert_same_task(&read, &t);
    struct task occurrence = some_occurrence(w, &t, NOW);
    insert(w, &occurrence, 1);
    read = get(w, occurrence.id);
    assert_same_task(&read, &occurrence);
}

static void what_was_inserted_is_copied_not_kept(void **state)
{
    struct world *w = *state;
    char name[] = "weekly";
    struct task t = some_task(w);
    t.name = str_from(name);
    insert(w, &t, 1);
    name[0] = 'X';
    assert_str(get(w, t.id).name, "weekly");
}

static void a_repeated_insert_is_done_and_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct task again = t;
    again.name = S("another");
    insert(w, &again, 1);
    assert_str(get(w, t.id).name, "report");
}

static void an_insert_repeated_after_the_task_was_claimed_is_done(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct task claimed = claim_one(w, &t, fresh_id(w));
    insert(w, &t, 1);
    struct task read = get(w, t.id);
    assert_same_task(&read, &claimed);
}

static void an_insert_that_conflicts_is_refused_whole(void **state)
{
    struct world *w = *state;
    struct task old = some_task(w);
    insert(w, &old, 1);
    struct task three[] = { some_task(w), old, some_task(w) };
    three[1].created_ms++;
    struct op_insert op = insert_of(three, 3);
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_int_equal(op.op.error.code, ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "id");
    assert_false(is_there(w, TENANT, three[0].id));
    assert_false(is_there(w, TENANT, three[2].id));
    assert_int_equal(get(w, old.id).created_ms, old.created_ms);
}

static void two_tasks_of_one_id_in_one_insert_conflict(void **state)
{
    struct world *w = *state;
    struct task two[] = { some_task(w), some_task(w) };
    two[1].id = two[0].id;
    struct op_insert same = insert_of(two, 2);
    two[1].created_ms++;
    assert_int_equal(world_apply(w, &same.op), ERR_CONFLICT);
    assert_false(is_there(w, TENANT, two[0].id));
    two[1].created_ms--;
    insert(w, two, 2);
    assert_true(is_there(w, TENANT, two[0].id));
}

static void one_bad_operation_among_many_fails_alone(void **state)
{
    struct world *w = *state;
    struct task old = some_task(w);
    insert(w, &old, 1);
    struct task before = some_task(w), clash = old, after = some_task(w);
    clash.created_ms++;
    struct task refused[] = { some_task(w), clash };
    struct op_insert ops[] = { insert_of(&before, 1), insert_of(refused, 2), insert_of(&after, 1) };
    world_apply_all(w, (struct op *[]){ &ops[0].op, &ops[1].op, &ops[2].op }, 3);
    assert_int_equal(ops[0].op.rc, ERR_OK);
    assert_int_equal(ops[1].op.rc, ERR_CONFLICT);
    assert_int_equal(ops[2].op.rc, ERR_OK);
    assert_true(is_there(w, TENANT, before.id));
    assert_false(is_there(w, TENANT, refused[0].id));
    assert_true(is_there(w, TENANT, after.id));
}

static void operations_of_a_batch_see_those_before_them(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_insert in = insert_of(&t, 1);
    struct op_claim claim = claim_of(w, &lane, 1);
    struct task claimed = t;
    claimed.fence = 1;
    struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW };
    world_apply_all(w, (struct op *[]){ &in.op, &claim.op, &settle.op }, 3);
    assert_int_equal(claim.ret.n, 1);
    assert_int_equal(claim.ret.v[0].state, TASK_RUNNING); /* as it was then */
    assert_false(v.stale);
    assert_int_equal(get(w, t.id).state, TASK_COMPLETED);
}

static void an_operation_without_room_for_its_answer_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    struct task read = get(w, t.id);
    assert_same_task(&read, &t);
    struct op_claim again = claim_of(w, &lane, 1);
    again.claim = op.claim;
    assert_int_equal(world_apply(w, &again.op), ERR_OK);
    assert_int_equal(again.ret.n, 1);
}

/* ---- idempotency ---- */

static void an_idempotency_record_comes_back(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct idempotency i = some_idempotency(), read;
    struct op_insert op = insert_of(&t, 1);
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    struct error e = { 0 };
    assert_ok(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, &e), &e);
    assert_int_equal(read.tenant, TENANT);
    assert_memory_equal(read.key, i.key, 32);
    assert_memory_equal(read.payload, i.payload, 32);
    assert_int_equal(read.status, 201);
    assert_str(read.answer, "{\"id\":1}");
    assert_int_equal(read.created_ms, NOW);
}

static void a_known_idempotency_key_conflicts_and_nothing_else_happens(void **state)
{
    struct world *w = *state;
    struct task first = some_task(w), second = some_task(w);
    struct idempotency i = some_idempotency(), other = i, read;
    struct op_insert a = insert_of(&first, 1), b = insert_of(&second, 1);
    a.idempotency = &i;
    assert_int_equal(world_apply(w, &a.op), ERR_OK);
    other.status = 400;
    b.idempotency = &other;
    assert_int_equal(world_apply(w, &b.op), ERR_CONFLICT);
    assert_string_equal(b.op.error.field, "idempotency-key");
    assert_false(is_there(w, TENANT, second.id));
    struct error e = { 0 };
    assert_ok(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, &e), &e);
    assert_int_equal(read.status, 201);
}

static void an_idempotency_key_is_looked_at_before_the_id(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct idempotency i = some_idempotency();
    struct op_insert a = insert_of(&t, 1), b = a;
    a.idempotency = b.idempotency = &i;
    assert_int_equal(world_apply(w, &a.op), ERR_OK);
    assert_int_equal(world_apply(w, &b.op), ERR_CONFLICT);
    assert_string_equal(b.op.error.field, "idempotency-key");
}

static void a_refused_insert_keeps_no_idempotency_record(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), clash;
    insert(w, &t, 1);
    clash = t;
    clash.created_ms++;
    struct idempotency i = some_idempotency(), read;
    struct op_insert op = insert_of(&clash, 1);
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "id");
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
}

static void tenants_may_use_the_same_idempotency_key(void **state)
{
    struct world *w = *state;
    struct task mine = some_task(w), theirs = some_task(w);
    theirs.tenant = OTHER_TENANT;
    struct idempotency i = some_idempotency(), j = i, read;
    struct op_insert a = insert_of(&mine, 1), b = insert_of(&theirs, 1);
    a.idempotency = &i;
    assert_int_equal(world_apply(w, &a.op), ERR_OK);
    assert_int_equal(reader_idempotency(w->reader, OTHER_TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
    j.tenant = OTHER_TENANT;
    b.idempotency = &j;
    assert_int_equal(world_apply(w, &b.op), ERR_OK);
}

/* ---- keys and leases ---- */

static enum err put_key(struct world *w, const struct api_key *k)
{
    struct op_key_put op = { .op.kind = OP_KEY_PUT, .key = k };
    return world_apply(w, &op.op);
}

static void a_key_comes_back_and_is_replaced_by_one_of_its_id(void **state)
{
    struct world *w = *state;
    struct api_key k = { S("bf_1"), TENANT, "hash", S("laptop"), S("read write"), NOW, NOW + 1, S("") }, read;
    struct error e = { 0 };
    assert_int_equal(put_key(w, &k), ERR_OK);
    assert_ok(reader_key(w->reader, S("bf_1"), &w->arena, &read, &e), &e);
    assert_str(read.id, "bf_1");
    assert_int_equal(read.tenant, TENANT);
    assert_memory_equal(read.hash, k.hash, 32);
    assert_str(read.name, "laptop");
    assert_str(read.scopes, "read write");
    assert_int_equal(read.created_ms, NOW);
    assert_int_equal(read.expires_ms, NOW + 1);
    k.scopes = S("read");
    assert_int_equal(put_key(w, &k), ERR_OK);
    assert_ok(reader_key(w->reader, S("bf_1"), &w->arena, &read, &e), &e);
    assert_str(read.scopes, "read");
}

static void an_unknown_key_is_not_found(void **state)
{
    struct world *w = *state;
    struct api_key k = { S("bf_1"), TENANT, "hash", S(""), S(""), NOW, 0, S("") }, read;
    assert_int_equal(put_key(w, &k), ERR_OK);
    assert_int_equal(reader_key(w->reader, S("bf_"), &w->arena, &read, NULL), ERR_NOT_FOUND);
    assert_int_equal(reader_key(w->reader, S("bf_11"), &w->arena, &read, NULL), ERR_NOT_FOUND);
}

static void a_removed_key_is_revoked_and_not_listed(void **state)
{
    struct world *w = *state;
    struct api_key k = { S("bf_1"), TENANT, "hash", S("laptop"), S("read"), NOW, 0, S("") }, read;
    struct op_key_put op = { .op.kind = OP_KEY_PUT, .key = &k, .remove = true, .now_ms = NOW + 7 };
    struct key_list list;
    assert_int_equal(world_apply(w, &op.op), ERR_NOT_FOUND);
    assert_int_equal(put_key(w, &k), ERR_OK);
    k.tenant = OTHER_TENANT;
    assert_int_equal(world_apply(w, &op.op), ERR_NOT_FOUND);
    k.tenant = TENANT;
    assert_int_equal(reader_key(w->reader, S("bf_1"), &w->arena, &read, NULL), ERR_OK);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(reader_key(w->reader, S("bf_1"), &w->arena, &read, NULL), ERR_OK);
    assert_int_equal(read.expires_ms, -(NOW + 7));
    assert_memory_equal(read.hash, k.hash, 32);
    assert_int_equal(reader_keys(w->reader, TENANT, &w->arena, &list, NULL), ERR_OK);
    assert_int_equal(list.n, 0);
    assert_int_equal(world_apply(w, &op.op), ERR_NOT_FOUND);
}

static void keys_of_a_tenant_are_listed_by_id(void **state)
{
    struct world *w = *state;
    static const char *const ids[] = { "c", "a", "bb", "b" };
    struct api_key k = { S(""), TENANT, "hash", S("name"), S("read"), NOW, NOW + 1, S("") };
    struct key_list list;
    struct error e = { 0 };
    assert_ok(reader_keys(w->reader, TENANT, &w->arena, &list, &e), &e);
    assert_int_equal(list.n, 0);
    for (size_t i = 0; i < array_count(ids); i++) {
        k.id = str_from(ids[i]);
        k.tenant = i == 0 ? OTHER_TENANT : TENANT;
        assert_int_equal(put_key(w, &k), ERR_OK);
    }
    assert_ok(reader_keys(w->reader, TENANT, &w->arena, &list, &e), &e);
    assert_int_equal(list.n, 3);
    assert_str(list.v[0].id, "a");
    assert_str(list.v[1].id, "b");
    assert_str(list.v[2].id, "bb");
    assert_str(list.v[2].name, "name");
    assert_str(list.v[2].scopes, "read");
    assert_memory_equal(list.v[2].hash, k.hash, 32);
    assert_int_equal(list.v[2].expires_ms, NOW + 1);
}

static void a_key_with_a_parent_is_found_and_not_listed(void **state)
{
    struct world *w = *state;
    struct api_key k = { S("s"), TENANT, "hash", S("session"), S("read"), NOW, NOW + 1, S("bf_1") }, read;
    struct key_list list;
    struct error e = { 0 };
    assert_int_equal(put_key(w, &k), ERR_OK);
    assert_ok(reader_key(w->reader, S("s"), &w->arena, &read, &e), &e);
    assert_str(read.parent, "bf_1");
    assert_ok(reader_keys(w->reader, TENANT, &w->arena, &list, &e), &e);
    assert_int_equal(list.n, 0);
}

static void a_new_key_with_a_parent_drops_those_that_ended_a_day_ago(void **state)
{
    const int64_t end_ms = NOW + 1000;
    const struct {
        const char *id, *parent;
        int64_t expires_ms;
        bool stays;
    } rows[] = {
        { "expired", "p", end_ms - 1, false }, { "revoked", "p", -(end_ms - 1), false },
        { "just", "p", end_ms, true },         { "revoked later", "p", -end_ms, true },
        { "key", "", end_ms - 1, true },
    };
    struct world *w = *state;
    struct api_key k = { S(""), TENANT, "hash", S("name"), S("read"), NOW, 0, S("") }, read;
    for (size_t i = 0; i < array_count(rows); i++) {
        k.id = str_from(rows[i].id);
        k.parent = str_from(rows[i].parent);
        k.expires_ms = rows[i].expires_ms;
        assert_int_equal(put_key(w, &k), ERR_OK);
    }
    k = (struct api_key){
        S("new"), TENANT, "hash", S("name"), S("read"), end_ms + KEY_ENDED_KEPT_MS, INT64_MAX, S("")
    };
    assert_int_equal(put_key(w, &k), ERR_OK); /* no parent: it drops none */
    assert_int_equal(reader_key(w->reader, S("expired"), &w->arena, &read, NULL), ERR_OK);
    k.parent = S("p");
    assert_int_equal(put_key(w, &k), ERR_OK);
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(reader_key(w->reader, str_from(rows[i].id), &w->arena, &read, NULL),
                         rows[i].stays ? ERR_OK : ERR_NOT_FOUND);
}

static void no_more_than_a_page_of_keys_is_listed(void **state)
{
    struct world *w = *state;
    struct key_list list;
    struct error e = { 0 };
    static char ids[LIST_MAX + 5][8];
    static struct api_key keys[LIST_MAX + 5];
    static struct op_key_put ops[LIST_MAX + 5];
    struct op *all[LIST_MAX + 5];
    for (size_t i = 0; i < array_count(ids); i++) {
        snprintf(ids[i], sizeof ids[i], "%zu", 10000 + i);
        keys[i] = (struct api_key){ .id = str_from(ids[i]), .tenant = TENANT, .created_ms = NOW };
        ops[i] = (struct op_key_put){ .op.kind = OP_KEY_PUT, .key = &keys[i] };
        all[i] = &ops[i].op;
    }
    assert_ok(store_apply(w->store, all, array_count(all), &e), &e);
    assert_ok(reader_keys(w->reader, TENANT, &w->arena, &list, &e), &e);
    assert_int_equal(list.n, LIST_MAX);
    assert_str(list.v[LIST_MAX - 1].id, "10999");
}

static bool take_lease(struct world *w, struct str name, struct uuid holder, int64_t now_ms)
{
    struct op_lease op = { .op.kind = OP_LEASE, .name = name, .holder = holder, .now_ms = now_ms, .ttl_ms = 100 };
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    return op.ret_held;
}

static void a_lease_has_one_holder_until_it_expires(void **state)
{
    struct world *w = *state;
    struct uuid a = fresh_id(w), b = fresh_id(w);
    assert_true(take_lease(w, S("leader"), a, NOW));
    assert_false(take_lease(w, S("leader"), b, NOW + 99));
    assert_true(take_lease(w, S("leader"), b, NOW + 100));
    assert_false(take_lease(w, S("leader"), a, NOW + 101));
}

static void a_holder_renews_its_lease(void **state)
{
    struct world *w = *state;
    struct uuid a = fresh_id(w), b = fresh_id(w);
    assert_true(take_lease(w, S("leader"), a, NOW));
    assert_true(take_lease(w, S("leader"), a, NOW + 50));
    assert_false(take_lease(w, S("leader"), b, NOW + 149));
    assert_true(take_lease(w, S("leader"), a, NOW + 500)); /* nobody took it meanwhile */
}

static void a_refused_lease_changes_nothing(void **state)
{
    struct world *w = *state;
    struct uuid a = fresh_id(w), b = fresh_id(w);
    assert_true(take_lease(w, S("leader"), a, NOW));
    assert_false(take_lease(w, S("leader"), b, NOW + 50));
    assert_true(take_lease(w, S("leader"), b, NOW + 100));
}

static void leases_of_other_names_are_others(void **state)
{
    struct world *w = *state;
    assert_true(take_lease(w, S("leader"), fresh_id(w), NOW));
    assert_true(take_lease(w, S("lead"), fresh_id(w), NOW));
}

static const struct CMUnitTest tests[] = {
    store_test(every_field_of_a_task_comes_back),
    store_test(what_was_inserted_is_copied_not_kept),
    store_test(a_repeated_insert_is_done_and_changes_nothing),
    store_test(an_insert_repeated_after_the_task_was_claimed_is_done),
    store_test(an_insert_that_conflicts_is_refused_whole),
    store_test(two_tasks_of_one_id_in_one_insert_conflict),
    store_test(one_bad_operation_among_many_fails_alone),
    store_test(operations_of_a_batch_see_those_before_them),
    store_test(an_operation_without_room_for_its_answer_leaves_no_trace),
    store_test(an_idempotency_record_comes_back),
    store_test(a_known_idempotency_key_conflicts_and_nothing_else_happens),
    store_test(an_idempotency_key_is_looked_at_before_the_id),
    store_test(a_refused_insert_keeps_no_idempotency_record),
    store_test(tenants_may_use_the_same_idempotency_key),
    store_test(a_key_comes_back_and_is_replaced_by_one_of_its_id),
    store_test(an_unknown_key_is_not_found),
    store_test(a_removed_key_is_revoked_and_not_listed),
    store_test(keys_of_a_tenant_are_listed_by_id),
    store_test(a_key_with_a_parent_is_found_and_not_listed),
    store_test(a_new_key_with_a_parent_drops_those_that_ended_a_day_ago),
    store_test(no_more_than_a_page_of_keys_is_listed),
    store_test(a_lease_has_one_holder_until_it_expires),
    store_test(a_holder_renews_its_lease),
    store_test(a_refused_lease_changes_nothing),
    store_test(leases_of_other_names_are_others),
};
const struct test_list insert_tests = { tests, array_count(tests) };
