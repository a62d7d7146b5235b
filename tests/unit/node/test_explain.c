/* Each gate says that it is the one, and until when; together they say what will happen. */
#include <stdio.h>

#include "node_world.h"

static struct explanation why(struct world *w, const struct task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct explanation x;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, t, &a);
    explain_row(w, &row, &x);
    return x;
}

#define assert_why(w, t, wanted_gate, part)                                                                            \
    do {                                                                                                               \
        struct explanation x_ = why(w, t);                                                                             \
        assert_string_equal(explain_gate_name(x_.gate), wanted_gate);                                                  \
        if (!strstr(x_.text, part))                                                                                    \
            fail_msg("'%s' does not say '%s'", x_.text, part);                                                         \
    } while (0)

static void its_due_time(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW + 5000);
    assert_why(w, &t, "due_time", "it is due at 2026-03-03T10:00:05.000Z");
    assert_true(why(w, &t).steps[0].until_ms == NOW + 5000);
}

static void a_claim_and_a_run(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w);
    assert_why(w, &t, "armed", "it is claimed, and fires at 2026-03-03T10:00:00.040Z");
    step_at(w, NOW + 40);
    assert_why(w, &t, "running", "it has fired");
}

static void a_paused_queue_with_who_and_why_and_until_when(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100,
                                        .paused = true,
                                        .paused_ms = NOW,
                                        .paused_by = S("ada"),
                                        .paused_reason = S("the receiver is being moved"),
                                        .paused_until_ms = NOW + HOUR });
    struct task t = task_due(w, 1, NOW);
    settle_down(w);
    assert_why(w, &t, "queue_paused", "by ada: the receiver is being moved, until 2026-03-03T11:00:00.000Z");
    assert_true(why(w, &t).steps[0].until_ms == NOW + HOUR);
}

static void a_rate_and_a_limit_of_its_queue(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 1, .burst = 1 });
    struct task first = task_due(w, 1, NOW), second = task_due(w, 2, NOW);
    settle_down(w);
    assert_true(is_running(w, &first));
    assert_why(w, &second, "queue_rate", "default has used up its rate");
    assert_true(why(w, &second).steps[0].until_ms > NOW && why(w, &second).steps[0].until_ms <= NOW + 1000);
    put_queue(w, &(struct queue_rules){ .weight = 100, .concurrent = 1 });
    settle_down(w);
    assert_why(w, &second, "queue_concurrency", "1 of its queue default run, and no more than 1 may");
}

/* A batch has one due time for all. */
static void of_tasks_that_are_due_together_the_lower_id_is_ahead(void **state)
{
    struct world *w = *state;
    with_slots(w, 20);
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 2, .burst = 1 });
    struct task v[10];
    for (int i = 0; i < 10; i++)
        v[i] = task_due(w, i + 1, NOW);
    settle_down(w);
    assert_true(is_running(w, &v[0]));
    struct explanation x = why(w, &v[7]);
    assert_int_equal(x.position, 6);
    assert_true(x.outcome == EXPLAIN_WILL_RUN && x.estimate_ms > NOW + 2500 && x.estimate_ms < NOW + 4500);
}

static void its_tenant(void **state)
{
    struct world *w = *state;
    struct tenant_rules rules = { .number = TENANT, .name = S("default"), .max_running = 1 };
    settle_down(w);
    put_tenant(w, &rules);
    task_due(w, 1, NOW);
    struct task t = task_due(w, 2, NOW);
    settle_down(w);
    assert_why(w, &t, "tenant_limit", "1 tasks of its tenant run, and no more than 1 may");
    rules.disabled = true;
    put_tenant(w, &rules);
    assert_why(w, &t, "tenant_disabled", "disabled");
    put_tenant(w, &(struct tenant_rules){ .number = TENANT, .name = S("default") });
    put_tenant(w, &(struct tenant_rules){ .number = 2, .name = S("acme") });
    task_due(w, 3, NOW - 1);
    settle_down(w);
    assert_why(w, &t, "tenant_share", "2 of this node's 3 slots, and 2 are the most");
}

