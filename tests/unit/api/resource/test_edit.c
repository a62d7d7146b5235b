/* Edits, actions, and claimed tasks: over real sockets, like test_api.c. */
#include "base/rfc3339.h"
#include "check.h"
#include "http_client.h"

static struct harness *h;

static int start(void **state)
{
    (void)state;
    h = harness_new(false, &(struct api_limits){ .recall_ms = 150, .recall_stall_ms = 1000 });
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_free(h);
    return 0;
}

static void assert_changed(const char *method, const char *path, const char *body, int status)
{
    struct answer a = ask(h, method, path, body);
    assert_status(&a, status);
    client_answer_release(&a);
}

static void an_edit_changes_what_it_names_and_counts(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    struct answer a = ask(h, "PATCH", path_of(id, ""), "{\"name\":\"b\",\"priority\":7}");
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "name"), "b");
    assert_int_equal(number_of(&a, "priority"), 7);
    assert_string_equal(header_of(&a, "ETag"), "\"2\"");
    client_answer_release(&a);
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"nope\":1}"), 400, "invalid-request", "nope");
    assert_problem(ask(h, "PATCH", path_of(id, ""), "[1]"), 400, "invalid-request", "object");
    assert_problem(ask(h, "PATCH", path_of(id, ""), NULL), 400, "invalid-request", "object");
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"status\":\"PAUSED\",\"name\":\"x\"}"), 400, "invalid-request",
                   "together");
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"status\":\"COMPLETED\"}"), 400, "invalid-request", "PAUSED");
    struct answer p = ask(h, "PATCH", path_of(id, ""), "{\"status\":\"PAUSED\"}");
    assert_string_equal(text_of(&p, "status"), "PAUSED");
    struct answer s = ask(h, "PATCH", path_of(id, ""), "{\"status\":\"SCHEDULED\"}");
    assert_string_equal(text_of(&s, "status"), "SCHEDULED");
    assert_int_equal(number_of(&s, "version"), 4);
    client_answer_release(&p);
    client_answer_release(&s);
}

