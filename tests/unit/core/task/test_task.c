#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/task/action.h"
#include "core/task/fence.h"
#include "core/task/task.h"

enum { STATES = TASK_EXPIRED + 1 };

/* ---- docs/STATE_MACHINE.md ---- */

static void read_document(struct buf *out)
{
    const char *root = getenv("BELFRY_SOURCE_ROOT");
    char path[4096];
    snprintf(path, sizeof path, "%s/docs/STATE_MACHINE.md", root ? root : ".");
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s cannot be read", path);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        buf_add(out, (struct str){ block, n });
    fclose(f);
}

/* Splits a row of a table into trimmed cells; 0 if the line is not a row. */
static size_t cells_of(struct str line, struct str *cells, size_t max)
{
    struct str cell;
    size_t n = 0;
    if (!str_starts(line, S("| ")))
        return 0;
    line = str_sub(line, 1, line.n);
    while (n < max && str_cut(&line, '|', &cell))
        cells[n++] = str_trim(cell);
    return n;
}

static unsigned states_in(struct str cell)
{
    struct str word;
    unsigned bits = 0;
    while (str_cut(&cell, ' ', &word)) {
        enum task_state s;
        assert_true(task_state_parse(word, &s));
        bits |= 1u << s;
    }
    return bits;
}

static void the_moves_are_those_of_the_document(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 16);
    read_document(&b);
    struct str rest = buf_str(&b), line, cells[4];
    int found = 0;
    while (str_cut(&rest, '\n', &line)) {
        enum task_state from;
        if (cells_of(line, cells, 4) != 3 || !task_state_parse(cells[0], &from))
            continue;
        unsigned told = states_in(cells[2]);
        for (int to = 0; to < STATES; to++)
            if (task_may_become(from, (enum task_state)to) != !!(told >> to & 1))
                fail_msg("%s to %s: code and document differ", task_state_name(from),
                         task_state_name((enum task_state)to));
        assert_true(cells[1].n > 4);
        found++;
    }
    assert_int_equal(found, STATES);
}

static void a_retry_of_a_run_moves_as_the_document_says(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 16);
    read_document(&b);
    struct str rest = buf_str(&b), line, cells[4];
    unsigned told[STATES] = { 0 };
    while (str_cut(&rest, '\n', &line)) {
        enum task_state from;
        if (cells_of(line, cells, 4) == 2 && task_state_parse(cells[0], &from))
            told[from] = states_in(cells[1]);
    }
    for (int from = 0; from < STATES; from++)
        for (int to = 0; to < STATES; to++)
            if (task_may_begin_again((enum task_state)from, (enum task_state)to) != !!(told[from] >> to & 1))
                fail_msg("%s to %s: code and document differ", task_state_name((enum task_state)from),
                         task_state_name((enum task_state)to));
    assert_int_equal(told[TASK_COMPLETED], 0);
    assert_true(told[TASK_FAILED]);
}

static const char *what_happens(enum action a, enum task_state s)
{
    struct task t = { .kind = TASK_ONE_TIME, .state = s, .due_ms = 10, .version = 1 };
    struct action_plan p;
    struct uuid fresh = { { 1 } };
    if (task_act(&t, a, false, NULL, fresh, 10, &p, NULL))
        return "-";
    return p.changes ? task_state_name(p.task.state) : "=";
}

static void the_actions_are_those_of_the_document(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 16);
    read_document(&b);
    struct str rest = buf_str(&b), line, cells[STATES + 2], heads[STATES + 2] = { 0 };
    int found = 0;
    while (str_cut(&rest, '\n', &line)) {
        enum action a;
        if (cells_of(line, cells, STATES + 2) != STATES + 1)
            continue;
        if (str_eq(cells[0], S("action")))
            memcpy(heads, cells, sizeof heads);
        if (!action_parse(cells[0], &a))
            continue;
        found++;
        for (size_t i = 1; i <= STATES; i++) {
            enum task_state s;
            assert_true(task_state_parse(heads[i], &s));
            assert_str(cells[i], what_happens(a, s));
        }
    }
    assert_int_equal(found, ACTION_DELETE + 1);
}

/* ---- names ---- */

