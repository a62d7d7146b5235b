/* Several nodes at the same moment take the same slots, spawn the same occurrences, or insert up to the same limit. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "postgres_sessions.h"

/* ---- many nodes and slots ---- */

enum {
    NODES = 3,
    HOT = 120, /* tasks of one key, limit 3 */
    COLD = 25, /* tasks of each of the other keys, limit 1 */
    KEYS = 4,  /* how many other keys */
    RUNS = 60, /* occurrences of one task, limit 1, which also need the hot key */
    CROWD = HOT + KEYS * COLD + RUNS,
    AT_ONCE = 16,
    HOT_LIMIT = 3,
    OVERLAP = KEYS + 1, /* index behind the hot key and the others */
};
static const char *const key_names[] = { "hot", "a", "b", "c", "d" };

struct crowd {
    atomic_int left;                 /* tasks that are not final yet */
    atomic_int running[OVERLAP + 1]; /* now running, for each key: never above its limit */
    atomic_int cancelled;
    atomic_bool stop;
    atomic_bool failed;
    char why[256]; /* the first failure */
};

struct node {
    struct crowd *crowd;
    struct store *store;
    struct uuid id;
    struct uuid_gen ids;
    struct prng random;
    struct task held[CROWD]; /* strings are constants */
    size_t held_count;
    bool has_waiting;
    struct task waiting; /* a task that was seen waiting */
    pthread_t thread;
};

static void give_up(struct crowd *c, const char *why)
{
    if (!atomic_exchange(&c->failed, true))
        snprintf(c->why, sizeof c->why, "%s", why);
    atomic_store(&c->stop, true);
}

static int key_of(const struct task *t)
{
    for (int i = 0; i <= KEYS; i++)
        if (str_eq(t->concurrency_key, str_from(key_names[i])))
            return i;
    return -1;
}

static void count_running(struct crowd *c, const struct task *t, int n)
{
    int key = key_of(t), limit = key == 0 ? HOT_LIMIT : 1;
    if (atomic_fetch_add(&c->running[key], n) + n > limit)
        give_up(c, "more of a key run than its limit");
    if (t->kind == TASK_OCCURRENCE && atomic_fetch_add(&c->running[OVERLAP], n) + n > 1)
        give_up(c, "two runs of a task overlap");
}

/* A copy of the task whose strings outlive the operation that returned it. */
static struct task keep(const struct task *t)
{
    struct task kept = *t;
    kept.concurrency_key = str_from(key_names[key_of(t)]);
    kept.queue = S("default");
    kept.name = S("report");
    kept.waits_for = (struct str){ 0 };
    kept.last_error = (struct str){ 0 };
    return kept;
}

/* Settles half of the held tasks, as completed or for a retry. */
static size_t settle_some(struct node *n, struct settlement *v)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < n->held_count; i++) {
        const struct task *t = &n->held[i];
        if (prng_below(&n->random, 2)) {
            n->held[kept++] = *t;
            continue;
        }
        bool again = t->attempts == 0 && prng_below(&n->random, 3) == 0;
        v[count] = settlement_of(t, again ? TASK_SCHEDULED : TASK_COMPLETED);
        v[count++].verdict.due_ms = t->due_ms;
        count_running(n->crowd, t, -1);
    }
    n->held_count = kept;
    return count;
}

static void see_settled(struct node *n, const struct settlement *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (v[i].stale)
            give_up(n->crowd, "a settlement is stale");
        if (v[i].verdict.next == TASK_COMPLETED)
            atomic_fetch_sub(&n->crowd->left, 1);
    }
}

static void see_claimed(struct node *n, const struct op_claim *op)
{
    for (size_t i = 0; i < op->ret.n; i++) {
        n->held[n->held_count++] = keep(&op->ret.v[i]);
        count_running(n->crowd, &op->ret.v[i], 1);
    }
    for (size_t i = 0; i < op->ret_gated.n; i++)
        if (op->ret_gated.v[i].state == TASK_BLOCKED && prng_below(&n->random, 8) == 0) {
            n->waiting = keep(&op->ret_gated.v[i]);
            n->has_waiting = true;
        }
}

