/* Several nodes end the parents of the same children at the same moment, or create children of a task that ends. */
#include <stdatomic.h>
#include <stdlib.h>

#include <libpq-fe.h>

#include "postgres_sessions.h"

enum { NODES = 3, PARENTS = 999, EACH = PARENTS / NODES, BATCH = 9, RACES = 60 };
enum { JOINS = 1000, JOINS_LONG = 10000, PAGE = 250 }; /* in ./test, and in ./test long */

static enum err insert_child(struct world *w, const struct task *t, enum dag_join join, const struct dependency *v,
                             size_t n)
{
    struct depends_on d = { .join = join, .v = v, .n = n };
    struct op_insert op = insert_of(t, 1);
    op.depends = &d;
    return world_apply(w, &op.op);
}

struct ender {
    struct store *store;
    struct settlement *v;
    size_t n, batch;
    atomic_int *released; /* operations that say that a child was released */
    enum err rc;
    struct error e;
    pthread_t thread;
};

static bool ender_apply(struct ender *n, struct op *op)
{
    arena_init(&op->arena, 1 << 20);
    n->rc = store_apply(n->store, &op, 1, &n->e);
    if (!n->rc && op->rc) {
        n->rc = op->rc;
        n->e = op->error;
    }
    arena_release(&op->arena);
    return n->rc == ERR_OK;
}

/* Settles its parents, a few at a time, and applies what is left each time, as a node does. */
static void *run_ender(void *context)
{
    struct ender *n = context;
    for (size_t i = 0; i < n->n; i += n->batch) {
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = n->v + i, .n = n->batch, .now_ms = NOW + 10 };
        if (!ender_apply(n, &settle.op))
            return NULL;
        atomic_fetch_add(n->released, settle.ret_unblocked_lanes != 0);
        for (bool more = settle.ret_arrivals_left; more;) {
            struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW + 20 };
            if (!ender_apply(n, &arrive.op))
                return NULL;
            atomic_fetch_add(n->released, arrive.ret_unblocked_lanes != 0);
            more = arrive.ret_more;
        }
    }
    return NULL;
}

/* Inserts the parents and a child of all, and claims the parents. */
static struct uuid begin_join(struct world *w, struct settlement *ret)
{
    struct task *v = xcalloc(PARENTS, sizeof *v), child = some_task(w);
    struct dependency *d = xcalloc(PARENTS, sizeof *d);
    for (size_t i = 0; i < PARENTS; i++) {
        v[i] = some_task(w);
        d[i] = (struct dependency){ v[i].id, DAG_MUST_SUCCEED };
    }
    insert(w, v, PARENTS);
    assert_int_equal(insert_child(w, &child, DAG_ALL, d, PARENTS), ERR_OK);
    struct lane_quota lane = { some_lane(), PARENTS };
    struct op_claim claim = claim_of(w, &lane, 1);
    claim.max = PARENTS;
    assert_ok(world_apply(w, &claim.op), &claim.op.error);
    assert_int_equal(claim.ret.n, PARENTS);
    for (size_t i = 0; i < PARENTS; i++) /* each node has parents from all over */
        ret[i % NODES * EACH + i / NODES] = settlement_of(&claim.ret.v[i], TASK_COMPLETED);
    free(v);
    free(d);
    return child.id;
}

static void a_join_is_released_once_however_many_nodes_end_its_parents(void **state)
{
    struct world *w = *state;
    struct settlement *v = xcalloc(PARENTS, sizeof *v);
    struct ender nodes[NODES] = { 0 };
    atomic_int released = 0;
    struct uuid child = begin_join(w, v);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (struct ender){
            .store = i ? another_node() : w->store, .v = v + i * EACH, .n = EACH, .batch = BATCH, .released = &released
        };
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, run_ender, &nodes[i]), 0);
    }
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(nodes[i].thread, NULL), 0);
        assert_ok(nodes[i].rc, &nodes[i].e);
        if (i)
            store_free(nodes[i].store);
    }
    assert_int_equal(get(w, child).state, TASK_SCHEDULED);
    assert_int_equal(atomic_load(&released), 1);
    assert_int_equal(postgres_number(url, "SELECT arrived FROM joins"), PARENTS);
    assert_int_equal(postgres_number(url, "SELECT met FROM joins"), PARENTS);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM edges WHERE state <> 1"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM arrivals"), 0);
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts WHERE state = 1"), 0);
    free(v);
}

/* PAGE children of two parents each. Node k is to end parent k of every child, in the same order as the other. */
static void begin_pairs(struct world *w, struct settlement *ret_first, struct settlement *ret_second)
{
    static struct task parents[2 * PAGE], children[PAGE];
    static struct dependency d[2 * PAGE];
    static struct depends_on depends[PAGE];
    for (size_t i = 0; i < 2 * PAGE; i++) {
        parents[i] = some_task(w);
        d[i] = (struct dependency){ parents[i].id, DAG_MUST_SUCCEED };
    }
    for (size_t i = 0; i < PAGE; i++) {
        children[i] = some_task(w);
        depends[i] = (struct depends_on){ .v = &d[2 * i], .n = 2 };
    }
    insert(w, parents, 2 * PAGE);
    struct op_insert op = insert_of(children, PAGE);
    op.depends = depends;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct lane_quota lane = { some_lane(), 2 * PAGE };
    struct op_claim claim = claim_of(w, &lane, 1);
    claim.max = 2 * PAGE;
    assert_ok(world_apply(w, &claim.op), &claim.op.error);
    assert_int_equal(claim.ret.n, 2 * PAGE);
    for (size_t i = 0; i < 2 * PAGE; i++) {
        assert_true(uuid_eq(claim.ret.v[i].id, parents[i].id)); /* their ids are in order */
        (i % 2 ? ret_second : ret_first)[i / 2] = settlement_of(&claim.ret.v[i], TASK_COMPLETED);
    }
}

