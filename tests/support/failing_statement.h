#pragma once
/* tests/support/failing_statement.h - interrupts a statement of SQLite, on any connection of this process. */
#include <sqlite3.h>
#include <stdint.h>

static int64_t failing_statement_left = INT64_MAX;

static inline int failing_statement_on_step(void *context)
{
    (void)context;
    return failing_statement_left != INT64_MAX && failing_statement_left-- <= 0;
}

static inline int failing_statement_on_open(sqlite3 *db, char **message, const void *api)
{
    (void)message;
    (void)api;
    sqlite3_progress_handler(db, 1, failing_statement_on_step, NULL);
    return SQLITE_OK;
}

/* For the connections that are opened from now on. */
static inline void failing_statement_begin(void)
{
    sqlite3_auto_extension((void (*)(void))failing_statement_on_open);
}

/* The first n steps from now on succeed; INT64_MAX: all do. */
static inline void failing_statement_after(int64_t n)
{
    failing_statement_left = n;
}

static inline void failing_statement_end(void)
{
    sqlite3_cancel_auto_extension((void (*)(void))failing_statement_on_open);
}
