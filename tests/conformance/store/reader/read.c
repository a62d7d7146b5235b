/* Readers: lists and their filters, pages, counts, executions, lanes; and that tenants see only their own. */
#include <pthread.h>

#include "store_world.h"

static struct task_filter all(void)
{
    return (struct task_filter){ .tenant = TENANT, .limit = LIST_MAX };
}

static size_t count_of(struct world *w, const struct task_filter *f, size_t max)
{
    size_t n = SIZE_MAX;
    struct error e = { 0 };
    assert_ok(reader_count(w->reader, f, max, &n, &e), &e);
    return n;
}

/* Exactly these are listed, newest first, and counted. */
static void assert_listed(struct world *w, const struct task_filter *f, const struct uuid *const *ids, size_t n)
{
    struct task_page page = list(w, f);
    assert_ids(&page.tasks, ids, n);
    assert_false(page.more);
    assert_int_equal(count_of(w, f, 1000), n);
}
#define assert_lists(w, f, ...)                                                                                        \
    assert_listed((w), (f), (const struct uuid *const[]){ __VA_ARGS__ },                                               \
                  array_count(((const struct uuid *[]){ __VA_ARGS__ })))

static void lists_are_newest_first_with_whole_tasks(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.due_ms = NOW + 9;
    insert(w, (struct task[]){ b, a, c }, 3);
    struct task_filter f = all();
    assert_lists(w, &f, &c.id, &b.id, &a.id);
    struct task_page page = list(w, &f);
    assert_same_task(&page.tasks.v[2], &a);
}

static void an_empty_store_lists_nothing(void **state)
{
    struct world *w = *state;
    struct task_filter f = all();
    struct task_page page = list(w, &f);
    assert_int_equal(page.tasks.n, 0);
    assert_false(page.more);
    assert_int_equal(count_of(w, &f, 10), 0);
}

