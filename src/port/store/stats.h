#pragma once
/* port/store/stats.h - the figures of each minute, by node and tenant: OP_STATS. A part of port/store.h. */
#include "base/stats/stats.h"
#include "base/uuid.h"
#include "port/store/operation.h"

enum {
    STATS_ROWS_MAX = STATS_TENANTS_MAX + 2, /* of one operation: the tenants, STATS_OTHER and STATS_ALL */
    STATS_NODES_MS = 600000,                /* so long the rows of nodes are kept apart, */
    STATS_MINUTES_MS = 86400000,            /* and so long the minutes */
    STATS_KEPT_MS = 604800000,
    STATS_READ_MAX = 20000, /* points of one read */
};

/* What a row is about. */
enum stats_grain { STATS_OF_NODE, STATS_OF_MINUTE, STATS_OF_HOUR };

struct stats_row {
    int64_t minute_ms; /* the begin of the minute or hour */
    struct uuid node;  /* all bits set: several nodes */
    int32_t tenant;    /* STATS_ALL: all tenants together, and what belongs to none; STATS_OTHER */
    enum stats_grain grain;
    int64_t written; /* rises with each OP_STATS of the node; 0: several nodes */
    struct stats stats;
};

/* OP_STATS - adds a node's figures of one minute to those that are stored.
 *
 *  1. If the node has a row of that minute and tenant, the figures are added to it (stats_add): a clock that was set
 *     back makes a minute occur twice.
 *  2. A row whose `written` is not above that of the stored row is there already, and changes nothing: the operation
 *     can be repeated.
 *  3. `grain` of the rows is STATS_OF_NODE.
 *
 * OP_PURGE merges rows: port/store/retention.h. */
struct op_stats {
    struct op op;
    const struct stats_row *v; /* no minute and tenant twice */
    size_t n;                  /* at most STATS_ROWS_MAX */
};

/* The figures of a tenant from `from_ms` on and before `to_ms`, added up by step_ms: a point begins at from_ms plus a
 * whole number of steps, and has the rows that begin in it. Points without rows are left out. */
struct stats_filter {
    int32_t tenant;
    int64_t from_ms, to_ms, step_ms; /* step_ms is a multiple of STATS_MINUTE_MS; at most STATS_READ_MAX steps */
};

struct stats_point {
    int64_t at_ms;
    struct stats stats;
};

struct stats_points {
    struct stats_point *v; /* by at_ms */
    size_t n;
};

/* For stores: the most points that a read returns. For OP_PURGE: rows of this grain that begin before the result are
 * merged into the next coarser one, or deleted. */
size_t stats_points_max(const struct stats_filter *f);
int64_t stats_old_before(enum stats_grain grain, int64_t now_ms);
