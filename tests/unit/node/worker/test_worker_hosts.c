/* A worker whose tasks call busy hosts: they wait outside its slots, and not for long. */
#include "platform/async_io_direct.h"
#include "worker_calls.h"

enum { SLOTS = 20, PARKED_MS = 1000 };

static int setup(void **state)
{
    *state = bench_open(SLOTS, NULL);
    return 0;
}

/* ---- parking ---- */

static void a_task_whose_host_is_busy_holds_no_slot(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 6);
    assert_waiting(b, 4, 2);
    assert_int_equal(asked(b)->max, SLOTS - 4);
    assert_no_outcome(b);
}

static void when_a_call_ends_the_next_one_starts(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 6);
    end_call(b, 2, OUTCOME_OK);
    step(b, 0);
    assert_waiting(b, 4, 1);
    assert_true(is_running(b, 5));
    the_outcome(b);
    end_call(b, 5, OUTCOME_OK);
    assert_int_equal(the_outcome(b).outcome.late_by, LATE_HOST); /* it was parked */
    end_call(b, 1, OUTCOME_OK);
    assert_int_equal(the_outcome(b).outcome.late_by, LATE_NONE);
    step(b, 0);
    assert_waiting(b, 3, 0);
    assert_true(is_running(b, 6));
}

static void other_hosts_and_targets_do_not_wait(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 5);
    push_task(b, call_to(6, "https://b.example/"));
    pushed(b, 7);
    come_to_rest(b);
    assert_waiting(b, 6, 1);
    push_task(b, call_to(8, "not a url"));
    come_to_rest(b);
    assert_true(is_running(b, 8)); /* the runner refuses it */
}

/* As the runner counts its connections. */
static void ports_and_tenants_of_a_host_count_together(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 2);
    push_task(b, call_to(3, "http://A.Example:8080/"));
    struct task t = call_to(4, "https://a.example/");
    t.tenant = 2;
    push_task(b, t);
    come_to_rest(b);
    push_task(b, call_to(5, "http://a.example:81/"));
    come_to_rest(b);
    assert_waiting(b, 4, 1);
    end_call(b, 3, OUTCOME_OK);
    step(b, 0);
    assert_true(is_running(b, 5));
}

static void of_those_that_wait_the_highest_priority_starts_first(void **state)
{
    static const int priorities[] = { 5, 2, 9, 5 }, order[] = { 7, 5, 8, 6 };
    struct bench *b = *state;
    push_calls(b, 1, 4);
    for (int i = 0; i < 4; i++) {
        struct task t = call_to(5 + i, "https://a.example/");
        t.priority = priorities[i];
        push_task(b, t);
        come_to_rest(b);
    }
    assert_waiting(b, 4, 4);
    for (int i = 0; i < 4; i++) {
        end_call(b, 1 + i, OUTCOME_OK);
        step(b, 0);
        assert_waiting(b, 4, 3 - (size_t)i);
        assert_true(is_running(b, order[i]));
    }
}

static void push_call_of(struct bench *b, int n, int32_t tenant)
{
    struct task t = call_to(n, "https://a.example/");
    t.tenant = tenant;
    push_task(b, t);
    come_to_rest(b);
}

static void of_those_that_wait_tenants_take_turns(void **state)
{
    static const int tenants[] = { 2, 2, 3, 4 }, order[] = { 5, 7, 8, 6 };
    static const size_t ahead[] = { 0, 3, 1, 2 };
    struct bench *b = *state;
    push_calls(b, 1, 4);
    for (int i = 0; i < 4; i++)
        push_call_of(b, 5 + i, tenants[i]);
    assert_waiting(b, 4, 4);
    for (int i = 0; i < 4; i++) {
        struct task t = call_to(5 + i, "https://a.example/");
        assert_int_equal(worker_standing(b->worker, t.id, t.fence).ahead, ahead[i]);
    }
    for (int i = 0; i < 4; i++) {
        end_call(b, 1 + i, OUTCOME_OK);
        step(b, 0);
        assert_true(is_running(b, order[i]));
    }
}

