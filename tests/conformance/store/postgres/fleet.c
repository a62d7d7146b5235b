/* Handed-off claims and leases with several nodes on one PostgreSQL, and the migration that added them. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "postgres_claimers.h"
#include "store_fleet.h"

/* ---- leases ---- */

enum { MANY = 1500, EACH = 41 };

static void nodes_that_lease_at_once_give_each_task_once(void **state)
{
    static const struct lease_terms terms = { NOW + 60000, { "w", 1 } };
    struct world *w = *state;
    struct task *tasks = xcalloc(MANY, sizeof *tasks);
    for (int i = 0; i < MANY; i++)
        tasks[i] = some_worker_task(w);
    assert_each_is_taken_once(w, tasks, MANY, EACH, &terms, 1);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM task_leases"), MANY);
    free(tasks);
}

/* One node settles the task as lost while its worker renews the lease: one of them is first, and both results agree. */
static void who_keeps_a_lease_and_who_ends_it_agree(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    int kept = 0, late = 0;
    for (int i = 0; i < 60; i++) {
        struct task t = some_worker_task(w), leased = lease_one(w, &t);
        struct settlement v = settlement_of(&leased, TASK_COMPLETED);
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW };
        struct lease_renewal k = { .id = t.id, .fence = leased.fence, .until_ms = NOW + 90000 };
        struct op_lease_renew keep_op = { .op.kind = OP_LEASE_RENEW, .tenant = TENANT, .v = &k, .n = 1, .now_ms = NOW };
        struct call a, b;
        start(&a, w->store, i % 2 ? &settle.op : &keep_op.op);
        start(&b, other, i % 2 ? &keep_op.op : &settle.op);
        assert_int_equal(finish(&a), ERR_OK);
        assert_int_equal(finish(&b), ERR_OK);
        arena_release(&settle.op.arena);
        arena_release(&keep_op.op.arena);
        assert_false(v.stale);
        k.ret_kept ? kept++ : late++;
        assert_false(is_leased(w, TENANT, t.id, &(struct lease_row){ 0 }));
        for (size_t j = 0; j < w->arena_count; j++)
            arena_release(&w->arenas[j]);
        w->arena_count = 0;
    }
    printf("# %d kept, %d late\n", kept, late);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM task_leases"), 0); /* no lease outlives its task */
    store_free(other);
}

static void keeping_does_not_wait_for_who_only_reads_the_task(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), leased = lease_one(w, &t);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM tasks FOR UPDATE");
    assert_true(keep(w, &leased, NOW + 1).ret_kept);
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
}

/* ---- hand-off ---- */

static bool dead_hand(struct world *w, struct uuid node, struct uuid claim)
{
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = &claim, .n = 1 };
    enum err rc = world_apply(w, &op.op);
    assert_true(rc == ERR_OK || (rc == ERR_CONFLICT && strcmp(op.op.error.field, "node") == 0));
    return rc != ERR_OK;
}

/* If a node is marked dead at the moment of a hand-off, either the claim is handed off or the other nodes find its
 * tasks: never both, never neither. */
static void what_is_handed_while_its_node_is_buried_is_one_or_the_other(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    struct uuid looks = fresh_id(w);
    int handed_first = 0, buried_first = 0;
    for (int i = 0; i < 40; i++) {
        struct uuid node = fresh_id(w);
        beat(w, node);
        struct task t = some_task(w), claimed = claim_one(w, &t, node);
        struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = &claimed.claim, .n = 1 };
        struct op_node_dead bury_op = { .op.kind = OP_NODE_DEAD, .node = node, .beats = 1, .now_ms = NOW };
        struct call a, b;
        start(&a, other, &op.op);
        start(&b, w->store, &bury_op.op);
        enum err rc = finish(&a);
        assert_int_equal(finish(&b), ERR_OK);
        arena_release(&op.op.arena);
        arena_release(&bury_op.op.arena);
        if (!bury_op.ret_marked_dead)
            assert_true(bury(w, node, 1));
        bool found = left_behind(w, looks).n == 1;
        assert_int_equal(found, rc != ERR_OK);
        assert_int_equal(handed(w).n, found ? 0 : 1);
        assert_true(dead_hand(w, node, claimed.claim));
        rc ? buried_first++ : handed_first++;
        struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
        assert_true(settle_with(w, &v));
        for (size_t j = 0; j < w->arena_count; j++)
            arena_release(&w->arenas[j]);
        w->arena_count = 0;
    }
    printf("# %d handed first, %d buried first\n", handed_first, buried_first);
    store_free(other);
}

