/* Several nodes write to one PostgreSQL at the same moment: claims, settles and inserts of the same rows. Where the
 * order matters, another session holds a lock, and the test continues once the store waits for it. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres_claimers.h"

static void text_of(struct uuid id, char out[UUID_TEXT + 1])
{
    uuid_format(id, out);
}

/* ---- claims ---- */

static void what_another_node_has_locked_is_left_to_it_and_counted(void **state)
{
    struct world *w = *state;
    struct task tasks[3];
    char sql[256], id[UUID_TEXT + 1];
    for (int i = 0; i < 3; i++) {
        tasks[i] = some_task(w);
        tasks[i].due_ms = NOW - 10 + i;
    }
    insert(w, tasks, 3);
    PGconn *other = postgres_session(url);
    text_of(tasks[1].id, id);
    snprintf(sql, sizeof sql, "BEGIN; SELECT FROM tasks WHERE id = '%s' FOR UPDATE", id);
    postgres_say(other, sql);
    struct lane_quota lane = { .lane = some_lane(), .max = 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &tasks[0].id, &tasks[2].id);
    assert_int_equal(op.ret_conflicts, 1);
    assert_in_range(lane.ret_next_due_ms, NOW + 1, NOW + 100); /* soon, because the other transaction may fail */
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
    op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &tasks[1].id);
    assert_int_equal(op.ret_conflicts, 0);
    assert_true(lane.ret_next_due_ms == INT64_MAX);
}

enum { MANY = 2000, EACH = 37 };

static void nodes_that_claim_at_once_take_each_task_once(void **state)
{
    struct world *w = *state;
    struct task *tasks = xcalloc(MANY, sizeof *tasks);
    for (int i = 0; i < MANY; i++)
        tasks[i] = some_task(w);
    assert_each_is_taken_once(w, tasks, MANY, EACH, NULL, 1);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE state = 3 AND fence = 1"), MANY);
    assert_int_equal(postgres_number(url, "SELECT sum(held) FROM claims"), MANY);
    free(tasks);
}

static void a_node_that_is_being_buried_claims_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct op_heartbeat beat = { .op.kind = OP_HEARTBEAT,
                                 .node = { .id = { { 7 } }, .name = S("a"), .version = S("1") },
                                 .now_ms = NOW };
    assert_ok(world_apply(w, &beat.op), &beat.op.error);
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; SELECT FROM nodes FOR UPDATE; UPDATE nodes SET dead = true");
    struct lane_quota lane = { .lane = some_lane(), .max = 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    struct call call;
    op.node = (struct uuid){ { 7 } };
    start(&call, w->store, &op.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(finish(&call), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "node");
    arena_release(&op.op.arena);
    assert_int_equal(get(w, t.id).state, TASK_SCHEDULED);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 0);
}

static void a_suspect_in_a_lane_that_another_node_made_is_found(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct store *other = another_node(), *mine = w->store;
    insert(w, &t, 1);
    w->store = other; /* this store has read the lanes before the next lane is made */
    struct lane_quota lane = { .lane = some_lane(), .max = 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
    struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    v.verdict.losses = SUSPECT_LOSSES;
    w->store = mine;
    assert_true(settle_with(w, &v));
    w->store = other;
    op = claim_of(w, &lane, 1);
    op.max_suspects = 0;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_suspect_ms <= NOW);
    lane.max = 0;
    op = claim_of(w, &lane, 1);
    op.max_suspects = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &t.id);
    w->store = mine;
    store_free(other);
}

/* ---- due watermarks: where a claim begins to scan ---- */

enum { LONG_AGO_MS = 60000 };

static int64_t ahead_ns;

static int64_t wall_us(struct clock *c)
{
    (void)c;
    return clock_wall_us(clock_system());
}

static int64_t steady_ns(struct clock *c)
{
    (void)c;
    return clock_steady_ns(clock_system()) + ahead_ns;
}

static struct store *node_ahead_of_time(void)
{
    static const struct clock_ops ops = { .wall_us = wall_us, .steady_ns = steady_ns };
    static struct clock clock = { &ops };
    struct store *s;
    struct error e = { 0 };
    assert_ok(store_postgres_open(&(struct store_postgres_setup){ .url = url, .clock = &clock }, &s, &e), &e);
    return s;
}

static struct task long_overdue(struct world *w)
{
    struct task t = some_task(w);
    t.due_ms = NOW - LONG_AGO_MS;
    return t;
}