static void lists_filter_by_states(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    b.state = TASK_PAUSED;
    c.state = TASK_EXPIRED;
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_filter f = all();
    f.states = 1u << TASK_SCHEDULED;
    assert_lists(w, &f, &a.id);
    f.states = 1u << TASK_PAUSED | 1u << TASK_EXPIRED;
    assert_lists(w, &f, &c.id, &b.id);
    f.states = 1u << TASK_FAILED;
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static void a_task_that_was_claimed_early_is_listed_by_the_state_that_it_shows(void **state)
{
    struct world *w = *state;
    struct task due = some_task(w), early = some_task(w), waits = some_task(w), paused = some_task(w);
    early.due_ms = NOW + 2000;
    waits.due_ms = paused.due_ms = NOW + 9000;
    paused.state = TASK_PAUSED;
    claim_one(w, &due, fresh_id(w));
    claim_one(w, &early, fresh_id(w));
    insert(w, (struct task[]){ waits, paused }, 2);
    struct task_filter f = all();
    f.shown_at_ms = NOW + 1999;
    f.states = 1u << TASK_SCHEDULED;
    assert_lists(w, &f, &waits.id, &early.id);
    f.name = early.name; /* by another index */
    assert_lists(w, &f, &waits.id, &early.id);
    f.states = 1u << TASK_RUNNING;
    assert_lists(w, &f, &due.id);
    f.states = 1u << TASK_RUNNING | 1u << TASK_PAUSED;
    assert_lists(w, &f, &paused.id, &due.id);
    f.shown_at_ms = early.due_ms;
    assert_lists(w, &f, &paused.id, &early.id, &due.id);
    f.shown_at_ms = 0; /* as stored */
    assert_lists(w, &f, &paused.id, &early.id, &due.id);
    f.states = 1u << TASK_SCHEDULED;
    assert_lists(w, &f, &waits.id);
}

static void lists_filter_by_kind_and_leave_occurrences_to_their_parent(void **state)
{
    struct world *w = *state;
    struct task once = some_task(w), r = some_recurring(w), other = some_recurring(w),
                late = some_occurrence(w, &r, NOW + 2000), early = some_occurrence(w, &r, NOW + 1000),
                theirs = some_occurrence(w, &other, NOW + 1000);
    insert(w, (struct task[]){ once, r, other, late, early, theirs }, 6);
    struct task_filter f = all();
    assert_lists(w, &f, &other.id, &r.id, &once.id);
    f.by_kind = true;
    assert_lists(w, &f, &once.id);
    f.recurring = true;
    assert_lists(w, &f, &other.id, &r.id);
    f = all();
    f.recurring = true; /* without by_kind it says nothing */
    assert_lists(w, &f, &other.id, &r.id, &once.id);
    f = all();
    f.parent = r.id;
    assert_lists(w, &f, &late.id, &early.id);
    f.parent = once.id;
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static void lists_filter_by_whole_name_or_prefix(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w), d = some_task(w), e = some_task(w);
    a.name = S("report");
    b.name = S("report.daily");
    c.name = S("Report");
    d.name = S("rep%");
    e.name = S("");
    insert(w, (struct task[]){ a, b, c, d, e }, 5);
    struct task_filter f = all();
    f.name = S("report");
    assert_lists(w, &f, &a.id);
    f.name = S("report*");
    assert_lists(w, &f, &b.id, &a.id);
    f.name = S("rep%*"); /* no sign but the last star is special */
    assert_lists(w, &f, &d.id);
    f.name = S("re_ort");
    assert_int_equal(list(w, &f).tasks.n, 0);
    f.name = S("*");
    assert_lists(w, &f, &e.id, &d.id, &c.id, &b.id, &a.id);
}

static void lists_keep_to_a_range_of_ids(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w), d = some_task(w);
    b.name = d.name = S("sync");
    insert(w, (struct task[]){ a, b, c, d }, 4);
    struct task_filter f = all();
    f.from = b.id;
    assert_lists(w, &f, &d.id, &c.id, &b.id);
    f.before = d.id;
    assert_lists(w, &f, &c.id, &b.id);
    f.name = S("sync");
    assert_lists(w, &f, &b.id);
    f.name = S("");
    f.limit = 1;
    struct task_page page = list(w, &f);
    assert_true(page.more && page.tasks.n == 1);
    f.before = page.next_before;
    assert_lists(w, &f, &b.id);
    f.before = b.id;
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static struct task_names names(struct world *w, int32_t tenant, const char *prefix, size_t max)
{
    struct task_names n = { 0 };
    struct error e = { 0 };
    assert_ok(reader_names(w->reader, tenant, str_from(prefix), max, &w->arena, &n, &e), &e);
    return n;
}

static void names_are_found_by_their_beginning_each_once(void **state)
{
    struct world *w = *state;
    static const char *const given[] = { "report", "rep", "report", "Report", "", "rex", "rep%", "re\u00fc", "r" };
    struct task v[array_count(given)], tick = some_recurring(w), fire = some_occurrence(w, &tick, NOW + 1000);
    for (size_t i = 0; i < array_count(given); i++) {
        v[i] = some_task(w);
        v[i].name = str_from(given[i]);
    }
    insert(w, v, array_count(v));
    tick.name = fire.name = S("tick");
    insert(w, (struct task[]){ tick, fire }, 2);
    struct task_names n = names(w, TENANT, "rep", 10);
    assert_int_equal(n.n, 3);
    assert_str(n.v[0].name, "rep");
    assert_true(n.v[0].is_only && uuid_eq(n.v[0].newest, v[1].id));
    assert_str(n.v[1].name, "rep%");
    assert_str(n.v[2].name, "report");
    assert_true(!n.v[2].is_only && uuid_eq(n.v[2].newest, v[2].id));
    assert_int_equal(names(w, TENANT, "rep", 2).n, 2);
    assert_int_equal(names(w, TENANT, "", 100).n, 8); /* a task without a name has none */
    assert_int_equal(names(w, TENANT, "s", 100).n, 0);
    assert_int_equal(names(w, OTHER_TENANT, "", 100).n, 0);
    n = names(w, TENANT, "tick", 10); /* its occurrence has the same name */
    assert_true(n.n == 1 && n.v[0].is_only && uuid_eq(n.v[0].newest, tick.id));
}

static void a_deleted_task_leaves_its_name_to_others(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.name = b.name = S("report");
    c.name = S("rest");
    b.deleted = c.deleted = true;
    b.state = c.state = TASK_CANCELLED;
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_names n = names(w, TENANT, "re", 10);
    assert_true(n.n == 1 && n.v[0].is_only && uuid_eq(n.v[0].newest, a.id));
}

static bool has_queue(const struct used_queues *names, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++)
        n += str_eq(names->v[i], str_from(name));
    assert_true(n <= 1);
    return n == 1;
}

