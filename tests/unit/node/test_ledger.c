/* The ledger of a recurring task: each time that its rule names has exactly one row. A whole node runs random schedules,
 * with kills, stalls, pauses and cancelled occurrences; then the rows are compared with an enumeration that shares no code with it. */
#include "base/rfc3339.h"
#include "core/task/action.h"
#include "core/task/spawn.h"
#include "node_world.h"
#include "nominal_times.h"
#include "seed.h"

enum { ROUNDS = 60, ROWS_MAX = 4000, MINUTE = 60000, SECOND = 1000, ARENA = 16 << 20 };

struct ledger {
    struct world *w;
    struct prng *random;
    struct task task;
    struct recurrence rule;
    struct tz *zone;
    const struct calendar *calendar;
    int64_t begin_ms;
    struct task rows[ROWS_MAX];
    size_t row_count;
};

/* ---- a schedule ---- */

static void some_calendar(struct ledger *l)
{
    struct error e = { 0 };
    char text[256], from[RFC3339_TEXT + 1], to[RFC3339_TEXT + 1];
    rfc3339_format(l->begin_ms + DAY_MS, from);
    rfc3339_format(l->begin_ms + prng_between(l->random, 1, 3) * DAY_MS, to);
    int n = snprintf(text, sizeof text, "{\"excluded_weekdays\": [%s], \"excluded\": [\"%.10s\", \"%.10s\"]}",
                     prng_below(l->random, 2) ? "\"SUN\"" : "", from, to);
    put_entry(l->w, TENANT, CATALOG_CALENDAR, S("c"), (struct str){ text, (size_t)n });
    struct catalog_change c = { .entry = { .tenant = TENANT, .kind = CATALOG_CALENDAR, .name = S("c"), .doc = S("{}") },
                                .version = -1 };
    struct op_catalog op = { .op = { .kind = OP_CATALOG }, .v = &c, .n = 1, .now_ms = NOW };
    apply_op(l->w, &op.op);
    assert_ok(catalog_cache_calendar(l->w->catalog, TENANT, S("c"), &l->calendar, &e), &e);
    l->task.schedule.calendar = S("c");
    l->task.schedule.calendar_policy = (enum calendar_policy)prng_below(l->random, 3);
}

static void some_schedule(struct ledger *l)
{
    static const char *const crons[] = { "*/7 * * * *", "30 2 * * *", "0 2,3 * * *", "15 */20 1-3 * * *",
                                         "*/10 1-3 * * SUN" };
    static const struct {
        const char *zone;
        int64_t ms;
    } changes[] = { { "Europe/Berlin", 1774746000000 },
                    { "Europe/Berlin", 1792890000000 },
                    { "Australia/Lord_Howe", 1791041400000 } };
    struct prng *r = l->random;
    size_t change = prng_below(r, array_count(changes));
    l->begin_ms = (changes[change].ms - prng_between(r, 0, 36 * HOUR)) / 1000 * 1000;
    l->task = (struct task){ .id = { { 7, 7 } },
                             .tenant = TENANT,
                             .kind = TASK_RECURRING,
                             .version = 1,
                             .priority = PRIORITY_DEFAULT,
                             .queue = S("default"),
                             .timeout_ms = 1000,
                             .target = TARGET_NOOP,
                             .retry = RETRY_DEFAULT,
                             .created_ms = l->begin_ms,
                             .schedule = { .interval_ms = prng_between(r, 5, 200) * MINUTE,
                                           .overlap = (enum overlap)prng_below(r, 5),
                                           .time_zone = str_from(changes[change].zone),
                                           .gap = (enum dst_gap)prng_below(r, 3),
                                           .repeat = (enum dst_repeat)prng_below(r, 4),
                                           .start_ms = l->begin_ms,
                                           .end_ms = prng_below(r, 3) ? INT64_MAX
                                                                      : l->begin_ms + prng_between(r, 20, 90) * HOUR,
                                           .spread_ms = prng_below(r, 3) ? 0 : 5000,
                                           .catch_up = (enum catch_up)prng_below(r, 3),
                                           .catch_up_window_ms = prng_below(r, 2) ? 2 * HOUR : 100 * HOUR } };
    if (prng_below(r, 4))
        l->task.schedule.cron = str_from(crons[prng_below(r, array_count(crons))]);
    if (prng_below(r, 3))
        some_calendar(l);
}

static void end(struct ledger *l)
{
    catalog_cache_calendar_unref(l->calendar);
    tz_unref(l->zone);
    l->calendar = NULL;
    l->zone = NULL;
}

