/* store_apply runs one transaction, READ COMMITTED, in as few round trips as possible: BEGIN goes with the first
 * statement, savepoints with the statements around them, and counts, notes and COMMIT together.
 *
 * Where it is cheap, an operation checks that it may run before it changes anything. An operation that can fail later
 * runs in a savepoint. An error of PostgreSQL ends the whole transaction. Then nothing of it has happened, and what is
 * in memory (lanes, counts, results) must not say otherwise. After a serialization failure or a deadlock, which other
 * transactions cause, the whole transaction is tried again. After any other error, the caller tries smaller batches to
 * find the operation that fails. */
#include "store/postgres/store_postgres.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "port/crypto.h"
#include "store/common/commit_stall.h"
#include "store/postgres/internal.h"

enum {
    TRIES_MAX = 8,       /* of a transaction that conflicts with others */
    PAUSE_MAX_US = 4000, /* before the second try; longer before each further one */
    SLOT_LOCKS = 2048,
    SHARDS = 256,            /* of table `counts` */
    ARENA_MAX = 64 << 20,    /* scratch memory of one operation */
    VERSION_OLDEST = 140000, /* of the server */
};

static const struct pg_statement begin = { "begin", "BEGIN ISOLATION LEVEL READ COMMITTED" };
/* Settings of a session, or of each transaction behind a pooler, whose sessions other clients use too. All statements
 * of the writer begin with a few given rows and reach others by an index. The planner, whose statistics may show an
 * empty table, must not choose another plan. */
#define SET_UP(local)                                                                                                  \
    "SELECT set_config('idle_in_transaction_session_timeout', '3s', " local "), "                                      \
    "set_config('enable_seqscan', 'off', " local "), set_config('enable_hashjoin', 'off', " local "), "                \
    "set_config('enable_mergejoin', 'off', " local "), set_config('jit', 'off', " local "), "                          \
    "set_config('plan_cache_mode', 'force_generic_plan', " local ")"
static const struct pg_statement set_up = { "set_up", SET_UP("true") };
static const struct pg_statement commit = { "commit", "COMMIT" };
static const struct pg_statement savepoint = { "savepoint", "SAVEPOINT op" };
static const struct pg_statement release = { "release", "RELEASE SAVEPOINT op" };
static const struct pg_statement rollback_to = { "rollback_to", "ROLLBACK TO SAVEPOINT op" };

static const struct pg_statement lock = {
    "lock",
    "SELECT pg_advisory_xact_lock(k) FROM unnest($1) AS k",
};

static struct store_postgres *store_postgres_self(struct store *s)
{
    return container_of(s, struct store_postgres, base);
}

/* ---- advisory locks ---- */

static int pg_lock_by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The prefix "belf" keeps clear of other programs' advisory locks in the same database. Slot keys share SLOT_LOCKS
 * numbers: a transaction may need thousands of them, and the server has room for a few thousand locks of all kinds. */
int64_t pg_lock_number(enum pg_lock what, struct str key)
{
    uint64_t hash = hash_bytes(HASH_STABLE, key) & (what == PG_LOCK_SLOT ? SLOT_LOCKS - 1 : 0x0fffffff);
    return (int64_t)(UINT64_C(0x62656c66) << 32 | (uint64_t)what << 28 | hash);
}

enum err pg_lock(struct store_postgres *s, enum pg_lock what, const struct str *keys, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    int64_t *numbers = arena_alloc(&s->arena, n * sizeof *numbers);
    if (!numbers)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++)
        numbers[i] = pg_lock_number(what, keys[i]);
    qsort(numbers, n, sizeof *numbers, pg_lock_by_number);
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_I64);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            pg_element_i64(&s->params, numbers[i]);
    pg_array_end(&s->params);
    return pg_queue(&s->conn, &lock, &s->params, e);
}

/* ---- apply ---- */

static void pg_lanes_reset(struct store_postgres *s)
{
    store_lanes_clear(&s->lanes);
    s->lanes_reset = true;
}