static bool apply(struct node *n, struct op **ops, size_t count)
{
    struct error e = { 0 };
    for (size_t i = 0; i < count; i++)
        arena_init(&ops[i]->arena, 1 << 26);
    enum err rc = store_apply(n->store, ops, count, &e);
    for (size_t i = 0; !rc && i < count; i++) {
        bool refused = ops[i]->kind == OP_PUT && ops[i]->rc == ERR_CONFLICT;
        rc = refused ? ERR_OK : ops[i]->rc;
        e = ops[i]->error;
    }
    if (rc)
        give_up(n->crowd, e.text);
    return rc == ERR_OK;
}

/* One transaction: a settle, a claim, and sometimes a user who cancels a waiting task. */
static void take_a_turn(struct node *n)
{
    struct settlement v[CROWD];
    struct lane_quota lane = { .lane = some_lane(), .max = AT_ONCE };
    lane.lane.late = true; /* all have keys */
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = v, .n = settle_some(n, v), .now_ms = NOW + 10 };
    struct op_claim claim = { .op.kind = OP_CLAIM,
                              .claim = uuid_next(&n->ids, NOW),
                              .node = n->id,
                              .lanes = &lane,
                              .lane_count = 1,
                              .now_ms = NOW,
                              .until_ms = NOW,
                              .max = AT_ONCE,
                              .max_bytes = 1 << 20 };
    struct task after = n->waiting;
    after.state = TASK_CANCELLED;
    after.completed_ms = NOW + 10;
    struct op_put put = put_of(&n->waiting, &after);
    struct op *ops[] = { &settle.op, &claim.op, &put.op };
    if (prng_below(&n->random, 2)) {
        ops[0] = &claim.op;
        ops[1] = &settle.op;
    }
    bool cancels = n->has_waiting;
    n->has_waiting = false;
    if (apply(n, ops, cancels ? 3 : 2)) {
        see_settled(n, v, settle.n);
        see_claimed(n, &claim);
        if (cancels && put.op.rc == ERR_OK) {
            atomic_fetch_sub(&n->crowd->left, 1);
            atomic_fetch_add(&n->crowd->cancelled, 1);
        }
    }
    arena_release(&settle.op.arena);
    arena_release(&claim.op.arena);
    arena_release(&put.op.arena);
}

static void *run_node(void *context)
{
    struct node *n = context;
    while (atomic_load(&n->crowd->left) > 0 && !atomic_load(&n->crowd->stop))
        take_a_turn(n);
    return NULL;
}

/* True at each moment: no key has too many holders, each RUNNING task holds its slots, and no line's first task could
 * have its slot. */
#define LIMIT_OF(key) "CASE WHEN " key " = 'c:1:hot' THEN 3 ELSE 1 END"
static const char wrong_now[] =
    "SELECT (SELECT count(*) FROM (SELECT key, count(*) AS n FROM slots GROUP BY key) AS s WHERE n > " LIMIT_OF(
        "key") ") "
               "+ (SELECT count(*) FROM tasks AS t WHERE state = 3 AND (SELECT count(*) FROM slots WHERE task_id = t.id) < "
               "CASE kind WHEN 2 THEN 2 ELSE 1 END) "
               "+ (SELECT count(*) FROM (SELECT DISTINCT waits_for AS key FROM tasks WHERE waits_for IS NOT NULL) AS w "
               "WHERE (SELECT count(*) FROM slots AS s WHERE s.key = w.key) < " LIMIT_OF("w.key") ")";

static void watch_crowd(struct crowd *c)
{
    for (int i = 0; atomic_load(&c->left) > 0 && !atomic_load(&c->stop); i++) {
        if (postgres_number(url, wrong_now) > 0)
            give_up(c, "the tables say what cannot be");
        if (i == 6000)
            give_up(c, "some wait for ever");
        pause_ms(10);
    }
}

