/* Tasks that depend on others: what their joins make of them, and when. The numbers are those of
 * port/store/dependencies.h. */
#include <stdlib.h>

#include "store_world.h"

/* ---- making ---- */

static enum err insert_child(struct world *w, const struct task *t, enum dag_join join, const struct dependency *v,
                             size_t n, struct error *ret)
{
    struct depends_on d = { .join = join, .v = v, .n = n };
    struct op_insert op = insert_of(t, 1);
    op.depends = &d;
    enum err rc = world_apply(w, &op.op);
    if (ret)
        *ret = op.op.error;
    return rc;
}

#define child_of(w, t, join, ...)                                                                                      \
    assert_int_equal(insert_child((w), (t), (join), (struct dependency[]){ __VA_ARGS__ },                              \
                                  array_count(((struct dependency[]){ __VA_ARGS__ })), NULL),                          \
                     ERR_OK)
#define AFTER(t)                                                                                                       \
    {                                                                                                                  \
        (t).id, DAG_MUST_SUCCEED                                                                                       \
    }

static struct task parent(struct world *w)
{
    struct task t = some_task(w);
    insert(w, &t, 1);
    return t;
}

/* Claims all that is due, and settles this one. */
static struct op_settle end_of(struct world *w, const struct task *t, enum task_state next, struct settlement *v)
{
    struct lane_quota lane = { task_lane(t), 9000 };
    struct op_claim claim = claim_of(w, &lane, 1);
    if (get(w, t->id).state == TASK_SCHEDULED)
        assert_ok(world_apply(w, &claim.op), &claim.op.error);
    struct task now = get(w, t->id);
    *v = settlement_of(&now, next);
    return (struct op_settle){ .op.kind = OP_SETTLE, .v = v, .n = 1, .now_ms = NOW + 10 };
}

static struct op_settle end(struct world *w, const struct task *t, enum task_state next)
{
    struct settlement v;
    struct op_settle op = end_of(w, t, next, &v);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_false(v.stale);
    return op;
}

static void assert_state(struct world *w, const struct task *t, enum task_state expected)
{
    assert_string_equal(task_state_name(get(w, t->id).state), task_state_name(expected));
}

static struct task_links links(struct world *w, const struct task *t)
{
    struct task_links l;
    assert_int_equal(reader_links(w->reader, TENANT, t->id, &w->arena, &l, NULL), ERR_OK);
    return l;
}

/* ---- tests ---- */

static void a_child_waits_until_its_parents_have_succeeded(void **state) /* 5, 6, 9; OP_INSERT 11 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = some_task(w);
    child_of(w, &c, DAG_ALL, AFTER(a), AFTER(b));
    struct task blocked = get(w, c.id);
    assert_int_equal(blocked.state, TASK_BLOCKED);
    assert_int_equal(blocked.links, TASK_HAS_PARENTS | TASK_WAITS);
    assert_int_equal(get(w, a.id).links, TASK_HAS_CHILDREN);
    assert_false(end(w, &a, TASK_COMPLETED).ret_unblocked_lanes);
    assert_state(w, &c, TASK_BLOCKED);
    struct op_settle last = end(w, &b, TASK_COMPLETED);
    assert_true(last.ret_unblocked_lanes == lane_bit(task_lane(&c)));
    assert_false(last.ret_arrivals_left);
    struct task free = get(w, c.id);
    assert_int_equal(free.state, TASK_SCHEDULED);
    assert_int_equal(free.links, TASK_HAS_PARENTS);
    assert_true(free.due_ms == NOW + 10 && free.scheduled_ms == NOW + 10 && free.updated_ms == NOW + 10);
    assert_int_equal(free.version, c.version);
}

static void a_child_is_not_due_before_its_own_time(void **state) /* 6 */
{
    struct world *w = *state;
    struct task a = parent(w), c = some_task(w);
    c.due_ms = c.scheduled_ms = NOW + 5000;
    child_of(w, &c, DAG_ALL, AFTER(a));
    end(w, &a, TASK_COMPLETED);
    struct task read = get(w, c.id);
    assert_int_equal(read.state, TASK_SCHEDULED);
    assert_true(read.due_ms == NOW + 5000 && read.scheduled_ms == NOW + 5000);
}

