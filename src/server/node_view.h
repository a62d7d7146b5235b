#pragma once
/* server/node_view.h - what other threads may know of the node: a copy, made on the node's thread after its steps. */
#include "node/node.h"

struct node_view;

struct node_view *node_view_new(void);
void node_view_free(struct node_view *v); /* NULL is fine */

void node_view_update(struct node_view *v, struct node *n, int64_t now_ms); /* on the node's thread */

/* From any thread. */
struct node_status node_view_status(struct node_view *v);
void node_view_breakers(struct node_view *v, struct jw *w); /* an array: those that are not closed */
/* An array: all nodes of the store, this one as it is now, the others as they told with their last beats. */
void node_view_nodes(struct node_view *v, int64_t now_ms, struct jw *w);
/* Lines of /metrics that no table of numbers has: the oldest wait of each class, and breakers that are not closed. */
void node_view_metrics(struct node_view *v, int64_t now_ms, struct buf *out);
