/* More than a week in seconds: tasks come, run, fail and are forgotten, every three hours. What is there stays about
 * the same once the longest retention has passed, and so does the file, for an adapter that has one. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store_world.h"

enum { STEPS = 9 * 8, TASKS = 80, DEAD = 8, OUTPUT = 4000 };
#define STEP_MS INT64_C(10800000) /* three hours */

enum { BATCH = 100, KEEP_TASKS = 8, KEEP_DEAD = 12, KEEP_EXECUTIONS = 24, KEEP_RECORDS = 4 /* steps */ };

struct life {
    struct world *w;
    int64_t now_ms;
    struct arena arena;
    char output[OUTPUT];
    struct uuid ids[STEPS][TASKS];
};

static void apply(struct life *l, struct op *op)
{
    struct error e = { 0 };
    op->arena = l->arena;
    assert_ok(store_apply(l->w->store, &op, 1, &e), &e);
    assert_ok(op->rc, &op->error);
    l->arena = op->arena;
}

/* One task a request, all of them in one transaction. */
static void come(struct life *l, size_t step)
{
    struct task t[TASKS];
    struct idempotency records[TASKS];
    struct op_insert ops[TASKS];
    struct op *all[TASKS];
    char keys[TASKS][8];
    for (size_t i = 0; i < TASKS; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        t[i] = some_task(l->w);
        t[i].id = l->ids[step][i] = uuid_next(&l->w->ids, l->now_ms);
        t[i].created_ms = t[i].updated_ms = t[i].due_ms = t[i].scheduled_ms = l->now_ms;
        t[i].payload = (struct str){ l->output, 1 + i * 25 };
        t[i].dedupe_key = str_from(keys[i]);
        t[i].dedupe_window_ms = STEP_MS;
        records[i] = some_idempotency();
        records[i].created_ms = l->now_ms;
        memcpy(records[i].key, t[i].id.b, sizeof t[i].id.b);
        ops[i] = insert_of(&t[i], 1);
        ops[i].idempotency = &records[i];
        all[i] = &ops[i].op;
    }
    struct error e = { 0 };
    assert_ok(store_apply(l->w->store, all, TASKS, &e), &e);
    for (size_t i = 0; i < TASKS; i++)
        assert_ok(all[i]->rc, &all[i]->error);
}

static void run_all(struct life *l)
{
    struct lane_quota lane = { some_lane(), CLAIM_MAX };
    struct op_claim op = claim_of(l->w, &lane, 1);
    struct settlement v[TASKS];
    op.now_ms = op.until_ms = l->now_ms;
    apply(l, &op.op);
    assert_int_equal(op.ret.n, TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        v[i] = settlement_of(&op.ret.v[i], i < DEAD ? TASK_FAILED : TASK_COMPLETED);
        v[i].verdict.has_execution = true;
        v[i].verdict.execution = some_execution(l->w, &op.ret.v[i]);
        v[i].verdict.execution.started_us = v[i].verdict.execution.completed_us = l->now_ms * 1000;
        v[i].verdict.execution.output = (struct str){ l->output, i * OUTPUT / TASKS };
    }
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = v, .n = TASKS, .now_ms = l->now_ms };
    apply(l, &settle.op);
}

static void forget(struct life *l)
{
    for (bool more = true; more;) {
        struct op_purge op = { .op.kind = OP_PURGE,
                               .now_ms = l->now_ms,
                               .idempotency_before_ms = l->now_ms - KEEP_RECORDS * STEP_MS,
                               .tasks_before_ms = l->now_ms - KEEP_TASKS * STEP_MS,
                               .dlq_before_ms = l->now_ms - KEEP_DEAD * STEP_MS,
                               .executions_before_ms = l->now_ms - KEEP_EXECUTIONS * STEP_MS,
                               .max = BATCH };
        apply(l, &op.op);
        more = op.ret_more;
        assert_true(op.ret_purged <= BATCH);
    }
}

static bool has_execution(struct life *l, struct uuid task)
{
    struct execution_filter f = { .tenant = TENANT, .task = task, .limit = 1 };
    struct execution_page page;
    struct error e = { 0 };
    assert_ok(reader_executions(l->w->reader, &f, &l->w->arena, &page, &e), &e);
    return page.executions.n == 1;
}

static bool has_record(struct life *l, struct uuid task)
{
    struct idempotency read;
    uint8_t key[32];
    struct idempotency like = some_idempotency();
    memcpy(key, like.key, sizeof key);
    memcpy(key, task.b, sizeof task.b);
    return reader_idempotency(l->w->reader, TENANT, key, &l->w->arena, &read, NULL) == ERR_OK;
}

/* Each step is there exactly as long as its retention says: one task that completed, one that failed, speak for it. */
static void assert_steps(struct life *l, size_t now)
{
    for (size_t step = 0; step <= now; step++) {
        size_t age = now - step;
        struct uuid dead = l->ids[step][0], completed = l->ids[step][TASKS - 1];
        assert_int_equal(is_there(l->w, TENANT, completed), age <= KEEP_TASKS);
        assert_int_equal(is_there(l->w, TENANT, dead), age <= KEEP_DEAD);
        assert_int_equal(has_execution(l, completed), age <= KEEP_EXECUTIONS);
        assert_int_equal(has_record(l, completed), age <= KEEP_RECORDS);
    }
}

/* 0: there is none. */
static int64_t file_size(const struct life *l)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/belfry.db", l->w->directory);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static void a_week_of_tasks_takes_no_more_room_than_its_retention(void **state)
{
    struct life *l = xnew(*l);
    *l = (struct life){ .w = *state, .now_ms = NOW };
    arena_init(&l->arena, 1 << 24);
    memset(l->output, 'x', sizeof l->output);
    int64_t size = 0;
    for (size_t step = 0; step < STEPS; step++) {
        come(l, step);
        run_all(l);
        forget(l);
        arena_reset(&l->arena);
        l->now_ms += STEP_MS;
        if (step == 4 * 8) /* everything has been forgotten once by then */
            size = file_size(l);
    }
    assert_steps(l, STEPS - 1);
    struct store_counts counts;
    struct error e = { 0 };
    assert_ok(reader_counts(l->w->reader, l->now_ms, &counts, &e), &e);
    assert_int_equal(counts.by_state[TASK_COMPLETED], (TASKS - DEAD) * (KEEP_TASKS + 1));
    assert_int_equal(counts.by_state[TASK_FAILED], DEAD * (KEEP_DEAD + 1));
    if (file_size(l) > size + size / 4)
        fail_msg("the file grew from %lld to %lld bytes", (long long)size, (long long)file_size(l));
    arena_release(&l->arena);
    free(l);
}

static const struct CMUnitTest tests[] = {
    store_test(a_week_of_tasks_takes_no_more_room_than_its_retention),
};
const struct test_list growth_tests = { tests, array_count(tests) };