static void begin(struct ledger *l)
{
    struct error e = { 0 };
    do {
        end(l);
        some_schedule(l);
        assert_ok(zoneinfo_get(l->w->zones, l->task.schedule.time_zone, &l->zone, &e), &e);
        assert_ok(schedule_rule(&l->task.schedule, l->task.id, l->zone, l->calendar, l->begin_ms, &l->rule, &e), &e);
    } while (spawn_first(&l->rule, l->begin_ms) == INT64_MAX); /* the API refuses what never fires */
    l->task.cursor_ms = spawn_first_entry(&l->rule, l->begin_ms);
    l->w->now_ms = l->begin_ms;
    settle_down(l->w);
    add_task(l->w, l->task);
}

/* ---- what happens to it ---- */

static void end_all(struct world *w)
{
    settle_down(w);
    while (w->run_count) {
        end_run(w, OUTCOME_OK);
        settle_down(w);
    }
}

/* busy: what runs does not end, so that others may wait for it. */
static void run_until(struct world *w, int64_t until_ms, bool busy)
{
    for (;;) {
        if (busy && w->run_count < SLOTS)
            settle_down(w);
        else
            end_all(w);
        int64_t wake = step_at(w, w->now_ms);
        if (w->now_ms >= until_ms)
            return;
        set_clock(w, min_of(max_of(wake, w->now_ms + 1), until_ms));
    }
}

static struct task current(struct ledger *l)
{
    return read_task(l->w, l->task.id);
}

static void act(struct ledger *l, const struct task *of, enum action action)
{
    cleanup_with(arena_release) struct arena a;
    struct action_plan plan;
    struct error e = { 0 };
    arena_init(&a, 1 << 16);
    struct task t = row_of(l->w, of, &a);
    assert_ok(task_act(&t, action, false, NULL, (struct uuid){ 0 }, l->w->now_ms, &plan, &e), &e);
    struct op_put op = { .op = { .kind = OP_PUT },
                         .task = &plan.task,
                         .version = t.version,
                         .fence = t.fence,
                         .state = t.state,
                         .cursor_ms = t.cursor_ms,
                         .withdraw = plan.withdraw };
    apply_op(l->w, &op.op);
    assert_ok(op.op.rc, &op.op.error);
    if (of->kind == TASK_RECURRING)
        plan.task.cursor_ms = op.ret_cursor_ms;
    node_nudge(l->w->node, &plan.task, 1);
}

static void pause_for(struct ledger *l, int64_t ms)
{
    act(l, &l->task, ACTION_PAUSE);
    run_until(l->w, l->w->now_ms + ms, false);
    act(l, &l->task, ACTION_RESUME);
}

/* A user cancels an occurrence that waits, whatever stands before and behind it. */
static void cancel_one(struct ledger *l)
{
    cleanup_with(arena_release) struct arena a;
    struct task_filter f = {
        .tenant = TENANT, .parent = l->task.id, .states = 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED, .limit = LIST_MAX
    };
    struct task_page page;
    struct error e = { 0 };
    arena_init(&a, ARENA);
    assert_ok(reader_list(l->w->reader, &f, &a, &page, &e), &e);
    if (page.tasks.n)
        act(l, &page.tasks.v[prng_below(l->random, page.tasks.n)], ACTION_CANCEL);
}

static void live_on(struct ledger *l)
{
    struct world *w = l->w;
    int64_t away_ms =
        prng_below(l->random, 2) ? prng_between(l->random, 0, 10 * SECOND) : prng_between(l->random, 0, 9 * HOUR);
    if (prng_below(l->random, 3) == 0)
        cancel_one(l);
    switch (prng_below(l->random, 4)) {
    case 0:
        w->now_ms += away_ms;
        die_and_start_again(w);
        w->run_count = 0;
        break;
    case 1: set_clock(w, w->now_ms + away_ms); break; /* a stall */
    case 2: pause_for(l, away_ms); break;
    default: run_until(w, w->now_ms + prng_between(l->random, 0, 20) * HOUR, prng_below(l->random, 2)); break;
    }
    run_until(w, w->now_ms + prng_between(l->random, 0, 3 * HOUR), prng_below(l->random, 2));
}

/* ---- judging ---- */

