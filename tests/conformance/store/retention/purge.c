/* OP_PURGE: what goes, what stays, and how much at a time. */
#include "store_world.h"

static enum err forget_with(struct world *w, struct op_purge *op, size_t *ret)
{
    op->op.kind = OP_PURGE;
    op->max = op->max ? op->max : 100;
    enum err rc = world_apply(w, &op->op);
    *ret = op->ret_purged;
    return rc;
}

/* How many go by these limits: forgets(w, .tasks_before_ms = NOW). */
#define forgets(w, ...)                                                                                                \
    __extension__({                                                                                                    \
        struct op_purge op_ = { __VA_ARGS__ };                                                                         \
        size_t n_ = 0;                                                                                                 \
        assert_ok(forget_with((w), &op_, &n_), &op_.op.error);                                                         \
        n_;                                                                                                            \
    })

static struct task ended(struct world *w, enum task_state state, int64_t completed_ms)
{
    struct task t = some_task(w);
    t.state = state;
    t.completed_ms = completed_ms;
    return t;
}

/* Claims the task, which is in already, and settles it at NOW + 10. */
static void run(struct world *w, const struct task *t, enum task_state next)
{
    struct lane_quota lane = { task_lane(t), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.until_ms = op.now_ms = max_of(t->due_ms, NOW);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
    struct settlement v = settlement_of(&op.ret.v[0], next);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &op.ret.v[0]);
    assert_true(settle_with(w, &v));
}

/* ---- tasks ---- */

static void final_tasks_are_forgotten_once_completed_long_enough(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w), some_task(w) };
    static const enum task_state states[] = { TASK_COMPLETED, TASK_CANCELLED, TASK_SKIPPED, TASK_EXPIRED };
    for (size_t i = 0; i < array_count(states); i++) {
        v[i].state = states[i];
        v[i].completed_ms = NOW;
    }
    insert(w, v, array_count(v));
    assert_int_equal(forgets(w, .tasks_before_ms = NOW), 0);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1), array_count(states));
    assert_true(is_there(w, TENANT, v[4].id)); /* SCHEDULED */
    for (size_t i = 0; i < array_count(states); i++)
        assert_false(is_there(w, TENANT, v[i].id));
}

static void a_task_is_forgotten_by_the_end_it_came_to(void **state)
{
    struct world *w = *state;
    struct task settled = some_task(w), cancelled = some_task(w), over = some_recurring(w), replaced = some_task(w);
    insert(w, &settled, 1);
    run(w, &settled, TASK_COMPLETED);
    insert(w, &cancelled, 1);
    struct task next = cancelled;
    next.state = TASK_CANCELLED;
    next.completed_ms = NOW + 10;
    struct op_put put = put_of(&cancelled, &next);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    insert(w, &over, 1);
    struct spawn_plan plan = { .ended = true };
    struct op_spawn spawn = {
        .op.kind = OP_SPAWN, .id = over.id, .version = 1, .cursor_ms = over.cursor_ms, .plan = &plan, .now_ms = NOW + 10
    };
    assert_ok(world_apply(w, &spawn.op), &spawn.op.error);
    struct task claimed = claim_one(w, &replaced, fresh_id(w)), instead = claimed;
    instead.state = TASK_CANCELLED;
    instead.completed_ms = NOW + 10;
    struct settlement v = settlement_of(&claimed, TASK_SCHEDULED);
    v.replace = &instead;
    assert_true(settle_with(w, &v));
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 10), 0);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 11), 4);
}

static void deleted_tasks_are_forgotten_like_others(void **state)
{
    struct world *w = *state;
    struct task t = ended(w, TASK_COMPLETED, NOW), gone = t, failed = ended(w, TASK_FAILED, NOW);
    insert(w, &t, 1);
    gone.deleted = failed.deleted = true;
    insert(w, &failed, 1);
    struct op_put put = put_of(&t, &gone);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1), 1);
    assert_int_equal(forgets(w, .dlq_before_ms = NOW + 1), 1);
    insert(w, &t, 1); /* its id is free again */
    assert_true(is_there(w, TENANT, t.id));
}

static void dead_letters_have_a_limit_of_their_own_until_they_are_resolved(void **state)
{
    struct world *w = *state;
    struct task v[] = { ended(w, TASK_FAILED, NOW), ended(w, TASK_FAILED, NOW), ended(w, TASK_FAILED, NOW + 1) };
    v[1].resolved_ms = NOW + 50;
    insert(w, v, array_count(v));
    assert_int_equal(forgets(w, .tasks_before_ms = NOW), 0);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1000), 1);
    assert_false(is_there(w, TENANT, v[1].id));
    assert_int_equal(forgets(w, .dlq_before_ms = NOW + 1), 1);
    assert_false(is_there(w, TENANT, v[0].id));
    assert_int_equal(forgets(w, .dlq_before_ms = NOW + 2), 1);
}

