#pragma once
/* store/common/tally.h - collects changes to the table `counts`, so that a transaction writes them once, however many
 * tasks it moves.
 *
 * Shared by the stores that use SQL. An operation's changes are kept apart until it succeeds: one that fails counts
 * nothing. */
#include "core/task/task.h"

struct tally {
    int32_t tenant;
    int64_t n[TASK_EXPIRED + 1];
};

struct tallies {
    struct tally *v; /* one for each tenant */
    size_t n, cap;
};

void tallies_release(struct tallies *t);
void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n);
/* A task changes its state. Deleted tasks are not counted. */
void tally_move(struct tallies *t, int32_t tenant, bool deleted, enum task_state from, enum task_state to);
/* Adds the changes of `from`, and empties it. */
void tallies_merge(struct tallies *t, struct tallies *from);
void tallies_copy(struct tallies *t, const struct tallies *from); /* replaces the previous contents */
/* By how many the tenant's tasks that are not final have changed. */
int64_t tally_pending(const struct tallies *t, int32_t tenant);
