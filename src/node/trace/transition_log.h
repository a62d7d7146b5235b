#pragma once
/* node/trace/transition_log.h - a line of the log for each change of a task's state (event `transition`).
 *
 * The setting log.transitions says which changes: none, failures (of attempts and of tasks), or all. A process writes
 * at most TRANSITIONS_A_SECOND lines. It counts the others, and one line each second says how many there were.
 *
 * Who makes a change of a task writes its line. What the store changes together with that, such as tasks whose parents
 * have ended, it tells (port/store/changes.h): none of it is a failure, so only `all` listens.
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
void transition_log_free(struct transition_log *l);          /* NULL is fine */
bool transition_log_listens(const struct transition_log *l); /* transition_log_told is to be called */

/* After the commit. A settlement that is stale changed nothing. */
void transition_log_settled(struct transition_log *l, const struct settle_facts *t, const struct outcome *o,
                            const struct settlement *s);
void transition_log_started(struct transition_log *l, const struct task *t);
void transition_log_created(struct transition_log *l, const struct task *v, size_t n);
/* A user or a gate has changed it; t is as it is now. */
void transition_log_changed(struct transition_log *l, const struct task *t, enum task_state from);
/* As change_listener.told. */
void transition_log_told(struct transition_log *l, const struct task_change *v, size_t n, size_t left_out);

/* Says how many lines were left out, if a second has passed since. To be called about every second. */
void transition_log_tick(struct transition_log *l);
