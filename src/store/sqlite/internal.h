#pragma once
/* store/sqlite/internal.h - what the files of the SQLite store share: its files on disk, the writer's state and its
 * operations. Connections are in connection.h, rows in row.h, reads in reader/reader.h. */
#include <pthread.h>
#include <stdatomic.h>

#include "store/common/claim_hold.h"
#include "store/common/joins.h"
#include "store/common/reading.h"
#include "store/common/slots.h"
#include "store/common/tally.h"
#include "store/sqlite/row.h"
#include "store/sqlite/statements.h"
#include "store/sqlite/store_sqlite.h"

/* ---- fences (fences.c) ---- */

/* When the store is opened: raises the floor if the file is a copy. */
enum err sqlite_fences_open(struct conn *c, const char *path, int64_t now_ms, int64_t *ret_floor,
                            struct error *e) must_use;
enum err sqlite_fences_raise(struct conn *c, int64_t now_ms, int64_t *ret_floor, struct error *e) must_use;

/* ---- migrations (migrate.c) ---- */

enum { MIGRATE_NEWEST = -1 };
enum err sqlite_migrate_to(struct conn *c, int to_version, int64_t now_ms, struct error *e) must_use;
/* The version of an existing file. ERR_CORRUPT: not a file of Belfry. ERR_INVALID: newer than this binary. */
enum err sqlite_schema_version(struct conn *c, int *ret, struct error *e) must_use;

/* ---- the data directory: its lock and the path of the database file (data_directory.c) ---- */
struct directory {
    int lock_fd;
    char *path; /* of the database file */
};
enum err directory_lock(const char *directory, struct directory *ret, struct error *e) must_use;
void directory_unlock(struct directory *d);
char *directory_file(const char *directory) must_use;
char *directory_path(const char *directory, const char *name) must_use;
#define DIRECTORY_COPY_MARK "copied-to" /* copy_mark.h */
/* If a restore was decided but interrupted, completes it. The caller has the lock (restore.c). */
enum err directory_finish(const char *directory, struct error *e) must_use;

/* ---- the write-ahead log file (wal_file.c) ---- */

const char *wal_file_vfs(void); /* name of the SQLite VFS that the writer opens its files with */

/* ---- the checkpoint thread (checkpoint.c) ---- */

struct checkpointer {
    struct conn conn;
    pthread_t thread;
    bool started;
    int wake_fd;
    atomic_bool stop;
    atomic_int wal_pages;     /* pages in the write-ahead log after the latest commit */
    pthread_mutex_t *writing; /* the store's mutex */
};
enum err checkpointer_start(struct checkpointer *k, const char *path, struct conn *writer, pthread_mutex_t *writing,
                            struct error *e) must_use;
void checkpointer_stop(struct checkpointer *k); /* leaves the write-ahead log empty, unless a reader still uses it */

/* ---- the writer (store_sqlite.c; its operations are in the folders) ---- */

/* Tasks that became final in a transaction, for the table `ended` (deferred_writes.c). */
struct ended {
    struct ended_task {
        int64_t completed_ms, rid;
    } * v;
    size_t n, cap;
    size_t kept; /* entries of operations that succeeded; entries behind them are dropped if their operation fails */
};

struct store_sqlite {
    struct store base;
    struct directory directory;
    pthread_mutex_t writing; /* held during store_apply, and while the write-ahead log is restarted */
    struct conn conn;
    struct checkpointer checkpointer;
    struct tallies of_op, of_transaction;
    bool made_lanes;      /* this transaction inserted lanes: if it does not commit, the cached lanes are dropped */
    struct task *scratch; /* tasks of the result that is being built */
    int64_t *rids;        /* their rids */
    size_t scratch_cap;
    struct ended ended;
    int64_t fence_floor; /* fences.c */
    struct uuid strand;  /* audit.c, like the next */
    int64_t audit_seq;
    bool can_shrink; /* the file has incremental auto_vacuum, so it can shrink */
    struct slots slots;
    struct joins joins;
    struct map slot_counts; /* slot key → number of holders, cached during a transaction (slots.c) */
    struct arena arena;     /* for values that are not part of a result */
};

static inline sqlite3_stmt *writer_stmt(struct store_sqlite *s, enum writer_statement which)
{
    return s->conn.stmts[which];
}

void scratch_grow(struct store_sqlite *s, size_t n); /* makes room for one more entry behind n */
/* Reads the current row of a statement into entry n of the scratch. A due task has only the columns TASK_COLUMNS_DUE
 * and gates. */
