#pragma once
/* node/scheduler/catch_up.h - takes back what was spawned ahead and became overdue while nobody was running.
 *
 * Before the first claim and before the first visit of the spawner, which then decides on it: else all of it would run late, whatever its
 * catch-up mode says. It is done batch by batch. Each is a transaction that leaves the cursor where nothing is lost; a crash between
 * two of them leaves the rest to the next start. A stall is an outage like any other, and it is done again. Where other nodes were
 * running nothing was missed: what is late there is theirs to run. Until that is known, it waits. */
#include "core/time/moment.h"
#include "port/store.h"

struct catch_up_setup {
    struct writer *writer;
    void (*over)(void *context); /* all was looked at; each time */
    void *context;
};

struct missed;

struct missed *catch_up_new(const struct catch_up_setup *setup, struct moment now);
void catch_up_free(struct missed *m); /* nothing is in flight; NULL is fine */

void catch_up_step(struct missed *m, struct moment now, bool may_ask); /* may_ask: whatever was planned before is in */
int64_t catch_up_next_ms(const struct missed *m); /* when it wants to ask; INT64_MAX: it does not */
void catch_up_look_again(struct missed *m, struct moment now);
void catch_up_wait(struct missed *m); /* for word whether anything was missed: the next call of these two */
void missed_skip(struct missed *m);   /* nothing was */
void catch_up_stop(struct missed *m); /* ask for no more */
bool catch_up_is_over(const struct missed *m);
bool catch_up_in_flight(const struct missed *m);
