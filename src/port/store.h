#pragma once
/* port/store.h - where tasks are: the hot path.
 *
 * Writes are operations. store_apply runs many of them as ONE transaction, in their order; when it returns ERR_OK all that
 * succeeded is durable. Each operation has its own result (op->rc): one that fails leaves no trace and does not touch its
 * neighbours. When store_apply itself fails, nothing of the batch is known to have happened: ERR_UNAVAILABLE may also mean
 * that the commit went through and its answer was lost. So every operation may be repeated: inserts carry ids made
 * beforehand, settles are fenced, a claim is read back by its id.
 *
 * Every adapter passes tests/conformance/store_suite.c, and the memory adapter is the model: random sequences of operations
 * give equal answers everywhere. One thread calls store_apply at a time; readers have connections of their own, one a
 * thread, and see every transaction that was committed before the call. Arguments are borrowed until the operation is done;
 * results live in the operation's arena; an operation whose arena is too small fails with ERR_LIMIT and, like any other that
 * fails, leaves no trace. Operations see and change the rows of all tenants, but where they say otherwise; where a column is
 * not named below, it stays. Field and sentence of an error are promised only where they are named. */
#include "base/list.h"
#include "core/settle.h"
#include "core/spawn.h"
#include "core/task.h"

enum op_kind {
    OP_INSERT,
    OP_CLAIM,
    OP_CLAIMED,
    OP_HELD,
    OP_SETTLE,
    OP_RECURRING,
    OP_SPAWN,
    OP_PUT,
    OP_KEY_PUT,
    OP_LEASE,
    OP_FORGET
};

struct op {
    enum op_kind kind;
    enum err rc; /* result */
    struct error error;
    struct arena arena;          /* for results; whoever made the operation inits and releases it */
    void (*done)(struct op *op); /* called by the writer's owner after the commit, or the failure */
    void *context;
    struct list link;             /* the writer's, like the next two */
    void (*relay)(struct op *op); /* where `done` goes on to, when a loop stands in between */
    void *relay_context;
};

/* Keeps an answer for whoever asks again with the same key (R2.3), in the transaction of what it answers. Where a record of
 * the key exists already, the operation fails with ERR_CONFLICT, field "idempotency-key", and does nothing else. */
struct idempotency {
    int32_t tenant;
    uint8_t key[32];     /* SHA-256 of method, route and key */
    uint8_t payload[32]; /* SHA-256 of the request's body */
    int status;
    struct str answer;
    int64_t created_ms;
};

/* OP_INSERT: new tasks, all or none. A task whose id exists already, with the same created_ms, is the same insert repeated
 * and counts as done, whatever became of the task since; with another, ERR_CONFLICT, field "id". The record of an
 * idempotency key is looked at first. */
struct op_insert {
    struct op op;
    const struct task *tasks;
    size_t count;
    const struct idempotency *idempotency; /* NULL: none */
};

/* OP_CLAIM: due tasks of the lanes asked for, SCHEDULED → RUNNING, fence + 1. From each lane at most its quota, in the order
 * of due_ms then id; from all at most max, and it stops behind max_bytes. Only due_ms <= until_ms; AT_MOST_ONCE only
 * due_ms <= now_ms. Never RECURRING, WORKER or WORKFLOW tasks. A row of the claim itself (id, node) is kept while tasks
 * hold it. A claim id that exists already is an error of the caller: ERR_CONFLICT.
 * Lanes are served in the order they are given, none of them twice, and ret has that order too. A task's bytes are those of
 * its payload and its target_config; the task with which their sum reaches max_bytes is the last one taken, so a task of any
 * size is. What was left for later, by a quota or otherwise, counts in ret_next_due_ms; what no claim would ever take does
 * not. */
struct lane_quota {
    struct lane lane;
    size_t max;
};

struct op_claim {
    struct op op;
    struct uuid claim, node;
    const struct lane_quota *lanes;
    size_t lane_count;
    int64_t now_ms, until_ms;
    size_t max, max_bytes;
    struct tasks ret;        /* as they are after the claim */
    int64_t ret_next_due_ms; /* the earliest due_ms left in these lanes; INT64_MAX: none */
};

/* OP_CLAIMED: what a claim holds now, in no order; of an unknown one, nothing. For a node unsure whether its claim was
 * committed. */
struct op_claimed {
    struct op op;
    struct uuid claim;
    struct tasks ret;
};

/* OP_HELD: RUNNING tasks of claims by other nodes than this one (standalone: by earlier lives of the process), at most max,
 * in no order. */
struct op_held {
    struct op op;
    struct uuid not_node;
    size_t max;
    struct tasks ret;
};