static void if_match_guards_edits(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    static const struct {
        const char *header;
        int status;
    } rows[] = {
        { "If-Match: \"1\"\r\n", 200 }, { "If-Match: \"1\"\r\n", 412 },   { "If-Match: \"7\", \"2\"\r\n", 200 },
        { "If-Match: *\r\n", 200 },     { "If-Match: W/\"4\"\r\n", 412 }, { "If-Match: 4\r\n", 200 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char body[32]; /* another one each time: what changes nothing has no version */
        snprintf(body, sizeof body, "{\"priority\":%zu}", 9 - i);
        struct answer a = ask_with(h, h->key, "PATCH", path_of(id, ""), rows[i].header, body);
        assert_status(&a, rows[i].status);
        client_answer_release(&a);
    }
    assert_problem(ask_with(h, h->key, "DELETE", path_of(id, ""), "If-Match: \"1\"\r\n", NULL), 412,
                   "precondition-failed", "read it again");
    struct answer gone = ask_with(h, h->key, "DELETE", path_of(id, ""), "If-Match: \"5\"\r\n", NULL);
    assert_status(&gone, 204);
    client_answer_release(&gone);
}

static void a_deleted_task_is_gone_and_its_answer_is_kept(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    const char *key = "Idempotency-Key: del\r\n";
    struct answer a = ask_with(h, h->key, "DELETE", path_of(id, ""), key, NULL);
    assert_status(&a, 204);
    assert_int_equal(a.body.n, 0);
    assert_string_equal(header_of(&a, "Content-Type"), "");
    struct answer b = ask_with(h, h->key, "DELETE", path_of(id, ""), key, NULL);
    assert_status(&b, 204);
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    assert_problem(ask(h, "DELETE", path_of(id, ""), NULL), 404, "not-found", "no such task");
    assert_problem(ask(h, "GET", path_of(id, ""), NULL), 404, "not-found", "no such task");
    client_answer_release(&a);
    client_answer_release(&b);
}

static void actions_move_a_task_through_its_states(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    static const struct {
        const char *action, *body, *status;
        int code;
    } rows[] = {
        { "/pause", NULL, "PAUSED", 200 },
        { "/pause", "{}", "PAUSED", 200 },
        { "/resume", NULL, "SCHEDULED", 200 },
        { "/run-now", "{\"force\":false}", "SCHEDULED", 200 },
        { "/run-now", "{\"farce\":false}", "", 400 },
        { "/cancel", "{\"force\":true}", "", 400 },
        { "/retry", NULL, "", 409 },
        { "/force-complete", NULL, "COMPLETED", 200 },
        { "/cancel", NULL, "", 409 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct answer a = ask(h, "POST", path_of(id, rows[i].action), rows[i].body);
        assert_status(&a, rows[i].code);
        if (rows[i].code == 200)
            assert_string_equal(text_of(&a, "status"), rows[i].status);
        client_answer_release(&a);
    }
    char other[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, other);
    struct answer c = ask(h, "POST", path_of(other, "/cancel"), NULL);
    assert_string_equal(text_of(&c, "status"), "CANCELLED");
    client_answer_release(&c);
}

static void an_action_without_effect_still_keeps_its_key(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    const char *key = "Idempotency-Key: resume-nothing\r\n";
    struct answer a = ask_with(h, h->key, "POST", path_of(id, "/resume"), key, NULL);
    assert_status(&a, 200);
    assert_int_equal(number_of(&a, "version"), 1);
    struct answer b = ask_with(h, h->key, "POST", path_of(id, "/resume"), key, NULL);
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    assert_problem(ask_with(h, h->key, "POST", path_of(id, "/resume"), key, "{}"), 422, "idempotency-key-reused", "");
    client_answer_release(&a);
    client_answer_release(&b);
}

static void an_edit_that_meets_another_is_done_again(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    h->conflicts = 3;
    struct answer a = ask(h, "PATCH", path_of(id, ""), "{\"priority\":1}");
    assert_status(&a, 200);
    assert_int_equal(h->conflicts, 0);
    client_answer_release(&a);
    h->conflicts = 100;
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"priority\":2}"), 409, "conflict", "first");
    assert_int_equal(h->conflicts, 92);
    h->conflicts = 0;
    h->broken = ERR_UNAVAILABLE;
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"priority\":3}"), 503, "unavailable", "");
    h->broken = ERR_OK;
}

/* If the answer to a change was lost, the scheduler is nudged, because the change may have been written. Without the
 * nudge it would find the task at its next safety poll. */
static void a_change_whose_answer_was_lost_is_looked_after(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], yearly[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", yearly);
    static const struct {
        const char *method, *tail, *body;
        size_t nudges; /* run-now of a recurring task nudges two: the task, and the new occurrence */
    } rows[] = {
        { "POST", "/run-now", NULL, 1 },
        { "PATCH", "", "{\"priority\":1}", 1 },
        { "PATCH", "", "{\"priority\":2}", 1 },
        { "POST", "/run-now", NULL, 2 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        const char *path = path_of(i < 2 ? id : yearly, rows[i].tail);
        int64_t before_ms = clock_wall_ms(clock_system());
        size_t nudged = h->nudged;
        h->lost = true;
        assert_problem(ask(h, rows[i].method, path, rows[i].body), 503, "unavailable", "");
        h->lost = false;
        assert_int_equal(h->nudged, nudged + rows[i].nudges);
        int64_t now_ms = clock_wall_ms(clock_system()); /* the withdrawal set the cursor back: it may be due now */
        assert_true(h->nudged_ms <= now_ms && h->nudged_ms >= before_ms - 60000);
    }
    h->broken = ERR_LIMIT; /* known not to be written: no nudge */
    size_t nudged = h->nudged;
    assert_changed("PATCH", path_of(id, ""), "{\"priority\":3}", 400);
    h->broken = ERR_OK;
    assert_int_equal(h->nudged, nudged);
}

static void a_claimed_task_is_asked_back_from_its_owner(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    harness_claim_until(h, INT64_MAX / 2);
    struct answer shown = ask(h, "GET", path_of(id, ""), NULL);
    assert_string_equal(text_of(&shown, "status"), "SCHEDULED"); /* claimed, but not fired yet */
    client_answer_release(&shown);
    h->recall_result = RECALL_DONE;
    h->recalls = 0;
    const char *key = "Idempotency-Key: recalled\r\n";
    struct answer a = ask_with(h, h->key, "POST", path_of(id, "/pause"), key, NULL);
    struct answer b = ask_with(h, h->key, "POST", path_of(id, "/pause"), key, NULL);
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "status"), "PAUSED");
    assert_int_equal(h->recalls, 1);
    assert_false(h->recall_abort);
    assert_string_equal(buf_cstr(&a.body), buf_cstr(&b.body));
    struct answer now = ask(h, "GET", path_of(id, ""), NULL);
    assert_string_equal(text_of(&now, "status"), "PAUSED");
    client_answer_release(&a);
    client_answer_release(&b);
    client_answer_release(&now);
}