/* Claims all due tasks of the lane. */
static struct tasks claim_due(struct world *w)
{
    struct lane_quota lane = { .lane = some_lane(), .max = 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static void what_another_node_schedules_long_ago_is_found_within_a_second(void **state)
{
    struct world *w = *state;
    struct store *other = w->store, *node = node_ahead_of_time();
    struct task t = long_overdue(w), late = long_overdue(w);
    insert(w, &t, 1);
    w->store = node;
    struct tasks first = claim_due(w);
    assert_tasks(&first, &t.id);
    w->store = other;
    insert(w, &late, 1);
    w->store = node;
    assert_int_equal(claim_due(w).n, 0); /* no notice came, and the scan begins at the watermark */
    ahead_ns += INT64_C(1100000000);
    struct tasks second = claim_due(w);
    assert_tasks(&second, &late.id);
    w->store = other;
    store_free(node);
}

static void what_this_node_schedules_long_ago_is_found_at_once(void **state)
{
    struct world *w = *state;
    struct task t = long_overdue(w), late = long_overdue(w);
    insert(w, &t, 1);
    assert_int_equal(claim_due(w).n, 1);
    insert(w, &late, 1);
    struct tasks found = claim_due(w);
    assert_tasks(&found, &late.id);
}

static void what_a_transaction_schedules_long_ago_is_found_by_its_own_claim(void **state)
{
    struct world *w = *state;
    struct task t = long_overdue(w), late = long_overdue(w);
    insert(w, &t, 1);
    assert_int_equal(claim_due(w).n, 1);
    struct op_insert insert_late = insert_of(&late, 1);
    struct lane_quota lane = { .lane = some_lane(), .max = 100 };
    struct op_claim claim = claim_of(w, &lane, 1);
    world_apply_all(w, (struct op *[]){ &insert_late.op, &claim.op }, 2);
    assert_ok(claim.op.rc, &claim.op.error);
    assert_tasks(&claim.ret, &late.id);
}

struct ear {
    struct store_watch watch;
    pthread_mutex_t lock;
    pthread_cond_t told;
    int count, given_back;
    int64_t due_ms; /* the earliest due time in a notice */
};

static void count_news(struct store_watch *watch, const struct store_notice *news)
{
    struct ear *ear = container_of(watch, struct ear, watch);
    pthread_mutex_lock(&ear->lock);
    ear->count += news->all || news->due;
    ear->given_back += news->given_back;
    if (news->due)
        ear->due_ms = min_of(ear->due_ms, news->due_ms);
    pthread_cond_signal(&ear->told);
    pthread_mutex_unlock(&ear->lock);
}

static void wait_for_news(struct ear *ear, int count)
{
    pthread_mutex_lock(&ear->lock);
    while (ear->count < count)
        pthread_cond_wait(&ear->told, &ear->lock);
    pthread_mutex_unlock(&ear->lock);
}

static void wait_until_told_of(struct ear *ear, int64_t due_ms)
{
    pthread_mutex_lock(&ear->lock);
    while (ear->due_ms != due_ms)
        pthread_cond_wait(&ear->told, &ear->lock);
    pthread_mutex_unlock(&ear->lock);
}

static void what_another_node_tells_of_is_found_at_once_however_long_ago(void **state)
{
    struct world *w = *state;
    struct store *other = w->store, *node = node_ahead_of_time();
    struct ear ear = { .watch = { .on_notice = count_news, .node = { { 1 } } },
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .told = PTHREAD_COND_INITIALIZER };
    struct task t = long_overdue(w), late = long_overdue(w);
    store_watch(node, &ear.watch);
    wait_for_news(&ear, 1); /* the listener is connected */
    insert(w, &t, 1);
    wait_for_news(&ear, 2);
    w->store = node;
    assert_int_equal(claim_due(w).n, 1);
    w->store = other;
    insert(w, &late, 1);
    wait_for_news(&ear, 3);
    w->store = node;
    struct tasks found = claim_due(w);
    assert_tasks(&found, &late.id);
    w->store = other;
    store_watch(node, NULL);
    store_free(node);
}

static void who_wished_for_a_task_hears_when_it_is_given_back(void **state)
{
    struct world *w = *state;
    struct store *holder = w->store, *node = another_node();
    struct ear ear = { .watch = { .on_notice = count_news, .node = { { 1 } } },
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .told = PTHREAD_COND_INITIALIZER,
                       .due_ms = INT64_MAX };
    struct task t = some_task(w), plain = some_task(w), last = long_overdue(w);
    t = claim_one(w, &t, (struct uuid){ { 9 } });
    plain = claim_one(w, &plain, (struct uuid){ { 9 } });
    store_watch(node, &ear.watch);
    wait_for_news(&ear, 1); /* the listener is connected */
    w->store = node;
    struct op_recall recall_request = { .op.kind = OP_RECALL, .id = t.id, .fence = t.fence, .now_ms = NOW };
    assert_ok(world_apply(w, &recall_request.op), &recall_request.op.error);
    w->store = holder;
    struct settlement v = settlement_of(&plain, TASK_SCHEDULED); /* no recall request is for this task */
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    insert(w, &last, 1); /* its notice comes behind all earlier ones, which may be late */
    wait_until_told_of(&ear, last.due_ms);
    assert_int_equal(ear.given_back, 0);
    last.id = uuid_next(&w->ids, NOW);
    last.due_ms--;
    v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    insert(w, &last, 1);
    wait_until_told_of(&ear, last.due_ms);
    assert_int_equal(ear.given_back, 1);
    store_watch(node, NULL);
    store_free(node);
}

static void a_claim_that_is_not_committed_moves_no_floor(void **state)
{
    struct world *w = *state;
    struct task t = long_overdue(w), bad = some_task(w), later = some_task(w);
    struct lane_quota lane = { .lane = some_lane(), .max = 100 };
    struct op_claim claim = claim_of(w, &lane, 1);
    insert(w, &t, 1);
    bad.target = (enum target_kind)40000; /* exceeds its column: the whole transaction fails */
    struct op_insert refused = insert_of(&bad, 1);
    struct op *ops[] = { &claim.op, &refused.op };
    struct error e = { 0 };
    arena_init(&claim.op.arena, 1 << 20);
    assert_int_not_equal(store_apply(w->store, ops, 2, &e), ERR_OK);
    arena_release(&claim.op.arena);
    later.due_ms = NOW + LONG_AGO_MS;
    insert(w, &later, 1); /* this one is committed */
    struct tasks found = claim_due(w);
    assert_tasks(&found, &t.id);
}

/* ---- settles ---- */

static struct tasks claim_many(struct world *w, struct task *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tasks[i] = some_task(w);
    insert(w, tasks, n);
    struct lane_quota lane = { .lane = some_lane(), .max = n };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, n);
    return op.ret;
}

static void of_two_nodes_that_settle_the_same_tasks_one_does(void **state)
{
    enum { COUNT = 200 };
    struct world *w = *state;
    struct task made[COUNT];
    struct tasks tasks = claim_many(w, made, COUNT);
    struct settlement a[COUNT], b[COUNT];
    int64_t deadlocks =
        postgres_number(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    for (size_t i = 0; i < COUNT; i++) { /* one store goes forwards, one backwards */
        a[i] = settlement_of(&tasks.v[i], TASK_COMPLETED);
        a[i].verdict.has_execution = true;
        a[i].verdict.execution = some_execution(w, &tasks.v[i]);
        b[i] = settlement_of(&tasks.v[COUNT - 1 - i], TASK_FAILED);
    }
    struct op_settle first = { .op.kind = OP_SETTLE, .v = a, .n = COUNT, .now_ms = NOW },
                     second = { .op.kind = OP_SETTLE, .v = b, .n = COUNT, .now_ms = NOW };
    struct store *other = another_node();
    struct call calls[2];
    start(&calls[0], w->store, &first.op);
    start(&calls[1], other, &second.op);
    assert_ok(finish(&calls[0]), &first.op.error);
    assert_ok(finish(&calls[1]), &second.op.error);
    arena_release(&first.op.arena);
    arena_release(&second.op.arena);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(a[i].stale, !b[COUNT - 1 - i].stale);
        assert_int_equal(get(w, a[i].id).state, a[i].stale ? TASK_FAILED : TASK_COMPLETED);
    }
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM claims"), 0);
    assert_int_equal(postgres_number(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
                     deadlocks);
    store_free(other);
}

/* ---- inserts ---- */

static void ended(struct call *c, struct op_insert *op, enum err expected, const char *field)
{
    assert_int_equal(finish(c), expected);
    assert_string_equal(expected ? op->op.error.field : "", field);
    arena_release(&op->op.arena);
}

/* Another node has inserted the task and has not committed yet; then it runs `then`. */
static void insert_against(struct world *w, int64_t other_created_ms, const char *then, enum err expected)
{
    struct task t = some_task(w), first = some_task(w);
    char sql[512], id[UUID_TEXT + 1], of[UUID_TEXT + 1];
    insert(w, &first, 1);
    text_of(t.id, id);
    text_of(first.id, of);
    PGconn *other = postgres_session(url);
    snprintf(sql, sizeof sql,
             "CREATE TEMP TABLE x AS SELECT * FROM tasks WHERE id = '%s'; UPDATE x SET id = '%s', created_ms = %lld; "
             "BEGIN; INSERT INTO tasks SELECT * FROM x",
             of, id, (long long)other_created_ms);
    postgres_say(other, sql);
    struct op_insert op = insert_of(&t, 1);
    struct call call;
    start(&call, w->store, &op.op);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_say(other, then);
    ended(&call, &op, expected, expected ? "id" : "");
    assert_true(is_there(w, TENANT, t.id));
    PQfinish(other);
}

static void an_insert_that_another_node_repeats_at_the_same_moment_is_one(void **state)
{
    insert_against(*state, NOW - 5000, "COMMIT", ERR_OK);
}

static void an_id_that_another_node_is_taking_is_a_conflict(void **state)
{
    insert_against(*state, NOW - 5001, "COMMIT", ERR_CONFLICT);
}

static void an_id_that_another_node_gives_up_is_free(void **state)
{
    insert_against(*state, NOW - 5001, "ROLLBACK", ERR_OK);
}

static void an_idempotency_key_that_another_node_is_writing_is_waited_for(void **state)
{
    struct world *w = *state;
    for (int commits = 0; commits < 2; commits++) {
        struct task t = some_task(w);
        struct idempotency key = some_idempotency();
        key.key[0] = (uint8_t)(key.key[0] + commits);
        char sql[512], hex[65];
        for (size_t i = 0; i < sizeof key.key; i++)
            snprintf(hex + 2 * i, 3, "%02x", key.key[i]);
        PGconn *other = postgres_session(url);
        snprintf(sql, sizeof sql,
                 "BEGIN; INSERT INTO idempotency (tenant_id, key, payload, status, created_ms) VALUES (%d, '\\x%s', "
                 "'\\x%s', 201, 1)",
                 key.tenant, hex, hex);
        postgres_say(other, sql);
        struct op_insert op = insert_of(&t, 1);
        struct call call;
        op.idempotency = &key;
        start(&call, w->store, &op.op);
        postgres_wait_for(url, POSTGRES_BLOCKED);
        postgres_say(other, commits ? "COMMIT" : "ROLLBACK");
        ended(&call, &op, commits ? ERR_CONFLICT : ERR_OK, commits ? "idempotency-key" : "");
        assert_int_equal(is_there(w, TENANT, t.id), !commits);
        PQfinish(other);
    }
}

static void a_dedupe_key_that_another_node_is_taking_is_not_taken_from_it(void **state)
{
    struct world *w = *state;
    for (int commits = 0; commits < 2; commits++) {
        struct task holder = some_task(w), t = some_task(w);
        char sql[512], id[UUID_TEXT + 1], key[16];
        snprintf(key, sizeof key, "key-%d", commits);
        t.dedupe_key = str_from(key);
        t.dedupe_window_ms = 60000;
        insert(w, &holder, 1);
        text_of(holder.id, id);
        PGconn *other = postgres_session(url);
        snprintf(
            sql, sizeof sql,
            "CREATE TEMP TABLE x AS SELECT * FROM tasks WHERE id = '%s'; BEGIN; DELETE FROM tasks WHERE id = '%s'; "
            "COMMIT; BEGIN; INSERT INTO tasks SELECT * FROM x; INSERT INTO dedupe (tenant_id, key, task_id, "
            "until_ms) VALUES (%d, '%s', '%s', %lld)",
            id, id, TENANT, key, id, (long long)(NOW + 60000));
        postgres_say(other, sql);
        struct op_insert op = insert_of(&t, 1);
        struct call call;
        start(&call, w->store, &op.op);
        postgres_wait_for(url, POSTGRES_BLOCKED);
        postgres_say(other, commits ? "COMMIT" : "ROLLBACK");
        ended(&call, &op, commits ? ERR_CONFLICT : ERR_OK, commits ? "dedupe_key" : "");
        assert_int_equal(is_there(w, TENANT, t.id), !commits);
        PQfinish(other);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(what_another_node_has_locked_is_left_to_it_and_counted),
        store_test(nodes_that_claim_at_once_take_each_task_once),
        store_test(a_node_that_is_being_buried_claims_nothing),
        store_test(a_suspect_in_a_lane_that_another_node_made_is_found),
        store_test(what_another_node_schedules_long_ago_is_found_within_a_second),
        store_test(what_this_node_schedules_long_ago_is_found_at_once),
        store_test(what_a_transaction_schedules_long_ago_is_found_by_its_own_claim),
        store_test(what_another_node_tells_of_is_found_at_once_however_long_ago),
        store_test(a_claim_that_is_not_committed_moves_no_floor),
        store_test(who_wished_for_a_task_hears_when_it_is_given_back),
        store_test(of_two_nodes_that_settle_the_same_tasks_one_does),
        store_test(an_insert_that_another_node_repeats_at_the_same_moment_is_one),
        store_test(an_id_that_another_node_is_taking_is_a_conflict),
        store_test(an_id_that_another_node_gives_up_is_free),
        store_test(an_idempotency_key_that_another_node_is_writing_is_waited_for),
        store_test(a_dedupe_key_that_another_node_is_taking_is_not_taken_from_it),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (url[0])
        postgres_drop(url);
    return failed;
}
