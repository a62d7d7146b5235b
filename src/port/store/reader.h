#pragma once
/* port/store/reader.h - reads tasks, executions and records, on a connection of its own. A part of port/store.h.
 *
 * One reader belongs to one thread at a time. It sees every transaction that was committed before the call, except
 * where the caller allows a lag (may_lag). */
#include "core/sharing/partition.h"
#include "port/secrets.h"
#include "port/store/audit.h"
#include "port/store/breakers.h"
#include "port/store/catalog.h"
#include "port/store/fleet.h"
#include "port/store/incidents.h"
#include "port/store/stats.h"
#include "port/store/tasks.h"

/* A filter that is zero does not filter; several are joined by "and". Newest first (by id, descending). No reader finds
 * deleted tasks: they are neither returned, nor listed, nor counted.
 *
 * With shown_at_ms, `states` are states that users see: a task matches if they have its task_shown_state then. So a
 * task that was claimed early is SCHEDULED, not RUNNING, until it is due. Without shown_at_ms, they are stored states.
 * Requests of users have shown_at_ms. The other filters are not affected by it. */
struct task_filter {
    int32_t tenant;
    unsigned states;         /* bit s: state s wanted; 0: any */
    int64_t shown_at_ms;     /* 0: `states` are stored ones */
    bool by_kind, recurring; /* by_kind: only RECURRING (recurring), or only ONE_TIME */
    struct str name;         /* whole, or a prefix when it ends in '*' */
    struct str queue, task_type;
    struct str calendar;        /* RECURRING tasks that name it */
    struct str cause;           /* of FAILED ones */
    bool by_resolved, resolved; /* by_resolved: only FAILED ones that are resolved, or only those that are not */
    struct str waits_for;       /* tasks that wait for this slot */
    bool runs;                  /* only runs of workflows */
    int64_t due_before_ms, due_after_ms;         /* after <= due_ms < before; 0: no bound */
    int64_t created_before_ms, created_after_ms; /* likewise of created_ms */
    struct uuid parent;   /* occurrences of this recurring task; nil: no occurrences, unless the next is set */
    bool occurrences;     /* occurrences of all recurring tasks, beside the other tasks */
    struct uuid before;   /* only ids below it; nil: from the newest on */
    struct uuid from;     /* only ids at or above it; nil: down to the oldest */
    size_t limit, offset; /* for a list; reader_count counts all pages together */
    bool may_lag;         /* for a person: the answer may miss what was committed a moment ago */
    bool brief;           /* the tasks of the page have no payload */
};

struct task_page {
    struct tasks tasks;
    bool more;
    struct uuid next_before; /* if more: the page's last id */
};

struct task_count {
    size_t n;
    bool is_cut; /* not all rows were looked at: there may be more */
};

/* Newest first, by id, descending. */
struct execution_filter {
    int32_t tenant;
    struct uuid task;  /* one-time or recurring; never nil */
    unsigned statuses; /* bit s; 0: any */
    struct uuid before;
    size_t limit;
    bool may_lag; /* as of tasks */
};

struct execution_page {
    struct executions executions;
    bool more;
    struct uuid next_before;
};

/* What ran, over all tasks of a tenant: the attempts that ended last come first, those that ended at about the same
 * time in any order. Several conditions are joined by "and". */
struct history_filter {
    int32_t tenant;
    unsigned statuses;      /* bit s; 0: any */
    struct str worker;      /* empty: any */
    struct str queue;       /* of the task; empty: any */
    struct str error;       /* the whole text; empty: any */
    int64_t from_us, to_us; /* from <= completed_us < to; from may be 0 */
    struct uuid before;     /* next_before of the page before this one; nil: the first page */
    size_t limit;
    bool may_lag;
};

struct history_row {
    struct execution execution;
    struct str name, queue; /* of its task; empty: the task is purged, or has no name */
};

