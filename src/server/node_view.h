#pragma once
/* server/node_view.h - a copy of the node's status for other threads. The loop thread updates it after each step. */
#include "base/tenant_metrics.h"
#include "core/sharing/workers_wanted.h"
#include "core/stats/alert_rules.h"
#include "node/node.h"

struct node_view;

struct node_view *node_view_new(void);
void node_view_free(struct node_view *v); /* NULL is fine */

void node_view_update(struct node_view *v, struct node *n, int64_t now_ms); /* loop thread */

/* Any thread may call the functions below. */
struct node_status node_view_status(struct node_view *v);
void node_view_breakers(struct node_view *v, struct jw *w); /* a JSON array of breakers that are not closed */
/* A JSON array of all nodes of the store: this node as of now, the others as of their last heartbeats. */
void node_view_nodes(struct node_view *v, int64_t now_ms, struct jw *w);
/* Due tasks that nodes have claimed and not started: this node's as of now, the others' as of their heartbeats. */
int64_t node_view_waiting(struct node_view *v);
/* Of all nodes, without time and backlog; m: of this node. */
struct workload node_view_workload(struct node_view *v, const struct metrics *m);
int64_t node_view_busy_milli(struct node_view *v, const struct metrics *m); /* of all nodes: slots in use */
struct alert_facts node_view_alert_facts(struct node_view *v);
double node_view_wanted_before(struct node_view *v); /* the workers that the last other leader wanted; 0: not known */
void node_view_set_running(struct node_view *v, struct tenant_metrics *to); /* TENANT_RUNNING */
int64_t node_view_running_of(struct node_view *v, int32_t tenant);          /* of this node, as of half a second ago */
/* Lines of /metrics: belfry_partition_due of each node with partitions. */
void node_view_print_due(struct node_view *v, const int64_t by_partition[PARTITIONS], struct buf *out);
/* Whether every node that lives can run workflows. A node of an older version cannot. */
bool node_view_all_run_workflows(struct node_view *v);
/* The same for hits and notifications, and for signing keys. */
bool node_view_all_notify(struct node_view *v);
bool node_view_all_sign(struct node_view *v);
/* Lines of /metrics that are not in the metrics table: oldest wait of each priority class, clock, leader,
 * partitions, and breakers that are not closed. */
void node_view_metrics(struct node_view *v, int64_t now_ms, struct buf *out);
