#pragma once
/* store/sqlite/flow/runs.h - what the operations for runs of workflows share: runs.c, run_stop.c, purge_runs.c. */
#include "store/sqlite/internal.h"

/* A task's row without its large columns, as ST_STEP and ST_STEPS read it. */
struct step_row {
    bool found;
    bool gated; /* has gates: may hold slots */
    int64_t rid, lane;
    struct task task; /* without texts */
    char queue[LANE_TEXT_MAX];
    size_t queue_size; /* 0: the lane has its queue */
};

void sqlite_step_read_row(sqlite3_stmt *st, struct step_row *ret); /* the current row */
enum err sqlite_step_read(struct store_sqlite *s, const struct uuid *id, struct step_row *ret,
                          struct error *e) must_use;
/* Writes the row, without its fence, and the counts. Adds the bit of its lane to *lanes if it is SCHEDULED. */
enum err sqlite_step_write(struct store_sqlite *s, struct step_row *r, enum task_state was, uint64_t *lanes,
                           struct error *e) must_use;

enum err sqlite_run_read(struct store_sqlite *s, const struct uuid *id, struct arena *a, struct run_row *ret,
                         bool *ret_found, struct error *e) must_use;
enum err sqlite_run_write(struct store_sqlite *s, const struct run_row *row, struct error *e) must_use;

/* Runs a statement with an id as its parameter; ST_OUTPUT_DELETE has a place, too. */
enum err sqlite_runs_delete(struct store_sqlite *s, enum writer_statement which, const struct uuid *id, int64_t place,
                            struct error *e) must_use;