struct history_page {
    struct history_row *v;
    size_t n;
    bool more;               /* also if the search was cut off: an empty page may have more */
    struct uuid next_before; /* a place in the store, not an id */
};

/* Dead letters grouped by cause: FAILED tasks that are neither resolved nor deleted. */
struct cause_group {
    struct str cause;
    int64_t count;                           /* up to 10,000 where counting is slow */
    int64_t first_failed_ms, last_failed_ms; /* completed_ms */
    struct uuid latest;                      /* the one that failed last; of several, the highest id */
    struct str last_error;                   /* its */
};

struct cause_groups {
    struct cause_group *v;
    size_t n;
};

/* A name that tasks other than occurrences have. */
struct task_name {
    struct str name;
    struct uuid newest; /* the newest task of this name */
    bool is_only;       /* there is no other task of this name */
};

struct task_names {
    struct task_name *v;
    size_t n;
};

struct key_list {
    struct api_key *v;
    size_t n;
};

struct used_queues {
    struct str *v;
    size_t n;
};

/* A task that holds a slot. */
struct slot_holder {
    struct uuid task;
    enum task_state state;
    int64_t scheduled_ms;
};

struct slot_holders {
    struct slot_holder *v;
    size_t n;
};

/* Over all tenants and kinds, without deleted tasks. May lag a moment. */
struct store_counts {
    int64_t by_state[9]; /* enum task_state; counted up to 10,000 each where counting is slow */
    int64_t due;         /* SCHEDULED and not RECURRING, with due_ms <= now; also up to 10,000 */
};

/* Due tasks of a lane that a claim could take. */
struct backlog_row {
    int32_t tenant;
    struct str queue;
    int priority;
    int64_t due;
};

struct backlog_rows {
    struct backlog_row *v;
    size_t n;
    int64_t by_partition[PARTITIONS]; /* of all lanes together; if the store is not shared, all are in the first */
};

/* What a tenant has, without deleted tasks. */
struct tenant_usage {
    int64_t pending;   /* not final, of any kind */
    int64_t recurring; /* RECURRING ones among them */
};

/* The terms of a lease. */
struct lease_row {
    int64_t fence, until_ms;
    struct str worker, progress;
    bool is_ended; /* its user wants it ended, as lease_renewal.ret_ended says */
};

/* Tasks with secrets, for OP_RESEAL. Of each only id, tenant, kind, parent, state and target_config are set. */
struct sealed_page {
    struct tasks tasks; /* by id */
    bool more;
    struct uuid next_after; /* if more */
};

struct reader {
    const struct reader_ops *ops;
};

