/* core/task/settle: the outcome of one attempt decides the next state of its task. */
#include "core/task/settle.h"

#include "check.h"

enum { NOW = 1700000000 };

static struct prng random_stream;
static struct arena arena;

static int setup(void **state)
{
    (void)state;
    prng_init(&random_stream, 1);
    arena_init(&arena, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct settle_facts one_time(void)
{
    return (struct settle_facts){
        .id = { { 1, 2, 3 } },
        .tenant = 7,
        .kind = TASK_ONE_TIME,
        .fence = 4,
        .scheduled_ms = NOW - 2000,
        .due_ms = NOW - 1000,
        .attempts = 1,
        .losses = 2,
        .expires_ms = INT64_MAX,
        .target = TARGET_HTTP,
        .place = S("https://a.example/x"),
        .retry = { .max_attempts = 5, .base_delay_ms = 100, .max_delay_ms = 10000, .jitter = JITTER_NONE },
    };
}

static struct outcome outcome_of(enum outcome_kind kind)
{
    return (struct outcome){ .kind = kind,
                             .retry_after_ms = -1,
                             .started_us = (NOW - 900) * 1000LL + 5,
                             .completed_us = (NOW - 100) * 1000LL + 7,
                             .worker = S("host-1"),
                             .output = S("out"),
                             .trace_id = S("trace") };
}

static struct outcome http(int status)
{
    struct outcome o = outcome_of(OUTCOME_FAILED);
    o.failure = FAILURE_HTTP;
    o.http_status = status;
    o.sent = true;
    o.error = S("it did not work");
    return o;
}

static struct verdict settled(const struct settle_facts *t, const struct outcome *o)
{
    return settle(t, o, NOW, &random_stream, &arena);
}

/* ---- facts ---- */

static void facts_are_what_settling_needs_of_a_task(void **state)
{
    (void)state;
    struct task t = { .id = { { 1 } },
                      .parent = { { 2 } },
                      .tenant = 3,
                      .kind = TASK_OCCURRENCE,
                      .fence = 4,
                      .scheduled_ms = 5,
                      .due_ms = 6,
                      .attempts = 7,
                      .losses = 8,
                      .delivery = DELIVER_AT_MOST_ONCE,
                      .expires_after_ms = 9,
                      .target = TARGET_HTTP,
                      .target_config = S("{\"url\": \"https://a.example/x\"}"),
                      .retry = RETRY_DEFAULT };
    struct outcome o = http(500);
    struct settle_facts f = settle_facts_of(&t, &o, &arena);
    assert_true(uuid_eq(f.id, t.id) && uuid_eq(f.parent, t.parent));
    assert_int_equal(f.tenant, 3);
    assert_int_equal(f.kind, TASK_OCCURRENCE);
    assert_true(f.fence == 4 && f.scheduled_ms == 5 && f.due_ms == 6);
    assert_int_equal(f.attempts, 7);
    assert_int_equal(f.losses, 8);
    assert_int_equal(f.delivery, DELIVER_AT_MOST_ONCE);
    assert_int_equal(f.retry.max_attempts, 5);
    assert_true(f.expires_ms == 14);
    assert_int_equal(f.target, TARGET_HTTP);
    assert_str(f.place, "https://a.example/x");
    t.expires_after_ms = 0;
    assert_true(settle_facts_of(&t, &o, &arena).expires_ms == INT64_MAX);
}

static void only_what_may_fail_pays_for_its_place(void **state)
{
    (void)state;
    struct task t = { .target = TARGET_HTTP, .target_config = S("{\"url\": \"https://a.example/x\"}") };
    for (int kind = OUTCOME_OK; kind <= OUTCOME_EXPIRED; kind++) {
        struct outcome o = outcome_of((enum outcome_kind)kind);
        bool may_fail = kind == OUTCOME_FAILED || kind == OUTCOME_LOST;
        size_t before = arena.total;
        assert_int_equal(settle_facts_of(&t, &o, &arena).place.n > 0, may_fail);
        assert_int_equal(arena.total > before, may_fail);
        assert_int_equal(settle_facts_of(&t, &o, NULL).place.n, 0);
    }
}

/* ---- success and its execution ---- */

static void success_completes_and_keeps_one_execution(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK);
    o.http_status = 204;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_COMPLETED);
    assert_int_equal(v.attempts, 2);
    assert_int_equal(v.losses, 0);
    assert_true(v.has_execution);
    assert_int_equal(v.last_error.n, 0);
    assert_str(str_from(v.cause.text), "");
    const struct execution *x = &v.execution;
    assert_int_equal(x->status, EXECUTION_COMPLETED);
    assert_int_equal(x->tenant, 7);
    assert_true(uuid_eq(x->task, t.id));
    assert_true(uuid_is_nil(x->occurrence));
    assert_true(x->scheduled_ms == t.scheduled_ms && x->due_ms == t.due_ms && x->fence == 4);
    assert_true(x->started_us == o.started_us && x->completed_us == o.completed_us);
    assert_int_equal(x->attempt, 2);
    assert_int_equal(x->http_status, 204);
    assert_str(x->worker, "host-1");
    assert_str(x->output, "out");
    assert_str(x->trace_id, "trace");
    assert_true(uuid_time_ms(x->id) == o.started_us / 1000);
}