static void insert_crowd(struct world *w)
{
    struct task parent = some_recurring(w), *v = xcalloc(CROWD, sizeof *v);
    parent.overlap = OVERLAP_QUEUE_ALL;
    insert(w, &parent, 1);
    for (int i = 0; i < CROWD; i++) {
        int64_t due_ms = NOW - CROWD + i * 7919 % CROWD;
        bool runs = i >= HOT + KEYS * COLD;
        int key = runs || i < HOT ? 0 : 1 + (i - HOT) % KEYS;
        v[i] = runs ? some_occurrence(w, &parent, due_ms) : some_task(w);
        v[i].overlap = runs ? OVERLAP_QUEUE_ALL : OVERLAP_ALLOW;
        v[i].concurrency_key = str_from(key_names[key]);
        v[i].concurrency_limit = key == 0 ? HOT_LIMIT : 1;
        v[i].due_ms = v[i].scheduled_ms = due_ms;
    }
    insert(w, v, CROWD);
    free(v);
}

static void a_limit_holds_however_many_nodes_claim_at_once(void **state)
{
    struct world *w = *state;
    struct crowd c = { .left = CROWD };
    struct node *nodes = xcalloc(NODES, sizeof *nodes);
    insert_crowd(w);
    for (int i = 0; i < NODES; i++) {
        nodes[i].crowd = &c;
        nodes[i].store = i ? another_node() : w->store;
        nodes[i].id = fresh_id(w);
        uuid_gen_init(&nodes[i].ids, (uint64_t)i + 100);
        prng_init(&nodes[i].random, (uint64_t)i);
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, run_node, &nodes[i]), 0);
    }
    watch_crowd(&c);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(nodes[i].thread, NULL), 0);
        if (i)
            store_free(nodes[i].store);
    }
    free(nodes);
    if (c.failed)
        fail_msg("%s (%d left)", c.why, c.left);
    assert_true(c.cancelled > 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM slots"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE state < 4 AND kind <> 1"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 0);
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts WHERE state = 4"),
                     postgres_number(url, "SELECT count(*) FROM tasks WHERE state = 4"));
    assert_int_equal(postgres_number(url, "SELECT sum(abs(n)) FROM (SELECT sum(n) AS n FROM counts "
                                          "WHERE state IN (1, 2, 3) GROUP BY state) AS x"),
                     0);
}

/* ---- one slot ---- */

static struct task keyed(struct world *w, int64_t due_ms)
{
    struct task t = some_task(w);
    t.concurrency_key = S("hot");
    t.concurrency_limit = 1;
    t.due_ms = t.scheduled_ms = due_ms;
    return t;
}

static void lock_row(PGconn *other, struct uuid id)
{
    char sql[256], text[UUID_TEXT + 1];
    uuid_format(id, text);
    snprintf(sql, sizeof sql, "BEGIN; SELECT FROM tasks WHERE id = '%s' FOR UPDATE", text);
    postgres_say(other, sql);
}

/* A node settles the holder and is delayed in its transaction: until it ends, it has the slot's lock. */
static void a_slot_that_another_node_is_seeing_to_is_left_for_the_next_claim(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), first = some_occurrence(w, &parent, NOW - 2), second = keyed(w, NOW - 1);
    insert(w, &parent, 1);
    first.concurrency_key = S("hot");
    first.concurrency_limit = 1;
    struct task held = claim_one(w, &first, fresh_id(w));
    insert(w, &second, 1);
    struct settlement v = settlement_of(&held, TASK_COMPLETED);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &held);
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW };

    PGconn *other = postgres_session(url);
    lock_row(other, parent.id);
    struct call call;
    start(&call, w->store, &settle.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    struct store *node = another_node();
    struct lane_quota lane = { .lane = task_lane(&second), .max = 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    struct op *ops[] = { &op.op };
    struct error e = { 0 };
    arena_init(&op.op.arena, 1 << 20);
    assert_ok(store_apply(node, ops, 1, &e), &e);
    assert_ok(op.op.rc, &op.op.error);
    assert_int_equal(op.ret.n + op.ret_gated.n, 0);
    assert_true(op.ret_conflicts > 0);
    assert_in_range(lane.ret_next_due_ms, NOW + 1, NOW + 100);
    arena_release(&op.op.arena);
    store_free(node);
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_OK);
    arena_release(&settle.op.arena);
    op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &second.id);
}

/* ---- spawning and edits ---- */

