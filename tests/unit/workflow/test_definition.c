#include "check.h"

#include "workflow/definition_errors.h"

static const struct task_context nothing;
static const int64_t now_ms = 1700000000000;

static struct dag *read_ok(const char *text)
{
    struct dag *d = NULL;
    struct error e;
    assert_ok(definition_read(str_from(text), &nothing, &d, &e), &e);
    return d;
}

#define A(members)    "{\"steps\":[{\"name\":\"a\"," members "}]}"
#define HTTP(members) A("\"target_config\":{\"url\":\"https://h/\"}," members)
#define NOOP          "\"target_type\":\"NOOP\""

static const struct {
    const char *text, *field, *says;
} refused[] = {
    { "{\"steps\":[{\"name\":\"a\"}]}", "steps[0].target_config", "is required" },
    { "{\"steps\":[{\"name\":\"a\"," NOOP "},{\"name\":\"b\"," NOOP ",\"retry\":{\"max_attempts\":0}}]}",
      "steps[1].retry.max_attempts", "must be" },
    { HTTP("\"priority\":10"), "steps[0].priority", "must be" },
    { HTTP("\"retry\":{\"tries\":1}"), "steps[0].retry.tries", "unknown" },
    { HTTP("\"queue\":\"a b\""), "steps[0].queue", "must consist of" },
    { HTTP("\"cron_expression\":\"* * * * *\""), "steps[0].cron_expression", "unknown" },
    { HTTP("\"dedupe_key\":\"k\""), "steps[0].dedupe_key", "unknown" },
    { HTTP("\"idempotency_key\":\"k\""), "steps[0].idempotency_key", "unknown" },
    { HTTP("\"run_at\":\"2030-01-01T00:00:00Z\""), "steps[0].run_at", "unknown" },
    { HTTP("\"depends_on\":[\"b\"]"), "steps[0].depends_on[0]", "no step is named 'b'" },
    { A("\"target_config\":{\"url\":\"ftp://h/\"}"), "steps[0].target_config.url", "http" },
    { A("\"target_config\":{\"url\":{\"$join\":[\"https://u@h/\",{\"$ref\":\"/input\"}]}}"),
      "steps[0].target_config.url", "user or password" },
    { A("\"target_config\":{\"url\":\"https://h/\",\"headers\":{\"Host\":\"x\"}}"),
      "steps[0].target_config.headers.Host", "" },
    { A("\"target_config\":{\"url\":\"https://h/\",\"headers\":{\"Host\":{\"$ref\":\"/input\"}}}"),
      "steps[0].target_config.headers.Host", "" },
    { A("\"target_config\":{\"url\":\"https://h/\",\"methd\":\"GET\"}"), "steps[0].target_config.methd", "unknown" },
    { A(NOOP ",\"compensate\":{}"), "steps[0].compensate.target_config", "is required" },
    { A(NOOP ",\"compensate\":{" NOOP ",\"priority\":-1}"), "steps[0].compensate.priority", "must be" },
    { A(NOOP ",\"compensate\":{\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"w\"}}"),
      "steps[0].compensate.target_type", "cannot be WORKFLOW" },
    { A("\"target_type\":\"WORKFLOW\""), "steps[0].target_config", "is required for a WORKFLOW" },
    { A("\"target_type\":\"WORKFLOW\",\"target_config\":{\"version\":1}"), "steps[0].target_config.workflow", "" },
    { A("\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"w\"},\"payload\":1"), "steps[0].payload",
      "input" },
    { A("\"target_type\":\"COMMAND\""), "steps[0].target_type", "not 'COMMAND'" },
    { A("\"await\":{\"signal\":\"s\"},\"timeout_ms\":5"), "steps[0].timeout_ms", "has no effect" },
    { A("\"await\":{\"signal\":\"s\"},\"retry\":{}"), "steps[0].retry", "has no effect" },
    { HTTP("\"metadata\":7"), "steps[0].metadata", "must be an object" },
    { HTTP("\"map\":{\"over\":7}"), "steps[0].map.over", "must be an array, or a reference" },
    { HTTP("\"map\":{\"over\":{\"$join\":[\"a\"]}}"), "steps[0].map.over", "must be an array" },
    { HTTP("\"map\":{\"over\":{\"$literal\":{}}}"), "steps[0].map.over.$literal", "must be an array" },
    { HTTP("\"map\":{\"over\":{\"$ref\":\"/input\",\"default\":1}}"), "steps[0].map.over.default", "must be an array" },
    { "[", "", "" },
};