static void a_recalled_edit_and_the_record_of_its_key_are_one_transaction(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_DONE;
    h->recall_breaks = true; /* no other write follows the recall */
    const char *head = "Idempotency-Key: together\r\nIf-Match: \"1\"\r\n";
    struct answer a = ask_with(h, h->key, "PATCH", path_of(id, ""), head, "{\"priority\":9}");
    h->recall_breaks = false;
    h->broken = ERR_OK;
    assert_status(&a, 200);
    struct answer b = ask_with(h, h->key, "PATCH", path_of(id, ""), head, "{\"priority\":9}");
    assert_status(&b, 200); /* not 412: the record answers */
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    assert_string_equal(buf_cstr(&a.body), buf_cstr(&b.body));
    client_answer_release(&a);
    client_answer_release(&b);
}

static void a_recall_whose_key_has_a_record_is_answered_by_that(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_ANSWERED; /* but the store has no such record */
    const char *head = "Idempotency-Key: elsewhere\r\n";
    assert_problem(ask_with(h, h->key, "POST", path_of(id, "/pause"), head, NULL), 409, "request-in-flight",
                   "send the request again");
    h->recall_result = RECALL_DONE;
}

static void a_running_task_stays_when_its_owner_says_so(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recalls = 0;
    assert_problem(ask(h, "POST", path_of(id, "/pause"), NULL), 409, "running", "RUNNING"); /* the core refuses it */
    assert_problem(ask(h, "PATCH", path_of(id, ""), "{\"name\":\"z\"}"), 409, "running", "");
    assert_int_equal(h->recalls, 0);
    h->recall_result = RECALL_RUNNING;
    h->recall_known = true;
    assert_problem(ask(h, "POST", path_of(id, "/cancel"), NULL), 409, "running", "read it again");
    assert_int_equal(h->recalls, 1);
    assert_true(h->recall_abort);
    h->recall_known = false;
    h->recall_result = RECALL_ABORTING; /* but the task never ends */
    assert_problem(ask(h, "POST", path_of(id, "/cancel"), NULL), 409, "running", "read it again");
    assert_int_equal(h->recalls, 2);
    struct answer x = ask(h, "GET", path_of(id, "/executions"), NULL);
    json_t *first = json_array_get(json_object_get(x.json, "executions"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "status")), "RUNNING");
    assert_int_equal(json_integer_value(json_object_get(first, "attempt_number")), 1);
    client_answer_release(&x);
}

static void an_owner_that_does_not_answer_is_not_waited_for(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recall_silent = true;
    assert_problem(ask(h, "POST", path_of(id, "/cancel"), NULL), 409, "running", "has not answered yet");
    h->recall_silent = false;
    struct recall_answer *late = h->recall_waiting;
    assert_int_equal(atomic_load(&late->state), RECALL_GIVEN_UP);
    late->result = RECALL_DONE;
    late->done(late); /* the late answer has no effect */
}

static int64_t steady_ms(void)
{
    return clock_steady_ns(clock_system()) / 1000000;
}