static void two_nodes_race_to_thousands_of_joins(void **state)
{
    struct world *w = *state;
    size_t joins = getenv("BELFRY_TEST_LONG") ? JOINS_LONG : JOINS;
    struct settlement *v = xcalloc(2 * joins, sizeof *v);
    struct ender nodes[2] = { 0 };
    atomic_int ignored = 0;
    for (size_t i = 0; i < joins; i += PAGE)
        begin_pairs(w, v + i, v + joins + i);
    for (size_t i = 0; i < 2; i++) {
        nodes[i] = (struct ender){
            .store = i ? another_node() : w->store, .v = v + i * joins, .n = joins, .batch = 1, .released = &ignored
        };
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, run_ender, &nodes[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(nodes[i].thread, NULL), 0);
        assert_ok(nodes[i].rc, &nodes[i].e);
    }
    store_free(nodes[1].store);
    free(v);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM joins WHERE arrived = 2 AND met = 2"), joins);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM arrivals"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE state = 0"), joins);
    /* A child that is released twice is counted twice. */
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts WHERE state = 0"), joins);
}

/* Either the settle sees the new edge, or the new child sees a parent that is final. */
static void no_child_of_a_task_that_ends_is_forgotten(void **state)
{
    struct world *w = *state;
    struct store *node = another_node();
    for (int i = 0; i < RACES; i++) {
        struct task parent = some_task(w), child = some_task(w);
        struct task claimed = claim_one(w, &parent, fresh_id(w));
        struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW + 10 };
        struct dependency d = { parent.id, DAG_MUST_SUCCEED };
        struct depends_on depends = { .v = &d, .n = 1 };
        struct op_insert insert = insert_of(&child, 1);
        struct call calls[2];
        insert.depends = &depends;
        start(&calls[i % 2], w->store, &settle.op);
        start(&calls[1 - i % 2], node, &insert.op);
        assert_int_equal(finish(&calls[0]), ERR_OK);
        assert_int_equal(finish(&calls[1]), ERR_OK);
        arena_release(&settle.op.arena);
        arena_release(&insert.op.arena);
        for (bool more = true; more;) {
            struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW + 20 };
            assert_ok(world_apply(w, &arrive.op), &arrive.op.error);
            more = arrive.ret_more;
        }
        assert_int_equal(get(w, child.id).state, TASK_SCHEDULED);
        postgres_run(url, "DELETE FROM tasks");
    }
    store_free(node);
}

/* A child that another transaction has locked is not waited for. */
static void a_locked_child_is_told_later(void **state)
{
    struct world *w = *state;
    struct task parent = some_task(w), child = some_task(w);
    insert(w, &parent, 1);
    struct dependency d = { parent.id, DAG_MUST_SUCCEED };
    assert_int_equal(insert_child(w, &child, DAG_ALL, &d, 1), ERR_OK);
    struct task now = get(w, parent.id), next = now;
    next.state = TASK_COMPLETED;
    next.completed_ms = next.updated_ms = NOW + 1;
    struct op_put put = put_of(&now, &next);
    PGconn *other = PQconnectdb(url);
    char text[UUID_TEXT + 1], sql[128];
    uuid_format(child.id, text);
    snprintf(sql, sizeof sql, "BEGIN; SELECT FROM tasks WHERE id = '%s' FOR UPDATE", text);
    PQclear(PQexec(other, sql));
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_true(put.ret_arrivals_left);
    struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW + 2 };
    assert_ok(world_apply(w, &arrive.op), &arrive.op.error);
    assert_true(arrive.ret_more && arrive.ret_applied == 0);
    assert_int_equal(get(w, child.id).state, TASK_BLOCKED);
    PQfinish(other);
    struct op_arrive again = { .op.kind = OP_ARRIVE, .now_ms = NOW + 3 };
    for (int i = 0; i < 200 && !again.ret_applied; i++) { /* until the server has noticed that the session is gone */
        pause_ms(5);
        assert_ok(world_apply(w, &again.op), &again.op.error);
    }
    assert_true(again.ret_unblocked_lanes && !again.ret_more);
    assert_int_equal(get(w, child.id).state, TASK_SCHEDULED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(a_join_is_released_once_however_many_nodes_end_its_parents),
        store_test(two_nodes_race_to_thousands_of_joins),
        store_test(no_child_of_a_task_that_ends_is_forgotten),
        store_test(a_locked_child_is_told_later),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (url[0])
        postgres_drop(url);
    return failed;
}
