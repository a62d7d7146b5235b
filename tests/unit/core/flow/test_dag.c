#include "check.h"

#include "base/buf.h"
#include "core/flow/dag.h"

static struct dag *read_ok(const char *text)
{
    struct dag *d = NULL;
    struct error e;
    assert_ok(dag_read(str_from(text), &d, &e), &e);
    return d;
}

static void assert_refused(const char *text, const char *field, const char *says)
{
    struct dag *d = NULL;
    struct error e = { 0 };
    if (dag_read(str_from(text), &d, &e) == ERR_OK)
        fail_msg("accepted: %s", text);
    assert_null(d);
    assert_string_equal(e.field, field);
    assert_says(&e, says);
    assert_int_equal(dag_read(str_from(text), &d, NULL), e.code);
}

/* Steps a, b, c without edges, and these members for a step x behind them. */
#define WITH_X(members) "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"x\"," members "}]}"

static const char *const example =
    "{\"steps\": ["
    "{\"name\": \"charge\", \"target_config\": {\"url\": \"https://a/charge\", \"body\": {\"id\": {\"$ref\": \"/input/id\"}}},"
    " \"compensate\": {\"target_config\": {\"url\": \"https://a/refund\", \"body\": {\"$ref\": \"/output\"}}}},"
    "{\"name\": \"sign\", \"depends_on\": [\"charge\"], \"await\": {\"signal\": \"approved\", \"approvals\": 2, \"timeout\": \"2d\"},"
    " \"when\": {\"ref\": \"/steps/charge/output/amount\", \"op\": \"gt\", \"value\": 1000}},"
    "{\"name\": \"ship\", \"depends_on\": [{\"step\": \"sign\", \"type\": \"MUST_NOT_FAIL\"}], \"target_type\": \"WORKER\","
    " \"payload\": {\"$ref\": \"/item\"},"
    " \"map\": {\"over\": {\"$ref\": \"/input/parcels\"}, \"max_concurrent\": 20, \"max_failures\": 0}},"
    "{\"name\": \"alert\", \"depends_on\": [{\"step\": \"*\", \"type\": \"MUST_FAIL\"}], \"join\": \"ANY\", \"target_type\": \"NOOP\"}],"
    "\"result\": {\"$ref\": \"/steps/ship/output\"}}";

static void a_definition_is_compiled(void **state)
{
    (void)state;
    struct dag *d = read_ok(example);
    assert_int_equal(d->n, 4);
    assert_int_equal(d->edges, 5);
    assert_int_equal(d->layers, 4);
    assert_true(d->has_compensate && d->steps[0].has_compensate && !d->steps[0].compensate_if_attempted);
    assert_true(d->steps[0].output_used && !d->steps[1].output_used && d->steps[2].output_used);
    assert_str(d->steps[1].await.signal, "approved");
    assert_int_equal(d->steps[1].await.approvals, 2);
    assert_int_equal(d->steps[1].await.timeout_ms, 2 * 86400000LL);
    assert_false(d->steps[1].await.has_on_timeout);
    assert_true(d->steps[1].has_when && !d->steps[2].has_when);
    assert_true(d->steps[2].map.is_set && d->steps[2].map.max_concurrent == 20);
    assert_int_equal(d->steps[2].in.v[0].type, DAG_MUST_NOT_FAIL);
    assert_true(d->steps[2].in.v[0].named);
    assert_int_equal(d->steps[3].in.n, 3);
    assert_false(d->steps[3].in.v[0].named);
    assert_int_equal(d->steps[3].join, DAG_ANY);
    assert_true(str_starts(d->steps[3].text, S("{\"name\": \"alert\"")));
    assert_str(d->result, "{\"$ref\": \"/steps/ship/output\"}");
    assert_true(dag_bytes(d) > d->text.n);
    dag_free(d);
    dag_free(NULL);
}

static void defaults_are_those_of_a_plain_step(void **state)
{
    (void)state;
    struct dag *d =
        read_ok("{\"st\\u0065ps\":[{\"name\":\"a\",\"depends_on\":null,\"when\":null},{\"name\":\"b\","
                "\"depends_on\":[\"a\"],\"delay\":\"5s\",\"may_fail\":true,\"target_type\":\"WORKFLOW\"}]}");
    const struct dag_step *a = &d->steps[0], *b = &d->steps[1];
    assert_str(a->text, "{\"name\":\"a\",\"depends_on\":null,\"when\":null}");
    assert_true(!a->may_fail && !a->has_when && !a->map.is_set && !a->is_workflow && a->delay_ms == 0);
    assert_int_equal(a->await.signal.n, 0);
    assert_true(b->may_fail && b->is_workflow && b->delay_ms == 5000 && b->join == DAG_ALL);
    assert_int_equal(b->in.v[0].type, DAG_MUST_SUCCEED);
    assert_int_equal(d->result.n, 0);
    dag_free(d);
}