static void read_rows(struct ledger *l, struct arena *a)
{
    struct task_filter f = { .tenant = TENANT, .parent = l->task.id, .limit = LIST_MAX };
    struct error e = { 0 };
    for (struct task_page page = { .more = true }; page.more; f.before = page.next_before) {
        assert_ok(reader_list(l->w->reader, &f, a, &page, &e), &e);
        assert_true(l->row_count + page.tasks.n <= ROWS_MAX);
        memcpy(&l->rows[l->row_count], page.tasks.v, page.tasks.n * sizeof(struct task));
        l->row_count += page.tasks.n;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    return (x->scheduled_ms > y->scheduled_ms) - (x->scheduled_ms < y->scheduled_ms);
}

static int64_t last_of(const struct task *row)
{
    return row->state == TASK_SKIPPED ? max_of(row->cursor_ms, row->scheduled_ms) : row->scheduled_ms;
}

static void judge_order(struct ledger *l, int round)
{
    if (l->row_count > 1)
        qsort(l->rows, l->row_count, sizeof *l->rows, by_time);
    for (size_t i = 1; i < l->row_count; i++)
        if (l->rows[i].scheduled_ms <= last_of(&l->rows[i - 1]))
            fail_msg("round %d: the row of %lld (" STR_FMT ") reaches over that of %lld (" STR_FMT ")", round,
                     (long long)l->rows[i - 1].scheduled_ms, STR_ARG(l->rows[i - 1].last_error),
                     (long long)l->rows[i].scheduled_ms, STR_ARG(l->rows[i].last_error));
}

/* Whether the row says of a time with that fate what became of it. */
static bool is_about(const struct task *row, const struct nominal *t)
{
    static const char *const reasons[] = { [NOMINAL_EXCLUDED] = "CALENDAR",
                                           [NOMINAL_MERGED] = "CALENDAR_MERGED",
                                           [NOMINAL_GAP] = "DST_GAP",
                                           [NOMINAL_GAP_MERGED] = "DST_GAP_MERGED",
                                           [NOMINAL_COPY] = "DST_COPY" };
    bool skipped = row->state == TASK_SKIPPED;
    if (t->at_ms < row->scheduled_ms || t->at_ms > last_of(row))
        return false;
    if (!skipped)
        return t->fate == NOMINAL_FIRES;
    const char *why = skip_reason_name(row);
    assert_non_null(why);
    bool missed = strcmp(why, "WINDOW") == 0 || strcmp(why, "ONE_FOR_ALL") == 0 || strcmp(why, "MISSED") == 0 ||
                  strcmp(why, "OVERLAP") == 0;
    return t->fate == NOMINAL_FIRES ? missed : strcmp(why, reasons[t->fate]) == 0;
}

/* All rows but those without a time count as many times as they say. */
static void judge_rows(struct ledger *l, const struct nominals *all, int round)
{
    int64_t skipped = 0, runs = 0;
    for (size_t i = 0; i < l->row_count; i++) {
        const struct task *row = &l->rows[i];
        int64_t n = 0, wanted = row->state == TASK_SKIPPED ? skip_count(row) : 1;
        skipped += row->state == TASK_SKIPPED ? skip_count(row) : 0;
        bool called_off = row->state == TASK_CANCELLED && !row->started_ms;
        runs += row->state != TASK_SKIPPED && !called_off;
        for (size_t j = 0; j < all->n; j++)
            n += all->v[j].at_ms >= l->begin_ms && is_about(row, &all->v[j]);
        if (n != wanted)
            fail_msg("round %d: a row %s of %lld (" STR_FMT ") is about %lld times, not %lld", round,
                     task_state_name(row->state), (long long)row->scheduled_ms, STR_ARG(row->last_error), (long long)n,
                     (long long)wanted);
    }
    assert_int_equal(current(l).skipped_count, skipped);
    assert_int_equal(current(l).runs_count, runs);
}

static size_t judge_times(struct ledger *l, const struct nominals *all, int round)
{
    struct task now = current(l);
    int64_t behind_ms =
        now.state == TASK_COMPLETED ? INT64_MAX : now.cursor_ms - schedule_spread(&l->task.schedule, l->task.id);
    size_t judged = 0;
    for (size_t j = 0; j < all->n; j++) {
        const struct nominal *t = &all->v[j];
        size_t rows = 0;
        if (t->at_ms < l->begin_ms || t->at_ms >= behind_ms)
            continue;
        judged++;
        for (size_t i = 0; i < l->row_count; i++)
            rows += is_about(&l->rows[i], t);
        if (rows != 1)
            fail_msg("round %d: the time %lld, fate %d, has %zu rows", round, (long long)t->at_ms, (int)t->fate, rows);
    }
    return judged;
}

static void each_time_of_a_schedule_has_one_row(void **state)
{
    struct prng r = seeded_prng("each_time_of_a_schedule_has_one_row");
    struct ledger *l = xmalloc(sizeof *l);
    size_t judged = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct arena a;
        if (round) {
            teardown(state);
            setup(state);
        }
        memset(l, 0, sizeof *l);
        arena_init(&a, ARENA);
        l->w = *state;
        l->random = &r;
        begin(l);
        for (int i = 0; i < 5 && current(l).state != TASK_COMPLETED; i++)
            live_on(l);
        read_rows(l, &a);
        struct nominals all = nominals_between(&l->rule, l->begin_ms, l->w->now_ms + 2 * DAY_MS);
        judge_order(l, round);
        judge_rows(l, &all, round);
        judged += judge_times(l, &all, round);
        free(all.v);
        arena_release(&a);
        end(l);
    }
    printf("# %zu times\n", judged);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_time_of_a_schedule_has_one_row, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