struct reader_ops {
    enum err (*get)(struct reader *, int32_t tenant, struct uuid id, struct arena *, struct task *ret, struct error *);
    enum err (*list)(struct reader *, const struct task_filter *, struct arena *, struct task_page *ret,
                     struct error *);
    enum err (*count)(struct reader *, const struct task_filter *, size_t max, struct task_count *ret, struct error *);
    enum err (*executions)(struct reader *, const struct execution_filter *, struct arena *, struct execution_page *ret,
                           struct error *);
    enum err (*history)(struct reader *, const struct history_filter *, struct arena *, struct history_page *ret,
                        struct error *);
    enum err (*idempotency)(struct reader *, int32_t tenant, const uint8_t key[32], struct arena *,
                            struct idempotency *ret, struct error *);
    enum err (*key)(struct reader *, struct str id, struct arena *, struct api_key *ret, struct error *);
    enum err (*keys)(struct reader *, int32_t tenant, struct arena *, struct key_list *ret, struct error *);
    enum err (*dedupe)(struct reader *, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *);
    enum err (*links)(struct reader *, int32_t tenant, struct uuid task, struct arena *, struct task_links *ret,
                      struct error *);
    enum err (*slots)(struct reader *, struct str key, struct arena *, struct slot_holders *ret, struct error *);
    enum err (*causes)(struct reader *, int32_t tenant, size_t max, struct arena *, struct cause_groups *ret,
                       struct error *);
    enum err (*names)(struct reader *, int32_t tenant, struct str prefix, size_t max, struct arena *,
                      struct task_names *ret, struct error *);
    enum err (*catalog_get)(struct reader *, int32_t tenant, enum catalog_kind, struct str name, struct arena *,
                            struct catalog_entry *ret, struct error *);
    enum err (*catalog_list)(struct reader *, const struct catalog_filter *, struct arena *, struct catalog_page *ret,
                             struct error *);
    enum err (*lanes)(struct reader *, struct arena *, struct lane **ret, size_t *ret_count, struct error *);
    enum err (*queues)(struct reader *, int32_t tenant, struct arena *, struct used_queues *ret, struct error *);
    enum err (*counts)(struct reader *, int64_t now_ms, struct store_counts *ret, struct error *);
    enum err (*queue_due)(struct reader *, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *);
    enum err (*backlog)(struct reader *, int64_t now_ms, struct arena *, struct backlog_rows *ret, struct error *);
    enum err (*usage)(struct reader *, int32_t tenant, struct tenant_usage *ret, struct error *);
    enum err (*lease)(struct reader *, int32_t tenant, struct uuid task, struct arena *, struct lease_row *ret,
                      struct error *);
    enum err (*workers)(struct reader *, struct uuid before, size_t max, struct arena *, struct worker_rows *ret,
                        struct error *);
    enum err (*breakers)(struct reader *, const struct breaker_filter *, struct arena *, struct breaker_rows *ret,
                         struct error *);
    enum err (*stats)(struct reader *, const struct stats_filter *, struct arena *, struct stats_points *ret,
                      struct error *);
    enum err (*sealed)(struct reader *, struct str key_id, bool *ret, struct error *);
    enum err (*sealed_page)(struct reader *, struct str key_id, struct uuid after, size_t max, struct arena *,
                            struct sealed_page *ret, struct error *);
    enum err (*key_prints)(struct reader *, struct key_prints *ret, struct error *);
    enum err (*audit)(struct reader *, const struct audit_filter *, struct arena *, struct audit_page *ret,
                      struct error *);
    enum err (*hits)(struct reader *, size_t max, struct arena *, struct hit_list *ret, struct error *);
    enum err (*records)(struct reader *, const struct record_filter *, struct arena *, struct record_page *ret,
                        struct error *);
    enum err (*definitions)(struct reader *, const struct definition *after, size_t max, struct arena *,
                            struct definition_page *ret, struct error *);
    enum err (*definition)(struct reader *, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *,
                           struct str *ret, struct error *);
    enum err (*workflow)(struct reader *, int32_t tenant, struct str name, int64_t version, struct arena *,
                         struct workflow_row *ret, struct error *);
    enum err (*workflows)(struct reader *, int32_t tenant, struct str after, size_t max, struct arena *,
                          struct workflow_rows *ret, struct error *);
    enum err (*run)(struct reader *, int32_t tenant, struct uuid run, struct arena *, struct run_row *ret,
                    struct error *);
    enum err (*steps)(struct reader *, const struct step_filter *, struct arena *, struct tasks *ret, struct error *);
    enum err (*outputs)(struct reader *, struct uuid run, int64_t from, int64_t to, size_t max, struct arena *,
                        struct run_outputs *ret, struct error *);
    enum err (*signals)(struct reader *, struct uuid run, struct str name, struct arena *, struct signal_rows *ret,
                        struct error *);
    enum err (*unstarted)(struct reader *, struct task *v, size_t n, int64_t now_ms, struct error *);
    enum err (*clock)(struct reader *, int64_t *ret_us, struct error *); /* NULL: the store has no clock of its own */
    void (*free)(struct reader *);
};

/* ERR_NOT_FOUND if there is none, or if it belongs to another tenant. */
enum err reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                    struct error *e) must_use;
enum err reader_list(struct reader *r, const struct task_filter *f, struct arena *a, struct task_page *ret,
                     struct error *e) must_use;
