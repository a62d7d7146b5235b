#include "check.h"

#include <stdio.h>

#include "core/task/action.h"

#define NOW_MS 1770710400000LL

enum { STATES = TASK_EXPIRED + 1, ACTIONS = ACTION_DELETE + 1 };

static struct uuid id_of(uint8_t n)
{
    return (struct uuid){ { n } };
}

/* A complete task: due in one hour, edited once, claimed three times. */
static struct task sample(enum task_kind kind, enum task_state state)
{
    struct task t = {
        .id = id_of(1),
        .tenant = 4,
        .kind = kind,
        .state = state,
        .due_ms = state == TASK_RUNNING ? NOW_MS : NOW_MS + 3600000,
        .scheduled_ms = NOW_MS + 1800000,
        .version = 2,
        .fence = 3,
        .attempts = 4,
        .losses = 1,
        .claim = state == TASK_RUNNING ? id_of(7) : (struct uuid){ 0 },
        .priority = 6,
        .queue = S("q"),
        .name = S("n"),
        .target = TARGET_NOOP,
        .payload = S("[1]"),
        .extra = S("{\"metadata\":{}}"),
        .created_ms = NOW_MS - 5000,
        .updated_ms = NOW_MS - 4000,
        .started_ms = NOW_MS - 3000,
        .completed_ms = task_is_final(state) ? NOW_MS - 2000 : 0,
        .last_error = S("it broke"),
    };
    if (kind == TASK_OCCURRENCE)
        t.parent = id_of(2);
    if (kind == TASK_RECURRING) {
        t.schedule = (struct schedule){ .interval_ms = 60000, .time_zone = S("UTC"), .end_ms = INT64_MAX };
        t.cursor_ms = NOW_MS - 120000;
        t.runs_count = 8;
        t.skipped_count = 2;
        t.last_run_ms = NOW_MS - 180000;
    }
    return t;
}

static enum err act(const struct task *t, enum action action, bool force, struct action_plan *ret, struct error *e)
{
    return task_act(t, action, force, NULL, id_of(9), NOW_MS, ret, e);
}

static struct action_plan must_act(const struct task *t, enum action action)
{
    struct action_plan p;
    struct error e = { 0 };
    assert_ok(act(t, action, false, &p, &e), &e);
    return p;
}

/* The rows of the second table of docs/STATE_MACHINE.md: a state, "-" (refused) or "=" (no change). */
/* clang-format off */
static const char *const matrix[ACTIONS][STATES] = {
    /*                          SCHEDULED    BLOCKED      PAUSED       RUNNING      COMPLETED    FAILED       CANCELLED    … */
    [ACTION_CANCEL]         = { "CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED", "-",         "-",         "=",         "-", "-" },
    [ACTION_PAUSE]          = { "PAUSED",    "PAUSED",    "=",         "-",         "-",         "-",         "-",         "-", "-" },
    [ACTION_RESUME]         = { "=",         "-",         "SCHEDULED", "=",         "-",         "-",         "-",         "-", "-" },
    [ACTION_RUN_NOW]        = { "SCHEDULED", "-",         "SCHEDULED", "-",         "-",         "-",         "-",         "-", "-" },
    [ACTION_RETRY]          = { "-",         "-",         "-",         "-",         "-",         "SCHEDULED", "-",         "-", "-" },
    [ACTION_FORCE_COMPLETE] = { "COMPLETED", "COMPLETED", "COMPLETED", "-",         "=",         "COMPLETED", "-",         "-", "-" },
    [ACTION_DELETE]         = { "CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED", "COMPLETED", "FAILED",    "CANCELLED",
                                "SKIPPED", "EXPIRED" },
};
/* clang-format on */

static void check_cell(enum task_kind kind, enum action a, enum task_state s)
{
    const char *expected = matrix[a][s];
    struct task t = sample(kind, s);
    struct action_plan p = { .task.version = 77 };
    struct error e = { 0 };
    enum err rc = act(&t, a, false, &p, &e);
    if (expected[0] == '-') {
        assert_int_equal(rc, ERR_CONFLICT);
        assert_int_equal(p.task.version, 77);
        return;
    }
    assert_ok(rc, &e);
    bool changes = expected[0] != '=';
    assert_int_equal(p.changes, changes);
    assert_string_equal(task_state_name(p.task.state), changes ? expected : task_state_name(s));
    assert_int_equal(p.task.version, changes ? 3 : 2);
    assert_int_equal(p.task.updated_ms, changes ? NOW_MS : NOW_MS - 4000);
    assert_int_equal(p.task.fence, 3);
    assert_false(p.withdraw || p.has_also);
    if (p.task.state != s)
        assert_true(task_may_become(s, p.task.state) && uuid_is_nil(p.task.claim));
    if (task_is_final(p.task.state) && p.task.state != s)
        assert_int_equal(p.task.completed_ms, NOW_MS);
    else
        assert_int_equal(p.task.completed_ms, task_is_final(p.task.state) ? NOW_MS - 2000 : 0);
    assert_int_equal(p.task.deleted, a == ACTION_DELETE);
}