enum err scratch_read_due(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a,
                          struct error *e) must_use;
enum err scratch_read(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e) must_use;
/* Copies the first n entries of the scratch into the arena as a result. */
enum err scratch_take(struct store_sqlite *s, size_t n, struct arena *a, struct tasks *ret, struct error *e) must_use;

/* The columns of a row that decide whether an operation may change it. */
struct guards {
    bool found;
    int64_t rid, version, fence;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    enum task_kind kind;
    int64_t cursor_ms, last_run_ms, runs_count, skipped_count, created_ms, lane;
    int losses;
    bool gated; /* has gates: may hold slots */
    bool waits; /* waits for a slot */
    int links;  /* enum task_link */
    struct uuid claim;
    struct uuid run; /* of a step; only for a settle, as is place */
    int64_t place;
};
enum err sqlite_read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret,
                            struct error *e) must_use;
/* Reads only the columns that a settle needs; the others are 0. */
enum err sqlite_read_settle_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret,
                                   struct error *e) must_use;
enum err sqlite_replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t,
                             struct error *e) must_use;
enum err sqlite_delete_task(struct store_sqlite *s, int64_t rid,
                            struct error *e) must_use; /* the caller updates the counts */
/* The number of a lane; inserts the lane at its first use. */
enum err sqlite_lane_number(struct store_sqlite *s, struct lane lane, int pool, int64_t *ret, struct error *e) must_use;
/* ERR_CONFLICT: the node is marked dead, or the claim's id exists already. */
enum err sqlite_claim_check_new(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                                struct error *e) must_use;
/* Inserts a claim that holds the first n tasks of the scratch. Overwrites their s->rids. */
enum err sqlite_claim_insert(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                             enum claim_hold hold, size_t n, struct error *e) must_use;
enum err sqlite_claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e) must_use;
enum err sqlite_claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e) must_use;

/* Inserts one task; *ret_new is false if its id exists already. */
enum err sqlite_insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e) must_use;

/* OP_INSERT of one task that depends on none. *ret_new is false if the same task is there already. */
enum err sqlite_insert_or_same(struct store_sqlite *s, const struct task *t, struct uuid takes_over, bool *ret_new,
                               struct error *e) must_use;

/* Inserts the record of an idempotency key; NULL: none. *ret_rowid is its rowid: an operation without a savepoint
 * deletes it by that if it fails later. */
enum err sqlite_idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
                                struct error *e) must_use;
enum err sqlite_idempotency_delete(struct store_sqlite *s, int64_t rowid, struct error *e) must_use;

/* Notes that a row is final, so that OP_PURGE finds it later. Ignores states that are not final, and FAILED. */
void sqlite_ended_note(struct store_sqlite *s, int64_t rid, enum task_state state, int64_t completed_ms);
/* Writes the entries of operations that succeeded so far. */
enum err sqlite_ended_write(struct store_sqlite *s, struct error *e) must_use;
/* The same for the counts of tasks. */
enum err sqlite_write_tallies(struct store_sqlite *s, struct error *e) must_use;
/* Completes the changes that are told (port/store/changes.h 7). */
enum err sqlite_read_changes(struct store_sqlite *s, struct error *e) must_use;

/* ---- audit rows (audit.c) ---- */

/* Writes the rows of the operations that succeeded. */
enum err sqlite_audit_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err sqlite_audit_purge(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *count,
                            struct error *e) must_use;

/* ---- hits, incidents and messages (record/incidents.c) ---- */

/* Writes the hits of the operations that succeeded. */
enum err sqlite_hits_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err sqlite_checks_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;

enum err sqlite_key_prints(struct conn *c, struct key_prints *ret, struct error *e) must_use; /* cluster_settings.c */

/* ---- tasks that are due in days (far_due.c); the conditions must match its indexes ---- */

enum err sqlite_far_before_claim(struct store_sqlite *s, int64_t now_ms, int64_t until_ms, struct error *e) must_use;
enum err sqlite_far_purge(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e) must_use;
enum err sqlite_far_exists(struct store_sqlite *s, bool *ret, struct error *e) must_use;

/* ---- slots (slots.c, and for claims slot_gate.c); the decisions are in store/common/slots.h ---- */

static inline struct store_sqlite *sqlite_of_slots(struct slots *s)
{
    return container_of(s, struct store_sqlite, slots);
}
void sqlite_slots_init(struct store_sqlite *s);
void sqlite_slot_counts_clear(struct store_sqlite *s);

