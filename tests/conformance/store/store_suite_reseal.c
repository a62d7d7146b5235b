/* OP_RESEAL and reader_sealed_page: secrets get another key while everything else of a task stays. */
#include "store_world.h"

#define OLD "{\"headers\":{\"Cookie\":\"enc:1:aaaaaaaa:AAAA\"}}"
#define NEW "{\"headers\":{\"Cookie\":\"enc:1:bbbbbbbb:BBBB\"}}"

static struct task sealed_task(struct world *w, const char *config)
{
    struct task t = some_task(w);
    t.target_config = str_from(config);
    return t;
}

static size_t reseal(struct world *w, struct uuid id, const char *was, const char *becomes)
{
    struct resealed v = { id, str_from(was), str_from(becomes) };
    struct op_reseal op = { .op.kind = OP_RESEAL, .v = &v, .n = 1 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_changed;
}

static void a_configuration_is_replaced_and_the_version_stays(void **state) /* OP_RESEAL 1 */
{
    struct world *w = *state;
    struct task t = sealed_task(w, OLD);
    insert(w, &t, 1);
    struct task before = get(w, t.id);
    assert_int_equal(reseal(w, t.id, OLD, NEW), 1);
    struct task after = get(w, t.id);
    assert_str(after.target_config, NEW);
    assert_true(after.version == before.version && after.updated_ms == before.updated_ms);
    assert_true(after.state == before.state && after.due_ms == before.due_ms);
}

static void one_that_was_edited_meanwhile_stays(void **state) /* OP_RESEAL 2 */
{
    struct world *w = *state;
    struct task t = sealed_task(w, "{\"url\":\"http://a.example\"}");
    insert(w, &t, 1);
    assert_int_equal(reseal(w, t.id, OLD, NEW), 0);
    assert_int_equal(reseal(w, fresh_id(w), OLD, NEW), 0);
    assert_str(get(w, t.id).target_config, "{\"url\":\"http://a.example\"}");
}

static void one_that_runs_stays(void **state) /* OP_RESEAL 2 */
{
    struct world *w = *state;
    struct task t = sealed_task(w, OLD);
    struct task claimed = claim_one(w, &t, fresh_id(w));
    assert_int_equal(reseal(w, claimed.id, OLD, NEW), 0);
    assert_str(get(w, t.id).target_config, OLD);
}

static struct sealed_page sealed_after(struct world *w, struct uuid after, size_t max)
{
    struct sealed_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_sealed_page(w->reader, S("bbbbbbbb"), after, max, &w->arena, &page, &e), &e);
    return page;
}

static void tasks_of_other_keys_are_found_page_by_page(void **state)
{
    struct world *w = *state;
    struct task v[5];
    const char *configs[] = { OLD, NEW, "{}", OLD,
                              "{\"headers\":{\"A-Key\":\"enc:1:bbbbbbbb:B\",\"Cookie\":\"enc:1:aaaaaaaa:A\"}}" };
    for (size_t i = 0; i < array_count(v); i++)
        v[i] = sealed_task(w, configs[i]);
    v[3].deleted = true;
    insert(w, v, array_count(v));
    struct sealed_page first = sealed_after(w, (struct uuid){ 0 }, 3);
    assert_ids(&first.tasks, (const struct uuid *const[]){ &v[0].id }, 1);
    assert_true(first.more && uuid_eq(first.next_after, v[2].id));
    assert_true(first.tasks.v[0].tenant == v[0].tenant && first.tasks.v[0].state == TASK_SCHEDULED);
    assert_str(first.tasks.v[0].target_config, OLD);
    struct sealed_page rest = sealed_after(w, first.next_after, 3);
    assert_ids(&rest.tasks, (const struct uuid *const[]){ &v[3].id, &v[4].id }, 2);
    assert_false(rest.more);
    assert_int_equal(sealed_after(w, v[4].id, 3).tasks.n, 0);
}

static const struct CMUnitTest tests[] = {
    store_test(a_configuration_is_replaced_and_the_version_stays),
    store_test(one_that_was_edited_meanwhile_stays),
    store_test(one_that_runs_stays),
    store_test(tasks_of_other_keys_are_found_page_by_page),
};
const struct test_list reseal_tests = { tests, array_count(tests) };
