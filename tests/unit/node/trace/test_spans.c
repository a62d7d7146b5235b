/* Which spans are recorded of requests, attempts and calls, and what they say. */
#include "check.h"

#include "node/trace/spans.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define DUE    1772532000000LL

/* A tracer that keeps the last span. */
static struct {
    struct tracer base;
    bool wants, wants_failure;
    int asked, recorded;
    struct uuid asked_id;
    struct span last;
    struct span_attribute attributes[16];
    char texts[16][64];
} seen;

static bool test_wants(struct tracer *t, const struct trace *trace)
{
    (void)t, (void)trace;
    seen.asked++;
    return seen.wants;
}

static bool test_wants_new(struct tracer *t, struct uuid id)
{
    (void)t;
    seen.asked++;
    seen.asked_id = id;
    return seen.wants;
}

static bool test_wants_failure(struct tracer *t)
{
    (void)t;
    return seen.wants_failure;
}

static void test_record(struct tracer *t, const struct span *s)
{
    (void)t;
    seen.recorded++;
    seen.last = *s;
    for (size_t i = 0; i < s->attribute_count; i++) {
        struct str text = str_sub(s->attributes[i].text, 0, min_of(s->attributes[i].text.n, (size_t)63));
        seen.attributes[i] = s->attributes[i];
        memcpy(seen.texts[i], text.n ? text.p : "", text.n);
        seen.texts[i][text.n] = '\0';
    }
}

static const struct tracer_ops test_ops = {
    .wants = test_wants, .wants_new = test_wants_new, .wants_failure = test_wants_failure, .record = test_record
};

static struct tracer *tracer(bool wants, bool wants_failure)
{
    memset(&seen, 0, sizeof seen);
    seen.base.ops = &test_ops;
    seen.wants = wants;
    seen.wants_failure = wants_failure;
    return &seen.base;
}

/* The text of an attribute; "": it has none. */
static const char *attribute(const char *key)
{
    for (size_t i = 0; i < seen.last.attribute_count; i++)
        if (strcmp(seen.attributes[i].key, key) == 0)
            return seen.texts[i];
    return "";
}

static int64_t number(const char *key)
{
    for (size_t i = 0; i < seen.last.attribute_count; i++)
        if (strcmp(seen.attributes[i].key, key) == 0)
            return seen.attributes[i].number;
    return -1;
}

static struct task task_of(enum target_kind target)
{
    return (struct task){ .id = { { 1 } },
                          .tenant = 3,
                          .queue = S("mail"),
                          .due_ms = DUE,
                          .scheduled_ms = DUE,
                          .fence = 7,
                          .target = target,
                          .target_config = S("{\"url\":\"https://a.example/x\"}"),
                          .trace = S(PARENT " req-7") };
}

static void add_run(struct tracer *t, const struct task *task, struct outcome o, enum task_state to, bool stale)
{
    struct settle_facts f = settle_facts_of(task, &o, NULL);
    struct settlement s = { .ret_state = to, .stale = stale, .verdict.last_error = S("HTTP 503") };
    spans_add_run(t, &f, &o, &s, DUE * 1000 + 900);
}

static void a_run_is_a_span_from_its_due_time_until_it_is_settled(void **state)
{
    (void)state;
    struct task task = task_of(TARGET_HTTP);
    struct outcome o = { .kind = OUTCOME_OK, .started_us = DUE * 1000 + 500, .sampled = true, .late_by = LATE_HOST };
    add_run(tracer(false, false), &task, o, TASK_COMPLETED, false);
    assert_int_equal(seen.recorded, 1);
    assert_true(seen.last.kind == SPAN_CONSUMER && !seen.last.failed && seen.last.trace.sampled);
    assert_true(seen.last.start_us == DUE * 1000 && seen.last.end_us == DUE * 1000 + 900);
    assert_true(seen.last.id == trace_span(task.id, 7, TRACE_RUN) && seen.last.parent == 0x00f067aa0ba902b7);
    assert_string_equal(attribute("belfry.task"), "01000000-0000-0000-0000-000000000000");
    assert_string_equal(attribute("belfry.parent"), "");
    assert_string_equal(attribute("belfry.queue"), "mail");
    assert_string_equal(attribute("belfry.outcome"), "ok");
    assert_string_equal(attribute("belfry.state"), "COMPLETED");
    assert_string_equal(attribute("belfry.delay_cause"), late_cause_names[LATE_HOST]);
    assert_true(number("belfry.tenant") == 3 && number("belfry.attempt") == 1);
}