static void no_slot_of_the_node(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 1; i <= SLOTS; i++)
        task_due(w, i, NOW - 1);
    struct task t = task_due(w, 9, NOW);
    settle_down(w);
    assert_why(w, &t, "no_free_slot", "all 3 slots of this node are taken");
}

static void the_breaker_of_its_host(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW);
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://here.example/a\"}");
    add_task(w, t);
    settle_down(w);
    struct outcome o = { .kind = OUTCOME_FAILED,
                         .failure = FAILURE_HTTP,
                         .http_status = 429,
                         .retry_after_ms = 7000,
                         .started_us = NOW * 1000,
                         .completed_us = NOW * 1000 };
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
    struct task second = t;
    second.id.b[3] = 2;
    add_task(w, second);
    settle_down(w);
    assert_why(w, &second, "host_breaker", "the host here.example asked to be left alone");
    assert_true(why(w, &second).steps[0].until_ms >= NOW + 7000);
    assert_why(w, &t, "due_time", "its next attempt is due at");
}

static struct task call_to(struct world *w, int n, const char *host)
{
    char url[100];
    snprintf(url, sizeof url, "{\"url\":\"https://%s/\"}", host);
    struct task t = plain_task(n, NOW);
    t.target = TARGET_HTTP;
    t.retry.max_attempts = 1;
    t.target_config = str_from(url);
    add_task(w, t);
    settle_down(w);
    return t;
}

static void end_call(struct world *w, int http_status)
{
    struct outcome o = { .kind = http_status == 200 ? OUTCOME_OK : OUTCOME_FAILED,
                         .failure = http_status == 200 ? FAILURE_NONE : FAILURE_HTTP,
                         .http_status = (int16_t)http_status,
                         .retry_after_ms = -1,
                         .started_us = NOW * 1000,
                         .completed_us = NOW * 1000 };
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
    settle_down(w);
}

static void that_calls_to_its_host_failed_with_their_number(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 0; i < 10; i++) {
        call_to(w, 100 + i, "here.example");
        end_call(w, i < 4 ? 200 : 503);
    }
    struct task t = call_to(w, 1, "here.example");
    assert_why(w, &t, "host_breaker", "the circuit breaker of here.example holds it until 2026-03-03T10:00:30");
    assert_why(w, &t, "host_breaker", "6 of 10 calls to the host failed");
}

static void the_breaker_of_its_tenant_if_that_holds_it(void **state)
{
    struct world *w = *state;
    settle_down(w);
    call_to(w, 50, "good.example");
    end_call(w, 200);
    for (int i = 0; i < 24; i++) {
        char host[32];
        snprintf(host, sizeof host, "host%d.example", i % 4);
        call_to(w, 100 + i, host);
        if (w->run_count)
            end_call(w, 503);
    }
    struct task t = call_to(w, 1, "there.example");
    assert_why(w, &t, "tenant_breaker", "19 of 20 calls of its tenant to several hosts failed");
    assert_why(w, &t, "tenant_breaker", "none to there.example succeeded lately");
    struct task good = call_to(w, 2, "good.example"), noop = task_due(w, 3, NOW);
    settle_down(w);
    assert_true(is_running(w, &good) && is_running(w, &noop));
}

static void that_another_worker_held_it(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 5000);
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://here.example/\"}");
    t.last_error = S("held: the circuit breaker of here.example is open");
    struct explanation x;
    explain_row(w, &t, &x);
    assert_string_equal(explain_gate_name(x.gate), "due_time");
    assert_string_equal(x.steps[0].text,
                        "it is due again at 2026-03-03T10:00:05.000Z; it was held: the circuit breaker of "
                        "here.example is open");
}

static void a_suspect_that_waits_its_turn(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task first = plain_task(1, NOW - 1), second = plain_task(2, NOW);
    first.losses = second.losses = 4;
    add_task(w, first);
    add_task(w, second);
    settle_down(w);
    assert_true(is_running(w, &first));
    assert_why(w, &second, "suspect", "the process that ran it died 4 times");
}

