#pragma once
/* node/tenant_needs.h - how many lanes a tenant may cause: by the needs of its tasks, and by the hosts for which tasks
 * are put aside.
 *
 * Each combination of needs (labels, CPU, memory) and each host makes lanes of its own, and a lane costs memory and
 * work on every node. Both are learned from the lanes of the store, and counted when a new one comes. If one was
 * refused, those that no task of a lane has any more are forgotten. Nodes that accept new ones at the
 * same moment may go beyond the limit by a few.
 *
 * Any thread calls these functions. */
#include "core/task/task.h"
#include "node/tenant_set.h"

enum { TENANT_NEEDS_MAX = 256, TENANT_HOSTS_MAX = 1000 };

void tenant_needs_know(struct tenant_set *needs, const struct lane *lanes, size_t count);
/* False: the tenant has as many as it may have, and these are not among them. A task without needs always passes. */
bool tenant_needs_accept(struct tenant_set *needs, const struct task *t);

/* In this lane wait tasks of all hosts that have none of their own. No host has that name. */
#define TENANT_HOSTS_OTHERS "*others"
void tenant_hosts_know(struct tenant_set *hosts, const struct lane *lanes, size_t count);
struct str tenant_hosts_lane(struct tenant_set *hosts, int32_t tenant, struct str host); /* borrowed, or static */