static void queues_of_all_targets_are_named_once(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_recurring(w), some_task(w) };
    v[1].queue = v[2].queue = S("video");
    v[1].target = v[2].target = TARGET_WORKER; /* only a lease takes it */
    v[2].priority = 9;
    v[3].queue = S("nightly");
    v[4].queue = S("theirs");
    v[4].tenant = OTHER_TENANT;
    insert(w, v, array_count(v));
    struct used_queues names = { 0 };
    struct error e = { 0 };
    assert_ok(reader_queues(w->reader, TENANT, &w->arena, &names, &e), &e);
    assert_true(has_queue(&names, "default") && has_queue(&names, "video") && has_queue(&names, "nightly"));
    assert_false(has_queue(&names, "theirs"));
}

static void lists_filter_by_queue_and_type(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.queue = S("slow");
    b.queue = S("slow");
    b.task_type = S("mail");
    c.task_type = S("mail");
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_filter f = all();
    f.queue = S("slow");
    assert_lists(w, &f, &b.id, &a.id);
    f.task_type = S("mail"); /* joined by and */
    assert_lists(w, &f, &b.id);
    f.queue = S("");
    assert_lists(w, &f, &c.id, &b.id);
}

static void lists_filter_by_due_time(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.due_ms = NOW + 1;
    b.due_ms = NOW + 2;
    c.due_ms = NOW + 3;
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_filter f = all();
    f.due_before_ms = NOW + 2;
    assert_lists(w, &f, &a.id);
    f = all();
    f.due_after_ms = NOW + 2;
    assert_lists(w, &f, &c.id, &b.id);
    f.due_before_ms = NOW + 3;
    assert_lists(w, &f, &b.id);
}

static void lists_filter_by_the_time_of_creation(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.created_ms = NOW - 3;
    b.created_ms = NOW - 2;
    c.created_ms = NOW - 1;
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_filter f = all();
    f.created_before_ms = NOW - 2;
    assert_lists(w, &f, &a.id);
    f = all();
    f.created_after_ms = NOW - 2;
    assert_lists(w, &f, &c.id, &b.id);
    f.created_before_ms = NOW - 1;
    assert_lists(w, &f, &b.id);
}

static void a_brief_list_has_no_payloads(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w);
    a.payload = S("{\"n\":1}");
    insert(w, &a, 1);
    struct task_filter f = all();
    struct task_page whole = list(w, &f);
    assert_true(str_eq(whole.tasks.v[0].payload, a.payload));
    f.brief = true;
    struct task_page brief = list(w, &f);
    assert_int_equal(brief.tasks.v[0].payload.n, 0);
    assert_true(str_eq(brief.tasks.v[0].target_config, whole.tasks.v[0].target_config));
}