/* The owner has taken the task off its wheel. After a while the store tells it that the change is written. */
static void *confirm_slowly(void *context)
{
    (void)context;
    while (!h->recall_waiting)
        sched_yield();
    struct recall_answer *answer = h->recall_waiting;
    atomic_store(&answer->state, RECALL_TAKEN);
    for (int64_t until_ms = steady_ms() + 400; steady_ms() < until_ms;) /* more than recall_ms */
        sched_yield();
    answer->result = RECALL_DONE;
    answer->known = true;
    answer->done(answer);
    return NULL;
}

static void a_task_that_was_taken_back_is_waited_for_while_the_store_stalls(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recall_waiting = NULL;
    h->recall_silent = true;
    pthread_t thread;
    pthread_create(&thread, NULL, confirm_slowly, NULL);
    int64_t begun_ms = steady_ms();
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    pthread_join(thread, NULL);
    h->recall_silent = false;
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "status"), "CANCELLED");
    assert_in_range(steady_ms() - begun_ms, 390, 1000);
    client_answer_release(&a);
}

static void *take_and_say_nothing(void *context)
{
    (void)context;
    while (!h->recall_waiting)
        sched_yield();
    atomic_store(&h->recall_waiting->state, RECALL_TAKEN);
    return NULL;
}

static void a_store_that_stalls_for_long_is_no_running_task(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recall_waiting = NULL;
    h->recall_silent = true;
    pthread_t thread;
    pthread_create(&thread, NULL, take_and_say_nothing, NULL);
    assert_problem(ask(h, "POST", path_of(id, "/cancel"), NULL), 503, "unavailable", "read the task again");
    pthread_join(thread, NULL);
    h->recall_silent = false;
    struct recall_answer *late = h->recall_waiting;
    late->result = RECALL_DONE;
    late->done(late); /* the late answer has no effect */
}

/* It cannot have fired. Another node has it, and is slow to give it back because the store is. */
static void a_task_that_is_not_due_yet_is_waited_for_longer(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_silent = true;
    int64_t begun_ms = steady_ms();
    assert_problem(ask(h, "POST", path_of(id, "/cancel"), NULL), 409, "running", "has not answered yet");
    assert_in_range(steady_ms() - begun_ms, 1100, 2000);
    h->recall_silent = false;
    struct recall_answer *late = h->recall_waiting;
    assert_int_equal(atomic_load(&late->state), RECALL_GIVEN_UP);
    late->done(late);
}

/* Settles a RUNNING task, as the updater would. */
static void settle_as(const char *id, enum task_state next)
{
    struct settlement v = { .fence = 1, .verdict = { .next = next, .attempts = 1, .has_execution = true } };
    assert_true(uuid_parse(str_from(id), &v.id));
    v.verdict.execution = (struct execution){ .tenant = 1, .task = v.id, .attempt = 1, .fence = 1, .error = S("boom") };
    v.verdict.execution.id = uuid_derived(1, str_from(id));
    v.verdict.execution.status = next == TASK_COMPLETED ? EXECUTION_COMPLETED : EXECUTION_FAILED;
    v.verdict.execution.started_us = v.verdict.execution.completed_us = 1700000000000000;
    struct op_settle op = { .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = 1700000000000 };
    arena_init(&op.op.arena, 1 << 20);
    harness_apply(h, &op.op);
    assert_int_equal(op.op.rc, ERR_OK);
    assert_false(v.stale);
    arena_release(&op.op.arena);
}

static void *settle_soon(void *id)
{
    while (h->recalls == 0)
        sched_yield();
    settle_as(id, TASK_CANCELLED);
    return NULL;
}

static void a_cancelled_call_is_waited_for_until_it_ends(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recalls = 0;
    h->recall_result = RECALL_ABORTING;
    pthread_t thread;
    pthread_create(&thread, NULL, settle_soon, id);
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    pthread_join(thread, NULL);
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "status"), "CANCELLED");
    client_answer_release(&a);
}