/* OP_SETTLE: verdicts on claimed tasks, each guarded by its fence: applied only if the task is RUNNING under exactly that
 * fence, else `stale`. The execution row is written with it; one of the same task and id is there already if this is a repeat.
 * An OCCURRENCE's parent gets last_run_ms. With `replace`, a recalled task becomes that row instead (state, fields and all;
 * version and fence as in the row).
 * Applied means: state, attempts, losses and last_error as in the verdict, due_ms too if it says SCHEDULED; no claim any more;
 * updated_ms is now_ms; with an execution, started_ms is its started_us in milliseconds; completed_ms is now_ms if the new
 * state is final, else 0. last_run_ms is the execution's started_us in milliseconds, unless the parent has a later one; without an
 * execution it stays. A `replace` has the verdict's execution written with it all the same. A stale settlement, a repeated one
 * among them, changes nothing at all; it does not fail the operation. */
struct settlement {
    struct uuid id;
    int64_t fence;
    struct uuid parent; /* nil: none */
    struct verdict verdict;
    const struct task *replace; /* NULL: the verdict decides */
    bool stale;                 /* result */
};

struct op_settle {
    struct op op;
    struct settlement *v;
    size_t n;
    int64_t now_ms;
};

/* OP_RECURRING: SCHEDULED recurring tasks with cursor_ms < until_ms, earliest first (then by id), at most max. */
struct op_recurring {
    struct op op;
    int64_t until_ms;
    size_t max;
    struct tasks ret;
    int64_t ret_next_ms; /* the earliest cursor of a SCHEDULED one that is not in ret; INT64_MAX: none */
};

/* OP_SPAWN: puts occurrences in and moves the cursor, if the task is SCHEDULED with that version and cursor still; else
 * ERR_CONFLICT and nothing (also if there is no such task). An occurrence that exists already stays as it is. The plan's runs and
 * skipped are added to the task's counts; one that has ended becomes COMPLETED, with updated_ms and completed_ms now_ms. */
struct op_spawn {
    struct op op;
    struct uuid id;
    int64_t version, cursor_ms; /* expected */
    const struct spawn_plan *plan;
    int64_t now_ms;
};

/* OP_PUT: a user's change. Replaces the row by `task` if version, fence and state are still the expected ones, and of a
 * RECURRING task the cursor, which moves with its counts; else ERR_CONFLICT (field "version" if the version differs, else
 * "state"); ERR_NOT_FOUND if there is none or it was deleted.
 * With withdraw, for a RECURRING task: its OCCURRENCEs that are SCHEDULED, BLOCKED or PAUSED and never fired (no attempts, no
 * losses) are deleted, and the cursor becomes the earliest scheduled_ms among them if that is earlier than task's cursor and not
 * before withdraw_from_ms. That is: those before withdraw_from_ms are deleted and have no say in where the cursor goes.
 * What was withdrawn has not run: its runs_count is taken off the task's (not below 0). One whose runs_count is 0 was asked for
 * by hand and has no say in where the cursor goes. Of last_run_ms the later one stays: it belongs to who settles.
 * The record of an idempotency key is looked at first, then whether there is such a task of task's tenant, then the version,
 * then state and fence. The row becomes `task` as it is, claim included, but for the cursor and what is said above. `also` comes in
 * last, so it is never withdrawn, and as OP_INSERT would put it in: ERR_CONFLICT, field "id", fails the whole. */
struct op_put {
    struct op op;
    const struct task *task;
    int64_t version, fence; /* expected, like the next two */
    enum task_state state;
    int64_t cursor_ms; /* of a RECURRING task */
    bool withdraw;
    int64_t withdraw_from_ms;
    const struct task
        *also; /* NULL, or one more task to insert in the same transaction (run-now of a recurring task) */
    const struct idempotency *idempotency;
    int64_t ret_cursor_ms; /* RECURRING: the cursor it has now */
    size_t ret_withdrawn;
};

/* API keys: stored hashed, looked up by id (SECURITY.md). OP_KEY_PUT replaces one of the same id; whether a key has expired is
 * for its reader to say. */
struct api_key {
    struct str id; /* the public part */
    int32_t tenant;
    uint8_t hash[32];
    struct str name, scopes;        /* scopes: words separated by blanks */
    int64_t created_ms, expires_ms; /* 0: never */
};

struct op_key_put {
    struct op op;
    const struct api_key *key;
};

/* OP_LEASE: takes or renews a named lease until now + ttl if it is free, expired (from that moment on) or already held by
 * holder; else ret_held is false, and it stays whose it is. */
struct op_lease {
    struct op op;
    struct str name;
    struct uuid holder;
    int64_t now_ms, ttl_ms;
    bool ret_held;
};

/* OP_FORGET: one small batch of upkeep: idempotency records created before the limit, final tasks (FAILED ones too, and deleted
 * ones) completed before theirs. At most max of both together, which of them first is not said; executions stay. */