static void a_full_line_has_a_place_for_a_tenant_that_has_fewer_in_it(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    for (int n = 5; n <= 8; n++)
        push_call_of(b, n, 2);
    struct task t = call_to(9, "https://a.example/");
    t.tenant = 3;
    push_task(b, t);
    assert_put_aside(b, 8, "a.example");
    t = call_to(10, "https://a.example/");
    t.tenant = 2;
    push_task(b, t);
    assert_put_aside(b, 10, "a.example");
    assert_waiting(b, 4, 4);
}

/* A task that has just been taken does not overtake those that are parked. */
static void who_comes_later_waits_behind(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 5);
    push_call(b, 6);
    end_call(b, 1, OUTCOME_OK);
    come_to_rest(b);
    assert_waiting(b, 4, 1);
    assert_true(is_running(b, 5) && !is_running(b, 6));
}

/* ---- aside ---- */

static void a_line_is_as_long_as_the_host_has_calls(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 8);
    assert_waiting(b, 4, 4);
    push_task(b, call_to(9, "https://a.example:8443/"));
    assert_put_aside(b, 9, "a.example");
    assert_waiting(b, 4, 4);
    assert_int_equal(metric_count(b->metrics, METRIC_TASKS_ASIDE), 1);
}

static void the_last_of_a_full_line_makes_way_for_a_higher_priority(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 8);
    struct task t = call_to(9, "https://a.example/");
    t.priority = 6;
    push_task(b, t);
    assert_put_aside(b, 8, "a.example");
    end_call(b, 1, OUTCOME_OK);
    step(b, 0);
    assert_true(is_running(b, 9));
}

static void who_was_parked_for_a_second_goes_aside(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 5);
    b->now_ms += PARKED_MS - 1;
    assert_true(worker_step(b->worker, both_at(b->now_ms), 0) <= b->now_ms + 1);
    assert_waiting(b, 4, 1);
    step(b, 1);
    assert_waiting(b, 4, 0);
    assert_put_aside(b, 5, "a.example");
    end_call(b, 1, OUTCOME_OK);
    come_to_rest(b);
    assert_waiting(b, 3, 0);
}

static void at_most_once_does_not_wait_in_the_worker(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    struct task t = call_to(5, "https://a.example/");
    t.delivery = DELIVER_AT_MOST_ONCE;
    push_task(b, t);
    assert_put_aside(b, 5, "a.example");
    assert_waiting(b, 4, 0);
}

/* It would hold the CPU that it was taken for. */
static void who_needs_cpu_does_not_wait_in_the_worker(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    struct task t = call_to(5, "https://a.example/");
    t.cpu_milli = 10;
    push_task(b, t);
    assert_put_aside(b, 5, "a.example");
    assert_int_equal(asked(b)->cpu_milli, 1000);
}

/* ---- gates are asked when the turn comes ---- */

static void who_expires_in_the_line_does_not_start(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    struct task t = call_to(5, "https://a.example/");
    t.expires_after_ms = 500;
    push_task(b, t);
    come_to_rest(b);
    step(b, 600);
    end_call(b, 1, OUTCOME_CANCELLED);
    come_to_rest(b);
    struct event e;
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 2);
    assert_int_equal(e.outcome.kind, OUTCOME_EXPIRED);
    assert_waiting(b, 3, 0);
}

