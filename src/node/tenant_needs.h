#pragma once
/* node/tenant_needs.h - which needs (labels, CPU, memory) the tasks of each tenant have.
 *
 * Each combination makes lanes of its own, and a lane costs memory and work on every node for as long as the store
 * lasts. So a tenant may have TENANT_NEEDS_MAX of them. They are learned from the lanes of the store, and counted when
 * a task with new ones is accepted. Nodes that accept tasks at the same moment may go beyond the limit by a few.
 *
 * Any thread calls these functions. */
#include "core/task/task.h"

enum { TENANT_NEEDS_MAX = 256 };

struct tenant_needs;

struct tenant_needs *tenant_needs_new(void);
void tenant_needs_free(struct tenant_needs *n); /* NULL is fine */

void tenant_needs_know(struct tenant_needs *n, const struct lane *lanes, size_t count);

/* False: the tenant has as many as it may have, and these are not among them. A task without needs always passes. */
bool tenant_needs_accept(struct tenant_needs *n, const struct task *t);