/* The primitives that only claims use (struct slots_ops). */
enum err sqlite_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                           struct error *e);
enum err sqlite_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                             int64_t now_ms, struct error *e);
enum err sqlite_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count,
                             struct error *e);
enum err sqlite_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                           bool *ret_found, struct error *e);
enum err sqlite_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e);
enum err sqlite_slot_held_ahead(struct slots *base, struct str key, int64_t now_ms, bool *ret, struct error *e);

/* sqlite_replace_task, and the consequences for slots. *ret_state: as it is stored. */
enum err sqlite_change_task(struct store_sqlite *s, const struct guards *old, const struct task *t,
                            struct slot_keys *keys, enum task_state *ret_state, struct error *e) must_use;
/* An OCCURRENCE that never started will not run: subtracts it from its parent's runs_count. A skipped one is added to
 * skipped_count. */
enum err sqlite_uncount_run(struct store_sqlite *s, int64_t rid, const struct uuid *parent, bool skipped,
                            struct error *e) must_use;

/* ---- dependencies (joins.c); the decisions are in store/common/joins.h ---- */

void sqlite_joins_init(struct store_sqlite *s);
/* A task is purged: deletes its join and the edges from its parents. */
enum err sqlite_joins_purge(struct store_sqlite *s, const struct uuid *task, int links, struct error *e) must_use;

/* ---- runs of workflows (runs.c, run_stop.c, definitions.c) ---- */

enum err sqlite_definition_put(struct store_sqlite *s, const struct definition *d, int64_t now_ms,
                               struct error *e) must_use;
/* Keeps the output of a task: of a step at its run, of a run at itself; a sub-run is both. */
enum err sqlite_output_keep(struct store_sqlite *s, const struct task *t, struct str output, struct error *e) must_use;
enum err sqlite_output_delete(struct store_sqlite *s, const struct uuid *run, int64_t place, struct error *e) must_use;
enum err sqlite_run_resume(struct store_sqlite *s, const struct uuid *run, struct error *e) must_use; /* rule 9 */
enum err sqlite_run_forget(struct store_sqlite *s, const struct task *t, struct error *e) must_use;   /* rule 12 */

bool sqlite_insert_alone(const struct op *op); /* true: an insert that needs no savepoint */

/* One function for each operation: sqlite_claim and so on. It returns the operation's result. */
#define X(name, verb) enum err sqlite_##verb(struct store_sqlite *s, struct op *base);
OP_MAP(X)
#undef X

/* ---- limits and calendars (limits.c) ---- */

enum err sqlite_limits_check(struct store_sqlite *s, const struct op_insert *op, bool has_new_recurring,
                             struct error *e) must_use;
enum err sqlite_calendar_check(struct store_sqlite *s, const struct task *t, struct error *e) must_use;
enum err sqlite_calendar_check_unused(struct store_sqlite *s, const struct catalog_entry *x, struct error *e) must_use;

/* ---- tasks that run outside of their node (handoff.c, leases.c, workers.c) ---- */

/* How many RUNNING tasks of a limit's subject a node has claimed, and how many are leased. Counts up to
 * max. */
enum err sqlite_count_claimed(struct store_sqlite *s, const struct uuid *node, const struct share_subject *about,
                              int64_t max, int64_t *ret, struct error *e) must_use;
enum err sqlite_count_leased(struct store_sqlite *s, const struct share_subject *about, int64_t max, int64_t *ret,
                             struct error *e) must_use;
enum err sqlite_task_lease_put(struct store_sqlite *s, const struct task *t, const struct lease_terms *terms,
                               struct error *e) must_use;
/* Deletes the lease of a task that leaves its claim, if it may have one. */
enum err sqlite_task_lease_leave(struct store_sqlite *s, const struct guards *g, const struct uuid *task,
                                 struct error *e) must_use;
enum err sqlite_worker_groups(struct store_sqlite *s, int64_t now_ms, struct arena *a, struct worker_groups *ret,
                              struct error *e) must_use;

/* Whether a node is known, and whether it is marked dead (nodes.c). */
enum err sqlite_node_find(struct store_sqlite *s, const struct uuid *id, bool *ret_known, bool *ret_dead,
                          struct error *e) must_use;

/* ---- reading (reader/reader.c) ---- */

enum err reader_sqlite_open(const char *path, struct reader **ret, struct error *e) must_use;
