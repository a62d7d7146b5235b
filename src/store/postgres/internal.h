#pragma once
/* store/postgres/internal.h - what the parts of the PostgreSQL store share: a connection, parameters, results, the writer.
 *
 * Everything is binary and set-based: a statement takes arrays, one a column, and unnests them, so that a thousand rows are one
 * statement. Statements whose answers nobody needs yet are sent one behind the other (pipeline mode): pg_send queues, pg_get fetches in
 * the order sent. What is prepared is prepared at its first use on a connection. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include "store/common/claim_hold.h"
#include "store/common/columns.h"
#include "store/common/lane_table.h"
#include "store/common/slots.h"
#include "store/common/sql_states.h"
#include "store/common/tally.h"
#include "store/postgres/store_postgres.h"

/* The server's clock, in microseconds since 1970. */
#define CLOCK_US "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

/* ---- parameters (params.c) ---- */

enum { PG_PARAMS_MAX = 64 };

enum pg_type { PG_BOOL, PG_I16, PG_I32, PG_I64, PG_DOUBLE, PG_UUID, PG_BYTES, PG_TEXT }; /* arrays of them too */

/* The parameters of one statement, in their order. Bytes are copied, so that nothing must stay. */
struct pg_params {
    int n;
    Oid types[PG_PARAMS_MAX];
    size_t at[PG_PARAMS_MAX]; /* in bytes; SIZE_MAX: NULL */
    int lengths[PG_PARAMS_MAX];
    struct buf bytes;
    size_t array_at; /* of the array that is open */
    int array_count;
    bool array_nulls;
    enum pg_type array_type;
    struct buf text; /* JSON of a column being added */
};

void pg_params_init(struct pg_params *p);
void pg_params_release(struct pg_params *p);
void pg_params_reset(struct pg_params *p);

void pg_add_bool(struct pg_params *p, bool v);
void pg_add_i32(struct pg_params *p, int32_t v);
void pg_add_i64(struct pg_params *p, int64_t v);
void pg_add_double(struct pg_params *p, double v);
void pg_add_uuid(struct pg_params *p, struct uuid v); /* nil is NULL */
void pg_add_text(struct pg_params *p, struct str v);  /* empty is '', not NULL */
void pg_add_bytes(struct pg_params *p, struct str v);
void pg_add_null(struct pg_params *p, enum pg_type type);
void pg_add_partitions(struct pg_params *p, const struct partitions *own); /* bytes, for get_bit; NULL is NULL: all */

/* One array parameter: begin, an element each, end. Elements of PG_TEXT and PG_BYTES that are empty are NULL only with _or_null. */
void pg_array(struct pg_params *p, enum pg_type type);
void pg_element_bool(struct pg_params *p, bool v);
void pg_element_i64(struct pg_params *p, int64_t v); /* of PG_I16, PG_I32 and PG_I64 */
void pg_element_double(struct pg_params *p, double v);
void pg_element_uuid(struct pg_params *p, struct uuid v); /* nil is NULL */
void pg_element_text(struct pg_params *p, struct str v);  /* and PG_BYTES */
void pg_element_text_or_null(struct pg_params *p, struct str v);
void pg_element_null(struct pg_params *p);
void pg_array_end(struct pg_params *p);
/* The same of one member of many rows: a struct uuid or an int64_t. */
#define pg_add_members(p, rows, n, member)                                                                             \
    pg_add_column((p),                                                                                                 \
                  _Generic((rows)->member, struct uuid                                                                 \
                           : PG_UUID, int64_t                                                                          \
                           : PG_I64),                                                                                  \
                  (rows), (n), sizeof *(rows), offsetof(__typeof__(*(rows)), member))
void pg_add_column(struct pg_params *p, enum pg_type type, const void *rows, size_t n, size_t size, size_t offset);

