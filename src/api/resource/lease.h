#pragma once
/* api/resource/lease.h - what the requests of external workers share: acquire a lease (lease_acquire.c), extend it and
 * report how its task ended (lease_reports.c). A lease is a task with the target WORKER that a worker has.
 *
 * The id of a lease is its task and fence, sealed for the API key that took it (api/server/seal.h), so nothing is
 * stored for it here. If the fence is no longer the task's, the lease has ended. The thread that owns the request. */
#include "api/server/request.h"
#include "api/server/seal.h"
#include "base/json/json.h"

enum { LEASE_DEFAULT_MS = 60000, LEASE_MIN_MS = 1000, LEASE_MAX_MS = 24 * 3600 * 1000 };

struct str lease_format_id(const struct request *q, const struct task *t, char out[SEAL_TEXT_MAX + 1]);
/* False: it is no lease of this API key. */
bool lease_parse_id(const struct request *q, struct str text, struct fenced_id *ret);

/* A worker may extend its lease until the timeout of the task. */
int64_t lease_deadline_ms(const struct task *t);

/* Reads the fields of the body into a struct. Texts live in the request's arena. */
enum err lease_read_body(struct request *q, const struct json_field *fields, size_t count, void *into,
                         struct error *e) must_use;
