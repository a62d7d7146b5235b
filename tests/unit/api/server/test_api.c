/* Every route over real sockets, as a client uses it. Hostile clients are in test_hostile_requests.c. */
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

static void create_answers_with_the_whole_task(void **state)
{
    (void)state;
    size_t nudged = h->nudged;
    struct answer a = ask(h, "POST", "/v1/tasks", NOOP_FAR);
    assert_status(&a, 201);
    assert_string_equal(header_of(&a, "Content-Type"), "application/json");
    assert_string_equal(header_of(&a, "ETag"), "\"1\"");
    assert_string_equal(header_of(&a, "Location"), path_of(text_of(&a, "id"), ""));
    assert_string_equal(header_of(&a, "Cache-Control"), "no-store");
    assert_string_equal(text_of(&a, "status"), "SCHEDULED");
    assert_string_equal(text_of(&a, "next_execution"), FAR_FUTURE);
    assert_int_equal(number_of(&a, "version"), 1);
    assert_int_equal(h->nudged, nudged + 1);
    assert_true(metric_count(h->metrics, METRIC_TASKS_SCHEDULED) > 0);
    struct answer again = ask(h, "GET", path_of(text_of(&a, "id"), ""), NULL);
    assert_status(&again, 200);
    assert_string_equal(text_of(&again, "name"), "a");
    assert_int_equal(json_array_size(json_object_get(again.json, "executions")), 0);
    assert_true(json_is_array(json_object_get(again.json, "executions")));
    assert_true(str_starts(str_from(header_of(&again, "ETag")), S("\"1-"))); /* and a hash of the answer */
    client_answer_release(&a);
    client_answer_release(&again);
}

static void a_create_whose_answer_was_lost_is_looked_after(void **state)
{
    (void)state;
    size_t nudged = h->nudged;
    h->lost = true;
    assert_problem(ask(h, "POST", "/v1/tasks", NOOP_FAR), 503, "unavailable", "");
    h->lost = false;
    assert_int_equal(h->nudged, nudged + 1);
}

static void create_names_the_field_at_fault(void **state)
{
    (void)state;
    struct answer a = ask(h, "POST", "/v1/tasks", "{\"target_type\":\"NOOP\",\"priority\":12}");
    assert_status(&a, 400);
    json_t *first = json_array_get(json_object_get(a.json, "errors"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "field")), "priority");
    assert_true(json_string_length(json_object_get(first, "message")) > 0);
    client_answer_release(&a);
    assert_problem(ask(h, "POST", "/v1/tasks", "{\"target_type\":\"NOOP\",\"prioritty\":1}"), 400, "invalid-request",
                   "prioritty");
    assert_problem(ask(h, "POST", "/v1/tasks", ""), 400, "invalid-request", "empty");
    assert_problem(ask(h, "POST", "/v1/tasks", "[]"), 400, "invalid-request", "");
}

static void a_request_sent_twice_is_done_once(void **state)
{
    (void)state;
    const char *key = "Idempotency-Key: k-1\r\n";
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP_FAR);
    struct answer b = ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP_FAR);
    assert_status(&a, 201);
    assert_status(&b, 201);
    assert_string_equal(buf_cstr(&a.body), buf_cstr(&b.body));
    assert_string_equal(header_of(&a, "Idempotency-Replayed"), "");
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    assert_string_equal(header_of(&b, "ETag"), "\"1\"");
    assert_string_equal(header_of(&b, "Location"), path_of(text_of(&a, "id"), ""));
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, "{\"target_type\":\"NOOP\"}"), 422,
                   "idempotency-key-reused", "another body");
    /* the same key on another route */
    struct answer other = ask_with(h, h->key, "POST", "/v1/recurring-tasks", key, HOURLY);
    assert_status(&other, 201);
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: \r\n", NOOP_FAR), 400, "invalid-request",
                   "1 to 255");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: \xc3\xa9\r\n", NOOP_FAR), 400,
                   "invalid-request", "visible ASCII");
    client_answer_release(&a);
    client_answer_release(&b);
    client_answer_release(&other);
}

static void a_key_in_the_body_counts_like_the_header(void **state)
{
    (void)state;
    const char *body = "{\"target_type\":\"NOOP\",\"idempotency_key\":\"in-body\"}";
    struct answer a = ask(h, "POST", "/v1/tasks", body), b = ask(h, "POST", "/v1/tasks", body);
    assert_status(&a, 201);
    assert_string_equal(text_of(&a, "id"), text_of(&b, "id"));
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: x\r\n", body), 400, "invalid-request",
                   "twice");
    client_answer_release(&a);
    client_answer_release(&b);
}