static void that_the_node_recovers(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    assert_why(w, &t, "recovery", "settles tasks that were running when it died");
    settle_down(w);
}

/* That the lost claim can be read back says nothing of the next one: on a full disk, the store can only be read. */
static void that_the_store_takes_no_claims(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    deny(w, OP_CLAIM, false);
    assert_why(w, &t, "store", "the store cannot be reached, or cannot write, since 2026-03-03T10:00:00.000Z");
    step_at(w, NOW + 20);
    answer(w, OP_CLAIMED);
    assert_why(w, &t, "store", "this node cannot claim it");
    assert_int_equal(node_status(w->node).store_lost_ms, NOW);
    settle_down(w);
    assert_why(w, &t, "running", "it has fired");
    assert_int_equal(node_status(w->node).store_lost_ms, 0);
}

static void that_it_has_expired_or_that_nothing_holds_it(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW);
    t.expires_after_ms = 10;
    add_task(w, t);
    w->now_ms = NOW + 10;
    assert_why(w, &t, "expired", "it expired at 2026-03-03T10:00:00.010Z");
    struct task fine = task_due(w, 2, NOW + 10);
    assert_why(w, &fine, "backlog", "the first is due since 2026-03-03T10:00:00.000Z");
    settle_down(w);
    struct task next = task_due(w, 3, NOW + 10);
    assert_why(w, &next, "none", "about to be claimed");
}

/* ---- what will happen ---- */

static void assert_outcome(const struct explanation *x, enum explain_outcome outcome, int64_t estimate_ms)
{
    assert_string_equal(explain_outcome_name(x->outcome), explain_outcome_name(outcome));
    assert_int_equal(x->estimate_ms, estimate_ms);
}

static void put_pause(struct world *w, int64_t until_ms)
{
    put_queue(w, &(struct queue_rules){ .weight = 100, .paused = true, .paused_ms = NOW, .paused_until_ms = until_ms });
}

static void every_gate_ahead_in_order(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(
        w,
        &(struct queue_rules){
            .weight = 100, .rate = 1, .burst = 1, .paused = true, .paused_ms = NOW, .paused_until_ms = NOW + 10000 });
    task_due(w, 1, NOW + 1000);
    task_due(w, 2, NOW + 2000);
    struct task t = task_due(w, 3, NOW + 5000);
    settle_down(w);
    struct explanation x = why(w, &t);
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 12000);
    assert_int_equal(x.n, 3);
    assert_int_equal(x.steps[0].gate, EXPLAIN_DUE_TIME);
    assert_int_equal(x.steps[1].gate, EXPLAIN_QUEUE_PAUSED);
    assert_int_equal(x.steps[1].until_ms, NOW + 10000);
    assert_int_equal(x.steps[2].gate, EXPLAIN_QUEUE_RATE);
    assert_non_null(strstr(x.steps[2].text, "2 are ahead of it"));
    assert_non_null(strstr(x.text, "It starts at 2026-03-03T10:00:12.000Z"));
}

static void an_expiry_before_the_end_of_a_pause_wins(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_pause(w, NOW + 10000);
    struct task t = plain_task(1, NOW + 1000);
    t.expires_after_ms = 4000;
    add_task(w, t);
    settle_down(w);
    struct explanation x = why(w, &t);
    assert_outcome(&x, EXPLAIN_WILL_EXPIRED, NOW + 5000);
    assert_non_null(strstr(x.text, "It expires at 2026-03-03T10:00:05.000Z and will not run"));
    put_pause(w, NOW + 3000);
    x = why(w, &t);
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 3000);
}

static void a_pause_without_an_end_lets_it_expire_or_says_that_nobody_knows(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_pause(w, 0);
    struct task t = plain_task(1, NOW), mortal = plain_task(2, NOW);
    mortal.expires_after_ms = 4000;
    add_task(w, t);
    add_task(w, mortal);
    settle_down(w);
    struct explanation x = why(w, &t);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_non_null(strstr(x.text, "When it starts cannot be known: a person must resume the queue"));
    x = why(w, &mortal);
    assert_outcome(&x, EXPLAIN_WILL_EXPIRED, NOW + 4000);
}

