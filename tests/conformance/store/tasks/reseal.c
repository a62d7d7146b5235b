/* OP_RESEAL, reader_sealed_page, reader_definitions: secrets get another key while everything else stays. */
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

/* ---- definitions ---- */

#define STEPS(key) "{\"steps\":[{\"target_config\":{\"headers\":{\"Cookie\":\"enc:1:" key ":AAAA\"}}}]}"

static void store_definition(struct world *w, const struct definition *d)
{
    struct op_define op = {
        .op.kind = OP_DEFINE, .definition = d, .tenant = d->tenant, .name = S("etl"), .now_ms = NOW
    };
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static size_t reseal_definition(struct world *w, const struct definition *d, const char *becomes)
{
    struct resealed_definition v = { d, str_from(becomes) };
    struct op_reseal op = { .op.kind = OP_RESEAL, .definitions = &v, .definition_count = 1 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_changed;
}

static struct str text_of(struct world *w, const struct definition *d)
{
    struct str text = { 0 };
    struct error e = { 0 };
    assert_ok(reader_definition(w->reader, d->tenant, d->hash, &w->arena, &text, &e), &e);
    return text;
}

static void the_text_of_a_definition_is_replaced_and_its_version_stays(void **state) /* OP_RESEAL 3 */
{
    struct world *w = *state;
    struct definition d = { TENANT, { 5 }, S(STEPS("aaaaaaaa")) }, edited = { TENANT, { 5 }, S("{}") },
                      other = { OTHER_TENANT, { 5 }, S(STEPS("aaaaaaaa")) };
    store_definition(w, &d);
    assert_int_equal(reseal_definition(w, &edited, "{\"a\":1}"), 0);
    assert_int_equal(reseal_definition(w, &other, "{\"a\":1}"), 0);
    assert_str(text_of(w, &d), STEPS("aaaaaaaa"));
    assert_int_equal(reseal_definition(w, &d, STEPS("bbbbbbbb")), 1);
    assert_str(text_of(w, &d), STEPS("bbbbbbbb"));
    struct workflow_row row;
    assert_int_equal(reader_workflow(w->reader, TENANT, S("etl"), 0, &w->arena, &row, NULL), ERR_OK);
    assert_true(row.version == 1 && row.hash[0] == 5);
    store_definition(w, &d); /* its hash is known: nothing is stored */
    assert_str(text_of(w, &d), STEPS("bbbbbbbb"));
}

static void definitions_of_all_tenants_are_read_page_by_page(void **state)
{
    struct world *w = *state;
    struct definition v[] = { { TENANT, { 2 }, S("{\"a\":2}") },
                              { TENANT, { 1 }, S("{\"a\":1}") },
                              { OTHER_TENANT, { 1 }, S("{\"b\":1}") },
                              { TENANT, { 200 }, S("{\"a\":200}") } };
    static const size_t in_order[] = { 1, 0, 3, 2 };
    struct definition_page page = { 0 };
    struct error e = { 0 };
    for (size_t i = 0; i < array_count(v); i++)
        store_definition(w, &v[i]);
    for (size_t i = 0; i < array_count(v); i++) {
        assert_true(i == 0 || page.more);
        assert_ok(reader_definitions(w->reader, &page.next_after, 1, &w->arena, &page, &e), &e);
        assert_true(page.n == 1 && definition_cmp(&page.v[0], &v[in_order[i]]) == 0);
        assert_true(str_eq(page.v[0].text, v[in_order[i]].text));
    }
    assert_ok(reader_definitions(w->reader, &page.next_after, 1, &w->arena, &page, &e), &e);
    assert_true(page.n == 0 && !page.more);
    assert_ok(reader_definitions(w->reader, &(struct definition){ 0 }, 10, &w->arena, &page, &e), &e);
    assert_true(page.n == 4 && !page.more);
}

static bool is_sealed_with(struct world *w, const char *key_id)
{
    bool sealed = false;
    struct error e = { 0 };
    assert_ok(reader_sealed(w->reader, str_from(key_id), &sealed, &e), &e);
    return sealed;
}

static void a_definition_needs_its_key(void **state)
{
    struct world *w = *state;
    struct definition d = { TENANT, { 5 }, S(STEPS("aaaaaaaa")) };
    assert_false(is_sealed_with(w, ""));
    store_definition(w, &d);
    assert_true(is_sealed_with(w, "aaaaaaaa") && is_sealed_with(w, ""));
    assert_false(is_sealed_with(w, "bbbbbbbb"));
    assert_int_equal(reseal_definition(w, &d, STEPS("bbbbbbbb")), 1);
    assert_true(is_sealed_with(w, "bbbbbbbb"));
    assert_false(is_sealed_with(w, "aaaaaaaa"));
}

static const struct CMUnitTest tests[] = {
    store_test(a_configuration_is_replaced_and_the_version_stays),
    store_test(one_that_was_edited_meanwhile_stays),
    store_test(one_that_runs_stays),
    store_test(tasks_of_other_keys_are_found_page_by_page),
    store_test(the_text_of_a_definition_is_replaced_and_its_version_stays),
    store_test(definitions_of_all_tenants_are_read_page_by_page),
    store_test(a_definition_needs_its_key),
};
const struct test_list reseal_tests = { tests, array_count(tests) };
