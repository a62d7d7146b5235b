/* Dedupe keys: OP_INSERT's conflict, takes_over, and reader_dedupe. */
#include "store_world.h"

enum { WINDOW = 1000 };

static struct task keyed(struct world *w, const char *key, int64_t created_ms)
{
    struct task t = some_task(w);
    t.dedupe_key = str_from(key);
    t.dedupe_window_ms = WINDOW;
    t.created_ms = t.updated_ms = created_ms;
    return t;
}

static void refused(struct world *w, const struct task *t)
{
    struct op_insert op = insert_of(t, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "dedupe_key");
    assert_false(is_there(w, t->tenant, t->id));
}

static bool is_held_by(struct world *w, const char *key, int64_t now_ms, struct uuid id)
{
    struct uuid holder;
    enum err rc = reader_dedupe(w->reader, TENANT, str_from(key), now_ms, &holder, NULL);
    assert_true(rc == ERR_OK || rc == ERR_NOT_FOUND);
    return rc == ERR_OK && uuid_eq(holder, id);
}

static bool is_free(struct world *w, const char *key, int64_t now_ms)
{
    struct uuid holder;
    return reader_dedupe(w->reader, TENANT, str_from(key), now_ms, &holder, NULL) == ERR_NOT_FOUND;
}

static void a_second_task_with_a_dedupe_key_is_refused_within_its_window(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), last = keyed(w, "k", NOW + WINDOW - 1), next = keyed(w, "k", NOW + WINDOW);
    insert(w, &first, 1);
    refused(w, &last);
    assert_true(is_held_by(w, "k", NOW, first.id));
    assert_true(is_held_by(w, "k", NOW + WINDOW - 1, first.id));
    assert_true(is_free(w, "k", NOW + WINDOW));
    insert(w, &next, 1);
    assert_true(is_held_by(w, "k", NOW + WINDOW, next.id));
}

static void the_window_is_that_of_the_first(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), second = keyed(w, "k", NOW + 10);
    first.dedupe_window_ms = 10;
    insert(w, &first, 1);
    insert(w, &second, 1);
    assert_true(is_held_by(w, "k", NOW + 9 + WINDOW, second.id));
    assert_true(is_free(w, "k", NOW + 10 + WINDOW));
}

static void other_keys_tenants_and_tasks_without_a_key_do_not_meet(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed(w, "k", NOW), keyed(w, "kk", NOW), keyed(w, "k", NOW), some_task(w), some_task(w) };
    v[2].tenant = OTHER_TENANT;
    insert(w, v, array_count(v));
    assert_true(is_held_by(w, "k", NOW, v[0].id));
    assert_true(is_held_by(w, "kk", NOW, v[1].id));
    assert_true(is_free(w, "kkk", NOW));
    assert_true(is_free(w, "", NOW));
    struct uuid holder;
    assert_int_equal(reader_dedupe(w->reader, OTHER_TENANT, S("k"), NOW, &holder, NULL), ERR_OK);
    assert_true(uuid_eq(holder, v[2].id));
}

static void two_tasks_of_one_insert_do_not_share_a_dedupe_key(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed(w, "other", NOW), keyed(w, "k", NOW), keyed(w, "k", NOW) };
    struct idempotency i = some_idempotency(), read;
    struct op_insert op = insert_of(v, array_count(v));
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "dedupe_key");
    for (size_t n = 0; n < array_count(v); n++)
        assert_false(is_there(w, TENANT, v[n].id));
    assert_true(is_free(w, "other", NOW) && is_free(w, "k", NOW));
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
    insert(w, v, 2);
}

static void two_inserts_of_one_batch_with_a_dedupe_key_fail_apart(void **state)
{
    struct world *w = *state;
    struct task a = keyed(w, "k", NOW), b = keyed(w, "k", NOW), c = keyed(w, "c", NOW);
    struct op_insert ops[] = { insert_of(&a, 1), insert_of(&b, 1), insert_of(&c, 1) };
    world_apply_all(w, (struct op *[]){ &ops[0].op, &ops[1].op, &ops[2].op }, 3);
    assert_int_equal(ops[0].op.rc, ERR_OK);
    assert_int_equal(ops[1].op.rc, ERR_CONFLICT);
    assert_string_equal(ops[1].op.error.field, "dedupe_key");
    assert_int_equal(ops[2].op.rc, ERR_OK);
    assert_true(is_held_by(w, "k", NOW, a.id));
    assert_false(is_there(w, TENANT, b.id));
    assert_true(is_there(w, TENANT, c.id));
}

static void who_takes_over_gets_the_key_all_the_same(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), v[] = { keyed(w, "k", NOW + 10), keyed(w, "k", NOW + 20) };
    insert(w, &first, 1);
    struct op_insert op = insert_of(v, 2);
    op.takes_over = (const struct uuid[]){ first.id, v[0].id };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(is_held_by(w, "k", NOW + 20, v[1].id)); /* the last of them */
    assert_true(is_there(w, TENANT, first.id));
    assert_true(is_free(w, "k", NOW + 20 + WINDOW));
}

