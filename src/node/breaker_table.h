#pragma once
/* node/breaker_table.h - the circuit breakers that are not closed, as all nodes of the store know them.
 *
 * Workers say when one of their breakers opens or recovers (event.breakers). The table writes that to the store
 * (OP_BREAKERS), closes the lanes of the host (lanes_open_breaker) or opens them, and follows what other nodes write.
 * So a breaker survives a restart, and what one node finds out holds for all. The breakers of the worker in this
 * process are kept equal to the table.
 *
 * A worker may hold calls although the table has no such breaker: a user has closed it, and the worker does not know.
 * Then the lanes of the host are closed for a moment at a time, and nothing is written. */
#include "core/sharing/breaker.h"
#include "node/pending_op.h"
#include "node/scheduler/lanes.h"
#include "port/events.h"

struct breaker_table_setup {
    struct writer *writer;
    struct lanes *lanes;
    struct breakers *own; /* of the worker in this process */
    uint64_t seed;
};

struct breaker_table;

struct breaker_table *breaker_table_new(const struct breaker_table_setup *setup);
void breaker_table_free(struct breaker_table *t); /* nothing is in flight; NULL is fine */

/* An outcome with news of breakers. */
void breaker_table_on_news(struct breaker_table *t, const struct event *e, struct moment now);
/* All breakers in the store, read a moment ago. What was changed here since then stays. Those whose time ended a day
 * ago are removed: nobody calls that host any more. */
void breaker_table_follow(struct breaker_table *t, const struct breaker_row *rows, size_t n, struct moment now);
/* A user has closed it: the store no longer has it. */
void breaker_table_on_closed(struct breaker_table *t, int32_t tenant, struct str host, struct moment now);

/* The clock was set back to now_ms, by so much: nobody waits longer for it. */
void breaker_table_on_clock_set_back(struct breaker_table *t, int64_t by_ms, int64_t now_ms);

/* Writes what has changed. Returns when to call again, in wall time. */
int64_t breaker_table_step(struct breaker_table *t, struct moment now);
bool breaker_table_is_idle(const struct breaker_table *t);

/* NULL: there is none. Valid until the next call that changes the table. */
const struct breaker_row *breaker_table_find(const struct breaker_table *t, int32_t tenant, struct str host);
/* All of them, in no order; an empty host is the tenant's own. How often they held a task is not known. */
void breaker_table_each(const struct breaker_table *t, int64_t now_ms,
                        void (*see)(void *context, const struct breaker_view *b), void *context);
