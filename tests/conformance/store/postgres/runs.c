/* Several nodes open, settle, stop and signal the same run at the same moment. */
#include <stdatomic.h>
#include <stdlib.h>

#include "postgres_sessions.h"

enum { ITEMS = 2000, BATCH = 10, PAGES = ITEMS / OPEN_ROWS_MAX, STEPS = 400, RACES = 60 };

struct run_node {
    struct store *store;
    enum err rc;
    struct error e;
    pthread_t thread;
    struct settlement *v;
    size_t n;
    struct task run;
    struct open_row *rows;
    atomic_int *released; /* operations that say that the run goes on */
    struct uuid_gen ids;
};

static bool run_node_apply(struct run_node *n, struct op *op)
{
    arena_init(&op->arena, 1 << 26);
    n->rc = store_apply(n->store, &op, 1, &n->e);
    if (!n->rc && op->rc) {
        n->rc = op->rc;
        n->e = op->error;
    }
    return n->rc == ERR_OK;
}

static bool run_node_do(struct run_node *n, struct op *op)
{
    bool done = run_node_apply(n, op);
    arena_release(&op->arena);
    return done;
}

/* Applies what is left, as a node does. */
static bool run_node_arrive(struct run_node *n)
{
    for (bool more = true; more;) {
        struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW + 20 };
        if (!run_node_do(n, &arrive.op))
            return false;
        atomic_fetch_add(n->released, arrive.ret_unblocked_lanes != 0);
        more = arrive.ret_more;
    }
    return true;
}

static bool run_node_settle(struct run_node *n, struct settlement *v, size_t count)
{
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = v, .n = count, .now_ms = NOW + 10 };
    if (!run_node_do(n, &settle.op))
        return false;
    atomic_fetch_add(n->released, settle.ret_unblocked_lanes != 0);
    return !settle.ret_arrivals_left || run_node_arrive(n);
}

static void *run_settles(void *context)
{
    struct run_node *n = context;
    for (size_t i = 0; i < n->n; i += BATCH)
        if (!run_node_settle(n, n->v + i, min_of(n->n - i, (size_t)BATCH)))
            break;
    return NULL;
}

static void run_node_start(struct run_node *n, void *(*fn)(void *))
{
    assert_int_equal(pthread_create(&n->thread, NULL, fn, n), 0);
}

static void run_node_join(struct run_node *n)
{
    assert_int_equal(pthread_join(n->thread, NULL), 0);
    assert_ok(n->rc, &n->e);
}

/* ---- runs ---- */

static struct task claimed_run(struct world *w)
{
    struct task run = some_task(w);
    run.target = TARGET_WORKFLOW;
    run.links = TASK_KEEPS_OUTPUT;
    return claim_one(w, &run, fresh_id(w));
}

static struct open_row *items_of(struct world *w, const struct task *run, size_t n)
{
    struct open_row *rows = xcalloc(n, sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        struct task t = some_task(w);
        t.name = t.dedupe_key = (struct str){ 0 };
        t.run = run->id;
        t.place = place_of_item(0, (int64_t)i);
        t.id = place_id(run->id, t.place);
        rows[i] = (struct open_row){ .task = t, .ends = true };
    }
    return rows;
}

static struct run_row run_row_of(const struct task *run)
{
    return (struct run_row){ .run = run->id, .tenant = run->tenant, .root = run->id, .version = 1, .opened_ms = NOW };
}

static struct op_open page_of(const struct task *run, const struct run_row *begin, const struct open_row *rows,
                              size_t page)
{
    return (struct op_open){ .op.kind = OP_OPEN,
                             .tenant = run->tenant,
                             .id = run->id,
                             .fence = run->fence,
                             .run = run->id,
                             .root = run->id,
                             .begin = page == 0 ? begin : NULL,
                             .first = page == 0,
                             .last = page == PAGES - 1,
                             .expected = ITEMS,
                             .max_broken = -1,
                             .end_type = DAG_MUST_FINISH,
                             .rows = rows + page * OPEN_ROWS_MAX,
                             .n = OPEN_ROWS_MAX,
                             .now_ms = NOW + 1 };
}

static void *run_pages(void *context)
{
    struct run_node *n = context;
    struct run_row begin = run_row_of(&n->run);
    for (size_t page = 0; page < PAGES; page++) {
        struct op_open open = page_of(&n->run, &begin, n->rows, page);
        if (!run_node_do(n, &open.op))
            break;
    }
    return NULL;
}