/* Lanes that were made in a rolled back transaction or savepoint do not exist. */
static void pg_lanes_discard(struct store_postgres *s)
{
    if (s->made_lanes)
        pg_lanes_reset(s);
    s->made_lanes = false;
}

enum err pg_in_savepoint(struct store_postgres *s, struct op *op, enum err (*fn)(struct store_postgres *, struct op *))
{
    struct pg_conn *c = &s->conn;
    struct error ignored;
    cleanup_with(tallies_release) struct tallies before = { 0 };
    size_t ended = s->ended.n, claims = s->claims.n;
    tallies_copy(&before, &s->of_op);
    if (pg_queue(c, &savepoint, NULL, &op->error))
        return op->error.code;
    enum err rc = fn(s, op);
    if (c->failed)
        return c->failed;
    if (rc) {
        tallies_copy(&s->of_op, &before);
        s->ended.n = ended;
        s->claims.n = claims;
        pg_lanes_discard(s);
        pg_slots_reset(s); /* the savepoint's rollback has released its locks */
        if (pg_queue(c, &rollback_to, NULL, &ignored))
            return ignored.code;
    }
    return pg_queue(c, &release, NULL, &ignored) ? ignored.code : rc;
}

static enum err (*const pg_handlers[OP_KINDS])(struct store_postgres *, struct op *) = {
#define X(name, verb) [OP_##name] = postgres_##verb,
    OP_MAP(X)
#undef X
};

/* Operations that may fail after their first write. The others check everything first, or write one statement. */
static const bool pg_needs_savepoint[OP_KINDS] = {
    [OP_INSERT] = true,  [OP_CLAIM] = true,     [OP_SETTLE] = true, [OP_PUT] = true,      [OP_KEY_PUT] = true,
    [OP_CATALOG] = true, [OP_HEARTBEAT] = true, [OP_RETAKE] = true, [OP_BREAKERS] = true, [OP_OPEN] = true,
    [OP_SIGNAL] = true,  [OP_STOP] = true,      [OP_DEFINE] = true, [OP_FOLD] = true,
};

static enum err pg_run_op(struct store_postgres *s, struct op *op)
{
    return pg_needs_savepoint[op->kind] ? pg_in_savepoint(s, op, pg_handlers[op->kind]) : pg_handlers[op->kind](s, op);
}

/* Operations that read claims: the notes on claims are written first. */
static bool pg_op_reads_claims(enum op_kind kind)
{
    return kind == OP_HEARTBEAT || kind == OP_NODE_DEAD || kind == OP_PURGE || kind == OP_HANDED_OFF ||
           kind == OP_ORPHANS || kind == OP_LIMIT_TAKE;
}

/* Runs the first operation, or a batch of inserts or spawns. Returns how many. */
static size_t pg_run_some(struct store_postgres *s, struct op *const *ops, size_t n)
{
    size_t inserts = 0;
    while (inserts < n && ops[inserts]->kind == OP_INSERT)
        ops[inserts++]->error = (struct error){ 0 };
    if (inserts) {
        struct error ignored; /* the connection has failed and holds the same error */
        enum err rc = ERR_OK;
        size_t done = postgres_insert_many(s, ops, inserts, &rc, &ignored);
        assert(done > 0 && done <= inserts);
        return done;
    }
    if (ops[0]->kind == OP_SPAWN)
        return postgres_spawn_many(s, ops, n);
    ops[0]->error = (struct error){ 0 };
    ops[0]->rc = pg_op_reads_claims(ops[0]->kind) ? pg_send_claims(s, &ops[0]->error) : ERR_OK;
    ops[0]->rc = ops[0]->rc ? ops[0]->rc : pg_run_op(s, ops[0]);
    return 1;
}

/* COMMIT of a failed transaction reports success with the command tag ROLLBACK. */
static enum err pg_send_commit(struct store_postgres *s, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(&s->conn, &commit, NULL, &r, e))
        return e->code;
    return strcmp(PQcmdStatus(r.r), "COMMIT") == 0 ? ERR_OK : pg_corrupt(&s->conn, "COMMIT ended in a rollback", e);
}

