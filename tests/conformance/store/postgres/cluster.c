/* Several nodes on one PostgreSQL at the same moment: heartbeats, nodes that are marked dead, shares of limits, recall
 * requests. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "core/task/fence.h"
#include "postgres_sessions.h"
#include "store_nodes.h"

/* ---- nodes ---- */

static void a_beat_goes_on_while_a_claim_of_its_node_is_underway(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w);
    beat(w, me);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM nodes FOR KEY SHARE");
    struct op_heartbeat op = beat(w, me);
    assert_int_equal(op.ret.v[0].beats, 2);
    postgres_say(other, "COMMIT");
    PQfinish(other);
}

static void a_burial_says_no_while_a_claim_of_the_node_is_underway(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM nodes FOR KEY SHARE");
    assert_false(bury(w, node, 1)); /* it does not wait: a node that stopped in a transaction must not stop others */
    postgres_say(other, "COMMIT");
    assert_true(bury(w, node, 1));
    PQfinish(other);
}

/* A claim of `node` by another store, whose COMMIT waits until `other` ends its transaction. */
static void commit_slowly(PGconn *other, struct call *call, struct store *store, struct op *op)
{
    postgres_run(url, "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'; "
                      "CREATE CONSTRAINT TRIGGER wait_for_test AFTER INSERT ON claims DEFERRABLE INITIALLY DEFERRED "
                      "FOR EACH ROW WHEN (NEW.held > 0) EXECUTE FUNCTION wait_for_test()");
    postgres_say(other, "BEGIN; SELECT pg_advisory_xact_lock(1)");
    start(call, store, op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
}

/* The node lost the answer, and asks before the server is done. Its tasks would wait for a node that lives and does not
 * know of them. */
static void who_reads_a_claim_back_waits_for_its_commit(void **state)
{
    struct world *w = *state;
    struct lane_quota lane = { some_lane(), 10 };
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct op_claim claim = claim_of(w, &lane, 1);
    struct op_claimed back = { .op.kind = OP_CLAIMED, .claim = claim.claim };
    struct store *lost = another_node();
    PGconn *other = postgres_session(url);
    struct call claims, reads;
    commit_slowly(other, &claims, lost, &claim.op);
    start(&reads, w->store, &back.op);
    postgres_wait_for(url, "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                           "AND wait_event_type = 'Lock') = 2");
    postgres_say(other, "COMMIT");
    assert_int_equal(finish(&claims), ERR_OK);
    assert_int_equal(finish(&reads), ERR_OK);
    assert_tasks(&back.ret, &t.id);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 1);
    PQfinish(other);
    store_free(lost);
    arena_release(&claim.op.arena);
    arena_release(&back.op.arena);
    postgres_run(url, "DROP TRIGGER wait_for_test ON claims; DROP FUNCTION wait_for_test()");
}

static void a_claim_that_never_was_leaves_no_row_when_it_is_read_back(void **state)
{
    struct world *w = *state;
    struct uuid unknown[] = { fresh_id(w), { { 0 } } };
    for (size_t i = 0; i < array_count(unknown); i++) {
        struct op_claimed back = { .op.kind = OP_CLAIMED, .claim = unknown[i] };
        assert_ok(world_apply(w, &back.op), &back.op.error);
        assert_int_equal(back.ret.n, 0);
    }
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 0);
}

static void a_burial_that_meets_a_beat_says_no(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; UPDATE nodes SET beats = beats + 1");
    assert_false(bury(w, node, 1));
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_false(bury(w, node, 1));
    assert_true(bury(w, node, 2));
}

static void a_beat_that_meets_a_burial_finds_itself_dead(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM nodes FOR UPDATE; UPDATE nodes SET dead = true, dead_ms = 1");
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT, .node.id = node, .now_ms = NOW };
    struct call call;
    start(&call, w->store, &op.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_OK);
    assert_true(op.ret_dead);
    assert_int_equal(op.ret.v[0].beats, 1);
    arena_release(&op.op.arena);
}

/* Another process, which stops in the middle of its transaction while it waits. */
static pid_t stop_amidst_a_claim(struct world *w, struct uuid node)
{
    PGconn *other = postgres_session(url);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.node = node;
    /* A claim writes this table last, when it has locked its node's row. */
    postgres_say(other, "BEGIN; LOCK TABLE claims IN SHARE MODE");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct op *base = &op.op;
        struct error e;
        arena_init(&op.op.arena, 1 << 20);
        (void)!store_apply(another_node(), &base, 1, &e);
        _exit(0);
    }
    postgres_wait_for(url, POSTGRES_BLOCKED);
    assert_int_equal(kill(child, SIGSTOP), 0);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    return child;
}