static void steps_are_sorted_in_layers(void **state)
{
    (void)state;
    struct dag *d =
        read_ok("{\"steps\":[{\"name\":\"d\",\"depends_on\":[\"b\",\"c\"]},{\"name\":\"c\",\"depends_on\":[\"b\"]},"
                "{\"name\":\"b\",\"depends_on\":[\"a\"]},{\"name\":\"a\"}]}");
    static const uint32_t order[] = { 3, 2, 1, 0 }, layers[] = { 3, 2, 1, 0 };
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(d->order[i], order[i]);
        assert_int_equal(d->steps[i].layer, layers[i]);
    }
    bool from[4] = { false, true }, below[4] = { false };
    dag_mark_below(d, from, below);
    assert_true(below[0] && !below[1] && !below[2] && !below[3]);
    dag_free(d);
}

static void a_star_is_every_step_without_a_star(void **state)
{
    (void)state;
    struct dag *d =
        read_ok("{\"steps\":[{\"name\":\"a\"},{\"name\":\"x\",\"depends_on\":[\"*\"]},{\"name\":\"b\"},"
                "{\"name\":\"y\",\"depends_on\":[\"x\",\"*\",\"a\",{\"step\":\"b\",\"type\":\"MUST_FAIL\"}]}]}");
    assert_int_equal(d->steps[1].in.n, 2);
    assert_int_equal(d->steps[3].in.n, 4); /* a once, b by two types, x */
    assert_int_equal(d->steps[3].parents, 3);
    assert_true(d->steps[3].in.v[0].named && d->steps[3].in.v[0].step == 0);
    dag_free(d);
    assert_refused("{\"steps\":[{\"name\":\"a\",\"depends_on\":[\"*\"]}]}", "steps[0].depends_on[0]",
                   "stands for no step");
    assert_refused("{\"steps\":[{\"name\":\"a\",\"depends_on\":[\"x\"]},{\"name\":\"x\",\"depends_on\":[\"*\"]}]}",
                   "steps[1].depends_on[0]", "in a cycle: x → a → x");
}

static void an_unknown_step_gets_a_suggestion(void **state)
{
    (void)state;
    assert_refused("{\"steps\":[{\"name\":\"extract\"},{\"name\":\"load\",\"depends_on\":[\"extrct\"]}]}",
                   "steps[1].depends_on[0]", "no step is named 'extrct'; did you mean 'extract'?");
    assert_refused(WITH_X("\"depends_on\":[\"zzzzz\"]"), "steps[3].depends_on[0]", "no step is named 'zzzzz'");
    struct dag *d = read_ok("{\"steps\":[{\"name\":\"b\"},{\"name\":\"a\"},{\"name\":\"c\"}]}");
    uint32_t step;
    struct error e;
    assert_true(dag_find(d, S("a"), &step) && step == 1);
    assert_true(dag_find(d, S("c"), &step) && step == 2);
    assert_false(dag_find(d, S("d"), &step));
    assert_int_equal(dag_find_or_explain(d, S("d"), &step, &e), ERR_NOT_FOUND);
    dag_free(d);
}

static void a_cycle_is_shown_as_a_path(void **state)
{
    (void)state;
    assert_refused("{\"steps\":[{\"name\":\"a\",\"depends_on\":[\"a\"]}]}", "steps[0].depends_on[0]",
                   "in a cycle: a → a");
    assert_refused(
        "{\"steps\":[{\"name\":\"r\"},{\"name\":\"a\",\"depends_on\":[\"r\",\"c\"]},{\"name\":\"b\",\"depends_on\":[\"a\"]},"
        "{\"name\":\"c\",\"depends_on\":[\"b\"]},{\"name\":\"below\",\"depends_on\":[\"c\"]}]}",
        "steps[2].depends_on[0]", "the steps wait for each other in a cycle: b → c → a → b");
    struct buf b;
    buf_init(&b, 1 << 16);
    for (int i = 0; i < 30; i++)
        buf_printf(&b, "%s{\"name\":\"s%d\",\"depends_on\":[\"s%d\"]}", i ? "," : "{\"steps\":[", i, (i + 29) % 30);
    buf_text(&b, "]}");
    struct dag *d;
    struct error e;
    assert_int_equal(dag_read(buf_str(&b), &d, &e), ERR_INVALID);
    assert_says(&e, "→ … (22 more) →");
    buf_release(&b);
}