/* As if the clock had been set forward and back: the spawner has decided on two hours to come. */
static int64_t decide_two_hours(const char *id)
{
    cleanup_with(arena_release) struct arena a;
    struct reader *r;
    struct uuid task;
    struct task t;
    struct error e = { 0 };
    arena_init(&a, 1 << 20);
    assert_true(uuid_parse(str_from(id), &task));
    assert_ok(store_reader(h->store, &r, &e), &e);
    assert_ok(reader_get(r, 1, task, &a, &t, &e), &e);
    reader_free(r);
    struct spawn_plan plan = { .cursor_ms = t.cursor_ms + 7200000 };
    struct op_spawn op = {
        .op = { .kind = OP_SPAWN }, .id = task, .version = t.version, .cursor_ms = t.cursor_ms, .plan = &plan
    };
    harness_apply(h, &op.op);
    assert_int_equal(op.op.rc, ERR_OK);
    return plan.cursor_ms;
}

static void what_was_decided_by_a_wrong_clock_is_not_upcoming(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], at[RFC3339_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"interval_seconds\":60,\"queue\":\"clock\"}", id);
    rfc3339_format(decide_two_hours(id), at);
    struct answer one = ask(h, "GET", path_of(id, "/upcoming?count=1"), NULL);
    struct answer all = ask(h, "GET", "/v1/upcoming?queue=clock", NULL), shown = ask(h, "GET", path_of(id, ""), NULL);
    json_t *fire = json_array_get(json_object_get(one.json, "upcoming"), 0);
    assert_string_equal(json_string_value(json_object_get(fire, "at")), at);
    assert_int_equal(json_array_size(json_object_get(all.json, "upcoming")), 0);
    assert_string_equal(text_of(&shown, "next_execution"), at);
    client_answer_release(&one);
    client_answer_release(&all);
    client_answer_release(&shown);
}

static void what_failed_for_good_is_a_dead_letter(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"name\":\"dead\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    settle_as(id, TASK_FAILED);
    struct answer a = ask(h, "GET", "/v1/dlq?name=dead", NULL);
    assert_status(&a, 200);
    json_t *first = json_array_get(json_object_get(a.json, "tasks"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), id);
    struct answer x = ask(h, "GET", path_of(id, "/executions?status=FAILED&limit=5"), NULL);
    assert_int_equal(json_array_size(json_object_get(x.json, "executions")), 1);
    struct answer none = ask(h, "GET", path_of(id, "/executions?status=completed,lost"), NULL);
    assert_int_equal(json_array_size(json_object_get(none.json, "executions")), 0);
    struct answer t = ask(h, "GET", path_of(id, ""), NULL);
    assert_int_equal(json_array_size(json_object_get(t.json, "executions")), 1);
    assert_problem(ask(h, "GET", path_of(id, "/executions?status=RUNNING"), NULL), 400, "invalid-request", "RUNNING");
    struct answer r = ask(h, "POST", path_of(id, "/retry"), NULL);
    assert_status(&r, 200);
    assert_string_equal(text_of(&r, "status"), "SCHEDULED");
    struct answer *all[] = { &a, &x, &none, &t, &r };
    for (size_t i = 0; i < array_count(all); i++)
        client_answer_release(all[i]);
}