static void a_breaker_that_opened_meanwhile_holds_it(void **state)
{
    struct bench *b = *state;
    struct event e;
    for (int round = 0; round < 3; round++) {
        push_calls(b, 1 + 4 * round, 4 + 4 * round);
        if (round == 2)
            push_calls(b, 13, 13);
        for (int n = 1 + 4 * round; n <= 4 + 4 * round; n++) {
            struct outcome failed = { .kind = OUTCOME_FAILED,
                                      .failure = FAILURE_CONNECT,
                                      .retry_after_ms = -1,
                                      .started_us = b->now_ms * 1000,
                                      .completed_us = b->now_ms * 1000 };
            for (size_t i = 0; i < b->run_count; i++)
                if (b->runs[i]->task->id.b[0] == n) {
                    struct run *run = b->runs[i];
                    b->runs[i] = b->runs[--b->run_count];
                    run->done(run, &failed);
                }
        }
    }
    come_to_rest(b);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 13);
    assert_int_equal(e.outcome.kind, OUTCOME_HELD);
    assert_int_equal(e.outcome.retry_after_ms, -1); /* it keeps its due time */
    assert_true(e.breakers.host.kind == BREAKER_HELD && e.breakers.tenant.kind == BREAKER_NO_NEWS);
    assert_str(e.host, "a.example");
    assert_str(e.outcome.error, "held: the circuit breaker of a.example is open");
    assert_str(e.outcome.aside, "a.example");
    assert_waiting(b, 0, 0);
}

/* Ends a call as a target would, at the time of the bench. */
static void end_call_as(struct bench *b, int n, struct outcome o)
{
    o.retry_after_ms = -1;
    o.started_us = o.completed_us = b->now_ms * 1000;
    for (size_t i = 0; i < b->run_count; i++)
        if (b->runs[i]->task->id.b[0] == n) {
            struct run *run = b->runs[i];
            b->runs[i] = b->runs[--b->run_count];
            run->done(run, &o);
            return;
        }
    fail_msg("call %d does not run", n);
}

static const struct outcome refused = { .kind = OUTCOME_FAILED, .failure = FAILURE_CONNECT },
                            fine = { .kind = OUTCOME_OK };

static struct task call_from_lane(int n, const char *aside)
{
    struct task t = call_to(n, "https://a.example/x");
    t.aside = str_from(aside);
    return t;
}

/* A call at a time, until the breaker of its host opens; returns the event that says so. */
static struct event open_breaker(struct bench *b)
{
    struct event e = { 0 };
    for (int n = 1; n <= 10; n++) {
        push_call(b, n);
        come_to_rest(b);
        end_call_as(b, n, refused);
        e = the_outcome(b);
        assert_int_equal(e.breakers.host.kind, n < 10 ? BREAKER_NO_NEWS : BREAKER_OPENED);
    }
    return e;
}

static void an_outcome_says_that_it_opened_a_breaker(void **state)
{
    struct bench *b = *state;
    struct event e = open_breaker(b);
    assert_str(e.host, "a.example");
    assert_true(e.breakers.host.until_ms == NOW + 30000 && e.breakers.host.counts.failures == 10);
}

static void a_task_of_its_hosts_lane_is_the_trial_of_an_open_breaker(void **state)
{
    struct bench *b = *state;
    open_breaker(b);
    push_task(b, call_from_lane(11, "b.example")); /* of another host's lane: no trial */
    assert_int_equal(the_outcome(b).outcome.kind, OUTCOME_HELD);
    push_task(b, call_from_lane(12, "a.example"));
    come_to_rest(b);
    assert_true(is_running(b, 12));
    push_task(b, call_from_lane(13, "a.example")); /* one at a time */
    struct event e = the_outcome(b);
    assert_true(e.task.id.b[0] == 13 && e.outcome.kind == OUTCOME_HELD && e.breakers.host.kind == BREAKER_HELD);
    end_call_as(b, 12, fine);
    assert_int_equal(the_outcome(b).breakers.host.kind, BREAKER_RECOVERED);
    push_call(b, 14);
    come_to_rest(b);
    assert_true(is_running(b, 14));
}

