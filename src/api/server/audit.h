#pragma once
/* api/server/audit.h - the audit rows that requests leave (port/store/audit.h).
 *
 * A request that changes something leaves one row, in the transaction of its first operation that succeeds. Rows are
 * left by routes with ROUTE_WRITES or ROUTE_AUDITED. The other routes that write are those of leases: what a worker did
 * with a task is in the executions. An internal request leaves none: the job that it belongs to left one when it was
 * created. */
#include "api/auth/key_failures.h"
#include "api/server/timers.h"
#include "port/store.h"

struct api_server;
struct request;

/* The row of a request, the same at each call; NULL: it leaves none. op: its first operation, which names the object if
 * the path does not; NULL: the path does. The caller's thread. */
const struct audit *request_audit(struct request *q, const struct op *op);

/* The row for an operation of a request: NULL if that is not an act of the user, or changes nothing. */
const struct audit *request_audit_of(struct request *q, const struct op *op);

/* A key was refused: records it now or when the minute ends. Any thread. */
void audit_key_refusal(struct api_server *s, const struct key_refusal *refusal);

/* Records what is counted and not recorded yet, in the audit table and in the log. True: the next minute begins. Any
 * thread. */
bool audit_record_refused_keys(struct api_server *s);
void audit_on_key_minute(struct timer *timer); /* of the server: a minute of failed keys has ended */

/* A row about an act of Belfry itself, in the tenant `default`. The texts are borrowed. */
struct audit audit_by_system(const char *action, const char *kind, struct str object, int64_t now_ms);
