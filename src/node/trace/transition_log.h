#pragma once
/* node/trace/transition_log.h - a line of the log for each change of a task's state (event `transition`).
 *
 * The setting log.transitions says which changes: none, failures (of attempts and of tasks), or all. A process writes
 * at most TRANSITIONS_A_SECOND lines. It counts the others, and one line each second says how many there were. Changes
 * that the store makes by itself, such as the release of a task whose parents have ended, have no line.
 *
 * A NULL log writes nothing. Any thread. */
#include "base/metrics.h"
#include "port/clock.h"
#include "port/events.h"
#include "port/store.h"

enum { TRANSITIONS_A_SECOND = 1000 };

/* In the order of the choices of log.transitions. */
enum transitions { TRANSITIONS_NONE, TRANSITIONS_FAILURES, TRANSITIONS_ALL };

struct transition_log_setup {
    enum transitions which;
    struct str node; /* host and process; borrowed */
    struct clock *clock;
    struct metrics *metrics;
};

struct transition_log;

struct transition_log *transition_log_new(const struct transition_log_setup *setup);
void transition_log_free(struct transition_log *l); /* NULL is fine */

/* After the commit. A settlement that is stale changed nothing. */
void transition_log_settled(struct transition_log *l, const struct settle_facts *t, const struct outcome *o,
                            const struct settlement *s);
void transition_log_started(struct transition_log *l, const struct task *t);
void transition_log_created(struct transition_log *l, const struct task *v, size_t n);
/* A user or a gate has changed it; t is as it is now. */
void transition_log_changed(struct transition_log *l, const struct task *t, enum task_state from);

/* Says how many lines were left out, if a second has passed since. To be called about every second. */
void transition_log_tick(struct transition_log *l);
