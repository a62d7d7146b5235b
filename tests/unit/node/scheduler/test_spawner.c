/* The spawner by hand: a writer whose answers the test decides, and time zones that come and go. */
#include "both_at.h"
#include "node/scheduler/spawner.h"

#include <stdlib.h>

#include "check.h"
#include "core/task/spawn.h"
#include "model/store_memory.h"
#include "platform/zoneinfo_system.h"

#define NOW  1772532000000LL /* 2026-03-03T10:00:00Z */
#define LOST S("Mars/Olympus")

enum { TENANT = 1, AHEAD_MS = 10000, TROUBLE_MS = 5000, MANY = 150 };

struct world {
    struct store *store;
    struct reader *reader;
    struct metrics *metrics;
    struct writer writer;
    struct zoneinfo shaky, *zones;
    bool lost_zone_found; /* the zone LOST exists after all */
    int asked;            /* how often LOST was looked up */
    struct list pending;
    size_t pages, spawned;
    struct spawner *spawner;
    struct uuid_gen ids;
    int64_t now_ms;
};

static void submit(struct writer *w, struct op *op)
{
    list_push(&container_of(w, struct world, writer)->pending, &op->link);
}

static enum err get_zone(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e)
{
    struct world *w = container_of(z, struct world, shaky);
    if (!str_eq(name, LOST))
        return zoneinfo_get(w->zones, name, ret, e);
    w->asked++;
    return w->lost_zone_found ? zoneinfo_get(w->zones, S("UTC"), ret, e) : error_set(e, ERR_INVALID, "no such zone");
}

static void count_spawned(void *context, const struct task *occurrence)
{
    assert_int_equal(occurrence->kind, TASK_OCCURRENCE);
    ((struct world *)context)->spawned++;
}

static int setup(void **state)
{
    static const struct writer_ops writer_ops = { submit };
    static const struct zoneinfo_ops zone_ops = { .get = get_zone };
    struct world *w = xnew(*w);
    struct error e;
    w->now_ms = NOW;
    w->writer.ops = &writer_ops;
    w->shaky.ops = &zone_ops;
    w->store = store_memory_new();
    w->zones = zoneinfo_system_new(NULL);
    w->metrics = metrics_new();
    list_init(&w->pending);
    uuid_gen_init(&w->ids, 1);
    struct spawner_setup setup = { .writer = &w->writer,
                                   .zones = &w->shaky,
                                   .metrics = w->metrics,
                                   .ahead_ms = AHEAD_MS,
                                   .spawned = count_spawned,
                                   .context = w };
    w->spawner = spawner_new(&setup, both_at(NOW));
    spawner_suspend(w->spawner, false);
    *state = w;
    return store_reader(w->store, &w->reader, &e) ? -1 : 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_true(spawner_is_idle(w->spawner) && list_empty(&w->pending));
    spawner_free(w->spawner);
    reader_free(w->reader);
    store_free(w->store);
    zoneinfo_free(w->zones);
    metrics_free(w->metrics);
    free(w);
    return 0;
}

/* ---- what the writer does ---- */

static struct op *next_op(struct world *w, enum op_kind kind)
{
    assert_false(list_empty(&w->pending));
    struct op *op = container_of(list_pop(&w->pending), struct op, link);
    assert_int_equal(op->kind, kind);
    w->pages += kind == OP_RECURRING;
    return op;
}

static void apply_op(struct world *w, struct op *op)
{
    struct error e;
    assert_ok(store_apply(w->store, &op, 1, &e), &e);
}

static void answer(struct world *w, enum op_kind kind)
{
    struct op *op = next_op(w, kind);
    apply_op(w, op);
    op->done(op);
}

static void deny(struct world *w, enum op_kind kind)
{
    struct op *op = next_op(w, kind);
    op->rc = error_set(&op->error, ERR_UNAVAILABLE, "down");
    op->done(op);
}

/* Steps at that time, and answers every operation until no more are submitted; returns when it wants to be stepped
 * again. */
static int64_t live_at(struct world *w, int64_t now_ms)
{
    w->now_ms = now_ms;
    int64_t wake = spawner_step(w->spawner, both_at(now_ms));
    while (wake <= now_ms || !list_empty(&w->pending)) {
        while (!list_empty(&w->pending)) {
            struct op *op = container_of(list_pop(&w->pending), struct op, link);
            w->pages += op->kind == OP_RECURRING;
            apply_op(w, op);
            op->done(op);
        }
        wake = spawner_step(w->spawner, both_at(now_ms));
    }
    return wake;
}

/* ---- tasks ---- */

static struct task every_minute(struct world *w, int64_t cursor_ms)
{
    return (struct task){ .id = uuid_next(&w->ids, NOW),
                          .tenant = TENANT,
                          .kind = TASK_RECURRING,
                          .state = TASK_SCHEDULED,
                          .version = 1,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .target = TARGET_NOOP,
                          .retry = RETRY_DEFAULT,
                          .schedule = { .interval_ms = 60000,
                                        .time_zone = S("UTC"),
                                        .start_ms = cursor_ms,
                                        .end_ms = INT64_MAX,
                                        .catch_up_window_ms = 86400000 },
                          .cursor_ms = cursor_ms,
                          .created_ms = NOW - 86400000 };
}