static void a_trial_of_anothers_breaker_tells_its_result(void **state)
{
    struct bench *b = *state;
    push_task(b, call_from_lane(1, "a.example"));
    come_to_rest(b);
    end_call_as(b, 1, fine);
    struct event e = the_outcome(b);
    assert_true(e.breakers.host.kind == BREAKER_RECOVERED && e.breakers.tenant.kind == BREAKER_NO_NEWS);
    push_task(b, call_from_lane(2, "a.example"));
    come_to_rest(b);
    end_call_as(b, 2, refused);
    assert_int_equal(the_outcome(b).breakers.host.kind, BREAKER_TRIAL_FAILED);
    push_task(b, call_from_lane(3, "*"));
    come_to_rest(b);
    end_call_as(b, 3, fine);
    e = the_outcome(b);
    assert_true(e.breakers.tenant.kind == BREAKER_RECOVERED && e.breakers.host.kind == BREAKER_NO_NEWS);
    push_call(b, 4);
    come_to_rest(b);
    end_call_as(b, 4, refused);
    e = the_outcome(b);
    assert_true(e.breakers.host.kind == BREAKER_NO_NEWS && !e.host.n);
}

/* ---- cancelling, draining, renewing ---- */

static void who_is_cancelled_in_the_line_never_began(void **state)
{
    struct bench *b = *state;
    struct error e;
    push_calls(b, 1, 4);
    struct task t = push_call(b, 5);
    come_to_rest(b);
    assert_true(worker_runs(b->worker, t.id, t.fence));
    assert_ok(queue_abort(b->async_io.queue, (struct fenced_id){ t.id, t.fence }, &e), &e);
    carry(&b->async_io, IO_TAKE);
    struct event event = the_outcome(b);
    assert_int_equal(event.outcome.kind, OUTCOME_CANCELLED);
    assert_true(event.outcome.started_us == 0);
    assert_str(event.outcome.error, "cancelled before it began");
    assert_waiting(b, 4, 0);
    assert_false(worker_runs(b->worker, t.id, t.fence));
}

static void who_is_replaced_in_the_line_says_by_what(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    struct task t = push_call(b, 5);
    come_to_rest(b);
    worker_replace(b->worker, t.id, t.fence, S("replaced by the run of 10:00"));
    struct event e = the_outcome(b);
    assert_int_equal(e.outcome.kind, OUTCOME_CANCELLED);
    assert_str(e.outcome.error, "replaced by the run of 10:00");
    assert_waiting(b, 4, 0);
}

static void a_drain_returns_what_is_parked(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 5);
    worker_stop_taking(b->worker);
    struct event e = the_outcome(b);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
    assert_int_equal(e.task.id.b[0], 5);
    assert_waiting(b, 4, 0);
    assert_false(worker_is_idle(b->worker));
}

static void who_gives_up_returns_what_is_parked(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 5);
    worker_give_up(b->worker);
    assert_waiting(b, 0, 0);
    come_to_rest(b);
    struct event e;
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 5);
    assert_int_equal(e.outcome.kind, OUTCOME_LOST); /* those that ran */
}

static void what_is_parked_is_renewed_like_what_runs(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    step(b, VISIBILITY_MS / 3 - 500);
    push_calls(b, 5, 6);
    step(b, 500);
    struct io_request *e = find_io_request(&b->async_io, IO_RENEW);
    assert_non_null(e);
    assert_int_equal(container_of(e, struct io_renew, io_request)->n, 6);
}

/* A process that was stopped may have lost the delivery meanwhile. */
static void who_was_stopped_does_not_start_what_was_parked(void **state)
{
    struct bench *b = *state;
    push_calls(b, 1, 4);
    push_call(b, 5);
    step(b, 0);
    struct io_request *e = next_io_request(&b->async_io, IO_TAKE);
    run_io_request(&b->async_io, e);
    container_of(e, struct io_take, io_request)->ret.queue_us = b->now_ms * 1000;
    e->done(e);
    come_to_rest(b);
    assert_waiting(b, 4, 1);
    end_call(b, 1, OUTCOME_OK);
    step(b, VISIBILITY_MS);
    come_to_rest(b);
    struct event event;
    assert_int_equal(published(b, EVENT_OUTCOME, &event), 2);
    assert_int_equal(event.outcome.kind, OUTCOME_RETURNED);
    assert_waiting(b, 3, 0);
}

