/* Many claimed occurrences of a recurring task that is stopped, over real sockets and the model store. How single ones
 * are taken back is in test_edit.c. */
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

static void read_task(const char *id, struct arena *a, struct task *ret)
{
    struct error e = { 0 };
    struct reader *r = NULL;
    struct uuid task;
    assert_true(uuid_parse(str_from(id), &task));
    assert_ok(store_reader(h->store, &r, &e), &e);
    assert_ok(reader_get(r, 1, task, a, ret, &e), &e);
    reader_free(r);
}

/* Creates n occurrences of the recurring task, as its schedule makes them, and claims them. */
static void claim_occurrences(const char *recurring, size_t n)
{
    struct task first;
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 1 << 22);
    struct answer a = ask(h, "POST", path_of(recurring, "/run-now"), NULL);
    assert_status(&a, 200);
    read_task(text_of(&a, "occurrence_id"), &arena, &first);
    client_answer_release(&a);
    first.runs_count = 1;
    struct task *v = arena_array(&arena, struct task, n);
    for (size_t i = 0; i < n; i++) {
        v[i] = first;
        v[i].id.b[14] ^= (uint8_t)((i + 1) >> 8);
        v[i].id.b[15] ^= (uint8_t)(i + 1);
    }
    struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = v, .count = n };
    harness_apply(h, &insert.op);
    assert_int_equal(insert.op.rc, ERR_OK);
    for (size_t left = n + 1; left > 0; left -= min_of(left, (size_t)LIST_MAX)) /* of one claim */
        harness_claim_until(h, clock_wall_ms(clock_system()));
    h->recalls = 0;
}

static size_t count_running(const char *recurring)
{
    struct answer a = ask(h, "GET", path_of(recurring, "/occurrences?status=RUNNING"), NULL);
    assert_status(&a, 200);
    size_t n = json_array_size(json_object_get(a.json, "tasks"));
    client_answer_release(&a);
    return n;
}

static void more_claimed_occurrences_than_a_list_has_are_all_taken_back(void **state)
{
    enum { OCCURRENCES = LIST_MAX + 100 };
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    claim_occurrences(id, OCCURRENCES);
    assert_true(count_running(id) > 0);
    h->recall_result = RECALL_DONE;
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    assert_status(&a, 200);
    client_answer_release(&a);
    assert_int_equal(count_running(id), 0);
    assert_int_equal(h->recalls, OCCURRENCES + 1);
}

/* Their owner has yet to hear of their claims, and the time of the request is over: each is told all the same. */
static void those_that_are_left_when_the_time_is_over_are_all_asked_for(void **state)
{
    enum { OCCURRENCES = LIST_MAX + 100 };
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    claim_occurrences(id, OCCURRENCES);
    h->recall_result = RECALL_RUNNING;
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    assert_status(&a, 200);
    client_answer_release(&a);
    assert_int_equal(h->told, OCCURRENCES + 1);
}

static void claimed_occurrences_are_listed_less_and_less_often(void **state)
{
    enum { ROUNDS = 6 }; /* in 150 ms, after 5, 10, 20, 40 and 75 ms */
    (void)state;
    char id[UUID_TEXT + 1];
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", id);
    claim_occurrences(id, 1);
    h->recall_result = RECALL_RUNNING;
    struct answer a = ask(h, "POST", path_of(id, "/cancel"), NULL);
    assert_status(&a, 200);
    client_answer_release(&a);
    assert_in_range(h->recalls, 4, 2 * (ROUNDS + 1)); /* of two occurrences; and once more when the time is over */
}

static char cancelled_meanwhile[UUID_TEXT + 1]; /* a recurring task */

static void cancel_meanwhile(struct harness *of)
{
    struct task t;
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 1 << 20);
    of->before_recall = NULL;
    read_task(cancelled_meanwhile, &arena, &t);
    t.state = TASK_CANCELLED;
    struct op_put put = { .op = { .kind = OP_PUT },
                          .task = &t,
                          .version = t.version,
                          .fence = t.fence,
                          .state = TASK_PAUSED,
                          .cursor_ms = t.cursor_ms,
                          .withdraw = true };
    harness_apply(of, &put.op);
    assert_int_equal(put.op.rc, ERR_OK);
}

/* Their node takes one back, and the cancel comes before that is stored. */
static void a_cancel_during_a_pause_leaves_no_paused_occurrence(void **state)
{
    (void)state;
    client_create(h, "{\"target_type\":\"NOOP\",\"cron_expression\":\"0 0 1 1 *\"}", cancelled_meanwhile);
    claim_occurrences(cancelled_meanwhile, 3);
    h->recall_result = RECALL_DONE;
    h->before_recall = cancel_meanwhile;
    struct answer a = ask(h, "POST", path_of(cancelled_meanwhile, "/pause"), NULL);
    assert_status(&a, 200);
    client_answer_release(&a);
    assert_true(h->recalls >= 3);
    a = ask(h, "GET", path_of(cancelled_meanwhile, "/occurrences?status=CANCELLED"), NULL);
    assert_int_equal(json_array_size(json_object_get(a.json, "tasks")), h->recalls);
    client_answer_release(&a);
    a = ask(h, "GET", path_of(cancelled_meanwhile, "/occurrences?status=PAUSED"), NULL);
    assert_int_equal(json_array_size(json_object_get(a.json, "tasks")), 0);
    client_answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_claimed_occurrences_than_a_list_has_are_all_taken_back),
        cmocka_unit_test(those_that_are_left_when_the_time_is_over_are_all_asked_for),
        cmocka_unit_test(claimed_occurrences_are_listed_less_and_less_often),
        cmocka_unit_test(a_cancel_during_a_pause_leaves_no_paused_occurrence),
    };
    return cmocka_run_group_tests_name("withdraw_occurrences", tests, start, stop);
}