/* The columns of n rows, an array each, in the table's order; rows[i] points at a struct. Of COL_LANE the lane's number, which is
 * lanes[i] (NULL where the table has none). Numbers are int[] for COL_INT, bigint[] else: an
 * INSERT narrows them. */
void pg_add_rows(struct pg_params *p, const struct table *t, const void *const *rows, const int64_t *lanes, size_t n);

/* ---- a connection (connection.c) ---- */

/* Something that was sent and whose answer has not been got. */
struct pg_sent {
    bool quiet;           /* nobody waits for it */
    const char *prepares; /* NULL, or the statement of that name */
};

/* A statement: its text, once; which connections have it prepared is theirs to know. */
struct pg_statement {
    const char *name; /* unique among all statements: prepared under it */
    const char *sql;  /* $1 … */
};

struct pg_conn {
    PGconn *pg;
    char *url; /* as libpq takes it: ours taken out */
    struct clock *clock;
    int64_t answer_ms;    /* how long a statement may take; 0: 10 s. For who migrates and archives */
    bool prepare;         /* named statements, else unnamed */
    bool is_reader;       /* any host will do, and nothing is written */
    struct map prepared;  /* names of statements */
    struct buf sql;       /* a text with its $* spelled out */
    struct pg_sent *sent; /* what was sent and not got, a ring */
    size_t sent_first, sent_count, sent_cap;
    size_t awaited;                  /* of them, those that somebody waits for */
    size_t group;                    /* how many of them stand before the next sync, which is on its way */
    int64_t retry_at_ns, backoff_ms; /* steady: when the next connect may be tried */
    int64_t backoff_max_ms;
    uint64_t generation; /* rises with each connect: what was known of the session is gone */
    enum err failed;     /* the transaction is lost: nothing but a rollback is worth sending */
    struct error failure;
    bool answered; /* something was answered since pg_conn_ready: the connection was no dead one */
    bool retry;    /* failed by a serialization failure or a deadlock: the same again may succeed */
};

enum err pg_conn_init(struct pg_conn *c, const char *url, bool is_reader, struct clock *clock,
                      struct error *e) must_use;
void pg_conn_release(struct pg_conn *c); /* a zeroed one is fine */

/* Connected and idle, or ERR_UNAVAILABLE. Connects anew if need be, no more often than the backoff allows; the time that takes is
 * bounded. Whatever failed before is forgotten. */
enum err pg_conn_ready(struct pg_conn *c, struct error *e) must_use;

/* Whatever is in flight is waited for and thrown away; then the text (ROLLBACK, ROLLBACK TO op) is run, and `failed` is cleared. Fails
 * only if the connection is lost. */
enum err pg_rollback(struct pg_conn *c, const char *sql, struct error *e) must_use;

/* A result: one row a row, columns by their place. Free it; a zeroed one is fine. */
struct pg_result {
    PGresult *r;
    int rows;
    int64_t affected; /* of UPDATE, DELETE, INSERT */
};
void pg_result_release(struct pg_result *r);

/* In a statement's text `$*` stands for all parameters behind the highest that is named by number: unnest($*). Each statement has the same
 * types of parameters at every use. An answer that does not come in time ends the connection. */
enum err pg_send(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e) must_use;
enum err pg_get(struct pg_conn *c, struct pg_result *ret,
                struct error *e) must_use; /* of the oldest sent; ret NULL: nobody looks */
enum err pg_run(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct pg_result *ret,
                struct error *e) must_use; /* both; nothing may be in flight; p and ret may be NULL */
/* Sends what gives no answer that anybody needs: it goes with what is sent next, and nobody gets it. If it fails, whatever is got behind it
 * fails by its error. It does not count as in flight. */
enum err pg_queue(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e) must_use;
/* One statement without parameters, whose text is not kept: BEGIN … Nothing may be in flight. */
enum err pg_exec(struct pg_conn *c, const char *sql, struct error *e) must_use;
enum err pg_send_text(struct pg_conn *c, const char *sql, struct error *e) must_use; /* the same, sent only */
bool pg_in_flight(const struct pg_conn *c);