static void a_list_goes_on_where_its_page_ended(void **state)
{
    struct world *w = *state;
    struct task v[5];
    for (size_t i = 0; i < 5; i++)
        v[i] = some_task(w);
    insert(w, v, 5);
    struct task_filter f = all();
    f.limit = 2;
    struct task_page page = list(w, &f);
    assert_tasks(&page.tasks, &v[4].id, &v[3].id);
    assert_true(page.more);
    assert_true(uuid_eq(page.next_before, v[3].id));
    f.before = page.next_before;
    page = list(w, &f);
    assert_tasks(&page.tasks, &v[2].id, &v[1].id);
    assert_true(page.more);
    f.before = page.next_before;
    page = list(w, &f);
    assert_tasks(&page.tasks, &v[0].id);
    assert_false(page.more);
    f.before = v[0].id;
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static void a_page_that_ends_exactly_has_no_more(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), paused = some_task(w);
    paused.state = TASK_PAUSED;
    insert(w, (struct task[]){ paused, a, b }, 3);
    struct task_filter f = all();
    f.limit = 2;
    f.states = 1u << TASK_SCHEDULED;
    struct task_page page = list(w, &f);
    assert_int_equal(page.tasks.n, 2);
    assert_false(page.more);
}

static void an_offset_skips_so_many(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    insert(w, (struct task[]){ a, b, c }, 3);
    struct task_filter f = all();
    f.offset = 1;
    f.limit = 1;
    struct task_page page = list(w, &f);
    assert_tasks(&page.tasks, &b.id);
    assert_true(page.more);
    assert_int_equal(count_of(w, &f, 100), 3); /* all pages together */
    f.offset = 3;
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static void counting_stops_at_its_cap(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    insert(w, v, 3);
    struct task_filter f = all();
    assert_int_equal(count_of(w, &f, 2), 2);
    assert_int_equal(count_of(w, &f, 3), 3);
    assert_int_equal(count_of(w, &f, 4), 3);
}

/* ---- executions ---- */

/* One attempt at t, which goes back into its lane. */
static struct execution run_once(struct world *w, const struct task *t, enum execution_status status)
{
    struct lane_quota lane = { task_lane(t), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret.n, 1);
    struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &op.ret.v[0]);
    v.verdict.execution.status = status;
    assert_true(settle_with(w, &v));
    return v.verdict.execution;
}

static void an_answer_without_room_is_refused(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), read;
    insert(w, &t, 1);
    struct task_filter f = all();
    struct task_page page;
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena small;
    arena_init(&small, 8);
    assert_int_equal(reader_get(w->reader, TENANT, t.id, &small, &read, &e), ERR_LIMIT);
    assert_int_equal(reader_list(w->reader, &f, &small, &page, &e), ERR_LIMIT);
    struct execution_filter g = { .tenant = TENANT, .task = t.id, .limit = 10 };
    struct execution_page ran;
    run_once(w, &t, EXECUTION_FAILED);
    assert_int_equal(reader_executions(w->reader, &g, &small, &ran, &e), ERR_LIMIT);
    struct lane *lanes;
    size_t n;
    assert_int_equal(reader_lanes(w->reader, &small, &lanes, &n, &e), ERR_LIMIT);
}

static struct execution_page executions(struct world *w, const struct execution_filter *f)
{
    struct execution_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_executions(w->reader, f, &w->arena, &page, &e), &e);
    return page;
}

static void executions_are_newest_first_in_pages(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct execution a = run_once(w, &t, EXECUTION_FAILED), b = run_once(w, &t, EXECUTION_LOST),
                     c = run_once(w, &t, EXECUTION_FAILED);
    struct execution_filter f = { .tenant = TENANT, .task = t.id, .limit = 2 };
    struct execution_page page = executions(w, &f);
    assert_int_equal(page.executions.n, 2);
    assert_null(execution_difference(&page.executions.v[0], &c));
    assert_null(execution_difference(&page.executions.v[1], &b));
    assert_true(page.more);
    assert_true(uuid_eq(page.next_before, b.id));
    f.before = page.next_before;
    page = executions(w, &f);
    assert_int_equal(page.executions.n, 1);
    assert_null(execution_difference(&page.executions.v[0], &a));
    assert_false(page.more);
}

