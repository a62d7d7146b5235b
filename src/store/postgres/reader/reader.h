#pragma once
/* store/postgres/reader/reader.h - shared by the reads of a PostgreSQL reader. One thread at a time uses a
 * reader. */
#include "store/common/reading.h"
#include "store/postgres/internal.h"

struct pg_reader_conn {
    struct pg_conn conn;
    uint64_t set_up; /* generation of the connection whose session settings were made */
};

struct pg_reader {
    struct reader base;
    struct pg_reader_conn current; /* to the writable server: sees every committed transaction */
    struct pg_reader_conn replica; /* to the replica, if there is one: may lag */
    bool has_replica;
    struct pg_conn *last_conn; /* the connection of the latest result; lanes are read from it too */
    struct pg_params params;   /* of the statement that is being built */
    struct store_lanes lanes;
    struct error discarded; /* for callers that pass no struct error */
};

static inline struct pg_reader *pg_reader_self(struct reader *r)
{
    return container_of(r, struct pg_reader, base);
}

static inline struct error *pg_reader_error(struct reader *r, struct error *e)
{
    return e ? e : &pg_reader_self(r)->discarded;
}

/* The reader's parameters, emptied. */
struct pg_params *pg_reader_params(struct pg_reader *r);

/* Runs a statement with these parameters. If may_lag, tries the replica first. */
enum err pg_reader_run(struct pg_reader *r, bool may_lag, const struct pg_statement *s, struct pg_result *ret,
                       struct error *e) must_use;
/* Reads the only row of a statement, from its second column on, into a zeroed struct. If there is no row:
 * ERR_NOT_FOUND, with a sentence that names the table's subject. */
enum err pg_reader_run_one(struct pg_reader *r, const struct pg_statement *s, const struct table *t, struct arena *a,
                           void *row, struct error *e) must_use;

/* A statement for pg_row_read: the table's columns begin at the second column. */
#define PG_ROWS(columns, rest) "SELECT 0" columns(SQL_NAME) " FROM " rest

enum err reader_postgres_list(struct reader *base, const struct task_filter *f, struct arena *a, struct task_page *ret,
                              struct error *e);
enum err reader_postgres_count(struct reader *base, const struct task_filter *f, size_t max, struct task_count *ret,
                               struct error *e);
enum err reader_postgres_executions(struct reader *base, const struct execution_filter *f, struct arena *a,
                                    struct execution_page *ret, struct error *e);
enum err reader_postgres_history(struct reader *base, const struct history_filter *f, struct arena *a,
                                 struct history_page *ret, struct error *e);
enum err reader_postgres_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                     struct idempotency *ret, struct error *e);
enum err reader_postgres_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret, struct error *e);
enum err reader_postgres_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                              struct error *e);
enum err reader_postgres_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                                struct error *e);
enum err reader_postgres_links(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                               struct task_links *ret, struct error *e);
enum err reader_postgres_slots(struct reader *base, struct str key, struct arena *a, struct slot_holders *ret,
                               struct error *e);
enum err reader_postgres_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                                struct cause_groups *ret, struct error *e);
enum err reader_postgres_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                               struct task_names *ret, struct error *e);
enum err reader_postgres_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                     struct arena *a, struct catalog_entry *ret, struct error *e);
enum err reader_postgres_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                      struct catalog_page *ret, struct error *e);
enum err reader_postgres_lanes(struct reader *base, struct arena *a, struct lane **ret, size_t *ret_count,
                               struct error *e);
enum err reader_postgres_queues(struct reader *base, int32_t tenant, struct arena *a, struct used_queues *ret,
                                struct error *e);
enum err reader_postgres_counts(struct reader *base, int64_t now_ms, struct store_counts *ret, struct error *e);
enum err reader_postgres_queue_due(struct reader *base, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                                   struct error *e);
enum err reader_postgres_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e);
enum err reader_postgres_lease(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                               struct lease_row *ret, struct error *e);
enum err reader_postgres_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                                 struct worker_rows *ret, struct error *e);
enum err reader_postgres_stats(struct reader *base, const struct stats_filter *f, struct arena *a,
                               struct stats_points *ret, struct error *e);
enum err reader_postgres_hits(struct reader *base, size_t max, struct arena *a, struct hit_list *ret, struct error *e);
enum err reader_postgres_records(struct reader *base, const struct record_filter *f, struct arena *a,
                                 struct record_page *ret, struct error *e);
enum err reader_postgres_breakers(struct reader *base, const struct breaker_filter *f, struct arena *a,
                                  struct breaker_rows *ret, struct error *e);
enum err reader_postgres_definitions(struct reader *base, const struct definition *after, size_t max, struct arena *a,
                                     struct definition_page *ret, struct error *e);
enum err reader_postgres_definition(struct reader *base, int32_t tenant, const uint8_t hash[DEFINITION_HASH],
                                    struct arena *a, struct str *ret, struct error *e);
enum err reader_postgres_workflow(struct reader *base, int32_t tenant, struct str name, int64_t version,
                                  struct arena *a, struct workflow_row *ret, struct error *e);
enum err reader_postgres_workflows(struct reader *base, int32_t tenant, struct str after, size_t max, struct arena *a,
                                   struct workflow_rows *ret, struct error *e);
enum err reader_postgres_run(struct reader *base, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                             struct error *e);
enum err reader_postgres_steps(struct reader *base, const struct step_filter *f, struct arena *a, struct tasks *ret,
                               struct error *e);
enum err reader_postgres_outputs(struct reader *base, struct uuid run, int64_t from, int64_t to, size_t max,
                                 struct arena *a, struct run_outputs *ret, struct error *e);
enum err reader_postgres_signals(struct reader *base, struct uuid run, struct str name, struct arena *a,
                                 struct signal_rows *ret, struct error *e);
enum err reader_postgres_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e);
enum err reader_postgres_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                     struct arena *a, struct sealed_page *ret, struct error *e);
enum err reader_postgres_key_prints(struct reader *base, struct key_prints *ret, struct error *e);
enum err reader_postgres_audit(struct reader *base, const struct audit_filter *f, struct arena *a,
                               struct audit_page *ret, struct error *e);
enum err reader_postgres_backlog(struct reader *base, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                                 struct error *e);
enum err reader_postgres_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e);
enum err reader_postgres_clock(struct reader *base, int64_t *ret_us, struct error *e);
