/* Workflows over real sockets and the model store. What runs do is tested on the real server
 * (tests/e2e/workflows/test_workflows_api.py). */
#include "check.h"
#include "http_client.h"

static struct harness *h;

static int start(void **state)
{
    (void)state;
    h = harness_new(false, &(struct api_limits){ .recall_ms = 150 });
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_free(h);
    return 0;
}

#define STEPS  "{\"steps\":[{\"name\":\"extract\",\"target_type\":\"NOOP\"}]}"
#define LATER  "\"run_at\":\"" FAR_FUTURE "\""
#define INLINE "{\"definition\":" STEPS ",\"input\":[1, 2]," LATER "}"

static const char *run_path(const char *id, const char *rest)
{
    static char text[160];
    snprintf(text, sizeof text, "/v1/workflows/%s%s", id, rest);
    return text;
}

static void a_definition_is_put_and_read(void **state)
{
    (void)state;
    struct answer a = ask(h, "PUT", "/v1/workflow-definitions/etl", STEPS);
    assert_status(&a, 201);
    assert_int_equal(number_of(&a, "version"), 1);
    struct answer again = ask(h, "PUT", "/v1/workflow-definitions/etl", STEPS);
    assert_status(&again, 200);
    assert_int_equal(number_of(&again, "version"), 1);
    assert_string_equal(text_of(&again, "hash"), text_of(&a, "hash"));
    assert_problem(ask(h, "PUT", "/v1/workflow-definitions/etl", "{\"steps\":[{\"name\":\"a\"}]}"), 400,
                   "invalid-request", "steps[0].target_config");
    assert_problem(ask(h, "PUT", "/v1/workflow-definitions/a:b", STEPS), 400, "invalid-request", "");
    assert_problem(ask(h, "GET", "/v1/workflow-definitions/none", NULL), 404, "not-found",
                   "no workflow is named 'none'");
    client_answer_release(&a);
    client_answer_release(&again);
}

static void a_run_is_created_and_cancelled_before_it_starts(void **state)
{
    (void)state;
    size_t nudged = h->nudged;
    struct answer a = ask(h, "POST", "/v1/workflows", INLINE);
    assert_status(&a, 201);
    assert_string_equal(header_of(&a, "Location"), run_path(text_of(&a, "id"), ""));
    assert_string_equal(text_of(&a, "status"), "SCHEDULED");
    assert_int_equal(json_array_size(json_object_get(a.json, "input")), 2);
    assert_int_equal(h->nudged, nudged + 1);
    struct answer got = ask(h, "GET", run_path(text_of(&a, "id"), "?wait_seconds=0"), NULL);
    assert_status(&got, 200);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(got.json, "steps"), "total")), 1);
    struct answer cancelled = ask(h, "POST", run_path(text_of(&a, "id"), "/cancel"), "{\"compensate\":true}");
    assert_status(&cancelled, 200);
    assert_string_equal(text_of(&cancelled, "status"), "CANCELLED");
    assert_problem(ask(h, "POST", run_path(text_of(&a, "id"), "/steps/extrct/skip"), "{}"), 404, "not-found",
                   "did you mean 'extract'");
    assert_problem(ask(h, "POST", run_path(text_of(&a, "id"), "/signals/go"), "{}"), 404, "not-found",
                   "no step awaits");
    client_answer_release(&a);
    client_answer_release(&got);
    client_answer_release(&cancelled);
}

static void a_plain_task_is_no_run(void **state)
{
    (void)state;
    struct answer a = ask(h, "POST", "/v1/tasks", NOOP_FAR);
    assert_problem(ask(h, "GET", run_path(text_of(&a, "id"), ""), NULL), 404, "not-found", "no such run");
    client_answer_release(&a);
}

static void no_run_is_created_while_a_node_cannot_run_it(void **state)
{
    (void)state;
    h->has_old_node = true;
    assert_problem(ask(h, "POST", "/v1/workflows", INLINE), 503, "unavailable", "older version");
    assert_problem(
        ask(h, "POST", "/v1/tasks", "{\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"etl\"}}"), 503,
        "unavailable", "");
    h->has_old_node = false;
    struct answer a = ask(h, "POST", "/v1/workflows", INLINE);
    assert_status(&a, 201);
    client_answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_is_put_and_read),
        cmocka_unit_test(a_run_is_created_and_cancelled_before_it_starts),
        cmocka_unit_test(a_plain_task_is_no_run),
        cmocka_unit_test(no_run_is_created_while_a_node_cannot_run_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