/* A process that stops in the middle of a transaction would keep its locks, the one on its own node's row among them,
 * and other nodes could not mark it dead. So the server ends such a session after 3 s. Behind a pooler, this is set for
 * each transaction. */
static enum err pg_send_begin(struct store_postgres *s, struct error *e)
{
    struct pg_conn *c = &s->conn;
    if (c->prepare && s->set_up != c->generation && pg_exec(c, SET_UP("false"), e))
        return e->code;
    s->set_up = c->generation;
    if (pg_queue(c, &begin, NULL, e))
        return e->code;
    return c->prepare ? ERR_OK : pg_queue(c, &set_up, NULL, e);
}

static enum err pg_run_ops(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    if (pg_send_begin(s, e) || pg_slots_lock_settled(s, ops, n, e))
        return e->code;
    for (size_t i = 0; i < n;) {
        s->of_op.n = 0;
        s->ended.n = s->ended.kept;
        s->claims.n = s->claims.kept;
        arena_reset(&s->arena);
        changes_begin_op(&s->base, ops[i]);
        size_t done = pg_run_some(s, ops + i, n - i);
        if (s->conn.failed) {
            *e = s->conn.failure;
            return e->code;
        }
        if (done > 1 || ops[i]->rc == ERR_OK) { /* in a batch, each failed operation has undone its own changes */
            tallies_merge(&s->of_transaction, &s->of_op);
            s->ended.kept = s->ended.n;
            s->claims.kept = s->claims.n;
        } else {
            changes_drop_op(&s->base);
        }
        i += done;
    }
    if (pg_send_tallies(s, e) || pg_send_ended(s, e) || pg_send_audit(s, ops, n, e) || pg_send_hits(s, ops, n, e) ||
        pg_send_checks(s, ops, n, e) || pg_read_changes(s, e) || pg_send_claims(s, e))
        return e->code;
    commit_stall_wait();
    s->committing = true;
    return pg_send_commit(s, e);
}

/* *ret_again: a retry may succeed, because other transactions were in conflict, or because an idle connection turned
 * out to be dead before COMMIT was sent: then the transaction has not happened. */
static enum err pg_transact(struct store_postgres *s, struct op *const *ops, size_t n, bool *ret_again, struct error *e)
{
    struct error ignored;
    *ret_again = false;
    s->committing = false;
    s->of_transaction.n = s->ended.kept = s->claims.kept = 0;
    changes_begin(&s->base);
    s->made_lanes = false;
    s->notice = (struct store_notice){ 0 };
    s->watermarks.noted_count = 0;
    pg_slots_reset(s);
    if (pg_conn_ready(&s->conn, e))
        return e->code;
    if (s->generation != s->conn.generation) { /* after a failover, the new server may lack the latest transactions */
        pg_lanes_reset(s);
        pg_watermarks_reset(&s->watermarks);
        if (pg_fences_check(&s->conn, e))
            return e->code;
    }
    s->generation = s->conn.generation;
    enum err rc = pg_run_ops(s, ops, n, e);
    if (!rc)
        return ERR_OK;
    *ret_again = s->conn.retry;
    pg_lanes_discard(s);
    (void)!pg_rollback(&s->conn, "ROLLBACK", &ignored);
    if (!s->conn.pg && !s->conn.answered && !s->committing)
        *ret_again = true;
    return rc;
}