static void the_items_of_a_literal_map_are_counted(void **state)
{
    (void)state;
    struct buf b;
    struct dag *d = NULL;
    struct error e = { 0 };
    buf_init(&b, 1 << 20);
    buf_text(&b, "{\"steps\":[{\"name\":\"a\"," NOOP ",\"map\":{\"over\":[0");
    for (int i = 0; i < DAG_ITEMS_MAX; i++)
        buf_text(&b, ",1");
    buf_text(&b, "]}}]}");
    assert_int_equal(definition_read(buf_str(&b), &nothing, &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "steps[0].map.over");
    assert_says(&e, "has 10001 items; a map has at most 10000");
    buf_release(&b);
}

/* ---- all errors ---- */

#define STEP(name, more) "{\"name\":\"" name "\"," more "}"
static const struct {
    const char *text;
    const char *fields[8];
} all_errors[] = {
    { "[", { "" } },
    { "{\"steps\":[]}", { "steps" } },
    { "{\"stps\":[" STEP("a", NOOP) "]}", { "stps" } },
    /* of different kinds, in the order in which they are looked for */
    { "{\"steps\":[" STEP("a", NOOP ",\"retry\":{\"max_attempts\":0},\"priority\":10") "," STEP("b", NOOP ",\"depends_on\":[\"x\",\"a\",\"y\"]") "," STEP(
          "c", NOOP
          ",\"jion\":\"ANY\"") "," STEP("d",
                                        "\"target_config\":{\"url\":\"ftp://h/\",\"body\":{\"p\":{\"$reff\":1},\"q\":{\"$ref\":\"/run/x\"}}}") "]}",
      { "steps[2].jion", "steps[1].depends_on[0]", "steps[1].depends_on[2]", "steps[3].target_config.body.p.$reff",
        "steps[3].target_config.body.q.$ref", "steps[0].priority", "steps[0].retry.max_attempts",
        "steps[3].target_config.url" } },
    /* a proposal is taken, so that what follows from the mistake is not listed */
    { "{\"steps\":[" STEP("extract", NOOP) "," STEP(
          "b", NOOP ",\"depends_on\":[\"extrct\"],\"payload\":{\"$ref\":\"/steps/extract/output\"}") "]}",
      { "steps[1].depends_on[0]" } },
    { "{\"steps\":[" STEP("-a", NOOP) "," STEP("b", NOOP ",\"depends_on\":[\"-a\"]") "," STEP("b", NOOP) "]}",
      { "steps[0].name", "steps[2].name" } },
    { "{\"steps\":[" STEP("a", NOOP ",\"depends_on\":[\"b\"],\"join\":\"ANY\"") "," STEP(
          "b", NOOP ",\"depends_on\":[\"a\"]") "],\"result\":{\"$ref\":\"/steps/c/output\"}}",
      { "steps[1].depends_on[0]", "result.$ref" } },
    /* a step without a name */
    { "{\"steps\":[{" NOOP ",\"priority\":10}," STEP("b", NOOP ",\"depends_on\":[\"x\"]") "]}",
      { "steps[0].name", "steps[1].depends_on[0]", "steps[0].priority" } },
    { "{\"steps\":[" STEP("a", "\"await\":{\"timeout\":\"x\"}") "," STEP("b", "\"target_type\":\"WORKFLOW\"") "]}",
      { "steps[0].await.signal", "steps[1].target_config" } },
};

static void errors_that_follow_from_others_are_not_listed(void **state)
{
    (void)state;
    struct dag *d = NULL;
    struct definition_errors errors;
    static const char *const texts[] = {
        A("\"await\":{\"signal\":\"s\",\"timeout\":\"0s\",\"on_timeout\":1}"),
        A(NOOP ",\"concurrency_key\":\"\",\"concurrency_limit\":2"),
        A("\"target_config\":{\"url\":\"ftp://h/\"},\"target_type\":\"HTTP_CALLBACK\""),
    };
    for (size_t i = 0; i < array_count(texts); i++) {
        assert_int_equal(definition_read_all(str_from(texts[i]), &nothing, &d, &errors), ERR_INVALID);
        if (errors.n != 1)
            fail_msg("%s: '%s' is listed, too: %s", texts[i], errors.v[1].field, errors.v[1].text);
    }
}

static void all_errors_come_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(all_errors); i++) {
        struct dag *d = NULL;
        struct definition_errors errors;
        size_t n = 0;
        assert_int_not_equal(definition_read_all(str_from(all_errors[i].text), &nothing, &d, &errors), ERR_OK);
        while (n < array_count(all_errors[i].fields) && all_errors[i].fields[n])
            n++;
        for (size_t k = 0; k < errors.n; k++)
            if (k >= n || strcmp(errors.v[k].field, all_errors[i].fields[k]) != 0)
                fail_msg("%s: error %zu is '%s': %s", all_errors[i].text, k, errors.v[k].field, errors.v[k].text);
        assert_int_equal(errors.n, n);
    }
}