/* ---- what the task itself waits for ---- */

static struct explanation why_held(struct world *w, struct task t, enum task_state state, struct explain_hold hold)
{
    struct explain_holds holds = { .n = 1, .v = { hold } };
    struct explanation x;
    t.state = state;
    t.links |= hold.gate == EXPLAIN_DEPENDENCY ? TASK_WAITS : 0;
    explain_held_row(w, &t, &holds, &x);
    return x;
}

static struct explain_hold paused_until(int64_t until_ms)
{
    return (struct explain_hold){ .gate = EXPLAIN_PAUSED,
                                  .until_ms = until_ms,
                                  .why = until_ms ? NULL : "a person must resume it",
                                  .text = "it is paused" };
}

static void assert_gates(const struct explanation *x, const char *wanted)
{
    char found[400] = "";
    for (size_t i = 0; i < x->n; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? " " : "",
                 explain_gate_name(x->steps[i].gate));
    assert_string_equal(found, wanted);
}

static void a_pause_of_the_task_hides_no_gate_behind_it(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 3000);
    struct explanation x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 3000);
    assert_gates(&x, "paused due_time");
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 4000));
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 4000);
    assert_gates(&x, "paused");
    put_pause(w, 0);
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_gates(&x, "paused due_time queue_paused");
    assert_non_null(strstr(x.text, "When it starts cannot be known: a person must resume the queue"));
    put_pause(w, NOW + 9000);
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 9000);
    x = why_held(w, t, TASK_PAUSED, paused_until(0));
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_gates(&x, "paused due_time queue_paused");
}

static void a_full_queue_or_a_taken_key_is_told_of_a_paused_task(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .concurrent = 1 });
    struct task runs = plain_task(1, NOW), t = plain_task(2, NOW);
    runs.concurrency_key = t.concurrency_key = S("k");
    runs.concurrency_limit = t.concurrency_limit = 1;
    add_task(w, runs);
    settle_down(w);
    assert_true(is_running(w, &runs));
    struct explanation x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_gates(&x, "paused queue_concurrency concurrency_key");
    t.queue = S("another"); /* of which the node knows no task */
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_gates(&x, "paused concurrency_key");
    x = why_held(w, t, TASK_PAUSED, paused_until(0)); /* what runs now may be over then */
    assert_gates(&x, "paused");
}

/* A claim cannot come to a task of which the node has no lane, but others may have all slots. */
static void a_full_node_is_told_of_a_paused_task(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 1; i <= SLOTS; i++)
        task_due(w, i, NOW);
    settle_down(w);
    struct task t = plain_task(9, NOW);
    t.queue = S("another");
    struct explanation x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 2000));
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_gates(&x, "paused backlog");
}

static void a_paused_task_expires_when_it_is_resumed(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 2000);
    t.expires_after_ms = 2000;
    struct explanation x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 14000));
    assert_outcome(&x, EXPLAIN_WILL_EXPIRED, NOW + 14000);
    assert_gates(&x, "paused expired");
    assert_string_equal(x.steps[1].text, "it expires when it is resumed, at 2026-03-03T10:00:14.000Z");
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 3000));
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 3000);
    put_pause(w, 0);
    x = why_held(w, t, TASK_PAUSED, paused_until(NOW + 3000));
    assert_outcome(&x, EXPLAIN_WILL_EXPIRED, NOW + 4000);
    x = why_held(w, t, TASK_PAUSED, paused_until(0));
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_non_null(strstr(x.text, "If it has not started by 2026-03-03T10:00:04.000Z, it expires when it is resumed"));
    set_clock(w, NOW + 4000);
    x = why_held(w, t, TASK_PAUSED, paused_until(0));
    assert_outcome(&x, EXPLAIN_WILL_EXPIRED, 0);
    assert_non_null(strstr(x.text, "It expires when it is resumed and will not run"));
}