static void recurring_tasks_have_a_view_of_their_own(void **state)
{
    (void)state;
    struct answer a = ask(h, "POST", "/v1/recurring-tasks", HOURLY);
    assert_status(&a, 201);
    assert_string_equal(text_of(&a, "type"), "RECURRING");
    char id[UUID_TEXT + 1], once[UUID_TEXT + 1], path[128];
    snprintf(id, sizeof id, "%s", text_of(&a, "id"));
    client_answer_release(&a);
    client_create(h, NOOP_FAR, once);
    assert_problem(ask(h, "POST", "/v1/tasks/recurring", NOOP_FAR), 400, "invalid-request", "cron_expression");
    snprintf(path, sizeof path, "/v1/recurring-tasks/%s", once);
    assert_problem(ask(h, "GET", path, NULL), 404, "not-found", "recurring");
    assert_problem(ask(h, "DELETE", path, NULL), 404, "not-found", "recurring");
    static const struct {
        const char *method, *tail, *body;
        int status;
    } rows[] = {
        { "GET", "", NULL, 200 },
        { "PATCH", "", "{\"cron_expression\":\"5 * * * *\"}", 200 },
        { "PATCH", "", "{\"name\":\"other\"}", 200 },
        { "POST", "/pause", NULL, 200 },
        { "POST", "/resume", NULL, 200 },
        { "POST", "/trigger-now", NULL, 200 },
        { "GET", "/trigger-now", NULL, 405 },
        { "DELETE", "", NULL, 204 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        snprintf(path, sizeof path, "/v1/recurring-tasks/%s%s", id, rows[i].tail);
        struct answer r = ask(h, rows[i].method, path, rows[i].body);
        assert_status(&r, rows[i].status);
        client_answer_release(&r);
    }
}

static void run_now_of_a_recurring_task_spawns_an_occurrence(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, HOURLY, id);
    struct answer a = ask(h, "POST", path_of(id, "/run-now"), NULL);
    assert_status(&a, 200);
    const char *occurrence = text_of(&a, "occurrence_id");
    struct answer l = ask(h, "GET", path_of(id, "/occurrences?status=SCHEDULED&limit=3"), NULL);
    assert_status(&l, 200);
    json_t *first = json_array_get(json_object_get(l.json, "tasks"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), occurrence);
    struct answer one = ask(h, "GET", path_of(occurrence, ""), NULL);
    assert_status(&one, 200);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    struct answer x = ask(h, "GET", path_of(occurrence, "/executions"), NULL);
    first = json_array_get(json_object_get(x.json, "executions"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "task_id")), id);
    assert_string_equal(json_string_value(json_object_get(first, "occurrence_id")), occurrence);
    assert_problem(ask(h, "GET", path_of(occurrence, "/occurrences"), NULL), 404, "not-found", "recurring");
    assert_problem(ask(h, "GET", path_of(id, "/occurrences?name=x"), NULL), 400, "invalid-request", "name");
    struct answer *all[] = { &a, &l, &one, &x };
    for (size_t i = 0; i < array_count(all); i++)
        client_answer_release(all[i]);
}

/* Makes an occurrence by hand one of the schedule. */
static void count_as_spawned(const char *id)
{
    struct error e = { 0 };
    struct reader *r = NULL;
    struct task t;
    struct uuid task_id;
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 1 << 20);
    assert_true(uuid_parse(str_from(id), &task_id));
    assert_int_equal(store_reader(h->store, &r, &e), ERR_OK);
    assert_int_equal(reader_get(r, 1, task_id, &arena, &t, &e), ERR_OK);
    reader_free(r);
    t.runs_count = 1;
    struct op_put put = {
        .op = { .kind = OP_PUT }, .task = &t, .version = t.version, .fence = t.fence, .state = t.state
    };
    harness_apply(h, &put.op);
    assert_int_equal(put.op.rc, ERR_OK);
}

