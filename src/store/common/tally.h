#pragma once
/* store/common/tally.h - changes to the table `counts`, gathered: a transaction writes them once, however many tasks it moves.
 *
 * Shared by the stores that speak SQL. What an operation changes is kept apart until it is done: one that fails has counted nothing. */
#include "core/task/task.h"

struct tally {
    int32_t tenant;
    int64_t n[TASK_EXPIRED + 1];
};

struct tallies {
    struct tally *v; /* one a tenant */
    size_t n, cap;
};

void tallies_release(struct tallies *t);
void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n);
/* One task of the tenant changes its state; deleted ones are not counted. */
void tally_move(struct tallies *t, int32_t tenant, bool deleted, enum task_state from, enum task_state to);
/* Adds what `from` has, and leaves it empty. */
void tallies_keep(struct tallies *t, struct tallies *from);
void tallies_copy(struct tallies *t, const struct tallies *from); /* what it had is gone */
/* How many tasks that are not final the tenant has gained. */
int64_t tally_pending(const struct tallies *t, int32_t tenant);