static void who_stopped_in_the_midst_of_a_claim_can_be_buried_before_long(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w);
    int status;
    beat(w, node);
    insert(w, &t, 1);
    pid_t child = stop_amidst_a_claim(w, node);
    assert_false(bury(w, node, 1));
    bool buried = false;
    for (int i = 0; i < 100 && !buried; i++) {
        pause_ms(100);
        buried = bury(w, node, 1);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(buried);
    assert_int_equal(get(w, t.id).state, TASK_SCHEDULED);
}

static void a_beat_and_a_reader_tell_the_servers_time(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    int64_t read_us = 0;
    int64_t before_ms = clock_wall_ms(clock_system());
    struct op_heartbeat op = beat(w, fresh_id(w));
    assert_ok(reader_clock(w->reader, &read_us, &e), &e);
    int64_t after_ms = clock_wall_ms(clock_system()); /* the server runs on the same machine and has the same clock */
    assert_true(op.ret_store_us / 1000 >= before_ms && op.ret_store_us <= read_us && read_us / 1000 <= after_ms);
}

/* ---- shares of limits ---- */

static struct op_limit_take share_of(struct uuid node, struct share *share)
{
    share->key = S("queue/1/mail");
    return (struct op_limit_take){ .op.kind = OP_LIMIT_TAKE, .node = node, .v = share, .n = 1, .now_ms = NOW };
}

static void who_is_buried_while_it_asks_gets_nothing(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM nodes FOR UPDATE; UPDATE nodes SET dead = true");
    struct share share = { .rate = 1, .burst = 5, .want_tokens = 5, .concurrency = 5, .want_places = 5 };
    struct op_limit_take op = share_of(node, &share);
    struct call call;
    start(&call, w->store, &op.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_OK);
    assert_true(share.ret_tokens == 0 && share.ret_places == 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM places"), 0);
    arena_release(&op.op.arena);
}

static void a_limit_that_is_forgotten_meanwhile_is_made_anew(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    struct share share = { .rate = 1, .burst = 5, .want_tokens = 4 };
    struct op_limit_take op = share_of(node, &share);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; DELETE FROM shares");
    struct call call;
    start(&call, w->store, &op.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_OK);
    assert_int_equal(share.ret_tokens, 4);
    assert_int_equal(postgres_number(url, "SELECT taken FROM shares"), 4);
    arena_release(&op.op.arena);
}

enum { TAKERS = 3, ROUNDS = 60, PLACES = 7, TOKENS = 300 };

struct taker {
    struct store *store;
    struct uuid node;
    struct prng random;
    pthread_t thread;
    int64_t tokens;
    bool failed, too_many;
};

static atomic_llong places_in_use;

/* Places count as free from before the call that returns them, and as used from behind the call that takes them. */
static void *take_and_give(void *context)
{
    struct taker *t = context;
    int64_t held = 0;
    for (int i = 0; i < ROUNDS && !t->failed; i++) {
        struct share share = { .rate = 0.0001, .burst = TOKENS, .want_tokens = 1 + (int64_t)prng_below(&t->random, 4) };
        share.concurrency = PLACES;
        share.want_places = (int64_t)prng_below(&t->random, PLACES + 1);
        struct op_limit_take op = share_of(t->node, &share);
        struct op *base = &op.op;
        struct error e;
        int64_t keeps = min_of(held, share.want_places);
        atomic_fetch_sub(&places_in_use, held - keeps);
        t->failed = store_apply(t->store, &base, 1, &e) || op.op.rc || share.ret_places < keeps;
        held = share.ret_places;
        t->too_many = t->too_many || atomic_fetch_add(&places_in_use, held - keeps) + held - keeps > PLACES;
        t->tokens += share.ret_tokens;
    }
    atomic_fetch_sub(&places_in_use, held);
    return NULL;
}

static void nodes_that_take_at_once_get_no_more_than_there_is(void **state)
{
    struct world *w = *state;
    struct taker v[TAKERS];
    int64_t tokens = 0;
    for (size_t i = 0; i < TAKERS; i++) {
        v[i] = (struct taker){ .store = another_node(), .node = fresh_id(w) };
        prng_init(&v[i].random, i);
        beat(w, v[i].node);
    }
    for (size_t i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&v[i].thread, NULL, take_and_give, &v[i]), 0);
    for (size_t i = 0; i < TAKERS; i++) {
        assert_int_equal(pthread_join(v[i].thread, NULL), 0);
        assert_false(v[i].failed || v[i].too_many);
        tokens += v[i].tokens;
        store_free(v[i].store);
    }
    assert_int_equal(tokens, TOKENS); /* they wanted more, and the time did not change */
}