static void parents_that_are_final_arrive_at_once(void **state) /* 2 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), started = some_task(w), skipped = some_task(w);
    end(w, &a, TASK_COMPLETED);
    end(w, &b, TASK_FAILED);
    child_of(w, &started, DAG_ALL, AFTER(a));
    child_of(w, &skipped, DAG_ALL, AFTER(a), AFTER(b));
    assert_state(w, &started, TASK_SCHEDULED);
    struct task read = get(w, skipped.id);
    assert_int_equal(read.state, TASK_SKIPPED);
    assert_int_equal(read.links, TASK_HAS_PARENTS | TASK_BROKEN);
    assert_true(read.completed_ms == skipped.created_ms);
}

static void a_skip_names_its_parent_and_goes_on(void **state) /* 7, 10 */
{
    struct world *w = *state;
    struct task a = parent(w), b = some_task(w), c = some_task(w), d = some_task(w);
    char why[DEPENDENCY_REASON_MAX];
    child_of(w, &b, DAG_ALL, AFTER(a));
    child_of(w, &c, DAG_ALL, AFTER(b));
    child_of(w, &d, DAG_ALL, { b.id, DAG_MUST_FINISH });
    struct op_settle op = end(w, &a, TASK_FAILED);
    assert_true(op.ret_unblocked_lanes);
    struct task read = get(w, b.id);
    assert_int_equal(read.state, TASK_SKIPPED);
    assert_true(str_eq(read.last_error, dependency_skip_reason(a.id, DAG_MUST_SUCCEED, FLOW_FAILED, why)));
    assert_int_equal(read.completed_ms, NOW + 10);
    assert_state(w, &c, TASK_SKIPPED);
    assert_true(get(w, c.id).links & TASK_BROKEN);
    assert_state(w, &d, TASK_SCHEDULED);
}

static void an_edge_arrives_once(void **state) /* 3, 8 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = some_task(w);
    child_of(w, &c, DAG_SOME, AFTER(a), AFTER(b));
    end(w, &a, TASK_FAILED);
    struct task failed = get(w, a.id), again = failed;
    again.state = TASK_SCHEDULED;
    again.completed_ms = 0;
    again.version++;
    struct op_put put = put_of(&failed, &again);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    end(w, &a, TASK_COMPLETED);
    struct task_links l = links(w, &c);
    assert_true(l.has_join && l.join == DAG_SOME && l.expected == 2);
    assert_true(l.counts.arrived == 1 && l.counts.met == 0 && l.counts.broken == 1);
    end(w, &b, TASK_COMPLETED);
    assert_state(w, &c, TASK_SCHEDULED);
}

static void a_repeated_settlement_arrives_nowhere(void **state) /* OP_SETTLE 1 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = some_task(w);
    struct settlement v;
    child_of(w, &c, DAG_ALL, AFTER(a), AFTER(b));
    struct op_settle op = end_of(w, &a, TASK_COMPLETED, &v);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v.stale);
    assert_int_equal(links(w, &c).counts.arrived, 1);
}

static void any_and_must_fail_decide_otherwise(void **state)
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), any = some_task(w), alarm = some_task(w);
    child_of(w, &any, DAG_ANY, AFTER(a), AFTER(b));
    child_of(w, &alarm, DAG_ALL, { a.id, DAG_MUST_FAIL });
    end(w, &a, TASK_COMPLETED);
    assert_state(w, &any, TASK_SCHEDULED);
    struct task read = get(w, alarm.id);
    assert_int_equal(read.state, TASK_SKIPPED);
    assert_false(read.links & TASK_BROKEN);
}

static void parents_must_be_one_time_tasks_of_the_tenant(void **state) /* 1 */
{
    struct world *w = *state;
    struct task a = parent(w), recurring = some_recurring(w), theirs = some_task(w), c = some_task(w);
    struct error e;
    theirs.tenant = OTHER_TENANT;
    insert(w, (struct task[]){ recurring, theirs }, 2);
    struct uuid wrong[] = { recurring.id, theirs.id, fresh_id(w) };
    for (size_t i = 0; i < array_count(wrong); i++) {
        struct dependency v[] = { AFTER(a), { wrong[i], DAG_MUST_SUCCEED } };
        assert_int_equal(insert_child(w, &c, DAG_ALL, v, 2, &e), ERR_INVALID);
        assert_string_equal(e.field, "depends_on[1]");
        assert_false(is_there(w, TENANT, c.id));
    }
    assert_false(get(w, a.id).links);
}