static void states_have_names_and_aliases_in_any_case(void **state)
{
    (void)state;
    static const char *const names[] = { "SCHEDULED", "BLOCKED",   "PAUSED",  "RUNNING", "COMPLETED",
                                         "FAILED",    "CANCELLED", "SKIPPED", "EXPIRED" };
    enum task_state s;
    for (int i = 0; i < STATES; i++) {
        assert_string_equal(task_state_name((enum task_state)i), names[i]);
        assert_true(task_state_parse(str_from(names[i]), &s));
        assert_int_equal(s, i);
    }
    assert_true(task_state_parse(S("pending"), &s) && s == TASK_SCHEDULED);
    assert_true(task_state_parse(S("IN_PROGRESS"), &s) && s == TASK_RUNNING);
    assert_true(task_state_parse(S("Success"), &s) && s == TASK_COMPLETED);
    assert_true(task_state_parse(S("DEAD_LETTERED"), &s) && s == TASK_FAILED);
    s = TASK_PAUSED;
    assert_false(task_state_parse(S("DONE"), &s));
    assert_false(task_state_parse(S(""), &s));
    assert_int_equal(s, TASK_PAUSED);
}

static void a_filter_takes_active_for_all_that_go_on(void **state)
{
    (void)state;
    unsigned set = 0;
    assert_true(task_states_parse(S("active"), &set));
    assert_int_equal(set, 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED | 1U << TASK_RUNNING);
    assert_true(task_states_parse(S("SUCCESS"), &set));
    assert_int_equal(set, 1U << TASK_COMPLETED);
    assert_false(task_states_parse(S("IDLE"), &set));
    assert_int_equal(set, 1U << TASK_COMPLETED);
}

static void final_states_go_nowhere_but_failed(void **state)
{
    (void)state;
    for (int from = 0; from < STATES; from++) {
        bool moves = false;
        for (int to = 0; to < STATES; to++) {
            moves |= task_may_become((enum task_state)from, (enum task_state)to);
            assert_false(from == to && task_may_become((enum task_state)from, (enum task_state)to));
        }
        assert_int_equal(task_is_final((enum task_state)from), from >= TASK_COMPLETED);
        assert_int_equal(moves, from < TASK_COMPLETED || from == TASK_FAILED);
    }
}

static void a_claimed_task_is_shown_as_scheduled_until_its_time(void **state)
{
    (void)state;
    for (int s = 0; s < STATES; s++) {
        struct task t = { .state = (enum task_state)s, .due_ms = 100 };
        assert_int_equal(task_shown_state(&t, 99), s == TASK_RUNNING ? TASK_SCHEDULED : s);
        assert_int_equal(task_shown_state(&t, 100), s);
    }
}

static void a_run_that_waits_for_its_next_attempt_is_running_and_as_a_step_scheduled(void **state)
{
    (void)state;
    static const enum task_state states[] = { TASK_SCHEDULED, TASK_RUNNING }; /* RUNNING: claimed early */
    for (size_t i = 0; i < array_count(states); i++) {
        struct task t = { .state = states[i], .links = TASK_OPENED | TASK_AGAIN, .due_ms = 100 };
        assert_true(task_awaits_attempt(&t, 99) && !task_awaits_attempt(&t, 100));
        assert_int_equal(task_shown_state(&t, 99), TASK_RUNNING);
        t.run.b[0] = 1;
        assert_int_equal(task_shown_state(&t, 99), TASK_SCHEDULED);
        assert_int_equal(task_shown_state(&t, 100), TASK_RUNNING);
        t.links &= ~TASK_AGAIN;
        assert_int_equal(task_shown_state(&t, 99), TASK_RUNNING);
    }
}

static void targets_have_the_names_of_the_api(void **state)
{
    (void)state;
    static const char *const names[] = { "HTTP_CALLBACK", "QUEUE_MESSAGE", "COMMAND", "WORKER", "WORKFLOW", "NOOP" };
    for (int k = TARGET_HTTP; k <= TARGET_NOOP; k++)
        assert_string_equal(target_kind_name((enum target_kind)k), names[k]);
}

static void priorities_fall_into_three_classes(void **state)
{
    (void)state;
    for (int p = PRIORITY_MIN; p <= PRIORITY_MAX; p++)
        assert_int_equal(priority_class_of(p), p <= 3 ? CLASS_LOW : p <= 6 ? CLASS_NORMAL : CLASS_HIGH);
}