static void a_dead_letter_that_is_resolved_later_goes_by_the_limit_of_tasks(void **state)
{
    struct world *w = *state;
    struct task t = ended(w, TASK_FAILED, NOW), resolved = t;
    insert(w, &t, 1);
    resolved.version++;
    resolved.resolved_ms = NOW + 500;
    struct op_put put = put_of(&t, &resolved);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(forgets(w, .dlq_before_ms = NOW + 1000), 0);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1), 1);
}

static void a_task_that_was_retried_is_forgotten_by_its_last_end(void **state)
{
    struct world *w = *state;
    struct task t = ended(w, TASK_FAILED, NOW - 1000), again = t;
    insert(w, &t, 1);
    again.state = TASK_SCHEDULED;
    again.completed_ms = 0;
    again.version++;
    struct op_put put = put_of(&t, &again);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW, .dlq_before_ms = NOW), 0);
    run(w, &again, TASK_COMPLETED);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 10, .dlq_before_ms = NOW + 10), 0);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 11), 1);
}

static void what_ends_in_a_batch_is_forgotten_in_it(void **state)
{
    struct world *w = *state;
    struct task t = ended(w, TASK_COMPLETED, NOW), clash[] = { ended(w, TASK_COMPLETED, NOW), t };
    struct op_insert in = insert_of(&t, 1), refused = insert_of(clash, 2);
    struct op_purge forget = { .op.kind = OP_PURGE, .tasks_before_ms = NOW + 1, .max = 10 };
    clash[1].created_ms++;
    world_apply_all(w, (struct op *[]){ &in.op, &refused.op, &forget.op }, 3);
    assert_int_equal(refused.op.rc, ERR_CONFLICT);
    assert_int_equal(forget.ret_purged, 1);
    assert_false(is_there(w, TENANT, t.id));
}

static void a_task_that_takes_the_place_of_a_forgotten_one_stays(void **state)
{
    struct world *w = *state;
    struct task old = ended(w, TASK_COMPLETED, NOW), fresh = some_task(w);
    insert(w, &old, 1);
    insert(w, &old, 1);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1), 1);
    insert(w, &fresh, 1);
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1), 0);
    assert_true(is_there(w, TENANT, fresh.id));
}

/* ---- the rest ---- */

static void idempotency_records_are_forgotten_by_their_creation(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct idempotency i = some_idempotency(), read;
    struct op_insert op = insert_of(&t, 1);
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(forgets(w, .idempotency_before_ms = NOW), 0);
    assert_int_equal(forgets(w, .idempotency_before_ms = NOW + 1), 1);
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
    assert_true(is_there(w, TENANT, t.id));
}

static void executions_outlive_their_task(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &claimed);
    assert_true(settle_with(w, &v));
    assert_int_equal(forgets(w, .tasks_before_ms = NOW + 1000), 1);
    struct execution_filter f = { .tenant = TENANT, .task = t.id, .limit = 10 };
    struct execution_page page;
    struct error e = { 0 };
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    assert_int_equal(page.executions.n, 1);
}

static void executions_are_forgotten_by_their_end(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    run(w, &t, TASK_COMPLETED); /* its execution ends in NOW's millisecond 4 */
    struct execution_filter f = { .tenant = TENANT, .task = t.id, .limit = 10 };
    struct execution_page page;
    struct error e = { 0 };
    assert_int_equal(forgets(w, .executions_before_ms = NOW + 4), 0);
    assert_int_equal(forgets(w, .executions_before_ms = NOW + 5), 1);
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    assert_int_equal(page.executions.n, 0);
    assert_true(is_there(w, TENANT, t.id));
}

static void dedupe_keys_are_forgotten_when_their_time_is_over(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    t.dedupe_key = S("k");
    t.dedupe_window_ms = 100;
    t.created_ms = NOW;
    insert(w, &t, 1);
    assert_int_equal(forgets(w, .now_ms = NOW + 100), 0);
    assert_int_equal(forgets(w, .now_ms = NOW + 101), 1);
    assert_int_equal(forgets(w, .now_ms = NOW + 1000), 0);
    assert_true(is_there(w, TENANT, t.id));
}