static void who_hands_and_who_settles_go_on_together(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    struct uuid node = fresh_id(w);
    beat(w, node);
    for (int i = 0; i < 40; i++) {
        struct task v[] = { some_task(w), some_task(w) };
        struct task x = claim_one(w, &v[0], node), y = claim_one(w, &v[1], node);
        struct uuid claims[] = { y.claim, x.claim };
        struct settlement done[] = { settlement_of(&x, TASK_COMPLETED), settlement_of(&y, TASK_COMPLETED) };
        struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = claims, .n = 2 };
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = done, .n = 2, .now_ms = NOW };
        struct call a, b;
        start(&a, other, &op.op);
        start(&b, w->store, &settle.op);
        assert_int_equal(finish(&a), ERR_OK);
        assert_int_equal(finish(&b), ERR_OK);
        arena_release(&op.op.arena);
        arena_release(&settle.op.arena);
        assert_false(done[0].stale || done[1].stale);
        for (size_t j = 0; j < w->arena_count; j++)
            arena_release(&w->arenas[j]);
        w->arena_count = 0;
    }
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 0);
    store_free(other);
}

/* ---- retake ---- */

enum { RETAKEN = 40, ROUNDS = 15 };

static void forget_arenas(struct world *w)
{
    for (size_t i = 0; i < w->arena_count; i++)
        arena_release(&w->arenas[i]);
    w->arena_count = 0;
}

/* Tasks of one node, in several claims. */
static void claim_some(struct world *w, struct uuid node, struct task ret[RETAKEN])
{
    for (int i = 0; i < RETAKEN; i++)
        ret[i] = some_task(w);
    insert(w, ret, RETAKEN);
    for (size_t n = 0; n < RETAKEN;) {
        struct lane_quota lane = { some_lane(), 7 };
        struct op_claim op = claim_of(w, &lane, 1);
        op.node = node;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        for (size_t i = 0; i < op.ret.n; i++)
            ret[n++] = op.ret.v[i];
        assert_true(op.ret.n > 0);
    }
}

static struct op_retake retake_of(struct world *w, struct uuid node, const struct fenced_id v[RETAKEN])
{
    return (struct op_retake){
        .op.kind = OP_RETAKE, .claim = fresh_id(w), .node = node, .v = v, .n = RETAKEN, .max_bytes = 10000
    };
}

/* Two nodes that both act as the leader. They name the same tasks in different orders. */
static void two_that_claim_the_same_anew_take_each_once(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    struct uuid nodes[] = { fresh_id(w), fresh_id(w) };
    beat(w, nodes[0]);
    beat(w, nodes[1]);
    for (int round = 0; round < ROUNDS; round++) {
        struct task tasks[RETAKEN];
        struct fenced_id names[2][RETAKEN];
        struct call a, b;
        claim_some(w, nodes[0], tasks);
        for (int i = 0; i < RETAKEN; i++)
            names[0][i] = names[1][RETAKEN - 1 - i] = (struct fenced_id){ tasks[i].id, tasks[i].fence };
        struct op_retake x = retake_of(w, nodes[0], names[0]), y = retake_of(w, nodes[1], names[1]);
        start(&a, w->store, &x.op);
        start(&b, other, &y.op);
        assert_int_equal(finish(&a), ERR_OK);
        assert_int_equal(finish(&b), ERR_OK);
        assert_int_equal(x.ret.n + y.ret.n, RETAKEN);
        for (int i = 0; i < RETAKEN; i++)
            assert_true(runs(w, tasks[i].id, tasks[i].fence + 1));
        arena_release(&x.op.arena);
        arena_release(&y.op.arena);
        forget_arenas(w);
    }
    assert_int_equal(postgres_number(url, "SELECT sum(held) FROM claims"), RETAKEN * ROUNDS);
    store_free(other);
}

