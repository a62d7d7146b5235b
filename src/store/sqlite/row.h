#pragma once
/* store/sqlite/row.h - rows and the structs that they are read into and bound from. */
#include "store/common/columns.h"
#include "store/common/sql_states.h"
#include "store/sqlite/connection.h"

/* Nearly every inserted task is one-time and has never run: half of its columns are 0 or NULL. The statement for such a
 * fresh task holds these values as literals, so that they are not bound. */
#define FRESH_id                             "?"
#define FRESH_tenant_id                      "?"
#define FRESH_state                          SQL_SCHEDULED
#define FRESH_fence                          "0"
#define FRESH_deleted                        "0"
#define FRESH_claim_id                       "NULL"
#define FRESH_kind                           "0"
#define FRESH_lane                           "?"
#define FRESH_due_ms                         "?"
#define FRESH_delivery                       "?"
#define FRESH_version                        "?"
#define FRESH_attempts                       "0"
#define FRESH_losses                         "0"
#define FRESH_completed_ms                   "0"
#define FRESH_scheduled_ms                   "?"
#define FRESH_started_ms                     "0"
#define FRESH_updated_ms                     "?"
#define FRESH_created_ms                     "?"
#define FRESH_parent_id                      "NULL"
#define FRESH_cursor_ms                      "0"
#define FRESH_last_run_ms                    "0"
#define FRESH_runs_count                     "0"
#define FRESH_skipped_count                  "0"
#define FRESH_priority                       "?"
#define FRESH_target                         "?"
#define FRESH_timeout_ms                     "?"
#define FRESH_expires_after_ms               "?"
#define FRESH_name                           "?"
#define FRESH_task_type                      "?"
#define FRESH_retry                          "?"
#define FRESH_schedule                       "NULL"
#define FRESH_last_error                     "NULL"
#define FRESH_target_config                  "?"
#define FRESH_extra                          "?"
#define FRESH_payload                        "?"
#define FRESH_gates                          "?"
#define FRESH_needs                          "NULL"
#define FRESH_aside                          "NULL"
#define FRESH_recalled                       "0"
#define FRESH_awaited_ms                     "0"
#define FRESH_late_by                        "0"
#define FRESH_links                          "0"
#define FRESH_run_id                         "NULL"
#define FRESH_place                          "0"
#define FRESH_queue                          "NULL"
#define FRESH_trace                          "?"
#define FRESH_waits_for                      "NULL"
#define FRESH_cause                          "NULL"
#define FRESH_resolved_ms                    "0"
#define FRESH_resolution                     "NULL"
#define FRESH_failed_ms                      "NULL"
#define FRESH_calendar                       "NULL"
#define SQL_FRESH(column, kind, member, max) ", " FRESH_##column
bool row_is_fresh(struct conn *c, const struct task *t);
void row_bind_fresh(struct conn *c, sqlite3_stmt *st, const struct task *t, int64_t lane);

/* Binds the struct's members from parameter `first` on, except the lane, which the caller binds. Texts are borrowed
 * until the next bind. */
void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row);

/* Reads the columns from `first` on into a zeroed struct. ERR_LIMIT: the arena is full. ERR_CORRUPT: the row is not
 * valid. */
enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e) must_use;
/* The same, but column left_out of the statement is not read; -1: none. */
enum err row_read_without(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, int left_out,
                          struct arena *a, void *row, struct error *e) must_use;
/* Reads only the column `gates`, into a task whose kind is set. NULL is fine. */
enum err row_read_gates(sqlite3_stmt *st, int at, struct arena *a, struct task *ret, struct error *e) must_use;
struct uuid row_uuid(sqlite3_stmt *st, int column); /* nil when NULL */
struct str row_text(sqlite3_stmt *st, int column);  /* SQLite's, until the next step */
bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u);
bool bind_str(sqlite3_stmt *st, int at, struct str s); /* empty is "", not NULL */