static void a_refused_request_may_be_mended_under_its_key(void **state)
{
    (void)state;
    const char *key = "Idempotency-Key: mend\r\n";
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, "{}"), 400, "invalid-request", "");
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP_FAR);
    assert_status(&a, 201);
    client_answer_release(&a);
}

static void *ask_held(void *result)
{
    *(struct answer *)result = ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: flight\r\n", NOOP_FAR);
    return NULL;
}

static void a_second_request_in_flight_is_told_so(void **state)
{
    (void)state;
    struct answer first;
    pthread_t thread;
    h->hold = true;
    pthread_create(&thread, NULL, ask_held, &first);
    while (harness_held(h) == 0)
        sched_yield();
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: flight\r\n", NOOP_FAR), 409,
                   "request-in-flight", "wait");
    harness_release_held(h);
    pthread_join(thread, NULL);
    assert_status(&first, 201);
    client_answer_release(&first);
}

static void what_the_store_can_not_do_is_503_and_keeps_its_secrets(void **state)
{
    (void)state;
    h->broken = ERR_UNAVAILABLE;
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: full\r\n", NOOP_FAR);
    h->broken = ERR_CORRUPT;
    struct answer b = ask(h, "POST", "/v1/tasks", NOOP_FAR);
    h->broken = ERR_OK;
    assert_status(&a, 503);
    assert_string_equal(header_of(&a, "Retry-After"), "1");
    assert_null(strstr(buf_cstr(&a.body), "disk"));
    assert_status(&b, 500);
    assert_null(strstr(buf_cstr(&b.body), "disk"));
    assert_true(metric_count(h->metrics, METRIC_HTTP_ERRORS) >= 2);
    struct answer again = ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: full\r\n", NOOP_FAR);
    assert_status(&again, 201); /* a failed request stores no record */
    client_answer_release(&a);
    client_answer_release(&b);
    client_answer_release(&again);
}

static void a_batch_keeps_its_order_and_a_bad_element_fails_alone(void **state)
{
    (void)state;
    struct answer a = ask(h, "POST", "/v1/tasks/batch",
                          "[" NOOP_FAR ",{\"nonsense\":1}," HOURLY ",7,{\"target_type\":\"NOOP\","
                          "\"idempotency_key\":\"x\"}]");
    assert_status(&a, 201);
    assert_int_equal(number_of(&a, "created"), 2);
    assert_int_equal(number_of(&a, "failed"), 3);
    json_t *tasks = json_object_get(a.json, "tasks");
    assert_int_equal(json_array_size(tasks), 5);
    const char *id = json_string_value(json_object_get(json_array_get(tasks, 0), "id"));
    struct answer first = ask(h, "GET", path_of(id, ""), NULL);
    assert_string_equal(text_of(&first, "name"), "a");
    json_t *error = json_object_get(json_array_get(tasks, 1), "error");
    assert_int_equal(json_integer_value(json_object_get(error, "status")), 400);
    assert_non_null(strstr(json_string_value(json_object_get(error, "detail")), "nonsense"));
    assert_non_null(json_object_get(json_array_get(tasks, 2), "next_execution"));
    assert_non_null(json_object_get(json_array_get(tasks, 3), "error"));
    assert_non_null(json_object_get(json_array_get(tasks, 4), "error"));
    client_answer_release(&first);
    client_answer_release(&a);
}

static void a_batch_may_be_lines(void **state)
{
    (void)state;
    const char *type = "Content-Type: application/x-ndjson; charset=utf-8\r\nIdempotency-Key: lines\r\n";
    const char *body = NOOP_FAR "\n\n{broken\n" NOOP_FAR "\r\n";
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks/batch", type, body);
    struct answer b = ask_with(h, h->key, "POST", "/v1/tasks/batch", type, body);
    assert_status(&a, 201);
    assert_int_equal(number_of(&a, "created"), 2);
    assert_int_equal(number_of(&a, "failed"), 1);
    assert_string_equal(buf_cstr(&a.body), buf_cstr(&b.body));
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    client_answer_release(&a);
    client_answer_release(&b);
    assert_problem(ask(h, "POST", "/v1/tasks/batch", "[]"), 400, "invalid-request", "1 to 10000");
    assert_problem(ask(h, "POST", "/v1/tasks/batch", NOOP_FAR), 400, "invalid-request", "array");
    assert_problem(ask(h, "POST", "/v1/tasks/batch", "[{]"), 400, "invalid-request", "JSON");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks/batch", type, "\n"), 422, "idempotency-key-reused", "");
    struct answer none = ask(h, "POST", "/v1/tasks/batch", "[1]");
    assert_status(&none, 201);
    assert_int_equal(number_of(&none, "created"), 0);
    client_answer_release(&none);
}

