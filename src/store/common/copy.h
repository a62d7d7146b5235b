#pragma once
/* store/common/copy.h - moves an embedded installation into a PostgreSQL database: tasks and their history, keys, catalog, pepper.
 *
 * Nobody may run on either side: the source is locked, a server that would start on the target is refused while the copy is not done.
 * Rows go over in batches, each its own transaction, so that a copy that was broken off goes on where it ended. Then every table is
 * read back and compared, row for row by a sum over what each holds. What ran when the source was killed goes over with its claim; a
 * node of the cluster finds that its owner does not live, and counts it as lost, as a restart would have. */
#include "base/err.h"
#include "port/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum copy_step { COPY_LOOKING /* at what is there already */, COPY_COPYING, COPY_VERIFYING };

/* Told now and then how far a table is, in rows. */
struct copy_progress {
    void (*tell)(void *context, enum copy_step step, const char *table, int64_t done, int64_t total);
    void *context;
};

struct copy_request {
    const char *directory; /* of the source */
    const char *url;       /* of the target; its schema is brought up to date */
    struct clock *clock;
    const struct copy_progress *progress; /* NULL: none */
};

#define COPY_MAP(X)                                                                                                    \
    X(claims) X(tasks) X(executions) X(idempotency) X(api_keys) X(catalog) X(dedupe) X(slots) X(task_leases)
enum copy_table {
#define X(name) COPY_##name,
    COPY_MAP(X)
#undef X
        COPY_TABLES
};

struct copied {
    const char *table;
    int64_t rows;    /* that both have */
    int64_t added;   /* this time: the others were there */
    uint64_t sum[2]; /* over all rows, the same on both sides */
};

/* ERR_CONFLICT: the target has rows that the source has not, or not so: nothing was written then. */
enum err store_copy(const struct copy_request *r, struct copied ret[COPY_TABLES], struct error *e) must_use;