static void tasks_that_it_waits_for_hide_no_gate_behind_them(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + HOUR);
    t.expires_after_ms = 2000; /* counts from the end of the last one */
    struct explain_hold waits = { .gate = EXPLAIN_DEPENDENCY, .why = "nobody knows when they end", .text = "it waits" };
    struct explanation x = why_held(w, t, TASK_BLOCKED, waits);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_gates(&x, "dependency due_time");
    assert_int_equal(x.steps[1].until_ms, NOW + HOUR);
    put_pause(w, 0);
    t.due_ms = NOW;
    x = why_held(w, t, TASK_BLOCKED, waits);
    assert_gates(&x, "dependency queue_paused");
    assert_non_null(strstr(x.text, "it waits. When it starts cannot be known: nobody knows when they end"));
}

static void a_task_that_runs_on_another_node_is_not_said_to_be_lost(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW);
    struct explanation x;
    t.state = TASK_RUNNING;
    t.fence = 7;
    explain_row(w, &t, &x);
    assert_outcome(&x, EXPLAIN_WILL_RUN, 0);
    assert_int_equal(x.gate, EXPLAIN_RUNNING);
    assert_non_null(strstr(x.text, "another node has claimed it: it runs there, or its outcome is being written"));
}

static void its_position_in_the_line_of_a_rate(void **state)
{
    struct world *w = *state;
    with_slots(w, 10);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 0.5, .burst = 1 });
    struct task last = { 0 };
    for (int i = 1; i <= 4; i++)
        last = task_due(w, i, NOW - 10 + i);
    settle_down(w);
    struct explanation x = why(w, &last);
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 6000);
    assert_int_equal(x.position, 2);
}

static void a_task_that_waits_for_a_connection_has_not_started(void **state)
{
    struct world *w = *state;
    w->runner.host_calls_max = 1;
    with_slots(w, 10);
    struct task calls[3];
    for (int i = 0; i < 3; i++)
        calls[i] = call_to(w, 1 + i, "here.example");
    assert_true(is_running(w, &calls[0]) && w->run_count == 1);
    struct explanation x = why(w, &calls[2]);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_why(w, &calls[2], "host_busy", "it waits for one of the connections to here.example, and has not started");
    assert_true(x.waits && x.position == 1);
    w->now_ms += 300;
    struct explanation first = why(w, &calls[0]);
    assert_outcome(&first, EXPLAIN_WILL_RUN, NOW);
    assert_false(first.waits);
    end_call(w, 200);
    x = why(w, &calls[1]);
    assert_string_equal(explain_gate_name(x.gate), "running");
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 300);
    assert_int_equal(why(w, &calls[2]).position, 0);
}

/* A Retry-After of 24 s holds the run of 10:00:01. */
static struct task hold_a_recurring_call(struct world *w)
{
    call_to(w, 99, "here.example");
    struct outcome o = { .kind = OUTCOME_FAILED,
                         .failure = FAILURE_HTTP,
                         .http_status = 429,
                         .retry_after_ms = 24000,
                         .started_us = NOW * 1000,
                         .completed_us = NOW * 1000 };
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
    settle_down(w);
    struct task t = plain_task(1, NOW + 1000);
    t.kind = TASK_RECURRING;
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://here.example/\"}");
    t.schedule = (struct schedule){
        .interval_ms = 5000, .time_zone = S("UTC"), .start_ms = NOW + 1000, .end_ms = INT64_MAX, .overlap = OVERLAP_SKIP
    };
    t.cursor_ms = NOW + 1000;
    add_task(w, t);
    settle_down(w);
    w->now_ms = NOW + 1000;
    settle_down(w);
    return t;
}

static void a_run_that_a_breaker_holds_makes_the_next_one_be_skipped(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = hold_a_recurring_call(w);
    struct task held = { .id = occurrence_id(t.id, NOW + 1000), .tenant = TENANT },
                next = { .id = occurrence_id(t.id, NOW + 6000), .tenant = TENANT };
    struct explanation x = why(w, &held);
    assert_string_equal(explain_gate_name(x.gate), "host_breaker");
    assert_outcome(&x, EXPLAIN_WILL_RUN, NOW + 24000);
    x = why(w, &next);
    assert_outcome(&x, EXPLAIN_WILL_SKIPPED, NOW + 6000);
    assert_int_equal(x.resumes_ms, NOW + 24000);
    assert_non_null(strstr(x.text, "the run of 2026-03-03T10:00:01.000Z is not over by then"));
    w->now_ms = NOW + 6000;
    settle_down(w);
    assert_int_equal(state_of(w, next.id), TASK_SKIPPED);
}