/* A random pause, so that transactions in conflict do not meet again. */
static void pg_retry_pause(struct store_postgres *s, int tries)
{
    int64_t us = (int64_t)prng_below(&s->random, (uint64_t)PAUSE_MAX_US * (uint64_t)tries) + 1;
    nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static void pg_mark_arenas(struct store_postgres *s, struct op *const *ops, size_t n)
{
    if (n > s->mark_cap) {
        s->marks = xrealloc(s->marks, n * sizeof *s->marks);
        s->mark_cap = n;
    }
    for (size_t i = 0; i < n; i++)
        s->marks[i] = arena_mark(&ops[i]->arena);
}

/* The stores of this process have their own watermarks. Passes a notice on to all of them except the store that has
 * made it. */
static void pg_notify_siblings(struct store_postgres *s, const struct store_postgres *but,
                               const struct store_notice *notice)
{
    struct store_postgres *first = s->sibling_of ? s->sibling_of : s;
    if (first != but)
        pg_watermarks_on_notice(&first->watermarks, notice);
    for (size_t i = 0; i < array_count(first->siblings); i++) {
        struct store_postgres *sibling = atomic_load(&first->siblings[i]);
        if (sibling && sibling != but)
            pg_watermarks_on_notice(&sibling->watermarks, notice);
    }
}

static enum err store_postgres_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    struct store_postgres *s = store_postgres_self(base);
    struct error failure = { 0 };
    enum err rc;
    bool again;
    pg_mark_arenas(s, ops, n);
    for (int tries = 1;; tries++) {
        rc = pg_transact(s, ops, n, &again, &failure);
        for (size_t i = 0; rc && i < n; i++)
            arena_rewind(&ops[i]->arena, s->marks[i]);
        if (!rc || !again || tries == TRIES_MAX)
            break;
        pg_retry_pause(s, tries);
    }
    for (size_t i = 0; rc && i < n; i++)
        ops[i]->rc = rc;
    if (rc && e)
        *e = failure;
    if (!rc) {
        pg_watermarks_commit(&s->watermarks, &s->notice);
        pg_notify_siblings(s, s, &s->notice);
        pg_notifier_publish(s->notifier, &s->notice);
    }
    return rc;
}

static enum err store_postgres_reader(struct store *base, struct reader **ret, struct error *e)
{
    return reader_postgres_open(store_postgres_self(base), ret, e);
}

static void store_postgres_on_notice(struct store_watch *w, const struct store_notice *notice)
{
    struct store_postgres *s = container_of(w, struct store_postgres, own_watch);
    pg_notify_siblings(s, NULL, notice);
    s->watcher->on_notice(s->watcher, notice);
}

static void store_postgres_watch(struct store *base, struct store_watch *w)
{
    struct store_postgres *s = store_postgres_self(base);
    pg_notifier_watch(s->notifier, NULL);
    s->watcher = w;
    if (!w)
        return;
    s->own_watch = (struct store_watch){ .on_notice = store_postgres_on_notice, .node = w->node };
    pg_notifier_watch(s->notifier, &s->own_watch);
}

static void store_postgres_barrier_wait(struct store *base, struct store_barrier *barrier)
{
    pg_notifier_barrier_wait(store_postgres_self(base)->notifier, barrier);
}

static bool store_postgres_barrier_cancel(struct store *base, struct store_barrier *barrier)
{
    return pg_notifier_barrier_cancel(store_postgres_self(base)->notifier, barrier);
}

static void store_postgres_catalog_applied(struct store *base, uint64_t catalog_change)
{
    pg_notifier_catalog_applied(store_postgres_self(base)->notifier, catalog_change);
}

static void store_postgres_notify_settled(struct store *base, const struct fenced_id *settled, size_t n)
{
    pg_notifier_settled(store_postgres_self(base)->notifier, settled, n);
}

static void store_postgres_broadcast(struct store *base, struct str line)
{
    pg_notifier_broadcast(store_postgres_self(base)->notifier, line);
}

/* ---- opening and closing ---- */

static bool pg_sibling_swap(struct store_postgres *first, struct store_postgres *from, struct store_postgres *to)
{
    for (size_t i = 0; i < array_count(first->siblings); i++) {
        struct store_postgres *expected = from;
        if (atomic_compare_exchange_strong(&first->siblings[i], &expected, to))
            return true;
    }
    return false;
}

static void pg_sibling_leave(struct store_postgres *s)
{
    (void)pg_sibling_swap(s->sibling_of, s, NULL);
}

static enum err pg_sibling_join(struct store_postgres *s, struct store *sibling_of, struct error *e)
{
    if (!sibling_of)
        return pg_notifier_new(&s->setup, &s->notifier, e);
    s->sibling_of = store_postgres_self(sibling_of);
    s->notifier = s->sibling_of->notifier;
    bool joined = pg_sibling_swap(s->sibling_of, NULL, s);
    assert(joined && !s->sibling_of->sibling_of);
    (void)joined;
    return ERR_OK;
}