static void a_repeated_insert_adds_nothing(void **state) /* 1 */
{
    struct world *w = *state;
    struct task a = parent(w), c = some_task(w);
    child_of(w, &c, DAG_ALL, AFTER(a));
    end(w, &a, TASK_COMPLETED);
    struct dependency v[] = { { fresh_id(w), DAG_MUST_SUCCEED } };
    assert_int_equal(insert_child(w, &c, DAG_ALL, v, 1, NULL), ERR_OK);
    assert_state(w, &c, TASK_SCHEDULED);
    assert_int_equal(links(w, &c).expected, 1);
}

static void a_put_that_ends_a_task_arrives_too(void **state) /* 10; OP_PUT 14 */
{
    struct world *w = *state;
    struct task a = parent(w), c = some_task(w), d = some_task(w);
    child_of(w, &c, DAG_ALL, AFTER(a));
    child_of(w, &d, DAG_ALL, { a.id, DAG_MUST_FINISH });
    struct task now = get(w, a.id), next = now;
    next.state = TASK_CANCELLED;
    next.links = 0; /* the caller may have read it before it had children */
    next.completed_ms = next.updated_ms = NOW + 3;
    struct op_put put = put_of(&now, &next);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_true(put.ret_unblocked_lanes);
    assert_state(w, &c, TASK_SKIPPED);
    assert_state(w, &d, TASK_SCHEDULED);
    assert_int_equal(get(w, d.id).due_ms, NOW + 3);
    assert_int_equal(get(w, a.id).links, TASK_HAS_CHILDREN);
}

static struct op_put put_state(struct world *w, const struct task *t, enum task_state next, int links,
                               struct task rows[2])
{
    rows[0] = get(w, t->id);
    rows[1] = rows[0];
    rows[1].state = next;
    rows[1].links = links;
    rows[1].version++;
    rows[1].updated_ms = NOW + 20;
    struct op_put put = put_of(&rows[0], &rows[1]);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    return put;
}

static void a_paused_child_counts_on_and_waits_again(void **state) /* 6, 12 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = some_task(w), rows[2];
    child_of(w, &c, DAG_ALL, AFTER(a), AFTER(b));
    put_state(w, &c, TASK_PAUSED, TASK_HAS_PARENTS | TASK_WAITS, rows);
    assert_int_equal(get(w, c.id).links, TASK_HAS_PARENTS | TASK_WAITS);
    end(w, &a, TASK_COMPLETED);
    put_state(w, &c, TASK_SCHEDULED, TASK_HAS_PARENTS | TASK_WAITS, rows);
    assert_state(w, &c, TASK_BLOCKED);
    put_state(w, &c, TASK_PAUSED, TASK_HAS_PARENTS | TASK_WAITS, rows);
    end(w, &b, TASK_COMPLETED);
    assert_state(w, &c, TASK_PAUSED);
    assert_true(get(w, c.id).scheduled_ms == NOW + 10 && get(w, c.id).due_ms == NOW + 10);
    put_state(w, &c, TASK_BLOCKED, TASK_HAS_PARENTS | TASK_WAITS, rows); /* planned before the last arrival */
    assert_state(w, &c, TASK_SCHEDULED);
    assert_int_equal(get(w, c.id).due_ms, NOW + 20);
}

static void a_child_started_by_hand_ignores_its_parents(void **state) /* 8 */
{
    struct world *w = *state;
    struct task a = parent(w), c = some_task(w), rows[2];
    child_of(w, &c, DAG_ALL, AFTER(a));
    put_state(w, &c, TASK_SCHEDULED, TASK_HAS_PARENTS, rows);
    assert_state(w, &c, TASK_SCHEDULED);
    end(w, &a, TASK_FAILED);
    assert_int_equal(links(w, &c).counts.broken, 1);
    enum task_state now = get(w, c.id).state;
    assert_true(now == TASK_SCHEDULED || now == TASK_RUNNING);
}

static enum err change(struct world *w, const struct task *t, struct depends_change c, struct error *ret)
{
    struct task now = get(w, t->id), next = now;
    next.version++;
    next.updated_ms = NOW + 5;
    struct op_put put = put_of(&now, &next);
    put.depends = &c;
    enum err rc = world_apply(w, &put.op);
    if (ret)
        *ret = put.op.error;
    return rc;
}