static void claim_items(struct world *w, struct settlement *ret, size_t n)
{
    struct lane_quota lane = { some_lane(), n };
    struct op_claim claim = claim_of(w, &lane, 1);
    claim.max = n;
    assert_ok(world_apply(w, &claim.op), &claim.op.error);
    assert_int_equal(claim.ret.n, n);
    for (size_t i = 0; i < n; i++) /* each node has items from all over */
        ret[i % 2 * (n / 2) + i / 2] = settlement_of(&claim.ret.v[i], TASK_COMPLETED);
}

static void assert_run_goes_on(struct world *w, struct uuid run)
{
    struct task t = get(w, run);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_false(t.links & (TASK_OPEN | TASK_WAITS));
    assert_true(t.links & TASK_OPENED);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM arrivals"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM edges WHERE state = 0"), 0);
    assert_int_equal(postgres_number(url,
                                     "SELECT count(*) FROM (SELECT state, sum(n) AS n FROM counts GROUP BY 1) AS c "
                                     "WHERE n <> (SELECT count(*) FROM tasks WHERE tasks.state = c.state)"),
                     0);
}

/* ---- tests ---- */

static void a_map_goes_on_once_however_its_items_end(void **state)
{
    struct world *w = *state;
    struct settlement *v = xcalloc(ITEMS, sizeof *v);
    atomic_int released = 0;
    struct run_node pages = { .store = w->store, .run = claimed_run(w), .released = &(atomic_int){ 0 } };
    pages.rows = items_of(w, &pages.run, ITEMS);
    run_pages(&pages);
    assert_ok(pages.rc, &pages.e);
    claim_items(w, v, ITEMS);
    struct run_node nodes[2] = { { .store = w->store }, { .store = another_node() } };
    for (size_t i = 0; i < 2; i++) {
        nodes[i].v = v + i * (ITEMS / 2);
        nodes[i].n = ITEMS / 2;
        nodes[i].released = &released;
        run_node_start(&nodes[i], run_settles);
    }
    for (size_t i = 0; i < 2; i++)
        run_node_join(&nodes[i]);
    assert_run_goes_on(w, pages.run.id);
    assert_int_equal(atomic_load(&released), 1);
    assert_int_equal(postgres_number(url, "SELECT arrived FROM joins"), ITEMS);
    assert_int_equal(postgres_number(url, "SELECT tasks FROM runs"), ITEMS);
    store_free(nodes[1].store);
    free(pages.rows);
    free(v);
}

static bool settle_claimed(struct run_node *n, const struct tasks *t)
{
    struct settlement *v = xcalloc(t->n + 1, sizeof *v);
    for (size_t i = 0; i < t->n; i++)
        v[i] = settlement_of(&t->v[i], TASK_COMPLETED);
    bool done = t->n == 0 || run_node_settle(n, v, t->n);
    free(v);
    return done;
}

/* Claims items as they come and settles them, until all are done. */
static void *run_claims(void *context)
{
    struct run_node *n = context;
    struct world ids = { .ids = n->ids };
    for (size_t done = 0; done < ITEMS && !n->rc;) {
        struct lane_quota lane = { some_lane(), BATCH };
        struct op_claim claim = claim_of(&ids, &lane, 1);
        claim.max = BATCH;
        if (run_node_apply(n, &claim.op) && settle_claimed(n, &claim.ret))
            done += claim.ret.n;
        arena_release(&claim.op.arena);
    }
    (void)(n->rc || run_node_arrive(n));
    return NULL;
}

static void items_may_end_while_others_are_opened(void **state)
{
    struct world *w = *state;
    atomic_int released = 0;
    struct run_node pages = { .store = w->store, .run = claimed_run(w), .released = &released };
    struct run_node claims = { .store = another_node(), .released = &released, .ids = w->ids };
    pages.rows = items_of(w, &pages.run, ITEMS);
    claims.ids = w->ids;
    run_node_start(&claims, run_claims);
    run_node_start(&pages, run_pages);
    run_node_join(&pages);
    run_node_join(&claims);
    assert_run_goes_on(w, pages.run.id);
    assert_int_equal(postgres_number(url, "SELECT arrived FROM joins"), ITEMS);
    store_free(claims.store);
    free(pages.rows);
}

static void *run_stop(void *context)
{
    struct run_node *n = context;
    for (bool more = true; more;) {
        struct op_stop stop = { .op.kind = OP_STOP,
                                .tenant = n->run.tenant,
                                .run = n->run.id,
                                .change = RUN_CANCEL,
                                .stop = RUN_CANCELLED,
                                .why = S("stopped"),
                                .max = 7,
                                .now_ms = NOW + 15 };
        if (!run_node_do(n, &stop.op))
            break;
        more = stop.ret_more;
    }
    return NULL;
}

