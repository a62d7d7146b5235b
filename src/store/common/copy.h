#pragma once
/* store/common/copy.h - copies an embedded installation (SQLite) into a PostgreSQL database: tasks with their history,
 * API keys, catalog, pepper.
 *
 * No server may run on either side. The source is locked; the target refuses a server that starts before the copy is
 * complete. Rows are copied in batches of one transaction each, so an interrupted copy resumes where it ended. At the
 * end every table is read back and compared by row count and a checksum over all rows. A task that was RUNNING when the
 * source was killed is copied with its claim: a node of the cluster finds that the claim's node is not alive and counts
 * a loss, as a restart of the source would. */
#include "base/err.h"
#include "port/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum copy_step { COPY_LOOKING /* compares rows that the target already has */, COPY_COPYING, COPY_VERIFYING };

/* tell() is called now and then with the progress of a table, in rows. */
struct copy_progress {
    void (*tell)(void *context, enum copy_step step, const char *table, int64_t done, int64_t total);
    void *context;
};

struct copy_request {
    const char *directory; /* data directory of the source */
    const char *url;       /* of the target, whose schema is migrated first */
    struct clock *clock;
    const struct copy_progress *progress; /* NULL: none */
    bool *ret_has_secrets;                /* NULL, or: whether tasks need the key file of the source */
};

#define COPY_MAP(X)                                                                                                    \
    X(claims)                                                                                                          \
    X(tasks)                                                                                                           \
    X(executions)                                                                                                      \
    X(idempotency)                                                                                                     \
    X(api_keys)                                                                                                        \
    X(catalog)                                                                                                         \
    X(dedupe)                                                                                                          \
    X(slots)                                                                                                           \
    X(edges)                                                                                                           \
    X(joins)                                                                                                           \
    X(arrivals)                                                                                                        \
    X(task_leases)                                                                                                     \
    X(runs) X(definitions) X(workflows) X(outputs) X(signals) X(audit) X(stats) X(hits) X(incident_records)
enum copy_table {
#define X(name) COPY_##name,
    COPY_MAP(X)
#undef X
        COPY_TABLES
};

struct copied {
    const char *table;
    int64_t rows;    /* rows in both stores */
    int64_t added;   /* rows written by this copy; the others were already there */
    uint64_t sum[2]; /* checksum over all rows, equal in both stores */
};

/* ERR_CONFLICT: the target has rows that the source does not have, or that differ. Then nothing was written. */
enum err store_copy(const struct copy_request *r, struct copied ret[COPY_TABLES], struct error *e) must_use;