static void edges_are_added_and_removed(void **state) /* 13 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = parent(w);
    struct error e;
    struct dependency both[] = { AFTER(a), AFTER(b) };
    assert_ok(change(w, &c, (struct depends_change){ .add = both, .n = 2 }, &e), &e);
    assert_state(w, &c, TASK_BLOCKED);
    assert_ok(change(w, &c, (struct depends_change){ .add = both, .n = 1 }, &e), &e); /* it is there already */
    assert_int_equal(links(w, &c).expected, 2);
    end(w, &a, TASK_COMPLETED);
    assert_ok(change(w, &c, (struct depends_change){ .remove = b.id }, &e), &e);
    assert_state(w, &c, TASK_SCHEDULED);
    assert_int_equal(links(w, &c).parent_count, 1);
    assert_int_equal(change(w, &c, (struct depends_change){ .remove = b.id }, &e), ERR_NOT_FOUND);
    assert_string_equal(e.field, "depends_on");
    end(w, &b, TASK_FAILED);
    assert_true(get(w, c.id).state != TASK_SKIPPED);
}

static void no_task_waits_for_itself(void **state) /* 14 */
{
    struct world *w = *state;
    struct task a = parent(w), b = some_task(w), c = some_task(w);
    struct error e;
    child_of(w, &b, DAG_ALL, AFTER(a));
    child_of(w, &c, DAG_ALL, AFTER(b));
    struct dependency on_c[] = { AFTER(c) }, on_itself[] = { AFTER(a) };
    assert_int_equal(change(w, &a, (struct depends_change){ .add = on_c, .n = 1 }, &e), ERR_CONFLICT);
    assert_string_equal(e.field, "depends_on");
    assert_int_equal(change(w, &a, (struct depends_change){ .add = on_itself, .n = 1 }, &e), ERR_CONFLICT);
    assert_state(w, &a, TASK_SCHEDULED);
    assert_int_equal(links(w, &a).parent_count, 0);
    assert_int_equal(get(w, c.id).links & TASK_HAS_CHILDREN, 0);
}

enum { MANY = 600 };

static size_t arrive_all(struct world *w)
{
    size_t rounds = 0;
    for (bool more = true; more; rounds++) {
        struct op_arrive op = { .op.kind = OP_ARRIVE, .now_ms = NOW + 30 };
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_true(op.ret_applied <= ARRIVALS_MAX);
        assert_true(op.ret_applied || !op.ret_more);
        more = op.ret_more;
        arena_reset(&w->arena);
    }
    return rounds;
}

static void many_children_are_told_in_several_transactions(void **state) /* 11, 15; OP_ARRIVE 1, 2 */
{
    struct world *w = *state;
    struct task a = parent(w), *v = xcalloc(MANY, sizeof *v);
    struct depends_on *d = xcalloc(MANY, sizeof *d);
    struct dependency edge = { a.id, DAG_MUST_FINISH };
    for (size_t i = 0; i < MANY; i++) {
        v[i] = some_task(w);
        d[i] = (struct depends_on){ .v = &edge, .n = 1 };
    }
    struct op_insert insert = insert_of(v, MANY);
    insert.depends = d;
    assert_ok(world_apply(w, &insert.op), &insert.op.error);
    struct op_settle op = end(w, &a, TASK_FAILED);
    assert_true(op.ret_arrivals_left);
    struct task failed = get(w, a.id), again = failed;
    again.state = TASK_SCHEDULED;
    again.completed_ms = 0;
    struct task completed = failed;
    completed.state = TASK_COMPLETED;
    struct op_put early = put_of(&failed, &again), put = early, complete = put_of(&failed, &completed);
    assert_int_equal(world_apply(w, &early.op), ERR_CONFLICT); /* 15 */
    assert_string_equal(early.op.error.field, "arrivals");
    assert_int_equal(world_apply(w, &complete.op), ERR_CONFLICT);
    assert_string_equal(complete.op.error.field, "arrivals");
    struct store_counts counts;
    assert_int_equal(reader_counts(w->reader, NOW, &counts, NULL), ERR_OK);
    assert_int_equal(counts.by_state[TASK_SCHEDULED], ARRIVALS_MAX + 2);
    assert_int_equal(arrive_all(w), 2);
    assert_int_equal(reader_counts(w->reader, NOW, &counts, NULL), ERR_OK);
    assert_int_equal(counts.by_state[TASK_SCHEDULED], MANY);
    assert_int_equal(counts.by_state[TASK_BLOCKED], 0);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    free(v);
    free(d);
}