static void executions_filter_by_status_and_task(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), other = some_task(w);
    other.queue = S("other");
    insert(w, (struct task[]){ t, other }, 2);
    run_once(w, &t, EXECUTION_FAILED);
    struct execution lost = run_once(w, &t, EXECUTION_LOST);
    run_once(w, &other, EXECUTION_LOST);
    struct execution_filter f = { .tenant = TENANT, .task = t.id, .statuses = 1u << EXECUTION_LOST, .limit = 1 };
    struct execution_page page = executions(w, &f);
    assert_int_equal(page.executions.n, 1);
    assert_null(execution_difference(&page.executions.v[0], &lost));
    assert_false(page.more);
    f.statuses = 1u << EXECUTION_COMPLETED;
    assert_int_equal(executions(w, &f).executions.n, 0);
    f.statuses = 1u << EXECUTION_FAILED | 1u << EXECUTION_LOST;
    f.limit = 10;
    assert_int_equal(executions(w, &f).executions.n, 2);
}

/* ---- what ran, over all tasks ---- */

static size_t history_count(struct world *w, struct history_filter f)
{
    struct history_page page = { 0 };
    struct error e = { 0 };
    f.tenant = f.tenant ? f.tenant : TENANT;
    f.limit = f.limit ? f.limit : 10;
    f.to_us = f.to_us ? f.to_us : (NOW + 3600000) * 1000;
    assert_ok(reader_history(w->reader, &f, &w->arena, &page, &e), &e);
    assert_false(page.more);
    return page.n;
}

static void the_history_of_all_tasks_filters(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), other = some_task(w);
    t.name = S("report");
    other.queue = S("other");
    insert(w, (struct task[]){ t, other }, 2);
    struct execution failed = run_once(w, &t, EXECUTION_FAILED);
    run_once(w, &other, EXECUTION_LOST);
    assert_int_equal(history_count(w, (struct history_filter){ 0 }), 2);
    assert_int_equal(history_count(w, (struct history_filter){ .tenant = OTHER_TENANT }), 0);
    assert_int_equal(history_count(w, (struct history_filter){ .statuses = 1u << EXECUTION_LOST }), 1);
    assert_int_equal(history_count(w, (struct history_filter){ .queue = S("other") }), 1);
    assert_int_equal(history_count(w, (struct history_filter){ .queue = S("nobody") }), 0);
    assert_int_equal(history_count(w, (struct history_filter){ .worker = failed.worker }), 2);
    assert_int_equal(history_count(w, (struct history_filter){ .worker = S("nobody") }), 0);
    assert_int_equal(history_count(w, (struct history_filter){ .error = failed.error }), 2);
    assert_int_equal(history_count(w, (struct history_filter){ .error = str_sub(failed.error, 0, 1) }), 0);
    assert_int_equal(history_count(w, (struct history_filter){ .from_us = failed.completed_us }), 2);
    assert_int_equal(history_count(w, (struct history_filter){ .from_us = failed.completed_us + 1 }), 0);
    assert_int_equal(history_count(w, (struct history_filter){ .to_us = failed.completed_us }), 0);
    struct history_filter f = {
        .tenant = TENANT, .statuses = 1u << EXECUTION_FAILED, .to_us = (NOW + 3600000) * 1000, .limit = 10
    };
    struct history_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_history(w->reader, &f, &w->arena, &page, &e), &e);
    assert_null(execution_difference(&page.v[0].execution, &failed));
    assert_true(str_eq(page.v[0].name, S("report")));
    assert_true(str_eq(page.v[0].queue, t.queue));
}

/* Rows that ended in one microsecond are on one page each, and on one page only. */
static void the_history_of_all_tasks_has_pages(void **state)
{
    enum { RUNS = 7 };
    struct world *w = *state;
    struct task t = some_task(w);
    struct uuid ran[RUNS], seen[RUNS];
    insert(w, &t, 1);
    for (size_t i = 0; i < RUNS; i++)
        ran[i] = run_once(w, &t, EXECUTION_FAILED).id;
    struct history_filter f = { .tenant = TENANT, .to_us = (NOW + 3600000) * 1000, .limit = 3 };
    size_t n = 0;
    for (struct history_page page = { .more = true }; page.more; f.before = page.next_before) {
        struct error e = { 0 };
        assert_ok(reader_history(w->reader, &f, &w->arena, &page, &e), &e);
        assert_true(n + page.n <= RUNS);
        for (size_t i = 0; i < page.n; i++)
            seen[n++] = page.v[i].execution.id;
    }
    assert_int_equal(n, RUNS);
    for (size_t i = 0; i < RUNS; i++) {
        size_t times = 0;
        for (size_t k = 0; k < RUNS; k++)
            times += uuid_eq(ran[i], seen[k]);
        assert_int_equal(times, 1);
    }
}