/* What an error means for us: ERR_UNAVAILABLE for whatever may pass (connection, shutdown, too many connections, read-only, no space),
 * and with c->retry for 40001 and 40P01; else ERR_CORRUPT with PostgreSQL's words. Remembers it in `failed`. */
enum err pg_fail(struct pg_conn *c, const PGresult *r, struct error *e);
enum err pg_corrupt(struct pg_conn *c, const char *what, struct error *e); /* for what we found ourselves */

bool pg_is_null(const struct pg_result *r, int row, int column);
bool pg_bool(const struct pg_result *r, int row, int column);
int64_t pg_i64(const struct pg_result *r, int row, int column); /* of any integer type; NULL is 0 */
double pg_double(const struct pg_result *r, int row, int column);
struct uuid pg_uuid(const struct pg_result *r, int row, int column); /* NULL is nil */
struct str pg_text(const struct pg_result *r, int row, int column);  /* and bytes; borrowed; NULL is empty */

/* Walks a uuid[] or bigint[]. */
struct pg_walk {
    const char *at;
    int left;
    Oid type;
};
struct pg_walk pg_array_of(const struct pg_result *r, int row, int column); /* NULL has no elements */
bool pg_next_uuid(struct pg_walk *w, struct uuid *ret);
bool pg_next_i64(struct pg_walk *w, int64_t *ret);

/* Lanes as the table has them now; the lane of a number. Nothing may be in flight. */
enum err pg_lanes_load(struct pg_conn *c, struct store_lanes *l, struct error *e) must_use;
enum err pg_lanes_at(struct pg_conn *c, struct store_lanes *l, int64_t number, const struct lane_row **ret,
                     struct error *e) must_use;

/* Reads the columns from `first` on into a zeroed struct: as row_read of the SQLite store. Nothing may be in flight: a lane may have to be
 * looked up. */
enum err pg_row_read(struct pg_conn *c, struct store_lanes *lanes, const struct pg_result *r, int row, int first,
                     const struct table *t, struct arena *a, void *ret, struct error *e) must_use;

/* ---- the writer (store_postgres.c; its operations in store_postgres_{insert,claim,settle,…}.c) ---- */

/* Tasks that became final in an operation: see the table `ended`. */
struct pg_ended_task {
    int64_t completed_ms;
    struct uuid id;
};

struct pg_ended {
    struct pg_ended_task *v;
    size_t n, cap;
    size_t kept; /* of operations that were done: what is behind goes with the one that noted it, if that fails */
};

/* Claims that tasks have left in an operation, or that their node has handed. */
struct pg_claim_note {
    struct uuid id;
    int64_t left;   /* tasks */
    int64_t handed; /* > 0: it is */
    int64_t epoch;  /* of the queue, then */
};

struct pg_claim_notes {
    struct pg_claim_note *v;
    size_t n, cap, kept; /* as above */
};

/* ---- where claims begin to look (due_watermark.c) ---- */

struct pg_watermark {
    int64_t due_ms;   /* nothing in the lane is due before; INT64_MIN: nobody knows */
    int64_t again_ns; /* steady: when all of it is to be looked at */
    uint64_t notices; /* as in pg_watermarks, when all of it was */
};

struct pg_noted_watermark {
    int64_t lane;
    struct pg_watermark watermark;
};

struct pg_watermarks {
    struct pg_watermark *v; /* by the lane's number */
    size_t cap;
    struct pg_noted_watermark *noted; /* by this transaction: kept if it commits */
    size_t noted_count, noted_cap;
    atomic_uint_least64_t notices; /* how often another node told of something before a floor */
    atomic_int_least64_t highest;  /* no floor is above */
};

/* How a claim looked at a lane. */
struct pg_scan {
    int64_t from_ms;  /* INT64_MIN: at all of it */
    uint64_t notices; /* by pg_watermarks before it began */
    int64_t begun_ns, ended_ns;
};

