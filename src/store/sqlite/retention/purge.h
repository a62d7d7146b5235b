#pragma once
/* store/sqlite/retention/purge.h - shared by purge.c and purge_runs.c. */
#include "store/sqlite/internal.h"

struct purge_budget {
    int64_t before_ms;
    size_t left;            /* how many may still be deleted */
    size_t visits;          /* how many may still be examined */
    size_t *count;          /* deleted so far */
    struct slot_keys *keys; /* slots that purged steps gave up: handed over when their rows are gone */
};

/* A task that is deleted: the first PURGED_COLUMNS of ST_ENDED_TASK, ST_FAILED_OLD and ST_STEPS_PURGED. */
struct purged_task {
    int64_t rid;
    struct uuid id;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    int links;
    enum target_kind target;
};
enum { PURGED_COLUMNS = 7 };
struct purged_task sqlite_purged_task(sqlite3_stmt *st);

/* Deletes a task's row, its join and its edges; f->left is not 0. */
enum err sqlite_purge_row(struct store_sqlite *s, struct purge_budget *f, const struct purged_task *t,
                          struct error *e) must_use;

/* Deletes everything of a run except its task. *ret_done false: there was no room for all of it. */
enum err sqlite_purge_run(struct store_sqlite *s, struct purge_budget *f, const struct uuid *run, bool *ret_done,
                          struct error *e) must_use;
/* Merges and deletes rows of stats. *ret_more: there were as many as may be at a time. */
enum err sqlite_purge_stats(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more,
                            struct error *e) must_use;
enum err sqlite_purge_definitions(struct store_sqlite *s, int64_t now_ms, size_t max, size_t *count,
                                  struct error *e) must_use;