static void put_in(struct world *w, const struct task *t)
{
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = t, .count = 1 };
    apply_op(w, &op.op);
    assert_int_equal(op.op.rc, ERR_OK);
}

static struct task put_good(struct world *w, int64_t cursor_ms)
{
    struct task t = every_minute(w, cursor_ms);
    put_in(w, &t);
    return t;
}

/* More than a page of tasks whose time zone was removed from the system, all of them earlier than any good one. */
static void put_unplannable(struct world *w)
{
    for (int i = 0; i < MANY; i++) {
        struct task t = every_minute(w, NOW - 500 + i / 2);
        t.schedule.time_zone = LOST;
        put_in(w, &t);
    }
}

static int64_t cursor_of(struct world *w, const struct task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct task read;
    struct error e;
    arena_init(&a, 4 << 20);
    assert_ok(reader_get(w->reader, TENANT, t->id, &a, &read, &e), &e);
    return read.cursor_ms;
}

/* ---- tests ---- */

static void tasks_that_can_not_be_planned_stand_in_nobodys_way(void **state)
{
    struct world *w = *state;
    put_unplannable(w);
    struct task good = put_good(w, NOW + 2000);
    live_at(w, NOW);
    assert_int_equal(w->asked, MANY);
    assert_int_equal(w->spawned, 1);
    assert_true(cursor_of(w, &good) == NOW + 62000);
}

static void they_are_tried_again_after_a_while_and_not_before(void **state)
{
    struct world *w = *state;
    put_unplannable(w);
    put_good(w, NOW + AHEAD_MS + 1000);
    int64_t wake = live_at(w, NOW);
    assert_true(wake == NOW + TROUBLE_MS);
    assert_int_equal(w->asked, MANY);
    struct task other = put_good(w, NOW + 3000); /* a new task is spawned meanwhile, and disturbs none of them */
    spawner_nudge(w->spawner, other.cursor_ms);
    wake = live_at(w, NOW + 100);
    assert_int_equal(w->spawned, 1);
    assert_int_equal(w->asked, MANY);
    assert_true(wake == NOW + TROUBLE_MS);
    live_at(w, wake);
    assert_int_equal(w->asked, 2 * MANY);
    assert_int_equal(w->spawned, 2);
}

static void once_they_can_be_planned_they_are(void **state)
{
    struct world *w = *state;
    put_unplannable(w);
    live_at(w, NOW);
    w->lost_zone_found = true;
    int64_t wake = live_at(w, NOW + TROUBLE_MS);
    assert_int_equal(w->spawned, MANY); /* the missed one of each */
    assert_true(wake > NOW + 50000);
    size_t pages = w->pages;
    live_at(w, wake); /* and nothing is passed over any more */
    assert_int_equal(w->spawned, 2 * MANY);
    assert_true(w->pages > pages);
}

static void a_task_that_comes_in_before_them_is_seen_at_once(void **state)
{
    struct world *w = *state;
    put_unplannable(w);
    live_at(w, NOW);
    struct task early = put_good(w, NOW - 30000);
    spawner_nudge(w->spawner, early.cursor_ms);
    live_at(w, NOW + 50);
    assert_int_equal(w->spawned, 1);
}

static void more_tasks_than_a_page_are_made_in_one_visit(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 250; i++)
        put_good(w, NOW + 1000);
    int64_t wake = live_at(w, NOW);
    assert_int_equal(w->spawned, 250);
    assert_int_equal(w->pages, 3);
    assert_true(wake == NOW + 61000 - AHEAD_MS / 2);
}

static void a_page_too_large_for_its_memory_comes_in_parts(void **state)
{
    struct world *w = *state;
    struct str megabyte = { xcalloc(1, 1 << 20), 1 << 20 };
    for (int i = 0; i < 40; i++) {
        struct task t = every_minute(w, NOW + 1000);
        t.payload = megabyte;
        put_in(w, &t);
    }
    live_at(w, NOW);
    assert_int_equal(w->spawned, 40);
    free_const(megabyte.p);
}

static void what_the_store_refused_is_asked_for_again(void **state)
{
    struct world *w = *state;
    put_good(w, NOW + 8000);
    spawner_step(w->spawner, both_at(NOW));
    deny(w, OP_RECURRING);
    int64_t wake = spawner_step(w->spawner, both_at(NOW));
    assert_true(wake == NOW + TROUBLE_MS);
    spawner_step(w->spawner, both_at(wake));
    answer(w, OP_RECURRING);
    deny(w, OP_SPAWN);
    assert_int_equal(w->spawned, 1); /* it may be there all the same */
    wake = spawner_step(w->spawner, both_at(wake));
    assert_true(wake == NOW + 2 * TROUBLE_MS);
    live_at(w, wake);
    assert_int_equal(w->spawned, 2);
}