void pg_watermarks_release(struct pg_watermarks *f); /* a zeroed one is fine */
void pg_watermarks_reset(struct pg_watermarks *f);
void pg_watermarks_begin(struct pg_watermarks *f, int64_t now_ms);                 /* a claim begins */
int64_t pg_watermark_of(struct pg_watermarks *f, int64_t lane, int64_t steady_ns); /* INT64_MIN: look at all */
/* What is left in the lane is due at left_ms and later. */
void pg_watermark_note(struct pg_watermarks *f, int64_t lane, const struct pg_scan *look, int64_t left_ms,
                       int64_t now_ms);
void pg_watermarks_commit(struct pg_watermarks *f,
                          const struct store_notice *own); /* the transaction has committed, and did that */
void pg_watermarks_on_notice(struct pg_watermarks *f, const struct store_notice *news); /* of others; any thread */

struct pg_notifier;         /* notify.c */
struct pg_partition_thread; /* monthly_partitions.c */

enum { PG_SIBLINGS_MAX = 4 };

struct store_postgres {
    struct store base;
    struct store_postgres_setup setup; /* its texts are these: */
    char *texts[4];
    struct pg_conn conn;
    struct pg_params params; /* of the statement being made */
    struct store_lanes lanes;
    bool made_lanes;     /* in this transaction: what is known of them goes if it does not commit */
    uint64_t generation; /* of the connection, when they were read */
    uint64_t set_up;     /* of the connection whose session was told how long it may be idle */
    bool committing;     /* COMMIT was sent: whether it happened is not known until it is answered */
    int shard;           /* which rows of counts are this process's */
    struct tallies of_op, of_transaction;
    struct pg_ended ended;
    struct pg_claim_notes claims;
    struct task *scratch; /* results being gathered */
    size_t scratch_cap;
    struct arena arena;       /* for what is looked at and not given away; emptied with each operation */
    struct store_notice news; /* of this transaction: told when it has committed */
    struct pg_watermarks watermarks;
    struct store_watch own_watch; /* hears for the floors first, then for */
    struct store_watch *watcher;  /* who watches this store; NULL: nobody */
    struct pg_notifier *notifier; /* of the one that it stands beside, if any */
    struct store_postgres *sibling_of;
    _Atomic(struct store_postgres *) siblings[PG_SIBLINGS_MAX]; /* that stand beside this one */
    struct pg_partition_thread *partition_thread;               /* of months; NULL until something is to be forgotten */
    struct prng random;                                         /* for pauses */
    struct arena_mark *marks;                                   /* where the operations' arenas stood */
    size_t mark_cap;
    struct slots slots;
    struct map slot_keys, slots_held; /* what is known of slots in this transaction: slots.c */
    bool has_met_slots;               /* ever */
};

/* Rows change hands within an operation or a transaction (deferred_writes.c); see the SQLite store, whose words these are. */
void pg_tally_move(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state from, enum task_state to);
void pg_tally_new(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state state,
                  int64_t n); /* n < 0: gone */
void pg_note_ended(struct store_postgres *s, struct uuid id, enum task_state state, int64_t completed_ms);
void pg_note_left(struct store_postgres *s, struct uuid claim);
void pg_note_handed(struct store_postgres *s, struct uuid claim, uint64_t epoch);

/* Write the notes of operations that are done: at the end of the transaction, or before somebody in it reads them. */
enum err pg_send_tallies(struct store_postgres *s, struct error *e) must_use;
enum err pg_send_ended(struct store_postgres *s, struct error *e) must_use;
enum err pg_send_claims(struct store_postgres *s, struct error *e) must_use;

/* Something is SCHEDULED at that time: other nodes hear of it after the commit if it is near. */
void pg_note_due(struct store_postgres *s, int64_t due_ms);

/* The number of a lane, made when it is the first use anywhere. */
enum err pg_lane_number(struct store_postgres *s, struct lane lane, int pool, int64_t *ret, struct error *e) must_use;