/* A result that arrives at the moment of a retake counts, or the task runs once more: never both. */
static void who_claims_anew_and_who_settles_agree(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    struct uuid node = fresh_id(w);
    int64_t left = 0;
    beat(w, node);
    for (int round = 0; round < ROUNDS; round++) {
        struct task tasks[RETAKEN];
        struct fenced_id names[RETAKEN];
        struct settlement done[RETAKEN];
        struct call a, b;
        size_t settled = 0;
        claim_some(w, node, tasks);
        for (int i = 0; i < RETAKEN; i++) {
            names[RETAKEN - 1 - i] = (struct fenced_id){ tasks[i].id, tasks[i].fence };
            done[i] = settlement_of(&tasks[i], TASK_COMPLETED);
        }
        struct op_retake retake = retake_of(w, node, names);
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = done, .n = RETAKEN / 2, .now_ms = NOW };
        start(&a, other, &settle.op);
        start(&b, w->store, &retake.op);
        assert_int_equal(finish(&a), ERR_OK);
        assert_int_equal(finish(&b), ERR_OK);
        for (size_t i = 0; i < settle.n; i++)
            settled += !done[i].stale;
        assert_int_equal(retake.ret.n + settled, RETAKEN);
        left += (int64_t)retake.ret.n;
        arena_release(&retake.op.arena);
        arena_release(&settle.op.arena);
        forget_arenas(w);
    }
    assert_int_equal(postgres_number(url, "SELECT sum(held) FROM claims"), left);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE state = 3"), left);
    store_free(other);
}

/* ---- notices of settled tasks ---- */

struct ear {
    struct store_watch watch;
    pthread_mutex_t lock;
    pthread_cond_t told;
    struct fenced_id *v;
    size_t n;
    int calls;
    bool ready;
    char lines[2][STORE_BROADCAST_MAX + 1]; /* of the last two broadcasts */
    size_t line_count;
};

static void hear(struct store_watch *watch, const struct store_notice *news)
{
    struct ear *ear = container_of(watch, struct ear, watch);
    pthread_mutex_lock(&ear->lock);
    ear->ready = ear->ready || news->all;
    ear->calls += news->settled_count > 0;
    if (news->broadcast.n)
        snprintf(ear->lines[ear->line_count++ % 2], sizeof ear->lines[0], STR_FMT, STR_ARG(news->broadcast));
    if (news->settled_count) {
        ear->v = xrealloc(ear->v, (ear->n + news->settled_count) * sizeof *ear->v);
        memcpy(ear->v + ear->n, news->settled, news->settled_count * sizeof *ear->v);
        ear->n += news->settled_count;
    }
    pthread_cond_signal(&ear->told);
    pthread_mutex_unlock(&ear->lock);
}

static void wait_for(struct ear *ear, size_t n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&ear->lock);
    while (!ear->ready || ear->n < n)
        assert_int_equal(pthread_cond_timedwait(&ear->told, &ear->lock, &until), 0);
    pthread_mutex_unlock(&ear->lock);
}