static void store_postgres_free(struct store *base)
{
    struct store_postgres *s = store_postgres_self(base);
    pg_partition_thread_free(s->partition_thread);
    if (s->sibling_of)
        pg_sibling_leave(s);
    else
        pg_notifier_free(s->notifier);
    pg_conn_release(&s->conn);
    pg_params_release(&s->params);
    pg_slots_reset(s);
    pg_watermarks_release(&s->watermarks);
    store_lanes_release(&s->lanes);
    tallies_release(&s->of_op);
    tallies_release(&s->of_transaction);
    arena_release(&s->arena);
    free(s->ended.v);
    free(s->claims.v);
    free(s->scratch);
    free(s->marks);
    for (size_t i = 0; i < array_count(s->texts); i++)
        free(s->texts[i]);
    free(s);
}

static void store_postgres_freep(struct store_postgres **s)
{
    if (*s)
        store_postgres_free(&(*s)->base);
}

static void store_postgres_copy_setup(struct store_postgres *s, const struct store_postgres_setup *from)
{
    const char **const texts[] = { &s->setup.url, &s->setup.read_url, &s->setup.listen_url, &s->setup.archive_dir };
    static_assert(array_count(texts) == array_count(s->texts), "one place each");
    s->setup = *from;
    for (size_t i = 0; i < array_count(texts); i++)
        if (*texts[i])
            *texts[i] = s->texts[i] = xstrdup(*texts[i]);
}

/* Errors that waiting does not remedy. */
static enum err store_postgres_check_server(struct store_postgres *s, struct error *e)
{
    int version = PQserverVersion(s->conn.pg);
    const char *encoding = PQparameterStatus(s->conn.pg, "server_encoding");
    if (version < VERSION_OLDEST)
        return error_set(e, ERR_INVALID, "this is PostgreSQL %d.%d: belfry needs 14 or later", version / 10000,
                         version / 100 % 100);
    if (!encoding || strcmp(encoding, "UTF8") != 0)
        return error_set(e, ERR_INVALID, "the database has encoding %s: create it with ENCODING 'UTF8'",
                         encoding ? encoding : "unknown");
    return ERR_OK;
}

enum err store_postgres_open(const struct store_postgres_setup *setup, struct store **ret, struct error *e)
{
    static const struct store_ops ops = { .apply = store_postgres_apply,
                                          .reader = store_postgres_reader,
                                          .watch = store_postgres_watch,
                                          .barrier_wait = store_postgres_barrier_wait,
                                          .barrier_cancel = store_postgres_barrier_cancel,
                                          .catalog_applied = store_postgres_catalog_applied,
                                          .notify_settled = store_postgres_notify_settled,
                                          .broadcast = store_postgres_broadcast,
                                          .free = store_postgres_free };
    struct error local;
    e = e ? e : &local;
    cleanup_with(store_postgres_freep) struct store_postgres *s = xnew(*s);
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    crypto_random(&s->strand, sizeof s->strand);
    s->base.ops = &ops;
    store_postgres_copy_setup(s, setup);
    prng_init(&s->random, seed);
    s->shard = (int)prng_below(&s->random, SHARDS);
    pg_params_init(&s->params);
    pg_slots_init(s);
    pg_joins_init(s);
    atomic_init(&s->watermarks.highest, INT64_MIN);
    arena_init(&s->arena, ARENA_MAX);
    if (pg_conn_init(&s->conn, s->setup.url, false, s->setup.clock, e))
        return e->code;
    if (s->setup.retry_ms)
        s->conn.backoff_max_ms = s->setup.retry_ms;
    if (pg_conn_ready(&s->conn, e) || store_postgres_check_server(s, e) || pg_schema_check(&s->conn, &s->setup, e) ||
        pg_fences_check(&s->conn, e) || pg_lanes_load(&s->conn, &s->lanes, e))
        return e->code;
    s->generation = s->conn.generation;
    if (pg_sibling_join(s, setup->sibling_of, e))
        return e->code;
    *ret = &take(s)->base;
    return ERR_OK;
}