static void a_lane_is_what_the_same_gates_hold_back(void **state)
{
    (void)state;
    struct task t = { .tenant = 3, .queue = S("q"), .priority = 7, .target = TARGET_HTTP }, other = t;
    struct lane lane = task_lane(&t), of_other;
    assert_int_equal(lane.tenant, 3);
    assert_str(lane.queue, "q");
    assert_int_equal(lane.priority, 7);
    of_other = task_lane(&other);
    assert_true(lane_eq(&lane, &of_other));
    struct task differs[] = { t, t, t, t, t, t, t };
    differs[0].tenant = 4;
    differs[1].queue = S("r");
    differs[2].priority = 8;
    differs[3].requires = S("gpu");
    differs[4].cpu_milli = 1;
    differs[5].memory_mb = 1;
    differs[6].aside = S("host.example");
    for (size_t i = 0; i < array_count(differs); i++) {
        of_other = task_lane(&differs[i]);
        assert_false(lane_eq(&lane, &of_other));
        differs[i].target = TARGET_WORKER; /* leased by queue: needs and hosts do not matter */
        of_other = task_lane(&differs[i]);
        assert_true(lane_eq(&lane, &of_other) == (i > 2));
    }
}

static void a_level_of_priority_is_worth_ten_minutes(void **state)
{
    (void)state;
    struct lane seven = { .priority = 7 }, nine = { .priority = 9 };
    int64_t minute = 60000;
    assert_true(lane_order_ms(&nine, 1000) < lane_order_ms(&seven, 1000));
    assert_true(lane_order_ms(&nine, 19 * minute) < lane_order_ms(&seven, 0));
    assert_true(lane_order_ms(&nine, 20 * minute) == lane_order_ms(&seven, 0));
    assert_true(lane_order_ms(&nine, 21 * minute) > lane_order_ms(&seven, 0));
    assert_true(lane_order_ms(&nine, INT64_MIN) == INT64_MIN);
}

/* ---- copies ---- */

enum { TEXTS = 18 };

static void texts_of(struct task *t, struct str *texts[TEXTS])
{
    struct str *all[TEXTS] = {
        &t->queue,
        &t->name,
        &t->task_type,
        &t->retry.rules,
        &t->target_config,
        &t->payload,
        &t->extra,
        &t->last_error,
        &t->schedule.cron,
        &t->schedule.time_zone,
        &t->schedule.calendar,
        &t->concurrency_key,
        &t->waits_for,
        &t->dedupe_key,
        &t->cause,
        &t->resolution,
        &t->requires,
        &t->aside,
    };
    memcpy(texts, all, sizeof all);
}

static void a_copy_is_deep(void **state)
{
    (void)state;
    char source[TEXTS][8];
    struct task t = { .version = 5, .due_ms = 77, .schedule.max_runs = 3 }, copy;
    struct str *from[TEXTS], *to[TEXTS];
    texts_of(&t, from);
    for (int i = 0; i < TEXTS; i++) {
        snprintf(source[i], sizeof source[i], "text%d", i);
        *from[i] = str_from(source[i]);
    }
    struct arena a;
    arena_init(&a, 4096);
    assert_true(task_copy(&a, &t, &copy));
    memset(source, '?', sizeof source);
    texts_of(&copy, to);
    for (int i = 0; i < TEXTS; i++) {
        char expected[8];
        snprintf(expected, sizeof expected, "text%d", i);
        assert_str(*to[i], expected);
    }
    assert_int_equal(copy.version, 5);
    assert_int_equal(copy.due_ms, 77);
    assert_int_equal(copy.schedule.max_runs, 3);
    arena_release(&a);
}

static void a_copy_that_does_not_fit_leaves_its_place_alone(void **state)
{
    (void)state;
    struct task t = { .queue = S("0123456789"), .last_error = S("0123456789"), .version = 1 }, copy = { .version = 9 };
    struct arena a;
    arena_init(&a, 16);
    assert_false(task_copy(&a, &t, &copy));
    assert_int_equal(copy.version, 9);
    assert_int_equal(copy.queue.n, 0);
    arena_release(&a);
}

static void a_task_lost_twice_is_a_suspect(void **state)
{
    (void)state;
    for (int losses = 0; losses < 4; losses++)
        assert_int_equal(task_is_suspect(&(struct task){ .losses = losses }), losses >= 2);
}

static void a_task_expires_so_long_after_the_wish(void **state)
{
    (void)state;
    struct task t = { .scheduled_ms = 1000, .due_ms = 9000 };
    assert_true(task_expires_ms(&t) == INT64_MAX);
    t.expires_after_ms = 500;
    assert_int_equal(task_expires_ms(&t), 1500);
    t.expires_after_ms = INT64_MAX;
    assert_true(task_expires_ms(&t) == INT64_MAX);
}