static void execution_of_an_occurrence_names_the_recurring_task(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK);
    t.kind = TASK_OCCURRENCE;
    t.parent = (struct uuid){ { 9 } };
    struct verdict v = settled(&t, &o);
    assert_true(uuid_eq(v.execution.task, t.parent));
    assert_true(uuid_eq(v.execution.occurrence, t.id));
}

static void settling_twice_gives_the_same_execution_id_and_another_fence_another(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK);
    struct uuid first = settled(&t, &o).execution.id;
    assert_true(uuid_eq(first, settled(&t, &o).execution.id));
    t.fence++;
    assert_false(uuid_eq(first, settled(&t, &o).execution.id));
    t = one_time();
    t.id.b[15] ^= 1;
    assert_false(uuid_eq(first, settled(&t, &o).execution.id));
}

static void execution_never_ends_before_it_began(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK);
    o.completed_us = o.started_us - 5000000; /* the clock was set back meanwhile */
    struct verdict v = settled(&t, &o);
    assert_true(v.execution.completed_us == o.started_us);
    o.started_us = o.completed_us = 0; /* unknown */
    v = settled(&t, &o);
    assert_true(v.execution.started_us == t.due_ms * 1000 && v.execution.completed_us == NOW * 1000LL);
}

/* ---- delays and their causes ---- */

static void the_delay_counts_from_what_the_user_waits_for(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK); /* started 100 ms after due_ms */
    assert_true(settled(&t, &o).execution.due_ms == t.due_ms);
    assert_int_equal(settled(&t, &o).execution.late_by, LATE_BACKLOG);
    o.started_us -= 1000;
    assert_int_equal(settled(&t, &o).execution.late_by, LATE_NONE);
    t.awaited_ms = t.due_ms - 7000; /* caught up on */
    t.late_by = LATE_DOWN;
    assert_true(settled(&t, &o).execution.due_ms == t.due_ms - 7000 && settled(&t, &o).execution.late_by == LATE_DOWN);
    o.late_by = LATE_HOST; /* its worker knows more */
    assert_int_equal(settled(&t, &o).execution.late_by, LATE_HOST);
}

static void who_is_put_off_is_still_waited_for_at_the_same_moment(void **state)
{
    (void)state;
    static const struct {
        enum outcome_kind kind;
        enum late_cause by, becomes;
        int64_t retry_after_ms;
    } rows[] = {
        { OUTCOME_HELD, LATE_RETRY_AFTER, LATE_RETRY_AFTER, 2500 },
        { OUTCOME_HELD, LATE_BREAKER, LATE_BREAKER, -1 },
        { OUTCOME_RETURNED, LATE_DOWN, LATE_DOWN, -1 },
        { OUTCOME_RETURNED, LATE_NONE, LATE_SLOT, 10 },
        { OUTCOME_LOST, LATE_NONE, LATE_DOWN, -1 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct settle_facts t = one_time();
        struct outcome o = outcome_of(rows[i].kind);
        t.losses = 0;
        t.late_by = LATE_SLOT;
        o.late_by = rows[i].by;
        o.retry_after_ms = rows[i].retry_after_ms;
        struct verdict v = settled(&t, &o);
        assert_int_equal(v.next, TASK_SCHEDULED);
        assert_true((v.awaited_ms ? v.awaited_ms : v.due_ms) == t.due_ms);
        assert_int_equal(v.late_by, rows[i].becomes);
        t.awaited_ms = NOW - 90000;
        assert_true(settled(&t, &o).awaited_ms == NOW - 90000);
    }
}

static void a_retry_is_waited_for_at_its_own_time(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(503);
    t.awaited_ms = NOW - 90000;
    t.late_by = LATE_DOWN;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms > NOW && v.awaited_ms == 0);
    assert_int_equal(v.late_by, LATE_NONE);
}