static void every_action_in_every_state_does_what_the_table_says(void **state)
{
    (void)state;
    for (int a = 0; a < ACTIONS; a++) {
        for (int s = 0; s < STATES; s++) {
            check_cell(TASK_ONE_TIME, (enum action)a, (enum task_state)s);
            check_cell(TASK_OCCURRENCE, (enum action)a, (enum task_state)s);
        }
    }
}

static void a_refusal_names_the_state_and_what_to_do(void **state)
{
    (void)state;
    for (int a = 0; a < ACTIONS; a++) {
        for (int s = 0; s < STATES; s++) {
            struct task t = sample(TASK_ONE_TIME, (enum task_state)s);
            struct action_plan p;
            struct error e = { 0 };
            if (act(&t, (enum action)a, false, &p, &e) == ERR_OK)
                continue;
            char start[64];
            snprintf(start, sizeof start, "the task is %s and cannot be ", task_state_name((enum task_state)s));
            assert_int_equal(e.code, ERR_CONFLICT);
            assert_true(str_starts(str_from(e.text), str_from(start)));
            const char *instead = strstr(e.text, "; ");
            assert_non_null(instead);
            assert_true(strlen(instead) > 6);
            assert_int_equal(act(&t, (enum action)a, false, &p, NULL), ERR_CONFLICT);
        }
    }
}