static void what_the_store_refused_comes_along_with_an_earlier_visit(void **state)
{
    struct world *w = *state;
    put_good(w, NOW + 8000);
    spawner_step(w->spawner, both_at(NOW));
    answer(w, OP_RECURRING);
    deny(w, OP_SPAWN);
    struct task other = put_good(w, NOW + 9000);
    spawner_nudge(w->spawner, other.cursor_ms);
    live_at(w, NOW + 4000);
    assert_true(cursor_of(w, &other) == NOW + 69000);
    assert_int_equal(w->spawned, 3);
}

static void what_nobody_told_of_is_found_by_the_next_visit(void **state)
{
    struct world *w = *state;
    put_good(w, NOW + 1000);
    int64_t wake = live_at(w, NOW);
    put_good(w, NOW + 2000); /* the process that wrote it died before it could nudge */
    live_at(w, wake);
    assert_int_equal(w->spawned, 1 + 1 + 2); /* one of its occurrences was missed */
}

static void what_waits_for_its_last_run_is_looked_at_and_not_written(void **state)
{
    struct world *w = *state;
    struct task t = every_minute(w, NOW + 1000);
    t.schedule.interval_ms = 1000;
    t.schedule.max_runs = 2;
    put_in(w, &t);
    int64_t wake = live_at(w, NOW);
    assert_int_equal(w->spawned, 2);
    assert_true(wake == NOW + 3000 - SPAWN_LEAD_MS); /* in time for the occurrence after its last */
    spawner_nudge(w->spawner, NOW);
    assert_true(live_at(w, NOW + 500) == wake);
    spawner_step(w->spawner, both_at(wake));
    answer(w, OP_RECURRING);
    assert_true(list_empty(&w->pending));
    int64_t last = 0;
    for (int64_t next; wake != INT64_MAX; last = wake, wake = next) {
        next = live_at(w, wake);
        assert_true(next > wake);
    }
    assert_int_equal(w->spawned, 2);
    assert_true(last == NOW + 2001 + SPAWN_PATIENCE_MS); /* it has ended */
}

static void a_user_who_comes_between_is_met_again_at_once(void **state)
{
    struct world *w = *state;
    struct task t = put_good(w, NOW + 8000), changed = t;
    spawner_step(w->spawner, both_at(NOW));
    answer(w, OP_RECURRING);
    changed.version++;
    changed.cursor_ms = NOW + 4000;
    changed.schedule.start_ms = NOW + 4000;
    struct op_put put = { .op = { .kind = OP_PUT }, .task = &changed, .version = 1, .cursor_ms = NOW + 8000 };
    apply_op(w, &put.op);
    assert_int_equal(put.op.rc, ERR_OK);
    live_at(w, NOW);
    assert_int_equal(w->spawned, 1);
    assert_true(cursor_of(w, &t) == NOW + 64000);
}

static void drained_it_ends_its_page_and_asks_for_no_more(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 250; i++)
        put_good(w, NOW + 1000);
    spawner_step(w->spawner, both_at(NOW));
    spawner_drain(w->spawner);
    assert_false(spawner_is_idle(w->spawner));
    answer(w, OP_RECURRING);
    assert_true(spawner_is_idle(w->spawner));
    assert_true(spawner_step(w->spawner, both_at(NOW + 60000)) == INT64_MAX);
    assert_int_equal(w->spawned, 0);
}

static void a_clock_set_back_has_it_look_at_everything(void **state)
{
    struct world *w = *state;
    put_unplannable(w);
    live_at(w, NOW);
    spawner_on_clock_set_back(w->spawner, (struct moment){ NOW - 60000, NOW });
    w->lost_zone_found = true;
    live_at(w, NOW - 60000); /* their cursors lie ahead now */
    assert_int_equal(w->spawned, 0);
    live_at(w, NOW - 5000);
    assert_int_equal(w->spawned, MANY);
}

int main(void)
{
#define spawner_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        spawner_test(tasks_that_can_not_be_planned_stand_in_nobodys_way),
        spawner_test(they_are_tried_again_after_a_while_and_not_before),
        spawner_test(once_they_can_be_planned_they_are),
        spawner_test(a_task_that_comes_in_before_them_is_seen_at_once),
        spawner_test(more_tasks_than_a_page_are_made_in_one_visit),
        spawner_test(a_page_too_large_for_its_memory_comes_in_parts),
        spawner_test(what_the_store_refused_is_asked_for_again),
        spawner_test(what_the_store_refused_comes_along_with_an_earlier_visit),
        spawner_test(what_nobody_told_of_is_found_by_the_next_visit),
        spawner_test(what_waits_for_its_last_run_is_looked_at_and_not_written),
        spawner_test(a_user_who_comes_between_is_met_again_at_once),
        spawner_test(drained_it_ends_its_page_and_asks_for_no_more),
        spawner_test(a_clock_set_back_has_it_look_at_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