static void a_lost_run_ends_when_it_is_found(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = { .kind = OUTCOME_LOST, .retry_after_ms = -1 };
    struct verdict v = settled(&t, &o);
    assert_true(v.execution.started_us == t.due_ms * 1000 && v.execution.completed_us == NOW * 1000LL);
}

static void a_task_never_ends_before_its_last_attempt(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_OK);
    struct verdict v = settled(&t, &o);
    assert_true(settle_completed_ms(&v, NOW) == NOW);
    assert_true(settle_completed_ms(&v, NOW - 500) == NOW - 100); /* the worker's clock is ahead */
    v.next = TASK_SCHEDULED;
    assert_true(settle_completed_ms(&v, NOW) == 0);
}

/* ---- returned, cancelled, lost ---- */

static void what_is_handed_back_costs_nothing(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_RETURNED);
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_int_equal(v.attempts, 1);
    assert_int_equal(v.losses, 2);
    assert_false(v.has_execution);
    assert_int_equal(v.aside.n, 0);
}

static void what_is_handed_back_keeps_its_place(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_RETURNED);
    assert_true(settled(&t, &o).due_ms == NOW - 1000);
    o.retry_after_ms = 0;
    assert_true(settled(&t, &o).due_ms == NOW - 1000);
    t.due_ms = NOW + 50;
    assert_true(settled(&t, &o).due_ms == NOW + 50);
}

static void what_is_handed_back_for_a_while_comes_after_it(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_RETURNED);
    o.retry_after_ms = 30;
    assert_true(settled(&t, &o).due_ms == NOW + 30);
    t.due_ms = NOW + 50;
    assert_true(settled(&t, &o).due_ms == NOW + 50);
}

static void cancelled_while_it_ran_is_cancelled_and_leaves_a_record(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_CANCELLED);
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_CANCELLED);
    assert_int_equal(v.attempts, 2);
    assert_int_equal(v.losses, 0);
    assert_true(v.has_execution);
    assert_int_equal(v.execution.status, EXECUTION_CANCELLED);
    assert_str(v.last_error, "cancelled while it ran");
}

static void a_loss_spends_no_attempt_and_runs_again(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    t.losses = 1;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms == NOW);
    assert_int_equal(v.attempts, 1);
    assert_int_equal(v.losses, 2);
    assert_true(v.has_execution);
    assert_int_equal(v.execution.status, EXECUTION_LOST);
    assert_int_equal(v.execution.attempt, 2);
    assert_str(v.last_error,
               "lost: the node or worker that had it died before the outcome was stored; the task may have run");
    assert_str(v.execution.error,
               "lost: the node or worker that had it died before the outcome was stored; the task may have run");
    t.due_ms = NOW + 10;
    assert_true(settled(&t, &o).due_ms == NOW + 10);
}

static void a_suspect_that_is_lost_keeps_its_place(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    t.losses = SUSPECT_LOSSES;
    t.due_ms = NOW - 5000;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms == NOW - 5000);
}

static void one_that_is_called_off_before_it_began_leaves_no_execution(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_CANCELLED);
    o.started_us = 0;
    o.error = S("replaced by the run of 2026-03-03T10:00:00Z");
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_CANCELLED);
    assert_true(!v.has_execution && v.attempts == 1);
    assert_str(v.last_error, "replaced by the run of 2026-03-03T10:00:00Z");
    assert_str(settled(&t, &(struct outcome){ .kind = OUTCOME_CANCELLED }).last_error, "cancelled before it began");
}

static void a_suspect_lost_alone_is_poison(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    o.alone = true;
    t.losses = SUSPECT_LOSSES;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_FAILED);
    assert_int_equal(v.losses, SUSPECT_LOSSES + 1);
    assert_int_equal(v.execution.status, EXECUTION_LOST);
    assert_true(str_starts(v.last_error, S("poison: ")));
    assert_int_equal(strlen(v.cause.text), FINGERPRINT_TEXT);
}