struct op_forget {
    struct op op;
    int64_t idempotency_before_ms, tasks_before_ms;
    size_t max;
    size_t ret_forgotten;
};

/* ---- reading ---- */

/* Filters that are left at zero do not filter; several are joined by "and". Newest first (by id, falling). Deleted tasks are
 * found by nothing here: neither got, nor listed, nor counted. */
struct task_filter {
    int32_t tenant;
    unsigned states;         /* bit s: state s wanted; 0: any */
    bool by_kind, recurring; /* by_kind: only RECURRING (recurring), or only ONE_TIME */
    struct str name;         /* whole, or a prefix when it ends in '*' */
    struct str queue, task_type;
    int64_t due_before_ms, due_after_ms; /* after <= due_ms < before; 0: no bound */
    struct uuid parent;                  /* occurrences of a recurring task; nil: none are listed, unless */
    bool occurrences;                    /* those of all recurring tasks are, next to the other tasks */
    struct uuid before;                  /* only ids below it; nil: from the newest on */
    size_t limit, offset;                /* for a list only: reader_count counts all pages together */
};

struct task_page {
    struct tasks tasks;
    bool more;
    struct uuid next_before; /* if more: the page's last id */
};

/* Newest first, by id, falling. */
struct execution_filter {
    int32_t tenant;
    struct uuid task;  /* one-time or recurring; never nil */
    unsigned statuses; /* bit s; 0: any */
    struct uuid before;
    size_t limit;
};

struct execution_page {
    struct executions executions;
    bool more;
    struct uuid next_before;
};

/* Over all tenants and kinds, deleted tasks apart. */
struct store_counts {
    int64_t by_state[9]; /* enum task_state; counted up to 10,000 each where counting is slow */
    int64_t due;         /* SCHEDULED and not RECURRING, with due_ms <= now; up to 10,000 too */
};

struct reader {
    const struct reader_ops *ops;
};

struct reader_ops {
    enum err (*get)(struct reader *, int32_t tenant, struct uuid id, struct arena *, struct task *ret, struct error *);
    enum err (*list)(struct reader *, const struct task_filter *, struct arena *, struct task_page *ret,
                     struct error *);
    enum err (*count)(struct reader *, const struct task_filter *, size_t max, size_t *ret, struct error *);
    enum err (*executions)(struct reader *, const struct execution_filter *, struct arena *, struct execution_page *ret,
                           struct error *);
    enum err (*idempotency)(struct reader *, int32_t tenant, const uint8_t key[32], struct arena *,
                            struct idempotency *ret, struct error *);
    enum err (*key)(struct reader *, struct str id, struct arena *, struct api_key *ret, struct error *);
    enum err (*lanes)(struct reader *, struct arena *, struct lane **ret, size_t *ret_count, struct error *);
    enum err (*counts)(struct reader *, int64_t now_ms, struct store_counts *ret, struct error *);
    void (*free)(struct reader *);
};

struct store {
    const struct store_ops *ops;
};

struct store_ops {
    enum err (*apply)(struct store *, struct op *const *ops, size_t n, struct error *);
    enum err (*reader)(struct store *, struct reader **ret, struct error *);
    void (*free)(struct store *);
};

enum { STORE_BATCH_MAX = 4096, CLAIM_MAX = 8192, LIST_MAX = 1000 };

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err store_reader(struct store *s, struct reader **ret, struct error *e) must_use;
void store_free(struct store *s);

/* ERR_NOT_FOUND where there is none: also for another tenant's. */
enum err reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                    struct error *e) must_use;
enum err reader_list(struct reader *r, const struct task_filter *f, struct arena *a, struct task_page *ret,
                     struct error *e) must_use;
enum err reader_count(struct reader *r, const struct task_filter *f, size_t max, size_t *ret, struct error *e) must_use;
enum err reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                           struct execution_page *ret, struct error *e) must_use;
enum err reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                            struct idempotency *ret, struct error *e) must_use;
enum err reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e) must_use;
/* Every lane that holds a SCHEDULED task which a claim may take at its time, each once, in no order; lanes that hold none may be
 * among them. */
enum err reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count,
                      struct error *e) must_use;
enum err reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e) must_use;
void reader_free(struct reader *r);

/* ---- who carries operations to a store ---- */

/* A writer takes operations from any thread, gathers them into transactions (claims and settles before the rest, those of
 * one kind in the order they came) and calls op->done after the commit, on the thread of whoever drives it. */
struct writer {
    const struct writer_ops *ops;
};

struct writer_ops {
    void (*submit)(struct writer *, struct op *op);
};

static inline void writer_submit(struct writer *w, struct op *op)
{
    w->ops->submit(w, op);
}