static void a_key_is_taken_over_from_whom_was_named_and_nobody_else(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), heir = keyed(w, "k", NOW + 10), other = keyed(w, "k", NOW + 20);
    insert(w, &first, 1);
    struct op_insert op = insert_of(&heir, 1), late = insert_of(&other, 1);
    op.takes_over = late.takes_over = &first.id; /* both have seen the first */
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(world_apply(w, &late.op), ERR_CONFLICT);
    assert_string_equal(late.op.error.field, "dedupe_key");
    assert_true(is_held_by(w, "k", NOW + 20, heir.id));
    assert_false(is_there(w, TENANT, other.id));
    struct op_insert nobody = insert_of(&other, 1);
    nobody.takes_over = &(struct uuid){ 0 };
    assert_int_equal(world_apply(w, &nobody.op), ERR_CONFLICT);
}

static void a_repeated_insert_does_not_take_its_key_again(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), second = keyed(w, "k", NOW + 1);
    insert(w, &first, 1);
    insert(w, &first, 1);
    struct op_insert over = insert_of(&second, 1);
    over.takes_over = &first.id;
    assert_ok(world_apply(w, &over.op), &over.op.error);
    insert(w, &first, 1); /* the answer to it was lost, and it comes again: it is done */
    assert_true(is_held_by(w, "k", NOW + 1, second.id));
}

static void the_key_of_a_deleted_task_is_free(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), second = keyed(w, "k", NOW + 1), gone = first;
    insert(w, &first, 1);
    gone.state = TASK_CANCELLED;
    gone.deleted = true;
    gone.completed_ms = NOW;
    struct op_put put = put_of(&first, &gone);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_true(is_free(w, "k", NOW + 1));
    insert(w, &second, 1);
    assert_true(is_held_by(w, "k", NOW + 1, second.id));
}

static void the_key_of_a_forgotten_task_is_free(void **state)
{
    struct world *w = *state;
    struct task first = keyed(w, "k", NOW), second = keyed(w, "k", NOW + 1);
    first.state = TASK_COMPLETED;
    first.completed_ms = NOW;
    insert(w, &first, 1);
    assert_true(is_held_by(w, "k", NOW, first.id)); /* that it is over does not matter */
    struct op_purge forget = { .op.kind = OP_PURGE, .tasks_before_ms = NOW + 1, .max = 10 };
    assert_int_equal(world_apply(w, &forget.op), ERR_OK);
    assert_true(is_free(w, "k", NOW + 1));
    insert(w, &second, 1);
}

static void an_occurrence_takes_no_dedupe_key(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w);
    parent.dedupe_key = S("k");
    parent.dedupe_window_ms = WINDOW;
    parent.created_ms = NOW;
    insert(w, &parent, 1);
    struct task occurrence = some_occurrence(w, &parent, NOW);
    occurrence.dedupe_key = S("k");
    occurrence.created_ms = NOW;
    insert(w, &occurrence, 1);
    assert_true(is_held_by(w, "k", NOW, parent.id));
}

static void what_comes_in_with_a_put_takes_its_key_as_an_insert_does(void **state)
{
    struct world *w = *state;
    struct task holder = keyed(w, "k", NOW), t = some_task(w), next = t, also = keyed(w, "k", NOW + 1);
    struct task both[] = { holder, t };
    insert(w, both, 2);
    next.version++;
    struct op_put put = put_of(&t, &next);
    put.also = &also;
    assert_int_equal(world_apply(w, &put.op), ERR_CONFLICT);
    assert_string_equal(put.op.error.field, "dedupe_key");
    assert_int_equal(get(w, t.id).version, 1);
    also.created_ms = NOW + WINDOW;
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_true(is_held_by(w, "k", NOW + WINDOW, also.id));
}

static void a_put_that_deletes_the_holder_frees_its_key_for_what_comes_with_it(void **state)
{
    struct world *w = *state;
    struct task holder = keyed(w, "k", NOW), gone = holder, also = keyed(w, "k", NOW + 1);
    insert(w, &holder, 1);
    gone.state = TASK_CANCELLED;
    gone.deleted = true;
    gone.completed_ms = NOW;
    struct op_put put = put_of(&holder, &gone);
    put.also = &also;
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_true(is_held_by(w, "k", NOW + 1, also.id));
}

static const struct CMUnitTest tests[] = {
    store_test(a_second_task_with_a_dedupe_key_is_refused_within_its_window),
    store_test(the_window_is_that_of_the_first),
    store_test(other_keys_tenants_and_tasks_without_a_key_do_not_meet),
    store_test(two_tasks_of_one_insert_do_not_share_a_dedupe_key),
    store_test(two_inserts_of_one_batch_with_a_dedupe_key_fail_apart),
    store_test(who_takes_over_gets_the_key_all_the_same),
    store_test(a_key_is_taken_over_from_whom_was_named_and_nobody_else),
    store_test(a_repeated_insert_does_not_take_its_key_again),
    store_test(the_key_of_a_deleted_task_is_free),
    store_test(the_key_of_a_forgotten_task_is_free),
    store_test(an_occurrence_takes_no_dedupe_key),
    store_test(what_comes_in_with_a_put_takes_its_key_as_an_insert_does),
    store_test(a_put_that_deletes_the_holder_frees_its_key_for_what_comes_with_it),
};
const struct test_list dedupe_tests = { tests, array_count(tests) };