/* A row of the result as the scratch's nth, all of "part" TASK_COLUMNS; then the first n as an answer. */
enum err pg_scratch_read(struct store_postgres *s, const struct pg_result *r, int row, size_t n, struct arena *a,
                         struct error *e) must_use;
enum err pg_scratch_take(struct store_postgres *s, size_t n, struct arena *a, struct tasks *ret,
                         struct error *e) must_use;

/* Whoever is about to read and then change what has no row of its own to lock (the holders of a slot key, a tenant's count, a calendar
 * that is in use) takes this first, until the transaction ends. Several are taken in the order of their numbers. */
enum pg_lock { PG_LOCK_SLOT = 1, PG_LOCK_TENANT, PG_LOCK_CALENDAR, PG_LOCK_SHARE, PG_LOCK_MIGRATE, PG_LOCK_PARTITIONS };
enum err pg_lock(struct store_postgres *s, enum pg_lock what, const struct str *keys, size_t n,
                 struct error *e) must_use;

int64_t pg_lock_number(enum pg_lock what, struct str key);

/* Runs fn in a savepoint: what a failed operation wrote goes with it, and what it noted in s->of_op, s->ended and s->claims. */
enum err pg_in_savepoint(struct store_postgres *s, struct op *op,
                         enum err (*fn)(struct store_postgres *, struct op *)) must_use;

/* What decides whether an operation may touch a row. Locks it until the transaction ends (FOR UPDATE). */
struct pg_guards {
    bool found;
    int64_t version, fence;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    enum task_kind kind;
    int64_t cursor_ms, last_run_ms, runs_count, lane;
    int losses;
    bool gated;               /* it may hold slots */
    bool any_recall_requests; /* something is wished back, whatever it is */
    struct str waits_for;     /* in s->arena; empty: nothing */
    struct uuid claim, parent;
};
/* Of n tasks, in the order of ids; locked in the order of their ids. */
enum err pg_read_guards(struct store_postgres *s, const struct uuid *ids, size_t n, struct pg_guards *ret,
                        struct error *e) must_use;

/* Inserts whole rows, and replaces one; counts, lanes, `ended` and news are seen to. ret_new[i] is false of an id that is there already. */
enum err pg_insert_rows(struct store_postgres *s, const struct task *const *tasks, size_t n, bool *ret_new,
                        struct error *e) must_use;
enum err pg_replace_row(struct store_postgres *s, const struct pg_guards *old, const struct task *t,
                        struct error *e) must_use;
enum err pg_delete_rows(struct store_postgres *s, const struct uuid *ids, size_t n,
                        struct error *e) must_use; /* counts are the caller's */

/* A claim's row counts the tasks that hold it and lists their ids. They leave it by pg_note_left. */
enum err pg_claim_join(struct store_postgres *s, struct uuid claim, struct uuid task, struct error *e) must_use;

/* The record of an idempotency key, if there is to be one: ERR_CONFLICT, field "idempotency-key", if it is there. */
enum err pg_idempotency_put(struct store_postgres *s, const struct idempotency *i, struct error *e) must_use;
enum err pg_idempotency_used_error(struct error *e);

/* ---- slots (slots.c, over store/common/slots.h) ---- */

void pg_slots_init(struct store_postgres *s);
void pg_slots_reset(struct store_postgres *s); /* with each transaction, and with a savepoint that is rolled back */

/* To begin a transaction with. */
enum err pg_slots_lock_settled(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e) must_use;