enum err reader_count(struct reader *r, const struct task_filter *f, size_t max, size_t *ret, struct error *e) must_use;
enum err reader_count_tasks(struct reader *r, const struct task_filter *f, size_t max, struct task_count *ret,
                            struct error *e) must_use; /* the same, and whether that is all */
enum err reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                           struct execution_page *ret, struct error *e) must_use;
enum err reader_history(struct reader *r, const struct history_filter *f, struct arena *a, struct history_page *ret,
                        struct error *e) must_use;
enum err reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                            struct idempotency *ret, struct error *e) must_use;
enum err reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e) must_use;
/* The tenant's keys, by id; at most LIST_MAX. */
enum err reader_keys(struct reader *r, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e) must_use;
/* The task that holds a dedupe key at now_ms; ERR_NOT_FOUND: none, also if that task is deleted or purged. */
enum err reader_dedupe(struct reader *r, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *e) must_use;
/* The tasks around a task by its edges. A task that does not exist has none. */
enum err reader_links(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct task_links *ret,
                      struct error *e) must_use;
/* By scheduled_ms, then id; at most LIST_MAX. */
enum err reader_slots(struct reader *r, struct str key, struct arena *a, struct slot_holders *ret,
                      struct error *e) must_use;
/* The largest groups first, then by cause; at most max. */
enum err reader_causes(struct reader *r, int32_t tenant, size_t max, struct arena *a, struct cause_groups *ret,
                       struct error *e) must_use;
/* Names that begin with `prefix`, in ascending order of their bytes, each once; at most max. The cost grows with max,
 * not with the number of tasks. May lag a moment. */
enum err reader_names(struct reader *r, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                      struct task_names *ret, struct error *e) must_use;
enum err reader_catalog_get(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                            struct catalog_entry *ret, struct error *e) must_use;
enum err reader_catalog_list(struct reader *r, const struct catalog_filter *f, struct arena *a,
                             struct catalog_page *ret, struct error *e) must_use;
/* Every lane that has a SCHEDULED or BLOCKED task which a claim may take at its due time, or a RUNNING task, which may
 * become SCHEDULED again, or a PAUSED step of a run, which OP_STOP may resume; each once, in no order. Lanes without
 * such a task may be among them. */
enum err reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count,
                      struct error *e) must_use;
/* The queues of all tasks that are not final, also of those that only a lease takes; each once, in no order. Other
 * queues that had such tasks may be among them. May lag a moment. */
enum err reader_queues(struct reader *r, int32_t tenant, struct arena *a, struct used_queues *ret,
                       struct error *e) must_use;
enum err reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e) must_use;
/* How many tasks of a queue a claim could take now; up to 10,000 where counting is slow. May lag a moment. */
enum err reader_queue_due(struct reader *r, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *e) must_use;
/* Every lane that has such tasks, each once, in no order; counted to the last. May lag a moment, and may take long. */
enum err reader_backlog(struct reader *r, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                        struct error *e) must_use;
enum err reader_usage(struct reader *r, int32_t tenant, struct tenant_usage *ret, struct error *e) must_use;
/* Of a task that is RUNNING under a lease; else ERR_NOT_FOUND. */
enum err reader_lease(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct lease_row *ret,
                      struct error *e) must_use;
/* By id, descending, below `before` (nil: from the highest on); at most max, up to LIST_MAX. */
enum err reader_workers(struct reader *r, struct uuid before, size_t max, struct arena *a, struct worker_rows *ret,
                        struct error *e) must_use;
/* At most `limit` of them. */
enum err reader_breakers(struct reader *r, const struct breaker_filter *f, struct arena *a, struct breaker_rows *ret,
                         struct error *e) must_use;
/* See port/store/stats.h. May lag a moment. */
enum err reader_stats(struct reader *r, const struct stats_filter *f, struct arena *a, struct stats_points *ret,
                      struct error *e) must_use;
