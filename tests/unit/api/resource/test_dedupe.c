/* Creates with a dedupe key: the task is found, moved, or its key taken over; also while other requests come in
 * between. */
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

#define FAR(key, more) "{\"target_type\":\"NOOP\",\"run_at\":\"" FAR_FUTURE "\",\"dedupe_key\":\"" key "\"" more "}"
#define LATER          "2099-06-01T00:00:00.000Z"
#define MOVE(key, at)                                                                                                  \
    "{\"target_type\":\"NOOP\",\"run_at\":\"" at "\",\"dedupe_key\":\"" key "\",\"dedupe_action\":\"RESCHEDULE\"}"

static bool was_found(const struct answer *a)
{
    return json_is_true(json_object_get(a->json, "deduplicated"));
}

static struct answer create(const char *body)
{
    return ask(h, "POST", "/v1/tasks", body);
}

static void assert_task(const char *id, const char *field, const char *expected)
{
    struct answer a = ask(h, "GET", path_of(id, ""), NULL);
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, field), expected);
    client_answer_release(&a);
}

static int64_t counted(enum metric m)
{
    return metric_count(h->metrics, m);
}

/* ---- one task ---- */

static void the_second_create_is_answered_with_the_first_task(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("return", ""), id);
    int64_t made = counted(METRIC_TASKS_SCHEDULED), found = counted(METRIC_TASKS_DEDUPLICATED);
    struct answer a = create(FAR("return", ",\"name\":\"other\""));
    assert_status(&a, 200);
    assert_true(was_found(&a));
    assert_string_equal(text_of(&a, "id"), id);
    assert_string_equal(text_of(&a, "name"), "");
    assert_string_equal(header_of(&a, "ETag"), "\"1\"");
    assert_string_equal(header_of(&a, "Location"), "");
    client_answer_release(&a);
    assert_int_equal(counted(METRIC_TASKS_SCHEDULED), made);
    assert_int_equal(counted(METRIC_TASKS_DEDUPLICATED), found + 1);
    struct answer other = create(FAR("return 2", ""));
    assert_status(&other, 201);
    assert_false(was_found(&other));
    client_answer_release(&other);
}

static void a_task_that_has_not_fired_is_moved(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("move", ""), id);
    size_t nudged = h->nudged;
    struct answer a = create(MOVE("move", LATER));
    assert_status(&a, 200);
    assert_true(was_found(&a));
    assert_string_equal(text_of(&a, "id"), id);
    assert_string_equal(text_of(&a, "run_at"), LATER);
    assert_int_equal(number_of(&a, "version"), 2);
    assert_int_equal(h->nudged, nudged + 1);
    struct answer b = create(MOVE("move", LATER)); /* the task exists already */
    assert_status(&b, 200);
    assert_int_equal(number_of(&b, "version"), 2);
    client_answer_release(&a);
    client_answer_release(&b);
    assert_task(id, "run_at", LATER);
}

static void what_is_over_leaves_its_key_to_the_next(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("over", ""), id);
    struct answer c = ask(h, "POST", path_of(id, "/cancel"), NULL);
    client_answer_release(&c);
    struct answer found = create(FAR("over", ""));
    assert_status(&found, 200);
    assert_string_equal(text_of(&found, "status"), "CANCELLED");
    struct answer a = create(MOVE("over", LATER));
    assert_status(&a, 201);
    assert_string_not_equal(text_of(&a, "id"), id);
    struct answer b = create(FAR("over", ""));
    assert_string_equal(text_of(&b, "id"), text_of(&a, "id"));
    client_answer_release(&found);
    client_answer_release(&a);
    client_answer_release(&b);
}

/* ---- other requests in between ---- */

struct asked {
    const char *body;
    struct answer answer;
};

static void *ask_held(void *asked)
{
    struct asked *a = asked;
    a->answer = create(a->body);
    return NULL;
}

/* Both requests have read before either has written. */
static void ask_both_at_once(struct asked two[2])
{
    pthread_t threads[2];
    h->hold = true;
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, ask_held, &two[i]);
    while (harness_held(h) < 2)
        sched_yield();
    harness_release_held(h);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void assert_one_was_made(struct asked two[2])
{
    assert_int_equal(two[0].answer.status + two[1].answer.status, 401);
    assert_string_equal(text_of(&two[0].answer, "id"), text_of(&two[1].answer, "id"));
    client_answer_release(&two[0].answer);
    client_answer_release(&two[1].answer);
}

static void of_two_that_come_at_once_one_is_made(void **state)
{
    (void)state;
    struct asked two[2] = { { .body = FAR("race", "") }, { .body = FAR("race", "") } };
    ask_both_at_once(two);
    assert_one_was_made(two);
}

