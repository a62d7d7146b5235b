#pragma once
/* port/store/audit.h - the audit table: who did what, from where. A part of port/store.h.
 *
 * An operation that carries a struct audit (op.audit) writes one row:
 *
 *  1. The row is written in the transaction of the operation, and only if that succeeds. An OP_SETTLE whose first
 *     settlement is stale writes none.
 *  2. The requester makes the id; a row with the same id is stored once. So several operations of one request, and an
 *     operation that is repeated because its answer was lost, leave one row.
 *  3. at_ms is the time of the id: rows are in the order of their ids.
 *  4. The store sets strand and seq. Each open store is a strand of its own. seq rises within it; a transaction that
 *     fails leaves a gap.
 *  5. Rows are not changed, and only OP_PURGE deletes them. A store that can refuses every other UPDATE and DELETE. */
#include "base/str.h"
#include "base/uuid.h"

enum audit_outcome {
    AUDIT_DONE,
    AUDIT_REFUSED /* only of API keys that are missing in the store, expired or wrong */
};

struct audit {
    struct uuid id;
    int32_t tenant; /* of the actor; of an act on an API key: of that key */
    struct uuid strand;
    int64_t seq;
    int64_t at_ms;
    struct str actor;                   /* the id of the API key, cert:NAME, or "system" */
    struct str address;                 /* of the client; empty: the act came from within */
    struct str action;                  /* method and pattern of the route, or the name of an internal act */
    struct str kind;                    /* of the object: "task" */
    struct str object;                  /* its id or name; empty: none */
    struct str actor_name, object_name; /* as they were then; empty: none, or the row is from before names were kept */
    struct str details;                 /* JSON object: reason and end that the act was given; empty: none */
    uint8_t digest[32];                 /* SHA-256 of the request's body */
    enum audit_outcome outcome;
    int64_t count; /* of a batch: how many tasks; of refused keys: how many since the last row of the address */
};

/* Newest first, by id, descending. A filter that is zero does not filter. */
struct audit_filter {
    int32_t tenant; /* 0: all */
    struct str actor, object;
    struct str action;      /* whole, or a prefix when it ends in '*' */
    int64_t from_ms, to_ms; /* from <= at_ms < to */
    struct uuid before;     /* only ids below it; nil: from the newest on */
    size_t limit;           /* at most LIST_MAX */
};

/* A store reads AUDIT_SCAN_MAX rows at most for a page. If it finds fewer than `limit` among them, and there are older
 * ones, the page has fewer rows, and `more`. */
enum { AUDIT_SCAN_MAX = 50000 };
struct audit_page {
    struct audit *v;
    size_t n;
    bool more;
    struct uuid next_before; /* if more */
};

/* For stores: the range of ids that a filter allows, lowest <= id < below, and its action without the '*'. */
struct audit_range {
    struct uuid lowest, below;
    struct str action;
    bool is_prefix;
};
struct audit_range audit_range_of(const struct audit_filter *f);