static void what_is_not_wanted_is_recorded_if_it_failed(void **state)
{
    (void)state;
    static const struct {
        enum outcome_kind kind;
        enum task_state to;
        bool wants_failure, stale;
        enum target_kind target;
        int recorded;
    } rows[] = {
        { OUTCOME_OK, TASK_COMPLETED, true, false, TARGET_HTTP, 0 },
        { OUTCOME_FAILED, TASK_SCHEDULED, true, false, TARGET_HTTP, 1 },
        { OUTCOME_FAILED, TASK_SCHEDULED, false, false, TARGET_HTTP, 0 }, /* there were too many */
        { OUTCOME_FAILED, TASK_SCHEDULED, true, true, TARGET_HTTP, 0 },   /* stale */
        { OUTCOME_FAILED, TASK_FAILED, true, false, TARGET_WORKFLOW, 1 },
        { OUTCOME_FAILED, TASK_SCHEDULED, true, false, TARGET_WORKFLOW, 0 }, /* it goes on */
        { OUTCOME_LOST, TASK_SCHEDULED, true, false, TARGET_NOOP, 1 },
        { OUTCOME_EXPIRED, TASK_EXPIRED, true, false, TARGET_HTTP, 1 },
        { OUTCOME_HELD, TASK_SCHEDULED, true, false, TARGET_HTTP, 0 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct task task = task_of(rows[i].target);
        add_run(tracer(false, rows[i].wants_failure), &task, (struct outcome){ .kind = rows[i].kind }, rows[i].to,
                rows[i].stale);
        if (seen.recorded != rows[i].recorded || (seen.recorded && (!seen.last.failed || seen.last.trace.sampled)))
            fail_msg("row %zu", i);
    }
    add_run(NULL, &(struct task){ .id = { { 1 } } }, (struct outcome){ .kind = OUTCOME_FAILED }, TASK_FAILED, false);
}

static void a_run_of_a_workflow_is_the_parent_of_its_steps(void **state)
{
    (void)state;
    struct task run = task_of(TARGET_WORKFLOW), step = task_of(TARGET_HTTP), inner = task_of(TARGET_WORKFLOW);
    struct outcome o = { .kind = OUTCOME_OK, .started_us = DUE * 1000 - 700 };
    step.id.b[1] = 1;
    inner.id.b[1] = 2;
    step.run = inner.run = run.id;
    uint64_t id = trace_span(run.id, 0, TRACE_WORKFLOW);
    add_run(tracer(true, false), &run, o, TASK_COMPLETED, false);
    assert_true(seen.last.kind == SPAN_INTERNAL && str_eq(seen.last.name, S("workflow")) && seen.last.trace.sampled);
    assert_true(seen.last.id == id && seen.last.parent == 0x00f067aa0ba902b7 && seen.last.start_us == o.started_us);
    o.sampled = true;
    add_run(tracer(false, false), &step, o, TASK_COMPLETED, false);
    assert_true(seen.last.kind == SPAN_CONSUMER && seen.last.parent == id);
    add_run(tracer(true, false), &inner, o, TASK_COMPLETED, false);
    assert_true(str_eq(seen.last.name, S("step")) && seen.last.parent == id && seen.last.id != id);
}

static void an_occurrence_has_a_link_and_no_parent(void **state)
{
    (void)state;
    struct task task = task_of(TARGET_HTTP);
    task.kind = TASK_OCCURRENCE;
    task.parent = (struct uuid){ { 2 } };
    add_run(tracer(true, false), &task, (struct outcome){ .kind = OUTCOME_LOST }, TASK_SCHEDULED, false);
    assert_true(seen.last.parent == 0 && strcmp(seen.last.trace.id, "4bf92f3577b34da6a3ce929d0e0e4736") != 0);
    assert_string_equal(seen.last.trace.linked_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(seen.last.trace.linked_span, "00f067aa0ba902b7");
    assert_string_equal(attribute("belfry.parent"), "02000000-0000-0000-0000-000000000000");
}

static void a_call_is_a_span_in_that_of_its_run(void **state)
{
    (void)state;
    struct task task = task_of(TARGET_HTTP);
    struct run run = { .task = &task };
    struct tracer *t = tracer(true, false);
    spans_decide(t, &run);
    assert_true(run.is_decided && run.is_sampled);
    spans_add_call(t, &run, &(struct outcome){ .started_us = 5, .completed_us = 9, .http_status = 200 });
    assert_true(seen.recorded == 1 && seen.last.kind == SPAN_CLIENT);
    assert_true(seen.last.id == trace_span(task.id, 7, TRACE_CALL));
    assert_true(seen.last.parent == trace_span(task.id, 7, TRACE_RUN));
    assert_true(seen.last.start_us == 5 && seen.last.end_us == 9 && number("http.response.status_code") == 200);
    task.target = TARGET_NOOP;
    spans_add_call(t, &run, &(struct outcome){ .kind = OUTCOME_OK });
    assert_int_equal(seen.recorded, 1);
    t = tracer(false, true);
    task.target = TARGET_MESSAGE;
    spans_decide(t, &run);
    spans_add_call(t, &run, &(struct outcome){ .kind = OUTCOME_OK });
    assert_int_equal(seen.recorded, 0);
    spans_add_call(t, &run, &(struct outcome){ .kind = OUTCOME_FAILED, .error = S("refused") });
    assert_true(seen.recorded == 1 && seen.last.kind == SPAN_PRODUCER && seen.last.failed);
    struct run undecided = { .task = &task };
    spans_decide(NULL, &undecided);
    assert_true(!undecided.is_decided && run_trace(&undecided).sampled);
    assert_false(run_trace(&run).sampled);
}

static void a_task_without_a_caller_is_decided_by_where_its_trace_begins(void **state)
{
    (void)state;
    struct task task = task_of(TARGET_HTTP), step = task_of(TARGET_HTTP);
    struct run run = { .task = &task }, of_step = { .task = &step };
    task.trace = step.trace = S("");
    step.run = (struct uuid){ { 5 } };
    spans_decide(tracer(true, false), &run);
    assert_true(run.is_decided && run.is_sampled && uuid_eq(seen.asked_id, task.id));
    spans_decide(tracer(false, false), &of_step);
    assert_true(of_step.is_decided && !of_step.is_sampled && uuid_eq(seen.asked_id, step.run));
}

/* What its worker does not record costs the settle one comparison. */
static void an_attempt_that_is_not_sampled_is_not_asked_for_again(void **state)
{
    (void)state;
    struct task task = task_of(TARGET_HTTP), control = task_of(TARGET_WORKFLOW);
    struct outcome ok = { .kind = OUTCOME_OK, .started_us = 5 }, failed = { .kind = OUTCOME_FAILED, .started_us = 5 };
    struct outcome unknown = { .kind = OUTCOME_EXPIRED };
    struct settle_facts f = settle_facts_of(&task, &ok, NULL), of_control = settle_facts_of(&control, &ok, NULL);
    struct tracer *t = tracer(true, true);
    assert_false(spans_may_add_run(t, &f, &ok) || spans_may_add_run(NULL, &f, &failed));
    assert_true(spans_may_add_run(t, &f, &failed) && spans_may_add_run(t, &f, &unknown));
    assert_true(spans_may_add_run(t, &of_control, &ok));
    add_run(t, &task, ok, TASK_COMPLETED, false);
    assert_true(seen.asked == 0 && seen.recorded == 0);
}

static void a_request_continues_its_caller_or_begins_a_trace(void **state)
{
    (void)state;
    struct request_span s;
    struct tracer *t = tracer(true, false);
    struct request_span_facts f = { .route = "POST /v1/tasks", .status = 201, .tenant = 1, .request = S("req-7") };
    request_span_begin(&s, t, S(PARENT), (struct uuid){ { 9 } }, 5);
    assert_true(str_starts(str_from(s.parent), S("00-4bf92f3577b34da6a3ce929d0e0e4736-")));
    assert_null(strstr(s.parent, "00f067aa0ba902b7")); /* its tasks are children of the request */
    request_span_end(&s, t, &f, 9);
    assert_true(seen.last.kind == SPAN_SERVER && seen.last.parent == 0x00f067aa0ba902b7 && !seen.last.failed);
    assert_string_equal(attribute("http.route"), "/v1/tasks");
    assert_string_equal(attribute("belfry.request"), "req-7");
    request_span_begin(&s, t, S(""), (struct uuid){ { 9 } }, 5);
    request_span_end(&s, t, &f, 9);
    assert_true(seen.last.parent == 0 && s.parent[0]);
}

static void a_request_that_is_not_wanted_leaves_the_caller_as_it_is(void **state)
{
    (void)state;
    struct request_span s;
    struct tracer *t = tracer(false, true);
    struct request_span_facts f = { .route = "POST /v1/tasks", .status = 404 };
    request_span_begin(&s, t, S(PARENT), (struct uuid){ { 9 } }, 5);
    assert_int_equal(s.parent[0], 0);
    request_span_end(&s, t, &f, 9);
    assert_int_equal(seen.recorded, 0);
    f.status = 503;
    request_span_end(&s, t, &f, 9);
    assert_true(seen.recorded == 1 && seen.last.failed && !seen.last.trace.sampled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_a_span_from_its_due_time_until_it_is_settled),
        cmocka_unit_test(what_is_not_wanted_is_recorded_if_it_failed),
        cmocka_unit_test(a_run_of_a_workflow_is_the_parent_of_its_steps),
        cmocka_unit_test(an_occurrence_has_a_link_and_no_parent),
        cmocka_unit_test(a_call_is_a_span_in_that_of_its_run),
        cmocka_unit_test(a_task_without_a_caller_is_decided_by_where_its_trace_begins),
        cmocka_unit_test(an_attempt_that_is_not_sampled_is_not_asked_for_again),
        cmocka_unit_test(a_request_continues_its_caller_or_begins_a_trace),
        cmocka_unit_test(a_request_that_is_not_wanted_leaves_the_caller_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