/* ---- a node's own worker ---- */

struct own {
    struct queue *queue;
    struct events *events;
    struct async_io *async_io;
    struct worker *worker;
    struct bench *bench; /* for its runners */
};

static void own_push(struct own *o, const char *url, int from, int to)
{
    for (int n = from; n <= to; n++) {
        struct task t = call_to(n, url);
        struct error e;
        struct pushed came;
        assert_ok(queue_push(o->queue, &t, 1, 0, &came, &e), &e);
    }
}

static struct own own_open(struct bench *b)
{
    struct own o = { .queue = queue_memory_new(), .events = events_memory_new(), .bench = b };
    static struct async_io_ports ports;
    ports = (struct async_io_ports){ .queue = o.queue, .take = o.queue, .publish = o.events, .poll = o.events };
    o.async_io = async_io_direct_new(&ports);
    struct worker_setup setup = {
        .async_io = o.async_io, .metrics = b->metrics, .slots = SLOTS, .visibility_ms = VISIBILITY_MS
    };
    setup.runners[TARGET_HTTP] = &b->http;
    o.worker = worker_new(&setup);
    own_push(&o, "https://a.example/", 1, 6);
    worker_step(o.worker, both_at(NOW), 0);
    assert_int_equal(worker_parked(o.worker), 2);
    return o;
}

static void own_close(struct own *o)
{
    worker_stop_taking(o->worker);
    worker_step(o->worker, both_at(NOW), 0);
    while (o->bench->run_count)
        end_run(o->bench, 0, OUTCOME_OK);
    worker_step(o->worker, both_at(NOW), 0);
    assert_true(worker_is_idle(o->worker));
    worker_free(o->worker);
    async_io_direct_free(o->async_io);
    queue_free(o->queue);
    events_free(o->events);
}

static bool own_knows(struct own *o, int n)
{
    struct task t = some_task(n);
    struct fenced_id id = { t.id, t.fence };
    struct error e;
    bool known = false;
    assert_ok(queue_known(o->queue, &id, NULL, 1, &known, &e), &e);
    return known;
}

static void what_is_recalled_leaves_the_line_and_is_not_reported(void **state)
{
    struct own o = own_open(*state);
    struct task t = some_task(5), running = some_task(1);
    assert_false(worker_recall(o.worker, running.id, running.fence));
    assert_true(worker_recall(o.worker, t.id, t.fence));
    assert_false(worker_recall(o.worker, t.id, t.fence));
    worker_step(o.worker, both_at(NOW), 0);
    assert_int_equal(worker_parked(o.worker), 1);
    assert_int_equal(worker_unpublished(o.worker), 0);
    assert_false(own_knows(&o, 5));
    assert_int_equal(events_depth(o.events), 0);
    own_close(&o);
}

static void what_another_node_owns_leaves_the_line_unreported(void **state)
{
    struct own o = own_open(*state);
    worker_disown(o.worker);
    assert_int_equal(worker_parked(o.worker), 0);
    assert_int_equal(worker_running(o.worker), 0);
    worker_step(o.worker, both_at(NOW), 0);
    assert_int_equal(events_depth(o.events), 0);
    assert_false(own_knows(&o, 5) || own_knows(&o, 6));
    own_close(&o);
}