static void mistakes_are_named_with_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "[]", "", "must be an object" },
        { "{\"steps\":", "steps", "" },
        { "{}", "steps", "is required" },
        { "{\"steps\":[]}", "steps", "must not be empty" },
        { "{\"steps\":[{\"name\":\"a\"}],\"reslt\":1}", "reslt", "did you mean 'result'?" },
        { "{\"steps\":[{}]}", "steps[0].name", "is required" },
        { "{\"steps\":[{\"name\":\"a b\"}]}", "steps[0].name", "must not hold ' ' at position 2" },
        { "{\"steps\":[{\"name\":\"-a\"}]}", "steps[0].name", "must not hold '-' at position 1" },
        { "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]}", "steps[2].name",
          "'a' is the name of steps[0], too" },
        { WITH_X("\"depend_on\":[]"), "steps[3].depend_on", "did you mean 'depends_on'?" },
        { WITH_X("\"run_at\":\"2030-01-01T00:00:00Z\""), "steps[3].run_at", "is unknown" },
        { WITH_X("\"idempotency_key\":\"k\""), "steps[3].idempotency_key", "is unknown" },
        { WITH_X("\"depends_on\":[1]"), "steps[3].depends_on[0]", "must be the name of a step or" },
        { WITH_X("\"depends_on\":[{\"step\":\"a\",\"type\":\"MUST\"}]"), "steps[3].depends_on[0].type",
          "must be one of" },
        { WITH_X("\"depends_on\":[{\"type\":\"MUST_FAIL\"}]"), "steps[3].depends_on[0].step", "is required" },
        { WITH_X("\"depends_on\":[\"a\",{\"step\":\"a\"}]"), "steps[3].depends_on[1]", "names 'a' twice" },
        { WITH_X("\"join\":\"ANY\""), "steps[3].join", "has no effect without depends_on" },
        { WITH_X("\"await\":{}"), "steps[3].await.signal", "is required" },
        { WITH_X("\"await\":{\"signal\":\"a/b\"}"), "steps[3].await.signal", "must not hold '/'" },
        { WITH_X("\"await\":{\"signal\":\"s\",\"approvals\":0}"), "steps[3].await.approvals",
          "must be between 1 and 1000" },
        { WITH_X("\"await\":{\"signal\":\"s\",\"on_timeout\":1}"), "steps[3].await.on_timeout", "without timeout" },
        { WITH_X("\"await\":{\"signal\":\"s\"},\"payload\":1"), "steps[3].payload", "awaits a signal" },
        { WITH_X("\"await\":{\"signal\":\"s\"},\"target_type\":\"NOOP\""), "steps[3].target_type", "awaits a signal" },
        { WITH_X("\"await\":{\"signal\":\"s\"},\"target_config\":{}"), "steps[3].target_config", "awaits a signal" },
        { WITH_X("\"await\":{\"signal\":\"s\"},\"map\":{\"over\":[]}"), "steps[3].await",
          "cannot be combined with map" },
        { WITH_X("\"map\":{}"), "steps[3].map.over", "is required" },
        { WITH_X("\"map\":{\"over\":[],\"max_concurrent\":0}"), "steps[3].map.max_concurrent", "must be between 1" },
        { WITH_X("\"map\":{\"over\":[],\"max_concurrent\":1},\"concurrency_key\":\"k\""), "steps[3].concurrency_key",
          "cannot be combined with map.max_concurrent" },
        { WITH_X("\"compensate\":{\"may_fail\":true}"), "steps[3].compensate.may_fail", "is unknown" },
        { WITH_X("\"delay\":\"soon\""), "steps[3].delay", "" },
        { WITH_X("\"when\":{}"), "steps[3].when", "must be {" },
        { WITH_X("\"when\":{\"all\":[{\"ref\":\"/input\",\"op\":\"is\"}]}"), "steps[3].when.all[0].op",
          "must be one of" },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_refused(rows[i].text, rows[i].field, rows[i].says);
}

