/* reader_causes: dead letters in groups. */
#include "store_world.h"

static struct task dead_letter(struct world *w, const char *cause, int64_t failed_ms)
{
    struct task t = some_task(w);
    t.state = TASK_FAILED;
    t.attempts = 1;
    t.cause = str_from(cause);
    t.completed_ms = failed_ms;
    t.last_error = S("HTTP 500");
    return t;
}

static struct cause_groups causes(struct world *w, int32_t tenant, size_t max)
{
    struct cause_groups g = { 0 };
    struct error e = { 0 };
    assert_ok(reader_causes(w->reader, tenant, max, &w->arena, &g, &e), &e);
    return g;
}

static void dead_letters_are_grouped_by_their_cause(void **state)
{
    struct world *w = *state;
    struct task v[] = { dead_letter(w, "bb", NOW + 5), dead_letter(w, "bb", NOW + 1), dead_letter(w, "bb", NOW + 3),
                        dead_letter(w, "aa", NOW),     dead_letter(w, "cc", NOW),     dead_letter(w, "", NOW) };
    v[0].last_error = S("HTTP 503");
    insert(w, v, array_count(v));
    struct cause_groups g = causes(w, TENANT, 10);
    assert_int_equal(g.n, 4);
    assert_str(g.v[0].cause, "bb");
    assert_int_equal(g.v[0].count, 3);
    assert_int_equal(g.v[0].first_failed_ms, NOW + 1);
    assert_int_equal(g.v[0].last_failed_ms, NOW + 5);
    assert_true(uuid_eq(g.v[0].latest, v[0].id)); /* created first, failed last */
    assert_str(g.v[0].last_error, "HTTP 503");
    assert_str(g.v[1].cause, ""); /* as many as the next two, so by cause */
    assert_str(g.v[2].cause, "aa");
    assert_str(g.v[3].cause, "cc");
    g = causes(w, TENANT, 2);
    assert_int_equal(g.n, 2);
    assert_str(g.v[1].cause, "");
}

static void only_dead_letters_that_are_not_resolved_are_grouped(void **state)
{
    struct world *w = *state;
    struct task v[] = { dead_letter(w, "a", NOW), dead_letter(w, "a", NOW), dead_letter(w, "a", NOW),
                        dead_letter(w, "a", NOW), dead_letter(w, "a", NOW) };
    v[1].resolved_ms = NOW;
    v[2].deleted = true;
    v[3].tenant = OTHER_TENANT;
    v[4].state = TASK_COMPLETED;
    insert(w, v, array_count(v));
    struct cause_groups g = causes(w, TENANT, 10);
    assert_int_equal(g.n, 1);
    assert_int_equal(g.v[0].count, 1);
    assert_true(uuid_eq(g.v[0].latest, v[0].id));
    assert_int_equal(causes(w, 3, 10).n, 0);
}

static void a_group_follows_what_becomes_of_its_tasks(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_FAILED);
    memcpy(v.verdict.cause.text, "0123456789abcdef", FINGERPRINT_TEXT);
    v.verdict.last_error = S("refused");
    assert_true(settle_with(w, &v));
    struct cause_groups g = causes(w, TENANT, 10);
    assert_int_equal(g.n, 1);
    assert_str(g.v[0].cause, "0123456789abcdef");
    assert_str(g.v[0].last_error, "refused");
    assert_int_equal(g.v[0].first_failed_ms, NOW + 10);
    struct task failed = get(w, t.id), resolved = failed;
    resolved.version++;
    resolved.resolved_ms = NOW + 20;
    struct op_put put = put_of(&failed, &resolved);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(causes(w, TENANT, 10).n, 0);
}

static const struct CMUnitTest tests[] = {
    store_test(dead_letters_are_grouped_by_their_cause),
    store_test(only_dead_letters_that_are_not_resolved_are_grouped),
    store_test(a_group_follows_what_becomes_of_its_tasks),
};
const struct test_list causes_tests = { tests, array_count(tests) };
