/* A queue when its broker, or the network to it, fails. */
#include <time.h>

#include "amqp_world.h"

static void what_waits_survives_a_restart_and_what_ran_lapses_once(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    let_queues_be_written_down();
    timed_out_none(w); /* connects this handle before the restart */
    struct tasks ran = take_exactly(w, 0, 1);
    rabbitmq_do("restart");
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(gone.v[0].fired && !gone.v[0].alone);
    assert_true(uuid_eq(gone.v[0].task.id, ran.v[0].id));
    struct tasks rest = take_exactly(w, 1, 2);
    assert_true(uuid_eq(rest.v[0].id, v[1].id) && uuid_eq(rest.v[1].id, v[2].id));
    take_none(w, 0);
}

static void what_a_crash_interrupted_is_all_there(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    uint64_t epoch = epoch_of(w->queue);
    let_queues_be_written_down();
    timed_out_none(w);
    take_exactly(w, 0, 1);
    rabbitmq_do("kill");
    struct error e = { 0 };
    struct pushed pushed = { .unsure = true };
    struct task t = some_task(w);
    int64_t began = rabbit_now_ms();
    assert_int_equal(try_push(w, &t, &pushed, &e), ERR_UNAVAILABLE);
    assert_false(pushed.unsure);
    assert_int_equal(try_push(w, &t, &pushed, &e), ERR_UNAVAILABLE);
    assert_true(rabbit_now_ms() - began < 4000);
    rabbitmq_do("start");
    timed_out_exactly(w, 1);
    take_exactly(w, 1, 1);
    assert_true(epoch_of(w->queue) == epoch);
}

