#pragma once
/* store/sqlite/connection.h - a connection to the file: opening it, its statements, its errors, and the lanes that it
 * has loaded. */
#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/common/lane_table.h"

struct conn {
    sqlite3 *db;
    char *path;
    bool is_backup; /* CONN_VERIFY: the errors do not advise to restore a backup */
    const char *const *sql;
    sqlite3_stmt **stmts; /* one for each text; NULL: not prepared yet */
    size_t stmt_count;
    enum err failed; /* set by conn_fail: the transaction on this connection must be rolled back */
    struct error failure;
    struct store_lanes lanes;
    struct buf texts[4]; /* JSON of the row that is being bound */
};

enum conn_mode {
    CONN_WRITER,
    CONN_READER,
    CONN_CHECKPOINT,
    CONN_COPY,   /* reads, and may write to another file */
    CONN_VERIFY, /* reads a backup */
};

enum err conn_open(struct conn *c, const char *path, enum conn_mode mode, struct error *e) must_use;
/* A server has many readers, and each runs few of the statements: a reader's are prepared when they are first used. */
enum err conn_set_statements(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use;
enum err conn_prepare(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use; /* all at once */
/* NULL if it cannot be prepared. To bind and to step NULL are errors, and conn_fail says why it is NULL. */
sqlite3_stmt *conn_stmt(struct conn *c, size_t which);
void conn_release(struct conn *c); /* a zeroed one is fine */

/* Converts SQLite's latest error on this connection to an enum err. Also stores it in `failed`. */
enum err conn_fail(struct conn *c, struct error *e);
/* The same for damage that our own code found. */
enum err conn_corrupt(struct conn *c, const char *what, struct error *e);
enum err conn_exec(struct conn *c, const char *sql, struct error *e) must_use;
enum err conn_number(struct conn *c, const char *sql, int64_t *ret, struct error *e) must_use; /* one row, one column */

/* Runs a bound statement that returns no row, and resets it. */
enum err conn_run(struct conn *c, sqlite3_stmt *st, struct error *e) must_use;
/* *ret_row says whether the statement stands on a row. If it does not, or on an error, the statement is reset. */
enum err conn_step(struct conn *c, sqlite3_stmt *st, bool *ret_row, struct error *e) must_use;

/* ---- lanes (lanes.c) ---- */

enum err lanes_load(struct conn *c, struct error *e) must_use;
const struct lane_row *lanes_find(struct conn *c, struct lane lane, int pool); /* NULL: none */
enum err lanes_at(struct conn *c, int64_t number, const struct lane_row **ret, struct error *e) must_use;
