/* store_apply on PostgreSQL when something goes wrong: conflicts with other transactions, connections that end, an
 * unusable server. */
#include <pthread.h>

#include "store_world.h"

static char url[POSTGRES_URL];

/* A session checks for a deadlock once, this long after it began to wait. By then the other session must have met it,
 * on any machine. */
static void be_patient_with_deadlocks(void)
{
    postgres_run(url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''3s''', "
                      "current_database()); END $$");
}

static enum err open_here(const char *directory, struct store **ret, struct error *e)
{
    (void)directory;
    if (url[0]) {
        postgres_wipe(url);
    } else {
        postgres_make("apply", url);
        be_patient_with_deadlocks();
    }
    return postgres_store_open(url, ret, e);
}

static const struct store_adapter here = { "postgres", open_here };

static void lock_task(PGconn *c, struct uuid id)
{
    char sql[256], text[UUID_TEXT + 1];
    uuid_format(id, text);
    snprintf(sql, sizeof sql, "SELECT FROM tasks WHERE id = '%s' FOR UPDATE", text);
    postgres_say(c, sql);
}

/* ---- conflicts with other transactions ---- */

struct batch {
    struct world *w;
    struct op *ops[4];
    size_t n;
    enum err rc;
    struct error e;
};

static void *apply_batch(void *context)
{
    struct batch *b = context;
    b->rc = store_apply(b->w->store, b->ops, b->n, &b->e);
    return NULL;
}

static void start(struct batch *b, pthread_t *thread)
{
    for (size_t i = 0; i < b->n; i++)
        arena_init(&b->ops[i]->arena, 1 << 20);
    assert_int_equal(pthread_create(thread, NULL, apply_batch, b), 0);
}

/* The other session has the longer deadlock timeout: PostgreSQL ends the store's transaction. */
static void a_batch_that_meets_another_in_a_deadlock_is_tried_again(void **state)
{
    struct world *w = *state;
    struct task first = some_task(w), second = some_task(w), fresh = some_task(w);
    insert(w, (struct task[]){ first, second }, 2);
    struct task a = first, b = second;
    a.version = b.version = 2;
    a.name = S("a");
    b.name = S("b");
    struct op_insert early = insert_of(&fresh, 1);
    struct op_put put_a = put_of(&first, &a), put_b = put_of(&second, &b);
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim claim = claim_of(w, &lane, 1);
    struct batch batch = { .w = w, .ops = { &early.op, &claim.op, &put_a.op, &put_b.op }, .n = 4 };
    claim.until_ms = claim.now_ms = NOW - 1; /* nothing is due: the claim returns its result all the same */

    PGconn *other = postgres_session(url);
    pthread_t thread;
    postgres_say(other, "SET deadlock_timeout = '60s'; BEGIN");
    lock_task(other, second.id);
    start(&batch, &thread);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    lock_task(other, first.id); /* waits until the store's transaction is ended */
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(pthread_join(thread, NULL), 0);

    assert_ok(batch.rc, &batch.e);
    for (size_t i = 0; i < batch.n; i++)
        assert_ok(batch.ops[i]->rc, &batch.ops[i]->error);
    assert_str(get(w, first.id).name, "a");
    assert_str(get(w, second.id).name, "b");
    assert_true(is_there(w, TENANT, fresh.id));
    struct store_counts counts;
    struct error e = { 0 };
    assert_ok(reader_counts(w->reader, NOW, &counts, &e), &e);
    assert_int_equal(counts.by_state[TASK_SCHEDULED], 3); /* counted once */
    postgres_wait_for(url, "(SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()) = 1");
    for (size_t i = 0; i < batch.n; i++)
        arena_release(&batch.ops[i]->arena);
}

static void a_lane_that_a_failed_operation_made_is_made_by_the_next(void **state)
{
    struct world *w = *state;
    struct task one = some_task(w), two = some_task(w), clash = one;
    insert(w, &one, 1);
    two.queue = clash.queue = S("elsewhere");
    clash.created_ms++;
    struct task both[] = { two, clash };
    struct op_insert failing = insert_of(both, 2), good = insert_of(&two, 1);
    failing.max_pending = 100; /* so that it runs in a savepoint */
    world_apply_all(w, (struct op *[]){ &failing.op, &good.op }, 2);
    assert_int_equal(failing.op.rc, ERR_CONFLICT);
    assert_ok(good.op.rc, &good.op.error);
    assert_str(get(w, two.id).queue, "elsewhere");
}

/* The operation's rollback has made the store forget all lanes, and one of them is made anew. */
static void a_lane_without_a_quota_is_known_after_a_failed_operation(void **state)
{
    struct world *w = *state;
    struct task one = some_task(w), two = some_task(w), clash = one;
    insert(w, &one, 1);
    two.queue = clash.queue = S("elsewhere");
    clash.created_ms++;
    struct op_insert failing = insert_of((struct task[]){ two, clash }, 2), good = insert_of(&two, 1);
    failing.max_pending = 100;
    world_apply_all(w, (struct op *[]){ &failing.op, &good.op }, 2);
    assert_int_equal(failing.op.rc, ERR_CONFLICT);
    struct lane_quota lanes[] = { { .lane = task_lane(&one), .max = 0 }, { .lane = task_lane(&two), .max = 1 } };
    struct op_claim op = claim_of(w, lanes, 2);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &two.id);
    assert_int_equal(lanes[0].ret_next_due_ms, one.due_ms);
}

/* ---- connections ---- */

#define END_ALL_SESSIONS                                                                                               \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "     \
    "pg_backend_pid()"

static void a_connection_that_was_ended_is_made_anew_and_nothing_is_refused(void **state)
{
    struct world *w = *state;
    struct task before = some_task(w), next = some_task(w);
    insert(w, &before, 1);
    assert_true(postgres_number(url, END_ALL_SESSIONS) > 0);
    struct op_insert op = insert_of(&next, 1);
    struct op *ops[] = { &op.op };
    struct error e = { 0 };
    arena_init(&op.op.arena, 1 << 20);
    assert_ok(store_apply(w->store, ops, 1, &e), &e);
    assert_ok(op.op.rc, &op.op.error);
    arena_release(&op.op.arena);
    reader_free(w->reader);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    assert_true(is_there(w, TENANT, before.id) && is_there(w, TENANT, next.id));
}

static void a_batch_whose_connection_ends_midway_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct task fresh = some_task(w), held = some_task(w), changed;
    insert(w, &held, 1);
    changed = held;
    changed.version = 2;
    struct op_insert first = insert_of(&fresh, 1);
    struct op_put put = put_of(&held, &changed);
    struct batch batch = { .w = w, .ops = { &first.op, &put.op }, .n = 2 };
    PGconn *other = postgres_session(url);
    pthread_t thread;
    postgres_say(other, "BEGIN");
    lock_task(other, held.id);
    start(&batch, &thread);
    postgres_wait_for(url, POSTGRES_BLOCKED);
    postgres_run(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
                      "wait_event_type = 'Lock'");
    assert_int_equal(pthread_join(thread, NULL), 0);
    postgres_say(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(batch.rc, ERR_UNAVAILABLE);
    assert_false(is_there(w, TENANT, fresh.id));
    assert_int_equal(get(w, held.id).version, 1);
    assert_int_equal(postgres_number(url, "SELECT coalesce(sum(n), 0) FROM counts"), 1);
    for (size_t i = 0; i < batch.n; i++)
        arena_release(&batch.ops[i]->arena);
}

static void a_server_that_is_of_no_use_is_named_in_one_sentence(void **state)
{
    (void)state;
    struct store *s;
    struct error e = { 0 };
    char latin[POSTGRES_URL], sql[256];
    postgres_make("latin", latin);
    postgres_drop(latin);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
             strrchr(latin, '/') + 1);
    postgres_run(postgres_server(), sql);
    assert_int_equal(postgres_store_open(latin, &s, &e), ERR_INVALID);
    assert_says(&e, "the database has encoding LATIN1: create it with ENCODING 'UTF8'");
    postgres_drop(latin);
    assert_int_equal(postgres_store_open(latin, &s, &e), ERR_UNAVAILABLE);
    assert_says(&e, "does not exist");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_batch_that_meets_another_in_a_deadlock_is_tried_again),
        store_test(a_lane_that_a_failed_operation_made_is_made_by_the_next),
        store_test(a_lane_without_a_quota_is_known_after_a_failed_operation),
        store_test(a_connection_that_was_ended_is_made_anew_and_nothing_is_refused),
        store_test(a_batch_whose_connection_ends_midway_leaves_nothing),
        store_test(a_server_that_is_of_no_use_is_named_in_one_sentence),
    };
    adapter_under_test = &here;
    return cmocka_run_group_tests_name("postgres_apply", tests, NULL, NULL);
}