static void of_two_nodes_that_spawn_the_same_occurrences_one_does(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), made[2];
    insert(w, &parent, 1);
    for (int i = 0; i < 2; i++)
        made[i] = some_occurrence(w, &parent, parent.cursor_ms + i * 1000);
    struct spawn_plan plan = { .occurrences = { made, 2 }, .cursor_ms = parent.cursor_ms + 2000, .runs = 2 };
    struct op_spawn ops[2];
    struct call calls[2];
    struct store *nodes[] = { w->store, another_node() };
    PGconn *other = postgres_session(url);
    lock_row(other, parent.id);
    for (int i = 0; i < 2; i++) {
        ops[i] = (struct op_spawn){ .op.kind = OP_SPAWN,
                                    .id = parent.id,
                                    .version = parent.version,
                                    .cursor_ms = parent.cursor_ms,
                                    .plan = &plan,
                                    .now_ms = NOW };
        start(&calls[i], nodes[i], &ops[i].op);
    }
    postgres_wait_for(url, "2 = (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                           "wait_event_type = 'Lock')");
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
    enum err first = finish(&calls[0]), second = finish(&calls[1]);
    assert_int_equal((first == ERR_OK) + (second == ERR_OK), 1);
    assert_int_equal((first == ERR_CONFLICT) + (second == ERR_CONFLICT), 1);
    struct task now = get(w, parent.id);
    assert_int_equal(now.runs_count, 2);
    assert_int_equal(now.cursor_ms, plan.cursor_ms);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE kind = 2"), 2);
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts"), 3);
    arena_release(&ops[0].op.arena);
    arena_release(&ops[1].op.arena);
    store_free(nodes[1]);
}

/* They run as one batch. */
static void spawns_of_one_transaction_are_judged_each_by_itself(void **state)
{
    struct world *w = *state;
    struct task parents[3], made[4];
    for (int i = 0; i < 3; i++)
        parents[i] = some_recurring(w);
    insert(w, parents, 3);
    static const int of[] = { 0, 1, 0, 2 }; /* the first task twice, the second time from its new cursor */
    struct spawn_plan plans[4];
    struct op_spawn spawns[4];
    struct op *ops[4];
    for (int i = 0; i < 4; i++) {
        const struct task *parent = &parents[of[i]];
        int64_t at_ms = parent->cursor_ms + (i == 2 ? 1000 : 0);
        made[i] = some_occurrence(w, parent, at_ms);
        plans[i] = (struct spawn_plan){ { &made[i], 1 }, .cursor_ms = at_ms + 1000, .runs = 1, .ended = i == 3 };
        spawns[i] = (struct op_spawn){ .op.kind = OP_SPAWN,
                                       .id = parent->id,
                                       .version = parent->version + (i == 1),
                                       .cursor_ms = at_ms,
                                       .plan = &plans[i],
                                       .now_ms = NOW };
        ops[i] = &spawns[i].op;
    }
    world_apply_all(w, ops, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(spawns[i].op.rc, i == 1 ? ERR_CONFLICT : ERR_OK);
        assert_int_equal(is_there(w, TENANT, made[i].id), i != 1);
    }
    assert_int_equal(get(w, parents[0].id).runs_count, 2);
    assert_int_equal(get(w, parents[1].id).runs_count, 0);
    assert_int_equal(get(w, parents[2].id).state, TASK_COMPLETED);
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts WHERE state = 0"), 5);
    assert_int_equal(postgres_number(url, "SELECT sum(n) FROM counts WHERE state = 4"), 1);
}

static void what_another_node_is_claiming_is_not_withdrawn(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), next = parent, made[2];
    for (int i = 0; i < 2; i++)
        made[i] = some_occurrence(w, &parent, NOW + i * 1000);
    parent.runs_count = next.runs_count = 2;
    insert(w, &parent, 1);
    insert(w, made, 2);
    char sql[256], text[UUID_TEXT + 1];
    uuid_format(made[0].id, text);
    PGconn *other = postgres_session(url);
    snprintf(sql, sizeof sql, "BEGIN; UPDATE tasks SET state = 3, fence = 1 WHERE id = '%s'", text);
    postgres_say(other, sql);
    next.version++;
    struct op_put put = put_of(&parent, &next);
    put.withdraw = true;
    put.withdraw_from_ms = NOW;
    struct call call;
    start(&call, w->store, &put.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_OK);
    arena_release(&put.op.arena);
    assert_int_equal(put.ret_withdrawn, 1);
    assert_true(is_there(w, TENANT, made[0].id));
    assert_false(is_there(w, TENANT, made[1].id));
    assert_int_equal(get(w, parent.id).runs_count, 1);
}