/* Creates and claims one occurrence of a recurring task; returns its id. */
static void run_and_claim(const char *task, bool by_hand, char ret_id[UUID_TEXT + 1])
{
    struct answer a = ask(h, "POST", path_of(task, "/run-now"), NULL);
    assert_status(&a, 200);
    snprintf(ret_id, UUID_TEXT + 1, "%s", text_of(&a, "occurrence_id"));
    client_answer_release(&a);
    if (!by_hand)
        count_as_spawned(ret_id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recalls = 0;
}

static void assert_occurrence(const char *id, const char *state, int64_t priority, const char *error)
{
    struct answer a = ask(h, "GET", path_of(id, ""), NULL);
    assert_string_equal(text_of(&a, "status"), state);
    assert_int_equal(number_of(&a, "priority"), priority);
    if (error)
        assert_string_equal(text_of(&a, "last_error"), error);
    client_answer_release(&a);
}

static void a_changed_recurring_task_takes_back_what_is_claimed_of_it(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], occurrence[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    h->recall_result = RECALL_DONE;
    run_and_claim(id, false, occurrence);
    assert_changed("PATCH", path_of(id, ""), "{\"priority\":6}", 200);
    assert_int_equal(h->recalls, 1);
    assert_false(h->recall_abort);
    assert_occurrence(occurrence, "SCHEDULED", 6, NULL); /* it goes on, with the fields that its task has now */

    harness_claim_until(h, clock_wall_ms(clock_system()));
    assert_changed("POST", path_of(id, "/pause"), NULL, 200);
    assert_problem(ask(h, "GET", path_of(occurrence, ""), NULL), 404, "not-found", ""); /* it is withdrawn */
    assert_changed("POST", path_of(id, "/resume"), NULL, 200);

    run_and_claim(id, false, occurrence);
    assert_changed("POST", path_of(id, "/cancel"), NULL, 200);
    assert_occurrence(occurrence, "CANCELLED", 6, "its schedule was cancelled");
}

static void a_pause_leaves_what_a_user_asked_for(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], occurrence[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    h->recall_result = RECALL_DONE;
    run_and_claim(id, true, occurrence);
    assert_changed("POST", path_of(id, "/pause"), NULL, 200);
    assert_int_equal(h->recalls, 0);
    assert_occurrence(occurrence, "RUNNING", 5, NULL);
    assert_changed("POST", path_of(id, "/cancel"), NULL, 200);
    assert_occurrence(occurrence, "CANCELLED", 5, "its schedule was cancelled");
}

static void a_claim_that_its_owner_has_yet_to_hear_of_is_asked_for_again(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], occurrence[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    h->recall_result = RECALL_RUNNING;
    run_and_claim(id, false, occurrence);
    assert_changed("POST", path_of(id, "/pause"), NULL, 200); /* the change is made, whatever the owner answers */
    assert_true(h->recalls > 1);
    assert_occurrence(occurrence, "RUNNING", 5, NULL);

    assert_changed("POST", path_of(id, "/resume"), NULL, 200);
    h->recall_known = true; /* the occurrence runs */
    h->recalls = 0;
    assert_changed("DELETE", path_of(id, ""), NULL, 204);
    assert_int_equal(h->recalls, 1);
    h->recall_known = false;
}

/* Whoever was first may still be asking, or is dead: the answer promises that nothing of the task starts. */
static void a_repeated_stop_takes_back_what_the_first_has_left(void **state)
{
    (void)state;
    static const char *const stops[] = { "/pause", "/cancel" };
    for (size_t i = 0; i < array_count(stops); i++) {
        char id[UUID_TEXT + 1], occurrence[UUID_TEXT + 1];
        client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
        run_and_claim(id, false, occurrence);
        h->recall_result = RECALL_RUNNING;
        assert_changed("POST", path_of(id, stops[i]), NULL, 200);
        assert_occurrence(occurrence, "RUNNING", 5, NULL);
        h->recall_result = RECALL_DONE;
        h->recalls = 0;
        assert_changed("POST", path_of(id, stops[i]), NULL, 200);
        assert_int_equal(h->recalls, 1);
        if (i)
            assert_occurrence(occurrence, "CANCELLED", 5, "its schedule was cancelled");
        else
            assert_problem(ask(h, "GET", path_of(occurrence, ""), NULL), 404, "not-found", ""); /* it is withdrawn */
    }
}

/* ---- a task that another node holds ---- */

static void what_another_node_gives_back_is_changed_and_keeps_its_time(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    struct answer before = ask(h, "GET", path_of(id, ""), NULL);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_FREED;
    h->freed_as = TASK_SCHEDULED;
    h->freed_attempts = 0;
    h->recalls = 0;
    const char *head = "Idempotency-Key: far away\r\nIf-Match: \"1\"\r\n";
    struct answer a = ask_with(h, h->key, "PATCH", path_of(id, ""), head, "{\"priority\":9}");
    assert_status(&a, 200);
    assert_int_equal(number_of(&a, "priority"), 9);
    assert_string_equal(text_of(&a, "next_execution"), text_of(&before, "next_execution"));
    assert_int_equal(h->recalls, 1);
    struct answer b = ask_with(h, h->key, "PATCH", path_of(id, ""), head, "{\"priority\":9}");
    assert_status(&b, 200);
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    client_answer_release(&before);
    client_answer_release(&a);
    client_answer_release(&b);
}

static void what_has_run_on_another_node_meanwhile_keeps_its_attempts(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, NOOP_FAR, id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_FREED;
    h->freed_as = TASK_SCHEDULED;
    h->freed_attempts = 1;
    assert_changed("PATCH", path_of(id, ""), "{\"priority\":9}", 200);
    struct answer a = ask(h, "GET", path_of(id, ""), NULL);
    assert_int_equal(number_of(&a, "attempts"), 1);
    assert_int_equal(number_of(&a, "priority"), 9);
    client_answer_release(&a);
    h->freed_attempts = 0;
}

static void what_is_cancelled_on_another_node_is_cancelled(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recall_result = RECALL_FREED;
    h->freed_as = TASK_CANCELLED;
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "status"), "CANCELLED");
    assert_true(h->recall_abort);
    client_answer_release(&a);
}