/* The last minutes before end_ms, which is rounded down to a minute. The caller releases *ret; the arena has what was
 * read. */
struct stats_history;
enum err reader_stats_history(struct reader *r, int32_t tenant, int64_t end_ms, size_t minutes, struct arena *a,
                              struct stats_history *ret, struct error *e) must_use;
/* Whether a task, a definition or a catalog entry has a secret that is encrypted with this key (port/secrets.h); empty:
 * with any. Reads them all. */
enum err reader_sealed(struct reader *r, struct str key_id, bool *ret, struct error *e) must_use;
/* Looks at the next `max` tasks above `after`, at fewer if the arena is full, deleted ones included. Returns those that
 * have a secret which is encrypted with another key than this one. */
enum err reader_sealed_page(struct reader *r, struct str key_id, struct uuid after, size_t max, struct arena *a,
                            struct sealed_page *ret, struct error *e) must_use;
/* The keys that the store knows. */
enum err reader_key_prints(struct reader *r, struct key_prints *ret, struct error *e) must_use;
/* See port/store/audit.h. */
enum err reader_audit(struct reader *r, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                      struct error *e) must_use;
/* See port/store/incidents.h. The oldest hits of all tenants, by id; at most max. */
enum err reader_hits(struct reader *r, size_t max, struct arena *a, struct hit_list *ret, struct error *e) must_use;
enum err reader_records(struct reader *r, const struct record_filter *f, struct arena *a, struct record_page *ret,
                        struct error *e) must_use;
/* Sets unstarted_count of the RECURRING tasks among these: how many of their occurrences task_is_unstarted. A claimed
 * occurrence counts only if it was scheduled less than UNSTARTED_MS before now_ms, its spread aside. */
enum { UNSTARTED_MS = 60000 };
enum err reader_unstarted(struct reader *r, struct task *v, size_t n, int64_t now_ms, struct error *e) must_use;
struct uuid unstarted_from(const struct task *recurring, int64_t now_ms); /* for stores: the lowest id of such a one */
/* The text of a definition; ERR_NOT_FOUND. */
enum err reader_definition(struct reader *r, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *a,
                           struct str *ret, struct error *e) must_use;
/* The next `max` definitions behind `after`, fewer if the arena is full; all zero: from the first one on. */
enum err reader_definitions(struct reader *r, const struct definition *after, size_t max, struct arena *a,
                            struct definition_page *ret, struct error *e) must_use;
/* A version of a named definition, without its text; version 0: the latest. ERR_NOT_FOUND. */
enum err reader_workflow(struct reader *r, int32_t tenant, struct str name, int64_t version, struct arena *a,
                         struct workflow_row *ret, struct error *e) must_use;
/* The latest version of each name behind `after`, by name; at most max. */
enum err reader_workflows(struct reader *r, int32_t tenant, struct str after, size_t max, struct arena *a,
                          struct workflow_rows *ret, struct error *e) must_use;
/* ERR_NOT_FOUND: there is none, it was never opened, or it belongs to another tenant. */
enum err reader_run(struct reader *r, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                    struct error *e) must_use;
/* The tasks of a run, by place. */
enum err reader_steps(struct reader *r, const struct step_filter *f, struct arena *a, struct tasks *ret,
                      struct error *e) must_use;
/* Outputs that are kept of a run, of the places from..to (inclusive), by place; at most max. PLACE_RUN: its result. */
enum err reader_outputs(struct reader *r, struct uuid run, int64_t from, int64_t to, size_t max, struct arena *a,
                        struct run_outputs *ret, struct error *e) must_use;
/* By time, then sender. */
enum err reader_signals(struct reader *r, struct uuid run, struct str name, struct arena *a, struct signal_rows *ret,
                        struct error *e) must_use;
/* The store's clock, as in OP_HEARTBEAT 6; 0: it has none of its own. */
enum err reader_clock(struct reader *r, int64_t *ret_us, struct error *e) must_use;
void reader_free(struct reader *r);
