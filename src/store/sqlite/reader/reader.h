#pragma once
/* store/sqlite/reader/reader.h - shared by the reads of a reader, which stand in the folders of their subjects. One
 * thread at a time uses a reader. */
#include "store/sqlite/internal.h"

struct reader_sqlite {
    struct reader base;
    struct conn conn;
    struct task *tasks; /* of the page that is being built */
    size_t task_room;
    struct execution *executions;
};

/* A reader's statements. Their texts are in reader/reader.c. */
enum reader_statement {
    RD_TASK,
    RD_LIST,
    RD_LIST_FAILED,
    RD_LIST_CAUSE,
    RD_LIST_WAITING,
    RD_LIST_NAME,
    RD_LIST_TYPE,
    RD_LIST_PARENT,
    RD_EXECUTIONS,
    RD_IDEMPOTENCY,
    RD_KEY,
    RD_SLOTS,
    RD_JOIN,
    RD_PARENTS,
    RD_CHILDREN,
    RD_COUNTS,
    RD_DUE,
    RD_KEYS,
    RD_DEDUPE,
    RD_NEXT_NAME,
    RD_NAMED,
    RD_NEXT_CAUSE,
    RD_CAUSE,
    RD_LAST_ERROR,
    RD_CATALOG,
    RD_CATALOG_LIST,
    RD_CATALOG_LIST_ALL,
    RD_LIST_CALENDAR,
    RD_PENDING,
    RD_RECURRING,
    RD_LEASE,
    RD_WORKERS,
    RD_BREAKERS,
    RD_STATS,
    RD_HITS,
    RD_RECORDS,
    RD_RECORDS_DUE,
    RD_ABORT_REQUESTED,
    RD_SEALED,
    RD_SEALED_PAGE,
    RD_AUDIT,
    RD_AUDIT_SCANNED,
    RD_HISTORY,
    RD_HISTORY_AT,
    RD_HISTORY_ENDS,
    RD_UNSTARTED,
    RD_LIST_RUNS,
    RD_DEFINITION,
    RD_DEFINITIONS,
    RD_WORKFLOW,
    RD_WORKFLOWS,
    RD_RUN,
    RD_STEPS,
    RD_OUTPUTS,
    RD_SIGNALS,
    RD_COUNT
};

static inline struct reader_sqlite *reader_sqlite_of(struct reader *r)
{
    return container_of(r, struct reader_sqlite, base);
}

void reader_sqlite_make_room(struct reader_sqlite *r, size_t tasks); /* what was in r->tasks is forgotten */

/* Reads the only row of a bound statement, if there is one. */
enum err reader_sqlite_read_one(struct reader_sqlite *r, sqlite3_stmt *st, const struct table *t, struct arena *a,
                                void *row, bool *ret_found, struct error *e) must_use;

/* ---- the reads (port/store/reader.h) ---- */

enum err reader_sqlite_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                   struct idempotency *ret, struct error *e);
enum err reader_sqlite_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret, struct error *e);
enum err reader_sqlite_list(struct reader *base, const struct task_filter *f, struct arena *a, struct task_page *ret,
                            struct error *e);
enum err reader_sqlite_count(struct reader *base, const struct task_filter *f, size_t max, struct task_count *ret,
                             struct error *e);
enum err reader_sqlite_executions(struct reader *base, const struct execution_filter *f, struct arena *a,
                                  struct execution_page *ret, struct error *e);
enum err reader_sqlite_slots(struct reader *base, struct str key, struct arena *a, struct slot_holders *ret,
                             struct error *e);
enum err reader_sqlite_lanes(struct reader *base, struct arena *a, struct lane **ret, size_t *ret_count,
                             struct error *e);
enum err reader_sqlite_queues(struct reader *base, int32_t tenant, struct arena *a, struct used_queues *ret,
                              struct error *e);
enum err reader_sqlite_counts(struct reader *base, int64_t now_ms, struct store_counts *ret, struct error *e);
enum err reader_sqlite_backlog(struct reader *base, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                               struct error *e);
enum err reader_sqlite_queue_due(struct reader *base, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                                 struct error *e);
enum err reader_sqlite_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                            struct error *e);
enum err reader_sqlite_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                              struct error *e);
enum err reader_sqlite_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                             struct task_names *ret, struct error *e);
enum err reader_sqlite_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                              struct cause_groups *ret, struct error *e);
enum err reader_sqlite_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                   struct arena *a, struct catalog_entry *ret, struct error *e);
enum err reader_sqlite_links(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct task_links *ret, struct error *e);
enum err reader_sqlite_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e);
enum err reader_sqlite_lease(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct lease_row *ret, struct error *e);
enum err reader_sqlite_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                               struct worker_rows *ret, struct error *e);
enum err reader_sqlite_breakers(struct reader *base, const struct breaker_filter *f, struct arena *a,
                                struct breaker_rows *ret, struct error *e);
enum err reader_sqlite_stats(struct reader *base, const struct stats_filter *f, struct arena *a,
                             struct stats_points *ret, struct error *e);
enum err reader_sqlite_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                    struct catalog_page *ret, struct error *e);
enum err reader_sqlite_hits(struct reader *base, size_t max, struct arena *a, struct hit_list *ret, struct error *e);
enum err reader_sqlite_records(struct reader *base, const struct record_filter *f, struct arena *a,
                               struct record_page *ret, struct error *e);
enum err reader_sqlite_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e);
enum err reader_sqlite_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                   struct arena *a, struct sealed_page *ret, struct error *e);
enum err reader_sqlite_key_prints(struct reader *base, struct key_prints *ret, struct error *e);
enum err reader_sqlite_history(struct reader *base, const struct history_filter *f, struct arena *a,
                               struct history_page *ret, struct error *e);
enum err reader_sqlite_audit(struct reader *base, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                             struct error *e);
enum err reader_sqlite_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e);
enum err reader_sqlite_definitions(struct reader *base, const struct definition *after, size_t max, struct arena *a,
                                   struct definition_page *ret, struct error *e);
enum err reader_sqlite_definition(struct reader *base, int32_t tenant, const uint8_t hash[DEFINITION_HASH],
                                  struct arena *a, struct str *ret, struct error *e);
enum err reader_sqlite_workflow(struct reader *base, int32_t tenant, struct str name, int64_t version, struct arena *a,
                                struct workflow_row *ret, struct error *e);
enum err reader_sqlite_workflows(struct reader *base, int32_t tenant, struct str after, size_t max, struct arena *a,
                                 struct workflow_rows *ret, struct error *e);
enum err reader_sqlite_run(struct reader *base, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                           struct error *e);
enum err reader_sqlite_steps(struct reader *base, const struct step_filter *f, struct arena *a, struct tasks *ret,
                             struct error *e);
enum err reader_sqlite_outputs(struct reader *base, struct uuid run, int64_t from, int64_t to, size_t max,
                               struct arena *a, struct run_outputs *ret, struct error *e);
enum err reader_sqlite_signals(struct reader *base, struct uuid run, struct str name, struct arena *a,
                               struct signal_rows *ret, struct error *e);