/* A crashed broker has not recorded the new queue: it has lost it, and tells no client. */
static void what_was_pushed_to_a_queue_that_a_crash_may_have_undone_lapses(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    v[1].delivery = DELIVER_AT_MOST_ONCE;
    timed_out_none(w); /* declares the other queues first, so that the crash loses only the new one */
    let_queues_be_written_down();
    push(w, v, 2);
    rabbitmq_do("kill");
    rabbitmq_do("start");
    struct delivery_timeouts gone = timed_out_exactly(w, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(gone.v[i].fired, gone.v[i].task.delivery == DELIVER_AT_MOST_ONCE);
    timed_out_none(w);
}

static void what_was_pushed_to_a_new_queue_is_kept_no_longer_than_it_may_be_undone(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    assert_false(list_empty(&hub_of(w->queue)->new_queue_guard));
    let_queues_be_written_down();
    timed_out_none(w);
    assert_true(list_empty(&hub_of(w->queue)->new_queue_guard));
    rabbitmq_do("kill");
    rabbitmq_do("start");
    take_exactly(w, 0, 1);
    timed_out_none(w);
}

static void a_closed_connection_is_a_lapse(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    struct tasks got = take_exactly(w, 0, 1);
    rabbitmq_do("close-connections");
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(uuid_eq(gone.v[0].task.id, got.v[0].id) && gone.v[0].fired);
    ack(w, 0, &got.v[0]); /* too late: succeeds */
    take_exactly(w, 0, 1);
    timed_out_none(w);
}

/* A classic queue does not count deliveries: the worker that gets a redelivered task does not run it. */
static void a_classic_queue_lapses_too(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    struct tasks got = take_exactly(w, 0, 1);
    rabbitmq_do("close-connections");
    struct tasks next = take_exactly(w, 1, 1);
    assert_true(uuid_eq(next.v[0].id, v[1].id));
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(uuid_eq(gone.v[0].task.id, got.v[0].id) && gone.v[0].fired);
    take_none(w, 1);
}

static void wait_for_waiting(struct world *w, int64_t n)
{
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    struct queue_state now = { 0 };
    struct error e = { 0 };
    while (now.waiting != n) {
        assert_true(rabbit_now_ms() < end);
        (void)!queue_stats(w->queue, &now, &e);
    }
}

/* Its connection lives, so the broker would never take them away. */
static void a_worker_gets_its_tasks_though_redelivered_ones_cannot_be_moved(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    struct tasks before = take_exactly(w, 0, 1);
    rabbitmq_do("close-connections");
    wait_for_waiting(w, 2);
    struct queue_hub *hub = hub_of(w->workers[1]);
    struct error e = { 0 };
    struct taken got = { 0 };
    struct queue_state ignored;
    assert_ok(queue_stats(w->workers[1], &ignored, &e), &e);                         /* connects, to take */
    assert_ok(queue_abort(w->workers[1], (struct fenced_id){ .fence = 1 }, &e), &e); /* connects, to publish */
    char name[sizeof hub->timed_out_name];
    memcpy(name, hub->timed_out_name, sizeof name);
    rabbit_name(&hub->url, hub->timed_out_name, "no_such_queue");
    struct take t = take_of(2);
    assert_ok(queue_take(w->workers[1], &t, &w->arena, &got, &e), &e);
    memcpy(hub->timed_out_name, name, sizeof name);
    assert_int_equal(got.tasks.n, 1);
    assert_true(uuid_eq(got.tasks.v[0].id, v[1].id));
    take_none(w, 1);
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(uuid_eq(gone.v[0].task.id, before.v[0].id) && gone.v[0].fired);
}

static void wait_blocked(struct world *w, bool is)
{
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    struct error e = { 0 };
    while ((rabbit_connect_to_publish(&hub_of(w->queue)->push, &e) != ERR_OK) != is && rabbit_now_ms() < end)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

static void a_broker_short_of_memory_refuses_at_once_and_workers_go_on(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    struct error e = { 0 };
    struct pushed pushed = { .unsure = true };
    push(w, v, 1);
    epoch_of(w->queue);
    rabbitmq_do("alarm-on");
    wait_blocked(w, true);
    int64_t began = rabbit_now_ms();
    assert_int_equal(try_push(w, &v[1], &pushed, &e), ERR_UNAVAILABLE);
    assert_says(&e, "the broker is short of memory or disk");
    assert_false(pushed.unsure);
    struct queue *fresh = rabbitmq_queue(w->prefix, "", NULL); /* a new handle learns it before it publishes a task */
    assert_int_equal(queue_push(fresh, &v[2], 1, 0, &pushed, &e), ERR_UNAVAILABLE);
    assert_says(&e, "the broker is short of memory or disk");
    assert_false(pushed.unsure);
    assert_true(rabbit_now_ms() - began < 4000);
    queue_free(fresh);
    ack(w, 0, &take_exactly(w, 0, 1).v[0]);
    epoch_of(w->workers[0]);
    rabbitmq_do("alarm-off");
    wait_blocked(w, false);
    push(w, v + 1, 1);
    take_exactly(w, 0, 1);
    timed_out_none(w);
}

/* More data than the network buffers, while the broker does not read: the call ends all the same. */
static void an_alarm_in_the_middle_of_a_push_ends_it(void **state)
{
    struct world *w = *state;
    enum { MANY = 40, BIG = 1 << 20 };
    struct task first = some_task(w), v[MANY];
    struct error e = { 0 };
    struct pushed pushed = { 0 };
    push(w, &first, 1);
    char *big = xmalloc(BIG);
    memset(big, 'x', BIG);
    big[0] = big[BIG - 1] = '"';
    for (int i = 0; i < MANY; i++) {
        v[i] = some_task(w);
        v[i].payload = (struct str){ big, BIG };
    }
    rabbitmq_do("alarm-on");
    int64_t began = rabbit_now_ms();
    enum err rc;
    while ((rc = queue_push(w->queue, v, MANY, 0, &pushed, &e)) == ERR_OK && rabbit_now_ms() - began < ENOUGH_MS)
        began = rabbit_now_ms();
    assert_int_equal(rc, ERR_UNAVAILABLE);
    assert_true(rabbit_now_ms() - began < 6000);
    rabbitmq_do("alarm-off");
    wait_blocked(w, false);
    push(w, &first, 1);
    free(big);
}

static void what_nobody_can_read_becomes_a_dead_letter(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    char dead[128];
    push(w, &t, 1);
    publish_text(w, route_name(w), "{\"v\":1,\"what\":\"is this\"}");
    take_exactly(w, 0, 1);
    take_none(w, 0);
    snprintf(dead, sizeof dead, "%s.dead", w->prefix);
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    do
        timed_out_none(w);
    while (rabbitmq_messages(dead) != 1 && rabbit_now_ms() < end);
    assert_int_equal(rabbitmq_messages(dead), 1);
    take_none(w, 1);
}

static void a_wiped_broker_begins_another_epoch(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    struct fenced_id id = { v[0].id, v[0].fence };
    struct error e = { 0 };
    bool known = false;
    push(w, v, 1);
    uint64_t before = epoch_of(w->queue);
    assert_ok(queue_known(w->queue, &id, NULL, 1, &known, &e), &e);
    assert_true(known);
    rabbitmq_do("wipe");
    assert_true(epoch_of(w->queue) != before);
    assert_ok(queue_known(w->queue, &id, NULL, 1, &known, &e), &e);
    assert_false(known);
    assert_true(epoch_of(w->queue) == epoch_of(w->workers[0]));
    push(w, v + 1, 1);
    struct tasks got = take_exactly(w, 1, 1);
    assert_true(uuid_eq(got.v[0].id, v[1].id));
}

/* A new process, and one that ran before. */
static void what_was_pushed_before_a_wipe_is_unknown_to_who_did_not_see_it(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    struct fenced_id ids[] = { { v[0].id, v[0].fence }, { v[1].id, v[1].fence } };
    struct pushed before, after;
    struct error e = { 0 };
    bool known[2];
    assert_ok(queue_push(w->queue, v, 1, 0, &before, &e), &e);
    rabbitmq_do("wipe");
    struct queue *fresh = rabbitmq_queue(w->prefix, "", NULL);
    uint64_t now = epoch_of(fresh);
    assert_true(now != before.epoch);
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (queue_push(w->queue, v + 1, 1, before.epoch, &after, &e) == ERR_UNAVAILABLE && rabbit_now_ms() < end)
        assert_false(after.unsure);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_true(after.epoch == now && !after.unsure);
    take_none(w, 0);
    assert_ok(queue_push(w->queue, v + 1, 1, after.epoch, &after, &e), &e);
    assert_ok(queue_known(fresh, ids, (uint64_t[]){ before.epoch, after.epoch }, 2, known, &e), &e);
    assert_false(known[0]);
    assert_true(known[1]);
    queue_free(fresh);
    take_exactly(w, 0, 1);
}

static void of_several_hosts_the_one_that_answers_serves(void **state)
{
    struct world *w = *state;
    const char *server = rabbitmq_server(), *at = strchr(server, '@'), *slash = strchr(at, '/');
    char url[RABBITMQ_URL];
    snprintf(url, sizeof url, "%.*s@127.0.0.1:1,%.*s%s?prefix=%s", (int)(at - server), server, (int)(slash - at - 1),
             at + 1, slash, w->prefix);
    struct queue *q = NULL;
    struct error e = { 0 };
    assert_ok(queue_amqp_open(str_from(url), NULL, &q, &e), &e);
    struct task t = some_task(w);
    struct pushed pushed;
    assert_ok(queue_push(q, &t, 1, 0, &pushed, &e), &e);
    take_exactly(w, 0, 1);
    queue_free(q);
}

static void tls_is_spoken_with_who_can_prove_it_is_the_one(void **state)
{
    struct world *w = *state;
    char url[RABBITMQ_URL];
    struct queue *q = NULL;
    struct error e = { 0 };
    struct task t = some_task(w);
    struct pushed pushed;
    snprintf(url, sizeof url, "%s&prefix=%s", getenv("BELFRY_TEST_RABBITMQ_TLS"), w->prefix);
    assert_ok(queue_amqp_open(str_from(url), NULL, &q, &e), &e);
    assert_ok(queue_push(q, &t, 1, 0, &pushed, &e), &e);
    queue_free(q);
    take_exactly(w, 0, 1);
    /* The system's CAs did not sign the broker's certificate. */
    snprintf(strchr(url, '?'), 64, "?prefix=%s", w->prefix);
    assert_ok(queue_amqp_open(str_from(url), NULL, &q, &e), &e);
    assert_int_equal(queue_push(q, &t, 1, 0, &pushed, &e), ERR_UNAVAILABLE);
    assert_false(pushed.unsure);
    queue_free(q);
}

#define classic_test(f) cmocka_unit_test_setup_teardown(f, world_open_classic, world_close)
static const struct CMUnitTest crashes[] = {
    amqp_test(what_a_crash_interrupted_is_all_there),
    amqp_test(what_was_pushed_to_a_queue_that_a_crash_may_have_undone_lapses),
    amqp_test(what_was_pushed_to_a_new_queue_is_kept_no_longer_than_it_may_be_undone),
};
const struct test_list crash_tests = { crashes, array_count(crashes) };

static const struct CMUnitTest tests[] = {
    amqp_test(what_waits_survives_a_restart_and_what_ran_lapses_once),
    amqp_test(a_closed_connection_is_a_lapse),
    classic_test(a_classic_queue_lapses_too),
    classic_test(a_worker_gets_its_tasks_though_redelivered_ones_cannot_be_moved),
    amqp_test(a_broker_short_of_memory_refuses_at_once_and_workers_go_on),
    amqp_test(an_alarm_in_the_middle_of_a_push_ends_it),
    amqp_test(what_nobody_can_read_becomes_a_dead_letter),
    amqp_test(a_wiped_broker_begins_another_epoch),
    amqp_test(what_was_pushed_before_a_wipe_is_unknown_to_who_did_not_see_it),
    amqp_test(of_several_hosts_the_one_that_answers_serves),
    amqp_test(tls_is_spoken_with_who_can_prove_it_is_the_one),
};
const struct test_list fault_tests = { tests, array_count(tests) };