static void a_lost_lease_says_that_it_expired(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    t.target = TARGET_WORKER;
    o.alone = true;
    t.losses = 0;
    assert_str(settled(&t, &o).last_error, "lost: its lease expired before its worker reported; the task may have run");
    t.losses = SUSPECT_LOSSES;
    assert_str(settled(&t, &o).last_error, "poison: three leases in a row expired without a report");
    t.delivery = DELIVER_AT_MOST_ONCE;
    assert_str(settled(&t, &o).execution.error,
               "outcome unknown: its lease expired, and the task must run at most once");
}

static void one_that_was_no_suspect_yet_is_not_poison_and_neither_is_one_among_others(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    o.alone = true;
    t.losses = SUSPECT_LOSSES - 1; /* this loss makes it a suspect */
    assert_int_equal(settled(&t, &o).next, TASK_SCHEDULED);
    o.alone = false;
    for (t.losses = 0; t.losses < 1000; t.losses++) {
        struct verdict v = settled(&t, &o);
        assert_int_equal(v.next, TASK_SCHEDULED);
        assert_int_equal(v.losses, t.losses + 1);
    }
}

static void at_most_once_does_not_survive_a_loss(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_LOST);
    t.delivery = DELIVER_AT_MOST_ONCE;
    t.losses = 0;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_FAILED);
    assert_int_equal(v.losses, 1);
    assert_str(v.last_error,
               "outcome unknown: the node or worker that had it died, and the task must run at most once");
}

/* ---- held, expired ---- */

static void one_that_is_held_comes_back_when_it_was_told_and_has_spent_nothing(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_HELD);
    o.retry_after_ms = 30000;
    o.error = S("held: a.example is left alone");
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms == NOW + 30000);
    assert_int_equal(v.attempts, 1);
    assert_int_equal(v.losses, 2);
    assert_false(v.has_execution);
    assert_str(v.last_error, "held: a.example is left alone");
    assert_int_equal(v.aside.n, 0);
}

static void one_that_is_held_without_a_time_keeps_its_place_in_its_hosts_lane(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_HELD);
    o.retry_after_ms = 0;
    o.aside = S("a.example:8443");
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms == NOW - 1000);
    assert_str(v.aside, "a.example:8443");
    t.expires_ms = NOW - 500; /* it expires when it is claimed */
    assert_true(settled(&t, &o).due_ms == NOW - 1000);
    o.retry_after_ms = -1;
    assert_true(settled(&t, &o).due_ms == NOW - 1000);
}

static void one_that_is_held_for_too_long_comes_back_when_it_expires(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_HELD);
    o.retry_after_ms = 30000;
    t.expires_ms = NOW + 20000;
    assert_true(settled(&t, &o).due_ms == NOW + 20000);
    t.expires_ms = NOW - 20000; /* never before now */
    assert_true(settled(&t, &o).due_ms == NOW);
}

static void one_that_expired_before_it_fired_has_spent_nothing(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_EXPIRED);
    o.error = S("expired");
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_EXPIRED);
    assert_int_equal(v.attempts, 1);
    assert_int_equal(v.losses, 2);
    assert_false(v.has_execution);
    assert_str(v.last_error, "expired");
    assert_str(str_from(v.cause.text), "");
    assert_true(is_expired(NOW, NOW) && !is_expired(NOW + 1, NOW) && !is_expired(INT64_MAX, NOW));
}

static void a_retry_that_would_come_too_late_expires_it_at_once(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(500);
    t.expires_ms = NOW + 200; /* the delay after its second attempt is 200 ms */
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_EXPIRED);
    assert_int_equal(v.attempts, 2);
    assert_true(v.has_execution);
    assert_str(v.execution.error, "it did not work");
    assert_str(v.last_error, "expired: it was valid until 1970-01-20T16:13:20.200Z, the next attempt would come at "
                             "1970-01-20T16:13:20.200Z; it failed with: it did not work");
    assert_str(str_from(v.cause.text), "");
    t.expires_ms = NOW + 201;
    assert_int_equal(settled(&t, &o).next, TASK_SCHEDULED);
    t.expires_ms = NOW;
    t.attempts = 4; /* all attempts are used up: the user must see FAILED, not EXPIRED */
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
}

