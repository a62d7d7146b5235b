#pragma once
/* api/server/audit.h - the audit rows that requests leave (port/store/audit.h).
 *
 * A request that changes something leaves one row, in the transaction of its first operation that succeeds. Rows are
 * left by routes with ROUTE_WRITES. The other routes that write are those of leases: what a worker did with a task is
 * in the executions. An internal request leaves none: the job that it belongs to left one when it was created. */
#include "http/peers.h"
#include "port/store.h"

struct api_server;
struct request;

/* The row of a request, the same at each call; NULL: it leaves none. op: its first operation, which names the object if
 * the path does not; NULL: the path does. The caller's thread. */
const struct audit *request_audit(struct request *q, const struct op *op);

/* The row for an operation of a request: NULL if that is not an act of the user, or changes nothing. */
const struct audit *request_audit_of(struct request *q, const struct op *op);

/* Leaves a row about API keys that were refused: `count` of them came from this address since the last row. Any
 * thread. */
void audit_refused_keys(struct api_server *s, const union peer *peer, const char *reason, int64_t count);

/* A row about an act of Belfry itself, in the tenant `default`. The texts are borrowed. */
struct audit audit_by_system(const char *action, const char *kind, struct str object, int64_t now_ms);