static void a_batch_has_ten_thousand_tasks_at_most(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 16 << 20);
    buf_char(&b, '[');
    for (int i = 0; i < 10000; i++)
        buf_text(&b, "{\"target_type\":\"NOOP\",\"queue\":\"big\",\"run_at\":\"" FAR_FUTURE "\"},");
    size_t full = b.n;
    buf_text(&b, "{}]");
    assert_problem(ask(h, "POST", "/v1/tasks/batch", buf_cstr(&b)), 400, "invalid-request", "10001");
    buf_cut(&b, full - 1);
    buf_char(&b, ']');
    struct answer a = ask(h, "POST", "/v1/tasks/batch", buf_cstr(&b));
    assert_status(&a, 201);
    assert_int_equal(number_of(&a, "created"), 10000);
    client_answer_release(&a);
    buf_release(&b);
}

static json_t *pagination(const struct answer *a)
{
    return json_object_get(a->json, "pagination");
}

/* It is for one list, and unchanged. */
static void assert_cursor_is_refused(const char *list, const char *cursor)
{
    char uri[512];
    snprintf(uri, sizeof uri, "%s?cursor=%s", list, cursor);
    struct answer a = ask(h, "GET", uri, NULL);
    assert_status(&a, 400);
    assert_non_null(strstr(json_string_value(json_object_get(a.json, "detail")), "begin without one"));
    client_answer_release(&a);
}

static void lists_page_by_cursor(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        char id[UUID_TEXT + 1];
        client_create(h, "{\"target_type\":\"NOOP\",\"queue\":\"cursor\",\"run_at\":\"" FAR_FUTURE "\"}", id);
    }
    char uri[256] = "/v1/tasks?queue=cursor&limit=2", seen[5][UUID_TEXT + 1];
    for (int i = 0; i < 5;) {
        struct answer a = ask(h, "GET", uri, NULL);
        assert_status(&a, 200);
        json_t *tasks = json_object_get(a.json, "tasks");
        size_t k;
        json_t *t;
        json_array_foreach (tasks, k, t)
            snprintf(seen[i++], sizeof seen[0], "%s", json_string_value(json_object_get(t, "id")));
        const char *next = json_string_value(json_object_get(pagination(&a), "next_cursor"));
        assert_int_equal(next == NULL, i == 5);
        assert_null(json_object_get(pagination(&a), "total"));
        if (next) {
            assert_null(strstr(next, seen[i - 1]));
            assert_cursor_is_refused("/v1/dlq", next);
            assert_cursor_is_refused("/v1/tasks", next + 1);
        }
        snprintf(uri, sizeof uri, "/v1/tasks?queue=cursor&limit=2&cursor=%s", next ? next : "");
        client_answer_release(&a);
    }
    for (int i = 1; i < 5; i++)
        assert_true(strcmp(seen[i - 1], seen[i]) > 0); /* newest first, each once */
}

static void lists_page_by_number_with_a_total(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char id[UUID_TEXT + 1];
        client_create(h, "{\"target_type\":\"NOOP\",\"queue\":\"paged\",\"run_at\":\"" FAR_FUTURE "\"}", id);
    }
    struct answer a = ask(h, "GET", "/v1/tasks?queue=paged&limit=2&page=2", NULL);
    assert_status(&a, 200);
    assert_int_equal(json_array_size(json_object_get(a.json, "tasks")), 1);
    assert_int_equal(json_integer_value(json_object_get(pagination(&a), "total")), 3);
    assert_true(json_is_true(json_object_get(pagination(&a), "total_exact")));
    assert_int_equal(json_integer_value(json_object_get(pagination(&a), "page")), 2);
    assert_true(json_is_null(json_object_get(pagination(&a), "next_cursor")));
    client_answer_release(&a);
}

