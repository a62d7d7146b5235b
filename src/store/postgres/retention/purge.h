#pragma once
/* store/postgres/retention/purge.h - the state of one OP_PURGE, shared by purge.c and purge_runs.c. */
#include "store/postgres/internal.h"

struct pg_purge {
    struct store_postgres *s;
    size_t left;  /* how many rows may still be deleted */
    size_t count; /* how many were deleted */
};
void pg_purge_add_count(struct pg_purge *f, size_t n);

/* What a statement returns of the tasks that it deletes. */
#define PURGED "tenant_id, state, deleted, links, id, target, claim_id, gates IS NOT NULL"
/* Counts deleted tasks, and deletes what belongs to them. */
enum err pg_purge_count_tasks(struct pg_purge *f, const struct pg_result *r, struct error *e) must_use;

/* A task that the purge of tasks may delete: a run that has steps goes after them. */
#define PURGE_MAY "run_id IS NULL AND (target <> 4 OR NOT EXISTS (SELECT FROM tasks AS s WHERE s.run_id = tasks.id))"

/* Deletes steps of a run and of the runs within it, as many as may be deleted. *ret_done: none is left. */
enum err pg_purge_steps(struct pg_purge *f, struct uuid run, bool *ret_done, struct error *e) must_use;
/* The runs' own rows were deleted: deletes all that is left of them. */
enum err pg_purge_runs_rest(struct store_postgres *s, const struct uuid *runs, size_t n, struct error *e) must_use;
/* Merges and deletes rows of stats. *ret_more: there were as many as may be at a time. */
enum err pg_purge_stats(struct store_postgres *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e) must_use;
enum err pg_purge_definitions(struct pg_purge *f, int64_t now_ms, struct error *e) must_use;

enum err pg_purge_audit(struct pg_purge *f, int64_t before_ms, struct error *e) must_use;