static void of_two_that_take_a_key_over_at_once_one_does(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("heirs", ""), id);
    struct answer c = ask(h, "POST", path_of(id, "/cancel"), NULL);
    client_answer_release(&c);
    struct asked two[2] = { { .body = MOVE("heirs", LATER) }, { .body = MOVE("heirs", LATER) } };
    ask_both_at_once(two);
    assert_one_was_made(two);
}

static void a_move_that_meets_another_change_is_done_again(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("busy", ""), id);
    h->conflicts = 3;
    struct answer a = create(MOVE("busy", LATER));
    assert_status(&a, 200);
    assert_int_equal(h->conflicts, 0);
    client_answer_release(&a);
    h->conflicts = 100;
    assert_problem(create(MOVE("busy", FAR_FUTURE)), 409, "conflict", "first");
    assert_int_equal(h->conflicts, 68);
    h->conflicts = 0;
    assert_task(id, "run_at", LATER);
}

static void a_store_that_fails_is_no_answer(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("sick", ""), id);
    h->broken = ERR_UNAVAILABLE;
    assert_problem(create(MOVE("sick", LATER)), 503, "unavailable", "");
    assert_problem(create(FAR("sick too", "")), 503, "unavailable", "");
    h->broken = ERR_OK;
    for (int reads = 0; reads < 2; reads++) { /* one read for the key, one for the task */
        h->reads_before_broken = reads;
        assert_problem(create(FAR("sick", "")), 503, "unavailable", "");
        h->reads_before_broken = INT_MAX;
    }
    assert_task(id, "run_at", FAR_FUTURE);
}

/* ---- claimed tasks ---- */

static void a_claimed_task_is_asked_back_and_moved(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("claimed", ""), id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_DONE;
    h->recalls = 0;
    const char *key = "Idempotency-Key: moved-claimed\r\n";
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks", key, MOVE("claimed", LATER));
    struct answer b = ask_with(h, h->key, "POST", "/v1/tasks", key, MOVE("claimed", LATER));
    assert_status(&a, 200);
    assert_string_equal(text_of(&a, "id"), id);
    assert_int_equal(h->recalls, 1);
    assert_false(h->recall_abort);
    assert_string_equal(buf_cstr(&a.body), buf_cstr(&b.body));
    assert_string_equal(header_of(&b, "Idempotency-Replayed"), "true");
    client_answer_release(&a);
    client_answer_release(&b);
    assert_task(id, "run_at", LATER);
    assert_task(id, "status", "SCHEDULED");
    struct answer back = create(MOVE("claimed", FAR_FUTURE));
    client_answer_release(&back);
    harness_claim_until(h, INT64_MAX / 2);
    struct answer c = ask_with(h, h->key, "POST", "/v1/tasks", key, MOVE("claimed", LATER));
    assert_string_equal(header_of(&c, "Idempotency-Replayed"), "true");
    assert_int_equal(h->recalls, 1); /* the idempotency key has a record: nothing is done again */
    client_answer_release(&c);
    assert_task(id, "run_at", FAR_FUTURE);
}

static void a_task_that_is_not_given_back_counts_as_fired(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, FAR("kept", ""), id);
    harness_claim_until(h, INT64_MAX / 2);
    h->recall_result = RECALL_RUNNING;
    h->recalls = 0;
    struct answer a = create(MOVE("kept", LATER));
    assert_status(&a, 201);
    assert_string_not_equal(text_of(&a, "id"), id);
    assert_true(h->recalls > 1); /* it was recalled until the time was up */
    client_answer_release(&a);
    assert_task(id, "run_at", FAR_FUTURE);
    h->recall_silent = true;
    client_create(h, FAR("silent", ""), id);
    harness_claim_until(h, INT64_MAX / 2);
    struct answer b = create(MOVE("silent", LATER));
    assert_status(&b, 201);
    client_answer_release(&b);
    h->recall_silent = false;
    struct recall_answer *late = h->recall_waiting;
    late->done(late); /* too late: no request waits for this answer */
}

static void a_task_that_runs_is_not_moved(void **state)
{
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"dedupe_key\":\"runs\"}", id);
    harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recalls = 0;
    struct answer a = create(MOVE("runs", LATER)), b = create(MOVE("runs", FAR_FUTURE));
    assert_status(&a, 201);
    assert_status(&b, 200);
    assert_string_equal(text_of(&a, "id"), text_of(&b, "id"));
    assert_int_equal(h->recalls, 0);
    client_answer_release(&a);
    client_answer_release(&b);
}

/* ---- idempotency keys ---- */