static void jobs_that_are_over_are_forgotten_by_their_last_change(void **state)
{
    struct world *w = *state;
    static const struct {
        enum catalog_kind kind;
        const char *name, *doc;
        bool goes;
    } rows[] = {
        { CATALOG_JOB, "done", "{\"state\":\"DONE\"}", true },
        { CATALOG_JOB, "failed", "{\"n\": 1, \"state\": \"FAILED\"}", true },
        { CATALOG_JOB, "running", "{\"state\":\"RUNNING\"}", false },
        { CATALOG_JOB, "inside", "{\"a\":{\"state\":\"DONE\"}}", false },
        { CATALOG_JOB, "silent", "{}", false },
        { CATALOG_QUEUE, "queue", "{\"state\":\"DONE\"}", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct catalog_change c = { .entry = { .tenant = TENANT,
                                               .kind = rows[i].kind,
                                               .name = str_from(rows[i].name),
                                               .doc = str_from(rows[i].doc) } };
        struct op_catalog op = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = NOW };
        assert_ok(world_apply(w, &op.op), &op.op.error);
    }
    assert_int_equal(forgets(w, .jobs_before_ms = NOW), 0);
    assert_int_equal(forgets(w, .jobs_before_ms = NOW + 1), 2);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct catalog_entry x;
        enum err rc = reader_catalog_get(w->reader, TENANT, rows[i].kind, str_from(rows[i].name), &w->arena, &x, NULL);
        if (rc != (rows[i].goes ? ERR_NOT_FOUND : ERR_OK))
            fail_msg("%s: %s", rows[i].name, err_text(rc));
    }
}

static void without_a_limit_nothing_is_forgotten(void **state)
{
    struct world *w = *state;
    struct task t = ended(w, TASK_COMPLETED, NOW), dead = ended(w, TASK_FAILED, NOW), ran = some_task(w);
    struct idempotency i = some_idempotency();
    struct op_insert op = insert_of(&t, 1);
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    insert(w, &dead, 1);
    insert(w, &ran, 1);
    run(w, &ran, TASK_COMPLETED);
    assert_int_equal(forgets(w, .max = 10), 0);
}

static void forgetting_goes_in_batches_over_all_kinds_together(void **state)
{
    struct world *w = *state;
    enum { EACH = 3, KINDS = 5 };
    for (size_t i = 0; i < EACH; i++) {
        struct task t = some_task(w), dead = ended(w, TASK_FAILED, NOW);
        struct idempotency record = some_idempotency();
        record.key[0] = (uint8_t)i;
        char key[] = { (char)('a' + i), '\0' };
        t.dedupe_key = str_from(key);
        struct op_insert op = insert_of(&t, 1);
        op.idempotency = &record;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        run(w, &t, TASK_COMPLETED);
        insert(w, &dead, 1);
    }
#define ALL                                                                                                            \
    .now_ms = NOW + 100, .idempotency_before_ms = NOW + 100, .tasks_before_ms = NOW + 100, .dlq_before_ms = NOW + 100, \
    .executions_before_ms = NOW + 100
    assert_int_equal(forgets(w, ALL, .max = 4), 4);
    assert_int_equal(forgets(w, ALL, .max = 10), 10);
    assert_int_equal(forgets(w, ALL, .max = 4), EACH * KINDS - 14);
    assert_int_equal(forgets(w, ALL, .max = 4), 0);
#undef ALL
}

static const struct CMUnitTest tests[] = {
    store_test(final_tasks_are_forgotten_once_completed_long_enough),
    store_test(a_task_is_forgotten_by_the_end_it_came_to),
    store_test(deleted_tasks_are_forgotten_like_others),
    store_test(dead_letters_have_a_limit_of_their_own_until_they_are_resolved),
    store_test(a_dead_letter_that_is_resolved_later_goes_by_the_limit_of_tasks),
    store_test(a_task_that_was_retried_is_forgotten_by_its_last_end),
    store_test(what_ends_in_a_batch_is_forgotten_in_it),
    store_test(a_task_that_takes_the_place_of_a_forgotten_one_stays),
    store_test(idempotency_records_are_forgotten_by_their_creation),
    store_test(executions_outlive_their_task),
    store_test(executions_are_forgotten_by_their_end),
    store_test(dedupe_keys_are_forgotten_when_their_time_is_over),
    store_test(jobs_that_are_over_are_forgotten_by_their_last_change),
    store_test(without_a_limit_nothing_is_forgotten),
    store_test(forgetting_goes_in_batches_over_all_kinds_together),
};
const struct test_list forget_tests = { tests, array_count(tests) };
