#pragma once
/* node/scheduler/spawner.h - creates the occurrences of recurring tasks some time before they are due.
 *
 * A state machine on the loop's thread, owned by the scheduler. A visit walks the recurring tasks whose cursor comes
 * near, page by page, the earliest first, and spawns each. A task that cannot be spawned (its time zone or calendar
 * is gone, the store refuses) is passed over, so that it does not hold up the others, and tried again after a few
 * seconds. */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "node/catalog_cache.h"
#include "port/store.h"
#include "port/zoneinfo.h"

struct spawner_setup {
    struct writer *writer;
    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* calendars; NULL: none */
    struct metrics *metrics;
    int64_t ahead_ms; /* how far ahead; longer than a failover takes */
    int64_t poll_ms;  /* visit at least this often although nobody nudged; 0: never */
    void (*spawned)(void *context, const struct task *occurrence); /* an occurrence was written, or may have been */
    void (*skipped)(void *context, const struct task *occurrence); /* one was written that is not to run; may be NULL */
    void *context;
};

struct spawner;

struct spawner *spawner_new(const struct spawner_setup *setup, struct moment now);
void spawner_free(struct spawner *s); /* nothing is in flight; NULL is fine */

int64_t spawner_step(struct spawner *s, struct moment now); /* when to call again; INT64_MAX: when something happens */
void spawner_nudge(struct spawner *s, int64_t cursor_ms);   /* a recurring task was written or changed */
void spawner_suspend(struct spawner *s, bool hold);         /* true: no more visits. It begins suspended */
void spawner_on_clock_set_back(struct spawner *s, struct moment now); /* visits all recurring tasks again */
/* Partitions of this node; tasks of others are spawned only when it gets late. NULL: all. */
void spawner_set_own(struct spawner *s, const struct partitions *own);
void spawner_drain(struct spawner *s); /* no more visits */
bool spawner_is_idle(const struct spawner *s);
int64_t spawner_next_ms(const struct spawner *s); /* wall: when the next visit is due */