static void references_name_ancestors_and_what_has_a_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { WITH_X("\"payload\":{\"$ref\":\"/steps/a/output\"}"), "steps[3].payload.$ref",
          "refers to the step 'a', which 'x' does not wait for; add it to depends_on" },
        { WITH_X("\"payload\":{\"$ref\":\"/steps/x/output\"}"), "steps[3].payload.$ref", "does not wait for" },
        { WITH_X("\"depends_on\":[\"b\"],\"payload\":[{\"k\":{\"$ref\":\"/steps/bb/output\"}}]"),
          "steps[3].payload[0].k.$ref", "no step is named 'bb'" },
        { WITH_X("\"payload\":{\"$ref\":\"/item\"}"), "steps[3].payload.$ref",
          "only for the items of a step with map" },
        { WITH_X("\"map\":{\"over\":{\"$ref\":\"/index\"}}"), "steps[3].map.over.$ref", "only for the items" },
        { WITH_X("\"map\":{\"over\":[]},\"when\":{\"not\":{\"ref\":\"/item\",\"op\":\"exists\"}}"),
          "steps[3].when.not.ref", "only for the items" },
        { WITH_X("\"payload\":{\"$ref\":\"/output\"}"), "steps[3].payload.$ref", "only in compensate" },
        { WITH_X("\"compensate\":{\"payload\":{\"$ref\":\"/steps/a/output\"}}"), "steps[3].compensate.payload.$ref",
          "does not wait for" },
        { WITH_X("\"target_config\":{\"headers\":{\"X-Id\":{\"$ref\":\"id\"}}}"),
          "steps[3].target_config.headers.X-Id.$ref", "must begin with '/'" },
        { WITH_X("\"target_config\":{\"url\":{\"$ref\":\"/input/url\"}}"), "steps[3].target_config.url",
          "data cannot choose the host" },
        { "{\"steps\":[{\"name\":\"a\"}],\"result\":{\"$ref\":\"/steps/b/output\"}}", "result.$ref",
          "no step is named 'b'" },
        { "{\"steps\":[{\"name\":\"a\"}],\"result\":{\"$ref\":\"/item\"}}", "result.$ref", "only for the items" },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_refused(rows[i].text, rows[i].field, rows[i].says);
    struct dag *d = read_ok(
        "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\",\"depends_on\":[\"a\"]},{\"name\":\"c\",\"depends_on\":[\"b\"],"
        "\"map\":{\"over\":[1]},\"payload\":[{\"$ref\":\"/steps/a/output\"},{\"$ref\":\"/steps/b/status\"},"
        "{\"$ref\":\"/item/x\"},{\"$ref\":\"/index\"}],\"target_config\":{\"priority\":{\"$ref\":\"?\"}}}]}");
    assert_true(d->steps[0].output_used && !d->steps[1].output_used);
    assert_false(d->steps[2].keeps_input);
    dag_free(d);
}

static void a_step_that_may_start_before_its_data_keeps_its_input(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        bool keeps;
    } rows[] = {
        { "\"depends_on\":[\"a\",\"b\"],\"payload\":{\"$ref\":\"/steps/a/output\"}", false },
        { "\"depends_on\":[\"a\",\"b\"],\"join\":\"SOME\",\"payload\":{\"$ref\":\"/steps/a/output\"}", false },
        { "\"depends_on\":[\"a\",\"b\"],\"join\":\"ANY\",\"payload\":{\"$ref\":\"/steps/a/output\"}", true },
        { "\"depends_on\":[\"a\"],\"join\":\"ANY\",\"payload\":{\"$ref\":\"/steps/a/output\"}", false },
        { "\"depends_on\":[\"a\",\"b\"],\"join\":\"ANY\",\"payload\":{\"$ref\":\"/input\"}", false },
        { "\"depends_on\":[\"a\"],\"payload\":{\"$ref\":\"/run/failures\"}", true },
        { "\"depends_on\":[\"a\"],\"compensate\":{\"payload\":{\"$ref\":\"/run/failures\"}}", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"x\",%s}]}",
                 rows[i].members);
        struct dag *d = read_ok(text);
        assert_int_equal(d->steps[2].keeps_input, rows[i].keeps);
        dag_free(d);
    }
    /* m may be skipped by b before a is final. */
    struct dag *d = read_ok(
        "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"m\",\"depends_on\":[\"a\",\"b\"]},{\"name\":\"x\","
        "\"depends_on\":[{\"step\":\"m\",\"type\":\"MUST_FINISH\"}],\"payload\":{\"$ref\":\"/steps/a/output\"}}]}");
    assert_true(d->steps[3].keeps_input);
    dag_free(d);
}