/* ---- tenants ---- */

static void tenants_never_see_each_others_rows(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), t = some_task(w), o = some_occurrence(w, &parent, NOW + 1000);
    insert(w, (struct task[]){ parent, t, o }, 3);
    run_once(w, &t, EXECUTION_FAILED);
    assert_true(is_there(w, TENANT, t.id));
    assert_false(is_there(w, OTHER_TENANT, t.id));
    struct task_filter f = { .tenant = OTHER_TENANT, .limit = 10 };
    assert_int_equal(list(w, &f).tasks.n, 0);
    assert_int_equal(count_of(w, &f, 10), 0);
    f.parent = parent.id;
    assert_int_equal(list(w, &f).tasks.n, 0);
    struct execution_filter g = { .tenant = OTHER_TENANT, .task = t.id, .limit = 10 };
    assert_int_equal(executions(w, &g).executions.n, 0);
}

/* ---- lanes and counts ---- */

static size_t times_among(struct lane lane, const struct lane *v, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += lane_eq(&v[i], &lane);
    return found;
}

/* It may become SCHEDULED again after a restart, and then nobody else tells of its lane. */
static void the_lane_of_a_running_task_is_named(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    t.queue = S("slow");
    claim_one(w, &t, uuid_next(&w->ids, NOW));
    struct lane *lanes;
    size_t n;
    struct error e = { 0 };
    assert_ok(reader_lanes(w->reader, &w->arena, &lanes, &n, &e), &e);
    assert_int_equal(times_among(task_lane(&t), lanes, n), 1);
}

static void every_lane_with_work_is_named_once(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w), some_task(w) };
    v[1].tenant = OTHER_TENANT;
    v[2].queue = S("slow");
    v[3].priority = PRIORITY_MAX;
    insert(w, v, 5);
    struct lane *lanes;
    size_t n;
    struct error e = { 0 };
    assert_ok(reader_lanes(w->reader, &w->arena, &lanes, &n, &e), &e);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(times_among(task_lane(&v[i]), lanes, n), 1);
    assert_int_equal(n, 4);
}

static void tasks_are_counted_by_state_and_by_being_due(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_recurring(w), some_task(w) };
    v[1].due_ms = NOW + 1;
    v[2].state = TASK_PAUSED;
    v[4].tenant = OTHER_TENANT;
    insert(w, v, 5);
    struct store_counts c;
    struct error e = { 0 };
    assert_ok(reader_counts(w->reader, NOW, &c, &e), &e);
    assert_int_equal(c.by_state[TASK_SCHEDULED], 4);
    assert_int_equal(c.by_state[TASK_PAUSED], 1);
    assert_int_equal(c.by_state[TASK_RUNNING], 0);
    assert_int_equal(c.due, 2);
}

/* ---- beside the writer ---- */

struct watch {
    struct reader *reader;
    struct uuid first, last;
    int seen;
    bool torn;
};

/* Both of an insert are there, or neither. */
static void *watch(void *context)
{
    struct watch *v = context;
    for (int i = 0; i < 200; i++) {
        struct task_filter f = { .tenant = TENANT, .limit = LIST_MAX };
        struct task_page page = { 0 };
        struct arena a;
        arena_init(&a, 1 << 24);
        if (reader_list(v->reader, &f, &a, &page, NULL) || page.tasks.n % 2 != 0)
            v->torn = true;
        v->seen += (int)page.tasks.n;
        arena_release(&a);
    }
    return NULL;
}