/* A line is as long as there are slots: what was put aside would be written and claimed once more. */
static void one_host_may_fill_the_line_and_others_still_have_a_short_one(void **state)
{
    struct own o = own_open(*state);
    own_push(&o, "https://a.example/", 7, HOST_CALLS + SLOTS + 3);
    worker_step(o.worker, both_at(NOW), 0);
    assert_int_equal(worker_parked(o.worker), SLOTS);
    assert_int_equal(events_depth(o.events), 3);
    own_push(&o, "https://b.example/", 40, 40 + 2 * HOST_CALLS);
    worker_step(o.worker, both_at(NOW), 0);
    assert_int_equal(worker_parked(o.worker), SLOTS + HOST_CALLS);
    assert_int_equal(events_depth(o.events), 4);
    own_close(&o);
}

static void end_some_calls(struct own *o, size_t n, int64_t at_ms)
{
    while (n--)
        end_run(o->bench, 0, OUTCOME_OK);
    worker_step(o->worker, both_at(at_ms), 0);
}

/* The host ends so many calls in its first 50 ms; 2 are parked. */
static struct own own_with_host(struct bench *b, int calls)
{
    struct own o = own_open(b);
    for (int i = 0; i < calls / HOST_CALLS; i++) {
        int from = 7 + i % 10 * HOST_CALLS;
        end_some_calls(&o, HOST_CALLS, NOW);
        own_push(&o, "https://a.example/", from, from + HOST_CALLS - 1);
        worker_step(o.worker, both_at(i < calls / HOST_CALLS - 2 ? NOW : NOW + 50), 0);
    }
    assert_int_equal(worker_parked(o.worker), 2);
    return o;
}

static void what_waits_for_a_fast_host_keeps_its_place(void **state)
{
    struct own fast = own_with_host(*state, 400);
    assert_int_equal(worker_parked_long(fast.worker), 0);
    worker_step(fast.worker, both_at(NOW + 700), 0); /* the host has become slow */
    assert_int_equal(worker_parked_long(fast.worker), 2);
    own_close(&fast);
}

static void what_waits_for_another_host_gives_its_place_back(void **state)
{
    struct own slow = own_with_host(*state, 40);
    assert_int_equal(worker_parked_long(slow.worker), 2);
    own_close(&slow);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_close)
    const struct CMUnitTest tests[] = {
        T(a_task_whose_host_is_busy_holds_no_slot),
        T(when_a_call_ends_the_next_one_starts),
        T(other_hosts_and_targets_do_not_wait),
        T(ports_and_tenants_of_a_host_count_together),
        T(of_those_that_wait_the_highest_priority_starts_first),
        T(of_those_that_wait_tenants_take_turns),
        T(a_full_line_has_a_place_for_a_tenant_that_has_fewer_in_it),
        T(who_comes_later_waits_behind),
        T(a_line_is_as_long_as_the_host_has_calls),
        T(the_last_of_a_full_line_makes_way_for_a_higher_priority),
        T(who_was_parked_for_a_second_goes_aside),
        T(at_most_once_does_not_wait_in_the_worker),
        T(who_needs_cpu_does_not_wait_in_the_worker),
        T(who_expires_in_the_line_does_not_start),
        T(a_breaker_that_opened_meanwhile_holds_it),
        T(an_outcome_says_that_it_opened_a_breaker),
        T(a_task_of_its_hosts_lane_is_the_trial_of_an_open_breaker),
        T(a_trial_of_anothers_breaker_tells_its_result),
        T(who_is_cancelled_in_the_line_never_began),
        T(who_is_replaced_in_the_line_says_by_what),
        T(a_drain_returns_what_is_parked),
        T(who_gives_up_returns_what_is_parked),
        T(what_is_parked_is_renewed_like_what_runs),
        T(who_was_stopped_does_not_start_what_was_parked),
        T(what_is_recalled_leaves_the_line_and_is_not_reported),
        T(what_another_node_owns_leaves_the_line_unreported),
        T(one_host_may_fill_the_line_and_others_still_have_a_short_one),
        T(what_waits_for_a_fast_host_keeps_its_place),
        T(what_waits_for_another_host_gives_its_place_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
