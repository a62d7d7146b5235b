#pragma once
/* api/live/live_filter.h - which tasks the streams of a tenant want, and how many of those were folded.
 *
 * Streams that ask for the same tasks share a filter. A stream without a filter wants all tasks. A task that is folded
 * costs one addition, and one more for each filter that wants it, however many streams there are. Pure; the caller has
 * the lock. */
#include "base/list.h"
#include "base/str.h"
#include "base/uuid.h"

/* Those of a tenant. */
struct live_filters {
    struct list v;
    uint64_t ids, queues; /* bits of the names in the filters: a task without one of them is wanted by no filter */
    uint64_t folded;      /* tasks */
};

struct live_filter {
    struct list link;
    size_t stream_count;
    struct uuid task; /* this task and its occurrences; nil: any */
    struct str queue; /* empty: any; the text follows the struct */
    uint64_t folded;  /* tasks that it wants */
};

void live_filters_init(struct live_filters *all);

/* For one more stream. NULL: it wants all tasks. */
struct live_filter *live_filters_join(struct live_filters *all, struct uuid task, struct str queue);
void live_filters_leave(struct live_filters *all, struct live_filter *f); /* NULL is fine */

bool live_filter_wants(const struct live_filter *f, struct uuid id, struct uuid parent, struct str queue);
/* Whether one of the filters wants it. */
bool live_filters_want(const struct live_filters *all, struct uuid id, struct uuid parent, struct str queue);

/* A task is not shown to any stream. */
void live_filters_fold(struct live_filters *all, struct uuid id, struct uuid parent, struct str queue);
/* How many tasks were folded that a stream with this filter wants. */
uint64_t live_filters_folded(const struct live_filters *all, const struct live_filter *f);
