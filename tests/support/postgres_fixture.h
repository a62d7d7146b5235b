#pragma once
/* tests/support/postgres_fixture.h - databases on the server in BELFRY_TEST_POSTGRES: see with-postgres. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "platform/clock_system.h"
#include "store/postgres/store_postgres.h"

enum { POSTGRES_URL = 512 };

static inline const char *postgres_server(void)
{
    const char *url = getenv("BELFRY_TEST_POSTGRES");
    if (!url) {
        fprintf(stderr, "BELFRY_TEST_POSTGRES names no server: run this by tests/support/with-postgres\n");
        exit(2);
    }
    return url;
}

/* The server's address with another database name. */
static inline void postgres_url(const char *database, char out[POSTGRES_URL])
{
    const char *server = postgres_server();
    const char *slash = strrchr(server, '/');
    snprintf(out, POSTGRES_URL, "%.*s/%s", (int)(slash - server), server, database);
}

static inline void postgres_ignore(void *context, const char *notice)
{
    (void)context;
    (void)notice;
}

/* Runs statements, which must succeed. Stores the first column of the first row in `ret`, unless it is NULL. */
static inline void postgres_get(const char *url, const char *sql, char *ret, size_t size)
{
    PGconn *c = PQconnectdb(url);
    PQsetNoticeProcessor(c, postgres_ignore, NULL);
    PGresult *r = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    if (ret)
        snprintf(ret, size, "%s", PQntuples(r) ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    PQfinish(c);
}

static inline void postgres_run(const char *url, const char *sql)
{
    postgres_get(url, sql, NULL, 0);
}

static inline int64_t postgres_number(const char *url, const char *sql)
{
    char text[32];
    postgres_get(url, sql, text, sizeof text);
    return atoll(text);
}

/* An empty database for this process; `name` distinguishes several. */
static inline void postgres_make(const char *name, char out_url[POSTGRES_URL])
{
    char sql[256], database[64];
    snprintf(database, sizeof database, "belfry_%d_%s", (int)getpid(), name);
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", database);
    postgres_run(postgres_server(), sql);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s", database);
    postgres_run(postgres_server(), sql);
    postgres_url(database, out_url);
}

static inline void postgres_drop(const char *url)
{
    char sql[256];
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", strrchr(url, '/') + 1);
    postgres_run(postgres_server(), sql);
}

/* Deletes all rows and keeps the schema: much faster than a new database. */
static inline void postgres_wipe(const char *url)
{
    postgres_run(url,
                 "SET belfry.audit_purge = 'on'; "
                 "DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND "
                 "NOT relispartition AND relnamespace = 'public'::regnamespace AND relname <> 'schema_migrations' "
                 "LOOP EXECUTE 'DELETE FROM ' || t; END LOOP; END $$");
}

static inline enum err postgres_store_open(const char *url, struct store **ret, struct error *e)
{
    return store_postgres_open(&(struct store_postgres_setup){ .url = url, .clock = clock_system(), .migrate = true },
                               ret, e);
}

/* ---- another session ---- */

static inline PGconn *postgres_session(const char *url)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(c));
    return c;
}

static inline void postgres_say(PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    PQclear(r);
}

static inline void postgres_wait_for(const char *url, const char *condition)
{
    char sql[512];
    snprintf(sql, sizeof sql, "SELECT (%s)::int", condition);
    for (int i = 0; i < 4000; i++) {
        if (postgres_number(url, sql))
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    fail_msg("never: %s", condition);
}

/* True if a session of this database waits for a lock. */
#define POSTGRES_BLOCKED                                                                                               \
    "EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