/* The sentence names what it speaks of: the first gate is the due time. */
static void a_run_that_may_be_skipped_is_said_to_depend_on_the_previous_run(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 1000);
    t.kind = TASK_RECURRING;
    t.schedule = (struct schedule){
        .interval_ms = 5000, .time_zone = S("UTC"), .start_ms = NOW + 1000, .end_ms = INT64_MAX, .overlap = OVERLAP_SKIP
    };
    t.cursor_ms = NOW + 1000;
    add_task(w, t);
    settle_down(w);
    w->now_ms = NOW + 1000;
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    struct task running = { .id = occurrence_id(t.id, NOW + 1000), .tenant = TENANT },
                next = { .id = occurrence_id(t.id, NOW + 6000), .tenant = TENANT };
    struct explanation x = why(w, &running);
    assert_int_equal(x.started_ms, NOW + 1000);
    x = why(w, &next);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_int_equal(x.started_ms, 0);
    assert_non_null(
        strstr(x.text, ". Whether it starts cannot be known: it is skipped if the previous run is not over by then"));
}

/* Its first two times have come while the queue is paused: the second one. */
static struct explanation why_behind_an_earlier_one(struct world *w, int number, enum overlap policy)
{
    int64_t from_ms = w->now_ms;
    struct task t = plain_task(number, from_ms + 1000);
    t.kind = TASK_RECURRING;
    t.schedule = (struct schedule){
        .interval_ms = 5000, .time_zone = S("UTC"), .start_ms = from_ms + 1000, .end_ms = INT64_MAX, .overlap = policy
    };
    t.cursor_ms = from_ms + 1000;
    add_task(w, t);
    for (w->now_ms = from_ms; w->now_ms < from_ms + 8000; w->now_ms += 1000)
        settle_down(w);
    struct task second = { .id = occurrence_id(t.id, from_ms + 6000), .tenant = TENANT };
    return why(w, &second);
}

/* Both wait for the queue, and the earlier one gets the slot first. */
static void a_run_behind_one_that_waits_for_the_same_queue_may_be_skipped(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w,
              &(struct queue_rules){ .weight = 100, .paused = true, .paused_ms = NOW, .paused_until_ms = NOW + HOUR });
    struct explanation x = why_behind_an_earlier_one(w, 1, OVERLAP_SKIP);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_non_null(strstr(x.text, ". Whether it starts cannot be known: it is skipped if an earlier run, which waits "
                                   "too, is not over by then"));
    assert_string_equal(x.steps[x.n - 1].text,
                        "an earlier run, that of 2026-03-03T10:00:01.000Z, which its paused queue holds until "
                        "2026-03-03T11:00:00.000Z, is to come before it, and if that is not over by then, it is "
                        "skipped");
    x = why_behind_an_earlier_one(w, 2, OVERLAP_QUEUE_ALL);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_non_null(strstr(x.text, ". When it starts cannot be known: an earlier run may take any time"));
}

/* One runs, and two wait for its end. */
static void a_run_behind_others_that_wait_names_the_last_of_them(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 1000);
    t.kind = TASK_RECURRING;
    t.schedule = (struct schedule){ .interval_ms = 2000,
                                    .time_zone = S("UTC"),
                                    .start_ms = NOW + 1000,
                                    .end_ms = INT64_MAX,
                                    .overlap = OVERLAP_QUEUE_ALL };
    t.cursor_ms = NOW + 1000;
    add_task(w, t);
    for (w->now_ms = NOW; w->now_ms < NOW + 6000; w->now_ms += 1000)
        settle_down(w);
    assert_int_equal(w->run_count, 1);
    struct task last = { .id = occurrence_id(t.id, NOW + 5000), .tenant = TENANT },
                next = { .id = occurrence_id(t.id, NOW + 7000), .tenant = TENANT };
    assert_int_equal(state_of(w, last.id), TASK_BLOCKED);
    assert_int_equal(why(w, &last).position, 1);
    struct explanation x = why(w, &next);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_string_equal(
        x.steps[x.n - 1].text,
        "it waits until the run of 2026-03-03T10:00:05.000Z is over, which waits itself; 2 tasks wait ahead of it");
    assert_int_equal(x.position, 2);
}