/* Some steps wait for one that is settled meanwhile: the settle skips or releases what the stop cancels. */
static void a_stop_leaves_nothing_that_starts(void **state)
{
    struct world *w = *state;
    atomic_int released = 0;
    struct run_node stop = { .store = w->store, .run = claimed_run(w), .released = &released };
    struct open_row *rows = items_of(w, &stop.run, STEPS);
    struct open_edge_row edges[STEPS / 2];
    for (size_t i = STEPS / 2; i < STEPS; i++) { /* the first half runs, the second waits for it */
        rows[i - STEPS / 2].task.links |= TASK_HAS_CHILDREN;
        rows[i].task.state = TASK_BLOCKED;
        rows[i].task.links |= TASK_WAITS | TASK_HAS_PARENTS;
        edges[i - STEPS / 2] = (struct open_edge_row){ rows[i - STEPS / 2].task.id, DAG_MUST_SUCCEED, EDGE_OPEN };
        rows[i].edges = &edges[i - STEPS / 2];
        rows[i].n = 1;
    }
    struct run_row begin = run_row_of(&stop.run);
    for (size_t i = 0; i < 2; i++) { /* those that wait first */
        struct op_open open = page_of(&stop.run, &begin, rows, i ? PAGES - 1 : 0);
        open.rows = rows + (i ? 0 : STEPS / 2);
        open.n = STEPS / 2;
        open.expected = STEPS;
        assert_ok(world_apply(w, &open.op), &open.op.error);
    }
    struct settlement v[STEPS / 2];
    claim_items(w, v, STEPS / 2);
    struct run_node settles = { .store = another_node(), .v = v, .n = STEPS / 2, .released = &released };
    run_node_start(&settles, run_settles);
    run_node_start(&stop, run_stop);
    run_node_join(&stop);
    run_node_join(&settles);
    assert_true(run_node_arrive(&stop));
    assert_run_goes_on(w, stop.run.id);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE run_id IS NOT NULL AND state < 4"), 0);
    store_free(settles.store);
    free(rows);
}

static void no_signal_is_lost_that_meets_its_step(void **state)
{
    struct world *w = *state;
    struct store *node = another_node();
    for (int i = 0; i < RACES; i++) {
        struct task run = claimed_run(w), step = some_task(w);
        struct run_row begin = run_row_of(&run);
        step.target = TARGET_WORKFLOW;
        step.name = (struct str){ 0 };
        step.run = run.id;
        step.id = place_id(run.id, step.place = place_of_step(0));
        struct open_row row = { .task = step, .ends = true };
        struct op_open open = page_of(&run, &begin, &row, 0);
        open.n = open.expected = 1;
        open.last = true;
        assert_ok(world_apply(w, &open.op), &open.op.error);
        struct lane_quota lane = { some_lane(), 1 };
        struct op_claim claim = claim_of(w, &lane, 1);
        assert_ok(world_apply(w, &claim.op), &claim.op.error);
        assert_int_equal(claim.ret.n, 1);
        struct op_await await = {
            .op.kind = OP_AWAIT, .id = step.id, .fence = claim.ret.v[0].fence, .signal = S("go"), .now_ms = NOW + 2
        };
        struct signal_row sent = { .run = run.id, .name = S("go"), .sender = S("me"), .time_ms = NOW + 3 };
        struct op_signal signal = {
            .op.kind = OP_SIGNAL, .tenant = TENANT, .signal = &sent, .steps = &step.id, .n = 1
        };
        struct call calls[2];
        start(&calls[i % 2], w->store, &await.op);
        start(&calls[1 - i % 2], node, &signal.op);
        assert_int_equal(finish(&calls[0]), ERR_OK);
        assert_int_equal(finish(&calls[1]), ERR_OK);
        arena_release(&await.op.arena);
        arena_release(&signal.op.arena);
        assert_int_equal(get(w, step.id).state, TASK_SCHEDULED);
        assert_true(get(w, step.id).due_ms <= NOW + 3);
        postgres_run(url, "DELETE FROM tasks");
    }
    store_free(node);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(a_map_goes_on_once_however_its_items_end),
        store_test(items_may_end_while_others_are_opened),
        store_test(a_stop_leaves_nothing_that_starts),
        store_test(no_signal_is_lost_that_meets_its_step),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (url[0])
        postgres_drop(url);
    return failed;
}