static void without_memory_an_expired_one_still_says_so(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(500);
    t.expires_ms = NOW;
    struct verdict v = settle(&t, &o, NOW, &random_stream, NULL);
    assert_str(v.last_error, "expired: the next attempt would come too late");
    struct arena full;
    arena_init(&full, 1);
    assert_str(settle(&t, &o, NOW, &random_stream, &full).last_error, "expired: the next attempt would come too late");
    arena_release(&full);
}

/* ---- failures ---- */

static void what_failed_of_the_same_cause_has_the_same_fingerprint(void **state)
{
    (void)state;
    struct settle_facts t = one_time(), u = one_time();
    struct outcome o = http(404), other = http(410);
    u.id.b[3] = 9;
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_FAILED);
    assert_int_equal(strlen(v.cause.text), FINGERPRINT_TEXT);
    assert_string_equal(v.cause.text, settled(&u, &o).cause.text);
    assert_string_not_equal(v.cause.text, settled(&t, &other).cause.text);
    u.place = S("https://b.example/x");
    assert_string_not_equal(v.cause.text, settled(&u, &o).cause.text);
}

static void failure_is_tried_again_until_max_attempts(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(500);
    for (t.attempts = 0; t.attempts < 4; t.attempts++) {
        struct verdict v = settled(&t, &o);
        assert_int_equal(v.next, TASK_SCHEDULED);
        assert_int_equal(v.attempts, t.attempts + 1);
        assert_int_equal(v.losses, 0); /* a reported outcome resets the losses: the worker survived */
        assert_str(str_from(v.cause.text), "");
        assert_true(v.due_ms == NOW + (100 << t.attempts));
        assert_int_equal(v.execution.status, EXECUTION_FAILED);
        assert_str(v.last_error, "it did not work");
    }
    struct verdict last = settled(&t, &o);
    assert_int_equal(last.next, TASK_FAILED);
    assert_int_equal(last.attempts, 5);
    t.attempts = 0;
    t.retry.max_attempts = 1; /* no retry */
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
}