static void a_long_chain_is_skipped_in_several_transactions(void **state) /* 11 */
{
    struct world *w = *state;
    struct task first = parent(w), last = first;
    for (size_t i = 0; i < MANY; i++) {
        struct task t = some_task(w);
        child_of(w, &t, DAG_ALL, AFTER(last));
        last = t;
        if (i % 100 == 0)
            for (size_t k = 0; k < w->arena_count; k++)
                arena_release(&w->arenas[k]);
        if (i % 100 == 0)
            w->arena_count = 0;
    }
    assert_true(end(w, &first, TASK_FAILED).ret_arrivals_left);
    assert_state(w, &last, TASK_BLOCKED);
    assert_int_equal(arrive_all(w), 2);
    assert_state(w, &last, TASK_SKIPPED);
}

static void a_join_of_many_starts_with_the_last(void **state)
{
    struct world *w = *state;
    struct task *v = xcalloc(MANY, sizeof *v), c = some_task(w);
    struct dependency *d = xcalloc(MANY, sizeof *d);
    struct settlement *s = xcalloc(MANY, sizeof *s);
    for (size_t i = 0; i < MANY; i++) {
        v[i] = some_task(w);
        d[i] = (struct dependency)AFTER(v[i]);
    }
    insert(w, v, MANY);
    assert_int_equal(insert_child(w, &c, DAG_ALL, d, MANY, NULL), ERR_OK);
    struct lane_quota lane = { some_lane(), MANY };
    struct op_claim claim = claim_of(w, &lane, 1);
    claim.max = MANY;
    assert_ok(world_apply(w, &claim.op), &claim.op.error);
    assert_int_equal(claim.ret.n, MANY);
    for (size_t i = 0; i < MANY; i++)
        s[i] = settlement_of(&claim.ret.v[i], TASK_COMPLETED);
    struct op_settle most = { .op.kind = OP_SETTLE, .v = s, .n = MANY - 1, .now_ms = NOW + 10 };
    assert_ok(world_apply(w, &most.op), &most.op.error);
    assert_false(most.ret_arrivals_left);
    assert_state(w, &c, TASK_BLOCKED);
    struct op_settle one = { .op.kind = OP_SETTLE, .v = s + MANY - 1, .n = 1, .now_ms = NOW + 10 };
    assert_ok(world_apply(w, &one.op), &one.op.error);
    assert_state(w, &c, TASK_SCHEDULED);
    free(v);
    free(d);
    free(s);
}

static void purged_parents_stay_in_the_graph_until_the_child_is_purged(void **state) /* 4 */
{
    struct world *w = *state;
    struct task a = parent(w), b = parent(w), c = some_task(w);
    child_of(w, &c, DAG_ALL, AFTER(a), AFTER(b));
    end(w, &a, TASK_COMPLETED);
    struct op_purge purge = { .op.kind = OP_PURGE, .now_ms = NOW + 1000, .tasks_before_ms = NOW + 500, .max = 100 };
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    assert_false(is_there(w, TENANT, a.id));
    struct task_links l = links(w, &c);
    assert_int_equal(l.parent_count, 2);
    bool first = uuid_eq(l.parents[0].id, a.id);
    assert_false(l.parents[first ? 0 : 1].exists);
    assert_int_equal(l.parents[first ? 0 : 1].edge, EDGE_MET);
    assert_true(l.parents[first ? 1 : 0].exists);
    end(w, &b, TASK_CANCELLED);
    assert_state(w, &c, TASK_SKIPPED);
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    assert_false(is_there(w, TENANT, c.id));
    assert_int_equal(links(w, &c).parent_count, 0);
    assert_int_equal(links(w, &a).child_count, 0);
}

static const struct CMUnitTest tests[] = {
    store_test(a_child_waits_until_its_parents_have_succeeded),
    store_test(a_child_is_not_due_before_its_own_time),
    store_test(parents_that_are_final_arrive_at_once),
    store_test(a_skip_names_its_parent_and_goes_on),
    store_test(an_edge_arrives_once),
    store_test(a_repeated_settlement_arrives_nowhere),
    store_test(any_and_must_fail_decide_otherwise),
    store_test(parents_must_be_one_time_tasks_of_the_tenant),
    store_test(a_repeated_insert_adds_nothing),
    store_test(a_put_that_ends_a_task_arrives_too),
    store_test(a_paused_child_counts_on_and_waits_again),
    store_test(a_child_started_by_hand_ignores_its_parents),
    store_test(edges_are_added_and_removed),
    store_test(no_task_waits_for_itself),
    store_test(many_children_are_told_in_several_transactions),
    store_test(a_long_chain_is_skipped_in_several_transactions),
    store_test(a_join_of_many_starts_with_the_last),
    store_test(purged_parents_stay_in_the_graph_until_the_child_is_purged),
};
const struct test_list join_tests = { tests, array_count(tests) };