/* It will be put aside, too, and a breaker may try it first. */
static void one_of_another_priority_may_be_tried_before_it(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = hold_a_recurring_call(w), held = { .id = occurrence_id(t.id, NOW + 1000), .tenant = TENANT };
    struct task urgent = plain_task(2, NOW + 20000);
    urgent.priority = 8;
    add_task(w, urgent);
    settle_down(w);
    struct explanation x = why(w, &held);
    assert_string_equal(explain_gate_name(x.gate), "host_breaker");
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_non_null(strstr(x.text, "only one task at a time is tried"));
    struct task next = { .id = occurrence_id(t.id, NOW + 6000), .tenant = TENANT };
    x = why(w, &next); /* the held one does not start before the trial, whichever that is */
    assert_outcome(&x, EXPLAIN_WILL_SKIPPED, NOW + 6000);
    assert_non_null(strstr(x.text, "; the host here.example asked to be left alone until "));
}

static void a_task_for_outside_workers_waits_for_one_that_asks(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 5000);
    t.target = TARGET_WORKER;
    add_task(w, t);
    settle_down(w);
    struct explanation x = why(w, &t);
    assert_outcome(&x, EXPLAIN_WILL_UNKNOWN, 0);
    assert_int_equal(x.gate, EXPLAIN_DUE_TIME);
    assert_int_equal(x.steps[x.n - 1].gate, EXPLAIN_WORKER);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(its_due_time),
        node_test(a_claim_and_a_run),
        node_test(a_paused_queue_with_who_and_why_and_until_when),
        node_test(a_rate_and_a_limit_of_its_queue),
        node_test(of_tasks_that_are_due_together_the_lower_id_is_ahead),
        node_test(its_tenant),
        node_test(no_slot_of_the_node),
        node_test(the_breaker_of_its_host),
        node_test(that_calls_to_its_host_failed_with_their_number),
        node_test(the_breaker_of_its_tenant_if_that_holds_it),
        node_test(that_another_worker_held_it),
        node_test(a_suspect_that_waits_its_turn),
        node_test(that_the_node_recovers),
        node_test(that_the_store_takes_no_claims),
        node_test(that_it_has_expired_or_that_nothing_holds_it),
        node_test(every_gate_ahead_in_order),
        node_test(an_expiry_before_the_end_of_a_pause_wins),
        node_test(a_pause_without_an_end_lets_it_expire_or_says_that_nobody_knows),
        node_test(a_pause_of_the_task_hides_no_gate_behind_it),
        node_test(a_full_queue_or_a_taken_key_is_told_of_a_paused_task),
        node_test(a_full_node_is_told_of_a_paused_task),
        node_test(a_paused_task_expires_when_it_is_resumed),
        node_test(tasks_that_it_waits_for_hide_no_gate_behind_them),
        node_test(a_task_that_runs_on_another_node_is_not_said_to_be_lost),
        node_test(its_position_in_the_line_of_a_rate),
        node_test(a_task_that_waits_for_a_connection_has_not_started),
        node_test(a_run_that_a_breaker_holds_makes_the_next_one_be_skipped),
        node_test(a_run_that_may_be_skipped_is_said_to_depend_on_the_previous_run),
        node_test(a_run_behind_one_that_waits_for_the_same_queue_may_be_skipped),
        node_test(a_run_behind_others_that_wait_names_the_last_of_them),
        node_test(one_of_another_priority_may_be_tried_before_it),
        node_test(a_task_for_outside_workers_waits_for_one_that_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