static void readers_on_other_threads_see_whole_transactions(void **state)
{
    struct world *w = *state;
    struct watch v = { 0 };
    struct error e = { 0 };
    pthread_t thread;
    assert_ok(store_reader(w->store, &v.reader, &e), &e);
    assert_int_equal(pthread_create(&thread, NULL, watch, &v), 0);
    for (int i = 0; i < 50; i++)
        insert(w, (struct task[]){ some_task(w), some_task(w) }, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    reader_free(v.reader);
    assert_false(v.torn);
}

static void a_reader_sees_what_was_committed_before(void **state)
{
    struct world *w = *state;
    struct reader *second;
    struct error e = { 0 };
    assert_ok(store_reader(w->store, &second, &e), &e);
    for (int i = 0; i < 20; i++) {
        struct task t = some_task(w), read;
        insert(w, &t, 1);
        assert_ok(reader_get(second, TENANT, t.id, &w->arena, &read, &e), &e);
        assert_true(is_there(w, TENANT, t.id));
    }
    reader_free(second);
}

static void a_kept_reader_is_the_next_one_unless_it_failed(void **state)
{
    struct world *w = *state;
    struct reader *first, *second, *third;
    struct task t = some_task(w), read;
    struct error e = { 0 };
    assert_ok(store_reader(w->store, &first, &e), &e);
    assert_ok(store_reader(w->store, &second, &e), &e);
    store_keep_reader(w->store, first, ERR_OK);
    store_keep_reader(w->store, second, ERR_OK); /* one is enough: it is freed */
    insert(w, &t, 1);
    assert_ok(store_reader(w->store, &third, &e), &e);
    assert_ptr_equal(third, first);
    assert_ok(reader_get(third, TENANT, t.id, &w->arena, &read, &e), &e);
    store_keep_reader(w->store, third, ERR_UNAVAILABLE);
    assert_null(atomic_load(&w->store->kept));
    store_keep_reader(w->store, NULL, ERR_OK);
    assert_ok(store_reader(w->store, &first, &e), &e);
    store_keep_reader(w->store, first, ERR_OK); /* store_free frees it */
}

static const struct CMUnitTest tests[] = {
    store_test(lists_are_newest_first_with_whole_tasks),
    store_test(an_empty_store_lists_nothing),
    store_test(lists_filter_by_states),
    store_test(a_task_that_was_claimed_early_is_listed_by_the_state_that_it_shows),
    store_test(lists_filter_by_kind_and_leave_occurrences_to_their_parent),
    store_test(lists_filter_by_whole_name_or_prefix),
    store_test(lists_keep_to_a_range_of_ids),
    store_test(names_are_found_by_their_beginning_each_once),
    store_test(a_deleted_task_leaves_its_name_to_others),
    store_test(queues_of_all_targets_are_named_once),
    store_test(lists_filter_by_queue_and_type),
    store_test(lists_filter_by_due_time),
    store_test(lists_filter_by_the_time_of_creation),
    store_test(a_brief_list_has_no_payloads),
    store_test(a_list_goes_on_where_its_page_ended),
    store_test(a_page_that_ends_exactly_has_no_more),
    store_test(an_offset_skips_so_many),
    store_test(counting_stops_at_its_cap),
    store_test(an_answer_without_room_is_refused),
    store_test(executions_are_newest_first_in_pages),
    store_test(executions_filter_by_status_and_task),
    store_test(the_history_of_all_tasks_filters),
    store_test(the_history_of_all_tasks_has_pages),
    store_test(tenants_never_see_each_others_rows),
    store_test(every_lane_with_work_is_named_once),
    store_test(the_lane_of_a_running_task_is_named),
    store_test(tasks_are_counted_by_state_and_by_being_due),
    store_test(readers_on_other_threads_see_whole_transactions),
    store_test(a_reader_sees_what_was_committed_before),
    store_test(a_kept_reader_is_the_next_one_unless_it_failed),
};
const struct test_list read_tests = { tests, array_count(tests) };
