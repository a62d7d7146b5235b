#pragma once
/* server/backlog.h - how many due tasks wait, over all nodes: by priority class, and by queue.
 *
 * One node measures for all: the leader, or the only one. It counts the due tasks in the store that a claim could take,
 * without those of paused queues and disabled tenants, and adds what nodes have claimed and not started. Counting may
 * take long, so it has a thread and a reader of its own; it counts every 5 s, or less often if that is slow.
 * With each count it computes how many workers are wanted. */
#include "base/stats/stats.h"
#include "core/sharing/workers_wanted.h"
#include "node/catalog_cache.h"
#include "port/clock.h"
#include "port/store.h"

struct backlog_setup {
    struct store *store;
    struct catalog_cache *catalog;
    struct clock *clock;
    /* Called on the backlog's thread: whether this node measures; tasks that are claimed, or in a fleet's queue, and
     * not started. */
    bool (*is_mine)(void *context);
    int64_t (*waiting)(void *context);
    struct workload (*workload)(void *context); /* without time and backlog */
    double (*wanted_before)(void *context);     /* workers that the last other leader wanted; 0: not known */
    /* After each count, and after each look that found that this node does not measure. */
    void (*counted)(void *context, bool is_mine, struct reader *r);
    int64_t (*busy_milli)(void *context, struct reader *r); /* thousandths of all worker slots that are in use */
    /* Any thread: prints belfry_partition_due of the nodes. */
    void (*print_due)(void *context, const int64_t by_partition[PARTITIONS], struct buf *out);
    void *context;
    struct metrics *metrics; /* gets belfry_workers_wanted and the backlog of tenants */
};

struct backlog;

enum err backlog_new(const struct backlog_setup *setup, struct backlog **ret, struct error *e) must_use;
void backlog_free(struct backlog *b); /* NULL is fine */

/* When the backlog was last counted, or this node began to count it; 0: it does not. Any thread. */
int64_t backlog_counted_ms(struct backlog *b);

/* Lines of /metrics; none if this node does not measure. Any thread; does not wait for the store. */
void backlog_print(struct backlog *b, struct buf *out);
/* Due tasks of a tenant that wait in the store; -1: this node does not measure. Any thread; does not wait. */
int64_t backlog_of_tenant(struct backlog *b, int32_t tenant);
int64_t backlog_folded(struct backlog *b); /* queues without a line of their own */

/* Adds what was counted last to the figures of this minute, and of its tenants. Nothing if this node does not measure.
 * Any thread. */
void backlog_measure_stats(struct backlog *b, struct stats *all, struct stats_counters *tenants);
/* For busy_milli: of the workers of a fleet, as they last reported. */
int64_t backlog_busy_workers(struct reader *r, int64_t now_ms);