/* ---- limits ---- */

enum { LIMIT = 20, TRIES = 15 };

struct creator {
    struct store *store;
    struct task tasks[TRIES];
    int64_t max_pending, max_recurring;
    int created, refused;
    pthread_t thread;
};

static void *create_all(void *context)
{
    struct creator *c = context;
    for (int i = 0; i < TRIES; i++) {
        struct op_insert op = insert_of(&c->tasks[i], 1);
        struct op *ops[] = { &op.op };
        struct error e;
        op.max_pending = c->max_pending;
        op.max_recurring = c->max_recurring;
        arena_init(&op.op.arena, 1 << 20);
        if (store_apply(c->store, ops, 1, &e) == ERR_OK) {
            c->created += op.op.rc == ERR_OK;
            c->refused += op.op.rc == ERR_LIMIT;
        }
        arena_release(&op.op.arena);
    }
    return NULL;
}

static void create_at_once(struct world *w, bool recurring)
{
    struct creator *v = xcalloc(NODES, sizeof *v);
    int created = 0, refused = 0;
    for (int i = 0; i < NODES; i++) {
        v[i].store = i ? another_node() : w->store;
        v[i].max_pending = recurring ? 0 : LIMIT;
        v[i].max_recurring = recurring ? LIMIT : 0;
        for (int j = 0; j < TRIES; j++)
            v[i].tasks[j] = recurring ? some_recurring(w) : some_task(w);
    }
    for (int i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&v[i].thread, NULL, create_all, &v[i]), 0);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(v[i].thread, NULL), 0);
        created += v[i].created;
        refused += v[i].refused;
        if (i)
            store_free(v[i].store);
    }
    free(v);
    assert_int_equal(created, LIMIT);
    assert_int_equal(refused, NODES * TRIES - LIMIT);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks"), LIMIT);
}

static void no_tenant_has_more_pending_tasks_than_it_may_however_many_nodes_create(void **state)
{
    create_at_once(*state, false);
}

static void no_tenant_has_more_recurring_tasks_than_it_may_however_many_nodes_create(void **state)
{
    create_at_once(*state, true);
}

/* ---- calendars ---- */

static void a_calendar_is_not_removed_while_another_node_makes_a_task_go_by_it(void **state)
{
    struct world *w = *state;
    struct store *node = another_node();
    for (int i = 0; i < 20; i++) {
        add_calendar(w, S("holidays"));
        struct task t = some_recurring(w);
        t.schedule.calendar = S("holidays");
        struct op_insert insert = insert_of(&t, 1);
        struct catalog_change c = { .entry = { .tenant = TENANT, .kind = CATALOG_CALENDAR, .name = S("holidays") },
                                    .version = -1,
                                    .remove = true };
        struct op_catalog removal = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = NOW };
        struct call calls[2];
        start(&calls[0], w->store, &insert.op);
        start(&calls[1], node, &removal.op);
        enum err inserted = finish(&calls[0]), removed = finish(&calls[1]);
        assert_true((inserted == ERR_OK && removed == ERR_CONFLICT) || (inserted == ERR_INVALID && removed == ERR_OK));
        arena_release(&insert.op.arena);
        arena_release(&removal.op.arena);
        postgres_run(url, "DELETE FROM tasks");
    }
    store_free(node);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(a_limit_holds_however_many_nodes_claim_at_once),
        store_test(a_slot_that_another_node_is_seeing_to_is_left_for_the_next_claim),
        store_test(of_two_nodes_that_spawn_the_same_occurrences_one_does),
        store_test(spawns_of_one_transaction_are_judged_each_by_itself),
        store_test(what_another_node_is_claiming_is_not_withdrawn),
        store_test(no_tenant_has_more_pending_tasks_than_it_may_however_many_nodes_create),
        store_test(no_tenant_has_more_recurring_tasks_than_it_may_however_many_nodes_create),
        store_test(a_calendar_is_not_removed_while_another_node_makes_a_task_go_by_it),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (url[0])
        postgres_drop(url);
    return failed;
}
