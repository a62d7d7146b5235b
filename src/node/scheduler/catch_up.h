#pragma once
/* node/scheduler/catch_up.h - withdraws occurrences that were spawned ahead and became overdue while no node was
 * running.
 *
 * It runs before the first claim and before the spawner's first visit. The spawner then decides on each withdrawn
 * occurrence by the catch-up mode of its recurring task; otherwise all of them would run late, whatever the mode
 * says.
 *
 * It works in batches. Each batch is a transaction that leaves the cursor where nothing is lost, so a crash between
 * two batches leaves the rest to the next start. After a stall it runs again: a stall is an outage like any other. If
 * other nodes were running, nothing was missed, and late tasks are theirs to run; until that is known, it waits. */
#include "core/time/moment.h"
#include "port/store.h"

struct catch_up_setup {
    struct writer *writer;
    void (*over)(void *context); /* every overdue occurrence was seen; called each time that happens */
    void *context;
};

struct catch_up_run;

struct catch_up_run *catch_up_new(const struct catch_up_setup *setup, struct moment now);
void catch_up_free(struct catch_up_run *c); /* nothing is in flight; NULL is fine */

/* may_ask: no claim and no spawn that was planned earlier is in flight. */
void catch_up_step(struct catch_up_run *c, struct moment now, bool may_ask);
int64_t catch_up_next_ms(const struct catch_up_run *c); /* wall: when it wants to send; INT64_MAX: it does not */

void catch_up_begin(struct catch_up_run *c, struct moment now); /* there was an outage: look for overdue occurrences */
void catch_up_wait(struct catch_up_run *c);                     /* until catch_up_begin or catch_up_skip is called */
void catch_up_skip(struct catch_up_run *c);                     /* other nodes were running: nothing was missed */
void catch_up_stop(struct catch_up_run *c);                     /* sends no more operations */
bool catch_up_is_over(const struct catch_up_run *c);
bool catch_up_in_flight(const struct catch_up_run *c);