static void the_search_for_errors_of_a_hostile_text_ends(void **state)
{
    (void)state;
    struct dag *d = NULL;
    struct definition_errors errors;
    struct buf b;
    buf_init(&b, 2 << 20);
    buf_text(&b, "{\"steps\":[{\"name\":\"a\"");
    for (int i = 0; i < 60000; i++)
        buf_printf(&b, ",\"unknown%d\":1", i);
    buf_text(&b, "}]}");
    assert_int_equal(definition_read_all(buf_str(&b), &nothing, &d, &errors), ERR_INVALID);
    assert_true(errors.n > 0 && errors.n <= 20);
    buf_release(&b);
}

static void every_mistake_is_named_by_its_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(refused); i++) {
        struct dag *d = NULL;
        struct error e = { 0 };
        if (definition_read(str_from(refused[i].text), &nothing, &d, &e) == ERR_OK)
            fail_msg("accepted: %s", refused[i].text);
        assert_null(d);
        if (strcmp(e.field, refused[i].field) != 0)
            fail_msg("%s: field '%s', not '%s': %s", refused[i].text, e.field, refused[i].field, e.text);
        assert_says(&e, refused[i].says);
        assert_int_equal(definition_read(str_from(refused[i].text), &nothing, &d, NULL), e.code);
    }
}

static void the_limit_of_a_tenant_counts_for_each_step(void **state)
{
    (void)state;
    struct dag *d = NULL;
    struct error e = { 0 };
    const struct task_context c = { .payload_bytes = 30 };
    const char *text = A(NOOP ",\"payload\":\"0123456789012345678901234567890123456789\"");
    assert_int_equal(definition_read(str_from(text), &c, &d, &e), ERR_LIMIT);
    assert_string_equal(e.field, "steps[0].payload_bytes");
}

static struct run_facts facts(void)
{
    struct run_facts f = { .tenant = 7, .queue = S("q"), .priority = 8 };
    assert_true(uuid_parse(S("0190aaaa-0000-7000-8000-000000000001"), &f.id));
    return f;
}

static struct task step_of(const struct dag *d, uint32_t step, struct arena *a)
{
    struct run_facts f = facts();
    struct task t;
    struct error e;
    assert_ok(definition_step_task(d, step, &f, now_ms, a, &t, &e), &e);
    assert_true(uuid_eq(t.run, f.id) && uuid_eq(t.id, place_id(f.id, place_of_step(step))));
    assert_int_equal(t.place, place_of_step(step));
    assert_int_equal(t.tenant, 7);
    assert_int_equal(t.kind, TASK_ONE_TIME);
    assert_int_equal(t.state, TASK_SCHEDULED);
    return t;
}

static const char *const example =
    "{\"steps\":["
    "{\"name\":\"plain\",\"target_config\":{\"url\":\"https://h/x\",\"body\":{\"a\": 1}},\"timeout_ms\":5000,\"delay\":\"2s\"},"
    "{\"name\":\"refers\",\"queue\":\"own\",\"priority\":1,\"depends_on\":[\"plain\"],"
    "\"target_config\":{\"url\":{\"$join\":[\"https://h/\",{\"$ref\":\"/input/id\"}]},"
    "\"headers\":{\"X-A\":{\"$ref\":\"/input/a\"}},\"body\":{\"$ref\":\"/steps/plain/output\"}},"
    "\"compensate\":{\"target_config\":{\"url\":\"https://h/undo\",\"body\":{\"$ref\":\"/output\"}}}},"
    "{\"name\":\"asks\",\"target_type\":\"NOOP\",\"when\":{\"ref\":\"/input/a\",\"op\":\"exists\"},"
    "\"compensate\":{\"target_type\":\"NOOP\",\"payload\":[1]}},"
    "{\"name\":\"waits\",\"await\":{\"signal\":\"go\"}},"
    "{\"name\":\"many\",\"target_type\":\"WORKER\",\"payload\":{\"$ref\":\"/item\"},\"retry\":{\"max_attempts\":3},"
    "\"map\":{\"over\":{\"$ref\":\"/input/all\"},\"max_concurrent\":4}},"
    "{\"name\":\"sub\",\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"w\",\"input\":{\"$ref\":\"/input\"}}}],"
    "\"result\":{\"$ref\":\"/steps/many/output\"}}";