/* ---- occurrences and rules ---- */

static void an_occurrences_id_is_the_same_whoever_makes_it(void **state)
{
    (void)state;
    struct uuid parent = { { 1, 2, 3 } }, other = { { 1, 2, 4 } };
    int64_t at_ms = 1770710400000;
    struct uuid id = occurrence_id(parent, at_ms);
    char text[UUID_TEXT + 1];
    uuid_format(id, text);
    assert_string_equal(text, "019c4690-7c00-72fa-8ce1-cbf96e83fd2c"); /* must never change */
    assert_true(uuid_eq(id, occurrence_id(parent, at_ms)));
    assert_int_equal(uuid_time_ms(id), at_ms);
    assert_false(uuid_eq(id, occurrence_id(other, at_ms)));
    assert_false(uuid_eq(id, occurrence_id(parent, at_ms + 1)));
    assert_true(uuid_cmp(id, occurrence_id(other, at_ms + 1)) < 0);
}

static void a_schedule_becomes_its_rule(void **state)
{
    (void)state;
    struct uuid id = { { 1 } };
    struct schedule s = { .cron = S("30 2 * * *"),
                          .gap = DST_GAP_SKIP,
                          .repeat = DST_REPEAT_LAST,
                          .calendar_policy = CALENDAR_NEXT_DAY,
                          .end_ms = 99,
                          .spread_ms = 5 };
    struct recurrence r;
    struct error e = { 0 };
    assert_ok(schedule_rule(&s, id, tz_utc(), NULL, 7, &r, &e), &e);
    assert_int_equal(r.kind, RECUR_CRON);
    assert_int_equal(r.start_ms, 7);
    assert_int_equal(r.end_ms, 99);
    assert_int_equal(r.gap, DST_GAP_SKIP);
    assert_int_equal(r.repeat, DST_REPEAT_LAST);
    assert_int_equal(r.calendar_policy, CALENDAR_NEXT_DAY);
    assert_int_equal(r.spread_ms, 5);
    assert_int_equal(r.hash, hash_bytes(HASH_STABLE, (struct str){ (const char *)id.b, 16 }));
    assert_int_equal(schedule_spread(&s, id), recurrence_spread(&r));
    assert_int_equal(cron_next(&r.cron, 0), 2 * HOUR_S + 30 * MINUTE_S);
    s = (struct schedule){ .interval_ms = 60000, .start_ms = 1000, .end_ms = INT64_MAX };
    assert_ok(schedule_rule(&s, id, tz_utc(), NULL, 7, &r, &e), &e);
    assert_int_equal(r.kind, RECUR_INTERVAL);
    assert_int_equal(r.interval_ms, 60000);
    assert_int_equal(r.start_ms, 1000);
    assert_int_equal(schedule_spread(&s, id), 0);
}

static void a_bad_expression_is_told_with_the_part_at_fault(void **state)
{
    (void)state;
    struct uuid id = { { 1 } };
    struct schedule s = { .cron = S("0 25 * * *") };
    struct recurrence r = { .start_ms = 42 };
    struct error e = { 0 };
    assert_int_equal(schedule_rule(&s, id, tz_utc(), NULL, 0, &r, &e), ERR_INVALID);
    assert_string_equal(e.field, "cron_expression");
    assert_string_equal(e.text, "hour: 25 is not between 0 and 23, at position 3");
    s.cron = S("* *");
    assert_int_equal(schedule_rule(&s, id, tz_utc(), NULL, 0, &r, &e), ERR_INVALID);
    assert_string_equal(e.field, "cron_expression");
    assert_true(str_starts(str_from(e.text), S("has 2 fields")));
    assert_int_equal(schedule_rule(&s, id, tz_utc(), NULL, 0, &r, NULL), ERR_INVALID);
    assert_int_equal(r.start_ms, 42);
}

/* ---- delays ---- */