static void occurrences_that_another_node_gives_back_are_withdrawn(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1], occurrence[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    h->recall_result = RECALL_FREED;
    h->freed_as = TASK_SCHEDULED;
    run_and_claim(id, false, occurrence);
    assert_changed("PATCH", path_of(id, ""), "{\"priority\":6}", 200);
    assert_int_equal(h->recalls, 1);
    assert_occurrence(occurrence, "SCHEDULED", 6, NULL);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    assert_changed("POST", path_of(id, "/pause"), NULL, 200);
    assert_problem(ask(h, "GET", path_of(occurrence, ""), NULL), 404, "not-found", "");
    h->recall_result = RECALL_DONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_changes_what_it_names_and_counts),
        cmocka_unit_test(if_match_guards_edits),
        cmocka_unit_test(a_deleted_task_is_gone_and_its_answer_is_kept),
        cmocka_unit_test(actions_move_a_task_through_its_states),
        cmocka_unit_test(an_action_without_effect_still_keeps_its_key),
        cmocka_unit_test(an_edit_that_meets_another_is_done_again),
        cmocka_unit_test(a_change_whose_answer_was_lost_is_looked_after),
        cmocka_unit_test(a_claimed_task_is_asked_back_from_its_owner),
        cmocka_unit_test(a_recalled_edit_and_the_record_of_its_key_are_one_transaction),
        cmocka_unit_test(a_recall_whose_key_has_a_record_is_answered_by_that),
        cmocka_unit_test(a_running_task_stays_when_its_owner_says_so),
        cmocka_unit_test(an_owner_that_does_not_answer_is_not_waited_for),
        cmocka_unit_test(a_task_that_was_taken_back_is_waited_for_while_the_store_stalls),
        cmocka_unit_test(a_store_that_stalls_for_long_is_no_running_task),
        cmocka_unit_test(a_task_that_is_not_due_yet_is_waited_for_longer),
        cmocka_unit_test(a_cancelled_call_is_waited_for_until_it_ends),
        cmocka_unit_test(a_changed_recurring_task_takes_back_what_is_claimed_of_it),
        cmocka_unit_test(what_another_node_gives_back_is_changed_and_keeps_its_time),
        cmocka_unit_test(what_has_run_on_another_node_meanwhile_keeps_its_attempts),
        cmocka_unit_test(what_is_cancelled_on_another_node_is_cancelled),
        cmocka_unit_test(occurrences_that_another_node_gives_back_are_withdrawn),
        cmocka_unit_test(a_pause_leaves_what_a_user_asked_for),
        cmocka_unit_test(a_claim_that_its_owner_has_yet_to_hear_of_is_asked_for_again),
        cmocka_unit_test(a_repeated_stop_takes_back_what_the_first_has_left),
        cmocka_unit_test(what_was_decided_by_a_wrong_clock_is_not_upcoming),
        cmocka_unit_test(what_failed_for_good_is_a_dead_letter),
        cmocka_unit_test(recurring_tasks_have_a_view_of_their_own),
        cmocka_unit_test(run_now_of_a_recurring_task_spawns_an_occurrence),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