/* ---- fences ---- */

static int64_t claimed_fence(struct world *w)
{
    struct task t = some_task(w);
    return claim_one(w, &t, fresh_id(w)).fence;
}

/* As after the promotion of a standby: the connection ends, and the next one leads to another timeline. */
static void another_database_behind_the_connection_raises_the_fences(void **state)
{
    struct world *w = *state;
    assert_int_equal(claimed_fence(w), 1);
    PGconn *other = postgres_session(url);
    const char *cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                      "AND pid <> pg_backend_pid()";
    postgres_say(other, cut);
    assert_int_equal(claimed_fence(w), 1); /* the same database */
    postgres_say(other, "UPDATE cluster SET value = 'another' WHERE name = 'identity'");
    assert_int_equal(claimed_fence(w), 1);
    postgres_say(other, cut);
    int64_t first = claimed_fence(w), floor = (int64_t)time(NULL) * 1000 << FENCE_CLAIM_BITS;
    assert_true(first > floor - (INT64_C(60000) << FENCE_CLAIM_BITS) && first <= floor + (1000 << FENCE_CLAIM_BITS));
    postgres_say(other, cut);
    assert_true(claimed_fence(w) == first); /* once for each change */
    PQfinish(other);
}

/* ---- recall requests ---- */

static int64_t requests_in(PGconn *other)
{
    PGresult *r = PQexec(other, "SELECT count(*) FROM wishes");
    int64_t n = atoll(PQgetvalue(r, 0, 0));
    PQclear(r);
    return n;
}

/* Waiting for it could be a deadlock: the other node may renew several. */
static void a_request_that_another_node_renews_is_left_as_it_is(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall recall_request = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &recall_request), &recall_request.op.error);
    struct settlement v = settlement_of(&running, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    PGconn *other = postgres_session(url); /* the task is claimed and requested back again */
    postgres_say(other, "BEGIN; UPDATE tasks SET state = 3, fence = fence + 1, claim_id = id; "
                        "UPDATE wishes SET fence = fence + 1");
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 0);
    struct op_purge purge = { .op.kind = OP_PURGE, .now_ms = NOW, .max = 100 };
    assert_ok(world_apply(w, &purge.op), &purge.op.error);
    postgres_say(other, "COMMIT");
    assert_int_equal(requests_in(other), 1);
    struct op_recall_list op = recall_requests_of(w, node, 10);
    assert_int_equal(op.ret_count, 1);
    assert_int_equal(op.ret[0].fence, running.fence + 1);
    struct fenced_id refused = { t.id, running.fence + 1 };
    op = (struct op_recall_list){
        .op.kind = OP_RECALL_LIST, .node = node, .max = 10, .refused = &refused, .refused_count = 1
    };
    postgres_say(other, "BEGIN; UPDATE wishes SET created_ms = created_ms");
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_count, 1); /* it is still to be refused */
    postgres_say(other, "COMMIT; UPDATE tasks SET state = 1, claim_id = NULL");
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 0);
    assert_int_equal(requests_in(other), 0);
    PQfinish(other);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(a_beat_goes_on_while_a_claim_of_its_node_is_underway),
        store_test(a_burial_says_no_while_a_claim_of_the_node_is_underway),
        store_test(who_reads_a_claim_back_waits_for_its_commit),
        store_test(a_claim_that_never_was_leaves_no_row_when_it_is_read_back),
        store_test(a_burial_that_meets_a_beat_says_no),
        store_test(a_beat_that_meets_a_burial_finds_itself_dead),
        store_test(who_stopped_in_the_midst_of_a_claim_can_be_buried_before_long),
        store_test(a_beat_and_a_reader_tell_the_servers_time),
        store_test(who_is_buried_while_it_asks_gets_nothing),
        store_test(a_limit_that_is_forgotten_meanwhile_is_made_anew),
        store_test(nodes_that_take_at_once_get_no_more_than_there_is),
        store_test(another_database_behind_the_connection_raises_the_fences),
        store_test(a_request_that_another_node_renews_is_left_as_it_is),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (url[0])
        postgres_drop(url);
    return failed;
}