static void who_is_put_off_is_awaited_at_the_same_moment(void **state)
{
    (void)state;
    struct task t = { .due_ms = 5000 };
    assert_true(task_awaited_ms(&t) == 5000);
    task_put_off(&t, 5000 + LATE_MS - 1, LATE_CREATED);
    assert_true(task_awaited_ms(&t) == 5000 && t.due_ms == 5000 + LATE_MS - 1 && t.late_by == LATE_NONE);
    task_put_off(&t, 9000, LATE_PAUSED);
    assert_true(task_awaited_ms(&t) == 5000 && t.due_ms == 9000 && t.late_by == LATE_PAUSED);
    task_put_off(&t, 5000, LATE_PAUSED);
    assert_true(t.awaited_ms == 0 && t.due_ms == 5000 && t.late_by == LATE_NONE);
    task_put_off(&t, 9000, LATE_PAUSED);
    task_set_due(&t, 9000); /* the user asks for that time */
    assert_true(task_awaited_ms(&t) == 9000 && t.awaited_ms == 0 && t.late_by == LATE_NONE);
}

static void an_unstarted_run_is_one_that_never_fired(void **state)
{
    (void)state;
    struct task t = { .kind = TASK_OCCURRENCE, .state = TASK_RUNNING, .runs_count = 1, .due_ms = 100 };
    assert_true(task_is_unstarted(&t, 99) && !task_is_unstarted(&t, 100));
    t.state = TASK_BLOCKED;
    assert_true(task_is_unstarted(&t, 100));
    t.attempts = 1;
    assert_false(task_is_unstarted(&t, 100));
    t.attempts = 0;
    t.runs_count = 0; /* by hand */
    assert_false(task_is_unstarted(&t, 100));
    t.runs_count = 1;
    t.state = TASK_SKIPPED;
    assert_false(task_is_unstarted(&t, 100));
}

static void a_task_runs_since_it_was_due_and_claimed_and_a_run_since_its_start(void **state)
{
    (void)state;
    struct task t = { .state = TASK_RUNNING, .due_ms = 1000, .started_ms = 1, .claim = uuid_floor(900) };
    assert_int_equal(task_running_since_ms(&t), 1000); /* claimed ahead; it has started before, in another attempt */
    t.claim = uuid_floor(5000);
    assert_int_equal(task_running_since_ms(&t), 5000);
    t.links = TASK_OPENED;
    t.started_ms = 1200;
    assert_int_equal(task_running_since_ms(&t), 1200);
}

/* ---- fences ---- */

/* Twice within a second, from the same backup, after some claims in between. */
static void fences_rise_each_time_a_backup_is_restored(void **state)
{
    (void)state;
    const int64_t now_ms = 1794900000000, in_backup = 7;
    int64_t first = fence_after(in_backup, fence_raise_floor(0, now_ms));
    int64_t second = fence_after(in_backup, fence_raise_floor(0, now_ms + 50));
    assert_true(second > first + 1000);
    assert_true(second < INT64_C(1) << 53);
    assert_true(fence_raise_floor(second, now_ms - 3600000) > second); /* the clock was set back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fences_rise_each_time_a_backup_is_restored),
        cmocka_unit_test(the_moves_are_those_of_the_document),
        cmocka_unit_test(a_retry_of_a_run_moves_as_the_document_says),
        cmocka_unit_test(the_actions_are_those_of_the_document),
        cmocka_unit_test(states_have_names_and_aliases_in_any_case),
        cmocka_unit_test(a_filter_takes_active_for_all_that_go_on),
        cmocka_unit_test(final_states_go_nowhere_but_failed),
        cmocka_unit_test(a_claimed_task_is_shown_as_scheduled_until_its_time),
        cmocka_unit_test(a_run_that_waits_for_its_next_attempt_is_running_and_as_a_step_scheduled),
        cmocka_unit_test(targets_have_the_names_of_the_api),
        cmocka_unit_test(priorities_fall_into_three_classes),
        cmocka_unit_test(a_lane_is_what_the_same_gates_hold_back),
        cmocka_unit_test(a_level_of_priority_is_worth_ten_minutes),
        cmocka_unit_test(a_copy_is_deep),
        cmocka_unit_test(a_copy_that_does_not_fit_leaves_its_place_alone),
        cmocka_unit_test(a_task_lost_twice_is_a_suspect),
        cmocka_unit_test(who_is_put_off_is_awaited_at_the_same_moment),
        cmocka_unit_test(an_unstarted_run_is_one_that_never_fired),
        cmocka_unit_test(a_task_runs_since_it_was_due_and_claimed_and_a_run_since_its_start),
        cmocka_unit_test(a_task_expires_so_long_after_the_wish),
        cmocka_unit_test(an_occurrences_id_is_the_same_whoever_makes_it),
        cmocka_unit_test(a_schedule_becomes_its_rule),
        cmocka_unit_test(a_bad_expression_is_told_with_the_part_at_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