static void which_failures_are_final(void **state)
{
    (void)state;
    static const struct {
        int status;
        bool final;
    } rows[] = {
        { 0, false },   { 100, false }, { 300, true },  { 301, true },  { 304, true },  { 400, true },  { 404, true },
        { 407, true },  { 408, false }, { 409, true },  { 410, true },  { 424, true },  { 425, false }, { 426, true },
        { 429, false }, { 499, true },  { 500, false }, { 503, false }, { 599, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct outcome o = http(rows[i].status);
        struct settle_facts t = one_time();
        assert_int_equal(outcome_is_final(&o), rows[i].final);
        assert_int_equal(settled(&t, &o).next, rows[i].final ? TASK_FAILED : TASK_SCHEDULED);
    }
}

static void only_what_we_refuse_to_call_is_final_among_other_failures(void **state)
{
    (void)state;
    static const enum failure kinds[] = { FAILURE_CONNECT, FAILURE_TLS,     FAILURE_TIMEOUT,
                                          FAILURE_NETWORK, FAILURE_REFUSED, FAILURE_INTERNAL };
    for (size_t i = 0; i < array_count(kinds); i++) {
        struct outcome o = outcome_of(OUTCOME_FAILED);
        struct settle_facts t = one_time();
        o.failure = kinds[i];
        o.http_status = 404; /* a status of an earlier answer: it counts only if the failure is FAILURE_HTTP */
        assert_int_equal(outcome_is_final(&o), kinds[i] == FAILURE_REFUSED);
        assert_int_equal(settled(&t, &o).next, kinds[i] == FAILURE_REFUSED ? TASK_FAILED : TASK_SCHEDULED);
    }
}

static void at_most_once_is_tried_again_only_if_nothing_was_sent(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = outcome_of(OUTCOME_FAILED);
    t.delivery = DELIVER_AT_MOST_ONCE;
    o.failure = FAILURE_CONNECT;
    assert_int_equal(settled(&t, &o).next, TASK_SCHEDULED);
    o.sent = true;
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
    t.delivery = DELIVER_AT_LEAST_ONCE;
    assert_int_equal(settled(&t, &o).next, TASK_SCHEDULED);
}

static void a_rule_makes_a_final_failure_one_that_is_tried_again(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(404);
    t.retry.rules = S("[{\"on\": [\"404\"], \"max_attempts\": 3, \"base_delay_ms\": 7000, \"max_delay_ms\": 7000}]");
    struct verdict v = settled(&t, &o);
    assert_int_equal(v.next, TASK_SCHEDULED);
    assert_true(v.due_ms == NOW + 7000);
    t.attempts = 2;
    assert_int_equal(settled(&t, &o).next, TASK_FAILED); /* up to its max_attempts */
    t.attempts = 1;
    o = http(400);
    assert_int_equal(settled(&t, &o).next, TASK_FAILED); /* the rule does not name this failure */
}

static void no_rule_brings_back_what_is_gone_or_refused_or_sent_at_most_once(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(410);
    t.retry.rules = S("[{\"on\": [\"4xx\", \"5xx\", \"timeout\", \"connect\"], \"max_attempts\": 9}]");
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
    o = http(503);
    t.delivery = DELIVER_AT_MOST_ONCE;
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
    t.delivery = DELIVER_AT_LEAST_ONCE;
    o = outcome_of(OUTCOME_FAILED);
    o.failure = FAILURE_REFUSED;
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
}

static void a_rule_may_allow_fewer_attempts_than_the_policy(void **state)
{
    (void)state;
    struct settle_facts t = one_time();
    struct outcome o = http(503);
    t.retry.rules = S("[{\"on\": [\"5xx\"], \"max_attempts\": 2}]");
    assert_int_equal(settled(&t, &o).next, TASK_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_what_settling_needs_of_a_task),
        cmocka_unit_test(only_what_may_fail_pays_for_its_place),
        cmocka_unit_test(success_completes_and_keeps_one_execution),
        cmocka_unit_test(execution_of_an_occurrence_names_the_recurring_task),
        cmocka_unit_test(settling_twice_gives_the_same_execution_id_and_another_fence_another),
        cmocka_unit_test(execution_never_ends_before_it_began),
        cmocka_unit_test(the_delay_counts_from_what_the_user_waits_for),
        cmocka_unit_test(who_is_put_off_is_still_waited_for_at_the_same_moment),
        cmocka_unit_test(a_retry_is_waited_for_at_its_own_time),
        cmocka_unit_test(a_lost_run_ends_when_it_is_found),
        cmocka_unit_test(a_task_never_ends_before_its_last_attempt),
        cmocka_unit_test(what_is_handed_back_costs_nothing),
        cmocka_unit_test(what_is_handed_back_keeps_its_place),
        cmocka_unit_test(what_is_handed_back_for_a_while_comes_after_it),
        cmocka_unit_test(cancelled_while_it_ran_is_cancelled_and_leaves_a_record),
        cmocka_unit_test(a_loss_spends_no_attempt_and_runs_again),
        cmocka_unit_test(a_suspect_lost_alone_is_poison),
        cmocka_unit_test(a_lost_lease_says_that_it_expired),
        cmocka_unit_test(a_suspect_that_is_lost_keeps_its_place),
        cmocka_unit_test(one_that_is_called_off_before_it_began_leaves_no_execution),
        cmocka_unit_test(one_that_was_no_suspect_yet_is_not_poison_and_neither_is_one_among_others),
        cmocka_unit_test(at_most_once_does_not_survive_a_loss),
        cmocka_unit_test(one_that_is_held_comes_back_when_it_was_told_and_has_spent_nothing),
        cmocka_unit_test(one_that_is_held_without_a_time_keeps_its_place_in_its_hosts_lane),
        cmocka_unit_test(one_that_is_held_for_too_long_comes_back_when_it_expires),
        cmocka_unit_test(one_that_expired_before_it_fired_has_spent_nothing),
        cmocka_unit_test(a_retry_that_would_come_too_late_expires_it_at_once),
        cmocka_unit_test(without_memory_an_expired_one_still_says_so),
        cmocka_unit_test(what_failed_of_the_same_cause_has_the_same_fingerprint),
        cmocka_unit_test(failure_is_tried_again_until_max_attempts),
        cmocka_unit_test(which_failures_are_final),
        cmocka_unit_test(only_what_we_refuse_to_call_is_final_among_other_failures),
        cmocka_unit_test(at_most_once_is_tried_again_only_if_nothing_was_sent),
        cmocka_unit_test(a_rule_makes_a_final_failure_one_that_is_tried_again),
        cmocka_unit_test(no_rule_brings_back_what_is_gone_or_refused_or_sent_at_most_once),
        cmocka_unit_test(a_rule_may_allow_fewer_attempts_than_the_policy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