static void others_hear_which_tasks_were_settled_and_one_does_not_hear_itself(void **state)
{
    struct world *w = *state;
    enum { COUNT = 5000 };
    struct store *other = another_node();
    struct ear ear = { .watch.on_notice = hear, .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER };
    struct ear own = { .watch.on_notice = hear, .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER };
    store_watch(other, &ear.watch);
    store_watch(w->store, &own.watch);
    wait_for(&ear, 0);
    wait_for(&own, 0);
    struct fenced_id *v = xcalloc(COUNT, sizeof *v);
    for (int i = 0; i < COUNT; i++)
        v[i] = (struct fenced_id){ fresh_id(w), i % 3 ? i + 1 : INT64_MAX - i };
    store_notify_settled(w->store, v, COUNT);
    wait_for(&ear, COUNT);
    store_notify_settled(other, v, 1); /* the other direction: this is the only notice that it receives */
    wait_for(&own, 1);
    assert_int_equal(own.n, 1);
    assert_int_equal(ear.n, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(uuid_eq(ear.v[i].id, v[i].id) && ear.v[i].fence == v[i].fence);
    store_watch(other, NULL);
    store_watch(w->store, NULL);
    store_free(other);
    free(ear.v);
    free(own.v);
    free(v);
}

static void wait_for_lines(struct ear *ear, size_t n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&ear->lock);
    while (!ear->ready || ear->line_count < n)
        assert_int_equal(pthread_cond_timedwait(&ear->told, &ear->lock, &until), 0);
    pthread_mutex_unlock(&ear->lock);
}

static void others_hear_a_broadcast_in_order_and_one_does_not_hear_itself(void **state)
{
    struct world *w = *state;
    struct store *other = another_node();
    struct ear ear = { .watch.on_notice = hear, .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER };
    struct ear own = { .watch.on_notice = hear, .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER };
    char longest[STORE_BROADCAST_MAX];
    memset(longest, 'x', sizeof longest);
    store_watch(other, &ear.watch);
    store_watch(w->store, &own.watch);
    wait_for_lines(&ear, 0);
    wait_for_lines(&own, 0);
    store_broadcast(w->store, (struct str){ longest, sizeof longest });
    store_broadcast(w->store, S("1 two words"));
    wait_for_lines(&ear, 2);
    assert_memory_equal(ear.lines[0], longest, sizeof longest);
    assert_string_equal(ear.lines[1], "1 two words");
    store_broadcast(other, S("back")); /* the other direction: this is the only one that it receives */
    wait_for_lines(&own, 1);
    assert_string_equal(own.lines[0], "back");
    assert_int_equal(ear.line_count, 2);
    store_watch(other, NULL);
    store_watch(w->store, NULL);
    store_free(other);
}

/* ---- the migration ---- */

static void the_step_goes_down_and_up_with_data_in_place(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_worker_task(w), some_task(w) };
    v[1].losses = SUSPECT_LOSSES;
    v[2].due_ms = NOW + 1;
    v[3].target = TARGET_WORKFLOW; /* an older node knows no runs: it is cancelled */
    v[3].due_ms = NOW + 1;
    struct task leased = lease_one(w, &v[0]), queued = some_task(w);
    insert(w, v + 1, 3);
    queued = claim_one(w, &queued, fresh_id(w));
    store_free(w->store);
    reader_free(w->reader);
    assert_ok(store_postgres_migrate(url, clock_system(), 1, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE pool = 1"), 3);
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_ok(postgres_store_open(url, &w->store, &e), &e);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    assert_int_equal(left_behind(w, fresh_id(w)).n, 2); /* leased tasks belong to their node again */
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.now_ms = op.until_ms = NOW + 1;
    op.max_suspects = 10;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[2].id, &v[1].id);
    assert_true(runs(w, leased.id, leased.fence) && runs(w, queued.id, queued.fence));
    assert_int_equal(get(w, v[3].id).state, TASK_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(nodes_that_lease_at_once_give_each_task_once),
        store_test(who_keeps_a_lease_and_who_ends_it_agree),
        store_test(keeping_does_not_wait_for_who_only_reads_the_task),
        store_test(what_is_handed_while_its_node_is_buried_is_one_or_the_other),
        store_test(who_hands_and_who_settles_go_on_together),
        store_test(two_that_claim_the_same_anew_take_each_once),
        store_test(who_claims_anew_and_who_settles_agree),
        store_test(others_hear_which_tasks_were_settled_and_one_does_not_hear_itself),
        store_test(others_hear_a_broadcast_in_order_and_one_does_not_hear_itself),
        store_test(the_step_goes_down_and_up_with_data_in_place),
    };
    adapter_under_test = &here;
    return cmocka_run_group_tests_name("postgres_fleet", tests, NULL, NULL);
}
