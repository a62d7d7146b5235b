#pragma once
/* port/store/breakers.h - circuit breakers that are not closed (core/sharing/breaker.h): OP_BREAKERS. A part of
 * port/store.h. */
#include "core/sharing/breaker.h"
#include "port/store/operation.h"

enum { BREAKER_REASON_MAX = 256, BREAKERS_CHANGE_MAX = 1000 };

/* With this a reason begins if the host asked to be left alone, and its breaker has not opened for its failures. */
#define BREAKER_RETRY_AFTER "Retry-After"

struct breaker_row {
    struct uuid id; /* of this opening: a breaker that closes and opens again later has another one */
    int32_t tenant;
    struct str host;             /* as target_host returns it; BREAKER_ANY_HOST: the tenant's own breaker */
    int64_t opened_ms, until_ms; /* no call goes until then; afterwards one at a time, as a trial */
    int64_t calls, failures;     /* that opened it */
    int64_t reopened;            /* how many times it was opened again before it closed */
    struct str reason;           /* for people: the last failure, at most BREAKER_REASON_MAX bytes */
};

struct breaker_rows {
    struct breaker_row *v;
    size_t n;
};

/* OP_BREAKERS - stores breakers that have opened, and removes those that have closed.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. A breaker that is put is inserted. If its tenant has one for that host, that one stays as it is, unless the new
 *     until_ms is later: then it gets that until_ms and reason, and its `reopened` rises by one.
 *  3. A breaker that is closed is removed: of that tenant, by its id if that is not nil, else by its host. If there is
 *     none, nothing happens, or with `must_exist` the operation fails: ERR_NOT_FOUND.
 *  4. ret_changed: a row was inserted, changed or removed. Then nodes of a shared store get a notice
 *     (store_notice.lanes). */
struct breaker_change {
    struct breaker_row row;
    bool close;
};

struct op_breakers {
    struct op op;
    const struct breaker_change *v; /* no breaker twice; at most BREAKERS_CHANGE_MAX */
    size_t n;
    bool must_exist;
    const struct idempotency *idempotency; /* NULL: none */
    bool ret_changed;
};

/* Breakers by id, descending: the latest that opened first. A filter that is zero does not filter. */
enum breaker_scope { BREAKER_SCOPE_ANY, BREAKER_SCOPE_HOST, BREAKER_SCOPE_TENANT };
struct breaker_filter {
    bool all_tenants;
    int32_t tenant;
    struct str host;
    enum breaker_scope scope;
    struct uuid before; /* only ids below it; nil: from the highest on */
    size_t limit;       /* at most LIST_MAX */
};