static void refusals_read_like_this(void **state)
{
    (void)state;
    static const struct {
        enum action action;
        enum task_state state;
        const char *says;
    } rows[] = {
        { ACTION_CANCEL, TASK_COMPLETED,
          "the task is COMPLETED and cannot be cancelled; it has run; delete it to take it off the lists" },
        { ACTION_PAUSE, TASK_RUNNING, "the task is RUNNING and cannot be paused; wait for it to end, or cancel it" },
        { ACTION_RESUME, TASK_FAILED, "the task is FAILED and cannot be resumed; retry it" },
        { ACTION_RUN_NOW, TASK_RUNNING,
          "the task is RUNNING and cannot be run now; it runs already; wait for it to end" },
        { ACTION_RUN_NOW, TASK_BLOCKED,
          "the task is BLOCKED and cannot be run now; it waits for something; use {\"force\": true} to not wait" },
        { ACTION_RETRY, TASK_COMPLETED, "the task is COMPLETED and cannot be retried; create a new task" },
        { ACTION_RETRY, TASK_PAUSED, "the task is PAUSED and cannot be retried; resume it, or run it now" },
        { ACTION_FORCE_COMPLETE, TASK_RUNNING,
          "the task is RUNNING and cannot be completed by force; wait for it to end, or cancel it" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct task t = sample(TASK_ONE_TIME, rows[i].state);
        struct action_plan p;
        struct error e = { 0 };
        assert_int_equal(act(&t, rows[i].action, false, &p, &e), ERR_CONFLICT);
        assert_string_equal(e.text, rows[i].says);
        assert_string_equal(e.field, "");
    }
}

static void a_refusal_calls_a_run_a_run_and_a_step_a_step(void **state)
{
    (void)state;
    struct task run = sample(TASK_ONE_TIME, TASK_COMPLETED), step = run;
    struct action_plan p;
    struct error e = { 0 };
    run.target = step.target = TARGET_WORKFLOW;
    step.run = run.id;
    step.run.b[0] |= 1;
    assert_int_equal(act(&run, ACTION_PAUSE, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the run is COMPLETED and cannot be paused; it has run; rerun it, or start a new run");
    assert_int_equal(act(&run, ACTION_RETRY, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the run is COMPLETED and cannot be retried; rerun it, or start a new run");
    assert_int_equal(act(&step, ACTION_RETRY, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the step is COMPLETED and cannot be retried; rerun its run");
    run.state = TASK_CANCELLED;
    assert_int_equal(act(&run, ACTION_RESUME, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the run is CANCELLED and cannot be resumed; retry it, rerun it, or start a new run");
    assert_int_equal(act(&run, ACTION_RETRY, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the run is CANCELLED and cannot be retried; rerun it, or start a new run");
}

static void run_now_is_due_now_and_keeps_its_attempts(void **state)
{
    (void)state;
    for (enum task_state s = TASK_SCHEDULED; s <= TASK_PAUSED; s++) {
        struct task t = sample(TASK_ONE_TIME, s);
        struct action_plan p;
        struct error e = { 0 };
        assert_ok(act(&t, ACTION_RUN_NOW, s == TASK_BLOCKED, &p, &e), &e);
        assert_int_equal(p.task.state, TASK_SCHEDULED);
        assert_int_equal(p.task.due_ms, NOW_MS);
        assert_int_equal(p.task.scheduled_ms, NOW_MS);
        assert_int_equal(p.task.attempts, 4);
        assert_true(p.changes);
    }
}

static void resume_keeps_the_time_unless_it_has_gone_by(void **state)
{
    (void)state;
    struct task t = sample(TASK_ONE_TIME, TASK_PAUSED);
    assert_int_equal(must_act(&t, ACTION_RESUME).task.due_ms, NOW_MS + 3600000);
    t.due_ms = NOW_MS - 1;
    struct action_plan p = must_act(&t, ACTION_RESUME);
    assert_int_equal(p.task.due_ms, NOW_MS);
    assert_int_equal(p.task.scheduled_ms, t.scheduled_ms);
}

static void a_task_that_depends_on_others_waits_for_them_unless_it_is_forced(void **state)
{
    (void)state;
    struct action_plan p;
    struct error e = { 0 };
    struct task blocked = sample(TASK_ONE_TIME, TASK_BLOCKED), paused = sample(TASK_ONE_TIME, TASK_PAUSED);
    blocked.links = paused.links = TASK_HAS_PARENTS | TASK_WAITS;
    p = must_act(&blocked, ACTION_PAUSE);
    assert_true(p.task.state == TASK_PAUSED && p.task.links == blocked.links);
    p = must_act(&paused, ACTION_RESUME);
    assert_true(p.task.state == TASK_BLOCKED && p.task.links == blocked.links);
    assert_int_equal(act(&paused, ACTION_RUN_NOW, false, &p, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.text, "it waits for the tasks that it depends on"));
    assert_ok(act(&paused, ACTION_RUN_NOW, true, &p, &e), &e);
    assert_true(p.task.state == TASK_SCHEDULED && p.task.links == TASK_HAS_PARENTS);
    assert_ok(act(&blocked, ACTION_RUN_NOW, true, &p, &e), &e);
    assert_true(p.task.state == TASK_SCHEDULED && p.task.links == TASK_HAS_PARENTS);
    assert_int_equal(must_act(&blocked, ACTION_CANCEL).task.links, TASK_HAS_PARENTS);
}

static void retry_starts_again_at_the_first_attempt(void **state)
{
    (void)state;
    struct task t = sample(TASK_OCCURRENCE, TASK_FAILED);
    struct action_plan p = must_act(&t, ACTION_RETRY);
    assert_int_equal(p.task.due_ms, NOW_MS);
    assert_int_equal(p.task.attempts, 0);
    assert_int_equal(p.task.losses, 0);
    assert_int_equal(p.task.completed_ms, 0);
    assert_int_equal(p.task.fence, 3);
    assert_int_equal(p.task.scheduled_ms, t.scheduled_ms);
    assert_str(p.task.last_error, "it broke");
}

static void what_is_tried_by_hand_is_not_too_late_for_it(void **state)
{
    (void)state;
    struct task t = sample(TASK_OCCURRENCE, TASK_FAILED);
    t.scheduled_ms = NOW_MS - 86400000;
    t.runs_count = 1;
    struct action_plan p = must_act(&t, ACTION_RETRY);
    assert_int_equal(p.task.scheduled_ms, t.scheduled_ms); /* it identifies the occurrence */
    t.expires_after_ms = 60000;
    p = must_act(&t, ACTION_RETRY);
    assert_int_equal(p.task.scheduled_ms, NOW_MS);
    assert_int_equal(task_expires_ms(&p.task), NOW_MS + 60000);
    assert_int_equal(p.task.overlap, OVERLAP_ALLOW);
    assert_int_equal(p.task.runs_count, 0);
    t = sample(TASK_ONE_TIME, TASK_PAUSED);
    t.scheduled_ms = NOW_MS - 86400000;
    t.expires_after_ms = 60000;
    p = must_act(&t, ACTION_RUN_NOW);
    assert_int_equal(task_expires_ms(&p.task), NOW_MS + 60000);
    p = must_act(&t, ACTION_RESUME);
    assert_true(task_expires_ms(&p.task) < NOW_MS);
}

static void what_becomes_of_a_failure_forgets_its_cause(void **state)
{
    (void)state;
    struct task t = sample(TASK_ONE_TIME, TASK_FAILED);
    t.cause = S("0011223344556677");
    t.resolved_ms = NOW_MS - 1;
    t.resolution = S("{}");
    struct action_plan p = must_act(&t, ACTION_RETRY);
    assert_int_equal(p.task.cause.n + p.task.resolution.n, 0);
    assert_int_equal(p.task.resolved_ms, 0);
    p = must_act(&t, ACTION_DELETE); /* stays FAILED */
    assert_str(p.task.cause, "0011223344556677");
}

/* ---- tasks that wait for a slot ---- */

static void force_goes_beside_the_previous_run_but_not_past_a_limit(void **state)
{
    (void)state;
    struct action_plan p;
    struct error e = { 0 };
    struct task t = sample(TASK_OCCURRENCE, TASK_BLOCKED);
    t.overlap = OVERLAP_QUEUE_ALL;
    t.waits_for = S("o:0198f000-0000-7000-8000-000000000001");
    assert_int_equal(act(&t, ACTION_RUN_NOW, false, &p, &e), ERR_CONFLICT);
    assert_ok(act(&t, ACTION_RUN_NOW, true, &p, &e), &e);
    assert_int_equal(p.task.state, TASK_SCHEDULED);
    assert_int_equal(p.task.overlap, OVERLAP_ALLOW);
    assert_int_equal(p.task.waits_for.n, 0);
    t.waits_for = S("c:4:key");
    assert_int_equal(act(&t, ACTION_RUN_NOW, true, &p, &e), ERR_CONFLICT);
    assert_says(&e, "it waits for a free slot");
    assert_int_equal(act(&t, ACTION_RESUME, false, &p, &e), ERR_CONFLICT);
    p = must_act(&t, ACTION_PAUSE);
    assert_int_equal(p.task.waits_for.n, 0);
    assert_int_equal(p.task.overlap, OVERLAP_QUEUE_ALL);
}

static void a_retry_by_hand_is_neither_too_late_nor_in_the_way(void **state)
{
    (void)state;
    struct task t = sample(TASK_OCCURRENCE, TASK_FAILED);
    t.expires_after_ms = 1000;
    t.overlap = OVERLAP_SKIP;
    t.cause = S("0123");
    t.resolved_ms = 5;
    t.resolution = S("{}");
    struct action_plan p = must_act(&t, ACTION_RETRY);
    assert_int_equal(p.task.scheduled_ms, NOW_MS);
    assert_int_equal(p.task.overlap, OVERLAP_ALLOW);
    assert_int_equal(p.task.cause.n + p.task.resolution.n, 0);
    assert_int_equal(p.task.resolved_ms, 0);
    t = sample(TASK_ONE_TIME, TASK_FAILED);
    t.cause = S("0123");
    p = must_act(&t, ACTION_DELETE); /* keeps its state */
    assert_str(p.task.cause, "0123");
}

static void a_task_that_waits_for_a_slot_is_not_forced_past_it(void **state)
{
    (void)state;
    static const enum action refused[] = { ACTION_RUN_NOW, ACTION_RESUME, ACTION_RETRY };
    struct task t = sample(TASK_ONE_TIME, TASK_BLOCKED);
    t.waits_for = S("c:4:db");
    for (size_t i = 0; i < array_count(refused); i++) {
        struct action_plan p;
        struct error e = { 0 };
        assert_int_equal(act(&t, refused[i], true, &p, &e), ERR_CONFLICT);
        assert_says(
            &e,
            "it waits for a free slot and starts by itself; to start it sooner, cancel the task that holds the slot");
    }
    assert_int_equal(must_act(&t, ACTION_PAUSE).task.waits_for.n, 0);
    assert_int_equal(must_act(&t, ACTION_CANCEL).task.waits_for.n, 0);
    assert_int_equal(must_act(&t, ACTION_FORCE_COMPLETE).task.waits_for.n, 0);
}

static void a_claimed_task_that_has_not_fired_is_treated_as_scheduled(void **state)
{
    (void)state;
    struct task t = sample(TASK_ONE_TIME, TASK_RUNNING);
    t.due_ms = NOW_MS + 1;
    static const struct {
        enum action action;
        enum task_state next;
    } rows[] = {
        { ACTION_CANCEL, TASK_CANCELLED },
        { ACTION_PAUSE, TASK_PAUSED },
        { ACTION_FORCE_COMPLETE, TASK_COMPLETED },
        { ACTION_DELETE, TASK_CANCELLED },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct action_plan p = must_act(&t, rows[i].action);
        assert_true(p.changes);
        assert_int_equal(p.task.state, rows[i].next);
        assert_true(uuid_is_nil(p.task.claim));
        assert_int_equal(p.task.due_ms, NOW_MS + 1);
    }
    struct action_plan p = must_act(&t, ACTION_RUN_NOW); /* its node may hold it for seconds */
    assert_true(p.changes);
    assert_int_equal(p.task.state, TASK_SCHEDULED);
    assert_int_equal(p.task.due_ms, NOW_MS);
    assert_false(must_act(&t, ACTION_RESUME).changes);
    struct error e = { 0 };
    assert_int_equal(act(&t, ACTION_RETRY, false, &p, &e), ERR_CONFLICT);
    assert_says(&e, "the task is SCHEDULED and cannot be retried");
}

static void a_recurring_task_withdraws_what_it_has_spawned(void **state)
{
    (void)state;
    static const enum action withdrawing[] = { ACTION_CANCEL, ACTION_PAUSE, ACTION_FORCE_COMPLETE, ACTION_DELETE };
    for (size_t i = 0; i < array_count(withdrawing); i++) {
        struct task t = sample(TASK_RECURRING, TASK_SCHEDULED);
        struct action_plan p = must_act(&t, withdrawing[i]);
        assert_true(p.changes && p.withdraw);
        assert_false(p.has_also);
        assert_int_equal(p.task.cursor_ms, t.cursor_ms);
        assert_int_equal(p.task.runs_count, 8);
    }
    struct task over = sample(TASK_RECURRING, TASK_COMPLETED);
    struct action_plan p = must_act(&over, ACTION_DELETE);
    assert_true(p.changes && p.task.deleted);
    assert_false(p.withdraw);
    assert_int_equal(p.task.state, TASK_COMPLETED);
}

static void a_resumed_recurring_task_is_caught_up_from_where_it_was(void **state)
{
    (void)state;
    struct task t = sample(TASK_RECURRING, TASK_PAUSED);
    struct action_plan p = must_act(&t, ACTION_RESUME);
    assert_int_equal(p.task.state, TASK_SCHEDULED);
    assert_int_equal(p.task.cursor_ms, t.cursor_ms);
    assert_true(p.withdraw); /* a pause that was cut short may have left paused occurrences, which would never run */
}

static void run_now_of_a_recurring_task_spawns_one_more(void **state)
{
    (void)state;
    static const enum task_state from[] = { TASK_SCHEDULED, TASK_PAUSED };
    for (size_t i = 0; i < array_count(from); i++) {
        struct task t = sample(TASK_RECURRING, from[i]);
        t.concurrency_key = S("db");
        t.concurrency_limit = 2;
        t.dedupe_key = S("once");
        t.dedupe_window_ms = 9;
        struct action_plan p = must_act(&t, ACTION_RUN_NOW);
        assert_true(p.changes && p.has_also);
        assert_false(p.withdraw);
        assert_int_equal(p.task.state, from[i]);
        assert_int_equal(p.task.version, t.version); /* it is no edit */
        assert_int_equal(p.task.updated_ms, t.updated_ms);
        assert_int_equal(p.task.cursor_ms, t.cursor_ms);
        assert_int_equal(p.task.due_ms, t.due_ms);
        const struct task *o = &p.also;
        assert_true(uuid_eq(o->id, id_of(9)) && uuid_eq(o->parent, t.id) && uuid_is_nil(o->claim));
        assert_int_equal(o->kind, TASK_OCCURRENCE);
        assert_int_equal(o->state, TASK_SCHEDULED);
        assert_int_equal(o->tenant, 4);
        assert_int_equal(o->due_ms, NOW_MS);
        assert_int_equal(o->scheduled_ms, NOW_MS);
        assert_int_equal(o->version, 1);
        assert_int_equal(o->fence + o->attempts + o->losses, 0);
        assert_int_equal(o->created_ms, NOW_MS);
        assert_int_equal(o->updated_ms, NOW_MS);
        assert_int_equal(o->started_ms + o->completed_ms, 0);
        assert_int_equal(o->cursor_ms + o->runs_count + o->skipped_count + o->last_run_ms, 0);
        assert_int_equal(o->schedule.interval_ms, 0);
        assert_int_equal(o->schedule.end_ms, 0);
        assert_int_equal(o->priority, 6);
        assert_str(o->queue, "q");
        assert_str(o->payload, "[1]");
        assert_str(o->extra, "{\"metadata\":{}}");
        assert_int_equal(o->last_error.n, 0);
        /* it waits for no other run, but for a slot of its key like any other task */
        assert_int_equal(o->overlap, OVERLAP_ALLOW);
        assert_str(o->concurrency_key, "db");
        assert_int_equal(o->concurrency_limit, 2);
        assert_int_equal(o->dedupe_key.n, 0);
        assert_int_equal(o->dedupe_window_ms, 0);
    }
}

static void a_recurring_task_is_not_retried(void **state)
{
    (void)state;
    struct task t = sample(TASK_RECURRING, TASK_SCHEDULED);
    struct action_plan p;
    struct error e = { 0 };
    assert_int_equal(act(&t, ACTION_RETRY, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(
        e.text,
        "this is a recurring task and cannot be retried; retry its failed occurrences, or run it now ('belfry run')");
    t.state = TASK_CANCELLED;
    assert_int_equal(act(&t, ACTION_RUN_NOW, false, &p, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the recurring task is CANCELLED and cannot be run now; create a new task");
}

static void what_was_deleted_is_gone(void **state)
{
    (void)state;
    struct task t = sample(TASK_ONE_TIME, TASK_CANCELLED);
    t.deleted = true;
    for (int a = 0; a < ACTION_DELETE; a++) {
        struct action_plan p;
        struct error e = { 0 };
        assert_int_equal(act(&t, (enum action)a, true, &p, &e), ERR_NOT_FOUND);
        assert_string_equal(e.text, "the task was deleted");
    }
    struct action_plan p = must_act(&t, ACTION_DELETE);
    assert_false(p.changes);
    assert_int_equal(p.task.version, 2);
}

static void names_and_actions_are_pairs(void **state)
{
    (void)state;
    static const char *const names[] = { "cancel", "pause", "resume", "run-now", "retry", "force-complete", "delete" };
    for (int a = 0; a < ACTIONS; a++) {
        enum action found;
        assert_string_equal(action_name((enum action)a), names[a]);
        assert_true(action_parse(str_from(names[a]), &found));
        assert_int_equal(found, a);
    }
    enum action untouched = ACTION_RETRY;
    assert_false(action_parse(S("Cancel"), &untouched));
    assert_false(action_parse(S(""), &untouched));
    assert_false(action_parse(S("trigger-now"), &untouched));
    assert_int_equal(untouched, ACTION_RETRY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_action_in_every_state_does_what_the_table_says),
        cmocka_unit_test(a_refusal_names_the_state_and_what_to_do),
        cmocka_unit_test(refusals_read_like_this),
        cmocka_unit_test(a_refusal_calls_a_run_a_run_and_a_step_a_step),
        cmocka_unit_test(run_now_is_due_now_and_keeps_its_attempts),
        cmocka_unit_test(resume_keeps_the_time_unless_it_has_gone_by),
        cmocka_unit_test(a_task_that_depends_on_others_waits_for_them_unless_it_is_forced),
        cmocka_unit_test(retry_starts_again_at_the_first_attempt),
        cmocka_unit_test(what_is_tried_by_hand_is_not_too_late_for_it),
        cmocka_unit_test(what_becomes_of_a_failure_forgets_its_cause),
        cmocka_unit_test(force_goes_beside_the_previous_run_but_not_past_a_limit),
        cmocka_unit_test(a_retry_by_hand_is_neither_too_late_nor_in_the_way),
        cmocka_unit_test(a_task_that_waits_for_a_slot_is_not_forced_past_it),
        cmocka_unit_test(a_claimed_task_that_has_not_fired_is_treated_as_scheduled),
        cmocka_unit_test(a_recurring_task_withdraws_what_it_has_spawned),
        cmocka_unit_test(a_resumed_recurring_task_is_caught_up_from_where_it_was),
        cmocka_unit_test(run_now_of_a_recurring_task_spawns_one_more),
        cmocka_unit_test(a_recurring_task_is_not_retried),
        cmocka_unit_test(what_was_deleted_is_gone),
        cmocka_unit_test(names_and_actions_are_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