static void the_answer_that_was_given_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *key, *body;
        int status;
    } rows[] = {
        { "Idempotency-Key: i1\r\n", FAR("i", ""), 201 },
        { "Idempotency-Key: i2\r\n", FAR("i", ""), 200 },
        { "Idempotency-Key: i3\r\n", MOVE("i", LATER), 200 },
        { "Idempotency-Key: i4\r\n", MOVE("i", LATER), 200 }, /* only the record is written */
    };
    struct answer first[array_count(rows)];
    for (size_t i = 0; i < array_count(rows); i++) {
        first[i] = ask_with(h, h->key, "POST", "/v1/tasks", rows[i].key, rows[i].body);
        assert_status(&first[i], rows[i].status);
    }
    for (size_t i = 0; i < array_count(rows); i++) {
        struct answer again = ask_with(h, h->key, "POST", "/v1/tasks", rows[i].key, rows[i].body);
        assert_status(&again, rows[i].status);
        assert_string_equal(buf_cstr(&again.body), buf_cstr(&first[i].body));
        assert_string_equal(header_of(&again, "Idempotency-Replayed"), "true");
        client_answer_release(&again);
        client_answer_release(&first[i]);
    }
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", rows[0].key, FAR("j", "")), 422, "idempotency-key-reused",
                   "");
}

/* ---- batches ---- */

static void a_batch_moves_many_and_makes_the_rest(void **state)
{
    (void)state;
    char ids[3][UUID_TEXT + 1];
    client_create(h, FAR("b0", ""), ids[0]);
    client_create(h, FAR("b1", ""), ids[1]);
    client_create(h, FAR("b2", ""), ids[2]);
    harness_claim_until(h, INT64_MAX / 2); /* claims all of them; two are given back */
    h->recall_result = RECALL_DONE;
    struct answer p = ask(h, "POST", path_of(ids[0], "/pause"), NULL),
                  r = ask(h, "POST", path_of(ids[1], "/pause"), NULL);
    client_answer_release(&p);
    client_answer_release(&r);
    h->recalls = 0;
    struct answer a = ask(h, "POST", "/v1/tasks/batch",
                          "[" MOVE("b0", LATER) "," MOVE("b1", LATER) "," MOVE("b2", LATER) "," FAR("b3", "") "," FAR(
                              "b3", "") ",{\"dedupe_action\":\"RETURN\",\"target_type\":\"NOOP\"}]");
    assert_status(&a, 201);
    assert_int_equal(number_of(&a, "created"), 1);
    assert_int_equal(number_of(&a, "deduplicated"), 4);
    assert_int_equal(number_of(&a, "failed"), 1);
    assert_int_equal(h->recalls, 1);
    client_answer_release(&a);
    for (size_t i = 0; i < 3; i++)
        assert_task(ids[i], "run_at", LATER);
    assert_task(ids[0], "status", "PAUSED");
    assert_task(ids[2], "status", "SCHEDULED");
}

static void a_batch_that_meets_changes_is_decided_anew(void **state)
{
    (void)state;
    char ids[2][UUID_TEXT + 1];
    client_create(h, FAR("n0", ""), ids[0]);
    client_create(h, FAR("n1", ""), ids[1]);
    h->conflicts = 3; /* two conflicts, then one of two, then success */
    struct answer a =
        ask(h, "POST", "/v1/tasks/batch", "[" MOVE("n0", LATER) "," MOVE("n1", LATER) "," FAR("n2", "") "]");
    assert_status(&a, 201);
    assert_int_equal(h->conflicts, 0);
    assert_int_equal(number_of(&a, "created"), 1);
    assert_int_equal(number_of(&a, "deduplicated"), 2);
    client_answer_release(&a);
    for (size_t i = 0; i < 2; i++) {
        struct answer t = ask(h, "GET", path_of(ids[i], ""), NULL);
        assert_int_equal(number_of(&t, "version"), 2);
        client_answer_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_create_is_answered_with_the_first_task),
        cmocka_unit_test(a_task_that_has_not_fired_is_moved),
        cmocka_unit_test(what_is_over_leaves_its_key_to_the_next),
        cmocka_unit_test(of_two_that_come_at_once_one_is_made),
        cmocka_unit_test(of_two_that_take_a_key_over_at_once_one_does),
        cmocka_unit_test(a_move_that_meets_another_change_is_done_again),
        cmocka_unit_test(a_store_that_fails_is_no_answer),
        cmocka_unit_test(a_claimed_task_is_asked_back_and_moved),
        cmocka_unit_test(a_task_that_is_not_given_back_counts_as_fired),
        cmocka_unit_test(a_task_that_runs_is_not_moved),
        cmocka_unit_test(the_answer_that_was_given_is_kept),
        cmocka_unit_test(a_batch_moves_many_and_makes_the_rest),
        cmocka_unit_test(a_batch_that_meets_changes_is_decided_anew),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