static void lists_filter(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(
        h, "{\"target_type\":\"NOOP\",\"name\":\"filter me\",\"task_type\":\"f.t\",\"run_at\":\"" FAR_FUTURE "\"}", id);
    static const struct {
        const char *query;
        size_t found;
    } rows[] = {
        { "name=filter%20me", 1 },
        { "name=filter+me&type=ONE_TIME", 1 },
        { "name=filter*", 1 },
        { "name=filter", 0 },
        { "task_type=f.t&status=SCHEDULED", 1 },
        { "task_type=f.t&status=pending,FAILED", 1 },
        { "task_type=f.t&status=COMPLETED", 0 },
        { "task_type=f.t&type=RECURRING", 0 },
        { "task_type=f.t&due_after=2098-12-31T00:00:00Z&due_before=2099-01-02T00:00:00Z", 1 },
        { "task_type=f.t&due_before=2050-01-01T00:00:00Z", 0 },
        { "task_type=f.t&&", 1 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char uri[256];
        snprintf(uri, sizeof uri, "/v1/tasks?%s", rows[i].query);
        struct answer a = ask(h, "GET", uri, NULL);
        assert_status(&a, 200);
        if (json_array_size(json_object_get(a.json, "tasks")) != rows[i].found)
            fail_msg("%s: %s", rows[i].query, buf_cstr(&a.body));
        client_answer_release(&a);
    }
}

static void lists_refuse_what_they_do_not_know(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "limit=0", "limit" },
        { "limit=1001", "between 1 and 1000" },
        { "limit=x", "limit" },
        { "limt=5", "did you mean 'limit'" },
        { "status=NEVER", "NEVER" },
        { "status=", "empty" },
        { "type=RECURING", "did you mean 'RECURRING" },
        { "due_before=yesterday", "due_before" },
        { "cursor=abc", "cursor" },
        { "limit=1&limit=2", "twice" },
        { "name=%zz", "escape" },
        { "name=%", "escape" },
        { "name=%00", "NUL character" },
        { "name=%ff", "UTF-8" },
        { "page=1000000&limit=9", "cursor" },
        { "page=1&cursor=0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "exclude" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char uri[256];
        snprintf(uri, sizeof uri, "/v1/tasks?%s", rows[i][0]);
        assert_problem(ask(h, "GET", uri, NULL), 400, "invalid-request", rows[i][1]);
    }
    assert_problem(ask(h, "GET", "/v1/dlq?status=FAILED", NULL), 400, "invalid-request", "status");
    assert_problem(ask(h, "GET", "/v1/recurring-tasks?type=ONE_TIME", NULL), 400, "invalid-request", "type");
    assert_problem(ask(h, "GET", "/v1/scheduler/status?x=1", NULL), 400, "invalid-request", "x");
}

static void the_server_says_how_it_is(void **state)
{
    (void)state;
    struct answer live = ask_with(h, NULL, "GET", "/health", NULL, NULL);
    assert_status(&live, 200);
    assert_string_equal(text_of(&live, "status"), "ok");
    struct answer ready = ask_with(h, NULL, "GET", "/ready", NULL, NULL);
    assert_status(&ready, 200);
    h->not_ready = true;
    assert_problem(ask_with(h, NULL, "GET", "/ready", NULL, NULL), 503, "unavailable", "recovering");
    h->not_ready = false;
    struct answer s = ask(h, "GET", "/v1/scheduler/status", NULL);
    assert_status(&s, 200);
    assert_non_null(json_object_get(json_object_get(s.json, "tasks"), "SCHEDULED"));
    assert_non_null(json_object_get(s.json, "recalls"));
    struct answer m = ask(h, "GET", "/metrics", NULL);
    assert_status(&m, 200);
    assert_non_null(strstr(buf_cstr(&m.body), "\nbelfry_http_requests_total "));
    assert_string_equal(header_of(&m, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    struct answer o = ask_with(h, NULL, "GET", "/openapi.json", NULL, NULL);
    assert_status(&o, 200);
    assert_string_equal(text_of(&o, "openapi"), "3.1.0");
    struct answer *all[] = { &live, &ready, &s, &m, &o };
    for (size_t i = 0; i < array_count(all); i++)
        client_answer_release(all[i]);
}

static void a_store_that_can_not_be_read_is_503(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], recurring[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    client_create(h, HOURLY, recurring);
    const char *const rows[][3] = {
        { "GET", "/v1/tasks", NULL },
        { "GET", "/v1/tasks?page=1", NULL },
        { "GET", path_of(id, ""), NULL },
        { "GET", path_of(id, "/executions"), NULL },
        { "GET", path_of(recurring, "/occurrences"), NULL },
        { "GET", "/v1/dlq", NULL },
        { "GET", "/ready", NULL },
        { "GET", "/v1/scheduler/status", NULL },
        { "POST", "/v1/tasks/00000000-0000-7000-8000-000000000000/cancel", NULL },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct answer a = { 0 };
        for (int reads = 0; a.status != 200 && a.status != 404 && reads < 5; reads++) { /* each read fails once */
            client_answer_release(&a);
            h->reads_before_broken = reads;
            a = ask(h, rows[i][0], rows[i][1], rows[i][2]);
            h->reads_before_broken = INT_MAX;
            if (reads == 0)
                assert_status(&a, 503);
            bool names_key = strstr(buf_cstr(&a.body), "Idempotency-Key") != NULL;
            assert_true(names_key == (a.status == 503 && rows[i][0][0] == 'P')); /* a read has none */
            assert_null(strstr(buf_cstr(&a.body), "disk"));
        }
        assert_true(a.status == 200 || a.status == 404);
        client_answer_release(&a);
    }
    const char *key = "Idempotency-Key: unread\r\n";
    struct answer first = ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP_FAR);
    assert_status(&first, 201);
    h->reads_before_broken = 0;
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP_FAR), 503, "unavailable", "");
    assert_problem(ask_with(h, h->key, "POST", path_of(id, "/pause"), key, NULL), 503, "unavailable", "");
    h->reads_before_broken = INT_MAX;
    client_answer_release(&first);
}