static void ordinary_steps_carry_what_they_call_unless_it_refers_to_data(void **state)
{
    (void)state;
    struct dag *d = read_ok(example);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = step_of(d, 0, &a);
    assert_int_equal(t.links, TASK_KEEPS_OUTPUT);
    assert_str(t.target_config, "{\"url\":\"https://h/x\",\"body\":{\"a\": 1}}");
    assert_int_equal(t.timeout_ms, 5000);
    assert_int_equal(t.due_ms, now_ms + 2000);
    assert_str(t.queue, "q");
    assert_int_equal(t.priority, 8);
    assert_int_equal(t.retry.max_attempts, 5);
    t = step_of(d, 1, &a);
    assert_true(t.links & TASK_PLANNED);
    assert_int_equal(t.target, TARGET_HTTP);
    assert_int_equal(t.target_config.n, 0);
    assert_str(t.queue, "own");
    assert_int_equal(t.priority, 1);
    t = step_of(d, 2, &a);
    assert_int_equal(t.links, TASK_PLANNED);
    dag_free(d);
}

static void control_steps_are_of_target_workflow(void **state)
{
    (void)state;
    struct dag *d = read_ok(example);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    for (uint32_t step = 3; step < 6; step++) {
        struct task t = step_of(d, step, &a);
        assert_int_equal(t.target, TARGET_WORKFLOW);
        assert_int_equal(t.retry.max_attempts, 1);
        assert_int_equal(t.target_config.n + t.payload.n, 0);
        assert_int_equal(t.links, step == 5 ? TASK_KEEPS_OUTPUT : 0);
        assert_true(definition_is_control(&d->steps[step]));
    }
    assert_false(definition_is_control(&d->steps[0]));
    dag_free(d);
}

static void items_and_compensations_have_rows_of_their_own(void **state)
{
    (void)state;
    struct dag *d = read_ok(example);
    struct run_facts f = facts();
    struct task t;
    struct error e;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    assert_ok(definition_item_task(d, 4, &f, now_ms, &a, &t, &e), &e);
    assert_int_equal(t.target, TARGET_WORKER);
    assert_int_equal(t.links, TASK_PLANNED | TASK_KEEPS_OUTPUT);
    assert_int_equal(t.retry.max_attempts, 3);
    assert_str(t.concurrency_key, "map:0190aaaa-0000-7000-8000-000000000001/many");
    assert_int_equal(t.concurrency_limit, 4);
    definition_move_task(&t, place_of_item(4, 9));
    assert_true(uuid_eq(t.id, place_id(f.id, place_of_item(4, 9))));
    assert_ok(definition_undo_task(d, 1, -1, &f, now_ms, &a, &t, &e), &e);
    assert_int_equal(t.place, place_of_undo(1, -1));
    assert_int_equal(t.links, TASK_PLANNED);
    assert_int_equal(t.target_config.n, 0);
    assert_ok(definition_undo_task(d, 2, -1, &f, now_ms, &a, &t, &e), &e);
    assert_int_equal(t.links, 0);
    assert_str(t.payload, "[1]");
    assert_str(t.queue, "q");
    dag_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_named_by_its_path),
        cmocka_unit_test(the_items_of_a_literal_map_are_counted),
        cmocka_unit_test(all_errors_come_at_once),
        cmocka_unit_test(the_search_for_errors_of_a_hostile_text_ends),
        cmocka_unit_test(errors_that_follow_from_others_are_not_listed),
        cmocka_unit_test(the_limit_of_a_tenant_counts_for_each_step),
        cmocka_unit_test(ordinary_steps_carry_what_they_call_unless_it_refers_to_data),
        cmocka_unit_test(control_steps_are_of_target_workflow),
        cmocka_unit_test(items_and_compensations_have_rows_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