/* Many at once, before each is seen to: locks the keys that these tasks hold, in order, and reads what is to be known of them. */
enum err pg_slots_prefetch(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;

/* pg_replace_row, and what it means for slots; lines to look at go to keys. */
enum err pg_change_task(struct store_postgres *s, const struct pg_guards *old, const struct task *t,
                        struct slot_keys *keys, struct error *e) must_use;
/* Lets go of what these tasks keep no more, being gone. */
enum err pg_slots_let_go(struct store_postgres *s, const struct uuid *task, const struct task *next,
                         struct slot_keys *keys, struct error *e) must_use;
enum err pg_slots_settle(struct store_postgres *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                         struct error *e) must_use;
enum err pg_slots_hand_over(struct store_postgres *s, const struct slot_keys *keys, uint64_t *unblocked,
                            struct error *e) must_use;
/* OCCURRENCEs that will not run: taken off their tasks' runs. */
enum err pg_count_as_skipped(struct store_postgres *s, const struct uuid *ids, const struct uuid *parents, size_t n,
                             struct error *e) must_use;

/* ---- limits and calendars (limits.c) ---- */

enum err pg_limits_check(struct store_postgres *s, const struct op_insert *op, bool has_new_recurring,
                         struct error *e) must_use;
enum err pg_calendar_check(struct store_postgres *s, const struct task *t, struct error *e) must_use;
enum err pg_calendar_unused(struct store_postgres *s, const struct catalog_entry *x, struct error *e) must_use;

/* One function an operation; what it returns is the operation's result. */
enum err postgres_insert(struct store_postgres *s, struct op *base);
/* As many of the operations from ops[0] on as are inserts that can go together, at least one: their results are set. Of more than one,
 * those that failed have left nothing in s->of_op, s->ended and s->claims. */
size_t postgres_insert_many(struct store_postgres *s, struct op *const *ops, size_t n, enum err *ret, struct error *e);
enum err postgres_claim(struct store_postgres *s, struct op *base);
enum err postgres_claimed(struct store_postgres *s, struct op *base);
enum err postgres_orphans(struct store_postgres *s, struct op *base);
enum err postgres_settle(struct store_postgres *s, struct op *base);
enum err postgres_recurring(struct store_postgres *s, struct op *base);
/* As many of the spawns from ops[0] on as go together, at least one: their results are set. */
size_t postgres_spawn_many(struct store_postgres *s, struct op *const *ops, size_t n);
enum err postgres_catch_up(struct store_postgres *s, struct op *base);
enum err postgres_put(struct store_postgres *s, struct op *base);
enum err postgres_key_put(struct store_postgres *s, struct op *base);
enum err postgres_catalog(struct store_postgres *s, struct op *base);
enum err postgres_lease(struct store_postgres *s, struct op *base);
enum err postgres_purge(struct store_postgres *s, struct op *base);
enum err postgres_heartbeat(struct store_postgres *s, struct op *base);
enum err postgres_node_dead(struct store_postgres *s, struct op *base);
enum err postgres_limit_take(struct store_postgres *s, struct op *base);
enum err postgres_recall(struct store_postgres *s, struct op *base);
enum err postgres_recall_list(struct store_postgres *s, struct op *base);
enum err postgres_handoff(struct store_postgres *s, struct op *base);
enum err postgres_handed_off(struct store_postgres *s, struct op *base);
enum err postgres_running(struct store_postgres *s, struct op *base);
enum err postgres_retake(struct store_postgres *s, struct op *base);
enum err postgres_lease_renew(struct store_postgres *s, struct op *base);
enum err postgres_leases_expired(struct store_postgres *s, struct op *base);
enum err postgres_worker_report(struct store_postgres *s, struct op *base);

/* ---- leases (leases.c) ---- */

/* A statement's "t." and columns, in the order of pg_scratch_read. */
#define SQL_OF_T(column, kind, member, max) ", t." #column
#define TASK_OF_T                           "t.part" TASK_COLUMNS(SQL_OF_T)

/* The terms of what a claim is about to take, and those of what has left its claim; sent only. */
enum err pg_lease_put_terms(struct store_postgres *s, const struct uuid *tasks, size_t n,
                            const struct lease_terms *terms, struct error *e) must_use;
enum err pg_lease_drop_terms(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;
/* All rows of a result, of "part" TASK_COLUMNS. */
enum err pg_read_tasks(struct store_postgres *s, const struct pg_result *r, size_t n, struct arena *a,
                       struct tasks *ret, struct error *e) must_use;
/* The row of a claim, with the tasks that hold it. */
extern const struct pg_statement pg_insert_claim;
void pg_add_claim(struct pg_params *p, struct uuid claim, struct uuid node, const struct uuid *tasks, size_t n,
                  enum claim_hold hold);
void pg_add_ids(struct pg_params *p, const struct uuid *ids, size_t n);

/* ---- what all nodes have in common (cluster_settings.c) ---- */

/* The value of a name, n bytes: the one given, if there is none yet. */
enum err pg_cluster_value(struct pg_conn *c, struct str name, void *value, size_t n, struct error *e) must_use;

/* OP_PURGE's part of nodes, shares and wishes (nodes.c): *count rises by what went, up to op->max. */
enum err pg_purge_cluster(struct store_postgres *s, const struct op_purge *op, size_t *count, struct error *e) must_use;

/* ---- migrations (migrate.c) ---- */

struct pg_migration {
    const struct schema *schema;
    int to;             /* STORE_POSTGRES_NEWEST, or a version */
    bool nodes_running; /* other nodes are at work: only over steps that they can work with */
};
enum err pg_migrate(const char *url, struct clock *clock, const struct pg_migration *m, struct error *e) must_use;
/* The schema is one that this binary can work on, or has been made so. */
enum err pg_schema_check(struct pg_conn *c, const struct store_postgres_setup *setup, struct error *e) must_use;

/* ---- months (monthly_partitions.c) ---- */

/* A thread that makes the months of executions ahead of time and puts away those that are over. */
struct pg_partition_thread *pg_partition_thread_new(const struct store_postgres_setup *setup);
void pg_partition_thread_free(struct pg_partition_thread *k); /* NULL is fine */
/* Something is being forgotten: looks at the months, if that was not done within the hour. What went wrong the last time is told, once. */
enum err pg_partition_thread_nudge(struct pg_partition_thread *k, int64_t executions_before_ms,
                                   struct error *e) must_use;
/* What it does, on the thread of whoever calls: the month of now_ms and those ahead of it are there; those that are over before before_ms
 * go, into the archive if there is one. */
struct pg_partition_job {
    int64_t now_ms, before_ms;
    const char *archive_dir; /* NULL: none */
    const atomic_bool *stop; /* NULL, or true: break off between two pages */
};
enum err pg_maintain_partitions(struct pg_conn *c, const struct pg_partition_job *k, struct error *e) must_use;

/* ---- readers (reader.c; what stands besides tasks in reader_records.c) ---- */

enum err reader_postgres_open(struct store_postgres *s, struct reader **ret, struct error *e) must_use;

/* ---- news (notify.c): LISTEN on a connection of its own, NOTIFY after the commit on another, once in 5 ms ---- */

enum err pg_notifier_new(const struct store_postgres_setup *setup, struct pg_notifier **ret, struct error *e) must_use;
void pg_notifier_free(struct pg_notifier *n); /* NULL is fine */
void pg_notifier_watch(struct pg_notifier *n, struct store_watch *w);
void pg_notifier_settled(struct pg_notifier *n, const struct fenced_id *v, size_t count); /* any thread */
void pg_notifier_publish(struct pg_notifier *n,
                         const struct store_notice *news); /* what a transaction has done; any thread */
void pg_notifier_set_nodes(struct pg_notifier *n, struct uuid self,
                           const struct node_rows *nodes); /* as a beat sees them */
void pg_notifier_barrier_wait(struct pg_notifier *n, struct store_barrier *barrier);
bool pg_notifier_barrier_cancel(struct pg_notifier *n, struct store_barrier *barrier);
void pg_notifier_catalog_applied(struct pg_notifier *n, uint64_t heard);