/* The key was looked up before, and is to be looked up again. */
static void without_the_store_alerts_are_as_they_were_and_say_why(void **state)
{
    (void)state;
    struct answer before = ask(h, "GET", "/v1/alerts", NULL);
    assert_status(&before, 200);
    assert_non_null(strstr(buf_cstr(&before.body), "\"name\":\"BelfryClaimsFailing\",\"state\":\"inactive\""));
    api_server_clear_key_cache(h->server);
    h->reads_before_broken = 0;
    struct answer a = ask(h, "GET", "/v1/alerts", NULL);
    assert_problem(ask(h, "GET", "/v1/stats", NULL), 503, "unavailable", "");
    assert_problem(ask_with(h, "bf_nobody", "GET", "/v1/alerts", NULL, NULL), 401, "unauthorized", "");
    h->reads_before_broken = INT_MAX;
    assert_status(&a, 200);
    assert_non_null(strstr(buf_cstr(&a.body), "\"name\":\"BelfryClaimsFailing\",\"state\":\"pending\""));
    assert_string_equal(text_of(&a, "as_of"), text_of(&before, "as_of"));
    client_answer_release(&a);
    client_answer_release(&before);
}

static void head_and_options_are_answered(void **state)
{
    (void)state;
    struct answer a = ask_with(h, h->key, "HEAD", "/v1/tasks", NULL, NULL);
    assert_status(&a, 200);
    assert_true(atoi(header_of(&a, "Content-Length")) > 0);
    struct answer o = ask_with(h, NULL, "OPTIONS", "/v1/tasks", NULL, NULL);
    assert_status(&o, 204);
    assert_string_equal(header_of(&o, "Allow"), "GET, HEAD, POST, OPTIONS");
    struct answer star = ask_with(h, NULL, "OPTIONS", "*", NULL, NULL);
    assert_status(&star, 204);
    struct answer wrong = ask(h, "DELETE", "/v1/tasks", NULL);
    assert_status(&wrong, 405);
    assert_string_equal(header_of(&wrong, "Allow"), "GET, HEAD, POST, OPTIONS");
    struct answer *all[] = { &a, &o, &star, &wrong };
    for (size_t i = 0; i < array_count(all); i++)
        client_answer_release(all[i]);
    assert_problem(ask(h, "BREW", "/health", NULL), 405, "method-not-allowed", "Allow");
    assert_problem(ask(h, "OPTIONS", "/nowhere", NULL), 404, "not-found", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_answers_with_the_whole_task),
        cmocka_unit_test(a_create_whose_answer_was_lost_is_looked_after),
        cmocka_unit_test(create_names_the_field_at_fault),
        cmocka_unit_test(a_request_sent_twice_is_done_once),
        cmocka_unit_test(a_key_in_the_body_counts_like_the_header),
        cmocka_unit_test(a_refused_request_may_be_mended_under_its_key),
        cmocka_unit_test(a_second_request_in_flight_is_told_so),
        cmocka_unit_test(what_the_store_can_not_do_is_503_and_keeps_its_secrets),
        cmocka_unit_test(a_batch_keeps_its_order_and_a_bad_element_fails_alone),
        cmocka_unit_test(a_batch_may_be_lines),
        cmocka_unit_test(a_batch_has_ten_thousand_tasks_at_most),
        cmocka_unit_test(lists_page_by_cursor),
        cmocka_unit_test(lists_page_by_number_with_a_total),
        cmocka_unit_test(lists_filter),
        cmocka_unit_test(lists_refuse_what_they_do_not_know),
        cmocka_unit_test(the_server_says_how_it_is),
        cmocka_unit_test(a_store_that_can_not_be_read_is_503),
        cmocka_unit_test(without_the_store_alerts_are_as_they_were_and_say_why),
        cmocka_unit_test(head_and_options_are_answered),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