static void add_steps(struct buf *b, int n, const char *members)
{
    buf_text(b, "{\"steps\":[");
    for (int i = 0; i < n; i++)
        buf_printf(b, "%s{\"name\":\"s%d\"%s}", i ? "," : "", i, i ? members : "");
    buf_text(b, "]}");
}

static void limits_are_errors(void **state)
{
    (void)state;
    struct buf b;
    struct dag *d = NULL;
    struct error e;
    buf_init(&b, 8 << 20);
    add_steps(&b, DAG_STEPS_MAX, "");
    assert_ok(dag_read(buf_str(&b), &d, &e), &e);
    assert_int_equal(d->n, DAG_STEPS_MAX);
    dag_free(d);
    buf_reset(&b);
    add_steps(&b, DAG_STEPS_MAX + 1, "");
    assert_int_equal(dag_read(buf_str(&b), &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "steps");
    buf_reset(&b);
    buf_text(&b, "{\"steps\":[");
    for (int i = 0; i < 9000; i++)
        buf_printf(&b, "{\"name\":\"s%d\"},", i);
    for (int i = 0; i < 12; i++)
        buf_printf(&b, "%s{\"name\":\"all%d\",\"depends_on\":[\"*\"]}", i ? "," : "", i);
    buf_text(&b, "]}");
    assert_int_equal(dag_read(buf_str(&b), &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "steps[9011].depends_on[0]");
    assert_says(&e, "beyond the limit of 100000 edges");
    buf_reset(&b);
    buf_text(&b, "{\"steps\":[{\"name\":\"a\",\"payload\":[0");
    for (int i = 0; i <= DAG_REFERENCES_MAX; i++)
        buf_text(&b, ",{\"$ref\":\"/input\"}");
    buf_text(&b, "]}]}");
    assert_int_equal(dag_read(buf_str(&b), &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "steps[0].payload[101].$ref");
    buf_reset(&b);
    while (b.n <= DAG_TEXT_MAX)
        buf_text(&b, "                                ");
    assert_int_equal(dag_read(buf_str(&b), &d, &e), ERR_INVALID);
    assert_says(&e, "must be at most 4194304 bytes long");
    buf_release(&b);
}

/* The sets of ancestors take 10,000 times 10,000 bits. */
static void a_long_chain_with_references_is_read(void **state)
{
    (void)state;
    struct buf b;
    struct dag *d = NULL;
    struct error e;
    buf_init(&b, DAG_TEXT_MAX);
    buf_text(&b, "{\"steps\":[{\"name\":\"s0\"}");
    for (int i = 1; i < DAG_STEPS_MAX; i++)
        buf_printf(&b, ",{\"name\":\"s%d\",\"depends_on\":[\"s%d\"],\"payload\":{\"$ref\":\"/steps/s0/output\"}}", i,
                   i - 1);
    buf_text(&b, "]}");
    assert_ok(dag_read(buf_str(&b), &d, &e), &e);
    assert_int_equal(d->layers, DAG_STEPS_MAX);
    assert_true(d->steps[DAG_STEPS_MAX - 1].ends_run && !d->steps[DAG_STEPS_MAX - 2].ends_run);
    assert_false(d->steps[DAG_STEPS_MAX - 1].keeps_input);
    dag_free(d);
    buf_release(&b);
}

static void the_fields_of_a_task_are_known_by_name(void **state)
{
    (void)state;
    assert_true(dag_is_task_field(S("retry")) && dag_is_task_field(S("payload")) && dag_is_task_field(S("queue")));
    assert_false(dag_is_task_field(S("depends_on")) || dag_is_task_field(S("name")) || dag_is_task_field(S("run_at")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_is_compiled),
        cmocka_unit_test(defaults_are_those_of_a_plain_step),
        cmocka_unit_test(steps_are_sorted_in_layers),
        cmocka_unit_test(a_star_is_every_step_without_a_star),
        cmocka_unit_test(an_unknown_step_gets_a_suggestion),
        cmocka_unit_test(a_cycle_is_shown_as_a_path),
        cmocka_unit_test(mistakes_are_named_with_their_path),
        cmocka_unit_test(references_name_ancestors_and_what_has_a_meaning),
        cmocka_unit_test(a_step_that_may_start_before_its_data_keeps_its_input),
        cmocka_unit_test(limits_are_errors),
        cmocka_unit_test(a_long_chain_with_references_is_read),
        cmocka_unit_test(the_fields_of_a_task_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
